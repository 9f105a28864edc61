"""The door of the metrics: what comes in, in which kinds, and what is turned away with which
words."""

import re
from contextlib import nullcontext

import numpy as np
import pytest
import torch

from socrates.metrics import (
    CalibrationMeter,
    Prediction,
    Top,
    accuracy,
    ada_ece,
    augrc,
    aupr,
    aurc,
    auroc,
    bootstrap,
    brier,
    coverage_at_risk,
    cw_ece,
    debiased_ece,
    ece,
    floor,
    fpr_at_tpr,
    mce,
    nll,
    predict,
    reliability,
    risk_coverage,
    smooth_ece,
)

METRICS = [ece, mce, ada_ece, cw_ece, debiased_ece, smooth_ece, accuracy, nll, brier, aurc]
GOOD = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])
LABELS = np.array([0, 1])


def names(metric):
    return metric.__name__


@pytest.fixture(scope="module")
def case():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(400, 20, generator=generator, dtype=torch.float64)
    return logits.softmax(dim=1), torch.randint(0, 20, (400,), generator=generator)


BAD_ROWS = {
    "logits": (
        np.array([[2.0, -1.0, 0.5], [0.1, 0.8, 0.1]]),
        r"row 0 .*-1.*predict\(logits\)",
    ),
    "positive logits": (
        np.array([[0.7, 0.2, 0.1], [3.0, 2.0, 1.0]]),
        r"row 1 .*6.*apply softmax",
    ),
    "log-probabilities": (np.log(GOOD), r"holds -2.30259"),
    "row sum": (GOOD * 0.99, r"sums to 0.99"),
    "tiny negative": (
        np.array([[1.0, 0.0, -1e-9], [0.1, 0.8, 0.1]]),
        r"holds -1e-09, .*clip",
    ),
    "NaN": (
        np.array([[0.7, 0.2, 0.1], [np.nan, 0.8, 0.1]]),
        r"row 1 .*NaN or infinity",
    ),
    "infinity": (
        np.array([[np.inf, 0.2, 0.1], [0.1, 0.8, 0.1]]),
        r"row 0 .*NaN or infinity",
    ),
    "opposite infinities": (
        np.array([[np.inf, -np.inf, 1.0], [0.1, 0.8, 0.1]]),
        r"holds NaN or infinity",
    ),
    "huge": (np.full((2, 3), 3e38, np.float32), r"sums to inf"),
    "integers": (
        np.array([[1, 0, 0], [0, 1, 0]]),
        r"dtype int64",
    ),
    "booleans": (
        torch.tensor([[True, False], [False, True]]),
        r"dtype bool",
    ),
    "complex": (GOOD + 0j, r"dtype complex128"),
    "text": ([["a", "b"], ["c", "d"]], r"expected floating point"),
    "ragged": ([[0.5, 0.5], [1.0]], r"probs .*form an array"),
    "logits of class 1": (
        np.array([0.7, 1.8]),
        r"probs .*1\.8 at position 1, .*sigmoid",
    ),
    "a column of logits": (
        np.array([[-0.5], [0.8]]),
        r"probs .*-0\.5 at position 0",
    ),
    "a NaN among scores": (
        np.array([0.7, np.nan]),
        r"probs .*nan at position 1",
    ),
    "masked": (np.ma.array(GOOD, mask=GOOD == 0.8), r"probs holds masked entries.*drop those rows"),
    "three dimensions": (GOOD[None], r"shape \(1, 2, 3\)"),
    "no rows": (np.zeros((0, 3)), r"shape \(0, 3\)"),
    "no columns": (torch.zeros(2, 0), r"shape \(2, 0\)"),
    "nothing": ([], r"shape \(0,\)"),
    "none": (None, r"expected floating point"),
}

