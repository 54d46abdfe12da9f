"""The files that have landed, as the dataset's path pattern finds them, and whether each can be taken yet."""

from __future__ import annotations

import glob
import hashlib
import logging
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from pathlib import Path

from assets.ingestion.checksums import SIDECARS, Sidecar, readable, sidecar_of
from assets.ingestion.elsewhere import Elsewhere, at_hand, told_content
from resources.contract.dataset import Dataset
from resources.contract.days import instant_us
from resources.contract.errors import ConfigError, DataError, TransientError
from resources.contract.source import is_address
from resources.lake import sha256_of
from resources.remote import DAY, WILD, RemoteFile, fixed_part, matching

log = logging.getLogger(__name__)

_HALF_WRITTEN = (".tmp", ".part")
_DATA = re.compile(r"\.(csv|tsv|txt|log|jsonl|ndjson|parquet|gz|zst|bz2)$", re.IGNORECASE)  # how files of rows end
_SMALL_BYTES = 1 << 20
_FILE = "{file}"


@dataclass(frozen=True, kw_only=True)
class LandedFile:
    """A landed file as one listing saw it. `name` is its path below the pattern's fixed part.

    `sidecar` is the checksum that was landed beside it; `fault` says why that cannot be read. Of a file that lies
    elsewhere (`remote`), `path` is none until it is `at_hand`; then `fetched_by` says what its bytes agree with.
    """

    name: str
    path: Path
    bytes: int
    modified_ns: int
    sidecar: Sidecar | None = None
    fault: str | None = None
    remote: RemoteFile | None = None
    fetched_by: str | None = None
    elsewhere: Elsewhere | None = field(default=None, compare=False, repr=False)

    @property
    def witness(self) -> str | None:
        """What stands beside the file and vouches for it: another one makes the file be looked at again."""
        if self.remote is not None:
            return self.remote.version
        return f"{self.sidecar.algorithm}:{self.sidecar.digest}" if self.sidecar else self.fault


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A file that is there and not taken yet, and why; `until` is when it can be, if nobody touches it."""

    name: str
    day: date | None
    why: str
    until: datetime | None = None

    def __str__(self) -> str:
        return f"{self.name}, which {self.why}"


@dataclass(frozen=True, kw_only=True)
class Landed:
    """One listing: the files that can be taken with the delivery day that their path tells, and the others."""

    files: list[tuple[date | None, LandedFile]] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)


@dataclass(frozen=True)
class Pattern:
    """`source.files`: an absolute path in which `*` and `?` stand for parts of names and `{day}` for YYYY-MM-DD."""

    text: str
    key: str = "source.files"

    def __post_init__(self) -> None:
        if not self.text.startswith("/") and not is_address(self.text):
            raise ConfigError(
                f"{self.key} must be an absolute local path or an address, got {self.text!r}: the daemon and the command line run in "
                "different folders and would find different files. Begin it with / or with ${LANDING}/."
            )

    @property
    def root(self) -> str:
        """The folder, with its slash, that lies before everything variable."""
        return fixed_part(self.text)

    @property
    def glob(self) -> str:
        shown = {DAY: "????-??-??", "*": "*", "?": "?"}
        return "".join(shown.get(part) or glob.escape(part) for part in WILD.split(self.text))

    @property
    def regex(self) -> re.Pattern[str]:
        """Matches a whole path, with its day as a group where the pattern has one."""
        return matching(self.text)


@dataclass(frozen=True)
class Marks:
    """`source.ready`: the empty files that say that a file, or a whole day, is there."""

    text: str | None
    there: frozenset[str] | None = None  # the marks that are there, where no folder can be asked for one

    def __post_init__(self) -> None:
        if self.text is not None and not self.text.startswith(_FILE):
            Pattern(self.text, key="source.ready")  # refuses what depends on where one stands

    def is_mark(self, path: str) -> bool:
        if self.text is None:
            return False
        before, place, after = self.text.partition(_FILE if _FILE in self.text else DAY)
        named = ".+" if place == _FILE else r"\d{4}-\d\d-\d\d"
        return bool(re.fullmatch(f"{re.escape(before)}{named}{re.escape(after).replace(re.escape(DAY), named)}", path))

    def lacking(self, path: str, day: date | None) -> str | None:
        """The mark that a file still waits for, or None."""
        if self.text is None:
            return None
        file = path if self.text.startswith(_FILE) else path.rpartition("/")[2]
        mark = self.text.replace(_FILE, file).replace(DAY, str(day))
        exists = mark in self.there if self.there is not None else os.path.exists(mark)  # noqa: PTH110 (of every file)
        return None if exists else mark

    def pattern(self, files: str) -> str | None:
        """The marks of all files that a pattern means."""
        if self.text is None:
            return None
        return self.text.replace(_FILE, files if self.text.startswith(_FILE) else files.rpartition("/")[2])


def landed_files(dataset: Dataset, *, now: datetime) -> Landed:
    """Every landed file with the delivery day that its path tells (None where the pattern has no `{day}`), by name.

    Names that are still being written (`.tmp`, `.part`, dot-files and whatever lies in such folders), checksums that
    stand beside a file and marks are no data; a folder that is not there holds no files.
    """
    pattern, marks = Pattern(dataset.source.files), Marks(dataset.source.ready)
    found, beside, remote, elsewhere = Landed(), _Listings(), {}, None
    if dataset.source.is_remote:
        elsewhere = Elsewhere.of(dataset)
        remote = {file.address: file for file in elsewhere.listed(pattern.text, dataset, now=now)}
        if wanted := marks.pattern(pattern.text):
            marked = elsewhere.listed(wanted, dataset, now=now)
            marks = replace(marks, there=frozenset(mark.address for mark in marked))
    for text in sorted(remote if elsewhere else glob.glob(pattern.glob)):  # noqa: PTH207 (pathlib has none of these)
        # a name need not be UTF-8, and what is told of it must be
        name = os.fsencode(text.removeprefix(pattern.root)).decode(errors="backslashreplace")
        if any(part.startswith(".") or part.endswith(_HALF_WRITTEN) for part in name.split("/")):
            continue
        if text.endswith(SIDECARS) or marks.is_mark(text):
            continue
        matched = pattern.regex.fullmatch(text)
        if matched is None:
            continue
        try:
            day = date.fromisoformat(matched["day"]) if dataset.source.names_day else None
        except ValueError:
            log.warning(f"left out {name}: {matched['day']} is no day of the calendar")
            continue
        file = _elsewhere(remote[text], elsewhere) if elsewhere else _here(text, name)
        if file is None:
            continue
        waits = _waits(dataset, file.modified_ns, now=now)
        if (mark := marks.lacking(text, day)) is not None:
            found.waiting.append(Waiting(name=name, day=day, why=f"is not marked as whole by {mark} yet"))
        elif waits is not None:
            why = f"was written to less than {dataset.source.settle_seconds:g} s ago (source.settle_seconds)"
            found.waiting.append(Waiting(name=name, day=day, why=why, until=waits))
        else:
            sidecar, fault = (None, None) if elsewhere else beside.sidecar(text)
            found.files.append((day, replace(file, sidecar=sidecar, fault=fault) if sidecar or fault else file))
    return found


def unmeant_files(dataset: Dataset) -> list[str]:
    """The names of files beside the landed ones that `source.files` does not match, though they end as data does.

    Elsewhere than on a disk nothing is looked for.
    """
    pattern, marks = Pattern(dataset.source.files), Marks(dataset.source.ready)
    if dataset.source.is_remote:
        return []
    names = []
    for folder, folders, files in os.walk(pattern.root):
        folders[:] = [name for name in folders if not name.startswith(".") and not name.endswith(_HALF_WRITTEN)]
        for name in files:
            text = str(Path(folder) / name)
            if name.startswith((".", "_")) or not _DATA.search(name):
                continue
            if pattern.regex.fullmatch(text) is None and not marks.is_mark(text):
                names.append(text.removeprefix(pattern.root))
    return sorted(names)


def _here(text: str, name: str) -> LandedFile | None:
    try:
        status = os.stat(text)  # noqa: PTH116 (asked of every file)
    except FileNotFoundError:  # taken away since the listing
        return None
    except OSError as error:  # such as a link that leads to itself
        return LandedFile(
            name=name,
            path=Path(text),
            bytes=0,
            modified_ns=0,
            fault=f"{name} cannot be read: {error.strerror}. Give us the right to, or land it again.",
        )
    if not stat.S_ISREG(status.st_mode):
        return None
    return LandedFile(name=name, path=Path(text), bytes=status.st_size, modified_ns=status.st_mtime_ns)


def _elsewhere(file: RemoteFile, elsewhere: Elsewhere) -> LandedFile:
    return LandedFile(
        name=file.name,
        path=Path(file.name),
        bytes=file.bytes,
        modified_ns=file.modified_ns,
        remote=file,
        elsewhere=elsewhere,
    )


def _waits(dataset: Dataset, modified_ns: int, *, now: datetime) -> datetime | None:
    """Until when a file is too fresh to be whole for sure, or None. A time in the future is a wrong clock's."""
    age_us, limit_us = instant_us(now) - modified_ns // 1000, round(dataset.source.settle_seconds * 1_000_000)
    if not 0 <= age_us < limit_us:
        return None
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=modified_ns // 1000 + limit_us)


