"""Rows of a Gram matrix: points known only by their kernel values with the training points."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains.base import Domain, check_structure
from mercer.domains.vectors import Vectors, is_torch
from mercer.errors import InvalidInput, refusal, speaks, who
from mercer.settings import require_budget

# Asymmetry relative to the largest entry that sums of rounded products have in each precision.
DOUBLE_NOISE, SINGLE_NOISE = 1e-8, 1e-4


class GramRows(Domain):
    """Points given by kernel values; training points afterwards by their position.

    Two canonical forms: a 2-D float array whose row i holds k(xᵢ, ·) over the training points,
    and a 1-D integer array of positions of training points, which is all that a fitted model keeps.
    """

    name = "kernel values"
    holds_points = False

    def check(self, X: Any, name: str = "X") -> np.ndarray:
        """Return kernel values (2-D) or positions (1-D integers)."""
        if isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype.kind in "iu":
            return X
        return Vectors().check(self.dense(X, name) if hasattr(X, "tocsr") else X, name)

    def structure(self, X: Any, name: str = "X") -> Any:
        """Return a sparse matrix whose arrays are sound, or refuse it."""
        return check_structure(X, "Precomputed", name)

    @speaks("Precomputed", unless_spoken=True)
    def dense(self, X: Any, name: str = "X") -> np.ndarray:
        """Return the array of a sparse matrix, whose entries that are not stored are zeros."""
        X = self.structure(X, name)
        shape = " × ".join(str(n) for n in X.shape)
        require_budget(
            int(np.prod(X.shape, dtype=float)) * max(8, X.dtype.itemsize),
            f"{who()}: {name} is a sparse matrix of kernel values, which are computed with in "
            f"dense form: the {shape} array",
            "Give fewer rows, or the points themselves and their kernel",
        )
        return np.asarray(X.toarray())

    def size(self, X: np.ndarray) -> int:
        """Return the number of points."""
        return int(X.shape[0])

    @speaks("Precomputed", unless_spoken=True)
    def check_square(self, K: Any, name: str = "X") -> Any:
        """Refuse a matrix that cannot be a Gram matrix: not square, asymmetric, diagonal < 0."""
        if is_torch(K):
            self.check_square(K.detach().cpu().numpy(), name)
            return K
        if K.ndim != 2 or K.shape[0] != K.shape[1]:
            raise refusal(
                who(),
                f"{name} has shape {K.shape}; the Gram matrix of the training points "
                "must be square. With kernel='precomputed' X holds kernel values, not points; for "
                "points give their kernel, such as 'rbf'.",
            )
        scale = _largest(K)
        tolerance = (DOUBLE_NOISE if K.dtype == np.float64 else SINGLE_NOISE) * scale
        worst, where = _asymmetry(K)
        if worst > tolerance:
            i, j = where
            raise refusal(
                who(),
                f"{name} is not symmetric: K[{i}, {j}] = {K[i, j]:.6g} and "
                f"K[{j}, {i}] = {K[j, i]:.6g} differ by {worst:.2g}, more than the {tolerance:.2g} "
                "that rounding explains. A Gram matrix is symmetric; if the difference is only "
                "noise pass (K + K.T) / 2.",
            )
        diagonal = K.diagonal()
        if diagonal.size and diagonal.min() < -tolerance:
            i = int(diagonal.argmin())
            raise refusal(
                who(),
                f"{name} has K[{i}, {i}] = {diagonal[i]:.4g} < 0, so it is not "
                "positive semidefinite: k(x, x) is a squared length. mercer.check_kernel tells "
                "more.",
            )
        return K

    def without_noise(self, K: np.ndarray) -> np.ndarray:
        """Return a square matrix that was float32 made symmetric, where only rounding made it not.

        Any other matrix is returned as it is, for `check_square` to judge.
        """
        if K.ndim != 2 or K.shape[0] != K.shape[1]:
            return K
        worst, _ = _asymmetry(K)
        if worst == 0 or worst > SINGLE_NOISE * _largest(K):
            return K
        return 0.5 * (K + K.T)

    def subset(self, X: np.ndarray, index: Any) -> np.ndarray:
        """Return the Gram matrix of the training points at the given positions."""
        return np.ascontiguousarray(X[np.ix_(index, index)])

    def pair(self, X: np.ndarray, rows: Any, columns: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return rows of kernel values, and the positions of training points among them."""
        return X[rows], np.arange(X.shape[1])[columns]

    def as_new(self, X: np.ndarray, index: Any, training: Any) -> np.ndarray:
        """Return the kernel values of points with those that a model was fitted on."""
        return np.ascontiguousarray(X[np.ix_(index, training)])

    def keep(self, X: np.ndarray) -> np.ndarray:
        """Return the positions of the training points."""
        return np.arange(X.shape[0]) if X.ndim == 2 else X

    def own(self, X: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Return the Gram matrix of training points that were kept by their positions."""
        return self.subset(X, kept)

    def keep_at(self, X: np.ndarray, index: Any) -> np.ndarray:
        """Return the positions of some training points."""
        return self.keep(X)[index]

    def renumber(self, kept: np.ndarray, rows: Any) -> np.ndarray:
        """Return positions among all training points for those among some of them."""
        return rows[kept]

    def check_training(self, X: np.ndarray, name: str = "X") -> np.ndarray:
        """Return a matrix that can be a Gram matrix, or refuse it."""
        return self.check_square(X, name)

    def require_again(self, X: Any, verb: str, how: str | None = None) -> None:
        """Refuse to do without the Gram matrix, of which a fitted model keeps positions only."""
        if X is None:
            raise InvalidInput(
                f"{who()}.{verb}: a fitted model does not keep a precomputed Gram matrix; pass the "
                f"training matrix again: {how or f'{verb}(K)'}."
            )

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Return the Gram matrix of n random vectors."""
        Z = rng.standard_normal((n, 4))
        return Z @ Z.T

    def may_keep(self, points: Any, count: int | None) -> bool:
        """Whether these are positions of training points, of which there are `count`."""
        legal = isinstance(points, np.ndarray) and points.ndim == 1 and points.dtype.kind in "iu"
        return legal and count is not None and bool(((points >= 0) & (points < count)).all())


def _largest(K: Any) -> float:
    return float(abs(K).max()) if K.size else 0.0


def _asymmetry(K: Any, step: int = 512) -> tuple[float, tuple[int, int]]:
    """Largest |K - Kᵀ| and where, by tiles (no second n×n matrix)."""
    worst, where = 0.0, (0, 0)
    if hasattr(K, "tocsr"):
        gaps = abs(K - K.T).tocoo()
        if gaps.nnz:
            at = int(gaps.data.argmax())
            worst, where = float(gaps.data[at]), (int(gaps.row[at]), int(gaps.col[at]))
        return worst, where
    for i in range(0, len(K), step):
        for j in range(0, i + 1, step):
            with np.errstate(over="ignore"):
                gap = np.abs(K[i : i + step, j : j + step] - K[j : j + step, i : i + step].T)
            if gap.size and gap.max() > worst:
                a, b = np.unravel_index(int(gap.argmax()), gap.shape)
                worst, where = float(gap.max()), (i + int(a), j + int(b))
    return worst, where
