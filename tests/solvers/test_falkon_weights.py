"""Falkon with samples of rows, weights that are few or huge, and means far from 0."""

import numpy as np
import pytest

import mercer
from mercer import RBF
from mercer.engines.passes.base import row_pass
from mercer.solvers import Centred, Falkon
from mercer.solvers.falkon import cg, preconditioner, solver
from tests.solvers.centred import data, dense, gradient, solve

pytestmark = pytest.mark.usefixtures("iterations")


@pytest.fixture(autouse=True)
def _own(monkeypatch):
    """Most tests are of Falkon's own preconditioner."""
    monkeypatch.setattr(preconditioner, "WORTH", 0)


@pytest.fixture
def sampled(monkeypatch):
    """Let rows be drawn."""
    monkeypatch.setattr(preconditioner, "WORTH", 1e9)


@pytest.mark.usefixtures("sampled")
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("alpha", [100.0, 1.0, 1e-2, 1e-7, 0.0])
@pytest.mark.parametrize("n", [100, 3000])
def test_a_sample_of_rows_leads_to_the_same_solution(n, alpha, offset):
    X, Z, y, w = data(n=n)
    k = RBF(1.5)
    solution = solve(k, X, Z, y, w, alpha, offset, tol=1e-8)
    a, b = solution.unwrap()
    assert solution.extra["preconditioner"] == "sampled"
    assert gradient(k(X, Z), k(Z), y, w, alpha, a, b).max() < 1.01e-8
    gap = k(X, Z) @ a + b - dense(k(X, Z), k(Z), y, w, alpha, offset)
    assert np.abs(gap).max() < 1e-3
    if n < 8 * len(Z):
        assert solution.n_iter < 8  # all rows: the matrix itself, but for rounding


def test_a_sample_takes_fewer_iterations(monkeypatch):
    X, Z, y, w = data(n=3000, m=60)
    slow = solve(RBF(1.5), X, Z, y, w, 0.1, True, tol=1e-8)
    monkeypatch.setattr(preconditioner, "WORTH", 1e9)
    fast = solve(RBF(1.5), X, Z, y, w, 0.1, True, tol=1e-8)
    assert fast.n_iter < 0.6 * slow.n_iter


@pytest.mark.usefixtures("sampled")
def test_rows_that_no_sample_holds(monkeypatch):
    """A handful of rows of huge weight: the sample misses them, the sketch does not."""
    monkeypatch.setattr(cg, "SLOW", 4)
    monkeypatch.setattr(solver, "PATIENCE", 5)
    X, Z, y, w = data(n=4000, m=40)
    w[:20] = 1e6
    solution = solve(RBF(0.7), X, Z, y, w, 1e-3, tol=1e-8, max_iter=300)
    a, b = solution.unwrap()
    assert gradient(RBF(0.7)(X, Z), RBF(0.7)(Z), y, w, 1e-3, a, b).max() < 1.01e-8


@pytest.mark.usefixtures("sampled")
def test_blocks_are_sampled_too():
    X, Z, y, w = data(n=2000)
    k = RBF(1.5)
    blocks = mercer.RowBlocks.from_arrays(X, y, w, block_rows=150)
    streamed = Falkon(tol=1e-9).solve(Centred(row_pass(k, blocks, Z), k(Z), 0.5, True, 2))
    stored = solve(k, X, Z, y, w, 0.5, True, tol=1e-9)
    assert streamed.extra["preconditioner"] == "sampled"
    assert abs(streamed.n_iter - stored.n_iter) < 5
    assert streamed.primal == pytest.approx(stored.primal, rel=1e-9)


@pytest.mark.usefixtures("sampled")
def test_a_sampled_solve_is_resumed(tmp_path):
    X, Z, y, w = data(n=2000)
    whole = solve(RBF(), X, Z, y, w, 0.1, True)
    short = solve(RBF(), X, Z, y, w, 0.1, True, max_iter=4, checkpoint=tmp_path / "fit")
    assert not short.converged
    rest = solve(RBF(), X, Z, y, w, 0.1, True, checkpoint=tmp_path / "fit")
    assert np.array_equal(rest.value[0], whole.value[0])


@pytest.mark.parametrize("worth", [0, 240])
@pytest.mark.parametrize("mean", [2e3, 1e5])
def test_a_mean_far_from_zero_hides_nothing(mean, worth, monkeypatch):
    monkeypatch.setattr(preconditioner, "WORTH", worth)
    X, Z, y, w = data(n=2000, m=40)
    near, far = (solve(RBF(), X, Z, y + s, w, 1.0, True) for s in (0.0, mean))
    assert far.converged and abs(far.n_iter - near.n_iter) <= 1
    assert far.primal == pytest.approx(near.primal, rel=1e-9)
    np.testing.assert_allclose(far.value[0], near.value[0], rtol=1e-3, atol=1e-3)
    one = solve(RBF(), X, Z, np.full_like(y, mean), w, 1.0, True)
    assert one.converged and not one.value[0].any()


@pytest.mark.parametrize("worth", [0, 240])
@pytest.mark.parametrize("heavy", [1e4, 1e6, 1e8, 1e10])
def test_one_heavy_row_does_not_hide_the_others(heavy, worth, monkeypatch):
    monkeypatch.setattr(preconditioner, "WORTH", worth)
    X, Z, y, _ = data(n=2000, m=40)
    w = np.ones(2000)
    w[7] = heavy
    k, root = RBF(), np.sqrt(w)[:, None]
    a, _ = solve(k, X, Z, y, w, 1.0).unwrap()
    half = np.linalg.solve(np.linalg.cholesky(k(Z)), k(X, Z).T).T
    system = np.vstack([root * half, np.eye(40)])
    best = half @ np.linalg.lstsq(system, np.vstack([root * y, np.zeros((40, 2))]), rcond=None)[0]
    assert np.sqrt(np.mean((k(X, Z) @ a - best) ** 2)) < 3e-2 * np.sqrt(np.mean((y - best) ** 2))


@pytest.mark.usefixtures("sampled")
@pytest.mark.parametrize("offset", [False, True])
def test_few_rows_of_positive_weight(offset):
    X, Z, y, _ = data(n=3000)
    w = np.zeros(3000)
    w[:5] = 1.0
    k = RBF(1.5)
    a, b = solve(k, X, Z, y, w, 1.0, offset, tol=1e-10).unwrap()
    few = slice(0, 5)
    c, d = solve(k, X[few], Z, y[few], None, 1.0, offset, tol=1e-10).unwrap()
    np.testing.assert_allclose(k(X, Z) @ a + b, k(X, Z) @ c + d, atol=1e-7)


def test_a_sample_holds_heavy_rows_and_has_the_whole_weight():
    X, Z, y, w = data(n=3000)
    w[:10], w[7], w[40] = 0.0, 1e8, 1e3
    rows = row_pass(RBF(), X, Z, y, w)
    _, u = rows.sample(240, 1)
    assert u @ u == pytest.approx(w.sum(), rel=1e-12) and len(u) == 240
    assert {round(v) for v in u**2 if v > 100} == {10**8, 10**3}
    np.testing.assert_allclose(np.delete(u**2, np.argsort(u)[-2:]), (u**2).min(), rtol=1e-9)
    for size in (1, 2, 3, 2990, 3000):
        assert len(rows.sample(size, 1)[1]) == min(size, int((w > 0).sum()))
    total = sum(rows.sample(60, s)[0].T @ rows.sample(60, s)[0] for s in range(200))
    K = RBF()(X, Z)
    exact = K.T @ (w[:, None] * K)
    assert np.abs(total / 200 - exact).max() < 0.1 * w[w < 10].sum()
