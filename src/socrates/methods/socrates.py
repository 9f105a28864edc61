"""Training by the Socrates loss."""

from __future__ import annotations

from ..contracts import Method, Task
from ..losses import SocratesLoss
from ..losses.adaptive import TargetOver
from .adaptive import Adaptive
from .two_phase import two_phase


def socrates(
    task: Task, *, gamma: float = 2.0, alpha: float = 0.99, start_epoch: int = 0, target_over: TargetOver = "all"
) -> Method:
    """The Socrates loss; before `start_epoch` every target is 1 and none moves."""
    then = SocratesLoss(task.num_samples, gamma, alpha, target_over=target_over)
    # Without samples to remember, and with all momentum on the past, the target is 1 in every step.
    first = SocratesLoss(None, gamma, alpha=1.0)
    return two_phase(Adaptive(task, first), Adaptive(task, then), start_epoch)
