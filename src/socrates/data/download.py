"""Files of data: where official ones come from, fetched once and extracted safely, and what can be wrong with any."""

import errno
import hashlib
import os
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

THREADS = min(8, os.cpu_count() or 1)  # that read files
UNFOLDED, RATIO = 1_000_000_000, 20  # bytes that any archive may unfold to; and how many times its own size
LEAST = 4096  # bytes that any member takes on a disk, if it is a folder or an empty file
WORDS = 1 << 20  # bytes of a member's name or notes, which are read at once
NOTES = (*tarfile.GNU_TYPES[:2], tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)


class DataNotFound(FileNotFoundError):
    """A data set's file is neither on the disk nor to be had from its usual source.

    >>> raise DataNotFound("train_32x32.mat is missing: put it into the data folder")
    Traceback (most recent call last):
    socrates.data.download.DataNotFound: train_32x32.mat is missing: put it into the data folder
    """


class DataCorrupt(ValueError):
    """A file is truncated, damaged or in another format than its name says.

    >>> raise DataCorrupt("data_batch_1.bin: 100 bytes, expected records of 3073 bytes")
    Traceback (most recent call last):
    socrates.data.download.DataCorrupt: data_batch_1.bin: 100 bytes, expected records of 3073 bytes
    """


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
    "fashion": "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
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
    "fashion_mnist/train-images": Remote("fashion", "train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
    "fashion_mnist/train-labels": Remote("fashion", "train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
    "fashion_mnist/t10k-images": Remote("fashion", "t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
    "fashion_mnist/t10k-labels": Remote("fashion", "t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
}


DOWNLOADING = ContextVar("downloading", default=True)


@contextmanager
def nothing_downloaded() -> Iterator[None]:
    """While it is entered, files that are not there are missing.

    >>> with nothing_downloaded():
    ...     fetch("svhn/test", Path("nowhere"))
    Traceback (most recent call last):
    socrates.data.download.DataNotFound: nowhere...test_32x32.mat is missing
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
    seen = sys.stderr.isatty()
    downloader: Any = pooch.HTTPDownloader(progressbar=seen, chunk_size=1 << 16, timeout=30)
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("WARNING" if seen else level)  # its line stands in where there is no bar
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pooch.retrieve(remote.url, f"md5:{remote.md5}", fname=remote.name, path=folder, downloader=downloader)
    except requests.RequestException as error:
        raise DataNotFound(f"{remote.name} could not be downloaded ({error}); {place}") from error
    except ValueError as error:
        raise DataCorrupt(
            f"{remote.url} did not send {remote.name}: its checksum is wrong, nothing was kept; try again, or do it by "
            f"hand: {place}"
        ) from error
    finally:
        logger.setLevel(level)
    return path


def fetch_extracted(key: str, root: Path, folder: str) -> Path:
    """The folder that an archive of `FILES` holds; the archive is fetched and extracted if the folder is not there."""
    target = root / folder
    if not target.is_dir():
        archive, expected = fetch(key, root), FILES[key].md5
        if (found := hashed(archive, "md5")) != expected:
            raise DataCorrupt(
                f"{archive}: the MD5 checksum is {found}, expected {expected}: the file is damaged or another one; "
                f"delete it to have it downloaded again"
            )
        extract(archive, root, folder)
    return target


def hashed(path: Path, algorithm: str = "sha256") -> str:
    """The digest of a file's content."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


# Releases of Python 3.10 and 3.11 before 2023 have no filters; `extract` lets nothing through that they would refuse.
FILTER: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
REFUSED = (tarfile.FilterError,) if hasattr(tarfile, "FilterError") else ()


class Member(tarfile.TarInfo):
    """A member of an archive whose names and notes are short: they are read into memory whatever size they declare."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Any:
        made = super().frombuf(buf, encoding, errors)
        if made.type in NOTES and not 0 <= made.size <= WORDS:
            raise tarfile.ReadError(f"a name or note of {made.size:,} bytes, expected at most {WORDS:,}")
        return made


def extract(archive: Path, root: Path, folder: str) -> None:
    """Extract the `folder` of a tar archive into `root`: all of it or nothing.

    What is not a plain file or folder under `folder`, such as a link, a device or a path that leaves it, is refused. So
    is what unfolds to more than a gigabyte and twenty times the archive: a data set's is compressed to a half at most.
    """
    most, unfolded = max(UNFOLDED, RATIO * archive.stat().st_size), 0

    def check(member: tarfile.TarInfo) -> None:
        nonlocal unfolded
        unfolded += max(member.size, LEAST)
        if unfolded > most:
            raise ValueError(f"{member.name!r} makes it unfold to more than {most:,} bytes")
        parts = PurePosixPath(member.name).parts
        if parts[:1] not in ((), (folder,)) or ".." in parts:
            raise ValueError(f"{member.name!r} lies outside of {folder}/")
        if not member.isfile() and not member.isdir():
            raise ValueError(f"{member.name!r} is neither a file nor a folder")

    with tempfile.TemporaryDirectory(prefix=".extracting-", dir=root) as temporary:
        try:
            with tarfile.open(archive, "r:*", tarinfo=Member) as tar:
                for member in tar:
                    check(member)
                    tar.extract(member, temporary, set_attrs=False, **FILTER)
        except (*REFUSED, ValueError) as error:
            raise DataCorrupt(f"{archive}: the member {error}; nothing was extracted") from error
        except Exception as error:  # of many kinds for a damaged archive
            if isinstance(error, OSError) and error.errno in OF_THE_DISK:
                raise OSError(error.errno, f"{archive} cannot be extracted: {error.strerror}", str(root)) from error
            told = " ".join(str(error).split())
            raise DataCorrupt(f"{archive}: not a whole archive ({told}): delete it and try again") from error
        found = Path(temporary) / folder
        if not found.is_dir():
            raise DataCorrupt(f"{archive}: there is no folder {folder} in it: it is another archive")
        try:
            os.replace(found, root / folder)
        except OSError:  # another process was faster
            if not (root / folder).is_dir():
                raise
