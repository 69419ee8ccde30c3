"""The arguments that users of other libraries know come first, in the order they know."""

import inspect

import pytest

import mercer


@pytest.mark.parametrize(
    ("name", "first"),
    [
        (
            "GaussianProcessRegressor",
            ["kernel", "noise", "optimizer", "n_restarts", "normalize_y", "mean", "random_state"],
        ),
        ("GaussianProcessClassifier", ["kernel", "method", "link", "optimizer"]),
        ("SparseGaussianProcessRegressor", ["kernel", "noise", "n_inducing", "method"]),
    ],
)
def test_arguments_by_position(name, first):
    parameters = inspect.signature(getattr(mercer, name)).parameters.values()
    by_position = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert by_position == first
