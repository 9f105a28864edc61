"""Reading and grouping run directories: what is whole is read, what is not is listed with a
reason."""

from __future__ import annotations

import dataclasses
import re
import sys

import numpy as np
import pytest
from report_runs import experiment, make_run

from signing import resign, resign_epochs
from socrates.cli.report import Report, run_report
from socrates.experiment import Part, resolve
from socrates.paper.compare import published
from socrates.report.aggregate import (
    find_runs,
    group_runs,
    read_run,
    read_runs,
)
from socrates.report.labels import SAID_ELSEWHERE, labels, method_label
from socrates.report.statistics import mean_std
from socrates.report.write import write_report


def read_all(root):
    return read_runs(find_runs(root))


def test_groups_by_setting_and_all_but_the_seed(tmp_path):
    for seed in (3, 1, 2):
        make_run(tmp_path, experiment("socrates", seed, gamma=2.0))
    make_run(tmp_path, experiment("socrates", 1, gamma=1.0))
    make_run(tmp_path, experiment("ce", 1, epochs=4))
    runs, skipped = read_all(tmp_path)
    assert not skipped
    groups = group_runs(runs)
    assert set(groups) == {"digits, mlp, 6 epochs", "digits, mlp, 4 epochs"}
    seeds = {group.label: group.seeds for group in groups["digits, mlp, 6 epochs"]}
    assert seeds == {"Socrates γ=2": [1, 2, 3], "Socrates γ=1": [1]}


def test_values_and_curves_are_one_row_a_run(tmp_path):
    for seed, ece in ((1, 0.02), (2, 0.04)):
        make_run(tmp_path, experiment("sat", seed), test={"ece": ece})
    ((group,),) = group_runs(read_all(tmp_path)[0]).values()
    assert group.values("ece").tolist() == [0.02, 0.04]
    assert group.values("ece", scaler="matrix", reading="spread").tolist() == [0.02, 0.04]
    assert np.isnan(group.values("no such metric")).all()
    assert np.isnan(group.values("ece", scaler="no such scaler")).all()
    assert group.curve("val_ece").shape == group.curve("beta").shape == (2, 6)
    assert group.epochs.tolist() == [1, 2, 3, 4, 5, 6]
    assert np.isnan(group.curve("no such curve")).all()


def test_a_model_without_unknown_class_has_one_reading(tmp_path):
    evaluation = read_run(make_run(tmp_path, experiment("ce"))).evaluation
    assert not evaluation.unknown_class
    assert (
        evaluation.values("none", "test", "spread")
        == evaluation.values("none", "test", "answer")
        != {}
    )
    assert evaluation.values("readout", "test", "answer") == {}


def test_predictions_are_those_of_the_evaluation(tmp_path):
    run = read_run(make_run(tmp_path, experiment("socrates"), num_classes=5, num_test=40))
    logits, labels_, num_classes, _ = run.predictions("test")
    assert (logits.shape, labels_.shape, num_classes) == ((40, 6), (40,), 5)
    assert run.evaluation.value("none", "test", "answer", "accuracy") == pytest.approx(
        (logits.argmax(axis=1) == labels_).mean()
    )


def test_made_up_runs_have_the_shape_of_evaluated_ones(tmp_path):
    quick = read_run(make_run(tmp_path / "quick", experiment("sat")))
    exact = read_run(make_run(tmp_path / "exact", experiment("sat"), exact=True))
    for scaler, splits in exact.evaluation.results.items():
        for split, readings in splits.items():
            for reading, metrics in readings.items():
                assert quick.evaluation.results[scaler][split][reading].keys() == metrics.keys()
    for reading in ("answer", "abstain", "renormalize", "spread"):
        one, other = (run.evaluation.values("none", "test", reading) for run in (quick, exact))
        for metric in ("accuracy", "ece", "nll", "brier"):
            assert one[metric] == pytest.approx(other[metric], abs=1e-5), (reading, metric)


def test_of_two_runs_with_one_seed_the_first_counts(tmp_path):
    for folder in ("a", "b"):
        make_run(tmp_path / folder, experiment("ce"))
    ((group,),) = group_runs(read_all(tmp_path)[0]).values()
    assert [run.directory.parent.name for run in group.runs] == ["a"]