BAD_LABELS = {
    "too large": (np.array([0, 3]), r"labels hold 3"),
    "negative": (np.array([-100, 1]), r"labels hold -100, .*drop"),
    "floats": (np.array([0.0, 1.0]), r"dtype float64"),
    "booleans": (torch.tensor([True, False]), r"dtype bool"),
    "one-hot": (np.eye(3, dtype=int)[:2], r"shape \(2, 3\), expected \(2,\).*argmax"),
    "a column": (torch.tensor([[0], [1]]), r"shape \(2, 1\), expected \(2,\).*squeeze"),
    "too few": (np.array([0]), r"1 labels for 2 rows"),
    "too many": ([0, 1, 2], r"3 labels for 2 rows"),
    "a scalar": (0, r"shape \(\), expected \(2,\)"),
    "empty": (np.array([], int), r"0 labels for 2 rows"),
    "names": (["cat", "dog"], r"expected class numbers"),
    "ragged": ([[0], [1, 2]], r"labels .*form an array"),
    "masked": (np.ma.array([0, 1], mask=[False, True]), r"labels holds masked entries"),
}


@pytest.mark.parametrize("metric", METRICS, ids=names)
@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows(metric, name):
    probs, message = BAD_ROWS[name]
    with pytest.raises(ValueError, match=message):
        metric(probs, LABELS)


@pytest.mark.parametrize("metric", METRICS, ids=names)
@pytest.mark.parametrize("name", BAD_LABELS)
def test_bad_labels(metric, name):
    labels, message = BAD_LABELS[name]
    with pytest.raises(ValueError, match=message):
        metric(GOOD, labels)


@pytest.mark.parametrize("num_bins", [0, -1, 1.5, True, "15", None])
@pytest.mark.parametrize(
    "metric", [ece, mce, ada_ece, cw_ece, debiased_ece, reliability], ids=names
)
def test_bad_num_bins(metric, num_bins):
    with pytest.raises(ValueError, match=re.escape(f"num_bins={num_bins!r}")):
        metric(GOOD, LABELS, num_bins=num_bins)


