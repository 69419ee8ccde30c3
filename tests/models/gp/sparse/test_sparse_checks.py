"""Kernels that are none: refused by sparse regression as by the exact one; true ones never."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import (
    RBF,
    FromFunction,
    GaussianProcessRegressor,
    Linear,
    Matern,
    Polynomial,
    Precomputed,
    SparseGaussianProcessRegressor,
    White,
)
from mercer.errors import NotPositiveDefinite
from mercer.models.gp.sparse.evidence import FITC, CollapsedBound

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 2))
Y = X[:, 0] + 0.1 * rng.standard_normal(60)
SYMMETRIC = rng.standard_normal((60, 60))
SYMMETRIC = SYMMETRIC + SYMMETRIC.T
SYMMETRIC[np.diag_indices(60)] = np.abs(SYMMETRIC.diagonal())
NONE = {
    "negative": FromFunction(lambda a, b: float(-5 * np.abs(a - b).sum())),
    "distance": FromFunction(lambda a, b: float(1 - 0.5 * np.abs(a - b).sum())),
    "tanh": FromFunction(lambda a, b: float(np.tanh(2 * a @ b + 0.5))),
    "below zero": FromFunction(lambda a, b: -1.0),
}
METHODS = {"vfe": CollapsedBound, "fitc": FITC}


@pytest.mark.parametrize("tuned", [False, True], ids=["kept", "tuned"])
@pytest.mark.parametrize("inducing", ["pivoted", X[:1], X[:3]], ids=["pivoted", "one", "three"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kernel", NONE.values(), ids=NONE)
def test_functions_that_are_no_kernels(kernel, method, inducing, tuned):
    options = {} if tuned else {"optimizer": None}
    given = inducing if isinstance(inducing, str) else list(inducing)
    model = SparseGaussianProcessRegressor(kernel, 0.1, method=method, inducing=given, **options)
    with pytest.raises(NotPositiveDefinite, match=r"^FromFunction.*mercer\.check_kernel"):
        model.fit(list(X), Y)
    assert not hasattr(model, "dual_coef_")
    with pytest.raises(NotPositiveDefinite):
        GaussianProcessRegressor(kernel, 0.1, optimizer=None).fit(list(X), Y)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("inducing", ["pivoted", [4, 9]], ids=["pivoted", "given"])
def test_a_matrix_that_no_kernel_has(method, inducing):
    model = SparseGaussianProcessRegressor(
        "precomputed", 0.1, method=method, inducing=inducing, optimizer=None
    )
    with pytest.raises(NotPositiveDefinite, match=r"eigenvalue of -\d+.*check_kernel") as caught:
        model.fit(SYMMETRIC, Y)
    assert caught.value.smallest_eigenvalue < -1


@pytest.mark.parametrize("method", METHODS)
def test_a_row_explained_by_more_than_it_has_is_named(method):
    K = np.array([[1.0, 0.2, 1.5], [0.2, 1.0, 0.1], [1.5, 0.1, 1.0]])
    z = np.ones((3, 1))
    evidence = METHODS[method](K, z)
    with pytest.raises(NotPositiveDefinite, match=r"row 2 .* entry -1.25 and K an eigen") as caught:
        evidence.posterior(Precomputed(), 0.1, np.array([0]))
    # the certificate is a bound of the least eigenvalue, and negative
    least = np.linalg.eigvalsh(K)[0]
    assert least <= caught.value.smallest_eigenvalue < 0
    if method == "fitc":  # each evaluation looks at every row
        with pytest.raises(NotPositiveDefinite):
            evidence.value(Precomputed(), 0.1, np.array([0]))


@pytest.mark.parametrize("method", METHODS)
def test_the_trace_and_points_of_variance_0_are_looked_at_in_each_evaluation(method):
    evidence = METHODS[method](np.array([[1.0, 3.0], [3.0, 1.0]]), np.ones((2, 1)))
    with pytest.raises(NotPositiveDefinite, match="check_kernel"):
        evidence.value(Precomputed(), 0.1, np.array([0]))
    evidence = METHODS[method](np.array([[0.0, 0.1], [0.1, 1.0]]), np.ones((2, 1)))
    with pytest.raises(NotPositiveDefinite, match=r"k\(u, u\) = 0 .* row 1"):
        evidence.value(Precomputed(), 0.1, np.array([0]))
    evidence = METHODS[method](np.array([[0.0, 0.0], [0.0, 1.0]]), np.ones((2, 1)))
    assert np.isfinite(evidence.value(Precomputed(), 0.1, np.array([0])))


def test_inducing_points_of_an_indefinite_matrix_are_told_in_their_own_words():
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(NotPositiveDefinite, match=r"2 inducing points .* -1, .* indefinite") as e:
        CollapsedBound(K, np.ones((2, 1))).value(Precomputed(), 0.1, np.arange(2))
    assert "alpha" not in str(e.value)


@pytest.mark.parametrize("seed", range(60))
def test_true_kernels_are_never_refused(seed):
    draw = np.random.default_rng(seed)
    n, d = int(draw.integers(2, 60)), int(draw.integers(1, 4))
    m, scale = int(draw.integers(1, n + 1)), float(10.0 ** draw.uniform(-1, 4))
    points = draw.standard_normal((n, d))
    if seed % 5 == 0:
        points[n // 2 :] = points[: n - n // 2]
    kernels = [
        RBF(scale),
        Matern(scale, nu=1.5),
        Linear(),
        Polynomial(5),
        RBF(scale) + White(0.1),
        RBF(scale) * Linear() + 1.0,
    ]
    kernel = float(10.0 ** draw.uniform(-6, 6)) * kernels[seed % 6]
    noise = float(10.0 ** draw.uniform(-8, 2))
    U = points[draw.permutation(n)[:m]] if seed % 2 else draw.standard_normal((m, d))
    for evidence in METHODS.values():
        fit = evidence(points, draw.standard_normal((n, 1))).posterior(kernel, noise, U)
        assert np.isfinite(fit.value)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0, 100.0])
def test_matrices_in_single_precision_are_not_refused(scale):
    K = RBF(scale)(X).astype(np.float32)
    for given in (K, K.astype(float)):
        model = SparseGaussianProcessRegressor("precomputed", 0.1, 40, optimizer=None)
        assert model.fit(given, Y).solution_.converged
