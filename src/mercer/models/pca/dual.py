"""Components from the n × n Gram matrix: dense, by subspace iteration, or by pivoted Cholesky."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from mercer.domains import is_torch
from mercer.errors import NotPositiveDefinite, who
from mercer.estimator import INDEFINITE, JUDGED, Sample, check_definite, repair
from mercer.kernels import Kernel, unproven
from mercer.lapack import times
from mercer.memory import require_memory, smaller_rank
from mercer.models.pca.components import EPS, RANK, Components, Wanted
from mercer.operators import Dense, Gram, OnDevice, Operator, gram_of
from mercer.settings import get_config
from mercer.solvers import DenseEigen, Eigen, EigenPairs, Solution, SubspaceIteration, rpcholesky
from mercer.solvers.linear import signs_of

# ---- The Gram matrix of centred, weighted features: as an operator, and written into a matrix ----


SLAB = 2**18  # entries of the rows that are centred at a time
DEVICE_SLAB = 2**26  # the same on a device


class CentredGram(Operator):
    """D(I − 1pᵀ)K(I − p1ᵀ)D with D = diag(√w), p = w/Σw, never written out.

    Equal weights w = 1 make it (I − U)K(I − U). A row of weight 2 counts as the row given twice:
    the eigenvalues other than 0 are the same.
    """

    symmetric = psd = True

    def __init__(self, K: Operator, weights: np.ndarray | None = None):
        self.K, self.shape, self.in_memory = K, K.shape, K.in_memory
        n = int(K.shape[0])
        self.roots = None if weights is None else np.sqrt(weights)[:, None]
        self.shares = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
        self.means = self._times(self.shares)
        self.mean = float(self.shares @ self.means)

    def _times(self, V: np.ndarray) -> np.ndarray:
        return times(self.K.array, V) if isinstance(self.K, Dense) else self.K.matmul(V)

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        Y = V[:, None] if V.ndim == 1 else V
        if self.roots is not None:
            Y = Y * self.roots
        Y = self._times(Y - self.shares[:, None] * Y.sum(axis=0))
        Y = Y - self.shares @ Y
        if self.roots is not None:
            Y *= self.roots
        return Y[:, 0] if V.ndim == 1 else Y

    def diagonal(self) -> np.ndarray:
        """Return wᵢ‖φ(xᵢ) − μ‖²."""
        d = np.array(self.K.diagonal(), dtype=float) - 2 * self.means + self.mean
        return d if self.roots is None else d * self.roots[:, 0] ** 2


def centre_in_place(K: Any, centred: CentredGram) -> Operator:
    """Write D(I − 1pᵀ)K(I − p1ᵀ)D over K, dense or on a device, and return it."""
    means, roots = centred.means, None if centred.roots is None else centred.roots[:, 0]
    A: Any = K.array if isinstance(K, Dense) else K.tensor
    slab = SLAB if isinstance(K, Dense) else DEVICE_SLAB
    if isinstance(K, OnDevice):
        means, roots = A.new_tensor(means), None if roots is None else A.new_tensor(roots)
    n = len(A)
    step = max(1, slab // max(1, n))
    for i in range(0, n, step):
        rows = slice(i, i + step)
        # xᵢ + yⱼ first, so that the matrix stays symmetric to the bit
        A[rows] -= (means[rows, None] + means) - centred.mean
        if roots is not None:
            A[rows] *= roots[rows, None] * roots
    return K


class CentredArray(Operator):
    """The centred matrix, written out."""

    symmetric = psd = in_memory = True

    def __init__(self, K: Any):
        self.array, self.shape = K.array, K.shape

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        return times(self.array, V)

    def diagonal(self) -> np.ndarray:
        """Return the diagonal."""
        return self.array.diagonal().copy()


# ---- dual ----


TOL = 1e-9  # of subspace iteration, where none is given
OTHERWISE = "or use eigen_solver='dense'"
LOOSEST = 1e-5  # to which it is raised, at most, where kernel values are not exact enough
NOTHING = 32 * EPS  # a trace below this part of that before centring is rounding
NEARLY = (
    "The points are nearly equal in feature space, and kernel values do not tell their distances "
    "better; use a shorter length scale, or subtract the mean of each column."
)
FIRST = 16  # components to start with when a share of the variance is asked for


def by_dense(data: Sample, want: Wanted) -> Components:
    """Return components by LAPACK, or by torch on its device, from the centred matrix."""
    kernel, w = data.kernel, data.weights
    gram = gram_of(kernel, data.X)
    n = gram.shape[0]
    k = None if want.count is None or want.count >= n else want.count
    K = _matrix(gram, kernel, 2 if k is not None and k < n / 2 else 5)
    size = _size(K.diagonal(), w)
    if k is not None:
        _judge(kernel, K)
    centred = CentredGram(K, w)
    total = max(0.0, float(centred.diagonal().sum()))
    solution = _nothing(n, k or n, total, size, centred.means)
    if solution is None:
        solution = DenseEigen().solve(Eigen(centre_in_place(K, centred), k))
        low = float(solution.value.values[-1])
        if low < -INDEFINITE * size:
            raise _indefinite(kernel, low)
    return _finish(data, centred, total, size, solution, want, "dense")


def by_subspace(
    data: Sample,
    want: Wanted,
    *,
    tol: float = 0.0,
    max_iter: int | None = None,
    random_state: Any = None,
) -> Components:
    """Return components by products with the matrix, kept where it fits the budget, else in tiles.

    Of a share of the variance, more components are asked for until it is reached. tol=0 means 1e-9,
    or up to 1e-5 where rounding of the kernel values forbids that.
    """
    kernel, w = data.kernel, data.weights
    gram = gram_of(kernel, data.X)
    n = gram.shape[0]
    K: Any = gram
    if 9 * n * n <= gram.room:  # the matrix, and an eighth of it for blocks
        K = _matrix(gram, kernel, 1)
        _judge(kernel, K)
    diagonal = K.diagonal()
    centred = CentredGram(K, w)
    total, size = max(0.0, float(centred.diagonal().sum())), _size(diagonal, w)
    count, products = min(n, FIRST if want.count is None else want.count), 0
    nothing = _nothing(n, count, total, size, centred.means)
    if nothing is not None:
        return _finish(data, centred, total, size, nothing, want, "subspace")
    rounding = 16 * EPS * size / total  # of the products: no residual gets far below it
    form: Operator = centred
    if isinstance(K, Dense):  # it is read again and again, so that centring it once costs nothing
        form = CentredArray(centre_in_place(K, centred))
    solver = SubspaceIteration(
        tol=max(tol or TOL, rounding),
        max_iter=max_iter or 500,
        random_state=random_state,
        slack=INDEFINITE * size,
        otherwise=OTHERWISE,
    )
    while True:
        try:
            solution = solver.solve(Eigen(form, count))
        except NotPositiveDefinite as error:
            raise _indefinite(kernel, float(error.smallest_eigenvalue or 0)) from None
        products += solution.n_iter
        found = float(np.maximum(solution.value.values, 0.0).sum())
        if want.share is None or found >= want.share * total or count == n:
            break
        count = min(n, 2 * count)
    # A matrix that is written out does not show what centring it rounded away.
    told_of = max(float(solution.residual or 0.0), EPS * size / total)
    residual = solution.residual if form is centred else told_of
    solution = replace(solution, n_iter=products, residual=residual)
    limit = tol or max(TOL, min(rounding, LOOSEST))
    if solution.converged and float(solution.residual or 0.0) > limit:
        told = f"{who()}: the components have relative residual {solution.residual:.3g}, above "
        solution = replace(solution, converged=False, message=f"{told}{limit:.1g}. {NEARLY}")
    return _finish(data, centred, total, size, solution, want, "subspace")


def by_cholesky(data: Sample, want: Wanted, *, rank: int, random_state: Any = None) -> Components:
    """Return components of K ≈ FᵀF, F from randomly pivoted Cholesky with at most `rank` pivots.

    The coordinates F are those of φ(x) in the span of the pivots' features, so the components are
    functions of the pivots alone: with F_P, the pivots' own columns, F(x) = F_P⁻ᵀ k(P, x).
    """
    kernel, w = data.kernel, data.weights
    gram = gram_of(kernel, data.X)
    n = gram.shape[0]
    roots = None if w is None else np.sqrt(w)
    try:
        low = rpcholesky(gram if roots is None else Weighted(gram, roots), rank, random_state)
    except NotPositiveDefinite as error:
        raise _indefinite(kernel, error.smallest_eigenvalue) from None
    F = low.F
    if roots is not None:
        F /= roots
    shares = np.full(n, 1.0 / n) if w is None else w / w.sum()
    corner, mean = np.triu(F[:, low.pivots]), F @ shares
    means = mean @ F
    size = _size(gram.diagonal(), w)
    F -= mean[:, None]
    if roots is not None:
        F *= roots
    weight = float(n if w is None else w.sum())
    square = float(mean @ mean)
    total = max(0.0, size - weight * square)
    solution = _nothing(len(F), len(F), total, size, means)
    lost = solution is not None and not solution.converged
    rows = gram.beside(F)
    solution = solution or DenseEigen().solve(Eigen(rows.square()))
    values, V = want.padded(n, *_clipped(solution, total, size, want))
    root = np.sqrt(values)
    U = (rows.T @ V) * np.where(values > 0, 1 / np.where(values > 0, root, 1.0), 0.0)
    V = V * (values > 0)
    signs = signs_of(U if roots is None else U / roots[:, None])
    V, U = V * signs, U * signs
    return Components(
        values,
        U,
        kernel.domain.keep_at(data.X, low.pivots),
        solve_triangular(corner, V, check_finite=False) if len(F) else V,
        -(mean @ V),
        solve_triangular(corner, mean, check_finite=False) if len(F) else mean,
        square,
        total,
        replace(solution, value=values, extra={"pivots": len(F)}),
        "cholesky",
        # of what kernel values tell n eps is rounding, and a larger part of the variance
        error=min(1.0, (low.trace_error + n * EPS) * size / total) if total > 0 else float(lost),
    )


def pivots_allowed(n: int, rank: int | None, want: Wanted) -> int:
    """Return how many pivots are asked for, or fit the budget.

    Twenty a component and at least 200; as many as 2000 where the number of components is open.
    F and its pieces take four arrays of that many rows at most.
    """
    fits = max(1, get_config().memory // (8 * 5 * max(1, n)))
    if rank is not None:
        rank = min(n, rank)
        needed = 8 * 3 * n * rank
        cure = f"Give a {smaller_rank(needed, rank)}"
        require_memory(needed, f"KernelPCA: {rank} pivots of {n} points", cure)
        return rank
    most = 2000 if want.count is None else max(200, 20 * want.count)
    return min(n, most, fits)


class Weighted(Operator):
    """D A D for a diagonal D."""

    def __init__(self, A: Operator, roots: np.ndarray):
        self.A, self.roots, self.shape = A, roots, A.shape
        self.symmetric, self.psd = A.symmetric, A.psd
        self.kernel, self.device = getattr(A, "kernel", None), getattr(A, "device", None)

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        D = self.roots if V.ndim == 1 else self.roots[:, None]
        return D * self.A.matmul(D * V)

    def _block(self, rows: Any, cols: Any) -> np.ndarray:
        return self.roots[rows][:, None] * self.A._block(rows, cols) * self.roots[cols]

    def rows_there(self) -> Callable[[np.ndarray], Any]:
        """Return a function of positions that makes those rows where A is computed."""
        rows = self.A.rows_there()  # type: ignore[attr-defined]

        def weighted(index: np.ndarray) -> Any:
            found = rows(index)
            D = found.new_tensor(self.roots) if is_torch(found) else self.roots
            return D[index][:, None] * found * D

        return weighted

    def diagonal(self) -> np.ndarray:
        """Return the diagonal."""
        return self.roots**2 * self.A.diagonal()


def _nothing(n: int, k: int, total: float, size: float, means: np.ndarray) -> Solution | None:
    """Return k pairs of zeros where centring leaves only rounding.

    Of equal points that is the answer. Where the inner products of the points with their mean
    differ by more than rounding, the points differ, and what centring should leave has been lost.
    """
    if total > NOTHING * size:
        return None
    level = float(np.abs(means).max(initial=0.0))
    lost = float(np.ptp(means)) > 32 * EPS * level if len(means) else False
    message = (
        "KernelPCA: the points differ, but so little beside their lengths in feature space that "
        "their kernel values do not tell how: no component was found. Subtract the mean of each "
        "column, or use a kernel without a large constant."
    )
    pairs = EigenPairs(np.zeros(k), np.zeros((n, k)))
    return Solution(pairs, not lost, residual=float(lost), message=message if lost else "")


def _size(diagonal: np.ndarray, w: np.ndarray | None) -> float:
    """Return the trace before centring: eps of it is the rounding of what is left after it."""
    return float(np.asarray(diagonal, dtype=float) @ (np.ones(len(diagonal)) if w is None else w))


def _matrix(gram: Gram, kernel: Kernel, matrices: int) -> Operator:
    """Return the Gram matrix in float64, to be overwritten."""
    n = gram.shape[0]
    what = f"{who()}: eigenvectors of the {n} × {n} Gram matrix of {kernel}"
    return gram.stored(matrices, what, "Use eigen_solver='cholesky', or 'auto'")


def _judge(kernel: Kernel, K: Operator) -> None:
    """Refuse a matrix that only the user vouches for, where its least eigenvalue stays unseen."""
    n = K.shape[0]
    if unproven(kernel) and n <= JUDGED and 16 * n**2 <= get_config().memory:
        check_definite(kernel, K.to_dense())


def _indefinite(kernel: Kernel, low: float | None) -> NotPositiveDefinite:
    said = "an eigenvalue below 0" if low is None else f"the eigenvalue {low:.4g}"
    return NotPositiveDefinite(
        f"{who()}: the Gram matrix of {kernel} has {said}, so it is not positive semidefinite "
        f"and not that of a kernel. {repair(kernel)}",
        low,
    )


def _clipped(
    solution: Solution, total: float, size: float, want: Wanted
) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues to keep, rounding set to 0, and their vectors."""
    values, V = solution.value.values, solution.value.vectors
    floor = max(RANK * float(values.max(initial=0.0)), 8 * EPS * size)
    values = np.where(values > floor, values, 0.0)
    if not len(values):
        values, V = np.zeros(1), np.zeros((0, 1))
    k = want.cut(values, total)
    return values[:k], V[:, :k]


def _finish(
    data: Sample,
    centred: CentredGram,
    total: float,
    size: float,
    solution: Solution,
    want: Wanted,
    method: str,
) -> Components:
    """Return the components that belong to eigenvectors of the centred matrix."""
    values, U = _clipped(solution, total, size, want)
    U = U * (values > 0)
    roots = 1.0 if centred.roots is None else centred.roots
    U *= signs_of(U / roots)
    coef = roots * U / np.sqrt(np.where(values > 0, values, 1.0))
    coef -= centred.shares[:, None] * coef.sum(axis=0)
    rounding = EPS * size / total if total > NOTHING * size else 0.0
    if solution.converged and rounding > LOOSEST:
        told = f"KernelPCA: rounding of the kernel values is {rounding:.1g} of the variance. "
        solution = replace(solution, converged=False, message=told + NEARLY)
    return Components(
        values,
        U,
        data.kernel.domain.keep(data.X),
        coef,
        -(centred.means @ coef),
        centred.shares,
        centred.mean,
        total,
        replace(solution, value=values, extra={"rounding": rounding}),
        method,
    )
