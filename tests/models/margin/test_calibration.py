"""Sigmoid, clipping, coupling and agreement: against brute force and their own promises."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from mercer.models.margin.probabilities import (
    LEAST_SLOPE,
    agree,
    couple,
    fit_sigmoid,
    from_pairs,
    from_rest,
    from_sign,
    log_from_sign,
)

rng = np.random.default_rng(0)


def platt_loss(p, f, y, w):
    plus, minus = w[y].sum(), w[~y].sum()
    t = np.where(y, (plus + 1) / (plus + 2), 1 / (minus + 2))
    g = -(p[0] * f + p[1])
    return (w * (np.logaddexp(0, g) - t * g)).sum()


# ------------------------------------------------------------------------------------- the sigmoid
@pytest.mark.parametrize("seed", range(8))
def test_the_sigmoid_is_the_minimum(seed):
    r = np.random.default_rng(seed)
    n = int(r.integers(4, 80))
    f = r.standard_normal(n) * 10.0 ** r.integers(-3, 4) + r.standard_normal()
    y = f + np.abs(f).mean() * r.standard_normal(n) > np.median(f)
    y[:2] = [True, False]
    w = r.uniform(0.1, 3, n)
    A, B = fit_sigmoid(f, y, w)
    s = np.abs(f).max()
    best = min(
        minimize(lambda p: platt_loss([p[0] / s, p[1]], f, y, w), start, method="BFGS").fun
        for start in ([-1.0, 0.0], [-10.0, 1.0], [-0.1, -1.0])
    )
    if A < -2 * LEAST_SLOPE / s:
        assert platt_loss([A, B], f, y, w) <= best + 1e-9 * abs(best)
    else:  # the best slope has the wrong sign
        free = minimize(lambda p: platt_loss([p[0] / s, p[1]], f, y, w), [-1.0, 0.0]).x
        assert free[0] > -1e-5


def test_scaling_the_values_scales_the_slope():
    f, y = rng.standard_normal(50), rng.random(50) < 0.4
    f[y] += 1.0
    A, B = fit_sigmoid(f, y)
    for c in (1e-200, 1e-6, 1e6, 1e200):
        a, b = fit_sigmoid(c * f, y)
        assert a * c == pytest.approx(A, rel=1e-6) and b == pytest.approx(B, rel=1e-6)


def test_swapping_the_classes_turns_the_sigmoid_around():
    f, y = rng.standard_normal(50), rng.random(50) < 0.3
    f[y] += 1.0
    A, B = fit_sigmoid(f, y)
    a, b = fit_sigmoid(-f, ~y)
    assert a == pytest.approx(A, rel=1e-8) and b == pytest.approx(-B, rel=1e-8)


def test_weight_two_is_the_value_given_twice():
    f, y = rng.standard_normal(40) + 0.3, rng.random(40) < 0.5
    f[y] += 1.5
    w = rng.integers(0, 4, 40)
    twice = np.repeat(np.arange(40), w)
    np.testing.assert_allclose(
        fit_sigmoid(f, y, w.astype(float)), fit_sigmoid(f[twice], y[twice]), rtol=1e-8
    )


@pytest.mark.parametrize(
    "f, y",
    [
        ([0.0, 0.0, 0.0], [True, False, False]),
        ([3.0, 3.0, 3.0], [True, False, False]),
        ([1.0, 2.0, 3.0, 4.0], [True, True, False, False]),
        ([-1.0, 1.0], [True, False]),
        ([1e-300, -1e-300], [False, True]),
    ],
)
def test_without_evidence_the_slope_is_the_least_and_the_rate_is_kept(f, y):
    f, y = np.array(f), np.array(y)
    A, B = fit_sigmoid(f, y)
    s = np.abs(f).max() or 1.0
    assert A == pytest.approx(-LEAST_SLOPE / s)
    plus, minus = y.sum(), (~y).sum()
    mean = (plus * (plus + 1) / (plus + 2) + minus / (minus + 2)) / len(y)
    assert 1 / (1 + np.exp(A * f + B)) == pytest.approx(mean, rel=1e-5)


def test_separated_values_and_outliers_stay_finite():
    for f in ([-1.0, 1.0], [-1e-12, 1e-12], [-1e12, 1.0, 2.0], [0.0, 1.0, 1e15]):
        f = np.array(f)
        A, B = fit_sigmoid(f, f > 0.5 * f.max())
        assert np.isfinite([A, B]).all() and A < 0


# ------------------------------------------------------------------------------------ two classes
@pytest.mark.parametrize("A, B", [(-1.0, 0.0), (-2.0, 3.0), (-0.5, -4.0), (-1e-6, 0.8), (-40.0, 9)])
def test_two_classes_agree_with_the_sign_and_never_fall(A, B):
    f = np.sort(np.r_[rng.standard_normal(300) * 5, 0.0, 1e-300, -1e-300, 1e-9, -1e-9, 1e8, -1e8])
    P = from_sign(f, A, B)
    np.testing.assert_allclose(P.sum(1), 1.0, rtol=1e-15)
    assert (np.diff(P[:, 1]) >= 0).all()
    assert ((P[:, 1] > 0.5) == (f > 0)).all() and (P[f < 0, 1] < 0.5).all()
    assert (P.argmax(1) == (f > 0)).all()
    inner = np.abs(A * f + B) < 30
    middle = f[inner & (np.abs(f) > 1e-6)]
    assert (np.diff(from_sign(middle, A, B)[:, 1]) > 0).all()  # the order is kept


def test_two_classes_follow_the_sigmoid_where_it_agrees_and_else_are_even():
    f, A, B = np.linspace(-4, 4, 81), -1.5, 1.2
    plain = 1 / (1 + np.exp(A * f + B))
    got = from_sign(f, A, B)[:, 1]
    agrees = (plain > 0.501) == (f > 0)
    np.testing.assert_allclose(got[agrees], plain[agrees], rtol=1e-12)
    assert (~agrees).sum() > 5
    np.testing.assert_allclose(got[~agrees], 0.5, atol=1e-3)


def test_logarithms_are_accurate_in_the_tails():
    f = np.array([-800.0, -50.0, 0.3, 50.0, 800.0])
    log = log_from_sign(f, -1.0, 0.0)
    np.testing.assert_allclose(
        log[:, 1], [-800.0, -50.0, np.log(1 / (1 + np.exp(-0.3))), 0, 0], rtol=1e-12, atol=1e-20
    )
    np.testing.assert_allclose(np.exp(log), from_sign(f, -1.0, 0.0))


# ----------------------------------------------------------------------------------- more classes
@pytest.mark.parametrize("K", [2, 3, 5, 20])
def test_coupling_is_exact_on_consistent_pairs(K):
    p = rng.dirichlet(np.ones(K), 50)
    p = np.maximum(p, 1e-4)
    p /= p.sum(1, keepdims=True)
    R = p[:, :, None] / (p[:, :, None] + p[:, None, :])
    np.testing.assert_allclose(couple(R), p, rtol=1e-7, atol=1e-12)


def test_coupling_minimises_the_criterion_of_wu_lin_weng():
    K = 4
    R = np.triu(rng.uniform(0.02, 0.98, (6, K, K)), 1)
    R = R + np.tril(1 - R.transpose(0, 2, 1), -1)

    def criterion(p, r):
        return sum(
            (r[j, i] * p[i] - r[i, j] * p[j]) ** 2 for i in range(K) for j in range(K) if i != j
        )

    for p, r in zip(couple(R), R, strict=True):
        assert (p > 0).all() and p.sum() == pytest.approx(1.0)
        for _ in range(200):
            d = rng.standard_normal(K)
            d -= d.mean()
            assert criterion(p + 1e-3 * d, r) >= criterion(p, r)


def test_coupling_of_certain_pairs_and_of_many_rows(monkeypatch):
    R = np.array([[[0.5, 1.0, 1.0], [0.0, 0.5, 1.0], [0.0, 0.0, 0.5]]])
    p = couple(R)
    assert p[0, 0] > 1 - 1e-6 and (p > 0).all() and p.sum() == pytest.approx(1)
    cycle = np.array([[[0.5, 1.0, 0.0], [0.0, 0.5, 1.0], [1.0, 0.0, 0.5]]])
    np.testing.assert_allclose(couple(cycle), 1 / 3)
    many = np.repeat(rng.uniform(0.1, 0.9, (1, 3, 3)), 100, axis=0)
    whole = couple(many)
    monkeypatch.setattr("mercer.models.margin.probabilities.CHUNK", 7 * 16)
    np.testing.assert_array_equal(couple(many), whole)
    assert couple(np.empty((0, 3, 3))).shape == (0, 3)


def test_agreement_is_the_euclidean_projection():
    for K in (2, 3, 6):
        P = rng.dirichlet(np.full(K, 0.5), 40)
        winner = rng.integers(0, K, 40)
        Q = agree(P, winner)
        assert (Q.argmax(1) == winner).all()
        np.testing.assert_allclose(Q.sum(1), 1.0)
        assert (Q >= 0).all()
        for p, q, k in zip(P, Q, winner, strict=True):
            found = minimize(
                lambda x, p=p: ((x - p) ** 2).sum(),
                np.full(K, 1 / K),
                jac=lambda x, p=p: 2 * (x - p),
                method="SLSQP",
                constraints=[
                    {"type": "eq", "fun": lambda x: x.sum() - 1},
                    {"type": "ineq", "fun": lambda x, k=k: x[k] - np.delete(x, k)},
                ],
                options={"ftol": 1e-14, "maxiter": 500},
            )
            np.testing.assert_allclose(q, found.x, atol=1e-5)


def test_agreement_leaves_alone_what_agrees():
    P = rng.dirichlet(np.ones(4), 30)
    before = P.copy()
    np.testing.assert_array_equal(agree(P, P.argmax(1)), before)
    agree(P, np.zeros(30, int))
    np.testing.assert_array_equal(P, before)
    tie = np.array([[0.4, 0.4, 0.2]])
    assert agree(tie, np.array([1])).argmax() == 1


def test_pairs_and_rest_find_consistent_probabilities():
    K = 4
    p = rng.dirichlet(np.ones(K), 30) + 0.01
    p /= p.sum(1, keepdims=True)
    i, j = np.triu_indices(K, 1)
    A, B = -rng.uniform(0.5, 3, len(i)), rng.standard_normal(len(i))
    values = (np.log(p[:, j] / p[:, i]) - B) / A  # so that the sigmoids give p_i/(p_i + p_j)
    np.testing.assert_allclose(from_pairs(values, A, B, p.argmax(1)), p, rtol=1e-7)
    A, B = -rng.uniform(0.5, 3, K), rng.standard_normal(K)
    values = (np.log((1 - p) / p) - B) / A
    np.testing.assert_allclose(from_rest(values, A, B, p.argmax(1)), p, rtol=1e-9)
    far = np.full((1, K), -1e5)
    far[0, 2] = -9e4
    one = from_rest(far, np.full(K, -1.0), np.zeros(K), np.array([2]))
    assert np.isfinite(one).all() and one.sum() == pytest.approx(1)
