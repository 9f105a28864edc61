"""The first screens: a dumbbell per method, several settings side by side, a tuning study."""

from __future__ import annotations

import dataclasses
import math
import re
import shutil
from pathlib import Path

import pytest
from report_runs import experiment, make_run

from signing import resign, resign_epochs
from socrates.experiment import Part
from socrates.records import Evaluation, Run
from socrates.report.aggregate import find_runs, group_runs, read_runs
from socrates.report.answer import Answer, AnswerRow, Failure, FloorBand, Point, answers_of
from socrates.report.dumbbell import dumbbells, frame_of, values_of, versus_of
from socrates.report.first_screen import differences_of, first_screen
from socrates.report.overview import mean_ranks, overview_screen
from socrates.report.results import Results
from socrates.report.selection import duplicates, first_shown
from socrates.report.statistics import PairedDifference
from socrates.report.strip import Strip
from socrates.report.study_page import page_data
from socrates.report.style import styles
from socrates.report.tuning import against_others, tuning_of, variants_table
from socrates.report.tuning_screen import maps_of, strips_of
from socrates.report.write import write_report

NO_POINT = Point(math.nan, math.nan, math.nan)


def point(*values: float) -> Point:
    return Point(sum(values) / len(values), math.nan, math.nan, dict(enumerate(values, start=1)))


def row(label="CE", trained=(3.0, 3.4), scaled=(1.4, 1.6), accuracy=(95.0, 95.4), **more):
    method = more.pop("method", "ce")
    results = Results(label, Part(method), seeds=range(1, len(trained) + 1))
    return AnswerRow(
        label,
        results,
        point(*trained),
        point(*scaled) if scaled else None,
        "temperature",
        point(*accuracy),
        more.pop("floor", FloorBand(0.8, 1.3)),
        **more,
    )


def look_of(*rows):
    return styles({one.label: one.results.method for one in rows})


def places(markup: str, kind: str) -> list[float]:
    return [float(place) for place in re.findall(rf'class="{kind}" cx="([\d.]+)%"', markup)]


def members_of(root: Path):
    runs, _ = read_runs(find_runs(root))
    return group_runs(runs)


def data_of(root: Path):
    settings = members_of(root)
    return page_data(settings, answers_of(settings))


# One dumbbell


def test_a_row_has_a_ring_as_trained_and_a_disc_after_scaling_on_one_axis():
    one = row()
    drawn = dumbbells([one], look_of(one))
    strip = frame_of([one]).ece
    assert places(drawn, "ring") == [strip.at(3.2)]
    assert places(drawn, "disc")[0] == strip.at(1.5)
    assert places(drawn, "hollow")[:2] == [strip.at(3.0), strip.at(3.4)]
    assert places(drawn, "full") == [strip.at(1.4), strip.at(1.6)]
    assert "3.2 → <b>1.5</b>" in drawn
    assert f'class="chance" width="{strip.at(1.3)}%"' in drawn
    assert "no better is measurable" in drawn
    assert "2 of 2 seeds" in drawn


def test_axes_hold_the_floor_and_every_seed_and_start_at_zero():
    frame = frame_of([row(floor=FloorBand(3.0, 5.0)), row("b", trained=(4.0, 4.5))])
    assert frame.ece.low == 0
    assert frame.ece.high > 5
    assert frame.accuracy.low < 95.0 < 95.4 < frame.accuracy.high


def test_a_very_bad_method_stands_at_the_edge_with_its_number():
    rows = [row("a"), row("b"), row("bad", trained=(60.0, 62.0))]
    drawn = dumbbells(rows, look_of(*rows))
    assert frame_of(rows).ece.high < 15
    assert places(drawn, "ring")[-1] == 100
    assert "61.0 → " in drawn


def test_accuracies_of_one_run_are_not_magnified():
    one = row(trained=(2.3,), scaled=(1.3,), accuracy=(94.49,))
    strip = frame_of([one]).accuracy
    assert strip.high - strip.low >= 2
    drawn = dumbbells([one], look_of(one))
    assert places(drawn, "hollow") == []  # the mean is the seed
    assert "1 seed<" in drawn
    screen = first_screen(Answer("One run.", (), rows=(one,)), look_of(one))
    assert "single seeds" not in screen
    assert "(mean)" not in screen


def test_an_accuracy_never_lies_beyond_a_hundred_percent():
    assert frame_of([row(accuracy=(99.9, 100.0))]).accuracy.high == 100


def test_without_scaling_or_numbers_a_row_says_so():
    frame = frame_of([row()])
    assert values_of(point(3.0), None, point(95.0), frame)["ece"] == ["3.0"]
    assert values_of(NO_POINT, None, NO_POINT, frame)["ece"] == ["–"]


# Failures


