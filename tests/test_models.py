"""Architectures: parameter counts, shapes, gradients, initialisation, names and options."""

from __future__ import annotations

import copy
import inspect
import json
import math
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from socrates import models
from socrates.contracts import Classifier
from socrates.engine.train import train
from socrates.experiment import Experiment, Optimization, Part
from socrates.models.resnet import BasicBlock, Padding, Projection
from socrates.models.sources import weights_fingerprint
from socrates.models.vit import TransformerBlock

SMALL = [  # small enough to run here
    ("mlp", (1, 8, 8), {}),
    ("mlp", (3, 5, 4), {"width": 7, "depth": 1}),
    ("cnn", (1, 8, 8), {}),
    ("cnn", (3, 32, 32), {"width": 3}),
    ("resnet20", (1, 8, 8), {}),
    ("resnet20", (3, 32, 32), {"width": 4}),
    ("resnet110_he", (3, 9, 9), {"width": 4}),
    ("resnet110", (1, 8, 8), {"width": 4}),
    ("resnet34", (3, 40, 32), {"width": 4}),
    ("vgg16", (1, 32, 32), {}),
    ("vit", (1, 8, 8), {"dim": 32, "depth": 2, "heads": 4}),
    ("vit", (3, 12, 8), {"dim": 32, "depth": 2, "heads": 4, "mlp_ratio": 2.0}),
]


@pytest.mark.parametrize(
    ("name", "num_outputs", "image_shape", "count", "num_features"),
    [
        ("vgg16", 10, (3, 32, 32), 14_991_946, 512),
        ("vgg16", 100, (3, 32, 32), 15_038_116, 512),
        ("resnet110", 100, (3, 32, 32), 46_048_932, 2048),
        ("resnet110_he", 10, (3, 32, 32), 1_727_962, 64),
        ("resnet34", 101, (3, 224, 224), 21_336_485, 512),
        ("resnet20", 10, (3, 32, 32), 269_722, 64),
        ("vit", 100, (3, 32, 32), 19_047_012, 512),
        ("mlp", 10, (1, 8, 8), 26_122, 128),
        ("cnn", 10, (1, 8, 8), 25_154, 64),
    ],
)
def test_published_sizes(name, num_outputs, image_shape, count, num_features):
    with torch.device("meta"):
        model = models.build(name, num_outputs, image_shape).eval()
        features = model.features(torch.empty(2, *image_shape))
    assert sum(parameter.numel() for parameter in model.parameters()) == count
    assert features.shape == (2, num_features)


@pytest.mark.parametrize(("name", "image_shape", "options"), SMALL)
def test_each_is_a_classifier_that_learns_everywhere(name, image_shape, options):
    torch.manual_seed(0)
    model = models.build(name, 5, image_shape, **options)
    images = torch.randn(6, *image_shape)
    F.cross_entropy(model(images), torch.arange(6) % 5).backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key
        assert parameter.grad.abs().sum() > 0, key
    model.eval()
    features = model.features(images)
    assert isinstance(model, Classifier)
    assert features.shape == (6, model.head.in_features)
    assert model.head.out_features == 5
    torch.testing.assert_close(model(images), model.head(features))


@pytest.mark.parametrize(("name", "image_shape", "options"), SMALL)
def test_saving_copying_and_seeds(name, image_shape, options):
    def build(seed):
        torch.manual_seed(seed)
        return models.build(name, 5, image_shape, **options).eval()

    model, images = build(0), torch.randn(3, *image_shape)
    assert torch.equal(build(0)(images), model(images))
    other = build(1)
    assert not torch.equal(other(images), model(images))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(images), model(images))
    assert torch.equal(copy.deepcopy(model)(images), model(images))


@pytest.mark.parametrize(("name", "image_shape", "options"), SMALL)
def test_samples_do_not_see_each_other_in_evaluation(name, image_shape, options):
    torch.manual_seed(0)
    model = models.build(name, 5, image_shape, **options).eval()
    images = torch.randn(4, *image_shape)
    with torch.no_grad():
        torch.testing.assert_close(model(images)[:2], model(images[:2]), rtol=1e-4, atol=1e-5)
        assert not torch.allclose(model(images)[0], model(images)[1])


