"""Everything that decides a run's numbers, as frozen dataclasses: two equal Experiments are the same run."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, fields, replace
from types import ModuleType
from typing import Any, Literal

import numpy as np

from . import data, methods, models
from .contracts import ShareOfEpochs
from .names import is_outside

Value = int | float | str | bool | None
Kind = Literal["dataset", "model", "method"]
KINDS: tuple[Kind, ...] = ("dataset", "model", "method")

PRECISIONS = ("32-true", "bf16-mixed", "16-mixed", "bf16-true", "16-true", "64-true")  # of Lightning Fabric
RECIPES = ("paper", "one-cycle")
# What is trained by one cycle unless told otherwise, besides one's own images.
SMALL_MODELS, SMALL_DATA = ("mlp", "cnn", "resnet20"), ("digits", "mnist", "fashion_mnist")
FEWEST_STEPS, FEWEST_EPOCHS = 2_000, 20  # of one cycle
# Which epoch's model is kept: the last, or that with the least, or the most, of a number on validation data.
CHOICES: dict[str, tuple[str, int]] = {
    "last": ("", 1),
    "refinement": ("val_refinement", 1),  # the NLL after temperature scaling
    "nll": ("val_nll", 1),
    "ece": ("val_ece", 1),
    "accuracy": ("val_accuracy", -1),
}
LONGEST_NAME = 200  # bytes of a directory's name before seed and digest: file systems refuse more than 255


@dataclass(frozen=True)
class Part:
    """A dataset, model or method by name, with the options that were given; `resolve` adds the others.

    A path in a name (`folder:PATH`) stays as it was given: the run remembers which images it found there.

    >>> Part("socrates", gamma=2.0, alpha=0.9)
    Part('socrates', alpha=0.9, gamma=2.0)
    """

    name: str
    options: tuple[tuple[str, Value], ...] = ()

    def __init__(self, name: str, **options: Value) -> None:
        object.__setattr__(self, "name", name)
        plain = {key: value.item() if isinstance(value, np.generic) else value for key, value in options.items()}
        object.__setattr__(self, "options", tuple(sorted(plain.items())))

    def __repr__(self) -> str:
        return f"Part({', '.join([repr(self.name), *(f'{key}={value!r}' for key, value in self.options)])})"


@dataclass(frozen=True)
class Optimization:
    """SGD and its schedule; the defaults are the paper's.

    With the recipe "paper" the learning rate is halved every `halve_every` epochs, or at the epochs of `milestones` if
    there are any. With "one-cycle" it rises to `learning_rate` over the first fifth of the steps and falls to 0 over
    the others, with Nesterov's momentum: the better one when there are few epochs.
    """

    epochs: int = 300
    batch_size: int = 128
    learning_rate: float = 0.1
    backbone_factor: float = 1.0  # of the rate for all but the head: 0.1 for transfer learning
    momentum: float = 0.9
    weight_decay: float = 5e-4
    halve_every: int = 25
    milestones: tuple[int, ...] = ()
    recipe: str = "paper"

    def __post_init__(self) -> None:
        check_choice("recipe", self.recipe, RECIPES)
        for name in ("epochs", "batch_size", "halve_every"):
            check_whole(name, getattr(self, name), above=0)
        for name in ("learning_rate", "backbone_factor", "momentum", "weight_decay"):
            object.__setattr__(self, name, check_finite(name, getattr(self, name)))  # 1 and 1.0 are the same run
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
        if self.recipe != "paper" and (self.milestones or self.halve_every != Optimization.halve_every):
            raise ValueError(f"halve_every and milestones belong to the recipe paper, got the recipe {self.recipe}")


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Refuse what is none of the choices.

    >>> check_choice("choose", "best", ("last", "nll"))
    Traceback (most recent call last):
    ValueError: choose must be one of last, nll, got 'best'
    """
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


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
    return float(value)


