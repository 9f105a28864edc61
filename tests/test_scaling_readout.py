import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scaling_cases import sampled, spread, with_unknown
from scipy.optimize import minimize

from socrates.scaling import ReadoutScaling, TemperatureScaling
from socrates.scaling.held_out import HeldOut
from socrates.scaling.readout import SpreadNLL


def spread_nll(logits, labels, temperature, bias):
    scaled = logits.double() / temperature
    scaled = torch.cat([scaled[:, :-1], scaled[:, -1:] + bias], dim=1)
    return -spread(scaled).gather(1, labels[:, None]).log().mean()


def prior(temperature, t_known, n):
    """What is added to the NLL of n rows: it is infinite at a third and at three times t_known."""
    x = (torch.as_tensor(temperature).double() / t_known).log() / math.log(3)
    return -5 / n * torch.log1p(-x * x)


def t_known(logits, labels):
    return float(TemperatureScaling().fit(logits[:, :-1], labels).temperature)


def gradient(scaler, logits, labels):
    parts = [scaler.temperature.clone().requires_grad_(), scaler.bias.clone().requires_grad_()]
    added = prior(parts[0], t_known(logits, labels), len(labels))
    objective = spread_nll(logits, labels, *parts) + added
    return float(torch.stack(torch.autograd.grad(objective, parts)).norm())


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
    center = t_known(logits, labels)
    grid = [
        float(spread_nll(logits, labels, t, b) + prior(t, center, 800))
        for t in center * torch.logspace(-1, 1, 31, base=2.9)
        for b in torch.linspace(-15, 15, 31)
    ]
    found = scaler.report.nll_after + float(prior(scaler.temperature, center, 800))
    assert found <= min(grid)


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
    over 1 / T and gap, of the NLL and its prior."""
    u = (logits - logits[:, :-1].amax(dim=1, keepdim=True)).double().numpy()
    known, unknown, true = u[:, :-1], u[:, -1], u[np.arange(len(u)), labels.numpy()]
    center = math.log(t_known(logits, labels))

    def value(log_b, balance, gap):
        x = (log_b + center) / math.log(3)
        if abs(x) >= 1:
            return math.inf
        b = math.exp(log_b)
        v = b * (unknown - gap) + balance
        log_true = np.logaddexp(b * true, v - math.log(known.shape[1]))
        nll = np.logaddexp(np.log(np.exp(b * known).sum(axis=1)), v) - log_true
        return float(nll.mean()) - 5 / len(u) * math.log(1 - x * x)

    grid = [
        (value(log_b, balance, gap), log_b, balance, gap)
        for log_b in np.linspace(-1, 1, 13) - center
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
@pytest.mark.filterwarnings("error:ReadoutScaling")
def test_finds_the_minimum_where_the_unknown_column_does_its_job(noise, seed):
    logits, labels = unknown_where_wrong(seed, noise)
    scaler = ReadoutScaling().fit(logits, labels)
    center = t_known(logits, labels)
    found = scaler.report.nll_after + float(prior(scaler.temperature, center, len(labels)))
    assert found <= lowest_found(logits, labels) + 1e-6
    assert scaler.report.nll_after == pytest.approx(
        float(spread_nll(logits, labels, scaler.temperature, scaler.bias)), abs=1e-8
    )
    assert scaler.report.converged
    assert center / 3 < float(scaler.temperature) < 3 * center


@pytest.mark.filterwarnings("error:ReadoutScaling")
def test_a_few_rows_that_are_sure_or_unknown_end_in_temperature_scaling():
    # The unknown column leads in the two wrong rows and trails in the others: the NLL falls for
    # ever as T goes to 0, and did so in the fit of earlier versions, down to T = 0.0009.
    logits = torch.tensor([[4.0, 0.0, 1.0], [3.0, 0.0, 2.0], [0.0, 4.0, 1.0], [0.0, 2.0, 1.0]])
    logits = torch.cat([logits, torch.tensor([[4.0, 0.0, 5.0], [0.0, 3.0, 5.0]])])
    labels = torch.tensor([0, 0, 1, 1, 1, 0])
    scaler = ReadoutScaling().fit(logits, labels)
    temperature = TemperatureScaling().fit(logits[:, :-1], labels)
    assert float(scaler.temperature) == float(temperature.temperature)
    assert torch.allclose(scaler.probs(logits), temperature.probs(logits[:, :-1]), atol=1e-7)
    assert scaler.report.nll_after == pytest.approx(temperature.report.nll_after, abs=1e-12)
    assert scaler.report.converged


@pytest.mark.parametrize(("repeats", "is_used"), [(1, False), (5, False), (8, True), (100, True)])
def test_the_unknown_column_must_gain_more_the_fewer_rows_there_are(repeats, is_used):
    # It lowers the NLL by 0.17 in 32 rows, which need (10 / 32)^2 = 0.098; 20 rows need 0.25.
    rows = torch.tensor([[2.0, 0.0, 0.0], [2.0, 0.0, -1.0], [0.0, 2.0, 0.0], [2.0, 0.0, 2.0]])
    logits = rows.repeat(repeats, 1).double()
    labels = torch.tensor([0, 0, 1, 1]).repeat(repeats)
    scaler = ReadoutScaling().fit(logits, labels)
    assert (float(scaler.bias) > -40) == is_used


def test_more_rows_free_the_temperature():
    logits, labels = unknown_where_wrong(0, 0.0)
    factors = []
    for repeats in (1, 10, 100):
        scaler = ReadoutScaling().fit(logits.repeat(repeats, 1), labels.repeat(repeats))
        factors.append(t_known(logits, labels) / float(scaler.temperature))
    assert 1 < factors[0] < factors[1] < factors[2] < 3


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
    assert torch.allclose(scaler(logits), expected, atol=1e-6)
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
    return SpreadNLL(HeldOut(logits, labels, unknown_class=True), b_known=1.0)


@pytest.mark.parametrize(
    ("b", "bias"), [(1.0, 0.0), (0.4, 2.0), (2.0, -3.0), (0.7, -12.0), (2.9, 9.0)]
)
def test_value_gradient_and_step_are_those_of_autograd(b, bias):
    logits, labels = with_unknown(200, 4, 1.5, 1.0)
    nll = spread_of(logits.double(), labels)

    def value(theta):
        return spread_nll(logits, labels, 1 / theta[0], theta[1]) + prior(1 / theta[0], 1.0, 200)

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
@pytest.mark.parametrize("b", [0.4, 1.0, 2.5])
def test_the_best_bias_is_found_nearly(b, noise):
    logits, labels = unknown_where_wrong(0, noise, n=100)
    found = spread_of(logits, labels).lowest(b)
    added = float(prior(1 / b, 1.0, 100))
    assert found.b == b
    assert found.value == pytest.approx(
        float(spread_nll(logits, labels, 1 / b, found.bias)) + added, abs=1e-8
    )
    grid = [
        float(spread_nll(logits, labels, 1 / b, bias)) + added
        for bias in torch.linspace(-15 - 25 * b, 15 + 25 * b, 400, dtype=torch.float64)
    ]
    assert found.value <= min(grid) + 1e-2


def test_the_best_bias_by_hand():
    logits = torch.tensor([[2.0, 0.0, 1.0]] * 3, dtype=torch.float64)
    # Always right or always wrong: as far from where the two columns balance as is tried, here
    # z_unknown = z_max - 1.
    assert spread_of(logits, torch.tensor([0, 0, 0])).lowest(2.0).bias == pytest.approx(2.0 - 13)
    assert spread_of(logits, torch.tensor([1, 1, 1])).lowest(2.0).bias == pytest.approx(2.0 + 13)


def test_a_temperature_beyond_the_prior_is_infinitely_bad():
    logits, labels = with_unknown(50, 3, 1.0, 0.0)
    nll = spread_of(logits.double(), labels)
    for b in (-1.0, 0.0, 0.333, 3.001, 1e9):
        assert nll.evaluate(torch.tensor([b, 0.0]).double())[0] == math.inf
    for b in (0.334, 2.99):
        assert math.isfinite(nll.evaluate(torch.tensor([b, 0.0]).double())[0])


@pytest.mark.parametrize(("n", "c"), [(3999, 3), (4000, 3), (20_000, 8)])
def test_a_search_on_some_of_the_rows_is_as_good(n, c, monkeypatch):
    logits, labels = with_unknown(n, c, 1.5, -1.0)
    on_some = ReadoutScaling().fit(logits, labels)
    monkeypatch.setattr("socrates.scaling.readout.COARSE_ROWS", n)
    on_all = ReadoutScaling().fit(logits, labels)
    assert on_some.report.nll_after == pytest.approx(on_all.report.nll_after, abs=1e-9)


def test_an_unknown_column_of_no_use_gets_a_probability_below_1e_17_in_every_row():
    known, labels = sampled(300, 5, 1.5)
    misleading = 2 * known.amax(dim=1, keepdim=True)
    scaler = ReadoutScaling().fit(torch.cat([known, misleading], dim=1), labels)
    lead = known.amax(dim=1).max() / scaler.temperature  # of the unknown column, at most
    assert float(scaler.bias) == pytest.approx(-40 - 100 * float(lead), rel=1e-6)
    # New rows with heavier tails do not bring it back.
    wild = torch.tensor([[0.0, 0.0, 0.0, 0.0, 1.0, 90 * float(known.amax())]])
    assert float(scaler(wild).softmax(dim=1)[0, -1]) < 1e-17
    scaler.fit(torch.cat([known, misleading - 1000], dim=1), labels)
    assert float(scaler.bias) == -40  # a higher one might let it in on other data


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 40), st.integers(2, 5), st.floats(-2, 2), st.integers(0, 10_000))
@pytest.mark.filterwarnings("ignore:ReadoutScaling", "ignore:TemperatureScaling")
def test_never_worse_than_temperature_scaling_on_its_own_rows(n, c, log_scale, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = 10**log_scale * torch.randn(n, c + 1, generator=generator)
    labels = torch.randint(0, c, (n,), generator=generator)
    scaler = ReadoutScaling().fit(logits, labels)
    temperature = TemperatureScaling().fit(logits[:, :-1], labels)
    assert scaler.report.nll_after <= temperature.report.nll_after + 1e-9
    factor = float(scaler.temperature / temperature.temperature)
    assert 1 / 3 < factor < 3
    assert torch.isfinite(scaler.probs(logits)).all()
