"""The Socrates loss (Equations 1 to 3 of the paper).

It needs torch and numpy alone: copied into a folder together with adaptive.py, exchange.py,
guards.py, inputs.py, module.py and torch_internals.py, it works elsewhere. The last logit column is
the unknown class, written `idk`. `socrates_loss_reference` is the paper's equation as it is read;
`socrates_loss` is the same function with its gradient in closed form, and is what `SocratesLoss`
runs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy
import torch
from torch import Tensor

from .adaptive import AdaptiveTargetLoss, Step, TargetOver, updated_target
from .inputs import (
    at_least_single,
    check_gamma,
    check_inputs,
    check_labels_in_range,
    check_target,
    label_error,
)
from .torch_internals import is_last_reader, is_on_host, may_be_transformed


def socrates_loss_reference(
    logits: Tensor, labels: Tensor, target: Tensor, gamma: float, unknown_label: bool = False
) -> Tensor:
    """Compute Equation 1 by plain autograd: the readable twin of `socrates_loss`.

    >>> logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    >>> socrates_loss_reference(logits, torch.tensor([0]), torch.tensor([0.5]), gamma=2.0)
    tensor([0.1068])
    """
    if unknown_label:
        target = torch.where(labels == logits.shape[1] - 1, 1.0, target)
    log_p = logits.log_softmax(dim=1)
    log_p_true = log_p.gather(1, labels[:, None]).squeeze(1)
    beta = uncertainty_penalty(log_p.exp(), labels)
    focal = (1 - log_p_true.exp()) ** gamma
    return -focal * (target * log_p_true + beta * (1 - target) * log_p[:, -1])


def uncertainty_penalty(p: Tensor, labels: Tensor) -> Tensor:
    """Compute Equation 2, the dynamic uncertainty penalty beta.

    It is by how much the best wrong class exceeds the unknown class. `p` (B, C + 1) are
    probabilities. The unknown class takes part in the maximum, so beta is never negative.

    >>> uncertainty_penalty(torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.2, 0.3]]), torch.tensor([0, 0]))
    tensor([0.1000, 0.0000])
    """
    others = p.scatter(1, labels[:, None], -1.0)
    return others.max(dim=1).values - p[:, -1]


def socrates_loss(
    logits: Tensor, labels: Tensor, target: Tensor, gamma: float, unknown_label: bool = False
) -> Tensor:
    """Compute Equation 1 with its gradient in closed form, one value per sample.

    It is exact for any gamma >= 0 and any finite logits.

    Args:
        logits: (B, C + 1), floating point of any precision; the last column is the unknown class.
        labels: (B,) integers in 0..C-1.
        target: (B,) in [0, 1], the weight of the true class; it receives no gradient.
        gamma: how much easy samples are weighted down; 0 leaves them as they are.
        unknown_label: whether the label C is one, too: of a sample of none of the classes. Its
            true class is the unknown one and its target is 1, which leaves -(1 - p)^gamma log p of
            the probability p of the unknown class.

    Under `torch.func` (grad, vmap, ...) the readable twin is used, which has second derivatives
    as well.

    >>> logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    >>> socrates_loss(logits, torch.tensor([0]), torch.tensor([0.5]), gamma=2.0)
    tensor([0.1068])
    >>> socrates_loss(logits, torch.tensor([2]), torch.ones(1), gamma=2.0, unknown_label=True)
    tensor([1.0300])
    """
    labels = check_inputs(logits, labels, "socrates_loss", unknown=True)
    check_target(target, labels)
    gamma = check_gamma(gamma)
    if may_be_transformed():
        check_labels_in_range(logits, labels, logits.shape[1] - 1 + unknown_label)
        z = at_least_single(logits)
        return socrates_loss_reference(z, labels, target.detach(), gamma, unknown_label)
    return _fused(logits, labels, target, gamma, None, "all", unknown_label)[0]


class SocratesLoss(AdaptiveTargetLoss):
    """The Socrates loss for a training loop, which remembers one adaptive target per sample.

    Args:
        num_samples: size of the training set, or None for a stream without an index (each target
            then starts from 1).
        gamma: the modularity factor of the focal term, at least 0; smaller if the model is
            underconfident.
        alpha: the momentum of the adaptive target, in (0, 1]; 1 switches the unknown term off.
        target_over: the softmax that feeds the target: over "all" C + 1 columns (the paper), or
            over the "known" C classes (the released code, behind the published numbers).
        process_group: whose ranks remember together: "auto" is all ranks, where `torch.distributed`
            is initialised; a group of some; None remembers on each rank alone.
        options: `weight`, `ignore_index` and `reduction` as in `nn.CrossEntropyLoss`, see
            `LossModule`; `unknown_label=True` for training samples of none of the classes, whose
            label is C: see `socrates_loss`. They have no adaptive target and a weight of 1.

    Call it with `(logits, labels, index)`: logits (B, C + 1) with the unknown class last, labels
    (B,) in 0..C-1, and the position of each sample in the training set (`IndexedDataset` provides
    it). A binary problem has C = 2 classes and three outputs. With num_samples=None, logits may be
    (N, C + 1, H, W) and labels (N, H, W).

    Every call in training mode moves the targets, also without a gradient and as often as it is
    called (LBFGS calls several times per step); a recomputation by `torch.utils.checkpoint` does
    not. In `eval()` it neither reads nor writes targets: each is 1, and the index may be left out.
    A sample that is ignored, or has a NaN or infinite logit, keeps its previous target. If an
    index occurs twice in a batch, each copy starts from the stored target and the lowest result is
    kept.

    In several processes (DDP, FSDP, a loop of your own) the ranks exchange (index, target) in each
    training step. After it all of them hold the targets that one process with the whole batch
    would hold, although a sample may visit another rank in the next epoch. Each rank sends each
    rank 16 bytes, and 8 for each sample of the largest batch of the step, to which smaller ones
    are padded. The mean is weighted, so that the mean over ranks, which DDP takes of gradients, is
    the mean over all samples, also with batches of unequal size, ignored samples and class
    weights. Each rank must call it in each step, if need be with an empty batch; otherwise the
    others wait until the group's time-out. With num_samples=None or in `eval()` nothing is
    exchanged.

    >>> criterion = SocratesLoss(num_samples=3, gamma=2.0, alpha=0.9)
    >>> logits = torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 0.0]], requires_grad=True)
    >>> criterion(logits, torch.tensor([0, 0]), index=torch.tensor([2, 0])).backward()
    >>> criterion.target
    tensor([0.9212, 1.0000, 0.9665])
    """

    takes_unknown_label = True

    def __init__(
        self,
        num_samples: int | None,
        gamma: float = 1.0,
        alpha: float = 0.99,
        *,
        target_over: TargetOver = "all",
        **options: Any,
    ) -> None:
        super().__init__(num_samples, alpha, target_over, **options)
        self.gamma = check_gamma(gamma)

    def _options_of_targets(self) -> dict[str, float]:
        return {**super()._options_of_targets(), "gamma": self.gamma}

    def terms(self, logits: Tensor, labels: Tensor, previous: Tensor, alpha: float | None) -> Step:
        """Return loss, target and beta of each sample, see `AdaptiveTargetLoss.terms`."""
        if may_be_transformed():
            known, strange = self.set_apart(logits, labels)
            target = updated_target(logits, known, previous, alpha, self.target_over)
            beta = uncertainty_penalty(logits.detach().softmax(dim=1), known)
            if strange is not None:
                target = target.masked_fill(strange, 1.0)
                beta = beta.masked_fill(strange, 0.0)
            loss = socrates_loss(logits, labels, target, self.gamma, self.unknown_label)
            return Step(loss, target, beta)
        options = (self.gamma, alpha, self.target_over, self.unknown_label)
        return Step(*_fused(logits, labels, previous, *options))


class _ClosedForm(torch.autograd.Function):
    """Equation 1 and its gradient: `scale * p` in every column but three.

    The three are the true class, `best` (the class that attains beta's maximum) and idk. One
    softmax forwards and one product backwards do the work; the rest is arithmetic on one number
    per row (`_row_terms`).
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        labels: Tensor,
        previous: Tensor,
        gamma: float,
        alpha: float | None,
        over: TargetOver,
        unknown_label: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        z = at_least_single(logits.detach())
        previous = previous.detach().to(z.dtype)
        terms_of = _terms_by_numpy if is_on_host(z) else _terms_by_torch
        p, columns, terms = terms_of(z, labels, previous, gamma, alpha, over, unknown_label)
        ctx.save_for_backward(p, columns, terms.factors)
        ctx.dtype = logits.dtype
        ctx.mark_non_differentiable(terms.target, terms.beta)
        ctx.set_materialize_grads(False)  # no zeros for these two
        return terms.loss, terms.target, terms.beta

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor | None) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "socrates_loss has no second derivative (create_graph=True asks for one): "
                "use socrates.losses.socrates_loss_reference, the same loss by plain autograd"
            )
        per_sample = grad_outputs[0]
        if per_sample is None:
            return (None,) * 7
        p, columns, factors = ctx.saved_tensors
        factors = (factors * per_sample).T  # (B, 4)
        # A new matrix costs the step at 1024x1000 a third of its time, so the gradient is written
        # over p where that is safe.
        scale = factors[:, :1]
        grad = p.mul_(scale) if is_last_reader(per_sample) else p * scale
        # Where idk is the best wrong class its column is written twice, with equal values.
        grad.scatter_(1, columns.T, factors[:, 1:])
        return grad.to(ctx.dtype), *(None,) * 6


