"""A trained model that takes inputs as they come: preparation, model, scaler and reading in one module.

Needs torch and safetensors only. A file holds tensors and one JSON text: nothing in it is ever executed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import get_ident
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_parameter_registration_hook

from . import models
from .abstention import Certificate, certify
from .contracts import Inputs, Preparation, image_hash
from .files import replacing
from .metrics.predictions import READINGS, Prediction, Reading, predict, probabilities
from .names import is_outside
from .scaling import SCALERS, Scaler

__all__ = ["Description", "Predictor", "load"]

FORMAT = 1  # of the files; a later one says what it changed
MODEL_FILE, SCALERS_FILE = "model.safetensors", "scalers.safetensors"
Weights = Literal["full", "half", "none"]
BATCH = 256
NOT_NEW = "trained the model, chose its epoch or fitted its scaler: only images that are new to it can certify"


@dataclass(frozen=True)
class Description:
    """What a model is, besides its weights: how to build it, what it was shown, and how its outputs are read.

    `scaler` is the one that is applied, "none" for none; `reading` is that of the unknown class, None without one.
    """

    model: str
    options: Mapping[str, Any]
    num_outputs: int
    image_shape: tuple[int, int, int]  # of what the model sees: channels, height, width
    classes: tuple[str, ...]
    preparation: Preparation | None = None  # None: inputs are taken as the model takes them
    epoch: int = 0  # whose weights these are
    scaler: str = "none"
    reading: Reading | None = None
    certificate: Certificate | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)  # of its training, for people: data, method, recipe

    @property
    def unknown_class(self) -> bool:
        """Whether the last output is the unknown class."""
        return self.num_outputs > len(self.classes)

    @classmethod
    def from_json(cls, plain: Any) -> Description:
        """What `dataclasses.asdict` gave and JSON carried."""
        known = {item.name for item in dataclasses.fields(cls)}
        if not isinstance(plain, dict) or set(plain) != known:
            raise ValueError(f"its description must have the fields {', '.join(sorted(known))}")
        how, certificate = plain["preparation"], plain["certificate"]
        how = None if how is None else Preparation(tuple(how["mean"]), tuple(how["std"]), how["shrink"])
        certificate = None if certificate is None else Certificate(**certificate)
        shape, classes, outputs = tuple(plain["image_shape"]), tuple(plain["classes"]), plain["num_outputs"]
        whole = len(shape) == 3 and all(type(size) is int and size > 0 for size in (*shape, outputs))
        named = all(isinstance(name, str) for name in (plain["model"], *classes))
        nested = all(isinstance(plain[name], dict) for name in ("options", "facts"))
        if not (whole and named and nested and outputs - len(classes) in (0, 1)):
            raise ValueError("its description does not fit the model that it describes")
        given = {"image_shape": shape, "classes": classes, "preparation": how, "certificate": certificate}
        return cls(**(plain | given))


class Predictor(nn.Module):
    """Probabilities of the classes (N, C) from inputs as the data set gives them.

    Images are uint8 (N, channels, height, width) of any height and width: they are resized to what the model was
    trained on and normalised inside. With the reading "answer" there is a last column, for unknown.

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
        from safetensors.torch import save

        path = Path(path)
        file = path if path.suffix == ".safetensors" else path / MODEL_FILE
        tensors = {f"scalers.{key}": value for key, value in self.scalers.state_dict().items()}
        if weights != "none":
            tensors |= {f"model.{key}": value for key, value in self.model.state_dict().items()} | {"seen": self.seen}
        for key, value in tensors.items():
            if weights == "half" and key.startswith("model.") and value.is_floating_point():
                if not bool(torch.isfinite(value.half()).all() | ~torch.isfinite(value).all()):
                    raise ValueError(f"{key} has weights beyond what half precision holds: keep them in full")
                value = value.half()
            tensors[key] = value.detach().cpu().contiguous().clone()  # weights that are shared are written twice
        told = json.dumps({"format": FORMAT, **dataclasses.asdict(self.about)})
        told = json.dumps({**json.loads(told), "checksum": checksum(told, tensors)})
        content = save(tensors, {"socrates": told})  # of more words safetensors draws the order by lot
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as target:
            target.write(content)
        return file

    def push_to_hub(self, repo_id: str, *, run: Path | str | None = None, **options: Any) -> str:
        """Upload it with its card to the Hugging Face Hub; returns the address of the commit. Needs huggingface_hub.

        With `run`, the directory that it was trained in, the card has the test results. `options` are those of
        `huggingface_hub.PyTorchModelHubMixin.push_to_hub`, such as private=True; `socrates.hub` is the way back.
        """
        from .hub import HubPredictor

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


def usual_reading(unknown_class: bool) -> tuple[str, Reading | None]:
    """The scaler and reading that are used unless told otherwise.

    >>> usual_reading(True), usual_reading(False)
    (('readout', 'spread'), ('temperature', None))
    """
    return ("readout", "spread") if unknown_class else ("temperature", None)


