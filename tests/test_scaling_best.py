"""The choice between scalers: what is taken when, and what the table says of it."""

import math

import numpy as np
import pytest
import torch
from scaling_cases import mixed, nll, sampled, with_unknown

from socrates.scaling import (
    Best,
    BetaScaling,
    EnsembleTemperatureScaling,
    ReadoutScaling,
    StructuredScaling,
    TemperatureScaling,
    VectorScaling,
    best,
)
from socrates.scaling.best import Trial


def test_temperature_is_kept_where_nothing_is_clearly_better():
    logits, labels = sampled(800, 4, 1.7)
    found = best(logits, labels)
    assert found.name == "temperature"
    assert torch.equal(
        found.scaler.temperature, TemperatureScaling().fit(logits, labels).temperature
    )
    assert [trial.name for trial in found.table] == [
        "temperature",
        "structured",
        "structured diagonal",
        "ensemble",
    ]
    assert not any(trial.clear for trial in found.table)


def test_structured_scaling_wins_where_columns_leak():
    logits, labels = mixed(1200, 5)
    found = best(logits[:600], labels[:600])
    assert found.name == "structured"
    assert isinstance(found.scaler, StructuredScaling)
    assert found.scaler.columns == 5
    plain = TemperatureScaling().fit(logits[:600], labels[:600])
    assert (
        nll(found.scaler(logits[600:]), labels[600:])
        < nll(plain(logits[600:]), labels[600:]) - 0.05
    )


def test_the_ensemble_wins_where_labels_are_noisy():
    logits, labels = sampled(3000, 5, 1.0)
    generator = torch.Generator().manual_seed(1)
    noisy = torch.rand(3000, generator=generator) < 0.15
    labels = torch.where(noisy, torch.randint(0, 5, (3000,), generator=generator), labels)
    found = best(3 * logits, labels)
    assert found.name == "ensemble"


def test_beta_and_isotonic_are_tried_on_two_classes():
    generator = torch.Generator().manual_seed(0)
    score = 3 * torch.randn(2000, generator=generator)
    logits = torch.stack([torch.zeros(2000), score], dim=1)
    odds = 2.5 * torch.nn.functional.logsigmoid(score) + 0.9
    labels = (torch.rand(2000, generator=generator) < odds.sigmoid()).long()
    found = best(logits, labels)
    assert [trial.name for trial in found.table][-2:] == ["beta", "isotonic"]
    assert found.name == "beta"
    assert isinstance(found.scaler, BetaScaling)


def test_the_unknown_class_is_read_as_spread():
    logits, labels = with_unknown(1500, 3, 1.5, 2.0)
    found = best(logits, labels, unknown_class=True, candidates=["ensemble", "readout"])
    assert found.name == "readout"
    assert isinstance(found.scaler, ReadoutScaling)
    assert [trial.name for trial in found.table] == ["temperature", "ensemble", "readout"]
    assert found.table[2].nll == pytest.approx(found.scaler.report.nll_after, abs=0.02)


@pytest.mark.parametrize(
    ("columns", "unknown", "names"),
    [
        (3, True, "structured, structured diagonal, ensemble, readout"),
        (2, False, "structured, structured diagonal, ensemble, beta, isotonic"),
        (257, False, "structured diagonal, ensemble"),
    ],
)
def test_what_is_tried_by_default(columns, unknown, names):
    logits, labels = sampled(60, columns, 1.5)
    labels = labels.clamp(max=1) if unknown else labels
    found = best(logits, labels, unknown_class=unknown, folds=2)
    assert ", ".join(trial.name for trial in found.table) == f"temperature, {names}"
    assert not any(trial.failed for trial in found.table)


def test_differences_by_hand():
    logits, labels = mixed(60, 3)
    found = best(logits, labels, candidates={"vector": VectorScaling(0.1)}, folds=3)
    rows = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    order = rows[labels[rows].argsort(stable=True)]
    by_row = {}
    for name, make in (("temperature", TemperatureScaling), ("vector", lambda: VectorScaling(0.1))):
        values = torch.zeros(60, dtype=torch.float64)
        for k in range(3):
            inside = order[k::3]
            outside = torch.tensor([row for row in range(60) if row not in set(inside.tolist())])
            scaled = make().fit(logits[outside], labels[outside])(logits[inside])
            values[inside] = torch.nn.functional.cross_entropy(
                scaled.double(), labels[inside], reduction="none"
            )
        by_row[name] = values
    difference = by_row["vector"] - by_row["temperature"]
    temperature, vector = found.table
    assert temperature.nll == pytest.approx(float(by_row["temperature"].mean()))
    assert vector.difference == pytest.approx(float(difference.mean()))
    assert vector.error == pytest.approx(float(difference.std()) / math.sqrt(60))
    assert vector.seconds > 0


