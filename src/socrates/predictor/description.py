"""What is known of a trained model besides its weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..abstention import Certificate
from ..contracts import Preparation
from ..metrics.predictions import Reading


@dataclass(frozen=True)
class Description:
    """What a model is, besides its weights: how to build it, what it was shown, and how its outputs are read.

    `scaler` is the one that is applied, "none" for none; `reading` is that of the unknown class, None without one.
    """

    model: str
    options: Mapping[str, Any]
    num_outputs: int
    image_shape: tuple[int, int, int]  # of what the model sees: channels, height, width
    classes: tuple[str, ...]
    preparation: Preparation | None = None  # None: inputs are taken as the model takes them
    epoch: int = 0  # whose weights these are
    scaler: str = "none"
    reading: Reading | None = None
    certificate: Certificate | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)  # of its training, for people: data, method, recipe

    @property
    def unknown_class(self) -> bool:
        """Whether the last output is the unknown class."""
        return self.num_outputs > len(self.classes)

    @classmethod
    def from_json(cls, plain: Any) -> Description:
        """What `dataclasses.asdict` gave and JSON carried."""
        known = {item.name for item in dataclasses.fields(cls)}
        if not isinstance(plain, dict) or set(plain) != known:
            raise ValueError(f"its description must have the fields {', '.join(sorted(known))}")
        how, certificate = plain["preparation"], plain["certificate"]
        how = None if how is None else Preparation(tuple(how["mean"]), tuple(how["std"]), how["shrink"])
        certificate = None if certificate is None else Certificate(**certificate)
        shape, classes, outputs = tuple(plain["image_shape"]), tuple(plain["classes"]), plain["num_outputs"]
        whole = len(shape) == 3 and all(type(size) is int and size > 0 for size in (*shape, outputs))
        named = all(isinstance(name, str) for name in (plain["model"], *classes))
        nested = all(isinstance(plain[name], dict) for name in ("options", "facts"))
        if not (whole and named and nested and outputs - len(classes) in (0, 1)):
            raise ValueError("its description does not fit the model that it describes")
        given = {"image_shape": shape, "classes": classes, "preparation": how, "certificate": certificate}
        return cls(**(plain | given))


def usual_reading(unknown_class: bool) -> tuple[str, Reading | None]:
    """The scaler and reading that are used unless told otherwise.

    >>> usual_reading(True), usual_reading(False)
    (('readout', 'spread'), ('temperature', None))
    """
    return ("readout", "spread") if unknown_class else ("temperature", None)
