"""What vector and matrix scaling share: the fit, and how strongly it is drawn to temperature scaling."""

import math
import warnings
from typing import ClassVar, Literal

import torch
from torch import Tensor

from socrates.scaling.inputs import Array, check_fit
from socrates.scaling.newton import minimize
from socrates.scaling.objective import AffineNLL, Structure, chunks
from socrates.scaling.scaler import CONVERGED, FitReport, Scaler
from socrates.scaling.temperature import InverseTemperature, fit_inverse_temperature

Regularization = Literal["cv"] | float | None

# From "temperature scaling itself" to "almost free", in half decades.
STRENGTHS = (math.inf, 1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6)
# Times classes / rows: with few rows a class even five folds may agree on scales that fail elsewhere.
WEAKEST = {"diagonal": 0.5, "full": 0.0}
NUM_FOLDS = 5
# Beyond this many logits one fold, of many rows then, ranks the strengths as well as five.
ONE_FOLD_ABOVE = 2**22
# The folds only rank strengths, whose NLLs differ by far more than such a gradient leaves.
FOLD_TOLERANCE = 1e-3
# NLLs of temperature scaling are summed in float32.
ROUNDING = 1e-6
# The share of the gradient that a ruled out unknown column may keep.
RULED_OUT = 0.1 * CONVERGED


class AffineScaling(Scaler):
    """Maps logits to A z + bias with the least NLL + strength / 2 * (|T A - I|^2 + |bias|^2) on the fit data."""

    structure: ClassVar[Structure]

    def __init__(self, regularization: Regularization = "cv") -> None:
        super().__init__()
        number = isinstance(regularization, (int, float)) and regularization >= 0
        if not number and regularization not in ("cv", None):
            raise ValueError(f'regularization must be "cv", a number >= 0 or None, got {regularization!r}')
        self.regularization: Regularization = regularization
        self.strength: float | None = None

    def _fit(self, logits: Array, labels: Array, unknown_class: bool) -> tuple[Tensor, Tensor]:
        """A, (C,) or (C, C), and bias (C,)."""
        name = type(self).__name__
        z, y = check_fit(logits, labels, name, unknown_class)
        if bool((y == y[0]).all()):
            raise ValueError(
                f"{name}.fit needs labels of at least 2 classes, all {len(y)} labels are {int(y[0])}: "
                f"pass more held-out data, or use TemperatureScaling"
            )
        known = z[:, :-1] if unknown_class else z
        temperature = fit_inverse_temperature(known, y)
        cv = isinstance(self.regularization, str)
        self.strength = choose_strength(known, y, self.structure) if cv else float(self.regularization or 0.0)
        objective = AffineNLL(known, y, self.structure, temperature.b)
        theta, self.strength, self.report = _minimum(objective, temperature, self.strength)
        _warn(name, self.report, temperature.warning if self.strength == math.inf else _separable(self.report))
        on_logits = objective.on_logits(theta)
        scale, bias = on_logits[:, :-1].squeeze(1), on_logits[:, -1]
        if unknown_class:
            bias = torch.cat([bias, bias.new_tensor([_unknown_bias(z, objective, theta)])])
            scale = torch.nn.functional.pad(scale, (0, 1) * scale.ndim)
            scale[(-1,) * scale.ndim] = temperature.b
        return scale, bias

    def extra_repr(self) -> str:
        """The regularisation, and what was fitted."""
        strength = "" if self.strength is None else f"strength={self.strength:.4g}, "
        return f"regularization={self.regularization!r}, {strength}{super().extra_repr()}"


def _minimum(objective: AffineNLL, temperature: InverseTemperature, strength: float) -> tuple[Tensor, float, FitReport]:
    scaled = temperature.report
    if strength == math.inf:  # the penalty leaves nothing to fit beside the temperature
        return objective.centre, strength, scaled
    objective.penalty.fill_(strength)
    found = minimize(objective, objective.centre, 0.5 * CONVERGED)
    after = objective.nll(found.theta)
    if after > scaled.nll_after + ROUNDING:  # possible only where a class without labels is likely
        return objective.centre, math.inf, scaled
    after = min(after, scaled.nll_before)
    report = FitReport(scaled.num_samples, found.num_steps, found.gradient_norm, scaled.nll_before, after)
    return found.theta, strength, report


def _separable(report: FitReport) -> str:
    # A sum of -log p below log 2 leaves no label a probability below one half: then doubling all logits is better yet.
    if report.nll_after * report.num_samples < math.log(2):
        return "the labels can be separated without error, so the NLL falls for ever as the scales grow"
    return ""


def _warn(scaler: str, report: FitReport, limit: str) -> None:
    if limit:
        warnings.warn(f"{scaler}: {limit}; pass more held-out data", stacklevel=4)
    if not report.converged:
        warnings.warn(
            f"{scaler}: stopped after {report.num_iterations} steps at a gradient norm of {report.gradient_norm:.1e}, "
            f"above {CONVERGED:.0e}; the fit is usable but not converged",
            stacklevel=4,
        )


def _unknown_bias(logits: Tensor, objective: AffineNLL, theta: Tensor) -> float:
    """The bias that rules out the last column, never above 0.

    The NLL has no minimum in the bias of a column that is never a label: it falls for ever towards -infinity. The bias
    stops where that column's share of the gradient has fallen below the tolerance.
    """
    log_shares: list[Tensor] = []
    for rows in chunks(logits):
        z = logits[rows].double()
        odds = objective.b * z[:, -1] - objective.outputs(z[:, :-1], theta).logsumexp(dim=1)
        log_shares.append(odds + 0.5 * (1 + z.square().sum(dim=1)).log())
    share = torch.cat(log_shares).logsumexp(dim=0) - math.log(len(logits))
    return min(0.0, math.log(RULED_OUT) - float(share))


def choose_strength(logits: Tensor, labels: Tensor, structure: Structure) -> float:
    """The largest strength whose held-out NLL is close to the best: three standard errors for infinity, one for others.

    So temperature scaling is replaced only where that is surely better. The error is that of the paired difference,
    sample by sample; folds are fixed, not random. The search goes from strong to weak and ends once the held-out NLL
    has clearly turned up, because weaker fits are the slow ones.
    """
    if len(logits) < 2 * NUM_FOLDS:
        return math.inf
    order = torch.randperm(len(logits), generator=torch.Generator().manual_seed(0)).to(logits.device)
    num_used = 1 if logits.numel() > ONE_FOLD_ABOVE else NUM_FOLDS
    folds = [Fold(logits, labels, structure, order[k::NUM_FOLDS]) for k in range(num_used)]
    weakest = WEAKEST[structure] * logits.shape[1] / len(logits)
    strengths = [strength for strength in STRENGTHS if strength >= weakest]
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

    def __init__(self, logits: Tensor, labels: Tensor, structure: Structure, inside: Tensor) -> None:
        outside = torch.ones(len(logits), dtype=torch.bool, device=logits.device)
        outside[inside] = False
        z, y = logits[outside], labels[outside]
        self.objective = AffineNLL(z, y, structure, fit_inverse_temperature(z, y).b)
        self.theta = self.objective.centre
        self.logits, self.labels = logits[inside], labels[inside]

    def held_out_nll(self, strength: float) -> Tensor:
        """NLL of each row inside, (rows,)."""
        if strength < math.inf:
            self.objective.penalty.fill_(strength)
            self.theta = minimize(self.objective, self.theta, FOLD_TOLERANCE / self.objective.b).theta
        outputs = self.objective.outputs(self.logits, self.theta)
        return torch.nn.functional.cross_entropy(outputs, self.labels, reduction="none")
