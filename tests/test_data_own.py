"""A user's own images: folders of classes and NumPy files; images streamed from the disk."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from data_files import pixels
from PIL import Image

from socrates import data
from socrates.contracts import Stream
from socrates.data import StreamedImages, Transform, folder
from socrates.data.image import image_tensor
from socrates.data.streamed import AHEAD

HALF = ((0.5,) * 3, (0.5,) * 3)


def everything(split, stream=None, batch_size=4):
    return torch.cat(
        [batch.inputs for batch in split.batches(batch_size, torch.arange(len(split)), stream)]
    )


def pictures(
    root: Path, classes=("cat", "dog"), count=10, size=(40, 30), mode="RGB", suffix="png"
) -> Path:
    for label, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        for i in range(count):
            image = Image.fromarray(pixels((size[1], size[0], 3), 1000 * label + i)).convert(mode)
            image.save(root / name / f"{i:03}.{suffix}")
    return root


def test_folder_of_classes_is_split_automatically(tmp_path):
    splits = data.load(f"folder:{pictures(tmp_path / 'mine', count=25)}")
    assert (len(splits.train), len(splits.val), len(splits.test)) == (36, 4, 10)
    assert (splits.num_classes, splits.image_shape) == (2, (3, 32, 32))
    images = torch.cat(
        [everything(split).flatten(1) for split in (splits.train, splits.val, splits.test)]
    )
    assert len(torch.unique(images, dim=0)) == 50
    assert not torch.equal(everything(splits.train), everything(splits.train, Stream(1, 0)))
    assert abs(everything(splits.train).mean()) < 0.05
    assert len(data.load(f"folder:{tmp_path / 'mine'}", num_train=10).train) == 10


def test_folder_with_train_and_test_and_val(tmp_path):
    for name, count in (("train", 20), ("test", 5)):
        pictures(tmp_path / name, ("b", "a"), count)
    splits = data.load(f"folder:{tmp_path}", image_size=16)
    assert (len(splits.train), len(splits.val), len(splits.test)) == (36, 4, 10)
    assert splits.test.labels.tolist() == [0] * 5 + [1] * 5  # classes in the order of their names
    assert splits.image_shape == (3, 16, 16)
    pictures(tmp_path / "val", ("b", "a"), 3)
    splits = data.load(f"folder:{tmp_path}", augment=False)
    assert (len(splits.train), len(splits.val), len(splits.test)) == (40, 6, 10)
    assert torch.equal(everything(splits.train), everything(splits.train, Stream(1, 0)))


def test_images_of_any_kind_and_size(tmp_path):
    for mode, suffix in (("L", "png"), ("RGBA", "png"), ("RGB", "JPG"), ("P", "gif"), ("1", "bmp")):
        pictures(tmp_path / mode, ("a", "b"), count=8, mode=mode, suffix=suffix, size=(33, 90))
        (tmp_path / mode / "a" / "notes.txt").write_text("no image")
        assert data.load(f"folder:{tmp_path / mode}").image_shape == (3, 32, 32)
    large = pictures(tmp_path / "large", count=8, size=(300, 100))
    splits = data.load(f"folder:{large}")
    assert splits.image_shape == (3, 224, 224)
    assert splits.train.transform.scale == (0.08, 1.0)
    assert everything(splits.train, Stream(1, 0)).shape[1:] == (3, 224, 224)


def test_many_images_are_streamed_and_equal_to_resident_ones(tmp_path, monkeypatch):
    path = pictures(tmp_path / "mine", count=10)
    resident = data.load(f"folder:{path}", augment=False)
    monkeypatch.setattr(folder, "RESIDENT_BYTES", 0)
    streamed = data.load(f"folder:{path}", augment=False)
    assert isinstance(streamed.train, StreamedImages)
    for name in ("train", "val", "test"):
        ours, theirs = (getattr(splits, name) for splits in (streamed, resident))
        assert torch.equal(ours.labels, theirs.labels)

        def values(split, images):
            mean, std = (
                torch.tensor(v)[:, None, None] for v in (split.transform.mean, split.transform.std)
            )
            return images * std + mean

        assert torch.allclose(
            values(ours, everything(ours)), values(theirs, everything(theirs)), atol=1e-5
        )
    assert data.load(f"folder:{path}").train.transform.scale == (0.08, 1.0)


def test_wrong_folders_say_what_is_wrong(tmp_path):
    with pytest.raises(data.DataNotFound, match="nothing"):
        data.load(f"folder:{tmp_path / 'nothing'}")
    pictures(tmp_path / "one", ("a",))
    with pytest.raises(ValueError, match=r"one: .*\['a'\]"):
        data.load(f"folder:{tmp_path / 'one'}")
    pictures(tmp_path / "half" / "train")
    with pytest.raises(ValueError, match=r"half: .*\['train'\]"):
        data.load(f"folder:{tmp_path / 'half'}")
    pictures(tmp_path / "half" / "test", ("cat", "cow", "dog"), 2)
    with pytest.raises(ValueError, match=r"test: \['cow'\]"):
        data.load(f"folder:{tmp_path / 'half'}")
    (tmp_path / "half" / "validation").mkdir()
    with pytest.raises(ValueError, match="validation"):
        data.load(f"folder:{tmp_path / 'half'}")
    pictures(tmp_path / "gap")
    (tmp_path / "gap" / "empty").mkdir()
    with pytest.raises(ValueError, match="class empty"):
        data.load(f"folder:{tmp_path / 'gap'}")
    pictures(tmp_path / "none", count=0)
    with pytest.raises(ValueError, match="no images"):
        data.load(f"folder:{tmp_path / 'none'}")


def test_odd_images_and_rare_classes_are_told(tmp_path):
    path = pictures(tmp_path / "mine", count=25)
    Image.new("RGB", (50, 30)).save(path / "cat" / "003.png")
    with pytest.warns(UserWarning, match=r": 1 .*\b50\b.*40x30.* cat.003\.png"):
        data.load(f"folder:{path}")
    Image.new("RGB", (40, 30)).save(path / "cat" / "003.png")
    Image.new("RGBA", (40, 30)).save(path / "dog" / "007.png")
    with pytest.warns(UserWarning, match=r": 1 .*\b50\b.*RGB.* dog.007\.png"):
        assert data.load(f"folder:{path}").class_names == ("cat", "dog")
    Image.new("RGB", (40, 30)).save(path / "dog" / "007.png")
    for i in range(25):
        Image.new("RGB", (40 + i, 30 + i)).save(path / "cat" / f"{i:03}.png")
        Image.new("RGB", (70 + i, 60 + i)).save(path / "dog" / f"{i:03}.png")
    data.load(f"folder:{path}")  # all differ: none is odd
    pictures(tmp_path / "rare" / "train", ("a", "b"), 1)
    pictures(tmp_path / "rare" / "test", ("a", "b"), 1)
    pictures(tmp_path / "rare" / "val", ("a", "b"), 1)
    with pytest.warns(UserWarning, match=r"class a .*single"):
        data.load(f"folder:{tmp_path / 'rare'}")


def test_a_class_that_is_left_with_nothing_to_train_on_is_named(tmp_path):
    np.savez(tmp_path / "mine.npz", images=pixels((20, 8, 8)), labels=np.arange(20))
    with pytest.raises(ValueError, match=r"mine\.npz: .*class \d+"):
        data.load(f"npz:{tmp_path / 'mine.npz'}")
    path = pictures(tmp_path / "mine", [f"class {i}" for i in range(20)], count=1)
    with pytest.raises(ValueError, match=r"mine: .*0\.2 of 20 images"):
        data.load(f"folder:{path}")


def test_classes_that_are_not_measured_are_told(tmp_path):
    path, numbers = tmp_path / "mine.npz", np.arange(30) % 10
    arrays = {
        f"{name}_{part}": value
        for part in ("train", "val")
        for name, value in (("x", pixels((30, 8, 8))), ("y", numbers))
    }
    for found, words in (
        (numbers, "30 test"),
        (numbers % 9, "; no test image of 9"),
        (numbers % 2, "; no test image of 8 classes"),
    ):
        np.savez(path, **arrays, x_test=pixels((30, 8, 8)), y_test=found)
        assert str(data.load(f"npz:{path}")).endswith(words)


@pytest.mark.parametrize("body", [b"no image at all", b""])
def test_unreadable_images_are_named(tmp_path, body):
    path = pictures(tmp_path, count=60)
    (path / "dog" / "007.png").write_bytes(body)
    with pytest.raises(data.DataCorrupt, match=r"dog.007\.png"):
        data.load(f"folder:{path}")


def test_truncated_images_are_named_also_when_streamed(tmp_path, monkeypatch):
    path = pictures(tmp_path / "mine", count=10)
    file = path / "cat" / "003.png"
    file.write_bytes(file.read_bytes()[:1500])
    with pytest.raises(data.DataCorrupt, match=r"cat.003\.png"):
        data.load(f"folder:{path}")
    monkeypatch.setattr(folder, "RESIDENT_BYTES", 0)
    monkeypatch.setenv("SOCRATES_DATA", str(tmp_path / "memory"))
    with pytest.raises(data.DataCorrupt, match=r"cat.003\.png"):
        data.load(f"folder:{path}")
    with pytest.warns(UserWarning, match=r"cat.003\.png"):
        splits = data.load(f"folder:{path}", skip_broken=True)
    parts = (splits.train, splits.val, splits.test)
    assert sum(len(everything(split)) for split in parts) == 19
    # a file that is damaged after it was looked at
    last = splits.train.paths[0]
    last.write_bytes(last.read_bytes()[:1500])
    with pytest.raises(data.DataCorrupt, match=last.name):
        everything(splits.train)


BROKEN = {
    "IMG_1.HEIC": (b"\0\0\0\x18ftypheic", ".heic"),
    "sent.jpg": (b"\0\0\0\x18ftypheic\0\0\0\0", "HEIC or AVIF by content"),
    "empty.png": (b"", "empty"),
    "text.jpg": (b"no image at all", "not an image"),
    "cut.jpg": (None, "damaged"),
}


def with_broken_files(path):
    pictures(path, count=30)
    whole = path / "whole.jpg"
    Image.fromarray(pixels((30, 40, 3), 7)).save(whole)
    for name, (body, _) in BROKEN.items():
        (path / "cat" / name).write_bytes(whole.read_bytes()[:600] if body is None else body)
    whole.unlink()
    (path / "cat" / "notes.txt").write_text("about these pictures")
    return path


def test_every_file_that_cannot_be_read_is_counted_by_kind_and_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SOCRATES_DATA", str(tmp_path / "memory"))
    path = with_broken_files(tmp_path / "mine")
    with pytest.raises(data.DataCorrupt) as error:
        data.load(f"folder:{path}")
    with pytest.warns(UserWarning, match="5 files") as warned:
        splits = data.load(f"folder:{path}", skip_broken=True)
    assert len(splits.train) + len(splits.val) + len(splits.test) == 60
    for words in (str(error.value), str(warned[0].message)):
        assert "5 files" in words.splitlines()[0]
        for name, (_, kind) in BROKEN.items():
            assert f"1 {kind}" in words.splitlines()[0]
            assert f"cat/{name}: {kind}" in words
        assert "notes.txt" not in words
    assert "skip_broken=True" in str(error.value)


@pytest.mark.filterwarnings("default:.*5 files cannot be read")
def test_train_stops_at_files_that_cannot_be_read_or_skips_them(
    tmp_path, monkeypatch, run, few_scalers
):
    monkeypatch.setenv("SOCRATES_DATA", str(tmp_path / "memory"))
    path = with_broken_files(tmp_path / "mine")
    words = ["train", f"folder:{path}", "mlp", "ce", "--epochs", 1, "--width", 4]
    words += ["--device", "cpu", "--out", tmp_path / "runs"]
    code, said = run(*words)
    assert code == 1
    assert not (tmp_path / "runs").exists()
    code, skipped = run(*words, "--skip-broken")
    assert code == 0
    for text in (said, skipped):
        assert all(f"cat/{name}" in text for name in BROKEN)
    assert "--skip-broken" in said
    code, again = run(*words, "--skip-broken")
    assert code == 0
    assert "nothing to do" in again
    code, shown = run("show", next((tmp_path / "runs").iterdir()))
    assert "--skip-broken --seed 1" in " ".join(shown.split())


def test_of_many_files_that_cannot_be_read_a_file_names_all(tmp_path, monkeypatch):
    monkeypatch.setenv("SOCRATES_DATA", str(tmp_path / "memory"))
    path = pictures(tmp_path / "mine", count=30)
    for number in range(30):
        (path / "dog" / f"{number}.heic").write_bytes(b"")
    with pytest.raises(
        data.DataCorrupt, match=r"30 files .*30 \.heic(.|\n)*10 more; all in"
    ) as error:
        data.load(f"folder:{path}")
    (place,) = (tmp_path / "memory" / "unreadable").iterdir()
    assert str(place) in str(error.value)
    assert place.read_text().count(".heic\n") == 30


def test_a_class_of_unsupported_files_only_says_so(tmp_path):
    path = pictures(tmp_path / "mine", count=0)
    (path / "cat" / "IMG_1.HEIC").write_bytes(b"")
    with pytest.raises(ValueError, match=r"no images(.|\n)*IMG_1\.HEIC"):
        data.load(f"folder:{path}")


def test_a_folder_is_split_by_class(tmp_path):
    path = pictures(tmp_path / "mine", ("often",), count=60)
    pictures(path, ("rare", "some"), count=10)
    splits = data.load(f"folder:{path}")
    counts = [part.labels.bincount().tolist() for part in (splits.train, splits.val, splits.test)]
    assert counts == [[44, 7, 7], [4, 1, 1], [12, 2, 2]]


def test_a_folder_is_listed_once_by_a_command(tmp_path, monkeypatch, run, few_scalers):
    path = pictures(tmp_path / "mine", count=20, size=(8, 8))
    listed = []
    monkeypatch.setattr(folder, "class_names", lambda place: listed.append(place) or ["cat", "dog"])
    words = ["train", f"folder:{path}", "mlp", "ce", "--epochs", 1, "--width", 4]
    assert run(*words, "--device", "cpu", "--out", tmp_path / "runs")[0] == 0
    assert listed == [path] * 3  # the folder's names, its classes, and the check of others


@pytest.fixture
def streamed(tmp_path):
    files = sorted(pictures(tmp_path, count=10).rglob("*.png"))
    transform = Transform(*HALF, flip=True, size=24, scale=(0.08, 1.0))
    return StreamedImages(files, torch.arange(20), transform)


def test_streamed_randomness_is_a_function_of_the_stream(streamed, monkeypatch):
    monkeypatch.setattr("socrates.data.streamed.THREADS", 3)
    same = everything(streamed, Stream(1, 0))
    monkeypatch.setattr("socrates.data.streamed.THREADS", 1)
    assert torch.equal(same, everything(streamed, Stream(1, 0)))
    assert not torch.equal(same, everything(streamed, Stream(1, 1)))
    assert not torch.equal(same, everything(streamed, Stream(2, 0)))
    assert torch.equal(everything(streamed), everything(streamed, batch_size=7))
    assert same.min() >= -1
    assert same.max() <= 1


def test_streamed_batches_cover_the_order_and_subsets_count_from_zero(streamed):
    order = torch.tensor([5, 19, 0, 7, 3])
    batches = list(streamed.batches(2, order, Stream(1, 0)))
    assert [batch.index.tolist() for batch in batches] == [[5, 19], [0, 7], [3]]
    assert [batch.labels.tolist() for batch in batches] == [[5, 19], [0, 7], [3]]
    assert list(streamed.batches(2, order[:0])) == []
    part = streamed.subset(order)
    assert part.labels.tolist() == order.tolist()
    assert torch.equal(everything(part), everything(streamed)[order])
    assert streamed.to("meta").labels.device.type == "meta"


def test_few_images_are_ahead_and_threads_end_with_the_reader(streamed, monkeypatch):
    decoded = []
    usual = StreamedImages._decode
    monkeypatch.setattr(
        StreamedImages, "_decode", lambda self, *a: (decoded.append(a[0]), usual(self, *a))[1]
    )
    reader = streamed.batches(2, torch.arange(20))
    next(reader)
    assert len(decoded) <= 2 * (AHEAD + 1)
    reader.close()
    assert not any(thread.name.startswith("decode") for thread in threading.enumerate())
    assert len(decoded) <= 2 * (AHEAD + 1)


def test_flips_of_streamed_images_are_about_half(tmp_path):
    image = np.zeros((24, 24, 3), np.uint8)
    image[:, :12] = 255
    Image.fromarray(image).save(tmp_path / "half.png")
    transform = Transform(*HALF, flip=True, size=24, scale=(1.0, 1.0))
    split = StreamedImages([tmp_path / "half.png"] * 400, torch.zeros(400), transform)
    bright_left = everything(split, Stream(1, 0), 400)[:, 0, 12, 0] > 0
    assert 0.4 < bright_left.double().mean() < 0.6


def test_the_center_is_resized_up_where_it_is_small_and_down_on_request():
    image = Image.fromarray(pixels((50, 60, 3)))
    whole = image_tensor(image, (3, 20, 20), shrink=False).permute(1, 2, 0)
    assert np.array_equal(whole, pixels((50, 60, 3))[15:35, 20:40])
    shrunk = image.crop((5, 0, 55, 50)).resize((20, 20), Image.Resampling.BILINEAR)
    ours = image_tensor(image, (3, 20, 20)).permute(1, 2, 0).numpy()
    assert np.abs(ours.astype(int) - np.array(shrunk)).max() <= 1  # Pillow rounds twice
    assert image_tensor(image, (3, 100, 100), shrink=False).shape == (3, 100, 100)


def test_streamed_images_refuse_what_they_cannot_do(tmp_path):
    with pytest.raises(ValueError, match="need a size"):
        StreamedImages([], torch.zeros(0), Transform(*HALF))
    with pytest.raises(ValueError, match="crop"):
        StreamedImages([], torch.zeros(0), Transform(*HALF, size=8, padding=1))
    with pytest.raises(ValueError, match=r"\b1 images .*\b2 labels"):
        StreamedImages([tmp_path], torch.zeros(2), Transform(*HALF, size=8))


LABELS = np.arange(50) % 5


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((50, 8, 6), (1, 8, 6)),
        ((50, 8, 6, 3), (3, 8, 6)),
        ((50, 3, 8, 6), (3, 8, 6)),
        ((50, 8, 6, 1), (1, 8, 6)),
    ],
)
def test_npz_of_every_layout(tmp_path, shape, expected):
    np.savez(tmp_path / "mine.npz", images=pixels(shape), labels=LABELS[:, None].astype(np.uint8))
    splits = data.load(f"npz:{tmp_path / 'mine.npz'}")
    assert (len(splits.train), len(splits.val), len(splits.test)) == (36, 4, 10)
    assert (splits.num_classes, splits.image_shape) == (5, expected)
    assert everything(splits.train, Stream(1, 0)).shape == (36, *expected)


def test_npz_with_parts(tmp_path):
    content = {
        "x_train": pixels((50, 8, 8)),
        "y_train": LABELS,
        "x_test": pixels((5, 8, 8), 1),
        "y_test": LABELS[:5],
    }
    np.savez_compressed(tmp_path / "mine.npz", **content)
    splits = data.load(f"npz:{tmp_path / 'mine.npz'}", augment=False)
    assert (len(splits.train), len(splits.val), len(splits.test)) == (45, 5, 5)
    mean, std = content["x_train"].mean() / 255, content["x_train"].std() / 255
    expected = (torch.from_numpy(content["x_test"]).double()[:, None] / 255 - mean) / std
    assert torch.allclose(everything(splits.test).double(), expected, atol=1e-5)
    assert splits.class_names == ("0", "1", "2", "3", "4")
    np.savez(tmp_path / "mine.npz", **content, classes=np.array(list("abcde")))
    assert data.load(f"npz:{tmp_path / 'mine.npz'}").class_names == tuple("abcde")
    np.savez(tmp_path / "mine.npz", **content, x_val=pixels((7, 8, 8), 2), y_val=np.zeros(7, int))
    splits = data.load(f"npz:{tmp_path / 'mine.npz'}")
    assert (len(splits.train), len(splits.val), len(splits.test)) == (50, 7, 5)


GOOD = {"x_train": pixels((50, 8, 8)), "y_train": LABELS}
WRONG = {
    "missing": ({"y_train": None}, "y_train .*missing"),
    "no images": ({"x_train": None}, "x_train .*missing"),
    "float": ({"x_train": np.zeros((50, 8, 8))}, "x_train .*float64"),
    "flat": ({"x_train": pixels((50, 64))}, r"x_train .*\(50, 64\)"),
    "channels": ({"x_train": pixels((50, 8, 8, 4))}, r"x_train .*\(50, 8, 8, 4\)"),
    "count": ({"y_train": LABELS[:49]}, r"y_train .*\(49,\).*\b50\b"),
    "float labels": ({"y_train": LABELS / 1.0}, "y_train .*float64"),
    "gap": ({"y_train": LABELS * 2}, r"y_train .*\[0, 2, 4, 6, 8\]"),
    "negative": ({"y_train": LABELS - 1}, r"y_train .*\[-1, 0, 1, 2, 3\]"),
    "one class": ({"y_train": LABELS * 0}, r"y_train .*\[0\]"),
    "pickle": ({"y_train": np.array([{"a": 1}] * 50)}, "y_train .*allow_pickle"),
    "new class": (
        {"x_test": pixels((2, 8, 8)), "y_test": np.array([0, 5])},
        "y_test .*0 to 4",
    ),
    "other shape": (
        {"x_test": pixels((2, 8, 9)), "y_test": np.array([0, 1])},
        r"y_test .*\(1, 8, 9\).*\(1, 8, 8\)",
    ),
    "names": ({"classes": np.array(["a", "b"])}, r"classes .*\b5\b.*\['a', 'b'\]"),
    "same names": ({"classes": np.array(list("abcda"))}, r"classes .*\b5\b.*'d', 'a'\]"),
    "test labels": ({"x_test": pixels((2, 8, 8))}, "y_test .*missing"),
    "empty": (
        {"x_train": pixels((0, 8, 8)), "y_train": LABELS[:0]},
        r"y_train .*\(0,\).*\b0 images",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arrays_are_named(tmp_path, case):
    change, fact = WRONG[case]
    np.savez(
        tmp_path / "mine.npz",
        **{key: value for key, value in (GOOD | change).items() if value is not None},
    )
    with pytest.raises(ValueError, match=rf"mine\.npz: .*{fact}"):
        data.load(f"npz:{tmp_path / 'mine.npz'}")


def test_wrong_files_are_named(tmp_path):
    path = tmp_path / "mine.npz"
    with pytest.raises(data.DataNotFound, match=r"mine\.npz"):
        data.load(f"npz:{path}")
    np.savez(path, **GOOD)
    whole = path.read_bytes()
    for body in (b"", b"not numpy", whole[:1000], b"\x80\x04}."):
        path.write_bytes(body)
        with pytest.raises(ValueError, match=r"mine\.npz: .*savez"):
            data.load(f"npz:{path}")
    with path.open("wb") as file:
        np.save(file, GOOD["x_train"])
    with pytest.raises(ValueError, match="without a name"):
        data.load(f"npz:{path}")
    path.write_bytes(whole[:2000] + bytes([255 - whole[2000]]) + whole[2001:])
    with pytest.raises(ValueError, match=r"x_train .*CRC"):
        data.load(f"npz:{path}")


def test_grey_levels_of_16_bits_keep_their_range(tmp_path):
    levels = np.linspace(0, 65_535, 32 * 32).round().astype(np.uint16).reshape(32, 32)
    for suffix in ("png", "tif", "pgm"):
        for name in ("a", "b"):
            (tmp_path / suffix / name).mkdir(parents=True)
            for i in range(8):
                Image.fromarray(levels).save(tmp_path / suffix / name / f"{i}.{suffix}")
        split = data.load(f"folder:{tmp_path / suffix}", augment=False, image_size=32).train
        expected = (levels / 257).round().astype(np.uint8)
        assert np.array_equal(split.images[0, 0].numpy(), expected), suffix


@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_pixels_of_32_bits_are_refused_by_name(tmp_path, kind):
    pictures(tmp_path, count=8)
    Image.fromarray(np.zeros((40, 30), kind)).save(tmp_path / "dog" / "deep.tif")
    with pytest.raises(data.DataCorrupt, match=r"deep\.tif: .*\b32\b"):
        data.load(f"folder:{tmp_path}")


def test_hidden_files_and_folders_are_no_images(tmp_path):
    pictures(tmp_path, count=8)
    (tmp_path / "cat" / "._0.png").write_bytes(b"of another system")
    (tmp_path / "cat" / ".cache").mkdir()
    (tmp_path / "cat" / ".cache" / "1.png").write_bytes(b"a thumbnail")
    (tmp_path / "cat" / "folder.png").mkdir()
    splits = data.load(f"folder:{tmp_path}")
    assert len(splits.train) + len(splits.val) + len(splits.test) == 16


def test_too_few_images_to_split_are_named(tmp_path):
    pictures(tmp_path / "mine", count=2)
    with pytest.raises(ValueError, match=r"mine: .*0\.2\b.*\b4\b"):
        data.load(f"folder:{tmp_path / 'mine'}")
    np.savez(tmp_path / "few.npz", images=np.zeros((4, 8, 8), np.uint8), labels=np.arange(4) % 2)
    with pytest.raises(ValueError, match=r"few\.npz: .*0\.2\b.*\b4\b"):
        data.load(f"npz:{tmp_path / 'few.npz'}")
