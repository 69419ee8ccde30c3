"""Newton steps on the free variables: descent, sums, bounds, singular blocks."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.solvers.box.newton import newton_steps


class Block:
    """Q, p, a box and a point strictly inside it, or with some variables at bounds."""

    def __init__(self, seed, n=30, width=1.0, rank=None, dtype=np.float64):
        rng = np.random.default_rng(seed)
        Z = rng.standard_normal((n, rank or n + 5))
        self.Q = np.ascontiguousarray(Z @ Z.T, dtype=dtype)
        self.p = rng.standard_normal(n)
        self.lower, self.upper = np.full(n, -width), np.full(n, width)
        self.a = rng.uniform(-0.5, 0.5, n) * width
        self.G = self.Q.astype(float) @ self.a + self.p

    def value(self):
        return 0.5 * self.a @ self.Q.astype(float) @ self.a + self.p @ self.a

    def run(self, split, **options):
        return newton_steps(self.Q, self.G, self.a, self.lower, self.upper, split, **options)


def test_one_step_is_the_minimum_where_the_box_is_far():
    block = Block(0, width=1e6)
    assert block.run(None) == 1
    np.testing.assert_allclose(block.a, -np.linalg.solve(block.Q, block.p), atol=1e-5)
    np.testing.assert_allclose(block.G, 0, atol=1e-4)


@pytest.mark.parametrize("split", [0, 1, 12, 29, 30])
def test_with_sums_one_step_is_the_constrained_minimum(split):
    block = Block(1, width=1e6)
    block.a = np.random.default_rng(0).uniform(-1, 1, 30)
    block.G = block.Q @ block.a + block.p
    sums = [block.a[:split].sum(), block.a[split:].sum()]
    assert block.run(split) >= 1
    E = np.stack([np.arange(30) < split, np.arange(30) >= split], 1).astype(float)
    E = E[:, E.any(0)]
    k = E.shape[1]
    system = np.block([[block.Q, E], [E.T, np.zeros((k, k))]])
    total = [s for s, e in zip(sums, (split > 0, split < 30), strict=True) if e]
    expected = np.linalg.solve(system, np.r_[-block.p, total])[:30]
    np.testing.assert_allclose(block.a, expected, atol=1e-6)
    np.testing.assert_allclose([block.a[:split].sum(), block.a[split:].sum()], sums, atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rank", [None, 3, 1])
@pytest.mark.parametrize("split", [None, 11, 30])
@pytest.mark.parametrize("seed", range(5))
def test_descends_inside_the_box_and_keeps_gradient_and_sums(seed, split, rank, dtype):
    block = Block(seed, width=0.3, rank=rank, dtype=dtype)
    rng = np.random.default_rng(seed)
    fixed = rng.random(30) < 0.3
    block.a[fixed] = np.where(rng.random(fixed.sum()) < 0.5, -0.3, 0.3)
    block.G = block.Q.astype(float) @ block.a + block.p
    before, start = block.value(), block.a.copy()
    k = 0 if split is None else split
    sums = [block.a[:k].sum(), block.a[k:].sum()]
    taken = block.run(split)
    assert 0 < taken <= 30
    assert block.value() <= before + 1e-12
    assert (block.a >= block.lower).all() and (block.a <= block.upper).all()
    np.testing.assert_array_equal(block.a[fixed], start[fixed])
    loose = 1e-4 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(block.G, block.Q.astype(float) @ block.a + block.p, atol=loose)
    if split is not None:
        np.testing.assert_allclose([block.a[:k].sum(), block.a[k:].sum()], sums, atol=1e-11)


def test_a_bound_that_is_met_is_met_exactly():
    block = Block(2, width=0.01)
    block.run(None)
    room = np.minimum(block.a - block.lower, block.upper - block.a)
    assert ((room == 0) | (room > 1e-12)).all() and (room == 0).any()


def test_stops_where_there_is_nothing_to_do():
    block = Block(3)
    block.a[:] = block.upper
    assert block.run(None) == 0 and block.run(30) == 0
    block.a[4] = 0.0
    assert block.run(30) == 0  # one free variable cannot move while its sum is held
    block = Block(3)
    block.G[:] = 0.0
    assert block.run(None) == 0


def test_a_zero_matrix_and_a_flat_direction_do_no_harm():
    for Q in (np.zeros((6, 6)), np.ones((6, 6)), 1e-300 * np.eye(6), 1e12 * np.ones((6, 6))):
        for split in (None, 3, 6):
            a, p = np.zeros(6), np.array([1.0, -1, 2, -2, 3, -3])
            G = Q @ a + p
            newton_steps(Q, G, a, -np.ones(6), np.ones(6), split)
            assert np.isfinite(a).all() and np.isfinite(G).all() and (abs(a) <= 1).all()
            assert 0.5 * a @ Q @ a + p @ a <= 1e-12
            if split is not None:
                np.testing.assert_allclose([a[:split].sum(), a[split:].sum()], 0, atol=1e-12)


def test_the_number_of_steps_is_limited():
    block = Block(4, n=60, width=1e-3)
    assert block.run(None, max_steps=2) <= 2
