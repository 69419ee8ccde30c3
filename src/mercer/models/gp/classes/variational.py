"""The variational bound of Gaussian sites: its value, its derivatives, and Newton's directions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres

from mercer.lapack import dtrmm, dtrtri
from mercer.memory import row_blocks
from mercer.models.gp.classes.expectations import expected, expected_softmax
from mercer.models.gp.classes.laplace import add_outer
from mercer.models.gp.classes.sites import (
    Approximation,
    SiteApproximation,
    SiteFactor,
    as_link,
    square_buffer,
)

#: (mean, var), both (n, C), to V = Σ w E log p, g = ∂V/∂mean, h = −2 ∂V/∂var, row by row −∂h/∂mean
#: (n, C, C), −2 ∂h_c/∂var_c (n, C) and of several classes W = −E ∂∂ log p (n, C, C), else None.
Likelihood = Callable[[np.ndarray, np.ndarray], tuple[Any, ...]]

#: ρ and dΛ, both (n, C): the sites (ν, Λ) become (ν + ρ + dΛ mean, Λ + dΛ).
Step = tuple[np.ndarray, np.ndarray]

_PARTS = 16  # of the budget's quarter that a block of variances may take
_SURE = 1e-4  # Λᵢvᵢ from which 1 − diag(B⁻¹) has enough digits for variances
_CG_STEPS, _CG_TOL = 100, 1e-4
_KNOWN = 1e-7  # and from which it has enough for a direction


@dataclass(eq=False)
class SitePoint:
    """q(f) = Π_c N(mean_c, S_c), S_c = (K⁻¹ + Λ_c)⁻¹, and the bound there; arrays are (n, C)."""

    coef: np.ndarray  # K⁻¹ mean
    lam: np.ndarray  # Λ ≥ 0
    mean: np.ndarray
    var: np.ndarray  # diag S
    bound: float
    rounding: float  # about the rounding of the bound
    shift: np.ndarray  # (K⁻¹ + W)⁻¹(g − coef): where means go while Λ stays
    slope: np.ndarray  # g, which is coef at the optimum
    bend: np.ndarray  # h, which is Λ at the optimum
    third: np.ndarray  # −∂h_c/∂mean_d, shape (n, C, C)
    fourth: np.ndarray  # −2 ∂h/∂var
    cross: np.ndarray | None  # W = −E ∂∂ log p between classes, or None of one

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
        own = np.einsum("icc->ic", self.third)
        divisor = 1.0 - 0.5 * (np.square(own) * self.var + self.fourth) * square
        dlam = self.legal(self.ahead() / np.clip(divisor, 0.3, 3.0))
        return self.follow(-square * dlam), dlam

    def ahead(self) -> np.ndarray:
        """Return h − Λ with h where the means will be after `shift`."""
        return self.bend - self.lam - np.einsum("icd,id->ic", self.third, self.shift)

    def follow(self, dvar: np.ndarray) -> np.ndarray:
        """Return g − coef after a change of the variances."""
        return self.slope - self.coef + 0.5 * np.einsum("idc,id->ic", self.third, dvar)

    def legal(self, dlam: np.ndarray) -> np.ndarray:
        """Return dΛ cut where Λ would leave the neighbourhood of Λ and h."""
        low = np.where(self.lam > 0.0, np.minimum(self.lam, self.bend), self.bend)
        high = np.maximum(self.lam, self.bend)
        return np.clip(dlam, 0.1 * low - self.lam, 10.0 * high - self.lam)


class EvidenceBound:
    """L = Σᵢ wᵢ E log p(tᵢ|fᵢ) − Σ_c KL(q_c ‖ N(0, K)), evaluated in reused n×n arrays.

    KL = ½(coefᵀ mean + tr B⁻¹ − n + log |B|) with B = I + Λ^½KΛ^½: K is never inverted. A class
    costs 2n³/3 flops, in an array of its own.
    """

    def __init__(
        self, K: np.ndarray, likelihood: Likelihood, classes: int, buffers: list | None = None
    ):
        self.K = K
        self.likelihood = likelihood
        self.n_factors = 0
        n = len(K)
        self.buffers = [square_buffer(n) for _ in range(classes)] if buffers is None else buffers

    def prior(self, largest: float = np.inf) -> SitePoint:
        """Return the point where q is the prior, which needs no factor; or as if it were narrower.

        With larger variances cut off the bound is wrong, but not the direction that it gives.
        """
        zero = np.zeros((len(self.K), len(self.buffers)))
        var = np.minimum(np.diagonal(self.K)[:, None], largest) + zero
        value, *averages = self.likelihood(zero, var)
        shift = self.K @ self._solve(averages[-1], averages[0], np.copy)
        return SitePoint(zero, zero, zero, var, value, 1e-13 * abs(value), shift, *averages)

    def move(self, x: SitePoint, step: Step, length: float = 1.0) -> SitePoint:
        """Return the point after a part of a step.

        Of the new coefficients only the change δ is solved for, (I + ΛK)δ = ρ, so that its rounding
        ends with the step.
        """
        K, n = self.K, len(self.K)
        rho, lam = length * step[0], np.maximum(x.lam + length * step[1], 0.0)
        factors = [_Factor(K, np.sqrt(lam[:, c]), a) for c, a in enumerate(self.buffers)]
        self.n_factors += len(factors)
        coef = x.coef + self._solve(x.cross, rho, lambda r: self._pull(factors, r))
        mean = K @ coef
        fit = 0.5 * float(np.sum(coef * mean))
        logdet = sum(factor.logdet() for factor in factors)
        var, trace = np.empty(lam.shape), 0.0
        for c, factor in enumerate(factors):
            var[:, c], part = factor.spread(K)
            trace += part - n
        value, *averages = self.likelihood(mean, var)
        bound = value - fit - 0.5 * (trace + logdet)
        # Of K coef it is at most ε Σ √kⱼⱼ|coefⱼ|.
        reach = float(np.sqrt(np.maximum(np.diagonal(K), 0.0)) @ np.abs(coef).sum(axis=1))
        rounding = 1e-14 * (n**0.5 + 10.0) * (abs(value) + fit + 0.5 * (abs(trace) + logdet))
        rounding += 1e-16 * reach**2
        off = averages[0] - coef
        shift = K @ self._solve(averages[-1], off, lambda r: self._pull(factors, r))
        return SitePoint(coef, lam, mean, var, bound, rounding, shift, *averages)

    def _pull(self, factors: list[_Factor], r: np.ndarray) -> np.ndarray:
        """Return (I + ΛK)⁻¹ r, class by class."""
        Kr = self.K @ r
        return r - np.stack([f.apply(Kr[:, c]) for c, f in enumerate(factors)], axis=1)

    def _solve(self, W: np.ndarray | None, rho: np.ndarray, pull: Callable) -> np.ndarray:
        """Return (I + WK)⁻¹ρ; of one class W is Λ, and `pull` is the answer.

        By conjugate gradients on K + KWK in the inner product of K, where (I + ΛK)⁻¹ is the
        preconditioner K(K + KΛK)⁻¹: K is not inverted. What all classes have in common changes no
        likelihood, W1 = 0: of ρ it is the answer, and the preconditioner must not bring it in.
        """
        if W is None:
            return pull(rho)

        def pulled(r: np.ndarray) -> np.ndarray:
            z = pull(r)
            return z - z.mean(axis=1, keepdims=True)

        K, common = self.K, rho.mean(axis=1, keepdims=True)
        r = rho - common
        z = pulled(r)
        d, Kd = z, K @ z
        out = np.zeros(rho.shape)
        size = first = float(np.sum(r * Kd))
        for _ in range(_CG_STEPS):
            change = d + np.einsum("icd,id->ic", W, Kd)
            curvature = float(np.sum(change * Kd))
            if not (size > _CG_TOL**2 * first and curvature > 0.0):
                break
            out += size / curvature * d
            r = r - size / curvature * change
            z = pulled(r)
            Kz = K @ z
            size, before = float(np.sum(r * Kz)), size
            d, Kd = z + size / before * d, Kz + size / before * Kd
        return common + out + z  # where K sees nothing z is all of the rest

    def newton(self, x: SitePoint) -> Step:
        """Return the step of `SitePoint.newton` with S itself, class by class.

        n³ flops a class and one more n×n array for all of them, and products of n² flops for GMRES.
        """
        ahead, dlam, dvar = x.ahead(), np.zeros(x.lam.shape), np.empty(x.lam.shape)
        square = square_buffer(len(self.K))
        for c, buffer in enumerate(self.buffers):
            S = _covariance(self.K, x.lam[:, c], x.var[:, c], buffer)
            product = _Curvature(S, x.third[:, c, c], x.fourth[:, c], square)
            dlam[:, c], _ = gmres(product, ahead[:, c], rtol=1e-4, restart=30, maxiter=2)
            dlam[:, c] = x.legal(dlam)[:, c]
            dvar[:, c] = -(square @ dlam[:, c])
        return x.follow(dvar), dlam


class _Curvature(LinearOperator):
    """dΛ ↦ dΛ − ½(kSk + l)(S∘S)dΛ, by which `SitePoint.newton` divides."""

    def __init__(self, S: np.ndarray, third: np.ndarray, fourth: np.ndarray, square: np.ndarray):
        super().__init__(np.dtype(float), S.shape)
        self.S, self.square = S, np.square(S, out=square)
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
        unsure = np.flatnonzero(~sure)
        for rows in row_blocks(len(unsure), 8 * 2 * _PARTS * len(K)):
            rest = unsure[rows]
            V = (K[rest] * self.root).T  # K is symmetric
            V = dtrmm(1.0, self.buffer, V, lower=1, overwrite_b=1)
            var[rest] = prior[rest] - np.einsum("ij,ij->j", V, V)
        return np.clip(var, 0.0, prior), float(inverse.sum())

    def apply(self, V: np.ndarray) -> np.ndarray:
        """Return (K + Λ⁻¹)⁻¹ V, by L or, after `spread`, by its inverse."""
        if not self.spent:
            return super().apply(V)
        x = dtrmm(1.0, self.buffer, (self.root * V)[:, None], lower=1)
        x = dtrmm(1.0, self.buffer, x, lower=1, trans_a=1)
        return self.root * x[:, 0]


def _relative(value: np.ndarray, target: np.ndarray) -> float:
    size, gap = float(np.linalg.norm(target)), float(np.linalg.norm(value - target))
    return gap / size if size > 0.0 else float(gap > 0.0)


# ---- Ascent of a variational bound by natural gradients and Newton steps, none of which lowers
# it.


TOL = 1e-10  # relative residual to aim at
ENOUGH = 1e-6  # relative residual that counts as converged where rounding is in the way
MAX_ITER = 300
_QUICK = 20  # steps after which all of S is worth its cost
_SHORTEST = 2.0**-20
_MODERATE = 4.0  # prior variance beyond which the prior is a poor start
_PATIENCE = 3  # steps near the end that may not improve the residual


class WarmSites:
    """What one call leaves to the next: sites to start from, and memory to work in."""

    def __init__(self, nu: np.ndarray, lam: np.ndarray, factors: list[SiteFactor]):
        self.nu, self.lam = nu, lam
        self._factors = factors

    def take(self, shape: tuple[int, int]) -> list | None:
        """Return the memory of the factors, which are spent from then on, if it is for (n, C)."""
        if self.nu.shape != shape:
            return None
        factors, self._factors = self._factors, []
        for factor in factors:
            factor.spent = True
        return [factor.buffer for factor in factors] or None


class Ascent:
    """Where an ascent ended."""

    def __init__(self, bound: EvidenceBound, point: SitePoint, bounds: list[float]):
        self.point, self.bounds = point, bounds
        self.n_factors = bound.n_factors
        self.factors = [
            SiteFactor(bound.K, np.sqrt(point.lam[:, c]), a) for c, a in enumerate(bound.buffers)
        ]

    def facts(self) -> dict[str, Any]:
        """Return what an `Approximation` says of how it went."""
        x, steps = self.point, len(self.bounds) - 1
        residual = x.residual()
        converged = residual <= ENOUGH
        return {
            "log_evidence": x.bound,
            "converged": converged,
            "n_iter": steps,
            "residual": residual,
            "message": ""
            if converged
            else (
                f"variational inference stopped after {steps} steps with a relative residual of "
                f"{residual:.2g}; bound the scale of the kernel, or scale the inputs."
            ),
            "start": WarmSites(x.nu, x.lam, self.factors),
            "bounds": self.bounds,
            "extra": {"n_factors": self.n_factors},
        }


def ascend(bound: EvidenceBound, start: WarmSites | None = None) -> Ascent:
    """Climb until both conditions of a stationary point hold; the bound never falls.

    A step is Newton's with a diagonal approximation. Where the bound does not rise on it, and after
    many of them, it is Newton's with all of S from then on. Where that does not help either it goes
    along the natural gradient, to (1 − ρ)(ν, Λ) + ρ(g + h mean, h), on which the bound rises for
    small ρ (Khan & Lin 2017; ρ = 1 is the fixed point of Opper & Archambeau 2009).

    Parameters
    ----------
    bound : EvidenceBound
        What to maximise.
    start : WarmSites, optional
        Where to start, if that is better than the prior and fits.
    """
    x = _first(bound, start)
    bounds = [x.bound]
    best, idle, hard = x.residual(), 0, False
    while best > TOL and len(bounds) <= MAX_ITER and idle < _PATIENCE:
        found = None
        if not hard:
            found = _try(bound, x, x.newton(), 0.5)
            hard = found is None or len(bounds) > _QUICK
        if found is None:
            found = _try(bound, x, bound.newton(x), 0.25)
        if found is None and best > ENOUGH:
            found = _try(bound, x, x.natural(), _SHORTEST)
        if found is None:
            break
        x = found
        bounds.append(x.bound)
        now = x.residual()
        idle = 0 if now < 0.5 * best or now > ENOUGH else idle + 1
        best = min(best, now)
    return Ascent(bound, x, bounds)


def _first(bound: EvidenceBound, start: WarmSites | None) -> SitePoint:
    x = bound.prior()
    if start is not None and start.nu.shape == x.lam.shape:
        # The sites of a class give its mean, whatever the other classes.
        y = bound.move(replace(x, cross=None), (start.nu, start.lam))
    elif x.var.max(initial=0.0) > _MODERATE:
        cut = bound.prior(_MODERATE)
        y = bound.move(cut, cut.natural())
    else:
        return x
    return y if y.bound >= x.bound else x


def _try(bound: EvidenceBound, x: SitePoint, step: Step, shortest: float) -> SitePoint | None:
    """Return the point after the longest part of a step, by halves, on which the bound rises."""
    length = 1.0
    while length >= shortest:
        y = bound.move(x, step, length)
        if _rises(x, y):
            return y
        length *= 0.5
    return None


def _rises(x: SitePoint, y: SitePoint) -> bool:
    """Whether the bound is higher, or the same to rounding with a smaller residual."""
    if not np.isfinite(y.bound):
        return False
    slack, gain = max(x.rounding, y.rounding), y.bound - x.bound
    return gain > slack or (gain >= -slack and y.residual() < x.residual())


# ---- Variational inference of a binary Gaussian process: the Gaussian nearest to the posterior.


class VariationalApproximation(SiteApproximation):
    """The posterior N(mean, (K⁻¹ + Λ)⁻¹) at the maximum of the evidence's lower bound.

    Parameters
    ----------
    K, root, factor, **facts
        As of `SiteApproximation`.
    bounds : list of float
        The bound at the start and after each step; it never falls.
    """

    def __init__(
        self, K: np.ndarray, root: np.ndarray, factor: SiteFactor, bounds: list, **facts: Any
    ):
        super().__init__(K, root, factor, **facts)
        self.bounds = bounds

    def cotangent(self) -> np.ndarray:
        """Return ½(coef coefᵀ − (K + Λ⁻¹)⁻¹).

        The bound is stationary in the mean m and the covariance S, so that only K in the divergence
        −½(tr K⁻¹S + mᵀK⁻¹m + log |K|) counts: ½(K⁻¹SK⁻¹ + K⁻¹mmᵀK⁻¹ − K⁻¹), and K⁻¹ − K⁻¹SK⁻¹ is
        (K + Λ⁻¹)⁻¹.
        """
        return add_outer(self.factor().inverse()[0], self.coef, np.zeros_like(self.coef))


def vi(
    K: np.ndarray,
    t: np.ndarray,
    weights: np.ndarray | None = None,
    link: Any = "logit",
    start: WarmSites | None = None,
) -> VariationalApproximation:
    r"""Maximise the variational bound over all Gaussians q(f) = N(m, S).

    .. math:: \log p(t) \ge \sum_i w_i E_q \log p(t_i \mid f_i) - KL(q \,\|\, N(0, K))

    At the maximum S = (K⁻¹ + Λ)⁻¹ with Λᵢ = −wᵢ E ∂² log p and K⁻¹m = w E ∂ log p (Opper &
    Archambeau 2009): 2n numbers instead of n + n(n+1)/2. K may be singular.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix; not changed.
    t : ndarray of shape (n,)
        Labels −1 and 1.
    weights : ndarray of shape (n,) or None
        Powers of the likelihoods; 2 is the row given twice.
    link : {"logit", "probit"} or Link
        The likelihood.
    start : WarmSites, optional
        ``start`` of an earlier answer, for another K or other weights of as many rows. Its memory
        is taken over.

    Returns
    -------
    VariationalApproximation
        ``log_evidence`` is the bound.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.models.gp.classes.variational import vi
    >>> q = vi(np.eye(2), np.array([1.0, -1.0]), link="probit")
    >>> q.converged, bool(q.log_evidence < 2 * np.log(0.5))
    (True, True)
    """
    link = as_link(link)
    t = np.asarray(t, dtype=float)
    w = np.ones(len(t)) if weights is None else np.asarray(weights, dtype=float)

    def likelihood(mean: np.ndarray, var: np.ndarray) -> tuple[Any, ...]:
        value, *rest = expected(link, t, mean[:, 0], var[:, 0])
        first, second, third, fourth = (w[:, None] * e[:, None] for e in rest)
        return float(w @ value), first, -second, third[:, :, None], fourth, None

    buffers = None if start is None else start.take((len(t), 1))
    ascent = ascend(EvidenceBound(K, likelihood, 1, buffers), start)
    x, factor = ascent.point, ascent.factors[0]
    return VariationalApproximation(
        K, factor.root, factor, mean=x.mean[:, 0], coef=x.coef[:, 0], **ascent.facts()
    )


# ---- Variational inference for several classes: a Gaussian each, joined by the softmax
# likelihood.


class SoftmaxVariational(Approximation):
    """The posterior Π_c N(mean_c, (K⁻¹ + Λ_c)⁻¹) at the maximum of the evidence's lower bound.

    Parameters
    ----------
    K, **facts
        As of `Approximation`.
    factors : list of C SiteFactors
        Of the classes.
    bounds : list of float
        The bound at the start and after each step; it never falls.
    """

    def __init__(self, K: np.ndarray, factors: list[SiteFactor], bounds: list, **facts: Any):
        super().__init__(K, **facts)
        self.roots = [factor.root for factor in factors]
        self.bounds = bounds
        self._factors = factors

    @property
    def sites(self) -> np.ndarray:
        """The precisions Λ of the classes, shape (n, C)."""
        return np.square(np.stack(self.roots, axis=1))

    def factors(self) -> list[SiteFactor]:
        """Return the factors of I + Λ_c^½KΛ_c^½; made again where their memory was given away."""
        self._factors = [
            SiteFactor(self.K, root) if factor.spent else factor
            for root, factor in zip(self.roots, self._factors, strict=True)
        ]
        return self._factors

    def cotangent(self) -> np.ndarray:
        """Return ½ Σ_c (coef_c coef_cᵀ − (K + Λ_c⁻¹)⁻¹), as of two classes."""
        total, *others = (factor.inverse()[0] for factor in self.factors())
        for other in others:
            total += other
        return add_outer(total, self.coef, np.zeros_like(self.coef))

    def variance(self, Kx: np.ndarray, diag: np.ndarray) -> np.ndarray:
        """Return the covariances of the classes' latent values, shape (m, C, C), diagonal."""
        out = np.zeros((len(diag), len(self.roots), len(self.roots)))
        for c, factor in enumerate(self.factors()):
            out[:, c, c] = factor.variance(Kx, diag)
        return out


