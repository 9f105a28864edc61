"""Simulate how often each way to choose a threshold breaks its promise.

    python benchmarks/abstention.py            # print the table
    python benchmarks/abstention.py --write    # also draw docs/pictures/abstention.png

The true risk is known here: confidence x is uniform, and an answer is wrong with probability
0.45 (1 - x)^1.5, so that the risk of answering above a threshold t is 0.18 (1 - t)^1.5. Each draw
is a calibration set. Every way chooses its threshold on it for a risk of 5%. The promise is broken
if the true risk at that threshold is higher.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from socrates.abstention import certify
from socrates.abstention.search import few_errors_probability

Array = NDArray[np.float64]
Choose = Callable[[Array, NDArray[np.bool_]], float]

RISK, DELTA = 0.05, 0.1
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "abstention.png"
BEST = 1 - (RISK / 0.18) ** (2 / 3)  # the lowest threshold whose true risk is RISK


def naive(confidence: Array, right: NDArray[np.bool_]) -> float:
    """Return the lowest threshold whose observed risk is at most RISK."""
    order = np.argsort(-confidence)
    observed = np.cumsum(~right[order]) / np.arange(1, len(order) + 1)
    allowed = np.flatnonzero(observed <= RISK)
    return float(confidence[order[allowed[-1]]]) if len(allowed) else 1.0


def bonferroni(confidence: Array, right: NDArray[np.bool_]) -> float:
    """Return the lowest of 200 thresholds that passes a test at the level DELTA / 200."""
    passed = [1.0]
    for threshold in np.arange(200) / 200:
        above = confidence >= threshold
        if (
            few_errors_probability(int((~right[above]).sum()), int(above.sum()), RISK)
            <= DELTA / 200
        ):
            passed.append(threshold)
    return min(passed)


def certified(confidence: Array, right: NDArray[np.bool_]) -> float:
    """Return the threshold of `socrates.abstention`, or 1 if it has none."""
    try:
        return certify(confidence, right, RISK, DELTA).threshold
    except ValueError:
        return 1.0


WAYS: dict[str, Choose] = {
    "naive: observed risk of 5%": naive,
    "Bonferroni over 200 thresholds": bonferroni,
    "socrates.abstention.certify": certified,
}


def simulate(num_samples: int, draws: int, seed: int = 0) -> dict[str, Array]:
    """Return the thresholds that each way chooses, one per draw."""
    rng = np.random.default_rng(seed)
    thresholds: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(draws):
        confidence = rng.random(num_samples)
        right = rng.random(num_samples) >= 0.45 * (1 - confidence) ** 1.5
        for way, choose in WAYS.items():
            thresholds[way].append(choose(confidence, right))
    return {way: np.array(chosen) for way, chosen in thresholds.items()}


def true_risk(thresholds: Array) -> Array:
    """Return the risk of answering above each threshold, in closed form."""
    return 0.18 * (1 - thresholds) ** 1.5


def table(thresholds_by_way: dict[str, Array], num_samples: int) -> str:
    """Return how often each way breaks its promise, and how much it answers."""
    draws = len(next(iter(thresholds_by_way.values())))
    setup = f"{num_samples:,} labeled samples, {draws:,} draws"
    lines = [f"| {setup} | risk above 5% | answered on average |", "|---|---|---|"]
    for way, thresholds in thresholds_by_way.items():
        broken = 100 * float((true_risk(thresholds) > RISK).mean())
        answered = 100 * float((1 - thresholds).mean())
        lines.append(f"| {way} | {broken:.1f}% of the draws | {answered:.1f}% |")
    lines.append(f"| the best possible, if the risk were known | never | {100 * (1 - BEST):.1f}% |")
    return "\n".join(lines)


def draw(thresholds_by_way: dict[str, Array], num_samples: int, path: Path) -> None:
    """Draw where the true risks lie, beside the promise."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    rows = figure.subplots(len(thresholds_by_way), 1, sharex=True)
    bins = np.linspace(0.02, 0.07, 26)  # wider than the steps of the risks, or some stay empty
    for axes, (way, thresholds) in zip(rows, thresholds_by_way.items(), strict=True):
        risks = true_risk(thresholds)
        broken = 100 * float((risks > RISK).mean())
        for part, colour in ((risks <= RISK, "#0072B2"), (risks > RISK, "#D55E00")):
            axes.hist(risks[part].clip(bins[0], bins[-1]), bins=bins, color=colour)
        axes.axvline(RISK, color="black", linewidth=1)
        axes.set(yticks=[], xlim=(bins[0], bins[-1]))
        axes.set_title(
            f"{way}: broken in {broken:.0f}% of the draws, "
            f"answers {100 * (1 - thresholds.mean()):.0f}%",
            loc="left",
            fontsize=9,
        )
        axes.spines[["top", "right", "left"]].set_visible(False)
    rows[-1].set_xticks([0.02, 0.03, 0.04, 0.05, 0.06, 0.07], ["2%", "3%", "4%", "5%", "6%", "7%"])
    rows[-1].set_xlabel(
        f"true share of wrong answers; the promise is at most 5% ({num_samples:,} labeled samples "
        "each)"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    thresholds = simulate(options.samples, options.draws)
    print(table(thresholds, options.samples))
    if options.write:
        draw(thresholds, options.samples, PICTURE)
        print(f"written: {PICTURE.relative_to(PICTURE.parents[2])}")


if __name__ == "__main__":
    main()
