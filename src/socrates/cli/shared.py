"""What the commands share: the console, and the way from words to an Experiment and back."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from socrates.experiment import Experiment, Optimization, Part, resolve, usual_optimization

console = Console()
errors = Console(stderr=True)

# Positional words of the command line, by the names that the help shows.
Dataset = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATASET")]
Model = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
MethodName = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="METHOD")]
RunFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
DATA_OPTIONS: dict[str, Any] = {"image_size": None, "augment": True}


def named_values(words: Sequence[str], allowed: bool) -> dict[str, str]:
    """`--gamma 2 --alpha=0.9` as a dict; anything else that was left over is an error."""
    values: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or not allowed:
            raise ValueError(f"{word!r} was not expected here: see socrates COMMAND --help")
        name, _, value = word[2:].partition("=")
        if not value:
            if not rest:
                raise ValueError(f"{word} needs a value, such as {word} 2")
            value = rest.pop(0)
        values[name.replace("-", "_")] = value
    return values


def experiment_of(options: Any, extra: dict[str, str]) -> Experiment:
    """The Experiment that a command line asks for; each extra option goes to the first part that knows it."""
    from socrates import methods, models

    takes = {
        "method": methods.options(options.method),
        "model": models.options(options.model),
        "dataset": DATA_OPTIONS,
    }
    given: dict[str, dict[str, Any]] = {owner: {} for owner in takes}
    for name, text in extra.items():
        owner = next((owner for owner, known in takes.items() if name in known), None)
        if owner is None:
            lines = [
                f"{getattr(options, owner)} takes {', '.join(known) or 'no options'}" for owner, known in takes.items()
            ]
            raise ValueError(f"--{name.replace('_', '-')} is unknown: {'; '.join(lines)}")
        given[owner][name] = typed(text, takes[owner][name], name)
    return resolve(
        Experiment(
            **{owner: Part(getattr(options, owner), **given[owner]) for owner in takes},
            seed=options.seed,
            num_train=options.num_train,
            num_bins=options.num_bins,
            keep_every=options.keep_every,
            precision=options.precision,
            optimization=optimization_of(options),
        )
    )


def optimization_of(options: Any) -> Optimization:
    """The usual settings for what is trained, with the changes that the command line asks for."""
    usual = usual_optimization(options.dataset, options.model, options.method)
    given = {item.name: getattr(options, flag(item.name), None) for item in dataclasses.fields(Optimization)}
    return dataclasses.replace(usual, **{name: value for name, value in given.items() if value is not None})


def flag(name: str) -> str:
    """The option of the command line for a field of the optimization: methods have a momentum of their own."""
    return "sgd_momentum" if name == "momentum" else name


def typed(text: str, default: Any, name: str) -> Any:
    """A word of the command line in the type of the option's default; without one, a number if it is a number."""
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise ValueError(f"--{name} must be true or false, got {text!r}")
        return text.lower() == "true"
    default = default if type(default) in (int, float, str) else None  # of a share of the epochs, any number
    for kind in (int, float):
        if default is None or isinstance(default, kind):
            try:
                return kind(text)
            except ValueError:
                if default is not None:
                    raise ValueError(f"--{name} must be a number like {default}, got {text!r}") from None
    return text


def command_of(experiment: Experiment) -> str:
    """The command line that trains this experiment.

    >>> print(command_of(Experiment(Part("digits"), Part("mlp"), Part("focal", gamma=2.0), seed=3)))
    socrates train digits mlp focal --gamma 2.0 --seed 3 --epochs 300 --batch-size 128 --weight-decay 0.0005
    --halve-every 25 --num-bins 15 --keep-every 25 --precision 32-true
    """
    parts = (experiment.dataset, experiment.model, experiment.method)
    words: list[tuple[str, Any]] = [
        item for kind in ("method", "model", "dataset") for item in experiment.changed(kind).items()
    ]
    words += [("seed", experiment.seed), ("epochs", experiment.optimization.epochs)]
    usual = usual_optimization(*(part.name for part in parts))
    for name, value in dataclasses.asdict(experiment.optimization).items():
        if name != "epochs" and value != getattr(usual, name):
            words.append((flag(name), value))
    words += [("num_train", experiment.num_train)] if experiment.num_train is not None else []
    words += [(name, getattr(experiment, name)) for name in ("num_bins", "keep_every", "precision")]
    command = ["socrates", "train", *(part.name for part in parts)]
    for name, value in words:
        command += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, tuple) else (value,))]
    return shlex.join(command)
