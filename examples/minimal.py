"""Compare cross-entropy with the Socrates loss in one file.

It trains an MLP on 300 images of digits with 5 seeds, which takes some seconds. The training loop
is the usual one: only the criterion and the number of outputs differ. Run it with
`python examples/minimal.py`, after `make demo` or `pip install -c constraints.txt '.[train]'`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from socrates import SocratesLoss
from socrates.metrics import accuracy, ece, floor, predict

NUM_TRAIN, NUM_CLASSES, EPOCHS, BATCH, SEEDS = 300, 10, 150, 64, range(1, 6)


def load() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return 300 training images and 1,497 test images of 8 x 8 pixels, with their labels."""
    pixels, digits = load_digits(return_X_y=True)
    images, labels = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(42))
    train, test = order[:NUM_TRAIN], order[NUM_TRAIN:]
    return images[train], labels[train], images[test], labels[test]


def train(
    criterion: nn.Module, num_outputs: int, images: Tensor, labels: Tensor, *, with_index: bool
) -> nn.Module:
    """Train an MLP with two hidden layers by Adam."""
    model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, num_outputs)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(EPOCHS):
        for index in torch.randperm(len(labels)).split(BATCH):
            logits = model(images[index])
            loss = (
                criterion(logits, labels[index], index)
                if with_index
                else criterion(logits, labels[index])
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


def main() -> None:
    torch.set_num_threads(1)
    train_images, train_labels, test_images, test_labels = load()
    results: dict[str, list[tuple[float, float, float]]] = {"cross-entropy": [], "Socrates": []}
    start = time.perf_counter()
    for seed in SEEDS:
        for name in results:
            torch.manual_seed(seed)
            if name == "cross-entropy":
                model = train(
                    nn.CrossEntropyLoss(), NUM_CLASSES, train_images, train_labels, with_index=False
                )
                reading = None
            else:
                criterion = SocratesLoss(NUM_TRAIN, gamma=1.0, alpha=0.99)
                model = train(
                    criterion, NUM_CLASSES + 1, train_images, train_labels, with_index=True
                )
                reading = "answer"
            with torch.no_grad():
                prediction = predict(model(test_images), unknown=reading)
            measured = (
                accuracy(prediction, test_labels),
                ece(prediction, test_labels),
                floor(ece, prediction),
            )
            results[name].append(measured)

    print(
        f"digits, {NUM_TRAIN} training images, MLP, {len(SEEDS)} seeds, mean ± std, test set, %\n"
    )
    print(f"{'loss':15s} {'accuracy':>14s} {'ECE':>14s} {'ECE if calibrated':>19s}")
    for name, runs in results.items():
        columns = [mean_and_std(values) for values in zip(*runs, strict=True)]
        print(f"{name:15s} {columns[0]:>14s} {columns[1]:>14s} {columns[2]:>19s}")
    elapsed = time.perf_counter() - start
    print(
        "\nThe last column is the ECE that a perfectly calibrated model would have here. "
        f"It took {elapsed:.0f} s."
    )


def mean_and_std(shares: Sequence[float]) -> str:
    """Return mean and standard deviation of shares, in percent."""
    return f"{100 * statistics.mean(shares):5.2f} ± {100 * statistics.stdev(shares):4.2f}"


if __name__ == "__main__":
    main()