_fused: Callable[..., tuple[Tensor, Tensor, Tensor]] = cast(Any, _ClosedForm).apply


class RowTerms(NamedTuple):
    """The loss, target and beta of each sample, and the factors of its gradient.

    The factors are what p is scaled by, then the gradient at the true class, at `best` and at idk.
    They are numpy arrays or tensors, as `_row_terms` was called.
    """

    loss: Any
    target: Any
    beta: Any
    factors: Any  # (4, B)


def _terms_by_numpy(
    z: Tensor,
    labels: Tensor,
    previous: Tensor,
    gamma: float,
    alpha: float | None,
    over: TargetOver,
    unknown_label: bool,
) -> tuple[Tensor, Tensor, RowTerms]:
    """Return p, the columns (3, B) of true, best and idk, and the terms, on the CPU by numpy.

    Its argmax is eight times as fast as torch's there, and its small calls cost a third.
    """
    idk = z.shape[1] - 1
    true = cast(Any, labels.numpy())
    if len(z) and (true.min() < 0 or true.max() >= idk + unknown_label):
        raise label_error(labels, idk + unknown_label, z.shape[1])
    row = numpy.arange(len(z))
    with numpy.errstate(all="ignore"):
        p, columns, parts = _read(numpy, Tensor.numpy, z, row, true, over)
        strange = true == idk if unknown_label else None
        terms = _row_terms(numpy, parts, previous.numpy(), gamma, alpha, strange)
    from_numpy = cast(Any, torch).from_numpy
    tensors = RowTerms(
        from_numpy(terms.loss),
        from_numpy(terms.target),
        from_numpy(terms.beta),
        from_numpy(numpy.array(terms.factors)),
    )
    return p, from_numpy(numpy.array(columns)), tensors