BAD_CALLS = {
    "more classes than columns": (
        lambda: cw_ece(GOOD, LABELS, num_classes=4),
        r"num_classes=4",
    ),
    "no classes": (
        lambda: cw_ece(GOOD, LABELS, num_classes=0),
        r"num_classes=0",
    ),
    "label outside num_classes": (
        lambda: cw_ece(GOOD, [0, 2], num_classes=2),
        r"labels hold 2",
    ),
    "bootstrap: no resamples": (
        lambda: bootstrap(ece, GOOD, LABELS, num_resamples=0),
        r"num_resamples=0",
    ),
    "bootstrap: percent": (
        lambda: bootstrap(ece, GOOD, LABELS, confidence=95),
        r"confidence=95, expected a share",
    ),
    "bootstrap: bad rows": (lambda: bootstrap(ece, GOOD * 2, LABELS), r"sums to 2"),
    "floor: no draws": (lambda: floor(ece, GOOD, num_draws=0), r"num_draws=0"),
    "floor: quantile": (lambda: floor(ece, GOOD, quantile=95), r"quantile=95"),
    "floor: bad rows": (lambda: floor(nll, GOOD * 2), r"sums to 2"),
    "risk_coverage: short scores": (
        lambda: risk_coverage(GOOD, LABELS, confidence=[0.1]),
        r"1 confidences for 2",
    ),
    "risk_coverage: NaN": (
        lambda: risk_coverage(GOOD, LABELS, confidence=[0.1, np.nan]),
        r"nan at position 1",
    ),
    "coverage_at_risk: percent": (
        lambda: coverage_at_risk(GOOD, LABELS, max_risk=5),
        r"max_risk=5",
    ),
    "auroc: nothing unknown": (lambda: auroc([0.5], []), r"unknown has shape \(0,\)"),
    "aupr: a matrix": (lambda: aupr(GOOD, [0.5]), r"known has shape \(2, 3\)"),
    "fpr_at_tpr: percent": (lambda: fpr_at_tpr([0.5], [0.4], tpr=95), r"tpr=95"),
    "fpr_at_tpr: integers": (lambda: fpr_at_tpr([1, 2], [0.4]), r"known has dtype int64"),
    "predict: integers": (
        lambda: predict(torch.tensor([[1, 2]])),
        r"dtype torch.int64",
    ),
    "predict: NaN": (
        lambda: predict(np.array([[0.0, 1.0], [np.nan, 0.0]])),
        r"row 1 hold NaN or infinity",
    ),
    "predict: infinity": (
        lambda: predict(torch.tensor([[0.0, torch.inf]])),
        r"row 0 hold NaN or infinity",
    ),
    "predict: a vector": (lambda: predict(torch.zeros(3)), r"shape \(3,\)"),
    "predict: no rows": (lambda: predict(torch.zeros(0, 3)), r"shape \(0, 3\)"),
    "predict: only unknown": (
        lambda: predict(torch.zeros(2, 1), unknown="spread"),
        r"C >= 2: one unknown column",
    ),
    "predict: reading": (
        lambda: predict(torch.zeros(2, 3), unknown="ignore"),
        r"'ignore' is not a reading",
    ),  # type: ignore
    "predict: ragged": (
        lambda: predict([[0.1], [0.2, 0.3]]),
        r"logits .*form an array",
    ),
    "predict: text": (lambda: predict([["a", "b"]]), r"logits has dtype <U1"),
    "a Prediction of unequal lengths": (
        lambda: ece(Prediction(GOOD, np.array([0.7]), np.array([0]), 3), LABELS),
        r"2, 1 and 1",
    ),
    "Top: percent": (lambda: Top.of([90.0], [1]), r"confidence holds 90"),
    "Top: above one": (
        lambda: Top.of([0.5, 1.25], [1, 0]),
        r"confidence holds 1\.25",
    ),
    "Top: negative": (
        lambda: Top.of([0.5, -0.1], [1, 0]),
        r"confidence holds -0\.1",
    ),
    "Top: labels": (lambda: Top.of([0.9, 0.8], [0, 2]), r"correct .*0 and 1"),
    "Top: names": (lambda: Top.of([0.9], ["yes"]), r"correct .*0 and 1"),
    "Top: lengths": (lambda: Top.of([0.9], [1, 0]), r"correct has shape \(2,\)"),
    "Top beside labels": (lambda: ece(Top.of([0.9], [1]), [0]), r"got labels beside a Top"),
    "no labels": (lambda: ece(GOOD), r"probs without labels"),
    "Top for whole rows": (
        lambda: cw_ece(Top.of([0.9], [1]), [0]),
        r"correctness alone",
    ),  # type: ignore
    "predict: masked": (
        lambda: predict(np.ma.array(GOOD, mask=GOOD > 0.7)),
        r"logits holds masked entries",
    ),
    "predict: classes": (
        lambda: predict(GOOD, "answer", num_classes=4),
        r"3 columns",
    ),
    "predict: no reading": (lambda: predict(GOOD, num_classes=2), r"say how to read it"),
    "meter: other classes": (
        lambda: CalibrationMeter(num_classes=4).update(GOOD, LABELS),
        r"3 classes, .* for 4",
    ),
    "meter: no bins": (lambda: CalibrationMeter(num_bins=0), r"num_bins=0"),
    "meter: nothing seen": (lambda: CalibrationMeter().compute(), r"seen no samples"),
}


SHARES = {  # the call, and whether 0 and 1 are shares that it takes
    "confidence": (
        lambda share: bootstrap(ece, GOOD, LABELS, num_resamples=2, confidence=share),
        False,
        False,
    ),
    "quantile": (lambda share: floor(ece, GOOD, num_draws=2, quantile=share), True, True),
    "max_risk": (lambda share: coverage_at_risk(GOOD, LABELS, max_risk=share), True, True),
    "tpr": (lambda share: fpr_at_tpr([0.5], [0.4], tpr=share), False, True),
}


