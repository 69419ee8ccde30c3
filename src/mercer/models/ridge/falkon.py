"""Ridge in the span of centres: from rows, wherever they are, to centres, passes and a fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.domains import RowBlocks, beside, is_torch, to_host
from mercer.engines import pick
from mercer.engines.passes import RowPass, row_pass
from mercer.estimator import Sample, Study, in_double, named_centers
from mercer.features import choose_landmarks, spanning_factor
from mercer.kernels import Kernel
from mercer.memory import named_when_full
from mercer.models.ridge.spectrum import RidgeFit
from mercer.settings import get_config
from mercer.solvers import Centred, Falkon, Solution

if TYPE_CHECKING:
    from mercer.estimator import SolverOptions


SPANNING = 4000  # centres up to which those that add nothing to the span are left out
MOVED = 2**26  # numbers of a tensor up to which the same centres are drawn as of an array


@dataclass(frozen=True, eq=False)
class CentredRows:
    """Rows and centres of a fit.

    Parameters
    ----------
    rows : RowPass
        Passes over k(X, Z), the targets and the weights.
    centers : canonical collection
        The centres Z, in float64 and in main memory.
    gram : ndarray or tensor of shape (m, m)
        k(Z, Z) in float64, where the preconditioner is to be.
    """

    rows: RowPass
    centers: Any
    gram: Any


@named_when_full("rows at centres", "Use fewer centres")
def centred_rows(
    kernel: Kernel,
    X: Any,
    T: Any,
    weights: np.ndarray | None,
    options: SolverOptions,
    m: int,
) -> CentredRows:
    """Choose centres and return the passes over the rows.

    Centres that add nothing to the span of the others, within rounding of the largest k(z, z), are
    left out: k(Z, Z) would be singular. Up to 4000 centres in main memory are looked at so, at a
    cost of m³/3 flops, where a quarter of the memory budget has room; others are taken as they are.

    Parameters
    ----------
    kernel : Kernel
        The kernel, words resolved.
    X : canonical collection or RowBlocks
        The rows; tensors are worked on where they are, arrays where the engine computes.
    T : array or tensor of shape (n, t), or None
        Targets; None where blocks carry them.
    weights : ndarray of shape (n,) or None
        Weights.
    options : SolverOptions
        How centres are chosen.
    m : int
        Most centres.
    """
    few = is_torch(X) and X.numel() <= MOVED
    Z, _ = choose_landmarks(
        kernel,
        to_host(X) if few else X,
        m,
        options.centers,
        options.seed,
        sample_weight=weights,
        owner=options.owner,
        name="centers",
    )
    if is_torch(X):
        Z = beside(Z, X)  # targets and weights go there with each chunk of rows
    elif isinstance(X, np.ndarray) and isinstance(Z, np.ndarray) and X.dtype.kind == "f":
        Z = Z.astype(X.dtype, copy=False)  # rows in single precision stay so
    wide = in_double(Z)
    gram = pick(wide).gram(kernel, wide)
    if isinstance(gram, np.ndarray) and _looked_at(gram):
        kept = np.sort(spanning_factor(gram.T, kernel, options.owner)[1])
        if len(kept) < len(gram):
            Z, wide = (kernel.domain.take(points, kept) for points in (Z, wide))
            gram = gram[np.ix_(kept, kept)]
    return CentredRows(row_pass(kernel, X, Z, T, weights), to_host(wide), gram)


def _looked_at(gram: np.ndarray) -> bool:
    """Whether centres are few enough for a look at their span; NaN is left to the solver."""
    few = len(gram) <= SPANNING and 2 * gram.nbytes <= get_config().memory // 4
    return few and bool(np.isfinite(gram).all())


def in_own_units(
    solution: Solution, unit: float, owner: str
) -> tuple[Solution, np.ndarray, np.ndarray]:
    """Return what a solver found for targets divided by a unit as that of the estimator; a and b.

    Parameters
    ----------
    solution : Solution
        Of `Falkon` or `FalkonNewton`.
    unit : float
        The unit of the targets.
    owner : str
        The estimator, for messages.
    """
    a, b = (unit * np.asarray(part) for part in solution.value)
    said = solution.message.partition(": ")[2]
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
            message=f"{owner}: {said}" if said else "",
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
    solution, a, b = in_own_units(solver.solve(problem), unit, options.owner)
    return RidgeFit(a, None, b, alpha, solution, centers=made.centers, rows=int(made.rows.n))


def given_centers(model: Any, options: SolverOptions, study: Study) -> dict[str, Any]:
    """Return how many centres are asked for, and those that the user gave, as a fit takes them."""
    if isinstance(options.centers, str):
        return {"n_centers": options.n_centers, "centers": None}
    how = named_centers(model, options, study.kernel).centers
    Z, _ = choose_landmarks(
        study.kernel, study.X, study.facts.n, how, owner=study.owner, name="centers"
    )
    return {"n_centers": study.kernel.domain.size(Z), "centers": Z}
