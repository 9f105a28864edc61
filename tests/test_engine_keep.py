"""The model that a run ends with: what is kept, of which epoch, what it may promise, and where
training started."""

from __future__ import annotations

import importlib
import json
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from scaling_cases import sampled, with_unknown

import socrates
from socrates import data
from socrates.abstention import certify
from socrates.cli import runs as cli_runs
from socrates.cli import studies as cli_studies
from socrates.cli.commands import COMMANDS
from socrates.cli.options import parse
from socrates.engine import run_all, train
from socrates.engine.build import WARM_UP, learning_rate, make_optimizer
from socrates.engine.display import plan
from socrates.engine.evaluate import SCALER_OPTIONS, evaluate_fitted
from socrates.engine.events import Event, Started, Stepped, Tell
from socrates.engine.keep import choose_scaler, reserve
from socrates.engine.pace import seconds_per_epoch
from socrates.engine.train import build, make_fabric
from socrates.experiment import (
    CHOICES,
    Experiment,
    Optimization,
    Part,
    usual_optimization,
)
from socrates.metrics import predict
from socrates.optimization import FEWEST_STEPS
from socrates.predictor import read_file, weights_hash
from socrates.records import EpochRecord, Evaluation, Run, best_epoch
from socrates.scaling import SCALERS, TemperatureScaling
from socrates.scaling.choice import Unscaled

CYCLE = Optimization(epochs=5, batch_size=32, recipe="one-cycle")
# so that the last epoch is not the best
WILD = Optimization(epochs=6, batch_size=64, learning_rate=0.3)
COLOURS = {"blue": (60, 80, 150), "green": (70, 130, 90), "red": (140, 80, 70)}
engine, evaluation_module = (
    importlib.import_module(f"socrates.engine.{name}") for name in ("train", "evaluate")
)


def digits(method: str = "ce", settings: Optimization = CYCLE, **changed: Any) -> Experiment:
    made = Experiment(
        Part("digits"), Part("mlp", width=16), Part(method), optimization=settings, keep_every=100
    )
    return replace(made, **changed)


def paint(
    root: Path, counts: dict[str, int], colours: dict[str, tuple[int, ...]], mode: str = "RGB"
) -> Path:
    """Noisy pictures that a small model mostly tells apart."""
    random = np.random.default_rng(0)
    for part, count in counts.items():
        for name, colour in colours.items():
            (root / part / name).mkdir(parents=True)
            for number in range(count):
                noisy = (
                    np.array(colour) + random.normal(0, 60, (10, 12, 3)) + random.normal(0, 25, 3)
                )
                image = Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).convert(mode)
                image.save(root / part / name / f"{number:03d}.png")
    return root


def folder_of(path: Path, method: str = "ce", model: str = "cnn", **changed: Any) -> Experiment:
    made = Experiment(
        Part(f"folder:{path}", image_size=8), Part(model, width=4), Part(method), keep_every=100
    )
    return replace(made, **{"optimization": replace(CYCLE, epochs=3), **changed})


def trained(experiment: Experiment, out: Path, **options: Any) -> Run:
    return train(experiment, out, accelerator="cpu", **options)


def test_images(experiment: Experiment) -> tuple[torch.Tensor, torch.Tensor]:
    split = data.load(experiment.dataset.name, **dict(experiment.dataset.options)).test
    return split.images, split.labels  # type: ignore[attr-defined]


test_images.__test__ = False  # type: ignore[attr-defined]


def stop_at(wanted: Event) -> Tell:
    """Ctrl-C at that moment."""

    def tell(event: Event) -> None:
        if event == wanted:
            raise KeyboardInterrupt

    return tell


def contents(run: Run) -> dict[str, Any]:
    """Every file of a run, without times."""
    found: dict[str, Any] = {}
    for path in sorted(path for path in run.directory.rglob("*") if path.is_file()):
        found[str(path.relative_to(run.directory))] = path.read_bytes()
    found["epochs.jsonl"] = [{**record.to_json(), "seconds": 0} for record in run.epochs()]
    found["finished.json"] = {**run.summary(), "finished": ""}
    return found


@pytest.fixture(autouse=True)
def checkpoint_every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socrates.engine.saving.SECONDS_BETWEEN_CHECKPOINTS", -1.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return paint(tmp_path_factory.mktemp("images"), {"train": 20, "val": 20, "test": 12}, COLOURS)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> dict[str, Run]:
    """Finished runs that keep their models."""
    out = tmp_path_factory.mktemp("runs")
    wanted = {f"digits {method}": digits(method) for method in ("ce", "socrates")}
    wanted |= {f"folder {method}": folder_of(folder, method) for method in ("ce", "socrates")}
    return {name: trained(experiment, out) for name, experiment in wanted.items()}


# What is kept


