"""How a fitted scaler is saved: its plain values and tensors, in a file of its own or a model's."""

from __future__ import annotations

import inspect
import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from socrates.arrays.open import Array
from socrates.files import replacing
from socrates.scaling.outside import OutsideScaler
from socrates.scaling.registry import SCALERS
from socrates.scaling.scaler import FitReport, Scaler

# The version of the file format.
FORMAT = 1
# The array of this name holds a JSON text.
ABOUT = "socrates_scaler"
# The names of the arrays of fitted values begin with this.
BUFFER = "buffer."
# The types of plain attributes.
PLAIN = (str, int, float, type(None))
# The limit of integer options, because a constructor may take them for sizes.
LARGEST = 1 << 20
EXTRA_STATE = "_extra_state"


@dataclass(frozen=True)
class KeptScaler:
    """Describe a fitted scaler, besides the values of its tensors.

    `kind` is the class, for people: it is never imported. `attributes` are the plain values that it
    holds, the options of its constructor among them; `tensors` are the names and shapes of its
    buffers and parameters."""

    kind: str
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tensors: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, "tuple[int, ...]"])

    @classmethod
    def from_json(cls, plain: Any) -> KeptScaler:
        """Return the description that `dataclasses.asdict` turned into this JSON object."""
        scaler = cls(**plain)
        are_dicts = isinstance(scaler.attributes, dict) and isinstance(scaler.tensors, dict)
        if not isinstance(scaler.kind, str) or not are_dicts:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError("one of its scalers is not described by kind, attributes and tensors")
        shapes = {name: tuple(shape) for name, shape in scaler.tensors.items()}
        return cls(scaler.kind, scaler.attributes, shapes)

    @property
    def module(self) -> str:
        """Return the name of the module that defines the class."""
        return self.kind.rpartition(".")[0]


def describe(scaler: nn.Module) -> KeptScaler:
    """Return the description of a fitted scaler, a `Scaler` or any module in SCALERS."""
    kind = type(scaler)
    shapes: dict[str, tuple[int, ...]] = {}
    for name, value in scaler.state_dict().items():
        if not isinstance(value, Tensor):
            raise ValueError(
                f"{kind.__name__} cannot be saved: its state {name!r} is {type(value).__name__}, "
                "expected buffers, parameters and plain numbers"
            )
        shapes[name] = tuple(value.shape)
    return KeptScaler(f"{kind.__module__}.{kind.__qualname__}", _attributes(scaler), shapes)


def _attributes(scaler: nn.Module) -> dict[str, Any]:
    """Return the public attributes that are plain values; None only where it is an option."""
    options = inspect.signature(type(scaler)).parameters
    attributes: dict[str, Any] = {}
    for name, value in vars(scaler).items():
        is_public = not name.startswith("_") and name != "training"
        if is_public and isinstance(value, PLAIN) and (value is not None or name in options):
            attributes[name] = value
    return attributes


