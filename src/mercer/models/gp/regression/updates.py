"""Rows added to a Gaussian process regression and taken out of it, without fitting it again.

C gains or loses rows and columns; its Cholesky factor is changed to match at n² flops a row
(`mercer.solvers.linear.cholesky`), and everything behind the factor costs n² anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.domains import GramRows, concatenate
from mercer.errors import InvalidInput, NotPositiveDefinite
from mercer.estimator import check_targets, check_weights
from mercer.models.gp.regression.data import check_noise
from mercer.models.gp.regression.evidence import GaussianFit, explain
from mercer.solvers import CholeskyFactor
from mercer.solvers.linear import append_rows, delete_rows, drift, factor_again

if TYPE_CHECKING:
    from mercer.models.gp.regression.problem import Problem


DRIFT = 1e-12  # of a factor, relative: beyond it C is factorised anew
RESIDUAL = 1e-10  # of the linear system, the same

#: Points, targets, weights, noise and the factor of C of rows that were changed.
Rows = tuple[Any, np.ndarray, Any, Any, CholeskyFactor]


def appended(model: Any, X: Any, y: Any, sample_weight: Any, noise: Any) -> Rows | None:
    """Return the rows of a fitted model and new ones; None where the new ones weigh nothing."""
    owner = f"{type(model).__name__}.add"
    kernel = model.kernel_
    if isinstance(kernel.domain, GramRows):
        raise InvalidInput(
            f"{owner}: a precomputed Gram matrix cannot be continued, as the model does not "
            "keep points; fit the larger matrix, or use the kernel itself."
        )
    X = model._check_X(X, kernel, reset=False)
    m, t = kernel.domain.size(X), len(model.y_mean_)
    Y = check_targets(y, m, owner).reshape(m, -1)
    if Y.shape[1] != t:
        raise InvalidInput(f"{owner}: y has {Y.shape[1]} outputs, the model was fitted to {t}.")
    nothing = sample_weight is not None and not np.any(np.asarray(sample_weight))
    weights = check_weights(None if nothing else sample_weight, m, owner)
    scaled = _more_noise(model, noise, m, owner)
    if nothing:
        return None
    if weights is not None and not (weights > 0).all():
        rows = np.flatnonzero(weights)
        X, Y, weights = kernel.domain.take(X, rows), Y[rows], weights[rows]
        scaled = scaled[rows] if np.ndim(scaled) else scaled
    n, m = len(model.y_fit_), len(Y)
    factor = model._fit_state().factor.on_host()
    corner = np.array(kernel(X), dtype=float)
    np.einsum("ii->i", corner)[...] += scaled if weights is None else scaled / weights
    cross = np.asarray(kernel(model.X_fit_, X), dtype=float)
    points = concatenate(kernel.domain, model.X_fit_, kernel.domain.keep(X))
    if weights is not None or model.sample_weight_ is not None:
        old, new = (
            np.ones(size) if w is None else w
            for w, size in ((model.sample_weight_, n), (weights, m))
        )
        weights = np.concatenate([old, new])
    if np.ndim(scaled):
        scaled = np.concatenate([model.scaled_noise_, scaled])
    try:
        changed = append_rows(factor, cross, corner, repr(kernel), "noise")
    except NotPositiveDefinite as error:
        trace, unit = factor.trace() + float(np.trace(corner)), float(np.mean(model.y_scale_**2))
        raise explain(error, repr(kernel), trace, n + m, unit) from error
    return points, np.vstack([model._targets(), Y]), weights, scaled, changed


def reduced(model: Any, index: Any) -> Rows | None:
    """Return the rows of a fitted model without some; None where these are none."""
    owner = f"{type(model).__name__}.remove"
    n = len(model.y_fit_)
    index = _positions(index, n, owner)
    if len(index) == n:
        raise InvalidInput(
            f"{owner}: these are all {n} rows, which would leave none to learn from; keep at "
            "least one, or fit anew."
        )
    keep = np.delete(np.arange(n), index)
    if len(keep) == n:
        return None
    changed = delete_rows(model._fit_state().factor.on_host(), index, repr(model.kernel_), "noise")
    points = model.kernel_.domain.take(model.X_fit_, keep)
    weights, scaled = model.sample_weight_, model.scaled_noise_
    weights = None if weights is None else weights[keep]
    scaled = scaled[keep] if np.ndim(scaled) else scaled
    return points, model._targets()[keep], weights, scaled, changed


def solved_again(problem: Problem, scaled: Any, factor: CholeskyFactor) -> GaussianFit:
    """Return the fit with a changed factor, or with a fresh one where that has drifted."""
    kernel = problem.kernel
    fresh = drift(factor) > DRIFT
    if fresh:
        factor = factor_again(factor, repr(kernel), "noise")
    evidence = problem.evidence()
    fit = evidence.posterior(kernel, scaled, factor)
    if not fresh and not (fit.residual or 0.0) <= RESIDUAL:
        fit = evidence.posterior(kernel, scaled, factor_again(factor, repr(kernel), "noise"))
    return fit


def _more_noise(model: Any, noise: Any, m: int, owner: str) -> Any:
    """Return the noise of m new rows in units of z², a number where all rows share one."""
    if np.ndim(model.scaled_noise_) == 0:
        if noise is not None:
            raise InvalidInput(
                f"{owner}: noise is given, but the rows of this model share one variance; "
                "leave it out, give sample_weight instead, or fit with a variance a row."
            )
        return model.scaled_noise_
    if noise is None:
        raise InvalidInput(
            f"{owner}: the model was fitted with a variance of the noise for each row; give "
            f"those of the {m} new rows, noise=…"
        )
    given = check_noise(noise, m, False, owner, word=None)
    return np.broadcast_to(np.asarray(given, dtype=float), (m,)) / model.y_scale_[0] ** 2


def _positions(index: Any, n: int, owner: str) -> np.ndarray:
    """Return distinct positions from 0 to n − 1."""
    legal = f"give positions from 0 to {n - 1}, a slice, or a mask of {n} truth values"
    if isinstance(index, slice):
        return np.arange(n)[index]
    chosen = np.asarray(index)
    if chosen.size == 0:
        return np.zeros(0, dtype=int)
    chosen = np.atleast_1d(chosen)
    if chosen.dtype == bool and chosen.shape == (n,) and np.ndim(index):
        return np.flatnonzero(chosen)
    if chosen.dtype.kind not in "iu" or chosen.ndim != 1:
        raise InvalidInput(f"{owner}: index={index!r}; {legal}.")
    outside = (chosen < -n) | (chosen >= n)
    if outside.any():
        raise InvalidInput(f"{owner}: there is no row {chosen[outside][0]}; {legal}.")
    return np.unique(np.where(chosen < 0, chosen + n, chosen))
