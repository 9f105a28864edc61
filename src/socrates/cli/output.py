"""What the terminal shows: prose wrapped between words, paths and commands whole, no markup."""

import re
import textwrap
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from socrates.prose import print_prose
from socrates.report.terminal import NamedTable, names, numbers

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class PlainConsole(Console):
    """Print control characters, which names may hold, as replacement characters.

    >>> PlainConsole(width=40).print("a\x1b[2Jb", markup=False)
    a�[2Jb
    """

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        for part in super().render(renderable, options):
            yield part if part.control else part._replace(text=CONTROL.sub("�", part.text))


console = PlainConsole(highlight=False)
errors = PlainConsole(highlight=False, stderr=True)


def show(text: object, label: str = "", style: str = "bold") -> None:
    """Print prose on standard output; the label before it stands out."""
    print_prose(console, str(text), label, style)


def complain(text: str, label: str = "error: ", style: str = "bold red") -> None:
    """Print prose on standard error; the label before it stands out."""
    print_prose(errors, text, label, style)


def table_of(
    title: str, words: tuple[str, ...], figures: tuple[str, ...], remarks: tuple[str, ...] = ()
) -> NamedTable:
    """Return an empty table: columns that name the rows, then numbers, then remarks."""
    columns = [*names(*words), *numbers(*figures), *names(*remarks)]
    return NamedTable(columns, len(words), title=Text(title) if title else None)


def in_lines(text: str, indent: str = "", width: int | None = None) -> str:
    """Wrap paragraphs to the width, by default that of the terminal.

    All lines of a paragraph but the first get the indent.

    >>> print(in_lines("- one two three four five", indent="  ", width=20))
    - one two three four
      five
    """
    width = max(20, console.width if width is None else width)
    return "\n\n".join(
        textwrap.fill(part, width, subsequent_indent=indent, break_on_hyphens=False)
        for part in text.split("\n\n")
    )
