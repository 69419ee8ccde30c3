"""Falkon where rounding rules: centres that add nothing, float32 rows, what is told and kept."""

import re

import numpy as np
import pytest

from mercer import RBF, Linear, Polynomial
from mercer.engines.passes.base import row_pass
from mercer.losses import Logistic
from mercer.solvers import Centred, Falkon, FalkonNewton
from mercer.solvers.falkon import preconditioner
from mercer.solvers.falkon.cg import FalkonCG
from tests.solvers.centred import solve
from tests.solvers.test_falkon_gap import features, least


def line(seed=0, n=1000, d=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, (np.sin(X[:, 0]) + 0.1 * rng.standard_normal(n))[:, None]


def risk(k, X, Z, y, alpha, a, b):
    """Return the risk in float64, from scratch."""
    return 0.5 * np.sum((y - k(X, Z) @ a - b) ** 2) + 0.5 * alpha * np.sum(a * (k(Z) @ a))


@pytest.mark.parametrize("alpha", [1e-5, 1e-6, 1e-7, 1e-9])
@pytest.mark.parametrize("kernel", [Polynomial(2), Polynomial(3), Linear()])
def test_nothing_is_worse_than_nought(kernel, alpha):
    """Forty centres that span three, four or one: the solver is given all of them."""
    X, y = line(17)
    solution = solve(kernel, X, X[:40], y, None, alpha, offset=True)
    a, b = solution.value
    start = 0.5 * np.sum((y - y.mean()) ** 2)
    assert 0 <= solution.primal <= start * (1 + 1e-9)
    assert risk(kernel, X, X[:40], y, alpha, a, b) <= start * (1 + 1e-6)
    for tol in re.findall(r"tol=([^ ,;.]*\.?\d*)", solution.message):
        assert float(tol) < 1
    assert solution.converged or "solver='cholesky'" in solution.message


def test_a_risk_is_no_less_than_nought():
    rng = np.random.default_rng(0)
    X = 0.3 * rng.standard_normal((900, 1))
    y = 1500 + np.sin(X)
    solution = solve(RBF(5.0), X, X[:60], y, None, 1e-8)
    assert solution.primal >= 0 and solution.gap / solution.primal < 1e9
    assert not re.search(r"e\+\d\d of the risk", solution.message)


@pytest.mark.parametrize(
    ("kernel", "n", "d", "m", "alpha"),
    [(Linear(), 2335, 2, 51, 2e-6), (Linear(), 2391, 1, 89, 4e-7), (Linear(), 900, 3, 30, 1e-6)],
)
def test_what_is_right_is_called_so(kernel, n, d, m, alpha):
    """Values are rounded too, and by more than their sums."""
    X, y = line(3, n, d)
    solution = solve(kernel, X, X[:m], y, None, alpha)
    best = least(X, y, np.ones(n), alpha)[0].sum()
    assert abs(solution.primal / best - 1) < 1e-7 and solution.converged
    assert solution.extra["rounding"] < 1e-2


@pytest.mark.usefixtures("iterations")
def test_a_gap_that_is_true_is_told():
    X, y = line(1)
    solution = solve(RBF(0.3), X, X[:60], y, None, 1e-3, max_iter=1, tol=1e-9)
    assert not solution.converged and solution.gap > 1e3 * solution.extra["rounding"]


def test_what_stalls_goes_on_with_all_rows(monkeypatch):
    X, y = line(5, 929)
    monkeypatch.setattr(FalkonCG, "_again", stalled(FalkonCG._again))
    solution = solve(RBF(0.3), X, X[:30], y, None, 1e-3)
    assert solution.converged and solution.extra["preconditioner"] != "sampled"
    assert preconditioner.RATIO * 30 < 929


def stalled(again):
    """Return a step that calls everything hopeless which began with the first preconditioner."""

    def step(self, s, excess, apply):
        if self.name != "sampled":
            return again(self, s, excess, apply)
        best = np.maximum(s.best, 2.0)
        return again(self, type(s)(**{**vars(s), "best": best}), 1e9 + 0 * excess, apply)

    return step


@pytest.mark.parametrize(
    ("d", "m", "alpha", "off"), [(1, 60, 1.0, 1e-4), (2, 100, 1.0, 5e-3), (3, 200, 0.01, 5e-2)]
)
def test_float32_rows_are_not_fitted_by_their_rounding(d, m, alpha, off):
    """Roundings of kernel values were features that cost nothing: the risk fell below the least."""
    X, y = line(1, 2000, d)
    X = X.astype(np.float32).astype(float)
    k, Z = RBF(2.0), X[:m]
    rows = row_pass(k, X.astype(np.float32), Z.astype(np.float32), y)
    solution = Falkon().solve(Centred(rows, k(Z), alpha))
    a, b = solution.unwrap()
    best = least(features(k, X, Z, m * 2e-16)[0], y, np.ones(2000), alpha)[0].sum()
    true = risk(k, X, Z, y, alpha, a, b)
    assert best * (1 - 1e-9) <= true <= best * (1 + off)
    assert solution.primal == pytest.approx(true, rel=1e-3)
    assert solution.extra["jitter"] > 1e-11


def test_float32_rows_of_a_smooth_loss():
    X, y = line(2, 1500, 2)
    X, y = X.astype(np.float32).astype(float), np.sign(y)
    k, Z, loss = RBF(2.0), X[:80], Logistic()
    risks = []
    for kind in (np.float32, np.float64):
        rows = row_pass(k, X.astype(kind), Z.astype(kind), y)
        solution = FalkonNewton(loss).solve(Centred(rows, k(Z), 0.5))
        a, _ = solution.unwrap()
        true = loss.value(y, k(X, Z) @ a).sum() + 0.25 * np.sum(a * (k(Z) @ a))
        assert solution.primal == pytest.approx(true, rel=1e-3)
        assert solution.extra["gaps"].sum() == pytest.approx(solution.gap / solution.primal)
        risks.append(true)
    assert risks[0] == pytest.approx(risks[1], rel=1e-3)
