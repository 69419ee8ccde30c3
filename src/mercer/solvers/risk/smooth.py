"""The regularised risk of a smooth loss: the problem, its value, and the gap that certifies it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.checks import check_number
from mercer.errors import InvalidInput, speaking_for, who
from mercer.losses import Loss, Squared
from mercer.operators import Operator
from mercer.solvers.base import check_rhs, checked_matrix

EPS = float(np.finfo(float).eps)
NEGLIGIBLE = 1e-6  # of the size of the objective: no rounding excuses a larger gap
HUGE = 1e150  # the square of more is no float64


@dataclass(frozen=True, eq=False)
class SmoothERM:
    """Regularised risk with a smooth convex loss.

    Minimise over coefficients a and an offset b

        P(a, b) = Σᵢ wᵢ ℓ(yᵢ, fᵢ + b) + (alpha/2) aᵀKa,   f = Ka,

    ℓ convex with a continuous slope ℓ' in f, K positive semidefinite. A minimum has
    alpha aᵢ = −wᵢ ℓ'(yᵢ, fᵢ + b), and Σᵢ aᵢ = 0 if there is an offset. The dual problem is to
    maximise, over a with Σᵢ aᵢ = 0 if there is an offset,

        D(a) = −Σᵢ wᵢ ℓ*(yᵢ, −alpha aᵢ/wᵢ) − (alpha/2) aᵀKa.

    The certificate of (a, b) is the gap P(a, b) − D(a′) ≥ 0 at a′ = −w ℓ'(y, f + b)/alpha, made to
    sum to 0, with what rounding may hide of it. No offset and no function has a value of P further
    below. Its residual is
    ‖alpha a + w ℓ'‖ relative to ‖w ℓ'‖, for the squared loss to ‖w y‖, as with any method of least
    squares.

    Parameters
    ----------
    K : Operator or ndarray of shape (n, n)
        Symmetric positive semidefinite. Of a `LowRank` operator FFᵀ with fewer columns than rows
        the weights Fᵀa are found instead of a.
    y : ndarray of shape (n,)
        Targets, as the loss wants them.
    loss : Loss
        A loss with ``smooth = True``.
    alpha : float
        The penalty > 0.
    weights : ndarray of shape (n,), optional
        Weights w > 0; 1 by default.
    offset : bool, default=True
        Whether there is an offset b.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Logistic
    >>> from mercer.solvers import IRLS, SmoothERM
    >>> problem = SmoothERM(np.eye(2), [1.0, -1.0], Logistic(), alpha=1.0)
    >>> solution = IRLS().solve(problem)
    >>> a = solution.value
    >>> bool(np.allclose(a, [1, -1] / (1 + np.exp(np.abs(a)))))
    True
    """

    K: Any
    y: Any
    loss: Loss
    alpha: float
    weights: Any = None
    offset: bool = True

    def checked(self, owner: str) -> CheckedSmooth:
        """Return the problem in canonical arrays, or raise `InvalidInput`.

        Parameters
        ----------
        owner : str
            Who asks; the messages begin with it.
        """
        with speaking_for(owner):
            K, n = checked_matrix(self.K)
            if n == 0:
                raise InvalidInput(f"{who()}: there are no rows; give at least one.")
            if not isinstance(self.loss, Loss) or not getattr(self.loss, "smooth", False):
                raise InvalidInput(
                    f"{who()}: loss={self.loss!r} is not smooth; give a Loss with a continuous "
                    "slope, such as mercer.losses.Logistic() or Huber()."
                )
            check_number(self.alpha, "alpha", 0.0)
            y = check_rhs(self.y, n)
            if y.ndim != 1:
                raise InvalidInput(f"{who()}: y has shape {y.shape}; give ({n},).")
            if np.abs(y).max() > HUGE:
                raise InvalidInput(
                    f"{who()}: y holds {y[np.abs(y).argmax()]:g}, whose square overflows; give the "
                    "targets in a larger unit."
                )
            w = check_weights(self.weights, n)
            check_ratio(K, w, self.alpha)
            return CheckedSmooth(K, n, y, self.loss, float(self.alpha), w, self.offset)


def check_ratio(K: Operator, w: np.ndarray, alpha: float) -> None:
    """Refuse a penalty and weights whose coefficients w/alpha overflow when they are squared."""
    top = float(np.max(K.diagonal(), initial=1.0))
    with np.errstate(over="ignore"):
        if float(w.max()) < HUGE and np.float64(w.max()) * max(1.0, top) / alpha < HUGE:
            return
    raise InvalidInput(
        f"{who()}: alpha={alpha:g} is so small, for weights up to {w.max():.3g} and k(x, x) up to "
        f"{top:.3g}, that coefficients are more than float64 can square; give a larger alpha, or "
        "divide alpha and all weights by the same number."
    )


def check_weights(weights: Any, n: int) -> np.ndarray:
    """Return n weights > 0, 1 by default."""
    if weights is None:
        return np.ones(n)
    w = check_rhs(weights, n)
    if w.ndim != 1 or not (w > 0).all():
        raise InvalidInput(f"{who()}: weights must be {n} numbers > 0; leave out rows of weight 0.")
    return w


@dataclass(frozen=True, eq=False)
class CheckedSmooth:
    """A `SmoothERM` in canonical arrays, and its sums over the points at values z = f + b."""

    K: Operator
    n: int
    y: np.ndarray
    loss: Loss
    alpha: float
    w: np.ndarray
    offset: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the values."""
        return (self.n,)

    @property
    def quadratic(self) -> bool:
        """Whether one Newton step is the answer."""
        return isinstance(self.loss, Squared)

    def risk(self, z: np.ndarray) -> float:
        """Return Σ w ℓ(y, z), ∞ where it overflows."""
        with np.errstate(all="ignore"):
            value = float(self.w @ self.loss.value(self.y, z))
        return value if np.isfinite(value) else np.inf

    def rates(self, z: np.ndarray) -> np.ndarray:
        """Return ℓ'(y, z)."""
        with np.errstate(all="ignore"):
            return self.loss.gradient(self.y, z)

    def slopes(self, z: np.ndarray) -> np.ndarray:
        """Return w ℓ'(y, z)."""
        return self.w * self.rates(z)

    def curvatures(self, z: np.ndarray) -> np.ndarray:
        """Return w ℓ''(y, z)."""
        with np.errstate(all="ignore"):
            return self.w * self.loss.curvature(self.y, z)

    def best_offset(self, z: np.ndarray) -> float:
        """Return the shift s at which the risk of z + s is least, so that Σ w ℓ' = 0."""
        if not self.offset:
            return 0.0

        def at(s: float) -> tuple[float, float, float]:
            g = self.slopes(z + s)
            return float(g.sum()), float(np.abs(g).sum()), float(self.curvatures(z + s).sum())

        return root_of_rising(at, 1.0 + float(np.abs(self.y).max() + np.abs(z).max()))

    def weighted(self, u: np.ndarray) -> np.ndarray:
        """Return w u."""
        return self.w * u

    def bend(self, z: np.ndarray, dz: np.ndarray) -> float:
        """Return the second derivative of the risk at z in the direction dz."""
        with np.errstate(all="ignore"):
            return float(self.curvatures(z) @ dz**2)

    def steepest(self, z: np.ndarray) -> np.ndarray:
        """Return the curvature of each row, the largest where it has several."""
        return self.curvatures(z)

    def swing(self, z: np.ndarray, e: np.ndarray) -> np.ndarray:
        """Return how far w ℓ' may be from its value at z within e of it; it never falls."""
        return self.slopes(z + e) - self.slopes(z - e)

    def balanced(self, rates: np.ndarray) -> np.ndarray:
        """Return slopes u near these with Σ w u = 0 and a finite conjugate."""
        return balance(self.w * rates) * rates if self.offset else rates

    def own(self, a: np.ndarray, rates: np.ndarray) -> np.ndarray:
        """Return the slopes u = −alpha a/w that coefficients stand for, `rates` where ℓ* is ∞."""
        u = -self.alpha * a / self.w
        with np.errstate(all="ignore"):
            legal = np.isfinite(self.loss.conjugate(self.y, u))
        return self.balanced(np.where(legal, u, rates))

    def conjugate_terms(self, z: np.ndarray, u: np.ndarray) -> float:
        """Return Σ w (ℓ(z) + ℓ*(u) − u z) ≥ 0, the Fenchel-Young part of a gap."""
        with np.errstate(all="ignore"):
            terms = self.loss.value(self.y, z) + self.loss.conjugate(self.y, u) - u * z
            total = float(self.w @ np.maximum(terms, 0.0))
        return total if np.isfinite(total) else np.inf


