"""`socrates audit`: whether the confidence of predictions on disk can be trusted."""

import difflib
import json
import math
import re
import sys
from dataclasses import fields
from pathlib import Path

from rich.table import Table as Printed
from rich.text import Text

from socrates.audit.answer import answer
from socrates.audit.judge import NUM_DRAWS
from socrates.audit.page import write_audit
from socrates.audit.run import Audit, audit
from socrates.audit.tables import shown_tables
from socrates.report.tables import Cell, Table, unrepeated
from socrates.report.vocabulary import AUDITED
from socrates.report.words import p_value

from .commands import Audit as Options
from .output import complain, console, errors, show

MOST_ROWS = 24
SMALLEST_P = 1 / (1 + NUM_DRAWS)


def run_audit(options: Options) -> None:
    """`socrates audit`."""
    limits = parse_limits(options.fail_above)
    check_level(options.fail_if_miscalibrated)
    if options.out:
        make_folder(options.out)  # before hours of reading
    say = complain if options.json else show  # with --json the object stands alone on standard output
    with errors.status("reading") as status:
        try:
            made = audit(
                options.files,
                risk=options.risk,
                delta=options.delta,
                workers=options.workers,
                reading=options.as_read,
                measuring=options.as_measured,
                tell=status.update,
            )
        except ValueError as error:
            raise ValueError(in_flags(str(error))) from error
        by_name = Path("audit") / made.files[0].label.replace("/", "-")
        out = options.out or (None if options.json else by_name)
        written = write_audit(made, out, options.title) if out else []
    if options.json:
        sys.stdout.write(json.dumps(made.to_json(), ensure_ascii=False, allow_nan=False) + "\n")
    else:
        show_audit(made)
    for path in written:
        if path.suffix in (".html", ".npz"):
            say(str(path), "open it: " if path.suffix == ".html" else "scaler, for socrates.scaling.load: ", "bold")
    failures = broken(made, limits, options.fail_if_miscalibrated)
    for words in failures:
        complain(words, "failed: ")
    if failures:
        raise SystemExit(1)


def in_flags(words: str) -> str:
    """The keywords of Python in an error as what is typed on the command line.

    >>> in_flags("say kind='confidence' with columns=['score'], or unknown=False: num_bins=0, expected >= 1")
    'say --kind confidence with --columns score, or --unknown no: --num-bins 0, expected >= 1'
    """
    names = "|".join(field.name for field in fields(Options))

    def flag(found: re.Match[str]) -> str:
        value = {"True": "yes", "False": "no"}.get(found[2], re.sub(r"[\[\]',]", "", found[2]))
        return f"--{found[1].replace('_', '-')} {value}"

    # What stands behind a slash, or goes on after the value, belongs to the name of a file.
    return re.sub(rf"(?<![/\w-])({names})=('[^']*'|\[[^]]*\]|-?[\w.]*\w)(?![\w./-])", flag, words)


def make_folder(folder: Path) -> None:
    """Make the folder that was asked for, or say why it cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"--out {folder} cannot be made ({error.strerror}): give another folder") from None


def show_audit(made: Audit) -> None:
    """The answer first, then the tables."""
    for one in made.files:
        for sentence in answer(one):
            console.print(Text(sentence))
        for words in one.measured.notes:
            show(words, "note: ", "yellow")
        console.print()
    for table in shown_tables(made).values():
        show_table(table)
    if made.not_compared:
        show(made.not_compared, "note: ", "yellow")


def show_table(table: Table) -> None:
    """A table of the page, without columns that explain its rows, and notes that were said already."""
    kept = [place for place, head in enumerate(table.heads) if head not in ("Meaning", "Notes")]
    shown = Printed(title=Text(table.title, "bold"), title_justify="left", box=None, padding=(0, 2, 0, 0))
    for place in kept:
        numeric = table.numeric[place]
        shown.add_column(Text(table.heads[place]), justify="right" if numeric else "left", overflow="fold")
    rows = unrepeated(table.rows)
    for keys, row in rows[:MOST_ROWS]:
        cells = [*map(Text, keys), *(cell_text(cell) for cell in row.cells)]
        shown.add_row(*(cells[place] for place in kept))
    console.print(shown)
    if len(rows) > MOST_ROWS:
        show(f"{len(rows) - MOST_ROWS} more rows are on the page")
    console.print()


def cell_text(cell: Cell | str) -> Text:
    """A cell as printed, the best in bold."""
    return Text(cell) if isinstance(cell, str) else Text(cell.text, "bold" if cell.emphasis == "best" else "")


def parse_limits(given: tuple[str, ...]) -> dict[str, float]:
    """Metrics with the largest value that is allowed.

    >>> parse_limits(("ece=0.05", "nll=1"))
    {'ece': 0.05, 'nll': 1.0}
    """
    limits: dict[str, float] = {}
    for text in given:
        name, _, value = text.partition("=")
        try:
            limits[name] = float(value)
        except ValueError:
            raise ValueError(f"--fail-above {text!r}: expected METRIC=NUMBER, such as ece=0.05") from None
        if name not in AUDITED:
            near = difflib.get_close_matches(name, AUDITED, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(AUDITED)}"
            raise ValueError(f"--fail-above {text!r}: there is no metric {name!r}, {hint}")
        if AUDITED[name].larger_is_better:
            smaller = ", ".join(other for other, spec in AUDITED.items() if not spec.larger_is_better)
            raise ValueError(f"--fail-above {text!r}: more {name} is better, expected one of {smaller}")
        if not math.isfinite(limits[name]):
            raise ValueError(f"--fail-above {text!r}: expected a finite number, such as ece=0.05")
    return limits


def check_level(level: float | None) -> None:
    """Raise where the p-value of the test can never be below the level, or always is.

    >>> check_level(1e-6)
    Traceback (most recent call last):
    ValueError: --fail-if-miscalibrated 1e-06: expected a level from 0.001 to 1, such as 0.01: p is never below 1/1001
    """
    if level is not None and not SMALLEST_P < level < 1:
        given = f"--fail-if-miscalibrated {level:g}: expected a level from 0.001 to 1, such as 0.01"
        raise ValueError(f"{given}: p is never below 1/{round(1 / SMALLEST_P)}")


def broken(made: Audit, limits: dict[str, float], level: float | None) -> list[str]:
    """What is above its limit, and which files the test finds miscalibrated."""
    found: list[str] = []
    for one in made.files:
        for name, limit in limits.items():
            if name not in one.values:
                found.append(f"{one.label}: {name} cannot be computed from {one.measured.layout.words}")
            elif not one.values[name] <= limit:
                found.append(f"{one.label}: {name} is {one.values[name]:.4g}, above {limit:g}")
        if level is not None and one.test.p_value < level:
            found.append(f"{one.label}: miscalibrated, {p_value(one.test.p_value)}, below {level:g}")
    return found
