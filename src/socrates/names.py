"""From a name, or a plug-in from outside, to what it stands for, with its options and helpful errors."""

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
    """The choice of that name, or the attribute of an importable module or of a Python file.

    >>> find("method", "collections:Counter", {})
    <class 'collections.Counter'>
    >>> find("method", "sumo", {"sum": sum})
    Traceback (most recent call last):
    ValueError: there is no method 'sumo', did you mean 'sum'? Choose from sum, or give module:attribute or
    file.py:attribute
    """
    if name in choices:
        return choices[name]
    if not is_outside(name, choices):
        raise ValueError(f"there is no {kind} {unknown(name, choices)}, or give module:attribute or file.py:attribute")
    place, _, attribute = name.rpartition(":")
    try:
        module = _from_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        found = getattr(module, attribute)
    except Exception as error:  # whatever the code of the plug-in raises
        raise ValueError(
            f"{kind} '{name}' cannot be imported ({type(error).__name__}: {error}): it must be an attribute of a "
            f"module that Python finds, see PYTHONPATH, or of a file that is there"
        ) from error
    if not callable(found):
        raise ValueError(f"{kind} '{name}' must be a class or function, got {type(found).__name__}")
    return found


def is_outside(name: str, choices: Collection[str]) -> bool:
    """Whether a name is a `module:attribute`, and not meant as one of the choices.

    >>> is_outside("mine:net", ["mlp", "socrates:no-beta"]), is_outside("socrates:no-betta", ["socrates:no-beta"])
    (True, False)
    """
    first = name.partition(":")[0]
    return ":" in name and name not in choices and not any(choice.startswith(f"{first}:") for choice in choices)


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


def _from_file(path: Path) -> ModuleType:
    """A Python file as a module, read once in a process: what it defines stays the same class."""
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


def called(kind: str, name: str, make: Make, *given: Any, options: Mapping[str, Any], **sizes: Any) -> Any:
    """What `make` gives for what its kind is given, and its options; what it does not take is said in one line.

    >>> called("model", "mine:net", lambda width: None, options={}, num_outputs=10)
    Traceback (most recent call last):
    ValueError: model 'mine:net' cannot be called as (width): missing a required argument: 'width'
    >>> called("method", "focal", lambda task, gamma=2.0: None, "a task", options={"gama": 1.0})
    Traceback (most recent call last):
    ValueError: method 'focal' has no option 'gama', it takes gamma=2.0
    """
    signature = inspect.signature(make)
    takes = [each for each in list(signature.parameters.values())[len(given) :] if each.name not in sizes]
    wrong = sorted(set(options) - {each.name for each in takes})
    if wrong and not any(each.kind is each.VAR_KEYWORD for each in takes):
        words = [each.name if each.default is each.empty else f"{each.name}={each.default!r}" for each in takes]
        wrong_words, taken = ", ".join(map(repr, wrong)), ", ".join(words) or "none"
        raise ValueError(f"{kind} {name!r} has no option {wrong_words}, it takes {taken}")
    try:
        signature.bind(*given, **sizes, **options)
    except TypeError as error:
        raise ValueError(f"{kind} {name!r} cannot be called as {signature}: {error}") from error
    return make(*given, **sizes, **options)


def options_of(make: Make, not_options: Collection[str]) -> dict[str, Any]:
    """The options of a class or function with their defaults; `not_options` are its other parameters.

    >>> options_of(lambda task, gamma=2.0: None, not_options={"task"})
    {'gamma': 2.0}
    """
    parameters = inspect.signature(make).parameters.values()
    named = [p for p in parameters if p.name not in not_options and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    return {p.name: None if p.default is p.empty else p.default for p in named}


def option_help(make: Make) -> dict[str, str]:
    """What each option means: the lines `name: meaning` that are indented below "Options:" in a docstring.

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
    """The first sentence of a docstring.

    >>> first_line(options_of)[:37]
    'The options of a class or function wi'
    """
    return (inspect.getdoc(make) or "").split("\n")[0]
