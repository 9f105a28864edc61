"""Certified thresholds: the guarantee by simulation in worlds whose risk is known, the exact
p-value, bad input."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy.stats import binom

from socrates.abstention import Certificate, Threshold, certify
from socrates.abstention.search import _grid, _grid_of, _more_needed, few_errors_probability

DELTA = 0.1


def smooth(random, n):
    """Confidence uniform, error probability 0.45 (1 - x)^1.5: P(wrong | x >= t) = 0.18 (1 -
    t)^1.5."""
    x = random.random(n)
    return x, random.random(n) >= 0.45 * (1 - x) ** 1.5


def smooth_risk(t):
    return 0.18 * (1 - t) ** 1.5


def bad_top(random, n):
    """The most confident are the worst: 0.12 above 0.97, else 0.4 (1 - x)^1.2."""
    x = random.random(n)
    return x, random.random(n) >= np.where(x > 0.97, 0.12, 0.4 * (1 - x) ** 1.2)


def bad_top_risk(t):
    s = 1 - t
    if s <= 0.03:
        return 0.12
    return (0.12 * 0.03 + 0.4 / 2.2 * (s**2.2 - 0.03**2.2)) / s


def ties(random, n):
    """Five values of confidence only, each wrong as often as it says."""
    x = random.choice([0.5, 0.8, 0.9, 0.95, 0.99], n)
    return x, random.random(n) < x


def ties_risk(t):
    return float(np.mean([1 - value for value in (0.5, 0.8, 0.9, 0.95, 0.99) if value >= t]))


def outcomes(world, risk_at, n, risk, draws, **options):
    """Coverage of each draw (0 if nothing is certified), and the share of draws that break the
    promise."""
    random = np.random.default_rng(0)
    coverages, broken = [], 0
    for _ in range(draws):
        x, right = world(random, n)
        try:
            certificate = certify(x, right, risk, DELTA, **options)
        except ValueError:
            coverages.append(0.0)
            continue
        coverages.append(certificate.coverage)
        broken += risk_at(certificate.threshold) > risk + 1e-12
    return np.array(coverages), broken / draws


CASES = [
    (smooth, smooth_risk, 2000, 0.05),
    (smooth, smooth_risk, 300, 0.1),
    (bad_top, bad_top_risk, 2000, 0.05),
    (bad_top, bad_top_risk, 2000, 0.1),
    (ties, ties_risk, 1000, 0.1),
    (ties, ties_risk, 60, 0.05),
]


@pytest.mark.slow
@pytest.mark.parametrize(("world", "risk_at", "n", "risk"), CASES)
def test_the_promise_is_kept(world, risk_at, n, risk):
    draws = 3000
    _, broken = outcomes(world, risk_at, n, risk, draws)
    assert broken <= DELTA + 3 * math.sqrt(DELTA * (1 - DELTA) / draws)


@pytest.mark.slow
def test_it_answers_nearly_as_much_as_possible():
    coverages, _ = outcomes(smooth, smooth_risk, 2000, 0.05, draws=3000)
    assert coverages.mean() >= 0.34  # the best possible is 0.426


@pytest.mark.parametrize(("world", "risk_at", "n", "risk"), CASES)
def test_the_promise_is_kept_in_a_few_draws(world, risk_at, n, risk):
    draws = 150
    _, broken = outcomes(world, risk_at, n, risk, draws)
    assert broken <= DELTA + 3 * math.sqrt(DELTA * (1 - DELTA) / draws)


def test_thresholds_of_ones_own_keep_it_too():
    thresholds = np.log(np.linspace(0.5, 0.999, 60) / (1 - np.linspace(0.5, 0.999, 60)))

    def world(random, n):
        x, right = smooth(random, n)
        return np.log(x / (1 - x)), right

    coverages, broken = outcomes(
        world, lambda z: smooth_risk(1 / (1 + math.exp(-z))), 2000, 0.05, 150, thresholds=thresholds
    )
    assert broken <= DELTA + 3 * math.sqrt(DELTA * (1 - DELTA) / 150)
    assert coverages.mean() > 0.25


def test_the_threshold_that_looks_right_breaks_its_promise():
    """Taking the lowest threshold whose observed risk is low enough is wrong about every other
    time."""
    random = np.random.default_rng(0)
    broken = 0
    for _ in range(300):
        x, right = smooth(random, 2000)
        order = np.argsort(-x)
        observed = np.cumsum(~right[order]) / np.arange(1, 2001)
        broken += smooth_risk(x[order][np.flatnonzero(observed <= 0.05)[-1]]) > 0.05
    assert 0.35 < broken / 300 < 0.75


@pytest.mark.parametrize("samples", [1, 2, 45, 300, 20_000])
@pytest.mark.parametrize("risk", [0.001, 0.05, 0.5, 0.9])
def test_the_p_value_is_exact(samples, risk):
    for errors in sorted({0, 1, samples // 20, samples // 2, samples - 1, samples}):
        assert few_errors_probability(errors, samples, risk) == pytest.approx(
            binom.cdf(errors, samples, risk), 1e-9
        )


@pytest.mark.parametrize(("risk", "fewest"), [(0.05, 45), (0.02, 114), (0.01, 230)])
def test_nothing_is_returned_uncertified(risk, fewest):
    with pytest.raises(ValueError, match=rf"\b{fewest - 1}\b.*\b{fewest}\b"):
        certify(np.full(fewest - 1, 0.999), np.ones(fewest - 1, bool), risk)
    with pytest.raises(ValueError, match=rf"\b1000\b.*\b1000\b.*\b{fewest}\b"):
        certify(np.linspace(0, 1, 1000), np.zeros(1000, bool), risk)


@pytest.mark.parametrize("n", [20, 44, 60])
def test_as_many_more_as_it_says_are_enough(n):
    with pytest.raises(ValueError, match=rf"0\.02 .*\b{n}\b") as caught:
        certify(np.full(n, 0.999), np.ones(n, bool), 0.02)
    (more,) = map(int, re.findall(r"(\d+) more", str(caught.value)))
    certificate = certify(np.full(n + more, 0.999), np.ones(n + more, bool), 0.02)
    assert certificate.num_accepted == n + more
    with pytest.raises(ValueError, match=r"\b1 more"):
        certify(np.full(n + more - 1, 0.999), np.ones(n + more - 1, bool), 0.02)


@pytest.mark.parametrize(("errors", "accepted"), [(0, 0), (0, 12), (1, 20), (3, 17), (5, 6)])
def test_the_number_of_further_samples_is_the_smallest(errors, accepted):
    for level in (0.2, 0.05, 0.01):
        more = _more_needed(errors, accepted, 0.1, level)
        assert few_errors_probability(errors, accepted + more, 0.1) <= level
        assert few_errors_probability(errors, accepted + more - 1, 0.1) > level


@pytest.mark.parametrize(
    ("num_samples", "starts"),
    [
        # At risk 0.05 it takes 66.4 samples: 1.5 and 3 times as many of 2000 are above 0.95 and
        # 0.9, if confidences are uniform.
        (2000, {0.99: 0.05, 0.95: 0.48, 0.9: 0.2 + 0.22, 0.5: 0.03, 0.0: 0.02}),
        # Of 300 samples they are above 0.67 and 0.5, not lower.
        (300, {0.99: 0.05, 0.9: 0.2, 0.67: 0.48, 0.5: 0.03 + 0.22, 0.0: 0.02}),
    ],
)
def test_the_tests_start_at_fixed_thresholds_and_share_delta(num_samples, starts):
    grid, shares = _grid(num_samples, risk=0.05, delta=DELTA)
    places = np.flatnonzero(shares)
    assert grid[places].tolist() == pytest.approx(list(starts))
    assert shares[places].tolist() == pytest.approx(list(starts.values()))
    assert shares.sum() == pytest.approx(1)


def test_thresholds_fall_in_steps_that_are_small_near_1():
    grid, _ = _grid(2000, risk=0.05, delta=DELTA)
    dense, even = grid[:30], grid[30:]
    assert 1 - dense == pytest.approx(1e-4 * 50 ** (np.arange(30) / 30))
    assert even == pytest.approx(np.arange(199, -1, -1) * 0.005)


def test_thresholds_of_ones_own_start_four_chains_in_their_stricter_half():
    grid, shares = _grid_of([*range(17), 3, 3])
    assert grid.tolist() == list(range(16, -1, -1))
    assert {place: shares[place] for place in np.flatnonzero(shares)} == {
        0: 0.25, 2: 0.25, 4: 0.25, 8: 0.25
    }  # fmt: skip
    assert _grid_of([0.5])[1].tolist() == [1.0]


def test_answered_means_at_least_the_threshold():
    confidence = [0.995] * 100 + [0.5] * 100
    certificate = certify(
        torch.tensor(confidence), torch.tensor([1] * 99 + [0] + [0] * 100), risk=0.1
    )
    assert certificate == Certificate(0.1, 0.1, (Threshold(certificate.threshold, 200, 100, 1),))
    assert 0.5 < certificate.threshold <= 0.995
    assert re.search(r"at most 10% .*\(1 of 100 were\)", str(certificate))
    exact = certify(confidence, [True] * 200, risk=0.1, thresholds=[0.995])
    assert (exact.threshold, exact.num_accepted) == (0.995, 100)


def test_order_does_not_matter():
    random = np.random.default_rng(1)
    x, right = smooth(random, 1000)
    order = random.permutation(1000)
    assert certify(x, right, 0.1) == certify(x[order], right[order], 0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5], [True], 0.0), "risk=0.0, expected a share"),
        (([0.5], [True], 0.1, 1.0), "delta=1.0, expected a share"),
        (([0.5, 0.6], [True], 0.1), r"correct has shape \(1,\)"),
        (([], [], 0.1), r"confidence has shape \(0,\)"),
        (([[0.5]], [[True]], 0.1), r"confidence has shape \(1, 1\)"),
        (([0.5, math.nan], [True, True], 0.1), "confidence .*nan at position 1"),
        (
            ([0.5, 3.0], [True, True], 0.1),
            r"0.5 to 3, .*thresholds=",
        ),
        (([0.5, 0.6], [0.2, 1], 0.1), "0 and 1, .*position 0"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        certify(*arguments)


def test_thresholds_that_make_no_sense_are_refused():
    for thresholds in ([], [math.inf]):
        with pytest.raises(ValueError, match="finite number"):
            certify([0.5], [True], 0.1, thresholds=thresholds)


@pytest.mark.parametrize(
    "kind",
    [
        torch.tensor,
        lambda values: torch.tensor(values).bfloat16(),
        lambda values: torch.tensor(values, requires_grad=True),
        pd.Series,
        lambda values: pd.Series(values, dtype="Float64"),
        pl.Series,
        lambda values: [*torch.tensor(values)],
    ],
)
def test_scores_of_any_kind_are_certified(kind):
    scores, right = [0.75] * 60 + [0.25] * 40, np.array([True] * 60 + [False] * 40)
    expected = certify(scores, right, risk=0.05)
    for truth in (right, right.tolist(), torch.tensor(right), pd.Series(right, dtype="boolean")):
        assert certify(kind(scores), truth, risk=0.05) == expected


def test_whole_numbers_are_scores():
    assert certify([1] * 60 + [0] * 40, [1] * 60 + [0] * 40, risk=0.05).num_accepted == 60
    assert certify([7] * 60, [True] * 60, risk=0.05, thresholds=[5]).threshold == 5


@pytest.mark.parametrize("risk", [1e-6, 1e-7, 1e-12, 1e-300, 5e-324])
@pytest.mark.parametrize("num_wrong", [0, 10])
def test_no_risk_is_too_small_to_say_what_it_takes(risk, num_wrong):
    with pytest.raises(ValueError, match="at least") as caught:
        certify([0.9] * 60, [True] * (60 - num_wrong) + [False] * num_wrong, risk=risk)
    needed = int(re.search(r"at least (\d+) answered", str(caught.value))[1])
    assert needed == pytest.approx(min(math.log(10) / risk, 1e18), rel=1e-6)


@pytest.mark.parametrize(("errors", "samples", "risk"), [(10, 10**9, 1e-8), (3, 10**12, 2e-12)])
def test_p_values_of_many_samples_keep_their_digits(errors, samples, risk):
    expected = binom.cdf(errors, samples, risk)
    assert few_errors_probability(errors, samples, risk) == pytest.approx(expected, rel=1e-8)


def test_bfloat16_is_certified():
    confidence = torch.full((60,), 0.99, dtype=torch.bfloat16)
    assert certify(confidence, torch.ones(60, dtype=torch.bool), risk=0.05).num_accepted == 60
