"""Nearest points of polytopes: conditions of optimality, and the limit of time."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.models.margin.hulls import nearest_points


@pytest.mark.parametrize("offset", [True, False])
def test_nearest_points_of_polytopes(offset):
    rng = np.random.default_rng(3)
    for D in (1, 2, 5):
        Z, y = rng.standard_normal((30, D)), np.repeat([1.0, -1.0], 15)
        Z += y[:, None] * 6
        a = nearest_points(Z, y, offset, np.ones(D))
        assert (a >= 0).all()
        w = np.asarray((a * y) @ Z, dtype=float)
        values = y * (Z @ w)
        if offset:
            assert a[y > 0].sum() == pytest.approx(1) and a[y < 0].sum() == pytest.approx(1)
            assert values[:15].min() + values[15:].min() == pytest.approx(w @ w, rel=1e-9)
        else:
            assert a.sum() == pytest.approx(1)
            assert values.min() == pytest.approx(w @ w, rel=1e-9)
    assert nearest_points(Z, y, offset, -np.ones(D), seconds=-1.0) is None
