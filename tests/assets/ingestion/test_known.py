"""What a day holds at last is told by what has landed under each name, not by the order in which it was seen."""

from __future__ import annotations

import random
from datetime import date
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resources.contract.errors import DataError
from resources.lake import Lake

if TYPE_CHECKING:
    from resources.contract.manifest import Manifest
    from tests.assets.ingestion.conftest import Room

D2, D3 = date(2025, 3, 2), date(2025, 3, 3)
HEAD = "event_id,user_id,item_id,event_time,event_type,price\n"


def row(number: int, day: date = D3, price: str = "1") -> str:
    return f"{number},u,i,{day}T10:00:00Z,view,{price}\n"


CONTENTS = [
    HEAD + row(1) + row(2, D2) + row(3, price="x"),
    HEAD + row(1) + row(4),
    HEAD + row(5, price="x"),
    HEAD,
    "event_id\n6\n",  # lacks columns: refused
]
GONE = None
NAMES = ("a", "b", "c", "d")
Life = list[int | None]  # what lies under a name, one after the other
lives = st.dictionaries(
    st.sampled_from(NAMES),
    st.lists(st.one_of(st.integers(0, len(CONTENTS) - 1), st.just(GONE)), min_size=1, max_size=3),
    min_size=1,
)


def played(room: Room, told: dict[str, Life], *, seed: int, on_delete: str, every: bool = True) -> Manifest:
    """The day after these lives, in some order, each step of which was seen (or only the last)."""
    dataset = room.dataset(source=f"format: csv, on_delete: {on_delete}")
    for path in room.landing.iterdir():
        path.unlink()
    room.lake = Lake(room.root / f"lake-{len(list(room.root.iterdir()))}")
    chance, waiting = random.Random(seed), {name: list(life) for name, life in told.items()}
    while waiting:
        name = chance.choice(sorted(waiting))
        content = waiting[name].pop(0)
        if not waiting[name]:
            del waiting[name]
        path = room.landing / f"2025-03-03_{name}.csv"
        if content is None:
            path.unlink(missing_ok=True)
        else:
            room.land(path.name, CONTENTS[content])
        if every:
            room.build(dataset, D3)
    return room.build(dataset, D3).manifest


def told_by(manifest: Manifest) -> object:
    return manifest.content_digest, manifest.rows_out, manifest.quarantined


@settings(max_examples=15)
@given(told=lives, seeds=st.tuples(st.integers(0, 99), st.integers(0, 99)))
def test_lives_that_are_seen_in_any_order_end_in_the_same_content(
    room: Room, told: dict[str, Life], seeds: tuple[int, int]
) -> None:
    first, second = (played(room, told, seed=seed, on_delete="keep") for seed in seeds)
    assert told_by(first) == told_by(second)


@settings(max_examples=15)
@given(told=lives, seed=st.integers(0, 99))
def test_where_rows_are_retracted_only_what_is_there_at_last_counts(
    room: Room, told: dict[str, Life], seed: int
) -> None:
    at_last = {name: life[-1:] for name, life in told.items() if life[-1] is not GONE}
    seen = played(room, told, seed=seed, on_delete="retract")
    assert told_by(seen) == told_by(played(room, at_last, seed=0, on_delete="retract", every=False))


def test_a_second_name_keeps_its_content_when_it_is_gone_and_the_first_one_changes(room: Room) -> None:
    dataset = room.dataset()
    room.land("2025-03-03_a.csv", CONTENTS[0])
    path = room.land("2025-03-03_b.csv", CONTENTS[0])
    room.build(dataset, D3)
    path.unlink()
    assert room.build(dataset, D3).manifest.rows_out == 2
    room.land("2025-03-03_a.csv", CONTENTS[1])
    manifest = room.build(dataset, D3).manifest
    assert (manifest.rows_out, manifest.quarantined) == (4, {"not_a_decimal": 1})
    assert [line["file"] for line in room.quarantine(manifest)] == ["2025-03-03_b.csv"]


