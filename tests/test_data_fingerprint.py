"""A run keeps to the data that it began with: what counts as the same data, and what is said of
others."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from data_files import OFFICIAL_COUNTS, cifar10_files, food101_files, pixels, write
from PIL import Image

from socrates import data
from socrates.data import fingerprint as module
from socrates.data.fingerprint import fingerprint
from socrates.engine import train
from socrates.engine.events import Finished, Started, Stepped
from socrates.engine.studies import runs
from socrates.engine.train import already_finished
from socrates.experiment import Experiment, Optimization, Part
from socrates.records import Run

OLD = time.time_ns() - 10**12  # a time that a file's change cannot have


class Told:
    """Keeps what is told, and stops in the epoch that it is given."""

    def __init__(self, stop=None):
        self.stop, self.words, self.first = stop, None, None

    def __call__(self, event):
        if isinstance(event, Started):
            self.first = event.epochs_done
        if isinstance(event, Finished):
            self.words = event.already
        if event == Stepped(self.stop, 0):
            raise KeyboardInterrupt


def of(name, method="socrates"):
    settings = Optimization(epochs=3, batch_size=16, learning_rate=0.05)
    return Experiment(
        Part(name, image_size=8), Part("mlp", width=4), Part(method), optimization=settings
    )


def trained(state, name="folder:images", **options):
    return train(of(name), state, accelerator="cpu", **options)


def picture(path, seed):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels((8, 8, 3), seed)).save(path)
    os.utime(path, ns=(OLD, OLD))


def pictures(folder, classes=("ant", "bee", "cow"), count=12, seed=0):
    for k, name in enumerate(classes):
        for number in range(count):
            picture(folder / name / f"{number:02}.bmp", seed + 100 * k + number)


@pytest.fixture(autouse=True)
def own_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("SOCRATES_DATA", str(tmp_path / "memory"))
    monkeypatch.setattr("socrates.engine.saving.SECONDS_BETWEEN_CHECKPOINTS", -1.0)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A folder of images with a finished and a stopped run on them."""
    place = tmp_path_factory.mktemp("original")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("SOCRATES_DATA", str(place / "memory"))
        patch.setattr("socrates.engine.saving.SECONDS_BETWEEN_CHECKPOINTS", -1.0)
        pictures(Path("images"))
        trained("finished")
        with pytest.raises(KeyboardInterrupt):
            trained("stopped", tell=Told(stop=2))
    return place


@pytest.fixture
def place(original, tmp_path, monkeypatch):
    """A copy of it, elsewhere, where the commands are given."""
    monkeypatch.chdir(
        shutil.copytree(original, tmp_path / "copy", ignore=shutil.ignore_patterns("memory"))
    )
    return Path()


def replace_folder():
    shutil.rmtree("images")
    pictures(Path("images"), seed=1000)


def other_classes():
    shutil.rmtree("images")
    pictures(Path("images"), classes=("ant", "bee", "cat", "dog"))


def change_a_pixel():
    path = Path("images/bee/03.bmp")
    changed = bytearray(path.read_bytes())
    changed[-20] ^= 1
    before = path.stat()
    path.write_bytes(changed)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert path.stat().st_size == before.st_size


def touch():
    for path in Path("images").rglob("*.bmp"):
        os.utime(path)


SAMPLES = r"train has {} samples, not 27, .*test has {} samples, not 7:"
CHANGES = {
    "another folder": (replace_folder, r"contents .*differ"),
    "other classes": (
        other_classes,
        "cat is new, .*dog is new, .*cow is gone:",
    ),
    "a class removed": (lambda: shutil.rmtree("images/cow"), "cow is gone:"),
    "added": (
        lambda: [picture(Path(f"images/ant/x{k}.bmp"), k) for k in range(9)],
        SAMPLES.format(33, 9),
    ),
    "removed": (
        lambda: [Path(f"images/bee/0{k}.bmp").unlink() for k in range(6)],
        SAMPLES.format(22, 6),
    ),
    "renamed": (
        lambda: Path("images/ant/00.bmp").rename("images/ant/zz.bmp"),
        "contents .*differ:",
    ),
    "a pixel changed": (change_a_pixel, "contents .*differ:"),
}


@pytest.mark.parametrize("state", ["finished", "stopped"])
@pytest.mark.parametrize("change", CHANGES)
def test_other_data_are_refused(place, state, change):
    action, message = CHANGES[change]
    action()
    before = {path: path.read_bytes() for path in Path(state).rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=message) as error:
        trained(state)
    directory = next(Path(state).iterdir())
    assert re.match(rf"{directory} .*folder:images; now ", str(error.value))
    assert "again=True" in str(error.value)
    assert "\n" not in str(error.value)
    assert {path: path.read_bytes() for path in Path(state).rglob("*") if path.is_file()} == before


