"""Exported programs give the same answers as PyTorch, in one file, for any number and size of
images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from socrates import models
from socrates.contracts import Preparation
from socrates.predictor import Description, Predictor
from socrates.predictor.export import export
from socrates.scaling import SCALERS

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.slow

CLASSES = ("cat", "dog", "horse")
SMALL: dict[str, dict[str, Any]] = {"vit": {"dim": 32, "depth": 2, "heads": 2}}
SIZES = ((1, 3, 32, 32), (4, 3, 50, 37), (2, 3, 20, 90))


def predictor_of(name: str, scaler: str = "readout", reading: Any = "spread") -> Predictor:
    """A model with random weights that is sure of itself, with every scaler fitted."""
    torch.manual_seed(3)
    options = SMALL.get(name, {})
    model = models.build(name, 4, (3, 32, 32), **options)
    with torch.no_grad():
        for _ in range(3):  # batch norms learn what they see
            model.train()(torch.randn(16, 3, 32, 32))
        model.head.weight *= 5  # type: ignore[union-attr, operator]
    classes = CLASSES if reading else (*CLASSES, "cow")
    labels = torch.arange(300) % len(classes)
    logits = 2 * torch.randn(300, 4) + 2 * torch.nn.functional.one_hot(labels, 4)
    refused = ("isotonic", "beta") if reading else ("readout", "beta")
    scalers = {
        kind: make().fit(logits, labels, unknown_class=bool(reading))
        for kind, make in SCALERS.items()
        if kind not in refused
    }
    how = Preparation((0.5, 0.45, 0.4), (0.25, 0.2, 0.3))
    about = Description(name, options, 4, (3, 32, 32), classes, how, scaler=scaler, reading=reading)
    return Predictor(model, about, scalers)


def images_of(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randint(
        0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(sum(shape))
    )


def check_onnx(predictor: Predictor, path: Path) -> None:
    export(predictor, path)
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name]  # no data beside it
    session = onnxruntime.InferenceSession(path)
    for shape in SIZES:
        images = images_of(shape)
        expected = predictor.predict(images)
        probs, predicted, confidence, answered = session.run(None, {"images": images.numpy()})
        np.testing.assert_allclose(probs, expected.probs, rtol=0, atol=1e-5)
        np.testing.assert_allclose(confidence, expected.confidence, rtol=0, atol=1e-5)
        np.testing.assert_array_equal(predicted, expected.predicted)
        np.testing.assert_array_equal(answered, expected.answered)
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["classes"]) == list(predictor.classes)


@pytest.mark.parametrize(
    "name", [name for name in models.MODELS if name not in ("vit_transfer", "backbone")]
)
def test_every_model_in_onnx(name: str, tmp_path: Path) -> None:
    check_onnx(predictor_of(name), tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("scaler", "reading"),
    [
        ("none", "answer"),
        ("temperature", "abstain"),
        ("vector", "renormalize"),
        ("matrix", "spread"),
        ("ensemble", "spread"),
        ("ensemble", None),
        ("isotonic", None),
    ],
)
def test_every_scaler_and_reading_in_onnx(scaler: str, reading: Any, tmp_path: Path) -> None:
    check_onnx(predictor_of("cnn", scaler, reading), tmp_path / "model.onnx")


@pytest.mark.parametrize("name", ["beta", "isotonic", "ensemble"])
def test_scalers_of_two_classes_in_onnx(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    labels = torch.arange(300) % 2
    scaler = SCALERS[name]().fit(
        2 * torch.randn(300, 2) + torch.nn.functional.one_hot(labels, 2), labels
    )
    model = models.build("cnn", 2, (3, 32, 32))
    about = Description(
        "cnn", {}, 2, (3, 32, 32), CLASSES[:2], Preparation((0.5,) * 3, (0.25,) * 3), scaler=name
    )
    check_onnx(Predictor(model, about, {name: scaler}), tmp_path / "model.onnx")


def test_the_threshold_travels(tmp_path: Path) -> None:
    predictor = predictor_of("cnn")
    images = torch.cat([images_of((200, 3, 32, 32)), images_of((100, 3, 32, 32)) // 8])
    found = predictor.predict(images)
    confidence, labels = torch.as_tensor(found.confidence), torch.as_tensor(found.predicted).clone()
    least = confidence.argsort()[:40]
    labels[least] = (labels[least] + 1) % 3  # the least sure are wrong
    strict_to_lax = confidence.quantile(torch.linspace(0, 0.5, 20)).tolist()
    certificate = predictor.certify(images, labels, risk=0.05, thresholds=strict_to_lax)
    assert 0 < certificate.coverage < 1
    check_onnx(predictor, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    answered = session.run(["answered"], {"images": images.numpy()})[0]
    assert answered.sum() == certificate.num_accepted


def quantized(exported: Path, how: str, images: np.ndarray[Any, Any]) -> Path:
    """Quantize an exported file as onnxruntime's own documentation says, dynamically or with
    calibration images."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    preparing = pytest.importorskip("onnxruntime.quantization.shape_inference")
    prepared, result = exported.with_name("prepared.onnx"), exported.with_name(f"{how}.onnx")
    if how == "dynamic":
        quantization.quantize_dynamic(exported, result)
        return result

    class Batches(quantization.CalibrationDataReader):  # type: ignore[name-defined, misc]
        rest = iter(np.split(images, 4))

        def get_next(self) -> dict[str, Any] | None:
            batch = next(self.rest, None)
            return None if batch is None else {"images": batch}

    preparing.quant_pre_process(exported, prepared)
    kinds = ["Conv", "Gemm", "MatMul"]
    quantization.quantize_static(
        prepared, result, Batches(), op_types_to_quantize=kinds, per_channel=True
    )
    return result


