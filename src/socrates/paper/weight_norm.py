"""The claim of section 3.3.1: weights are larger than with CE at first, until CE's grow past them."""

from collections.abc import Mapping, Sequence

import numpy as np

from ..report.figures.compose import Drawing, Panel
from ..report.figures.curves import Line, Lines, draw_lines
from ..report.results import Array, Results, bands
from ..report.statistics import mean_std
from ..report.style import styles
from ..report.tables import NOTHING, Cell, Row, Table
from ..report.vocabulary import CURVES
from .recipe_data import RecipeData

NORMS = {"weight_norm": "all weights", "head_norm": "last layer"}
OURS, CE, EQUAL = "Socrates' is larger", "CE's is larger", "neither is larger"
BEGINNING = 0.1  # the share of the epochs that is called so
NOTES = (
    "The claim: at the beginning (the first tenth of the epochs) the norm is larger with Socrates; when calibration "
    "becomes worse, CE's grows past it. One is larger if the means differ by more than both standard deviations over "
    "the seeds together.",
    "The last layer has a row more with Socrates, that of the unknown class. The setting is our choice: the paper "
    "names none.",
)


def weight_norms(data: RecipeData, name: str) -> list[Table | Drawing]:
    """Both norms of Socrates and CE over the epochs, drawn, and in words whether they change places."""
    panels = [
        Panel(f"{NORMS[norm]}: {data.scale.title(setting)}", draw_lines, lines)
        for setting, groups in data.groups.items()
        for norm in NORMS
        if (lines := norm_lines(list(groups.values()), norm)).lines
    ]
    rows = [
        Row((data.scale.title(setting), words), norm_cells(groups, norm))
        for setting, groups in data.groups.items()
        for norm, words in NORMS.items()
    ]
    heads = ("Setting", "Weights", "Socrates, beginning", "CE, beginning", "Socrates, end", "CE, end", "Verdict")
    table = Table(name, "Norms of the weights of Socrates and CE", heads, tuple(rows), NOTES)
    return [table, *([Drawing(name, "", panels, 2, (3.1, 2.7))] if panels else [])]


def norm_lines(members: Sequence[Results], norm: str) -> Lines:
    """The curves of a norm."""
    look = styles({one.label: one.method for one in members})
    return Lines([Line(band, look[band.label], band.label) for band in bands(members, norm)], CURVES[norm].title)


def norm_cells(groups: Mapping[str, Results], norm: str) -> tuple[Cell | str, ...]:
    """The norm of both at the beginning and at the end, and the verdict; nothing if one of them was not recorded."""
    curves = [groups[title].curve(norm) for title in ("Socrates", "CE") if title in groups]
    if len(curves) < 2 or not all(np.isfinite(curve).all() and curve.size for curve in curves):
        return (NOTHING,) * 4 + ("not recorded",)
    first = [curve[:, : _beginning(curve.shape[1])].mean(axis=1) for curve in curves]
    cells = [Cell(*mean_std(values)) for values in (*first, *(curve[:, -1] for curve in curves))]
    return (*cells, verdict(*curves))


def verdict(ours: Array, ce: Array) -> str:
    """Whether the norms, (runs, epochs), behave as the paper says; a difference exceeds the spread of the seeds.

    >>> verdict(np.array([[3.0, 3.0, 3.0]]), np.array([[2.0, 2.5, 4.0]]))
    "as claimed: at the beginning Socrates' is larger, at the end CE's is larger, from epoch 3 on"
    >>> verdict(np.array([[1.0, 3.0]]), np.array([[2.0, 4.0]]))
    "half of it: at the beginning CE's is larger, at the end CE's is larger"
    """
    few = _beginning(ours.shape[1])
    start, end = _larger(ours[:, :few].mean(axis=1), ce[:, :few].mean(axis=1)), _larger(ours[:, -1], ce[:, -1])
    parts = (start == OURS) + (end == CE)
    words = f"{('not seen', 'half of it', 'as claimed')[parts]}: at the beginning {start}, at the end {end}"
    behind = np.flatnonzero(ours.mean(axis=0) >= ce.mean(axis=0))
    return f"{words}, from epoch {behind[-1] + 2} on" if parts == 2 else words  # epochs count from 1


def _larger(ours: Array, ce: Array) -> str:
    """Which of two norms is larger by more than their standard deviations together."""
    deviations = [float(np.std(values, ddof=1)) if len(values) > 1 else 0.0 for values in (ours, ce)]
    spread = float(np.hypot(deviations[0], deviations[1]))
    difference = ours.mean() - ce.mean()
    return EQUAL if abs(difference) <= spread else OURS if difference > 0 else CE


def _beginning(epochs: int) -> int:
    return max(1, round(BEGINNING * epochs))