def test_a_file_that_disappears_takes_its_rows_along_where_that_is_declared(room: Room) -> None:
    dataset = room.dataset(source="format: csv, on_delete: retract")
    path = room.land("2025-03-03_a.csv", HEAD + row(1))
    room.land("2025-03-03_b.csv", HEAD + row(2))
    before = room.build(dataset, D3).manifest
    path.unlink()
    after = room.build(dataset, D3)
    assert after.built and after.manifest.rows_out == 1 and list(after.manifest.facts["landed"]) == ["2025-03-03_b.csv"]
    room.land("2025-03-03_a.csv", HEAD + row(1))
    assert room.build(dataset, D3).manifest.content_digest == before.content_digest


def test_while_the_whole_folder_is_away_nothing_is_retracted(room: Room) -> None:
    dataset = room.dataset(source="format: csv, on_delete: retract")
    room.land("2025-03-03_a.csv", HEAD + row(1))
    before = room.build(dataset, D3).manifest
    room.landing.rename(room.root / "elsewhere")
    away = room.build(dataset, D3)
    assert not away.built and away.manifest.rows_out == before.rows_out


def test_the_same_bytes_under_another_ending_are_another_content(room: Room) -> None:
    dataset, text = room.dataset(), (HEAD + row(1)).encode()
    room.land("2025-03-03_a.csv.gz", text)  # plain, whatever its name says
    assert room.build(dataset, D3).manifest.blocked_by is not None
    room.land("2025-03-03_b.csv", text)
    manifest = room.build(dataset, D3).manifest
    assert manifest.rows_out == 1 and manifest.blocked_by is None


@pytest.mark.parametrize(
    ("mended", "refused"),
    [
        ({"bad": 0.5}, False),
        ({"days": "zone: UTC, first: 2025-03-01, last: 2025-03-10"}, False),
        ({"source": "format: csv, bad_files: stop"}, False),
        ({"columns": "{event_id: {type: integer}, user_id: {as: user, type: id}}"}, True),
        ({"days": "zone: Asia/Tokyo, first: 2025-03-01"}, True),
    ],
)
def test_a_file_that_is_gone_is_in_the_way_only_of_contracts_that_could_read_it_differently(
    room: Room, mended: dict, refused: bool
) -> None:
    path = room.land("2025-03-03_a.csv", HEAD + row(1))
    room.land("2025-03-03_b.csv", HEAD + row(2))
    room.build(room.dataset(), D3)
    path.unlink()
    if refused:
        with pytest.raises(
            DataError, match=r"2025-03-03_a\.csv is gone, and its 1 rows were read by an earlier contract"
        ):
            room.build(room.dataset(**mended), D3)
    else:
        again = room.build(room.dataset(**mended), D3)
        assert again.built and again.manifest.rows_out == 2


def test_a_mended_contract_reads_exactly_the_files_that_it_concerns(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assets.ingestion import blocks

    dear = "{event_id: {type: id}, user_id: {as: user, type: id}, price: {type: decimal, at_most: 10}}"
    room.land("2025-03-03_a.csv", HEAD + row(1))
    room.land("2025-03-03_b.csv", HEAD + row(2, price="11") + row(3))
    room.land("2025-03-03_c.csv", HEAD + row(4, price="x"))
    assert room.build(room.dataset(dear), D3).manifest.rows_out == 2
    names, real = [], blocks.joined
    monkeypatch.setattr(blocks, "joined", lambda d, files: real(d, [f for f in files if not names.append(f.name)]))
    mended = room.build(room.dataset(dear.replace("10", "20")), D3).manifest
    assert names == ["2025-03-03_b.csv"]
    assert (mended.rows_out, mended.quarantined) == (3, {"not_a_decimal": 1})
    names.clear()
    assert room.build(room.dataset(dear.replace("10", "20"), bad=0.4), D3).built and names == []
