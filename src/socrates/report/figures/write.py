"""Figures as files: every figure that a report's groups support, as PDF and PNG, the same bytes for the same data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import matplotlib
from matplotlib.figure import Figure

from socrates.report.aggregate import Group, Setting
from socrates.report.figures.compose import figures_of, slug
from socrates.report.figures.ink import FONTS, GREY

__all__ = ["figures_of", "write_figure", "write_figures"]

DPI = 150


def write_figure(figure: Figure, folder: Path | str, name: str) -> list[Path]:
    """Write `name.pdf` and `name.png` without dates, so that equal figures are equal files."""
    pdf, png = (Path(folder) / f"{name}.{kind}" for kind in ("pdf", "png"))
    pdf.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(png, dpi=DPI, metadata={"Software": None})
    figure.set_layout_engine("none")  # the PNG has found every place; finding them again takes half the time
    figure.savefig(pdf, metadata={"CreationDate": None, "Creator": None, "Producer": None})
    return [pdf, png]


def write_figures(
    settings: Mapping[Setting, Sequence[Group]], folder: Path | str, note: str | None = None
) -> list[Path]:
    """Write all figures of all settings; `note` is a line at the foot of each of them."""
    paths: list[Path] = []
    for prefix, (setting, groups) in zip(_prefixes(settings), settings.items(), strict=True):
        for name, make in figures_of(setting, groups) if groups else ():
            with matplotlib.rc_context(cast("Any", FONTS)):
                figure = make()
                if note:
                    figure.supxlabel(note, fontsize=7, color=GREY)
                paths += write_figure(figure, folder, f"{prefix}-{name}")
            figure.clear()
    return paths


def _prefixes(settings: Mapping[Setting, Sequence[Group]]) -> list[str]:
    """A file name for each setting; those that would share one are numbered."""
    names: list[str] = []
    for setting in settings:
        name = slug(setting.title)
        clashes = sum(other == name or other.startswith(f"{name}-v") for other in names)
        names.append(f"{name}-v{clashes + 1}" if clashes else name)
    return names
