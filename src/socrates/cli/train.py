"""`socrates train`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .options import Named, Where
from .output import console


@dataclass(kw_only=True)
class Train(Named, Where):
    """Train one run into its own directory; the same command again continues it, and does nothing once it is finished.

    With DATASET, MODEL and METHOD before it, --help also shows their own options, such as --gamma of a method, --width
    of a model, --image-size and --augment of a data set.
    """

    device: str = "auto"
    """A Lightning Fabric accelerator: auto, cpu, cuda, mps."""
    seed: int = 1
    """Decides initialisation, order, augmentation and dropout; never the split."""
    again: bool = False
    """Delete what is there of the run, and train it from the start."""
    log: Literal["none", "tensorboard"] = "none"
    """Also write curves for TensorBoard, into the run directory."""


def run_train(options: Train) -> None:
    """`socrates train`."""
    from socrates.engine.events import to_all
    from socrates.engine.studies.display import RunDisplay, TensorBoard
    from socrates.engine.train import train

    train(
        options.named_experiment(options.seed),
        options.out,
        data_root=options.data,
        accelerator=options.device,
        again=options.again,
        tell=to_all(RunDisplay(console), *([TensorBoard()] if options.log == "tensorboard" else [])),
    )
