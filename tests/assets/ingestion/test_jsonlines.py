"""JSON lines: values keep the text they were written with, and one bad line costs one line."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.ingestion import unpacking
from assets.ingestion.fieldpath import parse_path
from resources.contract.dataset import Dataset
from resources.contract.errors import DataError

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

JSONL = "format: jsonl"
CONTRACTS: dict[str, Dataset] = {}
NAMES = ["event_time", "u", "a.b[0].c", "x[1]", "Case", "v.w", "v.z"]
Pairs = tuple[tuple[str, Any], ...]
SOUND = [
    *(
        "1",
        "-0",
        "12.750",
        "1e5",
        "1E+05",
        "NaN",
        "Infinity",
        "-Infinity",
        "true",
        "false",
        "null",
        '"a"',
        '""',
        '"é漢"',
    ),
    *('"\\u00e9"', '"\\uD83D\\ude00"', '"\\"\\\\\\/\\b\\f\\n\\r\\t"', '"\\u0000"', "[]", "{}"),
]
HALVES = ['"\\ud800"', '"\\udc00\\ud800"', '"a\\uD83Dx"', '"\\udbff\\u0041"']
FAULTY = [
    *(
        "01",
        "1.",
        ".5",
        "+1",
        "-",
        "1e",
        "nul",
        '"\\x"',
        '"\\u12g4"',
        '"\\u123"',
        '"\t"',
        '"',
        "[1,]",
        '{"c":1,}',
        "-NaN",
    ),
    *("tru", "[1", '{"c"}', '{"c" 1}', "1 2", "", "--1", "1e+", "\x0b1", "nulll", '"\x1f"', "[}", "{]", "'a'"),
]
KEYS = [
    *NAMES,
    *("a", "b", "c", "v", "w", "x", "z"),
    *("case", "CASE", "V.W", "U", "\\u0075", "\\ud800", "", "\\u0061", "é"),
]


def written(chance: Random, blank: str) -> str:
    """One line of JSON, which has a fault now and then."""

    def value(depth: int, keys: list[str]) -> str:
        kind = chance.random()
        if depth and kind < 0.5:
            inner = [value(depth - 1, KEYS) for _ in range(chance.randrange(4))]
            if keys and chance.random() < 0.7:
                return chained([f'"{key}"{blank}:{blank}{value(depth - 1, KEYS)}' for key in keys], "{}")
            return chained(inner, "[]")
        return chance.choice(SOUND if kind < 0.985 else HALVES if kind < 0.993 else FAULTY)

    def chained(parts: list[str], brackets: str) -> str:
        return brackets[0] + blank + f"{blank},{blank}".join(parts) + blank + brackets[1]

    def path(key: str) -> str:
        if key == "a":
            return f'{{{blank}"b":[{{"c":{value(0, [])}}},{value(1, [])}]}}'
        if key == "v":
            return f'{{"w":{blank}{value(0, [])},"q":1, "z":{value(0, [])}}}'
        return f"[{value(0, [])},{blank}{value(0, [])}]" if key == "x" else value(0, [])

    keys = chance.sample(KEYS, chance.randrange(9))
    if chance.random() < 0.1 and keys:
        keys.append(chance.choice(keys))
    parts = [
        f'"{key}"{blank}:{path(key) if chance.random() < 0.75 else value(2, chance.sample(KEYS, 3))}' for key in keys
    ]
    line = blank + chained(parts, "{}") + blank
    if chance.random() < 0.15:
        at = chance.randrange(len(line) + 1)
        letter = chance.choice([*'{}[]",:\\ 0e-.u', "\x01", "é", "null", ""])
        line = line[:at] + letter + line[at + chance.randrange(2) :]
    return line


def of_line(line: str) -> list[str | None] | str:
    """What Python's json makes of a line: the values of the wanted names, or why there are none."""
    try:
        row = json.loads(line, object_pairs_hook=tuple, parse_int=str, parse_float=str, parse_constant=str)
    except ValueError:
        return "malformed_json"
    if not line.strip(" \t").startswith("{"):
        return "malformed_json"
    if twice(row, ["event_time", "u", "a.b[0].c", "a", "x[1]", "x", "Case", "v.w", "v.z", "v"]):
        return "duplicate_key"
    values: list[str | None] = []
    for name in NAMES:
        found = [value for key, value in row if key == name] or at_path(row, parse_path(name))
        if found == "duplicate_key":
            return found
        found = found or [value for key, value in row if key not in (*NAMES, "a", "v", "x") and folds(key, name)]
        if len(found) > 1:
            values.append("duplicate_key!")
        else:
            [value] = found or [None]
            if isinstance(value, tuple | list):
                values.append("not_a_scalar!")
            elif isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
                values.append("not_text!")
            else:
                values.append({True: "true", False: "false"}[value] if isinstance(value, bool) else value)
    faults = [value for value in values if value and value.endswith("!")]
    return faults[0][:-1] if faults else values


