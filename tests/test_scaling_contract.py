"""What every scaler promises, as one table of cases."""

import copy
import io
import pickle

import numpy as np
import pytest
import torch
from scaling_cases import matrix_map, nll, sampled, structured_map, vector_map, with_unknown
from torch import nn

from socrates.scaling import (
    SCALERS,
    BetaScaling,
    FitReport,
    IsotonicScaling,
    MatrixScaling,
    ReadoutScaling,
    StructuredScaling,
    TemperatureScaling,
    VectorScaling,
    load,
    save,
)
from socrates.scaling.held_out import open_held_out
from socrates.scaling.saving import describe, rebuild

LOGITS, LABELS = with_unknown(600, 4, 1.7, 1.0)
PAIRS, SIDES = sampled(600, 2, 1.7)

every_scaler = pytest.mark.parametrize("make", SCALERS.values())
not_affine = pytest.mark.parametrize(
    "make", [SCALERS[name] for name in ("ensemble", "isotonic", "beta")]
)
on_log_softmax = pytest.mark.parametrize("make", [VectorScaling, MatrixScaling, StructuredScaling])
affine = pytest.mark.parametrize(
    "make", [TemperatureScaling, ReadoutScaling, vector_map, matrix_map, structured_map]
)


@pytest.fixture
def data(make):
    """Logits and labels that the scaler is for: two columns, or four classes and an unknown one."""
    return (PAIRS, SIDES) if make is BetaScaling else (LOGITS, LABELS)


UNFITTED = {
    "temperature": {"temperature": 1.0},
    "vector": {"scale": [], "bias": []},
    "matrix": {"weight": [], "bias": []},
    "readout": {"temperature": 1.0, "bias": 0.0},
    "structured": {"weight": [], "bias": []},
    "ensemble": {"temperature": 1.0, "weights": [1.0, 0.0, 0.0], "uniform": []},
    "isotonic": {"knots": [], "levels": []},
    "beta": {"a": 1.0, "b": 1.0, "c": 0.0},
}


@pytest.mark.parametrize("name", SCALERS)
def test_before_a_fit_a_scaler_holds_the_map_that_changes_nothing(name):
    scaler = SCALERS[name]()
    assert {key: value.tolist() for key, value in scaler.named_buffers()} == UNFITTED[name]
    assert scaler.columns == 0
    assert scaler.report is None


def test_samples_are_logits_of_known_classes_unless_told_otherwise():
    data = open_held_out(PAIRS, SIDES, "a test")
    assert torch.equal(data.logits, PAIRS)
    assert torch.equal(data.labels, SIDES)
    assert data.weight is None
    assert not data.unknown_class
    assert not data.are_scores
    assert data == data.known


def test_known_samples_have_no_unknown_column():
    known = open_held_out(LOGITS, LABELS, "a test", unknown_class=True).known
    assert torch.equal(known.logits, LOGITS[:, :-1])
    assert not known.unknown_class
    assert known == known.known


def test_every_scaler_has_its_printed_names():
    assert [(name, make.title, make.short) for name, make in SCALERS.items()] == [
        ("temperature", "temperature scaling", "TS"),
        ("vector", "vector scaling", "VS"),
        ("matrix", "matrix scaling", "MS"),
        ("readout", "readout scaling", "RS"),
        ("structured", "structured scaling", "SS"),
        ("ensemble", "ensemble temperature scaling", "ETS"),
        ("isotonic", "isotonic regression", "IR"),
        ("beta", "beta calibration", "BC"),
    ]
    assert [name for name, make in SCALERS.items() if make.needs_unknown_class] == ["readout"]
    assert [name for name, make in SCALERS.items() if make.usual] == [
        "temperature",
        "vector",
        "matrix",
        "readout",
    ]


@every_scaler
def test_unfitted_refuses(make, data):
    scaler = make()
    assert scaler.report is None
    assert "not fitted" in repr(scaler)
    for use in (lambda: scaler(data[0]), lambda: scaler.fold(nn.Linear(3, 5))):
        with pytest.raises(ValueError, match=f"{make.__name__} is not fitted"):
            use()


