"""What the page shows of one setting, as plain JSON: rounded numbers, words, null for what is not known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from socrates.experiment import Experiment
from socrates.metrics.predictions import READINGS
from socrates.report.aggregate import Group, RunData, Setting
from socrates.report.figures.curves import Band, band
from socrates.report.figures.evolution import evolution
from socrates.report.figures.pareto import ACCEPTABLE_ECE, EpochPath, epoch_paths, final_points, front_labels
from socrates.report.figures.reliability import ReliabilityData, reliability_readings
from socrates.report.figures.unknown import unknown_behaviour
from socrates.report.pagetables import (
    differences_data,
    number,
    numbers,
    overview_rows,
    reference,
    scaling_data,
    worst_collapse,
)
from socrates.report.style import on_dark, styles

Array = NDArray[Any]
Json = dict[str, Any]

MAX_POINTS = 150  # of a curve: more cannot be seen at its width
PATH_POINTS = 60  # of a path in the error-ECE plane, and so the steps of the slider

CURVES = {  # title, factor, whether a logarithmic axis suits it
    "train_loss": ("Training loss", 1.0, True),
    "val_loss": ("Validation loss", 1.0, True),
    "val_nll": ("Validation NLL, known classes", 1.0, True),
    "train_accuracy": ("Training accuracy, %", 100.0, False),
    "val_accuracy": ("Validation accuracy, %", 100.0, False),
    "val_ece": ("Validation ECE, %", 100.0, True),
}
EVOLUTION = {"beta": "Mean β", "target": "Mean target t"}
UNKNOWN = {
    "confidence_unknown_wrong": "Mean belief in unknown, wrong answers",
    "confidence_unknown_right": "Mean belief in unknown, right answers",
    "unknown_share": "Share of answers that are “unknown”",
    "confidence_true_wrong": "Mean belief in the true class, wrong answers",
    "confidence_true_right": "Mean belief in the true class, right answers",
}


def setting_data(setting: Setting, groups: Sequence[Group], command: Callable[[Experiment], str]) -> Json:
    """Everything of one setting; methods are referred to by their place in `methods`."""
    place = {group.label: index for index, group in enumerate(groups)}
    return {
        "title": setting.title,
        "methods": methods_data(groups),
        "overview": {reading: overview_rows(groups, reading) for reading in READINGS},
        "pareto": pareto_data(groups, place),
        "reliability": [
            {reading: reliability_data(found) for reading, found in reliability_readings(group, "test").items()}
            for group in groups
        ],
        "curves": [
            panel(title, [band(group, key, factor) for group in groups], place, log)
            for key, (title, factor, log) in CURVES.items()
        ],
        "evolution": named_panels([evolution(group) for group in groups], EVOLUTION, place),
        "unknown": named_panels([unknown_behaviour(group) for group in groups], UNKNOWN, place),
        "scaling": {reading: scaling_data(groups, reading, place) for reading in READINGS},
        "reference": reference(groups),
        "differences": differences_data(groups),
        "runs": [run_data(run, place[group.label], command) for group in groups for run in group.runs],
    }


def methods_data(groups: Sequence[Group]) -> list[Json]:
    """Name and look of each method, its (thinned) epochs, and why its worst run counts as collapsed, if one does."""
    look = styles(groups)
    return [
        {
            "label": group.label,
            "colour": look[group.label].colour,
            "dark": on_dark(look[group.label].colour),
            "dash": look[group.label].dash,
            "marker": look[group.label].marker,
            "unknown": any(run.unknown_class for run in group.runs),
            "collapsed": worst_collapse(group),
            "epochs": [int(epoch) for epoch in group.epochs[thinned(len(group.epochs))]],
        }
        for group in groups
    ]


def pareto_data(groups: Sequence[Group], place: dict[str, int]) -> Json:
    """Paths through training, and where the runs end under each reading."""
    longest = max(len(group.epochs) for group in groups)
    paths = epoch_paths(groups, every=max(1, math.ceil(longest / PATH_POINTS)))
    sound = {group.label for group in groups if worst_collapse(group) is None}
    final = {reading: final_points(groups, "test", reading, "none") for reading in READINGS}
    return {
        "acceptable": ACCEPTABLE_ECE,
        "epochs": sorted({int(epoch) for path in paths for epoch in path.epochs}),
        "paths": [_path(path, place) for path in paths],
        "final": {
            reading: [
                {"method": place[point.label], "error": numbers(point.error), "ece": numbers(point.ece)}
                for point in points
            ]
            for reading, points in final.items()
        },
        "front": {
            reading: [place[label] for label in front_labels([point for point in points if point.label in sound])]
            for reading, points in final.items()
        },
    }


def _path(path: EpochPath, place: dict[str, int]) -> Json:
    epochs = [int(epoch) for epoch in path.epochs]
    return {"method": place[path.label], "epochs": epochs, "error": numbers(path.error), "ece": numbers(path.ece)}


def reliability_data(data: ReliabilityData) -> Json:
    """The filled bins of a diagram."""
    filled = data.count > 0
    arrays = ("lower", "upper", "confidence", "accuracy", "low", "high", "share")
    bins = {name: numbers(getattr(data, name)[filled]) for name in arrays}
    return {**bins, "ece": number(data.ece), "floor": number(data.floor), "count": int(data.count.sum())}


def panel(title: str, bands: Iterable[Band | None], place: dict[str, int], log: bool = False) -> Json:
    """A small chart of one number over the epochs; its bands are left out where there is one run."""
    curves: list[Json] = []
    for found in bands:
        if found is None:
            continue
        kept = thinned(len(found.epochs))
        curve: Json = {"method": place[found.label], "mean": numbers(found.mean[kept])}
        if np.nan_to_num(found.high - found.low).max(initial=0.0) > 0:
            curve |= {"low": numbers(found.low[kept]), "high": numbers(found.high[kept])}
        curves.append(curve)
    return {"title": title, "log": log, "curves": curves}


def named_panels(found: Sequence[dict[str, Band]], titles: dict[str, str], place: dict[str, int]) -> list[Json]:
    """A panel for each name that some group has a band of."""
    panels = [panel(title, [bands.get(name) for bands in found], place) for name, title in titles.items()]
    return [made for made in panels if made["curves"]]


def run_data(run: RunData, method: int, command: Callable[[Experiment], str]) -> Json:
    """A run: what it was, how it ended, and how to repeat it."""
    return {
        "method": method,
        "seed": run.experiment.seed,
        "epochs": len(run.curves["epoch"]),
        "time": duration(float(np.nansum(run.curves.get("seconds", np.zeros(1))))),
        "collapsed": run.collapsed,
        "directory": str(run.directory),
        "command": command(run.experiment),
        "experiment": run.experiment.to_json(),
    }


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(7.26), duration(754), duration(9000)
    ('7.3 s', '12 min 34 s', '2 h 30 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def thinned(length: int) -> Array:
    """Places of at most MAX_POINTS of `length` values, evenly spread, both ends among them.

    >>> thinned(3), len(thinned(1000))
    (array([0, 1, 2]), 150)
    """
    return np.unique(np.linspace(0, length - 1, min(length, MAX_POINTS)).round().astype(int))
