"""The quickstart's table and sentences, from made-up numbers."""

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
    made = quickstart.table([measured("CE", "ce", [0.05, 0.051]), measured("Socrates", "socrates", [0.02, 0.021])])
    assert list(made.columns[0].cells) == ["CE", "Socrates", "CE + TS"]
    assert list(made.columns[2].cells) == ["5.05 ± 0.07", "2.05 ± 0.07", "5.05 ± 0.07"]


def test_sentences_follow_the_numbers():
    clear = quickstart.sentences([measured("CE", "ce", [0.05, 0.051]), measured("Socrates", "socrates", [0.02, 0.021])])
    assert "2.05 % against 5.05 %" in clear[0]
    assert "clearly, below" in clear[0]
    assert "no difference" in clear[1]
    assert "lowest ECE is that of Socrates (2.05 %)" in clear[2]
    tamed = quickstart.sentences([measured("CE", "ce", [0.05], scaled=0.1), measured("Socrates", "socrates", [0.02])])
    assert "lowest ECE is that of CE + TS (0.50 %)" in tamed[2]
    noisy = quickstart.sentences([measured("CE", "ce", [0.05, 0.01]), measured("Socrates", "socrates", [0.02, 0.06])])
    assert "within the noise of the seeds, above" in noisy[0]
