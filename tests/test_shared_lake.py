"""Two datasets on one lake: what happens to one cannot be seen in the other."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

from toyshop import FIRST, ToyShop, moment

from resources.contract.manifest import DATA_ASSETS
from resources.lake import Lake, sha256_of

NOW = moment("20T00:00")
DAYS = [FIRST, FIRST + timedelta(days=1)]


def landed(shop: ToyShop, *, user: str) -> ToyShop:
    for day in DAYS:
        shop.land(str(day), [f"{day:%d}T10:00,{user}{n},buy" for n in range(5)], at=NOW)
    return shop


def everything(shop: ToyShop) -> dict[str, tuple[str, int]]:
    """Checksum and time of modification of every file of a dataset, pointers included."""
    files = sorted(path for path in (shop.lake.root / shop.name).rglob("*") if path.is_file())
    return {str(path.relative_to(shop.lake.root)): (sha256_of(path), path.stat().st_mtime_ns) for path in files}


def digests(shop: ToyShop) -> dict[tuple[str, date], tuple[str, str, int]]:
    ledger = shop.lake.ledger(shop.name)
    found = [m for asset in DATA_ASSETS for day in ledger.days(asset) if (m := ledger.get(asset, day))]
    return {(m.asset, m.day): (m.input_digest, m.content_digest, m.generation) for m in found}


def test_building_rebuilding_and_sweeping_a_dataset_leaves_every_byte_of_another(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    first = landed(ToyShop(lake, tmp_path / "first", "first"), user="a")
    second = landed(ToyShop(lake, tmp_path / "second", "first_2"), user="b")  # a name that begins like the other's
    first.build(DAYS, now=NOW)
    files, known = everything(first), digests(first)
    assert len(known) == len(DATA_ASSETS) * len(DAYS) and files

    second.build(DAYS, now=NOW)
    second.land(str(DAYS[0]), [f"{FIRST:%d}T11:00,c,buy"], at=moment("20T00:01"))
    second.build(DAYS, now=NOW)
    assert lake.sweep(second.name, older_than_s=-60) > 0
    assert {generation for _, _, generation in digests(second).values()} == {1, 2}

    assert everything(first) == files
    assert digests(first) == known
    assert all(path.startswith(("first/", "first_2/")) for path in everything(first) | everything(second))
    first.build(DAYS, now=NOW)
    assert everything(first) == files, "nothing of it became stale"


def test_the_same_files_in_two_datasets_give_the_same_content_in_two_places(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    shops = [landed(ToyShop(lake, tmp_path / "landing", name), user="a") for name in ("one", "two")]
    for shop in shops:
        shop.build(DAYS, now=NOW)
    one, two = ({key: content for key, (_, content, _) in digests(shop).items()} for shop in shops)
    assert one == two
    assert not {p.removeprefix("one/") for p in everything(shops[0])} & set(everything(shops[1]))
