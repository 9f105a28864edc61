"""`socrates audit`: whether the confidence of predictions on disk can be trusted."""

import json
import math
import sys
from pathlib import Path

from rich.text import Text

from socrates.audit.answer import AuditAnswer, answer_of
from socrates.audit.judge import NUM_DRAWS, audit_metrics
from socrates.audit.page import write_audit
from socrates.audit.run import AuditResult, audit
from socrates.audit.tables import shown_tables
from socrates.files import check_output, remove_half_written
from socrates.names import unknown
from socrates.report.tables import Table, unrepeated
from socrates.report.terminal import NamedTable, cell_text, names, numbers
from socrates.report.words import p_value

from .commands import AuditOptions
from .output import complain, console, errors, show

MOST_ROWS = 24
EXPLANATIONS = ("Meaning", "Notes", "Why")  # columns that are too wide for a terminal
SMALLEST_P = 1 / (1 + NUM_DRAWS)


def run_audit(options: AuditOptions) -> None:
    """Carry out `socrates audit`."""
    limits = parse_limits(options.fail_above)
    check_level(options.fail_if_miscalibrated)
    if options.out:
        make_folder(options.out)  # before hours of reading
    # with --json the object stands alone on standard output
    say = complain if options.json else show
    with errors.status("reading") as status:
        result = audit(
            options.files,
            risk=options.risk,
            delta=options.delta,
            workers=options.workers,
            reading=options.as_read,
            measuring=options.as_measured,
            tell=status.update,
        )
        by_name = Path("audit") / result.files[0].label.replace("/", "-")
        out = options.out or (None if options.json else by_name)
        if out:
            make_folder(out)
        written = write_audit(result, out, options.title) if out else []
    if options.json:
        sys.stdout.write(json.dumps(result.to_json(), allow_nan=False) + "\n")
    else:
        show_audit(result)
    for path in written:
        if path.suffix in (".html", ".npz"):
            say(
                str(path),
                "open it: " if path.suffix == ".html" else "scaler, for socrates.scaling.load: ",
                "bold",
            )
    failures = broken(result, limits, options.fail_if_miscalibrated)
    for words in failures:
        complain(words, "failed: ")
    if failures:
        raise SystemExit(1)


def make_folder(folder: Path) -> None:
    """Make the folder of the page, or say why not; clear what a killed audit left in it."""
    check_output(folder, is_folder=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"--out {folder} cannot be created ({error.strerror}): choose another folder"
        ) from None
    remove_half_written(folder)


def show_audit(result: AuditResult) -> None:
    """Print the answer, then that of each file if there are several, then the tables."""
    show_answer(result.answer)
    if len(result.files) > 1:
        console.print()
    for judged in result.files:
        if len(result.files) > 1:
            show_answer(answer_of(judged), judged.label)
        for words in judged.measured.notes:
            show(words, "note: ", "yellow")
        console.print()
    for table in shown_tables(result).values():
        show_table(table)


def show_answer(answer: AuditAnswer, label: str = "") -> None:
    """Print a headline, after the name of its file if it is one of several, and its sentences."""
    console.print(Text(f"{label}: {answer.headline}" if label else answer.headline, "bold"))
    console.print(Text(" ".join([*answer.sentences, *answer.evidence])))


def show_table(table: Table) -> None:
    """Print a table of the page, without its explanations and notes."""
    kept = [place for place, head in enumerate(table.heads) if head not in EXPLANATIONS]
    columns = [
        (numbers if table.numeric[place] else names)(Text(table.heads[place]))[0] for place in kept
    ]
    title = Text(table.title, "bold")
    shown = NamedTable(columns, min(table.num_keys, len(kept)), title=title, title_justify="left")
    rows = unrepeated(table.rows)
    for keys, row in rows[:MOST_ROWS]:
        cells = [*map(Text, keys), *(cell_text(cell) for cell in row.cells)]
        shown.add_row(*(cells[place] for place in kept))
    console.print(shown)
    if len(rows) > MOST_ROWS:
        show(f"{len(rows) - MOST_ROWS} more rows are on the page")
    console.print()


def parse_limits(words: tuple[str, ...]) -> dict[str, float]:
    """Read the metrics of --fail-above with the largest allowed value of each.

    >>> parse_limits(("ece=0.05", "nll=1"))
    {'ece': 0.05, 'nll': 1.0}
    """
    known = audit_metrics()
    limits: dict[str, float] = {}
    for text in words:
        name, _, value = text.partition("=")
        try:
            limits[name] = float(value)
        except ValueError:
            raise ValueError(
                f"--fail-above {text!r}: expected METRIC=NUMBER, such as ece=0.05"
            ) from None
        if name not in known:
            raise ValueError(f"--fail-above {text!r}: there is no metric {unknown(name, known)}")
        if known[name].larger_is_better:
            smaller = ", ".join(other for other, spec in known.items() if not spec.larger_is_better)
            raise ValueError(
                f"--fail-above {text!r}: more {name} is better, expected one of {smaller}"
            )
        if not math.isfinite(limits[name]):
            raise ValueError(f"--fail-above {text!r}: expected a finite number, such as ece=0.05")
    return limits


def check_level(level: float | None) -> None:
    """Raise if the p-value of the test can never be below the level, or always is.

    >>> check_level(1e-6)
    Traceback (most recent call last):
    ValueError: --fail-if-miscalibrated 1e-06: expected a level from 0.001 to 1, such as 0.01:
    p is never below 1/1001
    """
    if level is not None and not SMALLEST_P < level < 1:
        raise ValueError(
            f"--fail-if-miscalibrated {level:g}: expected a level from 0.001 to 1, such as 0.01: "
            f"p is never below 1/{round(1 / SMALLEST_P)}"
        )


def broken(result: AuditResult, limits: dict[str, float], level: float | None) -> list[str]:
    """Return what is above its limit, and which files the test finds miscalibrated."""
    failures: list[str] = []
    for judged in result.files:
        for name, limit in limits.items():
            if name not in judged.values:
                failures.append(
                    f"{judged.label}: {name} cannot be computed from {judged.measured.layout.words}"
                )
            elif not judged.values[name] <= limit:
                failures.append(
                    f"{judged.label}: {name} is {judged.values[name]:.4g}, above {limit:g}"
                )
        if level is not None and judged.test.p_value < level:
            failures.append(
                f"{judged.label}: miscalibrated, {p_value(judged.test.p_value)}, below {level:g}"
            )
    return failures
