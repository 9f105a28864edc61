"""Confidence-aware contrastive loss (CCL-SC, Wu et al. 2024), and the queues it reads."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .inputs import at_least_single, is_integer

EMPTY = -1  # the class of a slot that holds no key yet; no label equals it


class Keys(NamedTuple):
    """Features (K, D) of a momentum encoder and the class each stands for (K,).

    Class -1 marks an empty slot.
    """

    features: Tensor
    classes: Tensor


class KeyQueue(nn.Module):
    """The last `size` keys, oldest overwritten first.

    Its state moves, saves and loads with the module. One queue holds keys that were classified
    correctly (class: the label), another the errors (class: the prediction).

    >>> queue = KeyQueue(size=3, dim=2)
    >>> queue.enqueue(torch.eye(2), torch.tensor([7, 9]), keep=torch.tensor([True, False]))
    >>> queue.read().classes
    tensor([ 7, -1, -1])
    """

    features: Tensor
    classes: Tensor
    position: Tensor

    @torch.inference_mode(False)  # buffers that were made in inference mode could never be written
    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        if size < 1 or dim < 1:
            raise ValueError(f"KeyQueue needs a size and a dim of at least 1, got {size} and {dim}")
        # One slot more than asked for: what is not to be kept is written there, so that no mask is
        # read by the host.
        self.register_buffer("features", torch.zeros(size + 1, dim))
        self.register_buffer("classes", torch.full((size + 1,), EMPTY))
        self.register_buffer("position", torch.zeros((), dtype=torch.int64))

    @property
    def size(self) -> int:
        """Return how many keys the queue holds when full."""
        return len(self.classes) - 1

    @property
    def full(self) -> Tensor:
        """Return whether no slot is empty, as a tensor on the queue's device."""
        return (self.classes[:-1] != EMPTY).all()

    @property
    def fill(self) -> Tensor:
        """Return the share of slots that hold a key, as a tensor on the queue's device."""
        return (self.classes[:-1] != EMPTY).float().mean()

    def read(self) -> Keys:
        """Return a copy of the keys.

        An `enqueue` between loss and backward then does not disturb autograd.
        """
        return Keys(self.features[:-1].clone(), self.classes[:-1].clone())

    @torch.no_grad()
    def enqueue(self, features: Tensor, classes: Tensor, keep: Tensor | None = None) -> None:
        """Write L2-normalised features (B, D) with their classes (B,).

        Where `keep` is False the sample is left out.
        """
        width = self.features.shape[1]
        if features.dim() != 2 or features.shape[1] != width or len(features) > self.size:
            raise ValueError(
                f"KeyQueue takes at most {self.size} features of width {width} at once, "
                f"got {tuple(features.shape)}: use a longer queue or a smaller batch"
            )
        if classes.shape != features.shape[:1] or not is_integer(classes):
            raise ValueError(
                f"KeyQueue needs one integer class per feature, "
                f"got {tuple(classes.shape)} of {classes.dtype} for {len(features)}"
            )
        keep = torch.ones_like(classes, dtype=torch.bool) if keep is None else keep
        if keep.shape != classes.shape or keep.dtype != torch.bool:
            raise ValueError(
                f"keep must be {len(classes)} booleans, got {tuple(keep.shape)} of {keep.dtype}"
            )
        slot = torch.where(keep, (self.position + keep.cumsum(0) - 1) % self.size, self.size)
        self.features[slot] = F.normalize(features.to(self.features.dtype), dim=1)
        self.classes[slot] = classes.to(self.classes.dtype)
        self.classes[-1] = EMPTY
        self.position.add_(keep.sum()).remainder_(self.size)


def contrastive_loss(
    queries: Tensor,
    labels: Tensor,
    confidence: Tensor,
    correct: Keys,
    errors: Keys,
    temperature: float = 0.1,
) -> Tensor:
    """Compute confidence-weighted InfoNCE, one value per sample.

    The caller takes the mean and adds it to cross-entropy. Each query (B, D) is drawn to the
    `correct` keys of its own class and away from the `errors` that were predicted as its class, by
    cosine similarity over `temperature`. A query without a key of its class contributes 0.

    >>> correct = Keys(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    >>> errors = Keys(torch.tensor([[0.0, 1.0]]), torch.tensor([0]))
    >>> query = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    >>> labels = torch.tensor([0, 0, 1])
    >>> contrastive_loss(query, labels, torch.ones(3), correct, errors, temperature=1.0)
    tensor([0.3133, 1.3133, 0.0000])
    """
    if queries.dim() != 2 or labels.shape != queries.shape[:1] or confidence.shape != labels.shape:
        raise ValueError(
            f"contrastive_loss needs queries (B, D) and B labels and confidences, "
            f"got {tuple(queries.shape)}, {tuple(labels.shape)} and {tuple(confidence.shape)}"
        )
    widths = {queries.shape[1], correct.features.shape[1], errors.features.shape[1]}
    if len(widths) > 1:
        raise ValueError(f"queries and keys must have one width, got {sorted(widths)}")
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, got {temperature}")
    queries = at_least_single(queries)
    # A query without a direction is similar to nothing, and the slope of its direction is not a
    # number: it gets no gradient.
    lost = queries.detach().square().sum(dim=1, keepdim=True) < 1e-24
    queries = F.normalize(queries.masked_fill(lost, 1.0), dim=1).masked_fill(lost, 0.0)
    with torch.autocast(queries.device.type, enabled=False):
        to_correct, positive = _similarity(queries, labels, correct, temperature)
        to_errors, negative = _similarity(queries, labels, errors, temperature)
    # A finite stand-in for minus infinity: a query without negatives then has loss 0 and a gradient
    # of 0, not NaN.
    lowest = torch.finfo(queries.dtype).min / 2
    against = to_errors.masked_fill(~negative, lowest).logsumexp(dim=1, keepdim=True)
    loss = F.softplus(against - to_correct).masked_fill(~positive, 0.0).sum(dim=1)
    return confidence.detach() * loss / positive.sum(dim=1).clamp(min=1)


def _similarity(
    queries: Tensor, labels: Tensor, keys: Keys, temperature: float
) -> tuple[Tensor, Tensor]:
    """Return scaled cosine similarities (B, K), and which keys have the query's class."""
    features = F.normalize(keys.features.to(queries.dtype), dim=1)
    matches = (labels[:, None] == keys.classes[None, :]) & (keys.classes != EMPTY)
    return queries @ features.T / temperature, matches