def test_vgg_layers_and_initialisation():
    torch.manual_seed(0)
    model = models.build("vgg16", 10, (3, 32, 32))
    convolutions = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    assert len(convolutions) == 13
    for convolution in convolutions[1:]:
        assert float(convolution.weight.detach().std()) == pytest.approx(
            math.sqrt(2 / (9 * convolution.out_channels)), rel=0.02
        )
        assert not convolution.bias.any()
    for linear in (module for module in model.modules() if isinstance(module, nn.Linear)):
        assert float(linear.weight.detach().std()) == pytest.approx(0.01, rel=0.05)
        assert not linear.bias.any()
    assert [module.p for module in model.modules() if isinstance(module, nn.Dropout2d)] == [0.3] + [
        0.4
    ] * 7
    assert [module.p for module in model.modules() if isinstance(module, nn.Dropout)] == [0.5, 0.5]
    kinds = [type(module).__name__ for module in model.body[:7]]
    assert kinds == ["Conv2d", "ReLU", "BatchNorm2d", "Dropout2d", "Conv2d", "ReLU", "BatchNorm2d"]
    assert sum(isinstance(module, nn.MaxPool2d) for module in model.body) == 5


def test_vgg_drops_features_on_the_way_to_the_head_only():
    torch.manual_seed(0)
    model = models.build("vgg16", 10, (3, 32, 32))
    for module in model.body.modules():
        if isinstance(module, nn.Dropout | nn.Dropout2d):
            module.p = 0.0
    images = torch.randn(4, 3, 32, 32)
    features = model.features(images)
    assert torch.equal(features, model.features(images))
    assert not torch.equal(model.head(features), model.head(features))
    torch.manual_seed(1)
    logits = model(images)
    torch.manual_seed(1)
    assert torch.equal(
        logits, F.linear(F.dropout(features, 0.5), model.head.weight, model.head.bias)
    )


def test_shortcuts():
    images = torch.randn(2, 3, 4, 4)
    padded = Padding(3, 5, 2)(images)
    assert torch.equal(padded[:, :3], images[:, :, ::2, ::2])
    assert not padded[:, 3:].any()
    assert torch.equal(Projection(3, 3, 1)(images), images)
    assert Projection(3, 5, 2)(images).shape == (2, 5, 2, 2)
    block = BasicBlock(3, 3, 1)
    for parameter in block.parameters():
        nn.init.zeros_(parameter)
    assert torch.equal(block(images), images.relu())


@pytest.mark.parametrize(
    ("name", "size", "expected"),
    [
        ("resnet20", 32, (64, 8, 8)),
        ("resnet110_he", 32, (64, 8, 8)),
        ("resnet110", 32, (2048, 4, 4)),
        ("resnet34", 224, (512, 7, 7)),
        ("cnn", 8, (64, 2, 2)),
    ],
)
def test_the_image_is_halved_between_stages(name, size, expected):
    with torch.device("meta"):
        model = models.build(name, 10, (3, size, size)).eval()
        assert model.body[:-2](torch.empty(1, 3, size, size)).shape == (1, *expected)


def test_residual_networks_start_as_he_has_it():
    torch.manual_seed(0)
    for name in ("resnet34", "resnet20"):
        model = models.build(name, 10, (3, 32, 32))
        for convolution in (module for module in model.modules() if isinstance(module, nn.Conv2d)):
            expected = math.sqrt(
                2 / (math.prod(convolution.kernel_size) * convolution.out_channels)
            )
            assert float(convolution.weight.detach().std()) == pytest.approx(expected, rel=0.15)


def test_a_transformer_block_is_torch_s():
    torch.manual_seed(0)
    ours = TransformerBlock(12, 3, 20, dropout=0.0)
    theirs = nn.TransformerEncoderLayer(
        12, 3, 20, 0.0, activation="gelu", batch_first=True, norm_first=True
    )
    norm, attention, _ = ours.attention
    other_norm, first, _, _, second, _ = ours.perceptron
    theirs.self_attn.in_proj_weight.data = attention.queries_keys_values.weight.data
    theirs.self_attn.in_proj_bias.data = attention.queries_keys_values.bias.data
    for mine, its in (
        (attention.output, theirs.self_attn.out_proj),
        (norm, theirs.norm1),
        (other_norm, theirs.norm2),
        (first, theirs.linear1),
        (second, theirs.linear2),
    ):
        nn.init.normal_(mine.bias)
        its.load_state_dict(mine.state_dict())
    tokens = torch.randn(2, 5, 12)
    torch.testing.assert_close(ours(tokens), theirs(tokens))


@pytest.mark.parametrize(
    ("name", "image_shape", "options"),
    [
        ("mlp", (1, 8, 8), {}),
        ("cnn", (1, 8, 8), {}),
        ("resnet20", (3, 8, 8), {"width": 4}),
        ("vit", (1, 8, 8), {"dim": 16, "depth": 2, "heads": 2}),
    ],
)
def test_each_is_exported_with_any_batch_size(name, image_shape, options):
    torch.manual_seed(0)
    model = models.build(name, 5, image_shape, **options).eval()
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(
        model, (torch.randn(3, *image_shape),), dynamic_shapes=({0: batch},)
    ).module()
    for size in (2, 7):
        images = torch.randn(size, *image_shape)
        torch.testing.assert_close(program(images), model(images))


