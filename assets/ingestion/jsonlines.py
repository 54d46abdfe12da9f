"""JSON lines: one object a line. Numbers keep the text they were written with; no float ever stands in between.

`a.b[0].c` is a path through objects and lists, unless a line has a key that is written just so. Where a line lacks a
key, the one that differs from it only in the case of Latin letters stands for it. A null and a value that is not there
are the same; a key that stands in its object twice breaks the line, since it cannot be told which one is meant. Lines
that are nested deeper than 512 are taken for malformed, as are those that are no object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from assets.ingestion import unpacking
from assets.ingestion.chunk import Chunk, Layout, categories_of, declared_columns
from assets.ingestion.fieldpath import parse_path
from assets.ingestion.files import LandedFile
from assets.ingestion.reasons import Reason
from assets.ingestion.spans import Reading, Spans
from assets.ingestion.unpacking import text_blocks
from resources.contract.dataset import Dataset

_REASONS = (Reason.MALFORMED_JSON, Reason.NOT_A_SCALAR, Reason.NOT_TEXT, Reason.DUPLICATE_KEY)
_BY_PATH, _BY_NAME = 2, 3  # as the kernel's
_NAMED = 1024  # keys of a file that are told


def chunks(dataset: Dataset, file: LandedFile) -> Iterator[Chunk]:
    """The rows of a file of JSON lines. A key that a line does not name is null there; blank lines are no rows."""
    names = list(declared_columns(dataset))
    reading = Reading(
        file=file.name,
        scan=Lines.of(names),
        columns={name: place for place, name in enumerate(names)},
        reasons=_REASONS,
        categories=categories_of(dataset),
    )
    yield from reading.chunks(text_blocks(file, dataset.source.encoding), line=1)


@dataclass(frozen=True, kw_only=True)
class Lines:
    """The wanted names as the tree that the kernel walks along, and the keys that the file has shown."""

    keys: np.ndarray
    edges: np.ndarray
    nodes: np.ndarray
    items: np.ndarray
    slots: np.ndarray
    follow: np.ndarray
    shown: np.ndarray
    plain: np.ndarray
    met: np.ndarray
    stack: np.ndarray
    hows: np.ndarray
    faults: np.ndarray
    undone: np.ndarray
    known: np.ndarray = field(default_factory=lambda: np.zeros(2 * _NAMED, np.uint64))
    fresh: np.ndarray = field(default_factory=lambda: np.empty((2, 2 * _NAMED), np.int32))
    found: dict[str, None] = field(default_factory=dict)

    @classmethod
    def of(cls, names: list[str]) -> Lines:
        """For columns of these names, in this order."""
        from assets.ingestion.kernels.jsonlines import DEPTH, enter

        nodes, steps = [(-1, _BY_PATH)], {}  # steps: (node, key or place) -> node

        def node_behind(node: int, step: str | int) -> int:
            if (node, step) not in steps:
                steps[node, step] = len(nodes)
                nodes.append((-1, _BY_PATH))
            return steps[node, step]

        for column, name in enumerate(names):
            nodes[node_behind(0, name)] = (column, _BY_NAME)
        for column, name in enumerate(names):
            node = 0
            for step in parse_path(name) or ():
                node = node_behind(node, step)
            if node:
                nodes[node] = (column, _BY_PATH)
        edges, keys = [], b""
        inner = {node for node, _ in steps}
        for (node, step), behind in steps.items():
            if isinstance(step, str):
                key = step.encode()
                as_written = json.dumps(step, ensure_ascii=False) == f'"{step}"'
                by_case = node == 0 and behind not in inner
                edges.append((node, len(keys), len(key), behind, as_written, by_case))
                keys += key
        items = [(node, step, behind) for (node, step), behind in steps.items() if isinstance(step, int)]
        plain = np.ones(256, np.bool_)
        plain[[*range(0x20), *b'"\\']] = False
        lines = cls(
            keys=np.frombuffer(keys, np.uint8),
            edges=np.array(edges, np.int64).T.copy(),
            nodes=np.array(nodes, np.int64).T.copy(),
            items=np.array(items, np.int64).reshape(-1, 3).T.copy(),
            slots=np.empty(1 << (4 * len(edges)).bit_length(), np.int64),
            follow=np.full(len(edges) + len(nodes), -1, np.int64),
            shown=np.zeros(len(edges), np.bool_),
            plain=plain,
            met=np.zeros(len(edges), np.bool_),
            stack=np.zeros((3, DEPTH), np.int64),
            hows=np.zeros(len(names), np.int64),
            faults=np.zeros(len(names), np.int64),
            undone=np.zeros(6 * max(length for _, _, length, *_ in edges), np.uint8),
        )
        enter(lines.keys, lines.edges, lines.slots)
        return lines

    def __call__(self, data: bytes, at: int, line: int, spans: Spans, *, last: bool) -> tuple[int, int, int, int]:
        from assets.ingestion.kernels.jsonlines import scan

        at, line, rows, broken, num_fresh = scan(
            np.frombuffer(data, np.uint8),
            at,
            line,
            last,
            unpacking.LINE_BYTES,
            self.plain,
            self.keys,
            self.edges,
            self.nodes,
            self.items,
            self.slots,
            self.follow,
            self.shown,
            self.known,
            self.met,
            self.stack,
            self.hows,
            self.faults,
            self.undone,
            *spans.places,
            self.fresh,
        )
        for start, stop in self.fresh[:, :num_fresh].T.tolist():
            self.found[json.loads(data[start:stop]).encode(errors="replace").decode()] = None
        return at, line, rows, broken

    def gather(self, data: bytes, *places_and_buffers: np.ndarray) -> int:
        from assets.ingestion.kernels.jsonlines import gather

        return gather(np.frombuffer(data, np.uint8), *places_and_buffers)

    def seen(self) -> Layout:
        return tuple((name, "") for name in self.found)
