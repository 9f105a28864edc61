"""The report's page: one file that opens from disk, needs no network, and paints before its charts are there.

Tables and legends are written here as markup, charts as plotly figures; the script only mounts, links and switches.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from socrates.experiment import Experiment
from socrates.records import replacing

from .aggregate import Skipped
from .comparisons import overview_table
from .figures import FIGURES
from .figures.chart import Chart, Json, Section, by_reading, key_svg
from .listings import reference, significance_table
from .results import Results
from .style import Style, on_dark, styles
from .tables import to_html
from .vocabulary import FEWEST, METHODS, METRICS, READINGS, USUAL_READING

MOST_REFERENCES = 12  # that differences are offered to, the best first
OVERVIEW = Section(
    "overview",
    "Overview",
    "Test set, mean ± standard deviation over seeds. Best of a column in bold, second underlined; click a head to "
    "sort. An ECE near its floor, what a perfectly calibrated model of this confidence would measure, cannot be "
    "improved.",
)
DIFFERENCES = Section(
    "differences",
    "Differences",
    "Each method against one of them, paired over the seeds they share, with its 95 % interval. The verdict is “within "
    "seed noise” unless a paired t-test, corrected for the number of methods (Holm), says otherwise.",
)
RUNS = Section("runs", "Runs", "Every run that was read, with its whole configuration and the command that repeats it.")
SECTIONS = (OVERVIEW, *(one.SECTION for one in FIGURES), DIFFERENCES, RUNS)
HINTS = {spec.head: f"{spec.long}: {spec.meaning}" for spec in METRICS.values()}


def page_data(
    settings: Mapping[str, Sequence[Results]],
    skipped: Sequence[Skipped] = (),
    *,
    command: Callable[[Experiment], str] = lambda experiment: "",
) -> Json:
    """Everything the page shows, as plain JSON, the setting with most runs first.

    `command` gives the command line that repeats an experiment.
    """
    filled = [(heading, members) for heading, members in settings.items() if members]
    filled.sort(key=lambda entry: -sum(len(one.seeds) for one in entry[1]))
    everyone = [one for _, members in filled for one in members]
    return {
        "counts": {
            "runs": sum(len(one.seeds) for one in everyone),
            "methods": len({one.label for one in everyone}),
            "seeds": len({seed for one in everyone for seed in one.seeds}),
            "settings": len(filled),
        },
        "readings": {name: f"{words[0].upper()}{words[1:]}." for name, words in READINGS.items()},
        "base": json.loads(_asset("chart.json")),
        "settings": [setting_data(heading, members, command) for heading, members in filled],
        "skipped": [{"directory": str(entry.directory), "reason": entry.reason} for entry in skipped],
    }


def setting_data(heading: str, members: Sequence[Results], command: Callable[[Experiment], str]) -> Json:
    """One setting: its markup, its charts, and the tables that follow the reading (and the reference)."""
    look = styles({one.label: one.method for one in members})
    places = {one.label: place for place, one in enumerate(members)}
    reasons = {one.label: "; ".join(dict.fromkeys(one.collapses.values())) for one in members}

    def key_html(key: str) -> str:
        """A method's name with its colour, and why it means nothing if it collapsed; other keys as they are."""
        if key not in places:
            return escape(key)
        reason = f'<small class="bad">{escape(reasons[key])}</small>' if reasons[key] else ""
        return f"{_swatch(places[key])}{escape(key)}{reason}"

    def tables(section: Section) -> dict[str, Any]:
        if section is DIFFERENCES:
            return by_reading(
                members, tuple(READINGS), lambda reading: _differences(heading, members, reading, key_html)
            )
        make = overview_table if section is OVERVIEW else section.table
        if make is None:
            return {}
        shape: Json = {"hints": HINTS, "sortable": section is OVERVIEW}
        return by_reading(members, tuple(READINGS), lambda reading: to_html(make(members, reading), key_html, **shape))

    drawn = {one.SECTION.name: one.charts(members, look) for one in FIGURES}
    made = {section.name: found for section in SECTIONS if (found := tables(section))}
    parts = [
        _section(section, drawn.get(section.name), made.get(section.name, {}), members, look)
        for section in SECTIONS
        if section is not RUNS
    ]
    colours = [look[one.label].colour for one in members]
    rules = [
        f"{name}{{{''.join(f'--m{place}:{change(colour)};' for place, colour in enumerate(colours))}}}"
        for name, change in ((":root", str), (':root[data-shade="dark"]', on_dark))
    ]
    return {
        "title": heading,
        "unknown": any(one.unknown_class for one in members),
        "html": f"<style>{''.join(rules)}</style>{''.join(parts)}",
        "runs": "".join(_run(run, place, one.label, command) for place, one in enumerate(members) for run in one.runs),
        "tables": made,
        "charts": {chart.name: _chart_data(chart) for found in drawn.values() for chart in found},
    }


