"""One picture, one answer: training, prediction and exported programs see the same pixels, for all
shapes, modes and orientations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from picture_files import ORIENTATION, SHAPES, picture, write_pictures
from socrates import data
from socrates.contracts import Preparation
from socrates.data.image import decoded, fitted, image_tensor, opened, stretched
from socrates.engine.predict import predict_files, read_image
from socrates.predictor import Description, Predictor
from socrates.predictor.export import export

SHAPE = (3, 32, 32)


def predictor(shape: tuple[int, int, int] = SHAPE, shrink: bool = True) -> Predictor:
    """A small model with random weights that looks at every pixel and is sure of some images."""
    torch.manual_seed(1)
    channels, height, width = shape
    model = nn.Sequential(
        nn.Conv2d(channels, 4, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * height * width, 3),
    )
    with torch.no_grad():
        model[-1].weight *= 5
    preparation = Preparation((0.5,) * channels, (0.1,) * channels, shrink)
    return Predictor(model, Description("net", {}, 3, shape, ("a", "b", "c"), preparation))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_pictures(tmp_path_factory.mktemp("pictures"))


def whole(path: Path, channels: int = 3) -> Tensor:
    """The decoded image in its own size, as a user would pass it: uint8 (1, C, H, W)."""
    with opened(path) as image:
        return decoded(image, channels)[None]


@pytest.mark.parametrize("shape", [SHAPE, (1, 32, 32), (3, 24, 16)])
def test_files_images_and_tensors_have_one_answer(
    files: list[Path], shape: tuple[int, int, int]
) -> None:
    ours = predictor(shape)
    rows: list[Any] = []
    predict_files(ours, files, rows.extend)
    written = torch.tensor([[row[name] for name in ours.classes] for row in rows])
    by_path = ours.predict(files)
    images = [Image.open(path) for path in files]
    by_image = ours.predict(images)
    # one at a time, like the others, as a batch of another size may round otherwise
    squares = [ours.fitted(whole(path, shape[0])) for path in files]
    for path, square in zip(files, squares, strict=True):
        assert torch.equal(square[0], read_image(path, ours.about)), path
    assert torch.equal(torch.as_tensor(by_path.probs), written)
    assert torch.equal(torch.as_tensor(by_image.probs), written)
    assert torch.equal(torch.as_tensor(ours.predict(torch.cat(squares)).probs), written)
    for path, row in zip(files, by_path.probs, strict=True):
        one = ours.predict(str(path))
        torch.testing.assert_close(torch.as_tensor(one.probs)[0], row, rtol=0, atol=1e-5)
        sized = ours.predict(whole(path, shape[0]))
        torch.testing.assert_close(torch.as_tensor(sized.probs)[0], row, rtol=0, atol=1e-5)


def test_training_sees_what_prediction_sees(
    tmp_path: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, path in enumerate(files):
        place = tmp_path / "train" / "ab"[number % 2] / path.name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(path.read_bytes())
    for part in ("val", "test"):
        for name in "ab":
            (tmp_path / part / name).mkdir(parents=True)
            picture(40, 30).save(tmp_path / part / name / "0.png")
    with pytest.warns(UserWarning, match="are not"):
        kept = data.load(f"folder:{tmp_path}", image_size=32)
    listed = data.folder.list_folder(tmp_path).parts["train"][0]
    expected = torch.stack([image_tensor(path, SHAPE) for path in listed])
    assert torch.equal(kept.train.images, expected)  # type: ignore[attr-defined]
    monkeypatch.setattr("socrates.data.folder.RESIDENT_BYTES", 0)
    streamed = data.load(f"folder:{tmp_path}", image_size=32, augment=False)
    (batch,) = streamed.train.batches(100, torch.arange(len(listed)))
    constants = streamed.preparation.constants()  # type: ignore[union-attr]
    assert torch.equal(batch.inputs, (expected.float() - constants[0]) * constants[1])


@pytest.mark.parametrize("shrink", [True, False])
@pytest.mark.parametrize("size", [(32, 32), (24, 16)])
def test_exported_programs_see_the_same(
    size: tuple[int, int], shrink: bool, tmp_path: Path
) -> None:
    class Prepared(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return fitted(images, size, shrink)

    example = torch.zeros(2, 3, size[0] + 8, size[1] + 12, dtype=torch.uint8)
    free = {axis: torch.export.Dim(f"side{axis}", min=1, max=1 << 14) for axis in (0, 2, 3)}
    program = torch.export.export(Prepared(), (example,), dynamic_shapes=(free,)).module()
    for width, height in SHAPES:
        images = decoded(picture(width, height))[None]
        assert torch.equal(program(images), fitted(images, size, shrink)), (width, height)


@pytest.mark.slow
@pytest.mark.parametrize("shrink", [True, False])
def test_exported_files_have_the_same_answer(
    files: list[Path], tmp_path: Path, shrink: bool
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    ours = predictor(shrink=shrink)
    session = onnxruntime.InferenceSession(export(ours, tmp_path / "model.onnx"))
    program = torch.export.load(export(ours, tmp_path / "model.pt2", "torch")).module()
    expected = ours.predict(files)
    assert np.ptp(np.asarray(expected.confidence)) > 0.3  # the answers differ
    for path, probs, best in zip(files, expected.probs, expected.predicted, strict=True):
        images = whole(path)
        in_onnx, predicted, *_ = session.run(None, {"images": images.numpy()})
        np.testing.assert_allclose(in_onnx[0], probs, rtol=0, atol=1e-3, err_msg=str(path))
        assert predicted[0] == best
        torch.testing.assert_close(program(images)[0][0], probs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif"])
def test_images_are_turned_upright(files: list[Path], suffix: str) -> None:
    by_name = {path.name: whole(path)[0] for path in files}
    plain = by_name[f"exif-1.{suffix}"]
    turned = {
        2: plain.flip(2),
        3: plain.flip(1, 2),
        4: plain.flip(1),
        5: plain.transpose(1, 2),
        6: plain.transpose(1, 2).flip(2),
        7: plain.transpose(1, 2).flip(1, 2),
        8: plain.transpose(1, 2).flip(1),
    }
    for orientation, expected in turned.items():
        assert torch.equal(by_name[f"exif-{orientation}.{suffix}"], expected), orientation


def test_a_damaged_orientation_is_left_alone(tmp_path: Path) -> None:
    image = picture(20, 10)
    image.save(tmp_path / "odd.png", exif=b"Exif\0\0no tags at all")
    assert whole(tmp_path / "odd.png").shape == (1, 3, 10, 20)
    exif = Image.Exif()
    exif[ORIENTATION] = 99
    image.save(tmp_path / "wrong.png", exif=exif)
    assert torch.equal(whole(tmp_path / "wrong.png"), whole(tmp_path / "odd.png"))


def test_an_image_of_pillow_is_not_changed() -> None:
    image = picture(40, 20)
    image.getexif()[ORIENTATION] = 6
    before = image.tobytes()
    assert image_tensor(image, SHAPE).shape == SHAPE
    assert image.size == (40, 20)
    assert image.tobytes() == before


def test_what_cannot_be_an_image_is_refused(tmp_path: Path) -> None:
    ours = predictor()
    (tmp_path / "broken.png").write_bytes(b"no image")
    picture(8, 8).save(tmp_path / "fine.png")
    with pytest.raises(data.DataCorrupt, match=r"broken\.png"):
        ours.predict([tmp_path / "fine.png", tmp_path / "broken.png"])
    with pytest.raises(data.DataNotFound, match=r"missing\.png"):
        ours.predict("missing.png")
    with pytest.raises(ValueError, match=r"32 bits"):
        ours.predict(Image.new("F", (4, 4)))
    with pytest.raises(ValueError, match="tensors"):
        predictor((4, 8, 8)).predict(tmp_path / "fine.png")


def test_half_a_gray_level_rounds_up_everywhere() -> None:
    images = torch.tensor([[0, 1], [2, 3]], dtype=torch.uint8)[None, None]
    assert stretched(images, (1, 1)).item() == 2
    assert stretched(images, (1, 2)).tolist() == [[[[1, 2]]]]
    white = torch.full((1, 3, 7, 5), 255, dtype=torch.uint8)
    assert stretched(white, (32, 32)).unique().tolist() == [255]
