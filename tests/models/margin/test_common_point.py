"""Classes that no function separates: proofs, rounding, names, rows, short certificates."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_iris

from mercer import RBF, SVC, Constant, Linear, NuSVC, Polynomial, White
from mercer.errors import NotSeparable
from tests.models.hulls import check_common_point, separable


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kernel", [Linear(), Polynomial(2), RBF(3.0)])
def test_overlap_is_proved(kernel, fit_intercept):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 2))
    y = np.array(["no", "yes"])[(rng.random(150) < 0.5).astype(int)]
    with pytest.raises(NotSeparable, match=r"class yes.*class no") as caught:
        SVC(kernel, np.inf, fit_intercept=fit_intercept).fit(X, y)
    check_common_point(caught.value.certificate, kernel, X, y, "yes", fit_intercept)


def test_contradictory_duplicates_are_found():
    X, y = separable(5)
    Z, target = np.r_[X, X[7:8]], np.r_[y, 1 - y[7]]
    with pytest.raises(NotSeparable) as caught:
        SVC(RBF(0.1), np.inf).fit(Z, target)
    certificate = caught.value.certificate
    weights = {
        **dict(zip(certificate.positive, certificate.positive_weights, strict=True)),
        **dict(zip(certificate.negative, certificate.negative_weights, strict=True)),
    }
    assert weights[7] > 0.999 and weights[len(X)] > 0.999
    check_common_point(certificate, RBF(0.1), Z, target, 1)
    # with noise of its own every row can be told from its twin
    model = SVC(RBF(0.1) + White(0.5), np.inf).fit(Z, target)
    assert model.solution_.converged


def test_rows_of_the_certificate_are_those_given():
    X = np.array([[9.0], [0.0], [1.0], [0.5]])
    y = np.array([0, 1, 1, 0])
    w = np.array([0.0, 1.0, 1.0, 1.0])
    with pytest.raises(NotSeparable) as caught:
        SVC("linear", np.inf).fit(X, y, w)
    certificate = caught.value.certificate
    np.testing.assert_array_equal(certificate.positive, [1, 2])
    np.testing.assert_array_equal(certificate.negative, [3])
    np.testing.assert_allclose(certificate.positive_weights, [0.5, 0.5], atol=1e-6)
    K = X @ X.T
    with pytest.raises(NotSeparable) as caught:
        SVC("precomputed", np.inf).fit(K, y, w)
    np.testing.assert_array_equal(caught.value.certificate.positive, [1, 2])


def test_the_classes_that_overlap_are_named():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    with pytest.raises(NotSeparable, match="versicolor and one of class virginica"):
        SVC("linear", np.inf).fit(X, names)
    with pytest.raises(NotSeparable, match="class versicolor and one of the other classes"):
        SVC("linear", np.inf, multi_class="ovr").fit(X, names)
    K = Constant(1.0)
    with pytest.raises(NotSeparable, match="coincide") as caught:
        SVC(K, np.inf).fit(X, y)
    assert caught.value.certificate.distance == 0


def test_the_exception_travels():
    with pytest.raises(NotSeparable) as caught:
        SVC("linear", np.inf).fit([[0.0], [0.0]], [0, 1])
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.certificate.positive == [1]
    assert isinstance(again, ValueError)


def test_a_failed_fit_leaves_the_model():
    X, y = separable(6)
    model = SVC("linear", np.inf).fit(X, y)
    values = model.decision_function(X)
    with pytest.raises(NotSeparable):
        model.fit(np.zeros((4, 3)), [0, 1, 0, 1])
    np.testing.assert_array_equal(model.decision_function(X), values)


def test_rounding_is_no_proof():
    """Distinct points: RBF separates them in theory, float64 does not in practice."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 2)), rng.integers(0, 2, 200)
    with pytest.raises(NotSeparable, match="numerically not separable beyond rounding") as caught:
        SVC(RBF(1.0), np.inf).fit(X, y)
    certificate, text = caught.value.certificate, str(caught.value)
    assert not certificate.exact and "float64 cannot tell" in text and "coincide" not in text
    assert "of the radius" in text
    check_common_point(certificate, RBF(1.0), X, y, 1)
    # too thin for a Gram matrix
    X = np.array([[0, 0], [1, 0], [0, 1e-9], [1, 1e-9]])
    with pytest.raises(NotSeparable, match="float64 cannot tell") as caught:
        SVC("linear", np.inf).fit(X, [0, 0, 1, 1])
    assert not caught.value.certificate.exact


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kernel", [Linear(), Polynomial(2), Polynomial(3)])
def test_where_features_are_known_overlap_is_exact(kernel, fit_intercept):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((300, 2)), rng.integers(0, 2, 300)
    with pytest.raises(NotSeparable, match="coincide") as caught:
        SVC(kernel, np.inf, fit_intercept=fit_intercept).fit(X, y)
    certificate = caught.value.certificate
    assert certificate.exact and certificate.distance <= 1e-13 * certificate.radius
    check_common_point(certificate, kernel, X, y, 1, fit_intercept)
    u, v = certificate.positive_weights, certificate.negative_weights
    F = kernel.features(X)
    both = u @ F[certificate.positive] - v @ F[certificate.negative]
    np.testing.assert_allclose(both, 0, atol=1e-12 * np.abs(F).max())


def test_the_certificate_is_short():
    X, y = separable(5)
    Z, target = np.r_[X, X[7:8]], np.r_[y, 1 - y[7]]
    for kernel in (RBF(0.1), RBF(1.0)):
        with pytest.raises(NotSeparable) as caught:
            SVC(kernel, np.inf).fit(Z, target)
        certificate = caught.value.certificate
        assert len(certificate.positive) == len(certificate.negative) == 1 and certificate.exact
        assert certificate.distance == 0
    rng = np.random.default_rng(0)
    with pytest.raises(NotSeparable) as caught:
        SVC(RBF(2.0), np.inf).fit(rng.standard_normal((300, 2)), rng.integers(0, 2, 300))
    certificate = caught.value.certificate
    assert len(repr(certificate)) < 150 and "distance=" in repr(certificate)
    assert f"{len(certificate.positive)} positive" in repr(certificate)
    least = min(certificate.positive_weights.min(), certificate.negative_weights.min())
    assert least > 1e-11


def test_nu_that_is_too_small_is_proved_so():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    y = rng.integers(0, 2, 60)
    with pytest.raises(NotSeparable, match=r"NuSVC: nu=0\.05 is too small") as caught:
        NuSVC("linear", 0.05).fit(X, y)
    certificate = caught.value.certificate
    check_common_point(certificate, Linear(), X, y, 1)
    most = 2 / (0.05 * 60)  # the reduced hulls: no weight above wᵢ/(νW/2)
    assert max(certificate.positive_weights.max(), certificate.negative_weights.max()) <= most
