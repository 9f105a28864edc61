"""Files from outside and names in them: bombs, wrong sizes, other formats, formulas; and the fuzzer
of all readers."""

from __future__ import annotations

import gzip
import importlib.util
import io
import os
import struct
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from data_files import idx, pixels
from PIL import EpsImagePlugin, Image
from report_runs import experiment, make_run
from safetensors.numpy import load_file, save_file
from scipy.io import loadmat, savemat

from signing import resign_epochs, resign_model
from socrates import data, files, models, scaling
from socrates.audit import label_file
from socrates.audit.predictions import open_predictions
from socrates.audit.read import reader
from socrates.cli import output
from socrates.contracts import Preparation
from socrates.data import download, official
from socrates.data.image import as_rgb, opened
from socrates.data.matlab import read_arrays
from socrates.data.official import read_idx, read_mat, read_records
from socrates.engine.predict import columns, writing
from socrates.predictor import Description, Predictor, load
from socrates.records import Run
from socrates.report.figures.compose import Drawing, Panel, write_drawing

TOOLS = Path(__file__).parent / "tools"
DEEP = "[" * 100_000
FILE = tarfile.REGTYPE


def svhn(count: int = 4) -> dict[str, np.ndarray]:
    return {"X": pixels((32, 32, 3, count)), "y": (np.arange(count) % 10 + 1)[:, None]}


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int64, np.float32, np.float64])
def test_matlab_arrays_are_those_of_scipy(tmp_path, dense, kind):
    content = {
        "X": pixels((3, 4, 2)).astype(kind),
        "word": "text",
        "y": np.arange(5).astype(kind)[None],
        "e": {},
    }
    savemat(tmp_path / "a.mat", content, do_compression=dense)
    expected = loadmat(tmp_path / "a.mat", variable_names=["X", "y"])
    found = read_arrays(tmp_path / "a.mat", ("X", "y"), 10_000)
    assert set(found) == {"X", "y"}
    for name, array in found.items():
        assert array.dtype == expected[name].dtype
        assert np.array_equal(array, expected[name])


def test_a_matlab_file_that_unfolds_too_far_is_refused(tmp_path, monkeypatch):
    savemat(
        tmp_path / "train_32x32.mat",
        svhn() | {"X": np.zeros((32, 32, 3, 400), np.uint8)},
        do_compression=True,
    )
    monkeypatch.setattr(official, "LARGEST", 100_000)
    with pytest.raises(data.DataCorrupt, match=r"train_32x32\.mat: .*\b100,000\b"):
        read_mat(tmp_path / "train_32x32.mat")


@pytest.mark.parametrize(
    ("offset", "value", "fact"),
    [
        (128 + 4, 2**31, "2,147,483,648 "),
        (128 + 8 + 16 + 8, 2**31 - 1, r"X .*\[2147483647, "),
        (128 + 8 + 8, 1, "X .*real"),  # a cell, which scipy follows without a limit
    ],
)
def test_sizes_and_kinds_of_matlab_files_are_not_trusted(tmp_path, offset, value, fact):
    path = tmp_path / "train_32x32.mat"
    savemat(path, svhn())
    body = bytearray(path.read_bytes())
    struct.pack_into("<I", body, offset, value)
    path.write_bytes(body)
    with pytest.raises(data.DataCorrupt, match=rf"train_32x32\.mat: .*\(.*\b{fact}"):
        read_mat(path)


def test_files_that_declare_or_are_too_much_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(official, "LARGEST", 1000)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(idx(pixels((2, 28, 28)))))
    monkeypatch.setattr(
        gzip.GzipFile, "read", lambda self, size=-1: self.peek(size)[:size] if size < 100 else 1 / 0
    )
    with pytest.raises(data.DataCorrupt, match=r"idx3-ubyte\.gz: .*1,568.*1,000"):
        read_idx(path, 3)
    (tmp_path / "test_batch.bin").write_bytes(bytes(3073))
    with pytest.raises(data.DataCorrupt, match=r"test_batch\.bin: 3,073 .*1,000"):
        read_records([tmp_path / "test_batch.bin"], 1, 10)


