"""RegMixup (Pinto et al. 2022): cross-entropy of images, and of mixtures of two of them."""

import torch
from torch import Tensor
from torch.nn import functional as F

from .inputs import at_least_single, check_inputs, check_labels_in_range, check_setting


def mixed_up(inputs: Tensor, partners: Tensor, share: Tensor | float) -> Tensor:
    """Return mixup's inputs: `share` of each input, and the rest of its partner.

    >>> mixed_up(torch.tensor([[0.0], [1.0]]), torch.tensor([1, 0]), share=0.75)
    tensor([[0.2500],
            [0.7500]])
    """
    return share * inputs + (1 - share) * inputs[partners]


def regmixup_loss(
    logits: Tensor,
    mixed_logits: Tensor,
    labels: Tensor,
    partners: Tensor,
    share: Tensor | float,
    weight: float = 1.0,
) -> Tensor:
    """Compute `(CE(x, y) + weight * CE(mixture)) / (1 + weight)`, one value per sample.

    The mixture's cross-entropy is `share` of that of the sample's own label, and the rest of its
    partner's. `partners` (B,) are positions in the batch. With weight 1 this is the original
    code's mean over both halves of a doubled batch; the publication's sum is twice as large.

    >>> logits = torch.zeros(2, 2)
    >>> mixed = torch.tensor([[0.75, 0.25], [0.25, 0.75]]).log()
    >>> regmixup_loss(logits, mixed, torch.tensor([0, 1]), torch.tensor([1, 0]), share=0.75)
    tensor([0.6277, 0.6277])
    """
    labels = check_inputs(logits, labels, "regmixup_loss", unknown=False)
    weight = check_setting(weight, "weight")
    check_inputs(mixed_logits, labels, "regmixup_loss", unknown=False)
    check_labels_in_range(logits, labels, logits.shape[1])
    plain = F.cross_entropy(at_least_single(logits), labels, reduction="none")
    mixed = at_least_single(mixed_logits)
    own = F.cross_entropy(mixed, labels, reduction="none")
    other = F.cross_entropy(mixed, labels[partners], reduction="none")
    return (plain + weight * (share * own + (1 - share) * other)) / (1 + weight)


def draw_mixture(size: int, alpha: float) -> tuple[Tensor, Tensor]:
    """Draw a batch's partners, a permutation, and the one share, by Beta(alpha, alpha).

    Both come from torch's generator on the CPU.
    """
    concentration = torch.tensor(alpha)
    beta = torch.distributions.Beta(concentration, concentration, validate_args=False)
    return torch.randperm(size), beta.sample()
