"""The file model.safetensors: tensors and one JSON text, none of which is ever executed."""

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
from ..identity import FORMAT, ForeignFile, Identity, check_format, check_model
from .description import Description

MODEL_FILE = "model.safetensors"
SCALERS_FILE = "scalers.safetensors"
Weights = Literal["full", "half", "none"]


def write_file(file: Path, about: Description, tensors: Mapping[str, Tensor]) -> None:
    """Write a description and tensors on any device to a file, whole or not at all."""
    from safetensors.torch import save

    # Cloned, because safetensors refuses tensors that share memory.
    plain = {key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()}
    text = json.dumps({"format": FORMAT, **dataclasses.asdict(about)})
    text = json.dumps({**json.loads(text), "checksum": checksum(text, plain)})
    # One entry, because safetensors writes several of them in random order.
    content = save(plain, {"socrates": text})
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as target:
        target.write(content)


def read_file(file: Path) -> tuple[Description, dict[str, Tensor]]:
    """Return the description and the tensors of a file; nothing in it is executed.

    In the directory of a run, the model of another run or epoch is refused.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as content:
            metadata = content.metadata() or {}
            tensors = {key: content.get_tensor(key) for key in content.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(
            f"{file} is not a whole safetensors file ({error}): restore it, or train the run again"
        ) from error
    try:
        about = _checked_description(metadata["socrates"], tensors)
    except ForeignFile as error:
        raise ForeignFile(f"{file} cannot be read: {error}") from error
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        reason = error if isinstance(error, ValueError) else "it has no description of one"
        raise ValueError(
            f"{file} is not a model that this version of socrates wrote: {reason}"
        ) from error
    check_model(file, Identity(about.run, about.epoch))
    return about, tensors


def _checked_description(text: str, tensors: Mapping[str, Tensor]) -> Description:
    """Return the description in the JSON text of a file, if format and checksum are right."""
    plain = json.loads(text)
    written = plain.pop("checksum", None)
    described = json.dumps(plain)
    check_format(plain.pop("format", None))
    about = Description.from_json(plain)
    if written != checksum(described, tensors):
        missing_or_wrong = "missing" if written is None else "wrong"
        raise ValueError(
            f"its checksum is {missing_or_wrong}, it is damaged: restore it, or train the run again"
        )
    return about


def tensors_of(part: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of "model" or of "scalers", by their names there.

    >>> list(tensors_of("model", {"model.head.bias": torch.zeros(2), "seen": torch.zeros(0)}))
    ['head.bias']
    """
    prefix = f"{part}."
    return {
        key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)
    }


def checksum(text: str, tensors: Mapping[str, Tensor]) -> str:
    """Return the checksum of a description and its tensors; safetensors itself has none."""
    digest = hashlib.blake2b(text.encode(), digest_size=8)
    for content in contents(tensors):
        digest.update(content)
    return digest.hexdigest()


def weights_hash(tensors: Mapping[str, Tensor]) -> str:
    """Return 16 hexadecimal digits that differ between any two models' weights.

    >>> weights_hash({"model.weight": torch.zeros(2), "scalers.x": torch.ones(1)})
    '8436d214923c5581'
    """
    weights = {key: value for key, value in tensors.items() if key.startswith("model.")}
    digest = hashlib.sha256()
    for content in contents(weights):
        digest.update(content)
    return digest.hexdigest()[:16]


def contents(tensors: Mapping[str, Tensor]) -> Iterator[Any]:
    """Yield the bytes of names, types, shapes and values."""
    for key in sorted(tensors):
        value = tensors[key].contiguous()
        yield f"{key} {value.dtype} {tuple(value.shape)}".encode()
        yield value.view(-1).view(torch.uint8).numpy().data


def model_file(path: Path) -> Path:
    """Return the model file of a run, of a folder that `save` wrote, or the path to the file."""
    if path.is_file():
        return path
    if not path.is_dir():
        raise FileNotFoundError(
            f"{path} is not there: expected a run directory or a model.safetensors"
        )
    if (path / MODEL_FILE).is_file():
        return path / MODEL_FILE
    if not (path / "experiment.json").is_file():
        raise FileNotFoundError(f"{path} is not a run and holds no {MODEL_FILE}")
    if not (path / "finished.json").is_file():
        raise ValueError(f"{path} is not finished: the same command or call continues it")
    raise ValueError(
        f"{path} is finished but keeps no weights: train it again with again=True, "
        "keep_weights='full'"
    )
