"""Correctness ranking loss (CRL, Moon et al. 2020): confidence in the order of past correctness."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .inputs import at_least_single, check_inputs, check_labels_in_range, check_setting


def crl_loss(logits: Tensor, labels: Tensor, correctness: Tensor, weight: float = 1.0) -> Tensor:
    """Compute cross-entropy plus `weight` times a ranking term, one value per sample.

    `correctness` (B,) in [0, 1] is how often each sample was answered correctly so far: see
    `CorrectnessHistory`. Each sample is paired with the next of the batch, the last with the
    first. Of a pair, the one with the higher correctness should have the higher confidence (the
    largest probability), by at least the difference of their correctness; the term is what is
    missing. Pairs of the same correctness have none. So the term depends on the order of a batch.

    >>> logits = torch.tensor([[0.6, 0.4], [0.9, 0.1]]).log()
    >>> crl_loss(logits, torch.tensor([0, 0]), torch.tensor([0.5, 0.25]))
    tensor([1.0608, 0.6554])
    """
    labels = check_inputs(logits, labels, "crl_loss", unknown=False)
    if correctness.shape != labels.shape or not correctness.is_floating_point():
        raise ValueError(
            f"correctness must hold one float per label {tuple(labels.shape)}, "
            f"got {tuple(correctness.shape)} of {correctness.dtype}"
        )
    z = at_least_single(logits)
    check_labels_in_range(z, labels, z.shape[1])
    each = F.cross_entropy(z, labels, reduction="none")
    confidence = z.softmax(dim=1).max(dim=1).values
    due = (correctness - correctness.roll(-1)).to(z.dtype)
    gap = confidence - confidence.roll(-1)
    missing = F.relu(due.abs() - due.sign() * gap)
    return each + check_setting(weight, "weight") * missing


class CorrectnessHistory(nn.Module):
    """How often each sample of the training set was answered correctly.

    Call `start_epoch` with the number of epochs before it, then in each step `read` and, after
    it, `add`. Counts are saved and moved with the module.

    >>> history = CorrectnessHistory(num_samples=3)
    >>> history.start_epoch(2)
    >>> history.add(torch.tensor([2, 0]), torch.tensor([True, False]))
    >>> history.read(torch.tensor([0, 2]))
    tensor([0.0000, 0.5000])
    """

    count: Tensor

    def __init__(self, num_samples: int) -> None:
        super().__init__()
        self.most = 1
        # integers: they stay exact when a module is cast to half precision
        self.register_buffer("count", torch.zeros(num_samples, dtype=torch.int32))

    def start_epoch(self, epoch: int) -> None:
        """Note that `epoch` epochs are over: no sample can have been correct more often."""
        self.most = max(epoch, 1)

    def read(self, index: Tensor) -> Tensor:
        """Return the correctness of samples, from 0 for the least of all samples to 1 for always.

        It is 0 for all while none has been wrong.
        """
        least = self.count.min()
        possible = (self.most - least).clamp(min=1)
        return (self.count[index] - least) / possible

    @torch.no_grad()
    def add(self, index: Tensor, correct: Tensor) -> None:
        """Count the samples that were answered correctly in a step."""
        self.count.index_add_(0, index, correct.to(self.count.dtype))

    def extra_repr(self) -> str:
        return f"num_samples={len(self.count)}"
