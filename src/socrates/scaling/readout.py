"""Readout scaling: a temperature and one bias, for models with an unknown column that is read as a uniform belief."""

import warnings

import torch
from torch import Tensor, nn

from socrates.scaling.inputs import Array, check_fit, check_logits
from socrates.scaling.readoutfit import fit_readout
from socrates.scaling.scaler import FitReport, Scaler, folded, working


class ReadoutScaling(Scaler):
    """Scales logits with an unknown last column to z / T + bias * e_unknown, for the reading `spread`.

    With s = softmax(z / T + bias * e_unknown) over c + 1 columns, class k has probability s_k + s_unknown / c: "I do
    not know" counts as a uniform belief. T and bias minimise the NLL of the known classes. A bias towards -infinity is
    temperature scaling of the known classes; if nothing finite is better, T is that temperature and the bias is the
    finite number that brings s_unknown below 1e-17 on the fit data. Before `fit`, T = 1 and bias = 0. Calling returns
    all c + 1 scaled logits, `probs` the c probabilities; the `report` measures the gradient by T and bias.

    The NLL is not convex: several valleys are descended and the lowest wins. Three limits have no optimum and end in a
    warning. T -> 0 with bias = -k / T: where the unknown column leads by more than k in every row whose largest known
    logit is wrong, and in few others, each row ends either sure or wholly unknown, and T stops at a small value where
    the gradient has vanished. T -> 0 alone: every label has the largest known logit. T -> infinity: the logits say less
    than a uniform guess. T stays between 1e-6 and 10,000 times the spread of the known logits.

    >>> logits = torch.tensor([[4.0, 0.0, 1.0], [4.0, 0.0, 3.0], [0.0, 4.0, 1.0], [4.0, 0.0, 5.0], [3.0, 0.0, -9.0]])
    >>> scaler = ReadoutScaling().fit(logits, torch.tensor([0, 0, 1, 1, 1]))
    >>> scaler(logits).shape, scaler.probs(logits).shape
    (torch.Size([5, 3]), torch.Size([5, 2]))
    >>> scaler.report.nll_after < scaler.report.nll_before
    True
    """

    temperature: Tensor
    bias: Tensor

    def __init__(self) -> None:
        super().__init__()
        self._remember(torch.device("cpu"), temperature=torch.tensor(1.0), bias=torch.tensor(0.0))

    def fit(self, logits: Array, labels: Array) -> "ReadoutScaling":
        """Finds T and bias from held-out logits (N, c + 1) and labels (N,) among the first c columns."""
        z, y = check_fit(logits, labels, "ReadoutScaling", unknown_column=True)
        fit = fit_readout(z, y)
        point, before = fit.point, fit.nll_before
        if fit.warning:
            warnings.warn(f"ReadoutScaling: {fit.warning}; T = {1 / point.b:.4g}", stacklevel=2)
        temperature, bias = (torch.tensor(value, dtype=torch.float64) for value in (1 / point.b, point.bias))
        self._remember(z.device, temperature=temperature, bias=bias)
        self.report = FitReport(len(z), fit.num_steps, point.gradient_norm, before, min(before, point.value))
        self.columns = z.shape[1]
        return self

    def forward(self, logits: Tensor) -> Tensor:
        """Logits / T with the bias added to the last column, of any leading shape."""
        z = working(check_logits(logits, "ReadoutScaling", self.columns))
        z = z / self.temperature.to(z.dtype)
        return torch.cat([z[..., :-1], z[..., -1:] + self.bias.to(z.dtype)], dim=-1).to(logits.dtype)

    def probs(self, logits: Tensor) -> Tensor:
        """Probabilities of the c known classes, the unknown column's spread evenly among them."""
        s = self(logits).softmax(dim=-1)
        return s[..., :-1] + s[..., -1:] / (s.shape[-1] - 1)

    def fold(self, linear: nn.Linear) -> nn.Linear:
        """A new linear layer whose outputs are already scaled: weight / T, bias / T, and the bias on the last row."""
        if self.columns == 0:
            return folded(linear, 0, "ReadoutScaling", torch.ones(()), None)
        shift = torch.zeros(self.columns, dtype=torch.float64, device=self.bias.device)
        shift[-1] = self.bias
        return folded(linear, self.columns, "ReadoutScaling", 1 / self.temperature.double(), shift)
