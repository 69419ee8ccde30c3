"""Ridge in the span of centres, from rows wherever they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.domains import RowBlocks
from mercer.estimator import Sample, Study, named_centers
from mercer.features import centred_rows, choose_landmarks
from mercer.models.ridge.spectrum import RidgeFit
from mercer.solvers import Centred, Falkon, Solution

if TYPE_CHECKING:
    from mercer.estimator import SolverOptions


def in_own_units(solution: Solution, unit: float) -> tuple[Solution, np.ndarray, np.ndarray]:
    """Return what a solver found for targets divided by a unit as that of the estimator; a and b.

    Parameters
    ----------
    solution : Solution
        Of `Falkon` or `FalkonNewton`.
    unit : float
        The unit of the targets.
    """
    a, b = (unit * np.asarray(part) for part in solution.value)
    with np.errstate(over="ignore"):
        values: dict[str, Any] = {
            name: None
            if (v := getattr(solution, name)) is None
            else float(np.float64(unit) ** 2 * v)
            for name in ("primal", "dual", "gap")
        }
    return (
        replace(
            solution,
            value=a,
            **values,
            extra={**solution.extra, "method": "falkon"},
        ),
        a,
        b,
    )


def fit_on_centers(
    data: Sample, alpha: Any, offset: bool, options: SolverOptions, m: int
) -> RidgeFit:
    """Fit a ridge in the span of at most m centres.

    The rows may be blocks, with targets of shape (rows, t) and weights of their own.
    """
    T, unit = data.y, 1.0
    if isinstance(T, np.ndarray):  # squares beyond 1e±100 would overflow or vanish
        largest = float(np.abs(T).max(initial=0.0))
        unit = 1.0 if largest == 0 or 1e-100 < largest < 1e100 else largest
        T = T if unit == 1.0 else T / unit
    T = None if isinstance(data.X, RowBlocks) else T
    made = centred_rows(data.kernel, data.X, T, data.weights, options, m)
    limits: dict[str, Any] = {} if options.max_iter is None else {"max_iter": options.max_iter}
    solver = Falkon(
        tol=options.tol, max_time=options.max_time, checkpoint=options.checkpoint, **limits
    )
    alpha = float(np.ravel(alpha)[0])
    problem = Centred(made.rows, made.gram, alpha, offset, data.outputs, overwrite=True)
    solution, a, b = in_own_units(solver.solve(problem), unit)
    return RidgeFit(a, None, b, alpha, solution, centers=made.centers, rows=int(made.rows.n))


def given_centers(model: Any, options: SolverOptions, study: Study) -> dict[str, Any]:
    """Return how many centres are asked for, and those that the user gave, as a fit takes them."""
    if isinstance(options.centers, str):
        return {"n_centers": options.n_centers, "centers": None}
    how = named_centers(model, options, study.kernel).centers
    Z, _ = choose_landmarks(study.kernel, study.X, study.facts.n, how, name="centers")
    return {"n_centers": study.kernel.domain.size(Z), "centers": Z}
