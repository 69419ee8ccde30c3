"""Newton for softmax: steps by conjugate gradients over all classes, with one factorisation."""

from __future__ import annotations

import numpy as np

from mercer.errors import NotPositiveDefinite
from mercer.settings import get_config
from mercer.solvers.smooth_descent import RESIDUAL, SMALL, Descent, Point, length
from mercer.solvers.smooth_solver import SmoothSolver
from mercer.solvers.softmax import log_softmax
from mercer.solvers.softmax_coupled import CoupledFactor, coupled_bytes

__all__ = ["NewtonCG"]

INNER = 200  # steps of conjugate gradients in one Newton step
LOOSE, TIGHT = 0.3, 1e-5  # relative errors that a Newton step may be left with
HARD, EXACT = 100, 1e-3  # CG steps from which classes are coupled in the factor, and its error
FEW, ALIKE = 15, 10.0  # CG steps and change of the weights up to which a factor serves again


class _Softmax(Descent):
    """The steps of `NewtonCG`: conjugate gradients on all classes, with one factorisation."""

    _factored: np.ndarray | None = None
    _penalty = 0.0
    _inner = 0
    _hard = False
    _K: np.ndarray | None = None
    _coupled: CoupledFactor | None = None

    def newton(self, x: Point) -> Point:
        """Take one damped, inexact Newton step."""
        return self._newton(x, self._error(x))

    def _error(self, x: Point) -> float:
        """Return how exact a step is worth being: more so near the end, not beyond the end."""
        left, residual = max(x.gap / x.size, 1e-300), max(self.residual(x), 1e-300)
        enough = min((0.03 * self.tol / left) ** 0.5, 0.3 * max(RESIDUAL, self.tol) / residual)
        return float(np.clip(max(min(LOOSE, left**0.5), enough), TIGHT, LOOSE))

    def improved(self, x: Point) -> Point:
        """Take one exact step; of many rows none, as it costs as much as the others."""
        return self._newton(x, TIGHT) if self.p.n <= SMALL else x

    def _newton(self, x: Point, error: float) -> Point:
        p = np.exp(log_softmax(x.z))
        self._coupled = None
        self._hard = self._hard or self._inner > min(HARD, self.p.n // 10)
        if self._hard and self._couple(p):
            return self.along(x, *self._solve(x, p, min(error, EXACT)))
        # One weight a row: the mean curvature of the classes, which the factor can have.
        mean = (p * (1.0 - p)).sum(axis=1) / (self.p.classes - 1)
        if not self._still_fits(mean):
            self.metric.factor(self.p.w * mean, rough=True)
            self.jitter = max(self.jitter, self.metric.jitter)
            self._factored, self._penalty = mean, self.p.alpha
        return self.along(x, *self._solve(x, p, error))

    def obstacle(self) -> str:
        """Return what is in the way: conjugate gradients, or rounding."""
        if self._coupled is None and self._inner >= INNER:
            return (
                f"conjugate gradients stall, as alpha={self.p.alpha:g} is small, and there is no "
                "memory for exact steps; use a larger alpha, fewer rows, or "
                "mercer.config(memory=...)"
            )
        return super().obstacle()

    def _couple(self, p: np.ndarray) -> bool:
        """Factorise with the classes coupled, if there is memory for it and enough digits."""
        gram, w = getattr(self.metric, "gram", None), self.p.w
        if gram is None or coupled_bytes(*p.shape) > 0.5 * get_config().memory:
            return False
        if self._K is None:
            self._K = gram.to_dense()
        try:
            self._coupled = CoupledFactor(self._K, p, w, self.p.alpha)
        except NotPositiveDefinite:
            return False
        return True

    def _still_fits(self, mean: np.ndarray) -> bool:
        """Whether the last factor is as good as a new one would be, up to a few products."""
        last = self._factored
        if last is None or self._penalty != self.p.alpha or self._inner > FEW:
            return False
        ratio = np.maximum(last, 1e-12) / np.maximum(mean, 1e-12)
        return float(np.abs(np.log(ratio)).mean()) < np.log(ALIKE)

    def _solve(self, x: Point, p: np.ndarray, error: float) -> tuple[np.ndarray, ...]:
        """Minimise the quadratic model by conjugate gradients; return δ, δb and the values of δ.

        The residual is a function r and numbers s, one a class; where the factor answers with
        (d, e), the inner product of the two is ⟨r, d⟩ + s·e.
        """
        metric, problem = self.metric, self.p
        zero = np.zeros(problem.classes)

        def answer(r: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            sums = (r.sum(axis=0) - s) / problem.alpha if self.dual else zero
            if self._coupled is not None:
                d, e = self._coupled.step(r, sums if problem.offset else None)
            else:
                d, e = metric.step(sums, r, s)
            # What all classes have in common changes nothing, so rounding there would only grow.
            return d - d.mean(axis=1, keepdims=True), e - np.mean(e)

        r = x.gradient
        s = x.g.sum(axis=0) if problem.offset else zero
        d, e = answer(r, s)
        df = metric.values(d)
        step, shift, values = np.zeros(d.shape), zero, np.zeros(df.shape)
        rho = first = -metric.inner(r, d, df) - float(s @ e)
        if not (rho > 0 and df.any()):  # only coefficients that change no value are left to mend
            return d, e, df
        enough = error * length(r)
        for self._inner in range(1, INNER + 1):
            dz = df + e
            bent = problem.curved(p, dz)
            curvature = problem.alpha * metric.inner(d, d, df) + float((dz * bent).sum())
            if not (rho > 0 and curvature > 0):
                break
            t = rho / curvature
            step, shift, values = step + t * d, shift + t * e, values + t * df
            r = r + t * metric.gradient(d, bent)
            s = s + t * bent.sum(axis=0) if problem.offset else zero
            if self.dual and length(r) <= enough:  # as Σd = 0, r has s in it
                break
            q, v = answer(r, s)
            qf = metric.values(q)
            rho, before = -metric.inner(r, q, qf) - float(s @ v), rho
            if rho <= error**2 * first:
                break
            ratio = rho / before
            d, e, df = q + ratio * d, v + ratio * e, qf + ratio * df
        if self.dual and length(r) > enough:
            # Coefficients that change no value are out of sight of the metric, and a step by the
            # factor alone is exact for them.
            q, v = answer(r, s)
            qf = metric.values(q)
            if length(r + metric.gradient(q, problem.curved(p, qf + v))) < length(r):
                step, shift, values = step + q, shift + v, values + qf
        return step, shift, values


class NewtonCG(SmoothSolver):
    r"""Solver of `SoftmaxERM`: Newton steps by conjugate gradients over all classes at once.

    A product with the Newton matrix is one product of K with an (n, C) matrix. The preconditioner
    is one factorisation a step, of alpha·I + S K S with the mean curvature of the classes of a row
    as S². Where that takes many products, as for a very small alpha, it is the Newton matrix itself
    with all classes coupled, C + 1 factorisations, if there is memory for C + 3 matrices. Steps are
    as exact as they are worth, damped by a line search, and end with the offsets at their optimum.

    Parameters
    ----------
    tol : float, default=1e-8
        Largest duality gap, relative to the objective; or what rounding leaves, at most 1e-6.
    max_iter : int, default=100
        Limit on Newton steps.
    max_time : float, optional
        Limit in seconds; checked between steps.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import NewtonCG, SoftmaxERM
    >>> x = np.array([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0])
    >>> problem = SoftmaxERM(np.exp(-np.subtract.outer(x, x) ** 2), [0, 0, 1, 1, 2, 2], 3, 0.1)
    >>> solution = NewtonCG().solve(problem)
    >>> solution.converged, bool(abs(solution.value.sum(axis=1)).max() < 1e-12)
    (True, True)
    """

    _descent = _Softmax
