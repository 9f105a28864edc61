"""Novelty scores: what they rank, how they are calibrated, and what they refuse."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from socrates.metrics import aurc, auroc
from socrates.novelty import DEFAULT, NOVELTY, Mahalanobis, Samples, create, describe, rebuild
from socrates.novelty.mahalanobis import mixture, shrunk
from socrates.novelty.neighbors import NearestNeighbors, planned
from socrates.novelty.score import quantiles_of, share_below, spread_rows

NUM_CLASSES = 4
FITTED: dict[str, Any] = {}


def known_samples(count: int, dimensions: int = 12, seed: int = 1, spread: float = 1.0) -> Samples:
    """Clusters around the corners of a simplex, with logits and an unknown last column."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % NUM_CLASSES
    centers = 4 * torch.eye(dimensions)[:NUM_CLASSES]
    features = centers[labels] + spread * torch.randn(count, dimensions, generator=generator)
    return Samples.of(features, logits_of(features), labels)


def logits_of(features: torch.Tensor) -> torch.Tensor:
    known = 2 * features[:, :NUM_CLASSES]
    return torch.cat([known, 3 - known.amax(dim=1, keepdim=True)], dim=1)


def strange_features(count: int = 400, dimensions: int = 12) -> torch.Tensor:
    """A cluster where no class is."""
    generator = torch.Generator().manual_seed(9)
    return -3 + torch.randn(count, dimensions, generator=generator)


def fitted(name: str) -> Any:
    if name not in FITTED:
        train = known_samples(600)
        val = known_samples(2000, seed=2)
        FITTED[name] = create(name).fit(train, val, unknown_class=True)
    return FITTED[name]


@pytest.mark.parametrize("name", NOVELTY)
def test_every_score_ranks_strangers_above_known_samples(name):
    score = fitted(name)
    new = known_samples(500, seed=3)
    strangers = strange_features()
    raw = score.scores(new.features, new.logits, raw=True)
    others = score.scores(strangers, logits_of(strangers), raw=True)
    assert auroc(-raw, -others) > 0.9


@pytest.mark.parametrize("name", NOVELTY)
def test_a_twentieth_of_new_known_samples_is_above_095(name):
    new = known_samples(4000, seed=4)
    novelty = fitted(name).scores(new.features, new.logits)
    assert float((novelty > 0.95).float().mean()) == pytest.approx(0.05, abs=0.02)
    assert float(novelty.mean()) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("name", NOVELTY)
def test_a_score_is_rebuilt_from_its_description_and_tensors(name):
    score = fitted(name)
    again = rebuild(describe(score), score.state_dict())
    new = known_samples(50, seed=5)
    expected = score.scores(new.features, new.logits)
    assert torch.equal(again.scores(new.features, new.logits), expected)
    assert torch.equal(score.half().scores(new.features, new.logits), expected)
    assert {"title", "short", "keeps"} <= set(dir(type(again)))


@pytest.mark.parametrize("name", NOVELTY)
def test_what_is_not_finite_is_strange(name):
    features = torch.full((2, 12), math.nan)
    features[1] = math.inf
    logits = torch.full((2, NUM_CLASSES + 1), math.nan)
    assert fitted(name)(features, logits).tolist() == [1.0, 1.0]


def test_validation_samples_are_scored_without_themselves():
    """With as many dimensions as samples, a covariance knows its own samples too well."""
    train = known_samples(400, 60)
    val = known_samples(80, 60, seed=2)
    score = Mahalanobis().fit(train, val, unknown_class=True)
    new = known_samples(4000, 60, seed=3)
    novelty = score.scores(new.features, new.logits)
    assert float((novelty > 0.95).float().mean()) < 0.08
    naive = score.raw(val.features, val.logits)
    limit = naive.quantile(0.95)
    assert float((score.raw(new.features, new.logits) > limit).float().mean()) > 0.3


