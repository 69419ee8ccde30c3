"""Solutions of a sparse kernel machine along its penalty, each from the one before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer.errors import InvalidInput

__all__ = ["L1VMPath", "path_along_alpha"]


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


def path_along_alpha(
    model: Any, X: Any, y: Any, alphas: Any, n_alphas: Any, eps: Any, sample_weight: Any
) -> L1VMPath:
    """Fit clones of a model along penalties, from the largest down.

    Parameters
    ----------
    model : L1VM
        Whose other parameters count.
    X, y, sample_weight
        Training data.
    alphas : array-like or None
        The penalties, in any order.
    n_alphas, eps
        How many, and the last as a share of the first, where none are given.
    """
    owner = f"{type(model).__name__}.path"
    fresh = clone(model)
    sparse = fresh._prepare(X, y, sample_weight)
    grid = (
        _checked(alphas, owner)
        if alphas is not None
        else _grid(fresh, sparse, n_alphas, eps, owner)
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


def _checked(alphas: Any, owner: str) -> np.ndarray:
    try:
        grid = np.array(alphas, dtype=float).reshape(-1)
    except (TypeError, ValueError):
        grid = np.zeros(0)
    if not grid.size or not np.isfinite(grid).all() or (grid <= 0).any():
        raise InvalidInput(f"{owner}: alphas={alphas!r}; give one or more finite numbers > 0.")
    return grid


def _grid(model: Any, sparse: Any, n_alphas: Any, eps: Any, owner: str) -> np.ndarray:
    """Return penalties from the smallest with all weights zero down to eps times it."""
    whole = isinstance(n_alphas, int | np.integer) and not isinstance(n_alphas, bool)
    if not whole or n_alphas < 1:
        raise InvalidInput(f"{owner}: n_alphas={n_alphas!r}; give a whole number ≥ 1.")
    number = isinstance(eps, int | float | np.number) and not isinstance(eps, bool)
    if not number or not 0 < eps < 1:
        raise InvalidInput(f"{owner}: eps={eps!r}; give a number between 0 and 1.")
    if model.l1_ratio == 0:
        raise InvalidInput(
            f"{owner}: with l1_ratio=0 no penalty makes all weights zero, so there is none to "
            "begin with; give alphas."
        )
    # A little above, so that rounding leaves no weight at the first.
    top = sparse.largest_alpha(float(model.l1_ratio)) * (1 + 1e-12) or 1.0
    return np.geomspace(top, eps * top, int(n_alphas))