def test_repr_shows_what_was_fitted():
    temperature, readout = (
        TemperatureScaling().fit(LOGITS, LABELS),
        ReadoutScaling().fit(LOGITS, LABELS),
    )
    t, rt, rb = (
        f"{float(x):.4g}" for x in (temperature.temperature, readout.temperature, readout.bias)
    )
    assert repr(temperature) == f"TemperatureScaling(temperature={t}, columns=5)"
    assert repr(readout) == f"ReadoutScaling(temperature={rt}, bias={rb}, columns=5)"
    for make in (VectorScaling, MatrixScaling):
        fitted = make(0.5).fit(LOGITS, LABELS)
        assert repr(fitted) == f"{make.__name__}(regularization=0.5, strength=0.5, columns=5)"
    assert (
        repr(StructuredScaling(0.5))
        == "StructuredScaling(structure='full', strength=0.5, not fitted)"
    )
    fitted = StructuredScaling(0.5, "diagonal").fit(LOGITS, LABELS, unknown_class=True)
    assert repr(fitted) == "StructuredScaling(structure='diagonal', strength=0.5, columns=5)"


@every_scaler
def test_fit_returns_self_and_reports(make, data):
    held_out, truth = data
    scaler = make()
    assert scaler.fit(held_out, truth) is scaler
    assert scaler.report.num_samples == 600
    assert scaler.report.nll_after < scaler.report.nll_before
    assert scaler.report.converged


@pytest.mark.parametrize(
    ("gradient_norm", "converged"), [(0.99e-6, True), (1e-6, False), (np.nan, False)]
)
def test_converged_is_a_gradient_below_a_millionth(gradient_norm, converged):
    assert FitReport(1, 1, gradient_norm, 1.0, 1.0).converged is converged


@pytest.mark.parametrize(
    "make", [TemperatureScaling, VectorScaling, MatrixScaling, StructuredScaling]
)
def test_a_warning_that_is_an_error_leaves_the_fit_whole(make):
    scaler = make(
        *{VectorScaling: [None], MatrixScaling: [None], StructuredScaling: [0.0]}.get(make, [])
    )
    with pytest.raises(UserWarning, match=f"{make.__name__}: .*NLL"):
        scaler.fit(LOGITS, LOGITS.argmax(dim=1))
    assert scaler.report.nll_after == pytest.approx(
        float(nll(scaler(LOGITS.double()), LOGITS.argmax(dim=1))), abs=1e-6
    )


@every_scaler
def test_nothing_is_trainable(make, data):
    held_out, truth = data
    scaler = make().fit(held_out, truth)
    assert list(scaler.parameters()) == []
    inputs = held_out.clone().requires_grad_()
    scaler(inputs).square().sum().backward()
    assert float(inputs.grad.abs().sum()) > 0


@every_scaler
def test_numpy_and_torch_agree(make, data):
    held_out, truth = data
    expected = make().fit(held_out, truth)(held_out)
    locked = held_out.numpy().copy()
    locked.flags.writeable = False
    swapped = held_out.numpy().astype(">f4")
    for logits in (held_out.numpy(), locked, swapped, np.asfortranarray(held_out.numpy())):
        assert torch.allclose(
            make().fit(logits, truth.numpy().astype(np.int32))(held_out), expected, atol=1e-5
        )
    assert torch.allclose(
        make().fit(held_out.clone().requires_grad_(), truth.to(torch.uint8))(held_out), expected
    )


@every_scaler
def test_call_takes_what_fit_takes(make, data):
    held_out, truth = data
    scaler = make().fit(held_out, truth)
    for dtype in (np.float16, np.float32, np.float64):
        given = held_out.numpy().astype(dtype)
        scaled = scaler(given)
        assert isinstance(scaled, np.ndarray)
        assert scaled.dtype == dtype
        np.testing.assert_array_equal(scaled, scaler(torch.from_numpy(given)).numpy())
    scaled = scaler(held_out.double().tolist())
    assert isinstance(scaled, np.ndarray)
    np.testing.assert_array_equal(scaled, scaler(held_out.double()).numpy())


