"""Mismatch: against all words, counted and compared, with letters outside the alphabet."""

import itertools

import numpy as np
import pytest

import mercer
from mercer.engines import tiles
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.kernels import Mismatch, Spectrum
from mercer.kernels.counted import CountedBound
from mercer.kernels.strings.mismatch import neighbours, words_near_both
from mercer.kernels.strings.paired import PairedBound

SHORT = ["".join(w) for n in range(6) for w in itertools.product("ab", repeat=n)][:62]


def features(X, p, m, alphabet):
    """Return how many windows of each string are within m places of each word."""
    words = list(itertools.product(alphabet, repeat=p))

    def near(s, word):
        windows = (s[i : i + p] for i in range(len(s) - p + 1))
        return sum(sum(a != b for a, b in zip(w, word, strict=True)) <= m for w in windows)

    return np.array([[near(s, word) for word in words] for s in X]).reshape(len(X), -1)


def both_ways(k, X, Y=None):
    """Return the matrix, equal by words and by pairs of windows."""
    X, Y = k.domain.check(X), None if Y is None else k.domain.check(Y)
    K = tiles.gram(CountedBound(k, X, Y))
    assert (tiles.gram(PairedBound(k, X, Y)) == K).all()
    assert (k(X, Y) == K).all()
    return K


@pytest.mark.parametrize("alphabet", ["ab", "abc", "a", ""])
@pytest.mark.parametrize("m", [0, 1, 2])
@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_all_short_strings(p, m, alphabet):
    if m > p:
        return
    k = Mismatch(p, m, alphabet=alphabet)
    expected = features(SHORT, p, m, alphabet)
    assert (both_ways(k, SHORT) == expected @ expected.T).all()
    assert (k.features(SHORT).toarray() == expected).all()
    assert (k.diag(SHORT) == (expected**2).sum(1)).all()


@pytest.mark.parametrize(("p", "m"), [(2, 1), (3, 2), (4, 1)])
def test_random_strings_with_foreign_letters(p, m):
    rng = np.random.default_rng(0)
    draws = (rng.integers(0, 5, rng.integers(0, 60)) for _ in range(8))
    X = ["".join("aé😀N\x00"[i] for i in draw) for draw in draws]
    k = Mismatch(p, m, alphabet="😀aé")
    expected = features(X, p, m, "😀aé")
    assert (both_ways(k, X) == expected @ expected.T).all()
    assert (both_ways(k, X[:3], X[2:]) == expected[:3] @ expected[2:].T).all()
    assert (k.features(X).toarray() == expected).all()


def test_without_mismatches_it_is_the_spectrum():
    X = ["ACGTACG", "TTACG", "", "GGG"]
    assert (Mismatch(3, 0).fit_params(X)(X) == Spectrum(3)(X)).all()


def test_the_alphabet_decides_values_so_it_must_be_known():
    X, Y = ["abab", "aab"], ["abc"]
    k = Mismatch(2)
    assert (k(X) == Mismatch(2, alphabet="ab")(X)).all()
    assert (Mismatch(2, alphabet="abc")(X) != k(X)).any()
    with pytest.raises(InvalidInput, match="fit_params"):
        k(X, Y)
    fitted = k.fit_params(X)
    assert fitted.alphabet == "ab" and fitted.n_features(Y) == 4 == k.n_features(X)
    assert k.fit_params([b"ba"]).alphabet == b"ab"
    phi = features(Y, 2, 1, "ab")
    assert (fitted(X, Y) == features(X, 2, 1, "ab") @ phi.T).all()


def test_many_words_are_counted_where_near_and_compared_where_too_many():
    rng = np.random.default_rng(1)
    letters = "ACDEFGHIKLMNPQRSTVWY"
    X = ["".join(letters[i] for i in rng.integers(0, 20, 12)) for _ in range(6)]
    X.append(X[0][:5] + X[1][5:])
    wide = Mismatch(6, 1, alphabet=letters)  # 20⁶ words
    assert (both_ways(wide, X) == _pairwise(X, 6, 1, 20)).all()
    assert wide.features(X[:2]).shape == (2, 20**6)
    none = Mismatch(40, 1, alphabet=letters)
    assert none.n_features(X) is None and isinstance(none._bind(none.domain.check(X)), PairedBound)
    long = [s * 4 for s in X]
    assert (none(long) == _pairwise(long, 40, 1, 20)).all()
    with pytest.raises(InvalidInput, match=r"20\^40 words"):
        none.features(X)


