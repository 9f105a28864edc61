"""Write the tables of results/README.md from its records.

    python studies/tables.py [--results results/records] [--out results/README.md]

One rule chooses the settings of every method: the lowest mean validation NLL, as trained for the
column "as trained", after temperature scaling (fitted on the other half of the validation samples)
for the scaled columns. Test samples take no part in it. Differences are paired by seed, with 95%
intervals of Student's t. The text between the marks of a part is replaced, the rest is kept.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scipy.stats import t

Record = dict[str, Any]
Group = list[Record]

SHOWN = {"readout": "read-out", "temperature": "temperature", "structured": "structured"}


def groups(records: Sequence[Record]) -> dict[str, Group]:
    """Return the records of each method and setting."""
    result: dict[str, Group] = defaultdict(list)
    for record in records:
        result[json.dumps([record["method"], record["options"]])].append(record)
    return result


def chosen(settings: dict[str, Group], rule: str) -> dict[str, Group]:
    """Return the setting of each method with the lowest mean of a validation score."""
    best: dict[str, Group] = {}
    for group in settings.values():
        method = group[0]["method"]
        if method not in best or mean(group, rule) < mean(best[method], rule):
            best[method] = group
    return best


def mean(group: Group, *path: str) -> float:
    """Return the mean of a number over seeds."""
    return statistics.mean(values(group, *path).values())


def values(group: Group, *path: str) -> dict[int, float]:
    """Return a number of each seed."""
    result: dict[int, float] = {}
    for record in group:
        number: Any = record
        for key in path:
            number = number[key]
        result[record["seed"]] = number
    return result


def difference(ours: dict[int, float], theirs: dict[int, float], factor: float = 100) -> str:
    """Return the mean difference over shared seeds, with its interval."""
    seeds = sorted(ours.keys() & theirs.keys())
    gaps = [factor * (ours[seed] - theirs[seed]) for seed in seeds]
    center = statistics.mean(gaps)
    if len(gaps) < 3:
        return f"{center:+.2f} ({len(gaps)} seeds)"
    half = float(t.ppf(0.975, len(gaps) - 1)) * statistics.stdev(gaps) / len(gaps) ** 0.5
    return f"{center:+.2f} [{center - half:+.2f}, {center + half:+.2f}]"


def options_text(group: Group) -> str:
    """Return the settings of a group, in a few words."""
    return ", ".join(f"{name} {value:g}" for name, value in group[0]["options"].items())


def best_scaled(group: Group) -> str:
    """Return the reading of the scaled columns: the read-out where there is one, else TS."""
    return "readout" if "readout" in group[0] else "temperature"


def method_table(records: Sequence[Record]) -> str:
    """Return the table of all methods of a part."""
    settings = groups(records)
    raw = chosen(settings, "val_nll")
    scaled = chosen(settings, "val_nll_scaled")
    reference = scaled["ce"]
    lines = [
        "| method (setting as trained; setting when scaled) | seeds | accuracy | ECE as trained | "
        "NLL as trained | ECE scaled | floor | NLL scaled | AURC, 1e-3 | E-AURC, 1e-3 | "
        "ECE scaled, minus CE + TS | AURC minus CE + TS, 1e-3 |",
        "|" + "---|" * 12,
    ]
    for method in raw:
        first, second = raw[method], scaled[method]
        how = best_scaled(second)
        lines.append(
            f"| {method} ({options_text(first)}; {options_text(second)}) | {len(second)} | "
            f"{100 * mean(second, how, 'accuracy'):.2f} | "
            f"{100 * mean(first, 'none', 'ece'):.2f} | {mean(first, 'none', 'nll'):.3f} | "
            f"{100 * mean(second, how, 'ece'):.2f} | {100 * mean(second, how, 'floor'):.2f} | "
            f"{mean(second, how, 'nll'):.3f} | {1000 * mean(second, how, 'aurc'):.1f} | "
            f"{1000 * mean(second, how, 'e_aurc'):.1f} | "
            + difference(values(second, how, "ece"), values(reference, "temperature", "ece"))
            + " | "
            + difference(
                values(second, how, "aurc"), values(reference, "temperature", "aurc"), 1000
            )
            + " |"
        )
    return "\n".join(lines)


def stranger_table(records: Sequence[Record]) -> str:
    """Return the AUROC of strangers by confidence and by the unknown class."""
    scaled = chosen(groups(records), "val_nll_scaled")
    pairs = sorted({name for record in records for name in record.get("strangers", {})})
    if not pairs:
        return ""
    lines = ["| AUROC of strangers, % | " + " | ".join(pairs) + " |", "|---|" + "---|" * len(pairs)]
    for method, group in scaled.items():
        cells = [
            f"{100 * mean(group, 'strangers', pair):.1f}" if pair in group[0]["strangers"] else ""
            for pair in pairs
        ]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def noise_table(records: Sequence[Record]) -> str:
    """Return the table of a part with wrong labels: at the end, and stopped by validation."""
    settings = groups(records)
    reference = next(group for group in settings.values() if group[0]["method"] == "ce")
    lines = [
        "| method | seeds | accuracy at the end | ECE as trained | ECE scaled | accuracy minus CE "
        "at the end | accuracy stopped | ECE stopped, as trained | epoch | accuracy at the end "
        "minus CE stopped | wrong labels found by target | by loss at the best epoch |",
        "|" + "---|" * 12,
    ]
    for group in settings.values():
        how = best_scaled(group)
        wrong = group[0].get("wrong_labels", {})
        by_target = (
            f"{100 * mean(group, 'wrong_labels', 'target'):.1f}" if "target" in wrong else ""
        )
        by_loss = mean(group, "wrong_labels", "loss at the best epoch")
        ends = values(group, "none", "accuracy")
        lines.append(
            f"| {group[0]['method']} {options_text(group)} | {len(group)} | "
            f"{100 * mean(group, 'none', 'accuracy'):.2f} | {100 * mean(group, 'none', 'ece'):.2f} "
            f"| {100 * mean(group, how, 'ece'):.2f} | "
            f"{difference(ends, values(reference, 'none', 'accuracy'))} | "
            f"{100 * mean(group, 'stopped', 'none', 'accuracy'):.2f} | "
            f"{100 * mean(group, 'stopped', 'none', 'ece'):.2f} | "
            f"{mean(group, 'stopped', 'epoch'):.0f} of {group[0]['epochs']} | "
            f"{difference(ends, values(reference, 'stopped', 'none', 'accuracy'))} | "
            f"{by_target} | {100 * by_loss:.1f} |"
        )
    return "\n".join(lines)


def section(file: Path) -> str:
    """Return the tables of one part."""
    records = [json.loads(line) for line in file.read_text().splitlines()]
    if not any(record["method"] == "ce" for record in records):
        return ""
    if "stopped" in records[0]:
        return noise_table(records)
    return "\n\n".join(filter(None, [method_table(records), stranger_table(records)]))


def main() -> None:
    """Replace the tables between their marks, and add those of new parts at the end."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("results/records"))
    parser.add_argument("--out", type=Path, default=Path("results/README.md"))
    options = parser.parse_args()
    text = options.out.read_text() if options.out.exists() else "# Results\n"
    for file in sorted(options.results.glob("*.jsonl")):
        tables = section(file)
        begin, end = f"<!-- {file.stem}: begin -->", f"<!-- {file.stem}: end -->"
        block = f"{begin}\n{tables}\n{end}"
        if begin in text:
            text = text[: text.index(begin)] + block + text[text.index(end) + len(end) :]
        else:
            text += f"\n### {file.stem}\n\n{block}\n"
    options.out.write_text(text)
    print(f"written: {options.out}")


if __name__ == "__main__":
    main()
