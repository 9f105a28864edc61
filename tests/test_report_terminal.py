"""Tables of the terminal: every name and number is there at any width."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from report_runs import experiment, make_run
from rich.table import Table

from haste import draw_few
from socrates import cli, quickstart
from socrates.cli import dry_run, runs, studies, use
from socrates.cli.options import ManyRuns
from socrates.cli.output import PlainConsole, console, table_of
from socrates.engine.studies.candidates import candidate_of
from socrates.engine.studies.choice import CandidateResult, ValidationScore, choose
from socrates.engine.studies.forecast import Forecast
from socrates.engine.studies.tune import Tuned
from socrates.records import Run
from socrates.report.aggregate import group_runs, read_runs
from socrates.report.compare import Compared
from socrates.report.tables import Cell, TableRow, to_markdown
from socrates.report.tables import Table as Written
from socrates.report.terminal import NamedMarkdown, NamedTable, plain

WIDTHS = (*range(40, 121), *range(125, 201, 5))
METHODS = ["CE", "Socrates α=0.9905 γ=2.375", "FLSD gamma_low=5.125"]
REASON = "the loss was not finite in epoch 3"


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> list[Path]:
    """Runs of three methods, two of them with long names, one of them collapsed."""
    root = tmp_path_factory.mktemp("runs")
    socrates = [experiment("socrates", seed, alpha=0.9905, gamma=2.375) for seed in (1, 2)]
    flsd = [experiment("flsd", seed, gamma_low=5.125) for seed in (1, 2)]
    directories = [make_run(root, one, exact=True) for one in (experiment("ce"), *socrates)]
    return directories + [make_run(root, one, collapsed=REASON) for one in flsd]


@pytest.fixture(scope="module")
def printed(study, tmp_path_factory) -> dict[str, list[Table]]:
    """The tables that the commands print."""
    tables: dict[str, list[Table]] = {}
    with pytest.MonkeyPatch.context() as patch:
        for name in ("sweep", "audit", "plan"):
            patch.setattr(
                console, "print", lambda *given, name=name, **_: keep(tables, name, given)
            )
            if name == "sweep":
                studies.show_results(study)
            elif name == "audit":
                draw_few(patch)
                files = audited(tmp_path_factory.mktemp("audited"))
                cli.main(["audit", *files, "--out", str(study[0].parent / "a")])
            else:
                rows = {
                    ("Table 3, calibration and accuracy", "all-methods-of-the-paper"): [
                        experiment("ce")
                    ]
                }
                dry_run.show_rows(("what", "name"), rows, [], Forecast(), ManyRuns())
    members = next(iter(group_runs(read_runs(study)[0]).values()))
    tables["quickstart"] = [quickstart.table(members)]
    tables["evaluate"] = [
        runs.evaluation_table(Run(directory).evaluation()) for directory in study[:2]
    ]
    tables["show"] = [runs.experiment_table(Run(study[1]).experiment)]
    study_of_two = tuned()
    columns = [Compared(f"candidate {place}", None) for place in range(len(study_of_two.results))]
    tables["tune"] = [studies.tune_table(study_of_two, columns, "digits, mlp, socrates, 2 seeds")]
    tables["predict"] = [predicted()]
    return tables


def keep(tables, name, printed):
    tables.setdefault(name, []).extend(one for one in printed if isinstance(one, Table))


def audited(folder: Path) -> list[str]:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(4), 300)
    labels = (probs.cumsum(1) < rng.random((300, 1))).sum(1).clip(0, 3)
    paths = [
        folder / f"imagenet-resnet34-of-{place}-with-a-long-name.npz"
        for place in ("zurich", "the-laboratory")
    ]
    for path in paths:
        np.savez(path, probs=probs, labels=labels)
    return [str(path) for path in paths]


def tuned() -> Tuned:
    options = {"alpha": 0.9905, "gamma": 2.375, "batch_size": 512, "width": 128}
    base = experiment("socrates")
    results = (
        CandidateResult(
            candidate_of(base, options),
            (ValidationScore(0.1, 0.09, 0.05), ValidationScore(0.11, 0.08, 0.05)),
        ),
        CandidateResult(candidate_of(base, {**options, "gamma": 3.625}), (), (REASON,)),
    )
    return Tuned(Path("study"), results, choose(results))


def predicted() -> Table:
    about = SimpleNamespace(unknown_class=True, strange=0.95)
    row = {
        "path": "photographs/of-the-holidays/IMG_20260112_131415_edited.jpeg",
        "predicted": "golden_retriever",
    }
    row |= {"confidence": 0.731, "unknown": 0.021, "novelty": 0.12, "answered": True}
    predictor = SimpleNamespace(about=about, certificate=None, novelty=object())
    return use.table([row], predictor)  # type: ignore[arg-type]


def shown_at(width: int, table) -> list[str]:
    page = PlainConsole(width=width, file=io.StringIO(), highlight=False)
    page.print(table)
    return page.file.getvalue().splitlines()


def occurs(words: str, lines: list[str]) -> bool:
    """Whether words are on the page, some of them perhaps in the following lines of the same
    cell."""
    if any(words in line for line in lines):
        return True
    words = "".join(words.split())
    starts = [
        (row, place)
        for row, line in enumerate(lines)
        for place in range(len(line))
        if line[place] == words[0]
    ]
    return any(continues(words, lines[row:], place) for row, place in starts)


def continues(words: str, lines: list[str], place: int, first: bool = True) -> bool:
    """Whether words go on from a place; how many of them a line has is tried, as the next cell may
    go on alike."""
    if not words or not lines:
        return not words
    line = lines[0]
    cells = (
        [line[place:]] if first else [line[place:], line, line[2:]]
    )  # joined names go on in front
    taken = max(common(words, cell) for cell in cells)
    return any(
        continues(words[part:], lines[1:], place, first=False) for part in range(taken, 0, -1)
    )


def common(words: str, cell: str) -> int:
    cell = cell.replace(" ", "")
    return next(
        (place for place, letter in enumerate(words) if cell[place : place + 1] != letter),
        len(words),
    )


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("sweep", [*METHODS, "2 of 2 runs collapsed"]),
        (
            "audit",
            ["imagenet-resnet34-of-the-laboratory-with-a-long-name", "Accuracy (%)", "Verdict"],
        ),
        ("plan", ["Table 3, calibration and accuracy", "all-methods-of-the-paper"]),
        ("quickstart", METHODS),
        ("evaluate", ["TS", "renormalize"]),
        ("show", ["optimization", "2.375"]),
        ("tune", ["0.9905", "2.375", "3.625", "512", "front, chosen"]),
        (
            "predict",
            ["photographs/of-the-holidays/IMG_20260112_131415_edited.jpeg", "golden_retriever"],
        ),
    ],
)
def test_every_name_and_number_is_on_the_page_at_any_width(printed, command, names):
    tables = printed[command]
    for width in WIDTHS:
        pages = [shown_at(width, table) for table in tables]
        assert max(len(line) for page in pages for line in page) <= width
        everything = [line for page in pages for line in page]
        assert "…" not in "".join(everything)
        assert [name for name in names if not occurs(name, everything)] == [], width
        for table, page in zip(tables, pages, strict=True):
            assert missing(table, page) == [], width


def missing(table: Table, page: list[str]) -> list[str]:
    """The cells of a table that are not on the page: numbers as they are, words perhaps folded."""
    cells = [(plain(cell), column.justify) for column in table.columns for cell in column.cells]
    text = "\n".join(page)
    lost = [cell for cell, justify in cells if justify == "right" and cell not in text]
    return lost + [
        cell for cell, justify in cells if justify != "right" and cell and not occurs(cell, page)
    ]


def test_no_block_is_without_numbers():
    table = table_of("", ("method",), ("ECE (%)",), ("",))
    table.add_row("m" * 60, "3.07 ± 0.17", "")
    for width in WIDTHS:
        assert len(table.blocks(width)) == 1


def test_tables_are_those_that_keep_names(printed):
    assert {
        name
        for name, tables in printed.items()
        if not all(isinstance(one, NamedTable) for one in tables)
    } == {
        "show"  # two columns of words
    }
    assert len(printed["audit"]) > 4
    assert [plain(cell) for cell in printed["sweep"][0].columns[0].cells] == METHODS


def test_a_table_of_a_file_keeps_its_names():
    rows = [
        TableRow(("CIFAR-100, ResNet-110", name), (Cell(94.96, 0.12),) * 5)
        for name in ("Socrates α=0.9905", "CE")
    ]
    heads = ("Setting", "Method", "Accuracy (%)", "ECE (%)", "AdaECE (%)", "CW-ECE (%)", "NLL")
    text = to_markdown(Written("t", "A table", heads, tuple(rows)))
    for width in WIDTHS:
        page = shown_at(width, NamedMarkdown(text))
        assert max(map(len, page)) <= width
        assert all(
            occurs(words, page)
            for words in (*heads, "CIFAR-100, ResNet-110", "Socrates α=0.9905", "CE")
        )
        assert "\n".join(page).count("94.96 ± 0.12") == 10
