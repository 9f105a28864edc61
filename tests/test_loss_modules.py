"""The contract of every loss module, and the per-sample memory of those with an adaptive target."""

from __future__ import annotations

import copy
import io
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset

import socrates
from socrates import (
    BrierLoss,
    FLSDLoss,
    FocalLoss,
    GamblersLoss,
    IndexedDataset,
    SATLoss,
    SocratesLoss,
)
from socrates.losses import (
    BetaPenaltyLoss,
    BSCEGRALoss,
    DualFocalLoss,
    KeyQueue,
    LogitNormLoss,
    MbLSLoss,
    MDCALoss,
    adaptive_target,
    brier_loss,
    focal_loss,
    sat_loss,
    socrates_loss,
)
from socrates.losses.adaptive import updated_target

# Batches here are drawn at random: their labels do not stay with their indices.
pytestmark = pytest.mark.filterwarnings("ignore:.* was called in training mode")

NUM_SAMPLES, NUM_CLASSES, BATCH = 20, 4, 8
REMEMBERING = {
    "socrates": lambda **k: SocratesLoss(NUM_SAMPLES, **k),
    "sat": lambda **k: SATLoss(NUM_SAMPLES, **k),
}
EVERY = {
    **REMEMBERING,
    "focal": FocalLoss,
    "flsd": FLSDLoss,
    "brier": BrierLoss,
    "gamblers": GamblersLoss,
    "mbls": lambda **k: MbLSLoss(margin=1.0, **k),
    "mdca": MDCALoss,
    "dual_focal": DualFocalLoss,
    "bsce_gra": BSCEGRALoss,
    "logit_norm": LogitNormLoss,
    "beta_penalty": BetaPenaltyLoss,
}
HAS_BATCH_TERM = {"mdca"}  # where a sample's loss depends on which others count


