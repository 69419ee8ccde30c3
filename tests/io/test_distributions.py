"""Frozen distributions go through a file as a name and numbers; others are refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mercer import RBF, GaussianProcessRegressor
from mercer.errors import InvalidInput, ModelFileError
from mercer.io import registry

LAWS = [
    stats.gamma(2.0),
    stats.gamma(2.0, scale=0.5),
    stats.lognorm(s=1.5, loc=0.0, scale=np.float32(2.0)),
    stats.invgamma(3, 0, 1),
    stats.halfnorm(scale=np.array(2.0)),
    stats.uniform(0.1, 4),
    stats.t(4.0, loc=1.0),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.dist.name)
def test_densities_come_back(again, law):
    back = again(law)
    x = np.geomspace(1e-3, 1e3, 50)
    np.testing.assert_allclose(back.logpdf(x), law.logpdf(x), rtol=1e-6)
    assert all(type(v) is float for v in (*back.args, *back.kwds.values()))


def test_a_model_with_priors_comes_back(again):
    priors = {"noise": stats.expon(scale=2.0), "kernel__length_scale": stats.gamma(2.0)}
    X = np.linspace(0, 3, 12)[:, None]
    model = GaussianProcessRegressor(RBF(1.0), priors=priors).fit(X, np.sin(X[:, 0]))
    back = again(model)
    assert back.priors["noise"].logpdf(1.0) == priors["noise"].logpdf(1.0)
    assert np.array_equal(back.search_.tried, model.search_.tried)
    assert back.search_.message == model.search_.message
    assert np.array_equal(back.predict(X), model.predict(X))


def test_distributions_of_ones_own_are_code():
    class Tent(stats.rv_continuous):
        def _pdf(self, x):
            return np.maximum(0.0, 1 - abs(x))

    class Fake(stats.rv_continuous):
        pass

    for law in (
        Tent(name="tent")(),
        Fake(name="gamma")(),
        type(stats.gamma)(a=1.0, name="gamma")(2),
    ):
        with pytest.raises(InvalidInput, match=r"not one of scipy\.stats"):
            registry.form_of(law, "model.priors").split(law, "model.priors")


@pytest.mark.parametrize("value", [np.ones(2), "2", True, np.nan])
def test_parameters_are_numbers(value):
    law = stats.norm(0.0, 1.0)
    law.args = (value,)
    with pytest.raises(InvalidInput, match="give it numbers"):
        registry.form_named("scipy:frozen").split(law, "model.priors")


@pytest.mark.parametrize(
    "params",
    [
        {"name": "os.system", "args": [], "kwds": {}},
        {"name": "rv_histogram", "args": [1.0], "kwds": {}},
        {"name": "poisson", "args": [1.0], "kwds": {}},
        {"name": ["gamma"], "args": [1.0], "kwds": {}},
        {"name": "gamma", "args": [], "kwds": {}},
        {"name": "gamma", "args": [1.0, 2.0, 3.0, 4.0], "kwds": {}},
        {"name": "gamma", "args": ["2"], "kwds": {}},
        {"name": "gamma", "args": 2.0, "kwds": {}},
        {"name": "gamma", "args": [2.0], "kwds": {"size": 5.0}},
        {"name": "gamma", "args": [2.0], "kwds": [1]},
        {"name": "gamma", "args": [2.0]},
        {},
    ],
)
def test_files_name_only_what_scipy_has(params):
    with pytest.raises(ModelFileError):
        registry.form_named("scipy:frozen").build({"params": params})


def test_a_discrete_law_has_no_form():
    with pytest.raises(InvalidInput, match="cannot be kept"):
        registry.form_of(stats.poisson(2.0), "model.priors")
