"""Tests of independence on a device: what torch answers is what NumPy answers."""

import numpy as np
import pytest

from mercer import RBF, Laplacian, Linear
from mercer.operators import device as sums
from mercer.statistics import hsic, hsic_agg_test, hsic_split_test, hsic_test
from mercer.statistics.dependence import shuffled
from mercer.statistics.dependence.shuffled import DeviceGathered
from mercer.statistics.permutation import DeviceDraws

torch = pytest.importorskip("torch")


@pytest.fixture
def pair(rng):
    x = rng.normal(size=(47, 2))
    return x, x[:, :1] ** 2 + rng.normal(size=(47, 1))


@pytest.fixture(params=[2**26, 3000, 1])
def entries(request, monkeypatch):
    monkeypatch.setattr(sums, "FORM_ENTRIES", request.param)


def both(test, X, Y, *args, **options):
    tensors = torch.tensor(X), torch.tensor(Y)
    return test(X, Y, *args, **options), test(*tensors, *args, **options)


def same(a, b):
    scale = np.abs(a.null).max()
    np.testing.assert_allclose(b.null, a.null, rtol=0, atol=1e-10 * scale)
    assert a.statistic == pytest.approx(b.statistic, abs=1e-10 * scale)
    assert a.pvalue == b.pvalue and a.method == b.method


@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
def test_pairs(pair, estimator, entries, rng, monkeypatch):
    made = []
    own = DeviceGathered.__init__
    monkeypatch.setattr(
        DeviceGathered, "__init__", lambda self, *args: (made.append(1), own(self, *args))[1]
    )
    options = {"estimator": estimator, "rng": 1, "n_permutations": 39}
    same(*both(hsic_test, *pair, RBF(0.3), Laplacian(1.0), **options))
    assert made == [1]
    w = rng.uniform(0.5, 2.0, 47)
    same(*both(hsic_test, *pair, RBF(0.3), RBF(0.2), sample_weight=w, **options))
    counts = rng.integers(0, 3, 47)
    same(*both(hsic_test, *pair, RBF(0.3), RBF(0.2), sample_weight=counts, **options))
    same(*both(hsic_test, *pair, RBF(0.3), RBF(0.2), blocks=3, **options))
    a, b = both(hsic, *pair, RBF(0.3), RBF(0.2), estimator)
    assert a == pytest.approx(b, rel=1e-10)


def test_factors(pair, entries):
    for kernels in ((Linear(), Linear()), (Linear(), RBF(0.3)), (RBF(0.3), Linear())):
        for estimator in ("biased", "unbiased"):
            same(*both(hsic_test, *pair, *kernels, 39, 1, estimator=estimator))
    same(*both(hsic_test, *pair, RBF(1.0), RBF(1.0), 39, 1, rank=9))


def test_other_nulls(pair):
    for null in ("gamma", "moments"):
        a, b = both(hsic_test, *pair, RBF(0.3), RBF(0.2), null=null)
        assert tuple(a) == pytest.approx(tuple(b), rel=1e-12)


def test_aggregated_and_split(pair, entries):
    a, b = both(hsic_agg_test, *pair, rng=1, n_permutations=29, n_bandwidths=3)
    np.testing.assert_allclose(a.null, b.null, rtol=1e-8)
    np.testing.assert_allclose(a.extra["statistics"], b.extra["statistics"], rtol=1e-10)
    assert a.pvalue == b.pvalue
    same(*both(hsic_split_test, *pair, rng=1, n_permutations=29, n_bandwidths=3))


def test_single_precision(pair):
    X, Y = (Z.astype(np.float32) for Z in pair)
    a, b = both(hsic_test, X, Y, RBF(0.3), RBF(0.2), 99, 1)
    np.testing.assert_allclose(b.null, a.null, rtol=0, atol=1e-5 * a.null.max())
    assert b.null[0] != a.null[0]


def test_points_all_the_same(pair):
    same(*both(hsic_test, pair[0], np.ones((47, 1)), RBF(0.3), RBF(0.2), 19, 1))
    same(*both(hsic_test, np.ones((47, 1)), pair[1], RBF(0.3), RBF(0.2), 19, 1))


def test_what_does_not_fit_is_computed_by_numpy(pair, monkeypatch):
    monkeypatch.setattr(shuffled, "fits_device", lambda pair, matrices: False)
    same(*both(hsic_test, *pair, RBF(0.3), RBF(0.2), 19, 1))


def test_draws_made_there(pair, monkeypatch):
    monkeypatch.setattr(
        "mercer.statistics.dependence.test.drawn_there",
        lambda design, place, draws: design if place is None else DeviceDraws(design, place),
    )
    a, b = both(hsic_test, *pair, RBF(0.3), RBF(0.2), 499, 1)
    assert a.statistic == pytest.approx(b.statistic, rel=1e-10)
    assert a.null.mean() == pytest.approx(b.null.mean(), rel=0.05)
    assert (a.null != b.null).any()
