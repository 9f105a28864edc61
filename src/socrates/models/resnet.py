"""The ResNets of He et al. (2016), and the "ResNet-110" of the calibration literature."""

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn
from torch.nn import functional as F

from ..contracts import Classifier

MakeBlock = Callable[[int, int, int], nn.Module]  # from channels before, width and stride
EXPANSION = 4  # of the width by a bottleneck block


def convolution(before: int, after: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    """Return a convolution that keeps the image's size, but for its stride, and batch norm."""
    return [
        nn.Conv2d(before, after, kernel, stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(after),
    ]


class Projection(nn.Sequential):
    """A shortcut by a 1x1 convolution where the shape changes (He's option B)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        changes = stride != 1 or before != after
        super().__init__(*(convolution(before, after, 1, stride) if changes else []))


class Padding(nn.Module):
    """A shortcut without parameters that skips pixels and adds channels of zeros (option A)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.added = after - before

    def forward(self, images: Tensor) -> Tensor:
        return F.pad(images[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.added))


class Residual(nn.Module):
    """Layers and a shortcut around them."""

    def __init__(self, layers: list[nn.Module], shortcut: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*layers)
        self.shortcut = shortcut

    def forward(self, images: Tensor) -> Tensor:
        return (self.body(images) + self.shortcut(images)).relu()


class BasicBlock(Residual):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(
        self, before: int, width: int, stride: int, shortcut: MakeBlock = Projection
    ) -> None:
        layers = [*convolution(before, width, 3, stride), nn.ReLU(), *convolution(width, width, 3)]
        super().__init__(layers, shortcut(before, width, stride))


class Bottleneck(Residual):
    """A 3x3 convolution between two of 1x1, the last four times as wide, and a shortcut."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        layers = [
            *convolution(before, width, 1),
            nn.ReLU(),
            *convolution(width, width, 3, stride),
            nn.ReLU(),
        ]
        layers += convolution(width, EXPANSION * width, 1)
        super().__init__(layers, Projection(before, EXPANSION * width, stride))


def init_kaiming(layer: nn.Module) -> None:
    """Initialize a convolution as He does, by fan-out."""
    if isinstance(layer, nn.Conv2d):
        nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")


def check_size(name: str, image_shape: tuple[int, int, int], least: int) -> None:
    """Raise for images that a network halves to nothing."""
    if min(image_shape[1:]) < least:
        raise ValueError(
            f"{name} halves the image until {least} pixels are one: "
            f"it needs at least {least}x{least}, got {image_shape[1]}x{image_shape[2]}; "
            f"mlp, cnn and resnet20 take small images"
        )


class ResNet(Classifier):
    """A first layer, then stages of `counts` blocks.

    All but the first double the width and halve the image.
    """

    def __init__(
        self,
        num_outputs: int,
        first: list[nn.Module],
        block: MakeBlock,
        width: int,
        counts: list[int],
        expansion: int = 1,
    ) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        before = width
        for stage, count in enumerate(counts):
            for position in range(count):
                stride = 2 if stage and not position else 1
                blocks.append(block(before, width * 2**stage, stride))
                before = width * 2**stage * expansion
        self.body = nn.Sequential(
            *first, nn.Sequential(*blocks), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        )
        self.head = nn.Linear(before, num_outputs)


def stem(channels: int, width: int) -> list[nn.Module]:
    """Return the first layer for small images: one 3x3 convolution that keeps their size."""
    return [nn.Sequential(*convolution(channels, width, 3), nn.ReLU())]


class HeResNet(ResNet):
    """6 n + 2 layers: three stages of n blocks, from `width` to 4 `width` channels."""

    num_blocks: int

    def __init__(
        self, num_outputs: int, image_shape: tuple[int, int, int], *, width: int = 16
    ) -> None:
        check_size("a ResNet for small images", image_shape, 4)
        block = partial(BasicBlock, shortcut=Padding)
        super().__init__(
            num_outputs, stem(image_shape[0], width), block, width, [self.num_blocks] * 3
        )
        self.apply(init_kaiming)


class ResNet20(HeResNet):
    """He's ResNet-20 for small images (0.27 M parameters).

    Options:
        width: channels of the first stage; each further one doubles them

    >>> ResNet20(10, (1, 8, 8)).head
    Linear(in_features=64, out_features=10, bias=True)
    """

    num_blocks = 3


class ResNet110He(HeResNet):
    """He's ResNet-110 for small images (1.7 M parameters).

    Options:
        width: channels of the first stage; each further one doubles them
    """

    num_blocks = 18


class ResNet34(ResNet):
    """ResNet-34 for 224x224: 7x7 stem with max pool, blocks [3, 4, 6, 3] (21.3 M parameters).

    Options:
        width: channels of the first stage; each further one doubles them
    """

    def __init__(
        self, num_outputs: int, image_shape: tuple[int, int, int], *, width: int = 64
    ) -> None:
        check_size("resnet34", image_shape, 32)
        first = [
            *convolution(image_shape[0], width, 7, stride=2),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
        ]
        super().__init__(num_outputs, first, BasicBlock, width, [3, 4, 6, 3])
        self.apply(init_kaiming)


class ResNet110(ResNet):
    """ResNet-110 of the calibration literature: bottlenecks [3, 4, 26, 3] (46 M parameters).

    The stem is one 3x3 convolution.

    Options:
        width: channels of the first stage; each further one doubles them
    """

    def __init__(
        self, num_outputs: int, image_shape: tuple[int, int, int], *, width: int = 64
    ) -> None:
        check_size("resnet110", image_shape, 8)
        super().__init__(
            num_outputs, stem(image_shape[0], width), Bottleneck, width, [3, 4, 26, 3], EXPANSION
        )
