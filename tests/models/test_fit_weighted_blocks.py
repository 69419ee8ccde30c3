"""Fits of rows in blocks with weights: centres and scales are those of the rows that count."""

import numpy as np
import pytest

from mercer import (
    RBF,
    KernelERM,
    KernelLogisticRegression,
    KernelRidge,
    KernelRidgeClassifier,
    RowBlocks,
)

rng = np.random.default_rng(0)
COUNT = np.arange(2000) < 100
X = rng.normal(size=(2000, 2))
X[:, 0] += np.where(COUNT, 0, 50)
Y = np.sin(2 * X[:, 0]) * np.cos(2 * X[:, 1])
W = 1.0 * COUNT
OPTIONS = {"alpha": 1e-3, "solver": "falkon", "n_centers": 60, "random_state": 0}


def lazy(y):
    da = pytest.importorskip("dask.array")
    return da.from_array(X, chunks=(500, 2)), da.from_array(y, chunks=400), da.from_array(W)


def in_blocks(y):
    return (RowBlocks.from_arrays(X, y, W, block_rows=300),)


def beside(y):
    return RowBlocks.from_arrays(X, block_rows=300), y, W


@pytest.mark.parametrize("rows", [in_blocks, beside, lazy])
def test_rows_of_no_weight_are_no_centres(rows):
    given = KernelRidge(RBF(0.5), **OPTIONS).fit(X, Y, sample_weight=W)
    found = KernelRidge(RBF(0.5), **OPTIONS).fit(*rows(Y))
    assert len(found.X_fit_) == 60 and (found.X_fit_[:, 0] < 25).all()
    scores = [model.score(X[COUNT], Y[COUNT]) for model in (given, found)]
    assert min(scores) > 0.93 and abs(scores[0] - scores[1]) < 0.05
    for make in (KernelLogisticRegression, KernelRidgeClassifier):
        found = make(RBF(0.5), **OPTIONS).fit(*rows(Y > 0))
        assert (found.X_fit_[:, 0] < 25).all()
        assert found.score(X[COUNT], Y[COUNT] > 0) > 0.97


@pytest.mark.parametrize("how", ["uniform", "kmeans", "rpcholesky", "leverage"])
def test_all_words_for_centres_see_the_weights(how):
    options = {**OPTIONS, "centers": how}
    found = KernelRidge(RBF(0.5), **options).fit(*in_blocks(Y))
    assert (found.X_fit_[:, 0] < 25).all()
    few = np.zeros(2000)
    few[::400] = 1.0
    found = KernelRidge(RBF(0.5), **options).fit(RowBlocks.from_arrays(X, Y, few, block_rows=300))
    assert {tuple(z) for z in found.X_fit_} == {tuple(x) for x in X[::400]}


def test_scales_are_those_of_arrays():
    labels = Y > 0
    w = np.where(COUNT, 1.0 + (X[:, 1] > 0), 0.0)
    for model, y in (
        (KernelRidge("rbf", **OPTIONS), Y),
        (KernelRidgeClassifier("rbf", class_weight={False: 1.0, True: 9.0}, **OPTIONS), labels),
        (KernelLogisticRegression("rbf", class_weight="balanced", **OPTIONS), labels),
        (KernelERM("rbf", "huber", **OPTIONS), Y),
    ):
        expected = model.fit(X, y, sample_weight=w).kernel_
        found = model.fit(RowBlocks.from_arrays(X, y, w, block_rows=300)).kernel_
        assert found.length_scale == pytest.approx(expected.length_scale, rel=1e-9)
