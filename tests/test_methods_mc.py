"""Meta-Calibration: the gradient through the virtual step, Adam, bounds."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from socrates import methods, models
from socrates.contracts import Batch, DropoutLinear, Task
from socrates.engine.train import train
from socrates.experiment import Experiment, Optimization, Part
from socrates.losses import dece, smoothed_labels
from socrates.methods.mc import Adam, MetaCalibration, last_layer, virtual_head

NUM_CLASSES = 3
RATE = 0.1  # of the step, as the engine tells it


def problem(dtype=torch.float64):
    torch.manual_seed(0)
    model = models.build("mlp", NUM_CLASSES, (1, 2, 2), width=5).to(dtype)
    batch, meta = (
        Batch(
            2 * torch.randn(n, 1, 2, 2, dtype=dtype),
            torch.arange(n) % NUM_CLASSES,
            torch.arange(n),
            None,
            RATE,
        )
        for n in (9, 12)
    )
    return model, batch, meta


def build(**options):
    return methods.build("mc", Task(9, NUM_CLASSES), **options)


def outer_after_a_real_step(model, batch, meta, omega, epsilon, learning_rate):
    """The outer loss after an optimizer has moved the last layer."""
    model = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.head.parameters(), lr=learning_rate)
    F.cross_entropy(model(batch.inputs), smoothed_labels(batch.labels, omega, epsilon)).backward()
    optimizer.step()
    with torch.no_grad():
        logits = model(meta.inputs)
        return F.cross_entropy(logits, meta.labels) + 0.5 * dece(logits, meta.labels)


@pytest.mark.parametrize(
    "options", [{}, {"virtual_rate": 0.7}], ids=["the current rate", "a fixed rate"]
)
def test_slopes_equal_finite_differences(options):
    model, batch, meta = problem()
    batch = replace(batch, learning_rate=0.02 if options else 0.7)
    method = build(**options).double()
    method.omega += torch.rand(NUM_CLASSES, NUM_CLASSES, dtype=torch.float64)
    method.epsilon += torch.tensor([0.05, 0.1, 0.3], dtype=torch.float64)
    features = model.features(batch.inputs).detach()
    slopes = method.slopes(
        model, replace(batch, meta=meta), features, model.head(features).detach()
    )
    small = 1e-6
    for number, slope in enumerate(slopes):
        for entry in range(slope.numel()):
            values = []
            for sign in (1, -1):
                smoothing = [method.omega.clone(), method.epsilon.clone()]
                smoothing[number].view(-1)[entry] += sign * small
                values.append(
                    outer_after_a_real_step(model, batch, meta, *smoothing, learning_rate=0.7)
                )
            estimate = (values[0] - values[1]) / (2 * small)
            torch.testing.assert_close(slope.view(-1)[entry], estimate, rtol=1e-4, atol=1e-8)
    assert slopes[1].abs().min() > 1e-6
    assert slopes[0].diagonal().abs().max() == 0


def test_the_virtual_step_is_sgd_s():
    model, batch, _ = problem()
    # as in the original, rows need not sum to 1
    soft = torch.rand(9, NUM_CLASSES, dtype=torch.float64)
    features = model.features(batch.inputs).detach()
    weight, bias = virtual_head(model.head, features, model.head(features).detach(), soft, 0.7)
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.7)
    F.cross_entropy(model.head(features), soft).backward()
    optimizer.step()
    torch.testing.assert_close(weight, model.head.weight.detach())
    torch.testing.assert_close(bias, model.head.bias.detach())


def test_smoothing_is_clamped(monkeypatch):
    model, batch, meta = problem(torch.float32)
    for sign, omega, epsilon in ((1.0, 0.0, 0.0), (-1.0, 0.6, 0.5)):
        method = build(meta_rate=0.5)
        method.omega += 0.1
        method.epsilon += 0.1
        slopes = [torch.full_like(part, sign) for part in (method.omega, method.epsilon)]
        monkeypatch.setattr(method, "slopes", lambda *_, slopes=slopes: slopes)
        method(model, replace(batch, meta=meta))
        torch.testing.assert_close(method.omega, torch.full_like(method.omega, omega))
        torch.testing.assert_close(method.epsilon, torch.full_like(method.epsilon, epsilon))


def test_smoothing_moves_and_stays_in_bounds():
    model, batch, meta = problem(torch.float32)
    method = build(meta_rate=0.2)
    first = method(model, replace(batch, meta=meta)).loss
    # nothing to share out while epsilon is 0
    assert torch.equal(method.omega, torch.zeros_like(method.omega))
    assert first.isfinite()
    seen = []
    for _ in range(60):
        assert method(model, replace(batch, meta=meta)).loss.isfinite()
        seen.append(torch.cat([method.omega.flatten(), method.epsilon]))
    values = torch.stack(seen)
    assert values.min() == 0
    assert values[:, -NUM_CLASSES:].max() == 0.5
    assert values[:, :-NUM_CLASSES].max() > 0
    assert method.omega.diagonal().abs().max() == 0


def test_the_model_learns_from_the_smoothed_labels():
    model, batch, meta = problem(torch.float32)
    method = build(meta_rate=0.1)
    for _ in range(3):
        loss = method(model, replace(batch, meta=meta)).loss
    soft = smoothed_labels(batch.labels, method.omega, method.epsilon)
    assert torch.equal(loss, F.cross_entropy(model(batch.inputs), soft))
    assert not torch.equal(loss, F.cross_entropy(model(batch.inputs), batch.labels))


def test_adam_is_torch_s():
    value = torch.randn(4, dtype=torch.float64)
    parameter = torch.nn.Parameter(value.clone())
    theirs, ours = torch.optim.Adam([parameter], lr=0.01), Adam(value, 0.01)
    for _ in range(20):
        parameter.grad = torch.randn(4, dtype=torch.float64)
        theirs.step()
        value += ours(parameter.grad)
        torch.testing.assert_close(value, parameter.detach())


def test_a_step_without_a_meta_batch_is_refused():
    model, batch, _ = problem(torch.float32)
    with pytest.raises(ValueError, match="meta_share"):
        build()(model, batch)


def test_a_step_without_a_learning_rate_is_refused():
    model, batch, meta = problem(torch.float32)
    with pytest.raises(ValueError, match=r"learning_rate.*virtual_rate"):
        build()(model, replace(batch, meta=meta, learning_rate=None))
    assert build(virtual_rate=0.1)(
        model, replace(batch, meta=meta, learning_rate=None)
    ).loss.isfinite()


def test_the_virtual_step_sees_the_features_that_dropout_left():
    model, batch, _ = problem()
    head = DropoutLinear(5, NUM_CLASSES, dropout=0.5).double()
    features = model.features(batch.inputs).detach()
    torch.manual_seed(1)
    seen, logits = last_layer(head, features)
    assert 0 < (seen == 0).sum() < seen.numel()
    torch.manual_seed(1)
    assert torch.equal(logits, head(features))
    soft = smoothed_labels(
        batch.labels, torch.zeros(NUM_CLASSES, NUM_CLASSES), torch.zeros(NUM_CLASSES)
    ).double()
    weight, bias = virtual_head(head, seen, logits.detach(), soft, 0.7)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.7)
    F.cross_entropy(logits, batch.labels).backward()
    optimizer.step()
    torch.testing.assert_close(weight, head.weight.detach())
    torch.testing.assert_close(bias, head.bias.detach())


def test_training_tells_the_rate_of_its_schedule(tmp_path, monkeypatch):
    told = []
    slopes = MetaCalibration.slopes
    monkeypatch.setattr(
        MetaCalibration,
        "slopes",
        lambda own, *args: told.append(args[1].learning_rate) or slopes(own, *args),
    )
    settings = Optimization(2, 64, learning_rate=0.4, halve_every=1)
    parts = Part("digits"), Part("mlp", width=4), Part("mc")
    train(Experiment(*parts, num_train=200, optimization=settings), tmp_path, accelerator="cpu")
    assert set(told) == {0.4, 0.2}
    assert told == sorted(told, reverse=True)


def test_the_meta_pass_leaves_no_gradient():
    model, batch, meta = problem(torch.float32)
    method = build()
    method(model, replace(batch, meta=meta))
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not method.omega.requires_grad
