"""Eigenvalues and eigenvectors: dense by LAPACK, the largest few by subspace iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg
from scipy.linalg import qr
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh

from mercer.checks import check_index, check_number, random_source
from mercer.engines import Rates
from mercer.errors import InvalidInput, NotPositiveDefinite, speaking_for, speaks, who
from mercer.lapack import MANY, eigh, heard, times
from mercer.memory import require_memory
from mercer.operators import OnDevice
from mercer.settings import get_config
from mercer.solvers.base import (
    Eigen,
    Solution,
    check_entries,
    check_finite_symmetric,
    check_product,
    column_norms,
    describe,
    precision_of,
    require_definite,
)
from mercer.solvers.cost import Cost, Facts, gram_seconds
from mercer.solvers.linear.device import largest_pairs
from mercer.solvers.linear.inplace import fortran_float64

_PROBES = 16
_PATIENCE = 20  # Rayleigh-Ritz steps without progress after which the iteration is given up
_PLATEAU = 100  # the same where the residual is larger than rounding makes it
EIGH = 9.0  # products of n³ operations that an eigendecomposition takes as long as
_WORTH = 10  # times fewer pairs than rows are worth products with one vector
_BESIDE, _AGAIN = 5, 3  # random vectors beside what those find, and products of these at least
_ROOM = 32  # of the budget, that those vectors may take one part of
_RESTART = 15  # products with a block that a restart of ARPACK counts as
_BLOCKS = 8  # blocks that a space holds before it starts again from its best pairs


@dataclass(frozen=True, eq=False)
class EigenPairs:
    """Eigenvalues in descending order and their orthonormal eigenvectors.

    Parameters
    ----------
    values : ndarray of shape (k,)
        Descending.
    vectors : ndarray of shape (n, k)
        Column i belongs to ``values[i]``; its entry of largest modulus is positive, the first one
        where several are equal up to 1e-6.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import DenseEigen, Eigen
    >>> pairs = DenseEigen().solve(Eigen(np.array([[2.0, 1.0], [1.0, 2.0]]))).value
    >>> pairs.values
    array([3., 1.])
    """

    values: np.ndarray
    vectors: np.ndarray


@dataclass(frozen=True)
class DenseEigen:
    """Solve `Eigen` by LAPACK: divide and conquer for all pairs, MRRR for the largest k < n/2.

    About 9n³ flops for all pairs; 4n³/3 and O(n²k) for k of them. A need not be positive
    semidefinite. The residual is the largest over all pairs while that costs little (k ≤ 64 or
    k ≤ n/8); beyond, it is ‖AV − V diag(λ)‖_F estimated from 16 random combinations of columns,
    which bounds the largest up to the estimate's error of a few per cent. A matrix `OnDevice` is
    decomposed there, all of it.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import DenseEigen, Eigen
    >>> solution = DenseEigen().solve(Eigen(np.diag([1.0, 3.0, 2.0]), k=1))
    >>> solution.value.values, solution.converged
    (array([3.]), True)
    """

    def solve(self, problem: Eigen) -> Solution:
        """Return the k largest eigenvalues and eigenvectors; A is not changed.

        Parameters
        ----------
        problem : Eigen
            The matrix and k.

        Returns
        -------
        Solution
            Value is an `EigenPairs`.
        """
        A, k = problem.checked("DenseEigen")
        with speaking_for(describe(A, "DenseEigen")):
            n = int(A.shape[0])
            if n == 0:
                return Solution(EigenPairs(np.zeros(0), np.zeros((0, 0))), True, residual=0.0)
            if isinstance(A, OnDevice):
                return _certified(A, *largest_pairs(A, k))
            few = k < n / 2
            require_memory(
                8 * n * n * (2 if few else 5),  # K, its copy; the vectors and the workspace of evd
                f"{who()}: the eigenvectors of the {n} × {n} matrix",
                "Use SubspaceIteration",
            )
            K = np.asarray(A.to_dense())
            check_finite_symmetric(K)
            return _certified(K, *leading_pairs(K, k))


def leading_pairs(K: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k largest eigenvalues, descending, and their eigenvectors, by LAPACK.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric and finite, which is not looked at; it is not changed.
    k : int
        How many, n at most.
    """
    n = len(K)
    few = k < n / 2
    values, vectors = (eigh if n > MANY else linalg.eigh)(
        fortran_float64(K, overwrite=False),
        driver="evr" if few or n == 1 else "evd",
        subset_by_index=[n - k, n - 1] if few else None,
        overwrite_a=True,
        check_finite=False,
    )
    if len(values) < k:  # MRRR finds too few among many that are equal
        matrix = fortran_float64(K, overwrite=False)
        values, vectors = eigh(matrix, driver="evd", overwrite_a=True, check_finite=False)
    return values[::-1][:k].copy(), vectors[:, ::-1][:, :k]


