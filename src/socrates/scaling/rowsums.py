"""The NLL as a function of one inverse temperature b, with the derivatives that Newton's method needs."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

# Two working buffers of this size stay in the processor's cache; an accelerator wants few large kernels instead.
CHUNK_ELEMENTS = {"cpu": 2**18, "other": 2**25}
# Below this size float64 costs nothing that anyone would notice.
SMALL = 2**17
# Below, exp is 0 beside the row maximum's 1, but its subnormal numbers are ten times slower.
LOWEST = -87.0
# The smallest b times the largest difference within a row.
HOTTEST = 1e-4


@dataclass(frozen=True)
class Slope:
    """Mean NLL at one b, with its first and second derivative with respect to b."""

    nll: float
    first: float
    second: float


class RowSums:
    """For every row S_j(b) = sum_k u_k^j exp(b u_k), u = logits - row maximum, without copying the matrix."""

    def __init__(self, logits: Tensor, labels: Tensor, exact: bool = False) -> None:
        self.logits = logits  # (N, C)
        wanted = exact or logits.numel() <= SMALL
        double = logits.dtype == torch.float64 or (wanted and logits.device.type != "mps")
        self.dtype = torch.float64 if double else torch.float32
        self.top = logits.amax(dim=1).to(self.dtype)  # (N,)
        self.u_true = self.relative(logits.gather(1, labels[:, None]).squeeze(1))
        # The largest difference within a row.
        self.depth = float((self.top.cpu().double() - logits.amin(dim=1).cpu().double()).max())
        # Beyond, softmax(b u) is uniform to four digits.
        self.hottest = HOTTEST / max(self.depth, HOTTEST)
        elements = CHUNK_ELEMENTS["cpu" if logits.device.type == "cpu" else "other"]
        self.rows = max(1, min(len(logits), elements // logits.shape[1]))
        self.centred = logits.new_empty((self.rows, logits.shape[1]), dtype=self.dtype)
        self.powers = torch.empty_like(self.centred)

    def relative(self, picked: Tensor) -> Tensor:
        """One logit a row, (N,), minus the row maximum, in float64 on the CPU."""
        return (picked.to(self.dtype) - self.top).cpu().double()

    def at(self, b: float, order: int) -> "Expansion":
        """S_0 ... S_order at b > 0 rounded to the working precision; the expansion reaches b itself."""
        centre = float(torch.tensor(b, dtype=self.dtype))
        out = self.logits.new_empty((order + 1, len(self.logits)), dtype=self.dtype)
        for start in range(0, len(self.logits), self.rows):
            chunk = slice(start, start + self.rows)
            self._chunk_sums(centre, self.logits[chunk], self.top[chunk], out[:, chunk])
        # Chunks hold powers of b u, which exp(b u) keeps from overflowing, instead of powers of u.
        units = torch.tensor([[centre**-j] for j in range(order + 1)], dtype=torch.float64)
        return Expansion(centre, out.cpu().double() * units)

    def slope(self, expansion: "Expansion", b: float) -> Slope:
        """Mean NLL and its derivatives at b, near the expansion's centre."""
        s0, s1, s2 = expansion.near(b, 3)
        mean = s1 / s0
        nll = s0.log() - b * self.u_true
        return Slope(float(nll.mean()), float((mean - self.u_true).mean()), float((s2 / s0 - mean * mean).mean()))

    def _chunk_sums(self, b: float, logits: Tensor, top: Tensor, out: Tensor) -> None:
        centred, powers = self.centred[: len(logits)], self.powers[: len(logits)]
        torch.sub(logits, top[:, None], out=centred)
        centred.mul_(b).clamp_(min=LOWEST)
        torch.exp(centred, out=powers)
        torch.sum(powers, dim=1, out=out[0])
        for row in out[1:]:
            torch.sum(powers.mul_(centred), dim=1, out=row)


@dataclass(frozen=True)
class Expansion:
    """Row sums at `centre`; since d S_j / d b = S_{j+1}, a Taylor series gives those nearby without a new exp."""

    centre: float
    sums: Tensor  # (order + 1, N)

    def near(self, b: float, count: int) -> Tensor:
        """S_0 ... S_{count - 1} at b, shape (count, N)."""
        step, size = b - self.centre, len(self.sums)
        series = [
            [step ** (m - j) / math.factorial(m - j) if m >= j else 0.0 for m in range(size)] for j in range(count)
        ]
        return torch.tensor(series, dtype=torch.float64) @ self.sums

    def error(self, b: float) -> float:
        """Size of the last term that the series of S_1 / S_0 keeps: a cautious bound of its error."""
        terms = len(self.sums) - 1
        last = abs(b - self.centre) ** (terms - 1) / math.factorial(terms - 1)
        return last * float((self.sums[-1].abs() / self.sums[0]).mean())
