"""The command line that trains an experiment again."""

from __future__ import annotations

import dataclasses
import shlex
from typing import TYPE_CHECKING, Any

from .options import SETTINGS, flag, option_name

if TYPE_CHECKING:
    from socrates.experiment import Experiment


SWITCHES = ("skip_broken", "unknown_trains")  # options without a value


def command_of(experiment: Experiment) -> str:
    """Return the command line that trains this experiment, with every version of the package.

    >>> from socrates.experiment import Experiment, Part
    >>> print(command_of(Experiment(Part("digits"), Part("mlp"), Part("focal", gamma=3.0), seed=3)))
    socrates train digits mlp focal --gamma 3.0 --seed 3 --epochs 300 --batch-size 128
    --recipe paper --num-bins 15 --keep-every 25 --precision 32-true --choose last
    """
    settings = {name: getattr(experiment, name) for name in (*SETTINGS, "certify")}
    options: dict[str, Any] = {
        **_changed_part_options(experiment),
        "seed": experiment.seed,
        **_changed_optimization(experiment),
        **{name: value for name, value in settings.items() if value not in (None, 0.0)},
    }
    if experiment.unknown_trains:
        options["unknown_trains"] = True
    if experiment.start:
        options["from"] = "RUN"
    parts = (experiment.dataset.name, experiment.model.name, experiment.method.name)
    command = ["socrates", "train", *parts]
    for name, value in options.items():
        values = value if isinstance(value, tuple) else (value,)
        command += [flag(name), *([] if name in SWITCHES else map(str, values))]
    return shlex.join(command)


def _changed_part_options(experiment: Experiment) -> dict[str, Any]:
    """Return the options of the parts that differ from their defaults."""
    return {
        **experiment.changed("method"),
        **experiment.changed("model"),
        **experiment.changed("dataset"),
    }


def _changed_optimization(experiment: Experiment) -> dict[str, Any]:
    """Return the options of the optimization that differ from what is usual."""
    from socrates.experiment import usual_clip_norm, usual_optimization

    optimization = experiment.optimization
    parts = (experiment.dataset.name, experiment.model.name, experiment.method.name)
    usual = dataclasses.asdict(usual_optimization(*parts, recipe=optimization.recipe))
    usual["clip_norm"] = usual_clip_norm(optimization.recipe, optimization.batch_size)
    for name in ("epochs", "batch_size", "recipe"):
        del usual[name]  # these depend on the data, too: the command always has them
    options: dict[str, Any] = {}
    for name, value in dataclasses.asdict(optimization).items():
        if name not in usual or value != usual[name]:
            options[option_name(name)] = value
    return options
