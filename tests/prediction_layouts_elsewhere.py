"""More predictions as people save them: the files of other frameworks, tools and spreadsheets.

Each was decided to be *read* or *refused* before it was tried. Where neither would be a wrong
number, the table says what happens today.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from prediction_layouts import (
    A2,
    A3,
    A11,
    P2,
    P3,
    P11,
    PETS,
    Y2,
    Y3,
    Y11,
    YES,
    Write,
    beside,
    columns,
    csv,
    lines,
    npy,
    npz,
    numbered,
    parts,
    read,
    refused,
    share_right,
    shuffled,
    table,
    text,
)

ROWS = range(len(Y3))
LABELS = PETS[Y3]
ANSWERS = PETS[P3.argmax(axis=1)]
LOGITS = np.log(P3)
SCORES = P2[:, 1]
SOFTER = np.sqrt(P3) / np.sqrt(P3).sum(axis=1, keepdims=True)
SORTED = -np.sort(-P3, axis=1)
DRAW = np.random.default_rng(12)
PLAIN = columns(P3, PETS, label=LABELS)
GOOD = np.ones(len(Y3), bool)
GOOD[[5, 77]] = False
A_GOOD = share_right(P3[GOOD], Y3[GOOD])


def body(frame: dict, **options: Any) -> str:
    return pd.DataFrame(frame).to_csv(index=False, **options)


def two_cells(word: str) -> dict:
    """Return the columns of the classes with a word in two cells of the first."""
    first = np.where(GOOD, P3[:, 0].astype(object), word)
    return columns(P3, PETS, label=LABELS) | {"cat": first}


def excel(*frames: dict, **options: Any) -> Write:
    """Write one sheet per frame."""

    def write(folder: Path) -> Path:
        with pd.ExcelWriter(folder / "p.xlsx") as book:
            for number, frame in enumerate(frames):
                pd.DataFrame(frame).to_excel(book, sheet_name=str(number), **options)
        return folder / "p.xlsx"

    return write


# scikit-learn and Keras.
read("sklearn predict_proba", npz(predict_proba=P3, y_test=Y3), A3)
read("sklearn predict_log_proba", npz(predict_log_proba=LOGITS, y_test=Y3), A3)
refused("sklearn decision_function", npz(decision_function=LOGITS, y_test=Y3), "margins")
refused("npz features", npz(features=DRAW.normal(size=(240, 64)), labels=Y3), "features")
refused("npz X and y", npz(X=DRAW.normal(size=(240, 4)), y=Y3), "features")
read("sklearn folds", csv(columns(P3, [f"proba_{k}" for k in range(3)], {"fold": Y3}, y=Y3)), A3)
refused("joblib", text(b"\x80\x04.", "p.joblib"), "format")
read("keras float32 and uint8", npz(predictions=P3.astype("f4"), y_test=Y3[:, None] + 0), A3)
refused("savez without names", lambda folder: _savez(folder, P3, Y3), "arr_0")
read("savetxt", beside(text(body(numbered(P3, "p"), header=False)), npy(Y3)), A3)
SCIENTIFIC = "".join(f"{y:.18e}\n" for y in Y3)
read(
    "savetxt of both",
    beside(text(body(numbered(P3, "p"), header=False)), text(SCIENTIFIC, "l.txt")),
    A3,
)
refused("savetxt with labels inside", text(body(PLAIN | {"label": Y3}, header=False)), "first line")
read("float16", npz(probs=P3.astype("f2"), labels=Y3), A3)
read("hard one-hot answers", csv(columns(np.eye(3)[P3.argmax(1)], PETS, label=LABELS)), A3)

# R.
CARET = {"pred": ANSWERS, "obs": LABELS} | columns(P3, PETS, rowIndex=ROWS, mtry=2, Resample="F1")
read("R caret", csv(CARET, index=True), A3)
MLR3 = {"row_ids": ROWS, "truth": LABELS, "response": ANSWERS}
read("R mlr3", csv(MLR3 | columns(P3, [f"prob.{pet}" for pet in PETS])), A3)
TIDY = columns(P3, [f".pred_{pet}" for pet in PETS])
TIDY |= {".row": ROWS, ".pred_class": ANSWERS, "class": LABELS, ".config": "Model1"}
read("R tidymodels", csv(TIDY), A3)
TEXT_ORDER = sorted(range(11), key=str)
TIDY_NUMBERS = columns(P11[:, TEXT_ORDER], [f".pred_{k}" for k in TEXT_ORDER], truth=Y11)
read("R tidymodels in the order of text", csv(TIDY_NUMBERS), A11)
CHURN = columns(P2, [".pred_No", ".pred_Yes"], Churn=np.array(["No", "Yes"])[Y2])
refused("R tidymodels, a label of its own name", csv(CHURN), "no labels")
read("R write.csv2", csv(PLAIN, sep=";", decimal=",", quoting=2), A3)
read("R logical", csv(columns(P2, ["FALSE", "TRUE"], obs=np.array(["FALSE", "TRUE"])[Y2])), A2)
refused("R write.table", csv(PLAIN, sep=" "), "no predictions")
MISSING = columns(np.where(GOOD[:, None], P3, np.nan), PETS, label=LABELS)
read("R NA", csv(MISSING, na_rep="NA"), A_GOOD, left_out=2)
read("SAS dot", csv(MISSING, na_rep="."), A_GOOD, left_out=2)
read("R NA labels", csv(PLAIN | {"label": np.where(GOOD, LABELS, "NA")}), A_GOOD, left_out=2)
refused("R factor codes", csv(columns(P3, [f"prob.{p}" for p in PETS], truth=Y3 + 1)), "from 1")
refused("R V1", csv(columns(P3, ["V1", "V2", "V3"], obs=LABELS)), "classes=")

# Boosting, AutoML and services.
refused("xgboost flat softprob", npz(preds=P3.ravel(), labels=Y3), "rows")
refused("lightgbm raw_score", csv({"label": Y2, "raw_score": np.log(SCORES)}), "no predictions")
CATBOOST = columns(P3, [f"Probability:Class={p}" for p in PETS], {"SampleId": ROWS}, Label=LABELS)
read("catboost eval", csv(CATBOOST, "p.tsv", sep="\t"), A3)
RAW = columns(LOGITS, [f"RawFormulaVal:Class={k}" for k in range(3)], Label=Y3)
refused("catboost raw values", csv(RAW, "p.tsv", sep="\t"), "logits")
read("h2o names and labels", csv(columns(P3, PETS, {"predict": ANSWERS}, actual=LABELS)), A3)
refused("h2o without labels", csv(columns(P3, PETS, {"predict": ANSWERS})), "no labels")
NINE = np.array([3, 5, 9])[Y3]
read("autogluon", csv(columns(P3[:, [2, 0, 1]], ["9", "3", "5"], label=NINE), index=True), A3)
PYCARET = {"target": LABELS, "prediction_label": ANSWERS, "prediction_score": P3.max(axis=1)}
read("pycaret", csv(PYCARET), A3)
PYCARET_RAW = columns(P3, [f"prediction_score_{p}" for p in PETS], target=LABELS)
read("pycaret raw_score", csv(PYCARET_RAW | {"prediction_label": ANSWERS}), A3)
read("azure", csv(columns(P3, [f"Scored Probabilities_{p}" for p in PETS], label=LABELS)), A3)
KNIME = {"class": LABELS, "Prediction (class)": ANSWERS}
read("knime", csv(columns(P3, [f"P (class={p})" for p in PETS]) | KNIME), A3)
RAPID = columns(P3, [f"confidence({p})" for p in PETS]) | {"prediction(label)": ANSWERS}
read("rapidminer", csv(RAPID | {"label": LABELS}), A3)

# Hugging Face and other JSON.
TOP_1 = [
    {"label": f"LABEL_{p.argmax()}", "score": p.max(), "gold": f"LABEL_{y}"}
    for p, y in zip(P3, Y3, strict=True)
]
refused("HF answers and gold", lines(TOP_1), "gold")
read("HF Trainer", npz(predictions=LOGITS, label_ids=Y3), A3)
SHOTS = [
    {
        "labels": PETS[np.argsort(-p)].tolist(),
        "scores": np.sort(p)[::-1].tolist(),
        "gold": PETS[y],
    }
    for p, y in zip(P3, Y3, strict=True)
]
refused("HF zero-shot", lines(SHOTS), "classes=")
SPARSE = [
    {"label": PETS[y], "probs": {PETS[k]: p[k] for k in range(3) if p[k] > 0.05}}
    for p, y in zip(P3, Y3, strict=True)
]
refused("dictionaries without small ones", lines(SPARSE), "some of the classes")
ROLLED = [
    {"label": PETS[y], "probs": {PETS[k]: p[k] for k in np.roll(range(3), row)}}
    for row, (p, y) in enumerate(zip(P3, Y3, strict=True))
]
read("dictionaries in any order", lines(ROLLED), A3)
LOG_PROBS = [
    {"label": PETS[y], "logprobs": dict(zip(PETS, p, strict=True))}
    for p, y in zip(LOGITS, Y3, strict=True)
]
read("logprobs by name", lines(LOG_PROBS), A3)
WANDB = {
    "columns": ["id", "truth", "guess", "score_cat", "score_dog", "score_bird"],
    "data": [[row, LABELS[row], ANSWERS[row], *P3[row]] for row in ROWS],
}
read("wandb table", text(json.dumps(WANDB), "p.table.json"), A3)
for orient in ("columns", "split", "records"):
    whole = pd.DataFrame(PLAIN).to_json(orient=orient, double_precision=15)
    read(f"pandas to_json {orient}", text(whole, "p.json"), A3)

# Several predictions in one file.
read("logits and their probs", npz(logits=LOGITS, probs=P3, labels=Y3), A3)
refused("logits and other probs", npz(logits=LOGITS, probs=SOFTER, labels=Y3), "kind=")
refused("two lists", npz(probs=P3, probabilities=SOFTER, labels=Y3), "differ")
LOGIT_COLUMNS = columns(LOGITS, [f"logit_{p}" for p in PETS])
BOTH = columns(SOFTER, [f"prob_{p}" for p in PETS], label=LABELS) | LOGIT_COLUMNS
refused("columns of logits and other probs", csv(BOTH), "differ")
read("columns of both", csv(BOTH | columns(P3, [f"prob_{p}" for p in PETS])), A3)
refused("two scores", csv({"label": Y2, "score": SCORES**2, "prob": SCORES}), "differ")
refused("logit and another prob", csv({"label": Y2, "logit": 9.0 * Y2, "prob": SCORES}), "differ")
read("score of another kind", csv({"label": Y2, "score": 700 * SCORES, "prob": SCORES}), A2)
refused("two models", csv(numbered(P3, "a_p") | numbered(SOFTER, "b_p") | {"y": Y3}), "both")
RAW_AND = columns(P3, [f"raw_{p}" for p in PETS]) | columns(SOFTER, [f"new_{p}" for p in PETS])
refused("raw and calibrated", csv(RAW_AND | {"label": LABELS}), "columns=")
DROPOUT = columns(P3, [f"p{k}_mean" for k in range(3)]) | columns(P3 / 9, ["s0", "s1", "s2"])
read("means and deviations", csv(DROPOUT | {"label": Y3}), A3)

# Top answers, sorted.
TOP = {f"top{k + 1}_prob": SORTED[:, k] for k in range(3)}
refused("top three", csv(TOP | {"label": LABELS}), "classes")
refused("torch.topk", npz(indices=np.argsort(-P3, axis=1), probs=SORTED, labels=Y3), "sorted")
refused("np.sort", npz(probs=SORTED, labels=Y3), "sorted")
USUAL = np.exp(DRAW.normal(size=(240, 3)) / 20 + [3, 1, -1])
USUAL /= USUAL.sum(axis=1, keepdims=True)
Y_USUAL = (USUAL.cumsum(axis=1) < DRAW.random((240, 1))).sum(axis=1)
read("a common first class", npz(probs=USUAL, labels=Y_USUAL), share_right(USUAL, Y_USUAL))

# Spreadsheets and numbers.
read("decimal comma and tabs", csv(PLAIN, "p.tsv", sep="\t", decimal=","), A3)
read("decimal comma, two missing", csv(MISSING, sep=";", decimal=","), A_GOOD, left_out=2)
COMMAS = pd.DataFrame(two_cells("oops")).astype(str).to_csv(index=False, sep=";").replace(".", ",")
read("decimal comma, two words", text(COMMAS), A_GOOD, left_out=2)
refused("decimal comma in a comma CSV", csv(PLAIN, decimal=",", quoting=1), "decimal")
THOUSANDS = columns(
    np.vectorize("{:,.0f}".format)(9999 * LOGITS), ["logit_0", "logit_1", "logit_2"]
)
refused("thousands between semicolons", csv(THOUSANDS | {"label": Y3}, sep=";"), "decimal")
BELOW = np.vectorize(lambda value: "<0.01" if value < 0.01 else f"{value:.2f}")(P3)
refused("below 0.01", csv(columns(BELOW, PETS, label=LABELS)), "<0.01")
read("two spreadsheet errors", csv(two_cells("#DIV/0!")), A_GOOD, left_out=2)
refused("one digit", csv(columns(P3.round(1), PETS, label=LABELS)), "digits")
refused("uint8", npz(probs=(255 * P3).round().astype("u1"), labels=Y3), "sum")
refused("permille", csv(columns((1000 * P3).round(), ["p0", "p1", "p2"], label=Y3)), "sum")
read("excel with an index", excel(PLAIN), A3)
read("excel numbers as text", excel({k: np.char.mod("%s", v) for k, v in PLAIN.items()}), A3)
refused("excel notes above", excel(PLAIN, startrow=3), "first row")
refused("excel second sheet", excel({"note": ["x"]}, PLAIN, index=False), "note")
refused("a comment above", text("# model 3, 2024\n" + body(PLAIN)), "line 2")
refused("a title above", text("Predictions of model 3\n\n" + body(PLAIN)), "no predictions")
refused("sep= above", text("sep=;\n" + body(PLAIN, sep=";")), "line 2")
read("quoted numbers", csv(PLAIN, quoting=1), A3)
read("header repeated", text(body(PLAIN) + "cat,dog,bird,label\n"), A3, left_out=1)
read("mean below", text(body(PLAIN) + "0.4,0.3,0.3,mean\n"), A3, left_out=1)
read("trailing delimiter", text(body(PLAIN).replace("\n", ",\n")), A3)
MANY = pd.DataFrame(P3, columns=pd.MultiIndex.from_product([["probs"], PETS]))
refused("two header rows", text(MANY.to_csv(index=False)), "two columns")
refused("columns of one name", text(body(PLAIN).replace("cat,dog", "cat,cat", 1)), "two columns")
refused("pipes", csv(PLAIN, sep="|"), "no predictions")
refused("ARFF as CSV", text("@relation x\n@data\n0.1,0.2,0.7,owl\n"), "no predictions")
PADDED = [
    [f" {word}", word.title(), f"{word.upper()} "][row % 3] for row, word in enumerate(LABELS)
]
read("labels in any case, padded", csv(PLAIN | {"label": PADDED}), A3)
read("a column of sums", csv(columns(P3, PETS, total=1.0, label=LABELS)), A3)
read("an empty column", csv(columns(P3, PETS, fox=np.nan, label=LABELS)), A3)
FEATURES = {"f_a": DRAW.random(240), "f_b": DRAW.random(240)}
read("features beside names", csv(FEATURES | PLAIN), A3)
read("features beside class_0", csv(FEATURES | numbered(P3, "class_") | {"label": Y3}), A3)

# Scores of two classes.
read("prob_no alone", csv({"label": YES[Y2], "prob_no": P2[:, 0]}), A2)
refused("p0 alone", csv({"label": Y2, "p0": P2[:, 0]}), "no predictions")
refused("prob_no and numbers", csv({"label": Y2, "prob_no": P2[:, 0]}), "no predictions")
BENIGN = np.array(["benign", "malignant"])[Y2]
read("prob_benign alone", csv({"label": BENIGN, "prob_benign": P2[:, 0]}), A2)
refused("score and two words", csv({"label": BENIGN, "score": SCORES}), "POSITIVE")
refused("margin", csv({"label": Y2, "margin": np.log(SCORES)}), "no predictions")
refused("score beyond 1", csv({"label": Y2, "score": 6 * SCORES - 2}), "outside 0 to 1")

# Matlab, Weka, SAS, SPSS.
read("matlab", csv(columns(P3, ["Scores_1", "Scores_2", "Scores_3"], YTrue=Y3 + 1)), A3)
UNDEFINED = np.where(GOOD, LABELS, "<undefined>")
read("matlab undefined", csv(columns(P3, PETS, YTest=UNDEFINED)), A_GOOD, left_out=2)
refused("matlab by name", csv(columns(P3, ["s1", "s2", "s3"], YTest=LABELS)), "classes=")
for name in ("p.mat", "p.arff", "p.dta", "p.sav", "p.sas7bdat", "p.rds", "p.tab"):
    refused(f"format of {name}", text(b"x", name), "format")
SAS = columns(P3, [f"P_{p}" for p in PETS]) | {"_FROM_": LABELS, "_INTO_": ANSWERS}
read("SAS", csv(SAS | {"target": LABELS}), A3)
SPSS = {"diagnosis": Y2, "PRE_1": Y2, "PRB1_1": P2[:, 0], "PRB2_1": SCORES}
refused("SPSS", csv(SPSS), "no labels")
WEKA = {"inst#": ROWS, "actual": LABELS, "predicted": ANSWERS, "prediction": P3.max(axis=1)}
refused("weka", csv(WEKA), "kind='confidence'")

# Labels in a file of their own.
STUDENTS = {"StudentID": np.arange(240) + 900}
THEIRS = STUDENTS | {"label": LABELS}
OURS = STUDENTS | columns(P3, PETS)
read("an id of any name, in order", beside(csv(OURS), csv(THEIRS)), A3)
refused("an id of any name, shuffled", beside(csv(OURS), csv(shuffled(THEIRS))), "StudentID")
FILES = {"filename": [f"img/{row:04}.jpg" for row in ROWS]} | columns(P3, PETS)
STEMS = shuffled({"id": [f"{row:04}" for row in ROWS], "label": LABELS})
refused("ids with and without endings", beside(csv(FILES), csv(STEMS)), "in one way")
refused(
    "ids with and without zeros", beside(csv({"id": ROWS} | numbered(P3, "p")), csv(STEMS)), "id"
)
FLOAT_IDS = {"id": np.arange(240.0)} | columns(P3, PETS)
read("ids as fractions", beside(csv(FLOAT_IDS), csv(shuffled({"id": ROWS, "label": LABELS}))), A3)
HOT = shuffled({"id": ROWS} | columns(np.eye(3, dtype=int)[Y3], PETS))
read("one-hot labels by id", beside(csv(FLOAT_IDS), csv(HOT)), A3)
refused("too few labels", beside(csv(numbered(P3, "p")), npy(Y3[:-1])), "labels")
EXPECTED = shuffled({"Id": ROWS, "Expected": LABELS})
read("a submission", beside(csv({"Id": ROWS} | columns(P3, PETS)), csv(EXPECTED)), A3)

# Parts.
SPARK = [f"part-0000{part}-ab12.c000.csv" for part in range(3)]
IN_PARTS = numbered(P3, "p") | {"label": Y3.astype(float), "prediction": P3.argmax(axis=1)}
read("spark CSV", parts(IN_PARTS, SPARK, lambda frame, path: frame.to_csv(path, index=False)), A3)
LISTED = {"label": Y3, "probability": [str(row) for row in P3.tolist()]}
refused(
    "spark CSV of lists",
    parts(LISTED, SPARK, lambda frame, path: frame.to_csv(path, index=False)),
    "lists",
)
read("polars booleans", table({"label": Y2 == 1, "prob_true": SCORES, "prob_false": P2[:, 0]}), A2)

# A class called None, and labels that are missing.
NONE = np.array(["cat", "dog", "None"])
WITH_NONE = pd.DataFrame(columns(P3, NONE, label=NONE[Y3]))
AS_NULL = WITH_NONE.assign(label=[None if y == 2 else NONE[y] for y in Y3])
LABELLED = [word if ok else None for ok, word in zip(GOOD, NONE[Y3], strict=True)]
SOME_NULL = WITH_NONE.assign(label=LABELLED)
for kind, write in {
    "csv": lambda frame: csv(dict(frame)),
    "jsonl": lambda frame: lines(frame.to_dict("records")),
    "parquet": lambda frame: table(dict(frame)),
}.items():
    read(f"{kind} None and two missing", write(SOME_NULL), A_GOOD, left_out=2)
    refused(f"{kind} null for None", write(AS_NULL), "no label")

# Labels that are no classes.
IGNORED = np.where(np.arange(240) < 6, -1, Y3)
read("2% ignored", npz(probs=P3, labels=IGNORED), share_right(P3[6:], Y3[6:]), left_out=6)
refused("20% ignored", npz(probs=P3, labels=np.where(np.arange(240) % 5 == 0, -100, Y3)), "-100")
BACKGROUND = np.c_[np.full(330, 1e-3), P11 * (1 - 1e-3)]
refused("a background class first", npz(probs=BACKGROUND, labels=Y11), "shifted")
refused("a long table", csv({"class": np.tile(PETS, 240), "probability": P3.ravel()}), "class")
refused("samples of dropout", npz(probs=np.stack([P3] * 5), labels=Y3), "no predictions")
refused("soft labels", npz(probs=P3, labels=0.9 * np.eye(3)[Y3] + 0.1 / 3), "fractions")


def _savez(folder: Path, *arrays: Any) -> Path:
    np.savez(folder / "p.npz", *arrays)
    return folder / "p.npz"
