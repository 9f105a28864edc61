"""The paper's printed numbers: complete, consistent with each other, and emphasised as their
captions say."""

from __future__ import annotations

import pytest

from socrates import pareto
from socrates.paper import published
from socrates.paper.published import CAVEATS, TABLES, find, table
from socrates.paper.settings import SETTINGS

EPOCHS = (25, 50, 75, 100, 150, 200, 250, 300)
METRICS = ("acc", "ece", "ada_ece", "cw_ece")
BY_SETTING = ("test", "posthoc", "validation")
BY_EPOCH = ("gamma", "alpha", "beta", "ablation-vgg16", "ablation-resnet110")
COLUMNS = {"test": 7, "validation": 7, "posthoc": 8, "gamma": 5, "alpha": 5, "beta": 4}
COLUMNS |= {"ablation-vgg16": 10, "ablation-resnet110": 10}


def lines(name):
    """The cells of a table by (row, metric), each a dict by column."""
    found = {}
    for cell, value in table(name).items():
        found.setdefault((cell.row, cell.metric), {})[cell.column] = value
    return found


def columns_printed(line, word):
    return tuple(column for column, value in line.items() if word in value.emphasis.split())


@pytest.mark.parametrize("name", BY_SETTING + BY_EPOCH)
def test_every_row_metric_and_column_has_its_cell(name):
    rows, metrics = (
        (tuple(SETTINGS), METRICS) if name in BY_SETTING else (tuple(map(str, EPOCHS)), METRICS[:2])
    )
    found = lines(name)
    assert list(found) == [(row, metric) for row in rows for metric in metrics]
    first = list(found[rows[0], "acc"])
    assert len(first) == COLUMNS[name]
    assert all(list(line) == first for line in found.values())
    assert all((value.std is None) == name.startswith("ablation") for value in table(name).values())


@pytest.mark.parametrize(
    ("name", "num_cells"),
    [
        ("hyperparameters", 161),  # 147 are printed: MC and Brier share their two lines of seven
        ("test", 196),
        ("posthoc", 224),
        ("gamma", 80),
        ("alpha", 80),
        ("beta", 64),
        ("ablation-vgg16", 160),
        ("ablation-resnet110", 160),
        ("validation", 196),
    ],
)
def test_number_of_cells(name, num_cells):
    assert len(table(name)) == num_cells


def test_the_nine_tables_are_the_files():
    folder = published.resources.files("socrates.paper") / "published"
    assert sorted(file.name for file in folder.iterdir()) == sorted(
        f"{name}.csv" for name in TABLES
    )
    assert len(TABLES) == 9


# (table, row, metric): what is printed, what the numbers say; each as (bold, underlined).
DEVIATIONS = {
    # Ties: one of the best is bold, the others underlined (or plain, where a table has no
    # underlines).
    ("test", "food101-resnet34", "cw_ece"): (
        (("socrates",), ("brier",)),
        (("socrates", "brier"), ()),
    ),
    ("test", "cifar100-vgg16", "cw_ece"): (
        (("socrates",), ("focal",)),
        (("socrates", "focal"), ()),
    ),
    ("test", "cifar100-resnet110", "cw_ece"): (
        (("socrates",), ("ccl_sc", "flsd")),
        (("socrates", "ccl_sc", "flsd"), ()),
    ),
    ("validation", "cifar100-resnet110", "cw_ece"): (
        (("socrates",), ("ccl_sc", "flsd")),
        (("socrates", "ccl_sc", "flsd"), ()),
    ),
    ("posthoc", "svhn-vgg16", "ada_ece"): ((("ce+matrix",), ()), (("ce+matrix", "ce+vector"), ())),
    ("alpha", "150", "acc"): ((("0.999",), ("1",)), (("0.999", "1"), ())),
    ("alpha", "250", "acc"): ((("0.999",), ("1",)), (("0.999", "1"), ())),
    # Slips: the best (60.10) is plain, second is bold and the fourth underlined; the second (3.29)
    # is plain.
    ("ablation-vgg16", "75", "acc"): (
        (("socrates:no-focal",), ("socrates:no-target-no-focal",)),
        (("socrates:no-focal-true-no-beta",), ("socrates:no-focal",)),
    ),
    ("ablation-vgg16", "150", "ece"): (
        (("socrates:no-beta",), ("socrates:no-focal-unknown",)),
        (("socrates:no-beta",), ("socrates",)),
    ),
}


