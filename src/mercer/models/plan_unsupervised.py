"""Plans of what scales otherwise than a ridge: components, clusters, processes, machines, density.

Each rule asks the estimator's own choice of a method, so that the plan is what ``fit`` does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import scipy.sparse as sp

from mercer.models import plan_costs as costs
from mercer.models.plan_costs import Cost, gram_seconds, tiles, vectors
from mercer.models.plan_study import Study
from mercer.models.plan_value import Plan

__all__ = ["clusters", "components", "density", "machine", "process", "spectral"]

PRODUCTS = 15  # block products of a subspace iteration
PARTIAL = 4.0  # products of n³ operations that some eigenvectors by LAPACK take as long as
SWEEPS = 15  # of Lloyd's algorithm
BATCHES = 60
EVALUATIONS = 12  # of the evidence of all rows
LARGE_SET = 1500  # points that a support vector machine works on at a time, as a rule
SCALES = 40  # bandwidths that a search looks at
ONLY = "It is the only method of this estimator."


def _seconds(study: Study, *flops: float, entries: float = 0.0, reads: float = 0.0) -> float | None:
    """Return the time of operations of products, kernel values, and bytes of a stored matrix."""
    if study.rates is None:
        return None
    rate = study.sketch.rate
    n = study.facts.n
    return sum(flops) / study.rates.gemm + rate.seconds(entries, n) + reads / study.rates.read


# -- components ---------------------------------------------------------------------------------
def components(model: Any, study: Study) -> Plan:
    """Return the plan of `KernelPCA`: features, LAPACK, block products or pivots."""
    from mercer.models.pca.choice import _solver
    from mercer.models.pca.dual import pivots_allowed
    from mercer.models.pca.parameters import PEERS, check_parameters
    from mercer.models.pca.primal import THIN, n_features

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
        time = _seconds(study, 4.0 * n * D * side, costs.EIGH * side**3, reads=64.0 * n * D)
        plans["features"] = study.plan("features", Cost(needed, time, more))
    time = _seconds(study, (PARTIAL if few else costs.EIGH) * n**3, entries=0.5 * n * n)
    cost = Cost(8 * (2 if few else 5) * n * n, time, tiles(facts) + base)
    plans["dense"] = study.plan("dense", cost)
    if want.count is not None or want.share is not None:
        width = (k if want.count is not None else 16) + 10
        kept = 9 * n * n <= facts.budget
        once = 0.5 * n * n * (1 if kept else PRODUCTS)
        time = _seconds(study, 2.0 * n * n * width * PRODUCTS, entries=once)
        more = 8 * n * 16 * width + tiles(facts) + base
        plans["subspace"] = study.plan("subspace", Cost(8 * n * n if kept else 0, time, more))
    time = _seconds(study, 4.0 * n * rank**2, costs.EIGH * rank**3, entries=1.0 * n * rank)
    cost = Cost(8 * 3 * n * rank, time, base)
    plans["cholesky"] = study.plan("cholesky", cost, study.left(rank), rank)
    word = _solver(model, kernel, X, want)
    why = {
        "features": "The kernel has few finite features.",
        "dense": f"{n} points are few, or many components are wanted.",
        "subspace": f"{k} components of {n} points are few, and the matrix fits.",
        "cholesky": "The matrix does not fit; pivots stand for it.",
    }[word]
    if PEERS.get(model.eigen_solver, model.eigen_solver) != "auto":
        why = f"You chose eigen_solver={model.eigen_solver!r}."
    return study.take(plans, word, why)


# -- clusters -----------------------------------------------------------------------------------
def clusters(model: Any, study: Study) -> Plan:
    """Return the plan of `KernelKMeans`: all kernel values, pivots, or batches."""
    from mercer.models.cluster.kmeans_fit import BATCH_BYTES, _batch_that_fits, pick_method
    from mercer.models.cluster.kmeans_minibatch import WINDOW
    from mercer.models.cluster.kmeans_spaces import ARRAYS

    facts = study.facts
    asked = model._plan(study.kernel, study.X, None)
    n, k, D, rank = facts.n, asked.k, asked.feature_columns(), asked.rank
    starts = asked.n_init if asked.drawn else 1
    compared, base = 8 * ARRAYS * n * k, vectors(facts) + 16 * n * k
    sweeps = SWEEPS * starts
    plans = {}
    if D is not None:
        time = _seconds(study, 4.0 * n * D * k * sweeps, reads=64.0 * n * D)
        cost = Cost(compared + 8 * n * D, time, base + 8 * n * D)
    else:
        kept = facts.given or 8 * n * n <= facts.budget // 2
        own = 8 * n * n if kept and not facts.given else 0
        once = 0.0 if facts.given else 0.5 * n * n * (1 if kept else sweeps)
        reads = 8.0 * n * n * sweeps if kept else 0.0
        time = _seconds(study, entries=once, reads=reads)
        cost = Cost(own + compared, time, tiles(facts) + base)
    plans["exact"] = study.plan("exact", cost)
    if not facts.given:
        time = _seconds(
            study, 2.0 * n * rank**2, 4.0 * n * k * rank * sweeps, entries=1.0 * n * rank
        )
        cost = Cost(16 * n * rank + compared, time, 4 * n * rank + base)
        plans["nystrom"] = study.plan("nystrom", cost, study.left(rank), rank)
        batch = min(asked.batch_size, n)
        if model.method == "auto":
            batch = min(batch, max(1, _batch_that_fits(asked)))
        pairs = float(batch + WINDOW) ** 2
        limit = min(BATCHES, asked.max_iter or BATCHES) * starts
        time = _seconds(study, entries=pairs * limit + n * k * WINDOW)
        cost = Cost(BATCH_BYTES * pairs + compared, time, base)
        plans["minibatch"] = study.plan("minibatch", cost, None)
    if model.method != "auto":
        return study.take(plans, model.method, f"You chose method={model.method!r}.")
    word = pick_method(asked)
    why = {
        "exact": "All kernel values, or few features, fit half the budget.",
        "nystrom": "The matrix would take more than half the budget, or more than 50000 points.",
        "minibatch": "Neither the matrix nor its pivots fit.",
    }[word]
    return study.take(plans, word, why)


def spectral(model: Any, study: Study) -> Plan:
    """Return the plan of `SpectralClustering`: one matrix, kept or made in tiles."""
    facts = study.facts
    n = facts.n
    width = int(model.n_components or model.n_clusters) + 10
    kept = facts.given or 8 * n * n <= facts.budget // 2
    own = 8 * n * n if kept and not facts.given else 0
    needed, more = own + 80 * n * width, 48 * n * width + tiles(facts) + vectors(facts)
    entries = 0.0 if facts.given else 0.5 * n * n * (1 if kept else 2 * PRODUCTS)
    time = _seconds(study, 2.0 * n * n * width * 2 * PRODUCTS, entries=entries)
    plan = study.plan("eigenvectors", Cost(needed, time, more))
    how = "The matrix of affinities is kept." if kept else "Affinities are made in tiles each time."
    return replace(plan, why=f"{ONLY} {how}")


# -- processes, machines, density ---------------------------------------------------------------
def process(model: Any, study: Study) -> Plan:
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


def machine(model: Any, study: Study) -> Plan:
    """Return the plan of `SVC` and `SVR`: rows of the matrix, kept as far as they fit."""
    from mercer.solvers.rows import LEAST, SHARE, SINGLE_FROM

    facts = study.facts
    n = facts.n
    item = 4 if n >= SINGLE_FROM else 8
    rows = n if facts.given else min(n, int(SHARE * facts.budget) // (item * n))
    least = int(min(n, LEAST) * item * n / SHARE)
    kept = 0 if facts.given else item * n * rows
    sets = (4 if hasattr(model, "epsilon") else 2) * 8 * min(n, LARGE_SET) ** 2
    again = 1.0 if rows == n else 4.0
    entries = 0.0 if facts.given else 0.7 * n * n * again
    time = _seconds(study, entries=entries, reads=2.0 * item * n * n * again)
    cost = Cost(max(least, kept), time, sets + tiles(facts) + vectors(facts))
    how = "All rows of the matrix are kept."
    if rows < n:
        how = f"{rows} of {n} rows of the matrix are kept; others are computed again."
    pairs = facts.outputs * (facts.outputs - 1) // 2
    many = f" {pairs} pairs of classes share them." if pairs > 1 else ""
    return replace(study.plan("smo", cost), why=f"{ONLY} {how}{many}")


def density(model: Any, study: Study) -> Plan:
    """Return the plan of `KernelDensity`: points are kept, a bandwidth is searched if asked for."""
    facts = study.facts
    searched = isinstance(model.bandwidth, str) and model.bandwidth == "loo"
    entries = SCALES * 0.5 * facts.n**2 if searched else 0.0
    more = vectors(facts) + 16 * facts.n * facts.columns + (2**18 if searched else 0)
    time = _seconds(study, entries=entries, reads=100.0 * facts.n)
    plan = study.plan("direct", Cost(8 * facts.n * facts.columns, time, more))
    how = "Points are kept; a density takes a kernel value for each."
    if searched:
        how = "A bandwidth is searched with all pairs of points."
    return replace(plan, why=f"{ONLY} {how}")
