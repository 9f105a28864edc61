"""How far structured scaling is from that of probmetrics, and why; needs `pip install probmetrics`.

    python benchmarks/structured.py

Logits of 2,000 rows are overconfident and mix the classes a little. Each line has the largest
difference of probabilities at strength 1: ours on log-softmax(z), and ours on what probmetrics
fits on, the logarithm of probabilities after temperature scaling and a mixture with a uniform
guess. The last two columns are how far the regularised NLL on that input is above its minimum where
probmetrics stops (BFGS in float32), and where ours does.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from probmetrics.calibrators import get_calibrator  # pyright: ignore
from probmetrics.utils import multiclass_probs_to_logits  # pyright: ignore
from torch import Tensor

from socrates.scaling import StructuredScaling

NUM_ROWS = 2_000
STRUCTURES = {"svs": "diagonal", "sms": "full"}
HEADS = (
    "classes",
    "probmetrics",
    "difference",
    "on the same input",
    "NLL above its minimum, theirs",
    "ours",
)


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    print("|", " | ".join(HEADS), "|")
    print("|", " | ".join("---" for _ in HEADS), "|")
    for num_classes in (4, 10):
        logits, labels = drawn(num_classes)
        for name in STRUCTURES:
            cells = [f"{value:.2g}" for value in compare(name, logits, labels)]
            print("|", " | ".join([str(num_classes), name, *cells]), "|", flush=True)


def drawn(num_classes: int) -> tuple[Tensor, Tensor]:
    """Return overconfident logits whose classes are mixed, and labels."""
    random = torch.Generator().manual_seed(num_classes)
    shape = (NUM_ROWS, num_classes)
    true = 2 * torch.randn(shape, generator=random, dtype=torch.float64)
    labels = torch.multinomial(true.softmax(dim=1), 1, generator=random).squeeze(1)
    noise = torch.randn(num_classes, num_classes, generator=random, dtype=torch.float64)
    mixed = torch.eye(num_classes, dtype=torch.float64) + 0.15 * noise
    return 1.5 * true @ mixed.T, labels


def compare(name: str, logits: Tensor, labels: Tensor) -> tuple[float, float, float, float]:
    """Return the largest differences of probabilities, and the objectives above their minimum."""
    probs = logits.softmax(dim=1).numpy()
    theirs = get_calibrator(name)
    theirs.fit(probs, labels.numpy())
    expected = torch.as_tensor(theirs.predict_proba(probs))
    mixture = get_calibrator("ts-mix")
    mixture.fit(probs, labels.numpy())
    inputs = torch.as_tensor(multiclass_probs_to_logits(mixture.predict_proba(probs))).double()
    plain = StructuredScaling(1.0, STRUCTURES[name]).fit(logits, labels)
    same = StructuredScaling(1.0, STRUCTURES[name], on="logits").fit(inputs, labels)
    lowest = minimum(name, inputs, labels)
    return (
        largest(plain.probs(logits), expected),
        largest(same.probs(inputs), expected),
        objective(inputs, labels, parameters(theirs)) - lowest,
        objective(inputs, labels, affine_of(same)) - lowest,
    )


def largest(ours: Tensor, theirs: Tensor) -> float:
    """Return the largest absolute difference."""
    return float((ours - theirs).abs().max())


def parameters(calibrator: object) -> tuple[Tensor, Tensor]:
    """Return matrix and bias of a calibrator of probmetrics."""
    matrix = getattr(calibrator, "W_", None)
    if matrix is None:
        scale, bias = (np.asarray(getattr(calibrator, name)) for name in ("v_", "b_"))
        matrix = np.hstack([np.diag(scale.ravel()), bias.reshape(-1, 1)])
    theta = torch.as_tensor(matrix).double()
    return theta[:, :-1], theta[:, -1]


def affine_of(scaler: StructuredScaling) -> tuple[Tensor, Tensor]:
    """Return matrix and bias of our scaler."""
    matrix, bias = scaler.affine()
    return (matrix if matrix.ndim == 2 else matrix.diag()).double(), bias.double()


def objective(inputs: Tensor, labels: Tensor, theta: tuple[Tensor, Tensor]) -> float:
    """Return the regularised NLL as probmetrics defines it, in float64."""
    return float(regularised_nll(inputs, labels, *theta))


def regularised_nll(inputs: Tensor, labels: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
    """Return the mean NLL of an affine map and its penalty; a diagonal has no other entries."""
    num_rows, num_classes = inputs.shape
    unit = num_classes / num_rows
    change = matrix - torch.eye(num_classes, dtype=torch.float64)
    diagonal = change.diagonal().square().sum()
    off_diagonal = change.square().sum() - diagonal
    penalty = unit * (diagonal + bias.square().sum())
    penalty = penalty + unit * (num_classes - 1) * off_diagonal
    return torch.nn.functional.cross_entropy(inputs @ matrix.T + bias, labels) + penalty


def minimum(name: str, inputs: Tensor, labels: Tensor) -> float:
    """Return the minimum of the objective, by L-BFGS in float64 to the end."""
    num_classes = inputs.shape[1]
    identity = torch.eye(num_classes, dtype=torch.float64)
    matrix = (torch.ones(num_classes) if name == "svs" else identity).double().requires_grad_()
    bias = torch.zeros(num_classes, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [matrix, bias], max_iter=2000, tolerance_grad=1e-12, tolerance_change=1e-16,
        history_size=50, line_search_fn="strong_wolfe",
    )  # fmt: skip

    def value() -> Tensor:
        optimizer.zero_grad()
        full = matrix.diag() if name == "svs" else matrix
        loss = regularised_nll(inputs, labels, full, bias)
        loss.backward()
        return loss

    optimizer.step(value)
    return float(value())


if __name__ == "__main__":
    main()
