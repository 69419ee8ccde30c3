"""Learning from mistakes: the perceptron rules on a Gram matrix held whole or in blocks.

The k-th update at a mistake (x, y) is f += η(k) y k(x, ·). An offset b is the weight of one more
feature, the constant 1: it takes part in updates, in ‖θ‖² = ‖f‖² + b² and in R² = max k(x, x) + 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np

from mercer.domains import same_points
from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.memory import require_memory, row_blocks
from mercer.operators import Gram
from mercer.rkhs import apart
from mercer.settings import get_config

WHOLE = 0.7  # share of the budget that a Gram matrix kept over all epochs may take
WORK = 3e7  # operations of compiled code between two looks at Ctrl-C, some hundredths of a second
UNLIMITED = np.iinfo(np.int64).max
SMALLEST_TILE = 4096  # bytes without which no product with K is possible, for each array alive
# Updates of a margin perceptron with margin γ on data of radius R, at most, in units of R²/γ².
MARGIN_BOUND = 12


@dataclass(frozen=True)
class Rule:
    """What tells the variants apart: one update an epoch, relative margins, shrinking steps."""

    batch: bool = False
    margin: bool = False
    relative: bool = False
    shrinking: bool = False


RULES = {
    "standard": Rule(),
    "margin": Rule(margin=True, relative=True),
    "variable": Rule(margin=True, shrinking=True),
    "batch": Rule(batch=True, shrinking=True),
}


@dataclass
class Learned:
    """What a class has learned besides its coefficients; one entry a class.

    ``half`` is half the margin asked for, in units of ‖θ‖ where margins are relative. A class
    that needs more than ``caps`` updates asks for too much, and starts again with half of it.
    """

    bias: np.ndarray
    square: np.ndarray  # ‖f‖²
    updates: np.ndarray  # since the last start
    total: np.ndarray
    half: np.ndarray
    caps: np.ndarray
    halvings: np.ndarray

    @classmethod
    def fresh(cls, classes: int, half: float, cap: int = UNLIMITED) -> Learned:
        """Return the state before the first update."""
        return cls(
            bias=np.zeros(classes),
            square=np.zeros(classes),
            updates=np.zeros(classes, dtype=np.int64),
            total=np.zeros(classes, dtype=np.int64),
            half=np.full(classes, float(half)),
            caps=np.full(classes, cap, dtype=np.int64),
            halvings=np.zeros(classes, dtype=np.int64),
        )


class Training:
    """One collection of points, and the coefficients that mistakes on it have earned.

    Parameters
    ----------
    kernel, X : Kernel, canonical collection
        The points.
    signs : array of shape (classes, n)
        ±1: whether a point belongs to the class.
    rule, power, offset : Rule, float, bool
        The variant; steps are k^(−power) where they shrink; whether there is an offset.
    state : Learned
        Changed in place.
    earlier : (points, coefficients of shape (m, classes)), optional
        The function learned before, from other points.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        signs: np.ndarray,
        rule: Rule,
        power: float,
        offset: bool,
        state: Learned,
        earlier: tuple[Any, np.ndarray] | None = None,
    ):
        self.kernel, self.X, self.signs, self.rule, self.state = kernel, X, signs, rule, state
        self.power = power if rule.shrinking else 0.0
        self.offset = 1.0 if offset else 0.0
        self.earlier = earlier
        classes, n = signs.shape
        require_memory(
            8 * 8 * classes * n + SMALLEST_TILE * kernel.workspace,
            f"KernelPerceptron: coefficients and values of {n} points and {classes} classes",
            "Fit fewer rows at a time, with partial_fit",
        )
        self.coef = np.zeros((classes, n))
        self.gram = Gram(kernel, X, keep=False)
        self.K = self._whole()
        keep = self.K is not None or rule.batch
        self.values = self.recomputed() if keep else np.empty((0, 0))
        self.margins = np.zeros(classes)

    def _whole(self) -> np.ndarray | None:
        """Return the Gram matrix when it is given or fits the budget."""
        classes, n = self.signs.shape
        if not self.kernel.domain.holds_points:
            K = self.gram.kept()
        elif (n * n + 8 * classes * n) * 8 <= WHOLE * get_config().memory:
            K = self.gram.to_dense()
        else:
            return None
        return None if K is None else np.ascontiguousarray(K, dtype=np.float64)

    # -- epochs -------------------------------------------------------------------------------
    def epoch(self, order: np.ndarray) -> int:
        """Visit every point once in the given order and return the number of updates."""
        before = int(self.state.total.sum())
        with np.errstate(over="ignore", invalid="ignore"):  # the norm tells
            if self.rule.batch:
                self._update_at_once()
            elif self.K is not None:
                self._visit(self.K, order, self.signs, self.values, self.coef)
            else:
                for index in self._cut(order):
                    self._visit_block(index)
        self._refuse_overflow()
        return int(self.state.total.sum()) - before

    def _refuse_overflow(self) -> None:
        if not np.isfinite(self.state.square).all():
            raise InvalidInput(
                f"KernelPerceptron: sums of {self.kernel} overflow on these data; scale the "
                "columns, for example with sklearn.preprocessing.StandardScaler."
            )

    def _visit(
        self,
        K: np.ndarray,
        order: np.ndarray,
        signs: np.ndarray,
        values: np.ndarray,
        coef: np.ndarray,
    ) -> None:
        from mercer.jit import visit

        s, position = self.state, 0
        while position < len(order):
            position = visit(
                K, order, position, signs, values, coef, s.bias, s.square, s.updates, s.total,
                s.halvings, s.caps, s.half, self.rule.relative, self.power, self.offset, WORK,
            )  # fmt: skip

    def _cut(self, order: np.ndarray) -> Iterator[np.ndarray]:
        """Yield parts of the order whose Gram matrices take an eighth of the budget each."""
        edge = max(1, isqrt(get_config().memory // 64))
        for start in range(0, len(order), edge):
            yield order[start : start + edge]

    def _visit_block(self, index: np.ndarray) -> None:
        """Visit some points: what lies outside is one product, what happens inside is K[b, b]."""
        kernel, take = self.kernel, self.kernel.domain.take
        points = take(self.X, index)
        K = np.ascontiguousarray(Gram(kernel, points, keep=False).to_dense(), dtype=np.float64)
        coef = np.ascontiguousarray(self.coef[:, index])
        values = coef @ K + self.state.bias[:, None]
        if self.earlier is not None:
            values += _product(kernel, points, *self.earlier)
        used = np.any(self.coef, axis=0)
        used[index] = False
        others = np.flatnonzero(used)
        width = int(getattr(self.X, "nbytes", 0)) // max(1, self.signs.shape[1])
        for part in row_blocks(len(others), max(8, width)):
            at = others[part]
            if len(at):
                values += _product(kernel, points, take(self.X, at), self.coef[:, at].T)
        halvings = self.state.halvings.copy()
        order = np.arange(len(index))
        self._visit(K, order, np.ascontiguousarray(self.signs[:, index]), values, coef)
        self.coef[self.state.halvings > halvings] = 0.0
        self.coef[:, index] = coef

    def _update_at_once(self) -> None:
        """One update for each class with mistakes: η(k) Σ y k(x, ·) over all of them."""
        s, F = self.state, self.values
        mistakes = self.mistakes(F)
        wrong = mistakes.any(axis=1)
        s.updates += wrong
        s.total += wrong
        eta = np.maximum(s.updates, 1) ** -self.power
        steps = np.where(mistakes, eta[:, None] * self.signs, 0.0)
        change = self._times(steps)
        s.square += (steps * (2 * (F - s.bias[:, None]) + change)).sum(axis=1)
        np.maximum(s.square, 0.0, out=s.square)
        sums = self.offset * steps.sum(axis=1)
        self.coef += steps
        s.bias += sums
        F += change + sums[:, None]

    # -- values -------------------------------------------------------------------------------
    def _times(self, coef: np.ndarray) -> np.ndarray:
        """Return coef·K, one row a class; rows of K are added one by one, in the order of points.

        So bits depend neither on threads nor on how BLAS splits a product; and most of the
        coefficients are zero.
        """
        if self.K is None:
            return np.ascontiguousarray((self.gram @ coef.T).T)
        from mercer.jit import add_kernel_rows

        out = np.zeros_like(coef)
        step = max(1, int(WORK) // len(self.K))
        for c, row in enumerate(coef):
            used = np.flatnonzero(row)
            for i in range(0, len(used), step):
                part = used[i : i + step]
                add_kernel_rows(self.K, part, row[part], out[c])
        return out

    def recomputed(self) -> np.ndarray:
        """Return f + b at all points and for all classes, from the coefficients alone."""
        values = np.repeat(self.state.bias[:, None], self.coef.shape[1], axis=1)
        if self.coef.any():
            values += self._times(self.coef)
        if self.earlier is not None:
            values += _product(self.kernel, self.X, *self.earlier)
        return values

    def mistakes(self, values: np.ndarray) -> np.ndarray:
        """Return which points are mistakes of which class."""
        limit = self.state.half
        if self.rule.relative:
            limit = limit * np.sqrt(self.state.square + self.state.bias**2)
        return self.signs * values <= limit[:, None]

    def settle(self) -> int:
        """Recompute values and norms from the coefficients and return the number of mistakes.

        The norm of a function with an earlier part is taken as the updates told.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            F = self.recomputed()
            if self.earlier is None:
                f = F - self.state.bias[:, None]
                self.state.square[:] = np.maximum(0.0, (self.coef * f).sum(axis=1))
        self._refuse_overflow()
        if self.values.size:
            self.values[:] = F
        self.margins = _margins(self.signs * F, self.state.square)
        return int(self.mistakes(F).sum())


def _margins(agreement: np.ndarray, square: np.ndarray) -> np.ndarray:
    """Return the geometric margin min y(f + b)/‖f‖ of each class, 0 where f is zero."""
    norm = np.sqrt(square)
    return np.where(norm > 0, agreement.min(axis=1) / np.where(norm > 0, norm, 1.0), 0.0)


def _product(kernel: Kernel, X: Any, points: Any, coef: np.ndarray) -> np.ndarray:
    """Return Σ coef k(points, ·) at X, one row a class; all points count as different from X."""
    points = apart(kernel.domain, points) if points is X else points
    return (Gram(kernel, X, points, keep=False) @ coef).T


def describe(model: Any, mistakes: int, t: Training, epochs: int) -> str:
    """Return what to say of a perceptron that still makes mistakes."""
    classes, n = t.signs.shape
    cures = ["a larger max_epochs"]
    if t.power > 0:
        cures.append(f"steps that shrink more slowly than power_t={model.power_t}")
    if RULES[model.variant].margin and model.margin is not None:
        cures.append(f"a smaller margin than {model.margin}")
    cures.append("a kernel that separates more, such as one of a shorter length scale")
    count = f"{n} points" + (f" × {classes} classes" if classes > 1 else "")
    return (
        f"KernelPerceptron: {mistakes} of {count} are still mistakes of the variant "
        f"{model.variant!r} after {epochs} epochs and {int(t.state.total.sum())} updates. Try "
        f"{', or '.join(cures)}. Classes that overlap are never separated: SVC and "
        "KernelRidgeClassifier allow for that."
    )


def refuse_unknown_scale(kernel: Kernel, X: Any) -> None:
    """Refuse to take a scale for good from the points of a first call that have none."""
    if not kernel._words():
        return
    domain = kernel.domain
    first = domain.take(X, np.zeros(domain.size(X), dtype=int))
    if same_points(domain, X, first):
        raise InvalidInput(
            f"KernelPerceptron.partial_fit: {kernel} takes its scale from the rows of the first "
            "call, and these are one point; begin with more rows, or give a number such as "
            "RBF(length_scale=1.0)."
        )