def failed_row():
    failure = Failure("CE", 3, 47, "the training accuracy is 73%", 68.6, Path("runs/ce-3"))
    return row(failures=(failure,)), failure


def test_a_failure_is_named_in_red_with_links_and_crossed_out():
    one, failure = failed_row()
    answer = Answer("A headline.", (), failures=(failure,), rows=(one,))
    screen = first_screen(answer, look_of(one))
    red = screen[screen.index('class="failures"') : screen.index('class="card')]
    for fact in ("1 of 3 runs failed", "CE, seed 3", "epoch 47", "73%", 'href="#run-ce-3"'):
        assert fact in red
    assert "count it" in red
    assert "✕ 68.6" in screen
    assert "2 of 3 seeds; 1 failed" in screen


def test_no_failure_no_red_line():
    one = row()
    assert "failures" not in first_screen(Answer("A", (), rows=(one,)), look_of(one))


def test_failed_runs_can_be_counted():
    one, _ = failed_row()
    runs = [
        type("Evaluation", (), {"value": lambda self, *asked, v=v: v})() for v in (0.1, 0.1, 0.4)
    ]
    whole = Results("CE", Part("ce"), evaluations=runs, seeds=(1, 2, 3))
    drawn = dumbbells([one], look_of(one), members=[whole])
    assert '<span class="uncounted">3.2 → ' in drawn
    assert '<span class="counted">20.0 → ' in drawn


# References


def test_intervals_of_differences_stand_where_the_reference_is():
    rows = [row("a"), row("b", trained=(6.0, 6.2), method="focal")]
    base = PairedDifference(0.0, math.nan, math.nan, math.nan, 2, "reference")
    more = PairedDifference(2.9, 1.0, 4.8, 0.01, 2, "worse")
    same = PairedDifference(0.0, -0.5, 0.5, 1.0, 2, "not shown by 2 seeds")
    family = [(base, base), (more, same)]
    frame = frame_of(rows)
    reference, other = (one["ece"] for one in versus_of(rows[0], family, frame))
    assert reference["low"] is None
    assert (other["low"], other["high"]) == (frame.ece.at(3.2 + 1.0), frame.ece.at(3.2 + 4.8))
    drawn = dumbbells(rows, look_of(*rows), differences={0: family})
    assert drawn.count('class="interval vs-0"') == 2  # of ECE and accuracy
    assert drawn.count("aria-pressed") == 1  # only the first can be chosen
    assert 'data-words="worse">+2.9 worse<' in drawn


def test_methods_with_two_seeds_can_be_the_reference(tmp_path):
    for name in ("ce", "brier"):
        for seed in (1, 2, 3):
            make_run(tmp_path, experiment(name, seed))
    make_run(tmp_path, experiment("focal"))
    (members,) = members_of(tmp_path).values()
    rows = answers_of({"": members})[""].rows
    families = differences_of(rows)
    assert {rows[place].label for place in families} == {"CE", "Brier"}
    assert all(len(family) == 3 for family in families.values())


# One selection of many methods


def results_of(name, ece, label="", **more):
    evaluation = type("E", (), {"value": lambda self, *asked: ece, "unknown_class": False})()
    return Results(label or name, Part(name), evaluations=[evaluation], **more)


def test_of_many_methods_baseline_ours_the_best_four_and_the_worst_are_shown():
    many = [results_of(f"m{k}", 0.01 * k) for k in range(1, 12)]
    many += [results_of("ce", 0.055), results_of("socrates", 0.065)]
    many += [results_of("collapsed", 0.001, collapses={1: "it did"})]
    assert first_shown(many) == {"m1", "m2", "m3", "m4", "m11", "ce", "socrates"}
    assert first_shown(many[:7]) == {f"m{k}" for k in range(1, 8)}


def test_a_method_that_trained_like_the_baseline_is_left_out(tmp_path):
    make_run(tmp_path, experiment("ce"))
    twin = make_run(tmp_path, experiment("ccl_sc"))
    plain = next(path for path in tmp_path.iterdir() if path != twin)
    resign_epochs(twin, [record.to_json() for record in Run(plain).epochs()])
    for name in ("brier", "focal", "flsd", "mc", "sat", "gamblers", "ce_dece"):
        make_run(tmp_path, experiment(name))
    (members,) = members_of(tmp_path).values()
    assert duplicates(members) == {"CCL-SC"}
    assert "CCL-SC" not in first_shown(members)
    assert "CE" in first_shown(members)


def test_first_screen_and_charts_have_the_same_selection(tmp_path):
    names = ("ce", "brier", "focal", "flsd", "mc", "sat", "gamblers", "ce_dece", "socrates")
    for k, name in enumerate(names):
        make_run(tmp_path, experiment(name), test={"ece": 0.01 * (k + 1), "accuracy": 0.9})
    (setting,) = data_of(tmp_path)["settings"]
    hidden = re.findall(r'<tr data-method="(\d+)" class="more"', setting["screen"])
    assert sorted(map(int, hidden)) == sorted(setting["late"])
    assert 0 < len(hidden) < len(names)
    assert f"Show all {len(names)} methods" in setting["screen"]


