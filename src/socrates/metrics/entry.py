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
from typing import Any, overload

from .arrays import ArrayLike, open_scores
from .groups import by_group
from .inputs import ROWS_NEEDED, TopLike, counted, open_samples, open_top, refuse_two_entries
from .labels import Classes, LabelsLike
from .samples import Array, Samples, Top, weighted_mean
from .signatures import (
    BinnedCurve,
    BinnedMetric,
    ClassMetric,
    MeanMetric,
    RankCurve,
    RankMetric,
    RiskMetric,
    TopMetric,
    Value,
)

_SHARED = {"sample_weight": "ArrayLike | None", "classes": "Classes | None"}
_ENTRY = {"confidence": "ArrayLike | None", "correct": "ArrayLike | None", **_SHARED}


@dataclass(frozen=True)
class Door:
    """How a metric opens what it is given, and reads it.

    Args:
        read: the metric of checked samples.
        opener: `opener(probs, labels, **entry)` gives these samples.
        takes: the keywords that it takes, with their types.
        last: the one of them that may also be the last positional argument.
        of_each: whether `read` gives one value a sample, of which the metric is the mean.
        number: whether the metric is a number, which can stand in a table of groups.
    """

    read: Callable[..., Any]
    opener: Callable[..., Any]
    takes: dict[str, str]
    last: str | None = None
    of_each: bool = False
    number: bool = True

    @property
    def of_top(self) -> bool:
        """Whether confidence and correctness are all that is read."""
        return "correct" in self.takes

    def open(self, probs: Any, labels: Any, **entry: Any) -> Any:
        """The samples, checked."""
        if not self.of_top and {"confidence", "correct"} & entry.keys():
            raise ValueError(ROWS_NEEDED)
        return self.opener(probs, labels, **entry)

    def at(self, opened: Any, *args: Any, **options: Any) -> Callable[[Any], Any]:
        """The metric as a function of the positions of some samples; None stands for all of them."""
        if not self.of_each:
            return lambda index: self.read(opened if index is None else opened.take(index), *args, **options)
        values, weight = self.read(opened, *args, **options), opened.weight

        def mean_at(index: Any) -> float:
            index = slice(None) if index is None else index
            return weighted_mean(values[index], None if weight is None else weight[index])

        return mean_at


@overload
def top_metric(read: Callable[[Top, int], float]) -> BinnedMetric: ...
@overload
def top_metric(read: Callable[[Top], float]) -> TopMetric: ...
def top_metric(read: Callable[..., Any]) -> Any:
    """The public metric of one that reads confidence and correctness."""
    return _public(Door(read, open_top, _ENTRY))


def top_curve(read: Callable[[Top, int], Value]) -> BinnedCurve[Value]:
    """The same for what is more than a number."""
    return _public(Door(read, open_top, _ENTRY, number=False))


@overload
def rank_metric(read: Callable[[Top, float], float]) -> RiskMetric: ...
@overload
def rank_metric(read: Callable[[Top], float]) -> RankMetric: ...
def rank_metric(read: Callable[..., Any]) -> Any:
    """The public metric of one that reads correctness in the order of any scores."""
    return _public(Door(read, open_ranked, _ENTRY, last="confidence"))


def rank_curve(read: Callable[[Top], Value]) -> RankCurve[Value]:
    """The same for what is more than a number."""
    return _public(Door(read, open_ranked, _ENTRY, last="confidence", number=False))


def mean_metric(read: Callable[[Samples], Array]) -> MeanMetric:
    """The public metric that is the mean of one value a row."""
    return _public(Door(read, open_samples, _SHARED, of_each=True))


def class_metric(read: Callable[[Samples, int], float]) -> ClassMetric:
    """The public metric of one that reads all classes of the rows."""
    return _public(Door(read, open_samples, {"num_classes": "int | None", **_SHARED}, last="num_classes"))


def open_ranked(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    *,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> Top:
    """Correctness, and the scores to rank by in the place of confidence: any finite numbers will do."""
    if confidence is None:
        return open_top(probs, labels, correct=correct, sample_weight=sample_weight, classes=classes)
    scores = open_scores(confidence, "confidence", sample_weight)
    if correct is not None:
        refuse_two_entries(probs, labels)
        return Top.ranked(scores, correct, sample_weight)
    top = open_top(probs, labels, sample_weight=sample_weight, classes=classes)
    scores = counted(scores, sample_weight)
    if len(scores) != len(top):
        raise ValueError(f"{len(scores)} confidences for {len(top)} rows of probs: expected one a row")
    return Top(scores, top.correct, top.weight)


def _public(door: Door) -> Any:
    """The metric with all that it takes: what its door takes, its own options, and groups."""
    own = list(signature(door.read).parameters.values())[1:]
    name, keys = door.read.__name__, {*door.takes, "confidence", "correct"}

    @wraps(door.read)
    def metric(probs: Any = None, labels: Any = None, *args: Any, groups: Any = None, **given: Any) -> Any:
        if door.last and len(args) == len(own) + 1 and door.last not in given:
            args, given[door.last] = args[:-1], args[-1]
        entry = {key: given.pop(key) for key in keys if key in given} if given else {}
        opened = door.open(probs, labels, **entry)
        value_at = door.at(opened, *args, **given)
        if groups is None:
            return value_at(None)
        if not door.number:
            raise TypeError(f"{name}() takes no groups, for it is no number: call it with the samples of one group")
        return by_group(name, groups, len(opened), entry.get("sample_weight"), value_at)

    metric.__dict__["door"] = door
    metric.__dict__["__signature__"] = _signature(door, own)
    return metric


def _signature(door: Door, own: list[Parameter]) -> Signature:
    """What the public metric takes, for `help`."""
    top = door.of_top
    types = {"probs": "TopLike | None" if top else "ProbsLike", "labels": "LabelsLike | None" if top else "LabelsLike"}
    default = None if top and all(option.default is not Parameter.empty for option in own) else Parameter.empty
    place = Parameter.POSITIONAL_OR_KEYWORD
    first = [Parameter(name, place, default=default, annotation=each) for name, each in types.items()]
    last = [Parameter(door.last, place, default=None, annotation=door.takes[door.last])] if door.last else []
    rest = {name: each for name, each in door.takes.items() if name != door.last}
    rest |= {"groups": "ArrayLike | None"} if door.number else {}
    keywords = [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=each) for name, each in rest.items()]
    returns = "float | GroupTable" if door.number else signature(door.read).return_annotation
    return Signature([*first, *own, *last, *keywords], return_annotation=returns)
