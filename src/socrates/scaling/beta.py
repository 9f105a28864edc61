"""Beta calibration: the log-odds of two classes from the logarithms of both probabilities."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from socrates.scaling.newton import minimize
from socrates.scaling.scaler import CONVERGED, Fit, FitReport, Scaler

SEPARABLE = "the labels can be separated without error, so the NLL falls for ever as a and b grow"
# Which of a, b and c may differ from 0, the largest set first.
FREE = ((True, True, True), (True, False, True), (False, True, True), (False, False, True))


class BetaScaling(Scaler):
    """Maps the probability p of the second of two classes to log-odds a log p - b log(1 - p) + c, with a, b >= 0.

    Kull et al. (2017): the family that is right where the scores of each class have a beta distribution. a = b is an
    affine map of the log-odds, and a = b = 1, c = 0 changes nothing. The NLL is convex, so the least one of those with
    neither, one or both of a and b at 0 is the optimum. Returns log-probabilities. More than two columns are refused.
    The `report` measures the gradient by those of a, b and c that were not held at 0.

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
        inputs = torch.stack([log_p[:, 1], -log_p[:, 0], torch.ones_like(log_p[:, 0])], dim=1)
        signs = 2.0 * labels.double() - 1
        before = float(softplus(-signs * (inputs[:, 0] + inputs[:, 1])).mean())
        best, report = torch.zeros(3, dtype=torch.float64), FitReport(len(labels), 0, 0.0, before, torch.inf)
        for free in FREE:
            nll = LogisticNLL(inputs * torch.tensor(free, device=inputs.device), signs)
            theta, steps, gradient_norm = minimize(nll, torch.zeros_like(inputs[0]), 0.5 * CONVERGED)
            value, theta = nll.evaluate(theta)[0], theta / nll.units
            if value < report.nll_after and float(theta[:2].min()) >= 0:
                best, report = theta, FitReport(len(labels), steps, gradient_norm, before, value)
                if all(free):
                    break
        # A sum of -log p below log 2 leaves no label a probability below one half.
        separable = report.nll_after * len(labels) < torch.log(torch.tensor(2.0))
        limit = f"{SEPARABLE}; pass more held-out data" if separable else ""
        return dict(zip("abc", best.unbind(), strict=True)), report, limit

    def transform(self, logits: Tensor) -> Tensor:
        """Log-probabilities."""
        log_p = logits.log_softmax(dim=-1)
        odds = self.a.to(logits) * log_p[..., 1] - self.b.to(logits) * log_p[..., 0] + self.c.to(logits)
        return torch.stack([logsigmoid(-odds), logsigmoid(odds)], dim=-1)


class LogisticNLL:
    """Mean of log(1 + exp(-sign * inputs theta)), theta in units in which every input has length 1."""

    def __init__(self, inputs: Tensor, signs: Tensor) -> None:
        self.units = inputs.square().mean(dim=0).sqrt().clamp(min=1e-300)
        self.inputs, self.signs = inputs / self.units, signs

    def evaluate(self, theta: Tensor) -> tuple[float, Tensor]:
        """Value and gradient at theta, where `direction` then is taken."""
        margin = self.signs * (self.inputs @ theta)
        self.wrong = (-margin).sigmoid()
        gradient = -(self.inputs * (self.signs * self.wrong)[:, None]).mean(dim=0)
        return float(softplus(-margin).mean()), gradient

    def direction(self, gradient: Tensor, forcing: float) -> Tensor:
        """Newton's step."""
        weights = self.wrong * (1 - self.wrong)
        curvature = (self.inputs * weights[:, None]).T @ self.inputs / len(weights)
        ridge = 1e-12 * curvature.diagonal().clamp(min=1e-300).diag() + (self.inputs == 0).all(dim=0).double().diag()
        return -(curvature + ridge).inverse() @ gradient

    def norm(self, gradient: Tensor) -> float:
        """Length of the gradient by a, b and c."""
        return float((gradient * self.units).square().sum().sqrt())
