"""The real command line, from data to results."""

from __future__ import annotations

import dataclasses
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

import socrates
from socrates import cli, methods, models
from socrates.cli.commands import Train
from socrates.cli.options import parse
from socrates.cli.output import console
from socrates.cli.repeat import command_of
from socrates.cli.report import show_written
from socrates.engine.display import StudyDisplay
from socrates.experiment import Experiment, Optimization, Part, resolve
from socrates.records import Run
from socrates.report.aggregate import find_runs

ROOT = Path(__file__).resolve().parent.parent


def test_train_evaluate_show(run, tmp_path):
    command = (
        "train",
        "digits",
        "mlp",
        "socrates",
        "--gamma",
        "1",
        "--alpha=0.9",
        "--width",
        "16",
        "--epochs",
        "2",
    )
    code, text = run(*command, "--out", tmp_path, "--device", "cpu")
    assert code == 0, text
    directory = next(tmp_path.iterdir())
    assert directory.name.startswith("digits-mlp-socrates-alpha0.9-seed1-")
    assert "epoch 2/2" in text
    assert directory.name in text.replace("\n", "")
    code, text = run(*command, "--out", tmp_path)
    assert code == 0
    assert "epoch" not in text.replace("finished", "")
    code, text = run("evaluate", directory)
    assert code == 0
    assert "readout" in text
    assert "spread" in text
    code, text = run("show", directory)
    assert code == 0
    assert "finished" in text
    assert "--alpha 0.9" in text


def test_list(run):
    code, text = run("list")
    assert code == 0
    for name in ("cifar100", "food101", "vgg16", "resnet110", "ccl_sc", "socrates", "alpha=0.99"):
        assert name in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "digit", "mlp", "ce"], "digits"),
        (["train", "digits", "mpl", "ce"], "mlp"),
        (["train", "digits", "mlp", "socrate"], "socrates"),
        (["train", "digits", "mlp", "focal", "--alpha", "0.9"], "Unrecognized options: --alpha"),
        (["train", "digits", "mlp", "focal", "--gama", "2"], "meant: --gamma FLOAT"),
        (["train", "digits", "mlp", "focal", "--epoch", "2"], "meant: --epochs INT"),
        (["train", "digits", "mlp", "focal", "--epoch=2"], "meant: --epochs INT"),
        (["train", "digits", "mlp", "focal", "more"], "Unrecognized options: more"),
        (["tune", "digits", "mlp"], "METHOD"),
        (
            ["train", "digits", "mlp", "focal", "--gamma", "two"],
            "gamma must be a number like 2.0, got 'two'",
        ),
        (
            ["train", "digits", "mlp", "focal", "--augment", "perhaps"],
            "augment must be true or false, got 'perhaps'",
        ),
        (["train", "digits", "mlp", "focal", "--gamma", "-1"], "gamma must be at least 0"),
        (["train", "digits", "mlp", "focal", "--gamma"], "Missing value for argument '--gamma'"),
        (["sweep", "--method", "ce"], "meant: --methods"),
        (["report", "--outt", "there"], "meant: --out PATH"),
        (["evaluate", "nowhere"], "is not a run"),
        (["show", "nowhere"], "is not a run"),
        (["dance"], "unknown command 'dance'"),
    ],
)
def test_mistakes_are_one_line(run, tmp_path, words, message):
    code, text = run(*words, *(["--out", tmp_path] if words[0] == "train" else []))
    assert code in (1, 2)
    assert message in re.sub(r"[\s│─]+", " ", text)
    assert "Traceback" not in text


def test_an_unknown_option_trains_nothing(capsys, tmp_path):
    words = ["train", "digits", "mlp", "ce", "--gamma", "1", "--out", str(tmp_path / "runs")]
    assert cli.main(words) == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert "--gamma" in errors
    assert not (tmp_path / "runs").exists()


def test_help(run):
    code, text = run("--help")
    assert code == 0
    assert "quickstart" in text


