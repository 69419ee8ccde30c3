"""Subsequence: the definition by enumeration, the recursion, the decay, tiles, extremes."""

import itertools
import math

import numpy as np
import pytest

import mercer.kernels.strings.paired as module
from mercer import config
from mercer.domains import Strings
from mercer.engines.tiles import small_tiles
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.kernels import Subsequence
from mercer.testing.examples.strings import weighted_subsequences

DECAYS = (0.05, 0.5, 0.8, 1.0)
SHORT = ["".join(w) for n in range(1, 6) for w in itertools.product("ab", repeat=n)]


def plain(s, t, p, lam):
    """K′ and K″ of Lodhi et al., as they are written there, in Python."""
    n, m = len(s), len(t)
    inner = [[1.0] * (m + 1) for _ in range(n + 1)]
    for h in range(1, p):
        new = [[0.0] * (m + 1) for _ in range(n + 1)]
        for i in range(h, n + 1):
            double = 0.0
            for j in range(h, m + 1):
                double *= lam
                if s[i - 1] == t[j - 1]:
                    double += lam * lam * inner[i - 1][j - 1]
                new[i][j] = lam * new[i - 1][j] + double
        inner = new
    return (
        lam
        * lam
        * math.fsum(
            inner[i - 1][j - 1]
            for i in range(p, n + 1)
            for j in range(p, m + 1)
            if s[i - 1] == t[j - 1]
        )
    )


def words(rng, n, longest, letters="abcd"):
    return ["".join(rng.choice(list(letters), rng.integers(0, longest + 1))) for _ in range(n)]


@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_all_short_strings_against_the_feature_map(p):
    assert len(SHORT) == 62
    columns = {u: c for c, u in enumerate(itertools.product("ab", repeat=p))}
    for lam in DECAYS:
        phi = np.zeros((len(SHORT), len(columns)))
        for row, word in enumerate(SHORT):
            for i in itertools.combinations(range(len(word)), p):
                phi[row, columns[tuple(word[k] for k in i)]] += lam ** (i[-1] - i[0] + 1)
        K = Subsequence(p, lam)(SHORT)
        np.testing.assert_allclose(K, phi @ phi.T, rtol=1e-12, atol=0)
        np.testing.assert_allclose(Subsequence(p, lam).diag(SHORT), (phi**2).sum(1), rtol=1e-12)


@pytest.mark.parametrize("lam", [0.5, 0.25, 0.7, 1.0])
def test_the_table_of_four_words(lam):
    K = Subsequence(2, lam)(["cat", "car", "bat", "bar"])
    own, one = 2 * lam**4 + lam**6, lam**4
    expected = np.array(
        [[own, one, one, 0], [one, own, 0, one], [one, 0, own, one], [0, one, one, own]]
    )
    if lam == 0.7:
        np.testing.assert_allclose(K, expected, rtol=1e-15, atol=0)
    else:
        assert (K == expected).all()
    cosine = Subsequence(2, lam).normalized()(["cat"], ["car"])[0, 0]
    assert math.isclose(cosine, 1 / (2 + lam**2), rel_tol=1e-15)


@pytest.mark.parametrize("p", [1, 2, 4, 5])
@pytest.mark.parametrize("lam", [0.3, 0.9])
def test_random_strings_against_the_recursion(p, lam):
    rng = np.random.default_rng(p)
    X, Y = words(rng, 9, 60), words(rng, 6, 60)
    K = Subsequence(p, lam)(X, Y)
    expected = np.array([[plain(s, t, p, lam) for t in Y] for s in X])
    np.testing.assert_allclose(K, expected, rtol=1e-12, atol=0)


def test_unicode_bytes_and_empty_strings():
    X = ["", "é😀é", "😀e\x00", "e\u0301é", "\ud800é"]
    K = Subsequence(2, 0.5)(X)
    expected = [[weighted_subsequences(s, t, 2, 0.5) for t in X] for s in X]
    np.testing.assert_allclose(K, expected, rtol=1e-14)
    assert (K[0] == 0).all() and K[1, 1] > 0
    text = ["banana", "bandana", "", "\xff\x00\xff"]
    assert (Subsequence(3)(text) == Subsequence(3)([s.encode("latin-1") for s in text])).all()
    assert Subsequence()([]).shape == (0, 0) and Subsequence()([""]) == 0
    assert Subsequence().diag([]).shape == (0,)
    with pytest.raises(InvalidInput, match="missing"):
        Subsequence()(["a", None])
    with pytest.raises(InvalidInput, match="one string"):
        Subsequence()("banana")


