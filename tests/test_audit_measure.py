"""One pass over predictions on disk: the numbers of the metrics themselves, whatever the format,
parts and workers."""

from __future__ import annotations

import itertools
import os
import pickle
import re
import signal
import sys
from collections import Counter

import numpy as np
import pyarrow as arrow
import pytest
from prediction_files import FORMATS, columns_of, predictions, write_columns
from processes import Started, alive, descendants, wait_for
from pyarrow import parquet

from socrates import metrics
from socrates.audit.layout import Layout
from socrates.audit.measure import measure
from socrates.audit.predictions import open_predictions
from socrates.audit.read import parquet as parquet_reader
from socrates.audit.read import reader
from socrates.audit.rows import Reservoir, mixed
from socrates.processes import in_processes

PROBS, LABELS = predictions(500, 4)
VALUES = ("accuracy", "ece", "cw_ece", "nll", "brier")


def measured(path, columns, told=None, **options):
    return measure(open_predictions(write_columns(path, columns), **(told or {})), **options)


def expected(probs, labels, **options):
    return {name: getattr(metrics, name)(probs, labels, **options) for name in VALUES}


def close(found, wanted):
    computed = found.meter.compute()
    assert {name: computed[name] for name in wanted} == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("name", FORMATS)
def test_the_numbers_are_those_of_the_metrics_in_every_format(tmp_path, name):
    found = measured(tmp_path / name, columns_of(PROBS, LABELS))
    close(found, expected(PROBS, LABELS))
    assert found.num_rows == 500
    assert not found.is_sample
    assert np.array_equal(found.sample.values, PROBS)
    assert np.array_equal(found.sample.labels, LABELS)
    assert found.sample.positions.tolist() == list(range(500))
    assert (found.bad.count, found.rounded, found.zeros, found.reading) == (0, 0, 0, None)


@pytest.mark.parametrize("reading", list(metrics.READINGS))
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
def test_unknown_is_read_as_told(tmp_path, kind, reading):
    logits, labels = np.log(PROBS), LABELS % 3
    values = {"logits": logits} if kind == "logits" else {"probs": PROBS}
    found = measured(
        tmp_path / "p.npz", {**values, "labels": labels}, {"unknown": True}, reading=reading
    )
    close(found, expected(metrics.predict(logits, reading), labels))
    assert found.reading == reading


def test_logits_are_exact_where_a_probability_rounds_to_0(tmp_path):
    logits = np.array([[0.0, 800.0], [0.0, 1.0]])
    found = measured(tmp_path / "p.npz", {"logits": logits, "labels": [0, 1]})
    assert found.meter.compute()["nll"] == pytest.approx(400 + np.log1p(np.exp(-1)) / 2)


def test_confidence_and_correctness(tmp_path):
    confidence, correct = PROBS.max(axis=1), PROBS.argmax(axis=1) == LABELS
    found = measured(tmp_path / "p.csv.gz", {"confidence": confidence, "correct": correct})
    close(
        found,
        {"ece": metrics.ece(confidence=confidence, correct=correct), "accuracy": correct.mean()},
    )
    assert "nll" not in found.meter.compute()
    assert np.array_equal(found.sample.labels, correct)


def test_weights(tmp_path):
    weight = np.arange(500) % 4 / 2
    found = measured(
        tmp_path / "p.parquet", columns_of(PROBS, LABELS) | {"w": weight}, {"weight": "w"}
    )
    close(found, expected(PROBS, LABELS, sample_weight=weight))
    assert found.num_rows == (weight > 0).sum()
    rare = (np.arange(500) % 50 == 0).astype(float)
    few = measured(
        tmp_path / "p.parquet", columns_of(PROBS, LABELS) | {"w": rare}, {"weight": "w"}, sample=10
    )
    assert few.sample.positions.tolist() == list(range(0, 500, 50))
    assert np.array_equal(found.sample.weight, weight[weight > 0])


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_by_group(tmp_path, weighted):
    site = np.array(["north", "south", None], object)[np.arange(500) % 3]
    weight = 1 + np.arange(500) % 4 if weighted else np.ones(500)
    columns = columns_of(PROBS, LABELS) | {"site": site, "w": weight}
    told = {"groups": ["site"], "weight": "w" if weighted else None}
    found = measured(tmp_path / "p.jsonl", columns, told)
    (sums,) = found.groups.values()
    assert list(sums) == ["(missing)", "north", "south"]
    for name, group in sums.items():
        rows = site == (None if name == "(missing)" else name)
        assert group.num_rows == rows.sum()
        top = {"sample_weight": weight[rows]} if weighted else {}
        assert group.accuracy == pytest.approx(metrics.accuracy(PROBS[rows], LABELS[rows], **top))
        assert group.confidence == pytest.approx(
            np.average(PROBS[rows].max(axis=1), weights=weight[rows])
        )
    assert found.sample.groups["site"].to_array().tolist() == [word or "(missing)" for word in site]


