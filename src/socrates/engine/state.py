"""What a checkpoint holds: enough to go on bitwise as if training had never stopped, also amid an epoch."""

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from socrates.contracts import Method, Split
from socrates.engine import checkpoint
from socrates.engine.checkpoint import ADVICE, first_line
from socrates.engine.ranks import Ranks
from socrates.experiment import Experiment
from socrates.records import read_experiment


def nothing() -> None:
    """Is done."""


@dataclass
class Gathered:
    """What the steps of an epoch that is not whole gave for its record."""

    total: Tensor  # the sum of the losses of all samples
    logits: Tensor  # (N, outputs) of the training samples seen so far: training metrics cost no pass
    seconds: float = 0.0
    skipped: list[int] = field(default_factory=list)  # steps that were left out


@dataclass
class State:
    """What is trained, and on what; everything but the data is in a checkpoint."""

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
    changing: bool = False  # in the middle of a step: this is no state to keep
    check: Callable[[], None] = nothing  # raises an error instead of letting a bad state be saved
    saved: tuple[int, int] = (0, 0)  # epochs and steps that the checkpoint holds
    best: dict[str, Any] = field(default_factory=dict)  # weights of the epoch that is chosen so far, unless the last is

    @property
    def steps(self) -> int:
        """Of an epoch."""
        return -(-len(self.train) // self.experiment.optimization.batch_size)

    @property
    def device(self) -> torch.device:
        """Where it is trained."""
        return next(self.model.parameters()).device

    @property
    def done(self) -> tuple[int, int]:
        """Whole epochs, and steps of the next one."""
        return self.epoch, self.step

    def begin_epoch(self) -> Gathered:
        """Tell the method of the next epoch, unless it goes on with one; what the epoch has gathered so far."""
        if self.gathered is None:
            self.method.start_epoch(self.epoch, self.model)
            logits = torch.zeros(len(self.train), self.method.num_outputs, device=self.device)
            self.gathered = Gathered(torch.zeros((), device=self.device), logits)
        return self.gathered

    def end_epoch(self) -> None:
        """One more is whole."""
        self.epoch, self.step, self.gathered = self.epoch + 1, 0, None

    def content(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        content = {
            "experiment": self.experiment.to_json(),
            "epoch": self.epoch,
            "step": self.step,
            "best": self.best,
            **{name: part.state_dict() for name, part in self._parts().items()},
        }
        if self.gathered is not None:
            content |= {"gathered": {**vars(self.gathered)}, "method_epoch": self.method.epoch_state()}
        return content

    def save(self, path: Path) -> None:
        """Write it whole or not at all, if it is good."""
        self.check()
        checkpoint.write(path, self.content())
        self.saved = self.done

    def share(self, ranks: Ranks) -> None:
        """Give every rank what the first one holds, if training goes on."""
        if ranks.alone:
            return
        file = io.BytesIO()  # as a checkpoint, which is read to the CPU: a tensor would go to the first rank's device
        if self.done > (0, 0):
            torch.save(self.content(), file)
        found = ranks.from_first(file.getvalue())
        if found and not ranks.first:
            self._take(torch.load(io.BytesIO(found), map_location="cpu", weights_only=True))

    def load(self, path: Path) -> None:
        """Take over the last checkpoint that is whole, if there is any; one of another run is named."""
        found = checkpoint.read_latest(path)
        if found is None:
            return
        try:
            self._take(found[1])
        except (ValueError, TypeError, LookupError, AttributeError, RuntimeError) as error:
            raise ValueError(f"{found[0]} is not of this run ({first_line(error)}): {ADVICE}") from error
        self.saved = self.done

    def keep_weights(self) -> None:
        """Remember the weights as they are now."""
        self.best = {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()}

    def _parts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("model", "method", "optimizer", "precision")}

    def _take(self, content: dict[str, Any]) -> None:
        epoch, step = self._place(content)
        self.epoch, self.step, self.best = epoch, step, content.get("best", {})
        # A method may build parts of itself from the model.
        self.method.start_epoch(epoch if "gathered" in content else epoch - 1, self.model)
        for name, part in self._parts().items():
            if name != "precision" or content.get(name):  # earlier versions did not save it, and most keep nothing
                part.load_state_dict(content[name])
        for parameter, kept in self.optimizer.state.items():
            for name, value in kept.items():
                if isinstance(value, Tensor) and value.dim() and value.shape != parameter.shape:
                    raise ValueError(f"{name} has the shape {tuple(value.shape)}, not {tuple(parameter.shape)}")
        if "gathered" in content:
            self.gathered = self._gathered(content["gathered"])
            self.method.load_epoch_state(content["method_epoch"])

    def _place(self, content: dict[str, Any]) -> tuple[int, int]:
        """Epochs and steps done, if the checkpoint is of this experiment and can be continued."""
        epoch, step, epochs = content["epoch"], content.get("step", 0), self.experiment.optimization.epochs
        if "experiment" in content and read_experiment(content["experiment"]) != self.experiment:
            raise ValueError(f"it is of the experiment {read_experiment(content['experiment']).name}")
        last = epochs - 1 if "gathered" in content else epochs
        if type(epoch) is not int or not ("gathered" not in content) <= epoch <= last:
            raise ValueError(f"it was saved after epoch {epoch!r} of {epochs}")
        steps = self.steps if "gathered" in content else 0
        if type(step) is not int or not min(steps, 1) <= step <= steps:
            raise ValueError(f"it was saved after step {step!r} of {steps}")
        return epoch, step

    def _gathered(self, plain: dict[str, Any]) -> Gathered:
        rows = len(plain["logits"])
        if rows != len(self.train):
            raise ValueError(f"it has seen {rows} training samples, there are {len(self.train)}")
        made = Gathered(**plain)
        made.total, made.logits = made.total.to(self.device), made.logits.to(self.device)
        return made

    @property
    def num_bytes(self) -> int:
        """About what a checkpoint takes: model, method, the optimizer's momentum, and the epoch's logits."""
        tensors = [*self.model.state_dict().values(), *self.method.state_dict().values(), *self.model.parameters()]
        kept = sum(tensor.numel() * tensor.element_size() for tensor in tensors if isinstance(tensor, Tensor))
        return kept + 4 * self.method.num_outputs * len(self.train)
