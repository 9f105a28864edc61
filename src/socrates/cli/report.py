"""`socrates report` and `socrates quickstart`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from .options import command_of
from .output import console, show

if TYPE_CHECKING:
    from socrates.report.write import Written


@dataclass
class Report:
    """Compare runs: one page to look at, tables for Markdown, LaTeX and spreadsheets, figures as PDF and PNG.

    Reads run directories only; unfinished and damaged ones are listed and left out.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUNS ...")] = (Path("runs"),)
    """Run directories, or folders that hold them at any depth."""
    out: Path = Path("report")
    """Where the report goes."""
    title: str = "Socrates report"
    """The heading of the page."""


@dataclass
class Quickstart:
    """Compare four losses on digits, in a minute: a table, what it means, and a page to look at."""

    out: Path = Path("runs/quickstart")
    """Where runs and the report go."""


def run_report(options: Report) -> None:
    """`socrates report`."""
    show_written(make_report(options.runs, options.out, options.title))


def make_report(roots: tuple[Path, ...], out: Path, title: str) -> Written:
    """The report of the runs below the roots, the paper's numbers beside ours where a setting matches."""
    from socrates.paper.compare import published
    from socrates.paper.published import CAVEATS
    from socrates.report.write import write_report

    with console.status("reading runs") as status:
        return write_report(
            roots, out, command=command_of, published=published, caveats=CAVEATS, title=title, progress=status.update
        )


def show_written(written: Written) -> None:
    """Where the report is, and what is not in it."""
    for skipped in written.skipped[:10]:
        show(f"{skipped.directory}: {skipped.reason}", "left out: ", "yellow")
    if len(written.skipped) > 10:
        show(f"{len(written.skipped) - 10} more, see tables/skipped.md", "left out: ", "yellow")
    show(f"{written.num_runs} run{'s' * (written.num_runs != 1)}, {len(written.files)} files")
    show(f"open it: {written.page}")


def run_quickstart(options: Quickstart) -> None:
    """`socrates quickstart`."""
    from socrates.quickstart import quickstart

    options.out.mkdir(parents=True, exist_ok=True)
    quickstart(options.out / "runs", console)
    written = make_report((options.out / "runs",), options.out / "report", "Four losses on 300 handwritten digits")
    for path in written.files:
        if path.name.endswith(("-reliability.png", "-pareto-test.png")):
            show(f"picture: {path}")
    show_written(written)
