"""ResNet-34 for images of ImageNet's size (He et al. 2016), used for Food-101."""

from __future__ import annotations

from torch import Tensor, nn

from ..contracts import Classifier
from .residual import BasicBlock, check_size, init_kaiming, stages


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
