"""What every part of a contract is made of: a model that refuses what it does not know, and the words for its values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Tag

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Strict(BaseModel):
    """A model that refuses unknown keys and silent conversions, and cannot change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)


def plain_name(value: str) -> str:
    """The value, if it can name a column or a dataset of ours."""
    if not _NAME.fullmatch(value):
        raise ValueError(f"must be lower-case letters, digits and '_', beginning with a letter; got {value!r}")
    return value


def _zone(value: str) -> str:
    if value not in available_timezones():
        raise ValueError(f"must be an IANA time zone such as Europe/Berlin or UTC; got {value!r}")
    ZoneInfo(value)
    return value


def first_if(is_first: Callable[[Any], bool]) -> Discriminator:
    """Tells the two kinds of a union apart before they are checked, so that a fault is one line and not one per kind."""
    return Discriminator(lambda value: "<first>" if is_first(value) else "<second>")


def is_word(value: Any) -> bool:
    return isinstance(value, str)


def says(key: str) -> Callable[[Any], bool]:
    return lambda value: key in value if isinstance(value, dict) else hasattr(value, key)


First, Second = Tag("<first>"), Tag("<second>")
Name = Annotated[str, AfterValidator(plain_name)]
Zone = Annotated[str, AfterValidator(_zone)]
