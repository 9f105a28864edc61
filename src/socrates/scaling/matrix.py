"""Matrix scaling: a full affine map of the logits."""

import math
from typing import Literal

import torch
from torch import Tensor

from socrates.scaling.affine import AffineScaling
from socrates.scaling.newton import minimize
from socrates.scaling.objective import AffineNLL
from socrates.scaling.temperature import fit_inverse_temperature

# From "temperature scaling itself" to "almost free", in half decades.
STRENGTHS = (math.inf, 1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6)
# No fold sees what a weaker penalty does to the samples of a class without labels, however many rows there are.
WEAKEST_UNSEEN = 0.03
NUM_FOLDS = 5
# Beyond this many logits one fold, of many rows then, ranks the strengths as well as five.
ONE_FOLD_ABOVE = 2**22
# The folds only rank strengths, whose NLLs differ by far more than such a gradient leaves.
FOLD_TOLERANCE = 1e-3


class MatrixScaling(AffineScaling):
    """Maps logits z to W z + bias with the least regularised NLL on the data it is fitted on.

    The objective is mean NLL + strength / 2 * (|T W - I|^2 + |bias|^2), T being the temperature of temperature scaling:
    off-diagonal and intercept regularisation (ODIR, Kull et al. 2019) that also holds the diagonal, so that strength
    infinity is temperature scaling. `regularization` is a strength >= 0, None for no penalty, or "cv" (default): 5-fold
    cross-validation on the fit data over infinity and half decades from 1 to 1e-6, taking the largest strength within
    one standard error of the best, and infinity within three, so that scarce data end in temperature scaling.
    The strength used is in `strength`. A class without labels keeps row and column of temperature scaling and bias 0,
    and cross-validation then ends at 0.03. Only an unknown last column, declared by `unknown_class=True`, is ruled out:
    its bias is lowered until its gradient is below 1e-7.

    >>> logits = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 3.0], [2.0, 1.0]])
    >>> MatrixScaling(regularization=0.1).fit(logits, torch.tensor([0, 1, 1, 0, 0]))
    MatrixScaling(regularization=0.1, strength=0.1, columns=2)
    """

    title, short = "matrix scaling", "MS"
    full, linear, automatic = True, "weight", "cv"
    weight: Tensor

    def __init__(self, regularization: Literal["cv"] | float | None = "cv") -> None:
        super().__init__(regularization)

    def _automatic_strength(self, logits: Tensor, labels: Tensor) -> float:
        return choose_strength(logits, labels)


def choose_strength(logits: Tensor, labels: Tensor) -> float:
    """The largest strength whose held-out NLL is close to the best: three standard errors for infinity, one for others.

    So temperature scaling is replaced only where that is surely better. The error is that of the paired difference,
    sample by sample; folds are fixed, not random. The search goes from strong to weak and ends once the held-out NLL
    has clearly turned up, because weaker fits are the slow ones.
    """
    if len(logits) < 2 * NUM_FOLDS:
        return math.inf
    order = torch.randperm(len(logits), generator=torch.Generator().manual_seed(0)).to(logits.device)
    num_used = 1 if logits.numel() > ONE_FOLD_ABOVE else NUM_FOLDS
    folds = [Fold(logits, labels, order[k::NUM_FOLDS]) for k in range(num_used)]
    unseen = bool((labels.bincount(minlength=logits.shape[1]) == 0).any())
    strengths = [s for s in STRENGTHS if not unseen or s >= WEAKEST_UNSEEN]
    held_out: list[Tensor] = []
    best = 0
    for index, strength in enumerate(strengths):
        held_out.append(torch.cat([fold.held_out_nll(strength) for fold in folds]))
        if held_out[index].mean() < held_out[best].mean():
            best = index
        elif _clearly_worse(held_out[index], held_out[best]) or index - best >= 3:
            break
    if not _clearly_worse(held_out[0], held_out[best], num_errors=3.0):
        return math.inf
    return next(s for s, nll in zip(strengths, held_out, strict=False) if not _clearly_worse(nll, held_out[best]))


def _clearly_worse(nll: Tensor, reference: Tensor, num_errors: float = 1.0) -> bool:
    difference = nll - reference
    return float(difference.mean()) > num_errors * float(difference.std()) / math.sqrt(len(difference))


class Fold:
    """One split: fits on the rows outside, from the previous strength's solution, and scores the rows inside."""

    def __init__(self, logits: Tensor, labels: Tensor, inside: Tensor) -> None:
        outside = torch.ones(len(logits), dtype=torch.bool, device=logits.device)
        outside[inside] = False
        z, y = logits[outside], labels[outside]
        self.objective = AffineNLL(z, y, fit_inverse_temperature(z, y)[0], full=True)
        self.theta = self.objective.centre
        self.logits, self.labels = logits[inside], labels[inside]

    def held_out_nll(self, strength: float) -> Tensor:
        """NLL of each row inside, (rows,)."""
        if strength < math.inf:
            self.objective.penalty = strength
            self.theta, _, _ = minimize(self.objective, self.theta, FOLD_TOLERANCE / self.objective.b)
        outputs = self.objective.outputs(self.logits, self.theta)
        return torch.nn.functional.cross_entropy(outputs, self.labels, reduction="none")
