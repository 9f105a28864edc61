"""What the methods share whose loss is a function of logits and labels alone."""

from __future__ import annotations

from torch import Tensor

from ..contracts import Batch, Classifier, Method


class LogitsOnly(Method):
    """A method without state: it trains on the objective that it reports on held-out data, `validation_loss`."""

    def forward(self, model: Classifier, batch: Batch, meta: Batch | None = None) -> Tensor:
        return self.validation_loss(model(batch.images), batch.labels)
