"""The page of an audit: the report's page, with its own first screen and the sections of `assets/audit.json`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from socrates import scaling
from socrates.report.figures import reliability
from socrates.report.figures.chart import Chart, Json, figure, mark, pen, scatter
from socrates.report.forest import forest, screen
from socrates.report.markup import asset
from socrates.report.page import MEANINGS, composed, methods_of, page_of, write_page
from socrates.report.style import MARKERS, Style
from socrates.report.tables import to_html, write_table
from socrates.report.vocabulary import AUDITED, COLOURS, USUAL_READING

from .answer import answer, answer_of, results_of
from .judge import Judgement
from .run import Audit
from .tables import shown_tables, tables_of


def look_of(labels: Sequence[str]) -> dict[str, Style]:
    """Colours in the order of the files, so that the first ones differ most."""
    colours = [*COLOURS.values()]
    return {
        label: Style(colours[place % len(colours)], "solid", MARKERS[place % len(MARKERS)], place)
        for place, label in enumerate(labels)
    }


def risk_coverage_chart(files: Sequence[Judgement], look: Mapping[str, Style]) -> Chart:
    """Share of wrong answers as the answered share grows, a line for each file, and where the certificate stands."""
    hover = "answers %{customdata[0]:.1%} of the rows<br>%{customdata[1]:.2%} of them wrong<br>confidence at least "
    hover += "%{customdata[2]:.3f}<extra></extra>"
    traces: list[Json] = []
    for one in files:
        style, curve = look[one.label], one.curve
        shown = (curve.coverage, curve.risk, curve.threshold)
        drawn = {"mode": "lines", "line": pen(style, 2)}
        traces.append(scatter(one.label, style, curve.coverage, curve.risk, shown, hover, **drawn))
        if made := one.certificate:
            numbers = (made.coverage, made.num_errors / made.num_accepted, made.threshold)
            coverage, risk, threshold = (np.array([number]) for number in numbers)
            dot = {"mode": "markers", "marker": mark(style, 11)}
            said = f"certified: at most {100 * made.risk:g} % wrong<br>{hover}"
            traces.append(scatter(one.label, style, coverage, risk, (coverage, risk, threshold), said, **dot))
    axes = {
        "xaxis": {"title": {"text": "share of rows that are answered"}, "range": [0, 1], "tickformat": ".0%"},
        "yaxis": {"title": {"text": "wrong among them"}, "rangemode": "tozero", "tickformat": ".0%"},
    }
    words = [f"{one.label}: {100 * one.curve.risk[-1]:.2f} % wrong if all are answered" for one in files]
    shown = {USUAL_READING: figure(traces, **axes)}
    look_for = "Look for a line that stays low; bad is one that is high at its left, among the surest answers."
    return Chart("risk-coverage", "Risk and coverage", shown, {USUAL_READING: look_for}, summary=f"{'; '.join(words)}.")


def audit_page(made: Audit) -> Json:
    """Everything the page shows, as plain JSON."""
    files = made.files
    members = [results_of(one) for one in files]
    look = look_of([one.label for one in files])
    methods = methods_of(members, look)
    sections = json.loads(asset("audit.json"))
    charts = {
        "reliability": reliability.charts(members, look),
        "risk": [risk_coverage_chart(files, look)],
    }
    tables = {name: {USUAL_READING: to_html(table, methods=methods)} for name, table in shown_tables(made).items()}
    shown = [one for one in sections if one["name"] in {*charts, *tables}]
    found = answer_of(made)
    if len(files) > 1:  # what would make each of them better
        found = replace(found, sentences=tuple(sentence for one in files for sentence in answer(one)))
    opening = screen(found, forest(found.lines, look, offered=0), "95 % over the choice of the rows", compared=False)
    setting = composed("", methods, shown, charts, tables, opening)
    counts = {"files": len(files), "rows": sum(one.measured.num_rows for one in files)}
    return page_of([setting], shown, "socrates audit", counts) | {"glossary": meanings()}


def meanings() -> dict[str, str]:
    """What the words of the page mean: its metrics, and what intervals and p are of rows, not of seeds.

    >>> meanings()["p"]
    'p value: how often chance alone makes a calibrated model measure as much'
    """
    metrics = {spec.short: MEANINGS[spec.short] for spec in AUDITED.values()}
    return {
        **metrics,
        "95 %": "95 % interval: where the value lies for other rows of the same kind, by the bootstrap",
        "p": "p value: how often chance alone makes a calibrated model measure as much",
        "unknown": MEANINGS["unknown"],
    }


def write_audit(made: Audit, out: Path, title: str) -> list[Path]:
    """Write index.html, tables and the scalers to use below `out`; returns what was written, the page first."""
    page = out / "index.html"
    write_page(page, audit_page(made), title)
    written = [page]
    for table in tables_of(made).values():
        written += write_table(table, out / "tables")
    for one in made.files:
        if one.recalibrated.scaler is not None:
            path = out / f"{one.label.replace('/', '-')}-{one.recalibrated.winner}.npz"
            scaling.save(one.recalibrated.scaler, path)
            written.append(path)
    return written