@pytest.mark.parametrize(
    "make", [make for make in SCALERS.values() if make not in (BetaScaling, IsotonicScaling)]
)
def test_a_declared_unknown_class_is_never_a_label(make):
    assert make().fit(LOGITS, LABELS, unknown_class=True).report.converged
    with pytest.raises(ValueError, match="4, expected 0 to 3"):
        make().fit(LOGITS, LABELS.clamp(max=2) * 2, unknown_class=True)


@every_scaler
@pytest.mark.parametrize("digits", [2, 3, 16])
def test_probabilities_with_zeros_anywhere(make, data, digits):
    held_out, truth = data
    probs = (2 * held_out.double()).softmax(dim=1).mul(10**digits).round() / 10**digits
    assert digits > 3 or bool((probs.gather(1, truth[:, None]) == 0).any())  # at labels too
    scaler = make().fit(probs.numpy(), truth.numpy(), from_probs=True)
    scaled = scaler(probs, from_probs=True)
    assert torch.isfinite(scaled).all()
    np.testing.assert_array_equal(scaler(probs.numpy(), from_probs=True), scaled.numpy())
    floored = probs.clamp(min=scaler.floor).log()
    assert nll(scaled, truth) < nll(floored, truth)
    torch.testing.assert_close(scaled, scaler(floored))
    with pytest.raises(ValueError, match=rf"{make.__name__}\.fit: .*\b600 rows.*from_probs=True"):
        make().fit(probs.div(probs.sum(dim=1, keepdim=True)), truth)


@every_scaler
def test_lists_and_every_kind_of_integer_agree(make, data):
    held_out, truth = data
    expected = make().fit(held_out.double(), truth)(held_out)
    assert torch.equal(make().fit(held_out.tolist(), truth.tolist())(held_out), expected)
    assert torch.equal(
        make().fit(list(map(tuple, held_out.tolist())), tuple(truth.tolist()))(held_out), expected
    )
    for dtype in (np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16, np.dtype(">i4")):
        assert torch.equal(
            make().fit(held_out.double(), truth.numpy().astype(dtype))(held_out), expected
        )
    for dtype in (torch.uint16, torch.uint32, torch.uint64, torch.int8):
        assert torch.equal(make().fit(held_out.double(), truth.to(dtype))(held_out), expected)


@every_scaler
@pytest.mark.parametrize(
    "cast", [nn.Module.half, nn.Module.bfloat16, nn.Module.float, nn.Module.double]
)
def test_casting_the_model_leaves_the_fit_alone(make, data, cast):
    held_out, truth = data
    columns = held_out.shape[1]
    scaler = make().fit(1e6 * held_out.double(), truth)  # T beyond half precision
    expected = {name: buffer.clone() for name, buffer in scaler.named_buffers()}
    model = cast(nn.Sequential(nn.Linear(3, columns), scaler))
    assert model[1] is scaler
    for name, buffer in scaler.named_buffers():
        assert buffer.dtype == torch.float64
        assert torch.equal(buffer, expected[name])
    dtype = model[0].weight.dtype
    assert model(torch.zeros(2, 3, dtype=dtype)).dtype == dtype
    assert all(buffer.device.type == "meta" for buffer in model.to("meta", torch.half)[1].buffers())


@affine
@pytest.mark.parametrize(
    "layer", [nn.Conv2d(3, 5, 1), nn.Sequential(nn.Linear(3, 5)), nn.Identity()]
)
def test_fold_names_the_layer_it_needs(make, layer):
    scaler = make().fit(LOGITS, LABELS)
    name = type(scaler).__name__
    with pytest.raises(ValueError, match=rf"{name}\.fold .*got {type(layer).__name__}"):
        scaler.fold(layer)


@every_scaler
def test_input_is_left_alone(make, data):
    held_out, truth = data
    logits, labels = held_out.clone(), truth.clone()
    make().fit(logits, labels)(logits)
    assert torch.equal(logits, held_out)
    assert torch.equal(labels, truth)


