"""Rows on a GPU: the same rows, products and answers as in main memory, inside what is free."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer.errors import MemoryBudgetExceeded
from mercer.kernels import RBF, Linear, White
from mercer.operators import Gram
from mercer.solvers import Rows
from mercer.solvers.box import rows, rows_for
from mercer.solvers.box.rows import ResidentRows

pytest.importorskip("torch", reason="torch is not installed")
from tests.pretend_cuda import pretend_cuda, to_cuda

N = 160
X = np.random.default_rng(0).standard_normal((N, 3))


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    """Let the device keep rows of some points already, in float32."""
    monkeypatch.setattr(rows, "RESIDENT_FROM", 20)
    monkeypatch.setattr(rows, "SINGLE_FROM", 20)


@pytest.fixture
def cuda():
    with pretend_cuda() as log:
        yield log


def there(kernel=None):
    """Return rows on the device, and the matrix."""
    kernel = RBF(2.0) if kernel is None else kernel
    return rows_for(Gram(kernel, to_cuda(X), keep=False)), kernel(X)


def of(found, at):
    """Return rows in main memory."""
    out = np.empty((len(at), found.n), found.dtype)
    found.gather(found.fetch(at), np.arange(found.n), out, np.arange(len(at)))
    return out


@pytest.mark.parametrize("kernel", [RBF(2.0), RBF(1.0) + White(0.5), Linear() + 1.0])
@pytest.mark.parametrize("filled", [False, True])
def test_rows_and_products_are_those_of_the_matrix(cuda, kernel, filled):
    found, K = there(kernel)
    assert isinstance(found, ResidentRows) and not found.exact and found.dtype == np.float32
    if filled:
        found.fill()
    at = np.array([7, 0, 31, 159])
    np.testing.assert_allclose(of(found, at), K[at], rtol=1e-5, atol=1e-5)
    assert found.computed == (N if filled else len(at)) and found.whole == filled
    np.testing.assert_allclose(found.diagonal, K.diagonal(), rtol=1e-12)
    f, coef = np.ones(N), np.array([1.0, -2.0, 0.5, 3.0])
    found.add(f, at, coef)
    np.testing.assert_allclose(f, 1 + K[at].T @ coef, rtol=1e-5, atol=1e-4)
    f = np.zeros(3)
    found.add(f, at, coef, np.array([5, 6, 0]))
    np.testing.assert_allclose(f, (K[at].T @ coef)[[5, 6, 0]], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(found.product(at, coef), K[at].T @ coef, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("filled", [False, True])
def test_parts_are_parts_of_the_matrix(cuda, filled):
    found, K = there()
    if filled:
        found.fill()
    some = np.array([3, 4, 50, 120])
    part = found.restricted(some)
    np.testing.assert_allclose(of(part, np.arange(4)), K[np.ix_(some, some)], atol=1e-6)
    again = part.restricted(np.array([1, 3]))
    expected = K[np.ix_(some[[1, 3]], some[[1, 3]])]
    np.testing.assert_allclose(of(again, np.arange(2)), expected, atol=1e-6)


def test_rows_make_room_for_others_where_little_is_free():
    with pretend_cuda(free=50 * N * 4):
        found, K = there()
        assert 8 <= found.capacity < N // 2
        for first in range(0, N, 10):
            at = np.arange(first, first + 10) % N
            np.testing.assert_allclose(of(found, at), K[at], atol=1e-6)
        f, coef = np.zeros(N), np.linspace(-1, 1, N)
        found.add(f, np.arange(N), coef)
        np.testing.assert_allclose(f, K @ coef, atol=1e-4)
        part = found.restricted(np.arange(0, N, 2))
        np.testing.assert_allclose(of(part, np.arange(9)), K[::2, ::2][:9], atol=1e-6)
    refused = pytest.raises(MemoryBudgetExceeded, match=r"8 rows needs 10\.2 kB, but cuda:0 has")
    with pretend_cuda(free=N), refused:
        there()


def test_rows_that_float32_cannot_hold_are_float64(cuda):
    far = Gram(RBF(1e-3), to_cuda(1e4 + 1e-3 * X), keep=False)
    found = rows_for(far)
    assert found.exact and found.dtype == np.float64
    at = np.array([2, 9])
    np.testing.assert_allclose(of(found, at), RBF(1e-3)(1e4 + 1e-3 * X)[at], atol=1e-8)
    assert rows_for(Gram(RBF(2.0), to_cuda(X), keep=False), single=False).exact


def test_few_rows_and_rows_in_main_memory_stay_there(cuda, monkeypatch):
    monkeypatch.setattr(rows, "RESIDENT_FROM", N)
    assert type(there()[0]) is Rows
    monkeypatch.setattr(rows, "RESIDENT_FROM", 20)
    assert type(rows_for(Gram(RBF(2.0), X, keep=False))) is Rows


PROBLEMS = {
    "two classes": mercer.SVC(RBF(1.0), C=3.0, tol=1e-8),
    "three classes": mercer.SVC(RBF(1.0), C=1.0, tol=1e-8),
    "nu": mercer.NuSVC(RBF(1.0), nu=0.3, tol=1e-8),
    "numbers": mercer.SVR(RBF(1.0), C=2.0, epsilon=0.05, tol=1e-8),
    "one class": mercer.OneClassSVM(RBF(1.0), nu=0.2, tol=1e-8),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_machines_on_the_device_are_those_of_main_memory(cuda, monkeypatch, name):
    """Of float32 rows too: what is below their rounding is done with rows in float64."""
    made, begin = [], ResidentRows.__init__
    monkeypatch.setattr(ResidentRows, "__init__", lambda *args: made.append(begin(*args)))
    model, y = PROBLEMS[name], np.sin(2 * X[:, 0]) + X[:, 1]
    answer = "predict" if name == "numbers" else "decision_function"
    if name != "numbers":
        y = np.digitize(y, [-0.5, 0.7] if name == "three classes" else [0.0])
    expected = getattr(model.fit(X, y), answer)(X)
    assert not made
    model.fit(to_cuda(X), y)
    assert made, "no rows were kept on the device"
    np.testing.assert_allclose(getattr(model, answer)(to_cuda(X)), expected, atol=1e-6)
    assert model.solution_.converged and model.solution_.residual <= 1e-8
