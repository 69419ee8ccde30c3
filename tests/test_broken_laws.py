"""Laws that cannot fail prove nothing: broken kernels, operators, solvers and models are caught."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import mercer
from mercer import kernels, solvers
from mercer.kernels import RBF, Linear
from mercer.operators import Dense
from mercer.testing import (
    ORACLES,
    check_estimator_laws,
    check_kernel_laws,
    check_operator_laws,
    check_solver_laws,
    estimator_laws,
    kernel_laws,
)


class Lopsided(kernels.Pairwise):
    """Symmetric only by half: a broken `_pair` shows in k(A, B)."""

    def _pair(self, x, y):
        return float(x[0] * y[0] + x[0])


class Indefinite(kernels.Radial):
    """κ grows with the distance."""

    def __init__(self, length_scale=1.0):
        super().__init__(length_scale=length_scale)

    def _profile(self, s, xp):
        return 1 + s


class RootAtZero(kernels.Radial):
    """Smooth, (1 + r)e⁻ʳ, but √s has no slope at 0 for autograd."""

    def __init__(self, length_scale=1.0):
        super().__init__(length_scale=length_scale)

    def _profile(self, s, xp):
        r = xp.sqrt(s)
        return (1 + r) * xp.exp(-r)


class MendedRoot(RootAtZero):
    """The same, as the guide writes it."""

    def _profile(self, s, xp):
        return super()._profile(s + 1e-30, xp)


class WrongSlope(RBF):
    """The derivative is written, and wrong."""

    def _slope(self, s, xp):
        return -0.4 * xp.exp(-0.5 * s)


class WrongDiagonal(RBF):
    """diag says one thing and the matrix another."""

    def _diag(self, X):
        return 2 * super()._diag(X)


class Meddling(Linear):
    """Writes to its input."""

    def _map(self, X):
        X *= 2
        return X


class TakesFunction(kernels.FromFeatures):
    """n_features lies."""

    def _n_features(self, X):
        return 1


@pytest.mark.parametrize(
    ("kernel", "law"),
    [
        (Lopsided(), "transpose"),
        (Indefinite(), "psd"),
        (WrongSlope(), "theta_vjp"),
        (WrongSlope(), "gradient"),
        (WrongDiagonal(), "diag"),
        (TakesFunction(lambda X: np.hstack([X, X])), "features"),
    ],
    ids=lambda v: v if isinstance(v, str) else type(v).__name__,
)
def test_a_broken_kernel_is_caught(kernel, law):
    ORACLES[WrongSlope] = ORACLES[WrongDiagonal] = ORACLES[RBF]
    try:
        with pytest.raises(AssertionError):
            dict(kernel_laws())[law](kernel)
        with pytest.raises(AssertionError, match="law '"):
            check_kernel_laws(kernel)
    finally:
        del ORACLES[WrongSlope], ORACLES[WrongDiagonal]


def test_a_root_without_a_gradient_is_caught(torch):
    with pytest.raises(AssertionError, match="autograd"):
        check_kernel_laws(RootAtZero())
    dict(kernel_laws())["autograd"](MendedRoot())


def test_a_kernel_that_writes_to_its_input_is_caught():
    with pytest.raises((AssertionError, ValueError)):
        dict(kernel_laws())["read_only"](Meddling())


def test_the_double_loop_catches_a_wrong_formula():
    class Off(RBF):
        def _profile(self, s, xp):
            return xp.exp(-0.5 * s) * (1 - 1e-9 * s)

    ORACLES[Off] = ORACLES[RBF]
    try:
        with pytest.raises(AssertionError, match="definition"):
            dict(kernel_laws())["double_loop"](Off())
    finally:
        del ORACLES[Off]


def test_laws_run_on_points_of_the_users_own(rng):
    check_kernel_laws(RBF([1.0, 2.0]), rng.standard_normal((12, 2)))
    check_kernel_laws(kernels.FromFunction(len_product), ["a", "bcd", "", "ee"])


def len_product(a, b):
    return float(len(a) * len(b))


class Lying(Dense):
    """Says psd, is not."""

    def __init__(self):
        super().__init__(-np.eye(3), psd=True)


class Off(Dense):
    """Multiplies by another matrix than it shows."""

    def _matmul(self, V):
        return 1.001 * super()._matmul(V)


def test_a_broken_operator_is_caught():
    with pytest.raises(AssertionError, match="psd"):
        check_operator_laws(Lying())
    with pytest.raises(AssertionError, match="matmul"):
        check_operator_laws(Off(np.ones((3, 2))))


class Boasting(solvers.Cholesky):
    """Claims a better residual than it has."""

    def solve(self, problem):
        solution = super().solve(problem)
        return solvers.Solution(solution.value * 1.01, True, residual=1e-16)


def test_a_lying_certificate_is_caught():
    with pytest.raises(AssertionError, match="certificate"):
        check_solver_laws(Boasting(), solvers.Linear)


class Careless(solvers.SMO):
    """Leaves the box a little, or says that its gap is smaller than it is."""

    def __init__(self, outside=0.0, praise=1.0):
        super().__init__(tol=1e-3)
        self.outside, self.praise = outside, praise

    def solve(self, problem):
        true = super().solve(problem)
        value = true.value + self.outside
        return solvers.Solution(
            value, True, residual=true.residual, gap=self.praise * true.gap, dual=true.dual,
            primal=true.dual + self.praise * true.gap, extra=true.extra,
        )  # fmt: skip


@pytest.mark.parametrize("lie", [{"outside": 1e-9}, {"praise": 0.9}, {"praise": -1.0}])
def test_a_careless_quadratic_program_is_caught(lie):
    check_solver_laws(Careless(), solvers.BoxQP)
    with pytest.raises(AssertionError, match="law '"):
        check_solver_laws(Careless(**lie), solvers.BoxQP)


class Forgetful(mercer.KernelRidge):
    """Ignores weights and keeps a learned attribute to itself."""

    def fit(self, X, y, sample_weight=None):
        self.secret_ = 1.0
        return super().fit(X, y)


def test_a_broken_estimator_is_caught():
    with pytest.raises(AssertionError, match="weights"):
        check_estimator_laws(Forgetful())
    with pytest.raises(AssertionError, match="secret_"):
        dict(estimator_laws())["learned_state"](Forgetful())


class WrongOffset(mercer.KernelRidge):
    """The best function for an offset that is not the best."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.intercept_ += 1e-3
        K = self.kernel_(X) + self.alpha_ * np.eye(len(X))
        self.dual_coef_ = np.linalg.solve(K, y - self.intercept_)
        return self


