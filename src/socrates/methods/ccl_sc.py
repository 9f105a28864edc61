"""Confidence-aware contrastive learning for selective classification (CCL-SC, Wu et al. 2024)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from ..contracts import Batch, Classifier, Method, Output, ShareOfEpochs, Task
from ..losses import KeyQueue, contrastive_loss
from .logits_only import CrossEntropy
from .two_phase import two_phase

HALF = ShareOfEpochs(0.5)


class Contrastive(CrossEntropy):
    """CCL-SC from the first epoch: the momentum encoder starts as a copy of the model that `start_epoch` is given.

    After each step the encoder follows the model and answers the same batch, in training mode as the model did: its
    features are the keys, and its own answers say in which queue each of them belongs, and for which class it stands.

    To resume, call `start_epoch` before `load_state_dict`, so that there is something to load into, and again when
    the epoch starts.
    """

    needs_features = True
    encoder: Classifier | None
    correct: KeyQueue
    errors: KeyQueue

    def __init__(self, task: Task, weight: float, momentum: float, queue_size: int, temperature: float) -> None:
        super().__init__(task)
        if not (weight >= 0 and 0 <= momentum <= 1 and temperature > 0 and queue_size >= 1):
            raise ValueError(
                f"ccl_sc needs a weight of at least 0, a momentum in [0, 1], a temperature above 0 and a queue_size of "
                f"at least 1, got {weight=}, {momentum=}, {temperature=} and {queue_size=}"
            )
        self.weight, self.temperature = weight, temperature
        self.momentum, self.queue_size = momentum, queue_size
        self.pending: Batch | None = None  # of this step
        self._forget()

    def _forget(self) -> None:
        for part in ("correct", "errors", "encoder"):
            self.register_module(part, None)

    def start_epoch(self, epoch: int, model: Any) -> None:
        self.pending = None
        if self.encoder is None:
            device = model.head.weight.device
            self.correct = KeyQueue(self.queue_size, model.head.in_features).to(device)
            self.errors = KeyQueue(self.queue_size, model.head.in_features).to(device)
            self.encoder = momentum_encoder(model)

    def forward(self, model: Any, batch: Batch) -> Output:
        if self.encoder is None:
            raise RuntimeError("ccl_sc has no queues yet: call start_epoch(epoch, model) before the first step")
        features = model.features(batch.inputs)  # (B, D)
        logits = model.head(features)  # (B, C)
        confidence = logits.detach().softmax(dim=1).amax(dim=1)
        loss = self.validation_loss(logits, batch.labels)
        keys = self.correct.read(), self.errors.read()
        contrast = contrastive_loss(features, batch.labels, confidence, *keys, self.temperature)
        if self.training:
            self.pending = batch
        # A factor of 0 or 1 rather than a branch: the host need not know whether the queues are full.
        return Output(loss + self.weight * ((self.correct.full & self.errors.full) * contrast.mean()), logits)

    @torch.no_grad()
    def end_step(self, model: nn.Module) -> None:
        if self.encoder is None or self.pending is None:
            return
        follow(self.encoder, model, self.momentum)
        batch, self.pending = self.pending, None
        keys = self.encoder.features(batch.inputs)
        keys, predicted = batch.whole(keys), batch.whole(self.encoder.head(keys).argmax(dim=1))
        right = predicted == batch.labels
        for start in range(0, len(keys), self.correct.size):  # once, unless the batch is larger than a queue
            part = slice(start, start + self.correct.size)
            self.correct.enqueue(keys[part], predicted[part], keep=right[part])
            self.errors.enqueue(keys[part], predicted[part], keep=~right[part])

    def diagnostics(self) -> Mapping[str, Tensor]:
        """How full the emptier queue is: the contrastive term acts once both are full."""
        return {"queue_fill": torch.minimum(self.correct.fill, self.errors.fill)}

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        saved = [name for name in state_dict if name.startswith(f"{prefix}encoder.")]
        if not saved:
            self._forget()  # saved before the first epoch: the next start_epoch builds them
        elif self.encoder is None:
            raise RuntimeError(
                "ccl_sc has no encoder to load into: call start_epoch(epoch, model) before load_state_dict"
            )
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def momentum_encoder(model: Classifier) -> Classifier:
    """A copy of the model, without gradients."""
    copied: dict[int, Any] = {id(part): nn.Parameter(part.detach().clone(), False) for part in model.parameters()}
    copied |= {id(part): part.clone() for part in model.buffers()}
    return copy.deepcopy(model, copied)  # tensors come from `copied`: none brings its gradient along


@torch.no_grad()
def follow(encoder: nn.Module, model: nn.Module, momentum: float) -> None:
    """Move each tensor of the encoder to `momentum * itself + (1 - momentum) * the model's`; counters are copied.

    Each part of it trains or evaluates as the model's does, as in the original: see docs/fidelity.md.
    """
    mine, theirs = encoder.state_dict(), model.state_dict()
    smooth = [name for name, value in mine.items() if value.is_floating_point()]
    get_ema_multi_avg_fn(momentum)([mine[name] for name in smooth], [theirs[name] for name in smooth], 0)
    for name in mine.keys() - set(smooth):
        mine[name].copy_(theirs[name])
    for own, part in zip(encoder.modules(), model.modules(), strict=True):
        own.training = part.training


def ccl_sc(
    task: Task,
    *,
    weight: float = 0.5,
    momentum: float = 0.99,
    queue_size: int = 3000,
    temperature: float = 0.1,
    start_epoch: int | ShareOfEpochs = HALF,
) -> Method:
    """CCL-SC (Wu et al. 2024): a confidence-weighted contrastive term, after cross-entropy until `start_epoch`.

    By default that is half of the training, the paper's 150 of 300 epochs. The term acts once both queues are full,
    which errors may take long to do where there are few: `queue_fill` in the records says how full the emptier one is.

    Options:
        weight: of the contrastive term beside cross-entropy
        momentum: share of its past that the encoder of the keys keeps in a step
        queue_size: keys of right and of wrong answers that are remembered, each
        temperature: that similarities are divided by; the lower, the more the nearest keys count
        start_epoch: epochs of cross-entropy before the contrastive term, half of all by default
    """
    if isinstance(start_epoch, ShareOfEpochs):
        start_epoch = start_epoch.of(task.epochs)
    then = Contrastive(task, weight, momentum, queue_size, temperature)
    return two_phase(CrossEntropy(task), then, start_epoch)
