"""Plans of components and clusters: memory and time of each of their methods.

Each rule asks the estimator's own choice from sizes, and leaves an approximation that "auto" would
take where an exact method fits the budget and is done in time. ``fit`` follows the plan.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import scipy.sparse as sp

from mercer.errors import InvalidInput
from mercer.estimator import Plan, no_features
from mercer.kernels import require_psd
from mercer.models.plan import costs
from mercer.models.plan.costs import NEWTON_STEPS, Cost, gram_seconds, tiles, vectors
from mercer.models.plan.plan import LIMIT, POOR, Study
from mercer.solvers import check_index

PRODUCTS = 15  # block products of a subspace iteration
PARTIAL = 4.0  # products of n³ operations that some eigenvectors by LAPACK take as long as
SWEEPS = 15  # of Lloyd's algorithm
BATCHES = 60


def seconds_of(
    study: Study, *flops: float, entries: float = 0.0, reads: float = 0.0
) -> float | None:
    """Return the time of operations of products, kernel values, and bytes of a stored matrix."""
    if study.rates is None:
        return None
    rate = study.sketch.rate
    n = study.facts.n
    return sum(flops) / study.rates.gemm + rate.seconds(entries, n) + reads / study.rates.read


# -- what auto does -----------------------------------------------------------------------------
def followed(rule: Callable[[Any, Study], Plan], model: Any, study: Study, auto: bool) -> Plan:
    """Return the plan that a fit follows; nothing is measured where sizes decide.

    Parameters
    ----------
    rule : callable
        `components`, `clusters` or `spectral`.
    model : estimator
        The model that is fitted.
    study : Study
        Its data.
    auto : bool
        Whether the choice of a method is left to it.
    """
    plan = rule(model, study.unmeasured())
    open_ = auto and plan.error != 0 and any(p.error == 0 and p.fits for p in plan.alternatives)
    return rule(model, study) if open_ else plan


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


def _in_time(plan: Plan | None) -> bool:
    """Whether an exact method fits, and takes no longer than "auto" allows."""
    return plan is not None and plan.fits and plan.seconds is not None and plan.seconds <= LIMIT


# -- components ---------------------------------------------------------------------------------
def plan_components(model: Any, study: Study) -> Plan:
    """Return the plan of `KernelPCA`: features, LAPACK, block products or pivots."""
    from mercer.models.pca import (
        PEERS,
        THIN,
        check_parameters,
        n_features,
        pick_solver,
        pivots_allowed,
    )

    facts, kernel, X = study.facts, study.kernel, study.X
    want = check_parameters(model, kernel)
    n = facts.n
    k = n if want.count is None else min(want.count, n)
    rank = pivots_allowed(n, None, want) if model.rank is None else min(model.rank, n)
    few = want.count is not None and k < n / 2
    base = vectors(facts) + 8 * n * 4 * min(k, n)
    plans = {}
    D = n_features(kernel, X)
    if D is not None:
        side = min(n, D)
        tall = n >= THIN * D or sp.issparse(X)
        needed = 8 * (5 * side * side + (0 if tall else 2 * n * D))
        more = 8 * (2 * D * side if tall else 2 * n * D) + base
        time = seconds_of(study, 4.0 * n * D * side, costs.EIGH * side**3, reads=64.0 * n * D)
        plans["features"] = study.plan("features", Cost(needed, time, more))
    time = seconds_of(study, (PARTIAL if few else costs.EIGH) * n**3, entries=0.5 * n * n)
    cost = Cost(8 * (2 if few else 5) * n * n, time, tiles(facts) + base)
    plans["dense"] = study.plan("dense", cost)
    if want.count is not None or want.share is not None:
        width = (k if want.count is not None else 16) + 10
        kept = 9 * n * n <= facts.budget
        once = 0.5 * n * n * (1 if kept else PRODUCTS)
        time = seconds_of(study, 2.0 * n * n * width * PRODUCTS, entries=once)
        more = 8 * n * 16 * width + tiles(facts) + base
        space = 8 * n * (2 * min(n, 3 * width) + 4 * width)  # what the iteration asks for
        cost = Cost(max(8 * n * n if kept else 0, space), time, more)
        plans["subspace"] = study.plan("subspace", cost)
    time = seconds_of(study, 4.0 * n * rank**2, costs.EIGH * rank**3, entries=1.0 * n * rank)
    cost = Cost(8 * 3 * n * rank, time, 32 * rank * rank + base)
    plans["cholesky"] = study.plan("cholesky", cost, study.left(rank), rank)
    word = pick_solver(model, kernel, X, want)
    if PEERS.get(model.eigen_solver, model.eigen_solver) != "auto":
        return study.take(plans, word, f"You chose eigen_solver={model.eigen_solver!r}.")
    why = {
        "features": "The kernel has few finite features.",
        "dense": f"{n} points are few, or many components are wanted.",
        "subspace": f"{k} components of {n} points are few, and the matrix fits.",
        "cholesky": f"The matrix does not fit; {rank} pivots stand for it.",
    }[word]
    # How many components a share of the variance takes is not known, nor their memory.
    if word == "cholesky" and want.count is not None and _in_time(plans.get("subspace")):
        word, why = "subspace", "It is exact, and makes the matrix, which does not fit, in tiles."
    return study.take(plans, word, why)


# -- clusters -----------------------------------------------------------------------------------
def plan_clusters(model: Any, study: Study, asked: Any = None) -> Plan:
    """Return the plan of `KernelKMeans`: all kernel values, pivots, or batches.

    Parameters
    ----------
    model : KernelKMeans
        The model.
    study : Study
        Its data.
    asked : optional
        Its parameters, where they were checked.
    """
    from mercer.models.cluster import (
        ARRAYS,
        BATCH_BYTES,
        METHODS,
        WINDOW,
        batch_that_fits,
        pick_method,
        pivot_bytes,
    )

    facts = study.facts
    if not isinstance(model.method, str) or model.method not in METHODS:
        legal = ", ".join(map(repr, METHODS))
        raise InvalidInput(f"{study.owner}: method={model.method!r}; give one of {legal}.")
    asked = model._asked(study.kernel, study.X, None) if asked is None else asked
    n, k, D, rank = facts.n, asked.k, asked.feature_columns(), asked.rank
    starts = asked.n_init if asked.drawn else 1
    compared, base = 8 * ARRAYS * n * k, vectors(facts) + 16 * n * k
    sweeps = SWEEPS * starts
    plans = {}
    if D is not None:
        time = seconds_of(study, 4.0 * n * D * k * sweeps, reads=64.0 * n * D)
        cost = Cost(compared + 8 * n * D, time, base + 8 * n * D)
    else:
        kept = facts.given or 8 * n * n <= facts.budget // 2
        own = 8 * n * n if kept and not facts.given else 0
        once = 0.0 if facts.given else 0.5 * n * n * (1 if kept else sweeps)
        reads = 8.0 * n * n * sweeps if kept else 0.0
        time = seconds_of(study, entries=once, reads=reads)
        cost = Cost(own + compared, time, tiles(facts) + base)
    plans["exact"] = study.plan("exact", cost)
    pivots = 0.0 if facts.given else 1.0 * n * rank
    time = seconds_of(study, 2.0 * n * rank**2, 4.0 * n * k * rank * sweeps, entries=pivots)
    cost = Cost(max(pivot_bytes(asked), compared), time, compared + base)
    plans["nystrom"] = study.plan("nystrom", cost, study.left(rank), rank)
    batch = min(asked.batch_size, n)
    if model.method == "auto":
        batch = min(batch, max(1, batch_that_fits(asked)))
    pairs = float(batch + WINDOW) ** 2
    limit = min(BATCHES, asked.max_iter or BATCHES) * starts
    time = seconds_of(study, entries=0.0 if facts.given else pairs * limit + n * k * WINDOW)
    cost = Cost(max(BATCH_BYTES * pairs, compared), time, 2 * pairs + compared + base)
    plans["minibatch"] = study.plan("minibatch", cost, None)
    if model.method != "auto":
        return study.take(plans, model.method, f"You chose method={model.method!r}.")
    word = pick_method(asked)
    why = {
        "exact": "All kernel values, or few features, fit half the budget.",
        "nystrom": f"All kernel values are too many; {rank} pivots stand for them.",
        "minibatch": "All kernel values are too many, and their pivots do not fit.",
    }[word]
    if word != "exact" and _in_time(plans["exact"]):
        word, why = "exact", "It takes all kernel values, and makes them in tiles if they are many."
    return study.take(plans, word, why)


def plan_spectral(model: Any, study: Study) -> Plan:
    """Return the plan of `SpectralClustering`: all affinities, kept or in tiles, or pivots."""
    from mercer.models.cluster import default_rank, pick_spectral_method, spectral_bytes

    model._check_parameters()
    facts = study.facts
    n, k = facts.n, int(model.n_clusters)
    width = int(model.n_components or k) + 10
    rank = min(n, default_rank(k) if model.rank is None else int(model.rank))
    search, more = 80 * n * width, 48 * n * width + vectors(facts)
    kept = facts.given or 8 * n * n <= facts.budget // 2
    own = 8 * n * n if kept and not facts.given else 0
    entries = 0.0 if facts.given else 0.5 * n * n * (1 if kept else 2 * PRODUCTS)
    time = seconds_of(study, 2.0 * n * n * width * 2 * PRODUCTS, entries=entries)
    plans = {"exact": study.plan("exact", Cost(own + search, time, tiles(facts) + more))}
    if study.kernel.psd:
        flops = (2.0 * n * rank**2, 4.0 * n * rank * width * 2 * PRODUCTS)
        time = seconds_of(study, *flops, entries=1.0 * n * rank)
        cost = Cost(max(spectral_bytes(n, rank), search), time, search + more)
        plans["nystrom"] = study.plan("nystrom", cost, study.left(rank), rank)
    how = "The affinities are kept." if kept else "Affinities are made in tiles each time."
    if model.method != "auto":
        method, why = model.method, f"You chose method={model.method!r}."
        if method not in plans:
            require_psd(study.kernel, f"{study.owner}: method={method!r}")
    else:
        method = pick_spectral_method(study.kernel, n, rank)
        why = f"All affinities count. {how}"
        if method == "nystrom" and _in_time(plans["exact"]):
            method = "exact"
        elif method == "nystrom":
            why = f"All affinities are too many; {rank} pivots stand for them."
    return study.take(plans, method, why)


# ---- Plans of estimators with one method: processes, support vector machines, densities ----


EVALUATIONS = 5  # of the evidence of all rows
LARGE_SET = 1500  # points that a support vector machine works on at a time, as a rule
STEPS = 1e-5  # seconds a point that pairwise steps take, as a rule; they depend on the data
PASSES = 30  # of stochastic gradients over the rows, as a rule
FLOPS = 5e8  # operations a second of a loop over single rows
SCALES = 40  # bandwidths that a search looks at
ONLY = "It is the only method of this estimator."


def plan_process(model: Any, study: Study) -> Plan:
    """Return the plan of `GaussianProcessRegressor`: one factorisation an evaluation."""
    facts = study.facts
    n = facts.n
    time = None
    if study.rates is not None:
        gram = gram_seconds(facts, study.rates, study.sketch.rate)
        time = gram + n**3 / 3 / study.rates.potrf
        if model.optimizer is not None:
            evaluation = 4 * gram + n**3 / study.rates.potrf
            time += EVALUATIONS * (1 + int(model.n_restarts) / 3) * evaluation
    plan = study.plan("cholesky", Cost(8 * n * n, time, 2.2 * tiles(facts) + vectors(facts)))
    more = "" if plan.fits else " SparseGaussianProcessRegressor takes more points."
    return replace(plan, why=f"{ONLY}{more}")


def plan_classes(model: Any, study: Study) -> Plan:
    """Return the plan of `GaussianProcessClassifier`: matrices of the approximation, and Newton."""
    from mercer.models.gp.classes import LITTLE, PARTS, SMALL, choose_scheme

    facts = study.facts
    n, several = facts.n, max(2, facts.outputs)
    scheme = choose_scheme(model.method, model.link, model.multi_class, several, study.owner)
    tuned = model.optimizer is not None
    matrices = scheme.matrices(several) * (PARTS if tuned and n > SMALL else 1.0)
    needed = int(8 * n * n * matrices) + 2 * n * n + LITTLE  # what the fit asks for
    time = None
    if study.rates is not None:
        gram = gram_seconds(facts, study.rates, study.sketch.rate)
        steps = NEWTON_STEPS * matrices * n**3 / study.rates.potrf
        evaluations = EVALUATIONS * (1 + int(model.n_restarts) / 3) if tuned else 0.0
        time = gram + steps + evaluations * (4 * gram + steps)
    cost = Cost(needed, time, 8 * n * n + tiles(facts) + vectors(facts))
    plan = study.plan(scheme.method, cost)
    return replace(plan, why=f"You chose method={model.method!r}; its answer is an approximation.")


def plan_inducing(model: Any, study: Study) -> Plan:
    """Return the plan of `SparseGaussianProcessRegressor`: passes over rows and m inducing ones."""
    from mercer.models.gp.sparse import MATRICES

    facts = study.facts
    n, t, given = facts.n, facts.outputs, model.inducing
    asked = model.n_inducing if isinstance(given, str) else len(given)
    m = min(check_index(asked, "n_inducing", study.owner, 1), n)
    needed = 8 * (MATRICES * m * m + n * (t + 3))  # what the fit asks for
    more = 8 * (6 * n * (t + 1) + 3 * m * m) + 16.0 * n * m + vectors(facts)
    evaluations = EVALUATIONS * (1 + int(model.n_restarts) / 3) if model.optimizer else 1.0
    time = seconds_of(study, 4.0 * n * m * m * evaluations, entries=4.0 * n * m * evaluations)
    plan = study.plan("inducing", Cost(needed, time, more), study.left(m), m)
    return replace(plan, why=f"{ONLY} {m} inducing points stand for {n}.")


def plan_machine(model: Any, study: Study) -> Plan:
    """Return the plan of `SVC` and `SVR`: rows of the matrix, kept as far as they fit."""
    from mercer.solvers.box import LEAST, SHARE, SINGLE_FROM

    facts = study.facts
    n = facts.n
    item = 4 if n >= SINGLE_FROM else 8
    rows = n if facts.given else min(n, int(SHARE * facts.budget) // (item * n))
    least = int(min(n, LEAST) * item * n / SHARE)
    kept = 0 if facts.given else item * n * rows
    times = 4 if hasattr(model, "epsilon") else 1  # two multipliers a point
    sets = (2 + times // 2) * 8 * min(n, LARGE_SET) ** 2
    again = 1.0 if rows == n else 4.0
    entries = 0.0 if facts.given else 0.7 * n * n * again
    time = seconds_of(study, entries=entries, reads=2.0 * item * n * n * again)
    time = None if time is None else time + STEPS * times * n
    cost = Cost(max(least, kept), time, sets + tiles(facts) + vectors(facts))
    how = "All rows of the matrix are kept."
    if rows < n:
        how = f"{rows} of {n} rows of the matrix are kept; others are computed again."
    pairs = facts.outputs * (facts.outputs - 1) // 2
    many = f" {pairs} pairs of classes share them." if pairs > 1 else ""
    return replace(study.plan("smo", cost), why=f"{ONLY} {how}{many}")


def plan_kinked(model: Any, study: Study) -> Plan:
    """Return the plan of a risk of a loss with kinks: that of a machine, of rows in memory."""
    if study.facts.stream:
        raise InvalidInput(
            f"{study.owner}: a loss with kinks needs all rows in memory, and these come in blocks; "
            "use a smooth loss, such as 'logistic' or 'huber'."
        )
    plan = plan_machine(model, study)
    return replace(plan, why=plan.why.replace(ONLY, "It is the method for losses with kinks."))


def plan_density(model: Any, study: Study) -> Plan:
    """Return the plan of `KernelDensity`: points are kept, a bandwidth is searched if asked for."""
    facts = study.facts
    searched = isinstance(model.bandwidth, str) and model.bandwidth == "loo"
    entries = SCALES * 0.5 * facts.n**2 if searched else 0.0
    more = vectors(facts) + 16 * facts.n * facts.columns + (2**18 if searched else 0)
    time = seconds_of(study, entries=entries, reads=100.0 * facts.n)
    plan = study.plan("direct", Cost(8 * facts.n * facts.columns, time, more))
    how = "Points are kept; a density takes a kernel value for each."
    if searched:
        how = "A bandwidth is searched with all pairs of points."
    return replace(plan, why=f"{ONLY} {how}")


def plan_gradients(model: Any, study: Study) -> Plan:
    """Return the plan of solver="sgd": the features of all rows, and passes over them."""
    facts = study.facts
    if facts.stream:
        raise InvalidInput(
            f"{study.owner}: solver='sgd' needs all rows in memory; use solver='falkon'."
        )
    if facts.features is None:
        raise no_features(study.kernel, study.owner)
    n, D = facts.n, facts.features
    stored = 8 * n * D if facts.nonzeros is None else 12 * facts.nonzeros
    time = None
    if study.sketch is not None:
        work = 6.0 * PASSES * stored / 8 * facts.outputs
        time = n * study.sketch.features + work / FLOPS
    plan = study.plan("sgd", Cost(stored, time, stored + vectors(facts)))
    return replace(
        plan, why="You chose solver='sgd'; how many passes it takes depends on the data."
    )
