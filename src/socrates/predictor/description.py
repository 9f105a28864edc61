"""What is known of a trained model besides its weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..abstention import Certificate
from ..contracts import Preparation
from ..metrics.predictions import Reading
from ..novelty import KeptNovelty
from ..scaling.saving import KeptScaler
from .strangeness import STRANGE, check_limit

# Fields that the first files of this format lack.
SINCE_NOVELTY = {"novelty", "strange"}


@dataclass(frozen=True)
class Description:
    """Describe a model besides its weights: how to build it, its data, and how to read its outputs.

    `scaler` is the one that is applied, "none" for none; `reading` is that of the unknown class,
    None without one."""

    model: str
    options: Mapping[str, Any]
    num_outputs: int
    image_shape: tuple[int, int, int]  # channels, height and width of the model's inputs
    classes: tuple[str, ...]
    # None if inputs are passed to the model as they are.
    preparation: Preparation | None = None
    # The epoch of the weights.
    epoch: int = 0
    scaler: str = "none"
    reading: Reading | None = None
    certificate: Certificate | None = None
    # What people want to know of the training: data, method, recipe.
    facts: Mapping[str, Any] = field(default_factory=dict)
    # Every fitted scaler.
    scalers: Mapping[str, KeptScaler] = field(default_factory=dict[str, KeptScaler])
    # The name of the run that trained it; "" if no run did.
    run: str = ""
    # The score that says how strange an input is; None without one.
    novelty: KeptNovelty | None = None
    # The novelty above which an input is declined; 1 declines none.
    strange: float = STRANGE

    @property
    def unknown_class(self) -> bool:
        """Return whether the last output is the unknown class."""
        return self.num_outputs > len(self.classes)

    @classmethod
    def from_json(cls, plain: Any) -> Description:
        """Return the description that `dataclasses.asdict` turned into this JSON object."""
        known = {item.name for item in dataclasses.fields(cls)}
        if not isinstance(plain, dict) or set(plain) | SINCE_NOVELTY != known:
            raise ValueError(f"its description must have the fields {', '.join(sorted(known))}")
        fields = dict(plain)
        fields["image_shape"] = tuple(plain["image_shape"])
        fields["classes"] = tuple(plain["classes"])
        if (preparation := plain["preparation"]) is not None:
            fields["preparation"] = Preparation(
                tuple(preparation["mean"]), tuple(preparation["std"]), preparation["shrink"]
            )
        if (certificate := plain["certificate"]) is not None:
            fields["certificate"] = Certificate.from_json(certificate)
        fields["scalers"] = {
            name: KeptScaler.from_json(scaler) for name, scaler in plain["scalers"].items()
        }
        if (novelty := plain.get("novelty")) is not None:
            fields["novelty"] = KeptNovelty.from_json(novelty)
        fields["strange"] = check_limit(plain.get("strange", STRANGE))
        about = cls(**fields)
        if not about._is_consistent():
            raise ValueError("its description does not fit the model that it describes")
        return about

    def _is_consistent(self) -> bool:
        """Return whether the fields that build the model have the right types and sizes."""
        sizes = (*self.image_shape, self.num_outputs)
        names = (self.model, self.run, *self.classes)
        return (
            len(sizes) == 4
            and all(type(size) is int and size > 0 for size in sizes)
            and all(isinstance(name, str) for name in names)
            and isinstance(self.options, dict)
            and isinstance(self.facts, dict)
            and self.num_outputs - len(self.classes) in (0, 1)
        )


def usual_reading(unknown_class: bool) -> tuple[str, Reading | None]:
    """Return the scaler and the reading that a model uses by default.

    >>> usual_reading(True), usual_reading(False)
    (('readout', 'spread'), ('temperature', None))
    """
    return ("readout", "spread") if unknown_class else ("temperature", None)
