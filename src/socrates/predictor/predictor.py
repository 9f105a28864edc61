"""Predictor: preparation, model, scaler and reading in one module."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..abstention import Certificate
from ..arrays.open import ArrayLike, as_numpy, as_tensor
from ..contracts import Inputs
from ..data.image import fitted
from ..data.thumbnail import SIDE, thumbnails
from ..metrics.predictions import READINGS, Prediction, Reading, predict, probabilities
from ..novelty import NoveltyScore
from ..novelty import describe as describe_novelty
from ..scaling import Scaler
from .certifying import accepted, certify_predictions, drop, uncertified, valid_certificate
from .description import Description
from .file_format import MODEL_FILE, Weights, tensors_of, write_file
from .inputs import Picture, as_pictures, read_pictures
from .scalers import MissingScaler, describe_all
from .seen import new_rows
from .strangeness import (
    check_fits,
    check_limit,
    divided_by_label,
    logits_and_novelty,
    novelty_of_logits,
)
from .weights import device_of, dtype_of, half

BATCH = 256


class Predictor(nn.Module):
    """Turn inputs into probabilities of the classes (N, C): prepare, model, scaler, reading.

    Images are uint8 (N, channels, height, width) of any height and width: their centers are resized
    to what the model was trained on and normalized inside. With the reading "answer" there is a
    last column, for unknown.

    >>> from socrates.contracts import Preparation
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    >>> preparation = Preparation(mean=(0.5,), std=(0.5,))
    >>> about = Description("nn", {}, 2, (1, 2, 2), ("cat", "dog"), preparation)
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
        novelty: NoveltyScore | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.scalers = nn.ModuleDict(dict(scalers or {}))
        check_fits(novelty, model, len(about.classes))
        self.novelty = novelty
        self.about = dataclasses.replace(
            about,
            scalers=describe_all(self.scalers),
            novelty=None if novelty is None else describe_novelty(novelty),
        )
        self.use(about.scaler, about.reading)
        constants = about.preparation.constants() if about.preparation else torch.zeros(2, 1, 1, 1)
        self.register_buffer("constants", constants, persistent=False)
        # Thumbnails (N, 64) of images that cannot certify.
        self.seen = torch.zeros(0, SIDE * SIDE, dtype=torch.uint8) if seen is None else seen
        if self.seen.dtype != torch.uint8 or self.seen.shape[1:] != (SIDE * SIDE,):
            raise ValueError(
                f"seen must be uint8 thumbnails (N, {SIDE * SIDE}), got {self.seen.dtype} "
                f"{tuple(self.seen.shape)}"
            )
        self.eval()

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the names of the classes, in the order of the columns."""
        return self.about.classes

    @property
    def certificate(self) -> Certificate | None:
        """Return the promise that `answered` keeps, if there is one."""
        return self.about.certificate

    @property
    def missing_scalers(self) -> dict[str, MissingScaler]:
        """Return the scalers that cannot be used here: their classes are not in SCALERS."""
        return {
            name: scaler
            for name, scaler in self.scalers.items()
            if isinstance(scaler, MissingScaler)
        }

    def use(self, scaler: str, reading: Reading | None) -> None:
        """Apply this scaler ("none" for none) and reading from now on.

        A certificate for another scaler or reading does not hold, and is dropped with a warning.
        """
        missing = self.missing_scalers
        usable = ["none", *(name for name in self.scalers if name not in missing)]
        if scaler in missing:
            raise ValueError(f"{missing[scaler].reason}; or choose from {usable}")
        if scaler not in usable:
            raise ValueError(f"there is no fitted scaler {scaler!r} here: choose from {usable}")
        if self.about.unknown_class and reading not in READINGS:
            raise ValueError(f"reading must be one of {', '.join(READINGS)}, got {reading!r}")
        reading = reading if self.about.unknown_class else None
        if (scaler, reading) != (self.about.scaler, self.about.reading):
            drop(self, "another scaler or reading")
            self.about = dataclasses.replace(self.about, scaler=scaler, reading=reading)

    def decline_above(self, strange: float) -> None:
        """Decline inputs whose novelty is above this share from now on; 1 declines none.

        A certificate for another limit does not hold, and is dropped with a warning.
        """
        strange = check_limit(strange)
        if strange != self.about.strange:
            drop(self, "another limit of novelty")
            self.about = dataclasses.replace(self.about, strange=strange)

    def forward(self, inputs: Inputs) -> Tensor:
        return self.read(self.model(self.prepare(inputs)))

    def prepare(self, inputs: Inputs) -> Inputs:
        """Return what the model takes: images in its size, normalized."""
        if self.about.preparation is None or not isinstance(inputs, Tensor):
            return inputs
        self._check_images(inputs)
        has_size = inputs.shape[2:] == self.about.image_shape[1:]
        return self.normalized(inputs if has_size else self.fitted(inputs))

    def fitted(self, images: Tensor) -> Tensor:
        """Return the centers of images, resized to what the model sees, as training does."""
        preparation = self.about.preparation
        shrink = preparation is None or preparation.shrink
        return fitted(images, self.about.image_shape[1:], shrink)

    def normalized(self, images: Tensor) -> Tensor:
        """Return images from 0 to 255 normalized as in training, in the model's precision."""
        return (images.to(self.constants.dtype) - self.constants[0]) * self.constants[1]

    def read(self, logits: Tensor) -> Tensor:
        """Return the probabilities that scaler and reading make of the model's logits."""
        return probabilities(self.scaled(logits), self.about.reading)

    def scaled(self, logits: Tensor) -> Tensor:
        """Return the logits after the scaler, in single precision."""
        logits = logits.float()
        if self.about.scaler == "none":
            return logits
        scaler = self.scalers[self.about.scaler]
        # A Scaler of ours looks at what it is called on, which an exported program cannot.
        return scaler.transform(logits) if isinstance(scaler, Scaler) else scaler(logits)

    def answered(
        self, confidence: Tensor, predicted: Tensor, novelty: Tensor | None = None
    ) -> Tensor:
        """Return which samples are answered: a known class, not too strange, confident enough."""
        known = predicted < len(self.classes)
        if novelty is not None:
            known = known & (novelty.to(known.device) <= self.about.strange)
        if self.certificate is None:
            return known
        return known & accepted(self.certificate, self.classes, confidence, predicted, novelty)

    @torch.no_grad()
    def logits(
        self, inputs: Inputs | ArrayLike | Picture | Sequence[Picture], batch_size: int = BATCH
    ) -> Tensor:
        """Return the model's own logits, neither scaled nor read, and leave it in eval mode."""
        return self.measure(inputs, batch_size, novelty=False)[0]

    @torch.no_grad()
    def measure(
        self,
        inputs: Inputs | ArrayLike | Picture | Sequence[Picture],
        batch_size: int = BATCH,
        *,
        novelty: bool = True,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the model's own logits and, if it has a score for it, the novelty of the inputs.

        `prediction` takes both.
        """
        self.eval()
        score = self.novelty if novelty else None
        device = device_of(self.model)
        samples = self._open_inputs(inputs)
        if isinstance(samples, Mapping):
            moved = {key: value.to(device) for key, value in samples.items()}
            logits, strangeness = logits_and_novelty(self.model, score, moved)
            return logits.float(), strangeness
        batches = samples.split(batch_size)
        if not len(batches[0]):
            raise ValueError("there are no inputs: expected at least one")
        logits_of: list[Tensor] = []
        novelty_of: list[Tensor] = []
        for batch in batches:
            prepared = self.prepare(batch.to(device))
            logits, strangeness = logits_and_novelty(self.model, score, prepared)
            logits_of.append(logits.float())
            if strangeness is not None:
                novelty_of.append(strangeness)
        return torch.cat(logits_of), torch.cat(novelty_of) if novelty_of else None

    def predict(
        self, inputs: Inputs | ArrayLike | Picture | Sequence[Picture], batch_size: int = BATCH
    ) -> Prediction:
        """Return probabilities, confidence, predicted class, novelty and `answered` of the inputs.

        Inputs are a tensor or array as in training, or image files and images of Pillow, one or a
        list of them, of any sizes. `answered` are known classes that are not too strange and, with
        a certificate, confident enough.
        """
        logits, novelty = self.measure(inputs, batch_size)
        return self.prediction(logits, novelty)

    @torch.no_grad()
    def prediction(self, logits: ArrayLike, novelty: ArrayLike | None = None) -> Prediction:
        """Return the prediction for logits of this model, such as those that a run keeps.

        Pass the novelty (N,) that `measure` returned with them. Without it, it is computed where
        the score takes logits alone; otherwise there is none, with a warning.
        """
        rows = as_tensor(logits, "logits")
        if rows.ndim != 2 or rows.shape[1] != self.about.num_outputs:
            raise ValueError(
                f"expected logits (N, {self.about.num_outputs}) of this model, got the shape "
                f"{tuple(rows.shape)}"
            )
        result = predict(self.scaled(rows), self.about.reading)
        confidence = torch.as_tensor(result.confidence)
        predicted = torch.as_tensor(result.predicted)
        strangeness = novelty_of_logits(self.novelty, rows, novelty, self.about.strange)
        answered = self.answered(confidence, predicted, strangeness)
        return dataclasses.replace(result, answered=answered, novelty=strangeness)

    def certify(
        self,
        inputs: Inputs | ArrayLike | Picture | Sequence[Picture] | None = None,
        labels: ArrayLike | None = None,
        *,
        risk: float,
        delta: float = 0.1,
        logits: ArrayLike | None = None,
        novelty: ArrayLike | None = None,
        thresholds: Sequence[float] | None = None,
        strangers: Inputs | ArrayLike | None = None,
        share: float | None = None,
        strangers_from: str = "",
        unknown_label: bool = False,
    ) -> Certificate:
        """Find and keep the threshold above which at most a share `risk` of the answers is wrong.

        Pass the inputs of labeled samples, or the `logits` and, if there is any, the `novelty` that
        `measure` returns for them. Labels are class numbers, or names of classes. The samples must
        be new to the model: they neither trained it, nor chose its epoch, nor fitted its scaler.
        Images are compared with those that the model remembers: up to 2% that look like one of them
        are left out with a warning, more are refused. Logits are taken on trust. With `strangers`,
        inputs of none of the classes, the promise holds for any share of strangers like them up to
        `share`; `strangers_from` names them in the certificate. With `unknown_label`, inputs
        labeled C, the number of classes, or "unknown" are these strangers. See
        `socrates.abstention.certify`.
        """
        if (inputs is None) == (logits is None) or labels is None:
            raise ValueError(
                "certify takes labels and either inputs or logits: write certify(inputs, labels, "
                "risk=0.05), or certify(labels=labels, logits=logits, risk=0.05)"
            )
        if unknown_label:
            if logits is not None or strangers is not None:
                raise ValueError("unknown_label divides inputs: leave logits and strangers out")
            samples = self._open_inputs(inputs)
            inputs, labels, strangers = divided_by_label(samples, labels, len(self.classes))
        with uncertified(self):
            if logits is None:
                samples, labels = self._new_samples(inputs, labels)
                known = self.predict(samples)
            else:
                known = self.prediction(logits, novelty)
            others = None if strangers is None else self.predict(strangers)
        return certify_predictions(
            self,
            known,
            labels,
            risk,
            delta,
            thresholds=thresholds,
            strangers=others,
            share=share,
            source=strangers_from,
        )

    def _new_samples(self, inputs: Any, labels: ArrayLike) -> tuple[Inputs, ArrayLike]:
        """Return inputs and labels without images that training or validation had."""
        samples = self._open_inputs(inputs)
        if not isinstance(samples, Tensor) or samples.dtype != torch.uint8 or not len(self.seen):
            return samples, labels
        names = [str(getattr(item, "filename", item)) for item in as_pictures(inputs) or ()]
        rows = new_rows(self.thumbnails(samples), self.seen, names)
        if len(rows) == len(samples):
            return samples, labels
        return samples[rows], as_numpy(labels, "labels")[rows.numpy()]

    def thumbnails(self, images: Tensor) -> Tensor:
        """Return thumbnails of images of any size, by which those of training are recognized."""
        self._check_images(images)
        has_size = images.shape[2:] == self.about.image_shape[1:]
        return thumbnails(images if has_size else self.fitted(images))

    def _open_inputs(self, inputs: Any) -> Inputs:
        """Return tensors as they are, and of all else tensors in the model's precision."""
        if isinstance(inputs, Tensor):
            return inputs
        if (pictures := as_pictures(inputs)) is not None:
            return read_pictures(pictures, self.about)
        if isinstance(inputs, Mapping):
            return {name: as_tensor(values, name) for name, values in inputs.items()}
        opened = as_tensor(inputs, "inputs")
        return opened.to(dtype_of(self.model)) if opened.is_floating_point() else opened

    def save(self, path: Path | str, *, weights: Weights = "full") -> Path:
        """Write everything to one file, or to model.safetensors in a folder; `load` reads both.

        `weights` in half precision take half the space; "none" keeps the scalers only.
        """
        path = Path(path)
        file = path if path.suffix == ".safetensors" else path / MODEL_FILE
        tensors = {f"scalers.{key}": value for key, value in self.scalers.state_dict().items()}
        if weights != "none":
            state = self.model.state_dict()
            tensors |= {f"model.{key}": value for key, value in state.items()}
            tensors["seen"] = self.seen
        if self.novelty is not None:
            state = self.novelty.state_dict()
            tensors |= {f"novelty.{key}": value for key, value in state.items()}
        if weights == "half":
            tensors = {key: half(key, value) for key, value in tensors.items()}
        about = dataclasses.replace(
            self.about,
            scalers=describe_all(self.scalers),
            certificate=valid_certificate(self, tensors_of("model", tensors)),
        )
        write_file(file, about, tensors)
        return file

    def push_to_hub(self, repo_id: str, *, run: Path | str | None = None, **options: Any) -> str:
        """Upload the model and its card to the Hugging Face Hub; return the address of the commit.

        Needs huggingface_hub. With `run`, the directory that it was trained in, the card has the
        test results. `options` are those of `huggingface_hub.PyTorchModelHubMixin.push_to_hub`,
        such as private=True; `socrates.hub` is the way back.
        """
        from .hub import HubPredictor

        return HubPredictor(self, run=run).push_to_hub(repo_id, **options)

    def _apply(self, *arguments: Any, **options: Any) -> Predictor:
        """Move or convert all tensors; in another precision, a certificate does not hold."""
        precision = dtype_of(self.model)
        super()._apply(*arguments, **options)
        if dtype_of(self.model) != precision:
            drop(self, "another precision")
        return self

    def _check_images(self, images: Tensor) -> None:
        channels = self.about.image_shape[0]
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != channels:
            raise ValueError(
                f"expected uint8 images (N, {channels}, height, width) from 0 to 255, got "
                f"{images.dtype} {tuple(images.shape)}: convert them, or put the axes in this order"
            )

    def extra_repr(self) -> str:
        """Return the number of classes, the scaler, the reading and the certificate."""
        about = self.about
        text = f"{len(about.classes)} classes, scaler={about.scaler!r}, reading={about.reading!r}"
        return f"{text}, {self.certificate}" if self.certificate else text
