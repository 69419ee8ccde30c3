"""Regularised multi-class logistic risk: the problem and its certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.operators import Operator
from mercer.solvers.checks import check_index, check_number
from mercer.solvers.problems import checked_matrix
from mercer.solvers.smooth import EPS, check_ratio, check_weights

__all__ = ["CheckedSoftmax", "SoftmaxERM", "log_softmax"]

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
        K, n = checked_matrix(self.K, owner)
        classes = check_index(self.classes, "classes", owner, 2)
        check_number(self.alpha, "alpha", owner, 0.0)
        y = np.asarray(self.y)
        if y.shape != (n,) or y.dtype.kind not in "iu" or n == 0:
            raise InvalidInput(f"{owner}: y has shape {y.shape}; give {n} class numbers.")
        missing = np.setdiff1d(np.arange(classes), y)
        if y.min() < 0 or y.max() >= classes or len(missing):
            raise InvalidInput(
                f"{owner}: y must hold each of the class numbers 0 to {classes - 1}; it has "
                f"{np.unique(y).tolist()[:10]}."
            )
        w = check_weights(self.weights, n, owner)
        check_ratio(K, w, self.alpha, owner)
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
