"""The rows of one export as Parquet files by event day, from which the deliveries of its days take theirs.

Rows come in any order of days. They are held in memory until there are enough, then written as a run, sorted by day;
at the end each day is put together from all runs. So an export of 800 days needs the memory of one run and a few open
files. A staged folder is written under another name and renamed when it is whole.
"""

from __future__ import annotations

import shutil
import uuid
from collections import defaultdict
from contextlib import ExitStack
from datetime import date
from pathlib import Path

import pyarrow as pa

from assets.ingestion.parts import RowsFile
from assets.ingestion.sifting import QUARANTINE
from resources.contract.dataset import Dataset

_RUN_ROWS = 1 << 19
_BATCH_ROWS = 1 << 18

Key = tuple[bool, date | None]  # whether in quarantine, and the event day: None while a row has none


def staged_name(*, quarantined: bool, day: date) -> str:
    """The file of one day in a staged folder."""
    return f"{'quarantine' if quarantined else 'event_day'}={day}.parquet"


class Staging:
    """A folder that grows by rows of any day. `finish` gives each day its files; whatever else ends it leaves nothing."""

    def __init__(self, dataset: Dataset, root: Path) -> None:
        self._dataset = dataset
        self._folder = root / f".{uuid.uuid4().hex}.tmp"
        self._folder.mkdir(parents=True)
        self._held: dict[Key, list[pa.Table]] = defaultdict(list)
        self._num_held = 0
        self._runs: list[dict[Key, int]] = []  # of each run, where in its file the rows of a key are

    def __enter__(self) -> Staging:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)  # where it was finished, it has another name

    def add(self, table: pa.Table, *, quarantined: bool, day: date | None) -> None:
        """Rows behind those of their day that are there."""
        if table.num_rows:
            self._held[quarantined, day].append(table)
            self._num_held += table.num_rows
        if self._num_held >= _RUN_ROWS:
            self._spill()

    def finish(self, folder: Path, *, home: date) -> dict[str, int]:
        """The folder is whole under its name; its files with their rows. Rows of no day are of the day `home`."""
        written = {}
        keys = {key for run in self._runs for key in run} | self._held.keys()
        with ExitStack() as stack:
            runs = [
                {
                    quarantined: stack.enter_context(pa.ipc.open_file(stack.enter_context(pa.memory_map(str(path)))))
                    for quarantined, path in ((False, self._run(at, False)), (True, self._run(at, True)))
                    if path.exists()
                }
                for at in range(len(self._runs))
            ]
            for quarantined, day in sorted({(bad, day or home) for bad, day in keys}):
                name = staged_name(quarantined=quarantined, day=day)
                file = RowsFile(self._dataset, self._folder / name, place=None if quarantined else day)
                for key in [(quarantined, day), *([(quarantined, None)] if day == home else [])]:
                    for at, run in enumerate(self._runs):
                        if key in run:
                            file.take(pa.Table.from_batches([runs[at][quarantined].get_batch(run[key])]))
                    for table in self._held.get(key, ()):
                        file.take(table)
                file.close()
                written[name] = file.rows
        for at in range(len(self._runs)):
            for quarantined in (False, True):
                self._run(at, quarantined).unlink(missing_ok=True)
        self._folder.rename(folder)
        return written

    def _spill(self) -> None:
        """What is held, as one more run on the disk."""
        places: dict[Key, int] = {}
        for quarantined in (False, True):
            keys = sorted((key for key in self._held if key[0] == quarantined), key=lambda key: key[1] or date.min)
            if not keys:
                continue
            schema = QUARANTINE if quarantined else self._dataset.row_schema
            with pa.ipc.new_file(str(self._run(len(self._runs), quarantined)), schema) as stream:
                for at, key in enumerate(keys):
                    whole = pa.concat_tables([table.cast(schema) for table in self._held[key]]).combine_chunks()
                    (batch,) = whole.to_batches()
                    stream.write_batch(batch)
                    places[key] = at
        self._runs.append(places)
        self._held.clear()
        self._num_held = 0

    def _run(self, at: int, quarantined: bool) -> Path:
        return self._folder / f"{at}.{'bad' if quarantined else 'good'}.arrow"
