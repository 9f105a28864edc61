"""The candidates of a study: an experiment with some of its options varied."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from socrates import data, methods, models
from socrates.contracts import Task
from socrates.experiment import Experiment, Optimization, Part, Value, resolve, with_batch_size
from socrates.names import unknown

Grid = Mapping[str, tuple[Value, ...]]

OF_OPTIMIZATION = ("batch_size", "learning_rate", "epochs")
SMALL_TASK = Task(num_samples=16, num_classes=3)


@dataclass(frozen=True)
class Candidate:
    """The varied options in the order of the grid, and the experiment with them, of any seed.

    >>> base = Experiment(Part("digits"), Part("mlp"), Part("focal"))
    >>> candidate = grid_candidates(base, {"gamma": (1.0,)})[0]
    >>> candidate.label, [run.seed for run in candidate.runs((4, 5))]
    ('gamma=1', [4, 5])
    """

    options: tuple[tuple[str, Value], ...]
    experiment: Experiment

    @property
    def label(self) -> str:
        """Return the options as tables and sentences show them."""
        return " ".join(f"{name}={value_text(value)}" for name, value in self.options)

    def runs(self, seeds: Sequence[int]) -> list[Experiment]:
        """Return the experiment with each seed."""
        return [replace(self.experiment, seed=seed) for seed in seeds]


def grid_candidates(base: Experiment, grid: Grid) -> list[Candidate]:
    """Return every combination of the values.

    >>> base = Experiment(Part("digits"), Part("mlp"), Part("socrates"))
    >>> grid = {"gamma": (1.0, 2.0), "batch_size": (64, 128)}
    >>> [candidate.label for candidate in grid_candidates(base, grid)]
    ['gamma=1 batch_size=64', 'gamma=1 batch_size=128',
     'gamma=2 batch_size=64', 'gamma=2 batch_size=128']
    """
    points = itertools.product(*grid.values())
    return [candidate_of(base, dict(zip(grid, point, strict=True))) for point in points]


def candidate_of(base: Experiment, options: Mapping[str, Value]) -> Candidate:
    """Return the experiment with these options, each where it belongs."""
    changes: dict[str, dict[str, Any]] = {"method": {}, "model": {}, "optimization": {}}
    for name, value in options.items():
        owner, _ = option_of(base, name)
        changes[owner][name] = value
    batch_size = changes["optimization"].pop("batch_size", base.optimization.batch_size)
    optimization = with_batch_size(base.optimization, batch_size)
    optimization = replace(optimization, **changes["optimization"])
    keeps_last_only = base.keep_every >= base.optimization.epochs
    experiment = replace(
        base,
        method=Part(base.method.name, **{**dict(base.method.options), **changes["method"]}),
        model=Part(base.model.name, **{**dict(base.model.options), **changes["model"]}),
        optimization=optimization,
        keep_every=optimization.epochs if keeps_last_only else base.keep_every,
    )
    experiment = resolve(experiment)
    check_parts(experiment)
    return Candidate(tuple(options.items()), experiment)


def option_of(base: Experiment, name: str) -> tuple[str, Any]:
    """Return the owner of an option (method, model or optimization), and its default.

    >>> base = Experiment(Part("digits"), Part("mlp"), Part("focal"))
    >>> option_of(base, "gamma"), option_of(base, "batch_size")
    (('method', 2.0), ('optimization', 128))
    >>> option_of(base, "gama")
    Traceback (most recent call last):
    ValueError: focal on mlp has no option 'gama', did you mean 'gamma'? Choose from gamma, width,
    depth, batch_size, learning_rate, epochs
    """
    options_by_owner = {
        "method": methods.options(base.method.name),
        "model": models.options(base.model.name),
        "optimization": {option: getattr(Optimization, option) for option in OF_OPTIMIZATION},
    }
    known: dict[str, tuple[str, Any]] = {}
    for owner, options in options_by_owner.items():
        known |= {option: (owner, default) for option, default in options.items()}
    if name not in known:
        raise ValueError(
            f"{base.method.name} on {base.model.name} has no option {unknown(name, known)}"
        )
    return known[name]


def check_parts(experiment: Experiment) -> None:
    """Refuse unknown data and values that the method does not take, before a process starts."""
    data.factory(experiment.dataset.name)
    methods.build(experiment.method.name, SMALL_TASK, **dict(experiment.method.options))


def value_text(value: Value) -> str:
    """Return a value as text, without needless digits.

    >>> value_text(2.0), value_text("half")
    ('2', 'half')
    """
    return f"{value:g}" if isinstance(value, float) else str(value)
