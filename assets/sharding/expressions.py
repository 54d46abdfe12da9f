"""Contract expressions over the rows of an Arrow table, worked out by DuckDB in row order, in UTC.

The text was checked against the allow-list when the contract was read (`resources.contract.expressions`).
"""

from __future__ import annotations

from functools import cache

import duckdb
import numpy as np
import pyarrow as pa

from resources.contract.errors import ConfigError, DataError


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """One database in memory per process: opening one costs more than most expressions."""
    connection = duckdb.connect(config={"threads": 1})
    # what an hour or a day of event_time is must not follow the machine's TZ
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection


def evaluate(table: pa.Table, expression: str, *, key: str) -> pa.Array:
    """The expression's value on every row, in the rows' order.

    Raises ConfigError where its types do not fit, DataError where a row's values do not.

    Args:
        key: where the expression stands in the YAML, for messages.
    """
    with _database().cursor() as cursor:
        try:
            values = cursor.from_arrow(table).select(duckdb.SQLExpression(f"({expression})").alias("value"))
            return values.to_arrow_table()["value"].combine_chunks()
        except duckdb.ProgrammingError as error:
            raise ConfigError(f"{key}: {expression!r} does not fit the columns: {_first_line(error)}") from error
        except duckdb.Error as error:
            raise DataError(
                f"{key}: {expression!r} fails on a row: {_first_line(error)} Guard it, for instance with try_cast or coalesce."
            ) from error


def holds(table: pa.Table, expression: str, *, key: str) -> np.ndarray:
    """bool per row: where a condition is true; null is not. Raises ConfigError where it is no condition."""
    values = evaluate(table, expression, key=key)
    if not pa.types.is_boolean(values.type):
        raise ConfigError(f"{key}: {expression!r} must be true or false on every row, its type is {values.type}.")
    return values.fill_null(False).to_numpy(zero_copy_only=False)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") + "."
