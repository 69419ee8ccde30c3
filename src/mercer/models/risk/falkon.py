"""Regularised risks in the span of centres: targets as a pass wants them, one fit, what is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.domains import RowBlocks
from mercer.errors import InvalidInput, who
from mercer.estimator import NumericTargets, Sample, class_signs, coded
from mercer.features import centred_rows
from mercer.kernels import Kernel
from mercer.losses import Logistic, Loss, Squared
from mercer.models.ridge import in_own_units
from mercer.models.risk.fit import ERMFit
from mercer.models.risk.smooth import NEWTON_STEPS, centre_of, in_units
from mercer.solvers import Centred, Falkon, FalkonNewton

if TYPE_CHECKING:
    from mercer.estimator import SolverOptions


@dataclass(frozen=True)
class OneTarget(NumericTargets):
    """Turns the targets of a block into float64 of shape (rows, 1), or refuses several."""

    def __call__(self, y: Any) -> np.ndarray:
        """Return the targets of a block."""
        T = super().__call__(y)
        if T.shape[1] != 1:
            raise InvalidInput(
                f"{self.speaker}: the targets have {T.shape[1]} columns; give one target for each "
                "row, and fit one model a column."
            )
        return T


@dataclass(frozen=True)
class ClassNumbers:
    """Turns the ±1 of a block, one column a class, into class numbers of shape (rows, 1)."""

    def __call__(self, signs: Any) -> np.ndarray:
        """Return the numbers of a block."""
        return signs.argmax(axis=1).astype(np.float64)[:, None]


def outputs_of(classes: np.ndarray | None) -> int:
    """Return how many functions are sought: one, or one a class where there are more than two."""
    return 1 if classes is None or len(classes) == 2 else len(classes)


def is_softmax(loss: Loss, classes: np.ndarray | None) -> bool:
    """Whether all classes have one common risk."""
    return isinstance(loss, Logistic) and outputs_of(classes) > 1


def stream_data(kernel: Kernel, rows: RowBlocks, loss: Loss, class_weight: Any) -> Sample:
    """Return rows in blocks as the data of a fit; they bring targets and weights of their own."""
    classes = None
    if loss.kind == "classification":
        rows, classes = coded(rows, class_weight)
        rows = rows.with_targets(ClassNumbers()) if is_softmax(loss, classes) else rows
    else:
        rows = rows.with_targets(OneTarget(who()))
    none = np.empty(0)
    return Sample(kernel, rows, none, none, None, None, rows.n_rows, classes)


def fit_on_centers(
    data: Sample, loss: Loss, alpha: float, offset: bool, options: SolverOptions, m: int
) -> ERMFit:
    """Minimise Σ wᵢ ℓ(yᵢ, f(xᵢ) + b) + (alpha/2)‖f‖² over f in the span of at most m centres.

    The rows may be a tensor, or blocks as of `stream_data`. The loss is smooth; logistic of more
    than two classes means softmax, other losses of classification one function for each class
    against the rest. The certificate is the norm of the gradient relative to that at 0.
    """
    stream, outputs = isinstance(data.X, RowBlocks), outputs_of(data.classes)
    centre, unit, own, T, weights = 0.0, 1.0, loss, None, None
    if not stream:
        weights = None if bool((data.weights == 1).all()) else data.weights
        if data.classes is None:
            centre = centre_of(data.y, loss, data.weights, offset)
            own, unit = in_units(loss, data.y - centre)
        T = _targets(data, loss, centre, unit)
    made = centred_rows(data.kernel, data.X, T, weights, options, m)
    problem = Centred(made.rows, made.gram, alpha, offset, outputs, overwrite=True)
    limits: dict[str, Any] = {
        "tol": options.tol,
        "max_time": options.max_time,
        "checkpoint": options.checkpoint,
    }
    steps = options.max_iter
    solver: Any
    if type(loss) is Squared:
        solver = Falkon(**limits) if steps is None else Falkon(max_iter=steps, **limits)
    else:
        risk: Any = "softmax" if is_softmax(loss, data.classes) else own
        solver = FalkonNewton(risk, max_iter=NEWTON_STEPS if steps is None else steps, **limits)
    solution, a, offsets = in_own_units(solver.solve(problem), unit)
    b: Any = offsets
    if outputs == 1:
        a, b = a[:, 0], float(offsets[0]) + centre
    return ERMFit(a, b, solution, centers=made.centers)


def _targets(data: Sample, loss: Loss, centre: float, unit: float) -> np.ndarray:
    """Return targets of shape (n, 1), class numbers, or ±1 with a column for each function."""
    if data.classes is None:
        return ((data.y - centre) / unit)[:, None]
    if is_softmax(loss, data.classes):
        return data.y.astype(np.float64)[:, None]
    return np.ascontiguousarray(class_signs(data.y, np.arange(len(data.classes))).T)