def test_groups_of_confidences_and_too_many_groups(tmp_path, monkeypatch):
    columns = {"confidence": PROBS.max(axis=1), "correct": LABELS == 0, "id": np.arange(500)}
    found = measured(tmp_path / "p.csv", columns, {"groups": ["id"]})
    assert len(found.groups["id"]) == 500
    monkeypatch.setattr("socrates.audit.measure.MOST_GROUPS", 499)
    with pytest.raises(ValueError, match=r"id .*499"):
        measured(tmp_path / "p.csv", columns, {"groups": ["id"]})


def test_too_many_answers_that_nobody_asked_for_are_dropped_with_a_note(tmp_path, monkeypatch):
    answers = [f"name {row % 9}" for row in range(500)]
    columns = {"confidence": PROBS.max(axis=1), "true_label": answers, "pred_label": answers}
    folder = parts(tmp_path / "parts", columns, [100, 400])
    monkeypatch.setattr(parquet_reader, "PART_ROWS", 64)
    assert len(measure(open_predictions(folder)).groups["pred_label"]) == 9
    monkeypatch.setattr("socrates.audit.measure.MOST_GROUPS", 8)
    found = measure(open_predictions(folder))
    assert found.groups == {}
    assert found.num_rows == 500
    (note,) = found.notes
    assert re.search(r"pred_label .*\b8\b", note)
    with pytest.raises(ValueError, match=r"pred_label .*\b8\b"):
        measure(open_predictions(folder, groups=["pred_label"]))


def parts(folder, columns, sizes):
    """A folder of Parquet parts of so many rows."""
    folder.mkdir()
    edges = np.cumsum([0, *sizes])
    for number, (start, end) in enumerate(itertools.pairwise(edges)):
        part = arrow.table({name: column[start:end] for name, column in columns.items()})
        parquet.write_table(part, folder / f"part-{number}.parquet", row_group_size=40)
    return folder


def same(one, other):
    """Whether two passes found the same, to the last bit."""
    states = zip(one.meter.state().values(), other.meter.state().values(), strict=True)
    assert all(np.array_equal(left, right) for left, right in states)
    for name in ("values", "labels", "positions"):
        assert np.array_equal(getattr(one.sample, name), getattr(other.sample, name))
    assert one.bad == other.bad
    assert one.groups == other.groups


def test_the_sample_depends_on_rows_and_seed_alone(tmp_path, monkeypatch):
    columns = columns_of(PROBS, LABELS)
    for name in columns:
        if name.startswith("p"):
            columns[name] = np.where(np.arange(500) % 5 == 0, np.nan, columns[name])
    whole = measured(tmp_path / "p.parquet", columns, sample=60)
    assert whole.is_sample
    assert len(whole.sample) == 60
    hashes = mixed(np.arange(500), seed=0)
    good = np.flatnonzero(np.arange(500) % 5 != 0)
    assert whole.sample.positions.tolist() == sorted(good[np.argsort(hashes[good])][:60].tolist())
    assert np.array_equal(whole.sample.values, PROBS[whole.sample.positions])
    monkeypatch.setattr(reader, "BATCH_VALUES", 1)
    monkeypatch.setattr(reader, "BLOCK_BYTES", 500)
    monkeypatch.setattr(parquet_reader, "PART_ROWS", 64)
    for source in (tmp_path / "p.parquet", parts(tmp_path / "parts", columns, [0, 1, 300, 0, 199])):
        other = measure(open_predictions(source), sample=60)
        assert np.array_equal(other.sample.positions, whole.sample.positions)
        assert np.array_equal(other.sample.values, whole.sample.values)
        assert other.meter.compute() == pytest.approx(whole.meter.compute(), abs=1e-12)
    for name in ("p.csv", "p.jsonl", "p.npz"):
        assert np.array_equal(
            measured(tmp_path / name, columns, sample=60).sample.positions, whole.sample.positions
        )
    assert not np.array_equal(
        measured(tmp_path / "p.npz", columns, sample=60, seed=1).sample.positions,
        whole.sample.positions,
    )


