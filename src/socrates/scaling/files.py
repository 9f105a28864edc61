"""A fitted scaler as one .npz file of plain arrays: nothing in it is ever executed."""

import inspect
import json
import os
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from socrates.scaling.scaler import FitReport, Scaler

FORMAT = 1  # of the files; a later one says what it changed
ABOUT, BUFFER = "socrates_scaler", "buffer."  # names of the arrays: a JSON text, and before each fitted number's name
# What options and plain numbers of a scaler may be.
PLAIN = (str, int, float, type(None))


def save(scaler: Scaler, path: Path | str) -> Path:
    """Write a fitted scaler into a file, whole or not at all; `load` reads it. Returns where it is.

    The file holds its kind, its options, what was fitted and the report, as arrays of numpy without pickle. Only the
    kinds in `SCALERS` can be saved.

    >>> import tempfile
    >>> from socrates.scaling import TemperatureScaling
    >>> scaler = TemperatureScaling().fit([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 0.0]], [0, 0, 1, 1])
    >>> load(save(scaler, Path(tempfile.mkdtemp()) / "scaler.npz"))
    TemperatureScaling(temperature=3.641, columns=2)
    """
    kind, names = type(scaler), {kind: name for name, kind in _kinds().items()}
    if kind not in names:
        raise ValueError(
            f"save takes the scalers in socrates.scaling.SCALERS ({', '.join(names.values())}), got {kind.__name__}: "
            f"add its class to them, or keep its state_dict with torch.save"
        )
    if not scaler.columns:
        raise ValueError(f"{kind.__name__} is not fitted, there is nothing to save: call fit first")
    about = {
        "format": FORMAT,
        "kind": names[kind],
        "options": {option: getattr(scaler, option) for option in inspect.signature(kind).parameters},
        "numbers": {key: value for key, value in vars(scaler).items() if key[0] != "_" and isinstance(value, PLAIN)},
        "report": scaler.report and asdict(scaler.report),
    }
    arrays = {f"{BUFFER}{key}": value.cpu().numpy() for key, value in scaler.named_buffers()}
    path = Path(path)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            np.savez(file, allow_pickle=False, **{ABOUT: np.array(json.dumps(about))}, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def load(path: Path | str) -> Scaler:
    """The scaler that `save` wrote, on the CPU.

    >>> import tempfile
    >>> from socrates.scaling import TemperatureScaling
    >>> scaler = TemperatureScaling().fit([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 0.0]], [0, 0, 1, 1])
    >>> path = save(scaler, Path(tempfile.mkdtemp()) / "scaler.npz")
    >>> load(path)(np.array([[1.0, 2.0]])).round(2)
    array([[0.27, 0.55]])
    """
    path = Path(path)
    try:
        return _read(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path} is not there: expected a file that socrates.scaling.save wrote") from error
    except Exception as error:  # whatever a damaged file makes of its readers
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"{path} is no whole scaler that socrates.scaling.save wrote ({reason}): save it again"
        ) from error


def _read(path: Path) -> Scaler:
    with open(path, "rb") as file:  # which numpy would leave open after an error
        if not zipfile.is_zipfile(file):
            raise ValueError("it is not an .npz of several arrays")
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > path.stat().st_size:
                raise ValueError("it unfolds to more than it is, which save never writes")
        file.seek(0)
        arrays: dict[str, Any] = dict(np.load(file, allow_pickle=False))
    if ABOUT not in arrays:
        raise ValueError("it holds other arrays")
    about = json.loads(str(arrays.pop(ABOUT)))
    if about["format"] != FORMAT:
        raise ValueError(f"it has the format {about['format']!r}, this version of socrates reads {FORMAT}")
    kinds = _kinds()
    if about["kind"] not in kinds:
        raise ValueError(f"it holds a {about['kind']!r} scaler, which is not in SCALERS: import what adds it first")
    scaler = kinds[about["kind"]](**about["options"])
    expected = {f"{BUFFER}{key}" for key, _ in scaler.named_buffers()}
    if set(arrays) != expected or not set(about["numbers"]) <= set(vars(scaler)):
        raise ValueError(f"it does not fit {type(scaler).__name__} of this version")
    for key, value in about["numbers"].items():
        setattr(scaler, key, value)
    scaler.report = about["report"] and FitReport(**about["report"])
    if not all(np.isfinite(value).all() for value in arrays.values()):
        raise ValueError("it holds numbers that are not finite")
    for key, value in arrays.items():
        scaler.register_buffer(key.removeprefix(BUFFER), torch.tensor(value, dtype=torch.float64))
    if scaler.columns < 2 or scaler.transform(torch.zeros(1, scaler.columns)).shape != (1, scaler.columns):
        raise ValueError("what was fitted does not fit its number of columns")
    return scaler


def _kinds() -> dict[str, type[Scaler]]:
    from socrates import scaling  # it imports this file

    return scaling.SCALERS
