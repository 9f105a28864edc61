"""`socrates reproduce`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.markdown import Markdown
from rich.table import Table

from socrates.experiment import Experiment

from .shared import console
from .sweeps import parse_seeds

if TYPE_CHECKING:
    from socrates.paper.recipe_data import Wanted


@dataclass
class Reproduce:
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
    processes: int | None = None
    """Runs at once; as many as there are cores if not given."""
    device: str = "cpu"
    """A Lightning Fabric accelerator for every process: cpu, auto, cuda, mps."""
    out: Path = Path("runs/reproduce")
    """Where runs, tables and figures go, in a folder named after the scale."""
    data: Path | None = None
    """The data folder; SOCRATES_DATA, or a cache folder, if not given."""


def run_reproduce(options: Reproduce, _: dict[str, str]) -> None:
    """`socrates reproduce`."""
    from socrates import data
    from socrates.engine.studies.display import StudyDisplay
    from socrates.engine.studies.runs import StudyError, run_all
    from socrates.paper.recipes import find_recipes
    from socrates.paper.scales import LaptopScale, PaperScale
    from socrates.paper.write import write_recipes
    from socrates.report.write import NOTE

    recipes = find_recipes(options.names)
    data.factory(options.dataset)
    scale = PaperScale() if options.scale == "paper" else LaptopScale(options.dataset)
    seeds = parse_seeds(options.seeds) if options.seeds else None
    wanted = {name: recipe.wanted(options.setting, scale, seeds) for name, recipe in recipes.items()}
    flat = list(dict.fromkeys(run for columns in wanted.values() for run in all_runs(columns)))
    out = options.out / scale.name / (options.dataset if options.dataset != "digits" else "")
    if scale.note:
        console.print(f"[yellow]{scale.note}[/]")
    if options.dry_run:
        show_cost(flat, out / "runs")
        return
    if scale.note:
        (out / "runs").mkdir(parents=True, exist_ok=True)
        (out / "runs" / NOTE).write_text(f"{scale.note}\n")  # whatever reports these runs says so too
    failed: StudyError | None = None
    try:
        run_all(
            flat,
            out / "runs",
            data_root=options.data,
            processes=options.processes,
            accelerator=options.device,
            tell=StudyDisplay(console),
        )
    except StudyError as error:
        failed = error  # what is there is written all the same
    written, missing = write_recipes(recipes, wanted, scale, out / "runs", out)
    for name, paths in written.items():
        console.print(f"\n[bold]{recipes[name].number}[/], {recipes[name].what}:", highlight=False)
        for path in paths:
            if path.suffix == ".md" and console.is_terminal:
                console.print(Markdown(path.read_text()))
            console.print(f"  {path}", highlight=False, soft_wrap=True)
    if missing:
        console.print(f"[red]{len(missing)} of {len(flat)} runs are missing and left out[/]")
    if failed:
        raise failed
    console.print(f"\nlook at all of it: socrates report {out / 'runs'}", highlight=False, soft_wrap=True)


def all_runs(wanted: Wanted) -> list[Experiment]:
    """Every run that is asked for."""
    return [run for columns in wanted.values() for runs in columns.values() for run in runs]


def show_cost(experiments: list[Experiment], runs: Path) -> None:
    """A line for each kind of run, and the sum of what is missing."""
    from socrates.engine.studies.cost import cost
    from socrates.report.aggregate import method_label, setting_of

    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("setting", "method"):
        table.add_column(column, overflow="fold")
    for column in ("runs", "missing", "samples", "parameter-updates"):
        table.add_column(column, justify="right", no_wrap=True)
    missing = [run for run in experiments if not (runs / run.name / "finished.json").is_file()]
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
