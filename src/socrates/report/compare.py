"""One comparison for every table of methods: labelled results in, a `Table` out, printed numbers beneath where given.

Layout: up to 9 methods (or methods with a scaler) are columns and metrics are rows, as in the paper; more methods
become rows, and metrics columns. Both ways a metric is ranked over all methods of its block.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from .results import Results
from .statistics import leaders, mean_std
from .tables import DAGGER, Cell, Row, Table, emphasis
from .vocabulary import COMPARED, METRICS, USUAL_READING, Metric
from .words import seeds_of

MAX_COLUMNS = 9
RANKS_OF_ONE_SEED = (
    "Bold is the best of a metric as printed, underlined the second; one seed cannot tell what others would."
)
RANKS_OF_SEEDS = (
    "Bold is what cannot be told from the best of a metric (paired over the seeds, at 0.05, corrected for all "
    "comparisons with it), underlined the second mean where one alone is bold."
)


@dataclass(frozen=True)
class Printed:
    """A published number in the unit of its metric; its caveats are sentences, or keys of `caveats`."""

    mean: float
    std: float | None = None  # where it is printed
    emphasis: str = ""  # as printed: words out of bold, underline, italic
    caveat: str | tuple[str, ...] = ()


@dataclass(frozen=True)
class Compared:
    """A column, or a row of a transposed table: labelled results, how they are read, and what was printed of them."""

    label: str
    results: Results | None
    scaler: str = "none"
    reading: str = USUAL_READING
    printed: Mapping[str, Printed | None] = field(default_factory=dict)  # by metric

    def by_seed(self, spec: Metric, split: str = "test") -> dict[int, float]:
        """A metric of each seed, in the unit that is printed."""
        return self.results.by_seed(spec, self.scaler, split, self.reading) if self.results else {}


class Block(NamedTuple):
    """What is ranked together, and the keys that its rows begin with."""

    keys: tuple[str, ...]
    columns: Sequence[Compared]


_Cells = dict[tuple[str, str], Cell]  # by label and metric


def compare(
    name: str,
    title: str,
    heads: tuple[str, ...],
    blocks: Sequence[Block],
    *,
    metrics: Sequence[str] = COMPARED,
    split: str = "test",
    notes: Sequence[str] = (),
    caveats: Mapping[str, str] | None = None,
    across: Literal["methods", "metrics"] | None = None,
) -> Table:
    """The table of some metrics of all columns, mean ± std over runs, ranked in each block.

    `heads` are those of the blocks' keys; `across` says what becomes columns, by the rule above if not given.

    >>> compare("t", "T", ("Setting",), []).heads
    ('Setting', 'Metric')
    """
    labels = list(dict.fromkeys(column.label for block in blocks for column in block.columns))
    transposed = across == "metrics" if across else len(labels) > MAX_COLUMNS
    letters: dict[str, str] = {}  # of caveats, in the order in which they are met
    rows: list[Row] = []
    for keys, columns in blocks:
        ours, theirs = ranked(columns, metrics, split), _printed(columns, metrics, letters)
        shown = [column.label for column in columns] if transposed else labels
        by_label = [(label, [(label, metric) for metric in metrics]) for label in shown]
        by_metric = [(METRICS[metric].head, [(label, metric) for label in shown]) for metric in metrics]
        for head, places in by_label if transposed else by_metric:
            for source, cells in (("ours", ours), ("published", theirs)):
                if source == "ours" or any(place in cells for place in places):
                    rows.append(Row((*keys, head, source), tuple(cells.get(place, Cell(math.nan)) for place in places)))
    sources, footnotes = ("Source",), ["Published rows are the paper's numbers as printed; they are not ranked."]
    footnotes += [f"{letter}: {(caveats or {}).get(key, key)}" for key, letter in letters.items()]
    if all(row.keys[-1] == "ours" for row in rows):
        sources, footnotes, rows = (), [], [Row(row.keys[:-1], row.cells) for row in rows]
    columns = [METRICS[metric].head for metric in metrics] if transposed else labels
    heads = (*heads, "Method" if transposed else "Metric", *sources, *columns)
    return Table(name, title, heads, tuple(rows), (*_usual_notes(blocks), *notes, *footnotes))


def ranked(columns: Sequence[Compared], metrics: Sequence[str], split: str = "test") -> _Cells:
    """Mean ± std of each column and metric; what cannot be told from the best of a metric is marked, and the second.

    Collapsed results have a sign and no rank.

    >>> ranked([Compared("CE", None)], ("ece",))["CE", "ece"].text
    '–'
    """
    cells: _Cells = {}
    for spec in map(METRICS.__getitem__, metrics):
        row = [_cell(column, spec, split) for column in columns]
        means = [cell.mean if spec.ranked and not cell.mark else math.nan for cell in row]
        rivals = [
            {} if math.isnan(mean) else column.by_seed(spec, split) for column, mean in zip(columns, means, strict=True)
        ]
        places = emphasis(means, spec.larger_is_better, spec.form, leaders(rivals, spec))
        for column, cell, place in zip(columns, row, places, strict=True):
            cells[column.label, spec.name] = dataclasses.replace(cell, emphasis=place)
    return cells


def collapse_notes(found: Sequence[tuple[Results, str]]) -> list[str]:
    """What the dagger stands for: which runs of which methods collapsed, and how; results come with where they are.

    >>> collapse_notes([])
    []
    """
    notes: dict[str, None] = {}
    for one, where in found:
        others = [results.collapses for results, _ in found if results.label == one.label]
        place = f" ({where})" if any(other != one.collapses for other in others) else ""
        seeds: dict[str, list[str]] = {}
        for seed, reason in one.collapses.items():
            seeds.setdefault(reason, []).append(str(seed))
        words = "; ".join(f"{reason} (seed {', '.join(own)})" for reason, own in seeds.items())
        if words:
            notes[f"{DAGGER} {one.label}{place} collapsed and is not ranked: {words}."] = None
    return list(notes)


def _cell(column: Compared, spec: Metric, split: str) -> Cell:
    if column.results is None:
        return Cell(math.nan, form=spec.form)
    values = np.array([*column.by_seed(spec, split).values()])
    mark = DAGGER if column.results.collapses else ""
    return Cell(*mean_std(values), n=int(np.isfinite(values).sum()), mark=mark, form=spec.form)


def _printed(columns: Sequence[Compared], metrics: Sequence[str], letters: dict[str, str]) -> _Cells:
    cells: _Cells = {}
    for metric in metrics:
        for column in columns:
            found = column.printed.get(metric)
            if found is not None:
                std = math.nan if found.std is None else found.std
                caveats = [found.caveat] if isinstance(found.caveat, str) else found.caveat
                signs = [letters.setdefault(key, _letter(len(letters))) for key in caveats if key]
                cells[column.label, metric] = Cell(found.mean, std, mark=",".join(signs), form=METRICS[metric].form)
    return cells


def _usual_notes(blocks: Sequence[Block]) -> list[str]:
    found = [(one.results, "".join(keys[:1])) for keys, columns in blocks for one in columns if one.results]
    counts = [len(results.seeds) for results, _ in found]
    ranks = RANKS_OF_SEEDS if max(counts, default=0) > 1 else RANKS_OF_ONE_SEED
    return [f"Mean ± standard deviation (n - 1) over {seeds_of(counts)}.", ranks, *collapse_notes(found)]


def _letter(number: int) -> str:
    """a to z, then aa, ab, and so on."""
    before, last = divmod(number, 26)
    return (_letter(before - 1) if before else "") + chr(ord("a") + last)
