"""What every method keeps: finite loss, gradients everywhere, state that saves, loads and copies,
no host reads."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from socrates import methods, models
from socrates.contracts import Batch, Task

NUM_CLASSES, NUM_SAMPLES, BATCH = 3, 24, 8
CASES = [
    *[(name, {}) for name in methods.METHODS if name != "ccl_sc"],
    ("ccl_sc", {"start_epoch": 0, "queue_size": 9}),
    ("ccl_sc", {"start_epoch": 1, "queue_size": 9}),
    *[(name, {"start_epoch": 1}) for name in ("sat", "gamblers", "socrates", "socrates:no-focal")],
]
every_method = pytest.mark.parametrize(
    ("name", "options"), CASES, ids=[f"{name}-{o}" for name, o in CASES]
)


def make(name, options, seed=0):
    torch.manual_seed(seed)
    method = methods.build(name, Task(NUM_SAMPLES, NUM_CLASSES), **options)
    model = models.build("cnn", NUM_CLASSES + method.unknown_class, (1, 8, 8), width=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, method, optimizer


def make_batch(step, meta=None):
    generator = torch.Generator().manual_seed(step)
    index = torch.randperm(NUM_SAMPLES, generator=generator)[:BATCH]
    images = torch.randn(BATCH, 1, 8, 8, generator=generator)
    return Batch(images, index % NUM_CLASSES, index, meta, learning_rate=0.1)


def take_steps(model, method, optimizer, steps):
    losses = []
    for step in steps:
        torch.manual_seed(step)  # as the engine does: it decides what dropout and mixup draw
        optimizer.zero_grad()
        loss, logits = method(
            model, make_batch(step, make_batch(1000 + step) if method.meta_share else None)
        )
        assert logits.shape == (BATCH, NUM_CLASSES + method.unknown_class)
        loss.backward()
        optimizer.step()
        method.end_step(model)
        losses.append(loss.detach())
    return torch.stack(losses)


def snapshot(*modules):
    return [
        {key: value.clone() for key, value in module.state_dict().items()} for module in modules
    ]


def assert_same(before, after):
    assert [list(state) for state in before] == [list(state) for state in after]
    for old, new in zip(before, after, strict=True):
        for key in old:
            assert torch.equal(old[key], new[key]), key


@every_method
@pytest.mark.parametrize("epoch", [0, 1])
def test_loss_is_finite_and_reaches_every_parameter(name, options, epoch):
    model, method, optimizer = make(name, options)
    method.start_epoch(epoch, model)
    losses = take_steps(model, method, optimizer, range(4))
    assert losses.isfinite().all()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.abs().sum() > 0, key


@every_method
def test_held_out_data_leaves_the_state_alone(name, options):
    model, method, optimizer = make(name, options)
    method.start_epoch(1, model)
    take_steps(model, method, optimizer, range(3))
    before = snapshot(method)
    logits = torch.randn(5, NUM_CLASSES + method.unknown_class)
    loss = method.validation_loss(logits, torch.tensor([0, 1, 2, 0, 1]))
    assert loss.shape == ()
    assert loss.isfinite()
    model.eval()
    method.eval()
    assert torch.equal(method.validation_loss(logits, torch.tensor([0, 1, 2, 0, 1])), loss)
    assert method(model, make_batch(7)).loss.isfinite()
    method.end_step(model)
    assert_same(before, snapshot(method))


@every_method
@pytest.mark.parametrize("epochs", [1, 2])
def test_resuming_is_bitwise_equal(name, options, epochs):
    model, method, optimizer = make(name, options)
    for epoch in range(epochs):
        method.start_epoch(epoch, model)
        take_steps(model, method, optimizer, range(10 * epoch, 10 * epoch + 4))
    saved = copy.deepcopy([model.state_dict(), method.state_dict(), optimizer.state_dict()])

    method.start_epoch(epochs, model)
    losses = take_steps(model, method, optimizer, range(50, 53))

    other = make(name, options, seed=1)
    other[1].start_epoch(epochs, other[0])
    for part, state in zip(other, saved, strict=True):
        part.load_state_dict(state)
    other[1].start_epoch(epochs, other[0])
    assert torch.equal(take_steps(*other, range(50, 53)), losses)
    assert_same(snapshot(model, method), snapshot(*other[:2]))
    for key, value in method.diagnostics().items():
        assert torch.equal(value, other[1].diagnostics()[key])


@every_method
def test_a_deep_copy_trains_on_its_own(name, options):
    model, method, optimizer = make(name, options)
    method.start_epoch(1, model)
    take_steps(model, method, optimizer, range(2))
    before = snapshot(model, method)
    other_model, other = copy.deepcopy(model), copy.deepcopy(method)
    other_optimizer = torch.optim.SGD(other_model.parameters(), lr=0.1)
    take_steps(other_model, other, other_optimizer, range(2, 4))
    assert_same(before, snapshot(model, method))


@every_method
@pytest.mark.parametrize("epoch", [0, 1])
def test_no_step_reads_the_device(name, options, epoch):
    with FakeTensorMode():  # its tensors have no values: reading one raises
        model, method, optimizer = make(name, options)
        method.start_epoch(epoch, model)
        labels = torch.randint(NUM_CLASSES, (BATCH,))
        batch = Batch(torch.randn(BATCH, 1, 8, 8), labels, torch.randint(NUM_SAMPLES, (BATCH,)))
        batch = dataclasses.replace(
            batch, meta=batch if method.meta_share else None, learning_rate=0.1
        )
        for _ in range(2):
            method(model, batch).loss.backward()
            optimizer.step()
            method.end_step(model)
        assert all(value.shape == () for value in method.diagnostics().values())


def test_the_check_for_device_reads_can_fail():
    with FakeTensorMode(), pytest.raises(Exception, match="_local_scalar_dense"):
        torch.randn(3).sum().item()


@every_method
def test_moving_and_casting_keep_the_method_usable(name, options):
    model, method, optimizer = make(name, options)
    method.start_epoch(1, model)
    method.to(torch.float32).train().eval().train()
    assert take_steps(model, method, optimizer, range(2)).isfinite().all()


def test_methods_with_an_unknown_class():
    task = Task(NUM_SAMPLES, NUM_CLASSES)
    found = {name for name in methods.METHODS if methods.build(name, task).unknown_class}
    assert found == {"sat", "gamblers", "beta_penalty"} | {
        name for name in methods.METHODS if name.startswith("socrates")
    }
    assert [name for name in methods.METHODS if methods.build(name, task).meta_share] == ["mc"]
    assert [name for name in methods.METHODS if methods.build(name, task).needs_features] == [
        "mc",
        "ccl_sc",
    ]
