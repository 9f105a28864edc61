"""How to train: one file per method, and `METHODS` with all of them by name.

Methods import contracts, losses and names, and know neither data nor engine. Read
logits_only.py first, then adaptive.py.
"""

from collections.abc import Callable
from inspect import signature
from typing import Any

from torch import nn

from ..contracts import Method, Task
from ..names import called, find, options_of
from .ablations import ABLATIONS
from .adaptive import sat, socrates
from .ccl_sc import ccl_sc
from .crl import CorrectnessRanking
from .logits_only import CEDECE, FLSD, Brier, CrossEntropy, Focal, gamblers
from .mc import MetaCalibration
from .regmixup import RegMixup
from .rivals import BSCEGRA, MDCA, BetaPenalty, DualFocal, LabelSmoothing, LogitNorm, MbLS
from .two_phase import TwoPhase

__all__ = ["METHODS", "TwoPhase", "build", "check_model", "factory", "options"]

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
    "label_smoothing": LabelSmoothing,
    "mbls": MbLS,
    "mdca": MDCA,
    "dual_focal": DualFocal,
    "bsce_gra": BSCEGRA,
    "logit_norm": LogitNorm,
    "crl": CorrectnessRanking,
    "regmixup": RegMixup,
    "beta_penalty": BetaPenalty,
    "socrates": socrates,
    **ABLATIONS,
}


def factory(name: str) -> Callable[..., Method]:
    """Return the class or function of that name in `METHODS`, or a plug-in from outside.

    >>> factory("focal").__name__
    'Focal'
    """
    return find("method", name, METHODS)


def options(name: str) -> dict[str, Any]:
    """Return the options of the method of that name, with their defaults.

    >>> options("gamblers")
    {'reward': 2.2, 'start_epoch': 0}
    """
    return options_of(factory(name), not_options=["task"])


def build(name: str, task: Task, **options: Any) -> Method:
    """Build the method of that name, or a plug-in from outside, for a task.

    >>> build("focal", Task(num_samples=9, num_classes=2), gamma=1.0).gamma
    1.0
    """
    make = factory(name)
    if _builds_a_model(make):
        raise ValueError(
            f"method {name!r} is a model: a method is a socrates.contracts.Method, built from its "
            f"Task"
        )
    method = called("method", name, make, task, options=options)
    if not isinstance(method, Method):
        raise ValueError(
            f"method {name!r} must be a socrates.contracts.Method, got {type(method).__name__}"
        )
    return method


def _builds_a_model(make: Callable[..., Any]) -> bool:
    """Return whether a plug-in that was passed as a method is a model."""
    if "num_outputs" in signature(make).parameters:
        return True
    return isinstance(make, type) and issubclass(make, nn.Module) and not issubclass(make, Method)


def check_model(name: str, method: Method, model: nn.Module) -> None:
    """Raise for a model without the parts that the method of that name needs.

    >>> check_model("ccl_sc", build("ccl_sc", Task(num_samples=9, num_classes=2)), nn.Linear(4, 2))
    Traceback (most recent call last):
    ValueError: ccl_sc needs a model with features(inputs) and a linear layer head, Linear has
    neither: make it a socrates.contracts.Classifier, or choose a
    method that needs only logits, such as ce or socrates
    """
    if not method.needs_features:
        return
    missing = [] if hasattr(model, "features") else ["features"]
    if not isinstance(getattr(model, "head", None), nn.Linear):
        missing.append("head")
    if missing:
        lacking = "neither" if len(missing) == 2 else f"no {missing[0]}"
        raise ValueError(
            f"{name} needs a model with features(inputs) and a linear layer head, "
            f"{type(model).__name__} has {lacking}: make it a socrates.contracts.Classifier, "
            f"or choose a method that needs only logits, such as ce or socrates"
        )
