"""Options of solvers are refused in words that name what is legal."""

import numpy as np
import pytest

from mercer import RBF, KernelRidge, KernelRidgeClassifier
from mercer.errors import InvalidInput
from mercer.estimator.options import SolverOptions

X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1])


@pytest.mark.parametrize("make", [KernelRidge, KernelRidgeClassifier])
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"solver": "lu"}, "'auto', 'cholesky', 'cg', 'falkon'"),
        ({"solver": None}, "legal"),
        ({"solver": ["cg"]}, "legal"),
        ({"n_centers": 0}, "whole number of 1 or more"),
        ({"n_centers": 2.5}, "whole number"),
        ({"n_centers": True}, "whole number"),
        ({"n_centers": 2, "centers": "best"}, "'uniform'"),
        ({"centers": []}, "empty"),
        ({"centers": np.zeros((2, 5))}, "columns"),
        ({"tol": 0.0}, "> 0"),
        ({"tol": 1.5}, "< 1"),
        ({"tol": "small"}, "number"),
        ({"max_iter": 0}, "1 or more"),
        ({"max_time": 0}, "> 0"),
        ({"max_time": float("nan")}, "> 0"),
        ({"checkpoint": 3}, "path"),
        ({"random_state": "seven"}, "random_state"),
        ({"random_state": np.random.default_rng(0)}, "random_state=Generator"),
        ({"alpha": "loo", "n_centers": 2}, "alpha='loo' with centres; give one number"),
        ({"alpha": "loo", "solver": "cg"}, "alpha='loo' with solver='cg'; give one number"),
        ({"centers": X[:2], "n_centers": 2}, "leave one of them out"),
        ({"solver": "cholesky", "n_centers": 2}, "n_centers is for fits with centres"),
        ({"solver": "cg", "centers": "kmeans"}, "centers is for fits with centres"),
        ({"solver": "cg", "centers": X[:2]}, "centers is for fits with centres"),
        ({"solver": "cholesky", "checkpoint": "file"}, "checkpoint is for fits with centres"),
    ],
)
def test_refusals_name_the_estimator(make, options, match):
    with pytest.raises(InvalidInput, match=match) as error:
        make(RBF(), **options).fit(X, y)
    assert str(error.value).startswith(make.__name__)


def test_centres_asked_for_mean_falkon():
    assert SolverOptions().wanted == "auto"
    assert SolverOptions(n_centers=3).wanted == "falkon"
    assert SolverOptions(centers=X).wanted == "falkon"
    assert SolverOptions(centers="kmeans").wanted == "falkon"
    assert KernelRidge(RBF(), centers="kmeans").fit(X, y).plan_.method == "falkon"
    assert SolverOptions("cg", n_centers=3).wanted == "cg"
    assert SolverOptions(checkpoint="x").seed == 0
    assert SolverOptions(checkpoint="x", random_state=4).seed == 4
