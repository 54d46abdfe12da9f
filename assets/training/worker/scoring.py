"""A trained model that gives probabilities for packed records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from assets.training.fit import Fit
from assets.training.worker.model import Dcn, Encoder
from assets.training.worker.table import WIDTH
from resources.contract.errors import CorruptError

_CHUNK_ROWS = 8192


class Scorer:
    """The model of a `model.pt`. Ids that no training row had are looked up as zeros."""

    def __init__(self, model: dict[str, Any]) -> None:
        self.fit = Fit.from_json(model["fit"])
        self._encoder = Encoder(self.fit, device=torch.device("cpu"))
        self._table = model["table"]
        self._dense = Dcn(self.fit)
        self._dense.load_state_dict(model["dense"])
        self._dense.eval()

    @classmethod
    def load(cls, path: Path) -> Scorer:
        """Raises CorruptError where the file is no model of this format."""
        model = torch.load(path, map_location="cpu", weights_only=True)
        if model.get("format") != 1:
            raise CorruptError(f"{path} is no model of format 1: train that day again.")
        return cls(model)

    @torch.inference_mode()
    def score(self, records: np.ndarray) -> np.ndarray:
        """float32[rows] probabilities of uint32[rows, words] records; the same bits for the same call."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # bits depend on it; and on a busy machine several are slower than one
        try:
            starts = range(0, len(records), _CHUNK_ROWS)
            parts = [self._chunk(records[start : start + _CHUNK_ROWS]) for start in starts]
        finally:
            torch.set_num_threads(threads)
        return np.concatenate([*parts, np.empty(0, np.float32)])

    def _chunk(self, records: np.ndarray) -> np.ndarray:
        words = torch.from_numpy(np.array(records, order="C").view(np.int32))
        ids_BF, z_BM = self._encoder(words)
        embedded_BFD = self._table.index_select(0, ids_BF.reshape(-1)).view(*ids_BF.shape, WIDTH)
        return self._dense(embedded_BFD, z_BM).sigmoid().numpy()
