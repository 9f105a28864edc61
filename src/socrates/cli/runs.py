"""`socrates train | evaluate | show`: one run; `socrates list`: what there is to choose from."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from socrates import data, methods, models
from socrates.data.folder import listed_once
from socrates.engine.build import load_samples
from socrates.engine.display import RunDisplay, TensorBoard, describe
from socrates.engine.evaluate import evaluate
from socrates.engine.events import Tell, to_all, to_nobody
from socrates.engine.pace import measure_epoch_seconds
from socrates.engine.ranks import devices_and_nodes, follows
from socrates.engine.train import train
from socrates.experiment import Experiment
from socrates.files import check_output
from socrates.metrics.registry import study_metrics
from socrates.names import first_line
from socrates.predictor import MODEL_FILE, Weights, read_file
from socrates.prose import FIXED_SPACE, whole, wrapped
from socrates.records import Evaluation, Run
from socrates.report.tables import cell_of
from socrates.report.terminal import NamedTable
from socrates.report.vocabulary import READINGS, USUAL_READING, scaler_of

from .commands import Evaluate, List, Show, Train
from .output import console, show, table_of
from .repeat import command_of
from .strangers import show_strangers, show_training
from .waiting import FeatureDisplay, TimeHint

NAME_WIDTH = 14  # of `socrates list`: longer names have a line of their own
IN_USE = "▸ "  # before the name of the row that the kept model uses


def run_train(options: Train) -> None:
    """Carry out `socrates train`; a folder of images is listed once for all that it needs."""
    with listed_once():
        _run_train(options)


def _run_train(options: Train) -> None:
    if follows(options.devices, options.num_nodes):
        return run_follower(options)
    check_output(options.out, is_folder=True)
    if options.unknown_trains and max(devices_and_nodes(options.devices, options.num_nodes)) > 1:
        raise ValueError(
            "--unknown-trains also trains a model without, to compare: it takes one device"
        )
    for reason in options.choice.reasons:
        show(reason)
    curves = [TensorBoard()] if options.log == "tensorboard" else []
    tell = to_all(FeatureDisplay(console), RunDisplay(console), TimeHint(console), *curves)
    if options.minutes is not None:
        options = in_minutes(options, options.minutes)
    run = train_as_asked(options, tell)
    show_results(run)
    if options.unknown_trains:
        show("the same run without strangers in training:", "to compare: ")
        control = train_as_asked(replace(options, unknown_trains=False), tell)
        show_training(run, control, load_samples(run.experiment, options.data).unknown)
    directory = shlex.quote(str(run.directory))
    show(whole(f"socrates show {directory}"), "see all of it: ")
    if (run.directory / MODEL_FILE).is_file():
        megabytes = (run.directory / MODEL_FILE).stat().st_size / 1e6
        if models.is_backbone(run.experiment.model.name):
            show(f"{MODEL_FILE} holds the backbone, too: {megabytes:.1f} MB")
        show(whole(f"socrates predict {directory} IMAGES ..."), "use it: ")
        show(whole(f"socrates.load({str(run.directory)!r})"), "in Python: ")
    elif weights_of(options) != "none":
        show("it was trained without keeping its weights: --again trains it again and keeps them")


def show_results(run: Run) -> None:
    """Print accuracy and ECE on the test set, as trained and as the kept model answers."""
    evaluation = run.evaluation()
    ways = {"as trained": ("none", USUAL_READING)}
    if (run.directory / MODEL_FILE).is_file():
        about = read_file(run.directory / MODEL_FILE)[0]
        if (about.scaler or "none") != "none":
            ways[f"after {scaler_of(about.scaler).long}"] = (
                about.scaler,
                about.reading or USUAL_READING,
            )
    for words, (scaler, reading) in ways.items():
        accuracy, ece, chance = (
            100 * evaluation.value(scaler, "test", reading, name)
            for name in ("accuracy", "ece", "ece_floor")
        )
        floor = f"a perfectly calibrated model would measure {chance:.2f}%"
        show(f"accuracy {accuracy:.2f}%, ECE {ece:.2f}% ({floor})", f"test set, {words}: ")
    show_strangers(run, evaluation)


def train_as_asked(options: Train, tell: Tell) -> Run:
    """Train the run that the options name, in this process and those that it starts."""
    return train(
        options.named_experiment(options.seed),
        options.out,
        data_root=options.data,
        accelerator=options.device,
        again=options.again,
        keep_weights=weights_of(options),
        start=options.from_run,
        estimate=True,
        on_nan=options.on_nan,
        devices=options.devices,
        num_nodes=options.num_nodes,
        novelty=options.novelty,
        tell=tell,
    )


def weights_of(options: Train) -> Weights:
    """Return the precision in which the run keeps its model."""
    return "none" if options.no_keep_weights else options.keep_weights


def run_follower(options: Train) -> None:
    """Train in a process that is not the first of its run; the first one reports."""
    try:
        train_as_asked(options, to_nobody)
    except (KeyboardInterrupt, SystemExit):
        return
    except ConnectionError:
        raise SystemExit(1) from None


def in_minutes(options: Train, minutes: float) -> Train:
    """Return the options with the number of epochs that fits, or with that of a stopped run."""

    def with_epochs(epochs: int) -> Experiment:
        return replace(options, epochs=epochs).named_experiment(options.seed)

    if not 0 < minutes < math.inf:
        raise ValueError(f"--minutes must be more than 0, got {minutes}")
    if max(devices_and_nodes(options.devices, options.num_nodes)) > 1:
        raise ValueError(
            "--minutes measures the speed of one device: with several devices, pass --epochs"
        )
    if options.epochs is not None:
        raise ValueError("--minutes decides the number of --epochs: pass only one of the two")
    for run, experiment in Run.of_these_parts(options.out, with_epochs(1)):
        epochs = experiment.optimization.epochs
        if not run.finished and experiment == with_epochs(epochs):
            show(f"continuing a stopped run: --epochs {epochs}")
            return replace(options, epochs=epochs)
    usual = options.named_experiment(options.seed)
    if models.is_backbone(usual.model.name) and usual.optimization.backbone_factor == 0:
        show("features are computed once, however long that takes; the layer on them takes seconds")
        return options
    seconds = measure_epoch_seconds(
        usual, data_root=options.data, accelerator=options.device, start=options.from_run
    )
    epochs = max(1, int(60 * minutes / seconds))
    show(f"{minutes:g} minute{'s' * (minutes != 1)}: --epochs {epochs}")
    return replace(options, epochs=epochs)


def run_evaluate(options: Evaluate) -> None:
    """Carry out `socrates evaluate`."""
    run = Run(options.run)
    evaluation = evaluate(run, options.epoch)
    path = run.save_evaluation(evaluation)
    console.print(evaluation_table(evaluation))
    for reading in evaluation.results.get("none", {}).get("test", {}):
        values = evaluation.values("none", "test", reading)
        if "nll_calibration" in values:
            share = f"{values['nll_calibration']:.3f} of the NLL of {values['nll']:.3f}"
            words = (
                "is calibration error, which temperature scaling removes; the rest is refinement"
            )
            show(f"{share} {words}", f"{reading}: ")
    show_strangers(run, evaluation)
    aside = (
        ""
        if path.name == "evaluation.json"
        else " (evaluation.json stays that of the chosen epoch)"
    )
    show(f"written: {whole(path)}{aside}")


def evaluation_table(
    evaluation: Evaluation, in_use: tuple[str, str | None] | None = None
) -> NamedTable:
    """Return the test metrics of each scaler, one line for all readings that agree.

    A metric that did not exist when the run was evaluated is a dash. The row of the scaler and the
    reading that the kept model has `in_use` is bold, and marked.
    """
    metrics = study_metrics()
    percent = ", ".join(metric.symbol for metric in metrics.values() if metric.unit == "%")
    title = f"test set, epoch {evaluation.epoch}, {evaluation.num_bins} bins; {percent} in %"
    several = evaluation.unknown_class
    heads = ("scaling", "reading") if several else ("scaling",)
    symbols = tuple(metric.symbol for metric in metrics.values())
    table = table_of(title, heads, symbols)
    scalers = {name: scaler_of(name) for name in evaluation.results}
    for scaler, splits in evaluation.results.items():
        lines: dict[tuple[str, ...], list[str]] = {}
        for reading in splits["test"]:
            values = {name: evaluation.value(scaler, "test", reading, name) for name in metrics}
            cells = tuple(cell_of(metric, values[name]).text for name, metric in metrics.items())
            lines.setdefault(cells, []).append(reading)
        for cells, readings in lines.items():
            alike = "all four" if len(readings) == len(READINGS) else "\n".join(readings)
            used = in_use is not None and is_used(in_use, scaler, readings)
            name = (IN_USE if used else "  " if in_use else "") + (scalers[scaler].short or "none")
            words = [name, *([alike] if several else []), *cells]
            table.add_row(*words, style="bold" if used else "")
    explained = [f"{words.short}: {words.long}" for words in scalers.values() if words.short]
    table.caption = ", ".join([*([f"{IN_USE.strip()}: in use"] if in_use else []), *explained])
    return table


def is_used(in_use: tuple[str, str | None], scaler: str, readings: Sequence[str]) -> bool:
    """Return whether a row is that of the scaler and the reading in use."""
    used_scaler, used_reading = in_use
    return scaler == used_scaler and (used_reading or USUAL_READING) in readings


def run_list(_: List) -> None:
    """Carry out `socrates list`."""
    described = {name: entry.description for name, entry in data.DATASETS.items()}
    described |= {name: first_line(loader) for name, loader in data.BY_PATH.items()}
    show_entries("data sets", described)
    show(
        "every data set takes image_size, the side in pixels to resize images to, and augment=True"
    )
    show("digits also takes label_noise, the share of training labels that are wrong")
    for title, package, entries in (
        ("models", models, models.MODELS),
        ("methods", methods, methods.METHODS),
    ):
        console.print()
        described = {name: first_line(make) for name, make in entries.items()}
        options = {name: package.options(name) for name in entries}
        show_entries(title, described, options)


def show_entries(
    title: str, described: Mapping[str, str], options: Mapping[str, Mapping[str, Any]] | None = None
) -> None:
    """Print names with their descriptions and, in a line of their own, options with defaults.

    Descriptions begin in the same column; a longer name has a line of its own.
    """
    console.print(Text(title, "bold"))
    indent = (NAME_WIDTH + 4) * " "
    for name, words in described.items():
        defaults = (options or {}).get(name, {})
        pairs = ", ".join(whole(f"{option}={value}") for option, value in defaults.items())
        lines = f"{words}\noptions: {pairs}" if pairs else words
        text = wrapped(lines, max(20, console.width - len(indent))).replace(FIXED_SPACE, " ")
        head = f"  {name}".ljust(len(indent))
        if len(name) > NAME_WIDTH:
            head = f"  {name}\n{indent}"
        entry = Text(head + text.replace("\n", f"\n{indent}"))
        entry.stylize("bold", 0, len(head))
        console.print(entry, soft_wrap=True)


def run_show(options: Show) -> None:
    """Carry out `socrates show`."""
    run = Run(options.run)
    experiment = run.experiment
    records = run.epochs_until(experiment.optimization.epochs) if run.finished else run.epochs()
    state = f"finished on {run.finished_on}" if run.finished else "stopped"
    show(
        f": {state}, {len(records)} of {experiment.optimization.epochs} epochs",
        whole(run.directory),
    )
    console.print(experiment_table(experiment))
    if records:
        console.print(f"epoch {records[-1].epoch}: {describe(records[-1])}")
    kept = (run.directory / MODEL_FILE).is_file()
    about = read_file(run.directory / MODEL_FILE)[0] if kept else None
    if run.finished or (run.directory / "evaluation.json").is_file():
        in_use = (about.scaler or "none", about.reading) if about else None
        console.print()
        console.print(evaluation_table(run.evaluation(), in_use))
        console.print()
        show_strangers(run, run.evaluation())
    if about:
        reading = f", reading {about.reading}" if about.reading else ""
        show(
            f"epoch {about.epoch}, scaler {about.scaler}{reading}; "
            f"{about.certificate or 'no certificate'}",
            "model: ",
        )
    show(whole(command_of(experiment)), "repeat it: ")


def experiment_table(experiment: Experiment) -> Table:
    """Return the settings of an experiment as a table, one line per part."""
    columns = Column(style="bold", no_wrap=True), Column(overflow="fold")
    table = Table.grid(*columns, padding=(0, 2, 0, 0))
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
    """Return names and values as a list in words.

    >>> in_words({"batch_size": 64, "augment": True, "milestones": [], "start": ""})
    'batch size 64, augment yes'
    """
    yes_or_no = {True: "yes", False: "no"}
    kept = {name: value for name, value in values.items() if value not in (None, "", [], ())}
    return ", ".join(
        f"{name.replace('_', ' ')} {yes_or_no[value] if isinstance(value, bool) else value}"
        for name, value in kept.items()
    )
