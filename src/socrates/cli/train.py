"""`socrates train`."""

from __future__ import annotations

from socrates.engine.events import to_all
from socrates.engine.studies.display import RunDisplay, TensorBoard
from socrates.engine.train import train

from .commands import Train
from .output import console


def run_train(options: Train) -> None:
    """`socrates train`."""
    train(
        options.named_experiment(options.seed),
        options.out,
        data_root=options.data,
        accelerator=options.device,
        again=options.again,
        tell=to_all(RunDisplay(console), *([TensorBoard()] if options.log == "tensorboard" else [])),
    )