class _Listings:
    """The checksums beside files, with one listing a folder: most files have none, and asking each costs more."""

    def __init__(self) -> None:
        self._names: dict[str, frozenset[str]] = {}

    def sidecar(self, path: str) -> tuple[Sidecar | None, str | None]:
        folder, _, name = path.rpartition("/")
        if folder not in self._names:
            self._names[folder] = frozenset(_sidecars_in(folder))
        if not any(f"{name}{ending}" in self._names[folder] for ending in SIDECARS):
            return None, None
        try:
            return sidecar_of(Path(path)), None
        except DataError as error:
            return None, str(error)


def _sidecars_in(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        yield from (entry.name for entry in entries if entry.name.endswith(SIDECARS))


@lru_cache(maxsize=65_536)
def sha256_of_landed(file: LandedFile) -> str:
    """Checksum of a landed file; one process reads the same state of a file only once for it.

    Of a file that lies elsewhere, what its server tells stands for it, so that nothing has to be fetched.
    """
    if file.remote is not None:
        if (told := told_content(file.remote)) is not None:
            return told
        with at_hand(file) as here:
            return sha256_of_landed(here)
    with readable(file.name):
        # a buffer for blocks costs more than a small file itself
        small = file.bytes <= _SMALL_BYTES
        found = hashlib.sha256(file.path.read_bytes()).hexdigest() if small else sha256_of(file.path)
    require_unchanged(file)
    return found


def require_unchanged(file: LandedFile) -> None:
    """Raises TransientError if the file is no longer what the listing saw: what was read may be half of each."""
    try:
        status = file.path.stat()
    except FileNotFoundError:
        status = None
    if status is None or (status.st_size, status.st_mtime_ns) != (file.bytes, file.modified_ns):
        raise TransientError(f"{file.name} changed while it was being read: it is taken at the next try.")
