"""Predictions on disk: what their columns mean, what is wrong with their rows, and files that
cannot be read."""

from __future__ import annotations

import gzip
import json
import sys

import numpy as np
import pyarrow as arrow
import pytest
from prediction_files import FORMATS, columns_of, predictions, write_columns
from pyarrow import parquet

from socrates.audit.predictions import open_predictions
from socrates.audit.read import reader

PROBS, LABELS = predictions()


def everything(source):
    """All rows of a source, put together."""
    batches = [batch for part in source.parts for batch in source.batches(part)]
    bad = batches[0].bad
    for batch in batches[1:]:
        bad += batch.bad
    values, labels, positions = (
        np.concatenate([getattr(batch.rows, name) for batch in batches])
        for name in ("values", "labels", "positions")
    )
    return values, labels, positions, bad


def read(folder, table, name="p.parquet", **told):
    return open_predictions(write_columns(folder / name, table), **told)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_rows(tmp_path, name):
    source = read(tmp_path, columns_of(PROBS, LABELS), name)
    assert source.layout.words == "probabilities of 3 classes (p0 to p2), labels in label"
    values, labels, positions, bad = everything(source)
    assert np.array_equal(values, PROBS)
    assert np.array_equal(labels, LABELS)
    assert positions.tolist() == list(range(200))
    assert bad.count == 0
    assert source.num_rows in (None, 200)


@pytest.mark.parametrize("name", ["p.parquet", "p.jsonl", "p.npz"])
@pytest.mark.parametrize(
    ("column", "kind"), [("probs", "probabilities"), ("logits", "logits"), ("output", None)]
)
def test_rows_of_values_in_one_column(tmp_path, name, column, kind):
    values = PROBS if kind == "probabilities" else np.log(PROBS)
    source = read(tmp_path, {column: values, "labels": LABELS}, name)
    assert source.layout.kind == (kind or "logits")
    assert source.layout.classes == ("0", "1", "2")
    assert np.array_equal(everything(source)[0], values)


def test_fixed_size_lists_and_slices_of_parquet(tmp_path):
    flat = arrow.array(PROBS.ravel())
    table = arrow.table({"probs": arrow.FixedSizeListArray.from_arrays(flat, 3), "label": LABELS})
    parquet.write_table(table, tmp_path / "p.parquet", row_group_size=30)
    assert np.array_equal(everything(open_predictions(tmp_path / "p.parquet"))[0], PROBS)


@pytest.mark.parametrize(
    "label", ["label", "labels", "y", "target", "targets", "true_label", "true", "y_true", "Label"]
)
def test_names_of_labels(tmp_path, label):
    source = read(
        tmp_path, {"p0": PROBS[:, 0], "p1": PROBS[:, 1], "p2": PROBS[:, 2], label: LABELS}
    )
    assert source.layout.label == label


@pytest.mark.parametrize(
    "prefix",
    [
        "p",
        "p_",
        "prob_",
        "prob",
        "proba_",
        "softmax_",
        "P",
        "logit_",
        "logit",
        "z",
        "z_",
        "logits.",
    ],
)
def test_names_of_numbered_columns(tmp_path, prefix):
    is_logits = prefix.startswith(("logit", "z"))
    values = np.log(PROBS) if is_logits else PROBS
    source = read(tmp_path, columns_of(values, LABELS, prefix))
    assert source.layout.kind == ("logits" if is_logits else "probabilities")
    assert source.layout.columns == (f"{prefix}0", f"{prefix}1", f"{prefix}2")
    assert np.array_equal(everything(source)[0], values)


def test_numbered_columns_are_put_in_order(tmp_path):
    probs, labels = predictions(50, 12)
    columns = columns_of(probs, labels)
    shuffled = dict(sorted(columns.items()))  # p0, p1, p10, p11, p2, ...
    assert np.array_equal(everything(read(tmp_path, shuffled))[0], probs)


def test_numbers_from_1_are_the_names_of_the_classes(tmp_path):
    columns = {"label": LABELS + 1, **{f"p{k + 1}": PROBS[:, k] for k in range(3)}}
    source = read(tmp_path, columns)
    assert source.layout.classes == ("1", "2", "3")
    assert np.array_equal(everything(source)[1], LABELS)


def test_a_missing_number_is_told(tmp_path):
    with pytest.raises(ValueError, match=r"p0 to p3, .*class 2"):
        read(tmp_path, {"label": LABELS, "p0": PROBS[:, 0], "p1": PROBS[:, 1], "p3": PROBS[:, 2]})


PETS = ("cat", "dog", "wild bird")


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("prefix", ["", "prob_", "class "])
@pytest.mark.parametrize("by_number", [False, True])
def test_columns_called_as_the_classes(tmp_path, name, prefix, by_number):
    labels = LABELS if by_number else np.array(PETS)[LABELS]
    columns = {
        **{prefix + pet: PROBS[:, k] for k, pet in enumerate(PETS)},
        "id": np.arange(200),
        "label": labels,
    }
    columns["empty"] = np.full(200, np.nan)
    source = read(tmp_path, columns, name)
    assert source.layout.classes == PETS
    values, numbers, *_ = everything(source)
    assert np.array_equal(values, PROBS)
    assert np.array_equal(numbers, LABELS)


