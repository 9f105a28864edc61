"""Accuracy, proper scores, selective classification and out-of-distribution scores: by hand and by
scikit-learn."""

import math
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as reference

from socrates.metrics import (
    CalibrationMeter,
    accuracy,
    augrc,
    aupr,
    aurc,
    auroc,
    bootstrap,
    brier,
    coverage_at_risk,
    fpr_at_tpr,
    nll,
    predict,
    risk_coverage,
    unknown_answered,
)

scores = st.lists(st.integers(-3, 6).map(float), min_size=1, max_size=30)


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(30), 500)
    return probs, np.append(rng.integers(0, 30, 470), np.arange(30))


def test_scores_against_scikit_learn(case):
    probs, labels = case
    assert accuracy(probs, labels) == pytest.approx(
        reference.accuracy_score(labels, probs.argmax(axis=1))
    )
    assert nll(probs, labels) == pytest.approx(reference.log_loss(labels, probs), abs=1e-12)
    one_hot = np.eye(30)[labels]
    assert brier(probs, labels) == pytest.approx(
        30 * reference.mean_squared_error(one_hot, probs), abs=1e-12
    )
    binary = np.stack([probs[:, 0], 1 - probs[:, 0]], axis=1)
    halved = reference.brier_score_loss((labels == 0).astype(int), probs[:, 0])
    assert brier(binary, (labels != 0).astype(int)) == pytest.approx(2 * halved, abs=1e-12)


CLIPPED = -math.log(2.0**-52)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str
)
def test_nll_of_an_impossible_label_is_the_same_in_every_dtype(dtype):
    probs = torch.tensor([[1.0, 0.0], [0.5, 0.5], [1.0, 0.0]], dtype=dtype)
    with pytest.warns(UserWarning, match=r"^2 of 3 .*2\.2e-16, 36\.04") as caught:
        assert nll(probs, [1, 0, 1]) == pytest.approx((2 * CLIPPED + math.log(2)) / 3)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_nll_of_impossible_labels_is_scikit_learns_log_loss():
    probs, labels = np.array([[1.0, 0.0], [0.25, 0.75], [0.0, 1.0]]), [1, 0, 0]
    with pytest.warns(UserWarning, match="2 of 3 rows"):
        assert nll(probs, labels) == pytest.approx(reference.log_loss(labels, probs), rel=1e-12)


def test_nll_counts_all_that_is_below_the_clip_alike():
    least = np.array([[1 - 1e-9, 1e-9], [1.0, 2.0**-52], [1.0, 1e-17], [1.0, 1e-300]])
    expected = [-math.log(1e-9), CLIPPED, CLIPPED, CLIPPED]
    for row, value in zip(least, expected, strict=True):
        assert nll(row[None], [1]) == pytest.approx(value)


@pytest.mark.parametrize(
    "kind", [torch.tensor, partial(torch.tensor, requires_grad=True), np.array]
)
def test_nll_of_logits_is_exact(kind):
    """Softmax rounds to 0 in each of these rows; -log of it is the distance of the label's logit
    from the greatest."""
    logits = kind([[0.0, 200.0, 100.0], [1000.0, 0.0, 0.0], [0.0, 5e4, 0.0]])
    labels = [0, 1, 0]
    assert nll(predict(logits), labels) == pytest.approx((200 + 1000 + 5e4) / 3)
    assert nll(predict(logits, unknown="answer"), labels) == pytest.approx((200 + 1000 + 5e4) / 3)
    assert nll(predict(logits, unknown="abstain"), labels) == pytest.approx((200 + 1000 + 5e4) / 3)
    assert nll(predict(logits, unknown="renormalize"), labels) == pytest.approx(
        (200 + 1000 + 5e4) / 3
    )
    # Of unknown's share, e^-100, e^-1000 and e^-5e4, half falls to the label, whose own is less in
    # the first row.
    shares = (100 + math.log(2)) + (1000 - math.log(1.5)) + (5e4 - math.log(1.5))
    assert nll(predict(logits, unknown="spread"), labels) == pytest.approx(shares / 3)
    meter = CalibrationMeter()
    meter.update(predict(logits), labels)
    assert meter.compute()["nll"] == pytest.approx((200 + 1000 + 5e4) / 3)
    assert bootstrap(nll, predict(logits), labels, num_resamples=50).high <= 5e4
    plain = bootstrap(
        lambda probs, labels: nll(probs, labels), predict(logits), labels, num_resamples=50
    )
    assert plain == bootstrap(nll, predict(logits), labels, num_resamples=50)


