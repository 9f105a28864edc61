"""Certificates of models that know seven of the ten digits, and meet the other three.

A part of benchmarks/certificates.py: how much a certificate with strangers answers, by confidence
alone, and by confidence and the novelty scores of socrates.novelty.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from socrates.abstention import certify
from socrates.arrays.open import Array
from socrates.novelty import DEFAULT, Samples, create

NOVELTY_SCORES = (DEFAULT, "mahalanobis+energy")


class Split(NamedTuple):
    """What a model says of digits: confidence, novelty by each score, whether it is right."""

    confidence: Array
    novelty: dict[str, Array]
    right: NDArray[np.bool_]
    digit: NDArray[np.int64]


class Networks(nn.Module):
    """Many small networks of two hidden layers, trained side by side."""

    def __init__(self, number: int, sizes: tuple[int, ...] = (64, 128, 128, 7)) -> None:
        super().__init__()
        pairs = list(itertools.pairwise(sizes))
        self.weights = nn.ParameterList(
            [(torch.rand(number, a, b) * 2 - 1) / math.sqrt(a) for a, b in pairs]
        )
        self.biases = nn.ParameterList(
            [(torch.rand(number, 1, b) * 2 - 1) / math.sqrt(a) for a, b in pairs]
        )

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return features and logits of rows (networks, N, 64)."""
        *hidden, last = zip(self.weights, self.biases, strict=True)
        for weight, bias in hidden:
            rows = torch.relu(rows @ weight + bias)
        return rows, rows @ last[0] + last[1]


def train_networks(images: Tensor, labels: Tensor, steps: int = 2000) -> Networks:
    """Train one network on each set of images (networks, N, 64) by one cycle of SGD."""
    torch.manual_seed(1)
    networks = Networks(len(images))
    parameters = list(networks.parameters())
    optimizer = torch.optim.SGD(parameters, 0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)
    for _ in range(steps):
        batch = torch.randint(0, images.shape[1], (len(images), 16))
        rows = images.gather(1, batch[:, :, None].expand(-1, -1, images.shape[2]))
        _, logits = networks(rows)
        losses = nn.functional.cross_entropy(
            logits.transpose(1, 2), labels.gather(1, batch), reduction="none"
        )
        optimizer.zero_grad()
        losses.mean(dim=1).sum().backward()
        squares = [(p.grad**2).flatten(1).sum(dim=1) for p in parameters if p.grad is not None]
        norm = torch.stack(squares).sum(dim=0).sqrt().clamp_min(1.0)
        for parameter in parameters:
            assert parameter.grad is not None
            parameter.grad /= norm[:, None, None]
        optimizer.step()
        schedule.step()
    return networks.eval()


def digits(repetitions: int) -> list[tuple[Split, Split]]:
    """Return known and strange digits as models see them that know seven of the ten digits."""
    from sklearn.datasets import load_digits

    data, numbers = load_digits(return_X_y=True)
    images = torch.tensor((data / 16 - 0.3053) / 0.3760, dtype=torch.float32)
    parts = [split_digits(numbers, seed) for seed in range(repetitions)]
    rows = torch.stack([images[train] for _, train, _, _, _ in parts])
    labels = torch.stack([torch.tensor(known[numbers[train]]) for known, train, _, _, _ in parts])
    networks = train_networks(rows, labels)
    results: list[tuple[Split, Split]] = []
    for place, (known, train, val, rest, strange) in enumerate(parts):
        with torch.no_grad():
            look = [
                [
                    output[place]
                    for output in networks(images[part][None].expand(len(parts), -1, -1))
                ]
                for part in (train, val, rest, strange)
            ]
        truths = [torch.tensor(known[numbers[part]]) for part in (train, val)]
        results.append(
            (
                judged(look, truths, 2, known[numbers[rest]], numbers[rest]),
                judged(look, truths, 3, known[numbers[strange]], numbers[strange]),
            )
        )
    return results


