"""Pretrained backbones: where they come from, features that are computed once, the whole model."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from socrates import data, models
from socrates.cli import main
from socrates.data.features import FeatureCache, FeatureSplit, digest_of, normalized_as
from socrates.engine import features as engine_features
from socrates.engine.build import load_data
from socrates.engine.predict import read_image
from socrates.experiment import Experiment, Optimization, Part, usual_optimization
from socrates.models.backbone import NORM, source_of
from socrates.models.sources import HuggingFace, image_format
from socrates.predictor import load
from socrates.predictor.export import export

pytest.importorskip("transformers")

CODE = """
import torch
from torch import nn


class Corners(nn.Module):
    image_size = 16
    image_mean = (0.5, 0.5, 0.5)
    image_std = (0.25, 0.25, 0.25)

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(12))

    def forward(self, images):
        pooled = nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)
        return pooled * self.scale


def corners():
    return Corners()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small ResNet in the Hugging Face format, with a classifier that is not needed."""
    from transformers import ResNetConfig, ResNetForImageClassification

    path = tmp_path_factory.mktemp("models") / "resnet"
    torch.manual_seed(1)
    config = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=7
    )
    ResNetForImageClassification(config).save_pretrained(path)
    write_preparation(path, {"size": {"shortest_edge": 32}})
    return path


def write_preparation(path: Path, size: dict[str, object]) -> None:
    means = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.25, 0.3]}
    (path / "preprocessor_config.json").write_text(json.dumps({**size, **means}))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Forty images of two classes in mixed sizes: stripes across and along."""
    random = np.random.default_rng(1)
    for number in range(40):
        name = ("across", "along")[number % 2]
        pixels = np.where(np.arange(40) % 8 < 4, 60, 190)[None, :].repeat(40 + number % 3, 0)
        pixels = pixels if name == "along" else pixels.T
        pixels = (pixels + random.integers(-30, 30, pixels.shape)).clip(0, 255)
        place = tmp_path / "photos" / name / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(place)
    return tmp_path / "photos"


def train(tmp_path: Path, photos: Path, *words: str) -> tuple[int, Path]:
    """Train by the command line; return the exit status and the run, if there is one."""
    out = tmp_path / "runs"
    command = ["train", f"folder:{photos}", *words, "--out", str(out), "--data", str(tmp_path)]
    status = main([*command, "--epochs", "2", "--keep-every", "2"])
    runs = sorted(out.glob("*/finished.json"), key=lambda path: path.stat().st_mtime)
    return status, runs[-1].parent if runs else out


def test_run_holds_the_whole_model_and_needs_no_folder(
    folder: Path, photos: Path, tmp_path: Path
) -> None:
    copied = tmp_path / "backbone"
    shutil.copytree(folder, copied)
    status, run = train(tmp_path, photos, "--backbone", str(copied))
    assert status == 0
    before = models.build("backbone", 3, (3, 32, 32), source=str(copied)).state_dict()
    shutil.rmtree(copied)
    predictor = load(run)
    assert predictor.about.image_shape == (3, 32, 32)
    assert predictor.about.preparation is not None
    assert predictor.about.preparation.mean == pytest.approx((0.4, 0.5, 0.6))
    after = predictor.model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"head.weight", "head.bias"}  # the rest is as in the folder
    image = read_image(photos / "along" / "1.png", predictor.about)[None]
    model = predictor.model
    with torch.no_grad():
        features = model.features(predictor.prepare(image))
    assert features.shape == (1, 16)
    assert float(features.norm()) == pytest.approx(NORM, rel=1e-5)
    torch.testing.assert_close(model(features).detach(), predictor.logits(image))