def _pairwise(X, p, m, a):
    table = words_near_both(p, m, a, False)[0, 0, 0]

    def value(s, t):
        pairs = itertools.product(*([z[i : i + p] for i in range(len(z) - p + 1)] for z in (s, t)))
        return sum(table[sum(b == c for b, c in zip(u, v, strict=True))] for u, v in pairs)

    return np.array([[value(s, t) for t in X] for s in X])


def test_one_letter_has_one_word_however_long():
    s = "a" * 40 + "b" + "a" * 39
    for p, m, near in ((62, 1, 19), (62, 62, 19), (50, 0, 0), (30, 20, 51)):
        k = Mismatch(p, m, alphabet="a")
        assert k.features([s, "a" * p]).toarray().tolist() == [[near], [1]]
        assert k([s, "a" * p]).tolist() == [[near**2, near], [near, 1]]
    k = Mismatch(70, 1, alphabet="a")  # its windows are no numbers of 64 bits
    assert k([s]).tolist() == [[121]] and k.n_features([s]) is None
    with pytest.raises(InvalidInput, match="too long for numbers of 64 bits"):
        k.features([s])


def test_a_large_table_is_made_at_once_and_a_huge_one_refused():
    X = ["ACGT" * 20, "ACGA" * 20, "NCGA" * 20]
    k = Mismatch(40, 12, alphabet="ACGT")
    K = k(X)
    assert K[2, 2] > 0 and (K == K.T).all()
    table = words_near_both(40, 12, 4, False)[0, 0, 0]
    same = [[sum(a == b for a, b in zip(s[i:], t[j : j + 40], strict=False)) for i in range(41)
             for j in range(41)] for s, t in ((X[0], X[0]), (X[0], X[1]))]  # fmt: skip
    np.testing.assert_allclose([table[e].sum() for e in same], K[0, :2], rtol=1e-12)
    much = Mismatch(400, 400, alphabet=[chr(i) for i in range(200)])
    with pytest.raises(InvalidInput, match="too large for a float"):
        much(["\x05" * 401])
    with pytest.raises(MemoryBudgetExceeded, match="a table of the words near two windows"):
        Mismatch(200, 100, alphabet="AC")(["ACGT" * 100])


def test_little_memory_means_pairs_and_refuses_features():
    X = ["ACGTTGCA" * 4] * 3
    k = Mismatch(5, 2, alphabet="ACGT")
    expected = k(X)
    with mercer.config(memory=100_000):
        assert isinstance(k._bind(k.domain.check(X)), PairedBound)
        assert (k(X) == expected).all() and (k.diag(X) == np.diagonal(expected)).all()
        with pytest.raises(MemoryBudgetExceeded, match="features of 84 substrings"):
            k.features(X)


def test_the_cheaper_way_is_taken():
    rng = np.random.default_rng(2)
    X = ["".join("ACGT"[i] for i in rng.integers(0, 4, 60)) for _ in range(100)]
    near = Mismatch(5, 1, alphabet="ACGT")
    assert isinstance(near._bind(near.domain.check(X)), CountedBound)
    far = Mismatch(9, 4, alphabet="ACGT")
    assert isinstance(far._bind(far.domain.check(X)), PairedBound)


