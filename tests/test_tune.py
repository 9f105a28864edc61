"""Studies: the choice from hand-made numbers, grids, optuna's trials, and studies that were
stopped."""

from __future__ import annotations

import json

import pytest

from socrates.engine import LocalEngine, Study, tune
from socrates.engine.events import Failed, Finished
from socrates.engine.studies.candidates import candidate_of, grid_candidates
from socrates.engine.studies.choice import CandidateResult, ValidationScore, choose, score_of
from socrates.engine.studies.trials import OptunaSearch, near_one, suggest
from socrates.experiment import Experiment, Optimization, Part
from socrates.methods import METHODS
from socrates.records import EpochRecord, Run

BASE = Experiment(
    Part("digits"),
    Part("mlp"),
    Part("socrates"),
    keep_every=9,
    optimization=Optimization(epochs=9, batch_size=64),
)


def result(gamma, *scores, problems=(), failed=False):
    return CandidateResult(
        candidate_of(BASE, {"gamma": gamma}),
        tuple(ValidationScore(*score) for score in scores),
        tuple(problems),
        failed,
    )


FOUR = [
    result(1.0, (0.10, 0.09, 0.05)),
    result(2.0, (0.12, 0.03, 0.04)),
    result(3.0, (0.20, 0.01, 0.03)),
    result(4.0, (0.20, 0.05, 0.01)),
]


def test_the_nearest_of_the_front_is_chosen():
    choice = choose(FOUR)
    assert choice.best is FOUR[1]
    assert [r.candidate.label for r in choice.front] == ["gamma=1", "gamma=2", "gamma=3"]
    facts = (
        "Of 4 candidates, 3 are on the Pareto front",
        "gamma=2 is nearest to the origin (at 0.1500",
        "gamma=1 at 0.1900",
        "rule l1",
        "+2.00 points of error and -6.00 points of ECE",
    )
    for fact in facts:
        assert fact in choice.why


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (
            "scaled",
            "gamma=2 is nearest to the origin (at 0.3202, the runner-up gamma=1 at 1.0000, by "
            "rule scaled: the "
            "straight distance, both axes scaled to the candidates' range).",
        ),
        (
            "ece",
            "gamma=3 is nearest to the origin (at 0.0100, the runner-up gamma=2 at 0.0300, by "
            "rule ece: ECE alone).",
        ),
    ],
)
def test_another_rule_may_choose_and_says_so(rule, why):
    assert why in choose(FOUR, rule).why


def test_the_axes_are_not_scaled_unless_told():
    narrow = [
        result(1.0, (0.10, 0.05, 0.0)),
        result(2.0, (0.12, 0.04, 0.0)),
        result(3.0, (0.30, 0.01, 0.0)),
    ]
    assert [choose(narrow, rule).best for rule in ("l1", "scaled", "ece")] == narrow


def test_ties_go_by_class_wise_ece():
    choice = choose([result(1.0, (0.1, 0.2, 0.09)), result(2.0, (0.2, 0.1, 0.05))])
    assert choice.best is not None
    assert choice.best.candidate.label == "gamma=2"
    assert "2 tie" in choice.why
    assert "CW-ECE (5.00% against 9.00%)" in choice.why


def test_a_point_that_beats_all_others_says_so():
    choice = choose(
        [result(1.0, (0.1, 0.1, 0.1)), result(2.0, (0.2, 0.3, 0.1)), result(3.0, (0.3, 0.2, 0.1))]
    )
    assert len(choice.front) == 1
    assert "1 is on the Pareto front" in choice.why
    assert "gamma=1 is nearest to the origin" in choice.why


def test_the_gap_is_told_without_a_verdict_on_its_noise():
    ours = result(1.0, (0.10, 0.10, 0.0), (0.12, 0.12, 0.0))
    choice = choose([ours, result(2.0, (0.30, 0.10, 0.0), (0.32, 0.14, 0.0))])
    assert choice.best is ours
    assert choice.why.endswith("by -20.00 points of error and -1.00 points of ECE.")


def test_mean_and_std_over_seeds():
    two = result(1.0, (0.1, 0.2, 0.3), (0.3, 0.2, 0.1))
    assert two.mean == pytest.approx((0.2, 0.2, 0.2))
    assert two.std == pytest.approx((0.02**0.5, 0, 0.02**0.5))


def test_collapsed_candidates_are_marked_and_not_ranked():
    good, other = result(1.0, (0.1, 0.03, 0.0)), result(2.0, (0.2, 0.02, 0.0))
    collapsed = result(3.0, (0.9, 0.0, 0.0), problems=["seed 2 collapsed: every answer is class 1"])
    choice = choose([good, other, collapsed])
    assert collapsed not in choice.front
    assert "Of 2 candidates (1 more" in choice.why
    assert choose([good, collapsed]).why.endswith("gamma=1 is the only one that can be chosen.")


