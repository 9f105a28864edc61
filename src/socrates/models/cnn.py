"""A small convolutional network for small images and small machines."""

from torch import nn

from ..contracts import Classifier
from .resnet import convolution


class CNN(Classifier):
    """Four 3x3 convolutions, `width` to 8 `width` channels, batch norm; two halve the image.

    Options:
        width: channels of the first convolution; the last has eight times as many

    >>> CNN(10, (1, 8, 8)).head
    Linear(in_features=64, out_features=10, bias=True)
    """

    def __init__(
        self, num_outputs: int, image_shape: tuple[int, int, int], *, width: int = 8
    ) -> None:
        super().__init__()
        if width < 1:
            raise ValueError(f"cnn needs a width of at least 1, got {width}")
        channels = [image_shape[0], width, 2 * width, 4 * width, 8 * width]
        layers = [
            nn.Sequential(*convolution(before, after, 3, stride), nn.ReLU())
            for before, after, stride in zip(channels[:-1], channels[1:], (1, 2, 1, 2), strict=True)
        ]
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(channels[-1], num_outputs)
