"""From sample files to a contract that takes them: looked at, drafted, and tried by ingestion's own rules."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from assets.ingestion.check import Finding, check_sample
from assets.ingestion.checksums import SIDECARS
from assets.ingestion.files import LandedFile
from assets.ingestion.landing import Landing
from assets.ingestion.look.draft import draft
from assets.ingestion.look.pattern import Found, pattern_of
from assets.ingestion.look.question import Question, counted
from assets.ingestion.look.samples import MAX_ROWS, Samples, samples, told
from assets.ingestion.reasons import Reason
from resources.contract.dataset import parse_dataset
from resources.contract.errors import ConfigError, DataError
from resources.contract.strict import plain_name

_REASONS = frozenset(reason.text for reason in Reason)


@dataclass(frozen=True, kw_only=True)
class Begun:
    """A contract for some files, and what is to be known about it.

    `fit` says how many rows of the samples it takes, `faults` why it does not take the others, the most frequent first.
    """

    text: str
    read: str
    fit: str
    faults: tuple[str, ...]
    questions: tuple[Question, ...]
    refused: dict[str, str]
    left_out: dict[str, str]
    landing: Path


def begin(
    files: Sequence[Path], *, name: str, today: date, landing: Path | None = None, max_rows: int = MAX_ROWS
) -> Begun:
    """The contract of a dataset whose samples these are. Writes nothing but a temporary folder.

    Raises ConfigError for a name that cannot be a dataset's and for files that no single contract can read, DataError
    where no file can be read at all.

    Args:
        today: the first day of a dataset whose samples have no time.
        landing: where its files will lie; otherwise where these lie.
    """
    try:
        plain_name(name)
    except ValueError as error:
        raise ConfigError(f"--name {error}.") from error
    # `..` is taken out of paths, links are followed only where files are read
    paths = dict.fromkeys(Path(os.path.normpath(path.absolute())) for path in files)
    named = [path for path in paths if path.suffix not in SIDECARS]
    root = Path(os.path.commonpath([path.parent for path in named])) if named else Path()
    landed = [_landed(path, name=str(path.relative_to(root))) for path in named]
    if not landed:
        raise ConfigError("no sample files were named. Name some of one source, such as logs/*.csv.gz.")
    found = samples(landed, max_rows=max_rows)
    pattern = pattern_of(
        [file.path for file in found.files], landing=Path(os.path.normpath(landing.absolute())) if landing else None
    )
    drafted = draft(name, found, pattern, today=today)
    findings = _tried(name, drafted.text, found, pattern, max_rows=max_rows) if drafted.timed else []
    rows = sum(found.rows) + found.broken.total()
    bad = sum(finding.rows or 0 for finding in findings if finding.what in _REASONS)
    refused = {finding.file for finding in findings if finding.serious and finding.share is None}
    bad += sum(of for file, of in zip(found.files, found.rows, strict=True) if file.name in refused)
    fit = f"{counted(rows, 'row')} in the samples, {f'{rows - bad:,}' if bad else 'all'} of them fit the contract"
    if any(finding.serious for finding in findings):
        fit += "; a day with so large a share of others would be stopped (bad_rows.at_most)"
    return Begun(
        text=drafted.text,
        read=told(found),
        fit=fit if drafted.timed else "nothing was tried, since no column holds times",
        faults=tuple(_faults(findings)),
        questions=drafted.questions,
        refused=found.refused,
        left_out=dict(found.written.left_out),
        landing=pattern.landing,
    )


def _faults(findings: Sequence[Finding]) -> list[str]:
    """Why rows or files are not taken, over all files, each with its first example."""
    alike: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.serious or finding.what in _REASONS:
            alike[finding.what].append(finding)
    by_rows = sorted(alike.items(), key=lambda item: -sum(finding.rows or 0 for finding in item[1]))
    return [
        f"{what}: {counted(sum(f.rows or 0 for f in found), 'row')}, first in {found[0].file}"
        + (f", {found[0].example}" if found[0].example else "")
        if found[0].rows
        else what
        for what, found in by_rows
    ]


def _landed(path: Path, *, name: str) -> LandedFile:
    try:
        status = path.stat()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}. Name files that are there.") from error
    if not path.is_file():
        raise ConfigError(f"{path} is no file. Name files, such as {path}/*.csv.gz.")
    return LandedFile(name=name, path=path, bytes=status.st_size, modified_ns=status.st_mtime_ns)


def _tried(name: str, text: str, found: Samples, pattern: Found, *, max_rows: int) -> list[Finding]:
    """What of the samples the contract does not take, in a landing of its own."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for file in found.files:
            link = root / file.path.relative_to(pattern.landing)
            link.parent.mkdir(parents=True, exist_ok=True)
            os.symlink(file.path.resolve(), link)  # noqa: PTH211 (reads from left to right)
        dataset = parse_dataset(text, file=f"{name}.yaml", variables={"LANDING": str(root)})
        source = dataset.source.model_copy(update={"settle_seconds": 0.0})
        landing = Landing.scan(dataset.model_copy(update={"source": source}))
        if len(landing.all) != len(found.files):
            raise DataError(
                f"the pattern {dataset.source.files} finds {len(landing.all)} of the {len(found.files)} samples: their names are not "
                "of one kind. Name files of one kind."
            )
        return check_sample(dataset, landing, max_files=len(landing.all), max_rows=max(1, max_rows // len(landing.all)))
