"""Falkon against dense solves: weights, offsets, many targets, tiny penalties, limits, files."""

import re

import numpy as np
import pytest

import mercer
from mercer import RBF, Matern, threads
from mercer.engines.passes.base import row_pass
from mercer.errors import InvalidInput, NotConverged
from mercer.solvers import Centred, Falkon, FalkonNewton
from mercer.solvers.falkon import cg, preconditioner, solver as falkon
from tests.solvers.centred import data, dense, gradient, solve


@pytest.fixture(autouse=True)
def _own(monkeypatch, iterations):
    """Most tests are of Falkon's own preconditioner."""
    monkeypatch.setattr(preconditioner, "WORTH", 0)


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("alpha", [100.0, 1.0, 1e-2])
@pytest.mark.parametrize("k", [RBF(1.5), Matern(2.0, nu=1.5)])
def test_agrees_with_the_dense_solution(k, alpha, offset):
    X, Z, y, w = data()
    solution = solve(k, X, Z, y, w, alpha, offset, tol=1e-11, max_iter=300)
    a, b = solution.unwrap()
    expected = dense(k(X, Z), k(Z), y, w, alpha, offset)
    np.testing.assert_allclose(k(X, Z) @ a + b, expected, atol=1e-6)
    assert a.shape == (30, 2) and b.shape == (2,) and (offset or not b.any())
    own = gradient(k(X, Z), k(Z), y, w, alpha, a, b)
    np.testing.assert_allclose(solution.extra["residuals"], own, rtol=0.1, atol=1e-12)
    f = k(X, Z) @ a + b
    primal = 0.5 * (w @ (y - f) ** 2).sum() + 0.5 * alpha * np.sum(a * (k(Z) @ a))
    assert solution.primal == pytest.approx(primal, rel=1e-9)


@pytest.mark.parametrize("offset", [False, True])
def test_weight_two_is_the_row_twice(offset):
    X, Z, y, w = data(n=150)
    w = np.random.default_rng(0).integers(0, 4, 150)
    one = solve(RBF(), X, Z, y, w.astype(float), 0.3, offset, tol=1e-12)
    r = np.repeat(np.arange(150), w)
    two = solve(RBF(), X[r], Z, y[r], np.ones(len(r)), 0.3, offset, tol=1e-12)
    K = RBF()(X, Z)
    np.testing.assert_allclose(
        K @ one.value[0] + one.value[1], K @ two.value[0] + two.value[1], atol=1e-8
    )


def test_no_weights_are_ones():
    X, Z, y, _ = data(n=100)
    one = solve(RBF(), X, Z, y, None, 0.1, True)
    two = solve(RBF(), X, Z, y, np.ones(100), 0.1, True)
    np.testing.assert_allclose(one.value[0], two.value[0], rtol=1e-6)


def test_all_points_as_centres_is_exact_ridge():
    X, _, y, w = data(n=80)
    k = RBF(0.7)
    solution = solve(k, X, X, y, w, 0.5, tol=1e-12, max_iter=400)
    a = np.linalg.solve(np.diag(w) @ k(X) + 0.5 * np.eye(80), w[:, None] * y)
    np.testing.assert_allclose(k(X) @ solution.value[0], k(X) @ a, atol=1e-7)


def test_one_centre_one_row():
    k = RBF()
    x = np.array([[1.0, 2.0, 3.0]])
    a, b = solve(k, x, x, np.array([[4.0]]), None, 1.0, tol=1e-12).unwrap()
    np.testing.assert_allclose(a, [[2.0]])
    a, b = solve(k, x, x, np.array([[4.0]]), None, 1.0, offset=True).unwrap()
    assert abs(a[0, 0]) < 1e-9 and b[0] == pytest.approx(4.0)


@pytest.mark.parametrize("copies", [2, 5])
def test_duplicated_centres(copies):
    X, Z, y, w = data()
    many = np.repeat(Z, copies, 0)
    solution = solve(RBF(), X, many, y, w, 0.1, True, tol=1e-9, max_iter=300)
    a, b = solution.unwrap()
    expected = dense(RBF()(X, Z), RBF()(Z), y, w, 0.1, True)
    np.testing.assert_allclose(RBF()(X, many) @ a + b, expected, atol=1e-5)


