"""Calibration errors: by hand, against the reference values, and the properties that hold for every
input."""

import itertools
import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from socrates.arrays.entries import open_samples, open_top
from socrates.metrics import (
    BinStats,
    Reliability,
    ada_ece,
    brier,
    cw_ece,
    debiased_ece,
    ece,
    mce,
    nll,
    predict,
    reliability,
    smooth_ece,
)
from socrates.metrics.binning import (
    bin_index,
    class_bin_stats,
    equal_mass,
    equal_ranks,
    stats_by_confidence,
)
from socrates.metrics.smooth import _CELLS, _on_grid, _smoothed_error

GOLDEN = Path(__file__).parent / "golden"
CASES = json.loads((GOLDEN / "metrics.json").read_text())["cases"]
BINNED = [ece, mce, ada_ece, debiased_ece, cw_ece]


def two_classes(confidence, correct):
    """Rows of two classes whose top one, class 0, has this confidence (above 1/2) and is right or
    not."""
    confidence = np.asarray(confidence)
    return np.stack([confidence, 1 - confidence], axis=1), 1 - np.asarray(correct, int)


def random_case(num_samples=500, num_classes=7, seed=0, scale=2.0):
    rng = np.random.default_rng(seed)
    logits = scale * rng.normal(size=(num_samples, num_classes))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return probs, rng.integers(0, num_classes, num_samples)


def plain_ece(confidence, correct, num_bins):
    """The definition, written as slowly as it reads."""
    total = 0.0
    for m in range(num_bins):
        low, high = m / num_bins, (m + 1) / num_bins
        inside = (confidence <= high) & ((confidence > low) | (m == 0))
        if inside.any():
            total += inside.mean() * abs(confidence[inside].mean() - correct[inside].mean())
    return total


@st.composite
def samples(draw, max_samples=40, max_classes=6):
    shape = draw(st.tuples(st.integers(1, max_samples), st.integers(2, max_classes)))
    # Small integers make ties, zeros and certainties common.
    weights = draw(hnp.arrays(np.float64, shape, elements=st.integers(0, 5).map(float))) + 0.0
    weights[weights.sum(axis=1) == 0, 0] = 1
    labels = draw(hnp.arrays(np.int64, shape[0], elements=st.integers(0, shape[1] - 1)))
    return weights / weights.sum(axis=1, keepdims=True), labels


# Worked examples: confidences 0.55 (right), 0.65 (wrong), 0.95 (right), 0.95 (wrong)

HAND = two_classes([0.55, 0.65, 0.95, 0.95], [1, 0, 1, 0])


def test_ece_by_hand():
    # Bins of a tenth: (0.45 + 0.65 + 2 * 0.45) / 4.
    assert ece(*HAND, num_bins=10) == pytest.approx((0.45 + 0.65 + 0.9) / 4)
    assert ece(*HAND, num_bins=1) == pytest.approx(abs(3.1 - 2) / 4)


def test_mce_by_hand():
    assert mce(*HAND, num_bins=10) == pytest.approx(0.65)


def test_ada_ece_by_hand():
    # Two bins of two: {0.55, 0.65} with one right, {0.95, 0.95} with one right.
    assert ada_ece(*HAND, num_bins=2) == pytest.approx((abs(1.2 - 1) + abs(1.9 - 1)) / 4)
    # Three bins of 2, 1, 1: the tied 0.95 are half right on either side of the cut.
    assert ada_ece(*HAND, num_bins=3) == pytest.approx((0.2 + 0.45 + 0.45) / 4)


def test_ada_ece_of_ties_across_the_first_cut():
    # Three at 0.6, one of them right: two thirds of them are in the first bin, one third with 0.9
    # in the second.
    tied = two_classes([0.6, 0.6, 0.6, 0.9], [1, 0, 0, 1])
    assert ada_ece(*tied, num_bins=2) == pytest.approx((abs(1.2 - 2 / 3) + abs(1.5 - 4 / 3)) / 4)
    stats = equal_mass(stats_by_confidence(open_top(*tied)), 2)
    np.testing.assert_allclose(
        [stats.count, stats.confidence, stats.correct], [[2, 2], [1.2, 1.5], [2 / 3, 4 / 3]]
    )