def test_leaving_one_out_in_closed_form_is_leaving_it_out():
    train = known_samples(40, 5)
    val = known_samples(30, 5, seed=2)
    assert val.features is not None
    assert train.features is not None
    score = Mahalanobis(shrinkage=0.3)
    score.fit(train, val, unknown_class=True)
    means = torch.stack([train.features[train.labels == k].mean(0) for k in range(NUM_CLASSES)])
    residuals = (val.features - means[val.labels]).double()
    drawn_together = (train.features - means[train.labels]).double()
    share = 30 / (30 + 5)
    whole = shrunk(mixture(residuals.T @ residuals / 30, drawn_together, share), 0.3)
    without = whole - 0.7 * share / 30 * residuals[:1].T @ residuals[:1]
    difference = (val.features[0] - means).double()
    expected = (difference @ torch.linalg.inv(without) * difference).sum(1).min()
    z = score.fit_checked(train, val, NUM_CLASSES, None)
    found = z[0] * score.deviation.double() + score.mean.double()
    assert float(found) == pytest.approx(float(expected), rel=1e-5)


def test_the_nearest_neighbor_is_measured_by_hand():
    train = Samples.of([[3.0, 0.0], [0.0, 2.0]] * 20, torch.zeros(40, 2), [0, 1] * 20)
    score = NearestNeighbors(neighbors=1).fit(train, known_pair())
    found = score.raw(torch.tensor([[5.0, 0.0], [-1.0, 0.0], [1.0, 1.0]]), torch.zeros(3, 2))
    expected = [0.0, math.sqrt(2), math.sqrt(2 - math.sqrt(2))]
    assert found.tolist() == pytest.approx(expected, abs=1e-6)


def known_pair() -> Samples:
    angles = torch.linspace(0.1, 1, 40)
    features = torch.stack([angles.cos(), angles.sin()], dim=1)
    return Samples.of(features, torch.zeros(40, 2), torch.arange(40) % 2)


@pytest.mark.parametrize("max_bytes", [3_000, 20_000, 100_000])
@pytest.mark.parametrize("dimensions", [16, 128, 300])
def test_a_bank_stays_within_its_bytes(max_bytes, dimensions):
    train = known_samples(2000, dimensions)
    val = known_samples(100, dimensions, seed=2)
    if max_bytes == 3_000 and dimensions == 300:
        with pytest.raises(ValueError, match="energy"):
            create(DEFAULT).fit(train, val, unknown_class=True, max_bytes=max_bytes)
        return
    score = create(DEFAULT).fit(train, val, unknown_class=True, max_bytes=max_bytes)
    assert 0 < score.bank_bytes <= max_bytes
    strangers = strange_features(200, dimensions)
    new = known_samples(200, dimensions, seed=3)
    raw = score.scores(new.features, new.logits, raw=True)
    assert auroc(-raw, -score.scores(strangers, logits_of(strangers), raw=True)) > 0.9


def test_a_bank_has_5000_rows_at_most_spread_over_the_classes():
    assert planned(60_000, 64, 10, None).rows == 5000
    labels = torch.cat([torch.zeros(9000), torch.ones(30)]).long()
    assert labels[spread_rows(labels, 100)].bincount().tolist() == [70, 30]


def test_energy_and_unknown_keep_nothing_of_the_images():
    for name in ("energy", "unknown"):
        assert fitted(name).bank_bytes == 0
        assert fitted(name).num_bytes < 1000


def test_long_features_are_projected():
    train = known_samples(60, 1500)
    val = known_samples(60, 1500, seed=2)
    score = Mahalanobis().fit(train, val, unknown_class=True)
    assert score.whitening.shape == (1024, 1024)
    strangers = strange_features(50, 1500)
    assert bool((score.scores(strangers, logits_of(strangers)) > 0.9).all())


@pytest.mark.parametrize("name", ["knn", "mahalanobis", DEFAULT])
@pytest.mark.parametrize(
    "change", ["constant features", "one class", "one dimension", "zero features", "equal logits"]
)
def test_degenerate_samples_give_finite_scores(name, change):
    count = 60
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(count, 5, generator=generator)
    logits = torch.randn(count, 3, generator=generator)
    labels = torch.arange(count) % 3
    if change == "constant features":
        features = torch.ones(count, 5)
    if change == "zero features":
        features = torch.zeros(count, 5)
    if change == "one dimension":
        features = features[:, :1]
    if change == "one class":
        logits = logits[:, :1]
        labels = torch.zeros(count)
    if change == "equal logits":
        logits = torch.zeros(count, 3)
    samples = Samples.of(features, logits, labels)
    score = create(name).fit(samples, samples)
    novelty = score(features, logits)
    assert bool(torch.isfinite(novelty).all())
    assert 0 <= float(novelty.min()) <= float(novelty.max()) < 1


