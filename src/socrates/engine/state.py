"""The state of training: enough to continue bitwise as if it had never stopped, at any step."""

import io
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from socrates.contracts import Method, Split
from socrates.engine import checkpoint
from socrates.engine.checkpoint import ADVICE
from socrates.engine.ranks import Ranks
from socrates.experiment import Experiment
from socrates.files import reason_of
from socrates.records import read_experiment


def nothing() -> None:
    """Do nothing, as the default callback."""


@dataclass
class Gathered:
    """What the steps of an epoch have measured so far, for its record."""

    total: Tensor  # the sum of the losses of all samples
    # (N, outputs) of the training samples seen so far: training metrics cost no pass
    logits: Tensor
    clipped: Tensor  # how many steps had their gradient clipped, on the device
    seconds: float = 0.0
    skipped: list[int] = field(default_factory=list)  # steps that were left out


@dataclass
class State:
    """What is trained, and on which data; everything but the data is in a checkpoint."""

    experiment: Experiment
    model: nn.Module
    method: Method
    optimizer: torch.optim.Optimizer
    train: Split
    meta: Split | None  # the method's own share of the training data, held back from `train`
    precision: Any  # of Fabric: it scales the loss of half precision
    epoch: int = 0  # whole epochs done
    step: int = 0  # steps done of the epoch after them
    gathered: Gathered | None = None  # by these steps; None between epochs
    changing: bool = False  # in the middle of a step: this is not a state to save
    check: Callable[[], None] = nothing  # raises an error instead of letting a bad state be saved
    saved: tuple[int, int] = (0, 0)  # epochs and steps that the checkpoint holds
    # weights of the epoch that is chosen so far, unless the last is
    best: dict[str, Any] = field(default_factory=dict)

    @property
    def steps_per_epoch(self) -> int:
        """Return the number of optimizer steps in one epoch; the last batch may be smaller."""
        batch_size = self.experiment.optimization.batch_size
        return math.ceil(len(self.train) / batch_size)

    @property
    def device(self) -> torch.device:
        """Return where the model is trained."""
        return next(self.model.parameters()).device

    @property
    def done(self) -> tuple[int, int]:
        """Return the number of whole epochs done, and of steps of the next one."""
        return self.epoch, self.step

    def begin_epoch(self) -> Gathered:
        """Start the next epoch, unless one continues; return what it has gathered so far."""
        if self.gathered is None:
            self.method.start_epoch(self.epoch, self.model)
            logits = torch.zeros(len(self.train), self.method.num_outputs, device=self.device)
            clipped = torch.zeros((), dtype=torch.long, device=self.device)
            self.gathered = Gathered(torch.zeros((), device=self.device), logits, clipped)
        return self.gathered

    def end_epoch(self) -> None:
        """Count the epoch as done."""
        self.epoch += 1
        self.step = 0
        self.gathered = None

    def content(self) -> dict[str, Any]:
        """Return what a checkpoint holds."""
        content = {
            "experiment": self.experiment.to_json(),
            "epoch": self.epoch,
            "step": self.step,
            "best": self.best,
            **{name: part.state_dict() for name, part in self._parts().items()},
        }
        if self.gathered is not None:
            content |= {
                "gathered": {**vars(self.gathered)},
                "method_epoch": self.method.epoch_state(),
            }
        return content

    def save(self, path: Path) -> None:
        """Write a checkpoint whole or not at all, if the state is good."""
        self.check()
        checkpoint.write(path, self.content())
        self.saved = self.done

    def share(self, ranks: Ranks) -> None:
        """Give every rank the state of the first, if a run continues."""
        if ranks.alone:
            return
        # as a checkpoint, which is read to the CPU: a tensor would go to the first rank's device
        file = io.BytesIO()
        if self.done > (0, 0):
            torch.save(self.content(), file)
        saved = ranks.from_first(file.getvalue())
        if saved and not ranks.first:
            self._take(torch.load(io.BytesIO(saved), map_location="cpu", weights_only=True))

    def load(self, path: Path) -> None:
        """Load the last undamaged checkpoint, if there is one; refuse that of another run."""
        latest = checkpoint.read_latest(path)
        if latest is None:
            return
        file, content = latest
        try:
            self._take(content)
        except (ValueError, TypeError, LookupError, AttributeError, RuntimeError) as error:
            raise ValueError(f"{file} is not of this run ({reason_of(error)}): {ADVICE}") from error
        self.saved = self.done

    def keep_weights(self) -> None:
        """Remember the weights as they are now."""
        self.best = {
            name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()
        }

    def _parts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("model", "method", "optimizer", "precision")}

    def _take(self, content: dict[str, Any]) -> None:
        experiment = read_experiment(content["experiment"])
        if experiment != self.experiment:
            raise ValueError(f"it is of the run {experiment.name}")
        self.epoch = content["epoch"]
        self.step = content["step"]
        self.best = content["best"]
        # A method may build parts of itself from the model.
        started = self.epoch if "gathered" in content else self.epoch - 1
        self.method.start_epoch(started, self.model)
        for name, part in self._parts().items():
            if content[name] or name != "precision":  # most precisions keep nothing
                part.load_state_dict(content[name])
        if "gathered" in content:
            self.gathered = self._gathered(content["gathered"])
            self.method.load_epoch_state(content["method_epoch"])

    def _gathered(self, plain: dict[str, Any]) -> Gathered:
        gathered = Gathered(**plain)
        for name in ("total", "logits", "clipped"):
            setattr(gathered, name, getattr(gathered, name).to(self.device))
        return gathered
