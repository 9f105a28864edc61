"""How often the verdicts of reports are wrong, and how often they see what is there.

    python benchmarks/simulate.py            simulates all cells and writes docs/statistics.md
    python benchmarks/simulate.py --studies 50 --print

A simulated study has test rows that all methods and seeds share, so their errors are alike: a row
that is hard for one is hard for all. A method states confidences and is right less often than it
states by its gap, which varies from seed to seed. The rules were tuned with other random numbers
than those of the tables.
"""

import argparse
import math
import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import ndtr

from socrates.arrays.samples import Top
from socrates.experiment import Experiment, Part
from socrates.metrics import METRICS, ece, floor
from socrates.metrics.binning import bin_stats
from socrates.metrics.chance import excess
from socrates.records import Evaluation
from socrates.report.evidence import calibration_evidence, floor_evidence
from socrates.report.failures import failures_of
from socrates.report.statistics import Evidence, Family

PAGE = Path(__file__).parents[1] / "docs" / "statistics.md"
SEED = 2027_01_05
SHARED = 0.4  # of the variance of what decides whether an answer is right: by the row
BY_METHOD = 0.2  # by the row and the method
ALIKE = 0.6  # of the variance of confidences: by the row
SEEDS_VARY = 0.2  # standard deviation of the logarithm of a gap over seeds
ACCURACY_VARIES = 0.003  # standard deviation of the accuracy over seeds
LOWEST = 0.25  # confidence


@dataclass(frozen=True)
class Cell:
    """A kind of study: test rows, seeds, and the accuracy and true ECE of each method."""

    rows: int
    seeds: int
    accuracies: tuple[float, ...]
    gaps: tuple[float, ...]

    @property
    def words(self) -> list[str]:
        """Return the cells of a table that say what is simulated."""
        low, high = min(self.accuracies), max(self.accuracies)
        accuracy = f"{100 * low:.0f}%" if low == high else f"{100 * low:.0f} to {100 * high:.0f}%"
        gap = sorted({round(100 * gap, 1) for gap in self.gaps})
        true = " and ".join(f"{value:g}%" for value in gap)
        return [f"{self.rows:,}", str(len(self.gaps)), str(self.seeds), accuracy, true]


def equal(rows: int, methods: int, seeds: int, low: float, high: float, gap: float) -> Cell:
    """Return a cell without a true difference in calibration."""
    accuracies = tuple(np.linspace(low, high, methods).tolist())
    return Cell(rows, seeds, accuracies, (gap,) * methods)


