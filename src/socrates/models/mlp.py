"""A multilayer perceptron for small images."""

import math

from torch import nn

from ..contracts import Classifier


class MLP(Classifier):
    """A multilayer perceptron: `depth` hidden layers of `width` units.

    Options:
        width: number of units of each hidden layer
        depth: number of hidden layers

    >>> MLP(10, (1, 8, 8), width=32).head
    Linear(in_features=32, out_features=10, bias=True)
    """

    def __init__(
        self,
        num_outputs: int,
        image_shape: tuple[int, int, int],
        *,
        width: int = 128,
        depth: int = 2,
    ) -> None:
        super().__init__()
        if width < 1 or depth < 1:
            raise ValueError(
                f"mlp needs a width and a depth of at least 1, got {width} and {depth}"
            )
        sizes = [math.prod(image_shape), *[width] * (depth - 1)]
        layers = [nn.Sequential(nn.Linear(size, width), nn.ReLU()) for size in sizes]
        self.body = nn.Sequential(nn.Flatten(), *layers)
        self.head = nn.Linear(width, num_outputs)