def test_ada_ece_with_more_bins_than_samples():
    assert ada_ece(*HAND, num_bins=50) == pytest.approx((0.45 + 0.65 + 0.45 + 0.45) / 4)


def test_cw_ece_by_hand():
    probs = np.array([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]])
    labels = np.array([0, 1])
    # Two bins. Class 0: 0.7 (right), 0.3 (no): 0.3 + 0.3. Class 1: 0.2 + 0.3 against 1. Class 2:
    # 0.1 + 0.4 against 0.
    assert cw_ece(probs, labels, num_bins=2) == pytest.approx((0.6 + 0.5 + 0.5) / (2 * 3))
    assert cw_ece(probs, labels, num_bins=2, num_classes=2) == pytest.approx((0.6 + 0.5) / (2 * 2))


def test_debiased_ece_by_hand():
    probs, labels = two_classes([0.8] * 10, [1] * 7 + [0] * 3)
    std = math.sqrt(0.7 * 0.3 / 10)
    z = 0.1 / std / math.sqrt(2)
    noisy = std * math.sqrt(2 / math.pi) * math.exp(-z * z) + 0.1 * math.erf(z)
    assert debiased_ece(probs, labels) == pytest.approx(0.1 - (noisy - 0.1))


def test_debiased_ece_removes_the_bias_of_a_calibrated_model():
    rng = np.random.default_rng(0)
    plain, debiased = [], []
    for _ in range(50):
        confidence = rng.uniform(0.5, 1, 1000)
        case = two_classes(confidence, rng.random(1000) < confidence)
        plain.append(ece(*case))
        debiased.append(debiased_ece(*case))
    assert np.mean(debiased) < 0.6 * np.mean(plain)


def test_debiased_ece_is_never_negative():
    """Four of five right at 0.8: no gap, so that all that remains is the noise that is taken
    off."""
    assert debiased_ece(*two_classes([0.8] * 5, [1, 1, 1, 1, 0])) == 0.0
    # all right: no noise at all
    assert debiased_ece(*two_classes([0.75] * 4, [1, 1, 1, 1])) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("total", "num_bins", "ranks"),
    [(7, 3, [0, 3, 5, 7]), (6, 3, [0, 2, 4, 6]), (2, 4, [0, 1, 2, 2, 2]), (5, 1, [0, 5])],
)
def test_ranks_of_equal_counts_by_hand(total, num_bins, ranks):
    np.testing.assert_array_equal(equal_ranks(np.array([total - 1, 1]), num_bins), ranks)


def test_class_wise_bins_leave_out_columns_beyond_the_classes():
    probs = np.array([[0.1, 0.1, 0.8], [0.7, 0.1, 0.2]])
    # Two bins. Class 0: 0.1 (right) and 0.7 (wrong); class 1: 0.1 (no) and 0.1 (right). The third
    # column is unknown.
    assert cw_ece(probs, [0, 1], num_bins=2, num_classes=2) == pytest.approx(
        (0.9 + 0.7 + 0.8) / (2 * 2)
    )
    stats = class_bin_stats(open_samples(probs, [0, 1], num_classes=2), 2)
    np.testing.assert_allclose(stats.count, [[1, 1], [2, 0]])
    np.testing.assert_allclose(stats.confidence, [[0.1, 0.7], [0.2, 0]], atol=1e-15)
    np.testing.assert_allclose(stats.correct, [[1, 0], [1, 0]])


def test_bin_stats_by_hand():
    stats = BinStats(np.array([2.0, 0, 4]), np.array([1.0, 0, 3]), np.array([2.0, 0, 1]))
    np.testing.assert_allclose(stats.gap, [-0.5, np.nan, 0.5])
    np.testing.assert_allclose(stats.mean(stats.correct), [1, np.nan, 0.25])
    assert stats.ece == pytest.approx((1 + 2) / 6)
    assert (stats + stats).ece == stats.ece
    assert BinStats(np.array([2.0, 0, 4]), np.array([1.0, 0, 3]), np.array([2.0, 0, 0])).mce == 0.75


