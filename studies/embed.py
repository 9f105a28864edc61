"""Compute the features that the study trains heads on; only missing files are computed.

    python studies/embed.py --data FOLDER --images LITE0.pth --texts MINILM --clinc clinc150.json.gz
        --noise CIFAR-10_human.pt --out FEATURES [--only cifar10-test ...]

FOLDER holds CIFAR-10, CIFAR-100, SVHN and Food-101 in their official formats; LITE0.pth are
ImageNet weights of EfficientNet-Lite0 by their usual PyTorch names; MINILM is all-MiniLM-L6-v2 in
the Hugging Face format; CIFAR-10_human.pt are the labels of CIFAR-10N (Wei et al. 2022). Each file
of FEATURES has float16 rows and their labels, in the official order: a training set comes in parts
of 5,000.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from efficientnet_lite import features, load_weights

PART = 5_000
BATCH = 100
FAR = 1_000  # images of SVHN, as strangers


def pixels(data: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the uint8 images (N, 3, 32, 32) and labels of a CIFAR file of that name."""
    folder, files, skip, classes = {
        "cifar10-train": (
            "cifar-10-batches-bin", [f"data_batch_{i}.bin" for i in range(1, 6)], 1, 0
        ),
        "cifar10-test": ("cifar-10-batches-bin", ["test_batch.bin"], 1, 0),
        "cifar100-train": ("cifar-100-binary", ["train.bin"], 2, 1),
        "cifar100-test": ("cifar-100-binary", ["test.bin"], 2, 1),
    }[name]  # fmt: skip
    raw = np.concatenate([np.fromfile(data / folder / file, np.uint8) for file in files])
    rows = raw.reshape(-1, skip + 3072)
    return rows[:, skip:].reshape(-1, 3, 32, 32), rows[:, classes].astype(np.int64)


def food(data: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the images (N, 3, 64, 64) of Food-101 in 64 pixels, squeezed to a square."""
    from PIL import Image

    folder = data / "food-101"
    classes = (folder / "meta" / "classes.txt").read_text().split()
    names = (folder / "meta" / f"{split}.txt").read_text().split()
    images: list[np.ndarray] = []
    for name in names:
        with Image.open(folder / "images" / f"{name}.jpg") as picture:
            square = picture.convert("RGB").resize((64, 64), Image.Resampling.BILINEAR)
        images.append(np.asarray(square).transpose(2, 0, 1))
    return np.stack(images), np.array([classes.index(name.split("/")[0]) for name in names])


def svhn(data: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the first test images of SVHN, as strangers."""
    from scipy.io import loadmat

    content = loadmat(data / "test_32x32.mat")
    images = content["X"].transpose(3, 2, 0, 1)[:FAR]
    return np.ascontiguousarray(images), content["y"].ravel()[:FAR].astype(np.int64) % 10


def write(out: Path, name: str, rows: Tensor, labels: np.ndarray, seconds: float) -> None:
    """Write the features of one part, and print how long they took."""
    out.mkdir(parents=True, exist_ok=True)
    partial = out / f"{name}.part.npz"
    np.savez(partial, rows=rows.half().numpy(), labels=labels)
    partial.replace(out / f"{name}.npz")
    print(f"{name}: {len(rows):,} rows, {seconds:.0f} s", flush=True)


def embed_images(out: Path, name: str, images: np.ndarray, labels: np.ndarray, file: Path) -> None:
    """Write the features of images, 5,000 at a time."""
    weights = load_weights(file)
    several = len(images) > 2 * PART
    for start in range(0, len(images), PART if several else len(images)):
        part = f"{name}-{start // PART}" if several else name
        if (out / f"{part}.npz").exists():
            continue
        began = time.monotonic()
        chosen = slice(start, start + PART if several else None)
        batches = torch.from_numpy(images[chosen]).split(BATCH)
        rows = torch.cat([features(batch, weights) for batch in batches])
        write(out, part, rows, labels[chosen], time.monotonic() - began)


@torch.no_grad()
def embed_texts(out: Path, file: Path, backbone: Path) -> None:
    """Write the features of CLINC150: the mean of the token states, with unit norm."""
    parts = ("train", "val", "test", "oos_test")
    if all((out / f"clinc150-{part}.npz").exists() for part in parts):
        return
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(backbone, local_files_only=True)
    model = AutoModel.from_pretrained(backbone, local_files_only=True).eval()
    with gzip.open(file, "rt") as opened:
        content: dict[str, list[list[str]]] = json.load(opened)
    intents = sorted({intent for _, intent in content["train"]})
    number = {name: place for place, name in enumerate(intents)}
    for part in parts:
        began = time.monotonic()
        rows: list[Tensor] = []
        for batch in texts_of(content[part]):
            tokens = tokenizer(batch, padding=True, truncation=True, return_tensors="pt")
            mask = tokens["attention_mask"][:, :, None]
            states = model(**tokens).last_hidden_state
            rows.append(F.normalize((states * mask).sum(dim=1) / mask.sum(dim=1), dim=1))
        labels = np.array([number.get(intent, -1) for _, intent in content[part]])
        write(out, f"clinc150-{part}", torch.cat(rows), labels, time.monotonic() - began)


def texts_of(pairs: list[list[str]]) -> Iterator[list[str]]:
    """Yield the texts of (text, intent) pairs in batches."""
    for start in range(0, len(pairs), BATCH):
        yield [text for text, _ in pairs[start : start + BATCH]]


def write_noise(out: Path, file: Path) -> None:
    """Write the labels of CIFAR-10N as plain arrays."""
    rebuild = np._core.multiarray._reconstruct  # pyright: ignore
    # The file has numpy's former name of this function.
    former = (rebuild, "numpy.core.multiarray._reconstruct")
    trusted = [np.dtype, np.dtypes.Int64DType, np.ndarray, former]
    with torch.serialization.safe_globals(trusted):
        content = torch.load(file, weights_only=True)
    np.savez(out / "cifar10n.npz", **{name: np.asarray(value) for name, value in content.items()})


def main() -> None:
    """Compute what is missing, the cheapest and most used first."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("data", "images", "texts", "clinc", "noise", "out"):
        parser.add_argument(f"--{name}", type=Path, required=name in ("data", "out"))
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    torch.set_num_threads(1)

    def wanted(name: str) -> bool:
        return not options.only or name in options.only

    options.out.mkdir(parents=True, exist_ok=True)
    if options.noise and wanted("cifar10n"):
        write_noise(options.out, options.noise)
    if options.clinc and wanted("clinc150"):
        embed_texts(options.out, options.clinc, options.texts)
    if not options.images:
        return
    for name in ("cifar10-test", "cifar10-train", "cifar100-test", "cifar100-train"):
        if wanted(name):
            embed_images(options.out, name, *pixels(options.data, name), options.images)
    if wanted("svhn"):
        embed_images(options.out, "svhn", *svhn(options.data), options.images)
    for split in ("test", "train"):
        if wanted(f"food101-{split}"):
            embed_images(
                options.out, f"food101-{split}", *food(options.data, split), options.images
            )


if __name__ == "__main__":
    main()
