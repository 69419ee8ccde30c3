"""Stochastic gradients over explicit features: variance-reduced ones for a fixed set of rows."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.errors import InvalidInput
from mercer.settings import get_config
from mercer.solvers.base import Solution
from mercer.solvers.checks import check_index, check_number
from mercer.solvers.sgd_problem import CheckedFeatures, FeatureERM

__all__ = ["SGD"]

CHUNK = 4_000_000  # entries of rows between two looks at the clock
# A step is made longer as long as the objective falls from pass to pass, for curvatures are mostly
# less than their bounds, and shorter when it rises.
GROW, SHRINK, MOST = 1.25, 0.4, 1000.0
DENSE = 0.25  # part of all entries from which a sparse matrix is no longer treated as one


class SGD:
    r"""Solver of `FeatureERM` by stochastic gradients with reduced variance (SAGA).

    A step draws one row, replaces the slope that is remembered for it by that at the current
    weights, and goes against the sum of remembered slopes corrected by the change (Defazio, Bach
    and Lacoste-Julien 2014): a constant step, and linear convergence. Rows are drawn in proportion
    to the curvature that they may have. After every pass over the data the offset is brought to
    its optimum, all slopes are refreshed, and the duality gap is computed; it decides when to stop.

    A pass costs as much as a product with the features and its transpose, sparse ones by their
    entries. It takes about max(n, L/alpha) steps to gain a factor e, L the sum of the rows' largest
    curvatures: much less than Newton's method when there are many features, much more when alpha is
    tiny.

    Parameters
    ----------
    tol : float, default=1e-6
        Largest duality gap, relative to the objective.
    max_iter : int, default=1000
        Limit on passes over the data.
    max_time : float, optional
        Limit in seconds.
    random_state : int, Generator or RandomState, default=0
        Which rows are drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Logistic
    >>> from mercer.solvers import SGD, FeatureERM
    >>> x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> solution = SGD().solve(FeatureERM(x, [-1, 1, -1, 1], Logistic(), alpha=0.1))
    >>> solution.converged, solution.value.round(2)
    (True, array([0.4]))
    """

    def __init__(
        self,
        tol: float = 1e-6,
        max_iter: int = 1000,
        max_time: float | None = None,
        random_state: Any = 0,
    ):
        check_number(tol, "tol", "SGD", 0.0)
        check_index(max_iter, "max_iter", "SGD", 1)
        if max_time is not None:
            check_number(max_time, "max_time", "SGD", 0.0, closed=True)
        self.tol, self.max_iter, self.max_time = tol, max_iter, max_time
        self.random_state = random_state

    def __repr__(self) -> str:
        return (
            f"SGD(tol={self.tol!r}, max_iter={self.max_iter!r}, max_time={self.max_time!r}, "
            f"random_state={self.random_state!r})"
        )

    def solve(self, problem: FeatureERM, owner: str = "SGD") -> Solution:
        """Return the weights and their certificate.

        Parameters
        ----------
        problem : FeatureERM
            The problem; nothing of it is changed.
        owner : str, default="SGD"
            Whose fit it is; messages begin with it.

        Returns
        -------
        Solution
            `value` holds the weights, shape (D,), or (D, classes) for the softmax; ``extra`` the
            ``intercept``, the values ``product`` = Φv, and ``dual_coef`` a with Φᵀa = v. `n_iter`
            counts passes, and `residual` is the gap relative to the objective.
        """
        p = problem.checked(owner)
        rng = _generator(self.random_state, owner)
        deadline = None if self.max_time is None else time.monotonic() + self.max_time
        state = _State(p)
        found = state.judge()
        passes = 0
        while not self._good(found) and passes < self.max_iter:
            if deadline is not None and time.monotonic() >= deadline:
                break
            before = state.V.copy(), state.b.copy(), state.a.copy()
            state.sweep(rng, deadline)
            passes += 1
            now = state.judge()
            if now["primal"] <= found["primal"]:
                found = now
                state.step = min(state.step * GROW, MOST * state.safe)
                continue
            # Too long a step for the curvature here. One that is safe makes progress on average
            # only, so with it a pass that rises is kept.
            if state.step > state.safe:
                state.V, state.b, state.a = before
                state.step = max(state.step * SHRINK, state.safe)
                found = state.judge()
            else:
                found = now
        return self._solution(state, found, passes, owner)

    def _good(self, found: dict[str, float]) -> bool:
        return found["residual"] <= self.tol

    def _solution(
        self, state: _State, found: dict[str, float], passes: int, owner: str
    ) -> Solution:
        converged = self._good(found)
        message = ""
        if not converged:
            message = (
                f"{owner}: after {passes} passes of stochastic gradients the duality gap is "
                f"{found['gap']:.3g} at a value of {found['primal']:.6g} (tolerance {self.tol:g}). "
                "Allow more passes or time, scale the columns, use a larger alpha, or Newton's "
                "method."
            )
        V, b, values, a = state.answer()
        single = V.shape[1] == 1
        return Solution(
            value=V[:, 0] if single else V,
            converged=converged,
            n_iter=passes,
            message=message,
            extra={
                "intercept": float(b[0]) if single else b,
                "product": values[:, 0] if single else values,
                "dual_coef": a[:, 0] if single else a,
            },
            **found,
        )


class _State:
    """Weights V, offset b, and for every row the slopes that the next steps remember."""

    def __init__(self, p: CheckedFeatures):
        self.p, self.mean = p, np.zeros(p.Phi.shape[1])
        n, D = p.Phi.shape
        self.Phi = p.Phi
        if sp.issparse(p.Phi) and p.Phi.nnz > DENSE * n * D and 16 * n * D < get_config().memory:
            self.Phi = p.Phi.toarray()
        self.sparse = sp.issparse(self.Phi)
        if p.offset and not self.sparse:
            # Centred columns leave the weights as they are, and the offset next to nothing to do.
            self.mean = p.w @ self.Phi / p.w.sum()
            self.Phi = self.Phi - self.mean
        c = p.outputs
        self.V, self.b = np.zeros((D, c)), np.zeros(c)
        squares = self.Phi.multiply(self.Phi) if self.sparse else self.Phi * self.Phi
        bends = p.bend * p.w * (np.asarray(squares.sum(axis=1)).reshape(-1) + p.offset)
        # A row that may bend less than the mean is drawn as if it bent as much.
        bends = np.maximum(bends, max(float(bends.mean()), 1e-300))
        self.share = bends / bends.sum()
        self.edges = np.cumsum(self.share)
        self.safe = self.step = 1.0 / (3.0 * (float(bends.sum()) + p.alpha))
        self.table, self.a = np.zeros((2, n, c))

    def sweep(self, rng: np.random.Generator, deadline: float | None) -> None:
        """Take as many steps as there are rows."""
        from mercer.jit.sgd import saga_dense, saga_sparse

        p = self.p
        n, c = self.table.shape
        drawn = np.searchsorted(self.edges, rng.random(n) * self.edges[-1], side="right")
        drawn = np.minimum(drawn, n - 1)
        G = np.asarray(self.Phi.T @ (p.w[:, None] * self.table))
        Gb = p.w @ self.table
        z, g = np.empty(c), np.empty(c)
        entries = (self.Phi.nnz / n + 1 if self.sparse else self.Phi.shape[1]) * c
        size = max(1, int(CHUNK / max(1.0, entries)))
        met, last = np.zeros(n, dtype=np.int64), np.zeros(len(self.V), dtype=np.int64)
        ones = np.ones(len(self.V))
        for first in range(0, n, size):
            order = drawn[first : first + size]
            common = (
                p.y, p.w, order, self.share, p.code, p.delta, p.alpha, self.step, p.offset,
                self.V, self.b, self.table, G, Gb, z, g, self.a, met,
            )  # fmt: skip
            if self.sparse:
                csr = self.Phi.data, self.Phi.indices, self.Phi.indptr
                saga_sparse(*csr, *common, last, ones)
            else:
                saga_dense(self.Phi, *common)
            if deadline is not None and time.monotonic() >= deadline:
                return

    def judge(self) -> dict[str, float]:
        """Set the offset to its optimum, refresh all slopes, and return the certificate.

        With slopes u for which the dual is finite, primal minus dual value is
        Σ w (ℓ(z) + ℓ*(u) − uz) + ‖αv + Φᵀ(wu)‖²/2α: both parts are ≥ 0 as computed.
        """
        p = self.p
        self.values = np.asarray(self.Phi @ self.V)
        if p.offset:
            self.b = self.b + p.shift(self.values + self.b)
        z = self.values + self.b
        self.table = p.rates(z)
        self.slopes = p.feasible(self.table)
        pull = np.asarray(self.Phi.T @ (p.w[:, None] * self.slopes))
        rest = p.alpha * self.V + pull
        primal = p.value(z) + 0.5 * p.alpha * float((self.V**2).sum())
        gap = p.conjugate_terms(z, self.slopes) + float((rest**2).sum()) / (2 * p.alpha)
        dual = primal - gap
        residual = gap / max(abs(primal), abs(dual), 1e-300)
        return {"primal": primal, "dual": dual, "gap": gap, "residual": residual}

    def answer(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return weights, offsets, values without offset, and coefficients a with Φᵀa = v.

        Rows were centred: (Φ − 1μᵀ)ᵀa is Φᵀ(a − w Σa/Σw), since μ = Φᵀw/Σw.
        """
        shift, a = self.mean @ self.V, self.a
        if self.p.offset and not self.sparse:
            a = a - np.outer(self.p.w / self.p.w.sum(), a.sum(0))
        return self.V, self.b - shift, self.values + shift, a


def _generator(random_state: Any, owner: str) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31 - 1))
    try:
        return np.random.default_rng(0 if random_state is None else random_state)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{owner}: random_state={random_state!r}; give a whole number ≥ 0 or a Generator."
        ) from error
