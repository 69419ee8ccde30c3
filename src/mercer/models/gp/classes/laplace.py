"""Laplace's approximation of two-class Gaussian process classification.

The posterior of f ~ N(0, K) given labels is replaced by N(f̂, (K⁻¹ + W)⁻¹) around its mode f̂, with
W = −∇∇ log p(t | f̂) (Rasmussen & Williams, Gaussian Processes for Machine Learning, algorithms 3.1
and 5.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.linalg.blas import dsymv, dtrmv
from scipy.special import log_softmax, softmax

from mercer.errors import NotPositiveDefinite
from mercer.lapack import dgemm, dpotrs, dsyrk, dtrsm, times
from mercer.models.gp.classes.sites import (
    Approximation,
    SiteApproximation,
    SiteFactor,
    Warm,
    as_link,
    square_buffer,
)
from mercer.solvers.linear import mirror, potrf

# ---- The mode of a posterior of latent values by Newton's method with factors that serve twice.


#: A mode is taken as found where it is off by less than this part of its length.
CONVERGED = 1e-6
#: How near to come: in the end, and on the way of a search for parameters.
TIGHT, LOOSE = 1e-11, 1e-8
#: A step with an old factor must cut the residual to this part, or a new factor is made.
CHORD = 0.5
HALVINGS = 40
#: Changes of the objective below this part of it are rounding.
ROUNDING = 1e-13
#: Latent values that differ from 0 by less than this are small.
SMALL = 0.01
EPS = float(np.finfo(float).eps)


class ModeProblem(Protocol):
    """A likelihood of labels given latent values f of shape (n,) or (n, C)."""

    def log_likelihood(self, f: np.ndarray) -> float:
        """Return log p(labels | f)."""

    def gradient(self, f: np.ndarray) -> np.ndarray:
        """Return ∇ log p, of the shape of f."""

    def factor(self, f: np.ndarray) -> Any:
        """Return what applies (K + W⁻¹)⁻¹ with W = −∇∇ log p at f, as a method ``apply``."""

    def tangent(self, f: np.ndarray) -> np.ndarray:
        """Return ∇ log p + W f at f."""


@dataclass(frozen=True)
class Mode:
    """Where Newton's method ended: f = K coef, the objective there, and how it went."""

    coef: np.ndarray
    f: np.ndarray
    objective: float
    steps: int


def find_mode(
    K: np.ndarray,
    problem: ModeProblem,
    shape: tuple[int, ...],
    start: np.ndarray | None = None,
    tol: float = TIGHT,
    max_iter: int = 100,
) -> Mode:
    """Maximise log p(labels | f) − ½ Σ aᵀf over a, f = Ka.

    The mode solves a = ∇log p(f). Newton's step on it is δ = −(F − RKF) with F = a − ∇log p and
    R = (K + W⁻¹)⁻¹ (Rasmussen & Williams, algorithms 3.1 and 3.3, written for the step instead of
    the point). The factor of one step serves the next ones while the residual falls quickly, so
    that a good start needs one factorisation. Steps that lower the objective are halved.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix.
    problem : ModeProblem
        The likelihood.
    shape : tuple
        That of f.
    start : ndarray, optional
        A mode for another K. The first step is Newton's from there, with its W.
    tol : float
        Length of the last step as a part of f; rounding may end the iteration before.
    max_iter : int
        Limit on steps.
    """
    a, f = np.zeros(shape), np.zeros(shape)
    value = problem.log_likelihood(f)
    steps, last, gain, moved = 0, np.inf, np.inf, np.inf
    factor: Any = None
    largest = float(np.diagonal(K).max(initial=0.0))
    if start is not None and start.shape == shape:
        factor, steps = problem.factor(start), 1
        v = problem.tangent(start)
        warm = v - factor.apply(times(K, v))  # a = ∇log p − W(Ka − start), linear in a
        there = times(K, warm)
        reached = _objective(problem, warm, there)
        if reached > value:
            value, a, f = reached, warm, there
        else:  # far parameters can make an old mode worse than none
            factor = None
    while steps < max_iter:
        g = problem.gradient(f)
        F = a - g
        KF = times(K, F)
        size = float(np.linalg.norm(KF))
        # Where K is singular f does not tell a; gradients of the evidence are made of a = ∇log p.
        same = np.linalg.norm(F) <= CONVERGED * np.linalg.norm(g)
        # f = Ka may be a small difference of large terms, and aᵀf with it.
        noise = ROUNDING * (1.0 + abs(value)) + EPS * largest * float(np.abs(a).sum()) ** 2
        lost = size > 0.5 * last and gain <= noise
        if same and (lost or moved <= tol or size == 0.0):
            break
        new = factor is None or size > CHORD * last
        if new:
            factor = problem.factor(f)
        found = _line_search(problem, K, a, f, factor.apply(KF) - F, value - noise)
        steps += 1
        if found is None:
            if new:
                break
            factor = None  # the direction of an old factor led nowhere
            continue
        gain, last = (found[0] - value if new else np.inf), size
        moved = float(np.linalg.norm(found[2] - f)) / float(np.linalg.norm(found[2]) or 1.0)
        value, a, f = found
    return Mode(a, f, value, steps)


