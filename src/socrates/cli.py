"""The command line: `socrates train | evaluate | list | show | quickstart`."""

from __future__ import annotations

import os

# Before torch is imported: OpenMP threads that spin while they wait collapse when anything else uses the cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import dataclasses
import inspect
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

try:
    import tyro
    from rich.console import Console
    from rich.table import Table
except ImportError as error:
    sys.exit(f"the command line needs more than the library ({error}): pip install 'socrates-loss[train]'")

console = Console()
Positional = tyro.conf.Positional


@dataclass
class Train:
    """Train one run into its own directory; the same command again continues it, and does nothing once it is finished.

    Options of the method (--gamma 2 --alpha 0.99) and of the model (--width 16) are given by their names;
    `socrates list` shows them.
    """

    dataset: Positional[str]
    """A data set: see `socrates list`, or folder:PATH, or npz:PATH."""
    model: Positional[str]
    """An architecture, or module:attribute."""
    method: Positional[str]
    """How to train, or module:attribute."""
    seed: int = 1
    """Decides initialisation, order, augmentation and dropout; never the split."""
    epochs: int | None = None
    """Instead of the data set's usual number."""
    batch_size: int | None = None
    """Instead of the usual size."""
    learning_rate: float | None = None
    """Instead of the usual rate."""
    num_train: int | None = None
    """Take a stratified subset of the training data."""
    num_bins: int = 15
    """Bins of the calibration metrics; the paper's recipes use 10."""
    keep_every: int = 25
    """Logits of val and test are kept at these epochs, and at the last."""
    precision: str = "32-true"
    """A Lightning Fabric precision, such as bf16-mixed."""
    device: str = "auto"
    """A Lightning Fabric accelerator: auto, cpu, cuda, mps."""
    out: Path = Path("runs")
    """Where run directories go."""
    data: Path | None = None
    """The data folder; SOCRATES_DATA, or a cache folder, if not given."""
    log: Literal["none", "tensorboard"] = "none"
    """Also write curves for TensorBoard, into the run directory."""


@dataclass
class Evaluate:
    """Compute every metric of a run from its saved logits: no data, no model."""

    run: Positional[Path]
    """A run directory."""
    epoch: int | None = None
    """A kept epoch, instead of the last."""


@dataclass
class List:
    """Show the data sets, models and methods with their options and defaults."""


@dataclass
class Show:
    """Show a run: what was asked for, how far it came, its results, and the command that repeats it."""

    run: Positional[Path]
    """A run directory."""


@dataclass
class Quickstart:
    """Compare four losses on digits, in a minute: a table, what it means, and two pictures."""

    out: Path = Path("runs/quickstart")
    """Where runs and pictures go."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; errors that a user can mend are one line, without a traceback."""
    commands: dict[str, tuple[type, Callable[[Any, dict[str, str]], None]]] = {
        "train": (Train, run_train),
        "evaluate": (Evaluate, run_evaluate),
        "list": (List, run_list),
        "show": (Show, run_show),
        "quickstart": (Quickstart, run_quickstart),
    }
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] not in commands:
        known = "\n".join(
            f"  {name:12s}{(inspect.getdoc(kind) or '').splitlines()[0]}" for name, (kind, _) in commands.items()
        )
        asked_for_help = not words or words[0] in ("-h", "--help")
        console.print(
            f"usage: socrates COMMAND ...\n\n{known}\n\nsocrates COMMAND --help tells more."
            if asked_for_help
            else f"unknown command {words[0]!r}: choose from {', '.join(commands)}",
            highlight=False,
        )
        return 0 if asked_for_help else 2
    kind, action = commands[words[0]]
    try:
        options, rest = tyro.cli(kind, args=words[1:], prog=f"socrates {words[0]}", return_unknown_args=True)
        action(options, named_values(rest, allowed=kind is Train))
    except (ValueError, OSError, ImportError) as error:
        console.print(f"[bold red]error:[/] {error}", highlight=False)
        return 1
    except KeyboardInterrupt:
        console.print("stopped; the same command continues from the last checkpoint")
        return 130
    return 0


def named_values(words: Sequence[str], allowed: bool) -> dict[str, str]:
    """`--gamma 2 --alpha=0.9` as a dict; anything else that was left over is an error."""
    values: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or not allowed:
            raise ValueError(f"{word!r} was not expected here: see socrates COMMAND --help")
        name, _, value = word[2:].partition("=")
        if not value:
            if not rest:
                raise ValueError(f"{word} needs a value, such as {word} 2")
            value = rest.pop(0)
        values[name.replace("-", "_")] = value
    return values


def run_train(options: Train, extra: dict[str, str]) -> None:
    """`socrates train`."""
    from socrates.engine.progress import watcher_for
    from socrates.engine.train import train

    experiment = experiment_of(options, extra)
    train(
        experiment,
        options.out,
        data_root=options.data,
        accelerator=options.device,
        watcher=watcher_for(console, experiment, options.log),
    )


