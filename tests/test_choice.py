"""What `socrates train DATASET` chooses, and what it says of a long training."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from socrates.cli import main
from socrates.cli.choice import BUDGET, choose
from socrates.cli.commands import Train, Tune
from socrates.cli.options import parse, with_all_names
from socrates.cli.waiting import LONG, shortcuts
from socrates.engine.events import Started
from socrates.engine.studies.forecast import model_size
from socrates.experiment import Experiment, Optimization, Part
from socrates.optimization import one_cycle
from socrates.records import Run


def write_photos(folder: Path, count: int, side: int) -> str:
    for number in range(count):
        place = folder / ("cat", "dog")[number % 2] / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (side, side + 3), (number % 256, 0, 0)).save(place)
    return f"folder:{folder}"


@pytest.mark.parametrize(("side", "sizes"), [(300, {48, 64, 96}), (40, {32}), (20, {20})])
def test_size_fits_the_time(tmp_path: Path, side: int, sizes: set[int]) -> None:
    choice = choose(write_photos(tmp_path / "photos", 60, side), "", "", None)
    size = choice.options["dataset"]["image_size"]
    assert size in sizes
    assert choice.names["method"] == "socrates"
    settings = one_cycle(43)
    flops = model_size(Part(choice.names["model"]), (3, size, size), 10)[2]
    assert 43 * settings.epochs * flops <= BUDGET
    assert len(choice.reasons) == 2


def test_arrays_are_chosen_for_by_their_header(tmp_path: Path) -> None:
    for number, shape in enumerate([(40, 90, 100), (40, 90, 100, 3), (40, 3, 90, 100)]):
        path = tmp_path / f"{number}.npz"
        np.savez(path, images=np.zeros(shape, np.uint8), labels=np.arange(40) % 2)
        chosen = choose(f"npz:{path}", "", "", None)
        assert 32 <= chosen.options["dataset"]["image_size"] <= 90


def test_large_data_get_the_smaller_network() -> None:
    assert choose("cifar10", "", "", None).names["model"] == "cnn"
    assert choose("digits", "", "", None).names["model"] == "mlp"


def test_explicit_choices_stay() -> None:
    choice = choose("digits", "cnn", "focal", None)
    assert choice.names == {"dataset": "digits", "model": "cnn", "method": "focal"}
    assert not choice.reasons
    assert not choice.options


def test_single_word_may_be_the_method() -> None:
    assert choose("digits", "ce", "", None).names["method"] == "ce"
    assert choose("digits", "cnn", "", None).names["method"] == "socrates"


def test_explicit_image_size_wins(tmp_path: Path) -> None:
    dataset = write_photos(tmp_path / "photos", 20, 100)
    options = parse(Train, [dataset, "--image-size", "24", "--gamma", "3"], "socrates train")
    experiment = options.named_experiment(1)
    assert dict(experiment.dataset.options)["image_size"] == 24
    assert dict(experiment.method.options)["gamma"] == 3.0


def test_values_of_options_are_not_taken_for_names() -> None:
    assert with_all_names(Train, ["digits", "--gamma", "2"]) == ["digits", "", "", "--gamma", "2"]
    assert with_all_names(Train, ["--seed", "2", "digits"]) == ["--seed", "2", "digits", "", ""]
    assert with_all_names(Tune, ["digits", "mlp"]) == ["digits", "mlp"]


def test_backbone_and_another_model_are_refused() -> None:
    with pytest.raises(ValueError, match="resnet20"):
        choose("digits", "resnet20", "ce", "somewhere")


def test_other_data_need_a_model() -> None:
    with pytest.raises(ValueError, match="name a model"):
        choose("socrates.data:load_digits", "", "", None)
    with pytest.raises(ValueError, match="did you mean 'digits'"):
        choose("digit", "", "", None)


def test_train_alone_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = write_photos(tmp_path / "photos", 20, 20)
    words = ["--epochs", "1", "--out", str(tmp_path / "runs"), "--data", str(tmp_path)]
    assert main(["train", dataset, *words]) == 0
    text = capsys.readouterr().out
    assert "model resnet20 at 20 x 20 pixels" in text
    assert "method socrates" in text
    # the same command continues, or finds, the same run
    assert main(["train", dataset, *words]) == 0
    assert len(list((tmp_path / "runs").iterdir())) == 1


def started(tmp_path: Path, model: str, side: int, factor: float = 1.0) -> Started:
    optimization = Optimization(epochs=10, recipe="one-cycle", backbone_factor=factor)
    parts = Part("folder:photos"), Part(model), Part("socrates")
    experiment = Experiment(*parts, optimization=optimization)
    run = Run.create(tmp_path, experiment)
    return Started(experiment, run, 0, 5, "", math.nan, (3, side, side))


def test_long_training_names_what_shortens_it(tmp_path: Path) -> None:
    first, second = shortcuts(started(tmp_path, "resnet34", 224), 4 * LONG)[:2]
    assert "--image-size 96" in first  # 4 x 15 minutes x (96 / 224)^2 is 11:01
    assert "0:11:01" in first
    assert "--minutes" in second
    first, second = shortcuts(started(tmp_path, "cnn", 32), 2 * LONG)[:2]
    assert "--minutes" in first
    assert "--backbone" in second
    first, second = shortcuts(started(tmp_path, "backbone", 224, 0.1), 2 * LONG)[:2]
    assert "--finetune" in first
    assert "--minutes" in second


def test_hint_is_printed_above_the_limit_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from socrates.cli.output import console
    from socrates.cli.waiting import TimeHint

    event = started(tmp_path, "resnet34", 224)
    hint = TimeHint(console)
    hint(replace(event, seconds_per_epoch=LONG / 10))
    assert capsys.readouterr().out == ""
    hint(replace(event, seconds_per_epoch=LONG / 9))
    assert "--image-size" in capsys.readouterr().out
