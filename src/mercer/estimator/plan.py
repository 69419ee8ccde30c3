"""`Plan`: how a fit would be done, what it would take, and what else; who tells and keeps one."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from mercer.errors import InvalidInput, MemoryBudgetExceeded, available_if, speaks
from mercer.memory import human, round_up

# What takes the memory, for messages.
WHAT = {
    "cholesky": "to factorise the {n} × {n} Gram matrix",
    "eigen": "the spectrum of the {n} × {n} Gram matrix, or of features,",
    "primal": "the features of {n} rows",
    "cg": "conjugate gradients on {n} rows",
    "falkon": "{m} centres of {n} rows",
}

# What is found when it is asked for, where a method was chosen without it.
PRICED = ("memory", "alternatives")

# The word that asks for a method, where it is not its name.
SOLVER = {"primal": "cholesky"}


@dataclass(frozen=True)
class Plan:
    """What a fit would do and take, told before any work.

    Parameters
    ----------
    method : str
        How: "cholesky", "primal", "cg", "falkon", …
    why : str
        The reason, in a sentence; of an alternative what it would need.
    memory : int
        Bytes expected at the peak, beside the data that were passed.
    seconds : float or None
        Time expected; None where nothing was measured, as for data that are small.
    error : float or None
        Expected error against the exact answer: 0 for an exact method (up to its tolerance); for
        one with centres an estimate of the share of the kernel's trace that they leave, that is of
        the mean squared distance of φ(x) from their span, relative to k(x, x). None where it was
        not estimated.
    n_centers : int or None
        Centres, where the method has some.
    n_rows : int
        Points that are fitted.
    budget : int
        Bytes allowed.
    owner : str
        The estimator, for messages.
    alternatives : tuple of Plan
        What else could be done, each a plan.
    most_centers : int or None
        Of a method whose centres are too many, how many would fit; 0 where none would.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer
    >>> plan = mercer.KernelRidge(mercer.RBF()).plan(np.zeros((300, 2)))
    >>> plan.method, plan.error, plan.fits
    ('cholesky', 0.0, True)
    """

    method: str
    why: str
    memory: int
    seconds: float | None = None
    error: float | None = 0.0
    n_centers: int | None = None
    n_rows: int = 0
    budget: int = 0
    owner: str = "Plan"
    alternatives: tuple[Plan, ...] = ()
    most_centers: int | None = None

    def __getattribute__(self, name: str) -> Any:
        held = object.__getattribute__(self, "__dict__")
        if name in PRICED and "_price" in held:
            whole = held["_price"]()
            held.update(memory=whole.memory, alternatives=whole.alternatives)
            held.pop("_price", None)
        return object.__getattribute__(self, name)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def fits(self) -> bool:
        """Whether the memory expected is inside the budget."""
        return "_price" in vars(self) or self.memory <= self.budget

    def found(self, error: float | None) -> Self:
        """Return the plan of a fit that is done, which knows what its centres left."""
        return self if self.n_centers is None else replace(self, error=error)

    def require(self) -> Self:
        """Return the plan, or raise `MemoryBudgetExceeded` that names what would fit."""
        if self.fits:
            return self
        what = WHAT.get(self.method, self.method + " on {n} rows")
        raise MemoryBudgetExceeded(
            f"{self.owner}: {what.format(n=self.n_rows, m=self.n_centers)} needs "
            f"{human(self.memory)}, but the memory budget is {human(self.budget)}. {self._cure()}, "
            f"or raise it with `with mercer.config(memory={round_up(self.memory)!r}):`.",
            self.memory,
            self.budget,
        )

    def _cure(self) -> str:
        """Return what would fit in its place."""
        fitting = [p for p in self.alternatives if p.fits]
        if fitting:
            best = fitting[0]
            centres = "" if best.n_centers is None else f", n_centers={best.n_centers}"
            word = SOLVER.get(best.method, best.method)
            return f"{word!r}{centres} would take {human(best.memory)}: use it"
        if self.n_centers is not None and self.most_centers:
            few = f"use fewer centres than {self.n_centers}: at most {self.most_centers} fit"
            return f"No other method fits either: {few}" if self.alternatives else few.capitalize()
        if self.most_centers == 0 and not self.alternatives:
            return "No number of centres fits: read shorter blocks, with block_rows"
        return "No other method fits either: fit fewer rows"

    def __repr__(self) -> str:
        parts = [f"{self.method!r}", f"memory={human(self.memory)!r}"]
        if self.seconds is not None:
            parts.append(f"time={duration(self.seconds)!r}")
        if self.n_centers is not None:
            parts.append(f"n_centers={self.n_centers}")
        if self.error is None or self.error > 0:
            parts.append(f"error={share(self.error)!r}")
        if not self.fits:
            parts.append("fits=False")
        return f"Plan({', '.join(parts)})"

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("method", "memory", "time", "error", "centres", "")]
        mark = "<- taken" if self.fits else "<- does not fit"
        rows += [_row(p, mark if p is self else "") for p in (self, *self.alternatives)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        table = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        notes = [f"{p.method}: {p.why}" for p in self.alternatives if p.why]
        if not self.fits:
            notes.append(f"{self._cure()}, or {_enlarged(self)}.")
        head = f"{self.owner}: {self.method}. {self.why}"
        return "\n".join([head, f"budget {human(self.budget)}", *table, *notes])

    def _repr_pretty_(self, printer, cycle: bool) -> None:
        """Show the table in a notebook."""
        printer.text(repr(self) if cycle else str(self))


def chosen_early(method: str, why: str, price: Callable[[], Plan], **known: Any) -> Plan:
    """Return the plan of a problem so small that its method fits without being priced.

    ``price()`` returns the whole plan, under the settings in force now; it is called when somebody
    asks for memory or alternatives.
    """
    here = copy_context()
    plan = object.__new__(Plan)
    vars(plan).update(known, method=method, why=why, _price=lambda: here.copy().run(price))
    return plan


def _row(plan: Plan, mark: str) -> tuple[str, ...]:
    return (
        plan.method,
        human(plan.memory) + ("" if plan.fits else " (too much)"),
        "not measured" if plan.seconds is None else duration(plan.seconds),
        share(plan.error),
        "" if plan.n_centers is None else str(plan.n_centers),
        mark,
    )


def needs(plan: Plan) -> str:
    """Return what is to be said of a plan that is an alternative."""
    if not plan.fits:
        return f"would need {_enlarged(plan)}."
    if plan.n_centers is not None and plan.n_centers < plan.n_rows:
        return f"the answer in the span of {plan.n_centers} centres, not the exact one."
    return ""


def _enlarged(plan: Plan) -> str:
    return f"mercer.config(memory={round_up(plan.memory)!r})"


def share(error: float | None) -> str:
    """Return an expected error in words."""
    if error is None:
        return "not estimated"
    return "exact" if error == 0 else f"{error:.1g}"


def duration(seconds: float) -> str:
    """Return a time in words: ``duration(90)`` is ``'1.5 min'``."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{1000 * seconds:.1f} ms"