def a_batch(seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(BATCH, NUM_CLASSES + 1, generator=generator)
    labels = torch.randint(NUM_CLASSES, (BATCH,), generator=generator)
    return logits, labels, torch.randperm(NUM_SAMPLES, generator=generator)[:BATCH]


@pytest.mark.parametrize("name", EVERY)
def test_contract(name):
    model, criterion = nn.Linear(3, NUM_CLASSES + 1), EVERY[name]()
    inputs, (_, labels, index) = torch.randn(BATCH, 3), a_batch()
    loss = criterion(model(inputs), labels, index)
    loss.backward()
    assert loss.shape == ()
    assert torch.isfinite(loss)
    assert all(
        parameter.grad is not None and parameter.grad.abs().sum() > 0
        for parameter in model.parameters()
    )
    assert name not in REMEMBERING or len(criterion.state_dict()) == 2


@pytest.mark.parametrize("name", EVERY)
def test_reductions(name):
    logits, labels, index = a_batch()
    each = EVERY[name](reduction="none")(logits, labels, index)
    assert each.shape == (BATCH,)
    torch.testing.assert_close(EVERY[name](reduction="mean")(logits, labels, index), each.mean())
    torch.testing.assert_close(EVERY[name](reduction="sum")(logits, labels, index), each.sum())
    with pytest.raises(ValueError, match="got 'average'"):
        EVERY[name](reduction="average")


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_extreme_logits_of_any_precision_stay_finite(name, dtype):
    logits = torch.tensor(
        [[1e4, -1e4, 0, 0, 1e4], [-1e4, 1e4, 0, 0, 0], [0, 0, 0, 0, 1e4]], dtype=dtype
    )
    logits.requires_grad_()
    EVERY[name]()(logits, torch.tensor([0, 0, 0]), torch.arange(3)).backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("name", REMEMBERING)
def test_memory_follows_equation_3(name):
    criterion = REMEMBERING[name](alpha=0.8, **({"gamma": 2.0} if name == "socrates" else {}))
    expected = torch.ones(NUM_SAMPLES)
    for seed in range(3):
        logits, labels, index = a_batch(seed)
        loss = criterion(logits, labels, index)
        p = logits.softmax(1) if name == "socrates" else logits[:, :-1].softmax(1)
        expected[index] = adaptive_target(
            expected[index], p.gather(1, labels[:, None]).squeeze(1), 0.8
        )
        torch.testing.assert_close(criterion.target, expected)
        pure = (
            socrates_loss(logits, labels, expected[index], 2.0)
            if name == "socrates"
            else sat_loss(logits, labels, expected[index])
        )
        torch.testing.assert_close(loss, pure.mean())


@pytest.mark.parametrize("name", REMEMBERING)
def test_target_over_the_other_softmax(name):
    logits, labels, index = a_batch()
    all_columns, known = (
        REMEMBERING[name](alpha=0.5, target_over=over) for over in ("all", "known")
    )
    all_columns(logits, labels, index)
    known(logits, labels, index)
    true = labels[:, None]
    torch.testing.assert_close(
        all_columns.target[index], 0.5 + 0.5 * logits.softmax(1).gather(1, true).squeeze(1)
    )
    torch.testing.assert_close(
        known.target[index], 0.5 + 0.5 * logits[:, :-1].softmax(1).gather(1, true).squeeze(1)
    )


@pytest.mark.parametrize("over", ["all", "known"])
def test_the_unknown_class_has_no_target(over):
    with pytest.raises(ValueError, match=r"0\.\.1, .*2 to 2"):
        updated_target(torch.zeros(1, 3), torch.tensor([2]), torch.ones(1), 0.9, over)


@pytest.mark.parametrize("name", REMEMBERING)
def test_eval_neither_reads_nor_writes_state(name):
    criterion = REMEMBERING[name]()
    logits, labels, index = a_batch()
    criterion.target.fill_(0.3)
    criterion.eval()
    loss = criterion(logits, labels)
    assert (criterion.target == 0.3).all()
    torch.testing.assert_close(loss, criterion(logits, labels, index))
    torch.testing.assert_close(loss, REMEMBERING[name](alpha=1.0)(logits, labels, index))


@pytest.mark.parametrize("name", REMEMBERING)
def test_state_survives_saving_copying_pickling_and_moving(name):
    criterion = REMEMBERING[name]()
    logits, labels, index = a_batch()
    criterion(logits, labels, index)
    file = io.BytesIO()
    torch.save(criterion.state_dict(), file)
    file.seek(0)
    restored = REMEMBERING[name]()
    restored.load_state_dict(torch.load(file, weights_only=True))
    copies = [
        restored,
        copy.deepcopy(criterion),
        pickle.loads(pickle.dumps(criterion)),
        criterion.to("cpu"),
    ]
    following = a_batch(1)
    losses = [other(*following) for other in copies]
    for other, loss in zip(copies, losses, strict=True):
        assert torch.equal(other.target, criterion.target)
        assert torch.equal(loss, losses[0])
    assert list(criterion.state_dict()) == ["target", "made_with"]
    assert not list(criterion.parameters())


def test_moving_goes_through_to():
    assert SocratesLoss(5).to("meta").target.device.type == "meta"
    assert SocratesLoss(5).double().target.dtype == torch.float64


@pytest.mark.parametrize("cast", [nn.Module.half, nn.Module.bfloat16])
def test_a_cast_to_half_precision_leaves_the_memory_exact(cast):
    criterion = SocratesLoss(NUM_SAMPLES, alpha=0.999)
    logits, labels, index = a_batch()
    criterion(logits, labels, index)
    before = criterion.target.clone()
    cast(criterion)
    assert torch.equal(criterion.target, before)


def test_stateless_form_starts_each_target_from_one():
    logits, labels, _ = a_batch()
    criterion = SocratesLoss(None, gamma=2.0, alpha=0.9)
    expected = 0.9 + 0.1 * logits.softmax(1).gather(1, labels[:, None]).squeeze(1)
    for _ in range(2):
        torch.testing.assert_close(
            criterion(logits, labels), socrates_loss(logits, labels, expected, 2.0).mean()
        )
    assert not criterion.state_dict()
    assert criterion.target is None


@pytest.mark.parametrize("name", REMEMBERING)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_non_finite_logits_leave_their_target_alone(name, bad):
    criterion = REMEMBERING[name](alpha=0.5)
    logits, labels, index = a_batch()
    criterion(logits, labels, index)
    before = criterion.target.clone()
    for column in range(NUM_CLASSES + 1):
        poisoned = logits.clone()
        poisoned[2, column] = bad
        criterion.target.copy_(before)
        criterion(poisoned, labels, index)
        assert torch.isfinite(criterion.target).all()
        assert criterion.target[index[2]] == before[index[2]]
        assert (
            criterion.target[index[[0, 1, 3, 4, 5, 6, 7]]] != before[index[[0, 1, 3, 4, 5, 6, 7]]]
        ).all()


@pytest.mark.parametrize("name", REMEMBERING)
def test_duplicate_index_does_not_depend_on_the_order(name):
    logits, labels, _ = a_batch()
    index = torch.tensor([5, 5, 5, 1, 1, 2, 3, 4])
    results = []
    for order in (torch.arange(BATCH), torch.arange(BATCH).flip(0)):
        criterion = REMEMBERING[name](alpha=0.5)
        criterion(logits[order], labels[order], index[order])
        results.append(criterion.target)
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=0)
    single = REMEMBERING[name](alpha=0.5)
    single(logits, labels, torch.arange(BATCH))
    assert results[0][5] == single.target[:3].min()


