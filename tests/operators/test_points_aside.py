"""Sums over points side by side, against the sums of many queries."""

import numpy as np
import pytest

from mercer.operators import PointsAside, log_sums


@pytest.mark.parametrize("code", range(7))
@pytest.mark.parametrize("d", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("radius", [1e-3, 0.7, 50.0])
def test_few_queries_have_the_sums_of_many(code, d, radius):
    rng = np.random.default_rng(d)
    X = rng.standard_normal((37, d))
    Q = np.concatenate([X[:2], rng.standard_normal((3, d)), np.full((1, d), 1e4)])
    Q = np.concatenate([Q, np.full((1, d), 1e200)])
    for w in (None, rng.random(37) + 0.1):
        many = log_sums(Q, X, w, code, radius=radius)
        few = PointsAside(X, w, code, radius).log_sums(Q)
        np.testing.assert_allclose(few, many, rtol=1e-12, atol=1e-12)
