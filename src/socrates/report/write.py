"""A whole report from run directories: the page, the tables, the figures."""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..experiment import Experiment
from .aggregate import Skipped, find_runs, group_runs, read_runs
from .answer import Answer, answers_of, shown_in_test
from .comparisons import PublishedLookup, Settings, performance_table, reading_table
from .idle import with_idle
from .listings import runs_table, significance_table, skipped_table
from .strangers import strangers_table
from .study_rule import rules_of
from .style import styles
from .tables import Table, write_table
from .tuning import tuning_of, variants_table
from .vocabulary import LETTERS
from .words import first_of, without_failed

if TYPE_CHECKING:
    from .figures.compose import Width

NOTE = "note.txt"


@dataclass(frozen=True)
class Written:
    """What a report consists of: its page, all its files and answers, and what was left out."""

    page: Path
    files: tuple[Path, ...]
    num_runs: int
    skipped: tuple[Skipped, ...]
    answers: Mapping[str, Answer]  # of each setting


def write_report(
    roots: Path | str | Iterable[Path | str],
    out: Path | str,
    *,
    command: Callable[[Experiment], str],
    published: PublishedLookup | None = None,
    caveats: Mapping[str, str] | None = None,
    title: str = "Socrates report",
    note: str | None = None,
    width: "Width" = "full",
    count_failed: bool = False,
    progress: Callable[[str], None] = lambda stage: None,
) -> Written:
    """Write the page, tables and figures of the runs below the roots.

    They are `index.html`, `tables/*.{md,tex,csv}` and `figures/*.{pdf,png,txt}` below `out`. Runs
    that are unfinished or damaged are listed and left out. A `note.txt` in a root stands on every
    output. Failed runs are named and left out of the means, unless `count_failed`.

    `command` returns the command line that repeats a run, `published` the printed numbers of
    results, and `caveats` says what their footnotes mean; `width` is that of the figures, and
    `progress` is called with each stage.
    """
    out = Path(out)
    roots = [roots] if isinstance(roots, Path | str) else list(roots)
    progress("reading runs")
    runs, skipped = read_runs(find_runs(roots), logits=True)
    if not runs:
        raise _no_runs(roots, skipped)
    settings = group_runs(runs, count_failed)
    root_note = note or note_of(roots)
    note = with_idle(root_note, settings)
    answers = answers_of(settings, rules_of(roots, settings))
    shown = shown_in_test(settings, answers)
    progress("writing tables")
    of_test = [
        performance_table(shown, "test", published, caveats),
        performance_table(shown, "test", published, caveats, scaled=True),
        reading_table(shown),
        significance_table(shown),
        strangers_table(shown),
        runs_table(settings, shown),
    ]
    tables = [with_choices(table, answers) for table in of_test]
    tables.append(performance_table(settings, "val", published, caveats))
    tables += variant_tables(settings, answers)
    tables.append(skipped_table(skipped))
    files: list[Path] = []
    for table in tables:
        if table.rows:
            files += write_table(noted(table, note), out / "tables")
    progress("drawing figures")
    files += write_figures(shown, out / "figures", root_note, width)
    progress("writing the page")
    from .page import write_page
    from .study_page import page_data

    page = out / "index.html"
    links = [path.relative_to(out).as_posix() for path in files if path.suffix != ".txt"]
    data = page_data(
        settings,
        answers,
        skipped,
        command=command,
        files=links,
        counted_settings=group_runs(runs, count_failed=True),
    )
    write_page(page, data, title, note)
    return Written(page, (page, *files), len(runs), tuple(skipped), answers)


def _no_runs(roots: Sequence[Path | str], skipped: Sequence[Skipped]) -> ValueError:
    """Return the error of folders without a finished run, with the first reasons."""
    reasons = "".join(f"\n  {directory}: {reason}" for directory, reason in skipped[:5])
    return ValueError(
        f"there is no finished run in {', '.join(map(str, roots))}: train one with socrates "
        f"train, or pass another folder{reasons}"
    )


def write_figures(
    settings: Settings, folder: Path | str, note: str | None = None, width: "Width" = "full"
) -> list[Path]:
    """Write every figure that the results support, of every setting.

    `note` is a line at the foot of each of them.
    """
    from .figures import FIGURES  # draws with matplotlib, which takes a second to import
    from .figures.compose import write_drawing

    paths: list[Path] = []
    for prefix, (heading, members) in zip(prefixes(settings), settings.items(), strict=True):
        look = styles({results.label: results.method for results in members})
        foot = with_idle(note, {heading: members})
        failed = without_failed(failure for results in members for failure in results.failures)
        for figure in FIGURES.values():
            for drawing in figure.drawings(members, look):
                title = "\n".join(filter(None, (drawing.title, heading, failed)))
                named = dataclasses.replace(drawing, name=f"{prefix}{drawing.name}", title=title)
                paths += write_drawing(named, folder, foot, width)
    return paths


def variant_tables(settings: Settings, answers: Mapping[str, Answer]) -> list[Table]:
    """Return the validation scores of all variants, a table for each tuning study."""
    tables: list[Table] = []
    for prefix, (heading, members) in zip(prefixes(settings), settings.items(), strict=True):
        own = answers[heading]
        tuning = tuning_of(members, own.rule) if own.case == "tune" else None
        if tuning is not None:
            table = variants_table(tuning)
            tables.append(dataclasses.replace(table, name=f"{prefix}{table.name}"))
    return tables


def with_choices(table: Table, answers: Mapping[str, Answer]) -> Table:
    """Return a table of test numbers that says of which variants of a tuning study they are."""
    chosen = [row.label for item in answers.values() if item.case == "tune" for row in item.rows]
    if not chosen:
        return table
    note = (
        f"Of the variants of a tuning study, only what validation data chose is tested: "
        f"{first_of(chosen)}."
    )
    return dataclasses.replace(table, notes=(*table.notes, note))


def prefixes(headings: Iterable[str]) -> list[str]:
    """Return how the files of each setting begin: with what sets it apart, numbered if equal.

    >>> prefixes(["digits, mlp, 6 epochs", "digits, cnn, 6 epochs"]), prefixes(["digits, mlp"])
    (['mlp-', 'cnn-'], [''])
    >>> prefixes(["Socrates α=0.99, num_bins 15", "a/b", "a b", "?"])
    ['socrates-alpha-0.99-num-bins-15-', 'a-b-', 'a-b-v2-', 'setting-']
    """
    parts = [heading.split(", ") for heading in headings]
    if len(parts) == 1:
        return [""]
    shared = set(parts[0]).intersection(*parts) if parts else set()
    names: list[str] = []
    for words in parts:
        heading = " ".join(part for part in words if part not in shared)
        for symbol, word in LETTERS.items():
            heading = heading.replace(symbol, word)
        name = re.sub(r"[^a-z0-9.]+", "-", heading.lower()).strip("-.") or "setting"
        clashes = sum(other == name or other.startswith(f"{name}-v") for other in names)
        names.append(f"{name}-v{clashes + 1}" if clashes else name)
    return [f"{name}-" for name in names]


def note_of(roots: Iterable[Path | str]) -> str | None:
    """Return what must be said of the runs in the folders: the texts of their `note.txt`."""
    paths = [Path(folder) / NOTE for folder in roots]
    notes = [path.read_text(encoding="utf-8").strip() for path in paths if path.is_file()]
    return " ".join(dict.fromkeys(notes)) or None


def noted(table: Table, note: str | None) -> Table:
    """Return the table with the note beneath it and beside each of its numbers."""
    return dataclasses.replace(table, notes=(note, *table.notes), remark=note) if note else table
