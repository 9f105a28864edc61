"""How much worse or better than temperature scaling readout scaling is on fresh rows.

    python benchmarks/simulate_readout.py             # 200 fits per world and number of rows
    python benchmarks/simulate_readout.py --write     # and writes the table into docs/scalers.md
    python benchmarks/simulate_readout.py --fits 100 --rows 50 --worlds images

A fit draws rows from a world with 2, 10 or 100 classes in turn, and is judged on fresh rows of the
same world against temperature scaling of the known columns of the same rows. The program ends with
1 if a cell of the table misses a goal.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from socrates.scaling import ReadoutScaling, TemperatureScaling

DOCS = Path(__file__).parents[1] / "docs" / "scalers.md"
NUM_CLASSES = (2, 10, 100)
NUM_FRESH = 2000
# What each cell must keep: the mean and the 99% point of the excess NLL on fresh rows, and the
# largest factor between T and the temperature of the known columns.
MOST_ON_AVERAGE = 0.003
MOST_AT_99 = 0.05
LARGEST_FACTOR = 3.0
HEADS = ("world", "rows", "fits", "mean", "99% point", "largest", "factor of T", "ruled out")

Rows: TypeAlias = tuple[Tensor, Tensor]
World: TypeAlias = Callable[[int, int, torch.Generator], Rows]


def informative(num_rows: int, num_classes: int, generator: torch.Generator) -> Rows:
    """Return rows whose reading "spread" is calibrated: the unknown column says what it should."""
    logits = 2.5 * normal(num_rows, num_classes + 1, generator)
    probs = logits.softmax(dim=1)
    labels = drawn(probs[:, :-1] + probs[:, -1:] / num_classes, generator)
    logits[:, -1] += 1.0
    return 1.5 * logits, labels


def uninformative(num_rows: int, num_classes: int, generator: torch.Generator) -> Rows:
    """Return rows whose unknown column is noise."""
    logits = 2.5 * normal(num_rows, num_classes + 1, generator)
    return 1.5 * logits, drawn(logits[:, :-1].softmax(dim=1), generator)


def adversarial(num_rows: int, num_classes: int, generator: torch.Generator) -> Rows:
    """Return rows whose unknown column is high where the model is sure, and right."""
    known = 2.5 * normal(num_rows, num_classes, generator)
    margin = margins(known)
    unknown = known.amax(dim=1) - 4 + 2 * margin
    unknown += normal(num_rows, 1, generator).squeeze(1)
    return 1.5 * torch.cat([known, unknown[:, None]], dim=1), drawn(known.softmax(dim=1), generator)


def images(num_rows: int, num_classes: int, generator: torch.Generator) -> Rows:
    """Return rows of an accurate model whose unknown column repeats how close the call was."""
    known = normal(num_rows, num_classes, generator)
    first = torch.randint(0, num_classes, (num_rows,), generator=generator)
    lead = 8 * torch.rand(num_rows, generator=generator, dtype=torch.float64).sqrt()
    lead = lead + known.amax(dim=1) + math.log(num_classes)
    known[torch.arange(num_rows), first] = lead
    unknown = known.amax(dim=1) - 0.7 * margins(known) + normal(num_rows, 1, generator).squeeze(1)
    logits = 2 * torch.cat([known, unknown[:, None]], dim=1)
    return logits, drawn(known.softmax(dim=1), generator)


def flagged(num_rows: int, num_classes: int, generator: torch.Generator) -> Rows:
    """Return rows of an accurate model of whose mistakes the unknown column flags every second."""
    known = normal(num_rows, num_classes, generator)
    first = torch.randint(0, num_classes, (num_rows,), generator=generator)
    known[torch.arange(num_rows), first] += 6
    guesses = torch.rand(num_rows, generator=generator) < 0.1
    flat = torch.full_like(known, 1 / num_classes)
    labels = drawn(torch.where(guesses[:, None], flat, known.softmax(dim=1)), generator)
    seen = guesses & (torch.rand(num_rows, generator=generator) < 0.5)
    noise = normal(num_rows, 1, generator).squeeze(1)
    unknown = known.amax(dim=1) + noise + torch.where(seen, 2.0, -3.0)
    return 2 * torch.cat([known, unknown[:, None]], dim=1), labels


def extreme(num_rows: int, num_classes: int, generator: torch.Generator) -> Rows:
    """Return rows with heavy tails, from 1 to 100,000, that are calibrated at T = 100."""
    logits = normal(num_rows, num_classes + 1, generator)
    tails = normal(num_rows, 1, generator).abs().clamp(min=1e-3)
    logits = 2 * logits / tails
    return 100 * logits, drawn(logits[:, :-1].softmax(dim=1), generator)


def normal(num_rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Return independent normal numbers."""
    return torch.randn(num_rows, columns, generator=generator, dtype=torch.float64)


def margins(known: Tensor) -> Tensor:
    """Return by how much the largest logit of each row leads."""
    top = known.topk(2, dim=1).values
    return top[:, 0] - top[:, 1]


