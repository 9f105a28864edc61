"""The report's page: one file that opens from disk, needs no network, and paints before its charts are there.

Tables and legends are written here as markup, charts as plotly figures; the script only mounts, links and switches.
"""

import base64
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from socrates.experiment import Experiment
from socrates.files import replacing

from .aggregate import Skipped
from .comparisons import overview_table, scaled_table
from .figures import FIGURES, SECTIONS
from .figures.chart import Chart, Json, by_reading, first_shown
from .listings import reference, significance_table
from .markup import asset, markup
from .results import Results
from .style import DARK, Style, faded, on_dark, styles
from .tables import to_html
from .vocabulary import FEWEST, METHODS, METRICS, READINGS

MOST_REFERENCES = 12  # that differences are offered to, the best first
ALONE = '<p class="empty">There is only one method.</p>'
LEAD = "How right each method is, and how far its confidence can be trusted, from its saved predictions alone."
RUNS = {"name": "runs", "heading": "Runs"}
HINTS = {spec.head: f"{spec.long}: {spec.meaning}" for spec in METRICS.values()}


def page_data(
    settings: Mapping[str, Sequence[Results]],
    skipped: Sequence[Skipped] = (),
    *,
    command: Callable[[Experiment], str] = lambda experiment: "",
) -> Json:
    """Everything the page of a report shows, as plain JSON, the setting with most runs first.

    `command` gives the command line that repeats an experiment.
    """
    filled = [(heading, members) for heading, members in settings.items() if members]
    filled.sort(key=lambda entry: -sum(len(one.seeds) for one in entry[1]))
    everyone = [one for _, members in filled for one in members]
    counts = {
        "runs": sum(len(one.seeds) for one in everyone),
        "methods": len({one.label for one in everyone}),
        "seeds": len({seed for one in everyone for seed in one.seeds}),
        "settings": len(filled),
    }
    made = [setting_data(heading, members, command) for heading, members in filled]
    left_out = [(str(entry.directory), entry.reason) for entry in skipped]
    return page_of(made, [*SECTIONS, RUNS], LEAD, "socrates report", counts, left_out)


def page_of(
    settings: Sequence[Json],
    sections: Sequence[Json],
    lead: str,
    written_by: str,
    counts: Mapping[str, int],
    skipped: Sequence[tuple[str, str]] = (),
) -> Json:
    """A page of settings that `composed` made: a line below the title, what was counted, and what was left out."""
    return {
        "lead": lead,
        "written_by": written_by,
        "counts": counts,
        "sections": sections,
        "readings": {name: f"{words[0].upper()}{words[1:]}." for name, words in READINGS.items()},
        "chart_template": json.loads(asset("template.json")),
        "settings": settings,
        "skipped": [{"what": what, "reason": reason} for what, reason in skipped],
    }


def setting_data(heading: str, members: Sequence[Results], command: Callable[[Experiment], str]) -> Json:
    """One setting of a report: its charts, and the tables that follow the reading (and the reference)."""
    look = styles({one.label: one.method for one in members}, first_shown(members))
    methods = methods_of(members, look)
    charts = {one.__name__.rpartition(".")[2]: one.charts(members, look) for one in FIGURES}
    html = partial(to_html, methods=methods, hints=HINTS)
    differences = partial(significance_table, {heading: members}, metrics=FEWEST)
    references = _references(members)
    made: dict[str, Callable[[str], Any]] = {
        "overview": lambda reading: html(overview_table(members, reading), sortable=True),
        "scaling": lambda reading: html(scaled_table(members, reading)),
        "differences": lambda reading: {
            value: html(differences(reading, against=place).without_first_key()) if len(members) > 1 else ALONE
            for value, (_, place) in references.items()
        },
    }
    tables = {name: by_reading(members, make) for name, make in made.items()}
    runs = [(run, look[one.label], one.label) for one in members for run in one.runs]
    return {
        **composed(heading, methods, SECTIONS, charts, tables, references=references),
        "unknown": any(one.unknown_class for one in members),
        "runs": markup("runs.html", runs=runs, command=command, duration=duration, dumps=json.dumps),
    }


def methods_of(members: Sequence[Results], look: Mapping[str, Style]) -> dict[str, Json]:
    """The look of each label on the page, and why its runs mean nothing if they collapsed."""
    return {
        one.label: {**vars(look[one.label]), "collapsed": "; ".join(dict.fromkeys(one.collapses.values()))}
        for one in members
    }


def composed(
    heading: str,
    methods: Mapping[str, Json],
    sections: Sequence[Json],
    charts: Mapping[str, Sequence[Chart]],
    tables: Mapping[str, Mapping[str, Any]],
    **more: Any,
) -> Json:
    """One setting of a page: a section has the charts and the table of its name; `more` goes to the template."""
    legends = {
        name: {trace.get("meta") for chart in found for figure in chart.figures.values() for trace in figure["data"]}
        for name, found in charts.items()
    }
    shown = {"charts": charts, "legends": legends, "tables": tables, "methods": methods, "sections": sections}
    return {
        "title": heading,
        "unknown": False,
        "html": markup("setting.html", on_dark=on_dark, faded=faded, dark=DARK, **shown, **more),
        "tables": tables,
        "charts": {
            chart.name: {"figures": chart.figures, "captions": chart.captions, "linear": chart.linear}
            for found in charts.values()
            for chart in found
        },
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


def _references(members: Sequence[Results]) -> dict[str, tuple[str, int | None]]:
    """What differences are offered to, in words and as a place: the usual one, then the best, by their place."""
    left = list(range(len(members)))
    chosen: list[int] = []
    while left and len(chosen) < MOST_REFERENCES:
        chosen.append(left.pop(reference([members[place] for place in left], "ece")))
    best = METHODS["socrates"] if any(one.title == METHODS["socrates"] for one in members) else "method"
    return {"": (f"the best {best}", None), **{str(place): (members[place].label, place) for place in sorted(chosen)}}


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(7.26), duration(754), duration(9000)
    ('7.3 s', '12 min 34 s', '2 h 30 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
