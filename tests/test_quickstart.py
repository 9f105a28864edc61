"""The quickstart's table, from made-up numbers."""

from __future__ import annotations

from socrates import quickstart
from socrates.experiment import Part
from socrates.records import Evaluation
from socrates.report.results import Results


def measured(label, method, eces, accuracy=0.9, scaled=1.0):
    """A method that measured so on two seeds, and so many times that with temperature scaling."""
    evaluations = []
    for ece in eces:
        values = {"ece": ece, "accuracy": accuracy, "ece_floor": 0.01, "ada_ece": ece, "nll": 0.3}
        scalers = {"none": {"test": {"plain": values}}}
        scalers["temperature"] = {"test": {"plain": {**values, "ece": scaled * ece}}}
        evaluations.append(Evaluation(150, 15, unknown_class=False, results=scalers))
    return Results(label, Part(method), evaluations, seeds=range(1, 1 + len(eces)))


def test_the_table_has_every_method_and_scaled_cross_entropy():
    made = quickstart.table(
        [measured("CE", "ce", [0.05, 0.051]), measured("Socrates", "socrates", [0.02, 0.021])]
    )
    assert list(made.columns[0].cells) == ["CE", "Socrates", "CE + TS"]
    assert [cell.plain for cell in made.columns[2].cells] == [
        "5.05 ± 0.07",
        "2.05 ± 0.07",
        "5.05 ± 0.07",
    ]


def test_the_best_is_bold_and_the_floor_stands_beside_it():
    made = quickstart.table(
        [
            measured("CE", "ce", [0.05, 0.051, 0.049]),
            measured("Socrates", "socrates", [0.02, 0.021, 0.019]),
        ]
    )
    assert [column.header for column in made.columns][2:4] == ["ECE (%)", "Floor (%)"]
    assert [cell.style for cell in made.columns[2].cells] == ["", "bold", ""]
    assert {cell.plain for cell in made.columns[3].cells} == {"1.00 ± 0.00"}
