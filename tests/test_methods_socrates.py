"""The Socrates method, its ablations and penalties: identities, the released code's values,
curves."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from socrates import methods
from socrates.contracts import Batch, Classifier, Task
from socrates.losses import adaptive_target, focal_loss, uncertainty_penalty
from socrates.methods.ablations import fixed_penalty, known_penalty

NAMES = {  # focal_true, focal_unknown, beta
    (True, True, True): "socrates:full",
    (True, True, False): "socrates:no-beta",
    (False, False, True): "socrates:no-focal",
    (True, False, True): "socrates:no-focal-unknown",
    (False, True, True): "socrates:no-focal-true",
    (False, False, False): "socrates:no-focal-no-beta",
    (True, False, False): "socrates:no-focal-unknown-no-beta",
    (False, True, False): "socrates:no-focal-true-no-beta",
}


class Given(Classifier):
    """A model whose outputs are its inputs."""

    def forward(self, images):
        return images


def batches(seed=0, dtype=torch.float64, steps=4):
    """Logits with gradients as if they were images; every sample is seen several times."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        index = torch.randperm(10, generator=generator)[:7]
        logits = 3 * torch.randn(7, 5, generator=generator, dtype=dtype)
        yield Batch(logits.requires_grad_(), index % 4, index)


def run(name, dtype=torch.float64, **options):
    """Losses and gradients of a few steps."""
    method = methods.build(name, Task(10, 4), **options).to(dtype)
    results = []
    for batch in batches(dtype=dtype):
        loss = method(Given(), batch).loss
        results += [loss.detach(), *torch.autograd.grad(loss, batch.inputs)]
    return method, results


def assert_same_steps(one, other, **tolerance):
    for a, b in zip(one[1], other[1], strict=True):
        torch.testing.assert_close(a, b, **tolerance)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("target_over", ["all", "known"])
