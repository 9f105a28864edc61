"""Numeric arrays of MATLAB 5.0 files, read with a limit: other readers trust the sizes that a damaged file declares."""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEADER = 128
MATRIX, COMPRESSED = 14, 15
KINDS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
FLAGS, INT32, INT8 = 6, 5, 1  # the kinds of a matrix's flags, sizes and name
NUMERIC = range(6, 16)  # classes of matrices from double to uint64; before them are cells, structures, text and others
COMPLEX = 8  # a bit of the flags


def read_arrays(path: Path, names: tuple[str, ...], largest: int) -> dict[str, NDArray[Any]]:
    """The arrays of these names that a file holds, in at most so many bytes each; others are passed over.

    >>> import tempfile
    >>> from scipy.io import savemat
    >>> path = Path(tempfile.mkdtemp(), "small.mat")
    >>> savemat(path, {"y": np.array([[1], [10]], np.uint8), "z": "text"})
    >>> read_arrays(path, ("y",), largest=1000)
    {'y': array([[ 1],
           [10]], dtype=uint8)}
    """
    if path.stat().st_size > largest:
        raise ValueError(f"{path.stat().st_size:,} bytes, expected at most {largest:,}")
    content = memoryview(path.read_bytes())
    order = {b"IM": "<", b"MI": ">"}.get(bytes(content[HEADER - 2 : HEADER]), "")
    if not order:
        raise ValueError("its header does not tell the order of its bytes")
    found: dict[str, NDArray[Any]] = {}
    for kind, body in _elements(content[HEADER:], order):
        if kind == COMPRESSED:
            unfolding = zlib.decompressobj()
            unfolded = unfolding.decompress(body, largest)
            if not unfolding.eof:
                raise ValueError(f"a variable is cut off, or unfolds to more than {largest:,} bytes")
            kind, body = next(_elements(memoryview(unfolded), order), (0, body))
        if kind == MATRIX:
            found |= _matrix(body, order, names)
    return found


def _elements(content: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """The parts of some bytes: what kind they are of, and their bytes."""
    place = 0
    while place < len(content):
        if place + 8 > len(content):
            raise ValueError("it ends within a tag")
        kind, size = struct.unpack_from(f"{order}2I", content, place)
        start = place + 8
        if kind >> 16:  # small ones have their size and at most four bytes in the tag itself
            kind, size, start = kind & 0xFFFF, kind >> 16, place + 4
        end = start + size
        if end > len(content) or (start == place + 4 and size > 4):
            raise ValueError(f"{size:,} bytes are declared where {len(content) - start:,} are left")
        yield kind, content[start:end]
        place = place + 8 if start == place + 4 else end if kind == COMPRESSED else -(-end // 8) * 8


def _matrix(body: memoryview, order: str, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """A matrix by its name, if it is one of these: flags, sizes, name and values, one after the other."""
    parts = _elements(body, order)
    (flags, about), (of_sizes, sizes), (of_name, letters) = (next(parts, (0, body[:0])) for _ in range(3))
    if (flags, of_sizes, of_name) != (FLAGS, INT32, INT8) or len(about) != 8:
        raise ValueError("a variable does not begin with its flags, sizes and name")
    name = bytes(letters).decode("latin-1")
    if name not in names:
        return {}
    flag = struct.unpack_from(f"{order}I", about)[0]
    kind, values = next(parts, (0, body[:0]))
    if flag & 0xFF not in NUMERIC or flag >> 8 & COMPLEX or kind not in KINDS:
        raise ValueError(f"the variable {name} does not hold real numbers")
    shape = np.frombuffer(sizes, f"{order}i4").tolist()
    array = np.frombuffer(values, np.dtype(f"{order}{KINDS[kind]}"))
    if min(shape, default=-1) < 0 or int(np.prod(shape, dtype=object)) != array.size:
        raise ValueError(f"the variable {name} has the sizes {shape[:8]}, but {array.size:,} values")
    return {name: array.reshape(shape, order="F")}
