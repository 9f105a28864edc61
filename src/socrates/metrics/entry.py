"""From `def ece(top, num_bins=15)` to the public `ece`: what every metric takes is said, opened and shared out once.

A metric is written as a function of checked samples. The decorators below give it what all metrics take: the entries
(`probs` and `labels`, or `confidence` and `correct`), `sample_weight`, `classes` and `groups`. What they know of it
stays at `metric.door`, by which `bootstrap` and `floor` open the samples once and read them many times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, Protocol, overload

from .groups import Groups, GroupTable, by_group
from .inputs import Entry, LabelsLike, Ranked, Shared, TopLike, Unpack, keywords_of, open_ranked, open_samples, open_top
from .samples import weighted_mean


class Options(Entry, total=False):
    """All keywords of the metrics; each takes those of its signature."""

    num_bins: int
    num_classes: int | None
    max_risk: float


# fmt: off
class Metric(Protocol):
    """How a public metric is called, for type checkers: it gives a number, and with `groups` a table."""

    __name__: str

    @overload
    def __call__(self, probs: TopLike | None = None, labels: LabelsLike | None = None, *options: Any,
                 groups: None = None, **entry: Unpack[Options]) -> float: ...
    @overload
    def __call__(self, probs: TopLike | None = None, labels: LabelsLike | None = None, *options: Any,
                 groups: Groups, **entry: Unpack[Options]) -> GroupTable: ...
# fmt: on


@dataclass(frozen=True)
class Door:
    """How a metric opens what it is given, and reads it.

    Args:
        read: the metric of checked samples.
        open: `open(probs, labels, **entry)` gives these samples.
        entry: the keywords that it takes.
        last: one of them, or one more, that may also be the last positional argument.
        of_each: whether `read` gives one value a sample, of which the metric is the mean.
    """

    read: Callable[..., Any]
    open: Callable[..., Any]
    entry: type
    last: str | None
    of_each: bool

    @property
    def takes(self) -> set[str]:
        """The names of what it opens, which are not options of the metric itself."""
        return {*self.entry.__annotations__, *([self.last] if self.last else [])}

    def at(self, opened: Any, *args: Any, **options: Any) -> Callable[[Any], Any]:
        """The metric as a function of the positions of some samples; None stands for all of them."""
        if not self.of_each:
            return lambda index: self.read(opened if index is None else opened.take(index), *args, **options)
        values, weight = self.read(opened, *args, **options), opened.weight

        def mean_at(index: Any) -> float:
            index = slice(None) if index is None else index
            return weighted_mean(values[index], None if weight is None else weight[index])

        return mean_at


def _metric_of(
    open: Callable[..., Any], entry: type, last: str | None = None, of_each: bool = False
) -> Callable[[Callable[..., Any]], Metric]:
    """The decorator that makes a metric public: it takes what its door takes, its own options, and groups."""

    def public(read: Callable[..., Any]) -> Any:
        door, own = Door(read, open, entry, last, of_each), list(signature(read).parameters.values())[1:]
        name, keys = read.__name__, {*door.takes, "confidence", "correct"}
        most = len(own) + (last is not None)

        @wraps(read)
        def metric(probs: Any = None, labels: Any = None, *args: Any, groups: Any = None, **given: Any) -> Any:
            if len(args) > most:
                todo = "pass the others by keyword"
                raise TypeError(f"{name}() takes at most {2 + most} positional arguments, got {2 + len(args)}: {todo}")
            if last and len(args) == most and last not in given:
                args, given[last] = args[:-1], args[-1]
            entry = {key: given.pop(key) for key in keys if key in given} if given else {}
            opened = door.open(probs, labels, **entry)
            value_at = door.at(opened, *args, **given)
            if groups is None:
                return value_at(None)
            return by_group(name, groups, len(opened), entry.get("sample_weight"), value_at)

        metric.__dict__["door"] = door
        metric.__dict__["__signature__"] = _signature(door, own)
        return metric

    return public


# Of confidence and correctness; of correctness in the order of any scores; the mean of one value a row; of all classes.
top_metric = _metric_of(open_top, Entry)
rank_metric = _metric_of(open_ranked, Ranked, last="confidence")
mean_metric = _metric_of(open_samples, Shared, of_each=True)
class_metric = _metric_of(open_samples, Shared, last="num_classes")


def _signature(door: Door, own: list[Parameter]) -> Signature:
    """What the public metric takes, for `help`."""
    none = " | None" if "correct" in door.takes else ""
    default = None if none and all(option.default is not Parameter.empty for option in own) else Parameter.empty
    place, keyword = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
    types = {"probs": f"TopLike{none}" if none else "ProbsLike", "labels": f"LabelsLike{none}"}
    first = [Parameter(name, place, default=default, annotation=kind) for name, kind in types.items()]
    kind = "int | None" if door.last == "num_classes" else "ArrayLike | None"
    last = [Parameter(door.last, place, default=None, annotation=kind)] if door.last else []
    groups = Parameter("groups", keyword, default=None, annotation="ArrayLike | None")
    parameters = [*first, *own, *last, *keywords_of(door.entry), groups]
    return Signature(parameters, return_annotation="float | GroupTable")
