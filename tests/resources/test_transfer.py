"""Files from elsewhere are here whole and as they were listed, or an error says who must act."""

from __future__ import annotations

import base64
import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from seaweed import S3
from web import Page, WebServer

from resources import transfer
from resources.contract.errors import ConfigError, DataError, TransientError
from resources.remote import RemoteFile, without_secrets
from resources.transfer import Transfer, listed

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
MARCH = date(2026, 3, 1)


def content(size: int, *, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "_WAIT_S", 0.001)


@pytest.fixture
def fetching(tmp_path: Path) -> Iterator[Callable[..., Transfer]]:
    """Makes transfers into one folder; at the end nothing may be left there."""
    made: list[Transfer] = []

    def transfer_of(*, budget: int = 100 * MIB, part_bytes: int = MIB, parallel: int = 4, **options: str) -> Transfer:
        made.append(
            Transfer(tmp_path / "f", budget_bytes=budget, parallel=parallel, part_bytes=part_bytes, options=options)
        )
        return made[-1]

    yield transfer_of
    for one in made:
        one.close()
    assert left(tmp_path / "f") == []


def left(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def on_web(web: WebServer, data: bytes, *, name: str = "2026-03-01.bin", **page: object) -> tuple[RemoteFile, Page]:
    """A file that the server has, as it is listed now."""
    web.pages[f"/{name}"] = made = Page(data=data, **page)  # type: ignore[arg-type]
    [file] = listed(f"{web.address}/{name.replace('2026-03-01', '{day}')}", days=(MARCH,))
    return file, made


def test_objects_are_listed_by_pattern_over_all_pages_and_days(s3: S3) -> None:
    for day in range(3):
        for name in ("a b", "ü%20", "x.tmp"):
            s3.put(f"lists/{MARCH + timedelta(day)}/{name}.csv", b"x" * day)
    s3.put("lists/2026-03-01/deeper/a b.csv", b"")
    s3.put("lists-not/2026-03-01/a b.csv", b"")
    found = listed("s3://landing/lists/{day}/*.csv", options=s3.environment)
    assert [(f.name, f.bytes, f.day) for f in found][:4] == [
        ("2026-03-01/a b.csv", 0, MARCH),
        ("2026-03-01/x.tmp.csv", 0, MARCH),
        ("2026-03-01/ü%20.csv", 0, MARCH),
        ("2026-03-02/a b.csv", 1, date(2026, 3, 2)),
    ]
    assert len(found) == 9 and all(f.etag and f.modified_ns > 1.7e18 for f in found)
    some = listed("s3://landing/lists/{day}/?*b.csv", days=(MARCH, date(2026, 3, 3)), options=s3.environment)
    assert [f.name for f in some] == ["2026-03-01/a b.csv", "2026-03-03/a b.csv"]
    assert listed("s3://landing/nothing/{day}.csv", options=s3.environment) == []


def test_the_web_is_asked_once_a_day_and_404_means_not_there(web: WebServer) -> None:
    web.pages["/in/2026-03-02.csv"] = Page(data=b"abc")
    days = tuple(MARCH + timedelta(day) for day in range(4))
    [file] = listed(f"{web.address}/in/{{day}}.csv", days=days)
    assert (file.name, file.bytes, file.day) == ("2026-03-02.csv", 3, date(2026, 3, 2))
    assert sorted(web.asked) == [("HEAD", f"/in/{day}.csv", None) for day in days]


@pytest.mark.parametrize("pattern", ["http://h/all.csv", "http://h/{day}*.csv", "http://me:word@h/{day}.csv"])
def test_what_cannot_be_asked_of_the_web_is_refused_without_saying_passwords(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"must hold \{day\}") as raised:
        listed(pattern, days=(MARCH,))
    assert "word" not in str(raised.value).replace("password", "")


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, 3 * MIB + 17])
def test_files_of_every_size_arrive_with_their_bytes(
    web: WebServer, s3: S3, fetching: Callable[..., Transfer], size: int
) -> None:
    data = content(size)
    s3.put(f"sizes/{size}.csv.gz", data)
    [stored] = listed(f"s3://landing/sizes/{size}.csv.gz", options=s3.environment)
    page, _ = on_web(web, data)
    get = fetching(**s3.environment)
    for file, checked in ((stored, "its server's md5"), (page, "length")):
        with get.local(file) as path:
            assert path.read_bytes() == data
            assert path.name == file.name
        assert get.checked_by(file) == checked
        assert get.used_bytes == 0


