"""`socrates evaluate | list | show`: what runs hold, and what there is to choose from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table

from .shared import RunFolder, command_of, console

if TYPE_CHECKING:
    from socrates.records import Evaluation


@dataclass
class Evaluate:
    """Compute every metric of a run from its saved logits: no data, no model."""

    run: RunFolder
    """A run directory."""
    epoch: int | None = None
    """A kept epoch, instead of the last."""


@dataclass
class List:
    """Show the data sets, models and methods with their options and defaults."""


@dataclass
class Show:
    """Show a run: what was asked for, how far it came, its results, and the command that repeats it."""

    run: RunFolder
    """A run directory."""


def run_evaluate(options: Evaluate, _: dict[str, str]) -> None:
    """`socrates evaluate`."""
    from socrates.engine.evaluate import evaluate
    from socrates.records import Run

    run = Run(options.run)
    evaluation = evaluate(run, options.epoch)
    path = run.save_evaluation(evaluation)
    console.print(evaluation_table(evaluation))
    aside = "" if path.name == "evaluation.json" else " (evaluation.json stays that of the last kept epoch)"
    console.print(f"written: {path}{aside}", highlight=False, soft_wrap=True)


def evaluation_table(evaluation: Evaluation) -> Table:
    """The test metrics of each scaler and reading, narrow enough for any terminal."""
    from socrates.report.vocabulary import METRICS

    title = f"test set, epoch {evaluation.epoch}, {evaluation.num_bins} bins; Acc to CW-ECE in %"
    table = Table(title=title, box=None, padding=(0, 2, 0, 0))
    for column in ("scaling", "reading"):
        table.add_column(column, no_wrap=True)
    for metric in METRICS.values():
        table.add_column(metric.short, justify="right", no_wrap=True)
    for scaler, splits in evaluation.results.items():
        for reading in splits["test"]:
            values = evaluation.values(scaler, "test", reading)
            cells = [f"{metric.factor * values[name]:{metric.form}}" for name, metric in METRICS.items()]
            table.add_row(scaler, reading, *cells)
    return table


def run_list(_: List, __: dict[str, str]) -> None:
    """`socrates list`."""
    from socrates import data, methods, models
    from socrates.names import first_line

    table = Table(title="data sets")
    table.add_column("name", no_wrap=True)
    table.add_column("what")
    for name, entry in data.DATASETS.items():
        table.add_row(name, entry.description)
    for name, loader in data.BY_PATH.items():
        table.add_row(name, first_line(loader))
    console.print(table)
    console.print(
        "every data set takes image_size, the side that images are resized to, and augment=True", highlight=False
    )
    packages = (("models", models, models.MODELS), ("methods", methods, methods.METHODS))
    for title, package, entries in packages:
        table = Table(title=title)
        table.add_column("name", overflow="fold", min_width=12)
        table.add_column("options and defaults", overflow="fold", min_width=25)
        table.add_column("what")
        for name, make in entries.items():
            table.add_row(name, ", ".join(f"{k}={v}" for k, v in package.options(name).items()), first_line(make))
        console.print(table)


def run_show(options: Show, _: dict[str, str]) -> None:
    """`socrates show`."""
    from socrates.records import Run

    run = Run(options.run)
    experiment, records = run.experiment, run.epochs()
    state = "finished" if run.finished else f"stopped after epoch {len(records)} of {experiment.optimization.epochs}"
    console.print(f"[bold]{run.directory}[/]: {state}", highlight=False)
    console.print_json(json.dumps(experiment.to_json()))
    if records:
        console.print(f"last epoch: {dict(records[-1].values)}")
    if (run.directory / "evaluation.json").is_file():
        console.print(evaluation_table(run.evaluation()))
    console.print(f"repeat it with:\n  {command_of(experiment)}", highlight=False, markup=False, soft_wrap=True)
