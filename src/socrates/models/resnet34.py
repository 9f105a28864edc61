"""ResNet-34 for images of ImageNet's size (He et al. 2016), used for Food-101."""

from __future__ import annotations

from torch import Tensor, nn

from ..contracts import Classifier
from .residual import BasicBlock, check_size, init_kaiming, stages


class ResNet34(Classifier):
    """ResNet-34 for 224x224: a 7x7 stem with max pool, basic blocks [3, 4, 6, 3] (21.3 M parameters)."""

    def __init__(self, num_outputs: int, image_shape: tuple[int, int, int], *, width: int = 64) -> None:
        super().__init__()
        check_size("resnet34", image_shape, 32)
        self.num_features = 8 * width
        self.body = nn.Sequential(
            nn.Conv2d(image_shape[0], width, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
            stages(BasicBlock, width, [3, 4, 6, 3], BasicBlock.expansion),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.head = nn.Linear(self.num_features, num_outputs)
        init_kaiming(self)

    def features(self, images: Tensor) -> Tensor:
        return self.body(images)
