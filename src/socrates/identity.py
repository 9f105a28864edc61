"""Whose a file is: its format, its run and, where they apply, the epoch and split that it is of.

Every file of a run says so, and every reader compares it with experiment.json before it uses a
number: files of two runs have the same names and shapes, and checksums guard each file only
against itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from .files import reason_of, with_checksum, without_checksum

FORMAT = "1.0"  # of runs, models, scalers and checkpoints
EXPERIMENT_FILE = "experiment.json"  # it says which run a directory is
FINISHED_FILE = "finished.json"  # it says which epoch was chosen
RESTORE = "restore the file of this run, or train the run again"

Content = TypeVar("Content")


class ForeignFile(ValueError):
    """A file of another run, epoch, split or version than the one that was asked for."""


class Identity(NamedTuple):
    """Whose a file is.

    >>> print(Identity("digits-mlp-ce-seed1-1ab2c3d4", 4, "val"))
    val at epoch 4 of the run digits-mlp-ce-seed1-1ab2c3d4
    """

    run: str
    epoch: int | None = None
    split: str | None = None

    def __str__(self) -> str:
        split = "" if self.split is None else f"{self.split} at "
        epoch = "" if self.epoch is None else f"epoch {self.epoch} of "
        return f"{split}{epoch}the run {self.run}"

    def check(self, path: Path, found: Identity, directory: Path, advice: str = RESTORE) -> None:
        """Refuse a file of this run's directory that is another one's; the message names both.

        >>> ours = Identity("ce-seed1")
        >>> ours.check(Path("a/finished.json"), Identity("ce-seed2"), Path("a"))
        Traceback (most recent call last):
        socrates.identity.ForeignFile: a/finished.json is of the run ce-seed2, not of the run ...
        """
        if found == self:
            return
        if directory.name == found.run != self.run:
            raise ForeignFile(
                f"{directory / EXPERIMENT_FILE} is of the run {self.run}, but {path.name} and the "
                f"name of the folder say {found.run}: restore {EXPERIMENT_FILE}"
            )
        raise ForeignFile(f"{path} is of {found}, not of {self}: {advice}")


def check_format(found: object) -> None:
    """Refuse every format but that of this version.

    >>> check_format(2)
    Traceback (most recent call last):
    socrates.identity.ForeignFile: it has the format 2 of version 0.x, this version reads 1.0: ...
    """
    if found == FORMAT:
        return
    said = f"it has the format {found!r}"
    advice = "use the version that wrote it"
    if found is None:
        said = "it does not say its format, as in version 0.x"
    elif isinstance(found, int):
        said += " of version 0.x"
    if found is None or isinstance(found, int):
        advice = "make it again"
    raise ForeignFile(f"{said}, this version reads {FORMAT}: {advice}")


def signed(run: str, content: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a JSON file with its format, its run and a checksum over all of it."""
    return with_checksum({"format": FORMAT, "run": run, **content})


def unsigned(plain: Any, make: Callable[[dict[str, Any]], Content]) -> tuple[str, Content]:
    """Return the run of signed content, and what `make` makes of the rest.

    >>> unsigned(signed("ce-seed1", {"epoch": 4}), dict)
    ('ce-seed1', {'epoch': 4})
    """
    if not isinstance(plain, dict):
        raise ValueError(f"it holds {plain!r:.40}, not an object of names and values")
    check_format(plain.get("format"))
    signature = ("format", "run", "checksum")
    content = make({name: value for name, value in plain.items() if name not in signature})
    without_checksum(plain)  # not before: an error in the content says more
    return str(plain["run"]), content


def read_signed(
    path: Path, make: Callable[[dict[str, Any]], Content], advice: str = ""
) -> tuple[str, Content]:
    """Return the run of a JSON file and what `make` makes of the rest.

    An error names the file, and what to do.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise ValueError("it is not a file")
        return unsigned(json.loads(path.read_text(encoding="utf-8")), make)
    except FileNotFoundError:
        reason = advice or ": the run has not come that far"
        raise FileNotFoundError(f"{path} is not there{reason}") from None
    except ForeignFile as error:
        raise ForeignFile(f"{path} cannot be read: {error}") from error
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise ValueError(f"{path} is damaged ({reason_of(error)}){advice}") from error


def check_model(file: Path, found: Identity) -> None:
    """Refuse the model of another run, or of an epoch not chosen, in the directory of a run."""
    directory = file.parent
    if not (directory / EXPERIMENT_FILE).is_file():
        return
    run, _ = read_signed(directory / EXPERIMENT_FILE, dict)
    epoch = found.epoch
    if (directory / FINISHED_FILE).is_file():
        owner, summary = read_signed(directory / FINISHED_FILE, dict)
        Identity(run).check(directory / FINISHED_FILE, Identity(owner), directory)
        epoch = summary.get("epoch")
    Identity(run, epoch).check(file, found, directory)
