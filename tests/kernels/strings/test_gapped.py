"""GappedKmer: against all pairs of windows, counted and compared, and its features."""

import itertools
import math

import numpy as np
import pytest

from mercer import config
from mercer.engines import tiles
from mercer.errors import InvalidInput
from mercer.kernels import GappedKmer, Spectrum
from mercer.kernels.counted import CountedBound
from mercer.kernels.strings.paired import PairedBound
from mercer.testing import double_loop

SHORT = ["".join(w) for n in range(6) for w in itertools.product("ab", repeat=n)][:62]


def both_ways(k, X, Y=None):
    X, Y = k.domain.check(X), None if Y is None else k.domain.check(Y)
    K = tiles.gram(CountedBound(k, X, Y))
    assert (tiles.gram(PairedBound(k, X, Y)) == K).all()
    assert (k(X, Y) == K).all()
    return K


@pytest.mark.parametrize(("length", "matches"), [(1, 1), (2, 1), (3, 2), (4, 1), (4, 3)])
def test_all_short_strings(length, matches):
    k = GappedKmer(length, matches)
    expected = double_loop(k, SHORT)
    assert (both_ways(k, SHORT) == expected).all()
    phi = k.features(SHORT)
    assert phi.shape[1] == math.comb(length, matches) * 2**matches
    assert ((phi @ phi.T).toarray() == expected).all()


@pytest.mark.parametrize("letters", ["ACGT", "aé\x00ÿ", "a😀𝄞\ud800\u0301"])
@pytest.mark.parametrize(("length", "matches"), [(6, 4), (9, 8), (5, 2)])
def test_random_strings_of_any_letters(letters, length, matches):
    rng = np.random.default_rng(0)
    draws = (rng.integers(0, len(letters), rng.integers(0, 60)) for _ in range(7))
    X = ["".join(letters[i] for i in draw) for draw in draws]
    X += [X[0] + X[1][:20], ""]
    k = GappedKmer(length, matches)
    expected = double_loop(k, X)
    assert (both_ways(k, X) == expected).all()
    assert (both_ways(k, X[:4], X[2:]) == expected[:4, 2:]).all()
    assert (k.diag(X) == np.diagonal(expected)).all()


def test_all_places_are_the_spectrum_and_bytes_are_letters():
    X = ["ACGTACG", "TTACG", "AC", ""]
    assert (GappedKmer(3, 3)(X) == Spectrum(3)(X)).all()
    assert (GappedKmer(3, 2)([s.encode() for s in X]) == GappedKmer(3, 2)(X)).all()


def test_columns_are_the_choices_of_places_and_their_letters():
    k = GappedKmer(3, 2, alphabet="ab")
    # places 0 1, 0 2, 1 2; of each aa, ab, ba, bb; windows aba and bax
    assert k.features(["aba"]).toarray().tolist() == [[0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0]]
    assert k.features(["bax"]).toarray().tolist() == [[0, 0, 1, 0] + [0] * 8]
    assert k.n_features(["bax"]) is None and k.n_features(["ba"]) == 12
    assert GappedKmer(3, 2).fit_params(["ca"]).alphabet == "ac"


def test_the_way_follows_cost_and_memory():
    rng = np.random.default_rng(1)
    X = ["".join("ACGT"[i] for i in rng.integers(0, 4, 40)) for _ in range(30)]
    few, many = GappedKmer(6, 4), GappedKmer(16, 8)  # 15 and 12870 choices of places
    assert isinstance(few._bind(few.domain.check(X * 5)), CountedBound)
    assert isinstance(many._bind(many.domain.check(X)), PairedBound)
    expected = few(X)
    with config(memory=100_000):
        assert isinstance(few._bind(few.domain.check(X)), PairedBound)
        assert (few(X) == expected).all() and (few.diag(X) == np.diagonal(expected)).all()


def test_the_chance_of_a_collision():
    assert GappedKmer(9, 7).collision_probability(["ACGTACGTACGT"]) == 0.0
    assert GappedKmer(9, 8).collision_probability(["abcdefghij"]) == 9 * 2 / 2.0**63


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"length": 0}, "length=0"),
        ({"matches": 0}, "matches=0"),
        ({"matches": 2.5}, "matches=2.5"),
        ({"alphabet": ""}, "alphabet=''"),
        ({"alphabet": "aa"}, "names a letter twice"),
    ],
)
def test_wrong_parameters(given, message):
    with pytest.raises(InvalidInput, match="GappedKmer: ") as caught:
        GappedKmer(**given)
    assert message in str(caught.value)
