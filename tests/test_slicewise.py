"""The command line on a small shop: from landed files to a verdict, and what it says on the way."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq
import pytest
from mini import Mini

from resources.contract.manifest import ASSETS, DATA_ASSETS
from resources.demo.generate import planted

SCALE = 0.03


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Mini:
    """Five small days, run to a verdict on the last one."""
    mini = Mini.write(tmp_path_factory.mktemp("shop"), days=5, scale=SCALE, window_days=3)
    done = mini.command("run", "shop", "--judge", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"judged day {mini.days[-1]}" in done.stdout
    assert "candidate" in done.stdout
    return mini


def test_a_second_run_does_nothing_and_says_so(shop: Mini) -> None:
    before = {(m.asset, m.day): m.generation for a in ASSETS for d in shop.days if (m := shop.ledger().get(a, d))}
    done = shop.command("run", "shop", "--judge", "1")
    assert done.returncode == 0
    assert "nothing to do" in done.stdout
    after = {(m.asset, m.day): m.generation for a in ASSETS for d in shop.days if (m := shop.ledger().get(a, d))}
    assert after == before


def test_status_counts_what_the_generator_planted(shop: Mini) -> None:
    found = json.loads(shop.command("status", "shop", "--json").stdout)
    assert set(found) == {"dataset", "champion", "left_out", "waiting", "days"}
    expected = planted(days=shop.days, scale=SCALE)
    for row in found["days"]:
        wanted = expected[next(day for day in shop.days if day.isoformat() == row["day"])]
        assert row["delivered"] == wanted.delivered
        assert row["quarantined"] == sum(wanted.faults.values())
        counted = {name: row[name] for name in ("good", "duplicates", "late", "users", "without_user")}
        assert counted == {name: getattr(wanted, name) for name in counted}
        assert {row[asset] for asset in ("shards", "features", "labels")} == {"built"}
        assert row["stale"] is None
    last = found["days"][-1]
    assert (last["model"], last["verdict"] in ("promote", "keep", "undecided")) == ("built", True)
    if last["verdict"] == "promote":
        assert found["champion"]["day"] == last["day"] == found["champion"]["since"]


def test_every_days_page_has_its_own_counts_and_columns(shop: Mini) -> None:
    ledger = shop.ledger()
    with dg.DagsterInstance.from_config(str(shop.home / "dagster")) as instance:
        for asset in DATA_ASSETS:
            records = instance.fetch_materializations(dg.AssetKey(["shop", asset]), limit=20).records
            shown = {r.partition_key: r.asset_materialization.metadata for r in records if r.asset_materialization}
            assert set(shown) == set(shop.day_names)
            for day in shop.days:
                manifest, metadata = ledger.get(asset, day), shown[day.isoformat()]
                assert manifest is not None
                assert metadata["dagster/row_count"].value == manifest.rows_out
                assert metadata["content_digest"].value == manifest.content_digest
                assert isinstance(metadata["dagster/column_schema"], dg.TableSchemaMetadataValue)


def test_paths_names_files_that_are_there_and_hold_the_rows(shop: Mini) -> None:
    first, last = shop.day_names[0], shop.day_names[-1]
    printed = shop.command("paths", "shop", "shards", f"{first}..{last}").stdout.split()
    rows = sum(pq.read_metadata(path).num_rows for path in printed)
    ledger = shop.ledger()
    assert rows == sum(m.rows_out for day in shop.days if (m := ledger.get("shards", day)))


def test_quarantine_counts_what_was_planted_and_fits_a_terminal(shop: Mini) -> None:
    expected = planted(days=shop.days, scale=SCALE)
    found = json.loads(shop.command("quarantine", "shop", "--json").stdout)
    counted: dict[str, Counter[str]] = {day.isoformat(): Counter() for day in shop.days}
    for faults in found:
        counted[faults["day"]][faults["reason"]] += faults["rows"]
    assert counted == {day.isoformat(): Counter(wanted.faults) for day, wanted in expected.items()}
    text = shop.command("quarantine", "shop", "--day", found[0]["day"], "--reason", found[0]["reason"]).stdout
    assert found[0]["day"] in text and found[0]["reason"] in text and found[0]["samples"][0]["file"] in text
    assert max(map(len, text.splitlines())) <= 80
    other = next(faults for faults in found if faults["day"] != found[0]["day"])
    assert other["day"] not in text
    assert "Known: ragged" in " ".join(shop.command("quarantine", "shop", "--reason", "x").stderr.split())


def test_run_waits_for_fresh_files_and_names_those_that_it_left_out(tmp_path: Path) -> None:
    shop = Mini.write(tmp_path, days=1, scale=0.01, window_days=1)
    contract = tmp_path / "datasets" / "shop.yaml"
    contract.write_text(contract.read_text().replace("settle_seconds: 0", "settle_seconds: 8"))
    (whole,) = shop.landing.glob("*.csv.gz")
    (shop.landing / f"{shop.days[0]}-again.csv.gz").write_bytes(whole.read_bytes()[:-30])
    done = shop.command("run", "shop", "--judge", "0")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert f"waiting for {shop.days[0]}-again.csv.gz, which was written to less than 8 s ago" in said
    assert f"left out {shop.days[0]}: {shop.days[0]}-again.csv.gz is damaged" in said
    assert "left out" in shop.command("status", "shop").stdout
    [row] = json.loads(shop.command("status", "shop", "--json").stdout)["days"]
    assert (row["features"], row["unverifiable"], row["waiting"]) == ("built", 0, [])
    assert len(row["left_out"]) == 1


def test_check_names_bad_rows_and_passes_while_they_are_few(shop: Mini) -> None:
    done = shop.command("check", "shop")
    assert done.returncode == 0
    assert "not_a_decimal" in done.stdout


def test_check_fails_where_a_day_would_be_refused(shop: Mini, tmp_path: Path) -> None:
    broken = Mini.write(tmp_path, days=1, scale=SCALE, window_days=1)
    (file,) = broken.landing.glob("*.csv.gz")
    file.write_bytes(file.read_bytes()[:-20])
    done = broken.command("check", "shop")
    assert done.returncode == 1
    assert file.name in done.stdout


def test_whoever_mistypes_gets_one_line_and_no_traceback(shop: Mini) -> None:
    for arguments, expected in (
        (("run", "shoop"), "Known: shop"),
        (("run", "shop", "--days", "2026-01-05..2026-01-01"), "must not end before it begins"),
        (("run", "shop", "--days", "yesterday"), "A..B"),
        (("paths", "shop", "shard", "2026-01-01"), "Known: deliveries"),
    ):
        done = shop.command(*arguments)
        assert done.returncode == 2
        assert expected in " ".join(done.stderr.split())
        assert "Traceback" not in done.stderr


def test_a_file_that_changed_is_taken_again_and_only_its_days_are_built(tmp_path: Path) -> None:
    shop = Mini.write(tmp_path, days=4, scale=0.01, window_days=2)
    assert shop.command("run", "shop", "--judge", "0").returncode == 0
    before = shop.ledger()
    shop.rewrite_last_day()
    stale = json.loads(shop.command("status", "shop", "--json").stdout)["days"][-1]["stale"]
    assert "deliveries" in stale
    assert shop.command("run", "shop", "--judge", "0").returncode == 0
    after = shop.ledger()
    rebuilt = {
        (asset, day)
        for asset in DATA_ASSETS
        for day in shop.days
        if (a := after.get(asset, day)) and (b := before.get(asset, day)) and a.generation > b.generation
    }
    assert ("deliveries", shop.days[-1]) in rebuilt
    assert ("labels", shop.days[-1]) in rebuilt
    assert all(day >= shop.days[-2] for _, day in rebuilt), "the day before holds rows that the last file delivers late"


def test_one_run_settles_everything_that_a_late_day_makes_stale(tmp_path: Path) -> None:
    shop = Mini.write(tmp_path, days=5, scale=0.01, window_days=2)
    third = [path for path in shop.landing.glob(f"{shop.days[2]}*")]
    for path in third:
        path.rename(path.with_name(f".{path.name}"))
    assert shop.command("run", "shop", "--judge", "0").returncode == 0
    for path in third:
        path.with_name(f".{path.name}").rename(path)
    assert shop.command("run", "shop", "--judge", "0").returncode == 0
    rows = json.loads(shop.command("status", "shop", "--json").stdout)["days"]
    assert [row["stale"] for row in rows] == [None] * 5
    fresh = Mini.write(_emptied(tmp_path / "fresh"), days=5, scale=0.01, window_days=2)
    assert fresh.command("run", "shop", "--judge", "0").returncode == 0
    for asset in DATA_ASSETS:
        for day in shop.days:
            late, at_once = shop.ledger().get(asset, day), fresh.ledger().get(asset, day)
            assert late is not None
            assert at_once is not None
            assert late.content_digest == at_once.content_digest, (asset, day)


def test_a_damaged_file_holds_up_its_own_day_and_what_needs_it_and_no_other(tmp_path: Path) -> None:
    shop = Mini.write(tmp_path, days=4, scale=0.01, window_days=2)
    (file,) = shop.landing.glob(f"{shop.days[2]}.csv.gz")
    whole = file.read_bytes()
    file.write_bytes(whole[:-30])
    done = shop.command("run", "shop", "--judge", "0")
    assert done.returncode == 2
    assert file.name in done.stderr
    ledger = shop.ledger()
    assert ledger.days("labels")[:2] == list(shop.days[:2])
    assert shop.days[3] in ledger.days("deliveries")
    file.write_bytes(whole)
    done = shop.command("run", "shop", "--judge", "0")
    assert done.returncode == 0, done.stderr
    assert shop.ledger().days("features") == list(shop.days)


def _emptied(folder: Path) -> Path:
    folder.mkdir()
    return folder