@pytest.mark.parametrize("name", EVERY.keys() - HAS_BATCH_TERM)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_weights_and_ignored_samples_count_as_in_cross_entropy(name, reduction):
    logits, labels, index = a_batch()
    weight = torch.tensor([0.5, 2.0, 0.0, 1.0] + [3.0] * (not EVERY[name]().unknown))
    each = EVERY[name](reduction="none")(logits, labels, index)
    labels[[1, 4]] = -100
    counts = (labels != -100) * weight[labels.clamp(min=0)]
    expected = {
        "none": each * counts,
        "sum": (each * counts).sum(),
        "mean": (each * counts).sum() / counts.sum(),
    }
    logits.requires_grad_()
    criterion = EVERY[name](reduction=reduction, weight=weight)
    loss = criterion(logits, labels, index)
    torch.testing.assert_close(loss, expected[reduction])
    loss.sum().backward()
    assert (logits.grad[[1, 4]] == 0).all()
    assert list(criterion.state_dict()) == (["target", "made_with"] if name in REMEMBERING else [])
    torch.testing.assert_close(
        EVERY[name](reduction=reduction, weight=weight.double())(logits, labels, index), loss
    )
    labels[[1, 4]] = 2
    other = EVERY[name](reduction=reduction, ignore_index=2)(logits, labels, index)
    counts = (labels != 2).float()
    torch.testing.assert_close(
        other.sum(), (each * counts).sum() / (counts.sum() if reduction == "mean" else 1)
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weight", [None, torch.tensor([0.5, 2.0, 0.1, 1.0, 3.0])])
def test_focal_loss_without_its_focal_term_is_cross_entropy_with_every_option(
    reduction, smoothing, weight
):
    logits, labels, _ = a_batch()
    images = torch.randn(2, 5, 3, 4, generator=torch.Generator().manual_seed(1))
    pixels = torch.randint(5, (2, 3, 4), generator=torch.Generator().manual_seed(2))
    options = {"weight": weight, "label_smoothing": smoothing, "reduction": reduction}
    ours, theirs = FocalLoss(0.0, **options), nn.CrossEntropyLoss(**options)
    for ignored in (False, True):
        labels[2], pixels[0, 1] = (-100, -100) if ignored else (1, 1)
        torch.testing.assert_close(ours(logits, labels), theirs(logits, labels))
        torch.testing.assert_close(ours(images, pixels), theirs(images, pixels))


def test_smoothed_labels_of_focal_and_brier_loss():
    logits, labels, _ = a_batch()
    soft = torch.full_like(logits, 0.3 / 5).scatter_add_(
        1, labels[:, None], torch.full((BATCH, 1), 0.7)
    )
    torch.testing.assert_close(
        BrierLoss(label_smoothing=0.3, reduction="none")(logits, labels),
        (logits.softmax(1) - soft).square().sum(1),
    )
    every = torch.stack(
        [focal_loss(logits, torch.full_like(labels, k), 2.0) for k in range(5)], dim=1
    )
    torch.testing.assert_close(
        FocalLoss(label_smoothing=0.3, reduction="none")(logits, labels), (soft * every).sum(1)
    )
    torch.testing.assert_close(brier_loss(logits, labels), brier_loss(logits, labels, 0.0))
    assert (
        FocalLoss(label_smoothing=0.3, weight=torch.ones(5).double())(logits, labels).dtype
        == torch.float32
    )


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("rows", [0, BATCH])
def test_nothing_to_learn_from_is_a_loss_of_zero_with_a_gradient_of_zero(name, reduction, rows):
    logits, labels, index = (part[:rows] for part in a_batch())
    criterion = EVERY[name](reduction=reduction)
    logits.requires_grad_()
    loss = criterion(logits, torch.full_like(labels, -100), index)
    loss.backward()
    assert loss == 0
    assert (logits.grad == 0).all()
    assert logits.grad.shape == logits.shape
    assert name not in REMEMBERING or (criterion.target == 1).all()


@pytest.mark.parametrize("name", REMEMBERING)
def test_ignored_samples_leave_their_target_alone(name):
    criterion, plain = REMEMBERING[name](alpha=0.5), REMEMBERING[name](alpha=0.5)
    logits, labels, index = a_batch()
    plain(logits, labels, index)
    labels[3] = -100
    logits[3] = float("nan")
    assert torch.isfinite(criterion(logits, labels, index))
    assert criterion.target[index[3]] == 1
    kept = index[[0, 1, 2, 4, 5, 6, 7]]
    assert torch.equal(criterion.target[kept], plain.target[kept])


@pytest.mark.parametrize("name", EVERY)
def test_pixels_are_samples_of_their_own(name):
    make = {
        "socrates": lambda **k: SocratesLoss(None, **k),
        "sat": lambda **k: SATLoss(None, **k),
    }.get(name, EVERY[name])
    generator = torch.Generator().manual_seed(0)
    logits, labels = (
        torch.randn(2, 5, 3, 4, generator=generator),
        torch.randint(4, (2, 3, 4), generator=generator),
    )
    rows, flat = logits.permute(0, 2, 3, 1).reshape(-1, 5), labels.reshape(-1)
    torch.testing.assert_close(make()(logits, labels), make()(rows, flat))
    torch.testing.assert_close(make()(logits.flatten(2), labels.flatten(1)), make()(rows, flat))
    with pytest.raises(ValueError, match="got list"):
        make()(rows.tolist(), flat)
    each = make(reduction="none")(logits, labels)
    assert each.shape == labels.shape
    torch.testing.assert_close(each.reshape(-1), make(reduction="none")(rows, flat))
    with pytest.raises(ValueError, match=r"\(2, 3, 4\) .*got \(3, 4\)"):
        make()(logits, labels[0])
    with pytest.raises(ValueError, match=r"\(2, 3, 4\) .*soft labels"):
        make()(logits, logits.softmax(dim=1))
    if name in REMEMBERING:
        with pytest.raises(ValueError, match=r"\(24,\), got \(2,\) .*num_samples=None"):
            REMEMBERING[name]()(logits, labels, torch.tensor([0, 1]))


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": [1.0]}, "weight .*got list"),
        ({"weight": torch.ones(2, 2)}, r"known class, got \(2, 2\)"),
        (
            {"weight": torch.ones(4, dtype=torch.int64)},
            r"known class, got \(4,\), torch.int64",
        ),
        ({"ignore_index": 0.5}, "ignore_index .*got 0.5"),
        ({"label_smoothing": 1.5}, r"label_smoothing .*got 1.5"),
        ({"label_smoothing": "much"}, r"label_smoothing .*got 'much'"),
    ],
)
def test_bad_options(name, options, message):
    with pytest.raises(ValueError, match=message):
        EVERY[name](**options)
    with pytest.raises(TypeError, match="weigth"):
        EVERY[name](weigth=None)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_a_weight_is_no_negative_number(value):
    with pytest.raises(ValueError, match=rf"weight .*, *{value:g}"):
        FocalLoss(weight=torch.tensor([1.0, value]))
    FocalLoss(weight=torch.tensor([1.0, 0.0]))


