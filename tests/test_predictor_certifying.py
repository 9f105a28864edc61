"""A predictor's certificate: it belongs to one model, and is dropped in words for any other."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import socrates
from socrates import models
from socrates.abstention import Certificate, Scope, Threshold
from socrates.predictor import Description, Predictor, Preparation
from socrates.predictor.certifying import certify_predictions, identity
from socrates.predictor.export import _metadata
from socrates.scaling import TemperatureScaling

CLASSES = ("car", "cat", "ship")


def make() -> Predictor:
    """Return a small model with a temperature; its last output is the unknown class."""
    torch.manual_seed(0)
    model = models.build("mlp", 4, (1, 4, 4), width=8)
    scaler = TemperatureScaling()
    logits = torch.randn(60, 4)
    scaler.fit(logits, logits[:, :3].argmax(dim=1))
    preparation = Preparation(mean=(0.5,), std=(0.25,))
    options = {"width": 8}
    about = Description(
        "mlp", options, 4, (1, 4, 4), CLASSES, preparation, scaler="temperature", reading="spread"
    )
    return Predictor(model, about, {"temperature": scaler})


def images(number: int = 200) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (number, 1, 4, 4), dtype=torch.uint8, generator=generator)


@pytest.fixture
def certified() -> Predictor:
    predictor = make()
    labels = predictor.predict(images()).predicted
    predictor.certify(images(), labels, risk=0.05)
    return predictor


def test_a_certificate_says_whose_it_is_and_travels(certified: Predictor, tmp_path: Path) -> None:
    certificate = certified.certificate
    assert certificate is not None
    assert certificate.scope == Scope("images", CLASSES)
    assert certificate.model == identity(certified)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = socrates.load(certified.save(tmp_path))
    assert again.certificate == certificate
    exported = json.loads(_metadata(certified)["certificate"])
    assert Certificate.from_json(exported) == certificate


def test_the_identity_is_that_of_all_that_decides_a_score() -> None:
    predictor = make()
    first = identity(predictor)
    predictor.about = replace(predictor.about, facts={"dataset": "x"}, epoch=9, run="y")
    assert identity(predictor) == first == identity(make())
    predictor.about = replace(predictor.about, preparation=Preparation(mean=(0.4,), std=(0.25,)))
    others = [identity(predictor)]
    for scaler, reading in (("none", "spread"), ("temperature", "abstain")):
        other = make()
        other.use(scaler, reading)
        others.append(identity(other))
    weights = make()
    nn.init.ones_(next(weights.model.parameters())[:1])
    scaler = make()
    for value in scaler.scalers.state_dict().values():
        value.mul_(2)
    others += [identity(weights), identity(scaler)]
    assert len({first, *others}) == 6


def test_the_certificate_of_another_model_is_dropped_in_one_line(
    certified: Predictor, tmp_path: Path
) -> None:
    with torch.no_grad():
        next(certified.model.parameters()).mul_(1.5)
    with pytest.warns(UserWarning, match=r"certificate .*other weights.* dropped") as said:
        file = certified.save(tmp_path)
    assert "\n" not in str(said[0].message)
    assert socrates.load(file).certificate is None


def test_a_file_with_a_foreign_certificate_is_loaded_without_it(
    certified: Predictor, tmp_path: Path
) -> None:
    other = make()
    with torch.no_grad():
        next(other.model.parameters()).mul_(1.5)
    assert certified.certificate is not None
    stolen = replace(certified.certificate, model=identity(other))
    other.about = replace(other.about, certificate=stolen)
    file = other.save(tmp_path)
    assert socrates.load(file).certificate == stolen
    other.about = replace(other.about, certificate=certified.certificate)
    with pytest.warns(UserWarning, match="dropped"):
        file = other.save(tmp_path)
    assert socrates.load(file).certificate is None


def test_half_precision_drops_it(certified: Predictor, tmp_path: Path) -> None:
    kept = certified.certificate
    with pytest.warns(UserWarning, match=r"certificate .*full precision.* dropped"):
        file = certified.save(tmp_path / "half.safetensors", weights="half")
    assert certified.certificate == kept  # of the model in memory, which is not half
    half = socrates.load(file)
    assert half.certificate is None
    # certified as it was written, it holds
    half.certify(images(), half.predict(images()).predicted, risk=0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = socrates.load(half.save(tmp_path / "again.safetensors", weights="half"))
    assert again.certificate == half.certificate is not None
    with pytest.warns(UserWarning, match=r"certificate .*precision.* dropped"):
        certified.half()
    assert certified.certificate is None


@pytest.mark.parametrize("change", [("none", "spread"), ("temperature", "renormalize")])
def test_another_scaler_or_reading_drops_it(
    certified: Predictor, change: tuple[str, str], tmp_path: Path
) -> None:
    file = certified.save(tmp_path)
    with pytest.warns(UserWarning, match=r"certificate .*scaler or reading.* dropped"):
        certified.use(*change)  # type: ignore[arg-type]
    assert certified.certificate is None
    with pytest.warns(UserWarning, match="dropped"):
        socrates.load(file, scaler=change[0], reading=change[1])  # type: ignore[arg-type]


def test_thresholds_of_classes_are_those_of_the_predicted_class() -> None:
    predictor = make()
    rows = (Threshold(0.9, 50, 40, 0, "car"), Threshold(0.4, 50, 40, 0, "ship"))
    certificate = Certificate(
        0.05, 0.1, rows, "class", Scope("images", CLASSES), identity(predictor)
    )
    predictor.about = replace(predictor.about, certificate=certificate)
    confidence = torch.tensor([0.95, 0.8, 0.95, 0.5, 0.3, 0.99])
    predicted = torch.tensor([0, 0, 1, 2, 2, 3])
    answered = predictor.answered(confidence, predicted)
    assert answered.tolist() == [True, False, False, True, False, False]


def test_with_strangers_a_threshold_limits_the_novelty_too() -> None:
    predictor = make()
    random = torch.Generator().manual_seed(0)
    prediction = predictor.predict(images(300))
    familiar = torch.rand(210, generator=random)
    known = replace(prediction.take(slice(0, 210)), confidence=torch.ones(210), novelty=familiar)
    others = replace(
        prediction.take(slice(210, 300)),
        confidence=torch.ones(90),  # they look as sure as the known ones
        novelty=0.8 + 0.2 * torch.rand(90, generator=random),
    )
    certificate = certify_predictions(
        predictor, known, known.predicted, 0.05, strangers=others, share=0.3, source="others"
    )
    (row,) = certificate.thresholds
    assert row.value is not None
    assert row.novelty == pytest.approx(1 - row.value, abs=1e-6)
    assert 0.6 < row.novelty < 0.85
    answered = predictor.answered(torch.ones(210), torch.as_tensor(known.predicted), familiar)
    assert int(answered.sum()) == row.num_accepted
    assert certificate.scope.share == 0.3
    unmeasured = predictor.answered(torch.ones(210), torch.as_tensor(known.predicted))
    assert not unmeasured.any()
