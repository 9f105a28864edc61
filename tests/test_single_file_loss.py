"""examples/socrates_loss_single_file.py is the loss of the package: value, gradient and state."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest
import torch

from socrates import losses

FOLDER = Path(__file__).resolve().parent.parent / "examples"


@pytest.fixture
def single(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("socrates_loss_single_file")


def steps(num_steps=6, dtype=torch.float64):
    """Batches of 8 from 20 samples of 5 classes; indices repeat within a batch."""
    generator = torch.Generator().manual_seed(4)
    labels = torch.randint(5, (20,), generator=generator)
    for _ in range(num_steps):
        index = torch.randint(20, (8,), generator=generator)
        logits = 3 * torch.randn(8, 6, dtype=dtype, generator=generator)
        yield logits, labels[index], index


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("alpha", [0.5, 0.99, 1.0])
def test_loss_gradient_and_state_are_those_of_the_package(single, gamma, alpha):
    ours = losses.SocratesLoss(20, gamma=gamma, alpha=alpha)
    copied = single.SocratesLoss(20, gamma=gamma, alpha=alpha)
    for logits, labels, index in steps():
        gradients, values = [], []
        for criterion in (ours, copied):
            inputs = logits.clone().requires_grad_()
            loss = criterion(inputs, labels, index)
            loss.backward()
            gradients.append(inputs.grad)
            values.append(loss.detach())
        torch.testing.assert_close(*values, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-14)
        torch.testing.assert_close(copied.target, ours.target)
    saved = copied.state_dict()
    assert saved.keys() == ours.state_dict().keys()
    for name, value in ours.state_dict().items():
        torch.testing.assert_close(saved[name], value)


def test_each_loads_what_the_other_saved(single, recwarn):
    ours = losses.SocratesLoss(20, gamma=2.0, alpha=0.9)
    for logits, labels, index in steps():
        ours(logits.requires_grad_(), labels, index).backward()
    copied = single.SocratesLoss(20, gamma=2.0, alpha=0.9)
    copied.load_state_dict(ours.state_dict())
    again = losses.SocratesLoss(20, gamma=2.0, alpha=0.9)
    again.load_state_dict(copied.state_dict())
    assert torch.equal(again.target, ours.target)
    assert not recwarn.list


def test_evaluation_neither_reads_nor_moves_targets(single):
    ours, copied = losses.SocratesLoss(20), single.SocratesLoss(20)
    logits, labels, index = next(steps())
    copied(logits, labels, index)
    before = copied.target.clone()
    expected = ours.eval()(logits, labels)
    torch.testing.assert_close(copied.eval()(logits, labels), expected)
    assert torch.equal(copied.target, before)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
def test_extreme_logits_have_finite_gradients(single, gamma):
    logits = torch.tensor([[200.0, 0.0, 0.0], [-200.0, 0.0, 0.0]], requires_grad=True)
    single.socrates_loss(logits, torch.tensor([0, 0]), torch.ones(2), gamma).sum().backward()
    assert logits.grad.isfinite().all()


def test_a_diverged_sample_keeps_its_target(single):
    criterion = single.SocratesLoss(2)
    logits = torch.tensor([[float("nan"), 0.0, 0.0], [0.0, 1.0, 0.0]])
    criterion(logits, torch.tensor([0, 0]), torch.tensor([0, 1]))
    assert criterion.target[0] == 1
    assert criterion.target[1] < 1


def test_the_index_is_asked_for(single):
    with pytest.raises(ValueError, match="index"):
        single.SocratesLoss(2)(torch.zeros(1, 3), torch.tensor([0]))


def test_it_needs_only_torch():
    tree = ast.parse((FOLDER / "socrates_loss_single_file.py").read_text())
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }
    assert imported == {"__future__", "torch"}
