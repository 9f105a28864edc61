"""Measure how well the default recipe trains, and the paper's.

    python benchmarks/recipes.py [--data FOLDER] [--out runs/recipes] [--write]

Each run is `train DATASET cnn METHOD --num-train N --epochs E`, with one cycle of the learning rate
or as in the paper. The table shows the test accuracy of the last epoch in percent, without the
unknown class. SVHN is what the data folder holds under that name; if that is a part of it, the
table says how many test images there were. Only missing runs are trained. --write puts the table
into docs/models.md.
"""

import argparse
import re
from dataclasses import replace
from pathlib import Path

from socrates.engine import run_all
from socrates.experiment import Experiment, Part, usual_optimization
from socrates.records import Run

CASES = {
    "svhn": (8_000, 24),
    "cifar10": (8_000, 24),
    "fashion_mnist": (5_000, 20),
}  # training images, epochs
METHODS = (Part("ce"), Part("socrates", gamma=2.0))  # the default when the table was written
PAGE = Path(__file__).parents[1] / "docs" / "models.md"
MARKS = ("<!-- recipes: begin -->", "<!-- recipes: end -->")


def experiment(dataset: str, method: Part, recipe: str | None) -> Experiment:
    """Return what `train` runs with --epochs and --num-train alone, or with --recipe paper."""
    images, epochs = CASES[dataset]
    how = replace(usual_optimization(dataset, "cnn", method.name, images, recipe), epochs=epochs)
    return Experiment(Part(dataset), Part("cnn"), method, num_train=images, optimization=how)


def accuracy(run: Run) -> float:
    """Return the accuracy on the test set, in percent."""
    return 100 * run.evaluation().value("none", "test", "renormalize", "accuracy")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/recipes"))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    wanted = [
        experiment(name, method, recipe)
        for name in CASES
        for method in METHODS
        for recipe in (None, "paper")
    ]
    runs = run_all(wanted, options.out, data_root=options.data)
    trained = dict(zip(wanted, runs, strict=True))
    heads = [f"{method.name}, {recipe}" for method in METHODS for recipe in ("one cycle", "paper")]
    lines = [f"| cnn, test accuracy in % | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for name, (images, epochs) in CASES.items():
        row = [
            trained[experiment(name, method, recipe)]
            for method in METHODS
            for recipe in (None, "paper")
        ]
        tested = len(row[0].predictions("test", epochs).labels)
        cells = " | ".join(f"{accuracy(run):.1f}" for run in row)
        lines.append(
            f"| {name}, {images:,} training images, {epochs} epochs, {tested:,} test images | "
            f"{cells} |"
        )
    table = "\n".join(lines)
    print(table)
    if options.write:
        begin, end = MARKS
        page = re.sub(
            f"{begin}.*?{end}", f"{begin}\n{table}\n{end}", PAGE.read_text(), flags=re.DOTALL
        )
        PAGE.write_text(page)


if __name__ == "__main__":
    main()
