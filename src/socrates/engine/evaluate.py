"""The logits of a split, every metric that follows from them, and the record of an epoch."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from socrates import metrics
from socrates.arrays.entries import open_top
from socrates.contracts import Split
from socrates.engine.open_world import measure_strangers
from socrates.engine.ranks import ALONE, Ranks
from socrates.experiment import Experiment
from socrates.metrics import CalibrationMeter, Prediction, has_unknown, predict
from socrates.metrics.predictions import Reading
from socrates.records import Evaluation, Run
from socrates.records.evaluation import RowEvidence
from socrates.records.predictions import Predictions
from socrates.scaling import SCALERS, Scaler
from socrates.scaling.held_out import HeldOut
from socrates.scaling.temperature import fit_inverse_temperature

EVAL_BATCH = 512
FLOOR_DRAWS = 100  # for the ECE that most perfectly calibrated models stay below
FLOOR_QUANTILE = 0.95
COLLAPSED_SHARE = 0.5
# The columns VS and MS of a run are the paper's maps, of the logits as they are, so that runs of
# all versions can be compared.
SCALER_OPTIONS: dict[str, dict[str, Any]] = {
    "vector": {"on": "logits"},
    "matrix": {"on": "logits"},
}
FEWEST_FOR_COLLAPSE = 10  # samples that show whether every answer is the same


@torch.no_grad()
def infer(model: Any, split: Split, ranks: Ranks = ALONE) -> Tensor:
    """Return the logits of a split, in order and single precision; each rank computes a part."""
    model.eval()
    order = torch.arange(len(split))[ranks.part_or_one(len(split))]
    logits = torch.cat([model(batch.inputs).float() for batch in split.batches(EVAL_BATCH, order)])
    return ranks.gather(logits, len(split))


def evaluate(run: Run, epoch: int | None = None) -> Evaluation:
    """Return the metrics of val and test for each scaler and each reading of the unknown class.

    Scalers are fitted on val, or on the training data that the run held out. The evaluation's
    `parameters[scaler]` are the single numbers that were fitted, such as the temperature. By
    default the chosen epoch is evaluated. Where the run keeps predictions for strangers, they are
    measured, too.
    """
    evaluation = evaluate_fitted(run, epoch)[0]
    return replace(evaluation, strangers=measure_strangers(run, evaluation.epoch))


def evaluate_fitted(run: Run, epoch: int | None = None) -> tuple[Evaluation, dict[str, Scaler]]:
    """Return the evaluation of the usual scalers, and every scaler that could be fitted."""
    kept = run.kept_epochs()
    if not kept:
        raise ValueError(
            f"{run.directory} holds no saved logits yet: train it to a kept epoch first"
        )
    if epoch is None:
        chosen = run.chosen_epoch()
        epoch = chosen if chosen in kept else kept[-1]
    stored = {name: run.predictions(name, epoch) for name in ("val", "test")}
    splits = {name: _tensors(part) for name, part in stored.items()}
    fitting = fitting_split(run.experiment)
    to_fit = splits[fitting] if fitting in splits else _tensors(run.predictions(fitting, epoch))
    num_bins = run.experiment.num_bins
    unknown = has_unknown(splits["val"][0], stored["val"].num_classes)
    usable: dict[str, Scaler] = {
        name: make(**SCALER_OPTIONS.get(name, {}))
        for name, make in SCALERS.items()
        if unknown or not make.needs_unknown_class
    }
    evaluated = ["none", *(name for name in usable if getattr(SCALERS[name], "usual", True))]
    if not all(finite(logits) for logits, _ in (*splits.values(), to_fit)):
        diverged = dict.fromkeys(evaluated, "the run diverged: its logits are not finite")
        return Evaluation(epoch, num_bins, unknown, {}, diverged), {}
    fitted, errors = _fitted(usable, to_fit, unknown)
    results: dict[str, Any] = {}
    parameters: dict[str, dict[str, float]] = {}
    evidence: dict[str, dict[str, Any]] = {}
    for name in evaluated:
        if name in errors:
            continue
        scaler = fitted.get(name)  # "none" has no scaler
        results[name] = {
            split: _by_reading(
                logits if scaler is None else scaler(logits), labels, unknown, num_bins
            )
            for split, (logits, labels) in splits.items()
        }
        logits, labels = splits["test"]
        scaled = logits if scaler is None else scaler(logits)
        evidence[name] = row_evidence(scaled, labels, unknown, num_bins)
        if scaler is not None and (numbers := _single_numbers(scaler)):
            parameters[name] = numbers
    for split, by_reading in results.get("temperature", {}).items():
        for reading, scaled in by_reading.items():
            plain = results["none"][split][reading]
            plain |= parts_of_scores(plain, scaled)
    skipped = {name: error for name, error in errors.items() if name in evaluated}
    record = Evaluation(epoch, num_bins, unknown, results, skipped, parameters, evidence)
    return record, fitted


def fitting_split(experiment: Experiment) -> str:
    """Return the name of the split that fits the scalers of a run.

    >>> from socrates.experiment import Part
    >>> fitting_split(Experiment(Part("digits"), Part("mlp"), Part("ce"), holdout=0.1))
    'holdout'
    """
    return "holdout" if experiment.holdout else "val"


def _tensors(rows: Predictions) -> tuple[Tensor, Tensor]:
    return torch.tensor(rows.logits), torch.tensor(rows.labels).long()


def _fitted(
    scalers: dict[str, Scaler], rows: tuple[Tensor, Tensor], unknown: bool
) -> tuple[dict[str, Scaler], dict[str, str]]:
    """Fit scalers on these rows; return those that were fitted, and the others' errors."""
    fitted: dict[str, Scaler] = {}
    errors: dict[str, str] = {}
    for name, scaler in scalers.items():
        try:
            with warnings.catch_warnings():
                # a limit without optimum is a result here, and shows in the numbers
                warnings.simplefilter("ignore")
                scaler.fit(*rows, unknown_class=unknown)
            fitted[name] = scaler
        except ValueError as error:
            errors[name] = str(error)
    return fitted, errors


