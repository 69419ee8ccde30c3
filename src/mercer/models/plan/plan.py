"""The choice of a method before a fit: exact where it fits, centres where nothing exact does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from mercer.engines import Rates, machine_rates
from mercer.errors import InvalidInput
from mercer.estimator import SOLVERS, Plan, SolverOptions, chosen_early, duration, needs, share
from mercer.kernels import Kernel, has_white
from mercer.memory import human
from mercer.models.plan import costs
from mercer.models.plan.costs import Cost
from mercer.models.plan.facts import Facts, Sketch, default_centers, facts_of


def settled(plan: Plan, options: SolverOptions) -> Plan:
    """Return the plan that a fit follows, or refuse what cannot fit the budget.

    Parameters
    ----------
    plan : Plan
        What was planned.
    options : SolverOptions
        What was asked for.
    """
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


DIRECT_METHODS = ("cholesky", "primal", "eigen")  # what solver="cholesky" may come to


# ---- One set of data under study: its sizes, what was measured of it, and plans made of costs ----


class Study:
    """Facts of a problem, and on demand the rates of the machine and a sketch of the kernel.

    Parameters
    ----------
    kernel : Kernel
        The kernel, its words resolved.
    X : canonical collection, RowBlocks or Facts
        The data.
    outputs : int, default=1
        Columns of the target.
    owner : str, default="Plan"
        The estimator, for messages.
    random_state : int, default=0
        Which points are looked at.
    rates, sketch : optional
        What would else be measured.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        outputs: int = 1,
        owner: str = "Plan",
        *,
        random_state: int = 0,
        rates: Rates | None = None,
        sketch: Any = None,
    ):
        self.kernel, self.X, self.owner, self.seed = kernel, X, owner, random_state
        self.facts: Facts = facts_of(kernel, X, outputs)
        self._measures = True
        self._rates, self._sketch = rates, sketch

    def unmeasured(self) -> Study:
        """Return the same study without times and errors, which take a moment to measure."""
        other = copy(self)
        for name in ("rates", "sketch"):
            vars(other).pop(name, None)
        other._measures = False
        return other

    @cached_property
    def rates(self) -> Rates | None:
        """Rates of the machine; None where nothing is to be measured."""
        if not self._measures:
            return None
        return machine_rates(self.facts.device) if self._rates is None else self._rates

    @cached_property
    def sketch(self) -> Any:
        """The kernel on a few points; None where nothing is to be measured."""
        if not self._measures:
            return None
        if self._sketch is not None:
            return self._sketch
        return Sketch(self.kernel, self.X, self.seed)

    def left(self, m: int, centers: Any = None) -> float | None:
        """Return the share of the kernel's trace that m centres, or these, would leave."""
        if self.sketch is None:
            return None
        return (
            self.sketch.left(m, self.facts.n) if centers is None else self.sketch.left_by(centers)
        )

    def plan(
        self, method: str, cost: Cost, error: float | None = 0.0, n_centers: int | None = None
    ) -> Plan:
        """Return the plan of a method; as an alternative it says what it would need."""
        plan = Plan(
            method=method,
            why="",
            memory=cost.memory(self.facts.budget),
            seconds=cost.seconds,
            error=error,
            n_centers=n_centers,
            n_rows=self.facts.n,
            budget=self.facts.budget,
            owner=self.owner,
        )
        return replace(plan, why=needs(plan))

    def take(self, plans: Mapping[str, Plan], method: str, why: str) -> Plan:
        """Return one of the plans, with the others, those that fit first, as alternatives."""
        others = [plan for name, plan in plans.items() if name != method]
        others.sort(key=lambda plan: (not plan.fits, plan.error or 0.0))
        return replace(plans[method], why=why, alternatives=tuple(others))


# ---- plan ----


SMALL = 5000  # points up to which nothing is measured
MATRICES = 64  # bytes an entry of all n × n matrices, at most, that a direct method has at once
LIMIT = 600.0  # seconds beyond which "auto" leaves exact methods
POOR = 0.1  # share of the trace beyond which centres are told to leave much

#: Costs from facts, rates and a sketch.
Way = Callable[..., Cost]

#: What solver="cholesky" may come to.
DIRECT: dict[str, Way] = {
    "cholesky": costs.cholesky,
    "eigen": costs.eigen,
    "primal": costs.primal,
}


