"""What people have: binary scores, confidence and correctness, names of classes, weights and
groups."""

import inspect
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import calibration as sklearn_calibration
from sklearn import metrics as reference

from socrates.metrics import (
    CalibrationMeter,
    GroupTable,
    Top,
    accuracy,
    ada_ece,
    augrc,
    aupr,
    aurc,
    auroc,
    bootstrap,
    brier,
    coverage_at_risk,
    cw_ece,
    debiased_ece,
    ece,
    floor,
    fpr_at_tpr,
    mce,
    nll,
    predict,
    reliability,
    risk_coverage,
    smooth_ece,
)

AT_RISK = partial(coverage_at_risk, max_risk=0.3)
OF_TOP = [accuracy, ece, mce, ada_ece, debiased_ece, smooth_ece, aurc, augrc, AT_RISK]
OF_ROWS = [nll, brier, cw_ece]
METRICS = OF_TOP + OF_ROWS


def names(metric):
    return getattr(metric, "func", metric).__name__


def make_case(num_samples=300, num_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(num_classes, 0.5), num_samples)
    labels = (
        (probs.cumsum(axis=1) < rng.random((num_samples, 1))).sum(axis=1).clip(max=num_classes - 1)
    )
    return probs, labels


@pytest.fixture(scope="module")
def case():
    return make_case()


@pytest.fixture(scope="module")
def binary():
    probs, labels = make_case(num_classes=2, seed=1)
    return probs[:, 1], labels


@pytest.fixture(scope="module")
def weight():
    return np.random.default_rng(2).gamma(1.0, size=300)


# Binary scores


@pytest.mark.parametrize("metric", METRICS, ids=names)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_of_class_1_are_two_columns(metric, dtype, binary):
    score, labels = binary[0].astype(dtype), binary[1]
    expected = metric(np.stack([1 - score, score], axis=1), labels)
    for given_score in (
        score,
        score[:, None],
        torch.tensor(score),
        torch.tensor(score)[:, None],
        list(score),
    ):
        assert metric(given_score, labels) == expected
    assert metric(score, labels == 1) == expected
    assert metric(score, np.array(["no", "yes"])[labels], classes=["no", "yes"]) == expected


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_scores_in_half_precision_are_read_in_full(dtype, binary):
    score = torch.tensor(binary[0]).to(dtype)
    for metric in METRICS:
        assert metric(score, binary[1]) == metric(score.float(), binary[1])


def test_the_answer_and_class_1_are_measured_apart():
    score, labels = [0.1, 0.1, 0.1, 0.1, 0.8], [0, 0, 0, 1, 1]
    assert ece(score, labels) == pytest.approx((4 * abs(0.9 - 0.75) + 0.2) / 5)
    assert ece(confidence=score, correct=labels) == pytest.approx((4 * abs(0.1 - 0.25) + 0.2) / 5)


def test_class_1_equals_torchmetrics_netcal_and_scikit_learn(binary):
    score, labels = binary[0].astype(np.float32), binary[1]
    bins = reliability(confidence=score, correct=labels, num_bins=10)
    share, mean = sklearn_calibration.calibration_curve(labels, score, n_bins=10)
    filled = bins.count > 0
    np.testing.assert_allclose(bins.accuracy[filled], share, rtol=1e-6)
    np.testing.assert_allclose(bins.confidence[filled], mean, rtol=1e-6)
    torchmetrics = pytest.importorskip("torchmetrics.functional.classification")
    for norm, ours in (("l1", ece), ("max", mce)):
        theirs = torchmetrics.binary_calibration_error(
            torch.tensor(score), torch.tensor(labels), n_bins=10, norm=norm
        )
        assert ours(confidence=score, correct=labels, num_bins=10) == pytest.approx(
            float(theirs), abs=1e-6
        )
    netcal = pytest.importorskip("netcal.metrics")
    assert ece(confidence=score, correct=labels, num_bins=10) == pytest.approx(
        netcal.ECE(10).measure(score, labels)
    )


# Confidence and correctness