@pytest.mark.slow
def test_exported_program_answers_as_the_predictor(
    folder: Path, photos: Path, tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    _, run = train(tmp_path, photos, "--backbone", str(folder))
    predictor = load(run)
    path = export(predictor, tmp_path / "model.onnx")
    images = torch.randint(256, (3, 3, 32, 32), dtype=torch.uint8)
    probs, *_ = onnxruntime.InferenceSession(path).run(None, {"images": images.numpy()})
    np.testing.assert_allclose(probs, predictor.predict(images).probs, atol=1e-5)


def test_features_are_computed_once(
    folder: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    embed = engine_features.Embedding.__call__

    def count(self: engine_features.Embedding, images: torch.Tensor) -> torch.Tensor:
        seen.append(len(images))
        return embed(self, images)

    monkeypatch.setattr(engine_features.Embedding, "__call__", count)
    train(tmp_path, photos, "--backbone", str(folder))
    assert sum(seen) == 40
    train(tmp_path, photos, "--backbone", str(folder), "--seed", "2")
    train(tmp_path, photos, "backbone", "ce", "--source", str(folder))
    assert sum(seen) == 40
    # other photographs are computed, known ones are not
    Image.new("L", (50, 50), 7).save(photos / "along" / "new.png")
    train(tmp_path, photos, "ce", "--backbone", str(folder), "--seed", "3")
    assert sum(seen) == 41


def test_cached_features_are_those_of_the_model(folder: Path, photos: Path, tmp_path: Path) -> None:
    experiment = Experiment(
        Part(f"folder:{photos}"),
        Part("backbone", source=str(folder)),
        Part("ce"),
        optimization=Optimization(backbone_factor=0.0),
    )
    split = load_data(experiment, tmp_path).val
    assert isinstance(split, FeatureSplit)
    assert split.images is not None
    model = models.build("backbone", 2, (3, 32, 32), source=str(folder)).eval()
    images = next(split.images.batches(8, torch.arange(3))).inputs
    rows = next(split.batches(8, torch.arange(3))).inputs
    with torch.no_grad():
        torch.testing.assert_close(model.features(images), rows)
    chosen = split.subset(torch.tensor([2, 0]))
    assert torch.equal(chosen.features, split.features[[2, 0]])


def test_damaged_cache_is_computed_again(tmp_path: Path) -> None:
    path = tmp_path / "features.npz"
    path.write_bytes(b"PK\x03\x04 no archive")
    split = data.load("digits").val
    computed: list[int] = []

    def embed(images: torch.Tensor) -> torch.Tensor:
        return images.mean(dim=(2, 3))

    def count(_: int, new: int) -> None:
        computed.append(new)

    rows = FeatureCache(path).features(split, embed, count)
    assert rows.shape == (300, 1)
    assert sum(computed) == 300
    images = next(split.batches(300, torch.arange(300))).inputs
    assert set(FeatureCache(path).rows) == {digest_of(image) for image in images}
    FeatureCache(path).features(split, embed, count)
    assert sum(computed) == 300


def test_finetune_trains_the_backbone(folder: Path, photos: Path, tmp_path: Path) -> None:
    status, run = train(tmp_path, photos, "--backbone", str(folder), "--finetune")
    assert status == 0
    before = models.build("backbone", 3, (3, 32, 32), source=str(folder)).state_dict()
    after = load(run).model.state_dict()
    kernel = "body.model.embedder.embedder.convolution.weight"
    assert not torch.equal(before[kernel], after[kernel])
    assert not list((tmp_path / "features").glob("*"))


def test_changed_backbone_is_refused(
    folder: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = HuggingFace(str(folder)).fingerprint
    changed = tmp_path / "changed"
    shutil.copytree(folder, changed)
    write_preparation(changed, {"size": {"shortest_edge": 64}})
    with pytest.raises(ValueError, match=weights):
        models.build("backbone", 2, (3, 32, 32), source=str(changed), weights=weights)


def test_pooler_without_weights_is_not_used(tmp_path: Path) -> None:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=32,
        patch_size=16,
    )
    for name, add_pooling_layer in (("without", False), ("with", True)):
        ViTModel(config, add_pooling_layer=add_pooling_layer).save_pretrained(tmp_path / name)
        write_preparation(tmp_path / name, {"size": {"height": 32, "width": 32}})
    poolings = {
        name: models.build("backbone", 2, (3, 32, 32), source=str(tmp_path / name)).body.pooling
        for name in ("without", "with")
    }
    assert poolings == {"without": "token", "with": "pooler"}


def test_missing_weights_are_refused(folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    tensors = load_file(broken / "model.safetensors")
    del tensors["resnet.embedder.embedder.convolution.weight"]
    save_file(tensors, broken / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"lacks 1 of its weights.*embedder\.convolution\.weight"):
        models.build("backbone", 2, (3, 32, 32), source=str(broken))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"size": {"height": 384, "width": 384}}, (384, 0.5, 0.25)),
        ({"size": 224}, (224, 0.5, 0.25)),
        (
            {"size": {"shortest_edge": 256}, "crop_size": 224, "do_center_crop": True},
            (224, 0.5, 0.25),
        ),
        ({"size": 64, "rescale_factor": 2 / 255}, (64, 0.25, 0.125)),
        ({"size": 64, "do_normalize": False}, (64, 0.0, 1.0)),
        (
            {"size": 64, "do_rescale": False, "image_mean": [127.5], "image_std": [51.0]},
            (64, 0.5, 0.2),
        ),
    ],
)
def test_preparation_of_a_backbone(
    settings: dict[str, object], expected: tuple[int, float, float]
) -> None:
    images = image_format({"image_mean": [0.5], "image_std": [0.25], **settings})
    assert (images.size, images.mean[0], images.std[0]) == pytest.approx(expected)


