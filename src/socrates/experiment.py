"""Everything that decides a run's numbers, as frozen dataclasses: two equal Experiments are the same run."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

Value = int | float | str | bool | None

PRECISIONS = ("32-true", "bf16-mixed", "16-mixed", "bf16-true", "16-true", "64-true")  # of Lightning Fabric
LONGEST_NAME = 200  # bytes of a directory's name before seed and digest: file systems refuse more than 255


@dataclass(frozen=True)
class Part:
    """A dataset, model or method by name, with the options that were given.

    An option that is given with its default value is part of a run's identity: `focal` and `focal` with gamma=2.0 train
    alike, into two directories. A path in a name (`folder:PATH`) stays as it was given, relative to where the command
    runs: from another folder the same words may mean other images.

    >>> Part("socrates", gamma=2.0, alpha=0.9)
    Part('socrates', alpha=0.9, gamma=2.0)
    """

    name: str
    options: tuple[tuple[str, Value], ...] = ()

    def __init__(self, name: str, **options: Value) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "options", tuple(sorted(options.items())))

    def __repr__(self) -> str:
        return f"Part({', '.join([repr(self.name), *(f'{key}={value!r}' for key, value in self.options)])})"


@dataclass(frozen=True)
class Optimization:
    """SGD and its schedule; the defaults are the paper's.

    The learning rate is halved every `halve_every` epochs, or at the epochs of `milestones` if there are any.
    """

    epochs: int = 300
    batch_size: int = 128
    learning_rate: float = 0.1
    backbone_factor: float = 1.0  # of the rate for all but the head: 0.1 for transfer learning
    momentum: float = 0.9
    weight_decay: float = 5e-4
    halve_every: int = 25
    milestones: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "halve_every"):
            check_whole(name, getattr(self, name), above=0)
        for name in ("learning_rate", "backbone_factor", "momentum", "weight_decay"):
            value = check_finite(name, getattr(self, name))
            object.__setattr__(self, name, float(value))  # 1 and 1.0 are the same run
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be more than 0, got {self.learning_rate}")
        for name in ("backbone_factor", "weight_decay"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum of SGD must be in [0, 1), got {self.momentum}")
        for epoch in self.milestones:
            check_whole("milestones", epoch, above=0)
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError(f"milestones must be epochs in increasing order, got {self.milestones}")


def check_whole(name: str, value: object, above: int) -> None:
    """Refuse what is not a whole number more than `above`.

    >>> check_whole("epochs", 0, above=0)
    Traceback (most recent call last):
    ValueError: epochs must be more than 0, got 0
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if value <= above:
        raise ValueError(f"{name} must be {f'more than {above}' if above >= 0 else 'at least 0'}, got {value}")


def check_finite(name: str, value: object) -> float:
    """The number; anything else is refused, NaN and infinity too.

    >>> check_finite("gamma", float("nan"))
    Traceback (most recent call last):
    ValueError: gamma must be a finite number, got nan
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value}")
    return value


@dataclass(frozen=True)
class Experiment:
    """One training run. Vary it with `dataclasses.replace`.

    >>> experiment = Experiment(Part("digits"), Part("mlp"), Part("socrates", gamma=1.0), seed=3)
    >>> Experiment.from_json(experiment.to_json()) == experiment
    True
    >>> experiment.name
    'digits-mlp-socrates-gamma1.0-seed3-...'
    """

    dataset: Part
    model: Part
    method: Part
    seed: int = 1
    num_train: int | None = None  # a stratified subset of the training data; all of it if None
    num_bins: int = 15  # of the metrics recorded each epoch
    keep_every: int = 25  # logits are kept at these epochs, and at the last
    precision: str = "32-true"
    optimization: Optimization = field(default_factory=Optimization)

    def __post_init__(self) -> None:
        check_whole("seed", self.seed, above=-1)
        for name in ("num_bins", "keep_every"):
            check_whole(name, getattr(self, name), above=0)
        if self.num_train is not None:
            check_whole("num_train", self.num_train, above=0)
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {self.precision!r}")
        for part in (self.dataset, self.model, self.method):
            for key, value in part.options:
                if isinstance(value, float):
                    check_finite(f"{key} of {part.name}", value)

    @property
    def name(self) -> str:
        """A directory name: readable parts, and a digest of everything."""
        options = "".join(f"-{key}{value}" for key, value in self.method.options)
        digest = hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:8]
        parts = "-".join((self.dataset.name, self.model.name, self.method.name))
        readable = re.sub(r'[/\\:*?"<>|\x00-\x1f]', "_", parts + options)  # what some file system forbids
        readable = readable.encode()[:LONGEST_NAME].decode(errors="ignore")
        return f"{readable}-seed{self.seed}-{digest}"

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and strings."""
        plain = dataclasses.asdict(self)
        for key in ("dataset", "model", "method"):
            part: Part = getattr(self, key)
            plain[key] = {"name": part.name, "options": dict(part.options)}
        plain["optimization"]["milestones"] = list(self.optimization.milestones)
        return plain

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Experiment:
        """The experiment that `to_json` wrote; names what is missing or unknown."""
        known = {item.name for item in dataclasses.fields(cls)}
        if set(plain) != known:
            wrong = sorted(set(plain) ^ known)
            raise ValueError(f"an experiment has the fields {sorted(known)}: {wrong} are missing or unknown")
        parts = {key: Part(plain[key]["name"], **plain[key]["options"]) for key in ("dataset", "model", "method")}
        settings = dict(plain["optimization"])
        settings["milestones"] = tuple(settings["milestones"])
        return cls(**{**plain, **parts, "optimization": Optimization(**settings)})


def usual_optimization(dataset: str, model: str, method: str) -> Optimization:
    """The settings that are used unless told otherwise: the paper's, or shorter ones for the small data sets.

    >>> usual_optimization("cifar100", "vgg16", "ccl_sc").batch_size
    64
    >>> usual_optimization("digits", "mlp", "socrates").epochs
    150
    """
    batch_size = 64 if method == "ccl_sc" or dataset == "digits" else 128
    if dataset == "digits":
        return Optimization(150, batch_size, halve_every=50, weight_decay=0.0)
    if dataset in ("mnist", "fashion_mnist"):
        return Optimization(40, batch_size, halve_every=10)
    if model == "vit_transfer":
        return Optimization(50, batch_size, learning_rate=5e-4, backbone_factor=0.1, milestones=(20, 35, 45))
    return Optimization(batch_size=batch_size)
