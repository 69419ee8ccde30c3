"""The choice of a method before a fit: exact where it fits, centres where nothing exact does.

A family lists its ways, each a name with the function that tells its cost, and `choose` takes one;
``plan`` and ``fit`` ask the same function of the family. Up to 2000 points, where a direct method
fits the budget, it is taken from sizes alone, and priced when somebody looks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mercer.errors import InvalidInput, users_level, who
from mercer.estimator.facts import Study, default_centers
from mercer.estimator.options import SOLVERS, SolverOptions
from mercer.estimator.plan import Plan, chosen_early, duration, share
from mercer.kernels import has_white
from mercer.memory import human
from mercer.solvers import Cost, Facts

SMALL = 2000  # points up to which nothing is measured
MATRICES = 64  # bytes an entry of all n × n matrices, at most, that a direct method has at once
LIMIT = 600.0  # seconds beyond which "auto" leaves exact methods
POOR = 0.1  # share of the trace beyond which centres are told to leave much
DIRECT_METHODS = ("cholesky", "primal", "eigen")  # what solver="cholesky" may come to
ONLY = "It is the only method of this estimator."

#: Names of methods, each with its cost: a function of facts, rates and a sketch.
Ways = Mapping[str, Callable[..., Cost]]


def choose(
    study: Study,
    ways: Ways,
    direct: str,
    *,
    solver: str = "auto",
    n_centers: int | None = None,
    centers: Any = None,
    quick: bool = False,
    small: int = SMALL,
) -> Plan:
    """Return the plan of the user's method, or of the one that "auto" takes.

    "auto" takes the fastest exact method that fits the budget; "falkon" where none fits, or where
    the fastest would take more than ten minutes and "falkon" less. Up to 2000 points, or as `small`
    says, it takes the direct one, if that fits.

    Parameters
    ----------
    study : Study
        The data.
    ways : mapping of str to callable
        The costs; that of "falkon" takes the number of centres as well.
    direct : str
        What solver="cholesky" comes to.
    solver : {"auto", "cholesky", "cg", "falkon"}, default="auto"
        The method, if it is the user's choice.
    n_centers : int, optional
        Centres of "falkon"; `default_centers` where not given.
    centers : canonical collection, optional
        The centres, where they are known.
    quick : bool, default=False
        Measure nothing that the choice does not depend on; for use in ``fit``.
    small : int, default=SMALL
        Points up to which the direct method is as fast as any.
    """
    facts = study.facts
    n = facts.n
    few = quick and n <= small and not facts.stream and solver in ("auto", "cholesky")
    if not few or MATRICES * n * (n + facts.outputs) > facts.budget:
        return _decide(study, ways, direct, solver, n_centers, centers, quick, small)
    rest = study.unmeasured()
    rest.X = facts  # what is priced later, if ever, holds no data
    return chosen_early(
        direct,
        _why_direct(direct, solver, facts),
        lambda: _decide(rest, ways, direct, solver, n_centers, centers, quick, small),
        n_rows=n,
        budget=facts.budget,
        owner=who(),
    )


def _why_direct(method: str, solver: str, facts: Facts) -> str:
    """Return why a direct method is taken: few points, or the user's choice."""
    if solver == "auto":
        return "Points are few enough to be fitted directly."
    features = f" {facts.features} features stand for the kernel." if method == "primal" else ""
    return f"You chose solver={solver!r}.{features}"


def _decide(
    study: Study,
    ways: Ways,
    direct: str,
    solver: str,
    n_centers: int | None,
    centers: Any,
    quick: bool,
    small: int,
) -> Plan:
    facts = study.facts
    if not isinstance(solver, str) or solver not in SOLVERS:
        legal = ", ".join(map(repr, SOLVERS))
        raise InvalidInput(f"{who()}: solver={solver!r}; legal: {legal}.")
    white = has_white(study.kernel)  # centres do not see noise of the rows
    possible = ["falkon"] if facts.stream else [w for w in ways if w != "falkon" or not facts.given]
    names = [name for name in ways if name in possible and not (white and name == "falkon")]
    primal = solver == "cg" and direct == "primal" and "cg" not in ways
    chosen = direct if solver == "cholesky" or primal else solver
    if not names or (solver != "auto" and chosen not in names):
        raise InvalidInput(_impossible(solver, facts, white))
    few = facts.n <= small and direct in names
    if quick:
        study = study.unmeasured() if solver != "auto" or few else study.hasty()
    m = (
        default_centers(facts.n, facts.budget)
        if n_centers is None
        else int(min(n_centers, facts.n))
    )
    plans = {}
    for name in names:
        if name == "falkon":
            judged = not quick or len(names) == 1  # else if they are taken
            plans[name] = _centred(study, ways[name], m, centers, judged)
        else:
            plans[name] = study.plan(name, ways[name](facts, study.rates, study.sketch))
    if solver != "auto" or (few and plans[direct].fits):
        taken = direct if solver == "auto" else chosen
        why = _why_direct(taken, solver, facts)
    else:
        taken, why = _choose(plans)
    if taken == "falkon" and plans[taken].error is None:
        plans[taken] = replace(plans[taken], error=study.left(m, centers))
    if taken == "falkon" and (plans[taken].error or 0.0) > POOR:
        why += f" But {m} centres leave {share(plans[taken].error)} of the kernel's trace."
    return study.take(plans, taken, why)


