"""The ResNets of He et al. (2016) for CIFAR: three stages of basic blocks, shortcuts without parameters."""

from __future__ import annotations

from torch import Tensor, nn

from ..contracts import Classifier
from .residual import BasicBlock, Padding, check_size, init_kaiming, stages, stem


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
