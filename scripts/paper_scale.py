"""What the paper's own settings cost on GPUs, from FLOPs that torch counts: `python scripts/paper_scale.py --write`.

Prints two tables, or writes them into docs/paper-scale.md between their marks. Nothing is trained, and no GPU is
needed: GPU-hours are FLOPs divided by an assumed speed, `--peak` TFLOP/s of which `--share` is reached.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from socrates.engine.studies.cost import cost, disk, evaluation_flops, flops, training_flops
from socrates.experiment import Experiment
from socrates.paper.reproduce import Plan, plan
from socrates.paper.settings import SETTINGS

PAGE = Path(__file__).parents[1] / "docs" / "paper-scale.md"
BEGIN, END = "<!-- written by scripts/paper_scale.py -->\n", "<!-- end of what is written -->\n"
PEAK = 19.5  # TFLOP/s: NVIDIA's figure for an A100 in float32 without tensor cores
SHARE = 0.3  # of it that training reaches: an assumption


def gpu_hours(runs: Iterable[Experiment], speed: float) -> float:
    """Hours of training and evaluating runs one after the other, at so many FLOP/s."""
    return sum(training_flops(run) + evaluation_flops(run) for run in runs) / speed / 3600


def settings_table(made: Plan, speed: float) -> list[str]:
    """A line for each setting: the model, a run, the 5 seeds of every method of Table 1, and the search of Table 3."""
    final, searched = made.wanted["test"], made.wanted["hyperparameters"]
    lines = [
        "| setting | parameters | forward, GFLOP an image | and back | images x epochs | hours a run of Socrates "
        "| Table 1: runs | GPU-hours | its search, Table 3: runs | GPU-hours |",
        "|---|" + "---:|" * 9,
    ]
    for name, setting in SETTINGS.items():
        one = final[name]["Socrates"][0]
        counted, size = flops(one), cost(one)
        cells = [setting.title, f"{size.parameters / 1e6:.1f} M", f"{counted.forward / 1e9:.2f}"]
        epochs = one.optimization.epochs
        cells += [f"{counted.both / 1e9:.2f}", f"{size.samples // epochs:,} x {epochs}", hours(gpu_hours([one], speed))]
        for columns in (final[name], searched[name]):
            runs = [run for column in columns.values() for run in column]
            cells += [f"{len(runs):,}", hours(gpu_hours(runs, speed))]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def recipes_table(made: Plan, speed: float) -> list[str]:
    """A line for each table and figure, and one for all of them with and without the search."""
    lines = ["| table or figure | name | runs | GPU-hours | logits on the disk |", "|---|---|---:|---:|---:|"]
    rows = {(recipe.number, name): made.runs_of(name) for name, recipe in made.recipes.items()}
    others = [runs for (_, name), runs in rows.items() if name != "hyperparameters"]
    rows["all but Table 3", ""] = list(dict.fromkeys(run for runs in others for run in runs))
    rows["all", ""] = made.runs
    for (number, name), runs in rows.items():
        kept = sum(disk(run).kept for run in runs) / 1e9
        lines.append(f"| {number} | {name} | {len(runs):,} | {hours(gpu_hours(runs, speed))} | {kept:.1f} GB |")
    return lines


def hours(value: float) -> str:
    """Hours with two significant digits and no more than are known."""
    return f"{value:.1f}" if value < 9.95 else f"{float(f'{value:.2g}'):,.0f}"


def written(peak: float = PEAK, share: float = SHARE) -> str:
    """Both tables, with what they assume."""
    assumed = (
        f"Assumed: {share:.0%} of {peak:g} TFLOP/s, that is {share * peak:.2f} TFLOP/s in float32, one run after the "
        f"other on one GPU."
    )
    made, speed = plan(["all"], scale="paper"), share * peak * 1e12
    return "\n".join([assumed, "", *settings_table(made, speed), "", *recipes_table(made, speed), ""])


def main(words: Sequence[str] | None = None) -> None:
    """Print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/paper-scale.md")
    parser.add_argument("--peak", type=float, default=PEAK, help="peak TFLOP/s of a GPU (default: %(default)s, A100)")
    parser.add_argument("--share", type=float, default=SHARE, help="share of it that is reached (default: %(default)s)")
    options = parser.parse_args(words)
    if not (options.peak > 0 and 0 < options.share <= 1):
        parser.error(f"--peak must be above 0 and --share in (0, 1], got {options.peak} and {options.share}")
    tables = written(options.peak, options.share)
    if not options.write:
        print(tables, end="")
        return
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{tables}{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
