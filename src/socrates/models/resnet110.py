"""The "ResNet-110" of the calibration literature since Mukhoti et al. (2020), used in the paper for CIFAR-100."""

from __future__ import annotations

from torch import Tensor, nn

from ..contracts import Classifier
from .residual import Bottleneck, check_size, stages, stem


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
