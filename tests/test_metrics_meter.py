"""The meter: equal to the metrics of the whole set, whatever the batches, the merges and their
order."""

import pickle
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from socrates.metrics import (
    CalibrationMeter,
    accuracy,
    ada_ece,
    brier,
    cw_ece,
    ece,
    mce,
    nll,
    predict,
)

WHOLE = {"accuracy": accuracy, "ece": ece, "mce": mce, "cw_ece": cw_ece, "nll": nll, "brier": brier}


def make_case(num_samples=1000, num_classes=6, seed=0, dtype=np.float64, sharpness=2.0):
    rng = np.random.default_rng(seed)
    logits = sharpness * rng.normal(size=(num_samples, num_classes))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (
        (probs.cumsum(axis=1) < rng.random((num_samples, 1))).sum(axis=1).clip(max=num_classes - 1)
    )
    return probs.astype(dtype), labels


def filled(probs, labels, sizes, **options):
    meter = CalibrationMeter(num_classes=probs.shape[1], **options)
    for rows in np.split(np.arange(len(labels)), np.cumsum(sizes)):
        if len(rows):
            meter.update(probs[rows], labels[rows])
    return meter


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("num_bins", [1, 15, 50])
def test_batches_equal_the_whole(dtype, num_bins):
    probs, labels = make_case(dtype=dtype)
    values = filled(probs, labels, [1, 200, 333], num_bins=num_bins).compute()
    assert values["count"] == 1000
    for name, metric in WHOLE.items():
        options = {"num_bins": num_bins} if "ce" in name and name not in ("accuracy",) else {}
        assert values[name] == pytest.approx(metric(probs, labels, **options), abs=1e-10), name


@given(
    st.integers(0, 10_000),
    st.lists(st.integers(1, 30), min_size=1, max_size=6),
    st.randoms(use_true_random=False),
)
@settings(max_examples=40, deadline=None)
def test_merge_equals_the_whole_in_any_order(seed, sizes, random):
    probs, labels = make_case(num_samples=sum(sizes), seed=seed)
    whole = filled(probs, labels, []).compute()
    rows = np.split(np.arange(len(labels)), np.cumsum(sizes)[:-1])
    meters = [filled(probs[part], labels[part], []) for part in rows]
    random.shuffle(meters)
    while len(meters) > 1:  # any grouping: merge two neighbours
        at = random.randrange(len(meters) - 1)
        meters[at : at + 2] = [meters[at] + meters[at + 1]]
    assert meters[0].compute() == pytest.approx(whole, abs=1e-10)


def test_merge_is_in_place_and_plus_is_not():
    a, b = filled(*make_case(seed=1), []), filled(*make_case(seed=2), [])
    total = a + b
    assert a.compute()["count"] == b.compute()["count"] == 1000
    a.merge(b)
    assert a.compute() == total.compute()
    assert b.compute()["count"] == 1000


@pytest.mark.parametrize(
    "options", [{"num_bins": 10}, {"num_classes": 6}, {"num_bins": 10, "num_classes": 6}]
)
def test_unlike_meters_do_not_merge(options):
    with pytest.raises(ValueError, match="num_bins=15, num_classes=5"):
        CalibrationMeter(15, 5).merge(CalibrationMeter(**options))


@pytest.mark.parametrize("num_classes", [None, 6])
def test_state_travels(num_classes):
    meter = CalibrationMeter(10, num_classes)
    meter.update(*make_case())
    state = pickle.loads(pickle.dumps(meter.state()))
    assert all(isinstance(values, np.ndarray) for values in state.values())
    again = CalibrationMeter.from_state(state)
    assert again.compute() == meter.compute()
    assert pickle.loads(pickle.dumps(meter)).compute() == meter.compute()
    again.update(*make_case(seed=5))
    assert meter.compute()["count"] == 1000


def test_state_is_a_sum():
    """A reduction over processes may add the arrays themselves."""
    a, b = filled(*make_case(seed=1), []), filled(*make_case(seed=2), [])
    added = {name: a.state()[name] + b.state()[name] for name in a.state()}
    assert CalibrationMeter.from_state(added).compute() == pytest.approx(
        (a + b).compute(), abs=1e-12
    )


def test_bad_states():
    with pytest.raises(ValueError, match=r"\['fine', 'scores'\]"):
        CalibrationMeter.from_state({"bins": np.zeros((3, 15))})


