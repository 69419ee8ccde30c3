"""Rows drawn in proportion to their weights, block by block: few of a block are ever held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mercer.domains.block_values import Block, no_weight

__all__ = ["Arrivals", "first_arrivals"]

#: Positions among all rows, logarithms of times, and weights.
Found = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Arrivals:
    """The first arrivals of a block, each row after an exponential time at the rate of its weight.

    The first of all rows are draws without replacement, each in proportion to the weights that are
    left; a row of weight 2 arrives as the first of two of weight 1, one of weight 0 never
    (Efraimidis and Spirakis 2006). Times belong to positions, so that cuts do not change them.

    Parameters
    ----------
    seed : int
        Of the times.
    m : int
        How many rows are wanted of all blocks.
    """

    seed: int
    m: int

    def __call__(self, block: Block) -> Found:
        """Return at most m + 1 rows of a block: positions, logarithms of times, weights."""
        rows = len(block)
        w = np.ones(rows) if block.weight is None else np.asarray(block.weight, dtype=np.float64)
        bits = np.random.PCG64(self.seed).advance(block.start)  # a row takes one number
        u = np.random.Generator(bits).random(rows)
        some = np.flatnonzero(w > 0)
        with np.errstate(divide="ignore"):  # u = 0 comes first
            times = np.log(-np.log1p(-u[some])) - np.log(w[some])
        first = np.argsort(times, kind="stable")[: self.m + 1]
        return block.start + some[first], times[first], w[some[first]]


def first_arrivals(found: Sequence[Found], m: int) -> tuple[np.ndarray, np.ndarray]:
    """Return m positions in ascending order, and weights whose sums stand for those of all rows.

    A row comes before the time τ of the first that is left out with probability 1 − exp(−wτ), and
    stands for its weight over that; such sums are right on average (Cohen and Kaplan 2007).

    Parameters
    ----------
    found : sequence of tuples
        What `Arrivals` returns of each block.
    m : int
        How many; all that have weight where they are no more.
    """
    index, times, w = (np.concatenate(parts) for parts in zip(*found, strict=True))
    if not len(index):
        raise no_weight("RowBlocks")
    order = np.argsort(times, kind="stable")
    first = order[:m][np.argsort(index[order[:m]])]
    index, weight = index[first], w[first]
    if len(order) > m:
        weight = weight / -np.expm1(-np.exp(np.log(weight) + times[order[m]]))
    return index, weight
