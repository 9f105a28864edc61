"""Matrix scaling: a full affine map of the logits."""

import math
from typing import Literal

from torch import Tensor

from socrates.scaling.affine import AffineScaling
from socrates.scaling.objective import AffineNLL
from socrates.scaling.path import Path, to_try

# From "temperature scaling itself" to "almost free", in half decades.
STRENGTHS = (math.inf, 1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6)
# No fold sees what a weaker penalty does to the samples of a class without labels, however many rows there are.
WEAKEST_UNSEEN = 0.03


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

    >>> import torch
    >>> logits = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 3.0], [2.0, 1.0]])
    >>> MatrixScaling(regularization=0.1).fit(logits, torch.tensor([0, 1, 1, 0, 0]))
    MatrixScaling(regularization=0.1, strength=0.1, columns=2)
    """

    title, short = "matrix scaling", "MS"
    full, linear, automatic = True, "weight", "cv"
    weight: Tensor

    def __init__(self, regularization: Literal["cv"] | float | None = "cv") -> None:
        super().__init__(regularization)

    def _choose(self, objective: AffineNLL) -> tuple[float, Tensor]:
        """The largest strength close to the best: within three standard errors for infinity, one for others.

        So temperature scaling is replaced only where that is surely better.
        """
        strengths = to_try(objective, STRENGTHS, WEAKEST_UNSEEN)
        path = Path(objective, strengths, self._penalty)
        chosen = 0 if path.close(0, num_errors=3.0) else next(i for i in range(len(strengths)) if path.close(i))
        return strengths[chosen], path.thetas[chosen]
