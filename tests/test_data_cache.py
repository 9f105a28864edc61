"""Decoded images on the disk: decoded once, noticed when damaged, bounded, and never needed."""

from __future__ import annotations

import os
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from picture_files import picture
from socrates import data
from socrates.data import cache, folder
from socrates.data.cache import DecodedImages, cache_path, read_cached, write_cached


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of images, and a data folder of its own."""
    monkeypatch.setenv("SOCRATES_DATA", str(tmp_path / "memory"))
    for number in range(16):
        path = tmp_path / "photos" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        picture(20, 14, number).save(path)
        os.utime(path, (1e9, 1e9))
    return tmp_path / "photos"


@pytest.fixture
def decodings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files in the order in which they are decoded."""
    names: list[str] = []

    def watched(path: Path):
        names.append(path.name)
        return opened(path)

    opened = folder.opened
    monkeypatch.setattr(folder, "opened", watched)
    return names


def images_of(splits: data.folder.Splits) -> np.ndarray:
    parts = (splits.train, splits.val, splits.test)
    return np.concatenate([part.images.numpy() for part in parts])  # type: ignore[attr-defined]


def load(place: Path, **options: object) -> np.ndarray:
    return images_of(data.load(f"folder:{place}", image_size=8, **options))


def test_a_second_run_decodes_nothing_and_sees_the_same(photos: Path, decodings: list[str]) -> None:
    first = load(photos)
    assert len(decodings) == 16
    assert np.array_equal(load(photos), first)
    assert len(decodings) == 16
    photos.rename(photos.with_name("moved"))  # the contents count, not the place
    assert np.array_equal(load(photos.with_name("moved")), first)
    assert len(decodings) == 16


def test_another_size_and_another_content_are_decoded(photos: Path, decodings: list[str]) -> None:
    load(photos)
    data.load(f"folder:{photos}", image_size=10)
    assert len(decodings) == 32
    changed = photos / "a" / "0.png"
    picture(20, 14, 99).save(changed)
    after = load(photos)
    assert decodings[32:].count("0.png") == 1
    assert not np.array_equal(after, load(photos.parent / "photos", augment=False)[::-1])


@pytest.mark.parametrize("damage", ["cut", "changed", "longer", "empty"])
def test_a_damaged_cache_is_noticed_and_made_again(
    photos: Path, decodings: list[str], damage: str
) -> None:
    first = load(photos)
    files = sorted((photos.parent / "memory" / "images").iterdir())
    assert len(files) == 3  # train, val and test
    for file in files:
        content = bytearray(file.read_bytes())
        if damage == "changed":
            content[-1] ^= 1
        damaged = {"cut": content[:-5], "changed": content, "longer": content + b"x", "empty": b""}
        file.write_bytes(damaged[damage])
    assert np.array_equal(load(photos), first)
    assert len(decodings) == 32
    assert np.array_equal(load(photos), first)
    assert len(decodings) == 32


def test_a_broken_image_is_reported_each_time_and_the_others_are_kept(
    photos: Path, decodings: list[str]
) -> None:
    (photos / "a" / "broken.png").write_bytes(b"no image")
    for _ in range(2):
        with pytest.raises(data.DataCorrupt, match=r"broken\.png"):
            load(photos)
    assert decodings.count("broken.png") == 2
    assert len(decodings) == 18
    with pytest.warns(UserWarning, match=r"broken\.png"):
        assert len(load(photos, skip_broken=True)) == 16
    assert len(decodings) == 19


@pytest.mark.parametrize("place", ["file", "full"])
def test_without_a_cache_it_goes_on(
    photos: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    first = load(photos)
    if place == "file":  # no folder can be made there
        (photos.parent / "nowhere").write_text("a file")
        monkeypatch.setenv("SOCRATES_DATA", str(photos.parent / "nowhere"))
    else:
        monkeypatch.setenv("SOCRATES_DATA", str(photos.parent / "other"))

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(cache, "replacing", full)
    assert np.array_equal(load(photos), first)
    assert not list((photos.parent / "other").glob("images/*"))


def test_the_oldest_files_make_room(tmp_path: Path) -> None:
    images = np.zeros((2, 3, 8, 8), np.uint8)  # 384 bytes
    decoded = DecodedImages(images, [("8x8", "RGB"), None])
    paths = [cache_path([str(number)], 8, tmp_path) for number in range(3)]
    for age, path in enumerate(paths):
        write_cached(path, decoded, largest=1200)
        os.utime(path, (1e9 + age, 1e9 + age))
    assert [path.exists() for path in paths] == [False, True, True]
    assert read_cached(paths[1], 2, 8) is not None  # used now
    write_cached(paths[0], decoded, largest=1200)
    assert [path.exists() for path in paths] == [True, True, False]
    write_cached(paths[2], decoded, largest=100)  # larger than all of them may be
    assert not paths[2].exists()


def write_often(path: Path, value: int) -> None:
    images = np.full((50, 3, 8, 8), value, np.uint8)
    for _ in range(20):
        write_cached(path, DecodedImages(images, [("8x8", "RGB")] * 50))
        found = read_cached(path, 50, 8)
        assert found is not None
        assert len(np.unique(found.images)) == 1


@pytest.mark.slow
def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = cache_path(["x"], 8, tmp_path)
    context = get_context("spawn")
    writers = [context.Process(target=write_often, args=(path, value)) for value in (1, 2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert [file.name for file in path.parent.iterdir()] == [path.name]