def test_full_is_the_socrates_loss(gamma, target_over):
    options = {"gamma": gamma, "alpha": 0.7, "target_over": target_over}
    one, other = run("socrates", **options), run("socrates:full", **options)
    assert_same_steps(one, other, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(one[0].criterion.target, other[0].criterion.target)


def test_without_focal_and_beta_it_is_sat():
    one = run("sat", alpha=0.6)
    assert_same_steps(one, run("socrates:no-focal-no-beta", alpha=0.6, target_over="known"))


@pytest.mark.parametrize(
    "name", ["socrates", "socrates:full", "socrates:no-beta", "socrates:no-target"]
)
def test_without_adaptive_target_it_is_focal_loss(name):
    method, results = run(name, alpha=1.0, gamma=3.0)
    for batch, loss in zip(batches(), results[::2], strict=True):
        torch.testing.assert_close(loss, focal_loss(batch.inputs, batch.labels, 3.0).mean())
    assert torch.equal(method.criterion.target, torch.ones(10, dtype=torch.float64))


def test_no_target_does_not_depend_on_alpha():
    assert_same_steps(run("socrates:no-target", alpha=0.5), run("socrates:no-target", alpha=1.0))


@pytest.mark.parametrize("name", ["socrates:no-target-no-focal", "socrates:no-focal"])
def test_without_target_and_focal_it_is_cross_entropy_over_all_columns(name):
    _, results = run(name, alpha=0.5 if name == "socrates:no-target-no-focal" else 1.0)
    for batch, loss in zip(batches(), results[::2], strict=True):
        torch.testing.assert_close(loss, F.cross_entropy(batch.inputs, batch.labels))


def test_all_variants_differ():
    losses = {
        name: float(sum(run(name, alpha=0.5)[1][::2]))
        for name in methods.METHODS
        if "socrates:" in name
    }
    # its beta is clamped at 0: the maximum may as well include idk
    same = losses.pop("socrates:beta-known")
    assert same == pytest.approx(losses["socrates:full"], rel=1e-12)
    assert len({round(loss, 9) for loss in losses.values()}) == len(losses) == 11


def test_released_values(golden):
    data = golden("socrates")
    seen = set()
    for case in data["cases"]:
        name = NAMES[case["focal_true"], case["focal_unknown"], case["beta"]]
        seen.add(name)
        options = {key: case[key] for key in ("gamma", "alpha", "target_over")}
        method = methods.build(
            name, Task(data["num_samples"], data["num_classes"]), **options
        ).double()
        for step, call in enumerate(case["calls"]):
            labels, index = torch.tensor(data["labels"][step]), torch.tensor(data["index"][step])
            logits = torch.tensor(data["logits"][step], dtype=torch.float64, requires_grad=True)
            loss = method(Given(), Batch(logits, labels, index)).loss
            (grad,) = torch.autograd.grad(loss, logits)
            assert float(loss.detach()) == pytest.approx(call["loss"], rel=1e-9)
            torch.testing.assert_close(grad.tolist(), call["grad_logits"], rtol=1e-8, atol=1e-10)
            torch.testing.assert_close(
                method.criterion.target[index].tolist(), call["target"], rtol=1e-9, atol=0
            )
    assert seen == set(NAMES.values())


def test_penalties_by_hand():
    p = torch.tensor(
        [[0.4, 0.3, 0.1, 0.2], [0.3, 0.3, 0.3, 0.1], [0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]]
    )
    labels = torch.tensor([0, 0, 1, 0])
    torch.testing.assert_close(known_penalty(p, labels), torch.tensor([0.1, 0.2, 0.0, 0.0]))
    assert fixed_penalty(p, labels).tolist() == [0.0, 0.25, 0.25, 0.0]
    assert fixed_penalty(p, labels, value=0.5, when="unknown").tolist() == [0.5, 0.5, 0.0, 0.5]


def test_the_known_penalty_clamped_is_equation_2():
    p = torch.randn(200, 5, generator=torch.Generator().manual_seed(0)).softmax(dim=1)
    labels = torch.arange(200) % 4
    torch.testing.assert_close(known_penalty(p, labels), uncertainty_penalty(p, labels))
    assert known_penalty(p, labels, clamp=False).min() < -0.3
    one, other = run("socrates:full", alpha=0.5), run("socrates:beta-known", alpha=0.5)
    assert_same_steps(one, other)
    assert not torch.equal(run("socrates:beta-known", alpha=0.5, clamp=False)[1][0], one[1][0])


@pytest.mark.parametrize("gamma", [0.3, 1.0])
@pytest.mark.parametrize("name", [name for name in methods.METHODS if name.startswith("socrates")])
def test_gradients_are_finite_at_extreme_logits(name, gamma):
    logits = torch.tensor(
        [[200.0, 0.0, 0.0], [0.0, 200.0, 0.0], [0.0, 0.0, 200.0]], requires_grad=True
    )
    method = methods.build(name, Task(3, 2), gamma=gamma, alpha=0.5)
    loss = method(Given(), Batch(logits, torch.tensor([0, 0, 0]), torch.arange(3))).loss
    assert loss.isfinite()
    assert torch.autograd.grad(loss, logits)[0].isfinite().all()


@pytest.mark.parametrize("name", ["sat", "socrates", "socrates:full"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_sample_with_a_bad_logit_keeps_its_target(name, bad):
    method = methods.build(name, Task(2, 2), alpha=0.5)
    logits = torch.tensor([[0.0, bad, 0.0], [0.0, 0.0, 0.0]])
    method(Given(), Batch(logits, torch.tensor([0, 0]), torch.arange(2)))
    assert method.criterion.target[0] == 1
    assert method.criterion.target[1] < 1


def test_diagnostics_are_means_over_the_epoch():
    method = methods.build("socrates", Task(10, 4), alpha=0.6)
    method.start_epoch(0, Given())
    assert method.diagnostics() == {}
    expected, targets = [], torch.ones(10)
    for batch in batches(dtype=torch.float32):
        method(Given(), batch)
        p = batch.inputs.detach().softmax(dim=1)
        p_true = p.gather(1, batch.labels[:, None]).squeeze(1)
        targets[batch.index] = adaptive_target(targets[batch.index], p_true, 0.6)
        expected.append(torch.stack([targets[batch.index], uncertainty_penalty(p, batch.labels)]))
    mean = torch.cat(expected, dim=1).mean(dim=1)
    diagnostics = method.diagnostics()
    torch.testing.assert_close(torch.stack([diagnostics["target"], diagnostics["beta"]]), mean)
    method.start_epoch(1, Given())
    assert method.diagnostics() == {}
    assert list(run("sat")[0].diagnostics()) == ["target", "unknown_term"]


@pytest.mark.parametrize(
    "name", ["socrates", "socrates:full", "socrates:no-focal-unknown", "socrates:no-beta", "sat"]
)
def test_the_share_of_the_unknown_term(name):
    gamma = {} if name == "sat" else {"gamma": 2.0}
    method = methods.build(name, Task(10, 4), alpha=0.6, **gamma)
    batch = next(iter(batches(dtype=torch.float32)))
    loss = method(Given(), batch).loss
    log_p = batch.inputs.detach().log_softmax(dim=1)
    p_true = log_p.exp().gather(1, batch.labels[:, None]).squeeze(1)
    focal = torch.ones(()) if name in ("sat", "socrates:no-focal-unknown") else (1 - p_true) ** 2
    beta = (
        torch.ones(())
        if name in ("sat", "socrates:no-beta")
        else uncertainty_penalty(log_p.exp(), batch.labels)
    )
    part = -focal * beta * (1 - method.criterion.target[batch.index]) * log_p[:, -1]
    torch.testing.assert_close(method.diagnostics()["unknown_term"], part.mean() / loss.detach())


def test_a_loss_without_an_unknown_term_has_no_share_of_it():
    assert list(run("socrates:no-target")[0].diagnostics()) == ["target", "beta"]
    assert abs(run("socrates", alpha=1.0)[0].diagnostics()["unknown_term"]) < 1e-12


def test_validation_loss_has_targets_of_one():
    method, _ = run("socrates", alpha=0.3, gamma=2.0)
    for batch in batches(seed=5):
        value = method.validation_loss(batch.inputs, batch.labels)
        torch.testing.assert_close(value, focal_loss(batch.inputs, batch.labels, 2.0).mean())