def test_a_study_refuses_other_data_too(place, monkeypatch):
    seen = []
    monkeypatch.setattr(
        runs, "already_finished", lambda *args: seen.append(args) or already_finished(*args)
    )
    assert runs.run_all([of("folder:images")], "finished")[0].finished
    change_a_pixel()
    with pytest.raises(runs.StudyError, match="folder:images"):
        runs.run_all([of("folder:images")], "finished")
    assert len(seen) == 2


@pytest.mark.parametrize(
    "change", [lambda: None, touch, lambda: Path("images/ant/notes.txt").write_text("none")]
)
def test_a_copy_and_touched_times_agree(place, original, change):
    change()
    told = Told()
    trained("finished", tell=told)
    assert re.search(r"finished on \d{4}-\d\d-\d\d \d\d:\d\d", told.words)
    told = Told()
    run = trained("stopped", tell=told)
    assert told.first == 2
    whole = Run(original / "finished" / run.directory.name)
    assert np.array_equal(run.predictions("test", 3).logits, whole.predictions("test", 3).logits)


@pytest.mark.parametrize("state", ["finished", "stopped"])
def test_again_starts_anew(place, state):
    shutil.rmtree("images/cow")
    told = Told()
    run = trained(state, again=True, tell=told)
    assert told.first == 0
    assert run.finished
    assert run.data.classes == ("ant", "bee")
    assert [record.epoch for record in run.epochs()] == [1, 2, 3]
    assert run.predictions("test", 3).num_classes == 2
    trained(state, tell=told)
    assert told.words


def test_again_leaves_nothing_of_before_and_touches_nothing_if_it_cannot_start(place):
    run = Run(next(Path("finished").iterdir()))
    for name in (
        "predictions/val-0001.npz",
        "evaluation-0001.json",
        "tensorboard/events",
        "notes.txt",
    ):
        (run.directory / name).parent.mkdir(exist_ok=True)
        (run.directory / name).write_text("of before")
    Path("images").rename("elsewhere")
    with pytest.raises(FileNotFoundError):
        trained("finished", again=True)
    assert run.finished
    Path("elsewhere").rename("images")
    trained("finished", again=True)
    kept = [
        path
        for path in run.directory.rglob("*")
        if path.is_file() and path.read_bytes() == b"of before"
    ]
    assert kept == [run.directory / "notes.txt"]


def test_data_that_are_gone_are_told_if_nothing_is_to_do(place):
    Path("images").rename("elsewhere")
    told = Told()
    trained("finished", tell=told)
    assert told.words.endswith("data are not there now")
    with pytest.raises(FileNotFoundError, match="images"):
        trained("stopped")


def test_a_run_without_a_fingerprint_goes_on_if_shapes_agree(place):
    for state in ("finished", "stopped"):
        (next(Path(state).iterdir()) / "data.json").unlink()
    told = Told()
    run = trained("finished", tell=told)
    assert told.words
    assert run.data is None
    pictures(Path("images"), count=20)
    with pytest.raises(ValueError, match=r"checkpoint\.pt .*27.*44"):
        trained("stopped")  # there is a target for each training image
    shutil.rmtree("images")
    pictures(Path("images"))
    assert trained("stopped", tell=told).data is not None


def test_a_damaged_fingerprint_is_named(place):
    for words in ("[]", "{", '{"classes": 3}'):
        (next(Path("stopped").iterdir()) / "data.json").write_text(words)
        with pytest.raises(ValueError, match=r"data\.json "):
            trained("stopped")


def counted(monkeypatch):
    """The files whose contents are read from now on."""
    read = []
    digest = module.file_digest
    monkeypatch.setattr(module, "file_digest", lambda path: read.append(path.name) or digest(path))
    return read


def folder_print():
    return fingerprint("folder:images", lambda: pytest.fail("the images were loaded"))


def test_files_are_read_once(place, monkeypatch, tmp_path):
    read = counted(monkeypatch)
    first = folder_print()
    assert len(read) == 36
    assert folder_print() == first
    assert len(read) == 36
    os.utime("images/ant/07.bmp", ns=(OLD, OLD + 5))
    assert folder_print() == first
    assert read[36:] == ["07.bmp"]
    # too late for another change to show: not remembered
    os.utime("images/ant/07.bmp", ns=(OLD, OLD + 10**13))
    assert [folder_print(), folder_print()] == [first, first]
    assert read[37:] == ["07.bmp", "07.bmp"]


