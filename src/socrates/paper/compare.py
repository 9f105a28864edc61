"""Our runs beside the published numbers: which printed cell a group of runs may be held against."""

from __future__ import annotations

from ..experiment import resolve
from ..report.aggregate import Group
from .grid import FINAL
from .published import Published, find
from .settings import SETTINGS, Setting

METRICS = {"accuracy": "acc", "ece": "ece", "ada_ece": "ada_ece", "cw_ece": "cw_ece"}  # from our names to the paper's


def published_test(group: Group, metric: str) -> Published | None:
    """What the paper prints for these runs on test data; None if its setting or hyperparameters differ.

    The paper has cross-entropy in its table of post-hoc scaling.
    """
    table = "posthoc" if group.method == "ce" else "test"
    return _find(table, group, metric)


def published_validation(group: Group, metric: str) -> Published | None:
    """What the paper prints for these runs on validation data; None if its setting or hyperparameters differ."""
    return _find("validation", group, metric)


def published_posthoc(group: Group, metric: str, scaler: str) -> Published | None:
    """The same on test data after a post-hoc scaler."""
    return _find("posthoc", group, metric, "" if scaler == "none" else f"+{scaler}")


def paper_setting(group: Group) -> Setting | None:
    """The paper's setting in which these runs were trained: its data, model, length, bins and final hyperparameters."""
    experiment = group.experiment
    for name, setting in SETTINGS.items():
        final = FINAL[name].get(group.method)
        alike = final is not None and resolve(final.experiment(setting, experiment.seed))
        if alike and (experiment.dataset, experiment.model, experiment.num_train) == (alike.dataset, alike.model, None):
            same = all(
                getattr(experiment, name) == getattr(alike, name)
                for name in ("method", "optimization", "num_bins", "precision")
            )
            return setting if same else None
    return None


def _find(table: str, group: Group, metric: str, scaler: str = "") -> Published | None:
    setting = paper_setting(group)
    if setting is None or metric not in METRICS:
        return None
    return find(table, setting.name, f"{group.method}{scaler}", METRICS[metric])
