"""CCL-SC: what enters the queues, how the encoder follows, when the contrastive term counts, loading."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from socrates import methods, models
from socrates.contracts import Batch, Task
from socrates.losses import contrastive_loss

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


def test_keys_are_features_of_the_encoder_after_the_step():
    model, method, optimizer = make(momentum=0.9)
    method.start_epoch(0, model)
    batch = make_batch(0)
    predicted = model(batch.inputs).argmax(dim=1)
    model, method, optimizer = make(momentum=0.9)
    method.start_epoch(0, model)
    take_step(model, method, optimizer, 0)
    keys = F.normalize(method.encoder.features(batch.inputs), dim=1)
    right = predicted == batch.labels
    assert 0 < right.sum() < len(right)
    for queue, kept, classes in ((method.correct, right, batch.labels), (method.errors, ~right, predicted)):
        stored = queue.read()
        assert int(queue.position) == int(kept.sum())
        assert stored.classes.tolist() == [*classes[kept].tolist(), *[-1] * (10 - int(kept.sum()))]
        torch.testing.assert_close(stored.features[: int(kept.sum())], keys[kept])


def test_the_encoder_follows_with_momentum():
    model, method, optimizer = make(momentum=0.75)
    method.start_epoch(0, model)
    expected = {key: value.clone() for key, value in model.state_dict().items() if not key.startswith("head")}
    for step in range(3):
        take_step(model, method, optimizer, step)
        for key, value in model.state_dict().items():
            if not key.startswith("head"):
                floating = value.is_floating_point()
                expected[key] = 0.75 * expected[key] + 0.25 * value if floating else value.clone()
    found = method.encoder.state_dict()
    assert found.keys() == expected.keys()
    for key in found:
        torch.testing.assert_close(found[key], expected[key])
    assert found["body.0.1.num_batches_tracked"] == 3
    assert not method.train().encoder.training


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
            expected = expected + 2.0 * contrastive_loss(features, batch.labels, confidence, *keys).mean()
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
    assert torch.equal(method(model, batch).loss, F.cross_entropy(model(batch.inputs), batch.labels))
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
    assert not any(parameter.requires_grad or parameter.grad is not None for parameter in copied.parameters())
    assert all(parameter.requires_grad for parameter in model.parameters())
    take_step(model, method, optimizer, 1)
    assert method.then.correct.position + method.then.errors.position == 6
    method.start_epoch(2, model)
    assert method.then.encoder is copied


def test_loading_without_an_encoder_says_what_to_do():
    model, method, _ = make()
    method.start_epoch(0, model)
    with pytest.raises(RuntimeError, match=r"call start_epoch\(epoch, model\) before load_state_dict"):
        make()[1].load_state_dict(method.state_dict())


def test_a_step_before_the_epoch_says_what_to_do():
    model, method, optimizer = make()
    with pytest.raises(RuntimeError, match=r"call start_epoch\(epoch, model\) before the first step"):
        take_step(model, method, optimizer, 0)


def test_of_a_batch_larger_than_the_queue_the_last_stay():
    model, method, optimizer = make(queue_size=4)
    method.start_epoch(0, model)
    for step in range(10):
        take_step(model, method, optimizer, step)
    assert method.correct.full
    small = make(queue_size=1)
    small[1].start_epoch(0, small[0])
    batch = make_batch(0)
    predicted = small[0](batch.inputs).argmax(dim=1)
    small = make(queue_size=1)
    small[1].start_epoch(0, small[0])
    take_step(*small, 0)
    assert small[1].correct.read().classes.tolist() == [int(batch.labels[predicted == batch.labels][-1])]


def test_the_queues_tell_how_full_they_are():
    model, method, _ = make()
    method.start_epoch(0, model)
    method.correct.enqueue(torch.randn(10, 16), torch.arange(10) % 3)
    method.errors.enqueue(torch.randn(4, 16), torch.arange(4) % 3)
    assert float(method.diagnostics()["queue_fill"]) == pytest.approx(0.4)


def test_the_contrastive_phase_starts_half_way_by_default():
    assert methods.build("ccl_sc", TASK).first_whole_epoch == 150
    assert methods.build("ccl_sc", Task(40, 3, epochs=40)).first_whole_epoch == 20