def test_nll_of_a_masked_label_is_clipped():
    with pytest.warns(UserWarning, match="1 of 2 rows"):
        assert nll(predict([[0.0, -np.inf], [0.0, 0.0]]), [1, 0]) == pytest.approx(
            (CLIPPED + math.log(2)) / 2
        )


def test_one_warning_for_impossible_labels_from_meter_and_bootstrap():
    probs, labels = np.array([[1.0, 0.0], [0.5, 0.5]] * 10), [1, 1] * 10
    meter = CalibrationMeter()
    for call in (
        lambda: meter.update(probs, labels),
        lambda: bootstrap(nll, probs, labels, num_resamples=5),
    ):
        with pytest.warns(UserWarning, match="10 of 20 rows") as caught:
            call()
        assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert meter.compute()["nll"] == pytest.approx(nll(probs, labels))


def test_scores_of_many_rows_are_summed_in_float64():
    row = np.array([[0.1, 0.2, 0.7]], np.float32)
    probs, labels = np.repeat(row, 400_000, axis=0), np.ones(400_000, int)
    wide = row[0].astype(np.float64)
    assert nll(probs, labels) == pytest.approx(-math.log(wide[1]), rel=1e-12)
    assert brier(probs, labels) == pytest.approx(
        wide[0] ** 2 + (1 - wide[1]) ** 2 + wide[2] ** 2, rel=1e-12
    )


def four(correct, confidence=(0.9, 0.8, 0.7, 0.6)):
    confidence = np.array(confidence)
    return np.stack([confidence, 1 - confidence], axis=1), 1 - np.array(correct)


def test_risk_coverage_by_hand():
    curve = risk_coverage(*four([1, 0, 1, 1]))
    np.testing.assert_allclose(curve.coverage, [0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(curve.risk, [0, 1 / 2, 1 / 3, 1 / 4])
    np.testing.assert_allclose(curve.threshold, [0.9, 0.8, 0.7, 0.6])
    assert aurc(*four([1, 0, 1, 1])) == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    # One failure of four, answered from coverage 1/4 on: it ramps up over one quarter, then stays
    # for two.
    assert augrc(*four([1, 0, 1, 1])) == pytest.approx(0.25 * (0.125 + 0.25 + 0.25))


def test_ties_are_answered_together():
    curve = risk_coverage(*four([1, 0, 1, 1], confidence=(0.9, 0.8, 0.8, 0.8)))
    np.testing.assert_allclose(curve.coverage, [0.25, 1])
    np.testing.assert_allclose(curve.risk, [0, 0.25])
    assert aurc(*four([1, 0, 1, 1], confidence=(0.9, 0.8, 0.8, 0.8))) == pytest.approx(0.75 * 0.25)


@pytest.mark.parametrize(
    ("max_risk", "coverage"), [(0, 0.25), (0.2, 0.25), (0.25, 1), (0.3, 1), (1, 1)]
)
def test_coverage_at_risk_by_hand(max_risk, coverage):
    assert coverage_at_risk(*four([1, 0, 1, 1]), max_risk) == coverage


def test_coverage_at_risk_is_0_if_the_surest_answer_is_wrong():
    assert coverage_at_risk(*four([0, 1, 0, 0]), 0.4) == 0


def test_coverage_at_risk_meets_a_limit_that_rounds():
    correct = np.array([1, 1, 1, 0, 1, 0, 1, 0, 1, 1])  # 1 - 7 / 10 is a little more than 0.3
    assert coverage_at_risk(*four(correct, np.linspace(0.9, 0.6, 10)), 0.3) == 1


def test_confidence_overrides_the_rank():
    probs, labels = four([1, 0, 1, 1])
    assert aurc(probs, labels, confidence=[3.0, 0.0, 2.0, 1.0]) == pytest.approx(0.25 / 4)
    assert augrc(probs, labels, confidence=torch.tensor([3.0, 0.0, 2.0, 1.0])) == pytest.approx(
        0.25 * 0.125
    )
    assert coverage_at_risk(probs, labels, 0.0, confidence=[3.0, 0.0, 2.0, 1.0]) == 0.75


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=40))
@settings(max_examples=200, deadline=None)
def test_augrc_follows_from_accuracy_and_auroc(samples):
    """Traub et al. 2024: AUGRC = (1 - AUROC) acc (1 - acc) + (1 - acc)^2 / 2, AUROC of right
    against wrong answers."""
    confidence = np.array([0.5 + level / 10 for level, _ in samples])
    correct = np.array([right for _, right in samples])
    case = four(correct.astype(int), confidence)
    share = correct.mean()
    separation = auroc(confidence[correct], confidence[~correct]) if 0 < share < 1 else 1.0
    expected = (1 - separation) * share * (1 - share) + (1 - share) ** 2 / 2
    assert augrc(*case) == pytest.approx(expected, abs=1e-12)
    assert 0 <= aurc(*case) <= 1