def rebuild(name: str, attributes: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Scaler:
    """Return the scaler of that name in SCALERS with what was fitted.

    Scalers of this package must have every attribute and tensor before a fit; those from outside
    may create them in `fit`.
    """
    scaler = _unfitted(name, attributes)
    is_ours = type(scaler).__module__.startswith(f"{__package__}.")
    for key, value in attributes.items():
        is_plain = isinstance(value, PLAIN) and isinstance(getattr(scaler, key, None), PLAIN)
        if key.startswith("_") or not is_plain or (is_ours and key not in vars(scaler)):
            raise ValueError(f"{type(scaler).__name__} has no plain attribute {key!r}")
        setattr(scaler, key, value)
    if not is_ours:
        for key, value in tensors.items():
            _make_room(scaler, key, value)
    state = dict(tensors)
    # The attributes of a Scaler say the same as its extra state, which its own files leave out.
    if attributes and isinstance(scaler, Scaler):  # pyright: ignore[reportUnnecessaryIsInstance]
        state = {EXTRA_STATE: scaler.get_extra_state(), **tensors}
    scaler.load_state_dict(state)  # pyright: ignore[reportUnknownMemberType]
    return scaler


def _unfitted(name: str, attributes: Mapping[str, Any]) -> Scaler:
    """Return a new scaler with those of the attributes that its constructor takes.

    A file of an earlier version lacks the options that were added since.
    """
    kind = SCALERS[name]
    parameters = inspect.signature(kind).parameters
    stated = {
        key: value for key, value in attributes.items() if key in parameters and value is not None
    }
    options: dict[str, Any] = {**getattr(kind, "options_before", {}), **stated}
    for key, value in options.items():
        if isinstance(value, int) and abs(value) > LARGEST:
            raise ValueError(
                f"{key!r} of its scaler {name!r} is {value}, expected at most {LARGEST}"
            )
    return kind(**options)


def _make_room(scaler: nn.Module, key: str, value: Tensor) -> None:
    """Register a tensor of that name and shape, as `fit` does."""
    path, _, name = key.rpartition(".")
    module = scaler.get_submodule(path)
    parameters = dict(module.named_parameters(recurse=False))
    before = parameters | dict(module.named_buffers(recurse=False))
    if name == EXTRA_STATE or (name in before and before[name].shape == value.shape):
        return
    room = torch.empty(value.shape, dtype=before[name].dtype if name in before else value.dtype)
    if name in parameters:
        module.register_parameter(name, nn.Parameter(room, requires_grad=room.is_floating_point()))
    else:
        module.register_buffer(name, room)


def save(scaler: Scaler, path: Path | str) -> Path:
    """Write a fitted scaler to an .npz file, whole or not at all, and return its path.

    The file holds the name in SCALERS, the plain values, the tensors and the report as plain
    arrays; nothing in it is ever executed. A scaler from outside need not be a `Scaler`: any
    module in SCALERS is saved.

    >>> import tempfile
    >>> from socrates.scaling import TemperatureScaling
    >>> scaler = TemperatureScaling().fit([4.0, 4.0, -4.0, 4.0], [1, 1, 0, 0])
    >>> load(save(scaler, Path(tempfile.mkdtemp()) / "scaler.npz"))
    TemperatureScaling(temperature=3.641, columns=2)
    """
    if isinstance(scaler, OutsideScaler):
        scaler = scaler.module
    kind = type(scaler)
    names = {known: name for name, known in SCALERS.items()}
    if kind not in names:
        raise ValueError(
            f"save takes the scalers in socrates.scaling.SCALERS ({', '.join(names.values())}), "
            f"got {kind.__name__}: add its class to them, or keep its state_dict with torch.save"
        )
    kept = describe(scaler)
    if kept.attributes.get("columns") == 0 or not (kept.attributes or kept.tensors):
        raise ValueError(f"{kind.__name__} is not fitted, there is nothing to save: call fit first")
    report = getattr(scaler, "report", None)
    about = {
        "format": FORMAT,
        "kind": names[kind],
        "numbers": kept.attributes,
        "report": asdict(report) if isinstance(report, FitReport) else None,
    }
    path = Path(path)
    with replacing(path) as file:
        text = np.array(json.dumps(about))
        np.savez(file, allow_pickle=False, **{ABOUT: text}, **_arrays(scaler))
    return path


def _arrays(scaler: nn.Module) -> dict[str, Array]:
    """Return the tensors of a scaler as arrays, without the extra state of a `Scaler`."""
    state = dict(scaler.state_dict())
    if isinstance(scaler, Scaler):
        del state[EXTRA_STATE]  # the numbers of the description say the same
    return {f"{BUFFER}{name}": value.detach().cpu().numpy() for name, value in state.items()}


def load(path: Path | str) -> Scaler:
    """Return the scaler that `save` wrote, on the CPU.

    >>> import tempfile
    >>> from socrates.scaling import TemperatureScaling
    >>> scaler = TemperatureScaling().fit([4.0, 4.0, -4.0, 4.0], [1, 1, 0, 0])
    >>> path = save(scaler, Path(tempfile.mkdtemp()) / "scaler.npz")
    >>> load(path)([1.0]).round(2)
    array([[0.  , 0.27]])
    """
    path = Path(path)
    try:
        return _scaler_of(_read_arrays(path))
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{path} is not there: expected a file that socrates.scaling.save wrote"
        ) from error
    except Exception as error:  # a damaged file can make its readers raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"{path} is not a whole scaler that socrates.scaling.save wrote ({reason}): "
            "save it again"
        ) from error


def _read_arrays(path: Path) -> dict[str, Array]:
    with open(path, "rb") as file:  # numpy would leave it open after an error
        if not zipfile.is_zipfile(file):
            raise ValueError("it is not an .npz of several arrays")
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > path.stat().st_size:
                raise ValueError("it unfolds to more than its size, which save never writes")
        file.seek(0)
        return dict(np.load(file, allow_pickle=False))


def _scaler_of(arrays: dict[str, Array]) -> Scaler:
    """Return the scaler that these arrays describe, or raise where they do not fit together."""
    if ABOUT not in arrays:
        raise ValueError("it holds other arrays")
    about = json.loads(str(arrays.pop(ABOUT)))
    if about["format"] != FORMAT:
        raise ValueError(
            f"it has the format {about['format']!r}, this version of socrates reads {FORMAT}"
        )
    if about["kind"] not in SCALERS:
        raise ValueError(
            f"it holds a {about['kind']!r} scaler, which is not in SCALERS: "
            "import what adds it first"
        )
    if not all(np.isfinite(value).all() for value in arrays.values()):
        raise ValueError("it holds numbers that are not finite")
    tensors = {name.removeprefix(BUFFER): torch.tensor(value) for name, value in arrays.items()}
    scaler = rebuild(about["kind"], about["numbers"], tensors)
    if about["report"]:
        scaler.report = FitReport(**about["report"])
    if isinstance(scaler, Scaler):  # pyright: ignore[reportUnnecessaryIsInstance]
        columns = scaler.columns
        if columns < 2 or scaler.transform(torch.zeros(1, columns)).shape != (1, columns):
            raise ValueError("the fitted values do not fit the number of columns")
    return scaler