class Own(nn.Module):
    """A model from outside, without our base class."""

    def __init__(self, num_outputs, image_shape, *, size=3):
        super().__init__()
        self.layer = nn.Linear(math.prod(image_shape), size)
        self.head = nn.Linear(size, num_outputs)

    def features(self, images):
        return self.layer(images.flatten(1))

    def forward(self, images):
        return self.head(self.features(images))


def plain(num_outputs, width=4):
    """A module without features and head; its first layer finds out how large images are."""
    return nn.Sequential(
        nn.Flatten(), nn.LazyLinear(width), nn.ReLU(), nn.Linear(width, num_outputs)
    )


def wrong_size(num_outputs):
    return nn.Linear(2, num_outputs)


def wrong_outputs(num_outputs, image_shape):
    return Own(num_outputs + 1, image_shape)


def wrong_plain_outputs(num_outputs):
    return plain(num_outputs - 1)


def no_outputs(width=3):
    return nn.Linear(width, 10)


def no_module(num_outputs):
    return "a model"


class Convolutions(Classifier):
    """Our base class, with nothing more than it asks for."""

    def __init__(self, num_outputs):
        super().__init__()
        self.layer = nn.Conv2d(1, 3, 3)
        self.head = nn.Linear(3, num_outputs)

    def features(self, inputs):
        return self.layer(inputs).mean(dim=(2, 3))


def test_options_by_name():
    assert models.options("vgg16") == {}
    assert models.options(f"{__name__}:Own") == {"size": 3}
    with pytest.raises(ValueError, match=r"'vgg'.*'vgg16'"):
        models.options("vgg")


def test_a_model_from_outside():
    model = models.build(f"{__name__}:Own", 4, (1, 2, 2), size=6)
    assert isinstance(model, Own)
    assert model(torch.zeros(2, 1, 2, 2)).shape == (2, 4)
    for name, options in (("plain", {"width": 7}), ("Convolutions", {})):
        model = models.build(f"{__name__}:{name}", 4, (1, 5, 6), **options)
        assert model.training
        assert model(torch.zeros(2, 1, 5, 6)).shape == (2, 4)


@pytest.mark.parametrize(
    ("name", "image_shape", "options", "message"),
    [
        (
            "resnet21",
            (3, 32, 32),
            {},
            "did you mean 'resnet20'.*vgg16.*module:attribute",
        ),
        ("mlp", (1, 8, 8), {"with": 3}, "'mlp' .*'with', .*width=128, depth=2"),
        ("vgg16", (3, 32, 32), {"width": 3}, "'vgg16' .*'width', .*none"),
        ("mlp", (1, 8, 8), {"depth": 0}, "depth of at least 1, got 128 and 0"),
        ("mlp", (8, 8), {}, r"image_shape .*got 5 and \(8, 8\)"),
        ("cnn", (1, 8, 8), {"width": 0}, "width of at least 1, got 0"),
        (
            "vgg16",
            (3, 28, 28),
            {},
            "vgg16 .*32x32, got 28x28: .*resnet20",
        ),
        ("resnet34", (3, 28, 28), {}, "resnet34 .*32x32, got 28x28"),
        ("resnet110", (3, 4, 4), {}, "resnet110 .*8x8, got 4x4"),
        ("vit", (3, 30, 32), {}, "4x4 patches, 30x32.*set patch"),
        ("vit", (3, 32, 32), {"heads": 7}, "dim=512 and heads=7"),
        ("no_such_module:thing", (1, 8, 8), {}, "cannot be imported"),
        (f"{__name__}:Own", (1, 8, 8), {"width": 1}, "'width', .*size=3"),
        (
            f"{__name__}:wrong_size",
            (1, 8, 8),
            {},
            r"\(1, 8, 8\): mat1",
        ),
        (
            f"{__name__}:wrong_outputs",
            (1, 8, 8),
            {},
            r"5 logits.*shape \(2, 6\)",
        ),
        (
            f"{__name__}:wrong_plain_outputs",
            (1, 8, 8),
            {},
            r"5 logits.*shape \(2, 4\)",
        ),
        (
            f"{__name__}:no_outputs",
            (1, 8, 8),
            {},
            r"\(width=3\): .*num_outputs",
        ),
        (f"{__name__}:no_module", (1, 8, 8), {}, "torch module, got str"),
        (
            "socrates.methods.logits_only:Focal",
            (1, 8, 8),
            {},
            "Focal' is a method",
        ),
        (
            "nowhere.py:Net",
            (1, 8, 8),
            {},
            r"'nowhere.py:Net' .*FileNotFoundError",
        ),
    ],
)
def test_wrong_names_options_and_sizes_are_named(name, image_shape, options, message):
    with pytest.raises(ValueError, match=message):
        models.build(name, 5, image_shape, **options)


