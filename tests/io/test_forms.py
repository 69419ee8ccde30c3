"""Agreement inside a file: digests are right, names are legal, and yet the model makes no sense."""

import numpy as np
import pytest
from sklearn.preprocessing import Normalizer, StandardScaler

from mercer.errors import ModelFileError
from mercer.io import load
from mercer.io.registry import is_fitted
from mercer.models import KernelRidge

RBF = {"class": "kernel:RBF", "params": {}}
PRECOMPUTED = {"class": "kernel:Precomputed", "params": {}}


def ridge(forge, kernel=RBF, arrays=(), params=None, **state):
    state = {"kernel_": {"object": 0}, **state}
    record = {"class": "estimator:KernelRidge", "params": params or {}, "state": state}
    return forge.model([kernel, record], [np.asarray(a) for a in arrays])


GOOD = {
    "X_fit_": {"array": 0},
    "dual_coef_": {"array": 1},
    "intercept_": 0.0,
    "coef_": None,
    "n_features_in_": 2,
    "alpha_": 1.0,
}
POINTS, COEFFICIENTS = np.eye(2), np.ones(2)


def test_the_forged_model_is_honest_but_for_one_thing(forge):
    model = load(ridge(forge, arrays=[POINTS, COEFFICIENTS], **GOOD))
    assert isinstance(model, KernelRidge)
    assert np.allclose(model.predict([[0.0, 0.0]]), 2 * np.exp(-0.5))


@pytest.mark.parametrize(
    ("arrays", "changes", "words"),
    [
        ([np.eye(3), COEFFICIENTS], {}, "2 columns, but keeps points of 3"),
        ([np.ones((3, 2)), COEFFICIENTS], {}, "3 points, but coefficients"),
        ([POINTS, np.ones(3)], {}, "2 points, but coefficients"),
        ([POINTS, np.ones(())], {}, "2 points, but coefficients"),
        ([POINTS, np.ones((1, 2))], {}, "2 points, but coefficients"),
        ([POINTS, COEFFICIENTS], {"n_features_in_": 2**62}, "fitted to"),
        ([POINTS, COEFFICIENTS], {"n_features_in_": -1}, "fitted to"),
        ([POINTS, COEFFICIENTS], {"n_features_in_": 2.0}, "fitted to"),
        ([POINTS, COEFFICIENTS], {"feature_names_in_": ["a"]}, "names of columns"),
        ([POINTS, COEFFICIENTS], {"fit": 1}, "does not learn"),
        ([POINTS, COEFFICIENTS], {"function_": 1}, "does not learn"),
        ([POINTS, COEFFICIENTS], {"__class__": 1}, "does not learn"),
        ([POINTS, COEFFICIENTS], {"_loo_cache": 1}, "does not learn"),
        ([POINTS, COEFFICIENTS], {"X_fit_": 5, "y_fit_": {"array": 0}}, "refused"),
    ],
)
def test_disagreement(forge, arrays, changes, words):
    with pytest.raises(ModelFileError, match=words):
        load(ridge(forge, arrays=arrays, **{**GOOD, **changes}))


@pytest.mark.parametrize("kernel", [None, "rbf", 1.5])
def test_no_kernel_in_the_place_of_the_kernel(forge, kernel):
    record = {"class": "estimator:KernelRidge", "params": {}, "state": {"kernel_": kernel}}
    with pytest.raises(ModelFileError, match="in the place of its kernel"):
        load(forge.model([record]))


@pytest.mark.parametrize(
    "positions", [[0, 2], [-1, 0], [0, 2**40], [0.0, 1.0], [[0, 1], [1, 0]], ["a", "b"]]
)
def test_positions_of_training_points_out_of_range(forge, positions):
    with pytest.raises(ModelFileError, match="KernelRidge"):
        load(ridge(forge, PRECOMPUTED, [np.array(positions), COEFFICIENTS], **GOOD))


def test_positions_in_range(forge):
    model = load(ridge(forge, PRECOMPUTED, [np.array([1, 0]), np.array([1.0, 10.0])], **GOOD))
    assert model.predict([[2.0, 3.0]]).tolist() == [23.0]


def test_nothing_learned(forge):
    record = {"class": "estimator:KernelRidge", "params": {}, "state": {}}
    with pytest.raises(ModelFileError, match="learned nothing"):
        load(forge.model([record]))


def test_parameters_that_a_later_release_adds_take_their_defaults(forge):
    model = load(ridge(forge, arrays=[POINTS, COEFFICIENTS], params={"alpha": 3.0}, **GOOD))
    assert model.get_params() == KernelRidge(alpha=3.0).get_params()
    with pytest.raises(ModelFileError, match=r"refused what the file says.*gamma.*[^.]\.$"):
        load(ridge(forge, arrays=[POINTS, COEFFICIENTS], params={"gamma": 3.0}, **GOOD))


def test_is_fitted():
    X = np.eye(2)
    assert not is_fitted(KernelRidge()) and is_fitted(KernelRidge().fit(X, [1.0, 2.0]))
    assert not is_fitted(StandardScaler()) and is_fitted(StandardScaler().fit(X))
    assert is_fitted(Normalizer())  # it has nothing to learn
