"""JSON as a whole: an array of records, columns by name, what pandas writes, or JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import reader
from .jsonl import JsonObjects, JsonReader, row_of
from .reader import CLASSES, UNNAMED, Reader, open_bytes, readable

MOST_BYTES = 1_000_000_000
ROWS_AT_ONCE = 50_000


def open_json(path: Path) -> Reader:
    """Return the reader of a .json file, which may also hold JSON lines, as Spark writes them."""
    with readable(path), open_bytes(path) as file:
        first = file.readline(reader.LONGEST_ROW)
        more = file.readline(reader.LONGEST_ROW)
    if more.strip():
        try:
            if row_of(json.loads(first)) is not None:
                return JsonReader(path)
        except (ValueError, RecursionError):
            pass
    return JsonFileReader(path)


class JsonFileReader(JsonReader):
    """Read a file that is one JSON value, all of it at once."""

    unit = "row"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with readable(path, ValueError, RecursionError), open_bytes(path) as file:
            content = file.read(MOST_BYTES + 1)
            if len(content) > MOST_BYTES:
                raise ValueError(
                    f"{path} holds more than {MOST_BYTES:,} bytes: write one JSON object per line "
                    "(.jsonl), which is read in parts"
                )
            value = json.loads(content)
        rows = rows_of(value)
        if rows is None:
            raise ValueError(
                f"{path} is JSON, but not a table: expected an array of objects, one per row, or "
                "an object of columns"
            )
        self.rows = rows
        self.num_rows = len(rows)
        if isinstance(value, dict):
            names = next((value[name] for name in CLASSES if name in value), ())
            if isinstance(names, list) and len(names) != len(rows):
                self.classes = tuple(map(str, names))

    def blocks(self) -> Iterator[JsonObjects]:
        """Yield the rows, many at a time."""
        for start in range(0, len(self.rows), ROWS_AT_ONCE):
            block = JsonObjects()
            for position, row in enumerate(self.rows[start : start + ROWS_AT_ONCE], start):
                block.add(row, position, position)
            yield block


def rows_of(value: Any) -> list[Any] | None:
    """Return a JSON value as rows, None if it is not a table.

    >>> rows_of({"label": [0, 1], "p": [0.1, 0.9], "name": "vit"})
    [{'label': 0, 'p': 0.1}, {'label': 1, 'p': 0.9}]
    """
    if isinstance(value, list):
        is_column = value and all(isinstance(entry, str | int | float) for entry in value)
        return [{UNNAMED: entry} for entry in value] if is_column else value
    if not isinstance(value, dict):
        return None
    data = value.get("data")
    names = value.get("columns")
    if isinstance(data, list) and isinstance(names, list):  # pandas, orient="split"
        return [
            dict(zip(map(str, names), row, strict=False)) if isinstance(row, list) else row
            for row in data
        ]
    lists = {name: column for name, column in value.items() if isinstance(column, list)}
    lists = {name: column for name, column in lists.items() if name not in ("schema", "index")}
    tables = [column for column in lists.values() if column and isinstance(column[0], dict)]
    if len(tables) == 1 and len(lists) == 1:
        return tables[0]
    if lists:
        length = max(map(len, lists.values()))
        kept = {name: column for name, column in lists.items() if len(column) == length}
        return [dict(zip(kept, row, strict=True)) for row in zip(*kept.values(), strict=True)]
    return _of_mappings(value)


def _of_mappings(value: dict[str, Any]) -> list[Any] | None:
    """Return the rows of an object of objects: of columns by row, or of rows by column."""
    inner = [entry for entry in value.values() if isinstance(entry, dict)]
    if not inner or len(inner) < len(value):
        return None
    first = inner[0]
    by_row = all(key.isdecimal() for key in value) and not all(key.isdecimal() for key in first)
    if by_row:  # pandas, orient="index"
        return inner
    return [{name: column.get(row) for name, column in value.items()} for row in first]
