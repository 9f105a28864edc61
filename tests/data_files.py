"""Small data sets in the official formats, written by the tests."""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from PIL import Image

OFFICIAL_COUNTS = "ignore:.*do not compare with those on the official data:UserWarning"


def pixels(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def cifar_bytes(count: int, num_labels: int, num_classes: int, seed: int = 0) -> bytes:
    """Records whose class is their number modulo the classes."""
    labels = np.zeros((count, num_labels), np.uint8)
    labels[:, -1] = np.arange(count) % num_classes
    return np.concatenate([labels, pixels((count, 3072), seed)], axis=1).tobytes()


def cifar10_files() -> dict[str, bytes]:
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    return {
        f"cifar-10-batches-bin/{name}": cifar_bytes(20, 1, 10, seed)
        for seed, name in enumerate(names)
    }


def cifar100_files() -> dict[str, bytes]:
    return {
        "cifar-100-binary/train.bin": cifar_bytes(200, 2, 100),
        "cifar-100-binary/test.bin": cifar_bytes(50, 2, 100),
    }


def jpeg(width: int, height: int, seed: int = 0) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels((height, width, 3), seed)).save(buffer, "JPEG")
    return buffer.getvalue()


def food101_files(num_classes: int = 3, count: int = 5) -> dict[str, bytes]:
    """Small pictures of different sizes; two classes' lists are not in alphabetical order."""
    classes = [f"dish_{k}" for k in range(num_classes)]
    names = [f"{name}/{100 + i}" for i in range(count) for name in classes]
    files = {f"food-101/images/{name}.jpg": jpeg(40 + i, 30, i) for i, name in enumerate(names)}
    cut = len(names) * 2 // 3
    lists = {"classes": classes, "train": names[:cut], "test": names[cut:]}
    return files | {
        f"food-101/meta/{part}.txt": "\n".join(lines).encode() for part, lines in lists.items()
    }


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape) + array.tobytes()


def mnist_files(compressed: bool) -> dict[str, bytes]:
    files = {}
    for part, count in {"train": 40, "t10k": 20}.items():
        files[f"{part}-images-idx3-ubyte"] = idx(pixels((count, 28, 28)))
        files[f"{part}-labels-idx1-ubyte"] = idx((np.arange(count) % 10).astype(np.uint8))
    return (
        {f"{name}.gz": gzip.compress(body) for name, body in files.items()} if compressed else files
    )


def write(root: Path, files: dict[str, bytes]) -> None:
    for name, body in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)


def tar_gz(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, body in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(body)
            tar.addfile(member, io.BytesIO(body))
    return buffer.getvalue()


def md5(body: bytes) -> str:
    return hashlib.md5(body).hexdigest()


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder, counts requests, and breaks off in the middle of names that start with
    `short`."""

    requested: list[str]

    def do_GET(self) -> None:
        self.server.requested.append(self.path)  # type: ignore[attr-defined]
        if not Path(self.path).name.startswith("short"):
            return super().do_GET()
        body = Path(self.translate_path(self.path)).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2])
        return None

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The address of a loopback server and the list of what was asked of it."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as http:
        http.requested = []  # type: ignore[attr-defined]
        thread = threading.Thread(
            target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_address[1]}/", http.requested  # type: ignore[attr-defined]
        finally:
            http.shutdown()
            thread.join(5)
