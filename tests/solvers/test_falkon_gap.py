"""Falkon's certificate: the duality gap from scratch, and what converged promises."""

import numpy as np
import pytest
from scipy.linalg import solve_triangular

import mercer
from mercer import RBF, Matern
from mercer.engines.passes.base import row_pass
from mercer.losses import Huber, Logistic
from mercer.solvers import Centred, Falkon, FalkonNewton
from mercer.solvers.falkon import cg, preconditioner
from mercer.solvers.falkon.preconditioner import KrillPreconditioner, SampledPreconditioner
from mercer.solvers.falkon.problem import CentredSystem
from tests.solvers.centred import data, solve

pytestmark = pytest.mark.usefixtures("iterations")


def features(k, X, Z, jitter):
    """Return Φ with ΦΦᵀ = K(K_ZZ + δI)⁻¹Kᵀ, and L."""
    L = np.linalg.cholesky(k(Z) + jitter * np.eye(len(Z)))
    return solve_triangular(L, k(X, Z).T, lower=True).T, L


def least(F, y, w, alpha, offset=False):
    """Return the risks and the values of the best function, by least squares in the features."""
    root = np.sqrt(w)[:, None]
    G = np.column_stack([F, np.ones(len(F))]) if offset else F
    penalty = np.sqrt(alpha) * np.eye(F.shape[1], G.shape[1])
    v = np.linalg.lstsq(
        np.vstack([root * G, penalty]),
        np.vstack([root * y, np.zeros((F.shape[1], y.shape[1]))]),
        rcond=None,
    )[0]
    f = G @ v
    return 0.5 * (w @ (y - f) ** 2) + 0.5 * alpha * (v[: F.shape[1]] ** 2).sum(0), f


@pytest.mark.parametrize("worth", [0, 240])
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize(("alpha", "max_iter"), [(1.0, 2), (1e-3, 4), (1e-3, 100), (50.0, 1)])
def test_the_gap_is_primal_minus_dual(alpha, max_iter, offset, worth, monkeypatch):
    monkeypatch.setattr(preconditioner, "WORTH", worth)
    X, Z, y, w = data(n=300)
    k = Matern(2.0, nu=1.5)
    solution = solve(k, X, Z, y, w, alpha, offset, tol=1e-4, max_iter=max_iter)
    a, b = solution.value
    K, KZ = k(X, Z), k(Z)
    v = w[:, None] * (y - K @ a - b)
    assert np.abs(v.sum(0)).max() < 1e-9 * np.abs(v).sum() or not offset
    dual = (v * y).sum() - 0.5 * (v**2 / w[:, None]).sum()
    dual -= np.sum((K.T @ v) * np.linalg.solve(KZ, K.T @ v)) / (2 * alpha)
    primal = 0.5 * (w @ (y - K @ a - b) ** 2).sum() + 0.5 * alpha * np.sum(a * (KZ @ a))
    assert solution.primal == pytest.approx(primal, rel=1e-9)
    assert solution.dual == pytest.approx(solution.primal - solution.gap, rel=1e-12)
    assert solution.gap == pytest.approx(primal - dual, rel=1e-4, abs=1e-9 * primal)
    best = least(features(k, X, Z, 0.0)[0], y, w, alpha, offset)[0].sum()
    assert dual <= best * (1 + 1e-9) and best <= primal * (1 + 1e-9)


@pytest.mark.parametrize("worth", [0, 240])
@pytest.mark.parametrize("n", [750, 1000])
@pytest.mark.parametrize("alpha", [1.0, 1e-2, 1e-4])
def test_converged_means_near_the_direct_solution(alpha, n, worth, monkeypatch):
    """The residual alone let predictions be off by a hundredth and more."""
    monkeypatch.setattr(preconditioner, "WORTH", worth)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    y = (np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n))[:, None]
    w = rng.integers(0, 4, n).astype(float)
    k, Z = RBF(1.5), X[:100]
    solution = solve(k, X, Z, y, w, alpha)
    a, _ = solution.unwrap()
    assert solution.gap <= 1e-6 * solution.primal and solution.extra["rounding"] < 1e-9
    best, f = least(features(k, X, Z, solution.extra["jitter"])[0], y, w, alpha)
    assert solution.primal <= best.sum() * (1 + 2e-6)
    assert np.abs(k(X, Z) @ a - f)[w > 0].max() < 1e-4


