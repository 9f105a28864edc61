"""Logits of a split; and from logits alone every metric of a run, and the record that an epoch leaves."""

import math
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from socrates import metrics
from socrates.contracts import Split
from socrates.engine.ranks import ALONE, Ranks
from socrates.metrics import CalibrationMeter, Prediction, has_unknown, predict
from socrates.metrics.predictions import Reading
from socrates.records import Evaluation, Run
from socrates.scaling import SCALERS, Scaler
from socrates.scaling.temperature import fit_inverse_temperature

UNBINNED = (metrics.accuracy, metrics.nll, metrics.brier, metrics.smooth_ece, metrics.aurc)
BINNED = (metrics.ece, metrics.mce, metrics.ada_ece, metrics.cw_ece, metrics.debiased_ece)
EVAL_BATCH = 512
COLLAPSED_SHARE = 0.5
FEWEST = 10  # samples that tell whether every answer is the same


@torch.no_grad()
def infer(model: Any, split: Split, ranks: Ranks = ALONE) -> Tensor:
    """Logits of a whole split, in order, in single precision; of several ranks each computes a part."""
    model.eval()
    order = torch.arange(len(split))[ranks.part_or_one(len(split))]
    own = torch.cat([model(batch.inputs).float() for batch in split.batches(EVAL_BATCH, order)])
    return ranks.gather(own, len(split))


def evaluate(run: Run, epoch: int | None = None) -> Evaluation:
    """Metrics of val and test for each scaler, fitted on val, and each reading of the unknown class.

    Its `parameters[scaler]` are the single numbers that were fitted, such as the temperature. The epoch is the chosen
    one, unless told.
    """
    return evaluate_fitted(run, epoch)[0]


def evaluate_fitted(run: Run, epoch: int | None = None) -> tuple[Evaluation, dict[str, Scaler]]:
    """The same, and the scalers that were fitted: all that can be, of which the usual ones are evaluated."""
    kept = run.kept_epochs()
    if not kept:
        raise ValueError(f"{run.directory} holds no saved logits yet: train it to a kept epoch first")
    if epoch is None:
        epoch = run.chosen_epoch() if run.chosen_epoch() in kept else kept[-1]
    stored = {name: run.predictions(name, epoch) for name in ("val", "test")}
    splits = {name: (torch.tensor(part.logits), torch.tensor(part.labels).long()) for name, part in stored.items()}
    num_bins, num_classes = run.experiment.num_bins, stored["val"].num_classes
    unknown = has_unknown(splits["val"][0], num_classes)
    readings = tuple(metrics.READINGS) if unknown else (None,)
    usable: dict[str, Scaler] = {
        name: make() for name, make in SCALERS.items() if unknown or not make.needs_unknown_class
    }
    evaluated = [name for name in usable if getattr(SCALERS[name], "usual", True)]
    if not all(finite(logits) for logits, _ in splits.values()):
        skipped = dict.fromkeys(("none", *evaluated), "the run diverged: its logits are not finite")
        return Evaluation(epoch, num_bins, unknown, {}, skipped), {}

    def read(logits: Tensor, labels: Tensor) -> dict[str, dict[str, float]]:
        return {reading or "plain": every_metric(logits, labels, reading, num_bins) for reading in readings}

    results: dict[str, Any] = {"none": {split: read(*labelled) for split, labelled in splits.items()}}
    skipped: dict[str, str] = {}
    parameters: dict[str, dict[str, float]] = {}
    fitted: dict[str, Scaler] = {}
    for name, scaler in usable.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a limit without optimum is a result here, and shows in the numbers
                scaler.fit(*splits["val"], unknown_class=unknown)
        except ValueError as error:
            skipped |= {name: str(error)} if name in evaluated else {}
            continue
        fitted[name] = scaler
        if name not in evaluated:
            continue
        numbers = {key: float(value) for key, value in scaler.named_buffers() if value.numel() == 1}
        parameters |= {name: numbers} if numbers else {}
        results[name] = {split: read(scaler(logits), labels) for split, (logits, labels) in splits.items()}
    for split, by_reading in results.get("temperature", {}).items():
        for reading, scaled in by_reading.items():
            results["none"][split][reading] |= parts_of_scores(results["none"][split][reading], scaled)
    return Evaluation(epoch, num_bins, unknown, results, skipped, parameters), fitted