def folds(key: str, name: str) -> bool:
    """Whether two keys differ at most in the case of Latin letters."""
    return [c.lower() if c.isascii() else c for c in key] == [c.lower() if c.isascii() else c for c in name]


def twice(row: Pairs, keys: list[str]) -> bool:
    return any([key for key, _ in row].count(wanted) > 1 for wanted in keys)


def at_path(value: Any, path: tuple[str | int, ...] | None) -> Any:
    """What stands there, as a list of one; an empty one if nothing does."""
    siblings = {"a": ["b"], "b": [], "v": ["w", "z"]}
    last: str | int = ""
    for step in path or ():
        if isinstance(step, int):
            if not isinstance(value, list) or len(value) <= step:
                return []
            value = value[step]
        else:
            if not isinstance(value, tuple):
                return []
            if twice(value, [*siblings.get(str(last), []), step]):
                return "duplicate_key"
            found = [inner for key, inner in value if key == step]
            if not found:
                return []
            [value] = found
        last = step
    return [value] if path else []


@settings(max_examples=150)
@given(
    seed=st.integers(0, 1 << 32),
    blank=st.sampled_from(["", "", " ", "\t "]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    block=st.sampled_from([5, 100, 1000, 1 << 20]),
)
def test_values_and_faults_are_those_that_python_finds(room: Room, seed: int, blank: str, end: str, block: int) -> None:
    chance = Random(seed)
    lines = [written(chance, blank) if chance.random() < 0.9 else blank for _ in range(40)]
    if "all" not in CONTRACTS:
        others = ", ".join(f'"{name}": {{as: c{i}, type: text, required: false}}' for i, name in enumerate(NAMES[2:]))
        CONTRACTS["all"] = room.dataset(f"{{u: {{as: user, type: id}}, {others}}}", source=JSONL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unpacking, "BLOCK_BYTES", block)
        chunks = room.chunks(CONTRACTS["all"], end.join(lines))
    found: dict[int, object] = {}
    for chunk in chunks:
        found |= {
            int(line): list(row.values()) for line, row in zip(chunk.lines, chunk.columns.to_pylist(), strict=True)
        }
        found |= {broken.line: broken.reason.text for broken in chunk.broken}
        assert all(lines[int(line) - 1] == chunk.raw(i) for i, line in enumerate(chunk.lines))
        assert all(lines[broken.line - 1] == broken.raw for broken in chunk.broken)
    assert found == {at: of_line(line) for at, line in enumerate(lines, 1) if line.strip(" \t")}


COLUMNS = "{u: {as: user, type: id}, v: {type: text, required: false}}"


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("12.750", "12.750"),
        ("9007199254740993", "9007199254740993"),
        ("1e5", "1e5"),
        ("-0", "-0"),
        ("NaN", "NaN"),
        ("true", "true"),
        ("false", "false"),
        ("null", None),
        ('"007"', "007"),
        ('"a\\nb\\u0000"', "a\nb\0"),
        ('"漢"', "漢"),
    ],
)
def test_a_value_keeps_its_text(room: Room, written: str, text: str | None) -> None:
    [chunk] = room.chunks(room.dataset(COLUMNS, source=JSONL), f'{{"event_time":"x","u":1,"v":{written}}}\n')
    assert chunk.columns.to_pylist() == [{"event_time": "x", "u": "1", "v": text}]


