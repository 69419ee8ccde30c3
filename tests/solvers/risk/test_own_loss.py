"""Losses of one's own whose parts do not belong together are told of, and right ones are fitted."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.special import xlog1py

from mercer import RBF, KernelERM
from mercer.errors import NotConverged
from mercer.losses import Huber, Logistic, Loss
from mercer.solvers.risk.smooth import fault_of

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 2))
y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(60)


class LogCosh(Loss):
    smooth = True

    def _value(self, y, f):
        return np.logaddexp(f - y, y - f) - np.log(2)

    def _gradient(self, y, f):
        return np.tanh(f - y)

    def _curvature(self, y, f):
        return 1 / np.cosh(f - y) ** 2

    def _conjugate(self, y, u):
        inside = np.abs(u) <= 1
        v = np.where(inside, u, 0.0)
        dual = 0.5 * (xlog1py(1 + v, v) + xlog1py(1 - v, -v))
        return np.where(inside, y * u + dual, np.inf)


class WrongSign(LogCosh):
    def _gradient(self, y, f):
        return -np.tanh(f - y)


class Half(LogCosh):
    def _gradient(self, y, f):
        return 0.5 * np.tanh(f - y)


class Nowhere(LogCosh):
    def _gradient(self, y, f):
        return np.nan * f


class NoDual(LogCosh):
    def _conjugate(self, y, u):
        return y * u


class Endless(LogCosh):
    def _value(self, y, f):
        return np.inf + 0 * f


@pytest.mark.parametrize("kernel", [RBF(1.0), "linear"])
@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize(
    ("loss", "says"),
    [
        (WrongSign(), r"does not decrease.*check the gradient of the loss"),
        (Half(), "gradient of Half"),
        (Nowhere(), "gradient of Nowhere"),
        (NoDual(), "conjugate of NoDual.*check the conjugate"),
        (Endless(), "the objective is not finite; check"),
    ],
)
def test_a_fit_with_a_wrong_loss_says_so(kernel, offset, loss, says):
    model = KernelERM(kernel, loss, fit_intercept=offset)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert not model.solution_.converged
    assert [w.category for w in told] == [NotConverged]
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(model.solution_.message)
    assert model.solution_.message.startswith("KernelERM: ")
    assert np.isfinite(model.dual_coef_).all()


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_a_right_loss_has_no_fault(scale):
    outlier = np.append(y, 1e6)
    for targets in (y * scale, outlier, np.zeros(5), np.full(4, 3.0)):
        assert fault_of(LogCosh(), targets) == ""
    assert fault_of(Huber(1e-3), y) == fault_of(Logistic(), np.sign(y)) == ""
    assert KernelERM(RBF(1.0), LogCosh()).fit(X, y).solution_.converged


def test_a_copy_of_a_loss_is_judged_like_any_other():
    class Steeper(Logistic):
        def _phi(self, margin):
            return 2 * super()._phi(margin)

    class Same(Logistic):
        pass

    assert "gradient" in fault_of(Steeper(), np.sign(y))
    assert fault_of(Same(), np.sign(y)) == ""
