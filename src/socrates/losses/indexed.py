"""A dataset that tells each sample's position, for losses that remember something per sample."""

import sys
import warnings
from collections.abc import Mapping
from typing import Any, cast

from torch.utils.data import ConcatDataset, Dataset

_CONCATENATING: Any = cast(Any, ConcatDataset).cumsum.__code__  # asks for the length of each part


class IndexedDataset(Dataset[Any]):
    """Adds its index to every item of a map-style dataset: `(input, label)` becomes `(input, label, index)`.

    An item that is a mapping (Hugging Face datasets) gets the key "index" instead. The index counts within the dataset
    given: wrap the training subset itself, then `len()` of it is the loss's `num_samples`; of several datasets wrap the
    whole, `IndexedDataset(ConcatDataset([a, b]))`. Attributes such as `.classes` are those of the dataset given.

    >>> dataset = IndexedDataset([("a cat", 0), ("a dog", 1)])
    >>> dataset[1]
    ('a dog', 1, 1)
    >>> IndexedDataset([{"text": "a cat", "label": 0}])[0]
    {'text': 'a cat', 'label': 0, 'index': 0}
    """

    def __init__(self, dataset: Any) -> None:
        if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
            given = f"{type(dataset).__name__}: for a stream use a loss with num_samples=None"
            raise ValueError(f"IndexedDataset needs a map-style dataset (with len() and []), got {given}")
        self.dataset = dataset

    def __len__(self) -> int:
        caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        if caller.f_code is _CONCATENATING and len(caller.f_locals.get("sequence", ())) > 1:
            shared = "IndexedDatasets inside a ConcatDataset count from 0 each, so that their samples share targets"
            warnings.warn(f"{shared}: use IndexedDataset(ConcatDataset([a, b]))", stacklevel=4)
        return len(self.dataset)

    def __getattr__(self, name: str) -> Any:
        if name == "dataset" or name.startswith("__"):  # not there yet while it is copied or unpickled
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __getitem__(self, index: int) -> Any:
        position = int(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"index {position} is out of range for {len(self)} samples")
        return _with_index(self.dataset[position], position % len(self))

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """A batch at once, by the dataset's own batched access if it has one."""
        if not hasattr(self.dataset, "__getitems__"):
            return [self[index] for index in indices]
        items = self.dataset.__getitems__(indices)
        return [_with_index(item, index % len(self)) for item, index in zip(items, indices, strict=True)]


def _with_index(item: Any, index: int) -> Any:
    if isinstance(item, Mapping):
        return {**cast(Mapping[Any, Any], item), "index": index}
    if isinstance(item, tuple | list):
        return (*item, index)
    raise ValueError(f"IndexedDataset needs items that are (input, label) or a mapping, got {type(item).__name__}")
