"""WeightedDegree: against the same substrings at the same places."""

import itertools

import numpy as np
import pytest

from mercer import SVC
from mercer.errors import InvalidInput
from mercer.kernels import WeightedDegree
from mercer.testing import double_loop

SHORT = ["".join(w) for n in range(6) for w in itertools.product("ab", repeat=n)][:62]


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_all_short_strings(length):
    k = WeightedDegree(length)
    np.testing.assert_allclose(k(SHORT), double_loop(k, SHORT), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("letters", ["ACGT", "aé\x00ÿ", "a😀𝄞\ud800\u0301"])
@pytest.mark.parametrize("length", [3, 9, 100])
def test_random_strings_of_any_letters(letters, length):
    rng = np.random.default_rng(0)
    draws = [rng.integers(0, len(letters), rng.integers(0, 60)) for _ in range(8)]
    X = ["".join(letters[i] for i in draw) for draw in draws]
    X += [X[0][:10] + X[1][10:], X[2] + "a", ""]
    k = WeightedDegree(length)
    expected = double_loop(k, X)
    np.testing.assert_allclose(k(X), expected, rtol=1e-12)
    np.testing.assert_allclose(k(X[:3], X), expected[:3], rtol=1e-12)
    np.testing.assert_allclose(k.diag(X), np.diagonal(expected), rtol=1e-12)


def test_places_matter_and_bytes_are_letters():
    k = WeightedDegree(2)
    assert k(["ab", "xab"])[0, 1] == 0
    assert (k([b"ab", b"abc", b""]) == k(["ab", "abc", ""])).all()
    assert k([]).shape == (0, 0) and k([""]).tolist() == [[0]]
    assert WeightedDegree(10**9)(["ab"])[0, 0] > 0


def test_weights_add_up_to_one():
    for p in (1, 3, 8):
        word = "abcdefghij"[:p]
        beta = 2 * (p - np.arange(p)) / (p * (p + 1))
        assert beta.sum() == pytest.approx(1)
        assert WeightedDegree(p)([word])[0, 0] == pytest.approx((beta * (p - np.arange(p))).sum())


def test_the_chance_of_a_collision():
    assert WeightedDegree(3).collision_probability(["ACGT" * 100]) == 0.0
    assert WeightedDegree(4).collision_probability(["ACGTA"]) == 2 / 2.0**63


def test_sites_are_told_apart_by_what_stands_where():
    rng = np.random.default_rng(1)
    X = ["".join("ACGT"[i] for i in rng.integers(0, 4, 20)) for _ in range(120)]
    y = np.arange(120) % 2
    X = [s[:9] + ("GT" if label else "AG") + s[11:] for s, label in zip(X, y, strict=True)]
    model = SVC(WeightedDegree(3).normalized(), C=10.0).fit(X[:80], y[:80])
    assert model.score(X[80:], y[80:]) > 0.9


@pytest.mark.parametrize("length", [0, -1, 1.5, None, "3", (1, 2)])
def test_wrong_parameters(length):
    with pytest.raises(InvalidInput, match="WeightedDegree: length="):
        WeightedDegree(length)
