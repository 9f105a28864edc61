"""Faults on purpose: runs are killed at any moment, and the files of runs are damaged; what follows
is looked at.

`make chaos` writes docs/reliability.md. Children are forked from this process, which has imported
what is slow to import, so that faults land in training and in writes.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a process of several threads must not be forked

import socrates
from chaos_commands import SCENARIOS
from chaos_page import write_page
from chaos_runs import (
    Verdict,
    all_methods,
    command,
    damage,
    experiment_of,
    images,
    killed,
    numbers,
    stopped_and_finished,
    survives,
    warm_up,
    wrong_with,
)
from socrates.engine import evaluate, train
from socrates.engine.display import describe
from socrates.records import Run

ACTIONS = ("train", "evaluate", "show", "report", "load")
EVERY = 25  # mutations after which the whole report is made, which takes long
WAYS = ("truncate", "flip", "zero", "delete")


class Part(NamedTuple):
    """What a process is to do, of all."""

    folder: Path
    seed: int
    count: int
    until: float  # by the clock that all processes share


class Found(NamedTuple):
    """Faults by what was done and how it ended, and what must not have happened."""

    counts: Counter[tuple[str, str]]
    failures: list[str]


def kill_runs(part: Part) -> Found:
    """Kill so many children in the training of every method in turn, and compare the runs that they
    finish."""
    warm_up()
    chance, counts, failures = random.Random(part.seed), Counter[tuple[str, str]](), list[str]()
    expected: dict[str, Any] = {}
    names, kills, number, seconds = all_methods(), 0, part.seed, 1.0
    while kills < part.count and time.monotonic() < part.until:
        method, number = names[number % len(names)], number + 1
        experiment, out = experiment_of(method), part.folder / f"{part.seed}-{number}"
        if method not in expected:
            expected[method] = numbers(
                train(experiment, part.folder / f"whole-{part.seed}", accelerator="cpu")
            )
        try:
            while True:
                early, took = killed(experiment, out, chance, seconds)
                # however busy the machine is, most are killed before their end
                seconds = 0.8 * seconds + 0.2 * took
                if not early:
                    break
                kills += 1
                counts["kill -9", method] += 1
            if wrong := wrong_with(Run(out / experiment.name), expected[method]):
                failures.append(f"{method}: {wrong}")
            counts["runs compared", method] += 1
        except Exception:
            failures.append(f"{method}: {traceback.format_exc()}")
        shutil.rmtree(out, ignore_errors=True)
    return Found(counts, failures)


def damage_runs(part: Part) -> Found:
    """Damage one file of a run so many times, in turn every file in every way, and do everything
    with each."""
    warm_up()
    chance, counts, failures = random.Random(part.seed), Counter[tuple[str, str]](), list[str]()
    originals = stopped_and_finished(part.folder / f"originals-{part.seed}")
    name = experiment_of("socrates").name
    whole = Run(originals[1] / name)
    expected: dict[str, Any] = {
        "numbers": numbers(whole),
        "evaluation": whole.evaluation().to_json(),
    }
    expected["probabilities"] = socrates.load(whole.directory).predict(images()).probs.numpy()
    expected["evaluation then"] = evaluate(Run(originals[0] / name)).to_json()
    shown = [command("show", str(original / name))[1] for original in originals]
    expected["shown"] = "".join([*shown, *map(describe, whole.epochs())])
    cases = [
        (original, path.relative_to(original), how)
        for original in originals
        for path in sorted(original.rglob("*"))
        if path.is_file()
        for how in WAYS
    ]
    chance.shuffle(cases)
    for number in range(part.count):
        if time.monotonic() > part.until:
            break
        original, relative, how = cases[(number + part.seed * part.count) % len(cases)]
        damaged = part.folder / f"damaged-{part.seed}"
        shutil.copytree(original, damaged)
        state = random.Random(chance.random())
        done = damage(damaged / relative, how, state)
        counts["mutations", f"{relative.name.split('-0')[0]}"] += 1
        for action in (*ACTIONS, *(["whole report"] if number % EVERY == EVERY - 1 else [])):
            tried = part.folder / f"tried-{part.seed}"
            shutil.copytree(damaged, tried)
            try:
                counts[action, survives(action, tried, expected)] += 1
            except Verdict as verdict:
                failures.append(f"{original.name}/{relative.name} {done}: {action}: {verdict}")
            except Exception:
                failures.append(
                    f"{original.name}/{relative.name} {done}: {action}: {traceback.format_exc()}"
                )
            shutil.rmtree(tried)
        shutil.rmtree(damaged)
    return Found(counts, failures)


def other_faults(part: Part) -> Found:
    """Swaps between runs, killed commands, lost ranks and workers, and bad disks, once each."""
    warm_up()
    counts, failures = Counter[tuple[str, str]](), list[str]()
    for number, scenario in enumerate(SCENARIOS):
        if time.monotonic() > part.until or number >= part.count:
            counts["left out", scenario.__name__] += 1
            continue
        folder = part.folder / scenario.__name__
        folder.mkdir()
        try:
            for fault in scenario(folder, random.Random(part.seed)):
                counts["fault", fault] += 1
        except Verdict as verdict:
            failures.append(f"{scenario.__name__}: {verdict}")
        except Exception:
            failures.append(f"{scenario.__name__}: {traceback.format_exc()}")
    return Found(counts, failures)


def spread(
    work: Any, folder: Path, count: int, options: argparse.Namespace, processes: int
) -> Found:
    """The same in several processes, for at most a third of the minutes."""
    until = time.monotonic() + 20 * options.minutes
    shares = [count // processes + (k < count % processes) for k in range(processes)]
    parts = [Part(folder, options.seed + k, share, until) for k, share in enumerate(shares)]
    counts, failures = Counter[tuple[str, str]](), list[str]()
    with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
        for found in pool.map(work, parts):
            counts += found.counts
            failures += found.failures
    return Found(counts, failures)


def main() -> int:
    """All faults; 1 if one was not survived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--mutations", type=int, default=500)
    parser.add_argument(
        "--scenarios", type=int, default=len(SCENARIOS), help="of the faults beside one run"
    )
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="fewer faults if it takes longer"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path, default=Path("docs/reliability.md"))
    options = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        processes = options.processes
        kills = spread(kill_runs, Path(folder), options.kills, options, processes)
        mutations = spread(damage_runs, Path(folder), options.mutations, options, processes)
        others = spread(other_faults, Path(folder), options.scenarios, options, processes=1)
    failures = [*kills.failures, *mutations.failures, *others.failures]
    for failure in failures:
        print(failure, file=sys.stderr)
    write_page(options.page, kills, mutations, others, time.monotonic() - start)
    print(f"{options.page} is written: {len(failures)} faults were not survived")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