def require_rows(model: Any, verb: str) -> None:
    """Refuse what needs all rows of a fit that has kept its centres only."""
    check_is_fitted(model)
    plan = vars(model).get("plan_")
    if plan is not None and plan.method == "falkon":
        raise InvalidInput(
            f"{type(model).__name__}.{verb}: a fit with centres keeps {len(model.dual_coef_)} "
            f"centres, not its {model.n_rows_} rows; fit with solver='cholesky' for this."
        )


@speaks
def plan(self: Any, X: Any, y: Any = None) -> Plan:
    """Return how a fit of these data would be done, and what it would take, without fitting.

    Memory follows from sizes, time from rates of this machine and of the kernel on a few of
    these points, found in about a third of a second. What ``fit`` does is what the plan says.

    Parameters
    ----------
    X : collection of n points, RowBlocks, or dask array or frame
        The data, as for ``fit``.
    y : array of shape (n,) or (n, n_outputs), optional
        The target; it tells how many outputs or classes there are.

    Returns
    -------
    Plan
        Method, reason, memory, time and error expected, and the alternatives; printed, a table.
    """
    return copy(self)._plan(X, y)  # checks leave names and numbers of columns behind


#: ``plan`` as a method of estimators; of those whose family tells one.
tell_plan = available_if(lambda model: hasattr(model, "_plan"))(plan)
