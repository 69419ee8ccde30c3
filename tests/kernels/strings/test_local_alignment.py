"""Local alignment of strings: brute force, scores, logarithms, slopes, and refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import mercer
from mercer.errors import InvalidInput, NotAKernel
from mercer.kernels import LocalAlignment
from mercer.testing.examples import strings as examples

RNG = np.random.default_rng(3)
SCORES = np.array([[3.0, -1.0], [-1.0, 2.0]])


def words(lengths, letters="ACGT"):
    return ["".join(RNG.choice(list(letters), n)) for n in lengths]


def listed(k, x, y):
    """The definition: all choices of as many positions in both strings."""
    total = 1.0
    for p in range(1, min(len(x), len(y)) + 1):
        for i in itertools.combinations(range(len(x)), p):
            for j in itertools.combinations(range(len(y)), p):
                pairs = [(x[a], y[b]) for a, b in zip(i, j, strict=True)]
                score = sum(k.match if a == b else k.mismatch for a, b in pairs)
                for chosen in (i, j):
                    for a, b in itertools.pairwise(chosen):
                        if b > a + 1:
                            score -= k.opening + k.extension * (b - a - 2)
                total += math.exp(k.beta * score)
    return total


def test_is_the_sum_over_all_local_alignments():
    strings = ["".join(s) for n in range(4) for s in itertools.product("ab", repeat=n)]
    k = LocalAlignment(0.7, 1.5, -0.5, 1.2, 0.4)
    expected = [[listed(k, x, y) for y in strings] for x in strings]
    np.testing.assert_allclose(k(strings), expected, rtol=1e-13)
    for x, y in (("abbab", "babba"), ("aaaaa", "ab"), ("", "abc"), ("é😀a", "😀é")):
        np.testing.assert_allclose(k([x], [y]), listed(k, x, y), rtol=1e-13)


def test_agrees_with_the_plain_recursion_on_longer_strings():
    strings = words([0, 1, 17, 30, 41])
    k = LocalAlignment(1.1)
    expected = [[examples.align_locally(k, x, y) for y in strings] for x in strings]
    np.testing.assert_allclose(k(strings), expected, rtol=1e-11)


def test_scores_as_matrix_and_as_dict():
    strings = words([3, 5, 0, 8], "ab")
    by_matrix = LocalAlignment(0.6, substitution=SCORES, alphabet="ab")
    by_pairs = LocalAlignment(0.6, substitution={"aa": 3.0, ("a", "b"): -1.0, "bb": 2.0})
    K = by_matrix(strings)
    expected = [[examples.align_locally(by_matrix, x, y) for y in strings] for x in strings]
    np.testing.assert_allclose(K, expected, rtol=1e-12)
    np.testing.assert_array_equal(by_pairs(strings), K)
    as_bytes = [s.encode() for s in strings]
    np.testing.assert_array_equal(by_matrix(as_bytes), K)
    plain = LocalAlignment(0.6, 3.0, -1.0)
    same = LocalAlignment(0.6, substitution=[[3.0, -1.0], [-1.0, 3.0]], alphabet="ba")
    np.testing.assert_allclose(same(strings), plain(strings), rtol=1e-14)
    assert by_matrix.psd and by_pairs.psd


def log_reference(k, x, y):
    """log k by the recursion in logarithms, in plain Python."""
    add = np.logaddexp
    n, m, none = len(x), len(y), -np.inf
    M, X, Y = (np.full((n + 1, m + 1), none) for _ in range(3))
    opened, longer, total = -k.beta * k.opening, -k.beta * k.extension, 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            s = k.beta * (k.match if x[i - 1] == y[j - 1] else k.mismatch)
            before = (0.0, M[i - 1, j - 1], X[i - 1, j - 1], Y[i - 1, j - 1])
            M[i, j] = s + add.reduce(before)
            X[i, j] = add(opened + M[i - 1, j], longer + X[i - 1, j])
            Y[i, j] = add(opened + add(M[i, j - 1], X[i, j - 1]), longer + Y[i, j - 1])
            total = add(total, M[i, j])
    return total


def test_values_beyond_floats_are_right_in_logarithms():
    # Two blocks in opposite order: what matters begins anew where all else is large already.
    x, y = "A" * 30 + "C" * 60, "C" * 60 + "A" * 30
    strings = [x, y, *words([90, 70])]
    k = LocalAlignment(20.0)
    assert k(["", "A"]).shape == (2, 2)
    logs = k._bind(k.domain.check(strings)).log_tile(slice(0, 4), slice(0, 4))
    expected = [[log_reference(k, a, b) for b in strings] for a in strings]
    np.testing.assert_allclose(logs, expected, rtol=1e-12)
    assert logs.max() > 2000
    for compute in (k, k.diag):
        with pytest.raises(InvalidInput, match=r"normalized\(\)"):
            compute(strings)
    K = k.normalized()(strings)
    assert np.isfinite(K).all() and np.linalg.eigvalsh(K)[0] > -1e-10


def test_long_pairs_come_in_several_calls(monkeypatch):
    from mercer.kernels.strings import alignment

    X = LocalAlignment.domain.check(words([40, 50]))
    k = LocalAlignment(0.4)
    one, two = np.array([0]), np.array([1])
    expected, slope = k._pairs(X, one, X, two), k._slopes(X, one, X, two)
    monkeypatch.setattr(alignment, "LONG", 160)
    np.testing.assert_allclose(k._pairs(X, one, X, two), expected, rtol=1e-13)
    np.testing.assert_allclose(k._slopes(X, one, X, two), slope, rtol=1e-12)


@pytest.mark.parametrize("normalized", [False, True])
def test_slopes_are_those_of_differences(normalized):
    X, Y = words([3, 9, 0, 14]), words([7, 5])
    for k in (LocalAlignment(0.9), LocalAlignment(0.5, substitution=np.eye(4), alphabet="ACGT")):
        k = k.normalized() if normalized else k
        W = RNG.standard_normal((4, 2))
        h = 1e-5
        up, down = (float((W * k.with_theta(k.theta + s)(X, Y)).sum()) for s in (h, -h))
        np.testing.assert_allclose(k.theta_vjp(X, W, Y), (up - down) / (2 * h), rtol=1e-6)


def test_slopes_beyond_floats():
    (x,) = words([200])
    X = [x, x[:50] + "A" + x[51:120] + "CC" + x[120:]]
    k = LocalAlignment(5.0).normalized()
    W, h = np.ones((2, 2)), 1e-6
    up, down = (float(np.log(k.with_theta(k.theta + s)(X)[0, 1])) for s in (h, -h))
    K = k(X)
    slope = k.theta_vjp(X, W)[0] / (2 * K[0, 1])
    np.testing.assert_allclose(slope, (up - down) / (2 * h), rtol=1e-4)


def test_scores_that_are_no_kernel_say_so():
    indefinite = [[0.0, 2.0], [2.0, 0.0]]
    k = LocalAlignment(0.5, substitution=indefinite, alphabet="ab")
    assert not k.psd and not k.normalized().psd and len(k.theta) == 0
    assert not mercer.check_kernel(k, ["a", "b", "ab", "ba", ""])
    with pytest.raises(NotAKernel, match="repaired"):
        mercer.KernelRidge(k).fit(["a", "b", "ab"], [0.0, 1.0, 2.0])
    repaired = k.repaired("clip")
    values = np.linalg.eigvalsh(repaired(["a", "b", "ab", "ba", ""]))
    assert values[0] > -1e-12 * values[-1]
    mercer.KernelRidge(repaired).fit(["a", "b", "ab"], [0.0, 1.0, 2.0])


def test_beta_is_tuned_only_where_every_beta_is_legal():
    # exp(βS) is positive definite at β = 1, and not at every β.
    C = np.array([[1.0, 0.9, 0.64], [0.9, 1.0, 0.9], [0.64, 0.9, 1.0]])
    k = LocalAlignment(1.0, substitution=np.log(C), alphabet="abc")
    assert k.psd and len(k.theta) == 0
    assert LocalAlignment().theta_names == ["beta"]
    low, high = LocalAlignment(match=50.0).bounds[0]
    assert low < 0 < high and math.exp(high) <= 2.0
    LocalAlignment(match=50.0).with_theta([high])


@pytest.mark.parametrize(
    ("params", "error", "words"),
    [
        ({"beta": 0.0}, InvalidInput, "beta"),
        ({"beta": 1e3}, InvalidInput, "smaller beta"),
        ({"opening": -1.0}, InvalidInput, "opening"),
        ({"extension": None}, InvalidInput, "extension"),
        ({"match": float("nan")}, InvalidInput, "match"),
        ({"match": -2.0}, NotAKernel, "no less"),
        ({"alphabet": "ab"}, InvalidInput, "alphabet"),
        ({"substitution": SCORES}, InvalidInput, "alphabet"),
        ({"substitution": SCORES, "alphabet": "aa"}, InvalidInput, "each once"),
        ({"substitution": SCORES, "alphabet": "abc"}, InvalidInput, "(3, 3)"),
        ({"substitution": [[1.0, 2.0], [0.0, 1.0]], "alphabet": "ab"}, NotAKernel, "symmetric"),
        ({"substitution": [[np.inf]], "alphabet": "a"}, InvalidInput, "finite"),
        ({"substitution": "x", "alphabet": "a"}, InvalidInput, "finite"),
        ({"substitution": "BLOSUM62"}, InvalidInput, "no names here"),
        ({"substitution": {"abc": 1.0}}, InvalidInput, "'abc'"),
        ({"substitution": {"aa": 1.0, "bb": 1.0}}, InvalidInput, "'ab'"),
        ({"substitution": {"ab": 1.0, "ba": 2.0, "aa": 3, "bb": 3}}, NotAKernel, "symmetric"),
    ],
)
def test_bad_parameters_are_refused(params, error, words):
    with pytest.raises(error, match="LocalAlignment") as caught:
        LocalAlignment(**params)
    assert words in str(caught.value)


def test_letters_without_scores_are_named():
    k = LocalAlignment(substitution=SCORES, alphabet="ab")
    with pytest.raises(InvalidInput, match=r"string 1 holds the letter 'x'"):
        k(["ab", "abx"])


def test_models_with_scores_are_saved(tmp_path):
    strings = words([12] * 12, "ab")
    y = [s.count("a") for s in strings]
    k = LocalAlignment(0.3, substitution={"aa": 3.0, "ab": -1.0, "bb": 2.0}).normalized()
    model = mercer.KernelRidge(k, alpha=0.1).fit(strings, y)
    mercer.save(model, tmp_path / "strings.mercer")
    again = mercer.load(tmp_path / "strings.mercer")
    np.testing.assert_array_equal(again.predict(strings), model.predict(strings))


@pytest.mark.parametrize("letters", ["ACGT", "ACDEFGHIKLMNPQRSTVWY"])
@pytest.mark.parametrize("length", [50, 300])
def test_the_default_tells_related_strings_of_usual_length_from_others(letters, length):
    rng = np.random.default_rng(length)
    strings = ["".join(rng.choice(list(letters), length)) for _ in range(8)]
    first = np.array(list(strings[0]))
    changed = [np.where(rng.random(length) < 0.3, rng.permutation(first), first) for _ in range(4)]
    related = ["".join(np.delete(x, rng.integers(length))) for x in changed]
    k = LocalAlignment().normalized()
    others = k(strings)[np.triu_indices(8, 1)]
    assert 0.01 < np.median(others) < 0.6
    assert k(related, strings[:1]).min() > 1.1 * others.max()