def _terms_by_torch(
    z: Tensor,
    labels: Tensor,
    previous: Tensor,
    gamma: float,
    alpha: float | None,
    over: TargetOver,
    unknown_label: bool,
) -> tuple[Tensor, Tensor, RowTerms]:
    """Return the same on any device, and where a program is compiled or traced."""
    idk = z.shape[1] - 1
    check_labels_in_range(z, labels, idk + unknown_label)
    row = torch.arange(len(z), device=z.device)
    p, columns, parts = _read(torch, Tensor.detach, z, row, labels, over)
    strange = labels == idk if unknown_label else None
    terms = _row_terms(torch, parts, previous, gamma, alpha, strange)
    return p, torch.stack(columns), terms._replace(factors=torch.stack(terms.factors))


class RowParts(NamedTuple):
    """What `_row_terms` needs of each row."""

    z_true: Any
    z_best: Any
    z_idk: Any
    p_true: Any
    p_best: Any
    p_idk: Any
    p_rest: Any  # the sum over all other columns, idk included where it is not the best
    z_sum: Any
    p_true_of_target: Any  # by the softmax that feeds the target
    best_is_known: Any


def _read(
    xp: Any, view: Any, z: Tensor, row: Any, true: Any, over: TargetOver
) -> tuple[Tensor, list[Any], RowParts]:
    """Return p with 0 at the true and the best wrong class, the three columns, and the row parts.

    `xp` is numpy or torch, and `view` is how it sees a tensor. The sums are torch's, which is
    three times as fast there.
    """
    p = z.softmax(dim=1)  # (B, C + 1)
    p_rows = view(p)
    z_rows = view(z)
    z_true = z_rows[row, true]
    p_true = p_rows[row, true]
    p_rows[row, true] = 0
    best = p_rows.argmax(1)
    z_best = z_rows[row, best]
    p_best = p_rows[row, best]
    p_idk = p_rows[:, -1] + 0  # a copy: the next line may write there
    p_rows[row, best] = 0
    p_true_of_target = p_true
    if over == "known":
        p_true_of_target = xp.exp(z_true - view(z[:, :-1].logsumexp(dim=1)))
    idk = z.shape[1] - 1
    parts = RowParts(
        z_true=z_true,
        z_best=z_best,
        z_idk=z_rows[:, -1],
        p_true=p_true,
        p_best=p_best,
        p_idk=p_idk,
        p_rest=view(p.sum(dim=1)),
        z_sum=view(z.sum(dim=1)),
        p_true_of_target=p_true_of_target,
        best_is_known=best != idk,
    )
    return p, [true, best, xp.full_like(true, idk)], parts


