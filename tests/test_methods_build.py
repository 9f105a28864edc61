"""Methods by name: choices, options, methods from outside, two phases."""

from __future__ import annotations

import inspect
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from socrates import losses, methods, models
from socrates.contracts import Batch, Method, Task
from socrates.methods.adaptive import EpochMeans

TASK = Task(num_samples=6, num_classes=3)


def own_method(task, *, scale, power=1):
    """A method from outside."""
    method = methods.build("ce", task)
    method.scale = scale**power
    return method


def not_a_method(task):
    return "cross-entropy"


def a_model(num_outputs):
    return torch.nn.Linear(4, num_outputs)


NOT_CALLABLE = 3


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "socratse",
            {},
            "did you mean 'socrates'.*brier.*module:attribute",
        ),
        ("socrates:nobeta", {}, "did you mean 'socrates:no-beta'"),
        ("???", {}, r"no method '\?\?\?': choose from ce, "),
        ("ce", {"gamma": 1.0}, "'ce' .*'gamma', .*none"),
        (
            "socrates",
            {"gama": 1.0},
            "'gama', .*gamma=1.0, alpha=0.99, start_epoch=0",
        ),
        ("socrates", {"alpha": 1.5}, r"alpha .*got 1.5"),
        ("socrates", {"target_over": "some"}, "target_over .*got 'some'"),
        ("socrates", {"start_epoch": -1}, "epoch counted from 0, got -1"),
        ("socrates:beta-fixed", {"when": "never"}, "when='true' or 'unknown'"),
        ("focal", {"gamma": -1.0}, "gamma .*got -1.0"),
        ("flsd", {"gamma": -1.0}, "gamma .*got -1.0"),
        ("gamblers", {"reward": 0.5}, "reward must be at least 1"),
        ("ce_dece", {"weight": -1.0}, "weight .*got -1.0"),
        ("label_smoothing", {"smoothing": 2.0}, "smoothing .*got 2.0"),
        ("mbls", {"margin": -1.0}, "margin .*got -1.0"),
        ("mdca", {"weight": -1.0}, "weight .*got -1.0"),
        ("dual_focal", {"gamma": -1.0}, "gamma .*got -1.0"),
        ("bsce_gra", {"norm": 0.0}, "norm .*got 0.0"),
        ("logit_norm", {"temperature": 0.0}, "temperature .*above 0, got 0.0"),
        ("crl", {"weight": -1.0}, "weight .*got -1.0"),
        ("regmixup", {"mixup_alpha": 0.0}, "mixup_alpha .*above 0, got 0.0"),
        ("beta_penalty", {"weight": "much"}, "weight .*got 'much'"),
        ("mc", {"meta_rate": 0.0}, "rates above 0.*meta_rate=0.0"),
        ("mc", {"virtual_rate": 0.0}, "rates above 0.*virtual_rate=0.0"),
        ("mc", {"virtual_rate": "fast"}, "rates above 0.*virtual_rate=fast"),
        ("ccl_sc", {"momentum": 2.0}, r"momentum in \[0, 1\].*momentum=2.0"),
        ("no_such_module:thing", {}, "'no_such_module:thing' .*PYTHONPATH"),
        (f"{__name__}:nothing", {}, "cannot be imported .*nothing"),
        (f"{__name__}:NOT_CALLABLE", {}, "function, got int"),
        (f"{__name__}:not_a_method", {}, "socrates.contracts.Method, got str"),
        (f"{__name__}:own_method", {"size": 1}, "'size', .*scale, power=1"),
        (
            f"{__name__}:own_method",
            {},
            r"missing .*'scale'",
        ),
        (
            f"{__name__}:a_model",
            {},
            "'test_methods_build:a_model' is a model",
        ),
        ("socrates.models.mlp:MLP", {}, "'socrates.models.mlp:MLP' is a model"),
        ("torch.nn:Linear", {}, "'torch.nn:Linear' is a model"),
        ("nowhere.py:Mine", {}, r"cannot be imported \(FileNotFoundError"),
    ],
)
def test_wrong_names_and_options_are_named(name, options, message):
    with pytest.raises(ValueError, match=message):
        methods.build(name, TASK, **options)


def test_options_by_name():
    assert methods.options("focal") == {"gamma": 2.0}
    assert methods.options(f"{__name__}:own_method") == {"scale": None, "power": 1}
    with pytest.raises(ValueError, match=r"'focall'.*'focal'"):
        methods.options("focall")


def test_a_method_from_a_file_is_one_class_however_often_it_is_found(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "from socrates.methods.logits_only import CrossEntropy\nclass Mine(CrossEntropy): ..."
    )
    (tmp_path / "broken.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    method = methods.build("mine.py:Mine", TASK)
    assert type(methods.build(f"{tmp_path / 'mine.py'}:Mine", TASK)) is type(method)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"'broken.py:Mine' .*ZeroDivisionError"):
            methods.build("broken.py:Mine", TASK)


@pytest.mark.parametrize("name", ["ccl_sc", "mc"])
def test_methods_that_need_features_say_so(name):
    method = methods.build(name, TASK)
    methods.check_model(name, method, models.build("mlp", 3, (1, 2, 2)))
    half = torch.nn.Sequential()
    half.head = torch.nn.Linear(4, 3)
    for model, lacking in (
        (torch.nn.Linear(4, 3), "Linear .*neither"),
        (half, "Sequential .*features"),
    ):
        with pytest.raises(ValueError, match=f"^{name} .*, {lacking}"):
            methods.check_model(name, method, model)
        methods.check_model("ce", methods.build("ce", TASK), model)