BAD_ENTRIES = {
    "fine bins of another number": (
        "fine",
        np.zeros((3, 100)),
        r"fine .*\(3, 100\)",
    ),
    "bins without sums": (
        "bins",
        np.zeros(15),
        r"bins .*\(15,\)",
    ),
    "two sums": ("bins", np.zeros((2, 15)), r"shape \(2, 15\)"),
    "no bins": ("bins", np.zeros((3, 0)), r"shape \(3, 0\)"),
    "one score": ("scores", [0.0], r"scores .*\(1,\)"),
    "classes with other bins": (
        "class_bins",
        torch.zeros(3, 6, 14),
        r"\(3, 6, 14\)",
    ),
    "classes without bins": (
        "class_bins",
        np.zeros((3, 6)),
        r"shape \(3, 6\)",
    ),
    "ragged": ("scores", [[0.0], 1.0], "scores .*form an array"),
    "words": ("bins", "bins", "bins .*form an array"),
}


@pytest.mark.parametrize(("name", "value", "message"), BAD_ENTRIES.values(), ids=BAD_ENTRIES)
def test_bad_entries_of_a_state(name, value, message):
    with pytest.raises(ValueError, match=message):
        CalibrationMeter.from_state({**CalibrationMeter(15, 6).state(), name: value})