@dataclass(frozen=True)
class Experiment:
    """One training run. Vary it with `dataclasses.replace`.

    >>> experiment = Experiment(Part("digits"), Part("mlp"), Part("socrates", gamma=1.0), seed=3)
    >>> Experiment.from_json(experiment.to_json()) == experiment
    True
    >>> experiment.name
    'digits-mlp-socrates-gamma1.0-seed3-...'
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
    certify: float | None = None  # the risk for which validation data are held back, to certify a threshold
    start: str = ""  # the hash of the weights that training starts from, if not from scratch

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
            raise ValueError(f"certify must be a share of wrong answers between 0 and 1, got {self.certify}")
        for part in (self.dataset, self.model, self.method):
            for key, value in part.options:
                if isinstance(value, float):
                    check_finite(f"{key} of {part.name}", value)

    @property
    def recipe(self) -> str:
        """How the learning rate goes: "paper" or "one-cycle"."""
        return self.optimization.recipe

    @property
    def name(self) -> str:
        """A directory name: what was trained, options that are not at their defaults, and a digest of all such.

        What is at its default leaves no trace in it, so that a new option or field renames no run.
        """
        told: dict[str, Any] = {kind: [getattr(self, kind).name, self.changed(kind)] for kind in KINDS}
        told |= _not_usual(self, (*KINDS, "optimization")) | {"optimization": _not_usual(self.optimization, ())}
        options = "".join(f"-{key}{value}" for key, value in told["method"][1].items())
        digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:8]
        return f"{self.readable_name(options)}-seed{self.seed}-{digest}"

    def readable_name(self, options: str = "") -> str:
        """How the names of all runs of these parts begin, whatever their options."""
        return directory_name("-".join((self.dataset.name, self.model.name, self.method.name)) + options)

    def changed(self, kind: Kind) -> dict[str, Value]:
        """The options of the dataset, model or method that are not at their defaults.

        >>> Experiment(Part("digits"), Part("mlp", width=64), Part("focal", gamma=2)).changed("model")
        {'width': 64}
        """
        usual = replace(self, **{kind: Part(getattr(self, kind).name)})
        ours, defaults = (getattr(resolve(one, trust_code=False), kind).options for one in (self, usual))
        return dict(item for item in ours if item not in defaults)

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and strings."""
        plain = asdict(self)
        for part in KINDS:
            plain[part]["options"] = dict(plain[part]["options"])
        plain["optimization"]["milestones"] = list(self.optimization.milestones)
        return plain

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Experiment:
        """The experiment that `to_json` wrote; names what is missing or unknown."""
        _check_fields("an experiment", cls, plain)
        _check_fields("its optimization", Optimization, plain["optimization"])
        parts = {key: Part(plain[key]["name"], **plain[key]["options"]) for key in KINDS}
        settings = {**plain["optimization"], "milestones": tuple(plain["optimization"]["milestones"])}
        return cls(**{**plain, **parts, "optimization": Optimization(**settings)})


def directory_name(words: str) -> str:
    """The words with what no file system forbids, and no longer than all of them allow.

    >>> directory_name("folder:my/images")
    'folder_my_images'
    """
    return re.sub(r'[/\\:*?"<>|\x00-\x1f]', "_", words).encode()[:LONGEST_NAME].decode(errors="ignore")


def resolve(experiment: Experiment, described: data.Entry | None = None, *, trust_code: bool = True) -> Experiment:
    """The same experiment with every option filled in and in its type: what trains alike is equal, in one directory.

    `described` says what the data are, where their name does not; a pretrained model is given the image size that it
    knows unless they have it. Without `trust_code` nothing is imported for a part that comes from outside.

    >>> one = Experiment(Part("digits"), Part("mlp"), Part("focal"))
    >>> other = Experiment(Part("digits", augment=True), Part("mlp", width=128.0), Part("focal", gamma=2))
    >>> resolve(one) == resolve(other), resolve(one).name == other.name
    (True, True)
    >>> resolve(one).method
    Part('focal', gamma=2.0)
    """
    epochs = experiment.optimization.epochs
    dataset = _filled(experiment.dataset, data, [*data.DATASETS, *data.BY_PATH], epochs, trust_code)
    model = _filled(experiment.model, models, models.MODELS, epochs, trust_code)
    method = _filled(experiment.method, methods, methods.METHODS, epochs, trust_code)
    options = dict(dataset.options)
    known = described or data.DATASETS.get(dataset.name)
    wanted = getattr(models.MODELS.get(model.name), "pretrained_size", None)
    if wanted and "image_size" in options and options["image_size"] is None:
        options["image_size"] = None if known and known.image_shape[1:] == (wanted, wanted) else wanted
    return replace(experiment, dataset=Part(dataset.name, **options), model=model, method=method)


