"""A whole report from run directories: the page, the tables, the figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..experiment import Experiment
from .aggregate import Group, Setting, Skipped, find_runs, group_runs, read_runs
from .comparisons import Printed, performance_table, posthoc_table, reading_table
from .listings import runs_table, significance_table, skipped_table
from .tables import Table, write_table

Settings = Mapping[Setting, Sequence[Group]]
NOTE = "note.txt"


@dataclass(frozen=True)
class PublishedNumbers:
    """Where printed numbers are found for a group and a metric, and what their caveats mean."""

    test: Callable[[Group, str], Printed | None]
    validation: Callable[[Group, str], Printed | None]
    posthoc: Callable[[Group, str, str], Printed | None]
    caveats: Mapping[str, str]


@dataclass(frozen=True)
class Written:
    """What a report consists of: its page and all files, from so many runs; and what was left out."""

    page: Path
    files: tuple[Path, ...]
    num_runs: int
    skipped: tuple[Skipped, ...]


def write_report(
    roots: Path | str | Iterable[Path | str],
    out: Path | str,
    *,
    command: Callable[[Experiment], str],
    published: PublishedNumbers | None = None,
    title: str = "Socrates report",
    note: str | None = None,
    processes: int = 1,
    progress: Callable[[str], None] = lambda stage: None,
) -> Written:
    """Write `index.html`, `tables/*.{md,tex,csv}` and `figures/*.{pdf,png}` below `out` from the runs below the roots.

    Runs that are unfinished or damaged are listed and left out. A `note.txt` in a root is said on every output.
    `command` gives the command line that repeats a run; `progress` hears which stage begins. Figures of a large report
    are drawn by so many processes.
    """
    out = Path(out)
    roots = [roots] if isinstance(roots, Path | str) else list(roots)
    progress("reading runs")
    runs, skipped = read_runs(find_runs(roots))
    if not runs:
        reasons = "".join(f"\n  {one.directory}: {one.reason}" for one in skipped[:5])
        raise ValueError(
            f"there is no finished run in {_named(roots)}: train one with socrates train, or give another folder"
            f"{reasons}"
        )
    settings = group_runs(runs)
    note = note or note_of(roots)
    progress("writing tables")
    made = [noted(table, note) for table in tables(settings, skipped, published)]
    files = [path for table in made for path in write_table(table, out / "tables")]
    progress("drawing figures")
    from .figures.write import write_figures  # draws with matplotlib, which takes a second to import

    files += write_figures(settings, out / "figures", note, processes)
    progress("writing the page")
    from .page import page_data, write_page

    page = out / "index.html"
    write_page(page, page_data(settings, skipped, command=command), title, note)
    return Written(page, (page, *files), len(runs), tuple(skipped))


def tables(settings: Settings, skipped: Sequence[Skipped], published: PublishedNumbers | None) -> list[Table]:
    """Every table that the runs support."""
    found = (published.test, published.validation, published.posthoc) if published else (None, None, None)
    caveats = published.caveats if published else None
    made = [
        performance_table(settings, "test", published=found[0], published_notes=caveats),
        performance_table(settings, "val", published=found[1], published_notes=caveats),
        posthoc_table(settings, "test", published=found[2], published_notes=caveats),
        reading_table(settings, "test"),
        significance_table(settings, "test"),
        runs_table(settings),
        skipped_table(skipped),
    ]
    return [table for table in made if table.rows]


def note_of(roots: Path | str | Iterable[Path | str]) -> str | None:
    """What must be said of the runs in a folder: the text of its `note.txt`, such as that they are small stand-ins."""
    folders = [roots] if isinstance(roots, Path | str) else list(roots)
    found = [path.read_text().strip() for folder in folders if (path := Path(folder) / NOTE).is_file()]
    return " ".join(dict.fromkeys(found)) or None


def noted(table: Table, note: str | None) -> Table:
    """The table with the note beneath it and beside each of its numbers."""
    return dataclasses.replace(table, notes=(note, *table.notes), remark=note) if note else table


def _named(roots: Path | str | Iterable[Path | str]) -> str:
    return str(roots) if isinstance(roots, Path | str) else ", ".join(map(str, roots))
