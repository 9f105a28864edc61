"""Test whether a model is calibrated, with labels drawn from its own probabilities."""

from __future__ import annotations

import numpy as np

from ..arrays.content import Classes
from ..arrays.entries import LabelsLike, TopLike
from ..arrays.open import ArrayLike
from .smooth import smooth_ece
from .uncertainty import (
    MetricFunction,
    as_number,
    measure_of_resample,
    unwrap,
    values_if_calibrated,
    without_none,
)

# A draw that equals the measured value but for the rounding of sums counts as equal.
_ROUNDING = 1e-9


class CalibrationTest(float):
    """The p-value of the hypothesis that the model is calibrated, as a float with two attributes.

    Args:
        p_value: probability that a calibrated model reaches this statistic or a larger one.
        statistic: the metric of the model.
        floor: the mean metric of a calibrated model with the same confidences.

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
        test.statistic = statistic
        test.floor = floor
        return test

    # Copies and pickles need this.
    def __getnewargs__(self) -> tuple[float, float, float]:  # type: ignore[override]
        return self.p_value, self.statistic, self.floor

    @property
    def p_value(self) -> float:
        """Return the p-value as a plain float."""
        return float(self)

    def __repr__(self) -> str:
        return (
            f"CalibrationTest(p_value={self.p_value:.4g}, statistic={self.statistic:.4g}, "
            f"floor={self.floor:.4g})"
        )


def calibration_test(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    metric: MetricFunction = smooth_ece,
    *,
    num_draws: int = 1000,
    seed: int = 0,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> CalibrationTest:
    """Return the p-value of the hypothesis that the model is calibrated.

    Labels are drawn from the probabilities, as in `floor` and in the consistency resampling of
    Broecker and Smith (2007), and

        p = (1 + number of draws whose metric is at least the measured one) / (1 + num_draws)

    which is uniformly distributed if the model is calibrated, for any confidences and any number of
    samples. A small p-value means that the model is not calibrated. A large one means that these
    samples do not show it, not that the model is calibrated. With enough samples every real model
    is rejected, so compare the statistic with its floor to see how large the error is. The remark
    of `floor` about a `Prediction` that answers unknown holds here, too.

    The default statistic is the one with the highest power, in percent of the tests at a level of
    5%:

    | rows x classes | model           | ece | ada_ece | debiased_ece | smooth_ece |
    |----------------|-----------------|-----|---------|--------------|------------|
    | 500 x 10       | temperature 1.1 | 19  | 23      | 16           | 34         |
    | 500 x 10       | sure ones wrong | 25  | 25      | 18           | 33         |
    | 500 x 10       | in turns        | 52  | 56      | 48           | 62         |
    | 2,000 x 10     | temperature 1.1 | 70  | 72      | 64           | 84         |
    | 2,000 x 10     | sure ones wrong | 68  | 64      | 52           | 81         |
    | 500 x 100      | temperature 1.1 | 50  | 54      | 47           | 75         |
    | 5,000 x 100    | sure ones wrong | 76  | 69      | 59           | 84         |

    Each cell is from 1,000 tests; `python benchmarks/calibration_test.py` prints all of them, and
    no other statistic is better in any. The models are: logits that should have been divided by 1.1
    (temperature 1.1); predictions above 0.95 that are correct 3 points less often than their
    confidence (sure ones wrong); and predictions below 0.9 that are overconfident and
    underconfident in alternating ranges of confidence (in turns).

    Args: as for `ece`, and
        metric: any metric that grows with miscalibration. A metric of the top class tests whether
            predictions are correct as often as their confidence says; `cw_ece` tests every class.
        num_draws: number of sets of labels drawn; the p-value is at least 1 / (1 + num_draws).
        seed: the same seed gives the same p-value.

    >>> test = calibration_test(confidence=[0.8] * 200, correct=[1] * 130 + [0] * 70)
    >>> test < 0.01, round(test.statistic, 2), round(test.floor, 2)
    (True, 0.15, 0.02)
    >>> calibration_test(confidence=[0.8] * 200, correct=[1] * 158 + [0] * 42) > 0.5
    True
    """
    data = without_none(
        confidence=confidence, correct=correct, sample_weight=sample_weight, classes=classes
    )
    _, _, opener = unwrap(metric)
    if opener is None:
        measured = metric(probs, labels, **data)
    else:
        _, measure = measure_of_resample(metric, probs, labels, data)
        measured = measure(None)
    statistic = as_number(metric, measured)
    draws = values_if_calibrated(metric, probs, num_draws, seed, confidence, sample_weight)
    num_above = int((draws >= statistic - _ROUNDING).sum())
    return CalibrationTest((1 + num_above) / (1 + len(draws)), statistic, float(np.mean(draws)))