def _centred(study: Study, cost: Callable[..., Cost], m: int, centers: Any, judged: bool) -> Plan:
    """Return the plan of m centres; where they are too many it tells how many would fit."""
    facts = study.facts
    whole = cost(facts, study.rates, study.sketch, centers=m)
    plan = study.plan("falkon", whole, study.left(m, centers) if judged else None, m)
    if plan.fits:
        return plan
    few, many = 0, m
    while many - few > 1:
        middle = (few + many) // 2
        fits = cost(facts, None, None, centers=middle).needed <= facts.budget
        few, many = (middle, many) if fits else (few, middle)
    return replace(plan, most_centers=few)


def _impossible(solver: str, facts: Facts, white: bool) -> str:
    if white and (facts.stream or solver == "falkon"):
        return (
            f"{who()}: the kernel holds White, noise of the rows, which centres do not see; leave "
            "it out, and add its variance to the alpha of a ridge."
        )
    if facts.stream and solver in ("auto", "falkon"):
        return (
            f"{who()}: alpha='loo' and one alpha an output need all rows in memory, and these come "
            "in blocks; give one alpha."
        )
    if facts.stream:
        return (
            f"{who()}: solver={solver!r} needs all rows in memory, and these come in blocks; "
            "use solver='falkon', with one alpha."
        )
    if facts.given and solver == "falkon":
        return (
            f"{who()}: solver={solver!r} needs points to choose centres from, and X is their Gram "
            "matrix; use solver='cholesky'."
        )
    return (
        f"{who()}: solver={solver!r} is not for this; alpha='loo', one alpha an output, and risks "
        "that are no sums of squares need solver='cholesky'."
    )


def _choose(plans: dict[str, Plan]) -> tuple[str, str]:
    """Return the method that "auto" takes, and why."""
    exact = [name for name in plans if name != "falkon"]
    fitting = [name for name in exact if plans[name].fits]
    centred = plans.get("falkon")
    if not exact:
        return "falkon", "The rows come in blocks, and centres are the method for these."
    least = min(exact, key=lambda name: plans[name].memory)
    if not fitting:
        if centred is None or not centred.fits:
            return least, "No method fits the budget; this one needs the least memory."
        return "falkon", (
            f"No exact method fits {human(centred.budget)}: {least} needs "
            f"{human(plans[least].memory)}."
        )
    fastest = min(fitting, key=lambda name: plans[name].seconds or 0.0)
    seconds = plans[fastest].seconds or 0.0
    faster = centred is not None and centred.fits and (centred.seconds or 0.0) < seconds
    if seconds > LIMIT and faster:
        return "falkon", (
            f"The fastest exact method, {fastest}, would take {duration(seconds)}, more than the "
            f"{duration(LIMIT)} that 'auto' allows."
        )
    others = [name for name in fitting if name != fastest]
    if not others:
        return fastest, "It is the exact method that fits the budget."
    return fastest, f"It is exact, fits the budget and is expected to be faster than {others[0]}."


def told(plan: Plan, options: SolverOptions) -> Plan:
    """Return the plan with the reason that a fit gives, where centres were asked for."""
    why = plan.why
    if options.wanted != options.solver:
        why = why.replace(f"You chose solver={options.wanted!r}.", "You asked for centres.")
    if plan.method == "falkon" and (options.n_centers or 0) > plan.n_rows:
        why += f" n_centers={options.n_centers} is more than the {plan.n_rows} rows: all are taken."
    return replace(plan, why=why)


def settled(plan: Plan, options: SolverOptions) -> Plan:
    """Return the plan that a fit follows, or refuse what cannot fit the budget."""
    if options.wanted != options.solver:
        plan = replace(plan, why="You asked for centres.")
    if plan.fits:
        return plan
    every = (plan, *plan.alternatives)
    direct = [p for p in every if p.method in DIRECT_METHODS]
    factorises = options.wanted in ("auto", "cholesky", "newton")
    if not any(p.fits for p in every) and direct and factorises:
        return direct[0]  # plans are on the safe side; a factorisation knows its need exactly
    return plan.require()


# ---- The choice of families that pick a method from sizes ----


def followed(rule: Callable[[Study], Plan], study: Study, auto: bool) -> Plan:
    """Return the plan that a fit follows; nothing is measured where sizes decide.

    An approximation that "auto" would take is left where an exact method fits and is done in time.
    """
    plan = rule(study.unmeasured())
    open_ = auto and plan.error != 0 and any(p.error == 0 and p.fits for p in plan.alternatives)
    return rule(study) if open_ else plan


def in_time(plan: Plan | None) -> bool:
    """Whether an exact method fits, and takes no longer than "auto" allows."""
    return plan is not None and plan.fits and plan.seconds is not None and plan.seconds <= LIMIT


def warn_if_coarse(model: Any, error: float, of_what: str) -> None:
    """Warn where the method that was planned leaves out more than a tenth."""
    if error > POOR:
        plan = model.plan_
        exact = [p for p in plan.alternatives if p.error == 0 and p.fits]
        cure = f"Give a larger rank, or take {exact[0].method!r}" if exact else "Give a larger rank"
        warnings.warn(
            f"{plan.owner}: the {plan.n_centers} pivots of {plan.method!r} leave out {error:.0%} "
            f"of {of_what}, and the answer may be coarse. {cure}; print(model.plan_) tells why.",
            UserWarning,
            stacklevel=users_level(),
        )
