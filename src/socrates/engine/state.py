"""What a checkpoint holds: enough to go on bitwise as if training had never stopped."""

import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from socrates.contracts import Method, Split
from socrates.files import replacing

ADVICE = "delete it to train from the start"


@dataclass
class State:
    """What is trained, and on what; everything but the data is in a checkpoint."""

    model: nn.Module
    method: Method
    optimizer: torch.optim.Optimizer
    train: Split
    meta: Split | None  # the method's own share of the training data, held back from `train`
    precision: Any  # of Fabric: it scales the loss of half precision
    epoch: int = 0  # whole epochs done
    saved: int = 0  # whole epochs that the checkpoint holds
    best: dict[str, Any] = field(default_factory=dict)  # weights of the epoch that is chosen so far, unless the last is

    def steps(self, batch_size: int) -> int:
        """Of an epoch."""
        return -(-len(self.train) // batch_size)

    def save(self, path: Path) -> None:
        """Write it whole or not at all."""
        content = {
            "epoch": self.epoch,
            "best": self.best,
            **{name: part.state_dict() for name, part in self._parts().items()},
        }
        with replacing(path) as file:
            try:
                torch.save(content, file)
            except RuntimeError as error:  # how torch says that not all could be written
                raise error.__context__ if isinstance(error.__context__, OSError) else OSError(str(error)) from error
        self.saved = self.epoch

    def load(self, path: Path, epochs: int) -> None:
        """Take over a checkpoint of a run of so many epochs; one that is damaged or of another run is named."""
        try:
            with zipfile.ZipFile(path) as archive:
                if archive.testzip() is not None:  # torch reads flipped bits without a word
                    raise ValueError("its checksum is wrong")
            content = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # pickle, zip and end-of-file errors alike
            raise ValueError(f"{path} is damaged ({_first(error)}): {ADVICE}") from error
        try:
            self._take(content, epochs)
        except (ValueError, TypeError, LookupError, AttributeError, RuntimeError) as error:
            raise ValueError(f"{path} is not of this run ({_first(error)}): {ADVICE}") from error
        self.saved = self.epoch

    def keep_weights(self) -> None:
        """Remember the weights as they are now."""
        self.best = {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()}

    def _parts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("model", "method", "optimizer", "precision")}

    def _take(self, content: dict[str, Any], epochs: int) -> None:
        epoch = content["epoch"]
        if type(epoch) is not int or not 1 <= epoch <= epochs:
            raise ValueError(f"it was saved after epoch {epoch!r} of {epochs}")
        self.epoch, self.best = epoch, content.get("best", {})
        self.method.start_epoch(epoch - 1, self.model)  # a method may build parts of itself from the model
        for name, part in self._parts().items():
            if name != "precision" or content.get(name):  # earlier versions did not save it, and most keep nothing
                part.load_state_dict(content[name])
        for parameter, kept in self.optimizer.state.items():
            for name, value in kept.items():
                if isinstance(value, torch.Tensor) and value.dim() and value.shape != parameter.shape:
                    raise ValueError(f"{name} has the shape {tuple(value.shape)}, not {tuple(parameter.shape)}")

    @property
    def num_bytes(self) -> int:
        """About what a checkpoint takes: model, method, and the optimizer's momentum."""
        tensors = [*self.model.state_dict().values(), *self.method.state_dict().values(), *self.model.parameters()]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors if isinstance(tensor, torch.Tensor))


def _first(error: Exception) -> str:
    """What an error says, in one line: torch lists every parameter that does not fit."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = lines[1] if len(lines) > 1 and lines[0].startswith("Error(s) in loading") else "".join(lines[:1])
    return told if isinstance(error, ValueError | RuntimeError) else f"{type(error).__name__}: {told}"
