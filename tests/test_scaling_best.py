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
    candidates,
)
from socrates.scaling.choice import Attempt, choose


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
    assert "temperature" in found.reason or "lowest" in found.reason


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


def rows_of(nll, right=None, simplicity=1.0):
    correct = None if right is None else torch.tensor(right).bool()
    return Attempt(simplicity, torch.tensor(nll, dtype=torch.float64), correct)


def test_the_simplest_within_one_standard_error_of_the_lowest_is_taken():
    # mean differences to "c" of 0.02, with standard errors of 0.0231 and 0
    lowest = rows_of([0.1, 0.2, 0.3, 0.4], simplicity=9)
    near = rows_of([0.16, 0.2, 0.25, 0.47], simplicity=1)
    far = rows_of([0.12, 0.22, 0.32, 0.42], simplicity=0)
    choice = choose({"far": far, "near": near, "lowest": lowest})
    assert choice.name == "near"
    assert "lowest, 0.250" in choice.reason
    assert choose({"far": far, "lowest": lowest}).name == "lowest"
    assert choose({"same": far, "twin": far._replace(simplicity=2.0)}).name == "same"


def test_what_loses_accuracy_is_not_taken():
    right = [1] * 8 + [0] * 2
    first = rows_of([0.5] * 10, right, 0)
    worse = [0] * 4 + [1] * 4 + [0] * 2  # 4 of 10 lost: more than one standard error
    swapped = [0, *right[1:8], 1, 0]  # one lost, one won
    losing = choose({"first": first, "other": rows_of([0.4] * 10, worse)})
    assert losing.name == "first"
    assert "other" in losing.reason
    assert "40.0 points" in losing.reason
    assert choose({"first": first, "other": rows_of([0.4] * 10, swapped)}).name == "other"


def test_weights_decide():
    first = rows_of([0.5, 0.5, 0.5, 0.5], simplicity=0)
    other = rows_of([0.1, 0.1, 0.6, 0.62], simplicity=1)
    attempts = {"first": first, "other": other}
    assert choose(attempts, torch.tensor([1.0, 1.0, 0.01, 0.01])).name == "other"
    assert choose(attempts, torch.tensor([0.01, 0.01, 1.0, 1.0])).name == "first"


def test_failures_are_never_taken():
    failed = rows_of([])._replace(failed="why")
    assert choose({"a": rows_of([0.5, 0.4], simplicity=9), "b": failed}).name == "a"


def test_the_fewer_numbers_the_simpler():
    found = {name: scaler.num_fitted(2) for name, scaler in candidates(2).items()}
    assert found == {
        "temperature": 1,
        "structured": 6,
        "structured diagonal": 4,
        "ensemble": 3,
        "beta": 3,
        "isotonic": math.inf,
    }
    assert ReadoutScaling().num_fitted(11) == 2
    assert VectorScaling().num_fitted(10) == 20


def test_candidates_that_fail_are_listed_with_the_reason():
    logits, labels = sampled(100, 4, 1.5)
    found = best(logits, labels, candidates=["beta", "readout", "ensemble"])
    assert [bool(trial.failed) for trial in found.table] == [False, True, True, False]
    assert "4 columns" in found.table[1].failed
    assert "unknown" in found.table[2].failed
    printed = repr(found).splitlines()
    assert printed[0] == f"best: temperature, {found.scaler}"
    assert printed[1] == f"why: {found.reason}"
    assert printed[2].split() == [
        "candidate",
        "held-out",
        "NLL",
        "against",
        "temperature",
        "seconds",
    ]
    assert printed[4].split()[:3] == ["beta", "failed:", "BetaScaling.fit"]
    assert f"{found.table[3].difference:+.4f} +- {found.table[3].error:.4f}" in printed[6]


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


@pytest.mark.slow
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