def test_more_centres_than_rows():
    X, Z, y, w = data(n=20, m=20)
    centres = np.concatenate([Z, Z + 1.0, np.zeros((4, 3))])
    solution = solve(RBF(), X, centres, y, w, 0.2, tol=1e-10, max_iter=300)
    a, _ = solution.unwrap()
    expected = dense(RBF()(X, centres), RBF()(centres), y, w, 0.2, False)
    np.testing.assert_allclose(RBF()(X, centres) @ a, expected, atol=1e-6)


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("alpha", [1e-5, 1e-9, 1e-13, 0.0])
def test_tiny_penalties_are_sketched(alpha, offset):
    X, Z, y, w = data(n=600, m=60)
    k = RBF(1.5)
    solution = solve(k, X, Z, y, w, alpha, offset, max_iter=200)
    a, b = solution.unwrap()
    assert gradient(k(X, Z), k(Z), y, w, alpha, a, b).max() < 1.01e-6
    expected = dense(k(X, Z), k(Z), y, w, alpha, offset)
    gap = np.linalg.norm(k(X, Z) @ a + b - expected) / np.linalg.norm(expected)
    assert gap < 1e-3
    if alpha < 1e-12:
        assert solution.extra["preconditioner"] == "krill"


def test_slow_iterations_change_to_the_sketch(monkeypatch):
    monkeypatch.setattr(cg, "SLOW", 4)
    monkeypatch.setattr(falkon, "PATIENCE", 5)
    for n, name in ((600, "krill"), (400, "sampled")):  # all rows where they are few
        X, Z, y, w = data(n=n, m=60)
        solution = solve(RBF(1.5), X, Z, y, w, 1e-5, True, tol=1e-7, max_iter=200)
        assert solution.converged and solution.extra["preconditioner"] == name


def test_many_centres_and_a_small_penalty():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 3))
    y = (np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(1200))[:, None]
    k, alpha, Z = RBF(), 1e-4, X[:250]
    solution = solve(k, X, Z, y, None, alpha)
    half = np.linalg.solve(np.linalg.cholesky(k(Z) + 1e-13 * np.eye(250)), k(X, Z).T).T
    A = np.vstack([half, np.sqrt(alpha) * np.eye(250)])
    least = 0.5 * np.linalg.lstsq(A, np.vstack([y, np.zeros((250, 1))]), rcond=None)[1].sum()
    assert solution.converged and solution.primal < 1.02 * least


def test_slow_iterations_without_memory_for_a_sketch_say_so(monkeypatch):
    monkeypatch.setattr(cg, "SLOW", 1)
    X, Z, y, w = data(m=60)
    with mercer.config(memory=2**17):
        solution = solve(RBF(1.5), X, Z, y, w, 1e-6, tol=1e-10)
    assert not solution.converged and "a memory budget of 1.2 MB" in solution.message
    assert solution.residual < 1.0


def test_zero_targets_leave_at_once_and_others_go_on():
    X, Z, y, w = data(t=3)
    y[:, 1] = 0.0
    solution = solve(RBF(), X, Z, y, w, 0.1)
    a, _b = solution.unwrap()
    assert not a[:, 1].any() and solution.extra["residuals"][1] == 0.0
    alone = solve(RBF(), X, Z, y[:, :1], w, 0.1)
    np.testing.assert_allclose(RBF()(X, Z) @ (a[:, :1] - alone.value[0]), 0, atol=1e-4)


def test_constant_targets_are_the_offset():
    X, Z, _y, w = data()
    a, b = solve(RBF(), X, Z, np.full((400, 1), 7.0), w, 0.1, True).unwrap()
    np.testing.assert_allclose(RBF()(X, Z) @ a + b, 7.0, atol=1e-5)


def test_weights_of_zero_are_refused():
    X, Z, y, _ = data(n=50)
    blocks = mercer.RowBlocks.from_arrays(X, y, np.zeros(50), block_rows=20)
    for rows in (row_pass(RBF(), X, Z, y, np.zeros(50)), row_pass(RBF(), blocks, Z)):
        for solver in (Falkon(), FalkonNewton("huber")):
            with pytest.raises(InvalidInput, match="all sample weights are zero"):
                solver.solve(Centred(rows, RBF()(Z), 0.1, True, 2))


def test_iterations_are_told(monkeypatch, capsys):
    clock = iter(range(0, 10**6, 3))
    monkeypatch.setattr(threads.time, "monotonic", lambda: float(next(clock)))
    X, Z, y, w = data()
    with mercer.config(progress=True):
        solve(RBF(), X, Z, y, w, 0.1, True)
        rows = row_pass(RBF(), X, Z, np.sign(y), w)
        FalkonNewton("logistic").solve(Centred(rows, RBF()(Z), 1.0, True, 2))
    told = capsys.readouterr().err
    assert re.search(r"mercer: falkon, \d+ s, iteration 2, residual \d.\de-\d\d of 1e-06", told)
    assert re.search(r"mercer: falkon newton, \d+ s, step 2, gradient .* of 1e-06", told)