@pytest.mark.parametrize(
    ("logits", "labels", "advice"),
    [
        (
            (2, 4, 5, 6),
            (2, 1, 5, 6),
            r"\(2, 5, 6\) .*labels.squeeze\(1\)",
        ),
        (
            (2, 7, 4),
            (2, 7),
            r"\(2, 4\) .*logits.movedim\(-1, 1\)",
        ),
        ((2, 4, 5, 6), (2, 6, 5), r"\(2, 5, 6\) .*got \(2, 6, 5\)$"),
    ],
)
def test_labels_of_pixels_in_another_shape(logits, labels, advice):
    with pytest.raises(ValueError, match=f"SocratesLoss .*{advice}"):
        SocratesLoss(None)(torch.zeros(logits), torch.zeros(labels, dtype=torch.int64))


def test_one_hot_pixels_are_recognized_by_their_classes():
    labels = torch.zeros(2, 4, 5, 6)
    labels[:, 1] = 1
    for given, advice in ((labels, "one-hot.*argmax"), (labels / 2, "soft labels")):
        with pytest.raises(ValueError, match=advice):
            SocratesLoss(None)(torch.zeros(2, 4, 5, 6), given)


def test_the_usual_mask_of_images_is_told_how_to_leave_out():
    logits, labels = torch.zeros(1, 3, 2, 1), torch.tensor([[[1], [255]]])
    for criterion in (SocratesLoss(None), FocalLoss()):
        with pytest.raises(ValueError, match=r"0\.\..*\b255: .*ignore_index=255"):
            criterion(logits, labels)
    assert SocratesLoss(None, ignore_index=255)(logits, labels).isfinite()


@pytest.mark.parametrize("name", ["socrates", "sat", "flsd", "gamblers"])
def test_label_smoothing_is_refused_in_words_where_it_has_no_meaning(name):
    with pytest.raises(ValueError, match=r"label_smoothing.*FocalLoss.*BrierLoss"):
        EVERY[name](label_smoothing=0.1)


def test_a_weight_for_each_known_class_and_none_for_the_unknown():
    logits, labels, index = a_batch()
    with pytest.raises(ValueError, match=r"5 weights .*\(8, 5\) .*unknown"):
        SocratesLoss(NUM_SAMPLES, weight=torch.ones(5))(logits, labels, index)
    with pytest.raises(ValueError, match=r"FocalLoss .*\b4 .*\(8, 5\) of classes$"):
        FocalLoss(weight=torch.ones(4))(logits, labels, index)
    labels[0] = 4
    with pytest.raises(ValueError, match=r"labels .*0\.\.3"):
        SocratesLoss(NUM_SAMPLES, weight=torch.ones(4))(logits, labels, index)