def test_other_fractions_beside_the_classes_must_be_told_apart(tmp_path):
    columns = {
        **{pet: PROBS[:, k] for k, pet in enumerate(PETS)},
        "loss": PROBS[:, 0] * 7,
        "label": LABELS,
    }
    with pytest.raises(ValueError, match=r"predictions .*loss"):
        read(tmp_path, columns)
    assert read(tmp_path, columns, columns=PETS).layout.classes == PETS
    logits = {pet: np.log(PROBS[:, k]) for k, pet in enumerate(PETS)}
    with pytest.raises(ValueError, match="kind='logits'"):
        read(tmp_path, {**logits, "label": LABELS})
    assert read(tmp_path, {**logits, "label": LABELS}, kind="logits").layout.kind == "logits"
    assert read(tmp_path, {**logits, "label": LABELS}, columns=PETS).layout.kind == "logits"


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("score", ["p", "prob", "score", "p1", "prob_1", "probs", "y_score"])
@pytest.mark.parametrize("labels", [int, bool, float])
def test_one_score_of_class_1(tmp_path, name, score, labels):
    truth = LABELS > 0
    source = read(
        tmp_path, {"y": truth.astype(labels), score: PROBS[:, 0], "age": PROBS[:, 1] * 90}, name
    )
    assert source.layout.words == f"the probability of class 1 of two ({score}), labels in y"
    values, numbers, *_ = everything(source)
    assert np.array_equal(values, np.stack([1 - PROBS[:, 0], PROBS[:, 0]], axis=1))
    assert np.array_equal(numbers, truth)


def test_one_logit_of_class_1_and_names_of_two_classes(tmp_path):
    columns = {"y": np.where(LABELS > 0, "ill", "well"), "logit": np.log(PROBS[:, 0])}
    source = read(tmp_path, columns, classes=("well", "ill"))
    values, numbers, *_ = everything(source)
    assert source.layout.kind == "logits"
    assert np.array_equal(values[:, 1] - values[:, 0], columns["logit"])
    assert np.array_equal(numbers, LABELS > 0)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("true_label", [LABELS, np.array(PETS)[LABELS], LABELS.astype(float)])
def test_confidence_with_true_and_predicted_labels(tmp_path, name, true_label):
    predicted = PROBS.argmax(axis=1)
    names = np.array(PETS)[predicted] if true_label.dtype.kind == "U" else predicted
    columns = {"true_label": true_label, "pred_label": names, "confidence": PROBS.max(axis=1)}
    source = read(tmp_path, columns, name)
    assert source.layout.kind == "confidence"
    assert source.layout.words.endswith("correct where pred_label is true_label")
    confidence, correct, *_ = everything(source)
    assert np.array_equal(confidence, columns["confidence"])
    assert np.array_equal(correct, predicted == LABELS)
    assert correct.dtype == np.bool_


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", [bool, int, float])
def test_confidence_with_correctness(tmp_path, name, kind):
    correct = PROBS.argmax(axis=1) == LABELS
    source = read(tmp_path, {"conf": PROBS.max(axis=1), "is_correct": correct.astype(kind)}, name)
    assert (
        source.layout.words
        == "confidence (conf) of predictions that are correct where is_correct says so"
    )
    assert np.array_equal(everything(source)[1], correct)


def test_confidence_is_taken_where_it_is_told_and_classes_where_both_are_there(tmp_path):
    columns = columns_of(PROBS, LABELS) | {
        "pred": PROBS.argmax(axis=1),
        "confidence": PROBS.max(axis=1),
    }
    assert read(tmp_path, columns).layout.kind == "probabilities"
    assert read(tmp_path, columns, kind="confidence").layout.kind == "confidence"


@pytest.mark.parametrize("kind", ["probabilities", "logits"])
@pytest.mark.parametrize("column", ["unknown", "idk", "abstain"])
def test_a_column_for_unknown(tmp_path, kind, column):
    values = PROBS if kind == "probabilities" else np.log(PROBS)
    prefix = "p" if kind == "probabilities" else "logit_"
    bare = {"label": LABELS % 2, f"{prefix}0": values[:, 0], f"{prefix}1": values[:, 1]}
    for name in (column, f"{prefix.rstrip('_')}_{column}"):
        source = read(tmp_path, {name: values[:, 2], **bare})
        assert source.layout.unknown
        assert source.layout.classes == ("0", "1")
        assert source.layout.columns[-1] == name
        assert "of unknown, the last column" in source.layout.words
        assert np.array_equal(everything(source)[0], values)


def test_a_column_for_unknown_does_not_belong_to_classes_that_sum_to_1_without_it(tmp_path):
    columns = columns_of(PROBS, LABELS) | {"unknown": PROBS[:, 0]}
    assert not read(tmp_path, columns).layout.unknown
    with pytest.raises(ValueError, match=r"4 names .* 3"):
        read(tmp_path, columns, classes=("a", "b", "c", "d"))


@pytest.mark.parametrize(
    "told", [{"unknown": True}, {"classes": ("a", "b")}, {"classes": ("a", "b", "unknown")}]
)
def test_the_last_column_is_unknown_where_that_is_told(tmp_path, told):
    source = read(tmp_path, {"probs": PROBS, "labels": LABELS % 2}, "p.npz", **told)
    assert source.layout.unknown
    assert len(source.layout.classes) == 2
    assert not read(tmp_path, {"probs": PROBS, "labels": LABELS % 2}, "p.npz").layout.unknown


def test_predictions_of_a_run_tell_their_unknown_column(tmp_path):
    source = read(
        tmp_path,
        {"logits": np.log(PROBS), "labels": LABELS % 2, "num_classes": np.int32(2)},
        "p.npz",
    )
    assert source.layout.unknown
    source = read(
        tmp_path, {"logits": np.log(PROBS), "labels": LABELS, "num_classes": np.int32(3)}, "p.npz"
    )
    assert not source.layout.unknown


