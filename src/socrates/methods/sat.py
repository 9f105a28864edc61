"""Self-adaptive training (Huang et al. 2020)."""

from __future__ import annotations

from ..contracts import Method, Task
from ..losses import SATLoss
from .adaptive import Adaptive
from .ce import KnownCrossEntropy
from .two_phase import two_phase


def sat(task: Task, *, alpha: float = 0.9, start_epoch: int = 0) -> Method:
    """Self-adaptive training (Huang et al. 2020); before `start_epoch` cross-entropy on the known classes."""
    return two_phase(KnownCrossEntropy(task), Adaptive(task, SATLoss(task.num_samples, alpha)), start_epoch)