@pytest.mark.parametrize("name", list(models.MODELS))
def test_each_is_documented_and_lists_its_options(name):
    make = models.MODELS[name]
    assert make.__doc__
    first, second, *options = inspect.signature(make).parameters.values()
    assert (first.name, second.name) == ("num_outputs", "image_shape")
    assert all(
        option.default is not option.empty and option.kind is option.KEYWORD_ONLY
        for option in options
    )


@pytest.fixture
def tiny_vit(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        image_size=32,
        patch_size=16,
    )
    torch.manual_seed(0)
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path)
    return tmp_path


def test_transfer_reads_a_local_model_and_trains_all_of_it(tiny_vit):
    model = models.build("vit_transfer", 5, (3, 32, 32), source=str(tiny_vit))
    again = models.build("vit_transfer", 5, (3, 32, 32), source=str(tiny_vit))
    images = torch.randn(3, 3, 32, 32)
    torch.testing.assert_close(model.features(images), again.features(images))
    assert not torch.equal(model.head.weight, again.head.weight)
    F.cross_entropy(model(images), torch.tensor([0, 1, 2])).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert model.head.in_features == 16


def test_transfer_pins_a_revision_and_knows_its_weights(tiny_vit, monkeypatch):
    transformers = pytest.importorskip("transformers")
    asked = {}

    def from_pretrained(source, **options):
        asked.update(options, source=source)
        return transformers.ViTModel(transformers.ViTConfig.from_pretrained(tiny_vit))

    model = models.build("vit_transfer", 5, (3, 32, 32), source=str(tiny_vit))
    assert model.pretrained_weights == weights_fingerprint(model.body)
    with torch.no_grad():
        next(model.body.parameters()).add_(1)
    assert model.pretrained_weights != weights_fingerprint(model.body)
    from_config = models.build("vit_transfer", 5, (3, 32, 32), **model.options_when_kept)
    assert from_config.pretrained_weights == ""
    monkeypatch.setattr(transformers.ViTModel, "from_pretrained", from_pretrained)
    models.build("vit_transfer", 5, (3, 32, 32))
    assert asked["source"] == "google/vit-base-patch16-224"
    assert asked["revision"] == "3f49326eb077187dfe1c2a2bb15fbd74e6ab91e3"


def test_a_finished_run_records_the_weights_it_started_from(tiny_vit, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 32, 32, 3), dtype=np.uint8)
    path = tmp_path / "images.npz"
    np.savez(path, x_train=pixels, y_train=np.arange(40) % 2)
    experiment = Experiment(
        Part(f"npz:{path}", image_size=32),
        Part("vit_transfer", source=str(tiny_vit)),
        Part("ce"),
        optimization=Optimization(epochs=1, batch_size=32),
    )
    run = train(experiment, tmp_path / "runs", keep_weights="none")
    record = json.loads((run.directory / "finished.json").read_text())
    model = models.build("vit_transfer", 2, (3, 32, 32), source=str(tiny_vit))
    assert record["pretrained_weights"] == model.pretrained_weights


def test_transfer_has_the_size_of_the_base_model():
    transformers = pytest.importorskip("transformers")
    with torch.device("meta"):
        body = transformers.ViTModel(transformers.ViTConfig(), add_pooling_layer=False)
    head = 768 * 100 + 100
    assert sum(parameter.numel() for parameter in body.parameters()) + head == pytest.approx(
        85.9e6, abs=5e4
    )


def test_transfer_refuses_other_sizes_and_empty_folders(tiny_vit, tmp_path_factory):
    with pytest.raises(ValueError, match=r"\(3, 32, 32\), got \(3, 224, 224\)"):
        models.build("vit_transfer", 5, (3, 224, 224), source=str(tiny_vit))
    with pytest.raises(ValueError, match=r"config\.json"):
        models.build("vit_transfer", 5, (3, 32, 32), source=str(tmp_path_factory.mktemp("empty")))


def test_transfer_without_transformers_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"vit_transfer .*install transformers"):
        models.build("vit_transfer", 5, (3, 32, 32), source="anything")
