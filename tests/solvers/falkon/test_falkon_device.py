"""Falkon on tensors: the code of a GPU, run on the CPU."""

import numpy as np
import pytest

from mercer import RBF, Matern
from mercer.engines.passes.base import row_pass
from mercer.losses import Huber
from mercer.solvers import Centred, Falkon, FalkonNewton
from mercer.solvers.falkon import preconditioner

pytestmark = pytest.mark.usefixtures("iterations")


torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _own(monkeypatch):
    """Arrays take Falkon's own preconditioner, as tensors do; torch on one thread."""
    monkeypatch.setattr(preconditioner, "WORTH", 0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def data(n=600, m=40):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    y = np.column_stack([np.sin(X[:, 0]) + 2, X[:, 1] * X[:, 2]])
    return X, X[:m], y, rng.uniform(0, 2, n)


def problem(k, X, Z, y, w, alpha, offset, dtype=None):
    if dtype is not None:
        X, Z = (torch.tensor(A, dtype=dtype) for A in (X, Z))
        y, w = torch.tensor(y), torch.tensor(w)
    rows = row_pass(k, X, Z, y, w)
    gram = k(Z) if dtype is None else k(Z.double())
    return Centred(rows, gram, alpha, offset, 1 if y.ndim == 1 else y.shape[1])


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("alpha", [1.0, 1e-8])
def test_tensors_give_the_answers_of_arrays(alpha, offset):
    X, Z, y, w = data()
    k = Matern(1.5, nu=1.5)
    here = Falkon(tol=1e-9, max_iter=200).solve(problem(k, X, Z, y, w, alpha, offset))
    there = Falkon(tol=1e-9, max_iter=200).solve(
        problem(k, X, Z, y, w, alpha, offset, torch.float64)
    )
    for solution in (here, there):  # 1e-9 of the risk is less than rounding leaves of 1e-8
        assert solution.converged if alpha == 1.0 else "rounding" in solution.message
    if alpha == 1.0:  # of 1e-8 rounding, and so the machine, decides how far "falkon" gets
        assert here.extra["preconditioner"] == there.extra["preconditioner"]
    values = [k(X, Z) @ s.value[0] + s.value[1] for s in (here, there)]
    np.testing.assert_allclose(values[1], values[0], atol=1e-6)
    assert isinstance(there.value[0], np.ndarray)


def test_tensors_in_single_precision():
    X, Z, y, w = data(n=4000)
    X, Z = X.astype(np.float32).astype(float), Z.astype(np.float32).astype(float)
    k = Matern(1.5, nu=1.5)
    exact = Falkon(tol=1e-9, max_iter=200).solve(problem(k, X, Z, y, w, 1.0, True))
    single = Falkon(tol=1e-6).solve(problem(k, X, Z, y, w, 1.0, True, torch.float32))
    assert single.converged
    one, two = (k(X, Z) @ s.value[0] + s.value[1] for s in (exact, single))
    assert np.linalg.norm(one - two) < 1e-4 * np.linalg.norm(one)


@pytest.mark.parametrize("loss", ["logistic", Huber(0.5), "softmax"], ids=str)
def test_newton_on_tensors(loss):
    X, Z, y, w = data()
    y = y[:, 0] if isinstance(loss, Huber) else np.sign(y[:, 1])
    outputs = 1
    if loss == "softmax":
        y, outputs = (y > 0).astype(float), 2
    k = RBF(1.5)
    here, there = (
        FalkonNewton(loss, tol=1e-8).solve(Centred(p.rows, p.gram, p.alpha, p.offset, outputs))
        for p in (problem(k, X, Z, y, w, 0.3, True, dtype) for dtype in (None, torch.float64))
    )
    assert here.converged and there.converged
    assert there.primal == pytest.approx(here.primal, rel=1e-8)


def test_a_tensor_is_the_buffer_where_it_may_go():
    X, Z, y, w = data()
    p = problem(RBF(), X, Z, y, w, 1.0, False, torch.float64)
    kept = p.gram.clone()
    first = Falkon().solve(p)
    assert torch.equal(p.gram, kept)
    second = Falkon().solve(Centred(p.rows, p.gram, 1.0, False, 2, overwrite=True))
    assert not torch.equal(p.gram, kept)
    assert np.array_equal(first.value[0], second.value[0])
