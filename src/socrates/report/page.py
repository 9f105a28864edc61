"""The report's page: one file that opens from disk, needs no network, and paints before its charts are there.

Tables and legends are written here as markup, charts as plotly figures; the script only mounts, links and switches.
"""

import base64
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from socrates.experiment import Experiment
from socrates.files import replacing

from .aggregate import Skipped
from .answer import answer
from .comparisons import overview_table, scaled_table
from .figures import FIGURES, SECTIONS
from .figures.chart import Chart, Json, by_reading, first_shown
from .forest import MOST_REFERENCES, forest, screen
from .listings import significance_table
from .markup import asset, markup
from .results import Results
from .statistics import mean_std
from .style import DARK, Style, faded, on_dark, styles
from .tables import to_html
from .vocabulary import FEWEST, GLOSSARY, METRICS, READINGS, SCALERS, USUAL_READING
from .words import capitalised

ALONE = '<p class="empty">There is only one method.</p>'
RUNS = {"name": "runs", "heading": "Which runs are these?"}
MEANINGS = {
    name: f"{term.long}: {term.meaning}{f', {term.direction}' if term.direction else ''}"
    for name, term in GLOSSARY.items()
}
HINTS = {spec.head: MEANINGS[spec.short] for spec in METRICS.values()}
HINTS |= {f"+ {scaler.short}": f"after {MEANINGS[scaler.short]}" for scaler in SCALERS.values() if scaler.short}


def page_data(
    settings: Mapping[str, Sequence[Results]],
    skipped: Sequence[Skipped] = (),
    *,
    command: Callable[[Experiment], str] = lambda experiment: "",
    files: Sequence[str] = (),
) -> Json:
    """Everything the page of a report shows, as plain JSON, the setting with most runs first.

    `command` gives the command line that repeats an experiment; `files` are paths from the page to link to.
    """
    filled = [(heading, members) for heading, members in settings.items() if members]
    filled.sort(key=lambda entry: -sum(len(one.seeds) for one in entry[1]))
    everyone = [one for _, members in filled for one in members]
    counts = {
        "runs": sum(len(one.seeds) for one in everyone),
        "methods": len({one.label for one in everyone}),
        "seeds": len({seed for one in everyone for seed in one.seeds}),
        **({"settings": len(filled)} if len(filled) != 1 else {}),
    }
    made = [setting_data(heading, members, command) for heading, members in filled]
    left_out = [(str(entry.directory), entry.reason) for entry in skipped]
    return page_of(made, [*SECTIONS, RUNS], "socrates report", counts, left_out, files)


def page_of(
    settings: Sequence[Json],
    sections: Sequence[Json],
    written_by: str,
    counts: Mapping[str, int],
    skipped: Sequence[tuple[str, str]] = (),
    files: Sequence[str] = (),
) -> Json:
    """A page of settings that `composed` made: what was counted, what was left out, and the files beside it."""
    return {
        "written_by": written_by,
        "counts": counts,
        "sections": sections,
        "readings": {name: f"{capitalised(words)}." for name, words in READINGS.items()},
        "chart_template": json.loads(asset("template.json")),
        "settings": settings,
        "skipped": [{"what": what, "reason": reason} for what, reason in skipped],
        "files": files_by_name(files),
        "glossary": MEANINGS,
    }