def _row_terms(
    xp: Any, parts: RowParts, previous: Any, gamma: float, alpha: float | None, strange: Any
) -> RowTerms:
    """Compute loss, target, beta and the factors of the gradient, one of each per sample.

    Every sum is of terms of one sign, or of terms that do not nearly cancel, so that single
    precision suffices. `strange` are the rows whose true class is idk, None if there can be none.
    """
    z_true, z_best, z_idk, p_true, p_best, p_idk, p_rest, z_sum, p_true_of_target, best_is_known = (
        parts
    )
    # log p_k = (z_k - z_lead) + log p_lead holds where p_k itself underflows.
    z_lead = xp.maximum(z_true, z_best)
    log_p_lead = xp.log(xp.maximum(p_true, p_best))
    # Near p_true = 1 the difference 1 - p_true loses its digits; the sum over the others has them.
    sure = p_true > 0.5
    p_wrong = xp.where(sure, p_best + p_rest, 1 - p_true)
    log_p_true = xp.where(sure, xp.log1p(-p_wrong), (z_true - z_lead) + log_p_lead)
    # Where idk is the best wrong class beta is 0 whatever the logits, and the unknown term and its
    # gradient vanish.
    log_p_idk = ((z_idk - z_lead) + log_p_lead) * best_is_known

    target = previous
    if alpha is not None:
        target = xp.where(
            xp.isfinite(z_sum), alpha * previous + (1 - alpha) * p_true_of_target, previous
        )
    focal = p_wrong**gamma
    beta = p_best - p_idk
    if strange is not None:
        target = xp.where(strange, xp.ones_like(target), target)
        beta = xp.where(strange, xp.zeros_like(beta), beta)
    bracket = target * log_p_true + beta * (1 - target) * log_p_idk
    loss = -focal * bracket

    # The gradient with respect to logit k is scale * p_k, except in the columns true, best and idk,
    # which have values of their own. The derivative of focal is written with bracket / p_wrong,
    # which is bounded; p_wrong ** (gamma - 1) is not.
    slope = gamma * p_true * bracket / (p_wrong + (p_wrong == 0))
    true = focal * (slope - target)
    unknown = focal * (1 - target)
    both = unknown * beta * (1 + log_p_idk)
    scale = both - true
    at_true = true * p_wrong + both * p_true
    at_best = p_best * (unknown * (beta - log_p_idk * (p_true + p_rest + p_idk)) - true)
    at_idk = scale * p_idk - unknown * (beta - p_idk * log_p_idk)
    if strange is not None:  # its column is written twice, with equal values
        at_idk = xp.where(strange, at_true, at_idk)
    return RowTerms(loss, target, beta, [scale, at_true, at_best, at_idk])
