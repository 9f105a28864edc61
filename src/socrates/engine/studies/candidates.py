"""The candidates of a study: an experiment with some of its options varied."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from socrates import data, methods, models
from socrates.contracts import Task
from socrates.experiment import Experiment, Optimization, Part, Value, resolve
from socrates.names import unknown

Grid = Mapping[str, tuple[Value, ...]]

OF_OPTIMIZATION = ("batch_size", "learning_rate", "epochs")
SMALL_TASK = Task(num_samples=16, num_classes=3)


@dataclass(frozen=True)
class Candidate:
    """What is varied, in the order of the grid, and the experiment that comes of it; its seed does not matter.

    >>> candidate = grid_candidates(Experiment(Part("digits"), Part("mlp"), Part("focal")), {"gamma": (1.0,)})[0]
    >>> candidate.label, [run.seed for run in candidate.runs((4, 5))]
    ('gamma=1', [4, 5])
    """

    options: tuple[tuple[str, Value], ...]
    experiment: Experiment

    @property
    def label(self) -> str:
        """For tables and sentences."""
        return " ".join(f"{name}={short(value)}" for name, value in self.options)

    def runs(self, seeds: Sequence[int]) -> list[Experiment]:
        """The experiment with each seed."""
        return [replace(self.experiment, seed=seed) for seed in seeds]


def grid_candidates(base: Experiment, grid: Grid) -> list[Candidate]:
    """Every combination of the values.

    >>> base = Experiment(Part("digits"), Part("mlp"), Part("socrates"))
    >>> [candidate.label for candidate in grid_candidates(base, {"gamma": (1.0, 2.0), "batch_size": (64, 128)})]
    ['gamma=1 batch_size=64', 'gamma=1 batch_size=128', 'gamma=2 batch_size=64', 'gamma=2 batch_size=128']
    """
    points = itertools.product(*grid.values())
    return [candidate_of(base, dict(zip(grid, point, strict=True))) for point in points]


def candidate_of(base: Experiment, options: Mapping[str, Value]) -> Candidate:
    """The experiment with these options, each where it belongs."""
    changes: dict[str, dict[str, Any]] = {"method": {}, "model": {}, "optimization": {}}
    for name, value in options.items():
        changes[option_of(base, name)[0]][name] = value
    optimization = replace(base.optimization, **changes["optimization"])
    only_last = base.keep_every >= base.optimization.epochs
    parts = {"method": base.method, "model": base.model}
    changed = {kind: Part(part.name, **{**dict(part.options), **changes[kind]}) for kind, part in parts.items()}
    keep = optimization.epochs if only_last else base.keep_every
    experiment = resolve(replace(base, **changed, optimization=optimization, keep_every=keep))
    check(experiment)
    return Candidate(tuple(options.items()), experiment)


def option_of(base: Experiment, name: str) -> tuple[str, Any]:
    """Whether an option is the method's, the model's or the optimization's, and its default.

    >>> base = Experiment(Part("digits"), Part("mlp"), Part("focal"))
    >>> option_of(base, "gamma"), option_of(base, "batch_size")
    (('method', 2.0), ('optimization', 128))
    >>> option_of(base, "gama")
    Traceback (most recent call last):
    ValueError: focal on mlp has no option 'gama', did you mean 'gamma'? Choose from gamma, width, depth, batch_size,
    learning_rate, epochs
    """
    of_parts = {"method": methods.options(base.method.name), "model": models.options(base.model.name)}
    owners = of_parts | {"optimization": {option: getattr(Optimization, option) for option in OF_OPTIMIZATION}}
    known = {option: (owner, default) for owner, options in owners.items() for option, default in options.items()}
    if name not in known:
        raise ValueError(f"{base.method.name} on {base.model.name} has no option {unknown(name, known)}")
    return known[name]


def check(experiment: Experiment) -> None:
    """Refuse values that the method does not take, before a process is started for them."""
    data.factory(experiment.dataset.name)
    methods.build(experiment.method.name, SMALL_TASK, **dict(experiment.method.options))


def short(value: Value) -> str:
    """A value without needless digits."""
    return f"{value:g}" if isinstance(value, float) else str(value)