@pytest.mark.usefixtures("few_scalers")
def test_the_documented_method_from_outside(run, tmp_path, monkeypatch):
    page = (ROOT / "docs" / "architecture.md").read_text()
    source = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    (tmp_path / "my_methods.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as `python -m socrates.cli` finds it
    monkeypatch.delitem(sys.modules, "my_methods", raising=False)
    words = (
        "train digits mlp my_methods:LabelSmoothing --smoothing 0.2 --epochs 2 --device cpu "
        "--out runs"
    )
    code, text = run(*words.split())
    assert code == 0, text
    assert "finished" in text


@pytest.mark.usefixtures("few_scalers")
def test_curves_for_tensorboard(run, tmp_path):
    words = (
        "train",
        "digits",
        "mlp",
        "ce",
        "--epochs",
        "2",
        "--out",
        tmp_path,
        "--device",
        "cpu",
        "--log",
        "tensorboard",
    )
    code, text = run(*words)
    assert code == 0, text
    assert list(tmp_path.glob("*/tensorboard/events*"))


def test_without_the_train_extra_the_command_says_what_to_install():
    code = "import sys; sys.modules['tyro'] = None; from socrates.cli import main; main(['list'])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert "socrates-loss[train]" in result.stderr
    assert "Traceback" not in result.stderr


PARTS = Part("digits"), Part("mlp"), Part("socrates", gamma=1.0, alpha=0.9)


@pytest.mark.parametrize(
    "experiment",
    [
        Experiment(*PARTS),
        Experiment(
            *PARTS, seed=4, num_train=100, num_bins=10, keep_every=7, precision="bf16-mixed"
        ),
        Experiment(
            *PARTS,
            optimization=Optimization(
                60, 32, 0.05, 0.1, 0.8, 1e-4, halve_every=5, milestones=(20, 35, 45)
            ),
        ),
        Experiment(*PARTS, optimization=Optimization(106, 16, recipe="one-cycle", clip_norm=1.0)),
        Experiment(*PARTS, optimization=Optimization(106, 16, recipe="one-cycle")),
        Experiment(*PARTS, optimization=Optimization(106, 64, recipe="one-cycle", clip_norm=2.0)),
        Experiment(
            Part("folder:my own images", image_size=32, augment=False),
            Part("cnn", width=8),
            Part("ccl_sc", start_epoch=3, queue_size=30),
        ),
        Experiment(
            Part("cifar100", image_size=224),
            Part("vit_transfer"),
            Part("socrates:no-beta", gamma=2.0),
        ),
    ],
)
def test_the_command_that_repeats_a_run_gives_the_same_experiment(experiment):
    assert experiment_from(*shlex.split(command_of(experiment))[2:]) == resolve(experiment)


def test_an_option_name_belongs_to_one_part_only():
    of_train = {item.name for item in dataclasses.fields(Train)}
    of_models = {option for name in models.MODELS for option in models.options(name)}
    of_methods = {option for name in methods.METHODS for option in methods.options(name)}
    named = [of_train, of_models, of_methods, {"image_size", "augment"}]
    assert len(set().union(*named)) == sum(map(len, named))


def experiment_from(*words):
    options = parse(Train, words, "socrates train")
    return options.named_experiment(options.seed)


@pytest.mark.parametrize(
    ("words", "size"),
    [
        (("cifar100", "vit_transfer"), 224),
        (("folder:mine", "vit_transfer"), 224),
        (("food101", "vit_transfer"), None),
        (("cifar100", "vit_transfer", "--image-size", "64"), 64),
        (("cifar100", "vit"), None),
    ],
)
def test_a_pretrained_model_gets_images_of_its_size(words, size):
    dataset, model, *rest = words
    assert dict(experiment_from(dataset, model, "ce", *rest).dataset.options)["image_size"] == size


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_the_list_is_whole_however_narrow(capsys, monkeypatch, width):
    monkeypatch.setattr(console, "_force_terminal", True)
    monkeypatch.setattr(console, "width", width, raising=False)
    assert cli.main(["list"]) == 0
    text = capsys.readouterr().out
    for words in (
        "folder:PATH",
        "image_size",
        "socrates:no-focal-unknown-no-beta",
        "start_epoch=0",
    ):
        assert words in text
    assert "source=google/vit-base-patch16-224" in text  # longer than a line, and whole
    long = [line for line in text.splitlines() if len(line) > width]
    assert all(line.count("=") == 1 or len(line.split()) == 1 for line in long)


@pytest.mark.usefixtures("few_scalers")
def test_the_command_that_repeats_a_run_is_one_line(run, tmp_path, monkeypatch):
    code, text = run(
        "train", "digits", "mlp", "ce", "--epochs", "1", "--out", tmp_path, "--device", "cpu"
    )
    assert code == 0, text
    directory = next(tmp_path.iterdir())
    monkeypatch.setattr(console, "width", 60, raising=False)
    code, text = run("show", directory)
    assert code == 0
    assert command_of(Run(directory).experiment) in text


def test_help_of_train_tells_of_data(capsys):
    assert cli.main(["train", "--help"]) == 0
    text = re.sub(r"[\s│]+", " ", capsys.readouterr().out)
    for words in ("folder:PATH", "npz:PATH", "--image-size", "--augment"):
        assert words in text


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (
            ("digits", "mlp", "socrates"),
            ("--gamma FLOAT", "--alpha FLOAT", "(default: 0.99)", "how much less easy"),
        ),
        (
            ("digits", "vit", "ccl_sc"),
            ("--queue-size INT", "--momentum FLOAT", "--sgd-momentum", "--mlp-ratio"),
        ),
        (("folder:mine", "cnn", "ce"), ("--width INT", "--image-size", "--augment {true,false}")),
    ],
)
def test_help_shows_the_options_of_what_is_named(capsys, words, shown):
    for command in ("train", "tune"):
        assert cli.main([command, *words, "--help"]) == 0
        text = re.sub(r"[\s│]+", " ", capsys.readouterr().out)
        assert [words for words in shown if words not in text] == []


