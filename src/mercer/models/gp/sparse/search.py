"""The search of sparse regression: parameters on a part of the rows, on all, then inducing points.

Inducing points come from pivots of the kernel matrix under the start, and once more, when a search
with those has found a better kernel. Points to be tuned are moved together with the parameters, see
`sparse_move`.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from mercer.domains import Numbers
from mercer.errors import InvalidInput, MemoryBudgetExceeded, MercerError, who
from mercer.models.gp.search import Search, at_bounds, maximise
from mercer.models.gp.sparse.evidence import FITC, CollapsedBound, SparseEvidence
from mercer.models.gp.sparse.points import cross, pivoted, subset
from mercer.models.gp.starts import doubts
from mercer.settings import get_config

if TYPE_CHECKING:
    from mercer.kernels import Kernel
    from mercer.models.gp.parameters import Parameters
    from mercer.models.gp.regression import Problem

# ---- Inducing points moved together with the parameters, by L-BFGS-B on the same objective ----


STEPS = 10  # of which the gain is looked at together: one short step alone says little
SLOPE = 1e-3  # steepness below which nothing need move
MEMORY = 100  # pairs of steps and slopes that L-BFGS remembers

Objective = Callable[[np.ndarray, np.ndarray], tuple[float, np.ndarray, np.ndarray]]


def move(
    objective: Objective,
    parameters: Parameters,
    theta: np.ndarray,
    U: np.ndarray,
    *,
    max_iter: int,
    tol: float,
) -> tuple[Search, np.ndarray]:
    """Return where parameters and inducing points end, and those points.

    There are many more variables than parameters, and the number of steps that L-BFGS takes grows
    with their number v: it may take max_iter·√v. It ends where the last ten steps together gained
    less than `tol` nats for each inducing point.

    Parameters
    ----------
    objective : callable
        (θ, U) → the objective, its gradient in θ, and in U. An error of numbers, or a value that
        is not finite, is a step too far; at the start it is raised.
    parameters : Parameters
        What is tuned beside the points.
    theta : ndarray of shape (p,)
        Where they start.
    U : ndarray of shape (m, d)
        Where the points start.
    max_iter : int
        Steps, for one variable.
    tol : float
        Gain in nats, for one point.
    """
    p, unit = len(theta), np.std(U, axis=0)
    unit = np.where(unit > 0, unit, 1.0)
    enough = tol * len(U)
    count = 0

    def evaluate(theta: np.ndarray, points: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        nonlocal count
        count += 1
        prior, prior_slope = parameters.log_prior(theta)
        if not np.isfinite(prior):
            return np.inf, np.zeros(p), np.zeros(U.shape)
        value, slope, moved = objective(theta, points)
        return -(value + prior), -(slope + prior_slope), -moved

    best: list[Any] = [*evaluate(theta, U)[:2], theta, U]

    def minus(x: np.ndarray) -> tuple[float, np.ndarray]:
        theta, points = x[:p].copy(), x[p:].reshape(U.shape) * unit
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                value, slope, moved = evaluate(theta, points)
        except MemoryBudgetExceeded:
            raise
        except (MercerError, ArithmeticError, np.linalg.LinAlgError):
            value = np.inf
        if not np.isfinite(value):  # a wall: the line search turns back
            return best[0] + 1e3 * (1.0 + abs(best[0])), np.zeros(len(x))
        if value < best[0]:
            best[:] = [value, slope, theta, points]
        return value, np.concatenate([slope, (moved * unit).ravel()])

    seen: list[float] = []
    settled = False

    def look(intermediate_result: Any) -> None:
        nonlocal settled
        seen.append(float(intermediate_result.fun))
        if len(seen) > STEPS and seen[-1 - STEPS] - seen[-1] < enough:
            settled = True
            raise StopIteration

    most = int(max_iter * max(1.0, np.sqrt(p + U.size)))
    end = minimize(
        minus,
        np.concatenate([theta, (U / unit).ravel()]),
        jac=True,
        method="L-BFGS-B",
        bounds=[tuple(pair) for pair in parameters.bounds] + [(None, None)] * U.size,
        callback=look,
        options={
            "maxiter": most,
            "maxfun": 2 * most + 20,
            "ftol": 0.0,
            "gtol": SLOPE,
            "maxcor": min(MEMORY, p + U.size),
        },
    )
    value, slope, theta, points = best
    stopped = end.status == 1 and not settled
    if settled:
        say = f"the last {STEPS} steps of parameters and inducing points gained < {enough:g} nats"
    elif stopped:
        say = "stopped by max_iter while moving the inducing points; raise it"
    elif end.status == 0:
        say = f"no slope in parameters or inducing points is above {SLOPE:g}"
    else:
        say = "no step gains more than rounding"
    say += at_bounds(theta, parameters)
    return Search(theta, -value, -slope, count, converged=not stopped, message=say), points


# ---- sparse search ----


METHODS: dict[str, type[SparseEvidence]] = {"vfe": CollapsedBound, "fitc": FITC}
PART = 2000  # rows of the coarse objective, or
PILOT = 300  # rows of the exact evidence that suggests a start
EACH = 8  # so many for each inducing point, where that is more


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

    # -- objectives ---------------------------------------------------------------------------
    def evidence(self, rows: np.ndarray | None = None) -> SparseEvidence:
        """Return the objective of all rows or some, in units of z."""
        problem = self.problem
        X, Z, w = problem.X, problem.targets.forward(problem.Y), problem.weights
        if rows is not None:
            X, Z = problem.kernel.domain.take(X, rows), Z[rows]
            w = None if w is None else w[rows]
        return METHODS[self.method](X, Z, w)

    def objective(
        self, parameters: Parameters, vector: Any, U: Any, rows: np.ndarray | None = None
    ) -> Any:
        """Return θ → (evidence of y, gradient) for given inducing points; all rows or some."""
        known = vector if vector is None or rows is None else vector[rows]
        shift = self.problem.shift()
        return self.problem.objective(self.evidence(rows), parameters, known, shift, U)

    def _unit(self) -> float:
        return self.problem.targets.variance_unit()

    # -- inducing points ----------------------------------------------------------------------
    def choose(self, kernel: Kernel, scaled: Any) -> Inducing:
        """Return the inducing points for a kernel and a noise in units of z²."""
        if not isinstance(self.given, str):
            return Inducing(self.given)
        noise, rng = float(np.mean(scaled)), np.random.RandomState(self.seed)
        rows, error = pivoted(kernel, self.problem.X, self.n_inducing, noise, rng)
        known = kernel.domain.holds_points
        points = kernel.domain.take(self.problem.X, rows) if known else rows
        return Inducing(self._movable(points) if self.moves else points, rows, error)

    def _movable(self, points: Any) -> np.ndarray:
        problem, domain = self.problem, self.problem.kernel.domain
        numeric = isinstance(points, np.ndarray) or sp.issparse(points)
        if not numeric or points.ndim != 2 or isinstance(domain, Numbers):
            raise InvalidInput(
                f"{who()}: inducing='optimize' moves points, and {domain.name} cannot be "
                "moved; use inducing='pivoted', which takes them from the rows."
            )
        out = np.array(points.toarray() if sp.issparse(points) else points, dtype=float)
        one = slice(0, 1)
        try:
            cross(problem.kernel, out[:1], out[:1]).pull_points(one, one, np.ones((1, 1)))
        except InvalidInput as error:
            raise InvalidInput(
                f"{who()}: inducing='optimize' moves points along the gradient of the "
                f"kernel. {error} Or use inducing='pivoted'."
            ) from error
        return out

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
            Of `maximise`: n_restarts, max_iter, tol, rng, optimizer.
        """
        starts = [(parameters, self._choose_at(parameters, parameters.theta, vector))]
        pilot = self._pilot(parameters, vector, options) if isinstance(self.given, str) else None
        if pilot is not None:
            starts.append((_from(parameters, pilot), self._choose_at(parameters, pilot, vector)))
        still, kept = self._run_still(starts, vector, options)
        if not self.moves:
            return still, kept
        return self._run_moving(starts, vector, still, kept, options)

    def _pilot(self, parameters: Parameters, vector: Any, options: dict) -> np.ndarray | None:
        """Return the parameters of largest exact evidence of some rows, None where there are none.

        Few inducing points of a kernel that is far off leave everything to the noise, and there a
        search stays. The exact evidence does not know them.
        """
        problem = self.problem
        most = min(PILOT, isqrt(get_config().memory // 64))
        order = np.lexsort(problem.key().T)
        rows = np.sort(order[subset(len(order), most, np.random.RandomState(self.seed))])
        known = None if vector is None else vector[rows]
        call = problem.objective(problem.evidence(rows), parameters, known)
        doubt = doubts(problem, parameters, vector)
        quiet = {**options, "n_restarts": 0, "optimizer": None}
        try:
            return maximise(call, parameters, doubt=doubt, **quiet).theta
        except MercerError:
            return None

    def _run_still(
        self, starts: list[tuple[Parameters, Inducing]], vector: Any, options: dict
    ) -> tuple[Search, Inducing]:
        """Search for parameters with rows as inducing points, or with given ones."""
        again, rows = {**options, "n_restarts": 0}, self._part(starts[-1][1])
        ends: list[tuple[Search, Inducing]] = []
        for k, (parameters, chosen) in enumerate(starts):
            objective = self.objective(parameters, vector, chosen.points, rows)
            try:
                ends.append((maximise(objective, parameters, **(again if k else options)), chosen))
            except MemoryBudgetExceeded:
                raise
            except MercerError:
                if k + 1 == len(starts) and not ends:
                    raise
        better = ends[-1][0].value > ends[0][0].value + options["tol"]
        first, kept = ends[-1] if better else ends[0]
        first = replace(first, n_evaluations=sum(end.n_evaluations for end, _ in ends))
        if rows is None:
            if self._selective(kept):
                return self._reselected(parameters, vector, first, kept, again)
            return first, kept
        parameters = _from(parameters, first.theta)
        chosen = self._choose_at(parameters, first.theta, vector)
        search = maximise(
            self.objective(parameters, vector, chosen.points),
            parameters,
            coarse=self.objective(parameters, vector, chosen.points, rows),
            ratio=len(self.problem.Y) / len(rows),
            **again,
        )
        return replace(search, n_coarse=search.n_coarse + first.n_evaluations), chosen

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
        if n < 2 * size or not domain.holds_points:
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
        starts: list[tuple[Parameters, Inducing]],
        vector: Any,
        still: Search,
        kept: Inducing,
        options: dict,
    ) -> tuple[Search, Inducing]:
        """Move points and parameters together, from each start; never worse than points that stay.

        Not at once from parameters tuned for points that stay: with few points those may explain
        all by noise, and then no point has a slope. They are moved where they are the better ones.
        """
        parameters, part = starts[0][0], self._part(starts[-1][1])
        found, coarse = [(still, kept.points)], still.n_coarse
        rough = [
            self._moved(parameters, vector, start.theta, chosen.points, options, part)
            for start, chosen in starts
        ]
        ends = sorted((end for end in rough if end is not None), key=lambda end: end[0].value)
        if part is None:
            found += ends
        elif ends:
            coarse += sum(search.n_evaluations for search, _ in ends)
            theta, points = ends[-1][0].theta, ends[-1][1]
            end = self._moved(parameters, vector, theta, points, options)
            found += [] if end is None else [end]
        if found[-1][0].value <= still.value or options["n_restarts"]:
            end = self._moved(parameters, vector, still.theta, kept.points, options)
            found += [] if end is None else [end]
        count = sum(search.n_evaluations for search, _ in found)
        search, points = max(reversed(found), key=lambda end: end[0].value)
        return replace(search, n_evaluations=count, n_coarse=coarse), Inducing(points)

    def _moved(
        self,
        parameters: Parameters,
        vector: Any,
        theta: np.ndarray,
        U: np.ndarray,
        options: dict,
        rows: np.ndarray | None = None,
    ) -> tuple[Search, np.ndarray] | None:
        """Return where parameters and points end; None where the objective has no value yet."""
        evidence, unit, shift = self.evidence(rows), self._unit(), self.problem.shift()
        variances = vector if vector is None or rows is None else vector[rows]

        def call(theta: np.ndarray, points: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
            kernel, level = parameters.read(theta)
            scaled = (variances if level is None else level) / unit
            value, slope, noise_slope, moved = evidence.value_and_gradient(
                kernel, scaled, points, points=True
            )
            return value + shift, parameters.pull(slope, noise_slope), moved  # type: ignore[return-value]

        limits = {name: options[name] for name in ("max_iter", "tol")}
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                return move(call, parameters, theta, U, **limits)
        except MemoryBudgetExceeded:
            raise
        except (MercerError, ArithmeticError):
            return None


def _from(parameters: Parameters, theta: np.ndarray) -> Parameters:
    """Return the parameters with another start."""
    out = copy(parameters)
    out.theta = theta
    return out
