"""Augmentation: exact semantics, the right distribution, and randomness that is a function of the
stream."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from data_files import pixels
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from socrates.contracts import Stream
from socrates.data import ResidentImages, Transform
from socrates.data.augment import (
    RATIO,
    TRIES,
    add_border,
    gather_pixels,
    resize_boxes,
    resized_boxes,
    rotated_positions,
)

CPU = torch.device("cpu")
UNIT = ((0.0,) * 3, (1 / 255,) * 3)  # normalization that leaves the values 0 to 255


def split(transform: Transform, count: int = 40, side: int = 8) -> ResidentImages:
    return ResidentImages(
        torch.from_numpy(pixels((count, 3, side, side))), torch.arange(count), transform
    )


def epoch(data: ResidentImages, stream: Stream | None, batch_size: int = 16) -> torch.Tensor:
    return torch.cat(
        [batch.inputs for batch in data.batches(batch_size, torch.arange(len(data)), stream)]
    )


def possible(image: np.ndarray, padding: int, flips: bool) -> dict[bytes, tuple[int, int, bool]]:
    """Every crop of a padded image, by content."""
    padded = np.pad(image, [(0, 0), (padding, padding), (padding, padding)])
    side = image.shape[1]
    crops = {}
    for top, left, flipped in itertools.product(
        range(2 * padding + 1), range(2 * padding + 1), {False, flips}
    ):
        crop = padded[:, top : top + side, left : left + side]
        crops[(crop[:, :, ::-1] if flipped else crop).tobytes()] = (top, left, flipped)
    return crops


def offsets(data: ResidentImages, epochs: int, flips: bool) -> list[tuple[int, int, bool]]:
    choices = [possible(image, data.transform.padding, flips) for image in data.images.numpy()]
    drawn = []
    for number in range(epochs):
        images = epoch(data, Stream(seed=5, epoch=number)).round().to(torch.uint8).numpy()
        drawn += [choices[row][image.tobytes()] for row, image in enumerate(images)]
    return drawn


def test_every_output_is_a_crop_and_offsets_and_flips_are_uniform():
    # 2,400 draws
    drawn = offsets(split(Transform(*UNIT, padding=2, flip=True)), epochs=60, flips=True)
    cells = np.zeros((5, 5))
    for top, left, _ in drawn:
        cells[top, left] += 1
    expected = len(drawn) / 25
    # chi-square, 24 degrees of freedom: p about 1e-4
    assert ((cells - expected) ** 2 / expected).sum() < 60
    flips = np.array([flipped for _, _, flipped in drawn])
    assert abs(flips.mean() - 0.5) < 0.05
    assert abs(np.corrcoef(flips, [top for top, _, _ in drawn])[0, 1]) < 0.1


def test_without_flip_no_output_is_mirrored():
    assert not any(
        flipped for _, _, flipped in offsets(split(Transform(*UNIT, padding=1)), 3, flips=False)
    )


def rotate(images, degrees):
    """Each image turned counter-clockwise about its centre."""
    count, _, height, width = images.shape
    rows, columns = (torch.arange(side).expand(count, -1) for side in (height, width))
    source = rotated_positions(rows, columns, degrees, (height, width), border=1)
    return gather_pixels(add_border(images, 1), source)


@pytest.mark.parametrize("degrees", [-15.0, -7.3, 0.0, 4.0, 11.1, 15.0, 90.0])
def test_rotation_is_that_of_pillow(degrees):
    image = pixels((32, 32, 3))
    expected = np.array(Image.fromarray(image).rotate(degrees))
    rotated = rotate(torch.from_numpy(image).permute(2, 0, 1)[None], torch.tensor([degrees]))[
        0
    ].permute(1, 2, 0)
    assert (rotated.numpy() != expected).any(axis=2).mean() < 0.005  # Pillow counts in fixed point


def test_rotation_fills_with_zeros_and_keeps_the_type():
    rotated = rotate(torch.full((1, 1, 9, 9), 7, dtype=torch.uint8), torch.tensor([45.0]))
    assert rotated.dtype == torch.uint8
    assert rotated[0, 0, 0, 0] == 0
    assert rotated[0, 0, 4, 4] == 7


def test_rotation_comes_before_the_crop_and_angles_are_uniform():
    marked = torch.zeros(500, 1, 33, 33, dtype=torch.uint8)
    marked[:, :, 16, 31] = 255  # to the right of the centre
    data = ResidentImages(marked, torch.zeros(500), Transform((0.0,), (1.0,), degrees=15.0))
    images = epoch(data, Stream(1, 0), batch_size=500)
    rows = images[:, 0].amax(dim=2).argmax(dim=1)[images.amax(dim=(1, 2, 3)) > 0].numpy() - 16
    assert rows.min() == -4  # 15 tan 15 degrees
    assert rows.max() == 4
    assert abs(rows.mean()) < 0.5
    both = ResidentImages(
        torch.full((50, 1, 9, 9), 255, dtype=torch.uint8),
        torch.zeros(50),
        Transform((0.0,), (1.0,), padding=4, degrees=15.0),
    )
    middle = epoch(both, Stream(1, 0))[:, 0, 4, 4]
    assert (middle > 0).all()  # a crop moved by at most 4 keeps the centre inside the turned image


@pytest.mark.parametrize(
    "transform",
    [
        Transform(*UNIT, padding=2, flip=True),
        Transform(*UNIT, padding=2, degrees=15.0),
        Transform(*UNIT, flip=True, size=16, scale=(0.05, 1.0)),
    ],
)
def test_randomness_is_a_function_of_seed_epoch_and_step(transform):
    data = split(transform)
    same = epoch(data, Stream(1, 2))
    assert torch.equal(same, epoch(data, Stream(1, 2)))
    for other in (Stream(2, 2), Stream(1, 3), Stream(1, 2, "meta")):
        assert not torch.equal(same, epoch(data, other))
    twice = list(data.batches(8, torch.arange(8).repeat(2), Stream(1, 2)))
    assert not torch.equal(twice[0].inputs, twice[1].inputs)  # the same samples at another step


def test_global_randomness_is_neither_used_nor_moved():
    data = split(Transform(*UNIT, padding=2, flip=True, size=16, scale=(0.1, 1.0)))
    torch.manual_seed(0)
    first, state = epoch(data, Stream(1, 0)), torch.get_rng_state()
    torch.manual_seed(1)
    assert torch.equal(first, epoch(data, Stream(1, 0)))
    torch.manual_seed(0)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("padding", [0, 3])
def test_evaluation_is_the_images_themselves(padding):
    data = split(Transform((0.2, 0.4, 0.6), (0.5, 0.25, 0.1), padding=padding, flip=True))
    mean, std = (
        torch.tensor(value)[:, None, None] for value in ((0.2, 0.4, 0.6), (0.5, 0.25, 0.1))
    )
    expected = (torch.from_numpy(pixels((40, 3, 8, 8))).float() / 255 - mean) / std
    assert torch.allclose(epoch(data, None), expected, atol=1e-5)
    assert torch.equal(epoch(data, None), epoch(data, None, batch_size=7))


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 50), st.integers(0, 30), st.booleans(), st.integers(0, 100))
def test_batches_cover_the_order_exactly_once(batch_size, length, augmented, seed):
    data = split(Transform(*UNIT, padding=1, flip=True), count=30, side=4)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(seed))[:length]
    batches = list(data.batches(batch_size, order, Stream(seed, 0) if augmented else None))
    assert [len(batch) for batch in batches[:-1]] == [batch_size] * max(0, len(batches) - 1)
    index = torch.cat([torch.empty(0, dtype=torch.int64), *(batch.index for batch in batches)])
    assert torch.equal(index, order)
    assert torch.equal(
        torch.cat([torch.empty(0, dtype=torch.int64), *(batch.labels for batch in batches)]), order
    )
    assert all(
        batch.inputs.dtype == torch.float32 and len(batch.inputs) == len(batch) for batch in batches
    )


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 1000))
def test_resized_boxes_lie_inside_the_image(height, width, seed):
    draws = torch.rand(20, TRIES, 4, generator=torch.Generator().manual_seed(seed))
    top, left, tall, wide = resized_boxes(draws, height, width, (0.08, 1.0)).unbind(1)
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (tall >= 1).all()
    assert (wide >= 1).all()
    assert (top + tall <= height).all()
    assert (left + wide <= width).all()


def test_resized_boxes_have_the_right_distribution():
    draws = torch.rand(20_000, TRIES, 4, generator=torch.Generator().manual_seed(0))
    top, left, tall, wide = resized_boxes(draws, 400, 400, (0.08, 0.5)).double().unbind(1)
    share, ratio = tall * wide / 160_000, torch.log(wide / tall)
    assert 0.075 < share.min() < 0.085
    assert 0.49 < share.max() < 0.505
    assert abs(share.mean() - 0.29) < 0.005
    assert abs(ratio.mean()) < 0.01
    assert abs(ratio.std() - np.log(RATIO[1]) / 3**0.5) < 0.01  # uniform in the logarithm
    for start, room in ((top, 400 - tall), (left, 400 - wide)):
        assert abs((start / room).mean() - 0.5) < 0.01


def test_a_long_image_gets_the_centre_when_no_box_fits():
    assert resized_boxes(torch.full((1, TRIES, 4), 0.9), 10, 1000, (0.9, 1.0)).tolist() == [
        [0, 493, 10, 13]
    ]


def test_enlarging_is_that_of_pillow():
    image = pixels((32, 32, 3))
    for top, left, tall, wide in ((0, 0, 32, 32), (5, 9, 7, 20), (31, 31, 1, 1)):
        crop = Image.fromarray(image).crop((left, top, left + wide, top + tall))
        expected = np.array(crop.resize((64, 64), Image.Resampling.BILINEAR)).astype(float)
        batch = torch.from_numpy(image).permute(2, 0, 1)[None].float()
        ours = resize_boxes(batch, torch.tensor([[top, left, tall, wide]]), 64)[0].permute(1, 2, 0)
        assert np.abs(ours.numpy() - expected).max() <= 1.01  # Pillow rounds after each direction


def test_resizing_without_augmentation_is_that_of_pillow():
    image = pixels((32, 32, 3))
    for side in (48, 20):
        transform = Transform(*UNIT, size=side)
        ours = transform.finish(
            torch.from_numpy(image).permute(2, 0, 1)[None], transform.constants(CPU)
        )[0]
        expected = np.array(
            Image.fromarray(image).resize((side, side), Image.Resampling.BILINEAR)
        ).astype(float)
        assert np.abs(ours.permute(1, 2, 0).numpy() - expected).max() <= 1.5


def test_subset_counts_from_zero_and_keeps_the_transform():
    data = split(Transform(*UNIT, padding=2, flip=True))
    part = data.subset(torch.tensor([7, 3, 9]))
    assert part.labels.tolist() == [7, 3, 9]
    assert part.transform == data.transform
    assert torch.equal(epoch(part, None), epoch(data, None)[[7, 3, 9]])


def test_a_split_moves_to_a_device_and_draws_the_same():
    data = split(Transform(*UNIT, padding=2, flip=True))
    assert data.to("cpu") is data
    moved = data.to("meta")
    assert moved.labels.device.type == "meta"
    # a hidden read of a value would raise here
    batch = next(moved.batches(4, torch.arange(8), Stream(1, 0)))
    assert batch.inputs.shape == (4, 3, 8, 8)
    assert batch.index.device.type == "meta"


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (torch.zeros(2, 3, 4, 4), torch.zeros(2), "float32"),
        (torch.zeros(2, 4, 4, dtype=torch.uint8), torch.zeros(2), r"\(2, 4, 4\)"),
        (torch.zeros(2, 3, 4, 4, dtype=torch.uint8), torch.zeros(3), r"labels \(3,\)"),
        (
            torch.zeros(2, 1, 4, 4, dtype=torch.uint8),
            torch.zeros(2),
            "3 channels, the images have 1",
        ),
    ],
)
def test_wrong_images_are_refused(images, labels, message):
    with pytest.raises(ValueError, match=message):
        ResidentImages(images, labels, Transform(*UNIT))


@pytest.mark.parametrize(
    ("batch_size", "order"),
    [(0, torch.arange(3)), (2, torch.zeros(2, 2).long()), (2, torch.rand(3))],
)
def test_wrong_orders_are_refused(batch_size, order):
    with pytest.raises(ValueError, match="1-D int64 order"):
        next(split(Transform(*UNIT)).batches(batch_size, order))
