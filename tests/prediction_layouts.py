"""Predictions as people save them: how each file is written, and whether audit may read it.

A layout is *read* with the accuracy that is true of it, or *refused* with a word that names the
cause or the option that settles it. A wrong number is never right. The table was decided before
the code that passes it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as arrow
from pyarrow import parquet

Write = Callable[[Path], Any]  # returns a path, or a path and keywords of open_predictions


@dataclass(frozen=True)
class SavedFile:
    """A layout: how it is written, and what has to come of it."""

    name: str
    write: Write
    accuracy: float | None = None  # where it is read
    word: str = ""  # what a refusal must contain
    left_out: int = 0  # rows that are left out where it is read


LAYOUTS: list[SavedFile] = []


def read(name: str, write: Write, accuracy: float, left_out: int = 0) -> None:
    LAYOUTS.append(SavedFile(name, write, accuracy=accuracy, left_out=left_out))


def refused(name: str, write: Write, word: str) -> None:
    LAYOUTS.append(SavedFile(name, write, word=word))


def model(num_rows: int, num_classes: int, seed: int, sure: float = 2.0, right: float = 0.7) -> Any:
    """Return probabilities and labels of a model that is often right."""
    draw = np.random.default_rng(seed)
    logits = sure * draw.standard_normal((num_rows, num_classes))
    guesses = draw.integers(0, num_classes, num_rows)
    labels = np.where(draw.random(num_rows) < right, logits.argmax(1), guesses)
    odds = np.exp(logits)
    return odds / odds.sum(axis=1, keepdims=True), labels


def share_right(probs: np.ndarray, labels: np.ndarray) -> float:
    return float((probs.argmax(axis=1) == labels).mean())


P3, Y3 = model(240, 3, seed=1)
P2, Y2 = model(240, 2, seed=2)
P11, Y11 = model(330, 11, seed=3)
P10, Y10 = model(300, 10, seed=4)
Y10_FIRST_9 = np.where(Y10 == 9, P10[:, :9].argmax(axis=1), Y10)  # the last class has no row
P100, Y100 = model(400, 100, seed=5, sure=6.0)
A3, A2, A11, A10 = (share_right(p, y) for p, y in ((P3, Y3), (P2, Y2), (P11, Y11), (P10, Y10)))
A9 = share_right(P10, Y10_FIRST_9)
PETS = np.array(["cat", "dog", "bird"])
YES = np.array(["no", "yes"])


def columns(probs: np.ndarray, names: Any, first: dict | None = None, **others: Any) -> dict:
    """Columns of the classes by name, after some columns and before others."""
    named = {name: probs[:, place] for place, name in enumerate(names)}
    return {**(first or {}), **named, **others}


def numbered(probs: np.ndarray, prefix: str, start: int = 0) -> dict:
    return columns(probs, [f"{prefix}{start + place}" for place in range(probs.shape[1])])


def as_text(table: dict) -> dict:
    """The same columns, sorted by their names as text."""
    return dict(sorted(table.items()))


def csv(table: dict, name: str = "p.csv", **options: Any) -> Write:
    def write(folder: Path) -> Path:
        pd.DataFrame(table).to_csv(folder / name, **{"index": False, **options})
        return folder / name

    return write


def text(content: str | bytes, name: str = "p.csv") -> Write:
    def write(folder: Path) -> Path:
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)
        return folder / name

    return write


def npz(**arrays: Any) -> Write:
    def write(folder: Path) -> Path:
        np.savez(folder / "p.npz", **arrays)
        return folder / "p.npz"

    return write


def table(content: dict, name: str = "p.parquet") -> Write:
    def write(folder: Path) -> Path:
        parquet.write_table(arrow.table(content), folder / name)
        return folder / name

    return write


def lines(rows: Any, name: str = "p.jsonl") -> Write:
    return text("".join(json.dumps(row) + "\n" for row in rows), name)


def beside(predictions: Write, labels: Write, **options: Any) -> Write:
    """Predictions with a file of labels, which is written first."""

    def write(folder: Path) -> tuple[Path, dict]:
        (folder / "labels").mkdir()
        return predictions(folder), {"labels": labels(folder / "labels"), **options}

    return write


def told(predictions: Write, **options: Any) -> Write:
    return lambda folder: (predictions(folder), options)


def npy(array: Any) -> Write:
    def write(folder: Path) -> Path:
        np.save(folder / "a.npy", array)
        return folder / "a.npy"

    return write


def parts(table: dict, names: list[str], write: Callable[[pd.DataFrame, Path], Any]) -> Write:
    """A folder of parts of equal sizes, in this order."""

    def written(folder: Path) -> Path:
        (folder / "parts").mkdir()
        frame = pd.DataFrame(table)
        for name, rows in zip(
            names, np.array_split(np.arange(len(frame)), len(names)), strict=True
        ):
            write(frame.iloc[rows], folder / "parts" / name)
        (folder / "parts" / "_SUCCESS").touch()
        return folder / "parts"

    return written


def records(table: dict) -> list[dict]:
    frame = {name: np.asarray(values).tolist() for name, values in table.items()}
    return [dict(zip(frame, row, strict=True)) for row in zip(*frame.values(), strict=True)]


def shuffled(frame: dict, seed: int = 0) -> dict:
    order = np.random.default_rng(seed).permutation(len(next(iter(frame.values()))))
    return {name: np.asarray(values)[order] for name, values in frame.items()}


# One column per class, numbered.
for prefix in ("p", "p_", "P", "prob_", "prob", "proba_", "probability_", "softmax_", "prob."):
    read(f"csv {prefix}0", csv(numbered(P3, prefix) | {"label": Y3}), A3)
for prefix in (
    "class_", "class", "Class ", "pred_", "X", "output_", "y_pred_", "y_prob_", "score_",
    "prediction_", "LABEL_", "col", "", "pred_proba_", "prob_class_", "cls-",
):  # fmt: skip
    read(
        f"csv {prefix}0 sorted as text", csv(as_text(numbered(P11, prefix) | {"target": Y11})), A11
    )
for prefix in ("X", "class_", "V", "p", ""):
    whole = numbered(P10, prefix, 1)
    read(f"csv {prefix}1 to 10", csv(whole | {"label": Y10 + 1}), A10)
    read(f"csv {prefix}1 to 10, no row of 10", csv(whole | {"label": Y10_FIRST_9 + 1}), A9)
    refused(f"csv {prefix}1 to 10, labels from 0", csv(whole | {"label": Y10}), "classes")
read(
    "csv zero-padded",
    csv(as_text({f"class_{k:02}": P11[:, k] for k in range(11)} | {"y": Y11})),
    A11,
)
read("csv class_3 as label", csv(numbered(P11, "class_") | {"y": [f"class_{y}" for y in Y11]}), A11)
FLOATS = [f"{k}.0" for k in range(1, 11)]
read("csv 1.0 to 10.0", csv(columns(P10, FLOATS, label=Y10_FIRST_9 + 1.0)), A9)
read("csv 2.0, 1.0, 0.0", csv(columns(P3[:, ::-1], ["2.0", "1.0", "0.0"], label=Y3 * 1.0)), A3)
read("csv 2, 1, 0", csv(columns(P3[:, ::-1], ["2", "1", "0"], label=Y3)), A3)
read("csv p2, p1, p0", csv(columns(P3[:, ::-1], ["p2", "p1", "p0"], label=Y3)), A3)
read("csv P(y=0)", csv(columns(P3, ["P(y=0)", "P(y=1)", "P(y=2)"], label=Y3)), A3)
read("csv 5, 7, 9", csv(columns(P3, ["5", "7", "9"], label=5 + 2 * Y3)), A3)
refused(
    "csv two models", csv(numbered(P3, "a_") | numbered(P3[::-1], "b_") | {"label": Y3}), "columns"
)
read(
    "csv p0 beside other fractions",
    csv(numbered(P3, "p") | {"loss": P3[:, 0] * 7, "label": Y3}),
    A3,
)
read("csv with an index", csv(numbered(P3, "") | {"label": Y3}, index=True), A3)
read("csv of tabs", csv(numbered(P3, "p") | {"label": Y3}, "p.tsv", sep="\t"), A3)
read("csv of semicolons", csv(numbered(P3, "p") | {"label": Y3}, sep=";"), A3)
read("csv gzip", csv(numbered(P3, "p") | {"label": Y3}, "p.csv.gz"), A3)
read("csv with a byte order mark", csv(numbered(P3, "p") | {"label": Y3}, encoding="utf-8-sig"), A3)
read("csv decimal comma", csv(numbered(P3, "p") | {"label": Y3}, sep=";", decimal=","), A3)
refused("csv utf-16", csv(numbered(P3, "p") | {"label": Y3}, encoding="utf-16"), "UTF-8")
for known in (
    "y_test",
    "truth",
    "gt",
    "ground_truth",
    "class",
    "actual",
    "True_Label",
    "obs",
    "gold",
):
    read(f"csv labels in {known}", csv(numbered(P3, "p") | {known: Y3}), A3)

# One column per class, by name.
for prefix in ("", "prob_", "p_", "score_", "pred_", "proba.", "class_", "P("):
    ends = ")" if prefix == "P(" else ""
    named = columns(P3, [f"{prefix}{pet}{ends}" for pet in PETS])
    read(f"csv {prefix}cat by name", csv(named | {"label": PETS[Y3]}), A3)
    read(f"csv {prefix}cat by number", csv(named | {"label": Y3}), A3)
read("csv Cat and cat", csv(columns(P3, PETS, label=np.array(["Cat", "DOG", "Bird"])[Y3])), A3)
WILD = np.array(["wild cat", "T-shirt", "9 lives"])
read(
    "csv names as R writes them",
    csv(columns(P3, ["wild.cat", "T.shirt", "X9.lives"], label=WILD[Y3])),
    A3,
)
read(
    "csv names with their case",
    csv(columns(P3, ["A", "a", "b"], label=np.array(["A", "a", "b"])[Y3])),
    A3,
)
for none in ("None", "null", "nan", "NA"):
    names = ["cat", "dog", none]
    read(f"csv a class {none}", csv(columns(P3, names, label=np.array(names)[Y3])), A3)
    as_rows = records(columns(P3, names, label=np.array(names)[Y3]))
    read(f"jsonl a class {none}", lines(as_rows), A3)
refused("csv reversed names", csv(columns(P3[:, ::-1], PETS, label=Y3)), "revers")
refused(
    "csv names of another order",
    csv(columns(P3, ["cat", "dog", "bird"], label=np.argsort(np.argsort(PETS))[Y3])),
    "alphabet",
)
LATE, Y_LATE = model(1300, 3, seed=6)
LATE[:1100, 2] = 0
LATE /= LATE.sum(axis=1, keepdims=True)
ZEROS = "\n".join(
    ["label,cat,dog,bird"]
    + [
        f"{PETS[y]},{p[0]:.9f},{p[1]:.9f},{'0' if p[2] == 0 else f'{p[2]:.9f}'}"
        for y, p in zip(Y_LATE, LATE, strict=True)
    ]
)
read("csv a class of integer zeros", text(ZEROS), share_right(LATE, Y_LATE))
NEVER = columns(P3, PETS, label=PETS[Y3]) | {"fish": np.zeros(240, int)}
read("csv a class of zeros alone", csv(NEVER), A3)

# Labels.
refused(
    "csv label is the answer, y_true",
    csv(numbered(P3, "p") | {"label": P3.argmax(1), "y_true": Y3}),
    "y_true",
)
refused(
    "csv target and y differ", csv(numbered(P2, "p") | {"target": Y2, "y": 1 - Y2}), "label_column"
)
read("csv label and y_true agree", csv(numbered(P3, "p") | {"label": Y3, "y_true": Y3}), A3)
read("csv number and name of the label", csv(columns(P3, PETS, label=Y3, true_label=PETS[Y3])), A3)
read(
    "csv label_column told",
    told(csv(numbered(P3, "p") | {"label": P3.argmax(1), "y_true": Y3}), label_column="y_true"),
    A3,
)
refused("csv p0, labels from 1", csv(numbered(P3, "p") | {"label": Y3 + 1}), "1")
read(
    "csv p0, labels from 1, told",
    told(csv(numbered(P3, "p") | {"label": Y3 + 1}), classes=["1", "2", "3"]),
    A3,
)
refused(
    "csv p0, labels from 1, no row of the last",
    csv(numbered(P10, "p") | {"label": Y10_FIRST_9 + 1}),
    "1",
)
BROKEN = P10.copy()
BROKEN[:6] = np.nan
refused(
    "csv p0, labels from 1, bad rows first", csv(numbered(BROKEN, "p") | {"label": Y10 + 1}), "1"
)
refused(
    "csv p0, labels from 1, one 0",
    csv(numbered(P10, "p") | {"label": np.r_[0, Y10[1:] + 1]}),
    "class",
)
OUTSIDE = np.where(np.arange(240) % 12 == 0, 7, Y3)
refused("csv 8 % of labels outside", csv(numbered(P3, "p") | {"label": OUTSIDE}), "7")
STRAY = np.r_[7, Y3[1:]]
read(
    "csv one label outside",
    csv(numbered(P3, "p") | {"label": STRAY}),
    share_right(P3[1:], Y3[1:]),
    1,
)
ONE_HOT = np.eye(3, dtype=int)[Y3]
read("csv one-hot label_0", csv(numbered(P3, "p") | numbered(ONE_HOT, "label_")), A3)
read("csv one-hot y_true_0", csv(numbered(P3, "y_pred_") | numbered(ONE_HOT, "y_true_")), A3)
read(
    "csv one-hot by name",
    csv(
        columns(P3, [f"prob_{pet}" for pet in PETS])
        | columns(ONE_HOT, [f"true_{pet}" for pet in PETS])
    ),
    A3,
)
read("csv labels as 1.0", csv(numbered(P3, "p") | {"label": Y3.astype(float)}), A3)

# Values.
refused("csv percent", csv(numbered(100 * P3, "p") | {"label": Y3}), "percent")
refused("csv percent by name", csv(columns(100 * P3, PETS, label=PETS[Y3])), "percent")
refused(
    "csv written with %", text("label,p0,p1\n" + "0,90.0%,10.0%\n1,20.0%,80.0%\n" * 20), "percent"
)
TWO = np.round(P100, 2)
read(
    "csv 100 classes, two digits", csv(numbered(TWO, "p") | {"label": Y100}), share_right(TWO, Y100)
)
read(
    "csv 100 classes by name, two digits",
    csv(columns(TWO, [f"n{k}x" for k in range(100)], label=[f"n{y}x" for y in Y100])),
    share_right(TWO, Y100),
)
BLUNT, Y_BLUNT = model(240, 100, seed=7, sure=1.5)
read(
    "csv 100 unsure classes, two digits",
    csv(numbered(BLUNT.round(2), "p") | {"label": Y_BLUNT}),
    share_right(BLUNT.round(2), Y_BLUNT),
)
read(
    "csv 3 classes, two digits",
    csv(numbered(P3.round(2), "p") | {"label": Y3}),
    share_right(P3.round(2), Y3),
)
for prefix in ("logit_", "z", "logits.", "log_prob_"):
    read(f"csv {prefix}0", csv(numbered(np.log(P3), prefix) | {"label": Y3}), A3)
refused(
    "csv logits that are probabilities",
    csv(numbered(P3, "logit_") | {"label": Y3}),
    "probabilities",
)
refused(
    "csv probabilities that are logits", csv(numbered(3 * P3 - 1, "p") | {"label": Y3}), "logits"
)
LISTS = [str(row) for row in P3.round(6).tolist()]
refused("csv lists as text", csv({"probs": LISTS, "label": Y3}), "text")
refused("csv thousands", text("label,p0,p1\n" + '0,"1,234.5","2,345.1"\n' * 30), "1,234.5")

# Two classes.
TRUE = np.array([False, True])
for first in (0, 1):
    order = [first, 1 - first]
    both = P2[:, order]
    for words, spelled in (
        (["False", "True"], ["False", "True"]), (["False", "True"], ["FALSE", "TRUE"]),
        (["no", "yes"], ["No", "Yes"]), (["No", "Yes"], ["NO", "YES"]), (["0", "1"], ["0", "1"]),
        (["negative", "positive"], ["0", "1"]), (["false", "true"], ["0", "1"]),
        (["no", "yes"], ["False", "True"]), (["prob_False", "prob_True"], ["False", "True"]),
    ):  # fmt: skip
        heads = [words[place] for place in order]
        labels = np.array(spelled)[Y2]
        read(f"csv {heads} with {spelled}", csv(columns(both, heads, label=labels)), A2)
    heads = [["False", "True"][place] for place in order]
    read(f"parquet {heads} with bool", table(columns(both, heads, label=TRUE[Y2])), A2)
    read(
        f"parquet prob_ {heads} with bool",
        table(columns(both, [f"prob_{h}" for h in heads], label=TRUE[Y2])),
        A2,
    )
    read(f"csv p1, p0 {order}", csv(columns(both, [f"p{k}" for k in order], label=Y2)), A2)
refused(
    "csv spam, ham with True, False",
    csv(columns(P2[:, ::-1], ["prob_spam", "prob_ham"], label=TRUE[Y2])),
    "revers",
)
refused("csv spam, ham with 1, 0", csv(columns(P2[:, ::-1], ["spam", "ham"], label=Y2)), "revers")
read("csv ham, spam with 0, 1", csv(columns(P2, ["ham", "spam"], label=Y2)), A2)
read(
    "csv ham, spam by name",
    csv(columns(P2[:, ::-1], ["spam", "ham"], label=np.array(["ham", "spam"])[Y2])),
    A2,
)
S2 = P2[:, 1]
for score in (
    "p",
    "score",
    "prob",
    "y_score",
    "p1",
    "prob_1",
    "y_prob",
    "y_pred_proba",
    "pred_prob",
    "probability",
):
    read(f"csv {score} of class 1", csv({"label": Y2, score: S2}), A2)
for kind, spelled in {
    "True": TRUE, "yes": YES, "Yes": np.array(["No", "Yes"]), "TRUE": np.array(["FALSE", "TRUE"]),
    "positive": np.array(["negative", "positive"]), "1.0": np.array([0.0, 1.0]),
}.items():  # fmt: skip
    read(f"csv score with {kind}", csv({"label": spelled[Y2], "score": S2}), A2)
refused(
    "csv score with ill, well",
    csv({"label": np.array(["well", "ill"])[Y2], "score": S2}),
    "classes",
)
read(
    "csv score with ill, well told",
    told(csv({"label": np.array(["well", "ill"])[Y2], "score": S2}), classes=["well", "ill"]),
    A2,
)
refused("csv score with -1, 1", csv({"label": 2 * Y2 - 1, "score": S2}), "-1")
refused("csv score with 1, 2", csv({"label": Y2 + 1, "score": S2}), "classes")
refused("csv score of class 0", csv({"label": 1 - Y2, "score": S2}), "revers")
refused("csv score of three classes", csv({"label": Y3, "score": P3.max(1)}), "confidence")
read("csv prob_yes alone", csv({"label": YES[Y2], "prob_yes": S2}), A2)
read("csv keras y_pred", csv({"y_true": Y2, "y_pred": S2}), A2)
read("csv xgboost prediction", csv({"label": Y2, "prediction": S2.astype(np.float32)}), A2)
refused("csv answers alone", csv({"y_true": Y2, "y_pred": (S2 > 0.5).astype(int)}), "answers")
refused("csv logit that is a probability", csv({"label": Y2, "logit": S2}), "probabilit")
read("csv one logit", csv({"label": Y2, "logit": np.log(S2 / (1 - S2))}), A2)
RARE = np.random.default_rng(8).beta(0.3, 40, 2000)
refused(
    "csv percent of rare events",
    csv({"label": np.random.default_rng(9).random(2000) < RARE, "score": 100 * RARE}),
    "percent",
)
refused("csv score never below one half", csv({"label": Y2, "score": P2.max(1)}), "confidence")

# Confidence.
C3 = {"confidence": P3.max(1)}
ANSWER = P3.argmax(1)
read("csv confidence, correct", csv(C3 | {"correct": Y3 == ANSWER}), A3)
read("csv confidence, correct as 1", csv(C3 | {"is_correct": (Y3 == ANSWER).astype(int)}), A3)
read("csv confidence, correct as yes", csv(C3 | {"correct": YES[(Y3 == ANSWER).astype(int)]}), A3)
read(
    "csv confidence, correct as R writes it",
    csv(C3 | {"correct": np.where(Y3 == ANSWER, "TRUE", "FALSE")}),
    A3,
)
read("csv confidence, names", csv(C3 | {"label": PETS[Y3], "prediction": PETS[ANSWER]}), A3)
read(
    "csv confidence, Names",
    csv(C3 | {"label": PETS[Y3], "prediction": np.char.title(PETS[ANSWER])}),
    A3,
)
read("csv confidence, numbers", csv(C3 | {"y_true": Y3, "y_pred": ANSWER}), A3)
read("csv confidence, numbers and floats", csv(C3 | {"y_true": Y3, "y_pred": ANSWER * 1.0}), A3)
refused(
    "csv confidence, name and number",
    csv(C3 | {"label": Y3, "prediction": PETS[ANSWER]}),
    "prediction",
)
refused("csv confidence, labels from 1", csv(C3 | {"label": Y3 + 1, "prediction": ANSWER}), "1")
read(
    "csv confidence, True and 1",
    csv({"confidence": P2.max(1), "label": Y2, "pred": TRUE[P2.argmax(1)]}),
    A2,
)
refused(
    "csv confidence in percent",
    csv({"confidence": 100 * P3.max(1), "correct": Y3 == ANSWER}),
    "percent",
)
refused(
    "csv score beside answers",
    csv({"label": Y2, "pred": P2.argmax(1), "score": P2.max(1)}),
    "confidence",
)
HF = [
    {"label": int(a), "score": float(s), "y_true": int(y)}
    for a, s, y in zip(P2.argmax(1), P2.max(1), Y2, strict=True)
]
refused("jsonl pipeline's answer", lines(HF), "y_true")
read(
    "jsonl pipeline's answer told",
    told(lines(HF), label_column="y_true", kind="confidence", columns=["score"]),
    A2,
)

# Arrays.
read("npz probs, labels", npz(probs=P3, labels=Y3), A3)
read("npz logits, labels", npz(logits=np.log(P3), labels=Y3), A3)
read("npz y_pred, y_test", npz(y_pred=P3, y_test=Y3), A3)
read("npz y_pred of one column", npz(y_pred=P2[:, 1:], y_test=Y2), A2)
read("npz y_pred, one-hot y_true", npz(y_pred=P3, y_true=ONE_HOT), A3)
read("npz one-hot floats", npz(probs=P3, labels=ONE_HOT.astype(np.float32)), A3)
read("npz preds, targets", npz(preds=P3, targets=Y3), A3)
read("npz predictions, ground_truth", npz(predictions=P3.astype(np.float32), ground_truth=Y3), A3)
read("npz labels of one column", npz(probs=P3, labels=Y3[:, None]), A3)
read(
    "npz half precision",
    npz(probs=P3.astype(np.float16), labels=Y3),
    share_right(P3.astype(np.float16), Y3),
)
read("npz with inputs", npz(x_test=np.zeros((240, 2, 2)), y_test=Y3, y_prob=P3), A3)
read("npz class_names", npz(probs=P3, labels=PETS[Y3], class_names=PETS), A3)
read("npz classes of the rows", npz(probs=P3, classes=Y3), A3)
refused("npz logits that are probabilities", npz(logits=P3, labels=Y3), "probabilities")
refused("npz logits of sigmoids", npz(logits=S2, labels=Y2), "probabilities")
refused("npz labels, y_true differ", npz(probs=P3, labels=P3.argmax(1), y_true=Y3), "y_true")
refused("npz many labels per row", npz(probs=P3, labels=(P3 > 0.2).astype(int)), "one class")
refused("npz softmax of one class", npz(probs=np.ones((60, 1)), labels=np.zeros(60, int)), "one")
refused("npz labels from 1", npz(probs=P3, labels=Y3 + 1), "1")
refused("npz labels from 1, no row of the last", npz(probs=P10, labels=Y10_FIRST_9 + 1), "1")
refused("npz transposed", npz(probs=P3.T, labels=Y3), "240")
refused("npz unnamed arrays", npz(**{"arr_0": P3, "arr_1": Y3}), "label")
refused("npz text order", npz(probs=P11[:, [0, 1, 10, *range(2, 10)]], labels=Y11), "order")
read("npy and npy", beside(npy(P3), npy(Y3)), A3)
read("npy and one-hot npy", beside(npy(P3), npy(ONE_HOT)), A3)
read("npy of scores", beside(npy(S2), npy(Y2)), A2)
refused("npy and fewer labels", beside(npy(P3), npy(Y3[1:])), "239")
refused("npy and labels from 1", beside(npy(P3), npy(Y3 + 1)), "1")

# JSON.
LISTED = [{"probs": p.tolist(), "label": int(y)} for p, y in zip(P3, Y3, strict=True)]
DICTS = [
    {"probs": dict(zip(PETS.tolist(), p.tolist(), strict=True)), "label": PETS[y].item()}
    for p, y in zip(P3, Y3, strict=True)
]
NESTED = [
    sorted(
        ({"label": str(pet), "score": float(v)} for pet, v in zip(PETS, p, strict=True)),
        key=lambda d: -d["score"],
    )
    for p in P3
]
CODED = [[{"label": f"LABEL_{k}", "score": float(p[k])} for k in np.argsort(-p)] for p in P3]
read("jsonl lists", lines(LISTED), A3)
read("jsonl columns", lines(records(numbered(P3, "p") | {"label": Y3})), A3)
read("jsonl dictionaries", lines(DICTS), A3)
read(
    "jsonl nested scores",
    lines([{"scores": row, "label": str(PETS[y])} for row, y in zip(NESTED, Y3, strict=True)]),
    A3,
)
read(
    "jsonl nested scores by number",
    lines([{"scores": row, "label": int(y)} for row, y in zip(CODED, Y3, strict=True)]),
    A3,
)
refused(
    "jsonl top two alone",
    lines([{"scores": row[:2], "label": str(PETS[y])} for row, y in zip(NESTED, Y3, strict=True)]),
    "top",
)
read("jsonl text of a .json", lines(LISTED, "p.json"), A3)
read("ndjson", lines(LISTED, "p.ndjson"), A3)
read("json records", text(json.dumps(LISTED), "p.json"), A3)
read("json records, indented", text(json.dumps(DICTS, indent=2), "p.json"), A3)
read("json gzip", text(gzip.compress(json.dumps(LISTED).encode()), "p.json.gz"), A3)
read("json columns", text(json.dumps({"probs": P3.tolist(), "labels": Y3.tolist()}), "p.json"), A3)
for orient in ("columns", "index", "split", "table", "records"):
    frame = pd.DataFrame(numbered(P3, "p") | {"label": Y3})
    read(
        f"json pandas {orient}",
        text(frame.to_json(orient=orient, double_precision=15), "p.json"),
        A3,
    )
read("json wrapped", text(json.dumps({"model": "m", "predictions": LISTED}), "p.json"), A3)
read(
    "json pipeline and labels",
    beside(text(json.dumps(NESTED), "p.json"), csv({"label": PETS[Y3]})),
    A3,
)
read(
    "json rows of numbers and labels", beside(text(json.dumps(P3.tolist()), "p.json"), npy(Y3)), A3
)
refused("json text alone", text('"p0"', "p.json"), "JSON")

# Tables of Arrow.
read("parquet lists", table({"probs": P3.tolist(), "label": Y3}), A3)
read("parquet structs", table({"probs": [row["probs"] for row in DICTS], "label": PETS[Y3]}), A3)
read("parquet nested scores", table({"scores": NESTED, "label": PETS[Y3]}), A3)
MAPS = arrow.array(
    [[*row["probs"].items()] for row in DICTS], arrow.map_(arrow.string(), arrow.float64())
)
read("parquet maps", table({"probs": MAPS, "label": PETS[Y3]}), A3)
VECTORS = [{"type": 1, "size": None, "indices": None, "values": p.tolist()} for p in P3]
read(
    "parquet vectors of Spark",
    table({"label": Y3 * 1.0, "probability": VECTORS, "prediction": ANSWER * 1.0}),
    A3,
)
read(
    "parquet categories",
    table(columns(P3, PETS, label=arrow.array(PETS[Y3]).dictionary_encode())),
    A3,
)


def polars(name: str) -> Write:
    def write(folder: Path) -> Path:
        frame = pl.DataFrame(numbered(P3, "p") | {"label": Y3})
        (frame.write_parquet if name.endswith("parquet") else frame.write_ipc)(folder / name)
        return folder / name

    return write


def feather(folder: Path) -> Path:
    pd.DataFrame(numbered(P3, "p") | {"label": Y3}).to_feather(folder / "p.feather")
    return folder / "p.feather"


read("parquet polars", polars("p.parquet"), A3)
read("feather", feather, A3)
read("arrow polars", polars("p.arrow"), A3)
BARE = numbered(P11, "p")
DASK = [f"part.{k}.parquet" for k in range(12)]
read(
    "parquet parts of Dask and labels",
    beside(parts(BARE, DASK, pd.DataFrame.to_parquet), csv({"label": Y11})),
    A11,
)
SPARK = [f"part-{k:05}-c000.snappy.parquet" for k in range(4)]
read("parquet parts of Spark", parts(BARE | {"label": Y11}, SPARK, pd.DataFrame.to_parquet), A11)


def to_csv(frame: pd.DataFrame, path: Path) -> None:
    frame.to_csv(path, index=False)


def to_lines(frame: pd.DataFrame, path: Path) -> None:
    frame.to_json(path, orient="records", lines=True, double_precision=15)


read(
    "csv parts of Spark",
    parts(BARE | {"label": Y11}, [f"part-{k:05}.csv" for k in range(3)], to_csv),
    A11,
)
read(
    "csv parts of Dask and labels",
    beside(parts(BARE, [f"{k}.part.csv" for k in range(12)], to_csv), npy(Y11)),
    A11,
)
read(
    "json parts of Spark",
    parts(BARE | {"label": Y11}, [f"part-{k:05}.json" for k in range(3)], to_lines),
    A11,
)

# Labels of their own file.
IDS = np.array([f"img_{k}.png" for k in range(240)])
PREDICTED = {"id": IDS} | numbered(P3, "p")
read("ids in another order", beside(csv(PREDICTED), csv(shuffled({"id": IDS, "label": Y3}))), A3)
read(
    "ids as numbers in another order",
    beside(
        csv(PREDICTED | {"id": np.arange(240)}), csv(shuffled({"id": np.arange(240), "label": Y3}))
    ),
    A3,
)
read(
    "ids of more labels",
    beside(
        csv({k: v[:200] for k, v in PREDICTED.items()}), csv(shuffled({"id": IDS, "label": Y3}))
    ),
    share_right(P3[:200], Y3[:200]),
)
read(
    "ids in parquet and csv",
    beside(table(PREDICTED), csv(shuffled({"id": IDS, "label": PETS[Y3]})), classes=PETS.tolist()),
    A3,
)
read(
    "filename and labels",
    beside(
        csv({"filename": IDS} | numbered(P3, "p")), csv(shuffled({"filename": IDS, "class": Y3}))
    ),
    A3,
)
read("ids of the labels alone", beside(csv(numbered(P3, "p")), csv({"id": IDS, "label": Y3})), A3)
refused(
    "ids that are others",
    beside(csv(PREDICTED), csv({"id": np.char.add(IDS, "x"), "label": Y3})),
    "id",
)
refused(
    "ids twice in another order",
    beside(
        csv(PREDICTED | {"id": np.arange(240) // 2}),
        csv(shuffled({"id": np.arange(240) // 2, "label": Y3})),
    ),
    "id",
)
refused("fewer labels", beside(csv(numbered(P3, "p")), csv({"label": Y3[1:]})), "239")
refused(
    "index of another order",
    beside(csv(numbered(P3, "p"), index=True), lambda folder: _shuffled_index(folder)),
    "order",
)
read(
    "index of a split",
    beside(csv(numbered(P3, "p"), index=True), lambda folder: _index_of_a_split(folder)),
    A3,
)
read("labels in text", beside(csv(numbered(P3, "p")), text("\n".join(map(str, Y3)), "y.txt")), A3)
read("one-hot labels in csv", beside(csv(numbered(P3, "p")), csv(numbered(ONE_HOT, ""))), A3)
refused(
    "label columns of their own file differ",
    beside(csv(numbered(P3, "p")), csv({"label": Y3, "target": 2 - Y3})),
    "target",
)


def _shuffled_index(folder: Path) -> Path:
    pd.DataFrame({"label": Y3}).sample(frac=1, random_state=0).to_csv(folder / "y.csv")
    return folder / "y.csv"


def _index_of_a_split(folder: Path) -> Path:
    index = np.random.default_rng(0).permutation(1000)[:240]
    pd.DataFrame({"label": Y3}, index=index).to_csv(folder / "y.csv")
    return folder / "y.csv"


# Other habits: of R, CatBoost, H2O, transformers; and honest files of bad models.
big_p, big_y = model(3000, 3, seed=11)
o = np.argsort(big_y, kind="stable")
read(
    "sorted by label names",
    csv(columns(big_p[o], PETS, label=PETS[big_y[o]])),
    share_right(big_p, big_y),
)
read(
    "sorted by label p",
    csv(numbered(big_p[o], "p") | {"label": big_y[o]}),
    share_right(big_p, big_y),
)
read(
    "sorted text-head",
    csv(as_text(numbered(P11, "class_")) | {"label": np.sort(Y11) * 0 + Y11}),
    A11,
)
read("jsonl bools", lines(records(columns(P2[:, ::-1], ["True", "False"], label=(Y2 == 1)))), A2)
read("npz y_true y_pred y_prob", npz(y_true=Y3, y_pred=ANSWER, y_prob=P3), A3)
read("HF trainer", npz(predictions=np.log(P3) + 1, label_ids=Y3), A3)
read("sklearn full", csv(columns(P3, ["0", "1", "2"]) | {"y_true": Y3, "y_pred": ANSWER}), A3)
read(
    "caret",
    csv(
        {"pred": PETS[ANSWER], "obs": PETS[Y3]}
        | columns(P3, PETS)
        | {"rowIndex": np.arange(240) + 1}
    ),
    A3,
)
read(
    "tidymodels",
    csv(
        {"truth": PETS[Y3]}
        | columns(P3, [f".pred_{p}" for p in PETS])
        | {".pred_class": PETS[ANSWER]}
    ),
    A3,
)
read(
    "tidymodels 2",
    csv(
        {"truth": YES[Y2]}
        | columns(P2[:, ::-1], [".pred_yes", ".pred_no"])
        | {".pred_class": YES[P2.argmax(1)]}
    ),
    A2,
)
read(
    "catboost",
    csv(
        numbered(P3, "Probability:Class=")
        | numbered(np.log(P3), "RawFormulaVal:Class=")
        | {"label": Y3}
    ),
    A3,
)
read(
    "catboost names",
    csv(columns(P3, [f"Probability:Class={p}" for p in PETS]) | {"label": PETS[Y3]}),
    A3,
)
read("h2o", csv({"predict": ANSWER} | numbered(P3, "p") | {"label": Y3}), A3)
read("h2o names", csv({"predict": PETS[ANSWER]} | columns(P3, PETS) | {"y": PETS[Y3]}), A3)
read(
    "LABEL_ both",
    lines([{"scores": r, "label": f"LABEL_{y}"} for r, y in zip(CODED, Y3, strict=True)]),
    A3,
)
read(
    "class_3 vs prob_class_3",
    csv(numbered(P3, "prob_class_") | {"label": [f"class_{y}" for y in Y3]}),
    A3,
)
read("outputs targets", npz(outputs=np.log(P3), targets=Y3), A3)
read("id floats", csv({"id": np.arange(240) * 1.0} | columns(P3, PETS, label=PETS[Y3])), A3)
read("age", csv({"age": np.arange(240) % 70 + 0.5} | columns(P3, PETS, label=PETS[Y3])), A3)
RANDOM = np.random.default_rng(5)
yb = RANDOM.integers(0, 2, 400)
sb = RANDOM.random(400)
read("binary at chance", csv({"label": yb, "score": sb}), float(((sb > 0.5) == yb).mean()))
yc = RANDOM.integers(0, 10, 300)
read("multi at chance", csv(numbered(P10, "p") | {"label": yc}), share_right(P10, yc))
rare = RANDOM.beta(0.5, 20, 2000)
yr = (RANDOM.random(2000) < rare).astype(int)
read("rare legit", csv({"label": yr, "score": rare}), float(((rare > 0.5) == yr).mean()))
over = np.clip(rare * 6 + 0.3, 0, 1)
read("rare overly positive", csv({"label": yr, "score": over}), float(((over > 0.5) == yr).mean()))
read(
    "one class labels",
    csv(numbered(P3, "p") | {"label": np.zeros(240, int)}),
    share_right(P3, 0 * Y3),
)
read("neg,neutral,pos", csv(columns(P3, ["negative", "neutral", "positive"], label=Y3)), A3)
refused("-1,0,1", csv(columns(P3, ["negative", "neutral", "positive"], label=Y3 - 1)), "class")
read(
    "neg/pos words",
    csv(columns(P2[:, ::-1], ["pos", "neg"], label=np.array(["negative", "positive"])[Y2])),
    A2,
)
read("X1 X2 labels 1 2", csv(numbered(P2, "X", 1) | {"label": Y2 + 1}), A2)
read("p0 p1 bool", csv(numbered(P2, "p") | {"label": Y2 == 1}), A2)
read("1,0 cols ints", csv(columns(P2[:, ::-1], ["1", "0"], label=Y2)), A2)
refused("spark text", csv({"label": Y2, "probability": [str(r) for r in P2.tolist()]}), "text")
refused(
    "percent ints", csv(columns((100 * P3).round().astype(int), PETS, label=PETS[Y3])), "percent"
)
refused(
    "percent ints p", csv(numbered((100 * P3).round().astype(int), "p") | {"label": Y3}), "percent"
)
refused("score 0..100", csv({"label": Y2, "score": (100 * S2).round().astype(int)}), "percent")
read("labels json list", beside(npy(P3), text(json.dumps(Y3.tolist()), "y.json")), A3)
read(
    "path vs filename",
    beside(csv({"path": IDS} | numbered(P3, "p")), csv(shuffled({"filename": IDS, "label": Y3}))),
    A3,
)
refused(
    "path vs filename partly",
    beside(
        csv({"path": IDS} | numbered(P3, "p")),
        csv(shuffled({"filename": np.r_[["z"], IDS[1:]], "label": Y3})),
    ),
    "id",
)
read(
    "id here name there",
    beside(csv({"id": np.arange(240)} | numbered(P3, "p")), csv({"filename": IDS, "label": Y3})),
    A3,
)
read(
    "R quoted",
    text(
        '"","X1","X2","X3","label"\n'
        + "\n".join(
            f'"{i + 1}",{p[0]},{p[1]},{p[2]},"{y + 1}"'
            for i, (p, y) in enumerate(zip(P3, Y3, strict=True))
        )
    ),
    A3,
)
read("log_probs", npz(log_probs=np.log(P3), labels=Y3), A3)
read("log_softmax cols", csv(numbered(np.log(P3), "log_softmax_") | {"label": Y3}), A3)
read(
    "float32 4 digits",
    csv(numbered(P10.round(4), "p") | {"label": Y10}),
    share_right(P10.round(4), Y10),
)
refused("confidence and label", csv(C3 | {"label": Y3}), "predic|answer")
refused(
    "prob + pred 10", csv({"label": Y10, "pred": P10.argmax(1), "prob": P10.max(1)}), "confidence"
)
read("hard 0/1", csv(numbered(np.eye(3)[ANSWER], "p") | {"label": Y3}), A3)
read(
    "n parquet null label",
    table(
        numbered(P3, "p")
        | {"label": arrow.array([None if i == 5 else int(y) for i, y in enumerate(Y3)])}
    ),
    float(np.delete(ANSWER == Y3, 5).mean()),
    1,
)
refused(
    "text labels ids mismatch",
    beside(csv(PREDICTED), csv({"id": IDS[::-1][:200], "label": Y3[:200]})),
    "id",
)
read("id ok same", beside(csv(PREDICTED), csv({"id": IDS, "label": Y3})), A3)
read("categories label order", csv(columns(P3, PETS, label=pd.Categorical(PETS[Y3]))), A3)
read("softmax_cat", csv(columns(P3, ["Prob_Cat", "Prob_Dog", "Prob_Bird"], Label=PETS[Y3])), A3)
read("prob_1 & prob_0 reversed", csv(columns(P2[:, ::-1], ["prob_1", "prob_0"], y_true=Y2)), A2)
read("pos only", csv({"label": np.array(["neg", "pos"])[Y2], "prob_pos": S2}), A2)
read("prob_spam 0/1", csv({"label": Y2, "prob_spam": S2}), A2)
refused("prob_ham 0/1 where 1=spam", csv({"label": Y2, "prob_ham": 1 - S2}), "revers")
read("conf correct words", csv(C3 | {"correct": np.where(Y3 == ANSWER, "True", "False")}), A3)
read(
    "max_prob pred label str",
    lines(records({"max_prob": P3.max(1), "predicted": PETS[ANSWER], "label": PETS[Y3]})),
    A3,
)
read(
    "y_pred probs + y_pred_class",
    csv({"y_true": Y2, "y_pred": S2, "y_pred_class": (S2 > 0.5) * 1}),
    A2,
)
read("0_prob", csv(columns(P3, ["0_prob", "1_prob", "2_prob"], label=Y3)), A3)
read("class0_prob", csv(columns(P3, ["class0_prob", "class1_prob", "class2_prob"], label=Y3)), A3)
read("cat_prob", csv(columns(P3, [f"{p}_prob" for p in PETS], label=PETS[Y3])), A3)
read("cat_score ints", csv(columns(P3, [f"{p}_score" for p in PETS], label=Y3)), A3)
read("feather names", feather, A3)
read(
    "digits as names sorted text no label prefix",
    lines(
        [
            {"label": int(y), "probs": {str(k): float(p[k]) for k in sorted(range(11), key=str)}}
            for p, y in zip(P11, Y11, strict=True)
        ]
    ),
    A11,
)
read("nullable", table({"label": pd.array(Y3, dtype="Int64").to_numpy(), **numbered(P3, "p")}), A3)
read("bool score", csv({"is_fraud": Y2 == 1, "score": S2, "y": Y2}), A2)
read("yes/no conf", csv({"confidence": P2.max(1), "label": YES[Y2], "pred": YES[P2.argmax(1)]}), A2)
read("y/n single", csv(columns(P2[:, ::-1], ["y", "n"], label=np.array(["n", "y"])[Y2])), A2)
read(
    "names digits one",
    csv(columns(P3, ["1-10", "11-20", "21-30"], label=np.array(["1-10", "11-20", "21-30"])[Y3])),
    A3,
)
read("grades", csv(columns(P3, ["G1", "G2", "G3"], label=np.array(["G1", "G2", "G3"])[Y3])), A3)
read("stage 1..3 ints", csv(columns(P3, ["stage1", "stage2", "stage3"], label=Y3 + 1)), A3)
read(
    "mixed G",
    csv(columns(P3, ["T1", "T2", "normal"], label=np.array(["T1", "T2", "normal"])[Y3])),
    A3,
)
read(
    "years", csv(columns(P3, ["1990", "2000", "2010"], label=np.array([1990, 2000, 2010])[Y3])), A3
)

# Formats that are not read.
for name in ("p.pkl", "p.csv.zip", "p.pt", "p.xls", "p.rds"):
    refused(f"format {name}", text(b"\x80\x04.", name), "format")