@pytest.mark.parametrize("name", ["p.csv", "p.jsonl", "p.parquet"])
@pytest.mark.parametrize("belief", ["none", "beside", "part"])
@pytest.mark.parametrize("prefix", ["", "class "])
def test_what_socrates_predict_writes_with_labels_added(tmp_path, name, belief, prefix):
    known = {"none": PROBS, "beside": PROBS, "part": 0.9 * PROBS}[belief]
    columns = {
        "path": [f"{k}.png" for k in range(200)],
        "predicted": np.array(PETS)[PROBS.argmax(axis=1)],
        "confidence": known.max(axis=1),
        "unknown": np.array([None if belief == "none" else 0.1] * 200, object),
        "answered": PROBS.max(axis=1) > 0.5,
        **{prefix + pet: known[:, k] for k, pet in enumerate(PETS)},
        "label": np.array(PETS)[LABELS],
    }
    source = read(tmp_path, columns, name)
    assert source.layout.kind == "probabilities"
    assert source.layout.classes == PETS
    assert source.layout.unknown == (belief == "part")
    assert np.array_equal(everything(source)[1], LABELS)


@pytest.mark.parametrize(
    "name", ["p.CSV", "p.CSV.GZ", "p.Tsv", "p.JSONL.gz", "p.NPZ", "p.PARQUET", "folder/p.PARQUET"]
)
def test_the_case_of_a_suffix_does_not_matter(tmp_path, name):
    (tmp_path / "folder").mkdir()
    write_columns(tmp_path / name.lower(), columns_of(PROBS, LABELS)).rename(tmp_path / name)
    source = open_predictions(tmp_path / name if name[0] == "p" else tmp_path / "folder")
    assert np.array_equal(everything(source)[0], PROBS)


def test_the_case_of_a_suffix_does_not_matter_for_one_array_and_its_labels(tmp_path):
    for name, array in {"P": PROBS, "LABELS": LABELS}.items():
        with open(tmp_path / f"{name}.NPY", "wb") as file:
            np.save(file, array)
    source = open_predictions(tmp_path / "P.NPY", labels=tmp_path / "LABELS.NPY")
    assert np.array_equal(everything(source)[0], PROBS)


@pytest.mark.parametrize("count", [[3, 4], 3.5, "three", [[1]], None])
def test_an_odd_number_of_classes_is_of_no_matter(tmp_path, count):
    source = read(tmp_path, {"probs": PROBS, "labels": LABELS, "num_classes": count}, "p.npz")
    assert source.layout.classes == ("0", "1", "2")
    assert not source.layout.unknown


@pytest.mark.parametrize("column", ["p0", "label"])
def test_whole_numbers_without_limit_are_bad_rows(tmp_path, column):
    rows = [
        dict(zip(("label", "p0", "p1"), (label, *row[:2] / row[:2].sum()), strict=True))
        for label, row in zip((LABELS % 2).tolist(), PROBS, strict=True)
    ]
    rows[3][column] = 10**400
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    bad = everything(open_predictions(path))[3]
    assert (bad.count, bad.first[0][0]) == (1, 4)