def test_nothing_to_choose_from():
    choice = choose(
        [result(1.0, problems=["seed 1 collapsed: x"]), result(2.0, problems=["seed 1 failed: y"])]
    )
    assert choice.best is None
    assert choice.front == ()
    assert "all of the 2 candidates" in choice.why


def test_a_score_is_the_last_epoch_of_validation(tmp_path):
    run = Run.create(tmp_path, BASE)
    with pytest.raises(ValueError, match=r"epochs\.jsonl"):
        score_of(run)
    scores = {"val_accuracy": 0.5, "val_ece": 0.4, "val_cw_ece": 0.3}
    last = {"val_accuracy": 0.75, "val_ece": 0.2, "val_cw_ece": 0.1}
    for epoch in range(1, 9):
        run.append_epoch(EpochRecord(epoch, scores))
    for values, collapsed, expected in (
        (last, None, ValidationScore(0.25, 0.2, 0.1)),
        ({}, None, "diverged: its validation metrics are not finite"),
        (last, "every answer is class 1", "collapsed: every answer is class 1"),
    ):
        run.forget_epochs_after(8)
        run.append_epoch(EpochRecord(9, values, collapsed))
        assert score_of(run) == expected


def test_a_grid_reaches_method_model_and_optimization():
    grid = {"gamma": (1.0, 2.0), "width": (8,), "batch_size": (32, 64), "epochs": (3,)}
    found = grid_candidates(BASE, grid)
    assert len(found) == 4
    last = found[-1].experiment
    assert dict(last.method.options)["gamma"] == 2.0
    assert last.changed("model") == {"width": 8}
    assert (last.optimization.batch_size, last.optimization.epochs, last.keep_every) == (64, 3, 3)
    assert found[0].label == "gamma=1 width=8 batch_size=32 epochs=3"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gama": 1.0}, "did you mean 'gamma'"),
        ({"gamma": -1.0}, "gamma must be at least 0"),
        ({"target_over": "some"}, "'all'"),
        ({"batch_size": 0}, "batch_size .*got 0"),
    ],
)
def test_a_wrong_grid_is_refused_before_anything_is_trained(options, message):
    with pytest.raises(ValueError, match=message):
        candidate_of(BASE, options)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_checked(method):
    assert candidate_of(
        Experiment(Part("digits"), Part("mlp"), Part(method)), {"batch_size": 64}
    ).options


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grid": {}}, "needs values"),
        ({"grid": {"gamma": ()}}, "needs values"),
        ({"seeds": ()}, "seeds"),
        ({"seeds": (1, 1)}, "different seeds"),
        ({"trials": 0}, "at least 1 trial"),
        ({"rule": "l2"}, "no rule 'l2'"),
    ],
)
def test_a_study_checks_what_it_is_asked(change, message):
    with pytest.raises(ValueError, match=message):
        Study(**{"base": BASE, "grid": {"gamma": (1.0,)}, "seeds": (1,), **change})


def test_a_longer_study_is_the_same_study():
    short, long = (Study(BASE, {"gamma": (1.0, 2.0)}, (1,), trials) for trials in (5, 50))
    assert short.name == long.name
    assert short.name != Study(BASE, {"gamma": (1.0, 2.0)}, (1,)).name
    assert short.name != Study(BASE, {"gamma": (1.0, 2.0)}, (2,), 5).name


def test_another_rule_chooses_anew_from_the_same_runs(tmp_path, monkeypatch):
    chosen = {}
    for rule in ("l1", "ece"):
        engine = pretend(monkeypatch)
        study = Study(BASE, {"gamma": (1.0, 2.0)}, (1,), rule=rule)
        written = content(tune(study, LocalEngine(tmp_path)).directory)
        assert written["asked"]["rule"] == rule
        assert f"by rule {rule}: " in written["why"]
        chosen[rule] = written["choice"]["options"]["gamma"], len(engine.trained)
    assert chosen == {"l1": (1.0, 2), "ece": (2.0, 0)}
    assert len(list(tmp_path.glob("study-*"))) == 1


class Middle:
    """A trial that suggests the middle, and remembers what it was asked."""

    def __init__(self):
        self.asked = {}

    def suggest_float(self, name, low, high, log=False):
        self.asked[name] = (low, high, log)
        return (low + high) / 2

    suggest_int = suggest_float

    def suggest_categorical(self, name, choices):
        self.asked[name] = choices
        return choices[0]


