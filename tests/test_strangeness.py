"""A trained model notices what is unlike its training data, at every door."""

from __future__ import annotations

import typing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import socrates
from socrates import data, models
from socrates.cli.options import NoveltyChoice
from socrates.contracts import Batch, Classifier, Preparation, Splits
from socrates.engine.predict import columns, rows_of
from socrates.engine.strangers import fit_novelty, measure_split
from socrates.engine.train import train
from socrates.experiment import Experiment, Optimization, Part
from socrates.metrics import aurc
from socrates.novelty import DEFAULT, NOVELTY
from socrates.predictor import Description, Predictor, load
from socrates.predictor.card import card_text
from socrates.predictor.export import export
from socrates.predictor.strangeness import UNMEASURED, in_words

EPOCHS = 12
CLASSES = ("cat", "dog", "horse")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    optimization = Optimization(epochs=EPOCHS, batch_size=16, clip_norm=1.0)
    parts = Part("digits"), Part("mlp", width=64), Part("socrates")
    experiment = Experiment(*parts, optimization=optimization, certify=0.2)
    return train(experiment, tmp_path_factory.mktemp("runs"), accelerator="cpu")


@pytest.fixture(scope="module")
def test_split() -> Any:
    return data.load("digits").test


def noise_images(count: int = 100) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (count, 1, 8, 8), generator=generator, dtype=torch.uint8)


def test_a_trained_run_declines_strangers_and_few_of_its_own_images(run, test_split):
    predictor = load(run.directory)
    assert predictor.about.novelty is not None
    assert predictor.about.novelty.name == DEFAULT
    predictor.about = replace(predictor.about, certificate=None)
    known = predictor.predict(test_split.images)
    assert 0.01 < float((torch.as_tensor(known.novelty) > 0.95).float().mean()) < 0.12
    assert torch.equal(known.answered, known.novelty <= 0.95)
    negatives = 255 - test_split.images
    strange = predictor.predict(negatives)
    assert float(torch.as_tensor(strange.answered).float().mean()) < 0.3
    predictor.decline_above(1)
    assert bool(predictor.predict(negatives).answered.all())


def test_the_bank_takes_at_most_a_quarter_of_the_models_bytes(run):
    predictor = load(run.directory)
    model_bytes = sum(value.numel() * 4 for value in predictor.model.state_dict().values())
    assert 0 < predictor.novelty.bank_bytes <= model_bytes / 4
    words = in_words(predictor.novelty, predictor.about.strange)
    assert f"bank {predictor.novelty.bank_bytes / 1000:.1f} kB" in words
    assert "features of training images" in words


def test_the_novelty_of_the_test_data_is_kept_with_their_logits(run, test_split):
    kept = run.predictions("test", EPOCHS)
    predictor = load(run.directory)
    logits, novelty = measure_split(predictor.model, predictor.novelty, test_split)
    np.testing.assert_allclose(kept.logits, logits, atol=1e-4)
    np.testing.assert_allclose(kept.novelty, novelty, atol=1e-4)
    assert run.predictions("val", EPOCHS).novelty is None
    assert run.summary()["novelty"] == DEFAULT


def test_confidence_alone_ranks_the_known_classes_hardly_better(run, test_split):
    predictor = load(run.directory)
    predictor.about = replace(predictor.about, certificate=None)
    prediction = predictor.predict(test_split.images)
    answered = torch.as_tensor(prediction.answered)
    labels = test_split.labels
    alone = aurc(prediction, labels)
    assert aurc(prediction.take(answered), labels[answered]) <= 1.05 * alone


def test_a_certificate_counts_only_what_is_answered(run):
    predictor = load(run.directory)
    images = data.load("digits").test.images[:400]
    labels = data.load("digits").test.labels[:400]
    predictor.seen = torch.zeros(0, dtype=torch.int64)
    certificate = predictor.certify(images, labels, risk=0.2)
    assert certificate.num_accepted == int(predictor.predict(images).answered.sum())
    logits, novelty = predictor.measure(images)
    assert predictor.certify(labels=labels, logits=logits, novelty=novelty, risk=0.2) == certificate
    with pytest.warns(UserWarning, match="certificate"):
        predictor.decline_above(1)
    assert predictor.certificate is None


def test_logits_alone_have_a_novelty_only_where_it_needs_no_more(run):
    predictor = load(run.directory)
    logits = predictor.logits(noise_images(5))
    with pytest.warns(UserWarning, match=UNMEASURED[:30]):
        prediction = predictor.prediction(logits)
    assert prediction.novelty is None
    splits = data.load("digits")
    energy = fit_novelty(predictor.model, splits, "energy", unknown_class=True).score
    other = Predictor(predictor.model, predictor.about, novelty=energy, scalers=predictor.scalers)
    expected = other.predict(noise_images(5)).novelty
    torch.testing.assert_close(other.prediction(logits).novelty, expected)


@pytest.mark.parametrize("strange", [0, -1, 1.5, float("nan"), True])
def test_a_limit_that_is_no_share_is_refused(run, strange):
    with pytest.raises(ValueError, match="strange"):
        load(run.directory).decline_above(strange)


def test_the_hub_the_card_and_a_copy_have_the_same_novelty(run, tmp_path):
    hub = pytest.importorskip("socrates.hub")
    predictor = load(run.directory)
    expected = predictor.predict(noise_images()).novelty
    hub.HubPredictor(predictor).save_pretrained(tmp_path / "hub")
    again = hub.HubPredictor.from_pretrained(tmp_path / "hub")
    assert torch.equal(again.predict(noise_images()).novelty, expected)
    copy = socrates.load(predictor.save(tmp_path / "copy.safetensors"))
    assert torch.equal(copy.predict(noise_images()).novelty, expected)
    text = card_text(predictor, "model.onnx", "onnx", None)
    assert "features of training images" in text
    assert "answered, novelty = session.run" in text