def test_residuals_are_shared_between_the_nearest_cells():
    centre = (np.array([0, 10, _CELLS - 1]) + 0.5) / _CELLS
    grid = _on_grid(np.append(centre, (20.75) / _CELLS), np.array([1.0, 2.0, 3.0, 4.0]))
    assert {cell: grid[cell] for cell in np.flatnonzero(grid)} == pytest.approx(
        {0: 1.0, 10: 2.0, 20: 3.0, 21: 1.0, _CELLS - 1: 3.0}
    )
    ends = _on_grid(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    assert (ends[0], ends[-1], ends.sum()) == (1.0, 2.0, 3.0)


def test_reliability_by_hand():
    bins = reliability(*HAND, num_bins=4)
    np.testing.assert_array_equal(bins.count, [0, 0, 2, 2])
    np.testing.assert_allclose(bins.confidence, [np.nan, np.nan, 0.6, 0.95])
    np.testing.assert_allclose(bins.accuracy, [np.nan, np.nan, 0.5, 0.5])
    np.testing.assert_allclose(bins.gap, [np.nan, np.nan, 0.1, 0.45])
    np.testing.assert_allclose(bins.lower, [0, 0.25, 0.5, 0.75])
    np.testing.assert_allclose(bins.upper, [0.25, 0.5, 0.75, 1])
    sums = BinStats(np.array([2.0, 2]), np.array([0.5, 1.5]), np.array([0.0, 2]))
    pooled = Reliability.of(sums + sums)
    np.testing.assert_allclose(
        [pooled.count, pooled.confidence, pooled.accuracy], [[4, 4], [0.25, 0.75], [0, 1]]
    )
    np.testing.assert_allclose(
        [pooled.lower, pooled.upper, pooled.gap], [[0, 0.5], [0.5, 1], [0.25, -0.25]]
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("num_bins", [1, 2, 3, 10, 15, 33, 100, 1000, 4999, 2**14])
def test_bins_are_open_below_and_closed_above(dtype, num_bins):
    edges = (np.arange(num_bins + 1) / num_bins).astype(dtype)
    above, below = np.nextafter(edges, dtype(2)), np.nextafter(edges, dtype(0))
    np.testing.assert_array_equal(bin_index(edges[1:], num_bins), np.arange(num_bins))
    np.testing.assert_array_equal(bin_index(below[1:], num_bins), np.arange(num_bins))
    np.testing.assert_array_equal(bin_index(above[:-1], num_bins), np.arange(num_bins))


def test_nothing_falls_out_of_the_bins():
    values = np.array([0.0, -0.0, 1.0, 1.0009, 1.02], np.float32)
    np.testing.assert_array_equal(bin_index(values, 15), [0, 0, 14, 14, 14])
    np.testing.assert_array_equal(bin_index(values, 1), [0] * 5)
    np.testing.assert_array_equal(bin_index(values, 1000), [0, 0, 999, 999, 999])


def test_class_wise_bins_hold_every_entry():
    probs = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    # Class 0: 1 (right), 0.5 (wrong), 0 (no). Bins (0, 1/2], (1/2, 1]: gaps 0.5 and 0. Class 1
    # likewise, 0.5 right.
    assert cw_ece(probs, [0, 1, 1], num_bins=2) == pytest.approx((0.5 + 0.5) / (3 * 2))


def test_ties_are_broken_as_argmax_breaks_them():
    probs = np.array([[0.4, 0.4, 0.2], [0.2, 0.4, 0.4], [0.5, 0.0, 0.5]])
    first, second = probs.argmax(axis=1), np.array([1, 2, 2])
    assert ece(probs, first) == pytest.approx(abs(0.4 * 2 - 2) / 3 + abs(0.5 - 1) / 3)
    assert ece(probs, second) == pytest.approx((0.4 * 2 + 0.5) / 3)
    wide = np.repeat(probs / 20, 20, axis=1)  # 60 columns, twenty or forty of them tied
    np.testing.assert_allclose(ece(wide, wide.argmax(axis=1)), 1 - (0.02 * 2 + 0.025) / 3)
    assert ece(wide, wide.argmax(axis=1) + 1) == pytest.approx((0.02 * 2 + 0.025) / 3)


def assert_ada_ece(ours, confidence, correct, num_bins, reference):
    """Ours takes equal counts by rank; the reference value follows from its cuts, which differ as
    described."""
    order = np.argsort(confidence)
    parts = [part for part in np.array_split(order, num_bins) if len(part)]
    gaps = [
        abs(confidence[part].mean(dtype=np.float64) - correct[part].mean()) * len(part)
        for part in parts
    ]
    assert ours == pytest.approx(sum(gaps) / len(confidence), abs=1e-9)
    # The reference reads its cuts off the sorted confidences as values, starting at the least one;
    # bins are (lo, hi], so that the least confident sample is in none, and the ranks are off by
    # one.
    num_samples = len(confidence)
    cuts = np.interp(
        np.linspace(0, num_samples, num_bins + 1), np.arange(num_samples), confidence[order]
    )
    inside = [(confidence > low) & (confidence <= high) for low, high in itertools.pairwise(cuts)]
    gaps = [abs(confidence[b].mean() - correct[b].mean()) * b.mean() for b in inside if b.any()]
    assert sum(b.sum() for b in inside) == num_samples - 1
    assert sum(gaps) == pytest.approx(reference, abs=1e-6)


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case['num_classes']}x{case['num_bins']}"
)
def test_golden(case):
    num_bins, labels = case["num_bins"], case["labels"]
    probs, confidence, predicted = predict(torch.tensor(case["logits"]))
    assert ece(probs, labels, num_bins) == pytest.approx(case["known"]["ECE"], abs=1e-6)
    assert cw_ece(probs, labels, num_bins) == pytest.approx(
        case["known"]["CWECE_all_cols"], abs=1e-6
    )
    reference = case["focal_calibration_code"]
    assert ece(probs, labels, num_bins) == pytest.approx(reference["ECE"], abs=1e-6)
    assert cw_ece(probs, labels, num_bins) == pytest.approx(reference["CWECE"], abs=1e-6)
    correct = (predicted == torch.tensor(labels)).numpy()
    assert_ada_ece(
        ada_ece(probs, labels, num_bins), confidence.numpy(), correct, num_bins, reference["AdaECE"]
    )


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case['num_classes']}x{case['num_bins']}"
)
def test_golden_with_unknown(case):
    logits = torch.cat(
        [torch.tensor(case["logits"]), torch.tensor(case["unknown_logit"])[:, None]], dim=1
    )
    answer = predict(logits, unknown="answer")
    reference = case["focal_calibration_code_with_unknown"]
    assert ece(answer, case["labels"], case["num_bins"]) == pytest.approx(
        reference["ECE"], abs=1e-6
    )
    assert cw_ece(answer, case["labels"], case["num_bins"]) == pytest.approx(
        reference["CWECE"], abs=1e-6
    )
    correct = (answer.predicted == torch.tensor(case["labels"])).numpy()
    ours = ada_ece(answer, case["labels"], case["num_bins"])
    assert_ada_ece(ours, answer.confidence.numpy(), correct, case["num_bins"], reference["AdaECE"])
    assert reference["K_used"] == answer.num_classes


