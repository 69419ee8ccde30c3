"""The choice of a method before a fit: exact where it fits, centres where nothing exact does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer.engines.blocks import human
from mercer.engines.rates import Rates, machine_rates
from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.models import plan_costs as costs
from mercer.models.plan_facts import Facts, Sketch, default_centers, facts_of
from mercer.models.plan_value import Plan, duration

__all__ = ["Plan", "default_centers", "plan_ridge"]

SMALL = 5000  # points up to which nothing is measured
LIMIT = 600.0  # seconds beyond which "auto" leaves exact methods
SOLVERS = ("auto", "cholesky", "cg", "falkon")


def plan_ridge(
    kernel: Kernel,
    X: Any,
    outputs: int = 1,
    *,
    solver: str = "auto",
    alpha: Any = 1.0,
    n_centers: int | None = None,
    tol: float = 1e-6,
    random_state: int = 0,
    owner: str = "KernelRidge",
    quick: bool = False,
    rates: Rates | None = None,
    sketch: Any = None,
) -> Plan:
    """Return how a ridge regression of these data would be fitted; `Plan.require` refuses.

    Methods: "primal" (normal equations of D < n explicit features), "cholesky" (K factorised),
    "eigen" (K decomposed, for alpha="loo" and penalties that differ), "cg" (exact up to tol),
    "falkon" (m centres). The first three are what solver="cholesky" stands for. "auto" takes the
    fastest exact method that fits the budget; "falkon" where none fits, or where the fastest would
    take more than ten minutes and "falkon" less. Up to 5000 points it factorises, if that fits.

    Parameters
    ----------
    kernel : Kernel
        The kernel, its words resolved.
    X : canonical collection, RowBlocks or Facts
        The data.
    outputs : int, default=1
        Columns of the target.
    solver : {"auto", "cholesky", "cg", "falkon"}, default="auto"
        The method, if it is the user's choice.
    alpha : float, array or "loo", default=1.0
        The penalty.
    n_centers : int, optional
        Centres of "falkon"; `default_centers` where not given.
    tol : float, default=1e-6
        Relative residual that "cg" is to reach.
    random_state : int, default=0
        Which points are looked at.
    owner : str, default="KernelRidge"
        The estimator, for messages.
    quick : bool, default=False
        Measure nothing that the choice does not depend on; for use in ``fit``.
    rates, sketch : optional
        What would else be measured.
    """
    if solver not in SOLVERS:
        legal = ", ".join(map(repr, SOLVERS))
        raise InvalidInput(f"{owner}: solver={solver!r}; legal: {legal}.")
    facts = facts_of(kernel, X, outputs)
    m = default_centers(facts.n, facts.budget) if n_centers is None else min(n_centers, facts.n)
    direct = _direct(facts, alpha)
    names = _possible(facts, direct, alpha)
    chosen = direct if solver == "cholesky" else solver
    if solver != "auto" and chosen not in names:
        raise InvalidInput(_impossible(owner, solver, facts, names))
    small = facts.n <= SMALL and direct in names
    if quick and (solver != "auto" or small):
        rates = None
    else:
        rates = machine_rates(facts.device) if rates is None else rates
        sketch = Sketch(kernel, X, random_state) if sketch is None else sketch
    plans = {}
    for name in names:
        plans[name] = _plan_of(name, facts, rates, sketch, m, alpha, tol, owner)
    if solver != "auto":
        taken, why = chosen, f"You chose solver={solver!r}."
    elif small and plans[direct].fits:
        taken, why = direct, f"{facts.n} points are few: no method is faster or more exact."
    else:
        taken, why = _choose(plans)
    others = sorted(
        (p for name, p in plans.items() if name != taken), key=lambda p: (not p.fits, p.error or 0)
    )
    return replace(plans[taken], why=why, alternatives=tuple(others))


def _direct(facts: Facts, alpha: Any) -> str:
    """Return what solver="cholesky" comes to."""
    if isinstance(alpha, str) or len(set(np.ravel(alpha))) > 1:
        return "eigen"
    return "primal" if facts.features is not None and facts.features < facts.n else "cholesky"


def _possible(facts: Facts, direct: str, alpha: Any) -> list[str]:
    if facts.stream:
        return ["falkon"]
    if direct == "eigen":
        return [direct]
    return [direct, "cg"] if facts.given else [direct, "cg", "falkon"]


def _impossible(owner: str, solver: str, facts: Facts, names: list[str]) -> str:
    if facts.stream:
        return (
            f"{owner}: solver={solver!r} needs all rows in memory, and these come in blocks; "
            "use solver='falkon'."
        )
    if facts.given:
        return (
            f"{owner}: solver={solver!r} needs points to choose centres from, and X is their Gram "
            "matrix; use solver='cholesky' or 'cg'."
        )
    return (
        f"{owner}: solver={solver!r} takes one penalty; alpha='loo' and one alpha an output need "
        "solver='cholesky'."
    )


def _plan_of(
    name: str,
    facts: Facts,
    rates: Rates | None,
    sketch: Any,
    m: int,
    alpha: Any,
    tol: float,
    owner: str,
) -> Plan:
    error: float | None = 0.0
    if name == "cg":
        cost = costs.cg(facts, rates, sketch, alpha=float(np.ravel(alpha)[0]), tol=tol)
    elif name == "falkon":
        cost = costs.falkon(facts, rates, sketch, centers=m)
        error = None if rates is None else sketch.left(m, facts.n)
    else:
        cost = getattr(costs, name)(facts, rates, sketch)
    plan = Plan(
        name,
        "",
        int(cost.memory),
        cost.seconds,
        error,
        m if name == "falkon" else None,
        facts.budget,
        owner,
    )
    return replace(plan, why=_needs(plan))


def _needs(plan: Plan) -> str:
    """Return what an alternative would need."""
    if not plan.fits:
        return f"would need mercer.config(memory={_round_up(plan.memory)!r}) or more."
    if plan.n_centers is not None:
        return f"an answer in the span of {plan.n_centers} centres, not the exact one."
    return ""


def _round_up(memory: int) -> str:
    if memory < 10**9:
        return f"{memory // 10**6 + 1}MB"
    return f"{memory // 10**9 + 1}GB"


def _choose(plans: dict[str, Plan]) -> tuple[str, str]:
    """Return the method that "auto" takes, and why."""
    exact = [name for name in plans if name != "falkon"]
    fitting = [name for name in exact if plans[name].fits]
    centred = plans.get("falkon")
    if not fitting:
        if centred is None:
            return exact[0], "It is the only method for these data."
        if not exact:
            return "falkon", "The rows come in blocks, and centres are the method for these."
        least = min(plans[name].memory for name in exact)
        return "falkon", (
            f"No exact method fits {human(centred.budget)}: the smallest needs {human(least)}."
        )
    fastest = min(fitting, key=lambda name: plans[name].seconds or 0.0)
    seconds = plans[fastest].seconds or 0.0
    if seconds <= LIMIT or centred is None or not centred.fits:
        return fastest, _reason(fastest, plans, fitting)
    if (centred.seconds or 0.0) >= seconds:
        return fastest, _reason(fastest, plans, fitting)
    return "falkon", (
        f"The fastest exact method, {fastest}, would take {duration(seconds)}, more than the "
        f"{duration(LIMIT)} that 'auto' allows."
    )


def _reason(fastest: str, plans: dict[str, Plan], fitting: list[str]) -> str:
    others = [name for name in fitting if name != fastest]
    if not others:
        return "It is the exact method that fits the budget."
    return f"It is exact, fits the budget and is expected to be faster than {others[0]}."
