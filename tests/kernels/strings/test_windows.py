"""Kernels of windows: impossible lengths, letters outside an alphabet, nothing to learn."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import mercer
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.features import SparseCounts
from mercer.kernels import BagOfWords, GappedKmer, Mismatch, Spectrum, Subsequence, WeightedDegree

SHORT = ["ACGTACGT", "ACGAACG", ""]


# ------------------------------------------------------------------------------- large lengths
@pytest.mark.parametrize(
    "k", [GappedKmer(60, 30), Mismatch(20, 6), Mismatch(300, 200), Spectrum(10**6)], ids=repr
)
def test_nothing_is_enumerated_where_no_string_is_long_enough(k):
    assert (k.fit_params(SHORT)(SHORT) == 0).all()
    assert (k.fit_params(SHORT)(SHORT, ["ACGT" * 100]) == 0).all()
    assert (k.fit_params(SHORT).diag(SHORT) == 0).all()
    assert k.fit_params(SHORT).n_features(SHORT) is None  # too many columns
    with pytest.warns(UserWarning, match="letters, the longest 8, so all kernel values are 0"):
        model = mercer.KernelRidge(k).fit(SHORT, [1.0, 2.0, 3.0])
    assert (model.predict(SHORT) == 0).all()


def test_many_choices_of_places_are_never_listed():
    X = ["ACGT" * 15, "ACGA" * 15]
    k = GappedKmer(60, 30)  # 10¹⁷ choices: one window in each string, that agree in 45 places
    expected = [[118264581564861424.0, 344867425584.0], [344867425584.0, 118264581564861424.0]]
    np.testing.assert_allclose(k(X), expected, rtol=1e-12)
    assert k.fit_params(X).n_features(X) is None
    model = mercer.KernelRidge(k.normalized(), alpha=0.1).fit(X, [1.0, 2.0])
    assert np.isfinite(model.predict(SHORT)).all()
    with pytest.raises(MemoryBudgetExceeded, match=r"1\.18e\+17 choices of places"):
        SparseCounts(k).fit(X)
    with pytest.raises(InvalidInput, match="strings of up to 4000 letters is too large"):
        GappedKmer(3000, 1500)(["A" * 4000])


def test_weighted_degree_of_any_length_stops_at_the_longest_string():
    X = ["ACGTACGTACGT" * 6, "ACGAACGTACGT" * 5, "AC", ""]
    for p in (31, 32, 33, 50, 10**5):
        beta = [2 * (p - d + 1) / (p * (p + 1)) for d in range(1, min(p, 80) + 1)]

        def value(s, t, beta=beta):
            common = range(min(len(s), len(t)))
            same = [
                sum(s[i : i + d] == t[i : i + d] for i in common[: max(0, len(common) - d + 1)])
                for d in range(1, len(beta) + 1)
            ]
            return float(np.dot(beta, same))

        expected = [[value(s, t) for t in X] for s in X]
        np.testing.assert_allclose(WeightedDegree(p)(X), expected, rtol=1e-12)


@pytest.mark.parametrize("k", [WeightedDegree(5), WeightedDegree(40), GappedKmer(4, 2)], ids=repr)
def test_features_of_short_and_long_strings_have_the_same_columns(k):
    long, short = ["ACGTACGT" * 6, "TTACGA"], ["AC", "", "A", "TTAC"]
    for known, new in ((long, short), (short, long)):
        for kernel in (k, k + Spectrum(1), Spectrum(1) + k.normalized()):
            features = SparseCounts(kernel).fit(known)
            got = features.transform(known) @ features.transform(new).T
            np.testing.assert_allclose(got.toarray(), kernel(known, new), atol=1e-12)


# ----------------------------------------------------------------------------- impossible pairs
def test_more_matches_than_letters_are_the_zero_kernel():
    X = ["ACGTAC", "ACG", ""]
    k = GappedKmer(3, 4)
    assert (k(X) == 0).all() and (k.diag(X) == 0).all()
    assert k.features(X).shape == (3, 0) and SparseCounts(k).fit_transform(X).shape == (3, 0)
    with pytest.warns(UserWarning, match="more places than it has"):
        assert (mercer.KernelRidge(k).fit(X, [1.0, 2.0, 3.0]).predict(X) == 0).all()


@pytest.mark.parametrize("alphabet", ["AB", "ABC", "A"])
def test_more_mismatches_than_letters_are_as_many(alphabet):
    X = ["ABBA", "AB", "B", "", "ACCBA"]
    for p, m in ((2, 3), (2, 9), (1, 2)):
        k, all_of_them = Mismatch(p, m, alphabet=alphabet), Mismatch(p, p, alphabet=alphabet)
        assert (k(X) == all_of_them(X)).all()
        assert (k.features(X) != all_of_them.features(X)).nnz == 0
        windows = np.array([max(0, len(s) - p + 1) for s in X])
        assert (k(X) == len(alphabet) ** p * np.outer(windows, windows)).all()


def test_a_grid_goes_on_over_impossible_pairs():
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("ACGT"), 12)) for _ in range(24)]
    y = np.array([s.count("A") > 2 for s in X]).astype(int)
    grid = {"kernel__length": [2, 3], "kernel__matches": [2, 3]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        search = GridSearchCV(mercer.SVC(GappedKmer(3, 2)), grid, cv=2).fit(X, y)
    assert len(search.cv_results_["params"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    grid = {"kernel__kernel__length": [1, 3], "kernel__kernel__mismatches": [1, 2]}
    GridSearchCV(mercer.SVC(Mismatch(3, 1).normalized()), grid, cv=2).fit(X, y)


# ----------------------------------------------------------------------------- nothing to learn
@pytest.mark.parametrize(
    ("k", "message"),
    [
        (Spectrum(8), "no string has 8 letters, the longest 4"),
        (Spectrum((8, 9)).normalized(), "no string has 8 letters"),
        (Spectrum(8, alphabet="ACGT").normalized(), "no string has 8 letters"),
        (2.0 * Mismatch(8, 1) + 1.0, "no string has 8 letters"),
        (Subsequence(5).normalized(), "no string has 5 letters"),
        (GappedKmer(6, 3), "no string has 6 letters"),
        (BagOfWords(min_df=50), "none of 4 words is left by min_df=50"),
        (BagOfWords(token_pattern=r"\b\w{9,}\b"), "no document has a word"),
    ],
    ids=repr,
)
def test_a_kernel_that_is_zero_on_all_training_points_is_told(k, message):
    X, y = ["ACGT", "ACGA", "TTT", "TTG"] * 5, [0, 0, 1, 1] * 5
    with pytest.warns(UserWarning, match=f"{message}.*all kernel values are 0") as told:
        mercer.SVC(k).fit(X, y)
    assert len(told) == 1
    with pytest.warns(UserWarning, match=message):
        mercer.statistics.mmd_test(X[:8], X[8:], k, rng=0)


def test_one_long_string_is_enough_and_no_warning_is_given():
    X, y = ["ACGTACGT", "ACGA", "TTT", "TTG"] * 5, [0, 0, 1, 1] * 5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in (Spectrum(8), Spectrum((8, 20)), Subsequence(8), WeightedDegree(9)):
            model = mercer.SVC(k).fit(X, y)
            model.predict(["A", ""])
            assert hasattr(mercer.KernelLogisticRegression(k), "predict")


# ------------------------------------------------------------------------------------- letters
@pytest.mark.parametrize("k", [Spectrum(2, alphabet="ACGT"), GappedKmer(3, 2, alphabet="ACGT")])
def test_letters_outside_a_given_alphabet_still_leave_the_smaller_problem(k):
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("ACGTN"), 12)) for _ in range(120)]
    y = np.array([s.count("AC") for s in X], dtype=float)
    new = ["ACGTNN", "XXACXX", ""]
    free = k.get_params() | {"alphabet": None}
    expected = mercer.KernelRidge(type(k)(**free), alpha=1.0).fit(X, y).predict(new)
    for kernel in (k, k.normalized()):
        model = mercer.KernelRidge(kernel, alpha=1.0).fit(X, y)
        assert model.solution_.extra["method"] == "primal"
    got = mercer.KernelRidge(k, alpha=1.0).fit(X, y).predict(new)
    np.testing.assert_allclose(got, expected, atol=1e-9)
    assert k.alphabet == "ACGT" and k.features(X).shape[1] == k.n_features(["ACGT"])


@pytest.mark.parametrize("k", [Spectrum(2), GappedKmer(2, 1), Mismatch(2, 1)], ids=repr)
def test_points_of_weight_zero_bring_no_letters(k):
    X = ["abab", "ba", "aab", "bb", "abba"]
    y = np.arange(5.0)
    kept = mercer.KernelRidge(k, alpha=1.0).fit(X, y)
    weights = [1, 1, 1, 1, 1, 0]
    model = mercer.KernelRidge(k, alpha=1.0).fit([*X, "xyz"], [*y, 9.0], sample_weight=weights)
    assert model.kernel_.alphabet == kept.kernel_.alphabet == "ab"
    np.testing.assert_allclose(model.predict(["ab", "bba"]), kept.predict(["ab", "bba"]))


def test_strings_without_letters_have_no_alphabet():
    for k in (Spectrum(2), GappedKmer(2, 1), Mismatch(2, 1)):
        with pytest.warns(UserWarning, match="the longest 0"):
            model = mercer.KernelRidge(k).fit(["", ""], [1.0, 2.0])
        assert model.predict(["ab"]).tolist() == [0.0]
        assert k.features(["", ""]).shape == (2, 0)


@pytest.mark.parametrize("make", [Spectrum, Mismatch, GappedKmer])
def test_alphabets_that_are_none(make):
    for bad in (np.array("ab"), np.array([["a"]]), 3, ["ab"], ["a", b"b"], ["a", 1]):
        with pytest.raises(InvalidInput, match="give the letters as text"):
            make(alphabet=bad)
    if make is not Mismatch:
        for nothing in ("", b"", []):
            with pytest.raises(InvalidInput, match="give the letters as text"):
                make(alphabet=nothing)
    with pytest.raises(InvalidInput, match="not all 0"):
        Spectrum((1, 2), weights=(0, 0))


def test_lists_that_change_later_change_no_kernel(tmp_path):
    lengths, letters, weights = [1, 2], ["a", "b"], [1.0, 2.0]
    k = Spectrum(lengths, weights=weights, alphabet=letters)
    near = Mismatch(2, 1, alphabet=letters)
    before = k(["abab", "ba"]), near(["abab", "ba"])
    lengths.append(3), letters.append("a"), weights.append(3.0)
    assert k == Spectrum((1, 2), weights=(1.0, 2.0), alphabet=("a", "b")) == clone(k)
    assert (k(["abab", "ba"]) == before[0]).all() and (near(["abab", "ba"]) == before[1]).all()
    assert near.alphabet == GappedKmer(alphabet=np.array(["a", "b"])).alphabet == ("a", "b")
    for kernel in (Spectrum(range(1, 3)), Spectrum(np.array([1, 2]), alphabet=["a", "b"]), k):
        mercer.save(kernel, tmp_path / "kernel.mercer", overwrite=True)
        assert mercer.load(tmp_path / "kernel.mercer") == kernel == clone(kernel)


def test_all_kernels_agree_on_what_a_length_is():
    words = ["".join(w) for n in range(5) for w in itertools.product("ab", repeat=n)]
    assert (GappedKmer(3, 3)(words) == Spectrum(3)(words)).all()
    assert (Mismatch(3, 0)(words) == Spectrum(3)(words)).all()
