"""The printed cell that a group of our runs may be compared with."""

from dataclasses import replace
from functools import cache

from ..experiment import Experiment, resolve
from ..report.compare import Printed
from ..report.results import Results
from .grid import FINAL
from .published import find
from .released import RELEASED, as_released
from .settings import SETTINGS, PaperSetting

# from our names to the paper's
METRICS = {"accuracy": "acc", "ece": "ece", "ada_ece": "ada_ece", "cw_ece": "cw_ece"}


def published(results: Results, table: str, metric: str, scaler: str = "none") -> Printed | None:
    """Return what a table of the paper prints for these runs.

    None if their setting or hyperparameters are not the paper's.
    """
    setting = paper_setting(results.experiment) if results.experiment else None
    if setting is None:
        return None
    # The paper prints cross-entropy in its table of post-hoc scaling.
    table = "posthoc" if (table, results.method.name) == ("test", "ce") else table
    return printed(table, setting.name, results.method.name, scaler).get(metric)


def printed(
    table: str, row: str | int, column: str, scaler: str = "none"
) -> dict[str, Printed | None]:
    """Return a row and column of a table, by our name of the metric.

    >>> printed("test", "cifar100-vgg16", "socrates")["ece"].mean
    3.45
    """
    column += "" if scaler == "none" else f"+{scaler}"
    return {ours: find(table, row, column, theirs) for ours, theirs in METRICS.items()}


@cache
def paper_setting(experiment: Experiment) -> PaperSetting | None:
    """Return the paper's setting whose final hyperparameters a run has, as printed or as released.

    None if the data, model, length, bins or hyperparameters are not the paper's.
    """
    model = experiment.model.name.removesuffix(RELEASED)
    setting = SETTINGS.get(f"{experiment.dataset.name}-{model}")
    final = setting and FINAL[setting.name].get(experiment.method.name)
    if setting is None or final is None:
        return None
    ours = resolve(experiment)
    theirs = replace(final.experiment(setting, ours.seed), keep_every=ours.keep_every)
    return setting if ours in (theirs, resolve(as_released(theirs))) else None
