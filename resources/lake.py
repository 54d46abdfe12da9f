"""The lake: where results lie, and the one way in which they are made, published and read.

`<root>/<dataset>/<asset>/day=D/<attempt>/` holds the files of an attempt; `<root>/<dataset>/pointers/<asset>/D.json` is
the published manifest. `Lake.materialize` is the only writer: it skips what is unchanged, lets a room write into a
fresh attempt folder, reuses files whose content did not change, and replaces the pointer only if nobody else did in
the meantime. A kill at any moment leaves at most an unreferenced folder for `sweep`.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import json
import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from resources.contract.buckets import HASH_NAME, HASH_VERSION
from resources.contract.errors import CorruptError, DataError, TransientError
from resources.contract.manifest import ASSETS, DATA_ASSETS, Check, FileEntry, Ledger, Manifest, Plan, content_digest

log = logging.getLogger(__name__)

_RECORDED = ("slicewise", "dagster", "duckdb", "numpy", "pyarrow", "torch")
Step = Callable[[str], None]


def _no_step(_: str) -> None:
    """Called at every named point of a materialization; tests kill the process here."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One file that a room has written into its attempt folder. `content` is the digest of its rows."""

    name: str
    rows: int
    content: str
    bucket: int | None = None
    event_day: date | None = None
    first_us: int | None = None
    last_us: int | None = None
    whole: str | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a room says of the files it wrote, and of those it carries over from the day's current manifest."""

    pieces: tuple[Piece, ...]
    rows_in: int
    rows_out: int
    counts: dict[str, int] = field(default_factory=dict)
    quarantined: dict[str, int] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    num_buckets: int | None = None
    kept: tuple[FileEntry, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Materialized:
    """A day's manifest, and whether this call built it (or found it unchanged)."""

    manifest: Manifest
    built: bool


def sha256_of(path: Path) -> str:
    """Checksum of a file, hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """`path` holds `data`, or what it held before; never something between, also after a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    with beside.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(path)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock on `path` among all processes of this machine; a killed holder lets go."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


class Lake:
    """A lake on a local disk. Everything a room knows of storage goes through here."""

    def __init__(self, root: Path, *, step: Step = _no_step) -> None:
        self.root = root
        self.step = step

    def day_folder(self, dataset: str, asset: str, day: date) -> Path:
        return self.root / dataset / asset / f"day={day.isoformat()}"

    def pointer_path(self, dataset: str, asset: str, day: date) -> Path:
        return self.root / dataset / "pointers" / asset / f"{day.isoformat()}.json"

    def path(self, manifest: Manifest, entry: FileEntry) -> Path:
        """Where a file of a manifest lies."""
        return self.day_folder(manifest.dataset, manifest.asset, manifest.day) / entry.path

    def verified_path(self, manifest: Manifest, entry: FileEntry, *, remedy: str | None = None) -> Path:
        """The same, after comparing size and checksum. Raises CorruptError where they differ.

        Args:
            remedy: what to do then, where building its day again is not it.
        """
        path = self.path(manifest, entry)
        where = f"{manifest.dataset}/{manifest.asset} {manifest.day}"
        again = f"slicewise run {manifest.dataset} --days {manifest.day}..{manifest.day} --rebuild"
        # a damaged data file is no reason to train for its day, which may never have been judged
        remedy = remedy or f"Rebuild it: {again}{' --judge 0' if manifest.asset in DATA_ASSETS else ''}"
        if not path.exists():
            raise CorruptError(f"{where}: {path} is gone, though its manifest names it. {remedy}")
        if path.stat().st_size != entry.bytes or sha256_of(path) != entry.checksum:
            raise CorruptError(f"{where}: {path} does not have the checksum of its manifest: it was damaged. {remedy}")
        return path

    def read(self, dataset: str, asset: str, day: date) -> Manifest | None:
        """The published manifest of a day, or None. Raises CorruptError where it cannot be read."""
        return self._parsed(self.pointer_path(dataset, asset, day))

    def ledger(
        self, dataset: str, *, assets: Iterable[str] = ASSETS, first: date = date.min, last: date = date.max
    ) -> Ledger:
        """All published manifests of a dataset, or those of some assets and days: one day's plan needs few of many."""
        folders = [self.root / dataset / "pointers" / asset for asset in assets]
        paths = [path for folder in folders if folder.is_dir() for path in sorted(folder.glob("[0-9]*.json"))]
        within = [path for path in paths if first <= date.fromisoformat(path.stem) <= last]
        return Ledger(manifest for path in within if (manifest := self._parsed(path)) is not None)

    def newest_before(self, dataset: str, asset: str, day: date) -> Manifest | None:
        """The manifest of the last built day before this one, or None."""
        folder = self.pointer_path(dataset, asset, day).parent
        earlier = [path for path in folder.glob("[0-9]*.json") if path.stem < day.isoformat()]
        return self._parsed(max(earlier)) if earlier else None

    def _parsed(self, path: Path) -> Manifest | None:
        try:
            return Manifest.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise CorruptError(
                f"{path} is no manifest of format 1 ({error.error_count()} faults), so nothing can be said of its day. "
                f"Delete it and run the dataset again; a day of deliveries needs its landed files for that."
            ) from error

    def materialize(
        self,
        plan: Plan,
        write: Callable[[Path], Outcome],
        *,
        dataset: str,
        rebuild: bool = False,
        attempt: str | None = None,
    ) -> Materialized:
        """The day as `plan` wants it: as it stands when its input digest is the plan's, else written by `write`.

        `write` gets an empty folder and returns what it put there. Raises TransientError when a required input is
        missing or somebody else published in the meantime, DataError when an input's verdict forbids building.
        """
        where = f"{dataset}/{plan.asset} {plan.day}"
        if plan.blocked:  # first: what is missing besides may come, but waiting for it helps nobody
            raise DataError(
                f"{where} is refused: {'; '.join(plan.blocked)}. Mend the source or the contract and run that day again."
            )
        if plan.missing:
            raise TransientError(
                f"{where}: {', '.join(plan.missing)} is required and not built yet. Build it first, or wait."
            )
        current = self.read(dataset, plan.asset, plan.day)
        if current is not None and current.input_digest == plan.input_digest and not rebuild:
            return Materialized(manifest=current, built=False)
        started, created = time.monotonic(), datetime.now(UTC)
        attempt = attempt or f"{created:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
        day_folder = self.day_folder(dataset, plan.asset, plan.day)
        folder = day_folder / attempt
        folder.mkdir(parents=True)
        self.step(f"{plan.asset}:begun")
        outcome = write(folder)
        self.step(f"{plan.asset}:written")
        with ThreadPoolExecutor(max_workers=8) as pool:  # side by side, a disk syncs many files in the time of two
            before = current if not rebuild else None
            written = list(pool.map(lambda piece: self._entry(folder, piece, before), outcome.pieces))
        files = tuple(sorted([*outcome.kept, *written], key=lambda entry: entry.name))
        manifest = Manifest(
            dataset=dataset,
            asset=plan.asset,
            day=plan.day,
            generation=(current.generation if current else 0) + 1,
            attempt=attempt,
            logic_version=plan.logic_version,
            contract_digest=plan.contract_digest,
            input_digest=plan.input_digest,
            content_digest=content_digest(files),
            parents=plan.parents,
            files=files,
            counts=outcome.counts,
            quarantined=outcome.quarantined,
            checks=outcome.checks,
            facts=outcome.facts,
            bucket_hash=f"{HASH_NAME}/{HASH_VERSION}" if outcome.num_buckets else None,
            num_buckets=outcome.num_buckets,
            rows_in=outcome.rows_in,
            rows_out=outcome.rows_out,
            bytes=sum(entry.bytes for entry in files),
            seconds=round(time.monotonic() - started, 3),
            created=created.isoformat(timespec="seconds"),
            made_by={name: importlib.metadata.version(name) for name in _RECORDED},
        )
        self.publish(manifest, expected=current.generation if current else 0)
        log.info(
            f"built {where}: {manifest.rows_in:,} rows in, {manifest.rows_out:,} out, {manifest.bytes:,} bytes, {manifest.seconds} s"
        )
        return Materialized(manifest=manifest, built=True)

    def _entry(self, folder: Path, piece: Piece, current: Manifest | None) -> FileEntry:
        path = folder / piece.name
        before = current.file(piece.name) if current else None
        same = before is not None and (before.content, before.rows) == (piece.content, piece.rows)
        if current and before and same and self.path(current, before).exists():
            path.unlink()  # the same rows lie there already: downstream keeps reading the old bytes
            return before
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
        return FileEntry(
            name=piece.name,
            path=f"{folder.name}/{piece.name}",
            rows=piece.rows,
            bytes=path.stat().st_size,
            checksum=sha256_of(path),
            content=piece.content,
            bucket=piece.bucket,
            event_day=piece.event_day,
            first_us=piece.first_us,
            last_us=piece.last_us,
            whole=piece.whole,
        )

    def publish(self, manifest: Manifest, *, expected: int) -> None:
        """The manifest becomes the day's pointer if its generation still is `expected` (0: there is none).

        Raises TransientError otherwise: somebody else published; read again and decide again.
        """
        path = self.pointer_path(manifest.dataset, manifest.asset, manifest.day)
        with locked(path.with_name(".lock")):
            current = self._parsed(path)
            found = current.generation if current else 0
            if found != expected:
                raise TransientError(
                    f"{manifest.dataset}/{manifest.asset} {manifest.day}: generation {found} was published by somebody else "
                    f"while {expected + 1} was being built. Nothing was lost; it is decided again at the next try."
                )
            self.step(f"{manifest.asset}:publishing")
            write_atomically(path, manifest.model_dump_json().encode())  # a day of 20,000 files has much to say
        self.step(f"{manifest.asset}:published")

    def amend(self, manifest: Manifest, facts: dict[str, Any]) -> Manifest:
        """The same result with other facts, as a new generation."""
        amended = manifest.model_copy(update={"facts": facts, "generation": manifest.generation + 1})
        self.publish(amended, expected=manifest.generation)
        return amended

    def sweep(self, dataset: str, *, older_than_s: float, pins: Collection[tuple[str, date, str]] = frozenset()) -> int:
        """Removes attempt folders, and folders of staged exports, that nothing has named for `older_than_s`; their number.

        An attempt counts from when it was written, or, if that is later, from when another one took its place.
        `pins` are attempts (asset, day, attempt) that something else still reads: `assets.evaluation.judge.pins`.
        """
        removed, deadline = self._sweep_unfinished(dataset, older_than_s=older_than_s), time.time() - older_than_s
        for asset in ASSETS:
            for day_folder in sorted((self.root / dataset / asset).glob("day=*")):
                day = date.fromisoformat(day_folder.name.removeprefix("day="))
                manifest = self.read(dataset, asset, day)
                if manifest and self.pointer_path(dataset, asset, day).stat().st_mtime >= deadline:
                    continue  # somebody may still read what was current until a moment ago
                kept = {attempt for name, on, attempt in pins if (name, on) == (asset, day)}
                if manifest:
                    kept |= {entry.path.split("/")[0] for entry in manifest.files} | {manifest.attempt}
                for attempt in day_folder.iterdir():
                    if attempt.name not in kept and attempt.stat().st_mtime < deadline:
                        shutil.rmtree(attempt)
                        removed += 1
        return removed

    def _sweep_unfinished(self, dataset: str, *, older_than_s: float) -> int:
        """Removes what killed writers left beside pointers, and staged rows that no export's content stands for any more."""
        removed, deadline = 0, time.time() - older_than_s
        for path in (self.root / dataset / "pointers").glob("*/.*.tmp"):
            if path.stat().st_mtime < deadline:
                path.unlink(missing_ok=True)
        staged = self.root / dataset / "staged"
        if not staged.is_dir():
            return removed
        with locked(staged / ".lock"):  # whoever stages holds it
            index = staged / "index.json"
            files = json.loads(index.read_bytes())["files"].values() if index.exists() else ()
            kept = {index.name, ".lock", *(entry["folder"] for entry in files)}
            for path in staged.iterdir():
                if path.name in kept or path.stat().st_mtime >= deadline:
                    continue
                if path.is_dir():
                    shutil.rmtree(path)
                    removed += 1
                else:
                    path.unlink()
        return removed


def write_json(path: Path, value: Any) -> None:
    """A small JSON file, in canonical order."""
    path.write_text(json.dumps(value, sort_keys=True, indent=1, allow_nan=False) + "\n", encoding="utf-8")