def split_digits(numbers: NDArray[np.int64], seed: int) -> tuple[NDArray[np.int64], ...]:
    """Return the class of each digit (-1: a stranger), and rows: 280 train, 210 val, the others."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(10)
    known = np.full(10, -1)
    known[order[:7]] = np.arange(7)
    rows = rng.permutation(np.flatnonzero(known[numbers] >= 0))
    strange = rng.permutation(np.flatnonzero(known[numbers] < 0))
    return known, rows[:280], rows[280:490], rows[490:], strange


def judged(
    look: list[list[Tensor]],
    truths: list[Tensor],
    part: int,
    labels: NDArray[np.int64],
    digit: NDArray[np.int64],
) -> Split:
    """Return what a model says of a part: its scaled confidence, and its novelty."""
    _, val_logits = look[1]
    features, logits = look[part]
    temperatures = torch.tensor(np.geomspace(0.3, 5, 60), dtype=torch.float32)
    losses = [nn.functional.cross_entropy(val_logits / t, truths[1]) for t in temperatures]
    scaled = (logits / temperatures[int(torch.stack(losses).argmin())]).softmax(dim=1)
    confidence, predicted = scaled.max(dim=1)
    samples = [Samples.of(*look[place], truths[place]) for place in (0, 1)]
    novelty = {
        name: create(name).fit(*samples).scores(features, logits).double().numpy()
        for name in NOVELTY_SCORES
    }
    return Split(confidence.double().numpy(), novelty, predicted.numpy() == labels, digit)


def gated(part: Split, score: str) -> Array:
    """Return the confidence, 0 where the novelty is above 0.95."""
    return part.confidence * (part.novelty[score] <= 0.95)


def both(part: Split, score: str) -> Array:
    """Return what a threshold t needs at least: a confidence of t, a novelty of at most 1 - t."""
    return np.minimum(part.confidence, 1 - part.novelty[score])


SCORES: dict[str, Callable[[Split], Array]] = {
    "confidence": lambda part: part.confidence,
    f"confidence, if novelty <= 0.95 ({DEFAULT})": lambda part: gated(part, DEFAULT),
} | {
    f"confidence >= t and novelty <= 1 - t ({name})": partial(both, score=name)
    for name in NOVELTY_SCORES
}


def table_of_digits(repetitions: int, draws: int, risk: float, delta: float) -> str:
    """Return how much certified models of digits answer, and how much of it is wrong."""
    models = digits(repetitions)
    lines = [
        "| risk 5%, 30% strangers in the stream | known answered | strangers answered | wrong | "
        "above 5% | no certificate |",
        "|---|---|---|---|---|---|",
    ]
    for name, score in SCORES.items():
        for like in (True, False):
            outcome = digits_outcome(models, score, draws, like, risk, delta)
            kind = "" if like else ", strangers of two other digits in the stream"
            cells = "".join(f" {100 * value:.1f}% |" for value in outcome)
            lines.append(f"| {name}{kind} |{cells}")
    return "\n".join(lines)


def digits_outcome(
    models: list[tuple[Split, Split]],
    score: Callable[[Split], Array],
    draws: int,
    like: bool,
    risk: float,
    delta: float,
) -> Array:
    """Return the means of: known answered, strangers answered, wrong, above risk, uncertified."""
    outcomes: list[tuple[float, ...]] = []
    for seed, (known, strange) in enumerate(models):
        rng = np.random.default_rng(seed)
        for _ in range(draws):
            rows = rng.permutation(len(known.right))
            others = rng.permutation(len(strange.digit))
            certifying = others[:90]
            stream = others[90:]
            if not like:  # one strange digit certifies, the others are met
                is_third = strange.digit[others] == rng.choice(np.unique(strange.digit))
                certifying = others[is_third][:90]
                stream = others[~is_third]
            outcomes.append(
                one_outcome(
                    score(known),
                    known.right,
                    score(strange),
                    rows,
                    certifying,
                    stream,
                    risk,
                    delta,
                )
            )
    return np.array(outcomes).mean(axis=0)


def one_outcome(
    scores: Array,
    right: NDArray[np.bool_],
    strange: Array,
    rows: NDArray[np.int64],
    certifying: NDArray[np.int64],
    stream: NDArray[np.int64],
    risk: float,
    delta: float,
) -> tuple[float, ...]:
    """Certify by 210 known rows and the strangers, and return what the others meet."""
    first = rows[:210]
    rest = rows[210:]
    try:
        threshold = certify(
            scores[first], right[first], risk, delta, strangers=strange[certifying], share=0.3
        ).threshold
    except ValueError:
        return 0.0, 0.0, 0.0, 0.0, 1.0
    answered = scores[rest] >= threshold
    of_strangers = float((strange[stream] >= threshold).mean())
    errors = float((answered & ~right[rest]).mean())
    wrong = (0.7 * errors + 0.3 * of_strangers) / max(
        0.7 * float(answered.mean()) + 0.3 * of_strangers, 1e-12
    )
    return float(answered.mean()), of_strangers, wrong, float(wrong > risk), 0.0
