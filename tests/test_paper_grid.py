"""The paper's settings and hyperparameters: complete, in our names, and ready to run."""

from __future__ import annotations

import pytest

from socrates import data, methods, models
from socrates.contracts import Task
from socrates.experiment import Experiment
from socrates.paper.grid import (
    FINAL,
    GRIDS,
    METHODS_OF_PAPER,
    SYMBOLS,
    WHICH_MC,
    candidates,
    final_choice,
    final_experiment,
    tuning_experiments,
)
from socrates.paper.published import table
from socrates.paper.settings import SEEDS, SETTINGS, find_setting

TASK = Task(num_samples=6, num_classes=3)
ALL = [(setting, method) for setting in SETTINGS for method in GRIDS]


def test_settings_name_data_sets_and_models_that_exist():
    assert list(SETTINGS) == [
        "cifar10-vgg16",
        "svhn-vgg16",
        "food101-resnet34",
        "cifar100-vgg16",
        "cifar100-resnet110",
        "cifar100-vit",
        "cifar100-vit_transfer",
    ]
    for name, setting in SETTINGS.items():
        assert name == setting.name == f"{setting.dataset.name}-{setting.model.name}"
        assert setting.dataset.name in data.DATASETS
        assert setting.model.name in models.MODELS
        assert setting.tuning_seeds == ((1, 2, 3) if name == "food101-resnet34" else SEEDS)
        assert setting.last_epoch == (50 if name == "cifar100-vit_transfer" else 300)


def test_a_setting_that_is_not_there_is_named_with_the_nearest():
    with pytest.raises(ValueError, match=r"'cifar10-vgg'.*'cifar10-vgg16'"):
        find_setting("cifar10-vgg")
    with pytest.raises(ValueError, match=r"'\?'.*cifar10-vgg16"):
        find_setting("?")


@pytest.mark.parametrize(("setting", "method"), ALL)
def test_the_final_experiment_can_be_built(setting, method):
    experiment = final_experiment(setting, method, seed=4)
    methods.build(method, TASK, **dict(experiment.method.options))
    assert Experiment.from_json(experiment.to_json()) == experiment
    assert (experiment.seed, experiment.num_bins) == (4, 10)
    assert experiment.optimization.epochs == SETTINGS[setting].last_epoch
    assert experiment.optimization.batch_size == (64 if method == "ccl_sc" else 128)


@pytest.mark.parametrize("name", [name for name in methods.METHODS if name.startswith("socrates:")])
def test_ablations_keep_the_values_of_socrates(name):
    choice = final_choice("cifar100-resnet110", name)
    assert dict(choice.method.options) == {"gamma": 1.0, "alpha": 0.999}
    methods.build(choice.method.name, TASK, **dict(choice.method.options))


def test_methods_without_hyperparameters_in_the_paper_are_refused():
    with pytest.raises(ValueError, match=r"'focla'.*'focal'"):
        final_experiment("svhn-vgg16", "focla")
    with pytest.raises(ValueError, match="gamblers"):
        candidates("gamblers")


def test_every_printed_hyperparameter_is_used_or_fixed():
    for cell, value in table("hyperparameters").items():
        option = SYMBOLS[cell.column].get(cell.metric)
        choice = FINAL[cell.row][cell.column]
        if option:
            assert {**dict(choice.method.options), "batch_size": choice.batch_size}[
                option
            ] == value.mean
        else:
            assert cell.metric == "Mdim" or (cell.metric == "E_s" and value.mean == 0)
        assert (value.emphasis == "underline") == choice.original


def test_values_from_the_original_publications():
    assert {(setting, method) for setting, method in ALL if FINAL[setting][method].original} == {
        ("cifar10-vgg16", "ccl_sc"),
        ("cifar10-vgg16", "sat"),
        ("food101-resnet34", "sat"),
        ("cifar100-vgg16", "ccl_sc"),
        ("cifar100-vgg16", "sat"),
    }


def test_final_values_come_from_the_grid():
    outside = {
        (setting, method)
        for setting, method in ALL
        if (FINAL[setting][method].method, FINAL[setting][method].batch_size)
        not in {(point.method, point.batch_size) for point in candidates(method)}
    }
    assert outside == {("cifar100-vit", "socrates")}  # its alpha of 1 is in no grid of the appendix


@pytest.mark.parametrize(
    ("method", "size"),
    [
        ("socrates", 32),
        ("sat", 36),
        ("ccl_sc", 270),
        ("focal", 6),
        ("flsd", 6),
        ("brier", 2),
        ("mc", 2),
        ("ce_dece", 2),
        ("ce", 2),
    ],
)
def test_grids(method, size):
    points = candidates(method)
    assert len(set(points)) == len(points) == size
    assert set(GRIDS[method]) - {"batch_size"} <= set(methods.options(method))
    methods.build(method, TASK, **dict(points[-1].method.options))


@pytest.mark.parametrize(("setting", "method"), ALL)
def test_tuning_covers_the_grid_unless_nothing_was_searched(setting, method):
    experiments = tuning_experiments(setting, method)
    assert len({experiment.name for experiment in experiments}) == len(experiments)
    assert {experiment.seed for experiment in experiments} == {1}
    final = final_experiment(setting, method)
    if FINAL[setting][method].original:
        assert experiments == [final]
    elif setting == "cifar100-vit_transfer" and method in ("sat", "ccl_sc"):
        starts = {dict(experiment.method.options)["start_epoch"] for experiment in experiments}
        assert starts == ({0, 25} if method == "sat" else {25})  # of 50 epochs
    else:
        assert len(experiments) == len(candidates(method))
    assert (final in experiments) == ((setting, method) != ("cifar100-vit", "socrates"))


def test_columns_of_the_paper_are_methods_of_ours():
    assert set(METHODS_OF_PAPER.values()) == set(methods.METHODS) & set(GRIDS)
    columns = {cell.column for cell in table("test")}
    assert columns == set(METHODS_OF_PAPER.values()) - {"ce", "mc"}


def test_mc_stands_beside_what_the_paper_calls_so():
    titles = list(METHODS_OF_PAPER)
    assert titles[titles.index("CE + DECE") :] == ["CE + DECE", "MC", "CE"]
    assert METHODS_OF_PAPER["MC"] == "mc"
    assert WHICH_MC.startswith("The paper's MC is CE + DECE")
    for setting in SETTINGS:
        assert FINAL[setting]["mc"].batch_size == FINAL[setting]["ce_dece"].batch_size


@pytest.mark.parametrize("name", ["beta", "ablation-vgg16", "ablation-resnet110"])
def test_columns_of_the_studies_are_methods_of_ours(name):
    assert {cell.column for cell in table(name)} <= set(methods.METHODS)
