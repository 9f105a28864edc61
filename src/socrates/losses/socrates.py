"""The Socrates loss (Equations 1 to 3 of the paper).

It needs torch and numpy alone: copied with adaptive.py, exchange.py, module.py and inputs.py into a folder, it works
elsewhere. The last logit column is the unknown class, written `idk`. `socrates_loss_reference` is the paper's equation
as it is read; `socrates_loss` is the same function with its gradient in closed form, and is what `SocratesLoss` runs.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy
import torch
from torch import Tensor

from .adaptive import AdaptiveTargetLoss, Step, TargetOver, moved_target
from .inputs import at_least_single, check_gamma, check_inputs, check_target, is_on_host, is_transformed, true_class


def socrates_loss_reference(logits: Tensor, labels: Tensor, target: Tensor, gamma: float) -> Tensor:
    """Equation 1, one value per sample: the readable twin of `socrates_loss`, by plain autograd.

    >>> logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    >>> socrates_loss_reference(logits, torch.tensor([0]), torch.tensor([0.5]), gamma=2.0)
    tensor([0.1068])
    """
    log_p = logits.log_softmax(dim=1)
    log_p_true = log_p.gather(1, labels[:, None]).squeeze(1)
    beta = uncertainty_penalty(log_p.exp(), labels)
    focal = (1 - log_p_true.exp()) ** gamma
    return -focal * (target * log_p_true + beta * (1 - target) * log_p[:, -1])


def uncertainty_penalty(p: Tensor, labels: Tensor) -> Tensor:
    """Equation 2, the dynamic uncertainty penalty beta: by how much the best wrong class exceeds the unknown class.

    `p` (B, C + 1) are probabilities. The unknown class takes part in the maximum, so beta is never negative.

    >>> uncertainty_penalty(torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.2, 0.3]]), torch.tensor([0, 0]))
    tensor([0.1000, 0.0000])
    """
    others = p.scatter(1, labels[:, None], -1.0)
    return others.max(dim=1).values - p[:, -1]


def socrates_loss(logits: Tensor, labels: Tensor, target: Tensor, gamma: float) -> Tensor:
    """Equation 1 with its gradient in closed form: one value per sample, for any gamma >= 0 and any finite logits.

    Args:
        logits: (B, C + 1), floating point of any precision; the last column is the unknown class.
        labels: (B,) integers in 0..C-1.
        target: (B,) in [0, 1], the weight of the true class; it receives no gradient.
        gamma: how much easy samples are weighted down; 0 leaves them as they are.

    Under `torch.func` (grad, vmap, ...) the readable twin takes its place, which has second derivatives as well.

    >>> logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    >>> socrates_loss(logits, torch.tensor([0]), torch.tensor([0.5]), gamma=2.0)
    tensor([0.1068])
    """
    labels = check_inputs(logits, labels, "socrates_loss", unknown=True)
    check_target(target, labels)
    if is_transformed():
        return socrates_loss_reference(at_least_single(logits), labels, target.detach(), check_gamma(gamma))
    return _fused(logits, labels, target, check_gamma(gamma), None, "all")[0]


class SocratesLoss(AdaptiveTargetLoss):
    """The Socrates loss for a training loop; it remembers one number per training sample, its adaptive target.

    Args:
        num_samples: size of the training set, or None for a stream without an index (each target then starts from 1).
        gamma: the modularity factor of the focal term, at least 0.
        alpha: the momentum of the adaptive target, in (0, 1]; 1 switches the unknown term off.
        target_over: the softmax that feeds the target: over "all" C + 1 columns (the paper), or over the "known" C
            classes (the released code, behind the published numbers).
        process_group: whose ranks remember together: "auto" is all ranks, where `torch.distributed` is initialised; a
            group of some; None remembers on each rank alone.
        options: `weight`, `ignore_index` and `reduction` as in `nn.CrossEntropyLoss`, see `LossModule`.

    Call it with `(logits, labels, index)`: logits (B, C + 1) with the unknown class last, labels (B,) in 0..C-1, and
    the position of each sample in the training set (`IndexedDataset` provides it). A problem of yes or no has C = 2
    classes and three outputs. With num_samples=None, logits may be (N, C + 1, H, W) and labels (N, H, W).

    Every call in training mode moves the targets, without a gradient too and as often as it is called (LBFGS calls
    several times a step); a recomputation by `torch.utils.checkpoint` does not. In `eval()` it neither reads nor writes
    targets: each is 1, and the index may be left out. A sample that is ignored, or has a NaN or infinite logit, keeps
    its previous target. If an index occurs twice in a batch, each copy starts from the stored target and the lowest
    result is kept.

    In several processes (DDP, FSDP, a loop of your own) the ranks exchange (index, target) in each training step: all
    hold the same targets after it, those that one process with the whole batch would hold, although a sample may visit
    another rank in the next epoch. Each rank is sent 16 bytes by each rank, and 8 for each sample of the largest batch
    of the step, to which smaller ones are padded. The mean is weighted, so that the mean over ranks, which DDP takes of
    gradients, is that over all samples, of batches of unequal size, with ignored samples and class weights too. Each
    rank must call it in each step, if need be with an empty batch; one that does not ends in the group's time-out.
    With num_samples=None or in `eval()` nothing is exchanged.

    >>> criterion = SocratesLoss(num_samples=3, gamma=2.0, alpha=0.9)
    >>> logits = torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 0.0]], requires_grad=True)
    >>> criterion(logits, torch.tensor([0, 0]), index=torch.tensor([2, 0])).backward()
    >>> criterion.target
    tensor([0.9212, 1.0000, 0.9665])
    """

    def __init__(
        self,
        num_samples: int | None,
        gamma: float = 2.0,
        alpha: float = 0.99,
        *,
        target_over: TargetOver = "all",
        **options: Any,
    ) -> None:
        super().__init__(num_samples, alpha, target_over, **options)
        self.gamma = check_gamma(gamma)

    def terms(self, logits: Tensor, labels: Tensor, previous: Tensor, alpha: float | None) -> Step:
        if is_transformed():
            target = moved_target(logits, labels, previous, alpha, self.target_over)
            beta = uncertainty_penalty(logits.detach().softmax(dim=1), labels)
            return Step(socrates_loss(logits, labels, target, self.gamma), target, beta)
        return Step(*_fused(logits, labels, previous, self.gamma, alpha, self.target_over))


class _ClosedForm(torch.autograd.Function):
    """Equation 1 and its gradient: `scale * p` in every column but three, which have values of their own.

    The three are the true class, `best` (the class that attains beta's maximum) and idk. One softmax forwards and one
    product backwards do the work; the rest is arithmetic on one number per row (`_row_terms`).
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, labels: Tensor, previous: Tensor, gamma: float, alpha: float | None, over: TargetOver
    ) -> tuple[Tensor, Tensor, Tensor]:
        z, idk = at_least_single(logits.detach()), logits.shape[1] - 1
        previous = previous.detach().to(z.dtype)
        if is_on_host(z):
            true, row = cast(Any, labels.numpy()), numpy.arange(len(z))
            if len(z) and true.view(numpy.uint64).max() >= idk:  # a negative label is a huge unsigned number
                true_class(z, labels, idk)  # raises
            with numpy.errstate(all="ignore"):
                p, columns, rows = _read(numpy, Tensor.numpy, z, row, true, over)
                *parts, factors = _row_terms(numpy, rows, previous.numpy(), gamma, alpha)
            parts += [numpy.array(columns), numpy.array(factors)]
            loss, target, beta, pick, factors = map(_from_numpy, parts)
        else:
            true_class(z, labels, idk)  # refuses labels out of range
            row = torch.arange(len(z), device=z.device)
            p, columns, rows = _read(torch, Tensor.detach, z, row, labels, over)
            loss, target, beta, factors = _row_terms(torch, rows, previous, gamma, alpha)
            pick, factors = torch.stack(columns), torch.stack(factors)
        ctx.save_for_backward(p, pick, factors)
        ctx.dtype = logits.dtype
        ctx.mark_non_differentiable(target, beta)
        ctx.set_materialize_grads(False)  # no zeros for these two
        return loss, target, beta

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor | None) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            advice = "use socrates.losses.socrates_loss_reference, the same loss by plain autograd"
            raise RuntimeError(f"socrates_loss has no second derivative (create_graph=True asks for one): {advice}")
        per_sample = grad_outputs[0]
        if per_sample is None:
            return None, None, None, None, None, None
        p, pick, factors = ctx.saved_tensors
        factors = (factors * per_sample).T  # (B, 4)
        # A new matrix costs the step at 1024x1000 a third of its time, so the gradient is written over p if it can be.
        grad = p.mul_(factors[:, :1]) if _is_last_reader(per_sample) else p * factors[:, :1]
        grad.scatter_(1, pick.T, factors[:, 1:])
        return grad.to(ctx.dtype), None, None, None, None, None


