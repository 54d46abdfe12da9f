"""Small files that are read as one text end as if each had been read alone."""

from __future__ import annotations

import gzip
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from assets.ingestion import blocks
from assets.ingestion.blocks import Block, Ended
from assets.ingestion.files import landed_files
from resources.lake import Lake

if TYPE_CHECKING:
    from resources.contract.manifest import Manifest
    from tests.assets.ingestion.conftest import Room

D3 = date(2025, 3, 3)
HEAD = "event_id,user_id,item_id,event_time,event_type,price"
GOOD, PRICELESS = "1,u,i,2025-03-03T10:00:00Z,view,1", "2,u,i,2025-03-03T10:00:00Z,view,cheap"
LINES = [
    GOOD,
    PRICELESS,
    "3,ragged",
    "",
    "# a remark",
    '4,"u",i,2025-03-03T10:00:00Z,view,1',
    '5,"u',  # opens a quote that another line, or another file, may close
    'v",i,2025-03-03T10:00:00Z,view,1',
    '6,u"x,"i,2025-03-03T10:00:00Z,view,1',
    "7,u,i,2025-03-03T10:00:00Z,view\\",
    '8,"u" x,i,2025-03-03T10:00:00Z,view,1',
    '"',
]
lines = st.lists(st.sampled_from(LINES), max_size=6)
texts = st.tuples(
    st.sampled_from([HEAD, HEAD, HEAD, f"{HEAD},more", HEAD.replace("user_id", '"user_id"'), "event_id"]),
    lines,
    st.sampled_from(["\n", "\n", "\n", "\r\n", "\r"]),
    st.booleans(),
)


def told(manifest: Manifest) -> object:
    facts = {
        name: {key: fact.get(key) for key in ("rows", "days", "quarantined", "faults", "refused")}
        for name, fact in manifest.facts["landed"].items()
    }
    return manifest.content_digest, manifest.counts, facts


@settings(max_examples=60)
@given(
    files=st.lists(texts, min_size=2, max_size=5),
    csv=st.sampled_from(["{}", "{comment: '#'}", "{escape: '\\'}", "{quote: null}"]),
)
@example(files=[(HEAD, ['5,"u'], "\n", True), (HEAD, ['v",i,2025-03-03T10:00:00Z,view,1'], "\n", True)], csv="{}")
@example(files=[(HEAD, [GOOD, "3,ragged"], "\r", True), (HEAD, [GOOD, "", PRICELESS], "\n", True)], csv="{}")
@example(
    files=[(HEAD, ["7,u,i,2025-03-03T10:00:00Z,view\\"], "\n", False), (HEAD, [GOOD], "\n", True)],
    csv="{escape: '\\'}",
)
@example(
    files=[(HEAD, [GOOD], "\n", True), (HEAD, ["7,u,i,2025-03-03T10:00:00Z,view\\"], "\n", False)],
    csv="{escape: '\\'}",
)
def test_files_that_are_joined_come_out_as_if_they_were_read_alone(
    room: Room, files: list[tuple[str, list[str], str, bool]], csv: str
) -> None:
    dataset = room.dataset(source=f"format: csv, csv: {csv}")
    for path in room.landing.iterdir():
        path.unlink()
    for number, (head, rows, ending, ends) in enumerate(files):
        text = ending.join([head, *rows]) + (ending if ends else "")
        room.land(f"2025-03-03_{number}.csv", text)
    found = []
    with pytest.MonkeyPatch.context() as patched:
        for _ in range(2):
            room.lake = Lake(room.root / f"lake-{len(list(room.root.iterdir()))}")
            found.append(told(room.build(dataset, D3).manifest))
            patched.setattr(blocks, "joinable", lambda _: None)
    assert found[0] == found[1]


def blocks_of(room: Room, *, columns: str, source: str) -> list[Block | Ended]:
    dataset = room.dataset(columns, source=source)
    return list(blocks.blocks(dataset, [file for _, file in landed_files(dataset, now=room.now).files]))


@pytest.mark.parametrize(
    ("name", "source", "text"),
    [
        ("csv", "format: csv", f"{HEAD}\n{GOOD}\n"),
        ("csv.gz", "format: csv", f"{HEAD}\n{GOOD}\n"),
        ("csv", "format: csv, encoding: utf-16", f"{HEAD}\n{GOOD}\n"),
        ("jsonl", "format: jsonl", '{"event_id": 1, "event_time": "2025-03-03T10:00:00Z"}\n'),
    ],
)
def test_many_small_files_are_one_block(room: Room, name: str, source: str, text: str) -> None:
    encoded = text.encode("utf-16" if "utf-16" in source else "utf-8")
    for number in range(50):
        room.land(f"2025-03-03_{number:02}.{name}", gzip.compress(encoded) if name.endswith("gz") else encoded)
    columns = "{event_id: {type: id, as: user}}"
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    found = blocks_of(room, columns=columns, source=source)
    assert [type(item) for item in found] == [Block, *[Ended] * 50]
    assert all(isinstance(end, Ended) and end.rows == 1 and end.refused is None for end in found[1:])
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before


def test_a_file_that_cannot_be_read_does_not_take_its_neighbours_along(room: Room) -> None:
    for number in range(5):
        room.land(f"2025-03-03_{number}.csv", f"{HEAD}\n{GOOD}\n".encode() + (b"\xff\n" if number == 2 else b""))
    manifest = room.build(room.dataset(), D3).manifest
    assert manifest.counts["refused_files"] == 1 and "refused" in manifest.facts["landed"]["2025-03-03_2.csv"]
