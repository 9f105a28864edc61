"""From words, or a Python file, to a list of experiments: seeds, methods with options, products."""

from __future__ import annotations

import itertools
import re
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from socrates.experiment import Experiment, Part, resolve

from .shared import optimization_of, typed


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


def split_options(text: str) -> tuple[str, dict[str, str]]:
    """NAME:OPTION=VALUE,... in two; what follows the last colon is options only if it has an equals sign.

    >>> split_options("focal:gamma=2"), split_options("socrates:no-beta")
    (('focal', {'gamma': '2'}), ('socrates:no-beta', {}))
    >>> split_options("socrates:no-beta:gamma=2,alpha=0.9")
    ('socrates:no-beta', {'gamma': '2', 'alpha': '0.9'})
    """
    name, colon, tail = text.rpartition(":")
    if not colon or "=" not in tail:
        return text, {}
    pairs = [word.partition("=") for word in tail.split(",")]
    if not name or not all(key and value for key, _, value in pairs):
        raise ValueError(f"{text!r} is not NAME:OPTION=VALUE,OPTION=VALUE, such as socrates:gamma=1,alpha=0.99")
    return name, {key.replace("-", "_"): value for key, _, value in pairs}


def part_of(kind: str, text: str) -> Part:
    """A model or method with its options in their own types.

    >>> part_of("method", "socrates:gamma=1")
    Part('socrates', gamma=1.0)
    >>> part_of("model", "mlp:wide=3")
    Traceback (most recent call last):
    ValueError: model 'mlp' has no option 'wide', it takes width=128, depth=2
    """
    from socrates import methods, models

    name, given = split_options(text)
    known = {"method": methods, "model": models}[kind].options(name)
    unknown = sorted(set(given) - set(known))
    if unknown:
        takes = ", ".join(f"{option}={default!r}" for option, default in known.items()) or "none"
        raise ValueError(f"{kind} {name!r} has no option {', '.join(map(repr, unknown))}, it takes {takes}")
    return Part(name, **{option: typed(value, known[option], option) for option, value in given.items()})


def product(options: Any) -> list[Experiment]:
    """Every data set with every model, method and seed that the options name."""
    if not options.methods:
        raise ValueError("nothing to train: give a FILE.py, or --methods such as --methods ce focal:gamma=2")
    model_parts = [part_of("model", text) for text in options.models]
    method_parts = [part_of("method", text) for text in options.methods]
    seeds = parse_seeds(options.seeds)
    return [
        _experiment(options, dataset, model, method, seed)
        for dataset, model, method, seed in itertools.product(options.datasets, model_parts, method_parts, seeds)
    ]


def _experiment(options: Any, dataset: str, model: Part, method: Part, seed: int) -> Experiment:
    from socrates.engine.studies.candidates import check

    names = {"dataset": dataset, "model": model.name, "method": method.name}
    experiment = resolve(
        Experiment(
            Part(dataset),
            model,
            method,
            seed,
            num_train=options.num_train,
            num_bins=options.num_bins,
            keep_every=options.keep_every,
            precision=options.precision,
            optimization=optimization_of(SimpleNamespace(**{**vars(options), **names})),
        )
    )
    check(experiment)
    return experiment


def read_file(path: Path) -> list[Experiment]:
    """The `experiments` of a Python file: a list of them, or a function that returns one."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there: give a Python file that defines `experiments`")
    sys.path.insert(0, str(path.resolve().parent))  # as `python FILE.py` does; the processes that train get it too
    try:
        found = runpy.run_path(str(path)).get("experiments")
        if callable(found):
            found = found()
    except Exception as error:
        raise ValueError(f"{path} could not be run: {type(error).__name__}: {error}") from error
    if found is None:
        raise ValueError(f"{path} defines no `experiments`: it must be a list of socrates.experiment.Experiment")
    if not isinstance(found, list | tuple) or not found:
        raise ValueError(f"`experiments` of {path} must be a list of at least one Experiment, got {found!r}")
    items = cast("list[Any]", list(found))
    for number, item in enumerate(items):
        if not isinstance(item, Experiment):
            raise ValueError(f"`experiments` of {path} holds {type(item).__name__} at {number}: expected an Experiment")
    return [resolve(item) for item in items]
