"""The baselines fitted on a model's window, and what of a day the window had never seen: one pass over its files."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from assets.evaluation.baselines import SAMPLE_ROWS, ItemCounts, ItemRate, LogisticRegression
from assets.evaluation.examples import Examples, examples
from assets.preprocessing.layout import Layout
from resources.contract.errors import DataError
from resources.contract.manifest import Ledger, Manifest
from resources.lake import Lake

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class FittedBaselines:
    """What is known of a window beside the model.

    Attributes:
        known: per category the codes that occur in the window, ascending, "missing" among them.
        rows: of the window.
        changed: days of the window that were rebuilt after the model was trained; the baselines saw their new rows.
    """

    layout: Layout
    item_rate: ItemRate
    logistic_regression: LogisticRegression
    known: tuple[np.ndarray, ...]
    rows: int
    changed: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """What they were fitted on."""
        sampled = self.logistic_regression.rows
        return {"rows": self.rows, "logistic_regression_rows": sampled, "changed": list(self.changed)}

    def unseen(self, parts: list[Examples]) -> dict[str, float]:
        """Per category the share of rows whose value did not occur in the window."""
        words = np.concatenate([self.layout.categories_of(part.records) for part in parts])
        return {
            name: float(1 - np.isin(words[:, place], self.known[place]).mean())
            for place, name in enumerate(self.layout.categories)
        }


def fit_baselines(lake: Lake, ledger: Ledger, model: Manifest, layout: Layout) -> FittedBaselines:
    """The baselines of a model. Raises DataError where a day of its window is gone or has other columns than `layout`.

    The logistic regression is fitted on the first rows of each file, in proportion: a file's rows lie in random order.
    """
    days = sorted({parent.day for parent in model.parents if parent.asset == "features"})
    window = [(_built(ledger, "features", day), _built(ledger, "labels", day)) for day in days]
    for features, _ in window:
        if Layout.from_json(features.facts["layout"]) != layout:
            raise DataError(
                f"features {features.day} hold other columns than those of the judged day {model.day}: nothing can be "
                "fitted on both. Run the days of the window again, so that all have the contract's present columns."
            )
    total = sum(features.rows_out for features, _ in window)
    counts: list[ItemCounts] = []
    codes = [[np.zeros(1, np.uint32)] for _ in layout.categories]
    sample: list[tuple[np.ndarray, np.ndarray]] = []
    for part in (part for pair in window for part in examples(lake, *pair)):
        counts.append(ItemCounts.of(layout.items_of(part.records), part.labels))
        for place, words in enumerate(layout.categories_of(part.records).T):
            codes[place].append(np.unique(words))
        taken = len(part.labels) * min(total, SAMPLE_ROWS) // total
        sample.append((np.array(part.records[:taken]), part.labels[:taken]))
    records, labels = (np.concatenate(columns) for columns in zip(*sample, strict=True))
    pinned = {(parent.asset, parent.day): parent.digest for parent in model.parents}
    changed = tuple(
        f"{m.asset} {m.day}" for pair in window for m in pair if pinned.get((m.asset, m.day)) != m.content_digest
    )
    if changed:
        log.warning(f"rebuilt after model {model.day} was trained, so that the baselines see other rows: {changed}")
    return FittedBaselines(
        layout=layout,
        item_rate=ItemRate(ItemCounts.total(counts)),
        logistic_regression=LogisticRegression(records, labels, layout),
        known=tuple(np.unique(np.concatenate(of_category)) for of_category in codes),
        rows=total,
        changed=changed,
    )


def _built(ledger: Ledger, asset: str, day: date) -> Manifest:
    manifest = ledger.get(asset, day)
    if manifest is None:
        raise DataError(f"{asset} {day} is gone, though the model was trained on it. Build it again.")
    return manifest