@pytest.mark.parametrize("part_mib", [5, 8])
def test_the_etag_of_an_upload_in_parts_is_compared_too(
    s3: S3, fetching: Callable[..., Transfer], part_mib: int
) -> None:
    import obstore

    data = content(17 * MIB)
    obstore.put(s3.store(), f"parts/{part_mib}", data, chunk_size=part_mib * MIB, use_multipart=True)
    [file] = listed(f"s3://landing/parts/{part_mib}", options=s3.environment)
    get = fetching(**s3.environment)
    with get.local(file) as path:
        assert path.read_bytes() == data
    assert get.checked_by(file) == f"its server's md5 of {-(-17 // part_mib)} parts"


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 503, "times": 4},
        {"status": 429, "times": 1, "headers": {"Retry-After": "0"}},
        {"reset_after": 100, "times": 4},
        {"reset_after": 0, "times": 4},
        {"end_after": 1000, "times": 4},
        {"shift": 5, "times": 4},
        {"ranges": False},
        {"ranges": False, "end_after": 7, "times": 3},
    ],
    ids=lambda fault: " ".join(map(str, fault)),
)
def test_whatever_a_server_does_a_few_times_the_file_is_whole_in_the_end(
    web: WebServer, fetching: Callable[..., Transfer], fault: dict[str, Any]
) -> None:
    data = content(5 * MIB + 3)
    file, page = on_web(web, data, **fault)
    with fetching().local(file) as path:
        assert path.read_bytes() == data
    assert page.times == 0, "the server never got to misbehave"


def test_only_the_missing_range_is_read_again(web: WebServer, fetching: Callable[..., Transfer]) -> None:
    file, _ = on_web(web, content(2 * MIB), end_after=1000, times=1)
    with fetching(parallel=1).local(file):
        pass
    assert web.gets("/2026-03-01.bin") == ["bytes=0-1048575", "bytes=1000-1048575", "bytes=1048576-2097151"]


def test_a_server_that_stays_down_is_left_to_a_later_try_which_goes_on_where_it_was(
    web: WebServer, fetching: Callable[..., Transfer]
) -> None:
    data = content(3 * MIB)
    file, page = on_web(web, data)
    get = fetching(parallel=1)
    page.well, page.times, page.end_after = 1, 1000, 10
    with pytest.raises(TransientError, match=r"could not be fetched in 6 tries.*bytes early"), get.local(file):
        pass
    page.times, before = 0, len(web.gets("/2026-03-01.bin"))
    with get.local(file) as path:
        assert path.read_bytes() == data
    assert len(web.gets("/2026-03-01.bin")) - before == 2


def test_a_file_of_a_server_without_ranges_is_begun_again_where_it_breaks_off(
    web: WebServer, fetching: Callable[..., Transfer]
) -> None:
    file, page = on_web(web, content(MIB), ranges=False, end_after=7, times=1)
    with fetching().local(file) as path:
        assert path.read_bytes() == content(MIB)
    assert web.gets("/2026-03-01.bin") == [None, "bytes=7-1048575", None] and page.times == 0


@pytest.mark.parametrize("page", [{}, {"ranges": False}, {"matches": False}], ids=str)
def test_a_file_that_changes_between_its_parts_is_noticed(
    web: WebServer, fetching: Callable[..., Transfer], page: dict[str, Any]
) -> None:
    file, made = on_web(web, content(4 * MIB), **page)
    made.becomes, made.well = content(4 * MIB, seed=1), 1
    with pytest.raises(TransientError, match="changed or went away"), fetching(parallel=1).local(file):
        pass