@pytest.mark.parametrize("name", SHARES)
def test_shares_end_at_0_and_1(name):
    call, takes_0, takes_1 = SHARES[name]
    for share, fine in ((-0.01, False), (0.0, takes_0), (0.5, True), (1.0, takes_1), (1.01, False)):
        with nullcontext() if fine else pytest.raises(ValueError, match=f"{name}={share!r}, "):
            call(share)


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls(name):
    call, message = BAD_CALLS[name]
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("metric", METRICS, ids=names)
def test_torch_numpy_and_mixed_agree(metric, case):
    probs, labels = case
    expected = metric(probs, labels)
    assert type(expected) is float
    for given_probs, given_labels in [
        (probs.numpy(), labels.numpy()),
        (probs, labels.numpy()),
        (probs.numpy(), labels),
        (probs.tolist(), labels.tolist()),
        (probs.clone().requires_grad_(), labels),
        (probs.t().contiguous().t(), labels.repeat_interleave(2)[::2]),
        (np.asfortranarray(probs.numpy()), labels.numpy().astype(np.int16)),
        (np.repeat(probs.numpy(), 2, axis=0)[::2], labels.to(torch.uint8)),
        (probs.numpy()[::-1], labels.numpy()[::-1].astype(np.uint64)),
        (probs.numpy().astype(np.longdouble), labels),
    ]:
        assert metric(given_probs, given_labels) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("metric", METRICS, ids=names)
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float32, 1e-6), (torch.float16, 2e-3), (torch.bfloat16, 1e-2)],
    ids=str,
)
def test_lower_precisions_agree(metric, dtype, tolerance):
    # Confidences away from the edges, so that rounding moves no sample to another bin.
    confidence = torch.tensor([0.55, 0.63, 0.75, 0.83, 0.9, 0.97], dtype=torch.float64).repeat(20)
    probs = torch.stack([confidence, 1 - confidence], dim=1)
    labels = (torch.arange(120) % 3 == 0).long()
    assert metric(probs.to(dtype), labels) == pytest.approx(metric(probs, labels), abs=tolerance)
    if dtype != torch.bfloat16:
        assert metric(probs.to(dtype).numpy(), labels) == metric(probs.to(dtype), labels)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("num_classes", [2, 100, 1000, 30_000])
def test_half_precision_softmax_is_accepted_and_reads_as_the_same_values_wider(dtype, num_classes):
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(200, num_classes, generator=generator)
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator).squeeze(1)
    probs = logits.to(dtype).softmax(dim=1)
    if num_classes == 1000:
        # what single precision would not show
        assert abs(probs.float().sum(dim=1) - 1).max() > 1e-4
    for metric in (ece, mce, ada_ece, cw_ece, smooth_ece, accuracy, brier, aurc):
        expected = metric(probs, labels)
        assert (
            expected
            == metric(probs.float(), labels)
            == pytest.approx(metric(probs.double(), labels), abs=1e-6)
        )
        assert expected == metric(probs.float().numpy(), labels.numpy())
    np.testing.assert_array_equal(
        reliability(probs, labels).count, reliability(probs.float(), labels).count
    )
    assert ece(probs, labels) == pytest.approx(ece(logits.softmax(dim=1), labels), abs=0.02)