@pytest.mark.parametrize("alpha", [1e-3, 3e-6])
def test_small_penalties_end_with_all_rows(alpha):
    """alpha/n down to 1e-8 with twice as many rows as centres, and no memory to spare."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    y = (np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(300))[:, None]
    k, Z = RBF(1.5), X[:200]
    solution = solve(k, X, Z, y, None, alpha)
    a, _ = solution.unwrap()
    _, f = least(features(k, X, Z, solution.extra["jitter"])[0], y, np.ones(300), alpha)
    assert np.abs(k(X, Z) @ a - f).max() < 1e-3 * np.abs(y - f).max()
    assert solution.gap <= (1e-6 + solution.extra["rounding"]) * solution.primal
    assert solution.extra["preconditioner"] == "sampled" and 300 <= 8 * 200  # of all rows


def test_a_sketch_that_gets_nowhere_gives_way_to_all_rows(monkeypatch):
    X, Z, y, w = data(n=600, m=60)
    monkeypatch.setattr(cg, "SLOW", 4)
    apply = KrillPreconditioner.apply

    def poor(self, R):
        return apply(self, R) if isinstance(self, SampledPreconditioner) else R.copy()

    monkeypatch.setattr(KrillPreconditioner, "apply", poor)
    monkeypatch.setattr(preconditioner, "WORTH", 0)
    solution = solve(RBF(1.5), X, Z, y, w, 1e-6, True)
    assert solution.converged and solution.extra["preconditioner"] == "whole"


def test_where_alpha_is_nought_residuals_are_all_there_is():
    X, Z, y, w = data()
    solution = solve(RBF(), X, Z, y, w, 0.0)
    assert solution.converged and solution.gap is None and solution.dual is None


def test_where_rounding_makes_up_the_gap_it_is_told():
    X, Z, y, w = data(n=400, m=40)
    solution = solve(RBF(1.5), X, Z, y, w, 1e-18)
    assert not solution.converged and solution.n_iter < 100
    assert "rounding stops" in solution.message and "larger alpha" in solution.message
    assert solution.gap > 1e-6 * solution.primal and solution.extra["rounding"] > 1e-3


def test_rounding_that_stops_all_progress_is_told():
    X, Z, y, w = data(n=400, m=60)
    rows = row_pass(RBF(1.5), X.astype(np.float32), Z.astype(np.float32), y, w)
    gram = RBF(1.5)(Z)
    solution = Falkon(tol=1e-15).solve(Centred(rows, gram, 1e-2, outputs=2))
    assert not solution.converged and solution.n_iter < 100
    assert "rounding stops" in solution.message and "float64 rows" in solution.message
    assert "duality gap" in solution.message


def test_another_tolerance_goes_on_from_the_checkpoint(tmp_path):
    X, Z, y, w = data(n=2000, m=60)
    one = solve(RBF(), X, Z, y, w, 0.1, True, tol=1e-3, checkpoint=tmp_path / "fit")
    two = solve(RBF(), X, Z, y, w, 0.1, True, tol=1e-9, checkpoint=tmp_path / "fit")
    alone = solve(RBF(), X, Z, y, w, 0.1, True, tol=1e-9)
    assert one.converged and two.converged and two.gap <= 1e-9 * two.primal
    assert one.n_iter < two.n_iter and two.primal == pytest.approx(alone.primal, rel=1e-8)
    loose = solve(RBF(), X, Z, y, w, 0.1, True, tol=1e-2, checkpoint=tmp_path / "fit")
    assert loose.converged and loose.n_iter == two.n_iter
    assert np.array_equal(loose.value[0], two.value[0])


def test_a_limit_with_a_checkpoint_says_how_to_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(preconditioner, "WORTH", 0)
    X, Z, y, w = data(m=60)
    options = {"tol": 1e-12, "max_iter": 3}
    with_file = solve(RBF(1.5), X, Z, y, w, 1e-3, checkpoint=tmp_path / "fit", **options)
    assert "goes on from the checkpoint" in with_file.message
    assert "checkpoint" not in solve(RBF(1.5), X, Z, y, w, 1e-3, **options).message


def test_the_sketch_takes_the_memory_that_it_asks_for():
    import tracemalloc

    X, Z, y, w = data(n=4000, m=400)
    k = RBF()
    for memory in (preconditioner.MATRICES * 8 * 400**2 + 2**21, 2**30):
        with mercer.config(memory=memory, threads=1):
            system = CentredSystem(Centred(row_pass(k, X, Z, y, w), k(Z), 1e-6, outputs=2))
            system.rows.repeated = False
            tracemalloc.start()
            KrillPreconditioner.of(system)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak <= min(
            memory, 12 * 8 * 400**2 + 2**23
        )  # more lanes of sums where there is room


@pytest.mark.parametrize("max_iter", [1, 3, 50])
@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5)])
def test_the_gap_of_a_smooth_risk_is_primal_minus_dual(loss, max_iter):
    X, Z, y, w = data(n=300)
    y = np.sign(y - 2.0) if isinstance(loss, Logistic) else y
    k = Matern(2.0, nu=1.5)
    problem = Centred(row_pass(k, X, Z, y, w), k(Z), 0.5, outputs=2)
    solution = FalkonNewton(loss, max_iter=max_iter).solve(problem)
    a, _ = solution.value
    K, f = k(X, Z), k(X, Z) @ a
    slope = loss.gradient(y, f)
    primal = (w @ loss.value(y, f)).sum() + 0.25 * np.sum(a * (k(Z) @ a))
    v = K.T @ (w[:, None] * slope)
    dual = -(w @ loss.conjugate(y, slope)).sum() - np.sum(v * np.linalg.solve(k(Z), v))
    assert solution.primal == pytest.approx(primal, rel=1e-9)
    assert solution.gap == pytest.approx(primal - dual, rel=1e-4, abs=1e-9 * primal)
    assert solution.converged == (max_iter == 50)


@pytest.mark.parametrize("offset", [False, True])
def test_one_heavy_row_does_not_hide_the_others_from_newton(offset):
    X, Z, y, _ = data(n=1000, m=40, t=1)
    y, w, k = np.sign(y - 2.0), np.ones(1000), RBF()
    w[7] = 1e8
    problem = Centred(row_pass(k, X, Z, y, w), k(Z), 1.0, offset)
    found = FalkonNewton("logistic").solve(problem)
    best = FalkonNewton("logistic", tol=1e-13, max_iter=200).solve(problem)
    assert found.converged and found.primal - best.primal < 1e-6 * best.primal
    values = [k(X, Z) @ s.value[0] + s.value[1] for s in (found, best)]
    assert np.sqrt(np.mean((values[0] - values[1]) ** 2)) < 1e-2 * values[1].std()
