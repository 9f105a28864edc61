"""Data sets by name: official formats, splits, subsets, damaged files."""

from __future__ import annotations

import ast
import dataclasses
import gzip
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from data_files import (
    OFFICIAL_COUNTS,
    cifar10_files,
    cifar100_files,
    food101_files,
    idx,
    mnist_files,
    pixels,
    write,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from socrates import data
from socrates.contracts import Split, Splits, Stream
from socrates.data import download
from socrates.data.fingerprint import fingerprint
from socrates.experiment import Experiment, Part

pytestmark = pytest.mark.filterwarnings(OFFICIAL_COUNTS)


def svhn_content(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    return {
        "X": pixels((32, 32, 3, count), seed),
        "y": (np.arange(count) % 10 + 1).astype(np.uint8)[:, None],
    }


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    """A data folder with every official format; nothing may be downloaded."""
    write(tmp_path, cifar10_files() | cifar100_files() | food101_files(num_classes=3, count=10))
    write(tmp_path / "MNIST" / "raw", mnist_files(compressed=False))
    write(tmp_path / "FashionMNIST" / "raw", mnist_files(compressed=True))
    for part, count in {"train": 40, "test": 20}.items():
        savemat(tmp_path / f"{part}_32x32.mat", svhn_content(count))
    monkeypatch.setattr(
        download, "BASE_URLS", dict.fromkeys(download.BASE_URLS, "http://127.0.0.1:9/")
    )
    return tmp_path


def everything(split: Split, stream: Stream | None = None) -> torch.Tensor:
    return torch.cat(
        [batch.inputs for batch in split.batches(32, torch.arange(len(split)), stream)]
    )


SIZES = {
    "cifar10": (90, 10, 20, 10, (3, 32, 32)),
    "cifar100": (180, 20, 50, 100, (3, 32, 32)),
    "svhn": (36, 4, 20, 10, (3, 32, 32)),
    "food101": (16, 4, 10, 3, (3, 224, 224)),
    "mnist": (36, 4, 20, 10, (1, 28, 28)),
    "fashion_mnist": (36, 4, 20, 10, (1, 28, 28)),
    "digits": (300, 300, 1197, 10, (1, 8, 8)),
}


def test_every_data_set_is_tested():
    assert set(SIZES) == set(data.DATASETS)
    assert all(entry.description for entry in data.DATASETS.values())


@pytest.mark.parametrize("name", SIZES)
def test_contract_of_every_data_set(root, name):
    splits = data.load(name, root)
    num_train, num_val, num_test, num_classes, shape = SIZES[name]
    assert (len(splits.train), len(splits.val), len(splits.test)) == (num_train, num_val, num_test)
    assert (splits.num_classes, splits.image_shape) == (num_classes, shape)
    for split in (splits.train, splits.val, splits.test):
        assert split.labels.dtype == torch.int64
        assert split.labels.max() < num_classes
        batch = next(split.batches(5, torch.tensor([3, 1]), Stream(1, 0)))
        assert batch.inputs.shape == (2, *shape)
        assert torch.equal(batch.labels, split.labels[[3, 1]])
        assert torch.equal(everything(split), everything(split))
    again = data.load(name, root)
    assert torch.equal(again.train.labels, splits.train.labels)
    images = [everything(split).flatten(1) for split in (splits.train, splits.val, splits.test)]
    if name != "digits":  # which has two equal images
        assert len(torch.unique(torch.cat(images[:2]), dim=0)) == num_train + num_val
    small = everything(data.load(name, root, image_size=12).val)
    assert small.shape == (num_val, shape[0], 12, 12)


NAMES = {
    "cifar10": ("airplane", "truck"),
    "cifar100": ("apple", "worm"),
    "food101": ("dish_0", "dish_2"),
    "fashion_mnist": ("T-shirt/top", "Ankle boot"),
}


@pytest.mark.parametrize("name", SIZES)
def test_classes_have_names(root, name):
    names = data.load(name, root).class_names
    assert len(set(names)) == SIZES[name][3]
    assert (names[0], names[-1]) == NAMES.get(name, ("0", "9"))


@pytest.mark.parametrize("name", ["cifar10", "svhn", "food101"])  # resident, turned, streamed
def test_batches_from_a_later_step_are_the_same_bit_for_bit(root, name):
    split = data.load(name, root).train
    order = torch.randperm(len(split), generator=torch.Generator().manual_seed(0))
    for stream in (None, Stream(1, 0)):
        whole = list(split.batches(5, order, stream))
        for first in (1, 3, len(whole) - 1, len(whole), len(whole) + 1):
            rest = list(split.batches(5, order, stream, first))
            assert len(rest) == max(len(whole) - first, 0)
            for one, other in zip(whole[first:], rest, strict=True):
                assert torch.equal(one.inputs, other.inputs)
                assert torch.equal(one.labels, other.labels)
                assert torch.equal(one.index, other.index)


OUTSIDE = """
from socrates import data

def half(root, *, share=0.5, augment="never"):
    splits = data.load("digits", num_train=int(300 * share))
    assert root.name == "mine"
    return splits

def wrong(root):
    return [1, 2, 3]

def rootless():
    return data.load("digits")
"""


def test_a_data_set_from_outside(tmp_path, monkeypatch):
    (tmp_path / "my_data.py").write_text(OUTSIDE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("my_data:half", "my_data.py:half", f"{tmp_path}/my_data.py:half"):
        assert data.options(name) == {"share": 0.5, "augment": "never"}
        assert len(data.load(name, tmp_path / "mine").train) == 150
        assert len(data.load(name, tmp_path / "mine", share=0.2, augment="always").train) == 60
        assert len(data.load(name, tmp_path / "mine", num_train=20).train) == 20
    for name, options, message in (
        (
            "my_data.py:half",
            {"size": 1},
            r"my_data.py:half.* 'size'.* share=0.5",
        ),
        ("my_data.py:wrong", {}, "Splits, got list"),
        ("my_data.py:rootless", {}, "my_data.py:rootless"),
        (
            "my_data.py:nothing",
            {},
            "my_data.py:nothing.*AttributeError",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            data.load(name, tmp_path / "mine", **options)


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "svhn", "food101"])
def test_augmentation_of_training_only_and_switched_off(root, name):
    splits = data.load(name, root)
    assert not torch.equal(everything(splits.train), everything(splits.train, Stream(1, 0)))
    assert torch.equal(everything(splits.val), everything(splits.val, Stream(1, 0)))
    plain = data.load(name, root, augment=False).train
    assert torch.equal(everything(splits.train), everything(plain, Stream(1, 0)))


def test_pixels_and_labels_come_from_the_official_places(root):
    content = cifar10_files()
    splits = data.load("cifar10", root, augment=False)
    records = np.concatenate(
        [
            np.frombuffer(content[f"cifar-10-batches-bin/data_batch_{i}.bin"], np.uint8).reshape(
                -1, 3073
            )
            for i in range(1, 6)
        ]
    )
    train, val = data.validation_split(100)
    assert splits.train.labels.tolist() == records[train, 0].tolist()
    mean, std = (
        torch.tensor(v)[:, None, None] for v in ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
    )
    expected = (
        torch.from_numpy(records[val, 1:].reshape(-1, 3, 32, 32)).float() / 255 - mean
    ) / std
    assert torch.allclose(everything(splits.val), expected, atol=1e-5)
    mnist = data.load("mnist", root)
    expected = (torch.from_numpy(pixels((20, 28, 28)))[:, None].float() / 255 - 0.1307) / 0.3081
    assert torch.allclose(everything(mnist.test), expected, atol=1e-5)
    svhn = data.load("svhn", root)
    # the official class 10 is the digit 0
    assert svhn.test.labels.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0] * 2
    expected = torch.from_numpy(svhn_content(20)["X"]).permute(3, 2, 0, 1).float() / 127.5 - 1
    assert torch.allclose(everything(svhn.test), expected, atol=1e-5)


def test_transfer_learning_sees_enlarged_resized_crops(root):
    splits = data.load("cifar100", root, image_size=64)
    assert splits.image_shape == (3, 64, 64)
    assert splits.train.transform.scale == (0.05, 1.0)
    assert splits.train.transform.padding == 0
    assert everything(splits.train, Stream(1, 0)).shape == (180, 3, 64, 64)


def test_digits_are_stratified():
    splits = data.load("digits")
    for split in (splits.train, splits.val):
        assert torch.bincount(split.labels).min() >= 28
        assert torch.bincount(split.labels).max() <= 32


def test_other_counts_than_the_official_ones_are_said(root):
    with pytest.warns(UserWarning, match=r"SVHN.*: 40 .*73,257.*20 test"):
        data.load("svhn", root)
    data.load("digits")  # an error if it warns


def test_splits_do_not_depend_on_global_randomness(root):
    loaded = []
    for seed in (1, 2):
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
        splits = data.load("svhn", root, num_train=20, augment=False)
        loaded.append([everything(split) for split in (splits.train, splits.val, splits.test)])
        assert np.array_equal(before[0], np.random.get_state()[1])  # noqa: NPY002
        assert torch.equal(before[1], torch.get_rng_state())
    assert all(torch.equal(*pair) for pair in zip(*loaded, strict=True))


def test_other_packages_are_imported_only_where_they_are_used(monkeypatch):
    for path in Path(data.__file__).parent.glob("*.py"):
        outside = [
            node
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        names = {
            alias.name for node in outside if isinstance(node, ast.Import) for alias in node.names
        }
        names |= {
            node.module or ""
            for node in outside
            if isinstance(node, ast.ImportFrom) and not node.level
        }
        assert {name.split(".")[0] for name in names} <= {
            "torch",
            "numpy",
            "socrates",
            *sys.stdlib_module_names,
        }
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"sklearn\.datasets.*socrates-loss\[train\]"):
        data.load("digits")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("fashion-mnist", "'fashion_mnist'"), ("imagenet22k", ""), ("folder:", "'folder:PATH'")],
)
def test_unknown_names_list_the_choices(name, nearest):
    with pytest.raises(ValueError, match=rf"'{name}'.*{nearest}.* cifar10, ") as error:
        data.load(name)
    assert all(choice in str(error.value) for choice in ("svhn", "folder:PATH", "npz:PATH"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 3}, "'size'.* image_size=None, augment=True"),
        ({"image_size": 0}, "got 0"),
        ({"image_size": True}, "got True"),
        ({"augment": "no"}, "'no'"),
        ({"label_noise": 1.1}, "from 0 to 1, got 1.1"),
        ({"label_noise": float("nan")}, "got nan"),
        ({"label_noise": "much"}, "got 'much'"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        data.load("digits", **options)


def test_label_noise_is_in_the_training_labels_alone_and_always_the_same():
    clean, noisy = data.load("digits"), data.load("digits", label_noise=0.2)
    wrong = noisy.train.labels != clean.train.labels
    assert wrong.sum() == 60
    assert noisy.train.labels.unique().tolist() == list(range(10))
    assert torch.equal(data.load("digits", label_noise=0.2).train.labels, noisy.train.labels)
    more = data.load("digits", label_noise=0.4).train.labels
    assert torch.equal(more[wrong], noisy.train.labels[wrong])
    for part in ("val", "test"):
        assert torch.equal(getattr(noisy, part).labels, getattr(clean, part).labels)
    assert torch.equal(noisy.train.images, clean.train.images)
    assert (data.load("digits", label_noise=1).train.labels != clean.train.labels).all()


def test_label_noise_is_part_of_a_run_s_name_and_of_its_data():
    clean = Experiment(Part("digits"), Part("mlp"), Part("ce"))
    noisy = dataclasses.replace(clean, dataset=Part("digits", label_noise=0.2))
    assert (
        clean.name
        == dataclasses.replace(clean, dataset=Part("digits", label_noise=0)).name
        != noisy.name
    )
    clean_print, noisy_print = (
        fingerprint("digits", lambda noise=noise: data.load("digits", label_noise=noise))
        for noise in (0, 0.2)
    )
    assert clean_print.difference(noisy_print)


def test_data_root(monkeypatch, tmp_path):
    monkeypatch.setenv("SOCRATES_DATA", str(tmp_path / "env"))
    assert data.data_root(tmp_path) == tmp_path
    assert data.data_root() == tmp_path / "env"
    monkeypatch.delenv("SOCRATES_DATA")
    assert data.data_root() == Path.home() / ".cache" / "socrates"


def test_to_device_moves_every_split():
    moved = data.to_device(data.load("digits"), "meta")
    assert {split.labels.device.type for split in (moved.train, moved.val, moved.test)} == {"meta"}
    assert isinstance(moved, Splits)


@pytest.mark.parametrize("num_train", [9, 301, 0, -1])
def test_impossible_subsets_are_refused(num_train):
    with pytest.raises(ValueError, match=rf"\b10\b.*\b300\b.*{num_train}$"):
        data.load("digits", num_train=num_train)


def test_subset_is_fixed_and_leaves_validation_alone(root):
    whole, part = (
        data.load("cifar10", root, augment=False),
        data.load("cifar10", root, num_train=30, augment=False),
    )
    assert torch.equal(part.train.labels, data.load("cifar10", root, num_train=30).train.labels)
    assert torch.equal(everything(part.val), everything(whole.val))
    rows = {row.numpy().tobytes() for row in everything(whole.train)}
    assert {row.numpy().tobytes() for row in everything(part.train)} <= rows
    assert len(data.load("food101", root, num_train=6).train) == 6


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=200), st.data())
def test_stratified_subset_keeps_shares_to_within_one(labels, more):
    labels = np.array(labels)
    count = more.draw(st.integers(len(np.unique(labels)), len(labels)))
    index = data.stratified_subset(labels, count)
    assert len(set(index.tolist())) == len(index) == count
    assert index.tolist() == sorted(index)
    for label in np.unique(labels):
        share = count * (labels == label).sum() / len(labels)
        assert abs((labels[index] == label).sum() - share) < 1
    assert np.array_equal(index, data.stratified_subset(labels, count))
    with pytest.raises(ValueError, match="between"):
        data.stratified_subset(labels, len(labels) + 1)