def test_the_sample_is_uniform():
    counts = Counter()
    for seed in range(400):
        first = np.argsort(mixed(np.arange(50), seed))[:10]
        counts.update(first.tolist())
    # 80 are expected of each, with a standard deviation of 8.
    assert all(40 < counts[position] < 120 for position in range(50))
    assert len({tuple(np.argsort(mixed(np.arange(50), seed))) for seed in range(400)}) == 400


@pytest.mark.parametrize("size", [1, 10, 100])
def test_known_numbers_of_rows_change_nothing_of_the_sample(tmp_path, size):
    path = write_columns(tmp_path / "p.npz", columns_of(*predictions(20_000, 2)))
    source = open_predictions(path)
    one, other = Reservoir(size, 3), Reservoir(size, 3, 20_000)
    for batch in source.batches():
        one.add(batch.rows)
        other.add(batch.rows)
    assert len(one.sample()) == size
    assert np.array_equal(one.sample().positions, other.sample().positions)


def test_wide_rows_are_sampled_by_their_values(tmp_path, monkeypatch):
    monkeypatch.setattr("socrates.audit.measure.MOST_VALUES", 400)
    assert len(measured(tmp_path / "p.npz", columns_of(PROBS, LABELS)).sample) == 100


@pytest.mark.parametrize("name", ["p.parquet", "p.csv", "p.jsonl", "p.npz"])
def test_bad_rows_are_counted_and_strict_refuses_the_first(tmp_path, name):
    probs = PROBS.copy()
    probs[[7, 30, 31], 1] = np.nan
    found = measured(tmp_path / name, columns_of(probs, LABELS))
    good = ~np.isnan(probs).any(axis=1)
    close(found, expected(PROBS[good], LABELS[good]))
    unit, first = {"p.csv": ("line", 9), "p.jsonl": ("line", 8)}.get(name, ("row", 7))
    assert found.bad.count == 3
    assert f": {unit} {first} " in found.bad.words
    with pytest.raises(ValueError, match=rf"{name}: {unit} {first} .*NaN"):
        measured(tmp_path / name, columns_of(probs, LABELS), strict=True)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            columns_of(np.log(PROBS), LABELS),
            "500 of 500 .*negative .*kind='logits'",
        ),
        (
            columns_of(PROBS / 2, LABELS),
            r"row 0, sums to 0\.5, .*divide each row",
        ),
        (
            columns_of(PROBS, np.array(["a", "b", "c", "d"])[LABELS]),
            "none of the classes .*classes=",
        ),
        (
            {"confidence": 100 * PROBS.max(axis=1), "correct": LABELS == 0},
            "outside 0 to 1 .*percentages",
        ),
    ],
)
def test_mostly_bad_rows_mean_that_the_file_was_not_understood(tmp_path, columns, words):
    with pytest.raises(ValueError, match=words) as caught:
        measured(tmp_path / "p.parquet", columns)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "first"), [(LABELS + 1, "line 4 .*'4'"), (2 * (LABELS > 0) - 1, "line 8 .*'-1'")]
)
def test_labels_that_do_not_count_from_0_are_noticed(tmp_path, labels, first):
    columns = columns_of(PROBS, labels) if labels.max() > 1 else {"y": labels, "p": PROBS[:, 0]}
    with pytest.raises(ValueError, match=first):
        measured(tmp_path / "p.csv", columns)


def test_one_number_for_more_than_two_classes_is_no_score(tmp_path):
    columns = {"label": LABELS, "score": PROBS.max(axis=1) / 2}
    with pytest.raises(ValueError, match=r"kind='confidence' .*columns=\['score'\]"):
        measured(tmp_path / "p.csv", columns)


def test_correctness_that_is_no_truth_value(tmp_path):
    columns = {"confidence": PROBS.max(axis=1), "correct": np.where(LABELS == 0, "T", "F")}
    with pytest.raises(ValueError, match=r"1 and 0, .*correct"):
        measured(tmp_path / "p.csv", columns)


def test_notes_say_what_was_done_to_rows(tmp_path):
    probs = np.array([[1.0, 0.0], [0.33, 0.67], [0.0, 1.0], [0.33, 0.66], [np.nan, 1.0]])
    found = measured(tmp_path / "p.csv", columns_of(probs, [1, 1, 1, 0, 0]))
    assert [words[:18] for words in found.notes] == [
        "1 bad row was left",
        "1 rounded rows, wh",
        "1 rows assign prob",
    ]


