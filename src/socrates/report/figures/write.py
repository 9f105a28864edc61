"""Figures as files: every figure that a report's groups support, as PDF and PNG, the same bytes for the same data."""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, cast

import matplotlib
from matplotlib.figure import Figure

from socrates.report.aggregate import Group, Setting
from socrates.report.figures.compose import figures_of, slug
from socrates.report.figures.ink import FONTS, GREY

__all__ = ["figures_of", "write_figure", "write_figures"]

DPI = 150
POOL_FROM = 12  # groups; with fewer, starting processes takes longer than it saves


def write_figure(figure: Figure, folder: Path | str, name: str) -> list[Path]:
    """Write `name.pdf` and `name.png` without dates, so that equal figures are equal files."""
    pdf, png = (Path(folder) / f"{name}.{kind}" for kind in ("pdf", "png"))
    pdf.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(png, dpi=DPI, metadata={"Software": None})
    figure.set_layout_engine("none")  # the PNG has found every place; finding them again takes half the time
    figure.savefig(pdf, metadata={"CreationDate": None, "Creator": None, "Producer": None})
    return [pdf, png]


def write_figures(
    settings: Mapping[Setting, Sequence[Group]], folder: Path | str, note: str | None = None, processes: int = 1
) -> list[Path]:
    """Write all figures of all settings; `note` is a line at the foot of each of them.

    With more than one process a large report is drawn by several: the caller must then be importable without effect.
    """
    tasks = [
        (setting, tuple(groups), f"{folder}/{prefix}", note)
        for prefix, (setting, groups) in zip(_prefixes(settings), settings.items(), strict=True)
        if groups
    ]
    if processes < 2 or sum(len(groups) for groups in settings.values()) < POOL_FROM:
        return [path for task in tasks for path in _write_share(*task)]
    context = multiprocessing.get_context("spawn")  # a fork would inherit threads in an unknown state
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        shares = [pool.submit(_write_share, *task, part, processes) for task in tasks for part in range(processes)]
        return sorted(path for share in shares for path in share.result())


def _write_share(
    setting: Setting, groups: Sequence[Group], stem: str, note: str | None, part: int = 0, parts: int = 1
) -> list[Path]:
    """Every `parts`-th figure of a setting, from the `part`-th on; file names begin with `stem`."""
    paths: list[Path] = []
    for name, make in list(figures_of(setting, groups))[part::parts]:
        with matplotlib.rc_context(cast("Any", FONTS)):
            figure = make()
            if figure is None:
                continue
            if note:
                figure.supxlabel(note, fontsize=7, color=GREY)
            paths += write_figure(figure, Path(stem).parent, f"{Path(stem).name}-{name}")
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
