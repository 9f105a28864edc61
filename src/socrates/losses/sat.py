"""Self-adaptive training (Huang et al. 2020): the label moves weight to the unknown class."""

from typing import Any

from torch import Tensor

from .adaptive import AdaptiveTargetLoss, Step, TargetOver, updated_target
from .inputs import at_least_single, check_inputs, check_labels_in_range, check_target, true_class


def sat_loss(logits: Tensor, labels: Tensor, target: Tensor, unknown_label: bool = False) -> Tensor:
    """Compute cross-entropy with `target` on the true and `1 - target` on the unknown class.

    The unknown class is the last column; there is one value per sample. With `unknown_label` the
    label C is one, too, of a sample of none of the classes: its loss is -log p of the unknown
    class.

    >>> import torch
    >>> logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    >>> sat_loss(logits, torch.tensor([0]), torch.tensor([0.5]))
    tensor([1.1513])
    """
    labels = check_inputs(logits, labels, "sat_loss", unknown=True)
    check_target(target, labels)
    log_p = at_least_single(logits).log_softmax(dim=1)
    # Where the true class is the unknown one, both terms are alike whatever the target is.
    log_p_true = true_class(log_p, labels, logits.shape[1] - 1 + unknown_label)
    target = target.detach()
    return -(target * log_p_true + (1 - target) * log_p[:, -1])


class SATLoss(AdaptiveTargetLoss):
    """Self-adaptive training for a training loop, called like `SocratesLoss`.

    Its target comes from the softmax over the known classes, as in its authors' code;
    `target_over="all"` takes the softmax over all columns. With `unknown_label=True` training
    samples of none of the classes have the label C: see `sat_loss`.

    >>> import torch
    >>> criterion = SATLoss(num_samples=2, alpha=0.9)
    >>> loss = criterion(torch.zeros(2, 3), torch.tensor([0, 1]), torch.tensor([0, 1]))
    >>> criterion.target
    tensor([0.9500, 0.9500])
    """

    has_beta = False
    takes_unknown_label = True

    def __init__(
        self,
        num_samples: int | None,
        alpha: float = 0.9,
        *,
        target_over: TargetOver = "known",
        **options: Any,
    ) -> None:
        super().__init__(num_samples, alpha, target_over, **options)

    def terms(self, logits: Tensor, labels: Tensor, previous: Tensor, alpha: float | None) -> Step:
        """Return loss and target of each sample, see `AdaptiveTargetLoss.terms`."""
        check_labels_in_range(logits, labels, logits.shape[1] - 1 + self.unknown_label)
        known, strange = self.set_apart(logits, labels)
        target = updated_target(logits, known, previous, alpha, self.target_over)
        if strange is not None:
            target = target.masked_fill(strange, 1.0)
        return Step(sat_loss(logits, labels, target, self.unknown_label), target, None)