@pytest.mark.parametrize("metric", OF_TOP, ids=names)
def test_confidence_and_correctness_by_keyword(metric, case, weight):
    probs, labels = case
    confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
    for options in ({}, {"sample_weight": weight}):
        expected = metric(probs, labels, **options)
        assert metric(confidence=confidence, correct=correct, **options) == expected
        assert (
            metric(confidence=torch.tensor(confidence), correct=correct.tolist(), **options)
            == expected
        )
        assert metric(Top.of(confidence, correct, **options)) == expected
        assert metric(Top.of(confidence, correct), **options) == expected
    interval = bootstrap(metric, probs, labels, num_resamples=10)
    assert bootstrap(metric, confidence=confidence, correct=correct, num_resamples=10) == interval
    assert floor(metric, confidence=confidence, num_draws=5) == floor(metric, probs, num_draws=5)


def test_scores_to_rank_by(case):
    probs, labels = case
    correct, energy = probs.argmax(axis=1) == labels, 10 * np.log(probs.max(axis=1))
    for metric in (aurc, augrc):
        assert metric(confidence=energy, correct=correct) == metric(probs, labels, energy)
        assert metric(probs, labels, confidence=energy) == pytest.approx(metric(probs, labels))
    assert (
        coverage_at_risk(probs, labels, 0.3, energy)
        == AT_RISK(confidence=energy, correct=correct)
        == AT_RISK(*case)
    )
    curve = risk_coverage(confidence=energy, correct=correct)
    np.testing.assert_array_equal(curve.risk, risk_coverage(probs, labels).risk)
    ranked = bootstrap(partial(aurc, confidence=energy), probs, labels, num_resamples=20)
    assert ranked == bootstrap(aurc, confidence=energy, correct=correct, num_resamples=20)


def test_thresholds_answer_their_own_samples():
    """0.1 * 3 / 3 is above 0.1: a mean of equal confidences would withhold them."""
    curve = risk_coverage(confidence=[0.1, 0.1, 0.1, 0.7], correct=[1, 0, 1, 1])
    assert curve.threshold.tolist() == [0.7, 0.1]


# Names of classes


@pytest.mark.parametrize("metric", METRICS, ids=names)
def test_labels_by_name(metric, case):
    probs, labels = case
    expected, known = metric(probs, labels), ["ant", "bee", "cat", "dog"]
    named = np.array(known)[labels]
    for given_labels in (named, named.tolist(), named.astype(object), labels):
        assert metric(probs, given_labels, classes=known) == expected
    assert metric(probs, named, classes=np.array(known)) == expected
    assert metric(probs, np.array([7, 5, 3, 1])[labels], classes=[7, 5, 3, 1]) == expected
    assert metric(probs, named, classes=known, groups=named)["ant"] == metric(
        probs[labels == 0], labels[labels == 0]
    )


def test_labels_by_name_in_bootstrap_and_meter(case):
    probs, labels = case
    known = ["ant", "bee", "cat", "dog"]
    named = np.array(known)[labels]
    assert bootstrap(ece, probs, named, classes=known, num_resamples=5) == bootstrap(
        ece, *case, num_resamples=5
    )
    meter = CalibrationMeter()
    meter.update(probs, named, classes=known)
    assert meter.compute()["nll"] == nll(probs, labels)


