"""Predictor: preparation, model, scaler and reading in one module."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..abstention import Certificate, certify
from ..contracts import Inputs, image_hash
from ..metrics.predictions import READINGS, Prediction, Reading, predict, probabilities
from ..scaling import Scaler
from .description import Description
from .file_format import MODEL_FILE, Weights, write_file

BATCH = 256
NOT_NEW = "trained the model, chose its epoch or fitted its scaler: only images that are new to it can certify"


class Predictor(nn.Module):
    """Probabilities of the classes (N, C) from inputs as the data set gives them.

    Images are uint8 (N, channels, height, width) of any height and width: they are resized to what the model was
    trained on and normalised inside. With the reading "answer" there is a last column, for unknown.

    >>> from socrates.contracts import Preparation
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    >>> about = Description("nn", {}, 2, (1, 2, 2), ("cat", "dog"), Preparation(mean=(0.5,), std=(0.5,)))
    >>> predictor = Predictor(model, about)
    >>> predictor(torch.zeros(3, 1, 8, 8, dtype=torch.uint8)).shape, predictor.classes
    (torch.Size([3, 2]), ('cat', 'dog'))
    >>> predictor.predict(torch.zeros(3, 1, 2, 2, dtype=torch.uint8)).answered
    tensor([True, True, True])
    """

    constants: Tensor

    def __init__(
        self,
        model: nn.Module,
        about: Description,
        scalers: Mapping[str, Scaler] | None = None,
        seen: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.scalers = nn.ModuleDict(dict(scalers or {}))
        self.about = about
        self.use(about.scaler, about.reading)
        constants = about.preparation.constants() if about.preparation else torch.zeros(2, 1, 1, 1)
        self.register_buffer("constants", constants, persistent=False)
        self.seen = torch.zeros(0, dtype=torch.int64) if seen is None else seen  # hashes of images that cannot certify
        self.eval()

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the columns."""
        return self.about.classes

    @property
    def certificate(self) -> Certificate | None:
        """The promise that `answered` keeps, if there is one."""
        return self.about.certificate

    def use(self, scaler: str, reading: Reading | None) -> None:
        """Apply this scaler ("none" for none) and reading from now on; a certificate of others does not hold."""
        if scaler != "none" and scaler not in self.scalers:
            raise ValueError(f"there is no fitted scaler {scaler!r} here: choose from {['none', *self.scalers]}")
        if self.about.unknown_class and reading not in READINGS:
            raise ValueError(f"reading must be one of {', '.join(READINGS)}, got {reading!r}")
        reading = reading if self.about.unknown_class else None
        if (scaler, reading) != (self.about.scaler, self.about.reading):
            if self.certificate is not None:
                warnings.warn("the certificate was made for another scaler or reading, and is dropped", stacklevel=2)
            self.about = dataclasses.replace(self.about, scaler=scaler, reading=reading, certificate=None)

    def forward(self, inputs: Inputs) -> Tensor:
        return self.read(self.model(self.prepare(inputs)))

    def prepare(self, inputs: Inputs) -> Inputs:
        """What the model takes: images in its size, normalised."""
        if self.about.preparation is None or not isinstance(inputs, Tensor):
            return inputs
        self._check_images(inputs)
        size = self.about.image_shape[1:]
        return self.normalised(inputs if inputs.shape[2:] == size else resized(inputs, size))

    def normalised(self, images: Tensor) -> Tensor:
        """Images from 0 to 255, as the model was trained on them, in its precision."""
        return (images.to(self.constants.dtype) - self.constants[0]) * self.constants[1]

    def read(self, logits: Tensor) -> Tensor:
        """The probabilities that scaler and reading make of the model's logits."""
        return probabilities(self.scaled(logits), self.about.reading)

    def scaled(self, logits: Tensor) -> Tensor:
        """The logits after the scaler, in single precision."""
        name = self.about.scaler
        return logits.float() if name == "none" else self.scalers[name].transform(logits.float())  # pyright: ignore[reportCallIssue]

    def answered(self, confidence: Tensor, predicted: Tensor) -> Tensor:
        """Which samples it answers: those of a known class whose confidence reaches the certificate's threshold."""
        known = predicted < len(self.classes)
        return known if self.certificate is None else known & (confidence >= self.certificate.threshold)

    @torch.no_grad()
    def logits(self, inputs: Inputs | np.ndarray[Any, Any], batch_size: int = BATCH) -> Tensor:
        """The model's own logits, a batch at a time, neither scaled nor read; training is over from here on."""
        self.eval()
        device = next((one.device for one in self.model.parameters()), torch.device("cpu"))
        if isinstance(inputs, Mapping):
            return self.model({key: value.to(device) for key, value in inputs.items()}).float()
        batches = torch.as_tensor(inputs).split(batch_size)
        if not len(batches[0]):
            raise ValueError("there are no inputs: expected at least one")
        return torch.cat([self.model(self.prepare(batch.to(device))).float() for batch in batches])

    def predict(self, inputs: Inputs | np.ndarray[Any, Any], batch_size: int = BATCH) -> Prediction:
        """Probabilities, confidence, predicted class and whether it is `answered`, for any number of inputs."""
        return self.prediction(self.logits(inputs, batch_size))

    @torch.no_grad()
    def prediction(self, logits: Tensor) -> Prediction:
        """The same from logits of the model, such as those that a run keeps."""
        if logits.ndim != 2 or logits.shape[1] != self.about.num_outputs:
            raise ValueError(
                f"expected logits (N, {self.about.num_outputs}) of this model, got the shape {tuple(logits.shape)}"
            )
        found = predict(self.scaled(logits), self.about.reading)
        confidence, predicted = torch.as_tensor(found.confidence), torch.as_tensor(found.predicted)
        return dataclasses.replace(found, answered=self.answered(confidence, predicted))

    def certify(
        self, inputs_or_logits: Any, labels: Any, risk: float, delta: float = 0.1, **options: Any
    ) -> Certificate:
        """Find the threshold above which at most a share `risk` of the answers is wrong, and keep it.

        The samples must be new to the model: they neither trained it, nor chose its epoch, nor fitted its scaler, which
        is checked as far as images tell. A matrix of floats with a column for each output is taken for logits. See
        `socrates.abstention.certify`.
        """
        given: Any = inputs_or_logits if isinstance(inputs_or_logits, Mapping) else torch.as_tensor(inputs_or_logits)
        is_matrix = isinstance(given, Tensor) and given.ndim == 2 and given.is_floating_point()
        is_logits = is_matrix and (self.about.preparation is not None or given.shape[1] == self.about.num_outputs)
        if not is_logits and (known := self.seen_rows(given)):
            raise ValueError(f"image {known[0]} and {len(known) - 1} more {NOT_NEW}")
        found = self.prediction(given if is_logits else self.logits(given))
        confidence, predicted = torch.as_tensor(found.confidence), torch.as_tensor(found.predicted)
        labels = torch.as_tensor(labels).to(predicted.device)
        if labels.shape != (len(found),) or labels.is_floating_point():
            raise ValueError(f"expected one whole number as label for each of {len(found)} samples, got {labels.shape}")
        if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < len(self.classes):
            raise ValueError(
                f"labels must be 0 to {len(self.classes) - 1}, got {int(labels.min())} to {int(labels.max())}"
            )
        answers = confidence * (predicted < len(self.classes))  # unknown is none
        certificate = certify(answers, predicted == labels, risk, delta, **options)
        certificate = dataclasses.replace(certificate, threshold=single_precision(certificate.threshold))
        self.about = dataclasses.replace(self.about, certificate=certificate)
        return certificate

    def seen_rows(self, inputs: Inputs) -> list[int]:
        """Which inputs are images, in the size of training, that cannot certify: training or validation had them."""
        seen = set(self.seen.tolist()) if isinstance(inputs, Tensor) and inputs.dtype == torch.uint8 else set()
        return [row for row, image in enumerate(inputs) if image_hash(image.cpu()) in seen] if seen else []  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]

    def save(self, path: Path | str, *, weights: Weights = "full") -> Path:
        """Write all of it into one file, or into a folder's model.safetensors; `load` reads both.

        `weights` in half precision take half the size; with none only the scalers are kept.
        """
        path = Path(path)
        file = path if path.suffix == ".safetensors" else path / MODEL_FILE
        tensors = {f"scalers.{key}": value for key, value in self.scalers.state_dict().items()}
        if weights != "none":
            tensors |= {f"model.{key}": value for key, value in self.model.state_dict().items()} | {"seen": self.seen}
        if weights == "half":
            tensors = {key: _half(key, value) for key, value in tensors.items()}
        write_file(file, self.about, tensors)
        return file

    def push_to_hub(self, repo_id: str, *, run: Path | str | None = None, **options: Any) -> str:
        """Upload it with its card to the Hugging Face Hub; returns the address of the commit. Needs huggingface_hub.

        With `run`, the directory that it was trained in, the card has the test results. `options` are those of
        `huggingface_hub.PyTorchModelHubMixin.push_to_hub`, such as private=True; `socrates.hub` is the way back.
        """
        from ..hub import HubPredictor

        return HubPredictor(self, run=run).push_to_hub(repo_id, **options)

    def _check_images(self, images: Tensor) -> None:
        channels = self.about.image_shape[0]
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != channels:
            raise ValueError(
                f"expected uint8 images (N, {channels}, height, width) from 0 to 255, got {images.dtype} "
                f"{tuple(images.shape)}: convert them, or put the axes in this order"
            )

    def extra_repr(self) -> str:
        """Classes, scaler, reading and certificate."""
        about = self.about
        told = f"{len(about.classes)} classes, scaler={about.scaler!r}, reading={about.reading!r}"
        return told + (f", {self.certificate}" if self.certificate else "")


def resized(images: Tensor, size: tuple[int, int]) -> Tensor:
    """Float images of that height and width, as training resizes them."""
    return F.interpolate(images.float(), size=size, mode="bilinear", antialias=True)


def single_precision(threshold: float) -> float:
    """The least number of single precision that is no less: confidences reach both or neither.

    >>> single_precision(0.5), single_precision(0.9) >= 0.9
    (0.5, True)
    """
    nearest = np.float32(threshold)
    return float(nearest if float(nearest) >= threshold else np.nextafter(nearest, np.float32(np.inf)))


def _half(key: str, value: Tensor) -> Tensor:
    """Weights of the model in half precision, all else as it is."""
    if not key.startswith("model.") or not value.is_floating_point():
        return value
    if not bool(torch.isfinite(value.half()).all() | ~torch.isfinite(value).all()):
        raise ValueError(f"{key} has weights beyond what half precision holds: keep them in full")
    return value.half()
