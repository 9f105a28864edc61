"""Training data that are held out: never trained on, they fit scaler and novelty."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

import socrates
from socrates import data
from socrates.cli.repeat import command_of
from socrates.engine import evaluate, train
from socrates.engine.keep import with_holdout
from socrates.engine.studies.forecast import sizes_of
from socrates.experiment import Experiment, Optimization, Part, resolve
from socrates.scaling import SCALERS

SHORT = Optimization(epochs=2, batch_size=64)
PLAIN = Experiment(Part("digits"), Part("mlp", width=8), Part("sat"), optimization=SHORT)
HELD = dataclasses.replace(PLAIN, holdout=0.1)


def kept_digits(root=None):
    return dataclasses.replace(with_holdout(data.load("digits"), 0.1), holdout=None)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(HELD, tmp_path_factory.mktemp("runs"), accelerator="cpu")


def test_a_tenth_of_each_class_by_a_rule_that_ignores_the_seed():
    whole = data.load("digits")
    splits = with_holdout(whole, 0.1)
    assert (len(splits.train), len(splits.holdout)) == (270, 30)
    shares = torch.bincount(splits.holdout.labels) / torch.bincount(whole.train.labels)
    assert ((shares - 0.1).abs() < 1 / 20).all()
    images = {image.numpy().tobytes() for image in splits.train.images}
    assert not images & {image.numpy().tobytes() for image in splits.holdout.images}
    again = with_holdout(data.load("digits"), 0.1)
    assert torch.equal(again.holdout.images, splits.holdout.images)
    assert splits.fitting is splits.holdout
    assert with_holdout(whole, 0.0) is whole
    assert whole.fitting is whole.val
    assert "30 held out" in str(splits)


def test_a_single_sample_of_a_class_is_trained_on():
    splits = data.load("digits")
    is_three = splits.train.labels == 3
    index = torch.cat([(~is_three).nonzero()[:, 0], is_three.nonzero()[:1, 0]])
    held = with_holdout(dataclasses.replace(splits, train=splits.train.subset(index)), 0.5)
    assert (held.train.labels == 3).sum() == 1


def test_they_fit_the_scalers_and_are_kept(run):
    epoch = run.chosen_epoch()
    held = run.predictions("holdout", epoch)
    expected = with_holdout(data.load("digits"), 0.1).holdout
    assert held.labels.tolist() == expected.labels.tolist()
    evaluation = evaluate(run)
    for name, other in (("holdout", False), ("val", True)):
        rows = run.predictions(name, epoch)
        scaler = SCALERS["temperature"]().fit(rows.logits, rows.labels, unknown_class=True)
        fitted = evaluation.parameters["temperature"]["temperature"]
        assert (float(scaler.temperature) != pytest.approx(fitted, rel=1e-6)) is other
    assert {*evaluation.results["none"]} == {"val", "test"}
    assert "held-out training data" in run.summary()["scaler"]


def test_the_model_knows_them_as_seen_and_says_how_many(run):
    predictor = socrates.load(run.directory)
    assert "30 held out" in predictor.about.facts["images"]
    assert len(predictor.seen) == 300 + len(run.predictions("val", run.chosen_epoch()).labels)


def test_the_novelty_score_is_fitted_on_them(tmp_path, monkeypatch):
    from socrates.engine import strangers

    sizes = {}
    usual = strangers.samples_of

    def watched(model, split, with_features, name):
        sizes[name] = len(split)
        return usual(model, split, with_features, name)

    monkeypatch.setattr(strangers, "samples_of", watched)
    train(dataclasses.replace(HELD, seed=2), tmp_path, accelerator="cpu")
    assert sizes == {"training": 270, "held-out": 30}


def test_a_holdout_is_another_experiment_and_none_keeps_the_name(run):
    assert resolve(HELD).name != resolve(PLAIN).name
    assert run.experiment.holdout == 0.1
    stored = PLAIN.to_json()
    del stored["holdout"]  # a run from before there was one
    assert Experiment.from_json(stored) == PLAIN
    assert "--holdout 0.1" in command_of(resolve(HELD))
    assert "--holdout" not in command_of(resolve(PLAIN))
    assert sizes_of(HELD).train == 270


def test_training_does_not_depend_on_the_held_out_samples(run, tmp_path):
    """The same 270 samples without a holdout train the same model."""
    with pytest.raises(ValueError, match=r"0 to 0.5, got 0.6"):
        dataclasses.replace(PLAIN, holdout=0.6)
    with pytest.raises(ValueError, match=r"on both sides.* 0.001 of 300"):
        train(dataclasses.replace(PLAIN, holdout=0.001), tmp_path, accelerator="cpu")
    assert not list(tmp_path.iterdir())
    alone = dataclasses.replace(PLAIN, dataset=Part(f"{__name__}:kept_digits"))
    other = train(alone, tmp_path, accelerator="cpu")
    logits, same = (each.predictions("test", 2).logits for each in (run, other))
    assert np.array_equal(logits, same)
