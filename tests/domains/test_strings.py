"""Strings: what they may come as, what is refused and how it is said, and what packing keeps."""

import numpy as np
import pytest

from mercer.domains import Strings, Table
from mercer.errors import InvalidInput

WORDS = ["cat", "", "é😀", "cat"]


@pytest.mark.parametrize(
    "X",
    [
        WORDS,
        tuple(WORDS),
        np.array(WORDS),
        np.array(WORDS, dtype=object)[:, None],
        Table({"word": WORDS}),
    ],
    ids=["list", "tuple", "text", "column of objects", "table"],
)
def test_every_form_is_packed_alike(X):
    packed = Strings().check(X)
    assert list(packed) == WORDS and packed.lengths.tolist() == [3, 0, 2, 3]
    assert Strings().check(packed) is packed


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (slice(1, 3), [1, 2]),
        (slice(3, 1), []),
        (slice(None, None, -1), [3, 2, 1, 0]),
        (slice(-2, None), [2, 3]),
        ([2, 0, 0], [2, 0, 0]),
        ([-1], [3]),
        (np.array([True, False, True, False]), [0, 2]),
        ([], []),
    ],
)
def test_taking(index, expected):
    packed = Strings().check(WORDS)
    taken = packed.take(index)
    assert list(taken) == [WORDS[i] for i in expected] and taken.offsets[0] == 0
    assert len(taken.codes) == taken.offsets[-1]


@pytest.mark.parametrize(
    ("bad", "said", "unsaid"),
    [
        (["the", "cat"], "' '.join(x)", "str(x)"),
        (list("ACGT"), "''.join(x)", "str(x)"),
        (("a", "b"), "SetKernel", "str(x)"),
        (np.array(["a"]), "join", "str(x)"),
        (bytearray(b"ab"), "bytes(x)", "str(x)"),
        (memoryview(b"ab"), "bytes(x)", "str(x)"),
        (3, "str(x)", "join"),
        (None, "with_missing", "join"),
        (float("nan"), "with_missing", "join"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_the_cure_fits_what_came(bad, said, unsaid):
    with pytest.raises(InvalidInput, match=r"X\[1\]") as caught:
        Strings().check(["cat", bad])
    assert said in str(caught.value) and unsaid not in str(caught.value)


def test_one_string_and_two_kinds_are_named():
    for one in ("cat", b"cat"):
        with pytest.raises(InvalidInput, match="is one string"):
            Strings().check(one)
    with pytest.raises(InvalidInput, match=r"X\[0\] is str and X\[1\] is bytes"):
        Strings().check(["cat", b"cat"])
    with pytest.raises(InvalidInput, match="Strings: X is a set"):
        Strings().check({"cat"})


def test_the_first_strings_are_printed():
    def shown(X):
        return repr(Strings().check(X)).removeprefix("StringCollection")

    assert shown([]) == "(0 points)"
    assert shown(["cat", ""]) == "(2 points: 'cat', '')"
    assert shown([b"a", b"b", b"c", b"d"]) == "(4 points: b'a', b'b', b'c', …)"
    assert len(shown(["A" * 10**6] * 100)) < 250
