"""What a Gaussian process regression is fitted to, and the certificate of its solution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.kernels import Kernel
from mercer.models.gp.evidence import Evidence, GaussianFit
from mercer.models.gp.mean import Basis
from mercer.models.gp.targets import Targets
from mercer.models.least_squares import take_rows
from mercer.solvers import Solution
from mercer.solvers.checks import column_norms

__all__ = ["Problem", "certificate"]

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
            X, Z = take_rows(self.kernel, X, rows), Z[rows]
            w, H = (None if w is None else w[rows]), (None if H is None else H[rows])
        return Evidence(X, Z, w, H, self.owner)

    def shift(self) -> float:
        """Return the log evidence of y less that of z, in the basis 1, x of the mean."""
        n = float(len(self.Y) if self.weights is None else self.weights.sum())
        q, volume = (0, 0.0) if self.basis is None else (self.basis.size, self.basis.log_volume())
        return self.targets.log_density_shift(n - q) + self.Y.shape[1] * volume

    def unit(self) -> float:
        """Return the mean square of z in the units of y²: what noise is measured by."""
        Z = self.targets.forward(self.Y)
        square = float(np.mean(np.average(Z**2, axis=0, weights=self.weights)))
        return (square if square > 0 else 1.0) * self.targets.variance_unit()


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
