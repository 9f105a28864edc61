"""`socrates train | evaluate | show`: one run; `socrates list`: what there is to choose from."""

import math
import shlex
from dataclasses import replace
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from socrates import data, methods, models
from socrates.engine.evaluate import evaluate
from socrates.engine.events import to_all
from socrates.engine.launch import devices_and_nodes, follows
from socrates.engine.pace import pace
from socrates.engine.studies.display import RunDisplay, TensorBoard, describe
from socrates.engine.train import train
from socrates.experiment import Experiment
from socrates.names import first_line
from socrates.predictor import MODEL_FILE, read_file
from socrates.records import Evaluation, Run
from socrates.report.vocabulary import METRICS, READINGS, USUAL_READING, scaler_of

from .commands import Evaluate, List, Show, Train
from .options import command_of
from .output import console, show, table_of

LISTED = {"name": 12, "options and defaults": 25}  # columns and their least widths


def run_train(options: Train) -> None:
    """`socrates train`."""
    processes: dict[str, Any] = {"devices": options.devices, "num_nodes": options.num_nodes}
    if follows(**processes):
        return run_follower(options, processes)
    tell = to_all(RunDisplay(console), *([TensorBoard()] if options.log == "tensorboard" else []))
    place: dict[str, Any] = {"data_root": options.data, "accelerator": options.device, "start": options.start}
    options = options if options.minutes is None else in_minutes(options, options.minutes, place)
    kept: Any = "none" if options.no_keep_weights else options.keep_weights
    how = {"again": options.again, "keep_weights": kept, "estimate": True, "on_nan": options.on_nan, "tell": tell}
    run = train(options.named_experiment(options.seed), options.out, **place, **processes, **how)
    show_results(run)
    show(f"socrates show {shlex.quote(str(run.directory))}", "all of it: ")
    if (run.directory / MODEL_FILE).is_file():
        show(f"socrates predict {shlex.quote(str(run.directory))} IMAGES ...", "use it: ")
        show(f"socrates.load({str(run.directory)!r})", "in Python: ")
    elif kept != "none":
        show("it was trained without keeping its weights: --again trains it anew and keeps them")


def show_results(run: Run) -> None:
    """Accuracy and ECE on the test set, as trained and as the kept model answers, with the part that is chance."""
    evaluation, ways = run.evaluation(), {"as trained": ("none", USUAL_READING)}
    if (run.directory / MODEL_FILE).is_file():
        about = read_file(run.directory / MODEL_FILE)[0]
        if (about.scaler or "none") != "none":
            ways[f"after {scaler_of(about.scaler).long}"] = (about.scaler, about.reading or USUAL_READING)
    for words, (scaler, reading) in ways.items():
        accuracy, ece, chance = (
            100 * evaluation.value(scaler, "test", reading, name) for name in ("accuracy", "ece", "ece_floor")
        )
        floor = f"its floor, what a perfectly calibrated model measures: {chance:.2f} %"
        told = f"accuracy {accuracy:.2f} %, ECE {ece:.2f} % ({floor})"
        show(f"{told}, {words}", "test set: ")


def run_follower(options: Train, processes: dict[str, Any]) -> None:
    """The same in another process than the first of a run: what ends all of them, the first one tells."""
    place: dict[str, Any] = {"data_root": options.data, "accelerator": options.device, "start": options.start}
    try:
        train(
            options.named_experiment(options.seed),
            options.out,
            again=options.again,
            on_nan=options.on_nan,
            **place,
            **processes,
        )
    except (KeyboardInterrupt, SystemExit):
        return
    except ConnectionError:
        raise SystemExit(1) from None


def in_minutes(options: Train, minutes: float, place: dict[str, Any]) -> Train:
    """The same with the number of epochs that fits, or with that of a run of it that was stopped."""

    def made(epochs: int) -> Experiment:
        return replace(options, epochs=epochs).named_experiment(options.seed)

    if not 0 < minutes < math.inf:
        raise ValueError(f"--minutes must be more than 0, got {minutes}")
    if max(devices_and_nodes(options.devices, options.num_nodes)) > 1:
        raise ValueError("--minutes tries how fast one device is: with several of them, give --epochs")
    if options.epochs is not None:
        raise ValueError("--minutes says how many --epochs there are: give one of the two")
    for run, experiment in Run.of_these_parts(options.out, made(1)):
        epochs = experiment.optimization.epochs
        if not run.finished and experiment == made(epochs):
            show(f"going on with a stopped run: --epochs {epochs}")
            return replace(options, epochs=epochs)
    usual = options.named_experiment(options.seed)
    epochs = max(1, int(60 * minutes / pace(usual, **place)))
    show(f"{minutes:g} minutes: --epochs {epochs}")
    return replace(options, epochs=epochs)


