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
CONTRASTED = ("features", "logits")


class Contrastive(CrossEntropy):
    """CCL-SC from the first epoch, with a momentum encoder that starts as a copy of the model.

    After each step the encoder follows the model and answers the same batch, in training mode as
    the model did: its features are the keys, and its own answers say in which queue each of them
    belongs, and for which class it stands.

    To resume, call `start_epoch` before `load_state_dict`, so that there is something to load into,
    and again when the epoch starts.
    """

    needs_features = True
    extra_passes = 1  # of the encoder of keys
    model_copies = 1
    encoder: Classifier | None
    correct: KeyQueue
    errors: KeyQueue

    def __init__(
        self,
        task: Task,
        weight: float,
        momentum: float,
        queue_size: int,
        temperature: float,
        contrast_on: str = "features",
    ) -> None:
        super().__init__(task)
        if contrast_on not in CONTRASTED:
            raise ValueError(f"contrast_on must be features or logits, got {contrast_on!r}")
        self.contrast_on = contrast_on
        if not (weight >= 0 and 0 <= momentum <= 1 and temperature > 0 and queue_size >= 1):
            raise ValueError(
                f"ccl_sc needs a weight of at least 0, a momentum in [0, 1], a temperature above 0 "
                f"and a queue_size of at least 1, "
                f"got {weight=}, {momentum=}, {temperature=} and {queue_size=}"
            )
        self.weight = weight
        self.temperature = temperature
        self.momentum = momentum
        self.queue_size = queue_size
        self.pending: Batch | None = None  # of this step
        self._forget()

    def _forget(self) -> None:
        for part in ("correct", "errors", "encoder"):
            self.register_module(part, None)

    def start_epoch(self, epoch: int, model: Any) -> None:
        self.pending = None
        if self.encoder is None:
            device = model.head.weight.device
            width = model.head.in_features
            if self.contrast_on == "logits":
                width = model.head.out_features
            self.correct = KeyQueue(self.queue_size, width).to(device)
            self.errors = KeyQueue(self.queue_size, width).to(device)
            self.encoder = momentum_encoder(model)

    def forward(self, model: Any, batch: Batch) -> Output:
        if self.encoder is None:
            raise RuntimeError(
                "ccl_sc has no queues yet: call start_epoch(epoch, model) before the first step"
            )
        features = model.features(batch.inputs)  # (B, D)
        logits = model.head(features)  # (B, C)
        confidence = logits.detach().softmax(dim=1).amax(dim=1)
        loss = self.validation_loss(logits, batch.labels)
        contrast = contrastive_loss(
            logits if self.contrast_on == "logits" else features,
            batch.labels,
            confidence,
            self.correct.read(),
            self.errors.read(),
            self.temperature,
        )
        if self.training:
            self.pending = batch
        # A factor of 0 or 1 rather than a branch: the host need not know whether the queues are
        # full.
        both_full = self.correct.full & self.errors.full
        return Output(loss + self.weight * (both_full * contrast.mean()), logits)

    @torch.no_grad()
    def end_step(self, model: nn.Module) -> None:
        if self.encoder is None or self.pending is None:
            return
        follow(self.encoder, model, self.momentum)
        batch = self.pending
        self.pending = None
        features = self.encoder.features(batch.inputs)
        logits = self.encoder.head(features)
        keys = batch.whole(logits if self.contrast_on == "logits" else features)
        predicted = batch.whole(logits.argmax(dim=1))
        right = predicted == batch.labels
        # One turn, unless the batch is larger than a queue.
        for start in range(0, len(keys), self.correct.size):
            part = slice(start, start + self.correct.size)
            self.correct.enqueue(keys[part], predicted[part], keep=right[part])
            self.errors.enqueue(keys[part], predicted[part], keep=~right[part])

    def diagnostics(self) -> Mapping[str, Tensor]:
        """Return how full the emptier queue is: the contrastive term acts once both are full."""
        return {"queue_fill": torch.minimum(self.correct.fill, self.errors.fill)}

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        saved = [name for name in state_dict if name.startswith(f"{prefix}encoder.")]
        if not saved:
            self._forget()  # saved before the first epoch: the next start_epoch builds them
        elif self.encoder is None:
            raise RuntimeError(
                "ccl_sc has no encoder to load into: call start_epoch(epoch, model) before "
                "load_state_dict"
            )
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def momentum_encoder(model: Classifier) -> Classifier:
    """Return a copy of the model, without gradients."""
    copied: dict[int, Any] = {
        id(part): nn.Parameter(part.detach().clone(), False) for part in model.parameters()
    }
    copied |= {id(part): part.clone() for part in model.buffers()}
    # Tensors come from `copied`: none brings its gradient along, and fake tensors cannot be copied
    # deeply.
    return copy.deepcopy(model, copied)


@torch.no_grad()
def follow(encoder: nn.Module, model: nn.Module, momentum: float) -> None:
    """Move each tensor of the encoder to `momentum * itself + (1 - momentum) * the model's`.

    Counters are copied. Each part of it trains or evaluates as the model's does, as in the
    original: see docs/fidelity.md.
    """
    followers = encoder.state_dict()
    leaders = model.state_dict()
    smooth = [name for name, value in followers.items() if value.is_floating_point()]
    average = get_ema_multi_avg_fn(momentum)
    average([followers[name] for name in smooth], [leaders[name] for name in smooth], 0)
    for name in followers.keys() - set(smooth):
        followers[name].copy_(leaders[name])
    for follower, leader in zip(encoder.modules(), model.modules(), strict=True):
        follower.training = leader.training


def ccl_sc(
    task: Task,
    *,
    weight: float = 0.5,
    momentum: float = 0.99,
    queue_size: int = 3000,
    temperature: float = 0.1,
    contrast_on: str = "features",
    start_epoch: int | ShareOfEpochs = HALF,
) -> Method:
    """Train by CCL-SC (Wu et al. 2024): a contrastive term joins cross-entropy at `start_epoch`.

    The term is weighted by confidence. By default `start_epoch` is half of the training, the
    paper's 150 of 300 epochs. The term acts once both queues are full, which errors may take long
    to do where there are few: `queue_fill` in the records says how full the emptier one is.

    Options:
        weight: weight of the contrastive term, which is added to cross-entropy
        momentum: momentum of the key encoder: the share of its weights that it keeps in a step
        queue_size: number of keys in each of the two queues, of correct and of wrong predictions
        temperature: divisor of the similarities; the lower it is, the more the nearest keys count
        contrast_on: what is compared with the keys: the features that the last layer reads, or its
            logits, as the released code did for both ViTs
        start_epoch: number of epochs of cross-entropy before the contrastive term; by default half
            of all epochs
    """
    if isinstance(start_epoch, ShareOfEpochs):
        start_epoch = start_epoch.of(task.epochs)
    then = Contrastive(task, weight, momentum, queue_size, temperature, contrast_on)
    return two_phase(CrossEntropy(task), then, start_epoch)


# half of the other methods', as in its paper
ccl_sc.usual_batch_size = 64  # pyright: ignore[reportFunctionMemberAccess]