def parts_of_scores(plain: dict[str, float], scaled: dict[str, float]) -> dict[str, float]:
    """What temperature scaling takes away of each proper score (calibration), and what it leaves (refinement).

    >>> parts_of_scores({"nll": 0.5, "brier": 0.25}, {"nll": 0.375, "brier": 0.25})["nll_calibration"]
    0.125
    """
    refinement = {f"{score}_refinement": scaled[score] for score in ("nll", "brier")}
    return refinement | {f"{score}_calibration": plain[score] - scaled[score] for score in ("nll", "brier")}


def every_metric(logits: Tensor, labels: Tensor, reading: Reading | None, num_bins: int) -> dict[str, float]:
    """Every metric of one split under one reading, and the ECE that a perfectly calibrated model would measure."""
    prediction = predict(logits, unknown=reading)
    values = {metric.__name__: metric(prediction, labels) for metric in UNBINNED}
    values |= {metric.__name__: metric(prediction, labels, num_bins) for metric in BINNED}
    values["ece_floor"] = metrics.floor(partial(metrics.ece, num_bins=num_bins), prediction, num_draws=20)
    values["unknown_share"] = prediction.unknown_share
    return values


def val_record(logits: Tensor, labels: Tensor, class_names: Sequence[str], num_bins: int) -> dict[str, Any]:
    """What an epoch records of the validation data, and why the run counts as collapsed, if it does."""
    num_classes = len(class_names)
    if not finite(logits):
        share = float((logits.argmax(dim=1) == num_classes).float().mean())
        return {"unknown_share": share, "collapsed": "the logits are not finite"}
    answers = predict(logits, "answer", num_classes)
    record = {"unknown_share": answers.unknown_share, "collapsed": collapse(answers, labels, class_names)}
    return record | calibration("val", logits, labels, num_classes, num_bins) | confidences(answers, labels)


def refinement(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    """The NLL of the known classes after temperature scaling: what no temperature can mend. NaN if it diverged."""
    if not finite(logits):
        return math.nan
    _, report, _ = fit_inverse_temperature(logits[:, :num_classes], labels)
    return report.nll_after


def finite(logits: Tensor) -> bool:
    """Whether the run has not diverged."""
    return bool(torch.isfinite(logits).all())


def calibration(name: str, logits: Tensor, labels: Tensor, num_classes: int, num_bins: int) -> dict[str, float]:
    """Accuracy and calibration errors, unknown being an answer, with `name_` before each; none if the run diverged.

    The NLL is that of the known classes alone.
    """
    if not finite(logits):
        return {}
    meter = CalibrationMeter(num_bins, num_classes)
    meter.update(predict(logits, "answer", num_classes), labels)
    values = meter.compute()
    record = {f"{name}_{key}": values[key] for key in ("accuracy", "ece", "ada_ece", "cw_ece")}
    record[f"{name}_nll"] = float(F.cross_entropy(logits[:, :num_classes].float(), labels))
    return record


def confidences(answers: Prediction, labels: Tensor) -> dict[str, float]:
    """Mean probability of the true and of the unknown class: overall, where the answer is right, where it is wrong."""
    p, predicted = torch.as_tensor(answers.probs), torch.as_tensor(answers.predicted)
    right = predicted == labels
    columns = {"true": p.gather(1, labels[:, None]).squeeze(1)}
    if has_unknown(p, answers.num_classes):
        columns["unknown"] = p[:, -1]
    record: dict[str, float] = {}
    for name, column in columns.items():
        parts = {"": column, "_right": column[right], "_wrong": column[~right]}
        record |= {f"confidence_{name}{key}": float(part.mean()) for key, part in parts.items()}  # NaN if there is none
    return record


def collapse(answers: Prediction, labels: Tensor, class_names: Sequence[str]) -> str | None:
    """Why answers count as collapsed, if they do; few samples, or one class, do not tell."""
    predicted = torch.as_tensor(answers.predicted)
    if answers.unknown_share > COLLAPSED_SHARE:
        return f"{100 * answers.unknown_share:.0f} % of the answers are 'unknown'"
    if len(predicted) >= FEWEST and bool((predicted == predicted[0]).all()) and bool((labels != labels[0]).any()):
        return f"every answer is class {class_names[int(predicted[0])]}"
    return None
