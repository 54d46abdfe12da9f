"""DCN-v2 on one fused table, and the way from a packed record to its input.

Shapes: B rows, C categories, M numbers, F = C + M fields with an embedding each, D width of an embedding.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn

from assets.training.fit import BINS, Fit
from assets.training.worker.table import WIDTH

HIDDEN = (128, 64)
CROSS_LAYERS = 2
_LARGEST_Z = 10.0  # one wild value must not dominate a step; its bin is known anyway


class Encoder:
    """Records to table rows and normalised numbers, as a window's fit says."""

    def __init__(self, fit: Fit, *, device: torch.device) -> None:
        self._fit = fit
        self._num_categories, self._num_fields = len(fit.categories), len(fit.categories) + len(fit.numbers)

        def integers(values: list[int]) -> torch.Tensor:
            return torch.tensor(values, dtype=torch.int64, device=device)

        self._field = integers([field << 32 for field in range(len(fit.categories))])
        self._known = integers([(field << 32) | code for field, codes in enumerate(fit.known) for code in codes])
        ends = torch.tensor(fit.hashed_rows, dtype=torch.int64).cumsum(0) + fit.num_known
        starts = [int(end) - rows if rows else fit.unseen_row for end, rows in zip(ends, fit.hashed_rows, strict=True)]
        self._hashed_start = integers(starts)
        self._hashed_rows = integers([max(rows, 1) for rows in fit.hashed_rows])
        self._bin_start = integers([fit.first_bin_row + 1 + number * (BINS + 1) for number in range(len(fit.numbers))])
        edges = [[float("inf") if edge is None else edge for edge in row] for row in fit.edges]
        self._edges = torch.tensor(edges, dtype=torch.float32, device=device).reshape(len(fit.numbers), BINS - 1)
        self._mean = torch.tensor(fit.means, dtype=torch.float32, device=device)
        self._scale = torch.tensor(fit.inverse_deviations, dtype=torch.float32, device=device)

    def __call__(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """int64[B, F] table rows and float32[B, M] normalised numbers (missing: 0) of int32[B, words] records."""
        numbers_BM = words[:, self._num_categories : self._num_fields].contiguous().view(torch.float32)
        ids_BF = torch.cat([self.category_rows(words), self.bin_rows(numbers_BM)], dim=1)
        z_BM = ((numbers_BM - self._mean) * self._scale).nan_to_num_(0.0).clamp_(-_LARGEST_Z, _LARGEST_Z)
        return ids_BF, z_BM

    def category_rows(self, words: torch.Tensor) -> torch.Tensor:
        """A known code has a row of its own; another falls into its field's hashed range, or is unseen without one."""
        codes_BC = (
            words[:, : self._num_categories].to(torch.int64) & 0xFFFFFFFF
        )  # never through a float: ids would merge
        keys_BC = codes_BC | self._field
        place_BC = torch.searchsorted(self._known, keys_BC).clamp_(max=len(self._known) - 1)
        hashed_BC = self._hashed_start + codes_BC % self._hashed_rows
        return torch.where(self._known[place_BC] == keys_BC, place_BC, hashed_BC)

    def bin_rows(self, numbers_BM: torch.Tensor) -> torch.Tensor:
        bins_MB = torch.searchsorted(self._edges, numbers_BM.T.contiguous(), right=True)
        return torch.where(numbers_BM.isnan(), -1, bins_MB.T) + self._bin_start


class Dcn(nn.Module):
    """DCN-v2 (Wang et al. 2021), cross and deep parts side by side."""

    def __init__(self, fit: Fit) -> None:
        super().__init__()
        width = (len(fit.categories) + len(fit.numbers)) * WIDTH + len(fit.numbers)
        self.cross = nn.ModuleList(nn.Linear(width, width) for _ in range(CROSS_LAYERS))
        sizes = (width, *HIDDEN)
        layers = [[nn.Linear(a, b), nn.ReLU()] for a, b in pairwise(sizes)]
        self.deep = nn.Sequential(*[module for layer in layers for module in layer])
        self.out = nn.Linear(width + HIDDEN[-1], 1)

    def forward(self, embedded_BFD: torch.Tensor, z_BM: torch.Tensor) -> torch.Tensor:
        """Logits, float32[B]."""
        x0 = torch.cat([embedded_BFD.flatten(1), z_BM], dim=1)
        x = x0
        for layer in self.cross:
            x = torch.addcmul(x, x0, layer(x))
        return self.out(torch.cat([x, self.deep(x0)], dim=1)).squeeze(1).float()


class Dense:
    """The dense part and its Adam, with all parameters in one flat tensor and all gradients in another.

    So a step takes one all-reduce, whose last element carries the loss, and one optimizer call.
    """

    RATE = 2e-3

    def __init__(self, fit: Fit, *, seed: int, device: torch.device) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.module = Dcn(fit)
        self.module.to(device)
        parameters = list(self.module.parameters())
        self.flat = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in parameters]))
        self.gradients_and_loss = torch.zeros(self.flat.numel() + 1, device=device)
        self.flat.grad = self.gradients_and_loss[:-1]
        start = 0
        for parameter in parameters:
            end = start + parameter.numel()
            parameter.grad = self.flat.grad[start:end].view_as(parameter)
            parameter.data = self.flat.data[start:end].view_as(parameter)
            start = end
        self.optimizer = torch.optim.Adam([self.flat], lr=self.RATE, fused=True)

    def update(self, *, rate: float) -> None:
        """The parameters after one step of Adam along the gradients."""
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.step()
