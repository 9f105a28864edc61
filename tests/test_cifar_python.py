"""CIFAR's python version: the same splits as from the binary one, and nothing in it is run."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from data_files import OFFICIAL_COUNTS, cifar10_files, cifar100_files, md5, pixels, tar_gz, write

from cifar_python_files import array, batch, from_records, some_batch, text
from socrates import data
from socrates.data import download
from socrates.data.cifar_python import read_batches, read_pickle
from socrates.data.download import Remote

pytestmark = pytest.mark.filterwarnings(OFFICIAL_COUNTS)
FOLDERS = {"cifar10": "cifar-10-batches-py", "cifar100": "cifar-100-python"}
FILES = {"cifar10": cifar10_files(), "cifar100": cifar100_files()}


def python_files(name):
    return {
        f"{FOLDERS[name]}/{path.rpartition('/')[2].removesuffix('.bin')}": from_records(
            records, num_labels=2 if name == "cifar100" else 1
        )
        for path, records in FILES[name].items()
    }


@pytest.mark.parametrize("name", FOLDERS)
def test_both_versions_give_the_same_splits(tmp_path, name):
    write(tmp_path / "binary", FILES[name])
    write(tmp_path / "python", python_files(name))
    binary, python = (data.load(name, tmp_path / kind) for kind in ("binary", "python"))
    for part in ("train", "val", "test"):
        ours, theirs = getattr(python, part), getattr(binary, part)
        assert torch.equal(ours.labels, theirs.labels)
        assert torch.equal(ours.images, theirs.images)
    assert python.class_names == binary.class_names


def test_its_archive_is_extracted_and_checked(tmp_path, monkeypatch):
    archive = tar_gz(python_files("cifar10"))
    path = tmp_path / "cifar-10-python.tar.gz"
    path.write_bytes(archive)
    with pytest.raises(data.DataCorrupt, match="c58f3010"):
        data.load("cifar10", tmp_path)
    remote = Remote("cifar", path.name, md5(archive))
    monkeypatch.setitem(download.FILES, "cifar10/python", remote)
    assert len(data.load("cifar10", tmp_path).test) == 20


def test_the_binary_version_comes_first(tmp_path):
    write(tmp_path, FILES["cifar10"])
    write(tmp_path, {"cifar-10-batches-py/data_batch_1": b"never read"})
    assert len(data.load("cifar10", tmp_path).test) == 20


def test_what_python_itself_reads(tmp_path):
    """Our own writer of these files makes pickles that Python 3 reads as the official ones."""
    path = tmp_path / "data_batch_1"
    path.write_bytes(some_batch())
    expected = pickle.loads(path.read_bytes(), encoding="bytes")
    images, labels = read_batches([path], "labels", 10)
    assert np.array_equal(images.reshape(3, 3072), expected[b"data"])
    assert labels.tolist() == expected[b"labels"]


def test_columns_first(tmp_path):
    values = pixels((3, 3072))
    body = array(np.frombuffer(values.tobytes(order="F"), np.uint8).reshape(3, 3072))
    body = body.replace(b"K\x00tb\x89", b"K\x00tb\x88")
    path = tmp_path / "test_batch"
    path.write_bytes(b"\x80\x02}(" + text("data") + body + text("labels") + b"](K\x00K\x01K\x02eu.")
    images, _ = read_batches([path], "labels", 10)
    assert np.array_equal(images.reshape(3, 3072), values)


class Hostile:
    def __reduce__(self):
        return exec, ("raise SystemExit('it was run')",)


def nested_tuples(depth):
    """A key whose hash would take 2^depth steps."""
    return b"\x80\x02}K\x01\x85" + b"q\x00h\x00\x86" * depth + b"K\x01s."


HOSTILE = {
    "a call": pickle.dumps({"data": Hostile()}, protocol=2),
    "a call, protocol 4": pickle.dumps({"data": Hostile()}, protocol=4),
    "os.system": b"\x80\x02cposix\nsystem\nU\x02id\x85R.",
    "another name of numpy": b"\x80\x02cnumpy\nload\nU\x02id\x85R.",
    "a call of ndarray": b"\x80\x02cnumpy\nndarray\nJ\xff\xff\xff\x7f\x85R.",
    "a class": b"\x80\x02}U\x04datacnumpy\nndarray\n)\x81s.",
    "an instance": b"(iposix\nsystem\n.",
    "a persistent id": b"\x80\x02U\x01aQ.",
    "an array of terabytes": some_batch().replace(b"J\x00\x0c\x00\x00", b"J\xff\xff\xff\x7f"),
    "an array of objects": some_batch().replace(b"U\x02u1", b"U\x02O8"),
    "a hash of years": nested_tuples(80),
    "a huge memo": b"\x80\x02}r\xff\xff\xff\xff.",
    "a bytearray": b"\x80\x05\x96\xff\xff\xff\xff\xff\x00\x00\x00.",
    "an empty stack": b"\x80\x02.",
    "no mark": b"\x80\x02]e.",
    "half a file": some_batch()[:2000],
    "nothing": b"",
    "a list": b"\x80\x02].",
    "text": b"<html>",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pickle_is_refused_in_one_line(tmp_path, name):
    path = tmp_path / "data_batch_1"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(data.DataCorrupt, match="data_batch_1") as error:
        read_batches([path], "labels", 10)
    assert "\n" not in str(error.value)


WRONG = {
    "a label above": batch(pixels((1, 3072)), {"labels": [10]}),
    "too few labels": batch(pixels((2, 3072)), {"labels": [1]}),
    "other pixels": batch(pixels((1, 300)), {"labels": [1]}),
    "other labels": batch(pixels((1, 3072)), {"fine_labels": [1]}),
    "no images": batch(pixels((0, 3072)), {"labels": []}),
}


@pytest.mark.parametrize("name", WRONG)
def test_another_batch_is_refused_with_what_was_expected(tmp_path, name):
    path = tmp_path / "test_batch"
    path.write_bytes(WRONG[name])
    with pytest.raises(data.DataCorrupt, match=r"test_batch.*labels"):
        read_batches([path], "labels", 10)


def test_a_missing_file_and_a_large_one(tmp_path, monkeypatch):
    path = tmp_path / "train"
    with pytest.raises(data.DataNotFound, match="train"):
        read_pickle(path)
    path.write_bytes(some_batch())
    monkeypatch.setattr("socrates.data.cifar_python.LARGEST", 100)
    with pytest.raises(data.DataCorrupt, match="at most 100"):
        read_pickle(path)
