"""The posterior of a Gaussian process at new points: moments in blocks of rows, and joint draws.

With k the kernel values of a new point with the rows, C = K + diag(σ²/w) = LLᵀ and a basis H, the
variance of the function is k(x, x) − ‖L⁻¹k‖² + ‖G⁻¹r‖², r = h(x) − HᵀC⁻¹k, GGᵀ = HᵀC⁻¹H: what the
rows explain is taken away, and what they leave open about the coefficients of the basis is added
(Rasmussen & Williams, algorithm 2.1 and eq. 2.42). All of it is in units of the targets z.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.domains import to_host
from mercer.errors import InvalidInput, who
from mercer.lapack import dsyrk, dtrmm, eigh, times
from mercer.memory import require_memory, row_blocks
from mercer.operators import Gram, gram_of, values_at
from mercer.solvers import CholeskyFactor
from mercer.solvers.linear import mirror, potrf
from mercer.threads import blas_for_values

if TYPE_CHECKING:
    from mercer.kernels import Kernel
    from mercer.models.gp.regression.data import Basis
    from mercer.models.gp.regression.evidence import GaussianFit

ROWS = 512  # of new points at a time: the solver is no faster with more, the array would be new
DEVICE_ROWS = 4096  # the same on a device, which wants few large steps


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of f and its second moments at new points, checked and canonical."""

    kernel: Kernel
    points: Any
    fit: GaussianFit
    basis: Basis | None

    def moments(self, X: Any, coef: np.ndarray | None = None) -> tuple[Any, np.ndarray]:
        """Return k(X)ᵀcoef, or None without coefficients, and the variances of f at X.

        Parameters
        ----------
        X : canonical collection of m points
            Where.
        coef : array of shape (n, t), optional
            Coefficients to multiply the kernel values by, while they are there.

        Returns
        -------
        values : array of shape (m, t) or None
            The product.
        variance : array of shape (m,)
            Never negative.
        """
        variance = prior_variance(self.kernel, X)
        m, n = len(variance), self.fit.factor.n
        values = None if coef is None else np.empty((m, coef.shape[1]))
        X, points = self.kernel.domain.match(X, self.points)
        step = min(ROWS, row_blocks(m, 8 * n)[0].stop)
        if m <= step and (cross := values_at(self.fit, self.kernel, X, points)) is not None:
            with blas_for_values(m * n * n):
                values = None if coef is None else _product(cross, coef)
                self._take(variance, X, cross)
            return values, np.maximum(variance, 0.0, out=variance)
        K = gram_of(self.kernel, X, points)
        there = self._on_device(K)
        step = min(DEVICE_ROWS if there else ROWS, row_blocks(m, 8 * n)[0].stop)
        buffer = None if there else np.empty((min(step, m), n))
        for start in range(0, m, max(step, 1)):
            rows = np.arange(start, min(start + step, m))
            cross = K.rows_of(rows, None if buffer is None else buffer[: len(rows)])
            if values is not None and coef is not None:
                values[rows] = _product(cross, coef)
            part = variance[start : start + step]
            self._take(part, self.kernel.domain.take(X, rows), cross)
        return values, np.maximum(variance, 0.0, out=variance)

    def _take(self, variance: np.ndarray, X: Any, cross: Any) -> None:
        """Take away in place what the rows explain, add what they leave open; `cross` is spent."""
        if self.basis is not None:
            G = self._basis_part(X, cross)
            variance += np.einsum("ij,ij->j", G, G)
        V = self.fit.factor.half_solve(cross.T, overwrite=True).T
        squares = np.einsum("ij,ij->i", V, V) if isinstance(V, np.ndarray) else V.square().sum(1)
        variance -= to_host(squares)

    def covariance(self, X: Any) -> np.ndarray:
        """Return the covariance matrix of f at X, shape (m, m)."""
        out = prior_covariance(self.kernel, X)
        m, n = len(out), self.fit.factor.n
        require_memory(
            8 * m * (m + n), f"{who()}: the covariance of {m} new points", "Give fewer points"
        )
        X, points = self.kernel.domain.match(X, self.points)
        K = gram_of(self.kernel, X, points)
        there = self._on_device(K)
        cross = K.there() if there else K.to_dense(out=np.empty((m, n)))
        G = None if self.basis is None else self._basis_part(X, cross)
        V = self.fit.factor.half_solve(cross.T, overwrite=True)
        if there:
            out -= to_host(V.T @ V)
        elif m:
            dsyrk(-1.0, V, beta=1.0, c=out.T, trans=1, lower=0, overwrite_c=1)
            mirror(out.T)
        if G is not None:
            out += G.T @ G
        diagonal = np.einsum("ii->i", out)
        np.maximum(diagonal, 0.0, out=diagonal)
        return out

    def _on_device(self, K: Gram) -> bool:
        """Whether kernel values and the factor are on a device of torch, and need not leave it."""
        return K.device is not None and not isinstance(self.fit.factor, CholeskyFactor)

    def _basis_part(self, X: Any, cross: Any) -> np.ndarray:
        """Return G⁻¹r of shape (q, m), with GGᵀ = HᵀC⁻¹H and r = h(x) − HᵀC⁻¹k."""
        H = self.basis.columns(X, len(cross))  # type: ignore[union-attr]
        R = H - _product(cross, self.fit.basis_solve)
        return self.fit.basis_factor.half_solve(R.T)


