"""Is the model calibrated? A test of that hypothesis, from the labels that a calibrated model would have had."""

from __future__ import annotations

import numpy as np

from .calibration import smooth_ece
from .inputs import Entry, LabelsLike, TopLike, Unpack
from .uncertainty import Metric, drawn_values, given, known_metric, number

# A draw that equals the measured value but for the rounding of sums counts as equal.
_ROUNDING = 1e-9


class CalibrationTest(float):
    """The p-value of the hypothesis that the model is calibrated, with what it was made of.

    Args:
        p_value: probability that a calibrated model would measure so much, or more; also the value of the number.
        statistic: what was measured.
        floor: what a calibrated model measures on average.

    >>> test = CalibrationTest(0.001, statistic=0.043, floor=0.012)
    >>> test
    CalibrationTest(p_value=0.001, statistic=0.043, floor=0.012)
    >>> test < 0.05
    True
    """

    statistic: float
    floor: float

    def __new__(cls, p_value: float, statistic: float, floor: float) -> CalibrationTest:
        test = super().__new__(cls, p_value)
        test.statistic, test.floor = statistic, floor
        return test

    def __getnewargs__(self) -> tuple[float, float, float]:  # type: ignore[override]  # for copies and pickles
        return self.p_value, self.statistic, self.floor

    @property
    def p_value(self) -> float:
        """The same number, plain."""
        return float(self)

    def __repr__(self) -> str:
        return f"CalibrationTest(p_value={self.p_value:.4g}, statistic={self.statistic:.4g}, floor={self.floor:.4g})"


def calibration_test(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    metric: Metric = smooth_ece,
    *,
    num_draws: int = 1000,
    seed: int = 0,
    **entry: Unpack[Entry],
) -> CalibrationTest:
    """How likely a calibrated model is to measure as large an error as this one, or a larger one.

    Labels are drawn from the probabilities, as for `floor`, and p = (1 + number of draws that measure as much or more)
    / (1 + num_draws): uniform if the model is calibrated, whatever its confidences and however few the samples. A small
    value says that the model is not calibrated; a large one that these samples cannot tell, not that it is. With many
    samples any model is found out: the statistic and its floor say how much it matters. What `floor` says of a
    `Prediction` that answers unknown holds here, too.

    The default statistic is the one that finds most models out, in percent of the tests at a level of 5 %:

    | rows x classes | model           | ece | ada_ece | debiased_ece | smooth_ece |
    |----------------|-----------------|-----|---------|--------------|------------|
    | 500 x 10       | temperature 1.1 | 19  | 23      | 16           | 34         |
    | 500 x 10       | sure ones wrong | 25  | 25      | 18           | 33         |
    | 500 x 10       | in turns        | 52  | 56      | 48           | 62         |
    | 2,000 x 10     | temperature 1.1 | 70  | 72      | 64           | 84         |
    | 2,000 x 10     | sure ones wrong | 68  | 64      | 52           | 81         |
    | 500 x 100      | temperature 1.1 | 50  | 54      | 47           | 75         |
    | 5,000 x 100    | sure ones wrong | 76  | 69      | 59           | 84         |

    (1,000 tests each. `python benchmarks/calibration_test.py` prints all cells: in none of them is another statistic
    better. The logits should have been divided by the temperature; or answers above 0.95 are right 3 points less often
    than they say; or those below 0.9 are too sure and not sure enough in turns.)

    Args: as for `ece`, and
        metric: any metric that grows with miscalibration. One of the top class asks whether answers are right as often
            as their confidence says; `cw_ece` asks it of every class.
        num_draws: number of sets of labels drawn; the p-value is at least 1 / (1 + num_draws).
        seed: the same seed gives the same value.

    >>> test = calibration_test(confidence=[0.8] * 200, correct=[1] * 130 + [0] * 70)
    >>> test < 0.01, round(test.statistic, 2), round(test.floor, 2)
    (True, 0.15, 0.02)
    >>> calibration_test(confidence=[0.8] * 200, correct=[1] * 158 + [0] * 42) > 0.5
    True
    """
    known_metric(metric)
    statistic = number(metric, metric(probs, labels, **given(**entry)))
    draws = drawn_values(metric, probs, num_draws, seed, entry.get("confidence"), entry.get("sample_weight"))
    num_above = int((draws >= statistic - _ROUNDING).sum())
    return CalibrationTest((1 + num_above) / (1 + len(draws)), statistic, float(np.mean(draws)))
