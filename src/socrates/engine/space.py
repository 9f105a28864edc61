"""Whether a run can be written at all: asked before anything is downloaded or trained."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from socrates.contracts import Splits
from socrates.engine.state import State
from socrates.experiment import Experiment

MEGABYTE = 2**20
SLACK = 64 * MEGABYTE
ADVICE = "choose another --out"


def check_writable(out: Path) -> None:
    """Refuse a folder that cannot be written, or not be made; nothing is left behind.

    >>> check_writable(Path(__file__))
    Traceback (most recent call last):
    OSError: runs cannot be written to ...space.py: it is a file; choose another --out
    """
    folder = nearest(out)
    if not folder.is_dir():
        raise OSError(f"runs cannot be written to {out}: {'it' if folder == out else folder} is a file; {ADVICE}")
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        raise OSError(f"runs cannot be written to {out}: {error.strerror or error}; {ADVICE}") from error


def nearest(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def check_space(out: Path, experiment: Experiment, splits: Splits, state: State) -> None:
    """Refuse before training if the disk cannot hold what the run will write: logits, and a checkpoint twice."""
    kept = experiment.optimization.epochs // experiment.keep_every + 1
    logits = 4 * (len(splits.val) + len(splits.test)) * (splits.num_classes + 1) * kept
    needed = logits + 2 * state.num_bytes + SLACK  # while a checkpoint replaces another, both are there
    free = shutil.disk_usage(nearest(out)).free
    if free < needed:
        raise OSError(
            f"{out} has {free / MEGABYTE:.0f} MB free, the run writes up to {needed / MEGABYTE:.0f} MB: "
            f"free some space, choose another --out, or keep fewer epochs with --keep-every"
        )
