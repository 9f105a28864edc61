"""The rivals that remember or mix: CRL's history and RegMixup's mixtures, as methods."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from socrates import losses, methods
from socrates.contracts import Batch, Task

TASK = Task(num_samples=8, num_classes=3)


class Recorder(nn.Module):
    """A linear model that keeps the inputs that it saw."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.seen = []

    def forward(self, inputs):
        self.seen.append(inputs)
        return self.layer(inputs)


def a_batch(size=6):
    generator = torch.Generator().manual_seed(size)
    index = torch.randperm(8, generator=generator)[:size]
    return Batch(torch.randn(size, 4, generator=generator), index % 3, index)


def test_crl_counts_right_answers_by_index_and_ranks_by_them():
    torch.manual_seed(0)
    method, model, batch = methods.build("crl", TASK, weight=2.0), Recorder(), a_batch()
    expected = torch.zeros(8, dtype=torch.int32)
    for epoch in range(3):
        method.start_epoch(epoch, model)
        correctness = expected[batch.index] / max(epoch, 1)  # the unseen have the least, 0
        loss, logits = method(model, batch)
        torch.testing.assert_close(
            loss, losses.crl_loss(logits, batch.labels, correctness, 2.0).mean()
        )
        expected[batch.index] += (logits.argmax(dim=1) == batch.labels).int()
        assert torch.equal(method.history.count, expected)
    assert 0 < expected.sum() < 18
    torch.testing.assert_close(
        method.validation_loss(logits, batch.labels), F.cross_entropy(logits, batch.labels)
    )


def test_regmixup_trains_on_images_and_on_their_mixtures():
    torch.manual_seed(0)
    method, model, batch = methods.build("regmixup", TASK, weight=0.5), Recorder(), a_batch()
    torch.manual_seed(5)
    partners, share = losses.mixing.draw_mixture(6, 20.0)
    torch.manual_seed(5)
    loss, logits = method(model, batch)
    images, mixtures = model.seen
    assert images is batch.inputs
    torch.testing.assert_close(mixtures, share * images + (1 - share) * images[partners])
    expected = losses.regmixup_loss(
        logits, model.layer(mixtures), batch.labels, partners, share, 0.5
    )
    torch.testing.assert_close(loss, expected.mean())
    plain = methods.build("regmixup", TASK, weight=0.0)(model, batch).loss
    torch.testing.assert_close(plain, F.cross_entropy(logits, batch.labels))


def test_regmixup_mixes_the_whole_batch_in_each_process():
    """Two processes with a part each see together what one process sees."""
    model, batch = Recorder(), a_batch()
    mixtures = []
    for part in (slice(0, 4), slice(4, 6), slice(None)):
        own = batch.inputs[part]

        def gather(rows, own=own):
            return batch.inputs if rows is own else torch.zeros(6, 3)

        piece = dataclasses.replace(batch, inputs=own, gather=gather, part=part)

        def of_all(inputs):
            mixtures.append(inputs)
            return model.layer(torch.zeros(6, 4))

        torch.manual_seed(5)
        methods.build("regmixup", TASK)(of_all, piece)
    torch.testing.assert_close(torch.cat([mixtures[1], mixtures[3]]), mixtures[5])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [(torch.ones(6, 4).long(), "torch.int64"), ({"input_ids": torch.ones(6, 4)}, "dict")],
)
def test_regmixup_refuses_what_cannot_be_mixed(inputs, message):
    batch = dataclasses.replace(a_batch(), inputs=inputs)
    with pytest.raises(ValueError, match=f"one tensor of floats, got {message}"):
        methods.build("regmixup", TASK)(Recorder(), batch)
