"""The readers of files from outside, each with small good files that are made here: what `fuzz.py`
spoils."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from cifar_python_files import some_batch
from hostile import Target
from packing import dense_mat, of_zip, sealed_png, sealed_tar, tarred, written
from socrates import data, scaling
from socrates.audit.predictions import open_predictions
from socrates.data.cifar_python import read_batches
from socrates.data.download import extract
from socrates.data.food101 import read_part
from socrates.data.image import image_tensor
from socrates.data.official import read_idx, read_mat, read_records
from socrates.engine.train import train
from socrates.experiment import Experiment, Optimization, Part
from socrates.predictor import load
from socrates.records import Run

DRAW = np.random.default_rng(0)
PROBS = DRAW.dirichlet((1, 1, 1), 40)
LABELS = np.arange(40) % 3
CHECKSUM = re.compile(rb',\s*"checksum": "\w+"')  # it is compared last


def targets(folder: Path) -> list[Target]:
    """All readers; their files are below the folder."""
    return [*official(folder), *own_images(folder), *predictions(folder), *runs(folder)]


def pixels(*shape: int) -> np.ndarray[Any, Any]:
    """Random grey levels."""
    return DRAW.integers(0, 256, shape, dtype=np.uint8)


def official(folder: Path) -> list[Target]:
    """IDX, MATLAB, CIFAR's records, archives, and the lists of Food-101."""
    from scipy.io import savemat

    idx = struct.pack(">4I", 0x803, 3, 28, 28) + pixels(3, 28, 28).tobytes()
    cifar = b"".join(bytes([label]) + pixels(3072).tobytes() for label in range(3))
    content = {"X": pixels(32, 32, 3, 4), "y": np.arange(1, 5)[:, None]}
    plain, dense = (written(savemat, content, do_compression=dense) for dense in (False, True))
    body = written(
        tarred,
        {"cifar-10-batches-bin/test_batch.bin": b"1234", "cifar-10-batches-bin/readme.html": b"5"},
    )
    classes = ["cake", "soup"]
    for name in ("images/cake", "images/soup", "meta"):
        (folder / "food-101" / name).mkdir(parents=True)
    for name in ("cake/1", "soup/2"):
        (folder / "food-101" / "images" / f"{name}.jpg").touch()
    archive = folder / "cifar.tar.gz"
    return [
        Target("IDX", folder / "plain-idx3-ubyte", lambda path: read_idx(path, 3), [idx]),
        Target(
            "IDX, gzip",
            folder / "images-idx3-ubyte.gz",
            lambda path: read_idx(path, 3),
            [gzip.compress(idx)],
            [(idx, gzip.compress)],
        ),
        Target(
            "CIFAR binary",
            folder / "test_batch.bin",
            lambda path: read_records([path], 1, 10),
            [cifar],
        ),
        Target(
            "CIFAR python",
            folder / "test_batch",
            lambda path: read_batches([path], "labels", 10),
            [some_batch()],
        ),
        Target(
            "MATLAB", folder / "train_32x32.mat", read_mat, [plain, dense], [(plain, dense_mat)]
        ),
        Target(
            "tar",
            archive,
            extracted,
            [gzip.compress(body)],
            [(body, gzip.compress), (body, sealed_tar)],
        ),
        Target(
            "Food-101 list",
            folder / "food-101" / "meta" / "train.txt",
            lambda path: read_part(path.parents[1], "train", classes),
            [b"cake/1\nsoup/2\n"],
        ),
    ]


def own_images(folder: Path) -> list[Target]:
    """Images of every kind, a folder of them, and arrays."""
    image = Image.fromarray(pixels(9, 12, 3))
    kinds = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
    files = [written(image.save, kind) for kind in kinds]
    files.append(written(Image.fromarray(pixels(9, 12).astype(np.uint16)).save, "PNG"))
    pictures = folder / "pictures"
    for name in ("cat", "dog"):
        (pictures / name).mkdir(parents=True)
        for number in range(8):
            image.save(pictures / name / f"{number}.bmp")
    arrays = {
        "x_train": pixels(30, 4, 4),
        "y_train": LABELS[:30],
        "classes": np.array(["a", "b", "c"]),
    }
    stored, dense = written(np.savez, **arrays), written(np.savez_compressed, **arrays)
    inside = [*of_zip(stored), *of_zip(stored, zipfile.ZIP_DEFLATED)]

    def decoded(path: Path) -> None:
        image_tensor(path, (3, 8, 8))

    return [
        Target(
            "image",
            folder / "image.png",
            decoded,
            files,
            [(files[0], sealed_png), (files[-1], sealed_png)],
        ),
        Target(
            "image folder",
            pictures / "cat" / "3.bmp",
            lambda _: data.load(f"folder:{pictures}"),
            files,
        ),
        Target(
            "npz images",
            folder / "mine.npz",
            lambda path: data.load(f"npz:{path}"),
            [stored, dense],
            inside,
        ),
    ]


