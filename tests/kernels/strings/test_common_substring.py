"""LongestCommonSubstring: against all substrings, across calls, and that it is no kernel."""

import itertools

import numpy as np
import pytest

import mercer.kernels.strings.paired as module
from mercer import SVC, check_kernel
from mercer.domains import Strings
from mercer.errors import InvalidInput, NotAKernel
from mercer.kernels import LongestCommonSubstring
from mercer.testing.examples.strings import common_substring


def table(X, Y):
    return np.array([[common_substring(s, t) for t in Y] for s in X], dtype=float)


def test_all_short_strings():
    X = ["".join(w) for n in range(5) for w in itertools.product("ab", repeat=n)]
    assert (LongestCommonSubstring()(X) == table(X, X)).all()


@pytest.mark.parametrize("letters", ["ab", "acgt", "é😀\x00"])
def test_long_strings(letters):
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list(letters), rng.integers(0, 80))) for _ in range(8)]
    Y = [X[0][:20] + X[1][30:70], *X[1:4], "", X[5] * 2]
    k = LongestCommonSubstring()
    assert (k(X, Y) == table(X, Y)).all()
    assert k.diag(X).tolist() == list(map(len, X))
    assert k.theta.size == 0 and k.theta_vjp(X, np.ones((8, 8))).shape == (0,)


def test_bytes_empty_and_normalised():
    k = LongestCommonSubstring()
    assert k([b"banana", b"ananas"])[0, 1] == 5
    assert k(["", "ab"]).tolist() == [[0, 0], [0, 2]] and k([]).shape == (0, 0)
    assert k.normalized()(["ab", "abcdefgh"])[0, 1] == pytest.approx(2 / np.sqrt(16))
    with pytest.raises(InvalidInput, match=r"X\[1\]"):
        k(["a", 3])


def test_a_call_that_stops_in_the_middle_of_a_pair_goes_on(monkeypatch):
    rng = np.random.default_rng(2)
    X = Strings().check(["".join(rng.choice(list("ab"), rng.integers(0, 90))) for _ in range(9)])
    k, order = LongestCommonSubstring(), np.arange(9)
    whole = k._pairs(X, order, X, order[::-1])
    for budget in (1, 1000):
        monkeypatch.setattr(module, "SUBSTRING_CALL", budget)
        assert (k._pairs(X, order, X, order[::-1]) == whole).all()


def test_it_is_no_kernel():
    k = LongestCommonSubstring()
    X = ["a", "b", "ab", "ba"]
    c = np.array([2, 2, -1, -1])
    assert c @ k(X) @ c == -2
    assert not k.psd and not check_kernel(k, X)
    with pytest.raises(NotAKernel, match="repaired"):
        SVC(kernel=k).fit(X, [0, 1, 0, 1])