@pytest.mark.parametrize(
    ("values", "asked"),
    [
        ((1.0, 4.0, 2.0), {"x": (1.0, 4.0, False)}),
        ((64, 128), {"x": (64, 128, False)}),
        ((1, 2.5), {"x": (1.0, 2.5, False)}),
        ((1e-4, 0.1), {"x": (1e-4, 0.1, True)}),
        ((0.9, 0.99), {"log10(1 - x)": (pytest.approx(-2), pytest.approx(-1), False)}),
        ((0.9,), {"x": [0.9]}),
        (("all", "known"), {"x": ["all", "known"]}),
        ((True, False), {"x": [True, False]}),
    ],
)
def test_the_search_space_is_the_range_of_the_grid(values, asked):
    trial = Middle()
    suggest(trial, "x", values)
    assert trial.asked == asked


def test_values_at_the_ends_stay_inside():
    assert near_one((0.8, 0.999))
    assert not near_one((0.9, 1.0))
    for values in ((0.12345, 0.2), (0.81234, 0.9)):
        for end in (min, max):
            trial = Middle()
            trial.suggest_float = lambda _, low, high, log=False, end=end: end(low, high)
            assert min(values) <= suggest(trial, "x", values) <= max(values)


GRID = {"gamma": (1.0, 4.0), "alpha": (0.8, 0.999), "batch_size": (64, 128)}


def made_up(candidate):
    """A score that only the options decide; some collapse."""
    options = dict(candidate.options)
    if options["alpha"] > 0.998:
        return CandidateResult(candidate, (), ("seed 1 collapsed: made up",))
    return CandidateResult(
        candidate, (ValidationScore(options["gamma"] / 10, 1 - options["alpha"], 0.0),)
    )


def labels_of(trials, stop_after=None):
    """What was asked for, until the end or so many batches, the last one not told."""
    labels = []
    while batch := trials.ask():
        labels += [candidate.label for candidate in batch]
        if stop_after is not None and len(labels) >= stop_after:
            break
        trials.learn([made_up(candidate) for candidate in batch])
    return labels


def test_a_stopped_search_asks_for_the_same_candidates(tmp_path):
    whole = labels_of(OptunaSearch(BASE, GRID, 17, 3, tmp_path / "whole"))
    assert len(whole) == 17
    assert len(set(whole)) > 10
    journal = tmp_path / "stopped"
    assert labels_of(OptunaSearch(BASE, GRID, 17, 3, journal), stop_after=12) == whole[:12]
    assert (
        labels_of(OptunaSearch(BASE, GRID, 17, 8, journal), stop_after=14) == whole[:15]
    )  # on another number of cores
    assert labels_of(OptunaSearch(BASE, GRID, 17, 3, journal)) == whole
    assert labels_of(OptunaSearch(BASE, GRID, 17, 3, journal)) == whole
    assert labels_of(OptunaSearch(BASE, GRID, 20, 3, journal))[:17] == whole
    assert labels_of(OptunaSearch(BASE, GRID, 5, 3, journal)) == whole[:5]


def test_a_trial_that_was_stopped_while_it_was_asked(tmp_path):
    whole = labels_of(OptunaSearch(BASE, GRID, 5, 2, tmp_path / "whole"))
    search = OptunaSearch(BASE, GRID, 5, 2, tmp_path / "stopped")
    search.study.ask()  # no option was drawn yet
    assert labels_of(OptunaSearch(BASE, GRID, 5, 2, tmp_path / "stopped")) == whole


def test_a_damaged_journal_is_named_and_set_aside_and_a_torn_line_is_cut(tmp_path):
    journal = tmp_path / "optuna.journal"
    whole = labels_of(OptunaSearch(BASE, GRID, 6, 2, journal))
    content = journal.read_bytes()
    journal.write_bytes(content[:-20])
    assert labels_of(OptunaSearch(BASE, GRID, 6, 2, journal)) == whole
    journal.write_bytes(content[:40] + b"\x00" + content[41:])
    with pytest.warns(UserWarning, match=r"optuna\.journal\.damaged"):
        assert labels_of(OptunaSearch(BASE, GRID, 6, 2, journal)) == whole
    assert (tmp_path / "optuna.journal.damaged").is_file()


class Pretend:
    """Stands in for the processes: writes finished runs with made-up scores; may be stopped, or
    fail."""

    def __init__(self, stop_after=None, fail=()):
        self.stop_after, self.fail, self.trained = stop_after, fail, []

    def run(self, engine, experiments, tell):
        for experiment in experiments:
            if self.stop_after is not None and len(self.trained) == self.stop_after:
                raise KeyboardInterrupt
            if dict(experiment.method.options)["gamma"] in self.fail:
                tell(Failed(experiment, "made up"))
                continue
            self.trained.append(experiment)
            tell(Finished(experiment, self.finish(engine.out, experiment)))

    def finish(self, out, experiment):
        run = Run.create(out, experiment)
        gamma = dict(experiment.method.options)["gamma"] + experiment.seed / 10
        collapsed = "every answer is class 1" if gamma > 3.5 else None
        record = {
            "val_accuracy": 1 - gamma / 10,
            "val_ece": 0.1 / gamma,
            "val_cw_ece": 0.1,
            "collapsed": collapsed,
        }
        for epoch in range(1, 10):
            run.append_epoch(EpochRecord.from_json({"epoch": epoch, **record}))
        run.finish({"epochs": 9, "epoch": 9})
        return run