def damage(path: Path, change) -> None:
    path.write_bytes(change(path.read_bytes()))


DAMAGE = {
    "cifar10 truncated": (
        "cifar10",
        "cifar-10-batches-bin/data_batch_3.bin",
        lambda b: b[:-1],
        "data_batch_3.bin: 61459 bytes",
    ),
    "cifar10 empty": (
        "cifar10",
        "cifar-10-batches-bin/test_batch.bin",
        lambda b: b"",
        "test_batch.bin: 0 bytes",
    ),
    "cifar10 label": (
        "cifar10",
        "cifar-10-batches-bin/test_batch.bin",
        lambda b: b"\x0a" + b[1:],
        "record 0 .*label 10",
    ),
    "cifar100 label": (
        "cifar100",
        "cifar-100-binary/train.bin",
        lambda b: b"\x00\x64" + b[2:],
        "label 100",
    ),
    "svhn header": (
        "svhn",
        "train_32x32.mat",
        lambda b: b"x" + b[1:],
        "train_32x32.mat: .*header",
    ),
    "svhn truncated": (
        "svhn",
        "test_32x32.mat",
        lambda b: b[: len(b) // 2],
        "test_32x32.mat: truncated or damaged",
    ),
    "svhn short": ("svhn", "test_32x32.mat", lambda b: b[:50], "test_32x32.mat: .*header"),
    "mnist truncated": (
        "mnist",
        "MNIST/raw/train-images-idx3-ubyte",
        lambda b: b[:-5],
        "31371 bytes, expected 31376",
    ),
    "mnist header only": (
        "mnist",
        "MNIST/raw/train-images-idx3-ubyte",
        lambda b: b[:9],
        "starts with 00000803",
    ),
    "mnist too long": (
        "mnist",
        "MNIST/raw/t10k-labels-idx1-ubyte",
        lambda b: b + b"x",
        "t10k-labels-idx1-ubyte: more than 28 bytes",
    ),
    "mnist magic": (
        "mnist",
        "MNIST/raw/t10k-images-idx3-ubyte",
        lambda b: b"\x01" + b[1:],
        "starts with 01000803",
    ),
    "mnist label": (
        "mnist",
        "MNIST/raw/train-labels-idx1-ubyte",
        lambda b: b[:-1] + b"\x0b",
        "entry 39 .*label 11",
    ),
    "mnist huge": (
        "mnist",
        "MNIST/raw/t10k-images-idx3-ubyte",
        lambda b: b[:4] + struct.pack(">3I", *[2**32 - 1] * 3),
        "truncated",
    ),
    "mnist bomb": (
        "fashion_mnist",
        "FashionMNIST/raw/t10k-labels-idx1-ubyte.gz",
        lambda _: gzip.compress(idx(np.zeros(20, np.uint8)) + bytes(10_000_000)),
        "more than 28 bytes",
    ),
    "fashion gzip": (
        "fashion_mnist",
        "FashionMNIST/raw/train-labels-idx1-ubyte.gz",
        lambda b: b[:-12],
        "train-labels.*truncated",
    ),
    "fashion not gzip": (
        "fashion_mnist",
        "FashionMNIST/raw/train-labels-idx1-ubyte.gz",
        lambda b: b"no",
        "Not a gzipped",
    ),
    "food class": (
        "food101",
        "food-101/meta/train.txt",
        lambda b: b"cake/1\n" + b,
        "train.txt: 'cake/1' ",
    ),
    "food empty": (
        "food101",
        "food-101/meta/test.txt",
        lambda b: b"",
        "test.txt: .*empty",
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_files_are_named(root, case):
    name, file, change, message = DAMAGE[case]
    damage(root / file, change)
    with pytest.raises(data.DataCorrupt, match=message):
        data.load(name, root)


def test_counts_and_shapes_that_do_not_fit_are_named(root):
    raw = root / "MNIST" / "raw"
    (raw / "t10k-labels-idx1-ubyte").write_bytes(idx(np.zeros(19, np.uint8)))
    with pytest.raises(data.DataCorrupt, match=r"t10k-labels-idx1-ubyte: 19 .* 20 "):
        data.load("mnist", root)
    (raw / "train-images-idx3-ubyte").write_bytes(idx(pixels((40, 27, 28))))
    with pytest.raises(data.DataCorrupt, match=r"train-images.*\(27, 28\).*\(28, 28\)"):
        data.load("mnist", root)
    for change, fact in (
        ({"X": pixels((32, 32, 1, 20))}, r"X .*\(32, 32, 1, 20\)"),
        ({"y": np.zeros((20, 1))}, r"y .*\b20\b.*\b10\b.*\(20, 1\)"),
        ({"y": np.ones((19, 1))}, r"y .*\b20\b.*\(19, 1\)"),
    ):
        savemat(root / "test_32x32.mat", svhn_content(20) | change)
        with pytest.raises(data.DataCorrupt, match=rf"test_32x32\.mat: {fact}"):
            data.load("svhn", root)
    savemat(root / "test_32x32.mat", {"z": np.ones(3)})
    with pytest.raises(data.DataCorrupt, match="variables X and y"):
        data.load("svhn", root)


def test_missing_files_inside_a_folder_are_named(root):
    (root / "cifar-10-batches-bin" / "data_batch_4.bin").unlink()
    with pytest.raises(data.DataNotFound, match=r"data_batch_4\.bin"):
        data.load("cifar10", root)
    (root / "food-101" / "images" / "dish_1" / "100.jpg").unlink()
    with pytest.raises(data.DataNotFound, match=r"^1 .*train\.txt .*dish_1.100\.jpg"):
        data.load("food101", root)
    (root / "food-101" / "meta" / "classes.txt").unlink()
    with pytest.raises(data.DataNotFound, match=r"classes\.txt"):
        data.load("food101", root)


def test_compressed_and_plain_files_give_the_same(root):
    raw = root / "MNIST" / "raw"
    plain = data.load("mnist", root)
    for path in list(raw.iterdir()):
        (raw / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    packed = data.load("mnist", root)
    for field in dataclasses.fields(Splits)[:3]:
        assert torch.equal(
            everything(getattr(plain, field.name)), everything(getattr(packed, field.name))
        )
