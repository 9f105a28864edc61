"""The ten ablations and four uncertainty penalties of the paper's appendix, over named terms."""

from collections.abc import Callable
from functools import partial
from inspect import getdoc
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from ..contracts import Method, Task
from ..losses import uncertainty_penalty
from ..losses.adaptive import AdaptiveTargetLoss, Step, TargetOver, updated_target
from ..losses.inputs import at_least_single, check_gamma, true_class
from .adaptive import phases, socrates

UnknownPenalty = Callable[[Tensor, Tensor], Tensor]
Ablation = Callable[..., Method]


class Terms(NamedTuple):
    """What Equation 1 is made of, one value per sample."""

    log_p_true: Tensor
    focal: Tensor
    beta: Tensor
    true: Tensor  # the part of the true class, without its focal term
    unknown: Tensor  # the part of the unknown class, without its focal term and beta


Formula = Callable[[Terms], Tensor]
Trailing = Literal["true", "unknown"]


def full(terms: Terms) -> Tensor:
    """Ablation 1, penalty 1: the Socrates loss with nothing removed, by plain autograd."""
    return terms.focal * (terms.true + terms.beta * terms.unknown)


def no_beta(terms: Terms) -> Tensor:
    """Ablation 2, penalty 4: without beta."""
    return terms.focal * (terms.true + terms.unknown)


def no_focal(terms: Terms) -> Tensor:
    """Ablation 3: without the focal term."""
    return terms.true + terms.beta * terms.unknown


def no_focal_unknown(terms: Terms) -> Tensor:
    """Ablation 4: without the focal term in the unknown component."""
    return terms.focal * terms.true + terms.beta * terms.unknown


def no_focal_true(terms: Terms) -> Tensor:
    """Ablation 5: without the focal term in the component of the true class."""
    return terms.true + terms.focal * terms.beta * terms.unknown


def no_focal_no_beta(terms: Terms) -> Tensor:
    """Ablation 6: without the focal term and beta.

    SAT's loss, with a target from the softmax of `target_over`.
    """
    return terms.true + terms.unknown


def no_focal_unknown_no_beta(terms: Terms) -> Tensor:
    """Ablation 7: without the focal term in the unknown component, and without beta."""
    return terms.focal * terms.true + terms.unknown


def no_focal_true_no_beta(terms: Terms) -> Tensor:
    """Ablation 8: without the focal term in the component of the true class, and without beta."""
    return terms.true + terms.focal * terms.unknown


def no_target(terms: Terms) -> Tensor:
    """Ablation 9: without the adaptive target; focal loss over known and unknown classes."""
    return -terms.focal * terms.log_p_true


def no_target_no_focal(terms: Terms) -> Tensor:
    """Ablation 10: without the adaptive target and the focal term.

    Cross-entropy over known and unknown classes.
    """
    return -terms.log_p_true


def known_penalty(p: Tensor, labels: Tensor, clamp: bool = True) -> Tensor:
    """Return by how much the best wrong known class exceeds the unknown class.

    Clamped at 0, this is Equation 2 once more.

    >>> probs = torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.2, 0.3]])
    >>> known_penalty(probs, torch.tensor([0, 0]), clamp=False)
    tensor([ 0.1000, -0.1000])
    """
    excess = _best_wrong(p, labels) - p[:, -1]
    return excess.clamp(min=0) if clamp else excess


def fixed_penalty(
    p: Tensor, labels: Tensor, value: float = 0.25, when: Trailing = "true"
) -> Tensor:
    """Return `value` where the true (or unknown) class does not exceed the best wrong one, else 0.

    >>> fixed_penalty(torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3]]), torch.tensor([0, 0]))
    tensor([0.0000, 0.2500])
    """
    column = labels if when == "true" else torch.full_like(labels, p.shape[1] - 1)
    trails = p.gather(1, column[:, None]).squeeze(1) <= _best_wrong(p, labels)
    return value * trails.to(p.dtype)


def _best_wrong(p: Tensor, labels: Tensor) -> Tensor:
    return p[:, :-1].scatter(1, labels[:, None], -1.0).max(dim=1).values


