"""What an epoch leaves behind: one record of numbers, all computed from logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from socrates.metrics import CalibrationMeter, predict

COLLAPSED_SHARE = 0.5
FEWEST = 10  # samples that tell whether every answer is the same


def split_record(name: str, logits: Tensor, labels: Tensor, num_classes: int, num_bins: int) -> dict[str, float]:
    """Accuracy and calibration errors of a split, the unknown class read as an answer, with `name_` before each."""
    if not bool(torch.isfinite(logits).all()):
        return {}  # the run diverged: its collapse is recorded, its calibration means nothing
    unknown = logits.shape[1] > num_classes
    meter = CalibrationMeter(num_bins, num_classes)
    meter.update(predict(logits, unknown="answer" if unknown else None), labels)
    values = meter.compute()
    record = {f"{name}_{key}": values[key] for key in ("accuracy", "ece", "ada_ece", "cw_ece")}
    record[f"{name}_nll"] = float(F.cross_entropy(logits[:, :num_classes].float(), labels))
    return record


def confidence_record(logits: Tensor, labels: Tensor, num_classes: int) -> dict[str, float]:
    """Mean probability of the true and of the unknown class: overall, where the answer is right, where it is wrong."""
    if not bool(torch.isfinite(logits).all()):
        return {}
    p = logits.float().softmax(dim=1)
    right = p.argmax(dim=1) == labels
    columns = {"true": p.gather(1, labels[:, None]).squeeze(1)}
    if logits.shape[1] > num_classes:
        columns["unknown"] = p[:, -1]
    record: dict[str, float] = {}
    for name, column in columns.items():
        record[f"confidence_{name}"] = float(column.mean())
        record[f"confidence_{name}_right"] = float(column[right].mean())  # NaN if there is none
        record[f"confidence_{name}_wrong"] = float(column[~right].mean())
    return record


def collapse_record(logits: Tensor, labels: Tensor, class_names: Sequence[str]) -> dict[str, Any]:
    """Share of top-1 unknown, and why the run counts as collapsed, if it does; few samples, or one class, tell not."""
    answers = logits.argmax(dim=1)
    share = float((answers == len(class_names)).float().mean())
    reason = None
    if not bool(torch.isfinite(logits).all()):
        reason = "the logits are not finite"
    elif share > COLLAPSED_SHARE:
        reason = f"{100 * share:.0f} % of the answers are 'unknown'"
    elif len(answers) >= FEWEST and bool((answers == answers[0]).all()) and bool((labels != labels[0]).any()):
        reason = f"every answer is class {class_names[int(answers[0])]}"
    return {"unknown_share": share, "collapsed": reason}
