"""Bags of points for the laws: examples of the mean map, and its definition for two bags."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer import kernels as mk
from mercer.domains import Table
from mercer.kernels.strings import Spectrum, Subsequence

__all__ = ["bag_kernels", "mean_map"]


def common_first(x: Any, y: Any) -> float:
    """Return 1 where the first coordinates have the same sign, and 0 else."""
    return float((x[0] > 0) == (y[0] > 0))


def bag_kernels() -> dict[str, mk.Kernel]:
    """Return kernels by name; points are sampled from their domains."""
    return {
        "SetKernel": mk.SetKernel(mk.RBF(1.3)),
        "SetKernel-linear": mk.SetKernel(mk.Linear()),
        "SetKernel-median": mk.SetKernel(mk.Matern("median", 2.5)),
        "SetKernel-normalized": mk.SetKernel(2.0 * mk.RBF() + 0.5).normalized(),
        "SetKernel-objects": mk.SetKernel(mk.FromFunction(common_first)) + 0.5,
        "SetKernel-counted": mk.SetKernel(Spectrum(2)),
        "SetKernel-strings": mk.SetKernel(Subsequence(2, 0.4)),
        "SetKernel-tables": mk.SetKernel(mk.RBF().on("a") * mk.Linear().on(["b", "c"])),
    }


def mean_map(k: Any, x: Any, y: Any) -> float:
    """Return 1/(|A||B|) Σ Σ κ(a, b) for two bags of points, 0 where one is empty."""
    from mercer.testing.oracles import oracle, points

    if not len(x) or not len(y):
        return 0.0
    inner = k.kernel
    A, B = (points(inner, _collection(inner, bag)) for bag in (x, y))
    return math.fsum(oracle(inner, a, b) for a in A for b in B) / (len(A) * len(B))


def _collection(inner: mk.Kernel, bag: tuple) -> Any:
    """Return the points of a bag as a collection; rows of a table have the names a, b, c."""
    if inner.domain.name == "tables":
        return Table(dict(zip("abc", np.array(bag).T, strict=True)))
    return list(map(list, bag)) if isinstance(bag[0], tuple) else list(bag)
