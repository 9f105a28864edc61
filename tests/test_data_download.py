"""Downloads from a loopback server, safe extraction, and what is said when nothing can be had."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import tarfile
import warnings
from pathlib import Path

import pytest
from data_files import (
    OFFICIAL_COUNTS,
    cifar10_files,
    food101_files,
    md5,
    mnist_files,
    server,
    tar_gz,
    write,
)

from socrates import data
from socrates.data import download
from socrates.data.download import Remote, extract, fetch

pytestmark = pytest.mark.filterwarnings(OFFICIAL_COUNTS)
CIFAR = "cifar-10-batches-bin"


@pytest.fixture
def web(tmp_path, monkeypatch):
    """A folder that a loopback server offers under every base address, and what was asked of it."""
    folder = tmp_path / "web"
    folder.mkdir()
    with server(folder) as (address, requested):
        monkeypatch.setattr(download, "BASE_URLS", dict.fromkeys(download.BASE_URLS, address))
        yield folder, requested


def offer(monkeypatch, folder: Path, key: str, body: bytes, name: str | None = None) -> Remote:
    remote = download.FILES[key]
    remote = Remote(remote.source, name or remote.name, md5(body))
    (folder / remote.name).write_bytes(body)
    monkeypatch.setitem(download.FILES, key, remote)
    return remote


def test_cifar10_is_downloaded_and_extracted_once(web, monkeypatch, tmp_path):
    folder, requested = web
    offer(monkeypatch, folder, "cifar10", tar_gz(cifar10_files()))
    root = tmp_path / "data"
    assert len(data.load("cifar10", root).train) == 90
    assert requested == ["/cifar-10-binary.tar.gz"]
    assert sorted(path.name for path in root.iterdir()) == [
        "cifar-10-batches-bin",
        "cifar-10-binary.tar.gz",
    ]
    data.load("cifar10", root)
    assert len(requested) == 1
    for path in (root / CIFAR).iterdir():
        path.unlink()
    (root / CIFAR).rmdir()
    data.load("cifar10", root)  # from the archive that is there
    assert len(requested) == 1


def test_food101_and_mnist_are_downloaded(web, monkeypatch, tmp_path):
    folder, requested = web
    offer(monkeypatch, folder, "food101", tar_gz(food101_files()))
    for name, body in mnist_files(compressed=True).items():
        offer(monkeypatch, folder, f"mnist/{name.split('-idx')[0]}", body)
    assert len(data.load("food101", tmp_path).train) == 8
    assert len(data.load("mnist", tmp_path).train) == 36
    assert len(requested) == 5
    assert len(list((tmp_path / "MNIST" / "raw").iterdir())) == 4
    (tmp_path / "MNIST" / "raw" / "t10k-labels-idx1-ubyte.gz").unlink()
    data.load("mnist", tmp_path)
    assert requested[5:] == ["/t10k-labels-idx1-ubyte.gz"]  # only what is missing


def test_a_wrong_checksum_keeps_nothing(web, monkeypatch, tmp_path):
    folder, _ = web
    remote = offer(monkeypatch, folder, "svhn/train", b"the right one")
    (folder / remote.name).write_bytes(b"another one")
    root = tmp_path / "data"
    with pytest.raises(data.DataCorrupt, match=rf"train_32x32\.mat.*{remote.md5}"):
        fetch("svhn/train", root)
    assert list(root.iterdir()) == []


def test_an_interrupted_download_leaves_no_half_file(web, monkeypatch, tmp_path):
    folder, _ = web
    offer(monkeypatch, folder, "svhn/test", bytes(100_000), name="short.mat")
    root = tmp_path / "data"
    with pytest.raises((data.DataNotFound, data.DataCorrupt), match=r"short\.mat"):
        fetch("svhn/test", root)
    assert list(root.iterdir()) == []


def test_ctrl_c_leaves_no_half_file(web, monkeypatch, tmp_path):
    folder, _ = web
    offer(monkeypatch, folder, "svhn/test", bytes(1_000_000))

    def half(response, chunk_size):
        yield response.raw.read(chunk_size)
        raise KeyboardInterrupt

    monkeypatch.setattr("requests.Response.iter_content", half)
    with pytest.raises(KeyboardInterrupt):
        fetch("svhn/test", tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize("key", download.FILES)
def test_without_a_network_the_error_says_what_to_do(key, monkeypatch, tmp_path):
    usual = download.FILES[key].url
    monkeypatch.setattr(
        download, "BASE_URLS", dict.fromkeys(download.BASE_URLS, "http://127.0.0.1:9/")
    )
    remote = download.FILES[key]
    with pytest.raises(data.DataNotFound) as caught:
        fetch(key, tmp_path)
    message = str(caught.value)
    for part in (remote.name, remote.md5, remote.url, str(tmp_path / remote.name)):
        assert part in message
    assert usual.startswith("http")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_the_server_does_not_have(web, tmp_path):
    with pytest.raises(data.DataNotFound, match="404"):
        fetch("svhn/test", tmp_path / "data")


def test_a_damaged_archive_on_the_disk_is_named(tmp_path):
    (tmp_path / "cifar-100-binary.tar.gz").write_bytes(b"half a file")
    with pytest.raises(data.DataCorrupt, match=r"cifar-100-binary\.tar\.gz.*03b5dce0"):
        data.load("cifar100", tmp_path)


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, 4 if kind == tarfile.REGTYPE else 0
    return info


MALICIOUS = {
    "parent": [member(f"{CIFAR}/../../evil.txt")],
    "leading parent": [member("../evil.txt")],
    "absolute": [member("/evil.txt")],
    "elsewhere": [member("other/evil.txt")],
    "backslash": [member(f"{CIFAR}\\..\\evil.txt")],
    "symbolic link": [
        member(f"{CIFAR}/link", tarfile.SYMTYPE, "/"),
        member(f"{CIFAR}/link/evil.txt"),
    ],
    "link as the folder": [member(CIFAR, tarfile.SYMTYPE, ".."), member(f"{CIFAR}/evil.txt")],
    "hard link": [member(f"{CIFAR}/link", tarfile.LNKTYPE, "../../web")],
    "device": [member(f"{CIFAR}/null", tarfile.CHRTYPE)],
    "longest name": [member(f"{CIFAR}/{'x' * 300}")],
    "file as a folder": [member(f"{CIFAR}/good.bin/evil.txt")],
    "pipe": [member(f"{CIFAR}/pipe", tarfile.FIFOTYPE)],
}


@pytest.mark.parametrize("case", MALICIOUS)
def test_malicious_archives_write_nothing(case, tmp_path):
    root = tmp_path / "outer" / "data"
    root.mkdir(parents=True)
    archive = tmp_path / "archive.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for info in [member(f"{CIFAR}/good.bin"), *MALICIOUS[case]]:
            tar.addfile(info, io.BytesIO(b"evil") if info.isreg() else None)
    with pytest.raises(data.DataCorrupt, match=r"archive\.tar\.gz"):
        extract(archive, root, CIFAR)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["archive.tar.gz", "data", "outer"]


@pytest.mark.parametrize("keep", [0.3, 0.7, 0.98])
def test_truncated_archives_write_nothing(keep, tmp_path):
    body = tar_gz(cifar10_files())
    archive = tmp_path / "archive.tar.gz"
    archive.write_bytes(body[: int(keep * len(body))])
    with pytest.raises(data.DataCorrupt, match=r"archive\.tar\.gz"):
        extract(archive, tmp_path, CIFAR)
    assert [path.name for path in tmp_path.iterdir()] == ["archive.tar.gz"]


def test_a_full_disk_is_no_damage(tmp_path, monkeypatch):
    archive = tmp_path / "archive.tar.gz"
    archive.write_bytes(tar_gz(cifar10_files()))

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tarfile, "copyfileobj", full)
    with pytest.raises(OSError, match=r"archive\.tar\.gz") as error:
        extract(archive, tmp_path, CIFAR)
    assert error.value.errno == errno.ENOSPC
    assert [path.name for path in tmp_path.iterdir()] == ["archive.tar.gz"]


def test_another_archive_is_refused(tmp_path):
    archive = tmp_path / "archive.tar.gz"
    archive.write_bytes(tar_gz({}))
    with pytest.raises(data.DataCorrupt, match=CIFAR):
        extract(archive, tmp_path, CIFAR)


def test_a_folder_that_another_process_extracted_meanwhile_stays(tmp_path):
    archive = tmp_path / "archive.tar.gz"
    archive.write_bytes(tar_gz(cifar10_files()))
    write(tmp_path, {f"{CIFAR}/data_batch_1.bin": b"first"})
    extract(archive, tmp_path, CIFAR)
    assert (tmp_path / CIFAR / "data_batch_1.bin").read_bytes() == b"first"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive.tar.gz", CIFAR]


def test_a_file_that_is_there_is_compared_with_its_sum_once(monkeypatch, tmp_path):
    body = b"the official content"
    digest = hashlib.md5(body).hexdigest()
    monkeypatch.setitem(download.FILES, "svhn/test", Remote("svhn", "test.mat", digest))
    path = tmp_path / "test.mat"
    path.write_bytes(body)
    os.utime(path, (1e9, 1e9))
    read = []
    monkeypatch.setattr(download, "_md5", lambda path: read.append(path) or digest)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [download.fetch("svhn/test", tmp_path) for _ in range(3)] == [path] * 3
    assert read == [path]
    monkeypatch.undo()
    monkeypatch.setitem(download.FILES, "svhn/test", Remote("svhn", "test.mat", digest))
    path.write_bytes(body[:-1] + b"!")
    with pytest.warns(UserWarning, match=rf"test\.mat is not the official file.*{digest}"):
        assert download.fetch("svhn/test", tmp_path) == path
