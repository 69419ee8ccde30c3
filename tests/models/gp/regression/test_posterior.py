"""Posterior moments and samples against dense formulas, scikit-learn and many draws."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process import GaussianProcessRegressor as Peer, kernels as peers

import mercer
from mercer import RBF, Constant, GaussianProcessRegressor, KernelRidge, Linear, Matern, White
from mercer.errors import InvalidInput
from mercer.models.gp.regression.posterior import draw


def data(n=30, d=2, t=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = 3.0 * np.sin(X[:, 0]) + X[:, 1 % d] + 7.0 + 0.3 * rng.standard_normal(n)
    if t is not None:
        y = np.column_stack([y * 10**j + j for j in range(t)])
    return X, y, rng.standard_normal((11, d))


def dense(model, X, Xn):
    """Equations (24) to (27) of the notes on C = K + noise, in the units of y, each output."""
    scale, mean = model.y_scale_, model.y_mean_
    w = np.ones(len(X)) if model.sample_weight_ is None else model.sample_weight_
    K, k, kk = model.kernel_(X), model.kernel_(X, Xn), model.kernel_(Xn)
    means, covs = [], []
    for j in range(len(scale)):
        s2 = scale[j] ** 2
        noise = np.broadcast_to(model.scaled_noise_ * s2, (len(X),))
        inverse = np.linalg.inv(s2 * K + np.diag(noise / w))
        t = model.y_fit_.reshape(len(k), -1)[:, j] - mean[j]
        means.append(mean[j] + s2 * k.T @ inverse @ t)
        covs.append(s2 * kk - s2 * k.T @ inverse @ k * s2)
    return np.array(means).T, np.moveaxis(np.array(covs), 0, -1)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("noise", [0.2, "vector"])
def test_posterior_is_that_of_the_dense_formulas(normalize, weighted, noise):
    X, y, Xn = data()
    rng = np.random.default_rng(1)
    noise = rng.uniform(0.05, 0.5, len(y)) if noise == "vector" else noise
    w = rng.uniform(0.3, 3.0, len(y)) if weighted else None
    model = GaussianProcessRegressor(
        2.0 * RBF(0.7) + Linear(), noise, optimizer=None, normalize_y=normalize
    ).fit(X, y, sample_weight=w)
    mean, cov = dense(model, X, Xn)
    level = noise if np.ndim(noise) == 0 else np.average(noise, weights=w)
    size = np.abs(y).max()
    np.testing.assert_allclose(model.predict(Xn), mean[:, 0], atol=1e-10 * size)
    for with_noise, extra in ((False, 0.0), (True, level), (np.arange(11.0), np.arange(11.0))):
        expected = cov[:, :, 0] + np.diag(np.broadcast_to(extra, 11))
        got, spread = model.predict(Xn, return_cov=True, with_noise=with_noise)
        np.testing.assert_allclose(got, mean[:, 0], atol=1e-10 * size)
        np.testing.assert_allclose(spread, expected, atol=1e-10 * size**2)
        np.testing.assert_array_equal(spread, spread.T)
        got, std = model.predict(Xn, return_std=True, with_noise=with_noise)
        np.testing.assert_allclose(got, mean[:, 0], atol=1e-10 * size)
        np.testing.assert_allclose(std**2, np.diag(expected), atol=1e-10 * size**2)
    variance = model.posterior_variance(Xn)
    np.testing.assert_allclose(variance, np.diag(cov[:, :, 0]), atol=1e-10 * size**2)


@pytest.mark.parametrize("noise", ["fit", 0.5, [0.1, 20.0]])
def test_several_outputs_have_a_scale_each_and_their_own_noise(noise):
    X, Y, Xn = data(t=2)
    tuned = "lbfgs" if isinstance(noise, str) else None
    model = GaussianProcessRegressor(Matern(1.0), noise, optimizer=tuned).fit(X, Y)
    mean, cov = dense(model, X, Xn)
    size = np.abs(Y).max(0)
    got, std = model.predict(Xn, return_std=True)
    np.testing.assert_allclose(got / size, mean / size, atol=1e-10)
    level = np.broadcast_to(model.noise_, 2)
    if not tuned:
        np.testing.assert_allclose(level, np.broadcast_to(noise, 2))
    expected = np.einsum("iij->ij", cov) + level
    np.testing.assert_allclose(std**2 / size**2, expected / size**2, atol=1e-10)
    _, full = model.predict(Xn, return_cov=True, with_noise=False)
    assert full.shape == (11, 11, 2)
    np.testing.assert_allclose(full / size**2, cov / size**2, atol=1e-10)
    assert model.sample_y(Xn, 4).shape == (11, 2, 4)
    again = GaussianProcessRegressor(model.kernel_, model.noise_, optimizer=None).fit(X, Y)
    np.testing.assert_allclose(again.predict(Xn), got, rtol=1e-9)


@pytest.mark.parametrize("mean", ["constant", "linear"])
@pytest.mark.parametrize("far", [0.0, 1e6])
@pytest.mark.parametrize("weighted", [False, True])
def test_explicit_mean_is_generalised_least_squares_with_its_uncertainty(mean, far, weighted):
    X, y, Xn = data()
    rng = np.random.default_rng(2)
    w = rng.uniform(0.3, 3.0, len(y)) if weighted else None
    model = GaussianProcessRegressor(RBF(0.8), 0.3, optimizer=None, mean=mean)
    model.fit(X + far, y, sample_weight=w)
    # Rasmussen & Williams (2.41), (2.42) in the units of y, x near 0 for the dense formulas.
    s2 = model.y_scale_[0] ** 2
    C = s2 * RBF(0.8)(X) + np.diag(0.3 / (1.0 if w is None else w) * np.ones(len(y)))
    columns = (lambda Z: np.ones((len(Z), 1))) if mean == "constant" else _with_ones
    H, Hn, k = columns(X), columns(Xn), s2 * RBF(0.8)(X, Xn)
    inverse = np.linalg.inv(C)
    A = np.linalg.inv(H.T @ inverse @ H)
    beta = A @ H.T @ inverse @ y
    R = Hn - k.T @ inverse @ H
    expected = Hn @ beta + k.T @ inverse @ (y - H @ beta)
    cov = s2 * RBF(0.8)(Xn) - k.T @ inverse @ k + R @ A @ R.T
    got, full = model.predict(Xn + far, return_cov=True, with_noise=False)
    tolerance = 1e-10 if far == 0 else 1e-7  # x + 1e6 itself has lost six digits
    np.testing.assert_allclose(got, expected, atol=tolerance * 10)
    np.testing.assert_allclose(full, cov, atol=tolerance * 10)
    _, std = model.predict(Xn + far, return_std=True, with_noise=False)
    np.testing.assert_allclose(std**2, np.diag(cov), atol=tolerance * 10)
    slopes = np.zeros(0) if mean == "constant" else model.mean_coef_
    np.testing.assert_allclose(slopes, beta[1:], atol=tolerance * 10)
    np.testing.assert_allclose(model.intercept_ + far * slopes.sum(), beta[0], atol=1e-8)
    if mean == "constant":
        np.testing.assert_allclose(model.function_(Xn + far), got, atol=1e-8)
    # Two definitions of the same number: far from the data only the basis is left.
    lost, spread = model.predict(np.full((1, 2), 50.0 + far), return_std=True, with_noise=False)
    h = columns(np.full((1, 2), 50.0))
    np.testing.assert_allclose(lost, h @ beta, atol=1e-5)
    np.testing.assert_allclose(spread**2, s2 + (h @ A @ h.T)[0], rtol=1e-5)


def _with_ones(Z):
    return np.hstack([np.ones((len(Z), 1)), Z])


@pytest.mark.parametrize("normalize", [True, False])
def test_predictions_are_those_of_scikit_learn(normalize):
    X, y, Xn = data(40, 3)
    kernel = peers.ConstantKernel(2.0) * peers.Matern(1.3, nu=1.5) + peers.WhiteKernel(0.1)
    peer = Peer(kernel, optimizer=None, alpha=1e-14, normalize_y=normalize).fit(X, y)
    scale = np.std(y) if normalize else 1.0
    model = GaussianProcessRegressor(
        2.0 * Matern(1.3, nu=1.5), 0.1 * scale**2, optimizer=None, normalize_y=normalize
    ).fit(X, y)
    np.testing.assert_allclose(model.predict(Xn), peer.predict(Xn), rtol=1e-8)
    for call in ({"return_std": True}, {"return_cov": True}):
        for a, b in zip(model.predict(Xn, **call), peer.predict(Xn, **call), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
    expected = peer.log_marginal_likelihood(peer.kernel_.theta)
    expected -= len(y) * np.log(scale)  # theirs is that of the normalised targets
    assert model.log_marginal_likelihood() == pytest.approx(expected, rel=1e-10)
    # White in the kernel is noise too, and counts as theirs does.
    model = GaussianProcessRegressor(
        2.0 * Matern(1.3, nu=1.5) + White(0.1), 0.0, optimizer=None, normalize_y=normalize
    ).fit(X, y)
    np.testing.assert_allclose(model.predict(Xn, True)[1], peer.predict(Xn, True)[1], rtol=1e-8)


def test_mean_is_that_of_kernel_ridge():
    X, y, Xn = data()
    ridge = KernelRidge(Matern(0.9), 0.25).fit(X, y)
    model = GaussianProcessRegressor(Matern(0.9), 0.25, optimizer=None, normalize_y=False).fit(X, y)
    np.testing.assert_allclose(model.predict(Xn), ridge.predict(Xn), rtol=1e-10)
    np.testing.assert_allclose(model.dual_coef_, ridge.dual_coef_, rtol=1e-9)
    offset = KernelRidge(Matern(0.9), 0.25, fit_intercept=True).fit(X, y)
    model = GaussianProcessRegressor(
        Matern(0.9), 0.25, optimizer=None, normalize_y=False, mean="constant"
    ).fit(X, y)
    np.testing.assert_allclose(model.predict(Xn), offset.predict(Xn), rtol=1e-9)
    assert model.intercept_ == pytest.approx(offset.intercept_, rel=1e-9)


def test_evidence_of_a_linear_kernel_is_that_of_the_bayesian_linear_model():
    X, y, Xn = data(25, 3)
    w = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    for weights in (None, w):
        closed = mercer.evidence(X, y, 0.4, 1.7, sample_weight=weights)
        model = GaussianProcessRegressor(
            Constant(1.7) * Linear(), 0.4, optimizer=None, normalize_y=False
        ).fit(X, y, sample_weight=weights)
        assert model.log_marginal_likelihood() == pytest.approx(closed.log_evidence, rel=1e-10)
        np.testing.assert_allclose(model.predict(Xn), closed.predict(Xn), rtol=1e-8)
        _, std = closed.predict(Xn, return_std=True)
        np.testing.assert_allclose(model.predict(Xn, return_std=True)[1], std, rtol=1e-8)


def test_many_points_in_blocks_are_the_same(monkeypatch):
    X, y, _ = data(30)
    Xn = np.random.default_rng(3).standard_normal((70, 2))
    model = GaussianProcessRegressor(RBF(), 0.1, optimizer=None, mean="linear").fit(X, y)
    mean, std = model.predict(Xn, return_std=True)
    monkeypatch.setattr("mercer.models.gp.regression.posterior.ROWS", 16)
    again, other = model.predict(Xn, return_std=True)
    np.testing.assert_allclose(again, mean, rtol=1e-12)
    np.testing.assert_allclose(other, std, rtol=1e-12)
    with mercer.config(memory=40_000):
        few = model.predict(Xn[:40], return_std=True)
    np.testing.assert_allclose(few[1], std[:40], rtol=1e-12)
    with mercer.config(memory=40_000), pytest.raises(mercer.errors.MemoryBudgetExceeded):
        model.predict(Xn, return_cov=True)


def test_variance_is_never_negative_and_interpolates():
    X = np.linspace(0, 1, 12)[:, None]
    y = np.sin(6 * X[:, 0])
    model = GaussianProcessRegressor(RBF(0.2), 0.0, optimizer=None).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, y, atol=1e-6)
    assert (std >= 0).all() and std.max() < 1e-4
    cov = model.predict(np.vstack([X, X]), return_cov=True)[1]
    assert (np.diag(cov) >= 0).all()
    far = model.predict([[100.0]], return_std=True)[1]
    np.testing.assert_allclose(far, model.y_scale_)


def test_samples_have_the_mean_and_the_covariance_of_the_posterior():
    X, y, _ = data(12)
    Xn = np.random.default_rng(4).standard_normal((5, 2))
    model = GaussianProcessRegressor(RBF(1.5), 0.4, optimizer=None).fit(X, y)
    n = 40000
    for with_noise in (True, False):
        mean, cov = model.predict(Xn, return_cov=True, with_noise=with_noise)
        S = model.sample_y(Xn, n, random_state=1, with_noise=with_noise)
        assert S.shape == (5, n)
        error = np.sqrt(np.diag(cov) / n)
        assert (np.abs(S.mean(1) - mean) < 5 * error).all()
        seen = np.cov(S)
        limit = 5 * np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / n)
        assert (np.abs(seen - cov) < limit).all()


def test_samples_of_several_outputs_are_independent_and_scaled():
    X, Y, _ = data(15, t=2)
    model = GaussianProcessRegressor(RBF(1.5), optimizer="lbfgs").fit(X, Y)
    Xn = np.array([[0.3, 0.1], [2.0, -2.0]])
    n = 20000
    S = model.sample_y(Xn, n, random_state=3)
    mean, std = model.predict(Xn, return_std=True)
    assert S.shape == (2, 2, n)
    assert (np.abs(S.mean(2) - mean) < 5 * std / np.sqrt(n)).all()
    np.testing.assert_allclose(S.std(2), std, rtol=0.04)
    for i in range(2):
        assert abs(np.corrcoef(S[i])[0, 1]) < 0.04


def test_samples_are_reproducible_and_take_any_source():
    X, y, Xn = data(12)
    model = GaussianProcessRegressor(RBF(), 0.1, optimizer=None).fit(X, y)
    np.testing.assert_array_equal(model.sample_y(Xn, 3), model.sample_y(Xn, 3, random_state=0))
    for make in (np.random.RandomState, np.random.default_rng, int):
        a, b = (model.sample_y(Xn, 3, make(5)) for _ in range(2))
        np.testing.assert_array_equal(a, b)
    assert (model.sample_y(Xn, 3, 1) != model.sample_y(Xn, 3, 2)).any()
    assert (model.sample_y(Xn, 3, None) != model.sample_y(Xn, 3, None)).any()
    with pytest.raises(InvalidInput, match="random_state"):
        model.sample_y(Xn, 3, "x")
    for wrong in (0, -1, 2.0, None):
        with pytest.raises(InvalidInput, match="n_samples"):
            model.sample_y(Xn, wrong)


def test_samples_of_a_singular_covariance():
    rng = np.random.default_rng(0)
    for cov in (np.zeros((3, 3)), np.ones((4, 4)), np.diag([1.0, 0.0, 2.0])):
        S = draw(cov, rng, 20000)
        np.testing.assert_allclose(np.cov(S), cov, atol=0.1)
    assert np.ptp(draw(np.ones((4, 4)), rng, 5), axis=0).max() < 1e-7
    X = np.linspace(0, 1, 6)[:, None]
    model = GaussianProcessRegressor(RBF(0.3), 0.0, optimizer=None).fit(X, np.cos(5 * X[:, 0]))
    S = model.sample_y(X, 10)
    np.testing.assert_allclose(S, np.repeat(np.cos(5 * X), 10, 1), atol=1e-5)
    smooth = model.sample_y(np.linspace(0, 1, 300)[:, None], 3)
    assert np.isfinite(smooth).all() and np.abs(np.diff(smooth, axis=0)).max() < 0.1


def test_prior_before_fit():
    X = np.linspace(0, 3, 9)[:, None]
    model = GaussianProcessRegressor(2.0 * RBF(0.7), 0.3)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, np.zeros(9))
    np.testing.assert_allclose(std**2, 2.3)
    np.testing.assert_allclose(model.predict(X, return_std=True, with_noise=False)[1] ** 2, 2.0)
    _, cov = model.predict(X, return_cov=True, with_noise=False)
    np.testing.assert_allclose(cov, (2.0 * RBF(0.7))(X))
    np.testing.assert_allclose(model.posterior_variance(X), 2.0)
    S = model.sample_y(X, 30000, with_noise=False)
    np.testing.assert_allclose(np.cov(S), cov, atol=0.1)
    assert not hasattr(model, "n_features_in_") and not hasattr(model, "kernel_")
    peer = Peer(peers.ConstantKernel(2.0) * peers.RBF(0.7))
    np.testing.assert_allclose(peer.predict(X, return_cov=True)[1], cov)
    assert GaussianProcessRegressor().sample_y(X).shape == (9, 1)
    for call in ("function_", "n_iter_"):
        with pytest.raises(AttributeError):
            getattr(model, call)
    with pytest.raises(ValueError, match="fit"):
        model.log_marginal_likelihood()


def test_sparse_points_and_frames_answer_alike():
    pd = pytest.importorskip("pandas")
    X, y, Xn = data(25, 3)
    X[np.abs(X) < 0.5] = 0.0
    for mean in ("zero", "linear"):
        model = GaussianProcessRegressor(RBF(1.2), 0.1, optimizer=None, mean=mean)
        expected = model.fit(X, y).predict(Xn, return_std=True)
        got = model.fit(sp.csr_array(X), y).predict(sp.csr_array(Xn), return_std=True)
        np.testing.assert_allclose(got, expected, rtol=1e-8)
        frame = pd.DataFrame(X, columns=list("abc"))
        got = model.fit(frame, y).predict(pd.DataFrame(Xn, columns=list("abc")), return_std=True)
        np.testing.assert_allclose(got, expected, rtol=1e-10)
        assert list(model.feature_names_in_) == list("abc")


def test_asking_for_too_much_or_the_wrong_thing():
    X, y, Xn = data(12)
    model = GaussianProcessRegressor(RBF(), 0.1, optimizer=None).fit(X, y)
    with pytest.raises(InvalidInput, match="return_std and return_cov"):
        model.predict(Xn, True, True)
    for wrong in (np.ones(3), -np.ones(11), np.full(11, np.nan), "yes", None):
        with pytest.raises(InvalidInput, match="with_noise"):
            model.predict(Xn, return_std=True, with_noise=wrong)
        with pytest.raises(InvalidInput, match="with_noise"):
            model.sample_y(Xn, with_noise=wrong)


def test_a_triangular_solve_overwrites_only_where_it_may():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6, 6))
    f = mercer.solvers.factor(A @ A.T + np.eye(6))
    B = np.asfortranarray(rng.standard_normal((6, 4)))
    kept, expected = B.copy(order="F"), np.linalg.solve(f.lower(), B)
    np.testing.assert_allclose(f.half_solve(B), expected, rtol=1e-10)
    np.testing.assert_array_equal(B, kept)
    locked = B.copy(order="F")
    locked.setflags(write=False)
    np.testing.assert_allclose(f.half_solve(locked, overwrite=True), expected, rtol=1e-10)
    np.testing.assert_array_equal(locked, kept)
    out = f.half_solve(B, overwrite=True)
    np.testing.assert_allclose(out, expected, rtol=1e-10)
    assert np.shares_memory(out, B)
