"""A scaler from outside is any module with a fit and a call; ours opens its inputs and lists it."""

import numpy as np
import pytest
import torch
from scaling_cases import with_unknown

from socrates.scaling import SCALERS, TemperatureScaling
from socrates.scaling.outside import OutsideScaler, outside_scalers

LOGITS, LABELS = with_unknown(50, 4, 1.7, 1.0)


class Halved(torch.nn.Module):
    title, short, needs_unknown_class = "halved", "HV", False

    def fit(self, logits, labels, *, unknown_class=False):
        self.seen = logits.dtype, labels.dtype, len(labels), unknown_class
        return self

    def forward(self, logits):
        return logits / 2


class Rare(Halved):
    usual = False


class OfUnknown(Halved):
    needs_unknown_class = True


class Ours(TemperatureScaling):
    title, short = "ours", "OU"


def test_it_is_fitted_and_called_in_single_precision():
    scaler = OutsideScaler(Halved()).fit(LOGITS.double(), LABELS, unknown_class=True)
    assert scaler.module.seen == (torch.float32, torch.int64, 50, True)
    assert scaler.report is not None
    assert (scaler.report.num_samples, scaler.report.num_iterations) == (50, 0)
    assert scaler.report.gradient_norm == 0
    assert np.isnan([scaler.report.nll_before, scaler.report.nll_after]).all()
    assert torch.equal(scaler.transform(LOGITS.double()), LOGITS / 2)


def test_weights_are_refused_by_the_name_of_the_module():
    with pytest.raises(ValueError, match=r"Halved .*sample_weight"):
        OutsideScaler(Halved()).fit(LOGITS, LABELS, sample_weight=np.arange(1.0, 51.0))


@pytest.mark.parametrize(
    ("unknown_class", "names"), [(False, ["halved", "ours"]), (True, ["unknown", "halved", "ours"])]
)
def test_the_usual_ones_that_fit_the_columns_are_listed(unknown_class, names, monkeypatch):
    added = {"rare": Rare, "unknown": OfUnknown, "halved": Halved, "ours": Ours}
    for name, kind in added.items():
        monkeypatch.setitem(SCALERS, name, kind)
    listed = outside_scalers(unknown_class)
    assert list(listed) == names
    assert isinstance(listed["halved"], OutsideScaler)
    assert type(listed["ours"]) is Ours
