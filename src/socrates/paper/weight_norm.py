"""The claim of section 3.3.1: weights are larger than with CE at first, until CE's grow past."""

from collections.abc import Mapping, Sequence

import numpy as np

from ..report.figures.compose import Drawing, Panel
from ..report.figures.curves import CurveLine, CurvePanel, draw_lines
from ..report.results import Array, Results, bands
from ..report.statistics import mean_std
from ..report.style import styles
from ..report.tables import NOTHING, Cell, Table, TableRow
from ..report.vocabulary import CURVES
from .recipe_data import RecipeData

NORMS = {"weight_norm": "all weights", "head_norm": "last layer"}
OURS = "Socrates' is larger"
CE = "CE's is larger"
EQUAL = "neither is larger"
ONE_SEED = "one seed cannot tell"
BEGINNING = 0.1  # the share of the epochs that is called so
NOTES = (
    "The claim: at the beginning (the first tenth of the epochs) the norm is larger with "
    "Socrates; when calibration becomes worse, CE's grows past it. One is larger if the means "
    "differ by more than both standard deviations over the seeds together.",
    "The last layer has a row more with Socrates, that of the unknown class. The setting is our "
    "choice: the paper names none.",
)


def weight_norms(data: RecipeData, name: str) -> list[Table | Drawing]:
    """Draw both norms of Socrates and CE over the epochs, and say whether they change places."""
    panels: list[Panel] = []
    rows: list[TableRow] = []
    for setting, groups in data.groups.items():
        setting_title = data.scale.title(setting)
        for norm, weights in NORMS.items():
            rows.append(TableRow((setting_title, weights), norm_cells(groups, norm)))
            lines = norm_lines(list(groups.values()), norm)
            if lines.lines:
                panels.append(Panel(f"{weights}: {setting_title}", draw_lines, lines))
    heads = (
        "Setting",
        "Weights",
        "Socrates, beginning",
        "CE, beginning",
        "Socrates, end",
        "CE, end",
        "Verdict",
    )
    table = Table(name, "Norms of the weights of Socrates and CE", heads, tuple(rows), NOTES)
    return [table, Drawing(name, "", panels, 2, (3.1, 2.7))] if panels else [table]


def norm_lines(members: Sequence[Results], norm: str) -> CurvePanel:
    """Return the curves of a norm."""
    look = styles({group.label: group.method for group in members})
    return CurvePanel(
        [CurveLine(band, look[band.label], band.label) for band in bands(members, norm)],
        CURVES[norm].title,
    )


def norm_cells(groups: Mapping[str, Results], norm: str) -> tuple[Cell | str, ...]:
    """Return the norm of both at the beginning and at the end, and the verdict.

    The cells are empty if one of them was not recorded.
    """
    curves = [groups[title].curve(norm) for title in ("Socrates", "CE") if title in groups]
    if len(curves) < 2 or not all(np.isfinite(curve).all() and curve.size for curve in curves):
        return (NOTHING,) * 4 + ("not recorded",)
    first = [curve[:, : _beginning(curve.shape[1])].mean(axis=1) for curve in curves]
    last = [curve[:, -1] for curve in curves]
    cells = [Cell(*mean_std(values)) for values in first + last]
    return (*cells, verdict(*curves))


def verdict(ours: Array, ce: Array) -> str:
    """Say whether the norms, (runs, epochs), behave as the paper says.

    A difference counts if it exceeds the spread of the seeds, so one seed decides nothing.

    >>> verdict(np.array([[3.0, 3.0, 3.0]] * 2), np.array([[2.0, 2.5, 4.0]] * 2))
    "as claimed: at the beginning Socrates' is larger, at the end CE's is larger, from epoch 3 on"
    >>> verdict(np.array([[1.0, 3.0]] * 2), np.array([[2.0, 4.0]] * 2))
    "half of it: at the beginning CE's is larger, at the end CE's is larger"
    >>> verdict(np.array([[1.0, 3.0]]), np.array([[2.0, 4.0]]))
    'one seed cannot tell'
    """
    if min(len(ours), len(ce)) < 2:
        return ONE_SEED
    first = slice(_beginning(ours.shape[1]))
    start = _larger(ours[:, first].mean(axis=1), ce[:, first].mean(axis=1))
    end = _larger(ours[:, -1], ce[:, -1])
    num_true = (start == OURS) + (end == CE)
    extent = ("not seen", "half of it", "as claimed")[num_true]
    sentence = f"{extent}: at the beginning {start}, at the end {end}"
    if num_true < 2:
        return sentence
    ours_larger = np.flatnonzero(ours.mean(axis=0) >= ce.mean(axis=0))
    # the epoch after the last of them, and epochs count from 1
    return f"{sentence}, from epoch {ours_larger[-1] + 2} on"


def _larger(ours: Array, ce: Array) -> str:
    """Return which of two norms is larger by more than their standard deviations together."""
    spread = float(np.hypot(np.std(ours, ddof=1), np.std(ce, ddof=1)))
    difference = ours.mean() - ce.mean()
    if abs(difference) <= spread:
        return EQUAL
    return OURS if difference > 0 else CE


def _beginning(epochs: int) -> int:
    """Return the number of epochs that are called the beginning."""
    return max(1, round(BEGINNING * epochs))
