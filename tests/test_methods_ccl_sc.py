"""CCL-SC: what enters the queues, how the encoder follows, when the contrastive term counts,
loading."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import ccl_sc_reference
from socrates import methods, models
from socrates.contracts import Batch, Classifier, DropoutLinear, Task
from socrates.losses import contrastive_loss
from socrates.methods.ccl_sc import follow

TASK = Task(num_samples=40, num_classes=3)


def make(**options):
    torch.manual_seed(0)
    method = methods.build("ccl_sc", TASK, **{"start_epoch": 0, "queue_size": 10, **options})
    model = models.build("cnn", 3, (1, 8, 8), width=2)
    return model, method, torch.optim.SGD(model.parameters(), lr=0.5)


def make_batch(step, size=6):
    images = torch.randn(size, 1, 8, 8, generator=torch.Generator().manual_seed(step))
    return Batch(images, torch.arange(size) % 3, torch.arange(size))


def take_step(model, method, optimizer, step):
    optimizer.zero_grad()
    loss = method(model, make_batch(step)).loss
    loss.backward()
    optimizer.step()
    method.end_step(model)
    return loss.detach()


class Tanh(Classifier):
    """The model of the reference: features tanh(x A + a), logits f W + w."""

    def __init__(self, values):
        super().__init__()
        self.body = nn.Sequential(linear(values["A"], values["a"]), nn.Tanh())
        self.head = linear(values["W"], values["w"])

    def values(self):
        return {
            "A": self.body[0].weight.T,
            "a": self.body[0].bias,
            "W": self.head.weight.T,
            "w": self.head.bias,
        }


def linear(weight, bias):
    layer = nn.Linear(len(weight), len(bias)).double()
    layer.weight.data.copy_(torch.tensor(weight, dtype=torch.float64).T)
    layer.bias.data.copy_(torch.tensor(bias, dtype=torch.float64))
    return layer


def oldest_first(queue):
    """Classes and features as they were written, oldest first, without the empty slots."""
    keys, position = queue.read(), int(queue.position)
    order = [*range(position, queue.size), *range(position)]
    there = [slot for slot in order if keys.classes[slot] >= 0]
    return keys.classes[there].tolist(), keys.features[there]


def close(found, expected):
    torch.testing.assert_close(
        found.detach(), torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12
    )


def test_whole_steps_are_those_of_the_reference():
    golden = json.loads(ccl_sc_reference.GOLDEN.read_text())
    model = Tanh(golden["start"])
    task = Task(num_samples=6, num_classes=ccl_sc_reference.CLASSES)
    method = methods.build("ccl_sc", task, start_epoch=0, **golden["options"])
    optimizer = torch.optim.SGD(model.parameters(), lr=golden["rate"])
    method.start_epoch(0, model)
    method.double()
    for step, expected in enumerate(golden["steps"]):
        inputs = torch.tensor(golden["inputs"][step], dtype=torch.float64)
        loss = method(
            model, Batch(inputs, torch.tensor(golden["labels"][step]), torch.arange(len(inputs)))
        ).loss
        close(loss, expected["loss"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        method.end_step(model)
        for name in ("correct", "errors"):
            classes, features = oldest_first(getattr(method, name))
            assert classes == expected[name]["classes"]
            close(features, expected[name]["features"])
    for part, name in ((model, "end"), (method.encoder, "encoder")):
        for key, value in part.values().items():
            close(value, golden[name][key])
    # Neither an idle term nor membership by the model's own answers would pass.
    assert [step["acts"] for step in golden["steps"]].count(True) == 9
    assert sum(step["query_disagrees"] for step in golden["steps"]) > 20


def test_the_golden_values_are_what_the_reference_gives():
    golden = json.loads(ccl_sc_reference.GOLDEN.read_text())
    again = ccl_sc_reference.plain(ccl_sc_reference.run())
    assert again.keys() == golden.keys()
    for key in ("start", "end", "encoder"):
        for name, value in again[key].items():
            np.testing.assert_allclose(value, golden[key][name], rtol=1e-12, atol=1e-12)
    losses = [[step["loss"] for step in one["steps"]] for one in (again, golden)]
    np.testing.assert_allclose(*losses, rtol=1e-12)


class Dropping(Classifier):
    """All of its dropout is before the last layer."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 16))
        self.head = DropoutLinear(16, 3, dropout=0.5)


