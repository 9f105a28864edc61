"""What the unknown column means, and how the metrics read a Prediction."""

import numpy as np
import pytest
import torch

from socrates.metrics import (
    READINGS,
    Prediction,
    accuracy,
    brier,
    cw_ece,
    ece,
    has_unknown,
    nll,
    predict,
    reliability,
)
from socrates.metrics.predictions import probabilities

ALL_READINGS = [None, *READINGS]
# exp: 1, 2, 5 with unknown 5: the softmax over all is 1/8, 2/8, 5/8; over the first two 1/3, 2/3.
LOGITS = torch.tensor([[1.0, 2.0, 5.0]]).log()
BY_HAND = {
    None: ([1 / 8, 2 / 8, 5 / 8], 5 / 8, 2, 3),
    "answer": ([1 / 8, 2 / 8, 5 / 8], 5 / 8, 2, 2),
    "abstain": ([1 / 8, 2 / 8], 2 / 8, 1, 2),
    "renormalize": ([1 / 3, 2 / 3], 2 / 3, 1, 2),
    "spread": ([1 / 8 + 5 / 16, 2 / 8 + 5 / 16], 9 / 16, 1, 2),
}


@pytest.mark.parametrize("reading", ALL_READINGS)
@pytest.mark.parametrize("kind", ["torch", "numpy", "list"])
def test_by_hand(reading, kind):
    logits = {"torch": LOGITS, "numpy": LOGITS.numpy(), "list": LOGITS.tolist()}[kind]
    probs, confidence, predicted, num_classes = BY_HAND[reading]
    result = predict(logits, unknown=reading)
    assert isinstance(result.probs, torch.Tensor if kind == "torch" else np.ndarray)
    np.testing.assert_allclose(result.probs, [probs], rtol=1e-6)
    np.testing.assert_allclose(result.confidence, [confidence], rtol=1e-6)
    np.testing.assert_array_equal(result.predicted, [predicted])
    assert result.num_classes == num_classes
    assert len(result) == 1
    assert [np.asarray(part).shape for part in result] == [(1, len(probs)), (1,), (1,)]


