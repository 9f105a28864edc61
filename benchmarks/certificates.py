"""Certificates with strangers in the stream: how often they break, and how much they answer.

    python benchmarks/certificates.py            # print the tables, in about five minutes
    python benchmarks/certificates.py --write    # also put them into docs/models.md

Three tables, all at risk 5% and delta 0.1:

- worlds whose true shares of wrong answers are known: how often, in 2,000 draws of the certifying
  samples, the stream has more than 5% wrong answers, for each share of strangers from 0 to 50%;
- the exact level of the test of one threshold, in worlds at the limit of what is allowed;
- scikit-learn's digits: seven known digits, the other three are strangers, 210 + 90 certifying
  images, 30% strangers in the stream.
"""

from __future__ import annotations

import argparse
import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from socrates.abstention import Certificate, certify
from socrates.abstention.mixture import mixture_probability, weight_of_strangers

Array = NDArray[np.float64]
RISK, DELTA = 0.05, 0.1
ODDS = RISK / (1 - RISK)
DOCS = Path(__file__).parents[1] / "docs" / "models.md"
STREAMS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


@dataclass(frozen=True)
class World:
    """Scores of known samples are uniform. At threshold t, with u = 1 - t, a share `wrong(u)` of
    the known samples is answered wrongly, and a share `strange(u)` of the strangers is answered."""

    name: str
    wrong: Callable[[Array], Array]
    strange: Callable[[Array], Array]

    def risk(self, threshold: float, share: float) -> float:
        """Return the true share of wrong answers with this share of strangers in the stream."""
        u = np.array(1 - threshold)
        wrong = (1 - share) * float(self.wrong(u)) + share * float(self.strange(u))
        return wrong / ((1 - share) * float(u) + share * float(self.strange(u)))


def worlds(share: float) -> list[World]:
    """Return a world where some thresholds are allowed, and three where none is, by a hair.

    In those three the risk is just above 5% at every threshold, for the promised share: any
    certificate is a violation. They differ in who makes the errors.
    """
    limit = ODDS / (1 + ODDS) * (1 + 1e-9)
    weight = share / (1 - share)

    def at_the_limit(name: str, part: float) -> World:
        # wrong + weight * strange = ODDS * right, with this part of it by strangers
        wrong = limit * (1 - part) / (1 - part * limit)
        strange = ODDS * (1 - wrong) * part / weight * (1 + 1e-9)
        return World(name, lambda u: wrong * u, lambda u: np.minimum(1.0, strange * u))

    return [
        World("errors and strangers have low scores", lambda u: 0.05 * u**3, lambda u: u**12),
        at_the_limit("at the limit, errors by known samples", 0.0),
        at_the_limit("at the limit, half by strangers", 0.5),
        at_the_limit("at the limit, all by strangers", 1.0),
    ]


def draw(world: World, known: int, strangers: int, rng: np.random.Generator) -> tuple[Array, ...]:
    """Return scores of known samples, whether they are right, and scores of strangers."""
    u = rng.random(known)
    step = 1e-5
    density = (world.wrong(u + step) - world.wrong(u)) / step
    right = rng.random(known) >= density
    grid = np.linspace(0, 1, 20_001)
    reached = world.strange(grid)
    place = rng.random(strangers)
    # beyond what is ever answered, a stranger has the score 0
    far = np.interp(place, reached, grid, right=1.0)
    far[place >= reached[-1]] = 1.0
    return 1 - u, right, np.where(place >= reached[-1], 0.0, 1 - far)


def attempt(world: World, sizes: tuple[int, int], share: float, rng: np.random.Generator):
    """Return the certificate of one draw, or None if nothing is certified."""
    scores, right, others = draw(world, *sizes, rng)
    try:
        return certify(scores, right, RISK, DELTA, strangers=others, share=share)
    except ValueError:
        return None


def violations(
    world: World, sizes: tuple[int, int], share: float, draws: int, seed: int = 0
) -> tuple[list[float], float]:
    """Return how often each stream up to the share breaks the promise, and the mean coverage."""
    rng = np.random.default_rng(seed)
    made: list[Certificate | None] = [attempt(world, sizes, share, rng) for _ in range(draws)]
    thresholds = [certificate.threshold for certificate in made if certificate is not None]
    broken = [
        sum(world.risk(threshold, stream) > RISK for threshold in thresholds) / draws
        for stream in STREAMS
        if stream <= share
    ]
    return broken, sum(1 - threshold for threshold in thresholds) / draws


SIZES = ((210, 90), (1000, 60), (100, 300))


