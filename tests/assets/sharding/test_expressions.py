from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from assets.sharding.expressions import evaluate, holds
from resources.contract.errors import ConfigError, DataError


def test_values_come_back_in_the_order_of_the_rows_whatever_their_number() -> None:
    table = pa.table({"x": np.random.default_rng(0).integers(0, 1000, 300_000)})
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1, 123_456), table.slice(123_457)])
    assert np.array_equal(evaluate(chunked, "x * 2 + 1", key="k").to_numpy(), table["x"].to_numpy() * 2 + 1)


def test_a_condition_that_is_unknown_does_not_hold() -> None:
    table = pa.table({"x": [1, None, 3]})
    assert holds(table, "x > 1", key="k").tolist() == [False, False, True]
    assert holds(table.slice(0, 0), "x > 1", key="k").tolist() == []
    assert holds(table, "true", key="k").tolist() == [True, True, True]


def test_a21_hours_are_of_utc_whatever_the_machine_thinks() -> None:
    program = (
        "import pyarrow as pa; from assets.sharding.expressions import evaluate\n"
        "table = pa.table({'event_time': pa.array([23 * 3600 * 10**6]).cast(pa.timestamp('us', 'UTC'))})\n"
        "print(evaluate(table, 'hour(event_time)', key='k')[0], evaluate(table, 'cast(event_time as date)', key='k')[0])\n"
    )
    environment = {**os.environ, "TZ": "Asia/Shanghai", "PYTHONPATH": os.pathsep.join(sys.path)}
    printed = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert printed.stdout.split() == ["23", "1970-01-01"]


def test_decimals_and_big_integers_stay_exact() -> None:
    big = 9_007_199_254_740_993
    table = pa.table({"n": [big], "d": pa.array(["0.10"]).cast(pa.decimal128(18, 2))})
    assert holds(table, f"n = {big}", key="k").tolist() == [True]
    assert holds(table, f"n = {big - 1}", key="k").tolist() == [False]
    assert holds(table, "d = 0.1", key="k").tolist() == [True]


def test_types_that_do_not_fit_are_the_contracts_fault() -> None:
    with pytest.raises(ConfigError, match=r"events\.buy: \"starts_with\(x, 'C'\)\" does not fit the columns"):
        evaluate(pa.table({"x": [1.5]}), "starts_with(x, 'C')", key="events.buy")
    with pytest.raises(ConfigError, match="'x' must be true or false on every row, its type is int64"):
        holds(pa.table({"x": [1]}), "x", key="examples")


def test_values_that_do_not_fit_are_the_datas_fault() -> None:
    with pytest.raises(DataError, match=r"examples: 'cast\(x as integer\) > 0' fails on a row.*try_cast"):
        evaluate(pa.table({"x": ["1", "one"]}), "cast(x as integer) > 0", key="examples")
