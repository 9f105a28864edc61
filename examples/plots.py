"""Draw all plots of `socrates.plots` in one picture.

Five classifiers of scikit-learn are trained on 300 images of digits. Run it with
`python examples/plots.py [FILE]`; it takes some seconds.
"""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.text import Text
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from socrates import metrics, plots

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "plots.png"
FONT_SIZE = 9
MODELS = {
    "logistic regression": LogisticRegression(C=300, max_iter=2000),
    "the same, shrunk": LogisticRegression(C=10, max_iter=2000),
    "random forest": RandomForestClassifier(random_state=0),
    "5 neighbors": KNeighborsClassifier(5),
    "naive Bayes": GaussianNB(var_smoothing=0.05),
}


def draw(num_resamples: int = 1000) -> Figure:
    """Draw the six plots, four of them for the first model."""
    images, digits = load_digits(return_X_y=True)
    split = train_test_split(images / 16, digits, train_size=300, random_state=0, stratify=digits)
    train_images, test_images, train_labels, labels = split
    probs = {
        name: model.fit(train_images, train_labels).predict_proba(test_images)
        for name, model in MODELS.items()
    }
    intervals = {
        name: metrics.bootstrap(metrics.ece, model_probs, labels, num_resamples=num_resamples)
        for name, model_probs in probs.items()
    }
    floors = {name: metrics.floor(metrics.ece, model_probs) for name, model_probs in probs.items()}
    points = {
        name: (1 - metrics.accuracy(model_probs, labels), metrics.ece(model_probs, labels))
        for name, model_probs in probs.items()
    }

    figure = Figure(figsize=(13, 9), layout="constrained")
    ((first, second, third), (fourth, fifth, sixth)) = figure.subplots(2, 3)
    name, first_probs = next(iter(probs.items()))
    drawn = [
        plots.reliability(first_probs, labels, title=name, ax=first),
        plots.confidence_histogram(first_probs, labels, title=name, ax=second),
        plots.risk_coverage(first_probs, labels, title=name, ax=third),
        plots.corp(first_probs, labels, title=name, ax=fourth),
    ]
    title = "ECE with 95% intervals, and the chance floor"
    drawn.append(plots.forest(intervals, floors, title=title, ax=fifth))
    for axes in drawn:  # below the axes, where it hides nothing
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False)
    plots.pareto(points, ax=sixth)
    for text in figure.findobj(Text):
        text.set_fontsize(FONT_SIZE)
    return figure


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    draw().savefig(path, dpi=80, metadata={"Software": None})
    print(f"picture: {path}")


if __name__ == "__main__":
    main()