def write_page(path: Path | str, data: Json, title: str, note: str | None = None) -> None:
    """Write the page of `page_data`, whole or not at all; `note` is shown in a banner below the title."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(render(data, title, note).encode())


def render(data: Json, title: str, note: str | None = None) -> str:
    """The page as text. What stands in the data or title is shown as it is, never read as markup."""
    settings = data["settings"]
    counts = {name if number != 1 else name.removesuffix("s"): number for name, number in data["counts"].items()}
    return Template(_asset("page.html")).substitute(
        title=escape(title),
        css=_asset("page.css"),
        counts="".join(f"<div><dt>{name}</dt><dd>{number}</dd></div>" for name, number in counts.items()),
        note=f'<p class="note">{escape(note)}</p>' if note else "",
        nav="".join(f'<a href="#{section.name}">{escape(section.heading)}</a>' for section in SECTIONS),
        setting_hidden="" if len(settings) > 1 else "hidden",
        settings="".join(f'<option value="{i}">{escape(s["title"])}</option>' for i, s in enumerate(settings)),
        readings="".join(
            f'<label title="{escape(words)}"><input type="radio" name="reading" value="{name}"'
            f"{' checked' if name == USUAL_READING else ''}><span>{name}</span></label>"
            for name, words in data["readings"].items()
        ),
        explain=escape(data["readings"][USUAL_READING]),
        setting_title=escape(settings[0]["title"]) if settings else "No finished run was found.",
        content=settings[0]["html"] if settings else '<p class="empty">There is nothing to compare yet.</p>',
        runs=_headed(RUNS, '<div class="card" id="run-list"></div>') if settings else "",
        skipped=_skipped(data["skipped"]),
        scripts=_scripts(data) if settings else "",
    )


def _section(
    section: Section,
    charts: Sequence[Chart] | None,
    tables: Json,
    members: Sequence[Results],
    look: Mapping[str, Style],
) -> str:
    """A section with its charts, and the table of the usual reading beneath."""
    name, body = section.name, ""
    if section is DIFFERENCES:
        body = _choice_of_reference(members)
    if charts is not None:
        empty = f'<p class="empty">{escape(section.empty)}</p>'
        cards = "".join(_card(chart) for chart in charts)
        body = f'{section.before}<div class="{section.layout}" id="{name}-charts">{cards or empty}</div>'
        if section.layout == "multiples":
            body += '<p class="more"><button type="button" id="show-all" hidden>Show all</button></p>'
        if section.legend and charts:
            body = f'<div class="legend">{_legend(charts, members, look)}</div>{body}'
    if tables:
        first = tables[USUAL_READING] if isinstance(tables[USUAL_READING], str) else tables[USUAL_READING][""]
        region = f'tabindex="0" role="region" aria-label="{escape(section.heading)} table"'
        body += f'<div class="card scroll" id="{name}-table" data-table="{name}" {region}>{first}</div>'
    return _headed(section, body)


def _headed(section: Section, body: str) -> str:
    how = f'<p class="how">{escape(section.how)}</p>'
    return f'<section id="{section.name}"><h2>{escape(section.heading)}</h2>{how}{body}</section>'


def _card(chart: Chart) -> str:
    """A chart with its caption, which the script keeps up with the reading."""
    dot, method = ("", "") if chart.method is None else (_swatch(chart.method), f' data-method="{chart.method}"')
    caption = f'<span class="caption">{escape(chart.captions.get(USUAL_READING, ""))}</span>'
    return (
        f'<figure class="card"{method}><figcaption>{dot}<b>{escape(chart.title)}</b> {caption}</figcaption>'
        f'{chart.before}<div class="chart {chart.kind}" data-chart="{chart.name}"></div>{chart.after}</figure>'
    )


def _chart_data(chart: Chart) -> Json:
    return {"figures": chart.figures, "captions": chart.captions, "linear": chart.linear}


def _legend(charts: Sequence[Chart], members: Sequence[Results], look: Mapping[str, Style]) -> str:
    """A button for each method of the charts, which shows or hides it everywhere."""
    drawn = {trace["meta"] for chart in charts for figure in chart.figures.values() for trace in figure["data"]}
    entries: list[str] = []
    for place, one in ((place, members[place]) for place in sorted(drawn)):
        why = f"collapsed: {'; '.join(dict.fromkeys(one.collapses.values()))}" if one.collapses else "Show or hide"
        kind = ' class="bad"' if one.collapses else ""
        key = key_svg(look[one.label].marker, f"var(--m{place})", look[one.label].dash)
        entries.append(
            f'<button type="button" data-method="{place}" aria-pressed="true" title="{escape(why)}"{kind}>'
            f"{key}{escape(one.label)}</button>"
        )
    return "".join(entries)


def _swatch(place: int) -> str:
    return f'<span class="swatch" aria-hidden="true" style="background:var(--m{place})"></span>'


def _references(members: Sequence[Results]) -> list[int]:
    """The places of those that all others can be compared with."""
    left = list(range(len(members)))
    chosen: list[int] = []
    while left and len(chosen) < MOST_REFERENCES:
        chosen.append(left.pop(reference([members[place] for place in left], "ece")))
    return sorted(chosen)


def _choice_of_reference(members: Sequence[Results]) -> str:
    best = METHODS["socrates"] if any(one.title == METHODS["socrates"] for one in members) else "method"
    options = [("", f"the best {best}"), *((str(place), members[place].label) for place in _references(members))]
    choices = "".join(f'<option value="{value}">{escape(label)}</option>' for value, label in options)
    return f'<p class="choose"><label><span>Compare with</span> <select id="reference">{choices}</select></label></p>'


def _differences(
    heading: str, members: Sequence[Results], reading: str, key_html: Callable[[str], str]
) -> dict[str, str]:
    """By the place of the reference, "" for the usual one."""
    if len(members) < 2:
        return {"": '<p class="empty">There is only one method.</p>'}
    found: dict[str, str] = {}
    for against in (None, *_references(members)):
        table = significance_table({heading: members}, "test", reading, FEWEST, against)
        found["" if against is None else str(against)] = to_html(table.without_first_key(), key_html)
    return found


def _run(run: Any, place: int, label: str, command: Callable[[Experiment], str]) -> str:
    """A run: what it was, how it ended, and how to repeat it."""
    state = f"collapsed: {run.collapsed}" if run.collapsed else "finished"
    told, config = command(run.experiment), json.dumps(run.experiment.to_json(), indent=2, ensure_ascii=False)
    return (
        f'<details class="run{" collapsed" if run.collapsed else ""}"><summary><b>{_swatch(place)}{escape(label)}</b>'
        f"<span>seed {run.experiment.seed}</span><span class=wide>{len(run.curves['epoch'])} epochs</span>"
        f'<span class=wide>{duration(run.seconds)}</span><span class="state">{escape(state)}</span></summary>'
        f'<div class="run-body"><p>Repeat it with</p><div class="command"><code>{escape(told)}</code>'
        f'<button type="button" data-copy>Copy</button></div><p>Configuration, from {escape(str(run.directory))}</p>'
        f"<pre>{escape(config)}</pre></div></details>"
    )


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(7.26), duration(754), duration(9000)
    ('7.3 s', '12 min 34 s', '2 h 30 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _skipped(skipped: Sequence[Mapping[str, str]]) -> str:
    """The section of the directories that were left out; nothing if there are none."""
    entries = "".join(
        f"<li><code>{escape(entry['directory'])}</code><span>{escape(entry['reason'])}</span></li>" for entry in skipped
    )
    section = Section("skipped", "Skipped", "Directories that hold no finished, whole run, and why.")
    return _headed(section, f'<ul class="card skipped">{entries}</ul>') if entries else ""


def _scripts(data: Json) -> str:
    """The page's own script, then the data and the chart library, packed: they come last, for the first paint."""
    from plotly.offline import get_plotlyjs

    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    own = f"<script>\n{_asset('page.js')}</script>\n"
    return own + _packed("packed-data", text) + _packed("packed-plotly", get_plotlyjs())


def _packed(name: str, text: str) -> str:
    """Text as compressed base64, which no markup can break out of."""
    code = base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()
    return f'<script type="application/octet-stream" id="{name}">{code}</script>\n'


def _asset(name: str) -> str:
    return (resources.files("socrates.report") / "assets" / name).read_text(encoding="utf-8")
