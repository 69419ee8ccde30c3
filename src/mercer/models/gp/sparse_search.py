"""The search of sparse regression: parameters on a part of the rows, on all, then inducing points.

Inducing points come from pivots of the kernel matrix under the start, and once more, when a search
with those has found a better kernel. Points to be tuned are then moved, together with the
parameters, by L-BFGS-B on the same objective.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from mercer.domains import GramRows, Numbers
from mercer.engines.blocks import require_memory
from mercer.errors import InvalidInput, MemoryBudgetExceeded, MercerError
from mercer.kernels import Kernel
from mercer.models.gp.fitc import FITC
from mercer.models.gp.inducing import pivoted, subset
from mercer.models.gp.parameters import Parameters
from mercer.models.gp.problem import Problem
from mercer.models.gp.search import Search, at_bounds, maximise
from mercer.models.gp.sparse_bound import CollapsedBound
from mercer.models.gp.sparse_evidence import MATRICES, SparseEvidence

__all__ = ["METHODS", "Inducing", "SparseSearch"]

METHODS: dict[str, type[SparseEvidence]] = {"vfe": CollapsedBound, "fitc": FITC}
PART = 2000  # rows of the coarse objective, or
EACH = 8  # so many for each inducing point, where that is more
SLOPE = 0.01  # steepness below which no coordinate of an inducing point need move


@dataclass(frozen=True, eq=False)
class Inducing:
    """Inducing points, where they come from, and what they leave out.

    Parameters
    ----------
    points : canonical collection
        The points; positions of rows where the kernel is precomputed.
    rows : ndarray of int or None
        The rows that they are; None where they are none.
    error : float or None
        tr(K − Q)/tr(K) where it was measured.
    """

    points: Any
    rows: np.ndarray | None = None
    error: float | None = None


class SparseSearch:
    """Chooses inducing points and parameters for one set of rows.

    Parameters
    ----------
    problem : Problem
        Rows of positive weight and their targets.
    method : {"vfe", "fitc"}
        The objective.
    given : str or canonical collection
        "pivoted", "optimize", or the inducing points.
    n_inducing : int
        How many are wanted.
    seed : int
        For pivots, and the rows of the coarse objective: the same draws whenever they are made.
    """

    def __init__(self, problem: Problem, method: str, given: Any, n_inducing: int, seed: int):
        self.problem, self.method, self.given = problem, method, given
        self.n_inducing, self.seed = n_inducing, seed
        self.moves = isinstance(given, str) and given == "optimize"
        n = len(problem.Y)
        m = min(n_inducing, n) if isinstance(given, str) else problem.kernel.domain.size(given)
        require_memory(
            8 * MATRICES * m * m,
            f"{problem.owner}: matrices of {m} inducing points",
            "Use a smaller n_inducing",
        )

    # -- objectives ---------------------------------------------------------------------------
    def evidence(self, rows: np.ndarray | None = None) -> SparseEvidence:
        """Return the objective of all rows or some, in units of z."""
        problem = self.problem
        X, Z, w = problem.X, problem.targets.forward(problem.Y), problem.weights
        if rows is not None:
            X, Z = problem.kernel.domain.take(X, rows), Z[rows]
            w = None if w is None else w[rows]
        return METHODS[self.method](X, Z, w, problem.owner)

    def objective(
        self, parameters: Parameters, vector: Any, U: Any, rows: np.ndarray | None = None
    ) -> Any:
        """Return θ → (evidence of y, gradient) for given inducing points; all rows or some."""
        evidence, unit, shift = self.evidence(rows), self._unit(), self.problem.shift()
        variances = vector if vector is None or rows is None else vector[rows]

        def call(theta: np.ndarray) -> tuple[float, np.ndarray]:
            kernel, level = parameters.read(theta)
            scaled = (variances if level is None else level) / unit
            value, slope, noise_slope, _ = evidence.value_and_gradient(kernel, scaled, U)
            return value + shift, parameters.pull(slope, noise_slope)

        return call

    def _unit(self) -> float:
        return self.problem.targets.variance_unit()

    # -- inducing points ----------------------------------------------------------------------
    def choose(self, kernel: Kernel, scaled: Any) -> Inducing:
        """Return the inducing points for a kernel and a noise in units of z²."""
        if not isinstance(self.given, str):
            return Inducing(self.given)
        noise, rng = float(np.mean(scaled)), np.random.RandomState(self.seed)
        rows, error = pivoted(kernel, self.problem.X, self.n_inducing, noise, rng)
        if isinstance(kernel.domain, GramRows):
            return Inducing(rows, rows, error)
        points = kernel.domain.take(self.problem.X, rows)
        if self.moves:
            points = self._movable(points)
        return Inducing(points, rows, error)

    def _movable(self, points: Any) -> np.ndarray:
        domain = self.problem.kernel.domain
        numeric = isinstance(points, np.ndarray) or sp.issparse(points)
        if not numeric or points.ndim != 2 or isinstance(domain, Numbers):
            raise InvalidInput(
                f"{self.problem.owner}: inducing='optimize' moves points, and {domain.name} cannot "
                "be moved; use inducing='pivoted', which takes them from the rows."
            )
        return np.array(points.toarray() if sp.issparse(points) else points, dtype=float)

    # -- the search ---------------------------------------------------------------------------
    def run(self, parameters: Parameters, vector: Any, **options: Any) -> tuple[Search, Inducing]:
        """Return the parameters and inducing points of largest objective.

        Parameters
        ----------
        parameters : Parameters
            What is tuned, and from where.
        vector : ndarray of shape (n,) or None
            Known variances of the noise in the units of y², where it is not tuned.
        **options : dict
            Of `maximise`: n_restarts, max_iter, tol, rng.
        """
        again = {**options, "n_restarts": 0}
        chosen = self._choose_at(parameters, parameters.theta, vector)
        rows = self._part(chosen)
        if self.moves:
            return self._run_moving(parameters, vector, chosen, rows, options)
        if rows is None:
            search = maximise(
                self.objective(parameters, vector, chosen.points), parameters, **options
            )
        else:
            start, ratio = parameters, len(self.problem.Y) / len(rows)
            first = maximise(
                self.objective(parameters, vector, chosen.points, rows), parameters, **options
            )
            parameters = _from(parameters, first.theta)
            chosen = self._choose_at(parameters, first.theta, vector)
            coarse = self.objective(parameters, vector, chosen.points, rows)
            search = maximise(
                self.objective(parameters, vector, chosen.points),
                parameters,
                coarse=coarse,
                ratio=ratio,
                **again,
            )
            search = replace(search, n_coarse=search.n_coarse + first.n_evaluations)
            parameters = start
        if rows is None and self._selective(chosen):
            search, chosen = self._reselected(parameters, vector, search, chosen, again)
        return search, chosen

    def _choose_at(self, parameters: Parameters, theta: np.ndarray, vector: Any) -> Inducing:
        kernel, level = parameters.read(theta)
        return self.choose(kernel, (vector if level is None else level) / self._unit())

    def _selective(self, chosen: Inducing) -> bool:
        """Whether another choice of rows is possible."""
        return chosen.rows is not None and len(chosen.rows) < len(self.problem.Y)

    def _part(self, chosen: Inducing) -> np.ndarray | None:
        """Return the rows of the coarse objective, drawn in the order of y; None for all."""
        n, domain = len(self.problem.Y), self.problem.kernel.domain
        size = max(PART, EACH * domain.size(chosen.points))
        if n < 2 * size or isinstance(domain, GramRows):
            return None
        order = np.lexsort(self.problem.Y.T)
        return np.sort(order[subset(n, size, np.random.RandomState(self.seed))])

    def _reselected(
        self, parameters: Parameters, vector: Any, search: Search, chosen: Inducing, options: dict
    ) -> tuple[Search, Inducing]:
        """Choose once more under the kernel found; keep that unless the objective is smaller."""
        new = self._choose_at(parameters, search.theta, vector)
        if np.array_equal(np.sort(new.rows), np.sort(chosen.rows)):  # type: ignore[arg-type]
            return search, chosen
        start = _from(parameters, search.theta)
        try:
            other = maximise(self.objective(start, vector, new.points), start, **options)
        except MemoryBudgetExceeded:
            raise
        except MercerError:  # these points do not go with that kernel
            return search, chosen
        count = search.n_evaluations + other.n_evaluations
        if other.value > search.value - options["tol"]:
            return replace(other, n_evaluations=count), new
        return replace(search, n_evaluations=count), chosen

    def _run_moving(
        self,
        parameters: Parameters,
        vector: Any,
        chosen: Inducing,
        rows: np.ndarray | None,
        options: dict,
    ) -> tuple[Search, Inducing]:
        """Move points and parameters together: on a part of the rows first, then on all.

        Not from parameters tuned for points that stay: with few points those explain all by noise,
        and then no point has a slope. Such a start is only the second, where there are restarts.
        """
        first = self.objective(parameters, vector, chosen.points, rows)
        value, slope = first(parameters.theta)
        prior, prior_slope = parameters.log_prior(parameters.theta)
        start = Search(parameters.theta, value + prior, slope + prior_slope, 1)
        search, points = self._moved(parameters, vector, start, chosen.points, rows, options)
        if options["n_restarts"]:
            start = maximise(first, parameters, **options)
            other, moved = self._moved(parameters, vector, start, chosen.points, rows, options)
            count = search.n_evaluations + other.n_evaluations
            if other.value > search.value:
                search, points = other, moved
            search = replace(search, n_evaluations=count)
        if rows is None:
            return search, Inducing(points)
        value, slope = self.objective(parameters, vector, points)(search.theta)
        prior, prior_slope = parameters.log_prior(search.theta)
        start = Search(search.theta, value + prior, slope + prior_slope, 1, search.n_evaluations)
        search, points = self._moved(parameters, vector, start, points, None, options)
        return search, Inducing(points)

    def _moved(
        self,
        parameters: Parameters,
        vector: Any,
        search: Search,
        U: np.ndarray,
        rows: np.ndarray | None,
        options: dict,
    ) -> tuple[Search, np.ndarray]:
        """Return parameters and inducing points moved from where a search ended."""
        evidence, shift = self.evidence(rows), self.problem.shift()
        vector = vector if vector is None or rows is None else vector[rows]
        unit = np.std(U, axis=0)
        unit = np.where(unit > 0, unit, 1.0)
        p, tol = len(search.theta), options["tol"]
        best: list[Any] = [-search.value, search.theta, U, -search.gradient]
        count = 0

        def minus(x: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal count
            count += 1
            theta, points = x[:p].copy(), x[p:].reshape(U.shape) * unit
            prior, prior_slope = parameters.log_prior(theta)
            kernel, level = parameters.read(theta)
            scaled = (vector if level is None else level) / self._unit()
            try:
                with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                    value, slope, noise_slope, moved = evidence.value_and_gradient(
                        kernel, scaled, points, points=True
                    )
            except MemoryBudgetExceeded:
                raise
            except (MercerError, ArithmeticError, np.linalg.LinAlgError):
                value = prior = -np.inf
            if not np.isfinite(value + prior):  # a wall: the line search turns back
                return best[0] + 1e3 * (1.0 + abs(best[0])), np.zeros(len(x))
            total = -(value + shift + prior)
            gradient = -(parameters.pull(slope, noise_slope) + prior_slope)
            if total < best[0]:
                best[:] = [total, theta, points, gradient]
            return total, np.concatenate([gradient, -(moved * unit).ravel()])  # type: ignore[operator]

        limits = [tuple(pair) for pair in parameters.bounds] + [(None, None)] * U.size
        end = minimize(
            minus,
            np.concatenate([search.theta, (U / unit).ravel()]),
            jac=True,
            method="L-BFGS-B",
            bounds=limits,
            options={
                "maxiter": options["max_iter"],
                "maxfun": 2 * options["max_iter"] + 20,
                "ftol": tol / max(1.0, abs(best[0])),
                "gtol": SLOPE,
                "maxcor": 20,
            },
        )
        value, theta, points, gradient = best
        message = {
            0: f"no step of parameters and inducing points gains more than {tol:g} nats",
            1: "stopped by max_iter while moving the inducing points; raise it",
        }.get(end.status, "no step gains more than rounding")
        moved = replace(
            search,
            theta=theta,
            value=-value,
            gradient=-gradient,
            n_evaluations=search.n_evaluations + count,
            converged=end.status != 1,
            message=message + at_bounds(theta, parameters),
        )
        return moved, points


def _from(parameters: Parameters, theta: np.ndarray) -> Parameters:
    """Return the parameters with another start."""
    out = copy(parameters)
    out.theta = theta
    return out
