"""Certificates of solvers in 50 digits: rounding hides no part of a gap, nor of a residual."""

import mpmath
import numpy as np
import pytest

from mercer import RBF, Linear as LinearKernel, Polynomial
from mercer.losses import Huber, Logistic, Squared, SquaredHinge
from mercer.operators import LowRank
from mercer.solvers import (
    IRLS,
    Cholesky,
    ConjugateGradients,
    CoordinateDescent,
    Linear,
    NewtonCG,
    SmoothERM,
    SoftmaxERM,
    SparseERM,
    base,
)
from tests.solvers.centred import solve as solve_centred
from tools.torture.certificates import Risk, exact, exp, norm, smooth_gap, solve

NEAR = 1 - 1e-9


def draw(seed, n=12):
    """Return points, a kernel, values, targets of any size, a penalty, and a tolerance."""
    rng = np.random.default_rng([7, seed])
    X = rng.standard_normal((n, int(rng.integers(1, 4))))
    if rng.random() < 0.3:
        X[n // 2 :] = X[: n - n // 2]
    kernels = [RBF(float(10 ** rng.uniform(-0.5, 2))), LinearKernel(), Polynomial(2, 1.0)]
    kernel = kernels[int(rng.integers(3))]
    X = X + (10 ** rng.uniform(1, 2) if rng.random() < 0.2 else 0.0)
    f = np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(n)
    y = f * 10 ** rng.uniform(-4, 8) + (10 ** rng.uniform(0, 8) if rng.random() < 0.3 else 0.0)
    alpha, tol = float(10 ** rng.uniform(-14, 0)), float(10 ** rng.uniform(-12, -4))
    return rng, X, kernel, f, y, alpha, tol


def proves(solution, gap=None, residual=None, asked=None, tol=None):
    """A certificate is not below the truth, and what has converged is what was asked for."""
    if gap is not None:
        assert solution.gap >= NEAR * gap
        assert not solution.converged or gap <= asked
    if residual is not None:
        assert solution.residual >= NEAR * residual
        assert not solution.converged or residual <= tol
    assert solution.converged or "larger" in solution.message or "Raise alpha" in solution.message


def residual_of(K, ridge, x, b):
    K, x, b = exact(K), exact(x.reshape(len(b), -1)), exact(b.reshape(len(b), -1))
    R = K @ x + mpmath.mpf(ridge) * x - b
    return max(norm(r) / norm(c) for r, c in zip(R.T, b.T, strict=True))


@pytest.mark.parametrize("kind", ["cholesky", "cg", "rpcholesky"])
def test_residuals_of_linear_systems(kind):
    for seed in range(40):
        _, X, k, f, y, alpha, tol = draw(seed)
        K, b = k(X), np.column_stack([y, f]) if seed % 2 else y
        solver = Cholesky(tol=tol)
        if kind != "cholesky":
            made = kind if kind == "rpcholesky" else None
            solver = ConjugateGradients(tol, preconditioner=made, random_state=0)
        solution = solver.solve(Linear(K, b, ridge=alpha))
        proves(solution, residual=residual_of(K, alpha, solution.value, b), tol=tol)


def test_what_some_rows_say_of_rounding_stands_for_all(monkeypatch):
    monkeypatch.setattr(base, "SHARP", 800)
    X = np.random.default_rng(0).standard_normal((80, 2))
    K, y = RBF(3.0)(X), np.sin(X[:, 0])
    for alpha, tol in ((1e-4, 1e-12), (1e-8, 1e-10), (1e-12, 1e-8)):
        solution = Cholesky(tol=tol).solve(Linear(K, y, ridge=alpha))
        true = residual_of(K, alpha, solution.value, y)
        proves(solution, residual=true, tol=tol)
        assert solution.converged and solution.residual < 10 * true


@pytest.mark.parametrize("loss", [Logistic(), Squared(), Huber(0.1), SquaredHinge()], ids=repr)
def test_gaps_of_smooth_risks(loss):
    for seed in range(14):
        rng, X, k, f, y, alpha, tol = draw(seed)
        y = np.where(f > np.median(f), 1.0, -1.0) if loss.kind == "classification" else y
        offset, K = bool(seed % 2), k(X)
        F = None if isinstance(k, RBF) or rng.random() < 0.5 else np.asarray(k.features(X))
        problem = SmoothERM(K if F is None else LowRank(F), y, loss, alpha, None, offset)
        solution = IRLS(tol=tol).solve(problem)
        a, b = exact(solution.value), mpmath.mpf(float(solution.extra["intercept"]))
        K = exact(K) if F is None else exact(F) @ exact(F).T
        v = solution.extra.get("weights")
        z, square = (
            (K @ a, a @ (K @ a)) if v is None else (exact(F) @ exact(v), exact(v) @ exact(v))
        )
        one = exact(np.ones(len(y)))
        p = Risk(K, exact(y), one, mpmath.mpf(alpha), offset, loss, a, b, z, square)
        try:
            primal, gap = smooth_gap(p)
        except ZeroDivisionError:
            continue
        if gap is not None:
            nothing = 64 * np.finfo(float).eps ** 2 * float(y @ y)
            asked = max(tol * primal, nothing if loss.kind == "regression" else 0.0)
            proves(solution, gap, asked=asked)


def test_residuals_of_softmax():
    for seed in range(25):
        _, X, k, f, _, alpha, tol = draw(seed)
        y = np.argsort(np.argsort(f)) % 3
        solution = NewtonCG(tol=tol).solve(SoftmaxERM(k(X), y, 3, alpha, None, bool(seed % 2)))
        A, b = exact(solution.value), exact(np.broadcast_to(solution.extra["intercept"], 3).copy())
        E = exp(exact(k(X)) @ A + b)
        g = E / E.sum(1)[:, None] - exact(np.eye(3)[y])
        lack = norm((mpmath.mpf(alpha) * A + g).ravel()) / norm(g.ravel())
        proves(solution, residual=lack, tol=max(tol, 1e-5))


@pytest.mark.parametrize("ratio", [1.0, 0.3])
def test_gaps_of_sparse_risks(ratio):
    """A Newton step on the support, with the signs as they are, never gains more than the gap."""
    gained = 0
    for seed in range(40):
        _, X, k, _, y, alpha, tol = draw(seed)
        A, n = k(X), len(y)
        l1, offset = alpha * 100 * float(np.abs(A.T @ y).max()), bool(seed % 2)
        problem = SparseERM(A, y, alpha=l1, l1_ratio=ratio, offset=offset)
        solution = CoordinateDescent(tol=tol).solve(problem)
        used = np.flatnonzero(solution.value)
        x = np.append(exact(solution.value[used]), [mpmath.mpf(solution.extra["offset"])] * offset)
        left = exact(np.column_stack([A[:, used], np.ones((n, int(offset)))]))
        signs = np.append(exact(np.sign(solution.value[used])), [mpmath.mpf(0)] * offset)
        one, two = mpmath.mpf(l1 * ratio), mpmath.mpf(l1 * (1 - ratio)) * abs(signs)

        def objective(x, left=left, y=y, signs=signs, one=one, two=two):
            return sum((left @ x - exact(y)) ** 2) / 2 + one * sum(abs(signs * x)) + two @ x**2 / 2

        primal = objective(x)
        H = left.T @ left + np.diag(two)
        try:
            step = solve(H, -(left.T @ (left @ x - exact(y)) + one * signs + two * x))
        except ZeroDivisionError:
            continue
        gain = primal - min(primal, objective(x + step)) if len(x) else mpmath.mpf(0)
        gained += gain > 0
        proves(solution, gap=gain, asked=tol * primal)
    assert gained > 10


def test_residuals_and_gaps_of_falkon():
    # the last six: the rounding of a factor of K_ZZ, and of a gap that is above what was asked for
    for seed in (*range(40), 164, 172, 277, 362, 510, 602):
        _, X, k, _, y, alpha, tol = draw(seed, 16)
        Z, m, offset = X[:6], 6, bool(seed % 2)
        solution = solve_centred(k, X, Z, y[:, None], None, alpha, offset, tol=tol)
        a, b = exact(solution.value[0][:, 0]), mpmath.mpf(float(solution.value[1][0]))
        K, G, t, al = exact(k(X, Z)), exact(k(Z)), exact(y), mpmath.mpf(alpha)
        middle = sum(t) / len(t) if offset else 0
        lack = K.T @ (t - K @ a - b) - al * (G @ a)
        ridged = G + mpmath.mpf(float(solution.extra["jitter"])) * np.eye(m, dtype=int)
        left = np.hstack([K, exact(np.ones((len(y), int(offset))))])
        A = left.T @ left
        A[:m, :m] += al * ridged

        def risk(a, b, K=K, t=t, al=al, ridged=ridged):
            return sum((t - K @ a - b) ** 2) / 2 + al * (a @ (ridged @ a)) / 2

        best, primal = solve(A, left.T @ t), risk(a, b)
        gap = primal - risk(best[:m], sum(best[m:]))
        residual = norm(lack) / norm(K.T @ (t - middle))
        assert solution.residual >= NEAR * residual
        assert solution.gap >= NEAR * gap
        assert not solution.converged or (residual <= tol and gap <= 1.01 * tol * primal)