@pytest.mark.parametrize(
    ("criterion", "expected"),
    [
        (SocratesLoss(None), {"gamma": 1.0, "alpha": 0.99, "target_over": "all"}),
        (SATLoss(None), {"alpha": 0.9, "target_over": "known"}),
        (FocalLoss(), {"gamma": 2.0}),
        (FLSDLoss(), {"gamma": 3.0}),
        (GamblersLoss(), {"reward": 2.2}),
        (BrierLoss(), {}),
    ],
)
def test_defaults(criterion, expected):
    expected = {
        "weight": None,
        "ignore_index": -100,
        "label_smoothing": 0.0,
        "reduction": "mean",
        **expected,
    }
    assert {name: getattr(criterion, name) for name in expected} == expected


def test_numbers_of_numpy_are_numbers():
    criterion = SocratesLoss(
        numpy.int64(20),
        gamma=numpy.float32(2),
        alpha=numpy.float64(0.9),
        ignore_index=numpy.int8(1),
    )
    assert (
        repr(criterion)
        == "SocratesLoss(num_samples=20, ignore_index=1, alpha=0.9, target_over='all', gamma=2.0)"
    )
    assert criterion.ignore_index == 1
    assert repr(GamblersLoss(numpy.float32(2))) == "GamblersLoss(reward=2.0)"
    assert FocalLoss(numpy.int32(2), label_smoothing=numpy.float32(0.5)).label_smoothing == 0.5


@pytest.mark.parametrize("name", REMEMBERING)
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_recomputation_finds_the_target_that_the_first_pass_found(name, use_reentrant):
    torch.manual_seed(0)
    model, (inputs, labels, index) = nn.Linear(5, 5), a_batch()
    plain, checked = REMEMBERING[name](alpha=0.5), REMEMBERING[name](alpha=0.5)
    for _ in range(2):
        expected = torch.autograd.grad(plain(model(inputs), labels, index), model.weight)[0]
        model.zero_grad()
        leaf = inputs.clone().requires_grad_()
        loss = checkpoint(
            lambda x: checked(model(x), labels, index), leaf, use_reentrant=use_reentrant
        )
        loss.backward()
        torch.testing.assert_close(model.weight.grad, expected)
        assert torch.equal(checked.target, plain.target)


@pytest.mark.parametrize("name", REMEMBERING)
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_recomputation_that_cannot_find_its_target_is_refused(name, use_reentrant):
    torch.manual_seed(0)
    model, (inputs, labels, _), criterion = (
        nn.Linear(5, 5),
        a_batch(),
        REMEMBERING[name](alpha=0.99),
    )
    some = torch.arange(BATCH)
    some[0] = 1  # a sample that occurs twice in one call is no trouble

    def step(inputs, index):
        leaf = inputs.clone().requires_grad_()
        return checkpoint(
            lambda x: criterion(model(x), labels, index), leaf, use_reentrant=use_reentrant
        )

    (step(inputs, some) + step(inputs.flip(1), some + BATCH)).backward()
    with pytest.raises(RuntimeError, match=r"Loss .*backward\(\)"):
        (step(inputs, some) + step(inputs.flip(1), some)).backward()


@pytest.mark.parametrize("name", REMEMBERING)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_later_step_is_noticed_wherever_it_moved_the_target(name, sign):
    criterion = REMEMBERING[name](alpha=0.5)
    labels, index = torch.tensor([0]), torch.tensor([3])

    def step(score):
        logits = torch.tensor([[score, 0.0, 0.0, 0.0, 0.0]], requires_grad=True)
        return checkpoint(lambda z: criterion(z, labels, index), logits, use_reentrant=False)

    first = step(3.0 * sign)
    step(-3.0 * sign)
    with pytest.raises(RuntimeError, match=r"called again"):
        first.backward()


def test_the_loss_has_an_unknown_term():
    assert SocratesLoss(3).has_unknown_term
    assert SocratesLoss(3).has_beta


@pytest.mark.parametrize("name", REMEMBERING)
def test_function_transforms(name):
    (logits, labels, index), criterion = a_batch(), REMEMBERING[name](alpha=0.5)
    for module in (
        REMEMBERING[name]().eval(),
        type(criterion)(None, alpha=0.5, weight=torch.arange(1.0, 5.0)),
    ):
        leaf = logits.clone().requires_grad_()
        expected = torch.autograd.grad(module(leaf, labels, index), leaf)[0]
        torch.testing.assert_close(torch.func.grad(module)(logits, labels, index), expected)
        each = torch.func.vmap(lambda z, y, criterion=module: criterion(z[None], y[None]))(
            logits, labels
        )
        torch.testing.assert_close(each[0], module(logits[:1], labels[:1]))
    with pytest.raises(RuntimeError, match=r"torch\.func"):
        torch.func.grad(criterion)(logits, labels, index)
    assert (criterion.target == 1).all()
    memory = {key: value.clone() for key, value in criterion.memory().items()}
    torch.func.grad(
        lambda z, memory: torch.func.functional_call(criterion, memory, (z, labels, index))
    )(logits, memory)
    criterion(logits, labels, index)
    torch.testing.assert_close(memory["target"], criterion.target)