class AblatedLoss(AdaptiveTargetLoss):
    """A variant of the Socrates loss: `formula` combines the terms, `penalty` is its beta."""

    def __init__(
        self,
        num_samples: int | None,
        gamma: float,
        formula: Formula,
        penalty: UnknownPenalty,
        **rest: Any,
    ) -> None:
        super().__init__(num_samples, **rest)
        self.gamma = check_gamma(gamma)
        self.formula = formula
        self.penalty = penalty
        self.has_unknown_term = formula not in (no_target, no_target_no_focal)

    def terms(self, logits: Tensor, labels: Tensor, previous: Tensor, alpha: float | None) -> Step:
        """Return loss, target and beta of each sample, see `AdaptiveTargetLoss.terms`."""
        z = at_least_single(logits)
        log_p = z.log_softmax(dim=1)  # (B, C + 1)
        log_p_true = true_class(log_p, labels, z.shape[1] - 1)
        target = updated_target(z, labels, previous, alpha, self.target_over)
        # expm1 keeps the digits of 1 - p near p = 1; the clamp keeps the slope of a power below 1
        # finite at p = 1.
        p_wrong = (-torch.expm1(log_p_true)).clamp(min=torch.finfo(z.dtype).tiny)
        beta = self.penalty(log_p.exp(), labels)
        terms = Terms(
            log_p_true,
            p_wrong**self.gamma,
            beta,
            -target * log_p_true,
            -(1 - target) * log_p[:, -1],
        )
        return Step(self.formula(terms), target, beta.detach())


def ablation(formula: Formula, penalty: UnknownPenalty = uncertainty_penalty) -> Ablation:
    """Return the method that trains by a formula over the terms; its beta is Equation 2."""

    def method(
        task: Task,
        *,
        gamma: float = 1.0,
        alpha: float = 0.99,
        start_epoch: int = 0,
        target_over: TargetOver = "all",
    ) -> Method:
        loss = partial(AblatedLoss, formula=formula, penalty=penalty)
        return phases(task, loss, start_epoch, gamma, alpha=alpha, target_over=target_over)

    _, heading, options = (getdoc(socrates) or "").partition("Options:\n")
    method.__doc__ = f"{getdoc(formula)}\n\n{heading}{options}"
    return method


def beta_known(
    task: Task,
    *,
    gamma: float = 1.0,
    alpha: float = 0.99,
    start_epoch: int = 0,
    target_over: TargetOver = "all",
    clamp: bool = True,
) -> Method:
    """Penalty 2: the unknown class takes no part in beta's maximum.

    `clamp=False` lets beta fall below 0, as released. With beta in [0, 1], as the appendix has it,
    penalties 1 and 2 are the same function.

    Options:
        gamma: of the focal term: how much less easy samples count
        alpha: momentum of each sample's target: the share of the past that an epoch keeps
        start_epoch: epochs before the targets begin to move
        target_over: whether targets follow the softmax over all outputs ("all") or the known
            classes ("known")
        clamp: whether beta stays at 0 or above
    """
    method = ablation(full, partial(known_penalty, clamp=clamp))
    return method(task, gamma=gamma, alpha=alpha, start_epoch=start_epoch, target_over=target_over)


def beta_fixed(
    task: Task,
    *,
    gamma: float = 1.0,
    alpha: float = 0.99,
    start_epoch: int = 0,
    target_over: TargetOver = "all",
    value: float = 0.25,
    when: Trailing = "true",
) -> Method:
    """Penalty 3: beta is `value` where the true class trails.

    `when="unknown"` tests the released code's condition.

    Options:
        gamma: of the focal term: how much less easy samples count
        alpha: momentum of each sample's target: the share of the past that an epoch keeps
        start_epoch: epochs before the targets begin to move
        target_over: whether targets follow the softmax over all outputs ("all") or the known
            classes ("known")
        value: the fixed beta, in [0, 1]
        when: class that must be less probable than the best wrong one for beta to count: "true" or
            "unknown"
    """
    if when not in ("true", "unknown") or not 0 <= value <= 1:
        raise ValueError(
            f"beta-fixed needs when='true' or 'unknown' and a value in [0, 1], "
            f"got {when!r} and {value}"
        )
    method = ablation(full, partial(fixed_penalty, value=value, when=when))
    return method(task, gamma=gamma, alpha=alpha, start_epoch=start_epoch, target_over=target_over)


FORMULAS = (
    full, no_beta, no_focal, no_focal_unknown, no_focal_true, no_focal_no_beta,
    no_focal_unknown_no_beta, no_focal_true_no_beta, no_target, no_target_no_focal,
)  # fmt: skip
ABLATIONS: dict[str, Ablation] = {
    **{f"socrates:{formula.__name__.replace('_', '-')}": ablation(formula) for formula in FORMULAS},
    "socrates:beta-known": beta_known,
    "socrates:beta-fixed": beta_fixed,
}