def test_a_column_of_whole_numbers_without_limit_is_one_of_numbers(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text("".join(f'{{"y": {row % 2}, "p": 0.5, "id": {10**400}}}\n' for row in range(4)))
    assert everything(open_predictions(path))[3].count == 0


def test_names_of_classes_in_the_file(tmp_path):
    labels = np.array(PETS)[LABELS]
    source = read(tmp_path, {"probs": PROBS, "labels": labels, "classes": np.array(PETS)}, "p.npz")
    assert source.layout.classes == PETS
    assert np.array_equal(everything(source)[1], LABELS)


@pytest.mark.parametrize("name", FORMATS)
def test_groups_and_weights_are_carried_along(tmp_path, name):
    columns = columns_of(PROBS, LABELS) | {
        "site": np.array(["north", "south", ""])[LABELS],
        "year": 2020 + LABELS,
        "w": np.arange(200) / 10,
    }
    source = read(tmp_path, columns, name, groups=["site", "year"], weight="w")
    assert source.layout.words.endswith("weights in w, groups by site, year")
    (batch,) = source.batches(source.parts[0])
    rows = batch.rows
    assert len(rows.labels) == 199  # one weight is 0
    assert np.array_equal(rows.weight, columns["w"][1:])
    years = np.array(rows.groups["year"].names)[rows.groups["year"].codes]
    assert np.array_equal(years.astype(int), columns["year"][1:])
    codes = rows.groups["site"].codes
    assert np.array_equal(codes == -1, LABELS[1:] == 2)


def test_a_column_called_sample_weight_is_used(tmp_path):
    assert (
        read(tmp_path, columns_of(PROBS, LABELS) | {"sample_weight": PROBS[:, 0]}).layout.weight
        == "sample_weight"
    )


@pytest.mark.parametrize(
    "suffix", [".npy", ".csv", ".txt", ".npz", ".parquet", ".jsonl", "-no-header.csv"]
)
@pytest.mark.parametrize("words", [False, True])
def test_labels_of_their_own_file(tmp_path, suffix, words):
    labels = np.array(PETS)[LABELS] if words else LABELS
    path = tmp_path / f"labels{suffix}"
    if suffix == ".npy":
        np.save(path, labels)
    elif suffix == ".txt" or "header" in suffix:
        path.write_text("\n".join(map(str, labels)) + "\n")
    else:
        write_columns(path, {"label": labels})
    np.save(tmp_path / "p.npy", PROBS.astype(np.float32))
    source = open_predictions(tmp_path / "p.npy", labels=path, classes=PETS if words else ())
    assert source.layout.words == "probabilities of 3 classes (values), labels of their own file"
    values, numbers, *_ = everything(source)
    assert np.array_equal(values, PROBS.astype(np.float32))
    assert np.array_equal(numbers, LABELS)


def test_labels_of_their_own_file_beside_predicted_ones_and_before_those_in_the_file(tmp_path):
    labels = tmp_path / "labels.csv"
    labels.write_text(
        "id,Target\n" + "".join(f"{row},{label}\n" for row, label in enumerate(LABELS))
    )
    columns = {"pred": PROBS.argmax(axis=1), "confidence": PROBS.max(axis=1)}
    source = read(tmp_path, columns, "p.csv", labels=labels)
    assert source.layout.words.endswith("correct where pred is the label")
    assert np.array_equal(everything(source)[1], PROBS.argmax(axis=1) == LABELS)
    wrong = columns_of(PROBS, np.zeros(200))
    assert np.array_equal(everything(read(tmp_path, wrong, labels=labels))[1], LABELS)
    labels.write_text("site,age\n1,2\n")
    with pytest.raises(ValueError, match=r"\bsite, age\b"):
        read(tmp_path, wrong, labels=labels)


@pytest.mark.parametrize("name", ["p.npy", "p.csv"])
@pytest.mark.parametrize("number", [199, 201])
def test_labels_of_another_number_are_refused(tmp_path, name, number):
    np.save(tmp_path / "labels.npy", np.zeros(number, int))
    if name == "p.npy":
        np.save(tmp_path / name, PROBS)
    else:
        columns = columns_of(PROBS, LABELS)
        del columns["label"]
        write_columns(tmp_path / name, columns)
    with pytest.raises(ValueError, match=rf"\b200\b.*\b{number}\b"):
        everything(open_predictions(tmp_path / name, labels=tmp_path / "labels.npy"))


@pytest.mark.parametrize(
    ("values", "kind"), [(PROBS[:, 0], "probabilities"), (np.log(PROBS[:, 0]), "logits")]
)
def test_one_array_of_scores(tmp_path, values, kind):
    np.save(tmp_path / "p.npy", values)
    np.save(tmp_path / "labels.npy", LABELS > 0)
    source = open_predictions(tmp_path / "p.npy", labels=tmp_path / "labels.npy")
    assert (source.layout.kind, source.layout.is_score) == (kind, True)


# Bad rows. Row 0 is good, row 1 is bad, rows 2 to 5 are good.
GOOD = {"label": [0, 1, 2, 0, 1, 2], "p0": [0.5] * 6, "p1": [0.25] * 6, "p2": [0.25] * 6}
WRONG = [
    ({"p0": float("nan")}, "holds NaN, infinity or no number"),
    ({"p0": float("inf")}, "holds NaN, infinity or no number"),
    ({"p0": None}, "holds NaN, infinity or no number"),
    ({"p0": -0.25, "p1": 1.0}, "holds a negative probability"),
    ({"p0": 0.4}, "sums to 0.9, expected 1"),
    ({"p0": 0.7}, "sums to 1.2, expected 1"),
    ({"label": 3}, "has the label '3', which is none of the classes"),
    ({"label": -1}, "has the label '-1', which is none of the classes"),
    ({"label": None}, "has no label"),
]


@pytest.mark.parametrize("name", ["p.parquet", "p.csv", "p.jsonl", "p.npz"])
@pytest.mark.parametrize(("change", "words"), WRONG)
def test_bad_rows_are_left_out_and_named(tmp_path, name, change, words):
    columns = {
        key: [
            change[key] if key in change and row == 1 else value for row, value in enumerate(values)
        ]
        for key, values in GOOD.items()
    }
    if name == "p.npz":
        columns = {key: np.array(values, float) for key, values in columns.items()}
    _, labels, positions, bad = everything(read(tmp_path, columns, name))
    assert positions.tolist() == [0, 2, 3, 4, 5]
    assert labels.tolist() == [0, 2, 0, 1, 2]
    line = {"p.csv": 3, "p.jsonl": 2}.get(name, 1)
    assert bad.first == ((line, words),)
    assert bad.unit == ("line" if name in ("p.csv", "p.jsonl") else "row")
    assert bad.count == 1


@pytest.mark.parametrize("name", ["p.csv", "p.jsonl"])
@pytest.mark.parametrize("prefix", ["p_", ""])
def test_words_in_the_place_of_numbers_and_names_that_are_no_class(tmp_path, name, prefix):
    columns = {
        "label": ["cat", "dog", "bird", "dog", "", "1"],
        f"{prefix}cat": ["0.5", "oops", 0.5, 0.25, 0.5, 0.5],
        f"{prefix}dog": [0.5, 0.5, 0.5, 0.75, 0.5, 0.5],
    }
    path = write_columns(
        tmp_path / name, {key: np.array(value, object) for key, value in columns.items()}
    )
    values, labels, positions, bad = everything(open_predictions(path))
    assert values.tolist() == [[0.5, 0.5], [0.25, 0.75]]
    assert labels.tolist() == [0, 1]
    assert positions.tolist() == [0, 3]
    first = 2 if name == "p.csv" else 1
    assert bad.first == (
        (first + 1, "holds NaN, infinity or no number"),
        (first + 2, "has the label 'bird', which is none of the classes"),
        (first + 4, "has no label"),
        (first + 5, "has the label '1', which is none of the classes"),  # not a name as others are
    )


def test_lines_of_csv_are_counted_through_blank_ones_broken_ones_and_quotation_marks(tmp_path):
    lines = [
        "\ufefflabel,p0,p1,text",
        "0,0.5,0.5,plain",
        "",
        '1,0.5,0.5,"two',
        'lines, and a ""quote"""',
        "0,0.5,0.5",
        "1,0.25,0.75,x,y",
        "1,0.4,0.5,short of 1",
        "  0 , 0.75,0.25,last",
    ]
    for number, ending in enumerate(["\n", "\r\n"]):
        path = tmp_path / f"{number}.csv"
        path.write_bytes((ending.join(lines) + ending * 3).encode())
        values, labels, positions, bad = everything(open_predictions(path, groups=["text"]))
        assert values.tolist() == [[0.5, 0.5], [0.5, 0.5], [0.75, 0.25]]
        assert labels.tolist() == [0, 1, 0]
        assert positions.tolist() == [0, 1, 5]
        assert bad.first == (
            (6, "has 3 fields, expected 4"),
            (7, "has 5 fields, expected 4"),
            (8, "sums to 0.9, expected 1"),
        )
        assert bad.reasons == {"cannot be read": 2, "does not sum to 1": 1}


@pytest.mark.parametrize("size", [64, 100, 1000])
def test_blocks_end_where_rows_end(tmp_path, monkeypatch, size):
    rows = [
        f'{k % 2},0.25,0.75,"a\n{k}"\n' if k % 3 else f"{k % 2},0.25,0.75,{k}\n\n"
        for k in range(100)
    ]
    (tmp_path / "p.csv").write_text("label,p0,p1,text\n" + "".join(rows) + "0,1,1,x")
    whole = everything(open_predictions(tmp_path / "p.csv"))
    monkeypatch.setattr(reader, "BLOCK_BYTES", size)
    parts = everything(open_predictions(tmp_path / "p.csv"))
    assert whole[1].tolist() == [k % 2 for k in range(100)]
    assert all(np.array_equal(one, other) for one, other in zip(whole[:3], parts[:3], strict=True))
    assert whole[3] == parts[3]
    assert whole[3].first == ((202, "sums to 2, expected 1"),)


def test_lines_that_are_no_json_objects(tmp_path):
    row = json.dumps({"label": 1, "p": 0.75})
    path = tmp_path / "p.jsonl"
    path.write_text(
        "\n".join([row, "{", "", "[1]", row, '{"p": 0.5}', '{"label": 0, "p": [1, 2]}', row])
    )
    _, labels, positions, bad = everything(open_predictions(path))
    assert labels.tolist() == [1, 1, 1]
    assert positions.tolist() == [0, 3, 6]
    assert [line for line, _ in bad.first] == [2, 4, 6, 7]
    assert bad.reasons["cannot be read"] == 2


def test_lists_of_another_length(tmp_path):
    rows = [[0.5, 0.5], [1.0], [0.25, 0.75], None, [0.75, 0.25]]
    for name in ("p.jsonl", "p.parquet"):
        path = tmp_path / name
        if name == "p.jsonl":
            path.write_text("\n".join(json.dumps({"label": 0, "probs": row}) for row in rows))
        else:
            parquet.write_table(arrow.table({"label": [0] * 5, "probs": rows}), path)
        values, _, positions, bad = everything(open_predictions(path))
        assert values.tolist() == [[0.5, 0.5], [0.25, 0.75], [0.75, 0.25]]
        assert positions.tolist() == [0, 2, 4]
        assert bad.reasons == {"holds NaN, infinity or no number": 2}


@pytest.mark.parametrize("digits", [2, 3, 4])
def test_rows_of_few_digits_are_divided_by_their_sum(tmp_path, digits):
    probs, labels = predictions(300, 8)
    probs = np.round(probs, digits)
    source = read(tmp_path, columns_of(probs, labels), "p.csv")
    (batch,) = source.batches()
    rows = batch.rows
    off = np.abs(probs.sum(axis=1) - 1) > 0.999e-3
    kept = np.abs(probs.sum(axis=1) - 1) <= 0.0401  # half a unit for each class
    assert kept.all()
    assert np.array_equal(rows.positions, np.flatnonzero(kept))
    assert batch.num_rounded == (off & kept).sum()
    assert np.abs(rows.values.sum(axis=1) - 1).max() < 1e-3
    assert np.allclose(
        rows.values, (probs / np.where(off, probs.sum(axis=1), 1)[:, None])[kept], atol=1e-12
    )


@pytest.mark.parametrize("wide", [False, True])
def test_half_precision_is_taken_as_it_is(tmp_path, wide):
    probs, labels = predictions(500, 50)
    half = probs.astype(np.float16)
    given = half.astype(np.float64) if wide else half
    source = read(tmp_path, {"probs": given, "labels": labels}, "p.npz")
    (batch,) = source.batches()
    rows = batch.rows
    assert batch.bad.count == batch.num_rounded == 0
    assert np.array_equal(rows.values, half.astype(np.float32))


def test_masked_logits_are_fine_and_rows_of_nothing_else_are_not(tmp_path):
    logits = np.log(PROBS)
    logits[0, 0], logits[1], logits[2, 1], logits[3, 2] = -np.inf, -np.inf, np.nan, np.inf
    *_, positions, bad = everything(read(tmp_path, {"logits": logits, "labels": LABELS}, "p.npz"))
    assert [line for line, _ in bad.first] == [1, 2, 3]
    assert positions[0] == 0


def test_all_belief_in_unknown_and_confidence_out_of_range(tmp_path):
    probs = PROBS.copy()
    probs[5] = [0, 0, 1]
    *_, bad = everything(
        read(tmp_path, {"probs": probs, "labels": LABELS % 2}, "p.npz", unknown=True)
    )
    assert bad.first == ((5, "believes in unknown alone"),)
    confidence = PROBS.max(axis=1)
    confidence[:3] = 1.5, -0.5, np.nan
    *_, bad = everything(
        read(tmp_path, {"confidence": confidence, "correct": LABELS == 0}, "p.npz")
    )
    assert [why for _, why in bad.first] == ["holds a number outside 0 to 1"] * 2 + [
        "holds NaN, infinity or no number"
    ]
    weight = np.ones(200)
    weight[7:9] = -1, np.nan
    *_, bad = everything(read(tmp_path, columns_of(PROBS, LABELS) | {"w": weight}, weight="w"))
    assert [line for line, _ in bad.first] == [7, 8]


def test_a_folder_of_parts_is_read_in_the_order_of_names(tmp_path):
    folder = tmp_path / "parts"
    (folder / "b=2").mkdir(parents=True)
    (folder / "_old").mkdir()
    columns = columns_of(PROBS, LABELS)
    for start, name in (
        (0, "a-1.parquet"),
        (60, "a-2.parquet"),
        (61, "b=2/x.parquet"),
        (0, "_old/z.parquet"),
    ):
        end = {0: 60, 60: 61, 61: 200}[start]
        parquet.write_table(
            arrow.table({k: v[start:end] for k, v in columns.items()}),
            folder / name,
            row_group_size=50,
        )
    (folder / "_SUCCESS").touch()
    source = open_predictions(folder)
    values, labels, positions, _ = everything(source)
    assert source.num_rows == 200
    assert positions.tolist() == list(range(200))
    assert np.array_equal(values, PROBS)
    assert np.array_equal(labels, LABELS)
    parquet.write_table(arrow.table({"label": [0], "p0": [1.0]}), folder / "c.parquet")
    with pytest.raises(ValueError, match=r"c\.parquet .*'p1', .*a-1\.parquet"):
        everything(open_predictions(folder))


# Files that cannot be read, each with one line that says why.
def damaged(folder, name):
    path = write_columns(folder / name, columns_of(PROBS, LABELS))
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    return path


@pytest.mark.parametrize("name", ["p.parquet", "p.csv.gz", "p.jsonl.gz", "p.npz", "p.npy"])
def test_files_that_are_cut_short(tmp_path, name):
    if name == "p.npy":
        np.save(tmp_path / "p.npy", PROBS)
        path = tmp_path / name
        path.write_bytes(path.read_bytes()[:3000])
    else:
        path = damaged(tmp_path, name)
    with pytest.raises(ValueError, match=rf"{path} cannot .*\(.+\)") as caught:
        everything(open_predictions(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [*FORMATS, "p.npy"])
def test_empty_files(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"") if name.endswith(".gz") else b"")
    with pytest.raises(ValueError, match=f"{path} "):
        open_predictions(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"0,0.5,0.5\n1,0.25,0.75\n", "first line .*numbers"),
        (b"label,p0,p1\r0,0.5,0.5\r", "carriage returns"),
        ("größe,p0,p1\n".encode("latin-1"), "cannot be read .*: save it as UTF-8"),
        (b'label,p0,p1,t\n0,0.5,0.5,"x\n', "ends within quotation marks"),
        (
            b'label,p0,p1,t\n0,0.5,0.5,5" x\n0,0.5,0.5,6" x\n0,0.5,0.5,x\n',
            "lines 2 to 4",
        ),
    ],
)
def test_csv_that_is_none(tmp_path, content, words):
    (tmp_path / "p.csv").write_bytes(content)
    with pytest.raises(ValueError, match=words):
        everything(open_predictions(tmp_path / "p.csv"))


