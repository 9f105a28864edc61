"""Many runs at once: a pool of processes of one thread each, which beats one process of many threads."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path

import torch

from socrates.engine.train import train
from socrates.experiment import Experiment
from socrates.records import Run

# Threads that spin while they wait collapse as soon as anything else uses the cores.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}


def run_all(
    experiments: Sequence[Experiment],
    out: Path | str = "runs",
    *,
    data_root: Path | None = None,
    processes: int | None = None,
    done: Callable[[Run], None] | None = None,
) -> list[Run]:
    """Train every experiment that is not finished yet, on all cores; returns the runs in the order asked for."""
    processes = min(processes or os.cpu_count() or 1, len(experiments)) or 1
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)  # the children inherit it before they import torch
    try:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, mp_context=context, initializer=_one_thread) as pool:
            futures: dict[Future[Path], int] = {
                pool.submit(_train, experiment, str(out), data_root): number
                for number, experiment in enumerate(experiments)
            }
            directories: dict[int, Path] = {}
            try:
                for future in as_completed(futures):
                    directories[futures[future]] = future.result()
                    if done is not None:
                        done(Run(future.result()))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    return [Run(directories[number]) for number in range(len(experiments))]


def _one_thread() -> None:
    torch.set_num_threads(1)


def _train(experiment: Experiment, out: str, data_root: Path | None) -> Path:
    return train(experiment, out, data_root=data_root, accelerator="cpu").directory