class SinglePrecision(mercer.KernelRidge):
    """Certifies more digits than it keeps when the data have few."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        if np.asarray(X).dtype == np.float32:
            self.dual_coef_ = self.dual_coef_.astype(np.float32).astype(float)
        return self


class Optimist(mercer.KernelRidge):
    """As sure of a hard problem as of an easy one."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        if self.alpha_ < 1e-6:
            self.dual_coef_ = self.dual_coef_ * (1 + 1e-3 * np.sin(np.arange(len(X))))
        return self


class Greedy(mercer.KernelRidge):
    """Keeps two more matrices than it needs."""

    def fit(self, X, y, sample_weight=None):
        self._spare = None
        super().fit(X, y, sample_weight)
        self._spare = np.ones((2, len(X), len(X)))
        return self


class Hasty(mercer.KernelRidge):
    """Allocates first and asks for the budget afterwards."""

    def fit(self, X, y, sample_weight=None):
        np.ones((len(X), len(X)))
        return super().fit(X, y, sample_weight)


class Heedless(mercer.KernelRidge):
    """Fits whatever the budget."""

    def fit(self, X, y, sample_weight=None):
        with mercer.config(memory="1GB"):
            return super().fit(X, y, sample_weight)


class WholeMatrix(mercer.KernelRidge):
    """Predicts with one large matrix."""

    def predict(self, X):
        with mercer.config(memory="1GB"):
            return self.kernel_(X, self.X_fit_) @ self.dual_coef_


class Flatterer(mercer.SVC):
    """Says that its gap is a little smaller than it is, if there are weights."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        if sample_weight is not None:
            s = self.solution_
            self.solution_ = dataclasses.replace(s, gap=0.99 * s.gap, primal=s.dual + 0.99 * s.gap)
        return self


class WithoutWeights(mercer.SVR):
    """Forgets the weights in what it says, not in what it does."""

    def fit(self, X, y, sample_weight=None):
        said = super().fit(X, y).solution_
        super().fit(X, y, sample_weight)
        self.solution_ = said
        return self


class OffByATouch(mercer.OneClassSVM):
    """Moves its level after the certificate was written."""

    def fit(self, X, y=None, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.intercept_ = self.intercept_ * (1 + 1e-4)
        return self


class Greedily(mercer.SVC):
    """Computes the matrix beside the rows that fit the budget."""

    def fit(self, X, y, sample_weight=None):
        np.ones((len(X), len(X)))
        return super().fit(X, y, sample_weight)


class Complacent(mercer.KernelQuantileRegressor):
    """Calls whatever it found converged, as if rounding had left no more to find."""

    def fit(self, X, y, sample_weight=None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            super().fit(X, y, sample_weight)
        self.solution_ = dataclasses.replace(self.solution_, converged=True)
        return self


class Valued(mercer.SVC):
    """Says values where classes are asked for."""

    def loo(self, X):
        return self.loo_decision_function(X)


class Turned(mercer.KernelRidgeClassifier):
    """Changes its mind between two verbs."""

    def loo_decision_function(self, X=None, *, groups=None):
        return super().loo_decision_function(X, groups=groups)[:, ::-1]

    def loo(self, X=None, *, groups=None):
        return self.classes_[super().loo_decision_function(X).argmax(1)]


@pytest.mark.parametrize(
    ("estimator", "law", "message"),
    [
        (WrongOffset(fit_intercept=True), "certificate", "easy data"),
        (SinglePrecision(), "certificate", "float32"),
        (Optimist(), "certificate", "the residual is"),
        (Complacent("precomputed"), "certificate", "says converged, the gap is"),
        (Greedy(), "memory", "fit used"),
        (Hasty(), "memory", "used"),
        (Heedless(), "memory", "used"),
        (WholeMatrix(), "memory", "many predictions used"),
        (Greedily(RBF()), "memory", "used"),
        (Flatterer(), "objectives", "primal is|gap is"),
        (WithoutWeights(), "objectives", "some weights: primal"),
        (OffByATouch(), "objectives", "primal is"),
        (Valued(), "left_out", "loo returns float64"),
        (Turned(), "left_out", "choose other classes"),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, BaseEstimator) else "",
)
def test_a_lying_or_greedy_estimator_is_caught(estimator, law, message):
    with pytest.raises(AssertionError, match=message):
        dict(estimator_laws())[law](estimator)
