"""The problem classes: frozen, and strict about what they hold."""

import dataclasses

import numpy as np
import pytest

from mercer.errors import InvalidInput
from mercer.solvers import (
    Cholesky,
    ConjugateGradients,
    DenseEigen,
    Eigen,
    Linear,
    SubspaceIteration,
)

LINEAR = [Cholesky(), ConjugateGradients(), ConjugateGradients(preconditioner="rpcholesky")]
EIGEN = [DenseEigen(), SubspaceIteration(random_state=0)]


def test_problems_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Linear(np.eye(2), np.ones(2)).ridge = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        Eigen(np.eye(2)).k = 1


@pytest.mark.parametrize("solver", LINEAR, ids=repr)
@pytest.mark.parametrize(
    ("A", "b", "ridge", "text"),
    [
        (np.ones((2, 3)), np.ones(2), 0.0, "square"),
        (np.ones(3), np.ones(3), 0.0, "square"),
        (np.eye(2), np.ones(3), 0.0, r"\(2,\)"),
        (np.eye(2), [1.0, np.nan], 0.0, "row 1"),
        (np.eye(2), [1.0, np.inf], 0.0, "NaN or infinity"),
        (np.eye(2), np.ones(2), -1.0, "ridge"),
        (np.eye(2), np.ones(2), np.ones(3), "ridge"),
        (np.eye(2) * 1j, np.ones(2), 0.0, "real"),
        (np.array([[np.nan, 0], [0, 1]]), np.ones(2), 0.0, "NaN"),
        (np.array([[1.0, np.inf], [np.inf, 1]]), np.ones(2), 0.0, "(?i)nan or inf|inf at"),
    ],
)
def test_linear_solvers_refuse_bad_problems(solver, A, b, ridge, text):
    with pytest.raises(InvalidInput, match=text):
        solver.solve(Linear(A, b, ridge))


@pytest.mark.parametrize("solver", EIGEN, ids=repr)
@pytest.mark.parametrize("k", [0, 4, -1, 1.5, "2", True])
def test_eigen_solvers_refuse_bad_k(solver, k):
    with pytest.raises(InvalidInput, match="k="):
        solver.solve(Eigen(np.eye(3), k))


@pytest.mark.parametrize("solver", EIGEN, ids=repr)
def test_eigen_solvers_refuse_bad_matrices(solver):
    with pytest.raises(InvalidInput, match="square"):
        solver.solve(Eigen(np.ones((2, 3)), 1))
    with pytest.raises(InvalidInput, match=r"(?i)nan"):
        solver.solve(Eigen(np.array([[1.0, np.nan], [np.nan, 1.0]]), 1))


@pytest.mark.parametrize("solver", LINEAR, ids=repr)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (4, 0)])
def test_empty_problems_have_empty_answers(solver, shape):
    solution = solver.solve(Linear(np.eye(shape[0]), np.zeros(shape), 1.0))
    assert solution.converged and solution.value.shape == shape and solution.residual == 0.0


@pytest.mark.parametrize("solver", LINEAR, ids=repr)
def test_lists_are_accepted(solver):
    solution = solver.solve(Linear([[2, 0], [0, 4]], [2, 4]))
    np.testing.assert_allclose(solution.value, [1.0, 1.0], rtol=1e-7)
    assert solution.value.dtype == np.float64
