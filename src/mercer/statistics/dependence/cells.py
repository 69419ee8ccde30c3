"""How tests of independence explain themselves: HSIC of the matrices of shares of both variables.

With A_j what the contrast makes of the matrix of column j of X, and G_k that of column k of Y, the
cell (j, k) is Σ A_j ∘ G_k. The cells sum to the statistic, and so does what is shuffled of them:
one pass over the pairs of rows for each draw gives all. The columns of X share half of the
statistic, given all of Y, and those of Y the other half, given all of X: Owen's values of the game
in which X and Y are two unions.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mercer.errors import InvalidInput, who
from mercer.memory import require_memory, row_blocks
from mercer.operators import inverses, shuffled_cells
from mercer.rkhs import EntryShares, Explanation, Function, rows_with_columns
from mercer.statistics.base import TestResult
from mercer.statistics.dependence.shuffled import Contrast, mean_shift
from mercer.statistics.observations import Observations, labels_at, observations, rescaled
from mercer.statistics.permutation import Shuffle, drawn_there
from mercer.statistics.samples import Pair
from mercer.statistics.shares import (
    TestExplanation,
    columned,
    host_draws,
    players,
    product_terms,
    refuse_rank,
    told,
)

ROUNDING = 2.0**-46  # of a mean of products of kernel values, relative to the largest


class SharedVariable:
    """The matrices of shares of one variable, each made a contrast or centred.

    Parameters
    ----------
    kernel : Kernel
        That of the variable.
    points : canonical collection
        Its rows.
    weights : ndarray of shape (n,)
        Weights of the rows.
    contrast : bool or None
        Whether matrices are made contrasts, of the unbiased estimate or not; None to centre them.
    own, names, groups : object
        Names that the sample has, and those of `TestResult.explain`.
    """

    def __init__(
        self,
        kernel: Any,
        points: Any,
        weights: np.ndarray,
        contrast: bool | None,
        own: Any,
        names: Any,
        groups: Any,
    ):
        f = Function(kernel, points, np.zeros(len(weights)))
        Z, _ = rows_with_columns(f, points)
        terms = product_terms(kernel, Z)
        self.groups, self.names = players(terms, Z.shape[1], own, names, groups)
        self.shares, self.points = EntryShares(terms, self.groups, Z), Z
        self.error, self.n = terms.error, len(weights)
        self.largest = float(np.abs(np.asarray(kernel.diag(points), dtype=float)).max())
        sums, diagonals = self._sums(weights)
        self.parts = [
            Contrast.linear(s, d, weights, contrast)
            if contrast is not None
            else Contrast(mean_shift(s, weights.sum(), weights), np.ones(self.n), 1.0, False)
            for s, d in zip(sums, diagonals, strict=True)
        ]
        self.excess = np.array([c.excess(d) for c, d in zip(self.parts, diagonals, strict=True)])

    def __len__(self) -> int:
        return len(self.groups)

    def _sums(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return G w and the diagonal of each matrix of shares G."""
        sums, diagonals = np.empty((2, len(self), self.n))
        for rows in self.blocks():
            G = self.shares.stack(rows, slice(0, self.n))
            sums[:, rows] = G @ w
            diagonals[:, rows] = G[:, np.arange(G.shape[1]), np.arange(rows.start, rows.stop)]
        return sums, diagonals

    def blocks(self) -> list[slice]:
        """Return blocks of rows."""
        return row_blocks(self.n, 8 * self.n * (self.shares.count + self.shares.bound.workspace))

    def tile(self, rows: slice, cols: slice) -> np.ndarray:
        """Return tiles of all matrices, shape (count, rows, columns)."""
        G = self.shares.stack(rows, cols)
        out = np.stack([c.tile(T, rows, cols) for c, T in zip(self.parts, G, strict=True)])
        both = np.arange(max(rows.start, cols.start), min(rows.stop, cols.stop))
        out[:, both - rows.start, both - cols.start] -= self.excess[:, both]
        return out

    def whole(self) -> np.ndarray:
        """Return all matrices whole, shape (n, n, count)."""
        out = np.empty((self.n, self.n, len(self)))
        for rows in self.blocks():
            out[rows] = np.moveaxis(self.tile(rows, slice(0, self.n)), 0, 2)
        return out


