"""A predictor as one program: preparation after decoding, model, scaler, reading and threshold, for other runtimes."""

from __future__ import annotations

import dataclasses
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from .files import replacing
from .predictor import Predictor, resized

__all__ = ["Program", "export", "export_onnx", "export_torch"]

Format = Literal["onnx", "torch"]
SUFFIXES: dict[Format, str] = {"onnx": ".onnx", "torch": ".pt2"}
OUTPUTS = ("probabilities", "predicted", "confidence", "answered")
LARGEST = 1 << 14  # of batch size, height and width


class Program(nn.Module):
    """What is exported: uint8 images of any size to probabilities (N, C), predicted class, confidence, answered.

    >>> from socrates.predictor import Description, Preparation
    >>> about = Description("nn", {}, 2, (1, 2, 2), ("cat", "dog"), Preparation(mean=(0.5,), std=(0.5,)))
    >>> program = Program(Predictor(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), about))
    >>> [tuple(output.shape) for output in program(torch.zeros(3, 1, 8, 6, dtype=torch.uint8))]
    [(3, 2), (3,), (3,), (3,)]
    """

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        if predictor.about.preparation is None:
            raise ValueError("this model was not trained on images that the program could prepare: it is not exported")
        self.predictor = predictor.eval()

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        predictor = self.predictor
        # Resized even where the size is right, which changes nothing: the program must not depend on the size.
        prepared = predictor.normalised(resized(images, predictor.about.image_shape[1:]))
        probs = predictor.read(predictor.model(prepared))
        confidence, predicted = probs.max(dim=1)
        return probs, predicted, confidence, predictor.answered(confidence, predicted)


def export(predictor: Predictor, path: Path | str, format: Format = "onnx") -> Path:
    """Write the predictor as an ONNX file or a torch.export program; returns where it is."""
    if format not in SUFFIXES:
        raise ValueError(f"format must be one of {', '.join(SUFFIXES)}, got {format!r}")
    return (export_onnx if format == "onnx" else export_torch)(predictor, Path(path))


def export_onnx(predictor: Predictor, path: Path) -> Path:
    """One ONNX file, weights inside; batch size, height and width are free, class names are in its metadata."""
    try:
        import onnxscript  # noqa: F401  # torch needs it
    except ImportError as error:
        raise ImportError(
            f"an ONNX file is written by onnx and onnxscript ({error}): pip install 'socrates-loss[onnx]'"
        ) from error
    program, images = Program(predictor), _example(predictor)
    with _quietly():
        made = torch.onnx.export(
            program,
            (images,),
            dynamo=True,
            dynamic_shapes=(_free_shapes(),),
            input_names=["images"],
            output_names=list(OUTPUTS),
            verbose=False,
        )
    assert made is not None  # the older exporter returns nothing
    made.model.metadata_props.update(_metadata(predictor))
    content = made.model_proto.SerializeToString()
    with replacing(path) as file:
        file.write(content)
    return path


def export_torch(predictor: Predictor, path: Path) -> Path:
    """A torch.export program, that `torch.export.load(path).module()` runs without this package."""
    with _quietly():
        made = torch.export.export(Program(predictor), (_example(predictor),), dynamic_shapes=(_free_shapes(),))
    with replacing(path) as file:
        torch.export.save(made, file, extra_files=_metadata(predictor))
    return path


def _example(predictor: Predictor) -> Tensor:
    """Two images whose sides are neither those of the model nor equal: what is equal would be taken for fixed."""
    channels, height, width = predictor.about.image_shape
    device = next((one.device for one in predictor.model.parameters()), torch.device("cpu"))
    return torch.zeros(2, channels, height + 8, width + 12, dtype=torch.uint8, device=device)


def _free_shapes() -> dict[int, torch.export.Dim]:
    names = {0: "batch", 2: "height", 3: "width"}
    return {axis: torch.export.Dim(name, min=1, max=LARGEST) for axis, name in names.items()}


def _metadata(predictor: Predictor) -> dict[str, str]:
    """Texts that travel with a program: the names of the classes, and all else that is known of the model."""
    about = dataclasses.asdict(predictor.about)
    return {"classes": json.dumps(about["classes"]), "socrates": json.dumps(about)}


@contextmanager
def _quietly() -> Iterator[None]:
    """Neither warnings nor the exporter's own remarks on packages that nobody needs here."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