def _certified(K: Any, values: np.ndarray, vectors: np.ndarray) -> Solution:
    """Return pairs of a dense driver with their signs and their residual."""
    vectors = vectors * signs_of(vectors)
    residual = _residual(K, values, vectors)
    # Backward error of LAPACK's drivers: a modest multiple of n·eps (LAPACK Users' Guide, 4.7).
    allowed = 100.0 * max(len(vectors), 10) * float(np.finfo(np.float64).eps)
    converged = residual <= allowed
    message = (
        f"{who()}: LAPACK returned eigenpairs with relative residual {residual:.3g}, above "
        f"{allowed:.1g}. Rescale the kernel so that its values are of order one."
    )
    pairs = EigenPairs(values, vectors)
    return Solution(pairs, converged, residual=residual, message="" if converged else message)


@dataclass(frozen=True)
class SubspaceIteration:
    """Solve `Eigen` for the largest k pairs with products A·V only (A positive semidefinite).

    A block of k + oversample vectors is multiplied by A, and all its images are kept: the best
    pairs of the whole space span(Q, AQ, A²Q, …) are taken, by Rayleigh-Ritz. That is at least as
    good as any polynomial of A in the block, so no interval and no degree need be chosen. When the
    space is full it is replaced by its best k + oversample pairs (a thick restart).

    Where A lies in main memory, products with one vector cost little, and the first block has what
    ARPACK finds with those. A few random vectors beside it, and three products of these, bring to
    light what a single vector cannot see: eigenvalues that are equal.

    Cost: 2n²(k + oversample) flops a product; memory two arrays of at most 8(k + oversample)
    vectors, or less (at least 3(k + oversample)) where that takes a quarter of the memory budget.

    Parameters
    ----------
    tol : float, default=1e-8
        Largest ‖A v − λ v‖ / λ₁ wanted over the k pairs.
    max_iter : int, default=500
        Limit of block products with A.
    oversample : int, default=10
        Extra vectors in the block; more make slow spectra converge in fewer products.
    random_state : int, RandomState or None, default=None
        Source of the starting block.
    slack : float, default=0.0
        Negative eigenvalues down to −slack are taken for rounding. A matrix that was centred has
        the rounding of what was subtracted, which its own eigenvalues do not tell.
    otherwise : str, default="raise oversample, or use DenseEigen"
        What the message of an iteration that stopped too early advises last. A model names its own
        parameters here.

    References
    ----------
    Golub, Underwood, The block Lanczos method, in Mathematical Software III (1977); Zhou, Saad,
    Block Krylov-Schur method for large symmetric eigenvalue problems, Numer. Algorithms 47 (2008);
    Musco, Musco, Randomized block Krylov methods, arXiv:1504.05477 (its speed from a random block).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import Eigen, SubspaceIteration
    >>> A = np.diag(1.0 / np.arange(1.0, 101.0))
    >>> solution = SubspaceIteration(random_state=0).solve(Eigen(A, k=3))
    >>> np.round(solution.value.values, 6)
    array([1.      , 0.5     , 0.333333])
    """

    tol: float = 1e-8
    max_iter: int = 500
    oversample: int = 10
    random_state: Any = None
    slack: float = 0.0
    otherwise: str = "raise oversample, or use DenseEigen"

    @speaks("SubspaceIteration")
    def __post_init__(self) -> None:
        check_number(self.tol, "tol", 0.0)
        check_number(self.slack, "slack", 0.0, closed=True)
        check_index(self.max_iter, "max_iter", 1)
        check_index(self.oversample, "oversample", 0)

    def solve(self, problem: Eigen) -> Solution:
        """Return the k largest eigenvalues and eigenvectors.

        Parameters
        ----------
        problem : Eigen
            The matrix and k; k must be given.

        Returns
        -------
        Solution
            Value is an `EigenPairs`, ``n_iter`` the number of block products with A.
        """
        if problem.k is None:
            raise InvalidInput(
                "SubspaceIteration: k=None asks for all pairs; give k, or use DenseEigen."
            )
        A, k = problem.checked("SubspaceIteration")
        with speaking_for("SubspaceIteration"):
            require_definite(A)
        with speaking_for(describe(A, "SubspaceIteration")):
            check_entries(A)
            n = int(A.shape[0])
            if n == 0:
                return Solution(EigenPairs(np.zeros(0), np.zeros((0, 0))), True, residual=0.0)
            rng = random_source(self.random_state)
            Q, width, products, least = self._first_block(A, k, rng)
            space = _Space(n, Q.shape[1])
            least += products
            best, waited, cause = np.inf, 0, ""
            while True:
                space.add(Q, check_product(np.asarray(A.matmul(Q), dtype=np.float64)))
                products += 1
                values, W = space.pairs()
                _refuse_negative(values, A, self.slack)
                X, AX = space.combine(W[:, :k])
                worst = _largest_residual(AX, X, values[:k], values)
                # A jump up is a pair that was missed before: it is waited for anew.
                moved = worst < 0.98 * best or worst > 3.0 * best
                best, waited = (worst, 0) if moved else (min(best, worst), waited + 1)
                if worst <= self.tol and (products >= least or space.size == n):
                    break
                if products >= max(self.max_iter, least):
                    cause = f"the limit of {self.max_iter} products was reached; raise max_iter"
                    break
                rounded = worst <= 100.0 * n**0.5 * precision_of(A)
                if waited >= (_PATIENCE if rounded else _PLATEAU) or space.size == n:
                    cause = "progress is slow, or the products are not accurate enough; raise tol"
                    break
                Q = space.next_block(width, rng)
                if space.size + Q.shape[1] > space.limit:
                    space.restart(values, W)
            message = (
                f"{who()}: subspace iteration stopped at relative residual {worst:.3g} "
                f"(tol={self.tol:g}) after {products} products: {cause}, {self.otherwise}."
            )
            pairs = EigenPairs(values[:k].copy(), X * signs_of(X))
            return Solution(pairs, not cause, products, worst, message=message if cause else "")

    def _first_block(self, A: Any, k: int, rng: Any) -> tuple[np.ndarray, int, int, int]:
        """Return a block to begin with, the width of those after it, and two numbers of products.

        They are those that were made, and those that are to be made at least.
        """
        n = int(A.shape[0])
        p = min(n, k + self.oversample)
        fits = _ROOM * 8 * n * max(20, 2 * k + 1) <= get_config().memory  # ARPACK's basis
        soon = A.in_memory and _WORTH * k < n and self.max_iter > _RESTART
        if not (soon and fits and p > k):
            return _orthonormal(rng.standard_normal((n, p))), p, 0, 0
        made, size = 0, 1.0

        def product(v: np.ndarray) -> np.ndarray:
            nonlocal made
            made += 1
            return check_product(np.asarray(A.matmul(v.ravel()), dtype=np.float64)) / size

        width = min(_BESIDE, p - k)
        Q, start = rng.standard_normal((n, k + width)), rng.standard_normal(n)
        size = float(np.abs(product(start)).max())  # squares of tiny numbers are none
        if size == 0:
            return _orthonormal(Q), width, made, 1
        limit = -(-self.max_iter // _RESTART)
        try:
            form = LinearOperator(A.shape, matvec=product, dtype=np.float64)  # type: ignore[call-overload]
            found = eigsh(form, k, which="LA", v0=start, tol=0.05 * self.tol, maxiter=limit)[1]
        except ArpackNoConvergence as error:
            found = error.eigenvectors
        except ArpackError:  # of a matrix of next to no rank, say
            found = Q[:, :0]
        Q[:, : found.shape[1]] = found
        return _orthonormal(Q), width, made, _AGAIN


class _Space:
    """An orthonormal basis S of a growing space, its image A S, and SᵀAS."""

    def __init__(self, n: int, p: int):
        self.kept = p  # pairs that outlive a restart
        fits = get_config().memory // (4 * 16 * n)
        self.limit = min(n, max(3 * p, min(_BLOCKS * p, fits)))
        require_memory(
            8 * n * (2 * self.limit + 4 * p),
            f"SubspaceIteration: a space of {self.limit} vectors of {n} numbers",
            "Ask for fewer pairs",
        )
        self.S = np.empty((n, self.limit), order="F")
        self.AS = np.empty((n, self.limit), order="F")
        self.H = np.zeros((self.limit, self.limit))
        self.size = 0

    def add(self, Q: np.ndarray, AQ: np.ndarray) -> None:
        """Take a block, orthogonal to the basis, and its image."""
        new = slice(self.size, self.size + Q.shape[1])
        self.S[:, new], self.AS[:, new] = Q, AQ
        self.size = new.stop
        self.H[: self.size, new] = times(self.S[:, : self.size].T, AQ)
        self.H[new, : new.start] = self.H[: new.start, new].T

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the Ritz values, descending, and their vectors in the basis."""
        H = self.H[: self.size, : self.size]
        H = 0.5 * (H + H.T)
        values, W = eigh(H, driver="evd", check_finite=False, overwrite_a=True)
        return values[::-1].copy(), np.asfortranarray(W[:, ::-1])

    def combine(self, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return S W and A S W."""
        m = self.size
        return times(self.S[:, :m], W), times(self.AS[:, :m], W)

    def next_block(self, width: int, rng: np.random.RandomState) -> np.ndarray:
        """Return what the image of the last block has beyond the space, orthonormal.

        Where the space is invariant nothing is left but rounding: random directions take its place.
        """
        n, m = self.S.shape[0], self.size
        width = min(width, n - m)
        last = slice(m - width, m)
        Z = self.AS[:, last] - times(self.S[:, :m], self.H[:m, last])
        size = np.abs(self.AS[:, last]).max(axis=0)
        lost = column_norms(Z) <= 1e-14 * np.sqrt(n) * size.max(initial=0.0)
        for _ in range(2):
            Z[:, lost] = rng.standard_normal((n, int(lost.sum())))
            Z = _orthonormal(Z - times(self.S[:, :m], times(self.S[:, :m].T, Z)))
            Z -= times(self.S[:, :m], times(self.S[:, :m].T, Z))
            lost = column_norms(Z) < 0.5  # was mostly in the space, by rounding
            if not lost.any():
                break
        return _orthonormal(Z)

    def restart(self, values: np.ndarray, W: np.ndarray) -> None:
        """Keep the best pairs only; the next block stays orthogonal to them."""
        kept = min(self.kept, self.size)
        self.S[:, :kept], self.AS[:, :kept] = self.combine(W[:, :kept])
        self.H[:kept, :kept] = np.diag(values[:kept])
        self.size = kept


def _orthonormal(Y: np.ndarray) -> np.ndarray:
    return np.asarray(heard(qr, Y, mode="economic", overwrite_a=True, check_finite=False)[0])


def _refuse_negative(values: np.ndarray, A: Any, slack: float) -> None:
    """A Ritz value lies in the range of A's spectrum, so a negative one proves indefiniteness."""
    if values[-1] < -max(slack, max(1e-8, 1e3 * precision_of(A)) * np.abs(values).max()):
        raise NotPositiveDefinite(
            f"{who()}: the matrix is not positive semidefinite: it has an eigenvalue at or below "
            f"{values[-1]:.4g}. Use DenseEigen, or test the kernel with mercer.check_kernel.",
            smallest_eigenvalue=float(values[-1]),
        )


def _largest_residual(
    AX: np.ndarray, X: np.ndarray, values: np.ndarray, all_values: np.ndarray
) -> float:
    scale = float(np.abs(all_values).max()) or 1.0
    return float(column_norms(AX / scale - X * (values / scale)).max(initial=0.0))


def _residual(K: np.ndarray, values: np.ndarray, vectors: np.ndarray) -> float:
    """max ‖A v − λ v‖ / max|λ|, or for many pairs the Frobenius norm by random combinations."""
    n, k = vectors.shape
    scale = float(np.abs(values).max(initial=0.0)) or 1.0
    if k <= max(64, n // 8):
        return _largest_residual(K @ vectors, vectors, values, values)
    # E ‖(AV − VΛ) g‖² = ‖AV − VΛ‖_F² for standard normal g.
    g = np.random.default_rng(0).standard_normal((k, _PROBES))
    combined = K @ (vectors @ g) / scale
    combined -= vectors @ ((values / scale)[:, None] * g)
    return float(np.linalg.norm(combined) / np.sqrt(_PROBES))


def signs_of(table: np.ndarray) -> np.ndarray:
    """Return ±1 a column: the first entry of (nearly) largest modulus shall be positive.

    Parameters
    ----------
    table : ndarray of shape (n, k)
        Entries; where several are the largest up to 1e-6 the first decides.
    """
    if not table.size:
        return np.ones(table.shape[1])
    size = np.abs(table)
    first = np.argmax(size >= (1.0 - 1e-6) * size.max(axis=0), axis=0)
    return np.where(table[first, np.arange(table.shape[1])] < 0, -1.0, 1.0)


# ---- What a whole spectrum costs ----


COLUMNS = 256  # of residuals of several penalties that are made at a time


def eigen_cost(facts: Facts, rates: Rates | None, sketch: Any = None) -> Cost:
    """An eigendecomposition, for a choice of penalties by leaving one out: five matrices."""
    n, D = facts.n, facts.features
    primal_side = D is not None and D < n
    edge = D if primal_side and D is not None else n
    if primal_side:
        needed, more = 24 * (n + edge) * edge, facts.vectors + 16 * (n + edge) * edge
    else:
        needed = 40 * n * n + 32 * n * facts.outputs
        more = facts.vectors + 32 * n * COLUMNS
    if rates is None:
        return Cost(needed, None, more)
    first = (
        2.0 * n * edge**2 / rates.gemm if primal_side else gram_seconds(facts, rates, sketch.rate)
    )
    seconds = first + EIGH * edge**3 / rates.gemm + 64.0 * n * edge / rates.gemm
    return Cost(needed, seconds, more)
