"""Lines on stderr that say how far a long piece of work has come."""

from __future__ import annotations

import sys
import time

from mercer.settings import get_config

__all__ = ["Progress", "Ticker"]


class Progress:
    """A line on stderr for work of more than two seconds, when ``config(progress=True)``."""

    def __init__(self, total: int, what: str):
        self.total, self.what, self.done = total, what, 0
        self.on = get_config().progress
        self.start = self.last = time.monotonic()

    def step(self, parts: int = 1) -> None:
        """Count some parts of the work as done."""
        self.done += parts
        now = time.monotonic()
        if self.on and now - self.start > 2 and (now - self.last > 0.5 or self.done == self.total):
            self.last = now
            left = (now - self.start) * (self.total - self.done) / self.done
            end = "\n" if self.done == self.total else ""
            sys.stderr.write(
                f"\rmercer: {self.what} {100 * self.done // self.total} %, {left:.0f} s left {end}"
            )
            sys.stderr.flush()


class Ticker:
    """A line on stderr, rewritten while work of unknown length goes on for more than two seconds.

    Parameters
    ----------
    what : str
        What the work is, in a word.
    """

    def __init__(self, what: str):
        self.what = what
        self.on = get_config().progress
        self.start = self.last = time.monotonic()
        self.shown = False

    def tell(self, text: str) -> None:
        """Say how things stand, at most twice a second."""
        now = time.monotonic()
        if self.on and now - self.start > 2 and now - self.last > 0.5:
            self.last, self.shown = now, True
            sys.stderr.write(f"\rmercer: {self.what}, {now - self.start:.0f} s, {text}   ")
            sys.stderr.flush()

    def close(self) -> None:
        """End the line, if there is one."""
        if self.shown:
            sys.stderr.write("\n")
            sys.stderr.flush()