def _by_reading(
    logits: Tensor, labels: Tensor, unknown: bool, num_bins: int
) -> dict[str, dict[str, float]]:
    """Return every metric of a split, for each reading of the unknown class."""
    readings = tuple(metrics.READINGS) if unknown else (None,)
    return {
        reading or "plain": every_metric(logits, labels, reading, num_bins) for reading in readings
    }


def row_evidence(logits: Tensor, labels: Tensor, unknown: bool, num_bins: int) -> dict[str, Any]:
    """Return what a comparison row by row takes, with the usual reading of the unknown class."""
    reading = next(iter(metrics.READINGS)) if unknown else None
    top = open_top(predict(logits, unknown=reading), labels)
    measure = partial(metrics.ece, num_bins=num_bins)
    high = metrics.floor(
        measure, confidence=top.confidence, num_draws=FLOOR_DRAWS, quantile=FLOOR_QUANTILE
    )
    return RowEvidence.of(top.confidence, top.correct, high).to_json()


def _single_numbers(scaler: Scaler) -> dict[str, float]:
    """Return the fitted parameters that are one number each."""
    return {name: float(value) for name, value in scaler.named_buffers() if value.numel() == 1}


def parts_of_scores(plain: dict[str, float], scaled: dict[str, float]) -> dict[str, float]:
    """Divide each proper score into what temperature scaling removes, and what it leaves.

    The first is its calibration, the second its refinement.

    >>> before, after = {"nll": 0.5, "brier": 0.25}, {"nll": 0.375, "brier": 0.25}
    >>> parts_of_scores(before, after)["nll_calibration"]
    0.125
    """
    scores = ("nll", "brier")
    refinement = {f"{score}_refinement": scaled[score] for score in scores}
    calibration = {f"{score}_calibration": plain[score] - scaled[score] for score in scores}
    return refinement | calibration


def every_metric(
    logits: Tensor, labels: Tensor, reading: Reading | None, num_bins: int
) -> dict[str, float]:
    """Return every metric of one split under one reading, and the share of unknown."""
    prediction = predict(logits, unknown=reading)
    values = {
        name: metric.measure(prediction, labels, num_bins)
        for name, metric in metrics.METRICS.items()
    }
    values["unknown_share"] = prediction.unknown_share
    return values


def val_record(
    logits: Tensor, labels: Tensor, class_names: Sequence[str], num_bins: int
) -> dict[str, Any]:
    """Return what an epoch records of the validation data, and why it is collapsed, if it is."""
    num_classes = len(class_names)
    if not finite(logits):
        share = float((logits.argmax(dim=1) == num_classes).float().mean())
        return {"unknown_share": share, "collapsed": "the logits are not finite"}
    answers = predict(logits, "answer", num_classes)
    record: dict[str, Any] = {"unknown_share": answers.unknown_share}
    record["collapsed"] = collapse(answers, labels, class_names)
    record |= calibration("val", logits, labels, num_classes, num_bins)
    return record | confidences(answers, labels)


def refinement(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    """Return the NLL of the known classes after temperature scaling, NaN if the run diverged."""
    if not finite(logits):
        return math.nan
    _, report, _ = fit_inverse_temperature(HeldOut(logits[:, :num_classes], labels))
    return report.nll_after


def finite(logits: Tensor) -> bool:
    """Return whether all logits are finite: the run has not diverged."""
    return bool(torch.isfinite(logits).all())


def calibration(
    name: str, logits: Tensor, labels: Tensor, num_classes: int, num_bins: int
) -> dict[str, float]:
    """Return accuracy and calibration errors, with `name_` before each; nothing if it diverged.

    Unknown counts as an answer; the NLL is that of the known classes alone.
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
    """Return the mean probability of the true and of the unknown class.

    Each is measured overall, where the answer is right, and where it is wrong.
    """
    probs = torch.as_tensor(answers.probs)
    right = torch.as_tensor(answers.predicted) == labels
    columns = {"true": probs.gather(1, labels[:, None]).squeeze(1)}
    if has_unknown(probs, answers.num_classes):
        columns["unknown"] = probs[:, -1]
    record: dict[str, float] = {}
    for name, column in columns.items():
        parts = {"": column, "_right": column[right], "_wrong": column[~right]}
        # NaN if there is none
        record |= {f"confidence_{name}{key}": float(part.mean()) for key, part in parts.items()}
    return record


def collapse(answers: Prediction, labels: Tensor, class_names: Sequence[str]) -> str | None:
    """Return why answers count as collapsed, if they do; few samples, or one class, never do."""
    predicted = torch.as_tensor(answers.predicted)
    if answers.unknown_share > COLLAPSED_SHARE:
        return f"{100 * answers.unknown_share:.0f}% of the answers are 'unknown'"
    if len(predicted) < FEWEST_FOR_COLLAPSE:
        return None
    is_one_answer = bool((predicted == predicted[0]).all())
    are_many_classes = bool((labels != labels[0]).any())
    if is_one_answer and are_many_classes:
        return f"every answer is class {class_names[int(predicted[0])]}"
    return None
