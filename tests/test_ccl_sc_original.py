"""CCL-SC against its original code: the queues are the same, and the loss differs by the two
departures that docs/fidelity.md names and by nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from socrates.losses.contrastive import KeyQueue, Keys, contrastive_loss

GOLDEN = json.loads(
    (Path(__file__).parent / "golden" / "ccl_sc_original.json").read_text(encoding="utf-8")
)
NAMES = ("correct", "errors")


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def keys_of(step, name):
    return Keys(tensor(step[name]["features"]), torch.tensor(step[name]["classes"]))


def test_six_steps_fill_the_queues_as_the_original_does():
    queues = {name: KeyQueue(GOLDEN["queue_size"], 5).double() for name in NAMES}
    wrapped = dict.fromkeys(NAMES, False)
    for step in GOLDEN["enqueued"]:
        predicted = tensor(step["logits"]).argmax(dim=1)
        correct = predicted == torch.tensor(step["labels"])
        for name, keep in (("correct", correct), ("errors", ~correct)):
            queues[name].enqueue(tensor(step["keys"]), predicted, keep=keep)
            ours, theirs = queues[name].read(), keys_of(step, name)
            assert torch.equal(ours.classes, theirs.classes)
            torch.testing.assert_close(ours.features, theirs.features, rtol=1e-12, atol=1e-14)
        wrapped["errors"] |= step["full"][0]
        wrapped["correct"] |= step["full"][1]
    assert all(wrapped.values())  # the oldest keys were overwritten in both


def released_from_ours(features, logits, labels, correct, errors, temperature):
    """The original's value from ours: two terms per pair of query and positive, and a factor.

    The original subtracts the largest similarity of each sum and does not add it back, and it does
    not divide the positive by the temperature.
    """
    confidence = logits.softmax(dim=1).amax(dim=1)
    ours = contrastive_loss(features, labels, confidence, correct, errors, temperature)
    queries = F.normalize(features, dim=1)
    total = ours.sum()
    for query, label, share in zip(queries, labels, confidence, strict=True):
        positives = correct.features[correct.classes == label] @ query
        negatives = errors.features[errors.classes == label] @ query
        for positive in positives:
            largest = torch.cat([positive[None], negatives]).max() / temperature
            change = positive / temperature - positive - largest
            total = total + share * change / len(positives)
    return total / len(labels) * temperature / GOLDEN["base_temperature"]


def test_the_loss_and_its_gradient_are_the_original_s_but_for_its_departures():
    features = tensor(GOLDEN["features"]).requires_grad_()
    last = GOLDEN["enqueued"][-1]
    value = released_from_ours(
        features,
        tensor(GOLDEN["logits"]),
        torch.tensor(GOLDEN["labels"]),
        keys_of(last, "correct"),
        keys_of(last, "errors"),
        GOLDEN["temperature"],
    )
    assert value.item() == pytest.approx(GOLDEN["loss"], rel=1e-12)
    value.backward()
    torch.testing.assert_close(features.grad, tensor(GOLDEN["gradient"]), rtol=1e-10, atol=1e-13)
