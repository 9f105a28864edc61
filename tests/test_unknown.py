"""Strangers at the doors: a folder of them, a class named unknown, and a rehearsal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from socrates import data, load
from socrates.cli.repeat import command_of
from socrates.data.unknown import set_aside, shares_by_hash
from socrates.engine.certify import certify_by_folders, own_strangers, predict_strangers
from socrates.engine.evaluate import evaluate
from socrates.engine.train import train
from socrates.experiment import Experiment, Optimization, Part, resolve
from socrates.metrics.open_world import OPEN_WORLD
from socrates.novelty import Samples, WeightedVotes, create, describe, rebuild, weighted
from socrates.novelty.registry import name_of
from socrates.predictor.card import write_card
from socrates.predictor.export import export, output_names
from socrates.records import Run
from socrates.report.write import write_report

KNOWN = ("0", "1", "2", "3")
EPOCHS = 25


def write_digits(folder: Path, digits: Any, start: int, count: int) -> None:
    images, labels = load_digits(return_X_y=True)
    for digit in digits:
        place = folder / str(digit)
        place.mkdir(parents=True, exist_ok=True)
        for number, pixels in enumerate(images[labels == int(digit)][start : start + count]):
            gray = (pixels.reshape(8, 8) * 15.9).astype(np.uint8)
            Image.fromarray(gray).save(place / f"{number:03d}.png")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    write_digits(folder / "known", KNOWN, 0, 90)
    write_digits(folder / "labeled", KNOWN, 90, 80)
    write_digits(folder / "strange" / "many", ("7", "8"), 0, 90)
    return folder


def experiment_of(folder: Path, method: str = "ce", **options: Any) -> Experiment:
    optimization = Optimization(epochs=EPOCHS, batch_size=16, clip_norm=1.0)
    dataset = Part(f"folder:{folder}", image_size=8, augment=False, **options)
    return Experiment(dataset, Part("mlp", width=64), Part(method), optimization=optimization)


@pytest.fixture(scope="module")
def taught(folders: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    experiment = experiment_of(
        folders / "known", method="socrates", unknown=str(folders / "strange")
    )
    return train(experiment, tmp_path_factory.mktemp("runs"), accelerator="cpu")


def test_strangers_weigh_the_votes_of_the_novelty_score(taught: Run) -> None:
    predictor = load(taught.directory)
    score = predictor.novelty
    assert isinstance(score, WeightedVotes)
    assert name_of(score) == "strangers:mahalanobis+knn+energy+unknown"
    assert bool((score.weights >= 0).all())
    assert float(score.weights.sum()) > 0
    assert "weighted by" in taught.summary()["novelty"]
    counts = taught.evaluation().strangers["counts"]
    assert counts["strangers_answered"] < 0.7
    assert counts["known_answered"] > 0.8


def test_no_image_both_teaches_and_measures(taught: Run, folders: Path) -> None:
    splits = data.load(f"folder:{folders / 'known'}", image_size=8, unknown=folders / "strange")
    assert splits.unknown is not None
    halves = shares_by_hash(splits.unknown, 2)
    assert sorted(torch.cat(halves).tolist()) == list(range(180))
    predictor = load(taught.directory)
    assert len(predictor.seen) == len(splits.train) + len(splits.val) + len(halves[0])
    kept = taught.predictions("unknown", EPOCHS)
    assert len(kept.labels) == len(halves[1])
    assert set(kept.labels.tolist()) == {len(KNOWN)}
    with pytest.warns(UserWarning, match=str(len(halves[0]))):
        prediction = predict_strangers(predictor, folders / "strange")
    # 8x8 digits may look like one that taught, but then they are left out, too
    assert len(prediction) <= len(halves[1])


def test_the_other_half_certifies(taught: Run, folders: Path) -> None:
    predictor = load(taught.directory)
    certificate = certify_by_folders(
        predictor, folders / "labeled", 0.3, 0.1, strangers=taught, share=0.2
    )
    assert certificate.scope.share == 0.2
    assert str(certificate.scope).endswith(f"those of {folders / 'strange'}")
    assert predictor.certificate == certificate


def test_a_weighted_score_is_exported(taught: Run, tmp_path: Path) -> None:
    predictor = load(taught.directory)
    images = torch.randint(256, (3, 3, 8, 8), dtype=torch.uint8)
    file = tmp_path / "model.pt2"
    export(predictor, file, "torch")
    outputs = torch.export.load(file).module()(images)
    novelty = outputs[output_names(predictor).index("novelty")]
    torch.testing.assert_close(novelty, predictor.predict(images).novelty, atol=1e-4, rtol=0)


def test_a_few_strangers_teach_and_certify_nothing(folders: Path, tmp_path: Path) -> None:
    write_digits(tmp_path / "few", ("9",), 0, 12)
    experiment = experiment_of(folders / "known", unknown=str(tmp_path / "few"))
    run = train(experiment, tmp_path / "runs", accelerator="cpu")
    predictor = load(run.directory)
    assert not isinstance(predictor.novelty, WeightedVotes)
    assert "too few" in run.summary()["novelty"]
    with pytest.raises(ValueError, match="60"):
        certify_by_folders(predictor, folders / "labeled", 0.3, 0.1, strangers=run, share=0.2)


def test_a_class_folder_named_unknown_is_no_class(folders: Path, tmp_path: Path) -> None:
    write_digits(tmp_path / "data", KNOWN, 0, 30)
    write_digits(tmp_path / "data" / "unknown", ("9",), 0, 30)
    splits = data.load(f"folder:{tmp_path / 'data'}", image_size=8)
    assert splits.class_names == KNOWN
    assert splits.unknown is not None
    assert len(splits.unknown) == 30
    assert int(splits.train.labels.max()) == 3
    with pytest.raises(ValueError, match="keep one of them"):
        data.load(f"folder:{tmp_path / 'data'}", unknown=str(folders / "strange"))


def test_rows_of_an_array_named_unknown_are_strangers(tmp_path: Path) -> None:
    images = np.random.RandomState(0).randint(0, 256, (60, 8, 8)).astype(np.uint8)
    names = np.array(["cat", "unknown", "dog"])
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(60) % 3, classes=names)
    splits = data.load(f"npz:{tmp_path / 'a.npz'}")
    assert splits.class_names == ("cat", "dog")
    assert splits.unknown is not None
    assert len(splits.unknown) == 20
    assert sorted(splits.train.labels.unique().tolist()) == [0, 1]
    kept = set_aside(data.load("digits"), "0")
    assert int(kept.unknown.labels[0]) == 9  # pyright: ignore[reportOptionalMemberAccess]


def test_a_rehearsal_measures_a_class_that_the_model_never_saw(tmp_path: Path) -> None:
    optimization = Optimization(epochs=EPOCHS, batch_size=16, clip_norm=1.0)
    parts = Part("digits", rehearse="3"), Part("mlp", width=64), Part("ce")
    experiment = Experiment(*parts, optimization=optimization)
    run = train(experiment, tmp_path, accelerator="cpu")
    predictor = load(run.directory)
    assert "3" not in predictor.classes
    assert not isinstance(predictor.novelty, WeightedVotes)
    strangers = run.evaluation().strangers
    assert strangers["counts"]["strangers"] == 183
    for score in ("confidence", "novelty"):
        assert set(strangers[score]) == set(OPEN_WORLD)
    assert strangers["novelty"]["open_auroc"] > 0.8
    assert json.loads((run.directory / "evaluation.json").read_text())["strangers"] == strangers
    assert evaluate(run).strangers == strangers
    assert "--rehearse 3" in command_of(resolve(experiment))
    with pytest.raises(ValueError, match="rehearses"):
        own_strangers(predictor, run)


@pytest.mark.parametrize("name", ["cow", "10"])
def test_only_a_class_can_be_rehearsed(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        data.load("digits", rehearse=name)


def test_a_weighted_score_is_saved_and_follows_its_own_kind() -> None:
    generator = torch.Generator().manual_seed(1)

    def samples(count: int, shift: float) -> Samples:
        features = torch.randn(count, 4, generator=generator)
        features[:, 3] *= 0.3
        features[:, 3] += shift
        logits = torch.randn(count, 3, generator=generator)
        return Samples.of(features, logits, torch.arange(count) % 3)

    train_samples = samples(300, 0.0)
    val = samples(200, 0.0)
    plain = create("mahalanobis+energy").fit(train_samples, val)
    fitted = weighted("mahalanobis+energy").fit_with(train_samples, val, samples(60, 1.0))
    known = samples(300, 0.0)
    strange = samples(300, 1.0)

    def auroc(score: Any) -> float:
        from socrates.metrics import auroc as measure

        ranked = [score.scores(part.features, part.logits, raw=True) for part in (known, strange)]
        return measure(-ranked[0], -ranked[1])

    # the energy says nothing here, and the strangers show it
    assert auroc(fitted) > auroc(plain) + 0.05
    again = rebuild(describe(fitted), fitted.state_dict())
    expected = fitted.scores(strange.features, strange.logits)
    torch.testing.assert_close(again.scores(strange.features, strange.logits), expected)
    with pytest.raises(ValueError, match="20"):
        weighted("energy").fit_with(train_samples, val, samples(19, 1.0))
    with pytest.raises(ValueError, match="fit_with"):
        weighted("energy").fit(train_samples, val)


def test_the_card_shows_the_strangers(taught: Run, tmp_path: Path) -> None:
    predictor = load(taught.directory)
    card = write_card(predictor, tmp_path / "model.safetensors", "safetensors", taught).read_text()
    strangers = taught.evaluation().strangers
    assert OPEN_WORLD["open_auroc"].text(strangers["novelty"]["open_auroc"]) in card
    assert f"{strangers['counts']['strangers_answered']:.1%}" in card


def test_rows_with_the_label_c_are_strangers_in_python(taught: Run) -> None:
    predictor = load(taught.directory)
    images, digits = load_digits(return_X_y=True)
    pixels = torch.as_tensor(images.reshape(-1, 1, 8, 8) * 15.9).to(torch.uint8).expand(-1, 3, 8, 8)
    rows = np.flatnonzero(np.isin(digits, (0, 1, 2, 3, 9)))[-400:]
    labels = np.where(digits[rows] == 9, len(KNOWN), digits[rows])
    predictor.seen = predictor.seen[:0]
    options: dict[str, Any] = {"risk": 0.4, "share": 0.2}
    certificate = predictor.certify(pixels[rows], labels, unknown_label=True, **options)
    is_strange = labels == len(KNOWN)
    known = pixels[rows[~is_strange]]
    others = pixels[rows[is_strange]]
    apart = predictor.certify(known, labels[~is_strange], strangers=others, **options)
    assert certificate == apart
    assert certificate.scope.share == 0.2
    words = [*KNOWN, "unknown"]
    by_name = predictor.certify(
        pixels[rows], [words[label] for label in labels], unknown_label=True, **options
    )
    assert by_name == certificate
    with pytest.raises(ValueError, match="unknown_label"):
        predictor.certify(known, labels[~is_strange], unknown_label=True, **options)


@pytest.mark.slow
def test_a_report_has_a_table_of_strangers(taught: Run, tmp_path: Path) -> None:
    written = write_report(taught.directory, tmp_path / "report", command=command_of)
    table = next(path for path in written.files if path.name == "strangers.md").read_text()
    auroc = 100 * taught.evaluation().strangers["novelty"]["open_auroc"]
    assert f"{auroc:.2f}" in table
    assert "Are strangers noticed?" in written.page.read_text()


def test_images_that_stay_on_the_disk_have_strangers_too(
    folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socrates.data.folder.RESIDENT_BYTES", 0)
    name = f"folder:{folders / 'known'}"
    given = data.load(name, image_size=8, unknown=str(folders / "strange"))
    left_out = data.load(name, image_size=8, rehearse="2")
    for splits, count in ((given, 180), (left_out, 90)):
        assert isinstance(splits.train, data.StreamedImages)
        assert splits.unknown is not None
        halves = shares_by_hash(splits.unknown, 2)
        assert sum(map(len, halves)) == len(splits.unknown) == count
        batch = next(iter(splits.unknown.batches(4, torch.arange(4))))
        assert batch.labels.tolist() == [splits.num_classes] * 4
    assert left_out.class_names == ("0", "1", "3")
    assert sorted(left_out.train.labels.unique().tolist()) == [0, 1, 2]
    write_digits(tmp_path / "data", KNOWN, 0, 30)
    before = data.num_training_images(f"folder:{tmp_path / 'data'}")
    write_digits(tmp_path / "data" / "unknown", ("9",), 0, 60)
    assert data.num_training_images(f"folder:{tmp_path / 'data'}") == before
