"""The Gram matrix of Newton's method where systems are solved by conjugate gradients.

A factor K ≈ FᵀF of random pivots is made once. For weights S the preconditioner of ridge·I + SKS is
ridge·I + SFᵀFS, by the Woodbury identity; so a step costs products with K, kept or made in tiles,
and no n × n factor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.kernels import Kernel
from mercer.kernels.parameters import check_diagonal
from mercer.models.ridge_gram import RidgeGram
from mercer.operators import Operator
from mercer.settings import get_config
from mercer.solvers import ConjugateGradients, Linear, NystromPreconditioner, rpcholesky
from mercer.solvers.linear.cg import default_rank
from mercer.solvers.risk.metric import SharedGram

__all__ = ["IterativeGram"]

TOL = 1e-4  # relative residual of a Newton system; each step gains as many digits
SHARE = 4  # F and three matrices of its size take at most one part in so many of the budget
STEPS = 1000  # of conjugate gradients in a Newton step at most
ENOUGH = 1e-12  # of the trace: nothing but rounding is left


class IterativeGram(SharedGram):
    """K and solves with ridge·I + SKS by conjugate gradients, in place of a factor.

    Parameters
    ----------
    kernel : Kernel
        With words resolved.
    X : canonical collection of n points
        In float64; worked on where they are.
    owner : str
        Whose matrix it is; messages begin with it.
    random_state : int, RandomState or None, default=None
        Source of the pivots; None stands for 0, as the answer does not depend on it.
    storage : str, optional
        How `RidgeGram` keeps K.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        owner: str,
        random_state: Any = None,
        storage: str | None = None,
    ):
        self.K = RidgeGram(kernel, X, storage)
        n = self.n = self.K.shape[0]
        self.shape, self.symmetric, self.psd = (n, n), True, True
        self.owner, self.jitter = owner, 0.0
        self._diagonal = np.asarray(self.K.diagonal(), dtype=float)
        check_diagonal(kernel, self._diagonal)
        seed = 0 if random_state is None else random_state
        rank = min(default_rank(n), max(1, get_config().memory // (SHARE * 32 * n)), n)
        self.F = rpcholesky(self.K, rank, seed, tol=ENOUGH).F
        self._s, self._ridge, self._rough_only = np.zeros(n), 0.0, False
        self._preconditioner: NystromPreconditioner | None = None

    def _block(self, rows: Any, cols: Any) -> np.ndarray:
        return self.K._block(rows, cols)

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        return self.K.exact(V)

    def factor(self, s: np.ndarray, ridge: float, rough: bool = False) -> None:
        """Make the preconditioner of ridge·I + SKS; a rough solve is the preconditioner alone."""
        self._s, self._ridge, self._rough_only = s, ridge, rough
        self._preconditioner = NystromPreconditioner(self.F * s, ridge)

    def solve(self, R: np.ndarray) -> np.ndarray:
        """Return (ridge·I + SKS)⁻¹R up to a relative residual of 1e-4, 0 in the rows with s = 0."""
        used = self._s > 0
        R = np.where(used if R.ndim == 1 else used[:, None], R, 0.0)
        if self._rough_only:
            out = self._preconditioner.solve(R)  # type: ignore[union-attr]
        else:
            solver = ConjugateGradients(
                tol=TOL, max_iter=STEPS, preconditioner=self._preconditioner
            )
            problem = Linear(_Scaled(self.K, self._s), R, ridge=self._ridge)
            out = np.array(solver.solve(problem).value, dtype=float)
        out[~used] = 0.0
        return out


class _Scaled(Operator):
    """SKS for a diagonal S."""

    symmetric, psd = True, True

    def __init__(self, K: RidgeGram, s: np.ndarray):
        self.K, self.s, self.shape, self.dtype = K, s, K.shape, K.dtype

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        s = self.s if V.ndim == 1 else self.s[:, None]
        return s * self.K._matmul(s * V)

    def _block(self, rows: Any, cols: Any) -> np.ndarray:
        at = np.arange(len(self.s))
        return self.s[at[rows], None] * self.K._block(rows, cols) * self.s[at[cols]]

    def diagonal(self) -> np.ndarray:
        """Return the diagonal of SKS."""
        return self.s**2 * np.asarray(self.K.diagonal(), dtype=float)