def _filled(part: Part, package: ModuleType, ours: Collection[str], epochs: int, trust_code: bool) -> Part:
    """The part with the defaults of its options, each value in the type of its option."""
    defaults: dict[str, Any] = {}
    if trust_code or not is_outside(part.name, ours):
        with contextlib.suppress(ValueError):  # unknown: building it says so, in better words
            defaults = package.options(part.name)
    given = {key: value for key, value in part.options if value is not None or key not in defaults}
    whole = {**defaults, **given}
    return Part(part.name, **{key: _typed(value, defaults.get(key), epochs) for key, value in whole.items()})


def _typed(value: Value, default: object, epochs: int) -> Value:
    """The value as its option spells it: 1 is 1.0 for a rate, 16.0 is 16 for a width, a half is so many epochs."""
    if isinstance(value, ShareOfEpochs):
        return value.of(epochs)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(default, float) and not isinstance(default, ShareOfEpochs):
        return float(value)
    if isinstance(default, bool):
        return bool(value) if value in (0, 1) else value
    return int(value) if float(value).is_integer() else value


def _not_usual(settings: Any, without: Collection[str]) -> dict[str, Any]:
    """The fields of a dataclass that are not at their defaults."""
    given = {item.name: (getattr(settings, item.name), item.default) for item in fields(settings)}
    return {name: value for name, (value, usual) in given.items() if value != usual and name not in without}


ADDED_LATER = {"recipe", "choose", "certify", "start"}  # what earlier versions did not write is at its default


def _check_fields(what: str, kind: type, plain: dict[str, Any]) -> None:
    known = {item.name for item in fields(kind)}
    if wrong := sorted((set(plain) ^ known) - (known & ADDED_LATER)):
        raise ValueError(f"{what} has the fields {sorted(known)}: {wrong} are missing or unknown")


def usual_optimization(
    dataset: str, model: str, method: str, num_images: int | None = None, recipe: str | None = None
) -> Optimization:
    """The settings that are used unless told otherwise.

    Small models, and any model on images of one's own, are trained by one cycle, as long as the number of training
    images asks for (that of the data set, unless it is given); all else as in the paper.

    >>> usual_optimization("cifar100", "vgg16", "ccl_sc").batch_size
    64
    >>> cycle = usual_optimization("folder:my-images", "resnet34", "socrates", num_images=216)
    >>> cycle.recipe, cycle.batch_size, cycle.epochs
    ('one-cycle', 16, 143)
    """
    batch_size = 64 if method == "ccl_sc" else 128
    if model == "vit_transfer":
        transfer = Optimization(50, batch_size, learning_rate=5e-4, backbone_factor=0.1)
        cycle = recipe == "one-cycle"
        return replace(transfer, recipe="one-cycle") if cycle else replace(transfer, milestones=(20, 35, 45))
    small = model in SMALL_MODELS or dataset in SMALL_DATA or dataset.startswith(("folder:", "npz:"))
    if recipe == "one-cycle" or (recipe is None and small):
        entry = data.DATASETS.get(dataset)
        images = num_images or (entry.sizes[0] if entry else 64 * FEWEST_STEPS // FEWEST_EPOCHS)
        batch_size = 64 if images >= 2_048 else 32 if images >= 512 else 16
        epochs = max(FEWEST_EPOCHS, math.ceil(FEWEST_STEPS / math.ceil(images / batch_size)))
        return Optimization(epochs, batch_size, recipe="one-cycle")
    return Optimization(batch_size=batch_size)
