"""A search of the user's own, called as scikit-learn calls one."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.gaussian_process import GaussianProcessRegressor as Theirs
from sklearn.gaussian_process.kernels import RBF as TheirRBF

from mercer import (
    RBF,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    SparseGaussianProcessRegressor,
    tune,
)
from mercer.errors import InvalidInput

rng = np.random.default_rng(2)
X = rng.uniform(-2, 2, (40, 1))
Y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(40)
LABELS = Y + 0.3 * rng.standard_normal(40) > 0


class Own:
    """An optimizer that remembers what it was given."""

    def __init__(self):
        self.calls = []

    def __call__(self, obj_func, initial_theta, bounds):
        self.calls.append((initial_theta, bounds))
        end = minimize(obj_func, initial_theta, jac=True, bounds=bounds, method="L-BFGS-B")
        return end.x, end.fun


@pytest.mark.parametrize(
    ("make", "y"),
    [
        (GaussianProcessRegressor, Y),
        (SparseGaussianProcessRegressor, Y),
        (GaussianProcessClassifier, LABELS),
    ],
)
def test_it_finds_what_ours_finds_and_is_called_from_every_start(make, y):
    own = Own()
    ours = make(1.0 * RBF(1.0)).fit(X, y)
    model = make(1.0 * RBF(1.0), optimizer=own, n_restarts=2).fit(X, y)
    value = ours.log_marginal_likelihood_value_
    assert model.log_marginal_likelihood_value_ == pytest.approx(value, abs=1e-2)
    assert len(own.calls) >= 3 and model.search_.converged
    theta, bounds = own.calls[0]
    assert bounds.shape == (len(theta), 2) and (bounds[:, 0] < theta).all()
    assert "the optimizer that was given has ended" in model.search_.message


def test_a_function_for_scikit_learn_is_one_for_us():
    own = Own()
    Theirs(TheirRBF(1.0), alpha=0.04, optimizer=own).fit(X, Y)
    model = GaussianProcessRegressor(RBF(1.0), 0.04, own, normalize_y=False).fit(X, Y)
    theirs = Theirs(TheirRBF(1.0), alpha=0.04, optimizer=own).fit(X, Y)
    np.testing.assert_allclose(model.theta_, theirs.kernel_.theta, rtol=1e-4)


def test_values_alone_and_steps_too_far():
    def coarse(objective, theta, bounds):
        steps = [theta + s for s in (0.0, 0.5, -0.5, 700.0)]
        values = [objective(t, eval_gradient=False) for t in steps]
        assert values[-1] == np.inf
        return steps[int(np.argmin(values))], min(values)

    model = GaussianProcessRegressor(1.0 * RBF(3.0), optimizer=coarse).fit(X, Y)
    assert model.search_.n_evaluations >= 4


def test_it_is_never_worse_than_the_start():
    away = GaussianProcessRegressor(RBF(0.8), 0.04, lambda f, t, bounds: (t + 5.0, 0.0)).fit(X, Y)
    assert away.kernel_.length_scale == pytest.approx(0.8)


@pytest.mark.parametrize(
    "answer", [None, 3.0, ([0.0], 1.0), (["a", "b"], 1.0), ([np.nan, 0.0], 1.0), {"x": 1}]
)
def test_answers_that_are_none(answer):
    with pytest.raises(InvalidInput, match="optimizer returned"):
        GaussianProcessRegressor(RBF(), optimizer=lambda f, t, bounds: answer).fit(X, Y)


def test_points_are_not_moved_by_it():
    with pytest.raises(InvalidInput, match="inducing='optimize' moves points by L-BFGS-B"):
        SparseGaussianProcessRegressor(RBF(), inducing="optimize", optimizer=Own()).fit(X, Y)


def test_the_word_of_scikit_learn_and_tune():
    one = GaussianProcessRegressor(RBF(), optimizer="fmin_l_bfgs_b").fit(X, Y)
    np.testing.assert_array_equal(one.theta_, GaussianProcessRegressor(RBF()).fit(X, Y).theta_)
    own = Own()
    tune(GaussianProcessRegressor(RBF(), optimizer=own), X, Y)
    assert own.calls


def test_a_kernel_is_no_optimizer():
    X = np.arange(6.0)[:, None]
    with pytest.raises(InvalidInput, match=r"optimizer=RBF.*give 'lbfgs', None, or a function"):
        GaussianProcessRegressor(RBF(), optimizer=RBF()).fit(X, X[:, 0])
