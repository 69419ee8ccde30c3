"""How benchmarks time: mercer, peers and limits in turn, in one process, best of several."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Row", "best_of", "print_table"]


@dataclass
class Row:
    """One line of the table; a ratio of 2 means that the other took twice as long as mercer."""

    work: str
    mercer: float
    peer: float | None = None
    peer_name: str = ""
    limit: float | None = None
    limit_name: str = ""
    note: str = ""


def best_of(rounds: int, *works: Callable[[], object]) -> list[float]:
    """Time each work `rounds` times, one after the other in each round; return the best of each."""
    best = [float("inf")] * len(works)
    for _ in range(rounds):
        for i, work in enumerate(works):
            gc.collect()
            start = time.perf_counter()
            result = work()
            best[i] = min(best[i], time.perf_counter() - start)
            del result
    return best


def print_table(rows: list[Row]) -> None:
    """Print work, mercer, peer and ratio, limit and ratio."""
    head = ("work", "mercer", "peer", "peer/mercer", "limit", "mercer/limit", "note")
    lines = [head]
    for r in rows:
        lines.append(
            (
                r.work,
                _seconds(r.mercer),
                f"{_seconds(r.peer)} {r.peer_name}" if r.peer is not None else "",
                f"{r.peer / r.mercer:.2f}×" if r.peer is not None else "",
                f"{_seconds(r.limit)} {r.limit_name}" if r.limit is not None else "",
                f"{r.mercer / r.limit:.2f}×" if r.limit is not None else "",
                r.note,
            )
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for i, line in enumerate(lines):
        print("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip())
        if i == 0:
            print("  ".join("-" * w for w in widths))


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f} s" if value >= 0.1 else f"{1000 * value:.1f} ms"
