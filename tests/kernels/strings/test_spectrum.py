"""Spectrum: against all pairs of windows, in every alphabet, and its features and codes."""

import itertools
import pickle
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer.domains import Strings
from mercer.errors import InvalidInput
from mercer.kernels import KernelReport, Spectrum, check_kernel
from mercer.kernels.strings.counted import HASHED, places, tagged, window_codes
from mercer.testing import double_loop

SHORT = ["".join(w) for n in range(6) for w in itertools.product("ab", repeat=n)][:62]
LETTERS = {
    "dna": "ACGT",
    "latin": "aé\x00ÿ\x7f",
    "wide": "aĀ\ud800\udfff",
    "astral": "a😀𝄞\U0010ffff\u0301",
}


def strings(letters, n=12, longest=60, seed=0):
    rng = np.random.default_rng(seed)
    draws = (rng.integers(0, len(letters), rng.integers(0, longest + 1)) for _ in range(n))
    return ["".join(letters[i] for i in draw) for draw in draws]


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_all_short_strings(length):
    assert len(SHORT) == 62
    assert (Spectrum(length)(SHORT) == double_loop(Spectrum(length), SHORT)).all()


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 20, 61, (1, 2, 3), [2, 9]])
@pytest.mark.parametrize("letters", LETTERS)
def test_random_strings_of_any_letters(letters, length):
    X, k = strings(LETTERS[letters]), Spectrum(length)
    X += [X[0] + X[1][:30], X[2][5:] * 2, "", LETTERS[letters]]
    expected = double_loop(k, X)
    assert (k(X) == expected).all()
    assert (k(X[:5], X) == expected[:5]).all()
    assert (k.diag(X) == np.diagonal(expected)).all()


def test_bytes_are_letters_below_256():
    X = strings("ab\x00ÿ")
    raw = [s.encode("latin-1") for s in X]
    for length in (1, 3, 8):
        assert (Spectrum(length)(raw) == Spectrum(length)(X)).all()
    with pytest.raises(InvalidInput, match="str and Y holds bytes"):
        Spectrum()(X, raw)


def test_canonical_equivalents_are_different_letters():
    assert Spectrum(1)(["é", "e\u0301"]).tolist() == [[1, 0], [0, 2]]


def test_blends_are_weighted_sums_and_zero_weights_leave_out():
    X = strings("abc")
    parts = [Spectrum(p)(X) for p in (1, 2, 4)]
    assert (Spectrum((1, 2, 4))(X) == sum(parts)).all()
    weighted = Spectrum([4, 1, 2], weights=[0.25, 0.0, 3.0])
    np.testing.assert_allclose(weighted(X), 0.25 * parts[2] + 3 * parts[1], rtol=1e-13)


def test_a_string_shorter_than_the_length_is_zero():
    assert Spectrum(4)(["abc", "", "abcd"]).tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 1]]
    assert Spectrum(10**6)(["abc"]).tolist() == [[0]]
    assert Spectrum(2).normalized()(["", "ab", "abab"])[0].tolist() == [0, 0, 0]
    assert Spectrum()([]).shape == (0, 0) and Spectrum()([], ["a"]).shape == (0, 1)


# ---------------------------------------------------------------------------------- features
@pytest.mark.parametrize("alphabet", ["ab", "ba", ["a", "b"], ("b", "a"), np.array(["a", "b"])])
@pytest.mark.parametrize("length", [1, 3, (1, 3)])
def test_features_are_counts_of_words_in_the_order_of_the_alphabet(alphabet, length):
    k = Spectrum(length, alphabet=alphabet)
    lengths = [length] if isinstance(length, int) else length
    words = ["".join(w) for p in lengths for w in itertools.product(alphabet, repeat=p)]
    expected = [[sum(s.startswith(w, i) for i in range(len(s))) for w in words] for s in SHORT]
    phi = k.features(SHORT)
    assert phi.format == "csr" and phi.toarray().tolist() == expected
    assert k.n_features(SHORT) == len(words)
    assert ((phi @ phi.T).toarray() == k(SHORT)).all()


def test_the_alphabet_is_taken_from_data_and_changes_no_value():
    X = ["bca", "cab", "acb"]
    k = Spectrum(2).fit_params(X)
    assert k.alphabet == "abc" and k.features(X).shape == (3, 9)
    assert Spectrum(2).fit_params([s.encode() for s in X]).alphabet == b"abc"
    assert Spectrum(2).features(X).shape == (3, 9) and Spectrum(2).n_features(X) == 9
    # Given letters stay in front; those that the strings have besides follow.
    assert Spectrum(2, alphabet="cba").fit_params(X).alphabet == "cba"
    assert Spectrum(2, alphabet="zyx").fit_params(X).alphabet == "zyxabc"
    assert Spectrum(2, alphabet=["z", "b"]).fit_params(X).alphabet == ("z", "b", "a", "c")
    encoded = Spectrum(2, alphabet=b"zb").normalized().fit_params([s.encode() for s in X])
    assert encoded.kernel.alphabet == b"zbac"
    for alphabet in (None, "z", "a", "abcdef"):
        assert (Spectrum(2, alphabet=alphabet)(X) == Spectrum(2)(X)).all()