KINDS = {
    "torch": torch.tensor,
    "float32": lambda values: torch.tensor(values, dtype=torch.float32),
    "with a gradient": lambda values: torch.tensor(values, requires_grad=True),
    "list": np.ndarray.tolist,
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_states_of_other_kinds(kind):
    meter = filled(*make_case(), [])
    again = CalibrationMeter.from_state(
        {name: kind(values) for name, values in meter.state().items()}
    )
    assert again.compute() == pytest.approx(meter.compute(), rel=1e-4)
    again.update(*make_case(seed=3))
    assert (again + meter).compute()["count"] == 3000


def test_a_state_is_copied():
    meter = filled(*make_case(), [])
    state = meter.state()
    again = CalibrationMeter.from_state(state)
    for values in state.values():
        values[:] = -1
    assert again.compute() == meter.compute()


def test_sum_of_meters():
    meters = [filled(*make_case(seed=seed), []) for seed in range(3)]
    assert sum(meters).compute() == (meters[0] + meters[1] + meters[2]).compute()
    alone = sum(meters[:1])
    alone.update(*make_case())
    assert meters[0].compute()["count"] == 1000


def test_only_meters_are_added():
    meter = CalibrationMeter()
    with pytest.raises(TypeError, match="int, expected"):
        meter.merge(3)
    with pytest.raises(TypeError, match="from_state"):
        meter.merge(meter.state())
    for add in (lambda: meter + 3, lambda: 3 + meter, lambda: meter + meter.state()):
        with pytest.raises(TypeError, match="unsupported operand"):
            add()


def test_a_bad_batch_leaves_the_meter_as_it_was():
    meter = filled(*make_case(), [])
    before = meter.compute()
    bad = np.full((300_000, 6), 1 / 6)
    bad[-1] = 1.0
    with pytest.raises(ValueError, match="row 299999"):
        meter.update(bad, np.zeros(len(bad), int))
    assert meter.compute() == before


def test_without_num_classes_there_is_no_class_wise_error():
    meter = CalibrationMeter()
    meter.update(*make_case())
    assert "cw_ece" not in meter.compute()


@pytest.mark.parametrize("reading", ["answer", "abstain", "renormalize", "spread"])
def test_predictions(reading):
    generator = torch.Generator().manual_seed(0)
    logits, labels = (
        torch.randn(500, 6, generator=generator),
        torch.randint(0, 5, (500,), generator=generator),
    )
    meter = CalibrationMeter(num_classes=5)
    for part, label in zip(logits.split(150), labels.split(150), strict=True):
        meter.update(predict(part, unknown=reading), label)
    values, whole = meter.compute(), predict(logits, unknown=reading)
    for name, metric in WHOLE.items():
        assert values[name] == pytest.approx(metric(whole, labels), abs=1e-7), name


def simple_bound(confidence, num_bins):
    """The bound of the docstring, from the samples themselves."""
    fine = np.clip(np.ceil(confidence.astype(np.float64) * 2**14) - 1, 0, None).astype(int)
    count = np.bincount(fine, minlength=2**14)
    ranks = [len(part) for part in np.array_split(confidence, num_bins)]
    held = np.searchsorted(np.cumsum(count), np.cumsum(ranks)[:-1], side="left")
    return (1 + 2**-14) / (2 * len(confidence)) * count[held].sum()


@pytest.mark.filterwarnings("ignore:.* rows have probability 0")
@given(
    st.integers(0, 10_000),
    st.integers(1, 400),
    st.integers(1, 20),
    st.sampled_from([0.0, 1e-5, 1e-4, 1e-3, 0.5]),
    st.sampled_from([0.5, 0.75, 0.99]),
)
@settings(max_examples=300, deadline=None)
def test_streamed_ada_ece_keeps_its_bound(seed, num_samples, num_bins, width, start):
    """Confidences crowded into few fine bins, with right answers that depend on the rank: the worst
    there is."""
    rng = np.random.default_rng(seed)
    confidence = np.minimum(start + width * rng.random(num_samples), 1.0)
    correct = (confidence > np.median(confidence)) ^ (
        rng.random(num_samples) < 0.2 * rng.integers(0, 2)
    )
    probs, labels = np.stack([confidence, 1 - confidence], axis=1), (~correct).astype(int)
    meter = CalibrationMeter(num_bins)
    meter.update(probs, labels)
    exact = ada_ece(probs, labels, num_bins)
    error = abs(meter.compute()["ada_ece"] - exact)
    assert error <= meter.ada_ece_bound() + 1e-12
    assert meter.ada_ece_bound() <= simple_bound(confidence, num_bins) + 1e-12


def test_the_bound_is_nearly_reached():
    """All in one fine bin, the lower half wrong, the upper half right, one cut: no smaller bound
    would hold."""
    confidence = 0.75 + np.linspace(0.1, 0.9, 100) * 2**-14
    labels = (np.arange(100) < 50).astype(int)
    probs = np.stack([confidence, 1 - confidence], axis=1)
    meter = CalibrationMeter(num_bins=2)
    meter.update(probs, labels)
    error = abs(meter.compute()["ada_ece"] - ada_ece(probs, labels, 2))
    # Halves: 0.75 too sure and 0.25 too unsure, 0.5 on average; shared out they are 0.25 too sure.
    assert error == pytest.approx(0.25, abs=1e-3)
    assert error <= meter.ada_ece_bound() <= 0.5 * (1 + 2**-14)


@pytest.mark.parametrize(
    ("num_wrong", "farthest"),
    [
        # At 34 samples 27.2 are right on average, 14 to 34; at 67 samples 53.6 are, 47 to 67.
        (20, (27.2 - 14) + (67 - 53.6)),
        # At 34 samples 20.4 are right on average, 0 to 34; at 67 samples 40.2 are, 27 to 60.
        (40, (20.4 - 0) + (60 - 40.2)),
    ],
)
def test_the_bound_counts_the_worst_order_of_the_answers_at_each_cut(num_wrong, farthest):
    """All 100 samples are in one fine bin, cut at 34 and at 67 samples."""
    confidence = 0.75 + np.linspace(0.1, 0.9, 100) * 2**-14
    labels = (np.arange(100) < num_wrong).astype(int)
    meter = CalibrationMeter(num_bins=3)
    meter.update(np.stack([confidence, 1 - confidence], axis=1), labels)
    assert meter.ada_ece_bound() == pytest.approx(2 * farthest / 100, abs=1e-4)


def test_streamed_ada_ece_of_ties_is_exact():
    probs, labels = make_case(num_samples=300)
    probs = np.stack([0.5 + np.arange(300) % 7 / 16, 0.5 - np.arange(300) % 7 / 16], axis=1)
    meter = CalibrationMeter()
    meter.update(probs, labels % 2)
    assert meter.compute()["ada_ece"] == pytest.approx(ada_ece(probs, labels % 2), abs=1e-12)


def test_streamed_ada_ece_of_an_ordinary_model_is_close():
    probs, labels = make_case(num_samples=50_000, num_classes=10, dtype=np.float32, sharpness=4.0)
    meter = filled(probs, labels, [20_000])
    assert meter.compute()["ada_ece"] == pytest.approx(ada_ece(probs, labels), abs=1e-4)
    assert meter.ada_ece_bound() < 0.02


def test_memory_does_not_grow_with_the_samples():
    probs, labels = make_case(num_samples=2000, num_classes=10, dtype=np.float32)
    meter = CalibrationMeter(num_classes=10)
    meter.update(probs, labels)
    size = len(pickle.dumps(meter.state()))
    tracemalloc.start()
    try:
        meter.update(probs, labels)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in range(100):
            meter.update(probs, labels)
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - held < 50_000
    assert peak < 5_000_000
    assert len(pickle.dumps(meter.state())) == size
