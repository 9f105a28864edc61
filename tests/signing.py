"""Edit files of a run as somebody would who also makes their checksums right again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from socrates.files import with_checksum, write_json
from socrates.identity import signed
from socrates.predictor.file_format import checksum
from socrates.records import Run


def resign(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the content of a JSON file."""
    plain = json.loads(path.read_text())
    del plain["checksum"]
    change(plain)
    write_json(path, with_checksum(plain))


def resign_epochs(directory: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write epochs.jsonl anew."""
    run = Run(directory).identity.run
    lines = (json.dumps(signed(run, dict(record))) + "\n" for record in records)
    (directory / "epochs.jsonl").write_text("".join(lines))


def resign_model(file: Path, change: Callable[[dict[str, Any], dict[str, Tensor]], object]) -> None:
    """Change description and tensors of a model file."""
    with safe_open(file, "pt") as content:
        about = json.loads(content.metadata()["socrates"])
    tensors = load_file(file)
    del about["checksum"]
    change(about, tensors)
    about["checksum"] = checksum(json.dumps(about), tensors)
    save_file(tensors, file, {"socrates": json.dumps(about)})
