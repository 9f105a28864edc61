import json
import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scaling_cases import ece, nll, sampled
from scipy.optimize import minimize_scalar

from socrates.scaling import TemperatureScaling
from socrates.scaling.temperature import Slope, _newton_target

GOLDEN = json.loads((Path(__file__).parent / "golden" / "posthoc_convergence.json").read_text())
TEMPERATURES = [0.1, 0.3, 0.8, 1.0, 1.7, 5.0, 20.0]


def reference_temperature(logits, labels, near):
    """A slow search that shares nothing with the fit: golden section and parabolas on log T, in
    float64."""
    found = minimize_scalar(
        lambda log_t: float(nll(logits.double() / math.exp(log_t), labels)),
        bracket=(math.log(near) - 0.2, math.log(near) + 0.2),
        tol=1e-10,
    )
    return math.exp(found.x)


def gradients(logits, labels, temperature):
    """Derivatives of the NLL by T and by 1 / T, from autograd in float64."""
    t = torch.tensor(temperature, dtype=torch.float64, requires_grad=True)
    b = torch.tensor(1 / temperature, dtype=torch.float64, requires_grad=True)
    (by_t,) = torch.autograd.grad(nll(logits.double() / t, labels), t)
    (by_b,) = torch.autograd.grad(nll(logits.double() * b, labels), b)
    return abs(float(by_t)), abs(float(by_b))