def files_by_name(files: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """Paths from the page, by folder and by name without ending.

    >>> files_by_name(["tables/runs.md", "tables/runs.csv", "figures/nll.pdf"])
    {'tables': {'runs': ['md', 'csv']}, 'figures': {'nll': ['pdf']}}
    """
    found: dict[str, dict[str, list[str]]] = {}
    for path in map(PurePosixPath, files):
        found.setdefault(str(path.parent), {}).setdefault(path.stem, []).append(path.suffix[1:])
    return found


def setting_data(heading: str, members: Sequence[Results], command: Callable[[Experiment], str]) -> Json:
    """One setting of a report: the answer, its charts, and the tables that follow the reading."""
    look = styles({one.label: one.method for one in members}, first_shown(members))
    methods = methods_of(members, look)
    charts = {one.__name__.rpartition(".")[2]: one.charts(members, look) for one in FIGURES}
    html = partial(to_html, methods=methods, hints=HINTS)
    differences = significance_table({heading: members}, metrics=FEWEST).without_first_key()
    tables = {
        "overview": by_reading(members, lambda reading: html(overview_table(members, reading), sortable=True)),
        "scaling": by_reading(members, lambda reading: html(scaled_table(members, reading))),
        "differences": {USUAL_READING: html(differences) if len(members) > 1 else ALONE},
    }
    found = answer(members)
    several = len(found.lines) > 1
    values = forest(found.lines, look, offered=MOST_REFERENCES if several else 0)
    references = range(min(len(found.lines), MOST_REFERENCES) if several else 0)
    runs = [(run, look[one.label], one.label) for one in members for run in one.runs]
    listed = markup("runs.html", runs=runs, command=command, duration=duration, dumps=json.dumps)
    unknown = any(one.unknown_class for one in members)
    switch = {"readings": READINGS, "agreement": agreement(members)} if unknown else {}
    made = composed(heading, methods, SECTIONS, charts, tables, screen(found, values), runs=listed, **switch)
    forests = [forest(found.lines, look, place) for place in references]
    return {**made, "unknown": unknown, "forests": forests, "forest": values}


def agreement(members: Sequence[Results]) -> str:
    """How many answers are "unknown", and by how much the readings therefore differ; nothing if that is not known.

    >>> agreement([])
    ''
    """
    own = [one for one in members if one.unknown_class]
    rows = np.array([bins.count.sum() for one in own for bins in one.bins("test", USUAL_READING)])
    shares = np.array([share for one in own for share in one.values("unknown_share")])
    if not len(rows) or len(rows) != len(shares) or not np.isfinite(shares).all():
        return ""
    counted = f"{round(float(shares @ rows)):,} of {round(rows.sum()):,} answers are “unknown”"
    spread = 0.0
    for metric in FEWEST:
        means = [[100 * mean_std(one.values(metric, reading=reading))[0] for reading in READINGS] for one in own]
        spread = max(spread, float(np.nanmax(np.ptp(means, axis=1))))
    if spread < 0.015:
        return f"{counted}: the {len(READINGS)} readings agree, no accuracy or ECE moves by more than 0.01 points."
    return f"{counted}: between the {len(READINGS)} readings accuracy or ECE moves by up to {spread:.2f} points."


def methods_of(members: Sequence[Results], look: Mapping[str, Style]) -> dict[str, Json]:
    """The look of each label on the page, and why its runs mean nothing if they collapsed."""
    return {one.label: {**vars(look[one.label]), "collapsed": one.collapse_reasons} for one in members}


def composed(
    heading: str,
    methods: Mapping[str, Json],
    sections: Sequence[Json],
    charts: Mapping[str, Sequence[Chart]],
    tables: Mapping[str, Mapping[str, Any]],
    screen: str,
    **more: Any,
) -> Json:
    """One setting of a page: a section has the charts and the table of its name; `more` goes to the template."""
    every = [chart for found in charts.values() for chart in found]
    legends = {
        name: {trace.get("meta") for chart in found for figure in chart.figures.values() for trace in figure["data"]}
        for name, found in charts.items()
    }
    shown = {"charts": charts, "legends": legends, "tables": tables, "methods": methods, "sections": sections}
    colours = markup("colours.html", methods=methods, on_dark=on_dark, faded=faded, dark=DARK)
    return {
        "title": heading,
        "unknown": False,
        "screen": f"{colours}{screen}",
        "html": markup("setting.html", **shown, **more),
        "tables": tables,
        "charts": {
            chart.name: {"figures": chart.figures, "captions": chart.captions, "linear": chart.linear}
            for chart in every
            if chart.figures
        },
        "late": [one["place"] for one in methods.values() if not one["shown_first"]],
        "forests": [],
        "forest": "",
    }


def write_page(path: Path | str, data: Json, title: str, note: str | None = None) -> None:
    """Write the page of `page_data`, whole or not at all; `note` is shown in a banner below the title."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(render(data, title, note).encode())


def render(data: Json, title: str, note: str | None = None) -> str:
    """The page as text: script, data and chart library come last, for the first paint."""
    from plotly.offline import get_plotlyjs

    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":")) if data["settings"] else ""
    about = {"title": title, "note": note, "css": asset("page.css"), "script": asset("page.js")}
    packed = {"packed_data": _packed(text), "packed_plotly": _packed(get_plotlyjs() if text else "")}
    return markup("page.html", **data, **about, **packed)


def _packed(text: str) -> str:
    """Text as compressed base64, which no markup can break out of."""
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(7.26), duration(754), duration(9000)
    ('7.3 s', '12 min 34 s', '2 h 30 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
