"""Landed files that lie in an object store or on the web: at hand, as local ones, for as long as they are read.

What stands for the content of such a file, before it has been fetched, is the checksum that its server tells; where it
tells none, the file is fetched and hashed. Checksums that lie beside files (`.md5`, `.sha256`) are not looked at there.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from resources.contract.dataset import Dataset
from resources.contract.days import day_of, instant_us
from resources.deployments import Deployment
from resources.remote import RemoteFile
from resources.transfer import Transfer, listed

if TYPE_CHECKING:
    from assets.ingestion.files import LandedFile


@dataclass
class Elsewhere:
    """Where a dataset's files come from, and the folder through which they pass. One transfer serves all who read at once."""

    folder: Path
    budget_bytes: int
    options: dict[str, str] = field(repr=False)
    _transfer: Transfer | None = None
    _users: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, dataset: Dataset) -> Elsewhere:
        here = Deployment.from_env()
        region = {"AWS_REGION": dataset.source.region} if dataset.source.region else {}
        return cls(folder=here.fetched(dataset.name), budget_bytes=here.fetch_bytes, options={**here.storage, **region})

    def listed(self, pattern: str, dataset: Dataset, *, now: datetime) -> list[RemoteFile]:
        """The files that an address means. The web is asked for each day from the dataset's first to today."""
        days: tuple[date, ...] = ()
        if pattern.startswith("http"):
            today = day_of(instant_us(now), dataset.days.zone)
            last = min(today, dataset.days.last or today)
            days = tuple(dataset.days.first + timedelta(n) for n in range((last - dataset.days.first).days + 1))
        return listed(pattern, days=days, options=self.options)

    @contextmanager
    def transfer(self) -> Iterator[Transfer]:
        """The transfer, open until everybody has left the block; what it has fetched is gone then."""
        with self._lock:
            if self._transfer is None:
                self._transfer = Transfer(self.folder, budget_bytes=self.budget_bytes, options=self.options)
            opened = self._transfer
            self._users += 1
        failed = True
        try:
            yield opened
            failed = False
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._transfer = None
                    opened.close(keep=failed)


@contextmanager
def fetching(files: Iterable[LandedFile]) -> Iterator[None]:
    """Files that lie elsewhere are fetched in this order, ahead of whoever reads them in the block."""
    remote = [file for file in files if file.remote is not None]
    if not remote:
        yield
        return
    assert remote[0].elsewhere is not None
    with remote[0].elsewhere.transfer() as transfer:
        transfer.ahead(file.remote for file in remote if file.remote is not None)
        yield


@contextmanager
def at_hand(file: LandedFile) -> Iterator[LandedFile]:
    """The file as one on this disk, until the block ends."""
    if file.remote is None or file.elsewhere is None:
        yield file
        return
    with file.elsewhere.transfer() as transfer, transfer.local(file.remote) as path:
        told = transfer.checked_by(file.remote) if file.remote.checksum else None
        yield replace(file, path=path, modified_ns=path.stat().st_mtime_ns, remote=None, fetched_by=told)


def told_content(file: RemoteFile) -> str | None:
    """A digest that stands for a file's content by what its server tells of it, or None where it tells nothing."""
    told = file.checksum
    return told and hashlib.sha256(f"{told.algorithm} {told.digest} {told.parts} {file.bytes}".encode()).hexdigest()
