"""Calls that cannot be answered, and the words that say so: what was given, what was expected, what
to do."""

import inspect
from functools import partial

import numpy as np
import pytest
import torch

from socrates.metrics import (
    CalibrationMeter,
    Top,
    aurc,
    auroc,
    bootstrap,
    calibration_test,
    corp,
    coverage_at_risk,
    decompose,
    direction,
    ece,
    floor,
    fpr_at_tpr,
    reliability,
    risk_coverage,
    sets,
    top_k,
    worst_classes,
    worst_groups,
)

ROWS, LABELS = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]], [0, 1]
CONFIDENCE, CORRECT = [0.9, 0.6], [1, 0]
TOP = {"confidence": CONFIDENCE, "correct": CORRECT}
READERS_OF_ROWS = {
    "top_k": partial(top_k, k=2),
    "worst_classes": worst_classes,
    "lac": sets.lac,
    "aps": sets.aps,
    "decompose": lambda probs=None, labels=None, **entry: decompose(
        "nll", probs, probs, labels, **entry
    ),
}

BAD_CALLS = {
    "sets.lac: weight": (
        lambda: sets.lac(ROWS, LABELS, sample_weight=[1, 2]),
        r"got weights, expected none: .*leave",
    ),
    "sets.aps: weights": (
        lambda: sets.aps(ROWS, LABELS, sample_weight=[0, 1]),
        r"got weights, expected none",
    ),
    "sets: alpha": (
        lambda: sets.lac(ROWS, LABELS, "a"),
        r"alpha='a'",
    ),
    "sets: no seed": (
        lambda: sets.aps(ROWS, LABELS, randomized=True, seed=None),
        r"seed=None, expected an integer",
    ),
    "sets: nothing": (
        lambda: sets.lac(ROWS, LABELS)(None),
        r"probs is None",
    ),
    "sets: one row": (
        lambda: sets.lac(ROWS, LABELS)(ROWS[0]),
        r"for 3 classes, probs has 2",
    ),
    "weights among groups": (
        lambda: worst_groups(ROWS, LABELS, groups=["a", "b"], sample_weight=[0, 1]),
        r"got weights",
    ),
    "floor: a number": (
        lambda: floor(ece, confidence=0.9),
        r"confidence has shape \(\)",
    ),
    "floor: nothing": (lambda: floor(ece), r"probs is None, expected"),
    "floor: a name": (lambda: floor("ece", ROWS), r"metric='ece', expected a function"),
    "floor: a curve": (
        lambda: floor(reliability, ROWS),
        r"reliability gives a Reliability",
    ),
    "floor: quantile": (
        lambda: floor(ece, ROWS, quantile="a"),
        r"quantile='a'",
    ),
    "floor: seed": (lambda: floor(ece, ROWS, seed=-1), r"seed=-1"),
    "bootstrap: a name": (
        lambda: bootstrap("ece", ROWS, LABELS),
        r"metric='ece', expected a function",
    ),
    "bootstrap: a curve": (
        lambda: bootstrap(corp, ROWS, LABELS),
        r"corp gives a Corp",
    ),
    "bootstrap: groups": (
        lambda: bootstrap(partial(ece, groups=["a", "b"]), ROWS, LABELS),
        r"got a metric with groups",
    ),
    "bootstrap: level": (
        lambda: bootstrap(ece, ROWS, LABELS, level="high"),
        r"level='high', expected a share",
    ),
    "test: a curve": (
        lambda: calibration_test(ROWS, LABELS, direction),
        r"direction gives a Direction",
    ),
    "max_risk": (lambda: coverage_at_risk(ROWS, LABELS, None), r"max_risk=None, expected a share"),
    "tpr": (lambda: fpr_at_tpr([0.5], [0.4], tpr="all"), r"tpr='all', expected a share"),
    "worst: level": (
        lambda: worst_classes(ROWS, LABELS, level=None),
        r"level=None, expected a share",
    ),
    "labels alone": (lambda: ece(labels=LABELS), r"probs is None"),
    "meter: nothing": (
        lambda: CalibrationMeter().update(),
        r"probs is None",
    ),
    "Top: nothing": (lambda: Top.of(None, CORRECT), r"confidence is None"),
    "auroc: one weight": (
        lambda: auroc([0.5], [0.4], sample_weight=2.0),
        r"sample_weight is 2.0",
    ),
    "ranks: too few": (
        lambda: aurc(ROWS, LABELS, [0.3], sample_weight=[2, 3]),
        r"1 confidences .* 2 rows",
    ),
    "score: a list": (
        lambda: decompose(["nll"], ROWS, ROWS, LABELS),
        r"score=\['nll'\]",
    ),
    "recalibrated: bad rows": (
        lambda: decompose("nll", ROWS, np.array(ROWS) * 2, LABELS),
        r"recalibrated .*row 0 .*2",
    ),
    "classes: a set": (
        lambda: ece(ROWS, ["a", "b"], classes={"a", "b", "c"}),
        r"names in the order",
    ),
    "classes: a number": (
        lambda: ece(ROWS, LABELS, classes=3),
        r"classes=3",
    ),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls(name):
    call, message = BAD_CALLS[name]
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("reader", READERS_OF_ROWS)
def test_rows_are_asked_for(reader):
    with pytest.raises(ValueError, match=r"alone, expected \(N, C\)"):
        READERS_OF_ROWS[reader](Top.of(**TOP), LABELS)
    with pytest.raises(TypeError, match=r"'confidence'|'correct'"):
        READERS_OF_ROWS[reader](ROWS, LABELS, **TOP)


@pytest.mark.parametrize(
    "judge", [corp, direction, reliability, risk_coverage, partial(top_k, k=1), sets.lac]
)
def test_what_is_no_number_takes_no_groups(judge):
    for unknown in ({"groups": ["a", "b"]}, {"bins": 3}):
        (name,) = unknown
        with pytest.raises(TypeError, match=f"'{name}'"):
            judge(ROWS, LABELS, **unknown)


@pytest.mark.parametrize(
    "function", [bootstrap, calibration_test, corp, reliability, CalibrationMeter.update]
)
def test_help_names_every_keyword(function):
    assert {"confidence", "correct", "sample_weight", "classes"} <= inspect.signature(
        function
    ).parameters.keys()


def test_too_many_positional_arguments_are_counted_as_they_were_given():
    with pytest.raises(TypeError, match=r"ece\(\) .*0 to 3 .* 4"):
        ece(ROWS, LABELS, 15, 5)
    with pytest.raises(TypeError, match=r"aurc\(\) .*0 to 3 .* 5"):
        aurc(ROWS, LABELS, CONFIDENCE, 1, 2)


def test_a_score_of_weight_0_may_be_anything_out_of_distribution_too():
    for unknown in (0.3, np.nan):
        assert auroc([0.5, np.nan], [0.3, unknown], sample_weight=([1, 0], [1, 0])) == 1.0


def test_a_level_may_be_any_single_number():
    expected = bootstrap(ece, ROWS, LABELS, num_resamples=5, level=0.5)
    for level in (0.5, np.array(0.5), torch.tensor(0.5)):
        assert bootstrap(ece, ROWS, LABELS, num_resamples=5, confidence=level) == expected


def test_names_of_classes_in_tensors_and_arrays():
    assert ece(ROWS, [10, 20], classes=torch.tensor([10, 20, 30])) == ece(ROWS, LABELS)
    assert {
        type(gap.name) for gap in worst_classes(ROWS, LABELS, classes=np.array(["a", "b", "c"]))
    } == {str}


def test_the_bound_of_the_meter_does_not_depend_on_the_unit_of_the_weights():
    rng = np.random.default_rng(0)
    confidence = np.round(rng.random(300), 2)
    correct, weight = rng.random(300) < confidence, rng.random(300)
    bounds = []
    for unit in (1.0, 2.0**-20):
        meter = CalibrationMeter(num_bins=10)
        meter.update(confidence=confidence, correct=correct, sample_weight=weight * unit)
        bounds.append(meter.ada_ece_bound())
    assert bounds[0] > 0
    assert bounds[1] == pytest.approx(bounds[0])
