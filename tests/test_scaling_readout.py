import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scaling_cases import sampled, spread, with_unknown
from scipy.optimize import minimize

from socrates.scaling import ReadoutScaling, TemperatureScaling
from socrates.scaling.held_out import HeldOut
from socrates.scaling.readout import Point, SpreadNLL, _valleys


def spread_nll(logits, labels, temperature, bias):
    scaled = logits.double() / temperature
    scaled = torch.cat([scaled[:, :-1], scaled[:, -1:] + bias], dim=1)
    return -spread(scaled).gather(1, labels[:, None]).log().mean()


def gradient(scaler, logits, labels):
    parts = [scaler.temperature.clone().requires_grad_(), scaler.bias.clone().requires_grad_()]
    return float(torch.stack(torch.autograd.grad(spread_nll(logits, labels, *parts), parts)).norm())


@pytest.mark.parametrize(("true_t", "bias"), [(1.5, 0.0), (0.3, 2.0), (3.0, -1.0), (10.0, 1.0)])
@pytest.mark.parametrize(("n", "c"), [(5000, 10), (20_000, 30)])
def test_finds_temperature_and_bias(true_t, bias, n, c):
    logits, labels = with_unknown(n, c, true_t, bias)
    scaler = ReadoutScaling().fit(logits, labels)
    assert float(scaler.temperature) == pytest.approx(true_t, rel=0.05)
    assert float(scaler.bias) == pytest.approx(bias, abs=0.5)
    assert gradient(scaler, logits, labels) < 1e-6
    assert scaler.report.converged
    assert scaler.report.nll_after == pytest.approx(
        float(spread_nll(logits, labels, scaler.temperature, scaler.bias)), abs=1e-7
    )


def test_is_a_global_minimum():
    logits, labels = with_unknown(800, 4, 2.0, -1.0)
    scaler = ReadoutScaling().fit(logits, labels)
    grid = [
        float(spread_nll(logits, labels, t, b))
        for t in torch.logspace(-1, 1.5, 30)
        for b in torch.linspace(-15, 15, 31)
    ]
    assert scaler.report.nll_after <= min(grid)


def unknown_where_wrong(seed, noise, n=400, c=4):
    """Logits (n, c + 1) whose unknown column leads by about 1 where the label is random: the best T
    is near 0."""
    generator = torch.Generator().manual_seed(seed)
    logits = 5 * torch.randn(n, c + 1, generator=generator, dtype=torch.float64)
    wrong = torch.rand(n, generator=generator) < 0.15
    labels = torch.where(
        wrong, torch.randint(0, c, (n,), generator=generator), logits[:, :c].argmax(dim=1)
    )
    lead = 1 + noise * torch.randn(n, generator=generator, dtype=torch.float64)
    logits[:, c] = torch.where(wrong, logits.amax(dim=1) + lead, logits[:, c])
    return logits, labels