def test_weights_that_are_all_0(tmp_path):
    with pytest.raises(ValueError, match="weight above 0"):
        measured(tmp_path / "p.csv", columns_of(PROBS, LABELS) | {"sample_weight": np.zeros(500)})


def test_half_of_the_rows_may_be_bad(tmp_path):
    probs = np.where(np.arange(500)[:, None] % 2, PROBS, np.nan)
    assert measured(tmp_path / "p.csv", columns_of(probs, LABELS), sample=10).num_rows == 250
    probs[1] = np.nan
    with pytest.raises(ValueError, match="251 of 500 rows"):
        measured(tmp_path / "p.csv", columns_of(probs, LABELS))


def test_labels_of_probability_0_are_counted(tmp_path):
    probs = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    found = measured(tmp_path / "p.csv", columns_of(probs, [1, 1, 1]))
    assert found.zeros == 1


def test_progress_is_told_in_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "BLOCK_BYTES", 3000)
    told = []
    measured(tmp_path / "p.csv", columns_of(PROBS, LABELS), tell=told.append)
    assert len(told) > 5
    assert told == sorted(told)
    assert told[-1] == 500


def test_small_row_groups_are_put_together(tmp_path, monkeypatch):
    folder = parts(tmp_path / "parts", columns_of(PROBS, LABELS), [300, 200])
    assert len(open_predictions(folder).parts) == 1
    monkeypatch.setattr(parquet_reader, "PART_ROWS", 100)
    assert [len(part) for part in open_predictions(folder).parts] == [3, 3, 3, 3, 1]


@pytest.fixture
def many_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_reader, "PART_ROWS", 64)
    columns = columns_of(PROBS, LABELS) | {"site": [f"s{k % 7}" for k in range(500)]}
    columns["p0"] = np.where(np.arange(500) == 333, np.nan, columns["p0"])
    return parts(tmp_path / "parts", columns, [100, 150, 250])


@pytest.mark.slow
def test_no_number_depends_on_the_workers(many_parts):
    source = open_predictions(many_parts, groups=["site"])
    assert len(source.parts) == 7
    told = []
    one = measure(source, sample=90, tell=told.append)
    assert pickle.loads(pickle.dumps(source)).layout == source.layout
    for workers in (2, 3):
        told_by_many = []
        same(one, measure(source, sample=90, workers=workers, tell=told_by_many.append))
        assert told_by_many[-1] == told[-1] == 500
    with pytest.raises(ValueError, match=r"parts: row 333 .*NaN"):
        measure(source, workers=2, strict=True)


def killed(task):
    if task == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def doubled(task):
    if task == 5:
        raise KeyError("five")
    return 2 * task


@pytest.mark.slow
def test_processes_give_results_in_order_and_errors_in_turn():
    assert list(in_processes(doubled, [1, 2, 3, 4], 3)) == [2, 4, 6, 8]
    results = in_processes(doubled, [1, 2, 5, 3], 2)
    assert [next(results), next(results)] == [2, 4]
    with pytest.raises(RuntimeError, match="KeyError"):
        next(results)
    with pytest.raises(ChildProcessError, match=r" -9: .*memory"):
        list(in_processes(killed, [0, 1, 2], 2))


SCRIPT = """
import sys, time
from pathlib import Path
from socrates.processes import in_processes

def slow(task):
    Path(sys.argv[1], f"started-{task}").touch()
    time.sleep(600)

if __name__ == "__main__":
    list(in_processes(slow, [1, 2], 2))
"""


@pytest.mark.slow
def test_ctrl_c_ends_all_processes_at_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    started = Started([sys.executable, str(script), str(tmp_path)], tmp_path)
    started.wait_for(lambda: len(list(tmp_path.glob("started-*"))) == 2)
    below = descendants(started.pid)
    started.ctrl_c()
    assert started.ended() != 0
    wait_for(lambda: not any(map(alive, below)))
    assert started.said().count("Traceback") == 1  # the script's own


def test_the_columns_that_are_read_are_said():
    layout = Layout("logits", ("z0", "z1", "unknown"), ("0", "1"), unknown=True, label="y")
    assert (
        layout.words
        == "logits of 2 classes and of unknown, the last column (z0 to unknown), labels in y"
    )