# tests/golden/smooth_ece.json: `relplot.smECE(confidence, correct)` with its default settings. It
# halves the range of sigma ten times, so its sigma, and with it the value, is off by up to 1 /
# 1024.
@pytest.mark.parametrize(
    "case",
    json.loads((GOLDEN / "smooth_ece.json").read_text())["cases"],
    ids=lambda case: case["name"],
)
def test_smooth_ece_against_relplot(case):
    assert smooth_ece(*two_classes(case["confidence"], case["correct"])) == pytest.approx(
        case["smooth_ece"], abs=1e-3
    )


def test_smooth_ece_is_its_own_bandwidth():
    probs, labels = two_classes(np.linspace(0.5, 1, 200), np.arange(200) % 3 > 0)
    confidence, residual = probs[:, 0], probs[:, 0] - (labels == 0)
    sigma = smooth_ece(probs, labels)
    grid = (np.arange(4000) + 0.5) / 4000
    # The reflected kernel, summed over the images of each sample.
    images = np.concatenate([shift + sign * confidence for shift in (-2, 0, 2) for sign in (-1, 1)])
    kernel = np.exp(-0.5 * ((grid[:, None] - images) / sigma) ** 2) / (
        sigma * math.sqrt(2 * math.pi)
    )
    smoothed = kernel @ np.tile(residual, 6) / len(confidence)
    assert np.abs(smoothed).mean() == pytest.approx(sigma, abs=1e-5)