def test_the_help_of_all_commands_needs_no_torch():
    code = "import sys; from socrates.cli import main; main([]); print('torch' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.endswith("False\n")


def test_the_version_is_printed_without_torch():
    command = [sys.executable, "-X", "importtime", "-m", "socrates.cli", "--version"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0
    assert result.stdout == f"socrates {socrates.__version__}\n"
    imported = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    assert "socrates.cli" in imported
    assert not imported & {"torch", "numpy", "rich", "tyro"}


@pytest.mark.skipif(os.name != "posix", reason="a closed pipe is another error elsewhere")
@pytest.mark.parametrize(
    "words", ["--help", "sweep --help", "train digits mlp socrates --help", "list"]
)
def test_what_nobody_reads_to_its_end_is_no_error(words):
    reader, writer = os.pipe()
    os.close(reader)  # as `head` does when it has enough
    command = [sys.executable, "-m", "socrates.cli", *words.split()]
    result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (result.returncode, result.stderr) == (1, "")


@pytest.mark.parametrize("out", ["o[v2]", "o[/b]x"])
@pytest.mark.usefixtures("few_scalers")
def test_brackets_in_a_path_are_not_markup(run, tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    words = ("train", "digits", "mlp", "ce", "--epochs", "1", "--out", out, "--device", "cpu")
    code, text = run(*words)
    assert code == 0, text
    assert f"finished: {out}/digits-mlp-ce-seed1-" in text
    assert f"nothing to do: {out}/digits-mlp-ce-seed1-" in run(*words)[1]
    code, text = run("show", next(Path(out).iterdir()))
    assert code == 0, text
    assert f"{out}/digits-mlp-ce-seed1-" in text


def test_brackets_in_what_a_report_leaves_out_are_not_markup(capsys):
    skipped = [
        SimpleNamespace(directory=Path("bad[/i]") / str(number), reason="is [bold]")
        for number in range(11)
    ]
    show_written(
        SimpleNamespace(skipped=skipped, num_runs=1, files=[], page=Path("out[v2]/index.html"))
    )
    said = capsys.readouterr()
    assert "left out: bad[/i]/0: is [bold]\n" in said.err
    assert "left out: 1 more" in said.err
    assert "open it: out[v2]/index.html\n" in said.out


@pytest.mark.usefixtures("few_scalers")
def test_show_tells_the_last_epoch_in_a_line(run, tmp_path):
    code, text = run(
        "train", "digits", "mlp", "ce", "--epochs", "1", "--out", tmp_path, "--device", "cpu"
    )
    assert code == 0, text
    code, text = run("show", next(tmp_path.iterdir()))
    assert re.search(
        r"\nepoch 1: loss \d\.\d{4}, val accuracy \d+\.\d\d%, ECE \d+\.\d\d%\n", text
    ), text
    assert "'val_" not in text


@pytest.mark.usefixtures("few_scalers")
def test_again_trains_from_the_start(run, tmp_path):
    words = ("train", "digits", "mlp", "ce", "--epochs", "1", "--out", tmp_path, "--device", "cpu")
    assert "epoch 1/1" in run(*words)[1]
    code, text = run(*words)
    assert code == 0, text
    assert re.search(r"already finished on \d{4}-\d\d-\d\d \d\d:\d\d, nothing to do", text)
    assert "epoch 1/1" in run(*words, "--again")[1]


INTERRUPTED = """
import signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from socrates.cli import main
sys.exit(main(["train", "digits", "mlp", "ce"]))
"""


@pytest.mark.parametrize("module", ["tyro", "torch", "socrates.engine.train"])
def test_ctrl_c_while_importing_is_one_line(module):
    code = INTERRUPTED.format(module=module)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 130
    assert result.stderr == "stopped; the same command continues\n"


def test_what_a_command_says_of_itself_fits_the_terminal(monkeypatch, capsys):
    monkeypatch.setattr(console, "_width", 60)
    monkeypatch.setenv("COLUMNS", "60")
    for words in (
        ["train", "--help"],
        ["reproduce", "--help"],
        ["quickstart", "--help"],
        ["--help"],
    ):
        cli.main(words)
        assert max(len(line) for line in capsys.readouterr().out.splitlines()) <= 60


def test_train_ends_with_its_results_and_show_is_a_page(tmp_path, capsys):
    words = ["digits", "mlp", "socrates", "--epochs", "2", "--num-train", "50", "--width", "8"]
    assert cli.main(["train", *words, "--out", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    (directory,) = tmp_path.iterdir()
    evaluation = Run(directory).evaluation()
    accuracy, ece, chance = (
        100 * evaluation.value("none", "test", "answer", name)
        for name in ("accuracy", "ece", "ece_floor")
    )
    (line,) = (line for line in told.splitlines() if "as trained" in line)
    assert f"accuracy {accuracy:.2f}%, ECE {ece:.2f}%" in line
    assert f"{chance:.2f}%)" in line  # the floor
    assert f"use it: socrates predict {directory} IMAGES" in told
    assert cli.main(["show", str(directory)]) == 0
    told = capsys.readouterr().out
    assert "{" not in told
    assert "mlp: depth 2, width 8" in told
    assert "all four" in told  # readings that agree take one line


def test_a_study_says_that_it_starts_and_its_clock_goes_on(monkeypatch):
    display = StudyDisplay(Console(file=io.StringIO(), force_terminal=True, width=120))
    display.total = 4
    assert display.state() == "0 of 4 runs finished, starting, 0:00:00 elapsed"
    start = display.start
    monkeypatch.setattr("time.monotonic", lambda: start + 36)
    assert "0:00:36 elapsed" in display.progress.columns[-1].render(display.progress.tasks[0]).plain


def test_runs_behind_links_are_found_once(tmp_path):
    run = tmp_path / "real" / "run"
    run.mkdir(parents=True)
    (run / "experiment.json").touch()
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "one").symlink_to(run)
    (tmp_path / "links" / "up").symlink_to(tmp_path)
    assert len(find_runs(tmp_path / "links")) == 1
    assert find_runs(tmp_path / "links" / "one") == [tmp_path / "links" / "one"]
