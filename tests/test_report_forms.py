"""The three forms of a table: Markdown, CSV, and LaTeX that compiles."""

from __future__ import annotations

import csv
import io
import math
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from report_runs import experiment, make_run

from socrates.report.aggregate import Skipped, find_runs, group_runs, read_runs
from socrates.report.comparisons import performance_table, reading_table
from socrates.report.latex import to_latex
from socrates.report.listings import runs_table, significance_table, skipped_table
from socrates.report.tables import Cell, Table, TableRow, to_csv, to_html, to_markdown, write_table
from socrates.report.vocabulary import compared_metrics

NASTY = r"a_b & 100 % #1 $x$ {y} ~ ^ \ | < > [z] *w* `v` γ α β ± – † ü 中"


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Three methods over three seeds, of which two runs collapsed."""
    root = tmp_path_factory.mktemp("three")
    for method in ("ce", "focal", "socrates"):
        for seed in (1, 2, 3):
            collapsed = (
                "97 % of the answers are 'unknown'" if method == "socrates" and seed > 1 else None
            )
            make_run(
                root,
                experiment(method, seed),
                test={"ece": 0.04 + seed / 1000},
                collapsed=collapsed,
            )
    return settings_of(root)


def settings_of(root):
    return group_runs(read_runs(find_runs(root))[0])


def published(results, table, metric, scaler):
    return SimpleNamespace(
        mean=4.39, std=0.25, caveat=("cut", "A sentence.") if metric == "cw_ece" else ()
    )


def test_rows_must_fit_the_heads():
    with pytest.raises(ValueError, match="'t' has 2 heads"):
        Table("t", "T", ("a", "b"), (TableRow(("x",), ()),))
    with pytest.raises(ValueError, match=r"\[\(1, 1\), \(2, 0\)\]"):
        Table("t", "T", ("a", "b"), (TableRow(("x",), ("y",)), TableRow(("x", "y"), ())))


def test_markdown_escapes_and_leaves_out_repeated_keys():
    rows = [
        TableRow(("one", "same"), (Cell(1.0),)),
        TableRow(("one", "same"), (Cell(2.0),)),
        TableRow(("two", "same"), (Cell(3.0),)),
    ]
    lines = to_markdown(Table("t", "T", ("a", "b", "c"), tuple(rows))).splitlines()[4:]
    assert [line.split("|")[1:3] for line in lines] == [
        [" one ", " same "],
        ["     ", " same "],
        [" two ", " same "],
    ]
    text = to_markdown(
        Table("t", "T", ("a",), (TableRow((r"x|y *z* <b> a_b _c_" + "\nnext",), ()),))
    )
    assert r"| x\|y \*z\* \<b> a_b \_c\_ next |" in text


def test_csv_is_read_back_in_full(three):
    table = performance_table(three)
    lines = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert len(lines) == len(compared_metrics()) * 3
    (line,) = [line for line in lines if (line["Metric"], line["column"]) == ("ECE (%)", "Focal")]
    values = 100 * np.array([0.041, 0.042, 0.043])
    assert float(line["mean"]) == pytest.approx(values.mean(), rel=1e-15)
    assert float(line["std"]) == pytest.approx(values.std(ddof=1), rel=1e-15)
    assert (line["n"], line["emphasis"], line["mark"], line["words"]) == ("3", "", "", "")


def test_texts_that_a_spreadsheet_would_compute_are_quoted():
    evil = ["=HYPERLINK(1)", "+1", "-1", "@SUM(A1)", "\t=1", "CE"]
    rows = tuple(TableRow((text,), (Cell(-1.0), text)) for text in evil)
    text = to_csv(Table("t", "T", ("=Method", "Number", "@Words"), rows, remark="=1"))
    head, *lines = csv.reader(io.StringIO(text))
    assert head[0] == "'=Method"
    for key, column, mean, *_, words, remark in lines:
        assert not any(
            field.startswith(("=", "+", "-", "@", "\t")) for field in (key, column, words, remark)
        )
        assert mean in ("-1.0", "")  # numbers stay numbers
    assert {line[0] for line in lines} == {
        "'=HYPERLINK(1)",
        "'+1",
        "'-1",
        "'@SUM(A1)",
        "'\t=1",
        "CE",
    }


def test_html_shows_ranks_hints_and_collapses_and_reads_no_markup():
    rows = (
        TableRow(("<b>",), (Cell(-1.5, 0.2, 3, "best"), "better")),
        TableRow(("SAT",), (Cell(0.1, mark="✕"), "not shown by 5 seeds")),
    )
    table = Table("t", "T", ("Method", "ECE (%)", "Verdict"), rows)
    text = to_html(table, hints={"ECE (%)": 'a "hint"'}, sortable=True)
    assert text.count("<button") == 3
    assert 'title="a &#34;hint&#34;"' in text
    assert (
        '<th scope="row">&lt;b&gt;</th><td class="best" data-head="ECE (%)" '
        'data-value="-1.5">−1.50<span class="pm">' in text
    )
    assert '<tr class="collapsed"><th scope="row">SAT</th>' in text
    assert "<sup>✕</sup>" in text
    coloured = to_html(table, methods={"SAT": {"place": 3, "marker": "o", "collapsed": "why"}})
    assert 'style="fill:var(--m3)"/></svg>SAT<small class="bad">why</small></th>' in coloured


def test_files_are_replaced_whole(tmp_path, three):
    table = performance_table(three)
    assert [path.name for path in write_table(table, tmp_path / "tables")] == [
        "test-performance.md",
        "test-performance.tex",
        "test-performance.csv",
    ]
    paths = write_table(table, tmp_path / "tables")
    assert [path.read_text() for path in paths] == [
        to_markdown(table),
        to_latex(table),
        to_csv(table),
    ]
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == sorted(
        path.name for path in paths
    )


def test_names_of_any_bytes_are_written(tmp_path):
    paths = write_table(skipped_table([Skipped(Path("caf\udce9"), "damaged")]), tmp_path)
    assert all("dce9" in path.read_text().lower() for path in paths)


def check_latex(text):
    """Balanced, as many cells in each row, and nothing left that LaTeX would not take."""
    assert text.isascii() or set(re.sub(r"[\x00-\x7f]", "", text)) <= set("üéß")
    bare = re.sub(
        r"\\[\\{}%&#$_]", "", re.sub(r"(?m)^% needs.*$", "", text).replace("{!}{%\n", "{!}{")
    )
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert not re.search(r"[%#_]", bare)
    for body, columns in re.findall(
        r"(\\begin\{tabular\}\{((?:[lr]|p\{60mm\})+)\}.*?\\end\{tabular\})", text, re.S
    ):
        width = len(re.sub(r"p\{60mm\}", "p", columns))
        for line in body.splitlines():
            if line.endswith(r" \\"):
                span = re.match(r"\\multicolumn\{(\d+)\}", line)
                assert (
                    len(re.findall(r"(?<!\\)&", line)) + (int(span[1]) if span else 1) == width
                ), line


def compile_latex(text, folder):
    (folder / "table.tex").write_text(text)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull \\hbox" not in done.stdout


def nasty_table():
    keys = [("[setting] " + NASTY, "* " + NASTY), ("[setting] " + NASTY, "[b]"), ("last", "c")]
    found = [
        Cell(-1.0, 0.2, 3, "best", "†"),
        Cell(2.0, mark="a,b"),
        Cell(math.nan),
    ]
    rows = tuple(TableRow(key, (cell, NASTY)) for key, cell in zip(keys, found, strict=True))
    return Table("nasty", NASTY, ("Setting", NASTY, "Number", "Words"), rows, (NASTY, "† why"))


def test_latex_text_is_escaped():
    text = to_latex(nasty_table(), standalone=True)
    for expected in (
        r"a\_b \& 100 \% \#1 \$x\$ \{y\}",
        r"$\gamma$ $\alpha$ $\beta$ $\pm$",
        r"\textbackslash{} $|$ $<$",
    ):
        assert expected in text
    assert r"\textbf{$-$1.00 $\pm$ 0.20}\textsuperscript{\dag{}}" in text
    assert r"2.00\textsuperscript{a,b}" in text
    check_latex(text)


@pytest.fixture(scope="module")
def all_tables(tmp_path_factory, three):
    many = tmp_path_factory.mktemp("many")
    for gamma in range(32):
        make_run(
            many,
            experiment(
                "focal", epochs=5, gamma=gamma / 3, an_option_of_a_long_name="one_two & three"
            ),
        )
    grid = settings_of(many)
    everything = {**three, **grid}
    return [
        performance_table(three, published=published, caveats={"cut": NASTY}),
        performance_table(grid),
        performance_table({}),
        performance_table(everything, scaled=True),
        reading_table(three),
        significance_table(grid),
        runs_table(everything),
        skipped_table([Skipped(Path("runs") / NASTY, NASTY * 5)]),
        nasty_table(),
    ]


def test_latex_of_every_table_is_well_formed(all_tables):
    for table in all_tables:
        check_latex(to_latex(table, standalone=True))
        assert to_latex(table) in to_latex(table, standalone=True)


def test_long_tables_are_cut_into_pages(all_tables):
    runs = next(table for table in all_tables if table.name == "runs")
    text = to_latex(runs)
    parts = re.findall(r"\\caption\{Runs \(part (\d) of (\d)\)\}", text)
    assert [int(number) for number, _ in parts] == list(range(1, int(parts[0][1]) + 1))
    assert text.count(r" \\") == len(runs.rows) + len(parts)
    assert text.count("without scaling") == 1


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(all_tables, tmp_path):
    for table in all_tables:
        compile_latex(to_latex(table, standalone=True), tmp_path)