@pytest.mark.parametrize("num_rows", [300, 4000])  # one chunk, and two
def test_half_precision_of_any_layout_is_read_in_parts(num_rows, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    probs = (
        torch.randn(num_rows, 300, generator=torch.Generator().manual_seed(0)).softmax(dim=1).half()
    )
    labels = torch.arange(num_rows) % 300
    fixed = probs.numpy().copy()
    fixed.flags.writeable = False
    for given in (
        probs,
        probs.T.contiguous().T,
        probs.repeat(1, 2)[:, :300],
        probs.repeat_interleave(2, dim=0)[::2],
        fixed,
    ):
        assert brier(given, labels) == brier(probs.float(), labels)
        assert ece(given, labels) == ece(probs.float(), labels)
    probs[-1, 0] = 0.5
    with pytest.raises(ValueError, match=rf"row {num_rows - 1} .*1\.49"):
        ece(probs, labels)


def test_half_precision_edges_are_those_of_float32():
    """In bfloat16 the edge 14/15 is 0.93359375 itself: rounded to it, the edge would move the first
    row."""
    probs = torch.tensor([[0.93359375, 0.06640625], [0.99609375, 0.00390625]], dtype=torch.bfloat16)
    assert (
        ece(probs, [1, 0])
        == ece(probs.float(), [1, 0])
        == pytest.approx((0.93359375 - 1 + 0.99609375) / 2)
    )


SUMS = {
    "bfloat16 in float32": (np.array([[0.5, 0.5078125]], np.float32), None),
    "float16 in float64": (np.array([[0.5, 0.509765625]]), None),
    "two decimals": (np.array([[0.33, 0.33, 0.33], [0.5, 0.25, 0.26]]), None),
    "three decimals in float32": (np.array([[0.25, 0.25, 0.25, 0.252]], np.float32), None),
    "beyond two decimals": (np.array([[0.33, 0.33, 0.31]]), r"sums to 0\.97"),
    "one value of more decimals": (np.array([[0.33, 0.33, 0.3312]]), r"sums to 0\.9912"),
    "beyond half precision": (
        np.array([[0.5, 0.53125]], np.float32),
        r"1\.03125, expected 1 within 0\.001, or within 0\.02",
    ),
    "too low": (np.array([[0.5, 0.46875]], np.float32), r"sums to 0\.96875"),
    "not of half precision": (
        np.array([[0.5, 0.505]], np.float32),
        r"1\.005, .*divide each row",
    ),
    "only one row of half precision": (
        np.array([[0.5, 0.5078125], [0.5, 0.505]]),
        r"row 1 .*1\.005",
    ),
    "half-precision logits": (
        torch.tensor([[0.75, 0.5], [0.5, 0.5]]).bfloat16(),
        r"row 0 .*1\.25",
    ),
    "logits in float32": (torch.tensor([[0.75, 0.5]]), r"sums to 1\.25.*apply softmax"),
    "negative logits": (torch.tensor([[1.5, -0.5]]), r"holds -0\.5"),
}


@pytest.mark.parametrize(("probs", "message"), SUMS.values(), ids=SUMS)
def test_how_far_a_row_may_miss_one(probs, message):
    labels = np.zeros(len(probs), int)
    if message is None:
        assert accuracy(probs, labels) in (0.0, 1.0)
    else:
        with pytest.raises(ValueError, match=message):
            ece(probs, labels)


def test_boolean_labels_are_two_classes():
    for metric in METRICS:
        assert metric(GOOD[:, :2] / GOOD[:, :2].sum(axis=1, keepdims=True), LABELS == 1) == metric(
            GOOD[:, :2] / GOOD[:, :2].sum(axis=1, keepdims=True), LABELS
        )


def test_an_unmasked_masked_array_is_an_array():
    assert ece(np.ma.array(GOOD), np.ma.array(LABELS)) == ece(GOOD, LABELS)


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor, list], ids=["numpy", "torch", "list"])
def test_confidence_and_correctness_in_place_of_rows(kind, case):
    probs, labels = case
    confidence, predicted = probs.max(dim=1)
    correct = (predicted == labels).numpy()
    top = Top.of(kind(confidence.tolist()), kind(correct.tolist()))
    single = kind is torch.tensor  # a list of floats becomes float32
    for metric in (ece, mce, ada_ece, debiased_ece, smooth_ece, accuracy, aurc, augrc):
        assert metric(top) == pytest.approx(metric(probs, labels), abs=1e-6 if single else 1e-15)
    assert coverage_at_risk(top, None, 0.9) == coverage_at_risk(probs, labels, 0.9)
    np.testing.assert_array_equal(reliability(top).count, reliability(probs, labels).count)
    np.testing.assert_allclose(risk_coverage(top).risk, risk_coverage(probs, labels).risk)
    if not single:
        assert bootstrap(ece, top, num_resamples=20) == bootstrap(
            ece, probs, labels, num_resamples=20
        )
        assert floor(ece, top, num_draws=5) == floor(ece, probs, num_draws=5)
    assert ece(Top.of([0.9, 0.6], [1.0, 0.0])) == pytest.approx(0.35)


