"""Randomly pivoted Cholesky, and the preconditioner that its low-rank factor makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import dgemv

from mercer.checks import as_reals, check_index, check_number, random_source
from mercer.engines import NumpyEngine, rows_into
from mercer.errors import InvalidInput, NotPositiveDefinite, speaking_for, speaks, who
from mercer.lapack import dgemm, dsyrk, dtrsm, eigh, times
from mercer.memory import free_on, named_when_full, out_of_memory, require_memory, row_blocks
from mercer.operators import Dense, Gram, Operator
from mercer.solvers.base import (
    as_matrix,
    check_ridge,
    check_square,
    describe,
    precision_of,
    require_definite,
)
from mercer.solvers.linear.device import DeviceRows
from mercer.solvers.linear.inplace import finite

# ---- The growing factor of a pivoted Cholesky: in main memory, or on the device that computes
# rows. All products here are SciPy's, since its solves and eigenvectors come between them
# (`mercer.lapack.times` tells why).


class HostRows:
    """Rows F with A ≈ FᵀF, with room for all `rank` of them, in main memory."""

    def __init__(self, A: Operator, rank: int, diagonal: np.ndarray):
        n = A.shape[0]
        require_memory(
            8 * rank * n,
            f"{who()}: a pivoted Cholesky factor of {rank} × {n} numbers",
            "Use a smaller rank",
        )
        self.F, self.size = np.empty((rank, n)), 0
        self.write = _row_writer(A, diagonal)

    def inner(self, index: np.ndarray) -> np.ndarray:
        """Return the block of FᵀF at some columns."""
        part = self.F[: self.size, index].T
        return np.asarray(dgemm(1.0, part, part, trans_b=1))

    def append(self, index: np.ndarray, L: np.ndarray) -> np.ndarray:
        """Add L⁻¹(A − FᵀF) at the pivots `index`, and return the sums of its squared columns.

        L is the Cholesky factor of what FᵀF leaves of A at them.
        """
        F, r = self.F, self.size
        G = F[r : r + len(index)]
        for part in row_blocks(len(index), 8 * F.shape[1]):
            self.write(G[part], index[part])
        # G ← L⁻¹(G − F_Sᵀ F) in place: rows of C are columns of Fortran.
        if r and len(index) == 1:
            dgemv(-1.0, F[:r].T, F[:r, index[0]], 1.0, G[0], overwrite_y=1)
        elif r:
            dgemm(-1.0, F[:r].T, F[:r, index], 1.0, G.T, overwrite_c=1)
        dtrsm(1.0, L, G.T, side=1, lower=1, trans_a=1, overwrite_b=1)
        self.size += len(index)
        return np.einsum("ij,ij->j", G, G)

    def table(self) -> np.ndarray:
        """Return the rows so far as an array of their own."""
        return self.F if self.size == len(self.F) else self.F[: self.size].copy()


def pivot_rows(A: Operator, rank: int, diagonal: np.ndarray) -> HostRows | DeviceRows:
    """Return room for the rows of a factor: where A is computed, if they fit there."""
    device = getattr(A, "device", None)
    there = device is not None and hasattr(A, "rows_there")
    if there and 2 * 8 * rank * A.shape[0] <= free_on(device):
        try:
            return DeviceRows(A, rank, diagonal)
        except RuntimeError as error:  # another program has taken what was free
            if not out_of_memory(error):
                raise
    return HostRows(A, rank, diagonal)


def _row_writer(A: Operator, diagonal: np.ndarray) -> Callable[[Any, Any], None]:
    """Return a function that writes rows of A; those of a kernel go from tiles to their place."""
    lazy = isinstance(A, Gram) and A._matrix is None and isinstance(A._engine, NumpyEngine)
    if not isinstance(A, Gram) or not lazy or not A.kernel.domain.holds_points:

        def copied(out: np.ndarray, index: np.ndarray) -> None:
            out[...] = finite(A.rows(index))

        return copied
    bound = A.bound

    def written(out: np.ndarray, index: np.ndarray) -> None:
        rows_into(out, np.arange(len(index)), bound.rows_of(index))
        out[np.arange(len(index)), index] = diagonal[index]  # white noise lives there alone

    return written


# ---- preconditioners ----


@dataclass(frozen=True, eq=False)
class PartialCholesky:
    """A ≈ FᵀF from r columns of A; the error A − FᵀF is positive semidefinite.

    Parameters
    ----------
    F : ndarray of shape (r, n)
        The factor, row major. Its transpose is a feature map of dimension r.
    pivots : ndarray of shape (r,)
        The columns of A that were used, in the order of their choice.
    trace_error : float
        tr(A − FᵀF) / tr(A), in [0, 1]; bounds the spectral error relative to tr(A).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import rpcholesky
    >>> rpcholesky(np.diag([1.0, 0.0]), rank=2, random_state=0).pivots
    array([0])
    """

    F: np.ndarray
    pivots: np.ndarray
    trace_error: float

    @property
    def rank(self) -> int:
        """Number of pivots, r."""
        return int(self.F.shape[0])


def rpcholesky(
    A: Any,
    rank: int,
    random_state: Any = None,
    tol: float = 0.0,
    sample_weight: Any = None,
    block: int | None = None,
) -> PartialCholesky:
    """Partial Cholesky factor with pivots drawn in proportion to the remaining diagonal.

    Accelerated by block rejection: b pivots are proposed at once, a b×b Cholesky keeps each with
    the probability that makes the law of the result that of one pivot at a time, and all other
    work is matrix products. About r (n + b) entries of A, r²n flops, r n memory.

    Parameters
    ----------
    A : Operator or ndarray of shape (n, n)
        Symmetric positive semidefinite; only its diagonal, some rows and small blocks are read.
    rank : int
        Largest number of pivots; more than n means n. There must be memory for all of them.
    random_state : int, RandomState or None, default=None
        Source of the pivots. The same state gives the same factor.
    tol : float, default=0.0
        Stop once tr(A − FᵀF) ≤ tol·tr(A); looked at after every block of pivots.
    sample_weight : array of shape (n,), optional
        Weights w ≥ 0 of the rows: pivots and traces are those of A with each row and column
        repeated as its weight says. F has a column for every row, of whatever weight.
    block : int, optional
        Pivots proposed at once, b; 1 is the simple algorithm, which draws one pivot after another
        and reads all of F for each. Without it b follows the share of proposals that are kept.

    Returns
    -------
    PartialCholesky
        Fewer than `rank` rows when `tol` is met, or nothing but rounding is left.

    References
    ----------
    Chen, Epperly, Tropp, Webber, "Randomly pivoted Cholesky", arXiv:2207.06503; Epperly, Tropp,
    Webber, "Embrace rejection: kernel matrix approximation by accelerated randomly pivoted
    Cholesky", arXiv:2410.03969.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import rpcholesky
    >>> x = np.linspace(0, 1, 200)
    >>> K = np.exp(-np.subtract.outer(x, x) ** 2)
    >>> low = rpcholesky(K, rank=10, random_state=0)
    >>> low.F.shape, low.trace_error < 1e-6
    ((10, 200), True)
    """
    F, pivots, error = pivoted(A, rank, random_state, tol, sample_weight, block)
    return PartialCholesky(F.table(), pivots, error)


@named_when_full("a pivoted Cholesky factor", "Use a smaller rank")
@speaks("rpcholesky")
def pivoted(
    A: Any, rank: int, random_state: Any, tol: float, sample_weight: Any, block: int | None = None
) -> tuple[HostRows | DeviceRows, np.ndarray, float]:
    """Return what `rpcholesky` does, with the rows of F where they were made."""
    A = A if isinstance(A, Operator) else as_matrix(A)
    n = check_square(A)
    require_definite(A)
    A = A if isinstance(A, Operator) else Dense(A, symmetric=True)
    rank = min(n, check_index(rank, "rank", 0))
    check_number(tol, "tol", 0.0, closed=True)
    fixed = None if block is None else check_index(block, "block", 1)
    rng = random_source(random_state)
    with speaking_for(describe(A, "rpcholesky")):
        start = _checked_diagonal(A)
        w = _checked_weights(sample_weight, n)

        # Below this an entry of the remaining diagonal is rounding, and no pivot.
        eps = precision_of(A)
        floor = 64.0 * eps * start
        indefinite = -100.0 * np.sqrt(eps) * start.max(initial=0.0)
        # Pivots come in proportion to w d; with the largest of each as unit no sum overflows.
        unit = w / (start.max(initial=0.0) or 1.0)
        trace = float(unit @ start)
        d = np.where(start > floor, start, 0.0)
        F = pivot_rows(A, rank, start)
        pivots = np.empty(rank, dtype=np.intp)
        r = 0
        b = fixed or max(10, -(-rank // 10))
        while r < rank and float(unit @ d) > tol * trace:
            proposed = _draw(unit * d, b, rng)
            H = finite(A.block(proposed, proposed)) - F.inner(proposed)
            d[proposed[np.diagonal(H) <= 0]] = 0.0
            kept, L = _reject(H, rng.random_sample(len(proposed)), rank - r)
            chosen = proposed[kept]
            if chosen.size:
                d -= F.append(chosen, L)
                d[chosen] = 0.0
                if d.min() < indefinite:
                    raise NotPositiveDefinite(
                        f"{who()}: the matrix is not positive semidefinite: after "
                        f"{r + chosen.size} pivots its Schur complement has the diagonal entry "
                        f"{d.min():.3g}. Test the kernel with mercer.check_kernel.",
                    )
                d[d <= floor] = 0.0
                pivots[r : r + chosen.size] = chosen
                r += chosen.size
            # b may follow the past, never the draws it is used on, so the law is kept; it must not
            # follow a clock (as the authors' code does), or the seed would not fix the result.
            accepted = chosen.size / len(proposed)
            if fixed is None:
                b = int(
                    np.clip(
                        b * (1.5 if accepted > 0.7 else 1.0 if accepted > 0.35 else 0.6), 10, 500
                    )
                )
        error = float(unit @ d) / trace if trace > 0 else 0.0
        return F, pivots[:r].copy(), error


def _checked_diagonal(A: Any) -> np.ndarray:
    d = np.array(A.diagonal(), dtype=np.float64)
    if not np.isfinite(d).all():
        raise InvalidInput(f"{who()}: the diagonal holds NaN or infinity; check the data.")
    if d.size and d.min() < 0:
        raise NotPositiveDefinite(
            f"{who()}: the diagonal entry {int(d.argmin())} is {d.min():.4g}; a positive "
            "semidefinite matrix has none below 0. Test the kernel with mercer.check_kernel.",
            smallest_eigenvalue=float(d.min()),
        )
    return d


def _checked_weights(weights: Any, n: int) -> np.ndarray:
    """Return weights whose largest is 1."""
    if weights is None:
        return np.ones(n)
    try:
        w = as_reals(weights)
    except (OverflowError, TypeError, ValueError):
        w = np.zeros(0)
    if w.shape != (n,) or not np.isfinite(w).all() or (w < 0).any():
        raise InvalidInput(f"{who()}: sample_weight must hold {n} finite numbers ≥ 0.")
    return w / (w.max(initial=0.0) or 1.0)


def _draw(d: np.ndarray, b: int, rng: np.random.RandomState) -> np.ndarray:
    """Draw b indices with replacement, in proportion to d; an index with d = 0 never comes."""
    total = np.cumsum(d / d.max())
    drawn = np.searchsorted(total, rng.random_sample(b) * total[-1], side="right")
    return np.minimum(drawn, int(np.flatnonzero(d)[-1]))


def _reject(H: np.ndarray, u: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """RejectionCholesky of arXiv:2410.03969: accept j if uⱼ h⁰ⱼⱼ < hⱼⱼ, h what accepted ones leave.

    Returns the accepted positions, at most `most`, and their lower triangular factor.
    """
    size = H.shape[0]
    before = np.diagonal(H).copy()
    left = before.copy()
    L = np.zeros((size, min(size, most)), order="F")
    kept: list[int] = []
    for j in range(size):
        m = len(kept)
        if m == most:
            break
        # The second test keeps a repeated proposal, whose remainder is rounding, from passing.
        if u[j] * before[j] < left[j] and left[j] > 1e-13 * before[j]:
            column = H[:, j] - times(L[:, :m], L[j, :m])
            if column[j] <= 0:
                continue
            column /= np.sqrt(column[j])
            L[:, m] = column
            left -= column**2
            kept.append(j)
    return np.array(kept, dtype=np.intp), L[kept, : len(kept)]


class NystromPreconditioner:
    """P = FᵀF + D with D = ridge·I or diag(ridge): solves with it by the Woodbury identity.

    With G = F D^(−½) and G Gᵀ = V diag(s) Vᵀ,

        P⁻¹ = D^(−½) (I − Gᵀ V diag(1/(1+s)) Vᵀ G) D^(−½).

    Setup 2 r²n + O(r³) flops and r n memory, each solve 4 r n flops a column. s is rounded up by
    r·eps·max(s), the error of the eigenvalues, so that P⁻¹ stays positive definite.

    Parameters
    ----------
    F : ndarray of shape (r, n)
        Low-rank factor, for example ``rpcholesky(A, rank).F``.
    ridge : float or ndarray of shape (n,)
        Positive.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import NystromPreconditioner
    >>> NystromPreconditioner(np.array([[1.0, 0.0]]), ridge=1.0).solve(np.array([2.0, 1.0]))
    array([1., 1.])
    """

    @speaks("NystromPreconditioner")
    def __init__(self, F: Any, ridge: Any):
        F = np.asarray(F, dtype=np.float64)
        if F.ndim != 2 or not np.isfinite(F).all():
            raise InvalidInput(f"{who()}: F has shape {F.shape}; give a finite (r, n) array.")
        ridge = check_ridge(ridge, F.shape[1], positive=True)
        self.rank, self.n = F.shape
        self._root = 1.0 / np.sqrt(ridge)
        G = F * self._root
        s, V = np.zeros(0), np.zeros((0, 0))
        if self.rank:
            square = dsyrk(1.0, G.T, trans=1, lower=1)
            s, V = eigh(square, driver="evd", overwrite_a=True, check_finite=False)
        s = np.maximum(s, 0.0)
        s += self.rank * np.finfo(np.float64).eps * s.max(initial=0.0)
        # Rows of W: diag(1+s)^(−½) Vᵀ G, so that P⁻¹ = D^(−½) (I − WᵀW) D^(−½).
        self._W = np.asarray(dgemm(1.0, G.T, V / np.sqrt(1.0 + s))).T

    def __repr__(self) -> str:
        return f"<NystromPreconditioner rank={self.rank} n={self.n}>"

    def solve(self, R: Any) -> np.ndarray:
        """Return P⁻¹ R.

        Parameters
        ----------
        R : array-like of shape (n,) or (n, t)
            Right-hand sides; not changed.

        Returns
        -------
        ndarray
            Same shape as R, float64.
        """
        R = np.asarray(R, dtype=np.float64)
        if R.ndim not in (1, 2) or R.shape[0] != self.n:
            raise InvalidInput(
                f"NystromPreconditioner: R has shape {R.shape}; give ({self.n},) or ({self.n}, t)."
            )
        root = self._root if R.ndim == 1 or np.ndim(self._root) == 0 else self._root[:, None]
        scaled = R * root
        scaled -= times(self._W.T, times(self._W, scaled))
        scaled *= root
        return np.asarray(scaled)
