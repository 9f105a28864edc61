"""The file model.safetensors: tensors and one JSON text, of which nothing is ever executed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from ..files import replacing
from .description import Description

FORMAT = 1  # of the files; a later one says what it changed
MODEL_FILE, SCALERS_FILE = "model.safetensors", "scalers.safetensors"
Weights = Literal["full", "half", "none"]


def write_file(file: Path, about: Description, tensors: Mapping[str, Tensor]) -> None:
    """Write a description and tensors on any device, whole or not at all."""
    from safetensors.torch import save

    plain = {key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()}  # shared ones, twice
    told = json.dumps({"format": FORMAT, **dataclasses.asdict(about)})
    told = json.dumps({**json.loads(told), "checksum": checksum(told, plain)})
    content = save(plain, {"socrates": told})  # of more words safetensors draws the order by lot
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as target:
        target.write(content)


def read_file(file: Path) -> tuple[Description, dict[str, Tensor]]:
    """The description and the tensors of a file; nothing in it is executed."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as content:
            metadata = content.metadata() or {}
            tensors = {key: content.get_tensor(key) for key in content.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(
            f"{file} is no whole safetensors file ({error}): restore it, or train the run again"
        ) from error
    try:
        plain = json.loads(metadata["socrates"])
        written = plain.pop("checksum", None)  # earlier versions wrote none
        told = json.dumps(plain)
        version = plain.pop("format")
        if version != FORMAT:
            raise ValueError(f"it has the format {version!r}, this version of socrates reads {FORMAT}")
        about = Description.from_json(plain)
        if written not in (None, checksum(told, tensors)):
            raise ValueError("its checksum is wrong, it is damaged: restore it, or train the run again")
        return about, tensors
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        told = error if isinstance(error, ValueError) else "it has no description of one"
        raise ValueError(f"{file} is no model that this version of socrates wrote: {told}") from error


def tensors_of(part: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of "model" or of "scalers", by their names there.

    >>> list(tensors_of("model", {"model.head.bias": torch.zeros(2), "seen": torch.zeros(0)}))
    ['head.bias']
    """
    return {key.removeprefix(f"{part}."): value for key, value in tensors.items() if key.startswith(f"{part}.")}


def checksum(told: str, tensors: Mapping[str, Tensor]) -> str:
    """Of a description and all tensors: safetensors itself has none, and reads flipped bits without a word."""
    digest = hashlib.blake2b(told.encode(), digest_size=8)
    for part in _contents(tensors):
        digest.update(part)
    return digest.hexdigest()


def weights_hash(tensors: Mapping[str, Tensor]) -> str:
    """What tells a model's weights from all others: 16 hexadecimal digits.

    >>> weights_hash({"model.weight": torch.zeros(2), "scalers.x": torch.ones(1)})
    '8436d214923c5581'
    """
    digest = hashlib.sha256()
    for part in _contents({key: value for key, value in tensors.items() if key.startswith("model.")}):
        digest.update(part)
    return digest.hexdigest()[:16]


def _contents(tensors: Mapping[str, Tensor]) -> Iterator[Any]:
    """All that tensors are, in bytes: names, kinds, shapes and values."""
    for key in sorted(tensors):
        value = tensors[key].contiguous()
        yield f"{key} {value.dtype} {tuple(value.shape)}".encode()
        yield value.view(-1).view(torch.uint8).numpy().data


def model_file(path: Path) -> Path:
    """The file of a run, of a folder that `save` wrote, or of a path to the file itself."""
    if path.is_file():
        return path
    if not path.is_dir():
        raise FileNotFoundError(f"{path} is not there: expected a run directory or a model.safetensors")
    if (path / MODEL_FILE).is_file():
        return path / MODEL_FILE
    if not (path / "experiment.json").is_file():
        raise FileNotFoundError(f"{path} is no run and holds no {MODEL_FILE}")
    if not (path / "finished.json").is_file():
        raise ValueError(f"{path} is not finished: train it to its end first, by the same command")
    raise ValueError(f"{path} is finished but keeps no weights: train it again with --again --keep-weights full")