def test_folder_without_preparation_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "bare")
    (tmp_path / "bare" / "preprocessor_config.json").unlink()
    with pytest.raises(ValueError, match=r"preprocessor_config\.json"):
        _ = source_of("backbone", {"source": str(tmp_path / "bare")}).images


def test_cached_name_works_and_nothing_is_downloaded(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    commit = "0" * 40
    cached = tmp_path / "models--someone--small"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text(commit)
    shutil.copytree(folder, cached / "snapshots" / commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    assert HuggingFace("someone/small").fingerprint == HuggingFace(str(folder)).fingerprint
    with pytest.raises(ValueError, match="nothing is downloaded"):
        _ = HuggingFace("someone/other").folder


def test_backbone_from_code(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    status, run = train(tmp_path, photos, "ce", "--backbone", "mine.py:corners")
    assert status == 0
    with pytest.raises(ValueError, match="trust_code"):
        load(run)
    predictor = load(run, trust_code=True)
    assert predictor.about.image_shape == (3, 16, 16)
    assert predictor.model.head.in_features == 12
    assert predictor.predict(torch.zeros(1, 3, 20, 20, dtype=torch.uint8)).probs.shape == (1, 2)


def test_code_that_returns_maps_is_refused(tmp_path: Path) -> None:
    (tmp_path / "maps.py").write_text(
        "from torch import nn\ndef maps():\n    return nn.Conv2d(3, 4, 3)\n"
    )
    with pytest.raises(ValueError, match=r"features \(B, D\).*\(1, 4, 14, 14\)"):
        models.build(f"backbone:{tmp_path / 'maps.py'}:maps", 2, (3, 16, 16))


def test_gray_arrays(folder: Path, tmp_path: Path) -> None:
    images = np.random.default_rng(1).integers(0, 256, (40, 12, 12), dtype=np.uint8)
    np.savez(tmp_path / "gray.npz", images=images, labels=np.arange(40) % 2)
    out = ["--out", str(tmp_path / "runs"), "--data", str(tmp_path), "--epochs", "1"]
    assert main(["train", f"npz:{tmp_path / 'gray.npz'}", "--backbone", str(folder), *out]) == 0
    [run] = (tmp_path / "runs").iterdir()
    predictor = load(run)
    assert predictor.about.image_shape == (1, 32, 32)
    assert predictor.about.preparation is not None
    assert predictor.about.preparation.mean == pytest.approx((0.5,))
    assert predictor.predict(torch.from_numpy(images[:2, None])).probs.shape[0] == 2


def test_usual_settings_freeze_a_backbone() -> None:
    settings = usual_optimization("folder:photos", "backbone", "socrates", num_images=432)
    assert (settings.backbone_factor, settings.recipe) == (0.0, "one-cycle")
    assert usual_optimization("folder:photos", "backbone", "ce", recipe="paper").recipe == "paper"


def test_normalized_as_leaves_other_data_alone() -> None:
    splits = data.load("digits")
    again = normalized_as(splits, (0.1,) * 3, (0.5,) * 3)
    first = next(again.val.batches(2, torch.arange(2))).inputs
    images = splits.val.images[:2]  # pyright: ignore[reportAttributeAccessIssue]
    torch.testing.assert_close(first, (images / 255 - 0.1) / 0.5)


def test_resnet50_layer_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    from resnet50_folder import EPSILON, layer

    torch.manual_seed(1)
    kernel, bias = torch.randn(3, 3, 4, 5), torch.randn(5)
    norm = {name: torch.rand(5) for name in ("gamma", "beta", "moving_mean", "moving_variance")}
    arrays = {"c/kernel": kernel.numpy(), "c/bias": bias.numpy()}
    arrays |= {f"n/{name}": value.numpy() for name, value in norm.items()}
    state = layer(arrays, "c", "n", epsilon=1e-5)
    images = torch.randn(2, 4, 6, 6)
    expected = nn.functional.batch_norm(
        nn.functional.conv2d(images, kernel.permute(3, 2, 0, 1), bias),
        norm["moving_mean"],
        norm["moving_variance"],
        norm["gamma"],
        norm["beta"],
        eps=EPSILON,
    )
    convolution = nn.Conv2d(4, 5, 3, bias=False)
    convolution.weight.data = state["convolution.weight"]
    after = nn.BatchNorm2d(5).eval()
    after.load_state_dict(
        {
            name.removeprefix("normalization."): value
            for name, value in state.items()
            if name.startswith("normalization.")
        },
        strict=False,
    )
    torch.testing.assert_close(after(convolution(images)), expected, rtol=1e-4, atol=1e-5)
    sys.modules.pop("resnet50_folder", None)


def test_certify_and_predict_by_a_backbone(folder: Path, photos: Path, tmp_path: Path) -> None:
    """A promise is made and kept with a model whose training saw cached features alone."""
    labeled = tmp_path / "labeled"
    random = np.random.default_rng(2)
    for number in range(80):
        name = ("across", "along")[number % 2]
        pixels = np.where(np.arange(40) % 8 < 4, 60, 190)[None, :].repeat(40, 0)
        pixels = pixels if name == "along" else pixels.T
        light = (
            random.integers(-60, 60, (5, 5)).repeat(8, 0).repeat(8, 1)
        )  # none looks like another
        pixels = (pixels + light).clip(0, 255)
        (labeled / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(labeled / name / f"{number}.png")
    words = ["train", f"folder:{photos}", "--backbone", str(folder), "--novelty", "energy"]
    words += ["--epochs", "30", "--out", str(tmp_path / "runs"), "--data", str(tmp_path)]
    assert main(words) == 0
    (run,) = (tmp_path / "runs").iterdir()
    assert main(["certify", str(run), str(labeled), "--risk", "0.4"]) == 0
    assert load(run).certificate is not None
    assert main(["predict", str(run), str(labeled), "--out", str(tmp_path / "rows.csv")]) == 0
    assert main(["certify", str(run), str(photos), "--risk", "0.5"]) != 0  # it was trained on these
