"""What a checkpoint holds: enough to go on bitwise as if training had never stopped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from socrates.contracts import Method
from socrates.records import replacing


@dataclass
class State:
    """Everything that a checkpoint holds."""

    model: nn.Module
    method: Method
    optimizer: torch.optim.Optimizer
    epoch: int = 0  # whole epochs done
    saved: int = 0  # whole epochs that the checkpoint holds

    def save(self, path: Path) -> None:
        """Write it whole or not at all."""
        content = {
            "epoch": self.epoch,
            "model": self.model.state_dict(),
            "method": self.method.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }
        with replacing(path) as file:
            try:
                torch.save(content, file)
            except RuntimeError as error:  # how torch says that not all could be written
                raise error.__context__ if isinstance(error.__context__, OSError) else OSError(str(error)) from error
        self.saved = self.epoch

    def load(self, path: Path) -> None:
        """Take over a checkpoint; a damaged one is named."""
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # pickle, zip and end-of-file errors alike
            raise ValueError(f"{path} is damaged ({error}): delete it to train from the start") from error
        self.epoch = self.saved = content["epoch"]
        self.method.start_epoch(self.epoch - 1, self.model)  # a method may build parts of itself from the model
        self.model.load_state_dict(content["model"])
        self.method.load_state_dict(content["method"])
        self.optimizer.load_state_dict(content["optimizer"])

    @property
    def num_bytes(self) -> int:
        """About what a checkpoint takes: model, method, and the optimizer's momentum."""
        tensors = [*self.model.state_dict().values(), *self.method.state_dict().values(), *self.model.parameters()]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors if isinstance(tensor, torch.Tensor))
