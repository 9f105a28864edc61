"""One comparison for every table of methods: labelled results in, a `Table` out.

Up to 9 methods (or methods with a scaler) are columns and metrics are rows, as in the paper; more
methods become rows, and metrics columns. Both ways a metric is ranked over all methods of its
block. Published numbers stand beneath ours where there are any.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from .evidence import evidence_of
from .results import Results
from .statistics import FEWEST_SEEDS, Evidence, Family, mean_std
from .tables import DAGGER, FAILED, Cell, Table, TableRow
from .vocabulary import METRICS, USUAL_READING, Metric, compared_metrics
from .words import failed_run, letter, seeds_of

MAX_COLUMNS = 9
RANKS = (
    "Bold is the best mean of a metric, where some other is surely worse (seeds and test rows, "
    "Tukey's range at 0.05; calibration errors less chance, and the worse one fails its own "
    "calibration test)."
)
TIED = f"{DAGGER} cannot be told from the bold one."
FEW_SEEDS = f"Nothing is bold: fewer than {FEWEST_SEEDS} seeds cannot say what is best."
PUBLISHED = "Published rows are the paper's numbers as printed; they are not ranked."


@dataclass(frozen=True)
class Printed:
    """A published number in the unit of its metric.

    Its caveats are sentences, or keys of the `caveats` of `compare`.
    """

    mean: float
    std: float | None = None  # where it is printed
    emphasis: str = ""  # as printed: words out of bold, underline, italic
    caveat: tuple[str, ...] = ()


@dataclass(frozen=True)
class Compared:
    """A column, or a row of a transposed table: results, how they are read, what was printed."""

    label: str
    results: Results | None
    scaler: str = "none"
    reading: str = USUAL_READING
    printed: Mapping[str, Printed | None] = field(default_factory=dict)  # by metric

    def by_seed(self, spec: Metric, split: str = "test") -> dict[int, float]:
        """Return a metric of each seed, in the unit that is printed."""
        return self.results.by_seed(spec, self.scaler, split, self.reading) if self.results else {}


class RankedBlock(NamedTuple):
    """What is ranked together, and the keys that its rows begin with."""

    keys: tuple[str, ...]
    columns: Sequence[Compared]


_Cells = dict[tuple[str, str], Cell]  # by label and metric


def compare(
    name: str,
    title: str,
    heads: tuple[str, ...],
    blocks: Sequence[RankedBlock],
    *,
    metrics: Sequence[str] | None = None,
    split: str = "test",
    notes: Sequence[str] = (),
    caveats: Mapping[str, str] | None = None,
    across: Literal["methods", "metrics"] | None = None,
) -> Table:
    """Return the table of some metrics of all columns, mean ± std over runs, ranked in each block.

    `metrics` are by default all that tables compare; `heads` are those of the blocks' keys;
    `across` says what becomes columns, and follows the rule above by default.

    >>> compare("t", "T", ("Setting",), []).heads
    ('Setting', 'Metric')
    """
    metrics = compared_metrics() if metrics is None else metrics
    labels = list(dict.fromkeys(column.label for block in blocks for column in block.columns))
    transposed = across == "metrics" if across else len(labels) > MAX_COLUMNS
    letters: dict[str, str] = {}  # of caveats, in the order in which they are met
    rows: list[TableRow] = []
    for block in blocks:
        shown = [column.label for column in block.columns] if transposed else labels
        places = _places(shown, metrics, transposed)
        ours = ranked(block.columns, metrics, split)
        theirs = _printed_cells(block.columns, metrics, letters)
        rows += _rows(block.keys, places, ours, theirs)
    columns = [METRICS[metric].head for metric in metrics] if transposed else labels
    sources = ("Source",)
    footnotes = [PUBLISHED]
    footnotes += [f"{sign}: {(caveats or {}).get(key, key)}" for key, sign in letters.items()]
    if all(row.keys[-1] == "ours" for row in rows):
        sources = ()
        footnotes = []
        rows = [TableRow(row.keys[:-1], row.cells) for row in rows]
    heads = (*heads, "Method" if transposed else "Metric", *sources, *columns)
    return Table(name, title, heads, tuple(rows), (*_usual_notes(blocks), *notes, *footnotes))


def _places(
    labels: Sequence[str], metrics: Sequence[str], transposed: bool
) -> dict[str, list[tuple[str, str]]]:
    """Return the heads of rows, each with the labels and metrics of its cells."""
    if transposed:
        return {label: [(label, metric) for metric in metrics] for label in labels}
    return {METRICS[metric].head: [(label, metric) for label in labels] for metric in metrics}


def _rows(
    keys: tuple[str, ...],
    places: Mapping[str, list[tuple[str, str]]],
    ours: _Cells,
    theirs: _Cells,
) -> list[TableRow]:
    """Return a row of our cells for each head, with a row of published ones if there are any."""
    nothing = Cell(math.nan)
    rows: list[TableRow] = []
    for head, row_places in places.items():
        cells = tuple(ours.get(place, nothing) for place in row_places)
        rows.append(TableRow((*keys, head, "ours"), cells))
        if any(place in theirs for place in row_places):
            cells = tuple(theirs.get(place, nothing) for place in row_places)
            rows.append(TableRow((*keys, head, "published"), cells))
    return rows


def ranked(columns: Sequence[Compared], metrics: Sequence[str], split: str = "test") -> _Cells:
    """Return mean ± std of each column and metric, with the best and what is like it marked.

    Collapsed results have a sign and no rank.

    >>> ranked([Compared("CE", None)], ("ece",))["CE", "ece"].text
    '–'
    """
    cells: _Cells = {}
    for spec in map(METRICS.__getitem__, metrics):
        row = [_cell(column, spec, split) for column in columns]
        members = [
            evidence_of(column.results, spec, column.scaler, split, column.reading)
            if spec.ranked and column.results and not column.results.collapses
            else Evidence({}, {})
            for column in columns
        ]
        for column, cell, place in zip(columns, row, emphasised(members, spec), strict=True):
            mark = DAGGER if place == "tied" else cell.mark
            bold = "best" if place == "best" else None
            cells[column.label, spec.name] = replace(cell, emphasis=bold, mark=mark)
    return cells


def emphasised(members: Sequence[Evidence], spec: Metric) -> list[Literal["best", "tied"] | None]:
    """Return which mean is bold, and which cannot be told from it; none if nothing can be told.

    >>> values = {1: 5.0, 2: 5.1, 3: 5.2}, {1: 2.0, 2: 2.2, 3: 2.1}, {1: 2.1, 2: 2.0, 3: 2.3}
    >>> emphasised([Evidence(own, own) for own in values], METRICS["nll"])
    [None, 'best', 'tied']
    """
    family = Family(members, spec)
    standings = family.standings()
    best = family.best
    if best is None or "worse" not in standings or len(members[best].printed) < FEWEST_SEEDS:
        return [None] * len(members)
    return [
        "best" if place == best else "tied" if standing == "with the best" else None
        for place, standing in enumerate(standings)
    ]


def collapse_notes(members: Sequence[tuple[Results, str]]) -> list[str]:
    """Return which runs failed, which methods are not ranked because of them, and why.

    Each of the results comes with the setting that it belongs to.

    >>> collapse_notes([])
    []
    """
    notes: dict[str, None] = {}
    collapses: dict[str, list[Mapping[int, str]]] = {}
    for results, _ in members:
        collapses.setdefault(results.label, []).append(results.collapses)
    for results, setting in members:
        if results.collapses:
            differ = any(others != results.collapses for others in collapses[results.label])
            name = f"{results.label} ({setting})" if differ else results.label
            reasons = _reasons(results.collapses)
            notes[f"{FAILED} {name} collapsed and is not ranked: {reasons}."] = None
        for failure in results.failures:
            notes[f"{FAILED} {failed_run(failure)} is not in the means."] = None
    return list(notes)


def _reasons(collapses: Mapping[int, str]) -> str:
    """Return why the runs of some seeds collapsed, each reason with its seeds."""
    seeds: dict[str, list[str]] = {}
    for seed, reason in collapses.items():
        seeds.setdefault(reason, []).append(str(seed))
    return "; ".join(f"{reason} (seed {', '.join(names)})" for reason, names in seeds.items())


def _cell(column: Compared, spec: Metric, split: str) -> Cell:
    if column.results is None:
        return Cell(math.nan, form=spec.form)
    values = np.array([*column.by_seed(spec, split).values()])
    mark = FAILED if column.results.collapses else ""
    return Cell(*mean_std(values), n=int(np.isfinite(values).sum()), mark=mark, form=spec.form)


def _printed_cells(
    columns: Sequence[Compared], metrics: Sequence[str], letters: dict[str, str]
) -> _Cells:
    """Return the published numbers, whose caveats get the next free letters."""
    cells: _Cells = {}
    for metric in metrics:
        for column in columns:
            printed = column.printed.get(metric)
            if printed is None:
                continue
            std = math.nan if printed.std is None else printed.std
            signs = [letters.setdefault(key, letter(len(letters))) for key in printed.caveat]
            mark = ",".join(signs)
            form = METRICS[metric].form
            cells[column.label, metric] = Cell(printed.mean, std, mark=mark, form=form)
    return cells


def _usual_notes(blocks: Sequence[RankedBlock]) -> list[str]:
    members = [
        (column.results, "".join(block.keys[:1]))
        for block in blocks
        for column in block.columns
        if column.results
    ]
    counts = [len(results.seeds) for results, _ in members]
    return [
        f"Mean ± standard deviation (n - 1) over {seeds_of(counts)}.",
        *((RANKS, TIED) if max(counts, default=0) >= FEWEST_SEEDS else (FEW_SEEDS,)),
        *collapse_notes(members),
    ]
