"""Paired differences against scipy and by hand, and Holm's correction."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from socrates.report.statistics import holm, paired

PS = st.lists(st.floats(0, 1), min_size=1, max_size=12)


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
    assert values == pytest.approx(((one - other).mean(), interval.low, interval.high, expected.pvalue), rel=1e-9)
    assert found.beyond_noise == (interval.low > 0 or interval.high < 0)


def test_only_common_seeds_count_whatever_their_order():
    one = {5: 9.0, 1: 1.0, 2: 2.5}
    other = {2: 1.0, 1: 0.0, 7: 100.0}
    assert paired(one, other) == paired({1: 1.0, 2: 2.5}, {1: 0.0, 2: 1.0})
    assert paired(one, other).n == 2


def test_nan_is_left_out():
    assert paired({1: math.nan, 2: 2.0, 3: 4.0}, {1: 0.0, 2: 1.0, 3: 1.0}) == paired({2: 2.0, 3: 4.0}, {2: 1.0, 3: 1.0})


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
    assert (turned.mean, turned.low, turned.high) == pytest.approx((-found.mean, -found.high, -found.low))
    assert turned.p == pytest.approx(found.p)


@pytest.mark.parametrize(
    ("ps", "expected"),
    [
        ([], []),
        ([0.04], [0.04]),
        ([0.01, 0.02, 0.03], [0.03, 0.04, 0.04]),
        ([0.03, 0.01, 0.02], [0.04, 0.03, 0.04]),
        ([0.5, 0.6, 0.001], [1.0, 1.0, 0.003]),
        ([math.nan, 0.02], [math.nan, 0.02]),
        ([math.nan, math.nan], [math.nan, math.nan]),
    ],
)
def test_holm_by_hand(ps, expected):
    np.testing.assert_allclose(holm(ps), expected)


@given(PS)
def test_holm_rejects_what_the_step_down_test_rejects(ps):
    order = sorted(range(len(ps)), key=ps.__getitem__)
    rejected = set()
    for place, index in enumerate(order):
        if not ps[index] * (len(ps) - place) < 0.05:
            break
        rejected.add(index)
    assert {index for index, p in enumerate(holm(ps)) if p < 0.05} == rejected


@given(PS)
def test_holm_is_between_the_raw_and_bonferroni(ps):
    for raw, corrected in zip(ps, holm(ps), strict=True):
        assert raw <= corrected <= min(1.0, raw * len(ps))