def test_the_axis_is_that_of_what_is_shown_first():
    rows = [row("a"), row("b"), row("hidden", trained=(8.0, 8.2))]
    look = look_of(*rows)
    assert dumbbells(rows, look, shown={"a", "b"}).count("<tr data-method") == 3
    strip = frame_of(rows[:2]).ece
    assert places(dumbbells(rows, look, shown={"a", "b"}), "ring")[0] == strip.at(3.2)


# Several settings


def test_settings_stand_side_by_side_with_mean_ranks(tmp_path):
    for width, order in ((16, ("ce", "focal")), (64, ("focal", "ce")), (32, ("ce", "focal"))):
        for k, name in enumerate(order):
            one = dataclasses.replace(experiment(name), model=Part("mlp", width=width))
            make_run(tmp_path, one, test={"ece": 0.02 + 0.03 * k, "accuracy": 0.9})
    settings = members_of(tmp_path)
    answers = answers_of(settings)
    rows = {heading: {one.label: one for one in a.rows} for heading, a in answers.items()}
    assert mean_ranks(rows) == {"CE": pytest.approx(4 / 3), "Focal": pytest.approx(5 / 3)}
    screen = overview_screen(answers)
    assert screen.count('class="ring" cx') == 6
    assert [*re.findall(r'class="rank"[^>]*>([\d.]+)<', screen)] == ["1.3", "1.7"]
    assert sorted(re.findall(r'<th scope="col" class="ece"[^>]*>(mlp[^<]*)<', screen)) == [
        "mlp (width 16)",
        "mlp (width 32)",
        "mlp (width 64)",
    ]
    headline = re.search(r"<h1>(.*?)</h1>", screen).group(1)
    assert len(headline.split()) <= 9
    data = page_data(settings, answers)
    assert data["study"] == screen
    assert all("<h1>" not in setting["screen"] for setting in data["settings"])


# A tuning study


@pytest.fixture(scope="module")
def study_runs(tmp_path_factory):
    """Three values of gamma, two of alpha; γ=2 α=0.9 is best on validation, γ=3 on test."""
    root = tmp_path_factory.mktemp("study")
    for gamma in (1.0, 2.0, 3.0):
        for alpha in (0.9, 0.99):
            for seed in (1, 2):
                one = experiment("socrates", seed, gamma=gamma, alpha=alpha)
                path = make_run(root, one, test={"ece": 0.10 - 0.03 * gamma, "accuracy": 0.9})
                ece = 0.01 if (gamma, alpha) == (2.0, 0.9) else 0.05

                def change(stored, ece=ece):
                    for values in stored["results"]["none"]["val"].values():
                        values |= {"ece": ece, "accuracy": 0.9}

                resign(path / "evaluation.json", change)
    return root


@pytest.fixture
def study(study_runs, tmp_path):
    """A copy of these runs for one test."""
    return shutil.copytree(study_runs, tmp_path / "study")


def test_a_study_is_ranked_on_validation_data(study):
    (members,) = members_of(study).values()
    tuning = tuning_of(members)
    assert dict(tuning.chosen.options) == {"gamma": 2.0, "alpha": 0.9}
    assert [*tuning.options] == ["gamma", "alpha"]
    assert tuning.chosen.score.ece == pytest.approx(1.0)
    table = variants_table(tuning)
    assert table.rows[0].keys == ("γ=2 α=0.9",)
    assert len(table.rows) == 6


def validated(label, eces):
    """A variant that measured so on validation data, with one accuracy throughout."""
    evaluations = [
        Evaluation(1, 15, False, {"none": {"val": {"plain": {"ece": ece, "accuracy": accuracy}}}})
        for ece, accuracy in zip(eces, (0.90, 0.91, 0.92), strict=True)
    ]
    return Results(label, Part("focal"), evaluations, (1, 2, 3))


def test_what_the_seeds_show_of_the_choice_is_told_by_the_tests_of_the_tables():
    far = [validated("far", [0.050, 0.051, 0.052]), validated("too", [0.053, 0.051, 0.052])]
    near = validated("near", [0.011, 0.010, 0.012])
    best = validated("best", [0.010, 0.011, 0.010])
    said = against_others([best, near, *far], best)
    assert "2 surely worse in ECE" in said
    assert "Acc" not in said
    assert "2 surely better in ECE" in against_others([best, near, *far], far[0])
    assert "not shown by 3 seeds" in against_others([best, near], best)