@every_scaler
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_type_and_leading_shape_are_kept(make, data, dtype):
    held_out, truth = data
    columns = held_out.shape[1]
    scaler = make().fit(held_out.to(dtype), truth)
    out = scaler(held_out[:6].to(dtype).reshape(2, 3, columns))
    assert out.dtype == dtype
    assert out.shape == (2, 3, columns)
    assert torch.allclose(out.reshape(6, columns), scaler(held_out[:6].to(dtype)))


@every_scaler
def test_state_moves_into_a_fresh_scaler(make, data):
    held_out, truth = data
    columns = held_out.shape[1]
    scaler, fresh = make().fit(held_out, truth), make()
    file = io.BytesIO()
    torch.save(scaler.state_dict(), file)
    file.seek(0)
    fresh.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(fresh(held_out), scaler(held_out))
    with pytest.raises(ValueError, match=rf"\b{columns}\b.*, {2 * columns}\)"):
        fresh(held_out.repeat(1, 2))
    model = nn.Sequential(nn.Linear(3, columns), make())
    model.load_state_dict(nn.Sequential(nn.Linear(3, columns), scaler).state_dict())
    assert torch.equal(model[1](held_out), scaler(held_out))


@every_scaler
def test_copies_keep_fit_and_report(make, data):
    held_out, truth = data
    scaler = make().fit(held_out, truth)
    for twin in (copy.deepcopy(scaler), pickle.loads(pickle.dumps(scaler))):
        assert torch.equal(twin(held_out), scaler(held_out))
        assert twin.report == scaler.report


@every_scaler
def test_fit_again_forgets_the_first(make, data):
    held_out, truth = data
    scaler = (
        make().fit(2 * held_out[:, [0, 1, -1][: held_out.shape[1]]], truth % 2).fit(held_out, truth)
    )
    assert torch.equal(scaler(held_out), make().fit(held_out, truth)(held_out))


@every_scaler
def test_exports_behind_a_model(make, data):
    held_out, truth = data
    columns = held_out.shape[1]
    model = nn.Sequential(nn.Linear(3, columns), make().fit(held_out, truth)).eval()
    images = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    batch = torch.export.Dim("batch", min=2, max=64)
    exported = torch.export.export(model, (images,), dynamic_shapes=({0: batch},))
    more = torch.randn(7, 3, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(exported.module()(more), model(more), atol=1e-6)


@affine
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_folded_layer_equals_layer_and_scaler(make, bias, dtype):
    scaler = make().fit(LOGITS, LABELS)
    linear = nn.Linear(3, 5, bias=bias).to(dtype)
    before = copy.deepcopy(linear.state_dict())
    features = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)).to(dtype)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    assert torch.allclose(
        scaler.fold(linear)(features), scaler(linear(features)), atol=tolerance, rtol=tolerance
    )
    assert all(torch.equal(linear.state_dict()[name], before[name]) for name in before)


@every_scaler
def test_misfits_are_refused_after_fit(make, data):
    held_out, truth = data
    columns = held_out.shape[1]
    scaler = make().fit(held_out, truth)
    with pytest.raises(ValueError, match=rf"\b{columns}\b.*\(2, {columns + 1}\)"):
        scaler(torch.zeros(2, columns + 1))
    with pytest.raises(ValueError, match=rf"{columns} columns, .*\(\)"):
        scaler(torch.tensor(1.0))
    with pytest.raises(ValueError, match=r"logits .*torch\.int64"):
        scaler(torch.zeros(2, columns, dtype=torch.long))
    with pytest.raises(ValueError, match=r"torch\.int64"):
        scaler(np.zeros((2, columns), dtype=int))


@affine
def test_fold_refuses_a_layer_of_other_logits(make):
    with pytest.raises(ValueError, match=r"\b5\b.*out_features=4"):
        make().fit(LOGITS, LABELS).fold(nn.Linear(3, 4))


@not_affine
def test_fold_refuses_what_is_no_affine_map(make, data):
    with pytest.raises(ValueError, match=f"{make.__name__} .*affine map"):
        make().fit(*data).fold(nn.Linear(3, data[0].shape[1]))


