"""Regularised multi-class logistic risk: the problem and its certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg as sl

from mercer.checks import check_index, check_number
from mercer.errors import InvalidInput, NotPositiveDefinite, speaking_for, who
from mercer.lapack import dpotrf, dpotri
from mercer.operators import Operator
from mercer.settings import get_config
from mercer.solvers.base import checked_matrix
from mercer.solvers.risk.newton import (
    RESIDUAL,
    SMALL,
    NewtonDescent,
    RiskPoint,
    SmoothSolver,
    length,
)
from mercer.solvers.risk.smooth import EPS, check_ratio, check_weights

NEARLY = 1e-9  # sum of negative shares of a row that may be rounding
FAR = 20.0  # change of an offset that one Newton step for them may make


@dataclass(frozen=True, eq=False)
class SoftmaxERM:
    """Regularised multi-class logistic risk.

    Minimise over coefficients A of shape (n, C) and offsets b

        P(A, b) = Σᵢ wᵢ (log Σ_c exp zᵢ_c − zᵢ_yᵢ) + (alpha/2) Σ_c a_cᵀKa_c,   z = KA + 1bᵀ.

    With probabilities pᵢ_c = exp zᵢ_c / Σ exp zᵢ a minimum has alpha A = w(Y − p), Y the indicators
    of the classes; so the rows of A sum to 0, and its columns too if there are offsets. Offsets are
    defined up to a common constant, and sum to 0. The dual problem is to maximise, over p whose
    rows are distributions (with Σᵢ wᵢ(pᵢ − Yᵢ) = 0 if there are offsets),

        D(p) = −Σᵢ wᵢ Σ_c pᵢ_c log pᵢ_c − (alpha/2) Σ_c a_cᵀKa_c,   A = w(Y − p)/alpha.

    The certificate is the gap P − D at the probabilities of (A, b), moved to meet the sums, and
    the residual ‖alpha A + w(p − Y)‖ relative to ‖w(p − Y)‖.

    Parameters
    ----------
    K : Operator or ndarray of shape (n, n)
        Symmetric positive semidefinite. Of a `LowRank` operator FFᵀ with fewer columns than rows
        the weights FᵀA are found instead of A.
    y : ndarray of shape (n,)
        Class numbers 0, …, C − 1.
    classes : int
        How many classes C ≥ 2 there are.
    alpha : float
        The penalty > 0.
    weights : ndarray of shape (n,), optional
        Weights w > 0; 1 by default.
    offset : bool, default=True
        Whether there are offsets.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import NewtonCG, SoftmaxERM
    >>> solution = NewtonCG().solve(SoftmaxERM(np.eye(3), [0, 1, 2], 3, alpha=1.0))
    >>> solution.value.round(3).diagonal()
    array([0.49, 0.49, 0.49])
    """

    K: Any
    y: Any
    classes: int
    alpha: float
    weights: Any = None
    offset: bool = True

    def checked(self, owner: str) -> CheckedSoftmax:
        """Return the problem in canonical arrays, or raise `InvalidInput`.

        Parameters
        ----------
        owner : str
            Who asks; the messages begin with it.
        """
        with speaking_for(owner):
            K, n = checked_matrix(self.K)
            classes = check_index(self.classes, "classes", 2)
            check_number(self.alpha, "alpha", 0.0)
            y = np.asarray(self.y)
            if y.shape != (n,) or y.dtype.kind not in "iu" or n == 0:
                raise InvalidInput(f"{who()}: y has shape {y.shape}; give {n} class numbers.")
            missing = np.setdiff1d(np.arange(classes), y)
            if y.min() < 0 or y.max() >= classes or len(missing):
                raise InvalidInput(
                    f"{who()}: y must hold each of the class numbers 0 to {classes - 1}; it has "
                    f"{np.unique(y).tolist()[:10]}."
                )
            w = check_weights(self.weights, n)
            check_ratio(K, w, self.alpha)
            return CheckedSoftmax(K, n, y, classes, float(self.alpha), w, self.offset)


@dataclass(frozen=True, eq=False)
class CheckedSoftmax:
    """A `SoftmaxERM` in canonical arrays, and its sums over the points at values z = f + b."""

    K: Operator
    n: int
    y: np.ndarray
    classes: int
    alpha: float
    w: np.ndarray
    offset: bool
    quadratic = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the values."""
        return (self.n, self.classes)

    @property
    def _at(self) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(self.n), self.y

    def risk(self, z: np.ndarray) -> float:
        """Return Σ w (log Σ exp z − z_y), ∞ where it overflows."""
        value = -float(self.w @ log_softmax(z)[self._at])
        return value if np.isfinite(value) else np.inf

    def rates(self, z: np.ndarray) -> np.ndarray:
        """Return p − Y."""
        u = np.exp(log_softmax(z))
        own = u[self._at]
        u[self._at] = 0.0
        # 1 − p of the own class as the sum of the others keeps its digits where it is small.
        u[self._at] = np.where(own > 0.5, -u.sum(axis=1), own - 1.0)
        return u

    def weighted(self, u: np.ndarray) -> np.ndarray:
        """Return w u."""
        return self.w[:, None] * u

    def curved(self, p: np.ndarray, dz: np.ndarray) -> np.ndarray:
        """Return w (diag p − p pᵀ) dz, row by row."""
        pd = p * dz
        return self.weighted(pd - p * pd.sum(axis=1, keepdims=True))

    def bend(self, z: np.ndarray, dz: np.ndarray) -> float:
        """Return the second derivative of the risk at z in the direction dz."""
        return float((dz * self.curved(np.exp(log_softmax(z)), dz)).sum())

    def steepest(self, z: np.ndarray) -> np.ndarray:
        """Return a bound on the largest curvature of each row."""
        p = np.exp(log_softmax(z))
        return self.w * (1.0 - p.max(axis=1))

    def swing(self, z: np.ndarray, e: np.ndarray) -> np.ndarray:
        """Return how far w(p − Y) may be from its value at z within e of it.

        Each p, and with it 1 − p, is at most exp(2e) times as large.
        """
        with np.errstate(over="ignore"):
            part = np.minimum(np.expm1(2.0 * e), 1.0 / EPS)[:, None]
        return np.minimum(part * np.abs(self.weighted(self.rates(z))), self.w[:, None])

    def best_offset(self, z: np.ndarray) -> np.ndarray:
        """Return the shifts at which the risk is least, so that Σ w(p − Y) = 0; they sum to 0."""
        b = np.zeros(self.classes)
        if not self.offset:
            return b
        risk = self.risk(z)
        for _ in range(100):
            u = self.rates(z + b)
            g = self.w @ u
            if np.abs(g).max() <= EPS * max(4.0, self.n**0.5) * (self.w @ np.abs(u)).max():
                break
            p = np.exp(log_softmax(z + b))
            wp = self.weighted(p)
            H = np.diag(wp.sum(axis=0)) - wp.T @ p
            H += np.trace(H) / self.classes**2  # regular where the constant would make it singular
            H += 1e-14 * np.trace(H) * np.eye(self.classes) + 1e-300
            step = -np.linalg.solve(H, g)
            step *= min(1.0, FAR / max(np.abs(step).max(), 1e-300))
            step -= step.mean()
            while True:
                new = self.risk(z + b + step)
                if new <= risk * (1 + 4 * EPS) or np.abs(step).max() <= EPS * np.abs(b).max():
                    break
                step *= 0.5
            small = np.abs(step).max() <= 4 * EPS * max(1.0, np.abs(b).max())
            b, risk = b + step, min(new, risk)
            if small:
                break
        return b

    def balanced(self, rates: np.ndarray) -> np.ndarray:
        """Return p − Y with Σ w(p − Y) = 0: the rows of p are mixed with one distribution.

        With sums e of the classes too large, p ← (1 − t)p + t q has sums (1 − t)(N + e) + tWq,
        which are N for q = (N − (1 − t)(N + e))/(tW), a distribution if t N ≥ (1 − t)e.
        """
        if not self.offset:
            return rates
        e = self.w @ rates
        N = np.bincount(self.y, self.w, self.classes)
        t = float(np.max(e / (N + e)).clip(0.0, 1.0))
        if t == 0:
            return rates
        q = np.maximum((t * N - (1 - t) * e) / (t * self.w.sum()), 0.0)
        mixed = (1 - t) * rates + t * q
        mixed[self._at] -= t
        return mixed

    def own(self, a: np.ndarray, rates: np.ndarray) -> np.ndarray:
        """Return the p − Y that coefficients stand for, `rates` where p is far from one."""
        u = -self.alpha * a / self.w[:, None]
        u -= u.mean(axis=1, keepdims=True)
        p = u.copy()
        p[self._at] += 1.0
        # What rounding takes below 0 goes to the own class; that is far less than g is rounded by.
        below = np.minimum(p, 0.0)
        u = u - below
        u[self._at] += below.sum(axis=1)
        legal = (below.sum(axis=1) > -NEARLY) & (u[self._at] >= -1.0)
        return self.balanced(np.where(legal[:, None], u, rates))

    def conjugate_terms(self, z: np.ndarray, u: np.ndarray) -> float:
        """Return Σ w KL(p′, p) ≥ 0 of p′ = u + Y from the probabilities p at z."""
        p = u.copy()
        p[self._at] += 1.0
        p = np.maximum(p, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(p > 0, p * (np.log(p) - log_softmax(z)), 0.0)
        total = float(self.w @ np.maximum(terms.sum(axis=1), 0.0))
        return total if np.isfinite(total) else np.inf


def log_softmax(z: np.ndarray) -> np.ndarray:
    """Return z − log Σ exp z, row by row, without overflow and with all digits near 0."""
    rows, top = np.arange(len(z)), z.argmax(axis=1)
    z = z - z[rows, top][:, None]
    others = np.exp(z)
    others[rows, top] = 0.0
    return z - np.log1p(others.sum(axis=1, keepdims=True))


# ---- The Newton matrix of softmax with all classes coupled, by C + 1 factorisations of n×n
# matrices.
# The curvature of a row with probabilities p is W = w(diag p − ppᵀ). With D_c = w p_c and E_c =
# (K/alpha + D_c⁻¹)⁻¹ the matrix Q = (K/alpha ⊗ I + W⁺)⁻¹ on vectors whose rows sum to 0 has the
# blocks E_c δ_cd − E_c (Σ E)⁻¹ E_d (Rasmussen and Williams 2006, section 3.5).


RARE = 1e-12  # probabilities below are taken as this


def coupled_bytes(n: int, classes: int) -> int:
    """Return the memory of a `CoupledFactor` while it is made."""
    return 8 * (classes + 3) * n * n


def contrasts(classes: int) -> np.ndarray:
    """Return an orthonormal basis of the vectors that sum to 0, shape (C, C − 1)."""
    return np.asarray(sl.helmert(classes).T)


class CoupledFactor:
    """Q of a Gram matrix, and what Newton steps need of it.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix.
    p : ndarray of shape (n, C)
        Probabilities, rows with the sum 1.
    w : ndarray of shape (n,)
        Weights.
    alpha : float
        The penalty.
    """

    def __init__(self, K: np.ndarray, p: np.ndarray, w: np.ndarray, alpha: float):
        n, C = p.shape
        p = np.maximum(p, RARE)
        p = p / p.sum(axis=1, keepdims=True)
        self.alpha, self.D = alpha, w[:, None] * p
        self.E = np.empty((C, n, n))
        for c in range(C):
            root = np.sqrt(self.D[:, c])
            B = np.multiply(K, root / alpha, order="F")
            B *= root[:, None]
            B.flat[:: n + 1] += 1.0
            L, info = dpotrf(B, lower=1, overwrite_a=1)
            B, bad = dpotri(L, lower=1, overwrite_c=1)
            if info or bad:
                raise NotPositiveDefinite("The Newton matrix of a class is not positive definite.")
            np.multiply(np.tril(B), root, out=self.E[c])
            self.E[c] *= root[:, None]
            self.E[c] += np.tril(self.E[c], -1).T
        both = self.E.sum(axis=0)
        self.L, info = dpotrf(both, lower=1)
        if info:
            raise NotPositiveDefinite("The Newton matrix of the classes is not positive definite.")
        self.ones = self.E.sum(axis=2).T  # E_c 1, shape (n, C)
        self._sums: np.ndarray | None = None

    def times(self, V: np.ndarray) -> np.ndarray:
        """Return Q V for V of shape (n, C)."""
        EV = np.stack([E @ v for E, v in zip(self.E, V.T, strict=True)], axis=1)
        common = sl.cho_solve((self.L, True), EV.sum(axis=1), check_finite=False)
        return EV - np.stack([E @ common for E in self.E], axis=1)

    def of_constants(self) -> np.ndarray:
        """Return Q(1 ⊗ I), shape (n, C, C): the last axis says which class has the ones."""
        common = sl.cho_solve((self.L, True), self.ones, check_finite=False)
        out = -np.stack([E @ common for E in self.E], axis=1)
        at = np.arange(out.shape[1])
        out[:, at, at] += self.ones
        return out

    def step(self, r: np.ndarray, sums: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return (δ, δb) with alpha δ + W(Kδ + 1δbᵀ) = −r, and Σδ = −sums if there are offsets.

        δ = −Q(W⁺r + 1δbᵀ)/alpha, and r/D is a W⁺r as the rows of r sum to 0.
        """
        alpha, C = self.alpha, r.shape[1]
        r = r - r.mean(axis=1, keepdims=True)
        delta = -self.times(r / self.D) / alpha
        if sums is None:
            return delta, np.zeros(C)
        if self._sums is None:
            self._sums = self.of_constants()
        H = contrasts(C)
        middle = H.T @ self._sums.sum(axis=0) @ H
        want = alpha * (delta.sum(axis=0) + sums)
        shift = H @ np.linalg.solve(middle, H.T @ want)
        return delta - (self._sums @ shift) / alpha, shift


# ---- Newton for softmax: steps by conjugate gradients over all classes, with one factorisation.


INNER = 200  # steps of conjugate gradients in one Newton step
LOOSE, TIGHT = 0.3, 1e-5  # relative errors that a Newton step may be left with
HARD, EXACT = 100, 1e-3  # CG steps from which classes are coupled in the factor, and its error
FEW, ALIKE = 15, 10.0  # CG steps and change of the weights up to which a factor serves again


class _Softmax(NewtonDescent):
    """The steps of `NewtonCG`: conjugate gradients on all classes, with one factorisation."""

    _factored: np.ndarray | None = None
    _penalty = 0.0
    _inner = 0
    _hard = False
    _K: np.ndarray | None = None
    _coupled: CoupledFactor | None = None

    def newton(self, x: RiskPoint) -> RiskPoint:
        """Take one damped, inexact Newton step."""
        return self._newton(x, self._error(x))

    def _error(self, x: RiskPoint) -> float:
        """Return how exact a step is worth being: more so near the end, not beyond the end."""
        left, residual = max(x.gap / x.size, 1e-300), max(self.residual(x), 1e-300)
        enough = min((0.03 * self.tol / left) ** 0.5, 0.3 * max(RESIDUAL, self.tol) / residual)
        return float(np.clip(max(min(LOOSE, left**0.5), enough), TIGHT, LOOSE))

    def improved(self, x: RiskPoint) -> RiskPoint:
        """Take one exact step; of many rows none, as it costs as much as the others."""
        return self._newton(x, TIGHT) if self.p.n <= SMALL else x

    def _newton(self, x: RiskPoint, error: float) -> RiskPoint:
        p = np.exp(log_softmax(x.z))
        self._coupled = None
        self._hard = self._hard or self._inner > min(HARD, self.p.n // 10)
        if self._hard and self._couple(p):
            return self.along(x, *self._solve(x, p, min(error, EXACT)))
        # One weight a row: the mean curvature of the classes, which the factor can have.
        mean = (p * (1.0 - p)).sum(axis=1) / (self.p.classes - 1)
        if not self._still_fits(mean):
            self.metric.factor(self.p.w * mean, rough=True)
            self.jitter = max(self.jitter, self.metric.jitter)
            self._factored, self._penalty = mean, self.p.alpha
        return self.along(x, *self._solve(x, p, error))

    def obstacle(self) -> str:
        """Return what is in the way: conjugate gradients, or rounding."""
        if self._coupled is None and self._inner >= INNER:
            return (
                f"conjugate gradients stall, as alpha={self.p.alpha:g} is small, and there is no "
                "memory for exact steps; use a larger alpha, fewer rows, or "
                "mercer.config(memory=...)"
            )
        return super().obstacle()

    def _couple(self, p: np.ndarray) -> bool:
        """Factorise with the classes coupled, if there is memory for it and enough digits."""
        gram, w = getattr(self.metric, "gram", None), self.p.w
        if gram is None or coupled_bytes(*p.shape) > 0.5 * get_config().memory:
            return False
        if self._K is None:
            self._K = gram.to_dense()
        try:
            self._coupled = CoupledFactor(self._K, p, w, self.p.alpha)
        except NotPositiveDefinite:
            return False
        return True

    def _still_fits(self, mean: np.ndarray) -> bool:
        """Whether the last factor is as good as a new one would be, up to a few products."""
        last = self._factored
        if last is None or self._penalty != self.p.alpha or self._inner > FEW:
            return False
        ratio = np.maximum(last, 1e-12) / np.maximum(mean, 1e-12)
        return float(np.abs(np.log(ratio)).mean()) < np.log(ALIKE)

    def _solve(self, x: RiskPoint, p: np.ndarray, error: float) -> tuple[np.ndarray, ...]:
        """Minimise the quadratic model by conjugate gradients; return δ, δb and the values of δ.

        The residual is a function r and numbers s, one a class; where the factor answers with
        (d, e), the inner product of the two is ⟨r, d⟩ + s·e.
        """
        metric, problem = self.metric, self.p
        zero = np.zeros(problem.classes)

        def answer(r: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            sums = (r.sum(axis=0) - s) / problem.alpha if self.dual else zero
            if self._coupled is not None:
                d, e = self._coupled.step(r, sums if problem.offset else None)
            else:
                d, e = metric.step(sums, r, s)
            # What all classes have in common changes nothing, so rounding there would only grow.
            return d - d.mean(axis=1, keepdims=True), e - np.mean(e)

        r = x.gradient
        s = x.g.sum(axis=0) if problem.offset else zero
        d, e = answer(r, s)
        df = metric.values(d)
        step, shift, values = np.zeros(d.shape), zero, np.zeros(df.shape)
        rho = first = -metric.inner(r, d, df) - float(s @ e)
        if not (rho > 0 and df.any()):  # only coefficients that change no value are left to mend
            return d, e, df
        enough = error * length(r)
        for self._inner in range(1, INNER + 1):
            dz = df + e
            bent = problem.curved(p, dz)
            curvature = problem.alpha * metric.inner(d, d, df) + float((dz * bent).sum())
            if not (rho > 0 and curvature > 0):
                break
            t = rho / curvature
            step, shift, values = step + t * d, shift + t * e, values + t * df
            r = r + t * metric.gradient(d, bent)
            s = s + t * bent.sum(axis=0) if problem.offset else zero
            if self.dual and length(r) <= enough:  # as Σd = 0, r has s in it
                break
            q, v = answer(r, s)
            qf = metric.values(q)
            rho, before = -metric.inner(r, q, qf) - float(s @ v), rho
            if rho <= error**2 * first:
                break
            ratio = rho / before
            d, e, df = q + ratio * d, v + ratio * e, qf + ratio * df
        if self.dual and length(r) > enough:
            # Coefficients that change no value are out of sight of the metric, and a step by the
            # factor alone is exact for them.
            q, v = answer(r, s)
            qf = metric.values(q)
            if length(r + metric.gradient(q, problem.curved(p, qf + v))) < length(r):
                step, shift, values = step + q, shift + v, values + qf
        return step, shift, values


class NewtonCG(SmoothSolver):
    r"""Solver of `SoftmaxERM`: Newton steps by conjugate gradients over all classes at once.

    A product with the Newton matrix is one product of K with an (n, C) matrix. The preconditioner
    is one factorisation a step, of alpha·I + S K S with the mean curvature of the classes of a row
    as S². Where that takes many products, as for a very small alpha, it is the Newton matrix itself
    with all classes coupled, C + 1 factorisations, if there is memory for C + 3 matrices. Steps are
    as exact as they are worth, damped by a line search, and end with the offsets at their optimum.

    Parameters
    ----------
    tol : float, default=1e-8
        Largest duality gap, relative to the objective; or what rounding leaves, at most 1e-6.
    max_iter : int, default=100
        Limit on Newton steps.
    max_time : float, optional
        Limit in seconds; checked between steps.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import NewtonCG, SoftmaxERM
    >>> x = np.array([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0])
    >>> problem = SoftmaxERM(np.exp(-np.subtract.outer(x, x) ** 2), [0, 0, 1, 1, 2, 2], 3, 0.1)
    >>> solution = NewtonCG().solve(problem)
    >>> solution.converged, bool(abs(solution.value.sum(axis=1)).max() < 1e-12)
    (True, True)
    """

    _descent = _Softmax
