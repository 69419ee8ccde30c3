"""Computing where the data are: options follow a tensor, and nothing else."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import mercer
from mercer.engines import computing_on, where_is
from mercer.estimator import follows_data
from mercer.settings import get_config

torch = pytest.importorskip("torch")


class Model:
    """Tells under which options it was called, and with what."""

    @follows_data
    def fit(self, X, y=None, *, noise=None):
        """Do it."""
        return get_config().engine, get_config().device, type(X), type(y), type(noise)


def test_a_tensor_is_followed_and_comes_as_an_array():
    X = torch.ones(3, 2, requires_grad=True)
    seen = Model().fit(X, torch.ones(3), noise=torch.ones(3))
    assert seen == ("torch", "cpu", np.ndarray, np.ndarray, np.ndarray)
    assert Model().fit(X=X)[:3] == ("torch", "cpu", np.ndarray)
    assert get_config().engine == "auto"


def test_other_data_and_a_wish_to_stay_change_nothing():
    assert Model().fit(np.ones((3, 2)), "a")[:2] == ("auto", "auto")
    with mercer.config(engine="numpy"):
        assert Model().fit(torch.ones(3, 2))[:3] == ("numpy", "auto", np.ndarray)
    with computing_on(None):
        assert get_config().engine == "auto"
    with computing_on(torch.device("meta")):
        assert get_config().engine == "auto"
    with where_is([torch.ones(2)]):
        assert get_config().engine == "auto"


def test_signature_words_and_missing_arguments_are_those_of_the_method():
    assert list(inspect.signature(Model.fit).parameters) == ["self", "X", "y", "noise"]
    assert Model.fit.__doc__ == "Do it."
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'X'"):
        Model().fit()
    with pytest.raises(ZeroDivisionError), where_is(torch.ones(2)):
        1 / 0  # noqa: B018
    assert get_config().engine == "auto"