def test_scales_do_not_matter():
    X, Z, y, w = data()
    base = solve(RBF(), X, Z, y, w, 0.1, True, tol=1e-9)
    big = solve(RBF(), X, Z, 1e120 * y, w, 0.1, True, tol=1e-9)
    assert big.converged and abs(big.n_iter - base.n_iter) < 4
    np.testing.assert_allclose(1e-120 * big.value[0], base.value[0], rtol=1e-4, atol=1e-4)
    loud = solve(1e8 * RBF(), X, Z, y, w, 1e8 * 0.1, True, tol=1e-9)
    assert loud.converged
    np.testing.assert_allclose(1e8 * loud.value[0], base.value[0], rtol=1e-4, atol=1e-4)


def test_single_precision_rows():
    X, Z, y, w = data(n=3000, m=100)
    X, Z = X.astype(np.float32), Z.astype(np.float32)
    k = RBF(1.5)
    rows = row_pass(k, X, Z, y, w)
    solution = Falkon(tol=1e-6).solve(Centred(rows, k(Z.astype(float)), 0.3, True, 2))
    a, b = solution.unwrap()
    K = k(X.astype(float), Z.astype(float))
    expected = dense(K, k(Z.astype(float)), y, w, 0.3, True)
    assert np.linalg.norm(K @ a + b - expected) < 1e-4 * np.linalg.norm(expected)


def test_blocks_equal_memory():
    X, Z, y, w = data(n=900)
    k = Matern(1.0, nu=0.5)  # well-conditioned, so that all digits are determined
    blocks = mercer.RowBlocks.from_arrays(X, y, w, block_rows=128)
    problem = Centred(row_pass(k, blocks, Z), k(Z), 5.0, True, 2)
    streamed = Falkon(tol=1e-13).solve(problem)
    stored = solve(k, X, Z, y, w, 5.0, True, tol=1e-13)
    gap = k(X, Z) @ (streamed.value[0] - stored.value[0]) + streamed.value[1] - stored.value[1]
    assert np.abs(gap).max() < 1e-12 * np.abs(y).max()


def test_drift_is_corrected(monkeypatch):
    """A product that is a little wrong: the recurrence believes in it, the certificate does not."""
    from mercer.solvers.falkon.problem import CentredSystem

    product, calls = CentredSystem.product, []

    def wrong(self, P):
        calls.append(1)
        Q = product(self, P)
        return Q * (1.0 + 0.05 * (len(calls) < 6))

    monkeypatch.setattr(CentredSystem, "product", wrong)
    X, Z, y, w = data()
    solution = solve(RBF(), X, Z, y, w, 1.0, True, tol=1e-9, max_iter=300)
    a, b = solution.unwrap()
    np.testing.assert_allclose(
        RBF()(X, Z) @ a + b, dense(RBF()(X, Z), RBF()(Z), y, w, 1.0, True), atol=1e-6
    )


def test_a_limit_of_iterations_is_told():
    X, Z, y, w = data(m=60)
    solution = solve(RBF(1.5), X, Z, y, w, 1e-3, tol=1e-12, max_iter=3)
    assert solution.n_iter == 3 and not solution.converged
    with pytest.warns(NotConverged, match="max_iter"):
        a, b = solution.unwrap()
    own = gradient(RBF(1.5)(X, Z), RBF(1.5)(Z), y, w, 1e-3, a, b)
    np.testing.assert_allclose(own, solution.extra["residuals"], rtol=1e-6)


def test_a_limit_of_time_is_told():
    X, Z, y, w = data(m=60)
    solution = solve(RBF(1.5), X, Z, y, w, 1e-3, tol=1e-12, max_time=1e-9)
    assert solution.n_iter == 1 and "1e-09 s" in solution.message


def test_passes_are_counted():
    X, Z, y, w = data()
    rows = row_pass(RBF(), X, Z, y, w)
    pull, seen = rows.pull, []
    rows.pull = lambda V, step: seen.append(1) or pull(V, step)
    solution = Falkon().solve(Centred(rows, RBF()(Z), 1.0, True, 2))
    assert solution.extra["passes"] == len(seen) >= solution.n_iter + 2


def test_gram_is_kept_unless_it_may_go():
    X, Z, y, w = data()
    KZ = RBF()(Z)
    kept = KZ.copy()
    rows = row_pass(RBF(), X, Z, y, w)
    first = Falkon().solve(Centred(rows, KZ, 1.0, outputs=2))
    assert np.array_equal(KZ, kept)
    second = Falkon().solve(Centred(rows, KZ, 1.0, outputs=2, overwrite=True))
    assert not np.array_equal(KZ, kept)
    assert np.array_equal(first.value[0], second.value[0])