def predictions(folder: Path) -> list[Target]:
    """What `socrates audit` reads."""
    import pyarrow
    from pyarrow import parquet

    rows = [
        dict(zip(("label", "p0", "p1", "p2"), (int(y), *map(float, p)), strict=True))
        for y, p in zip(LABELS, PROBS, strict=True)
    ]
    comma, tab = (
        "\n".join(
            mark.join(map(str, line)) for line in (rows[0], *(row.values() for row in rows))
        ).encode()
        for mark in ",\t"
    )
    lines = "\n".join(
        json.dumps({"label": int(y), "probs": p.tolist()})
        for y, p in zip(LABELS, PROBS, strict=True)
    ).encode()
    wide = pyarrow.table({name: [row[name] for row in rows] for name in rows[0]})
    listed = pyarrow.table({"probs": PROBS.tolist(), "label": [f"class {y}" for y in LABELS]})
    tables = [
        written(_parquet(parquet), table, pack)
        for table in (wide, listed)
        for pack in ("snappy", "none")
    ]
    arrays = written(np.savez, probs=PROBS, labels=LABELS)
    names = ("cat", "dog", "bird")
    nested = [
        {
            "label": names[y],
            "scores": [{"label": k, "score": v} for k, v in zip(names, p.tolist(), strict=True)],
        }
        for y, p in zip(LABELS, PROBS, strict=True)
    ]
    whole = [
        json.dumps(value).encode()
        for value in (rows, nested, {"probs": PROBS.tolist(), "labels": LABELS.tolist()})
    ]
    feathers = [
        written(_feather, table, pack)
        for table in (wide, listed)
        for pack in ("uncompressed", "lz4")
    ]
    inner = pyarrow.table(
        {"label": [names[y] for y in LABELS], "scores": [r["scores"] for r in nested]}
    )
    tables.append(written(_parquet(parquet), inner, "none"))
    sheet = written(_excel, rows[:8])
    ids = "\n".join(["id,label", *(f"{row},{y}" for row, y in enumerate(LABELS))]).encode()
    with_ids = folder / "with-ids.txt.csv"
    with_ids.write_bytes(
        "\n".join(
            ["id,p0,p1,p2", *(f"{row},{','.join(map(str, p))}" for row, p in enumerate(PROBS))]
        ).encode()
    )
    (folder / "labels.npy").write_bytes(written(np.save, LABELS))
    beside_labels = folder / "labels.txt.csv"  # an error that names it names both
    beside_labels.write_bytes(comma)

    def read(path: Path, **options: Any) -> None:
        source = open_predictions(path, **options)
        for part in source.parts:
            for _ in source.batches(part):
                pass

    def beside(path: Path) -> None:
        read(path, labels=folder / "labels.npy")

    def labelled(path: Path) -> None:
        read(beside_labels, labels=path)

    def joined(path: Path) -> None:
        read(with_ids, labels=path)

    return [
        Target(
            "audit CSV",
            folder / "a.csv",
            read,
            [
                comma,
                b'label,p0,p1\n"0",0.5,0.5\n1,"0.1",0.9\n',
                comma.replace(b",", b";").replace(b".", b","),
            ],
        ),
        Target(
            "audit CSV, gzip",
            folder / "a.csv.gz",
            read,
            [gzip.compress(comma)],
            [(comma, gzip.compress)],
        ),
        Target("audit TSV", folder / "a.tsv", read, [tab]),
        Target(
            "audit JSONL",
            folder / "a.jsonl",
            read,
            [lines, b'{"label": "a", "confidence": 0.5, "correct": 1}\n'],
        ),
        Target(
            "audit JSONL, nested",
            folder / "nested.jsonl",
            read,
            ["\n".join(map(json.dumps, nested)).encode()],
        ),
        Target("audit JSON", folder / "a.json", read, whole),
        Target("audit Feather", folder / "a.feather", read, feathers),
        Target("audit Excel", folder / "a.xlsx", read, [sheet], of_zip(sheet)),
        Target("audit labels with ids", folder / "with-ids.txt", joined, [ids]),
        Target("audit Parquet", folder / "a.parquet", read, tables),
        Target("audit NPZ", folder / "a.npz", read, [arrays], of_zip(arrays)),
        Target("audit NPY", folder / "a.npy", beside, [written(np.save, PROBS)]),
        Target(
            "audit labels", folder / "labels.txt", labelled, ["\n".join(map(str, LABELS)).encode()]
        ),
    ]


