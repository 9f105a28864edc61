"""Why thresholds are certified: how often each way to choose one breaks its promise, in a world whose risk is known.

    python benchmarks/abstention.py            # prints the table
    python benchmarks/abstention.py --write    # also draws docs/pictures/abstention.png

The world: confidence x is uniform, an answer is wrong with probability 0.45 (1 - x)^1.5, so that the true risk of
answering above a threshold t is 0.18 (1 - t)^1.5. Each draw is a calibration set, on which every way chooses its
threshold for a risk of 5 %; the promise is broken if the true risk there is more.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from socrates.abstention import certify, few_errors_probability

Array = NDArray[np.float64]
Choose = Callable[[Array, NDArray[np.bool_]], float]

RISK, DELTA = 0.05, 0.1
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "abstention.png"
BEST = 1 - (RISK / 0.18) ** (2 / 3)  # the lowest threshold whose true risk is the one asked for


def naive(confidence: Array, right: NDArray[np.bool_]) -> float:
    """The lowest threshold whose observed risk is the one asked for."""
    order = np.argsort(-confidence)
    observed = np.cumsum(~right[order]) / np.arange(1, len(order) + 1)
    allowed = np.flatnonzero(observed <= RISK)
    return float(confidence[order[allowed[-1]]]) if len(allowed) else 1.0


def bonferroni(confidence: Array, right: NDArray[np.bool_]) -> float:
    """The lowest of 200 thresholds that passes a test at a level of delta / 200."""
    passed = [1.0]
    for threshold in np.arange(200) / 200:
        above = confidence >= threshold
        if few_errors_probability(int((~right[above]).sum()), int(above.sum()), RISK) <= DELTA / 200:
            passed.append(threshold)
    return min(passed)


def certified(confidence: Array, right: NDArray[np.bool_]) -> float:
    """That of `socrates.abstention`."""
    try:
        return certify(confidence, right, RISK, DELTA).threshold
    except ValueError:
        return 1.0


WAYS: dict[str, Choose] = {
    "naive: observed risk of 5 %": naive,
    "Bonferroni over 200 thresholds": bonferroni,
    "socrates.abstention.certify": certified,
}


def simulate(num_samples: int, draws: int, seed: int = 0) -> dict[str, Array]:
    """The thresholds that each way chooses, one a draw."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(draws):
        confidence = rng.random(num_samples)
        right = rng.random(num_samples) >= 0.45 * (1 - confidence) ** 1.5
        for way, choose in WAYS.items():
            found[way].append(choose(confidence, right))
    return {way: np.array(thresholds) for way, thresholds in found.items()}


def true_risk(thresholds: Array) -> Array:
    """Of answering above a threshold, in closed form."""
    return 0.18 * (1 - thresholds) ** 1.5


def table(found: dict[str, Array], num_samples: int) -> str:
    """How often each way breaks its promise, and how much it answers."""
    draws = len(next(iter(found.values())))
    lines = [
        f"| {num_samples:,} labelled samples, {draws:,} draws | risk above 5 % | answered on average |",
        "|---|---|---|",
    ]
    for way, thresholds in found.items():
        broken = 100 * float((true_risk(thresholds) > RISK).mean())
        lines.append(f"| {way} | {broken:.1f} % of the draws | {100 * float((1 - thresholds).mean()):.1f} % |")
    return "\n".join([*lines, f"| the best possible, if the risk were known | never | {100 * (1 - BEST):.1f} % |"])


def draw(found: dict[str, Array], num_samples: int, path: Path) -> None:
    """Where the true risks lie, beside the promise."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    rows = figure.subplots(len(found), 1, sharex=True)
    bins = np.linspace(0.02, 0.07, 76)
    for axes, (way, thresholds) in zip(rows, found.items(), strict=True):
        risks = true_risk(thresholds)
        broken = 100 * float((risks > RISK).mean())
        for part, colour in ((risks <= RISK, "#0072B2"), (risks > RISK, "#D55E00")):
            axes.hist(risks[part].clip(bins[0], bins[-1]), bins=bins, color=colour)
        axes.axvline(RISK, color="black", linewidth=1)
        axes.set(yticks=[], xlim=(bins[0], bins[-1]))
        axes.set_title(f"{way}: broken in {broken:.0f} % of the draws, answers {100 * (1 - thresholds.mean()):.0f} %",
                       loc="left", fontsize=9)  # fmt: skip
        axes.spines[["top", "right", "left"]].set_visible(False)
    rows[-1].set_xticks([0.02, 0.03, 0.04, 0.05, 0.06, 0.07], ["2 %", "3 %", "4 %", "5 %", "6 %", "7 %"])
    rows[-1].set_xlabel(f"true share of wrong answers, promised: at most 5 % ({num_samples:,} labelled samples each)")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    found = simulate(options.samples, options.draws)
    print(table(found, options.samples))
    if options.write:
        draw(found, options.samples, PICTURE)
        print(f"written: {PICTURE.relative_to(PICTURE.parents[2])}")


if __name__ == "__main__":
    main()
