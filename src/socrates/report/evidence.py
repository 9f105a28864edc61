"""What runs say of a method in one metric, as `statistics.Family` compares it.

The calibration error is compared less chance (`metrics.chance`), from the test rows that
evaluation.json holds for each scaler. Where it does not, as for validation data, for other readings
of the unknown class and for runs of earlier versions, it is estimated from ECE and floor.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from socrates.metrics import Top
from socrates.metrics.chance import Excess, chance_p, excess, several_p

from .results import Results
from .statistics import Evidence
from .vocabulary import METRICS, USUAL_READING, Metric

ECE = METRICS["ece"]
ACCURACY = METRICS["accuracy"]
FLOOR = METRICS["ece_floor"]
# Relative to the squared floor and to the floor, for runs without the evidence of rows: what chance
# adds to a squared ECE, how much that varies, and the error of an ECE that all seeds share.
SQUARE_OF_CHANCE = 1.1
SPREAD_OF_CHANCE = 0.7
SKEW_OF_CHANCE = 1.2
SHARED_ERROR = 0.4


def evidence_of(
    results: Results | None,
    spec: Metric,
    scaler: str = "none",
    split: str = "test",
    reading: str = USUAL_READING,
) -> Evidence:
    """Return what is known of results in one metric, in the unit that is printed.

    >>> evidence_of(None, ECE).printed
    {}
    """
    if results is None:
        return Evidence({}, {})
    printed = results.by_seed(spec, scaler, split, reading)
    printed = {seed: value for seed, value in printed.items() if math.isfinite(value)}
    tops = _tops(results, scaler) if split == "test" and reading == USUAL_READING else {}
    has_rows = bool(printed) and printed.keys() <= tops.keys()
    if spec.name == ACCURACY.name and has_rows:
        rows = {seed: tops[seed][0].correct for seed in printed}
        influence = {seed: 100 * (own - own.mean()) for seed, own in rows.items()}
        return Evidence(printed, printed, influence)
    if not spec.has_floor:
        return Evidence(printed, printed)
    if has_rows:
        calibration = calibration_evidence(printed, {seed: tops[seed][1] for seed in printed})
    else:
        floors = results.by_seed(FLOOR, scaler, split, reading)
        eces = results.by_seed(ECE, scaler, split, reading)
        calibration = floor_evidence({seed: eces[seed] for seed in printed}, floors)
    if spec.name == ECE.name:
        return calibration
    # Another calibration error: the test and the noise of the ECE, and what chance adds to it.
    values = dict(printed)
    if not spec.needs_rows:
        chance = {seed: ece - calibration.values[seed] for seed, ece in calibration.printed.items()}
        values = {seed: value - chance[seed] for seed, value in printed.items()}
    influence = calibration.influence
    return Evidence(printed, values, influence, calibration.row_error, calibration.p)


def calibration_evidence(printed: Mapping[int, float], excesses: Mapping[int, Excess]) -> Evidence:
    """Return the calibration error less chance of each seed, in percent, and the method's own test.

    >>> calibration_evidence({}, {}).values
    {}
    """
    return Evidence(
        printed,
        {seed: 100 * excesses[seed].value for seed in printed},
        {seed: 100 * excesses[seed].influence for seed in printed},
        p=several_p([excesses[seed] for seed in printed]) if printed else math.nan,
    )


def evidences(
    columns: Sequence[tuple[Results | None, str]],
    spec: Metric,
    split: str = "test",
    reading: str = USUAL_READING,
) -> list[Evidence]:
    """Return the evidence of results with scalers, one after the other."""
    return [evidence_of(results, spec, scaler, split, reading) for results, scaler in columns]


def _tops(results: Results, scaler: str) -> dict[int, tuple[Top, Excess]]:
    """Return the test rows of each seed and their calibration error less chance, read once."""
    if scaler not in results.opened_rows:
        opened: dict[int, tuple[Top, Excess]] = {}
        for seed, evaluation in zip(results.seeds, results.evaluations, strict=False):
            rows = evaluation.rows(scaler)
            if rows is not None:
                top = Top(*rows.top())
                opened[seed] = (top, excess(top, num_bins=evaluation.num_bins))
        results.opened_rows[scaler] = opened
    return results.opened_rows[scaler]


def floor_evidence(printed: Mapping[int, float], floors: Mapping[int, float]) -> Evidence:
    """Return the evidence of ECEs and floors alone, in percent.

    >>> floor_evidence({1: 5.0, 2: 5.2}, {1: 1.0, 2: 1.0}).p < 0.001
    True
    """
    known = {seed: floors[seed] for seed in printed if math.isfinite(floors.get(seed, math.nan))}
    if len(known) < len(printed) or not known:
        return Evidence(printed, printed)
    squares = {seed: ece**2 - SQUARE_OF_CHANCE * known[seed] ** 2 for seed, ece in printed.items()}
    values = {
        seed: math.copysign(math.sqrt(abs(square)), square) for seed, square in squares.items()
    }
    floor = float(np.mean([*known.values()]))
    square = float(np.mean([*squares.values()]))
    p = chance_p(square, SPREAD_OF_CHANCE * floor**2, SKEW_OF_CHANCE) if floor > 0 else math.nan
    return Evidence(printed, values, row_error=SHARED_ERROR * floor, p=p)
