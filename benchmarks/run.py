"""Every benchmark in one run: prints the table, and with --write puts it into docs/benchmarks.md and the README.

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
COMMAND = "python benchmarks/run.py --write"
BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"


def milliseconds(value: float) -> str:
    """Three digits and a unit that a person reads."""
    return f"{1000 * value:.3g} us" if value < 1 else f"{value:.3g} ms" if value < 1000 else f"{value / 1000:.3g} s"


def verdict(row: Row) -> str:
    """What was asked for, and whether it was reached."""
    goals = [f"{row.must:.2g}"] if row.must is not None else []
    goals += [f"stretch {row.stretch:.2g}"] if row.stretch is not None else []
    if not goals:
        return ""
    reached = "reached" if row.ratio >= (row.must or 0) else "MISSED"
    if row.stretch is not None:
        reached = "stretch reached" if row.ratio >= row.stretch else reached if row.must is not None else "not reached"
    return f"{', '.join(goals)}: {reached}"


def markdown(rows: list[Row], lines: list[str]) -> str:
    """The table, the versions and the lines about memory."""
    table = ["| work | ours | peer | peer's time | times as fast | asked for | |", "|---|---|---|---|---|---|---|"]
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
    """Every row to docs/benchmarks.md, the rows with a goal to the README."""
    page, readme = ROOT / "docs" / "benchmarks.md", ROOT / "README.md"
    page.write_text(f"# Benchmarks\n\nWritten by `{COMMAND}`.\n\n{markdown(rows, lines)}\n")
    before, rest = readme.read_text().split(BEGIN)
    short = markdown([row for row in rows if row.must is not None], [])
    readme.write_text(f"{before}{BEGIN}\n{short}\n{END}{rest.split(END)[1]}")
    print(f"\nwritten to {page.relative_to(ROOT)} and {readme.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=PARTS, help=f"some of {', '.join(PARTS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--write", action="store_true", help="replace the table in README.md")
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
