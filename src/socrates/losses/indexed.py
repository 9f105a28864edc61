"""A dataset that adds each sample's position, for losses that remember something per sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from torch.utils.data import ConcatDataset, Dataset


class IndexedDataset(Dataset[Any]):
    """Add its index to every item of a map-style dataset.

    `(input, label)` becomes `(input, label, index)`; an item that is a mapping (Hugging Face
    datasets) gets the key "index". The index counts within the wrapped dataset: wrap the training
    subset itself, then its `len()` is the loss's `num_samples`. Of several datasets wrap the
    whole, `IndexedDataset(ConcatDataset([a, b]))`, or add them, `IndexedDataset(a) + b`: in a
    ConcatDataset of IndexedDatasets each part counts from 0, and their samples share targets,
    which `criterion.unvisited()` shows after an epoch. Attributes such as `.classes` are those of
    the wrapped dataset.

    >>> dataset = IndexedDataset([("a cat", 0), ("a dog", 1)])
    >>> dataset[1]
    ('a dog', 1, 1)
    >>> IndexedDataset([{"text": "a cat", "label": 0}])[0]
    {'text': 'a cat', 'label': 0, 'index': 0}
    """

    def __init__(self, dataset: Any) -> None:
        if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
            raise ValueError(
                f"IndexedDataset needs a map-style dataset (with len() and []), "
                f"got {type(dataset).__name__}: for a stream use a loss with num_samples=None"
            )
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __add__(self, other: Any) -> IndexedDataset:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return both datasets as one, with an index that counts on."""
        plain = other.dataset if isinstance(other, IndexedDataset) else other
        return IndexedDataset(ConcatDataset([self.dataset, plain]))

    def __getattr__(self, name: str) -> Any:
        # `dataset` is not there yet while a copy is made or unpickled.
        if name == "dataset" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __getitem__(self, index: int) -> Any:
        position = int(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"index {position} is out of range for {len(self)} samples")
        return _with_index(self.dataset[position], position % len(self))

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """Return a batch at once, by the dataset's own batched access if it has one."""
        if not hasattr(self.dataset, "__getitems__"):
            return [self[index] for index in indices]
        items = self.dataset.__getitems__(indices)
        positions = [index % len(self) for index in indices]
        return [_with_index(item, place) for item, place in zip(items, positions, strict=True)]


def _with_index(item: Any, index: int) -> Any:
    """Return an item of a dataset with its index added."""
    if isinstance(item, Mapping):
        return {**cast(Mapping[Any, Any], item), "index": index}
    if isinstance(item, tuple | list):
        return (*item, index)
    raise ValueError(
        f"IndexedDataset needs items that are (input, label) or a mapping, "
        f"got {type(item).__name__}"
    )
