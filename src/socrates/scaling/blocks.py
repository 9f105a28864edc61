"""The second derivative of an affine map's NLL, class by class: a preconditioner for its conjugate gradients."""

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor

CHUNK_ELEMENTS = 2**18
# A class's block is made of so many rows, for a full matrix those that weigh most.
MOST_ROWS_DIAGONAL, MOST_ROWS = 4096, 512
# Blocks of a full matrix grow with the third power of the classes: beyond so many all classes share one.
MOST_BLOCKS = 256
# Up to so many classes double precision costs nothing.
FEW = 32
# Beyond this the features of masked logits would only overflow.
LARGEST_FEATURE = 1e4
# What rounding may need to keep the blocks positive, relative to their largest number.
JITTER = 1e-6


class Blocks:
    """Mean of p_k (1 - p_k) x x^T for each class k, x being what theta multiplies for it, at temperature scaling."""

    def __init__(self, logits: Tensor, b: float, full: bool) -> None:
        self.penalty: float | Tensor | None = None
        self.blocks = _of_matrix(logits, b) if full else _of_diagonal(logits, b)

    def solve(self, penalty: float | Tensor, residual: Tensor) -> Tensor:
        """The inverse of blocks + penalty, applied to each class's row of the residual."""
        if penalty is not self.penalty:
            self.penalty = penalty
            self.inverse = self._inverse(torch.zeros_like(residual) + penalty)
        row = residual.to(self.inverse.dtype)
        solved = row @ self.inverse[0] if len(self.inverse) == 1 else (self.inverse @ row[:, :, None]).squeeze(2)
        return solved.to(residual.dtype)

    def _inverse(self, penalty: Tensor) -> Tensor:
        if len(self.blocks) == 1:
            penalty = penalty.mean(dim=0, keepdim=True)
        largest = self.blocks.diagonal(dim1=1, dim2=2).amax(dim=1, keepdim=True)
        positive = self.blocks + torch.diag_embed((penalty + JITTER * largest + 1e-30).to(self.blocks.dtype))
        factor = cast("Tensor", torch.linalg.cholesky(positive))  # pyright: ignore[reportUnknownMemberType]
        return torch.cholesky_inverse(factor)


def _of_diagonal(logits: Tensor, b: float) -> Tensor:
    """(C, 2, 2)."""
    x = _features(logits[:: 1 + len(logits) // MOST_ROWS_DIAGONAL], b)
    p = x.softmax(dim=1)
    weight = p * (1 - p)
    square, cross, one = (weight * x * x).mean(dim=0), (weight * x).mean(dim=0), weight.mean(dim=0)
    return torch.stack([square, cross, cross, one], dim=1).view(-1, 2, 2)


def _of_matrix(logits: Tensor, b: float) -> Tensor:
    """(C, C + 1, C + 1), or (1, C + 1, C + 1) for very many classes."""
    num_rows, num_classes = logits.shape
    x = _features(logits, b).to(torch.float32 if num_classes > FEW else torch.float64)
    p = x.softmax(dim=1).T
    weights = p * (1 - p)
    if num_classes > MOST_BLOCKS:
        weights = weights.mean(dim=0, keepdim=True)
    x = torch.nn.functional.pad(x, (0, 1), value=1.0)
    blocks: list[Tensor] = []
    for weight in weights:
        heavy, index = weight.topk(min(max(MOST_ROWS, 2 * num_classes), num_rows), sorted=False)
        some = x[index]
        blocks.append((some * heavy[:, None]).T @ some / num_rows)
    return torch.stack(blocks)


def _features(logits: Tensor, b: float) -> Tensor:
    return (b * logits.double()).clamp(-LARGEST_FEATURE, LARGEST_FEATURE)


def chunks(logits: Tensor) -> Iterator[slice]:
    """Slices of rows whose float64 copies stay small."""
    size = max(1, CHUNK_ELEMENTS // logits.shape[1])
    return (slice(start, start + size) for start in range(0, len(logits), size))
