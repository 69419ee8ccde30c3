"""The compiled loops of the box QP solver against the same steps in plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.jit.smo import (
    add_rows,
    coordinate_steps,
    gathered_pair_steps,
    pair_steps,
    reuse_block,
    take_block,
)

TAU = 1e-12
TOLERANCE = {np.float64: 1e-11, np.float32: 1e-6}  # of float32 rows the differences are float32
SIZES = (1, 2, 3, 17, 63, 64, 65, 130, 200)  # around the width of a chunk


class Block:
    """A random block problem: Q, gradient, a point inside the box with some entries at bounds."""

    def __init__(self, seed, n, dtype=np.float64, rank=None):
        rng = np.random.default_rng(seed)
        Z = rng.standard_normal((n, n + 2 if rank is None else rank))
        self.Q = np.ascontiguousarray(Z @ Z.T / max(Z.shape), dtype=dtype)
        self.p = rng.standard_normal(n)
        self.lower, self.upper = -rng.random(n), rng.random(n)
        self.a = rng.uniform(self.lower, self.upper)
        where = rng.random(n)
        self.a[where < 0.3] = self.lower[where < 0.3]
        self.a[where > 0.7] = self.upper[where > 0.7]
        self.G = self.Q.astype(float) @ self.a + self.p
        self.n = n

    def pairs(self, split, tol, steps, loop=pair_steps):
        none = np.zeros(self.n)
        return loop(self.Q, self.G, self.a, self.lower, self.upper, split, none, tol, steps)

    def coordinates(self, tol, steps, loop=coordinate_steps):
        return loop(self.Q, self.G, self.a, self.lower, self.upper, tol, steps)

    # -- the same, as the definition reads -----------------------------------------------------
    def violation(self, split=None):
        up, down = self.a < self.upper, self.a > self.lower
        if split is None:
            return max(self.G[down].max(initial=0.0), -self.G[up].min(initial=0.0))
        worst = -np.inf
        for part in (slice(0, split), slice(split, self.n)):
            G, u, d = self.G[part], up[part], down[part]
            worst = max(worst, G[d].max(initial=-np.inf) - G[u].min(initial=np.inf))
        return worst

    def plain_pair(self, split):
        """Working set selection 2 of Fan, Chen and Lin, then the exact step, cut to the box."""
        up, down = self.a < self.upper, self.a > self.lower
        Q, best = self.Q.astype(float), (0.0, -1, -1)
        for part in (range(split), range(split, self.n)):
            rising = [i for i in part if up[i]]
            if not rising:
                continue
            i = min(rising, key=lambda i: self.G[i])
            for j in part:
                t = self.G[j] - self.G[i]
                if down[j] and t > 0:
                    gain = t * t / max(Q[i, i] + Q[j, j] - 2 * Q[i, j], TAU)
                    if gain > best[0]:
                        best = gain, i, j
        gain, i, j = best
        if i < 0:
            return False
        step = (self.G[j] - self.G[i]) / max(Q[i, i] + Q[j, j] - 2 * Q[i, j], TAU)
        step = min(step, self.upper[i] - self.a[i], self.a[j] - self.lower[j])
        self.a[i] += step
        self.a[j] -= step
        self.G += step * (Q[i] - Q[j])
        return True

    def plain_coordinate(self):
        t = np.maximum(
            np.where(self.a > self.lower, self.G, 0), np.where(self.a < self.upper, -self.G, 0)
        )
        diagonal = np.maximum(self.Q.diagonal().astype(float), TAU)
        i = int(np.argmax(t**2 / diagonal))
        new = np.clip(self.a[i] - self.G[i] / diagonal[i], self.lower[i], self.upper[i])
        self.G += (new - self.a[i]) * self.Q[i].astype(float)
        self.a[i] = new


def same(one, other, tol=1e-11):
    np.testing.assert_allclose(one.a, other.a, atol=tol)
    np.testing.assert_allclose(one.G, other.G, atol=tol)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", SIZES)
def test_pairs_move_as_the_definition_says(n, dtype):
    for split in sorted({n, n // 2, 1, 0}):
        fast, slow = Block(n, n, dtype), Block(n, n, dtype)
        for _ in range(12):
            wrong = slow.violation(split)
            if wrong <= 1e-6:
                break
            steps, violation, _ = fast.pairs(split, 1e-7, 1)
            assert steps == slow.plain_pair(split) == 1
            np.testing.assert_allclose(violation, fast.violation(split), atol=1e-11)
            same(fast, slow, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", SIZES)
def test_coordinates_move_as_the_definition_says(n, dtype):
    fast, slow = Block(n, n, dtype), Block(n, n, dtype)
    for _ in range(12):
        if slow.violation() <= 1e-6:
            break
        steps, violation, curvature = fast.coordinates(1e-7, 1)
        slow.plain_coordinate()
        assert steps == 1
        np.testing.assert_allclose(violation, fast.violation(), atol=1e-11)
        np.testing.assert_allclose(curvature, fast.Q.diagonal().min())
        same(fast, slow, TOLERANCE[dtype])


@pytest.mark.parametrize("n", SIZES)
def test_many_steps_reach_the_tolerance_and_keep_what_must_be_kept(n):
    for split in sorted({n, n // 3}):
        block = Block(n + 1, n)
        sums = block.a[:split].sum(), block.a[split:].sum()
        steps, violation, curvature = block.pairs(split, 1e-8, 10**6)
        assert violation <= 1e-8 and steps < 10**6
        assert steps == 0 or curvature > 0
        np.testing.assert_allclose([block.a[:split].sum(), block.a[split:].sum()], sums, atol=1e-12)
        assert (block.a >= block.lower).all() and (block.a <= block.upper).all()
        np.testing.assert_allclose(block.G, block.Q @ block.a + block.p, atol=1e-10)
    block = Block(n + 1, n)
    steps, violation, _ = block.coordinates(1e-8, 10**6)
    assert violation <= 1e-8 and steps < 10**6
    assert (block.a >= block.lower).all() and (block.a <= block.upper).all()
    np.testing.assert_allclose(block.G, block.Q @ block.a + block.p, atol=1e-10)


def test_slices_are_the_whole():
    whole, sliced = Block(0, 90), Block(0, 90)
    steps, _, least = whole.pairs(40, 1e-9, 10**6)
    done, lowest = 0, np.inf
    while True:
        some, violation, curvature = sliced.pairs(40, 1e-9, 7)
        done, lowest = done + some, min(lowest, curvature)
        if violation <= 1e-9:
            break
    assert done == steps and lowest == least
    np.testing.assert_array_equal(whole.a, sliced.a)


@pytest.mark.parametrize("n", [3, 70])
def test_compiled_and_interpreted_are_the_same(n):
    one, other = Block(1, n), Block(1, n)
    assert one.pairs(n, 1e-3, 20)[0] == other.pairs(n, 1e-3, 20, pair_steps.py_func)[0]
    same(one, other)
    one, other = Block(1, n), Block(1, n)
    assert one.coordinates(1e-3, 20)[0] == other.coordinates(1e-3, 20, coordinate_steps.py_func)[0]
    same(one, other)


def test_bounds_are_hit_exactly():
    """A step that ends at a bound writes the bound, not a sum that rounds near it."""
    block = Block(3, 120)
    block.upper[:], block.lower[:] = 1 / 3, -0.1
    block.a[:] = 0.0
    block.G = 100 * block.p
    block.p = block.G.copy()
    block.pairs(120, 1e-6, 10**6)
    inside = (block.a > block.lower) & (block.a < block.upper)
    room = np.minimum(block.a - block.lower, block.upper - block.a)[inside]
    assert (room > 1e-12).all() and inside.sum() < 120


def test_nothing_moves_where_nothing_can():
    block = Block(0, 70)
    block.lower[:] = block.upper[:] = block.a
    before = block.a.copy()
    assert block.pairs(70, 0.0, 10)[0] == 0 and block.coordinates(0.0, 10)[0] == 0
    np.testing.assert_array_equal(block.a, before)


def test_a_flat_direction_goes_to_the_bound():
    """Two points that coincide: the curvature of the pair is 0."""
    Q = np.ones((2, 2))
    a, lower, upper = np.zeros(2), np.full(2, -1.0), np.full(2, 2.0)
    G = np.array([-1.0, 1.0])
    steps, _, curvature = pair_steps(Q, G, a, lower, upper, 2, np.zeros(2), 1e-9, 10)
    assert steps == 1 and curvature == 0
    np.testing.assert_array_equal(a, [1.0, -1.0])


def test_negative_curvature_is_reported():
    Q = -np.eye(3)
    a, lower, upper = np.zeros(3), np.full(3, -1.0), np.ones(3)
    G = np.array([-1.0, 0.5, 2.0])
    assert pair_steps(Q, G.copy(), a.copy(), lower, upper, 3, np.zeros(3), 1e-9, 10)[2] == -2
    assert coordinate_steps(Q, G.copy(), a.copy(), lower, upper, 1e-9, 10)[2] == -1


def test_no_variables():
    none = np.zeros(0)
    assert pair_steps(np.zeros((0, 0)), none, none, none, none, 0, none, 1e-3, 10)[0] == 0
    assert coordinate_steps(np.zeros((0, 0)), none, none, none, none, 1e-3, 10)[0] == 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_block_is_taken(dtype):
    rng = np.random.default_rng(0)
    store = rng.standard_normal((9, 31)).astype(dtype)
    slots, columns = rng.integers(0, 9, 12), rng.integers(0, 31, 20)
    out = np.empty((12, 20), dtype)
    take_block(store, slots, columns, out)
    np.testing.assert_array_equal(out, store[np.ix_(slots, columns)])
    out = np.empty((0, 20), dtype)
    take_block(store, slots[:0], columns, out)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rows", [0, 1, 3, 4, 7])
@pytest.mark.parametrize("some", [False, True])
def test_rows_are_added_in_double_precision(rows, some, dtype):
    rng = np.random.default_rng(rows)
    store = rng.standard_normal((9, 2500)).astype(dtype)
    slots, delta = rng.integers(0, 9, rows), rng.standard_normal(rows)
    columns = rng.permutation(2500)[:2100] if some else np.zeros(0, dtype=np.int64)
    f = rng.standard_normal(2100 if some else 2500)
    picked = store.astype(float)[slots][:, columns if some else slice(None)]
    expected = f + delta @ picked
    got = f.copy()
    for start, stop in ((0, 1), (1, 1030), (1030, len(f))):  # parts, as threads do them
        add_rows(got, store, slots, delta, columns, start, stop)
    np.testing.assert_allclose(got, expected, atol=1e-13)


class Gathered:
    """The arguments of `gathered_pair_steps`: rows of a larger matrix, in another order."""

    def __init__(self, block, room, seed=0):
        rng = np.random.default_rng(seed)
        n = block.n
        self.slots, self.columns = rng.permutation(n + 4)[:n], rng.permutation(n + 9)[:n]
        self.store = rng.standard_normal((n + 4, n + 9)).astype(block.Q.dtype)
        self.store[np.ix_(self.slots, self.columns)] = block.Q
        self.rows = np.full((room, n), np.nan, block.Q.dtype)
        self.at, self.used, self.block = np.full(n, -1), 0, block
        self.diagonal = block.Q.diagonal().astype(float)

    def run(self, split, tol, steps):
        b = self.block
        *out, self.used = gathered_pair_steps(
            self.rows, self.at, self.used, self.store, self.slots, self.columns, self.diagonal,
            b.G, b.a, b.lower, b.upper, split, tol, steps,
        )  # fmt: skip
        return out


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", SIZES)
def test_gathered_rows_move_as_the_block_does(n, dtype):
    for split in sorted({n, n // 2, 0}):
        one, other = Block(n, n, dtype), Block(n, n, dtype)
        gathered = Gathered(other, n + 3)
        for steps in (1, 3, 10**5):
            assert one.pairs(split, 1e-4, steps) == pytest.approx(gathered.run(split, 1e-4, steps))
            same(one, other, 0)
        there = gathered.at >= 0
        assert gathered.used == there.sum() == len(np.unique(gathered.at[there]))
        np.testing.assert_array_equal(gathered.rows[gathered.at[there]], other.Q[there])


def test_gathered_steps_stop_when_the_rows_are_full():
    block = Block(7, 120)
    gathered = Gathered(block, 20)
    steps, violation, _ = gathered.run(120, 1e-9, 10**6)
    assert 0 < steps < 10**6 and violation > 1e-9 and 17 < gathered.used <= 20
    np.testing.assert_allclose(block.G, block.Q @ block.a + block.p, atol=1e-10)
    assert gathered.run(120, 1e-9, 10**6)[0] == 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_block_is_completed_from_the_one_before(dtype):
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((40, 40))
    K = (Z @ Z.T).astype(dtype)
    before, now = np.sort(rng.permutation(40)[:25]), np.sort(rng.permutation(40)[:22])
    kept, new = (np.flatnonzero(np.isin(now, before) == known) for known in (True, False))
    assert len(kept) > 4 and len(new) > 4
    out = np.full((22, 22), np.nan, dtype)
    out[new] = K[np.ix_(now[new], now)]
    old = np.ascontiguousarray(K[np.ix_(before, before)])
    at = np.searchsorted(before, now[kept])
    reuse_block(old, at, kept, new, out, 0, 4)  # parts, as threads do them
    reuse_block(old, at, kept, new, out, 4, len(kept))
    np.testing.assert_array_equal(out, K[np.ix_(now, now)])


def test_inputs_may_be_read_only():
    block = Block(5, 80)
    for v in (block.Q, block.lower, block.upper):
        v.setflags(write=False)
    block.pairs(80, 1e-3, 10)
    block.coordinates(1e-3, 10)
