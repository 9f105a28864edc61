"""From a name, or `module:attribute` from outside, to what it stands for, with its options and helpful errors."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any


def find(kind: str, name: str, choices: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    """The choice of that name, or the attribute of an importable module.

    >>> find("method", "collections:Counter", {})
    <class 'collections.Counter'>
    >>> find("method", "sumo", {"sum": sum})
    Traceback (most recent call last):
    ValueError: there is no method 'sumo', did you mean 'sum'? Choose from sum, or give module:attribute
    """
    if name in choices:
        return choices[name]
    if is_outside(name, choices):
        return _from_outside(kind, *name.split(":", 1))
    raise ValueError(f"there is no {kind} {unknown(name, choices)}, or give module:attribute")


def is_outside(name: str, choices: Collection[str]) -> bool:
    """Whether a name is a `module:attribute`, and not meant as one of the choices.

    >>> is_outside("mine:net", ["mlp", "socrates:no-beta"]), is_outside("socrates:no-betta", ["socrates:no-beta"])
    (True, False)
    """
    module, _, attribute = name.partition(":")
    return bool(attribute) and name not in choices and not any(choice.startswith(f"{module}:") for choice in choices)


def unknown(name: str, choices: Collection[str]) -> str:
    """The end of an error about a name that is none of the choices: the nearest one, and all of them.

    >>> print(unknown("sumo", ["max", "sum"]))
    'sumo', did you mean 'sum'? Choose from max, sum
    >>> print(unknown("zero", ["max", "sum"]))
    'zero': choose from max, sum
    """
    near = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    hint = f", did you mean {near[0]!r}? Choose" if near else ": choose"
    return f"{name!r}{hint} from {', '.join(choices)}"


def _from_outside(kind: str, module: str, attribute: str) -> Callable[..., Any]:
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"{kind} '{module}:{attribute}' cannot be imported ({error}): "
            f"it must be an attribute of a module that Python finds, see PYTHONPATH"
        ) from error
    if not callable(found):
        raise ValueError(f"{kind} '{module}:{attribute}' must be a class or function, got {type(found).__name__}")
    return found


def check_options(kind: str, name: str, make: Callable[..., Any], given: Collection[str], own: Collection[str]) -> None:
    """Refuse options that `make` does not take; `own` are the parameters that are not options.

    >>> check_options("method", "focal", lambda task, gamma=2.0: None, {"gama"}, own={"task"})
    Traceback (most recent call last):
    ValueError: method 'focal' has no option 'gama', it takes gamma=2.0
    """
    parameters = inspect.signature(make).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    options = {parameter.name: parameter for parameter in parameters if parameter.name not in own}
    unknown = sorted(set(given) - set(options))
    if unknown:
        takes = ", ".join(
            option if parameter.default is parameter.empty else f"{option}={parameter.default!r}"
            for option, parameter in options.items()
        )
        wrong = ", ".join(map(repr, unknown))
        raise ValueError(f"{kind} {name!r} has no option {wrong}, it takes {takes or 'none'}")


def options_of(make: Callable[..., Any], own: Collection[str]) -> dict[str, Any]:
    """The options of a class or function with their defaults; `own` are the parameters that are not options.

    >>> options_of(lambda task, gamma=2.0: None, own={"task"})
    {'gamma': 2.0}
    """
    parameters = inspect.signature(make).parameters.values()
    named = [p for p in parameters if p.name not in own and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    return {p.name: None if p.default is p.empty else p.default for p in named}


def first_line(make: Callable[..., Any]) -> str:
    """The first sentence of a docstring.

    >>> first_line(options_of)[:37]
    'The options of a class or function wi'
    """
    return (inspect.getdoc(make) or "").split("\n")[0]
