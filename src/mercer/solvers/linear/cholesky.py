"""Cholesky factorisation in place, with a jitter policy that reports what it added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import dtrmv

from mercer.checks import check_number
from mercer.domains import is_torch
from mercer.engines import Rates
from mercer.errors import InvalidInput, speaking_for, speaks, who
from mercer.memory import require_memory
from mercer.operators import Centered, Diagonal, Gram, LowRank, OnDevice, Operator, Scaled, Sum
from mercer.solvers.base import (
    Linear,
    Solution,
    as_columns,
    as_matrix,
    check_finite_symmetric,
    check_ridge,
    check_square,
    column_norms,
    describe,
    proven_residuals,
    require_definite,
)
from mercer.solvers.cost import Cost, Facts, gram_seconds
from mercer.solvers.linear.cholesky_factor import CholeskyFactor
from mercer.solvers.linear.device import factor_on_device
from mercer.solvers.linear.inplace import (
    fortran_float64,
    jitter_tried,
    jittered,
    not_positive_definite,
    potrf,
    restore,
)


def factor(
    K: Any,
    ridge: Any = 0.0,
    *,
    overwrite: bool = False,
    jitter: str | float = "auto",
    owner: Any = "",
    knob: str = "alpha",
) -> Any:
    """Factorise K + D = L Lᵀ, with D = ridge·I or diag(ridge).

    Always in float64. Cost n³/3 flops. No n×n array is allocated when `overwrite` is true and K is
    a writeable, contiguous float64 array (C or Fortran order): the factor then lives in K's memory.

    Parameters
    ----------
    K : array-like, tensor or Operator of shape (n, n)
        Symmetric and finite; one triangle of it is used. A tensor is factorised on its device.
    ridge : float or ndarray of shape (n,), default=0.0
        Added to the diagonal, ≥ 0.
    overwrite : bool, default=False
        Permission to destroy K. After a failure too K is no longer what it was. An Operator is
        never changed: what it holds is copied, what it makes afresh is factorised in place.
    jitter : "auto" or float, default="auto"
        What to do if the plain factorisation fails. "auto" adds 1e-14, 1e-12, 1e-10, 1e-8 times
        the mean of the diagonal, the first that succeeds; a number is the one (absolute) amount to
        try; 0.0 tries nothing. What was added is the factor's ``jitter``.
    owner : str or Kernel, default=""
        Whose matrix this is, normally the kernel's repr; messages begin with it.
    knob : str, default="alpha"
        What the user calls the ridge; messages say to raise it.

    Returns
    -------
    CholeskyFactor
        Solves with K + D, its log-determinant and the diagonal of its inverse; a `DeviceFactor`
        with the same methods for a tensor.

    Raises
    ------
    NotPositiveDefinite
        With the smallest eigenvalue of K + D, when no permitted jitter helps.
    InvalidInput
        When K is not square, finite and symmetric, or ridge is negative.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import factor
    >>> f = factor(np.array([[3.0, 1.0], [1.0, 3.0]]), ridge=1.0)
    >>> f.solve([5.0, 5.0]), f.jitter
    (array([1., 1.]), 0.0)
    >>> round(f.logdet(), 6), round(float(np.log(15.0)), 6)
    (2.70805, 2.70805)
    """
    with speaking_for(owner or "factor"):
        if not isinstance(jitter, str):
            check_number(jitter, "jitter", 0.0, closed=True)
        elif jitter != "auto":
            raise InvalidInput(f"{who()}: jitter={jitter!r}; give 'auto' or a number ≥ 0.")
        if isinstance(K, OnDevice):
            K, overwrite = K.tensor, False
        if is_torch(K):
            return factor_on_device(K, ridge, overwrite=overwrite, jitter=jitter, knob=knob)
        if isinstance(K, Operator):
            require_definite(K)
            check_square(K)
            K, overwrite = dense_copy(K)
        K = as_matrix(K)
        n = check_square(K)
        ridge = check_ridge(ridge, n)
        check_finite_symmetric(K)
        if not overwrite:
            require_memory(8 * n * n, f"{who()}: the {n} × {n} factor", "Use ConjugateGradients")
        a = fortran_float64(K, overwrite)
        diagonal = np.einsum("ii->i", a)
        with np.errstate(over="ignore"):
            diagonal += ridge
        kept = diagonal.copy()
        if not np.isfinite(kept).all():
            raise InvalidInput(f"{who()}: the diagonal plus ridge overflows; rescale the kernel.")
        added = 0.0 if potrf(a) else jittered(a, kept, jitter, potrf, restore)
        if added is None:
            raise not_positive_definite(a, jitter_tried(jitter), knob)
        return CholeskyFactor(a, added, kept)


def dense_copy(A: Operator) -> tuple[np.ndarray, bool]:
    """Write an operator out; True if nobody else holds the array, so that it may be destroyed.

    `Dense` hands out its own array, a `Gram` the matrix it keeps or, precomputed, the user's; of
    an operator from elsewhere nothing is known.
    """
    n = A.shape[0]
    require_memory(8 * n * n, f"{who()}: the {n} × {n} factor", "Use ConjugateGradients")
    K = np.asarray(A.to_dense())
    if type(A) not in (Gram, Sum, Scaled, Centered, Diagonal, LowRank) or not K.flags.owndata:
        return K, False
    held = (value for value in vars(A).values() if isinstance(value, np.ndarray))
    return K, not any(np.may_share_memory(K, value) for value in held)


@dataclass(frozen=True)
class Cholesky:
    """Solve `Linear` by factorisation: n³/3 flops, n² memory, exact up to rounding.

    The residual is computed from A's own entries, not from the factor, and has in it what rounding
    may hide of it. If it is above `tol`,
    because A is close to singular or jitter was added, up to three steps of iterative refinement
    are tried; if that does not help, the solution says that it is not converged.

    Parameters
    ----------
    jitter : "auto" or float, default="auto"
        Policy for a matrix that is not positive definite in floating point, see `factor`.
    tol : float, default=1e-6
        Relative residual below which the solution is called converged.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import Cholesky, Linear
    >>> solution = Cholesky().solve(Linear(np.diag([1.0, 3.0]), [2.0, 4.0], ridge=1.0))
    >>> solution.value, solution.converged, solution.extra["jitter"]
    (array([1., 1.]), True, 0.0)
    """

    jitter: str | float = "auto"
    tol: float = 1e-6

    @speaks("Cholesky")
    def __post_init__(self) -> None:
        check_number(self.tol, "tol", 0.0)

    def solve(self, problem: Linear) -> Solution:
        """Return the solution of a `Linear` problem; A and b are not changed.

        Parameters
        ----------
        problem : Linear
            The system.

        Returns
        -------
        Solution
            Value of b's shape; ``extra["jitter"]`` is what was added to the diagonal.
        """
        A, b, ridge = problem.checked("Cholesky")
        owner = describe(A, "Cholesky")
        f = factor(A, ridge, jitter=self.jitter, owner=owner)
        with np.errstate(over="ignore", invalid="ignore"):
            X, residuals, steps = self._refined(f, as_columns(b))
            residuals = proven_residuals(A, ridge, X, as_columns(b), residuals, self.tol)
        worst = float(residuals.max(initial=0.0))
        converged = worst <= self.tol
        message = (
            f"{owner}: A + ridge is singular to working precision: the relative residual is "
            f"{worst:.3g} (tolerance {self.tol:g}) after a jitter of {f.jitter:.3g}. "
            "Use a larger alpha (ridge), or drop duplicate points."
        )
        return Solution(
            value=X.reshape(b.shape),
            converged=converged,
            residual=worst,
            message="" if converged else message,
            extra={"jitter": f.jitter, "refinements": steps},
        )

    def _refined(self, f: CholeskyFactor, B: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        norms = column_norms(B)
        norms[norms == 0] = 1.0

        def residual(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            R = B - f.matmul(X)
            relative = column_norms(R) / norms
            return R, np.where(np.isnan(relative), np.inf, relative)

        X = f.solve(B)
        R, worst = residual(X)
        for step in range(3):
            if not worst.size or worst.max() <= self.tol or not np.isfinite(worst).all():
                return X, worst, step
            X_next = X + f.solve(R)
            R_next, worst_next = residual(X_next)
            better = worst_next < worst
            halved = worst_next.max() <= 0.5 * worst.max()
            X, R = np.where(better, X_next, X), np.where(better, R_next, R)
            worst = np.where(better, worst_next, worst)
            if not halved:
                return X, worst, step + 1
        return X, worst, 3


# ---- Changed factorisations: rows of a matrix added and taken out at n² flops each, not n³/3 ----


# A row taken out streams the factor through memory, a factorisation reuses what is in the cache:
# beyond this part of the rows it is quicker to factorise what is left.
_FEW = 1 / 64
_RUNS = 32  # of rows that stay together: fewer are copied as blocks
_CHUNK = 2**24  # entries that a compiled loop visits before it returns to Python


def append_rows(
    f: CholeskyFactor, C12: np.ndarray, C22: np.ndarray, knob: str = "alpha"
) -> CholeskyFactor:
    """Return the factor of the matrix with k more rows and columns; n²k + k³/3 flops.

    Where that fails, or the factor holds jitter, the whole matrix is factorised again.

    Parameters
    ----------
    f : CholeskyFactor
        Of the matrix so far, of order n; not changed.
    C12 : ndarray of shape (n, k)
        The new columns.
    C22 : ndarray of shape (k, k)
        The new corner, what is added to its diagonal included.
    knob : str
        Whose matrix this is, and the parameter that would make it definite, for messages.

    Returns
    -------
    CholeskyFactor
        Of order n + k.
    """
    n, k = C12.shape
    require_memory(8 * (n + k) ** 2, f"{who()}: the {n + k} × {n + k} factor", "Use fewer points")
    a = np.empty((n + k, n + k), order="F")
    a[:n, :n] = f._a
    a[:n, n:] = C12
    corner = np.array(C22, dtype=np.float64, order="F")
    diagonal = np.concatenate([f._diagonal, np.diagonal(corner)])
    # [C₁₁ C₁₂; · C₂₂] has the factor [L₁₁ 0; L₂₁ L₂₂], L₂₁ᵀ = L₁₁⁻¹C₁₂, L₂₂L₂₂ᵀ = C₂₂ − L₂₁L₂₁ᵀ.
    half = f.half_solve(C12)
    a[n:, :n] = half.T
    a[n:, n:] = corner
    low = np.array(corner - half.T @ half, order="F")
    if f.jitter == 0.0 and potrf(low):
        below = np.tril_indices(k)
        a[n:, n:][below] = low[below]
        return CholeskyFactor(a, 0.0, diagonal)
    return _factorised(a, diagonal, knob)


def delete_rows(f: CholeskyFactor, index: np.ndarray, knob: str = "alpha") -> CholeskyFactor:
    """Return the factor of the matrix without some rows and columns; 2n² flops each.

    Many rows at once, or rows of a factor with jitter, are left out by a new factorisation.

    Parameters
    ----------
    f : CholeskyFactor
        Of order n; not changed.
    index : array of int
        Distinct positions ≥ 0, fewer than n of them.
    knob : str
        Whose matrix this is, and the parameter that would make it definite, for messages.

    Returns
    -------
    CholeskyFactor
        Of order n − len(index).
    """
    keep = np.delete(np.arange(f.n), index)
    require_memory(8 * f.n**2, f"{who()}: the {f.n} × {f.n} factor", "Use fewer points")
    if f.jitter or len(index) > max(1, int(_FEW * f.n)):
        return _factorised(_part(f._a, keep), f._diagonal[keep], knob)
    from mercer.jit import rank_one

    rows = f._a.T.copy()  # row j holds column j of L; K is behind the diagonal
    for i in np.sort(index)[::-1]:
        # Without row i the columns behind it lose the column below Lᵢᵢ: L₃₃L₃₃ᵀ + l₃₂l₃₂ᵀ.
        x = np.zeros(f.n)
        x[i + 1 :] = rows[i, i + 1 :]
        rows[i, i + 1 :] = 0  # the row stays until the end, and must not act on those before it
        rows[:i, i] = 0
        step = max(1, _CHUNK // f.n)
        for first in range(int(i) + 1, f.n, step):
            rank_one(rows, x, first, min(first + step, f.n))
    return CholeskyFactor(_part(rows.T, keep), 0.0, f._diagonal[keep])


def drift(f: CholeskyFactor) -> float:
    """Return ‖(A − LLᵀ)v‖/‖Av‖ for one v of plus and minus one: what rounding has added up to."""
    if f.n == 0:
        return 0.0
    v = np.where(np.random.default_rng(f.n).random(f.n) < 0.5, -1.0, 1.0)
    exact = f.matmul(v) + f.jitter * v
    product = dtrmv(f._a, dtrmv(f._a, v, lower=1, trans=1), lower=1)
    size = max(float(np.linalg.norm(exact)), 1e-300)
    return float(np.linalg.norm(exact - product)) / size


def factor_again(f: CholeskyFactor, knob: str = "alpha") -> CholeskyFactor:
    """Return a fresh factor of the matrix that f is a factor of.

    Parameters
    ----------
    f : CholeskyFactor
        Not changed.
    knob : str
        Whose matrix this is, and the parameter that would make it definite, for messages.

    Returns
    -------
    CholeskyFactor
        Of the same matrix.
    """
    require_memory(8 * f.n**2, f"{who()}: the {f.n} × {f.n} factor", "Use fewer points")
    return _factorised(f._a.copy(order="F"), f._diagonal, knob)


def _part(a: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """Return chosen rows and columns of a Fortran array, as another one; runs of them by copies."""
    cuts = np.flatnonzero(np.diff(keep) > 1) + 1
    if len(cuts) > _RUNS:
        return a.T[np.ix_(keep, keep)].T
    out = np.empty((len(keep), len(keep)), order="F")
    runs = [slice(r[0], r[-1] + 1) for r in np.split(np.arange(len(keep)), cuts)]
    for to_cols in runs:
        cols = slice(keep[to_cols.start], keep[to_cols.stop - 1] + 1)
        for to_rows in runs:
            rows = slice(keep[to_rows.start], keep[to_rows.stop - 1] + 1)
            out[to_rows, to_cols] = a[rows, cols]
    return out


def _factorised(a: np.ndarray, diagonal: np.ndarray, knob: str) -> CholeskyFactor:
    restore(a, diagonal)
    return factor(a, overwrite=True, owner=who(), knob=knob)


# ---- What a factorisation costs: of the Gram matrix, or of the normal equations of features ----


PROVEN = 1.15  # times what a factorisation takes, with checks of the matrix and a certificate
MAPS = 3  # times that explicit features are computed


def cholesky_cost(facts: Facts, rates: Rates | None, sketch: Any = None) -> Cost:
    """n²/2 kernel values, n³/3 operations, one matrix."""
    n = facts.n
    needed = 8 * n * n + 32 * n * facts.outputs
    more = facts.tiles + facts.vectors
    if rates is None:
        return Cost(needed, None, more)
    solve = 4 * 8 * n * n * (1 + facts.outputs // 16) / rates.read
    seconds = gram_seconds(facts, rates, sketch.rate) + n**3 / 3 / rates.potrf + solve
    return Cost(needed, PROVEN * seconds, more)


def primal_cost(facts: Facts, rates: Rates | None, sketch: Any = None) -> Cost:
    """Normal equations of D features: nD² operations, four n × D matrices."""
    n, D = facts.n, facts.features or 0
    if facts.nonzeros is None:
        needed, more = 24 * (n + D) * D, facts.vectors + 8 * (n + D) * D
        work = 2.0 * n * D * D
    else:
        needed, more = 24 * D * D + 36 * facts.nonzeros, facts.vectors + 24 * facts.nonzeros
        work = 40.0 * facts.nonzeros**2 / max(1, n)  # a sparse product runs at such a part
    if rates is None:
        return Cost(needed, None, more)
    seconds = work / rates.gemm + D**3 / 3 / rates.potrf + 4 * needed / rates.touch
    seconds += MAPS * n * sketch.features
    return Cost(needed, seconds, more)
