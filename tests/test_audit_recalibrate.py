"""The scaler that an audit says to use: why it is this one, and what is left after it."""

from __future__ import annotations

import numpy as np
import pytest

from socrates import metrics
from socrates.audit.judge import judged_rows
from socrates.audit.measure import measure
from socrates.audit.predictions import open_predictions
from socrates.audit.recalibrate import HalfJudgement, recalibrate


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def drawn(probs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a label for each row, drawn from its probabilities."""
    last = probs.shape[1] - 1
    return (probs.cumsum(1) < rng.random((len(probs), 1))).sum(1).clip(0, last)


def recalibrated(folder, **arrays):
    """Return what an audit of these arrays says of scalers."""
    np.savez(folder / "p.npz", **arrays)
    return recalibrate(judged_rows(measure(open_predictions(folder / "p.npz"))))


@pytest.mark.slow
def test_weights_take_part_in_fit_and_choice(tmp_path):
    rng = np.random.default_rng(0)
    half = 1500
    logits = 2 * rng.standard_normal((2 * half, 4))
    temperature = np.r_[np.ones(half), np.full(half, 4.0)]  # the second half is overconfident
    labels = drawn(softmax(logits / temperature[:, None]), rng)
    weight = np.r_[np.ones(half), np.full(half, 0.02)]  # and hardly counts
    order = rng.permutation(2 * half)
    result = recalibrated(
        tmp_path, logits=logits[order], labels=labels[order], sample_weight=weight[order]
    )
    assert result.after["nll"] <= result.before["nll"]
    assert result.after["ece"] < 0.06
    unweighted = recalibrated(tmp_path, logits=logits[order], labels=labels[order])
    assert unweighted.winner != "none"
    # the weighted rows are calibrated, so that no scaler is far from doing nothing
    numbers = result.numbers["temperature"]
    assert numbers["nll"] == pytest.approx(result.before["nll"], abs=0.01)


@pytest.mark.parametrize("sharper", [1.0, 2.0])
def test_the_reason_and_what_is_left_stand_beside_the_winner(tmp_path, sharper):
    rng = np.random.default_rng(1)
    logits = 2 * rng.standard_normal((2000, 4))
    result = recalibrated(tmp_path, logits=sharper * logits, labels=drawn(softmax(logits), rng))
    assert result.winner == ("none" if sharper == 1 else "temperature")
    assert "lowest cross-validated NLL" in result.reason
    assert result.untried == ""
    assert result.num_held_out == 1000
    before = result.judged["none"]
    left = result.remaining
    assert left.ece == pytest.approx(result.after["ece"])
    assert before.ece == pytest.approx(result.before["ece"])
    assert 0 < left.floor < left.floor_95
    assert left.p_value > 0.05
    assert (before.p_value < 0.05) == (sharper > 1)
    assert (before.direction.signed > 0.05) == (sharper > 1)
    assert isinstance(left.direction, metrics.Direction)


def test_what_raises_the_nll_of_the_other_half_is_not_used(tmp_path):
    rng = np.random.default_rng(0)
    num_rows = 1000
    logits = 2 * rng.standard_normal((num_rows, 3))
    order = np.random.default_rng(0).permutation(num_rows)  # as the audit splits the rows
    temperature = np.ones(num_rows)
    temperature[order[: num_rows // 2]] = 4.0
    temperature[order[num_rows // 2 :]] = 0.5
    labels = drawn(softmax(logits / temperature[:, None]), rng)
    result = recalibrated(tmp_path, logits=logits, labels=labels)
    assert result.winner == "none"
    assert result.scaler is None
    assert result.numbers["temperature"]["nll"] > result.before["nll"]
    assert "other half" in result.reason


def test_too_few_rows_are_judged_as_they_are(tmp_path):
    result = recalibrated(tmp_path, probs=np.full((30, 2), 0.5), labels=np.arange(30) % 2)
    assert "30 rows" in result.untried
    assert result.winner == "none"
    assert isinstance(result.remaining, HalfJudgement)
