"""Look up what a name or a plug-in stands for, with its options and helpful errors.

Registries of methods, models and data sets use it; it imports nothing of ours.
"""

import difflib
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

Make = Callable[..., Any]  # a class or function


def find(kind: str, name: str, choices: Mapping[str, Make]) -> Make:
    """Return the choice of that name, or an attribute of an importable module or Python file.

    >>> find("method", "collections:Counter", {})
    <class 'collections.Counter'>
    >>> find("method", "sumo", {"sum": sum})
    Traceback (most recent call last):
    ValueError: there is no method 'sumo', did you mean 'sum'? Choose from sum, or pass
    module:attribute or file.py:attribute
    """
    if name in choices:
        return choices[name]
    if not is_outside(name, choices):
        raise ValueError(
            f"there is no {kind} {unknown(name, choices)}, or pass module:attribute or "
            "file.py:attribute"
        )
    place, _, attribute = name.rpartition(":")
    try:
        module = (
            _from_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        )
        plug_in = getattr(module, attribute)
    except Exception as error:  # whatever the code of the plug-in raises
        raise ValueError(
            f"{kind} '{name}' cannot be imported ({type(error).__name__}: {error}): it must be "
            "an attribute of a module that Python finds, see PYTHONPATH, or of an existing file"
        ) from error
    if not callable(plug_in):
        raise ValueError(
            f"{kind} '{name}' must be a class or function, got {type(plug_in).__name__}"
        )
    return plug_in


def is_outside(name: str, choices: Collection[str]) -> bool:
    """Return whether a name is a `module:attribute`, not a misspelled choice.

    >>> choices = ["mlp", "socrates:no-beta"]
    >>> is_outside("mine:net", choices), is_outside("socrates:no-betta", choices)
    (True, False)
    """
    first = name.partition(":")[0]
    return (
        ":" in name
        and name not in choices
        and not any(choice.startswith(f"{first}:") for choice in choices)
    )


def unknown(name: str, choices: Collection[str]) -> str:
    """Return the end of an error about an unknown name: the nearest choice, and all of them.

    >>> print(unknown("sumo", ["max", "sum"]))
    'sumo', did you mean 'sum'? Choose from max, sum
    >>> print(unknown("zero", ["max", "sum"]))
    'zero': choose from max, sum
    """
    near = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    hint = f", did you mean {near[0]!r}? Choose" if near else ": choose"
    return f"{name!r}{hint} from {', '.join(choices)}"


def _from_file(path: Path) -> ModuleType:
    """Return a Python file as a module, read once per process: its classes stay the same."""
    path = path.expanduser().resolve()
    name = f"plug-in {path}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None  # the suffix is .py
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(sys.modules[name])
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def called(
    kind: str, name: str, make: Make, *args: Any, options: Mapping[str, Any], **sizes: Any
) -> Any:
    """Call `make` with what its kind is called with and its options, or say what does not fit.

    >>> called("model", "mine:net", lambda width: None, options={}, num_outputs=10)
    Traceback (most recent call last):
    ValueError: model 'mine:net' cannot be called as (width): missing a required argument: 'width'
    >>> called("method", "focal", lambda task, gamma=2.0: None, "a task", options={"gama": 1.0})
    Traceback (most recent call last):
    ValueError: method 'focal' has no option 'gama', it takes gamma=2.0
    """
    signature = inspect.signature(make)
    parameters = list(signature.parameters.values())[len(args) :]
    parameters = [parameter for parameter in parameters if parameter.name not in sizes]
    unknown_options = sorted(set(options) - {parameter.name for parameter in parameters})
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    if unknown_options and not takes_any:
        names = ", ".join(map(repr, unknown_options))
        known = ", ".join(map(_with_default, parameters)) or "none"
        raise ValueError(f"{kind} {name!r} has no option {names}, it takes {known}")
    try:
        signature.bind(*args, **sizes, **options)
    except TypeError as error:
        raise ValueError(f"{kind} {name!r} cannot be called as {signature}: {error}") from error
    return make(*args, **sizes, **options)


def _with_default(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return parameter.name
    return f"{parameter.name}={parameter.default!r}"


def options_of(make: Make, not_options: Collection[str]) -> dict[str, Any]:
    """Return the options of a class or function with their defaults.

    `not_options` are its other parameters.

    >>> options_of(lambda task, gamma=2.0: None, not_options={"task"})
    {'gamma': 2.0}
    """
    parameters = inspect.signature(make).parameters.values()
    options: dict[str, Any] = {}
    for parameter in parameters:
        is_variadic = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        if parameter.name not in not_options and not is_variadic:
            has_default = parameter.default is not parameter.empty
            options[parameter.name] = parameter.default if has_default else None
    return options


def option_help(make: Make) -> dict[str, str]:
    """Return what each option means: the lines `name: meaning` below "Options:" in a docstring.

    >>> def focal(task, *, gamma=2.0):
    ...     '''Focal loss.
    ...
    ...     Options:
    ...         gamma: how much less easy samples count,
    ...             0 is cross-entropy
    ...     '''
    >>> option_help(focal)
    {'gamma': 'how much less easy samples count, 0 is cross-entropy'}
    """
    sections = re.findall(r"^Options:((?:\n {4}.*)+)", inspect.getdoc(make) or "", re.MULTILINE)
    meanings = re.findall(r"\n {4}(\w+): (.*(?:\n {5,}.*)*)", "".join(sections))
    return {name: re.sub(r"\n +", " ", meaning) for name, meaning in meanings}


def first_line(make: Make) -> str:
    """Return the first line of a docstring.

    >>> first_line(options_of)[:37]
    'Return the options of a class or func'
    """
    return (inspect.getdoc(make) or "").split("\n")[0]
