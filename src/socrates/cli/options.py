"""Options that several commands share, and those that data sets, models and methods bring along."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from .output import console, in_lines

if TYPE_CHECKING:
    from socrates.experiment import Experiment, Optimization, Value

# How tyro reads every command: no `--option None`, no `--no-option` beside a switch.
PLAIN = (tyro.conf.DisallowNone, tyro.conf.FlagCreatePairsOff)
# The help of these says in words what happens without them, so no "(default: None)" follows it.
UNSET = tyro.conf.arg(help_behavior_hint="")
Switch = Annotated[bool, UNSET]
OptionalInt = Annotated[int | None, UNSET]
OptionalFloat = Annotated[float | None, UNSET]
OptionalPath = Annotated[Path | None, UNSET]
OptionalText = Annotated[str | None, tyro.conf.arg(metavar="TEXT", help_behavior_hint="")]
Texts = Annotated[tuple[str, ...], tyro.conf.arg(metavar="TEXT ...", help_behavior_hint="")]
Text = Annotated[str, tyro.conf.arg(metavar="TEXT")]
RunFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
ReadingChoice = Literal["answer", "abstain", "renormalize", "spread"]
NoveltyChoice = Literal[
    "none",
    "energy",
    "unknown",
    "knn",
    "mahalanobis",
    "knn+energy",
    "mahalanobis+energy",
    "mahalanobis+knn+energy",
]


def positional(metavar: str, hint: str = "(required)") -> Any:
    """Return what tyro needs to know of an argument that takes several words."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=hint)


# The fields of an Experiment that are options of a command, besides its parts.
SETTINGS = ("num_train", "num_bins", "keep_every", "precision", "choose", "holdout")


@dataclass(kw_only=True)
class PlaceOptions:
    """The folders of runs and data, and the device that trains."""

    out: Path = Path("runs")  # Folder of the run directories.
    # Folder of the data sets. Without it: the environment variable SOCRATES_DATA, or a cache
    # folder.
    data: OptionalPath = None
    device: Text = "cpu"  # Lightning Fabric accelerator of every process: cpu, auto, cuda or mps.


@dataclass(kw_only=True)
class ManyRuns(PlaceOptions):
    """The folders of several runs, and the processes that train them at the same time."""

    processes: OptionalInt = None  # Number of runs at a time. Without it: one per core, or per GPU.
    # What trains the runs: processes on this machine, or the machines of a Ray cluster.
    engine: Literal["local", "ray"] = "local"
    # Address of the Ray cluster, such as auto. Without it: a new cluster on this machine.
    address: OptionalText = None
    per_gpu: int = 1  # Number of runs that share a GPU.
    # Precision in which finished runs keep their models, or none to keep no models.
    keep_weights: Literal["full", "half", "none"] = "none"

    @property
    def weights_hint(self) -> str:
        """Return how to keep the models, if the runs keep none."""
        if self.keep_weights != "none":
            return ""
        return " (without models: --keep-weights full keeps them)"

    @property
    def place(self) -> dict[str, Any]:
        """Return these options as the keywords of the engines."""
        names = ("processes", "keep_weights", "engine", "address", "per_gpu")
        shared = {name: getattr(self, name) for name in names}
        return {"data_root": self.data, "accelerator": self.device, **shared}


