"""Images that trained a model, found among those that are to certify it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ..data.thumbnail import recognized

NOT_NEW = (
    "trained the model, chose its epoch or fitted its scaler or novelty: only images that are new "
    "to it can certify"
)
MOST_SEEN = 0.02  # the share of images that may be left out because the model has seen them
MOST_NAMED = 10


def new_rows(
    pictures: Tensor,
    seen: Tensor,
    names: Sequence[str] | None = None,
    most_seen: float = MOST_SEEN,
) -> Tensor:
    """Return the rows of thumbnails whose images are new to a model with these `seen` thumbnails.

    Up to 2% of images that are not new are left out with a warning, as a few look alike in any
    data; more of them than `most_seen` are refused. `names` are those of the images.
    """
    is_seen = recognized(pictures, seen)
    rows: list[int] = is_seen.nonzero().flatten().tolist()
    if rows:
        found = f"{len(rows):,} of {len(is_seen):,} images look like images that {NOT_NEW}"
        named = [names[row] if names else f"image {row}" for row in rows[:MOST_NAMED]]
        listed = ", ".join(named)
        more = f" and {len(rows) - MOST_NAMED:,} more" if len(rows) > MOST_NAMED else ""
        if len(rows) > most_seen * len(is_seen):
            raise ValueError(f"{found}: {listed}{more}")
        warnings.warn(f"{found}; these are left out: {listed}{more}", stacklevel=3)
    return torch.nonzero(~is_seen).flatten()


def known_thumbnails(tensors: Mapping[str, Tensor]) -> Tensor | None:
    """Return the thumbnails in a model's file, or None if it has none.

    Early files of this format have hashes instead, which recognize nothing that was saved again:
    such a model remembers no images.
    """
    seen = tensors.get("seen")
    return seen if seen is not None and seen.dtype == torch.uint8 else None
