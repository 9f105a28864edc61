"""`socrates predict` and `socrates export` as a user calls them, with files that are not what they
should be."""

from __future__ import annotations

import contextlib
import csv
import io
import multiprocessing
import os
import re
import resource
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from socrates import models
from socrates.cli import main
from socrates.contracts import Preparation
from socrates.data.thumbnail import thumbnails
from socrates.engine.predict import columns, predict_files, read_image
from socrates.predictor import Description, Predictor, load
from socrates.processes import in_processes

CLASSES = ("a,b", "path", "x" * 120)


def saved(
    path: Path, channels: int = 3, sides: tuple[int, int] = (8, 8), seen: torch.Tensor | None = None
) -> Path:
    """A model that tells dark, middle and bright images apart, and is not sure of it."""
    numbers = channels * sides[0] * sides[1]
    how = Preparation((0.5,) * channels, (0.5,) * channels)
    about = Description("mlp", {"width": 1, "depth": 1}, 3, (channels, *sides), CLASSES, how)
    model = models.build("mlp", 3, (channels, *sides), width=1, depth=1)
    body, head = (one for one in model.modules() if isinstance(one, nn.Linear))
    # 0 to 2: never below 0
    body.weight.data, body.bias.data = torch.ones(1, numbers) / numbers, torch.ones(1)
    head.weight.data, head.bias.data = (
        torch.tensor([[-6.0], [0.0], [6.0]]),
        torch.tensor([6.0, 2.0, -6.0]),
    )
    return Predictor(model, about, None, seen).save(path)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return saved(tmp_path / "model.safetensors")


