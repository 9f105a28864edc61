"""What a person reads: lines that are never broken into several, nor taken for markup, whatever a path holds."""

import textwrap

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

console = Console(highlight=False)
errors = Console(highlight=False, stderr=True)


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