def test_its_page_shows_test_numbers_of_the_chosen_one_only(study):
    (setting,) = data_of(study)["settings"]
    screen = setting["screen"]
    assert "γ=2" in re.search("<h1>(.*?)</h1>", screen).group(1)
    assert len(re.search("<h1>(.*?)</h1>", screen).group(1).split()) <= 9
    assert screen.count("<tr data-method") == 1
    assert "4.0 → " in screen  # its test ECE
    assert "1.0 → " not in screen  # the lowest test ECE, of γ=3
    assert setting["tables"]["overview"]["answer"].count("<tr") == 2
    assert setting["tables"]["variants"]["answer"].count("<tr") == 7


def test_its_files_show_test_numbers_of_the_chosen_one_only(study, tmp_path, monkeypatch):
    out = tmp_path / "report"
    drawn = []
    monkeypatch.setattr(
        "socrates.report.write.write_figures", lambda settings, *_: drawn.append(settings) or []
    )
    write_report(study, out, command=lambda experiment: "")
    chosen = "α=0.9 γ=2"
    for name in ("test-performance", "test-posthoc", "test-readings"):
        text = (out / "tables" / f"{name}.md").read_text()
        assert chosen in text
        assert "γ=3" not in text
        assert "validation data chose" in text
    assert "γ=3" in (out / "tables" / "variants.md").read_text()
    assert "γ=3" in (out / "tables" / "val-performance.md").read_text()
    assert not (out / "tables" / "test-significance.md").exists()
    runs = (out / "tables" / "runs.csv").read_text()
    assert runs.count("90.0") == 2  # the test accuracy of the chosen variant, of each seed
    ((results,),) = drawn[0].values()
    assert results.label.endswith(chosen)


def test_two_options_make_a_heat_map_and_a_third_one_several(study):
    (members,) = members_of(study).values()
    (only,) = maps_of(tuning_of(members))
    assert (only["across"], only["down"], only["heads"]) == ("γ", "α", ["1", "2", "3"])
    assert [len(line["cells"]) for line in only["rows"]] == [3, 3]
    chosen = [cell for line in only["rows"] for cell in line["cells"] if cell["chosen"]]
    assert [cell["text"] for cell in chosen] == ["11.0"]
    for batch_size in (32, 64):
        for gamma in (1.0, 2.0):
            for alpha in (0.9, 0.99):
                one = experiment("focal", gamma=gamma, alpha=alpha)
                rate = dataclasses.replace(
                    one.optimization, batch_size=batch_size, learning_rate=batch_size / 1000
                )
                make_run(study / "other", dataclasses.replace(one, optimization=rate))
    (members,) = members_of(study / "other").values()
    maps = maps_of(tuning_of(members))
    assert [one["title"] for one in maps] == ["batch size 32", "batch size 64"]


def test_one_option_makes_a_strip(tmp_path):
    for gamma in (0.5, 1.0, 2.0, 4.0):
        make_run(tmp_path, experiment("focal", gamma=gamma))
    (members,) = members_of(tmp_path).values()
    tuning = tuning_of(members)
    assert maps_of(tuning) == []
    (strip,) = strips_of(tuning)
    assert [text for _, text in strip["ticks"]] == ["0.5", "1", "2", "4"]
    assert len(strip["dots"]) == 4
    assert sum(dot["chosen"] for dot in strip["dots"]) == 1


def test_collapsed_variants_are_not_chosen(study):
    (members,) = members_of(study).values()
    broken = [
        dataclasses.replace(one, collapses={1: "it did"}) if "γ=2" in one.label else one
        for one in members
    ]
    tuning = tuning_of(broken)
    assert dict(tuning.chosen.options)["gamma"] != 2.0
    assert [one.score for one in tuning.variants[-2:]] == [None, None]


def test_several_methods_or_few_variants_are_no_study(study, tmp_path):
    (members,) = members_of(study).values()
    assert tuning_of(members[:3]) is None
    make_run(study, experiment("ce"))
    (members,) = members_of(study).values()
    assert tuning_of(members) is None


def test_ticks_are_round_and_about_as_many_as_asked():
    assert [text for _, text in Strip(93.1, 96.4).ticks(2)] == ["94", "96"]
    assert len(Strip(0, 7.3).ticks()) == 4


def test_what_trained_as_a_plainer_method_is_never_the_first_row(tmp_path, monkeypatch):
    for name in ("ce", "brier", "ccl_sc"):
        make_run(tmp_path, experiment(name), test={"ece": {"ccl_sc": 0.01}.get(name, 0.05)})
    (members,) = members_of(tmp_path).values()
    assert answers_of({"": members})[""].rows[0].label == "CCL-SC"
    monkeypatch.setattr("socrates.report.rows.duplicates", lambda members: {"CCL-SC"})
    assert answers_of({"": members})[""].rows[-1].label == "CCL-SC"
