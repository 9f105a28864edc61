"""What ranks of a `torch.distributed` group exchange, so that each remembers what all have seen."""

from __future__ import annotations

from typing import Any, Literal, cast

import torch
from torch import Tensor

_dist = cast(Any, torch.distributed)
# A torch.distributed.ProcessGroup, which builds without torch.distributed do not have.
Group = Any
_FITS_INT32 = 2**31  # positions below this fit into four bytes


def group_of(process_group: Group | Literal["auto"] | None) -> Group | None:
    """Return the group to exchange with, None where there is only one rank.

    "auto" is the group of all ranks, if there is one.

    >>> group_of("auto") is None
    True
    """
    if process_group is None or not _dist.is_available() or not _dist.is_initialized():
        return None
    group = _dist.group.WORLD if process_group == "auto" else process_group
    return group if _dist.get_world_size(group) > 1 else None


def check_group(process_group: object) -> None:
    """Raise for what is neither "auto" nor None nor a group.

    >>> check_group("gloo")
    Traceback (most recent call last):
    ValueError: process_group must be "auto", None or a torch.distributed group, got 'gloo'
    """
    if isinstance(process_group, str | int | float) and process_group != "auto":
        raise ValueError(
            'process_group must be "auto", None or a torch.distributed group, got '
            f"{process_group!r}"
        )


def gather_sizes(count: int, weight: Tensor, group: Group, name: str) -> Tensor:
    """Return how many samples each rank has in this step, and their weight: (ranks, 2) float64."""
    number = torch.full_like(weight, count, dtype=torch.float64)
    return _all_gather(torch.stack([number, weight.to(torch.float64)]), group, name)


def gather_samples(
    index: Tensor, target: Tensor, sizes: Tensor, num_samples: int, group: Group, name: str
) -> tuple[Tensor, Tensor]:
    """Return index and target of the samples of all ranks.

    Eight bytes are sent for each sample of the largest batch, to which others are padded.
    """
    counts = cast(list[int], cast(Any, sizes[:, 0].long()).tolist())
    position = torch.int32 if num_samples < _FITS_INT32 else torch.int64
    index_bytes = index.to(position)[:, None].view(torch.uint8)
    packed = torch.cat([index_bytes, target[:, None].view(torch.uint8)], dim=1)  # (B, 8)
    padded = packed.new_zeros(max(counts), packed.shape[1])
    padded[: len(packed)] = packed
    ranks = _all_gather(padded, group, name)
    rows = torch.cat([part[:count] for part, count in zip(ranks, counts, strict=True)])
    border = position.itemsize
    every_index = rows[:, :border].contiguous().view(position).squeeze(1)
    every_target = rows[:, border:].contiguous().view(target.dtype).squeeze(1)
    return every_index.to(torch.int64), every_target


def _all_gather(part: Tensor, group: Group, name: str) -> Tensor:
    """Return the parts of all ranks, stacked."""
    parts = part.new_empty(_dist.get_world_size(group), *part.shape)
    try:
        _dist.all_gather(list(parts.unbind()), part, group=group)
    except RuntimeError as error:
        reason = str(error).strip().partition("\n")[0]
        raise RuntimeError(
            f"{name} waited in vain for the other ranks of its process_group ({reason}): "
            f"each rank must call it in each training step, with an empty batch if it has no "
            f"sample; process_group=None remembers on each rank alone, a smaller group only among "
            f"its ranks"
        ) from error
    return parts
