"""Fit the novelty score of a trained model, and measure the novelty of a split."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from socrates.contracts import Split, Splits
from socrates.data.splits import stratified_subset
from socrates.engine.evaluate import EVAL_BATCH
from socrates.novelty import NOVELTY, NoveltyScore, Samples, WeightedVotes, create, weighted
from socrates.novelty.registry import name_of
from socrates.predictor import Weights
from socrates.predictor.strangeness import has_features, logits_and_novelty

NONE = "none"  # the name that asks for no novelty score
MOST_TRAIN = 20_000  # training samples whose features are computed, spread over the classes
BANK_SHARE = 4  # a bank takes at most one of so many parts of the model's bytes


def check_name(name: str) -> str:
    """Return the name of a novelty score, or "none"; refuse others.

    >>> check_name("energy")
    'energy'
    """
    if name != NONE and name not in NOVELTY:
        raise ValueError(f"novelty must be one of {', '.join([NONE, *NOVELTY])}, got {name!r}")
    return name


class FittedNovelty(NamedTuple):
    """A novelty score, if one could be fitted, and in words which one and why not another."""

    score: NoveltyScore | None
    words: str


def fit_novelty(
    model: nn.Module,
    splits: Splits,
    name: str,
    unknown_class: bool,
    weights: Weights = "full",
    strangers: Split | None = None,
) -> FittedNovelty:
    """Return the novelty score of that name, fitted on training and held-out data.

    A model that lacks what the score needs gets the energy of its logits. Where nothing can be
    fitted there is no score. With strangers, its votes are weighted by them.
    """
    if name == NONE:
        return FittedNovelty(None, NONE)
    lacks = what_is_missing(name, model, unknown_class)
    score = create("energy" if lacks else name)
    try:
        train = samples_of(model, splits.train, score.needs_features, "training")
        kind = "validation" if splits.holdout is None else "held-out"
        val = samples_of(model, splits.fitting, score.needs_features, kind)
        limit = bytes_of(model, weights) // BANK_SHARE
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                score.fit(train, val, unknown_class=unknown_class, max_bytes=limit)
            except ValueError as error:
                if not score.needs_features:
                    raise
                lacks = str(error)
                score = create("energy").fit(train, val, unknown_class=unknown_class)
    except ValueError as error:
        return FittedNovelty(None, f"{NONE}, because {error}")
    because = f", because {lacks}" if lacks else ""
    remarks = dict.fromkeys(str(warning.message) for warning in caught)
    plain = FittedNovelty(score, "; ".join([f"{name_of(score)}{because}", *remarks]))
    if strangers is None:
        return plain
    try:
        others = samples_of(model, strangers, train.features is not None, "strange")
        fitted = weighted(name_of(score), unknown_class)
        fitted.fit_with(train, val, others, unknown_class=unknown_class, max_bytes=limit)
    except ValueError as error:
        return FittedNovelty(score, f"{plain.words}; not weighted by strangers, because {error}")
    return FittedNovelty(fitted, f"{plain.words}; {weights_in_words(fitted, len(strangers))}")


def weights_in_words(score: WeightedVotes, num_strangers: int) -> str:
    """Return the weights that strangers gave to each vote, as shares of their sum."""
    total = max(float(score.weights.sum()), 1e-12)
    names = name_of(score).partition(":")[2].split("+")
    shares = zip(names, score.weights.tolist(), strict=True)
    listed = ", ".join(f"{name} {weight / total:.0%}" for name, weight in shares)
    return f"weighted by {num_strangers} strangers: {listed}"


def what_is_missing(name: str, model: nn.Module, unknown_class: bool) -> str:
    """Return what a model lacks that the novelty score of that name needs, "" if nothing."""
    kind = NOVELTY[name]
    if kind.needs_features and not has_features(model):
        return f"the model has no features(inputs) and head, which {name} needs"
    if kind.needs_unknown_class and not unknown_class:
        return f"the model has no unknown column, which {name} needs"
    return ""


def bytes_of(model: nn.Module, weights: Weights) -> int:
    """Return the bytes of a model's weights as they are kept."""
    total = sum(value.numel() * value.element_size() for value in model.state_dict().values())
    return total // 2 if weights == "half" else total


@torch.no_grad()
def samples_of(model: Any, split: Split, with_features: bool, name: str) -> Samples:
    """Return features, logits and labels of a split without augmentation, on the CPU.

    Of a large split they are those of a part, spread over the classes.
    """
    model.eval()
    labels = split.labels.cpu()
    order = torch.arange(len(labels))
    if len(labels) > MOST_TRAIN:
        order = torch.from_numpy(stratified_subset(labels.numpy(), MOST_TRAIN))
    features: list[Tensor] = []
    logits: list[Tensor] = []
    for batch in split.batches(EVAL_BATCH, order):
        if with_features:
            rows = model.features(batch.inputs)
            features.append(rows.float().cpu())
            logits.append(model.head(rows).float().cpu())
        else:
            logits.append(model(batch.inputs).float().cpu())
    rows = torch.cat(features) if with_features else None
    return Samples.of(rows, torch.cat(logits), labels[order], f"the {name}")


@torch.no_grad()
def measure_split(
    model: nn.Module, novelty: NoveltyScore | None, split: Split
) -> tuple[Tensor, Tensor | None]:
    """Return logits and novelty of a split, in order, on the CPU."""
    model.eval()
    logits: list[Tensor] = []
    strangeness: list[Tensor] = []
    for batch in split.batches(EVAL_BATCH, torch.arange(len(split))):
        rows, values = logits_and_novelty(model, novelty, batch.inputs)
        logits.append(rows.float().cpu())
        if values is not None:
            strangeness.append(values.cpu())
    return torch.cat(logits), torch.cat(strangeness) if strangeness else None