def run_evaluate(options: Evaluate) -> None:
    """`socrates evaluate`."""
    run = Run(options.run)
    evaluation = evaluate(run, options.epoch)
    path = run.save_evaluation(evaluation)
    console.print(evaluation_table(evaluation))
    for reading in evaluation.results.get("none", {}).get("test", {}):
        values = evaluation.values("none", "test", reading)
        if "nll_calibration" in values:
            part = f"{values['nll_calibration']:.3f} of the NLL {values['nll']:.3f} is calibration"
            show(f"{part}, which temperature scaling takes away, the rest refinement", f"{reading}: ")
    aside = "" if path.name == "evaluation.json" else " (evaluation.json stays that of the chosen epoch)"
    show(f"written: {path}{aside}")


def evaluation_table(evaluation: Evaluation) -> Table:
    """The test metrics of each scaler, in a line for all readings that agree; narrow enough for any terminal."""
    title = f"test set, epoch {evaluation.epoch}, {evaluation.num_bins} bins; Acc to CW-ECE in %"
    several = evaluation.unknown_class
    heads = ("scaling", "reading") if several else ("scaling",)
    table = table_of(title, heads, tuple(metric.short for metric in METRICS.values()))
    names = {name: scaler_of(name) for name in evaluation.results}
    for scaler, splits in evaluation.results.items():
        lines: dict[tuple[str, ...], list[str]] = {}
        for reading in splits["test"]:
            values = evaluation.values(scaler, "test", reading)
            cells = tuple(f"{metric.factor * values[name]:{metric.form}}" for name, metric in METRICS.items())
            lines.setdefault(cells, []).append(reading)
        for cells, readings in lines.items():
            alike = "all four" if len(readings) == len(READINGS) else "\n".join(readings)
            table.add_row(names[scaler].short or "none", *([alike] if several else []), *cells)
    table.caption = ", ".join(f"{one.short}: {one.long}" for one in names.values() if one.short)
    return table


def run_list(_: List) -> None:
    """`socrates list`."""
    table = Table(Column("name", no_wrap=True), "what", title="data sets")
    found = {name: entry.description for name, entry in data.DATASETS.items()}
    for row in (found | {name: first_line(loader) for name, loader in data.BY_PATH.items()}).items():
        table.add_row(*row)
    console.print(table)
    console.print("every data set takes image_size, the side that images are resized to, and augment=True")
    console.print("digits also takes label_noise, the share of training labels that are wrong")
    for title, package, entries in (("models", models, models.MODELS), ("methods", methods, methods.METHODS)):
        heads = [Column(head, overflow="fold", min_width=width) for head, width in LISTED.items()]
        table = Table(*heads, "what", title=title)
        for name, make in entries.items():
            table.add_row(name, ", ".join(f"{k}={v}" for k, v in package.options(name).items()), first_line(make))
        console.print(table)


def run_show(options: Show) -> None:
    """`socrates show`."""
    run = Run(options.run)
    experiment = run.experiment
    records = run.epochs_until(experiment.optimization.epochs) if run.finished else run.epochs()
    state = f"finished on {run.finished_on}" if run.finished else "stopped"
    show(f": {state}, {len(records)} of {experiment.optimization.epochs} epochs", str(run.directory))
    console.print(experiment_table(experiment))
    if records:
        console.print(f"epoch {records[-1].epoch}: {describe(records[-1])}")
    if (run.directory / "evaluation.json").is_file():
        console.print()
        console.print(evaluation_table(run.evaluation()))
        console.print()
    if (run.directory / MODEL_FILE).is_file():
        about = read_file(run.directory / MODEL_FILE)[0]
        reading = f", reading {about.reading}" if about.reading else ""
        show(f"epoch {about.epoch}, scaler {about.scaler}{reading}; {about.certificate or 'no certificate'}", "model: ")
    show(command_of(experiment), "again: ")


def experiment_table(experiment: Experiment) -> Table:
    """What was asked for, in words: a line for each part, what was left empty left out."""
    table = Table.grid(Column(style="bold", no_wrap=True), "", padding=(0, 2, 0, 0))
    rest: dict[str, Any] = {}
    for name, value in experiment.to_json().items():
        if not isinstance(value, dict):
            rest[name] = value
        elif "options" in value:
            options = in_words(value["options"])
            table.add_row(name, Text(f"{value['name']}{': ' if options else ''}{options}"))
        else:
            table.add_row(name, Text(in_words(value)))
    table.add_row("run", Text(in_words(rest)))
    return table


def in_words(values: dict[str, Any]) -> str:
    """Names and values as a person lists them.

    >>> in_words({"batch_size": 64, "augment": True, "milestones": [], "start": ""})
    'batch size 64, augment yes'
    """
    told = {True: "yes", False: "no"}
    kept = {name: value for name, value in values.items() if value not in (None, "", [], ())}
    return ", ".join(
        f"{name.replace('_', ' ')} {told[value] if isinstance(value, bool) else value}" for name, value in kept.items()
    )
