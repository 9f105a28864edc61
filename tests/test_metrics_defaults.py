"""The defaults that the documentation promises: a call without options equals one that spells them
out, and differs from one with others."""

import numpy as np
import pytest

from socrates.metrics import (
    CalibrationMeter,
    ada_ece,
    bootstrap,
    calibration_test,
    cw_ece,
    debiased_ece,
    direction,
    ece,
    floor,
    fpr_at_tpr,
    mce,
    reliability,
    sets,
    smooth_ece,
    unknown_answered,
    worst_classes,
    worst_groups,
)
from socrates.metrics.registry import METRICS, ece_floor

RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.full(4, 0.5), 300)
LABELS = np.where(RNG.random(300) < 0.6, PROBS.argmax(axis=1), RNG.integers(0, 4, 300))
KNOWN, UNKNOWN = RNG.normal(1, 1, 300), RNG.normal(0, 1, 300)


def meter(*, num_bins=None):
    filled = CalibrationMeter() if num_bins is None else CalibrationMeter(num_bins)
    filled.update(PROBS, LABELS)
    return filled.compute()


def of_rows(metric, *arguments):
    return lambda **options: metric(*arguments, PROBS, LABELS, **options)


DEFAULTS = {
    **{
        metric.__name__: (of_rows(metric), {"num_bins": 15})
        for metric in (ece, mce, ada_ece, debiased_ece, cw_ece, direction, ece_floor)
    },
    "reliability": (
        lambda **options: reliability(PROBS, LABELS, **options).count.tolist(),
        {"num_bins": 15},
    ),
    "Metric.measure": (of_rows(METRICS["ece"].measure), {"num_bins": 15}),
    "meter": (meter, {"num_bins": 15}),
    "fpr_at_tpr": (lambda **options: fpr_at_tpr(KNOWN, UNKNOWN, **options), {"tpr": 0.95}),
    "unknown_answered": (
        lambda **options: unknown_answered(KNOWN, [True] * len(KNOWN), UNKNOWN, **options),
        {"kept": 0.9},
    ),
    "worst_classes": (of_rows(worst_classes), {"level": 0.95}),
    "worst_groups": (
        lambda **options: worst_groups(PROBS, LABELS, groups=LABELS, **options),
        {"level": 0.95},
    ),
    "bootstrap": (of_rows(bootstrap, ece), {"num_resamples": 1000, "level": 0.95, "seed": 0}),
    "floor": (lambda **options: floor(ece, PROBS, **options), {"num_draws": 100, "seed": 0}),
    "calibration_test": (
        lambda **options: calibration_test(PROBS, LABELS, ece, **options).floor,
        {"num_draws": 1000, "seed": 0},
    ),
    "lac": (lambda **options: sets.lac(PROBS, LABELS, **options).threshold, {"alpha": 0.1}),
    "aps": (
        lambda **options: sets.aps(PROBS, LABELS, **options).threshold,
        {"alpha": 0.1, "randomized": False},
    ),
    "randomized aps": (
        lambda **options: sets.aps(PROBS, LABELS, randomized=True, **options).threshold,
        {"seed": 0},
    ),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_documented_defaults(name):
    call, defaults = DEFAULTS[name]
    expected = call()
    assert call(**defaults) == expected
    for option, value in defaults.items():
        other = {bool: True, int: value + 1, float: 0.9 * value}[type(value)]
        assert call(**{option: other}) != expected


def test_the_statistic_of_the_calibration_test_is_smooth_ece():
    assert calibration_test(PROBS, LABELS, num_draws=9).statistic == smooth_ece(PROBS, LABELS)


def test_all_columns_are_classes_by_default():
    assert cw_ece(PROBS, LABELS, num_classes=4) == cw_ece(PROBS, LABELS)
    with pytest.raises(ValueError, match=r"num_classes=5\b.*\b4 classes"):
        cw_ece(PROBS, LABELS, num_classes=5)