def test_two_classes_by_hand():
    # Right 9 times of 10 at a margin of 3: the optimum has 3 / T = log 9.
    logits = torch.tensor([[3.0, 0.0]] * 10)
    scaler = TemperatureScaling().fit(logits, torch.tensor([0] * 9 + [1]))
    assert float(scaler.temperature) == pytest.approx(3 / math.log(9), rel=1e-7)
    assert scaler.report.nll_after == pytest.approx(
        -0.9 * math.log(0.9) - 0.1 * math.log(0.1), abs=1e-9
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("true_t", TEMPERATURES)
def test_reaches_the_optimum(true_t, dtype):
    logits, labels = sampled(3000, 10, true_t, dtype=dtype)
    scaler = TemperatureScaling().fit(logits, labels)
    found = float(scaler.temperature)
    assert found == pytest.approx(reference_temperature(logits, labels, true_t), abs=1e-4, rel=1e-6)
    assert max(gradients(logits, labels, found)) < 1e-6
    assert scaler.report.gradient_norm < 1e-6
    assert scaler.report.converged


@pytest.mark.parametrize("true_t", [0.1, 1.3, 20.0])
@pytest.mark.parametrize("shift", [0.0, 1000.0])
def test_float32_rows_and_warm_start_lose_nothing(true_t, shift):
    # Large enough for float32 row sums and both warm-start levels.
    logits, labels = sampled(40_000, 10, true_t)
    logits += shift
    scaler = TemperatureScaling().fit(logits, labels)
    assert max(gradients(logits, labels, float(scaler.temperature))) < 1e-6
    assert scaler.report.nll_after == pytest.approx(
        float(nll(logits / scaler.temperature, labels)), abs=1e-6
    )


def test_rows_sorted_by_difficulty_do_not_mislead_the_warm_start():
    logits, labels = sampled(20_000, 10, 2.0)
    logits[::8] *= 50  # exactly the rows that the warm start sees
    scaler = TemperatureScaling().fit(logits, labels)
    assert max(gradients(logits, labels, float(scaler.temperature))) < 1e-6


def contrived(n, scale, stride, factor, seed=0):
    """Logits, calibrated at T = scale, of which every so many rows are multiplied by a factor."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(n, 10, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator).squeeze(1)
    logits *= scale
    logits[stride - 1 :: stride] *= factor
    return logits, labels


@pytest.mark.parametrize(
    ("n", "scale", "stride", "factor"),
    [(16_384, 5.0, 64, 1e-5), (16_384, 0.01, 64, 1e9), (5000, 1.0, 5000, 1e6)],
)
def test_the_order_of_rows_does_not_matter(n, scale, stride, factor):
    # Without warnings, which are errors here. The first rows of each stride are what the warm start
    # sees.
    logits, labels = contrived(n, scale, stride, factor)
    found = []
    for shift in (0, 1, 7, stride // 2):
        order = torch.arange(n).roll(shift)
        scaler = TemperatureScaling().fit(logits[order], labels[order])
        assert scaler.report.converged
        assert gradients(logits, labels, float(scaler.temperature))[0] < 1e-6
        found.append(float(scaler.temperature))
    assert found == pytest.approx([found[0]] * 4, rel=1e-6)


@pytest.mark.parametrize("true_t", TEMPERATURES)
@pytest.mark.parametrize(("n", "c"), [(50, 3), (1000, 10)])
def test_the_derivative_vanishes_at_the_optimum(n, c, true_t):
    logits, labels = sampled(n, c, true_t, dtype=torch.float64)
    scaler = TemperatureScaling().fit(logits, labels)
    by_t, by_b = gradients(logits, labels, float(scaler.temperature))
    assert max(by_t, by_b) < 1e-9
    assert scaler.report.gradient_norm == pytest.approx(by_t, abs=1e-12)


@pytest.mark.parametrize("margin", [1e-4, 0.1, 3.0, 500.0])
@pytest.mark.parametrize("right", [0.51, 0.9, 0.999])
def test_any_margin_by_hand(margin, right):
    logits = torch.tensor([[margin, 0.0]] * 1000, dtype=torch.float64)
    scaler = TemperatureScaling().fit(logits, (torch.arange(1000) >= 1000 * right).long())
    assert float(scaler.temperature) == pytest.approx(
        margin / math.log(right / (1 - right)), rel=1e-6
    )


@pytest.mark.parametrize("rows", [2**18 // 8 - 1, 2**18 // 8, 2**18 // 8 + 1])
def test_chunks_lose_no_row(rows):
    # The chunk holds 2^18 logits. Only the last row is wrong: T depends on it alone.
    logits = torch.zeros(rows, 8)
    logits[:, 0] = 5.0
    labels = torch.zeros(rows, dtype=torch.long)
    labels[-1] = 7
    found = float(TemperatureScaling().fit(logits, labels).temperature)
    # e^(5 / T) = 7 (rows - 1), as (rows - 1) / rows is the probability of class 0.
    assert found == pytest.approx(5 / math.log(7 * (rows - 1)), rel=1e-4)


@pytest.mark.parametrize("mask", [-1e4, -1e30, -3.4e38])
@pytest.mark.parametrize("n", [2000, 30_000])
def test_masked_logits_fit_like_fewer_columns(mask, n):
    logits, labels = sampled(n, 5, 1.7)
    masked = torch.cat([logits, torch.full((n, 1), mask)], dim=1)
    scaler, expected = (
        TemperatureScaling().fit(masked, labels),
        TemperatureScaling().fit(logits, labels),
    )
    assert float(scaler.temperature) == pytest.approx(float(expected.temperature), rel=1e-6)
    assert scaler.report.nll_after == pytest.approx(expected.report.nll_after, abs=1e-7)


def test_the_hottest_temperature_is_ten_thousand_times_the_largest_difference():
    logits = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    with pytest.warns(UserWarning, match=r"uniform guess, .*T = 3e\+04"):
        scaler = TemperatureScaling().fit(logits, torch.tensor([1, 1, 0]))
    assert float(scaler.temperature) == pytest.approx(3e4)
    assert scaler.report.converged


def test_tiny_logits_that_say_nothing_keep_the_temperature():
    with pytest.warns(UserWarning, match="uniform guess"):
        scaler = TemperatureScaling().fit(torch.tensor([[1e-5, 0.0]]), torch.tensor([1]))
    assert float(scaler.temperature) == 1.0


def test_says_when_it_is_not_converged(monkeypatch):
    monkeypatch.setattr("socrates.scaling.temperature.MAX_PASSES", 2)
    logits, labels = sampled(500, 10, 20.0, dtype=torch.float64)
    with pytest.warns(UserWarning, match=r"TemperatureScaling: .*\b2 steps"):
        scaler = TemperatureScaling().fit(logits, labels)
    assert scaler.report.num_iterations == 2
    assert scaler.report.nll_after < scaler.report.nll_before
    by_t, _ = gradients(logits, labels, float(scaler.temperature))
    assert scaler.report.gradient_norm == pytest.approx(by_t, rel=1e-9)
    assert by_t > 1e-6
    assert not scaler.report.converged


@pytest.mark.parametrize(
    ("first", "second", "low", "high", "expected"),
    [
        (1.0, 4.0, 0.1, math.inf, 1.75),
        (-1.0, 4.0, 0.1, math.inf, 2.25),
        (-1.0, 0.0, 0.1, math.inf, 20.0),  # at most tenfold
        (1.0, 0.0, 0.1, math.inf, 0.2),
        (-1.0, 0.0, 0.5, 8.0, 2.0),  # the middle of what was tried
        (1.0, 0.0, 0.5, 8.0, 2.0),
        (1.0, 0.0, 0.3, 8.0, 0.3),  # the hottest
        (1.0, 1.0, 1.0, 4.0, 2.0),  # already tried
        (-1.0, 0.5, 1.0, 4.0, 2.0),
    ],
)
def test_newton_steps_by_hand(first, second, low, high, expected):
    hottest = 0.3
    assert _newton_target(Slope(1.0, first, second), 2.0, low, high, hottest) == pytest.approx(
        expected
    )


@pytest.mark.parametrize(("n", "most"), [(500, 5), (10_000, 2), (40_000, 2)])
def test_few_passes_over_the_logits(n, most):
    # One on most data, because a few rows warm the start and the series reaches the optimum from
    # there.
    assert TemperatureScaling().fit(*sampled(n, 10, 1.7)).report.num_iterations <= most


@pytest.mark.parametrize("case", GOLDEN["ts"], ids=lambda case: f"T={case['true_T']}")
def test_golden_temperatures(case):
    logits, labels = sampled(5000, 10, case["true_T"])
    scaler = TemperatureScaling().fit(logits, labels)
    assert float(scaler.temperature) > 0  # the released fit reached -23.9
    assert float(scaler.temperature) == pytest.approx(case["true_T"], rel=0.05)
    # The golden converged fits are one sample at several scales; so are ours, and T must follow the
    # scale exactly.
    at_one = TemperatureScaling().fit(*sampled(5000, 10, 1.0)).temperature
    golden_at_one = next(other["converged_T"] for other in GOLDEN["ts"] if other["true_T"] == 1.0)
    ours, golden = float(scaler.temperature / at_one), case["converged_T"] / golden_at_one
    assert ours == pytest.approx(case["true_T"], rel=1e-5)
    assert ours == pytest.approx(golden, rel=1e-3)
    before, after = ece(logits, labels), ece(scaler(logits), labels)
    assert after < 0.02
    assert (before > 0.04) == (case["ece_before"] > 0.04)  # miscalibrated in the same cases
    assert after < case["ece_authors"] or case["ece_authors"] < 0.02


@pytest.mark.parametrize("offset", [0.0, 1e-8, 1e-6, 1e-5, 1e-4])
def test_already_calibrated_logits_converge_too(offset):
    # Here the NLL before and after differ by less than float32 sums can tell.
    logits, labels = sampled(30_000, 10, 1.5)
    once = logits / float(TemperatureScaling().fit(logits, labels).temperature) * (1 + offset)
    again = TemperatureScaling().fit(once, labels)
    assert float(again.temperature) == pytest.approx(1 + offset, abs=1e-7)
    assert max(gradients(once, labels, float(again.temperature))) < 1e-6
    assert again.report.nll_after <= again.report.nll_before


def test_separable_labels_end_at_a_small_positive_temperature():
    logits = torch.tensor([[5.0, 0.0, 0.0], [0.0, 3.0, 1.0], [0.0, 0.0, 2.0]])
    with pytest.warns(UserWarning, match="largest logit"):
        scaler = TemperatureScaling().fit(logits, torch.tensor([0, 1, 2]))
    assert 0 < float(scaler.temperature) < 1
    assert scaler.report.nll_after < 1e-6
    assert torch.isfinite(scaler(logits)).all()


def test_logits_worse_than_a_guess_end_at_a_large_temperature():
    logits, _ = sampled(500, 4, 1.0)
    with pytest.warns(UserWarning, match="uniform guess"):
        scaler = TemperatureScaling().fit(logits, logits.argmin(dim=1))
    assert 1e3 < float(scaler.temperature) < 1e6
    assert scaler.report.nll_after == pytest.approx(math.log(4), abs=1e-3)


def test_constant_logits_change_nothing():
    scaler = TemperatureScaling().fit(torch.full((6, 3), 7.0), torch.tensor([0, 1, 2, 0, 1, 2]))
    assert float(scaler.temperature) == 1.0


def test_one_class_only():
    logits, _ = sampled(400, 5, 1.0)
    logits[:, 2] += 1.0
    labels = torch.full((400,), 2)
    scaler = TemperatureScaling().fit(logits, labels)
    assert max(gradients(logits, labels, float(scaler.temperature))) < 1e-6


@pytest.mark.parametrize("n", [2000, 30_000])  # float64 and float32 row sums
@pytest.mark.parametrize("scale", [1e-4, 1e4, 1e9])
def test_extreme_scales(scale, n):
    logits, labels = sampled(n, 6, 1.0)
    expected = float(TemperatureScaling().fit(logits, labels).temperature)
    scaler = TemperatureScaling().fit(logits * scale, labels)
    assert float(scaler.temperature) == pytest.approx(scale * expected, rel=1e-4)


def test_overflowing_logits_are_refused():
    logits = torch.tensor([[0.0, -1e300], [0.0, 1.0]], dtype=torch.float64)
    with pytest.raises(ValueError, match="too large"):
        TemperatureScaling().fit(logits, torch.tensor([0, 1]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    logits, labels = sampled(2000, 8, 1.5, dtype=dtype)
    scaler = TemperatureScaling().fit(logits.requires_grad_(), labels)
    assert float(scaler.temperature) == pytest.approx(1.5, rel=0.06)
    assert scaler(logits).dtype == dtype


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 30), st.integers(2, 6), st.floats(-3, 3), st.integers(0, 10_000))
def test_never_worse_always_positive_and_order_kept(n, c, log_scale, seed):
    generator = np.random.default_rng(seed)
    logits = torch.from_numpy(10**log_scale * generator.normal(size=(n, c))).float()
    labels = torch.from_numpy(generator.integers(0, c, size=n))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tiny samples are often separable or anti-informative
        scaler = TemperatureScaling().fit(logits, labels)
    assert float(scaler.temperature) > 0
    scaled = scaler(logits)
    assert torch.equal(
        scaled.gather(1, logits.argmax(dim=1, keepdim=True)), scaled.amax(dim=1, keepdim=True)
    )
    after, before = nll(logits.double() / scaler.temperature, labels), nll(logits, labels)
    assert after <= before + 1e-9
    assert scaler.report.nll_after <= scaler.report.nll_before
