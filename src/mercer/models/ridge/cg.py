"""The Gram matrix as conjugate gradients multiply by it: kept in double or single, or made anew."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg.blas import dsymv, ssymv

from mercer.checks import Clock
from mercer.domains import is_torch, to_host
from mercer.errors import speaking_for, who
from mercer.kernels import Kernel, Precomputed, stationary
from mercer.lapack import times
from mercer.memory import on_gpu, require_memory
from mercer.models.ridge.spectrum import RidgeFit, dual_certificate, part_of_objective, what_is_left
from mercer.operators import Gram
from mercer.settings import config, get_config
from mercer.solvers import (
    ConjugateGradients,
    Linear,
    Solution,
    accept,
    check_finite_symmetric,
    either,
    storage_for,
)
from mercer.solvers.linear import SLOW, LowRankPreconditioner, beside_gram

if TYPE_CHECKING:
    from mercer.estimator import SolverOptions
    from mercer.models.ridge.exact import LeastSquares


SYMMETRIC_COLUMNS = 2  # up to which products that read half of K win over one that reads all of it


class RidgeGram(Gram):
    """K(X, X), on the device of the engine.

    ``matmul`` multiplies by what is kept: K in float64, K rounded to float32, or tiles made anew;
    on a GPU that has no room for K, by entries of float32 that are made and used on the chip.
    ``exact`` multiplies by K in float64 whatever is kept, so that residuals are true.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : canonical collection of n points
        The points, in float64; a precomputed matrix is used where it is.
    storage : {"double", "single", "none"}, optional
        How to keep it; by default what half the budget allows.
    """

    def __init__(self, kernel: Kernel, X: Any, storage: str | None = None):
        self._hold(kernel, X, None, False)
        if type(kernel) is Precomputed and self.like is None:
            with speaking_for(kernel):
                check_finite_symmetric(X)
            self.storage, self._matrix = "given", X
            return
        self.storage = storage_for(self.shape[0], self.like) if storage is None else storage
        if self.storage != "none":
            self._matrix = self.matrix_there(single=self.storage == "single")
        else:
            self._fused = self._in_single()
            self.storage = "none" if self._fused is None else "fused"
        rounded = self.storage in ("single", "fused")
        self.dtype = np.dtype(np.float32 if rounded else np.float64)

    def _in_single(self) -> Any:
        """Return what a GPU multiplies by without tiles, in float32; None where there is none."""
        if self.like is None:
            return None
        X = self._engine.asarray(self.X)
        if stationary(self.kernel):
            X = X - X.mean(0)  # while it is in float64
        return self._engine.bound(self.kernel, X.float(), None).fused()

    @cached_property
    def bound(self) -> Any:
        """The kernel bound to the points, once for all products."""
        return super().bound

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        K = self._matrix
        if K is None and self.storage == "fused":
            # a column by itself is multiplied in float32, several together in float64
            columns = self.like.new_tensor(V).float()
            found = [self._fused.times(columns[:, j : j + 1]) for j in range(columns.shape[1])]
            return np.hstack([to_host(product) for product in found])
        if K is None:
            return self.times(V)
        if is_torch(K):
            return to_host(K @ K.new_tensor(V))
        V = np.asarray(V, dtype=K.dtype)
        if V.ndim == 2 and V.shape[1] <= SYMMETRIC_COLUMNS and K.flags.c_contiguous:
            symv = ssymv if K.dtype == np.float32 else dsymv
            return np.stack([symv(1.0, K.T, v, lower=1) for v in V.T], axis=1)
        return times(K, V)

    def exact(self, V: np.ndarray) -> np.ndarray:
        """Return K V in float64."""
        return self.times(V) if self.storage in ("single", "none", "fused") else self._matmul(V)

    def __repr__(self) -> str:
        return f"RidgeGram({self.kernel!r}, shape={self.shape}, storage={self.storage!r})"


# ---- Exact ridge by conjugate gradients: products with K alone, residuals taken in double
# precision.
# (K + αW⁻¹)a + b = y is solved for the right-hand sides y and 1 at once; the offset is b =
# 1ᵀz/1ᵀh for their solutions z and h. What is left of the equations is recomputed from K in
# float64 and, if more than the tolerance, solved for again (iterative refinement: Higham,
# Accuracy and Stability of Numerical Algorithms, 2nd ed., ch. 12), so that K itself may be kept
# in single precision.


ROUNDS = 8  # of refinement at most
SAFETY = 0.3  # of the tolerance: the parts of an answer are solved more exactly than the whole
SINGLE = 1e-4  # relative residual that products in single precision are asked for


def fit_by_cg(
    p: LeastSquares, alpha: float, options: SolverOptions, storage: str | None = None
) -> RidgeFit:
    """Return the fit of a dual problem; its certificate is that of a factorisation."""
    return _Refinement(p, alpha, options, storage).run()


class _Refinement:
    def __init__(self, p: LeastSquares, alpha: float, options: SolverOptions, storage: Any):
        self.clock = Clock(options.max_time)
        self.p, self.alpha, self.options = p, alpha, options
        n, t = p.T.shape
        memory = get_config().memory
        rank, taken, tile = beside_gram(n, t + int(p.offset), p.kernel.workspace, memory)
        require_memory(
            taken + tile,
            f"{who()}: conjugate gradients on {n} points and {t} outputs",
            "Use solver='falkon' with few centres",
        )
        self.left = memory - taken  # for K, whole or in tiles
        with config(memory=self.left):
            self.K = RidgeGram(p.kernel, p.X, storage)
        self.ridge: Any = alpha if p.equal else alpha / p.w
        self.column = np.reshape(self.ridge, (-1, 1))
        seed = 0 if options.random_state is None else options.random_state  # the answer is exact
        most = None if on_gpu(self.K.like) else rank  # there, by what is free there
        self.made = LowRankPreconditioner(self.K, self.ridge, rank=most, random_state=seed)
        self.steps = self.rounds = 0
        self.limit, self.slow = "", False

    def run(self) -> RidgeFit:
        p = self.p
        n, t = p.T.shape
        a, b = np.zeros((n, t)), np.zeros(t)
        h: Any = None
        solution = dual_certificate(p, a, b, np.zeros((n, t)), self.alpha, 0.0)
        R, best, least = p.T, (a, b, solution), self._excess(solution)
        for self.rounds in range(1, ROUNDS + 1):
            z, h = self._solve(R, h, least)
            if p.offset:
                shift = z.sum(0) / h.sum()
                z -= h * shift
                b = b + shift
            a = a + z
            with config(memory=self.left):
                Ka = self.K.exact(a)
            solution = dual_certificate(p, a, b, Ka, self.alpha, 0.0)
            excess, before = self._excess(solution), least
            if excess < least:
                best, least = (a, b, solution), excess
            if self.limit or excess <= 1.0 or not excess <= 0.5 * before:
                break
            R = p.T - Ka - b - self.column * a
        a, b, solution = best
        return RidgeFit(p.spread(a), None, b, self.alpha, self._certified(solution))

    def _excess(self, solution: Solution) -> float:
        """Return how many times what is allowed the residual is, or the root of the gap."""
        tol, residual = self.options.tol, float(solution.residual or 0.0)
        return max(residual / tol, float(np.sqrt(self._share(solution) / tol)))

    def _share(self, solution: Solution) -> float:
        return part_of_objective(self.p, solution.gap, solution.primal, self.alpha)

    def _solve(self, R: np.ndarray, h: Any, excess: float) -> tuple[np.ndarray, Any]:
        """Return the solutions for R, which has an excess, and at the first time for 1."""
        first = self.p.offset and h is None
        rhs = np.hstack([R, np.ones((len(R), 1))]) if first else R
        # Of what is left only so much must go as brings the whole below the tolerance.
        tol = SAFETY / max(1.0, min(excess, 1.0 / self.options.tol)) * 10.0 ** (1 - self.rounds)
        if self.K.storage in ("single", "fused"):
            tol = max(tol, SINGLE)
        steps = self.options.max_iter
        solver = ConjugateGradients(
            tol=min(tol, 0.5),
            max_iter=None if steps is None else max(1, steps - self.steps),
            preconditioner=self.made,
            max_time=self.clock.rest(1e-9),
        )
        with config(memory=self.left):
            solved = solver.solve(Linear(self.K, rhs, ridge=self.ridge), sharp=False)
        self.steps += solved.n_iter
        self.slow = solved.extra["stopped"] == "slow"
        if steps is not None and self.steps >= steps:
            self.limit = f"max_iter={steps} was reached"
        elif self.clock.late:
            self.limit = f"max_time={self.options.max_time:g} seconds was reached"
        z = np.asarray(solved.value)
        return (z[:, :-1], z[:, -1:]) if first else (z, h)

    def _certified(self, solution: Solution) -> Solution:
        tol = self.options.tol
        residual, share = float(solution.residual or 0.0), self._share(solution)
        message = ""
        if max(residual, share) > tol:
            n = len(self.p.T)
            left = what_is_left(residual, share, tol)
            cures = ["raise max_iter or max_time"] if self.limit else []
            cures += [*accept(max(residual, share)), "use a larger alpha"]
            cures += ["solver='cholesky'"] if 8 * n * n <= get_config().memory else []
            stalled = "rounding or a nearly singular matrix stops further progress"
            cause = self.limit or (SLOW if self.slow else stalled)
            message = (
                f"{who()}: conjugate gradients left {left} (tol={tol:g}) after {self.steps} "
                f"iterations: {cause}; {either(cures)}."
            )
        extra = {
            **solution.extra,
            **self.made.facts,
            "method": "cg",
            "storage": self.K.storage,
            "rounds": self.rounds,
        }
        return replace(
            solution,
            converged=max(residual, share) <= tol,
            n_iter=self.steps,
            message=message,
            extra=extra,
        )
