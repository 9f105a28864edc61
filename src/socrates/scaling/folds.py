"""Cross-validate the strength of a penalty: fits on folds, from strong to weak."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from socrates.scaling.held_out import mean, mean_and_error
from socrates.scaling.newton import AffineNLL, minimize

NUM_FOLDS = 5
# Beyond this many logits one fold, which then has many rows, ranks the strengths as well as five.
ONE_FOLD_ABOVE = 2**22
# A fold's fit may stop this far above its least NLL: strengths differ by more.
FOLD_GAIN = 1e-3

# The penalty of a strength below infinity, by the numbers of samples and classes.
Penalty = Callable[[float, float, int], float | Tensor]


class RegularizationPath:
    """Cross-validated NLL from strong to weak penalties, each fit started from the one before.

    `held_out` has the NLL of held-out rows for each strength, (rows,), `thetas` the mean of the
    folds' fits, and `best` is the index of the least NLL. Folds are fixed, not random. Below the
    strength `valley_above` the path ends once the held-out NLL has clearly turned up, because
    weaker fits are the slow ones; with fewer than ten rows only the first strength is tried.
    Where a class has no labels, folds cannot judge strengths below `weakest_unseen`.
    """

    def __init__(
        self,
        objective: AffineNLL,
        strengths: Sequence[float],
        penalty: Penalty,
        weakest_unseen: float = 0.0,
        valley_above: float = math.inf,
    ) -> None:
        folds = _split(objective)
        self.weight = None
        if objective.data.weight is not None:
            self.weight = torch.cat([objective.data.weight[fold.inside] for fold in folds])
        num_rows, num_classes = objective.logits.shape
        num_fitted = objective.num_samples - objective.num_samples // NUM_FOLDS
        if bool(objective.absent.any()):
            strengths = [strength for strength in strengths if strength >= weakest_unseen]
        self.strengths = strengths if num_rows >= 2 * NUM_FOLDS else strengths[:1]
        self.held_out: list[Tensor] = []
        self.thetas: list[Tensor] = []
        self.best = 0
        for index, strength in enumerate(self.strengths):
            # One object for all folds, which share what is computed from it.
            shared = None if strength == math.inf else penalty(strength, num_fitted, num_classes)
            self.held_out.append(torch.cat([fold.held_out_nll(shared) for fold in folds]))
            self.thetas.append(torch.stack([fold.theta for fold in folds]).mean(dim=0))
            if self._mean(index) < self._mean(self.best):
                self.best = index
            elif strength < valley_above and (not self.close(index) or index - self.best >= 3):
                break

    def strongest(self, num_errors: float = 1.0) -> int:
        """Return the index of the strongest within this many standard errors of the best."""
        return next(index for index in range(self.best + 1) if self.close(index, num_errors))

    def close(self, index: int, num_errors: float = 1.0) -> bool:
        """Return whether a strength is within this many standard errors of the best.

        The errors are those of the paired differences of the rows.
        """
        difference = self.held_out[index] - self.held_out[self.best]
        average, error = mean_and_error(difference, self.weight)
        return not average > num_errors * error

    def _mean(self, index: int) -> float:
        return float(mean(self.held_out[index], self.weight))


class Fold:
    """One split: fits on the rows outside, from the previous solution, and scores those inside."""

    def __init__(self, whole: AffineNLL, inside: Tensor) -> None:
        outside = torch.ones(len(whole.labels), dtype=torch.bool, device=inside.device)
        outside[inside] = False
        self.objective = AffineNLL(
            whole.data.take(outside), whole.b, whole.full, coarse=True, blocks=whole.blocks
        )
        self.theta = self.objective.centre
        self.inside = inside
        self.logits = whole.logits[inside]
        self.labels = whole.labels[inside]

    def held_out_nll(self, penalty: float | Tensor | None) -> Tensor:
        """Return the NLL of each row inside; without a penalty, that of temperature scaling."""
        if penalty is not None:
            self.objective.set_penalty(penalty)
            self.theta, _, _ = minimize(
                self.objective, self.theta, 0.0, self.objective.rounding, FOLD_GAIN
            )
        outputs = self.objective.outputs(self.logits, self.theta)
        return cross_entropy(outputs, self.labels, reduction="none")


def _split(objective: AffineNLL) -> list[Fold]:
    """Return the folds that are used, in a fixed random order of the rows."""
    num_used = 1 if objective.logits.numel() > ONE_FOLD_ABOVE else NUM_FOLDS
    shuffle = torch.Generator().manual_seed(0)
    order = torch.randperm(len(objective.labels), generator=shuffle).to(objective.labels.device)
    return [Fold(objective, order[k::NUM_FOLDS]) for k in range(num_used)]