def experiment_of(options: Train, extra: dict[str, str]) -> Any:
    """The Experiment that a command line asks for; options go to the method if it knows them, else to the model."""
    from socrates import methods, models
    from socrates.experiment import Experiment, Part, usual_optimization

    takes = {"method": methods.options(options.method), "model": models.options(options.model)}
    given: dict[str, dict[str, Any]] = {"method": {}, "model": {}}
    for name, text in extra.items():
        owner = next((owner for owner, known in takes.items() if name in known), None)
        if owner is None:
            lines = [
                f"{getattr(options, owner)} takes {', '.join(known) or 'no options'}" for owner, known in takes.items()
            ]
            raise ValueError(f"--{name.replace('_', '-')} is unknown: {'; '.join(lines)}")
        given[owner][name] = typed(text, takes[owner][name], name)
    optimization = usual_optimization(options.dataset, options.model, options.method)
    changes = {"epochs": options.epochs, "batch_size": options.batch_size, "learning_rate": options.learning_rate}
    optimization = dataclasses.replace(
        optimization, **{key: value for key, value in changes.items() if value is not None}
    )
    return Experiment(
        Part(options.dataset),
        Part(options.model, **given["model"]),
        Part(options.method, **given["method"]),
        options.seed,
        options.num_train,
        options.num_bins,
        options.keep_every,
        options.precision,
        optimization,
    )


def typed(text: str, default: Any, name: str) -> Any:
    """A word of the command line in the type of the option's default."""
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise ValueError(f"--{name} must be true or false, got {text!r}")
        return text.lower() == "true"
    for kind in (int, float):
        if isinstance(default, kind):
            try:
                return kind(text)
            except ValueError:
                raise ValueError(f"--{name} must be a number like {default}, got {text!r}") from None
    return text


def run_evaluate(options: Evaluate, _: dict[str, str]) -> None:
    """`socrates evaluate`."""
    from socrates.engine.evaluate import evaluate
    from socrates.records import Run

    run = Run(options.run)
    evaluation = evaluate(run, options.epoch)
    run.save_evaluation(evaluation)
    console.print(evaluation_table(evaluation))
    console.print(f"written: {run.directory / 'evaluation.json'}", highlight=False)


def evaluation_table(evaluation: dict[str, Any]) -> Table:
    """The test metrics of each scaler and reading, narrow enough for any terminal."""
    percent = {"accuracy": "acc", "ece": "ECE", "ece_floor": "floor", "ada_ece": "AdaECE", "cw_ece": "CW-ECE"}
    plain = {"nll": "NLL", "brier": "Brier"}
    title = f"test set, epoch {evaluation['epoch']}, {evaluation['num_bins']} bins; acc to CW-ECE in %"
    table = Table(title=title, box=None, padding=(0, 2, 0, 0))
    for column in ("scaling", "reading"):
        table.add_column(column, no_wrap=True)
    for column in (*percent.values(), *plain.values()):
        table.add_column(column, justify="right", no_wrap=True)
    for scaler, splits in evaluation["results"].items():
        for reading, values in splits["test"].items():
            cells = [f"{100 * values[key]:.2f}" for key in percent] + [f"{values[key]:.3f}" for key in plain]
            table.add_row(scaler, reading, *cells)
    return table


def run_list(_: List, __: dict[str, str]) -> None:
    """`socrates list`."""
    from socrates import data, methods, models
    from socrates.names import first_line

    table = Table(title="data sets")
    table.add_column("name")
    table.add_column("what")
    for name, entry in data.DATASETS.items():
        table.add_row(name, entry.description)
    console.print(table)
    packages = (("models", models, models.MODELS), ("methods", methods, methods.METHODS))
    for title, package, entries in packages:
        table = Table(title=title)
        for column in ("name", "options and defaults", "what"):
            table.add_column(column)
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
        last = {key: value for key, value in records[-1].items() if value is not None}
        console.print(f"last epoch: {last}")
    if (run.directory / "evaluation.json").is_file():
        console.print(evaluation_table(run.evaluation()))
    console.print(f"repeat it with:\n  {command_of(experiment)}", highlight=False)


def command_of(experiment: Any) -> str:
    """The command line that trains this experiment."""
    settings = experiment.optimization
    words = ["socrates train", experiment.dataset.name, experiment.model.name, experiment.method.name]
    for part in (experiment.method, experiment.model):
        words += [f"--{key.replace('_', '-')} {value}" for key, value in part.options]
    words += [f"--seed {experiment.seed}", f"--epochs {settings.epochs}", f"--batch-size {settings.batch_size}"]
    words += [f"--learning-rate {settings.learning_rate}", f"--num-bins {experiment.num_bins}"]
    words += [f"--num-train {experiment.num_train}"] if experiment.num_train is not None else []
    words += [f"--keep-every {experiment.keep_every}", f"--precision {experiment.precision}"]
    return " ".join(words)


def run_quickstart(options: Quickstart, _: dict[str, str]) -> None:
    """`socrates quickstart`."""
    from socrates.quickstart import quickstart

    options.out.mkdir(parents=True, exist_ok=True)
    quickstart(options.out, console)


if __name__ == "__main__":
    sys.exit(main())
