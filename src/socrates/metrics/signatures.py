"""How the public metrics are called, for type checkers: they give a number, and with `groups` a table.

`entry` makes them so. Keywords that metrics share are said once, in the dictionaries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypedDict, TypeVar, overload

from .arrays import ArrayLike
from .groups import Groups, GroupTable
from .inputs import LabelsLike, ProbsLike, TopLike
from .labels import Classes

if TYPE_CHECKING:
    from typing_extensions import Unpack

Value = TypeVar("Value", covariant=True)
Tops = TopLike | None
Labels = LabelsLike | None
Scores = ArrayLike | None


class Shared(TypedDict, total=False):
    """What all metrics take."""

    sample_weight: ArrayLike | None
    classes: Classes | None


class Ranked(Shared, total=False):
    """What metrics take besides that have `confidence` among their positional arguments."""

    correct: ArrayLike | None


class Entry(Ranked, total=False):
    """What metrics of the top class take."""

    confidence: ArrayLike | None


class Named(Protocol):
    """All of them are functions."""

    __name__: str


# fmt: off
class TopMetric(Named, Protocol):
    """`accuracy` and `smooth_ece`."""

    @overload
    def __call__(self, probs: Tops = None, labels: Labels = None, *,
                 groups: None = None, **entry: Unpack[Entry]) -> float: ...
    @overload
    def __call__(self, probs: Tops = None, labels: Labels = None, *,
                 groups: Groups, **entry: Unpack[Entry]) -> GroupTable: ...


class BinnedMetric(Named, Protocol):
    """`ece` and its kin."""

    @overload
    def __call__(self, probs: Tops = None, labels: Labels = None, num_bins: int = 15, *,
                 groups: None = None, **entry: Unpack[Entry]) -> float: ...
    @overload
    def __call__(self, probs: Tops = None, labels: Labels = None, num_bins: int = 15, *,
                 groups: Groups, **entry: Unpack[Entry]) -> GroupTable: ...


class BinnedCurve(Named, Protocol[Value]):
    """`reliability`."""

    def __call__(self, probs: Tops = None, labels: Labels = None, num_bins: int = 15,
                 **entry: Unpack[Entry]) -> Value: ...


class RankMetric(Named, Protocol):
    """`aurc` and `augrc`."""

    @overload
    def __call__(self, probs: Tops = None, labels: Labels = None, confidence: Scores = None, *,
                 groups: None = None, **entry: Unpack[Ranked]) -> float: ...
    @overload
    def __call__(self, probs: Tops = None, labels: Labels = None, confidence: Scores = None, *,
                 groups: Groups, **entry: Unpack[Ranked]) -> GroupTable: ...


class RankCurve(Named, Protocol[Value]):
    """`risk_coverage`."""

    def __call__(self, probs: Tops = None, labels: Labels = None, confidence: Scores = None,
                 **entry: Unpack[Ranked]) -> Value: ...


class RiskMetric(Named, Protocol):
    """`coverage_at_risk`, whose `max_risk` has no default."""

    @overload
    def __call__(self, probs: Tops, labels: Labels, max_risk: float, confidence: Scores = None, *,
                 groups: None = None, **entry: Unpack[Ranked]) -> float: ...
    @overload
    def __call__(self, probs: Tops, labels: Labels, max_risk: float, confidence: Scores = None, *,
                 groups: Groups, **entry: Unpack[Ranked]) -> GroupTable: ...
    @overload
    def __call__(self, probs: Tops = None, *, max_risk: float,
                 groups: None = None, **entry: Unpack[Entry]) -> float: ...
    @overload
    def __call__(self, probs: Tops = None, *, max_risk: float,
                 groups: Groups, **entry: Unpack[Entry]) -> GroupTable: ...


class MeanMetric(Named, Protocol):
    """`nll` and `brier`."""

    @overload
    def __call__(self, probs: ProbsLike, labels: LabelsLike, *,
                 groups: None = None, **shared: Unpack[Shared]) -> float: ...
    @overload
    def __call__(self, probs: ProbsLike, labels: LabelsLike, *,
                 groups: Groups, **shared: Unpack[Shared]) -> GroupTable: ...


class ClassMetric(Named, Protocol):
    """`cw_ece`."""

    @overload
    def __call__(self, probs: ProbsLike, labels: LabelsLike, num_bins: int = 15, num_classes: int | None = None, *,
                 groups: None = None, **shared: Unpack[Shared]) -> float: ...
    @overload
    def __call__(self, probs: ProbsLike, labels: LabelsLike, num_bins: int = 15, num_classes: int | None = None, *,
                 groups: Groups, **shared: Unpack[Shared]) -> GroupTable: ...
# fmt: on