def test_no_decay_counts():
    K = Subsequence(3, 1.0)(["a" * n for n in range(12)])
    counts = np.array([math.comb(n, 3) for n in range(12)], dtype=float)
    assert (K == np.outer(counts, counts)).all()


def test_strings_shorter_than_the_length_have_nothing_in_common():
    X = ["", "a", "abc", "abcd", "abcde"]
    K = Subsequence(5)(X)
    assert K[4, 4] == 0.5**10 and np.count_nonzero(K) == 1
    assert np.count_nonzero(Subsequence(90)(X)) == 0
    k = Subsequence(5).normalized()
    assert k(X).tolist() == np.diag([0.0, 0, 0, 0, 1]).tolist()
    assert np.isfinite(k.theta_vjp(X, np.ones((5, 5)))).all()


# ---------------------------------------------------------------------------------- gradient
def slope(s, t, p, lam):
    """Return ∂k/∂log λ = Σ (l(i) + l(j)) λ^(l(i) + l(j)) by enumeration."""
    spans = [i[-1] - i[0] + 1 for i in itertools.combinations(range(len(s)), p)]
    left = [tuple(s[k] for k in i) for i in itertools.combinations(range(len(s)), p)]
    other = [i[-1] - i[0] + 1 for i in itertools.combinations(range(len(t)), p)]
    right = [tuple(t[k] for k in i) for i in itertools.combinations(range(len(t)), p)]
    return math.fsum(
        (a + b) * lam ** (a + b)
        for u, a in zip(left, spans, strict=True)
        for v, b in zip(right, other, strict=True)
        if u == v
    )


@pytest.mark.parametrize(("p", "lam"), [(1, 0.6), (2, 0.5), (3, 0.9), (3, 1.0)])
def test_gradient_is_that_of_the_definition(p, lam):
    rng = np.random.default_rng(3)
    X, Y = words(rng, 11, 8), words(rng, 7, 8)
    k = Subsequence(p, lam)
    W, V = rng.standard_normal((11, 11)), rng.standard_normal((11, 7))
    own = np.array([[slope(s, t, p, lam) for t in X] for s in X])
    cross = np.array([[slope(s, t, p, lam) for t in Y] for s in X])
    for edge in (1, 3, 50):
        with small_tiles(edge * edge):
            np.testing.assert_allclose(k.theta_vjp(X, W), [(W * own).sum()], rtol=1e-11)
            np.testing.assert_allclose(k.theta_vjp(X, V, Y), [(V * cross).sum()], rtol=1e-11)
    c = rng.standard_normal(11)
    np.testing.assert_allclose(k._pull_diag(Strings().check(X), c), [c @ np.diag(own)], rtol=1e-11)


def test_gradient_of_the_normalised_kernel_by_differences():
    rng = np.random.default_rng(5)
    X = words(rng, 12, 30)
    k, W, h = Subsequence(4, 0.7).normalized(), rng.standard_normal((12, 12)), 1e-4
    up, down = (float((W * k.with_theta(k.theta + e)(X)).sum()) for e in (h, -h))
    np.testing.assert_allclose(k.theta_vjp(X, W), [(up - down) / (2 * h)], rtol=1e-6)


def test_bounds_end_at_one():
    k = Subsequence(3, 1.0)
    assert k.theta.tolist() == [0.0] and k.bounds[0, 1] == 0.0 and k.theta_names == ["decay"]
    assert k.with_theta(k.bounds[:, 1]) == k
    for p in (1, 40, 100):
        low = Subsequence(p, 1.0).with_theta(Subsequence(p, 1.0).bounds[:, 0] + 1e-9)
        assert 0 < low.decay ** (2 * p) and low.decay >= 1e-5