def test_the_loss_says_what_it_found_without_another_softmax():
    logits, labels, index = a_batch()
    criterion = SocratesLoss(NUM_SAMPLES, gamma=2.0, alpha=0.5)
    loss, target, beta = criterion.step(logits.requires_grad_(), labels, index)
    assert torch.equal(target, criterion.target[index])
    torch.testing.assert_close(
        beta, socrates.losses.uncertainty_penalty(logits.detach().softmax(1), labels)
    )
    torch.testing.assert_close(loss, socrates_loss(logits, labels, target, 2.0).mean())
    assert not target.requires_grad
    assert not beta.requires_grad
    assert (SocratesLoss.has_beta, SATLoss.has_beta) == (True, False)
    assert SATLoss(NUM_SAMPLES).step(logits, labels, index).beta is None
    stream = SocratesLoss(None, alpha=0.5).eval().step(logits, labels)
    assert (stream.target == 1).all()


def test_samples_that_no_step_has_seen():
    criterion = SocratesLoss(NUM_SAMPLES, alpha=1.0)
    assert criterion.unvisited().tolist() == list(range(NUM_SAMPLES))
    logits, labels, index = a_batch()
    criterion(logits, labels, index)
    assert criterion.unvisited().tolist() == sorted(set(range(NUM_SAMPLES)) - set(index.tolist()))
    criterion.eval()(logits, labels, index.flip(0))
    assert len(criterion.unvisited()) == NUM_SAMPLES - BATCH
    assert SocratesLoss(None).unvisited().tolist() == []
    criterion.load_state_dict({"target": torch.zeros(NUM_SAMPLES)})
    assert len(criterion.unvisited()) == NUM_SAMPLES
    criterion.train()(logits, labels, index)
    assert len(criterion.unvisited()) == NUM_SAMPLES - BATCH  # a target of 0 was seen, too


def test_a_half_target_that_is_assigned_is_widened():
    criterion = SocratesLoss(NUM_SAMPLES)
    criterion.load_state_dict({"target": torch.full((NUM_SAMPLES,), 0.5).half()}, assign=True)
    assert criterion.target.dtype == torch.float32
    criterion(*a_batch())
    assert (criterion.target == 0.5).sum() == NUM_SAMPLES - BATCH
    criterion.load_state_dict({"target": torch.ones(NUM_SAMPLES).double()}, assign=True)
    assert criterion.target.dtype == torch.float64
    SocratesLoss(None).load_state_dict({}, assign=True)


def test_memory_made_in_inference_mode_can_be_written():
    with torch.inference_mode():
        criterion, queue = SocratesLoss(NUM_SAMPLES), KeyQueue(2, 2)
    logits, labels, index = a_batch()
    criterion(logits.requires_grad_(), labels, index).backward()
    queue.enqueue(torch.eye(2), torch.tensor([0, 1]))
    assert queue.full


def test_module_compiles_as_one_graph_and_updates_its_memory():
    torch.compiler.reset()
    plain, module = SocratesLoss(NUM_SAMPLES), SocratesLoss(NUM_SAMPLES)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for seed in range(3):
        batch = a_batch(seed)
        torch.testing.assert_close(compiled(*batch), plain(*batch))
    torch.testing.assert_close(module.target, plain.target)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SocratesLoss(10, gamma=-1.0), "gamma .*got -1.0"),
        (lambda: SocratesLoss(10, alpha=0.0), r"alpha .*got 0.0"),
        (lambda: SocratesLoss(10, alpha=1.01), r"alpha .*got 1.01"),
        (lambda: SATLoss(10, alpha=float("nan")), r"alpha .*got nan"),
        (lambda: SocratesLoss(0), "training set.*got 0"),
        (lambda: SocratesLoss(2.5), "training set.*got 2.5"),  # pyright: ignore
        (
            lambda: SocratesLoss(10, alpha="high"),
            r"alpha must be in \(0, " r"1\], " r"got " r"'high'",
        ),  # pyright: ignore
        (lambda: SocratesLoss(10, target_over="some"), "'all' or 'known', got 'some'"),  # pyright: ignore
        (lambda: FocalLoss(-1.0), "gamma must be"),
        (lambda: FLSDLoss(-1.0), "gamma must be"),
        (lambda: GamblersLoss(0.5), "reward must be"),
        (lambda: GamblersLoss(float("inf")), "reward must be"),
        (lambda: GamblersLoss("high"), "reward must be"),  # pyright: ignore
        (lambda: SocratesLoss(True), "training set.*got True"),
    ],
)
def test_bad_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_settings_at_their_limits_are_good():
    assert SocratesLoss(1, gamma=0, alpha=1).alpha == 1
    assert FocalLoss(0).gamma == 0
    assert GamblersLoss(1).reward == 1


