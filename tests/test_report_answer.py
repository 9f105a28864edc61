"""The answer of a report: rows, headline and sentences, for many seeds and for few."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from socrates import metrics
from socrates.cli.report import show_answers
from socrates.experiment import Part
from socrates.records import Evaluation
from socrates.report.answer import answer, at_floor, differences, lines_of, over_settings
from socrates.report.results import Results
from socrates.report.study_page import page_data
from socrates.report.vocabulary import METHODS, METRICS, glossary_terms, study_scalers


def measured(
    label, eces, accuracies=None, *, method="ce", scaled=0.5, floor=0.01, collapses=None, seeds=None
):
    """A method that measured so on each seed, and so many times that ECE after temperature
    scaling."""
    evaluations = []
    for place, ece in enumerate(eces):
        accuracy = accuracies[place] if accuracies else 0.9
        values = {"ece": ece, "accuracy": accuracy, "ece_floor": floor}
        results = {"none": {"test": {"plain": values}}}
        if scaled:
            results["temperature"] = {"test": {"plain": {**values, "ece": scaled * ece}}}
        evaluations.append(Evaluation(150, 15, unknown_class=False, results=results))
    return Results(
        label, Part(method), evaluations, seeds or range(1, 1 + len(eces)), collapses or {}
    )


CE = measured("CE", [0.050, 0.053, 0.049, 0.052, 0.051], scaled=0.95)
FOCAL = measured("Focal", [0.020, 0.021, 0.019, 0.023, 0.020], method="focal", scaled=1.3)


def test_rows_are_methods_as_trained_and_after_temperature_scaling():
    made = answer([CE, FOCAL])
    assert [line.label for line in made.lines] == ["Focal", "Focal + TS", "CE + TS", "CE"]
    assert [line.scaler for line in made.lines] == ["none", "temperature", "temperature", "none"]
    assert [line.leader for line in made.lines] == [True, False, False, False]
    best = made.lines[0]
    assert (best.ece.mean, best.ece.n, best.floor) == pytest.approx((2.06, 5, 1.0))
    assert best.ece.low < best.ece.mean < best.ece.high


def test_a_method_with_an_unknown_class_has_its_readout():
    table = {name: {"test": {"answer": {"ece": 0.02, "accuracy": 0.9}}} for name in study_scalers()}
    one = Results("SAT", Part("sat"), [Evaluation(1, 15, unknown_class=True, results=table)])
    assert {line.label for line in lines_of([one])} == {"SAT", "SAT + TS", "SAT + RS"}


def test_a_single_winner():
    made = answer([CE, FOCAL])
    assert made.headline == "Focal is the best calibrated."
    assert "Focal measures the lowest calibration error (ECE), 2.06%" in made.sentences[0]
    assert "1.06 points of it are more than chance" in made.sentences[0]
    assert "As trained, Focal measures 3.04 points less than CE (95% " in made.sentences[1]
    assert made.sentences[2].startswith(
        "Accuracy does not separate any of them (all within 0.00 points"
    )
    assert (
        made.verdict
        == "5 seeds, paired, corrected for 3 comparisons: every other ECE is higher beyond seed "
        "noise."
    )


def test_a_group_that_cannot_be_told_apart():
    twin = measured("Brier", [0.021, 0.019, 0.022, 0.020, 0.021], method="brier", scaled=None)
    made = answer([CE, measured("Focal", [0.020, 0.021, 0.019, 0.023, 0.020], scaled=None), twin])
    assert made.headline == "Brier or Focal is the best calibrated."
    assert made.verdict.endswith("2 of 4 may have the lowest ECE.")


def test_calibrated_methods_of_different_accuracy_are_not_ranked():
    """Perfect calibration on one test set: the more accurate method has the lower ECE, and so has
    its floor."""
    rng = np.random.default_rng(0)
    members = []
    for label, shape in (("sharp", 12.0), ("blunt", 2.0)):
        evaluations = []
        for _ in range(5):
            confidence = rng.beta(shape, 1.0, 1000)
            top = {"confidence": confidence, "correct": rng.random(1000) < confidence}
            values = {"ece": metrics.ece(**top), "accuracy": top["correct"].mean()}
            values["ece_floor"] = metrics.floor(metrics.ece, confidence=confidence)
            evaluations.append(Evaluation(1, 15, False, {"none": {"test": {"plain": values}}}))
        members.append(Results(label, Part("ce"), evaluations, range(1, 6)))
    sharp, blunt = lines_of(members)
    assert differences([sharp, blunt], 0)[1][0].words == "worse"  # the ECE alone
    assert (sharp.leader, blunt.leader) == (True, True)
    made = answer(members)
    page = json.dumps(page_data({"digits": members}, {"digits": made}))
    assert not re.search("(best|better) calibrated", f"{made} {page}")
    assert "sharp and blunt" in made.headline


def test_as_well_as_this_test_set_can_show():
    made = answer([measured("CE", [0.010, 0.012, 0.009, 0.011, 0.010], floor=0.011, scaled=None)])
    assert made.headline == "CE measures an ECE of 1.04%."
    assert "as well calibrated as this test set can show" in made.sentences[0]
    assert "lowest" not in made.sentences[0]
    assert made.sentences[1].startswith("Its accuracy is 90.00%")
    assert made.verdict == "5 seeds; there is nothing to compare it with."


def test_accuracy_that_is_paid():
    sharp = measured("CE", [0.05, 0.053, 0.049, 0.052], [0.95, 0.951, 0.949, 0.952])
    dull = measured("Focal", [0.02, 0.021, 0.019, 0.023], [0.90, 0.902, 0.899, 0.903], scaled=None)
    words = answer([sharp, dull]).sentences[-1]
    assert words.startswith("Focal pays in accuracy: 90.10%, 4.95 points below CE")


def test_two_seeds_of_many_cannot_tell():
    many = [measured(f"Focal {k}", [0.02 + 0.001 * k, 0.025 + 0.0013 * k]) for k in range(12)]
    made = answer(many)
    assert made.headline == "2 seeds cannot tell which is best calibrated."
    assert made.verdict.startswith("2 seeds cannot tell")


def test_one_seed_says_nothing_about_seeds():
    made = answer([measured("CE", [0.05]), measured("Focal", [0.02], scaled=None)])
    assert made.headline == "Focal measured the lowest ECE, on one seed."
    assert made.verdict == "One seed: nothing can be said about other seeds."
    text = " ".join(made.sentences)
    assert "95%" not in text
    assert "p =" not in text
    assert "noise" not in text
    assert math.isnan(made.lines[0].ece.low)
    assert [line.leader for line in made.lines] == [True, False, False]


def test_a_collapsed_method_comes_last_and_is_named_nowhere():
    bad = measured("SAT", [0.001, 0.001], method="sat", collapses={1: "every answer is class 3"})
    made = answer([measured("CE", [0.05, 0.051]), bad])
    assert [line.label for line in made.lines][-2:] == ["SAT + TS", "SAT"]
    assert made.lines[-1].collapsed == "1 of 2 runs collapsed: every answer is class 3"
    assert "SAT" not in made.headline + " ".join(made.sentences)
    alone = answer([bad])
    assert alone.headline == "Every method collapsed."
    assert alone.sentences == ("SAT: 1 of 2 runs collapsed: every answer is class 3.",)


def test_settings_share_a_sentence():
    one, other = answer([CE, FOCAL]), answer([FOCAL])
    assert over_settings({"a": one}) == ""
    assert (
        over_settings({"a": one, "b": other})
        == "Focal is among the best calibrated in all 2 settings."
    )
    lower = measured("CE", [0.010, 0.011, 0.010, 0.012, 0.011], scaled=None)
    mixed = over_settings({"a": one, "b": other, "c": answer([lower, FOCAL])})
    assert (
        mixed == "Focal is among the best calibrated in 2 of 3 settings, more often than any other."
    )
    assert (
        over_settings({"a": answer([]), "b": answer([])})
        == "No method can be ranked in any of the 2 settings."
    )


def test_the_terminal_says_all_of_one_setting_and_the_headlines_of_several(capsys):
    one = answer([CE, FOCAL])
    show_answers({"digits": one})
    alone = " ".join(capsys.readouterr().out.split())
    assert all(words in alone for words in (one.headline, *one.sentences, one.verdict))
    assert "digits" not in alone
    answers = {"digits": one, "letters": answer([FOCAL])}
    show_answers(answers)
    several = " ".join(capsys.readouterr().out.split())
    assert all(f"{heading}: {found.headline}" in several for heading, found in answers.items())
    assert over_settings(answers) in several
    assert one.verdict not in several


METHOD = st.tuples(st.booleans(), st.integers(1, 5), st.floats(0.001, 0.2), st.integers(0, 10**6))


@given(st.lists(METHOD, min_size=1, max_size=5))
def test_for_any_numbers(given_methods):
    members = []
    for place, (collapsed, n, level, seed) in enumerate(given_methods):
        random = np.random.default_rng(seed)
        eces = (level * random.uniform(0.5, 1.5, n)).tolist()
        bad = {1: "why"} if collapsed else {}
        accuracies = random.uniform(0.5, 1.0, n).tolist()
        members.append(
            measured(
                f"<{place}>", eces, accuracies, method="focal" if place else "ce", collapses=bad
            )
        )
    made = answer(members)
    sound = [line for line in made.lines if not line.collapsed]
    assert len(made.headline) < 90
    assert not any(line.leader for line in made.lines if line.collapsed)
    assert [line.ece.mean for line in sound] == sorted(line.ece.mean for line in sound)
    if not sound:
        assert made.headline == "Every method collapsed."
        return
    assert sound[0].leader
    assert 1 <= len(made.sentences) <= 3
    assert all(
        f"<{place}>" not in made.headline for place, one in enumerate(given_methods) if one[0]
    )
    for ece, accuracy in differences(sound, 0)[1:]:
        for one, spec in ((ece, METRICS["ece"]), (accuracy, METRICS["accuracy"])):
            assert (
                (one.words in ("better", "worse"))
                == (one.p < 0.05)
                == (one.low > 0 or one.high < 0)
            )
            assert one.words != "better" or (one.mean > 0) == spec.larger_is_better
    best = sound[0]
    assert at_floor(best) == ("as well calibrated" in made.sentences[0])
    assert f"{np.mean(list(best.by_seed(METRICS['ece']).values())):.2f}%" in made.sentences[0]


def test_every_printed_name_is_explained_once():
    glossary = glossary_terms()
    assert {metric.symbol for metric in METRICS.values()} <= glossary.keys()
    assert {*METHODS.values()} | {
        words.short for words in study_scalers().values() if words.short
    } <= glossary.keys()
    assert (glossary["Brier"].long, glossary["Brier score"].direction) == (
        "Brier loss",
        "lower is better",
    )
    assert all(term.long and re.match(r"\S.*[^.]$", term.meaning) for term in glossary.values())


def test_a_winner_of_one_seed_among_others_of_many_is_none():
    made = answer([CE, measured("Lucky", [0.004], scaled=None)])
    assert made.headline.startswith("Lucky measured the lowest ECE, on one seed")
    assert made.verdict == "1 to 5 seeds: train Lucky with more of them to compare it."
    assert all(line.leader for line in made.lines)
