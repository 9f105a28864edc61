"""A predictor as one program for other runtimes: everything from decoded images to answers."""

from __future__ import annotations

import dataclasses
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from ..files import replacing
from .certifying import keep_valid
from .predictor import Predictor
from .strangeness import logits_and_novelty
from .weights import device_of

if TYPE_CHECKING:
    from onnx import GraphProto

__all__ = ["Program", "export"]

Format = Literal["onnx", "torch"]
SUFFIXES: dict[Format, str] = {"onnx": ".onnx", "torch": ".pt2"}
# The last one only where the model has a novelty score.
OUTPUTS = ("probabilities", "predicted", "confidence", "answered", "novelty")
LARGEST = 1 << 14  # the limit of batch size, height and width


class Program(nn.Module):
    """Turn uint8 images of any size into probabilities, predicted class, confidence, answered.

    A model with a novelty score returns the novelty of each image, too.

    >>> from socrates.predictor import Description, Preparation
    >>> preparation = Preparation(mean=(0.5,), std=(0.5,))
    >>> about = Description("nn", {}, 2, (1, 2, 2), ("cat", "dog"), preparation)
    >>> program = Program(Predictor(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), about))
    >>> [tuple(output.shape) for output in program(torch.zeros(3, 1, 8, 6, dtype=torch.uint8))]
    [(3, 2), (3,), (3,), (3,)]
    """

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        if predictor.about.preparation is None:
            raise ValueError(
                "this model was not trained on images that a program could prepare: it cannot be "
                "exported"
            )
        self.predictor = predictor.eval()

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        predictor = self.predictor
        # Fitted even where the size is right, which changes nothing: the program must not depend
        # on the size.
        prepared = predictor.normalized(predictor.fitted(images))
        logits, novelty = logits_and_novelty(predictor.model, predictor.novelty, prepared)
        probs = predictor.read(logits)
        confidence, predicted = probs.max(dim=1)
        answered = predictor.answered(confidence, predicted, novelty)
        outputs = (probs, predicted, confidence, answered)
        return outputs if novelty is None else (*outputs, novelty)


def output_names(predictor: Predictor) -> list[str]:
    """Return the names of the outputs of a predictor's program, in order."""
    return list(OUTPUTS[: len(OUTPUTS) - (predictor.novelty is None)])


def export(predictor: Predictor, path: Path | str, format: Format = "onnx") -> Path:
    """Write the predictor as an ONNX file or a torch.export program, and return its path.

    The certificate travels with it; one that was made for another model is dropped, with a warning.
    """
    if format not in SUFFIXES:
        raise ValueError(f"format must be one of {', '.join(SUFFIXES)}, got {format!r}")
    keep_valid(predictor)
    return (_export_onnx if format == "onnx" else _export_torch)(predictor, Path(path))


def _export_onnx(predictor: Predictor, path: Path) -> Path:
    """Write one ONNX file with the weights inside, and return its path.

    Batch size, height and width are free; the names of the classes are in its metadata.
    """
    try:
        import onnxscript  # noqa: F401  # torch needs it
    except ImportError as error:
        raise ImportError(
            f"an ONNX file is written by onnx and onnxscript ({error}): pip install "
            "'socrates-loss[onnx]'"
        ) from error
    with _quietly():
        program = torch.onnx.export(
            Program(predictor),
            (_example(predictor),),
            dynamo=True,
            dynamic_shapes=(_free_shapes(),),
            input_names=["images"],
            output_names=output_names(predictor),
            verbose=False,
        )
    assert program is not None  # the older exporter returns nothing
    program.model.metadata_props.update(_metadata(predictor))
    proto = program.model_proto
    _drop_shapes_of_weights(proto.graph)
    content = proto.SerializeToString()
    with replacing(path) as file:
        file.write(content)
    return path


def _drop_shapes_of_weights(graph: GraphProto) -> None:
    """Remove the second statement of each weight's shape, which weights themselves already have.

    Tools that transpose a weight, such as quantize_dynamic of onnxruntime, leave that statement
    behind and then refuse their own file.
    """
    weights = {weight.name for weight in graph.initializer}
    others = [info for info in graph.value_info if info.name not in weights]
    del graph.value_info[:]
    graph.value_info.extend(others)


def _export_torch(predictor: Predictor, path: Path) -> Path:
    """Write a program that `torch.export.load(path).module()` runs without this package."""
    with _quietly():
        program = torch.export.export(
            Program(predictor), (_example(predictor),), dynamic_shapes=(_free_shapes(),)
        )
    with replacing(path) as file:
        torch.export.save(program, file, extra_files=_metadata(predictor))
    return path


def _example(predictor: Predictor) -> Tensor:
    """Return two images, not of the model's size: the exporter takes equal sizes for fixed."""
    channels, height, width = predictor.about.image_shape
    shape = (2, channels, height + 8, width + 12)
    return torch.zeros(shape, dtype=torch.uint8, device=device_of(predictor.model))


def _free_shapes() -> dict[int, torch.export.Dim]:
    names = {0: "batch", 2: "height", 3: "width"}
    return {axis: torch.export.Dim(name, min=1, max=LARGEST) for axis, name in names.items()}


def _metadata(predictor: Predictor) -> dict[str, str]:
    """Return the JSON texts inside a program: classes, certificate, and the whole description."""
    about = dataclasses.asdict(predictor.about)
    texts = {name: json.dumps(about[name]) for name in ("classes", "certificate")}
    return {**texts, "socrates": json.dumps(about)}


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence warnings and the exporter's remarks on optional packages."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