def archive_of(path: Path, *members: tuple[str, bytes, int]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, kind, size in members:
            info = tarfile.TarInfo(name)
            info.type, info.size = kind, size
            tar.addfile(info, io.BytesIO(bytes(size)))
    return path


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (
            [("a/zeros", FILE, 2_000_000)],
            ".*'a/zeros' .*1,000,000 bytes",
        ),
        ([(f"a/{i}", FILE, 0) for i in range(300)], ".*'a/244' "),
        (
            [("a/x", tarfile.XHDTYPE, 2_000_000)],
            ".*2,000,000 bytes",
        ),
        (
            [("a/x", tarfile.GNUTYPE_LONGNAME, 2_000_000)],
            ".*2,000,000 bytes",
        ),
    ],
)
def test_archives_that_unfold_too_far_write_nothing(tmp_path, monkeypatch, members, message):
    monkeypatch.setattr(files, "LARGEST_UNFOLDED", 1_000_000)
    archive = archive_of(tmp_path / "bomb.tar.gz", *members)
    with pytest.raises(data.DataCorrupt, match=rf"bomb\.tar\.gz: {message}") as error:
        download.extract(archive, tmp_path, "a")
    assert "\n" not in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["bomb.tar.gz"]


def test_lists_in_no_known_letters_are_named(tmp_path):
    from socrates.data.food101 import read_part

    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "train.txt").write_bytes(b"cake/1\n\xff\n")
    with pytest.raises(data.DataCorrupt, match=r"train\.txt"):
        read_part(tmp_path, "train", ["cake"])


@pytest.fixture
def bomb(tmp_path, monkeypatch):
    """A small npz of many zeros, where only a little may unfold."""
    monkeypatch.setattr(files, "LARGEST_UNFOLDED", 10_000)
    path = tmp_path / "bomb.npz"
    zeros = {
        "x_train": np.zeros((1000, 32, 32), np.uint8),
        "probs": np.zeros((1000, 32)),
        "logits": np.zeros((9, 9)),
    }
    np.savez_compressed(path, y_train=np.arange(1000) % 2, labels=np.zeros(1000), **zeros)
    return path


def test_npz_bombs_are_refused(bomb, tmp_path):
    with pytest.raises(ValueError, match=r"bomb\.npz: .*\d,\d+.*\b100 "):
        data.load(f"npz:{bomb}")
    with pytest.raises(ValueError, match=r"bomb\.npz .*\d,\d+.*\b100 "):
        open_predictions(bomb)
    run = Run(make_run(tmp_path / "runs", experiment("ce")))
    run.predictions_path("val", 6).write_bytes(bomb.read_bytes())
    with pytest.raises(ValueError, match=r"val-0006\.npz .*\d,\d+.*\b100 "):
        run.predictions("val", 6)


def test_a_scaler_that_unfolds_is_refused(tmp_path):
    scaler = scaling.TemperatureScaling().fit(
        [[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 0.0]], [0, 0, 1, 1]
    )
    stored = dict(np.load(scaling.save(scaler, tmp_path / "scaler.npz")))
    np.savez_compressed(tmp_path / "scaler.npz", **stored, more=np.zeros(100_000))
    with pytest.raises(ValueError, match=r"scaler\.npz .*unfolds"):
        scaling.load(tmp_path / "scaler.npz")


def spoiled_npz(path: Path, name: str, body: bytes) -> Path:
    """An npz of good arrays, one of which has other bytes."""
    good = io.BytesIO()
    np.savez(
        good, x_train=pixels((30, 4, 4)), y_train=np.arange(30) % 2, classes=np.array(["a", "b"])
    )
    with zipfile.ZipFile(good) as archive, zipfile.ZipFile(path, "w") as other:
        for entry in archive.namelist():
            other.writestr(entry, body if entry == f"{name}.npy" else archive.read(entry))
    return path


def npy(header: str, body: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + body


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("x_train", b"not an array"),
        ("y_train", npy("{'descr': '<i8', 'fortran_order': False, 'shape': (30,),\n")),
        (
            "y_train",
            npy("{'descr': '<i8', 'fortran_order': False, 'shape': (99999999999999999999,), }\n"),
        ),
        (
            "classes",
            npy("{'descr': '<U1', 'fortran_order': False, 'shape': (2,), }\n", b"\xff" * 8),
        ),
    ],
)
def test_spoiled_arrays_are_one_line(tmp_path, name, body):
    path = spoiled_npz(tmp_path / "mine.npz", name, body)
    with pytest.raises(ValueError, match=rf"mine\.npz: .*\b{name} ") as error:
        data.load(f"npz:{path}")
    assert "\n" not in str(error.value)


def test_no_image_runs_a_program(tmp_path, monkeypatch):
    """PostScript is decoded by Ghostscript, whatever the file is called."""
    path = tmp_path / "cat.png"
    Image.new("RGB", (8, 8)).save(path, "EPS")
    started = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *_, **__: started.append(1))
    with pytest.raises(data.DataCorrupt, match=r"cat\.png: "), opened(path) as file:
        as_rgb(file)
    assert started == []


