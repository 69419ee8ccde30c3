"""Packed collections are indexed as scikit-learn indexes: split, cross-validated, searched."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.utils import _safe_indexing, resample, shuffle

import mercer
from mercer.domains import Bags, Categories, Graph, Graphs, Nodes, Numbers, Series, Strings, Vectors
from mercer.domains.incomplete import IncompletePoints

LABELS = np.arange(12) % 2


def strings():
    return Strings().check(["ab" * (2 + i) if i % 2 else "ba" + "c" * i for i in range(12)])


def graphs():
    ring, path = [(0, 1), (1, 2), (2, 0)], [(0, 1), (1, 2), (2, 3)]
    return Graphs().check([Graph(edges=path if i % 2 else ring) for i in range(12)])


def bags():
    rows = [[[float(i % 2), i / 12]] * (1 + i % 3) for i in range(12)]
    return Bags(Vectors()).check([np.array(bag) for bag in rows])


def series():
    return Series().check([np.sin(np.arange(3 + i) * (1 + i % 2)) for i in range(12)])


CASES = {
    "strings": (strings, mercer.Spectrum(2), "length", [1, 2]),
    "graphs": (graphs, mercer.WeisfeilerLehman(1), "iterations", [0, 1]),
    "bags": (bags, mercer.SetKernel(mercer.RBF(1.0)), "kernel", [mercer.RBF(0.5), mercer.RBF(2.0)]),
    "series": (series, mercer.GlobalAlignment(1.0), "length_scale", [1.0, 2.0]),
}


@pytest.mark.parametrize("name", CASES)
def test_collections_are_split_scored_and_searched_as_lists_are(name):
    make, kernel, parameter, values = CASES[name]
    X = make()
    parts = train_test_split(X, LABELS, random_state=0)
    listed = train_test_split(list(X), LABELS, random_state=0)
    assert type(parts[0]) is type(X) and [list(p) for p in parts] == [list(p) for p in listed]
    model = mercer.SVC(kernel.normalized())
    scores = cross_val_score(model, X, LABELS, cv=3)
    np.testing.assert_array_equal(scores, cross_val_score(model, list(X), LABELS, cv=3))
    search = GridSearchCV(model, {f"kernel__kernel__{parameter}": values}, cv=2).fit(X, LABELS)
    assert search.predict(X).shape == (12,)


def every_kind():
    rng = np.random.default_rng(0)
    domains = [
        Strings(), Graphs(), Bags(Vectors()), Series(), Categories(), Nodes(5), Nodes("abc"),
        IncompletePoints(Numbers()),
    ]  # fmt: skip
    return [domain.check(domain.sample(rng, 8)) for domain in domains]


@pytest.mark.parametrize("X", every_kind(), ids=lambda X: type(X).__name__)
def test_indices_of_scikit_learn(X):
    index = np.array([5, 0, 5])
    for key in (index, index.tolist(), slice(1, 6, 2), np.arange(8) % 3 == 0):
        assert X[key, ...] == X[key] == _safe_indexing(X, key)
    assert X[3, ...] == X[3]
    assert len(shuffle(X, random_state=0)) == len(resample(X, random_state=0)) == 8
    for key in ((1, 2), (index, slice(None)), (), (..., index), (1, ..., ...)):
        with pytest.raises(IndexError, match=f"{type(X).__name__}: .*several dimensions"):
            X[key]
