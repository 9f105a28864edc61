"""The quickstart's table and sentences, from made-up runs."""

from __future__ import annotations

import numpy as np
import pytest

from socrates import quickstart
from socrates.engine.evaluate import evaluate
from socrates.experiment import Experiment, Part
from socrates.records import Run


@pytest.fixture
def by_method(tmp_path):
    """Finished runs of every method with two seeds, their logits drawn at random."""
    runs = {}
    rng = np.random.default_rng(0)
    for name, method in quickstart.METHODS.items():
        runs[name] = []
        for seed in (1, 2):
            run = Run.create(tmp_path, Experiment(Part("digits"), Part("mlp"), method, seed))
            outputs = 11 if method.name == "socrates" else 10
            for split in ("val", "test"):
                labels = rng.integers(0, 10, 400)
                logits = rng.normal(size=(400, outputs))
                logits[np.arange(400), labels] += 3
                run.save_predictions(split, 150, logits, labels, 10)
            run.save_evaluation(evaluate(run))
            runs[name].append(run)
    return runs


def test_table_and_sentences(by_method):
    values = {name: [quickstart.test_values(run, "none") for run in runs] for name, runs in by_method.items()}
    values[quickstart.SCALED] = [quickstart.test_values(run, "temperature") for run in by_method["cross-entropy"]]
    assert quickstart.table(values).row_count == 5
    assert len(quickstart.sentences(values)) == 3


def runs_with(eces, accuracy=0.9):
    return [{"ece": value, "accuracy": accuracy, "ece_floor": 0.01, "ada_ece": value, "nll": 0.3} for value in eces]


def test_sentences_follow_the_numbers():
    clear = quickstart.sentences(
        {"cross-entropy": runs_with([0.05, 0.051]), "Socrates 1, 0.99": runs_with([0.02, 0.021])}
    )
    assert "2.05 % against 5.05 %" in clear[0]
    assert "clearly, below" in clear[0]
    assert "no difference" in clear[1]
    noisy = quickstart.sentences(
        {"cross-entropy": runs_with([0.05, 0.01]), "Socrates 1, 0.99": runs_with([0.02, 0.06])}
    )
    assert "within the noise of the seeds, above" in noisy[0]
