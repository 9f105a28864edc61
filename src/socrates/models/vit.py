"""A vision transformer (Dosovitskiy et al. 2021) for small images, trained from scratch."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..contracts import Classifier


class ViT(Classifier):
    """A pre-norm vision transformer of the paper's sizes (19 M parameters).

    Options:
        patch: side of a patch in pixels
        dim: length of the vector that represents a patch
        depth: number of transformer blocks
        heads: number of attention heads, a divisor of dim
        mlp_ratio: number of hidden units of a block's MLP, as a multiple of dim
        dropout: probability that dropout drops a unit in training

    >>> ViT(10, (1, 8, 8), dim=32, depth=1, heads=2).head
    Linear(in_features=32, out_features=10, bias=True)
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
        if height % patch or width % patch:
            raise ValueError(
                f"vit cuts images into {patch}x{patch} patches, "
                f"{height}x{width} is not a multiple: set patch"
            )
        if dim % heads:
            raise ValueError(
                f"vit needs a dim that is a multiple of heads, got dim={dim} and heads={heads}"
            )
        num_patches = (height // patch) * (width // patch)
        self.patches = nn.Conv2d(channels, dim, patch, stride=patch)
        self.token = nn.Parameter(torch.zeros(1, 1, dim))
        self.position = nn.Parameter(torch.zeros(1, num_patches + 1, dim))
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(
            *(TransformerBlock(dim, heads, int(dim * mlp_ratio), dropout) for _ in range(depth))
        )
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, num_outputs)
        for parameter in (self.token, self.position):
            nn.init.trunc_normal_(parameter, std=0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def features(self, inputs: Tensor) -> Tensor:
        patches = self.patches(inputs).flatten(2).transpose(1, 2)  # (B, patches, dim)
        tokens = torch.cat([self.token.expand(inputs.shape[0], -1, -1), patches], dim=1)
        return self.norm(self.blocks(self.dropout(tokens + self.position))[:, 0])


class TransformerBlock(nn.Module):
    """Self-attention and a two-layer perceptron, each after a layer norm and added to its input."""

    def __init__(self, dim: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.attention = nn.Sequential(
            nn.LayerNorm(dim), Attention(dim, heads, dropout), nn.Dropout(dropout)
        )
        within = [nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.GELU(), nn.Dropout(dropout)]
        self.perceptron = nn.Sequential(*within, nn.Linear(hidden, dim), nn.Dropout(dropout))

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.attention(tokens)
        return tokens + self.perceptron(tokens)


class Attention(nn.Module):
    """Scaled dot-product self-attention of several heads, with an output projection."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.queries_keys_values = nn.Linear(dim, 3 * dim)
        self.output = nn.Linear(dim, dim)

    def forward(self, tokens: Tensor) -> Tensor:
        # (B, T, 3, heads, dim / heads)
        split = self.queries_keys_values(tokens).unflatten(2, (3, self.heads, -1))
        queries, keys, values = split.permute(2, 0, 3, 1, 4).unbind(0)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(queries, keys, values, dropout_p=dropout)
        return self.output(mixed.transpose(1, 2).flatten(2))