def pretend(monkeypatch, **how):
    stand_in = Pretend(**how)
    monkeypatch.setattr(LocalEngine, "run", lambda *given: stand_in.run(*given))
    return stand_in


def content(directory):
    return json.loads((directory / "study.json").read_text())


@pytest.mark.parametrize("trials", [None, 7])
def test_a_stopped_study_ends_like_one_that_was_not(tmp_path, monkeypatch, trials):
    study = Study(BASE, {"gamma": (1.0, 2.0, 3.0, 4.0)}, (1, 2), trials)
    whole = pretend(monkeypatch)
    expected = content(tune(study, LocalEngine(tmp_path / "whole", processes=2)).directory)
    pretend(monkeypatch, stop_after=5)
    with pytest.raises(KeyboardInterrupt):
        tune(study, LocalEngine(tmp_path / "stopped", processes=2))
    partly = content(tmp_path / "stopped" / study.name)
    assert len(partly["results"]) == 2
    rest = pretend(monkeypatch)
    tuned = tune(study, LocalEngine(tmp_path / "stopped", processes=1))
    assert len(rest.trained) == len(whole.trained) - 5
    assert content(tuned.directory) == expected
    assert expected["asked"]["search"] == ("grid" if trials is None else "optuna")
    again = pretend(monkeypatch)
    assert content(tune(study, LocalEngine(tmp_path / "stopped")).directory) == expected
    assert again.trained == []


def test_what_a_study_writes(tmp_path, monkeypatch):
    pretend(monkeypatch)
    tuned = tune(Study(BASE, {"gamma": (1.0, 2.0, 4.0)}, (1, 2)), LocalEngine(tmp_path))
    assert tuned.directory.parent == tmp_path
    written = content(tuned.directory)
    assert written["runs"] == {"total": 6, "finished": 6}
    first, _, collapsed = written["results"]
    assert first["options"] == {"gamma": 1.0}
    assert first["validation"][0]["error"] == pytest.approx(0.11)
    assert first["mean"]["error"] == pytest.approx(0.115)
    assert all((tmp_path / name / "finished.json").is_file() for name in first["runs"])
    assert collapsed["problems"] == [
        f"seed {seed} collapsed: every answer is class 1" for seed in (1, 2)
    ]
    assert not collapsed["front"]
    assert written["front"] == [{"gamma": 1.0}, {"gamma": 2.0}]
    chosen = Experiment.from_json(written["choice"]["experiment"])
    assert written["choice"]["options"].items() <= dict(chosen.method.options).items()
    assert written["why"] == tuned.choice.why


@pytest.mark.parametrize("trials", [None, 4])
def test_failed_candidates_are_listed_and_tried_again(tmp_path, monkeypatch, trials):
    study = Study(
        BASE, {"gamma": (1.0, 2.0)} if trials is None else {"gamma": (1, 2)}, (1,), trials
    )
    pretend(monkeypatch, fail=(2,))
    tuned = tune(study, LocalEngine(tmp_path, processes=1))
    assert len(tuned.failures) == 1
    assert [r.problems for r in tuned.results if r.problems] == [("seed 1 failed: made up",)]
    pretend(monkeypatch)
    tuned = tune(study, LocalEngine(tmp_path, processes=1))
    assert tuned.failures == ()
    assert all(r.ranked for r in tuned.results)


def test_a_search_in_which_everything_fails_ends(tmp_path, monkeypatch):
    pretend(monkeypatch, fail=range(5))
    tuned = tune(Study(BASE, {"gamma": (1, 4)}, (1,), 100), LocalEngine(tmp_path, processes=1))
    assert len(tuned.failures) <= 2
    assert tuned.choice.best is None


def test_a_run_without_its_epochs_does_not_change_the_choice_without_a_word(monkeypatch, tmp_path):
    pretend(monkeypatch)
    study = Study(BASE, {"gamma": (1.0, 2.0, 3.0)}, (1, 2))
    engine = LocalEngine(tmp_path)
    best = tune(study, engine).choice.best
    lost = tmp_path / best.candidate.runs(study.seeds)[0].name / "epochs.jsonl"
    lost.unlink()
    (failed,) = tune(study, engine).failures
    assert str(lost) in failed.reason
    assert failed.experiment == best.candidate.runs(study.seeds)[0]
