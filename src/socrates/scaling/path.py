"""Cross-validation along a path of strengths from strong to weak, each fit started from the one before."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from socrates.scaling.newton import minimize
from socrates.scaling.objective import AffineNLL

NUM_FOLDS = 5
# Beyond this many logits one fold, of many rows then, ranks the strengths as well as five.
ONE_FOLD_ABOVE = 2**22
# Strengths are told apart by more than a step that promises so little would still lower a fold's NLL.
FOLD_GAIN = 1e-3

# The penalty of a strength below infinity, for so many rows and classes.
Penalty = Callable[[float, int, int], float | Tensor]


def to_try(objective: AffineNLL, strengths: Sequence[float], weakest_unseen: float) -> Sequence[float]:
    """Those strengths that folds can judge: where a class has no labels, none below `weakest_unseen`."""
    return [s for s in strengths if s >= weakest_unseen] if bool(objective.absent.any()) else strengths


class Path:
    """The NLL of held-out rows for each strength: (rows,) in `held_out`, and in `thetas` the mean of the folds' fits.

    Folds are fixed, not random. After those that are `always` tried, the path ends once the held-out NLL has clearly
    turned up, because weaker fits are the slow ones; with fewer than ten rows only the first strength is tried.
    """

    def __init__(self, objective: AffineNLL, strengths: Sequence[float], penalty: Penalty, always: int = 0) -> None:
        num_rows, num_classes = objective.logits.shape
        num_used = 1 if num_rows * num_classes > ONE_FOLD_ABOVE else NUM_FOLDS
        order = torch.randperm(num_rows, generator=torch.Generator().manual_seed(0)).to(objective.labels.device)
        folds = [Fold(objective, order[k::NUM_FOLDS]) for k in range(num_used)]
        self.held_out: list[Tensor] = []
        self.thetas: list[Tensor] = []
        self.best = 0
        for index, strength in enumerate(strengths if num_rows >= 2 * NUM_FOLDS else strengths[:1]):
            # One object for all folds, which then share what is made from it.
            shared = None if strength == math.inf else penalty(strength, num_rows - num_rows // NUM_FOLDS, num_classes)
            self.held_out.append(torch.cat([fold.held_out_nll(shared) for fold in folds]))
            self.thetas.append(torch.stack([fold.theta for fold in folds]).mean(dim=0))
            if self.held_out[index].mean() < self.held_out[self.best].mean():
                self.best = index
            elif index >= always and (not self.close(index) or index - self.best >= 3):
                break

    def close(self, index: int, num_errors: float = 1.0) -> bool:
        """Whether a strength is within so many standard errors of the best, by the paired differences of the rows."""
        difference = self.held_out[index] - self.held_out[self.best]
        return not float(difference.mean()) > num_errors * float(difference.std()) / math.sqrt(len(difference))


class Fold:
    """One split: fits on the rows outside, from the previous strength's solution, and scores the rows inside."""

    def __init__(self, whole: AffineNLL, inside: Tensor) -> None:
        outside = torch.ones(len(whole.labels), dtype=torch.bool, device=inside.device)
        outside[inside] = False
        z, y = whole.logits[outside], whole.labels[outside]
        self.objective = AffineNLL(z, y, whole.b, whole.full, coarse=True, blocks=whole.blocks)
        self.theta = self.objective.centre
        self.logits, self.labels = whole.logits[inside], whole.labels[inside]

    def held_out_nll(self, penalty: float | Tensor | None) -> Tensor:
        """NLL of each row inside, (rows,); without a penalty that of temperature scaling."""
        if penalty is not None:
            self.objective.penalty = penalty
            self.theta, _, _ = minimize(self.objective, self.theta, 0.0, self.objective.rounding, FOLD_GAIN)
        outputs = self.objective.outputs(self.logits, self.theta)
        return torch.nn.functional.cross_entropy(outputs, self.labels, reduction="none")
