"""Box QPs for tests: random ones, and their certificate written out in NumPy."""

from __future__ import annotations

import numpy as np

from mercer.solvers import BoxQP


def gram(kind, X, gamma=0.5):
    """Return the Gram matrix of a linear, polynomial or Gaussian kernel, from the formula."""
    S = X @ X.T
    if kind == "linear":
        return S
    if kind == "polynomial":
        return (1 + S) ** 3
    return np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(-1))


def machine(K, y, C, weight=1.0, offset=True, **options):
    """Return the dual of the support vector classifier, in signed coefficients."""
    bound = C * np.broadcast_to(weight, len(y)) * y
    totals = (0.0,) if offset else ()
    return BoxQP(K, -y, np.minimum(0, bound), np.maximum(0, bound), totals, **options)


def classes(seed, n, d=3, noise=0.5, repeated=False):
    """Return points and labels ±1 that overlap; some points are given twice, with either label."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    if repeated:
        X[rng.integers(0, n, n // 3)] = X[rng.integers(0, n, n // 3)]
    y = np.where(X[:, 0] + noise * rng.standard_normal(n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X, y


def random_box(seed, scale=1.0):
    """Return a BoxQP of any shape: subset or repetition of points, signs, sums, fixed variables."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    X = rng.standard_normal((n, int(rng.integers(1, 6))))
    K = gram(rng.choice(["linear", "polynomial", "gaussian"]), X) + 0.01 * np.eye(n)
    index = [
        None,
        np.r_[:n, :n],
        rng.permutation(n)[: n // 2 + 1],
        rng.permutation(n),
        rng.integers(0, n, 2 * n),
    ][seed % 5]
    m = n if index is None else len(index)
    lower, upper = -scale * rng.random(m), scale * rng.random(m)
    lower[rng.random(m) < 0.3] = 0
    upper[rng.random(m) < 0.3] = 0
    groups = rng.integers(0, 2, m)
    n_sums = seed % 3
    mine = [groups == g if n_sums == 2 else np.ones(m, bool) for g in range(n_sums)]
    part = rng.uniform(0.2, 0.8)
    totals = tuple(float((1 - part) * lower[g].sum() + part * upper[g].sum()) for g in mine)
    return BoxQP(
        K * scale ** rng.choice([0.0, 1.0]),
        rng.standard_normal(m) * (rng.random() < 0.8),
        lower,
        upper,
        totals,
        groups if n_sums == 2 else None,
        index,
        rng.choice([-1.0, 1.0], m) if rng.random() < 0.4 else None,
    )


def arrays(problem):
    """Return (Q, p, lower, upper, groups) in full."""
    K = problem.K.to_dense() if hasattr(problem.K, "to_dense") else problem.K
    K = np.asarray(K, dtype=float)
    index = np.arange(len(K)) if problem.index is None else np.asarray(problem.index)
    s = np.ones(len(index)) if problem.signs is None else np.asarray(problem.signs, dtype=float)
    groups = np.zeros(len(index)) if problem.groups is None else np.asarray(problem.groups)
    box = (np.asarray(v, dtype=float) for v in (problem.p, problem.lower, problem.upper))
    return (s[:, None] * s * K[np.ix_(index, index)], *box, groups.astype(int))


class Certificate:
    """Value, gap, violation, error of the sums and size of the terms of a point, from scratch."""

    def __init__(self, problem, a, multipliers=()):
        Q, p, lower, upper, groups = arrays(problem)
        G = Q @ a + p
        shift = np.asarray(multipliers)[groups] if problem.totals else 0.0
        R = G - shift
        self.value = 0.5 * a @ Q @ a + p @ a
        self.size = 0.5 * abs(a) @ abs(Q) @ abs(a) + abs(p) @ abs(a)
        self.terms = np.maximum(R * (a - lower), R * (a - upper))
        self.gap = self.terms.sum()
        #: What rounding may do to an entry of the gradient, to the sums, and to the gap.
        self.blur = 1e-13 * (abs(Q) @ abs(a) + abs(p))
        self.slack = 1e-12 * (abs(a).sum() + sum(map(abs, problem.totals)))
        self.haze = self.blur @ (upper - lower)
        self.outside = max(0.0, (lower - a).max(initial=0), (a - upper).max(initial=0))
        self.sums = [a[groups == g].sum() for g in range(len(problem.totals))]
        if len(problem.totals) == 1:
            self.sums = [a.sum()]
        up, down = a < upper, a > lower
        if problem.totals:
            mine = [groups == g for g in range(len(problem.totals))]
            low = [G[g & up].min(initial=np.inf) for g in mine]
            high = [G[g & down].max(initial=-np.inf) for g in mine]
            self.violation = max(0.0, *(h - l for h, l in zip(high, low, strict=True)))
        else:
            self.violation = max(G[down].max(initial=0.0), -G[up].min(initial=0.0))


def check(problem, solution, tol=None):
    """Require that the certificate is true and, if it converged, good; return it."""
    a, multipliers = solution.value, solution.extra["multipliers"]
    true = Certificate(problem, a, multipliers)
    blur = true.blur.max(initial=0)
    assert true.outside == 0
    np.testing.assert_allclose(true.sums, problem.totals, rtol=0, atol=true.slack)
    np.testing.assert_allclose(solution.dual, -true.value, rtol=1e-9, atol=1e-12 * true.size)
    # what rounding may hide is part of the gap
    assert solution.gap >= true.gap * (1 - 1e-6) - true.haze
    assert solution.gap <= true.gap * (1 + 1e-2) + 1e3 * true.haze
    rounded = 1e-12 * max(abs(solution.primal), abs(solution.dual))
    np.testing.assert_allclose(solution.primal - solution.dual, solution.gap, atol=rounded)
    assert solution.gap >= 0 and len(multipliers) == len(problem.totals)
    np.testing.assert_allclose(solution.residual, true.violation, rtol=1e-6, atol=blur)
    if solution.converged:
        assert solution.message == ""
        assert tol is None or true.violation <= tol * (1 + 1e-6) + blur
        assert tol is None or true.gap <= 1.01 * tol * abs(true.value) + true.haze
    else:
        assert solution.message
    return true


def by_coordinates(problem, sweeps=20000, tol=1e-12):
    """Return the minimum over the box where no sum is held, one coordinate after another."""
    Q, p, lower, upper, _ = arrays(problem)
    a = np.clip(np.zeros(len(p)), lower, upper)
    for _ in range(sweeps):
        moved = 0.0
        for i in range(len(a)):
            g = Q[i] @ a + p[i]
            if Q[i, i] > 0:
                new = np.clip(a[i] - g / Q[i, i], lower[i], upper[i])
            else:
                new = lower[i] if g > 0 else upper[i] if g < 0 else a[i]
            moved, a[i] = max(moved, abs(new - a[i])), new
        if moved < tol:
            return a
    raise AssertionError("the oracle did not converge")
