"""`reproduce --as-released`: each departure of the released code, alone and together, and said on
every output."""

from __future__ import annotations

import dataclasses
import warnings

import pytest
import torch
from data_files import food101_files, write
from report_runs import make_run
from torch.nn import functional as F

from socrates import data, methods, models
from socrates.contracts import Batch, Task
from socrates.engine.build import make_optimizer, set_rate
from socrates.experiment import Part, resolve
from socrates.losses import KeyQueue, flsd_loss
from socrates.models.released import ReleasedBlock
from socrates.paper.compare import paper_setting
from socrates.paper.grid import final_experiment
from socrates.paper.recipes import RECIPES, write_recipes
from socrates.paper.released import AS_RELEASED_NOTE, as_released
from socrates.paper.reproduce import plan
from socrates.paper.scales import LaptopScale, PaperScale
from socrates.paper.settings import SETTINGS

DEPARTURES = {  # of the options that the paper's text asks for, in CIFAR-100 with VGG-16
    "socrates": {"target_over": "known"},
    "socrates:no-focal": {"target_over": "known"},
    "socrates:beta-known": {"target_over": "known", "clamp": False},
    "socrates:beta-fixed": {"target_over": "known", "when": "unknown"},
    "flsd": {"times_gamma": True},
    "ccl_sc": {"temperature": 1.0, "weight": 1.0},
    "sat": {},
    "focal": {},
    "ce": {},
}


@pytest.mark.parametrize("name", DEPARTURES)
def test_only_the_departures_change(name):
    ours = final_experiment("cifar100-vgg16", name)
    released = as_released(ours)
    options = dict(ours.method.options)
    assert dict(released.method.options) == options | DEPARTURES[name]
    assert dataclasses.replace(released, method=ours.method) == ours
    assert (resolve(released).name == ours.name) == (not DEPARTURES[name])
    if name != "ccl_sc":
        methods.build(name, Task(9, 2, 300), **dict(released.method.options))