@dataclass(kw_only=True)
class TrainingOptions:
    """The options of training that do not belong to a data set, a model or a method."""

    # Schedule of the learning rate: as in the paper, or one cycle. Without it: one cycle for small
    # models and your own images, the paper's otherwise.
    recipe: Annotated[Literal["paper", "one-cycle"] | None, UNSET] = None
    epochs: OptionalInt = None  # Number of epochs. Without it: what is usual for the data set.
    batch_size: OptionalInt = None  # Samples per step. Without it: what is usual for the recipe.
    # Largest learning rate of the schedule. Without it: what is usual for the recipe.
    learning_rate: OptionalFloat = None
    # Multiply the learning rate of all layers but the last by this, for transfer learning.
    backbone_factor: OptionalFloat = None
    # From this epoch on, train all layers at the rate of the last, as the paper's released code
    # did. Without it: never.
    backbone_joins: OptionalInt = None
    sgd_momentum: OptionalFloat = None  # Momentum of SGD. Without it: what is usual.
    weight_decay: OptionalFloat = None  # Weight decay of SGD. Without it: what is usual.
    halve_every: OptionalInt = None  # Halve the learning rate after this many epochs, repeatedly.
    # Halve the learning rate at these epochs instead.
    milestones: Annotated[
        tuple[int, ...] | None, tyro.conf.arg(metavar="INT ...", help_behavior_hint="")
    ] = None
    # Scale gradients with a larger norm down to this one; 0 turns this off. Without it: 1 for one
    # cycle with batches below 64, off otherwise.
    clip_norm: OptionalFloat = None
    num_train: OptionalInt = None  # Train on a stratified subset of this many samples.
    num_bins: int = 15  # Bins of the calibration metrics; the paper's recipes use 10.
    # Keep the validation and test logits of every epoch that is a multiple of this, and of the
    # last epoch.
    keep_every: int = 25
    # Lightning Fabric precision: 32-true (or 32), 64-true, 16-true, 16-mixed, bf16-true or
    # bf16-mixed.
    precision: Text = "32-true"
    # Which epoch's model is kept and evaluated: the last one, or the one with the best value of
    # this metric on validation data. Refinement is the NLL after temperature scaling.
    choose: Literal["last", "refinement", "nll", "ece", "accuracy"] = "last"
    # Share of the training data, such as 0.1, that is never trained on. It fits scaler and novelty
    # score instead of the validation data, which may choose the epoch.
    holdout: float = 0.0

    def optimization(self, dataset: str, model: str, method: str) -> Optimization:
        """Return the usual optimization for these parts, changed by the options that are set."""
        from socrates.data import num_training_images
        from socrates.experiment import usual_optimization, with_batch_size

        recipe = self.recipe
        if recipe is None and (self.halve_every or self.milestones):
            recipe = "paper"
        num_images = self.num_train or num_training_images(dataset)
        usual = usual_optimization(dataset, model, method, num_images, recipe)
        usual = with_batch_size(usual, self.batch_size or usual.batch_size)
        changes = {
            item.name: getattr(self, option_name(item.name)) for item in dataclasses.fields(usual)
        }
        changes = {name: value for name, value in changes.items() if value is not None}
        return dataclasses.replace(usual, **changes)

    def experiment(self, dataset: Any, model: Any, method: Any, seed: int) -> Experiment:
        """Return the resolved Experiment of these parts."""
        from socrates.experiment import Experiment, resolve

        settings = {name: getattr(self, name) for name in SETTINGS}
        optimization = self.optimization(dataset.name, model.name, method.name)
        return resolve(
            Experiment(dataset, model, method, seed, **settings, optimization=optimization)
        )


@dataclass(kw_only=True)
class Named(TrainingOptions):
    """The data set, the model and the method; their options are options of the command."""

    # A data set of `socrates list`, or your own images: folder:PATH (one sub-folder per class) or
    # npz:PATH.
    dataset: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATASET")]
    # An architecture of `socrates list`, module:attribute or file.py:attribute.
    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    # A training method of `socrates list`, module:attribute or file.py:attribute.
    method: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="METHOD")]

    def names_of_parts(self) -> dict[str, str]:
        """Return the names of the three parts."""
        return {part: getattr(self, part) for part in packages()}

    def part_options(self) -> dict[str, dict[str, Value]]:
        """Return the options that were set, by the part that they belong to."""
        chosen: dict[str, dict[str, Value]] = {}
        for part in packages():
            options = getattr(self, f"{part}_options", None)
            values = vars(options) if options else {}
            chosen[part] = {name: value for name, value in values.items() if value is not None}
        if getattr(self, "skip_broken", False):  # a switch of some commands, not NAME VALUE
            chosen["dataset"]["skip_broken"] = True
        return chosen

    def named_experiment(self, seed: int) -> Experiment:
        """Return the resolved Experiment of the three parts and their options."""
        from socrates.experiment import Part

        names = self.names_of_parts()
        parts = {
            part: Part(names[part], **options) for part, options in self.part_options().items()
        }
        return self.experiment(**parts, seed=seed)


def parse(kind: type, words: Sequence[str], prog: str) -> Any:
    """Read the options of a command; what cannot be read ends it with an explanation."""
    if issubclass(kind, Named):
        kind = with_part_options(kind, words)
    if {"-h", "--help"} & {*words}:
        words = ["--help"]  # tyro leaves arguments out of the help that it has read before
    # Indented, because tyro joins lines that begin with a letter.
    description = in_lines(inspect.getdoc(kind) or "", indent="  ")
    try:
        return tyro.cli(kind, args=list(words), prog=prog, description=description, config=PLAIN)
    except BrokenPipeError:
        console.on_broken_pipe()  # `socrates train --help | head` ends quietly
        raise


