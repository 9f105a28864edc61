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
    """Logits (n, c + 1) whose unknown column leads by about 1 where the label is random: the best T is near 0."""
    generator = torch.Generator().manual_seed(seed)
    logits = 5 * torch.randn(n, c + 1, generator=generator, dtype=torch.float64)
    wrong = torch.rand(n, generator=generator) < 0.15
    labels = torch.where(wrong, torch.randint(0, c, (n,), generator=generator), logits[:, :c].argmax(dim=1))
    lead = 1 + noise * torch.randn(n, generator=generator, dtype=torch.float64)
    logits[:, c] = torch.where(wrong, logits.amax(dim=1) + lead, logits[:, c])
    return logits, labels


def lowest_found(logits, labels):
    """A slow search that shares nothing with the fit: Nelder-Mead from the best points of a grid over 1 / T and gap."""
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
        minimize(lambda x, gap=gap: value(*x, gap), (log_b, balance), method="Nelder-Mead", options=options).fun
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
    # Wrong rows lead by 1 or more, right ones trail: sure where right, and log 2 for each of the 2 rows of 6 in doubt.
    logits = torch.tensor([[4.0, 0.0, 1.0], [3.0, 0.0, 2.0], [0.0, 4.0, 1.0], [0.0, 2.0, 1.0]])
    logits = torch.cat([logits, torch.tensor([[4.0, 0.0, 5.0], [0.0, 3.0, 5.0]])])
    with pytest.warns(UserWarning, match=r"ReadoutScaling.*falls for ever as T goes to 0; T = 0\.0"):
        scaler = ReadoutScaling().fit(logits, torch.tensor([0, 0, 1, 1, 1, 0]))
    assert scaler.report.nll_after == pytest.approx(math.log(2) / 3, abs=1e-6)
    assert scaler.report.converged


def test_says_when_it_is_not_converged(monkeypatch):
    monkeypatch.setattr("socrates.scaling.newton.MAX_STEPS", 0)
    logits, labels = with_unknown(800, 4, 2.0, -1.0)
    with pytest.warns(UserWarning, match="ReadoutScaling: stopped after 0 steps at a gradient norm of .*not converged"):
        scaler = ReadoutScaling().fit(logits, labels)
    assert not scaler.report.converged


def test_few_rows_do_not_decide_about_the_unknown_column():
    # The coarse search sees one row of 50 here.
    logits, labels = with_unknown(100_000, 4, 1.5, -6.0)
    scaler = ReadoutScaling().fit(logits, labels)
    grid = [float(spread_nll(logits, labels, t, b)) for t in (1.3, 1.5, 1.7) for b in (-20.0, -6.0, -4.0, 0.0)]
    assert scaler.report.nll_after <= min(grid)
    assert scaler.report.converged


def test_without_use_for_the_unknown_column_it_is_temperature_scaling():
    known, labels = sampled(4000, 10, 1.5)
    misleading = 2 * known.amax(dim=1, keepdim=True)  # claims not to know exactly where the model does
    logits = torch.cat([known, misleading], dim=1)
    scaler, temperature = ReadoutScaling().fit(logits, labels), TemperatureScaling().fit(known, labels)
    assert float(scaler.temperature) == pytest.approx(float(temperature.temperature), rel=1e-6)
    assert torch.isfinite(scaler.bias)
    assert torch.allclose(scaler.probs(logits), temperature(known).softmax(dim=1), atol=1e-6)
    assert gradient(scaler, logits, labels) < 1e-6


def test_probs_by_hand():
    # At T = 1 and bias 0: softmax of (log 2, 0, 0) is (1/2, 1/4, 1/4), the unknown quarter is shared by two classes.
    scaler = ReadoutScaling()
    scaler.columns = 3
    probs = scaler.probs(torch.tensor([[2.0, 1.0, 1.0]]).log())
    assert torch.allclose(probs, torch.tensor([[0.625, 0.375]]))


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
    with pytest.warns(UserWarning, match="worse than a uniform guess"):
        hopeless = ReadoutScaling().fit(logits, logits[:, :-1].argmin(dim=1))
    assert separable.report.nll_after < 1e-6
    assert torch.allclose(hopeless.probs(logits), torch.full((500, 5), 0.2), atol=1e-3)
    for scaler in (separable, hopeless):
        assert torch.isfinite(scaler(logits)).all()
        assert float(scaler.temperature) > 0


def test_the_unknown_column_is_never_a_label():
    with pytest.raises(ValueError, match=r"labels from 0 to 2, got 0 to 3.*never a label"):
        ReadoutScaling().fit(torch.randn(3, 4), torch.tensor([0, 1, 3]))


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