def test_clearly_means_two_standard_errors():
    assert Trial("a", 1.0, -0.021, 0.01, 0.0).clear
    assert not Trial("a", 1.0, -0.019, 0.01, 0.0).clear
    assert not Trial("a", 1.0, 0.0, 0.0, 0.0).clear
    assert not Trial("a", math.nan, math.nan, math.nan, 0.0, "why").clear


def test_candidates_that_fail_are_listed_with_the_reason():
    logits, labels = sampled(100, 4, 1.5)
    found = best(logits, labels, candidates=["beta", "readout", "ensemble"])
    assert [bool(trial.failed) for trial in found.table] == [False, True, True, False]
    assert "4 columns" in found.table[1].failed
    assert "unknown" in found.table[2].failed
    printed = repr(found).splitlines()
    assert printed[0] == f"best: temperature, {found.scaler}"
    assert printed[1].split() == [
        "candidate",
        "held-out",
        "NLL",
        "against",
        "temperature",
        "seconds",
    ]
    assert printed[3].split()[:3] == ["beta", "failed:", "BetaScaling.fit"]
    assert f"{found.table[3].difference:+.4f} +- {found.table[3].error:.4f}" in printed[5]


def test_a_candidate_that_breaks_does_not_stop_the_others():
    class Broken(TemperatureScaling):
        def _fit(self, data):
            raise RuntimeError("linalg.cholesky:\nnot positive")

    found = best(*sampled(60, 3, 1.5), candidates={"broken": Broken(), "mine": VectorScaling(1.0)})
    assert [trial.failed for trial in found.table] == ["", "linalg.cholesky: not positive", ""]


def test_probabilities_and_arrays():
    logits, labels = sampled(400, 3, 1.7, dtype=torch.float64)
    by_logits = best(logits, labels, candidates=["ensemble"])
    probs = logits.softmax(dim=1).numpy()
    by_probs = best(probs, labels.numpy(), from_probs=True, candidates=["ensemble"])
    assert isinstance(by_probs, Best)
    assert by_probs.table[0].nll == pytest.approx(by_logits.table[0].nll, abs=1e-6)
    assert isinstance(by_probs.scaler(probs, from_probs=True), np.ndarray)
    with pytest.raises(ValueError, match=r"best: .*\b400 rows .*from_probs=True"):
        best(probs, labels)
    with pytest.raises(ValueError, match=r"best: .*row 0 "):
        best(logits, labels, from_probs=True)


def test_own_candidates_are_left_alone():
    logits, labels = mixed(200, 3)
    own = EnsembleTemperatureScaling()
    best(logits, labels, candidates={"own": own})
    assert own.report is None
    assert own.columns == 0


@pytest.mark.parametrize(
    ("num_rows", "num_labels", "options", "fact"),
    [
        (9, 9, {}, r"\b9 .*\b5 folds"),
        (30, 30, {"folds": 1}, r"\b30 .*\b1 folds"),
        (30, 30, {"folds": 2.5}, r"\b30 .*\b2\.5 folds"),
        (30, 3, {}, r"best: .*\b3 .*\b30\b"),
        (30, 30, {"candidates": ["platt"]}, r"'platt': .*structured"),
        (30, 30, {"candidates": {"mine": VectorScaling}}, r"'mine', .*VectorScaling'>"),
        (
            30,
            30,
            {"candidates": {"temperature": VectorScaling()}},
            r"'temperature', .*VectorScaling\(.*, not",
        ),
    ],
)
def test_misuse_is_refused_with_the_numbers_and_names(num_rows, num_labels, options, fact):
    logits, labels = sampled(30, 3, 1.0)
    with pytest.raises(ValueError, match=fact):
        best(logits[:num_rows], labels[:num_labels], **options)


@pytest.mark.filterwarnings("ignore:TemperatureScaling")  # so few rows have no optimum
def test_two_folds_of_two_rows_are_enough():
    logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]] * 2), torch.tensor([0, 0, 1, 1])
    found = best(logits, labels, folds=2, candidates=[])
    assert found.scaler.columns == 2
    assert 0 <= found.table[0].seconds < 600
    with pytest.raises(ValueError, match=r"\b3 rows in 2\b"):
        best(logits[:3], labels[:3], folds=2)


def test_five_folds_are_the_default():
    logits, labels = sampled(60, 3, 1.7)
    nll_of = {folds: best(logits, labels, folds=folds).table[0].nll for folds in (4, 5, 6)}
    assert best(logits, labels).table[0].nll == nll_of[5]
    assert len({*nll_of.values()}) == 3


def test_a_single_candidate_is_given_by_its_name():
    logits, labels = sampled(30, 3, 1.0)
    assert [trial.name for trial in best(logits, labels, candidates="ensemble").table] == [
        "temperature",
        "ensemble",
    ]
