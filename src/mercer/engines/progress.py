"""A line on stderr that says how far a long piece of work has come."""

from __future__ import annotations

import sys
import time

from mercer.settings import get_config

__all__ = ["Progress"]


class Progress:
    """A line on stderr for work of more than two seconds, when ``config(progress=True)``."""

    def __init__(self, total: int, what: str):
        self.total, self.what, self.done = total, what, 0
        self.on = get_config().progress
        self.start = self.last = time.monotonic()

    def step(self) -> None:
        """Count one part of the work as done."""
        self.done += 1
        now = time.monotonic()
        if self.on and now - self.start > 2 and (now - self.last > 0.5 or self.done == self.total):
            self.last = now
            left = (now - self.start) * (self.total - self.done) / self.done
            end = "\n" if self.done == self.total else ""
            sys.stderr.write(
                f"\rmercer: {self.what} {100 * self.done // self.total} %, {left:.0f} s left {end}"
            )
            sys.stderr.flush()
