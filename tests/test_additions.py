"""What the documentation says can be added from outside is added: its files, as they stand there,
are trained with."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import socrates
from socrates import data, methods, models, scaling
from socrates.cli import main
from socrates.engine.train import train
from socrates.experiment import Experiment, Optimization, Part
from socrates.names import option_help
from socrates.predictor.card import write_card
from socrates.predictor.export import export
from socrates.records import Run
from socrates.scaling import SCALERS

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parent.parent / "docs" / "architecture.md"
FILES = dict(re.findall(r"```python\n# (my_\w+\.py)\n(.*?)```", PAGE.read_text(), re.DOTALL))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the documented files, where a user would work."""
    for name, source in FILES.items():
        (tmp_path / name).write_text(source)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_has_every_file():
    assert list(FILES) == [
        "my_methods.py",
        "my_models.py",
        "my_data.py",
        "my_scalers.py",
        "my_metrics.py",
        "my_figures.py",
        "my_formats.py",
        "my_study.py",
    ]


@pytest.mark.parametrize(
    ("dataset", "model", "method"),
    [
        (Part("digits"), Part("mlp"), Part("my_methods.py:LabelSmoothing", smoothing=0.2)),
        (Part("digits"), Part("my_models.py:plain", width=8), Part("socrates")),
        (
            Part("digits"),
            Part("my_models.py:Tiny", width=4),
            Part("ccl_sc", start_epoch=0, queue_size=8),
        ),
        (Part("my_data.py:stripes", noise=20.0), Part("cnn"), Part("socrates")),
        (
            Part("my_data.py:stripes"),
            Part("my_models.py:Tiny"),
            Part("my_methods.py:LabelSmoothing"),
        ),
    ],
    ids=["method", "plain model", "model", "data set", "all three"],
)
@pytest.mark.usefixtures("few_scalers")
def test_what_is_documented_trains(folder, dataset, model, method):
    settings = Optimization(epochs=2, batch_size=32, learning_rate=0.05)
    run = train(
        Experiment(dataset, model, method, optimization=settings),
        folder / "runs",
        accelerator="cpu",
    )
    assert run.finished
    assert len(run.epochs()) == 2


@pytest.mark.parametrize(
    ("package", "name", "options"),
    [
        (methods, "my_methods.py:LabelSmoothing", {"smoothing": 0.1}),
        (models, "my_models.py:Tiny", {"width": 8}),
        (data, "my_data.py:stripes", {"count": 200, "noise": 60.0}),
    ],
)
def test_their_options_are_read_from_their_signatures(folder, package, name, options):
    assert package.options(name) == options
    assert option_help(package.factory(name)).keys() == options.keys()