@pytest.mark.parametrize("damage", ["garbage", b"\xff\xfe", "changed"])
def test_a_damaged_memory_is_forgotten(place, damage, tmp_path):
    first = folder_print()
    (memory,) = (tmp_path / "memory" / "hashes").iterdir()
    text = memory.read_text()
    if damage == "changed":
        memory.write_text(
            text[:-9]
            + text[-9:].replace("a", "b").replace("1", "2").replace("e", "f").replace("7", "8")
        )
    else:
        memory.write_bytes(damage if isinstance(damage, bytes) else damage.encode())
    assert folder_print() == first
    assert memory.read_text() == text


def test_a_memory_that_cannot_be_written_is_done_without(place, tmp_path, monkeypatch):
    (tmp_path / "memory").write_text("a file where the folder would be")
    assert folder_print() == folder_print()


def test_arrays(tmp_path):
    images, labels = pixels((40, 8, 8, 3)), np.arange(40) % 2
    path = tmp_path / "mine.npz"
    np.savez(path, images=images, labels=labels)
    runs, name = tmp_path / "runs", f"npz:{path}"
    trained(runs, name)
    np.savez_compressed(path, images=images, labels=labels)
    told = Told()
    run = trained(runs, name, tell=told)
    assert told.words
    assert run.data.samples == {"train": 29, "val": 3, "test": 8}
    images[3, 2, 1] ^= 1
    np.savez(path, images=images, labels=labels)
    with pytest.raises(ValueError, match="contents"):
        trained(runs, name)
    np.savez(path, images=images[:30], labels=labels[:30])
    with pytest.raises(ValueError, match=r"\b22\b.*\b29,.*\b2\b.*\b3,.*\b6\b.*\b8:"):
        trained(runs, name)
    assert trained(runs, name, again=True).data.samples["train"] == 22
    path.unlink()
    trained(runs, name, tell=told)
    assert told.words.endswith("data are not there now")


@pytest.mark.filterwarnings(OFFICIAL_COUNTS)
def test_a_named_data_set_in_another_folder(tmp_path, monkeypatch):
    write(tmp_path / "one", cifar10_files())
    changed = {
        name: body[:100] + bytes([body[100] ^ 1]) + body[101:]
        for name, body in cifar10_files().items()
    }
    write(tmp_path / "two", changed)
    trained(tmp_path / "runs", "cifar10", data_root=tmp_path / "one")
    with pytest.raises(ValueError, match="contents"):
        trained(tmp_path / "runs", "cifar10", data_root=tmp_path / "two")
    monkeypatch.setattr("pooch.retrieve", lambda *_, **__: pytest.fail("it was downloaded"))
    told = Told()
    trained(tmp_path / "runs", "cifar10", data_root=tmp_path / "nowhere", tell=told)
    assert told.words.endswith("data are not there now")


@pytest.mark.filterwarnings(OFFICIAL_COUNTS)
def test_streamed_files(tmp_path, monkeypatch):
    write(tmp_path, food101_files())
    found = fingerprint("food101", lambda: data.load("food101", tmp_path), tmp_path)
    assert found.num_bytes == sum(path.stat().st_size for path in tmp_path.rglob("*.jpg"))
    shutil.copytree(tmp_path / "food-101", tmp_path / "copy" / "food-101")
    assert (
        fingerprint("food101", lambda: data.load("food101", tmp_path / "copy"), tmp_path) == found
    )
    lists = tmp_path / "copy" / "food-101" / "meta" / "train.txt"
    lists.write_text("\n".join(reversed(lists.read_text().split())))
    other = fingerprint("food101", lambda: data.load("food101", tmp_path / "copy"), tmp_path)
    assert found.difference(other) == "names or contents of the samples differ"


def test_the_file_tells_what_was_found(place):
    run = next(Path("finished").iterdir())
    plain = json.loads((run / "data.json").read_text())
    assert plain.pop("checksum")
    assert plain == {
        "format": "1.0",
        "run": run.name,
        "classes": ["ant", "bee", "cow"],
        "samples": {"train": 27, "val": 2, "test": 7},
        "num_bytes": sum(path.stat().st_size for path in Path("images").rglob("*.bmp")),
        "content": folder_print().content,
    }
    assert Run(next(Path("finished").iterdir())).data == folder_print()


def test_loaded_images_are_not_listed_again(place, monkeypatch):
    listed = folder_print()
    splits = data.load("folder:images", num_train=10)
    monkeypatch.setattr(module, "list_folder", lambda path: pytest.fail("it was listed again"))
    assert module.fingerprint_loaded("folder:images", splits) == listed
    # a plug-in may change what a folder holds, so its labels and images count
    assert module.fingerprint_loaded("mine.py:images", splits).samples["train"] == 10