def distance(K: np.ndarray, problem: ModeProblem, mode: Mode, factor: Any) -> float:
    """Return how far the mode is from f, as a part of f: the length of Newton's step from there.

    That is ‖(I + KW)⁻¹(f − K∇log p)‖/‖f‖. The residual f − K∇log p itself is as large as rounding
    of f times ‖KW‖, however near the mode. Where labels contradict one another the mode is 0, and
    f rounding: values are not taken as smaller than 0.01 on average, in the units of the link.
    """
    F = mode.coef - problem.gradient(mode.f)
    step = times(K, factor.apply(times(K, F)) - F)
    return float(np.linalg.norm(step) / max(np.linalg.norm(mode.f), SMALL * mode.f.size**0.5))


def _objective(problem: ModeProblem, a: np.ndarray, f: np.ndarray) -> float:
    return problem.log_likelihood(f) - 0.5 * float(np.vdot(a, f))


def _line_search(
    problem: ModeProblem,
    K: np.ndarray,
    a: np.ndarray,
    f: np.ndarray,
    delta: np.ndarray,
    least: float,
) -> tuple[float, np.ndarray, np.ndarray] | None:
    """Return objective, a and f after the longest of δ, δ/2, δ/4… with an objective ≥ `least`."""
    end = a + delta
    moved = times(K, end)
    for k in range(HALVINGS):
        part = 0.5**k
        new_a = end if k == 0 else a + part * delta
        new_f = moved if k == 0 else f + part * (moved - f)
        new = _objective(problem, new_a, new_f)
        if new >= least:
            return new, new_a, new_f if k == 0 else times(K, new_a)
    return None


def unconverged(mode: Mode, residual: float) -> str:
    """Say what ended the search for a mode before it was near; empty if it was."""
    if residual <= CONVERGED:
        return ""
    return (
        f"the mode of the posterior was not found in {mode.steps} steps "
        f"(it is off by {residual:.3g} of its length), since the kernel's values are too large for "
        "their rounding; bound the kernel's scale, or standardise the columns."
    )


# ---- laplace ----


class LaplaceApproximation(SiteApproximation):
    """The Gaussian at the mode; made by `laplace`."""

    def __init__(
        self, K: np.ndarray, root: np.ndarray, factor: SiteFactor, slope: np.ndarray, **facts: Any
    ):
        super().__init__(K, root, factor, **facts)
        self._slope = slope

    def cotangent(self) -> np.ndarray:
        """Return d log Z/dK = ½(aaᵀ − R + abᵀ + baᵀ), in the memory of the factor.

        R = (K + W⁻¹)⁻¹. The mode moves with K: ∂f̂ = (I + KW)⁻¹ ∂K a, and log |B| with it, by
        s = −½ diag((K⁻¹ + W)⁻¹) ∂W/∂f; so b = (I + WK)⁻¹ s = s − RKs (R&W, eq. 5.23–5.25). With
        diag((K⁻¹ + W)⁻¹) = (1 − diag B⁻¹)/W, s needs no product of matrices.
        """
        R, diagonal = self.factor().inverse()
        s = -0.5 * (1.0 - diagonal) * self._slope
        b = s - times(R, times(self.K, s))
        return add_outer(R, self.coef, b)

    def tiles(self) -> Callable[[slice, slice], np.ndarray]:
        """Return the same tile by tile, from one triangle of B⁻¹."""
        inverse, root = self.factor().half_inverse(), self.root
        s = -0.5 * (1.0 - np.diagonal(inverse)) * self._slope
        b = s - root * dsymv(1.0, inverse, root * times(self.K, s), lower=1)
        left, right = np.stack([self.coef + b, -b], 1), np.stack([self.coef + b, b], 1)
        upper = inverse.T  # row-wise in memory, as the tiles above the diagonal are read

        def tile(rows: slice, cols: slice) -> np.ndarray:
            W = upper[rows, cols] * root[cols]
            W *= -root[rows, None]
            W += left[rows] @ right[cols].T
            if rows != cols:
                return W
            W = np.triu(W)  # the diagonal tile folded onto its upper half
            np.einsum("ii->i", W)[...] *= 0.5
            return W

        return tile


