"""Equal experiments in one spelling, so that they share a directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from socrates import methods, models
from socrates.experiment import Experiment, Part, Value


def normalized(experiment: Experiment) -> Experiment:
    """The same experiment with numbers in the types of their options' defaults; it equals the one given.

    >>> normalized(Experiment(Part("digits"), Part("mlp", width=16.0), Part("focal", gamma=1)))
    Experiment(dataset=Part('digits'), model=Part('mlp', width=16), method=Part('focal', gamma=1.0), ...)
    """
    return replace(
        experiment,
        model=_typed(experiment.model, _defaults(models, experiment.model.name)),
        method=_typed(experiment.method, _defaults(methods, experiment.method.name)),
    )


def _defaults(package: Any, name: str) -> Mapping[str, Value]:
    try:
        return package.options(name)
    except ValueError:  # unknown: building it says so, in better words
        return {}


def _typed(part: Part, defaults: Mapping[str, Value]) -> Part:
    return Part(part.name, **{name: _like(defaults.get(name), value) for name, value in part.options})


def _like(default: Value, value: Value) -> Value:
    if type(default) is float and type(value) is int:
        return float(value)
    if type(default) is int and type(value) is float and value.is_integer():
        return int(value)
    return value
