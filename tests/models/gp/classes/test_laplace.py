"""Laplace's approximation of two classes against scikit-learn, dense formulas and differences."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.gaussian_process import GaussianProcessClassifier as Peer
from sklearn.gaussian_process.kernels import RBF as PeerRBF, ConstantKernel

from mercer import RBF, KernelLogisticRegression, Matern
from mercer.errors import NotPositiveDefinite
from mercer.models.gp.classes.laplace import laplace
from mercer.models.gp.classes.sites import SiteFactor, as_link

LINKS = ["logit", "probit"]


def data(n=40, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    t = np.where(X[:, 0] + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return X, t, rng.uniform(0.3, 3.0, n)


def dense(K, t, w, link, a):
    """Return mode, evidence and posterior covariance of coefficients a, by textbook formulas."""
    f = K @ a
    W = np.diag(-w * as_link(link).second(t, f))
    B = np.eye(len(K)) + K @ W
    value = w @ as_link(link).log_likelihood(t, f) - 0.5 * a @ f - 0.5 * np.linalg.slogdet(B)[1]
    return f, value, np.linalg.solve(B, K)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("weighted", [False, True])
def test_mode_evidence_and_variance(link, weighted):
    X, t, w = data()
    w = w if weighted else np.ones(len(t))
    kernel = 4.0 * RBF(1.2)
    K = kernel(X)
    before = K.copy()
    fit = laplace(K, t, w if weighted else None, link)

    def lost(a):
        f = K @ a
        return -(w @ as_link(link).log_likelihood(t, f) - 0.5 * a @ f)

    def slope(a):
        return -K @ (w * as_link(link).first(t, K @ a) - a)

    mode = minimize(lost, np.zeros(len(t)), jac=slope, method="BFGS", options={"gtol": 1e-9})
    f, value, cov = dense(K, t, w, link, fit.coef)
    np.testing.assert_allclose(fit.mean, K @ mode.x, atol=1e-6)
    np.testing.assert_allclose(fit.mean, f, atol=1e-12)
    assert fit.log_evidence == pytest.approx(value, abs=1e-10)
    np.testing.assert_allclose(fit.variance(K, np.diagonal(K)), np.diagonal(cov), atol=1e-12)
    np.testing.assert_allclose(fit.factor().posterior_variance(K), np.diagonal(cov), atol=1e-12)
    assert fit.converged and fit.residual < 1e-10 and fit.message == ""
    gap = f - K @ (w * as_link(link).first(t, f))
    assert np.linalg.norm(gap) <= 1e-10 * np.linalg.norm(f)
    np.testing.assert_array_equal(K, before)


def test_evidence_and_gradient_are_those_of_scikit_learn():
    X, t, _ = data(70, 4, 1)
    theirs = ConstantKernel(3.0) * PeerRBF([0.9, 1.5, 4.0, 0.7])
    peer = Peer(theirs, optimizer=None).fit(X, t)
    value, gradient = peer.log_marginal_likelihood(peer.kernel_.theta, eval_gradient=True)
    kernel = 3.0 * RBF([0.9, 1.5, 4.0, 0.7])
    fit = laplace(kernel(X), t)
    assert fit.log_evidence == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(kernel.theta_vjp(X, fit.cotangent()), gradient, atol=1e-6)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("kernel", [0.5 * RBF(2.0), 30.0 * Matern([0.5, 1.0, 2.0])])
def test_gradient_by_differences(link, kernel):
    X, t, w = data(30, 3, 2)
    fit = laplace(kernel(X), t, w, link)
    R = fit.cotangent()
    np.testing.assert_allclose(R, R.T, atol=1e-13)
    got = kernel.theta_vjp(X, R)

    def value(theta):
        return laplace(kernel.with_theta(theta)(X), t, w, link).log_evidence

    for i, e in enumerate(1e-4 * np.eye(len(kernel.theta))):
        want = (value(kernel.theta + e) - value(kernel.theta - e)) / 2e-4
        assert got[i] == pytest.approx(want, abs=1e-6)
    # In any direction of K, not only along parameters.
    A = np.random.default_rng(3).standard_normal((30, 30))
    A = A @ A.T
    K = kernel(X)
    want = [laplace(K + s * A, t, w, link).log_evidence for s in (1e-5, 0.0)]
    slope = (want[0] - laplace(K - 1e-5 * A, t, w, link).log_evidence) / 2e-5
    cotangent = laplace(K, t, w, link).cotangent()
    assert np.sum(cotangent * A) == pytest.approx(slope, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("link", LINKS)
def test_a_weight_is_a_repetition(link):
    X, t, _ = data(25)
    w = np.random.default_rng(4).integers(1, 4, 25)
    again = np.repeat(np.arange(25), w)
    kernel = 2.0 * RBF()
    one = laplace(kernel(X), t, w.astype(float), link)
    many = laplace(kernel(X[again]), t[again], None, link)
    assert one.log_evidence == pytest.approx(many.log_evidence, abs=1e-9)
    np.testing.assert_allclose(one.mean[again], many.mean, atol=1e-9)
    new = np.random.default_rng(5).standard_normal((7, 3))
    got = one.variance(kernel(X, new), kernel.diag(new))
    want = many.variance(kernel(X[again], new), kernel.diag(new))
    np.testing.assert_allclose(got, want, atol=1e-9)


def test_the_mode_is_kernel_logistic_regression():
    X, t, w = data()
    kernel = 1.7 * RBF(1.5)
    fit = laplace(kernel(X), t, w, "logit")
    model = KernelLogisticRegression(kernel, alpha=1.0, fit_intercept=False, tol=1e-13)
    model.fit(X, t, sample_weight=w)
    np.testing.assert_allclose(fit.mean, model.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("link", LINKS)
def test_a_start_changes_the_work_not_the_answer(link):
    X, t, w = data(60)
    kernel = 5.0 * RBF(1.0)
    cold = laplace(kernel(X), t, w, link)
    mean, value = cold.mean.copy(), cold.log_evidence
    other = laplace((4.5 * RBF(1.05))(X), t, w, link)
    cotangent = other.cotangent().copy()
    warm = laplace(kernel(X), t, w, link, other.start)
    assert warm.n_iter < cold.n_iter
    assert warm.log_evidence == pytest.approx(value, abs=1e-9)
    np.testing.assert_allclose(warm.mean, mean, atol=1e-9)
    # The memory was taken over, and what is asked of the earlier answer is made again.
    new = np.random.default_rng(0).standard_normal((4, 3))
    Kx = (4.5 * RBF(1.05))(X, new)
    fresh = laplace((4.5 * RBF(1.05))(X), t, w, link)
    np.testing.assert_allclose(
        other.variance(Kx, np.full(4, 4.5)), fresh.variance(Kx, np.full(4, 4.5)), atol=1e-10
    )
    np.testing.assert_allclose(fresh.cotangent(), cotangent, atol=1e-10)
    far = laplace((1e-3 * RBF(9.0))(X), t, w, link, warm.start)
    want = laplace((1e-3 * RBF(9.0))(X), t, w, link)
    np.testing.assert_allclose(far.mean, want.mean, atol=1e-12)
    fewer = laplace(kernel(X[:9]), t[:9], None, link, far.start)
    np.testing.assert_allclose(fewer.mean, laplace(kernel(X[:9]), t[:9], None, link).mean)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("scale", [1e-12, 1e-4, 1.0, 1e4, 1e8])
def test_any_scale_of_the_kernel(link, scale):
    X, t, _ = data(30)
    K = scale * RBF()(X)
    fit = laplace(K, t, None, link)
    assert fit.converged and np.isfinite(fit.log_evidence)
    _, value, _ = dense(K, t, np.ones(30), link, fit.coef)
    assert fit.log_evidence == pytest.approx(value, rel=1e-6)
    assert np.isfinite(fit.cotangent()).all()
    assert fit.log_evidence <= 0


def test_degenerate_matrices():
    t = np.array([1.0, -1.0, 1.0])
    none = laplace(np.zeros((3, 3)), t)
    assert none.log_evidence == pytest.approx(3 * np.log(0.5))
    assert none.residual == 0.0 and not none.mean.any()
    np.testing.assert_allclose(none.cotangent(), (np.outer(t, t) / 4 - np.eye(3) / 4) / 2)
    same = laplace(np.full((3, 3), 2.0), t)  # rank one: three labels at one point
    assert np.ptp(same.mean) < 1e-12 and same.converged
    one = laplace(np.array([[2.0]]), np.array([1.0]))
    assert one.mean[0] == pytest.approx(2 / (1 + np.exp(one.mean[0])))
    sure = laplace(np.full((3, 3), 1e3), np.ones(3))  # one class only is a legal part of a search
    assert sure.converged and sure.mean.min() > 3


def test_an_indefinite_matrix_is_refused():
    K = np.array([[1.0, 30.0], [30.0, 1.0]])
    with pytest.raises(NotPositiveDefinite, match="check_kernel"):
        SiteFactor(K, np.ones(2))


@pytest.mark.parametrize("link", LINKS)
def test_gradient_of_a_singular_matrix(link):
    X, t, w = data(12, 2)
    X[6:] = X[:6]  # rows given twice, with labels of their own, and only two dimensions
    K = X @ X.T
    G = laplace(K, t, w, link).cotangent()
    A = np.random.default_rng(0).standard_normal((12, 12))
    A = A @ A.T
    rise = laplace(K + 1e-6 * A, t, w, link).log_evidence - laplace(K, t, w, link).log_evidence
    assert np.sum(G * A) == pytest.approx(rise / 1e-6, rel=1e-3)


@pytest.mark.parametrize("link", LINKS)
def test_tiles_are_those_of_the_cotangent(link):
    X, t, w = data(21)
    K = (3.0 * RBF())(X)
    G = laplace(K, t, w, link).cotangent()
    tile = laplace(K, t, w, link).tiles()
    plain = laplace(K, t, w, link)
    cuts = [slice(0, 9), slice(9, 17), slice(17, 21)]
    S = np.random.default_rng(0).standard_normal((21, 21))
    S = S + S.T
    for one in (tile, super(type(plain), plain).tiles()):
        total = sum(
            np.sum(one(rows, cols) * S[rows, cols])
            for rows in cuts
            for cols in cuts
            if rows.start <= cols.start
        )
        assert total == pytest.approx(np.sum(G * S), abs=1e-10)
