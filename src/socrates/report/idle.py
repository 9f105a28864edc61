"""Mechanisms that did nothing: where a method trained without what it is named after, say so."""

import numpy as np

from .results import Members, Results, Settings
from .words import first_of

HIGHEST_TARGET = 0.99
SMALLEST_SHARE = 0.01
FEWEST_ANSWERS = 0.001
ROUNDING = 1e-5  # relative: how far two ways to add the same numbers drift apart in some epochs
QUEUES = "a queue of keys never filled, so that the contrastive term never acted"
TARGET = f"the adaptive target stayed above {HIGHEST_TARGET:g} throughout"
UNKNOWN = f"the unknown term had less than {100 * SMALLEST_SHARE:.0f}% of the loss"
ANSWERS = f"unknown was the top answer in less than {100 * FEWEST_ANSWERS:g}% at every epoch"


def idle(results: Results) -> dict[str, int]:
    """Return which mechanisms were idle, in words, and in how many runs.

    Read from what each epoch records.

    >>> from socrates.experiment import Part
    >>> fill = np.array([[0.0, 1.0], [0.0, 0.5]])
    >>> curves = {"queue_fill": fill}
    >>> method = Part("ccl_sc")
    >>> idle(Results("CCL-SC", method, seeds=(1, 2), epochs=np.arange(2), curves=curves))
    {'a queue of keys never filled, so that the contrastive term never acted': 1}
    """
    fill = _recorded(results, "queue_fill")
    target = _recorded(results, "target")
    share = _recorded(results, "unknown_term")
    answers = _recorded(results, "unknown_share")
    has_term = share.count(axis=1) > 0
    idle_runs = {
        QUEUES: fill.max(axis=1) < 1,
        # A loss without an unknown term records no share of it, and has no use for its target.
        TARGET: (target.min(axis=1) > HIGHEST_TARGET) & has_term,
        UNKNOWN: abs(share.mean(axis=1)) < SMALLEST_SHARE,
        ANSWERS: (answers.max(axis=1) < FEWEST_ANSWERS) & has_term,
    }
    counts = {words: int(np.ma.filled(runs, False).sum()) for words, runs in idle_runs.items()}
    return {words: count for words, count in counts.items() if count}


def with_idle(note: str | None, settings: Settings) -> str | None:
    """Return a note for an output of these results, followed by what was idle in them.

    >>> with_idle("Small models.", {"digits": []})
    'Small models.'
    """
    several = len(settings) > 1
    idle_labels: dict[str, list[str]] = {}
    alike: list[str] = []
    for heading, members in settings.items():
        setting = heading if several else ""
        for results in members:
            for words, count in idle(results).items():
                label = _label_with_place(results, setting, count)
                idle_labels.setdefault(words, []).append(label)
        place = f" ({setting})" if setting else ""
        alike += [
            f"{first_of(labels, ' and ')} trained alike: what sets them apart was idle{place}."
            for labels in same_training(members)
        ]
    sentences = [f"Idle: {words}: {first_of(labels)}." for words, labels in idle_labels.items()]
    return " ".join(filter(None, [note, *sentences, *alike])) or None


def _label_with_place(results: Results, setting: str, count: int) -> str:
    """Return a label, with the setting and the number of runs where they must be said."""
    num_runs = len(results.seeds)
    runs = f"{count} of {num_runs} runs" if count < num_runs else ""
    place = "; ".join(filter(None, (setting, runs)))
    return f"{results.label} ({place})" if place else results.label


def same_training(members: Members) -> list[list[str]]:
    """Return the labels of different experiments that had the same losses but for rounding."""
    groups: list[list[Results]] = []
    for results in members:
        if not results.experiment or not np.isfinite(results.curve("train_loss")).any():
            continue
        for group in groups:
            if group[0].experiment != results.experiment and _same_losses(group[0], results):
                group.append(results)
                break
        else:
            groups.append([results])
    return [[results.label for results in group] for group in groups if len(group) > 1]


def _same_losses(results: Results, other: Results) -> bool:
    losses = results.curve("train_loss")
    other_losses = other.curve("train_loss")
    return losses.shape == other_losses.shape and np.allclose(
        losses, other_losses, rtol=ROUNDING, atol=0, equal_nan=True
    )


def _recorded(
    results: Results, name: str
) -> "np.ma.MaskedArray[tuple[int, ...], np.dtype[np.float64]]":
    """Return a number of each epoch for each run, masked where it was not recorded."""
    curve = results.curve(name)
    return np.ma.masked_invalid(curve if curve.size else np.full((len(results.seeds), 1), np.nan))
