"""The candidates of a study: an experiment with some of its options varied."""

from __future__ import annotations

import dataclasses
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
    """The experiment with these options: each goes to the method if it knows it, else to the model or optimization."""
    owners = {name: owner_of(base, name) for name in options}
    changes: dict[str, dict[str, Any]] = {"method": {}, "model": {}, "optimization": {}}
    for name, value in options.items():
        changes[owners[name]][name] = value
    optimization = replace(base.optimization, **changes["optimization"])
    only_last = base.keep_every >= base.optimization.epochs
    experiment = resolve(
        replace(
            base,
            method=_with(base.method, changes["method"]),
            model=_with(base.model, changes["model"]),
            optimization=optimization,
            keep_every=optimization.epochs if only_last else base.keep_every,
        )
    )
    check(experiment)
    return Candidate(tuple(options.items()), experiment)


def options_of(base: Experiment) -> dict[str, dict[str, Any]]:
    """What can be varied, with the defaults: options of the method, of the model, of the optimization."""
    optimization = dataclasses.asdict(Optimization())
    return {
        "method": methods.options(base.method.name),
        "model": models.options(base.model.name),
        "optimization": {name: optimization[name] for name in OF_OPTIMIZATION},
    }


def owner_of(base: Experiment, name: str) -> str:
    """Whether an option is the method's, the model's or the optimization's.

    >>> owner_of(Experiment(Part("digits"), Part("mlp"), Part("focal")), "gama")
    Traceback (most recent call last):
    ValueError: focal on mlp has no option 'gama', did you mean 'gamma'? Choose from gamma, width, depth, batch_size,
    learning_rate, epochs
    """
    known = {option: owner for owner, options in options_of(base).items() for option in options}
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


def _with(part: Part, options: Mapping[str, Value]) -> Part:
    return Part(part.name, **{**dict(part.options), **options})