def ranked(line, larger_is_better):
    """The columns that are best, and those that are second: there is no second behind a tie for the
    best."""
    means = {column: value.mean for column, value in line.items()}
    first, then = sorted(set(means.values()), reverse=larger_is_better)[:2]
    best = tuple(column for column in means if means[column] == first)
    return best, tuple(column for column in means if means[column] == then) if len(
        best
    ) == 1 else ()


@pytest.mark.parametrize("name", BY_SETTING + BY_EPOCH)
def test_bold_is_best_and_underlined_is_second(name):
    found = {}
    for (row, metric), line in lines(name).items():
        best, second = ranked(line, larger_is_better=metric == "acc")
        numbers = best, () if name == "posthoc" else second  # whose caption knows the best only
        printed = columns_printed(line, "bold"), columns_printed(line, "underline")
        if printed != numbers:
            found[name, row, metric] = printed, numbers
    assert found == {key: value for key, value in DEVIATIONS.items() if key[0] == name}


# (table, epoch): the column in italics; tests/test_pareto.py has what each rule takes there.
ITALICS = {
    ("gamma", 150): "2",
    ("gamma", 300): "2",
    ("alpha", 150): "0.999",
    ("alpha", 300): "0.999",
    ("beta", 150): "socrates:no-beta",
    ("beta", 300): "socrates",
    ("ablation-vgg16", 150): "socrates:no-beta",
    ("ablation-vgg16", 300): "socrates",
    ("ablation-resnet110", 150): "socrates",
    ("ablation-resnet110", 300): "socrates",
}


def errors_of(name, epoch):
    accuracy, ece = lines(name)[str(epoch), "acc"], lines(name)[str(epoch), "ece"]
    return {column: (100 - accuracy[column].mean, ece[column].mean) for column in accuracy}


@pytest.mark.parametrize(("name", "epoch"), ITALICS)
def test_italics_are_on_the_front_and_have_the_lowest_ece(name, epoch):
    points = errors_of(name, epoch)
    italic = ITALICS[name, epoch]
    assert columns_printed(lines(name)[str(epoch), "acc"], "italic") == (italic,)
    assert columns_printed(lines(name)[str(epoch), "ece"], "italic") == (italic,)
    assert italic in pareto.front(points, key=points.get)
    assert points[italic][1] == min(ece for _, ece in points.values())


def test_italics_stand_nowhere_else():
    found = {
        (name, row)
        for name in TABLES
        for (row, _), line in lines(name).items()
        if columns_printed(line, "italic")
    }
    assert found == {(name, str(epoch)) for name, epoch in ITALICS}


def same(one, other):
    first, second = find(*one), find(*other)
    stds = {value.std for value in (first, second)} - {None}
    return first.mean == second.mean and len(stds) <= 1


@pytest.mark.parametrize("metric", ["acc", "ece"])
@pytest.mark.parametrize("epoch", EPOCHS)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("gamma", 2), ("alpha", 0.999)),
        (("gamma", 2), ("beta", "socrates")),
        (("gamma", 2), ("ablation-vgg16", "socrates")),
        (("gamma", 0), ("ablation-vgg16", "socrates:no-focal")),
        (("beta", "socrates:no-beta"), ("ablation-vgg16", "socrates:no-beta")),
    ],
)
def test_columns_shared_by_two_studies_agree(one, other, epoch, metric):
    assert same((one[0], epoch, one[1], metric), (other[0], epoch, other[1], metric))


def test_deviations_that_the_ablations_leave_out_exceed_what_their_captions_say():
    cells = {
        metric: [find("gamma", epoch, 2, metric) for epoch in EPOCHS] for metric in METRICS[:2]
    }
    deviations = sorted(cell.std for cell in cells["ece"] if cell.std > 0.2)
    assert deviations == [0.21, 0.42, 0.44, 0.54, 0.81, 0.99, 1.15]
    assert [cell.std for cell in cells["acc"] if cell.std > 2] == [2.01]


@pytest.mark.parametrize("cell", [cell for cell in table("test") if cell.column == "socrates"])
def test_unscaled_socrates_is_that_of_the_test_table(cell):
    assert same(("test", *cell), ("posthoc", *cell))


