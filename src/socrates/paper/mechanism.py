"""How far the paper's mechanism acted in each stand-in of the laptop scale, from the runs of Table 1.

`python -m socrates.paper.mechanism runs/reproduce/laptop/runs` prints the table of docs/fidelity.md.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from ..report.results import Results
from .recipe_data import gather
from .recipes import RECIPES
from .scales import LaptopScale
from .settings import SETTINGS

HEADS = ("stand-in for", "mean target", "mean p of unknown, validation", "unknown term's share of the loss")
QUEUES = "CCL-SC's queues full"


def markdown(runs: Path) -> str:
    """The table: means over the runs after the last epoch, and in how many runs both queues were full by then."""
    scale = LaptopScale()
    data, _ = gather(RECIPES["test"].wanted([], scale), scale, runs)
    lines = [[*HEADS, QUEUES], ["---"] * (1 + len(HEADS))]
    lines += [[SETTINGS[setting].title, *cells(groups)] for setting, groups in data.groups.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cells(groups: Mapping[str, Results]) -> list[str]:
    """What Socrates and CCL-SC recorded last, nothing where there are no runs of them."""
    ours, theirs = groups.get("Socrates"), groups.get("CCL-SC")
    target, unknown, share = (
        float(ours.curve(name)[:, -1].mean()) if ours and ours.curve(name).size else float("nan")
        for name in ("target", "confidence_unknown", "unknown_term")
    )
    fill = theirs.curve("queue_fill")[:, -1] if theirs and theirs.curve("queue_fill").size else []
    full = f"{sum(value == 1 for value in fill)} of {len(fill)} runs"
    return [f"{target:.2f}", f"{100 * unknown:.2f} %", f"{round(100 * share, 1) + 0.0:.1f} %", full]  # no -0.0


if __name__ == "__main__":
    print(markdown(Path(sys.argv[1])))
