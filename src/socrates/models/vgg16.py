"""VGG-16 for 32x32 images with batch norm and dropout, as self-adaptive training and its followers
use it."""

import math

from torch import nn

from ..contracts import Classifier, DropoutLinear

# configuration D
BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


class VGG16(Classifier):
    """VGG-16 for 32x32 images: convolution, ReLU, batch norm, dropout between (15 M parameters)."""

    def __init__(self, num_outputs: int, image_shape: tuple[int, int, int]) -> None:
        super().__init__()
        if image_shape[1:] != (32, 32):
            raise ValueError(
                f"vgg16 needs images of 32x32, got {image_shape[1]}x{image_shape[2]}: "
                f"use mlp, cnn or resnet20 for smaller images and resnet34 for larger"
            )
        dense = [nn.Dropout(0.5), nn.Linear(512, 512), nn.ReLU(), nn.BatchNorm1d(512)]
        self.body = nn.Sequential(*_convolutions(image_shape[0]), nn.Flatten(), *dense)
        self.head = DropoutLinear(512, num_outputs, dropout=0.5)
        self.apply(_init)


def _convolutions(channels: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for number, block in enumerate(BLOCKS):
        for position, width in enumerate(block):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), nn.BatchNorm2d(width)]
            if position < len(block) - 1:
                layers.append(nn.Dropout2d(0.3 if number == 0 else 0.4))
            channels = width
        layers.append(nn.MaxPool2d(2))
    return layers


def _init(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d | nn.Linear) and module.bias is not None:
        std = 0.01
        if isinstance(module, nn.Conv2d):
            fan_out = module.weight[:, 0].numel()  # channels times the area of the kernel
            std = math.sqrt(2 / fan_out)
        nn.init.normal_(module.weight, 0.0, std)
        nn.init.zeros_(module.bias)
