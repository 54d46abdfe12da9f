"""A file that grows part by part under another name and gets its own when it is whole.

What it has got outlives its process: a small journal beside it holds the version that it is made of and the CRC of each
part that is there, and whoever goes on compares those first. So a kill costs the parts that were under way, and a power
cut never leaves a part that only seems to be there.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from pathlib import Path

_BLOCK_BYTES = 1 << 20
_NAME_BYTES = 150  # of 255 that a file system takes


class PartFile:
    """The file `folder/name`, of a known length, and the parts of it that are missing."""

    def __init__(self, folder: Path, *, name: str, version: str, bytes: int, part_bytes: int) -> None:  # noqa: A002
        short = name.encode()[-_NAME_BYTES:].decode(errors="ignore")
        self.path = folder / short  # its ending stays: it says how the file is packed
        self.bytes = bytes
        self.part_bytes = part_bytes
        self._beside, self._journal_path = folder / f"{short}.part", folder / "journal"
        head = {"version": version, "bytes": bytes, "part_bytes": part_bytes}
        there = self._there(head)
        if there is None:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        self._file = os.open(self._beside, os.O_RDWR | os.O_CREAT, 0o644)
        self._journal = os.open(self._journal_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        if there is None:
            os.truncate(self._file, bytes)
            self._note(head)
        whole = {part for part, crc in (there or {}).items() if self._crc(part) == crc}
        self.missing = [part for part in range(-(-bytes // part_bytes)) if part not in whole]

    def span(self, part: int) -> tuple[int, int]:
        """Where a part begins and ends."""
        return part * self.part_bytes, min((part + 1) * self.part_bytes, self.bytes)

    def write(self, at: int, data: memoryview) -> None:
        """Some bytes of a part that is under way."""
        while data:
            written = os.pwrite(self._file, data, at)
            at, data = at + written, data[written:]

    def done(self, part: int, crc: int) -> None:
        """A part is there; one write, so that parts may be done by several threads."""
        self._note([part, crc])

    def whole(self) -> Path:
        """The file under its unfinished name, to be looked at once more."""
        return self._beside

    def finish(self) -> None:
        """The file has its name; the journal stays until the folder goes."""
        self.close()
        self._beside.replace(self.path)

    def close(self) -> None:
        """Nothing more is written."""
        for file in (self._file, self._journal):
            if file >= 0:
                os.close(file)
        self._file = self._journal = -1

    def _note(self, entry: object) -> None:
        os.write(self._journal, json.dumps(entry).encode() + b"\n")

    def _there(self, head: dict[str, object]) -> dict[int, int] | None:
        """The CRCs of the parts that an earlier attempt left of this very version, or None."""
        try:
            lines = self._journal_path.read_bytes().split(b"\n")[:-1]  # a line without its end was never written
            told = [json.loads(line) for line in lines]
        except (FileNotFoundError, ValueError):
            return None
        if self.path.exists():  # it was whole, and nobody had read it
            self.path.replace(self._beside)
        if not told or told[0] != head or not self._beside.exists() or self._beside.stat().st_size != self.bytes:
            return None
        return {part: crc for part, crc in told[1:]}

    def _crc(self, part: int) -> int:
        at, stop = self.span(part)
        crc = 0
        while at < stop:
            block = os.pread(self._file, min(_BLOCK_BYTES, stop - at), at)
            crc, at = zlib.crc32(block, crc), at + len(block)
        return crc
