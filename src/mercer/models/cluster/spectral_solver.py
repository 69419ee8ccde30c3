"""The leading eigenvectors of a normalised affinity: by products, or by one factorisation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg.blas import dsymm
from scipy.linalg.lapack import dpotrf, dpotrs

from mercer.engines.budget import require_memory
from mercer.models.cluster.spectral_operator import NormalisedAffinity
from mercer.operators import Operator
from mercer.settings import get_config
from mercer.solvers import DenseEigen, Eigen, EigenPairs, Solution, SubspaceIteration

__all__ = ["leading_pairs"]

DENSE = 400  # rows up to which all of LAPACK's work is done in no time
MATRICES = 5  # that LAPACK takes then
FACTORS = 20000  # rows up to which a factorisation is worth trying
OVERSAMPLE = 10
BAND = 32  # rows that are scaled while they are near the core


def leading_pairs(S: Any, k: int, tol: float, random_state: Any) -> Solution:
    """Return the k largest eigenvalues of S and their eigenvectors.

    Products first; where they cost as much as a factorisation without an end in sight, as with
    eigenvalues that crowd at 1, the inverse of (1 + σ)I − S is iterated with, which tells them
    apart. The matrix is overwritten then if it is the operator's own.

    Parameters
    ----------
    S : NormalisedAffinity or LowRankAffinity
        The operator I + S.
    k : int
        How many.
    tol : float
        Largest ‖Sz − λz‖ wanted.
    random_state : RandomState
        Source of the starting block.
    """
    n = S.shape[0]
    width = k + OVERSAMPLE
    few = n <= max(DENSE, 4 * width) and 8 * MATRICES * n * n <= get_config().memory
    if few and S.matrix is not None:
        return _dense(S, k, tol)
    require_memory(
        8 * n * 10 * width, f"{S.owner}: the search for {k} eigenvectors of {n} rows",
        "Ask for fewer clusters",
    )  # fmt: skip
    able = n <= FACTORS and S.matrix is not None
    able = able and (S.owned or S.matrix.nbytes <= get_config().memory // 2)  # type: ignore[union-attr]
    # A product with a few vectors is one read of n² numbers, a factorisation n³/3 additions and
    # multiplications: as long as n/300 products. With a copy to make it may take longer to begin.
    limit = max(6, n // (300 if S.owned else 6 * width)) if able else 1000
    solver = SubspaceIteration(tol / 2, limit, OVERSAMPLE, random_state)
    solution = _unshifted(solver.solve(Eigen(S, k)), tol)
    if solution.converged or not able:
        return solution
    return _by_inverse(S, k, tol, random_state, solution)


def _dense(S: NormalisedAffinity, k: int, tol: float) -> Solution:
    """Return the pairs by LAPACK, and how far the last one is from the next.

    All pairs: asked for some of many equal eigenvalues, LAPACK may return fewer.
    """
    found = _unshifted(DenseEigen().solve(Eigen(S, S.shape[0])), tol)
    values, vectors = found.value.values, found.value.vectors
    gap = {"gap": float(values[k - 1] - values[k])} if k < int(S.present.sum()) else {}
    pairs = EigenPairs(values[:k].copy(), vectors[:, :k].copy())
    return replace(found, value=pairs, extra={**found.extra, **gap})


def _unshifted(solution: Solution, tol: float) -> Solution:
    """Return the solution for S from that for I + S, whose largest eigenvalue is 2."""
    pairs = solution.value
    residual = 2.0 * float(solution.residual or 0.0)
    good = residual <= tol
    return replace(
        solution,
        value=EigenPairs(pairs.values - 1.0, pairs.vectors),
        residual=residual,
        converged=good,
        message="" if good else solution.message,
    )


class _Inverse(Operator):
    """((1 + σ)I − S)⁻¹ by a Cholesky factor in the lower triangle; S stays in the upper one."""

    symmetric = psd = True

    def __init__(self, S: NormalisedAffinity, sigma: float):
        matrix = S.matrix if S.owned else np.array(S.matrix, dtype=float)
        self.shape = S.shape
        self.own = S.diagonal() - 1.0  # that of S
        for start in range(0, len(matrix), BAND):  # type: ignore[arg-type]
            rows = slice(start, start + BAND)
            matrix[rows] *= -S.scale[rows][:, None]  # type: ignore[index]
            matrix[rows] *= S.scale  # type: ignore[index]
        np.fill_diagonal(matrix, 1.0 + sigma - self.own)  # type: ignore[arg-type]
        self.both, info = dpotrf(matrix.T, lower=1, overwrite_a=1, clean=0)  # type: ignore[union-attr]
        self.failed = info != 0
        self.pivots = np.diagonal(self.both).copy()

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        return np.asarray(dpotrs(self.both, V, lower=1)[0])

    def forward(self, V: np.ndarray) -> np.ndarray:
        """Return S V."""
        out = -dsymm(1.0, self.both, V, lower=0)
        out += (self.pivots + self.own)[:, None] * V
        return np.asarray(out)


def _by_inverse(
    S: NormalisedAffinity, k: int, tol: float, random_state: Any, first: Solution
) -> Solution:
    """Return the pairs by iteration with the inverse, and the residual with S itself."""
    # An error of the inverse relative to 1/σ is one of 1 + (1 − λ_k)/σ times that of S.
    sigma = float(np.clip(0.1 * (1.0 - first.value.values[-1]), 1e-8, 1.0))
    inverse = _Inverse(S, sigma)
    if inverse.failed:  # A had rows that a sum of affinities does not explain
        return first
    solver = SubspaceIteration(tol / 50, 200, OVERSAMPLE, random_state)
    found = solver.solve(Eigen(inverse, k))
    Z = found.value.vectors
    SZ = inverse.forward(Z)
    values = np.einsum("ij,ij->j", Z, SZ)
    residual = float(np.linalg.norm(SZ - Z * values, axis=0).max())
    good = residual <= tol
    message = "" if good else f"{S.owner}: {found.message or 'the eigenvectors are not exact.'}"
    return Solution(
        EigenPairs(values, Z),
        converged=good,
        n_iter=first.n_iter + found.n_iter,
        residual=residual,
        message=message,
    )
