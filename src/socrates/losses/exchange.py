"""What the ranks of a `torch.distributed` group tell each other, so that each remembers what all of them saw."""

from __future__ import annotations

from typing import Any, Literal, cast

import torch
from torch import Tensor

_dist = cast(Any, torch.distributed)
Group = Any  # a torch.distributed.ProcessGroup, a class that builds without torch.distributed do not have
FEW = 2**31  # samples whose positions fit into four bytes


def group_of(process_group: Group | Literal["auto"] | None) -> Group | None:
    """The group to exchange with: none where there is but one rank; "auto" is that of all ranks, if there is one.

    >>> group_of("auto") is None
    True
    """
    if process_group is None or not _dist.is_available() or not _dist.is_initialized():
        return None
    group = _dist.group.WORLD if process_group == "auto" else process_group
    return group if _dist.get_world_size(group) > 1 else None


def check_group(process_group: object) -> None:
    """Refuse what is neither "auto" nor None nor a group.

    >>> check_group("gloo")
    Traceback (most recent call last):
    ValueError: process_group must be "auto", None or a torch.distributed group, got 'gloo'
    """
    if isinstance(process_group, str | int | float) and process_group != "auto":
        raise ValueError(f'process_group must be "auto", None or a torch.distributed group, got {process_group!r}')


def gather_sizes(count: int, weight: Tensor, group: Group, name: str) -> Tensor:
    """How many samples each rank has in this step, and their weight: (ranks, 2) float64, sixteen bytes a rank."""
    own = torch.stack([torch.full_like(weight, count, dtype=torch.float64), weight.to(torch.float64)])
    return _all_gather(own, group, name)


def gather_samples(
    index: Tensor, target: Tensor, sizes: Tensor, num_samples: int, group: Group, name: str
) -> tuple[Tensor, Tensor]:
    """Index and target of all ranks: eight bytes for each sample of the largest batch, to which others are padded."""
    counts = cast(list[int], cast(Any, sizes[:, 0].long()).tolist())
    position = torch.int32 if num_samples < FEW else torch.int64
    words = [index.to(position)[:, None].view(torch.uint8), target[:, None].view(torch.uint8)]
    packed = torch.cat(words, dim=1)  # (B, 8)
    padded = packed.new_zeros(max(counts), packed.shape[1])
    padded[: len(packed)] = packed
    found = _all_gather(padded, group, name)
    rows = torch.cat([part[:count] for part, count in zip(found, counts, strict=True)])
    border = position.itemsize
    every_index, every_target = rows[:, :border].contiguous(), rows[:, border:].contiguous()
    return every_index.view(position).squeeze(1).to(torch.int64), every_target.view(target.dtype).squeeze(1)


def _all_gather(own: Tensor, group: Group, name: str) -> Tensor:
    found = own.new_empty(_dist.get_world_size(group), *own.shape)
    try:
        _dist.all_gather(list(found.unbind()), own, group=group)
    except RuntimeError as error:
        said = str(error).strip().partition("\n")[0]
        every = "each rank must call it in each training step, with an empty batch if it has no sample"
        ways = "process_group=None remembers on each rank alone, a smaller group only among its ranks"
        raise RuntimeError(
            f"{name} waited in vain for the other ranks of its process_group ({said}): {every}; {ways}"
        ) from error
    return found
