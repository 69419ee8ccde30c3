"""Data of a sparse kernel machine made ready for its solver: prototypes, features, signs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer.checks import check_grid
from mercer.errors import InvalidInput, speaks, who
from mercer.estimator import Sample, class_signs
from mercer.features import choose_prototypes
from mercer.kernels import Kernel
from mercer.losses import Loss
from mercer.memory import require_memory
from mercer.operators import Gram, gram_of
from mercer.solvers import SparseERM
from mercer.solvers.risk import CheckedSparse

HEAVY = 1e100  # a sum of weights beyond which the solver would square more than floats can hold


@dataclass(frozen=True, eq=False)
class SparseData:
    """Checked data of a fit, with one problem for each class, or one in all.

    Parameters
    ----------
    data : Sample
        The points and targets.
    prototypes : collection of m points
        All prototypes; their positions when the kernel is precomputed.
    indices : ndarray of shape (m,)
        Their positions among the rows as given, or among the prototypes as given.
    problems : list of CheckedSparse
        What is to be minimised, all on the same features.
    """

    data: Sample
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


@speaks
def sparse_data(model: Any, data: Sample, loss: Loss, X: Any) -> SparseData:
    """Choose the prototypes, compute the features, and state the problems.

    `data` are without rows of weight zero, X are the points as they were given.
    """
    total = 0.0 if data.weights is None else float(np.sum(data.weights))
    if not total < HEAVY:
        raise InvalidInput(
            f"{who()}: the weights add up to {total:.3g}, and their squares would "
            "overflow; divide sample_weight and alpha by the same number, which changes nothing."
        )
    kernel, points, domain = data.kernel, data.X, data.kernel.domain
    domain.check_training(points)
    given = not isinstance(model.prototypes, str)
    if given and data.kept is not None and not domain.holds_points:
        # A prototype, which is a position, may be that of a row of weight zero.
        full = model._check_X(X, kernel, reset=False)
        prototypes, indices = choose_prototypes(model, kernel, full, None)
        points = domain.take(full, data.kept)
    else:
        prototypes, indices = choose_prototypes(model, kernel, points, data.repeats)
    features = _features(kernel, points, prototypes)
    if indices is None:
        indices = np.arange(domain.size(prototypes))
    elif data.kept is not None:
        indices = data.kept[indices]
        prototypes = prototypes if domain.holds_points else indices
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
        ).checked(who())
        for t in targets
    ]
    return SparseData(data, prototypes, indices, problems)


def _features(kernel: Kernel, X: Any, prototypes: Any) -> np.ndarray:
    """Return k(μⱼ, xᵢ), one row a prototype."""
    n, m = kernel.domain.size(X), kernel.domain.size(prototypes)
    require_memory(
        int(1.2 * n * m * 8) + 64 * n * 8,
        f"{who()}: the matrix of kernel values of {n} points with {m} prototypes",
        "Use fewer prototypes: prototypes='random' or 'kmeans'",
    )
    if not kernel.domain.holds_points:  # known is k(xᵢ, μⱼ) alone
        values = gram_of(kernel, X, prototypes).to_dense()
        return np.ascontiguousarray(values.T, dtype=np.float64)
    return np.asarray(Gram(kernel, prototypes, X, keep=False).to_dense(), dtype=np.float64)


# ---- Solutions of a sparse kernel machine along its penalty, each from the one before ----


@dataclass(frozen=True, eq=False)
class L1VMPath:
    """What `L1VM.path` found; entry i of everything belongs to the i-th alpha as it was given.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
        The penalties.
    coefs : ndarray of shape (n_alphas, m) or (n_alphas, n_classes, m)
        The weights of all m prototypes.
    intercepts : ndarray of shape (n_alphas,) or (n_alphas, n_classes)
        The offsets.
    gaps : ndarray of shape (n_alphas,)
        Duality gaps, summed over the classes.
    n_nonzero : ndarray of shape (n_alphas,)
        How many prototypes are used.
    n_iter : ndarray of shape (n_alphas,)
        Passes of the solver from the solution for the next larger penalty.
    prototypes : collection of m points
        The prototypes; their positions when the kernel is precomputed.
    prototype_indices : ndarray of shape (m,)
        Their positions, as in ``support_``.
    models : list of L1VM
        The fitted model of each.
    """

    alphas: np.ndarray
    coefs: np.ndarray
    intercepts: np.ndarray
    gaps: np.ndarray
    n_nonzero: np.ndarray
    n_iter: np.ndarray
    prototypes: Any
    prototype_indices: np.ndarray
    models: list[Any]

    def __repr__(self) -> str:
        a, k = self.alphas, self.n_nonzero
        return (
            f"L1VMPath({len(a)} penalties from {a.max():.3g} to {a.min():.3g}, {k.min()} to "
            f"{k.max()} of {len(self.prototype_indices)} prototypes)"
        )


@speaks(".path")
def path_along_alpha(
    model: Any, X: Any, y: Any, alphas: Any, n_alphas: Any, eps: Any, sample_weight: Any
) -> L1VMPath:
    """Fit clones of a model along penalties, from the largest down.

    Penalties come in any order; without any there are `n_alphas`, the last `eps` times the first.
    """
    fresh = clone(model)
    sparse = fresh._prepare(X, y, sample_weight)
    grid = (
        check_grid(alphas, "alphas") if alphas is not None else _grid(fresh, sparse, n_alphas, eps)
    )
    models: list[Any] = []
    found: list[tuple[np.ndarray, np.ndarray]] = []
    starts = None
    order = np.argsort(-grid, kind="stable")
    for alpha in grid[order]:
        member = clone(model).set_params(alpha=float(alpha))
        for name in ("n_features_in_", "feature_names_in_"):
            if name in vars(fresh):
                setattr(member, name, getattr(fresh, name))
        solutions = member._solve(sparse, starts)
        member._store(sparse, solutions)
        starts = [s.value for s in solutions]
        V, b = np.stack(starts), np.array([s.extra["offset"] for s in solutions])
        found.append((V, b) if sparse.several else (V[0], b[0]))
        models.append(member)
    place = np.argsort(order)
    models = [models[i] for i in place]
    return L1VMPath(
        alphas=grid,
        coefs=np.stack([found[i][0] for i in place]),
        intercepts=np.stack([found[i][1] for i in place]),
        gaps=np.array([m.solution_.gap for m in models]),
        n_nonzero=np.array([len(m.support_) for m in models]),
        n_iter=np.array([m.solution_.n_iter for m in models]),
        prototypes=sparse.prototypes,
        prototype_indices=sparse.indices,
        models=models,
    )


def _grid(model: Any, sparse: Any, n_alphas: Any, eps: Any) -> np.ndarray:
    """Return penalties from the smallest with all weights zero down to eps times it."""
    whole = isinstance(n_alphas, int | np.integer) and not isinstance(n_alphas, bool)
    if not whole or n_alphas < 1:
        raise InvalidInput(f"{who()}: n_alphas={n_alphas!r}; give a whole number ≥ 1.")
    number = isinstance(eps, int | float | np.number) and not isinstance(eps, bool)
    if not number or not 0 < eps < 1:
        raise InvalidInput(f"{who()}: eps={eps!r}; give a number between 0 and 1.")
    if model.l1_ratio == 0:
        raise InvalidInput(
            f"{who()}: with l1_ratio=0 no penalty makes all weights zero, so there is none to "
            "begin with; give alphas."
        )
    # A little above, so that rounding leaves no weight at the first.
    top = sparse.largest_alpha(float(model.l1_ratio)) * (1 + 1e-12) or 1.0
    return np.geomspace(top, eps * top, int(n_alphas))
