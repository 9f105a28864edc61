"""How strongly matrix scaling is drawn to temperature scaling, chosen on the fit data itself."""

import math

import torch
from torch import Tensor

from socrates.scaling.affine import known_columns
from socrates.scaling.convex import minimize
from socrates.scaling.matrixnll import MatrixNLL
from socrates.scaling.temperature import fit_inverse_temperature

# From "temperature scaling itself" to "almost free", in half decades.
STRENGTHS = (math.inf, 1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6)
NUM_FOLDS = 5
# The folds only rank strengths, whose NLLs differ by far more than such a gradient leaves.
FOLD_TOLERANCE = 1e-3


def choose_strength(logits: Tensor, labels: Tensor, present: Tensor) -> float:
    """The largest strength whose held-out NLL is close to the best: three standard errors for infinity, one for others.

    So a matrix replaces temperature scaling only where that is surely better. The error is that of the paired
    difference, sample by sample; folds are fixed, not random. The search goes from strong to weak and ends once the
    held-out NLL has clearly turned up, because weaker fits are the slow ones.
    """
    if len(logits) < 2 * NUM_FOLDS:
        return math.inf
    order = torch.randperm(len(logits), generator=torch.Generator().manual_seed(0)).to(logits.device)
    folds = [Fold(logits, labels, present, order[k::NUM_FOLDS]) for k in range(NUM_FOLDS)]
    held_out: list[Tensor] = []
    best = 0
    for index, strength in enumerate(STRENGTHS):
        held_out.append(torch.cat([fold.held_out_nll(strength) for fold in folds]))
        if held_out[index].mean() < held_out[best].mean():
            best = index
        elif _clearly_worse(held_out[index], held_out[best]) or index - best >= 3:
            break
    if not _clearly_worse(held_out[0], held_out[best], num_errors=3.0):
        return math.inf
    return next(s for s, nll in zip(STRENGTHS, held_out, strict=False) if not _clearly_worse(nll, held_out[best]))


def _clearly_worse(nll: Tensor, reference: Tensor, num_errors: float = 1.0) -> bool:
    difference = nll - reference
    return float(difference.mean()) > num_errors * float(difference.std()) / math.sqrt(len(difference))


class Fold:
    """One split: fits on the rows outside, from the previous strength's solution, and scores the rows inside."""

    def __init__(self, logits: Tensor, labels: Tensor, present: Tensor, inside: Tensor) -> None:
        outside = torch.ones(len(logits), dtype=torch.bool, device=logits.device)
        outside[inside] = False
        z, y = logits[outside], labels[outside]
        b = fit_inverse_temperature(*known_columns(z, y, present)).b
        self.objective = MatrixNLL(z, y, present, b, math.inf)
        self.theta = self.objective.start
        self.inputs = self.objective.extended(logits[inside])
        self.targets = torch.searchsorted(present, labels[inside])

    def held_out_nll(self, strength: float) -> Tensor:
        """NLL of each row inside, (rows,)."""
        if strength < math.inf:
            self.objective.strength = strength
            self.theta = minimize(self.objective, self.theta, FOLD_TOLERANCE / self.objective.b).theta
        return torch.nn.functional.cross_entropy(self.inputs @ self.theta.T, self.targets, reduction="none")
