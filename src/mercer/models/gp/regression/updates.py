"""Rows added to a Gaussian process regression and taken out of it, without fitting it again.

C gains or loses rows and columns; its Cholesky factor is changed to match at n² flops a row
(`mercer.solvers.linear.cholesky`), and everything behind the factor costs n² anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mercer.domains import GramRows, concatenate
from mercer.errors import InvalidInput, NotPositiveDefinite
from mercer.estimator import check_targets, check_weights
from mercer.models.gp.regression.data import Targets, check_noise
from mercer.models.gp.regression.evidence import explain
from mercer.models.gp.regression.fit import Problem, RegressorFit
from mercer.solvers.linear import append_rows, delete_rows, drift, factor_again

if TYPE_CHECKING:
    from mercer.solvers import CholeskyFactor

DRIFT = 1e-12  # of a factor, relative: beyond it C is factorised anew
RESIDUAL = 1e-10  # of the linear system, the same


class UpdateMixin(RegressorFit):
    """The verbs `add` and `remove` of a regressor."""

    def add(self, X: Any, y: Any, sample_weight: Any = None, noise: Any = None) -> Self:
        """Add rows to the training data; all parameters stay as they are.

        The model becomes what a fit to all rows with these parameters would be, in n² flops a row
        instead of n³/3. The search for parameters is not repeated: fit again when many rows came.
        Kernel, noise, normalisation of y and the basis of the mean stay: a column that was constant
        keeps the slope 0.

        Parameters
        ----------
        X : collection of points
            The new points.
        y : array of shape (m,) or (m, n_outputs)
            Their targets.
        sample_weight : float or array of shape (m,), optional
            Their weights; rows of weight 0 are not added.
        noise : float or array of shape (m,), optional
            Variances of their noise in the units of y²; needed where the model was fitted with a
            variance for each row, and only there.

        Returns
        -------
        GaussianProcessRegressor
            The model itself. When anything is refused it stays as it was.
        """
        owner = f"{type(self).__name__}.add"
        self._require_fit()
        kernel = self.kernel_
        if isinstance(kernel.domain, GramRows):
            raise InvalidInput(
                f"{owner}: a precomputed Gram matrix cannot be continued, as the model does not "
                "keep points; fit the larger matrix, or use the kernel itself."
            )
        X = self._check_X(X, kernel, reset=False)
        m, t = kernel.domain.size(X), len(self.y_mean_)
        Y = check_targets(y, m, owner).reshape(m, -1)
        if Y.shape[1] != t:
            raise InvalidInput(f"{owner}: y has {Y.shape[1]} outputs, the model was fitted to {t}.")
        nothing = sample_weight is not None and not np.any(np.asarray(sample_weight))
        weights = check_weights(None if nothing else sample_weight, m, owner)
        scaled = self._more_noise(noise, m, owner)
        if nothing:
            return self
        if weights is not None and not (weights > 0).all():
            rows = np.flatnonzero(weights)
            X, Y, weights = kernel.domain.take(X, rows), Y[rows], weights[rows]
            scaled = scaled[rows] if np.ndim(scaled) else scaled
        n, m = len(self.y_fit_), len(Y)
        factor = self._fit_state().factor.on_host()
        corner = np.array(kernel(X), dtype=float)
        np.einsum("ii->i", corner)[...] += scaled if weights is None else scaled / weights
        cross = np.asarray(kernel(self.X_fit_, X), dtype=float)
        points = concatenate(kernel.domain, self.X_fit_, kernel.domain.keep(X))
        if weights is not None or self.sample_weight_ is not None:
            old, new = (
                np.ones(size) if w is None else w
                for w, size in ((self.sample_weight_, n), (weights, m))
            )
            weights = np.concatenate([old, new])
        if np.ndim(scaled):
            scaled = np.concatenate([self.scaled_noise_, scaled])
        try:
            changed = append_rows(factor, cross, corner, repr(kernel), "noise")
        except NotPositiveDefinite as error:
            trace, unit = factor.trace() + float(np.trace(corner)), float(np.mean(self.y_scale_**2))
            raise explain(error, repr(kernel), trace, n + m, unit) from error
        self._take_over(points, np.vstack([self._targets(), Y]), weights, scaled, changed)
        return self

    def remove(self, index: Any) -> Self:
        """Take rows out of the training data; kernel, noise and normalisation stay as they are.

        The model becomes what a fit to the other rows with these parameters would be, in n² flops
        a row; many rows at once are left out by a new factorisation.

        Parameters
        ----------
        index : int, slice, array of ints or mask of n truth values
            Which rows of ``X_fit_``, those of positive weight; negative numbers count from the
            end.

        Returns
        -------
        GaussianProcessRegressor
            The model itself. When anything is refused it stays as it was.
        """
        owner = f"{type(self).__name__}.remove"
        self._require_fit()
        n = len(self.y_fit_)
        index = _positions(index, n, owner)
        if len(index) == n:
            raise InvalidInput(
                f"{owner}: these are all {n} rows, which would leave none to learn from; keep at "
                "least one, or fit anew."
            )
        keep = np.delete(np.arange(n), index)
        if len(keep) == n:
            return self
        changed = delete_rows(
            self._fit_state().factor.on_host(), index, repr(self.kernel_), "noise"
        )
        points = self.kernel_.domain.take(self.X_fit_, keep)
        weights, scaled = self.sample_weight_, self.scaled_noise_
        weights = None if weights is None else weights[keep]
        scaled = scaled[keep] if np.ndim(scaled) else scaled
        self._take_over(points, self._targets()[keep], weights, scaled, changed)
        return self

    def _more_noise(self, noise: Any, m: int, owner: str) -> Any:
        """Return the noise of m new rows in units of z², a number where all rows share one."""
        if np.ndim(self.scaled_noise_) == 0:
            if noise is not None:
                raise InvalidInput(
                    f"{owner}: noise is given, but the rows of this model share one variance; "
                    "leave it out, give sample_weight instead, or fit with a variance a row."
                )
            return self.scaled_noise_
        if noise is None:
            raise InvalidInput(
                f"{owner}: the model was fitted with a variance of the noise for each row; give "
                f"those of the {m} new rows, noise=…"
            )
        given = check_noise(noise, m, False, owner, word=None)
        return np.broadcast_to(np.asarray(given, dtype=float), (m,)) / self.y_scale_[0] ** 2

    def _take_over(
        self, points: Any, Y: np.ndarray, weights: Any, scaled: Any, factor: CholeskyFactor
    ) -> None:
        """Solve with a changed factor, if need be a fresh one, and store all of it or nothing."""
        before, kernel = dict(vars(self)), self.kernel_
        owner = repr(kernel)
        fresh = drift(factor) > DRIFT
        if fresh:
            factor = factor_again(factor, owner, "noise")
        targets = Targets(self.y_mean_, self.y_scale_)
        problem = Problem(kernel, points, Y, weights, targets, self._basis(), type(self).__name__)
        evidence = problem.evidence()
        fit = evidence.posterior(kernel, scaled, factor)
        if not fresh and not (fit.residual or 0.0) <= RESIDUAL:
            fit = evidence.posterior(kernel, scaled, factor_again(factor, owner, "noise"))
        try:
            self._store(
                problem, kernel, scaled, points, self.dual_coef_.ndim == 1, self.search_, fit
            )
        except BaseException:  # a warning that was made an error, or Ctrl-C
            self.__dict__.clear()
            self.__dict__.update(before)
            raise


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
