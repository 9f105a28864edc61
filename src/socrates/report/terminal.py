"""Tables of the terminal, whose rows keep their names and numbers however narrow it is."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Markdown, TableElement
from rich.table import Column, Table
from rich.text import Text

if TYPE_CHECKING:
    from .tables import Cell

# Words are folded to no less: two such columns stand beside each other in any terminal.
FOLDED_WIDTH = 16


class NamedTable(Table):
    """A table whose first columns name its rows.

    What does not fit beside the names follows in a second block of rows, under the same names.
    Names and remarks are folded where there is no room for them, and never cut.

    >>> table = NamedTable([*names("method"), *numbers("accuracy (%)", "ECE (%)", "NLL")])
    >>> table.add_row("a method of many words", "94.96 ± 0.12", "3.07 ± 0.17", "0.204 ± 0.011")
    >>> table.blocks(60), table.blocks(50)
    ([[0, 1, 2, 3]], [[0, 1, 2], [0, 3]])
    """

    def __init__(self, columns: Iterable[Column], num_names: int = 1, **looks: Any) -> None:
        super().__init__(*columns, **{"box": None, "padding": (0, 2, 0, 0), **looks})
        self.num_names = num_names

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        filled = [place for place, column in enumerate(self.columns) if whole_width(column)]
        table = self if self.least_width(filled) <= width else self.with_one_name(width)
        blocks = table.blocks(width)
        for number, places in enumerate(blocks):
            block = table.block(places, width)
            block.title = self.title if number == 0 else None
            block.caption = self.caption if number == len(blocks) - 1 else None
            if number:
                yield ""
            yield block

    def looks(self) -> dict[str, Any]:
        """Return what a part of the table shares with the whole."""
        return {"box": self.box, "padding": self.padding, "title_justify": self.title_justify}

    def least_width(self, places: Sequence[int]) -> int:
        """Return the width of a block of these columns, with words folded as far as they may be."""
        return sum(least_width(self.columns[place]) for place in places) + self.between(len(places))

    def between(self, num_columns: int) -> int:
        """Return the width of what stands between and around this many columns."""
        return 2 * num_columns if self.box is None else 3 * num_columns + 1

    def with_one_name(self, width: int) -> NamedTable:
        """Return the table with its names joined in one column if they take half of the width."""
        if self.num_names == 1 or 2 * self.least_width([*range(self.num_names)]) <= width:
            return self
        heads = joined(column.header for column in self.columns[: self.num_names])
        others = [column.copy() for column in self.columns[self.num_names :]]
        table = NamedTable([*names(heads), *others], **self.looks())
        for cells, style in self.cells_by_row(self.columns):
            table.add_row(joined(cells[: self.num_names]), *cells[self.num_names :], style=style)
        return table

    def blocks(self, width: int) -> list[list[int]]:
        """Return the places of the columns of each block, its names first."""
        named = [*range(self.num_names)]
        blocks = [named]
        for place in range(self.num_names, len(self.columns)):
            longer = [*blocks[-1], place]
            if not whole_width(self.columns[place]):  # no remarks
                continue
            if blocks[-1] == named or self.least_width(longer) <= width:
                blocks[-1] = longer
            else:
                blocks.append([*named, place])
        return blocks

    def block(self, places: Sequence[int], width: int) -> Table:
        """Return a table of some columns, whose widths are exactly known."""
        shown = [self.columns[place] for place in places]
        widths = self.widths(shown, width - self.between(len(shown)))
        columns = [column.copy() for column in shown]
        for column, column_width in zip(columns, widths, strict=True):
            column.width = column_width
        table = Table(*columns, show_header=self.show_header, **self.looks())
        for cells, style in self.cells_by_row(shown):
            table.add_row(*cells, style=style)
        return table

    def cells_by_row(
        self, columns: Sequence[Column]
    ) -> Iterator[tuple[Sequence[RenderableType], Any]]:
        """Yield the cells of each row in these columns, and the style of the row."""
        cells = zip(*(column.cells for column in columns), strict=True)
        yield from zip(cells, (row.style for row in self.rows), strict=True)

    def widths(self, columns: Sequence[Column], room: int) -> list[int]:
        """Return the width of each column; names get what is left first, then the others."""
        widths = [least_width(column) for column in columns]
        if sum(widths) > room:  # names beside a single very wide number
            widths[-1] = max(1, room - sum(widths[:-1]))
        for group in (slice(0, self.num_names), slice(self.num_names, None)):
            wanted = [
                whole_width(column) - width
                for column, width in zip(columns[group], widths[group], strict=True)
            ]
            more = shared(wanted, min(sum(wanted), room - sum(widths)))
            widths[group] = map(operator.add, widths[group], more)
        return widths


def cell_text(cell: Cell | str) -> Text:
    """Return a cell as it is printed, the best in bold, with its footnote sign."""
    if isinstance(cell, str):
        return Text(cell)
    return Text(cell.text + cell.mark, "bold" if cell.emphasis == "best" else "")


def names(*heads: str | Text) -> list[Column]:
    """Return columns of words, which are folded where they are too long."""
    return [Column(head, overflow="fold") for head in heads]


def numbers(*heads: str | Text) -> list[Column]:
    """Return columns of numbers, which stay whole."""
    return [Column(head, justify="right", overflow="fold") for head in heads]


def least_width(column: Column) -> int:
    """Return the width that a column needs: that of its numbers, or of a part of its words."""
    if column.justify == "right":
        words = plain(column.header).split()
        return max([*map(text_width, column.cells), *map(cell_len, words), 1])
    return max(1, min(whole_width(column), FOLDED_WIDTH))


def whole_width(column: Column) -> int:
    """Return the width of the longest line of a column."""
    return max(text_width(cell) for cell in (column.header, *column.cells))


def text_width(cell: RenderableType) -> int:
    """Return the width of the longest line of a cell."""
    return max(map(cell_len, plain(cell).splitlines()), default=0)


def plain(cell: RenderableType) -> str:
    """Return the characters of a cell without its markup."""
    return cell.plain if isinstance(cell, Text) else Text.from_markup(str(cell)).plain


def joined(cells: Iterable[RenderableType]) -> Text:
    """Return several cells as one, with commas between those that are not empty."""
    return Text(", ".join(filter(None, map(plain, cells))))


def shared(wanted: Sequence[int], room: int) -> list[int]:
    """Return what each gets of the room, in proportion to what is wanted.

    >>> shared([10, 30], 20)
    [5, 15]
    """
    total = sum(wanted) or 1
    return [want * room // total for want in wanted]


class NamedTableElement(TableElement):
    """A table of Markdown, its leading columns the names of the rows."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        heads = self.header.row.cells if self.header and self.header.row else []
        aligned = [head.justify == "right" for head in heads]
        num_names = max(1, aligned.index(True) if True in aligned else 1)
        columns = [
            (numbers if right else names)(head.content)[0]
            for head, right in zip(heads, aligned, strict=True)
        ]
        table = NamedTable(columns, num_names)
        for row in self.body.rows if self.body else []:
            table.add_row(*(element.content for element in row.cells))
        yield table
        yield ""


class NamedMarkdown(Markdown):
    """Markdown for the terminal, whose tables keep the names of their rows."""

    elements = Markdown.elements | {"table_open": NamedTableElement}
