"""The logits of a split at an epoch, a file of predictions/."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from socrates.files import refuse_bomb, replacing
from socrates.identity import FORMAT, Identity, check_format

Array = NDArray[Any]


class Predictions(NamedTuple):
    """Logits and labels (N,) of a split, and C, the number of known classes.

    Logits are (N, C) or, with an unknown class, (N, C + 1). Those of the test data of a kept model
    have their novelty (N,), too, so that it can be evaluated without the model.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "val-0001.npz")
    >>> whose = Identity("digits-mlp-ce-seed1", 1, "val")
    >>> Predictions(np.zeros((2, 3)), np.array([0, 2]), 3).write(path, whose)
    >>> identity, predictions = Predictions.read(path)
    >>> identity == whose, predictions.labels
    (True, array([0, 2], dtype=int32))
    """

    logits: Array
    labels: Array
    num_classes: int
    novelty: Array | None = None

    def write(self, path: Path, identity: Identity) -> None:
        """Write them to a file, in single precision, with whose they are."""
        extra: dict[str, Any] = {}
        if self.novelty is not None:
            extra["novelty"] = self.novelty.astype(np.float32)
        with replacing(path) as file:
            np.savez_compressed(
                file,
                logits=self.logits.astype(np.float32),
                labels=self.labels.astype(np.int32),
                num_classes=np.int32(self.num_classes),
                format=np.array(FORMAT),
                run=np.array(identity.run),
                epoch=np.array(identity.epoch),
                split=np.array(identity.split),
                **extra,
            )

    @classmethod
    def read(cls, path: Path) -> tuple[Identity, Predictions]:
        """Return what `write` wrote; a damaged file raises whatever numpy does."""
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise ValueError("it is not a file")
        with open(path, "rb") as file, np.load(file) as stored:
            refuse_bomb(stored.zip, path)
            check_format(str(stored["format"]) if "format" in stored else None)
            identity = Identity(str(stored["run"]), int(stored["epoch"]), str(stored["split"]))
            logits = stored["logits"]
            novelty = stored.get("novelty")
            return identity, cls(logits, stored["labels"], int(stored["num_classes"]), novelty)