def load(
    path: Path | str,
    *,
    scaler: str | None = None,
    reading: Reading | None = None,
    epoch: int | None = None,
    model: nn.Module | Callable[..., nn.Module] | None = None,
    trust_code: bool = False,
) -> Predictor:
    """The Predictor of a finished run, or of what `Predictor.save` wrote.

    `scaler` and `reading` are those that were used when it was saved, unless told. A model that is not ours
    (`module:attribute`) is imported only if you trust its code, or give the module or what builds it as `model`.

    >>> import tempfile
    >>> about = Description("mlp", {"width": 4}, 2, (1, 2, 2), ("cat", "dog"), Preparation(mean=(0.5,), std=(0.5,)))
    >>> kept = Predictor(models.build("mlp", 2, (1, 2, 2), width=4), about).save(tempfile.mkdtemp())
    >>> load(kept).predict(torch.zeros(1, 1, 5, 5, dtype=torch.uint8)).probs.shape
    torch.Size([1, 2])
    """
    file = model_file(Path(path))
    about, tensors = read_file(file)
    if epoch is not None and epoch != about.epoch:
        raise ValueError(
            f"{file} holds the weights of epoch {about.epoch}, not of {epoch}: train with --choose for others"
        )
    weights, fitted = (
        {key.removeprefix(f"{kind}."): value for key, value in tensors.items() if key.startswith(f"{kind}.")}
        for kind in ("model", "scalers")
    )
    try:
        values = sum(value.numel() for value in weights.values())
        if wrong := [name for name, value in about.options.items() if type(value) is int and value > values]:
            raise ValueError(f"its {wrong[0]} is {about.options[wrong[0]]}, but it has {values} weights")
        with _no_larger(2 * len(weights), 2 * values):
            module = _built(about, model, trust_code, file)
    except (RuntimeError, LookupError, TypeError, OverflowError, ValueError) as error:
        told = " ".join(str(error).split())
        raise ValueError(told if str(file) in told else f"{file} describes no model to build: {told}") from error
    try:
        floats = {key: value.float() if value.is_floating_point() else value for key, value in weights.items()}
        module.load_state_dict(floats)
        there = {key.partition(".")[0] for key in fitted}
        scalers = {name: kind() for name, kind in SCALERS.items() if name in there}  # others are keys too many
        nn.ModuleDict(scalers).load_state_dict(fitted)
        predictor = Predictor(module, about, scalers, tensors.get("seen"))
    except (RuntimeError, LookupError, TypeError, ValueError) as error:
        told = " ".join(str(error).split("\n")[:2])
        raise ValueError(
            f"{file} does not fit the model that it describes ({told}): it is damaged, or of another version"
        ) from error
    if scaler is not None or reading is not None:
        predictor.use(about.scaler if scaler is None else scaler, about.reading if reading is None else reading)
    return predictor


def read_file(file: Path) -> tuple[Description, dict[str, Tensor]]:
    """The description and the tensors of a file; nothing in it is executed."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as content:
            metadata = content.metadata() or {}
            tensors = {key: content.get_tensor(key) for key in content.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(
            f"{file} is no whole safetensors file ({error}): restore it, or train the run again"
        ) from error
    try:
        plain = json.loads(metadata["socrates"])
        written = plain.pop("checksum", None)  # earlier versions wrote none
        told = json.dumps(plain)
        version = plain.pop("format")
        if version != FORMAT:
            raise ValueError(f"it has the format {version!r}, this version of socrates reads {FORMAT}")
        about = Description.from_json(plain)
        if written not in (None, checksum(told, tensors)):
            raise ValueError("its checksum is wrong, it is damaged: restore it, or train the run again")
        return about, tensors
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        told = error if isinstance(error, ValueError) else "it has no description of one"
        raise ValueError(f"{file} is no model that this version of socrates wrote: {told}") from error


def checksum(told: str, tensors: Mapping[str, Tensor]) -> str:
    """Of a description and all tensors: safetensors itself has none, and reads flipped bits without a word."""
    digest = hashlib.blake2b(told.encode(), digest_size=8)
    for key in sorted(tensors):
        value = tensors[key].contiguous()
        digest.update(f"{key} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def weights_hash(tensors: Mapping[str, Tensor]) -> str:
    """What tells a model's weights from all others: 16 hexadecimal digits.

    >>> weights_hash({"model.weight": torch.zeros(2), "scalers.x": torch.ones(1)})
    '8436d214923c5581'
    """
    digest = hashlib.sha256()
    for key in sorted(key for key in tensors if key.startswith("model.")):
        value = tensors[key].contiguous()
        digest.update(
            f"{key} {value.dtype} {tuple(value.shape)}".encode() + value.view(-1).view(torch.uint8).numpy().data
        )
    return digest.hexdigest()[:16]


def model_file(path: Path) -> Path:
    """The file of a run, of a folder that `save` wrote, or of a path to the file itself."""
    if path.is_file():
        return path
    if not path.is_dir():
        raise FileNotFoundError(f"{path} is not there: expected a run directory or a model.safetensors")
    if (path / MODEL_FILE).is_file():
        return path / MODEL_FILE
    if not (path / "experiment.json").is_file():
        raise FileNotFoundError(f"{path} is no run and holds no {MODEL_FILE}")
    if not (path / "finished.json").is_file():
        raise ValueError(f"{path} is not finished: train it to its end first, by the same command")
    raise ValueError(f"{path} is finished but keeps no weights: train it again with --again --keep-weights full")


@contextmanager
def _no_larger(tensors: int, values: int) -> Iterator[None]:
    """While it is entered, refuse to build modules of more parameters: a file's options can ask for any size."""
    thread, left = get_ident(), [tensors, values]

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        if get_ident() == thread and parameter is not None:
            left[0], left[1] = left[0] - 1, left[1] - parameter.numel()
            if min(left) < 0:
                raise ValueError("its options ask for a larger one than it has weights")

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def _built(about: Description, model: Any, trust_code: bool, file: Path) -> nn.Module:
    """The module that the weights belong to, not trained."""
    if isinstance(model, nn.Module):
        return model
    if model is None and is_outside(about.model, models.MODELS) and not trust_code:
        raise ValueError(
            f"{file} needs the model {about.model}, code that is not ours: pass trust_code=True (--trust-code) to "
            f"import it, or the module itself as model="
        )
    if model is not None:
        return model(num_outputs=about.num_outputs, image_shape=about.image_shape, **about.options)
    return models.build(about.model, about.num_outputs, about.image_shape, **about.options)