def balance(g: np.ndarray) -> np.ndarray:
    """Return factors in [0, 1] that make Σ g = 0: whichever sign weighs more is made smaller.

    The slopes for which a conjugate is finite are convex and hold 0, so smaller ones are feasible.
    """
    up, down = float(g[g > 0].sum()), float(-g[g < 0].sum())
    low = min(up, down)
    return np.where(g > 0, low / up if up > 0 else 0.0, low / down if down > 0 else 0.0)


def root_of_rising(at: Callable[[float], tuple[float, float, float]], reach: float) -> float:
    """Return the root of an increasing function of one number, by Newton steps inside a bracket.

    `at` gives its value at s, the sum of the sizes of its terms, and its slope. The first step goes
    no further than `reach`, which grows as long as one side of the root is open.
    """
    s, low, high = 0.0, -np.inf, np.inf
    for _ in range(400):
        value, size, slope = at(s)
        if abs(value) <= 4 * EPS * size < np.inf:
            return s
        rises = value < 0 or (np.isnan(value) and s < 0)
        low, high = (s, high) if rises else (low, s)
        if np.isfinite(high - low) and high - low <= 4 * EPS * max(abs(low), abs(high)):
            return s
        step = abs(value / slope) if slope > 0 and np.isfinite(value) else np.inf
        step = step if rises else -step
        if low < s + step < high and abs(step) <= reach:
            s += step
        elif np.isfinite(high - low):
            s = 0.5 * (low + high)
        else:
            s += reach if rises else -reach
            reach *= 4.0
    return s