def plan_ridge(
    kernel: Kernel,
    X: Any,
    outputs: int = 1,
    *,
    solver: str = "auto",
    alpha: Any = 1.0,
    n_centers: int | None = None,
    centers: Any = None,
    tol: float = 1e-6,
    offset: bool = True,
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
    Where "primal" can be done solver="cg" is that too.

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
    centers : canonical collection, optional
        The centres, where they are known.
    tol : float, default=1e-6
        Relative residual that "cg" is to reach.
    offset : bool, default=True
        Whether an offset is fitted.
    random_state : int, default=0
        Which points are looked at.
    owner : str, default="KernelRidge"
        The estimator, for messages.
    quick : bool, default=False
        Measure nothing that the choice does not depend on; for use in ``fit``.
    rates, sketch : optional
        What would else be measured.
    """
    facts = facts_of(kernel, X, outputs)
    small = quick and _is_small(facts, solver)
    X = facts if small else X  # what is priced later, if ever, holds no data
    several = differ(alpha)
    penalty = 1.0 if several else float(np.ravel(alpha)[0])
    direct = "eigen" if several else _direct(facts)

    def priced() -> Plan:
        study = Study(
            kernel, X, outputs, owner, random_state=random_state, rates=rates, sketch=sketch
        )
        m = centres_of(facts, n_centers)
        ways: dict[str, Way] = {direct: DIRECT[direct]}
        if not several and direct != "primal":
            ways["cg"] = partial(costs.cg, alpha=penalty, tol=tol, offset=offset)
        if not several:
            ways["falkon"] = partial(costs.falkon, centers=m)
        return _decide(study, ways, direct, solver, m, quick, centers)

    return _directly(facts, direct, solver, owner, priced) if small else priced()


def plan_smooth(
    kernel: Kernel,
    X: Any,
    outputs: int = 1,
    *,
    solver: str = "auto",
    alpha: float = 1.0,
    n_centers: int | None = None,
    centers: Any = None,
    random_state: int = 0,
    owner: str = "KernelLogisticRegression",
    quick: bool = False,
    rates: Rates | None = None,
    sketch: Any = None,
) -> Plan:
    """Return how a smooth risk, such as a logistic one, would be fitted; as `plan_ridge` does.

    Methods: "primal" and "cholesky", a Newton method with one factorisation a step (of a common
    preconditioner, where there are several outputs), "cg", the same with systems solved by
    conjugate gradients, and "falkon", a Newton method on m centres. "newton" is another word for
    what "cholesky" stands for. Of several outputs "auto" does not take "cg".

    Parameters
    ----------
    kernel, X, outputs, n_centers, centers, random_state, owner, quick, rates, sketch
        As for `plan_ridge`; outputs are the functions sought, one for two classes.
    solver : {"auto", "newton", "cholesky", "cg", "falkon"}, default="auto"
        The method, if it is the user's choice.
    alpha : float, default=1.0
        The penalty.
    """
    solver = "cholesky" if solver == "newton" else solver
    facts = facts_of(kernel, X, outputs)
    small = quick and _is_small(facts, solver)
    X = facts if small else X  # what is priced later, if ever, holds no data
    direct = "primal" if costs.by_features(facts) else "cholesky"

    def priced() -> Plan:
        study = Study(
            kernel, X, outputs, owner, random_state=random_state, rates=rates, sketch=sketch
        )
        m = centres_of(facts, n_centers)
        ways: dict[str, Way] = {
            direct: costs.newton,
            "falkon": partial(costs.falkon, centers=m, passes=costs.NEWTON_PASSES),
        }
        if solver == "cg" or outputs == 1:
            ways["cg"] = partial(costs.newton_cg, alpha=alpha)
        return _decide(study, ways, direct, solver, m, quick, centers)

    return _directly(facts, direct, solver, owner, priced) if small else priced()


def differ(alpha: Any) -> bool:
    """Whether a penalty is sought by leaving one out, or differs between outputs."""
    return isinstance(alpha, str) or (
        not isinstance(alpha, float) and len(set(np.ravel(alpha))) > 1
    )


def centres_of(facts: Facts, n_centers: int | None) -> int:
    """Return how many centres a fit has, of those asked for and those there are."""
    if n_centers is None:
        return default_centers(facts.n, facts.budget)
    return min(n_centers, facts.n)


def _is_small(facts: Facts, solver: str) -> bool:
    """Whether a direct method is taken whatever it costs: its matrices are at most a few n × n."""
    few = facts.n <= SMALL and not facts.stream and solver in ("auto", "cholesky")
    return few and MATRICES * facts.n * (facts.n + facts.outputs) <= facts.budget


def _directly(
    facts: Facts, method: str, solver: str, owner: str, price: Callable[[], Plan]
) -> Plan:
    """Return the plan of a direct method that is taken whatever others would cost."""
    why = _why_direct(method, solver, facts)
    known = {"n_rows": facts.n, "budget": facts.budget, "owner": owner}
    return chosen_early(method, why, price, **known)


def _why_direct(method: str, solver: str, facts: Facts) -> str:
    """Return why a direct method is taken: few points, or the user's choice."""
    if solver == "auto":
        return "Points are few enough to be fitted directly."
    features = f" {facts.features} features stand for the kernel." if method == "primal" else ""
    return f"You chose solver={solver!r}.{features}"


def _direct(facts: Facts) -> str:
    """Return what solver="cholesky" comes to, for one penalty."""
    return "primal" if facts.features is not None and facts.features < facts.n else "cholesky"


def _decide(
    study: Study,
    ways: dict[str, Way],
    direct: str,
    solver: str,
    m: int,
    quick: bool,
    centers: Any,
) -> Plan:
    """Return the plan of the user's method, or of the one that "auto" takes."""
    facts, owner = study.facts, study.owner
    if solver not in SOLVERS:
        legal = ", ".join(map(repr, SOLVERS))
        raise InvalidInput(f"{owner}: solver={solver!r}; legal: {legal}.")
    white = has_white(study.kernel)  # centres do not see noise of the rows
    possible = ["falkon"] if facts.stream else [w for w in ways if w != "falkon" or not facts.given]
    names = [name for name in ways if name in possible and not (white and name == "falkon")]
    primal = solver == "cg" and direct == "primal" and "cg" not in ways
    chosen = direct if solver == "cholesky" or primal else solver
    if not names or (solver != "auto" and chosen not in names):
        raise InvalidInput(_impossible(owner, solver, facts, white))
    few = facts.n <= SMALL and direct in names
    if quick and (solver != "auto" or few):
        study = study.unmeasured()
    plans = {}
    for name in names:
        centred = name == "falkon"
        cost = ways[name](facts, study.rates, study.sketch)
        error = study.left(m, centers) if centred else 0.0
        plans[name] = study.plan(name, cost, error, m if centred else None)
        if centred and not plans[name].fits:
            most = _most_centers(ways[name], facts, m)
            plans[name] = replace(plans[name], most_centers=most)
    if solver != "auto" or (few and plans[direct].fits):
        taken = direct if solver == "auto" else chosen
        why = _why_direct(taken, solver, facts)
    else:
        taken, why = _choose(plans)
    if taken == "falkon" and (plans[taken].error or 0.0) > POOR:
        why += f" But {m} centres leave {share(plans[taken].error)} of the kernel's trace."
    return study.take(plans, taken, why)


def _most_centers(way: Way, facts: Facts, m: int) -> int:
    """Return how many centres fit the budget, fewer than m; 0 where none do."""
    few, many = 0, m
    while many - few > 1:
        middle = (few + many) // 2
        fits = way(facts, None, None, centers=middle).needed <= facts.budget
        few, many = (middle, many) if fits else (few, middle)
    return few


def _impossible(owner: str, solver: str, facts: Facts, white: bool) -> str:
    if white and (facts.stream or solver == "falkon"):
        return (
            f"{owner}: the kernel holds White, noise of the rows, which centres do not see; leave "
            "it out, and add its variance to the alpha of a ridge."
        )
    if facts.stream and solver in ("auto", "falkon"):
        return (
            f"{owner}: alpha='loo' and one alpha an output need all rows in memory, and these come "
            "in blocks; give one alpha."
        )
    if facts.stream:
        return (
            f"{owner}: solver={solver!r} needs all rows in memory, and these come in blocks; "
            "use solver='falkon', with one alpha."
        )
    if facts.given and solver == "falkon":
        return (
            f"{owner}: solver={solver!r} needs points to choose centres from, and X is their Gram "
            "matrix; use solver='cholesky'."
        )
    return (
        f"{owner}: solver={solver!r} is not for this; alpha='loo', one alpha an output, and risks "
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
