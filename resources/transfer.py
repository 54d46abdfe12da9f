"""Files from object stores and the web, brought to this disk ahead of their reader and taken away behind it.

A file is read in parts, several at once, all of one and the same version; its bytes are compared with what the server
says of them before it gets its name. Parts that fail are asked for again, a little later each time. On the disk never
lie more bytes than the budget says, so a landing of any size passes through a small disk.
"""

from __future__ import annotations

import hashlib
import logging
import os
import random
import shutil
import threading
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Self

from resources.attempts import dead_attempts, is_empty, locked_attempt
from resources.contract.errors import DataError, TransientError
from resources.objectstore import Bucket
from resources.partfile import PartFile
from resources.remote import Interrupted, NoRanges, Reader, RemoteFile
from resources.webfiles import Web

log = logging.getLogger(__name__)

PART_BYTES = 8 << 20
_TRIES = 6  # of a part
_WAIT_S, _LONGEST_WAIT_S = 0.2, 30.0
_WHOLE_TRIES = 2  # of a file whose bytes are not what the server says of them


def reader_of(address: str, options: Mapping[str, str]) -> Reader:
    """The client for an address, told what it needs (`Deployment.storage`)."""
    return Web() if address.startswith(("http://", "https://")) else Bucket(address, options)


def listed(pattern: str, *, days: tuple[date, ...] = (), options: Mapping[str, str] | None = None) -> list[RemoteFile]:
    """The files that an address with `{day}`, `*` and `?` means, by name.

    Args:
        days: which days to look for. Object stores list them all without it; the web must be told (`webfiles`).
        options: of the object stores' clients.
    """
    return reader_of(pattern, options or {}).listed(pattern, days=days)


class _State(Enum):
    ASKED = "asked"
    FETCHING = "fetching"
    READY = "ready"
    FAILED = "failed"


@dataclass(eq=False)
class _Entry:
    """A file that was asked for. What others look at changes under the transfer's lock alone."""

    file: RemoteFile
    folder: Path
    state: _State = _State.ASKED
    wanted: int = 0  # threads that wait for it
    held: int = 0  # threads that read it
    left: int = 0  # parts that are not there yet
    part_bytes: int = 0
    whole_tries: int = 0
    error: BaseException | None = None
    resumable: bool = False  # whether trying again goes on with what is there
    parts: PartFile | None = None


