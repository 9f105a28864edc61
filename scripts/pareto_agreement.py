"""Count how often each Pareto rule makes the choice that the paper prints.

`python scripts/pareto_agreement.py` prints the table of docs/fidelity.md. The paper chooses "the
point closest to the origin" of error and ECE and gives no formula, but it prints choices: cells in
italics, and sentences about Tables 1 and 2. Each rule is applied to the printed means.
"""

from typing import NamedTuple

from socrates import pareto
from socrates.paper.published import TABLES, CellKey, table
from socrates.paper.settings import SETTINGS

ITALIC = "cells in italics, Tables 4 to 8"
SVHN = "svhn-vgg16"
VIT = "cifar100-vit"
TRANSFER = "cifar100-vit_transfer"
SCALERS = ("", "+temperature", "+vector", "+matrix")
SOCRATES = tuple(f"socrates{scaler}" for scaler in SCALERS)
CE = tuple(f"ce{scaler}" for scaler in SCALERS)
BASELINES = ("sat", "ccl_sc", "focal", "flsd", "brier", "ce_dece")

# What the appendix says about the Pareto plots of test data, by claim and table: the columns that
# it calls best, by setting.
SENTENCES: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {
    ("Table 1: Socrates, not for SVHN, CCL-SC for transfer", "test"): {
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
    """A row of a printed table and the columns among which the paper's best one is."""

    claim: str
    table: str
    row: str
    columns: tuple[str, ...]


def printed_choices() -> list[PrintedChoice]:
    """Return every choice that the paper makes by position in the Pareto plot.

    >>> printed_choices()[1]
    PrintedChoice(claim='cells in italics, Tables 4 to 8', table='gamma', row='300', columns=('2',))
    """
    choices = [
        PrintedChoice(ITALIC, name, cell.row, (cell.column,))
        for name in TABLES
        for cell, number in table(name).items()
        if "italic" in number.emphasis and cell.metric == "ece"
    ]
    for (claim, name), best_columns in SENTENCES.items():
        choices += [PrintedChoice(claim, name, row, best_columns[row]) for row in best_columns]
    return choices


def chosen_column(name: str, row: str, rule: str) -> str:
    """Return the column that a rule chooses from the printed means of a row.

    >>> [chosen_column("gamma", "300", rule) for rule in ("l1", "scaled")]
    ['2', '1']
    """
    cells = table(name)
    columns = [cell.column for cell in cells if (cell.row, cell.metric) == (row, "acc")]

    def error_and_ece(column: str) -> tuple[float, float]:
        accuracy = cells[CellKey(row, column, "acc")].mean
        return 100 - accuracy, cells[CellKey(row, column, "ece")].mean

    return pareto.best(columns, error_and_ece, rule)


def agreement() -> dict[str, dict[str, list[bool]]]:
    """Return, by claim and rule, whether the rule agrees with each of the paper's choices.

    >>> rules = agreement()["cells in italics, Tables 4 to 8"]
    >>> {rule: sum(agreed) for rule, agreed in rules.items()}
    {'l1': 9, 'scaled': 3, 'ece': 10}
    """
    agreed_by_claim: dict[str, dict[str, list[bool]]] = {}
    for claim, name, row, columns in printed_choices():
        agreed_by_rule = agreed_by_claim.setdefault(claim, {})
        for rule in pareto.RULES:
            agrees = chosen_column(name, row, rule) in columns
            agreed_by_rule.setdefault(rule, []).append(agrees)
    return agreed_by_claim


def markdown() -> str:
    """Return the table of docs/fidelity.md: how many of the choices each rule makes."""
    lines = [
        ["the paper's choice", *(f"`{rule}`" for rule in pareto.RULES)],
        ["---"] * (1 + len(pareto.RULES)),
    ]
    for claim, by_rule in agreement().items():
        counts = [f"{sum(agreed)} of {len(agreed)}" for agreed in by_rule.values()]
        lines.append([claim, *counts])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print(markdown())