def test_queries_and_keys_are_features_before_dropout():
    torch.manual_seed(0)
    model, method = Dropping(), make(queue_size=6, weight=2.0)[1]
    method.start_epoch(0, model)
    for queue in (method.correct, method.errors):
        queue.enqueue(torch.randn(6, 16), torch.arange(6) % 3)
    batch, keys = make_batch(0), (method.correct.read(), method.errors.read())
    loss, logits = method(model, batch)
    features = model.body(batch.inputs)
    # they are dropped there
    assert not torch.allclose(logits, F.linear(features, model.head.weight, model.head.bias))
    contrast = contrastive_loss(
        features, batch.labels, logits.softmax(dim=1).max(dim=1).values, *keys
    )
    torch.testing.assert_close(loss, F.cross_entropy(logits, batch.labels) + 2.0 * contrast.mean())
    method.end_step(model)
    stored = torch.cat([queue.read().features for queue in (method.correct, method.errors)])
    for key in F.normalize(method.encoder.body(batch.inputs), dim=1):
        assert torch.isclose(stored, key).all(dim=1).sum() == 1


def test_the_encoder_answers_in_the_mode_of_the_model():
    model, method = Dropping(), make()[1]
    method.start_epoch(0, model.eval())
    model.train()
    model.body.eval()  # as where only the head learns
    method(model, make_batch(0))
    method.end_step(model)
    assert [part.training for part in method.encoder.modules()] == [
        part.training for part in model.modules()
    ]
    assert method.encoder.head.dropout.training
    assert not method.encoder.body[1].training


def test_keys_are_features_of_the_encoder_after_the_step():
    model, method, optimizer = make(momentum=0.9)
    method.start_epoch(0, model)
    batch = make_batch(0)
    take_step(model, method, optimizer, 0)
    encoder = copy.deepcopy(method.encoder)
    features = encoder.features(batch.inputs)
    keys, predicted = F.normalize(features, dim=1), encoder.head(features).argmax(dim=1)
    right = predicted == batch.labels
    assert 0 < right.sum() < len(right)
    for queue, kept, classes in (
        (method.correct, right, batch.labels),
        (method.errors, ~right, predicted),
    ):
        stored = queue.read()
        assert int(queue.position) == int(kept.sum())
        assert stored.classes.tolist() == [*classes[kept].tolist(), *[-1] * (10 - int(kept.sum()))]
        torch.testing.assert_close(stored.features[: int(kept.sum())], keys[kept])


def test_the_encoder_follows_with_momentum():
    model, method, optimizer = make(momentum=0.75)
    method.start_epoch(0, model)
    expected = {key: value.detach().clone() for key, value in model.named_parameters()}
    for step in range(3):
        take_step(model, method, optimizer, step)
        for key, value in model.named_parameters():
            expected[key] = 0.75 * expected[key] + 0.25 * value.detach()
    found = dict(method.encoder.named_parameters())
    assert found.keys() == expected.keys()
    assert "head.weight" in found
    for key in found:
        torch.testing.assert_close(found[key].detach(), expected[key])


def test_all_that_a_model_keeps_is_followed():
    model = nn.BatchNorm1d(2)
    encoder = copy.deepcopy(model)
    model(torch.randn(5, 2) + 3)
    before = model.running_mean.clone()
    follow(encoder, model, 0.75)
    torch.testing.assert_close(encoder.running_mean, 0.25 * before)
    assert encoder.num_batches_tracked == 1


