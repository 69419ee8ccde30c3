"""Slopes of the posterior: gradients in x of the mean and of the variance of the function.

With s = C⁻¹k and b = (HᵀC⁻¹H)⁻¹(h − HᵀC⁻¹k), the variance k(x, x) − kᵀC⁻¹k + bᵀ(HᵀC⁻¹H)b has the
gradient ∇k(x, x) − 2 Σⱼ (s + C⁻¹Hb)ⱼ ∇k(x, xⱼ) + 2(∇h)b. Of a symmetric differentiable kernel
∇k(x, x) is twice the gradient of k(x, y) in its first point at y = x.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.engines import pick
from mercer.engines.tiles import pull_points, row_blocks
from mercer.models.gp.fitting import RegressorFit
from mercer.models.gp.posterior import Posterior

__all__ = ["SlopeMixin", "variance_slopes"]

ROWS = 128  # new points at a time: ∇k(x, x) is taken from the diagonal of square tiles of them


class SlopeMixin(RegressorFit):
    """The verbs `mean_gradient` and `variance_gradient` of a regressor."""

    def mean_gradient(self, X: Any) -> np.ndarray:
        """Return the gradient in x of the posterior mean, at each row of X.

        Kernels with a kink where both points meet, as Matérn of ν = ½, have none at training rows;
        there the part of that row is left out.

        Parameters
        ----------
        X : collection of m points
            Rows of numbers.

        Returns
        -------
        array of shape (m, d) or (m, d, n_outputs)
            In the units of y over those of x.
        """
        self._require_fit()
        kernel = self.kernel_
        X = self._check_X(X, kernel, reset=False)
        coef = self.dual_coef_.reshape(len(self.dual_coef_), -1)
        parts = [kernel.gradient(X, self.X_fit_, column) for column in coef.T]
        out = np.stack(parts, axis=2).astype(float, copy=False)
        if self.mean_coef_ is not None:
            out += self.mean_coef_.reshape(out.shape[1], -1)
        return self._finite(out) if self.dual_coef_.ndim == 2 else self._finite(out[:, :, 0])

    def variance_gradient(self, X: Any) -> np.ndarray:
        """Return the gradient in x of the variance of the function, at each row of X.

        That of an observation has the same gradient, since the noise does not depend on x. Divide
        by twice the standard deviation for the gradient of the latter.

        Parameters
        ----------
        X : collection of m points
            Rows of numbers.

        Returns
        -------
        array of shape (m, d) or (m, d, n_outputs)
            In the units of y² over those of x.
        """
        self._require_fit()
        kernel = self.kernel_
        X = self._check_X(X, kernel, reset=False)
        fit, owner = self._fit_state(), type(self).__name__
        out = variance_slopes(Posterior(kernel, self.X_fit_, fit, self._basis(), owner), X)
        out = self._finite(out)[:, :, None] * self.y_scale_**2
        return out if self.dual_coef_.ndim == 2 else out[:, :, 0]


def variance_slopes(posterior: Posterior, X: Any) -> np.ndarray:
    """Return ∇ of the variance of f at m new points, canonical and matched; shape (m, d).

    Parameters
    ----------
    posterior : Posterior
        Of f, in units of the targets z.
    X : canonical collection of m points
        Where.
    """
    kernel, fit, basis = posterior.kernel, posterior.fit, posterior.basis
    m = kernel.domain.size(X)
    step = min(ROWS, row_blocks(m, 32 * fit.factor.n)[0].stop)
    parts = []
    for start in range(0, max(m, 1), max(step, 1)):
        rows = kernel.domain.take(X, slice(start, min(start + step, m)))
        size = kernel.domain.size(rows)
        cross = np.asarray(kernel(rows, posterior.points), dtype=float)
        S = fit.factor.solve(cross.T)
        slopes = None
        if basis is not None:
            R = basis.columns(rows, size) - cross @ fit.basis_solve
            b = fit.basis_factor.solve(R.T)
            S = S + fit.basis_solve @ b
            slopes = basis.in_columns_of_x(b)[1]
        out = -2 * kernel.gradient(rows, posterior.points, S.T)
        engine = pick(rows)
        square = kernel._bind(engine.asarray(rows))
        own = pull_points(square, square.asarray(np.eye(size)), out.shape[1])
        out += 2 * engine.to_numpy(own)
        if slopes is not None:
            out += 2 * slopes.T
        parts.append(out)
    return np.concatenate(parts)
