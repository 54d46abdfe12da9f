"""The landing: which files hold which delivery day, and whether a day can still get more of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from assets.ingestion.files import LandedFile, Pattern, Waiting, landed_files
from assets.ingestion.index import Indexed, indexed
from resources.contract.dataset import Dataset
from resources.contract.days import HOUR_US, day_bounds_us, instant_us
from resources.lake import Lake


@dataclass(frozen=True, kw_only=True)
class Landing:
    """The landed files of a dataset at one moment: those that can be taken, and those that wait.

    `index` says which event days the rows of a file belong to, by file name; it is None where the path tells the day.
    """

    dataset: Dataset
    by_day: Mapping[date, tuple[LandedFile, ...]]
    all: tuple[LandedFile, ...]
    waiting: tuple[Waiting, ...] = ()
    index: Mapping[str, Indexed] | None = None

    @classmethod
    def scan(cls, dataset: Dataset, *, lake: Lake | None = None, now: datetime | None = None) -> Landing:
        """What has landed by now. Raises ConfigError for a pattern that is not an absolute path.

        Args:
            lake: keeps what was read of files that hold many days; without it, such files belong to no day yet.
            now: until when the rows of such files can have happened, and what the files' ages are counted from.
        """
        now = now or datetime.now(UTC)
        listed = landed_files(dataset, now=now)
        found, files, index = listed.files, tuple(file for _, file in listed.files), None
        if not dataset.source.names_day:
            index = indexed(dataset, lake, files, now=now) if lake else {}
            found = [(day, file) for file in files if file.name in index for day in index[file.name].days]
        by_day: dict[date, list[LandedFile]] = defaultdict(list)
        for day, file in found:
            assert day is not None
            by_day[day].append(file)
        return cls(
            dataset=dataset,
            by_day={d: tuple(f) for d, f in by_day.items()},
            all=files,
            waiting=tuple(listed.waiting),
            index=index,
        )

    def files(self, day: date) -> tuple[LandedFile, ...]:
        """The files of a delivery day, by name."""
        return self.by_day.get(day, ())

    def days(self) -> list[date]:
        """The delivery days that have files, in order; those whose files all wait are among them."""
        return sorted(self.by_day.keys() | {file.day for file in self.waiting if file.day is not None})

    def waits(self, day: date, known: Mapping[str, object]) -> list[Waiting]:
        """The files that a day waits for: its own, and of exports those (`known`) that it has rows of."""
        return [file for file in self.waiting if file.day == day or (file.day is None and file.name in known)]

    def refused(self, name: str) -> str | None:
        """Why an export of that name could not be read, or None."""
        return self.index[name].refused if self.index and name in self.index else None

    def holdings(self, name: str, day: date) -> Mapping[str, Any]:
        """What is to be remembered of the rows that an export of that name holds of a day; nothing where it has none."""
        return self.index[name].days.get(day, {}) if self.index and name in self.index else {}

    def holds(self, name: str) -> bool:
        """Whether a file of that name is there at all, whichever days it holds."""
        return name in self._names

    @cached_property
    def is_there(self) -> bool:
        """Whether the folder is: while it is not (an unmounted disk), no file of it has been taken away."""
        return self.dataset.source.is_remote or Path(Pattern(self.dataset.source.files).root).is_dir()

    def closed(self, day: date, now: datetime) -> bool:
        """Whether nothing more is expected for a day: a later day's delivery has settled, or its deadline has passed."""
        if now >= self.deadline(day):
            return True
        settled_us = instant_us(now) - round(self.dataset.days.settle_hours * HOUR_US)
        return any(arrived <= settled_us for later, arrived in self._arrived_us.items() if later > day)

    def deadline(self, day: date) -> datetime:
        """When a day closes although nothing later has been delivered."""
        end_us = day_bounds_us(day, self.dataset.days.zone)[1]
        last_us = end_us + round(self.dataset.days.deadline_hours * HOUR_US)
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=last_us)

    @cached_property
    def _arrived_us(self) -> dict[date, int]:
        """When the first file of each day was there."""
        return {day: min(file.modified_ns for file in files) // 1000 for day, files in self.by_day.items()}

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(file.name for file in self.all)
