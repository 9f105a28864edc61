"""Isotonic regression of one probability: that of the second of two classes, or of the answer among more."""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, logsigmoid

from socrates.scaling.scaler import Fit, FitReport, Scaler

# How far an answer stays above the other classes, in nats: what single precision can tell.
MARGIN = 1e-5
# Up to this many logits float64 costs nothing that anyone would notice.
SMALL = 2**20


class IsotonicScaling(Scaler):
    """Recalibrates one probability by a rising function without parameters; returns log-probabilities.

    Of two columns that is the probability of the second. Of more it is the confidence, the probability of the largest
    column, and the other classes share what is left in their old proportions; regressions of each class on its own
    would need far more data, and contradict each other. Pool adjacent violators groups the samples, in the order of
    that probability, into blocks of rising frequency; one imagined wrong answer above the surest and one right below
    the least sure keep every frequency off 0 and 1, so that no NLL is infinite. Between the centres of the blocks the
    log-odds are interpolated, which had the lower test NLL than steps on all real data that was tried.

    Answers never change: where the confidence would fall below another class, it stays just above it. The order of
    samples by confidence is kept between the centres of the first and the last block; beyond, confidences are equal.
    An unknown class is refused. The fit is exact, so the gradient of the `report` is 0.

    >>> logits = torch.tensor([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 2.0], [0.0, 3.0]])
    >>> scaler = IsotonicScaling().fit(logits, torch.tensor([0, 1, 0, 0, 1, 1]))
    >>> scaler(logits).exp()[:, 1]  # one of four, then two of two, with an imagined sample at each end
    tensor([0.4000, 0.4000, 0.4177, 0.5631, 0.6334, 0.6667])
    >>> scaler
    IsotonicScaling(blocks=2, columns=2)
    """

    title, short, usual = "isotonic regression", "IR", False
    knots: Tensor  # (K,) old log-odds at the centres of the blocks
    levels: Tensor  # (K,) the new ones there

    def __init__(self) -> None:
        super().__init__(knots=torch.zeros(0), levels=torch.zeros(0))

    def _fit(self, logits: Tensor, labels: Tensor, unknown_class: bool) -> Fit:
        if unknown_class:
            raise ValueError(
                "IsotonicScaling.fit does not take an unknown class, whose probability is no share of the others': "
                "use ReadoutScaling, or pass the columns of the known classes alone"
            )
        y, z = labels.cpu(), logits.cpu()
        z = z.double() if z.numel() <= SMALL else z.to(torch.promote_types(z.dtype, torch.float32))
        odds, answer = (z[:, 1] - z[:, 0], 1) if z.shape[1] == 2 else _confidence(z)
        knots, levels = rising_log_odds(odds, y == answer)
        before, after = (float(cross_entropy(outputs, y)) for outputs in (z, _mapped(z, knots, levels)))
        return {"knots": knots, "levels": levels}, FitReport(len(y), 1, 0.0, before, after), ""

    def transform(self, logits: Tensor) -> Tensor:
        """Log-probabilities."""
        return _mapped(logits, self.knots.to(logits), self.levels.to(logits))

    def extra_repr(self) -> str:
        """The number of blocks too."""
        return super().extra_repr() if self.columns == 0 else f"blocks={len(self.knots)}, {super().extra_repr()}"


def _confidence(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Log-odds of the largest column against all others, and which it is."""
    answer = logits.argmax(dim=-1, keepdim=True)
    others = logits.scatter(-1, answer, -torch.inf).logsumexp(dim=-1)
    return logits.gather(-1, answer).squeeze(-1) - others, answer.squeeze(-1)


def _mapped(logits: Tensor, knots: Tensor, levels: Tensor) -> Tensor:
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
    """The piecewise linear function through the knots, constant beyond the first and the last."""
    if len(knots) == 1:
        return levels.expand_as(x)
    right = torch.bucketize(x.detach().contiguous(), knots).clamp(1, len(knots) - 1)
    left_x, left_y = knots[right - 1], levels[right - 1]
    width = (knots[right] - left_x).clamp(min=1e-30)
    return left_y + ((x - left_x) / width).clamp(0, 1) * (levels[right] - left_y)


def rising_log_odds(odds: Tensor, event: Tensor) -> tuple[Tensor, Tensor]:
    """Centres of the blocks of pool adjacent violators, and the log-odds of the event there, each (K,) in float64.

    >>> centres, log_odds = rising_log_odds(torch.tensor([-1.0, -1.0, 0.0, 2.0, 3.0]), torch.tensor([0, 0, 1, 1, 1]))
    >>> centres.tolist(), log_odds.sigmoid().tolist()
    ([-1.0, 1.6666666666666667], [0.3333333333333333, 0.75])
    """
    values, which, counts = np.unique(odds.cpu().double().numpy(), return_inverse=True, return_counts=True)
    events, weights = np.bincount(which, event.cpu().double().numpy()), counts.astype(np.float64)
    # The imagined samples: each would be merged with its neighbour at once.
    events[0] += 1
    weights[0] += 1
    weights[-1] += 1
    blocks = pool_adjacent_violators(events.tolist(), weights.tolist())
    starts = np.cumsum([0, *(size for _, _, size in blocks[:-1])])
    centres = np.add.reduceat(values * counts, starts) / np.add.reduceat(counts, starts)
    levels = [math.log(happened) - math.log(total - happened) for happened, total, _ in blocks]
    return torch.as_tensor(centres), torch.tensor(levels, dtype=torch.float64)


def pool_adjacent_violators(sums: list[float], weights: list[float]) -> list[tuple[float, float, int]]:
    """Merges neighbours until the means, sum / weight, rise: of each block its sum, its weight and how many it merged.

    >>> pool_adjacent_violators([1.0, 3.0, 2.0, 9.0], [1.0, 1.0, 1.0, 2.0])
    [(1.0, 1.0, 1), (5.0, 2.0, 2), (9.0, 2.0, 1)]
    """
    blocks: list[tuple[float, float, int]] = []
    for total, weight in zip(sums, weights, strict=True):
        size = 1
        while blocks and blocks[-1][0] * weight >= total * blocks[-1][1]:
            left_total, left_weight, left_size = blocks.pop()
            total, weight, size = total + left_total, weight + left_weight, size + left_size
        blocks.append((total, weight, size))
    return blocks
