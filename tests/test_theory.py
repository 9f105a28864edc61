"""What the paper's two theorems say, where it is true; `docs/fidelity.md` tells where it is not."""

from __future__ import annotations

import pytest
import torch

from socrates.losses import socrates_loss

THRESHOLDS = {1.0: 0.3679, 2.0: 0.2976, 3.0: 0.2526, 4.0: 0.2207}


def gradient_norms(p_true, gamma):
    """Norms of the logit gradients of Socrates (t = 1) and of cross-entropy, at a probability of
    the true class."""
    p = torch.full((1, 5), (1 - p_true) / 4, dtype=torch.float64)
    p[0, 0] = p_true
    norms = []
    for exponent in (gamma, 0.0):  # gamma = 0 and t = 1 is cross-entropy
        logits = p.log().requires_grad_()
        socrates_loss(
            logits, torch.tensor([0]), torch.ones(1, dtype=torch.float64), exponent
        ).sum().backward()
        assert logits.grad is not None
        norms.append(logits.grad.norm().item())
    return norms


@pytest.mark.parametrize(("gamma", "threshold"), THRESHOLDS.items())
def test_gradient_is_below_cross_entropys_exactly_above_the_threshold(gamma, threshold):
    for p_true in torch.linspace(0.01, 0.99, 99).tolist():
        if abs(p_true - threshold) > 1e-3:
            ours, cross_entropys = gradient_norms(p_true, gamma)
            assert (ours < cross_entropys) == (p_true > threshold)
    below, above = gradient_norms(threshold - 1e-4, gamma), gradient_norms(threshold + 1e-4, gamma)
    assert below[0] > below[1]
    assert above[0] < above[1]


def random_cases(seed, target):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(2000, 6, dtype=torch.float64, generator=generator)
    return (
        logits,
        torch.randint(5, (2000,), generator=generator),
        torch.full((2000,), target, dtype=torch.float64),
    )


@pytest.mark.parametrize("gamma", [1.0, 2.0, 4.0])
def test_kullback_leibler_bound_holds_for_target_one(gamma):
    logits, labels, target = random_cases(0, 1.0)
    log_p = logits.log_softmax(1)
    kl = -log_p.gather(1, labels[:, None]).squeeze(1)  # q is one-hot, so its entropy is 0
    entropy = -(log_p.exp() * log_p).sum(1)
    assert (socrates_loss(logits, labels, target, gamma) >= kl - gamma * entropy - 1e-12).all()


def test_kullback_leibler_bound_fails_for_smaller_targets():
    """With q = t on the true and 1 - t on the unknown class the stated inequality is violated by
    common cases."""
    logits, labels, target = random_cases(1, 0.5)
    gamma, log_p = 1.0, logits.log_softmax(1)
    p_true = log_p.exp().gather(1, labels[:, None]).squeeze(1)
    others = log_p.exp().scatter(1, labels[:, None], -1.0).amax(1)
    beta = others - log_p[:, -1].exp()
    kl = -(0.5 * p_true.log() + 0.5 * log_p[:, -1]) + torch.tensor(0.5).log()
    entropy = -(log_p.exp() * log_p).sum(1)
    delta = 0.5 * (gamma * p_true * log_p[:, -1] - log_p[:, -1])
    bound = kl - gamma * entropy + beta * delta
    violated = socrates_loss(logits, labels, target, gamma) < bound
    assert violated.float().mean() > 0.1


def test_the_penalty_r_is_neither_bounded_nor_between_zero_and_one():
    """r = gamma (1-p)^(gamma-1) beta (1-t) log p_idk - (1-p)^gamma beta (1-t) / p_idk is <= 0 and
    unbounded."""
    gamma, t = 2.0, 0.5
    worst = 0.0
    for p_idk in (1e-1, 1e-3, 1e-6):
        p_true, p_best = 0.2, 0.8 - p_idk
        beta = p_best - p_idk
        log_p_idk = torch.tensor(p_idk).log().item()
        r = (
            gamma * (1 - p_true) * beta * (1 - t) * log_p_idk
            - (1 - p_true) ** gamma * beta * (1 - t) / p_idk
        )
        assert r < worst
        worst = r
    assert worst < -1e5
