"""The cells of the sweep: workloads of `works` on a wide grid, and drawn at random."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from works import WORKS
from works.base import Cell

__all__ = ["drawn", "grid"]


def grid() -> Iterator[Cell]:
    """Return the fixed cells."""
    for name, work in WORKS.items():
        for settings in work.grid:
            yield Cell(name, work.group, settings, work.make)


def drawn(count: int, seed: int) -> Iterator[Cell]:
    """Return cells drawn at random: works in turn, sizes on a logarithmic scale."""
    rng = np.random.default_rng(seed)
    names = list(WORKS)
    for i in range(count):
        name = names[i % len(names)]
        work = WORKS[name]
        settings: dict[str, Any] = {
            "n": int(np.exp(rng.uniform(np.log(50), np.log(work.most)))),
            "d": int(np.exp(rng.uniform(np.log(2), np.log(100)))),
        }
        for key, values in work.others.items():
            settings[key] = values[int(rng.integers(len(values)))]
        yield Cell(name, work.group, settings, work.make, random=True)
