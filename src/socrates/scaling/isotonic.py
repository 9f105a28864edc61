"""Isotonic regression of one probability: of the second of two classes, or of the answer."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from socrates.arrays.open import Array
from socrates.isotonic import pool_adjacent_violators
from socrates.scaling.held_out import HeldOut, mean_nll, widen
from socrates.scaling.scaler import Fit, FitReport, Scaler

# How far an answer stays above the other classes, in nats: what single precision can tell.
MARGIN = 1e-5
# Up to this many logits float64 costs nothing that anyone would notice.
SMALL = 2**20


class IsotonicScaling(Scaler):
    """Recalibrates one probability by a rising function without parameters.

    It returns log-probabilities. Of two columns the probability is that of the second. Of more it
    is the confidence, the probability of the largest column, and the other classes share what is
    left in their old proportions; regressions of each class alone would need far more data, and
    contradict each other. Pool adjacent violators groups the samples, in the order of that
    probability, into blocks of rising frequency; one imagined wrong answer above the surest and one
    right below the least sure keep every frequency off 0 and 1, so that no NLL is infinite. Between
    the centres of the blocks the log-odds are interpolated, which had a lower test NLL than steps
    on all real data that was tried.

    Answers never change: where the confidence would fall below another class, it stays just above
    it. The order of samples by confidence is kept between the centres of the first and the last
    block; beyond, confidences are equal. An unknown class is refused. The fit is exact, so the
    gradient of the `report` is 0.

    >>> logits = torch.tensor([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0])  # of class 1
    >>> scaler = IsotonicScaling().fit(logits, torch.tensor([0, 1, 0, 0, 1, 1]))
    >>> scaler.probs(logits)[:, 1]  # one of four, then two of two, and an imagined one at each end
    tensor([0.4000, 0.4000, 0.4177, 0.5631, 0.6334, 0.6667])
    >>> scaler
    IsotonicScaling(blocks=2, columns=2)
    """

    title = "isotonic regression"
    short = "IR"
    usual = False
    knots: Tensor  # (K,) old log-odds at the centres of the blocks
    levels: Tensor  # (K,) the new ones there

    def __init__(self) -> None:
        super().__init__(knots=torch.zeros(0), levels=torch.zeros(0))

    def _fit(self, data: HeldOut) -> Fit:
        if data.unknown_class:
            raise ValueError(
                "IsotonicScaling.fit does not take an unknown class, whose probability is not a "
                "share of the others': use ReadoutScaling, or pass the columns of the known "
                "classes alone"
            )
        labels = data.labels.cpu()
        logits = data.logits.cpu()
        weight = None if data.weight is None else data.weight.cpu()
        logits = logits.double() if logits.numel() <= SMALL else widen(logits)
        odds = logits[:, 1] - logits[:, 0]
        event = labels == 1
        if logits.shape[1] > 2:
            odds, answer = _confidence(logits)
            event = labels == answer
        knots, levels = rising_log_odds(odds, event, weight)
        before = mean_nll(logits, labels, weight)
        after = mean_nll(_mapped(logits, knots, levels), labels, weight)
        report = FitReport(len(labels), 1, 0.0, before, after)
        return {"knots": knots, "levels": levels}, report, ""

    def transform(self, logits: Tensor) -> Tensor:
        """Return the calibrated log-probabilities of these logits."""
        return _mapped(logits, self.knots.to(logits), self.levels.to(logits))

    def extra_repr(self) -> str:
        """Return the number of blocks, and what every scaler shows."""
        blocks = "" if self.columns == 0 else f"blocks={len(self.knots)}, "
        return f"{blocks}{super().extra_repr()}"


def _confidence(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the log-odds of the largest column against all others, and which it is."""
    answer = logits.argmax(dim=-1, keepdim=True)
    others = logits.scatter(-1, answer, -torch.inf).logsumexp(dim=-1)
    return logits.gather(-1, answer).squeeze(-1) - others, answer.squeeze(-1)


def _mapped(logits: Tensor, knots: Tensor, levels: Tensor) -> Tensor:
    """Return the log-probabilities of logits under the function through the knots."""
    if logits.shape[-1] == 2:
        odds = _interpolated(logits[..., 1] - logits[..., 0], knots, levels)
        return torch.stack([logsigmoid(-odds), logsigmoid(odds)], dim=-1)
    odds, answer = _confidence(logits)
    odds = _interpolated(odds, knots, levels)[..., None]
    is_answer = torch.arange(logits.shape[-1], device=logits.device) == answer[..., None]
    others = logits.masked_fill(is_answer, -torch.inf).log_softmax(dim=-1) + logsigmoid(-odds)
    leading = torch.maximum(logsigmoid(odds), others.amax(dim=-1, keepdim=True) + MARGIN)
    return torch.where(is_answer, leading, others).log_softmax(dim=-1)


def _interpolated(x: Tensor, knots: Tensor, levels: Tensor) -> Tensor:
    """Return the piecewise linear function through the knots, constant beyond them."""
    if len(knots) == 1:
        return levels.expand_as(x)
    right = torch.bucketize(x.detach().contiguous(), knots).clamp(1, len(knots) - 1)
    left_x = knots[right - 1]
    left_y = levels[right - 1]
    width = (knots[right] - left_x).clamp(min=1e-30)
    return left_y + ((x - left_x) / width).clamp(0, 1) * (levels[right] - left_y)


def rising_log_odds(
    odds: Tensor, event: Tensor, weight: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the centres of the pooled blocks and the log-odds of the event there, (K,) float64.

    >>> odds = torch.tensor([-1.0, -1.0, 0.0, 2.0, 3.0])
    >>> centres, log_odds = rising_log_odds(odds, torch.tensor([0, 0, 1, 1, 1]))
    >>> centres.tolist(), log_odds.sigmoid().tolist()
    ([-1.0, 1.6666666666666667], [0.3333333333333333, 0.75])
    """
    values, group = np.unique(odds.cpu().double().numpy(), return_inverse=True)
    happened = event.cpu().double().numpy()
    each = np.ones_like(happened) if weight is None else weight.cpu().double().numpy()
    counts: Array = np.bincount(group, each)
    events: Array = np.bincount(group, happened * each)
    weights: Array = np.array(counts)
    # The imagined samples: each would be merged with its neighbour at once.
    events[0] += 1
    weights[0] += 1
    weights[-1] += 1
    blocks = pool_adjacent_violators(events.tolist(), weights.tolist())
    starts = np.cumsum([0, *(size for _, _, size in blocks[:-1])])
    centres = np.add.reduceat(values * counts, starts) / np.add.reduceat(counts, starts)
    levels = [math.log(total) - math.log(size - total) for total, size, _ in blocks]
    return torch.as_tensor(centres), torch.tensor(levels, dtype=torch.float64)