GOOD, CONFIDENCE, CORRECT = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]], [0.9, 0.6], [1, 0]
KNOWN = ["cat", "dog", "bird"]
BAD_CALLS = {
    "a close name": (
        lambda: ece(GOOD, ["cat", "dgo"], classes=KNOWN),
        r"'dgo', .*did you mean 'dog'",
    ),
    "a far name": (
        lambda: nll(GOOD, ["cat", "whale"], classes=KNOWN),
        r"'whale', .*one of 'cat', 'dog', 'bird'",
    ),
    "a number among numbers": (
        lambda: ece(GOOD, [10, 40], classes=[10, 20, 30]),
        r"labels hold 40, .*one of 10, 20",
    ),
    "a missing label": (
        lambda: ece(GOOD, np.array(["cat", None], object), classes=KNOWN),
        r"labels .*position 1",
    ),
    "too few names": (
        lambda: ece(GOOD, ["cat", "dog"], classes=["cat", "dog"]),
        r"2 names for 3 classes.*each column",
    ),
    "one string": (lambda: ece(GOOD, ["cat", "dog"], classes="cat"), r"1 names for 3 classes"),
    "a name twice": (
        lambda: ece(GOOD, ["a", "b"], classes=["a", "b", "a"]),
        r"classes holds 'a' twice",
    ),
    "no names": (lambda: ece(GOOD, ["cat", "dog"]), r"expected class numbers: .* classes="),
    "numbers beyond": (lambda: ece(GOOD, [0, 3], classes=KNOWN), r"labels hold 3"),
    "scores of three classes": (
        lambda: ece([0.7, 0.8], [0, 2]),
        r"labels hold 2",
    ),
    "nothing": (
        lambda: ece(),
        r"probs without labels: .*correct=",
    ),
    "rows without labels": (lambda: nll(GOOD, None), r"got probs without labels"),
    "confidence alone": (lambda: ece(confidence=CONFIDENCE), r"got confidence= without correct="),
    "correct alone": (lambda: aurc(correct=CORRECT), r"got correct= without confidence="),
    "both entries": (
        lambda: ece(GOOD, [0, 1], confidence=CONFIDENCE, correct=CORRECT),
        r"got probs beside confidence=",
    ),
    "both, ranked": (
        lambda: aurc(GOOD, [0, 1], CONFIDENCE, correct=CORRECT),
        r"got probs beside confidence=",
    ),
    "labels, ranked": (
        lambda: aurc(labels=CORRECT, confidence=CONFIDENCE, correct=CORRECT),
        r"got labels beside",
    ),
    "rows needed": (
        lambda: nll(Top.of(CONFIDENCE, CORRECT)),
        r"confidence and correctness alone, expected",
    ),
    "a share of errors needed": (lambda: coverage_at_risk(GOOD, [0, 1]), r"max_risk=None"),
    "rows needed by bootstrap": (
        lambda: bootstrap(cw_ece, confidence=CONFIDENCE, correct=CORRECT),
        r"alone, expected",
    ),
    "rows needed by floor": (
        lambda: floor(nll, confidence=CONFIDENCE),
        r"alone, expected \(N, C\) probabilities",
    ),
    "floor: two entries": (
        lambda: floor(ece, GOOD, confidence=CONFIDENCE),
        r"got probs beside confidence=",
    ),
    "bootstrap: level": (
        lambda: bootstrap(ece, GOOD, [0, 1], level=95),
        r"level=95",
    ),
    "weights: too few": (
        lambda: ece(GOOD, [0, 1], sample_weight=[1]),
        r"shape \(1,\)",
    ),
    "weights: a column": (
        lambda: nll(GOOD, [0, 1], sample_weight=[[1], [2]]),
        r"shape \(2, 1\)",
    ),
    "weights: negative": (
        lambda: ece(GOOD, [0, 1], sample_weight=[1, -2]),
        r"holds -2 at position 1",
    ),
    "weights: NaN": (
        lambda: ece(GOOD, [0, 1], sample_weight=[np.nan, 1]),
        r"holds nan at position 0",
    ),
    "weights: infinite": (
        lambda: ece(GOOD, [0, 1], sample_weight=[np.inf, 1]),
        r"holds inf at position 0",
    ),
    "weights: all 0": (
        lambda: ece(GOOD, [0, 1], sample_weight=[0, 0]),
        r"sums to 0,",
    ),
    "weights: huge": (
        lambda: ece(GOOD, [0, 1], sample_weight=[1e308, 1e308]),
        r"sums to inf",
    ),
    "weights: words": (
        lambda: ece(GOOD, [0, 1], sample_weight=["a", "b"]),
        r"dtype <U1, expected numbers",
    ),
    "weights: twice": (
        lambda: ece(Top.of(CONFIDENCE, CORRECT, [1, 2]), sample_weight=[1, 2]),
        r"sample_weight beside a Top",
    ),
    "weights: of one kind": (
        lambda: auroc([0.5], [0.4], sample_weight=[1]),
        r"length 1",
    ),
    "weights: of known": (
        lambda: aupr([0.5], [0.4], sample_weight=([1, 1], None)),
        r"of known has shape \(2,\)",
    ),
    "groups: too few": (lambda: ece(GOOD, [0, 1], groups=["a"]), r"1 groups for 2 samples"),
    "groups: two columns": (
        lambda: ece(GOOD, [0, 1], groups=[["a", "b"], ["c", "d"]]),
        r"shape \(2, 2\), expected",
    ),
    "meter: rows after confidences": (
        lambda: mixed(top_first=True),
        r"cannot add rows",
    ),
    "meter: confidences after rows": (
        lambda: mixed(top_first=False),
        r"cannot add confidence",
    ),
}


