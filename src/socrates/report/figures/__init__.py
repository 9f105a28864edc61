"""Figures: one file each, with data functions, which tests check with numbers, and their ink.

A file has `drawings`, for PDF and PNG, and `charts`, for the page; both show the same data with the
same labels, colours and axes. Adding a figure is a file and its section in `assets/sections.json`:
heading, how to read it, how its charts are laid out, and what is written without any; from outside,
an entry in FIGURES and in SECTIONS. The package imports plots and the rest of the report; read
curves.py first, then compose.py and chart.py.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from ..markup import asset
from ..results import Members
from ..style import Look
from ..vocabulary import study_scalers
from .chart import Chart
from .compose import Drawing


def no_charts(members: Members, look: Look) -> list[Chart]:
    """Return the charts of a figure that has files only."""
    return []


class Figure(NamedTuple):
    """A figure of the report: its files, and its charts in the section of its name on the page."""

    drawings: Callable[[Members, Look], Iterable[Drawing]]
    charts: Callable[[Members, Look], Sequence[Chart]] = no_charts


def _figure(name: str) -> Figure:
    module = import_module(f"{__name__}.{name}")
    return Figure(module.drawings, module.charts)


# The sections of the page, in their order.
SECTIONS: list[dict[str, Any]] = json.loads(asset("sections.json"))
# The figures by the name of their section.
FIGURES = {section["name"]: _figure(section["name"]) for section in SECTIONS if "layout" in section}


def sections_in_words() -> list[dict[str, Any]]:
    """Return SECTIONS with the names of the scalers where their words mention them."""
    scalers = ", ".join(words.both for words in study_scalers().values() if words.short)
    return [
        {
            name: words.replace("{scalers}", scalers) if isinstance(words, str) else words
            for name, words in section.items()
        }
        for section in SECTIONS
    ]
