"""Which solver suits the sizes of a `KernelPCA`, and a call of the one that was planned."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.engines.device.place import room
from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.models.pca.components import Components, Wanted
from mercer.models.pca.dual import (
    OTHERWISE,
    TOL,
    by_cholesky,
    by_dense,
    by_subspace,
    pivots_allowed,
)
from mercer.models.pca.parameters import PEERS
from mercer.models.pca.primal import by_features, features_fit, n_features
from mercer.settings import get_config
from mercer.solvers import SubspaceIteration

__all__ = ["decompose"]

SMALL = 500  # points up to which all eigenvalues cost less than blocks of products
OPEN = 2000  # the same where a share of the variance is asked for
WIDE = 2  # so many times more features than points, or columns, are worth centring one by one


def decompose(
    model: Any, kernel: Kernel, X: Any, weights: np.ndarray | None, want: Wanted, word: str
) -> Components:
    """Return the components of points of positive weight.

    Parameters
    ----------
    model : KernelPCA
        Its parameters, checked.
    kernel : Kernel
        With words resolved.
    X : canonical collection of n points
        The points.
    weights : ndarray of shape (n,) or None
        Their weights.
    want : Wanted
        How many.
    word : str
        The solver.
    """
    n = kernel.domain.size(X)
    few = _few(n, want)
    seed = 0 if model.random_state is None else model.random_state
    tol, limit = float(model.tol), model.max_iter
    given = (kernel, X, weights, want, bool(model.remove_zero_eig), "KernelPCA")
    if word == "features":
        leading = SubspaceIteration(
            tol or TOL, limit or 500, random_state=seed, otherwise=OTHERWISE
        )
        return by_features(*given, few=leading if few and n > SMALL else None)
    if word == "dense":
        return by_dense(*given)
    if word == "subspace":
        return by_subspace(*given, tol=tol, max_iter=limit, random_state=seed)
    return by_cholesky(*given, rank=pivots_allowed(n, model.rank, want), random_state=seed)


def _few(n: int, want: Wanted) -> bool:
    return want.count is not None and want.count <= n / 10


def _solver(model: Any, kernel: Kernel, X: Any, want: Wanted) -> str:
    """Return the solver from sizes; a plan may leave "cholesky" for one that is exact."""
    word = PEERS.get(model.eigen_solver, model.eigen_solver)
    n, D = kernel.domain.size(X), n_features(kernel, X)
    if word == "features" and D is None:
        raise InvalidInput(
            f"KernelPCA: eigen_solver='features', but {kernel!r} has no finite features; use "
            "'auto', 'dense', 'subspace' or 'cholesky'."
        )
    if word == "subspace" and want.count is None and want.share is None:
        raise InvalidInput(
            "KernelPCA: eigen_solver='subspace' finds the leading components; give n_components, "
            "or use eigen_solver='dense' for all of them."
        )
    if word != "auto":
        return word
    columns = X.shape[1] if getattr(X, "ndim", 0) == 2 else 0
    most = WIDE * max(n, columns)
    if D is not None and D <= most and features_fit(n, D, sp.issparse(X), get_config().memory):
        return "features"
    if n <= SMALL or (want.share is not None and n <= OPEN) or not (_few(n, want) or want.share):
        some = want.count is not None and want.count < n / 2 and get_config().engine != "torch"
        matrices = 2 if some else 5
        return "dense" if 8 * matrices * n * n <= room() else "cholesky"
    return "subspace" if 9 * n * n <= room() else "cholesky"
