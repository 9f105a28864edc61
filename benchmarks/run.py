"""Run every benchmark and print the table.

With --write the table goes into docs/benchmarks.md and the README.

make bench                                  the whole table, some minutes
python benchmarks/run.py losses --quick     one part, fewer repeats
"""

from __future__ import annotations

import argparse
import importlib
import platform
from pathlib import Path

import numpy
import torch
from timing import Row

PARTS = ("losses", "metrics", "scaling", "data", "engine")
ROOT = Path(__file__).resolve().parent.parent
INTRODUCTION = """Written by `python benchmarks/run.py --write`. The column "times as fast" is the \
peer's time divided by ours. A goal is the
lowest such ratio that we accept; a stretch goal is the one we aim for.
"""
BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"


def milliseconds(value: float) -> str:
    """Return a time with three digits and a readable unit."""
    if value < 1:
        return f"{1000 * value:.3g} us"
    if value < 1000:
        return f"{value:.3g} ms"
    return f"{value / 1000:.3g} s"


def verdict(row: Row) -> str:
    """Return the goals of a row, and whether they are met.

    >>> verdict(Row("work", 1.0, "peer", 2.0, must=1.5, stretch=3.0))
    '1.5, stretch 3: met'
    """
    if row.must is None:
        if row.stretch is None:
            return ""
        return f"stretch {row.stretch:.2g}: {'met' if row.ratio >= row.stretch else 'not met'}"
    met = "met" if row.ratio >= row.must else "MISSED"
    if row.stretch is None:
        return f"{row.must:.2g}: {met}"
    if row.ratio >= row.stretch:
        met = "both met"
    return f"{row.must:.2g}, stretch {row.stretch:.2g}: {met}"


def markdown(rows: list[Row], lines: list[str]) -> str:
    """Return the table, the versions and the lines about memory."""
    table = [
        "| work | ours | peer | peer's time | times as fast | goal | |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [
            row.work,
            milliseconds(row.ours_ms),
            row.peer,
            milliseconds(row.peer_ms),
            f"{row.ratio:.3g}",
            verdict(row),
            row.note,
        ]
        table.append("| " + " | ".join(cells) + " |")
    versions = f"torch {torch.__version__}, numpy {numpy.__version__}, {platform.machine()}"
    machine = f"One thread, medians of interleaved runs, {versions}."
    return "\n".join([*table, "", machine, "", *(f"- {line}" for line in lines)])


def write(rows: list[Row], lines: list[str]) -> None:
    """Write every row to docs/benchmarks.md, and the rows with a goal to the README."""
    page, readme = ROOT / "docs" / "benchmarks.md", ROOT / "README.md"
    page.write_text(f"# Benchmarks\n\n{INTRODUCTION}\n{markdown(rows, lines)}\n")
    before, rest = readme.read_text().split(BEGIN)
    short = markdown([row for row in rows if row.must is not None], [])
    readme.write_text(f"{before}{BEGIN}\n{short}\n{END}{rest.split(END)[1]}")
    print(f"\nwritten to {page.relative_to(ROOT)} and {readme.name}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", default=PARTS, help=f"some of {', '.join(PARTS)}; all by default"
    )
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument(
        "--write",
        action="store_true",
        help="write docs/benchmarks.md and README.md",
    )
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}: choose from {', '.join(PARTS)}")
    if options.write and tuple(options.parts) != PARTS:
        parser.error("--write needs every part: leave the parts out")

    torch.set_num_threads(1)
    rows: list[Row] = []
    lines: list[str] = []
    for part in options.parts:
        module = importlib.import_module(part)
        rows += module.rows(quick=options.quick)
        lines += module.memory_lines() if hasattr(module, "memory_lines") else []
    text = markdown(rows, lines)
    print(text)
    if options.write:
        write(rows, lines)


if __name__ == "__main__":
    main()
