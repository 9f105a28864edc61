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
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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


def main() -> None:
    from certificates_digits import table_of_digits

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    tables = {
        "digits": table_of_digits(20, 20, RISK, DELTA),
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
