"""Quantile regression: the conditional quantiles of several levels, from one Gram matrix."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from mercer import checks, state
from mercer.checks import Clock, as_number
from mercer.domains import to_host
from mercer.errors import InvalidInput, speaks, who
from mercer.estimator import Sample, Together, given_targets, is_stream, judged_blocks, r_squared
from mercer.losses import Huber, Loss, Pinball
from mercer.models.margin import plan_machine
from mercer.models.risk.base import Risk
from mercer.models.risk.fit import ERMFit, stacked
from mercer.models.risk.kinked import fit_dual, warm_start
from mercer.models.risk.kinked_features import dual_rows

# ---- Kernel regression with Huber's loss: squares near, absolute errors far, so outliers pull
# less.


class KernelHuberRegressor(RegressorMixin, Risk):
    r"""Kernel regression that outliers do not pull away.

    Minimises Σᵢ wᵢ ℓ(yᵢ − f(xᵢ) − b) + (α/2)‖f‖² over functions f in the RKHS of the kernel and
    offsets b, with Huber's loss

        ℓ(e) = ½e² for \|e\| ≤ δ,   δ(\|e\| − δ/2) beyond.

    Errors beyond δ count in proportion, not squared: no row pulls with more than δ. As δ → ∞ it is
    `KernelRidge`.

    Cost n³/3 flops a Newton step over the rows with \|e\| ≤ δ, usually a few steps; n² memory. With
    D finite features, D < n, nD² flops.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel; "rbf" takes its length scale from the data.
    alpha : float, default=1.0
        The penalty α > 0.
    delta : float, default=1.35
        Where squares end, δ > 0, in the units of y. 1.35 standard deviations of the noise lose
        about 5 % of the precision of least squares where the noise is normal.
    fit_intercept : bool, default=True
        Whether there is an offset b; it is not penalised.
    tol : float, default=1e-6
        Largest duality gap, relative to the objective.
    max_iter : int, optional
        Limit on Newton steps, 200 by default.
    max_time : float, optional
        Limit in seconds.

    Attributes
    ----------
    dual_coef_ : array of shape (n,)
        The coefficients a, \|α aᵢ\| ≤ δ wᵢ; equality for outliers.
    outliers_ : array of shape (n,)
        Which rows of positive weight have an error beyond δ.
    intercept_ : float
        The offset, 0 without `fit_intercept`.
    coef_ : array of shape (D,) or None
        Weights of the kernel's explicit features, where these are finite.
    X_fit_ : collection
        The training points.
    kernel_ : Kernel
        The kernel with words resolved.
    n_iter_ : int
        Newton steps.
    solution_ : Solution
        Certificate: primal and dual value, their gap, and the residual of α a = −w ℓ'.
    function_ : Function
        The fitted function.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, KernelHuberRegressor
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> y[[10, 30]] = 50.0
    >>> model = KernelHuberRegressor(RBF(1.0), alpha=0.01, delta=0.1).fit(X, y)
    >>> np.flatnonzero(model.outliers_)
    array([10, 30])
    """

    _parameters = {"delta": checks.POSITIVE}
    _state = Risk._state | state.others("outliers_", needed=True)

    outliers_: np.ndarray

    score = r_squared

    def __init__(
        self,
        kernel: Any = "rbf",
        alpha: float = 1.0,
        delta: float = 1.35,
        fit_intercept: bool = True,
        *,
        tol: float = 1e-6,
        max_iter: int | None = None,
        max_time: float | None = None,
    ):
        self.kernel = kernel
        self.alpha = alpha
        self.delta = delta
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time

    def _risk(self) -> Loss:
        return Huber(self.delta)

    def _store(self, data: Any, points: Any, loss: Any, alpha: float, fit: Any, plan: Any) -> None:
        errors = np.abs(data.y - fit.product - fit.intercept)
        self.outliers_ = np.zeros(data.n, dtype=bool)
        self.outliers_[slice(None) if data.kept is None else data.kept] = errors > loss.delta
        super()._store(data, points, loss, alpha, fit, plan)

    def predict(self, X: Any) -> np.ndarray:
        """Return f(x) + b for each row of X, in tiles.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return self._values(X)


# ---- quantile ----