def test_a_class_without_training_rows_has_no_mean():
    train = known_samples(300)
    seen = train.labels < 3
    assert train.features is not None
    part = Samples.of(train.features[seen], train.logits[seen], train.labels[seen])
    score = create(DEFAULT).fit(part, known_samples(100, seed=2), unknown_class=True)
    assert score.members["mahalanobis"].means.shape == (3, 12)


def test_few_validation_samples_decline_nothing_and_say_so():
    train = known_samples(100)
    with pytest.warns(UserWarning, match="10"):
        score = create(DEFAULT).fit(train, known_samples(10, seed=2), unknown_class=True)
    strangers = strange_features(20)
    novelty = score.scores(strangers, logits_of(strangers))
    assert float(novelty.max()) == pytest.approx(10 / 11)


@pytest.mark.parametrize(
    ("features", "labels", "name", "words"),
    [
        (torch.full((30, 2), math.nan), torch.zeros(30), "knn", "not finite"),
        (None, torch.zeros(30), "knn", "energy"),
        (torch.zeros(30, 2), torch.full((30,), 7), "energy", "0 to 2"),
        (torch.zeros(30, 2, 2), torch.zeros(30), "knn", "flatten"),
        (torch.zeros(30, 2), torch.zeros(30), "unknown", "unknown last column"),
        (torch.zeros(30, 2), torch.zeros(30), "nearest", "mahalanobis"),
    ],
)
def test_what_cannot_be_fitted_is_refused(features, labels, name, words):
    def fit():
        samples = Samples.of(features, torch.zeros(30, 3), labels)
        return create(name).fit(samples, samples)

    with pytest.raises(ValueError, match=words):
        fit()


def test_a_damaged_score_is_refused():
    score = fitted("knn")
    tensors = dict(score.state_dict())
    tensors["bank"] = tensors["bank"][:, :5].clone()
    with pytest.raises(ValueError, match="tensors"):
        rebuild(describe(score), tensors)
    broken = describe(score)
    shapes = {**broken.tensors, "bank": tuple(tensors["bank"].shape)}
    with pytest.raises((ValueError, RuntimeError)):
        rebuild(type(broken)(broken.name, shapes), tensors)
    tensors = dict(score.state_dict())
    tensors["mean"] = torch.tensor(math.nan)
    with pytest.raises(ValueError, match="finite"):
        rebuild(describe(score), tensors)


def test_novelty_never_promises_more_than_the_ranks_of_the_samples():
    """Of n + 1 exchangeable scores, a share of at most 1 - q has a novelty above q."""
    generator = torch.Generator().manual_seed(1)
    for count in (5, 19, 40, 300, 1500):
        kept = quantiles_of(torch.randn(count, generator=generator).sort().values)
        new = torch.randn(3000, generator=generator)
        steps = (kept[None, :] < new[:, None]).sum(1) / (len(kept) + 1)
        assert bool((share_below(new, kept) <= steps + 1e-6).all())


def test_two_thresholds_keep_the_ranking_of_known_classes():
    """Declining by novelty first costs at most 5% of the AURC by confidence alone."""
    new = known_samples(4000, seed=6, spread=1.6)
    train = known_samples(600, spread=1.6)
    score = create(DEFAULT).fit(train, known_samples(300, seed=2, spread=1.6), unknown_class=True)
    probs = new.logits[:, :NUM_CLASSES].softmax(dim=1)
    kept = score.scores(new.features, new.logits) <= 0.95
    alone = aurc(probs, new.labels)
    assert aurc(probs[kept], new.labels[kept]) <= 1.05 * alone