def test_rows_of_files_have_the_novelty(run, tmp_path):
    predictor = load(run.directory)
    images = noise_images(3)
    rows = rows_of(predictor, [Path(f"{number}.png") for number in range(3)], images)
    expected = predictor.predict(images).novelty.tolist()
    assert [row["novelty"] for row in rows] == pytest.approx(expected)
    assert columns(predictor)[4] == "novelty"


def test_the_command_line_offers_every_score():
    assert set(typing.get_args(NoveltyChoice)) == {"none", *NOVELTY}


def test_an_unknown_score_is_refused_before_training(tmp_path):
    experiment = Experiment(Part("digits"), Part("mlp"), Part("ce"))
    with pytest.raises(ValueError, match="mahalanobis"):
        train(experiment, tmp_path, novelty="nearest")
    assert not any(tmp_path.iterdir())


class Words(Classifier):
    """A model of two kinds of tokens, whose inputs are a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.EmbeddingBag(20, 8)
        self.head = nn.Linear(8, 3)

    def features(self, inputs: Any) -> torch.Tensor:
        return self.body(inputs["tokens"])


class Sentences:
    """A split whose inputs are a dictionary."""

    def __init__(self, count: int, seed: int) -> None:
        self.labels = torch.arange(count) % 3
        generator = torch.Generator().manual_seed(seed)
        tokens = torch.randint(0, 5, (count, 6), generator=generator)
        self.tokens = tokens + 5 * self.labels[:, None]

    def __len__(self) -> int:
        return len(self.labels)

    def batches(self, batch_size: int, order: torch.Tensor, *_: Any) -> Any:
        for index in order.split(batch_size):
            yield Batch({"tokens": self.tokens[index]}, self.labels[index], index)


def sentence_splits() -> Any:
    splits = [Sentences(count, seed) for seed, count in enumerate((90, 60, 30))]
    return Splits(*splits, CLASSES, (1, 1, 1))  # type: ignore[arg-type]


def test_inputs_may_be_a_dictionary():
    torch.manual_seed(1)
    model = Words()
    splits = sentence_splits()
    novelty = fit_novelty(model, splits, "mahalanobis", unknown_class=False).score
    about = Description("words", {}, 3, (1, 1, 1), CLASSES)
    predictor = Predictor(model, about, novelty=novelty)
    result = predictor.predict({"tokens": splits.test.tokens})
    assert result.novelty is not None
    _, expected = measure_split(model, novelty, splits.test)
    torch.testing.assert_close(result.novelty, expected)
    strange = predictor.predict({"tokens": torch.full((1, 6), 19)})
    assert strange.answered.tolist() == [False]


class Plain(nn.Module):
    """A model without features and head."""

    def __init__(self) -> None:
        super().__init__()
        self.words = Words()

    def forward(self, inputs: Any) -> torch.Tensor:
        return self.words(inputs)


def test_a_model_without_features_gets_energy_and_says_so():
    novelty, words = fit_novelty(Plain(), sentence_splits(), DEFAULT, unknown_class=False)
    assert type(novelty) is NOVELTY["energy"]
    assert words.startswith("energy")
    assert "features" in words


def test_a_diverged_model_has_none_and_says_so():
    model = Words()
    with torch.no_grad():
        model.head.bias.fill_(float("nan"))
    novelty, words = fit_novelty(model, sentence_splits(), DEFAULT, unknown_class=False)
    assert novelty is None
    assert "not finite" in words
    assert fit_novelty(model, sentence_splits(), "none", unknown_class=False).score is None


@pytest.mark.slow
@pytest.mark.parametrize("name", [DEFAULT, "energy", "unknown"])
@pytest.mark.parametrize("format", ["onnx", "torch"])
def test_exported_programs_have_the_same_novelty(name, format, tmp_path):
    torch.manual_seed(1)
    model = models.build("cnn", 4, (3, 16, 16))
    preparation = Preparation((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    about = Description("cnn", {}, 4, (3, 16, 16), CLASSES, preparation, reading="spread")
    images = torch.randint(0, 256, (300, 3, 16, 16), dtype=torch.uint8)
    labels = torch.arange(300) % 3
    splits = data.resident_splits(
        (images.numpy(), labels.numpy()),
        (images.numpy(), labels.numpy()),
        data.Transform(preparation.mean, preparation.std),
        list(CLASSES),
    )
    novelty = fit_novelty(model, splits, name, unknown_class=True).score
    predictor = Predictor(model, about, novelty=novelty)
    path = export(predictor, tmp_path / f"model.{format}", format)
    new = torch.randint(0, 256, (7, 3, 16, 16), dtype=torch.uint8)
    expected = predictor.predict(new)
    if format == "onnx":
        onnxruntime = pytest.importorskip("onnxruntime")
        session = onnxruntime.InferenceSession(str(path))
        names = [output.name for output in session.get_outputs()]
        found = dict(zip(names, session.run(None, {"images": new.numpy()}), strict=True))
        answered, strangeness = found["answered"], found["novelty"]
    else:
        with torch.no_grad():
            answered, strangeness = torch.export.load(path).module()(new)[3:]
    np.testing.assert_allclose(strangeness, expected.novelty, atol=1e-4)
    assert np.array_equal(answered, expected.answered)
