"""The choice of a method before a fit: exact where it fits, centres where nothing exact does.

A family lists its ways, each a name with the function that tells its cost, and `choose` takes one;
``plan`` and ``fit`` ask the same function of the family. Up to 5000 points, where a direct method
fits the budget, it is taken from sizes alone, and priced when somebody looks.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_classifier

from mercer.domains import GramRows, RowBlocks, to_host
from mercer.engines import Rates, device_of, machine_rates, memory_budget
from mercer.engines.device import human
from mercer.errors import InvalidInput
from mercer.estimator.base import check_targets
from mercer.estimator.options import SOLVERS, SolverOptions
from mercer.estimator.plan import Plan, chosen_early, duration, needs, share
from mercer.estimator.rows import is_stream
from mercer.estimator.sample import check_labels, find_classes
from mercer.estimator.sketch import Sketch
from mercer.kernels import Kernel, has_white
from mercer.solvers import Cost, Facts, seconds_of

# ---- What is known of data before a fit ----


FEWEST, PER_ROOT = 1000, 10  # default centres: at least so many, so many times √n
SHARE = 4  # the m × m matrix takes at most one part in so many of the budget
WIDE = 64  # features up to which it does not matter whether they are sparse
PROBED = 64  # points that tell how many features are zero
SPARSE = 0.1  # share of entries up to which sparse products are worth it
LOOKED_AT = 2000  # points that decide on words such as "median" in a plan


def facts_of(kernel: Kernel, X: Any, outputs: int = 1) -> Facts:
    """Return the sizes of checked data, without computing."""
    if isinstance(X, Facts):
        return X
    if isinstance(X, RowBlocks):
        first, n = X.first(), X.n_rows
        return Facts(
            n=n,
            outputs=outputs,
            columns=X.n_columns or 0,
            stream=True,
            budget=memory_budget(),
            itemsize=int(getattr(getattr(first.X, "dtype", None), "itemsize", 8)),
            block=int(np.diff((*X.cuts(), n)).max()) if X.cuts() else len(first),
        )
    shape: tuple[int, ...] = getattr(X, "shape", ())
    device = device_of(X)
    n, D = kernel.domain.size(X), kernel._n_features(X)
    return Facts(
        n=n,
        outputs=outputs,
        columns=int(shape[1]) if len(shape) == 2 else 0,
        features=D,
        given=isinstance(kernel.domain, GramRows),
        device=device,
        budget=memory_budget(device),
        itemsize=int(getattr(getattr(X, "dtype", None), "itemsize", 8)),
        workspace=kernel.workspace,
        stored=(12.0 * X.nnz / n + 8) if sp.issparse(X) and n else None,
        nonzeros=_nonzeros(kernel, X) if D is not None and WIDE < D < n else None,
    )


def is_sparse(kernel: Kernel, X: Any) -> bool:
    """Whether most features of the points are zero, and stored so."""
    return _nonzeros(kernel, X) is not None


def _nonzeros(kernel: Kernel, X: Any) -> int | None:
    """Return how many features are stored, from those of a few points; None where most are."""
    n = kernel.domain.size(X)
    some = np.linspace(0, n - 1, min(n, PROBED)).astype(int)
    phi = kernel._features(kernel.domain.take(X, some))
    if not sp.issparse(phi) or phi.nnz > SPARSE * phi.shape[0] * phi.shape[1]:
        return None
    return int(phi.nnz / len(some) * n)


def default_centers(n: int, budget: int | None = None) -> int:
    """Return how many centres stand for n points where nobody says: max(1000, 10√n), at most n.

    √n log n centres keep the rate at which ridge regression learns (Rudi, Camoriano, Rosasco,
    2015); ten times √n is more than that. They are cut so that the m × m matrix takes at most a
    quarter of the budget.

    Parameters
    ----------
    n : int
        Points.
    budget : int, optional
        Bytes that the fit may take; that of `mercer.config` where not given.

    Examples
    --------
    >>> from mercer.estimator.choice import default_centers
    >>> default_centers(500), default_centers(20_000), default_centers(1_000_000, 2**33)
    (500, 1415, 10000)
    """
    budget = memory_budget() if budget is None else budget
    most = math.isqrt(max(1, budget // (8 * SHARE)))
    return max(1, min(n, max(FEWEST, math.ceil(PER_ROOT * math.sqrt(n))), most))


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
        other._measures = False
        return other

    @property
    def rates(self) -> Rates | None:
        """Rates of the machine; None where nothing is to be measured."""
        if not self._measures:
            return None
        return machine_rates(self.facts.device) if self._rates is None else self._rates

    @property
    def sketch(self) -> Any:
        """The kernel on a few points; None where nothing is to be measured."""
        if not self._measures:
            return None
        if self._sketch is None:
            self._sketch = Sketch(self.kernel, self.X, self.seed)
        return self._sketch

    def seconds(self, *flops: float, entries: float = 0.0, reads: float = 0.0) -> float | None:
        """Return the time of operations of products, kernel values, and bytes of a matrix."""
        return seconds_of(self.facts, self.rates, self.sketch, *flops, entries=entries, reads=reads)

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


def study_of(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    kernel: Kernel | None = None,
    targets: bool = True,
    blocks: bool = False,
    random_state: Any = None,
) -> Study:
    """Return the study of data as ``fit`` of a model takes them.

    Parameters
    ----------
    model : estimator
        It notes names and numbers of columns.
    X : collection or RowBlocks
        The data.
    y : array, optional
        The target.
    kernel : Kernel, optional
        In place of that of the model.
    targets : bool, default=True
        Whether the model fits y, which is checked then.
    blocks : bool, default=False
        Whether rows may come in blocks.
    random_state : int, optional
        Which points are looked at.
    """
    owner, stream = type(model).__name__, is_stream(X)
    if stream and not blocks:
        raise InvalidInput(
            f"{owner}: rows in blocks are for KernelRidge, KernelRidgeClassifier, "
            "KernelLogisticRegression and KernelERM; give an array."
        )
    if stream and not isinstance(X, RowBlocks):
        X, y = RowBlocks.from_dask(X, y), None
    kernel = model._kernel() if kernel is None else kernel
    if stream:
        first = next(iter(X))  # the others are alike
        points, n = first.points(kernel.domain), X.n_rows
    else:
        points = X = model._check_X(X, kernel, reset=True)
        if isinstance(kernel.domain, GramRows):
            kernel.domain.check_square(X)
        n = kernel.domain.size(X)
    kernel = _resolved(kernel, points)
    if stream and y is None:
        y = first.y
    elif y is not None and targets and is_classifier(model):
        y = check_labels(y, n, owner)
        find_classes(y, owner)
    elif y is not None and targets:
        y = check_targets(to_host(y), n, owner)
    whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    seed = int(random_state) if whole else 0
    return Study(kernel, X, _outputs(model, y), owner, random_state=seed)


def _resolved(kernel: Kernel, X: Any) -> Kernel:
    """Return the kernel with words taken from some points; that is exact enough for a plan."""
    if not kernel._asks():
        return kernel
    if not isinstance(kernel.domain, GramRows):
        n = kernel.domain.size(X)
        index = np.unique(np.linspace(0, n - 1, min(n, LOOKED_AT)).astype(int))
        X = kernel.domain.take(X, index)
    return kernel.fit_params(X)


def _outputs(model: Any, y: Any) -> int:
    if y is None:
        return 1
    y = np.asarray(y)
    if is_classifier(model):
        classes = len(np.unique(y))
        return classes if classes > 2 else 1
    return int(y.shape[1]) if y.ndim == 2 else 1


# ---- The choice between exact ways and centres ----


SMALL = 5000  # points up to which nothing is measured
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
) -> Plan:
    """Return the plan of the user's method, or of the one that "auto" takes.

    "auto" takes the fastest exact method that fits the budget; "falkon" where none fits, or where
    the fastest would take more than ten minutes and "falkon" less. Up to 5000 points it takes the
    direct one, if that fits.

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
    """
    facts = study.facts
    if not (quick and _is_small(facts, solver)):
        return _decide(study, ways, direct, solver, n_centers, centers, quick)
    rest = study.unmeasured()
    rest.X = facts  # what is priced later, if ever, holds no data
    return chosen_early(
        direct,
        _why_direct(direct, solver, facts),
        lambda: _decide(rest, ways, direct, solver, n_centers, centers, quick),
        n_rows=facts.n,
        budget=facts.budget,
        owner=study.owner,
    )


def _is_small(facts: Facts, solver: str) -> bool:
    """Whether a direct method is taken whatever it costs: its matrices are at most a few n × n."""
    few = facts.n <= SMALL and not facts.stream and solver in ("auto", "cholesky")
    return few and MATRICES * facts.n * (facts.n + facts.outputs) <= facts.budget


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
) -> Plan:
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
    m = default_centers(facts.n, facts.budget) if n_centers is None else min(n_centers, facts.n)
    plans = {}
    for name in names:
        if name == "falkon":
            plans[name] = _centred(study, ways[name], m, centers)
        else:
            plans[name] = study.plan(name, ways[name](facts, study.rates, study.sketch))
    if solver != "auto" or (few and plans[direct].fits):
        taken = direct if solver == "auto" else chosen
        why = _why_direct(taken, solver, facts)
    else:
        taken, why = _choose(plans)
    if taken == "falkon" and (plans[taken].error or 0.0) > POOR:
        why += f" But {m} centres leave {share(plans[taken].error)} of the kernel's trace."
    return study.take(plans, taken, why)


def _centred(study: Study, cost: Callable[..., Cost], m: int, centers: Any) -> Plan:
    """Return the plan of m centres; where they are too many it tells how many would fit."""
    facts = study.facts
    whole = cost(facts, study.rates, study.sketch, centers=m)
    plan = study.plan("falkon", whole, study.left(m, centers), m)
    if plan.fits:
        return plan
    few, many = 0, m
    while many - few > 1:
        middle = (few + many) // 2
        fits = cost(facts, None, None, centers=middle).needed <= facts.budget
        few, many = (middle, many) if fits else (few, middle)
    return replace(plan, most_centers=few)


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

    An approximation that "auto" would take is left where an exact method fits the budget and is
    done in time.

    Parameters
    ----------
    rule : callable
        The plan of a study.
    study : Study
        The data.
    auto : bool
        Whether the choice of a method is left to it.
    """
    plan = rule(study.unmeasured())
    open_ = auto and plan.error != 0 and any(p.error == 0 and p.fits for p in plan.alternatives)
    return rule(study) if open_ else plan


def in_time(plan: Plan | None) -> bool:
    """Whether an exact method fits, and takes no longer than "auto" allows."""
    return plan is not None and plan.fits and plan.seconds is not None and plan.seconds <= LIMIT


def warn_if_coarse(model: Any, error: float, of_what: str) -> None:
    """Warn where the method that was planned leaves out more than a tenth.

    Parameters
    ----------
    model : estimator
        One with a ``plan_``.
    error : float
        The share that was left out.
    of_what : str
        Of what it is a share.
    """
    if error > POOR:
        plan = model.plan_
        exact = [p for p in plan.alternatives if p.error == 0 and p.fits]
        cure = f"Give a larger rank, or take {exact[0].method!r}" if exact else "Give a larger rank"
        warnings.warn(
            f"{plan.owner}: the {plan.n_centers} pivots of {plan.method!r} leave out {error:.0%} "
            f"of {of_what}, and the answer may be coarse. {cure}; print(model.plan_) tells why.",
            UserWarning,
            stacklevel=4,
        )
