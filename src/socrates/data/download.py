"""Official files: where they come from, their checksums, fetching them once and extracting them safely."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from .errors import DataCorrupt, DataNotFound


@dataclass(frozen=True)
class Remote:
    """A file of a data set: which source it comes from, its name there, its MD5 checksum."""

    source: str
    name: str
    md5: str

    @property
    def url(self) -> str:
        """The usual address."""
        return BASE_URLS[self.source] + self.name


BASE_URLS = {
    "cifar": "https://www.cs.toronto.edu/~kriz/",
    "svhn": "http://ufldl.stanford.edu/housenumbers/",
    "food101": "http://data.vision.ee.ethz.ch/cvl/",
    "mnist": "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "fashion_mnist": "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
}

FILES = {
    "cifar10": Remote("cifar", "cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
    "cifar100": Remote("cifar", "cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),
    "svhn/train": Remote("svhn", "train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
    "svhn/test": Remote("svhn", "test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
    "food101": Remote("food101", "food-101.tar.gz", "85eeb15f3717b99a5da872d97d918f87"),
    "mnist/train-images": Remote("mnist", "train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    "mnist/train-labels": Remote("mnist", "train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
    "mnist/t10k-images": Remote("mnist", "t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
    "mnist/t10k-labels": Remote("mnist", "t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
    "fashion_mnist/train-images": Remote(
        "fashion_mnist", "train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"
    ),
    "fashion_mnist/train-labels": Remote(
        "fashion_mnist", "train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"
    ),
    "fashion_mnist/t10k-images": Remote(
        "fashion_mnist", "t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"
    ),
    "fashion_mnist/t10k-labels": Remote(
        "fashion_mnist", "t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"
    ),
}


class _Bar:
    """A rich progress bar with the face that pooch asks for; silent when nobody is looking."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty())
        self._task = self._progress.add_task(name, total=None)
        self._progress.start()

    @property
    def total(self) -> int:
        return int(self._progress.tasks[0].total or 0)

    @total.setter
    def total(self, value: int) -> None:
        self._progress.update(self._task, total=value or None)

    def update(self, amount: int) -> None:
        self._progress.advance(self._task, amount)

    def reset(self) -> None:
        self._progress.reset(self._task)

    def close(self) -> None:
        self._progress.stop()


DOWNLOADING = ContextVar("downloading", default=True)


@contextmanager
def nothing_downloaded() -> Iterator[None]:
    """While it is entered, files that are not there are missing.

    >>> with nothing_downloaded():
    ...     fetch("svhn/test", Path("nowhere"))
    Traceback (most recent call last):
    socrates.data.errors.DataNotFound: nowhere...test_32x32.mat is missing
    """
    before = DOWNLOADING.set(False)
    try:
        yield
    finally:
        DOWNLOADING.reset(before)


def fetch(key: str, folder: Path) -> Path:
    """The file of `FILES` in a folder, downloaded if it is not there yet; only a whole one ever gets its name."""
    remote = FILES[key]
    path = folder / remote.name
    if path.exists():
        return path
    if not DOWNLOADING.get():
        raise DataNotFound(f"{path} is missing")
    place = f"the file has the MD5 checksum {remote.md5}; get it from {remote.url} and put it at {path}"
    try:
        import pooch
        import requests
    except ImportError as error:
        raise DataNotFound(
            f"{path} is missing and cannot be downloaded without {error.name}: install socrates-loss[train], or do "
            f"it by hand: {place}"
        ) from error
    bar = _Bar(remote.name)
    downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=30)  # pyright: ignore[reportArgumentType]
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("WARNING" if sys.stderr.isatty() else level)  # its line stands in where there is no bar
    settings: dict[str, Any] = {"fname": remote.name, "path": folder, "downloader": downloader}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pooch.retrieve(remote.url, f"md5:{remote.md5}", **settings)
    except requests.RequestException as error:
        raise DataNotFound(f"{remote.name} could not be downloaded ({error}); {place}") from error
    except ValueError as error:
        raise DataCorrupt(
            f"{remote.url} did not send {remote.name}: its checksum is wrong, nothing was kept; try again, or do it by "
            f"hand: {place}"
        ) from error
    finally:
        bar.close()
        logger.setLevel(level)
    return path


def fetch_extracted(key: str, root: Path, folder: str) -> Path:
    """The folder that an archive of `FILES` holds; the archive is fetched and extracted if the folder is not there."""
    target = root / folder
    if not target.is_dir():
        archive = fetch(key, root)
        check_md5(archive, FILES[key].md5)
        extract(archive, root, folder)
    return target


def check_md5(path: Path, expected: str) -> None:
    """Refuse a file with another checksum."""
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != expected:
        raise DataCorrupt(
            f"{path}: the MD5 checksum is {digest.hexdigest()}, expected {expected}: the file is damaged or another "
            f"one; delete it to have it downloaded again"
        )


def extract(archive: Path, root: Path, folder: str) -> None:
    """Extract the `folder` of a tar archive into `root`: all of it or nothing.

    Files are copied out one by one: what is not a plain file or folder under `folder`, such as a link, a device or a
    path that leaves it, is refused, and owners and permissions of the archive mean nothing.
    """
    with tempfile.TemporaryDirectory(prefix=".extracting-", dir=root) as temporary:
        try:
            with tarfile.open(archive, "r:*") as tar:
                for member in tar:
                    _copy_out(tar, member, Path(temporary), folder)
        except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise DataCorrupt(f"{archive}: not a whole archive ({error}): delete it and try again") from error
        except ValueError as error:
            raise DataCorrupt(f"{archive}: {error}; nothing was extracted") from error
        found = Path(temporary) / folder
        if not found.is_dir():
            raise DataCorrupt(f"{archive}: there is no folder {folder} in it: it is another archive")
        try:
            os.replace(found, root / folder)
        except OSError:  # another process was faster
            if not (root / folder).is_dir():
                raise


def _copy_out(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path, folder: str) -> None:
    """Write one member below target / folder, or refuse it."""
    path = PurePosixPath(member.name)
    parts = path.parts
    unsafe = path.is_absolute() or ".." in parts or any("\\" in part or ":" in part for part in parts)
    if parts == ():  # "./"
        return
    if unsafe or parts[0] != folder:
        raise ValueError(f"the member {member.name!r} lies outside of {folder}/")
    out = target.joinpath(*parts)
    if member.isdir():
        out.mkdir(parents=True, exist_ok=True)
    elif member.isfile():
        out.parent.mkdir(parents=True, exist_ok=True)
        source = tar.extractfile(member)
        assert source is not None  # it is a file
        with source, out.open("wb") as file:
            shutil.copyfileobj(source, file)
    else:
        raise ValueError(f"the member {member.name!r} is neither a file nor a folder")
