"""Matrix scaling: a full affine map of the logits."""

import torch
from torch import Tensor

from socrates.scaling.affine import AffineScaling, Regularization
from socrates.scaling.inputs import Array


class MatrixScaling(AffineScaling):
    """Maps logits z to W z + bias with the least regularised NLL on the data it is fitted on.

    The objective is mean NLL + strength / 2 * (|T W - I|^2 + |bias|^2), T being the temperature of temperature scaling:
    off-diagonal and intercept regularisation (ODIR, Kull et al. 2019) that also holds the diagonal, so that strength
    infinity is temperature scaling. `regularization` is a strength >= 0, None for no penalty, or "cv" (default): 5-fold
    cross-validation on the fit data over infinity and half decades from 1 to 1e-6, taking the largest strength within
    one standard error of the best, and infinity within three, so that scarce data end in temperature scaling.
    The strength used is in `strength`. A class without labels keeps its row of temperature scaling and bias 0. Only an
    unknown last column, declared by `unknown_class=True`, is ruled out: its bias is lowered until its gradient is below
    1e-7.

    >>> logits = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 3.0], [2.0, 1.0]])
    >>> MatrixScaling(regularization=0.1).fit(logits, torch.tensor([0, 1, 1, 0, 0]))
    MatrixScaling(regularization=0.1, strength=0.1, columns=2)
    """

    title, short = "matrix scaling", "MS"
    structure = "full"
    weight: Tensor
    bias: Tensor

    def __init__(self, regularization: Regularization = "cv") -> None:
        super().__init__(regularization)
        self._remember(torch.device("cpu"), 0, weight=torch.ones(0, 0), bias=torch.zeros(0))

    def fit(self, logits: Array, labels: Array, *, unknown_class: bool = False) -> "MatrixScaling":
        """Finds W and bias from held-out logits (N, C) and labels (N,), starting at temperature scaling."""
        weight, bias = self._fit(logits, labels, unknown_class)
        self._remember(weight.device, len(bias), weight=weight, bias=bias)
        return self

    def affine(self) -> tuple[Tensor, Tensor]:
        """W and bias."""
        return self.weight, self.bias