def table_of_violations(draws: int) -> str:
    """Return how often certificates break, by world, promised share and sizes."""
    head = "".join(f" {100 * stream:.0f}% |" for stream in STREAMS)
    lines = [
        f"| strangers promised, known + strangers | world | answered |{head}",
        "|---|---|---|" + "---|" * len(STREAMS),
    ]
    for share in (0.1, 0.3, 0.5):
        for sizes in SIZES:
            for world in worlds(share):
                broken, answered = violations(world, sizes, share, draws)
                cells = [f" {100 * part:.1f}% |" for part in broken]
                cells += [" |"] * (len(STREAMS) - len(cells))
                lines.append(
                    f"| {100 * share:.0f}%, {sizes[0]} + {sizes[1]} | {world.name} | "
                    f"{100 * answered:.1f}% |{''.join(cells)}"
                )
    return "\n".join(lines)


class Level(NamedTuple):
    """The largest probability with which a threshold passes that should not, and where."""

    probability: float
    right: float
    part: float


def exact_level(known: int, strangers: int, share: float, level: float) -> Level:
    """Return the largest probability, over worlds at the limit, that one test passes wrongly.

    The worlds are a grid of how often known samples are answered rightly, and of the part of the
    errors that strangers make. Every possible count is summed.
    """
    weight = weight_of_strangers(share, known, strangers)
    most_errors = int(min(known, ODDS * known + 1))
    most_strangers = int(min(strangers, ODDS * known / weight + 1))
    # the smallest number of right answers with which each pair of counts passes
    needed = np.full((most_errors + 1, most_strangers + 1), known + 1)
    for errors in range(most_errors + 1):
        for accepted in range(most_strangers + 1):
            needed[errors, accepted] = fewest_right(errors, accepted, known, weight, level)
    worst = Level(0.0, 0.0, 0.0)
    for right in np.linspace(0.1, 1.0, 19):
        for part in np.linspace(0, 1, 6):
            wrong = (1 - part) * ODDS * right
            strange = part * ODDS * right * (1 - share) / share
            if wrong + right <= 1 and strange <= 1:
                passed = pass_probability(needed, known, strangers, wrong, right, strange)
                worst = max(worst, Level(passed, float(right), float(part)))
    return worst


def fewest_right(errors: int, accepted: int, known: int, weight: float, level: float) -> int:
    """Return the smallest number of right answers that passes, known + 1 if none does."""
    low, high = 0, known - errors + 1
    while low < high:
        middle = (low + high) // 2
        if mixture_probability(errors, middle, accepted, weight, RISK) <= level:
            high = middle
        else:
            low = middle + 1
    return low if low <= known - errors else known + 1


def pass_probability(
    needed: NDArray[np.int64],
    known: int,
    strangers: int,
    wrong: float,
    right: float,
    strange: float,
) -> float:
    """Return the probability of all counts that pass."""
    of_errors = binomial(known, wrong)
    of_strangers = binomial(strangers, strange)
    total = 0.0
    for errors in range(needed.shape[0]):
        rest = known - errors
        of_right = binomial(rest, min(1.0, right / max(1 - wrong, 1e-300)))
        tails = np.concatenate([np.cumsum(of_right[::-1])[::-1], np.zeros(errors + 2)])
        total += of_errors[errors] * float(
            (of_strangers[: needed.shape[1]] * tails[needed[errors]]).sum()
        )
    return total


def binomial(number: int, probability: float) -> Array:
    """Return the probabilities of 0 to `number` successes."""
    k = np.arange(number + 1, dtype=np.float64)
    logs = np.concatenate([[0.0], np.cumsum(np.log((number - k[:-1]) / (k[:-1] + 1)))])
    with np.errstate(divide="ignore", invalid="ignore"):
        successes = np.where(k == 0, 0.0, k * np.log(probability))
        failures = np.where(k == number, 0.0, (number - k) * np.log1p(-probability))
    return np.exp(logs + successes + failures)


def table_of_levels() -> str:
    """Return the exact level of one test, in parts of the level it is meant to have."""
    lines = [
        "| known + strangers, promised | an answered stranger counts | level 10% | 2% | 0.5% |",
        "|---|---|---|---|---|",
    ]
    for known, strangers in ((210, 90), (300, 60), (100, 300)):
        for share in (0.02, 0.1, 0.3, 0.5):
            weight = weight_of_strangers(share, known, strangers)
            cells = "".join(
                f" {100 * exact_level(known, strangers, share, level).probability:.2f}% |"
                for level in (0.1, 0.02, 0.005)
            )
            lines.append(f"| {known} + {strangers}, {share:.0%} | {weight:.2f} errors |{cells}")
    return "\n".join(lines)


