"""Numeric arrays of MATLAB 5.0 files, read in bounded memory.

Why not `scipy.io.loadmat`: SciPy's reader of MATLAB files crashed the process on some files of our
fuzz (docs/security.md, "Fuzzed"), as it trusts the sizes that a damaged file declares.
"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEADER = 128  # bytes
MAGIC = b"MATLAB 5.0"
MATRIX = 14
COMPRESSED = 15
KINDS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
HEAD_KINDS = [6, 5, 1]  # of a matrix's flags (uint32), sizes (int32) and name (int8)
# classes of matrices from double to uint64; before them are cells, structures, text and others
NUMERIC = range(6, 16)
COMPLEX = 8  # a bit of the flags


def read_arrays(path: Path, names: tuple[str, ...], largest: int) -> dict[str, NDArray[Any]]:
    """Read the arrays of these names from a file, each of at most `largest` bytes.

    Other variables are skipped.

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
    order = {b"IM": "<", b"MI": ">"}.get(bytes(content[HEADER - 2 : HEADER]))
    if order is None or bytes(content[: len(MAGIC)]) != MAGIC:
        raise ValueError("the header is not that of a MATLAB 5.0 file")
    arrays: dict[str, NDArray[Any]] = {}
    for kind, body in _elements(content[HEADER:], order):
        if kind == COMPRESSED:
            unfolded = memoryview(_decompress(body, largest))
            kind, body = next(_elements(unfolded, order), (0, body))
        if kind == MATRIX:
            arrays |= _matrix(body, order, names)
    return arrays


def _decompress(body: memoryview, largest: int) -> bytes:
    """Return the decompressed bytes of a variable, which may be at most `largest`."""
    decompressor = zlib.decompressobj()
    unfolded = decompressor.decompress(body, largest)
    if not decompressor.eof:
        raise ValueError(f"a variable is cut off, or unfolds to more than {largest:,} bytes")
    return unfolded


def _elements(content: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Yield the kind and the bytes of each element of some bytes."""
    place = 0
    while place < len(content):
        if place + 8 > len(content):
            raise ValueError("it ends within a tag")
        kind, size = struct.unpack_from(f"{order}2I", content, place)
        is_small = kind >> 16 > 0  # then the tag itself holds the size and up to four bytes
        if is_small:
            size = kind >> 16
            kind &= 0xFFFF
        start = place + 4 if is_small else place + 8
        end = start + size
        if end > len(content) or (is_small and size > 4):
            raise ValueError(f"{size:,} bytes are declared where {len(content) - start:,} are left")
        yield kind, content[start:end]
        if is_small:
            place += 8
        elif kind == COMPRESSED:
            place = end
        else:  # elements begin at multiples of eight bytes
            place = -(-end // 8) * 8


def _matrix(body: memoryview, order: str, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Return a matrix by its name, or nothing if the name is not among `names`.

    A matrix consists of flags, sizes, a name and values, in this order.
    """
    elements = _elements(body, order)
    nothing = (0, body[:0])
    head = [next(elements, nothing) for _ in range(3)]
    flags, sizes, letters = (content for _, content in head)
    if [kind for kind, _ in head] != HEAD_KINDS or len(flags) != 8:
        raise ValueError("a variable does not begin with its flags, sizes and name")
    name = bytes(letters).decode("latin-1")
    if name not in names:
        return {}
    flag = struct.unpack_from(f"{order}I", flags)[0]
    kind, values = next(elements, nothing)
    if flag & 0xFF not in NUMERIC or flag >> 8 & COMPLEX or kind not in KINDS:
        raise ValueError(f"the variable {name} does not hold real numbers")
    shape = np.frombuffer(sizes, f"{order}i4").tolist()
    array = np.frombuffer(values, np.dtype(f"{order}{KINDS[kind]}"))
    if min(shape, default=-1) < 0 or int(np.prod(shape, dtype=object)) != array.size:
        raise ValueError(
            f"the variable {name} has the sizes {shape[:8]}, but {array.size:,} values"
        )
    return {name: array.reshape(shape, order="F")}
