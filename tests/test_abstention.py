"""Certified thresholds: the guarantee by simulation in worlds whose risk is known, the exact p-value, bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom

from socrates.abstention import Certificate, certify, few_errors_probability

DELTA = 0.1


def smooth(random, n):
    """Confidence uniform, error probability 0.45 (1 - x)^1.5: P(wrong | x >= t) = 0.18 (1 - t)^1.5."""
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
    """Coverage of each draw (0 if nothing is certified), and the share of draws that break the promise."""
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

    coverages, broken = outcomes(world, lambda z: smooth_risk(1 / (1 + math.exp(-z))), 2000, 0.05, 150,
                                 thresholds=thresholds)  # fmt: skip
    assert broken <= DELTA + 3 * math.sqrt(DELTA * (1 - DELTA) / 150)
    assert coverages.mean() > 0.25


def test_the_threshold_that_looks_right_breaks_its_promise():
    """Taking the lowest threshold whose observed risk is low enough is wrong about every other time."""
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
        assert few_errors_probability(errors, samples, risk) == pytest.approx(binom.cdf(errors, samples, risk), 1e-9)


@pytest.mark.parametrize(("risk", "fewest"), [(0.05, 45), (0.02, 114), (0.01, 230)])
def test_nothing_is_returned_uncertified(risk, fewest):
    with pytest.raises(ValueError, match=f"at least {fewest} answered samples without an error"):
        certify(np.full(fewest - 1, 0.999), np.ones(fewest - 1, bool), risk)
    with pytest.raises(ValueError, match="nothing can be certified"):
        certify(np.linspace(0, 1, 1000), np.zeros(1000, bool), risk)


@pytest.mark.parametrize("n", [20, 44, 60])
def test_as_many_more_as_it_says_are_enough(n):
    with pytest.raises(ValueError, match="nothing can be certified") as caught:
        certify(np.full(n, 0.999), np.ones(n, bool), 0.02)
    more = int(str(caught.value).split("here at least ")[1].split(" ")[0])
    certificate = certify(np.full(n + more, 0.999), np.ones(n + more, bool), 0.02)
    assert certificate.num_accepted == n + more


def test_answered_means_at_least_the_threshold():
    confidence = [0.995] * 100 + [0.5] * 100
    certificate = certify(torch.tensor(confidence), torch.tensor([1] * 99 + [0] + [0] * 100), risk=0.1)
    assert certificate == Certificate(certificate.threshold, 0.5, 0.1, 0.1, 100, 1)
    assert 0.5 < certificate.threshold <= 0.995
    assert "at most 10 % of its answers are wrong (1 of 100 were)" in str(certificate)
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
        (([0.5], [True], 0.0), "risk must be a share between 0 and 1"),
        (([0.5], [True], 0.1, 1.0), "delta must be a share between 0 and 1"),
        (([0.5, 0.6], [True], 0.1), r"one length, got shapes \(2,\) and \(1,\)"),
        (([], [], 0.1), "one length"),
        (([[0.5]], [[True]], 0.1), "one length"),
        (([0.5, math.nan], [True, True], 0.1), "1 of 2 scores are NaN or infinite"),
        (([0.5, 3.0], [True, True], 0.1), r"scores must be in \[0, 1\], got 0.5 to 3.*give thresholds="),
        (([0.5, 0.6], [0.2, 1], 0.1), "True or False"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        certify(*arguments)


def test_thresholds_that_make_no_sense_are_refused():
    for thresholds in ([], [math.inf]):
        with pytest.raises(ValueError, match="at least one finite number"):
            certify([0.5], [True], 0.1, thresholds=thresholds)
