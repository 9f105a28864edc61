"""Switches of speed on NVIDIA GPUs, by environment variables that every process of a study reads.

They change numbers slightly, so that none of them is on by itself.
"""

import os

import torch

TF32 = "SOCRATES_TF32"  # 1: float32 products in TF32
CUDNN_BENCHMARK = "SOCRATES_CUDNN_BENCHMARK"  # 1: cuDNN tries its algorithms, and takes the fastest


def use_switches() -> None:
    """Set what the environment asks for; nothing is changed where it asks for nothing."""
    if _is_on(TF32):
        torch.set_float32_matmul_precision("high")
    if _is_on(CUDNN_BENCHMARK):
        torch.backends.cudnn.benchmark = True


def _is_on(name: str) -> bool:
    value = os.environ.get(name, "0")
    if value not in ("0", "1", ""):
        raise ValueError(f"{name} must be 1 (on) or 0 (off), got {value!r}")
    return value == "1"
