"""How to train: one file a method, and `METHODS` with all of them by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..contracts import Method, Task
from ..names import check_options, find, options_of
from .ablations import ABLATIONS
from .brier import Brier
from .ccl_sc import ccl_sc
from .ce import CrossEntropy
from .ce_dece import CEDECE
from .flsd import FLSD
from .focal import Focal
from .gamblers import gamblers
from .mc import MetaCalibration
from .sat import sat
from .socrates import socrates
from .two_phase import TwoPhase

__all__ = ["METHODS", "TwoPhase", "build", "options"]

METHODS: dict[str, Callable[..., Method]] = {
    "ce": CrossEntropy,
    "brier": Brier,
    "focal": Focal,
    "flsd": FLSD,
    "gamblers": gamblers,
    "sat": sat,
    "mc": MetaCalibration,
    "ce_dece": CEDECE,
    "ccl_sc": ccl_sc,
    "socrates": socrates,
    **ABLATIONS,
}

OWN = ("task",)  # what a method takes that is not an option


def options(name: str) -> dict[str, Any]:
    """The options of the method of that name, with their defaults.

    >>> options("gamblers")
    {'reward': 2.2, 'start_epoch': 0}
    """
    return options_of(find("method", name, METHODS), OWN)


def build(name: str, task: Task, **options: Any) -> Method:
    """The method of that name in `METHODS`, or `module:attribute` from outside, called with the task and its options.

    >>> build("focal", Task(num_samples=9, num_classes=2, num_features=4), gamma=1.0).gamma
    1.0
    """
    make = find("method", name, METHODS)
    check_options("method", name, make, options, own=OWN)
    method = make(task, **options)
    if not isinstance(method, Method):
        raise ValueError(f"method {name!r} must give a socrates.contracts.Method, got {type(method).__name__}")
    return method
