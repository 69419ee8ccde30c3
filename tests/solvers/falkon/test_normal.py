"""Falkon by normal equations of one pass, against dense solves and against iterations."""

import numpy as np
import pytest

import mercer
from mercer import RBF, Laplacian, Linear, Matern, Polynomial, RowBlocks
from mercer.engines import tiles
from mercer.engines.passes.base import row_pass
from mercer.solvers import Centred, Falkon
from mercer.solvers.falkon import normal
from tests.solvers.centred import data, dense, gradient, solve

WAYS = ("single", "normal", "whitened")


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("alpha", [100.0, 1.0, 1e-2])
@pytest.mark.parametrize("k", [RBF(1.5), Matern(2.0, nu=1.5), Laplacian(3.0), Polynomial(2)])
def test_the_answer_is_the_dense_one(k, alpha, offset):
    X, Z, y, w = data(n=700)
    w[:30] = 0.0
    solution = solve(k, X, Z, y, w, alpha, offset)
    a, b = solution.unwrap()
    K, KZ = k(X, Z), k(Z)
    assert solution.extra["preconditioner"] in WAYS and solution.extra["passes"] <= 4
    assert np.abs(K @ a + b - dense(K, KZ, y, w, alpha, offset)).max() < 1e-4
    assert gradient(K, KZ, y, w, alpha, a, b).max() < 2e-6
    risk = 0.5 * np.sum(w[:, None] * (y - K @ a - b) ** 2) + 0.5 * alpha * np.sum(a * (KZ @ a))
    assert solution.primal == pytest.approx(risk, rel=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_leads_to_the_same_answer(way, monkeypatch):
    X, Z, y, w = data(n=900, m=40)
    a, b = solve(RBF(1.0), X, Z, y, w, 0.5, True).unwrap()
    monkeypatch.setattr("mercer.solvers.falkon.problem.ways_of_squares", lambda *given: [way])
    solution = solve(RBF(1.0), X, Z, y, w, 0.5, True)
    assert solution.converged and solution.extra["preconditioner"] == way
    K = RBF(1.0)(X, Z)
    np.testing.assert_allclose(K @ solution.value[0] + solution.value[1], K @ a + b, atol=1e-4)


def test_sums_are_believed_only_with_digits_to_spare():
    X, Z, y, w = data(n=500)
    far = 1e7 + y  # the mean takes the digits
    solution = solve(RBF(1.0), X, Z, far, w, 1.0, True)
    a, b = solution.unwrap()
    K, KZ = RBF(1.0)(X, Z), RBF(1.0)(Z)
    assert gradient(K, KZ, far, w, 1.0, a, b).max() < 2e-6


def test_duplicated_centres_and_no_penalty():
    X, Z, y, w = data(n=600)
    twice = np.vstack([Z, Z[:5]])
    for alpha in (0.0, 1e-10, 1.0):
        solution = solve(RBF(1.0), X, twice, y, w, alpha)
        a, b = solution.value
        K = RBF(1.0)(X, twice)
        best = dense(K, RBF(1.0)(twice), y, w, alpha, False)
        loss, least = (np.sum(w[:, None] * (y - f) ** 2) for f in (K @ a + b, best))
        assert loss <= least * (1 + 1e-3) + 1e-9


@pytest.mark.parametrize(("n", "m"), [(1, 1), (5, 5), (7, 3)])
def test_very_few_rows(n, m):
    X, Z, y, w = data(n=max(n, m), m=m)
    solution = solve(RBF(1.0), X, Z, y, w + 0.1, 0.3, True)
    a, b = solution.unwrap()
    wanted = dense(RBF(1.0)(X, Z), RBF(1.0)(Z), y, w + 0.1, 0.3, True)
    assert np.abs(RBF(1.0)(X, Z) @ a + b - wanted).max() < 1e-4


def test_float32_rows():
    X, Z, y, w = data(n=900, m=50)
    X, Z = X.astype(np.float32), Z.astype(np.float32)
    rows = row_pass(RBF(1.5), X, Z, y, w)
    gram = RBF(1.5)(Z.astype(np.float64))
    solution = Falkon().solve(Centred(rows, gram, 1.0, True, 2))
    a, b = solution.unwrap()
    assert solution.extra["preconditioner"] in WAYS
    K = RBF(1.5)(X.astype(float), Z.astype(float))
    assert np.abs(K @ a + b - dense(K, gram, y, w, 1.0, True)).max() < 1e-3


def test_bits_depend_on_neither_threads_nor_what_is_kept():
    X, Z, y, w = data(n=3000, m=150)
    found = []
    with tiles.small_tiles(400):
        for threads in (1, 2, 3):
            with mercer.config(threads=threads):
                found.append(solve(RBF(2.0), X, Z, y, w, 1.0, True).value)
    for a, b in found[1:]:
        assert (a == found[0][0]).all() and (b == found[0][1]).all()


def test_one_pass_over_blocks_is_enough():
    X, Z, y, w = data(n=900)
    blocks = RowBlocks.from_arrays(X, y, w, block_rows=200)
    rows = row_pass(RBF(1.0), blocks, Z)
    solution = Falkon().solve(Centred(rows, RBF(1.0)(Z), 1.0, True, 2))
    a, b = solution.unwrap()
    assert solution.extra["preconditioner"] == "normal" and solution.extra["passes"] == 1
    wanted = dense(RBF(1.0)(X, Z), RBF(1.0)(Z), y, w, 1.0, True)
    assert np.abs(RBF(1.0)(X, Z) @ a + b - wanted).max() < 1e-4


def test_a_small_budget_iterates():
    X, Z, y, w = data(n=900, m=200)
    with mercer.config(memory=8 * 2**20):
        few = solve(RBF(1.0), X, Z, y, w, 1.0)
    assert few.converged and few.extra["preconditioner"] not in WAYS


def test_centres_that_span_little():
    X, _, y, w = data(n=900)
    solution = solve(Linear(), X, X[:40], y, w + 0.1, 1e-3, True)
    assert solution.converged


def test_more_centres_than_pay_are_iterated(monkeypatch):
    monkeypatch.setattr(normal, "SQUARED", 20)
    monkeypatch.setattr(normal, "AGAIN", 20)
    X, Z, y, w = data(n=900)
    assert solve(RBF(1.0), X, Z, y, w, 1.0).extra["preconditioner"] not in WAYS
