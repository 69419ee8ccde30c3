"""Sums of groups of rows: against a loop, for odd sizes, threads, and read-only matrices."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer.operators import sums


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (7, 3), (50, 129), (300, 1200)])
def test_sums_are_those_of_a_loop_with_any_number_of_threads(m, n, dtype, monkeypatch):
    monkeypatch.setattr(sums, "PANEL", 100)
    monkeypatch.setattr(sums, "LIGHT", 0)
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
            answers.append(sums.group_sums(K, rows, factors, groups, np.ones((5, n))))
    np.testing.assert_allclose(answers[0], expected, atol=1e-10)
    assert all((a == answers[0]).all() for a in answers)


def test_no_rows_add_nothing():
    none = np.zeros(0, dtype=int)
    out = sums.group_sums(np.ones((2, 3)), none, np.zeros(0), none, np.ones((2, 3)))
    assert (out == 1).all()


def test_short_rows_are_added_to_their_sums():
    rng = np.random.default_rng(0)
    F, groups, factors = rng.standard_normal((50, 3)), rng.integers(0, 4, 50), rng.uniform(size=50)
    F.setflags(write=False)
    expected = np.ones((6, 3))
    for row, g, f in zip(F, groups, factors, strict=True):
        expected[g] += f * row
    out = sums.member_sums(F, groups, factors, np.ones((6, 3)))
    np.testing.assert_allclose(out, expected, atol=1e-13)


@pytest.mark.parametrize(("n", "k", "d"), [(1, 1, 1), (70, 3, 2), (600, 7, 5), (9000, 20, 3)])
def test_the_nearest_centres_are_those_of_a_loop_in_every_form(n, k, d, monkeypatch):
    monkeypatch.setattr(sums, "LIGHT", 0)
    monkeypatch.setattr(sums, "NEAR", 1000)
    rng = np.random.default_rng(n)
    F, C = rng.standard_normal((n, d)), rng.standard_normal((k, d))
    labels = rng.integers(0, k, n)
    squares, lengths = (C**2).sum(1), (F**2).sum(1)
    if k > 2:
        squares[1] = np.inf
        labels[labels == 1] = 0
    D = np.array([[((x - c) ** 2).sum() for c in C] for x in F])
    D[:, np.isinf(squares)] = np.inf
    forms = (np.ascontiguousarray(C @ F.T), (F, C), lambda part: C @ F[part].T)
    for form in forms:
        runs = []
        for threads in (1, 2):
            with mercer.config(threads=threads):
                runs.append(sums.judge_points(form, squares, lengths, labels, 1e-14))
        assert all((a == b).all() for a, b in zip(*runs, strict=True))
        nearest, own, least, doubt, wrong = runs[0]
        assert (nearest == D.argmin(1)).all() and (wrong == (labels != nearest)).all()
        np.testing.assert_allclose(own, D[np.arange(n), labels], atol=1e-12)
        np.testing.assert_allclose(least, D.min(1), atol=1e-12)
        assert (doubt > 0).all() and (doubt < 1e-12 * (1 + D[np.isfinite(D)].max())).all()
        alone = sums.judge_points(form, squares, lengths, None, 1e-14)
        assert (alone[0] == nearest).all() and (alone[1] == least).all() and not alone[4].any()


def test_of_centres_equally_near_up_to_rounding_the_first():
    inner, squares = np.array([[1.0], [1.0 + 1e-12], [1.0]]), np.ones(3)
    length, label = np.ones(1), np.array([2])

    def judged(rounding, sizes=None):
        answers = sums.judge_points(inner, squares, length, label, rounding, sizes)
        return int(answers[0][0]), bool(answers[4][0])

    assert judged(1e-14) == (1, True)
    assert judged(1e-12) == (0, False)
    assert judged(1e-14, np.array([1e3])) == (0, False)  # larger numbers cancelled before
