"""The page of an audit: the report's page, with its own first screen and the sections of `assets/audit.json`."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from socrates import scaling
from socrates.experiment import Part
from socrates.records import Evaluation
from socrates.report.answer import Answer, Estimate, Line
from socrates.report.figures import reliability
from socrates.report.figures.chart import Chart, Json, figure, mark, pen, scatter
from socrates.report.forest import screen
from socrates.report.markup import asset
from socrates.report.page import composed, methods_of, page_of, write_page
from socrates.report.results import Results
from socrates.report.style import MARKERS, Style
from socrates.report.tables import to_html, write_table
from socrates.report.vocabulary import COLOURS, USUAL_READING

from .answer import LEVEL, answer
from .judge import Judgement
from .run import Audit
from .tables import shown_tables, tables_of


def first_answer(files: Sequence[Judgement], members: Sequence[Results]) -> Answer:
    """The answers of the files as the first screen takes them: of one file its verdict, of several how many are fine."""
    lines = [line_of(one, results) for one, results in zip(files, members, strict=True)]
    lines.sort(key=lambda line: line.ece.mean)
    said = [answer(one) for one in files]
    if len(files) == 1:
        headline, _, measured = said[0][0].partition(": ")
        return Answer(f"{headline}.", said[0][1:], tuple(lines), f"{measured[:1].upper()}{measured[1:]}")
    fine = sum(one.test.p_value >= LEVEL for one in files)
    best = lines[0]
    headline = f"{best.label} has the lowest calibration error."
    verdict = f"{fine} of {len(files)} files are calibrated as far as their rows can tell."
    return Answer(headline, tuple(sentence for own in said for sentence in own), tuple(lines), verdict)


def line_of(one: Judgement, results: Results) -> Line:
    """A file as a row of the forest; its intervals are those of other rows in the place of these."""
    ece, accuracy = (
        Estimate(*(100 * of for of in (one.values[name], one.intervals[name].low, one.intervals[name].high)), 1)
        for name in ("ece", "accuracy")
    )
    return Line(one.label, results, "none", USUAL_READING, ece, accuracy, 100 * one.floor, False)



def results_of(one: Judgement) -> Results:
    """A file as the report's figures take it: a method that was measured once."""
    numbers = {**one.values, "ece_floor": one.floor}
    evaluation = Evaluation(0, len(one.bins.count), False, {"none": {"test": {"plain": numbers}}})
    return Results(one.label, Part(one.label), [evaluation], bins=lambda split, reading: [one.bins])


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
    return Chart("risk-coverage", "Risk and coverage", shown, summary=f"{'; '.join(words)}.")


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
    opening = screen(first_answer(files, members), look, interval="95 % over the choice of rows", compared=False)
    setting = composed("", methods, shown, charts, tables, opening)
    counts = {"files": len(files), "rows": sum(one.measured.num_rows for one in files)}
    return page_of([setting], shown, "socrates audit", counts)


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
