"""From a file back to a predictor, whoever wrote the file: no code of others is run, and nothing too large is built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from .. import models
from ..metrics.predictions import Reading
from ..names import is_outside
from ..scaling import SCALERS
from .description import Description
from .file_format import model_file, read_file, tensors_of
from .predictor import Predictor


def load(
    path: Path | str,
    *,
    scaler: str | None = None,
    reading: Reading | None = None,
    epoch: int | None = None,
    model: nn.Module | Callable[..., nn.Module] | None = None,
    trust_code: bool = False,
) -> Predictor:
    """The Predictor of a finished run, or of what `Predictor.save` wrote.

    `scaler` and `reading` are those that were used when it was saved, unless told. A model that is not ours
    (`module:attribute`) is imported only if you trust its code, or give the module or what builds it as `model`.

    >>> import tempfile, torch
    >>> from socrates.contracts import Preparation
    >>> about = Description("mlp", {"width": 4}, 2, (1, 2, 2), ("cat", "dog"), Preparation(mean=(0.5,), std=(0.5,)))
    >>> kept = Predictor(models.build("mlp", 2, (1, 2, 2), width=4), about).save(tempfile.mkdtemp())
    >>> load(kept).predict(torch.zeros(1, 1, 5, 5, dtype=torch.uint8)).probs.shape
    torch.Size([1, 2])
    """
    file = model_file(Path(path))
    about, tensors = read_file(file)
    if epoch is not None and epoch != about.epoch:
        raise ValueError(
            f"{file} holds the weights of epoch {about.epoch}, not of {epoch}: train with --choose for others"
        )
    weights, fitted = tensors_of("model", tensors), tensors_of("scalers", tensors)
    try:
        values = sum(value.numel() for value in weights.values())
        if wrong := [name for name, value in about.options.items() if type(value) is int and value > values]:
            raise ValueError(f"its {wrong[0]} is {about.options[wrong[0]]}, but it has {values} weights")
        with _no_larger(2 * len(weights), 2 * values):
            module = _built(about, model, trust_code, file)
    except (RuntimeError, LookupError, TypeError, OverflowError, ValueError) as error:
        told = " ".join(str(error).split())
        raise ValueError(told if str(file) in told else f"{file} describes no model to build: {told}") from error
    try:
        floats = {key: value.float() if value.is_floating_point() else value for key, value in weights.items()}
        module.load_state_dict(floats)
        there = {key.partition(".")[0] for key in fitted}
        scalers = {name: kind() for name, kind in SCALERS.items() if name in there}  # others are keys too many
        nn.ModuleDict(scalers).load_state_dict(fitted)
        predictor = Predictor(module, about, scalers, tensors.get("seen"))
    except (RuntimeError, LookupError, TypeError, ValueError) as error:
        told = " ".join(str(error).split("\n")[:2])
        raise ValueError(
            f"{file} does not fit the model that it describes ({told}): it is damaged, or of another version"
        ) from error
    if scaler is not None or reading is not None:
        predictor.use(about.scaler if scaler is None else scaler, about.reading if reading is None else reading)
    return predictor


@contextmanager
def _no_larger(tensors: int, values: int) -> Iterator[None]:
    """While it is entered, refuse to build modules of more parameters: a file's options can ask for any size."""
    thread, left = get_ident(), [tensors, values]

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        if get_ident() == thread and parameter is not None:
            left[0], left[1] = left[0] - 1, left[1] - parameter.numel()
            if min(left) < 0:
                raise ValueError("its options ask for a larger one than it has weights")

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def _built(about: Description, model: Any, trust_code: bool, file: Path) -> nn.Module:
    """The module that the weights belong to, not trained."""
    if isinstance(model, nn.Module):
        return model
    if model is None and is_outside(about.model, models.MODELS) and not trust_code:
        raise ValueError(
            f"{file} needs the model {about.model}, code that is not ours: pass trust_code=True (--trust-code) to "
            f"import it, or the module itself as model="
        )
    if model is not None:
        return model(num_outputs=about.num_outputs, image_shape=about.image_shape, **about.options)
    return models.build(about.model, about.num_outputs, about.image_shape, **about.options)
