"""Densities on the torch engine: the numbers of NumPy, from the same estimator."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import mercer
from mercer import KDEClassifier, KernelDensity
from mercer.errors import InvalidInput
from mercer.models.density.bandwidth import SMOOTHINGS

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
NEW = np.concatenate([RNG.standard_normal((20, 2)), [[50.0, 50.0]]])


def near(got, expected, tol=1e-10):
    np.testing.assert_allclose(got, expected, rtol=tol, atol=tol)


@pytest.mark.parametrize("name", SMOOTHINGS)
@pytest.mark.parametrize("bandwidth", [0.7, "silverman"])
def test_scores(name, bandwidth):
    w = RNG.uniform(0.0, 2.0, len(X))
    w[3] = 0.0
    a = KernelDensity(bandwidth, kernel=name).fit(X, sample_weight=w)
    b = KernelDensity(bandwidth, kernel=name).fit(torch.tensor(X), sample_weight=torch.tensor(w))
    assert isinstance(b.X_fit_, np.ndarray)
    near(b.bandwidth_, a.bandwidth_)
    got = b.score_samples(torch.tensor(NEW))
    assert isinstance(got, np.ndarray)
    near(got, a.score_samples(NEW))
    with mercer.config(engine="torch", device="cpu"):
        near(a.loo(), b.loo())
        near(a.score(X[:5]), KernelDensity.score(b, X[:5]))
    near(b.score(torch.tensor(X[:5])), a.score(X[:5]))


@pytest.mark.parametrize("name", ["gaussian", "epanechnikov", "tophat", "exponential"])
def test_bandwidth_by_leaving_out(name):
    a = KernelDensity("loo", kernel=name).fit(X)
    b = KernelDensity("loo", kernel=name).fit(torch.tensor(X))
    near(b.bandwidth_, a.bandwidth_, 1e-8)
    near(b.solution_.extra["score"], a.solution_.extra["score"])


def test_precision_copies_and_refusals():
    single = torch.tensor(X, dtype=torch.float32)
    near(
        KernelDensity().fit(single).score_samples(NEW),
        KernelDensity().fit(X).score_samples(NEW),
        1e-4,
    )
    near(
        KernelDensity(0.5).fit(single).score_samples(NEW),
        KernelDensity(0.5).fit(single.numpy()).score_samples(NEW),
    )
    model = KernelDensity().fit(torch.tensor(X))
    near(pickle.loads(pickle.dumps(model)).score_samples(NEW), model.score_samples(NEW))
    with pytest.raises(InvalidInput, match="features"):
        model.score_samples(torch.zeros(2, 5))
    with pytest.raises(InvalidInput, match="NaN"):
        KernelDensity().fit(torch.full((3, 2), float("nan")))


def test_classifier():
    y = X[:, 0] > 0
    a, b = KDEClassifier().fit(X, y), KDEClassifier().fit(torch.tensor(X), torch.tensor(y))
    near(b.predict_proba(torch.tensor(NEW)), a.predict_proba(NEW))
    near(b.predict_joint_log_proba(torch.tensor(NEW)), a.predict_joint_log_proba(NEW))
    assert list(b.predict(torch.tensor(NEW))) == list(a.predict(NEW))