def mixed(top_first):
    meter = CalibrationMeter()
    updates = [
        lambda: meter.update(GOOD, [0, 1]),
        lambda: meter.update(confidence=CONFIDENCE, correct=CORRECT),
    ]
    for update in reversed(updates) if top_first else updates:
        update()


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls(name):
    call, message = BAD_CALLS[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_curves_take_no_groups():
    for curve in (reliability, risk_coverage):
        with pytest.raises(TypeError, match="'groups'"):
            curve(GOOD, [0, 1], groups=["a", "b"])


# Weights


@given(st.integers(0, 10_000), st.lists(st.integers(0, 4), min_size=3, max_size=40).filter(any))
@settings(max_examples=60, deadline=None)
def test_whole_weights_are_copies(seed, weights):
    probs, labels = make_case(len(weights), 3, seed)
    probs = np.round(probs, 1)  # ties
    probs[:, 2] = 1 - probs[:, 0] - probs[:, 1]
    probs = np.abs(probs)
    copies = np.repeat(np.arange(len(weights)), weights)
    confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
    for metric in METRICS:
        if metric is nll or metric is debiased_ece:
            continue  # zeros warn, and a debiased error counts observations
        expected = metric(probs[copies], labels[copies])
        assert metric(probs, labels, sample_weight=weights) == pytest.approx(expected, abs=1e-12), (
            names(metric)
        )
    for ours in (auroc, aupr, fpr_at_tpr):
        known, unknown = correct[copies], ~correct[copies]
        if known.any() and unknown.any():
            pair = np.array(weights)[correct], np.array(weights)[~correct]
            value = ours(confidence[correct], confidence[~correct], sample_weight=pair)
            assert value == pytest.approx(
                ours(confidence[copies][known], confidence[copies][unknown]), abs=1e-12
            )
    bins, repeated = (
        reliability(probs, labels, sample_weight=weights),
        reliability(probs[copies], labels[copies]),
    )
    np.testing.assert_allclose(bins.count, repeated.count, atol=1e-12)
    np.testing.assert_allclose(bins.gap, repeated.gap, atol=1e-12)


def test_nll_of_whole_weights(case):
    weights = np.arange(300) % 4
    copies = np.repeat(np.arange(300), weights)
    probs, labels = case
    assert nll(probs, labels, sample_weight=weights) == pytest.approx(
        nll(probs[copies], labels[copies]), abs=1e-12
    )


@pytest.mark.parametrize("metric", METRICS, ids=names)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_of_1_are_none(metric, dtype, case):
    probs, labels = case[0].astype(dtype), case[1]
    assert metric(probs, labels, sample_weight=np.ones(300)) == metric(probs, labels)
    assert metric(probs, labels, sample_weight=torch.ones(300)) == metric(probs, labels)


@pytest.mark.parametrize("metric", METRICS, ids=names)
def test_a_scale_of_the_weights_changes_nothing(metric, case, weight):
    expected = metric(*case, sample_weight=weight)
    assert metric(*case, sample_weight=7.3 * weight) == pytest.approx(expected, rel=1e-9)
    assert metric(*case, sample_weight=weight.astype(np.float32)) == pytest.approx(
        expected, rel=1e-5
    )
    assert expected != metric(*case)


@pytest.mark.parametrize("metric", METRICS, ids=names)
@pytest.mark.parametrize(
    "read", [lambda probs: probs, lambda probs: predict(np.log(probs))], ids=["rows", "Prediction"]
)
def test_a_weight_of_0_is_absence(metric, read, case, weight):
    probs, labels = case
    kept = np.arange(300) % 3 > 0
    weights, spoilt = np.where(kept, weight, 0), np.where(kept, labels, -100)
    expected = metric(read(probs[kept]), labels[kept], sample_weight=weight[kept])
    assert metric(read(probs), spoilt, sample_weight=weights) == expected
    interval = bootstrap(metric, read(probs), spoilt, sample_weight=weights, num_resamples=5)
    assert interval == bootstrap(
        metric, read(probs[kept]), labels[kept], sample_weight=weight[kept], num_resamples=5
    )
    lowest = floor(metric, read(probs), sample_weight=weights, num_draws=3)
    assert lowest == floor(metric, read(probs[kept]), sample_weight=weight[kept], num_draws=3)
    groups = np.arange(300) % 2
    table = metric(read(probs), spoilt, sample_weight=weights, groups=groups)
    assert table == metric(
        read(probs[kept]), labels[kept], sample_weight=weight[kept], groups=groups[kept]
    )


def test_what_stands_at_a_weight_of_0_is_not_looked_at():
    weights, known = [2, 0, 1, 0], [2, 1]
    rows = np.array([[0.7, 0.3], [np.nan, 7], [0.4, 0.6], [3, -1]])
    confidence, correct = [0.9, np.nan, 0.6, 7.0], [1, 5, 0, np.nan]
    for metric in (ece, brier, cw_ece, accuracy):
        expected = metric([[0.7, 0.3], [0.4, 0.6]], [0, 0], sample_weight=known)
        assert metric(rows, [0, 9, 0, -1], sample_weight=weights) == expected
        assert metric(rows[:, 1], [0, 9, 0, -1], sample_weight=weights) == expected
        assert (
            metric(rows, ["a", "?", "a", "?"], classes=["a", "b"], sample_weight=weights)
            == expected
        )
    expected = ece(confidence=[0.9, 0.6], correct=[1, 0], sample_weight=known)
    assert ece(confidence=confidence, correct=correct, sample_weight=weights) == expected
    assert aurc(confidence=confidence, correct=correct, sample_weight=weights) == pytest.approx(
        1 / 9
    )
    with pytest.raises(ValueError, match=r"confidence .* position 1"):
        ece(confidence=confidence, correct=[1, 1, 0, 0], sample_weight=[2, 1, 1, 0])


def test_errors_name_the_rows_as_they_were_given():
    probs = np.full((10, 2), 0.5)
    probs[2], probs[7] = np.nan, [0.5, 0.6]
    weights = [1, 1, 0, 1, 0, 1, 1, 1, 1, 1]
    with pytest.raises(ValueError, match=r"row 7 .*1\.1"):
        ece(probs, [0] * 10, sample_weight=weights)
    with pytest.raises(ValueError, match=r"row 7 .*1\.1"):
        cw_ece(probs, [0] * 10, sample_weight=weights, groups=[0, 1] * 5)


def test_weights_equal_scikit_learn(case, binary, weight):
    probs, labels = case
    options = {"sample_weight": weight}
    assert accuracy(probs, labels, **options) == pytest.approx(
        reference.accuracy_score(labels, probs.argmax(axis=1), **options)
    )
    assert nll(probs, labels, **options) == pytest.approx(
        reference.log_loss(labels, probs, **options)
    )
    score, truth = binary
    assert brier(score, truth, **options) == pytest.approx(
        2 * reference.brier_score_loss(truth, score, **options)
    )
    assert nll(score, truth, **options) == pytest.approx(
        reference.log_loss(truth, score, **options)
    )
    assert accuracy(score, truth, **options) == pytest.approx(
        reference.accuracy_score(truth, score > 0.5, **options)
    )
    for scores in (score, score.round(1)):
        pair = scores[truth == 1], scores[truth == 0]
        weights = weight[truth == 1], weight[truth == 0]
        expected = reference.roc_auc_score(truth, scores, **options)
        assert auroc(*pair, sample_weight=weights) == pytest.approx(expected)
        expected = reference.average_precision_score(truth, scores, **options)
        assert aupr(*pair, sample_weight=weights) == pytest.approx(expected)
        false, true, _ = reference.roc_curve(truth, scores, drop_intermediate=False, **options)
        assert fpr_at_tpr(*pair, sample_weight=weights) == pytest.approx(
            false[np.argmax(true >= 0.95 - 1e-12)]
        )


def test_bins_of_equal_weight_by_hand():
    """Half of the weight, 1.5, ends within the second sample, which gives each side its share."""
    top = Top.of([0.6, 0.7, 0.9], [1, 0, 1], [0.5, 1.5, 1.0])
    first = (0.5 * 0.6 + 1.0 * 0.7) - 0.5
    second = (0.5 * 0.7 + 1.0 * 0.9) - 1.0
    assert ada_ece(top, num_bins=2) == pytest.approx((abs(first) + abs(second)) / 3)


def test_debiased_ece_counts_observations():
    probs, labels = [[0.8, 0.2]] * 10, [0] * 7 + [1] * 3
    alike = debiased_ece(probs, labels, sample_weight=[2] * 10)
    assert alike == pytest.approx(debiased_ece(probs, labels))
    assert alike < debiased_ece(probs * 2, labels * 2)


# Groups


@pytest.mark.parametrize("metric", METRICS, ids=names)
@pytest.mark.parametrize(
    "read", [lambda probs: probs, lambda probs: predict(np.log(probs))], ids=["rows", "Prediction"]
)
def test_groups_are_measured_one_by_one(metric, read, case, weight):
    probs, labels = case
    groups = np.array(["b", "a", "c"])[np.arange(300) % 7 % 3]
    for weights in (None, weight):
        table = metric(read(probs), labels, sample_weight=weights, groups=groups)
        assert isinstance(table, GroupTable)
        assert list(table) == ["a", "b", "c"]
        for group, value in table.items():
            part = groups == group
            inside = None if weights is None else weights[part]
            assert value == metric(read(probs[part]), labels[part], sample_weight=inside)
            assert type(value) is float
            assert table.counts[group] == part.sum()


def test_groups_of_any_kind(case):
    expected = list(ece(*case, groups=["a", "b", "c"] * 100).values())
    for groups in ([1, 2, 3], [-1.5, 0.0, 2.5], [False, True, True]):
        table = ece(*case, groups=groups * 100)
        assert list(table) == sorted(set(groups))
    assert list(ece(*case, groups=torch.tensor([1, 2, 3] * 100)).values()) == expected
    assert list(ece(*case, groups=np.array(["a", 2, "c"] * 100, object))) == ["2", "a", "c"]
    with pytest.raises(ValueError, match=r"groups\b.*\b100\b.*position 2"):
        ece(*case, groups=np.array(["a", 2, None] * 100, object))


def test_a_table_prints():
    table = accuracy([0.9, 0.2, 0.7], [1, 1, 0], groups=["a long name", "b", "b"])
    assert (
        str(table)
        == "group        count  accuracy\na long name      1  1.0000\nb                2  0.0000"
    )
    assert table == {"a long name": 1.0, "b": 0.0}


# Intervals and floors


# The accuracy has Wilson's interval instead, see tests/test_metrics_uncertainty.py.
RESAMPLED = [metric for metric in METRICS if metric is not accuracy]


@pytest.mark.parametrize("metric", RESAMPLED, ids=names)
def test_weighted_intervals_equal_the_plain_way(metric, case, weight):
    fast = bootstrap(metric, *case, sample_weight=weight, num_resamples=20)
    plain = bootstrap(
        lambda *rows, **options: metric(*rows, **options),
        *case,
        sample_weight=weight,
        num_resamples=20,
    )
    assert (fast.low, fast.high) == pytest.approx((plain.low, plain.high), abs=1e-12)
    assert fast.estimate == metric(*case, sample_weight=weight)
    assert fast == bootstrap(partial(metric, sample_weight=weight), *case, num_resamples=20)
    assert fast != bootstrap(metric, *case, num_resamples=20)


def test_the_level_has_two_names(case):
    assert bootstrap(ece, *case, level=0.5, num_resamples=20) == bootstrap(
        ece, *case, confidence=0.5, num_resamples=20
    )


@pytest.mark.parametrize("metric", [accuracy, nll, cw_ece], ids=names)
def test_weighted_floor_is_the_weighted_metric_of_drawn_labels(metric, case, weight):
    """Half of the weight on the ten surest rows: the accuracy that is drawn follows the weights."""
    probs = case[0]
    sure = np.argsort(probs.max(axis=1))[-10:]
    weights = np.ones(300)
    weights[sure] = 290 / 10
    drawn = floor(metric, probs, sample_weight=weights, num_draws=400)
    mean = partial(np.average, weights=weights)
    expected = {accuracy: mean(probs.max(axis=1)), nll: mean(-(probs * np.log(probs)).sum(axis=1))}
    if metric in expected:
        assert drawn == pytest.approx(expected[metric], abs=0.01)
    assert drawn != floor(metric, probs, num_draws=400)


# The meter


def test_weighted_meter_equals_the_metrics_whatever_the_batches(case, weight):
    probs, labels = case
    weights = np.where(np.arange(300) % 5, weight, 0)
    meters = []
    for rows in np.split(np.arange(300), [1, 100, 250]):
        meter = CalibrationMeter(num_classes=4)
        if weights[rows].any():
            meter.update(probs[rows], labels[rows], sample_weight=weights[rows])
        meters.append(meter)
    values = sum(meters).compute()
    whole = CalibrationMeter(num_classes=4)
    whole.update(probs, labels, sample_weight=weights)
    assert values == pytest.approx(whole.compute(), abs=1e-12)
    assert values["count"] == pytest.approx(weights.sum())
    for metric in (accuracy, ece, mce, nll, brier, cw_ece):
        assert values[names(metric)] == pytest.approx(
            metric(probs, labels, sample_weight=weights), abs=1e-12
        )
    exact = ada_ece(probs, labels, sample_weight=weights)
    assert abs(values["ada_ece"] - exact) <= whole.ada_ece_bound() + 1e-12


def test_meter_of_confidence_and_correctness(case, weight):
    probs, labels = case
    confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
    rows, tops = CalibrationMeter(num_classes=4), CalibrationMeter(num_classes=4)
    rows.update(probs, labels, sample_weight=weight)
    tops.update(confidence=confidence[:100], correct=correct[:100], sample_weight=weight[:100])
    tops.update(Top.of(confidence[100:], correct[100:], weight[100:]))
    expected = {
        name: value
        for name, value in rows.compute().items()
        if name not in ("nll", "brier", "cw_ece")
    }
    assert tops.compute() == pytest.approx(expected, abs=1e-12)
    again = CalibrationMeter.from_state(tops.state())
    assert again.compute() == tops.compute()
    again.merge(CalibrationMeter(num_classes=4))
    assert again.compute() == tops.compute()
    with pytest.raises(ValueError, match="cannot add confidence"):
        rows.merge(tops)
    before = rows.compute()
    with pytest.raises(ValueError, match="cannot add confidence"):
        rows.update(confidence=confidence, correct=correct)
    assert rows.compute() == before


# Signatures


def test_signatures():
    assert str(inspect.signature(ece)).startswith(
        "(probs: 'TopLike | None' = None, labels: 'LabelsLike | None' = None"
    )
    expected = [
        "probs",
        "labels",
        "num_bins",
        "confidence",
        "correct",
        "sample_weight",
        "classes",
        "groups",
    ]
    assert list(inspect.signature(ece).parameters) == expected
    assert list(inspect.signature(coverage_at_risk).parameters)[:4] == [
        "probs",
        "labels",
        "max_risk",
        "confidence",
    ]
    assert list(inspect.signature(cw_ece).parameters)[:4] == [
        "probs",
        "labels",
        "num_bins",
        "num_classes",
    ]
    assert "confidence" not in inspect.signature(nll).parameters
    assert "groups" not in inspect.signature(reliability).parameters
    assert ece.__name__ == "ece"
    assert "expected calibration error" in ece.__doc__


def test_positional_calls(case):
    probs, labels = case
    assert (
        ece(probs, labels, 7)
        == ece(probs, labels, num_bins=7)
        == ece(labels=labels, probs=probs, num_bins=7)
    )
    narrow = probs[:, :3] / probs[:, :3].sum(axis=1, keepdims=True)
    padded = np.append(narrow, np.zeros((300, 1)), axis=1)
    assert cw_ece(padded, labels % 3, 7, 3) == cw_ece(padded, labels % 3, num_classes=3, num_bins=7)
    for call in (
        lambda: ece(probs, labels, bins=7),
        lambda: ece(probs, labels, num_classes=4),
        lambda: ece(probs, labels, 7, 3),
        lambda: nll(probs, labels, confidence=probs.max(axis=1)),
    ):
        with pytest.raises(TypeError, match=r"(ece|nll)\(\)"):
            call()
