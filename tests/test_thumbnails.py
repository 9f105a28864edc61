"""Training images are recognized after they were saved again; different ones, flat ones and small
digits are not."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from picture_files import picture
from socrates import data
from socrates.contracts import Preparation
from socrates.data.fingerprint import seen_images
from socrates.data.image import decoded, fitted
from socrates.data.thumbnail import FARTHEST, nearest_distance, recognized, thumbnails, tolerance
from socrates.predictor import Description, Predictor, load, new_rows


def stack(images: list[Image.Image]) -> Tensor:
    return torch.stack([decoded(image) for image in images])


def saved_again(image: Image.Image, quality: int) -> Image.Image:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return Image.open(io.BytesIO(file.getvalue()))


PICTURES = [picture(48, 48, seed) for seed in range(200)]
NEW = [picture(48, 48, seed) for seed in range(1000, 1200)]
CHANGES = {
    "brighter by a level": lambda image: image.point(lambda level: min(level + 1, 255)),
    "darker by five levels": lambda image: image.point(lambda level: max(level - 5, 0)),
    "JPEG": lambda image: saved_again(image, 75),
    "coarse JPEG": lambda image: saved_again(image, 40),
    "smaller": lambda image: image.resize((40, 40)).resize((48, 48)),
    "larger": lambda image: image.resize((96, 96)).resize((48, 48)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_image_is_recognized(change: str) -> None:
    known = thumbnails(stack(PICTURES))
    changed = thumbnails(stack([CHANGES[change](image) for image in PICTURES]))
    assert recognized(changed, known).double().mean() > 0.98


def test_different_images_are_not() -> None:
    known = thumbnails(stack(PICTURES))
    assert not recognized(thumbnails(stack(NEW)), known).any()
    assert not recognized(thumbnails(stack(PICTURES).flip(3)), known).any()
    assert not recognized(known, known[:0]).any()
    assert recognized(known[:0], known).tolist() == []


def test_small_digits_cause_no_refusal() -> None:
    """They are as small as a thumbnail, and one digit of a kind is much like another."""
    splits = data.load("digits")
    known = seen_images(splits)
    assert known.shape == (600, 64)
    images = splits.test.images  # type: ignore[attr-defined]
    assert recognized(thumbnails(images), known).double().mean() < 0.002
    trained = splits.train.images  # type: ignore[attr-defined]
    truncated = (trained.float() / 255 * 254.9).to(torch.uint8)
    assert (truncated != trained).any()
    assert recognized(thumbnails(truncated), known).all()


@pytest.mark.parametrize("noise", [0, 2])
def test_flat_images_are_never_recognized(noise: int) -> None:
    levels = torch.arange(0, 250, 5)[:, None, None, None].expand(-1, 3, 16, 16)
    flat = (levels + torch.randint(noise + 1, levels.shape)).to(torch.uint8)
    assert not recognized(thumbnails(flat), thumbnails(flat)).any()
    pictures = thumbnails(stack(PICTURES))
    assert torch.isinf(nearest_distance(thumbnails(flat), pictures)).all()
    assert recognized(pictures, torch.cat([pictures, thumbnails(flat)])).all()


def test_the_more_alike_images_are_the_less_is_tolerated() -> None:
    base = decoded(picture(16, 16)).float()
    noise = torch.randn(400, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    alike = (base + 12 * noise).clamp(0, 255).to(torch.uint8)  # as frames of one film
    known = thumbnails(alike[:200])
    assert tolerance(known) < FARTHEST == tolerance(thumbnails(stack(PICTURES)))
    assert recognized(thumbnails(alike[200:]), known).double().mean() < 0.02
    assert recognized(thumbnails(alike[:200]), known).all()


def test_up_to_two_percent_are_left_out() -> None:
    known = thumbnails(stack(PICTURES[:50]))
    images = thumbnails(stack([*NEW, *PICTURES[:4]]))
    with pytest.warns(UserWarning, match=r"\b4 of 204 .*image 200, .*image 203"):
        assert new_rows(images, known).tolist() == list(range(200))
    with pytest.raises(ValueError, match=r"\b5 of 205 .*p200, .*p204"):
        new_rows(thumbnails(stack([*NEW, *PICTURES[:5]])), known, [f"p{row}" for row in range(205)])


def test_a_predictor_certifies_by_new_images_alone(tmp_path: Path) -> None:
    class Redder(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            red, green, _ = images.mean(dim=(2, 3)).unbind(1)
            return torch.stack([9 * red, 9 * green], dim=1)

    preparation = Preparation((0.5,) * 3, (0.2,) * 3)
    about = Description("redder", {}, 2, (3, 24, 24), ("red", "green"), preparation)
    trained = fitted(stack(PICTURES), (24, 24))
    ours = Predictor(Redder(), about, seen=thumbnails(trained))
    ours = load(ours.save(tmp_path), model=Redder())
    labels = torch.as_tensor(ours.predict(NEW).predicted)
    names = [about.classes[label] for label in labels.tolist()]
    certificate = ours.certify(NEW, names, risk=0.1)
    assert certificate.num_accepted == 200
    with pytest.warns(UserWarning, match=r"\b2 of 202 "):
        certificate = ours.certify([*NEW, *PICTURES[:2]], [*names, "red", "red"], risk=0.1)
    assert certificate.num_accepted == 200
    for row, image in enumerate(PICTURES[:30]):
        saved_again(image, 80).save(tmp_path / f"{row}.png")
    files = sorted(tmp_path.glob("*.png"))
    with pytest.raises(ValueError, match=r"\b30 of 30 .*0\.png.* 20 more"):
        ours.certify(files, labels[:30], risk=0.1)


def test_other_thumbnails_are_refused() -> None:
    about = Description("nn", {}, 2, (1, 2, 2), ("a", "b"), Preparation((0.5,), (0.5,)))
    with pytest.raises(ValueError, match=r"uint8 .*int64"):
        Predictor(nn.Linear(4, 2), about, seen=torch.zeros(3, dtype=torch.int64))
