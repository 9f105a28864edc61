"""Everything that decides a run's numbers, as frozen dataclasses: equal Experiments are one run."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from types import ModuleType
from typing import Any, ClassVar, Literal

import numpy as np

from . import data, methods, models
from .contracts import ShareOfEpochs
from .names import is_outside
from .optimization import (
    Optimization,
    check_choice,
    check_finite,
    check_whole,
    fine_tuned,
    usual_clip_norm,
    usual_optimization,
    with_batch_size,
)

__all__ = [
    "Experiment",
    "Optimization",
    "Part",
    "check_choice",
    "check_finite",
    "check_whole",
    "fine_tuned",
    "resolve",
    "usual_clip_norm",
    "usual_optimization",
    "with_batch_size",
]

Value = int | float | str | bool | None
Kind = Literal["dataset", "model", "method"]
KINDS: tuple[Kind, ...] = ("dataset", "model", "method")

# those of Lightning Fabric
PRECISIONS = ("32-true", "bf16-mixed", "16-mixed", "bf16-true", "16-true", "64-true")
# Which epoch's model is kept: the last, or the one with the lowest (1) or highest (-1) value of a
# number that is measured on the validation data.
CHOICES: dict[str, tuple[str, int]] = {
    "last": ("", 1),
    "refinement": ("val_refinement", 1),  # the NLL after temperature scaling
    "nll": ("val_nll", 1),
    "ece": ("val_ece", 1),
    "accuracy": ("val_accuracy", -1),
}
MOST_HELD_OUT = 0.5
# bytes of a directory's name before seed and digest: file systems refuse more than 255
LONGEST_NAME = 200


@dataclass(frozen=True)
class Part:
    """A dataset, model or method by name, with the options that the caller set.

    `resolve` adds the others. A path in a name (`folder:PATH`) is not changed: the run remembers
    which images it found there.

    >>> Part("socrates", gamma=2.0, alpha=0.9)
    Part('socrates', alpha=0.9, gamma=2.0)
    """

    name: str
    options: tuple[tuple[str, Value], ...] = ()

    def __init__(self, name: str, **options: Value) -> None:
        plain = {
            key: value.item() if isinstance(value, np.generic) else value
            for key, value in options.items()
        }
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "options", tuple(sorted(plain.items())))

    def __repr__(self) -> str:
        options = (f"{key}={value!r}" for key, value in self.options)
        return f"Part({', '.join([repr(self.name), *options])})"


# Fields of the optimization that files of format 1.0 may lack; they are written where they differ.
LATER_FIELDS: dict[str, Any] = {"backbone_joins": 0}


@dataclass(frozen=True)
class Experiment:
    """One training run. Vary it with `dataclasses.replace`.

    >>> experiment = Experiment(Part("digits"), Part("mlp"), Part("socrates", gamma=2.0), seed=3)
    >>> Experiment.from_json(experiment.to_json()) == experiment
    True
    >>> experiment.name
    'digits-mlp-socrates-gamma2.0-seed3-...'
    >>> replace(experiment, precision="32") == experiment
    True
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
    choose: str = "last"  # which epoch's model is kept and evaluated
    # the risk for which validation data are held back, to certify a threshold
    certify: float | None = None
    start: str = ""  # the hash of the weights that training starts from, if not from scratch
    # share of the training data that is never trained on, and fits scaler and novelty
    holdout: float = 0.0
    # whether a third of the strangers of the data trains the unknown column
    unknown_trains: bool = False

    # Whether `resolve` made it. A copy that `replace` varied is not resolved.
    is_resolved: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_whole("seed", self.seed, above=-1)
        for name in ("num_bins", "keep_every"):
            check_whole(name, getattr(self, name), above=0)
        if self.num_train is not None:
            check_whole("num_train", self.num_train, above=0)
        if self.precision in ("32", "64"):  # as Fabric spells them too
            object.__setattr__(self, "precision", f"{self.precision}-true")
        check_choice("precision", self.precision, PRECISIONS)
        check_choice("choose", self.choose, CHOICES)
        if self.certify is not None and not 0 < check_finite("certify", self.certify) < 1:
            raise ValueError(
                f"certify must be a share of wrong answers between 0 and 1, got {self.certify}"
            )
        if not 0 <= check_finite("holdout", self.holdout) <= MOST_HELD_OUT:
            raise ValueError(
                f"holdout must be a share of the training data from 0 to {MOST_HELD_OUT}, "
                f"got {self.holdout}"
            )
        for part in (self.dataset, self.model, self.method):
            for key, value in part.options:
                if isinstance(value, float):
                    check_finite(f"{key} of {part.name}", value)

    @property
    def recipe(self) -> str:
        """Return the schedule of the learning rate: "paper" or "one-cycle"."""
        return self.optimization.recipe

    @cached_property
    def name(self) -> str:
        """Return the name of its directory: what is trained, changed options, seed and a digest.

        What is at its default leaves no trace in it, so that a new option or field renames no run.
        """
        changed = {kind: self.changed(kind) for kind in KINDS}
        words: dict[str, Any] = {kind: [getattr(self, kind).name, changed[kind]] for kind in KINDS}
        words |= _not_at_default(self, (*KINDS, "optimization"))
        words["optimization"] = _not_at_default(self.optimization)
        options = "".join(f"-{key}{value}" for key, value in changed["method"].items())
        digest = hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:8]
        return f"{self.readable_name(options)}-seed{self.seed}-{digest}"

    def readable_name(self, options: str = "") -> str:
        """Return how the names of all runs of these parts begin, whatever their options."""
        parts = "-".join((self.dataset.name, self.model.name, self.method.name))
        return directory_name(parts + options)

    def changed(self, kind: Kind) -> dict[str, Value]:
        """Return the options of a part that differ from their defaults.

        >>> wide = Part("mlp", width=64)
        >>> Experiment(Part("digits"), wide, Part("focal", gamma=2)).changed("model")
        {'width': 64}
        """
        default = replace(self, **{kind: Part(getattr(self, kind).name)})
        options = _resolved_part(self, kind, trust_code=False).options
        default_options = _resolved_part(default, kind, trust_code=False).options
        return dict(item for item in options if item not in default_options)

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, numbers and strings."""
        plain = asdict(self)
        for part in KINDS:
            plain[part]["options"] = dict(plain[part]["options"])
        if not self.unknown_trains:
            del plain["unknown_trains"]
        plain["optimization"]["milestones"] = list(self.optimization.milestones)
        for name, default in LATER_FIELDS.items():
            if plain["optimization"][name] == default:
                del plain["optimization"][name]
        return plain

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Experiment:
        """Return the experiment that `to_json` wrote; name what is missing or unknown."""
        # fields that the first runs of this format lack
        plain = {"holdout": 0.0, "unknown_trains": False, **plain}
        _check_fields("an experiment", cls, plain)
        settings = {**LATER_FIELDS, **plain["optimization"]}
        _check_fields("its optimization", Optimization, settings)
        parts = {key: Part(plain[key]["name"], **plain[key]["options"]) for key in KINDS}
        milestones = tuple(settings["milestones"])
        optimization = Optimization(**{**settings, "milestones": milestones})
        return cls(**{**plain, **parts, "optimization": optimization})


def directory_name(words: str) -> str:
    """Return the words without what a file system forbids, and no longer than all of them allow.

    >>> directory_name("folder:my/images")
    'folder_my_images'
    """
    allowed = re.sub(r'[/\\:*?"<>|\x00-\x1f]', "_", words)
    return allowed.encode()[:LONGEST_NAME].decode(errors="ignore")


def resolve(experiment: Experiment, *, trust_code: bool = True) -> Experiment:
    """Return the experiment with every option filled in, so that what trains alike is equal.

    The doors call it, once: `train`, `run_all` and `tune`, the reading of a run (`Run.experiment`)
    and the command line. Everything below them is passed resolved experiments and compares them
    with `==`; to resolve one again costs nothing. Only who varies one with `replace` resolves it
    again. Without `trust_code` nothing is imported for a part that comes from outside.

    >>> experiment = Experiment(Part("digits"), Part("mlp"), Part("focal"))
    >>> parts = Part("digits", augment=True), Part("mlp", width=128.0), Part("focal", gamma=2)
    >>> resolved = resolve(experiment)
    >>> resolved == resolve(Experiment(*parts)), resolved.name == Experiment(*parts).name
    (True, True)
    >>> resolved.method
    Part('focal', gamma=2.0)
    >>> resolve(resolved) is resolved, replace(resolved, seed=2).is_resolved
    (True, False)
    """
    if experiment.is_resolved:
        return experiment
    parts: dict[Kind, Part] = {kind: _resolved_part(experiment, kind, trust_code) for kind in KINDS}
    resolved = replace(experiment, **parts)
    if trust_code or not any(_is_plug_in(kind, part) for kind, part in parts.items()):
        object.__setattr__(resolved, "is_resolved", True)
    return resolved


def _resolved_part(experiment: Experiment, kind: Kind, trust_code: bool) -> Part:
    """Return the dataset, model or method of an experiment with every option filled in."""
    part = getattr(experiment, kind)
    defaults: dict[str, Any] = {}
    if trust_code or not _is_plug_in(kind, part):
        with contextlib.suppress(ValueError):  # an unknown name: building it explains that better
            defaults = _PACKAGES[kind].options(part.name)
    part = _filled(part, defaults, experiment.optimization.epochs)
    return _with_image_size(part, experiment.model) if kind == "dataset" else part


_PACKAGES: dict[Kind, ModuleType] = {"dataset": data, "model": models, "method": methods}


def _is_plug_in(kind: Kind, part: Part) -> bool:
    """Return whether a part comes from outside, so that only its own code knows its defaults."""
    known_names: dict[Kind, Collection[str]] = {
        "dataset": [*data.DATASETS, *data.BY_PATH],
        "model": models.MODELS,
        "method": methods.METHODS,
    }
    return is_outside(part.name, known_names[kind])


def _with_image_size(dataset: Part, model: Part) -> Part:
    """Return the dataset with the image size that a pretrained model knows, if it has another."""
    options = dict(dataset.options)
    size = getattr(models.MODELS.get(model.name), "pretrained_size", None)
    if not size or options.get("image_size", size) is not None:
        return dataset
    entry = data.DATASETS.get(dataset.name)
    if entry and entry.image_shape[1:] == (size, size):
        return dataset
    return Part(dataset.name, **options | {"image_size": size})


def _filled(part: Part, defaults: Mapping[str, Any], epochs: int) -> Part:
    """Return the part with the defaults of its options, each value in the type of its option."""
    # None asks for the default
    changed = {
        key: value for key, value in part.options if value is not None or key not in defaults
    }
    options = {**defaults, **changed}
    typed = {key: _typed(value, defaults.get(key), epochs) for key, value in options.items()}
    return Part(part.name, **typed)


def _typed(value: Value, default: object, epochs: int) -> Value:
    """Return the value in its option's type: 1 is 1.0 for a rate, 16.0 is 16 for a width."""
    if isinstance(value, ShareOfEpochs):
        return value.of(epochs)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(default, float) and not isinstance(default, ShareOfEpochs):
        return float(value)
    if isinstance(default, bool):
        return bool(value) if value in (0, 1) else value
    return int(value) if float(value).is_integer() else value


def _not_at_default(settings: Any, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults."""
    values = {item.name: getattr(settings, item.name) for item in fields(settings)}
    defaults = {item.name: item.default for item in fields(settings)}
    return {
        name: value
        for name, value in values.items()
        if value != defaults[name] and name not in without
    }


def _check_fields(what: str, kind: type, plain: dict[str, Any]) -> None:
    known = {item.name for item in fields(kind)}
    if wrong := sorted(set(plain) ^ known):
        raise ValueError(f"{what} has the fields {sorted(known)}: {wrong} are missing or unknown")
