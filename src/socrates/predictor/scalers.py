"""The fitted scalers of a model file, also those whose class is missing here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from torch import Tensor, nn

from ..scaling import SCALERS
from ..scaling.saving import KeptScaler, describe, rebuild


class MissingScaler(nn.Module):
    """Hold the tensors of a scaler that is not in SCALERS: saving keeps it, using it fails."""

    def __init__(self, name: str, kept: KeptScaler, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.name = name
        self.kept = kept
        self.tensors = dict(tensors)

    def forward(self, logits: Tensor) -> NoReturn:
        raise ValueError(self.reason)

    @property
    def reason(self) -> str:
        """Return why it cannot be used, and what to do about it."""
        return (
            f"the scaler {self.name!r} was fitted by {self.kept.kind!r}, which is not in "
            "socrates.scaling.SCALERS: import the module that registers it "
            f"({self.kept.module!r}) before load"
        )

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination.update({f"{prefix}{name}": value for name, value in self.tensors.items()})


def describe_all(scalers: nn.ModuleDict) -> dict[str, KeptScaler]:
    """Return the description of every scaler, for the file that keeps them."""
    return {
        name: scaler.kept if isinstance(scaler, MissingScaler) else describe(scaler)
        for name, scaler in scalers.items()
    }


def build(kept: Mapping[str, KeptScaler], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the scalers of a file by name; those whose class is not in SCALERS as `MissingScaler`.

    `tensors` are named "scaler.buffer".
    """
    by_scaler: dict[str, dict[str, Tensor]] = {name: {} for name in kept}
    for key, value in tensors.items():
        scaler, _, name = key.partition(".")
        by_scaler.setdefault(scaler, {})[name] = value
    registered = [name for name in SCALERS if name in by_scaler]  # in the order of tables
    others = [name for name in by_scaler if name not in SCALERS]
    scalers: dict[str, Any] = {}
    for name in (*registered, *others):
        if name not in kept:
            raise ValueError(f"it holds numbers of a scaler {name!r}, which it does not describe")
        about = kept[name]
        shapes = {key: tuple(value.shape) for key, value in by_scaler[name].items()}
        if shapes != about.tensors:
            raise ValueError(
                f"its scaler {name!r} has the tensors {shapes}, expected {dict(about.tensors)}"
            )
        if name in others:
            scalers[name] = MissingScaler(name, about, by_scaler[name])
        else:
            scalers[name] = rebuild(name, about.attributes, by_scaler[name])
    return scalers
