"""Krylov spaces of folds: the same values as factorisations, and residuals that are true."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import RBF, Matern
from mercer.selection.grid import ridge
from mercer.selection.grid.ridge import RidgeFold, ridge_values, shifted_solutions

ALPHAS = np.geomspace(1e-6, 1e3, 10)


def problem(rng, n=260, t=1, weighted=False, kernel=None):
    """Return K and three folds, shuffled, with positive weights if asked for."""
    X = rng.standard_normal((n, 3))
    y = np.stack([np.sin((i + 1) * X[:, 0]) + X[:, 1] for i in range(t)], axis=1)
    fold = rng.permutation(n) % 3
    folds = []
    for k in range(3):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        s = np.sqrt(rng.uniform(0.2, 3.0, len(train))) if weighted else np.ones(len(train))
        folds.append(RidgeFold(train, test, y[train], s, 1.0, t == 1, None))
    return (kernel or RBF(1.0))(X), folds


def by_hand(K, fold, alpha, offset):
    """Solve the normal equations of one fold with dense linear algebra."""
    w = fold.s**2
    A = K[np.ix_(fold.train, fold.train)] + alpha * np.diag(1 / w)
    m = len(w)
    if offset:
        A = np.block([[A, np.ones((m, 1))], [np.ones((1, m)), np.zeros((1, 1))]])
        rhs = np.vstack([fold.T, np.zeros((1, fold.T.shape[1]))])
    else:
        rhs = fold.T
    solved = np.linalg.solve(A, rhs)
    out = K[np.ix_(fold.test, fold.train)] @ solved[:m] + (solved[m] if offset else 0.0)
    return out[:, 0] if fold.column else out


def always(monkeypatch, way):
    """Let the folds be solved in one way only."""
    monkeypatch.setattr(ridge, "_krylov_pays", lambda *a: way == "krylov")
    monkeypatch.setattr(ridge, "_worth_it", lambda *a: True)
    monkeypatch.setattr(ridge, "REDUCTION", 0 if way == "band" else 10**6)


@pytest.mark.parametrize("way", ["krylov", "cholesky", "band"])
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("t", [1, 3])
def test_values_equal_dense_solutions(rng, monkeypatch, way, offset, weighted, t):
    K, folds = problem(rng, t=t, weighted=weighted)
    always(monkeypatch, way)
    alphas = ALPHAS[3:]  # from 1e-3: the bordered system by hand has few digits below
    found = ridge_values(K, folds, alphas, offset)
    for fold, mine in zip(folds, found, strict=True):
        for alpha, values in zip(alphas, mine, strict=True):
            np.testing.assert_allclose(values, by_hand(K, fold, alpha, offset), atol=1e-9)


@pytest.mark.parametrize("kernel", [RBF(0.1), RBF(1.0), RBF(30.0), Matern(1.0)])
@pytest.mark.parametrize("offset", [False, True])
def test_krylov_is_as_good_as_cholesky(rng, monkeypatch, kernel, offset):
    K, folds = problem(rng, kernel=kernel)
    always(monkeypatch, "cholesky")
    direct = ridge_values(K, folds, ALPHAS, offset)
    always(monkeypatch, "krylov")
    found = ridge_values(K, folds, ALPHAS, offset)
    for a, b in zip(direct, found, strict=True):
        for alpha, x, y in zip(ALPHAS, a, b, strict=True):
            tolerance = 1e-9 if alpha >= 1e-3 else 1e-6  # what either knows
            np.testing.assert_allclose(y, x, atol=tolerance)


def test_the_certificate_is_computed_from_the_answers(rng):
    K, folds = problem(rng)
    S, B = np.zeros((3, len(K))), np.zeros((3, len(K)))
    for j, fold in enumerate(folds):
        S[j, fold.train], B[j, fold.train] = 1.0, fold.T[:, 0]
    found = shifted_solutions(K, S, B, ALPHAS, np.arange(3), False)
    for i, alpha in enumerate(ALPHAS):
        for j in range(3):
            z = found.z[i, j]
            r = B[j] - S[j] * (K @ (S[j] * z)) - alpha * z
            size = np.sqrt(np.mean(folds[j].T ** 2))
            bound = np.linalg.norm(r) / (2 * np.sqrt(alpha)) / size
            assert found.error[i, j] == pytest.approx(bound, rel=0.5, abs=1e-13)
            assert not z[folds[j].test].any()
            np.testing.assert_allclose(found.product[i, j], K @ z, atol=1e-9 * np.abs(z).sum())


def test_what_did_not_converge_is_not_called_good_and_is_factorised(rng, monkeypatch):
    K, folds = problem(rng, kernel=RBF(0.5))
    always(monkeypatch, "krylov")
    monkeypatch.setattr(ridge, "MOST", 12)
    S, B = np.zeros((3, len(K))), np.zeros((3, len(K)))
    for j, fold in enumerate(folds):
        S[j, fold.train], B[j, fold.train] = 1.0, fold.T[:, 0]
    found = shifted_solutions(K, S, B, ALPHAS, np.arange(3), False)
    assert found.steps == 12
    assert found.good[-1].all()
    assert not found.good[0].any()
    assert (found.error[~found.good] > 1e-9).all()
    values = ridge_values(K, folds, ALPHAS, False)
    for fold, mine in zip(folds, values, strict=True):
        np.testing.assert_allclose(mine[0], by_hand(K, fold, ALPHAS[0], False), atol=1e-6)


def test_constant_targets_and_low_rank_end_at_once(rng, monkeypatch):
    X = rng.standard_normal((60, 1))
    K = X @ X.T  # rank one: the basis ends after two vectors
    train, test = np.arange(40), np.arange(40, 60)
    always(monkeypatch, "krylov")
    for T in (np.zeros(40), np.ones(40), rng.standard_normal(40)):
        fold = RidgeFold(train, test, T[:, None], np.ones(40), 1.0, True, None)
        for offset in (False, True):
            with np.errstate(all="raise", under="ignore"):
                values = ridge_values(K, [fold], np.array([1e-3, 1.0]), offset)[0]
            for alpha, mine in zip((1e-3, 1.0), values, strict=True):
                np.testing.assert_allclose(mine, by_hand(K, fold, alpha, offset), atol=1e-9)


def test_bits_do_not_depend_on_threads(rng):
    K, folds = problem(rng, n=500)
    S, B = np.zeros((3, len(K))), np.zeros((3, len(K)))
    for j, fold in enumerate(folds):
        S[j, fold.train], B[j, fold.train] = 1.0, fold.T[:, 0]
    found = []
    for threads in (1, 3):
        with mercer.config(threads=threads):
            found.append(shifted_solutions(K, S, B, ALPHAS, np.arange(3), False).z)
    assert np.array_equal(*found)


def test_bases_stay_in_their_share_of_memory(rng):
    K, folds = problem(rng, n=500, t=3)
    found = []
    for memory in ("2GB", "20MB", "5MB"):
        with mercer.config(memory=memory):
            found.append(ridge_values(K, folds, ALPHAS[3:], False))
            S = np.ones((60, 500))
            r = shifted_solutions(K, S, np.ones((60, 500)), ALPHAS[:2], np.arange(60), False)
            assert 2 * 8 * 60 * 500 * r.steps <= 0.2 * mercer.get_config().memory
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)


def test_cost_decides_for_few_steps_or_factorisations():
    few = np.full((5, 10), 1e3)
    counts, fold = np.full(5, 2400), np.arange(5)
    fast, slow = few * 1e3, few * 1.0001
    assert ridge._worth_it(few, fast, fold, counts, 400, 3000)
    assert not ridge._worth_it(few, slow, fold, counts, 5000, 3000)
    assert ridge._worth_it(few, slow, fold, counts, 16, 3000)  # little spent so far
