"""`socrates report` and `socrates quickstart`."""

from __future__ import annotations

from pathlib import Path

from socrates.paper.compare import published
from socrates.paper.published import CAVEATS
from socrates.quickstart import quickstart
from socrates.report.write import Written, write_report

from .commands import Quickstart, Report
from .options import command_of
from .output import console, show


def run_report(options: Report) -> None:
    """`socrates report`."""
    show_written(make_report(options.runs, options.out, options.title))


def make_report(roots: tuple[Path, ...], out: Path, title: str) -> Written:
    """The report of the runs below the roots, the paper's numbers beside ours where a setting matches."""
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
    options.out.mkdir(parents=True, exist_ok=True)
    quickstart(options.out / "runs", console)
    written = make_report((options.out / "runs",), options.out / "report", "Four losses on 300 handwritten digits")
    for path in written.files:
        if path.name.endswith(("-reliability.png", "-pareto-test.png")):
            show(f"picture: {path}")
    show_written(written)
