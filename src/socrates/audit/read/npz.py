"""Arrays of numpy: NPZ with named arrays, NPY with one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from socrates.arrays.open import Array
from socrates.audit.layout import LABEL, PREDICTED, VALUES
from socrates.files import refuse_bomb

from .columns import Column, Words
from .reader import (
    CLASSES,
    FIRST_ROWS,
    UNNAMED,
    FilePart,
    FileRows,
    Reader,
    batch_rows,
    readable,
    suffix_of,
)

MOST_CLASSES = 1_000_000


class ArrayReader(Reader):
    """Read arrays of one length.

    `classes` or `class_names` beside them name the classes, `num_classes` counts them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        arrays = dict(self.arrays)
        self.classes = self._class_names(arrays)
        arrays = {name: array for name, array in arrays.items() if array.ndim in (1, 2)}
        if not arrays:
            raise ValueError(
                f"{path} holds no array of one or two dimensions: expected probs or logits, and "
                "labels"
            )
        known = {name: array for name, array in arrays.items() if is_prediction(name)}
        self.num_rows = len(max((known or arrays).values(), key=np.ndim))
        for name, array in known.items():
            if len(array) != self.num_rows:
                raise ValueError(
                    f"{path}: {name} has {len(array)} rows, expected {self.num_rows} as the others "
                    "have"
                )
        self.names = [name for name, array in arrays.items() if len(array) == self.num_rows]

    def _class_names(self, arrays: dict[str, Array]) -> tuple[str, ...]:
        """Take the names of the classes out of the arrays, or count them by `num_classes`."""
        longest = max((len(array) for array in arrays.values() if array.ndim == 2), default=-1)
        for name in CLASSES:
            if name not in arrays or np.size(arrays[name]) == longest:
                continue  # as many as there are rows: they are the classes of the rows
            names = arrays.pop(name)
            with readable(self.path, SystemError):  # characters that do not exist
                return tuple(map(str, _decoded(np.ravel(names)).tolist()))
        count = arrays.get("num_classes")
        if count is None or count.ndim or count.dtype.kind not in "iu":
            return ()
        if count > MOST_CLASSES:
            raise ValueError(
                f"{self.path}: num_classes is {count}, expected at most {MOST_CLASSES:,}"
            )
        return tuple(map(str, range(int(count))))

    @cached_property
    def arrays(self) -> Mapping[str, Array]:
        """Return all arrays; that of an NPY file stays on disk until its rows are read."""
        # numpy and zipfile raise many kinds of errors for a damaged file.
        with readable(self.path, Exception):
            if suffix_of(self.path) == ".npy":
                mode = "r" if self.path.stat().st_size else None
                return {UNNAMED: np.load(self.path, mmap_mode=mode)}
            return self._unpacked()

    def _unpacked(self) -> dict[str, Array]:
        arrays: dict[str, Array] = {}
        with open(self.path, "rb") as file, np.load(file) as stored:
            refuse_bomb(stored.zip, self.path)
            for name in stored.files:
                try:
                    array = stored[name]
                except ValueError:  # Python objects, which matter only in these places
                    if is_prediction(name):
                        raise
                    continue
                if isinstance(array, np.ndarray):  # else numpy did not write it
                    arrays[name] = array
        return arrays

    def first_rows(self) -> Mapping[str, Column]:
        """Return the first rows of every array that has as many rows as the predictions."""
        return {
            name: _column(self.arrays[name][:FIRST_ROWS], as_words=False) for name in self.names
        }

    def batches(
        self, part: FilePart, numbers: Sequence[str], words: Sequence[str]
    ) -> Iterator[FileRows]:
        """Yield slices of the arrays."""
        num_rows = self.num_rows or 0
        shapes = [self.arrays[name].shape for name in numbers]
        step = batch_rows(max((shape[1] for shape in shapes if len(shape) == 2), default=1))
        for start in range(0, num_rows, step):
            rows = slice(start, start + step)
            columns = {
                name: _column(self.arrays[name][rows], name in words) for name in (*numbers, *words)
            }
            positions = np.arange(start, min(start + step, num_rows))
            yield FileRows(columns, positions, positions)


def is_prediction(name: str) -> bool:
    """Return whether an array of this name holds predictions or labels."""
    known = (*LABEL, *PREDICTED, *VALUES["probabilities"], *VALUES["logits"])
    return name.lower() in known


def _decoded(array: Array) -> Array:
    # What is not UTF-8 stays apart from other names, instead of ending in an error.
    return np.char.decode(array, "utf-8", "backslashreplace") if array.dtype.kind == "S" else array


def _column(array: Array, as_words: bool) -> Column:
    array = _decoded(array)
    if array.ndim == 2 and (array.shape[1] == 1 or array.dtype.kind == "U"):
        array = array[:, 0]
    if array.dtype.kind in "fiub" and not as_words:
        return np.asarray(array)
    return Words.of_array(array)