def test_an_object_that_changes_or_goes_away_is_noticed(s3: S3, fetching: Callable[..., Transfer]) -> None:
    import obstore

    get = fetching(**s3.environment)
    for name, happens in (
        ("new", lambda: s3.put("change/new", content(3 * MIB, seed=1))),
        ("gone", lambda: obstore.delete(s3.store(), "change/gone")),
    ):
        s3.put(f"change/{name}", content(3 * MIB))
        [file] = listed(f"s3://landing/change/{name}", options=s3.environment)
        happens()
        with pytest.raises(TransientError, match="changed or went away"), get.local(file):
            pass
    [file] = listed("s3://landing/change/new", options=s3.environment)
    with get.local(file) as path:
        assert path.read_bytes() == content(3 * MIB, seed=1)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Content-MD5", base64.b64encode(hashlib.md5(content(MIB)).digest()).decode()),
        ("Digest", "sha-256=" + base64.b64encode(hashlib.sha256(content(MIB)).digest()).decode()),
        ("Repr-Digest", f"sha-256=:{base64.b64encode(hashlib.sha256(content(MIB)).digest()).decode()}:"),
    ],
)
def test_bytes_that_the_server_itself_disowns_are_refused(
    web: WebServer, fetching: Callable[..., Transfer], header: str, value: str
) -> None:
    file, _ = on_web(web, content(MIB), headers={header: value})
    get = fetching()
    with get.local(file):
        pass
    assert get.checked_by(file).startswith("its server's")
    flipped = bytearray(content(MIB))
    flipped[1234] ^= 4
    file, _ = on_web(web, bytes(flipped), headers={header: value}, name="2026-03-01.other")
    with pytest.raises(DataError, match="2 times in a row: it is damaged there"), get.local(file):
        pass


