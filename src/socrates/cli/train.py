"""`socrates train`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .shared import Dataset, MethodName, Model, console, experiment_of


@dataclass
class Train:
    """Train one run into its own directory; the same command again continues it, and does nothing once it is finished.

    Options of the method (--gamma 2 --alpha 0.99), of the model (--width 16) and of the data set (--image-size 32, the
    side that images are resized to, --augment false) are given by their names; `socrates list` shows them.
    """

    dataset: Dataset
    """A data set: see `socrates list`; or your own images, folder:PATH (a sub-folder for each class), npz:PATH."""
    model: Model
    """An architecture, or module:attribute."""
    method: MethodName
    """How to train, or module:attribute."""
    seed: int = 1
    """Decides initialisation, order, augmentation and dropout; never the split."""
    epochs: int | None = None
    """Instead of the data set's usual number."""
    batch_size: int | None = None
    """Instead of the usual size."""
    learning_rate: float | None = None
    """Instead of the usual rate."""
    backbone_factor: float | None = None
    """Of the rate for all but the head, for transfer learning."""
    sgd_momentum: float | None = None
    """Of SGD; --momentum is an option of some methods."""
    weight_decay: float | None = None
    """Of SGD."""
    halve_every: int | None = None
    """Epochs after which the rate is halved, again and again."""
    milestones: tuple[int, ...] | None = None
    """Epochs at which the rate is halved, instead."""
    num_train: int | None = None
    """Take a stratified subset of the training data."""
    num_bins: int = 15
    """Bins of the calibration metrics; the paper's recipes use 10."""
    keep_every: int = 25
    """Logits of val and test are kept at these epochs, and at the last."""
    precision: str = "32-true"
    """A Lightning Fabric precision: 32-true, bf16-mixed, 16-mixed, bf16-true, 16-true or 64-true."""
    device: str = "auto"
    """A Lightning Fabric accelerator: auto, cpu, cuda, mps."""
    out: Path = Path("runs")
    """Where run directories go."""
    data: Path | None = None
    """The data folder; SOCRATES_DATA, or a cache folder, if not given."""
    log: Literal["none", "tensorboard"] = "none"
    """Also write curves for TensorBoard, into the run directory."""


def run_train(options: Train, extra: dict[str, str]) -> None:
    """`socrates train`."""
    from socrates.engine.events import to_all
    from socrates.engine.studies.display import RunDisplay, TensorBoard
    from socrates.engine.train import train

    experiment = experiment_of(options, extra)
    listeners = [RunDisplay(console), *([TensorBoard()] if options.log == "tensorboard" else [])]
    train(
        experiment,
        options.out,
        data_root=options.data,
        accelerator=options.device,
        tell=to_all(*listeners),
    )
