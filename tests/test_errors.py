"""Errors: what they are caught as, what they carry, and that they survive a process boundary."""

import pickle

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from mercer import errors


@pytest.mark.parametrize(
    ("name", "bases"),
    [
        ("InvalidInput", (ValueError,)),
        ("NotAKernel", (errors.InvalidInput, ValueError)),
        ("NotPositiveDefinite", (np.linalg.LinAlgError, ValueError)),
        ("NotSeparable", (ValueError,)),
        ("MemoryBudgetExceeded", (MemoryError,)),
        ("ModelFileError", (ValueError,)),
        ("ClusterError", (RuntimeError,)),
    ],
)
def test_family(name, bases):
    cls = getattr(errors, name)
    assert issubclass(cls, errors.MercerError)
    for base in bases:
        assert issubclass(cls, base)


def test_a_warning_scikit_learn_users_know():
    assert issubclass(errors.NotConverged, ConvergenceWarning)
    assert not issubclass(errors.NotConverged, errors.MercerError)


@pytest.mark.parametrize(
    ("error", "carried"),
    [
        (errors.NotAKernel("m", counterexample=[1, 2]), {"counterexample": [1, 2]}),
        (errors.NotPositiveDefinite("m", -0.5), {"smallest_eigenvalue": -0.5}),
        (errors.NotSeparable("m", certificate=(1,)), {"certificate": (1,)}),
        (errors.MemoryBudgetExceeded("m", 10.7, 5), {"needed": 10, "allowed": 5}),
        (errors.InvalidInput("m"), {}),
        (errors.ModelFileError("m"), {}),
        (errors.ClusterError("m"), {}),
    ],
    ids=lambda v: type(v).__name__,
)
def test_what_they_carry_survives_pickling(error, carried):
    for again in (error, pickle.loads(pickle.dumps(error))):
        assert type(again) is type(error) and str(again) == "m"
        for name, value in carried.items():
            assert getattr(again, name) == value


def test_every_error_is_listed_and_documented():
    public = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type)
        and issubclass(value, BaseException)
        and value.__module__ == errors.__name__
        and name[0] != "_"
    }
    assert public == set(errors.__all__)
    assert all(getattr(errors, n).__doc__ for n in public)


def test_defaults():
    assert errors.NotAKernel("m").counterexample is None
    assert errors.NotPositiveDefinite("m").smallest_eigenvalue is None
    assert errors.MemoryBudgetExceeded("m").needed == 0
