"""A tuning study is reported by the rule that it was chosen by."""

import json
import os

import pytest
from report_runs import experiment, make_run

from socrates.records import Evaluation, Run
from socrates.report.write import write_report

# gamma: validation accuracy and ECE. The second is best by error + ECE, the third by ECE alone.
SCORES = {0.5: (0.80, 0.20), 1.0: (0.95, 0.05), 2.0: (0.85, 0.01), 3.0: (0.70, 0.30)}


def make_study(folder):
    """Four variants of the focal loss with two seeds each; return their run directories."""
    directories = []
    for gamma, (accuracy, ece) in SCORES.items():
        for seed in (1, 2):
            directory = make_run(folder, experiment("focal", seed, gamma=gamma))
            run = Run(directory)
            plain = run.evaluation().to_json()
            for by_reading in (plain["results"]["none"]["val"],):
                for values in by_reading.values():
                    values |= {"accuracy": accuracy, "ece": ece}
            run.save_evaluation(Evaluation.from_json(plain))
            directories.append(directory)
    return directories


def write_study(folder, name, rule, runs, age=0.0):
    """Write what a report reads of a study.json, `age` seconds ago."""
    path = folder / f"study-{name}" / "study.json"
    path.parent.mkdir()
    results = [{"runs": [run.name]} for run in runs]
    path.write_text(json.dumps({"asked": {"rule": rule}, "results": results}))
    then = path.stat().st_mtime - age
    os.utime(path, (then, then))


def chosen_in(folder):
    """Return the only answer of a report, and the label that it chooses."""
    written = write_report(folder, folder / "report", command=str)
    (answer,) = written.answers.values()
    assert answer.case == "tune"
    (row,) = answer.rows
    return answer, row.label, written.page.read_text()


@pytest.mark.slow
def test_without_a_study_the_rule_is_the_usual_one(tmp_path):
    make_study(tmp_path)
    (tmp_path / "study-damaged").mkdir()
    (tmp_path / "study-damaged" / "study.json").write_text("{")
    answer, label, _ = chosen_in(tmp_path)
    assert (answer.rule, "γ=1" in label) == ("l1", True)


@pytest.mark.slow
def test_the_latest_study_with_these_runs_decides(tmp_path):
    runs = make_study(tmp_path)
    write_study(tmp_path, "older", "scaled", runs, age=100.0)
    write_study(tmp_path, "of-others", "l1", runs[:2])
    write_study(tmp_path, "latest", "ece", runs, age=10.0)
    answer, label, page = chosen_in(tmp_path)
    assert (answer.rule, "γ=2" in label) == ("ece", True)
    assert "ECE alone" in answer.sentences[0]
    assert "Validation, ECE, %" in page
