"""Data of a sparse kernel machine made ready for its solver: prototypes, features, signs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.domains import GramRows
from mercer.domains.tables.table import has_width
from mercer.engines import pick
from mercer.engines.budget import require_memory
from mercer.errors import InvalidInput, ModelFileError
from mercer.kernels import Kernel
from mercer.losses import Loss
from mercer.models.labels import class_signs
from mercer.models.machines import MarginData
from mercer.solvers.risk.lasso import CheckedSparse, SparseERM

__all__ = ["SparseData", "check_state", "sparse_data"]

HEAVY = 1e100  # a sum of weights beyond which the solver would square more than floats can hold


@dataclass(frozen=True, eq=False)
class SparseData:
    """Checked data of a fit, with one problem for each class, or one in all.

    Parameters
    ----------
    data : MarginData
        The points and targets.
    prototypes : collection of m points
        All prototypes; their positions when the kernel is precomputed.
    indices : ndarray of shape (m,)
        Their positions among the rows as given, or among the prototypes as given.
    problems : list of CheckedSparse
        What is to be minimised, all on the same features.
    """

    data: MarginData
    prototypes: Any
    indices: np.ndarray
    problems: list[CheckedSparse]

    @property
    def several(self) -> bool:
        """Whether there is one problem for each class."""
        return self.data.classes is not None and len(self.data.classes) > 2

    def largest_alpha(self, l1_ratio: float) -> float:
        """Return the penalty from which on all weights are zero, in closed form."""
        return max(p.largest_alpha() for p in self.problems) / l1_ratio


def sparse_data(model: Any, data: MarginData, loss: Loss, X: Any) -> SparseData:
    """Choose the prototypes, compute the features, and state the problems.

    Parameters
    ----------
    model : L1VM
        Whose parameters count.
    data : MarginData
        Checked points, without rows of weight zero.
    loss : Loss
        The loss.
    X : collection
        The points as they were given.
    """
    total = 0.0 if data.weights is None else float(np.sum(data.weights))
    if not total < HEAVY:
        raise InvalidInput(
            f"{type(model).__name__}: the weights add up to {total:.3g}, and their squares would "
            "overflow; divide sample_weight and alpha by the same number, which changes nothing."
        )
    kernel, points = data.kernel, data.X
    matrix = isinstance(kernel.domain, GramRows)
    if matrix:
        kernel.domain.check_square(points)  # type: ignore[attr-defined]
    given = not isinstance(model.prototypes, str)
    if matrix and given and data.kept is not None:  # a prototype may be a row of weight zero
        full = model._check_X(X, kernel, reset=False)
        prototypes, indices = model._choose(kernel, full, None)
        points = full[data.kept]
    else:
        prototypes, indices = model._choose(kernel, points, data.repeats)
    features = _features(kernel, points, prototypes, type(model).__name__)
    if indices is None:
        indices = np.arange(kernel.domain.size(prototypes))
    elif data.kept is not None:
        indices = data.kept[indices]
        prototypes = indices if matrix else prototypes
    targets = [data.y]
    if data.classes is not None:
        targets = list(class_signs(data.y, np.arange(len(data.classes))))
    problems = [
        SparseERM(
            features.T,
            t,
            loss,
            model.alpha,
            model.l1_ratio,
            data.weights,
            bool(model.fit_intercept),
        ).checked(type(model).__name__)
        for t in targets
    ]
    return SparseData(data, prototypes, indices, problems)


def _features(kernel: Kernel, X: Any, prototypes: Any, owner: str) -> np.ndarray:
    """Return k(μⱼ, xᵢ), one row a prototype."""
    n, m = kernel.domain.size(X), kernel.domain.size(prototypes)
    require_memory(
        int(1.2 * n * m * 8) + 64 * n * 8,
        f"{owner}: the matrix of kernel values of {n} points with {m} prototypes",
        "Use fewer prototypes: prototypes='random' or 'kmeans'",
    )
    if isinstance(kernel.domain, GramRows):
        return np.ascontiguousarray(X[:, prototypes].T, dtype=np.float64)
    A, B = kernel._checked(prototypes, X)
    engine = pick(A, B)
    return np.asarray(engine.to_numpy(engine.gram(kernel, A, B)), dtype=np.float64)


def check_state(model: Any) -> None:
    """Refuse a state read from a file whose parts do not belong together."""
    held = {name: value for name, value in vars(model).items() if name in model._learned}
    if not held:
        return
    owner = type(model).__name__
    optional = {"n_features_in_", "feature_names_in_", "classes_"}
    missing = sorted(set(model._learned) - optional - set(held))
    if missing:
        raise ModelFileError(f"a {owner} without {', '.join(missing)}")
    s, *outputs = np.shape(model.dual_coef_)
    classes, domain = held.get("classes_"), model.kernel_.domain
    columns = outputs[0] if outputs else 2
    fits = (
        np.shape(model.support_) == (s,)
        and domain.size(model.prototypes_) == s
        and list(np.shape(model.intercept_)) == outputs
        and np.isfinite(model.dual_coef_).all()
        and np.isfinite(model.intercept_).all()
        and (model._risk().kind == "classification") == (classes is not None)
        and (classes is None or len(np.unique(classes)) == len(classes) == columns)
    )
    points, count = model.prototypes_, held.get("n_features_in_")
    if isinstance(domain, GramRows):
        whole = isinstance(points, np.ndarray) and points.dtype.kind in "iu" and count
        fits = fits and bool(whole) and bool(((points >= 0) & (points < count)).all())
    elif count is not None:
        fits = fits and has_width(points, count)
    if not fits:
        raise ModelFileError(f"the arrays of a {owner} do not fit one another")