def _read(xp: Any, view: Any, z: Tensor, row: Any, true: Any, over: TargetOver) -> tuple[Tensor, list[Any], list[Any]]:
    """p with 0 at the true and the best wrong class; the columns of true, best and idk; what `_row_terms` needs.

    `xp` is numpy on the CPU: its argmax is eight times as fast as torch's, and its small calls cost a third. `view` is
    how it sees a tensor. The sums are torch's, which is three times as fast there.
    """
    p, idk = z.softmax(dim=1), z.shape[1] - 1  # (B, C + 1)
    p_rows, z_rows = view(p), view(z)
    z_true, p_true = z_rows[row, true], p_rows[row, true]
    p_rows[row, true] = 0
    best = p_rows.argmax(1)
    z_best, p_best, p_idk = z_rows[row, best], p_rows[row, best], p_rows[:, -1] + 0  # a copy
    p_rows[row, best] = 0
    s_true = p_true if over == "all" else xp.exp(z_true - view(z[:, :-1].logsumexp(dim=1)))
    rows = [z_true, z_best, z_rows[:, -1], p_true, p_best, p_idk, view(p.sum(dim=1)), view(z.sum(dim=1)), s_true]
    return p, [true, best, xp.full_like(true, idk)], [*rows, best != idk]


def _row_terms(xp: Any, rows: list[Any], previous: Any, gamma: float, alpha: float | None) -> list[Any]:
    """Loss, target, beta and the gradient of each sample: what p is scaled by, and the columns true, best and idk.

    `xp` is numpy or torch. Every sum is of terms of one sign, or of terms that do not nearly cancel, so that single
    precision suffices.
    """
    z_true, z_best, z_idk, p_true, p_best, p_idk, p_rest, z_sum, s_true, best_is_known = rows
    # log p_k = (z_k - z_lead) + log p_lead holds where p_k itself underflows.
    z_lead, log_p_lead = xp.maximum(z_true, z_best), xp.log(xp.maximum(p_true, p_best))
    sure = p_true > 0.5  # where 1 - p_true would lose its digits, and the sum over the other classes has them
    p_wrong = xp.where(sure, p_best + p_rest, 1 - p_true)
    log_p_true = xp.where(sure, xp.log1p(-p_wrong), (z_true - z_lead) + log_p_lead)
    # Where idk is the best wrong class beta is 0 whatever the logits, and the unknown term and its gradient vanish.
    log_p_idk = ((z_idk - z_lead) + log_p_lead) * best_is_known

    target = previous
    if alpha is not None:
        target = xp.where(xp.isfinite(z_sum), alpha * previous + (1 - alpha) * s_true, previous)
    focal, beta, unknown = p_wrong**gamma, p_best - p_idk, 1 - target
    bracket = target * log_p_true + beta * unknown * log_p_idk

    # The derivative of focal is written with bracket / p_wrong, which is bounded; p_wrong ** (gamma - 1) is not.
    slope = gamma * p_true * bracket / (p_wrong + (p_wrong == 0))
    true, unknown = focal * (slope - target), focal * unknown
    both = unknown * beta * (1 + log_p_idk)
    scale = both - true
    at_true = true * p_wrong + both * p_true
    at_best = p_best * (unknown * (beta - log_p_idk * (p_true + p_rest + p_idk)) - true)
    at_idk = scale * p_idk - unknown * (beta - p_idk * log_p_idk)
    return [-focal * bracket, target, beta, [scale, at_true, at_best, at_idk]]


def _is_last_reader(grad: Tensor) -> bool:
    """Whether nobody reads what forward saved after this backward: no retain_graph, no transform, no compiler."""
    followed = torch.compiler.is_compiling() or is_transformed()
    return not (followed or _graph_is_kept() or _is_batched(grad))


_internals = cast(Any, torch._C)  # pyright: ignore[reportPrivateUsage]
_graph_is_kept: Callable[[], bool] = _internals._autograd._get_current_graph_task_keep_graph
_is_batched: Callable[[Tensor], bool] = _internals._functorch.is_legacy_batchedtensor
_fused: Callable[..., tuple[Tensor, Tensor, Tensor]] = cast(Any, _ClosedForm).apply
_from_numpy: Callable[[Any], Tensor] = cast(Any, torch).from_numpy
