"""The log evidence of Gaussian process regression, its gradient, and the posterior at one point.

With C = K + diag(σ²/w), targets z and a basis H whose coefficients have a flat prior,

    log p(z) = −½[(n−q) log 2π + log|C| + log|HᵀC⁻¹H| + zᵀQz],  Q = C⁻¹ − C⁻¹H(HᵀC⁻¹H)⁻¹HᵀC⁻¹

(Rasmussen & Williams, Gaussian Processes for Machine Learning, eq. 2.45; 2.30 without a basis).
Its derivative in C is ½(aaᵀ − Q) with a = Qz (their eq. 5.9), for outputs that share C the sum.
C, its factor and its inverse live one after another in one n×n array: LAPACK writes one triangle,
K stays in the other, and the derivative is made tile by tile as `theta_vjp` asks for it. On a
device the array is a tensor there, and only numbers of the size of Z leave it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.domains import is_torch, to_host
from mercer.errors import InvalidInput, NotPositiveDefinite, who
from mercer.estimator import repair
from mercer.kernels import unproven
from mercer.operators import Gram, gram_of, upper_half
from mercer.solvers import CholeskyFactor, factor

if TYPE_CHECKING:
    from mercer.kernels import Kernel

LOG_2PI = float(np.log(2 * np.pi))
DEPENDENT = 1e-13  # a squared length below this part is rounding
ENOUGH = 1e-8  # noise, over the mean variance, that rounding does not hide
INDEFINITE = 1e-8  # an eigenvalue of K below minus this part of its trace is not rounding


@dataclass(frozen=True, eq=False)
class GaussianFit:
    """Everything the posterior at one kernel and noise is made of.

    Parameters
    ----------
    factor : CholeskyFactor or DeviceFactor
        Of C = K + diag(σ²/w).
    dual : ndarray of shape (n, t)
        a = C⁻¹(Z − Hβ).
    beta : ndarray of shape (q, t)
        Generalised least squares coefficients of the basis.
    basis_solve : ndarray of shape (n, q)
        C⁻¹H.
    basis_factor : CholeskyFactor
        Of HᵀC⁻¹H, the precision of β.
    log_evidence : float
        Summed over the outputs.
    residual : float or None, default=None
        ‖(C + jitter·I)a − (Z − Hβ)‖/‖Z − Hβ‖, the worst output; only of a posterior.
    product : ndarray of shape (n, t) or None, default=None
        Ca without the jitter, from the entries of C; only of a posterior.
    """

    factor: Any
    dual: np.ndarray
    beta: np.ndarray
    basis_solve: np.ndarray
    basis_factor: CholeskyFactor
    log_evidence: float
    residual: float | None = None
    product: np.ndarray | None = None

    @property
    def jitter(self) -> float:
        """What had to be added to the diagonal of C; 0.0 normally."""
        return self.factor.jitter


NO_BASIS = CholeskyFactor(np.zeros((0, 0), order="F"), 0.0, np.zeros(0))  # of no columns


class Named:
    """The name of a kernel with all its digits, made where a message asks for it."""

    def __init__(self, kernel: Kernel):
        self._kernel = kernel

    def __str__(self) -> str:
        return repr(self._kernel)


class Evidence:
    """The log evidence of given targets as a function of the kernel and the noise.

    Holds one n×n array that evaluations share, so it is not for several threads at once.

    X : canonical collection
        The points.
    Z : ndarray of shape (n, t)
        The targets; outputs share kernel and noise, their evidences add.
    weights : ndarray of shape (n,), optional
        Positive; w rows of noise σ² at one point with one target are a row of noise σ²/w, and the
        evidence is that of all of them. Repeated rows without noise have no density: the weight
        of a row whose noise is 0 counts for nothing.
    basis : ndarray of shape (n, q), optional
        H, of independent columns.
    unit : float, default=1.0
        What a variance of 1 is to the user, for messages.
    """

    def __init__(
        self,
        X: Any,
        Z: np.ndarray,
        weights: np.ndarray | None = None,
        basis: np.ndarray | None = None,
        unit: float = 1.0,
    ):
        self.unit = unit
        self.X = X
        self.Z = Z if Z.ndim == 2 else Z[:, None]
        self.n, self.t = self.Z.shape
        self.weights = weights
        self.basis = np.zeros((self.n, 0)) if basis is None else basis
        self._buffer: Any = None

    def work_in(self, other: Evidence) -> None:
        """Take over the n×n array of another evidence of the same rows."""
        self._buffer = other._buffer

    def value(self, kernel: Kernel, noise: Any) -> float:
        """Return the log evidence; one factorisation.

        Parameters
        ----------
        kernel : Kernel
            Covariance of the function.
        noise : float or ndarray of shape (n,)
            Variance of the noise of a row of weight 1.

        Returns
        -------
        float
            Summed over the outputs.
        """
        return self._fit(gram_of(kernel, self.X), noise).log_evidence

    def value_and_gradient(self, kernel: Kernel, noise: Any) -> tuple[float, np.ndarray, float]:
        """Return the log evidence and its gradient; one factorisation and one inverse.

        Returns
        -------
        value : float
            The log evidence.
        gradient : ndarray of shape (p,)
            In ``kernel.theta``.
        noise_gradient : float
            In the logarithm of the noise; of a vector in that of a common factor.
        """
        K = gram_of(kernel, self.X)
        fit = self._fit(K, noise)
        q = fit.basis_solve.shape[1]
        # A column of zeros, since NumPy takes an outer product to no BLAS.
        V = np.zeros((self.n, self.t + q + 1))
        V[:, : self.t] = fit.dual
        if q:
            half = fit.basis_factor.half_solve(fit.basis_solve.T).T
            V[:, self.t : self.t + q] = np.sqrt(self.t) * half
        inverse = fit.factor.into_inverse()
        diagonal = (V * V).sum(1) - self.t * to_host(inverse.diagonal())
        ridge = np.broadcast_to(self._ridge(noise), (self.n,))
        noise_gradient = 0.5 * float(diagonal @ ridge)
        if self.weights is not None:
            noise_gradient -= 0.5 * self.t * float(((self.weights - 1) * (noise > 0)).sum())
        if not len(kernel.theta):
            return fit.log_evidence, np.zeros(0), noise_gradient
        V /= np.sqrt(self.t)
        V = inverse.new_tensor(V) if is_torch(inverse) else V
        upper = inverse.T  # row-wise in memory, as the tiles above the diagonal are read

        def cotangent(rows: slice, cols: slice) -> Any:
            """Return Wᵢⱼ + Wⱼᵢ of W = ½(VVᵀ − tC⁻¹), a diagonal tile folded onto its upper half."""
            C = V[rows] @ V[cols].T
            C -= upper[rows, cols]
            if self.t > 1:
                C *= self.t
            return C if rows != cols else upper_half(C)

        return fit.log_evidence, K.pull_theta(cotangent), noise_gradient

    def posterior(
        self, kernel: Kernel, noise: Any, known: CholeskyFactor | None = None
    ) -> GaussianFit:
        """Return the posterior, certified; its factor is the caller's own.

        Returns
        -------
        GaussianFit
            With its residual.

        Raises
        ------
        NotPositiveDefinite
            Also for a K that is indefinite behind the noise.
        """
        if known is None:
            fit = self._fit(gram_of(kernel, self.X), noise)
            self._buffer = None
        else:
            fit = self._solved(known, noise)
        ridge = self._ridge(noise)
        if unproven(kernel):
            self._check_definite(kernel, fit.factor, float(np.min(ridge)))
        target = self.Z - self.basis @ fit.beta
        product = fit.factor.matmul(fit.dual)
        gap = product + fit.jitter * fit.dual - target
        size = np.linalg.norm(target, axis=0)
        residual = float((np.linalg.norm(gap, axis=0) / np.where(size > 0, size, 1.0)).max())
        return GaussianFit(
            fit.factor,
            fit.dual,
            fit.beta,
            fit.basis_solve,
            fit.basis_factor,
            fit.log_evidence,
            residual,
            product,
        )

    # -- one evaluation -----------------------------------------------------------------------
    def _ridge(self, noise: Any) -> Any:
        return noise if self.weights is None else noise / self.weights

    def _fit(self, K: Gram, noise: Any) -> GaussianFit:
        if self._buffer is None or is_torch(self._buffer) == (K.device is None):
            what = f"{who()}: the {self.n} × {self.n} covariance matrix"
            self._buffer = K.space(what, "Fit fewer rows, or use SparseGaussianProcessRegressor")
        C, name = K.there(self._buffer), Named(K.kernel)
        trace = float(C.trace())
        try:
            f = factor(C, self._ridge(noise), overwrite=True, owner=name, knob="noise")
        except NotPositiveDefinite as error:
            raise explain(error, str(name), trace, self.n, self.unit) from error
        return self._solved(f, noise)

    def _solved(self, f: CholeskyFactor, noise: Any) -> GaussianFit:
        q = self.basis.shape[1]
        if not q:
            dual, none = f.solve(self.Z), np.zeros((self.n, 0))
            once = self.n * LOG_2PI + f.logdet() + self._repetition(noise)
            value = -0.5 * (self.t * once + float((self.Z * dual).sum()))
            return GaussianFit(f, dual, np.zeros((0, self.t)), none, NO_BASIS, value)
        solved = f.solve(np.hstack([self.Z, self.basis]))
        dual, basis_solve = solved[:, : self.t], solved[:, self.t :]
        g = self._basis_factor(basis_solve)
        beta = g.solve(basis_solve.T @ self.Z)
        dual = dual - basis_solve @ beta
        square = float(((self.Z - self.basis @ beta) * dual).sum())
        once = (self.n - q) * LOG_2PI + f.logdet() + g.logdet() + self._repetition(noise)
        return GaussianFit(f, dual, beta, basis_solve, g, -0.5 * (self.t * once + square))

    def _basis_factor(self, basis_solve: np.ndarray) -> CholeskyFactor:
        M = self.basis.T @ basis_solve
        diagonal = np.diagonal(M)
        try:
            g = factor(0.5 * (M + M.T), jitter=0.0, owner=who())
            # Lⱼⱼ²/Mⱼⱼ is the part of column j that is left beside those before it.
            if (np.diagonal(g.lower()) ** 2 <= DEPENDENT * diagonal).any():
                raise NotPositiveDefinite("singular to rounding")
            return g
        except NotPositiveDefinite as error:
            raise InvalidInput(
                f"{who()}: the {M.shape[0]} columns of the mean's basis are dependent on "
                f"these {self.n} rows; leave columns out, or use mean='constant'."
            ) from error

    def _repetition(self, noise: Any) -> float:
        """Return Σ (w−1) log 2πσ² + log w.

        N(z|f, σ²)ʷ = N(z|f, σ²/w)·(2πσ²)^(−(w−1)/2)·w^(−1/2).
        """
        if self.weights is None:
            return 0.0
        w = self.weights
        with np.errstate(divide="ignore", invalid="ignore"):
            each = (w - 1) * (LOG_2PI + np.log(noise)) + np.log(w)
        return float(np.where(np.asarray(noise) > 0, each, 0.0).sum())

    def _check_definite(self, kernel: Kernel, f: CholeskyFactor, ridge: float) -> None:
        """Refuse an indefinite K that the noise covers up: λ_min(K) ≤ λ_min(C) − min σ²/w."""
        if ridge == 0:
            return
        low = f.smallest_eigenvalue() - ridge
        if low < -INDEFINITE * max(f.trace() - self.n * ridge, 0.0):
            raise NotPositiveDefinite(
                f"{kernel}: its Gram matrix has an eigenvalue of {low:.4g} or less in the units "
                "of kernel_, so it is not "
                "positive semidefinite and not that of a kernel, whatever the noise. "
                f"{repair(kernel)}",
                low,
            )


def explain(
    error: NotPositiveDefinite, kernel: str, trace: float, n: int, unit: float
) -> NotPositiveDefinite:
    """Return the error of a factorisation with the words of a process: noise, in units of y²."""
    low = error.smallest_eigenvalue
    if low is None:
        return error
    what = (
        f"{kernel}: the covariance K + noise of the {n} rows is not positive definite: its "
        f"smallest eigenvalue is {low * unit:.4g} in the units of y²"
    )
    if low < -INDEFINITE * trace:
        return NotPositiveDefinite(
            f"{what}. So K itself is indefinite, not the matrix of a kernel, and no noise makes it "
            f"one. {repair(kernel)}",
            low * unit,
        )
    enough = max(-2 * low, ENOUGH * trace / n) * unit
    return NotPositiveDefinite(
        f"{what}, which is rounding: K is singular, as with rows given twice. Use more noise, such "
        f"as {enough:.2g}, or drop such rows.",
        low * unit,
    )
