"""`representers`: the training points that carry each prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.checks import check_index
from mercer.domains import to_host
from mercer.errors import InvalidInput, speaks
from mercer.estimator import new_points
from mercer.memory import row_blocks
from mercer.operators import gram_of
from mercer.rkhs import Function, apart


@dataclass(frozen=True, eq=False)
class Representers:
    r"""Training points that carry predictions.

    :math:`f(x) = \text{base} + \sum_i \alpha_i k(x_i, x)`.

    Parameters
    ----------
    index : ndarray of shape (m, count) or (m, count, t)
        Positions of the points that carry most, row by row; t outputs.
    values : ndarray of the shape of `index`
        What they carry, αᵢk(xᵢ, x): largest absolute values first.
    shares : ndarray of the shape of `index`
        The share of Σ\|αᵢk(xᵢ, x)\| over all points that the first ones have together.
    total : ndarray of shape (m,) or (m, t)
        What all points carry.
    base : ndarray of shape (m,) or (m, t)
        The rest of the prediction: the offset, and the line of a process with a linear mean.

    Examples
    --------
    >>> from mercer import RBF, KernelRidge, representers
    >>> model = KernelRidge(RBF(), alpha=0.1).fit([[0.0], [1.0], [5.0]], [1.0, 2.0, 3.0])
    >>> told = representers(model, [[0.9], [5.1]], count=2)
    >>> told.index
    array([[1, 0],
           [2, 1]])
    >>> bool(abs(told.base + told.total - model.predict([[0.9], [5.1]])).max() < 1e-12)
    True
    """

    index: np.ndarray
    values: np.ndarray
    shares: np.ndarray
    total: np.ndarray
    base: np.ndarray

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        m, count, *t = self.index.shape
        outputs = f", {t[0]} outputs" if t else ""
        return f"Representers({m} rows, {count} points each{outputs})"


@speaks("representers")
def representers(model: Any, X: Any, count: int = 5) -> Representers:
    r"""Return the training points that carry each prediction most.

    By the representer theorem a prediction is a sum over training points,
    :math:`f(x) = b + \sum_i \alpha_i k(x_i, x)`. The terms are exact, have a sign, and add up: a
    large positive one is a training point that is like x, and raises the prediction (Yeh, Kim, Yen
    & Ravikumar 2018).

    Parameters
    ----------
    model : estimator or Function
        A fitted model with a ``function_``, for any kernel on any points.
    X : collection of m points
        Whose predictions are to be explained; when precomputed, their kernel values with the
        training points.
    count : int, default=5
        How many points are told for each.

    Returns
    -------
    Representers
        With ``index``, ``values``, ``shares``, ``total`` and ``base``. Positions of points are
        those in ``X_fit_``; of a machine, which keeps its support vectors, in the rows of the fit.

    Examples
    --------
    >>> from mercer import SVC, BagOfWords, representers
    >>> X, y = ["buy this now", "buy", "see you at lunch", "lunch"], [1, 1, 0, 0]
    >>> machine = SVC(BagOfWords()).fit(X, y)
    >>> told = representers(machine, ["late for lunch"], count=1)
    >>> X[told.index[0, 0]], bool(told.values[0, 0] < 0)
    ('lunch', True)
    """
    check_index(count, "count", 1)
    f = model if isinstance(model, Function) else getattr(model, "function_", None)
    if not isinstance(f, Function):
        raise InvalidInput(
            f"representers: {type(model).__name__} has no function of training points; give a "
            "model with one kernel, such as KernelRidge, SVC or GaussianProcessRegressor."
        )
    if not len(f):
        raise InvalidInput("representers: the model keeps no points, so that none carries it.")
    domain = f.kernel.domain
    rows = domain.check(X) if model is f else new_points(model, X)
    rows, points = domain.match(apart(domain, to_host(rows)), f.points)
    m, n, t = domain.size(rows), len(f), f.n_outputs
    coef = np.asarray(to_host(f.coef), dtype=np.float64).reshape(n, t)
    count = min(count, n)
    index = np.empty((m, count, t), dtype=int)
    values, shares = np.empty((m, count, t)), np.empty((m, count, t))
    total = np.empty((m, t))
    for part in row_blocks(m, 8 * n * (2 * t + 2)):
        some = domain.take(rows, part)
        K = np.asarray(gram_of(f.kernel, some, points).to_dense(), dtype=np.float64)
        carried = K[:, :, None] * coef
        total[part] = carried.sum(axis=1)
        order = np.argsort(-np.abs(carried), axis=1, kind="stable")[:, :count]
        index[part] = order
        values[part] = np.take_along_axis(carried, order, axis=1)
        whole = np.abs(carried).sum(axis=1)[:, None]
        shares[part] = np.abs(values[part]).cumsum(axis=1) / np.where(whole > 0, whole, 1.0)
    base = np.broadcast_to(np.asarray(to_host(f.offset), dtype=np.float64), (m, t)).copy()
    slopes = getattr(model, "mean_coef_", None)
    if slopes is not None:
        base += np.asarray(rows) @ np.reshape(slopes, (len(slopes), -1))
    support = getattr(model, "support_", None)
    if support is not None and len(support) == n:
        index = np.asarray(support)[index]
    if f.coef.ndim == 1:
        index, values, shares, total, base = (
            A[..., 0] for A in (index, values, shares, total, base)
        )
    return Representers(index, values, shares, total, base)
