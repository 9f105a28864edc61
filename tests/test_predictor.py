"""The predictor: what goes in and out, what travels with it, and files that are not what they
should be."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

import socrates
from signing import resign_model
from socrates import models
from socrates.contracts import Preparation
from socrates.metrics import predict
from socrates.predictor import Description, Predictor, load
from socrates.scaling import SCALERS, Scaler

CLASSES = ("cat", "dog", "horse")
READINGS = ("answer", "abstain", "renormalize", "spread")
WITH_UNKNOWN = [name for name in SCALERS if name not in ("isotonic", "beta")]
WITHOUT = [name for name in SCALERS if name not in ("readout", "beta")]


@cache
def fitted(unknown: bool) -> dict[str, Scaler]:
    """Every scaler fitted to made-up logits, once for all tests: each takes a copy."""
    outputs = len(CLASSES) + unknown
    labels = torch.arange(200) % len(CLASSES)
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(200, outputs, generator=generator) + 2 * nn.functional.one_hot(
        labels, outputs
    )
    kinds = {name: SCALERS[name] for name in (WITH_UNKNOWN if unknown else WITHOUT)}
    return {name: kind().fit(logits, labels, unknown_class=unknown) for name, kind in kinds.items()}


def make(
    unknown: bool = True, model: str = "cnn", scaler: str = "temperature", **changed: Any
) -> Predictor:
    """An untrained model with every scaler."""
    torch.manual_seed(0)
    outputs = len(CLASSES) + unknown
    about = Description(
        model,
        {},
        outputs,
        (3, 8, 8),
        CLASSES,
        Preparation((0.5, 0.4, 0.3), (0.2, 0.25, 0.3)),
        epoch=7,
        scaler=scaler,
        reading="spread" if unknown else None,
    )
    options = changed.get("options", {})
    built = (
        models.build(model, outputs, (3, 8, 8), **options)
        if model in models.MODELS
        else nn.Identity()
    )
    for parameter in getattr(built, "head", nn.Identity()).parameters():
        parameter.data *= 30  # as sure of itself as a trained one
    return Predictor(built, replace(about, **changed), copy.deepcopy(fitted(unknown)))


def some_images(*sides: int, number: int = 5) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(
        0, 256, (number, 3, *(sides or (8, 8))), dtype=torch.uint8, generator=generator
    )


def test_images_are_prepared_as_in_training() -> None:
    from socrates.data import ResidentImages, Transform

    predictor, images = make(), some_images(20, 14)
    how = predictor.about.preparation
    assert how is not None
    split = ResidentImages(
        images, torch.zeros(5, dtype=torch.int64), Transform(how.mean, how.std, size=8)
    )
    expected = next(iter(split.batches(5, torch.arange(5)))).inputs
    torch.testing.assert_close(predictor.prepare(images), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("scaler", ["none", *WITH_UNKNOWN])
def test_probabilities_are_those_of_the_scaler_and_the_reading(scaler: str, reading: Any) -> None:
    predictor, images = make(), some_images()
    predictor.use(scaler, reading)
    logits = predictor.logits(images)
    scaled = logits if scaler == "none" else predictor.scalers[scaler](logits)
    expected = predict(scaled, reading)
    torch.testing.assert_close(predictor(images).detach(), expected.probs, rtol=0, atol=1e-6)
    found = predictor.predict(images.numpy())
    torch.testing.assert_close(found.probs, expected.probs, rtol=0, atol=1e-6)
    # unknown is no answer
    assert found.answered.tolist() == (found.predicted < len(CLASSES)).tolist()


@pytest.mark.parametrize("weights", ["full", "half"])
def test_what_is_saved_is_loaded(tmp_path: Path, weights: Any) -> None:
    predictor, images = make(facts={"method": "socrates"}), some_images()
    many = some_images(number=200)
    labels = torch.as_tensor(predictor.predict(many).predicted)
    if weights == "full":  # what halved weights promise: test_predictor_certifying.py
        predictor.certify(labels=labels, logits=predictor.logits(many), risk=0.95)
    assert (
        predictor.save(tmp_path / "kept", weights=weights)
        == tmp_path / "kept" / "model.safetensors"
    )
    again = socrates.load(tmp_path / "kept")
    assert again.about == predictor.about
    assert (again.certificate is not None) == (weights == "full")
    atol = 0 if weights == "full" else 1e-2
    torch.testing.assert_close(again(images), predictor(images), rtol=0, atol=atol)
    assert list(again.scalers) == WITH_UNKNOWN
    for name in WITH_UNKNOWN:
        torch.testing.assert_close(
            again.scalers[name](2 * torch.eye(4)), predictor.scalers[name](2 * torch.eye(4))
        )


def test_half_the_weights_are_half_the_file(tmp_path: Path) -> None:
    predictor = make()
    sizes = [
        predictor.save(tmp_path / f"{w}.safetensors", weights=w).stat().st_size
        for w in ("full", "half")
    ]  # type: ignore[arg-type]
    assert sizes[1] < 0.62 * sizes[0]  # the scalers and the description stay


def test_scaler_and_reading_can_be_chosen(tmp_path: Path) -> None:
    make().save(tmp_path)
    chosen = load(tmp_path, scaler="none", reading="renormalize")
    assert (chosen.about.scaler, chosen.about.reading) == ("none", "renormalize")
    with pytest.raises(ValueError, match=r"'platt' .*'temperature'"):
        load(tmp_path, scaler="platt")
    with pytest.raises(ValueError, match=r"reading .*'guess'"):
        load(tmp_path, reading="guess")  # type: ignore[arg-type]
    assert chosen.about.epoch == 7


def test_a_certificate_holds_for_its_scaler_and_reading_only(tmp_path: Path) -> None:
    predictor = make()
    labels = torch.as_tensor(predictor.predict(some_images(number=200)).predicted)
    certificate = predictor.certify(some_images(number=200), labels, risk=0.05)
    found = predictor.predict(some_images(number=200))
    assert certificate.num_accepted == int(found.answered.sum())
    assert (found.answered == (found.confidence >= certificate.threshold)).all()
    predictor.save(tmp_path)
    assert load(tmp_path).certificate == certificate
    with pytest.warns(UserWarning, match="certificate .*dropped"):
        assert load(tmp_path, scaler="none").certificate is None


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([0, 1], "2 labels for 5 rows"),
        ([0.5] * 5, r"labels hold 0\.5"),
        ([0, 1, 2, 3, 0], "labels hold 3, expected 0 to 2"),
        ([True, False, True, True, False], "true and false"),
        ([CLASSES[0]] * 4 + ["hors"], "'hors'.*did you mean"),
    ],
)
def test_labels_that_are_none_are_refused(labels: list[Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make().certify(some_images(), labels, risk=0.5)


@pytest.mark.parametrize(
    "images",
    [
        torch.zeros(2, 3, 8, 8),
        torch.zeros(2, 8, 8, 3, dtype=torch.uint8),
        torch.zeros(3, 8, 8, dtype=torch.uint8),
        torch.zeros(2, 1, 8, 8, dtype=torch.uint8),
    ],
)
def test_what_is_no_batch_of_images_is_refused(images: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"uint8 images \(N, 3,"):
        make()(images)


def test_no_images_are_refused() -> None:
    with pytest.raises(ValueError, match="no inputs"):
        make().predict(np.zeros((0, 3, 8, 8), np.uint8))


def test_a_model_without_an_unknown_class() -> None:
    predictor = make(unknown=False)
    assert predictor(some_images()).shape == (5, 3)
    torch.testing.assert_close(predictor(some_images()).sum(dim=1), torch.ones(5))
    predictor.use("vector", "spread")
    assert predictor.about.reading is None


def test_a_model_from_outside_is_imported_only_when_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs.py").write_text(
        "import pathlib, torch\n"
        "pathlib.Path(__file__).with_name('executed').touch()\n"
        "def net(num_outputs, image_shape, width=4):\n"
        "    layers = torch.nn.Flatten(), torch.nn.Linear(192, width), torch.nn.Linear(width, "
        "num_outputs)\n"
        "    return torch.nn.Sequential(*layers)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 6), nn.Linear(6, 4))
    predictor = make(model="theirs:net", options={"width": 6})
    predictor.model = net
    predictor.save(tmp_path / "kept")
    with pytest.raises(ValueError, match=r"theirs:net.*trust_code=True"):
        load(tmp_path / "kept")
    assert not (tmp_path / "executed").exists()
    fresh = nn.Sequential(nn.Flatten(), nn.Linear(192, 6), nn.Linear(6, 4))
    torch.testing.assert_close(
        load(tmp_path / "kept", model=fresh)(some_images()), predictor(some_images())
    )
    assert not (tmp_path / "executed").exists()
    torch.testing.assert_close(
        load(tmp_path / "kept", trust_code=True)(some_images()), predictor(some_images())
    )
    assert (tmp_path / "executed").exists()


class Planted:
    """What a pickle would run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def damaged(path: Path, how: str) -> None:
    """Damage a saved model."""
    content = path.read_bytes()
    if how == "pickle":
        path.write_bytes(pickle.dumps(Planted(path.with_name("executed"))))
    elif how == "torch":
        torch.save({"weights": torch.zeros(3)}, path)
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif how == "foreign":
        save_file({"model.weight": torch.zeros(3)}, path)
    elif how == "text":
        path.write_text("a model")
    else:
        changes = {
            "version 0.x": lambda about, _: about.update(format=1),
            "version": lambda about, _: about.update(format="99.0"),
            "fields": lambda about, _: about.pop("classes"),
            "classes": lambda about, _: about.update(num_outputs=12),
            "missing": lambda _, tensors: tensors.pop("model.head.weight"),
            "scaler": lambda _, tensors: tensors.update({"scalers.platt.a": torch.zeros(1)}),
        }
        resign_model(path, changes[how])


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("pickle", "whole safetensors file"),
        ("torch", "whole safetensors file"),
        ("empty", "whole safetensors file"),
        ("cut", "whole safetensors file"),
        ("text", "whole safetensors file"),
        ("foreign", "it has no description"),
        ("version 0.x", r"format 1 of version 0\.x, .*reads 1\.0"),
        ("version", r"format '99\.0', .*reads 1\.0"),
        ("fields", "must have the fields"),
        ("classes", "not fit the model"),
        ("missing", "not fit the model"),
        ("scaler", "not fit the model"),
    ],
)
def test_damaged_files_are_one_line_and_nothing_is_executed(
    tmp_path: Path, how: str, words: str
) -> None:
    file = make().save(tmp_path)
    damaged(file, how)
    with pytest.raises(ValueError, match=words) as caught:
        load(tmp_path)
    assert "\n" not in str(caught.value)
    assert str(file) in str(caught.value)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", ["cnn"]),
        ("options", [1]),
        ("num_outputs", 4.0),
        ("num_outputs", 7),
        ("image_shape", [3, 8]),
        ("classes", [1, 2, 3]),
        ("classes", ["a"]),
        ("certificate", 0),
        ("certificate", {"threshold": 1.0}),
        ("preparation", {"mean": [0.5]}),
        ("facts", None),
        ("scaler", "other"),
        ("reading", "other"),
        ("scalers", []),
        ("scalers", {}),
        ("scalers", {"temperature": {"kind": "x"}}),
        ("scalers", {"temperature": {"kind": 1, "attributes": {}, "tensors": {}}}),
        ("scalers", {"temperature": {"kind": "x", "attributes": [], "tensors": {}}}),
        (
            "scalers",
            {"temperature": {"kind": "x", "attributes": {}, "tensors": {"temperature": 3}}},
        ),
        ("scalers", {"temperature": {"kind": "x", "executed": "os.system"}}),
    ],
)
def test_descriptions_that_are_none_are_one_line(tmp_path: Path, field: str, value: Any) -> None:
    file = make().save(tmp_path)
    with safe_open(file, "pt") as content:
        about = json.loads(content.metadata()["socrates"])
    save_file(load_file(file), file, {"socrates": json.dumps(about | {field: value})})
    with pytest.raises(ValueError, match=r"model\.safetensors .*version"):
        load(file)


