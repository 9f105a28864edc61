"""Labels from a file of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from socrates.metrics.predictions import Array

from .columns import LABEL
from .reader import Reader, readable
from .table import MISSING, Coded
from .text import CsvReader, opened

MOST_BYTES = 1_000_000_000


def read_labels(path: Path, reader: Reader | None) -> Coded:
    """All labels of a file: its column of labels, or its only one. Text without columns is read as one label a line.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "labels.txt")
    >>> _ = path.write_text("label\\ncat\\nwild dog\\n")
    >>> read_labels(path, None).names
    ['cat', 'wild dog']
    """
    if reader is None or (isinstance(reader, CsvReader) and len(reader.names) == 1):
        with readable(path), opened(path) as file:
            content = file.read(MOST_BYTES + 1)
            if len(content) > MOST_BYTES:
                raise ValueError(f"{path} holds more than {MOST_BYTES:,} bytes: expected one label a line")
            lines = [line.strip().strip('"') for line in content.decode("utf-8-sig").splitlines()]
        return Coded.of(lines[1:] if _is_header(lines) else lines)
    names = list(reader.first_rows())
    name = next((name for name in names if name.lower() in LABEL), names[0] if len(names) == 1 else None)
    if name is None:
        raise ValueError(f"{path} has the columns {', '.join(names)}: expected one called label, or one alone")
    places: dict[str, int] = {}
    codes: list[Array] = []
    for table in (table for part in reader.parts for table in reader.tables(part, [], [name])):
        for line, why in table.broken.items():
            raise ValueError(f"{path}: {reader.unit} {line} {why}: expected a label for each row of the predictions")
        column = table.columns[name]
        assert isinstance(column, Coded)  # it was asked for as words
        own = [places.setdefault(word, len(places)) for word in column.names]
        codes.append(np.array([*own, MISSING])[column.codes])
    return Coded(np.concatenate([np.zeros(0, np.intp), *codes]), list(places))


def _is_header(lines: list[str]) -> bool:
    """Whether the first line names the column: a word for labels, or the only one that is no number."""
    numbers = [word.lstrip("-").replace(".", "", 1).isdecimal() for word in lines if word]
    return bool(lines) and (lines[0].lower() in LABEL or (len(lines) > 1 and not numbers[0] and all(numbers[1:])))
