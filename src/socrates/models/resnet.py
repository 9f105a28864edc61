"""The ResNets of He et al. (2016) and the "ResNet-110" of the calibration literature, of the same residual blocks."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from ..contracts import Classifier

Shortcut = Callable[[int, int, int], nn.Module]


class Projection(nn.Sequential):
    """A shortcut by a 1x1 convolution where the shape changes (He's option B)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        if stride != 1 or before != after:
            self.append(nn.Conv2d(before, after, 1, stride=stride, bias=False)).append(nn.BatchNorm2d(after))


class Padding(nn.Module):
    """A shortcut without parameters: pixels are skipped and channels of zeros added (He's option A)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.added = after - before

    def forward(self, images: Tensor) -> Tensor:
        return F.pad(images[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.added))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    expansion = 1

    def __init__(self, before: int, width: int, stride: int, shortcut: Shortcut = Projection) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, width, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.shortcut = shortcut(before, width, stride)

    def forward(self, images: Tensor) -> Tensor:
        return (self.body(images) + self.shortcut(images)).relu()


class Bottleneck(nn.Module):
    """A 3x3 convolution between two of 1x1, the last four times as wide, and a shortcut."""

    expansion = 4

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = width * self.expansion
        self.body = nn.Sequential(
            nn.Conv2d(before, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.shortcut = Projection(before, after, stride)

    def forward(self, images: Tensor) -> Tensor:
        return (self.body(images) + self.shortcut(images)).relu()


def stem(channels: int, width: int) -> nn.Sequential:
    """The first layer for small images: one 3x3 convolution that keeps their size."""
    return nn.Sequential(nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())


def stages(block: Callable[[int, int, int], nn.Module], width: int, counts: list[int], expansion: int) -> nn.Sequential:
    """Stages of `counts` blocks; each stage but the first doubles the width and halves the image."""
    blocks: list[nn.Module] = []
    before = width
    for stage, count in enumerate(counts):
        for position in range(count):
            stride = 2 if stage and not position else 1
            blocks.append(block(before, width * 2**stage, stride))
            before = width * 2**stage * expansion
    return nn.Sequential(*blocks)


def init_kaiming(module: nn.Module) -> None:
    """He's initialisation of the convolutions, by fan-out."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")


def check_size(name: str, image_shape: tuple[int, int, int], least: int) -> None:
    """Refuse images that a network halves to nothing."""
    if min(image_shape[1:]) < least:
        raise ValueError(
            f"{name} halves the image until {least} pixels are one: it needs at least {least}x{least}, got "
            f"{image_shape[1]}x{image_shape[2]}; mlp, cnn and resnet20 take small images"
        )


class HeResNet(Classifier):
    """6 n + 2 layers: three stages of n blocks, from `width` to 4 `width` channels."""

    def __init__(self, num_outputs: int, image_shape: tuple[int, int, int], num_blocks: int, width: int) -> None:
        super().__init__()
        check_size("a ResNet for small images", image_shape, 4)
        self.body = nn.Sequential(
            stem(image_shape[0], width),
            stages(lambda *shape: BasicBlock(*shape, shortcut=Padding), width, [num_blocks] * 3, BasicBlock.expansion),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.head = nn.Linear(4 * width, num_outputs)
        init_kaiming(self)

    def features(self, inputs: Tensor) -> Tensor:
        return self.body(inputs)


class ResNet20(HeResNet):
    """He's ResNet-20 for small images (0.27 M parameters).

    Options:
        width: channels of the first stage; each further one doubles them

    >>> ResNet20(10, (1, 8, 8)).head
    Linear(in_features=64, out_features=10, bias=True)
    """

    def __init__(self, num_outputs: int, image_shape: tuple[int, int, int], *, width: int = 16) -> None:
        super().__init__(num_outputs, image_shape, 3, width)


class ResNet110He(HeResNet):
    """He's ResNet-110 for small images (1.7 M parameters).

    Options:
        width: channels of the first stage; each further one doubles them
    """

    def __init__(self, num_outputs: int, image_shape: tuple[int, int, int], *, width: int = 16) -> None:
        super().__init__(num_outputs, image_shape, 18, width)


class ResNet34(Classifier):
    """ResNet-34 for 224x224: a 7x7 stem with max pool, basic blocks [3, 4, 6, 3] (21.3 M parameters).

    Options:
        width: channels of the first stage; each further one doubles them
    """

    def __init__(self, num_outputs: int, image_shape: tuple[int, int, int], *, width: int = 64) -> None:
        super().__init__()
        check_size("resnet34", image_shape, 32)
        self.body = nn.Sequential(
            nn.Conv2d(image_shape[0], width, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
            stages(BasicBlock, width, [3, 4, 6, 3], BasicBlock.expansion),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.head = nn.Linear(8 * width, num_outputs)
        init_kaiming(self)

    def features(self, inputs: Tensor) -> Tensor:
        return self.body(inputs)


class ResNet110(Classifier):
    """The calibration literature's ResNet-110: bottleneck blocks [3, 4, 26, 3] after a 3x3 stem (46 M parameters).

    Options:
        width: channels of the first stage; each further one doubles them
    """

    def __init__(self, num_outputs: int, image_shape: tuple[int, int, int], *, width: int = 64) -> None:
        super().__init__()
        check_size("resnet110", image_shape, 8)
        self.body = nn.Sequential(
            stem(image_shape[0], width),
            stages(Bottleneck, width, [3, 4, 26, 3], Bottleneck.expansion),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.head = nn.Linear(8 * width * Bottleneck.expansion, num_outputs)

    def features(self, inputs: Tensor) -> Tensor:
        return self.body(inputs)
