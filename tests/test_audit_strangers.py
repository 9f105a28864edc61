"""Rows of an audited file that are labeled unknown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from socrates.audit.page import write_audit
from socrates.audit.run import audit
from socrates.metrics import auroc
from socrates.metrics.open_world import OPEN_WORLD

NAMES = ("cat", "dog", "cow")


def write_file(path: Path, num_strangers: int, word: str = "unknown") -> np.ndarray:
    """Write predictions with some strangers to a CSV file, and return the probabilities."""
    random = np.random.RandomState(0)
    labels = random.randint(0, 3, 300)
    logits = random.randn(300, 3)
    logits[np.arange(300), labels] += 2
    logits = np.concatenate([logits, random.randn(num_strangers, 3)])
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    words = [*(NAMES[label] for label in labels), *[word] * num_strangers]
    lines = ["label,p_cat,p_dog,p_cow"]
    order = random.permutation(len(words))
    lines += [f"{words[row]},{','.join(f'{p:.9f}' for p in probs[row])}" for row in order]
    path.write_text("\n".join(lines) + "\n")
    return probs


def test_rows_labeled_unknown_are_measured_apart(tmp_path: Path) -> None:
    probs = write_file(tmp_path / "with.csv", 80)
    result = audit([tmp_path / "with.csv"], risk=0.2)
    (judged,) = result.files
    assert judged.measured.num_rows == 300
    assert judged.measured.num_read == 380
    assert judged.measured.bad.count == 0
    assert set(judged.strangers) == set(OPEN_WORLD)
    confidence = probs.max(axis=1)
    expected = auroc(confidence[:300], confidence[300:])
    assert judged.strangers["open_auroc"] == pytest.approx(expected, abs=1e-6)
    content = result.to_json()
    assert content["strangers"]["rows"] == 80
    assert "strangers" in " ".join(content["answer"])  # the certificate says its world
    page = write_audit(result, tmp_path / "page", "")[0].read_text()
    assert "AURC with strangers" in page

    write_file(tmp_path / "without.csv", 0)
    plain_result = audit([tmp_path / "without.csv"], risk=0.2)
    (plain,) = plain_result.files
    assert plain.strangers == {}
    assert plain.values["ece"] == pytest.approx(judged.values["ece"])
    assert "strangers" not in " ".join(plain_result.answer.lines)


def test_other_labels_that_are_no_class_are_still_refused(tmp_path: Path) -> None:
    write_file(tmp_path / "other.csv", 80, word="bird")
    with pytest.raises(ValueError, match="bird"):
        audit([tmp_path / "other.csv"])
