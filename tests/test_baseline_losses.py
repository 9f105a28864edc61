"""The losses of the baselines against the values of their original codes."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from socrates import losses
from socrates.losses import (
    KeyQueue,
    Keys,
    SATLoss,
    brier_loss,
    contrastive_loss,
    dece,
    flsd_loss,
    focal_loss,
    gamblers_loss,
    sat_loss,
    smoothed_labels,
)


def assert_value_and_grad(loss, logits, value, grad, tolerance=1e-12):
    loss.backward()
    assert loss.item() == pytest.approx(value, rel=tolerance, abs=tolerance)
    torch.testing.assert_close(
        logits.grad, torch.tensor(grad, dtype=torch.float64), rtol=0, atol=tolerance
    )


def double(values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def test_focal_flsd_brier_and_cross_entropy(golden):
    data = golden("focal_flsd_brier_ce")
    losses = {
        "focal": lambda z, y, case: focal_loss(z, y, case["gamma"]),
        "flsd": lambda z, y, case: flsd_loss(z, y, case["gamma"]),
        "brier": lambda z, y, case: brier_loss(z, y),
        "ce": lambda z, y, case: focal_loss(z, y, 0.0),
    }
    assert {case["method"] for case in data["cases"]} == set(losses)
    for case in data["cases"]:
        logits = double(data["logits"])
        loss = losses[case["method"]](logits, torch.tensor(data["labels"]), case).mean()
        assert_value_and_grad(loss, logits, case["loss"], case["grad_logits"])


def test_sat(golden):
    data = golden("sat")
    for case in data["cases"]:
        criterion = SATLoss(data["num_samples"], case["alpha"]).double()
        for step, call in enumerate(case["calls"]):
            logits, index = double(data["logits"][step]), torch.tensor(data["index"][step])
            loss = criterion(logits, torch.tensor(data["labels"][step]), index)
            assert_value_and_grad(loss, logits, call["loss"], call["grad_logits"])
            assert criterion.target is not None
            torch.testing.assert_close(
                criterion.target[index].tolist(), call["target"], rtol=0, atol=1e-12
            )


def test_gamblers(golden):
    data = golden("gamblers")
    for case in data["cases"]:
        logits = double(data["logits"])
        loss = gamblers_loss(logits, torch.tensor(data["labels"]), case["reward"]).mean()
        assert_value_and_grad(loss, logits, case["loss"], case["grad"])


def test_dece(golden):
    for case in golden("dece")["cases"]:
        logits, labels = double(case["logits"]), torch.tensor(case["labels"])
        value = dece(logits, labels, case["num_bins"], case["t_a"], case["t_b"])
        both = F.cross_entropy(logits, labels) + 0.5 * value
        assert both.item() == pytest.approx(case["ce_plus_half_dece"], rel=1e-6)
        # the original bins in single
        assert_value_and_grad(value, logits, case["dece"], case["grad"], tolerance=1e-6)


def test_dece_needs_memory_for_one_matrix_not_for_all_pairs_of_classes():
    logits = torch.randn(64, 3000, requires_grad=True)  # all pairs would take 2.3 GB
    dece(logits, torch.randint(3000, (64,))).backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


def test_dece_of_one_bin_is_the_gap_of_all_samples():
    logits = torch.tensor([[4.0, 0.0], [4.0, 0.0]])  # both are sure of class 0, and one is right
    gap = torch.tensor(4.0).sigmoid().item() - 0.5
    assert dece(logits, torch.tensor([0, 1]), num_bins=1).item() == pytest.approx(gap, rel=1e-5)


def test_dece_tells_the_lowest_bins_apart():
    """A right answer at 0.1 and a wrong one at 0.15 lie in two of fifteen bins: their gaps do not
    cancel."""
    confidence = torch.tensor([0.1, 0.15], dtype=torch.float64)
    p = torch.cat([confidence[:, None], ((1 - confidence) / 19)[:, None].expand(2, 19)], dim=1)
    value = dece(p.log(), torch.tensor([0, 1]), t_a=1e4, t_b=1e-4)
    assert value.item() == pytest.approx((0.9 + 0.15) / 2, rel=0.02)


@pytest.mark.parametrize("loss", [lambda *given: gamblers_loss(*given[:2], 2.0), sat_loss])
def test_an_unknown_class_alone_or_as_a_label_is_refused(loss):
    with pytest.raises(ValueError, match=r"got \(1, 1\)"):
        loss(torch.zeros(1, 1), torch.tensor([0]), torch.ones(1))
    with pytest.raises(ValueError, match=r"0\.\.1, .*unknown class"):
        loss(torch.zeros(1, 3), torch.tensor([2]), torch.ones(1))


def test_dece_has_the_settings_of_the_original_unless_told():
    logits, labels = torch.randn(20, 4), torch.arange(20) % 4
    assert dece(logits, labels) == dece(logits, labels, num_bins=15, t_a=100.0, t_b=0.01)


@pytest.mark.parametrize(
    "bad", [{"num_bins": 0}, {"num_bins": 2.5}, {"t_a": 0.0}, {"t_b": 0.0}, {"t_b": -1.0}]
)
def test_dece_refuses_senseless_settings(bad):
    with pytest.raises(ValueError, match="num_bins >= 1"):
        dece(torch.zeros(2, 3), torch.tensor([0, 1]), **bad)


def test_learned_label_smoothing(golden):
    data = golden("mc_label_smoothing")
    omega, eps, logits = double(data["omega"]), double(data["eps"]), double(data["logits"])
    labels = torch.tensor(data["labels"])
    soft = smoothed_labels(labels, omega, eps)
    torch.testing.assert_close(soft.tolist(), data["soft_labels"], rtol=0, atol=1e-12)
    loss = F.cross_entropy(logits, soft, reduction="sum")
    assert_value_and_grad(loss, logits, data["soft_ce_sum"], data["grad_logits"], tolerance=1e-9)
    assert omega.grad is not None
    assert eps.grad is not None
    torch.testing.assert_close(omega.grad.tolist(), data["grad_omega"], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(eps.grad.tolist(), data["grad_eps"], rtol=1e-9, atol=1e-9)
    hard = smoothed_labels(labels, torch.zeros_like(omega), torch.zeros_like(eps))
    assert hard.tolist() == data["zero_init_soft_labels"]


@pytest.mark.parametrize(
    "loss", [brier_loss, dece, flsd_loss, lambda *given: focal_loss(*given, 0.0)]
)
def test_of_one_class_every_model_is_certain(loss):
    assert loss(torch.tensor([[3.0], [-2.0]]), torch.tensor([0, 0])).abs().sum() == 0


def test_flsd_is_focal_loss_with_gamma_5_below_a_fifth_3_below_a_half_and_its_own_above():
    p, labels = (
        torch.tensor([0.19, 0.21, 0.49, 0.51, 0.9]).double(),
        torch.zeros(5, dtype=torch.int64),
    )
    logits = torch.stack([p, 1 - p], dim=1).log()
    for given, gammas in (((), [5.0, 3.0, 3.0, 3.0, 3.0]), ((1.0,), [5.0, 3.0, 3.0, 1.0, 1.0])):
        torch.testing.assert_close(
            flsd_loss(logits, labels, *given), -((1 - p) ** torch.tensor(gammas)) * p.log()
        )


@pytest.mark.parametrize("gamma", [0.3, 0.5])
def test_focal_gradient_is_finite_at_certainty(gamma):
    logits = torch.tensor([[200.0, 0.0], [0.0, 200.0]], requires_grad=True)
    focal_loss(logits, torch.tensor([0, 0]), gamma).sum().backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


def naive_contrastive(queries, labels, confidence, correct, errors, temperature):
    """The formula as it stands in the notes on the paper, with loops."""
    values = []
    for query, label, weight in zip(F.normalize(queries, dim=1), labels, confidence, strict=True):
        positives = [k for k, c in zip(*correct, strict=True) if c == label]
        negatives = [k for k, c in zip(*errors, strict=True) if c == label]
        against = sum((query @ n / temperature).exp() for n in negatives)
        terms = [
            -((query @ k / temperature).exp() / ((query @ k / temperature).exp() + against)).log()
            for k in positives
        ]
        values.append(weight * sum(terms) / max(len(terms), 1))
    return torch.stack([torch.as_tensor(value, dtype=queries.dtype) for value in values])


def test_contrastive_loss_is_the_formula():
    torch.manual_seed(0)
    queries = torch.randn(12, 5, dtype=torch.float64, requires_grad=True)
    labels, confidence = torch.randint(4, (12,)), torch.rand(12, dtype=torch.float64)
    # class 3 has no key
    correct = Keys(F.normalize(torch.randn(30, 5).double(), dim=1), torch.randint(-1, 3, (30,)))
    # class 0 has no error
    errors = Keys(F.normalize(torch.randn(20, 5).double(), dim=1), torch.randint(1, 4, (20,)))
    loss = contrastive_loss(queries, labels, confidence, correct, errors, temperature=0.1)
    torch.testing.assert_close(
        loss, naive_contrastive(queries, labels, confidence, correct, errors, 0.1)
    )
    assert (loss[labels == 3] == 0).all()
    grad = torch.autograd.grad(loss.sum(), queries)[0]
    expected = torch.autograd.grad(
        naive_contrastive(queries, labels, confidence, correct, errors, 0.1).sum(), queries
    )
    torch.testing.assert_close(grad, expected[0])


def test_contrastive_loss_with_empty_queues_is_zero_with_zero_gradient():
    queries = torch.randn(3, 4, requires_grad=True)
    keys = KeyQueue(5, 4).read()
    loss = contrastive_loss(queries, torch.tensor([0, 1, 2]), torch.ones(3), keys, keys)
    loss.sum().backward()
    assert (loss == 0).all()
    assert queries.grad is not None
    assert (queries.grad == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_contrastive_loss_in_half_precision(dtype):
    torch.manual_seed(0)
    queries, labels = torch.randn(4, 3).to(dtype).requires_grad_(), torch.tensor([0, 1, 0, 1])
    keys, empty = Keys(torch.eye(3)[:2], torch.tensor([0, 1])), KeyQueue(4, 3)
    empty.enqueue(torch.eye(3)[:1], torch.tensor([0]))
    expected = contrastive_loss(queries.detach().float(), labels, torch.ones(4), keys, empty.read())
    loss = contrastive_loss(queries, labels, torch.ones(4).to(dtype), keys, empty.read())
    torch.testing.assert_close(loss, expected)
    assert torch.isfinite(torch.autograd.grad(loss.sum(), queries)[0]).all()
    with torch.autocast("cpu", dtype=dtype):
        torch.testing.assert_close(
            contrastive_loss(queries.float(), labels, torch.ones(4), keys, empty.read()), expected
        )


@pytest.mark.parametrize("size", [0.0, 1e-30])
def test_a_query_without_a_direction_gets_no_gradient(size):
    queries = torch.tensor([[size, size], [1.0, 2.0]], requires_grad=True)
    keys = Keys(torch.eye(2), torch.tensor([0, 0]))
    loss = contrastive_loss(
        queries, torch.tensor([0, 0]), torch.ones(2), keys, keys, temperature=1.0
    )
    loss.sum().backward()
    # log 3: it is as near to every key, at distance 1
    assert loss[0].item() == pytest.approx(1.0986, abs=1e-4)
    assert (queries.grad[0] == 0).all()
    assert (queries.grad[1] != 0).all()


def test_contrastive_loss_reads_the_direction_of_a_query_alone():
    correct = Keys(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    errors = Keys(torch.tensor([[0.0, 1.0], [-1.0, 0.0]]), torch.tensor([0, 0]))
    query, label, sure = torch.tensor([[3.0, 4.0]]), torch.tensor([0]), torch.ones(1)
    expected = contrastive_loss(query, label, sure, correct, errors, temperature=1.0)
    # The similarity to the correct key is 0.6, to the errors 0.8 and -0.6.
    assert expected.item() == pytest.approx(math.log(1 + math.exp(0.2) + math.exp(-1.2)))
    for factor in (1e-9, 1e-3, 1e6):
        loss = contrastive_loss(factor * query, label, sure, correct, errors, temperature=1.0)
        assert loss.item() == pytest.approx(expected.item())
    lost = contrastive_loss(0 * query, label, sure, correct, errors, temperature=1.0)
    assert lost.item() == pytest.approx(math.log(3))  # similar to nothing


def test_contrastive_loss_is_stable_at_low_temperature():
    keys = Keys(torch.eye(3), torch.tensor([0, 0, 0]))
    queries = torch.eye(3).requires_grad_()
    loss = contrastive_loss(
        queries, torch.tensor([0, 0, 0]), torch.ones(3), keys, keys, temperature=1e-4
    )
    loss.sum().backward()
    assert queries.grad is not None
    assert torch.isfinite(loss).all()
    assert torch.isfinite(queries.grad).all()


def test_queue_keeps_the_newest_and_does_not_freeze_when_full():
    queue = KeyQueue(4, 2)
    assert not queue.full
    for start in range(0, 9, 3):
        classes = torch.arange(start, start + 3)
        queue.enqueue(torch.ones(3, 2), classes, keep=classes != 4)
    assert queue.full
    assert sorted(queue.read().classes.tolist()) == [5, 6, 7, 8]
    torch.testing.assert_close(queue.read().features.norm(dim=1), torch.ones(4))
    other = KeyQueue(4, 2)
    other.load_state_dict(queue.state_dict())
    for one in (queue, other):
        one.enqueue(torch.eye(2), torch.tensor([10, 11]))
    assert queue.read().classes.tolist() == other.read().classes.tolist()


def test_enqueue_before_backward_does_not_disturb_autograd():
    queue = KeyQueue(4, 2)
    queue.enqueue(torch.eye(2), torch.tensor([0, 1]))
    queries = torch.randn(2, 2, requires_grad=True)
    loss = contrastive_loss(
        queries, torch.tensor([0, 1]), torch.ones(2), queue.read(), queue.read()
    ).mean()
    queue.enqueue(torch.randn(2, 2), torch.tensor([0, 1]))
    loss.backward()
    assert queries.grad is not None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: KeyQueue(0, 2), "at least 1, got 0 and 2"),
        (
            lambda: KeyQueue(2, 2).enqueue(torch.ones(3, 2), torch.zeros(3).long()),
            r"at most 2 features.*got \(3, 2\)",
        ),
        (
            lambda: KeyQueue(2, 2).enqueue(torch.ones(2, 3), torch.zeros(2).long()),
            r"width 2.*got \(2, 3\)",
        ),
        (
            lambda: KeyQueue(2, 2).enqueue(torch.ones(2, 2), torch.zeros(1).long()),
            r"got \(1,\) of torch.int64 for 2",
        ),
        (
            lambda: KeyQueue(2, 2).enqueue(
                torch.ones(2, 2), torch.zeros(2).long(), keep=torch.ones(2)
            ),
            r"2 booleans, got \(2,\) of torch.float32",
        ),
        (
            lambda: contrastive_loss(
                torch.ones(2, 3),
                torch.zeros(2).long(),
                torch.ones(2),
                KeyQueue(2, 2).read(),
                KeyQueue(2, 2).read(),
            ),
            r"one width, got \[2, 3\]",
        ),
        (
            lambda: smoothed_labels(torch.tensor([0, -1]), torch.eye(2), torch.zeros(2)),
            r"labels must be in 0\.\.1",
        ),
        (
            lambda: smoothed_labels(torch.tensor([0]), torch.eye(2), torch.zeros(3)),
            r"omega \(C, C\)",
        ),
        *(
            (
                lambda shapes=shapes: contrastive_loss(
                    *map(torch.ones, shapes), *[KeyQueue(2, 2).read()] * 2
                ),
                "B labels and confidences",
            )
            for shapes in (((2, 2), 3, 2), ((2, 2), 3, 3), ((2, 2), 2, 3), ((2, 2, 2), 2, 2))
        ),
    ],
)
def test_contrastive_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("smoothing", [-0.1, 1.1, float("nan")])
def test_smoothing_of_the_brier_loss_is_a_share(smoothing):
    with pytest.raises(ValueError, match="label_smoothing"):
        losses.brier_loss(torch.zeros(1, 2), torch.tensor([0]), label_smoothing=smoothing)


def test_class_weights_are_shown():
    assert "weight=[1.0, 3.0]" in repr(losses.BrierLoss(weight=torch.tensor([1.0, 3.0])))
