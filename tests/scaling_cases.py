"""Logits whose miscalibration is known, and slow independent measures of a fit."""

from functools import partial

import torch
from torch import Tensor

from socrates.scaling import MatrixScaling, StructuredScaling, VectorScaling

# The maps of the logits as they are, whose optimum is checked against the logits themselves.
vector_map = partial(VectorScaling, on="logits")
matrix_map = partial(MatrixScaling, on="logits")
structured_map = partial(StructuredScaling, on="logits")


def sampled(
    n: int, c: int, true_t: float, seed: int = 0, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Logits (n, c) and labels drawn from softmax(logits / true_t)."""
    generator = torch.Generator().manual_seed(seed)
    calibrated = 2.5 * torch.randn(n, c, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(calibrated.softmax(dim=1), 1, generator=generator).squeeze(1)
    return (true_t * calibrated).to(dtype), labels


def mixed(n: int, c: int, seed: int = 0, strength: float = 0.15) -> tuple[Tensor, Tensor]:
    """Logits whose columns leak into each other, which only a matrix can undo."""
    logits, labels = sampled(n, c, 1.5, seed)
    generator = torch.Generator().manual_seed(1000 + seed)
    leak = torch.eye(c) + strength * torch.randn(c, c, generator=generator)
    return logits @ leak.T + torch.randn(c, generator=generator), labels


def confident(n: int, c: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Log-probabilities of an overconfident classifier that is right four times of five, as
    networks on images are."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, c, (n,), generator=generator)
    logits = 1.5 * torch.randn(n, c, generator=generator)
    logits[torch.arange(n), labels] += 4 + 2 * torch.randn(n, generator=generator)
    return (1.8 * logits).log_softmax(dim=1), labels


def with_unknown(
    n: int, c: int, true_t: float, bias: float, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Logits (n, c + 1) whose `spread` reading is calibrated at temperature true_t and the given
    bias."""
    generator = torch.Generator().manual_seed(seed)
    calibrated = 2.5 * torch.randn(n, c + 1, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(spread(calibrated), 1, generator=generator).squeeze(1)
    calibrated[:, -1] -= bias
    return (true_t * calibrated).float(), labels


def spread(logits: Tensor) -> Tensor:
    """Probabilities of the known classes, the unknown one's shared out evenly."""
    s = logits.softmax(dim=1)
    return s[:, :-1] + s[:, -1:] / (s.shape[1] - 1)


def nll(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean NLL in float64."""
    return torch.nn.functional.cross_entropy(logits.double(), labels)


def ece(logits: Tensor, labels: Tensor, num_bins: int = 10) -> float:
    """Expected calibration error, equal-width bins."""
    confidence, predicted = logits.double().softmax(dim=1).max(dim=1)
    index = (confidence * num_bins).ceil().long().clamp(1, num_bins)
    gap = (predicted == labels).double() - confidence
    return float(sum(gap[index == i].sum().abs() for i in range(1, num_bins + 1)) / len(labels))