class Split(NamedTuple):
    """What a model says of known digits and of strangers: confidence, novelty, right or wrong."""

    confidence: Array
    novelty: Array
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
    (train_features, _), (val_features, val_logits) = look[:2]
    features, logits = look[part]
    temperatures = torch.tensor(np.geomspace(0.3, 5, 60), dtype=torch.float32)
    losses = [nn.functional.cross_entropy(val_logits / t, truths[1]) for t in temperatures]
    scaled = (logits / temperatures[int(torch.stack(losses).argmin())]).softmax(dim=1)
    confidence, predicted = scaled.max(dim=1)
    distance = mahalanobis(train_features, truths[0])

    def strangeness(rows: Tensor, outputs: Tensor) -> Tensor:
        total = torch.zeros(len(rows))
        for score, usual in (
            (distance(rows), distance(val_features)),
            (-outputs.logsumexp(dim=1), -val_logits.logsumexp(dim=1)),
        ):
            total += (score - usual.mean()) / usual.std()
        return total

    usual = strangeness(val_features, val_logits).sort().values
    rank = torch.searchsorted(usual, strangeness(features, logits))
    return Split(
        confidence.double().numpy(),
        rank.double().numpy() / (len(usual) + 1),
        predicted.numpy() == labels,
        digit,
    )


def mahalanobis(features: Tensor, labels: Tensor, shrinkage: float = 0.05):
    """Return the distance to the nearest class mean, as a function of features."""
    means = torch.stack([features[labels == label].mean(dim=0) for label in labels.unique()])
    residuals = features - means[labels]
    covariance = residuals.T @ residuals / len(residuals)
    usual = covariance.trace() / len(covariance)
    shrunk = (1 - shrinkage) * covariance + shrinkage * usual * torch.eye(len(covariance))
    precision = torch.linalg.inv(shrunk)

    def distance(rows: Tensor) -> Tensor:
        return torch.stack(
            [((rows - mean) @ precision * (rows - mean)).sum(dim=1) for mean in means]
        ).amin(dim=0)

    return distance


SCORES: dict[str, Callable[[Split], Array]] = {
    "confidence": lambda part: part.confidence,
    "confidence, if novelty <= 0.95": lambda part: part.confidence * (part.novelty <= 0.95),
    "confidence >= t and novelty <= 1 - t": lambda part: np.minimum(
        part.confidence, 1 - part.novelty
    ),
}


def table_of_digits(repetitions: int, draws: int) -> str:
    """Return how much certified models of digits answer, and how much of it is wrong."""
    models = digits(repetitions)
    lines = [
        "| risk 5%, 30% strangers in the stream | known answered | strangers answered | wrong | "
        "above 5% | no certificate |",
        "|---|---|---|---|---|---|",
    ]
    for name, score in SCORES.items():
        for like in (True, False):
            outcome = digits_outcome(models, score, draws, like)
            kind = "" if like else ", strangers of two other digits in the stream"
            cells = "".join(f" {100 * value:.1f}% |" for value in outcome)
            lines.append(f"| {name}{kind} |{cells}")
    return "\n".join(lines)


def digits_outcome(
    models: list[tuple[Split, Split]], score: Callable[[Split], Array], draws: int, like: bool
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
                one_outcome(score(known), known.right, score(strange), rows, certifying, stream)
            )
    return np.array(outcomes).mean(axis=0)


def one_outcome(
    scores: Array,
    right: NDArray[np.bool_],
    strange: Array,
    rows: NDArray[np.int64],
    certifying: NDArray[np.int64],
    stream: NDArray[np.int64],
) -> tuple[float, ...]:
    """Certify by 210 known rows and the strangers, and return what the others meet."""
    first = rows[:210]
    rest = rows[210:]
    try:
        threshold = certify(
            scores[first], right[first], RISK, DELTA, strangers=strange[certifying], share=0.3
        ).threshold
    except ValueError:
        return 0.0, 0.0, 0.0, 0.0, 1.0
    answered = scores[rest] >= threshold
    of_strangers = float((strange[stream] >= threshold).mean())
    errors = float((answered & ~right[rest]).mean())
    wrong = (0.7 * errors + 0.3 * of_strangers) / max(
        0.7 * float(answered.mean()) + 0.3 * of_strangers, 1e-12
    )
    return float(answered.mean()), of_strangers, wrong, float(wrong > RISK), 0.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    tables = {
        "digits": table_of_digits(20, 20),
        "levels": table_of_levels(),
        "violations": table_of_violations(options.draws),
    }
    text = DOCS.read_text(encoding="utf-8")
    for name, table in tables.items():
        print(table, end="\n\n")
        begin, end = (f"<!-- certificates {name}: {word} -->" for word in ("begin", "end"))
        text = re.sub(f"{begin}.*?{end}", f"{begin}\n{table}\n{end}", text, flags=re.DOTALL)
    if options.write:
        DOCS.write_text(text, encoding="utf-8")
        print(f"written: docs/{DOCS.name}")


if __name__ == "__main__":
    main()
