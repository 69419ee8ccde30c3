"""The fit of Gaussian process regression: from data to parameters, coefficients, certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.models.gp.regression.data import CONSTANT, Basis, Targets
from mercer.models.gp.regression.evidence import Evidence, GaussianFit
from mercer.solvers import Solution, column_norms

if TYPE_CHECKING:
    from mercer.kernels import Kernel

# ---- What a Gaussian process regression is fitted to, and the certificate of its solution ----


FEW = 300  # rows up to which evaluations cost nothing
RESIDUAL = 1e-6  # relative residual of a linear system that is solved


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows of positive weight, and targets in units of z: what an evidence is the evidence of."""

    kernel: Kernel
    X: Any
    Y: np.ndarray
    weights: np.ndarray | None
    targets: Targets
    basis: Basis | None
    owner: str

    def evidence(self, rows: np.ndarray | None = None) -> Evidence:
        """Return the evidence of all rows or some, in units of z."""
        X, Z, w = self.X, self.targets.forward(self.Y), self.weights
        H = None if self.basis is None else self.basis.columns(X, len(Z))
        if rows is not None:
            X, Z = self.kernel.domain.subset(X, rows), Z[rows]
            w, H = (None if w is None else w[rows]), (None if H is None else H[rows])
        return Evidence(X, Z, w, H, self.owner, self.targets.variance_unit())

    def key(self) -> np.ndarray:
        """Return numbers that tell rows apart, however they are ordered; x too where it has any."""
        numeric = isinstance(self.X, np.ndarray) and self.X.ndim == 2 and self.X.dtype.kind == "f"
        return np.hstack([self.Y, self.X]) if numeric and len(self.X) == len(self.Y) else self.Y

    def shift(self, noise: Any = 1.0) -> float:
        """Return the log evidence of y less that of z, in the basis 1, x of the mean.

        A row counts with its weight, and once where it has no noise, as in `Evidence`.
        """
        w = np.ones(len(self.Y)) if self.weights is None else self.weights
        n = float(np.where(np.asarray(noise) > 0, w, 1.0).sum())
        q, volume = (0, 0.0) if self.basis is None else (self.basis.size, self.basis.log_volume())
        return self.targets.log_density_shift(n - q) + self.Y.shape[1] * volume

    def explained(self) -> float:
        """Return the log evidence of parameters that leave half of the variance, by and large.

        Infinity for few rows, which cost nothing, and with weights, where the evidence may grow
        without limit as the noise goes to 0.
        """
        n, rest = self.Y.size, max(float(np.mean(self._remainder() ** 2)), 1e-300)
        if self.weights is not None or len(self.Y) <= FEW:
            return np.inf
        alone = -0.5 * n * (np.log(2 * np.pi * rest) + 1)  # of noise and nothing else
        return alone + 0.5 * n * np.log(2.0) + self.shift()

    # -- how much the targets vary -------------------------------------------------------------
    def unit(self) -> float:
        """Return the mean square of y about the model's mean: what noise is measured by."""
        about = self.targets.forward(self.Y) if self.basis is None else self._remainder()
        return self._mean_square(about)

    def spread(self) -> float:
        """Return the mean square of y about its own mean, or about what the basis explains."""
        return self._mean_square(self._remainder())

    def varies(self) -> np.ndarray:
        """Return which outputs are more than constant, or more than what the basis explains."""
        rest = np.sqrt(np.average(self._remainder() ** 2, axis=0, weights=self.weights))
        return rest * self.targets.scale > CONSTANT * np.abs(self.Y).max(axis=0, initial=0.0)

    def searched(self) -> Problem:
        """Return the problem of the outputs that vary, all where none does.

        An output without spread has no largest evidence: it would pull the noise to its bound.
        """
        some = self.varies()
        if some.all() or not some.any():
            return self
        targets = Targets(self.targets.mean[some], self.targets.scale[some])
        return replace(self, Y=self.Y[:, some], targets=targets)

    def _remainder(self) -> np.ndarray:
        """Return z less its weighted mean, or less its regression on the basis."""
        Z, w = self.targets.forward(self.Y), self.weights
        if self.basis is None or self.basis.scale is None:
            return Z - np.average(Z, axis=0, weights=w)
        H = self.basis.columns(self.X, len(Z))
        root = 1.0 if w is None else np.sqrt(w)[:, None]
        return Z - H @ np.linalg.lstsq(root * H, root * Z, rcond=None)[0]

    def _mean_square(self, A: np.ndarray) -> float:
        square = np.average(A**2, axis=0, weights=self.weights)
        return float(np.mean(square)) * self.targets.variance_unit()


def certificate(problem: Problem, fit: GaussianFit, value: np.ndarray, search: Any) -> Solution:
    """Judge the coefficients by C itself, without the jitter, and the search by its own words."""
    Z = problem.targets.forward(problem.Y)
    gap = fit.factor.matmul(fit.dual) - Z
    if problem.basis is not None:
        gap += problem.basis.columns(problem.X, len(Z)) @ fit.beta
    size = column_norms(Z)
    residual = float((column_norms(gap) / np.where(size > 0, size, 1.0)).max())
    message = ""
    if residual > RESIDUAL:
        message = (
            f"{problem.owner}: the covariance is nearly singular: the relative residual is "
            f"{residual:.2g} (tolerance {RESIDUAL:g}) after a jitter of {fit.jitter:.2g}. Use more "
            "noise, or drop rows that are given twice."
        )
    elif search is not None and not search.converged:
        message = f"{problem.owner}: the search for parameters {search.message}."
    return Solution(
        value=value,
        converged=not message,
        n_iter=0 if search is None else search.n_evaluations,
        residual=residual,
        message=message,
        extra={"jitter": fit.jitter},
    )
