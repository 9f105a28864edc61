"""Files of official data sets: downloaded once, checked and extracted safely."""

import errno
import hashlib
import os
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from socrates.files import TAR_RATIO, unfolded_limit

from .memory import remembered

LEAST = 4096  # bytes that any member takes on a disk, even a folder or an empty file
NOTE_BYTES = 1 << 20  # of a member's name or notes, which are read at once
NOTES = (*tarfile.GNU_TYPES[:2], tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)


class DataNotFound(FileNotFoundError):
    """A data set's file is not on the disk and cannot be downloaded.

    >>> raise DataNotFound("train_32x32.mat is missing: put it into the data folder")
    Traceback (most recent call last):
    socrates.data.download.DataNotFound: train_32x32.mat is missing: put it into the data folder
    """


class DataCorrupt(ValueError):
    """A file is truncated, damaged or not in the format that its name says.

    >>> raise DataCorrupt("data_batch_1.bin: 100 bytes, expected records of 3073 bytes")
    Traceback (most recent call last):
    socrates.data.download.DataCorrupt: data_batch_1.bin: 100 bytes, expected records of 3073 bytes
    """


@dataclass(frozen=True)
class Remote:
    """A file of a data set: its source, its name there and its MD5 checksum."""

    source: str
    name: str
    md5: str

    @property
    def url(self) -> str:
        """Return the address to download the file from."""
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
    "cifar10/python": Remote("cifar", "cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),
    "cifar100/python": Remote(
        "cifar", "cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"
    ),
    "svhn/train": Remote("svhn", "train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
    "svhn/test": Remote("svhn", "test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
    "food101": Remote("food101", "food-101.tar.gz", "85eeb15f3717b99a5da872d97d918f87"),
    "mnist/train-images": Remote(
        "mnist", "train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"
    ),
    "mnist/train-labels": Remote(
        "mnist", "train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"
    ),
    "mnist/t10k-images": Remote(
        "mnist", "t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"
    ),
    "mnist/t10k-labels": Remote(
        "mnist", "t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"
    ),
    "fashion_mnist/train-images": Remote(
        "fashion", "train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"
    ),
    "fashion_mnist/train-labels": Remote(
        "fashion", "train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"
    ),
    "fashion_mnist/t10k-images": Remote(
        "fashion", "t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"
    ),
    "fashion_mnist/t10k-labels": Remote(
        "fashion", "t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"
    ),
}


DOWNLOADING = ContextVar("downloading", default=True)


@contextmanager
def nothing_downloaded() -> Iterator[None]:
    """Raise `DataNotFound` for files that would be downloaded inside this context.

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
    """Return the path of a file of `FILES` in a folder, downloaded if it is not there yet.

    A file has its name only once it is whole.
    """
    remote = FILES[key]
    path = folder / remote.name
    if path.exists():
        check_sum(path, remote.md5)
        return path
    if not DOWNLOADING.get():
        raise DataNotFound(f"{path} is missing")
    by_hand = (
        f"the file has the MD5 checksum {remote.md5}; get it from {remote.url} and put it at {path}"
    )
    try:
        import pooch
        import requests
    except ImportError as error:
        raise DataNotFound(
            f"{path} is missing and cannot be downloaded without {error.name}: install "
            f"socrates-loss[train], or do it by hand: {by_hand}"
        ) from error
    in_terminal = sys.stderr.isatty()
    downloader: Any = pooch.HTTPDownloader(progressbar=in_terminal, chunk_size=1 << 16, timeout=30)
    logger = pooch.get_logger()
    level = logger.level
    # pooch logs a line, which is enough where there is no progress bar
    logger.setLevel("WARNING" if in_terminal else level)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pooch.retrieve(
            remote.url, f"md5:{remote.md5}", fname=remote.name, path=folder, downloader=downloader
        )
    except requests.RequestException as error:
        raise DataNotFound(f"{remote.name} could not be downloaded ({error}); {by_hand}") from error
    except ValueError as error:
        raise DataCorrupt(
            f"{remote.url} did not send {remote.name}: its checksum is wrong, nothing was kept; "
            f"try again, or do it by hand: {by_hand}"
        ) from error
    finally:
        logger.setLevel(level)
    return path


def check_sum(path: Path, expected: str) -> None:
    """Warn of a file that is not the official one; it is read once, and then if it changes.

    It may be a part of the official data on purpose, so it is used all the same.
    """
    sums, _ = remembered({path.name: path}, path, _md5, path.parent, what="sums")
    if sums[path.name] != expected:
        warnings.warn(
            f"{path} is not the official file, its MD5 checksum is {sums[path.name]}, expected "
            f"{expected}: it is damaged or another one; delete it to have it downloaded again",
            stacklevel=3,
        )


def _md5(path: Path) -> str:
    return file_digest(path, "md5")


def fetch_extracted(key: str, root: Path, folder: str) -> Path:
    """Return the folder that an archive of `FILES` holds, downloaded and extracted if needed."""
    target = root / folder
    if target.is_dir():
        return target
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an archive of another sum is refused below
        archive = fetch(key, root)
    expected = FILES[key].md5
    digest = _md5(archive)
    if digest != expected:
        raise DataCorrupt(
            f"{archive}: the MD5 checksum is {digest}, expected {expected}: the file is damaged or "
            "another one; delete it to have it downloaded again"
        )
    extract(archive, root, folder)
    return target


def file_digest(path: Path, algorithm: str = "sha256") -> str:
    """Return the digest of a file's content in hexadecimal."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


# Releases of Python 3.10 and 3.11 before 2023 have no filters; `extract` refuses all that the
# filters would refuse.
FILTER: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
REFUSED = (tarfile.FilterError,) if hasattr(tarfile, "FilterError") else ()


class ShortNameMember(tarfile.TarInfo):
    """A member of an archive, refused if its name or notes are long.

    `tarfile` reads names and notes into memory, whatever size they declare.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Any:
        member = super().frombuf(buf, encoding, errors)
        if member.type in NOTES and not 0 <= member.size <= NOTE_BYTES:
            raise tarfile.ReadError(
                f"a name or note of {member.size:,} bytes, expected at most {NOTE_BYTES:,}"
            )
        return member


def extract(archive: Path, root: Path, folder: str) -> None:
    """Extract the `folder` of a tar archive into `root`: all of it or nothing.

    Anything that is not a plain file or folder under `folder` is refused, such as a link, a device
    or a path that leaves it. So is an archive that unfolds to more than a gigabyte and twenty times
    its size: a data set is compressed to a half at most.
    """
    # The limits stay although the MD5 checksum was verified: docs/security.md promises them for
    # any archive, and our fuzz of this function found errors of tarfile that were passed on.
    with tempfile.TemporaryDirectory(prefix=".extracting-", dir=root) as temporary:
        try:
            _extract_members(archive, Path(temporary), folder)
        except (*REFUSED, ValueError) as error:
            raise DataCorrupt(f"{archive}: the member {error}; nothing was extracted") from error
        except Exception as error:  # tarfile raises many kinds for a damaged archive
            if isinstance(error, OSError) and error.errno in DISK_ERRORS:
                raise OSError(
                    error.errno, f"{archive} cannot be extracted: {error.strerror}", str(root)
                ) from error
            reason = " ".join(str(error).split())
            raise DataCorrupt(
                f"{archive}: not a whole archive ({reason}): delete it and try again"
            ) from error
        extracted = Path(temporary) / folder
        if not extracted.is_dir():
            raise DataCorrupt(
                f"{archive}: there is no folder {folder} in it: it is another archive"
            )
        try:
            os.replace(extracted, root / folder)
        except OSError:  # another process was faster
            if not (root / folder).is_dir():
                raise


def _extract_members(archive: Path, target: Path, folder: str) -> None:
    """Extract each member of an archive after it was checked."""
    most = unfolded_limit(archive, TAR_RATIO)
    unfolded = 0
    with tarfile.open(archive, "r:*", tarinfo=ShortNameMember) as tar:
        for member in tar:
            unfolded += max(member.size, LEAST)
            if unfolded > most:
                raise ValueError(f"{member.name!r} makes it unfold to more than {most:,} bytes")
            _check_place(member, folder)
            tar.extract(member, target, set_attrs=False, **FILTER)


def _check_place(member: tarfile.TarInfo, folder: str) -> None:
    """Refuse a member that is not a plain file or folder under `folder`."""
    parts = PurePosixPath(member.name).parts
    if parts[:1] not in ((), (folder,)) or ".." in parts:
        raise ValueError(f"{member.name!r} lies outside of {folder}/")
    if not member.isfile() and not member.isdir():
        raise ValueError(f"{member.name!r} is neither a file nor a folder")