@pytest.mark.parametrize(
    ("scaler", "attribute", "value"),
    [
        ("temperature", "_buffers", "none"),
        ("temperature", "transform", "none"),
        ("temperature", "temperature", 2.0),
        ("temperature", "floor", [1]),
        ("vector", "regularization", 10**15),
        ("vector", "regularization", "none"),
    ],
)
def test_attributes_of_scalers_that_no_scaler_has_are_refused(
    tmp_path: Path, scaler: str, attribute: str, value: Any
) -> None:
    file = make().save(tmp_path)
    resign_model(
        file,
        lambda about, _: about["scalers"][scaler]["attributes"].update({attribute: value}),
    )
    with pytest.raises(ValueError, match=rf"model\.safetensors .*(\b{attribute}\b|{value!r})"):
        load(file)


@pytest.mark.parametrize("name", ["transform", "deep.bias", "forward"])
def test_scalers_with_other_tensors_are_refused(tmp_path: Path, name: str) -> None:
    file = make().save(tmp_path)

    def add(about: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        about["scalers"]["temperature"]["tensors"][name] = [2]
        tensors[f"scalers.temperature.{name}"] = torch.zeros(2)

    resign_model(file, add)
    with pytest.raises(ValueError, match=rf"TemperatureScaling\b.*\b{name.split('.')[0]}\b"):
        load(file)


def test_options_and_strengths_of_scalers_are_kept(tmp_path: Path) -> None:
    labels = torch.arange(60) % 3
    logits = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    scalers = {
        "vector": socrates.scaling.VectorScaling(regularization=None).fit(logits, labels),
        "structured": socrates.scaling.StructuredScaling(structure="diagonal").fit(logits, labels),
    }
    about = Description("mlp", {}, 3, (1, 2, 2), CLASSES, scaler="vector")
    predictor = Predictor(models.build("mlp", 3, (1, 2, 2)), about, scalers)
    again = load(load(predictor.save(tmp_path)).save(tmp_path))
    for name, scaler in scalers.items():
        assert str(again.scalers[name]) == str(scaler)
        torch.testing.assert_close(again.scalers[name](logits), scaler(logits))


def test_a_model_whose_checksum_was_taken_out_is_refused(tmp_path: Path) -> None:
    file = make().save(tmp_path)
    with safe_open(file, "pt") as content:
        about = json.loads(content.metadata()["socrates"])
    del about["checksum"]
    save_file(load_file(file), file, {"socrates": json.dumps(about)})
    with pytest.raises(ValueError, match=r"model\.safetensors .*checksum is missing"):
        load(file)


def test_paths_that_hold_no_model(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing .*model\.safetensors"):
        load(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match=r"not a run .*model\.safetensors"):
        load(tmp_path)


def test_weights_beyond_half_precision_are_not_lost(tmp_path: Path) -> None:
    predictor = make()
    with torch.no_grad():
        predictor.model.head.weight[0, 0] = 1e6  # type: ignore[union-attr]
    with pytest.raises(ValueError, match=r"model\.head\.weight .*half"):
        predictor.save(tmp_path, weights="half")
    assert not (tmp_path / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("changed", "tolerance"),
    [
        (copy.deepcopy, 0),
        (lambda one: pickle.loads(pickle.dumps(one)), 0),
        (nn.Module.train, 0),  # predicting is no training
        (nn.Module.double, 1e-5),
        (nn.Module.half, 1e-2),
        (nn.Module.bfloat16, 3e-2),
    ],
)
def test_copies_modes_and_precisions_predict_the_same(changed: Any, tolerance: float) -> None:
    predictor, images = make(model="resnet20"), some_images(20, 14)
    expected, before = predictor.predict(images).probs, copy.deepcopy(predictor.state_dict())
    found = changed(predictor).predict(images).probs
    assert found == pytest.approx(expected, abs=tolerance)
    if tolerance == 0:
        assert all(torch.equal(value, before[key]) for key, value in predictor.state_dict().items())


@pytest.mark.parametrize(("beyond", "accepted"), [(1e-9, 50), (0.0, 100), (-1e-9, 100)])
def test_a_confidence_at_the_threshold_is_answered_as_it_was_certified(
    beyond: float, accepted: int
) -> None:
    predictor = make(unknown=False, scaler="none")
    logits = torch.tensor([[1.5, 0.0, 0.0]] * 50 + [[5.0, 0.0, 0.0]] * 50)
    threshold = (
        float(predictor.prediction(logits).confidence[0]) + beyond
    )  # single precision does not tell them apart
    certificate = predictor.certify(
        labels=[0] * 100, logits=logits, risk=0.1, thresholds=[threshold]
    )
    answered = torch.as_tensor(predictor.prediction(logits).answered)
    assert int(answered.sum()) == certificate.num_accepted == accepted


def test_unknown_is_no_answer_that_counts() -> None:
    predictor = make(scaler="none", reading="answer")
    sure, unknown = [9.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 9.0]
    logits = [sure] * 60 + [unknown] * 40
    certificate = predictor.certify(
        labels=[0] * 100, logits=logits, risk=0.1, thresholds=[0.99, 0.9]
    )
    assert (certificate.num_accepted, certificate.num_errors, certificate.coverage) == (60, 0, 0.6)


def test_inputs_that_are_a_matrix_are_no_logits() -> None:
    about = Description("linear", {}, 3, (5, 1, 1), CLASSES)
    predictor = Predictor(nn.Linear(5, 3), about)
    inputs = torch.randn(100, 5)
    labels = torch.as_tensor(predictor.predict(inputs).predicted)
    of_logits = predictor.certify(labels=labels, logits=predictor.logits(inputs), risk=0.1)
    assert predictor.certify(inputs, labels, risk=0.1) == of_logits


def test_only_the_keyword_tells_logits_from_inputs() -> None:
    """A model that is always wrong gets no promise, even if its features look like right logits."""
    model = nn.Linear(3, 3)
    nn.init.zeros_(model.bias)
    with torch.no_grad():
        model.weight.copy_(-5 * torch.eye(3))
    predictor = Predictor(model, Description("nn", {}, 3, (1, 1, 3), CLASSES, None))
    inputs = 4 * torch.randn(2000, 3, generator=torch.Generator().manual_seed(0))
    labels = inputs.argmax(dim=1)
    assert not (torch.as_tensor(predictor.predict(inputs).predicted) == labels).any()
    with pytest.raises(ValueError, match=r"0\.05 .*\b2000 .*\b2000 "):
        predictor.certify(inputs, labels, risk=0.05)
    with pytest.raises(ValueError, match=r"0\.05 .*\b2000 .*\b2000 "):
        predictor.certify(labels=labels, logits=predictor.logits(inputs), risk=0.05)
    right = predictor.certify(inputs, inputs.argmin(dim=1), risk=0.05)
    assert (right.coverage, right.num_errors) == (1.0, 0)
    with pytest.raises(ValueError, match=r"uint8 .*float32 \(5, 4\)"):  # logits are no images
        make().certify(make().logits(some_images()), [0] * 5, risk=0.5)


class WithArray:
    """What some other library hands out: an object that numpy can read."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.values if dtype is None else self.values.astype(dtype)


KINDS = {
    "torch": torch.as_tensor,
    "numpy": np.asarray,
    "float64": np.float64,
    "reversed": lambda values: np.asarray(values)[::-1].copy()[::-1],
    "objects": lambda values: np.asarray(values).astype(object),
    "pandas": lambda values: pd.DataFrame(values),
    "nullable": lambda values: pd.DataFrame(values).astype("Float64"),
    "pyarrow": lambda values: pd.DataFrame(values).convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda values: pl.DataFrame(np.asarray(values)),
    "__array__": WithArray,
    "lists": lambda values: values.tolist(),
    "list of tensors": list,
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("names", [False, True], ids=["numbers", "names"])
def test_a_predictor_takes_what_metrics_take(kind: Any, names: bool) -> None:
    predictor = Predictor(nn.Linear(5, 3), Description("linear", {}, 3, (5, 1, 1), CLASSES))
    inputs = torch.randn(100, 5)
    expected = predictor.predict(inputs)
    predicted = torch.as_tensor(expected.predicted)
    labels = pd.Series(predicted.numpy()).astype("Int64")
    if names:
        labels = labels.map(dict(enumerate(CLASSES))).astype("category")
    promise = predictor.certify(inputs, predicted, risk=0.1)
    assert predictor.certify(kind(inputs), labels, risk=0.1) == promise
    logits = predictor.logits(kind(inputs))
    assert predictor.certify(labels=labels, logits=kind(logits), risk=0.1) == promise
    for prediction in (predictor.predict(kind(inputs)), predictor.prediction(kind(logits))):
        torch.testing.assert_close(prediction.probs, expected.probs)


@pytest.mark.parametrize("names", [["labels"], ["inputs"], ["inputs", "labels", "logits"], []])
def test_inputs_and_logits_exclude_each_other(names: list[str]) -> None:
    predictor = Predictor(nn.Linear(3, 3), Description("nn", {}, 3, (1, 1, 3), CLASSES, None))
    arguments: dict[str, Any] = {"inputs": [[0.0] * 3], "labels": [0], "logits": [[0.0] * 3]}
    with pytest.raises(ValueError, match="either inputs or logits"):
        predictor.certify(**{name: arguments[name] for name in names}, risk=0.5)


def test_labels_may_be_names() -> None:
    predictor = make()
    images = some_images(number=200)
    numbers = torch.as_tensor(predictor.predict(images).predicted)
    names = [predictor.classes[number] for number in numbers]
    by_names = predictor.certify(images, names, risk=0.05)
    assert by_names == predictor.certify(images, numbers, risk=0.05)


def test_a_pretrained_transformer_is_loaded_without_its_source(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    config = transformers.ViTConfig(**sizes, image_size=8, patch_size=4)
    source = models.build("vit_transfer", 4, (3, 8, 8), source=config.to_json_string())
    predictor = make(model="vit_transfer", options=source.options_when_kept)
    predictor.save(tmp_path)
    found, expected = (one.predict(some_images()).probs for one in (load(tmp_path), predictor))
    assert torch.equal(torch.as_tensor(found), torch.as_tensor(expected))
