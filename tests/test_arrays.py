"""The hall of the metrics: arrays of every kind and content, labels, weights, what is missing."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import isotonic_regression

from socrates.arrays.content import (
    check_probabilities,
    first_bad_row,
    open_labels,
    seem_probabilities,
    were_rounded,
)
from socrates.arrays.entries import open_event, open_probs, open_ranked, open_samples, open_top
from socrates.arrays.open import (
    as_numpy,
    as_tensor,
    check_positive,
    check_share,
    full_precision,
    like,
    open_floats,
    open_scores,
    open_weight,
    random_numbers,
    row_sums,
    weighted_mean,
)
from socrates.arrays.samples import Samples, SamplesView, Top
from socrates.isotonic import pool_adjacent_violators, pool_starts
from socrates.metrics import (
    accuracy,
    ada_ece,
    augrc,
    aurc,
    bootstrap,
    brier,
    calibration_test,
    corp,
    coverage_at_risk,
    cw_ece,
    debiased_ece,
    direction,
    ece,
    floor,
    mce,
    nll,
    predict,
    reliability,
    smooth_ece,
    worst_classes,
)

OF_TOP = [accuracy, ece, mce, ada_ece, debiased_ece, smooth_ece, aurc, augrc]
METRICS = [*OF_TOP, partial(coverage_at_risk, max_risk=0.3), nll, brier, cw_ece]
NAMES = np.array(["ant", "bee", "cat"])


def name_of(metric):
    return getattr(metric, "func", metric).__name__


def random_case(num_samples=60, seed=0):
    """Rows of sixteenths, which every floating point type holds, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    counts = 1 + rng.multinomial(13, [0.6, 0.3, 0.1], num_samples)
    probs = counts / 16
    labels = (probs.cumsum(axis=1) < rng.random((num_samples, 1))).sum(axis=1)
    return probs, labels


PROBS, LABELS = random_case()


