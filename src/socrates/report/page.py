"""The report's page: one file that opens from disk, needs no network, and paints before its charts are there."""

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
from socrates.report.aggregate import Group, Setting, Skipped
from socrates.report.pagedata import setting_data
from socrates.report.pagetables import COLUMNS, COMPARED, SCALERS

Json = dict[str, Any]

READINGS = {
    "answer": "Unknown is one more answer, and never a right one: as in the published numbers.",
    "abstain": "The best known class answers; belief in unknown lowers its confidence.",
    "renormalize": "Unknown is dropped before the softmax, as if it had never been there.",
    "spread": "Belief in unknown is shared equally among the known classes.",
}
SCRIPTS = ("charts.js", "layout.js", "tables.js", "page.js")


def page_data(
    settings: Mapping[Setting, Sequence[Group]],
    skipped: Sequence[Skipped] = (),
    *,
    command: Callable[[Experiment], str],
) -> Json:
    """Everything the page shows, as plain JSON, the setting with most runs first.

    `command` gives the command line that repeats an experiment.
    """
    filled = [(setting, members) for setting, members in settings.items() if members]
    filled.sort(key=lambda entry: -sum(len(group.runs) for group in entry[1]))
    groups = [group for _, members in filled for group in members]
    titles = {column.key: column.title for column in COLUMNS}
    return {
        "counts": {
            "runs": sum(len(group.runs) for group in groups),
            "methods": len({group.label for group in groups}),
            "seeds": len({seed for group in groups for seed in group.seeds}),
            "settings": len(filled),
        },
        "readings": [{"key": key, "explain": words} for key, words in READINGS.items()],
        "columns": [
            *({"title": column.title, "hint": column.hint} for column in COLUMNS),
            {"title": "Seeds", "hint": "Runs of the method"},
            {"title": "Collapsed", "hint": "Runs that ended with one answer for all; not ranked"},
        ],
        "scalers": SCALERS,
        "compared": [titles[key] for key in COMPARED],
        "settings": [setting_data(setting, members, command) for setting, members in filled],
        "skipped": [{"directory": str(entry.directory), "reason": entry.reason} for entry in skipped],
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
    first = settings[0]["title"] if settings else "No finished run was found."
    return Template(_asset("page.html")).substitute(
        title=escape(title),
        css=_asset("page.css"),
        counts=counts_html(data["counts"]),
        note=f'<p class="note">{escape(note)}</p>' if note else "",
        setting_hidden="" if len(settings) > 1 else "hidden",
        settings="".join(f'<option value="{i}">{escape(s["title"])}</option>' for i, s in enumerate(settings)),
        readings=readings_html(),
        explain=escape(READINGS["answer"]),
        setting_title=escape(first),
        overview=overview_html(data),
        skipped=skipped_html(data["skipped"]),
        scripts=scripts_html(data) if settings else "",
    )


def counts_html(counts: Mapping[str, int]) -> str:
    """The numbers below the title."""
    words = {name: name.removesuffix("s") if number == 1 else name for name, number in counts.items()}
    return "".join(f"<div><dt>{words[name]}</dt><dd>{number}</dd></div>" for name, number in counts.items())


def readings_html() -> str:
    """The switch for the reading of the unknown class."""
    return "\n      ".join(
        f'<label title="{escape(words)}"><input type="radio" name="reading" value="{key}"'
        f"{' checked' if key == 'answer' else ''}><span>{key}</span></label>"
        for key, words in READINGS.items()
    )


def overview_html(data: Json) -> str:
    """The overview of the first setting, so that there is something to read before any script has run."""
    if not data["settings"]:
        return '<p class="empty">There is nothing to compare yet.</p>'
    first = data["settings"][0]
    heads = "".join(
        f'<th scope="col"><button type="button">{escape(column["title"])}</button></th>'
        for column in ({"title": "Method"}, *data["columns"])
    )
    rows = "".join(
        _row_html(method, cells) for method, cells in zip(first["methods"], first["overview"]["answer"], strict=True)
    )
    return f'<table id="overview-table"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'


def _row_html(method: Json, cells: Sequence[Sequence[Any]]) -> str:
    dot = f'<span class="swatch" aria-hidden="true" style="--light:{method["colour"]};--dark:{method["dark"]}"></span>'
    reason = f'<small class="bad">{escape(method["collapsed"])}</small>' if method["collapsed"] else ""
    head = f'<th scope="row">{dot}{escape(method["label"])}{reason}</th>'
    tail = "".join(f'<td class="{mark}">{_cell_html(text)}</td>' for text, _, mark in cells)
    opening = '<tr class="collapsed">' if method["collapsed"] else "<tr>"
    return f"{opening}{head}{tail}</tr>"


def _cell_html(text: str) -> str:
    mean, sign, deviation = text.partition(" ± ")
    return f'{escape(mean)}<span class="pm">\u00a0±\u00a0{escape(deviation)}</span>' if sign else escape(text)


def skipped_html(skipped: Sequence[Mapping[str, str]]) -> str:
    """The section of the directories that were left out; nothing if there are none."""
    if not skipped:
        return ""
    entries = "".join(
        f"<li><code>{escape(entry['directory'])}</code><span>{escape(entry['reason'])}</span></li>" for entry in skipped
    )
    return (
        '<section id="skipped"><h2>Skipped</h2>'
        '<p class="how">Directories that hold no finished, whole run, and why.</p>'
        f'<ul class="card skipped">{entries}</ul></section>'
    )


def scripts_html(data: Json) -> str:
    """The page's own scripts, then the data and the chart library, packed: they come last, for the first paint."""
    from plotly.offline import get_plotlyjs

    own = "".join(f"<script>\n{_asset(name)}</script>\n" for name in SCRIPTS)
    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return own + _packed("packed-data", text) + _packed("packed-plotly", get_plotlyjs())


def _packed(name: str, text: str) -> str:
    """Text as compressed base64, which no markup can break out of."""
    code = base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()
    return f'<script type="application/octet-stream" id="{name}">{code}</script>\n'


def _asset(name: str) -> str:
    return (resources.files("socrates.report") / "assets" / name).read_text(encoding="utf-8")