@pytest.mark.parametrize("reading", ALL_READINGS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_softmax_in_at_least_single_precision(reading, dtype):
    result = predict(LOGITS.to(dtype), unknown=reading)
    expected = torch.float64 if dtype == torch.float64 else torch.float32
    assert result.probs.dtype == result.confidence.dtype == expected


@pytest.mark.parametrize("reading", ALL_READINGS)
def test_gradients_flow(reading):
    logits = torch.randn(4, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    predict(logits, unknown=reading).confidence.sum().backward()
    assert logits.grad is not None
    assert logits.grad.abs().sum() > 0


def test_numpy_logits_are_left_alone():
    logits = LOGITS.numpy().copy()
    logits.flags.writeable = False
    predict(logits, unknown="spread")
    np.testing.assert_array_equal(logits, LOGITS.numpy())


@pytest.mark.parametrize("reading", ALL_READINGS)
def test_extreme_logits(reading):
    result = predict(torch.tensor([[3e38, -3e38, 0.0], [-1e4, -1e4, 1e4]]), unknown=reading)
    assert torch.isfinite(result.probs).all()
    if reading in (None, "answer", "renormalize", "spread"):
        torch.testing.assert_close(result.probs.sum(dim=1), torch.ones(2))


MASKED = [[0.0, -np.inf, 1.0], [-np.inf, -np.inf, 2.0], [-np.inf, 3.0, -np.inf]]


@pytest.mark.parametrize("reading", [None, "answer", "abstain", "spread"])
def test_masked_classes_have_probability_zero(reading):
    given = torch.tensor(MASKED, requires_grad=True)
    result = predict(given, unknown=reading)
    expected = predict(torch.tensor(MASKED).clamp(min=-1e4), unknown=reading)
    torch.testing.assert_close(result.probs, expected.probs)
    torch.testing.assert_close(result.predicted, expected.predicted)
    result.confidence.sum().backward()
    assert torch.isfinite(given.grad).all()
    assert 0 <= ece(result, [0, 1, 1]) <= 1


def test_renormalize_needs_a_known_class_that_is_not_masked():
    known = predict(np.array([MASKED[0], MASKED[2]]), unknown="renormalize")
    np.testing.assert_array_equal(known.probs, [[1, 0], [0, 1]])
    with pytest.raises(ValueError, match=r"known .*row 1\b"):
        predict(np.array(MASKED), unknown="renormalize")


@pytest.mark.parametrize("reading", ALL_READINGS)
@pytest.mark.parametrize(
    ("row", "value"),
    [
        ([np.nan, 0, 0], "NaN"),
        ([0, 0, np.nan], "NaN"),
        ([np.inf, 0, 0], "NaN"),
        ([-np.inf, np.nan, 0], "NaN"),
        ([-np.inf] * 3, "-infinity"),
    ],
)
def test_rows_without_a_softmax(reading, row, value):
    with pytest.raises(ValueError, match=f"row 1 .*{value}"):
        predict(torch.tensor([[0.0, 0.0, 0.0], row]), unknown=reading)


VIEWS = {
    "upside down": lambda logits: logits[::-1],
    "one row upside down": lambda logits: logits[:1][::-1],
    "columns reversed": lambda logits: logits[:, ::-1],
    "every other row": lambda logits: logits[::2],
    "Fortran": np.asfortranarray,
    "big-endian single": lambda logits: logits.astype(">f4"),
    "big-endian half": lambda logits: logits.astype(">f2"),
    "big-endian upside down": lambda logits: logits.astype(">f8")[::-1],
    "long double": lambda logits: logits.astype(np.longdouble),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_numpy_views_and_byte_orders(view):
    logits = view(np.random.default_rng(0).normal(size=(7, 4)))
    plain = torch.tensor(
        logits.tolist(), dtype=torch.float64 if logits.dtype.itemsize >= 8 else torch.float32
    )
    expected, result = predict(plain, unknown="spread"), predict(logits, unknown="spread")
    assert result.probs.dtype == expected.probs.numpy().dtype
    np.testing.assert_array_equal(result.probs, expected.probs.numpy())


@pytest.fixture(scope="module")
def case():
    generator = torch.Generator().manual_seed(0)
    return 2 * torch.randn(300, 6, generator=generator), torch.randint(
        0, 5, (300,), generator=generator
    )


def test_unknown_as_an_answer_is_never_right(case):
    logits, labels = case
    answer = predict(logits, unknown="answer")
    unknown = answer.predicted == 5
    assert unknown.any()
    right = (answer.predicted == labels) & ~unknown
    assert accuracy(answer, labels) == pytest.approx(right.double().mean().item())
    with pytest.raises(ValueError, match="5, expected 0 to 4"):
        accuracy(answer, torch.where(unknown, 5, labels))


def test_abstain_answers_what_renormalize_answers_with_less_confidence(case):
    logits, labels = case
    abstain, known = predict(logits, unknown="abstain"), predict(logits, unknown="renormalize")
    assert accuracy(abstain, labels) == accuracy(known, labels) == accuracy(known.probs, labels)
    assert (abstain.confidence < known.confidence).all()
    assert (abstain.probs.sum(dim=1) < 1).all()


def test_metrics_read_the_confidence_of_the_prediction(case):
    logits, labels = case
    abstain = predict(logits, unknown="abstain")
    correct = (abstain.predicted == labels).double()
    expected = abs(abstain.confidence.double().mean() - correct.mean())
    assert ece(abstain, labels, num_bins=1) == pytest.approx(expected.item())
    assert reliability(abstain, labels).count.sum() == 300
    with pytest.raises(ValueError, match="expected 1 within"):
        ece(abstain.probs, labels)


@pytest.mark.parametrize("reading", ["renormalize", "spread"])
def test_a_prediction_whose_rows_sum_to_one_reads_as_its_probabilities(case, reading):
    logits, labels = case
    result = predict(logits, unknown=reading)
    for metric in (ece, cw_ece, nll, brier, accuracy):
        assert metric(result, labels) == metric(result.probs, labels)


def test_class_wise_error_is_averaged_over_known_classes(case):
    logits, labels = case
    answer, abstain = predict(logits, unknown="answer"), predict(logits, unknown="abstain")
    assert cw_ece(answer, labels) == pytest.approx(cw_ece(abstain, labels))
    assert cw_ece(answer, labels) == pytest.approx(cw_ece(answer.probs, labels, num_classes=5))
    assert cw_ece(answer, labels) != pytest.approx(cw_ece(answer.probs, labels))


def test_a_prediction_is_still_checked():
    prediction = Prediction(np.array([[0.9, 0.9]]), np.array([0.9]), np.array([0]), 2)
    with pytest.raises(ValueError, match=r"sums to 1\.8"):
        ece(prediction, [0])


def test_readings_are_named_and_explained_in_one_place():
    assert tuple(READINGS) == ("answer", "abstain", "renormalize", "spread")
    assert all(len(words.split()) > 5 and not words.endswith(".") for words in READINGS.values())


@pytest.mark.parametrize("columns", [6, 5])
@pytest.mark.parametrize("reading", READINGS)
def test_the_reading_is_dropped_where_there_is_no_unknown_column(case, columns, reading):
    logits = case[0][:, :columns]
    assert has_unknown(logits, 5) == has_unknown(logits.numpy(), 5) == (columns == 6)
    assert has_unknown(logits[None], 5) == (columns == 6)
    given, expected = (
        predict(logits, reading, num_classes=5),
        predict(logits, reading if columns == 6 else None),
    )
    assert given.num_classes == expected.num_classes == 5
    torch.testing.assert_close(given.confidence, expected.confidence, rtol=0, atol=0)
    assert given.unknown_share == float((expected.predicted == 5).double().mean())
    assert (given.unknown_share > 0) == (columns == 6 and reading == "answer")


@pytest.mark.parametrize("reading", ALL_READINGS)
def test_logarithms_are_those_of_the_probabilities(case, reading):
    logits = case[0].double()
    logarithm = probabilities(logits, reading, logarithm=True)
    torch.testing.assert_close(logarithm.exp(), predict(logits, reading).probs)


@pytest.mark.parametrize("kind", [torch.tensor, np.array])
def test_probabilities_in_the_place_of_logits_are_noticed(kind):
    rows = [[0.2, 0.8], [1.0, 0.0]]
    with pytest.warns(UserWarning, match="logits, .* 2 rows"):
        predict(kind(rows))
    predict(kind([*rows, [0.5, 0.6]]))
    predict(kind(rows[:1]))  # of one row that may be chance
    # also where rounding shows
    with pytest.warns(UserWarning, match="500 rows"):
        predict(
            torch.randn(500, 12, generator=torch.Generator().manual_seed(0))
            .softmax(dim=1)
            .bfloat16()
        )
    predict(kind([[1.0, 0.0], [0.0, 1.0]]))  # so may this
