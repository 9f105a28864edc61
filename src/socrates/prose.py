"""Sentences in a terminal: wrapped between words, while a path or a command stays whole."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

# A space that does not end a line; in Unicode's private area, so no text of ours has it.
FIXED_SPACE = "\ue000"


def whole(text: object) -> str:
    """Return a path or a command that is printed on one line, whatever spaces it holds."""
    return str(text).replace(" ", FIXED_SPACE)


def print_prose(console: Console, text: str, label: str = "", style: str = "bold") -> None:
    """Print text that is wrapped between words, after a label that stands out.

    What goes to a file or a pipe is not wrapped.
    """
    text = wrapped(label + text, console.width) if console.is_terminal else label + text
    prose = Text(text.replace(FIXED_SPACE, " "))
    prose.stylize(style, 0, len(label))
    console.print(prose, soft_wrap=True)


def wrapped(text: str, width: int) -> str:
    """Return text in lines of at most this width; a word that is longer has its own line.

    >>> print(wrapped("a path: runs/digits-mlp-socrates-seed1 and more", 20))
    a path:
    runs/digits-mlp-socrates-seed1
    and more
    """
    return "\n".join(_wrapped_line(line, width) for line in text.split("\n"))


def _wrapped_line(line: str, width: int) -> str:
    first, *words = re.split(r"(?<=\S) ", line)  # spaces that indent stay with the first word
    lines = [first]
    for word in words:
        longer = f"{lines[-1]} {word}"
        if cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(lines)
