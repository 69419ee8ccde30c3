"""Ridge parameters of largest evidence: the exact value and gradient, by L-BFGS-B.

A ridge model is the posterior mean of y ~ N(b1, s²C), C = K + αW⁻¹: a Gaussian process with
covariance s²k, seen with noise of variance s²α/wᵢ. For one output, m = n (m = n − 1 with an offset
b, which has a flat prior and is integrated out), Q = C⁻¹ (less C⁻¹11ᵀC⁻¹/(1ᵀC⁻¹1) with an offset)
and q = yᵀQy,

    −log p(y) = ½ [m log 2πs² + log|C| + log(1ᵀC⁻¹1) + q/s²],

the third term with an offset only. It is least in s² at s² = q/m. From then on d log|C| +
d log(1ᵀC⁻¹1) = tr(Q dC) and dq = −aᵀdC a with a = Qy: one factorisation and one inverse do.
Rasmussen & Williams (2006), sections 2.7 and 5.4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.estimator.sample import FitData
from mercer.models.ridge.exact import LeastSquares
from mercer.models.ridge.spectrum import DualSpectrum
from mercer.selection.loo import LooSearch
from mercer.solvers import DenseEigen, Eigen

__all__ = ["EvidenceSearch", "evidence_gradient", "evidence_path"]

# A column that varies less than this, relative to its size, is constant but for rounding.
CONSTANT = 1e-13


def evidence_gradient(problem: LeastSquares, alpha: float) -> tuple[float, np.ndarray, float]:
    """Return −log p(T), its derivative in K and its derivative in log α.

    Parameters
    ----------
    problem : LeastSquares
        Of which every output has a scale s² of its own.
    alpha : float
        The penalty, > 0.
    """
    f = problem._factor(alpha, matrices=4)
    a, _, h = problem._dual(f)
    logdet, s, m = f.logdet(), problem.s, len(problem.T) - int(problem.offset)
    q = np.einsum("nt,nt->t", a, problem.T)
    Q = f.inverse()
    if problem.offset:
        total = float(s @ h)
        logdet += np.log(total)
        Q -= np.outer(h, h / total)
    if not problem.equal:
        Q *= s[:, None]
        Q *= s[None, :]
    value = _value(q, logdet, problem.w, m)
    Q *= 0.5 * problem.T.shape[1]
    Q -= (a * (0.5 * m / q)) @ a.T
    return value, Q, float(alpha * (Q.diagonal() / problem.w).sum())


def evidence_path(problem: LeastSquares, alphas: np.ndarray) -> np.ndarray:
    """Return −log p(T) for each penalty, from one eigenvalue decomposition of the Gram matrix.

    Parameters
    ----------
    problem : LeastSquares
        As for `evidence_gradient`.
    alphas : ndarray
        Penalties > 0.
    """
    K = problem._scaled_gram(matrices=5)
    spectrum = DualSpectrum(DenseEigen().solve(Eigen(K)).unwrap(), K, problem)
    m, out = len(problem.T) - int(problem.offset), np.empty(len(alphas))
    for i, alpha in enumerate(alphas):
        shifted = spectrum.values + alpha
        logdet = float(np.log(shifted).sum())
        q = (spectrum.t**2 / shifted[:, None]).sum(0)
        if problem.offset:
            g = spectrum.ones / shifted
            total = float(spectrum.ones @ g)
            logdet += np.log(total)
            q = q - (g @ spectrum.t) ** 2 / total
        out[i] = _value(q, logdet, problem.w, m)
    return out


def _value(q: np.ndarray, logdet: float, w: np.ndarray, m: int) -> float:
    """Return −log p for the quadratic forms of the outputs and log|SCS| of the scaled matrix."""
    if not (q > 0).all():
        return np.inf
    each = m * (np.log(2 * np.pi * q / m) + 1) + logdet - np.log(w).sum()
    return float(0.5 * each.sum())


class EvidenceSearch(LooSearch):
    """Minus the log evidence of a ridge model, and the best point seen."""

    def __init__(
        self, data: FitData, offset: bool, max_points: int, max_time: float | None, rng: Any
    ):
        super().__init__(data, offset, max_points, max_time, rng)
        if offset:  # what b takes up; the smaller numbers keep more digits
            self.T = self.T - np.average(self.T, axis=0, weights=self.w)
        if (np.abs(self.T).max(axis=0) <= CONSTANT).any():
            raise InvalidInput(
                f"tune: y is {'constant' if offset else 'zero'} on the {len(self.T)} rows used, so "
                "its evidence has no maximum; leave it out, or use criterion='loo'."
            )
        self.m = len(self.T) - int(offset)

    def in_units(self, value: float) -> float:
        """Return minus the log evidence of y itself, not of y in units of its largest entry."""
        return value + self.m * self.T.shape[1] * float(np.log(self.unit))

    def _try_path(self, kernel: Any) -> None:
        problem = self._problem(kernel)
        problem._check_diagonal()
        alphas = self.alphas()
        if alphas is None:
            alphas = np.geomspace(*problem.alpha_range(), 31)
        values = evidence_path(problem, alphas)
        self._note(kernel, float(alphas[values.argmin()]), float(values.min()))

    def _measured(self, problem: LeastSquares, alpha: float) -> tuple[float, np.ndarray, float]:
        return evidence_gradient(problem, alpha)

    def _level(self, value: float) -> tuple[float, float]:
        """Return it for a row and an output, twice: what log E is to the leave-one-out error."""
        half = 0.5 * self.m * self.T.shape[1]
        return value / half, half

    def _gained(self, before: float) -> bool:
        return self._level(self.best[2])[0] < self._level(before)[0] - 1e-4