def test_collapse_is_carried_on(tmp_path):
    directory = make_run(tmp_path, experiment("sat"), collapsed="every answer is class 3")
    assert read_run(directory).collapsed == "every answer is class 3"


def test_options_that_many_variants_share_are_in_the_title_and_not_in_the_labels(tmp_path):
    names = [
        "socrates",
        "socrates:no-beta",
        "socrates:no-focal",
        "socrates:no-target",
        "socrates:beta-fixed",
    ]
    for name in names:
        make_run(tmp_path, experiment(name, gamma=3.0, alpha=0.999))
    for weight in (0.1, 0.2, 0.3, 0.4):
        make_run(tmp_path, experiment("ccl_sc", queue_size=20, weight=weight))
    ((setting, groups),) = group_runs(read_all(tmp_path)[0]).items()
    found = {group.label for group in groups}
    assert {"Socrates", "Socrates no beta", "CCL-SC weight=0.1"} <= found
    assert len(found) == 9
    assert setting == "digits, mlp, 6 epochs, all CCL-SC: queue_size=20, all Socrates: α=0.999 γ=3"


def test_labels_tell_apart_what_the_method_does_not():
    one = experiment("focal", gamma=2.0)
    faster = dataclasses.replace(
        one, optimization=dataclasses.replace(one.optimization, learning_rate=0.5)
    )
    assert labels([one, faster]) == ["Focal, learning_rate 0.1", "Focal, learning_rate 0.5"]
    assert labels([one]) == ["Focal"]
    assert labels([one, experiment("focal", gamma=1.0)]) == ["Focal γ=2", "Focal γ=1"]
    outside = dataclasses.replace(one, method=Part("package.module:loss", start_epoch=3))
    assert method_label(outside) == "package.module loss E_s=3"


