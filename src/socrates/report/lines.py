"""The lines of a forest: a mean with its interval for each file or method with a scaler."""

from collections.abc import Sequence
from dataclasses import dataclass

from .evidence import ACCURACY, ECE, evidence_of
from .results import Results
from .statistics import Family, PairedDifference


@dataclass(frozen=True)
class Estimate:
    """A mean in percent and its 95% interval over n seeds, or over resampled rows.

    NaN where there is none.
    """

    mean: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class AnswerLine:
    """A method as trained or after a scaler; a leader is not shown to be worse calibrated."""

    label: str
    results: Results
    scaler: str
    ece: Estimate
    accuracy: Estimate
    floor: float
    leader: bool
    collapsed: str = ""


def differences(
    lines: Sequence[AnswerLine], reference: int
) -> list[tuple[PairedDifference, PairedDifference]]:
    """Return ECE less chance and accuracy of every line minus those of one, with verdicts.

    >>> differences([], 0)
    []
    """
    if not lines:
        return []
    families = [
        Family([evidence_of(line.results, spec, line.scaler) for line in lines], spec)
        for spec in (ECE, ACCURACY)
    ]
    return [*zip(*(family.against(reference) for family in families), strict=True)]
