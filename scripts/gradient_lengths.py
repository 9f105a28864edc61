"""Show where the Socrates loss has a longer logit gradient than cross-entropy, also for t < 1.

`python scripts/gradient_lengths.py` prints the table of docs/fidelity.md.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from socrates.losses import socrates_loss

GAMMAS = (1.0, 2.0, 3.0, 4.0)
TARGETS = (1.0, 0.9, 0.5, 0.1)
P_UNKNOWN = (0.01, 0.001)
STEP = 0.0005


def is_longer(p: Tensor, gamma: float, target: float) -> Tensor:
    """Return, per row of probabilities (rows, C + 1) with true class 0, which gradient is longer.

    True where that of the Socrates loss is; both are with respect to the logits.
    """
    labels = torch.zeros(len(p), dtype=torch.int64)
    logits = p.log().requires_grad_()
    loss = socrates_loss(logits, labels, torch.full((len(p),), target, dtype=p.dtype), gamma)
    (ours,) = torch.autograd.grad(loss.sum(), logits)
    (theirs,) = torch.autograd.grad(cross_entropy(logits, labels, reduction="sum"), logits)
    return ours.norm(dim=1) > theirs.norm(dim=1)


def largest_p_true(gamma: float, target: float, p_unknown: float) -> float:
    """Return the largest p of the true class at which the Socrates gradient is the longer one.

    All the rest is on one wrong class.
    """
    p_true = torch.arange(STEP, 1 - p_unknown, STEP, dtype=torch.float64)
    unknown = torch.full_like(p_true, p_unknown)
    p = torch.stack([p_true, (1 - p_true - unknown).clamp(min=1e-12), unknown], dim=1)
    return p_true[is_longer(p, gamma, target)].max().item()


def markdown() -> str:
    """Return the table: a line per gamma, a column per target and p of the unknown class."""
    places = [(1.0, P_UNKNOWN[0])]
    places += [(target, unknown) for target in TARGETS[1:] for unknown in P_UNKNOWN]
    heads = [f"t = {target:g}, {100 * unknown:g}%" for target, unknown in places]
    heads[0] = "t = 1, any"
    lines = [["gamma", *heads], ["---"] * (len(heads) + 1)]
    for gamma in GAMMAS:
        values = [f"{largest_p_true(gamma, *place):.2f}" for place in places]
        lines.append([f"{gamma:g}", *values])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print(markdown())
