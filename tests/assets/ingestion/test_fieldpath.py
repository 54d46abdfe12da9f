"""Names of nested values, and plain names that only look like it."""

from __future__ import annotations

import pytest

from assets.ingestion.fieldpath import parse_path


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a.b[0].c", ("a", "b", 0, "c")),
        ("a[0][12]", ("a", 0, 12)),
        ("user id.naïve-é", ("user id", "naïve-é")),
        ("a.0", ("a", "0")),
        *(
            (plain, None)
            for plain in ("a", "", "a b", "a..b", ".a", "a.", "[0]", "a[01]", "a[-1]", "a[]", "a[0]b", "a.[0]")
        ),
    ],
)
def test_a_path_is_its_steps_and_everything_else_a_plain_name(name: str, path: tuple[str | int, ...] | None) -> None:
    assert parse_path(name) == path
