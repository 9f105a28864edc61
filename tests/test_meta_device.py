"""A full step on torch's `meta` device, which raises where the host reads a value or devices mix:
what can be shown of a GPU without one."""

from __future__ import annotations

import contextlib
import dataclasses

import pytest
import torch

from socrates import methods, models
from socrates.contracts import Stream, Task
from socrates.data.augment import Transform
from socrates.data.resident import ResidentImages

NUM_SAMPLES, NUM_CLASSES, BATCH = 24, 3, 8
OPTIONS = {"ccl_sc": {"start_epoch": 0, "queue_size": 9}}
LEVELS = ((0.5,) * 3, (0.5,) * 3)
TRANSFORMS = {
    "crop and flip": Transform(*LEVELS, padding=4, flip=True),
    "rotation": Transform(*LEVELS, padding=4, degrees=15.0),
    "resized crop": Transform(*LEVELS, flip=True, size=24, scale=(0.05, 1.0)),
}


def batches(transform):
    images = torch.zeros(NUM_SAMPLES, 3, 16, 16, dtype=torch.uint8)
    split = ResidentImages(images, torch.arange(NUM_SAMPLES) % NUM_CLASSES, transform).to("meta")
    return split.batches(BATCH, torch.arange(NUM_SAMPLES), Stream(1, 0, "augmentation"))


@pytest.mark.parametrize("name", TRANSFORMS)
def test_augmentation_stays_on_its_device(name):
    transform = TRANSFORMS[name]
    side = transform.size or 16
    for batch in batches(transform):
        assert batch.inputs.is_meta
        assert batch.labels.is_meta
        assert batch.inputs.shape == (BATCH, 3, side, side)


@pytest.mark.parametrize("name", methods.METHODS)
def test_a_full_step_of_every_method_reads_nothing(name, monkeypatch):
    # meta has no autocast; entering it is all that is left out
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())
    method = methods.build(name, Task(NUM_SAMPLES, NUM_CLASSES), **OPTIONS.get(name, {})).to("meta")
    model = models.build("cnn", NUM_CLASSES + method.unknown_class, (3, 16, 16), width=2).to("meta")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    method.start_epoch(0, model)
    for batch in batches(TRANSFORMS["crop and flip"]):
        meta = batch if method.meta_share else None
        loss, logits = method(model, dataclasses.replace(batch, meta=meta, learning_rate=0.1))
        assert logits.shape == (BATCH, NUM_CLASSES + method.unknown_class)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        method.end_step(model)
    assert all(value.is_meta for value in method.diagnostics().values())


def test_the_device_would_notice():
    with pytest.raises((RuntimeError, NotImplementedError)):
        float(torch.zeros(3, device="meta").sum())
    with pytest.raises(RuntimeError):
        torch.zeros(3, device="meta")[torch.zeros(2, dtype=torch.int64)] + torch.zeros(2)
