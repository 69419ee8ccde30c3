"""Plans of estimators with one method: processes, support vector machines, densities."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mercer.errors import InvalidInput
from mercer.models.plan_costs import NEWTON_STEPS, Cost, gram_seconds, tiles, vectors
from mercer.models.plan_study import Study
from mercer.models.plan_unsupervised import seconds_of
from mercer.models.plan_value import Plan
from mercer.models.stream import no_features
from mercer.solvers.base import check_index

__all__ = ["classes", "density", "gradients", "inducing", "kinked", "machine", "process"]

EVALUATIONS = 5  # of the evidence of all rows
LARGE_SET = 1500  # points that a support vector machine works on at a time, as a rule
STEPS = 1e-5  # seconds a point that pairwise steps take, as a rule; they depend on the data
PASSES = 30  # of stochastic gradients over the rows, as a rule
FLOPS = 5e8  # operations a second of a loop over single rows
SCALES = 40  # bandwidths that a search looks at
ONLY = "It is the only method of this estimator."


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


def classes(model: Any, study: Study) -> Plan:
    """Return the plan of `GaussianProcessClassifier`: matrices of the approximation, and Newton."""
    from mercer.models.gp.classifier_fit import SMALL
    from mercer.models.gp.inference import LITTLE, PARTS, choose_scheme

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


def inducing(model: Any, study: Study) -> Plan:
    """Return the plan of `SparseGaussianProcessRegressor`: passes over rows and m inducing ones."""
    from mercer.models.gp.sparse_evidence import MATRICES

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


def machine(model: Any, study: Study) -> Plan:
    """Return the plan of `SVC` and `SVR`: rows of the matrix, kept as far as they fit."""
    from mercer.solvers.box.rows import LEAST, SHARE, SINGLE_FROM

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


def kinked(model: Any, study: Study) -> Plan:
    """Return the plan of a risk of a loss with kinks: that of a machine, of rows in memory."""
    if study.facts.stream:
        raise InvalidInput(
            f"{study.owner}: a loss with kinks needs all rows in memory, and these come in blocks; "
            "use a smooth loss, such as 'logistic' or 'huber'."
        )
    plan = machine(model, study)
    return replace(plan, why=plan.why.replace(ONLY, "It is the method for losses with kinks."))


def density(model: Any, study: Study) -> Plan:
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


def gradients(model: Any, study: Study) -> Plan:
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
