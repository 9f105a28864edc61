"""Notice mistakes with targets: validation that moves them, and targets of other options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy
from torch import Tensor

NO_LABEL = -1
MOST_IDLE = 32  # losses that are added up before one backward pass
OVER = ("all", "known")
# The labels of this many calls are compared, and then of one in a few: it takes 25 of 400
# microseconds with 128 samples of 10 classes.
ALL_COMPARED = 100
COMPARE_EVERY = 8


def is_compared(call: int) -> bool:
    """Return whether the labels of the call with this number are compared."""
    return call <= ALL_COMPARED or call % COMPARE_EVERY == 0


class IdleLosses:
    """How many losses in a row were computed with a gradient that no backward pass asked for.

    Training asks for each, be it after some: a long row of others is a pass over data for its
    metrics alone.
    """

    def __init__(self) -> None:
        self.count = 0

    def add(self, loss: Tensor) -> bool:
        """Watch one more loss; return whether there are more in a row than training has."""
        if loss.requires_grad:
            self.count += 1
            loss.register_hook(self._reached)  # pyright: ignore[reportUnknownMemberType]
        return self.count > MOST_IDLE

    def _reached(self, _: Tensor) -> None:
        self.count = 0


class SeenLabels:
    """The label of each training sample when it was last seen, on the host.

    An index with another label is another sample: that of a validation set, or of a second dataset
    whose index also counts from 0.

    >>> import torch
    >>> seen, index = SeenLabels(3), torch.tensor([0, 2])
    >>> seen.difference(torch.tensor([4, 5]), index, None) is None
    True
    >>> seen.difference(torch.tensor([4, 1]), index, None)
    'with the label 1 at index 2, where it was 5'
    """

    def __init__(self, num_samples: int) -> None:
        self.labels: Any = numpy.full(num_samples, NO_LABEL, numpy.int32)

    def difference(self, labels: Tensor, index: Tensor, counts: Tensor | None) -> str | None:
        """Return the first label that differs from the last time, in words; remember them all."""
        places = index.numpy()
        now = labels.numpy()
        if counts is not None:
            places = places[counts.numpy()]
            now = now[counts.numpy()]
        before = self.labels[places]
        self.labels[places] = now
        differs = (before != now) & (before != NO_LABEL)
        if not differs.any():
            return None
        row = int(differs.argmax())
        return f"with the label {now[row]} at index {places[row]}, where it was {before[row]}"


def stored_targets(targets: Tensor, index: Tensor) -> Tensor:
    """Return the targets at an index; an index out of range raises, on the CPU at no cost."""
    try:
        return targets.index_select(0, index)
    except IndexError as error:
        raise IndexError(
            f"index must be in 0..{len(targets) - 1} for num_samples={len(targets)}, "
            f"got values from {int(index.min())} to {int(index.max())}: "
            f"pass each sample's position in the training set"
        ) from error


def other_options(ours: Mapping[str, float], saved: list[float]) -> str | None:
    """Return how the options that saved targets were made with differ from ours, in words.

    >>> other_options({"alpha": 0.99, "target_over": 0}, [0.9, 0])
    'alpha=0.9, not alpha=0.99'
    """
    theirs = dict(zip(ours, saved, strict=False))
    names = [name for name in ours if theirs.get(name) != ours[name]]
    if not names:
        return None
    then, now = (", ".join(_option(name, of.get(name)) for name in names) for of in (theirs, ours))
    return f"{then}, not {now}"


def _option(name: str, value: float | None) -> str:
    """Return an option as the constructor takes it."""
    if name == "target_over" and value in (0, 1):
        return f"{name}={OVER[int(value)]!r}"
    return f"no {name}" if value is None else f"{name}={value:g}"