@on_log_softmax
def test_fold_refuses_a_map_of_log_probabilities(make):
    with pytest.raises(ValueError, match=f'{make.__name__} .*on="logits"'):
        make().fit(LOGITS, LABELS).fold(nn.Linear(3, 5))


def unknown_of(make):
    """Whether the last column of LOGITS is declared unknown: wherever that is allowed."""
    return make not in (BetaScaling, IsotonicScaling)


@every_scaler
def test_a_constant_added_to_a_row_changes_nothing(make, data):
    logits, labels = data[0].double(), data[1]
    constants = 20 * torch.randn(len(logits), 1, generator=torch.Generator().manual_seed(0))
    for unknown in {False, unknown_of(make)} - ({False} if make is ReadoutScaling else set()):
        plain = make().fit(logits, labels, unknown_class=unknown)
        shifted = make().fit(logits + constants, labels, unknown_class=unknown)
        expected = plain.probs(logits)
        for scaler in (plain, shifted):
            for values in (logits, logits + constants):
                torch.testing.assert_close(scaler.probs(values), expected, rtol=1e-5, atol=1e-6)


@every_scaler
def test_logits_and_probabilities_of_one_model_give_the_same_scaler(make, data):
    logits, labels = data[0].double(), data[1]
    probs = logits.softmax(dim=1)
    for unknown in {False, unknown_of(make)} - ({False} if make is ReadoutScaling else set()):
        by_logits = make().fit(logits, labels, unknown_class=unknown)
        by_probs = make().fit(probs, labels, unknown_class=unknown, from_probs=True)
        expected = by_logits.probs(logits)
        for scaler in (by_logits, by_probs):
            found = scaler.probs(probs, from_probs=True)
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@on_log_softmax
@pytest.mark.parametrize("unknown", [False, True])
def test_either_map_is_saved_with_what_it_reads(make, unknown, tmp_path):
    outputs = []
    for number, on in enumerate(("log-softmax", "logits")):
        scaler = make(0.01, on=on).fit(LOGITS, LABELS, unknown_class=unknown)
        loaded = load(save(scaler, tmp_path / f"{number}.npz"))
        other = make(on="logits" if on == "log-softmax" else "log-softmax")
        other.load_state_dict(scaler.state_dict())
        for twin in (loaded, other, copy.deepcopy(scaler)):
            assert twin.on == on
            assert torch.equal(twin(LOGITS), scaler(LOGITS))
        outputs.append(scaler.probs(LOGITS))
        assert ("on='logits'" in repr(scaler)) == (on == "logits")
    assert not torch.allclose(*outputs, atol=1e-4)
    with pytest.raises(ValueError, match="'logit'"):
        make(on="logit")


@on_log_softmax
def test_states_and_files_of_earlier_versions_read_the_logits(make):
    scaler = make(1.0, on="logits").fit(LOGITS, LABELS)
    kept = describe(scaler)
    earlier = {
        key: kept.attributes[key] for key in kept.attributes.keys() - {"on", "unknown_class"}
    }
    state = scaler.state_dict()
    assert state["_extra_state"].ndim == 0  # as it was
    name = next(name for name, kind in SCALERS.items() if kind is make)
    for attributes in (earlier, {}):
        assert torch.equal(rebuild(name, attributes, state)(LOGITS), scaler(LOGITS))
    del state["_extra_state"]  # as in a file of its own
    assert torch.equal(rebuild(name, earlier, state)(LOGITS), scaler(LOGITS))


@not_affine
def test_log_probabilities_are_returned(make, data):
    torch.testing.assert_close(make().fit(*data)(data[0]).exp().sum(dim=1), torch.ones(600))


def spoiled(value):
    logits = torch.randn(4, 3)
    logits[2, 1] = value
    return logits


