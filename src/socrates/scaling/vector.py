"""Vector scaling: one scale and one bias a column."""

from typing import Literal

from torch import Tensor

from socrates.scaling.affine import AffineScaling
from socrates.scaling.objective import AffineNLL

STRUCTURED = 4.0


class VectorScaling(AffineScaling):
    """Maps logits z to scale * z + bias, one pair a column, with the least regularised NLL on the data it is fitted on.

    The objective is mean NLL + strength / 2 * (|T scale - 1|^2 + |bias|^2), T being the temperature of temperature
    scaling, which is strength infinity. `regularization` is a strength >= 0, None for no penalty, with which few
    samples a class let the scales grow without bound, or "structured" (default): 4 classes / rows, twice the ridge of
    structured vector scaling as in probmetrics. The strength used is in `strength`. The biases sum to 0 over the
    classes that occur; a class without labels keeps temperature scaling's scale and bias 0. Only an unknown last
    column, declared by `unknown_class=True`, is ruled out: its bias is lowered until its gradient is below 1e-7.

    >>> import torch
    >>> logits = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 3.0], [2.0, 1.0]])
    >>> VectorScaling(regularization=0.1).fit(logits, torch.tensor([0, 1, 1, 0, 0]))
    VectorScaling(regularization=0.1, strength=0.1, columns=2)
    """

    title, short = "vector scaling", "VS"
    full, linear, automatic = False, "scale", "structured"
    scale: Tensor

    def __init__(self, regularization: Literal["structured"] | float | None = "structured") -> None:
        super().__init__(regularization)

    def _choose(self, objective: AffineNLL) -> tuple[float, Tensor]:
        num_rows, num_classes = objective.logits.shape
        return STRUCTURED * num_classes / num_rows, objective.centre