def test_labels_may_be_groups_and_belief_that_is_next_to_nothing_is_some(tmp_path):
    columns = {"true_label": LABELS, "pred_label": LABELS, "confidence": PROBS[:, 0]}
    assert read(tmp_path, columns, "p.csv", groups=["true_label"]).layout.label == "true_label"
    probs = np.array([[1e-12, 0, 1], [0.5, 0.25, 0.25]], np.float32)
    assert (
        everything(read(tmp_path, {"probs": probs, "labels": [0, 1]}, "p.npz", unknown=True))[
            3
        ].count
        == 0
    )
    for wrong in ({"label_column": "probs"}, {"groups": ["probs"]}, {"weight": "probs"}):
        with pytest.raises(ValueError, match=r"'probs' .*list"):
            read(tmp_path, {"probs": probs, "labels": [0, 1]}, "p.npz", **wrong)


@pytest.mark.parametrize("name", FORMATS)
def test_files_without_rows_and_with_one(tmp_path, name):
    columns = columns_of(PROBS[:1], LABELS[:1])
    assert len(everything(read(tmp_path, columns, name))[1]) == 1
    with pytest.raises(ValueError, match="no rows"):
        read(tmp_path, {key: value[:0] for key, value in columns.items()}, name)


@pytest.mark.parametrize("name", ["p.xls", "p", "p.parquet.gz", "p.pkl"])
def test_formats_that_are_not_known(tmp_path, name):
    (tmp_path / name).write_text("x")
    with pytest.raises(ValueError, match=rf"^{name} .*\.parquet, \.csv"):
        open_predictions(tmp_path / name)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_predictions(tmp_path / "p.csv")
    with pytest.raises(ValueError, match=r"no \.parquet"):
        open_predictions(tmp_path)


