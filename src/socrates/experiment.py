"""Everything that decides a run's numbers, as frozen dataclasses: two equal Experiments are the same run."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

Value = int | float | str | bool | None


@dataclass(frozen=True)
class Part:
    """A dataset, model or method by name, with the options that differ from its defaults.

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

    @property
    def name(self) -> str:
        """A directory name: readable parts, and a digest of everything."""
        options = "".join(f"-{key}{value}" for key, value in self.method.options)
        digest = hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:8]
        parts = (self.dataset.name, self.model.name, self.method.name)
        readable = "-".join(part.replace(":", "_").replace("/", "_") for part in parts)
        return f"{readable}{options}-seed{self.seed}-{digest}"

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
    if dataset == "digits":
        return Optimization(epochs=150, batch_size=64, halve_every=50, weight_decay=0.0)
    if dataset in ("mnist", "fashion_mnist"):
        return Optimization(epochs=40, halve_every=10)
    if model == "vit_transfer":
        return Optimization(epochs=50, learning_rate=5e-4, backbone_factor=0.1, milestones=(20, 35, 45))
    return Optimization(batch_size=64) if method == "ccl_sc" else Optimization()
