"""One flipped bit, anywhere in a file that carries a checksum: the right totals, or a refusal that names the file."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from resources.contract.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.assets.ingestion.conftest import Room

MARCH = date(2025, 3, 1)
FLIPS = 200
ROWS = [
    {
        "event_id": str(i),
        "user_id": str(1000 + i % 37),
        "item_id": f"item-{i * 7 % 101}",
        "event_time": f"2025-03-01T{i // 3600:02}:{i // 60 % 60:02}:{i % 60:02}Z",
        "event_type": ("view", "cart", "purchase")[i % 3],
        "price": f"{i % 97}.{i % 100:02}",
    }
    for i in range(400)
]


def as_csv() -> bytes:
    lines = [",".join(ROWS[0]), *(",".join(row.values()) for row in ROWS)]
    return ("\n".join(lines) + "\n").encode()


def as_jsonl() -> bytes:
    return "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def as_parquet() -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), stream, row_group_size=150, write_page_checksum=True)
    return stream.getvalue()


def as_zstd() -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(as_csv())


CARRIERS: dict[str, tuple[str, str, Callable[[], bytes]]] = {
    "gzip": ("csv", "2025-03-01.csv.gz", lambda: gzip.compress(as_csv())),
    "zstd": ("csv", "2025-03-01.csv.zst", as_zstd),
    "parquet": ("parquet", "2025-03-01.parquet", as_parquet),
    "gzipped json": ("jsonl", "2025-03-01.jsonl.gz", lambda: gzip.compress(as_jsonl())),
    "sidecar": ("csv", "2025-03-01.csv", as_csv),
}


def totals(room: Room, source: str, name: str, content: bytes) -> object:
    """What the day holds after this file has landed, or that it was refused by its name."""
    dataset = room.dataset(source=f"format: {source}")
    room.land(name, content)
    try:
        manifest = room.build(dataset).manifest
    except DataError as error:
        assert name in str(error), error
        return "refused"
    fact = manifest.facts["landed"][name]
    if "refused" in fact:
        assert name in fact["refused"] and not fact["rows"]
        return "refused"
    return manifest.counts["good"], manifest.counts["quarantined"], manifest.content_digest


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_flipped_bit_never_gives_other_totals(carrier: str, tmp_path: Path) -> None:
    from tests.assets.ingestion.conftest import Room

    source, name, make = CARRIERS[carrier]
    content, chance = make(), random.Random(carrier)
    sidecar = hashlib.sha256(content).hexdigest() if carrier == "sidecar" else None

    def outcome(attempt: str, landed: bytes) -> object:
        room = Room(tmp_path / attempt)
        if sidecar:
            room.land(f"{name}.sha256", f"{sidecar}  {name}\n")
        return totals(room, source, name, landed)

    right = outcome("right", content)
    assert right != "refused" and right[0] == len(ROWS)  # type: ignore[index]
    found = []
    for attempt in range(FLIPS):
        bit = chance.randrange(8 * len(content))
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        found.append(outcome(str(attempt), bytes(flipped)))
    assert all(outcome in (right, "refused") for outcome in found), [o for o in found if o not in (right, "refused")][
        :3
    ]
    assert found.count("refused") > FLIPS // 2


def test_a_day_of_files_without_a_checksum_says_so(room: Room) -> None:
    dataset = room.dataset()
    manifest = room.delivered(dataset, as_csv())
    assert manifest.facts["unverifiable"] == 1
    assert manifest.facts["landed"]["2025-03-01.csv"].get("verified_by") is None