def calls_during(work, function=None):
    """Count the Python calls of a function, or of any function, while `work` runs."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        if event == "call" and function in (None, frame.f_code):
            count += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.usefixtures("no_figures")
def test_a_report_resolves_each_run_once(tmp_path):
    for method in ("ce", "socrates"):
        for seed in (1, 2):
            make_run(tmp_path / "runs", experiment(method, seed, epochs=3))

    def report():
        write_report(
            tmp_path / "runs", tmp_path / "out", command=lambda run: "", published=published
        )

    assert calls_during(report, resolve.__code__) == 4


def test_the_work_for_labels_grows_with_the_number_of_variants():
    variants = [
        resolve(experiment("socrates", gamma=float(gamma), alpha=alpha))
        for gamma in range(100)
        for alpha in (0.9, 0.99)
    ]
    assert len({*labels(variants)}) == 200
    few, many = (calls_during(lambda n=n: labels(variants[:n])) for n in (50, 200))
    assert many < 4.1 * few


def test_every_field_of_an_experiment_is_told_by_its_label_or_its_setting():
    """Two of one label would share a column of every table and a line of every chart."""
    one = experiment("ce")
    others = [
        dataclasses.replace(one, **{name: value})
        for name, value in (
            ("choose", "ece"),
            ("certify", 0.05),
            ("start", "0123456789abcdef"),
            ("num_bins", 10),
        )
    ]
    found = labels([one, *others])
    assert len({*found}) == 5
    assert found[3] == "CE, num_bins 15, choose last, certify None, start 01234567"
    told = {*vars(one)} - {*SAID_ELSEWHERE}
    assert told == {
        "num_bins",
        "keep_every",
        "precision",
        "choose",
        "certify",
        "start",
        "holdout",
        "unknown_trains",
    }


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1.0, 2.0, 6.0], (3.0, np.sqrt(7))), ([4.0], (4.0, np.nan)), ([], (np.nan, np.nan))],
)
def test_mean_and_sample_deviation(values, expected):
    np.testing.assert_allclose(mean_std(np.array(values)), expected)


def write(name, content):
    return lambda directory: (directory / name).write_text(content)


def edit(name, change):
    return lambda directory: resign(directory / name, change)


def records(*lines):
    return lambda directory: resign_epochs(directory, lines)


def cut(name, size):
    return lambda directory: (directory / name).write_bytes((directory / name).read_bytes()[:size])


def remove(name):
    return lambda directory: (directory / name).unlink()


DAMAGES = {
    "experiment empty": (write("experiment.json", ""), "experiment.json is damaged"),
    "experiment truncated": (cut("experiment.json", 50), "experiment.json is damaged"),
    "logits truncated": (
        cut("predictions/test-0006.npz", 400),
        "test-0006.npz is missing or cut short",
    ),
    "logits gone": (
        lambda directory: (directory / "predictions/val-0006.npz").unlink(),
        "val-0006.npz is missing",
    ),
    "evaluation with empty results": (
        edit("evaluation.json", lambda v: v.update(results={})),
        "has no results",
    ),
    "experiment a list": (write("experiment.json", "[1, 2]"), "not an object"),
    "experiment a number": (write("experiment.json", "5"), "not an object"),
    "experiment of another version": (
        edit("experiment.json", lambda v: v.pop("seed")),
        "'seed'. are missing",
    ),
    "dataset a string": (
        edit("experiment.json", lambda v: v.update(dataset="digits")),
        "damaged .TypeError",
    ),
    "dataset without name": (
        edit("experiment.json", lambda v: v["dataset"].pop("name")),
        "damaged .KeyError: 'name'",
    ),
    "method a number": (
        edit("experiment.json", lambda v: v["method"].update(name=3)),
        "experiment.json is damaged",
    ),
    "option a list": (
        edit("experiment.json", lambda v: v["method"]["options"].update(a=[1])),
        "unhashable",
    ),
    "seed a string": (edit("experiment.json", lambda v: v.update(seed="1")), "whole"),
    "subset a string": (edit("experiment.json", lambda v: v.update(num_train="many")), "whole"),
    "epochs a string": (
        edit("experiment.json", lambda v: v["optimization"].update(epochs="6")),
        "whole",
    ),
    "no epochs": (remove("epochs.jsonl"), "0 lines"),
    "epochs empty": (write("epochs.jsonl", ""), "0 lines"),
    "epochs truncated": (cut("epochs.jsonl", 900), "lines that are not those of epochs 1 to 6"),
    "epochs damaged": (
        write("epochs.jsonl", '{"epo\n{"epoch": 3}\n'),
        "line 1 is damaged",
    ),
    "epochs not text": (
        lambda d: (d / "epochs.jsonl").write_bytes(b"\xff\xfe\n"),
        "epochs.jsonl, line 1 is damaged",
    ),
    "epochs of lists": (write("epochs.jsonl", "[1]\n" * 6), "line 1 is damaged"),
    "epochs of numbers": (write("epochs.jsonl", "1\n" * 6), "line 1 is damaged"),
    "epochs without epoch": (
        records({"val_ece": 0.1}),
        "is not a record of an epoch",
    ),
    "epochs of words": (
        records({"epoch": 1, "val_ece": "low"}),
        "must be numbers",
    ),
    "epochs too large": (
        records({"epoch": 10**400}),
        "damaged .OverflowError",
    ),
    "no evaluation": (remove("evaluation.json"), "evaluation.json is not there"),
    "evaluation truncated": (cut("evaluation.json", 500), "evaluation.json is damaged"),
    "evaluation a list": (write("evaluation.json", "[]"), "not an object"),
    "evaluation a number": (write("evaluation.json", "3"), "not an object"),
    "evaluation without results": (
        edit("evaluation.json", lambda v: v.pop("results")),
        "it has no results",
    ),
    "results a list": (
        edit("evaluation.json", lambda v: v.update(results=[1])),
        "not by scaler, split",
    ),
    "split a list": (
        edit("evaluation.json", lambda v: v["results"]["none"].update(test=[1])),
        "not by scaler, split",
    ),
    "metric a word": (
        edit("evaluation.json", lambda v: v["results"]["none"]["test"]["answer"].update(ece="low")),
        "ece are not numbers",
    ),
    "evaluated epoch a word": (
        edit("evaluation.json", lambda v: v.update(epoch="last")),
        "epoch is 'last'",
    ),
    "not finished": (remove("finished.json"), "unfinished: 6 of 6 epochs are done"),
    "finished truncated": (cut("finished.json", 3), "finished.json is damaged"),
    "finished a list": (write("finished.json", "[]"), "not an object"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_listed_and_never_fatal(tmp_path, name):
    damage, reason = DAMAGES[name]
    make_run(tmp_path, experiment("sat", seed=2))
    directory = make_run(tmp_path, experiment("sat", seed=1))
    damage(directory)
    runs, skipped = read_all(tmp_path)
    assert [run.experiment.seed for run in runs] == [2]
    assert [one.directory for one in skipped] == [directory]
    assert all(re.search(reason, one.reason) for one in skipped), skipped
    (groups,) = group_runs(runs).values()
    assert [group.label for group in groups] == ["SAT"]


def flip(path, at):
    """Change a byte within the data of a zip file, which its checksum notices and its index does
    not."""
    content = bytearray(path.read_bytes())
    content[at] ^= 64
    path.write_bytes(content)


@pytest.mark.usefixtures("no_figures")
def test_logits_that_fail_their_checksum_are_listed_by_a_report(tmp_path):
    make_run(tmp_path / "runs", experiment("sat", seed=2))
    directory = make_run(tmp_path / "runs", experiment("sat", seed=1))
    flip(directory / "predictions" / "test-0006.npz", 600)
    runs, ((skipped, reason),) = read_runs(find_runs(tmp_path / "runs"), logits=True)
    assert [run.experiment.seed for run in runs] == [2]
    assert skipped == directory
    assert "test-0006.npz is damaged" in reason
    written = write_report(tmp_path / "runs", tmp_path / "report", command=str)
    assert [one.directory for one in written.skipped] == [directory]
    assert written.num_runs == 1


@pytest.mark.usefixtures("no_figures")
def test_paths_with_brackets_are_told_as_they_are(tmp_path, capsys):
    make_run(tmp_path / "runs", experiment("ce"))
    damaged = make_run(tmp_path / "runs" / "bad[/i]", experiment("sat"))
    (damaged / "evaluation.json").write_text("[b]")
    run_report(Report((tmp_path / "runs",), tmp_path / "o[v2]"))
    printed = capsys.readouterr()
    assert str(tmp_path / "o[v2]" / "index.html") in printed.out
    assert str(damaged) in printed.err


def test_of_two_runs_of_one_experiment_the_second_is_listed(tmp_path):
    first = make_run(tmp_path / "a", experiment("ce"))
    second = make_run(tmp_path / "b", experiment("ce"))
    runs, (skipped,) = read_all(tmp_path)
    assert [run.directory for run in runs] == [first]
    assert skipped.directory == second
    assert str(first) in skipped.reason


def test_unfinished_runs_say_how_far_they_came(tmp_path):
    directory = make_run(tmp_path, experiment("ce"), epochs=2)
    runs, ((skipped, reason),) = read_all(tmp_path)
    assert (runs, skipped) == ([], directory)
    assert reason == "unfinished: 2 of 6 epochs are done"


def test_a_diverged_run_is_read_with_numbers_missing(tmp_path):
    directory = make_run(tmp_path, experiment("ce"))
    edit("evaluation.json", lambda value: value.update(results={}, skipped={"none": "diverged"}))(
        directory
    )
    lines = [{"epoch": epoch, "val_ece": None, "collapsed": "no"} for epoch in range(1, 7)]
    resign_epochs(directory, lines)
    ((group,),) = group_runs(read_all(tmp_path)[0]).values()
    assert np.isnan(group.values("ece")).all()
    assert np.isnan(group.curve("val_ece")).all()
    assert "collapsed" not in group.runs[0].curves


def test_find_runs_goes_down_folders_and_names_what_is_none(tmp_path):
    one, other = (
        make_run(tmp_path / "a", experiment("ce")),
        make_run(tmp_path / "b" / "c", experiment("ce")),
    )
    assert (
        find_runs(tmp_path) == find_runs([tmp_path / "a", str(tmp_path / "b"), one]) == [one, other]
    )
    assert find_runs(one) == [one]
    with pytest.raises(FileNotFoundError, match=f"{tmp_path / 'd'} "):
        find_runs(tmp_path / "d")
