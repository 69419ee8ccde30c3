"""The variational bound of Gaussian sites: its value, its derivatives, and Newton's directions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dtrtri
from scipy.sparse.linalg import LinearOperator, gmres

from mercer.models.gp.approximation import SiteFactor, square_buffer

__all__ = ["Bound", "Likelihood", "SitePoint", "Step"]

#: (mean, var), both (n, C), to V = Σ w E log p, g = ∂V/∂mean, h = −2 ∂V/∂var, and entry by entry
#: −∂h/∂mean and −2 ∂h/∂var: averages of log p and of its first four derivatives.
Likelihood = Callable[
    [np.ndarray, np.ndarray], tuple[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
]

#: ρ and dΛ, both (n, C): the sites (ν, Λ) become (ν + ρ + dΛ mean, Λ + dΛ).
Step = tuple[np.ndarray, np.ndarray]

_SURE = 1e-4  # Λᵢvᵢ from which 1 − diag(B⁻¹) has enough digits for variances
_KNOWN = 1e-7  # and from which it has enough for a direction


@dataclass(eq=False)
class SitePoint:
    """q(f) = Π_c N(mean_c, S_c), S_c = (K⁻¹ + Λ_c)⁻¹, and the bound there; arrays are (n, C)."""

    coef: np.ndarray  # K⁻¹ mean
    lam: np.ndarray  # Λ ≥ 0
    mean: np.ndarray
    var: np.ndarray  # diag S
    bound: float
    size: float  # the sum of the absolute terms of the bound, for its rounding
    slope: np.ndarray  # g, which is coef at the optimum
    bend: np.ndarray  # h, which is Λ at the optimum
    third: np.ndarray  # −∂h/∂mean
    fourth: np.ndarray  # −2 ∂h/∂var
    shift: np.ndarray  # S(g − coef): where means go while Λ stays

    @property
    def nu(self) -> np.ndarray:
        """S⁻¹ mean, the linear terms of the sites."""
        return self.coef + self.lam * self.mean

    def residual(self) -> float:
        """Return the larger relative residual of K⁻¹ mean = g and Λ = h."""
        return max(_relative(self.coef, self.slope), _relative(self.lam, self.bend))

    def natural(self) -> Step:
        """Return the natural gradient: to ν = g + h mean and Λ = h."""
        return self.slope - self.coef, self.bend - self.lam

    def newton(self) -> Step:
        """Return a Newton step on both conditions, with S by its diagonal where it is for Λ.

        With k = −∂h/∂mean, l = −2 ∂h/∂var and dvar = −(S∘S)dΛ the step is dmean = S(g − coef +
        ½k dvar) and dΛ + k dmean + ½l dvar = h − Λ. Only dΛ is approximate: means move together.
        """
        square = np.square(self.var)
        divisor = 1.0 - 0.5 * (np.square(self.third) * self.var + self.fourth) * square
        dlam = self.legal(self.ahead() / np.clip(divisor, 0.3, 3.0))
        return self.slope - self.coef - 0.5 * self.third * square * dlam, dlam

    def ahead(self) -> np.ndarray:
        """Return h − Λ with h where the means will be after `shift`."""
        return self.bend - self.lam - self.third * self.shift

    def legal(self, dlam: np.ndarray) -> np.ndarray:
        """Return dΛ cut where Λ would leave the neighbourhood of Λ and h."""
        low, high = np.minimum(self.lam, self.bend), np.maximum(self.lam, self.bend)
        return np.clip(dlam, 0.1 * low - self.lam, 10.0 * high - self.lam)


class Bound:
    """L = Σᵢ wᵢ E log p(tᵢ|fᵢ) − Σ_c KL(q_c ‖ N(0, K)), evaluated in reused n×n arrays.

    KL = ½(coefᵀ mean + tr B⁻¹ − n + log |B|) with B = I + Λ^½KΛ^½: K is never inverted. A class
    costs 2n³/3 flops, in an array of its own.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix; not changed.
    likelihood : callable
        The expected log-likelihood with its derivatives.
    classes : int
        The number C of Gaussians.
    buffers : list of C arrays of shape (n, n), Fortran order, optional
        Memory to work in.
    """

    def __init__(
        self, K: np.ndarray, likelihood: Likelihood, classes: int, buffers: list | None = None
    ):
        self.K = K
        self.likelihood = likelihood
        self.n_factors = 0
        n = len(K)
        self.buffers = [square_buffer(n) for _ in range(classes)] if buffers is None else buffers

    def prior(self) -> SitePoint:
        """Return the point where q is the prior, which needs no factor."""
        zero = np.zeros((len(self.K), len(self.buffers)))
        var = np.diagonal(self.K)[:, None] + zero
        value, *averages = self.likelihood(zero, var)
        return SitePoint(zero, zero, zero, var, value, abs(value), *averages, self.K @ averages[0])

    def move(self, x: SitePoint, step: Step, length: float = 1.0) -> SitePoint:
        """Return the point after a part of a step.

        Of the new coefficients only the change δ is solved for, (I + ΛK)δ = ρ, so that its rounding
        ends with the step.
        """
        K, n = self.K, len(self.K)
        rho, lam = length * step[0], np.maximum(x.lam + length * step[1], 0.0)
        factors = [_Factor(K, np.sqrt(lam[:, c]), a) for c, a in enumerate(self.buffers)]
        self.n_factors += len(factors)
        pulled = K @ rho
        coef = x.coef + rho
        for c, factor in enumerate(factors):
            coef[:, c] -= factor.apply(pulled[:, c])
        mean = K @ coef
        fit = 0.5 * float(np.sum(coef * mean))
        logdet = sum(factor.logdet() for factor in factors)
        var, trace = np.empty(lam.shape), 0.0
        for c, factor in enumerate(factors):
            var[:, c], part = factor.spread(K)
            trace += part - n
        value, *averages = self.likelihood(mean, var)
        bound = value - fit - 0.5 * (trace + logdet)
        size = abs(value) + fit + 0.5 * (abs(trace) + logdet)
        off = averages[0] - coef
        shift = np.stack([f.posterior(K, off[:, c]) for c, f in enumerate(factors)], axis=1)
        return SitePoint(coef, lam, mean, var, bound, size, *averages, shift)

    def newton(self, x: SitePoint) -> Step:
        """Return the step of `SitePoint.newton` with S itself, class by class.

        n³ flops a class and one more n×n array, and products of n² flops for GMRES.
        """
        ahead, step, dvar = x.ahead(), np.empty(x.lam.shape), np.empty(x.lam.shape)
        squares = []
        for c, buffer in enumerate(self.buffers):
            S = _covariance(self.K, x.lam[:, c], x.var[:, c], buffer)
            product = _Curvature(S, x.third[:, c], x.fourth[:, c])
            step[:, c], _ = gmres(product, ahead[:, c], rtol=1e-4, restart=30, maxiter=2)
            squares.append(product.square)
        dlam = x.legal(step)
        for c, square in enumerate(squares):
            dvar[:, c] = square @ dlam[:, c]
        return x.slope - x.coef - 0.5 * x.third * dvar, dlam


class _Curvature(LinearOperator):
    """dΛ ↦ dΛ − ½(kSk + l)(S∘S)dΛ, by which `SitePoint.newton` divides."""

    def __init__(self, S: np.ndarray, third: np.ndarray, fourth: np.ndarray):
        super().__init__(np.dtype(float), S.shape)
        self.S, self.square = S, np.square(S)
        self.third, self.fourth = third, fourth

    def _matvec(self, u: np.ndarray) -> np.ndarray:
        u = u.reshape(-1)
        dvar = self.square @ u
        return u - 0.5 * (self.third * (self.S @ (self.third * dvar)) + self.fourth * dvar)


def _covariance(K: np.ndarray, lam: np.ndarray, var: np.ndarray, buffer: np.ndarray) -> np.ndarray:
    """Return S = Λ⁻¹ − Λ⁻¹(K + Λ⁻¹)⁻¹Λ⁻¹; of rows whose Λ is too small only the diagonal."""
    S, _ = SiteFactor(K, np.sqrt(lam), buffer).inverse()
    known = lam * var > _KNOWN
    scale = np.where(known, 1.0 / np.where(known, lam, 1.0), 0.0)
    S *= -scale
    S *= scale[:, None]
    np.einsum("ii->i", S)[...] = var
    return S


class _Factor(SiteFactor):
    """The factor of I + Λ^½KΛ^½ that ends as variances."""

    def spread(self, K: np.ndarray) -> tuple[np.ndarray, float]:
        """Return diag((K⁻¹ + Λ)⁻¹) and tr B⁻¹; L⁻¹ replaces the factor, n³/3 flops.

        With B⁻¹ = I − Λ^½SΛ^½ the variances are (1 − diag B⁻¹)/Λ. Where that cancels they are
        kᵢᵢ − ‖L⁻¹Λ^½kᵢ‖².
        """
        self.spent = True
        dtrtri(self.buffer, lower=1, overwrite_c=1)
        columns = (self.buffer[i:, i] for i in range(len(K)))
        inverse = np.array([column @ column for column in columns])
        prior, gone = np.diagonal(K), 1.0 - inverse
        sure = gone > _SURE
        var = gone / np.where(sure, np.square(self.root), 1.0)
        rest = np.flatnonzero(~sure)
        if len(rest):
            V = np.asfortranarray(self.root[:, None] * K[:, rest])
            V = dtrmm(1.0, self.buffer, V, lower=1, overwrite_b=1)
            var[rest] = prior[rest] - np.einsum("ij,ij->j", V, V)
        return np.clip(var, 0.0, prior), float(inverse.sum())

    def posterior(self, K: np.ndarray, r: np.ndarray) -> np.ndarray:
        """Return (K⁻¹ + Λ)⁻¹ r = K(r − Λ^½L⁻ᵀL⁻¹Λ^½Kr), after `spread`."""
        x = (self.root * (K @ r))[:, None]
        x = dtrmm(1.0, self.buffer, x, lower=1)
        x = dtrmm(1.0, self.buffer, x, lower=1, trans_a=1)
        return K @ (r - self.root * x[:, 0])


def _relative(value: np.ndarray, target: np.ndarray) -> float:
    size, gap = float(np.linalg.norm(target)), float(np.linalg.norm(value - target))
    return gap / size if size > 0.0 else float(gap > 0.0)
