"""The same predictions written in every format that audit reads."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
from pyarrow import parquet

FORMATS = ("p.parquet", "p.csv", "p.csv.gz", "p.tsv", "p.jsonl", "p.jsonl.gz", "p.npz")


def predictions(
    num_rows: int = 200, num_classes: int = 3, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and labels."""
    generator = np.random.default_rng(seed)
    logits = 2 * generator.standard_normal((num_rows, num_classes))
    labels = np.where(
        generator.random(num_rows) < 0.7,
        logits.argmax(1),
        generator.integers(0, num_classes, num_rows),
    )
    odds = np.exp(logits)
    return odds / odds.sum(axis=1, keepdims=True), labels


def columns_of(probs: np.ndarray, labels: Any, prefix: str = "p") -> dict[str, Any]:
    """label, p0, p1, ..."""
    return {"label": labels, **{f"{prefix}{k}": probs[:, k] for k in range(probs.shape[1])}}


def write_columns(path: Path, columns: Mapping[str, Any]) -> Path:
    """Columns in the format that the name of the file tells."""
    if path.suffix == ".npz":
        np.savez_compressed(path, **{name: np.asarray(column) for name, column in columns.items()})
        return path
    lists = {name: np.asarray(column).tolist() for name, column in columns.items()}
    if path.suffix == ".parquet":
        parquet.write_table(arrow.table(lists), path)
        return path
    rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8", newline="") as file:
        if ".jsonl" in path.suffixes:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        else:
            writer = csv.DictWriter(
                file, list(lists), delimiter="\t" if ".tsv" in path.suffixes else ","
            )
            writer.writeheader()
            writer.writerows(rows)
    return path
