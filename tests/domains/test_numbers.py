"""Numbers: intervals open and closed, whole numbers, and one column from a list."""

import numpy as np
import pytest

from mercer.domains import Numbers
from mercer.errors import InvalidInput


def test_a_list_is_one_column():
    for value in ([1.0, 2.0], (1.0, 2.0), np.array([1.0, 2.0]), range(1, 3)):
        assert Numbers().check(value if not isinstance(value, range) else list(value)).shape == (
            2,
            1,
        )
    pd = pytest.importorskip("pandas")
    assert Numbers().check(pd.Series([1.0, 2.0])).shape == (2, 1)


def test_a_tensor_is_one_column(torch):
    assert tuple(Numbers().check(torch.ones(3)).shape) == (3, 1)


@pytest.mark.parametrize(
    ("domain", "good", "bad", "legal"),
    [
        (Numbers(low=0.0), [0.0, 1e300], [-1e-300], r"numbers in \[0, inf\)"),
        (Numbers(low=-1.0, high=1.0, open=True), [0.999999], [1.0], r"numbers in \(-1, 1\)"),
        (Numbers(low=-1.0, high=1.0, open=True), [0.0], [-1.0], r"numbers in \(-1, 1\)"),
        (Numbers(low=1.0, integer=True), [1, 7], [1.5], r"whole numbers in \[1, inf\)"),
        (Numbers(low=1.0, integer=True), [2.0], [0], "whole numbers"),
        (Numbers(high=3.0), [-1e9, 3.0], [3.0001], r"numbers in \(-inf, 3\]"),
    ],
)
def test_intervals(domain, good, bad, legal):
    domain.check(good)
    with pytest.raises(InvalidInput, match=f"Z contains .*; legal are {legal}"):
        domain.check(bad, "Z")
    with pytest.raises(InvalidInput):
        domain.check([good, bad] if len(good) == len(bad) else np.array([good[0], bad[0]]), "Z")


@pytest.mark.parametrize(
    "bad", [[[1.0], [1.0, 2.0]], [None], ["a"], [np.nan], 3.0, None, [[[1.0]]]], ids=repr
)
def test_refused(bad):
    with pytest.raises(InvalidInput, match="X"):
        Numbers().check(bad)


def test_samples_are_inside(rng):
    for domain in (
        Numbers(),
        Numbers(low=0.0),
        Numbers(-1.0, 1.0, True),
        Numbers(1.0, 100.0, integer=True),
    ):
        domain.check(domain.sample(rng, 50))
        assert domain.sample(rng, 5, 2).shape == (5, 2)
