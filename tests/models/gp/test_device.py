"""Gaussian process regression on the torch engine: the numbers of NumPy, from the same code."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import mercer
from mercer import RBF, GaussianProcessRegressor, Linear, Matern, RationalQuadratic, Spectrum, White
from mercer.engines import tiles
from mercer.errors import InvalidInput, MemoryBudgetExceeded, NotPositiveDefinite
from mercer.models.gp.regression.evidence import Evidence
from mercer.solvers import CholeskyFactor

torch = pytest.importorskip("torch")
from mercer.solvers.linear.device import DeviceFactor  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.standard_normal((70, 3))
Y = np.column_stack([np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(70), np.cos(X[:, 1])])
NEW = RNG.standard_normal((25, 3))
KERNELS = [
    1.0 * RBF([1.0, 2.0, 0.7]),
    Matern([1.0, 0.5, 2.0], nu=0.5) + 0.3 * Linear(),
    2.0 * Matern(1.2, nu=2.5) * RationalQuadratic(),
    RBF() + White(0.1),
]


def on_torch(**options):
    return mercer.config(engine="torch", device="cpu", **options)


def near(got, expected, tol=1e-10):
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() <= tol * np.abs(expected).max()


def held(kernel=KERNELS[0], **options):
    return GaussianProcessRegressor(kernel, noise=0.05, optimizer=None, **options)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("many", [False, True])
def test_evidence_and_gradient(kernel, weighted, many, monkeypatch):
    monkeypatch.setattr(tiles, "DEVICE_ENTRIES", 400)  # tiles on, above and off the diagonal
    w = RNG.uniform(0.5, 2.0, len(X)) if weighted else None
    Z, H = (Y, np.column_stack([np.ones(len(X)), X])) if many else (Y[:, 0], None)
    noise = RNG.uniform(0.05, 0.2, len(X)) if weighted else 0.1
    value, slope, noise_slope = Evidence(X, Z, w, H).value_and_gradient(kernel, noise)
    with on_torch():
        evidence = Evidence(X, Z, w, H)
        for _ in range(2):  # the second time in the memory of the first
            found = evidence.value_and_gradient(kernel, noise)
            near(found[0], value)
            near(found[1], slope)
            near(found[2], noise_slope)
        assert isinstance(evidence._buffer, torch.Tensor)
        near(evidence.value(kernel, noise), value)


def test_one_evidence_in_both_places():
    evidence = Evidence(X, Y)
    value = evidence.value(KERNELS[0], 0.1)
    with on_torch():
        near(evidence.value(KERNELS[0], 0.1), value)
    near(evidence.value(KERNELS[0], 0.1), value, 0.0)


@pytest.mark.parametrize("mean", ["zero", "linear"])
def test_answers(mean):
    a = held(mean=mean).fit(X, Y)
    b = held(mean=mean).fit(torch.tensor(X), torch.tensor(Y))
    assert isinstance(a._gaussian_cache.factor, CholeskyFactor)
    assert isinstance(b._gaussian_cache.factor, DeviceFactor)
    assert all(isinstance(v, np.ndarray) for v in (b.X_fit_, b.y_fit_, b.dual_coef_))
    near(b.dual_coef_, a.dual_coef_)
    near(b.log_marginal_likelihood_value_, a.log_marginal_likelihood_value_)
    theta = a.theta_ + 0.1
    for got, want in zip(
        b.log_marginal_likelihood(theta, True), a.log_marginal_likelihood(theta, True), strict=True
    ):
        near(got, want)
    for points in (NEW, torch.tensor(NEW)):
        for option in ({}, {"return_std": True}, {"return_cov": True}):
            got, want = b.predict(points, **option), a.predict(NEW, **option)
            for g, e in zip(*((v,) if not option else v for v in (got, want)), strict=True):
                assert isinstance(g, np.ndarray)
                near(g, e)
        near(b.posterior_variance(points), a.posterior_variance(NEW))
        near(b.variance_gradient(points), a.variance_gradient(NEW))
        near(b.sample_y(points, 2), a.sample_y(NEW, 2), 1e-5)
    groups = np.arange(len(X)) // 5
    near(b.loo(return_std=True), a.loo(return_std=True))
    near(b.loo(groups=groups), a.loo(groups=groups))
    near(b.loo_log_predictive(), a.loo_log_predictive())
    assert b.score(torch.tensor(NEW), np.zeros((25, 2))) == pytest.approx(
        a.score(NEW, np.zeros((25, 2))), rel=1e-9
    )


def test_search_over_parameters():
    a = GaussianProcessRegressor(1.0 * RBF([1.0, 1.0, 1.0])).fit(X, Y[:, 0])
    b = GaussianProcessRegressor(1.0 * RBF([1.0, 1.0, 1.0])).fit(torch.tensor(X), Y[:, 0])
    with on_torch():
        c = GaussianProcessRegressor(1.0 * RBF([1.0, 1.0, 1.0])).fit(X, Y[:, 0])
    for other in (b, c):
        near(other.log_marginal_likelihood_value_, a.log_marginal_likelihood_value_, 1e-9)
        near(other.predict(NEW), a.predict(NEW), 1e-6)
        assert other.solution_.converged


def test_single_precision_is_computed_in_double():
    single = torch.tensor(X, dtype=torch.float32)
    near(held().fit(single, Y).predict(NEW), held().fit(single.numpy(), Y).predict(NEW))
    near(held().fit(single, Y).predict(NEW), held().fit(X, Y).predict(NEW), 1e-5)


def test_copies_files_and_updates(tmp_path):
    a, b = held().fit(X, Y), held().fit(torch.tensor(X), Y)
    std = a.predict(NEW, return_std=True)[1]
    for other in (pickle.loads(pickle.dumps(b)), copy.deepcopy(b)):
        near(other.predict(NEW, return_std=True)[1], std)
    mercer.save(b, tmp_path / "model.mercer")
    near(mercer.load(tmp_path / "model.mercer").predict(NEW, return_std=True)[1], std)
    for model, points in ((a, NEW), (b, torch.tensor(NEW))):
        model.add(points, Y[:25]).remove([3, 5])
    near(b.predict(X, return_std=True), a.predict(X, return_std=True))


def test_precomputed_weights_zero_rows_and_text():
    K = np.array(KERNELS[0](X))
    w = np.where(np.arange(len(X)) % 7 == 0, 0.0, 1.5)
    a = held("precomputed").fit(K, Y, w)
    b = held("precomputed").fit(torch.tensor(K), Y, torch.tensor(w))
    near(b.dual_coef_, a.dual_coef_)
    near(b.loo(), a.loo())
    texts = ["ab", "abc", "b", "cab"]
    a = held(Spectrum(2)).fit(texts, np.arange(4.0))
    with on_torch():
        near(held(Spectrum(2)).fit(texts, np.arange(4.0)).predict(texts), a.predict(texts))


def test_one_point_equal_points_and_prior():
    model = GaussianProcessRegressor().fit(torch.ones(1, 2), [1.0])
    near(model.predict(np.ones((1, 2))), [1.0])
    same = np.zeros((5, 3))
    near(held().fit(torch.tensor(same), Y[:5]).dual_coef_, held().fit(same, Y[:5]).dual_coef_, 1e-7)
    near(
        GaussianProcessRegressor(RBF()).predict(torch.tensor(NEW), return_std=True)[1],
        GaussianProcessRegressor(RBF()).predict(NEW, return_std=True)[1],
    )


def test_refusals():
    with (
        pytest.raises(MemoryBudgetExceeded, match=r"70 × 70"),
        mercer.config(memory=70 * 70 * 8 - 1),
    ):
        held().fit(torch.tensor(X), Y)
    with on_torch(memory=70 * 70 * 8 * 8):  # small tiles, the same answer
        near(held().fit(X, Y).dual_coef_, held().fit(X, Y).dual_coef_)
    bad = X.copy()
    bad[3, 1] = np.nan
    with pytest.raises(InvalidInput, match="NaN"):
        held().fit(torch.tensor(bad), Y)
    far = np.array([[1.0, 3.0, 0.0], [3.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(NotPositiveDefinite, match="indefinite"):
        held("precomputed").fit(torch.tensor(far), Y[:3])
    model = held().fit(X, Y)
    with pytest.raises(InvalidInput, match="features"):
        model.predict(torch.zeros(2, 5))
