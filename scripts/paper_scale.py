"""Estimate what the paper's own settings cost on GPUs: `python scripts/paper_scale.py --write`.

It prints two tables, or writes them into docs/paper-scale.md between their marks. Nothing is
trained, and no GPU is needed: GPU-hours are FLOPs, as torch counts them, divided by an assumed
speed, the share `--share` of a peak of `--peak` TFLOP/s.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from socrates.engine.studies.forecast import workload_of
from socrates.experiment import Experiment
from socrates.paper.reproduce import Plan, plan
from socrates.paper.settings import SETTINGS

PAGE = Path(__file__).parents[1] / "docs" / "paper-scale.md"
BEGIN = "<!-- written by scripts/paper_scale.py -->\n"
END = "<!-- end of what is written -->\n"
PEAK = 19.5  # TFLOP/s: NVIDIA's figure for an A100 in float32 without tensor cores
SHARE = 0.3  # of it that training reaches: an assumption


def gpu_hours(runs: Iterable[Experiment], speed: float) -> float:
    """Return the hours to train and evaluate runs one after the other, at a speed in FLOP/s."""
    workloads = map(workload_of, runs)
    flops = sum(work.training_flops + work.evaluation_flops for work in workloads)
    return flops / speed / 3600


def settings_table(reproduction: Plan, speed: float) -> list[str]:
    """Return a line per setting: the model, a run, Table 1, and the search of Table 3."""
    final = reproduction.wanted["test"]
    searched = reproduction.wanted["hyperparameters"]
    lines = [
        "| setting | parameters | forward, GFLOP per image | and back | images x epochs | "
        "hours per run of Socrates | Table 1: runs | GPU-hours | "
        "its search, Table 3: runs | GPU-hours |",
        "|---|" + "---:|" * 9,
    ]
    for name, setting in SETTINGS.items():
        run = final[name]["Socrates"][0]
        epochs = run.optimization.epochs
        work = workload_of(run)
        cells = [
            setting.title,
            f"{work.parameters / 1e6:.1f} M",
            f"{work.forward_flops / 1e9:.2f}",
            f"{work.step_flops / 1e9:.2f}",
            f"{work.samples // epochs:,} x {epochs}",
            hours(gpu_hours([run], speed)),
        ]
        for columns in (final[name], searched[name]):
            runs = [run for column in columns.values() for run in column]
            cells += [f"{len(runs):,}", hours(gpu_hours(runs, speed))]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def recipes_table(reproduction: Plan, speed: float) -> list[str]:
    """Return a line per table and figure, and one for all of them with and without the search."""
    lines = [
        "| table or figure | name | runs | GPU-hours | logits on the disk |",
        "|---|---|---:|---:|---:|",
    ]
    rows: dict[tuple[str, str], list[Experiment]] = {}
    for name, recipe in reproduction.recipes.items():
        rows[recipe.number, name] = reproduction.runs_of(name)
    others = [runs for (_, name), runs in rows.items() if name != "hyperparameters"]
    rows["all but Table 3", ""] = list(dict.fromkeys(run for runs in others for run in runs))
    rows["all", ""] = reproduction.runs
    for (number, name), runs in rows.items():
        gigabytes = sum(workload_of(run).kept_bytes() for run in runs) / 1e9
        time = hours(gpu_hours(runs, speed))
        lines.append(f"| {number} | {name} | {len(runs):,} | {time} | {gigabytes:.1f} GB |")
    return lines


def hours(value: float) -> str:
    """Return hours with two significant digits and no more than are known."""
    return f"{value:.1f}" if value < 9.95 else f"{float(f'{value:.2g}'):,.0f}"


def written(peak: float = PEAK, share: float = SHARE) -> str:
    """Return both tables, with what they assume."""
    assumption = (
        f"Assumed: {share:.0%} of {peak:g} TFLOP/s, that is {share * peak:.2f} TFLOP/s in "
        "float32, one run after the other on one GPU."
    )
    reproduction = plan(["all"], scale="paper")
    speed = share * peak * 1e12
    settings = settings_table(reproduction, speed)
    recipes = recipes_table(reproduction, speed)
    return "\n".join([assumption, "", *settings, "", *recipes, ""])


def main(words: Sequence[str] | None = None) -> None:
    """Print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--write", action="store_true", help="write the tables into docs/paper-scale.md"
    )
    parser.add_argument(
        "--peak",
        type=float,
        default=PEAK,
        help="peak TFLOP/s of a GPU (default: %(default)s, A100)",
    )
    parser.add_argument(
        "--share",
        type=float,
        default=SHARE,
        help="share of it that is reached (default: %(default)s)",
    )
    options = parser.parse_args(words)
    if not (options.peak > 0 and 0 < options.share <= 1):
        parser.error(
            f"--peak must be above 0 and --share in (0, 1], got {options.peak} and {options.share}"
        )
    tables = written(options.peak, options.share)
    if not options.write:
        print(tables, end="")
        return
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{tables}{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
