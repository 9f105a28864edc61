"""Show how far the paper's mechanism acted in each stand-in of the laptop scale.

`python scripts/mechanism_table.py runs/reproduce/laptop/runs` prints the table of docs/fidelity.md
from the runs of Table 1.
"""

import math
import sys
from collections.abc import Mapping
from pathlib import Path

from socrates.paper.recipe_data import gather
from socrates.paper.recipes import RECIPES
from socrates.paper.scales import LaptopScale
from socrates.paper.settings import SETTINGS
from socrates.report.results import Results

HEADS = (
    "stand-in for",
    "mean target",
    "mean p of unknown, validation",
    "unknown term's share of the loss",
    "CCL-SC's queues full",
)


def markdown(runs: Path) -> str:
    """Return the table: means over the runs after the last epoch, one line per setting."""
    scale = LaptopScale()
    data, _ = gather(RECIPES["test"].wanted([], scale), scale, runs)
    lines = [list(HEADS), ["---"] * len(HEADS)]
    for setting, groups in data.groups.items():
        lines.append([SETTINGS[setting].title, *cells(groups)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cells(groups: Mapping[str, Results]) -> list[str]:
    """Return what Socrates and CCL-SC recorded last; nan where no run recorded it."""
    target = mean_at_end(groups, "target")
    unknown = mean_at_end(groups, "confidence_unknown")
    share = round(100 * mean_at_end(groups, "unknown_term"), 1) + 0.0  # never -0.0
    fills = last_values(groups, "CCL-SC", "queue_fill")
    full = sum(fill == 1 for fill in fills)
    return [
        f"{target:.2f}",
        f"{100 * unknown:.2f}%",
        f"{share:.1f}%",
        f"{full} of {len(fills)} runs",
    ]


def mean_at_end(groups: Mapping[str, Results], curve: str) -> float:
    """Return the mean over Socrates' runs of the last value of a curve."""
    values = last_values(groups, "Socrates", curve)
    return sum(values) / len(values) if values else math.nan


def last_values(groups: Mapping[str, Results], method: str, curve: str) -> list[float]:
    """Return the last value of a curve in every run of a method."""
    if method not in groups or not groups[method].curve(curve).size:
        return []
    return groups[method].curve(curve)[:, -1].tolist()


if __name__ == "__main__":
    print(markdown(Path(sys.argv[1])))