def test_the_contrastive_term_counts_once_both_queues_are_full():
    model, method, optimizer = make(weight=2.0)
    method.start_epoch(0, model)
    seen = set()
    for step in range(30):
        batch = make_batch(step)
        full = bool(method.correct.full & method.errors.full)
        keys = method.correct.read(), method.errors.read()
        features = model.features(batch.inputs)
        logits = model.head(features)
        expected = F.cross_entropy(logits, batch.labels)
        if full:
            confidence = logits.softmax(dim=1).max(dim=1).values
            expected = (
                expected + 2.0 * contrastive_loss(features, batch.labels, confidence, *keys).mean()
            )
        torch.testing.assert_close(take_step(model, method, optimizer, step), expected.detach())
        seen.add(full)
    assert seen == {False, True}


@pytest.mark.parametrize("filled", ["correct", "errors"])
def test_one_full_queue_is_not_enough(filled):
    model, method, _ = make()
    method.start_epoch(0, model)
    for name, size in (("correct", 9), ("errors", 9), (filled, 1)):
        getattr(method, name).enqueue(torch.randn(size, 16), torch.arange(size) % 3)
    batch = make_batch(0)
    assert getattr(method, filled).full
    assert torch.equal(
        method(model, batch).loss, F.cross_entropy(model(batch.inputs), batch.labels)
    )
    for queue in (method.correct, method.errors):
        queue.enqueue(torch.randn(1, 16), torch.tensor([0]))
    assert method(model, batch).loss > F.cross_entropy(model(batch.inputs), batch.labels)


def test_the_encoder_is_copied_when_the_contrastive_phase_starts():
    model, method, optimizer = make(start_epoch=1)
    method.start_epoch(0, model)
    loss = method(model, make_batch(0)).loss
    assert torch.equal(loss, F.cross_entropy(model(make_batch(0).inputs), make_batch(0).labels))
    take_step(model, method, optimizer, 0)
    assert method.then.encoder is None
    method.start_epoch(1, model)
    copied = method.then.encoder
    assert torch.equal(copied.body[0][0].weight, model.body[0][0].weight)
    assert copied.body[0][0].weight is not model.body[0][0].weight
    assert not any(
        parameter.requires_grad or parameter.grad is not None for parameter in copied.parameters()
    )
    assert all(parameter.requires_grad for parameter in model.parameters())
    take_step(model, method, optimizer, 1)
    assert method.then.correct.position + method.then.errors.position == 6
    method.start_epoch(2, model)
    assert method.then.encoder is copied


def test_loading_without_an_encoder_says_what_to_do():
    model, method, _ = make()
    method.start_epoch(0, model)
    with pytest.raises(RuntimeError, match=r"encoder .*start_epoch\("):
        make()[1].load_state_dict(method.state_dict())


def test_a_step_before_the_epoch_says_what_to_do():
    model, method, optimizer = make()
    with pytest.raises(RuntimeError, match=r"queues .*start_epoch\("):
        take_step(model, method, optimizer, 0)


def test_of_a_batch_larger_than_the_queue_the_last_stay():
    model, method, optimizer = make(queue_size=4)
    method.start_epoch(0, model)
    for step in range(10):
        take_step(model, method, optimizer, step)
    assert method.correct.full
    model, method, optimizer = make(queue_size=1)
    method.start_epoch(0, model)
    batch = make_batch(0)
    take_step(model, method, optimizer, 0)
    predicted = copy.deepcopy(method.encoder)(batch.inputs).argmax(dim=1)
    assert method.correct.read().classes.tolist() == [
        int(batch.labels[predicted == batch.labels][-1])
    ]


def test_the_queues_tell_how_full_they_are():
    model, method, _ = make()
    method.start_epoch(0, model)
    method.correct.enqueue(torch.randn(10, 16), torch.arange(10) % 3)
    method.errors.enqueue(torch.randn(4, 16), torch.arange(4) % 3)
    assert float(method.diagnostics()["queue_fill"]) == pytest.approx(0.4)


def test_the_contrastive_phase_starts_half_way_by_default():
    assert methods.build("ccl_sc", TASK).first_whole_epoch == 150
    assert methods.build("ccl_sc", Task(40, 3, epochs=40)).first_whole_epoch == 20
