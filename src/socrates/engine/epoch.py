"""What an epoch leaves behind: one record of numbers, all computed from logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from socrates.metrics import CalibrationMeter, Prediction, has_unknown, predict

COLLAPSED_SHARE = 0.5
FEWEST = 10  # samples that tell whether every answer is the same


def train_record(logits: Tensor, labels: Tensor, num_classes: int, num_bins: int) -> dict[str, float]:
    """Accuracy and calibration errors of the training data, as the model saw them; none if the run diverged."""
    answers = answers_of(logits, num_classes)
    return {} if answers is None else calibration("train", answers, logits, labels, num_bins)


def val_record(logits: Tensor, labels: Tensor, class_names: Sequence[str], num_bins: int) -> dict[str, Any]:
    """The same of the validation data, with mean confidences, and why the run counts as collapsed, if it does."""
    answers = answers_of(logits, len(class_names))
    if answers is None:  # its calibration means nothing
        share = float((logits.argmax(dim=1) == len(class_names)).float().mean())
        return {"unknown_share": share, "collapsed": "the logits are not finite"}
    record: dict[str, Any] = {
        "unknown_share": answers.unknown_share,
        "collapsed": collapse(answers, labels, class_names),
    }
    return record | calibration("val", answers, logits, labels, num_bins) | confidences(answers, labels)


def answers_of(logits: Tensor, num_classes: int) -> Prediction | None:
    """What the logits answer, unknown being an answer; None if they are not finite."""
    return predict(logits, "answer", num_classes) if bool(torch.isfinite(logits).all()) else None


def calibration(name: str, answers: Prediction, logits: Tensor, labels: Tensor, num_bins: int) -> dict[str, float]:
    """Accuracy and calibration errors with `name_` before each; the NLL is that of the known classes alone."""
    meter = CalibrationMeter(num_bins, answers.num_classes)
    meter.update(answers, labels)
    values = meter.compute()
    record = {f"{name}_{key}": values[key] for key in ("accuracy", "ece", "ada_ece", "cw_ece")}
    record[f"{name}_nll"] = float(F.cross_entropy(logits[:, : answers.num_classes].float(), labels))
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
        record[f"confidence_{name}"] = float(column.mean())
        record[f"confidence_{name}_right"] = float(column[right].mean())  # NaN if there is none
        record[f"confidence_{name}_wrong"] = float(column[~right].mean())
    return record


def collapse(answers: Prediction, labels: Tensor, class_names: Sequence[str]) -> str | None:
    """Why answers count as collapsed, if they do; few samples, or one class, do not tell."""
    predicted = torch.as_tensor(answers.predicted)
    if answers.unknown_share > COLLAPSED_SHARE:
        return f"{100 * answers.unknown_share:.0f} % of the answers are 'unknown'"
    if len(predicted) >= FEWEST and bool((predicted == predicted[0]).all()) and bool((labels != labels[0]).any()):
        return f"every answer is class {class_names[int(predicted[0])]}"
    return None
