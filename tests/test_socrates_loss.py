"""The Socrates loss: worked example, identities, reference values, its readable twin, numerics, bad
input."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from socrates.losses import (
    adaptive_target,
    focal_loss,
    sat_loss,
    socrates_loss,
    socrates_loss_reference,
    uncertainty_penalty,
)
from socrates.losses.socrates import SocratesLoss
from socrates.losses.torch_internals import is_last_reader, is_on_host

GAMMAS = [0.0, 0.3, 0.5, 1.0, 2.0, 5.0]


def batch(size=64, outputs=6, dtype=torch.float64, scale=2.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(size, outputs, dtype=dtype, generator=generator)
    labels = torch.randint(outputs - 1, (size,), generator=generator)
    return logits, labels, torch.rand(size, dtype=dtype, generator=generator)


def value_and_grad(loss, logits, *args):
    logits = logits.clone().requires_grad_()
    value = loss(logits, *args)
    weights = torch.linspace(-1, 1, len(value), dtype=value.dtype)
    (value * weights).sum().backward()
    assert logits.grad is not None
    return value.detach(), logits.grad


@pytest.mark.parametrize("form", [socrates_loss, socrates_loss_reference])
def test_worked_example_of_the_appendix(golden, form):
    for case in golden("worked_example"):
        logits = torch.tensor([case["p"]], dtype=torch.float64).log()
        label = torch.tensor([0])
        p_true = torch.tensor([case["p"][0]], dtype=torch.float64)
        target = adaptive_target(
            torch.tensor([case["previous_target"]], dtype=torch.float64), p_true, case["alpha"]
        )
        assert target.item() == pytest.approx(case["target"])
        assert uncertainty_penalty(logits.exp(), label).item() == pytest.approx(
            case["beta"], abs=1e-12
        )
        loss = form(logits, label, target, case["gamma"]).item()
        assert loss == pytest.approx(case["loss"], rel=1e-9)
        assert loss == pytest.approx(case["printed"], rel=0.06)


def test_released_values_over_three_calls(golden):
    data = golden("socrates")
    full = [
        case
        for case in data["cases"]
        if case["focal_true"] and case["focal_unknown"] and case["beta"]
    ]
    assert {case["target_over"] for case in full} == {"all", "known"}
    for case in full:
        criterion = SocratesLoss(
            data["num_samples"], case["gamma"], case["alpha"], target_over=case["target_over"]
        ).double()
        for step, call in enumerate(case["calls"]):
            logits = torch.tensor(data["logits"][step], dtype=torch.float64, requires_grad=True)
            labels, index = torch.tensor(data["labels"][step]), torch.tensor(data["index"][step])
            loss = criterion(logits, labels, index)
            loss.backward()
            assert loss.item() == pytest.approx(call["loss"], rel=1e-12)
            assert_near(logits.grad, call["grad_logits"], 1e-12)
            assert_near(criterion.target[index], call["target"], 1e-12)
            assert_near(uncertainty_penalty(logits.softmax(1), labels), call["beta"], 1e-12)


def assert_near(actual, expected, tolerance):
    torch.testing.assert_close(
        actual.detach(), torch.tensor(expected, dtype=actual.dtype), rtol=0, atol=tolerance
    )


def test_ablated_forms_are_other_sums_of_the_same_terms(golden):
    data = golden("socrates")
    ablated = [
        case
        for case in data["cases"]
        if not (case["focal_true"] and case["focal_unknown"] and case["beta"])
    ]
    assert len(ablated) >= 8
    for case in ablated:
        for step, call in enumerate(case["calls"]):
            logits = torch.tensor(data["logits"][step], dtype=torch.float64, requires_grad=True)
            labels, target = (
                torch.tensor(data["labels"][step]),
                torch.tensor(call["target"], dtype=torch.float64),
            )
            log_p = logits.log_softmax(1)
            log_p_true = log_p.gather(1, labels[:, None]).squeeze(1)
            focal = (1 - log_p_true.exp()) ** case["gamma"]
            beta = uncertainty_penalty(log_p.exp(), labels) if case["beta"] else 1.0
            true_part = (focal if case["focal_true"] else 1.0) * target * log_p_true
            unknown_part = (
                (focal if case["focal_unknown"] else 1.0) * beta * (1 - target) * log_p[:, -1]
            )
            loss = -(true_part + unknown_part).mean()
            loss.backward()
            assert loss.item() == pytest.approx(call["loss"], rel=1e-12)
            assert_near(logits.grad, call["grad_logits"], 1e-12)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("scale", [0.1, 1.0, 4.0])
def test_fused_equals_its_readable_twin_in_double_precision(gamma, scale):
    logits, labels, target = batch(256, scale=scale)
    for target_case in (target, torch.ones_like(target), torch.zeros_like(target)):
        fused = value_and_grad(socrates_loss, logits, labels, target_case, gamma)
        twin = value_and_grad(socrates_loss_reference, logits, labels, target_case, gamma)
        torch.testing.assert_close(fused, twin, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("outputs", [2, 11, 1001])
def test_fused_in_single_precision_is_within_1e_6_of_the_exact_value(gamma, outputs):
    logits, labels, target = batch(256, outputs, torch.float32)
    exact = value_and_grad(socrates_loss_reference, logits.double(), labels, target.double(), gamma)
    single = value_and_grad(socrates_loss, logits, labels, target, gamma)
    torch.testing.assert_close([x.double() for x in single], list(exact), rtol=1e-6, atol=1e-6)


def with_gaps(gap, outputs, size=400):
    """Float32 logits whose rows are far apart in several ways, the last kind with one wrong class
    nearly certain."""
    generator = torch.Generator().manual_seed(int(gap) + outputs)
    small, wide = (torch.randn(size, outputs, generator=generator) for _ in range(2))
    far = torch.rand(size, outputs, generator=generator)
    certain = 3 * small
    certain[:, 0] += 30 * far[:, 0]
    certain[:, -1] -= gap
    logits = torch.cat(
        [gap * far, gap * wide.clamp(-1, 1), torch.where(far < 0.5, 3 * small, -gap * far), certain]
    )
    labels = torch.randint(outputs - 1, (len(logits),), generator=generator)
    return logits, labels, torch.rand(len(logits), generator=generator)


@pytest.mark.parametrize("gap", [20, 100, 2_000, 20_000])
@pytest.mark.parametrize("outputs", [3, 11])
@pytest.mark.parametrize("gamma", [0.0, 1.0, 2.0])
def test_single_precision_is_exact_to_1e_6_however_far_the_logits_are_apart(gap, outputs, gamma):
    logits, labels, target = with_gaps(gap, outputs)
    wide, logits = logits.double().requires_grad_(), logits.requires_grad_()
    exact, value = (
        socrates_loss_reference(wide, labels, target.double(), gamma),
        socrates_loss(logits, labels, target, gamma),
    )
    exact_grad, grad = (
        torch.autograd.grad(exact.sum(), wide)[0],
        torch.autograd.grad(value.sum(), logits)[0],
    )
    assert ((value - exact).abs() <= 1e-6 * exact.abs().clamp(min=1)).all()
    error = (grad - exact_grad).abs().amax(1)
    assert (error <= 1e-6 * exact_grad.abs().amax(1).clamp(min=1)).all()


def test_a_gradient_that_lost_its_digits_by_cancellation():
    logits = torch.tensor([[0.0, 2e4, 0.0]], requires_grad=True)
    socrates_loss(logits, torch.tensor([0]), torch.tensor([0.2]), 1.0).sum().backward()
    torch.testing.assert_close(logits.grad, torch.tensor([[-0.2, 1.0, -0.8]]), rtol=1e-6, atol=0)


def test_torch_arithmetic_equals_numpy_arithmetic_row_by_row(monkeypatch):
    """On the CPU the rows are computed by numpy, elsewhere by torch; `torch.compile` takes the
    second way."""
    logits, labels, target = batch(64)
    compiled = torch.compile(socrates_loss, backend="eager")
    by_numpy = value_and_grad(socrates_loss, logits, labels, target, 2.0)
    torch.testing.assert_close(value_and_grad(compiled, logits, labels, target, 2.0), by_numpy)
    monkeypatch.setattr("socrates.losses.socrates.is_on_host", lambda z: False)
    torch.testing.assert_close(value_and_grad(socrates_loss, logits, labels, target, 2.0), by_numpy)
    with pytest.raises(ValueError, match=r"0\.\..*unknown class"):
        socrates_loss(logits, torch.full_like(labels, logits.shape[1] - 1), target, 2.0)


def test_plain_tensors_on_the_cpu_alone_are_read_by_numpy():
    values = torch.zeros(2)
    tensors = values, torch.nn.Parameter(values), values.to("meta")
    assert [is_on_host(tensor) for tensor in tensors] == [True, False, False]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("torch.compiler.is_compiling", lambda: True),
        ("socrates.losses.torch_internals._is_tracing", lambda: True),
        ("socrates.losses.torch_internals._is_tracing", None),
        ("socrates.losses.torch_internals._transforms_active", lambda: True),
        ("socrates.losses.torch_internals._transforms_active", None),
    ],
)
def test_what_is_compiled_traced_or_transformed_is_not_read(name, value, monkeypatch):
    monkeypatch.setattr(name, value)
    assert not is_on_host(torch.zeros(2))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("torch.compiler.is_compiling", lambda: True),
        ("socrates.losses.torch_internals._graph_is_kept", lambda: True),
        ("socrates.losses.torch_internals._graph_is_kept", None),
        ("socrates.losses.torch_internals._is_batched", lambda grad: True),
        ("socrates.losses.torch_internals._is_batched", None),
        ("socrates.losses.torch_internals._transforms_active", lambda: True),
        ("socrates.losses.torch_internals._transforms_active", None),
    ],
)
def test_what_may_be_read_again_is_not_written_over(name, value, monkeypatch):
    others = {"_graph_is_kept": lambda: False, "_is_batched": lambda grad: False}
    for other, answer in others.items():
        monkeypatch.setattr(f"socrates.losses.torch_internals.{other}", answer)
    assert is_last_reader(torch.zeros(2))
    monkeypatch.setattr(name, value)
    assert not is_last_reader(torch.zeros(2))


def test_an_empty_batch_is_no_error():
    assert socrates_loss(
        torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64), torch.zeros(0), 1.0
    ).shape == (0,)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    gamma=st.floats(0, 6),
    outputs=st.integers(2, 12),
    scale=st.sampled_from([0.0, 0.01, 1.0, 30.0]),
)
def test_gradient_rows_sum_to_zero_and_loss_is_not_negative(seed, gamma, outputs, scale):
    logits, labels, target = batch(16, outputs, scale=scale, seed=seed)
    value, grad = value_and_grad(socrates_loss, logits, labels, target, gamma)
    assert (value >= 0).all()
    # a softmax does not see a shift of the logits
    assert grad.sum(1).abs().max() < 1e-9 * (1 + grad.abs().max())


def test_identities_with_other_losses():
    logits, labels, target = batch()
    ones = torch.ones_like(target)
    for gamma in GAMMAS:
        torch.testing.assert_close(
            value_and_grad(socrates_loss, logits, labels, ones, gamma),
            value_and_grad(focal_loss, logits, labels, gamma),
        )
    cross_entropy = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(socrates_loss(logits, labels, ones, 0.0), cross_entropy)
    # Without the focal term and with beta = 1 it would be SAT: add the missing (1 - beta) part of
    # the unknown term.
    log_p = logits.log_softmax(1)
    beta = uncertainty_penalty(log_p.exp(), labels)
    missing = -(1 - beta) * (1 - target) * log_p[:, -1]
    torch.testing.assert_close(
        socrates_loss(logits, labels, target, 0.0) + missing, sat_loss(logits, labels, target)
    )


def test_beta_is_zero_when_the_unknown_class_leads_the_rest_and_never_negative():
    p = torch.tensor([[0.5, 0.1, 0.4], [0.1, 0.8, 0.1], [0.2, 0.4, 0.4]])
    assert uncertainty_penalty(p, torch.tensor([0, 0, 0])).tolist() == pytest.approx(
        [0.0, 0.7, 0.0]
    )
    logits, labels, _ = batch(500)
    assert (uncertainty_penalty(logits.softmax(1), labels) >= 0).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("top", [0.0, 1.0, 30.0, 100.0, 1e4])
def test_finite_for_every_gamma_and_logits_up_to_1e4(dtype, gamma, top):
    rows = torch.tensor(
        [
            [a, b, c, d]
            for a in (-1, 0, 1)
            for b in (-1, 0, 1)
            for c in (-1, 0, 1)
            for d in (-1, 0, 1)
        ]
    )
    logits = (rows * top).to(dtype)
    labels = torch.arange(len(rows)) % 3
    for target in (0.0, 0.5, 1.0):
        value, grad = value_and_grad(
            socrates_loss, logits, labels, torch.full((len(rows),), target), gamma
        )
        assert torch.isfinite(value).all()
        assert torch.isfinite(grad).all()
        assert grad.dtype == dtype


@pytest.mark.parametrize("gamma", [0.3, 0.5, 1.0])
def test_gradient_stays_right_as_the_true_probability_approaches_one(gamma):
    """1 - p_true by subtraction would leave no correct digit here; the exact value comes from
    decimal arithmetic."""
    getcontext().prec = 60
    for margin in (10.0, 20.0, 60.0):
        e = Decimal(-margin).exp()
        wrong = 2 * e / (1 + 2 * e)
        log_p = -(1 + 2 * e).ln()
        power = Decimal(gamma)
        slope = power * wrong ** (power - 1) * (1 - wrong) * log_p - wrong**power
        logits = torch.tensor([[margin, 0.0, 0.0]], requires_grad=True)
        socrates_loss(logits, torch.tensor([0]), torch.ones(1), gamma).sum().backward()
        assert logits.grad is not None
        assert logits.grad[0, 0].item() == pytest.approx(float(slope * wrong), rel=1e-5)


def test_ties_take_the_first_class_as_the_twin_does():
    logits = torch.zeros(3, 5, dtype=torch.float64)
    args = (torch.tensor([0, 1, 3]), torch.full((3,), 0.5, dtype=torch.float64), 1.0)
    torch.testing.assert_close(
        value_and_grad(socrates_loss, logits, *args),
        value_and_grad(socrates_loss_reference, logits, *args),
    )


def test_non_contiguous_logits():
    logits, labels, target = batch(32, 12)
    for view in (
        logits[:, ::2],
        logits.T.contiguous().T[:, :6],
        logits.expand(1, 32, 12)[0, :, 3:9],
    ):
        fused = value_and_grad(socrates_loss, view, labels % 5, target, 2.0)
        twin = value_and_grad(socrates_loss_reference, view.contiguous(), labels % 5, target, 2.0)
        torch.testing.assert_close(fused, twin)


def test_retain_graph_and_accumulation():
    logits, labels, target = batch()
    logits.requires_grad_()
    loss = socrates_loss(logits, labels, target, 2.0).mean()
    loss.backward(retain_graph=True)
    assert logits.grad is not None
    once = logits.grad.clone()
    loss.backward()
    torch.testing.assert_close(logits.grad, 2 * once)
    logits.grad = None
    for part in torch.arange(len(labels)).chunk(4):
        (
            socrates_loss(logits[part], labels[part], target[part], 2.0).sum() / len(labels)
        ).backward()
    torch.testing.assert_close(logits.grad, once)


def test_batched_gradients_and_a_kept_graph_leave_what_was_saved_alone():
    logits, labels, target = batch(6)
    logits.requires_grad_()
    loss = socrates_loss(logits, labels, target, 2.0)
    each = [torch.autograd.grad(loss[row], logits, retain_graph=True)[0] for row in range(6)]
    for _ in range(2):
        together = torch.autograd.grad(
            loss, logits, torch.eye(6).double(), is_grads_batched=True, retain_graph=True
        )
        torch.testing.assert_close(together[0], torch.stack(each))
    loss = socrates_loss(logits, labels, target, 2.0)
    torch.testing.assert_close(
        torch.autograd.grad(loss, logits, torch.eye(6).double(), is_grads_batched=True)[0],
        torch.stack(each),
    )


def test_the_gradient_is_written_over_what_forward_saved_and_needs_no_second_matrix():
    logits, labels, target = batch(6)
    logits.requires_grad_()
    loss = socrates_loss(logits, labels, target, 2.0)
    saved = loss.grad_fn.saved_tensors[0].data_ptr()
    loss.sum().backward()
    assert logits.grad.data_ptr() == saved
    loss = socrates_loss(logits, labels, target, 2.0)
    saved = loss.grad_fn.saved_tensors[0].clone()
    loss.sum().backward(retain_graph=True)
    assert torch.equal(loss.grad_fn.saved_tensors[0], saved)


def test_function_transforms_take_the_readable_twin():
    logits, labels, target = batch(6)
    leaf = logits.clone().requires_grad_()
    expected = torch.autograd.grad(socrates_loss(leaf, labels, target, 2.0).sum(), leaf)[0]
    grad = torch.func.grad(lambda z: socrates_loss(z, labels, target, 2.0).sum())(logits)
    torch.testing.assert_close(grad, expected)
    one = torch.func.vmap(lambda z, y, t: socrates_loss(z[None], y[None], t[None], 2.0)[0])
    torch.testing.assert_close(
        one(logits, labels, target), socrates_loss(logits, labels, target, 2.0)
    )
    per_sample = torch.func.vmap(
        torch.func.grad(lambda z, y, t: socrates_loss(z[None], y[None], t[None], 2.0)[0])
    )
    torch.testing.assert_close(per_sample(logits, labels, target), grad)
    assert torch.func.jacrev(lambda z: socrates_loss(z, labels, target, 2.0))(logits).shape == (
        6,
        6,
        6,
    )
    half = torch.func.vmap(lambda z: socrates_loss(z, labels, target, 2.0))(logits[None].half())
    assert half.dtype == torch.float64  # the target's; the logits were widened to single


class NoGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values):
        return values.clone()

    @staticmethod
    def backward(ctx, *grads):
        return None


def test_a_loss_that_nobody_differentiates_gives_no_gradient():
    logits, labels, target = batch(6)
    logits.requires_grad_()
    NoGradient.apply(socrates_loss(logits, labels, target, 2.0)).sum().backward()
    assert logits.grad is None


def test_second_derivative_is_refused_with_advice():
    logits, labels, target = batch(8)
    logits.requires_grad_()
    loss = socrates_loss(logits, labels, target, 2.0).sum()
    with pytest.raises(RuntimeError, match="socrates_loss_reference"):
        torch.autograd.grad(loss, logits, create_graph=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_and_autocast(dtype):
    logits, labels, target = batch(dtype=torch.float32)
    half = logits.to(dtype)
    value, grad = value_and_grad(socrates_loss, half, labels, target, 2.0)
    exact, exact_grad = value_and_grad(socrates_loss_reference, half.float(), labels, target, 2.0)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, exact)
    torch.testing.assert_close(grad.float(), exact_grad, rtol=1e-2, atol=1e-3)
    linear = torch.nn.Linear(6, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = socrates_loss(linear(logits), labels, target, 2.0).mean()
    loss.backward()
    assert loss.dtype == torch.float32
    assert torch.isfinite(linear.weight.grad).all()


def test_compiles_as_one_graph_with_the_same_numbers():
    logits, labels, target = batch(32, dtype=torch.float32)
    torch.compiler.reset()
    compiled = torch.compile(socrates_loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(
        value_and_grad(compiled, logits, labels, target, 2.0),
        value_and_grad(socrates_loss, logits, labels, target, 2.0),
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"logits": torch.zeros(4, 3, 2)},
            r"shape \(batch, num_classes \+ 1 columns.*got \(4, 3, 2\)",
        ),
        ({"logits": torch.zeros(4, 1)}, r"got \(4, 1\)"),
        ({"logits": torch.zeros(4, 3, dtype=torch.int64)}, "floating-point logits.*torch.int64"),
        ({"labels": torch.zeros(5, dtype=torch.int64)}, r"4 integer labels.*got \(5,\)"),
        ({"labels": torch.zeros(4)}, "integer labels.*torch.float32"),
        (
            {"labels": torch.eye(4, dtype=torch.int64)},
            r"got \(4, 4\) .*one-hot, labels.argmax\(1\)",
        ),
        ({"labels": torch.eye(4)}, r"\(4, 4\) of torch.float32: .*one-hot"),
        (
            {"labels": torch.full((4, 2), 0.5)},
            "soft labels .*mixup",
        ),
        ({"labels": torch.tensor([[1, 1]] * 4)}, "several classes.*not supported"),
        (
            {"labels": torch.tensor([[1, 0], [0, 0]] * 2)},
            "several classes.*not supported",
        ),
        ({"labels": torch.zeros(4, 1)}, r"labels.squeeze\(1\)"),
        ({"labels": torch.zeros(4)}, r"labels.long\(\)"),
        ({"labels": torch.zeros(2, 2)}, r"got \(2, 2\) of torch.float32$"),
        ({"labels": torch.zeros(4, 2, 2)}, r"got \(4, 2, 2\) of torch.float32$"),
        ({"labels": torch.zeros(4, 0)}, r"got \(4, 0\) of torch.float32$"),
        ({"labels": torch.zeros(4, 2, dtype=torch.complex64)}, r"of torch.complex64$"),
        ({"logits": torch.zeros(4, 1)}, "two classes, not one"),
        ({"logits": torch.zeros(4, 3, 2)}, r"got \(4, 3, 2\) .*pixels"),
        (
            {"labels": torch.tensor([0, -100, 1, 0])},
            "from -100 to 1.*ignore_index",
        ),
        ({"labels": torch.tensor([0, -100, 2, 0])}, "-100 to 2: .*3 outputs"),
        (
            {"labels": torch.tensor([0, 1, 2, 0])},
            r"0\.\.1, .*0 to 2.*unknown class",
        ),
        ({"labels": torch.tensor([0, -1, 1, 0])}, "-1 to 1"),
        ({"labels": torch.tensor([0, 99, 1, 0])}, "0 to 99"),
        ({"target": torch.ones(3)}, r"one float per label \(4,\), got \(3,\)"),
        ({"target": torch.ones(4, dtype=torch.int64)}, "torch.int64"),
        (
            {"logits": [[0.0, 1.0]]},
            "logits .*got list: .*torch.as_tensor",
        ),
        ({"labels": torch.zeros(4).numpy()}, "labels .*got ndarray"),
        ({"labels": torch.zeros(4, dtype=torch.complex64)}, "integer labels"),
        ({"target": 0.5}, "target .*got float"),
        ({"gamma": math.inf}, "gamma .*got inf"),
        ({"gamma": torch.tensor(2.0)}, "gamma .*got tensor"),
        ({"gamma": -0.5}, "gamma .*got -0.5"),
        ({"gamma": math.nan}, "gamma .*got nan"),
    ],
)
def test_bad_input_names_what_is_wrong(change, message):
    good = {
        "logits": torch.zeros(4, 3),
        "labels": torch.tensor([0, 1, 1, 0]),
        "target": torch.ones(4),
        "gamma": 1.0,
    }
    socrates_loss(**good)
    socrates_loss(**{**good, "gamma": numpy.float32(2.0)})
    with pytest.raises(ValueError, match=message):
        socrates_loss(**{**good, **change})


def test_small_integer_labels_are_accepted():
    logits, labels, target = batch()
    for dtype in (torch.uint8, torch.int16, torch.int32):
        torch.testing.assert_close(
            socrates_loss(logits, labels.to(dtype), target, 1.0),
            socrates_loss(logits, labels, target, 1.0),
        )