def test_letters_outside_the_alphabet_have_no_column():
    k = Spectrum(2, alphabet="ab")
    assert k.features(["abxba", "xx", "aXb"]).toarray().tolist() == [[0, 1, 1, 0], [0] * 4, [0] * 4]
    # so the features of such strings would not have their kernel, and none are told
    assert k.n_features(["abxba"]) is None and k.n_features(["abba"]) == 4


def test_too_many_columns_are_no_features():
    assert Spectrum(15, alphabet="ACGT").n_features(["ACGT"]) == 4**15
    assert Spectrum(15, alphabet="ACGT").features(["ACGT" * 5]).sum() == 6
    for k in (Spectrum(16, alphabet="ACGT"), Spectrum((15, 14, 13, 10**6), alphabet="ACGT")):
        assert k.n_features(["ACGT"]) is None
        with pytest.raises(InvalidInput, match="more than 2147483647 columns"):
            k.features(["ACGT"])


def test_text_and_bytes_do_not_share_an_alphabet():
    with pytest.raises(InvalidInput, match="alphabet is bytes and the strings are str"):
        Spectrum(2, alphabet=b"ab").features(["ab"])
    assert Spectrum(2, alphabet=[b"a", b"b"]).features([b"ab"]).toarray().tolist() == [[0, 1, 0, 0]]


def test_ridge_by_features_answers_as_the_matrix_does_also_for_unknown_letters(tmp_path):
    rng = np.random.default_rng(0)
    X = strings("ACGT", 90, 20)
    y = rng.standard_normal(90)
    K = Spectrum(2)(X)
    a = np.linalg.solve(K + 0.5 * np.eye(90), y)
    new = ["ACNNGT", "", "NNN", "ACGT☃", X[3]]
    for alphabet, method in ((None, "primal"), ("TCGA", "primal"), ("ACG", "primal")):
        model = mercer.KernelRidge(Spectrum(2, alphabet=alphabet), alpha=0.5).fit(X, y)
        assert model.solution_.extra["method"] == method
        np.testing.assert_allclose(model.predict(new), Spectrum(2)(new, X) @ a, atol=1e-9)
        mercer.save(model, tmp_path / "model.mercer", overwrite=True)
        again = mercer.load(tmp_path / "model.mercer")
        assert again.kernel_ == model.kernel_
        assert (again.predict(new) == model.predict(new)).all()


@pytest.mark.parametrize("alphabet", [None, "ACGT"])
def test_streams_of_strings_are_learned_by_features(alphabet):
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    rates = np.array([[0.4, 0.2, 0.2, 0.2], [0.1, 0.3, 0.3, 0.3]])
    X = ["".join("ACGT"[i] for i in rng.choice(4, 20, p=rates[label])) for label in y]
    model = mercer.KernelLogisticRegression(Spectrum(2, alphabet=alphabet), solver="sgd")
    for start in range(0, 100, 20):
        model.partial_fit(X[start : start + 20], y[start : start + 20], classes=[0, 1])
    assert model.kernel_.alphabet == "ACGT" and model.coef_.shape == (1, 16)
    assert model.score([*X[100:], "NNA"], [*y[100:], 0]) > 0.7
    with pytest.raises(InvalidInput, match=r"X\[0\] has the letter 'N', at place 1.*'ACGTN'"):
        model.partial_fit(["ANNA"], [0])