GOOD, FINE = torch.randn(4, 3), torch.tensor([0, 1, 0, 1])
BAD = {
    "no dimension": (torch.tensor(1.0), FINE, r"shape \(\)"),
    "scores of three classes": (torch.randn(4), FINE + 1, r"labels hold 2"),
    "three-dimensional": (torch.randn(4, 3, 2), FINE, r"shape \(4, 3, 2\)"),
    "no column": (torch.randn(4, 0), FINE, r"shape \(4, 0\)"),
    "empty": (torch.randn(0, 3), FINE[:0], r"shape \(0, 3\).*at least 1 sample"),
    "integer logits": (
        torch.ones(4, 3, dtype=torch.long),
        FINE,
        "torch.int64, expected floating point",
    ),
    "complex logits": (torch.ones(4, 3, dtype=torch.complex64), FINE, "floating point"),
    "NaN": (spoiled(np.nan), FINE, "1 of 4 .*NaN.*row 2"),
    "infinity": (
        spoiled(-np.inf),
        FINE,
        r"1 of 4 rows .*row 2.*logits\.clip",
    ),
    "masked": (
        np.ma.masked_array(np.ones((4, 3)), mask=np.eye(4, 3)),
        FINE,
        "logits .*masked",
    ),
    "ragged list": (
        [[0.1, 0.2], [0.3]],
        FINE,
        "logits .*form an array",
    ),
    "list of integers": (
        [[1, 2, 0]] * 4,
        FINE,
        r"torch.int64, expected floating point.*float",
    ),
    "array of integers": (
        np.ones((4, 3), dtype=int),
        FINE,
        r"torch.int64, expected floating point.*float",
    ),
    "nothing": (GOOD, None, "labels have shape"),
    "strange numpy type": (
        np.array([["a", "b"]]),
        FINE,
        r"logits has dtype <U1",
    ),
    "float labels": (
        GOOD,
        FINE.float(),
        r"labels have dtype float32",
    ),
    "float array labels": (
        GOOD,
        FINE.float().numpy(),
        r"labels have dtype float32",
    ),
    "float list labels": (
        GOOD,
        [0.0, 1.0, 0.0, 1.0],
        r"labels have dtype float64",
    ),
    "boolean labels": (
        torch.randn(4, 4),
        FINE.bool(),
        "labels have dtype bool",
    ),
    "one-hot labels": (GOOD, torch.eye(3, dtype=torch.long)[FINE], "labels have shape .*one-hot"),
    "overflowing logits": (
        GOOD.double() * 1e60,
        FINE,
        r"too large, .*logits.clip\(",
    ),
    "too few labels": (GOOD, FINE[:3], r"3 labels for 4 rows"),
    "label too large": (GOOD, FINE + 2, "labels hold 3"),
    "negative label": (GOOD, FINE - 1, "labels hold -1"),
}


@every_scaler
@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
def test_bad_input_is_named(make, case):
    logits, labels, message = case
    if make is ReadoutScaling:  # one class less
        message = message.replace("0 to 2", "0 to 1").replace("hold 2", "shape")
        message = message.replace("labels shape", "logits have shape")
    with pytest.raises(ValueError, match=message) as caught:
        make().fit(logits, labels)
    assert make.__name__ in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"), [(IsotonicScaling, "use ReadoutScaling"), (BetaScaling, "5 columns")]
)
def test_an_unknown_class_is_refused_in_words(make, message):
    with pytest.raises(ValueError, match=message):
        make().fit(LOGITS, LABELS, unknown_class=True)


def test_readout_needs_an_unknown_class():
    with pytest.raises(ValueError, match="use TemperatureScaling"):
        ReadoutScaling().fit(LOGITS, LABELS, unknown_class=False)


def test_readout_needs_two_classes_beside_the_unknown():
    with pytest.raises(ValueError, match="2 classes"):
        ReadoutScaling().fit(torch.randn(4, 2), torch.zeros(4, dtype=torch.long))


@every_scaler
def test_probabilities_that_do_not_fit_are_called_so(make, data):
    scaler = make().fit(*data)
    with pytest.raises(ValueError, match=r"probs .*\(1, 9\)"):
        scaler(torch.eye(9)[:1], from_probs=True)
    with pytest.raises(ValueError, match=r"probs .*torch\.int64"):
        scaler(torch.eye(data[0].shape[1], dtype=torch.long), from_probs=True)
