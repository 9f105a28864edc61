"""The logarithmic axis of figures and charts: its limits, its ticks, and where zero is drawn."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from ..results import Array

STEPS = ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8))  # of ticks within a power of ten


@dataclass(frozen=True)
class LogAxis:
    """A logarithmic axis; zero has no place on it, and stands at `bottom`."""

    low: float
    high: float
    bottom: float

    @classmethod
    def around(cls, values: Array) -> "LogAxis":
        """Return an axis that holds all finite values, zeros at half of the least other value.

        >>> LogAxis.around(np.array([0.0, 0.1, np.nan, 1.0])).ticks
        [0.05, 0.1, 0.2, 0.5, 1.0]
        """
        known = values[np.isfinite(values)]
        bottom = half_of_least(known)
        return cls.holding(np.maximum(known, bottom), bottom)

    @classmethod
    def holding(cls, values: Array, bottom: float) -> "LogAxis":
        """Return an axis with some room around positive values; from 1 to 100 if there are none."""
        logs = np.log10(values) if len(values) else np.array([0.0, 2.0])
        room = max(0.08 * float(np.ptp(logs)), 0.02)
        return cls(10 ** (float(logs.min()) - room), 10 ** (float(logs.max()) + room), bottom)

    @property
    def ticks(self) -> list[float]:
        """Return the ticks that are written."""
        return log_ticks(self.low, self.high)

    def lifted(self, values: Array) -> Array:
        """Return where values are drawn: those below the bottom at the bottom."""
        return np.maximum(values, self.bottom)

    def holds(self, value: float) -> bool:
        """Return whether a value is within the limits."""
        return self.low <= value <= self.high

    def position(self, value: float) -> float:
        """Return where a value stands, from 0 at the low end to 1 at the high end.

        >>> LogAxis(1, 100, 1).position(10)
        0.5
        """
        return math.log(max(value, 1e-9) / self.low) / math.log(self.high / self.low)

    def draw(self, axes: Axes, letter: str, label: str) -> None:
        """Make the x or y axis of a matplotlib panel this axis."""
        axis = getattr(axes, f"{letter}axis")
        axes.set(**{f"{letter}lim": (self.low, self.high), f"{letter}label": label})
        axes.set(**{f"{letter}scale": "log"})  # after its limits, which it must not choose
        axis.set_minor_locator(NullLocator())
        axis.set_major_locator(FixedLocator(self.ticks))
        axis.set_major_formatter(FuncFormatter(lambda tick, place: f"{tick:g}"))

    def plotly(self, label: str = "") -> dict[str, Any]:
        """Return this axis as a plotly layout describes it."""
        return {
            "type": "log",
            "range": [math.log10(self.low), math.log10(self.high)],
            "title": {"text": label},
            "tickmode": "array",
            "tickvals": self.ticks,
            "ticktext": [f"{tick:g}" for tick in self.ticks],
        }


def half_of_least(values: Array) -> float:
    """Return half of the least value above zero, 0.05 if there is none."""
    positive = values[values > 0]
    return float(positive.min()) / 2 if len(positive) else 0.05


def log_ticks(low: float, high: float) -> list[float]:
    """Return the coarsest ticks of a logarithmic axis that are more than two.

    A narrow range has evenly spread ones.

    >>> log_ticks(0.5, 20), log_ticks(4.4, 5.2)
    ([0.5, 1.0, 2.0, 5.0, 10.0, 20.0], [4.4, 4.6, 4.8, 5.0, 5.2])
    """
    choices = [[step * 10.0**power for power in range(-4, 3) for step in steps] for steps in STEPS]
    even = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)
    choices.append([float(tick) for tick in even])
    inside = [[round(tick, 6) for tick in ticks if low <= tick <= high] for ticks in choices]
    return next((ticks for ticks in inside if len(ticks) > 2), inside[-1])