def test_a_method_from_outside():
    assert methods.build(f"{__name__}:own_method", TASK, scale=3, power=2).scale == 9


@pytest.mark.parametrize("name", list(methods.METHODS))
def test_each_is_documented_and_lists_its_options(name):
    make = methods.METHODS[name]
    assert make.__doc__
    task, *options = inspect.signature(make).parameters.values()
    assert task.name == "task"
    assert all(
        option.default is not option.empty and option.kind is option.KEYWORD_ONLY
        for option in options
    )
    defaults = {option.name: option.default for option in options}
    assert isinstance(methods.build(name, TASK, **defaults), Method)


def run(method, epoch, num_outputs=4):
    """A batch of the method's loss and the model's logits."""
    torch.manual_seed(0)
    model = models.build("mlp", num_outputs, (1, 2, 2), width=4)
    batch = Batch(torch.randn(6, 1, 2, 2), torch.tensor([0, 1, 2, 0, 1, 2]), torch.arange(6))
    method.start_epoch(epoch, model)
    return *method(model, batch), batch.labels


@pytest.mark.parametrize(
    ("name", "options", "function"),
    [
        ("ce", {}, F.cross_entropy),
        ("brier", {}, losses.brier_loss),
        ("focal", {"gamma": 1.5}, lambda logits, labels: losses.focal_loss(logits, labels, 1.5)),
        ("flsd", {"gamma": 1.5}, lambda logits, labels: losses.flsd_loss(logits, labels, 1.5)),
        (
            "gamblers",
            {"reward": 1.5},
            lambda logits, labels: losses.gamblers_loss(logits, labels, 1.5),
        ),
        ("ce_dece", {"weight": 3.0}, lambda z, y: F.cross_entropy(z, y) + 3.0 * losses.dece(z, y)),
        (
            "label_smoothing",
            {"smoothing": 0.3},
            partial(losses.label_smoothing_loss, smoothing=0.3),
        ),
        ("mbls", {"margin": 1.0, "weight": 2.0}, partial(losses.mbls_loss, margin=1.0, weight=2.0)),
        ("mdca", {"gamma": 3.0, "weight": 2.0}, partial(losses.mdca_loss, gamma=3.0, weight=2.0)),
        ("dual_focal", {"gamma": 3.0}, partial(losses.dual_focal_loss, gamma=3.0)),
        (
            "bsce_gra",
            {"gamma": 3.0, "norm": 2.0},
            partial(losses.bsce_gra_loss, gamma=3.0, norm=2.0),
        ),
        ("logit_norm", {"temperature": 0.5}, partial(losses.logit_norm_loss, temperature=0.5)),
        (
            "beta_penalty",
            {"gamma": 1.0, "weight": 2.0},
            partial(losses.beta_penalty_loss, gamma=1.0, weight=2.0),
        ),
    ],
)
def test_methods_without_state_train_on_the_mean_of_their_loss(name, options, function):
    method = methods.build(name, TASK, **options)
    generator = torch.Generator().manual_seed(0)
    logits, labels = 2 * torch.randn(20, 3, generator=generator), torch.arange(20) % 2
    expected = function(logits, labels).mean()
    torch.testing.assert_close(method.validation_loss(logits, labels), expected)
    loss, logits, labels = run(method, 0, num_outputs=3 + method.unknown_class)
    torch.testing.assert_close(loss, function(logits, labels).mean())


@pytest.mark.parametrize("name", ["sat", "gamblers"])
def test_before_the_start_epoch_the_known_classes_have_cross_entropy(name):
    method = methods.build(name, TASK, start_epoch=2)
    for epoch in (0, 1):
        loss, logits, labels = run(method, epoch)
        assert torch.equal(loss, F.cross_entropy(logits[:, :-1], labels))
        assert torch.equal(method.validation_loss(logits, labels), loss)
    loss, logits, labels = run(method, 2)
    at_once, _, _ = run(methods.build(name, TASK), 2)
    assert torch.equal(loss, at_once)
    assert not torch.equal(loss, F.cross_entropy(logits[:, :-1], labels))


@pytest.mark.parametrize("name", ["socrates", "socrates:full"])
def test_before_the_start_epoch_targets_are_one_and_stay(name):
    method = methods.build(name, TASK, start_epoch=1, gamma=2.0, alpha=0.5)
    loss, logits, labels = run(method, 0)
    torch.testing.assert_close(
        loss, methods.build("focal", TASK, gamma=2.0).validation_loss(logits, labels)
    )
    assert method.diagnostics()["target"] == 1
    assert torch.equal(method.then.criterion.target, torch.ones(6))
    run(method, 1)
    assert (method.then.criterion.target < 1).all()


def test_phases_must_agree_on_the_model():
    with pytest.raises(ValueError, match=r"CrossEntropy .*False .*Gamblers .*True"):
        methods.TwoPhase(methods.build("ce", TASK), methods.build("gamblers", TASK), 3)


def test_two_phase_hands_everything_on():
    method = methods.TwoPhase(methods.build("ce", TASK), methods.build("mc", TASK), 3)
    assert method.meta_share == 0.1
    assert not method.unknown_class
    assert set(method.state_dict()) == {
        f"then.{key}" for key in methods.build("mc", TASK).state_dict()
    }


def test_epoch_means_start_anew():
    means = EpochMeans("a", "b")
    assert means.read() == {}
    means.add(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 1.0]))
    means.add(torch.tensor([6.0]), torch.tensor([2.0]))
    assert {key: float(value) for key, value in means.read().items()} == {"a": 3.0, "b": 1.0}
    assert means.state_dict() == {}
    means.reset()
    assert means.read() == {}