@pytest.mark.parametrize(
    ("name", "how", "tolerance"),
    [
        ("mlp", "dynamic", 0.01),
        ("mlp", "static", 0.01),
        ("resnet20", "dynamic", 0.1),
        ("resnet20", "static", 0.15),
    ],
)
def test_an_exported_file_can_be_quantized(
    name: str, how: str, tolerance: float, tmp_path: Path
) -> None:
    exported = export(predictor_of(name), tmp_path / "model.onnx")
    brightness = torch.linspace(0, 1, 64)[:, None, None, None]
    images = (images_of((64, 3, 32, 32)) * brightness).to(torch.uint8).numpy()
    before = onnxruntime.InferenceSession(exported).run(None, {"images": images})
    session = onnxruntime.InferenceSession(quantized(exported, how, images))
    probs, predicted, confidence, _ = session.run(None, {"images": images})
    kinds = {node.op_type for node in onnx.load(tmp_path / f"{how}.onnx").graph.node}
    assert kinds & {"MatMulInteger", "QuantizeLinear"}
    assert np.ptp(before[0], axis=0).max() > 2 * tolerance  # images differ by more than that
    np.testing.assert_allclose(probs, before[0], rtol=0, atol=tolerance)
    np.testing.assert_allclose(probs.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(confidence, before[2], rtol=0, atol=tolerance)
    assert (predicted == before[1]).mean() > 0.8
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == list(CLASSES)


@pytest.mark.parametrize(
    ("name", "scaler", "reading"),
    [
        ("cnn", "readout", "spread"),
        ("vit", "readout", "spread"),
        ("cnn", "ensemble", None),
        ("cnn", "isotonic", None),
    ],
)
def test_programs_of_torch(name: str, scaler: str, reading: Any, tmp_path: Path) -> None:
    predictor = predictor_of(name, scaler, reading)
    export(predictor, tmp_path / "model.pt2", "torch")
    files = {"classes": ""}
    program = torch.export.load(tmp_path / "model.pt2", extra_files=files).module()
    for shape in SIZES:
        torch.testing.assert_close(
            program(images_of(shape))[0], predictor(images_of(shape)), rtol=0, atol=1e-5
        )
    assert json.loads(files["classes"]) == list(predictor.classes)


def test_what_is_no_image_model_is_not_exported(tmp_path: Path) -> None:
    predictor = predictor_of("cnn")
    plain = Predictor(
        predictor.model, Description("cnn", {}, 4, (3, 32, 32), CLASSES, reading="spread")
    )
    with pytest.raises(ValueError, match=r"not .*images"):
        export(plain, tmp_path / "model.onnx")
    with pytest.raises(ValueError, match=r"onnx, .*'pickle'"):
        export(predictor, tmp_path / "model.pkl", "pickle")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