def test_two_columns_of_one_name(tmp_path):
    (tmp_path / "p.csv").write_text("label,p0,p0\n0,0.5,0.5\n")
    both = arrow.table([[0], [0.5], [0.5]], names=["label", "p0", "p0"])
    parquet.write_table(both, tmp_path / "p.parquet")
    for name in ("p.csv", "p.parquet"):
        with pytest.raises(ValueError, match=r"two columns .*'p0'"):
            open_predictions(tmp_path / name)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"kind": "odds"}, "kind='odds'"),
        (
            {"groups": ["site"]},
            "'site': .*label, p0, p1, p2, name",
        ),
        ({"weight": "w"}, "no column 'w'"),
        ({"label_column": "truth"}, "no column 'truth'"),
        ({"columns": ["p0", "name"]}, "column 'name' holds words"),
        ({"classes": ["a", "b"]}, "2 names .* 3"),
        ({"classes": ["a", "b", "a"]}, "one name"),
    ],
)
def test_what_is_told_must_fit(tmp_path, told, words):
    with pytest.raises(ValueError, match=words):
        read(tmp_path, columns_of(PROBS, LABELS) | {"name": ["x"] * 200}, "p.csv", **told)


def test_no_labels_and_arrays_of_two_lengths(tmp_path):
    columns = columns_of(PROBS, LABELS)
    del columns["label"]
    with pytest.raises(ValueError, match=r"no labels .*p0, p1, p2,"):
        read(tmp_path, columns)
    with pytest.raises(ValueError, match=r"199 rows, .*200"):
        read(tmp_path, {"probs": PROBS, "labels": LABELS[1:]}, "p.npz")