@pytest.mark.parametrize("metric", METRICS, ids=names)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("num_columns", [3, 16, 17, 40])
def test_negative_values_are_found_in_rows_of_any_width(metric, dtype, num_columns):
    probs = np.zeros((50, num_columns), dtype)
    probs[:, -1] = 1
    probs[33, :3] = [-0.25, 0.5, 0.5]
    probs[33, -1] += 0.25 - probs[33].sum() + 0.75
    with pytest.raises(ValueError, match=r"row 33 .*-0\.25"):
        metric(probs, np.zeros(50, int))


@pytest.mark.parametrize("metric", METRICS, ids=names)
@pytest.mark.parametrize("num_columns", [3, 40])
def test_minus_zero_is_zero(metric, num_columns):
    probs = np.zeros((50, num_columns), np.float32)
    probs[:, 1], probs[:, 2] = 0.25, 0.75
    labels = 1 + np.arange(50) % 2
    expected = metric(probs, labels)
    probs[7:, 0] = -0.0
    assert metric(probs, labels) == expected


def test_input_is_left_alone():
    probs, labels = GOOD.copy(), LABELS.copy()
    probs.flags.writeable = labels.flags.writeable = False
    for metric in METRICS:
        metric(probs, labels)
    wide = np.full((4, 50), 0.02)
    wide.flags.writeable = False  # torch warns about such arrays
    assert accuracy(wide, np.zeros(4, int)) == 1.0


def test_single_sample_and_single_class():
    single = predict([[3.0]])
    assert single.probs.tolist() == [[1.0]]
    # a Prediction of one class; a column of numbers would be scores of class 1 among two
    for metric in METRICS:
        assert np.isfinite(metric(single, [0]))
        assert np.isfinite(metric([[0.2, 0.8]], [0]))


def test_bad_rows_are_found_beyond_the_first_chunk():
    probs = np.full((300_000, 2), 0.5)
    probs[299_999] = [0.5, 0.6]
    for metric in (ece, cw_ece, nll):
        with pytest.raises(ValueError, match=r"row 299999 .*1\.1"):
            metric(probs, np.zeros(300_000, int))


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([1, 0], ["1", "0"]),
        (["1", "0"], [1, 0]),
        ([1.0, 0.0], ["1", "0"]),
        ([2, 1], ["2.0", "1.0"]),
        ([True, False], ["yes", "no"]),
        ([True, False], ["True", "False"]),
        ([False, True], ["no", "yes"]),
        ([0, 1], ["no", "yes"]),
        ([0, 1], ["cat", "dog"]),
    ],
)
def test_labels_that_are_names_are_names(labels, classes):
    assert accuracy([[0.9, 0.1], [0.2, 0.8]], labels, classes=classes) == 1


@pytest.mark.parametrize(
    ("labels", "classes", "word"),
    [
        ([True, False], ["cat", "dog"], "true and false"),
        ([1, 0], ["yes", "no"], "'yes'"),
        ([0, 1], ["1", "2"], "labels hold 0"),
    ],
)
def test_labels_of_two_meanings_are_refused(labels, classes, word):
    with pytest.raises(ValueError, match=word):
        accuracy([[0.9, 0.1], [0.2, 0.8]], labels, classes=classes)


def test_the_softmax_of_one_class_is_no_score():
    with pytest.raises(ValueError, match="one output"):
        ece(np.ones((5, 1)), [0] * 5)
    assert accuracy(np.array([[1.0], [0.25]]), [1, 0]) == 1


def test_nll_is_never_below_0():
    assert nll([[1.0009, 0.0]], [0]) == 0
    meter = CalibrationMeter(num_classes=2)
    meter.update(np.array([[1.0009, 0.0]]), np.array([0]))
    assert meter.compute()["nll"] == 0
