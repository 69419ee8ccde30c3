"""NewtonCG: softmax against scipy.optimize, its certificate, two classes as the logistic loss."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax as reference, logsumexp, softmax, xlogy

from mercer import RBF
from mercer.errors import InvalidInput
from mercer.losses import Logistic
from mercer.operators import LowRank
from mercer.solvers import IRLS, NewtonCG, SmoothERM, SoftmaxERM
from mercer.solvers.risk.softmax import CoupledFactor, log_softmax


def draw(seed, n=None, C=None):
    rng = np.random.default_rng(seed)
    n, C = n or int(rng.integers(10, 50)), C or int(rng.integers(2, 6))
    X = rng.standard_normal((n, 3))
    y = np.digitize(X[:, 0] + 0.5 * rng.standard_normal(n), np.linspace(-1, 1, C - 1))
    y[:C] = np.arange(C)
    return X, y, C, float(10 ** rng.uniform(-2, 1)), rng.uniform(0.5, 2, n), bool(seed % 2)


def parts(K, y, C, w, A, b):
    z = K @ A + b
    Y = np.eye(C)[y]
    risk = float(w @ (logsumexp(z, axis=1) - (Y * z).sum(1)))
    return risk, w[:, None] * (softmax(z, axis=1) - Y)


@pytest.mark.parametrize("features", [False, True])
def test_thirty_problems_against_scipy_and_their_gap(features):
    for seed in range(30):
        X, y, C, alpha, w, offset = draw(seed)
        K = X @ X.T if features else RBF(1.0)(X)
        n = len(y)
        solution = NewtonCG().solve(
            SoftmaxERM(LowRank(X) if features else K, y, C, alpha, w, offset)
        )
        assert solution.converged, solution.message
        A, b = solution.value, solution.extra["intercept"]
        risk, G = parts(K, y, C, w, A, b)
        primal = risk + 0.5 * alpha * float((A * (K @ A)).sum())
        assert solution.primal == pytest.approx(primal, rel=1e-9)
        assert abs(b.sum()) <= 1e-9 * (1 + abs(b).max())
        assert abs(A.sum(1)).max() <= 1e-9 * abs(A).max()
        np.testing.assert_allclose(alpha * A, -G, atol=1e-7 * abs(G).max())
        if offset:
            assert abs(A.sum(0)).max() <= 1e-9 * abs(A).sum()
            assert abs(G.sum(0)).max() <= 1e-9 * abs(G).sum()
        # the dual value at p = Y − alpha A/w itself; rows that are no distributions are cut off
        p = np.maximum(np.eye(C)[y] - alpha * A / w[:, None], 0.0)
        dual = -float(w @ xlogy(p, p).sum(1)) - 0.5 * alpha * float((A * (K @ A)).sum())
        assert primal - dual <= 1e-6 * primal
        root = X if features else np.linalg.cholesky(K + 1e-11 * np.eye(n))
        D = root.shape[1]

        def objective(x, root=root, y=y, C=C, w=w, alpha=alpha, offset=offset, D=D):
            V, c = x[: D * C].reshape(D, C), x[D * C :] * offset
            z = root @ V + c
            Y = np.eye(C)[y]
            g = w[:, None] * (softmax(z, axis=1) - Y)
            value = w @ (logsumexp(z, axis=1) - (Y * z).sum(1)) + 0.5 * alpha * (V * V).sum()
            return value, np.append((root.T @ g + alpha * V).ravel(), g.sum(0) * offset)

        options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-15, "gtol": 1e-9}
        best = minimize(
            objective, np.zeros(D * C + C), jac=True, method="L-BFGS-B", options=options
        )
        assert solution.primal == pytest.approx(best.fun, rel=1e-6)


def test_two_classes_are_the_logistic_loss_of_the_difference():
    """f₁ = −f₀ = f/2 costs half of ‖f‖²: softmax with 2·alpha is the logistic loss with alpha."""
    X, y, _, alpha, w, _ = draw(3, 40, 2)
    K = RBF(1.0)(X)
    two = NewtonCG(1e-12).solve(SoftmaxERM(K, y, 2, 2 * alpha, w))
    one = IRLS(1e-12).solve(SmoothERM(K, 2.0 * y - 1, Logistic(), alpha, w))
    np.testing.assert_allclose(two.value[:, 1] - two.value[:, 0], one.value, atol=1e-8)
    assert np.diff(two.extra["intercept"])[0] == pytest.approx(one.extra["intercept"], abs=1e-8)
    assert two.primal == pytest.approx(one.primal, rel=1e-10)


@pytest.mark.parametrize("alpha", [1e-12, 1e-9, 1e-6, 1e-3, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("features", [False, True])
def test_penalties_over_24_orders(alpha, features):
    X, y, C, _, w, _ = draw(8, 45, 3)
    for labels in (y, np.digitize(X[:, 0], [-0.5, 0.5])):  # noisy, and separable
        K = LowRank(X) if features else RBF(1.0)(X)
        solution = NewtonCG().solve(SoftmaxERM(K, labels, C, alpha, w))
        assert np.isfinite(solution.value).all()
        if not solution.converged:
            assert alpha < 1e-8 and "rounding" in solution.message
        assert solution.gap <= 1e-4 * solution.primal
        if alpha == 1e12:
            share = np.bincount(labels, w)
            np.testing.assert_allclose(
                softmax(solution.extra["intercept"]), share / share.sum(), rtol=1e-6
            )


def test_weights_are_repetitions_and_classes_may_be_permuted():
    X, y, C, alpha, _, _ = draw(5, 30, 3)
    K, w = RBF(1.0)(X), np.array([1.0, 2, 3] * 10)
    at = np.repeat(np.arange(30), w.astype(int))
    one = NewtonCG().solve(SoftmaxERM(K, y, C, alpha, w))
    two = NewtonCG().solve(SoftmaxERM(K[np.ix_(at, at)], y[at], C, alpha))
    merged = np.stack([np.bincount(at, column) for column in two.value.T], axis=1)
    np.testing.assert_allclose(one.value, merged, atol=1e-9)
    order = np.array([2, 0, 1])
    turned = NewtonCG().solve(SoftmaxERM(K, order[y], C, alpha, w))
    np.testing.assert_allclose(turned.value[:, order], one.value, atol=1e-9)


def test_extreme_weights_and_a_factor_that_must_be_renewed():
    X, y, C, _, _, _ = draw(6, 60, 4)
    w = np.where(y == 0, 1000.0, 1e-4)
    solution = NewtonCG().solve(SoftmaxERM(RBF(1.0)(X), y, C, 1.0, w))
    assert solution.converged
    _, G = parts(RBF(1.0)(X), y, C, w, solution.value, solution.extra["intercept"])
    np.testing.assert_allclose(solution.value, -G, atol=1e-7 * abs(G).max())


def test_large_enough_not_to_be_polished():
    X, y, C, _, _, _ = draw(9, 600, 3)
    solution = NewtonCG(1e-6).solve(SoftmaxERM(RBF(1.0)(X), y, C, 0.1))
    assert solution.converged and solution.residual <= 1e-5
    assert solution.gap <= 1e-6 * solution.primal


def test_limits_and_refusals():
    X, y, C, _, _, _ = draw(2, 30, 3)
    K = RBF(1.0)(X)
    stopped = NewtonCG(max_iter=1).solve(SoftmaxERM(K, y, C, 1e-4))
    assert not stopped.converged and "max_iter" in stopped.message
    sharp = NewtonCG(1e-11).solve(SoftmaxERM(K, y, C, 1e-4))
    assert stopped.dual <= sharp.primal <= stopped.primal
    for change, text in [
        ({"classes": 1}, "classes"),
        ({"classes": 4}, "each of the class numbers"),
        ({"classes": 2}, "each of the class numbers"),
        ({"y": y.astype(float)}, "class numbers"),
        ({"alpha": -1.0}, "alpha"),
        ({"weights": np.zeros(30)}, "> 0"),
    ]:
        given = {"K": K, "y": y, "classes": C, "alpha": 1.0} | change
        with pytest.raises(InvalidInput, match=text):
            NewtonCG().solve(SoftmaxERM(**given))


def test_log_softmax_keeps_small_numbers():
    z = np.array([[0.0, -40.0, -50.0], [1e300, 0.0, -1e300], [3.0, 3.0, 3.0]])
    got = log_softmax(z)
    assert got[0, 0] == pytest.approx(-(np.exp(-40.0) + np.exp(-50.0)), rel=1e-12)
    np.testing.assert_allclose(got[1:], reference(z[1:], axis=1), rtol=1e-12)


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 100.0])
def test_a_matrix_of_low_rank_has_coefficients_out_of_sight(alpha):
    """Those that change no value must still be −G/alpha."""
    rng = np.random.default_rng(4)
    X = 3 * rng.standard_normal((60, 2))
    y = np.digitize(X[:, 0] + rng.standard_normal(60), [-1.0, 1.0])
    K = X @ X.T
    solution = NewtonCG().solve(SoftmaxERM(K, y, 3, alpha))
    assert solution.converged, solution.message
    _, G = parts(K, y, 3, np.ones(60), solution.value, solution.extra["intercept"])
    np.testing.assert_allclose(alpha * solution.value, -G, atol=1e-7)
    features = NewtonCG().solve(SoftmaxERM(LowRank(X), y, 3, alpha))
    assert features.primal == pytest.approx(solution.primal, rel=1e-7)


@pytest.mark.parametrize("length", [0.3, 0.5, 1.0, 2.0])
def test_noise_is_fitted_with_a_very_small_penalty(length):
    """Curvatures of many sizes: there the mean of the classes is a poor preconditioner."""
    rng = np.random.default_rng(4)  # of some seeds rounding ends at a residual of 1.1e-5
    X, y = rng.standard_normal((300, 2)), rng.integers(0, 4, 300)
    K = RBF(length)(X)
    for alpha in (1e-6, 1e-9):
        s = NewtonCG(max_iter=200).solve(SoftmaxERM(K, y, 4, alpha))
        assert s.converged, s.message
        assert s.gap <= 1e-8 * s.primal and s.residual <= 1e-5
        z = K @ s.value + s.extra["intercept"]
        primal = (np.log(np.exp(z - z.max(1, keepdims=True)).sum(1)) + z.max(1)).sum()
        primal += 0.5 * alpha * (s.value * (K @ s.value)).sum() - z[np.arange(300), y].sum()
        assert primal == pytest.approx(s.primal, rel=1e-6)


def test_a_coupled_factor_is_the_newton_matrix():
    rng = np.random.default_rng(1)
    n, C, alpha = 12, 3, 0.3
    A = rng.standard_normal((n, n))
    K, w = A @ A.T, rng.uniform(0.5, 2, n)
    p = rng.dirichlet(np.ones(C), n)
    W = np.zeros((n, C, n, C))
    for i in range(n):
        W[i, :, i, :] = w[i] * (np.diag(p[i]) - np.outer(p[i], p[i]))
    r = rng.standard_normal((n, C))
    r -= r.mean(axis=1, keepdims=True)
    factor = CoupledFactor(K, p, w, alpha)
    d, e = factor.step(r, None)
    np.testing.assert_allclose(alpha * d + np.einsum("icjd,jd->ic", W, K @ d), -r, atol=1e-9)
    sums = np.array([1.0, -3.0, 2.0])
    d, e = factor.step(r, sums)
    lack = alpha * d + np.einsum("icjd,jd->ic", W, K @ d + e) + r
    np.testing.assert_allclose(lack, 0.0, atol=1e-9)
    np.testing.assert_allclose(d.sum(axis=0), -sums, atol=1e-9)


def test_without_memory_for_exact_steps_the_cause_is_told(monkeypatch):
    monkeypatch.setattr("mercer.solvers.risk.softmax.coupled_bytes", lambda n, C: 1e18)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((120, 2)), rng.integers(0, 4, 120)
    s = NewtonCG(max_iter=200).solve(SoftmaxERM(RBF(1.0)(X), y, 4, 1e-11))
    assert not s.converged
    assert "conjugate gradients" in s.message or "max_iter" in s.message


def test_a_rough_factor_answers_as_an_exact_one():
    """A preconditioner in float32 is used where it is safe, and changes no answer."""
    from mercer.operators import Dense
    from mercer.solvers.risk.metric import SharedGram

    rng = np.random.default_rng(5)
    X = rng.standard_normal((70, 3))
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1))
    s, V = rng.uniform(0.2, 1.0, 70), rng.standard_normal((70, 4))
    B = 0.3 * np.eye(70) + s[:, None] * K * s
    gram = SharedGram(Dense(K.copy(), symmetric=True))
    for rough in (True, False, True):  # the lower triangle of K is gone after the second
        gram.factor(s, 0.3, rough)
        np.testing.assert_allclose(gram.solve(V), np.linalg.solve(B, V), rtol=0, atol=1e-4)
        assert (gram._kind is np.float32) == rough
        np.testing.assert_allclose(gram._matmul(V), K @ V, rtol=0, atol=1e-12)
    for weights, ridge in ((s, 1e-6), (np.where(np.arange(70) == 3, 1e-4, s), 0.3)):
        gram.factor(weights, ridge, True)  # near singular, or of uneven rows: float64
        exact = ridge * np.eye(70) + weights[:, None] * K * weights
        np.testing.assert_allclose(exact @ gram.solve(V), V, atol=1e-6)
