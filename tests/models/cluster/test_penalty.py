"""A penalty for about k clusters: the farthest points first, by a double loop and on plants."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import mercer
from mercer import RBF, DPMeans, penalty_from_k
from mercer.errors import InvalidInput
from mercer.models.cluster import dpmeans


def farthest(X: np.ndarray, rounds: int) -> list[float]:
    """Squared distances of the farthest points, one after the other, from the mean on."""
    chosen, out = [X.mean(axis=0)], []
    for _ in range(rounds):
        near = [min(float(((x - c) ** 2).sum()) for c in chosen) for x in X]
        out.append(max(near))
        chosen.append(X[int(np.argmax(near))])
    return out


@pytest.mark.parametrize("kernel", [None, "linear", RBF(15.0)])
@pytest.mark.parametrize("k", [1, 2, 3, 5, 9])
def test_planted_clusters_are_found(k, kernel):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        centres = 25.0 * rng.permutation(np.array([(i, j) for i in range(4) for j in range(4)]))[:k]
        y = rng.permutation(np.repeat(np.arange(k), rng.integers(5, 30)))
        X = centres[y] + rng.standard_normal((len(y), 2))
        model = DPMeans(penalty_from_k(X, k, kernel), kernel).fit(X)
        assert model.n_clusters_ == k


def test_it_begins_in_a_gap_of_the_farthest_distances(monkeypatch):
    begun = []
    monkeypatch.setattr(dpmeans, "_tried", lambda space, p, k: begun.append(p) or (p, {}))
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, k = rng.standard_normal((40, 2)), int(rng.integers(1, 12))
        d = farthest(X, k + 1)
        penalty_from_k(X, k)
        assert d[k] * (1 - 1e-9) <= begun[-1] <= ([np.inf, *d][max(0, k - 1)]) * (1 + 1e-9)


@pytest.mark.parametrize("kernel", [None, RBF(1.5)])
def test_about_k_clusters_without_a_plant(kernel):
    X = np.random.default_rng(0).standard_normal((300, 3))
    for k in (2, 5, 10, 20):
        found = DPMeans(penalty_from_k(X, k, kernel), kernel).fit(X).n_clusters_
        assert abs(found - k) <= max(1, k // 10)


def test_ties_and_duplicates():
    assert DPMeans(penalty_from_k([[-1.0], [1.0]], 2)).fit([[-1.0], [1.0]]).n_clusters_ == 2
    X = np.repeat([[0.0], [1.0], [5.0]], 4, axis=0)
    for k in (1, 2, 3):
        assert DPMeans(penalty_from_k(X, k)).fit(X).n_clusters_ == k
    assert penalty_from_k(X, 7) == 0.0
    assert penalty_from_k(np.ones((4, 2)), 2) == 0.0


def test_weights_are_copies():
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((30, 2)), rng.integers(0, 3, 30)
    for kernel in (None, RBF(1.0)):
        a = penalty_from_k(X, 4, kernel, sample_weight=w)
        b = penalty_from_k(np.repeat(X, w, axis=0), 4, kernel)
        np.testing.assert_allclose(a, b)


def test_a_gram_matrix_will_do():
    X = np.random.default_rng(0).standard_normal((30, 2))
    kernel = RBF(1.0)
    a, b = penalty_from_k(X, 4, kernel), penalty_from_k(kernel(X), 4, "precomputed")
    np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("k", [0, -1, 2.5, "two", None, True, 99])
def test_refused_numbers(k):
    with pytest.raises(InvalidInput, match="penalty_from_k: k="):
        mercer.penalty_from_k([[0.0], [1.0]], k)


def test_a_number_that_no_penalty_gives_is_told():
    X = np.random.default_rng(0).standard_normal((300, 5))
    with pytest.warns(UserWarning, match="tried gives about 5 .* wider") as told:
        penalty = penalty_from_k(X, 5, RBF(0.7))
    found = DPMeans(penalty, RBF(0.7)).fit(X).n_clusters_
    assert found != 5
    pairs = re.findall(r"([\d.e-]+) gives (\d+)", str(told[0].message))
    assert len(pairs) == 2
    many, few = (int(count) for _, count in pairs)
    assert many > 5 > few and found in (many, few)
    for value, count in pairs:
        got = DPMeans(float(value), RBF(0.7)).fit(X).n_clusters_
        assert abs(got - int(count)) <= 0.2 * int(count)  # the price is told to six digits
    # Three equal pairs: three clusters or six.
    with pytest.warns(UserWarning, match="KernelKMeans"):
        penalty_from_k([[0.0], [1.0], [100.0], [101.0], [50.0], [51.0]], 5)


def test_no_words_where_about_k_are_found():
    rng = np.random.default_rng(0)
    blobs = np.repeat([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]], 30, axis=0)
    blobs = blobs + rng.standard_normal(blobs.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kernel in (None, RBF(4.0), "linear"):
            penalty_from_k(blobs, 3, kernel)


def test_squares_below_the_range_of_floats_are_refused():
    X = np.random.default_rng(0).standard_normal((30, 2))
    for scale in (1e-200, 1e-155):
        with pytest.raises(InvalidInput, match="below the range of floats"):
            penalty_from_k(X * scale, 3)
    small = penalty_from_k(X * 2.0**-400, 3)
    assert small == np.ldexp(penalty_from_k(X, 3), -800)
    assert penalty_from_k(np.zeros((4, 2)), 2) == 0.0
