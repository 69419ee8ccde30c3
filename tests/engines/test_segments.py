"""Sums of groups of rows: against a loop, for odd sizes, threads, and read-only matrices."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer.engines import segments


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (7, 3), (50, 129), (300, 1200)])
def test_sums_are_those_of_a_loop_with_any_number_of_threads(m, n, dtype, monkeypatch):
    monkeypatch.setattr(segments, "PANEL", 100)
    monkeypatch.setattr(segments, "LIGHT", 0)
    rng = np.random.default_rng(m)
    K = rng.standard_normal((m, n)).astype(dtype)
    K.setflags(write=False)
    rows, groups = rng.integers(0, m, 3 * m), rng.integers(0, 4, 3 * m)
    factors = rng.standard_normal(3 * m)
    expected = np.ones((5, n))
    for r, g, f in zip(rows, groups, factors, strict=True):
        expected[g] += f * K[r].astype(float)
    answers = []
    for threads in (1, 2, 3):
        with mercer.config(threads=threads):
            answers.append(segments.group_sums(K, rows, factors, groups, np.ones((5, n))))
    np.testing.assert_allclose(answers[0], expected, atol=1e-10)
    assert all((a == answers[0]).all() for a in answers)


def test_no_rows_add_nothing():
    none = np.zeros(0, dtype=int)
    out = segments.group_sums(np.ones((2, 3)), none, np.zeros(0), none, np.ones((2, 3)))
    assert (out == 1).all()


def test_short_rows_are_added_to_their_sums():
    rng = np.random.default_rng(0)
    F, groups, factors = rng.standard_normal((50, 3)), rng.integers(0, 4, 50), rng.uniform(size=50)
    F.setflags(write=False)
    expected = np.ones((6, 3))
    for row, g, f in zip(F, groups, factors, strict=True):
        expected[g] += f * row
    out = segments.member_sums(F, groups, factors, np.ones((6, 3)))
    np.testing.assert_allclose(out, expected, atol=1e-13)