NO_DIFFERENCE = [
    equal(300, 2, 2, 0.66, 0.83, 0.0),
    equal(300, 4, 3, 0.60, 0.95, 0.0),
    equal(300, 8, 5, 0.60, 0.95, 0.0),
    equal(300, 16, 3, 0.70, 0.90, 0.0),
    equal(1_000, 2, 5, 0.66, 0.83, 0.0),
    equal(1_000, 4, 3, 0.79, 0.90, 0.0),
    equal(1_000, 8, 3, 0.60, 0.95, 0.0),
    equal(1_000, 16, 3, 0.60, 0.95, 0.0),
    equal(3_000, 2, 10, 0.66, 0.83, 0.0),
    equal(10_000, 2, 3, 0.66, 0.83, 0.0),
    equal(10_000, 3, 2, 0.60, 0.95, 0.0),
    equal(360, 2, 2, 0.95, 0.95, 0.02),
    equal(360, 8, 2, 0.95, 0.95, 0.02),
    equal(300, 4, 5, 0.90, 0.90, 0.05),
    equal(300, 16, 3, 0.80, 0.80, 0.05),
    equal(1_000, 2, 3, 0.60, 0.60, 0.05),
    equal(1_000, 4, 2, 0.90, 0.90, 0.03),
    equal(1_000, 8, 5, 0.66, 0.83, 0.03),
    equal(600, 16, 5, 0.80, 0.80, 0.05),
    equal(3_000, 2, 10, 0.90, 0.90, 0.03),
    equal(2_000, 4, 5, 0.60, 0.90, 0.05),
    equal(2_000, 8, 3, 0.75, 0.75, 0.02),
    equal(5_000, 2, 5, 0.66, 0.83, 0.03),
    equal(5_000, 4, 3, 0.93, 0.93, 0.02),
    equal(10_000, 2, 3, 0.60, 0.90, 0.03),
    equal(10_000, 2, 3, 0.80, 0.80, 0.05),
]
DIFFERENCE = [
    Cell(1_000, 5, (0.9,) * 4, (0.01, 0.05, 0.05, 0.05)),
    Cell(5_000, 3, (0.9,) * 4, (0.01, 0.03, 0.03, 0.03)),
    Cell(5_000, 5, (0.9,) * 4, (0.01, 0.03, 0.03, 0.03)),
    Cell(5_000, 5, (0.75,) * 4, (0.01, 0.03, 0.03, 0.03)),
    Cell(10_000, 3, (0.75,) * 2, (0.01, 0.03)),
]
# Judged by ECE and floor alone, as validation data and other readings of the unknown class are.
BY_FLOOR = [
    equal(300, 2, 3, 0.66, 0.83, 0.0),
    equal(1_000, 4, 3, 0.79, 0.90, 0.0),
    equal(1_000, 2, 3, 0.60, 0.60, 0.05),
    Cell(1_000, 3, (0.9,) * 4, (0.01, 0.05, 0.05, 0.05)),
]
# Rows, seeds, accuracy, true gap as trained and after scaling.
SCALED = [
    (360, 5, 0.95, 0.0, 0.0),
    (1_000, 5, 0.90, 0.02, -0.02),
    (5_000, 3, 0.80, 0.02, -0.02),
    (360, 5, 0.95, 0.035, 0.0),
    (1_000, 5, 0.90, 0.03, 0.0),
    (5_000, 3, 0.80, 0.03, 0.01),
]
# Seeds, methods, standard deviation of the last training accuracy, points that one run loses.
FAILING = [
    (3, 1, 0.5, 0.0), (3, 4, 2.0, 0.0), (5, 4, 0.2, 0.0), (5, 4, 1.0, 0.0), (5, 4, 3.0, 0.0),
    (10, 4, 2.0, 0.0), (5, 4, 0.2, 10.0), (5, 4, 1.0, 10.0), (5, 4, 1.0, 26.0), (3, 4, 2.0, 26.0),
]  # fmt: skip


def predictions(cell: Cell, rng: np.random.Generator) -> list[list[Top]]:
    """Draw the predictions of every seed of every method."""
    hard = rng.standard_normal(cell.rows)
    luck = rng.standard_normal(cell.rows)
    methods: list[list[Top]] = []
    for accuracy, gap in zip(cell.accuracies, cell.gaps, strict=True):
        own_luck = rng.standard_normal(cell.rows)
        methods.append([])
        for _ in range(cell.seeds):
            varied = gap * math.exp(SEEDS_VARY * rng.standard_normal() - SEEDS_VARY**2 / 2)
            noise = rng.standard_normal(cell.rows)
            rank = ndtr(math.sqrt(ALIKE) * hard + math.sqrt(1 - ALIKE) * noise)
            mean = accuracy + gap + ACCURACY_VARIES * rng.standard_normal()
            power = (1 - LOWEST) / (1 - min(mean, 0.985)) - 1
            confidence = 1 - (1 - LOWEST) * rank**power
            score = math.sqrt(SHARED) * luck + math.sqrt(BY_METHOD) * own_luck
            score += math.sqrt(1 - SHARED - BY_METHOD) * rng.standard_normal(cell.rows)
            right = ndtr(score) < np.clip(confidence - varied, 0, 1)
            methods[-1].append(Top(confidence, right))
    return methods


def calibration(seeds: Sequence[Top]) -> Evidence:
    """Return what a report knows of the calibration of some seeds."""
    printed = {seed: 100 * bin_stats(top, 15).ece for seed, top in enumerate(seeds)}
    return calibration_evidence(printed, {seed: excess(top) for seed, top in enumerate(seeds)})


