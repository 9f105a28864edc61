"""From a file back to a predictor, safely: no foreign code runs, and nothing too large is built."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from .. import models
from ..metrics.predictions import Reading
from ..names import is_outside
from ..novelty import rebuild
from .certifying import keep_valid
from .description import Description
from .file_format import model_file, read_file, tensors_of
from .predictor import Predictor
from .scalers import MissingScaler, build
from .seen import known_thumbnails


def load(
    path: Path | str,
    *,
    scaler: str | None = None,
    reading: Reading | None = None,
    model: nn.Module | Callable[..., nn.Module] | None = None,
    trust_code: bool = False,
) -> Predictor:
    """Return the Predictor of a finished run, or of a file that `Predictor.save` wrote.

    `scaler` and `reading` are by default those that were used when it was saved. A model from
    outside this package (`module:attribute`) is imported only with `trust_code=True`; or pass the
    module, or what builds it, as `model`. A scaler from outside is there if its module was imported
    before; otherwise everything else is loaded, with a warning.

    >>> import tempfile, torch
    >>> from socrates.contracts import Preparation
    >>> preparation = Preparation(mean=(0.5,), std=(0.5,))
    >>> about = Description("mlp", {"width": 4}, 2, (1, 2, 2), ("cat", "dog"), preparation)
    >>> kept = Predictor(models.build("mlp", 2, (1, 2, 2), width=4), about).save(tempfile.mkdtemp())
    >>> load(kept).predict(torch.zeros(1, 1, 5, 5, dtype=torch.uint8)).probs.shape
    torch.Size([1, 2])
    """
    file = model_file(Path(path))
    about, tensors = read_file(file)
    weights = tensors_of("model", tensors)
    module = _build_model(about, weights, model, trust_code, file)
    with _one_line_errors(file):
        module.load_state_dict(
            {
                key: value.float() if value.is_floating_point() else value
                for key, value in weights.items()
            }
        )
        scalers = build(about.scalers, tensors_of("scalers", tensors))
        novelty = about.novelty and rebuild(about.novelty, tensors_of("novelty", tensors))
    about = _without_missing(about, scalers, scaler, file)
    with _one_line_errors(file):
        predictor = Predictor(module, about, scalers, known_thumbnails(tensors), novelty)
    keep_valid(predictor)
    for missing in predictor.missing_scalers.values():
        warnings.warn(
            f"{file} is loaded without one of its scalers: {missing.reason}", stacklevel=2
        )
    if scaler is not None or reading is not None:
        predictor.use(
            about.scaler if scaler is None else scaler,
            about.reading if reading is None else reading,
        )
    return predictor


@contextmanager
def _one_line_errors(file: Path) -> Iterator[None]:
    """Turn any error that a damaged file causes into one line that names the file."""
    try:
        yield
    except (RuntimeError, LookupError, TypeError, AttributeError, ValueError, MemoryError) as error:
        reason = " ".join(str(error).split("\n")[:2])
        raise ValueError(
            f"{file} does not fit the model that it describes ({reason}): it is damaged, or of "
            "another version"
        ) from error


def _without_missing(
    about: Description, scalers: Mapping[str, Any], scaler: str | None, file: Path
) -> Description:
    """Return the description without its scaler if that is missing and another one is requested."""
    missing = scalers.get(about.scaler)
    if not isinstance(missing, MissingScaler):
        return about
    if scaler in (None, about.scaler):
        raise ValueError(
            f"{file} uses a scaler that is missing here: {missing.reason}, or choose another one, "
            "such as 'none'"
        )
    return dataclasses.replace(about, scaler="none")  # load drops its certificate, in words


@contextmanager
def _at_most(num_tensors: int, num_values: int) -> Iterator[None]:
    """Refuse to build modules with more parameters: the options in a file can ask for any size."""
    thread = get_ident()
    left = {"tensors": num_tensors, "values": num_values}

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        if get_ident() != thread or parameter is None:
            return
        left["tensors"] -= 1
        left["values"] -= parameter.numel()
        if min(left.values()) < 0:
            raise ValueError("its options ask for a larger model than it has weights for")

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def _build_model(
    about: Description,
    weights: Mapping[str, Tensor],
    model: nn.Module | Callable[..., nn.Module] | None,
    trust_code: bool,
    file: Path,
) -> nn.Module:
    """Return the module that the weights belong to, not yet with these weights."""
    if isinstance(model, nn.Module):
        return model
    if model is None and is_outside(about.model, models.MODELS) and not trust_code:
        raise ValueError(
            f"{file} needs the model {about.model}, which is not part of this package: pass "
            "trust_code=True to import its code, or the module itself as model"
        )
    num_values = sum(value.numel() for value in weights.values())
    sizes: dict[str, Any] = {"num_outputs": about.num_outputs, "image_shape": about.image_shape}
    try:
        for name, value in about.options.items():
            if type(value) is int and value > num_values:
                raise ValueError(f"its {name} is {value}, but it has {num_values} weights")
        with _at_most(2 * len(weights), 2 * num_values):
            if model is not None:
                return model(**sizes, **about.options)
            return models.build(about.model, **sizes, **about.options)
    except (RuntimeError, LookupError, TypeError, OverflowError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{file} describes no model that can be built: {reason}") from error
