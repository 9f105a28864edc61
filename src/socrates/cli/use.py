"""`socrates predict` and `socrates export`: what a trained model is for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from socrates.engine.predict import (
    ROW,
    FilesPredicted,
    Row,
    check_table,
    columns,
    find_images,
    predict_files,
    writing,
)
from socrates.files import check_output, clear_beside
from socrates.predictor import Predictor, load
from socrates.predictor.card import write_card
from socrates.predictor.certifying import NO_PROMISE
from socrates.predictor.export import SUFFIXES, export
from socrates.predictor.strangeness import UNLIKE, in_words
from socrates.prose import whole
from socrates.records import Run

from .certify import certify_and_keep
from .commands import Export, ModelOptions, Predict
from .output import console, errors, show, table_of

SHOWN = 20  # rows that the terminal shows, and files that could not be read
SOME_UNREADABLE = 3  # the exit status of predictions from which files are missing


def run_predict(options: Predict) -> None:
    """Carry out `socrates predict`."""
    if options.out is not None:
        check_table(options.out)
    files = find_images(options.images)
    predictor = loaded(options, options.device)
    if options.strange is not None:
        predictor.decline_above(options.strange)
    check_risk(predictor, options)
    rows: list[Row] = []

    def keep(more: Sequence[Row]) -> None:
        read = [row for row in more if row["error"] is None]
        rows.extend(read[: SHOWN - len(rows)])
        write(more)

    columns = (TextColumn("predicting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with (
        Progress(*columns, console=errors, transient=True) as bar,
        writing(options.out, predictor) as write,
    ):
        task = bar.add_task("", total=len(files))
        outcome = predict_files(
            predictor,
            files,
            keep,
            options.batch_size,
            lambda done: bar.update(task, completed=done),
        )
        if not outcome.images:  # nothing is written then
            show_unreadable(outcome, None)
            raise ValueError(f"none of {len(files)} files could be read: {kinds_of(outcome)}")
    if options.out is None:
        console.print(table(rows, predictor))
        if outcome.images > len(rows):
            show(f"{outcome.images - len(rows):,} more: --out predictions.csv writes all of them")
    show_unreadable(outcome, options.out)
    summary = f"{outcome.images:,} image{'s' * (outcome.images != 1)} predicted"
    if predictor.certificate or outcome.answered < outcome.images:
        share = outcome.answered / outcome.images
        summary += f", {outcome.answered:,} answered ({share:.1%})"
    if outcome.unreadable:
        summary += f", {len(outcome.unreadable):,} could not be read: {kinds_of(outcome)}"
    show(summary)
    show(predictor.certificate or NO_PROMISE, "certificate: ")
    if options.out is not None:
        show(f"written: {whole(options.out)}")
    if outcome.unreadable:
        raise SystemExit(SOME_UNREADABLE)


def show_unreadable(outcome: FilesPredicted, out: Path | None) -> None:
    """Name every file that could not be read; of many, a file that is written has the rest."""
    reasons = [*outcome.unreadable.values()]
    shown = reasons if out is None else reasons[:SHOWN]
    for reason in shown:
        show(reason, "not read: ", "yellow")
    if len(shown) < len(reasons):
        more = len(reasons) - len(shown)
        show(f"{more:,} more: the column error of {out} has all of them", "not read: ", "yellow")


def kinds_of(outcome: FilesPredicted) -> str:
    """Return how many files of each kind could not be read."""
    kinds = Counter(error.kind for error in outcome.unreadable.values())
    return ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())


def loaded(options: ModelOptions, device: str = "cpu") -> Predictor:
    """Return the model on a device."""
    predictor = load(
        options.run, scaler=options.scaler, reading=options.reading, trust_code=options.trust_code
    )
    try:
        return predictor.to(device)
    except (RuntimeError, AssertionError) as error:  # torch raises either
        raise ValueError(
            f"the device {device} cannot be used here ({error}): choose cpu"
        ) from error


def check_risk(predictor: Predictor, options: Predict) -> None:
    """Certify the requested risk by new labeled images, or check the certificate it has."""
    if options.risk is None:
        if options.calibrate is None:
            return
        raise ValueError(
            "--calibrate needs --risk, the share of answers that may be wrong, such as 0.02"
        )
    if options.calibrate is not None:
        certify_and_keep(predictor, options.run, options.calibrate, options.risk, options.delta)
        return
    kept = predictor.certificate
    advice = (
        f"socrates certify {options.run} FOLDER --risk {options.risk:g} makes one from labeled "
        "images that are new to it"
    )
    if kept is None:
        raise ValueError(f"{options.run} has no certificate: {advice}")
    if kept.risk > options.risk or kept.delta > options.delta:
        raise ValueError(
            f"{options.run} is certified for a risk of {kept.risk:g} with delta {kept.delta:g}, "
            f"not for {options.risk:g} with {options.delta:g}: {advice}"
        )


def table(rows: Sequence[Row], predictor: Predictor) -> Table:
    """Return the first rows as a table for the terminal."""
    unknown = predictor.about.unknown_class
    certified = predictor.certificate is not None
    measured = predictor.novelty is not None
    heads = ("confidence", *["unknown"] * unknown, *["novelty"] * measured)
    lines = table_of("", ("image", "predicted"), heads)
    for row in rows:
        doubt = in_doubt(row, predictor) if certified else "unknown"
        if measured and row["novelty"] > predictor.about.strange:
            doubt = UNLIKE
        answer = row["predicted"] if row["answered"] else doubt
        cells = [row["path"], answer, f"{100 * row['confidence']:.1f}%"]
        cells += [f"{100 * row['unknown']:.1f}%"] if unknown else []
        cells += [f"{100 * row['novelty']:.1f}%"] if measured else []
        lines.add_row(*map(Text, cells))  # no markup, whatever a name holds
    return lines


def in_doubt(row: Row, predictor: Predictor) -> str:
    """Return the words for an answer that is not given: between which classes it wavers."""
    names = columns(predictor)[len(ROW) :]
    leading = sorted(range(len(names)), key=lambda place: -row[names[place]])[:2]
    return f"I do not know: {' or '.join(predictor.classes[place] for place in leading)}?"


def run_export(options: Export) -> None:
    """Carry out `socrates export`."""
    folder = options.run if options.run.is_dir() else options.run.parent
    file = options.out or folder / f"model{SUFFIXES[options.format]}"
    check_output(file)
    predictor = loaded(options)
    file.parent.mkdir(parents=True, exist_ok=True)
    clear_beside(file)
    with console.status(f"exporting to {file.name}"):
        export(predictor, file, options.format)
        run = Run(folder) if (folder / "experiment.json").is_file() else None
        card = write_card(predictor, file, options.format, run)
    classes = predictor.classes
    show(f"{', '.join(classes[:5])}{' …' * (len(classes) > 5)}", f"{len(classes)} classes: ")
    promise = predictor.certificate or (
        f"{NO_PROMISE}, and this file answers all it is asked; socrates certify {options.run} "
        "FOLDER --risk 0.05 first, then export again"
    )
    show(in_words(predictor.novelty, predictor.about.strange), "novelty: ")
    show(promise, "certificate: ")
    show(f"written: {whole(file)} ({file.stat().st_size / 1e6:.1f} MB), {whole(card)}")
