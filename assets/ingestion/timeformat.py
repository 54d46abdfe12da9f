"""A format of times as the program that a compiled loop reads them by."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

_DATE = (("Y", "y"), ("m", "b", "B"), ("d",))
_STEP = re.compile(r"%(.)|([^%])", re.DOTALL)


@lru_cache(maxsize=64)
def program_of(form: str | None) -> np.ndarray | None:
    """The steps of a strptime format, or of ISO 8601; None for one with a letter that the loop does not know.

    Known are %Y %y %m %b %B %d %H %I with %p, %M %S %f and, at the end, %z: each once, a whole date among them.
    """
    from assets.ingestion.kernels import times as kernel

    if form is None:
        clock = (kernel.T_OR_SPACE, kernel.HOUR, ord(":"), kernel.MINUTE, kernel.SECONDS_IF_ANY, kernel.OFFSET_IF_ANY)
        return np.array([kernel.YEAR, ord("-"), kernel.MONTH, ord("-"), kernel.DAY, *clock], np.int64)
    codes = {
        **{"Y": kernel.YEAR, "y": kernel.SHORT_YEAR, "m": kernel.MONTH, "b": kernel.MONTH_WORD, "B": kernel.MONTH_NAME},
        **{"d": kernel.DAY, "H": kernel.HOUR, "I": kernel.HOUR_12, "p": kernel.HALF, "M": kernel.MINUTE},
        **{"S": kernel.SECOND, "f": kernel.FRACTION, "z": kernel.OFFSET},
    }
    found = [(match[1], match[2]) for match in _STEP.finditer(form)]
    letters = [letter for letter, _ in found if letter and letter != "%"]
    fits = (
        all(letter in codes and letters.count(letter) == 1 for letter in letters)
        and all(sum(letter in letters for letter in kind) == 1 for kind in _DATE)
        and not {"H", "I"} <= set(letters)
        and ("I" in letters) == ("p" in letters)
        and ("z" not in letters or form.endswith("%z"))
        and not re.search(r"%f(%[^z%]|\d)", form)  # where its digits end could not be told
        and form == form.strip()
    )
    if not fits or "%" in re.sub(r"%.", "", form, flags=re.DOTALL):
        return None
    steps: list[int] = []
    for letter, literal in found:
        steps += [codes[letter]] if letter and letter != "%" else (literal or "%").encode()
    return np.array(steps, np.int64)