class Transfer:
    """Fetches remote files into a folder; made for several threads.

    A thread should hold one file at a time: one that waits for a second may wait for room that only it could make.
    """

    def __init__(
        self,
        folder: Path,
        *,
        budget_bytes: int,
        parallel: int = 8,
        part_bytes: int = PART_BYTES,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Leftovers of dead attempts are gone where they are a day old; younger ones are gone on with.

        Args:
            budget_bytes: that may lie in the folder at once. A file that is larger comes alone.
            parallel: requests at once.
            options: of the object stores' clients.
        """
        self._budget, self._part_bytes, self._options = budget_bytes, part_bytes, options or {}
        self._entries: dict[str, _Entry] = {}  # by address, in the order in which they were asked for
        self._asked: dict[str, _Entry] = {}  # those of them that nobody has begun with
        self._wanted: list[_Entry] = []  # those of them that a thread waits for
        self._checked: dict[str, str] = {}
        self._readers: dict[str, Reader] = {}
        self._used = 0
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._dead = dead_attempts(folder)
        self._folder = folder / uuid.uuid4().hex
        self._lock = locked_attempt(self._folder)
        self._pool = ThreadPoolExecutor(parallel, thread_name_prefix="fetch")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(keep=error is not None)

    def close(self, *, keep: bool = False) -> None:
        """Nothing is fetched any more. What was fetched is gone, or kept for the next attempt to go on with."""
        self._closing.set()
        self._pool.shutdown(cancel_futures=True)
        with self._changed:
            for entry in self._entries.values():
                if entry.parts is not None:
                    entry.parts.close()
            self._changed.notify_all()
        for folder in (self._folder, *self._dead):
            if is_empty(folder) or (folder == self._folder and not keep):
                shutil.rmtree(folder, ignore_errors=True)
        os.close(self._lock)

    def ahead(self, files: Iterable[RemoteFile]) -> None:
        """These files are fetched in this order, as far as the budget allows, before anybody reads them."""
        with self._changed:
            for file in files:
                self._entry(file)
            self._admit()

    @contextmanager
    def local(self, file: RemoteFile) -> Iterator[Path]:
        """A file as a local path, until the block ends.

        Raises TransientError where it changed since it was listed or cannot be had at the moment, DataError where its
        bytes are not what the server says of them, ConfigError where access is refused.
        """
        entry = self._taken(file)
        try:
            assert entry.parts is not None
            yield entry.parts.path
        finally:
            with self._changed:
                entry.held -= 1
                if not entry.held and not entry.wanted:
                    self._forget(entry)
                self._admit()

    def checked_by(self, file: RemoteFile) -> str:
        """What the bytes of a file that was fetched were compared with."""
        return self._checked[file.address]

    @property
    def used_bytes(self) -> int:
        """Bytes on the disk, or on their way to it."""
        return self._used

    def _entry(self, file: RemoteFile) -> _Entry:
        """What is known of a file, as asked for from now on. Raises TransientError while an older version is in use."""
        entry = self._entries.get(file.address)
        if entry is not None and entry.file.version != file.version:
            if entry.held or entry.wanted or entry.state is _State.FETCHING:
                raise file.changed()
            self._forget(entry)
            entry = None
        if entry is None:
            key = hashlib.sha256(file.address.encode()).hexdigest()[:20]
            entry = _Entry(file=file, folder=self._folder / key, part_bytes=self._part_bytes)
            self._entries[file.address] = self._asked[file.address] = entry
        return entry

    def _taken(self, file: RemoteFile) -> _Entry:
        """The entry of a file that is there now, held for the caller."""
        with self._changed:
            entry = self._entry(file)
            entry.wanted += 1
            self._wanted.append(entry)
            if entry.state is _State.FAILED:  # while nobody waited for it: that may have passed
                entry.state, entry.error = _State.FETCHING, None
                self._submit(self._begin, entry)
            self._admit()
            while entry.state in (_State.ASKED, _State.FETCHING) and not self._closing.is_set():
                self._changed.wait()
            entry.wanted -= 1
            self._wanted.remove(entry)
            if entry.state is _State.READY:
                entry.held += 1
                return entry
            error = entry.error or TransientError(f"{file.name} is not fetched any more: the transfer has ended.")
            if not entry.wanted and not entry.resumable and not self._closing.is_set():
                self._forget(entry)
                self._admit()
            raise error

    def _admit(self) -> None:
        """Begins with the files whose turn it is and for which there is room; with those that somebody waits for first."""
        while turn := next(
            (e for e in self._wanted if e.state is _State.ASKED), next(iter(self._asked.values()), None)
        ):
            if turn.wanted:
                self._make_room(turn.file.bytes)
            if self._used and self._used + turn.file.bytes > self._budget:
                return  # nobody overtakes: a large file would wait for ever
            self._used += turn.file.bytes
            turn.state = _State.FETCHING
            del self._asked[turn.file.address]
            self._submit(self._begin, turn)

    def _make_room(self, needed: int) -> None:
        """Gives up files that nobody waits for yet, the last ones first: they are fetched again when their turn comes."""
        for entry in list(reversed(self._entries.values())):
            if self._used + needed <= self._budget:
                return
            if entry.state in (_State.READY, _State.FAILED) and not entry.wanted and not entry.held:
                self._drop(entry)
                entry.state, entry.error = _State.ASKED, None
                self._asked[entry.file.address] = entry

    def _forget(self, entry: _Entry) -> None:
        self._drop(entry)
        self._entries.pop(entry.file.address, None)
        self._asked.pop(entry.file.address, None)

    def _drop(self, entry: _Entry) -> None:
        """The file's bytes are gone."""
        if entry.state is not _State.ASKED:
            self._used -= entry.file.bytes
        if entry.parts is not None:
            entry.parts.close()
        shutil.rmtree(entry.folder, ignore_errors=True)

    def _submit(self, task: Callable[..., None], *arguments: object) -> None:
        if not self._closing.is_set():
            self._pool.submit(task, *arguments)

    def _begin(self, entry: _Entry) -> None:
        """Asks for the parts that no earlier attempt has left."""
        with self._failing(entry):
            self._adopt(entry)
            file = entry.file
            parts = PartFile(
                entry.folder,
                name=file.name.rsplit("/", 1)[-1],
                version=f"{file.address} {file.version}",
                bytes=file.bytes,
                part_bytes=entry.part_bytes,
            )
            entry.parts, entry.left = parts, len(parts.missing)
            if len(parts.missing) > 1:
                for part in parts.missing:
                    self._submit(self._part, entry, parts, part)
                return
            for part in parts.missing:
                self._read_part(entry, parts, part)
        self._end(entry)

    def _adopt(self, entry: _Entry) -> None:
        """Takes over what a dead attempt has left of the file."""
        for dead in self._dead:
            if not entry.folder.exists():
                try:
                    (dead / entry.folder.name).rename(entry.folder)
                except FileNotFoundError:  # it left nothing, or somebody else was first
                    continue

    def _part(self, entry: _Entry, parts: PartFile, part: int) -> None:
        if entry.error is None:
            with self._failing(entry):
                self._read_part(entry, parts, part)
        with self._changed:
            entry.left -= 1
            last = not entry.left
        if last:
            self._end(entry)

    def _read_part(self, entry: _Entry, parts: PartFile, part: int) -> None:
        """One part, asking again for what is missing of it where reading stops."""
        at, stop = parts.span(part)
        reader, crc, tries = self._reader(entry.file), 0, 0
        while at < stop:
            try:
                for block in reader.read(entry.file, at, stop):
                    data = memoryview(block)
                    parts.write(at, data)
                    crc, at = zlib.crc32(data, crc), at + len(data)
                    if self._closing.is_set():
                        raise TransientError(f"{entry.file.name} is not fetched any more: the transfer has ended.")
                if at < stop:
                    raise Interrupted(f"the answer ended {stop - at} bytes early")
            except NoRanges:
                if stop - parts.span(part)[0] < entry.file.bytes:
                    raise
                at, crc = 0, 0  # all of it is one part: the rest alone cannot be had
            except Interrupted as error:
                tries += 1
                if tries >= _TRIES:
                    entry.resumable = True
                    raise TransientError(
                        f"{entry.file.name} could not be fetched in {tries} tries, {at:,} of {stop:,} bytes on: {error}. It is tried "
                        "again; what is there of it is kept."
                    ) from error
                wait_s = min(max(error.after_s, _WAIT_S * 2**tries * random.uniform(0.5, 1)), _LONGEST_WAIT_S)
                log.info(f"asked again for {entry.file.name} from byte {at:,} after {wait_s:.1f} s: {error}")
                self._closing.wait(wait_s)
        parts.done(part, crc)

    def _end(self, entry: _Entry) -> None:
        """The file is ready, has failed, or is fetched once more."""
        again = isinstance(entry.error, NoRanges) and entry.part_bytes < entry.file.bytes
        if again:
            entry.error, entry.part_bytes = None, entry.file.bytes  # all of it is one part
        with self._failing(entry):
            if entry.error is None:
                assert entry.parts is not None
                again = again or not self._compared(entry, entry.parts.whole())
                if again:
                    entry.parts.close()
                    shutil.rmtree(entry.folder)
                else:
                    entry.parts.finish()
        if again and entry.error is None:
            self._submit(self._begin, entry)
            return
        with self._changed:
            entry.state = _State.READY if entry.error is None else _State.FAILED
            self._admit()
            self._changed.notify_all()

    def _compared(self, entry: _Entry, path: Path) -> bool:
        """Whether the bytes are what the server says of them, as far as it does; DataError if they are not again."""
        file = entry.file
        found = file.checksum and file.checksum.agreement(path)
        if file.checksum and found == "" and self._reader(file).checksum(file) is not None:
            entry.whole_tries += 1
            if entry.whole_tries < _WHOLE_TRIES:
                log.warning(f"fetched {file.name} with other bytes than its {file.checksum.algorithm} says: once more")
                return False
            raise DataError(
                f"{file.name} has other bytes than the {file.checksum.algorithm} {file.checksum.digest} that its server tells, "
                f"{entry.whole_tries} times in a row: it is damaged there, and is refused. Land it again."
            )
        self._checked[file.address] = found or "length"
        return True

    def _reader(self, file: RemoteFile) -> Reader:
        root = "/".join(file.address.split("/", 3)[:3])
        return self._readers.setdefault(root, reader_of(file.address, self._options))

    @contextmanager
    def _failing(self, entry: _Entry) -> Iterator[None]:
        """Hands whatever goes wrong in a thread of the pool to the thread that waits for the file."""
        try:
            yield
        except OSError as error:
            entry.error = TransientError(
                f"{entry.file.name} could not be written to {self._folder}: {error.strerror}. Make room there, or lower "
                "SLICEWISE_FETCH_GB."
            )
        except BaseException as error:  # noqa: BLE001 (it is raised again where the file is waited for)
            entry.error = entry.error or error
