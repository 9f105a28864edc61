"""Tables and figures of the paper as files, from the runs below a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..report.aggregate import Skipped
from ..report.figures.compose import write_drawing
from ..report.tables import Table, write_table
from .recipe_data import Wanted, gather
from .recipes import Recipe
from .scales import Scale


def write_recipes(
    recipes: Mapping[str, Recipe], wanted: Mapping[str, Wanted], scale: Scale, runs: Path, out: Path
) -> tuple[dict[str, list[Path]], list[Skipped]]:
    """Write each recipe from its finished runs; returns the files by recipe, and the runs that were not there."""
    written: dict[str, list[Path]] = {}
    missing: dict[Path, Skipped] = {}
    for name, recipe in recipes.items():
        data, absent = gather(wanted[name], scale, runs)
        missing |= {skipped.directory: skipped for skipped in absent}
        if data.groups:
            written[name] = [
                path
                for made in recipe.make(data, name)
                for path in (
                    write_table(made, out / "tables")
                    if isinstance(made, Table)
                    else write_drawing(made, out / "figures", scale.note)
                )
            ]
    return written, list(missing.values())
