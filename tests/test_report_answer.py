"""The answer of a report: its case, headline, sentences and rows, for many seeds and for few."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from socrates import metrics
from socrates.arrays.samples import Top
from socrates.cli.report import show_answers
from socrates.experiment import Part
from socrates.metrics.binning import bin_stats
from socrates.records import Evaluation
from socrates.records.evaluation import RowEvidence
from socrates.report.answer import answer, over_settings, row_differences, rows_of
from socrates.report.overview import overview_screen
from socrates.report.results import Failure, Results
from socrates.report.rows import scaling_helps
from socrates.report.vocabulary import METHODS, METRICS, glossary_terms, study_scalers


def measured(
    label, eces, accuracies=None, *, method="ce", scaled=0.5, floor=0.01, collapses=None, val=None
):
    """A method that measured so on each seed, and so many times that ECE after scaling."""
    evaluations = []
    for place, ece in enumerate(eces):
        accuracy = accuracies[place] if accuracies else 0.9
        values = {"ece": ece, "accuracy": accuracy, "ece_floor": floor}
        splits = {"test": {"plain": values}, "val": {"plain": {**values, **(val or {})}}}
        results = {"none": splits}
        if scaled:
            results["temperature"] = {"test": {"plain": {**values, "ece": scaled * ece}}}
        evaluations.append(Evaluation(150, 15, unknown_class=False, results=results))
    return Results(label, Part(method), evaluations, range(1, 1 + len(eces)), collapses or {})


def with_rows(label, gap, shape=8.0, *, seeds=5, rows=2000, scaled=0.0, random=None, method="ce"):
    """A method whose test rows are drawn: its confidence is too high by the gap."""
    random = random or np.random.default_rng(7)
    evaluations = []
    for _ in range(seeds):
        honest = random.beta(shape, 1.0, rows)
        correct = random.random(rows) < honest
        results, evidence = {}, {}
        for scaler, shift in (("none", gap), ("temperature", scaled)):
            top = Top(np.clip(honest + shift * (1 - honest) * 4, 0, 1), correct)
            values = {"ece": bin_stats(top, 15).ece, "accuracy": correct.mean()}
            values["ece_floor"] = metrics.floor(
                metrics.ece, confidence=top.confidence, num_draws=20
            )
            results[scaler] = {"test": {"plain": values}}
            packed = RowEvidence.of(top.confidence, correct, 2 * values["ece_floor"])
            evidence[scaler] = packed.to_json()
        evaluations.append(Evaluation(1, 15, False, results, evidence=evidence))
    return Results(label, Part(method), evaluations, range(1, 1 + seeds))


CE = measured("CE", [0.050, 0.053, 0.049, 0.052, 0.051], scaled=0.95)
FOCAL = measured("Focal", [0.020, 0.021, 0.019, 0.023, 0.020], method="focal", scaled=1.3)


def words(text):
    return len(text.split())


def numbers(text):
    return re.findall(r"\d+\.?\d*%", text)


def test_one_row_per_method_with_its_scaled_self():
    rows = answer([CE, FOCAL]).rows
    assert [row.label for row in rows] == ["Focal", "CE"]
    assert [row.standing for row in rows] == ["best", "worse"]
    best = rows[0]
    assert (best.trained.mean, best.floor.mean) == pytest.approx((2.06, 1.0))
    assert best.scaled.mean == pytest.approx(1.3 * 2.06)
    assert best.floor.mean < best.floor.high
    assert best.trained.low < best.trained.mean < best.trained.high
    assert len(best.trained.by_seed) == best.num_seeds == best.num_runs == 5


def test_a_single_winner():
    found = answer([CE, FOCAL])
    assert found.case == "winner"
    assert "Focal" in found.headline
    assert "2.1%" in found.sentences[0]


def test_calibrated_methods_of_different_accuracy_are_not_ranked():
    """Perfect calibration on one test set: the more accurate method has the lower ECE, and so has
    its floor. 40 to 45% of such studies had a winner."""
    random = np.random.default_rng(0)
    members = [
        with_rows("sharp", 0.0, 12.0, random=random),
        with_rows("blunt", 0.0, 2.0, random=random),
    ]
    found = answer(members)
    sharp, blunt = found.rows
    assert sharp.trained.mean < blunt.trained.mean
    assert (sharp.standing, blunt.standing) == ("with the best", "with the best")
    assert found.case == "floor"
    assert not re.search("(best|better|worse) calibrated", f"{found.headline} {found.sentences}")


def test_all_at_the_floor_after_scaling():
    random = np.random.default_rng(1)
    members = [with_rows(name, gap, random=random) for name, gap in (("A", 0.2), ("B", 0.3))]
    found = answer(members)
    assert found.case == "floor"
    assert found.headline.startswith("Rescale the confidences")


def test_scaling_that_helps_in_every_seed_is_seen_by_the_rows():
    random = np.random.default_rng(2)
    assert scaling_helps(with_rows("Socrates", 0.15, rows=400, random=random))
    assert not scaling_helps(with_rows("calibrated", 0.0, rows=400, scaled=0.01, random=random))


def test_only_losers_are_known():
    twin = measured("Brier", [0.021, 0.019, 0.022, 0.020, 0.021], method="brier", scaled=None)
    found = answer([CE, FOCAL, twin])
    assert found.case == "losers"
    assert "CE" in found.headline
    assert {row.label: row.standing for row in found.rows} == {
        "Brier": "with the best", "Focal": "with the best", "CE": "worse",
    }  # fmt: skip
    assert "practical" in found.sentences[1] or "more seed" in found.sentences[1]


def test_two_seeds_cannot_say_what_is_best():
    many = [
        measured(f"{name}", [0.05 + 0.001 * k, 0.055 + 0.0013 * k], method=name)
        for k, name in enumerate(("ce", "focal", "brier", "sat"))
    ]
    found = answer(many)
    assert found.case == "few seeds"
    assert "more seeds" in found.headline


def test_one_run_says_how_little_it_says():
    found = answer([measured("CE", [0.05])])
    assert found.case == "one run"
    assert "5.0%" in found.sentences[0]
    assert "2.5%" in found.sentences[0]
    assert math.isnan(found.rows[0].trained.low)
    assert "between" not in " ".join(found.sentences)


def test_one_method_is_rescaled_or_used_as_it_is():
    random = np.random.default_rng(3)
    assert answer([with_rows("CE", 0.2, random=random)]).headline.startswith("Rescale")
    calibrated = answer([with_rows("CE", 0.0, random=random)])
    assert calibrated.case == "one method"
    assert "as it is" in calibrated.headline
    assert "more than chance" not in " ".join(calibrated.sentences)


def test_a_tune_is_chosen_on_validation_and_tells_the_test_of_the_chosen_one_only():
    variants = [
        measured(f"Focal γ={k}", [0.02 * (5 - k)] * 3, method="focal",
                 val={"accuracy": 0.9, "ece": 0.01 * k})
        for k in (1, 2, 3, 4)
    ]  # fmt: skip
    found = answer(variants)
    assert found.case == "tune"
    assert "Focal γ=1" in found.headline
    assert "validation" in found.headline
    assert "8.0%" in found.sentences[1]
    assert "2.0%" not in " ".join(found.sentences)  # the lowest test ECE, of another
    assert [row.label for row in found.rows] == ["Focal γ=1"]


def test_failed_and_collapsed_methods():
    bad = measured("SAT", [0.001, 0.001], method="sat", collapses={1: "every answer is class 3"})
    found = answer([CE, FOCAL, bad])
    assert found.rows[-1].label == "SAT"
    assert found.rows[-1].standing == "unranked"
    assert "SAT" not in found.headline + " ".join(found.sentences)
    assert answer([bad]).case == "failed"
    failure = Failure("CE", 3, 47, "73% training accuracy", 68.6)
    one_failed = replace(CE, failures=(failure,))
    found = answer([one_failed, FOCAL])
    assert found.failures == (failure,)
    assert "CE 5 of 6" in found.verdict


def test_settings_share_a_headline_and_a_sentence_on_the_page_and_in_the_terminal(capsys):
    one, other = answer([CE, FOCAL]), answer([CE, FOCAL])
    assert over_settings({"a": one}) is None
    answers = {"a": one, "b": other, "c": answer([FOCAL])}
    overall = over_settings(answers)
    (sentence,) = overall.sentences
    assert "Focal" in overall.headline
    assert words(overall.headline) <= 9
    assert "Focal is the best calibrated in 2 of 3 settings" in sentence
    assert "CE is surely worse in 2 of 3 settings" in sentence
    show_answers(answers)
    out = " ".join(capsys.readouterr().out.split())
    page = overview_screen(answers)
    for text in (overall.headline, sentence):
        assert text in out
        assert text in page
    assert one.headline in out


def test_settings_that_are_calibrated_after_scaling_are_not_called_calibrated_as_trained():
    random = np.random.default_rng(1)
    members = [with_rows(name, gap, random=random) for name, gap in (("A", 0.2), ("B", 0.3))]
    overall = over_settings({"a": answer(members), "b": answer(members)})
    assert overall.headline.startswith("Rescale")
    assert "after temperature scaling" in overall.sentences[0]


def test_the_terminal_says_all_of_one_setting_with_failures(capsys):
    failure = Failure("CE", 3, 47, "73% training accuracy", 68.6)
    found = answer([replace(CE, failures=(failure,)), FOCAL])
    show_answers({"digits": found})
    out = " ".join(capsys.readouterr().out.split())
    assert all(text in out for text in (found.headline, *found.sentences, found.verdict))
    assert "CE seed 3 failed in epoch 47: 73% training accuracy" in out


METHOD = st.tuples(st.booleans(), st.integers(1, 5), st.floats(0.001, 0.2), st.integers(0, 10**6))


@pytest.mark.slow
@given(st.lists(METHOD, min_size=1, max_size=6))
def test_for_any_numbers(cases):
    members = []
    for place, (collapsed, n, level, seed) in enumerate(cases):
        random = np.random.default_rng(seed)
        eces = (level * random.uniform(0.5, 1.5, n)).tolist()
        bad = {1: "why"} if collapsed else {}
        accuracies = random.uniform(0.5, 1.0, n).tolist()
        method = [*METHODS][place]
        members.append(measured(f"<{place}>", eces, accuracies, method=method, collapses=bad))
    found = answer(members)
    assert words(found.headline) <= 9
    assert len(found.sentences) <= 2
    if found.case != "failed":
        assert len(numbers(" ".join(found.sentences))) <= 5
    sound = [row for row in found.rows if row.sound]
    assert [row.trained.mean for row in sound] == sorted(row.trained.mean for row in sound)
    for row in sound:
        for point in (row.trained, row.scaled, row.accuracy):
            assert not point.low < 0
            assert not point.high > 100
    assert sum(row.standing == "best" for row in found.rows) <= 1
    assert (found.case == "winner") <= (sound[0].standing == "best" if sound else False)
    assert len(row_differences(found.rows, 0)) == len(rows_of(members))


def test_every_printed_name_is_explained_once():
    glossary = glossary_terms()
    assert {metric.symbol for metric in METRICS.values()} <= glossary.keys()
    assert {*METHODS.values()} | {
        scaler.short for scaler in study_scalers().values() if scaler.short
    } <= glossary.keys()
    assert (glossary["Brier"].long, glossary["Brier score"].direction) == (
        "Brier loss",
        "lower is better",
    )
    assert all(term.long and re.match(r"\S.*[^.]$", term.meaning) for term in glossary.values())