def test_smooth_ece_needs_few_steps(monkeypatch):
    """At most eight: halving the range of the bandwidth would take 25."""
    steps = []

    def counted(spectrum, sigma):
        steps.append(sigma)
        return _smoothed_error(spectrum, sigma)

    monkeypatch.setattr("socrates.metrics.smooth._smoothed_error", counted)
    rng = np.random.default_rng(0)
    for num_samples in (10, 100, 1000, 10_000):
        for harm in (0.0, 0.05, 0.3):
            confidence = rng.beta(4, 1, num_samples)
            correct = rng.random(num_samples) < confidence - harm
            steps.clear()
            sigma = smooth_ece(confidence=confidence, correct=correct)
            assert sigma == steps[-1]
            assert len(steps) <= 8


def test_smooth_ece_of_residuals_far_apart_is_their_mean_absolute_value():
    """They do not cancel; the bandwidth is at the end of its range, where no secant arrives."""
    sigma = smooth_ece(confidence=[0.06, 0.9915, 1.0], correct=[0, 1, 1])
    assert sigma == pytest.approx((0.06 + 0.0085) / 3, abs=1e-8)


def test_smooth_ece_of_perfect_and_of_constant_predictions():
    assert smooth_ece(*two_classes([1.0] * 10, [1] * 10)) == pytest.approx(0, abs=1e-6)
    assert smooth_ece(*two_classes([1.0] * 10, [0] * 10)) == pytest.approx(1, abs=1e-6)
    # One value of confidence, 0.8, right in 60 %: the total residual is 0.2 whatever the bandwidth.
    assert smooth_ece(*two_classes([0.8] * 10, [1] * 6 + [0] * 4)) == pytest.approx(0.2, abs=1e-6)


@pytest.mark.parametrize("num_bins", [1, 10, 15, 64])
@pytest.mark.parametrize("num_classes", [2, 7, 40])
def test_ece_and_cw_ece_are_their_definitions(num_bins, num_classes):
    probs, labels = random_case(num_classes=num_classes, seed=num_bins)
    rows = np.arange(len(labels))
    predicted = probs.argmax(axis=1)
    expected = plain_ece(probs[rows, predicted], predicted == labels, num_bins)
    assert ece(probs, labels, num_bins) == pytest.approx(expected, abs=1e-12)
    by_class = [plain_ece(probs[:, k], labels == k, num_bins) for k in range(num_classes)]
    assert cw_ece(probs, labels, num_bins) == pytest.approx(np.mean(by_class), abs=1e-12)


def test_cw_ece_counts_in_parts(monkeypatch):
    probs, labels = random_case(num_samples=300)
    whole = cw_ece(probs, labels)
    monkeypatch.setattr("socrates.arrays.samples.CHUNK_VALUES", 200)
    assert cw_ece(probs, labels) == pytest.approx(whole, abs=1e-14)


