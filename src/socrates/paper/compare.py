"""Our runs beside the published numbers: which printed cell a group of runs may be held against."""

from dataclasses import replace

from ..experiment import Experiment, resolve
from ..report.results import Results
from .grid import FINAL
from .published import Published, find
from .released import as_released
from .settings import SETTINGS, PaperSetting

METRICS = {"accuracy": "acc", "ece": "ece", "ada_ece": "ada_ece", "cw_ece": "cw_ece"}  # from our names to the paper's


def published(results: Results, table: str, metric: str, scaler: str = "none") -> Published | None:
    """What a table of the paper prints for these runs; None if its setting or hyperparameters differ.

    The paper has cross-entropy in its table of post-hoc scaling.
    """
    setting = paper_setting(results.experiment) if results.experiment else None
    if setting is None:
        return None
    table = "posthoc" if (table, results.method.name) == ("test", "ce") else table
    return printed(table, setting.name, results.method.name, scaler).get(metric)


def printed(table: str, row: str | int, column: str, scaler: str = "none") -> dict[str, Published | None]:
    """What stands in a row and column of a table, by our name of the metric.

    >>> printed("test", "cifar100-vgg16", "socrates")["ece"].mean
    3.45
    """
    column += "" if scaler == "none" else f"+{scaler}"
    return {ours: find(table, row, column, theirs) for ours, theirs in METRICS.items()}


def paper_setting(experiment: Experiment) -> PaperSetting | None:
    """The paper's setting of a run: its data, model, length, bins and final hyperparameters; also if as released."""
    ours = resolve(experiment)
    for name, setting in SETTINGS.items():
        final = FINAL[name].get(ours.method.name)
        theirs = final and resolve(final.experiment(setting, ours.seed))
        alike = replace(theirs, keep_every=ours.keep_every) if theirs else None
        if alike and ours in (alike, resolve(as_released(alike))):
            return setting
    return None
