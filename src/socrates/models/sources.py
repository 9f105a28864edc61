"""Where a pretrained backbone comes from: a folder of transformers, or a function in a Python file.

A source has the module that computes features, the images that it expects, and a fingerprint of its
weights. Nothing is downloaded: a name must be in the local Hugging Face cache.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..names import find

PREPARATION_FILE = "preprocessor_config.json"
WEIGHT_FILES = ("*.safetensors", "*.bin")
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and deviation
USUAL_SIZE = 224
BLOCK = 1 << 20  # bytes of a file that are hashed at once
# What a configuration says of the classes that the backbone was trained on.
OF_OLD_CLASSES = ("id2label", "label2id", "architectures")


class ImageFormat(NamedTuple):
    """The images that a backbone expects: side in pixels, mean and deviation of each channel.

    Mean and deviation are on the scale where 255 is 1.
    """

    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


class Pooled(nn.Module):
    """A vision model of transformers that returns one row of features per image.

    `pooling` is "pooler" (the model's own), "token" (the first one) or "mean" (over all positions).
    """

    def __init__(self, model: Any, pooling: str) -> None:
        super().__init__()
        self.model = model
        self.pooling = pooling

    def forward(self, images: Tensor) -> Tensor:
        output = self.model(pixel_values=images)
        if self.pooling == "pooler":
            return output.pooler_output.flatten(1)
        hidden = output.last_hidden_state
        if self.pooling == "token":
            return hidden[:, 0]
        return hidden.mean(dim=1) if hidden.ndim == 3 else hidden.mean(dim=(2, 3))


class HuggingFace:
    """A folder that `save_pretrained` wrote, or a name in the local Hugging Face cache."""

    def __init__(self, source: str) -> None:
        self.source = source

    @cached_property
    def folder(self) -> Path:
        """Return the folder with config.json, the weights and the preparation of images."""
        folder = Path(self.source).expanduser()
        if not folder.is_dir():
            folder = _cached_folder(self.source)
        if not (folder / "config.json").is_file():
            raise ValueError(
                f"the backbone {self.source} has no config.json: expected a folder in the Hugging "
                "Face format, as save_pretrained writes it"
            )
        return folder

    @cached_property
    def images(self) -> ImageFormat:
        """Return the images that it expects."""
        path = self.folder / PREPARATION_FILE
        try:
            return image_format(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise ValueError(
                f"the size, mean and deviation of the images of {self.source} are not known: "
                f"{path.name} cannot be read ({error})"
            ) from error

    @cached_property
    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that change with its files."""
        digest = hashlib.sha256()
        files = [self.folder / "config.json", self.folder / PREPARATION_FILE]
        for pattern in WEIGHT_FILES:
            files += sorted(self.folder.glob(pattern))
        for path in files:
            digest.update(path.name.encode())
            with path.open("rb") as file:
                while block := file.read(BLOCK):
                    digest.update(block)
        return digest.hexdigest()[:16]

    def module(self) -> Pooled:
        """Return a new module that computes features (B, D) of normalized RGB images."""
        transformers = _transformers()
        with _quietly(transformers):
            try:
                model, info = transformers.AutoModel.from_pretrained(
                    self.folder, local_files_only=True, output_loading_info=True
                )
            except (OSError, ValueError) as error:
                reason = " ".join(str(error).split())
                raise ValueError(f"the backbone {self.source} cannot be read: {reason}") from error
        model = _vision_part(model).float()
        poolers = [name for name in info["missing_keys"] if "pooler" in name]
        if missing := sorted(set(info["missing_keys"]) - set(poolers)):
            raise ValueError(
                f"the backbone {self.source} lacks {len(missing)} of its weights, such as "
                f"{missing[0]}"
            )
        return Pooled(model, pooling_of(model, not poolers, self.images.size))


class Configured:
    """A backbone without weights, from the text that a model file keeps of it."""

    def __init__(self, text: str, pooling: str) -> None:
        self.text = text
        self.pooling = pooling

    def module(self) -> Pooled:
        """Return a new module with random weights."""
        transformers = _transformers()
        settings = json.loads(self.text)
        kind = settings.pop("model_type")
        with _quietly(transformers):
            config = transformers.AutoConfig.for_model(kind, **settings)
            model = transformers.AutoModel.from_config(config, trust_remote_code=False)
        return Pooled(_vision_part(model).float(), self.pooling)


class Code:
    """A function FILE.py:FUNCTION, or module:function, that returns a module of features."""

    def __init__(self, place: str) -> None:
        self.place = place

    def module(self) -> nn.Module:
        """Return a new module that computes features (B, D) of normalized RGB images."""
        module = find("backbone", self.place, {})()
        if not isinstance(module, nn.Module):
            raise ValueError(
                f"the backbone {self.place} must return a torch module that computes features "
                f"(B, D) of images, got {type(module).__name__}"
            )
        return module.float()

    @cached_property
    def images(self) -> ImageFormat:
        """Return the images that its attributes ask for."""
        module = self.module()
        mean, std = IMAGENET
        return ImageFormat(
            int(getattr(module, "image_size", USUAL_SIZE)),
            tuple(map(float, getattr(module, "image_mean", mean))),
            tuple(map(float, getattr(module, "image_std", std))),
        )

    @cached_property
    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that change with its layers, its file and its weights."""
        module = self.module()
        digest = hashlib.sha256(repr(module).encode())
        file = Path(self.place.rpartition(":")[0]).expanduser()
        if file.is_file():
            digest.update(file.read_bytes())
        _add_weights(digest, module)
        return digest.hexdigest()[:16]


def weights_fingerprint(module: nn.Module) -> str:
    """Return 16 hexadecimal digits that change with the names and values of its weights.

    >>> weights_fingerprint(nn.Flatten())
    'e3b0c44298fc1c14'
    """
    digest = hashlib.sha256()
    _add_weights(digest, module)
    return digest.hexdigest()[:16]


def _add_weights(digest: Any, module: nn.Module) -> None:
    for name, value in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)


Source = HuggingFace | Code


def image_format(settings: Mapping[str, Any]) -> ImageFormat:
    """Return the images that a preprocessor_config.json asks for.

    >>> settings = {"size": {"shortest_edge": 256}, "crop_size": 224, "do_center_crop": True}
    >>> image_format({**settings, "image_mean": [0.5], "image_std": [0.25]})
    ImageFormat(size=224, mean=(0.5,), std=(0.25,))
    """
    size = settings["size"] if "size" in settings else settings["crop_size"]
    if settings.get("do_center_crop") and "crop_size" in settings:
        size = settings["crop_size"]
    if isinstance(size, Mapping):
        sides = {int(side) for side in size.values()}
        if len(sides) != 1:
            raise ValueError(f"its images are not squares: {dict(size)}")
        size = sides.pop()
    white = 255 * float(settings.get("rescale_factor", 1 / 255))
    if not settings.get("do_rescale", True):
        white = 255.0
    mean, std = settings.get("image_mean", (0.0,) * 3), settings.get("image_std", (1.0,) * 3)
    if not settings.get("do_normalize", True):
        mean, std = (0.0,) * 3, (1.0,) * 3
    return ImageFormat(
        int(size), tuple(level / white for level in mean), tuple(level / white for level in std)
    )


def pooling_of(model: Any, has_pooler: bool, size: int) -> str:
    """Return how rows of features are made: by a pooler that was trained, else from the states."""
    with torch.no_grad():
        try:
            output = model.eval()(pixel_values=torch.zeros(1, 3, size, size))
        except Exception as error:  # whatever a model of text or sound raises
            raise ValueError(
                f"the backbone does not take images of {size} x {size} pixels: {error}"
            ) from error
    if has_pooler and getattr(output, "pooler_output", None) is not None:
        return "pooler"
    has_token = hasattr(getattr(model, "embeddings", None), "cls_token")
    return "token" if has_token else "mean"


def kept_text(model: Any) -> str:
    """Return the configuration from which `Configured` builds the same module, in one line."""
    settings = model.config.to_diff_dict()
    settings = {key: value for key, value in settings.items() if key not in OF_OLD_CLASSES}
    return json.dumps({**settings, "model_type": model.config.model_type})


def _vision_part(model: Any) -> Any:
    """Return the part of a model for images and texts that takes images, or the whole model."""
    return getattr(model, "vision_model", model)


def _cached_folder(name: str) -> Path:
    """Return the folder of a name in the local Hugging Face cache; nothing is downloaded."""
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(name, local_files_only=True))
    except ImportError as error:
        raise _missing(error) from error
    except (OSError, ValueError) as error:
        raise ValueError(
            f"the backbone {name} is neither a folder nor in the local Hugging Face cache, and "
            f"nothing is downloaded unasked: pass a folder, or get it first with "
            f"`hf download {name}`"
        ) from error


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise _missing(error) from error
    return transformers


def _missing(error: ImportError) -> ImportError:
    return ImportError(
        f"a backbone in the Hugging Face format needs the package transformers ({error}): pip "
        "install 'socrates-loss[transformers]'"
    )


@contextmanager
def _quietly(transformers: Any) -> Iterator[None]:
    """Silence the remarks of transformers on layers that are left out, and its progress bars."""
    logging = transformers.utils.logging
    level = logging.get_verbosity()
    had_bar = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if had_bar:
            logging.enable_progress_bar()