# The ablation tables round these the other way: (table, column, metric): there, in the validation
# table.
ROUNDED = {
    ("ablation-vgg16", "socrates:no-focal-no-beta", "acc"): (66.53, 66.52),
    ("ablation-vgg16", "socrates:no-target", "acc"): (72.08, 72.07),
    ("ablation-vgg16", "socrates:no-target", "ece"): (7.43, 7.44),
    ("ablation-resnet110", "socrates:no-focal-no-beta", "acc"): (76.18, 76.17),
    ("ablation-resnet110", "socrates:no-focal-no-beta", "ece"): (8.06, 8.07),
    ("ablation-resnet110", "socrates:no-target", "acc"): (77.77, 77.76),
}


@pytest.mark.parametrize("model", ["vgg16", "resnet110"])
@pytest.mark.parametrize(
    ("column", "method"),
    [
        ("socrates", "socrates"),
        ("socrates:no-focal-no-beta", "sat"),
        ("socrates:no-target", "focal"),
    ],
)
def test_last_epoch_of_the_ablations_is_that_of_the_validation_table(model, column, method):
    for metric in ("acc", "ece"):
        name = f"ablation-{model}"
        there, here = (
            find(name, 300, column, metric),
            find("validation", f"cifar100-{model}", method, metric),
        )
        assert (there.mean, here.mean) == ROUNDED.get(
            (name, column, metric), (here.mean, here.mean)
        )


# A temperature keeps the order of the logits, yet no printed accuracy survives it: (unscaled,
# scaled).
ACCURACY_MOVED = {
    ("cifar10-vgg16", "socrates"): (88.42, 88.40),
    ("cifar10-vgg16", "ce"): (88.46, 88.52),
    ("svhn-vgg16", "socrates"): (97.25, 97.24),
    ("svhn-vgg16", "ce"): (97.19, 97.20),
    ("food101-resnet34", "socrates"): (77.72, 77.68),
    ("food101-resnet34", "ce"): (78.34, 78.38),
    ("cifar100-vgg16", "socrates"): (71.26, 71.31),
    ("cifar100-vgg16", "ce"): (72.06, 72.10),
    ("cifar100-resnet110", "socrates"): (77.39, 77.44),
    ("cifar100-resnet110", "ce"): (77.79, 77.59),
    ("cifar100-vit", "socrates"): (49.07, 48.50),
    ("cifar100-vit", "ce"): (49.00, 48.41),
    ("cifar100-vit_transfer", "socrates"): (91.83, 91.81),
    ("cifar100-vit_transfer", "ce"): (70.98, 74.50),
}


def test_temperature_scaling_keeps_the_accuracy_except_in_these_cells():
    found = {}
    for setting in SETTINGS:
        for method in ("socrates", "ce"):
            before, after = (
                find("posthoc", setting, method + scaler, "acc").mean
                for scaler in ("", "+temperature")
            )
            if before != after:
                found[setting, method] = before, after
    assert found == ACCURACY_MOVED


def test_caveats_are_known_and_all_used():
    used = {key for name in TABLES for value in table(name).values() for key in value.caveat}
    assert used == set(CAVEATS)
    assert all(text[0].isupper() and text.endswith(".") for text in CAVEATS.values())


def marked(key):
    return {
        (name, *cell)
        for name in TABLES
        for cell, value in table(name).items()
        if key in value.caveat
    }


def expected(names, rows=None, columns=None, metrics=None):
    return {
        (name, *cell)
        for name in names
        for cell in table(name)
        if (rows is None or cell.row in rows)
        and (columns is None or cell.column in columns)
        and (metrics is None or cell.metric in metrics)
    }


SCALED = [cell.column for cell in table("posthoc") if "+" in cell.column]
CONTRASTED = ("food101-resnet34", "cifar100-vit", "cifar100-vit_transfer")
ABLATIONS = ("ablation-vgg16", "ablation-resnet110")


