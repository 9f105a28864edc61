"""The Trainer of Hugging Face transformers with the losses of this package."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..losses import IndexedDataset, SocratesLoss
from ..metrics import Prediction, accuracy, auroc, cw_ece, ece, floor, has_unknown, nll, predict
from ..metrics.predictions import Reading

try:
    import accelerate  # noqa: F401  # pyright: ignore[reportUnusedImport]
    from safetensors.torch import load_file, save_file
    from transformers import Trainer
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
except ImportError as error:
    raise ImportError(
        f"the Trainer needs transformers and accelerate ({error}): "
        f"pip install 'socrates-loss[transformers]'"
    ) from error

__all__ = ["SocratesMixin", "SocratesTrainer", "calibration_metrics", "labels_with_unknown"]

UNKNOWN = "unknown"
# What the loss remembers, beside the weights of a checkpoint.
LOSS_FILE = "socrates_loss.safetensors"


def labels_with_unknown(names: Sequence[str]) -> dict[str, Any]:
    """Return the options of `from_pretrained` for these classes and the unknown one, the last.

    >>> labels_with_unknown(["no", "yes"])["id2label"]
    {0: 'no', 1: 'yes', 2: 'unknown'}
    """
    labels = [*names, UNKNOWN]
    if len(set(labels)) < len(labels):
        raise ValueError(
            f"the names of classes must differ from each other and from {UNKNOWN!r}, "
            f"got {[*names]}: the unknown class is added here"
        )
    return {
        "num_labels": len(labels),
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
    }


def calibration_metrics(
    num_classes: int, unknown: Reading = "spread"
) -> Callable[[Any], dict[str, float]]:
    """Return a `compute_metrics` for the Trainer: accuracy, ece, ece_floor, cw_ece and nll.

    They are those of the rows with a known class. If some rows have the label `num_classes`, the
    unknown class, and the model has a column for it, `unknown_auroc` says how well its probability
    separates these rows from the others, and `unknown_recall` which share of them it answers.
    `ece_floor` is the ECE that a perfectly calibrated model with these confidences would measure.

    Args:
        num_classes: the number of known classes.
        unknown: how to read the unknown column, see `metrics.predict`; without one it is ignored.

    >>> logits = np.array([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
    >>> values = calibration_metrics(num_classes=2)((logits, np.array([0, 1, 2])))
    >>> values["accuracy"], values["unknown_auroc"], values["unknown_recall"]
    (1.0, 1.0, 1.0)
    """

    def compute(evaluated: Any) -> dict[str, float]:
        outputs, labels = evaluated
        # A model that returns more than logits returns them first.
        logits = outputs[0] if isinstance(outputs, tuple) else outputs
        is_known = np.asarray(labels) != num_classes
        if not is_known.any():
            raise ValueError(
                f"all {len(is_known)} labels are {num_classes}, the unknown class: "
                f"evaluate on rows of known classes, too"
            )
        known = predict(logits[is_known], unknown, num_classes)
        values = known_values(known, labels[is_known])
        if not is_known.all() and has_unknown(logits, num_classes):
            values |= unknown_values(predict(logits, "answer"), is_known)
        return values

    return compute


def known_values(prediction: Prediction, labels: Any) -> dict[str, float]:
    """Return the metrics of rows of known classes."""
    return {
        "accuracy": accuracy(prediction, labels),
        "ece": ece(prediction, labels),
        "ece_floor": floor(ece, prediction),
        "cw_ece": cw_ece(prediction, labels),
        "nll": nll(prediction, labels),
    }


def unknown_values(answered: Prediction, is_known: Any) -> dict[str, float]:
    """Return how well the unknown column finds the rows that are labelled unknown."""
    p_known = 1 - answered.probs[:, -1]
    column = answered.probs.shape[1] - 1
    return {
        "unknown_auroc": auroc(p_known[is_known], p_known[~is_known]),
        "unknown_recall": float((answered.predicted[~is_known] == column).mean()),
    }


class SocratesMixin:
    """Train with a loss of this package; put it in front of a Trainer of your own.

    It adds each sample's index to the training set, whatever `remove_unused_columns` says, divides
    the loss by the accumulation steps, and saves and restores what the loss remembers with the
    checkpoints of the Trainer. The loss is not a part of the model: `save_model` writes the plain
    model, which `from_pretrained` and `pipeline` read.

    Args:
        args, options: those of the Trainer.
        loss: a loss module of `socrates.losses`; by default `SocratesLoss(len(train_dataset))`.
            For rows that are labelled unknown, pass `SocratesLoss(..., unknown_label=True)`.
        unknown: how `calibration_metrics`, the default of `compute_metrics`, reads the unknown
            column.
    """

    # The loss is a mean over its own batch.
    loss_is_scaled_for_ga = False

    def __init__(
        self, *args: Any, loss: nn.Module | None = None, unknown: Reading = "spread", **options: Any
    ) -> None:
        super().__init__(*args, **options)
        trainer: Any = self
        self._refuse_other_losses(trainer)
        trainer.model_accepts_loss_kwargs = False
        data = trainer.train_dataset
        if loss is None:
            loss = SocratesLoss(len(data) if hasattr(data, "__len__") else None)
        self.loss = loss.to(trainer.args.device)
        if data is not None and self.remembers:
            trainer.train_dataset = self._indexed(data)
        num_labels = getattr(getattr(trainer.model, "config", None), "num_labels", None)
        if trainer.compute_metrics is None and num_labels is not None:
            num_classes = num_labels - getattr(loss, "unknown", False)
            trainer.compute_metrics = calibration_metrics(num_classes, unknown)

    @property
    def remembers(self) -> bool:
        """Return whether the loss holds one target per training sample."""
        return getattr(self.loss, "target", None) is not None

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """Return the loss of a batch, with the outputs of the model if they are asked for."""
        columns = dict(inputs)
        index = columns.pop("index", None)
        labels = columns.pop("labels", None)
        if labels is None:
            raise ValueError(
                f"the batch has no labels, only {sorted(columns)}: name the column 'labels' or "
                f"'label'"
            )
        outputs = model(**columns)
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
        # Nobody else calls train() and eval() of a loss outside the model.
        self.loss.train(model.training)
        loss = self.loss(logits, labels, index) if self.remembers else self.loss(logits, labels)
        if not return_outputs:
            return loss
        return loss, outputs if isinstance(outputs, dict) else (loss, *outputs)

    def _set_signature_columns_if_needed(self) -> None:
        trainer: Any = super()
        trainer._set_signature_columns_if_needed()
        columns = vars(self)["_signature_columns"]
        if "index" not in columns:
            columns.append("index")

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Write what the loss remembers first: a checkpoint that looks complete has it."""
        trainer: Any = self
        state = self.loss.state_dict()
        if state and trainer.args.should_save:
            run = trainer._get_output_dir(trial=trial)
            folder = os.path.join(run, f"{PREFIX_CHECKPOINT_DIR}-{trainer.state.global_step}")
            os.makedirs(folder, exist_ok=True)
            tensors = {name: value.cpu().contiguous() for name, value in state.items()}
            save_file(tensors, os.path.join(folder, LOSS_FILE))
        parent: Any = super()
        parent._save_checkpoint(model, trial)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        parent: Any = super()
        parent._load_from_checkpoint(resume_from_checkpoint, model)
        if not self.loss.state_dict():
            return
        path = os.path.join(resume_from_checkpoint, LOSS_FILE)
        if not os.path.isfile(path):
            raise ValueError(
                f"{resume_from_checkpoint} has no {LOSS_FILE}, so the loss would start again from "
                f"targets of 1: resume from a checkpoint that this Trainer wrote, or load its "
                f"weights into the model and train without resuming"
            )
        self.loss.load_state_dict(load_file(path))

    def _indexed(self, data: Any) -> IndexedDataset:
        """Return the training set with an index, whose length must be that of the targets."""
        if not hasattr(data, "__len__"):
            raise ValueError(
                f"the loss remembers its samples, and {type(data).__name__} has no length: "
                f"pass loss=SocratesLoss(None) for a stream"
            )
        num_targets = len(torch.as_tensor(self.loss.target))
        if num_targets != len(data):
            raise ValueError(
                f"the loss was made for {num_targets} samples, the training set has {len(data)}: "
                f"make it with num_samples={len(data)}"
            )
        return data if isinstance(data, IndexedDataset) else IndexedDataset(data)

    def _refuse_other_losses(self, trainer: Any) -> None:
        if trainer.compute_loss_func is not None:
            raise ValueError("compute_loss_func would not be called: pass the loss as loss=")
        if trainer.args.label_smoothing_factor:
            raise ValueError(
                f"label_smoothing_factor={trainer.args.label_smoothing_factor} would be ignored: "
                f"pass loss=FocalLoss(0, label_smoothing=...) instead"
            )


class SocratesTrainer(SocratesMixin, Trainer):
    """The Trainer with a loss of this package, see `SocratesMixin`."""
