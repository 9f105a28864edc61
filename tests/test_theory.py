"""What the paper's two theorems say, where it is true; `docs/fidelity.md` tells where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gradient_lengths import P_UNKNOWN, is_longer, largest_p_true, markdown
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


@pytest.mark.parametrize("target", [1.0, 0.9, 0.5, 0.1, 0.0])
@pytest.mark.parametrize("gamma", [1.0, 1.5, 2.0, 4.0])
def test_the_bound_by_a_part_of_cross_entropy_holds_for_every_target(gamma, target):
    logits, labels, targets = random_cases(2, target)
    log_p = logits.log_softmax(1)
    log_p_true = log_p.gather(1, labels[:, None]).squeeze(1)
    others = log_p.exp().scatter(1, labels[:, None], -1.0).amax(1)
    beta = others - log_p[:, -1].exp()
    delta = (1 - target) * (gamma * log_p_true.exp() - 1) * log_p[:, -1]
    entropy = -(log_p.exp() * log_p).sum(1)
    bound = -target * log_p_true - gamma * entropy + beta * delta
    assert (socrates_loss(logits, labels, targets, gamma) >= bound - 1e-12).all()


def random_rows(p_unknown, num_rows=5000):
    """Random probabilities (rows, 6), true class 0, of the unknown class at least `p_unknown`."""
    torch.manual_seed(3)
    concentration = torch.full((5,), 0.3, dtype=torch.float64)
    rest = torch.distributions.Dirichlet(concentration).sample((num_rows,))
    p_true = torch.rand(num_rows, 1, dtype=torch.float64) * (1 - p_unknown)
    others = rest * (1 - p_true - p_unknown)
    others[:, -1] += p_unknown
    return torch.cat([p_true, others], dim=1).clamp(min=1e-12)


@pytest.mark.parametrize("p_unknown", P_UNKNOWN)
@pytest.mark.parametrize("target", [1.0, 0.9, 0.5, 0.1])
def test_one_wrong_class_is_the_worst_case_of_the_longer_gradient(target, p_unknown):
    rows = random_rows(p_unknown)
    for gamma in (1.0, 2.0, 4.0):
        longer = rows[is_longer(rows, gamma, target), 0].max().item()
        assert longer <= largest_p_true(gamma, target, p_unknown) + 1e-3


def test_a_target_of_one_has_the_threshold_of_the_page_whatever_the_unknown_class():
    for gamma, threshold in THRESHOLDS.items():
        for p_unknown in P_UNKNOWN:
            assert largest_p_true(gamma, 1.0, p_unknown) == pytest.approx(threshold, abs=1e-3)


def test_below_one_no_threshold_holds_for_every_row():
    """A confident row has the longer gradient once its unknown class is small enough."""
    p_unknown = 10.0 ** -torch.arange(2, 300, 20, dtype=torch.float64)
    p_true = torch.full_like(p_unknown, 0.95)
    rows = torch.stack([p_true, 1 - p_true - p_unknown, p_unknown], dim=1)
    longer = is_longer(rows, 1.0, 0.9)
    assert not longer[0]
    assert longer[-1]


def test_the_page_shows_the_table():
    page = Path(__file__).resolve().parent.parent / "docs" / "fidelity.md"
    assert markdown() in page.read_text()


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
