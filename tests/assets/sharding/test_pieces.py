from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.sharding.pieces import read_table, write_table
from resources.contract.digest import table_digest
from resources.contract.errors import CorruptError
from resources.contract.manifest import Manifest, Plan
from resources.lake import Lake, Outcome

TABLE = pa.table({"n": np.random.default_rng(0).integers(0, 1000, 300), "text": [f"text {i % 7}" for i in range(300)]})


def published(lake: Lake, *, often_opened: bool = False) -> Manifest:
    def write(folder: Path) -> Outcome:
        piece = write_table(folder, "a/b.parquet", TABLE, content=table_digest(TABLE), often_opened=often_opened)
        return Outcome(pieces=(piece,), rows_in=300, rows_out=300)

    plan = Plan(asset="shards", day=date(2026, 1, 1), contract_digest="c", logic_version=1)
    return lake.materialize(plan, write, dataset="shop").manifest


@pytest.mark.parametrize("often_opened", [False, True])
def test_a_table_comes_back_as_it_was_whole_or_by_column(lake: Lake, often_opened: bool) -> None:
    manifest = published(lake, often_opened=often_opened)
    assert read_table(lake, manifest, manifest.files[0]).equals(TABLE)
    assert read_table(lake, manifest, manifest.files[0], columns=["text"]).equals(TABLE.select(["text"]))


@pytest.mark.parametrize("often_opened", [False, True])
def test_no_flipped_bit_gives_other_engines_other_values(lake: Lake, often_opened: bool) -> None:
    manifest = published(lake, often_opened=often_opened)
    path = lake.path(manifest, manifest.files[0])
    sound = path.read_bytes()
    group = pq.read_metadata(path).row_group(0)
    pages_end = 4 + sum(group.column(i).total_compressed_size for i in range(2))  # then comes the footer
    for place in range(4, pages_end, 5):
        damaged = bytearray(sound)
        damaged[place] ^= 1 << place % 8
        try:
            found = pq.read_table(pa.BufferReader(bytes(damaged)), page_checksum_verification=True)
        except (OSError, pa.ArrowException):
            continue
        assert found.equals(TABLE), f"byte {place} was flipped without a word"


def test_a_file_is_checked_at_every_reading_also_where_its_rows_are_kept_in_memory(lake: Lake) -> None:
    manifest = published(lake)
    assert read_table(lake, manifest, manifest.files[0]).equals(TABLE)
    path = lake.path(manifest, manifest.files[0])
    damaged = bytearray(path.read_bytes())
    damaged[100] ^= 1
    path.write_bytes(damaged)
    for _ in range(2):
        with pytest.raises(CorruptError, match="does not have the checksum of its manifest"):
            read_table(lake, manifest, manifest.files[0])