# ------------------------------------------------------------------- tiles, threads, batches
def test_bits_do_not_depend_on_tiles_threads_or_company():
    rng = np.random.default_rng(11)
    X = words(rng, 37, 40)
    k = Subsequence(4, 0.8)
    K, d = k(X), k.diag(X)
    for entries in (1, 9, 100):
        for threads in (1, 2):
            with small_tiles(entries), config(threads=threads):
                assert (k(X) == K).all()
    assert (d == np.diagonal(K)).all()
    for i, j in [(0, 1), (3, 30), (7, 8), (20, 20)]:
        assert k([X[i]], [X[j]])[0, 0] == K[i, j]
    order = rng.permutation(37)
    np.testing.assert_allclose(k([X[i] for i in order]), K[np.ix_(order, order)], rtol=1e-13)


@pytest.mark.parametrize("kinds", [1, 2])
def test_a_call_that_stops_in_the_middle_of_a_pair_goes_on(monkeypatch, kinds):
    rng = np.random.default_rng(2)
    X = Strings().check(words(rng, 19, 50))
    k, order = Subsequence(3, 0.6), np.arange(19)
    whole = k._sums(X, order, X, order[::-1], kinds)
    for budget in (1, 700, 12000):
        monkeypatch.setattr(module, "SUBSEQUENCE_CALL", budget)
        assert (k._sums(X, order, X, order[::-1], kinds) == whole).all()


def test_distant_letters_are_weighed_to_the_last_digit_or_vanish():
    s, t = "a" + "x" * 600 + "b", "a" + "y" * 600 + "b"
    value = Subsequence(2, 0.9)([s], [t])[0, 0]
    assert math.isclose(value, 0.9**1204, rel_tol=1e-12)
    assert Subsequence(2, 0.5)([s], [t])[0, 0] == 0.0  # 2⁻¹²⁰⁴ is no float
    normal = Subsequence(2, 0.5).normalized()
    assert normal([s]) == 1.0 and normal([s], [t]) == 0.0
    assert Subsequence(2, 0.01)(["xx" + s])[0, 0] > 0


def test_small_decay_keeps_its_digits_on_long_strings():
    rng = np.random.default_rng(0)
    s, t = ("".join(rng.choice(list("ab"), n)) for n in (3000, 2000))
    # Of all terms only contiguous pairs, λ⁴, and one gap, λ⁵, λ⁶, count at λ = 1e-4.
    near = [{}, {}]
    for counts, word in zip(near, (s, t), strict=True):
        for gap in (1, 2, 3):
            for a, b in zip(word, word[gap:], strict=False):
                counts[a + b] = counts.get(a + b, 0.0) + 1e-4 ** (gap - 1)
    expected = 1e-16 * math.fsum(near[0][u] * near[1][u] for u in near[0])
    assert math.isclose(Subsequence(2, 1e-4)([s], [t])[0, 0], expected, rel_tol=1e-10)


def test_overflow_and_memory_are_named():
    k = Subsequence(100, 1.0)
    for much in (k, k.normalized(), k.diag):
        with pytest.raises(InvalidInput, match=r"up to 1500 letters .* smaller decay or length"):
            much(["a" * 1500])
    X = ["ab" * 1000] * 2  # 8 strings side by side: 3.8 MB for each thread
    with config(memory=6_000_000, threads=1):
        assert np.isfinite(Subsequence(30, 0.9)(X)).all()
    with config(memory=6_000_000, threads=2), pytest.raises(MemoryBudgetExceeded, match="thread"):
        Subsequence(30, 0.9)(X)
    with config(memory="1 MB"), pytest.raises(MemoryBudgetExceeded, match="side by side"):
        Subsequence(4)(["ab" * 5000])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"length": 0}, "whole number"),
        ({"length": 2.5}, "whole number"),
        ({"length": True}, "whole number"),
        ({"length": [1, 2]}, "whole number"),
        ({"length": 101}, "at most 100"),
        ({"decay": 0.0}, "> 0"),
        ({"decay": -0.5}, "> 0"),
        ({"decay": 1.0001}, r"\(0, 1\]"),
        ({"decay": math.nan}, "finite number"),
        ({"decay": "median"}, "finite number"),
        ({"length": 100, "decay": 1e-4}, "larger decay"),
    ],
)
def test_wrong_parameters(params, message):
    with pytest.raises(InvalidInput, match=message):
        Subsequence(**params)
    with pytest.raises(InvalidInput, match=message):
        Subsequence().set_params(**params)
