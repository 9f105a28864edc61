"""CIFAR's python version as its publisher wrote it: protocol 2 of Python 2's pickle."""

from __future__ import annotations

import struct

import numpy as np
from data_files import pixels


def text(value: str) -> bytes:
    body = value.encode("latin-1")
    return b"U" + bytes([len(body)]) + body if len(body) < 256 else long_text(body)


def long_text(body: bytes) -> bytes:
    return b"T" + struct.pack("<i", len(body)) + body


def number(value: int) -> bytes:
    if 0 <= value < 256:
        return b"K" + bytes([value])
    return b"J" + struct.pack("<i", value)


def array(values: np.ndarray) -> bytes:
    """A numpy array of bytes, with a memo entry after most objects."""
    rows, columns = values.shape
    kind = b"cnumpy\ndtype\nq\x07U\x02u1K\x00K\x01\x87Rq\x08(K\x03U\x01|NNN" + 2 * number(-1)
    return (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\nndarray\nq\x03K\x00\x85U\x01b\x87R"
        + b"q\x04(K\x01" + number(rows) + number(columns) + b"\x86" + kind + b"K\x00tb\x89"
        + long_text(values.tobytes()) + b"tb"
    )  # fmt: skip


def batch(images: np.ndarray, labels: dict[str, list[int]]) -> bytes:
    """A pickled batch: `data` (N, 3072), and lists of labels by their keys."""
    entries = text("batch_label") + text("training batch 1 of 5")
    for key, values in labels.items():
        entries += text(key) + b"]q\x05(" + b"".join(map(number, values)) + b"e"
    names = b"".join(text(f"{row}.png") for row in range(len(images)))
    entries += text("data") + array(images) + text("filenames") + b"]q\x06(" + names + b"e"
    return b"\x80\x02}q\x01(" + entries + b"u."


def from_records(records: bytes, num_labels: int) -> bytes:
    """The same images and labels as in a file of the binary version."""
    rows = np.frombuffer(records, np.uint8).reshape(-1, num_labels + 3072)
    labels = {"labels": rows[:, 0].tolist()}
    if num_labels == 2:
        labels = {"coarse_labels": rows[:, 0].tolist(), "fine_labels": rows[:, 1].tolist()}
    return batch(rows[:, num_labels:], labels)


def some_batch(count: int = 3) -> bytes:
    return batch(pixels((count, 3072)), {"labels": [row % 10 for row in range(count)]})
