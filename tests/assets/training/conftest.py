from __future__ import annotations

from pathlib import Path

import pytest
import torch
from trainable import YAML

from resources.contract.dataset import Dataset, parse_dataset
from resources.lake import Lake


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """As in a launched rank: bits depend on the number of threads."""
    torch.set_num_threads(1)


@pytest.fixture
def shop() -> Dataset:
    return parse_dataset(YAML, file="shop.yaml")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")
