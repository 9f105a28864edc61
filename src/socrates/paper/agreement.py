"""Which rule for the choice on the Pareto front makes the paper's own choices: `python -m socrates.paper.agreement`.

The paper takes "the point closest to the origin" of error and ECE and gives no formula, but it prints choices: cells in
italics, and sentences about Tables 1 and 2. Each rule is given the printed means, and its choices are counted.
"""

from typing import NamedTuple

from .. import pareto
from .published import TABLES, CellKey, table
from .settings import SETTINGS

ITALIC = "cells in italics, Tables 4 to 8"
SVHN, VIT, TRANSFER = "svhn-vgg16", "cifar100-vit", "cifar100-vit_transfer"
SCALERS = ("", "+temperature", "+vector", "+matrix")
SOCRATES, CE = (tuple(method + scaler for scaler in SCALERS) for method in ("socrates", "ce"))
BASELINES = ("sat", "ccl_sc", "focal", "flsd", "brier", "ce_dece")

# What the appendix says of the Pareto plots of test data, and the table of its numbers: the columns meant, by setting.
SENTENCES: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {
    ("Table 1: Socrates, not so for SVHN, CCL-SC for transfer", "test"): {
        **dict.fromkeys(SETTINGS, ("socrates",)),
        SVHN: BASELINES,
        TRANSFER: ("ccl_sc",),
    },
    ("Table 2: CE for ViT, scaled or not, Socrates + VS for transfer", "posthoc"): {
        VIT: CE,
        TRANSFER: ("socrates+vector",),
    },
    ('Table 2: elsewhere "generally" Socrates, scaled or not', "posthoc"): {
        setting: SOCRATES for setting in SETTINGS if setting not in (VIT, TRANSFER)
    },
}


class PrintedChoice(NamedTuple):
    """A row of a printed table, and the columns of which one is the best there, in the paper's words."""

    claim: str
    table: str
    row: str
    columns: tuple[str, ...]


def printed_choices() -> list[PrintedChoice]:
    """What the paper calls best by its place in the Pareto plot.

    >>> printed_choices()[1]
    PrintedChoice(claim='cells in italics, Tables 4 to 8', table='gamma', row='300', columns=('2',))
    """
    italic = [
        PrintedChoice(ITALIC, name, cell.row, (cell.column,))
        for name in TABLES
        for cell, value in table(name).items()
        if "italic" in value.emphasis and cell.metric == "ece"
    ]
    said = [(claim, name, rows.items()) for (claim, name), rows in SENTENCES.items()]
    return italic + [PrintedChoice(claim, name, row, columns) for claim, name, rows in said for row, columns in rows]


def chosen_column(name: str, row: str, rule: str) -> str:
    """What a rule chooses from the printed means of a row.

    >>> [chosen_column("gamma", "300", rule) for rule in ("l1", "scaled")]
    ['2', '1']
    """
    cells = table(name)
    errors = {cell.column: 100 - value.mean for cell, value in cells.items() if (cell.row, cell.metric) == (row, "acc")}
    points = {column: (error, cells[CellKey(row, column, "ece")].mean) for column, error in errors.items()}
    return pareto.best(points, points.__getitem__, rule)


def agreement() -> dict[str, dict[str, list[bool]]]:
    """For each claim and rule, whether the rule chooses as the paper, choice by choice.

    >>> {rule: sum(agreed) for rule, agreed in agreement()["cells in italics, Tables 4 to 8"].items()}
    {'l1': 9, 'scaled': 3, 'ece': 10}
    """
    found: dict[str, dict[str, list[bool]]] = {}
    for claim, name, row, columns in printed_choices():
        for rule in pareto.RULES:
            agreed = chosen_column(name, row, rule) in columns
            found.setdefault(claim, {}).setdefault(rule, []).append(agreed)
    return found


def markdown() -> str:
    """How many of the paper's choices each rule makes: the table of docs/fidelity.md."""
    lines = [["the paper's choice", *(f"`{rule}`" for rule in pareto.RULES)], ["---"] * (1 + len(pareto.RULES))]
    for claim, by_rule in agreement().items():
        lines.append([claim, *(f"{sum(agreed)} of {len(agreed)}" for agreed in by_rule.values())])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print(markdown())