def png_of(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


def test_image_bombs_are_refused_before_they_are_decoded(tmp_path, monkeypatch):
    (tmp_path / "bomb.png").write_bytes(png_of(60_000, 60_000))
    with pytest.raises(data.DataCorrupt, match=r"bomb\.png: .*\b3600000000\b"):
        opened(tmp_path / "bomb.png").__enter__()
    (tmp_path / "large.png").write_bytes(png_of(9, 9))
    with (
        pytest.raises(data.DataCorrupt, match=r"large\.png: .*\(MemoryError\)"),
        opened(tmp_path / "large.png"),
    ):
        raise MemoryError


AUDITED = {
    "a.jsonl": (
        DEEP.encode() + b'\n{"label": 0',
        r"a\.jsonl .*\(line 1 ",
    ),
    "e.jsonl": (b'{"label": 0, "confi\\nce": 0.5}', r"e\.jsonl: .*\bconfi ce\b"),
    "b.csv": (
        b"label,p0,p99999999999999\n0,0.5,0.5\n",
        r"b\.csv: .*none of class 1$",
    ),
    "c.csv": (
        b"label,p0,p1\n0,0.5,0.5\n\xff,1\n1,0.5,0.5\n",
        r"c\.csv cannot be read .*save it as UTF-8",
    ),
    "d.csv": (
        b"label,p0,p1\n0,0.5,0.5\r1,0.5,0.5\r1\r1\n",
        r"d\.csv: lines 2 to 2 ",
    ),
}


@pytest.mark.parametrize("name", AUDITED)
def test_hostile_predictions_are_one_line(tmp_path, name, capfd):
    body, message = AUDITED[name]
    (tmp_path / name).write_bytes(body)
    with pytest.raises(ValueError, match=message):
        list(open_predictions(tmp_path / name).batches())
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.jsonl.gz"])
def test_lines_without_an_end_are_not_read(tmp_path, monkeypatch, name):
    monkeypatch.setattr(reader, "LONGEST_ROW", 1000)
    body = b"label,p0" + bytes(5000)
    (tmp_path / name).write_bytes(gzip.compress(body) if name.endswith("gz") else body)
    with pytest.raises(ValueError, match=f"{name} .*line .*16 MB"):
        open_predictions(tmp_path / name)


def test_labels_that_unfold_too_far_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(label_file, "MOST_LABEL_BYTES", 1000)
    (tmp_path / "a.csv").write_text("p0,p1\n0.5,0.5\n")
    (tmp_path / "labels.csv.gz").write_bytes(gzip.compress(b"label\n" + b"0\n" * 5000))
    with pytest.raises(ValueError, match=r"labels\.csv\.gz .*\b1,000\b"):
        open_predictions(tmp_path / "a.csv", labels=tmp_path / "labels.csv.gz")


def test_a_column_without_a_name_is_a_column(tmp_path):
    (tmp_path / "a.csv").write_text(",confidence,correct\n0,0.9,1\n1,0.8,0\n")
    (batch,) = open_predictions(
        tmp_path / "a.csv", columns=["confidence"], groups=[""], kind="confidence"
    ).batches()
    assert batch.rows.groups[""].names == ["0", "1"]


def test_odd_entries_and_counts_of_arrays(tmp_path):
    path = tmp_path / "a.npz"
    good = {"probs": np.array([[0.5, 0.5], [0.9, 0.1]]), "labels": np.array([0, 1])}
    np.savez(path, **good, num_classes=np.int64(10**15))
    with pytest.raises(ValueError, match=r"a\.npz: num_classes .*\b1,000,000\b"):
        open_predictions(path)
    np.savez(path, **good)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("notes.npy", b"not an array")
    assert len(open_predictions(path).layout.classes) == 2
    path.write_bytes(
        spoiled_npz(
            tmp_path / "b.npz", "y_train", npy("{'descr': '<i8', 'shape': (3,\n")
        ).read_bytes()
    )
    with pytest.raises(ValueError, match=r"a\.npz cannot"):
        open_predictions(path)


@pytest.mark.parametrize(
    "name", ["experiment.json", "evaluation.json", "finished.json", "data.json", "epochs.jsonl"]
)
def test_nested_without_end(tmp_path, name):
    run = Run(make_run(tmp_path, experiment("ce")))
    (run.directory / name).write_text(f"{DEEP}\n")
    reads = {
        "experiment": lambda: run.experiment,
        "evaluation": run.evaluation,
        "finished": run.summary,
    }
    reads |= {"data": lambda: run.data, "epochs": run.epochs}
    with pytest.raises(ValueError, match=f"{name}.*recursion"):
        reads[name.partition(".")[0]]()


def test_names_with_line_breaks_are_one_line(tmp_path):
    run = Run(make_run(tmp_path, experiment("ce")))
    resign_epochs(run.directory, [{"epoch": 1, "a\nb": "x"}])
    with pytest.raises(ValueError, match=r"epochs\.jsonl, line 1 .* a b "):
        run.epochs()


@pytest.mark.parametrize("name", ["evaluation.json", "predictions/val-0006.npz"])
def test_a_pipe_in_a_run_is_not_waited_for(tmp_path, name):
    run = Run(make_run(tmp_path, experiment("ce")))
    (run.directory / name).unlink()
    os.mkfifo(run.directory / name)
    with pytest.raises(ValueError, match=rf"{name} .*file\)"):
        run.evaluation() if name.startswith("eval") else run.predictions("val", 6)


def model_file(path: Path, **changes: object) -> Path:
    about = Description(
        "mlp", {"width": 4}, 2, (1, 2, 2), ("cat", "dog"), Preparation(mean=(0.5,), std=(0.5,))
    )
    kept = Predictor(models.build("mlp", 2, (1, 2, 2), width=4), about).save(path)
    if "deep" in changes:
        save_file(load_file(kept), kept, {"socrates": DEEP})
    else:
        resign_model(kept, lambda about, _: about.update(changes))
    return kept


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"options": {"width": 20}}, "larger"),
        ({"options": {"width": 4, "depth": 20}}, "larger"),
        ({"options": {"width": 4, "depth": 10**9}}, r"\b1000000000\b.*\b50\b"),
        ({"image_shape": [1, 10**6, 10**6]}, "describes"),
        ({"model": "m1p"}, "'m1p'"),
        ({"model": "os:system"}, "os:system, .*trust_code"),
        ({"deep": True}, "version"),
    ],
)
def test_foreign_models_are_one_line_and_no_larger_than_their_file(tmp_path, changes, fact):
    path = model_file(tmp_path, **changes)
    with pytest.raises(ValueError, match=rf"model\.safetensors .*{fact}") as error:
        load(path)
    assert "\n" not in str(error.value)