@pytest.mark.parametrize("name", ["digits ce", "digits socrates", "folder ce", "folder socrates"])
def test_the_loaded_model_gives_the_probabilities_of_the_saved_logits(
    kept: dict[str, Run], name: str
) -> None:
    run = kept[name]
    predictor = socrates.load(run.directory)
    unknown = name.endswith("socrates")
    assert predictor.about.scaler in ("none", "readout" if unknown else "temperature")
    assert predictor.about.reading == ("spread" if unknown else None)
    assert predictor.about.facts["scaler"] == run.summary()["scaler"]
    assert predictor.about.epoch == run.experiment.optimization.epochs == run.chosen_epoch()
    images, labels = test_images(run.experiment)
    stored = run.predictions("test", predictor.about.epoch)
    assert stored.labels.tolist() == labels.tolist()
    val = run.predictions("val", predictor.about.epoch)
    scaler = Unscaled() if predictor.about.scaler == "none" else SCALERS[predictor.about.scaler]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a limit without optimum is a result, as in `evaluate`
        scaler.fit(torch.tensor(val.logits), torch.tensor(val.labels).long(), unknown_class=unknown)
    expected = predict(scaler(torch.tensor(stored.logits)), predictor.about.reading).probs
    found = predictor.predict(images)
    assert isinstance(found.probs, torch.Tensor)
    torch.testing.assert_close(found.probs, torch.as_tensor(expected), rtol=0, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(predictor(images[:7]), found.probs[:7], rtol=0, atol=1e-5)
    reading = predictor.about.reading or "plain"
    accuracy = float((torch.as_tensor(found.predicted) == labels).float().mean())
    assert accuracy == pytest.approx(
        run.evaluation().value(predictor.about.scaler, "test", reading, "accuracy")
    )


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("true_t", [1.0, 3.0])
def test_a_scaler_is_applied_only_where_validation_says_that_it_helps(
    tmp_path: Path, unknown: bool, true_t: float
) -> None:
    logits, labels = with_unknown(600, 4, true_t, 0.0) if unknown else sampled(600, 4, true_t)
    run = Run.create(tmp_path, digits("socrates" if unknown else "ce"))
    run.save_predictions("val", 1, logits.numpy(), labels.numpy(), 4)
    name = "readout" if unknown else "temperature"
    scaler = SCALERS[name]().fit(logits, labels, unknown_class=unknown)
    found = choose_scaler(run, Evaluation(1, 15, unknown, {}), {name: scaler})
    assert found.name == ("none" if true_t == 1 else name)
    assert "NLL" in found.reason
    assert choose_scaler(run, Evaluation(1, 15, unknown, {}), {}).name == "none"
    run.save_predictions("val", 1, logits[:9].numpy(), labels[:9].numpy(), 4)
    few = choose_scaler(run, Evaluation(1, 15, unknown, {}), {name: scaler})
    assert few.name == "none"
    assert "9 " in few.reason


@pytest.mark.parametrize("name", ["digits ce", "folder socrates"])
def test_every_scaler_is_kept_with_all_its_parameters(kept: dict[str, Run], name: str) -> None:
    run = kept[name]
    unknown = name.endswith("socrates")
    predictor, val = socrates.load(run.directory), run.predictions("val", run.chosen_epoch())
    refused = {"beta", "isotonic"} if unknown else {"beta", "readout"}  # neither has two classes
    assert set(predictor.scalers) == set(SCALERS) - refused
    evaluated = {name for name in predictor.scalers if SCALERS[name].usual}
    assert set(run.evaluation().scalers) == {"none"} | evaluated
    for scaler_name in predictor.scalers:
        chosen = socrates.load(run.directory, scaler=scaler_name)
        torch.testing.assert_close(
            chosen.scaled(torch.tensor(val.logits)),
            predictor.scalers[scaler_name](torch.tensor(val.logits)),
        )
    for scaler_name, kept_one in predictor.scalers.items():
        fresh = SCALERS[scaler_name](**SCALER_OPTIONS.get(scaler_name, {}))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fresh.fit(
                torch.tensor(val.logits), torch.tensor(val.labels).long(), unknown_class=unknown
            )
        assert set(kept_one.state_dict()) == set(fresh.state_dict()) != set()
        for key, value in fresh.state_dict().items():
            assert torch.equal(kept_one.state_dict()[key], value), (scaler_name, key)


def test_what_a_model_was_trained_on_travels_with_it(kept: dict[str, Run]) -> None:
    predictor = socrates.load(kept["folder ce"].directory)
    assert predictor.classes == ("blue", "green", "red")
    assert predictor.about.image_shape == (3, 8, 8)
    assert predictor.about.facts["images"] == "60 train, 60 val, 36 test"
    assert predictor.about.facts["method"] == "ce"
    assert (
        predictor.about.preparation == data.load(**named(kept["folder ce"].experiment)).preparation
    )
    assert len(predictor.seen) == 120  # what trained it and fitted its scalers, not what tested it


def named(experiment: Experiment) -> dict[str, Any]:
    return {"name": experiment.dataset.name, **dict(experiment.dataset.options)}


def test_weights_in_half_precision_or_none(kept: dict[str, Run], tmp_path: Path) -> None:
    whole = kept["digits ce"]
    half = trained(whole.experiment, tmp_path / "half", keep_weights="half")
    tensors = load_file(half.directory / "model.safetensors")
    assert {value.dtype for key, value in tensors.items() if key.startswith("model.")} == {
        torch.float16
    }
    images, _ = test_images(whole.experiment)
    first, second = (socrates.load(run.directory).predict(images).probs for run in (whole, half))
    torch.testing.assert_close(torch.as_tensor(first), torch.as_tensor(second), rtol=0, atol=0.02)
    assert not torch.equal(torch.as_tensor(first), torch.as_tensor(second))

    none = trained(whole.experiment, tmp_path / "none", keep_weights="none")
    assert none.finished
    assert not (none.directory / "model.safetensors").exists()
    about, scalers = read_file(none.directory / "scalers.safetensors")
    assert about == replace(socrates.load(whole.directory).about, novelty=None)
    assert {key: value.tolist() for key, value in scalers.items()} == {
        key: value.tolist()
        for key, value in load_file(whole.directory / "model.safetensors").items()
        if key.startswith("scalers.")
    }
    with pytest.raises(ValueError, match="again=True") as caught:
        socrates.load(none.directory)
    assert "\n" not in str(caught.value)
    again = trained(whole.experiment, tmp_path / "none", again=True)
    assert replace(socrates.load(again.directory).about, novelty=None) == about
    assert not (again.directory / "scalers.safetensors").exists()


@pytest.mark.usefixtures("few_scalers")
def test_the_command_line_says_that_a_finished_run_has_no_weights(run: Any, tmp_path: Path) -> None:
    words = [
        "train",
        "digits",
        "mlp",
        "ce",
        "--epochs",
        1,
        "--width",
        8,
        "--device",
        "cpu",
        "--out",
        tmp_path,
    ]
    assert run(*words, "--no-keep-weights")[0] == 0
    directory = next(tmp_path.iterdir())
    assert not (directory / "model.safetensors").exists()
    code, told = run(*words)
    assert code == 0
    assert "already finished" in told
    assert "--again" in told
    code, told = run(*words, "--again", "--keep-weights", "half")
    assert code == 0
    assert f"socrates predict {directory} " in told
    assert socrates.load(directory).classes[3] == "3"


def test_studies_keep_no_weights_unless_told(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one,) = run_all([digits(settings=replace(CYCLE, epochs=1))], tmp_path / "study", processes=1)
    assert [path.name for path in one.directory.glob("*.safetensors")] == ["scalers.safetensors"]
    asked: list[str] = []
    monkeypatch.setattr(cli_studies, "run_all", lambda *_, **how: asked.append(how["keep_weights"]))
    words = ["sweep", "--methods", "ce", "--seeds", 1, "--out", tmp_path]
    assert "--keep-weights full" in run(*words)[1]
    assert "--keep-weights" not in run(*words, "--keep-weights", "half")[1]
    assert asked == ["none", "half"]


def test_a_run_that_diverged_is_finished_and_keeps_what_there_is(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run = trained(
            digits(settings=replace(CYCLE, learning_rate=1e30), certify=0.2),
            tmp_path,
            on_nan="collapse",
        )
    assert run.summary()["collapsed"] == "the logits are not finite"
    assert any("the model has no certificate" in str(one.message) for one in told)
    predictor = socrates.load(run.directory)
    assert (predictor.about.scaler, len(predictor.scalers)) == ("none", 0)
    assert (run.directory / "finished.json").is_file()


# Which epoch is kept


@pytest.fixture(scope="module")
def every_epoch(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The same training with all logits kept, to compare with."""
    return trained(
        digits(settings=WILD, keep_every=1), tmp_path_factory.mktemp("every"), keep_weights="none"
    )


def best_by_hand(run: Run, rule: str) -> int:
    """The epoch with the best value of a number that is computed from the kept logits."""
    values: dict[int, float] = {}
    for epoch in run.kept_epochs():
        stored = run.predictions("val", epoch)
        logits, labels = torch.tensor(stored.logits), torch.tensor(stored.labels).long()
        if rule == "refinement":
            logits = TemperatureScaling().fit(logits, labels)(logits)
        if rule == "accuracy":
            values[epoch] = -float((logits.argmax(dim=1) == labels).float().mean())
        elif rule == "ece":
            values[epoch] = socrates.metrics.ece(predict(logits), labels, 15)
        else:
            values[epoch] = float(torch.nn.functional.cross_entropy(logits, labels))
    return run.kept_epochs()[-1] if rule == "last" else min(values, key=lambda epoch: values[epoch])


@pytest.mark.parametrize("rule", list(CHOICES))
@pytest.mark.usefixtures("few_scalers")
def test_the_chosen_epoch_is_evaluated_kept_and_told(
    every_epoch: Run, tmp_path: Path, rule: str
) -> None:
    run = trained(digits(settings=WILD, choose=rule), tmp_path)
    chosen = best_by_hand(every_epoch, rule)
    assert chosen == best_epoch(run.epochs(), rule) == run.chosen_epoch() == run.summary()["epoch"]
    assert run.kept_epochs() == sorted({chosen, WILD.epochs})
    assert run.evaluation().epoch == chosen
    for split in ("val", "test"):
        mine, theirs = (one.predictions(split, chosen).logits for one in (run, every_epoch))
        np.testing.assert_array_equal(mine, theirs)
    predictor = socrates.load(run.directory)
    assert predictor.about.epoch == chosen
    images, _ = test_images(run.experiment)
    logits = run.predictions("test", chosen).logits
    np.testing.assert_allclose(
        predictor.logits(images).numpy(), logits, rtol=0, atol=1e-5 * abs(logits).max()
    )
    assert predictor.about.facts["epoch chosen by"] == rule


def test_the_rules_have_something_to_choose(every_epoch: Run) -> None:
    chosen = {rule: best_by_hand(every_epoch, rule) for rule in CHOICES}
    assert chosen["last"] == WILD.epochs
    assert len(set(chosen.values())) >= 3, chosen  # or the test above would tell little


@pytest.mark.usefixtures("few_scalers")
def test_evaluate_takes_the_chosen_epoch(run: Any, every_epoch: Run, tmp_path: Path) -> None:
    made = trained(digits(settings=WILD, choose="nll"), tmp_path)
    chosen, before = made.chosen_epoch(), (made.directory / "evaluation.json").read_text()
    assert chosen != WILD.epochs
    code, told = run("evaluate", made.directory)
    assert code == 0
    assert f"test set, epoch {chosen}" in told
    assert (made.directory / "evaluation.json").read_text() == before
    code, told = run("evaluate", made.directory, "--epoch", WILD.epochs)
    assert code == 0
    assert f"evaluation-{WILD.epochs:04d}.json" in told
    assert (made.directory / "evaluation.json").read_text() == before


@pytest.mark.parametrize("rule", ["last", "nll"])
@pytest.mark.usefixtures("few_scalers")
def test_a_stopped_run_ends_in_the_same_files(
    every_epoch: Run, tmp_path: Path, monkeypatch: Any, rule: str
) -> None:
    experiment = digits(settings=WILD, choose=rule)
    whole = trained(experiment, tmp_path / "whole")
    chosen = whole.chosen_epoch()
    # before, and after, what is chosen
    for number, epoch in enumerate((chosen - 1, min(chosen, WILD.epochs - 1))):
        out = tmp_path / f"stopped{number}"
        with pytest.raises(KeyboardInterrupt):
            trained(experiment, out, tell=stop_at(Stepped(epoch, 1)))
        assert len(Run.create(out, experiment).epochs()) == epoch
        assert contents(trained(experiment, out)) == contents(whole)
    with monkeypatch.context() as patch:
        patch.setattr(engine, "keep_model", stop)
        with pytest.raises(KeyboardInterrupt):
            trained(experiment, tmp_path / "late")
    late = Run.create(tmp_path / "late", experiment)
    assert not late.finished
    assert late.chosen_epoch() == chosen
    assert contents(trained(experiment, tmp_path / "late")) == contents(whole)


def stop(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("few_scalers")
def test_a_collapsed_epoch_is_never_chosen(
    every_epoch: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = best_by_hand(every_epoch, "nll")
    others = [record for record in every_epoch.epochs() if record.epoch != best]
    second = min(others, key=lambda record: record.value("val_nll")).epoch
    answers = iter("made up" if epoch == best else None for epoch in range(1, WILD.epochs + 1))
    monkeypatch.setattr(evaluation_module, "collapse", lambda *_: next(answers))
    run = trained(digits(settings=WILD, choose="nll"), tmp_path)
    assert run.epochs()[best - 1].collapsed == "made up"
    assert run.chosen_epoch() == run.evaluation().epoch == second != best
    assert run.summary()["collapsed"] is None
    expected = every_epoch.predictions("test", second).logits
    np.testing.assert_array_equal(run.predictions("test", second).logits, expected)


def test_the_rule_itself() -> None:
    records = [
        EpochRecord(1, {"val_accuracy": 0.5, "val_nll": 0.9}),
        EpochRecord(2, {"val_accuracy": 0.9}),
    ]
    records += [
        EpochRecord(3, {"val_accuracy": 0.9, "val_nll": 0.9}),
        EpochRecord(4, {"val_accuracy": 1.0}, "same"),
    ]
    assert best_epoch(records, "accuracy") == 2  # the first of equals, and none that collapsed
    assert best_epoch(records, "nll") == 1
    assert best_epoch(records, "ece") == 4  # nothing to choose by: the last
    assert best_epoch(records, "last") == 4
    collapsed = [replace(record, collapsed="same") for record in records]
    assert best_epoch(collapsed, "accuracy") == 4
    with pytest.raises(ValueError, match=r"choose .*'best'"):
        digits(choose="best")


def test_logits_without_records_are_evaluated(tmp_path: Path) -> None:
    """Such as those of an earlier attempt, when somebody deleted the rest to train anew."""
    run = trained(digits(choose="nll"), tmp_path)
    for name in ("finished.json", "epochs.jsonl"):
        (run.directory / name).unlink()
    assert run.chosen_epoch() == CYCLE.epochs
    assert evaluate_fitted(run)[0].epoch == CYCLE.epochs


# The recipe


def test_one_cycle_is_a_pure_function() -> None:
    settings = Optimization(epochs=40, learning_rate=0.2, recipe="one-cycle")
    top = WARM_UP * 40
    rates = [learning_rate(epoch, settings) for epoch in np.linspace(0, 40, 401)]
    assert rates[0] == 0
    assert rates[-1] == pytest.approx(0, abs=1e-12)
    assert learning_rate(top, settings) == max(rates) == pytest.approx(0.2)
    assert learning_rate(top / 2, settings) == pytest.approx(0.1)
    assert learning_rate((top + 40) / 2, settings) == pytest.approx(0.1)
    assert np.all(np.diff(rates[:81]) > 0)
    assert np.all(np.diff(rates[80:]) < 0)
    longer = replace(settings, epochs=80)
    assert learning_rate(30.5, longer) == pytest.approx(learning_rate(15.25, settings))


def test_one_cycle_has_nesterov_momentum() -> None:
    model = torch.nn.Linear(2, 2)
    assert make_optimizer(model, CYCLE).defaults["nesterov"]
    assert not make_optimizer(model, replace(CYCLE, momentum=0.0)).defaults["nesterov"]
    assert not make_optimizer(model, Optimization()).defaults["nesterov"]


@pytest.mark.usefixtures("few_scalers")
def test_one_cycle_goes_on_in_the_middle_of_its_rise_and_of_its_fall(
    folder: Path, tmp_path: Path
) -> None:
    experiment = folder_of(folder, optimization=replace(CYCLE, epochs=10, batch_size=16))
    whole = trained(experiment, tmp_path / "whole")
    for epoch in (1, 6):
        with pytest.raises(KeyboardInterrupt):
            trained(experiment, tmp_path / "stopped", tell=stop_at(Stepped(epoch, 1)))
    assert contents(trained(experiment, tmp_path / "stopped")) == contents(whole)
    rates = [record.value("rate") for record in whole.epochs()]
    assert rates == [learning_rate(epoch + 0.5, experiment.optimization) for epoch in range(10)]


def options_of(*words: Any) -> Any:
    return parse(COMMANDS["train"][0], [str(word) for word in words], "socrates train")


def test_which_recipe_is_used(folder: Path) -> None:
    def settings(*words: Any) -> Optimization:
        return options_of(*words).named_experiment(1).optimization

    assert settings("digits", "mlp", "ce").recipe == "one-cycle"
    assert settings("cifar10", "cnn", "ce", "--epochs", 24) == Optimization(
        24, 64, recipe="one-cycle"
    )
    halved = settings("digits", "mlp", "ce", "--halve-every", 10, "--epochs", 30)
    assert halved == Optimization(30, 128, halve_every=10, recipe="paper")
    assert settings("digits", "mlp", "ce", "--milestones", 3, 6).recipe == "paper"
    assert settings("digits", "mlp", "ce", "--recipe", "paper") == Optimization()
    assert settings("cifar100", "vgg16", "ce") == Optimization()
    assert settings("cifar100", "vgg16", "ce", "--recipe", "one-cycle").recipe == "one-cycle"
    assert settings(f"folder:{folder}", "vgg16", "ce") == Optimization(
        500, 16, recipe="one-cycle", clip_norm=1.0
    )
    transfer = settings("cifar100", "vit_transfer", "ce")
    assert (transfer.recipe, transfer.milestones, transfer.epochs) == ("paper", (20, 35, 45), 50)
    cycle = settings("cifar100", "vit_transfer", "ce", "--recipe", "one-cycle")
    assert (cycle.recipe, cycle.milestones, cycle.backbone_factor) == ("one-cycle", (), 0.1)
    with pytest.raises(ValueError, match="recipe paper"):
        settings("digits", "mlp", "ce", "--recipe", "one-cycle", "--halve-every", 10)
    with pytest.raises(ValueError, match=r"recipe .*'two'"):
        Optimization(recipe="two")


@pytest.mark.parametrize("images", [12, 100, 511, 512, 2_047, 2_048, 8_000, 6_400, 60_000])
def test_one_cycle_is_long_enough_for_the_number_of_images(images: int) -> None:
    made = usual_optimization("folder:mine", "resnet34", "socrates", num_images=images)
    steps = made.epochs * -(-images // made.batch_size)
    assert made.recipe == "one-cycle"
    assert steps >= FEWEST_STEPS
    assert made.epochs == 20 or steps < FEWEST_STEPS + -(-images // made.batch_size)


def test_images_of_ones_own_are_counted_before_they_are_loaded(
    tmp_path: Path, folder: Path
) -> None:
    x, y = np.zeros((700, 4, 4), np.uint8), np.arange(700) % 2
    np.savez(tmp_path / "whole.npz", images=x, labels=y)
    np.savez(
        tmp_path / "parts.npz",
        x_train=x,
        y_train=y,
        x_test=x[:8],
        y_test=y[:8],
        x_val=x[:8],
        y_val=y[:8],
    )
    plain = paint(tmp_path / "plain", {"": 20}, COLOURS)
    for name in (
        f"npz:{tmp_path / 'whole.npz'}",
        f"npz:{tmp_path / 'parts.npz'}",
        f"folder:{folder}",
        f"folder:{plain}",
    ):
        assert data.num_training_images(name) == len(data.load(name).train), name
    (tmp_path / "broken.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:200])
    (tmp_path / "text.npz").write_text("no archive")
    with (tmp_path / "one.npz").open("wb") as file:
        np.save(file, y)
    for name in ("broken", "text", "one", "absent"):
        assert data.num_training_images(f"npz:{tmp_path / name}.npz") is None


def test_data_that_cannot_be_counted_are_one_line(run: Any, tmp_path: Path) -> None:
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 and no more")
    code, told = run(
        "train",
        f"npz:{tmp_path / 'broken.npz'}",
        "mlp",
        "ce",
        "--device",
        "cpu",
        "--out",
        tmp_path / "runs",
    )
    assert code == 1
    assert told.count("\n") == 1
    assert re.search(r"broken\.npz: .*savez", told)
    assert not (tmp_path / "runs").exists()


def test_what_decides_numbers_is_in_the_name() -> None:
    usual = Experiment(Part("digits"), Part("mlp"), Part("focal"))
    assert usual.name == "digits-mlp-focal-seed1-2efc9a26"
    changed = [
        replace(usual, choose="nll"),
        replace(usual, certify=0.1),
        replace(usual, start="5f"),
    ]
    changed += [replace(usual, optimization=Optimization(recipe="one-cycle"))]
    assert len({one.name for one in (usual, *changed)}) == 5
    for one in changed:
        assert Experiment.from_json(json.loads(json.dumps(one.to_json()))) == one
    plain = usual.to_json()
    del plain["seed"]
    with pytest.raises(ValueError, match=r"\['seed'\]"):
        Experiment.from_json(plain)


# What it may promise


def test_half_of_the_validation_data_is_held_back(tmp_path: Path) -> None:
    loaded = data.load("digits")
    splits, reserved = reserve(loaded, 0.05)
    assert reserved is not None
    assert (len(splits.val), len(reserved), len(splits.train), len(splits.test)) == (
        150,
        150,
        300,
        1197,
    )
    both = torch.cat([splits.val.images, reserved.images])  # type: ignore[attr-defined]
    rows = [sorted(map(tuple, images.flatten(1).tolist())) for images in (both, loaded.val.images)]  # type: ignore[attr-defined]
    assert rows[0] == rows[1]  # every image once
    assert torch.bincount(reserved.labels).tolist() == pytest.approx([15] * 10, abs=2)
    assert reserve(loaded, None) == (loaded, None)


@pytest.mark.usefixtures("few_scalers")
def test_a_certificate_is_made_from_what_nothing_else_has_seen(tmp_path: Path) -> None:
    experiment = digits("socrates", certify=0.2, settings=replace(CYCLE, epochs=10))
    run = trained(experiment, tmp_path)
    predictor = socrates.load(run.directory)
    splits, reserved = reserve(data.load("digits"), 0.2)
    assert reserved is not None
    stored = run.predictions("val", 10)
    # what fits the scalers, and chooses
    assert stored.labels.tolist() == splits.val.labels.tolist()
    fresh = SCALERS["readout"]().fit(
        torch.tensor(stored.logits), torch.tensor(stored.labels).long(), unknown_class=True
    )
    for key, value in fresh.state_dict().items():
        assert torch.equal(predictor.scalers["readout"].state_dict()[key], value)
    images, labels = reserved.images, reserved.labels  # type: ignore[attr-defined]
    found = predictor.predict(images)
    assert found.novelty is not None
    familiar = torch.as_tensor(found.novelty) <= 0.95
    correct = torch.as_tensor(found.predicted) == labels
    expected = certify(torch.as_tensor(found.confidence)[familiar], correct[familiar], 0.2)
    assert predictor.certificate is not None
    made, wanted = predictor.certificate.thresholds[0], expected.thresholds[0]
    assert replace(made, value=0.0) == replace(wanted, value=0.0, num_samples=len(labels))
    assert predictor.certificate.threshold == pytest.approx(expected.threshold, abs=1e-6)
    assert int(torch.as_tensor(found.answered).sum()) == predictor.certificate.num_accepted
    assert len(predictor.seen) == 300 + 150
    copy = predictor.save(tmp_path / "copy")
    assert socrates.load(copy).certificate == predictor.certificate
    assert run.directory.name != digits("socrates", settings=replace(CYCLE, epochs=10)).name
    assert contents(trained(experiment, tmp_path / "again")) == contents(run)


def test_too_few_images_to_certify_are_told_before_training(
    run: Any, folder: Path, tmp_path: Path
) -> None:
    words = [
        "train",
        f"folder:{folder}",
        "cnn",
        "ce",
        "--image-size",
        8,
        "--device",
        "cpu",
        "--out",
        tmp_path / "runs",
    ]
    code, told = run(*words, "--certify", 0.05)
    assert code == 1
    assert told.count("\n") == 1
    assert re.search(r"\b0\.05 .*\b45 .*\b60\b", told)
    assert not (tmp_path / "runs").exists()
    code, told = run(*words, "--certify", 1.5)
    assert code == 1
    assert re.search(r"certify .*\b1\.5$", told.strip())


@pytest.mark.usefixtures("few_scalers")
def test_what_cannot_be_certified_is_a_warning(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"certificate: .*0\.05"):
        run = trained(
            digits(certify=0.05, settings=replace(CYCLE, epochs=1, learning_rate=1e-6)), tmp_path
        )
    assert run.finished
    assert socrates.load(run.directory).certificate is None


# Where training starts


def begins(source: Run, dataset: str | Path = "digits", **changed: Any) -> Experiment:
    """An experiment that starts from the weights of a run."""
    of = source.experiment
    name = dataset if isinstance(dataset, str) else f"folder:{dataset}"
    part = Part(name, **dict(of.dataset.options)) if name.startswith("folder:") else Part(name)
    file = source.directory / "model.safetensors"
    start = weights_hash(read_file(file)[1]) if file.is_file() else "0"
    settings = changed.pop("settings", replace(CYCLE, epochs=2))
    return replace(of, dataset=part, optimization=settings, start=start, **changed)


def weights_of(run: Run) -> dict[str, torch.Tensor]:
    return socrates.load(run.directory).model.state_dict()


@pytest.fixture(scope="module")
def two_colours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    few = {"warm": (150, 90, 60), "cold": (60, 110, 150)}
    return paint(tmp_path_factory.mktemp("two"), {"train": 12, "val": 12, "test": 6}, few)


def test_frozen_training_changes_nothing_but_the_head(
    kept: dict[str, Run], two_colours: Path, tmp_path: Path
) -> None:
    source = kept["folder ce"]
    frozen = begins(source, two_colours, settings=replace(CYCLE, epochs=2, backbone_factor=0.0))
    run = trained(frozen, tmp_path, start=source.directory)
    before, after = weights_of(source), weights_of(run)
    assert set(before) == set(after)
    assert any("running_mean" in key for key in before)
    for key, value in after.items():
        if not key.startswith("head."):
            assert torch.equal(before[key], value), key
    assert after["head.weight"].shape[0] == 2
    splits = data.load(**named(frozen))
    untrained = build(
        frozen, splits, make_fabric("cpu", "32-true"), source.directory / "model.safetensors"
    ).model
    assert not torch.equal(untrained.state_dict()["head.weight"], after["head.weight"])
    with pytest.raises(KeyboardInterrupt):
        trained(frozen, tmp_path / "stopped", start=source.directory, tell=stop_at(Stepped(1, 0)))
    assert contents(trained(frozen, tmp_path / "stopped", start=source.directory)) == contents(run)


def test_a_start_is_the_same_but_for_a_new_head(
    kept: dict[str, Run], folder: Path, two_colours: Path
) -> None:
    source = kept["folder ce"]
    fabric, file = make_fabric("cpu", "32-true"), source.directory / "model.safetensors"
    for images, outputs in ((folder, 3), (two_colours, 2)):
        experiment = begins(source, images)
        state = build(experiment, data.load(**named(experiment)), fabric, file)
        for key, value in state.model.state_dict().items():
            assert key.startswith("head.") or torch.equal(weights_of(source)[key], value), key
        head = state.model.state_dict()["head.weight"]
        assert head.shape[0] == outputs
        assert not torch.equal(head, weights_of(source)["head.weight"])
    scratch = begins(source, folder)
    assert replace(scratch, start="").name != scratch.name
    plain = build(
        replace(scratch, start=""), data.load(**named(scratch)), fabric
    ).model.state_dict()
    assert not torch.equal(plain["body.0.0.weight"], weights_of(source)["body.0.0.weight"])


def test_the_body_may_learn_at_another_rate(kept: dict[str, Run], tmp_path: Path) -> None:
    source = kept["digits ce"]
    moved: dict[float, float] = {}
    for factor in (0.1, 1.0):
        settings = replace(CYCLE, epochs=2, backbone_factor=factor)
        run = trained(begins(source, settings=settings), tmp_path, start=source.directory)
        moved[factor] = float(
            (weights_of(run)["body.1.0.weight"] - weights_of(source)["body.1.0.weight"]).norm()
        )
    assert 0 < moved[0.1] < moved[1.0]


def test_the_command_line_starts_from_a_run(
    run: Any, kept: dict[str, Run], two_colours: Path, tmp_path: Path
) -> None:
    source = kept["folder socrates"]
    words = [
        "train",
        f"folder:{two_colours}",
        "cnn",
        "ce",
        "--image-size",
        8,
        "--width",
        4,
        "--epochs",
        2,
    ]
    words += ["--device", "cpu", "--out", tmp_path, "--from", source.directory, "--freeze"]
    code, told = run(*words)
    assert code == 0, told
    made = Run(next(tmp_path.iterdir()))
    assert made.experiment.start == weights_hash(
        read_file(source.directory / "model.safetensors")[1]
    )
    assert made.experiment.optimization.backbone_factor == 0
    assert torch.equal(
        weights_of(made)["body.0.1.running_var"], weights_of(source)["body.0.1.running_var"]
    )
    assert "already finished" in run(*words)[1]
    code, told = run("show", made.directory)
    assert "--from RUN" in told
    assert "--backbone-factor 0.0" in told
    code, told = run(*words, "--backbone-factor", 0.1)
    assert (code, told.count("\n")) == (1, 1)
    assert "leave --backbone-factor out" in told


@pytest.mark.usefixtures("few_scalers")
def test_starts_that_do_not_fit_are_one_line(
    kept: dict[str, Run], tmp_path: Path, two_colours: Path
) -> None:
    mlp, cnn = kept["digits ce"], kept["folder ce"]
    file = mlp.directory / "model.safetensors"
    wide, deep, shallow = (replace(begins(mlp), model=Part("mlp", **how)) for how in SIZES)
    grey = paint(
        tmp_path / "grey", {"train": 6, "val": 6, "test": 6}, {"a": (50,) * 3, "b": (200,) * 3}
    )
    np.savez(tmp_path / "grey.npz", images=np.zeros((40, 8, 8), np.uint8), labels=np.arange(40) % 2)
    channels = replace(begins(cnn), dataset=Part(f"npz:{tmp_path / 'grey.npz'}"))
    sizes = replace(begins(mlp), dataset=Part(f"folder:{grey}", image_size=16))
    (tmp_path / "cut.safetensors").write_bytes(file.read_bytes()[:999])
    without = trained(
        digits(settings=replace(CYCLE, epochs=1)), tmp_path / "without", keep_weights="none"
    )
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "experiment.json").write_text("{}")
    scalers = without.directory / "scalers.safetensors"
    empty = replace(begins(mlp), start=weights_hash(read_file(scalers)[1]))
    cases: list[tuple[Experiment, Path | None, str]] = [
        (
            replace(begins(mlp), model=Part("cnn")),
            file,
            "fit: body.0.0.weight is missing there",
        ),
        (
            wide,
            file,
            r"fit: body.1.0.bias is \(16,\) there and \(24,\) here",
        ),
        (deep, file, r"fit: body.3.0.bias is missing .* \(16,\) here"),
        (shallow, file, r"fit: body.2.0.bias is \(16,\) .*missing here"),
        (sizes, file, r"fit: body.1.0.weight is \(16, 64\) there and \(16, 768\) here"),
        (
            channels,
            cnn.directory,
            r"fit: body.0.0.weight is \(4, 3, 3, 3\) there and \(4, 1, 3, 3\) here",
        ),
        (begins(mlp), cnn.directory, "holds weights with the hash"),
        (begins(mlp), None, "hash .*start="),
        (
            begins(mlp),
            tmp_path / "nowhere",
            "nowhere is not there",
        ),
        (begins(mlp), tmp_path / "cut.safetensors", "whole safetensors file"),
        (
            begins(mlp),
            without.directory,
            "again=True",
        ),
        (begins(mlp), tmp_path / "unfinished", "is not finished"),
        (empty, scalers, "missing there"),
        (
            replace(begins(mlp), start=""),
            file,
            "holds weights with the hash .*start is ''",
        ),
    ]
    for experiment, start, words in cases:
        with pytest.raises((ValueError, OSError), match=words) as caught:
            trained(experiment, tmp_path / "runs", start=start)
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "runs").exists()


SIZES: tuple[dict[str, int], ...] = (
    {"width": 24},
    {"width": 16, "depth": 3},
    {"width": 16, "depth": 1},
)


# How long it takes


@pytest.mark.parametrize("method", ["socrates", "mc", "ccl_sc", "sat"])
def test_trying_how_long_it_takes_leaves_no_trace(method: str) -> None:
    experiment = digits(method)
    fabric = make_fabric("cpu", "32-true")
    splits = data.load("digits")
    state = build(experiment, splits, fabric)
    before = json.dumps({name: str(part.state_dict()) for name, part in state._parts().items()})
    assert seconds_per_epoch(fabric, state, splits) > 0
    assert (
        json.dumps({name: str(part.state_dict()) for name, part in state._parts().items()})
        == before
    )
    assert all(parameter.grad is None for parameter in state.model.parameters())


def test_an_estimate_changes_no_number(kept: dict[str, Run], tmp_path: Path) -> None:
    events: list[Event] = []
    run = trained(kept["folder socrates"].experiment, tmp_path, estimate=True, tell=events.append)
    assert contents(run) == contents(kept["folder socrates"])
    started = next(event for event in events if isinstance(event, Started))
    assert started.seconds_per_epoch > 0


@pytest.mark.usefixtures("few_scalers")
def test_training_says_what_it_found_and_will_do(run: Any, folder: Path, tmp_path: Path) -> None:
    words = [
        "train",
        f"folder:{folder}",
        "cnn",
        "ce",
        "--image-size",
        8,
        "--width",
        2,
        "--epochs",
        2,
        "--device",
        "cpu",
    ]
    code, told = run(*words, "--out", tmp_path)
    assert code == 0
    first, second = told.splitlines()[:2]
    for fact in ("3 classes (blue, green, red)", " 3x8x8 ", "60 train", "60 val", "36 test"):
        assert fact in first
    assert re.fullmatch(
        r"2 epochs of 4 steps, batch size 16, recipe one-cycle, about \d+:\d\d:\d\d", second
    )
    assert told.index(first) < told.index("epoch 2/2")


def test_the_plan_tells_what_is_left() -> None:
    event = Started(digits(settings=Optimization(epochs=10)), None, 4, 3, "what was found", 20.0)  # type: ignore[arg-type]
    steps = "10 epochs of 3 steps, batch size 128, recipe paper"
    assert plan(event) == ["what was found", f"{steps}, about 0:02:00"]
    assert plan(replace(event, seconds_per_epoch=float("nan")))[1] == steps


@pytest.mark.usefixtures("few_scalers")
def test_minutes_become_epochs(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([10.0, 1.0, 1000.0])
    monkeypatch.setattr(cli_runs, "measure_epoch_seconds", lambda *_, **__: next(seconds))
    words = [
        "train",
        "digits",
        "mlp",
        "ce",
        "--width",
        8,
        "--minutes",
        0.5,
        "--device",
        "cpu",
        "--out",
        tmp_path,
    ]
    with monkeypatch.context() as patch:
        patch.setattr(cli_runs, "RunDisplay", lambda _: stop_at(Stepped(1, 0)))
        code, told = run(*words)
    assert code == 130
    assert "0.5 minutes: --epochs 3" in told
    assert "1 of 3 epochs" in told
    (tmp_path / "digits-mlp-ce-seed1-00000000").mkdir()  # a damaged one hinders nobody
    (tmp_path / "digits-mlp-ce-seed1-00000000" / "experiment.json").write_text("{")
    code, told = run(*words)
    assert code == 0
    assert "stopped run: --epochs 3" in told
    assert "continuing after epoch 1" in told
    first = next(path.parent for path in tmp_path.glob("*/finished.json"))
    assert Run(first).experiment.optimization.epochs == 3
    code, told = run(*words, "--epochs", 3)
    assert (code, told.count("\n")) == (1, 1)
    assert "--minutes" in told
    assert "--epochs" in told
    for wrong in (0, -1, "nan", "inf"):
        code, told = run(*words, "--minutes", wrong)
        assert (code, told.count("\n")) == (1, 1)
        assert re.search(rf"--minutes .*{float(wrong)}$", told.strip())
    # other runs, nothing of which was stopped; at least one epoch
    for seed, epochs in ((2, 30), (3, 1)):
        options = options_of(*words[1:], "--seed", seed)
        assert cli_runs.in_minutes(options, options.minutes).epochs == epochs