def test_the_budget_holds_while_files_are_fetched_ahead_and_read_side_by_side(
    web: WebServer, fetching: Callable[..., Transfer], tmp_path: Path
) -> None:
    files = [on_web(web, content(MIB // 2 + i, seed=i), name=f"2026-03-01.{i}")[0] for i in range(30)]
    get, most, over = fetching(budget=3 * MIB, part_bytes=MIB // 8), [0], threading.Event()

    def watch() -> None:
        while not over.wait(0.002):
            try:
                sizes = [path.stat().st_blocks * 512 for path in left(tmp_path / "f") if "journal" not in path.name]
            except FileNotFoundError:  # taken away at this moment
                continue
            most.append(sum(sizes))

    def read(mine: list[RemoteFile]) -> None:
        for file in mine:
            with get.local(file) as path:
                assert path.read_bytes() == content(file.bytes, seed=int(file.name.rsplit(".")[-1]))

    watcher = threading.Thread(target=watch)
    watcher.start()
    get.ahead(files)
    deadline = time.monotonic() + 10
    while max(most) < 2.4 * MIB and time.monotonic() < deadline:
        time.sleep(0.01)
    assert 2.4 * MIB < get.used_bytes <= 3 * MIB  # it runs ahead although nobody reads
    # the second thread reads against the order in which the files were asked for
    readers = [threading.Thread(target=read, args=(part,)) for part in (files[::2], files[::-1][::2])]
    for thread in readers:
        thread.start()
    for thread in readers:
        thread.join(60)
        assert not thread.is_alive()
    over.set()
    watcher.join()
    assert max(most) <= 3 * MIB + 20 * 4096
    assert get.used_bytes == 0


def test_a_file_larger_than_the_budget_comes_alone(web: WebServer, fetching: Callable[..., Transfer]) -> None:
    large, _ = on_web(web, content(2 * MIB), name="2026-03-01.large")
    small, _ = on_web(web, content(100), name="2026-03-01.small")
    get = fetching(budget=MIB)
    get.ahead([small, large])
    with get.local(large) as path:
        assert path.read_bytes() == content(2 * MIB)
        assert get.used_bytes == 2 * MIB
    with get.local(small) as path:
        assert path.read_bytes() == content(100)


def test_a_killed_attempt_is_gone_on_with_from_its_last_part(
    web: WebServer, fetching: Callable[..., Transfer], tmp_path: Path
) -> None:
    data = content(8 * MIB)
    file, page = on_web(web, data)
    page.status, page.times = None, 0
    code = (
        "import sys; from pathlib import Path; from datetime import date; from resources.transfer import Transfer, listed\n"
        f"[file] = listed('{web.address}/{{day}}.bin', days=(date(2026, 3, 1),))\n"
        f"with Transfer(Path('{tmp_path / 'f'}'), budget_bytes=1 << 30, parallel=1, part_bytes=1 << 20) as get:\n"
        "    with get.local(file): pass"
    )
    killed = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    deadline = time.monotonic() + 30
    while len(web.gets("/2026-03-01.bin")) < 4 and time.monotonic() < deadline:
        time.sleep(0.0005)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert not [path for path in left(tmp_path / "f") if path.name == "2026-03-01.bin"]
    [journal] = [path for path in left(tmp_path / "f") if path.name == "journal"]
    there = len(journal.read_bytes().split(b"\n")) - 2
    assert there >= 3
    [beside] = [path for path in left(tmp_path / "f") if path.suffix == ".part"]
    with beside.open("r+b") as stream:  # as a power cut may leave a part that was done
        stream.seek(MIB + 5)
        stream.write(b"lost")
    before = len(web.gets("/2026-03-01.bin"))
    with fetching().local(file) as path:
        assert path.read_bytes() == data
    assert len(web.gets("/2026-03-01.bin")) - before == 8 - there + 1


def test_what_a_dead_attempt_left_of_another_version_or_long_ago_is_gone(
    web: WebServer, fetching: Callable[..., Transfer], tmp_path: Path
) -> None:
    def left_by_failure(file: RemoteFile) -> None:
        get = Transfer(tmp_path / "f", budget_bytes=MIB, part_bytes=MIB)
        with pytest.raises(TransientError), get, get.local(file):
            pass

    file, page = on_web(web, content(4 * MIB))
    page.end_after, page.times = 10, 10_000
    for age_s in (0, 100_000):
        page.well = 1
        left_by_failure(file)
        for path in (tmp_path / "f").rglob("*"):
            os.utime(path, (time.time() - age_s, time.time() - age_s))
    [old] = (tmp_path / "f").iterdir()
    assert left(old)
    page.times = 0
    fetching()
    assert not old.exists()
    page.well, page.times = 1, 10_000
    left_by_failure(file)
    page.times, page.data = 0, content(4 * MIB, seed=2)
    [file] = listed(f"{web.address}/{{day}}.bin", days=(MARCH,))
    with fetching().local(file) as path:
        assert path.read_bytes() == page.data


@pytest.mark.parametrize(
    ("pattern", "changes"),
    [
        ("s3://landing/{day}.csv", {"AWS_SECRET_ACCESS_KEY": "notthesecret"}),
        ("s3://no-such-bucket/{day}.csv", {}),
        ("s3://landing/{day}.csv", {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}),
    ],
)
def test_access_that_is_set_up_wrongly_is_the_users_to_mend_and_no_secret_is_said(
    s3: S3, pattern: str, changes: dict[str, str]
) -> None:
    options = {name: value for name, value in {**s3.environment, **changes}.items() if value}
    with pytest.raises(ConfigError, match=r"cannot be read as it is set up.*AWS_") as raised:
        listed(pattern, options=options)
    assert not any(secret in str(raised.value) for secret in ("notthesecret", "testsecret", "testkey"))


def test_what_a_client_reports_is_shown_without_the_values_of_secret_options() -> None:
    options = {
        "AWS_SECRET_ACCESS_KEY": "abc+d",
        "AWS_SESSION_TOKEN": "tok",
        "AWS_REGION": "eu",
        "AZURE_STORAGE_SAS_KEY": "",
    }
    assert without_secrets("in eu: abc+d&tok is wrong\nabc", options) == "in eu: …&… is wrong"


def test_a_failed_file_ahead_of_its_reader_is_tried_again_when_it_is_read(
    web: WebServer, fetching: Callable[..., Transfer]
) -> None:
    file, page = on_web(web, content(100))
    page.status, page.times = 503, 6
    get = fetching()
    get.ahead([file])
    deadline = time.monotonic() + 10
    while page.times and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    with get.local(file) as path:
        assert path.read_bytes() == content(100)


def test_many_small_files_pass_through_few_threads(web: WebServer, fetching: Callable[..., Transfer]) -> None:
    files = [on_web(web, b"%d" % i, name=f"2026-03-01.{i}")[0] for i in range(200)]
    get = fetching(budget=50)
    get.ahead(files)
    found = []
    for file in files:
        with get.local(file) as path:
            found.append(int(path.read_bytes()))
    assert found == list(range(200))
