"""`folder:PATH`: a user's own images, with a sub-folder for each class."""

import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from socrates.contracts import Splits

from .augment import Transform
from .cache import DecodedImages, SizeAndMode, cache_path, read_cached, write_cached
from .download import DataCorrupt, DataNotFound, file_digest
from .image import as_rgb, image_tensor, opened
from .memory import THREADS, remembered
from .resident import resident_splits, statistics
from .splits import TEST_FRACTION, VAL_FRACTION, Labelled, hold_out_by_class
from .streamed import streamed_splits
from .unreadable import SUFFIXES, UNSUPPORTED, UnreadableImage, describe, unsupported

PARTS = {"train", "val", "test"}
SMALL = 64  # pixels of the shorter side up to which images count as small
SMALL_SIZE = 32
LARGE_SIZE = 224
RESIDENT_BYTES = 1_000_000_000


@dataclass(frozen=True)
class FolderListing:
    """The image files of a folder, by part, its classes, and images of unsupported formats."""

    path: Path
    parts: dict[str, Labelled]  # train, val and test: files and their labels
    classes: list[str]
    unsupported: tuple[Path, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of image files of each part."""
        return {part: len(files) for part, (files, _) in self.parts.items()}


@dataclass(frozen=True)
class FolderSplits(Splits):
    """Splits of a folder that keep its listing, so that a fingerprint need not list it again."""

    listing: FolderListing | None = field(default=None, repr=False, compare=False)


def class_names(folder: Path) -> list[str]:
    """Return the names of the sub-folders in order, without hidden ones."""
    return sorted(
        entry.name
        for entry in folder.iterdir()
        if entry.is_dir() and not entry.name.startswith(".")
    )


def list_images(folder: Path, classes: list[str], left_out: list[Path] | None = None) -> Labelled:
    """Return the image files below each class's folder, sorted, and their labels.

    Images of unsupported formats are appended to `left_out`.
    """
    others = sorted(set(class_names(folder)) - set(classes))
    if others:
        raise ValueError(
            f"{folder}: {others} are not classes of the training folder, which has {classes}"
        )
    files: list[Path] = []
    labels: list[int] = []
    left_out = [] if left_out is None else left_out
    for label, name in enumerate(classes):
        of_class, unread = (
            image_files(folder / name, folder) if (folder / name).is_dir() else ([], [])
        )
        files += of_class
        labels += [label] * len(of_class)
        left_out += unread
    if not files:
        found = f"; {describe({path: unsupported(path) for path in left_out}, folder)}"
        raise ValueError(
            f"{folder}: no images ({', '.join(sorted(SUFFIXES))}) in the folders of its classes"
            f"{found if left_out else ''}"
        )
    return np.array(files), np.array(labels)


def image_files(place: Path, folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the image files below a place in a folder, and those of unsupported formats, sorted.

    Hidden files and folders are left out: some archives hold files such as ._0.png that are not
    images. Files of other kinds are none of them.
    """
    images: list[Path] = []
    unread: list[Path] = []
    for path in place.rglob("*"):
        suffix = path.suffix.lower()
        if suffix not in SUFFIXES and suffix not in UNSUPPORTED:
            continue
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not hidden and path.is_file():
            (images if suffix in SUFFIXES else unread).append(path)
    return sorted(images), sorted(unread)


LISTINGS: ContextVar[dict[Path, FolderListing] | None] = ContextVar("listings", default=None)


@contextmanager
def listed_once() -> Iterator[None]:
    """List each folder once inside this context, as its many files take long to list."""
    before = LISTINGS.set({})
    try:
        yield
    finally:
        LISTINGS.reset(before)


def list_folder(path: Path) -> FolderListing:
    """List the images of a folder by part; what has no sub-folder is held out by class."""
    listings = LISTINGS.get()
    if listings is None:
        return _list_folder(path)
    key = path.absolute()
    if key not in listings:
        listings[key] = _list_folder(path)
    return listings[key]


def _list_folder(path: Path) -> FolderListing:
    if not path.is_dir():
        raise DataNotFound(
            f"{path} is not a folder: folder: takes the path of a folder with a sub-folder for "
            "each class"
        )
    names = class_names(path)
    has_parts = {"train", "test"} <= set(names)
    only_parts = set(names) <= PARTS
    if names and only_parts and not has_parts:
        raise ValueError(
            f"{path}: found {names}, expected both train and test, or the folders of the classes "
            "themselves"
        )
    if has_parts and not only_parts:
        raise ValueError(
            f"{path}: beside train, test and val there may be no other folders, found {names}"
        )
    classes = class_names(path / "train" if has_parts else path)
    if len(classes) < 2:
        raise ValueError(
            f"{path}: found the classes {classes}, expected a sub-folder for each of at least "
            "two classes"
        )
    left_out: list[Path] = []
    if has_parts:
        parts = {name: list_images(path / name, classes, left_out) for name in names}
    else:
        train, test = hold_out_by_class(list_images(path, classes, left_out), TEST_FRACTION)
        parts = {"train": train, "test": test}
    if "val" not in parts:
        parts["train"], parts["val"] = hold_out_by_class(parts["train"], VAL_FRACTION)
    return FolderListing(path, parts, classes, tuple(left_out))


def usual_size(files: NDArray[Any]) -> int:
    """Return 32 if images are mostly small, at most 64 pixels, else 224."""
    return SMALL_SIZE if median_side(files) <= SMALL else LARGE_SIZE


def median_side(files: NDArray[Any], sample: int = 100) -> int:
    """Return the median shorter side, in pixels, of about a hundred images evenly spaced in a list.

    Only the headers of these files are read; those that cannot be read are reported later.
    """
    step = max(1, len(files) // sample)
    sides: list[int] = []
    for path in files[::step]:
        with suppress(UnreadableImage), opened(path) as image:
            sides.append(min(image.size))
    return int(np.median(sides)) if sides else LARGE_SIZE


def read_squares(
    files: Sequence[Path], size: int, contents: Sequence[str] | None = None
) -> tuple[NDArray[np.uint8], list[SizeAndMode | UnreadableImage]]:
    """Read every image as a model sees it, and the size and mode of each file, or its error.

    Rows of files that cannot be read are left as they are. With `contents`, the digest of each
    file's content, images that were read before come from the cache.
    """
    cache = None if contents is None else cache_path(contents, size)
    cached = None if cache is None else read_cached(cache, len(files), size)
    empty = np.empty((len(files), 3, size, size), np.uint8)
    images, known = cached or DecodedImages(empty, [None] * len(files))

    def read(row: int) -> SizeAndMode | UnreadableImage:
        original = known[row]
        if original is not None:
            return original
        try:
            with opened(files[row]) as image:
                original = (f"{image.width}x{image.height}", image.mode)
                images[row] = image_tensor(image, (3, size, size))
        except UnreadableImage as error:
            return error
        return original

    with ThreadPoolExecutor(THREADS) as pool:
        outcomes = list(pool.map(read, range(len(files))))
    if cache is not None and cached is None:
        originals = [None if isinstance(one, UnreadableImage) else one for one in outcomes]
        write_cached(cache, DecodedImages(images, originals))
    return images, outcomes


def files_by_name(listing: FolderListing) -> dict[str, Path]:
    """Return all files of a folder by their paths below it."""
    return {
        file.relative_to(listing.path).as_posix(): file
        for paths, _ in listing.parts.values()
        for file in paths
    }


def digests_of(listing: FolderListing) -> dict[Path, str] | None:
    """Return the digest of each file's content, or None if one of them cannot be read."""
    files = files_by_name(listing)
    try:
        digests, _ = remembered(files, listing.path, file_digest)
    except OSError:
        return None  # whoever decodes the file says why
    return {path: digests[name] for name, path in files.items()}


def find_unreadable(listing: FolderListing) -> dict[Path, UnreadableImage]:
    """Return the files of a folder that cannot be decoded; each is decoded once and remembered."""
    files = files_by_name(listing)

    def look(path: Path) -> str:
        try:
            with opened(path) as image:
                image.draft("RGB", (SMALL_SIZE, SMALL_SIZE))  # a JPEG is decoded smaller and faster
                as_rgb(image)
        except UnreadableImage as error:
            return "\n".join([error.kind, error.reason, str(error)])
        return ""

    words, _ = remembered(files, listing.path, look, what="decoded")
    errors: dict[Path, UnreadableImage] = {}
    for name, path in files.items():
        if words[name]:
            kind, reason, message = words[name].split("\n", 2)
            errors[path] = UnreadableImage(message, kind, reason)
    return errors


def report_unreadable(
    listing: FolderListing, errors: dict[Path, UnreadableImage], skip_broken: bool
) -> None:
    """Refuse a folder with files that cannot be read, or warn of them if they may be skipped."""
    errors = {**{path: unsupported(path) for path in listing.unsupported}, **errors}
    if not errors:
        return
    words = f"{listing.path}: {describe(errors, listing.path)}"
    if not skip_broken:
        raise DataCorrupt(
            f"{words}; replace, convert or remove them, or train without them by skip_broken=True"
        )
    warnings.warn(f"{words}; the run is trained without them", stacklevel=3)


def without(part: Labelled, errors: Collection[Path]) -> tuple[Labelled, NDArray[np.bool_]]:
    """Return a part without the files that cannot be read, and which of its rows are kept."""
    files, labels = part
    kept = np.array([file not in errors for file in files], dtype=bool)
    return (files[kept], labels[kept]), kept


def warn_of_odd_images(path: Path, originals: dict[Path, SizeAndMode], size: int) -> None:
    """Warn of images whose size or mode is not that of most others, if most are alike."""
    outcomes = (f"squares of {size}x{size}", "RGB without transparency")
    for column, outcome in enumerate(outcomes):
        values = {file: original[column] for file, original in originals.items()}
        usual, count = Counter(values.values()).most_common(1)[0]
        odd = [file for file, value in values.items() if value != usual]
        if odd and count > len(originals) // 2:
            warnings.warn(
                f"{path}: {len(odd)} of {len(originals)} images are not {usual} like the others, "
                f"such as {odd[0].relative_to(path)}: all become {outcome}",
                stacklevel=2,
            )


def load_folder(
    path: Path, *, image_size: int | None = None, augment: bool = True, skip_broken: bool = False
) -> Splits:
    """Load PATH/CLASS/* (a fixed fifth tests), or PATH/train/CLASS/* and PATH/test/CLASS/*.

    Validation is PATH/val if it is there, else a fixed tenth of the training images. Images are
    held out by class, so that each has its share. Images become RGB squares. Up to a gigabyte is
    kept in memory, normalized by its own mean and deviation; more is streamed, normalized by
    ImageNet's.

    Options:
        image_size: side in pixels of the squares; by default 32 if the median shorter side is at
            most 64 pixels, else 224
        augment: whether training images of up to 64 pixels are cropped with padding and flipped,
            and larger ones get a random resized crop and a flip
        skip_broken: whether files that cannot be read are left out, instead of refused
    """
    listing = list_folder(path)
    size = image_size or usual_size(listing.parts["train"][0])
    num_bytes = sum(listing.counts.values()) * 3 * size * size
    if num_bytes <= RESIDENT_BYTES:
        splits = _resident(listing, size, augment, skip_broken)
    else:
        errors = find_unreadable(listing)
        report_unreadable(listing, errors, skip_broken)
        parts = {name: without(part, errors)[0] for name, part in listing.parts.items()}
        splits = streamed_splits(parts, listing.classes, size, augment, shrink=True)
    return FolderSplits(**vars(splits), listing=listing)


def _resident(listing: FolderListing, size: int, augment: bool, skip_broken: bool) -> Splits:
    """Read all images of a folder into memory."""
    arrays = {}
    originals: dict[Path, SizeAndMode] = {}
    errors: dict[Path, UnreadableImage] = {}
    digests = digests_of(listing)
    for name, part in listing.parts.items():
        files: list[Path] = part[0].tolist()
        contents = None if digests is None else [digests[file] for file in files]
        images, outcomes = read_squares(files, size, contents)
        for file, outcome in zip(files, outcomes, strict=True):
            if isinstance(outcome, UnreadableImage):
                errors[file] = outcome
            else:
                originals[file] = outcome
        (_, labels), kept = without(part, errors)
        arrays[name] = (images if kept.all() else images[kept], labels)
    report_unreadable(listing, errors, skip_broken)
    for name, (_, labels) in arrays.items():
        if not len(labels):
            raise ValueError(f"none of the {name} images can be read: add some")
    warn_of_odd_images(listing.path, originals, size)
    crop: dict[str, Any] = {"scale": (0.08, 1.0)} if size > SMALL else {"padding": size // 8}
    mean, std = statistics(arrays["train"][0])
    transform = Transform(mean, std, flip=True, size=size, **crop)
    return resident_splits(
        **arrays, transform=transform, class_names=listing.classes, augment=augment
    )
