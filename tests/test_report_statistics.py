"""Paired differences against scipy and by hand, families of them, and what leads."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from socrates.report.statistics import compared, leaders, mean_interval, paired
from socrates.report.vocabulary import METRICS


def test_worked_example():
    """Differences 1, 2, 3: mean 2, standard error 1 / sqrt 3, t(0.975, 2) = 4.3027."""
    found = paired({1: 5.0, 2: 6.0, 3: 7.0}, {1: 4.0, 2: 4.0, 3: 4.0})
    assert (found.mean, found.n) == (2.0, 3)
    assert found.low == pytest.approx(2 - 4.302653 / math.sqrt(3), abs=1e-6)
    assert found.high == pytest.approx(2 + 4.302653 / math.sqrt(3), abs=1e-6)
    assert found.p == pytest.approx(0.0741799, abs=1e-6)
    assert not found.beyond_noise


@pytest.mark.parametrize("n", [2, 3, 5, 20])
@pytest.mark.parametrize("shift", [0.0, 0.5, -3.0])
def test_same_as_scipy(n, shift):
    random = np.random.default_rng(n)
    one, other = random.standard_normal(n) + shift, random.standard_normal(n)
    expected = stats.ttest_rel(one, other)
    interval = expected.confidence_interval(0.95)
    found = paired(dict(enumerate(one)), dict(enumerate(other)))
    values = (found.mean, found.low, found.high, found.p)
    assert values == pytest.approx(
        ((one - other).mean(), interval.low, interval.high, expected.pvalue), rel=1e-9
    )
    assert found.beyond_noise == (interval.low > 0 or interval.high < 0)


def test_only_common_seeds_count_whatever_their_order():
    one = {5: 9.0, 1: 1.0, 2: 2.5}
    other = {2: 1.0, 1: 0.0, 7: 100.0}
    assert paired(one, other) == paired({1: 1.0, 2: 2.5}, {1: 0.0, 2: 1.0})
    assert paired(one, other).n == 2


def test_nan_is_left_out():
    assert paired({1: math.nan, 2: 2.0, 3: 4.0}, {1: 0.0, 2: 1.0, 3: 1.0}) == paired(
        {2: 2.0, 3: 4.0}, {2: 1.0, 3: 1.0}
    )


@pytest.mark.parametrize(
    ("one", "other", "mean", "n"),
    [({}, {}, math.nan, 0), ({1: 1.0}, {2: 1.0}, math.nan, 0), ({1: 3.0}, {1: 1.0}, 2.0, 1)],
)
def test_too_few_seeds(one, other, mean, n):
    found = paired(one, other)
    np.testing.assert_equal([found.mean, found.n], [mean, n])
    np.testing.assert_equal([found.low, found.high, found.p], [math.nan] * 3)
    assert not found.beyond_noise


@pytest.mark.parametrize(("step", "p"), [(0.0, 1.0), (0.1, 0.0), (-0.1, 0.0)])
def test_equal_differences_have_no_spread(step, p):
    """0.1 + k - k is not the same float for every k, yet the same difference."""
    other = {seed: 0.3 * seed for seed in range(5)}
    found = paired({seed: value + step for seed, value in other.items()}, other)
    assert found.mean == found.low == found.high == pytest.approx(step)
    assert found.p == p
    assert found.beyond_noise == (step != 0)


def test_equal_values_of_zero():
    assert paired({1: 0.0, 2: 0.0}, {1: 0.0, 2: 0.0}).p == 1.0


def test_turning_around_changes_signs_only():
    one, other = {1: 1.0, 2: 4.0, 3: 2.0}, {1: 0.5, 2: 1.0, 3: 2.5}
    found, turned = paired(one, other), paired(other, one)
    assert (turned.mean, turned.low, turned.high) == pytest.approx(
        (-found.mean, -found.high, -found.low)
    )
    assert turned.p == pytest.approx(found.p)


VALUES = st.floats(0.01, 30).map(lambda value: round(value, 3))
FAMILY = (
    st.integers(1, 5)
    .flatmap(lambda n: st.lists(st.lists(VALUES, min_size=n, max_size=n), min_size=2, max_size=6))
    .map(lambda rows: [dict(enumerate(row)) for row in rows])
)


@given(FAMILY, st.sampled_from(["ece", "accuracy"]), st.data())
def test_words_agree_with_interval_and_p(values, metric, data):
    spec = METRICS[metric]
    reference = data.draw(st.integers(0, len(values) - 1))
    found = compared(values, reference, spec)
    assert [one.words == "reference" for one in found] == [
        place == reference for place in range(len(values))
    ]
    for one in found:
        outside = one.low > 0 or one.high < 0
        better = (one.mean > 0) == spec.larger_is_better
        assert outside == (one.p < 0.05) == (one.words in ("better", "worse"))
        assert not outside or one.words == ("better" if better else "worse")
        assert math.isnan(one.p) or one.low <= one.mean <= one.high
        assert one.n > 1 or one.words in ("reference", "1 seed cannot tell")


@given(FAMILY, st.sampled_from(["ece", "accuracy"]))
def test_the_best_is_a_leader_and_no_leader_is_worse(values, metric):
    spec = METRICS[metric]
    means = [np.mean(list(own.values())) for own in values]
    best = int(np.argmax(means) if spec.larger_is_better else np.argmin(means))
    found = leaders(values, spec)
    assert found[best]
    for leads, one, mean in zip(found, compared(values, best, spec), means, strict=True):
        alike = f"{mean:.2f}" == f"{means[best]:.2f}"
        assert leads == (alike or (one.n > 1 and one.words != "worse"))


def test_a_family_is_corrected_by_the_number_of_its_comparisons():
    """Three differ from the reference, one of them as another does, and one is equal to it: two
    comparisons."""
    base = {1: 5.0, 2: 6.0, 3: 7.0, 4: 8.0}
    steps = [
        (1.0, 1.5, 1.2, 1.4),
        (1.0, 1.5, 1.2, 1.4),
        (0.2, -0.1, 0.3, 0.1),
        (0.0, 0.0, 0.0, 0.0),
    ]
    values = [
        base,
        *({seed: base[seed] + step for seed, step in enumerate(own, start=1)} for own in steps),
    ]
    values[2] = dict(values[1])
    found = compared(values, 0, METRICS["ece"])
    alone = stats.ttest_rel(list(values[1].values()), list(base.values()))
    interval = alone.confidence_interval(1 - 0.05 / 2)
    assert found[1].p == pytest.approx(2 * alone.pvalue)
    assert (found[1].low, found[1].high) == pytest.approx((interval.low, interval.high))
    assert found[2] == found[1]
    assert [one.words for one in found] == [
        "reference",
        "worse",
        "worse",
        "within seed noise",
        "within seed noise",
    ]


def test_two_seeds_of_many_cannot_tell():
    """t(1) at 0.05 / 35 is 445: with any spread at all no ECE of a few percent could pass."""
    values = [{1: 2.0 + 0.1 * place, 2: 2.3 + 0.11 * place} for place in range(36)]
    words = [one.words for one in compared(values, 0, METRICS["ece"])]
    assert set(words) == {"reference", "within seed noise", "2 seeds cannot tell"}
    assert words[35] == "2 seeds cannot tell"


def test_the_interval_of_a_mean():
    values = np.array([1.0, 2.5, 4.0, np.nan])
    expected = stats.ttest_1samp(values[:3], 0).confidence_interval(0.95)
    assert mean_interval(values) == pytest.approx((2.5, expected.low, expected.high, 3))
    np.testing.assert_equal(mean_interval(np.array([3.0])), (3.0, math.nan, math.nan, 1))
