"""Families of comparisons: by hand, against scipy, and the cases that once were called wrongly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from socrates.metrics import METRICS, Top, ece
from socrates.metrics.chance import chance_p, compare_excess, excess, several_p
from socrates.report.compare import emphasised
from socrates.report.evidence import calibration_evidence
from socrates.report.quantiles import dunnett_reach, range_p, range_reach
from socrates.report.statistics import (
    Evidence,
    Family,
    mean_interval,
    row_covariances,
    share_interval,
    two_way_residuals,
)

ACCURACY, ECE, NLL = METRICS["accuracy"], METRICS["ece"], METRICS["nll"]


def seeds_alone(*rows):
    return [Evidence(own, own) for own in (dict(enumerate(row, start=1)) for row in rows)]


def test_two_methods_are_a_paired_t_test():
    """Residuals of two methods are half of the differences: the same statistic, the same df."""
    one, other = [5.0, 6.0, 7.5, 6.2], [4.1, 5.5, 6.0, 5.9]
    found = Family(seeds_alone(one, other), NLL).against(1)[0]
    expected = stats.ttest_rel(one, other)
    interval = expected.confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue, rel=0.02)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=0.02)


@pytest.mark.parametrize(("means", "df"), [(2, 4), (3, 2), (4, 12), (8, 7), (16, 60)])
def test_the_range_is_tukeys(means, df):
    expected = stats.studentized_range.ppf(0.95, means, df) / math.sqrt(2)
    assert range_reach(means, float(df)) == pytest.approx(expected, rel=0.005)
    assert range_p(expected, means, df) == pytest.approx(0.05, abs=0.001)


def test_a_fixed_reference_needs_less():
    assert dunnett_reach(3, 12.0) < range_reach(4, 12.0)
    assert dunnett_reach(3, 12.0) == pytest.approx(2.68, abs=0.01)  # as tables print it


def test_pooled_noise_sees_what_a_pair_alone_cannot():
    """Twelve methods, three seeds: one is far worse, and its own t test has two degrees."""
    random = np.random.default_rng(1)
    rows = [2 + 0.3 * random.standard_normal(3) for _ in range(11)]
    bad = 7.8 + 0.8 * random.standard_normal(3)
    standings = Family(seeds_alone(*rows, bad), NLL).standings()
    assert standings[11] == "worse"
    assert standings.count("worse") == 1


def test_equal_differences_of_few_seeds_are_no_proof():
    """Accuracies of 360 images are a lattice; p was 0 here."""
    family = Family(seeds_alone([97.5, 97.2222222], [97.2222222, 96.9444444]), ACCURACY)
    assert family.against(1)[0].words == "2 seeds cannot tell"
    assert family.standings() == ["with the best", "with the best"]


def test_rows_that_all_seeds_share_are_noise_too():
    """Three images that one method always gets right and the other never: seeds agree, rows do
    not show it."""
    right = np.ones(200)
    wrong = right.copy()
    wrong[:3] = 0
    values = [{seed: 100 * row.mean() for seed in (1, 2, 3)} for row in (right, wrong)]
    values[0] = {1: 100.0, 2: 99.9, 3: 100.0}
    rows = [dict.fromkeys((1, 2, 3), 100 * (row - row.mean())) for row in (right, wrong)]
    with_rows = [Evidence(own, own, moved) for own, moved in zip(values, rows, strict=True)]
    assert Family(with_rows, ACCURACY).standings() == ["with the best"] * 2
    assert Family([Evidence(own, own) for own in values], ACCURACY).standings()[1] == "worse"


def test_shared_noise_is_the_covariance_of_different_seeds():
    random = np.random.default_rng(0)
    common = random.standard_normal(5000)
    member = [common + random.standard_normal(5000) for _ in range(4)]
    shared, single = row_covariances([member, [None] * 4])
    assert shared[0, 0] * 5000 == pytest.approx(1, abs=0.1)
    assert single[0, 0] * 5000 == pytest.approx(2, abs=0.1)
    assert math.isnan(shared[1, 1])


def test_residuals_of_a_table_with_a_hole():
    table = np.add.outer([1.0, 5.0, 9.0], [0.0, 0.5, 0.2])
    table[1, 2] = math.nan
    assert np.nanmax(np.abs(two_way_residuals(table))) < 1e-6


def drawn(random, shape, rows=1000, gap=0.0):
    confidence = random.beta(shape, 1.0, rows)
    return Top(confidence, random.random(rows) < confidence - gap)


def test_calibrated_models_have_no_error_less_chance():
    random = np.random.default_rng(0)
    values = [excess(drawn(random, shape)).value for shape in (2.0, 12.0) for _ in range(100)]
    floors = [ece(drawn(random, shape)) for shape in (2.0, 12.0) for _ in range(20)]
    assert abs(np.mean(values[:100])) < 0.1 * np.mean(floors[:20])
    assert abs(np.mean(values[100:])) < 0.1 * np.mean(floors[20:])


def test_far_from_chance_the_error_is_the_ece():
    top = drawn(np.random.default_rng(0), 6.0, 20_000, gap=0.2)
    assert excess(top).value == pytest.approx(ece(top), rel=0.02)


def test_weights_of_one_change_nothing_and_the_error_is_that_of_the_rows():
    random = np.random.default_rng(3)
    top = drawn(random, 4.0, 400, 0.1)
    weighted = Top(top.confidence, top.correct, np.full(400, 2.0))
    assert excess(weighted).value == pytest.approx(excess(top).value)
    assert excess(weighted).p == pytest.approx(excess(top).p)
    values = [excess(drawn(random, 4.0, 400, 0.1)).value for _ in range(200)]
    assert np.std(excess(top).influence) / 20 == pytest.approx(np.std(values), rel=0.25)


def test_the_own_test_holds_its_level_and_sees_a_gap():
    random = np.random.default_rng(5)
    p_values = [excess(drawn(random, 4.0, 500)).p for _ in range(400)]
    assert 0.02 < np.mean(np.less(p_values, 0.05)) < 0.08
    assert excess(drawn(random, 4.0, 2000, 0.05)).p < 0.01
    assert chance_p(-1.0, 1.0, 3.0) == 1.0


def test_seeds_that_differ_say_more_than_copies_of_one():
    random = np.random.default_rng(2)
    runs = [excess(drawn(random, 4.0, 1000, 0.025)) for _ in range(5)]
    assert several_p(runs) < several_p([runs[0]] * 5) or several_p(runs) < 0.01
    assert several_p([runs[0]] * 5) == pytest.approx(runs[0].p, rel=0.05)


def test_rows_of_two_predictions_must_be_the_same():
    random = np.random.default_rng(0)
    with pytest.raises(ValueError, match="200 and of 300"):
        compare_excess(drawn(random, 4.0, 200), drawn(random, 4.0, 300))


def test_of_two_calibrated_predictions_none_is_better():
    """The more accurate one was called better in 30 to 100% of such pairs."""
    random = np.random.default_rng(0)
    verdicts = [compare_excess(drawn(random, 12.0), drawn(random, 1.5)).verdict for _ in range(100)]
    assert sum(map(bool, verdicts)) <= 5


def of_seeds(random, gap, seeds=5, rows=2000):
    tops = {seed: drawn(random, 6.0, rows, gap) for seed in range(seeds)}
    printed = {seed: 100 * ece(top) for seed, top in tops.items()}
    return calibration_evidence(printed, {seed: excess(top) for seed, top in tops.items()})


def test_calibrated_methods_are_never_worse_and_a_bad_one_is():
    random = np.random.default_rng(0)
    family = Family([of_seeds(random, 0.0), of_seeds(random, 0.0), of_seeds(random, 0.06)], ECE)
    assert family.may_be_worse == [False, False, True]
    assert family.standings() == ["with the best", "with the best", "worse"]
    assert emphasised(family.members, ECE).count("best") == 1
    assert emphasised(family.members, ECE).count("tied") == 1


def test_nothing_is_bold_with_two_seeds_or_if_nothing_can_be_told():
    two = seeds_alone([1.0, 1.01], [5.0, 5.002], [9.0, 9.02])
    assert "worse" in Family(two, NLL).standings()
    assert emphasised(two, NLL) == [None] * 3
    alike = seeds_alone([1.0, 1.2, 0.9], [1.1, 0.9, 1.2])
    assert emphasised(alike, NLL) == [None] * 2


def test_a_noisy_method_does_not_make_others_worse():
    """Two calm methods, and two whose seeds vary a lot: these cannot be told apart."""
    random = np.random.default_rng(4)
    rows = [[1.0, 1.1, 0.9, 1.0, 1.05], [1.05, 0.95, 1.0, 1.1, 0.9]]
    rows += [(8 + 3 * random.standard_normal(5)).tolist() for _ in range(2)]
    found = Family(seeds_alone(*rows), NLL).against(2)
    assert found[3].words == "not shown by 5 seeds"


def test_more_seeds_are_few_for_a_large_difference_and_too_many_for_none():
    near = Family(seeds_alone([2.0, 2.4, 2.2], [2.5, 2.6, 2.55]), NLL)
    assert 1 <= near.more_seeds(1, 0) <= 5
    none = Family(seeds_alone([2.0, 2.4, 2.2], [2.21, 2.0, 2.4]), NLL)
    assert none.more_seeds(1, 0) is None


def test_missing_seeds_and_one_seed():
    rows = [{1: 2.0, 2: 2.1, 3: 2.0}, {7: 4.0}, {}, {1: 5.0, 2: 5.11, 4: 5.2}]
    family = Family([Evidence(own, own) for own in rows], NLL)
    words = [difference.words for difference in family.against(0)]
    assert words[:3] == ["reference", "no common seed", "no common seed"]
    assert words[3] == "worse"
    assert family.standings()[1:3] == ["unranked", "unranked"]


VALUES = st.floats(0.01, 30).map(lambda value: round(value, 3))
FAMILY = st.integers(1, 5).flatmap(
    lambda n: st.lists(st.lists(VALUES, min_size=n, max_size=n), min_size=2, max_size=6)
)


@given(FAMILY, st.sampled_from([NLL, ACCURACY]))
def test_words_agree_with_intervals_and_the_best_is_never_worse(rows, spec):
    family = Family(seeds_alone(*rows), spec)
    standings = family.standings()
    assert standings[family.best] != "worse"
    assert standings.count("best") <= 1
    for found in family.against(0)[1:]:
        outside = found.low > 0 or found.high < 0
        assert outside == (found.words in ("better", "worse"))
        assert math.isnan(found.low) or found.low <= found.mean <= found.high


def test_the_interval_of_a_mean():
    values = np.array([1.0, 2.5, 4.0, np.nan])
    expected = stats.ttest_1samp(values[:3], 0).confidence_interval(0.95)
    assert mean_interval(values) == pytest.approx((2.5, expected.low, expected.high, 3))
    np.testing.assert_equal(mean_interval(np.array([3.0])), (3.0, math.nan, math.nan, 1))


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6))
def test_the_interval_of_a_share_stays_a_share(values):
    mean, low, high = share_interval(np.array(values))
    assert math.isnan(low) or 0 <= low <= mean + 1e-9
    assert math.isnan(high) or mean - 1e-9 <= high <= 100


def test_shares_that_are_all_right_are_not_sure():
    assert math.isnan(share_interval(np.array([100.0, 100.0, 100.0]))[1])