def lowest_found(logits, labels):
    """A slow search that shares nothing with the fit: Nelder-Mead from the best points of a grid
    over 1 / T and gap."""
    u = (logits - logits[:, :-1].amax(dim=1, keepdim=True)).double().numpy()
    known, unknown, true = u[:, :-1], u[:, -1], u[np.arange(len(u)), labels.numpy()]

    def value(log_b, balance, gap):
        b = math.exp(min(log_b, 20))
        v = b * (unknown - gap) + balance
        log_true = np.logaddexp(b * true, v - math.log(known.shape[1]))
        return float((np.logaddexp(np.log(np.exp(b * known).sum(axis=1)), v) - log_true).mean())

    grid = [
        (value(log_b, balance, gap), log_b, balance, gap)
        for log_b in np.log(np.geomspace(0.02, 3000, 20))
        for gap in np.quantile(unknown, np.linspace(0, 1, 26))
        for balance in (-2.0, 0.0, 2.0)
    ]
    options = {"xatol": 1e-9, "fatol": 1e-12, "maxfev": 1000}
    return min(
        minimize(
            lambda x, gap=gap: value(*x, gap),
            (log_b, balance),
            method="Nelder-Mead",
            options=options,
        ).fun
        for _, log_b, balance, gap in sorted(grid)[:4]
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("noise", [0.0, 0.2, 0.5, 1.0])
def test_finds_the_minimum_or_names_the_limit_where_the_unknown_column_does_its_job(noise, seed):
    logits, labels = unknown_where_wrong(seed, noise)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scaler = ReadoutScaling().fit(logits, labels)
    assert scaler.report.nll_after <= lowest_found(logits, labels) + 1e-6
    assert scaler.report.nll_after == pytest.approx(
        float(spread_nll(logits, labels, scaler.temperature, scaler.bias)), abs=1e-8
    )
    assert scaler.report.converged or "T goes to 0" in str(caught[0].message)


def test_the_limit_of_a_small_temperature_is_named():
    # Wrong rows lead by 1 or more, right ones trail: sure where right, and log 2 for each of the 2
    # rows of 6 in doubt.
    logits = torch.tensor([[4.0, 0.0, 1.0], [3.0, 0.0, 2.0], [0.0, 4.0, 1.0], [0.0, 2.0, 1.0]])
    logits = torch.cat([logits, torch.tensor([[4.0, 0.0, 5.0], [0.0, 3.0, 5.0]])])
    with pytest.warns(UserWarning, match=r"ReadoutScaling.*T = 0\.0"):
        scaler = ReadoutScaling().fit(logits, torch.tensor([0, 0, 1, 1, 1, 0]))
    assert scaler.report.nll_after == pytest.approx(math.log(2) / 3, abs=1e-6)
    assert scaler.report.converged


def test_says_when_it_is_not_converged(monkeypatch):
    monkeypatch.setattr("socrates.scaling.newton.MAX_STEPS", 0)
    logits, labels = with_unknown(800, 4, 2.0, -1.0)
    with pytest.warns(UserWarning, match=r"ReadoutScaling: .*\b0 steps"):
        scaler = ReadoutScaling().fit(logits, labels)
    assert not scaler.report.converged


def test_few_rows_do_not_decide_about_the_unknown_column():
    # The coarse search sees one row of 50 here.
    logits, labels = with_unknown(100_000, 4, 1.5, -6.0)
    scaler = ReadoutScaling().fit(logits, labels)
    grid = [
        float(spread_nll(logits, labels, t, b))
        for t in (1.3, 1.5, 1.7)
        for b in (-20.0, -6.0, -4.0, 0.0)
    ]
    assert scaler.report.nll_after <= min(grid)
    assert scaler.report.converged


def test_without_use_for_the_unknown_column_it_is_temperature_scaling():
    known, labels = sampled(4000, 10, 1.5)
    # claims not to know exactly where the model does
    misleading = 2 * known.amax(dim=1, keepdim=True)
    logits = torch.cat([known, misleading], dim=1)
    scaler, temperature = (
        ReadoutScaling().fit(logits, labels),
        TemperatureScaling().fit(known, labels),
    )
    assert float(scaler.temperature) == pytest.approx(float(temperature.temperature), rel=1e-6)
    assert torch.isfinite(scaler.bias)
    assert torch.allclose(scaler.probs(logits), temperature(known).softmax(dim=1), atol=1e-6)
    assert gradient(scaler, logits, labels) < 1e-6


def test_probs_by_hand():
    # At T = 1 and bias 0: softmax of (log 2, 0, 0) is (1/2, 1/4, 1/4), the unknown quarter is
    # shared by two classes.
    scaler = ReadoutScaling()
    scaler.columns = 3
    probs = scaler.probs(torch.tensor([[2.0, 1.0, 1.0]]).log())
    assert torch.allclose(probs, torch.tensor([[0.625, 0.375]]))
    logits = torch.randn(4, 3, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(scaler.probs(logits)[2], scaler.probs(logits[2]))


def test_call_scales_all_columns():
    logits, labels = with_unknown(1000, 5, 2.0, 1.0)
    scaler = ReadoutScaling().fit(logits, labels)
    expected = logits / scaler.temperature.float()
    expected[:, -1] += scaler.bias.float()
    assert torch.allclose(scaler(logits), expected)
    assert torch.allclose(scaler.probs(logits), spread(scaler(logits)))


def test_separable_and_hopeless_labels_end_finite():
    logits = 3 * torch.randn(500, 6, generator=torch.Generator().manual_seed(0))
    with pytest.warns(UserWarning, match="largest logit"):
        separable = ReadoutScaling().fit(logits, logits[:, :-1].argmax(dim=1))
    with pytest.warns(UserWarning, match="uniform guess"):
        hopeless = ReadoutScaling().fit(logits, logits[:, :-1].argmin(dim=1))
    assert separable.report.nll_after < 1e-6
    assert torch.allclose(hopeless.probs(logits), torch.full((500, 5), 0.2), atol=1e-3)
    for scaler in (separable, hopeless):
        assert torch.isfinite(scaler(logits)).all()
        assert float(scaler.temperature) > 0


def test_the_unknown_column_is_never_a_label():
    with pytest.raises(ValueError, match="3, expected 0 to 2"):
        ReadoutScaling().fit(torch.randn(3, 4), torch.tensor([0, 1, 3]))


def spread_of(logits, labels):
    return SpreadNLL(HeldOut(logits, labels, unknown_class=True))


@pytest.mark.parametrize(
    ("b", "bias"), [(1.0, 0.0), (0.3, 2.0), (2.0, -3.0), (0.7, -12.0), (3.0, 9.0)]
)
def test_value_gradient_and_step_are_those_of_autograd(b, bias):
    logits, labels = with_unknown(200, 4, 1.5, 1.0)
    nll = spread_of(logits.double(), labels)

    def value(theta):
        return spread_nll(logits, labels, 1 / theta[0], theta[1])

    theta = torch.tensor([b, bias], dtype=torch.float64, requires_grad=True)
    (by_theta,) = torch.autograd.grad(value(theta), theta)
    found, gradient = nll.evaluate(theta.detach())
    assert found == pytest.approx(float(value(theta.detach())), abs=1e-12)
    assert torch.allclose(gradient, by_theta, rtol=1e-8, atol=1e-12)
    # By T = 1 / b and by log T the first part is -b^2 and -b times the one by b.
    by_t, by_log_t = (
        math.hypot(factor * float(by_theta[0]), float(by_theta[1])) for factor in (b * b, b)
    )
    assert nll.at(b, bias)[1] == pytest.approx(by_t, rel=1e-7)
    assert nll.norm(gradient) == pytest.approx(max(by_t, by_log_t), rel=1e-7)
    # Newton's step in (a common factor, the bias), downhill along each axis of the curvature and
    # not longer than 1.
    axes = torch.tensor([[b, 0.0], [bias, 1.0]], dtype=torch.float64)
    curvature = torch.autograd.functional.hessian(
        lambda x: value(theta.detach() + axes @ x), torch.zeros(2).double()
    )
    slope = axes.T @ by_theta
    curves, basis = torch.linalg.eigh(curvature)
    expected = axes @ -(basis @ ((basis.T @ slope) / curves.abs().clamp(min=float(slope.norm()))))
    assert torch.allclose(nll.direction(gradient, 0.1), expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("noise", [0.0, 0.5])
@pytest.mark.parametrize(("b", "close"), [(0.3, 1e-2), (1.0, 1e-2), (10.0, 2e-3), (1000.0, 1e-6)])
def test_the_best_bias_is_found_at_any_temperature(b, close, noise):
    logits, labels = unknown_where_wrong(0, noise, n=100)
    found = spread_of(logits, labels).lowest(b)
    assert found.b == b
    assert found.value == pytest.approx(
        float(spread_nll(logits, labels, 1 / b, found.bias)), abs=1e-9
    )
    biases = torch.linspace(-15 - 25 * b, 15 + 25 * b, 4000, dtype=torch.float64)
    scaled = b * (logits - logits[:, :-1].amax(dim=1, keepdim=True))
    log_known, true = scaled[:, :-1].logsumexp(dim=1), scaled.gather(1, labels[:, None]).squeeze(1)
    unknown = scaled[:, -1] + biases[:, None]
    grid = (
        torch.logaddexp(log_known, unknown) - torch.logaddexp(true, unknown - math.log(4))
    ).mean(dim=1)
    assert found.value <= float(grid.min()) + close


def test_the_best_bias_by_hand():
    logits = torch.tensor([[2.0, 0.0, 1.0]] * 3, dtype=torch.float64)
    # Always right or always wrong: as far from where the two columns balance as is tried, here
    # z_unknown = z_max - 1.
    assert spread_of(logits, torch.tensor([0, 0, 0])).lowest(2.0).bias == pytest.approx(2.0 - 13)
    assert spread_of(logits, torch.tensor([1, 1, 1])).lowest(2.0).bias == pytest.approx(2.0 + 13)
    # Wrong where the unknown column leads by 1, else it trails by 1: near T = 0 any bias between,
    # at a cost of log 2 for each row that is left to the unknown column.
    logits = torch.tensor([[3.0, 0.0, 4.0], [3.0, 0.0, 2.0], [0.0, 3.0, 2.0]], dtype=torch.float64)
    nll = spread_of(logits, torch.tensor([1, 0, 1]))
    assert nll.lowest(200.0).value == pytest.approx(math.log(2) / 3, abs=1e-9)
    assert abs(nll.lowest(200.0).bias) < 20
    # It leads first where the label is right: giving those 2 of 5 rows up as well is worth the 3
    # others.
    logits = torch.tensor([[3.0, 0.0, 2.0]] * 3 + [[3.0, 0.0, 2.5]] * 2, dtype=torch.float64)
    nll = spread_of(logits, torch.tensor([1, 1, 1, 0, 0]))
    assert nll.lowest(200.0).value == pytest.approx(math.log(2), abs=1e-5)
    assert nll.lowest(200.0).bias > 200


@pytest.mark.parametrize("factor", [1.0, 1e-3, 300.0])
def test_the_temperature_stays_within_multiples_of_the_spread(factor):
    logits, labels = with_unknown(50, 3, 1.0, 0.0)
    logits = factor * logits.double()
    spread_of_known = float(logits[:, :-1].var(dim=1, correction=0).mean().sqrt())
    nll = spread_of(logits, labels)
    assert nll.low == pytest.approx(1 / (1e4 * spread_of_known), rel=1e-3)
    assert nll.high == pytest.approx(1e6 / spread_of_known, rel=1e-3)
    assert (nll.evaluate(torch.tensor([0.0, 1.0]))[0], nll.b) == (
        nll.at(nll.low, 1.0)[0].value,
        nll.low,
    )
    assert (nll.evaluate(torch.tensor([1e12, 1.0]))[0], nll.b) == (
        nll.at(nll.high, 1.0)[0].value,
        nll.high,
    )


def test_tiny_and_constant_logits_may_keep_their_temperature():
    labels = torch.tensor([0, 1])
    assert spread_of(torch.tensor([[1e-5, 0.0, 0.0]] * 2), labels).low == 1.0
    assert spread_of(torch.tensor([[1e7, 0.0, 0.0]] * 2), labels).high == 1.0
    constant = spread_of(torch.zeros(2, 3), labels)
    assert (constant.low, constant.high) == (1.0, 1.0)


NO_DATA = HeldOut(torch.zeros(3, 3), torch.zeros(3, dtype=torch.long))


class Landscape:
    """Stands for an NLL whose value at each b is known, and notes where it was asked for."""

    low, high = 1e-4, 1e6

    def __init__(self, value):
        self.value = value
        self.asked = []

    def lowest(self, b):
        self.asked.append(b)
        return Point(self.value(b), b, 0.0)


def test_the_four_lowest_valleys_are_found():
    # In steps of a fifth of a decade: valleys at -7, -4, 1, 6, 9 and a plateau from 13 on, the
    # second one the highest.
    depths = {-7: 1.0, -4: 2.0, 1: 0.5, 6: 1.5, 9: 0.7, 13: 0.9, 14: 0.9, 15: 0.9 - 1e-10}
    landscape = Landscape(lambda b: depths.get(round(5 * math.log10(b)), 3.0))
    valleys = _valleys(landscape, NO_DATA, 10**0.2)
    assert [5 * math.log10(b) for b in valleys] == pytest.approx([1, 9, 13, -7], abs=1e-9)
    tried = [5 * math.log10(b) for b in landscape.asked]
    assert sorted(tried) == tried
    assert sorted({round(k, 9) for k in tried}) == pytest.approx(range(-7, 16))


def test_the_coarse_search_tries_one_and_the_temperature_of_the_known_within_its_limits():
    landscape = Landscape(lambda b: abs(math.log(b / 1.01)))
    assert _valleys(landscape, NO_DATA, 0.02) == [1.0]
    assert landscape.asked[0] == 0.02
    for b_known, tried in ((1e-9, 1e-4), (1e9, 1e6)):
        landscape = Landscape(lambda b, tried=tried: abs(math.log(b / tried)))
        assert _valleys(landscape, NO_DATA, b_known) == [tried]


@pytest.mark.parametrize(
    ("rows", "columns", "read"),
    [
        (3999, 3, []),
        (4000, 3, [2000]),
        (10_000, 3, [2000]),
        (5000, 2048, [556]),
        (5000, 8192, [264]),
    ],
)
def test_the_coarse_search_reads_few_rows_and_few_logits(monkeypatch, rows, columns, read):
    # At most about 2000 rows or 2^20 logits, but 256 rows in any case.
    seen = []

    class Sample(Landscape):
        def __init__(self, data):
            super().__init__(lambda b: abs(math.log(b)))
            seen.append(len(data.logits))
            assert len(data.labels) == len(data.logits)

        def descend(self, start):
            return start, 1

    monkeypatch.setattr("socrates.scaling.readout.SpreadNLL", Sample)
    data = HeldOut(torch.zeros(1, 1).expand(rows, columns), torch.zeros(rows, dtype=torch.long))
    assert _valleys(Landscape(lambda b: abs(math.log(b))), data, 1.0) == [1.0]
    assert seen == read


@pytest.mark.parametrize("margin", [4.0, 5.0, 6.0])
def test_the_valley_that_looks_lower_may_not_be_the_lowest(margin):
    # Sure or unknown at T = 0, where 30 + 80 of 180 rows cost log 3 each, or a temperature that
    # fits the others.
    rows = (
        [[0.3, 0.0, 0.0, 0.0]] * 70
        + [[0.0, 0.3, 0.0, 0.6]] * 30
        + [[margin, 0.0, 0.0, margin + 5]] * 80
    )
    logits = torch.tensor(rows, dtype=torch.float64)
    labels = torch.tensor([0] * 100 + [1, 0, 0, 0, 0, 0, 0, 0] * 10)
    at_zero = math.log(3) * 110 / 180
    scaler = ReadoutScaling().fit(logits, labels)
    assert scaler.report.nll_after < at_zero - 0.01
    assert scaler.report.nll_after <= lowest_found(logits, labels) + 1e-6
    assert scaler.report.converged


def test_an_unknown_column_of_no_use_gets_a_probability_below_1e_17_in_every_row():
    known, labels = sampled(300, 5, 1.5)
    misleading = 2 * known.amax(dim=1, keepdim=True)
    scaler = ReadoutScaling().fit(torch.cat([known, misleading], dim=1), labels)
    lead = known.amax(dim=1).max() / scaler.temperature  # of the unknown column, at most
    assert float(scaler.bias) == pytest.approx(-40 - float(lead), rel=1e-6)
    scaler.fit(torch.cat([known, misleading - 1000], dim=1), labels)
    assert float(scaler.bias) == -40  # a higher one might let it in on other data


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 40), st.integers(2, 5), st.floats(-2, 2), st.integers(0, 10_000))
@pytest.mark.filterwarnings("ignore:ReadoutScaling")
def test_never_worse(n, c, log_scale, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = 10**log_scale * torch.randn(n, c + 1, generator=generator)
    labels = torch.randint(0, c, (n,), generator=generator)
    scaler = ReadoutScaling().fit(logits, labels)
    assert scaler.report.nll_after <= scaler.report.nll_before
    assert torch.isfinite(scaler.probs(logits)).all()