def run_program(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a fresh process, in the folder of the user, with the documented files."""
    for name, source in FILES.items():
        (folder / name).write_text(source)
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result


@pytest.fixture(scope="module")
def plug_in_run(tmp_path_factory):
    """Return a folder and a run there whose data, model and method are from outside.

    One process takes the run through every command.
    """
    folder = tmp_path_factory.mktemp("plug-ins")
    random = np.random.default_rng(1)
    probs = random.dirichlet([1, 1, 1], 60)
    labels = [random.choice(3, p=row) for row in probs]
    table = np.column_stack([labels, probs])
    np.savetxt(folder / "mine.dat", table, header="label p0 p1 p2", comments="")
    program = """
import contextlib
import my_figures, my_formats, my_metrics
from pathlib import Path
from PIL import Image
import socrates, torch
from socrates.cli import main
for name in my_figures.FIGURES.keys() - {"seeds"}:
    del my_figures.FIGURES[name]  # slow, and others test them
parts = ["my_data.py:stripes", "my_models.py:Tiny", "my_methods.py:LabelSmoothing"]
options = "--epochs 2 --noise 20 --width 4 --smoothing 0.2 --device cpu --out runs".split()
assert main(["train", *parts, *options]) == 0
(run,) = map(str, Path("runs").iterdir())
Image.new("L", (8, 8)).save("image.png")
assert main(["show", run]) == 0
assert main(["evaluate", run]) == 0
assert main(["report", "runs", "--out", "report"]) == 0
assert main(["predict", run, "image.png", "--trust-code", "--out", "rows.csv"]) == 0
assert main(["export", run, "--trust-code", "--format", "torch", "--out", "model.pt2"]) == 0
with open("audit.json", "w") as file, contextlib.redirect_stdout(file):
    assert main(["audit", "mine.dat", "--json", "--out", "audit"]) == 0
with open("run.json", "w") as file, contextlib.redirect_stdout(file):
    assert main(["audit", f"{run}/predictions/test-0002.npz", "--json", "--out", "audited"]) == 0
images = torch.arange(4, dtype=torch.uint8)[:, None, None, None].expand(4, 1, 8, 8)
predicted = socrates.load(run, trust_code=True).predict(images)
exported = torch.export.load("model.pt2").module()(images)
torch.save((predicted.probs, exported[0]), "predicted.pt")
assert main(["predict", run, "image.png"]) == 1
"""
    result = run_program(program, folder)
    (run,) = (folder / "runs").iterdir()
    return folder, run, result


@pytest.fixture(scope="module")
def scaled_run(tmp_path_factory):
    """Return a folder and a run there that was trained, shown, reported and used with PriorShift.

    `chosen` is its model, saved with that scaler.
    """
    folder = tmp_path_factory.mktemp("scaled")
    random = np.random.default_rng(1)
    probs = random.dirichlet([2, 2, 2], 400)
    frequent = probs * [8, 1, 1]  # class 0 occurs more often than the probabilities say
    labels = [random.choice(3, p=row / row.sum()) for row in frequent]
    table = np.column_stack([labels, probs])
    header = "label,p0,p1,p2"
    np.savetxt(folder / "rare.csv", table, "%.10g", ",", header=header, comments="")
    program = """
import contextlib, warnings
from pathlib import Path
import torch
import my_scalers, socrates
from socrates.cli import main
from socrates.predictor.card import write_card
from socrates.predictor.export import export
from socrates.report import write
write.write_figures = lambda *_: []  # slow, and others test them
assert main("train digits mlp ce --epochs 2 --num-train 60 --out runs --device cpu".split()) == 0
(run,) = Path("runs").iterdir()
assert main(["show", str(run)]) == 0
assert main(["evaluate", str(run)]) == 0
assert main("report runs --out report".split()) == 0
with open("audit.json", "w") as file, contextlib.redirect_stdout(file):
    assert main("audit rare.csv --json --out audit".split()) == 0

warnings.simplefilter("error")
predictor = socrates.load(run, scaler="prior")
images = torch.arange(4, dtype=torch.uint8)[:, None, None, None].expand(4, 1, 8, 8)
predictor.save("chosen")
torch.save((predictor.logits(images), predictor.predict(images).probs), "predicted.pt")
again = socrates.load("chosen")
assert again.about == predictor.about and again.about.scaler == "prior"
program = torch.export.load(export(predictor, "model.pt2", "torch")).module()
torch.save(program(images)[0], "exported.pt")
write_card(predictor, Path("model.pt2"), "torch")
socrates.scaling.save(predictor.scalers["prior"], "prior.npz")
"""
    output = run_program(program, folder).stdout
    (run,) = (folder / "runs").iterdir()
    return folder, run, output


@pytest.fixture
def my_scalers(folder, monkeypatch):
    """Import the documented scaler for one test."""
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "my_scalers", raising=False)
    monkeypatch.setitem(SCALERS, "prior", None)  # whatever is there goes with the test
    module = importlib.import_module("my_scalers")
    yield module
    del sys.modules["my_scalers"]


def test_a_run_with_all_parts_from_outside_passes_every_command(plug_in_run):
    folder, run, result = plug_in_run
    assert "Traceback" not in result.stderr
    assert "--trust-code" in result.stderr  # the last predict, without it, says what is missing
    assert Run(run).finished
    assert "--smoothing 0.2" in result.stdout  # the command that repeats the run
    assert "image.png,a" in (folder / "rows.csv").read_text()  # across or along
    overview = (folder / "report" / "tables" / "test-performance.md").read_text()
    for words in ("LabelSmoothing", "smoothing=0.2", "stripes", "noise 20", "Tiny", "width 4"):
        assert words in overview
    evaluation = Run(run).evaluation()
    stored = Run(run).predictions("test", evaluation.epoch)
    accuracy = (stored.logits.argmax(axis=1) == stored.labels).mean()
    audited = json.loads((folder / "run.json").read_text())["metrics"]
    assert audited["accuracy"]["value"] == pytest.approx(accuracy)
    assert evaluation.value("none", "test", "plain", "accuracy") == pytest.approx(accuracy)
    predicted, exported = torch.load(folder / "predicted.pt")
    assert predicted.shape == (4, 2)
    torch.testing.assert_close(predicted, exported)


def test_a_metric_from_outside_is_recorded_and_stands_in_tables_and_card(plug_in_run):
    folder, run, _ = plug_in_run
    evaluation = Run(run).evaluation()
    value = evaluation.value("none", "test", "plain", "sure_and_wrong")
    assert "Sure (%)" in (folder / "report" / "tables" / "test-performance.md").read_text()
    assert "sure and wrong" in (folder / "README.md").read_text()  # the card beside model.pt2
    assert np.isnan(value) or 0 <= value <= 1


def test_a_file_format_and_a_metric_from_outside_are_audited(plug_in_run):
    folder, _, _ = plug_in_run
    audited = json.loads((folder / "audit.json").read_text())["metrics"]
    labels, *columns = np.loadtxt(folder / "mine.dat", skiprows=1).T
    probs = np.column_stack(columns)
    is_wrong = probs.argmax(axis=1) != labels
    assert audited["accuracy"]["value"] == pytest.approx(1 - is_wrong.mean())
    expected = probs.max(axis=1)[is_wrong].mean()
    assert audited["sure_and_wrong"]["value"] == pytest.approx(expected)
    tables = [path.read_text() for path in (folder / "audit" / "tables").glob("*.md")]
    assert any(re.search(rf"[Ss]ure.*{100 * expected:.2f}", text) for text in tables)


def test_a_figure_from_outside_is_drawn_and_stands_on_the_page(plug_in_run):
    folder, _, _ = plug_in_run
    drawn = {path.name for path in (folder / "report" / "figures").iterdir()}
    assert {"seeds.pdf", "seeds.png"} <= drawn
    page = (folder / "report" / "index.html").read_text()
    assert "How far apart are the seeds?" in page
    assert 'data-chart="seeds"' in page or "figures/seeds" in page


def test_a_scaler_from_outside_stands_in_evaluation_and_tables(scaled_run):
    folder, run, output = scaled_run
    assert Run(run).evaluation().scalers == ("none", "temperature", "vector", "matrix", "prior")
    assert "PS: prior shift" in " ".join(output.split())
    assert "+ PS" in (folder / "report" / "tables" / "test-posthoc.md").read_text()


def test_a_scaler_from_outside_is_tried_by_the_audit(scaled_run):
    folder, _, _ = scaled_run
    audited = json.loads((folder / "audit.json").read_text())
    nll = {name: scores["nll"] for name, scores in audited["scalers"].items()}
    assert nll["prior"] < nll["temperature"] - 0.1
    tables = [path.read_text() for path in (folder / "audit" / "tables").glob("*.md")]
    assert any(re.search(rf"prior shift.*{nll['prior']:.3f}", text) for text in tables)


def test_a_scaler_from_outside_is_chosen_among_ours_and_saved(my_scalers, tmp_path):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(600, 3, generator=generator, dtype=torch.float64)
    shifted = (logits + torch.tensor([2.0, 0.0, 0.0])).softmax(dim=1)
    labels = torch.multinomial(shifted, 1, generator=generator).squeeze(1)
    probs = logits.softmax(dim=1)
    best = scaling.best(probs, labels, candidates=["prior"], from_probs=True)
    assert best.name == "prior"
    assert [trial.name for trial in best.table] == ["temperature", "prior"]
    counts = torch.bincount(labels) + 1.0
    expected = (probs.log() + (counts / counts.sum()).log()).softmax(dim=1)
    torch.testing.assert_close(best.scaler.probs(probs, from_probs=True), expected)
    kept = scaling.load(scaling.save(best.scaler, tmp_path / "prior.npz"))
    assert type(kept) is my_scalers.PriorShift
    torch.testing.assert_close(kept(probs.log()).softmax(dim=1), expected)
    weighted = scaling.best(logits, labels, candidates=["prior"], sample_weight=counts[labels])
    assert "sample_weight" in weighted.table[1].failed


def test_a_model_with_a_scaler_from_outside_predicts_and_is_exported(scaled_run):
    folder, run, _ = scaled_run
    labels = torch.as_tensor(Run(run).predictions("val", 2).labels)
    counts = torch.bincount(labels) + 1.0
    logits, predicted = torch.load(folder / "predicted.pt")
    expected = (logits + (counts / counts.sum()).log()).softmax(dim=1)
    torch.testing.assert_close(torch.as_tensor(predicted), expected)
    torch.testing.assert_close(torch.load(folder / "exported.pt"), expected)
    assert "PriorShift" in (folder / "README.md").read_text()


def test_a_scaler_from_outside_has_a_file_of_its_own(scaled_run, my_scalers):
    folder, run, _ = scaled_run
    scaler = scaling.load(folder / "prior.npz")
    assert type(scaler) is my_scalers.PriorShift
    predictor = socrates.load(run, scaler="prior")
    assert torch.equal(scaler.bias, predictor.scalers["prior"].bias)


def test_a_model_is_loaded_without_the_scaler_whose_module_is_missing(scaled_run, tmp_path):
    _, run, _ = scaled_run
    with pytest.warns(UserWarning, match=r"'prior'.*'my_scalers'"):
        predictor = socrates.load(run)
    images = torch.randint(0, 256, (4, 1, 8, 8), dtype=torch.uint8)
    expected = torch.as_tensor(predictor.predict(images).probs)
    assert predictor.about.scaler == "temperature"
    predictor.use("vector", None)
    predictor.predict(images)
    with pytest.raises(ValueError, match=r"'prior'.*PriorShift") as error:
        predictor.use("prior", None)
    assert str(error.value).count("'prior'") == 1  # it is not among the choices
    with pytest.warns(UserWarning, match="'prior'"), pytest.raises(ValueError, match="PriorShift"):
        socrates.load(run, scaler="prior")
    predictor.use("temperature", None)
    program = torch.export.load(export(predictor, tmp_path / "missing.pt2", "torch")).module()
    torch.testing.assert_close(program(images)[0], expected)
    card = write_card(predictor, tmp_path / "missing.pt2", "torch").read_text()
    assert "TemperatureScaling" in card


def test_a_missing_scaler_is_kept_when_the_model_is_saved_again(scaled_run, tmp_path, request):
    with pytest.warns(UserWarning, match="'prior'"):
        socrates.load(scaled_run[1]).save(tmp_path)
    request.getfixturevalue("my_scalers")
    assert socrates.load(tmp_path, scaler="prior").scalers["prior"].bias.shape == (10,)


def test_a_model_that_uses_a_missing_scaler_needs_another_one(scaled_run):
    folder, _, _ = scaled_run
    with pytest.raises(ValueError, match=r"'prior'.*PriorShift.*'none'"):
        socrates.load(folder / "chosen")
    with pytest.warns(UserWarning, match="'prior'"):
        assert socrates.load(folder / "chosen", scaler="none").about.scaler == "none"


@pytest.mark.usefixtures("no_figures")
@pytest.mark.filterwarnings("always::UserWarning")  # the command line prints it
def test_the_command_line_copes_with_a_missing_scaler(scaled_run, folder, capsys):
    _, run, _ = scaled_run
    Image.new("L", (8, 8)).save("image.png")
    assert main(["show", str(run)]) == 0
    assert main(["report", str(run.parent), "--out", "report"]) == 0
    assert main(["predict", str(run), "image.png"]) == 0
    output = capsys.readouterr()
    assert "image.png" in output.out
    assert "'prior'" in output.err  # the warning
    assert main(["predict", str(run), "image.png", "--scaler", "prior"]) == 1
    assert "('my_scalers')" in capsys.readouterr().err


def test_a_metric_from_outside_is_a_dash_before_it_is_evaluated_and_a_number_after(
    scaled_run, folder
):
    shutil.copytree(scaled_run[1].parent, folder / "runs")
    (run,) = (folder / "runs").iterdir()
    before = Run(run).evaluation()
    program = f"""
import my_metrics
from socrates.cli import main
from socrates.report import write
write.write_figures = lambda *_: []
assert main(["show", {str(run)!r}]) == 0
assert main("report runs --out before".split()) == 0
print("AFTER")
assert main(["evaluate", {str(run)!r}]) == 0
assert main(["show", {str(run)!r}]) == 0
assert main("report runs --out after".split()) == 0
"""
    shown_before, _, shown_after = run_program(program, folder).stdout.partition("AFTER")
    evaluation = Run(run).evaluation()
    stored = Run(run).predictions("test", evaluation.epoch)
    exponents = np.exp(stored.logits - stored.logits.max(axis=1, keepdims=True))
    probs = exponents / exponents.sum(axis=1, keepdims=True)
    expected = probs.max(axis=1)[probs.argmax(axis=1) != stored.labels].mean()
    value = evaluation.value("none", "test", "plain", "sure_and_wrong")
    assert value == pytest.approx(expected, rel=1e-5)
    assert evaluation.value("none", "test", "plain", "ece") == before.value(
        "none", "test", "plain", "ece"
    )
    printed = f"{100 * value:.2f}"
    assert row_of(shown_before, "none")[-1] == "–"
    assert row_of(shown_after, "none")[-1] == printed
    overview = {
        name: (folder / name / "tables" / "test-performance.md").read_text()
        for name in ("before", "after")
    }
    assert re.search(r"Sure \(%\) *\| *–", overview["before"])
    assert re.search(rf"Sure \(%\) *\| *{printed}", overview["after"])


def row_of(text: str, first: str) -> list[str]:
    """Return the words of the first line that begins with this one."""
    return next(line.split() for line in text.splitlines() if line.split()[:1] == [first])


@pytest.mark.usefixtures("few_scalers")
def test_show_prints_a_dash_for_a_metric_that_an_evaluation_lacks():
    from socrates.cli.runs import evaluation_table
    from socrates.records import Evaluation

    evaluation = Evaluation(
        2, 15, unknown_class=False, results={"none": {"test": {"plain": {"accuracy": 0.5}}}}
    )
    columns = [list(column.cells) for column in evaluation_table(evaluation).columns]
    assert columns[:3] == [["none"], ["50.00"], ["–"]]
