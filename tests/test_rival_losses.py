"""The rivals' losses: values of the original codes, gradients, precisions, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from socrates import losses
from socrates.losses.mixing import draw_mixture

FUNCTIONS = {
    "label_smoothing": losses.label_smoothing_loss,
    "mbls": losses.mbls_loss,
    "mdca": losses.mdca_loss,
    "dual_focal": losses.dual_focal_loss,
    "bsce_gra": losses.bsce_gra_loss,
    "logit_norm": losses.logit_norm_loss,
    "beta_penalty": losses.beta_penalty_loss,
}
SINGLE = {"mdca"}  # whose original takes the shares of labels in single precision


def some_logits(dtype=torch.float64, scale=3.0):
    generator = torch.Generator().manual_seed(3)
    logits = scale * torch.randn(9, 5, generator=generator, dtype=torch.float64)
    return logits.to(dtype).requires_grad_(), torch.arange(9) % 4


def close(actual, expected, tolerance=1e-12):
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(actual.detach(), expected, rtol=tolerance, atol=tolerance)


def test_values_and_gradients_of_the_original_codes(golden):
    data = golden("rivals")
    labels = torch.tensor(data["labels"])
    for case in data["cases"]:
        logits = torch.tensor(data["logits"], dtype=torch.float64, requires_grad=True)
        loss = FUNCTIONS[case["method"]](logits, labels, **case["options"])
        assert loss.shape == (len(labels),)
        loss.mean().backward()
        tolerance = 1e-7 if case["method"] in SINGLE else 1e-12
        close(loss.mean(), case["loss"], tolerance)
        close(logits.grad, case["grad"], tolerance)
    assert {case["method"] for case in data["cases"]} == FUNCTIONS.keys() - {"beta_penalty"}


def test_crl_and_its_history_are_those_of_the_original_code(golden):
    data = golden("crl")
    history = losses.CorrectnessHistory(data["num_samples"])
    for step in data["steps"]:
        logits = torch.tensor(step["logits"], dtype=torch.float64, requires_grad=True)
        labels = torch.tensor(step["labels"])
        index = torch.tensor(step["index"])
        history.start_epoch(step["epoch"])
        loss = losses.crl_loss(logits, labels, history.read(index).double(), data["weight"])
        loss.mean().backward()
        history.add(index, logits.argmax(dim=1) == labels)
        close(loss.mean(), step["loss"], 1e-7)
        close(logits.grad, step["grad"], 1e-7)
        assert history.count.tolist() == step["count"]


def test_regmixup_is_that_of_the_original_code(golden):
    for case in golden("regmixup")["cases"]:
        inputs = torch.tensor(case["inputs"], dtype=torch.float64)
        weights = torch.tensor(case["weights"], dtype=torch.float64, requires_grad=True)
        partners = torch.tensor(case["partners"])
        mixtures = losses.mixed_up(inputs, partners, case["share"])
        close(mixtures, case["mixtures"])
        labels = torch.tensor(case["labels"])
        both = inputs @ weights, mixtures @ weights
        loss = losses.regmixup_loss(*both, labels, partners, case["share"])
        loss.mean().backward()
        close(loss.mean(), case["loss"])
        close(weights.grad, case["grad"])


@pytest.mark.parametrize(("gamma", "weight"), [(0.0, 1.0), (2.0, 0.5)])
def test_beta_penalty_is_a_twin_in_numpy(gamma, weight):
    """There is no original: the question is open."""
    logits, labels = some_logits()
    z = logits.detach().numpy()
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    expected = []
    for row, label in zip(p, labels.tolist(), strict=True):
        wrong = max(value for place, value in enumerate(row) if place != label)
        focal = -((1 - row[label]) ** gamma) * np.log(row[label])
        expected.append(focal + weight * (wrong - row[-1]))
    close(losses.beta_penalty_loss(logits, labels, gamma, weight), expected)


def test_beta_penalty_moves_probability_from_the_best_wrong_class_to_unknown():
    logits = torch.tensor([[0.5, 0.3, 0.1, 0.1]]).log().requires_grad_()
    label = torch.tensor([0])
    with_beta, without = (
        torch.autograd.grad(losses.beta_penalty_loss(logits, label, 0.0, weight).sum(), logits)[0]
        for weight in (1.0, 0.0)
    )
    pull = with_beta - without
    assert pull[0, 1] > 0  # descent lowers it
    assert pull[0, 3] < 0


@pytest.mark.parametrize("name", FUNCTIONS.keys() - {"bsce_gra"})
def test_gradients_by_finite_differences(name):
    logits, labels = some_logits()
    options = {"temperature": 1.0} if name == "logit_norm" else {}
    if name == "mbls":
        options = {"margin": 1.0}
    assert torch.autograd.gradcheck(lambda z: FUNCTIONS[name](z, labels, **options), logits)


def test_more_gradients_by_finite_differences():
    logits, labels = some_logits()
    correctness = torch.tensor([0.1, 0.5, 0.5, 0.9, 0.0, 1.0, 0.3, 0.2, 0.7]).double()
    assert torch.autograd.gradcheck(lambda z: losses.crl_loss(z, labels, correctness), logits)
    partners = torch.arange(9).flip(0)
    mixed = some_logits(scale=1.0)[0]
    assert torch.autograd.gradcheck(
        lambda z, m: losses.regmixup_loss(z, m, labels, partners, 0.3, 0.7), (logits, mixed)
    )


@pytest.mark.parametrize("norm", [1.0, 2.0, 3.0])
def test_the_factor_of_bsce_gra_has_no_gradient(norm):
    logits, labels = some_logits()
    each = F.cross_entropy(logits, labels, reduction="none")
    plain = torch.autograd.grad(each.sum(), logits)[0]
    error = F.one_hot(labels, 5) - logits.detach().softmax(dim=1)
    factor = (error.abs() ** norm).sum(dim=1) ** (1.7 / norm)
    loss = losses.bsce_gra_loss(logits, labels, gamma=1.7, norm=norm)
    close(loss, factor * each.detach())
    close(torch.autograd.grad(loss.sum(), logits)[0], factor[:, None] * plain)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("label_smoothing", {"smoothing": 0.0}),
        ("mbls", {"weight": 0.0}),
        ("mbls", {"margin": 1e6}),
        ("mdca", {"gamma": 0.0, "weight": 0.0}),
        ("dual_focal", {"gamma": 0.0}),
        ("bsce_gra", {"gamma": 0.0}),
        ("beta_penalty", {"weight": 0.0}),
    ],
)
def test_what_is_cross_entropy(name, options):
    logits, labels = some_logits()
    close(
        FUNCTIONS[name](logits, labels, **options),
        F.cross_entropy(logits, labels, reduction="none"),
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_half_precision_is_computed_in_single(name, dtype):
    logits, labels = some_logits(dtype)
    loss = FUNCTIONS[name](logits, labels)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, FUNCTIONS[name](logits.detach().float(), labels))
    loss.sum().backward()
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_of_crl_and_regmixup(dtype):
    logits, labels = some_logits(dtype)
    single = logits.detach().float()
    correctness = torch.linspace(0, 1, 9)
    torch.testing.assert_close(
        losses.crl_loss(logits, labels, correctness), losses.crl_loss(single, labels, correctness)
    )
    rest = labels, torch.arange(9).roll(1), 0.4
    torch.testing.assert_close(
        losses.regmixup_loss(logits, logits, *rest), losses.regmixup_loss(single, single, *rest)
    )


def test_logit_norm_reads_the_direction_alone():
    logits, labels = some_logits()
    loss = losses.logit_norm_loss(logits, labels)
    close(losses.logit_norm_loss(50 * logits, labels), loss.detach(), 1e-6)
    zero = torch.zeros(1, 3, requires_grad=True)
    losses.logit_norm_loss(zero, torch.tensor([0])).sum().backward()
    assert zero.grad.isfinite().all()


@pytest.mark.parametrize("loss", [losses.dual_focal_loss, losses.bsce_gra_loss])
def test_gradients_are_finite_at_certainty(loss):
    logits = torch.tensor([[200.0, 0.0], [0.0, 200.0]], requires_grad=True)
    loss(logits, torch.tensor([0, 0]), 0.5).sum().backward()
    assert logits.grad.isfinite().all()


def test_ignored_samples_have_no_part_in_the_batch_term():
    logits, labels = some_logits()
    masked = labels.clone()
    masked[[1, 5]] = -100
    rest = masked >= 0
    criterion = losses.MDCALoss(gamma=2.0, mdca_weight=3.0)
    alone = losses.mdca_loss(logits[rest], labels[rest], 2.0, 3.0)
    close(criterion(logits, masked), alone.mean().detach())
    each = losses.MDCALoss(gamma=2.0, mdca_weight=3.0, reduction="none")(logits, masked)
    close(each[rest], alone.detach())
    assert (each[~rest] == 0).all()
    nothing = criterion(logits, torch.full_like(labels, -100))
    assert nothing == 0


def test_class_weights_weigh_the_mean_of_mdca():
    logits, labels = some_logits()
    weight = torch.tensor([1.0, 0.0, 3.0, 2.0, 1.0], dtype=torch.float64)
    of_rows = weight[labels]
    each = losses.focal_loss(logits, labels, 1.0)
    expected = (of_rows * each).sum() / of_rows.sum() + losses.mdca(logits, labels)
    close(losses.MDCALoss(weight=weight)(logits, labels), expected.detach())


def test_history_without_errors_ranks_nobody():
    history = losses.CorrectnessHistory(3)
    everyone = torch.arange(3)
    for epoch in range(3):
        history.start_epoch(epoch)
        assert history.read(everyone).tolist() == [0, 0, 0]
        history.add(everyone, torch.ones(3, dtype=torch.bool))
    assert history.half().count.dtype == torch.int32
    history.start_epoch(3)
    history.add(torch.tensor([1]), torch.tensor([True]))
    assert losses.crl_loss(torch.zeros(3, 2), everyone % 2, history.read(everyone)).isfinite().all()


def test_pairs_of_one_correctness_and_a_batch_of_one_are_not_ranked():
    logits, labels = some_logits()
    plain = F.cross_entropy(logits, labels, reduction="none").detach()
    close(losses.crl_loss(logits, labels, torch.full((9,), 0.5)), plain)
    close(losses.crl_loss(logits[:1], labels[:1], torch.ones(1)), plain[:1])


def test_shares_are_drawn_from_beta():
    torch.manual_seed(0)
    draws = [draw_mixture(4, alpha=20.0) for _ in range(2000)]
    shares = torch.stack([share for _, share in draws])
    assert shares.mean().item() == pytest.approx(0.5, abs=0.01)
    assert shares.var().item() == pytest.approx(1 / (4 * 41), rel=0.15)  # of Beta(20, 20)
    assert all(sorted(partners.tolist()) == [0, 1, 2, 3] for partners, _ in draws)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda z, y: losses.label_smoothing_loss(z, y, 1.5), r"smoothing .*\[0, 1\], got 1.5"),
        (lambda z, y: losses.mbls_loss(z, y, margin=-1.0), "margin .*at least 0, got -1.0"),
        (lambda z, y: losses.mbls_loss(z, y, weight=float("nan")), "weight .*got nan"),
        (lambda z, y: losses.mdca_loss(z, y, weight=-1.0), "weight .*got -1.0"),
        (lambda z, y: losses.dual_focal_loss(z, y, gamma=-1.0), "gamma .*got -1.0"),
        (lambda z, y: losses.bsce_gra_loss(z, y, norm=0.5), "norm .*at least 1.*got 0.5"),
        (lambda z, y: losses.logit_norm_loss(z, y, temperature=0.0), "temperature .*above 0"),
        (lambda z, y: losses.beta_penalty_loss(z, y + 1), r"0\.\.3, .*unknown class"),
        (lambda z, y: losses.crl_loss(z, y, torch.ones(3)), r"correctness .*\(9,\), got \(3,\)"),
        *(
            (lambda z, y, name=name: FUNCTIONS[name](z, y + 9), r"labels must be in 0\.\.")
            for name in FUNCTIONS
        ),
        *(
            (
                lambda z, y, name=name: FUNCTIONS[name](z, y.double()),
                f"{name}.* integer labels|integer labels",
            )
            for name in FUNCTIONS
        ),
    ],
)
def test_what_is_refused(call, message):
    logits, labels = some_logits()
    with pytest.raises(ValueError, match=message):
        call(logits, labels)
