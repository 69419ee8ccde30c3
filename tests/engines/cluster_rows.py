"""Rows, centres and steps that the tests of a cluster share."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import RBF, RowBlocks
from mercer.solvers.falkon.steps import Products, Residuals, RightSides, RowSketch

rng = np.random.default_rng(0)
N, M = 600, 12
X, Y, W = rng.standard_normal((N, 3)), rng.standard_normal((N, 2)), rng.random(N)
Z, V = X[:M].copy(), rng.standard_normal((M, 2))
KERNEL = RBF(1.3)
SMALL = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
STEPS = [
    RightSides(2),
    Products(np.array([0.3, 0.0])),
    Residuals(np.array([0.1, -0.2]), (0, 1), np.array([0.0, 0.3])),
    RowSketch(8, 1),
]


def blocks(rows=70):
    """Return the rows as dask has them, in other chunks than the targets."""
    import dask.array as da

    return RowBlocks.from_dask(
        da.from_array(X, chunks=(rows, 2)), da.from_array(Y, chunks=(77, 1)), W
    )


@dataclass(frozen=True)
class Flat:
    """A step that needs no targets."""

    width: int = 2
    n_sums: int = 0

    def __call__(self, F, y, w, xp):
        return F[:, :2], np.zeros(0)


@dataclass(frozen=True)
class Slow:
    """A step that takes its time: longer than it takes to kill a worker, or to close a client."""

    step: Any
    seconds: float = 0.1

    width = property(lambda self: self.step.width)
    n_sums = property(lambda self: self.step.n_sums)

    def __call__(self, F, y, w, xp):
        time.sleep(self.seconds)
        return self.step(F, y, w, xp)


@dataclass(frozen=True)
class Broken:
    """A step with an error of its own."""

    error: Exception
    width: int = 2
    n_sums: int = 0

    def __call__(self, F, y, w, xp):
        raise self.error