@pytest.mark.parametrize("scale", [100, 0.5])
def test_rows_of_unnamed_numbers_that_are_neither(tmp_path, scale):
    with pytest.raises(ValueError, match=rf"\b{scale:g} .*kind='logits'"):
        read(tmp_path, {"output": scale * PROBS, "labels": LABELS}, "p.npz")
    assert (
        read(
            tmp_path, {"output": scale * PROBS, "labels": LABELS}, "p.npz", kind="logits"
        ).layout.kind
        == "logits"
    )


def test_wide_files(tmp_path):
    probs, labels = predictions(300, 1000)
    for name in ("p.csv", "p.parquet"):
        source = read(tmp_path, columns_of(probs, labels), name)
        assert source.layout.words == "probabilities of 1000 classes (p0 to p999), labels in label"
        assert np.array_equal(everything(source)[0], probs)


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_other_delimiters(tmp_path, delimiter):
    lines = [delimiter.join(row) for row in (("label", "p0", "p1"), ("1", "0.25", "0.75"))]
    (tmp_path / "p.csv").write_text("\n".join(lines))
    assert everything(open_predictions(tmp_path / "p.csv"))[0].tolist() == [[0.25, 0.75]]


@pytest.mark.parametrize("name", ["p.parquet", "p.csv"])
def test_without_pyarrow_the_error_says_what_to_install(tmp_path, monkeypatch, name):
    path = write_columns(tmp_path / name, columns_of(PROBS, LABELS))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=rf"{name} .*'socrates-loss\[parquet\]'"):
        open_predictions(path)
    assert everything(read(tmp_path, columns_of(PROBS, LABELS), "p.jsonl"))[3].count == 0


def beside(**columns):
    """Probabilities in columns of their own, and other columns."""
    return arrow.table({**columns_of(PROBS, LABELS), **columns})


@pytest.mark.parametrize(
    "other",
    [
        arrow.array([{"a": 1}] * 200),
        arrow.array([[("key", 1)]] * 200, arrow.map_(arrow.string(), arrow.int64())),
        arrow.array([["some", "tokens"]] * 200),
        arrow.array([[1.0, -2.0, 3.0, 4.0]] * 200),
        arrow.array([None] * 200),
    ],
    ids=["struct", "map", "lists of words", "embedding", "null"],
)
def test_columns_of_other_types_do_not_matter(tmp_path, other):
    parquet.write_table(beside(other=other), tmp_path / "p.parquet")
    assert open_predictions(tmp_path / "p.parquet").layout.columns == ("p0", "p1", "p2")


def test_lists_of_other_things_do_not_matter(tmp_path):
    tokens, embedding = [["some", "tokens"]] * 200, [[0.5, -1.5]] * 200
    source = read(
        tmp_path, columns_of(PROBS, LABELS) | {"tokens": tokens, "embedding": embedding}, "p.jsonl"
    )
    assert source.layout.columns == ("p0", "p1", "p2")
    columns = {"confidence": PROBS.max(axis=1), "correct": LABELS == 0, "embedding": embedding}
    assert read(tmp_path, columns, "p.jsonl").layout.kind == "confidence"


def test_python_objects_in_an_npz_matter_where_they_are_labels(tmp_path):
    names = np.array(["a", "b", "c"], object)[LABELS]
    np.savez(tmp_path / "meta.npz", probs=PROBS, labels=LABELS, meta=np.array({"epoch": 3}, object))
    assert open_predictions(tmp_path / "meta.npz").layout.label == "labels"
    np.savez(tmp_path / "objects.npz", probs=PROBS, labels=names)
    with pytest.raises(ValueError, match=r"objects\.npz .*labels\.astype"):
        open_predictions(tmp_path / "objects.npz")