def vi_softmax(
    K: np.ndarray,
    onehot: np.ndarray,
    weights: np.ndarray | None = None,
    start: WarmSites | None = None,
) -> SoftmaxVariational:
    r"""Maximise a lower bound of the evidence over Gaussians that are independent between classes.

    .. math:: \log p(y) \ge \sum_i w_i E_q \log \mathrm{softmax}_{y_i}(f_i)
              - \sum_c KL(q_c \,\|\, N(0, K))

    The expectation is exact (`expected_softmax`), not bounded in turn. At the maximum the
    covariances are (K⁻¹ + Λ_c)⁻¹ with Λ_ic = wᵢ E p_c(1 − p_c), and K⁻¹m_c = w(y_c − E p_c).

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix of every class; not changed.
    onehot : ndarray of shape (n, C)
        1 in the column of the row's class, 0 elsewhere.
    weights : ndarray of shape (n,), optional
        Powers of the likelihoods; 2 is the row given twice.
    start : WarmSites, optional
        ``start`` of an earlier answer with as many rows and classes. Its memory is taken over.

    Returns
    -------
    SoftmaxVariational
        ``log_evidence`` is the bound.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.models.gp.classes.variational import vi_softmax
    >>> q = vi_softmax(np.eye(3), np.eye(3))
    >>> q.converged, bool(q.log_evidence < 3 * np.log(1 / 3))
    (True, True)
    """
    Y = np.asarray(onehot, dtype=float)
    w = np.ones((len(Y), 1)) if weights is None else np.asarray(weights, dtype=float)[:, None]

    def likelihood(mean: np.ndarray, var: np.ndarray) -> tuple[Any, ...]:
        value, p, bend, third, fourth = expected_softmax(mean, var)
        bend *= w[:, :, None]
        third *= -w[:, :, None]
        total = float(w[:, 0] @ (np.sum(Y * mean, axis=1) - value))
        h = np.einsum("icc->ic", bend).copy()
        return total, w * (Y - p), h, third, -w * fourth, bend

    buffers = None if start is None else start.take(Y.shape)
    ascent = ascend(EvidenceBound(K, likelihood, Y.shape[1], buffers), start)
    x = ascent.point
    return SoftmaxVariational(K, ascent.factors, mean=x.mean, coef=x.coef, **ascent.facts())
