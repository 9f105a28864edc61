"""Lay ResNet-50 weights in Keras's names out as a folder of transformers, for --backbone FOLDER.

    python benchmarks/resnet50_folder.py resnet50-imagenet.npz resnet50

The file has arrays named convN/kernel (height, width, in, out), convN/bias, bnN/gamma, beta,
moving_mean and moving_variance, and fc1000/kernel and bias: the network of He et al. (2015) with
its strides in the first 1 x 1 convolution of a block, batch norms with epsilon 1e-3, and inputs
BGR - (103.939, 116.779, 123.68). The folder gets a ResNetForImageClassification that computes the
same from RGB images, but for one thing: its first pooling is padded on all sides.

- Strides: `downsample_in_bottleneck` puts them where they were.
- Epsilon: transformers has 1e-5, so the difference is added to every variance.
- Biases of convolutions, which transformers does not have, are subtracted from the means.
- BGR: the kernel of the first convolution is reversed. The mean goes to preprocessor_config.json,
  with a deviation of 1/255.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import ResNetConfig, ResNetForImageClassification

Arrays = Mapping[str, np.ndarray]

BGR_MEAN = (103.939, 116.779, 123.68)
EPSILON = 1e-3  # of the file's batch norms
BLOCKS = (3, 4, 6, 3)  # of the stages 2 to 5
BRANCHES = ("branch2a", "branch2b", "branch2c")


def layer(arrays: Arrays, convolution: str, norm: str, epsilon: float) -> dict[str, Tensor]:
    """Return a convolution and its batch norm, as transformers names and computes them."""

    def array(name: str) -> Tensor:
        return torch.from_numpy(np.array(arrays[name]))

    mean = array(f"{norm}/moving_mean") - array(f"{convolution}/bias")
    return {
        "convolution.weight": array(f"{convolution}/kernel").permute(3, 2, 0, 1),
        "normalization.weight": array(f"{norm}/gamma"),
        "normalization.bias": array(f"{norm}/beta"),
        "normalization.running_mean": mean,
        "normalization.running_var": array(f"{norm}/moving_variance") + EPSILON - epsilon,
    }


def state_of(arrays: Arrays, epsilon: float) -> dict[str, Tensor]:
    """Return the state of the transformers model."""
    layers = {"resnet.embedder.embedder": layer(arrays, "conv1", "bn_conv1", epsilon)}
    first = layers["resnet.embedder.embedder"]
    first["convolution.weight"] = first["convolution.weight"].flip(1)
    for stage, num_blocks in enumerate(BLOCKS):
        for block in range(num_blocks):
            there = f"{stage + 2}{'abcdef'[block]}_"
            here = f"resnet.encoder.stages.{stage}.layers.{block}"
            names = {f"{here}.layer.{i}": branch for i, branch in enumerate(BRANCHES)}
            if block == 0:
                names[f"{here}.shortcut"] = "branch1"
            for name, branch in names.items():
                layers[name] = layer(arrays, f"res{there}{branch}", f"bn{there}{branch}", epsilon)
    state = {
        f"{name}.{key}": value for name, values in layers.items() for key, value in values.items()
    }
    state["classifier.1.weight"] = torch.from_numpy(np.array(arrays["fc1000/kernel"])).T
    state["classifier.1.bias"] = torch.from_numpy(np.array(arrays["fc1000/bias"]))
    return {key: value.contiguous() for key, value in state.items()}


def convert(arrays: Arrays, folder: Path) -> ResNetForImageClassification:
    """Write config.json, preprocessor_config.json and model.safetensors, and return the model."""
    config = ResNetConfig(
        depths=list(BLOCKS), layer_type="bottleneck", downsample_in_bottleneck=True, num_labels=1000
    )
    model: Any = ResNetForImageClassification(config)
    epsilon = next(part.eps for part in model.modules() if isinstance(part, nn.BatchNorm2d))
    missing, unexpected = model.load_state_dict(state_of(arrays, epsilon), strict=False)
    missing = [name for name in missing if not name.endswith("num_batches_tracked")]
    if missing or unexpected:
        raise ValueError(f"the arrays do not fit: missing {missing}, unexpected {unexpected}")
    model.save_pretrained(folder)
    preparation = {
        "image_processor_type": "ConvNextImageProcessor",
        "size": {"shortest_edge": 224},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [level / 255 for level in reversed(BGR_MEAN)],
        "image_std": [1 / 255] * 3,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(preparation, indent=2) + "\n")
    return model


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("arrays", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    with np.load(options.arrays, allow_pickle=False) as arrays:
        model = convert(dict(arrays), options.folder)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"written: {options.folder}, {parameters:,} parameters")


if __name__ == "__main__":
    main()
