"""Quadratic forms vᵀKv of the pooled points for many label vectors: tiled, stored or low rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.engines import blocks, pick
from mercer.engines.forms import quadratic
from mercer.kernels import Kernel, Precomputed
from mercer.operators import Dense, Gram
from mercer.settings import get_config
from mercer.solvers import rpcholesky
from mercer.solvers.checks import check_index

__all__ = ["LowRankForms", "TiledForms", "choose_forms", "transposed_product"]

ROUNDING = 2.0**-46  # error of a mean of kernel values, relative to the largest k(x, x)


def transposed_product(V: np.ndarray, A: np.ndarray) -> np.ndarray:
    """Return VᵀA in float64, by blocks of rows, for V of any dtype.

    Parameters
    ----------
    V : ndarray of shape (N, b)
        Label vectors.
    A : ndarray of shape (N,) or (N, c)
        The other factor.
    """
    out = np.zeros((V.shape[1], *A.shape[1:]))
    for rows in blocks.row_blocks(len(V), 64 * max(1, V.shape[1])):
        out += V[rows].T.astype(np.float64, copy=False) @ A[rows]
    return out


class TiledForms:
    """vᵀKv from tiles of K, in one pass over half of them for each batch of vectors.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    Z : canonical collection
        The points.
    weights : ndarray of shape (N,)
        t, for the row sums Kt.
    keep : bool
        Whether several passes are to come: then K is kept, if it takes at most half the budget.
    """

    error: np.ndarray | None = None

    def __init__(self, kernel: Kernel, Z: Any, weights: np.ndarray, keep: bool):
        engine = pick(Z)
        self.kernel, self.weights = kernel, weights
        points = engine.asarray(Z)
        self.bound = kernel._bind(points)
        with np.errstate(all="ignore"):  # an overflow is named when its tile comes
            self.diagonal = np.asarray(engine.to_numpy(engine.diag(kernel, Z)), dtype=np.float64)
        N = len(weights)
        given = isinstance(kernel, Precomputed)
        if keep and not given and 8 * N * N <= get_config().memory // 2:
            K = engine.to_numpy(blocks.gram(self.bound))
            self.bound = Precomputed()._bind(K)
        self.sums = np.zeros(0)  # found by the first call
        self.squares = 0.0

    @property
    def resolution(self) -> float:
        """Rounding error of a statistic made of means of kernel values."""
        return ROUNDING * float(np.abs(self.diagonal).max(initial=0.0))

    def __call__(self, V: np.ndarray, squares: bool = False) -> np.ndarray:
        """Return vᵀKv for each column of V; the first call also finds Kt.

        Parameters
        ----------
        V : ndarray of shape (N, b)
            Label vectors.
        squares : bool
            Whether the first call also finds Σᵢⱼ tᵢtⱼkᵢⱼ².
        """
        t = None if len(self.sums) else self.weights
        other = 0 if not isinstance(self.bound.kernel, Precomputed) else 8 * len(V) ** 2
        q, sums, second = quadratic(self.bound, V, t, squares, min(other, get_config().memory // 2))
        if sums is not None:
            self.sums, self.squares = sums, second
        return q


class LowRankForms:
    """vᵀKv ≈ |Fv|² with FᵀF ≈ K from randomly pivoted Cholesky; K − FᵀF has a known diagonal.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    Z : canonical collection
        The points.
    weights : ndarray of shape (N,)
        t, for the row sums Kt.
    rank : int
        Most pivots.
    rng : Generator
        Source of the pivots.
    owner : str
        Whose argument the rank is.
    """

    def __init__(
        self,
        kernel: Kernel,
        Z: Any,
        weights: np.ndarray,
        rank: int,
        rng: np.random.Generator,
        owner: str = "",
    ):
        self.weights, N = weights, len(weights)
        blocks.require_memory(
            2 * min(rank, N) * N * 8,
            f"{owner}: a factor of rank {min(rank, N)} of the Gram matrix of {N} points",
            "Use a smaller rank",
        )
        given = isinstance(kernel, Precomputed)
        operator = Dense(Z, symmetric=True) if given else Gram(kernel, Z, keep=False)
        with np.errstate(all="ignore"):  # rpcholesky names an overflow
            self.low = rpcholesky(operator, rank, random_state=int(rng.integers(2**31)))
        self.F = self.low.F
        self.diagonal = np.einsum("ri,ri->i", self.F, self.F)
        exact = np.asarray(operator.diagonal(), dtype=np.float64)
        self.resolution = ROUNDING * float(np.abs(exact).max(initial=0.0))
        self.error = np.maximum(exact - self.diagonal, 0.0)
        self.sums = self.F.T @ (self.F @ weights)
        self.squares = 0.0

    def __call__(self, V: np.ndarray, squares: bool = False) -> np.ndarray:
        """Return |Fv|² for each column of V.

        Parameters
        ----------
        V : ndarray of shape (N, b)
            Label vectors.
        squares : bool
            Whether to find Σᵢⱼ tᵢtⱼkᵢⱼ².
        """
        if squares:
            self.squares = float((((self.F * self.weights) @ self.F.T) ** 2).sum())
        G = transposed_product(V, self.F.T)
        return np.asarray((G * G).sum(1))


def choose_forms(
    kernel: Kernel,
    Z: Any,
    weights: np.ndarray,
    *,
    rank: int | None = None,
    rng: np.random.Generator | None = None,
    keep: bool = False,
    owner: str = "",
) -> TiledForms | LowRankForms:
    """Return the quadratic forms of K, exact or of low rank.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    Z : canonical collection
        The points.
    weights : ndarray of shape (N,)
        Weights t of the points.
    rank : int, optional
        Rank of the approximation; exact when left out.
    rng : Generator, optional
        Source of the pivots.
    keep : bool
        Whether several batches are to come.
    owner : str
        Whose argument the rank is.
    """
    if rank is None:
        return TiledForms(kernel, Z, weights, keep)
    rank = check_index(rank, "rank", owner, 1)
    return LowRankForms(kernel, Z, weights, rank, rng or np.random.default_rng(), owner)
