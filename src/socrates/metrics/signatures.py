"""How the public metrics are called, for type checkers: a number, or with `groups` a table. `entry` makes them so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypedDict, TypeVar, overload

from .groups import Groups, GroupTable
from .inputs import LabelsLike, ProbsLike, TopLike
from .labels import Classes
from .samples import ArrayLike

if TYPE_CHECKING:
    from typing_extensions import Unpack

Value = TypeVar("Value", covariant=True)
Rows = ProbsLike | None
Tops = TopLike | None
Labels = LabelsLike | None
Scores = ArrayLike | None


class Shared(TypedDict, total=False):
    """What all metrics take."""

    sample_weight: ArrayLike | None
    classes: Classes | None


class Ranked(Shared, total=False):
    """What metrics that name `confidence` among their positional arguments take besides."""

    correct: ArrayLike | None


class Entry(Ranked, total=False):
    """What metrics of the top class take besides."""

    confidence: ArrayLike | None


class Named(Protocol):
    __name__: str


class BinnedMetric(Named, Protocol):
    @overload
    def __call__(
        self,
        probs: Tops = None,
        labels: Labels = None,
        num_bins: int = 15,
        *,
        groups: None = None,
        **entry: Unpack[Entry],
    ) -> float: ...
    @overload
    def __call__(
        self, probs: Tops = None, labels: Labels = None, num_bins: int = 15, *, groups: Groups, **entry: Unpack[Entry]
    ) -> GroupTable: ...


class BinnedCurve(Named, Protocol[Value]):
    def __call__(
        self, probs: Tops = None, labels: Labels = None, num_bins: int = 15, **entry: Unpack[Entry]
    ) -> Value: ...


class TopMetric(Named, Protocol):
    @overload
    def __call__(
        self, probs: Tops = None, labels: Labels = None, *, groups: None = None, **entry: Unpack[Entry]
    ) -> float: ...
    @overload
    def __call__(
        self, probs: Tops = None, labels: Labels = None, *, groups: Groups, **entry: Unpack[Entry]
    ) -> GroupTable: ...


class RankMetric(Named, Protocol):
    @overload
    def __call__(
        self,
        probs: Tops = None,
        labels: Labels = None,
        confidence: Scores = None,
        *,
        groups: None = None,
        **entry: Unpack[Ranked],
    ) -> float: ...
    @overload
    def __call__(
        self,
        probs: Tops = None,
        labels: Labels = None,
        confidence: Scores = None,
        *,
        groups: Groups,
        **entry: Unpack[Ranked],
    ) -> GroupTable: ...


class RankCurve(Named, Protocol[Value]):
    def __call__(
        self,
        probs: Tops = None,
        labels: Labels = None,
        confidence: Scores = None,
        **entry: Unpack[Ranked],
    ) -> Value: ...


class RiskMetric(Named, Protocol):
    @overload
    def __call__(
        self,
        probs: Tops,
        labels: Labels,
        max_risk: float,
        confidence: Scores = None,
        *,
        groups: None = None,
        **entry: Unpack[Ranked],
    ) -> float: ...
    @overload
    def __call__(
        self,
        probs: Tops,
        labels: Labels,
        max_risk: float,
        confidence: Scores = None,
        *,
        groups: Groups,
        **entry: Unpack[Ranked],
    ) -> GroupTable: ...
    @overload
    def __call__(
        self, probs: Tops = None, *, max_risk: float, groups: None = None, **entry: Unpack[Entry]
    ) -> float: ...
    @overload
    def __call__(
        self, probs: Tops = None, *, max_risk: float, groups: Groups, **entry: Unpack[Entry]
    ) -> GroupTable: ...


class MeanMetric(Named, Protocol):
    @overload
    def __call__(self, probs: Rows, labels: Labels, *, groups: None = None, **shared: Unpack[Shared]) -> float: ...
    @overload
    def __call__(self, probs: Rows, labels: Labels, *, groups: Groups, **shared: Unpack[Shared]) -> GroupTable: ...


class ClassMetric(Named, Protocol):
    @overload
    def __call__(
        self,
        probs: Rows,
        labels: Labels,
        num_bins: int = 15,
        num_classes: int | None = None,
        *,
        groups: None = None,
        **shared: Unpack[Shared],
    ) -> float: ...
    @overload
    def __call__(
        self,
        probs: Rows,
        labels: Labels,
        num_bins: int = 15,
        num_classes: int | None = None,
        *,
        groups: Groups,
        **shared: Unpack[Shared],
    ) -> GroupTable: ...