def with_part_options(kind: type[Named], words: Sequence[str]) -> type[Named]:
    """Return the command with the options of the data set, model and method in the words.

    Only they decide which options there are, so the words are read twice: first for the names.
    """
    without_help = [word for word in words if word not in ("-h", "--help")]
    try:
        named, _ = tyro.cli(
            kind,
            args=with_all_names(kind, without_help),
            return_unknown_args=True,
            console_outputs=False,
            config=PLAIN,
        )
    except SystemExit:
        return kind  # something is missing or wrong, which the second reading explains
    if not named.dataset:
        return kind
    taken = {item.name for item in dataclasses.fields(kind)}
    groups: list[tuple[str, Any, Any]] = []
    for part, name in named.names_of_parts().items():
        group = options_class(part, name, taken)
        taken |= {item.name for item in dataclasses.fields(group)}
        # the heading is "method options", the flag is --gamma, not --method.gamma
        titled = Annotated[group, tyro.conf.OmitArgPrefixes, tyro.conf.arg(name=part)]
        groups.append((f"{part}_options", titled, dataclasses.field(default_factory=group)))
    command = dataclasses.make_dataclass(kind.__name__, groups, bases=(kind,), kw_only=True)
    command.__doc__ = kind.__doc__
    command.__module__ = kind.__module__  # its source holds the help of the fields
    return command


def with_all_names(kind: type[Named], words: Sequence[str]) -> list[str]:
    """Return the words with an empty name for each part that need not be named and is not.

    Otherwise the value of an option that is not known yet, such as --gamma 2, would be taken for
    a name.
    """
    parts = [item for item in dataclasses.fields(kind) if item.name in packages()]
    num_optional = sum(item.default is not dataclasses.MISSING for item in parts)
    leading = list(takewhile(lambda word: not word.startswith("-"), words))
    rest = list(words[len(leading) :])
    missing = [""] * min(num_optional, len(parts) - len(leading))
    return [*leading, *missing, *rest] if leading else [*rest, *missing]


def options_class(part: str, name: str, taken: set[str]) -> type:
    """Return a dataclass of the options of one data set, model or method, without taken names."""
    from socrates.names import option_help

    package = packages()[part]
    shared = getattr(package, "SHARED_OPTIONS", {})
    meanings = {**shared, **option_help(package.factory(name))}
    options: list[tuple[str, Any, None]] = []
    for option, default in package.options(name).items():
        if option not in taken:
            meaning = meanings.get(option, "see its documentation")
            options.append((option, option_type(option, default, meaning), None))
    group = dataclasses.make_dataclass(f"{part.title()}Options", options)
    group.__doc__ = f"Options of {name}."
    return group


def option_type(name: str, default: Any, meaning: str) -> Any:
    """Return how tyro reads and explains an option of a data set, model or method."""
    metavars = {bool: "{true,false}", int: "INT", float: "FLOAT"}
    spec = PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavars.get(type(default), "VALUE"),
        instance_from_str=lambda words: read(name, words[0], default),
        is_instance=lambda value: value is not None,
        str_from_instance=lambda value: [str(value)],
    )
    hint = "" if default is None else f"(default: {default})"
    return Annotated[Any, spec, tyro.conf.arg(help=meaning, help_behavior_hint=hint)]


def packages() -> dict[str, Any]:
    """Return the packages in which a method, a model and a data set are looked up.

    An option that several of them have belongs to the first.
    """
    from socrates import data, methods, models

    return {"method": methods, "model": models, "dataset": data}


def option_name(field: str) -> str:
    """Return the option of a field of Optimization: --momentum is an option of some methods.

    >>> option_name("epochs"), option_name("momentum")
    ('epochs', 'sgd_momentum')
    """
    return "sgd_momentum" if field == "momentum" else field


def flag(name: str) -> str:
    """Return an option as it is typed.

    >>> flag("num_train")
    '--num-train'
    """
    return f"--{name.replace('_', '-')}"


def parse_seeds(text: str) -> tuple[int, ...]:
    """Read seeds from a list of numbers and ranges.

    >>> parse_seeds("1-5"), parse_seeds("1,3,7"), parse_seeds("4")
    ((1, 2, 3, 4, 5), (1, 3, 7), (4,))
    >>> parse_seeds("5-1")
    Traceback (most recent call last):
    ValueError: --seeds takes 1-5, or 1,3,7, or 4, got '5-1'
    """
    seeds: list[int] = []
    for word in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", word.strip())
        numbers = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
        if not numbers:
            raise ValueError(f"--seeds takes 1-5, or 1,3,7, or 4, got {text!r}")
        seeds += numbers
    return tuple(dict.fromkeys(seeds))


def read(name: str, text: str, default: Any) -> Value:
    """Read the value of an option in the type of its default; without one, numbers as numbers.

    >>> read("gamma", "2", 1.0), read("augment", "false", True)
    (2.0, False)
    >>> read("when", "true", "true"), read("x", "3", None)
    ('true', 3)
    """
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{name} must be true or false, got {text!r}")
        return text.lower() == "true"
    for kind in (int, float):
        if default is not None and not isinstance(default, kind):
            continue
        try:
            return kind(text)
        except ValueError:
            if default is not None:
                raise ValueError(f"{name} must be a number like {default}, got {text!r}") from None
    return text
