"""Beta calibration: the log-odds of two classes from the logarithms of both probabilities."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from socrates.scaling.affine import is_separable
from socrates.scaling.held_out import HeldOut, mean_nll, refuse_one_class
from socrates.scaling.newton import AffineNLL, minimize
from socrates.scaling.scaler import CONVERGED, Fit, FitReport, Scaler

SEPARABLE = "the labels can be separated without error, so the NLL falls for ever as a and b grow"
# Which of b and a may differ from 0, both first.
FREE = ((1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (0.0, 0.0))


class BetaScaling(Scaler):
    """Maps the probability p of the second of two classes to log-odds a log p - b log(1 - p) + c.

    Kull et al. (2017): the family that is right where the scores of each class have a beta
    distribution, with a, b >= 0. a = b is an affine map of the log-odds, and a = b = 1, c = 0
    changes nothing. The NLL is convex, so the least one of those with neither, one or both of a and
    b at 0 is the optimum. Returns log-probabilities. More than two columns are refused. The
    `report` measures the gradient by those of a and b that were not held at 0, and by a bias for
    each class.

    >>> logits = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 3.0], [2.0, 1.0]])
    >>> BetaScaling().fit(logits, torch.tensor([0, 1, 1, 0, 0]))
    BetaScaling(a=0.6365, b=0, c=0.2225, columns=2)
    """

    title = "beta calibration"
    short = "BC"
    usual = False
    a: Tensor
    b: Tensor
    c: Tensor

    def __init__(self) -> None:
        super().__init__(a=1.0, b=1.0, c=0.0)

    def num_fitted(self, columns: int) -> float:
        """Return 3, for a, b and c."""
        return 3

    def _fit(self, data: HeldOut) -> Fit:
        labels = data.labels
        if data.logits.shape[1] != 2:
            raise ValueError(
                f"BetaScaling.fit is for two classes, got {data.logits.shape[1]} columns: "
                "use TemperatureScaling, or EnsembleTemperatureScaling"
            )
        refuse_one_class(labels, "BetaScaling")
        log_p = data.logits.double().log_softmax(dim=1)
        unit = 1 / float(log_p.square().mean().sqrt())
        before = mean_nll(log_p, labels, data.weight)
        report = FitReport(len(labels), 0, 0.0, before, math.inf)
        best = log_p.new_zeros(3)
        for free in FREE:
            # Vector scaling of the log-probabilities; a factor that is held at 0 leaves its column
            # out.
            factors = log_p.new_tensor(free)
            nll = AffineNLL(replace(data, logits=log_p * factors), unit, full=False)
            theta, steps, gradient_norm = minimize(nll, nll.centre, 0.5 * CONVERGED)
            on_log_p = theta * nll.units
            b, a = on_log_p[:, 0] * factors
            bias_0, bias_1 = on_log_p[:, 1]
            value = nll.nll(theta)
            if value < report.nll_after and float(min(a, b)) >= 0:
                best = torch.stack([a, b, bias_1 - bias_0])
                report = FitReport(len(labels), steps, gradient_norm, before, value)
                if all(free):
                    break
        separable = is_separable(report, data.weight)
        limit = f"{SEPARABLE}; pass more held-out data" if separable else ""
        return dict(zip("abc", best.unbind(), strict=True)), report, limit

    def transform(self, logits: Tensor) -> Tensor:
        """Return the calibrated log-probabilities of these logits."""
        log_p = logits.log_softmax(dim=-1)
        a, b, c = (value.to(logits) for value in (self.a, self.b, self.c))
        odds = a * log_p[..., 1] - b * log_p[..., 0] + c
        return torch.stack([logsigmoid(-odds), logsigmoid(odds)], dim=-1)
