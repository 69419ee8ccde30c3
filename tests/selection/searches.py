"""Data for searches, and the comparison of `search` with GridSearchCV that tests share."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV

from mercer import search

PENALTIES = [1e-3, 1e-1, 10.0]


def numbers(n=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.standard_normal(n)
    return X, y


def classes(n=120, k=3, seed=0):
    X, y = numbers(n, seed)
    return X, np.digitize(y, np.quantile(y, np.arange(1, k) / k))


def letters(n=40, seed=0):
    rng = np.random.default_rng(seed)
    words = ["".join(rng.choice(["a", "b"], rng.integers(1, 9))) for _ in range(n)]
    return words, np.array([w.count("a") for w in words])


def alike(s, t):
    """Count the letters that two words share, and compare their lengths."""
    return s.count("a") * t.count("a") + 0.37 * s.count("b") * t.count("b") + min(len(s), len(t))


def both(model, grid, X, y, atol=1e-9, weights=None, **options):
    """Search both ways; compare tables, choices and refits; return ours."""
    cv = options.get("cv", 5)
    if not isinstance(cv, int) and not hasattr(cv, "split"):
        cv = list(cv)
        options = {**options, "cv": cv}
    groups = options.pop("groups", None)
    fit = {} if weights is None else {"sample_weight": weights}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = GridSearchCV(model, grid, **options).fit(X, y, groups=groups, **fit)
        ours = search(model, grid, X, y, groups=groups, sample_weight=weights, **options)
    if weights is not None and sklearn.__version__.startswith("1.6."):
        return ours  # GridSearchCV of 1.6 fits with weights and scores without them
    mine, table = ours.results_, theirs.cv_results_
    assert mine["params"] == table["params"]
    for name in table:
        if name.startswith("param_"):
            assert list(mine[name]) == list(table[name])
        elif "test_score" in name and name != "rank_test_score":
            np.testing.assert_allclose(mine[name], table[name], rtol=0, atol=atol, err_msg=name)
    if atol == 0:
        assert np.array_equal(mine["rank_test_score"], table["rank_test_score"])
    assert ours.best_index_ == theirs.best_index_
    assert ours.best_params_ == theirs.best_params_
    assert ours.best_score_ == pytest.approx(theirs.best_score_, abs=max(atol, 1e-12))
    assert ours.n_splits_ == theirs.n_splits_
    return ours
