"""Options that commands share, and those that methods, models and data sets bring; to an Experiment and back."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from .output import console, in_lines

if TYPE_CHECKING:
    from socrates.experiment import Experiment, Optimization, Value

RunFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
POSITIONAL = ("dataset", "model", "method", "run", "runs", "file", "names", "images", "files")
SPELT = {"momentum": "sgd-momentum", "start": "from"}  # --momentum is an option of some methods
SETTINGS = ("num_train", "num_bins", "keep_every", "precision", "choose")  # of an Experiment, besides its parts
OF_PART = "option_"  # begins the field of an option that a method, model or data set brings


@dataclass(kw_only=True)
class Where:
    """Where runs go, and what trains them."""

    out: Path = Path("runs")  # Where run directories go.
    data: Path | None = None  # The data folder; SOCRATES_DATA, or a cache folder, if not given.
    device: str = "cpu"  # A Lightning Fabric accelerator for every process: cpu, auto, cuda, mps.


@dataclass(kw_only=True)
class ManyRuns(Where):
    """The same for several runs at once."""

    processes: int | None = None  # Runs at once; as many as there are cores, or GPUs, if not given.
    engine: Literal["local", "ray"] = "local"  # What trains them: processes here, or the machines of a Ray cluster.
    address: str | None = None  # Of the Ray cluster, such as auto; one of its own on this machine if not given.
    per_gpu: int = 1  # Runs that share a GPU.
    keep_weights: Literal["full", "half", "none"] = "none"  # Whether finished runs keep their models.

    @property
    def told_of_weights(self) -> str:
        """What is not there, and how to get it."""
        return " (without models: --keep-weights full keeps them)" if self.keep_weights == "none" else ""

    @property
    def place(self) -> dict[str, Any]:
        """As the engine spells it."""
        names = ("processes", "keep_weights", "engine", "address", "per_gpu")
        return {"data_root": self.data, "accelerator": self.device} | {name: getattr(self, name) for name in names}


@dataclass(kw_only=True)
class Training:
    """How runs are trained, besides the options of what is trained."""

    # How the learning rate goes: as in the paper, or in one cycle, which is usual for small models and own images.
    recipe: Literal["paper", "one-cycle"] | None = None
    epochs: int | None = None  # Instead of the data set's usual number.
    batch_size: int | None = None  # Instead of the usual size.
    learning_rate: float | None = None  # Instead of the usual rate.
    backbone_factor: float | None = None  # Of the rate for all but the head, for transfer learning.
    momentum: Annotated[float | None, tyro.conf.arg(name=SPELT["momentum"])] = None  # Of SGD.
    weight_decay: float | None = None  # Of SGD.
    halve_every: int | None = None  # Epochs after which the rate is halved, again and again.
    milestones: tuple[int, ...] | None = None  # Epochs at which the rate is halved, instead.
    num_train: int | None = None  # Take a stratified subset of the training data.
    num_bins: int = 15  # Bins of the calibration metrics; the paper's recipes use 10.
    keep_every: int = 25  # Logits of val and test are kept at these epochs, and at the last.
    # A Lightning Fabric precision: 32-true (or 32), bf16-mixed, 16-mixed, bf16-true, 16-true or 64-true.
    precision: str = "32-true"
    # Which epoch's model is kept and evaluated: the last, or the best on validation data by this number; refinement is
    # the NLL after temperature scaling.
    choose: Literal["last", "refinement", "nll", "ece", "accuracy"] = "last"

    def optimization(self, dataset: str, model: str, method: str) -> Optimization:
        """The usual settings for what is trained, with the changes that are asked for."""
        from socrates.data import num_training_images
        from socrates.experiment import usual_optimization

        recipe = self.recipe or ("paper" if self.halve_every or self.milestones else None)
        images = self.num_train or num_training_images(dataset)
        usual = usual_optimization(dataset, model, method, images, recipe)
        given = {item.name: getattr(self, item.name) for item in dataclasses.fields(usual)}
        return dataclasses.replace(usual, **{name: value for name, value in given.items() if value is not None})

    def experiment(self, dataset: Any, model: Any, method: Any, seed: int) -> Experiment:
        """The Experiment of these parts."""
        from socrates.experiment import Experiment, resolve

        settings = {name: getattr(self, name) for name in SETTINGS}
        optimization = self.optimization(dataset.name, model.name, method.name)
        return resolve(Experiment(dataset, model, method, seed, **settings, optimization=optimization))


@dataclass(kw_only=True)
class Named(Training):
    """What is trained, in three words; the options of each of them are options of the command."""

    # A data set: see `socrates list`; or your own images, folder:PATH (a sub-folder for each class), npz:PATH.
    dataset: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATASET")]
    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]  # An architecture, or module:attribute.
    method: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="METHOD")]  # How to train, or module:attribute.

    def given(self) -> dict[str, dict[str, Value]]:
        """The options that were given, by the part that they belong to."""
        found: dict[str, dict[str, Value]] = {part: {} for part in packages()}
        for option, (part, default) in options_of(self).items():
            text = getattr(self, OF_PART + option, None)
            if text is not None:
                found[part][option] = read(option, text, default)
        return found

    def named_experiment(self, seed: int) -> Experiment:
        """The Experiment of what is named."""
        from socrates.experiment import Part

        parts = {part: Part(getattr(self, part), **options) for part, options in self.given().items()}
        return self.experiment(**parts, seed=seed)


def parse(kind: type, words: Sequence[str], prog: str) -> Any:
    """The options of a command; one that is not there is answered with the nearest one that is."""
    if issubclass(kind, Named):
        kind = with_options(kind, words)
    words = ["--help"] if {"-h", "--help"} & set(words) else words
    try:
        told = in_lines(inspect.getdoc(kind) or "", indent="  ")  # lines that begin with a letter would be joined
        options, rest = tyro.cli(kind, args=list(words), prog=prog, description=told, return_unknown_args=True)
    except BrokenPipeError:
        console.on_broken_pipe()  # whoever reads the help has seen enough, as `head` does: this ends quietly
        raise
    if rest and not rest[0].startswith("-"):
        raise ValueError(f"{rest[0]!r} was not expected here: see {prog} --help")
    if rest:
        word, known = rest[0].partition("=")[0], flags(kind)
        near = difflib.get_close_matches(word.strip("-"), [flag[2:] for flag in known], n=1)
        hint = f", did you mean --{near[0]}? Choose" if near else ": choose"
        raise ValueError(f"there is no option {word}{hint} from {', '.join(known)}")
    return options


def flags(kind: type) -> list[str]:
    """The options of a command, as they are typed.

    >>> flags(Where)
    ['--out', '--data', '--device']
    """
    return [flag(item.name) for item in dataclasses.fields(kind) if item.name not in POSITIONAL]


def flag(name: str) -> str:
    """A field's option, as it is typed.

    >>> flag("num_train"), flag("momentum"), flag("option_momentum")
    ('--num-train', '--sgd-momentum', '--momentum')
    """
    return f"--{SPELT.get(name, name).removeprefix(OF_PART).replace('_', '-')}"


def with_options(kind: type[Named], words: Sequence[str]) -> type[Named]:
    """The command with the options of the data set, model and method that the words name."""
    plain = [word for word in words if word not in ("-h", "--help")]
    try:
        named, _ = tyro.cli(kind, args=plain, return_unknown_args=True, console_outputs=False)
    except SystemExit:
        return kind  # not whole: it is parsed again, and says so
    from socrates.names import option_help

    fields: list[tuple[str, Any, None]] = []
    for option, (part, default) in options_of(named).items():
        name = getattr(named, part)
        meanings = option_help(packages()[part].factory(name))
        about = tyro.conf.arg(
            name=flag(OF_PART + option)[2:],
            metavar={bool: "{true,false}", int: "INT", float: "FLOAT"}.get(type(default), "VALUE"),
            help=f"{name}: {meanings.get(option, 'see its documentation')}",
            help_behavior_hint="" if default is None else f"(default: {default})",
        )
        if flag(OF_PART + option) not in flags(kind):
            fields.append((OF_PART + option, Annotated[str | None, about], None))
    made = dataclasses.make_dataclass(kind.__name__, fields, bases=(kind,), kw_only=True)
    made.__doc__, made.__module__ = kind.__doc__, kind.__module__  # whose source holds the help of its fields
    return made


def packages() -> dict[str, Any]:
    """Where the three words of a command are looked up."""
    from socrates import data, methods, models

    return {"method": methods, "model": models, "dataset": data}


def options_of(named: Named) -> dict[str, tuple[str, Any]]:
    """Every option of the three parts: whose it is, and its default; one that several know is that of the first."""
    found: dict[str, tuple[str, Any]] = {}
    for part, package in packages().items():
        for option, default in package.options(getattr(named, part)).items():
            found.setdefault(option, (part, default))
    return found


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds as a list of numbers and ranges.

    >>> parse_seeds("1-5"), parse_seeds("1,3,7"), parse_seeds("4")
    ((1, 2, 3, 4, 5), (1, 3, 7), (4,))
    >>> parse_seeds("5-1")
    Traceback (most recent call last):
    ValueError: --seeds takes 1-5, or 1,3,7, or 4, got '5-1'
    """
    seeds: list[int] = []
    for word in text.split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", word.strip())
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if last < first:
            raise ValueError(f"--seeds takes 1-5, or 1,3,7, or 4, got {text!r}")
        seeds += range(first, last + 1)
    return tuple(dict.fromkeys(seeds))