def calibration_by_floor(seeds: Sequence[Top]) -> Evidence:
    """Return what a report knows of the calibration of some seeds without their rows."""
    printed = {seed: 100 * ece(top) for seed, top in enumerate(seeds)}
    floors = {seed: 100 * float(floor(ece, top)) for seed, top in enumerate(seeds)}
    return floor_evidence(printed, floors)


def floor_verdicts(cell: Cell, studies: int, seed: int = SEED) -> tuple[float, float]:
    """Return how often some method is called worse, and how often one that is not."""
    rng = np.random.default_rng([seed, cell.rows, cell.seeds, len(cell.gaps), 1])
    some = false = 0
    for _ in range(studies):
        drawn = predictions(cell, rng)
        standings = Family([*map(calibration_by_floor, drawn)], METRICS["ece"]).standings()
        worse = {place for place, own in enumerate(standings) if own == "worse"}
        truly = {place for place, gap in enumerate(cell.gaps) if gap > min(cell.gaps)}
        some += bool(worse)
        false += bool(worse - truly)
    return some / studies, false / studies


def accuracy(seeds: Sequence[Top]) -> Evidence:
    """Return what a report knows of the accuracy of some seeds."""
    printed = {seed: 100 * float(top.correct.mean()) for seed, top in enumerate(seeds)}
    rows = {seed: 100 * (top.correct - top.correct.mean()) for seed, top in enumerate(seeds)}
    return Evidence(printed, printed, rows)


def verdicts(cell: Cell, studies: int, seed: int = SEED) -> dict[str, float]:
    """Return how often a simulated study has some verdict.

    They are: some method is worse calibrated, one alone is the best, all others are worse than the
    first, some method is less accurate.
    """
    rng = np.random.default_rng([seed, cell.rows, cell.seeds, len(cell.gaps)])
    counts = dict.fromkeys(("worse", "best", "winner", "less accurate"), 0)
    for _ in range(studies):
        drawn = predictions(cell, rng)
        standings = Family([*map(calibration, drawn)], METRICS["ece"]).standings()
        by_accuracy = Family([*map(accuracy, drawn)], METRICS["accuracy"]).standings()
        counts["worse"] += "worse" in standings
        counts["best"] += "best" in standings
        worse = {place for place, own in enumerate(standings) if own == "worse"}
        truly = {place for place, gap in enumerate(cell.gaps) if gap > min(cell.gaps)}
        counts["winner"] += bool(truly) and worse == truly
        counts["less accurate"] += "worse" in by_accuracy
    return {name: count / studies for name, count in counts.items()}


def scaling_verdicts(
    case: tuple[int, int, float, float, float], studies: int, seed: int = SEED
) -> tuple[float, float]:
    """Return how often scaling is called better and worse than no scaling of the same model."""
    rows, seeds, share, before, after = case
    rng = np.random.default_rng([seed, rows, seeds])
    better = worse = 0
    for _ in range(studies):
        (drawn,) = predictions(Cell(rows, seeds, (share,), (before,)), rng)
        scaled = [
            Top(np.clip(top.confidence - before + after, 0.01, 1.0), top.correct) for top in drawn
        ]
        family = Family([calibration(drawn), calibration(scaled)], METRICS["ece"])
        better += family.surely_worse(0, 1)
        worse += family.surely_worse(1, 0)
    return better / studies, worse / studies


NOT_EVALUATED = Evaluation(1, 15, False, {})


@dataclass(frozen=True)
class SimulatedRun:
    """A run with nothing but its training accuracy."""

    experiment: Experiment
    curves: dict[str, np.ndarray]
    evaluation: Evaluation = NOT_EVALUATED
    directory: Path = Path("run")
    collapsed: str | None = None


