"""What a person reads: lines that are never broken into several, nor taken for markup, whatever a path holds."""

import re
import textwrap
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class PlainConsole(Console):
    """A console to which no name can give commands: characters that control a terminal or turn its text are shown.

    >>> PlainConsole(width=40).print("a\x1b[2Jb", markup=False)
    a�[2Jb
    """

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        for part in super().render(renderable, options):
            yield part if part.control else part._replace(text=CONTROL.sub("�", part.text))


console = PlainConsole(highlight=False)
errors = PlainConsole(highlight=False, stderr=True)


def show(text: object, label: str = "", style: str = "bold") -> None:
    """A line of the output; the label before it stands out."""
    console.print(Text.assemble((label, style), str(text)), soft_wrap=True)


def complain(text: str, label: str = "error: ", style: str = "bold red") -> None:
    """A line beside the output."""
    errors.print(Text.assemble((label, style), text), soft_wrap=True)


def table_of(title: str, words: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    """A table without rows yet: columns of words, then columns of numbers."""
    columns = [Column(head, overflow="fold") for head in words]
    columns += [Column(head, justify="right", no_wrap=True) for head in numbers]
    return Table(*columns, title=Text(title), box=None, padding=(0, 2, 0, 0))


def in_lines(text: str, indent: str = "") -> str:
    """Paragraphs in lines that fit the terminal; all lines but the first of each begin with the indent.

    >>> console.width = 20
    >>> print(in_lines("- one two three four five", indent="  "))
    - one two three four
      five
    """
    width = max(20, console.width)
    return "\n\n".join(textwrap.fill(part, width, subsequent_indent=indent) for part in text.split("\n\n"))
