"""Laws of solvers: the certificate must be true, recomputed from the problem and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer import kernels as mk, solvers as ms
from mercer.errors import InvalidInput
from mercer.operators import Gram
from mercer.solvers import (
    BoxQP,
    Centred,
    Eigen,
    FeatureERM,
    Linear,
    SmoothERM,
    SoftmaxERM,
    Solution,
    SparseERM,
)
from mercer.testing.certificates import (
    centred_problems,
    centred_residual,
    check_centred_answer,
    check_feature_answer,
    check_smooth_answer,
    feature_gap,
    feature_problems,
    smooth_problems,
    smooth_residual,
    violation,
)
from mercer.testing.checks import agree, obey, require, to_numpy, told, untouched
from mercer.testing.laws.sparse import check_sparse_answer, sparse_problems, sparse_violation


def solver_examples() -> list[tuple[str, Any, type]]:
    """Return (name, solver, class of problem) for each public solver, in several settings.

    Examples
    --------
    >>> from mercer.testing import solver_examples
    >>> "BoxQP" in {kind.__name__ for _, _, kind in solver_examples()}
    True
    """
    cg = ms.ConjugateGradients
    return [
        ("Cholesky", ms.Cholesky(), Linear),
        ("ConjugateGradients", cg(), Linear),
        ("ConjugateGradients-tight", cg(tol=1e-11), Linear),
        (
            "ConjugateGradients-preconditioned",
            cg(preconditioner="rpcholesky", random_state=0),
            Linear,
        ),
        ("ConjugateGradients-starved", cg(max_iter=1), Linear),
        ("DenseEigen", ms.DenseEigen(), Eigen),
        ("SubspaceIteration", ms.SubspaceIteration(random_state=0), Eigen),
        ("SubspaceIteration-starved", ms.SubspaceIteration(max_iter=1, random_state=0), Eigen),
        ("SMO", ms.SMO(), BoxQP),
        ("SMO-tight", ms.SMO(tol=1e-9), BoxQP),
        ("SMO-starved", ms.SMO(max_iter=1), BoxQP),
        ("IRLS", ms.IRLS(), SmoothERM),
        ("IRLS-starved", ms.IRLS(max_iter=1), SmoothERM),
        ("NewtonCG", ms.NewtonCG(), SoftmaxERM),
        ("NewtonCG-starved", ms.NewtonCG(max_iter=1), SoftmaxERM),
        ("SGD", ms.SGD(), FeatureERM),
        ("SGD-starved", ms.SGD(max_iter=1), FeatureERM),
        ("Falkon", ms.Falkon(), Centred),
        ("Falkon-tight", ms.Falkon(tol=1e-9), Centred),
        ("Falkon-starved", ms.Falkon(max_iter=1), Centred),
        ("FalkonNewton", ms.FalkonNewton("logistic"), Centred),
        ("FalkonNewton-starved", ms.FalkonNewton("logistic", max_iter=1), Centred),
        ("CoordinateDescent", ms.CoordinateDescent(), SparseERM),
        ("CoordinateDescent-tight", ms.CoordinateDescent(tol=1e-9), SparseERM),
        ("CoordinateDescent-starved", ms.CoordinateDescent(max_iter=1), SparseERM),
    ]


def problem_examples(kind: type, rng: Any = 0) -> list[tuple[str, Any]]:
    """Return named problems of a class, easy, ill conditioned and degenerate."""
    rng = np.random.default_rng(rng)
    X = rng.standard_normal((40, 2))
    K = mk.RBF()(X)
    b, B = rng.standard_normal(40), rng.standard_normal((40, 3))
    low = rng.standard_normal((40, 3))
    if kind is Linear:
        return [
            ("one right-hand side", Linear(K, b, 0.1)),
            ("several", Linear(K, B, 0.1)),
            ("a column of zeros", Linear(K, B * [1.0, 0.0, 1.0], 0.1)),
            ("lazy", Linear(Gram(mk.RBF(), X, keep=False), b, 0.5)),
            ("a vector of ridges", Linear(K, b, rng.uniform(0.1, 2, 40))),
            ("nearly singular", Linear(K, K @ b, 1e-6)),
            ("one unknown", Linear(np.array([[2.0]]), [3.0], 0.0)),
            ("identity", Linear(np.eye(5), np.arange(5.0))),
            ("float32", Linear(K.astype(np.float32), b, 1.0)),
        ]
    if kind is BoxQP:
        return _boxes(K, X, rng)
    if kind is SparseERM:
        return sparse_problems(K, X, rng)
    if kind is Centred:
        return centred_problems(rng)
    if kind in (SmoothERM, SoftmaxERM):
        return smooth_problems(kind, K, X, rng)
    if kind is FeatureERM:
        return feature_problems(rng)
    return [
        ("all pairs", Eigen(K)),
        ("few pairs", Eigen(K, 4)),
        ("lazy", Eigen(Gram(mk.RBF(), X, keep=False), 3)),
        ("low rank", Eigen(low @ low.T, 5)),
        ("equal eigenvalues", Eigen(np.eye(6), 2)),
        ("one", Eigen(np.array([[2.0]]), 1)),
    ]


def _boxes(K: np.ndarray, X: np.ndarray, rng: np.random.Generator) -> list[tuple[str, BoxQP]]:
    """Return the duals of all margin machines, and what is degenerate among boxes."""
    n = len(K)
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)
    side, target = (y < 0).astype(int), np.sin(X[:, 0]) + 0.1 * rng.standard_normal(n)
    none, one, both = np.zeros(n), np.ones(n), np.r_[:n, :n]
    weight = rng.uniform(0.5, 2, n)
    low, high = np.minimum(3 * weight * y, 0), np.maximum(3 * weight * y, 0)
    tube = np.r_[0.1 - target, -0.1 - target], np.r_[none, -one], np.r_[one, none]
    some = rng.permutation(n)[:25]
    return [
        ("classes with an offset", BoxQP(K, -y, low, high, (0.0,))),
        ("classes without", BoxQP(K, -y, low, high)),
        ("signs", BoxQP(K, -one, none, 3 * weight, signs=y)),
        ("lazy", BoxQP(Gram(mk.RBF(), X, keep=False), -y, low, high, (0.0,))),
        ("a part of the points", BoxQP(K, -y[some], low[some], high[some], (0.0,), index=some)),
        ("two variables a point", BoxQP(K, *tube, (0.0,), index=both)),
        ("two sums", BoxQP(K, none, np.minimum(y, 0), np.maximum(y, 0), (5.0, -5.0), side)),
        ("one class", BoxQP(K, none, none, weight, (0.3 * weight.sum(),))),
        ("a constant kernel", BoxQP(np.ones((n, n)), -y, low, high, (0.0,))),
        ("no kernel", BoxQP(np.zeros((n, n)), -y, low, high, (0.0,))),
        ("one variable", BoxQP(np.array([[2.0]]), [-1.0], [0.0], [9.0])),
        ("nothing free", BoxQP(K, y, weight, weight)),
    ]


def _written_out(problem: BoxQP) -> tuple[np.ndarray, ...]:
    """Return Q, p, lower, upper and groups of a box QP."""
    K = to_numpy(problem.K).astype(float)
    index = np.arange(len(K)) if problem.index is None else np.asarray(problem.index)
    signs = np.ones(len(index)) if problem.signs is None else np.asarray(problem.signs)
    groups = np.zeros(len(index), int) if problem.groups is None else np.asarray(problem.groups)
    p, lower, upper = (np.asarray(v, float) for v in (problem.p, problem.lower, problem.upper))
    return signs[:, None] * signs * K[np.ix_(index, index)], p, lower, upper, groups


def _violation(problem: BoxQP, a: np.ndarray) -> float:
    """Return the largest violation of the KKT conditions: no pair, or no variable, may gain."""
    Q, p, lower, upper, groups = _written_out(problem)
    G, up, down = Q @ a + p, a < upper, a > lower
    if not problem.totals:
        return violation(G, up, down, free=True)
    sums = [groups == g for g in range(len(problem.totals))]
    return max(violation(G[mine], up[mine], down[mine]) for mine in sums)


def residual_of(problem: Any, value: Any) -> float:
    """Return the certificate of an answer, from the problem written out in full and float64."""
    if isinstance(problem, BoxQP):
        return _violation(problem, value)
    if isinstance(problem, SmoothERM | SoftmaxERM):
        return smooth_residual(problem, value)
    if isinstance(problem, FeatureERM):
        return feature_gap(problem, value)
    if isinstance(problem, SparseERM):
        return sparse_violation(problem, value)
    A = to_numpy(problem.A).astype(float)
    if isinstance(problem, Linear):
        A = A + np.diag(np.broadcast_to(problem.ridge, len(A)))
        b = np.asarray(problem.b, dtype=float)
        gap = np.linalg.norm(A @ value - b, axis=0)
        size = np.linalg.norm(b, axis=0)
        return float(np.max(np.where(size > 0, gap / np.where(size > 0, size, 1.0), gap)))
    gap = np.linalg.norm(A @ value.vectors - value.vectors * value.values, axis=0)
    return float(gap.max() / max(np.abs(value.values).max(), 1e-300))


def _certificate(solver: Any, problem: Any, value: Any) -> float:
    if isinstance(problem, Centred):  # which risk it is, the solver says
        return centred_residual(solver, problem, value)
    return residual_of(problem, value)


def law_certificate(solver: Any, problem: Any, solution: Solution) -> None:
    """The residual is what the problem says, and `converged` means it meets the tolerance."""
    true = _certificate(solver, problem, solution.value)
    require(solution.residual is not None, f"{solver!r}: no residual")
    matrix = getattr(problem, "K", getattr(problem, "A", None))
    single = getattr(matrix, "dtype", None) == np.float32
    slack = 1e-5 if single else 1e-11
    said = float(solution.residual)  # type: ignore[arg-type]
    # What rounding may hide is counted, which is more than it does hide.
    fair = 0.9 * true - slack <= said <= 1.1 * true + max(slack, 1e-9)
    require(fair, f"{solver!r}: says {said:.3g}, is {true:.3g}")
    tol = max(getattr(solver, "tol", 1e-8), 1e-9)
    if solution.converged:
        require(
            true <= 1.1 * tol + slack, f"{solver!r}: converged with residual {true:.3g} > {tol}"
        )
    else:
        require(solution.message, f"{solver!r}: failed without saying why")


def law_answer(solver: Any, problem: Any, solution: Solution) -> None:
    """A converged answer has the shape of the problem and solves it, by an independent solver."""
    if type(problem) in _CHECKS:
        _CHECKS[type(problem)](solver, problem, solution)
        return
    if not solution.converged:
        return
    A = to_numpy(problem.A).astype(float)
    if isinstance(problem, Linear):
        b = np.asarray(problem.b, dtype=float)
        require(solution.value.shape == b.shape, f"{solver!r}: shape {solution.value.shape}")
        A = A + np.diag(np.broadcast_to(problem.ridge, len(A)))
        error = np.linalg.cond(A) * max(getattr(solver, "tol", 1e-8), solution.residual or 0.0)
        if error < 1e-2:
            agree(solution.value, np.linalg.solve(A, b), error, f"{solver!r}: the answer")
        return
    k = len(A) if problem.k is None else problem.k
    values, vectors = solution.value.values, solution.value.vectors
    require(values.shape == (k,) and vectors.shape == (len(A), k), f"{solver!r}: shapes")
    require((np.diff(values) <= 0).all(), f"{solver!r}: eigenvalues are not in falling order")
    agree(vectors.T @ vectors, np.eye(k), 1e-8, f"{solver!r}: eigenvectors")
    expected = np.linalg.eigvalsh(A)[::-1][:k]
    agree(values, expected, 1e-7, f"{solver!r}: eigenvalues")


def _check_box(solver: Any, problem: BoxQP, solution: Solution) -> None:
    """A point of the box with its sums; its gap is Σ max_x (G − b)(a − x), small if converged."""
    Q, p, lower, upper, groups = _written_out(problem)
    a = solution.value
    require(a.shape == p.shape, f"{solver!r}: shape {a.shape}")
    require((a >= lower).all() and (a <= upper).all(), f"{solver!r}: outside the box")
    for g, total in enumerate(problem.totals):
        agree(a[groups == g].sum(), np.array(total), 1e-12 * len(a), f"{solver!r}: sum {g}")
    b = np.asarray(solution.extra["multipliers"])
    require(b.shape == (len(problem.totals),), f"{solver!r}: multipliers of shape {b.shape}")
    reduced = Q @ a + p - (b[groups] if problem.totals else 0.0)
    gap = np.maximum(reduced * (a - lower), reduced * (a - upper)).sum()
    value = 0.5 * a @ Q @ a + p @ a
    size = 0.5 * abs(a) @ abs(Q) @ abs(a) + abs(p) @ abs(a)
    for name, true in (("dual", -value), ("primal", gap - value), ("gap", gap)):
        said = float(getattr(solution, name))
        require(
            abs(said - true) <= 1e-9 * (abs(true) + size),
            f"{solver!r}: {name} {said!r}, is {true!r}",
        )
        require(said >= 0 or name != "gap", f"{solver!r}: gap {said!r} < 0")
    if solution.converged:
        limit = 1.1 * solver.tol * abs(value) + 1e-11 * size
        require(gap <= limit, f"{solver!r}: converged with gap {gap:.3g} > {limit:.3g}")


_CHECKS: dict[type, Callable[[Any, Any, Solution], None]] = {
    BoxQP: _check_box,
    SmoothERM: check_smooth_answer,
    SoftmaxERM: check_smooth_answer,
    FeatureERM: check_feature_answer,
    SparseERM: check_sparse_answer,
    Centred: check_centred_answer,
}


def law_summary(solver: Any, problem: Any, solution: Solution) -> None:
    """The summary is plain: it survives JSON."""
    import json

    summary = solution.summary()
    require(json.loads(json.dumps(summary)) == summary, f"{solver!r}: summary {summary}")
    require(summary["converged"] is solution.converged, f"{solver!r}: summary disagrees")


def law_repeatable(solver: Any, problem: Any, solution: Solution) -> None:
    """Solving again gives the same bits."""
    again = solver.solve(problem)
    if isinstance(problem, Centred):
        for one, other in zip(again.value, solution.value, strict=True):
            agree(one, other, 0, f"{solver!r}: solved again", bitwise=True)
    elif not isinstance(problem, Eigen):
        agree(again.value, solution.value, 0, f"{solver!r}: solved again", bitwise=True)
    else:
        agree(again.value.values, solution.value.values, 0, f"{solver!r}: again", bitwise=True)
        agree(again.value.vectors, solution.value.vectors, 0, f"{solver!r}: again", bitwise=True)


def law_problem_unchanged(solver: Any, problem: Any, solution: Solution) -> None:
    """Neither the matrix nor the right-hand side is written to."""
    arrays = [v for v in vars(problem).values() if isinstance(v, np.ndarray)]
    with untouched(arrays, f"{solver!r}: the problem was changed: the bits differ"):
        solver.solve(problem)


_LAWS = (law_certificate, law_answer, law_summary, law_repeatable, law_problem_unchanged)


def solver_laws() -> list[tuple[str, Callable[..., None]]]:
    """Return (name, function) for each law; ``function(solver, problem)`` raises if broken.

    A third argument, the solution, spares solving again what another law has seen solved.
    """
    return told(_LAWS, _judge)


def solve(solver: Any, problem: Any) -> Solution | None:
    """Return the solution, or None: an iterative solver may refuse to give all pairs."""
    try:
        return solver.solve(problem)
    except InvalidInput:
        if isinstance(problem, Eigen) and problem.k is None:
            return None
        raise


def _judge(law: Callable, solver: Any, problem: Any, solution: Solution | None = None) -> None:
    solution = solve(solver, problem) if solution is None else solution
    if solution is not None:
        law(solver, problem, solution)


def check_solver_laws(solver: Any, kind: type, rng: Any = 0) -> None:
    """Raise AssertionError, naming law and problem, unless a solver obeys every law.

    Parameters
    ----------
    solver : object
        With ``solve(problem)`` → `Solution`.
    kind : type
        The class of problem that it solves, such as `Linear` or `BoxQP`.
    rng : Generator or int, default=0
        Source of the problems.

    Examples
    --------
    >>> from mercer.solvers import Cholesky, Linear
    >>> from mercer.testing import check_solver_laws
    >>> check_solver_laws(Cholesky(), Linear)
    """
    for title, problem in problem_examples(kind, rng):
        obey(solver_laws(), solver, problem, solve(solver, problem), on=f" on {title!r}")