@pytest.mark.parametrize("name", REMEMBERING)
@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (None, ValueError, "IndexedDataset"),
        (torch.tensor([0, 1]), ValueError, r"labels' shape \(8,\), got \(2,\)"),
        (torch.zeros(8), ValueError, "integers.*torch.float32"),
        ([0] * 8, ValueError, "index .*got list"),
        (
            torch.full((8,), NUM_SAMPLES),
            IndexError,
            r"0\.\.19 for num_samples=20, .*20 to 20",
        ),
        (torch.full((8,), -1), IndexError, "-1 to -1"),
    ],
)
def test_bad_index(name, index, error, message):
    logits, labels, _ = a_batch()
    criterion = REMEMBERING[name]()
    with pytest.raises(error, match=message):
        criterion(logits, labels, index)
    assert (criterion.target == 1).all()


@pytest.mark.parametrize("name", EVERY)
def test_bad_labels_leave_the_memory_alone(name):
    logits, labels, index = a_batch()
    criterion = EVERY[name]()
    for wrong in (NUM_CLASSES + 1, NUM_CLASSES + (not criterion.unknown)):
        labels[3] = wrong
        with pytest.raises(ValueError, match=rf"0\.\..*\b{wrong}: .*\b5\b"):
            criterion(logits, labels, index)
    with pytest.raises(ValueError, match="8 integer labels"):
        criterion(logits, labels[:4], index)
    with pytest.raises(ValueError, match=r"logits .*\(8, 5\) .*int64"):
        criterion(logits.long(), labels, index)
    assert name not in REMEMBERING or (criterion.target == 1).all()


def test_memory_on_another_device_says_what_to_do():
    logits, labels, index = a_batch()
    with pytest.raises(ValueError, match=r"\bmeta, .*\bcpu:"):
        SocratesLoss(NUM_SAMPLES).to("meta")(logits, labels, index)


def test_indexed_dataset_in_a_loader():
    data = TensorDataset(torch.arange(10.0)[:, None], torch.arange(10) % 3)
    dataset = IndexedDataset(Subset(data, [9, 8, 7, 6]))
    inputs, labels, index = next(iter(DataLoader(dataset, batch_size=4)))
    assert index.tolist() == [0, 1, 2, 3]
    assert inputs.squeeze(1).tolist() == [9, 8, 7, 6]
    assert labels.tolist() == [0, 2, 1, 0]
    assert [dataset[position][2] for position in (-1, -4)] == [3, 0]
    for position in (4, -5):
        with pytest.raises(IndexError, match="4 samples"):
            dataset[position]
    for stream in (iter([1, 2]), {1, 2}):
        with pytest.raises(ValueError, match="map-style"):
            IndexedDataset(stream)
    with pytest.raises(ValueError, match="got float"):
        IndexedDataset([1.0])[0]


def test_indexed_datasets_are_wrapped_as_a_whole():
    first, second = (TensorDataset(torch.full((n, 1), float(n)), torch.arange(n)) for n in (3, 2))
    for whole in (
        IndexedDataset(ConcatDataset([first, second])),
        IndexedDataset(first) + second,
        IndexedDataset(first) + IndexedDataset(second),
    ):
        assert [index for *_, index in DataLoader(whole, batch_size=None)] == [0, 1, 2, 3, 4]


def test_indexed_datasets_that_share_targets_are_seen_after_an_epoch():
    parts = [TensorDataset(torch.zeros(n, 3), torch.zeros(n, dtype=torch.int64)) for n in (3, 2)]
    wrong = ConcatDataset([IndexedDataset(part) for part in parts])
    criterion = SocratesLoss(num_samples=len(wrong))
    for logits, labels, index in DataLoader(wrong, batch_size=2):
        criterion(logits, labels, index)
    assert criterion.unvisited().tolist() == [3, 4]