def _product(cross: Any, A: np.ndarray) -> np.ndarray:
    """Return kernel values, an array or a tensor, times a few columns."""
    if isinstance(cross, np.ndarray):
        return times(cross, A)
    return (cross @ cross.new_tensor(A)).cpu().numpy()


def prior_variance(kernel: Kernel, X: Any) -> np.ndarray:
    """Return k(x, x) at new points as an array of one's own."""
    require_diagonal(kernel)
    with np.errstate(over="ignore", invalid="ignore"):
        d = np.array(gram_of(kernel, X).diagonal(), dtype=float)
    if not np.isfinite(d).all():
        i = int(np.argmin(np.isfinite(d)))
        raise InvalidInput(
            f"{who()}: {kernel} overflows at row {i} of X; such a point is far outside the "
            "training data. Scale the columns as in training."
        )
    return d


def prior_covariance(kernel: Kernel, X: Any) -> np.ndarray:
    """Return k(X, X) of new points as a float64 array of one's own."""
    require_diagonal(kernel)
    m = kernel.domain.size(X)
    require_memory(8 * m * m, f"{who()}: the covariance of {m} new points", "Give fewer points")
    return gram_of(kernel, X).to_dense(out=np.empty((m, m)))


def draw(covariance: np.ndarray, rng: Any, n_samples: int) -> np.ndarray:
    """Return draws of N(0, covariance), one a column; the covariance may be singular.

    By its Cholesky factor where it has one, else by its eigenvectors, those of eigenvalues below
    rounding left out.

    Parameters
    ----------
    covariance : array of shape (m, m)
        Symmetric; not changed.
    rng : Generator or RandomState
        Source of randomness; m·n_samples standard normal numbers are taken, sample by sample.
    n_samples : int
        How many.

    Returns
    -------
    array of shape (m, n_samples)
        The draws.
    """
    m = len(covariance)
    require_memory(8 * m * (m + n_samples), f"{n_samples} draws at {m} points", "Give fewer points")
    E = rng.standard_normal((n_samples, m)).T
    L = np.array(covariance, order="F")
    if m and (np.diagonal(L) > 0).all() and potrf(L):
        return dtrmm(1.0, L, E, lower=1, overwrite_b=1)
    values, vectors = eigh(covariance) if m else (np.zeros(0), np.zeros((0, 0)))
    return vectors @ (np.sqrt(np.maximum(values, 0.0))[:, None] * E)


def require_diagonal(kernel: Kernel) -> None:
    """Refuse points that are known by their kernel values with others only."""
    if not kernel.domain.holds_points:
        raise InvalidInput(
            f"{who()}: a standard deviation, covariance or sample at new points needs k(x, x), "
            "which a precomputed matrix of kernel values with the training points does not hold; "
            "use the kernel itself, or ask for the mean alone."
        )


# ---- Slopes of the posterior: gradients in x of the mean and of the variance of the function ----
# With s = C⁻¹k and b = (HᵀC⁻¹H)⁻¹(h − HᵀC⁻¹k), the variance k(x, x) − kᵀC⁻¹k + bᵀ(HᵀC⁻¹H)b has the
# gradient ∇k(x, x) − 2 Σⱼ (s + C⁻¹Hb)ⱼ ∇k(x, xⱼ) + 2(∇h)b. Of a symmetric differentiable kernel
# ∇k(x, x) is twice the gradient of k(x, y) in its first point at y = x.


SLOPE_ROWS = (
    128  # new points at a time: ∇k(x, x) is taken from the diagonal of square tiles of them
)


def variance_slopes(posterior: Posterior, X: Any) -> np.ndarray:
    """Return ∇ of the variance of f at m new points, canonical and matched; shape (m, d)."""
    kernel, fit, basis = posterior.kernel, posterior.fit, posterior.basis
    m = kernel.domain.size(X)
    step = min(SLOPE_ROWS, row_blocks(m, 32 * fit.factor.n)[0].stop)
    parts = []
    for start in range(0, max(m, 1), max(step, 1)):
        rows = kernel.domain.take(X, slice(start, min(start + step, m)))
        size = kernel.domain.size(rows)
        cross = np.asarray(kernel(rows, posterior.points), dtype=float)
        S = fit.factor.solve(cross.T)
        slopes = None
        if basis is not None:
            R = basis.columns(rows, size) - cross @ fit.basis_solve
            b = fit.basis_factor.solve(R.T)
            S = S + fit.basis_solve @ b
            slopes = basis.in_columns_of_x(b)[1]
        out = -2 * kernel.gradient(rows, posterior.points, S.T)
        out += 2 * gram_of(kernel, rows).pull_points(np.eye(size))
        if slopes is not None:
            out += 2 * slopes.T
        parts.append(out)
    return np.concatenate(parts)
