"""Tables and figures of the paper as files, from the runs below a folder."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

from ..report.aggregate import Skipped
from ..report.figures.ink import FONTS, GREY
from ..report.figures.write import write_figure
from ..report.tables import Table, write_table
from .figures import Drawing
from .material import Wanted, gather
from .recipes import Recipe
from .scales import Scale

INCHES_A_CHARACTER = 0.055  # of the note at the foot of a figure


def write_recipes(
    recipes: Mapping[str, Recipe], wanted: Mapping[str, Wanted], scale: Scale, runs: Path, out: Path
) -> tuple[dict[str, list[Path]], list[Skipped]]:
    """Write each recipe from its finished runs; returns the files by recipe, and the runs that were not there."""
    written: dict[str, list[Path]] = {}
    missing: dict[Path, Skipped] = {}
    for name, recipe in recipes.items():
        material, absent = gather(wanted[name], scale, runs)
        missing |= {skipped.directory: skipped for skipped in absent}
        if material.groups:
            with matplotlib.rc_context(FONTS):
                made = recipe.make(material)
                written[name] = [path for thing in made for path in _write(thing, scale, out)]
    return written, list(missing.values())


def _write(thing: Table | Drawing, scale: Scale, out: Path) -> Sequence[Path]:
    if isinstance(thing, Table):
        return write_table(thing, out / "tables")
    name, figure = thing
    if scale.note:
        characters = int(figure.get_size_inches()[0] / INCHES_A_CHARACTER)
        figure.supxlabel(textwrap.fill(scale.note, characters), fontsize=6.5, color=GREY)
    paths = write_figure(figure, out / "figures", name)
    figure.clear()
    return paths
