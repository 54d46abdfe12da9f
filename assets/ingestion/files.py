"""The files that have landed, as the dataset's path pattern finds them."""

from __future__ import annotations

import glob
import logging
import re
import stat
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path

from resources.contract.dataset import Dataset
from resources.contract.errors import ConfigError, DataError, TransientError
from resources.lake import sha256_of

log = logging.getLogger(__name__)

_HALF_WRITTEN = (".tmp", ".part")
_WILD = re.compile(r"(\{day\}|\*|\?)")
_DAY = "{day}"


@dataclass(frozen=True, kw_only=True)
class LandedFile:
    """A landed file as one listing saw it. `name` is its path below the pattern's fixed part."""

    name: str
    path: Path
    bytes: int
    modified_ns: int


@dataclass(frozen=True)
class Pattern:
    """`source.files`: an absolute path in which `*` and `?` stand for parts of names and `{day}` for YYYY-MM-DD."""

    text: str

    def __post_init__(self) -> None:
        if not self.text.startswith("/"):
            raise ConfigError(
                f"source.files must be an absolute local path, got {self.text!r}: the daemon and the command line run in "
                "different folders and would find different files. Begin it with / or with ${LANDING}/."
            )

    @property
    def root(self) -> str:
        """The folder, with its slash, that lies before everything variable."""
        fixed = _WILD.split(self.text)[0]
        return fixed[: fixed.rindex("/") + 1]

    @property
    def glob(self) -> str:
        shown = {_DAY: "????-??-??", "*": "*", "?": "?"}
        return "".join(shown.get(part) or glob.escape(part) for part in _WILD.split(self.text))

    @property
    def regex(self) -> re.Pattern[str]:
        """Matches a whole path; the group `day`, where the pattern has one, is the same in all its places."""
        before, day, after = self.text.partition(_DAY)
        shown = {_DAY: "(?P=day)", "*": "[^/]*", "?": "[^/]"}

        def translated(text: str) -> str:
            return "".join(shown.get(part) or re.escape(part) for part in _WILD.split(text))

        return re.compile(translated(before) + (r"(?P<day>\d{4}-\d\d-\d\d)" if day else "") + translated(after))


def landed_files(dataset: Dataset) -> list[tuple[date | None, LandedFile]]:
    """Every landed file with the delivery day that its path tells (None where the pattern has no `{day}`), by name.

    Names that are still being written (`.tmp`, `.part`, dot-files and whatever lies in such folders) are left out; a
    folder that is not there holds no files.
    """
    pattern, found = Pattern(dataset.source.files), []
    for text in sorted(glob.glob(pattern.glob)):  # noqa: PTH207 (pathlib has none for absolute patterns)
        name = text.removeprefix(pattern.root)
        if any(part.startswith(".") or part.endswith(_HALF_WRITTEN) for part in name.split("/")):
            continue
        matched = pattern.regex.fullmatch(text)
        if matched is None:
            continue
        try:
            day = date.fromisoformat(matched["day"]) if dataset.source.names_day else None
        except ValueError:
            log.warning(f"left out {name}: {matched['day']} is no day of the calendar")
            continue
        try:
            status = Path(text).stat()
        except FileNotFoundError:  # taken away since the listing
            continue
        if stat.S_ISREG(status.st_mode):
            file = LandedFile(name=name, path=Path(text), bytes=status.st_size, modified_ns=status.st_mtime_ns)
            found.append((day, file))
    return found


@lru_cache(maxsize=65_536)
def sha256_of_landed(file: LandedFile) -> str:
    """Checksum of a landed file; one process reads the same state of a file only once for it."""
    try:
        found = sha256_of(file.path)
    except FileNotFoundError as error:
        raise TransientError(f"{file.name} is gone since the landing was listed: it is decided again.") from error
    except OSError as error:
        raise DataError(
            f"{file.name} cannot be read: {error.strerror}. Give us the right to, or land it again."
        ) from error
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
