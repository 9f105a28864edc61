"""Predictors on the Hugging Face Hub: model.safetensors with its model card, and back by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..records import Run
from .card import write_card
from .file_format import MODEL_FILE
from .loading import load
from .predictor import Predictor

try:
    from huggingface_hub import PyTorchModelHubMixin, hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError
except ImportError as error:
    raise ImportError(
        f"the Hub needs huggingface_hub ({error}): pip install 'socrates-loss[hub]'"
    ) from error

__all__ = ["HubPredictor"]


class HubPredictor(PyTorchModelHubMixin, Predictor):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Add `save_pretrained`, `push_to_hub` and `from_pretrained` to a predictor.

    It shares the modules of the predictor. With `run`, the directory that it was trained in, the
    card has the test results and the reliability picture.

    >>> import tempfile, torch
    >>> from socrates import models
    >>> from socrates.predictor import Description, Preparation
    >>> preparation = Preparation(mean=(0.5,), std=(0.5,))
    >>> about = Description("mlp", {"width": 4}, 2, (1, 2, 2), ("cat", "dog"), preparation)
    >>> predictor = Predictor(models.build("mlp", 2, (1, 2, 2), width=4), about)
    >>> folder = tempfile.mkdtemp()
    >>> HubPredictor(predictor).save_pretrained(folder)
    >>> sorted(path.name for path in Path(folder).iterdir())
    ['README.md', 'model.safetensors']
    >>> HubPredictor.from_pretrained(folder).classes
    ('cat', 'dog')
    """

    run: Run | None = None

    def __init__(self, predictor: Predictor, *, run: Path | str | None = None) -> None:
        scalers: Any = dict(predictor.scalers.items())
        super().__init__(
            predictor.model, predictor.about, scalers, predictor.seen, predictor.novelty
        )
        self.run = None if run is None else Run(Path(run))
        # the description is in the file: a config.json would say it twice
        self._hub_mixin_config = None

    def _save_pretrained(self, save_directory: Path) -> None:
        file = self.save(save_directory)
        if not file.with_name("README.md").exists():
            write_card(self, file, "safetensors", self.run)

    @classmethod
    def from_pretrained(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        revision: str | None = None,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        force_download: bool = False,
        local_files_only: bool = False,
        **options: Any,
    ) -> HubPredictor:
        """Return the predictor of a folder or of a repository on the Hub, such as "someone/cats".

        Options are those of `load`. Only model.safetensors is read: no pickle, no configuration,
        and no foreign code unless `trust_code=True`.
        """
        path = Path(pretrained_model_name_or_path)
        if not path.exists():
            name = str(pretrained_model_name_or_path)
            try:
                downloaded = hf_hub_download(
                    name,
                    MODEL_FILE,
                    revision=revision,
                    token=token,
                    cache_dir=cache_dir,
                    force_download=force_download,
                    local_files_only=local_files_only,
                )
            except EntryNotFoundError as error:
                raise ValueError(
                    f"{name} on the Hub holds no {MODEL_FILE}, and nothing else is read"
                ) from error
            path = Path(downloaded)
        return cls(load(path, **options))
