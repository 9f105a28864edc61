"""The first screen of a report: a decision, two sentences, what failed, and the picture."""

from collections.abc import Sequence

from .answer import ACCURACY, ECE, Answer, AnswerRow, Failure
from .dumbbell import RowDifference, dumbbells
from .figures.chart import Json
from .markup import markup
from .results import Members
from .statistics import compared
from .style import Look
from .vocabulary import scaler_of
from .words import counted, listed

# Rows that can be the reference: the intervals of all differences to each of them are on the page.
MOST_REFERENCES = 12
MOST_FAILURES = 3  # that the red line names one by one


def first_screen(answer: Answer, look: Look, members: Members = (), level: int = 1) -> str:
    """Return the first screen of one setting; `level` is that of its headline.

    `members` have the runs that failed as well, for readers who want them counted.

    >>> "<h1>Nothing.</h1>" in first_screen(Answer("Nothing.", (), (), ""), {})
    True
    """
    rows = answer.rows
    shown = {row.label for row in rows if look[row.label].shown_first}
    scalers = dict.fromkeys(row.scaler for row in rows if row.scaled)
    return markup(
        "screen.html",
        answer=answer,
        level=level,
        failures=failures_in_words(answer.failures, sum(row.num_runs for row in rows)),
        card=dumbbells(rows, look, shown, members, row_differences(rows)) if rows else "",
        num_rows=len(rows),
        folded=any(row.label not in shown for row in rows),
        scalers=listed([scaler_of(name).long for name in scalers], "or") if scalers else "",
        seeds=any(len(row.trained.by_seed) > 1 for row in rows),
        several=len(rows) > 1,
    )


def row_differences(rows: Sequence[AnswerRow]) -> dict[int, list[RowDifference]]:
    """Return the differences of all rows to each of the first ones, by its place.

    >>> row_differences([])
    {}
    """
    comparable = [
        place
        for place, row in enumerate(rows)
        if len(row.trained.by_seed) > 1 and not row.results.collapses
    ]
    if len(comparable) < 2:
        return {}
    families: dict[int, list[RowDifference]] = {}
    for place in comparable[:MOST_REFERENCES]:
        ece, accuracy = (
            compared([row.results.by_seed(spec) for row in rows], place, spec)
            for spec in (ECE, ACCURACY)
        )
        families[place] = [*zip(ece, accuracy, strict=True)]
    return families


def failures_in_words(failures: Sequence[Failure], num_runs: int) -> Json:
    """Return how many runs failed, which, and why, with the places of the runs on the page.

    >>> failures_in_words([], 5)
    {}
    """
    if not failures:
        return {}
    named = [
        {"words": failure_in_words(failure), "run": failure.directory and failure.directory.name}
        for failure in failures[:MOST_FAILURES]
    ]
    return {
        "count": f"{len(failures)} of {counted(num_runs, 'run')} failed",
        "named": named,
        "more": len(failures) - len(named),
        "one": len(failures) == 1,
    }


def failure_in_words(failure: Failure) -> str:
    """Return which run failed, from which epoch on, and why.

    >>> failure_in_words(Failure("CE", 3, 47, "the training loss rose", 68.6))
    'CE, seed 3, from epoch 47: the training loss rose'
    """
    epoch = "" if failure.epoch is None else f", from epoch {failure.epoch}"
    return f"{failure.label}, seed {failure.seed}{epoch}: {failure.reason}"
