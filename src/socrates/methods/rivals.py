"""Rivals of the Socrates loss whose loss is a function of logits and labels alone.

Formulas, sources and defaults are in the table of docs/loss.md.
"""

from torch import Tensor

from ..contracts import Task
from ..losses import (
    beta_penalty_loss,
    bsce_gra_loss,
    dual_focal_loss,
    label_smoothing_loss,
    logit_norm_loss,
    mbls_loss,
    mdca_loss,
)
from ..losses.inputs import check_gamma, check_setting
from ..losses.margins import check_smoothing
from ..losses.reweighted import check_norm
from .logits_only import Focal, LogitsOnly


class LabelSmoothing(LogitsOnly):
    """Cross-entropy with smoothed labels (Szegedy et al. 2016).

    Options:
        smoothing: share of each label that is spread evenly over all classes; 0 is cross-entropy
    """

    def __init__(self, task: Task, *, smoothing: float = 0.1) -> None:
        super().__init__(task)
        self.smoothing = check_smoothing(smoothing)

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return label_smoothing_loss(logits, labels, self.smoothing).mean()


class MbLS(LogitsOnly):
    """Margin-based label smoothing (Liu et al. 2022): logits may be apart by the margin at no cost.

    Options:
        margin: distance to the largest logit from which a logit costs
        weight: weight of the margin term, which is added to cross-entropy
    """

    def __init__(self, task: Task, *, margin: float = 10.0, weight: float = 0.1) -> None:
        super().__init__(task)
        self.margin = check_setting(margin, "margin")
        self.weight = check_setting(weight, "weight")

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return mbls_loss(logits, labels, self.margin, self.weight).mean()


class LogitNorm(LogitsOnly):
    """LogitNorm (Wei et al. 2022): cross-entropy of the direction of the logits.

    The length of the logits is not trained: use a scaler before you read the confidence.

    Options:
        temperature: divisor of the normalized logits; the lower it is, the sharper the softmax that
            is trained
    """

    def __init__(self, task: Task, *, temperature: float = 0.04) -> None:
        super().__init__(task)
        self.temperature = check_setting(temperature, "temperature", above=True)

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return logit_norm_loss(logits, labels, self.temperature).mean()


class DualFocal(Focal):
    """Dual focal loss (Tao et al. 2023): focal loss with the class that ranks after the true one.

    Options:
        gamma: exponent of the focal term: how much less easy samples count; 0 is cross-entropy
    """

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return dual_focal_loss(logits, labels, self.gamma).mean()


class BSCEGRA(LogitsOnly):
    """BSCE-GRA (Lin et al. 2025): cross-entropy whose gradient is weighted by the Brier distance.

    Options:
        gamma: exponent of the distance between probabilities and label; 0 is cross-entropy
        norm: order of that distance: 1 is the sum of differences, 2 the root of the Brier score
    """

    def __init__(self, task: Task, *, gamma: float = 1.0, norm: float = 1.0) -> None:
        super().__init__(task)
        self.gamma = check_gamma(gamma)
        self.norm = check_norm(norm)

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return bsce_gra_loss(logits, labels, self.gamma, self.norm).mean()


class MDCA(LogitsOnly):
    """Focal loss with MDCA (Hebbalaguppe et al. 2022): mean probabilities follow label shares.

    Options:
        gamma: exponent of the focal term; 0 is cross-entropy with MDCA
        weight: weight of MDCA, the gap between mean probabilities and label shares of a batch
    """

    def __init__(self, task: Task, *, gamma: float = 1.0, weight: float = 1.0) -> None:
        super().__init__(task)
        self.gamma = check_gamma(gamma)
        self.weight = check_setting(weight, "weight")

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return mdca_loss(logits, labels, self.gamma, self.weight).mean()


class BetaPenalty(LogitsOnly):
    """Cross-entropy or focal loss with the Socrates loss's beta as a regulariser of its own.

    The model has an unknown class; beta grows with the best wrong class that exceeds it. There is
    no adaptive target.

    Options:
        gamma: exponent of the focal term; 0 is cross-entropy with beta
        weight: weight of beta, which is added to the loss
    """

    unknown_class = True

    def __init__(self, task: Task, *, gamma: float = 0.0, weight: float = 1.0) -> None:
        super().__init__(task)
        self.gamma = check_gamma(gamma)
        self.weight = check_setting(weight, "weight")

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return beta_penalty_loss(logits, labels, self.gamma, self.weight).mean()
