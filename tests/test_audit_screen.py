"""The first screen of an audit's page: a picture and three cards that say only what is sure."""

from __future__ import annotations

import re

import numpy as np
import pytest

from haste import hasten
from socrates import metrics, scaling
from socrates.audit.answer import answer_of
from socrates.audit.page import write_audit
from socrates.audit.picture import SIDE, annotated_bin, curve_of, diagram_of
from socrates.audit.run import AuditResult, audit
from socrates.audit.screen import kicker, load_line, mend_card, risk_lines, worst_card


def predictions(num_rows: int, sharper: float, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(num_rows, 4))
    powers = np.exp(logits)
    probs = powers / powers.sum(axis=1, keepdims=True)
    labels = (probs.cumsum(axis=1) > rng.random((num_rows, 1))).argmax(axis=1)
    sharp = powers**sharper
    return {"probs": sharp / sharp.sum(axis=1, keepdims=True), "labels": labels}


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> AuditResult:
    folder = tmp_path_factory.mktemp("screen")
    site = np.array(["north", "south"])[np.arange(2000) % 2]
    np.savez(folder / "sure.npz", **predictions(2000, 2.0), site=site)
    np.savez(folder / "honest.npz", **predictions(2000, 1.0), site=site)
    with pytest.MonkeyPatch.context() as patch:
        hasten(patch)
        return audit([folder / "sure.npz", folder / "honest.npz"], reading={"groups": ("site",)})


def test_marks_stand_where_confidence_and_accuracy_are(result):
    judged = result.files[0]
    bins = judged.bins
    curve = curve_of(judged)
    filled = np.flatnonzero(bins.count)
    assert len(curve.marks) == len(filled)
    for mark, place in zip(curve.marks, filled, strict=True):
        stated = bins.confidence[place] / bins.count[place]
        right = bins.correct[place] / bins.count[place]
        assert (mark.x, mark.y) == pytest.approx((SIDE * stated, SIDE * (1 - right)), abs=0.06)
    radii = np.array([mark.radius for mark in curve.marks])
    counts = bins.count[filled]
    large = counts > 0.1 * counts.max()
    areas = radii[large] ** 2 / counts[large]
    assert areas == pytest.approx(np.full(large.sum(), areas.mean()), rel=0.05)


def test_one_bin_has_a_remark_and_only_if_it_is_surely_off(result):
    sure, honest = result.files
    place = annotated_bin(sure)
    assert place is not None
    gaps = np.abs(sure.bins.confidence - sure.bins.correct)
    assert gaps[place] == gaps.max()
    remark = diagram_of([sure]).remark
    assert remark is not None
    stated = sure.bins.confidence[place] / sure.bins.count[place]
    right = sure.bins.correct[place] / sure.bins.count[place]
    assert f"{100 * stated:.0f}%" in remark.lines[0]
    assert f"{100 * right:.0f}%" in remark.lines[1]
    assert annotated_bin(honest) is None
    assert diagram_of([honest]).remark is None
    assert diagram_of([sure, honest]).remark is None


def test_the_scaler_to_use_is_dark_and_the_floor_is_a_band(result):
    sure = result.files[0]
    card = mend_card([sure])
    numbers = sure.recalibrated.numbers
    assert [bar.chosen for bar in card.bars] == [name != "none" for name in numbers]
    widths = [bar.after for bar in card.bars]
    eces = [of["ece"] for of in numbers.values()]
    assert widths[0] / widths[1] == pytest.approx(eces[0] / eces[1], rel=0.01)
    assert card.floor < card.floor_95
    assert card.floor / widths[0] == pytest.approx(
        sure.recalibrated.remaining.floor / eces[0], rel=0.01
    )
    assert sure.recalibrated.reason in card.words


def test_two_files_are_one_row_each_from_before_to_after(result):
    card = mend_card(result.files)
    assert [bar.label for bar in card.bars] == ["sure", "honest"]
    first = result.files[0].recalibrated
    assert card.bars[0].text == f"{100 * first.before['ece']:.1f} → {100 * first.after['ece']:.1f}"
    assert card.bars[0].after < card.bars[0].before


def test_the_line_of_python_loads_the_saved_scaler(result, tmp_path, monkeypatch):
    write_audit(result, tmp_path, "two")
    monkeypatch.chdir(tmp_path)
    names = {"socrates": type("socrates", (), {"scaling": scaling})}
    exec(load_line(result.files[0]), names)
    assert names["scaler"].temperature > 1.5


def test_only_what_is_sure_is_worst(result):
    sure, honest = result.files
    shown = worst_card(sure)
    assert shown.gaps
    every = {"class": sure.worst, **sure.groups}
    names = {f"{column} {gap.name}": gap for column, gaps in every.items() for gap in gaps}
    for name, stated, right in shown.gaps:
        gap = names[name]
        assert gap.low > 0 or gap.high < 0
        assert (stated, right) == (f"{100 * gap.confidence:.0f}%", f"{100 * gap.accuracy:.0f}%")
    assert worst_card(honest).gaps == ()
    assert "4 classes" in worst_card(honest).words


def test_how_many_of_100_are_answered(result):
    certificate = result.files[1].certificate
    assert certificate is not None
    line = risk_lines(result.files)[1]
    assert line.answered == round(100 * certificate.coverage)
    assert line.threshold == certificate.threshold


def test_equal_rows_count_once(result):
    assert kicker(result.files) == ["2 files", "2,000 rows each"]
    assert kicker(result.files[:1]) == ["sure", "2,000 rows", "4 classes"]


def test_the_screen_needs_no_script_and_shows_names_as_they_are(result, tmp_path):
    from dataclasses import replace

    evil = replace(result.files[0], label="<script>alert(1)</script>")
    page = write_audit(AuditResult([evil]), tmp_path / "one", "one")[0].read_text()
    screen = page[page.index('id="answer"') : page.index('class="jump"')]
    assert "<script" not in screen
    assert answer_of(evil).headline in screen
    assert screen.count("<circle") == len(curve_of(evil).marks)


@pytest.mark.usefixtures("hastened")
@pytest.mark.parametrize("kind", ["confidence", "weighted", "unknown", "one row"])
def test_every_kind_of_file_has_a_first_screen(tmp_path, kind):
    arrays = predictions(300, 2.0)
    reading = {}
    if kind == "confidence":
        top = metrics.Top.of(arrays["probs"].max(1), arrays["probs"].argmax(1) == arrays["labels"])
        arrays = {"confidence": top.confidence, "correct": top.correct}
    elif kind == "weighted":
        arrays["sample_weight"] = 1 + np.arange(300) % 3
    elif kind == "unknown":
        arrays["labels"] %= 3
        reading = {"unknown": True}
    else:
        arrays = {name: values[:1] for name, values in arrays.items()}
    np.savez(tmp_path / "file.npz", **arrays)
    made = audit([tmp_path / "file.npz"], reading=reading)
    page = write_audit(made, tmp_path / "out", "kind")[0].read_text()
    screen = page[page.index('id="answer"') : page.index('class="jump"')]
    assert made.answer.headline in screen
    assert not re.search(r"\bnan\b", screen)
    if kind == "weighted":
        assert "weights" in worst_card(made.files[0]).words
        assert annotated_bin(made.files[0]) is None
