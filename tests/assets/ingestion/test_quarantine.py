"""What lies in quarantine is counted by day, reason and column, with some rows as they lie there."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from assets.ingestion.quarantine import quarantined
from assets.ingestion.sifting import shown
from sensors.tables import sample_lines

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

D2, D3 = date(2025, 3, 2), date(2025, 3, 3)
HEAD = "event_id,user_id,item_id,event_time,event_type,price\n"


def test_counts_and_samples_are_those_of_the_files(room: Room) -> None:
    dataset = room.dataset()
    for day, dear in ((D2, 2), (D3, 5)):
        bad = "".join(f"{n},u,i,{day}T10:00:00Z,view,dear\n" for n in range(dear))
        room.land(f"{day}.csv", f"{HEAD}1,u,i,{day}T10:00:00Z,view,1\n{bad}ragged\n9,u,i,never,view,1\n")
    manifests = [room.build(dataset, day).manifest for day in (D2, D3)]
    found = quarantined(room.lake, manifests, samples=3)
    assert [(f.day, f.reason, f.column, f.rows, len(f.samples)) for f in found] == [
        (D2, "not_a_decimal", "price", 2, 2),
        (D2, "ragged", None, 1, 1),
        (D2, "unreadable_time", "event_time", 1, 1),
        (D3, "not_a_decimal", "price", 5, 3),
        (D3, "ragged", None, 1, 1),
        (D3, "unreadable_time", "event_time", 1, 1),
    ]
    assert [sample["line"] for sample in found[3].samples] == [3, 4, 5]
    assert sum(faults.rows for faults in found) == sum(manifest.counts["quarantined"] for manifest in manifests)
    only = quarantined(room.lake, manifests[1:], reason="ragged")
    assert [(f.day, f.reason, f.rows) for f in only] == [(D3, "ragged", 1)]
    assert only[0].as_json()["day"] == "2025-03-03"


def test_what_is_personal_is_shown_as_a_hash_and_nothing_of_a_line_leaves_its_line(room: Room) -> None:
    dataset = room.dataset("{user_id: {as: user, type: id, personal: true}, n: {type: integer, personal: true}}")
    room.land(f"{D3}.csv", f"user_id,event_time,n,mail\nalice,{D3}T10:00:00Z,secret,a@b\nbob,ragged\n")
    manifest = room.build(dataset, D3).manifest
    lines = sample_lines(quarantined(room.lake, [manifest]), width=300)
    text = "\n".join(lines)
    assert not any(word in text for word in ("alice", "secret", "a@b", "bob"))
    assert str(shown("secret", personal=True)) in text
    plain = room.dataset("{user_id: {as: user, type: id}, n: {type: integer}}")
    room.land(f"{D3}.csv", f'user_id,event_time,n\n"a\n\x1b[2J{"x" * 200}",{D3}T10:00:00Z,y\n')
    lines = sample_lines(quarantined(room.lake, [room.build(plain, D3).manifest]), width=80)
    assert all(len(line) <= 80 and line.isprintable() for line in lines)