@pytest.mark.parametrize(
    ("stop", "streamed", "alpha"),
    [
        (4, False, 0.5),
        (4, True, 0.5),
        (4, False, 0.0),
        (4, True, 0.0),
        (1, True, 0.5),
        (7, True, 0.5),
    ],
)
def test_stopped_and_resumed_has_the_same_bits(tmp_path, stop, streamed, alpha):
    X, Z, y, w = data()
    path = tmp_path / "fit"

    def run(checkpoint, callback=None):
        if streamed:
            rows = row_pass(RBF(), mercer.RowBlocks.from_arrays(X, y, w, block_rows=100), Z)
        else:
            rows = row_pass(RBF(), X, Z, y, w)
        problem = Centred(rows, RBF()(Z), alpha, True, 2)
        return Falkon(tol=1e-8, checkpoint=checkpoint, callback=callback).solve(problem)

    def interrupt(iteration, residual):
        if iteration == stop:
            raise KeyboardInterrupt

    whole = run(None)
    with pytest.raises(KeyboardInterrupt) as caught:
        run(path, interrupt)
    (note,) = caught.value.__notes__
    assert note.startswith("the same fit with checkpoint=")
    assert note.endswith(f"{path.name}' goes on from step {stop - 1}")
    counted = []
    resumed = run(path, lambda i, r: counted.append(i))
    assert counted[0] == stop  # the iteration that was broken off is made again, no other
    for one, two in zip(whole.value, resumed.value, strict=True):
        assert np.array_equal(one, two)
    assert whole.n_iter == resumed.n_iter
    counted.clear()
    again = run(path, lambda i, r: counted.append(i))
    assert not counted and np.array_equal(again.value[0], whole.value[0])


def test_a_limit_can_be_raised_with_a_checkpoint(tmp_path):
    X, Z, y, w = data()
    rows = row_pass(RBF(), X, Z, y, w)
    problem = Centred(rows, RBF()(Z), 0.5, True, 2)
    whole = Falkon(tol=1e-8).solve(problem)
    short = Falkon(tol=1e-8, max_iter=3, checkpoint=tmp_path / "fit").solve(problem)
    assert not short.converged
    rest = Falkon(tol=1e-8, checkpoint=tmp_path / "fit").solve(problem)
    assert np.array_equal(rest.value[0], whole.value[0])


def test_a_file_of_another_problem_is_refused(tmp_path):
    X, Z, y, w = data()
    solve(RBF(), X, Z, y, w, 0.5, checkpoint=tmp_path / "fit")
    for changed in ((X, Z, y + 1, w, 0.5), (X, Z, y, w, 0.6), (X, Z[::-1].copy(), y, w, 0.5)):
        with pytest.raises(InvalidInput, match="another problem"):
            solve(RBF(), *changed, checkpoint=tmp_path / "fit")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["y", "w"])
def test_what_is_not_finite_is_refused(bad, where):
    X, Z, y, w = data()
    (y if where == "y" else w)[13] = bad
    with pytest.raises(InvalidInput, match="NaN or infinity"):
        solve(RBF(), X, Z, y, w, 0.5)


def test_bad_problems_and_options_are_named():
    X, Z, y, w = data()
    rows = row_pass(RBF(), X, Z, y, w)
    for alpha in (-1.0, np.nan, "much", True):
        with pytest.raises(InvalidInput, match="alpha"):
            Falkon().solve(Centred(rows, RBF()(Z), alpha, outputs=2))
    with pytest.raises(InvalidInput, match="30 centres"):
        Falkon().solve(Centred(rows, RBF()(Z[:5]), 1.0, outputs=2))
    with pytest.raises(InvalidInput, match="outputs"):
        Falkon().solve(Centred(rows, RBF()(Z), 1.0, outputs=0))
    with pytest.raises(InvalidInput, match="weights"):
        solve(RBF(), X, Z, y, -w, 1.0)
    KZ = RBF()(Z)
    KZ[3, 3] = np.nan
    with pytest.raises(InvalidInput, match="centres"):
        Falkon().solve(Centred(rows, KZ, 1.0, outputs=2))
    for options in ({"tol": 0.0}, {"tol": 2}, {"max_iter": 0}, {"max_time": -1}, {"callback": 3}):
        with pytest.raises(InvalidInput, match=next(iter(options))):
            Falkon(**options)


def test_indefinite_similarities_are_refused():
    X, Z, y, w = data()
    with pytest.raises(mercer.errors.NotPositiveDefinite, match="positive semidefinite"):
        Falkon().solve(Centred(row_pass(RBF(), X, Z, y, w), -RBF()(Z), 1.0, outputs=2))
