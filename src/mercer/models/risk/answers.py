"""The training rows of a fitted risk once more: left-out values, degrees of freedom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.estimator import class_signs
from mercer.kernels import Kernel
from mercer.losses import Logistic, Loss
from mercer.models.risk.left_out import (
    freedom_smooth,
    freedom_softmax,
    loo_dual,
    loo_smooth,
    loo_softmax,
)
from mercer.operators import Operator
from mercer.solvers import SmoothERM, SoftmaxERM, Solution
from mercer.solvers.risk import log_softmax

OTHER = 1e-3  # relative residual that no rounding explains


@dataclass(frozen=True, eq=False)
class RowsAgain:
    """Rows of positive weight of a fit, and what the fit is there."""

    kernel: Kernel
    X: Any
    y: np.ndarray
    weights: np.ndarray
    losses: list[Loss]
    alpha: float
    offset: bool
    coef: np.ndarray
    intercept: Any
    f: np.ndarray
    classes: int
    gram: Operator | None

    @property
    def values(self) -> np.ndarray:
        """Values of the fit, f(x) + b."""
        return self.f + self.intercept

    @property
    def _is_softmax(self) -> bool:
        return self.f.ndim == 2 and isinstance(self.losses[0], Logistic)

    def _targets(self) -> np.ndarray:
        """Return the targets of each problem, one row a problem."""
        if self.classes:
            return class_signs(self.y, np.arange(self.classes))
        return np.tile(self.y, (len(self.losses), 1))

    def _problems(self) -> Iterator[tuple[Loss, np.ndarray, np.ndarray, float, np.ndarray]]:
        """Yield loss, targets, coefficients, offset and values of each problem."""
        n = len(self.y)
        a, b = self.coef.reshape(n, -1), np.atleast_1d(self.intercept)
        z = self.values.reshape(n, -1)
        for j, (loss, target) in enumerate(zip(self.losses, self._targets(), strict=True)):
            yield loss, target, a[:, j], float(b[j]), z[:, j]

    def _smooth(self, loss: Loss, y: np.ndarray) -> SmoothERM:
        return SmoothERM(self.gram, y, loss, self.alpha, self.weights, self.offset)

    def _softmax(self) -> SoftmaxERM:
        rest = (self.alpha, self.weights, self.offset)
        return SoftmaxERM(self.gram, self.y.astype(int), self.classes, *rest)

    def left_out(self) -> np.ndarray:
        """Return f₋ᵢ(xᵢ) + b₋ᵢ at each row."""
        kernel, X = self.kernel, self.X
        if self._is_softmax:
            return loo_softmax(kernel, X, self._softmax(), self.values)
        columns = [
            loo_dual(kernel, X, y, loss, self.alpha, self.weights, self.offset, a, b, z)
            if self.gram is None
            else loo_smooth(kernel, X, self._smooth(loss, y), z, a)
            for loss, y, a, b, z in self._problems()
        ]
        return columns[0] if self.f.ndim == 1 else np.stack(columns, axis=1)

    def degrees_of_freedom(self) -> Any:
        """Return the trace of the last hat matrix, of each problem."""
        if self._is_softmax:
            return freedom_softmax(self._softmax(), self.values)
        found = [freedom_smooth(self._smooth(loss, y), z) for loss, y, _, _, z in self._problems()]
        return found[0] if self.f.ndim == 1 else np.array(found)

    def check_matrix(self, found: Solution, owner: str) -> None:
        """Refuse a matrix with which the coefficients do not solve the problem of the fit.

        Of smooth losses alpha a = −wℓ' at the values, of others the objective tells.
        """
        if not self.classes and self.f.ndim == 2:
            return  # each column has a loss of its own
        n, w, a, z = len(self.y), self.weights, self.coef, self.values
        if self.losses[0].smooth:
            if self._is_softmax:
                G = w[:, None] * (np.exp(log_softmax(z)) - (self._targets().T > 0))
            else:
                slopes = [w * loss.gradient(y, v) for loss, y, _, _, v in self._problems()]
                G = np.stack(slopes, axis=1)
            lack = float(np.abs(self.alpha * a.reshape(n, -1) + G).max())
            size, allowed = float(np.abs(G).max()), max(OTHER, 10 * float(found.residual or 0.0))
        else:
            risk = sum(float(w @ loss.value(y, v)) for loss, y, _, _, v in self._problems())
            size, allowed = abs(float(found.primal or 0.0)), 1e-3 * OTHER
            norm = float((a * self.f).sum())
            lack = abs(risk + 0.5 * self.alpha * norm - float(found.primal or 0.0))
        if not lack <= allowed * size:
            raise InvalidInput(
                f"{owner}: this is not the matrix the model was fitted on; pass the training "
                "matrix again."
            )
