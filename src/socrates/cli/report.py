"""`socrates report` and `socrates quickstart`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.markup import escape

from .shared import command_of, console

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


def run_report(options: Report, _: dict[str, str]) -> None:
    """`socrates report`."""
    say(make_report(options.runs, options.out, options.title))


def make_report(roots: tuple[Path, ...], out: Path, title: str, note: str | None = None) -> Written:
    """The report of the runs below the roots, the paper's numbers beside ours where a setting matches."""
    from socrates.paper.compare import published
    from socrates.paper.published import CAVEATS
    from socrates.report.write import write_report

    with console.status("reading runs") as status:
        return write_report(
            roots,
            out,
            command=command_of,
            published=published,
            caveats=CAVEATS,
            title=title,
            note=note,
            progress=lambda stage: status.update(stage),
        )


def say(written: Written) -> None:
    """Where the report is, and what is not in it."""
    for skipped in written.skipped[:10]:
        why = escape(f"{skipped.directory}: {skipped.reason}")
        console.print(f"[yellow]left out:[/] {why}", highlight=False, soft_wrap=True)
    if len(written.skipped) > 10:
        console.print(f"[yellow]left out:[/] {len(written.skipped) - 10} more, see tables/skipped.md")
    console.print(f"{written.num_runs} run{'s' * (written.num_runs != 1)}, {len(written.files)} files", highlight=False)
    console.print(f"open it: {escape(str(written.page))}", highlight=False, soft_wrap=True)


def run_quickstart(options: Quickstart, _: dict[str, str]) -> None:
    """`socrates quickstart`."""
    from socrates.quickstart import quickstart

    options.out.mkdir(parents=True, exist_ok=True)
    quickstart(options.out / "runs", console)
    written = make_report((options.out / "runs",), options.out / "report", "Four losses on 300 handwritten digits")
    for path in written.files:
        if path.name.endswith(("-reliability.png", "-pareto-test.png")):
            console.print(f"picture: {escape(str(path))}", highlight=False, soft_wrap=True)
    say(written)
