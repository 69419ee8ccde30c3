"""Expectation propagation for two-class Gaussian process classification.

The posterior is replaced by N(0, K) times one Gaussian site exp(−½τᵢf² + νᵢf) for each likelihood
term, such that the mean and variance of every marginal equal those of its tilted density, the
marginal with its site replaced by the term itself (Rasmussen & Williams, section 3.6). A row of
weight w ≥ 1 has w equal sites, of which a cavity lacks one, so that a weight is a repetition; for
w < 1 the term is pʷ, one site. All sites are updated at once, with one factorisation, and the
iteration is accelerated; where that stalls, rows are visited one after another (algorithm 3.5).
Both have the same fixed point.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lstsq

from mercer.errors import InvalidInput
from mercer.lapack import dgemm, dpotri, dpotrs, dtrsm, times
from mercer.models.gp.classes.laplace import add_outer, laplace
from mercer.models.gp.classes.sites import (
    Link,
    SiteApproximation,
    SiteFactor,
    Warm,
    as_link,
    square_buffer,
)

# ---- Moments of one likelihood term times a normal density, to rounding and without
# cancellation.


_LEAST = 1e-200


@dataclass(frozen=True)
class Tilted:
    """What is left of p(t | f)ᵖ N(f | m, v): its mass, its moments, and the site with the same.

    Parameters
    ----------
    log_z : ndarray of shape (n,)
        log ∫ p(t | f)ᵖ N(f | m, v) df.
    mean, variance : ndarray of shape (n,)
        Of the normalised density.
    precision, shift : ndarray of shape (n,)
        τ ≥ 0 and ν of the factor exp(−½τf² + νf) that gives N(f | m, v) the same mean and variance:
        τ = 1/variance − 1/v, ν = mean/variance − m/v.
    """

    log_z: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    precision: np.ndarray
    shift: np.ndarray


def tilted(link: Link, t: Any, mean: Any, variance: Any, power: Any = 1.0) -> Tilted:
    """Return the moments of p(t | f)ᵖ N(f | mean, variance), row by row.

    The probit link to the power 1 has a closed form (Rasmussen & Williams 3.82–3.87); the rest is
    integrated by the trapezoidal rule, with errors below 1e-11 for variances from 0 to 1e8.

    Examples
    --------
    >>> from mercer.models.gp.classes.sites import Probit
    >>> from mercer.models.gp.classes.ep import tilted
    >>> tilted(Probit(), [1.0], [0.0], [3.0]).mean.round(6)
    array([1.196827])
    """
    from mercer.jit import tilted_moments

    t = np.ascontiguousarray(t, dtype=float)
    out = np.empty((5, len(t)))
    v = np.maximum(np.ascontiguousarray(variance, dtype=float), _LEAST)
    powers = np.ascontiguousarray(np.broadcast_to(np.asarray(power, dtype=float), t.shape))
    m = np.ascontiguousarray(mean, dtype=float)
    tilted_moments(link.name == "probit", powers, t, m, v, out)
    return Tilted(*out)


# ---- Anderson mixing: a fixed-point iteration that learns from its last few steps ----


class Mixing:
    """Propose the next point of x = g(x) from the last few pairs (x, g(x) − x).

    The combination of earlier steps whose residuals cancel best, in a weighted least-squares sense,
    is taken away from the plain step (Walker & Ni, SIAM J. Numer. Anal. 49, 2011).
    """

    def __init__(self, memory: int = 8):
        self._points: deque = deque(maxlen=memory + 1)
        self._steps: deque = deque(maxlen=memory + 1)

    def forget(self) -> None:
        """Drop all earlier steps."""
        self._points.clear()
        self._steps.clear()

    def propose(self, x: np.ndarray, step: np.ndarray, scale: np.ndarray, damp: float = 1.0):
        """Return the next x.

        Returns
        -------
        ndarray of shape (p,)
            The plain step alone where products of earlier ones overflow.
        """
        self._points.append(x)
        self._steps.append(step)
        new = x + damp * step
        if len(self._steps) > 1:
            moves = np.diff(np.array(self._points), axis=0).T
            changes = np.diff(np.array(self._steps), axis=0).T
            left, right = scale[:, None] * changes, scale * step
            if np.isfinite(left).all() and np.isfinite(right).all():
                part = lstsq(left, right, cond=1e-10)[0]
                new -= (moves + damp * changes) @ part
        return new


# ---- ep ----


#: Sweeps stop where no moment differs by more than this part of its scale.
TOLERANCE = 1e-9
#: A fixed point is taken as found where rounding stops the sweeps below this.
CONVERGED = 1e-6
_SWEEPS = 300
#: Sweeps without halving the residual before rows are visited one by one, and how often then.
_PATIENCE = 12
_VISITS = 6
_HALVINGS = 60
_TINY = 1e-150
#: Site precisions of more than this many times that of the prior are treated apart, for rounding.
_STIFF = 1e3


class EPApproximation(SiteApproximation):
    """The Gaussian with the sites of expectation propagation; made by `ep`."""

    def cotangent(self) -> np.ndarray:
        """Return d log Z/dK = ½(aaᵀ − (K + S⁻¹)⁻¹), in the memory of the factor.

        The sites do not add to it: log Z is stationary in them (R&W, eq. 5.27).
        """
        R, _ = self.factor().inverse()
        return add_outer(R, self.coef, np.zeros_like(self.coef))


class Sites(Warm):
    """Sites of an earlier call, to start the next one, and memory to work in.

    Parameters
    ----------
    coef : ndarray of shape (n,)
        Coefficients of the latent mean.
    factor : SiteFactor
        The factor whose memory may be taken over.
    precision, shift : ndarray of shape (n,)
        τ and ν, of one of the equal sites of each row.
    """

    def __init__(
        self, coef: np.ndarray, factor: SiteFactor, precision: np.ndarray, shift: np.ndarray
    ):
        super().__init__(coef, factor)
        self.precision, self.shift = precision, shift


@dataclass(frozen=True)
class _State:
    """The Gaussian with given sites, what each term makes of its cavity, and the mismatch."""

    precision: np.ndarray
    shift: np.ndarray
    factor: SiteFactor
    coef: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    cavity_mean: np.ndarray
    cavity_variance: np.ndarray
    tilt: Tilted
    residual: float


class _Problem:
    """K, labels, weights and link, with two n×n arrays to work in: three with K, never more."""

    def __init__(
        self, K: np.ndarray, t: np.ndarray, w: np.ndarray, link: Link, buffer: np.ndarray | None
    ):
        self.K, self.t, self.w, self.link = K, t, w, link
        self.copies, self.powers = np.maximum(w, 1.0), np.minimum(w, 1.0)
        self.diagonal = np.diagonal(K).copy()
        self.buffer = square_buffer(len(t)) if buffer is None else buffer
        self.work = square_buffer(len(t))

    def state(self, precision: np.ndarray, shift: np.ndarray) -> _State | None:
        """Return the state for sites; None where a cavity is not a density."""
        total, lean = self.copies * precision, self.copies * shift
        factor = SiteFactor(self.K, np.sqrt(total), self.buffer)
        variance, kept = self._variances(factor, total, precision)
        coef = self._coef(factor, total, lean)
        mean = times(self.K, coef)
        if not (kept > 0.0).all() or not np.isfinite(mean).all():
            return None
        if not (np.isfinite(shift).all() and np.isfinite(variance).all()):
            return None
        # the marginal without one site: 1/v = 1/σ² − τ and m/v = μ/σ² − ν, with kept = 1 − τσ²
        cavity_variance = variance / kept
        cavity_mean = (mean - variance * shift) / kept
        tilt = tilted(self.link, self.t, cavity_mean, cavity_variance, self.powers)
        apart = np.abs(tilt.mean - mean) / np.sqrt(np.maximum(variance, _TINY))
        wide = np.abs(tilt.variance - variance) / np.maximum(variance, _TINY)
        residual = float(np.maximum(apart.max(initial=0.0), wide.max(initial=0.0)))
        if not np.isfinite(residual):  # never taken for a small one
            return None
        return _State(
            precision, shift, factor, coef, mean, variance, cavity_mean, cavity_variance, tilt,
            residual,
        )  # fmt: skip

    def _variances(
        self, factor: SiteFactor, total: np.ndarray, precision: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return σ² = diag((K⁻¹ + S)⁻¹) and 1 − τσ².

        As k − ‖L⁻¹S^½k‖² (R&W 3.68), or, where Sk is so large that this would cancel, as
        σ² = (1 − b)/S with b = diag(B⁻¹).
        """
        variance, kept = np.empty(len(total)), np.empty(len(total))
        low = total * self.diagonal <= _STIFF
        if not low.all():
            np.copyto(self.work, factor.buffer)
            dpotri(self.work, lower=1, overwrite_c=1)
            rest = np.clip(np.diagonal(self.work)[~low], 0.0, 1.0)
            variance[~low] = (1.0 - rest) / total[~low]
            kept[~low] = (self.copies[~low] - 1.0 + rest) / self.copies[~low]
        if low.any():
            rows = np.flatnonzero(low)
            columns = self.work[:, : len(rows)]
            np.take(self.K, rows, axis=0, out=columns.T, mode="clip")  # other modes need a copy
            columns *= factor.root[:, None]
            dtrsm(1.0, factor.buffer, columns, lower=1, overwrite_b=1)
            explained = np.einsum("ij,ij->j", columns, columns)
            variance[low] = np.maximum(self.diagonal[low] - explained, 0.0)
            kept[low] = 1.0 - precision[low] * variance[low]
        return variance, kept

    def _coef(self, factor: SiteFactor, total: np.ndarray, lean: np.ndarray) -> np.ndarray:
        """Return a with Ka = (K⁻¹ + S)⁻¹ν, as S^½B⁻¹S^−½ν or (I − S^½B⁻¹S^½K)ν, row by row.

        The first has no cancellation where S is large, the second no division where it is 0.
        """
        low = total * self.diagonal <= _STIFF
        plain = np.where(low, lean, 0.0)
        right = np.divide(lean, factor.root, out=np.zeros_like(lean), where=~low)
        right -= factor.root * times(self.K, plain)
        solved, _ = dpotrs(factor.buffer, right, lower=1)
        return plain + factor.root * solved

    def log_evidence(self, state: _State) -> float:
        """Return log Z (R&W 3.65) for c copies of each site, in terms without a difference of 1/v.

        Σ c[log Ẑ + ½log(1 + vτ) − ½(2mν + vν² − m²τ)/(1 + vτ)] − ½log |B| + ½Σ cνμ, with cavity
        mean m and variance v, and posterior mean μ.
        """
        m, v = state.cavity_mean, state.cavity_variance
        tau, nu = state.precision, state.shift
        grown = 1.0 + v * tau
        each = state.tilt.log_z + 0.5 * np.log(grown)
        each += 0.5 * (nu * state.mean - (2.0 * m * nu + v * nu**2 - m**2 * tau) / grown)
        return float(self.copies @ each - 0.5 * state.factor.logdet())

    def visit(self, precision: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the sites after each row was visited once."""
        from mercer.jit import sequential_sweep

        precision, shift = precision.copy(), shift.copy()
        total = self.copies * precision
        factor = SiteFactor(self.K, np.sqrt(total), self.buffer)
        mean = times(self.K, self._coef(factor, total, self.copies * shift))
        np.multiply(self.K.T, factor.root[:, None], out=self.work)
        dtrsm(1.0, factor.buffer, self.work, lower=1, overwrite_b=1)
        np.copyto(self.buffer, self.K.T)  # the factor is not needed any more
        dgemm(-1.0, self.work, self.work, beta=1.0, c=self.buffer, trans_a=1, overwrite_c=1)
        probit = self.link.name == "probit"
        sequential_sweep(
            probit, self.powers, self.t, self.copies, self.buffer.T, mean, precision, shift
        )
        return precision, shift


def ep(
    K: np.ndarray, t: np.ndarray, weights: np.ndarray | None, link: Any, start: Any = None
) -> EPApproximation:
    """Return the approximation of expectation propagation to the posterior of f ~ N(0, K).

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Gram matrix, C-contiguous float64; not changed.
    t : ndarray of shape (n,)
        Labels −1 and 1.
    weights : ndarray of shape (n,) or None
        Positive weights; the likelihood of a row is taken to the power of its weight.
    link : Link or str
        The likelihood.
    start : object, optional
        `start` of an earlier approximation of the same rows.
    """
    link = as_link(link)
    t = np.ascontiguousarray(t, dtype=float)
    w = np.ones(len(t)) if weights is None else np.ascontiguousarray(weights, dtype=float)
    problem = state = None
    if isinstance(start, Sites) and len(start.precision) == len(t):
        problem = _Problem(K, t, w, link, start.take(len(t)))
        state = problem.state(start.precision, start.shift)
    if problem is None or state is None or not state.residual <= 1.0:
        problem = state = None  # its memory, before Laplace's method takes as much
        fit = laplace(K, t, w, link)
        problem = _Problem(K, t, w, link, fit.start.take(len(t)))
        state = _near(problem, fit.mean)
    state, n_iter, visits = _iterate(problem, state)
    converged = state.residual <= CONVERGED
    return EPApproximation(
        K,
        state.factor.root,
        state.factor,
        log_evidence=problem.log_evidence(state),
        mean=state.mean,
        coef=state.coef,
        converged=converged,
        n_iter=n_iter,
        residual=state.residual,
        message="" if converged else _failure(state.residual, n_iter),
        start=Sites(state.coef, state.factor, state.precision, state.shift),
        extra={"visits": visits},
    )


def _failure(residual: float, n_iter: int) -> str:
    return (
        f"expectation propagation: moments differ by {residual:.1e} after {n_iter} sweeps; bound "
        "the kernel's scale, or use method='laplace'."
    )


def _near(problem: _Problem, f: np.ndarray) -> _State:
    """Return the state with the slope and curvature of log p at Laplace's mode f for sites."""
    slope, bend, _ = problem.link.derivatives(problem.t, f)
    precision, shift = -problem.powers * bend, problem.powers * (slope - bend * f)
    for part in (*0.5 ** np.arange(11), 0.0):  # at part = 0 the cavities are the prior
        state = problem.state(part * precision, part * shift)
        if state is not None:
            return state
    raise InvalidInput(
        "expectation propagation: labels and prior have no finite moments, since k(x, x) is up to "
        f"{problem.diagonal.max():.3g}; bound the kernel's scale, or standardise the columns."
    )


def _back(problem: _Problem, state: _State, tau: Any, nu: Any) -> _State | None:
    """Return the state at sites between those given and those of `state`, which has all cavities.

    None where there is not one with cavities on the way.
    """
    tau = np.where(np.isfinite(tau), tau, state.precision)
    nu = np.where(np.isfinite(nu), nu, state.shift)
    for _ in range(_HALVINGS):
        tau, nu = 0.5 * (tau + state.precision), 0.5 * (nu + state.shift)
        found = problem.state(tau, nu)
        if found is not None:
            return found
    return None


def _iterate(problem: _Problem, state: _State) -> tuple[_State, int, int]:
    """Improve sites until the moments match; the best state, sweeps of both kinds, visits."""
    n = len(problem.t)
    mixing, damp = Mixing(), 1.0
    best: _State = state
    new: _State | None = state
    mark, since, visits, sweep = state.residual, 0, 0, 0
    while sweep < _SWEEPS and best.residual > TOLERANCE:
        sweep += 1
        tau, nu = state.precision, state.shift
        if since >= _PATIENCE:
            if best.residual <= CONVERGED or visits >= 10 * _VISITS:
                break
            tau, nu = best.precision, best.shift
            for _ in range(_VISITS):
                tau, nu = problem.visit(tau, nu)
            visits += _VISITS
            mixing.forget()
            since, damp = 0, 1.0
        else:
            target = state.tilt
            scale = np.concatenate([state.variance, np.sqrt(state.variance)])
            x = np.concatenate([tau, nu])
            step = np.concatenate([target.precision, target.shift]) - x
            x = mixing.propose(x, step, scale, damp)
            tau = np.maximum(x[:n], 0.1 * np.minimum(tau, target.precision))
            nu = x[n:]
        found = problem.state(tau, nu)
        if found is None:  # a cavity is lost: go back towards sites that have them all
            mixing.forget()
            found = _back(problem, state, tau, nu)
            if found is None:
                new = None
                break
        new = found
        if found.residual > 3.0 * state.residual:
            mixing.forget()
            damp = max(0.3 * damp, 1e-5)
        else:
            state = found
            damp = min(2.0 * damp, 1.0)
        since += 1
        if state.residual < best.residual:
            best = state
        if best.residual < 0.5 * mark:
            mark, since = best.residual, 0
    if new is not best:
        again = problem.state(best.precision, best.shift)  # its factor was overwritten
        best = best if again is None else again
    return best, sweep, visits
