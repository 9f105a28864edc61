"""Beta calibration: the log-odds of two classes from the logarithms of both probabilities."""

import math

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, logsigmoid

from socrates.scaling.newton import minimize
from socrates.scaling.objective import AffineNLL
from socrates.scaling.scaler import CONVERGED, Fit, FitReport, Scaler

SEPARABLE = "the labels can be separated without error, so the NLL falls for ever as a and b grow"
# Which of b and a may differ from 0, both first.
FREE = ((1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (0.0, 0.0))


class BetaScaling(Scaler):
    """Maps the probability p of the second of two classes to log-odds a log p - b log(1 - p) + c, with a, b >= 0.

    Kull et al. (2017): the family that is right where the scores of each class have a beta distribution. a = b is an
    affine map of the log-odds, and a = b = 1, c = 0 changes nothing. The NLL is convex, so the least one of those with
    neither, one or both of a and b at 0 is the optimum. Returns log-probabilities. More than two columns are refused.
    The `report` measures the gradient by those of a and b that were not held at 0, and by a bias for each class.

    >>> logits = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 3.0], [2.0, 1.0]])
    >>> BetaScaling().fit(logits, torch.tensor([0, 1, 1, 0, 0]))
    BetaScaling(a=0.6365, b=0, c=0.2225, columns=2)
    """

    title, short, usual = "beta calibration", "BC", False
    a: Tensor
    b: Tensor
    c: Tensor

    def __init__(self) -> None:
        super().__init__(a=1.0, b=1.0, c=0.0)

    def _fit(self, logits: Tensor, labels: Tensor, unknown_class: bool) -> Fit:
        if logits.shape[1] != 2:
            raise ValueError(
                f"BetaScaling.fit is for two classes, got {logits.shape[1]} columns: use TemperatureScaling, or "
                f"EnsembleTemperatureScaling"
            )
        if bool((labels == labels[0]).all()):
            raise ValueError(
                f"BetaScaling.fit needs labels of both classes, all {len(labels)} labels are {int(labels[0])}: "
                f"pass more held-out data, or use TemperatureScaling"
            )
        log_p = logits.double().log_softmax(dim=1)
        unit = 1 / float(log_p.square().mean().sqrt())
        report = FitReport(len(labels), 0, 0.0, float(cross_entropy(log_p, labels)), math.inf)
        best = log_p.new_zeros(3)
        for free in FREE:
            # Vector scaling of the log-probabilities, of which those without a factor are left out.
            nll = AffineNLL(log_p * log_p.new_tensor(free), labels, unit, full=False)
            theta, steps, gradient_norm = minimize(nll, nll.centre, 0.5 * CONVERGED)
            (b, bias_0), (a, bias_1) = theta * nll.units * log_p.new_tensor([[free[0], 1], [free[1], 1]])
            value = nll.nll(theta)
            if value < report.nll_after and float(min(a, b)) >= 0:
                best = torch.stack([a, b, bias_1 - bias_0])
                report = FitReport(len(labels), steps, gradient_norm, report.nll_before, value)
                if all(free):
                    break
        # A sum of -log p below log 2 leaves no label a probability below one half.
        separable = report.nll_after * len(labels) < math.log(2)
        limit = f"{SEPARABLE}; pass more held-out data" if separable else ""
        return dict(zip("abc", best.unbind(), strict=True)), report, limit

    def transform(self, logits: Tensor) -> Tensor:
        """Log-probabilities."""
        log_p = logits.log_softmax(dim=-1)
        odds = self.a.to(logits) * log_p[..., 1] - self.b.to(logits) * log_p[..., 0] + self.c.to(logits)
        return torch.stack([logsigmoid(-odds), logsigmoid(odds)], dim=-1)
