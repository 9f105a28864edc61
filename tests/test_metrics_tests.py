"""The test of calibration: its p-values are uniform for calibrated models, small for others, and
made of `floor`."""

import copy
import json
import pickle
from functools import partial

import numpy as np
import pytest
import torch

from socrates.metrics import (
    CalibrationTest,
    Top,
    ada_ece,
    calibration_test,
    cw_ece,
    debiased_ece,
    ece,
    floor,
    mce,
    nll,
    predict,
    smooth_ece,
)

STATISTICS = [ece, ada_ece, debiased_ece, smooth_ece, mce]


def answers(seed, num_samples, harm=0.0):
    """Confidences, and answers that are right less often by `harm`."""
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(0.4, 0.99, num_samples)
    return {"confidence": confidence, "correct": rng.random(num_samples) < confidence - harm}


@pytest.mark.parametrize("metric", STATISTICS, ids=lambda metric: metric.__name__)
def test_is_made_of_the_draws_of_floor(metric):
    given = answers(0, 300, harm=0.03)
    top = Top.of(**given)
    found = calibration_test(top, metric=metric, num_draws=99, seed=5)
    assert found.statistic == metric(top)
    assert found.floor == floor(metric, top, num_draws=99, seed=5)
    rng = np.random.default_rng(5)
    draws = [metric(Top(top.confidence, rng.random(300) < top.confidence)) for _ in range(99)]
    assert found == found.p_value == (1 + sum(draw >= found.statistic for draw in draws)) / 100


def test_every_entry_gives_the_same():
    rng = np.random.default_rng(3)
    probs = rng.dirichlet(np.full(4, 0.5), 300)
    labels = rng.integers(0, 4, 300)
    found = calibration_test(probs, labels, num_draws=50)
    correct = probs.argmax(axis=1) == labels
    for other in (
        calibration_test(torch.tensor(probs), torch.tensor(labels), num_draws=50),
        calibration_test(confidence=probs.max(axis=1), correct=correct, num_draws=50),
        calibration_test(Top.of(probs.max(axis=1), correct), num_draws=50),
        calibration_test(probs, np.array(list("abcd"))[labels], classes=list("abcd"), num_draws=50),
        calibration_test(probs, labels, sample_weight=np.ones(300), num_draws=50),
    ):
        assert (other, other.statistic, other.floor) == (found, found.statistic, found.floor)
    prediction = predict(torch.tensor(np.log(probs)))
    assert calibration_test(prediction, labels, num_draws=50) == pytest.approx(found, abs=0.05)
    binary = calibration_test(probs[:, 0], labels == 0, num_draws=50)
    two = np.stack([1 - probs[:, 0], probs[:, 0]], axis=1)
    assert binary == calibration_test(two, labels == 0, num_draws=50)


def test_weights_count():
    given = answers(1, 600)
    given["correct"][:300] = False
    light = np.where(np.arange(600) < 300, 1e-6, 1.0)
    assert calibration_test(**given, num_draws=200) == 1 / 201
    assert calibration_test(**given, num_draws=200, sample_weight=light) > 0.05


def test_metrics_of_whole_rows_draw_labels():
    rng = np.random.default_rng(3)
    probs = rng.dirichlet(np.full(4, 0.5), 400)
    labels = (probs.cumsum(axis=1) < rng.random((400, 1))).sum(axis=1).clip(max=3)
    found = calibration_test(probs, labels, metric=cw_ece, num_draws=50, seed=2)
    assert found.floor == floor(cw_ece, probs, num_draws=50, seed=2)
    assert found > 0.02
    assert calibration_test(probs, (labels + 1) % 4, metric=cw_ece, num_draws=50) == 1 / 51
    assert calibration_test(
        probs, labels, metric=partial(ece, num_bins=5), num_draws=50
    ).statistic == ece(probs, labels, 5)


def test_the_result_is_a_number_that_tells_more():
    found = calibration_test(**answers(0, 200), num_draws=20)
    assert isinstance(found, float)
    assert type(found.p_value) is float
    assert json.loads(json.dumps({"p": found}))["p"] == found
    assert f"{found:.2f}" == f"{found.p_value:.2f}"
    for twin in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert isinstance(twin, CalibrationTest)
        assert (twin, twin.statistic, twin.floor) == (found, found.statistic, found.floor)
    assert repr(found).startswith("CalibrationTest(p_value=")


def test_certain_answers_are_no_evidence_if_right_and_all_of_it_if_wrong():
    assert calibration_test(confidence=[1.0] * 20, correct=[1] * 20) == 1
    assert calibration_test(confidence=[1.0] * 20, correct=[1] * 19 + [0]) == 1 / 1001


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_draws": 0}, "num_draws=0"),
        ({"metric": nll}, "expected"),
        ({"metric": "ece"}, "metric='ece', expected a function"),
        ({"correct": None}, "got confidence= without correct="),
    ],
)
def test_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        calibration_test(**{**answers(0, 20), **options})


def p_values(num_sets, num_samples, harm=0.0, **options):
    return np.array(
        [
            calibration_test(**answers(seed, num_samples, harm), **options)
            for seed in range(num_sets)
        ]
    )


def test_finds_a_model_out():
    assert np.mean(p_values(20, 500, harm=0.1, num_draws=59) <= 0.05) > 0.9
    assert np.mean(p_values(40, 100, num_draws=19) <= 0.05) < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("metric", STATISTICS, ids=lambda metric: metric.__name__)
def test_p_values_are_uniform_for_calibrated_models(metric):
    found = p_values(400, 200, num_draws=19, metric=metric)
    for level in (0.05, 0.1, 0.25, 0.5, 0.75):
        allowed = 3.5 * np.sqrt(level * (1 - level) / 400)
        share = np.mean(found <= level + 1e-12)
        assert share <= level + allowed
        # The debiased error is 0 for many, who all have a p-value of 1.
        assert share >= level - allowed or metric is debiased_ece