class OnlyArray:
    """Something of another library, which knows no more than how to become an array."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)


def frame(dtype):
    return lambda rows: pd.DataFrame(rows, columns=["a", "b", "c"]).astype(dtype)


def mixed_frame(rows):
    columns = {"a": rows[:, 0], "b": rows[:, 1], "c": rows[:, 2]}
    types = {"a": "Float64", "b": "double[pyarrow]", "c": "float32"}
    return pd.DataFrame(columns).astype(types)


KINDS_OF_ROWS = {
    "numpy float64": lambda rows: rows,
    "numpy float32": lambda rows: rows.astype(np.float32),
    "numpy float16": lambda rows: rows.astype(np.float16),
    "numpy longdouble": lambda rows: rows.astype(np.longdouble),
    "numpy big endian": lambda rows: rows.astype(">f8"),
    "numpy reversed": lambda rows: rows[::-1].copy()[::-1],
    "numpy Fortran order": np.asfortranarray,
    "numpy objects": lambda rows: rows.astype(object),
    "torch float64": torch.tensor,
    "torch float32": lambda rows: torch.tensor(rows).float(),
    "torch float16": lambda rows: torch.tensor(rows).half(),
    "torch bfloat16": lambda rows: torch.tensor(rows).bfloat16(),
    "torch requires_grad": lambda rows: torch.tensor(rows, requires_grad=True),
    "torch bfloat16 requires_grad": lambda rows: torch.tensor(rows).bfloat16().requires_grad_(),
    "list": lambda rows: rows.tolist(),
    "tuple of tuples": lambda rows: tuple(map(tuple, rows.tolist())),
    "list of numpy": list,
    "list of tensors": lambda rows: [*torch.tensor(rows)],
    "list of bfloat16": lambda rows: [*torch.tensor(rows).bfloat16()],
    "list of tensors with grad": lambda rows: [*torch.tensor(rows, requires_grad=True)],
    "DataFrame float64": frame("float64"),
    "DataFrame float32": frame("float32"),
    "DataFrame Float64": frame("Float64"),
    "DataFrame pyarrow": frame("double[pyarrow]"),
    "DataFrame mixed": mixed_frame,
    "Series of lists": lambda rows: pd.Series(rows.tolist()),
    "Series of pyarrow lists": lambda rows: pd.Series(
        rows.tolist(), dtype=pd.ArrowDtype(pa.list_(pa.float64()))
    ),
    "DataFrame of a list column": lambda rows: pd.DataFrame({"probs": rows.tolist()}),
    "polars DataFrame": lambda rows: pl.DataFrame(rows, schema=["a", "b", "c"]),
    "polars Float32": lambda rows: pl.DataFrame(rows).cast(pl.Float32),
    "polars list": lambda rows: pl.Series(rows.tolist()),
    "polars array": lambda rows: pl.Series(rows.tolist(), dtype=pl.Array(pl.Float64, 3)),
    "polars list column": lambda rows: pl.DataFrame({"probs": rows.tolist()}),
    "pyarrow table": lambda rows: pa.table({name: rows[:, k] for k, name in enumerate("abc")}),
    "__array__": OnlyArray,
}
KINDS_OF_LABELS = {
    "numpy int16": lambda labels: labels.astype(np.int16),
    "numpy uint64": lambda labels: labels.astype(np.uint64),
    "numpy objects": lambda labels: labels.astype(object),
    "torch uint8": lambda labels: torch.tensor(labels).to(torch.uint8),
    "list": lambda labels: labels.tolist(),
    "list of tensors": lambda labels: [*torch.tensor(labels)],
    "pandas int64": pd.Series,
    "pandas Int64": lambda labels: pd.Series(labels, dtype="Int64"),
    "pandas pyarrow": lambda labels: pd.Series(labels, dtype="int64[pyarrow]"),
    "polars": pl.Series,
    "polars UInt8": lambda labels: pl.Series(labels, dtype=pl.UInt8),
    "pyarrow": pa.array,
    "__array__": OnlyArray,
}
KINDS_OF_NAMES = {
    "numpy": lambda names: names,
    "objects": lambda names: names.astype(object),
    "list": lambda names: names.tolist(),
    "pandas str": pd.Series,
    "pandas string": lambda names: pd.Series(names, dtype="string"),
    "pandas pyarrow": lambda names: pd.Series(names, dtype="string[pyarrow]"),
    "pandas category": lambda names: pd.Series(names, dtype="category"),
    "polars": pl.Series,
    "polars Categorical": lambda names: pl.Series(names, dtype=pl.Categorical),
    "polars Enum": lambda names: pl.Series(names, dtype=pl.Enum(NAMES.tolist())),
}
KINDS_OF_COLUMNS = {  # of floats
    "numpy": lambda values: values,
    "torch bfloat16": lambda values: torch.tensor(values).bfloat16(),
    "torch requires_grad": lambda values: torch.tensor(values, requires_grad=True),
    "list of tensors": lambda values: [*torch.tensor(values)],
    "pandas": pd.Series,
    "pandas Float64": lambda values: pd.Series(values, dtype="Float64"),
    "pandas pyarrow": lambda values: pd.Series(values, dtype="double[pyarrow]"),
    "polars": pl.Series,
    "polars Float32": lambda values: pl.Series(values, dtype=pl.Float32),
    "pyarrow": pa.array,
    "__array__": OnlyArray,
}
KINDS_OF_TRUTH = {
    "numpy": lambda values: values,
    "torch": torch.tensor,
    "list": lambda values: values.tolist(),
    "0 and 1": lambda values: values.astype(int),
    "pandas bool": pd.Series,
    "pandas boolean": lambda values: pd.Series(values, dtype="boolean"),
    "pandas pyarrow": lambda values: pd.Series(values, dtype="bool[pyarrow]"),
    "polars": pl.Series,
    "objects": lambda values: values.astype(object),
}


# Kinds of arrays


@pytest.mark.parametrize("kind", KINDS_OF_ROWS)
def test_every_metric_reads_every_kind_of_rows(kind):
    probs = KINDS_OF_ROWS[kind](PROBS)
    for metric in METRICS:
        assert metric(probs, LABELS) == pytest.approx(metric(PROBS, LABELS), abs=1e-6), name_of(
            metric
        )
    assert bootstrap(ece, probs, LABELS, num_resamples=3).low == pytest.approx(
        bootstrap(ece, PROBS, LABELS, num_resamples=3).low, abs=1e-6
    )
    assert floor(cw_ece, probs, num_draws=2) == pytest.approx(
        floor(cw_ece, PROBS, num_draws=2), abs=1e-6
    )
    assert corp(probs, LABELS).mcb == pytest.approx(corp(PROBS, LABELS).mcb, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS_OF_LABELS)
def test_every_metric_reads_every_kind_of_labels(kind):
    labels = KINDS_OF_LABELS[kind](LABELS)
    for metric in METRICS:
        assert metric(PROBS, labels) == metric(PROBS, LABELS), name_of(metric)


@pytest.mark.parametrize("kind", KINDS_OF_NAMES)
def test_names_of_every_kind(kind):
    names = KINDS_OF_NAMES[kind](NAMES[LABELS])
    for metric in METRICS:
        assert metric(PROBS, names, classes=NAMES) == metric(PROBS, LABELS), name_of(metric)
    assert ece(PROBS, LABELS, groups=names) == ece(PROBS, LABELS, groups=NAMES[LABELS])


@pytest.mark.parametrize("kind", KINDS_OF_COLUMNS)
def test_confidences_scores_and_weights_of_every_kind(kind):
    read = KINDS_OF_COLUMNS[kind]
    confidence, correct = PROBS.max(axis=1), PROBS.argmax(axis=1) == LABELS
    weight = np.arange(len(LABELS)) % 4 / 2
    for metric in OF_TOP:
        expected = metric(PROBS, LABELS, sample_weight=weight)
        assert metric(
            confidence=read(confidence), correct=correct, sample_weight=read(weight)
        ) == pytest.approx(expected, abs=1e-6), name_of(metric)
    assert brier(read(confidence), correct) == pytest.approx(brier(confidence, correct))
    assert aurc(PROBS, LABELS, read(confidence)) == aurc(PROBS, LABELS)


@pytest.mark.parametrize("kind", KINDS_OF_TRUTH)
def test_truth_of_every_kind(kind):
    confidence, correct = PROBS.max(axis=1), PROBS.argmax(axis=1) == LABELS
    truth = KINDS_OF_TRUTH[kind](correct)
    for metric in OF_TOP:
        assert metric(confidence=confidence, correct=truth) == metric(PROBS, LABELS)
    assert nll(confidence, truth) == nll(confidence, correct)


@pytest.mark.parametrize("kind", KINDS_OF_ROWS)
def test_predict_reads_every_kind_and_gives_tensors_for_tensors_alone(kind):
    logits = KINDS_OF_ROWS[kind](4 * PROBS)
    prediction = predict(logits)
    expected = predict(4 * PROBS)
    assert isinstance(prediction.probs, torch.Tensor) == isinstance(logits, torch.Tensor)
    assert as_numpy(prediction.probs, "probs") == pytest.approx(expected.probs, abs=1e-6)
    assert ece(prediction, LABELS) == pytest.approx(ece(expected, LABELS), abs=1e-6)


def test_predict_keeps_its_own_logits():
    logits = np.array([[0.0, 800.0]])
    prediction = predict(logits)
    logits[:] = 0
    assert nll(prediction, [0]) == 800


def test_arrays_are_not_copied_without_need():
    rows = np.ones((3, 2))
    assert np.shares_memory(as_numpy(rows, "x"), rows)
    assert np.shares_memory(as_numpy(torch.tensor(rows, requires_grad=True), "x"), rows) is False
    tensor = torch.ones(3, 2)
    assert np.shares_memory(as_numpy(tensor, "x"), tensor.numpy())
    assert as_tensor(tensor, "x") is tensor
    assert np.shares_memory(as_tensor(rows, "x").numpy(), rows)
    assert np.shares_memory(full_precision(rows), rows)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_single_reversed_row_becomes_a_tensor(dtype):
    row = np.array([[0.25, 0.75], [0.5, 0.5]], dtype)[:1][::-1]
    assert as_tensor(row, "x").tolist() == [[0.25, 0.75]]
    assert ece(row, [1]) == 0.25


def test_results_are_of_the_kind_that_was_passed_in():
    result = torch.tensor([1.0], requires_grad=True)
    assert like(result, torch.zeros(1)) is result
    assert isinstance(like(result, [1.0]), np.ndarray)
    assert isinstance(like(result, pd.Series([1.0])), np.ndarray)


@pytest.mark.parametrize(
    ("values", "fact"),
    [
        ([[0.5, 0.5], [1.0]], "x .*form an array"),
        (pd.Series([[0.5, 0.5], [1.0]]), "different lengths"),
        (pl.Series([[0.5, 0.5], None]), "x holds no value at position 1"),
        ([torch.zeros(2), torch.zeros(3)], "x .*form an array"),
        (np.ma.array([0.5, 0.5], mask=[False, True]), "masked"),
    ],
)
def test_what_is_not_an_array_is_refused(values, fact):
    with pytest.raises(ValueError, match=fact):
        as_numpy(values, "x")


def test_words_are_not_numbers():
    with pytest.raises(ValueError, match="dtype <U1"):
        as_tensor(["a"], "x")
    with pytest.raises(ValueError, match="dtype object"):
        open_floats(pd.Series(["a"]), "x", (1,))


# Missing values


MISSING_NUMBERS = {
    "pandas": pd.Series([0.5, None, 0.5]),
    "pandas Float64": pd.Series([0.5, None, 0.5], dtype="Float64"),
    "pandas pyarrow": pd.Series([0.5, None, 0.5], dtype="double[pyarrow]"),
    "polars": pl.Series([0.5, None, 0.5]),
    "pyarrow": pa.array([0.5, None, 0.5]),
    "objects": np.array([0.5, None, 0.5], object),
    "numpy": np.array([0.5, np.nan, 0.5]),
}
MISSING_LABELS = {
    "pandas Int64": pd.Series([1, None, 0], dtype="Int64"),
    "pandas float": pd.Series([1, None, 0]),
    "pandas pyarrow": pd.Series([1, None, 0], dtype="int64[pyarrow]"),
    "pandas boolean": pd.Series([True, None, False], dtype="boolean"),
    "polars": pl.Series([1, None, 0]),
    "polars Boolean": pl.Series([True, None, False]),
    "objects": np.array([1, None, 0], object),
}
MISSING_NAMES = {
    "pandas str": pd.Series(["no", None, "yes"]),
    "pandas string": pd.Series(["no", None, "yes"], dtype="string"),
    "pandas pyarrow": pd.Series(["no", None, "yes"], dtype="string[pyarrow]"),
    "pandas category": pd.Series(["no", None, "yes"], dtype="category"),
    "polars": pl.Series(["no", None, "yes"]),
    "polars Enum": pl.Series(["no", None, "yes"], dtype=pl.Enum(["no", "yes"])),
    "objects": np.array(["no", np.nan, "yes"], object),
}


@pytest.mark.parametrize("kind", MISSING_NUMBERS)
def test_missing_scores_are_refused_by_position(kind):
    values = MISSING_NUMBERS[kind]
    for call in (
        lambda: ece(values, [0, 1, 1]),
        lambda: ece(confidence=values, correct=[1, 1, 0]),
        lambda: aurc(PROBS[:3], LABELS[:3], values),
        lambda: nll([0.5, 0.5, 0.5], [0, 1, 1], sample_weight=values),
    ):
        with pytest.raises(ValueError, match=r"nan .*position 1\b"):
            call()


@pytest.mark.parametrize("kind", MISSING_LABELS)
def test_missing_labels_are_refused_by_position(kind):
    for metric in METRICS:
        with pytest.raises(ValueError, match=r"labels .* position 1"):
            metric([0.25, 0.5, 0.75], MISSING_LABELS[kind])
    expected = ece([0.25, 0.75], [1, 0], sample_weight=[1, 2])
    assert ece([0.25, 0.5, 0.75], MISSING_LABELS[kind], sample_weight=[1, 0, 2]) == expected


@pytest.mark.parametrize("kind", MISSING_NAMES)
def test_missing_names_are_refused_by_position_unless_they_weigh_nothing(kind):
    names, scores, classes = MISSING_NAMES[kind], [0.25, 0.5, 0.75], ["no", "yes"]
    with pytest.raises(ValueError, match=r"labels .* position 1"):
        ece(scores, names, classes=classes)
    expected = ece([0.25, 0.75], [0, 1], sample_weight=[1, 2])
    assert ece(scores, names, classes=classes, sample_weight=[1, 0, 2]) == expected


@pytest.mark.parametrize("kind", MISSING_LABELS)
def test_missing_correctness_is_refused_by_position(kind):
    with pytest.raises(ValueError, match=r"correct .* position 1"):
        ece(confidence=[0.5, 0.5, 0.5], correct=MISSING_LABELS[kind])


def test_rows_with_a_missing_value_are_refused_by_row():
    table = {"a": [0.5, None, 0.5], "b": [0.5, 0.5, 0.5]}
    for rows in (pd.DataFrame(table), pd.DataFrame(table, dtype="Float64"), pl.DataFrame(table)):
        for metric in METRICS:
            with pytest.raises(ValueError, match=r"row 1 .*NaN"):
                metric(rows, [0, 1, 1])


# Content


def test_what_seems_to_be_probabilities():
    rows = torch.tensor([[0.7, 0.3], [0.4, 0.6]])
    assert seem_probabilities(rows)
    assert seem_probabilities(rows.double()[None])
    assert seem_probabilities(torch.cat([rows] * 3)[None])
    assert seem_probabilities(torch.tensor([[0.5, 0.5078125], [0.4, 0.6]]).bfloat16())
    for logits in (
        rows[:1],
        rows[:, :1],
        rows + 0.1,
        rows - 0.5,
        torch.eye(2),
        torch.tensor([[np.nan, 1.0], [0.5, 0.5]]),
        torch.cat([rows] * 100 + [rows + 1]),
    ):
        assert not seem_probabilities(logits)


def test_rounding_is_told_by_the_digits():
    rows = np.array(
        [
            [0.33, 0.33, 0.33],  # two decimals, 0.01 off
            [0.33, 0.33, 0.36],  # 0.02 off, more than 3 times half a unit
            [0.333, 0.333, 0.335],  # three decimals, 0.001 off
            [0.333, 0.333, 0.336],  # 0.002 off
            [0.5, 0.25, 0.2578125],  # bfloat16
            [0.5, 0.25, 0.2591],  # neither
        ]
    )
    expected = [True, False, True, False, True, False]
    assert were_rounded(rows, row_sums(rows)).tolist() == expected
    single = rows.astype(np.float32)
    assert were_rounded(single, row_sums(single)).tolist() == expected
    assert first_bad_row(rows[[0, 2, 4]]) is None
    assert first_bad_row(rows) == 1


def test_rounded_rows_are_accepted_by_one_rule_everywhere():
    rounded = PROBS.round(2)
    assert (np.abs(rounded.sum(axis=1) - 1) > 2e-3).any()
    for metric in METRICS:
        assert metric(rounded, LABELS) == pytest.approx(metric(PROBS, LABELS), abs=0.1)
        for dtype in (np.float32, np.float64):
            assert np.isfinite(metric(rounded.astype(dtype), LABELS))
    check_probabilities(torch.tensor(rounded), "a test")
    assert reliability(rounded, LABELS).count.sum() == len(LABELS)
    assert 0 < calibration_test(rounded, LABELS, num_draws=9) <= 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_check_probabilities_names_the_row(dtype):
    rows = torch.tensor(PROBS).to(dtype)
    check_probabilities(rows, "a test")
    rows[7] *= 2
    with pytest.raises(ValueError, match=r"a test .* row 7"):
        check_probabilities(rows, "a test")
    rows[7] = torch.tensor([-0.25, 0.25, 1.0])
    with pytest.raises(ValueError, match=r"row 7 holds -0\.25"):
        check_probabilities(rows, "a test")


def test_a_sum_at_the_tolerance_is_still_good():
    least, most, beyond = [0.5, 0.25], [0.5, 0.75], [0.5, 1.0]
    assert first_bad_row(np.array([least, most]), tolerance=0.25) is None
    assert first_bad_row(np.array([least, most, beyond]), tolerance=0.25) == 2


def test_rows_of_a_prediction_may_sum_to_less_than_1_and_not_to_more():
    rows = np.array([[0.5, 0.25], [0.5, 0.5]])
    assert first_bad_row(rows) == 0
    assert first_bad_row(rows, whole=False) is None
    assert first_bad_row(rows * [[1.0], [1.5]], whole=False) == 1


# Entries


def test_opened_samples_stand_for_what_they_were_opened_from():
    samples = open_samples(PROBS, LABELS)
    for metric in METRICS:
        assert metric(samples) == metric(PROBS, LABELS)
        assert bootstrap(metric, samples, num_resamples=5) == bootstrap(
            metric, PROBS, LABELS, num_resamples=5
        )
        assert floor(metric, samples, num_draws=3) == floor(metric, PROBS, num_draws=3)
        assert calibration_test(samples, None, metric, num_draws=5) == calibration_test(
            PROBS, LABELS, metric, num_draws=5
        )
    assert bootstrap(
        lambda probs, labels: ece(probs, labels), samples, num_resamples=5
    ) == bootstrap(lambda probs, labels: ece(probs, labels), PROBS, LABELS, num_resamples=5)
    assert direction(samples) == direction(PROBS, LABELS)
    assert worst_classes(samples) == worst_classes(PROBS, LABELS)


@pytest.mark.parametrize("read", [np.asarray, lambda probs: predict(np.log(probs))])
@pytest.mark.parametrize("metric", [cw_ece, lambda *rows, **weights: brier(*rows, **weights)])
def test_opened_samples_have_left_out_what_weighs_nothing(metric, read):
    weight = np.arange(len(LABELS)) % 3
    kept = weight > 0
    data = {"sample_weight": weight[kept]}
    samples = open_samples(read(PROBS), LABELS, sample_weight=weight)
    assert bootstrap(metric, samples, num_resamples=5) == bootstrap(
        metric, read(PROBS[kept]), LABELS[kept], num_resamples=5, **data
    )
    expected = floor(metric, read(PROBS[kept]), num_draws=3, **data)
    assert floor(metric, samples, num_draws=3) == expected
    assert floor(metric, samples.view(np.arange(kept.sum())), num_draws=3) == expected


def test_a_view_reads_what_its_source_has_read():
    samples = open_samples(PROBS, LABELS, sample_weight=np.arange(len(LABELS)) % 3)
    assert isinstance(samples, Samples)
    index = np.array([3, 3, 0, 8])
    view, copy = samples.view(index), samples.take(index)
    assert isinstance(view, SamplesView)
    for metric in METRICS:
        assert metric(view) == metric(copy)
    assert (len(view), view.labels.tolist()) == (4, copy.labels.tolist())
    assert ece(view.view(np.array([1, 2]))) == ece(samples.take(np.array([3, 0])))
    assert open_probs(view).labels.tolist() == copy.labels.tolist()


def test_opened_samples_take_nothing_beside_them():
    samples = open_samples(PROBS, LABELS)
    for name, beside in (("labels", {"labels": LABELS}), ("weight", {"sample_weight": LABELS})):
        for metric in (ece, nll):
            with pytest.raises(ValueError, match=f"{name} .*samples"):
                metric(samples, **beside)


def test_the_same_top_from_every_entry():
    confidence, correct = PROBS.max(axis=1), PROBS.argmax(axis=1) == LABELS
    for top in (
        open_top(PROBS, LABELS),
        open_top(predict(np.log(PROBS)), LABELS),
        open_top(confidence=confidence, correct=correct),
        open_top(Top.of(confidence, correct)),
        open_ranked(PROBS, LABELS),
        open_ranked(PROBS, LABELS, confidence=confidence),
        open_event(PROBS, LABELS),
    ):
        assert top.confidence == pytest.approx(confidence)
        assert top.correct.tolist() == correct.tolist()


def test_events_of_scores_are_class_1():
    for scores in (PROBS[:, 1], PROBS[:, 1:2], pd.Series(PROBS[:, 1]), PROBS[:, 1].tolist()):
        top = open_event(scores, LABELS == 1)
        assert top.confidence.tolist() == PROBS[:, 1].tolist()
        assert top.correct.tolist() == (LABELS == 1).tolist()
    answers = open_event(pd.Series(PROBS.tolist()), LABELS)
    assert answers.confidence.tolist() == PROBS.max(axis=1).tolist()


# Labels, weights and options


def test_labels_by_number_and_by_name():
    assert open_labels([2, 0], 2, 3).tolist() == [2, 0]
    assert open_labels([True, False], 2, 2).tolist() == [1, 0]
    assert open_labels(["b", "a"], 2, 2, classes=["a", "b"]).tolist() == [1, 0]
    assert open_labels([7, 5], 2, 2, classes=[5, 7]).tolist() == [1, 0]
    assert open_labels([9, 1, 9], 3, 2, positions=np.array([1])).tolist() == [1]


def test_weights():
    assert open_weight(None, 3) is None
    assert open_weight([1, 1, 1], 3) is None
    assert open_weight(pd.Series([1, 2], dtype="Int64"), 2).tolist() == [1.0, 2.0]
    assert weighted_mean(np.array([1.0, 4.0]), np.array([2.0, 1.0])) == 2.0
    assert open_scores([np.nan, 2.0], "scores", [0, 1]).tolist() == [0.0, 2.0]


def test_options():
    assert check_positive("number", np.int64(3)) == 3
    for wrong in (0, True, 1.5, "3", None):
        with pytest.raises(ValueError, match="number="):
            check_positive("number", wrong)
    check_share("share", 0, "a share", allow_0=True)
    for wrong in (0, 1, "0.5", None):
        with pytest.raises(ValueError, match="share="):
            check_share("share", wrong, "a share")
    assert random_numbers(3).random() == np.random.default_rng(3).random()
    with pytest.raises(ValueError, match="seed=-1"):
        random_numbers(-1)


# Isotonic regression


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0.1, 5)), min_size=1, max_size=60))
def test_pools_are_those_of_scikit_learn(groups):
    sums, weights = np.array(groups).T
    pools = pool_adjacent_violators(sums.tolist(), weights.tolist())
    means = [total / weight for total, weight, _ in pools]
    expected = isotonic_regression(sums / weights, sample_weight=weights)
    assert np.repeat(means, [size for _, _, size in pools]) == pytest.approx(expected, abs=1e-9)
    starts = pool_starts(sums, weights)
    assert [*starts, len(sums)] == [0, *np.cumsum([size for _, _, size in pools])]
    assert (np.diff(means) > 0).all()


def test_a_part_of_a_prediction_knows_what_it_answered():
    prediction = replace(predict(torch.randn(6, 3)), answered=torch.arange(6) % 2 == 0)
    assert prediction.take([1, 2]).answered.tolist() == [False, True]


def test_rows_of_weight_0_may_be_anything_in_a_prediction_too():
    prediction = predict(np.array([[2.0, 0.0], [0.0, 1.0]]))
    prediction.confidence[1] = np.nan
    prediction.probs[1] = np.nan
    assert accuracy(prediction, [0, 0], sample_weight=[1, 0]) == 1.0


def test_a_sample_without_a_group_is_refused_by_its_position():
    with pytest.raises(ValueError, match="position 1"):
        accuracy([[0.9, 0.1], [0.6, 0.4]], [0, 1], groups=np.array(["a", None], dtype=object))