def test_safetensors_of_others_are_refused(tmp_path):
    save_file({"weight": np.zeros(3)}, tmp_path / "model.safetensors", {"socrates": "[]"})
    with pytest.raises(ValueError, match=r"model\.safetensors .*version"):
        load(tmp_path)


def test_no_name_is_a_formula_in_predictions(tmp_path):
    about = Description("mlp", {"width": 4}, 2, (1, 2, 2), ("=cmd|' /C calc'!A0", "dog"))
    predictor = Predictor(models.build("mlp", 2, (1, 2, 2), width=4), about)
    row = dict(
        zip(
            columns(predictor),
            ("@evil.png", "=cmd|' /C calc'!A0", 0.5, None, None, True, None, -0.5, 0.5),
            strict=True,
        )
    )
    with writing(tmp_path / "a.csv", predictor) as write:
        write([row])
    head, line = (tmp_path / "a.csv").read_text().splitlines()
    assert (
        head == "path,predicted,confidence,unknown,novelty,answered,error,'=cmd|' /C calc'!A0,dog"
    )
    assert line == "'@evil.png,'=cmd|' /C calc'!A0,0.5,,,True,,-0.5,0.5"


def test_no_name_gives_commands_to_the_terminal(capsys):
    output.show("name\x1b]0;evil\x07 \u202etxt.exe \x9b2J", "run: ")
    table = output.table_of("t\x1b[2J", ("a",), ())
    table.add_row(output.Text("b\x1b[2J"))
    output.console.print(table)
    shown = capsys.readouterr().out
    assert "name�]0;evil �txt.exe �2J" in shown
    assert not set(shown) & set("\x1b\x07\x9b\u202e")


def test_no_name_is_mathematics_in_a_figure(tmp_path):
    name = r"$\frac{$"

    def draw(axes, data):
        axes.set_xlabel(data)
        return []

    drawing = Drawing("a", name, [Panel(name, draw, name)])
    assert len(write_drawing(drawing, tmp_path)) == 3


@pytest.fixture(scope="module")
def fuzz():
    sys.path.insert(0, str(TOOLS))
    spec = importlib.util.spec_from_file_location("fuzz", TOOLS / "fuzz.py")
    module = sys.modules["fuzz"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(TOOLS))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_sample_of_spoiled_files_breaks_no_reader(fuzz, tmp_path):
    from fuzz_targets import targets

    for target in targets(tmp_path):
        for number in range(10):
            assert not fuzz.fault(target, fuzz.spoiled(target, 1, number)), (
                f"{target.name}, input {number}"
            )
