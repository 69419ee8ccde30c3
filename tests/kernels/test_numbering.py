"""`Numbering` against a dictionary: order of first coming, growth of the table, foreign codes."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.kernels import counted
from mercer.kernels.counted import Numbering


def by_dictionary(codes: np.ndarray) -> list[int]:
    numbers: dict[int, int] = {}
    return [numbers.setdefault(code, len(numbers)) for code in codes.tolist()]


@pytest.mark.parametrize("step", [7, 1000, 2**18])
@pytest.mark.parametrize("top", [1, 3, 5000, 2**64 - 1])
def test_numbers_in_order_of_first_coming(monkeypatch, step, top):
    monkeypatch.setattr(counted, "STEP", step)
    monkeypatch.setattr(counted, "FEWEST", 2)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, top, 3000, dtype=np.uint64, endpoint=True)
    codes.flags.writeable = False
    numbers = Numbering(codes)
    expected = by_dictionary(codes)
    assert numbers.columns.tolist() == expected and numbers.size == max(expected) + 1
    assert numbers.find(codes[::-1]).tolist() == expected[::-1]


def test_codes_that_all_ask_for_one_place():
    inverse = pow(0x9E3779B97F4A7C15, -1, 2**64)
    codes = np.array([i * inverse % 2**64 for i in range(500)], dtype=np.uint64)
    numbers = Numbering(codes)
    assert numbers.columns.tolist() == list(range(500))
    assert numbers.find(codes[:3]).tolist() == [0, 1, 2]


def test_none_and_foreign_codes():
    assert Numbering(np.zeros(0, dtype=np.uint64)).size == 0
    numbers = Numbering(np.array([5, 0, 5], dtype=np.uint64))
    assert numbers.find(np.array([0, 1, 5, 2**64 - 1], dtype=np.uint64)).tolist() == [1, -1, 0, -1]