@given(samples(), st.integers(1, 40))
@settings(max_examples=150, deadline=None)
def test_errors_lie_between_0_and_1(case, num_bins):
    for metric in BINNED:
        assert 0 <= metric(*case, num_bins=num_bins) <= 1 + 1e-12, metric.__name__
    assert 0 <= smooth_ece(*case) <= 1
    assert ece(*case, num_bins=num_bins) <= mce(*case, num_bins=num_bins) + 1e-12


@pytest.mark.filterwarnings("ignore:.* rows have probability 0")
@given(samples(), st.integers(1, 20), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_the_order_of_samples_does_not_matter(case, num_bins, random):
    probs, labels = case
    order = list(range(len(labels)))
    random.shuffle(order)
    for metric in [
        *(partial(metric, num_bins=num_bins) for metric in BINNED),
        smooth_ece,
        nll,
        brier,
    ]:
        assert metric(probs[order], labels[order]) == pytest.approx(
            metric(probs, labels), abs=1e-6
        ), metric


@given(samples(), st.integers(1, 20))
@settings(max_examples=100, deadline=None)
def test_every_sample_is_in_a_bin(case, num_bins):
    bins = reliability(*case, num_bins=num_bins)
    assert bins.count.sum() == len(case[1])
    filled = bins.count > 0
    assert (bins.confidence[filled] <= bins.upper[filled] + 1e-12).all()
    assert (bins.confidence[filled] > bins.lower[filled] - 1e-12).all()
    weighted = bins.count[filled] @ np.abs(bins.gap[filled]) / bins.count.sum()
    assert ece(*case, num_bins=num_bins) == pytest.approx(weighted, abs=1e-12)


@given(samples(), st.integers(1, 20))
@settings(max_examples=100, deadline=None)
def test_ece_is_at_least_the_gap_of_all_samples(case, num_bins):
    probs, labels = case
    overall = abs(probs.max(axis=1).mean() - (probs.argmax(axis=1) == labels).mean())
    for metric in (ece, ada_ece):
        assert metric(probs, labels, num_bins) >= overall - 1e-12


def test_bin_stats_add_up():
    parts = [BinStats(*np.random.default_rng(seed).random((3, 5))) for seed in range(3)]
    left, right = (parts[0] + parts[1]) + parts[2], parts[0] + (parts[1] + parts[2])
    np.testing.assert_allclose(left.count, right.count, rtol=1e-14)
    np.testing.assert_allclose(left.confidence, sum(part.confidence for part in parts), rtol=1e-14)
    np.testing.assert_allclose(left.correct, right.correct, rtol=1e-14)


def test_a_million_float32_rows_are_summed_in_float64():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1, 1_000_000).astype(np.float32)
    probs = np.stack([confidence, 1 - confidence], axis=1)
    labels = (rng.random(len(confidence)) > confidence).astype(np.int64)
    correct = probs.argmax(axis=1) == labels
    top = probs.max(axis=1).astype(np.float64)
    index = np.searchsorted((np.arange(1, 15) / 15).astype(np.float32), probs.max(axis=1))
    gaps = [math.fsum(top[index == m]) - int(correct[index == m].sum()) for m in range(15)]
    assert ece(probs, labels) == pytest.approx(math.fsum(map(abs, gaps)) / len(labels), abs=1e-12)
    assert smooth_ece(probs, labels) < 0.005


def test_class_totals_of_many_float32_rows_are_summed_in_float64():
    probs = np.random.default_rng(0).dirichlet(np.ones(20), 32_000).astype(np.float32)
    stats = class_bin_stats(open_samples(probs, np.zeros(len(probs), int)), 15)
    np.testing.assert_allclose(
        stats.confidence.sum(axis=1), probs.astype(np.float64).sum(axis=0), rtol=1e-13
    )
    np.testing.assert_array_equal(stats.count.sum(axis=1), 32_000)


def test_smooth_ece_comes_to_rest_where_the_smoothed_error_jumps():
    rng = np.random.default_rng(216)
    confidence = rng.beta(4, 1.2, 1000)
    correct = [rng.random(1000) < confidence for _ in range(297)][-1]
    assert 0 < smooth_ece(confidence=confidence, correct=correct) < 0.05