@pytest.mark.parametrize("a", [1, 2, 3])
@pytest.mark.parametrize("m", [0, 1, 2])
def test_words_near_both_windows(a, m):
    p = 3
    table = words_near_both(p, m, a, True)
    assert (words_near_both(p, m, a, False) == table[:1, :1, :1]).all()
    words = list(itertools.product(range(a), repeat=p))
    for u, v in itertools.product(itertools.product(range(a + 1), repeat=p), repeat=2):
        f, g = u.count(a), v.count(a)
        both = sum(x == y == a for x, y in zip(u, v, strict=True))
        equal = sum(x == y != a for x, y in zip(u, v, strict=True))
        near = [
            all(sum(x != y for x, y in zip(w, z, strict=True)) <= m for z in (u, v)) for w in words
        ]
        if max(f, g) <= m:
            assert table[f, g, both, equal] == sum(near)
        else:
            assert not any(near)


def test_neighbours_of_windows():
    digits = np.array([[0, 1], [2, 0], [2, 2]])  # 2 is foreign
    owners, words = neighbours(digits, 2, 1)
    near = {i: sorted(words[owners == i].tolist()) for i in range(3)}
    assert near == {0: [0, 1, 3], 1: [0, 2], 2: []}


def test_long_pairs_are_cut_and_the_loop_is_its_twin():
    from mercer.jit.counts import match_pairs, match_windows

    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 4, 50), rng.integers(0, 4, 37)
    table = rng.standard_normal((3, 3, 3, 6))
    total = 0.0
    for i, j in itertools.product(range(46), range(33)):
        u, v = x[i : i + 5], y[j : j + 5]
        f, g = int((u == 3).sum()), int((v == 3).sum())
        if max(f, g) <= 2:
            both = int(((u == 3) & (v == 3)).sum())
            total += table[f, g, both, int(((u == v) & (u != 3)).sum())]
    whole = match_windows(x, y, 5, 3, table, 0, 46)
    assert whole == pytest.approx(total, rel=1e-12)
    cuts = [match_windows(x, y, 5, 3, table, s, min(46, s + 9)) for s in range(0, 46, 9)]
    assert sum(cuts) == pytest.approx(total, rel=1e-12)
    ends, stops = np.array([0, 50, 53, 53]), np.array([0, 37])
    ends.flags.writeable = stops.flags.writeable = False
    left, right = np.array([0, 1, 2]), np.array([0, 0, 0])
    longer = np.concatenate([x, [1, 2, 3]])
    found = match_pairs(longer, ends, left, y, stops, right, 5, 3, table)
    assert found == pytest.approx([total, 0, 0], rel=1e-12)


def test_one_pair_in_several_calls(monkeypatch):
    monkeypatch.setattr("mercer.kernels.strings.mismatch.CALL_NS", 1000.0)
    k = Mismatch(3, 1, alphabet="ACGT")
    X = k.domain.check(["ACGTTACGNACGT" * 20])
    expected = k.features(X)
    assert (
        k._pairs(X, np.array([0]), X, np.array([0]))[0] == (expected @ expected.T).toarray()[0, 0]
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"length": 0}, "length=0"),
        ({"length": (1, 2)}, "length=(1, 2)"),
        ({"mismatches": -1}, "mismatches=-1"),
        ({"mismatches": 0.5}, "mismatches=0.5"),
        ({"mismatches": None}, "mismatches=None"),
        ({"alphabet": "aa"}, "names a letter twice"),
        ({"alphabet": 1}, "give the letters as text"),
    ],
)
def test_wrong_parameters(given, message):
    with pytest.raises(InvalidInput, match="Mismatch: ") as caught:
        Mismatch(**given)
    assert message in str(caught.value)


def test_ridge_on_proteins_of_few_letters_and_unknown_letters_in_prediction(tmp_path):
    rng = np.random.default_rng(4)
    X = ["".join("HPC"[i] for i in rng.integers(0, 3, 15)) for _ in range(40)]
    y = rng.standard_normal(40)
    model = mercer.KernelRidge(Mismatch(3, 1), alpha=0.1).fit(X, y)
    assert model.kernel_.alphabet == "CHP" and model.solution_.extra["method"] == "primal"
    new = ["HPXCC", "XXX", "", X[0]]
    a = np.linalg.solve(model.kernel_(X) + 0.1 * np.eye(40), y)
    np.testing.assert_allclose(model.predict(new), model.kernel_(new, X) @ a, atol=1e-8)
