"""EfficientNet-Lite0 (Liu 2020), for features of photographs; weights by the usual PyTorch names.

The network has neither squeeze-and-excitation nor swish. Paddings are TensorFlow's "same": an odd
pixel goes to the right and to the bottom. Inputs are (pixels - 127) / 128.
"""

from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

# stride of the first block, and number of blocks
STAGES = ((1, 1), (2, 2), (2, 2), (2, 3), (1, 3), (2, 4), (1, 1))
EPSILON = 1e-3
Weights = dict[str, Tensor]


def convolve(
    inputs: Tensor, weights: Weights, conv: str, norm: str, stride: int = 1, active: bool = True
) -> Tensor:
    """Apply a convolution, its batch norm and ReLU6; a filter of one input channel is depthwise."""
    kernel = weights[f"{conv}.weight"]
    groups = inputs.shape[1] // kernel.shape[1]
    size = inputs.shape[-1]
    padding = max((-(-size // stride) - 1) * stride + kernel.shape[-1] - size, 0)
    before = padding // 2
    after = padding - before
    padded = F.pad(inputs, (before, after, before, after)) if padding else inputs
    outputs = F.conv2d(
        padded, weights[f"{conv}.folded"], weights[f"{norm}.folded"], stride, groups=groups
    )
    return F.relu6(outputs) if active else outputs


def load_weights(file: Path) -> Weights:
    """Return the weights in a file, with every batch norm folded into its convolution."""
    weights: Weights = torch.load(file, map_location="cpu", weights_only=True)
    norms = {"_conv_stem": "_bn0", "_conv_head": "_bn1"}
    for name in list(weights):
        if name.endswith("_expand_conv.weight"):
            norms[name[: -len(".weight")]] = name.replace("_expand_conv.weight", "_bn0")
        if name.endswith("_depthwise_conv.weight"):
            norms[name[: -len(".weight")]] = name.replace("_depthwise_conv.weight", "_bn1")
        if name.endswith("_project_conv.weight"):
            norms[name[: -len(".weight")]] = name.replace("_project_conv.weight", "_bn2")
    for conv, norm in norms.items():
        scale = weights[f"{norm}.weight"] / (weights[f"{norm}.running_var"] + EPSILON).sqrt()
        weights[f"{conv}.folded"] = weights[f"{conv}.weight"] * scale[:, None, None, None]
        weights[f"{norm}.folded"] = (
            weights[f"{norm}.bias"] - weights[f"{norm}.running_mean"] * scale
        )
    return weights


@torch.no_grad()
def features(images: Tensor, weights: Weights, side: int = 96) -> Tensor:
    """Return the pooled features (N, 1280) of uint8 images (N, 3, H, W), resized to `side`."""
    pixels = F.interpolate(images.float(), size=side, mode="bilinear", antialias=True)
    hidden = ((pixels - 127) / 128).to(memory_format=torch.channels_last)
    hidden = convolve(hidden, weights, "_conv_stem", "_bn0", stride=2)
    number = 0
    for first_stride, repeats in STAGES:
        for place in range(repeats):
            stride = first_stride if place == 0 else 1
            hidden = block(hidden, weights, f"_blocks.{number}", stride)
            number += 1
    hidden = convolve(hidden, weights, "_conv_head", "_bn1")
    return hidden.mean(dim=(2, 3))


def block(inputs: Tensor, weights: Weights, name: str, stride: int) -> Tensor:
    """Apply one inverted residual block."""
    hidden = inputs
    if f"{name}._expand_conv.weight" in weights:
        hidden = convolve(hidden, weights, f"{name}._expand_conv", f"{name}._bn0")
    hidden = convolve(hidden, weights, f"{name}._depthwise_conv", f"{name}._bn1", stride)
    hidden = convolve(hidden, weights, f"{name}._project_conv", f"{name}._bn2", active=False)
    same_shape = hidden.shape == inputs.shape
    return hidden + inputs if same_shape and stride == 1 else hidden