@given(scores, scores)
@settings(max_examples=200, deadline=None)
def test_ood_scores_against_scikit_learn(known, unknown):
    truth = [1] * len(known) + [0] * len(unknown)
    assert auroc(known, unknown) == pytest.approx(
        reference.roc_auc_score(truth, known + unknown), abs=1e-12
    )
    assert aupr(known, unknown) == pytest.approx(
        reference.average_precision_score(truth, known + unknown), abs=1e-12
    )
    false_share, true_share, _ = reference.roc_curve(
        truth, known + unknown, drop_intermediate=False
    )
    for tpr in (0.95, 0.5, 0.3, 1.0):
        expected = false_share[np.flatnonzero(true_share >= tpr)[0]]
        assert fpr_at_tpr(known, unknown, tpr=tpr) == pytest.approx(expected, abs=1e-12)


def test_ood_scores_by_hand():
    assert auroc([0.9, 0.8], torch.tensor([0.1, 0.2])) == 1.0
    assert auroc([0.5], [0.5]) == 0.5
    assert aupr(np.array([0.5]), [0.9]) == 0.5
    assert fpr_at_tpr([0.9, 0.8, 0.7, 0.1], [0.75, 0.2], tpr=0.75) == 0.5
    assert fpr_at_tpr([0.9, 0.8, 0.7, 0.1], [0.75, 0.2], tpr=0.5) == 0.0


def test_strangers_that_are_answered_by_hand():
    known = [0.9, 0.8, 0.7, 0.1, 0.95]
    correct = [True, True, True, True, False]  # the wrong answer does not move the threshold
    assert unknown_answered(known, correct, [0.75, 0.2, 0.05], kept=0.75) == pytest.approx(1 / 3)
    assert unknown_answered(known, correct, [0.75, 0.2, 0.05], kept=1.0) == pytest.approx(2 / 3)
    weights = [1, 0, 1, 0, 5], [0, 1, 1]
    value = unknown_answered(known, correct, [0.75, 0.2, 0.8], kept=1.0, sample_weight=weights)
    assert value == 0.5


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1), scores)
@settings(max_examples=100, deadline=None)
def test_strangers_that_are_answered_keep_the_right_answers(rows, unknown):
    known, correct = zip(*rows, strict=True)
    if not any(correct):
        with pytest.raises(ValueError, match="no answer is correct"):
            unknown_answered(known, correct, unknown)
        return
    right = np.array(known)[np.array(correct)]
    kept = [threshold for threshold in right if np.mean(right >= threshold) >= 0.9]
    expected = np.mean(np.array(unknown) >= max(kept))
    assert unknown_answered(known, correct, unknown) == pytest.approx(expected)


def test_fpr_at_a_share_that_rounds():
    # 0.07 * 100 is a little more than 7: the seventh from the top, 93, is the threshold
    known = np.arange(100.0)
    assert fpr_at_tpr(known, [92.5, 50.0], tpr=0.07) == 0.0
    assert fpr_at_tpr(known, [93.0, 50.0], tpr=0.07) == 0.5


def test_auroc_of_many_scores_does_not_overflow():
    known, unknown = np.linspace(1, 2, 100_000), np.linspace(0, 1, 100_000) - 1e-9
    assert auroc(known, unknown) == 1.0
