"""What a run says of strangers: how many are answered, and how well each score tells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from socrates.engine.open_world import compare_training, rehearsed
from socrates.metrics.open_world import OPEN_WORLD
from socrates.records import Evaluation, Run
from socrates.report.terminal import NamedTable

from .output import console, show, table_of

SCORES = ("confidence", "novelty")


def show_strangers(run: Run, evaluation: Evaluation) -> None:
    """Print how many strangers are answered, and the metrics of each score; nothing without any."""
    if not evaluation.strangers:
        return
    for line in in_words(evaluation.strangers, rehearsed(run.experiment)):
        show(line, "strangers: ")
    console.print(strangers_table(evaluation))


def show_training(trained: Run, control: Run, strangers: Any) -> None:
    """Print accuracy and AUROC of a run that strangers trained, beside those of its control."""
    numbers = compare_training(trained, control, strangers)
    count = numbers["with"]["strangers"]
    title = f"{count:,.0f} strangers that neither learned from; accuracy as trained, AUROC, in %"
    scores = [name for name in numbers["with"] if name not in ("accuracy", "strangers")]
    heads = ("accuracy", *(f"AUROC of {score}" for score in scores))
    table = table_of(title, ("a third of the strangers trains",), heads)
    for name, words in (("with", "yes"), ("without", "no")):
        values = numbers[name]
        table.add_row(words, *(f"{100 * values[head]:.1f}" for head in ("accuracy", *scores)))
    console.print(table)


def in_words(strangers: Mapping[str, Mapping[str, float]], name: str = "") -> list[str]:
    """Return how many strangers are answered; `name` is the class that is rehearsed, if one is."""
    counts = strangers["counts"]
    total = f"{counts['strangers']:,.0f}"
    whose = f"{total} images of {name}, which it was trained without," if name else ""
    whose = whose or f"{total} images of none of its classes"
    lines: list[str] = []
    if "strangers_answered" in counts:
        lines.append(
            f"of {whose} it answers "
            f"{counts['strangers_answered']:.1%}, of {counts['known']:,.0f} test images of its "
            f"classes {counts['known_answered']:.1%}"
        )
    best = strangers.get("novelty") or strangers["confidence"]
    score = "novelty" if "novelty" in strangers else "confidence"
    if "open_ua90" in best:
        lines.append(
            f"with the limit of {score} that leaves 90% of its right answers, it answers "
            f"{best['open_ua90']:.1%} of {'these' if lines else whose} (UA90)"
        )
    return lines


def strangers_table(evaluation: Evaluation) -> NamedTable:
    """Return the metrics of OPEN_WORLD, one row per score."""
    title = "known test images against strangers, in %"
    table = table_of(title, ("score",), tuple(metric.symbol for metric in OPEN_WORLD.values()))
    for score in SCORES:
        values = evaluation.strangers.get(score)
        if values is None:
            continue
        cells = [
            f"{metric.factor * values[name]:{metric.form}}" if name in values else "–"
            for name, metric in OPEN_WORLD.items()
        ]
        table.add_row(score, *cells)
    return table
