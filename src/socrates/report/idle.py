"""Mechanisms that did nothing: where a method trained without what it is named after, every output says so."""

from collections.abc import Mapping, Sequence

import numpy as np

from .results import Array, Results
from .words import first_of

HIGHEST_TARGET = 0.99
SMALLEST_SHARE = 0.01
ROUNDING = 1e-5  # relative: what two ways to add the same numbers come to after some epochs
QUEUES = "a queue of keys never filled, so that the contrastive term never acted"
TARGET = f"the adaptive target stayed above {HIGHEST_TARGET:g} throughout"
UNKNOWN = f"the unknown term had less than {100 * SMALLEST_SHARE:.0f} % of the loss"


def idle(results: Results) -> dict[str, int]:
    """Which mechanisms were idle, in words, and in how many of the runs; read from what each epoch records.

    >>> from socrates.experiment import Part
    >>> fill = np.array([[0.0, 1.0], [0.0, 0.5]])
    >>> idle(Results("CCL-SC", Part("ccl_sc"), seeds=(1, 2), epochs=np.arange(2), curves={"queue_fill": fill}))
    {'a queue of keys never filled, so that the contrastive term never acted': 1}
    """
    fill, target, share = (_recorded(results, name) for name in ("queue_fill", "target", "unknown_term"))
    found = {
        QUEUES: fill.max(axis=1) < 1,
        # A loss without an unknown term records no share of it, and has no use for its target.
        TARGET: (target.min(axis=1) > HIGHEST_TARGET) & (share.count(axis=1) > 0),
        UNKNOWN: abs(share.mean(axis=1)) < SMALLEST_SHARE,
    }
    counts = {words: int(np.ma.filled(where, False).sum()) for words, where in found.items()}
    return {words: count for words, count in counts.items() if count}


def with_idle(note: str | None, settings: Mapping[str, Sequence[Results]]) -> str | None:
    """A note for an output of these results, by their headings, with what was idle in them said after it.

    >>> with_idle("Small models.", {"digits": []})
    'Small models.'
    """
    told: dict[str, list[str]] = {}
    for heading, members in settings.items():
        for one in members:
            for words, count in idle(one).items():
                runs = f"{count} of {len(one.seeds)} runs" if count < len(one.seeds) else ""
                place = "; ".join(filter(None, (heading if len(settings) > 1 else "", runs)))
                told.setdefault(words, []).append(f"{one.label} ({place})" if place else one.label)
    sentences = [f"Idle: {words}: {first_of(labels)}." for words, labels in told.items()]
    for heading, members in settings.items():
        place = f" ({heading})" if len(settings) > 1 else ""
        sentences += [f"Idle: what tells {first_of(alike, ' from ')} apart{place}." for alike in _alike(members)]
    return " ".join([*([note] if note else []), *sentences]) or None


def _alike(members: Sequence[Results]) -> list[list[str]]:
    """The labels of those that were trained as different ones, and had the same losses but for rounding."""
    groups: list[list[Results]] = []
    for one in members:
        if one.experiment and np.isfinite(one.curve("train_loss")).any():
            near = (group for group in groups if _same_losses(group[0], one) and group[0].experiment != one.experiment)
            group = next(near, None)
            groups.append([one]) if group is None else group.append(one)
    return [[one.label for one in group] for group in groups if len(group) > 1]


def _same_losses(one: Results, other: Results) -> bool:
    ours, theirs = one.curve("train_loss"), other.curve("train_loss")
    return ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=ROUNDING, atol=0, equal_nan=True)


def _recorded(results: Results, name: str) -> "np.ma.MaskedArray[tuple[int, ...], np.dtype[np.float64]]":
    """A number of each epoch for each run, masked where it was not recorded."""
    curve: Array = results.curve(name)
    return np.ma.masked_invalid(curve if curve.size else np.full((len(results.seeds), 1), np.nan))
