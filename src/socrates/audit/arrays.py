"""Arrays of numpy: NPZ with named arrays, NPY with one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from socrates.files import refuse_bomb
from socrates.metrics.predictions import Array

from .columns import LABEL, VALUES
from .reader import FIRST_ROWS, Part, Reader, batch_rows, readable, suffix_of
from .table import Coded, Column, Table

MOST_CLASSES = 1_000_000
CLASSES = ("classes", "class_names")
PREDICTIONS = (*LABEL, *VALUES["probabilities"], *VALUES["logits"])
UNNAMED = "values"  # what the one array of an NPY file is called


class ArrayReader(Reader):
    """Arrays of one length; `classes` or `class_names` beside them name the classes, `num_classes` counts them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        arrays = dict(self.arrays)
        names = next((arrays.pop(name) for name in CLASSES if name in arrays), None)
        count = arrays.get("num_classes")
        if names is not None:
            with readable(path, SystemError):  # letters that there are not
                self.classes = tuple(map(str, _decoded(np.ravel(names)).tolist()))
        elif count is not None and count.ndim == 0 and count.dtype.kind in "iu":
            if count > MOST_CLASSES:
                raise ValueError(f"{path}: num_classes is {count}, expected at most {MOST_CLASSES:,}")
            self.classes = tuple(map(str, range(int(count))))
        arrays = {name: array for name, array in arrays.items() if array.ndim in (1, 2)}
        if not arrays:
            raise ValueError(f"{path} holds no array of one or two dimensions: expected probs or logits, and labels")
        known = [name for name in arrays if name.lower() in PREDICTIONS]
        self.num_rows = len(max([arrays[name] for name in known] or arrays.values(), key=np.ndim))
        for name in known:
            if len(arrays[name]) != self.num_rows:
                given = f"{name} has {len(arrays[name])} rows"
                raise ValueError(f"{path}: {given}, expected {self.num_rows} as the others have")
        self.names = [name for name, array in arrays.items() if len(array) == self.num_rows]

    @cached_property
    def arrays(self) -> Mapping[str, Array]:
        """What the file holds; an NPY file stays on the disk until its rows are read."""
        with readable(self.path, Exception):  # numpy and zipfile raise many kinds for a damaged file
            if suffix_of(self.path) == ".npy":
                return {UNNAMED: np.load(self.path, mmap_mode="r" if self.path.stat().st_size else None)}
            found: dict[str, Array] = {}
            with open(self.path, "rb") as file, np.load(file) as stored:
                refuse_bomb(stored.zip, self.path)
                for name in stored.files:
                    try:
                        array = stored[name]
                        if isinstance(array, np.ndarray):  # else an entry that numpy did not write
                            found[name] = array
                    except ValueError:  # Python objects, which do not matter if they are something else
                        if name.lower() in PREDICTIONS:
                            raise
            return found

    def first_rows(self) -> Mapping[str, Column]:
        return {name: _column(self.arrays[name][:FIRST_ROWS], as_words=False) for name in self.names}

    def tables(self, part: Part, numbers: Sequence[str], words: Sequence[str]) -> Iterator[Table]:
        width = max((self.arrays[name].shape[-1] for name in numbers if self.arrays[name].ndim == 2), default=1)
        step = batch_rows(width)
        for start in range(0, self.num_rows or 0, step):
            rows = slice(start, start + step)
            columns = {name: _column(self.arrays[name][rows], name in words) for name in (*numbers, *words)}
            positions = np.arange(start, min(start + step, self.num_rows or 0))
            yield Table(columns, positions, positions)


def _decoded(array: Array) -> Array:
    return np.char.decode(array) if array.dtype.kind == "S" else array


def _column(array: Array, as_words: bool) -> Column:
    array = _decoded(array)
    if array.ndim == 2 and (array.shape[1] == 1 or array.dtype.kind == "U"):
        array = array[:, 0]
    is_number = array.dtype.kind in "fiub"
    return np.asarray(array) if is_number and not as_words else Coded.of_array(array)
