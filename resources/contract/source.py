"""What a contract says of landed files: where they lie, how they are written, and when one is taken."""

from __future__ import annotations

import codecs
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from resources.contract.strict import First, Second, Strict, Zone, first_if

# the fields of Apache's and nginx's combined log format, and how they write the time
ACCESS_LOG_FIELDS = (
    *("host", "ident", "user", "time", "method", "path", "protocol", "status", "bytes", "referer", "agent"),
)
ACCESS_LOG_TIME = "%d/%b/%Y:%H:%M:%S %z"
_REMOTE = ("s3://", "gs://", "az://", "http://", "https://")


def is_address(text: str) -> bool:
    """Whether a text names something in an object store or behind HTTP."""
    return text.startswith(_REMOTE)


class Csv(Strict):
    """How delimited text is written. `quote: null` means that quotes are letters like any other."""

    delimiter: str = Field(default=",", min_length=1, max_length=1)
    quote: str | None = Field(default='"', min_length=1, max_length=1)
    escape: str | None = Field(default=None, min_length=1, max_length=1)  # what follows it is meant literally
    comment: str | None = Field(default=None, min_length=1, max_length=1)  # a line that begins with it holds nothing
    header: Annotated[
        Annotated[Literal[True], First] | Annotated[tuple[str, ...], Field(min_length=1), Second],
        first_if(lambda value: isinstance(value, bool)),
    ] = True  # the first line names the columns, or: these are their names and there is no such line

    @model_validator(mode="after")
    def _distinct_letters(self) -> Csv:
        letters = [c for c in (self.delimiter, self.quote, self.escape, self.comment) if c is not None]
        if len(set(letters)) < len(letters) or any(not c.isascii() or c in "\r\n" for c in letters):
            raise ValueError(
                "`delimiter`, `quote`, `escape` and `comment` must be different ASCII characters within a line, got "
                + ", ".join(map(repr, letters))
            )
        if isinstance(self.header, tuple) and len(set(self.header)) < len(self.header):
            raise ValueError("`header` names a column twice: it could not be told which one is meant")
        return self


class Source(Strict):
    files: str  # an absolute path or an address, with {day}, * and ?
    format: Literal["csv", "jsonl", "parquet", "access_log"]
    encoding: str = "utf-8"
    csv: Csv = Csv()
    nulls: tuple[str, ...] = Field(default=("",))  # words that mean "no value"; a column may say its own
    on_delete: Literal["keep", "retract"] = "keep"  # what becomes of the rows of a landed file that disappears
    bad_files: Literal["skip", "stop"] = "skip"  # whether the day goes on without a file that cannot be read
    settle_seconds: float = Field(default=10, ge=0)  # a file that was written to more recently is not taken yet
    ready: str | None = None  # a file or a day is taken once this one is there: "{file}.done", ".../{day}/_SUCCESS"
    region: str | None = None

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, value: str) -> str:
        try:
            codecs.getincrementaldecoder(value)
            "".encode(value)
        except LookupError as error:
            raise ValueError(
                f"must be an encoding that Python knows, such as utf-8 or latin-1; got {value!r}"
            ) from error
        return value

    @model_validator(mode="after")
    def _one_mark(self) -> Source:
        if self.ready is not None and ("{file}" in self.ready) == ("{day}" in self.ready):
            raise ValueError(
                "`ready` must hold either {file}, a mark beside every file such as '{file}.done', or {day}, one for a whole "
                f"day; got {self.ready!r}"
            )
        if self.ready is not None and "{day}" in self.ready and not self.names_day:
            raise ValueError("`ready` waits for whole days, but `files` has no {day}: mark single files with {file}")
        return self

    @property
    def names_day(self) -> bool:
        """Whether the path tells the delivery day."""
        return "{day}" in self.files

    @property
    def is_remote(self) -> bool:
        """Whether the files lie in an object store or behind HTTP."""
        return is_address(self.files)


class Time(Strict):
    column: str
    format: str | None = None  # strptime; none: ISO 8601
    epoch: Literal["s", "ms", "us", "ns", "auto"] | None = None  # auto: the one unit that fits every row of a file
    zone: Zone | None = None  # of zone-less times; offsets in the text are honoured
    skipped: Literal["quarantine", "shift"] = "quarantine"  # local times that a clock change leaves out
    repeated: Literal["first", "last", "quarantine"] = "first"  # local times that come twice

    @model_validator(mode="after")
    def _one_reading(self) -> Time:
        if self.epoch and (self.format or self.zone):
            raise ValueError("`epoch` counts from 1970 in UTC: leave out `format` and `zone`")
        if self.format is not None and "%" not in self.format:
            raise ValueError(
                f"`format` is written with strptime's % letters, such as '%Y-%m-%d %H:%M:%S', got {self.format!r}; leave it "
                "out for ISO 8601"
            )
        if self.format and self.zone is None and not any(offset in self.format for offset in ("%z", "%Z")):
            raise ValueError(
                f"`format` {self.format!r} reads no offset (%z), so no row would have a time: name the `zone` that it is "
                "written in, such as UTC"
            )
        return self
