"""Several files: which to use is decided by what scaling cannot mend, and nobody is called better
calibrated without cause."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from socrates import metrics
from socrates.audit.choose import choose_file, headline
from socrates.audit.compare import (
    FileDifference,
    accuracy_differences,
    compare_files,
    ece_differences,
    failing_files,
    family_z,
    why_not_compared,
)
from socrates.audit.page import write_audit
from socrates.audit.run import audit


def simulation() -> ModuleType:
    """The script that `make simulate` runs, whose files are perfectly calibrated."""
    path = Path(__file__).parent.parent / "benchmarks" / "simulate_audits.py"
    spec = importlib.util.spec_from_file_location("simulate_audits", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module


SIMULATED = simulation()
Cell = SIMULATED.Cell


def contenders(num_rows: int, accuracies: tuple[int, ...], sharper: tuple[float, ...] = ()):
    return SIMULATED.simulated_files(Cell(num_rows, accuracies, sharper), np.random.default_rng(7))


def test_the_more_accurate_file_is_used_however_it_is_calibrated():
    """As of two ImageNet models, the better of which has the larger ECE."""
    files = contenders(4000, (70, 80), (1.0, 1.6))
    worse, better = (metrics.ece(file.rows.top()) for file in files)
    assert better > worse + 0.03
    choice = choose_file(files)
    assert choice.use == ["1"]
    assert choice.accuracy.best == choice.nll.best == "1"
    value = choice.accuracy.differences[0].value
    assert headline(choice).startswith("Use 1: ")
    assert f"{-100 * value:.1f} points" in headline(choice)
    assert headline(choice, rescaled=["1"]).startswith("Use 1, rescaled: ")
    by_metric = {found.metric: found for found in compare_files(files) if not found.after_scaling}
    assert by_metric["ece"].words == "worse"  # which is said, but decides nothing


def test_equal_files_are_not_told_apart():
    first, second = contenders(500, (75, 75))
    choice = choose_file([first, replace(second, rows=first.rows, held_out=first.held_out)])
    assert choice.use == ["0", "1"]
    assert "either" in headline(choice)


def test_answers_and_probabilities_may_contradict_each_other():
    first, second = contenders(4000, (80, 70))
    doubtful = 0.5 * first.rows.values + 0.05  # as accurate, with poor probabilities
    flat = replace(first.rows, values=doubtful)
    places = np.searchsorted(first.rows.positions, first.held_out.positions)
    held_out = replace(first.held_out, values=0.02 * doubtful[places] + 0.098)
    choice = choose_file([replace(first, rows=flat, held_out=held_out, scaler=None), second])
    assert (choice.accuracy.best, choice.nll.best, choice.use) == ("0", "1", [])
    assert "1 for its confidence, 0 for its answers" in headline(choice)


def test_intervals_hold_for_all_pairs_of_files():
    assert family_z(2) == pytest.approx(1.96, abs=0.01)
    assert family_z(5) > family_z(3) > family_z(2)
    two = contenders(1000, (70, 80))
    four = [*two, replace(two[0], label="2"), replace(two[1], label="3")]
    narrow = accuracy_differences(two)[0]
    wide = accuracy_differences(four)[0]
    assert wide.value == narrow.value
    assert wide.high - wide.low > 1.2 * (narrow.high - narrow.low)


def test_a_few_rows_on_which_files_differ_prove_nothing():
    first, _ = contenders(1000, (80, 80))
    wrong = np.flatnonzero(~first.rows.top().correct)[:4]
    values = first.rows.values.copy()
    values[wrong] = np.eye(10)[first.rows.labels[wrong]]
    second = replace(first, label="1", rows=replace(first.rows, values=values))
    (difference,) = accuracy_differences([first, second])
    assert difference.value == pytest.approx(0.004)
    assert difference.low < 0  # the exact test has p = 0.125


def test_failing_is_corrected_for_the_number_of_files():
    files = contenders(100, (75, 75, 75))
    p_values = (0.02, 0.03, 0.2)
    files = [replace(file, p_value=p) for file, p in zip(files, p_values, strict=True)]
    assert not failing_files(files)  # 0.02 is above 0.05 / 3
    files[0] = replace(files[0], p_value=0.01)
    assert failing_files(files) == {"0"}  # then 0.03 is above 0.05 / 2


def test_better_calibrated_needs_both_the_interval_and_the_test_of_the_other():
    honest, boastful = contenders(4000, (75, 75), (1.0, 1.5))
    (found,) = ece_differences([honest, replace(boastful, p_value=0.001)])
    assert found.low > 0.02
    assert found.words == "worse"
    (found,) = ece_differences([honest, replace(boastful, p_value=0.2)])
    assert found.words not in ("better", "worse")
    (found,) = ece_differences(contenders(4000, (66, 90)))
    assert found.words not in ("better", "worse")


def test_a_difference_after_scaling_that_is_tiny_decides_nothing():
    first, _ = contenders(4000, (75, 75))
    values = first.held_out.values**1.02
    near = replace(first.held_out, values=values / values.sum(axis=1, keepdims=True))
    choice = choose_file([replace(first, scaler=None), replace(first, label="1", held_out=near)])
    assert choice.use == ["0", "1"]


@pytest.mark.usefixtures("hastened")
def test_files_of_confidence_alone_are_chosen_by_accuracy(tmp_path):
    rng = np.random.default_rng(0)
    names = []
    for name, accuracy in {"old": 0.7, "new": 0.8}.items():
        confidence = np.clip(rng.normal(accuracy, 0.1, 2000), 0.05, 0.99)
        correct = rng.random(2000) < confidence
        rows = [f"{c:.4f},{int(r)}" for c, r in zip(confidence, correct, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["confidence,correct", *rows]))
        names.append(tmp_path / f"{name}.csv")
    made = audit(names)
    assert made.choice is not None
    assert made.choice.nll is None
    assert made.choice.use == ["new"]
    said = made.to_json()
    assert said["use"] == ["new"]
    assert said["answer"][0] == made.answer.headline
    page = write_audit(made, tmp_path / "out", "two")[0].read_text()
    assert "2,000 rows each" in page
    assert "4,000" not in page


def test_what_is_not_shown_is_not_a_verdict():
    assert FileDifference("nll", "b", "a", 0.1, -0.1, 0.3).words == "not shown"
    assert FileDifference("accuracy", "b", "a", 0.1, 0.05, 0.3).words == "better"


def test_why_files_are_not_compared():
    first, second = contenders(50, (75, 75))
    assert not why_not_compared([first, second])
    assert "rows" in why_not_compared([first, replace(second, num_read=51)])
    other = replace(second.rows, labels=(second.rows.labels + 1) % 10)
    assert "labels" in why_not_compared([first, replace(second, rows=other)])


@pytest.mark.slow
@pytest.mark.parametrize(
    "cell",
    [Cell(1000, (66, 83)), Cell(300, (90, 97)), Cell(1000, (66, 66), known=0.9)],
    ids=["accuracies differ", "few rows", "one knows most labels"],
)
@pytest.mark.filterwarnings("ignore:TemperatureScaling")  # few rows may all be right
def test_two_calibrated_files_are_rarely_told_apart_by_their_calibration(cell):
    better, _ = SIMULATED.rates(cell, 200, seed=3)
    assert better <= 0.07


@pytest.mark.slow
def test_equal_files_are_rarely_called_better_and_a_wrong_one_is_found():
    _, chosen = SIMULATED.rates(Cell(1000, (75, 75)), 200, seed=3)
    assert chosen <= 0.10  # nominal 5%, of 200 audits
    better, _ = SIMULATED.rates(Cell(5000, (80, 80), (1.0, 1.3)), 50, seed=3)
    assert better >= 0.8
