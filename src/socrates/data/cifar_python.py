"""CIFAR's python version: its pickles, interpreted here without running anything in them.

Python's own unpickler calls whatever a file names. The files of CIFAR need 23 of its operations and
know three names of numpy, which stand for an array here; everything else is refused.
"""

import pickletools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .download import DataCorrupt, DataNotFound
from .resident import Arrays

PIXELS = 3 * 32 * 32
LARGEST = 1_000_000_000  # bytes of a file, six times those of CIFAR-100's training images
ARRAY = "numpy.core.multiarray _reconstruct"
TYPE = "numpy dtype"
NAMES = (ARRAY, TYPE, "numpy ndarray")
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
VALUES = ("BININT", "BININT1", "BININT2", "BINSTRING", "SHORT_BINSTRING")
EMPTY: dict[str, Callable[[], Any]] = {
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class NumpyName(str):
    """A name of numpy that a pickle mentions; it is never looked up."""


class PickledArray:
    """An array of bytes that a pickle describes by its state."""

    values: NDArray[np.uint8] | None = None

    def set_state(self, state: Any) -> None:
        """Take (version, shape, type, whether columns come first, content)."""
        _, shape, kind, by_columns, content = state
        if not (isinstance(kind, PickledType) and kind.name == "u1" and isinstance(content, str)):
            raise ValueError("an array that is not of bytes")
        if not all(isinstance(size, int) and size >= 0 for size in shape) or len(shape) != 2:
            raise ValueError(f"an array of the shape {shape}")
        if shape[0] * shape[1] != len(content):
            raise ValueError(f"an array of the shape {shape} with {len(content):,} bytes")
        values = np.frombuffer(content.encode("latin-1"), np.uint8)
        self.values = values.reshape(shape, order="F" if by_columns else "C")


class PickledType:
    """The type of an array's entries, such as u1."""

    def __init__(self, name: object) -> None:
        self.name = name

    def set_state(self, state: Any) -> None:
        """Ignore the state: it is the byte order, which bytes do not have."""


class Machine:
    """The stack and the memory of a pickle that is being read."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []  # heights of the stack
        self.memory: dict[int, Any] = {}

    def run(self, operation: str, argument: Any) -> None:
        """Carry out one operation, or refuse it."""
        stack = self.stack
        if operation in VALUES:
            stack.append(argument)
        elif operation in CONSTANTS:
            stack.append(CONSTANTS[operation])
        elif operation in EMPTY:
            stack.append(EMPTY[operation]())
        elif operation in ("BINPUT", "LONG_BINPUT"):
            self.memory[argument] = stack[-1]
        elif operation in ("BINGET", "LONG_BINGET"):
            stack.append(self.memory[argument])
        elif operation == "MARK":
            self.marks.append(len(stack))
        elif operation in TUPLES:
            stack.append(tuple(self.popped(len(stack) - TUPLES[operation])))
        elif operation == "TUPLE":
            stack.append(tuple(self.popped(self.marks.pop())))
        elif operation in ("APPEND", "APPENDS"):
            place = len(stack) - 1 if operation == "APPEND" else self.marks.pop()
            self.extend(self.popped(place))
        elif operation in ("SETITEM", "SETITEMS"):
            place = len(stack) - 2 if operation == "SETITEM" else self.marks.pop()
            self.update(self.popped(place))
        elif operation == "GLOBAL" and argument in NAMES:
            stack.append(NumpyName(argument))
        elif operation == "REDUCE":
            self.reduce()
        elif operation == "BUILD":
            self.build()
        elif operation not in ("PROTO", "STOP"):
            name = "" if argument is None else f" {str(argument)[:60]}"
            raise ValueError(f"{operation}{name}")

    def popped(self, place: int) -> list[Any]:
        """Remove and return what lies on the stack from a height on."""
        if not 0 <= place <= len(self.stack):
            raise ValueError("too few values")
        values = self.stack[place:]
        del self.stack[place:]
        return values

    def extend(self, values: list[Any]) -> None:
        """Append values to the list on the stack."""
        if not isinstance(self.stack[-1], list):
            raise ValueError("values for what is not a list")
        cast(list[Any], self.stack[-1]).extend(values)

    def update(self, entries: list[Any]) -> None:
        """Set entries of the dict on the stack; its keys are text."""
        keys = entries[::2]
        if not isinstance(self.stack[-1], dict) or not all(isinstance(key, str) for key in keys):
            raise ValueError("entries of what is not a dict of names")
        cast(dict[str, Any], self.stack[-1]).update(zip(keys, entries[1::2], strict=True))

    def reduce(self) -> None:
        """Put an array or a type on the stack, which `build` fills."""
        function, arguments = self.popped(len(self.stack) - 2)
        if not isinstance(function, NumpyName) or not isinstance(arguments, tuple):
            raise ValueError("a call of what is not numpy's")
        if function == ARRAY:
            self.stack.append(PickledArray())
        elif function == TYPE and arguments:
            self.stack.append(PickledType(cast(tuple[Any, ...], arguments)[0]))
        else:
            raise ValueError(f"a call of {function}")

    def build(self) -> None:
        """Give the array or type on the stack its state."""
        owner, state = self.popped(len(self.stack) - 2)
        if not isinstance(owner, (PickledArray, PickledType)):
            raise ValueError("a state of what is not numpy's")
        owner.set_state(state)
        self.stack.append(owner)


def read_pickle(path: Path) -> dict[str, Any]:
    """Read the dict of a pickled batch: text, integers, lists, dicts and arrays of bytes."""
    if not path.is_file():
        raise DataNotFound(f"{path} is missing: put the whole python version of CIFAR there")
    size = path.stat().st_size
    if size > LARGEST:
        raise DataCorrupt(
            f"{path}: {size:,} bytes, expected at most {LARGEST:,}: it is another file"
        )
    machine = Machine()
    try:
        for operation, argument, _ in pickletools.genops(path.read_bytes()):
            machine.run(operation.name, argument)
        batch = machine.stack.pop()
    except (ValueError, TypeError, IndexError, KeyError) as error:
        raise DataCorrupt(
            f"{path}: not a batch of CIFAR's python version ({error or type(error).__name__}): it "
            "is damaged or another file, and nothing in it was run"
        ) from error
    if not isinstance(batch, dict):
        raise DataCorrupt(f"{path}: holds a {type(batch).__name__}, expected a dict of a batch")
    return cast(dict[str, Any], batch)


def read_batches(paths: Sequence[Path], labels_key: str, num_classes: int) -> Arrays:
    """Read images (N, 3, 32, 32) and labels of pickled batches, in their order."""
    parts = [_read_batch(path, labels_key, num_classes) for path in paths]
    images = np.concatenate([images for images, _ in parts])
    labels = np.concatenate([labels for _, labels in parts])
    return images, labels


def _read_batch(path: Path, labels_key: str, num_classes: int) -> Arrays:
    batch = read_pickle(path)
    array = batch.get("data")
    values = array.values if isinstance(array, PickledArray) else None
    labels = batch.get(labels_key)
    if values is None or values.shape[1] != PIXELS or not isinstance(labels, list):
        raise DataCorrupt(
            f"{path}: data (N, {PIXELS}) and a list {labels_key} are expected, found "
            f"{', '.join(sorted(batch)[:9])[:200] or 'nothing'}"
        )
    numbers = cast(list[object], labels)
    valid = all(type(label) is int and 0 <= label < num_classes for label in numbers)
    if not valid or len(numbers) != len(values) or not numbers:
        raise DataCorrupt(
            f"{path}: {labels_key} must be {len(values)} labels from 0 to {num_classes - 1}, "
            f"found {len(numbers)} entries"
        )
    images = np.ascontiguousarray(values).reshape(-1, 3, 32, 32)
    return images, np.array(numbers, np.int64)
