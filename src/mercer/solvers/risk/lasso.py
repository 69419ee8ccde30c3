"""Risk minimisation with sparse weights on given features, and its certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from mercer.checks import check_number
from mercer.errors import InvalidInput, speaking_for, who
from mercer.losses import Loss, Squared, as_loss
from mercer.solvers.risk.smooth import balance, root_of_rising

LARGEST = 1e150  # the square of more is no float64
EPS = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class SparseERM:
    r"""Weights on given features that minimise a smooth loss and an elastic net.

    Minimise over v, and over b if there is an offset,

        P = Σᵢ wᵢ ℓ(yᵢ, (Av)ᵢ + b) + alpha (l1_ratio ‖v‖₁ + ½ (1 − l1_ratio) ‖v‖²).

    Its dual, with l₁ = alpha·l1_ratio and l₂ = alpha·(1 − l1_ratio), is to maximise over θ, with
    Σθᵢ = 0 if there is an offset,

        D = −Σᵢ wᵢ ℓ*(yᵢ, θᵢ/wᵢ) − Σⱼ max(0, |Aⱼᵀθ| − l₁)²/2l₂,

    or |Aⱼᵀθ| ≤ l₁ in place of the last sum when l₂ = 0. The slopes θᵢ = wᵢℓ'(yᵢ, (Av)ᵢ + b) of any
    v, multiplied by min(1, l₁/max|Aᵀθ|), are a point of the dual; the difference P − D is the gap,
    and P exceeds the minimum by no more. What rounding of the sums may hide of it is added to it.

    With the squared loss this is the lasso or elastic net: scikit-learn divides its loss by n, so
    its alpha is alpha/Σw here. With the logistic loss it is logistic regression, C = 1/alpha.

    Parameters
    ----------
    A : ndarray of shape (n, m)
        Features, one column each; a Fortran-ordered array is used without a copy.
    y : ndarray of shape (n,)
        Targets, −1 and 1 for a loss of classification.
    loss : Loss or str, default="squared"
        "squared", "logistic" or "squared_hinge".
    alpha : float, default=1.0
        The penalty, > 0.
    l1_ratio : float, default=1.0
        The share of the ℓ₁ norm: 1 is the lasso, 0 ridge.
    weights : ndarray of shape (n,), optional
        Weights wᵢ > 0; 1 by default.
    offset : bool, default=True
        Whether there is an offset b.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import CoordinateDescent, SparseERM
    >>> problem = SparseERM(np.eye(3), [3.0, -0.5, 2.0], alpha=1.0, offset=False)
    >>> CoordinateDescent().solve(problem).value
    array([2., 0., 1.])
    """

    A: Any
    y: Any
    loss: Any = "squared"
    alpha: float = 1.0
    l1_ratio: float = 1.0
    weights: Any = None
    offset: bool = True

    def checked(self, owner: str) -> CheckedSparse:
        """Return the problem in canonical arrays, or raise `InvalidInput`.

        Parameters
        ----------
        owner : str
            Who asks; the messages begin with it.
        """
        with speaking_for(owner):
            loss = as_loss(self.loss)
            if not getattr(loss, "smooth", False) or type(loss).__name__ not in LOSSES:
                raise InvalidInput(f"{who()}: loss={self.loss!r}; give one of {sorted(LOSSES)}.")
            check_number(self.alpha, "alpha", 0.0)
            check_ratio(self.l1_ratio)
            A = np.asarray(self.A)
            if A.ndim != 2 or A.dtype.kind not in "fiub":
                raise InvalidInput(
                    f"{who()}: A has shape {A.shape} and dtype {A.dtype}; give a matrix of "
                    "numbers, one column a feature."
                )
            n = len(A)
            rows = np.ascontiguousarray(A.T, dtype=np.float64)
            y = _vector(self.y, "y", n)
            w = np.ones(n) if self.weights is None else _vector(self.weights, "weights", n)
            if (w <= 0).any():
                raise InvalidInput(f"{who()}: weights must be > 0; leave out rows of weight 0.")
            with np.errstate(all="ignore"):
                large = _largest(rows), _largest(y)
            if not max(large) < LARGEST:
                name, size = ("A", large[0]) if not large[0] < LARGEST else ("y", large[1])
                raise InvalidInput(
                    f"{who()}: {name} holds {size:g}, whose square is no float64; scale it down."
                )
            if loss.kind == "classification" and self.offset and n and abs(y.sum()) == n:
                raise InvalidInput(
                    f"{who()}: y has one class only; with an offset there is no finite minimum."
                )
            ratio, alpha = float(self.l1_ratio), float(self.alpha)
            l1, l2 = alpha * ratio, alpha * (1 - ratio)
            shift = 0.0
            if isinstance(loss, Squared) and self.offset and n:
                # The offset takes up the mean, and sums of slopes times targets lose no digits to
                # it.
                shift = float(w @ y / w.sum())
                y = y - shift
            return CheckedSparse(rows, loss._targets(y), loss, l1, l2, w, bool(self.offset), shift)


LOSSES = {"Squared": "squared", "Logistic": "logistic", "SquaredHinge": "squared_hinge"}


@dataclass(frozen=True, eq=False)
class SparsePoint:
    """A point with its certificate."""

    v: np.ndarray  # weights,
    b: float  # and the best offset for them
    z: np.ndarray  # Av + b
    slopes: np.ndarray  # θᵢ = wᵢℓ'(yᵢ, zᵢ)
    gradient: np.ndarray  # Aᵀθ
    primal: float
    dual: float
    gap: float
    off: np.ndarray  # by how much each weight violates its optimality condition
    worst: float  # the largest of them
    tilt: float  # |Σθ| with an offset


@dataclass(frozen=True, eq=False)
class CheckedSparse:
    """A `SparseERM` in canonical arrays; row j of `rows` is column j of A."""

    rows: np.ndarray
    y: np.ndarray
    loss: Loss
    l1: float
    l2: float
    w: np.ndarray
    offset: bool
    shift: float = 0.0  #: taken from the targets, to be added to the offset

    @property
    def exact(self) -> bool:
        """Whether the loss is its own quadratic model."""
        return isinstance(self.loss, Squared)

    def with_penalty(self, l1: float, l2: float) -> CheckedSparse:
        """Return the same problem with other penalties."""
        return replace(self, l1=l1, l2=l2)

    def risk(self, z: np.ndarray) -> float:
        """Return Σ wᵢ ℓ(yᵢ, zᵢ)."""
        return float(self.w @ self.loss._value(self.y, z))

    def slopes(self, z: np.ndarray) -> np.ndarray:
        """Return wᵢ ℓ'(yᵢ, zᵢ)."""
        return self.w * self.loss._gradient(self.y, z)

    def penalty(self, v: np.ndarray) -> float:
        """Return l₁‖v‖₁ + ½l₂‖v‖²."""
        return self.l1 * float(np.abs(v).sum()) + 0.5 * self.l2 * float(v @ v)

    def values(self, v: np.ndarray) -> np.ndarray:
        """Return Av."""
        support = np.flatnonzero(v)
        if 16 * len(support) < len(v):
            return v[support] @ self.rows[support]
        return v @ self.rows

    def best_offset(self, z: np.ndarray, start: float = 0.0) -> float:
        """Return the b that minimises Σ wᵢℓ(yᵢ, zᵢ + b): Newton steps kept inside a bracket."""
        if not self.offset:
            return 0.0
        if self.exact:
            return float(self.w @ (self.y - z) / self.w.sum())

        def at(b: float) -> tuple[float, float, float]:
            f = z + (start + b)
            slopes, bend = self.slopes(f), self.w @ self.loss._curvature(self.y, f)
            return float(slopes.sum()), float(np.abs(slopes).sum()), float(bend)

        return start + root_of_rising(at, 2.0)

    def largest_alpha(self) -> float:
        """Return the l₁ from which on all weights are zero: max |Aᵀθ| at v = 0."""
        zero = np.zeros(len(self.y))
        slopes = self.slopes(zero + self.best_offset(zero))
        return float(np.abs(self.rows @ slopes).max(initial=0.0))

    def sizes(self, v: np.ndarray, b: float) -> tuple[float, float]:
        """Return what violations are measured by: for the weights, and for the offset.

        A slope is made of terms as large as tᵢ = wᵢ(|ℓ'(yᵢ, 0)| + ℓ''(yᵢ, 0)(|A||v| + |b|)ᵢ), whose
        rounding no method can undo: max |A|ᵀt, and Σt.
        """
        zero, step = np.zeros(len(self.y)), self._strip
        values = abs(b) + self._absolute(v)
        terms = np.abs(self.slopes(zero)) + self.w * self.loss._curvature(self.y, zero) * values
        tops = [
            float((np.abs(self.rows[k : k + step]) @ terms).max())
            for k in range(0, len(self.rows), step)
        ]
        return max(tops, default=0.0) or 1.0, float(terms.sum()) or 1.0

    @property
    def _strip(self) -> int:
        """How many rows of Aᵀ are worked on at a time."""
        return max(1, 2**16 // max(1, len(self.y)))

    def _absolute(self, v: np.ndarray) -> np.ndarray:
        """Return |A||v|, in strips: there may be no memory for another A."""
        used, step = np.flatnonzero(v), self._strip
        values = np.zeros(len(self.y))
        for part in (used[k : k + step] for k in range(0, len(used), step)):
            values += np.abs(v[part]) @ np.abs(self.rows[part])
        return values

    def judge(self, v: np.ndarray, start: float = 0.0) -> SparsePoint:
        """Return the certificate of weights and of the best offset, all recomputed from A."""
        z = self.values(v)
        b = self.best_offset(z, start)
        z = z + b
        slopes = self.slopes(z)
        gradient = self.rows @ slopes
        primal = self.risk(z) + self.penalty(v)
        theta = balance(slopes) * slopes if self.offset else slopes
        bend = gradient + self.l2 * v
        off = np.where(
            v != 0, np.abs(bend + self.l1 * np.sign(v)), np.maximum(0.0, np.abs(bend) - self.l1)
        )
        gap = max(0.0, primal - self._dual(theta)) + self._hidden(v, b, z, theta)
        worst, tilt = float(off.max(initial=0.0)), abs(float(slopes.sum())) if self.offset else 0.0
        return SparsePoint(v, b, z, slopes, gradient, primal, primal - gap, gap, off, worst, tilt)

    def _dual(self, theta: np.ndarray) -> float:
        """Return the larger dual value of two multiples of θ, whatever rounding did to Aᵀθ."""
        far = 0.5 * EPS * (len(theta) + 2) * float(np.sqrt(theta @ theta))
        g = np.abs(self.rows @ theta) + far * self._lengths
        top = float(g.max(initial=0.0))
        scale = min(1.0, self.l1 / top) if top > 0 else 1.0
        values = []
        for s in {scale, 1.0} if self.l2 > 0 else {scale}:
            value = -float(self.w @ self.loss._conjugate(self.y, s * theta / self.w))
            if self.l2 > 0:
                value -= float((np.maximum(0.0, s * g - self.l1) ** 2).sum()) / (2 * self.l2)
            values.append(value)
        return max(values)

    @cached_property
    def nothing(self) -> float:
        """A risk that is 0 but for rounding of the targets themselves."""
        size = EPS * (np.abs(self.y) + abs(self.shift))
        return 8.0 * float(self.w @ (size * size))

    @cached_property
    def _lengths(self) -> np.ndarray:
        """The Euclidean norms of the columns of A."""
        return np.sqrt(np.einsum("ij,ij->i", self.rows, self.rows))

    def _hidden(self, v: np.ndarray, b: float, z: np.ndarray, theta: np.ndarray) -> float:
        """Return by how much rounding may put a risk and the conjugates of θ from the truth.

        A sum of k products is off by at most kε/2 of the sum of their sizes. So are the values, by
        e, and the risk with them by |θ|e + wℓ''e²/2; so are the sums over the rows, and Σθ, which
        costs the offset where it is not 0.
        """
        many, sizes = np.count_nonzero(v), np.abs(theta)
        e = self._absolute(v)
        e = 0.5 * EPS * ((many + 2) * e + 4 * (np.abs(z) + np.abs(self.y) + abs(b)))
        if self.shift != 0:  # targets and offset were moved, and are told where they were
            e += EPS * abs(b + self.shift)
        bend = self.w * self.loss.curvature(self.y, z)
        terms = self.risk(z) + float(sizes @ (np.abs(z) + np.abs(self.y) + abs(b)))
        hidden = float((sizes + 0.5 * bend * e) @ e) + 0.5 * EPS * (len(z) + 8) * terms
        hidden += 0.5 * EPS * (len(v) + 8) * self.penalty(v)
        return hidden + (abs(b * float(theta.sum())) if self.offset else 0.0)


def check_ratio(value: Any) -> None:
    """Raise `InvalidInput` unless value is a number in [0, 1]."""
    real = isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)
    if not real or not 0 <= value <= 1:
        raise InvalidInput(
            f"{who()}: l1_ratio={value!r}; give a number from 0 (ridge) to 1 (lasso)."
        )


def _largest(values: np.ndarray) -> float:
    """Return max |values| without a copy of them; NaN where there is one."""
    high, low = float(values.max(initial=0.0)), float(values.min(initial=0.0))
    return float("nan") if np.isnan(high) else max(high, -low)


def _vector(value: Any, name: str, n: int) -> np.ndarray:
    try:
        out = np.asarray(value, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        raise InvalidInput(f"{who()}: {name} is not a vector of numbers.") from None
    if out.shape != (n,):
        raise InvalidInput(f"{who()}: {name} has shape {out.shape}; give one number a row, ({n},).")
    if not np.isfinite(out).all():
        raise InvalidInput(f"{who()}: {name} holds NaN or infinity.")
    return out
