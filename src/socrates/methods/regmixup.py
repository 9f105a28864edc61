"""RegMixup (Pinto et al. 2022): mixup beside cross-entropy, not in its place."""

from torch import Tensor, nn

from ..contracts import Batch, Output, Task
from ..losses import mixed_up, regmixup_loss
from ..losses.inputs import check_setting
from ..losses.mixing import draw_mixture
from .logits_only import CrossEntropy


class RegMixup(CrossEntropy):
    """RegMixup (Pinto et al. 2022): cross-entropy of images and of mixtures of two of them.

    Each image of a batch is mixed with another one, all by the same share. The model sees images
    and mixtures one after the other, so batch norm has means of its own for each of them; the
    original shows it both in one batch. On held-out data it is cross-entropy.

    Options:
        mixup_alpha: both parameters of the Beta distribution of the share; the larger it is, the
            nearer the shares are to one half
        weight: weight of the mixtures' cross-entropy, where that of the images has 1; 0 is
            cross-entropy
    """

    extra_passes = 3  # that of the mixtures forward, and backward, which is worth two

    def __init__(self, task: Task, *, mixup_alpha: float = 20.0, weight: float = 1.0) -> None:
        super().__init__(task)
        self.mixup_alpha = check_setting(mixup_alpha, "mixup_alpha", above=True)
        self.weight = check_setting(weight, "weight")

    def forward(self, model: nn.Module, batch: Batch) -> Output:
        inputs = batch.inputs
        if not isinstance(inputs, Tensor) or not inputs.is_floating_point():
            raise ValueError(
                f"regmixup mixes inputs that are one tensor of floats, got "
                f"{inputs.dtype if isinstance(inputs, Tensor) else type(inputs).__name__}: "
                f"choose another method for these data"
            )
        if not self.training:
            return super().forward(model, batch)
        # Drawn before the model runs: each process of a run draws the same here.
        partners, share = draw_mixture(len(batch), self.mixup_alpha)
        partners = partners.to(batch.labels.device, non_blocking=True)
        mixtures = mixed_up(batch.whole(inputs), partners, share)
        logits = model(inputs)  # (B, C)
        mixed_logits = model(mixtures[batch.part])
        loss = regmixup_loss(logits, mixed_logits, batch.labels, partners, share, self.weight)
        return Output(loss.mean(), logits)
