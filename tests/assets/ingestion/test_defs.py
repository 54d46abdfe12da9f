"""What the page of a delivery's day says of its files."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import dagster as dg

from assets.ingestion.defs import shown_of

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

D2, D3 = date(2025, 3, 2), date(2025, 3, 3)
HEAD = "event_id,user_id,item_id,event_time,event_type,price"


def test_a_days_page_names_the_files_that_were_left_out_and_what_changed_about_their_columns(room: Room) -> None:
    dataset = room.dataset()
    room.land(f"{D2}.csv", f"{HEAD}\n1,u,i,{D2}T10:00:00Z,view,1\n")
    [(key, told)] = shown_of(room.build(dataset, D2).manifest).items()
    assert key == "unverifiable" and told.startswith("1 file has no checksum")
    room.land(f"{D3}_a.csv", f"{HEAD},channel\n1,u,i,{D3}T10:00:00Z,view,1,app\n")
    room.land(f"{D3}_b.csv", b"\xff")
    shown = shown_of(room.build(dataset, D3).manifest)
    assert list(shown) == ["unverifiable", "left_out", "drift"]
    assert f"- {D3}_b.csv: byte 0" in shown["left_out"].value
    assert isinstance(shown["drift"], dg.TableMetadataValue)
    [record] = shown["drift"].records
    assert (record.data["event"], record.data["column"], record.data["files"]) == ("added", "channel", 1)