WITHOUT_PRIVATE_NAMES = """
import torch

class Missing:
    def __init__(self, inner, names, nested):
        self.inner, self.names, self.nested = inner, names, nested

    def __getattr__(self, name):
        if name in self.names:
            raise AttributeError(name)
        return self.nested[name] if name in self.nested else getattr(self.inner, name)

c = torch._C
autograd = Missing(c._autograd, {"_get_current_graph_task_keep_graph"}, {})
functorch = Missing(c._functorch, {"is_functorch_wrapped_tensor", "is_legacy_batchedtensor"}, {})
private = {"_are_functorch_transforms_active", "_current_graph_task_id"}
torch._C = Missing(c, private, {"_autograd": autograd, "_functorch": functorch})

from socrates.losses import torch_internals
torch._C = c  # torch itself needs what we must not rely on
missing = [name for name, value in vars(torch_internals).items() if value is None]
assert len(missing) == 5, missing
import json, socrates, socrates.losses as losses
torch.manual_seed(0)
logits = torch.randn(6, 4)
labels, index = torch.tensor([0, 1, 2, 0, 1, 2]), torch.arange(6)
values = {}
criteria = dict(socrates=socrates.SocratesLoss(6), stream=socrates.SocratesLoss(None),
    sat=socrates.SATLoss(6), focal=socrates.FocalLoss(), flsd=socrates.FLSDLoss(),
    brier=socrates.BrierLoss(), gamblers=socrates.GamblersLoss())
for name, criterion in criteria.items():
    z = logits.clone().requires_grad_()
    loss = criterion(z, labels, index)
    loss.backward()
    values[name] = [float(loss), float(z.grad.norm())]
values["function"] = float(losses.socrates_loss(logits, labels, torch.ones(6), 1.0).sum())
values["dece"] = float(losses.dece(logits, labels))
print(json.dumps(values))
"""


@pytest.mark.slow
def test_every_loss_works_without_private_names_of_torch():
    plain = subprocess.run(
        [sys.executable, "-c", WITHOUT_PRIVATE_NAMES], capture_output=True, text=True, check=True
    )
    usual = WITHOUT_PRIVATE_NAMES.replace("torch._C = Missing", "unused = Missing").replace(
        "assert len(missing) == 5", "assert not missing"
    )
    fused = subprocess.run(
        [sys.executable, "-c", usual], capture_output=True, text=True, check=True
    )
    expected = json.loads(fused.stdout)
    for name, value in json.loads(plain.stdout).items():
        assert value == pytest.approx(expected[name], rel=1e-5), name


class Named(TensorDataset):
    classes = ("cat", "dog")

    def __getitems__(self, indices):
        return [("together", index) for index in indices]


def test_an_indexed_dataset_has_the_attributes_of_what_it_wraps():
    dataset = IndexedDataset(Named(torch.zeros(2, 1), torch.tensor([0, 1])))
    for one in (
        dataset,
        copy.deepcopy(dataset),
        copy.copy(dataset),
        pickle.loads(pickle.dumps(dataset)),
    ):
        assert one.classes == ("cat", "dog")
        assert len(one.tensors) == 2
        assert one.__getitems__([1, -1]) == [("together", 1, 1), ("together", -1, 1)]
    with pytest.raises(AttributeError, match="targets"):
        dataset.targets  # noqa: B018
    with pytest.raises(AttributeError, match="dataset"):
        IndexedDataset.__new__(IndexedDataset).classes  # noqa: B018
    assert [
        item[2] for item in IndexedDataset(list(zip("ab", "cd", strict=True))).__getitems__([1, 0])
    ] == [1, 0]


def test_training_lowers_the_loss_and_moves_the_targets():
    torch.manual_seed(0)
    inputs = torch.randn(60, 5)
    labels = (inputs[:, 0] > 0).long() + (inputs[:, 1] > 1).long()
    model, criterion = nn.Linear(5, 4), socrates.SocratesLoss(60, gamma=1.0, alpha=0.9)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(60):
        loss = criterion(model(inputs), labels, torch.arange(60))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert ((model(inputs)[:, :-1].argmax(1) == labels).float().mean()) > 0.8
    assert 0 < criterion.target.min() < criterion.target.max() < 1


def test_overflowing_logits_raise_no_numpy_warning():
    criterion = SocratesLoss(4)
    logits = torch.tensor([[3e38, 3e38, 0.0], [float("inf"), -float("inf"), 0.0]])
    criterion(logits, torch.tensor([0, 1]), torch.tensor([0, 1]))
    assert (criterion.target == 1).all()


def test_the_loss_works_copied_elsewhere(tmp_path):
    """The files that the docstring of socrates.py names, as a package of another name."""
    package = tmp_path / "my_loss"
    package.mkdir()
    losses = Path(socrates.losses.__file__).parent
    named = re.findall(r"\w+\.py", (losses / "socrates.py").read_text().split("runs.")[0])
    assert len(named) == 6
    for name in ("socrates.py", *named):
        (package / name).write_text((losses / name).read_text())
    code = (
        "import torch, sys; from my_loss.socrates import SocratesLoss; "
        "print(float(SocratesLoss(None)(torch.zeros(2, 3), torch.tensor([0, 1]))) > 0, "
        "'socrates' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["True", "False"]
