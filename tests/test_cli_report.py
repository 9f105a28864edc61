"""`socrates report` and `socrates reproduce` as commands, on made-up runs."""

from __future__ import annotations

from functools import partial

import pytest
from report_runs import experiment, make_run

from socrates.cli import dry_run
from socrates.engine.studies.forecast import forecast
from socrates.experiment import Experiment
from socrates.paper.recipes import RECIPES
from socrates.paper.scales import LaptopScale


@pytest.fixture
def run(run_on_a_line):
    """What a command says, whatever the width of the terminal."""
    return run_on_a_line


@pytest.mark.usefixtures("quick_figures")
def test_a_report_with_damaged_and_unfinished_runs(run, tmp_path):
    for seed in (1, 2):
        for method in ("ce", "socrates"):
            make_run(tmp_path / "runs", experiment(method, seed))
    make_run(tmp_path / "runs", experiment("brier"), epochs=2)
    broken = make_run(tmp_path / "runs", experiment("focal"))
    (broken / "evaluation.json").write_text("{")
    code, text = run("report", tmp_path / "runs", "--out", tmp_path / "report")
    assert code == 0, text
    assert "4 runs" in text
    assert "unfinished: 2 of 6 epochs are done" in text
    assert "damaged" in text
    assert str(tmp_path / "report" / "index.html") in text
    assert (tmp_path / "report" / "index.html").stat().st_size < 6e6
    assert {path.suffix for path in (tmp_path / "report" / "tables").iterdir()} == {
        ".md",
        ".tex",
        ".csv",
    }
    assert {path.suffix for path in (tmp_path / "report" / "figures").iterdir()} == {
        ".pdf",
        ".png",
        ".txt",
    }
    assert "brier" in (tmp_path / "report" / "tables" / "skipped.md").read_text()


@pytest.mark.parametrize("what", ["nothing", "missing", "file"])
def test_a_report_of_nothing_says_so(run, tmp_path, what):
    target = {"nothing": tmp_path, "missing": tmp_path / "nowhere", "file": tmp_path / "file"}[what]
    if what == "file":
        target.write_text("")
    code, text = run("report", target, "--out", tmp_path / "report")
    assert code == 1
    assert ("no finished run" if what == "nothing" else "is not a folder") in text
    assert not (tmp_path / "report").exists()


def test_a_dry_run_lists_runs_and_cost(run, tmp_path, monkeypatch):
    monkeypatch.setattr(dry_run, "forecast", partial(forecast, patience=0.5))
    code, text = run("reproduce", "table6", "--dry-run", "--out", tmp_path)
    assert code == 0, text
    assert "25 of 25 runs are missing: 180,000 samples" in text
    assert "Laptop scale" in text
    code, text = run(
        "reproduce", "test", "--setting", "cifar100-vgg16", "--scale", "paper", "--dry-run"
    )
    assert code == 0, text
    assert "45 of 45 runs are missing" in text
    assert "Laptop" not in text
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["paretto"], "did you mean 'pareto'"),
        (["pareto", "--setting", "cifar100-vgg"], "did you mean 'cifar100-vgg16'"),
        (["pareto", "--seeds", "x"], "seeds"),
        (["pareto", "--dataset", "digit", "--dry-run"], "digits"),
        ([], "name tables or figures"),
    ],
)
def test_mistakes(run, tmp_path, words, message):
    code, text = run("reproduce", *words, "--out", tmp_path)
    assert code == 1
    assert message in text


@pytest.mark.usefixtures("no_figures")  # whose note is tested in test_report_figures
def test_a_report_of_laptop_runs_says_so_everywhere(run, tmp_path):
    make_run(tmp_path / "runs", experiment("ce"))
    (tmp_path / "runs" / "note.txt").write_text(LaptopScale().note)
    code, text = run("report", tmp_path / "runs", "--out", tmp_path / "report")
    assert code == 0, text
    for path in (tmp_path / "report" / "index.html", *(tmp_path / "report" / "tables").iterdir()):
        assert "Laptop scale" in path.read_text(), path


def test_finished_runs_are_not_repeated_and_the_table_is_written(run, tmp_path):
    wanted = RECIPES["beta"].wanted([], LaptopScale(), (1, 2))
    runs: list[Experiment] = [
        one for columns in wanted.values() for runs in columns.values() for one in runs
    ]
    for one in runs:
        make_run(tmp_path / "laptop" / "runs", one, num_test=60)
    code, text = run("reproduce", "beta", "pareto-beta", "--seeds", "1-2", "--out", tmp_path)
    assert code == 0, text
    assert "Table 6" in text
    assert "Figure 9" in text
    for ending in ("md", "tex", "csv"):
        assert "Laptop scale" in (tmp_path / "laptop" / "tables" / f"beta.{ending}").read_text()
    assert "Laptop scale" in (tmp_path / "laptop" / "runs" / "note.txt").read_text()
    assert (
        "the Pareto rule l1 (error + ECE) the best"
        in (tmp_path / "laptop" / "tables" / "beta.md").read_text()
    )
    code, text = run("reproduce", "beta", "--seeds", "1-2", "--rule", "ece", "--out", tmp_path)
    assert code == 0, text
    assert (
        "the Pareto rule ece (ECE alone) the best"
        in (tmp_path / "laptop" / "tables" / "beta.md").read_text()
    )
    assert (tmp_path / "laptop" / "figures" / "pareto-beta.png").is_file()