def _feather(file: Any, table: Any, pack: str) -> None:
    from pyarrow import feather

    feather.write_feather(table, file, compression=pack)


def _excel(file: Any, rows: list[dict[str, Any]]) -> None:
    from openpyxl import Workbook

    book = Workbook()
    for row in (rows[0], *(row.values() for row in rows)):
        book.worksheets[0].append([*row])
    book.save(file)


def runs(folder: Path) -> list[Target]:
    """The files of a run, a model and a scaler."""
    experiment = Experiment(
        Part("digits"),
        Part("mlp", width=4),
        Part("socrates"),
        num_train=50,
        optimization=Optimization(epochs=1),
    )
    made = train(experiment, folder / "made", accelerator="cpu").directory
    copies = [path for path in made.rglob("*") if path.is_file()]

    def target(name: str, read: Callable[[Path], Any], **parts: Any) -> Target:
        place = folder / "run of" / name  # where only this file is ever damaged
        shutil.copytree(made, place)
        body = (made / name).read_bytes()
        return Target(f"run's {name}", place / name, read, [body, CHECKSUM.sub(b"", body)], **parts)

    logits = next(
        path for path in copies if path.parent.name == "predictions" and path.name.startswith("val")
    )
    model = (made / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", model[:8])[0]
    header, tensors = model[8 : 8 + size], model[8 + size :]
    told = CHECKSUM.sub(b"", json.loads(header)["__metadata__"]["socrates"].encode())

    def with_header(text: bytes) -> bytes:
        return struct.pack("<Q", len(text)) + text + tensors

    def with_words(text: bytes) -> bytes:
        metadata = {"__metadata__": {"socrates": text.decode(errors="replace")}}
        return with_header(json.dumps(json.loads(header) | metadata).encode())

    scaler = scaling.SCALERS["matrix"]().fit(np.log(PROBS), LABELS)
    kept = scaling.save(scaler, folder / "kept.npz").read_bytes()
    found = [
        target("experiment.json", lambda path: Run(path.parent).experiment),
        target("evaluation.json", lambda path: Run(path.parent).evaluation()),
        target("finished.json", lambda path: Run(path.parent).finished_on),
        target("data.json", lambda path: Run(path.parent).data),
        target("epochs.jsonl", lambda path: Run(path.parent).epochs()),
        target(
            f"predictions/{logits.name}",
            lambda path: Run(path.parents[1]).predictions("val", 1),
            parts=of_zip(logits.read_bytes(), zipfile.ZIP_DEFLATED),
        ),
        target(
            "model.safetensors",
            load,
            parts=[(header, with_header), (told, with_words), (told, with_words)],
        ),
        Target("scaler", folder / "scaler.npz", scaling.load, [kept], of_zip(kept)),
    ]
    return [*found, *checkpoints(folder)]


def checkpoints(folder: Path) -> list[Target]:
    """A checkpoint, also with what no checksum would notice."""
    import torch

    from socrates.engine import checkpoint

    path = folder / "checkpoint.pt"
    weights = {"0.weight": torch.randn(3, 4), "0.bias": torch.zeros(3)}
    checkpoint.write(
        path,
        {"epoch": 1, "step": 0, "best": {}, "model": weights, "optimizer": {"state": {0: weights}}},
    )
    whole = path.read_bytes()
    return [Target("checkpoint", path, checkpoint.read, [whole], of_zip(whole))]


def extracted(archive: Path) -> None:
    """Extract into a folder of its own, outside of which nothing may appear."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as outer:
        root = Path(outer, "data")
        root.mkdir()
        try:
            extract(archive, root, "cifar-10-batches-bin")
        finally:
            if [path.name for path in Path(outer).iterdir()] != ["data"] or len(
                list(root.iterdir())
            ) > 1:
                raise AssertionError("something was written outside of the folder")


def _parquet(parquet: Any) -> Callable[..., None]:
    return lambda stream, table, pack: parquet.write_table(table, stream, compression=pack)
