"""The tables of the terminal say of a day what has become of it."""

from __future__ import annotations

from typing import Any

import pytest

from sensors.tables import day_table

COUNTS = dict.fromkeys(("delivered", "quarantined", "good", "duplicates", "late", "users", "without_user"), 0)
BUILT = dict.fromkeys(("shards", "features", "labels", "model"), "built")


@pytest.mark.parametrize(
    ("row", "standing"),
    [
        ({}, "trained"),
        ({"labels": "immature"}, "immature"),
        ({"verdict": "keep"}, "keep"),
        ({"verdict": "keep", "stale": "shards: deliveries 2026-01-01 changed"}, "keep"),
        # what was built before is still there, and is not what was delivered
        ({"verdict": "keep", "stale": "deliveries: refused, files_read: 1 of 1 files could not be read"}, "refused"),
        ({"labels": "immature", "stale": "deliveries: refused, bad_row_share: 9 of 9"}, "refused"),
    ],
)
def test_a_day_stands_where_its_newest_delivery_left_it(row: dict[str, Any], standing: str) -> None:
    table = day_table([{"day": "2026-01-01", "verdict": None, "stale": None, **COUNTS, **BUILT, **row}])
    assert list(table.columns[-1].cells) == [standing]
