"""The options of a solver that estimators share, checked once in the same words."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Self

from mercer import checks
from mercer.errors import InvalidInput, who

#: The words for a choice.
LANDMARKS = ("uniform", "kmeans", "rpcholesky", "leverage")


#: How centres are chosen where nothing is said.
DEFAULT = "uniform"
#: Names of solvers.
SOLVERS = ("auto", "cholesky", "cg", "falkon")
#: What the parameters may be: those of centres, and all.
CENTRES: checks.Constraints = {
    "n_centers": checks.Maybe(checks.SOME),
    "checkpoint": checks.Maybe(
        checks.Legal(lambda path: isinstance(path, str | os.PathLike), "a path or None")
    ),
    "random_state": checks.SEED,
    "centers": checks.Word(*LANDMARKS, points=True, says="give one of {}, or points"),
}
OPTIONS: checks.Constraints = {
    "solver": checks.Word(*SOLVERS, says="legal: {}"),
    "tol": checks.Number(above=0, below=1),
    "max_iter": checks.Maybe(checks.SOME),
    "max_time": checks.Maybe(checks.Number(above=0)),
    **CENTRES,
}


def asks_centers(model: Any) -> bool:
    """Whether parameters ask for a fit in the span of centres, and not for the exact one.

    Parameters
    ----------
    model : estimator or SolverOptions
        With parameters of the names of `SolverOptions`, or without.
    """
    centers = getattr(model, "centers", DEFAULT)
    own = getattr(model, "n_centers", None) is not None or not isinstance(centers, str)
    own = own or centers != DEFAULT
    solver = getattr(model, "solver", "")
    return isinstance(solver, str) and (solver == "falkon" or (solver == "auto" and own))


@dataclass(frozen=True)
class SolverOptions:
    """How a model is to be fitted, as its parameters say.

    Parameters
    ----------
    solver : str
        The method.
    n_centers : int or None
        Number of centres.
    centers : str or collection
        How they are chosen, or the centres themselves.
    tol : float
        Relative residual wanted.
    max_iter : int or None
        Limit of iterations.
    max_time : float or None
        Limit in seconds.
    checkpoint : path or None
        File to resume from.
    random_state : int, RandomState or None
        Source of centres and pivots.
    """

    solver: str = "auto"
    n_centers: int | None = None
    centers: Any = DEFAULT
    tol: float = 1e-6
    max_iter: int | None = None
    max_time: float | None = None
    checkpoint: Any = None
    random_state: Any = None

    @classmethod
    def of(cls, model: Any, **instead: Any) -> Self:
        """Return the checked options of an estimator; what its solver would not look at is refused.

        Parameters
        ----------
        model : estimator
            With parameters of these names, whose `OPTIONS` are among its constraints.
        **instead : object
            Options in place of those of the estimator.
        """
        checks.check_parameters(model)
        names = tuple(cls.__dataclass_fields__)
        held = zip(names, attrgetter(*names)(model), strict=True)
        out = cls(**(dict(held) | instead))
        out._refuse_unseen()
        if isinstance(out.centers, str):
            return out
        shape = getattr(out.centers, "shape", None)
        count = shape[0] if shape else len(out.centers) if hasattr(out.centers, "__len__") else 0
        return replace(out, n_centers=int(count)) if count else out

    def _refuse_unseen(self) -> None:
        """Refuse what is said of centres where there are none, or twice."""
        if self.n_centers is not None and not isinstance(self.centers, str):
            raise InvalidInput(
                f"{who()}: n_centers={self.n_centers} beside the centers themselves, of which "
                "all are taken; leave one of them out."
            )
        if self.solver in ("auto", "falkon"):
            return
        given = {
            "n_centers": self.n_centers is not None,
            "centers": not isinstance(self.centers, str) or self.centers != DEFAULT,
            "checkpoint": self.checkpoint is not None,
        }
        for name in filter(given.get, given):
            raise InvalidInput(
                f"{who()}: {name} is for fits with centres, and solver={self.solver!r} has "
                "none; leave it out, or use solver='falkon'."
            )

    @cached_property
    def wanted(self) -> str:
        """The solver; "auto" with centres asked for means "falkon"."""
        return "falkon" if asks_centers(self) else self.solver

    @property
    def seed(self) -> Any:
        """The source of centres; a fit that may be resumed always draws the same."""
        return 0 if self.random_state is None and self.checkpoint is not None else self.random_state