def failing(
    case: tuple[int, int, float, float], studies: int, seed: int = SEED
) -> tuple[float, float]:
    """Return how often a sound run is called failed, in studies, and how often a failed one is."""
    seeds, methods, spread, lost = case
    rng = np.random.default_rng([seed, seeds, methods])
    alarms = seen = 0
    for _ in range(studies):
        groups: dict[str, list[SimulatedRun]] = {}
        for method in range(methods):
            ends = 92 + spread * rng.standard_t(5, seeds)
            if method == 0:
                ends[0] -= lost
            groups[str(method)] = [
                SimulatedRun(
                    Experiment(Part("digits"), Part("mlp"), Part("ce"), seed=place),
                    {"epoch": np.arange(1, 2), "train_accuracy": np.array([min(end, 100) / 100])},
                )
                for place, end in enumerate(ends)
            ]
        named = [failure for own in failures_of(groups).values() for failure in own]
        truly = [failure for failure in named if lost and failure.label == "0" and not failure.seed]
        alarms += len(named) > len(truly)
        seen += bool(truly)
    return alarms / studies, seen / studies


def percent(share: float) -> str:
    """Return a share as the tables print it."""
    return f"{100 * share:.1f}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def tables(studies: int, processes: int = 2) -> dict[str, str]:
    """Return all tables of the page, by the name of their place in it."""
    about = ["rows", "methods", "seeds", "accuracy", "true ECE"]
    with ProcessPoolExecutor(processes) as pool:
        cells = [*NO_DIFFERENCE, *DIFFERENCE]
        results = [*pool.map(verdicts, cells, [studies] * len(cells))]
        scaled = [*pool.map(scaling_verdicts, SCALED, [studies] * len(SCALED))]
        failed = [*pool.map(failing, FAILING, [studies] * len(FAILING))]
        by_floor = [*pool.map(floor_verdicts, BY_FLOOR, [studies] * len(BY_FLOOR))]
    none: list[list[str]] = []
    some: list[list[str]] = []
    for cell, shares in zip(cells, results, strict=True):
        if cell in NO_DIFFERENCE:
            alike = len(set(cell.accuracies)) == 1
            accuracies = percent(shares["less accurate"]) if alike else "–"
            none.append(
                [*cell.words, percent(shares["worse"]), percent(shares["best"]), accuracies]
            )
        else:
            some.append([*cell.words, percent(shares["worse"]), percent(shares["winner"])])
    scaled_rows = [
        [
            f"{rows:,}",
            str(seeds),
            f"{100 * share:.0f}%",
            f"{100 * before:g}",
            f"{100 * after:g}",
            *map(percent, shares),
        ]
        for (rows, seeds, share, before, after), shares in zip(SCALED, scaled, strict=True)
    ]
    failed_rows = [
        [*(f"{value:g}" for value in case), percent(alarm), percent(seen) if case[3] else "–"]
        for case, (alarm, seen) in zip(FAILING, failed, strict=True)
    ]
    return {
        "no-difference": table(
            [*about, "some “worse”, %", "a sole winner, %", "some less accurate, %"], none
        ),
        "difference": table([*about, "some “worse”, %", "all of them, no other, %"], some),
        "scaled": table(
            ["rows", "seeds", "accuracy", "gap, %", "gap scaled, %", "“better”, %", "“worse”, %"],
            scaled_rows,
        ),
        "by-floor": floor_table(by_floor),
        "failed": table(
            ["seeds", "methods", "deviation", "one run loses", "false alarm, %", "failure seen, %"],
            failed_rows,
        ),
    }


def floor_table(shares: Sequence[tuple[float, float]]) -> str:
    """Return the table of verdicts by ECE and floor alone."""
    about = ["rows", "methods", "seeds", "accuracy", "true ECE"]
    rows = [[*cell.words, *map(percent, own)] for cell, own in zip(BY_FLOOR, shares, strict=True)]
    return table([*about, "some “worse”, %", "falsely, %"], rows)


def main() -> None:
    """Simulate, and write or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--print", action="store_true")
    options = parser.parse_args()
    made = tables(options.studies)
    text = PAGE.read_text()
    for name, content in made.items():
        if options.print:
            print(f"{name}\n{content}\n")
        place = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- end -->)", re.S)
        text = place.sub(lambda match, new=content: match[1] + new + match[2], text)
    if not options.print:
        text = re.sub(
            r"Each cell has [\d,]+ studies", f"Each cell has {options.studies:,} studies", text
        )
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