def test_arrays_of_other_lengths_do_not_matter(tmp_path):
    np.savez(
        tmp_path / "p.npz", confusion=np.eye(3), probs=PROBS, labels=LABELS, thresholds=np.arange(7)
    )
    assert np.array_equal(everything(open_predictions(tmp_path / "p.npz"))[0], PROBS)


def test_lists_beside_other_columns_of_the_classes(tmp_path):
    columns = columns_of(PROBS, LABELS) | {"embedding": [[0.5, 1.5]] * 200}
    with pytest.raises(ValueError, match="column 'embedding'"):
        read(tmp_path, columns, columns=["p0", "embedding"])


@pytest.mark.parametrize("form", ["{:.1f}%", "{:.1f} %"])
def test_numbers_that_are_written_as_words(tmp_path, form):
    shares = [[form.format(100 * value) for value in column] for column in PROBS.T]
    with pytest.raises(ValueError, match=r"'p0' .*words .*'\d+\.\d ?%'"):
        read(
            tmp_path,
            {"label": LABELS, **{f"p{k}": column for k, column in enumerate(shares)}},
            "p.csv",
        )
    lines = [
        "label;p0;p1;p2",
        *(";".join([str(k), *map(str, row)]) for k, row in zip(LABELS, PROBS, strict=True)),
    ]
    # A comma is beyond doubt between semicolons, and not where it also divides the cells.
    (tmp_path / "p.csv").write_text("\n".join(lines).replace(".", ","))
    assert open_predictions(tmp_path / "p.csv").layout.columns == ("p0", "p1", "p2")
    quoted = [";".join(f'"{cell}"' for cell in line.split(";")) for line in lines]
    (tmp_path / "p.csv").write_text("\n".join(quoted).replace(".", ",").replace(";", ","))
    with pytest.raises(ValueError, match=r"'p0' .*'0,\d+', .*decimal"):
        open_predictions(tmp_path / "p.csv")


def test_labels_of_two_dimensions_are_one_hot_or_named(tmp_path):
    source = read(tmp_path, {"probs": PROBS, "labels": np.eye(3)[LABELS]}, "p.npz")
    assert np.array_equal(everything(source)[1], LABELS)
    with pytest.raises(ValueError, match=r"no .*\(labels "):
        read(tmp_path, {"probs": PROBS, "labels": PROBS > 0.1}, "p.npz")


def test_excel_needs_a_reader(tmp_path, monkeypatch):
    (tmp_path / "p.xlsx").write_text("x")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ImportError, match=r"p\.xlsx .*openpyxl"):
        open_predictions(tmp_path / "p.xlsx")


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("p.csv", "label,p0,p1\n0,0.5,0.5,\n1,0.5,0.5,\n", r"\(line 2 .*\b4\b.*\b3\b"),
        ("p.jsonl", '[{"label": 0, "p": 0.5}]\n', r"\(line 1 .*JSON"),
    ],
)
def test_why_no_row_can_be_read(tmp_path, name, content, why):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=rf"rows .*{why}"):
        open_predictions(tmp_path / name)


def test_correct_may_be_yes_or_no(tmp_path):
    columns = {"confidence": PROBS.max(axis=1), "correct": np.where(LABELS == 0, "yes", "no")}
    assert np.array_equal(everything(read(tmp_path, columns, "p.csv"))[1], LABELS == 0)


def test_a_score_beside_answers_may_be_the_confidence_in_them(tmp_path):
    binary = np.stack([1 - PROBS[:, 0], PROBS[:, 0]], axis=1)
    columns = {"label": LABELS == 0, "pred": binary.argmax(axis=1), "score": binary.max(axis=1)}
    with pytest.raises(ValueError, match=r"0\.5, .*\bpred\b.*'confidence'"):
        read(tmp_path, columns, "p.csv")
    assert (
        read(tmp_path, columns, "p.csv", kind="confidence", columns=["score"]).layout.predicted
        == "pred"
    )
    assert read(tmp_path, columns, "p.csv", kind="probabilities").layout.is_score
    assert read(tmp_path, columns | {"score": binary[:, 1]}, "p.csv").layout.is_score


def test_labels_that_differ_after_the_first_rows_are_refused(tmp_path):
    probs, labels = predictions(1500)
    late = np.where(np.arange(1500) < 1200, labels, (labels + 1) % 3)
    columns = columns_of(probs, labels) | {"y_true": late}
    with pytest.raises(ValueError, match=r"label and y_true .*label_column='y_true'"):
        everything(read(tmp_path, columns, "p.csv"))


def test_a_folder_of_several_formats_is_refused(tmp_path):
    for name in ("a.csv", "b.jsonl"):
        write_columns(tmp_path / name, columns_of(PROBS, LABELS))
    with pytest.raises(ValueError, match=r"several formats .*\.csv, \.jsonl"):
        open_predictions(tmp_path)


def test_parts_of_other_columns_are_named(tmp_path):
    write_columns(tmp_path / "1.csv", columns_of(PROBS, LABELS))
    write_columns(tmp_path / "2.csv", columns_of(PROBS[:, :2], LABELS))
    with pytest.raises(ValueError, match=r"2\.csv has no column 'p2', which 1\.csv has"):
        everything(open_predictions(tmp_path))
