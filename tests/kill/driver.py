"""Runs the command line in this process and kills it with SIGKILL when a named point is reached: `driver.py POINT ARGS...`."""

from __future__ import annotations

import os
import signal
import sys

from resources.lake import Lake
from slicewise import app


def main() -> None:
    point, *arguments = sys.argv[1:]

    def step(reached: str) -> None:
        if reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    assert Lake.__init__.__kwdefaults__ is not None
    Lake.__init__.__kwdefaults__["step"] = step
    app(arguments)


if __name__ == "__main__":
    main()