@pytest.fixture(scope="module")
def odd_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Image files of every kind, and files that are none; written once, for one is huge."""
    folder = tmp_path_factory.mktemp("odd")
    pixels = np.random.default_rng(1).integers(0, 256, (40, 50, 4), dtype=np.uint8)
    rgb, grey = Image.fromarray(pixels[..., :3].copy()), Image.fromarray(pixels[..., 0])
    grey.save(folder / "grey.png")
    Image.fromarray(pixels).save(folder / "rgba.png")
    Image.fromarray(pixels[..., 0].astype(np.uint16) * 257).save(folder / "sixteen.png")
    rgb.convert("P").save(folder / "palette.png")
    rgb.convert("CMYK").save(folder / "cmyk.jpg")
    rgb.save(folder / "moving.gif", save_all=True, append_images=[rgb, rgb])
    turned = Image.Exif()
    turned[0x0112] = 6
    rgb.save(folder / "turned.jpg", exif=turned)
    Image.new("RGB", (1, 1)).save(folder / "one.png")
    Image.new("RGB", (3000, 1)).save(folder / "line.png")
    rgb.save(folder / "ünï '\" [x]* ,\n.png")
    (folder / "empty.png").write_bytes(b"")
    (folder / "cut.jpg").write_bytes((folder / "turned.jpg").read_bytes()[:400])
    Image.new("1", (20_000, 12_000)).save(folder / "huge.png")
    Image.new("F", (9, 9)).save(folder / "float.tiff")
    return folder


@pytest.fixture
def odd(odd_files: Path, tmp_path: Path) -> Path:
    """A copy of these files for one test."""
    return Path(shutil.copytree(odd_files, tmp_path / "odd"))


def test_files_of_every_kind_are_predicted_or_listed(
    model: Path, odd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "predictions.csv"
    (odd / "IMG_1.HEIC").write_bytes(b"")
    assert main(["predict", str(model), str(odd), "--out", str(out)]) == 3
    told = capsys.readouterr().out
    assert re.search(r"\b10 images .*\b5 could not be read: ", told)
    for kind in (
        "1 damaged",
        "1 too large",
        "1 empty",
        "1 .heic",
        "1 of unsupported pixels",
        "IMG_1.HEIC: ",
    ):
        assert kind in told
    assert all(f"{name}: " in told for name in ("empty.png", "cut.jpg", "huge.png", "float.tiff"))
    rows = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8"))))
    assert list(rows[0])[7:] == [f"class {name}" for name in CLASSES]
    by_name = {Path(row["path"]).name: row for row in rows}
    assert by_name["grey.png"]["class path"] == by_name["sixteen.png"]["class path"]
    assert "ünï '\" [x]* ,\n.png" in by_name
    errors = {name: row["error"] for name, row in by_name.items() if row["error"]}
    assert set(errors) == {"empty.png", "cut.jpg", "huge.png", "float.tiff", "IMG_1.HEIC"}
    assert errors["empty.png"] == "empty"
    assert by_name["cut.jpg"]["predicted"] == by_name["cut.jpg"]["confidence"] == ""


@pytest.mark.skipif(
    os.name == "nt" or os.uname().sysname == "Darwin", reason="names there are always text"
)
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_name_that_is_no_text_stops_nothing(model: Path, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("pyarrow")
    folder = os.fsencode(tmp_path / "images")
    os.mkdir(folder)
    Image.new("RGB", (9, 9)).save(
        os.path.join(folder, b"bad\xff.png").decode(errors="surrogateescape")
    )
    assert (
        main(["predict", str(model), os.fsdecode(folder), "--out", str(tmp_path / f"out.{suffix}")])
        == 0
    )
    assert "bad" in (tmp_path / f"out.{suffix}").read_bytes().decode(errors="replace")


@pytest.mark.parametrize(("channels", "sides"), [(1, (8, 8)), (3, (6, 10)), (1, (6, 10))])
def test_files_give_what_their_pixels_give(
    tmp_path: Path, channels: int, sides: tuple[int, int]
) -> None:
    predictor = load(saved(tmp_path / "model.safetensors", channels, sides))
    pixels = torch.randint(0, 256, (4, channels, *sides), dtype=torch.uint8)
    files = [tmp_path / f"{row}.png" for row in range(4)]
    for file, image in zip(files, pixels, strict=True):
        array = image.permute(1, 2, 0).numpy() if channels == 3 else image[0].numpy()
        Image.fromarray(array).save(file)
    assert torch.equal(torch.stack([read_image(file, predictor.about) for file in files]), pixels)
    # others come in the model's size, so that a batch is small
    Image.new("RGB", (100, 30)).save(files[0])
    assert read_image(files[0], predictor.about).shape == pixels.shape[1:]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--batch-size", "0"], "batch_size must be more than 0, got 0"),
        (["--device", "nonsense"], "the device nonsense cannot be used here"),
        (["--scaler", "nope"], "there is no fitted scaler 'nope' here: choose from ['none']"),
        (
            ["--out", "predictions.xls"],
            "are written to .csv, .jsonl, .parquet files, got 'predictions.xls'",
        ),
        (
            ["--risk", "0.1"],
            "model.safetensors FOLDER --risk 0.1 makes one",
        ),
        (["--calibrate", "x"], "--calibrate needs --risk"),
    ],
)
def test_mistakes_are_one_line(
    model: Path, odd: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(model), str(odd / "grey.png"), *words]) == 1
    errors = capsys.readouterr().err
    assert told in errors
    assert "Traceback" not in errors


def test_a_folder_that_cannot_be_written_is_told(
    model: Path, odd: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (odd / "file").write_text("")
    assert main(["predict", str(model), str(odd), "--out", str(odd / "file" / "p.csv")]) == 1
    assert str(odd / "file") in capsys.readouterr().err


def test_without_a_readable_file_nothing_is_written(
    model: Path, odd: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(model), str(odd / "empty.png"), "--out", str(odd / "p.csv")]) == 1
    assert "none of 1 files" in capsys.readouterr().err
    assert not list(odd.glob("p.csv*"))


@pytest.mark.parametrize("case", ["a broken link", "below a broken link", "below a file", "a kind"])
@pytest.mark.parametrize("command", ["predict", "export", "audit", "report", "train"])
def test_a_place_that_cannot_be_written_is_named_before_the_work(
    model: Path,
    odd: Path,
    tmp_path: Path,
    case: str,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for work in ("cli.use.load", "cli.audit.audit", "cli.report.write_report", "cli.runs.train"):
        monkeypatch.setattr(f"socrates.{work}", lambda *_, **__: pytest.fail("the work began"))
    table = tmp_path / "table.csv"
    table.write_text("label,p0,p1\n0,0.9,0.1\n")
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "nowhere")
    writes_file = command in ("predict", "export")
    out = {
        "a broken link": link,
        "below a broken link": link / "new" / "out.csv",
        "below a file": table / "out.csv",
        "a kind": tmp_path / "folder.csv" if writes_file else table,
    }[case]
    (tmp_path / "folder.csv").mkdir()
    named = {"below a broken link": link, "below a file": table}.get(case, out)
    words = {
        "predict": [str(model), str(odd)],
        "export": [str(model)],
        "audit": [str(table)],
        "report": [str(tmp_path)],
        "train": ["digits", "mlp", "ce", "--epochs", "1"],
    }[command]
    before = sorted(tmp_path.rglob("*"))
    assert main([command, *words, "--out", str(out)]) == 1
    said = capsys.readouterr().err
    assert str(named) in said
    assert len(said.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_what_a_killed_command_left_is_cleared_by_the_next(
    model: Path, odd: Path, tmp_path: Path
) -> None:
    process = multiprocessing.get_context("spawn").Process()
    process.start()
    process.join()
    out = tmp_path / "p.csv"
    ours, others = (out.with_name(f"{name}.{process.pid}.tmp") for name in ("p.csv", "q.csv"))
    alive = out.with_name(f"p.csv.{os.getppid()}.tmp")
    for half in (ours, others, alive):
        half.write_text("half")
    assert main(["predict", str(model), str(odd / "grey.png"), "--out", str(out)]) == 0
    assert sorted(tmp_path.glob("*.tmp")) == sorted([others, alive])
    table = tmp_path / "table.csv"
    table.write_text("label,p0,p1\n" + "0,0.9,0.1\n1,0.2,0.8\n" * 20)
    page = tmp_path / "page"
    page.mkdir()
    (page / f"index.html.{process.pid}.tmp").write_text("half")
    assert main(["audit", str(table), "--out", str(page)]) == 0
    assert not list(page.rglob("*.tmp"))


def in_numpy(*_: object, **__: object) -> None:
    np.empty(2**58)


def in_torch(*_: object, **__: object) -> None:
    torch.empty(2**58)


def in_threads(*_: object, **__: object) -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("allocate", [in_numpy, in_torch, in_threads])
def test_memory_that_runs_out_is_one_line(
    model: Path,
    odd: Path,
    tmp_path: Path,
    allocate: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = tmp_path / "predictions.csv"
    table.write_text("label,p0,p1\n" + "0,0.9,0.1\n1,0.2,0.8\n" * 20)
    monkeypatch.setattr("socrates.engine.predict.read_image", allocate)
    monkeypatch.setattr("socrates.audit.run.measure", allocate)
    predict = ["predict", str(model), str(odd / "grey.png"), "--out", str(tmp_path / "p.csv")]
    audit = ["audit", str(table), "--out", str(tmp_path / "page")]
    for words, option in ((predict, "--batch-size"), (audit, "--sample")):
        assert main(words) == 1
        told = capsys.readouterr().err.split("\n")
        told = [line for line in told if line]
        assert len(told) == 1
        assert told[0].startswith("error: memory ran out (")
        assert option in told[0]
    assert not list(tmp_path.glob("p.csv*"))


def with_little_memory(words: list[str], said: Path) -> None:
    """Run a command in this process, which may take 64 MB more than it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (64 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with said.open("w") as file, contextlib.redirect_stderr(file):
        code = main(words)
    os._exit(code)


def test_predict_under_a_memory_limit_is_one_line(model: Path, tmp_path: Path) -> None:
    image = tmp_path / "large.png"
    Image.new("RGB", (7000, 7000)).save(image)  # 147 MB of pixels
    out = tmp_path / "p.csv"
    words = ["predict", str(model), str(image), "--out", str(out)]
    said = tmp_path / "said.txt"
    process = multiprocessing.get_context("fork").Process(
        target=with_little_memory, args=(words, said)
    )
    process.start()
    process.join(120)
    assert process.exitcode == 1
    (line,) = filter(None, said.read_text().splitlines())
    assert line.startswith("error: memory ran out (")
    assert not out.exists()


def test_a_worker_that_runs_out_of_memory_says_so() -> None:
    with pytest.raises(MemoryError):
        list(in_processes(in_numpy, [1, 2], workers=1))


def test_names_are_no_markup(
    model: Path, odd: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(odd)
    (odd / "grey.png").rename("[bold]x.png")
    assert main(["predict", str(model), "[bold]x.png"]) == 0
    assert "[bold]x.png" in capsys.readouterr().out


def test_a_model_that_takes_no_images_says_so(
    tmp_path: Path, odd: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    predictor = load(saved(tmp_path / "first.safetensors"))
    predictor.about = replace(predictor.about, preparation=None)
    path = predictor.save(tmp_path / "model.safetensors")
    assert main(["predict", str(path), str(odd / "grey.png")]) == 1
    assert re.search(r"\bmlp\b.*\bRGB\b", capsys.readouterr().err)


def test_columns_are_never_the_same() -> None:
    how = Preparation((0.5,), (0.5,))
    about = Description("mlp", {}, 3, (1, 2, 2), ("path", "class path", "unknown"), how)
    names = columns(Predictor(nn.Identity(), about))
    assert len(set(names)) == len(names) == 10


def labelled(folder: Path, number: int = 30) -> Path:
    for row in range(3 * number):
        path = folder / CLASSES[row % 3] / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new(
            "RGB",
            (8, 8),
            (20 + row // 3, 128 + row // 3, 220 + row // 3)[row % 3 : row % 3 + 1] * 3,
        ).save(path)
    return folder


def test_labelled_images_certify_if_they_are_new(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, path = labelled(tmp_path / "labelled"), tmp_path / "model.safetensors"
    words = ["predict", str(saved(path)), str(new), "--risk", "0.2", "--calibrate", str(new)]
    assert main(words) == 0
    output = capsys.readouterr()
    assert re.search(r"\b0\.9 .*\b20%", output.out)
    assert "trust" in output.err
    image = torch.randint(256, (3, 8, 8), dtype=torch.uint8)
    Image.fromarray(image.permute(1, 2, 0).numpy()).save(new / CLASSES[0] / "0.png")
    saved(path, seen=thumbnails(image[None].clamp(1, 254)))
    count = len(list(new.glob("*/*.png")))
    for number in range(1 + count // 50):  # more than 2%
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(new / CLASSES[0] / f"x{number}.png")
    assert main(words) == 1
    assert f"{CLASSES[0]}/x0.png" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"\b1 of 2 .*image 1"):
        load(path).certify(torch.stack([image.flip(2), image]), [0, 0], risk=0.2)


def test_export_leaves_the_readme_of_others(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "README.md").write_text("mine")
    words = ["export", str(model), "--format", "torch", "--out"]
    assert main([*words, str(tmp_path / "model.pt2")]) == 0
    assert (tmp_path / "README.md").read_text() == "mine"
    assert "An image classifier of 3 classes" in (tmp_path / "model.md").read_text(encoding="utf-8")
    for _ in range(2):
        assert main([*words, str(tmp_path / "new" / "model.pt2")]) == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["README.md", "model.pt2"]
    assert "3 classes: a,b, path, xx" in capsys.readouterr().out


def test_a_model_that_was_moved_and_many_files(model: Path, tmp_path: Path, odd: Path) -> None:
    moved = Path(shutil.move(model, tmp_path / "moved ünï.safetensors"))
    files = [tmp_path / f"{number}.png" for number in range(600)]
    for file in files:
        shutil.copy(odd / "grey.png", file)
    done: list[int] = []
    assert predict_files(load(moved), files, lambda rows: done.append(len(rows))).images == 600
    assert done == [256, 256, 88]