def read(name: str, text: str, default: Any) -> Value:
    """A word of the command line in the type of the option's default; without one, a number if it is a number.

    >>> read("gamma", "2", 1.0), read("augment", "false", True), read("when", "true", "true"), read("x", "3", None)
    (2.0, False, 'true', 3)
    """
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{name} must be true or false, got {text!r}")
        return text.lower() == "true"
    for kind in (int, float):
        if default is None or isinstance(default, kind):
            try:
                return kind(text)
            except ValueError:
                if default is not None:
                    raise ValueError(f"{name} must be a number like {default}, got {text!r}") from None
    return text


def command_of(experiment: Experiment) -> str:
    """The command line that trains this experiment.

    >>> from socrates.experiment import Experiment, Part
    >>> print(command_of(Experiment(Part("digits"), Part("mlp"), Part("focal", gamma=3.0), seed=3)))
    socrates train digits mlp focal --gamma 3.0 --seed 3 --epochs 300 --batch-size 128 --recipe paper
    --num-bins 15 --keep-every 25 --precision 32-true --choose last
    """
    from socrates.experiment import usual_optimization

    parts = (experiment.dataset.name, experiment.model.name, experiment.method.name)
    usual = dataclasses.asdict(usual_optimization(*parts, recipe=experiment.optimization.recipe))
    usual |= dict.fromkeys(("epochs", "batch_size", "recipe"))  # always told: they depend on the data, too
    words: dict[str, Any] = {**experiment.changed("method"), **experiment.changed("model")}
    words |= {**experiment.changed("dataset"), "seed": experiment.seed}
    for name, value in dataclasses.asdict(experiment.optimization).items():
        words |= {SPELT.get(name, name): value} if value != usual[name] else {}
    told = {name: getattr(experiment, name) for name in (*SETTINGS, "certify")}
    words |= {name: value for name, value in told.items() if value is not None}
    words |= {"from": "RUN"} if experiment.start else {}
    command = ["socrates", "train", *parts]
    for name, value in words.items():
        command += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, tuple) else (value,))]
    return shlex.join(command)
