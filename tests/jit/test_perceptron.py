"""The compiled loops of the perceptrons against loops in plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.jit.steps import add_kernel_rows, visit

CLASSES, N = 3, 17


class Loop:
    """The arguments of `visit`, and the same visits written as the definition reads."""

    def __init__(self, seed, half=0.0, relative=False, power=0.0, offset=1.0, cap=10**9):
        rng = np.random.default_rng(seed)
        Z = rng.standard_normal((N, 5))
        self.K = Z @ Z.T
        self.signs = np.where(rng.random((CLASSES, N)) < 0.5, 1.0, -1.0)
        self.relative, self.power, self.offset = relative, power, offset
        self.F, self.A = np.zeros((CLASSES, N)), np.zeros((CLASSES, N))
        self.bias, self.square = np.zeros(CLASSES), np.zeros(CLASSES)
        self.updates, self.total, self.halvings = np.zeros((3, CLASSES), dtype=np.int64)
        self.caps = np.full(CLASSES, cap)
        self.half = np.full(CLASSES, half)
        self.order = rng.permutation(N)

    def compiled(self, start=0, work=1e9, loop=visit):
        return loop(
            self.K, self.order, start, self.signs, self.F, self.A, self.bias, self.square,
            self.updates, self.total, self.halvings, self.caps, self.half, self.relative,
            self.power, self.offset, work,
        )  # fmt: skip

    def plain(self):
        """One epoch from the coefficients alone: values and norms computed anew at each point."""
        for t in self.order:
            for c in range(CLASSES):
                y = self.signs[c, t]
                value = self.A[c] @ self.K[t] + self.bias[c]
                norm = np.sqrt(self.A[c] @ self.K @ self.A[c] + self.bias[c] ** 2)
                if y * value > self.half[c] * (norm if self.relative else 1.0):
                    continue
                if self.updates[c] >= self.caps[c]:
                    self.A[c] = self.bias[c] = self.updates[c] = 0
                    self.half[c] /= 2
                    self.caps[c] *= 4
                    self.halvings[c] += 1
                self.updates[c] += 1
                self.total[c] += 1
                step = y / self.updates[c] ** self.power
                self.A[c, t] += step
                self.bias[c] += step * self.offset
        self.F = self.A @ self.K + self.bias[:, None]
        self.square = np.einsum("ci,ij,cj->c", self.A, self.K, self.A)


RULES = {
    "standard": {},
    "no offset": {"offset": 0.0},
    "relative": {"half": 0.3, "relative": True},
    "absolute": {"half": 0.7, "power": 1.0},
    "slow": {"half": 0.01, "power": 0.5, "offset": 0.0},
    "halved": {"half": 2.0, "relative": True, "cap": 5},
}
NAMES = ("A", "F", "bias", "square", "updates", "total", "halvings", "caps", "half")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rule", RULES)
def test_visits_are_those_of_the_definition(rule, seed):
    fast, slow = Loop(seed, **RULES[rule]), Loop(seed, **RULES[rule])
    for _ in range(4):
        assert fast.compiled() == N
        slow.plain()
        for name in NAMES:
            np.testing.assert_allclose(
                getattr(fast, name), getattr(slow, name), atol=1e-10, err_msg=name
            )
    assert fast.total.sum() > 0 and (rule != "halved" or fast.halvings.all())


@pytest.mark.parametrize("rule", RULES)
def test_slices_are_the_whole(rule):
    whole, sliced, interpreted = (Loop(5, **RULES[rule]) for _ in range(3))
    whole.compiled()
    position, calls = 0, 0
    while position < N:
        after = sliced.compiled(position, work=1)
        assert after == position + 1
        position, calls = after, calls + 1
    assert calls == N
    interpreted.compiled(loop=visit.py_func)
    for name in NAMES:
        np.testing.assert_array_equal(getattr(whole, name), getattr(sliced, name))
        np.testing.assert_allclose(getattr(whole, name), getattr(interpreted, name), atol=1e-12)


def test_nothing_is_visited_behind_the_end():
    loop = Loop(0)
    assert loop.compiled(start=N) == N and not loop.total.any()


def test_rows_are_added():
    rng = np.random.default_rng(0)
    K, rows, steps = rng.standard_normal((6, 6)), np.array([4, 0, 4]), rng.standard_normal(3)
    out = np.ones(6)
    add_kernel_rows(K, rows, steps, out)
    np.testing.assert_allclose(out, 1 + steps @ K[rows], atol=1e-14)
    add_kernel_rows(K, rows[:0], steps[:0], out)
    np.testing.assert_allclose(out, 1 + steps @ K[rows], atol=1e-14)


def test_a_read_only_matrix_is_read():
    loop = Loop(1)
    loop.K.setflags(write=False)
    assert loop.compiled() == N
