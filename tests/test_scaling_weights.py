"""Weights count samples: whole ones as repeated rows, ones as none at all."""

import warnings

import numpy as np
import pytest
import torch
from scaling_cases import matrix_map, mixed, sampled, structured_map, with_unknown

from socrates.scaling import (
    SCALERS,
    BetaScaling,
    EnsembleTemperatureScaling,
    IsotonicScaling,
    MatrixScaling,
    ReadoutScaling,
    StructuredScaling,
    TemperatureScaling,
    VectorScaling,
    best,
)
from socrates.scaling.held_out import mean_and_error

KINDS = {
    "temperature": TemperatureScaling,
    "vector": VectorScaling,
    "vector without penalty": lambda: VectorScaling(None),
    "matrix": lambda: MatrixScaling(0.01),
    "structured": lambda: StructuredScaling(1.0),
    "structured diagonal": lambda: StructuredScaling(0.3, "diagonal"),
    "ensemble": EnsembleTemperatureScaling,
    "isotonic": IsotonicScaling,
    "beta": BetaScaling,
    "readout": ReadoutScaling,
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def data_for(kind, rows=1500, seed=0):
    if kind == "readout":
        return with_unknown(rows, 4, 1.7, 1.0, seed)
    return sampled(rows, 2 if kind == "beta" else 4, 1.7, seed, torch.float64)


def whole_weights(rows, labels, seed=1):
    """Weights from 0 to 3 that depend on the label, so that they move every fit."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(0, 3, (rows,), generator=generator)
    return drawn + (labels == 0).long()


def close(first, second, logits):
    return float((first(logits).log_softmax(1) - second(logits).log_softmax(1)).abs().max())


@every_kind
def test_whole_weights_equal_repeated_rows(kind):
    logits, labels = data_for(kind)
    weight = whole_weights(len(labels), labels)
    weighted = KINDS[kind]().fit(logits, labels, sample_weight=weight)
    repeated = KINDS[kind]().fit(
        logits.repeat_interleave(weight, dim=0), labels.repeat_interleave(weight)
    )
    assert weighted.report.converged
    assert close(weighted, repeated, logits) < 2e-5
    assert weighted.report.nll_before == pytest.approx(repeated.report.nll_before, rel=1e-9)
    assert weighted.report.nll_after == pytest.approx(repeated.report.nll_after, abs=1e-8)
    assert weighted.report.num_samples == int((weight > 0).sum())
    plain = KINDS[kind]().fit(logits, labels)
    assert close(weighted, plain, logits) > 1e-3


@pytest.mark.parametrize("make", [matrix_map, structured_map])
def test_cross_validated_strengths_are_those_of_repeated_rows(make):
    logits, labels = mixed(2000, 4, strength=0.3)
    weight = 1 + (labels == 0).long()
    weighted = make().fit(logits, labels, sample_weight=weight)
    repeated = make().fit(logits.repeat_interleave(weight, dim=0), labels.repeat_interleave(weight))
    assert weighted.strength == repeated.strength < float("inf")
    assert close(weighted, repeated, logits) < 1e-4


@every_kind
def test_ones_change_no_bit(kind):
    logits, labels = data_for(kind, 300)
    plain = KINDS[kind]().fit(logits, labels)
    for ones in (torch.ones(300), np.ones(300), [1] * 300):
        weighted = KINDS[kind]().fit(logits, labels, sample_weight=ones)
        assert weighted.report == plain.report
        for name, value in plain.named_buffers():
            assert torch.equal(weighted.get_buffer(name), value)


@every_kind
def test_samples_of_weight_0_are_left_out_whatever_they_hold(kind):
    logits, labels = data_for(kind, 300)
    weight = np.ones(300)
    weight[::3] = 0
    spoiled = logits.clone()
    spoiled[::3] = torch.nan
    wrong = labels.clone()
    wrong[::3] = 99
    kept = torch.as_tensor(weight > 0)
    weighted = KINDS[kind]().fit(spoiled, wrong, sample_weight=weight)
    fewer = KINDS[kind]().fit(logits[kept], labels[kept])
    assert weighted.report.num_samples == 200
    assert close(weighted, fewer, logits) < 2e-5


@pytest.mark.parametrize("size", [0.01, 3.0])
@pytest.mark.parametrize("kind", ["temperature", "ensemble", "beta"])
def test_without_a_penalty_only_ratios_of_weights_matter(kind, size):
    logits, labels = data_for(kind, 400)
    weight = 1 + labels.double()
    first = KINDS[kind]().fit(logits, labels, sample_weight=weight)
    second = KINDS[kind]().fit(logits, labels, sample_weight=size * weight)
    assert close(first, second, logits) < 1e-6


def test_a_class_that_weighs_nothing_is_a_class_without_labels():
    logits, labels = sampled(400, 4, 1.7)
    weight = (labels != 3).double()
    scaler = VectorScaling().fit(logits, labels, sample_weight=weight)
    temperature = TemperatureScaling().fit(logits[labels != 3], labels[labels != 3])
    assert float(scaler.bias[3]) == 0
    assert float(scaler.scale[3] * temperature.temperature) == pytest.approx(1)


def test_the_unknown_column_is_ruled_out_with_weights_too():
    logits, labels = with_unknown(600, 4, 1.7, 1.0)
    weight = whole_weights(600, labels)
    weighted = VectorScaling().fit(logits, labels, unknown_class=True, sample_weight=weight)
    rows = logits.repeat_interleave(weight, dim=0)
    repeated = VectorScaling().fit(rows, labels.repeat_interleave(weight), unknown_class=True)
    assert float(weighted.bias[-1]) == pytest.approx(float(repeated.bias[-1]), abs=1e-4)


def test_weights_choose():
    """Where the rows that need a bias weigh little, temperature scaling is enough."""
    logits, labels = sampled(1200, 3, 1.5)
    logits[600:, 0] += 4
    weight = np.r_[np.full(600, 1.0), np.full(600, 1e-6)]
    assert best(logits, labels, candidates={"mine": VectorScaling()}).name == "mine"
    chosen = best(logits, labels, candidates={"mine": VectorScaling()}, sample_weight=weight)
    assert chosen.name == "temperature"
    alone = TemperatureScaling().fit(logits[:600], labels[:600])
    assert float(chosen.scaler.temperature) == pytest.approx(float(alone.temperature), rel=1e-3)
    ones = best(logits, labels, candidates=["ensemble"], sample_weight=np.ones(1200))
    plain = best(logits, labels, candidates=["ensemble"])
    assert [trial[:4] for trial in ones.table] == [trial[:4] for trial in plain.table]


def test_the_error_of_a_weighted_mean():
    values = torch.randn(50, generator=torch.Generator().manual_seed(0)).double()
    plain = mean_and_error(values, None)
    assert mean_and_error(values, torch.full((50,), 7.0).double()) == pytest.approx(plain)
    half = torch.cat([torch.ones(25), torch.full((25,), 1e-12)]).double()
    mean, error = mean_and_error(values, half)
    assert mean == pytest.approx(float(values[:25].mean()))
    expected = float(values[:25].std(correction=0)) / 5 * (50 / 49) ** 0.5
    assert error == pytest.approx(expected)


@pytest.mark.parametrize(
    ("weight", "fact"),
    [
        ([1.0, 2.0], r"\(2,\).*\(60,\)"),
        ([-1.0] * 60, "-1 .*position 0"),
        ([0] * 60, "sums to 0"),
        (["a"] * 60, "<U1"),
    ],
)
def test_bad_weights_are_refused(weight, fact):
    logits, labels = sampled(60, 3, 1.5)
    with pytest.raises(ValueError, match=rf"TemperatureScaling\.fit: sample_weight .*{fact}"):
        TemperatureScaling().fit(logits, labels, sample_weight=weight)
    with pytest.raises(ValueError, match=f"best: sample_weight .*{fact}"):
        best(logits, labels, sample_weight=weight)


def test_few_rows_of_great_weight_are_not_called_separable():
    """One wrong label beside many right ones is what no scale can mend, whatever it weighs."""
    logits = torch.tensor([[9.0, 0.0]] * 40 + [[0.0, 9.0]] * 40 + [[9.0, 0.0]])
    labels = torch.tensor([0] * 40 + [1] * 41)
    weight = torch.tensor([1.0] * 80 + [1e-6])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BetaScaling().fit(logits, labels, sample_weight=weight)


def test_every_scaler_is_here():
    assert {SCALERS[name] for name in SCALERS} == {type(make()) for make in KINDS.values()}