@pytest.mark.parametrize("block", [1, 10, 1 << 20])
def test_a_bad_line_is_broken_alone_with_its_number_and_text(
    room: Room, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(unpacking, "BLOCK_BYTES", block)
    bad = ['{"u": 1', "[1]", "5", '{"u": {"deep": 1}}', '{"u": [1]}', '{"u": "\\ud800"}', '{"u":1},{"u":2}', "x" * 50]
    lines = [line for text in bad for line in ('{"event_time": 1, "u": 2}', "", text)]
    chunks = room.chunks(room.dataset(COLUMNS, source=JSONL), "\r\n".join(lines))
    assert [line for chunk in chunks for line in chunk.lines.tolist()] == [1 + 3 * i for i in range(8)]
    broken = [row for chunk in chunks for row in chunk.broken]
    assert [(row.line, row.raw) for row in broken] == [(3 + 3 * i, text) for i, text in enumerate(bad)]
    assert [row.reason.text for row in broken] == [
        *("malformed_json", "malformed_json", "malformed_json", "not_a_scalar", "not_a_scalar", "not_text"),
        *("malformed_json", "malformed_json"),
    ]
    assert all(chunk.raw(0) == '{"event_time": 1, "u": 2}' for chunk in chunks if len(chunk.lines))


def test_keys_may_come_and_go_and_all_are_told(room: Room) -> None:
    [chunk] = room.chunks(room.dataset(COLUMNS, source=JSONL), '{"u":1}\n{"v":2,"event_time":3,"x":{"y":[1]}}\n')
    assert chunk.columns["u"].to_pylist() == ["1", None]
    assert chunk.columns["v"].to_pylist() == [None, "2"]
    assert [name for name, _ in chunk.seen] == ["u", "v", "event_time", "x"]


def test_an_exact_decimal_passes_through_a_whole_delivery(room: Room) -> None:
    dataset = room.dataset("{u: {as: user, type: id}, price: {type: decimal}, big: {type: integer}}", source=JSONL)
    manifest = room.delivered(
        dataset, '{"event_time":"2025-03-01T00:00:00Z","u":1,"price":12.750,"big":9007199254740993}\n'
    )
    [row] = room.good(dataset, manifest).to_pylist()
    assert (str(row["price"]), row["big"]) == ("12.750000", 9007199254740993)


def read_one(room: Room, line: str, columns: str = COLUMNS) -> list[str | None] | str:
    """The values of the only line after the time, or why it is broken."""
    if columns not in CONTRACTS:
        CONTRACTS[columns] = room.dataset(columns, source=JSONL)
    [chunk] = room.chunks(CONTRACTS[columns], line)
    if chunk.broken:
        return chunk.broken[0].reason.text
    return list(chunk.columns.to_pylist()[0].values())[1:]


def test_a_path_leads_through_objects_and_lists_and_a_key_written_just_so_counts_more(room: Room) -> None:
    columns = '{"a.b[1].c": {as: user, type: id}, "a.d": {as: d, type: id}, "t[0][1]": {as: t, type: id}}'
    line = '{"a":{"b":[{"c":1},{"x":{"c":9},"c":2}],"d":"é"},"t":[[5,6],7]}'
    assert read_one(room, line, columns) == ["2", "é", "6"]
    assert read_one(room, '{"a.b[1].c":3,' + line[1:], columns) == ["3", "é", "6"]
    assert read_one(room, line[:-1] + ',"a.b[1].c":null}', columns) == [None, "é", "6"]
    assert read_one(room, '{"a":{"b":[{"c":1}],"d":[]}}', columns) == "not_a_scalar"
    assert read_one(room, '{"a":[],"t":{"0":1}}', columns) == [None, None, None]
    assert read_one(room, '{"a":{"d":1},"a":{"d":2}}', columns) == "duplicate_key"


def test_a_key_in_another_case_stands_for_one_that_the_line_lacks(room: Room) -> None:
    columns = "{Kind: {as: user, type: id}, v: {type: id, required: false}, V: {as: w, type: id, required: false}}"
    assert read_one(room, '{"KIND":1,"v":2}', columns) == ["1", "2", None]
    assert read_one(room, '{"KIND":1,"Kind":2,"V":3}', columns) == ["2", None, "3"]
    assert read_one(room, '{"KIND":1,"kind":2}', columns) == "duplicate_key"
    assert read_one(room, '{"KIND":1,"kind":2,"Kind":3}', columns) == ["3", None, None]


def test_a_key_that_is_written_with_escapes_is_the_same_key(room: Room) -> None:
    assert read_one(room, r'{"\u0075":1,"v":2}') == ["1", "2"]
    assert read_one(room, r'{"\u0075":1,"u":2}') == "duplicate_key"
    assert read_one(room, '{"q\\"uote":1}', "{'q\"uote': {as: user, type: id}}") == ["1"]
    assert read_one(room, '{"q"":1}', "{'q\"': {as: user, type: id}}") == "malformed_json"


@pytest.mark.parametrize(
    ("depth", "outcome"), [(511, ["1", None]), (512, "malformed_json"), (100_000, "malformed_json")]
)
def test_nesting_has_a_bound_and_never_ends_the_process(room: Room, depth: int, outcome: object) -> None:
    assert read_one(room, '{"u":1,"deep":' + "[" * depth + "]" * depth + "}") == outcome
    assert read_one(room, '{"u":1,"deep":' + '{"":' * depth + "1" + "}" * depth + "}") == outcome
    assert read_one(room, '{"u":1,"deep":' + "[" * depth) == "malformed_json"


def test_the_keys_that_a_file_shows_are_told_once_each_in_its_order(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "BLOCK_BYTES", 64)
    columns = '{"a.b": {as: user, type: id}, v: {type: id, required: false}}'
    lines = ['{"x":1,"a":{"b":1,"z":2}}', '{"V":1,"x":{"deeper":3}}', r'{"\u0078":1,"v":2,"\ud800":1}', '{"x":1,"é":2}']
    chunks = room.chunks(room.dataset(columns, source=JSONL), "\n".join(lines * 9))
    assert [name for name, _ in chunks[-1].seen] == ["x", "a", "V", "v", "?", "é"]
    assert len(chunks) > 1
    many = "".join(f'{{"u":{i},"k{i}":1}}\n' for i in range(5000))
    chunks = room.chunks(room.dataset(COLUMNS, source=JSONL), many)
    assert sum(chunk.columns.num_rows for chunk in chunks) == 5000 and 1000 < len(chunks[-1].seen) <= 2048


def test_a_line_longer_than_the_limit_refuses_the_file_whatever_the_blocks_are(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = room.dataset(COLUMNS, source=JSONL)
    monkeypatch.setattr(unpacking, "LINE_BYTES", 50)
    for block in (1, 7, 1 << 20):
        monkeypatch.setattr(unpacking, "BLOCK_BYTES", block)
        fits = '{"u":1}\n{"u":"' + "x" * 42 + '"}'
        assert len(fits.split("\n")[1]) == 50
        assert sum(chunk.columns.num_rows for chunk in room.chunks(dataset, fits + '\r\n{"u":1}')) == 3
        with pytest.raises(DataError, match="line 2 is longer than 50 bytes"):
            room.chunks(dataset, fits + ' \n{"u":1}')
