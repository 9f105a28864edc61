"""The report's page: one file that opens from disk, needs no network, and paints before its charts.

Tables and legends are written here as markup, charts as plotly figures; the script only mounts,
links and switches.
"""

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from socrates.files import replacing

from ..palette import DARK, faded, on_dark
from .figures.chart import Chart, Json
from .markup import asset, markup
from .results import Members
from .style import Look
from .vocabulary import (
    READINGS,
    glossary_terms,
)
from .words import capitalised

# How to read each chart, in the one place where the page teaches it.
TEACHING: dict[str, str] = json.loads(asset("captions.json"))


def meanings() -> dict[str, str]:
    """Return the meaning of every abbreviation that a report prints, in words."""
    return {
        name: f"{term.long}: {term.meaning}{f', {term.direction}' if term.direction else ''}"
        for name, term in glossary_terms().items()
    }


def page_of(
    settings: Sequence[Json],
    sections: Sequence[Json],
    written_by: str,
    counts: Mapping[str, int],
    skipped: Sequence[tuple[str, str]] = (),
    files: Sequence[str] = (),
) -> Json:
    """Return a page of `composed` settings: counts, what was left out, and the files beside it."""
    return {
        "written_by": written_by,
        "counts": counts,
        "sections": sections,
        "readings": {name: f"{capitalised(words)}." for name, words in READINGS.items()},
        "chart_template": json.loads(asset("template.json")),
        "settings": settings,
        "study": "",
        "skipped": [{"what": what, "reason": reason} for what, reason in skipped],
        "files": files_by_name(files),
        "glossary": meanings(),
    }


def files_by_name(files: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """Return paths from the page, by folder and by name without ending.

    >>> files_by_name(["tables/runs.md", "tables/runs.csv", "figures/nll.pdf"])
    {'tables': {'runs': ['md', 'csv']}, 'figures': {'nll': ['pdf']}}
    """
    folders: dict[str, dict[str, list[str]]] = {}
    for path in map(PurePosixPath, files):
        endings = folders.setdefault(str(path.parent), {}).setdefault(path.stem, [])
        endings.append(path.suffix[1:])
    return folders


def methods_of(members: Members, look: Look) -> dict[str, Json]:
    """Return the look of each label on the page, and why its runs collapsed if they did."""
    return {
        results.label: {**vars(look[results.label]), "collapsed": results.collapse_reasons}
        for results in members
    }


def composed(
    heading: str,
    methods: Mapping[str, Json],
    sections: Sequence[Json],
    charts: Mapping[str, Sequence[Chart]],
    tables: Mapping[str, Mapping[str, Any]],
    screen: str,
    **more: Any,
) -> Json:
    """Return one setting of a page: a section has the charts and the table of its name.

    `more` goes to the template.
    """
    every = [chart for section in charts.values() for chart in section]
    legends = {
        name: {
            trace.get("meta")
            for chart in section
            for figure in chart.figures.values()
            for trace in figure["data"]
        }
        for name, section in charts.items()
    }
    shown = {
        "charts": charts,
        "legends": legends,
        "tables": tables,
        "methods": methods,
        "sections": sections,
        "teaching": TEACHING,
    }
    colours = markup("colours.html", methods=methods, on_dark=on_dark, faded=faded, dark=DARK)
    return {
        "title": heading,
        "unknown": False,
        "screen": f"{colours}{screen}",
        "html": markup("setting.html", **shown, **more),
        "tables": tables,
        "charts": {
            chart.name: {
                "figures": chart.figures,
                "captions": chart.captions,
                "linear": chart.linear,
            }
            for chart in every
            if chart.figures
        },
        "late": [look["place"] for look in methods.values() if not look["shown_first"]],
        "trail": None,
    }


def write_page(path: Path | str, data: Json, title: str, note: str | None = None) -> None:
    """Write the page of `page_data`, whole or not at all.

    `note` is shown in a banner below the title.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(render(data, title, note).encode())


def render(data: Json, title: str, note: str | None = None) -> str:
    """Return the page as text: script, data and chart library come last, for the first paint."""
    from plotly.offline import get_plotlyjs

    text = (
        json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        if data["settings"]
        else ""
    )
    about = {
        "title": title,
        "note": note,
        "css": asset("page.css"),
        "script": asset("page.js") + asset("charts.js"),
    }
    packed = {
        "packed_data": _packed(text),
        "packed_plotly": _packed(get_plotlyjs() if text else ""),
    }
    return markup("page.html", **data, **about, **packed)


def _packed(text: str) -> str:
    """Return text as compressed base64, which no markup can break out of."""
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()
