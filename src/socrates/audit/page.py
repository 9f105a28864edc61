"""The page of an audit: the report's page, with the sections of `assets/audit.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from socrates import scaling
from socrates.experiment import Part
from socrates.metrics.registry import audit_metrics
from socrates.palette import MARKERS, SERIES
from socrates.records import Evaluation
from socrates.report.figures import reliability
from socrates.report.figures.chart import Chart, Json, figure, mark, pen, scatter
from socrates.report.markup import asset
from socrates.report.page import composed, meanings, methods_of, page_of, write_page
from socrates.report.results import Results
from socrates.report.style import Style
from socrates.report.tables import to_html, write_table
from socrates.report.vocabulary import USUAL_READING

from .judge import Judgement
from .run import AuditResult
from .screen import scaler_file, screen
from .tables import shown_tables, tables_of

HOVER = (
    "answers %{customdata[0]:.1%} of the rows<br>%{customdata[1]:.2%} of them wrong<br>"
    "confidence at least %{customdata[2]:.3f}<extra></extra>"
)
AXES: Json = {
    "xaxis": {
        "title": {"text": "share of rows that are answered"},
        "range": [0, 1],
        "tickformat": ".0%",
    },
    "yaxis": {
        "title": {"text": "wrong among them"},
        "rangemode": "tozero",
        "tickformat": ".0%",
    },
}


def file_styles(labels: Sequence[str]) -> dict[str, Style]:
    """Return a style for each file, in an order in which the first colours differ most."""
    return {
        label: Style(SERIES[place % len(SERIES)], "solid", MARKERS[place % len(MARKERS)], place)
        for place, label in enumerate(labels)
    }


def risk_coverage_chart(files: Sequence[Judgement], styles: Mapping[str, Style]) -> Chart:
    """Return the share of wrong answers as the answered share grows, with the certificates."""
    traces: list[Json] = []
    for judged in files:
        traces += _risk_coverage_traces(judged, styles[judged.label])
    summaries = [
        f"{judged.label}: {100 * judged.curve.risk[-1]:.2f}% wrong if all are answered"
        for judged in files
    ]
    advice = (
        "Look for a line that stays low; bad is one that is high at its left, among the surest "
        "answers."
    )
    return Chart(
        "risk-coverage",
        "Risk and coverage",
        {USUAL_READING: figure(traces, **AXES)},
        {USUAL_READING: advice},
        summary=f"{'; '.join(summaries)}.",
    )


def _risk_coverage_traces(judged: Judgement, style: Style) -> list[Json]:
    """Return the curve of a file, and a mark for its certificate."""
    curve = judged.curve
    shown = (curve.coverage, curve.risk, curve.threshold)
    line = {"mode": "lines", "line": pen(style, 2)}
    traces = [scatter(judged.label, style, curve.coverage, curve.risk, shown, HOVER, **line)]
    certificate = judged.certificate
    if certificate is not None:
        coverage = np.array([certificate.coverage])
        risk = np.array([certificate.num_errors / certificate.num_accepted])
        shown = (coverage, risk, np.array([certificate.threshold]))
        hover = f"certified: at most {100 * certificate.risk:g}% wrong<br>{HOVER}"
        dot = {"mode": "markers", "marker": mark(style, 11)}
        traces.append(scatter(judged.label, style, coverage, risk, shown, hover, **dot))
    return traces


def audit_page(result: AuditResult) -> Json:
    """Return everything the page shows, as plain JSON."""
    files = result.files
    members = [results_of(judged) for judged in files]
    styles = file_styles([judged.label for judged in files])
    methods = methods_of(members, styles)
    charts = {
        "reliability": reliability.charts(members, styles),
        "risk": [risk_coverage_chart(files, styles)],
    }
    tables = {
        name: {USUAL_READING: to_html(table, methods=methods)}
        for name, table in shown_tables(result).items()
    }
    sections = [
        section
        for section in json.loads(asset("audit.json"))
        if section["name"] in {*charts, *tables}
    ]
    setting = composed("", methods, sections, charts, tables, screen(result))
    return page_of([setting], sections, "socrates audit", {}) | {"glossary": glossary()}


def results_of(judged: Judgement) -> Results:
    """Return a file as the figures of a report take it: a method that was measured once."""
    numbers = {**judged.values, "ece_floor": judged.floor}
    by_scaler = {"none": {"test": {"plain": numbers}}}
    evaluation = Evaluation(0, len(judged.bins.count), False, by_scaler)
    return Results(
        judged.label,
        Part(judged.label),
        [evaluation],
        bins=lambda split, reading: [judged.bins],
    )


def glossary() -> dict[str, str]:
    """Return the meaning of each word of the page; intervals and p are of rows, not of seeds.

    >>> glossary()["p"]
    'p value: how often chance alone makes a calibrated model measure as much'
    """
    of_metrics: dict[str, str] = {}
    for metric in audit_metrics().values():
        details = [metric.meaning, metric.direction]
        of_metrics[metric.symbol] = f"{metric.title}: {', '.join(filter(None, details))}"
    return {
        **of_metrics,
        "95%": "95% interval: made from the rows by a rule that catches the true value in about 95 "
        "of 100 such files",
        "p": "p value: how often chance alone makes a calibrated model measure as much",
        "unknown": meanings()["unknown"],
    }


def write_audit(result: AuditResult, out: Path, title: str) -> list[Path]:
    """Write index.html, tables and the scalers to use below `out`.

    Returns:
        what was written, the page first.
    """
    page = out / "index.html"
    write_page(page, audit_page(result), title)
    written = [page]
    for table in tables_of(result).values():
        written += write_table(table, out / "tables")
    for judged in result.files:
        recalibrated = judged.recalibrated
        if recalibrated.scaler is not None:
            path = out / scaler_file(judged)
            scaling.save(recalibrated.scaler, path)
            written.append(path)
    return written