def add_outer(R: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return ½(aaᵀ + abᵀ + baᵀ − R) in place of R, for a Fortran array R and one or more columns.

    aaᵀ + abᵀ + baᵀ = (a + b)(a + b)ᵀ − bbᵀ.
    """
    a, b = a.reshape(len(a), -1), b.reshape(len(b), -1)
    left, right = np.hstack([a + b, -b]), np.hstack([a + b, b])
    return dgemm(0.5, left, right, beta=-0.5, c=R, trans_b=1, overwrite_c=1)


class _Labels:
    """The likelihood of labels ±1 to the power of their weights."""

    def __init__(self, K: np.ndarray, t: np.ndarray, w: np.ndarray, link: Any, start: Any):
        self.K, self.t, self.w, self.link = K, t, w, as_link(link)
        self._buffer = None if start is None else start.take(len(t))

    def log_likelihood(self, f: np.ndarray) -> float:
        return float(self.w @ self.link.log_likelihood(self.t, f))

    def gradient(self, f: np.ndarray) -> np.ndarray:
        return self.w * self.link.first(self.t, f)

    def factor(self, f: np.ndarray) -> SiteFactor:
        """Return the factor at f, in the memory of the last one."""
        out = SiteFactor(self.K, np.sqrt(-self.w * self.link.second(self.t, f)), self._buffer)
        self._buffer = out.buffer
        return out

    def tangent(self, f: np.ndarray) -> np.ndarray:
        """Return ∇ log p + W f."""
        first, second, _ = self.link.derivatives(self.t, f)
        return self.w * (first - second * f)

    def slope(self, f: np.ndarray) -> np.ndarray:
        """Return ∂ log W/∂f, 0 where W underflows."""
        _, second, third = self.link.derivatives(self.t, f)
        return np.divide(third, second, out=np.zeros_like(third), where=second < 0.0)


def laplace(
    K: np.ndarray,
    t: np.ndarray,
    weights: np.ndarray | None = None,
    link: Any = "logit",
    start: Warm | None = None,
    *,
    tol: float = TIGHT,
) -> LaplaceApproximation:
    """Return Laplace's approximation for labels t = ±1.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix, C-contiguous float64; not changed.
    t : ndarray of shape (n,)
        Labels −1 and 1.
    weights : ndarray of shape (n,), optional
        Powers of the likelihoods, > 0.
    link : {"logit", "probit"} or Link
        The link.
    start : Warm, optional
        ``approximation.start`` of an earlier call with as many rows. Its memory is taken over, that
        of an earlier `cotangent` included.
    tol : float
        How near to the mode to come, as a part of its length.

    Returns
    -------
    LaplaceApproximation
        The approximation; its residual is the relative distance to the mode.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.models.gp.classes.laplace import laplace
    >>> K = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> fit = laplace(K, np.array([1.0, -1.0]))
    >>> fit.mean.round(4), round(fit.log_evidence, 4)
    (array([ 0.2223, -0.2223]), -1.4909)
    """
    w = np.ones(len(t)) if weights is None else weights
    problem = _Labels(K, t, w, link, start)
    mode = find_mode(K, problem, t.shape, None if start is None else start.mean, tol)
    factor = problem.factor(mode.f)
    residual = distance(K, problem, mode, factor)
    return LaplaceApproximation(
        K,
        factor.root,
        factor,
        problem.slope(mode.f),
        log_evidence=mode.objective - 0.5 * factor.logdet(),
        mean=mode.f,
        coef=mode.coef,
        converged=residual <= CONVERGED,
        n_iter=mode.steps,
        residual=residual,
        message=unconverged(mode, residual),
        start=Warm(mode.f, factor),
    )


# ---- Laplace's approximation for several classes: a latent function each, joined by softmax ----
# The classes have independent priors N(0, K). With s = wπ, D_c = diag(s_c) and the weights on the
# diagonal of w, W = −∇∇ log p = D − D R w⁻¹ RᵀD, where R stacks C identities, and with E_c = (K +
# D_c⁻¹)⁻¹ everything follows from C matrices of order n (Rasmussen & Williams, algorithm 3.3 and
# eq. 3.46–3.47; with weights RᵀDR = w takes the place of the identity):
#
#     (K + W⁻¹)⁻¹ = E − E R (Σ E_c)⁻¹ RᵀE,   |I + KW| = |Σ E_c| Π |I + D_c^½KD_c^½| / Π wᵢ.


class SoftmaxFactor:
    """E_c of each class and the Cholesky factor M of their sum."""

    def __init__(self, K: np.ndarray, sites: np.ndarray, buffer: list | None = None):
        n, C = sites.shape
        self.sites, self.spent = sites, False
        self.buffer = [square_buffer(n) for _ in range(C + 1)] if buffer is None else buffer
        self.E, self.M = self.buffer[:C], self.buffer[C]
        self._logdet = -float(np.log(sites.sum(axis=1)).sum())
        self.M[...] = 0.0
        for c in range(C):
            block = SiteFactor(K, np.sqrt(sites[:, c]), self.E[c])
            self._logdet += block.logdet()
            block.inverse()
            self.M += self.E[c]
        self.diagonal = np.diagonal(self.M).copy()
        if not potrf(self.M):
            raise NotPositiveDefinite(
                "Laplace's approximation of several classes: rounding makes a sum of positive "
                "definite matrices indefinite, since the kernel's values are very large; bound "
                "the kernel's scale."
            )
        self._logdet += 2.0 * float(np.log(np.diagonal(self.M)).sum())

    def logdet(self) -> float:
        """Return log |I + KW|."""
        return self._logdet

    def apply(self, V: np.ndarray) -> np.ndarray:
        """Return (K + W⁻¹)⁻¹ V for V of shape (n, C)."""
        U = np.stack([times(E, V[:, c]) for c, E in enumerate(self.E)], axis=1)
        z = dpotrs(self.M, U.sum(axis=1), lower=1)[0]
        return U - np.stack([times(E, z) for E in self.E], axis=1)

    def covariance(self, Kx: np.ndarray, diag: np.ndarray) -> np.ndarray:
        """Return the covariances of the classes' latent values, shape (m, C, C)."""
        m, C = len(diag), len(self.E)
        out = np.zeros((m, C, C))
        Z = []
        for c, E in enumerate(self.E):
            U = times(E, Kx)
            out[:, c, c] = diag - np.einsum("ij,ij->j", Kx, U)
            Z.append(dtrsm(1.0, self.M, U, lower=1))
        for c in range(C):
            for d in range(C):
                out[:, c, d] += np.einsum("ij,ij->j", Z[c], Z[d])
        corner = np.einsum("icc->ic", out)
        np.maximum(corner, 0.0, out=corner)
        return out


class SoftmaxApproximation(Approximation):
    """The Gaussian at the mode; made by `laplace_softmax`."""

    def __init__(self, K: np.ndarray, factor: SoftmaxFactor, **facts: Any):
        super().__init__(K, **facts)
        self._sites, self._factor = factor.sites, factor

    @property
    def sites(self) -> np.ndarray:
        """Probabilities at the mode times weights, shape (n, C)."""
        return self._sites

    def factor(self) -> SoftmaxFactor:
        """Return the factor; made again where its memory was given away."""
        if self._factor.spent:
            self._factor = SoftmaxFactor(self.K, self._sites)
        return self._factor

    def variance(self, Kx: np.ndarray, diag: np.ndarray) -> np.ndarray:
        """Return the covariances of the classes' latent values, shape (m, C, C)."""
        return self.factor().covariance(Kx, diag)

    def cotangent(self) -> np.ndarray:
        """Return d log Z/dK = ½ Σ_c (a_c a_cᵀ − R_cc + a_c b_cᵀ + b_c a_cᵀ).

        With V_c = M⁻¹E_c the blocks of R = (K + W⁻¹)⁻¹ are R_cd = δ_cd E_c − V_cᵀV_d, and
        Σ E_c = MMᵀ. The implicit term is that of two classes, h = −½ tr(Σᵢ ∂Wᵢ/∂f) and
        b = h − RKh, with the posterior covariance Σᵢ of the classes at a row. WΣW = W − R and
        W D⁻¹ W = W, so that D⁻¹(W − R)D⁻¹ may stand for Σᵢ: both differ only along 1, where ∂Wᵢ
        vanishes.
        """
        factor, s = self.factor(), self._sites
        n, C = s.shape
        factor.spent = True
        corners = np.stack([np.diagonal(E) for E in factor.E], axis=1)
        V = [dtrsm(1.0, factor.M, E, lower=1, overwrite_b=1) for E in factor.E]
        blocks = np.zeros((n, C, C))  # −R at the rows
        for c in range(C):
            for d in range(c + 1):
                blocks[:, c, d] = blocks[:, d, c] = np.einsum("ij,ij->j", V[c], V[d])
        h = _mode_slope(s, blocks, corners)
        u = times(self.K, h)
        Vu = [times(V[c], u[:, c]) for c in range(C)]
        total = np.sum(Vu, axis=0)
        b = h - np.stack(
            [dtrmv(factor.M, Vu[c], lower=1) - times(V[c].T, total) for c in range(C)], axis=1
        )
        # M's strict upper triangle still holds that of Σ E_c.
        M = factor.M
        np.einsum("ii->i", M)[...] = factor.diagonal
        for part in V:
            dsyrk(-1.0, part, beta=1.0, c=M, trans=1, lower=0, overwrite_c=1)
        mirror(M)
        return add_outer(M, self.coef, b)


def _mode_slope(s: np.ndarray, blocks: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Return −½ tr(Σᵢ ∂Wᵢ/∂f_ic), given −R + diag(E) at the rows as `blocks` and E as `corners`.

    With ∂s_c/∂f_d = s_c δ_cd − s_c s_d/w and W = diag(s) − ssᵀ/w the trace is
    s_d(q_d − Σ_c q_c s_c/w), q_c = Σ_cc − (2/w) Σ_c' Σ_cc' s_c'.
    """
    w = s.sum(axis=1, keepdims=True)
    tilted = blocks - s[:, :, None] * (s / w)[:, None, :]  # D Σ D, without its diagonal part
    np.einsum("icc->ic", tilted)[...] += s - corners
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.where(s > 1e-290, 1.0 / s, 0.0)
    own = np.einsum("icc->ic", tilted) * inverse * inverse
    q = own - 2.0 / w * np.einsum("icd->ic", tilted) * inverse
    return -0.5 * s * (q - np.sum(q * s, axis=1, keepdims=True) / w)


class _Classes:
    """The softmax likelihood to the power of the weights."""

    def __init__(self, K: np.ndarray, onehot: np.ndarray, w: np.ndarray, start: Any):
        self.K, self.Y, self.w = K, onehot, w
        self._buffer = None if start is None else start.take(len(onehot))

    def log_likelihood(self, f: np.ndarray) -> float:
        return float(self.w @ np.sum(self.Y * log_softmax(f, axis=1), axis=1))

    def gradient(self, f: np.ndarray) -> np.ndarray:
        return self.w[:, None] * (self.Y - softmax(f, axis=1))

    def factor(self, f: np.ndarray) -> SoftmaxFactor:
        """Return the factor at f, in the memory of the last one."""
        out = SoftmaxFactor(self.K, self.w[:, None] * softmax(f, axis=1), self._buffer)
        self._buffer = out.buffer
        return out

    def tangent(self, f: np.ndarray) -> np.ndarray:
        """Return ∇ log p + W f."""
        p = softmax(f, axis=1)
        return self.w[:, None] * (self.Y - p + p * (f - np.sum(p * f, axis=1, keepdims=True)))


def laplace_softmax(
    K: np.ndarray,
    onehot: np.ndarray,
    weights: np.ndarray | None = None,
    start: Warm | None = None,
    *,
    tol: float = TIGHT,
) -> SoftmaxApproximation:
    """Return Laplace's approximation for C classes; (C + ⅓)n³ flops a factorisation.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix of every class, C-contiguous float64; not changed.
    onehot : ndarray of shape (n, C)
        1 in the column of the row's class, 0 elsewhere.
    weights : ndarray of shape (n,), optional
        Powers of the likelihoods, > 0.
    start : Warm, optional
        ``approximation.start`` of an earlier call with as many rows and classes.
    tol : float
        How near to the mode to come, as a part of its length.

    Returns
    -------
    SoftmaxApproximation
        The approximation; its residual is the relative distance to the mode.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.models.gp.classes.laplace import laplace_softmax
    >>> fit = laplace_softmax(np.eye(3), np.eye(3))
    >>> fit.mean[0].round(4)
    array([ 0.4897, -0.2448, -0.2448])
    """
    w = np.ones(len(onehot)) if weights is None else weights
    if start is not None and start.mean.shape != onehot.shape:
        start = None
    problem = _Classes(K, onehot, w, start)
    mode = find_mode(K, problem, onehot.shape, None if start is None else start.mean, tol)
    factor = problem.factor(mode.f)
    residual = distance(K, problem, mode, factor)
    return SoftmaxApproximation(
        K,
        factor,
        log_evidence=mode.objective - 0.5 * factor.logdet(),
        mean=mode.f,
        coef=mode.coef,
        converged=residual <= CONVERGED,
        n_iter=mode.steps,
        residual=residual,
        message=unconverged(mode, residual),
        start=Warm(mode.f, factor),
    )