def _levels(quantile: Any) -> Any:
    """Return a level as a float, or several as an array."""
    cure = "give a number between 0 and 1, both excluded, or a list of such numbers"
    if isinstance(quantile, str | bytes) or quantile is None:
        raise InvalidInput(f"{who()}: quantile={quantile!r}; {cure}.")
    one = not isinstance(quantile, list | tuple) and np.ndim(quantile) == 0
    number = quantile[()] if isinstance(quantile, np.ndarray) else quantile
    values = [number] if one else list(quantile)
    if not values:
        raise InvalidInput(f"{who()}: quantile={quantile!r} names no level; {cure}.")
    levels = np.array([as_number(value) for value in values])
    legal = (levels > 0) & (levels < 1)
    if not legal.all():
        bad = values[int(np.argmin(legal))]
        where = "" if one else f" holds {bad!r}"
        raise InvalidInput(f"{who()}: quantile={quantile!r}{where}; {cure}.")
    if len(np.unique(levels)) < len(levels):
        raise InvalidInput(f"{who()}: quantile={quantile!r} names a level twice; {cure}.")
    return float(levels[0]) if one else levels


def _has_levels(model: Any) -> bool:
    return np.shape(model.quantile_) == np.shape(model.intercept_)


class KernelQuantileRegressor(RegressorMixin, Risk):
    r"""Quantile regression: below f(x) lies a share τ of the targets.

    Minimises

        Σᵢ wᵢ max(τ(yᵢ − f(xᵢ) − b), (τ − 1)(yᵢ − f(xᵢ) − b)) + (α/2)‖f‖²

    over functions f in the RKHS of the kernel and offsets b. f = Σ aᵢ k(xᵢ, ·) with
    (τ − 1)wᵢ ≤ α aᵢ ≤ τ wᵢ: at a bound for targets above or below f(xᵢ) + b, between them for
    those met exactly. With an offset at most a share τ of the training targets (by weight) lies
    below the fit, and at most a share 1 − τ above.

    For several levels the fits share one Gram matrix, and each starts from the one before. Fits of
    different levels may cross, which quantiles cannot; so at every x the values are sorted and
    dealt out in the order of the levels (monotone rearrangement; Chernozhukov, Fernández-Val and
    Galichon 2010). That holds everywhere, not only at the training points, and the sorted curves
    are never farther from the true ones than the unsorted, which `function_` keeps.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel; "rbf" takes its length scale from the data.
    quantile : float or sequence of float, default=0.5
        The level τ, 0 < τ < 1, or several of them, no two the same.
    alpha : float, default=1.0
        The penalty α > 0.
    fit_intercept : bool, default=True
        Whether there is an offset b; it is not penalised.
    tol : float, default=1e-6
        Largest duality gap relative to the objective, with what rounding may hide of it.
    max_iter : int, optional
        Limit on the solver's steps for each level; None leaves it to the solver.
    max_time : float, optional
        Limit in seconds for all levels together.

    Attributes
    ----------
    quantile_ : float or array of shape (q,)
        The levels, as given.
    dual_coef_ : array of shape (n,) or (n, q)
        The coefficients a.
    coef_ : array of shape (D,) or (q, D), or None
        Weights of the kernel's explicit features, where it has finitely many.
    intercept_ : float or array of shape (q,)
        The offset, 0 without `fit_intercept`.
    X_fit_ : collection
        The training points.
    kernel_ : Kernel
        The kernel with words resolved.
    function_ : Function
        The fitted functions, not rearranged; by ``coef_`` where ``dual_coef_``, which have the
        dual value, are too large for their values (a tiny penalty).
    n_iter_ : int
        Steps of the solver, of all levels.
    solution_ : Solution
        Certificate: primal and dual value and their gap, summed over the levels, and the largest
        violation of the optimality conditions relative to the largest distance of a target from
        their median (from 0 without an offset).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, KernelQuantileRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, size=(200, 1))
    >>> y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(200)
    >>> model = KernelQuantileRegressor(RBF(1.0), quantile=[0.1, 0.5, 0.9], alpha=0.1).fit(X, y)
    >>> bands = model.predict(X)
    >>> bands.shape
    (200, 3)
    >>> bool(0.07 < (y < bands[:, 0] - 1e-6).mean() <= 0.1)
    True
    """

    _parameters = {"quantile": checks.Read(_levels)}
    _state = {name: part for name, part in Risk._state.items() if name != "classes_"}
    _state |= state.others("quantile_", needed=True)
    _rules = (*Risk._rules, ("the levels of a {} are not those of its fit", _has_levels))

    quantile_: Any
    _plan = plan_machine

    def __init__(
        self,
        kernel: Any = "rbf",
        quantile: Any = 0.5,
        alpha: float = 1.0,
        fit_intercept: bool = True,
        *,
        tol: float = 1e-6,
        max_iter: int | None = None,
        max_time: float | None = None,
    ):
        self.kernel = kernel
        self.quantile = quantile
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time

    @speaks
    def _risk(self) -> Pinball:
        return Pinball(float(np.atleast_1d(_levels(self.quantile))[0]))

    def _solved(
        self,
        data: Sample,
        loss: Loss,
        alpha: float,
        limits: dict,
        near: Any = None,
        rows: Any = None,
    ) -> ERMFit:
        """Fit each level; they are fitted in rising order, each from the one before."""
        given = _levels(self.quantile)
        levels, offset = np.atleast_1d(given), bool(self.fit_intercept)
        rows = dual_rows(data.kernel, data.X, often=len(levels) > 1)
        clock = Clock(limits["max_time"])
        fits: dict[int, ERMFit] = {}
        start = None
        for j in np.argsort(levels):
            limits = {**limits, "max_time": clock.rest()}
            loss = Pinball(levels[j])
            if near is not None:
                a = near.dual_coef_.reshape(data.n, -1)[:, j]
                a = a if data.kept is None else a[data.kept]
                start = warm_start(loss, data.y, data.weights, a, near.alpha_, alpha)
            problem = (data.kernel, data.X, data.y, loss, alpha, data.weights, offset)
            fits[j] = fit_dual(*problem, rows=rows, start=start, **limits)
            start = fits[j].dual_coef
        if np.ndim(given) == 0:
            return fits[0]
        fit = stacked([fits[j] for j in range(len(levels))])
        remark = next((m for m in (f.solution.message for f in fits.values()) if m), "")
        message = fit.solution.message or remark
        return replace(fit, solution=replace(fit.solution, message=message))

    @speaks
    def _store(self, data: Any, points: Any, loss: Any, alpha: float, fit: Any, plan: Any) -> None:
        self.quantile_ = _levels(self.quantile)
        super()._store(data, points, loss, alpha, fit, plan)

    def _losses(self) -> list[Loss]:
        return [Pinball(level) for level in np.atleast_1d(self.quantile_)]

    # -- answers ------------------------------------------------------------------------------
    def predict(self, X: Any) -> np.ndarray:
        """Return the quantiles at each row of X, in tiles.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.

        Returns
        -------
        array of shape (n,), or (n, q)
            A column for each level where several were given, in their order; no two cross.
        """
        return self._rearranged(self._values(X))

    def _rearranged(self, values: np.ndarray) -> np.ndarray:
        """Return the values of each row sorted and dealt out in the order of the levels."""
        if np.ndim(self.quantile_) == 0:
            return values
        ranks = np.argsort(np.argsort(self.quantile_))
        return np.sort(values, axis=1)[:, ranks]

    @speaks
    def loo(self, X: Any = None) -> np.ndarray:
        """Return approximate leave-one-out predictions at the training points.

        By the span rule: exact where taking a point away lets no other target, so far above, below
        or on the fit, change its place. Rows that the rule moves by more than half
        the mean error (of more than 200 rows: the mean error), or that others cannot make up for
        within their bounds, are fitted again without: all of up to 200 rows, of more at most 50,
        and then a warning says how many values are unreliable. Rows of weight 0 were left out
        anyway: exact.

        Parameters
        ----------
        X : array of shape (n, n), optional
            The training Gram matrix, needed again only when the kernel is precomputed.

        Returns
        -------
        array of shape (n,), or (n, q)
            As `predict` returns them.
        """
        return self._rearranged(super().loo(X))

    @speaks("KernelQuantileRegressor.score")
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return D², the share of the pinball loss of a constant that the model saves.

        1 − Σ wᵢ ℓ(yᵢ, f(xᵢ)) / Σ wᵢ ℓ(yᵢ, q) with q the quantile of y itself: 1 at best, 0 for the
        constant; the mean over the levels. (R² judges means: a perfect 0.9-quantile has a bad one.)

        Parameters
        ----------
        X : collection of points, RowBlocks, or dask array or frame
            Points.
        y : array of shape (n,), optional
            Their targets; of `RowBlocks` those that the blocks carry. Targets and predictions of
            all blocks are kept at once.
        sample_weight : array of shape (n,), optional
            Weights.
        """
        if is_stream(X):
            judge = Together("KernelQuantileRegressor.score", self._saved)
            return judged_blocks(self, X, y, sample_weight, judge)
        y = given_targets(y, self)
        return self._saved(y, self.predict(X), to_host(sample_weight, "sample_weight"))

    def _saved(self, y: Any, values: np.ndarray, sample_weight: Any) -> float:
        """Return D² of values at the targets y."""
        from sklearn.metrics import d2_pinball_score

        values = values.reshape(len(values), -1)
        scores = [
            d2_pinball_score(y, values[:, j], sample_weight=sample_weight, alpha=float(level))
            for j, level in enumerate(np.atleast_1d(self.quantile_))
        ]
        return float(np.mean(scores))

    # -- files --------------------------------------------------------------------------------
