"""`socrates reproduce`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.markdown import Markdown

from .options import ManyRuns, parse_seeds
from .output import console, show, table_of

if TYPE_CHECKING:
    from socrates.experiment import Experiment


@dataclass(kw_only=True)
class Reproduce(ManyRuns):
    """Make tables and figures of the paper: train the runs that are missing, then write them.

    Names: test, posthoc, hyperparameters, gamma, alpha, beta, ablation-vgg16, ablation-resnet110, validation (the nine
    tables); evolution, losses, pareto, transfer, reliability, evolution-grid, pareto-gamma-alpha, sat-unknown,
    pareto-beta, pareto-ablation, unknown, test-pareto, posthoc-pareto, transfer-test-pareto (the figures); or a number
    such as table1 or figure3; or tables, figures, all. The same command again continues.
    """

    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME ...")]
    """Tables and figures of the paper."""
    setting: tuple[str, ...] = ()
    """Settings such as cifar100-vgg16, instead of those the paper shows there."""
    scale: Literal["paper", "laptop"] = "laptop"
    """paper: its data, models and epochs. laptop: its methods, seeds and hyperparameter rules on little data with small
    models and few epochs, which is said on every output."""
    dataset: str = "digits"
    """What the laptop scale is trained on: digits, or 2,000 images of another data set."""
    seeds: str = ""
    """Such as 1-3, instead of the paper's."""
    dry_run: bool = False
    """Only list the runs and their cost."""
    out: Path = Path("runs/reproduce")
    """Where runs, tables and figures go, in a folder named after the scale."""


def run_reproduce(options: Reproduce) -> None:
    """`socrates reproduce`."""
    from socrates.engine.studies.display import StudyDisplay
    from socrates.paper.reproduce import plan

    made = plan(
        options.names,
        settings=options.setting,
        scale=options.scale,
        dataset=options.dataset,
        seeds=parse_seeds(options.seeds) if options.seeds else None,
        out=options.out,
    )
    if made.scale.note:
        console.print(f"[yellow]{made.scale.note}[/]")
    if options.dry_run:
        show_cost(made.runs, made.folder / "runs")
        return
    result = made.carry_out(StudyDisplay(console), **options.place)
    for name, paths in result.files.items():
        show(f", {made.recipes[name].what}:", f"\n{made.recipes[name].number}")
        for path in paths:
            if path.suffix == ".md" and console.is_terminal:
                console.print(Markdown(path.read_text()))
            show(f"  {path}")
    if result.num_missing:
        show("", f"{result.num_missing} of {len(made.runs)} runs are missing and left out", "red")
    if result.failed:
        raise result.failed
    show(f"\nlook at all of it: socrates report {made.folder / 'runs'}")


def show_cost(experiments: list[Experiment], runs: Path) -> None:
    """A line for each kind of run, and the sum of what is missing."""
    from socrates.engine.studies.cost import cost
    from socrates.engine.studies.runs import finished_run
    from socrates.report.aggregate import method_label, setting_of

    table = table_of("", ("setting", "method"), ("runs", "missing", "samples", "parameter-updates"))
    missing = [run for run in experiments if finished_run(runs, run) is None]
    kinds = {run: (setting_of(run).title, method_label(run)) for run in experiments}
    counts = Counter(kinds.values())
    for kind in dict.fromkeys(kinds.values()):
        costs = [cost(run) for run in missing if kinds[run] == kind]
        table.add_row(
            *kind,
            str(counts[kind]),
            str(len(costs)),
            scientific(sum(one.samples for one in costs)),
            scientific(sum(one.updates for one in costs)),
        )
    costs = [cost(run) for run in missing]
    samples, updates = sum(one.samples for one in costs), sum(one.updates for one in costs)
    table.add_row("all", "", str(len(experiments)), str(len(missing)), scientific(samples), scientific(updates))
    console.print(table)
    console.print(
        f"{len(missing)} of {len(experiments)} runs are missing: {samples:,} samples seen in training, "
        f"{updates:.3g} parameter-updates (parameters times steps)",
        highlight=False,
    )


def scientific(number: int) -> str:
    """Three digits and a power of ten.

    >>> scientific(13_500_000), scientific(0)
    ('1.35e+07', '0')
    """
    return f"{number:.3g}"