def drawn(probs: Tensor, generator: torch.Generator) -> Tensor:
    """Return a label for each row of probabilities."""
    return torch.multinomial(probs, 1, generator=generator).squeeze(1)


def separable(num_rows: int, num_classes: int, generator: torch.Generator) -> Rows:
    """Return rows of the world `images` with a label that has the largest known logit."""
    logits, _ = images(num_rows, num_classes, generator)
    return logits, logits[:, :-1].argmax(dim=1)


WORLDS: dict[str, World] = {
    "informative": informative,
    "flagged": flagged,
    "uninformative": uninformative,
    "adversarial": adversarial,
    "images": images,
    "extreme": extreme,
    "separable": separable,
}


class Cell(NamedTuple):
    """What many fits in one world do: excess NLL of each (fits,), factors of T, and shares."""

    excess: Tensor
    factor: float
    ruled_out: float

    @property
    def good(self) -> bool:
        """Return whether all goals are met."""
        return (
            float(self.excess.mean()) <= MOST_ON_AVERAGE
            and float(self.excess.quantile(0.99)) <= MOST_AT_99
            and self.factor <= LARGEST_FACTOR
        )

    def texts(self) -> list[str]:
        """Return the columns of the table from the number of fits on."""
        numbers = (self.excess.mean(), self.excess.quantile(0.99), self.excess.max())
        return [
            f"{len(self.excess):,}",
            *(f"{float(number) + 0.0:+.4f}" for number in numbers),
            f"{self.factor:.2f}",
            f"{100 * self.ruled_out:.0f}%",
        ]


def simulate(name: str, num_rows: int, seeds: range) -> Cell:
    """Fit both scalers once per seed, and compare them on fresh rows."""
    fresh_world = images if name == "separable" else WORLDS[name]
    fresh = {
        columns: fresh_world(NUM_FRESH, columns, torch.Generator().manual_seed(columns))
        for columns in NUM_CLASSES
    }
    excess: list[float] = []
    factors: list[float] = []
    num_ruled_out = 0
    for seed in seeds:
        num_classes = NUM_CLASSES[seed % len(NUM_CLASSES)]
        generator = torch.Generator().manual_seed(1_000_003 * num_rows + seed)
        logits, labels = WORLDS[name](num_rows, num_classes, generator)
        readout = ReadoutScaling().fit(logits, labels)
        temperature = TemperatureScaling().fit(logits[:, :-1], labels)
        new_logits, new_labels = fresh[num_classes]
        scaled = nll(readout.probs(new_logits), new_labels)
        excess.append(scaled - nll(temperature.probs(new_logits[:, :-1]), new_labels))
        ratio = float(readout.temperature / temperature.temperature)
        factors.append(max(ratio, 1 / ratio))
        unknown = readout(logits).softmax(dim=1)[:, -1]
        num_ruled_out += float(unknown.max()) < 1e-16
    return Cell(torch.tensor(excess), max(factors), num_ruled_out / len(seeds))


def together(cells: list[Cell]) -> Cell:
    """Return the cell of the fits of several cells of equal size."""
    return Cell(
        torch.cat([cell.excess for cell in cells]),
        max(cell.factor for cell in cells),
        sum(cell.ruled_out for cell in cells) / len(cells),
    )


def nll(probs: Tensor, labels: Tensor) -> float:
    """Return the mean NLL of rows, clipped as `metrics.nll` clips."""
    return -float(probs.gather(1, labels[:, None]).clamp(min=2**-52).log().mean())


def write(table: str, note: str) -> None:
    """Replace the table in docs/scalers.md."""
    begin = "<!-- simulated read-outs: begin -->"
    end = "<!-- simulated read-outs: end -->"
    block = f"{begin}\n{table}\n\n{note}\n{end}"
    page = DOCS.read_text(encoding="utf-8")
    page = re.sub(f"{begin}.*{end}", lambda _: block, page, flags=re.DOTALL)
    DOCS.write_text(page, encoding="utf-8")


def main() -> int:
    """Print the table, and return 1 if any goal was missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fits", type=int, default=200, help="fits per cell")
    parser.add_argument("--rows", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--worlds", nargs="+", choices=[*WORLDS], default=[*WORLDS])
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="write the table into docs/scalers.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    lines = [HEADS, ("---",) * len(HEADS)]
    good = True
    seeds = range(options.first_seed, options.first_seed + options.fits)
    for num_rows in options.rows:
        cells = {name: simulate(name, num_rows, seeds) for name in options.worlds}
        cells["all"] = together([*cells.values()])
        for name, cell in cells.items():
            good &= cell.good
            lines.append((name, f"{num_rows:,}", *cell.texts()))
            print("|", " | ".join(lines[-1]), "|", "" if cell.good else "missed", flush=True)
    if options.write:
        note = (
            f"Written by `python benchmarks/simulate_readout.py --fits {options.fits} --first-seed "
            f"{options.first_seed} --write`: NLL on {NUM_FRESH:,} fresh rows less that of "
            "temperature scaling."
        )
        write("\n".join(f"| {' | '.join(line)} |" for line in lines), note)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
