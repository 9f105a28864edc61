"""What vector and matrix scaling share: the NLL of an affine map of the logits, and the classes that never occur."""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from socrates.scaling.convex import chunks
from socrates.scaling.scaler import CONVERGED, FitReport

# Half of the promised 1e-6 is for the solver, a tenth for the classes without labels.
TOLERANCE = 0.5 * CONVERGED
ABSENT = 0.1 * CONVERGED


def mean_nll(logits: Tensor, labels: Tensor, transform: Callable[[Tensor], Tensor]) -> float:
    """Mean NLL of the transformed logits, in float64."""
    total = 0.0
    for rows in chunks(*logits.shape):
        z = transform(logits[rows].double())
        total += float(torch.nn.functional.cross_entropy(z, labels[rows], reduction="sum"))
    return total / len(logits)


def present_classes(labels: Tensor, scaler: str) -> Tensor:
    """Indices of the classes that occur; at least two are needed."""
    present = labels.bincount().nonzero().squeeze(1)
    if len(present) < 2:
        raise ValueError(
            f"{scaler}.fit needs labels of at least 2 classes, all {len(labels)} labels are {int(present[0])}: "
            f"pass more held-out data, or use TemperatureScaling"
        )
    return present


def known_columns(logits: Tensor, labels: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
    """The columns of the classes that occur, and the labels as positions among them."""
    if len(present) == logits.shape[1]:
        return logits, labels
    return logits[:, present], torch.searchsorted(present, labels)


def absent_bias(logits: Tensor, present: Tensor, transform: Callable[[Tensor], Tensor]) -> Tensor:
    """Biases (C,) that are 0 for present classes and rule the others out.

    The NLL has no minimum in the bias of a class without labels: it falls for ever towards -infinity. The bias stops
    where that class's share of the gradient has fallen below the tolerance, and is never raised.
    """
    num_columns = logits.shape[1]
    absent = torch.ones(num_columns, dtype=torch.bool, device=logits.device)
    absent[present] = False
    if not bool(absent.any()):
        return torch.zeros(num_columns, dtype=torch.float64, device=logits.device)
    log_sums: list[Tensor] = []
    for rows in chunks(*logits.shape):
        raw = logits[rows].double()
        z = transform(raw)
        odds = z - z[:, present].logsumexp(dim=1, keepdim=True)
        log_sums.append((odds + 0.5 * (1 + raw.square().sum(dim=1, keepdim=True)).log()).logsumexp(dim=0))
    share = torch.stack(log_sums).logsumexp(dim=0) - torch.tensor(float(len(logits))).log()
    goal = torch.tensor(ABSENT / int(absent.sum()), dtype=torch.float64).log().to(share)
    return torch.where(absent, (goal - share).clamp(max=0.0), 0.0)


def warn_unless_converged(report: FitReport, scaler: str) -> None:
    """Says how far the solver came if that was not far enough."""
    if not report.converged:
        warnings.warn(
            f"{scaler}: stopped after {report.num_iterations} steps at a gradient norm of {report.gradient_norm:.1e}, "
            f"above {CONVERGED:.0e}; the fit is usable but not converged",
            stacklevel=3,
        )
