"""Compare all methods on features and small images: the study behind results/.

    python studies/study.py [--features FOLDER] [--results results] [--minutes 60]
        [--parts digits clinc150 ...] [--seeds 10] [--dry-run]

FOLDER is what studies/embed.py wrote; without it, or while a file of it is missing, only the parts
whose data are at hand are run. Each part has one file of JSON lines in the results folder, one line
per run; only missing runs are trained. Every setting of every method is run with every seed, so
that one rule chooses among at most four settings for each: see studies/tables.py. After the given
minutes it stops; start it again to go on. --dry-run prints what is missing, and its core hours.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

from heads import run
from worlds import WORLDS, World

Options = dict[str, Any]

# At most four settings of each method: the same budget for all.
SETTINGS: dict[str, list[Options]] = {
    "ce": [{}],
    "brier": [{}],
    "focal": [{"gamma": gamma} for gamma in (0.5, 1.0, 2.0, 3.0)],
    "flsd": [{"gamma": gamma} for gamma in (1.0, 3.0)],
    "gamblers": [{"reward": reward, "start_share": 0.25} for reward in (2.2, 4.0, 6.0)],
    "sat": [{"alpha": alpha} for alpha in (0.9, 0.99)],
    "ce_dece": [{"weight": weight} for weight in (0.5, 1.0)],
    "ccl_sc": [{"weight": weight, "queue_size": 300} for weight in (0.1, 0.5)],
    "label_smoothing": [{"smoothing": share} for share in (0.02, 0.05, 0.1)],
    "mbls": [{"margin": margin} for margin in (2.5, 5.0, 10.0)],
    "mdca": [{"gamma": gamma} for gamma in (0.0, 1.0)],
    "dual_focal": [{"gamma": gamma} for gamma in (1.0, 2.0, 3.0)],
    "bsce_gra": [{"gamma": gamma} for gamma in (0.5, 1.0, 2.0)],
    "logit_norm": [{"temperature": value} for value in (0.02, 0.04, 0.1)],
    "crl": [{"weight": weight} for weight in (0.5, 1.0)],
    "regmixup": [{"mixup_alpha": alpha} for alpha in (1.0, 20.0)],
    "beta_penalty": [
        {"gamma": gamma, "weight": weight} for gamma in (0.0, 1.0) for weight in (0.5, 1.0)
    ],
    "socrates": [
        {"gamma": gamma, "alpha": alpha}
        for gamma, alpha in ((0.0, 0.9), (0.5, 0.9), (1.0, 0.9), (1.0, 0.99))
    ],
    "socrates:no-beta": [{"gamma": gamma, "alpha": 0.9} for gamma in (0.0, 1.0)],
}
# Wrong labels: what the adaptive target keeps, with cross-entropy stopped in time as the control.
ROBUST: dict[str, list[Options]] = {
    "ce": [{}],
    "sat": [{"alpha": 0.9}],
    "socrates": [{"gamma": 0.0, "alpha": 0.9}, {"gamma": 1.0, "alpha": 0.9}],
    "socrates:no-beta": [{"gamma": 0.0, "alpha": 0.9}],
}


class StudyPart(NamedTuple):
    """Runs that share a file: a data set, its options, the settings, and seconds of one run."""

    world: str
    options: Options
    settings: dict[str, list[Options]]
    seconds: float
    seeds: int = 10


def noisy(world: str, share: float, seconds: float) -> StudyPart:
    return StudyPart(world, {"noise": share}, ROBUST, seconds)


# In the order in which they are run: the cheapest evidence first.
PARTS: dict[str, StudyPart] = {
    "digits": StudyPart("digits", {}, SETTINGS, 4),
    "digits-noise-20": noisy("digits", 0.2, 6),
    "digits-noise-40": noisy("digits", 0.4, 6),
    "clinc150": StudyPart("clinc150", {}, SETTINGS, 7),
    "cifar10": StudyPart("cifar10", {}, SETTINGS, 9),
    "cifar10n-aggregate": StudyPart("cifar10", {"people": "aggre_label"}, ROBUST, 15),
    "cifar10n-worst": StudyPart("cifar10", {"people": "worse_label"}, ROBUST, 15),
    "cifar10-noise-40": noisy("cifar10", 0.4, 15),
    "clinc150-noise-20": noisy("clinc150", 0.2, 12),
    "food101": StudyPart("food101", {}, SETTINGS, 20),
    "cifar100": StudyPart("cifar100", {}, SETTINGS, 45),
}


def missing(name: str, results: Path, seeds: int) -> Iterator[tuple[str, Options, int]]:
    """Yield the method, options and seed of each run that is not recorded yet."""
    part = PARTS[name]
    done: set[str] = set()
    file = results / f"{name}.jsonl"
    if file.exists():
        for line in file.read_text().splitlines():
            record = json.loads(line)
            done.add(json.dumps([record["method"], record["options"], record["seed"]]))
    for seed in range(1, min(seeds, part.seeds) + 1):
        for method, settings in part.settings.items():
            for options in settings:
                if json.dumps([method, options, seed]) not in done:
                    yield method, options, seed


@lru_cache(maxsize=1)
def world_of(name: str, seed: int, folder: Path) -> World:
    """Return the world of a part and a seed."""
    part = PARTS[name]
    return WORLDS[part.world](seed, folder, **part.options)


def append(file: Path, record: dict[str, Any]) -> None:
    """Add one line to a file of records."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as opened:
        opened.write(json.dumps(record) + "\n")


def main() -> None:
    """Run what is missing, part by part, until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    folder = os.environ.get("SOCRATES_FEATURES", "features")
    parser.add_argument("--features", type=Path, default=Path(folder))
    parser.add_argument("--results", type=Path, default=Path("results/records"))
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    total = 0.0
    for name in options.parts:
        count = len(list(missing(name, options.results, options.seeds)))
        hours = count * PARTS[name].seconds / 3600
        total += hours
        print(f"{name}: {count} runs are missing, about {hours:.1f} core hours")
    print(f"in all: about {total:.1f} core hours", flush=True)
    if options.dry_run:
        return
    end = time.monotonic() + 60 * options.minutes
    for name in options.parts:
        for method, settings, seed in list(missing(name, options.results, options.seeds)):
            if time.monotonic() > end:
                print("the time is up: start again to go on")
                return
            try:
                world = world_of(name, seed, options.features)
            except FileNotFoundError as error:
                print(f"{name}: left out, {error.filename} is missing", file=sys.stderr)
                break
            keep_best = PARTS[name].settings is ROBUST
            record = {"method": method, "options": settings, "seed": seed}
            record |= run(world, method, settings, seed, keep_best)
            append(options.results / f"{name}.jsonl", record)
        print(f"{name}: done", flush=True)


if __name__ == "__main__":
    main()