@pytest.mark.parametrize(
    ("key", "cells"),
    [
        ("ada_ece", expected(BY_SETTING, metrics=["ada_ece"])),
        ("cw_ece", expected(BY_SETTING, metrics=["cw_ece"])),
        ("constant", expected(BY_SETTING, ["svhn-vgg16"], ["ccl_sc"])),
        (
            "some_constant",
            expected(BY_SETTING, ["svhn-vgg16"], ["focal", "flsd", "ce_dece"])
            | expected(["posthoc"], ["food101-resnet34"], ["ce+matrix"])
            | expected(["posthoc"], ["cifar100-vgg16", "cifar100-vit"], ["socrates+matrix"])
            | expected(["posthoc"], ["cifar100-resnet110", "cifar100-vit_transfer"], ["ce+matrix"]),
        ),
        ("four_seeds", expected(["posthoc"], columns=SCALED)),
        ("collapsed", expected(BY_SETTING, ["food101-resnet34"], ["sat"])),
        ("sat_run", expected(ABLATIONS, columns=["socrates:no-focal-no-beta"])),
        ("focal_run", expected(ABLATIONS, columns=["socrates:no-target"])),
        ("unconverged", expected(["posthoc"], columns=SCALED)),
        ("unregularised", expected(["posthoc"], columns=["socrates+matrix", "ce+matrix"])),
        ("no_augmentation", expected(BY_SETTING, ["cifar10-vgg16"])),
        ("network", expected(BY_SETTING, ["food101-resnet34"])),
        ("split", expected(BY_SETTING, ["food101-resnet34"])),
        ("attention", expected(BY_SETTING, ["cifar100-vit"])),
        ("backbone_rate", expected(BY_SETTING, ["cifar100-vit_transfer"])),
        ("ce_dece", expected(BY_SETTING, columns=["ce_dece"])),
        ("queues", expected(BY_SETTING, columns=["ccl_sc"])),
        (
            "contrasted",
            expected(BY_SETTING, CONTRASTED, ["ccl_sc"])
            | expected(["hyperparameters"], CONTRASTED, ["ccl_sc"], ["Mdim"]),
        ),
        (
            "temperature",
            expected(BY_SETTING, columns=["ccl_sc"])
            | expected(["hyperparameters"], None, ["ccl_sc"], ["w"]),
        ),
        (
            "sat_start",
            expected(
                BY_SETTING,
                [row for row in SETTINGS if find("hyperparameters", row, "sat", "E_s").mean],
                ["sat"],
            )
            | expected(ABLATIONS, columns=["socrates:no-focal-no-beta"]),
        ),
        ("flsd_factor", expected(BY_SETTING, columns=["flsd"])),
        ("beta_negative", expected(["beta"], columns=["socrates:beta-known"])),
        ("beta_condition", expected(["beta"], columns=["socrates:beta-fixed"])),
    ],
)
def test_caveats_mark_the_right_cells(key, cells):
    assert cells
    assert marked(key) == cells


def test_constant_seeds_show_in_the_spread_of_the_accuracy():
    for name in ("test", "validation"):
        spread = {
            column for column, value in lines(name)["svhn-vgg16", "acc"].items() if value.std > 1
        }
        assert spread == {"focal", "flsd", "ce_dece"}
        assert find(name, "svhn-vgg16", "ccl_sc", "acc").std == 0


def test_the_target_of_the_known_classes_matters_where_the_target_moves():
    assert "target_over" in find("alpha", 300, 0.999, "ece").caveat
    assert find("alpha", 300, 1, "ece").caveat == ()
    # alpha is 1 there
    assert find("validation", "cifar100-vit", "socrates", "ece").caveat == ("attention",)
    assert find("ablation-vgg16", 300, "socrates:no-target-no-focal", "ece").caveat == ()


def test_a_table_that_is_not_there_is_named_with_the_nearest():
    with pytest.raises(ValueError, match=r"'validaton'.*'validation'"):
        table("validaton")
    with pytest.raises(ValueError, match=r"'7'.*hyperparameters, test"):
        find("7", 300, "socrates", "ece")


def test_a_cell_that_is_not_printed_is_none():
    assert find("test", "cifar100-vgg16", "ce", "ece") is None
    assert find("test", "digits-mlp", "socrates", "ece") is None
    assert find("gamma", 300, 2, "cw_ece") is None


def test_tables_cannot_be_changed():
    with pytest.raises(TypeError):
        table("test")["a", "b", "c"] = None  # type: ignore[index]
