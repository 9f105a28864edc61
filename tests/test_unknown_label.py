"""The label C of the losses with an unknown column: a training sample of none of the classes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from socrates.losses import (
    SATLoss,
    SocratesLoss,
    sat_loss,
    socrates_loss,
    socrates_loss_reference,
)

LABELS = torch.tensor([0, 3, 2, 3, 1, 3])
LOSSES: Any = (SocratesLoss, SATLoss)


def drawn(scale: float = 2.0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return scale * torch.randn(6, 4, generator=generator, dtype=dtype)


def test_worked_example_by_hand() -> None:
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    unknown = torch.tensor([2])
    # -log 0.2 = 1.6094 and (1 - 0.2)^2 = 0.64
    for target in (0.0, 0.3, 1.0):
        targets = torch.tensor([target])
        assert float(sat_loss(logits, unknown, targets, True)) == pytest.approx(1.6094, abs=1e-4)
        loss = socrates_loss(logits, unknown, targets, 2.0, unknown_label=True)
        assert float(loss) == pytest.approx(0.64 * 1.6094, abs=1e-4)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("scale", [0.1, 2.0, 20.0])
def test_fused_loss_and_gradient_agree_with_the_twin(gamma: float, scale: float) -> None:
    target = torch.linspace(0.1, 0.9, 6, dtype=torch.float64)
    losses: list[Tensor] = []
    gradients: list[Tensor] = []
    for function in (socrates_loss, socrates_loss_reference):
        logits = drawn(scale).requires_grad_()
        loss = function(logits, LABELS, target, gamma, unknown_label=True)
        loss.sum().backward()
        losses.append(loss.detach())
        gradients.append(logits.grad)  # pyright: ignore[reportArgumentType]
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-7, atol=1e-10)


def test_gradient_of_a_sure_stranger_is_finite() -> None:
    for gap in (50.0, 800.0, -800.0):
        logits = torch.tensor([[0.0, 0.0, gap]], requires_grad=True)
        loss = socrates_loss(logits, torch.tensor([2]), torch.ones(1), 0.5, unknown_label=True)
        loss.sum().backward()
        assert bool(logits.grad.isfinite().all()), gap  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize("kind", LOSSES)
def test_strangers_have_no_adaptive_target(kind: Any) -> None:
    criterion = kind(6, alpha=0.5, unknown_label=True)
    known = kind(6, alpha=0.5)
    logits = drawn(dtype=torch.float32)
    is_known = LABELS < 3
    index = torch.arange(6)
    for _ in range(3):
        step = criterion.step(logits, LABELS, index)
        other = known.step(logits[is_known], LABELS[is_known], index[is_known])
    assert criterion.target[~is_known].tolist() == [1.0] * 3
    assert torch.equal(criterion.target[is_known], known.target[is_known])
    assert torch.equal(step.target[is_known], other.target)
    if step.beta is not None:
        assert step.beta[~is_known].tolist() == [0.0] * 3


@pytest.mark.parametrize("kind", LOSSES)
def test_without_strangers_the_option_changes_no_bit(kind: Any) -> None:
    results: list[tuple[Tensor, Tensor, Tensor]] = []
    for option in ({}, {"unknown_label": True}):
        criterion = kind(6, **option)
        logits = drawn(dtype=torch.float32).requires_grad_()
        loss = criterion(logits, LABELS.clamp(max=2), torch.arange(6))
        loss.backward()
        results.append((loss.detach(), logits.grad, criterion.target))  # pyright: ignore[reportArgumentType]
    for first, second in zip(*results, strict=True):
        assert torch.equal(first, second)


@pytest.mark.parametrize("kind", LOSSES)
def test_the_label_is_refused_unless_it_is_asked_for(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"0\.\.2.*unknown_label=True"):
        kind(None)(drawn(), LABELS)
    with pytest.raises(ValueError, match=r"0\.\.3"):
        kind(None, unknown_label=True)(drawn(), LABELS + 1)
    assert "unknown_label" not in repr(kind(None))
    assert "unknown_label=True" in repr(kind(None, unknown_label=True))


@pytest.mark.parametrize("kind", LOSSES)
def test_class_weights_leave_strangers_at_one(kind: Any) -> None:
    weight = torch.tensor([2.0, 3.0, 4.0], dtype=torch.float64)
    labels = LABELS.clone()
    labels[5] = -100
    options: Any = {"unknown_label": True, "reduction": "none"}
    plain = kind(None, **options)(drawn(), labels)
    weighted = kind(None, weight=weight, **options)(drawn(), labels)
    expected = torch.tensor([2.0, 1.0, 4.0, 1.0, 3.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(weighted, plain * expected)


@pytest.mark.parametrize("kind", LOSSES)
def test_torch_func_agrees(kind: Any) -> None:
    criterion = kind(None, unknown_label=True)
    logits = drawn().requires_grad_()
    criterion(logits, LABELS).backward()
    gradient = torch.func.grad(lambda rows: criterion(rows, LABELS))(drawn())
    torch.testing.assert_close(gradient, logits.grad, rtol=1e-7, atol=1e-10)
