"""CCL-SC's whole step in numpy, written from its formulas alone: `python tests/ccl_sc_reference.py`
writes its values.

The model has features tanh(x A + a) and logits f W + w; its gradient is worked out by hand. Each
step: the loss with the queues as they are, SGD, the encoder follows, and its features enter a queue
by its own answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parent / "golden" / "ccl_sc_step.json"
OPTIONS = {"weight": 0.7, "momentum": 0.8, "queue_size": 7, "temperature": 0.3}
RATE, STEPS, BATCH, INPUTS, FEATURES, CLASSES = 2.0, 12, 6, 4, 5, 3


def softmax(values):
    shifted = np.exp(values - values.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def answer(parameters, inputs):
    features = np.tanh(inputs @ parameters["A"] + parameters["a"])
    return features, features @ parameters["W"] + parameters["w"]


def contrast(features, labels, confidence, correct, errors, temperature):
    """The mean of the confidence-weighted InfoNCE over the batch, and its gradient in the
    features."""
    directions, value, gradient = unit(features), 0.0, np.zeros_like(features)
    for row, (query, label) in enumerate(zip(directions, labels, strict=True)):
        positives = [key for key, stands_for in correct if stands_for == label]
        negatives = [key for key, stands_for in errors if stands_for == label]
        slope = np.zeros_like(query)
        for positive in positives:
            scores = np.exp(np.array([query @ key for key in (positive, *negatives)]) / temperature)
            shares = scores / scores.sum()
            factor = confidence[row] / len(positives) / len(labels)
            value -= factor * np.log(shares[0])
            mixed = sum(
                share * key for share, key in zip(shares, (positive, *negatives), strict=True)
            )
            slope += factor * (mixed - positive) / temperature
        gradient[row] = (slope - query * (query @ slope)) / np.linalg.norm(features[row])
    return value, gradient


def gradients(parameters, inputs, labels, queues, options):
    features, logits = answer(parameters, inputs)
    p = softmax(logits)
    loss = -np.log(p[np.arange(len(labels)), labels]).mean()
    residual = (p - np.eye(CLASSES)[labels]) / len(labels)
    at_features = residual @ parameters["W"].T
    if all(len(queue) == options["queue_size"] for queue in queues.values()):
        keys = queues["correct"], queues["errors"]
        value, slope = contrast(features, labels, p.max(axis=1), *keys, options["temperature"])
        loss, at_features = (
            loss + options["weight"] * value,
            at_features + options["weight"] * slope,
        )
    before = at_features * (1 - features**2)
    moves = {
        "A": inputs.T @ before,
        "a": before.sum(axis=0),
        "W": features.T @ residual,
        "w": residual.sum(axis=0),
    }
    return loss, moves, logits.argmax(axis=1)


def run():
    generator = np.random.default_rng(7)
    shapes = {"A": (INPUTS, FEATURES), "a": (FEATURES,), "W": (FEATURES, CLASSES), "w": (CLASSES,)}
    parameters = {name: generator.normal(size=shape).round(3) for name, shape in shapes.items()}
    inputs = generator.normal(size=(STEPS, BATCH, INPUTS)).round(3)
    labels = generator.integers(CLASSES, size=(STEPS, BATCH))
    told = {
        "options": OPTIONS,
        "rate": RATE,
        "inputs": inputs,
        "labels": labels,
        "start": dict(parameters),
    }
    encoder, queues, steps = dict(parameters), {"correct": [], "errors": []}, []
    for batch, wanted in zip(inputs, labels, strict=True):
        acts = all(len(queue) == OPTIONS["queue_size"] for queue in queues.values())
        loss, moves, asked = gradients(parameters, batch, wanted, queues, OPTIONS)
        parameters = {name: value - RATE * moves[name] for name, value in parameters.items()}
        kept = OPTIONS["momentum"]
        encoder = {
            name: kept * value + (1 - kept) * parameters[name] for name, value in encoder.items()
        }
        features, logits = answer(encoder, batch)
        predicted = logits.argmax(axis=1)
        for key, label, stands_for in zip(unit(features), wanted, predicted, strict=True):
            queue = queues["correct" if stands_for == label else "errors"]
            queue.append((key, stands_for))
            del queue[: -OPTIONS["queue_size"]]
        steps.append(
            {
                "loss": loss,
                "acts": acts,
                "query_disagrees": int(((asked == wanted) != (predicted == wanted)).sum()),
                **{
                    name: {
                        "features": [key for key, _ in queue],
                        "classes": [int(one) for _, one in queue],
                    }
                    for name, queue in queues.items()
                },
            }
        )
    return {**told, "steps": steps, "end": parameters, "encoder": encoder}


def plain(value):
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(plain(run())) + "\n", encoding="utf-8")
