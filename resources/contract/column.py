"""What a contract says of one column: its name here, its type, and which values it may hold."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import BeforeValidator, Field, model_validator

from resources.contract.strict import Name, Strict


def _exact(value: object) -> object:
    # through text: Decimal(0.1) would be the double's 55 digits, not what the YAML says
    return Decimal(str(value)) if isinstance(value, int | float) and not isinstance(value, bool) else value


Number = Annotated[Decimal, BeforeValidator(_exact)]
_MARKS = ",.'_ \u00a0\u202f"


class Column(Strict):
    as_: Name | None = Field(default=None, alias="as")
    type: Literal["id", "category", "text", "integer", "number", "decimal", "flag"]
    required: bool = True
    personal: bool = False
    nulls: tuple[str, ...] | None = None  # instead of the source's
    strip_decimal_zero: bool = False  # ids: "17850.0" is 17850
    unsigned: bool = False  # integers: 0 to 2**64 - 1
    scale: int = Field(default=6, ge=0, le=12)  # decimals: digits kept after the point
    thousands: str | None = Field(default=None, min_length=1, max_length=1)  # numbers: the mark between groups of three
    decimal_mark: str = Field(default=".", min_length=1, max_length=1)  # numbers
    between: tuple[Number, Number] | None = None
    at_least: Number | None = None
    at_most: Number | None = None
    true: tuple[str, ...] = Field(default=("true", "1", "yes"))  # flags, compared in lower case
    false: tuple[str, ...] = Field(default=("false", "0", "no"))

    @model_validator(mode="after")
    def _fitting(self) -> Column:
        bounded = self.between is not None or self.at_least is not None or self.at_most is not None
        if bounded and not self.is_number:
            raise ValueError(f"bounds need an integer, number or decimal column; this one is of type {self.type!r}")
        if self.between is not None and (self.at_least is not None or self.at_most is not None):
            raise ValueError("say either `between` or `at_least`/`at_most`")
        if self.bounds[0] is not None and self.bounds[1] is not None and self.bounds[0] > self.bounds[1]:
            raise ValueError(f"the lower bound {self.bounds[0]} lies above the upper bound {self.bounds[1]}")
        if self.strip_decimal_zero and self.type != "id":
            raise ValueError("`strip_decimal_zero` is for ids")
        if self.unsigned and self.type != "integer":
            raise ValueError("`unsigned` is for integers")
        if (self.thousands is not None or self.decimal_mark != ".") and not self.is_number:
            raise ValueError(
                f"`thousands` and `decimal_mark` need a number's type; this column is of type {self.type!r}"
            )
        marks = [mark for mark in (self.thousands, self.decimal_mark) if mark is not None]
        if len(set(marks)) < len(marks) or any(mark not in _MARKS for mark in marks):
            raise ValueError(
                f"`thousands` and `decimal_mark` must be two different ones of {_MARKS!r}, got {', '.join(map(repr, marks))}"
            )
        if set(self.true) & set(self.false):
            raise ValueError("a word cannot mean both true and false")
        return self

    @property
    def is_number(self) -> bool:
        return self.type in ("integer", "number", "decimal")

    @property
    def bounds(self) -> tuple[Decimal | None, Decimal | None]:
        """Lowest and highest allowed value, both included."""
        return self.between if self.between is not None else (self.at_least, self.at_most)

    @property
    def arrow_type(self) -> pa.DataType:
        """How the column is kept: exact text, 64-bit integers, decimals of 18 digits, doubles, booleans."""
        if self.type == "decimal":
            return pa.decimal128(18, self.scale)
        if self.type == "integer" and self.unsigned:
            return pa.uint64()
        return {"integer": pa.int64(), "number": pa.float64(), "flag": pa.bool_()}.get(self.type, pa.string())
