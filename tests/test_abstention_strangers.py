"""Certificates with strangers in the stream: one test for all shares, its exact level, and the
promise by simulation in worlds whose risk is known."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from socrates.abstention import certify
from socrates.abstention.mixture import (
    mixture_probability,
    mixture_shares,
    weight_of_strangers,
)
from socrates.abstention.search import few_errors_probability

DELTA = 0.1
BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "certificates.py"


@pytest.fixture(scope="module")
def benchmark_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("certificates", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["certificates"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("errors", "correct", "strangers"), [(0, 60, 0), (2, 98, 3), (1, 5, 0)])
@pytest.mark.parametrize("risk", [0.05, 0.3])
def test_with_the_promised_share_the_test_is_the_binomial_one(errors, correct, strangers, risk):
    wrong = errors + strangers
    expected = few_errors_probability(wrong, wrong + correct, risk)
    found = mixture_probability(errors, correct, strangers, 1.0, risk)
    assert found == pytest.approx(expected, rel=1e-9)


def test_a_stranger_of_weight_2_counts_as_two_errors_or_more():
    heavy = mixture_probability(0, 200, 1, 2.0, 0.05)
    assert heavy >= mixture_probability(2, 200, 0, 1.0, 0.05)
    assert mixture_probability(0, 0, 0, 1.0, 0.05) == 1.0
    assert 0 < mixture_probability(0, 10_000, 0, 1.0, 0.05) <= 1e-12


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5])
def test_the_risk_is_kept_at_every_smaller_share_if_it_is_at_the_largest(share):
    random = np.random.default_rng(0)
    risk = 0.05
    kept = 0
    for wrong, right, strange in random.random((2000, 3)) * [0.05, 0.9, 0.2]:
        shares = np.linspace(0, share, 21)
        parts = (1 - shares) * wrong + shares * strange
        risks = parts / (parts + (1 - shares) * right)
        if risks[-1] <= risk:
            kept += 1
            assert (risks <= risk + 1e-12).all()
    assert kept


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5])
@pytest.mark.parametrize("level", [0.1, 0.01])
def test_one_test_has_the_level_it_says(benchmark_module, share, level):
    """Summed over all counts, in worlds at the limit: known or strangers make the errors."""
    worst = benchmark_module.exact_level(70, 60, share, level)
    assert worst.probability <= level


def test_scores_of_known_and_strangers_certify_together():
    known = np.linspace(0, 1, 210)
    others = np.linspace(0, 0.5, 90)
    certificate = certify(known, np.ones(210, bool), 0.05, strangers=others, share=0.3)
    (row,) = certificate.thresholds
    assert 0.4 < certificate.threshold < 0.55
    assert (row.num_strangers, row.num_samples) == (90, 210)
    assert row.num_strangers_accepted == (others >= row.value).sum()
    assert certificate.scope.share == 0.3
    alone = certify(known, np.ones(210, bool), 0.05)
    assert alone.coverage > certificate.coverage


def test_more_strangers_in_the_stream_answer_less():
    random = np.random.default_rng(1)
    known = random.random(2000)
    others = 1 - random.random(500) ** (1 / 6)
    right = random.random(2000) >= 0.004
    coverages = [
        certify(known, right, 0.05, strangers=others, share=share).coverage
        for share in (0.01, 0.1, 0.3, 0.5)
    ]
    assert coverages == sorted(coverages, reverse=True)
    assert coverages[0] > coverages[-1]


def test_the_weight_is_that_of_the_promised_share():
    assert weight_of_strangers(0.3, 210, 90) == 1
    assert weight_of_strangers(0.1, 900, 100) == 1
    assert weight_of_strangers(0.5, 300, 100) == 3


def test_delta_is_shared_by_the_starts():
    grid = np.linspace(1, 0, 201)
    for weight in (0.1, 1.0, 3.0):
        shares = mixture_shares(grid, 210, weight, 0.05, DELTA)
        assert shares.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strangers": [0.1] * 59, "share": 0.3}, r"59 .*\b60\b"),
        ({"strangers": [0.1] * 90}, "share"),
        ({"share": 0.3}, "strangers"),
        ({"strangers": [0.1] * 90, "share": 0.0}, r"share=0\.0"),
        ({"strangers": [0.1] * 90, "share": 1.0}, r"share=1\.0"),
        ({"strangers": [2.0] * 90, "share": 0.3}, "strangers holds 2 to 2"),
        ({"strangers": [0.95] * 90, "share": 0.3}, r"nothing .*\b30%.*\b210\b.*\b90\b"),
    ],
)
def test_what_cannot_certify_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        certify([0.9] * 210, [True] * 210, 0.05, **options)


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "share"), [((210, 90), 0.3), ((100, 300), 0.5)])
@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_the_promise_is_kept_with_strangers(benchmark_module, sizes, share, place):
    draws = 300
    world = benchmark_module.worlds(share)[place]
    broken, _ = benchmark_module.violations(world, sizes, share, draws)
    assert max(broken) <= DELTA + 3 * math.sqrt(DELTA * (1 - DELTA) / draws)