def test_many_strings_have_sparse_features_in_little_memory():
    rng = np.random.default_rng(0)
    letters = np.frombuffer(b"ACGT", dtype=np.uint8)
    X = [row.tobytes().decode() for row in letters[rng.integers(0, 4, (20000, 60))]]
    Spectrum(5).features(X[:10])
    tracemalloc.start()
    try:
        phi = Spectrum(5).features(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert phi.shape == (20000, 1024) and phi.sum() == 20000 * 56
    assert peak < 100e6  # dense they are 164 MB; 100000 strings may take 1 GB


# ------------------------------------------------------------------------------------- codes
def test_windows_have_the_same_code_in_every_collection():
    for s in ("abcdefgh", "ab😀cdefg", "é" * 8, "\x00\x00\x00"):
        for length in range(1, len(s) + 1):
            alone = [
                window_codes(_codes(s[i : i + length]), length)[0]
                for i in range(len(s) - length + 1)
            ]
            assert (window_codes(_codes(s), length) == alone).all()


def test_codes_of_short_windows_are_exact_and_differ_from_all_others():
    letters = [0, 1, 97, 255, 256, 0xD800, 0x10FFFF]
    for length in (1, 2, 3, 8):
        every = np.array(list(itertools.product(letters, repeat=min(length, 4))), dtype=np.uint32)
        every = np.hstack([np.full((len(every), length - every.shape[1]), 97, np.uint32), every])
        codes = np.concatenate([window_codes(row, length) for row in every])
        assert len(np.unique(codes)) == len(every)
        exact = (codes & HASHED) == 0
        assert (exact == ((every < 256).all(axis=1) & (length <= 7) | (length <= 2))).all()


def test_hashes_spread_over_all_their_bits():
    rng = np.random.default_rng(0)
    codes = window_codes(rng.integers(0, 4, 20000).astype(np.uint32), 12)
    bits = (codes[:, None] >> np.arange(63, dtype=np.uint64)) & np.uint64(1)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.03
    assert (codes & HASHED).all()


def test_tags_tell_equal_windows_apart():
    codes = np.array([97, 97, 1 << 40, 1 << 40, 97, (1 << 63) + 5], dtype=np.uint64)
    tags = np.array([0, 1, 0, 1, 1 << 31, 3])
    found = tagged(codes, tags)
    assert len(set(found.tolist())) == 6 and found[0] == 97
    assert ((found & HASHED) > 0).tolist() == [False, False, True, True, True, True]
    assert (tagged(codes[::-1], tags[::-1]) == found[::-1]).all()


def test_windows_stay_inside_their_strings():
    starts, rows = places(Strings().check(["abc", "", "a", "abcd"]), 3)
    assert starts.tolist() == [0, 4, 5] and rows.tolist() == [0, 3, 3]


def test_the_chance_of_a_collision():
    assert Spectrum(7).collision_probability(["abcdefgh", "é" * 9]) == 0.0
    assert Spectrum(2).collision_probability(["😀𝄞a"]) == 0.0
    assert Spectrum((2, 8)).collision_probability(["abcdefgh"]) == 0.0
    assert Spectrum((2, 8)).collision_probability(["abcdefghi"]) == 2 / 2.0**63
    assert Spectrum(3).collision_probability([]) == 0.0


def _codes(text):
    return Strings().check([text]).codes


# -------------------------------------------------------------------------------- parameters
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"length": 0}, "length=0; it must be a whole number ≥ 1"),
        ({"length": 2.0}, "length=2.0"),
        ({"length": True}, "length=True"),
        ({"length": "3"}, "length='3'"),
        ({"length": None}, "length=None"),
        ({"length": ()}, "give one whole number"),
        ({"length": (2, 2)}, "all different"),
        ({"length": (1, 0)}, "length=0"),
        ({"length": [[1]]}, "length="),
        ({"length": 2, "weights": [1, 2]}, "one finite number ≥ 0 for each of the 1 lengths"),
        ({"length": (1, 2), "weights": (1, -1)}, "one finite number"),
        ({"length": (1, 2), "weights": (1, np.inf)}, "one finite number"),
        ({"length": (1, 2), "weights": "ab"}, "one finite number"),
        ({"alphabet": "aba"}, "names a letter twice"),
        ({"alphabet": 4}, "give the letters as text"),
        ({"alphabet": {"a"}}, "give the letters as text"),
        ({"alphabet": ["ab", "c"]}, "give the letters as text"),
        ({"alphabet": ["a", b"b"]}, "give the letters as text"),
        ({"alphabet": [1]}, "give the letters as text"),
    ],
)
def test_wrong_parameters(given, message):
    with pytest.raises(InvalidInput, match="Spectrum: ") as caught:
        Spectrum(**given)
    assert message in str(caught.value)


@pytest.mark.parametrize("X", [["a", None], ["a", 3], "abc", [["a", "b"]], 5, [b"a", "a"]])
def test_what_is_no_string_is_refused(X):
    with pytest.raises(InvalidInput):
        Spectrum()(X)


def test_copies_prints_and_is_a_kernel():
    k = Spectrum((1, 3), weights=[1.0, 0.5], alphabet="abé")
    assert clone(k) == k == pickle.loads(pickle.dumps(k)) and k != Spectrum((1, 3))
    assert repr(Spectrum()) == "Spectrum(length=3)"
    assert repr(k) == "Spectrum(length=(1, 3), weights=(1.0, 0.5), alphabet='abé')"
    report = check_kernel(Spectrum(2), strings("ab"))
    assert isinstance(report, KernelReport)
