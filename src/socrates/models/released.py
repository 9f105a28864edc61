"""The networks that the authors' released code trained where the paper names others.

`vit:released` and `resnet34:released` are for checking printed numbers; docs/fidelity.md lists how
they differ from `vit` and `resnet34`.
"""

import torch
from torch import Tensor, nn

from ..contracts import Classifier
from .resnet import BasicBlock, ResNet, check_size, stem

POOLED = 4  # side of the windows that are averaged before the last layer
HEAD_DROPOUT = 0.1


class ReleasedResNet34(ResNet):
    """ResNet-34 with a stem for 32 pixels and a wide last layer (23.8 M parameters at 224 pixels).

    Options:
        width: channels of the first stage; each further one doubles them

    >>> ReleasedResNet34(10, (3, 64, 64), width=4).head
    Linear(in_features=128, out_features=10, bias=True)
    """

    def __init__(
        self, num_outputs: int, image_shape: tuple[int, int, int], *, width: int = 64
    ) -> None:
        channels, height, rows = image_shape
        check_size("resnet34:released", image_shape, 8 * POOLED)
        super().__init__(num_outputs, stem(channels, width), BasicBlock, width, [3, 4, 6, 3])
        first, blocks, _, flatten = self.body.children()
        self.body = nn.Sequential(first, blocks, nn.AvgPool2d(POOLED), flatten)
        # each of three stages halves the sides, rounding up
        places = [-(-side // 8) // POOLED for side in (height, rows)]
        self.head = nn.Linear(8 * width * places[0] * places[1], num_outputs)


class ReleasedViT(Classifier):
    """A ViT of the paper's sizes without three of its parts (16.0 M parameters).

    The attention scores are not divided by a root, there is no output projection and no final norm.
    Dropout acts on attention scores and inside the perceptrons only, positions start from a normal
    distribution of deviation 1, and two layers follow the class token.

    Options:
        patch: side of a patch in pixels
        dim: length of the vector that represents a patch
        depth: number of transformer blocks
        heads: number of attention heads, a divisor of dim
        mlp_ratio: number of hidden units of a block's MLP, as a multiple of dim
        dropout: probability that dropout drops a unit in training

    >>> ReleasedViT(10, (1, 8, 8), dim=32, depth=1, heads=2).head
    Linear(in_features=16, out_features=10, bias=True)
    """

    def __init__(
        self,
        num_outputs: int,
        image_shape: tuple[int, int, int],
        *,
        patch: int = 4,
        dim: int = 512,
        depth: int = 12,
        heads: int = 16,
        mlp_ratio: float = 1.0,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        channels, height, width = image_shape
        if height % patch or width % patch or dim % heads:
            raise ValueError(
                f"vit:released needs images whose sides are multiples of patch={patch}, and a dim "
                f"that is a multiple of heads, got {height}x{width}, dim={dim} and heads={heads}"
            )
        num_patches = (height // patch) * (width // patch)
        self.patches = nn.Conv2d(channels, dim, patch, stride=patch)
        self.token = nn.Parameter(torch.zeros(1, 1, dim))
        self.position = nn.Parameter(torch.randn(1, num_patches + 1, dim))
        hidden = int(dim * mlp_ratio)
        blocks = [ReleasedBlock(dim, heads, hidden, dropout) for _ in range(depth)]
        self.blocks = nn.Sequential(*blocks)
        self.before_head = nn.Sequential(
            nn.Linear(dim, dim // 2), nn.GELU(), nn.Dropout(HEAD_DROPOUT)
        )
        self.head = nn.Linear(dim // 2, num_outputs)

    def features(self, inputs: Tensor) -> Tensor:
        patches = self.patches(inputs).flatten(2).transpose(1, 2)  # (B, patches, dim)
        tokens = torch.cat([self.token.expand(inputs.shape[0], -1, -1), patches], dim=1)
        return self.before_head(self.blocks(tokens + self.position)[:, 0])


class ReleasedBlock(nn.Module):
    """Self-attention without scale and projection, and a perceptron, each after a layer norm."""

    def __init__(self, dim: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.queries_keys_values = nn.Linear(dim, 3 * dim)
        self.dropout = nn.Dropout(dropout)
        self.perceptron = nn.Sequential(
            nn.LayerNorm(dim),
            nn.Linear(dim, hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, dim),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        # (B, T, 3, heads, dim / heads)
        split = self.queries_keys_values(self.norm(tokens)).unflatten(2, (3, self.heads, -1))
        queries, keys, values = split.permute(2, 0, 3, 1, 4).unbind(0)
        scores = self.dropout((queries @ keys.transpose(-2, -1)).softmax(dim=-1))
        tokens = tokens + (scores @ values).transpose(1, 2).flatten(2)
        return tokens + self.perceptron(tokens)
