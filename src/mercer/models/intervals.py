"""Prediction intervals by jackknife+: all leave-one-out fits at a new point, from one of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.engines.tiles import row_blocks
from mercer.errors import InvalidInput
from mercer.models.least_squares import LeastSquares
from mercer.models.left_out import as_groups, group_residuals, smoothers
from mercer.settings import get_config

__all__ = ["IntervalMixin", "order_statistic"]

CACHED = 0.25  # of the memory budget, up to which a factorisation is kept for the next call
ROUNDING = 1e-9  # of n + 1: 0.9 · 10 is nine, whatever the last digit says


class IntervalMixin:
    """Adds `predict_interval` to a ridge regression."""

    alpha_: Any
    y_fit_: np.ndarray
    sample_weight_: np.ndarray | None
    dual_coef_: np.ndarray
    _smoother_cache: Any = None

    def predict_interval(
        self, X: Any, coverage: float = 0.9, *, groups: Any = None, gram: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        r"""Return intervals that hold a new target with the given probability, by jackknife+.

        With f₋ᵢ the fit without row i and Rᵢ = \|yᵢ − f₋ᵢ(xᵢ)\| the interval at x reaches from the
        ⌊(1 − c)(n + 1)⌋-th smallest of f₋ᵢ(x) − Rᵢ to the ⌈c(n + 1)⌉-th smallest of f₋ᵢ(x) + Rᵢ
        (Barber, Candès, Ramdas and Tibshirani 2021). All f₋ᵢ come from one factorisation.

        If the rows and the new point are exchangeable, and kernel and penalty were not chosen with
        the same targets, the probability is at least 1 − 2(1 − c) for any kernel, penalty and
        distribution; in practice it is about c. With n + 1 < 1/(1 − c) rows no finite interval has
        that probability, and the ends are −∞ and ∞.

        Cost: one fit and leave-one-out; then about two fits for every n new points, in tiles.

        Parameters
        ----------
        X : collection of m points
            New points; when precomputed, their kernel values with the training points.
        coverage : float, default=0.9
            The probability c, 0 < c < 1.
        groups : sequence of n labels, optional
            The group of each training row: rows are left out with their groups (as in CV+), as
            rows of one group would be too well predicted by each other.
        gram : array of shape (n, n), optional
            The training Gram matrix, needed again only when the kernel is precomputed.

        Returns
        -------
        lower, upper : arrays of shape (m,) or (m, n_outputs)
            The ends; each output by itself.

        Notes
        -----
        For c < ½ the ends may cross: then the interval is empty.

        A sample weight of w counts as w rows that are left out together; scale weights that are no
        counts to a mean of 1. A row of weight 0 is no row.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import RBF, KernelRidge
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(0, 6, (100, 1))
        >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(100)
        >>> model = KernelRidge(RBF(1.0), alpha=0.1).fit(X, y)
        >>> lower, upper = model.predict_interval([[2.0], [3.0]], coverage=0.8)
        >>> (upper - lower).round(1)
        array([0.3, 0.3])
        """
        owner = f"{type(self).__name__}.predict_interval"
        c = _check_coverage(coverage, owner)
        points, f = self._check_new(X), self.predict(X)  # type: ignore[attr-defined]
        p = self._problem(gram, "predict_interval", "predict_interval(X, gram=K)")  # type: ignore[attr-defined]
        p._check_loo()
        codes = None
        if groups is not None:
            codes = as_groups(groups, p.n, self.sample_weight_, owner)
            codes = codes if p.active is None else codes[p.active]
        f = f.reshape(len(f), -1)
        lower, upper = np.empty(f.shape), np.empty(f.shape)
        weights = None if p.equal else p.w
        for one in self._smoothers(p):
            r = one.each_left_out() if codes is None else group_residuals(one, codes)
            r = p.unit * r
            for rows in row_blocks(len(f), 64 * len(p.T)):
                L = one.weights(p.kernel.domain.take(points, rows), p.all_X)
                for k, j in enumerate(one.outputs):
                    without = f[rows, j][:, None] - _shares(L, r[:, k], codes)
                    R = np.abs(r[:, k])
                    upper[rows, j] = order_statistic(without + R, c, weights)
                    lower[rows, j] = -order_statistic(R - without, c, weights)
        if self.dual_coef_.ndim == 1:
            return lower[:, 0], upper[:, 0]
        return lower, upper

    def _smoothers(self, p: LeastSquares) -> Any:
        """Return the smoothers; one that is small is kept until the next fit, but not in files."""
        if self._smoother_cache is not None:
            return [self._smoother_cache]
        if np.ndim(self.alpha_):
            return smoothers(p, self.alpha_)
        one = next(smoothers(p, self.alpha_))
        if one.nbytes <= CACHED * get_config().memory:
            self._smoother_cache = one
        return [one]


def order_statistic(
    values: np.ndarray, coverage: float, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return the ⌈c(n + 1)⌉-th smallest value of each row, ∞ where that is more than n.

    Parameters
    ----------
    values : ndarray of shape (m, n)
        The values.
    coverage : float
        The share c.
    weights : ndarray of shape (n,), optional
        How often each value counts: the smallest v such that values ≤ v weigh c(Σw + 1).
    """
    m, n = values.shape
    if weights is None:
        k = max(1, int(np.ceil((coverage - ROUNDING) * (n + 1))))
        return np.partition(values, k - 1, axis=1)[:, k - 1] if k <= n else np.full(m, np.inf)
    target = (coverage - ROUNDING) * (float(weights.sum()) + 1)
    order = np.argsort(values, axis=1)
    reached = np.cumsum(weights[order], axis=1) >= target
    first = np.argmax(reached, axis=1)
    found = np.take_along_axis(values, np.take_along_axis(order, first[:, None], 1), 1)[:, 0]
    return np.where(reached.any(axis=1), found, np.inf)


def _shares(L: np.ndarray, r: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Return what leaving out each row, or its whole group S, takes off: Σ_{i∈S} lᵢ(x) rᵢ."""
    if groups is None:
        return L * r
    labels, codes = np.unique(groups, return_inverse=True)
    by_group = np.zeros((len(r), len(labels)))
    by_group[np.arange(len(r)), codes] = r
    return (L @ by_group)[:, codes]


def _check_coverage(coverage: Any, owner: str) -> float:
    number = isinstance(coverage, int | float | np.number) and not isinstance(coverage, bool)
    if not number or not 0 < float(coverage) < 1:
        raise InvalidInput(f"{owner}: coverage={coverage!r}; give a number between 0 and 1.")
    return float(coverage)
