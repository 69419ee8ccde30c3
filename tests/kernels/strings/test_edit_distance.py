"""EditDistance: the table of distances, blocks of 64 letters, and that it is no kernel."""

import itertools

import numpy as np
import pytest

import mercer.kernels.strings.paired as module
from mercer import SVC, check_kernel
from mercer.domains import Strings
from mercer.errors import InvalidInput, NotAKernel
from mercer.kernels import EditDistance
from mercer.testing.examples.strings import edit_distance


def distances(X, Y=None):
    k = EditDistance(50.0)
    return np.rint(-50 * np.log(k(X, Y))).astype(int)


def table(X, Y):
    return np.array([[edit_distance(s, t) for t in Y] for s in X])


def test_all_short_strings():
    X = ["".join(w) for n in range(5) for w in itertools.product("ab", repeat=n)]
    expected = table(X, X)
    assert (distances(X) == expected).all()
    assert (EditDistance(1.5)(X) == np.exp(-expected / 1.5)).all()


@pytest.mark.parametrize("letters", ["ab", "acgt", "é😀\x00\ud800", "AĀȀ̀"])  # last: equal mod 256
def test_long_strings_cross_blocks(letters):
    rng = np.random.default_rng(0)
    sizes = [0, 1, 63, 64, 65, 127, 128, 130, 200]
    X = ["".join(rng.choice(list(letters), n)) for n in sizes]
    Y = [s[: len(s) // 2] + letters[0] + s[len(s) // 2 + 2 :] for s in X]
    assert (distances(X, Y) == table(X, Y)).all()
    assert (distances(X, X[::-1]) == table(X, X[::-1])).all()


def test_more_letters_than_slots():
    X = ["".join(map(chr, range(300, 800))), "".join(map(chr, range(310, 700, 3)))]
    assert (distances(X) == table(X, X)).all()


def test_bytes_empty_and_refused():
    assert distances([b"kitten", b"sitting"])[0, 1] == 3
    assert EditDistance()(["", ""]).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert EditDistance()([]).shape == (0, 0)
    with pytest.raises(InvalidInput, match="missing"):
        EditDistance()(["a", float("nan")])
    for bad in (0.0, -1.0, "median", None, np.inf, [1.0, 2.0]):
        with pytest.raises(InvalidInput, match="length_scale"):
            EditDistance(bad)


def test_a_call_that_stops_in_the_middle_of_a_pair_goes_on(monkeypatch):
    rng = np.random.default_rng(2)
    X = Strings().check(["".join(rng.choice(list("abc"), rng.integers(0, 300))) for _ in range(9)])
    k, order = EditDistance(), np.arange(9)
    whole = k._distances(X, order, X, order[::-1])
    monkeypatch.setattr(module, "EDIT_CALL", 1)
    assert (k._distances(X, order, X, order[::-1]) == whole).all()


def test_gradient():
    X = ["kitten", "sitting", "", "mitten"]
    D, W = table(X, X), np.arange(16.0).reshape(4, 4)
    expected = (W * D / 3.0 * np.exp(-D / 3.0)).sum()
    np.testing.assert_allclose(EditDistance(3.0).theta_vjp(X, W), [expected], rtol=1e-13)


def test_it_is_no_kernel():
    k = EditDistance(8.0)
    report = check_kernel(k, ["b", "aa", "ab", "ba", "bb"])
    assert not k.psd and not (k + 1.0).psd and not k.normalized().psd
    assert not report and report.symmetric and report.smallest_eigenvalue < -1e-3
    with pytest.raises(NotAKernel, match="repaired"):
        SVC(kernel=k).fit(["a", "b", "ab", "ba"], [0, 1, 0, 1])
