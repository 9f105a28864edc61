"""Every method learns handwritten digits from 300 images, far above chance."""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits

from socrates import methods, models
from socrates.contracts import Batch, Stream, Task

OPTIONS = {
    "ccl_sc": {"start_epoch": 5, "queue_size": 60},
    "sat": {"start_epoch": 5},
    "gamblers": {"start_epoch": 5},
    "logit_norm": {"temperature": 0.3},  # of networks without batch norm and weight decay
}
NUM_TRAIN, EPOCHS, BATCH = 300, 25, 50


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    images = torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8) / 8 - 1
    return images[order], torch.tensor(labels)[order]


@pytest.mark.parametrize("name", list(methods.METHODS))
def test_learns_digits(digits, name):
    images, labels = digits
    torch.manual_seed(1)
    num_train = NUM_TRAIN - int(NUM_TRAIN * getattr(methods.METHODS[name], "meta_share", 0.0))
    method = methods.build(name, Task(num_train, 10), **OPTIONS.get(name, {}))
    model = models.build("mlp", 10 + method.unknown_class, (1, 8, 8), width=64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    meta = torch.arange(num_train, NUM_TRAIN)
    meta_batch = Batch(images[meta], labels[meta], meta) if method.meta_share else None
    for epoch in range(EPOCHS):
        method.start_epoch(epoch, model)
        for index in torch.randperm(num_train, generator=Stream(1, epoch).generator()).split(BATCH):
            optimizer.zero_grad()
            method(
                model, Batch(images[index], labels[index], index, meta_batch, 0.1)
            ).loss.backward()
            optimizer.step()
            method.end_step(model)
    with torch.no_grad():
        predicted = model(images[NUM_TRAIN:])[:, :10].argmax(dim=1)
    assert (predicted == labels[NUM_TRAIN:]).float().mean() > 0.7