# By setting: what the released code changes for every method, and what for CCL-SC.
OF_SETTINGS = {
    "cifar10-vgg16": {"dataset": {"augment": False}},
    "svhn-vgg16": {},
    "food101-resnet34": {
        "dataset": {"val_fraction": 0.1, "pad_small": True},
        "model": "resnet34:released",
    },
    "cifar100-vgg16": {},
    "cifar100-resnet110": {},
    "cifar100-vit": {"model": "vit:released", "ccl_sc": {"contrast_on": "logits"}},
    "cifar100-vit_transfer": {"joins": 20, "ccl_sc": {"contrast_on": "logits"}},
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("method", ["ce", "ccl_sc"])
def test_what_changes_in_each_setting(setting, method):
    changes = OF_SETTINGS[setting]
    ours = final_experiment(setting, method)
    released = as_released(ours)
    data_options = dict(ours.dataset.options) | changes.get("dataset", {})
    assert released.dataset == Part(ours.dataset.name, **data_options)
    assert released.model.name == changes.get("model", ours.model.name)
    assert released.model.options == ours.model.options
    joins = changes.get("joins", 0)
    assert released.optimization == dataclasses.replace(ours.optimization, backbone_joins=joins)
    options = dict(ours.method.options)
    if method == "ccl_sc":
        options |= {"temperature": options["weight"], "weight": 1.0} | changes.get("ccl_sc", {})
    assert dict(released.method.options) == options
    assert paper_setting(released) == SETTINGS[setting]


def test_every_setting_is_reached():
    changed = [
        setting
        for setting in SETTINGS
        for ours in [final_experiment(setting, "ccl_sc")]
        if resolve(as_released(ours)) != ours
    ]
    assert changed == list(SETTINGS)


@pytest.mark.parametrize(
    ("name", "shape", "count", "num_features"),
    [
        ("resnet34:released", (3, 224, 224), 23_810_981, 25_088),
        ("vit:released", (3, 32, 32), 15_999_844, 256),
    ],
)
def test_the_released_networks_have_their_sizes(name, shape, count, num_features):
    num_outputs = 101 if "resnet" in name else 100
    with torch.device("meta"):
        model = models.build(name, num_outputs, shape)
    assert sum(parameter.numel() for parameter in model.parameters()) == count
    assert model.head.in_features == num_features
    if "resnet" in name:
        images = torch.zeros(1, *shape, device="meta")
        assert model(images).shape == (1, num_outputs)


def test_the_released_attention_has_neither_scale_nor_projection():
    torch.manual_seed(0)
    block = ReleasedBlock(8, 2, 8, dropout=0.0)
    tokens = torch.randn(2, 5, 8)
    queries, keys, values = (
        part.unflatten(2, (2, 4)).transpose(1, 2)
        for part in block.queries_keys_values(block.norm(tokens)).chunk(3, dim=2)
    )
    mixed = F.scaled_dot_product_attention(queries, keys, values, scale=1.0)
    expected = tokens + mixed.transpose(1, 2).flatten(2)
    torch.testing.assert_close(block(tokens), expected + block.perceptron(expected))


def test_the_backbone_joins_the_rate_of_the_head():
    settings = as_released(final_experiment("cifar100-vit_transfer", "ce")).optimization
    model = models.build("mlp", 2, (1, 4, 4))
    optimizer = make_optimizer(model, settings)
    rates = {}
    for epoch in (0, 19.9, 20, 35):
        set_rate(optimizer, epoch, settings)
        rates[epoch] = [group["lr"] for group in optimizer.param_groups]  # head, backbone
    assert rates[0] == rates[19.9] == pytest.approx([5e-4, 5e-5])
    assert rates[20] == pytest.approx([2.5e-4, 2.5e-4])
    assert rates[35] == pytest.approx([1.25e-4, 1.25e-4])


def test_ccl_sc_contrasts_logits_if_asked():
    task = Task(12, 3, 4)
    method = methods.build(
        "ccl_sc", task, start_epoch=0, queue_size=4, contrast_on="logits", temperature=0.5
    )
    model = models.build("mlp", 3, (1, 4, 4), width=8)
    method.start_epoch(0, model)
    torch.manual_seed(0)
    for _ in range(12):
        batch = Batch(torch.randn(12, 1, 4, 4), torch.randint(3, (12,)), torch.arange(12))
        loss, logits = method(model, batch)
        method.end_step(model)
    (queue,) = {part.features.shape[1] for part in method.modules() if isinstance(part, KeyQueue)}
    assert queue == 3
    assert loss > F.cross_entropy(logits, batch.labels)  # the term acts
    with pytest.raises(ValueError, match=r"contrast_on .*'pixels'"):
        methods.build("ccl_sc", task, contrast_on="pixels")


def test_food101_as_released(tmp_path):
    write(tmp_path, food101_files(num_classes=3, count=20))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = data.load("food101", tmp_path, image_size=64)
        released = data.load("food101", tmp_path, image_size=64, val_fraction=0.1, pad_small=True)
    assert (len(ours.train), len(ours.val)) == (32, 8)
    assert (len(released.train), len(released.val)) == (36, 4)
    order = torch.arange(len(ours.test))
    enlarged = next(ours.test.batches(4, order)).inputs
    padded = next(released.test.batches(4, order)).inputs
    black = padded[:, :, 0, 0]
    assert torch.equal(padded[:, :, 0], black[:, :, None].expand(-1, -1, 64))  # images are 30 high
    assert not torch.equal(enlarged, padded)
    assert torch.equal(black[0], black[1])


def test_flsd_times_gamma():
    logits, labels = (
        torch.randn(5, 4, generator=torch.Generator().manual_seed(1)),
        torch.tensor([0, 1, 2, 3, 0]),
    )
    method = methods.build("flsd", Task(5, 4), gamma=2.0, times_gamma=True)
    torch.testing.assert_close(
        method.validation_loss(logits, labels), 2 * flsd_loss(logits, labels, 2.0).mean()
    )
    plain = methods.build("flsd", Task(5, 4), gamma=2.0)
    torch.testing.assert_close(
        plain.validation_loss(logits, labels), flsd_loss(logits, labels, 2.0).mean()
    )


@pytest.mark.parametrize("scale", ["paper", "laptop"])
def test_a_plan_as_released_has_its_own_folder_and_runs(tmp_path, scale):
    usual = plan(["test", "beta"], scale=scale, settings=["cifar100-vgg16"], out=tmp_path)
    released = plan(
        ["test", "beta"], scale=scale, settings=["cifar100-vgg16"], as_released=True, out=tmp_path
    )
    assert released.folder == tmp_path / f"{scale}-as-released"
    assert AS_RELEASED_NOTE in released.scale.note
    assert AS_RELEASED_NOTE not in usual.scale.note
    changed = {run.method.name for run in released.runs} - {
        run.method.name for run in usual.runs if run in released.runs
    }
    assert changed == {
        "socrates",
        "socrates:beta-known",
        "socrates:beta-fixed",
        "socrates:no-beta",
        "flsd",
        "ccl_sc",
    }
    # the second penalty is unclamped in both of its columns
    assert len(released.runs) == len(usual.runs) - 5


def test_every_table_as_released_says_so(tmp_path):
    scale, recipe = LaptopScale(released=True), RECIPES["beta"]
    wanted = {"beta": recipe.wanted([], scale, (1,))}
    for runs in wanted["beta"]["cifar100-vgg16"].values():
        make_run(tmp_path / "runs", runs[0], num_test=40)
    written, missing = write_recipes({"beta": recipe}, wanted, scale, tmp_path / "runs", tmp_path)
    assert not missing
    for path in written["beta"]:
        assert "As released" in path.read_text(), path
        assert "Laptop scale" in path.read_text(), path


@pytest.mark.thorough
def test_the_command_says_so(run, tmp_path):
    code, text = run(
        "reproduce", "beta", "--as-released", "--dry-run", "--scale", "paper", "--out", tmp_path
    )
    assert code == 0, text
    assert "As released" in text


def test_printed_numbers_stand_beside_runs_as_released():
    assert PaperScale(released=True).compares
    for setting in SETTINGS:
        for name in ("socrates", "ccl_sc", "flsd"):
            ours = final_experiment(setting, name)
            assert paper_setting(ours) == paper_setting(as_released(ours)) == SETTINGS[setting]
    mixed = final_experiment("cifar10-vgg16", "socrates")
    mixed = dataclasses.replace(mixed, dataset=Part("cifar10", augment=False))
    assert paper_setting(mixed) is None  # neither the text nor the release