def explain_pair(
    result: TestResult,
    *,
    given: Pair,
    variables: tuple[Any, Any],
    unbiased: bool,
    null: str,
    n_permutations: int,
    state: tuple[Any, Any],
    blocks: Any,
    strata: Any,
    rank: Any,
    batch: int,
    place: Any,
    pairs: bool,
    columns: Any = None,
    groups: Any = None,
) -> TestExplanation:
    """Return the shares of columns in the criterion of two variables.

    Parameters
    ----------
    result : TestResult
        The test.
    given : Pair
        What was tested.
    variables : pair
        As the user gave them, for their names.
    unbiased : bool
        Which estimate.
    null, n_permutations, blocks, strata, rank : object
        As the test took them.
    state : tuple
        Of the generator, before the first draw.
    batch, place : object
        How many draws were made at a time, and where.
    pairs, columns, groups : object
        See `TestResult.explain`.
    """
    refuse_rank(rank)
    names, together = _of_both(columns, "columns"), _of_both(groups, "groups")
    seen = observations(given)
    pair, exponent = seen.pair, sum(seen.exponents)
    own = [columned(variable) for variable in variables]
    x = SharedVariable(pair.kernel_x, pair.X, seen.weights, unbiased, own[0], names[0], together[0])
    width = np.shape(pair.Y)[1] if np.ndim(pair.Y) == 2 else 0
    second = own[1] or [f"y{k}" for k in range(width)] or None
    ones = np.ones(pair.n)
    y = SharedVariable(pair.kernel_y, pair.Y, ones, None, second, names[1], together[1])
    p, q = len(x), len(y)
    draws = n_permutations if null == "permutation" else 0
    require_memory(
        8 * (pair.n**2 * min(p, q) + (draws + 1) * (pair.n + 4 * (p + q + p * q))),
        f"{who()}: shares of {p} and {q} columns in {pair.n} rows and {draws} draws",
        "Test a sample of the rows, or give columns together by groups=",
    )
    P = np.arange(pair.n)[None]
    if draws:
        design = Shuffle(
            pair.n,
            blocks=labels_at(blocks, seen.index, given.n, "blocks"),
            strata=labels_at(strata, seen.index, given.n, "strata"),
        )
        made = drawn_there(design, place, draws)
        P = np.concatenate([P, host_draws(made, state, draws, batch)])
    if q <= p:
        cells = shuffled_cells(x.tile, p, y.whole(), P)
    else:
        cells = shuffled_cells(y.tile, q, x.whole(), inverses(P)).swapaxes(1, 2)
    cells = rescaled(cells, exponent)
    parts = [0.5 * cells.sum(axis=2), 0.5 * cells.sum(axis=1)]
    between = [(j, p + k) for j in range(p) for k in range(q)] if pairs else []
    if pairs:
        parts.append(cells.reshape(len(P), -1))
    size = float(np.ldexp(x.largest * y.largest, exponent))
    error = 4 * float(np.ldexp(x.error * y.largest + y.error * x.largest, exponent))
    return told(
        result,
        (*x.names, *y.names),
        np.concatenate(parts, axis=1),
        between if pairs else None,
        alone=False,
        resolution=ROUNDING * size,
        scale=size,
        error=error,
        telling=partial(_telling, seen, x, y, exponent),
    )


def _of_both(given: Any, name: str) -> tuple[Any, Any]:
    """Return what was given for X and for Y."""
    if given is None:
        return None, None
    if not isinstance(given, tuple | list) or len(given) != 2 or isinstance(given[0], str):
        raise InvalidInput(
            f"{who()}: {name}={given!r}; give a pair of {name}, of X and of Y, each of which may "
            "be None."
        )
    return given[0], given[1]


def _telling(
    seen: Observations,
    x: SharedVariable,
    y: SharedVariable,
    exponent: int,
    count: int,
    judges: list[int],
) -> dict[str, tuple[np.ndarray, Explanation]]:
    """Return the rows that add most to the criterion."""
    n = x.n
    values = np.empty((n, len(x) + len(y)))
    for rows in row_blocks(n, 32 * n * (x.shares.bound.workspace + y.shares.bound.workspace)):
        A, G = (side.tile(rows, slice(0, n)) for side in (x, y))
        values[rows, : len(x)] = 0.5 * np.einsum("pij,ij->ip", A, G.sum(axis=0))
        values[rows, len(x) :] = 0.5 * np.einsum("ij,pij->ip", A.sum(axis=0), G)
    values = np.ldexp(values, exponent)
    _, once = np.unique(seen.index, return_index=True)  # of a row that counts many times one
    best = once[np.argsort(-values[once][:, judges].sum(axis=1), kind="stable")[:count]]
    data = np.empty((len(best), values.shape[1]), dtype=object)
    for i, row in enumerate(best):
        cells = [[_cells(side.points, row, g) for g in side.groups] for side in (x, y)]
        data[i] = [*cells[0], *cells[1]]
    shares = Explanation(values[best], 0.0, (*x.names, *y.names), data, game="baseline")
    return {"X and Y": (seen.index[best], shares)}


def _cells(points: Any, row: int, group: tuple[int, ...]) -> Any:
    """Return what a row holds in a group of columns."""
    columns = points.T if isinstance(points, np.ndarray) else points.columns
    held = tuple(columns[j][row] for j in group)
    return held[0] if len(held) == 1 else held
