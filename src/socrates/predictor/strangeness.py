"""Is an input like the training data? The second question, beside which class it is."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from ..arrays.open import ArrayLike, as_numpy, as_tensor
from ..contracts import Inputs
from ..novelty import NoveltyScore

STRANGE = 0.95  # the novelty above which an input is declined
UNLIKE = "I do not know: unlike anything it was trained on"
UNMEASURED = (
    "these logits come without features, which the model's novelty score needs: nothing is "
    "declined as strange; use predict(inputs), or pass the novelty that was measured"
)


def has_features(model: nn.Module) -> bool:
    """Return whether a model has the two parts of `contracts.Classifier`.

    >>> has_features(nn.Linear(2, 2))
    False
    """
    features = getattr(model, "features", None)
    return callable(features) and isinstance(getattr(model, "head", None), nn.Module)


def check_fits(novelty: NoveltyScore | None, model: nn.Module, num_classes: int) -> None:
    """Refuse a novelty score that cannot be computed from this model's outputs."""
    if novelty is None:
        return
    if novelty.num_classes != num_classes:
        raise ValueError(
            f"the novelty score was fitted on {novelty.num_classes} classes, the model has "
            f"{num_classes}"
        )
    if novelty.needs_features and not has_features(model):
        raise ValueError(
            f"the novelty score needs features, and {type(model).__name__} has no features(inputs) "
            "and head"
        )


def logits_and_novelty(
    model: nn.Module, novelty: NoveltyScore | None, inputs: Inputs
) -> tuple[Tensor, Tensor | None]:
    """Return the logits (N, C) of prepared inputs and, with a score, their novelty (N,)."""
    if novelty is None:
        return model(inputs), None
    if not novelty.needs_features:
        logits = model(inputs)
        return logits, novelty(None, logits.float())
    parts: Any = model  # a Classifier, or a module of the same parts
    features = parts.features(inputs)
    logits = parts.head(features)
    return logits, novelty(features.float(), logits.float())


def novelty_of_logits(
    novelty: NoveltyScore | None, logits: Tensor, measured: ArrayLike | None, limit: float
) -> Tensor | None:
    """Return the novelty (N,) that was measured, or that of logits if they are all it needs."""
    if measured is not None:
        values = as_tensor(measured, "novelty").float()
        if values.shape != logits.shape[:1]:
            raise ValueError(
                f"expected the novelty of {len(logits)} samples, got the shape "
                f"{tuple(values.shape)}"
            )
        return values
    if novelty is None:
        return None
    if novelty.needs_features:
        if limit < 1:
            warnings.warn(UNMEASURED, stacklevel=4)
        return None
    return novelty.scores(None, logits)


def divided_by_label(
    inputs: Inputs, labels: ArrayLike, num_classes: int
) -> tuple[Tensor, ArrayLike, Tensor]:
    """Return inputs and labels of the classes, and the inputs labeled C or "unknown".

    >>> _, labels, strangers = divided_by_label(torch.zeros(3, 1), [1, 2, 0], num_classes=2)
    >>> labels.tolist(), len(strangers)
    ([1, 0], 1)
    """
    words = as_numpy(labels, "labels")
    is_strange = words == ("unknown" if words.dtype.kind in "UO" else num_classes)
    rows = torch.as_tensor(is_strange)
    if not isinstance(inputs, Tensor) or rows.shape != inputs.shape[:1] or not rows.any():
        raise ValueError(
            f"unknown_label expects a label for each input, and some of them to be {num_classes} "
            "or 'unknown'"
        )
    return inputs[~rows], words[~is_strange], inputs[rows]


def check_limit(limit: float) -> float:
    """Return a limit of novelty as a number; refuse what is not a share above 0, up to 1."""
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit <= 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(
            f"strange must be the novelty above which inputs are declined, above 0 and at most 1 "
            f"(1 declines none), got {limit!r}"
        )
    return float(limit)


def in_words(novelty: NoveltyScore | None, limit: float) -> str:
    """Return what a model keeps for novelty, in one line."""
    if novelty is None:
        return "none: a stranger is answered like an image of the classes"
    bank = f", bank {size_in_words(novelty.bank_bytes)}" if novelty.bank_bytes else ""
    declines = f"declined above {limit:g}" if limit < 1 else "nothing is declined"
    return (
        f"{novelty.title}, {declines}; it keeps {novelty.keeps} "
        f"({size_in_words(novelty.num_bytes)}{bank})"
    )


def size_in_words(num_bytes: int) -> str:
    """Return a number of bytes in kB or MB.

    >>> size_in_words(1500), size_in_words(2_500_000)
    ('1.5 kB', '2.5 MB')
    """
    if num_bytes < 1_000_000:
        return f"{num_bytes / 1000:.1f} kB"
    return f"{num_bytes / 1_000_000:.1f} MB"
