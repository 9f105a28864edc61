"""Places on a line: a range of numbers laid out in percent of a width, as drawings of the page do.

Percent suit every width, so that one drawing serves screens, phones and paper without any script.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Strip:
    """A range of numbers laid out from 0 to 100 percent of a width."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Return where a value stands, in percent; what lies outside stands at the edge.

        >>> Strip(0, 4).at(1), Strip(0, 4).at(9), Strip(0, 4).at(float("nan"))
        (25.0, 100.0, nan)
        """
        share = 100 * (value - self.low) / (self.high - self.low)
        return share if math.isnan(share) else round(min(max(share, 0.0), 100.0), 2)

    def ticks(self, count: int = 4) -> list[tuple[float, str]]:
        """Return the places of about `count` round numbers in percent, with what is written there.

        >>> Strip(0, 3.4).ticks()
        [(0.0, '0'), (29.41, '1'), (58.82, '2'), (88.24, '3')]
        """
        rough = (self.high - self.low) / count
        power = 10.0 ** math.floor(math.log10(rough))
        step = min((step * power for step in (1, 2, 5, 10)), key=lambda step: abs(step - rough))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        values = [number * step for number in range(first, last + 1)]
        return [(self.at(value), with_minus(f"{value:.6g}")) for value in values]


def with_minus(text: str) -> str:
    """Return a printed number with a true minus sign.

    >>> with_minus("-0.5")
    '−0.5'
    """
    return text.replace("-", "−")
