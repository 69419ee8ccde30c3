"""Leave-one-out of Gaussian process regression, exact and from one factorisation.

Rows S of targets z given all the others are normal with covariance (Q_SS)⁻¹ and mean
z_S − (Q_SS)⁻¹a_S, where a = Qz and Q = C⁻¹ − C⁻¹H(HᵀC⁻¹H)⁻¹HᵀC⁻¹ (Rasmussen & Williams, section
5.4.2; with a flat prior on the coefficients of H the same algebra, since log p(z) differs from
−½zᵀQz by a constant). With R = L⁻¹ and the projection P that takes RH away, Q = FᵀF for F = PR: no
difference of squares is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.linalg.lapack import dtrtri

from mercer.domains import GramRows
from mercer.engines import require_memory
from mercer.errors import InvalidInput
from mercer.estimator import check_same_points
from mercer.models.gp.regression.data import new_noise
from mercer.models.gp.regression.fit import RegressorFit
from mercer.models.ridge import as_groups
from mercer.solvers import CholeskyFactor

if TYPE_CHECKING:
    from mercer.models.gp.regression.evidence import GaussianFit

# Rows of which less than this is left beside the basis decide a coefficient of it alone.
ALONE = 1e-12


class LeftOutMixin(RegressorFit):
    """The verbs `loo` and `loo_log_predictive` of a regressor."""

    def loo(
        self,
        X: Any = None,
        *,
        groups: Any = None,
        return_std: bool = False,
        with_noise: Any = True,
    ) -> Any:
        """Return the exact leave-one-out predictions at the training rows.

        What `predict` would say of each row had the model been fitted to the others, with this
        kernel, noise and normalisation: μᵢ = yᵢ − aᵢ/Qᵢᵢ, of variance 1/Qᵢᵢ, from one
        factorisation instead of n fits. A row is left out with all its weight.

        Parameters
        ----------
        X : array of shape (n, n), or collection of n points, optional
            The training Gram matrix, needed again only of a precomputed kernel by a model from a
            file or a pickle; else the training points, if you like.
        groups : sequence of n labels, optional
            The group of each row of ``X_fit_``, such as the patient that it is from; a row is left
            out with all rows of its group.
        return_std : bool, default=False
            Whether to return the standard deviation too.
        with_noise : bool or array of shape (n,), default=True
            Whether it is that of an observation y or of the function; or the variances of the
            noise. True adds the variance that a row of weight 1 has there.

        Returns
        -------
        mean : array of shape (n,) or (n, n_outputs)
            Of the rows ``X_fit_``, those of positive weight.
        std : array of shape (n,) or (n, n_outputs)
            With `return_std`.
        """
        mean, variance, own = self._left_out(X, groups, "loo")
        asked = new_noise(with_noise, len(mean), f"{type(self).__name__}.loo")
        cut = 0 if self.dual_coef_.ndim == 1 else slice(None)
        if not return_std:
            return mean[:, cut]
        if isinstance(asked, np.ndarray):
            variance = variance + asked[:, None]
        elif asked:
            variance = variance + own
        return mean[:, cut], np.sqrt(variance)[:, cut]

    def loo_log_predictive(self, X: Any = None, *, groups: Any = None) -> np.ndarray:
        """Return log p(yᵢ | all other rows), the log density of each left-out observation.

        Their sum, times the sample weights if there are any, judges kernel and noise by
        prediction alone, where the evidence trusts the prior too (Rasmussen & Williams, eq. 5.11).

        Parameters
        ----------
        X, groups
            As for `loo`.

        Returns
        -------
        array of shape (n,)
            Summed over the outputs, in the units of y.
        """
        mean, variance, own = self._left_out(X, groups, "loo_log_predictive")
        variance = variance + own
        gap = (self._targets() - mean) ** 2
        return -0.5 * (np.log(2 * np.pi * variance) + gap / variance).sum(axis=1)

    def _left_out(self, X: Any, groups: Any, verb: str) -> tuple[Any, Any, Any]:
        """Return mean and variance of the function, and the variance of the noise, all (n, t)."""
        self._require_fit()
        owner, n = f"{type(self).__name__}.{verb}", len(self.y_fit_)
        fit = self._fit_again(X, verb)
        if groups is not None and np.ndim(groups) and len(groups) != n:
            raise InvalidInput(
                f"{owner}: {len(groups)} groups for {n} rows; give one label for each row of "
                "X_fit_, those of positive weight."
            )
        codes = None if groups is None else as_groups(groups, n, None, owner)
        basis = self._basis()
        H = np.zeros((n, 0)) if basis is None else basis.columns(self.X_fit_, n)
        Z = (self._targets() - self.y_mean_) / self.y_scale_
        mean, variance = leave_out(fit, Z, H, codes, owner)
        noise = np.broadcast_to(self.scaled_noise_, (n,))
        in_C = noise if self.sample_weight_ is None else noise / self.sample_weight_
        variance = np.maximum(variance - in_C - fit.jitter, 0.0)
        unit = self.y_scale_**2
        return self.y_mean_ + mean * self.y_scale_, variance[:, None] * unit, noise[:, None] * unit

    def _fit_again(self, X: Any, verb: str) -> GaussianFit:
        """Return the fit, given the training points or their Gram matrix again or not."""
        owner, kernel = type(self).__name__, self.kernel_
        if X is None:
            return self._fit_state()
        if not isinstance(kernel.domain, GramRows):
            again = self._check_X(X, kernel, reset=False)
            n, m = len(self.y_fit_), kernel.domain.size(again)
            if m != n:
                raise InvalidInput(
                    f"{owner}.{verb}: X has {m} rows, and the model was fitted to {n} of positive "
                    f"weight; pass those, or none: {verb}()."
                )
            check_same_points(kernel.domain, again, self.X_fit_, owner, verb)
            return self._fit_state()
        K, held = self._gram_again(X), self._gaussian_cache
        fit = self._fit_state(X)
        # Ca = z − Hβ ties the matrix to the coefficients of the fit, at the cost of one product.
        n, w = len(K), 1.0 if self.sample_weight_ is None else self.sample_weight_
        a = self.dual_coef_.reshape(n, -1)
        ridge = np.broadcast_to(self.scaled_noise_ / w + fit.jitter, (n,))
        target = self._targets() - self.intercept_
        if np.abs(K @ a + ridge[:, None] * a - target).max() > 1e-3 * np.abs(target).max():
            self._gaussian_cache = held
            raise InvalidInput(f"{owner}.{verb}: this is not the matrix the model was fitted on.")
        return fit


def leave_out(
    fit: GaussianFit, Z: np.ndarray, H: np.ndarray, groups: np.ndarray | None, owner: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean (n, t) and variance (n,) of each row of Z given the rows of other groups.

    The variance is that of z itself, the noise σ²/w of its row in C included.

    Parameters
    ----------
    fit : GaussianFit
        The fit to all rows.
    Z : array of shape (n, t)
        Its targets.
    H : array of shape (n, q)
        Its basis; q may be 0.
    groups : array of n ints, or None
        The group of each row; None leaves out each row alone.
    owner : str
        Who asks, for messages.
    """
    n = fit.factor.n
    require_memory(16 * n * n, f"{owner}: the inverse of the {n} × {n} factor", "Use fewer rows")
    if isinstance(fit.factor, CholeskyFactor):
        F = dtrtri(fit.factor.lower().T, lower=0, overwrite_c=1)[0].T  # (Lᵀ)⁻¹ is (L⁻¹)ᵀ, in place
    else:  # the n³ flops are the device's
        F = fit.factor.half_solve(np.eye(n))
    whole = np.einsum("ij,ij->j", F, F)  # (C⁻¹)ᵢᵢ
    if H.shape[1]:
        U = qr(F @ H, mode="economic", check_finite=False)[0]
        for _ in range(2):  # the second time takes away what rounding left
            F -= U @ (U.T @ F)
    if groups is None:
        free = np.einsum("ij,ij->j", F, F)
        _require_others(np.flatnonzero(free <= ALONE * whole), owner)
        return Z - fit.dual / free[:, None], 1.0 / free
    mean, variance = np.empty(Z.shape), np.empty(len(Z))
    order = np.argsort(groups, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        upper = qr(F[:, rows], mode="r", check_finite=False)[0][: len(rows)]  # Q_SS = upperᵀupper
        least = np.abs(np.diagonal(upper)) ** 2
        _require_others(rows[least <= ALONE * whole[rows]], owner)
        inner = solve_triangular(upper, fit.dual[rows], trans="T")
        mean[rows] = Z[rows] - solve_triangular(upper, inner)
        root = solve_triangular(upper, np.eye(len(rows)))
        variance[rows] = np.einsum("ij,ij->i", root, root)
    return mean, variance


def _require_others(rows: np.ndarray, owner: str) -> None:
    if len(rows):
        raise InvalidInput(
            f"{owner}: without row {int(rows[0])} the others do not determine the coefficients of "
            "the mean; use mean='zero', or fewer columns of X."
        )
