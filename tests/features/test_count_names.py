"""Names of counted columns: each is the part whose counts stand in it, and no two are the same."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from mercer.features import SparseCounts
from mercer.kernels import (
    BagOfWords,
    GappedKmer,
    Mismatch,
    Spectrum,
    VertexHistogram,
    WeightedDegree,
)

X = ["ACGTAC", "\u597dAC", "AC\u597d\U0001f600", "ACGTACGTAAC", "", "\x00\xff\x00"]


def named(kernel, points=X):
    features = SparseCounts(kernel).fit(points)
    names = features.get_feature_names_out()
    assert names.dtype == object and len(set(names)) == len(names)
    counts = features.transform(points).toarray()
    assert counts.shape == (len(points), len(names))
    return dict(zip(names.tolist(), counts.T, strict=True))


def occurrences(word, s):
    return sum(s[i : i + len(word)] == word for i in range(len(s) - len(word) + 1))


@pytest.mark.parametrize("length", [1, 2, (1, 2, 3)])
def test_substrings(length):
    columns = named(Spectrum(length))
    exact = {name: column for name, column in columns.items() if not name.startswith("hash:")}
    assert {"A", "\u597d", "\x00"} <= set(exact) or {"AC", "\u597dA", "\x00\xff"} <= set(exact)
    for name, column in exact.items():
        assert column.tolist() == [occurrences(name, s) for s in X]


def test_long_substrings_are_named_by_their_hash():
    assert all(name.startswith("hash:") for name in named(Spectrum(8)))
    assert all(":" in name[5:] for name in named(GappedKmer(9, 8)))
    assert set(named(Spectrum(7), ["ACGTACGT"])) == {"ACGTACG", "CGTACGT"}


def test_windows_with_gaps():
    columns = named(GappedKmer(3, 2))
    assert {"AC.", "A.G", ".CG"} <= set(columns)
    for name, column in columns.items():

        def fits(window, name=name):
            return all(a in (".", b) for a, b in zip(name, window, strict=True))

        assert column.tolist() == [sum(fits(s[i : i + 3]) for i in range(len(s) - 2)) for s in X]
    assert len(named(GappedKmer(90, 1), ["A" * 90])) == 90


def test_substrings_at_places():
    columns = named(WeightedDegree(4))
    assert columns["A@4"].tolist() == [columns["A@4"].max() * (s[4:5] == "A") for s in X]
    exact = [name for name in columns if not name.startswith("hash:")]
    for name in exact:
        word, _, place = name.rpartition("@")
        assert (columns[name] > 0).tolist() == [s[int(place) :].startswith(word) for s in X]
    assert "ACG@0" in exact and max(len(name.rpartition("@")[0]) for name in exact) == 3


@pytest.mark.parametrize("alphabet", ["CA", ["C", "A"], b"CA"])
def test_words_near_substrings(alphabet):
    points = [s.encode("latin-1", "replace") for s in X] if alphabet == b"CA" else X
    columns = named(Mismatch(2, 1, alphabet=alphabet), points)
    assert set(columns) == {"CC", "CA", "AC", "AA"}
    near = [sum(s[i] == "A" or s[i + 1] == "C" for i in range(len(s) - 1)) for s in X]
    assert columns["AC"].tolist() == near


def test_words_of_documents_and_their_weights():
    documents = ["the cat sat", "the dog sat", "a dog ran", "the cat ran"]
    assert set(named(BagOfWords(), documents)) == {"the", "cat", "sat", "dog", "ran"}
    model = make_pipeline(SparseCounts(BagOfWords()), LogisticRegression())
    model.fit(documents, [1, 0, 0, 1])
    weights = dict(zip(model[0].get_feature_names_out(), model[1].coef_[0], strict=True))
    assert max(weights, key=weights.get) == "cat" and min(weights, key=weights.get) == "dog"


def test_combinations_keep_names_apart():
    assert set(named(Spectrum(2).normalized())) == set(named(Spectrum(2)))
    twice = named(2.0 * Spectrum(2) + GappedKmer(2, 2))
    assert "AC (0)" in twice and "AC (1)" in twice
    np.testing.assert_allclose(twice["AC (0)"], np.sqrt(2) * twice["AC (1)"])
    table = SparseCounts(Spectrum(1).on("s") + Spectrum(1).on("t")).fit({"s": ["ab"], "t": ["ba"]})
    assert table.get_feature_names_out().tolist() == ["s: a", "s: b", "t: a", "t: b"]


def test_what_cannot_be_named_is_numbered():
    graphs = [np.ones((2, 2)), np.eye(3)]
    features = SparseCounts(VertexHistogram()).fit(graphs)
    assert features.get_feature_names_out().tolist() == ["sparsecounts0"]
    assert SparseCounts(Spectrum(1).with_missing()).fit(["a", None]).get_feature_names_out().size
