"""Which Pareto rule makes the paper's own choices: scripts/pareto_agreement.py and its page."""

from pathlib import Path

import pytest
from pareto_agreement import (
    BASELINES,
    CE,
    SOCRATES,
    agreement,
    chosen_column,
    markdown,
    printed_choices,
)

from socrates.paper.published import table

# What the paper prints as best by its place in the Pareto plot, and what each rule chooses from the
# printed numbers: (table, row): the columns in italics or meant by the text, then the choice by l1,
# scaled and ece.
FULL, UNKNOWN = "socrates", "socrates:no-focal-unknown"
PRINTED = {
    ("gamma", "150"): (("2",), "2", "1", "2"),
    ("gamma", "300"): (("2",), "2", "1", "2"),
    ("alpha", "150"): (("0.999",), "0.999", "0.999", "0.999"),
    ("alpha", "300"): (("0.999",), "0.999", "0.999", "0.999"),
    ("beta", "150"): (
        ("socrates:no-beta",),
        "socrates:no-beta",
        "socrates:no-beta",
        "socrates:no-beta",
    ),
    ("beta", "300"): ((FULL,), "socrates:beta-known", "socrates:beta-known", FULL),
    ("ablation-vgg16", "150"): (
        ("socrates:no-beta",),
        "socrates:no-beta",
        UNKNOWN,
        "socrates:no-beta",
    ),
    ("ablation-vgg16", "300"): ((FULL,), FULL, UNKNOWN, FULL),
    ("ablation-resnet110", "150"): ((FULL,), FULL, UNKNOWN, FULL),
    ("ablation-resnet110", "300"): ((FULL,), FULL, UNKNOWN, FULL),
    ("test", "cifar10-vgg16"): ((FULL,), FULL, FULL, FULL),
    ("test", "svhn-vgg16"): (
        BASELINES,
        "sat",
        "sat",
        "ccl_sc",
    ),  # the last has 19.59 %, always the same answer
    ("test", "food101-resnet34"): ((FULL,), FULL, FULL, FULL),
    ("test", "cifar100-vgg16"): ((FULL,), FULL, FULL, FULL),
    ("test", "cifar100-resnet110"): ((FULL,), FULL, FULL, FULL),
    ("test", "cifar100-vit"): ((FULL,), FULL, FULL, "brier"),
    ("test", "cifar100-vit_transfer"): (("ccl_sc",), "ccl_sc", "ccl_sc", "ccl_sc"),
    ("posthoc", "cifar10-vgg16"): (SOCRATES, "ce+vector", "ce+vector", "socrates+matrix"),
    ("posthoc", "svhn-vgg16"): (SOCRATES, "socrates+matrix", "socrates+matrix", "socrates+matrix"),
    ("posthoc", "food101-resnet34"): (SOCRATES, FULL, FULL, FULL),
    ("posthoc", "cifar100-vgg16"): (
        SOCRATES,
        "ce+temperature",
        "ce+temperature",
        "socrates+vector",
    ),
    ("posthoc", "cifar100-resnet110"): (SOCRATES, "ce+temperature", "ce+temperature", FULL),
    ("posthoc", "cifar100-vit"): (CE, "ce+temperature", "ce+temperature", "ce+vector"),
    ("posthoc", "cifar100-vit_transfer"): (
        ("socrates+vector",),
        "socrates+vector",
        "socrates+vector",
        "ce",
    ),
}


@pytest.mark.parametrize(("name", "row"), PRINTED)
def test_what_each_rule_chooses_from_the_printed_numbers(name, row):
    _, *chosen = PRINTED[name, row]
    assert [chosen_column(name, row, rule) for rule in ("l1", "scaled", "ece")] == chosen


def test_the_paper_s_own_choices_are_all_there():
    assert {(choice.table, choice.row): choice.columns for choice in printed_choices()} == {
        place: columns for place, (columns, *_) in PRINTED.items()
    }
    for _, name, row, columns in printed_choices():
        assert all((row, column, "ece") in table(name) for column in columns)


def test_agreement_of_each_rule_with_the_paper():
    counts = [tuple(sum(agreed) for agreed in by_rule.values()) for by_rule in agreement().values()]
    assert [len(by_rule["l1"]) for by_rule in agreement().values()] == [10, 7, 2, 5]
    assert counts == [(9, 3, 10), (7, 7, 6), (2, 2, 1), (2, 2, 5)]  # l1, scaled, ece


def test_the_page_on_fidelity_shows_the_agreement():
    page = Path(__file__).resolve().parent.parent / "docs" / "fidelity.md"
    assert markdown() in page.read_text()