# ---- Whether the parts of a loss of one's own belong together: value, gradient and conjugate ----


STEP = 1e-6  # of the targets, for differences of the value
WRONG = 1e-2  # relative error of a slope from which it is not rounding
HALF = 0.5  # of the rows that must be wrong: the others may be near a corner
ROUNDING = 4e-15  # of a formula with terms of size 1, of which small values may be made
OURS = "mercer.losses"


def fault_of(loss: Loss, y: np.ndarray) -> str:
    """Return what is wrong with a loss whose formulas are not those of this project, or "".

    Its gradient is compared with differences of its value, at values of f near the targets and far
    away; then its conjugate with u f − ℓ at u = ℓ', which is what ℓ* is there.
    """
    if type(loss).__module__.startswith(OURS):
        return ""
    size = float(np.abs(y).max(initial=0.0)) or 1.0
    middle = float(np.median(np.abs(y))) or size
    for f in (np.zeros(len(y)), y + middle, y - middle):
        with np.errstate(all="ignore"):
            h = STEP * np.maximum(np.maximum(np.abs(y), np.abs(f)), middle)
            g, value = loss.gradient(y, f), loss.value(y, f)
            d = (loss.value(y, f + h) - loss.value(y, f - h)) / (2 * h)
            noise = ROUNDING * np.maximum(1.0, np.abs(value)) / h
            conjugate = g * f - loss.conjugate(y, g)
        seen = np.isfinite(value) & np.isfinite(d)
        if not seen.any():
            continue
        where = f"at y = {y[seen][0]:.4g}, f = {f[seen][0]:.4g}"
        wrong = ~(np.abs(g - d) <= WRONG * np.maximum(np.abs(g), np.abs(d)) + noise)
        if wrong[seen].mean() > HALF:
            return (
                f"the gradient of {loss!r} is not the slope of its value, so that the objective "
                f"does not decrease ({where} it is {g[seen][0]:.4g}, by differences "
                f"{d[seen][0]:.4g}); check the gradient of the loss"
            )
        terms = np.abs(value) + np.abs(g * f) + np.abs(conjugate)
        wrong = ~(np.abs(value - conjugate) <= 1e-6 * terms + ROUNDING)
        if wrong[seen & np.isfinite(conjugate)].sum() > HALF * seen.sum():
            return (
                f"the conjugate of {loss!r} does not belong to its value ({where} u f − ℓ*(u) at "
                f"u = ℓ' is {conjugate[seen][0]:.4g}, the value {value[seen][0]:.4g}); check the "
                "conjugate of the loss"
            )
    return ""
