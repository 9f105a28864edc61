"""What a person reads: lines that are never broken into several, nor taken for markup, whatever a path holds."""

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
