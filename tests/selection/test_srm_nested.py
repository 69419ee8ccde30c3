"""srm: the true degree of the polynomial examples, what is compared, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import PolynomialFeatures

from mercer import RBF, SVC, KernelRidge, Linear, Polynomial
from mercer.errors import InvalidInput
from mercer.selection import evidence, regression_bound, risk_bound, srm

KERNELS = [Polynomial(m) for m in range(1, 10)]


def parabola(seed, n=10):
    """The polynomial example of the notes: y = 4x² − 2x + 3 + e at equal steps from −2 to 2."""
    x = np.linspace(-2, 2, n)
    e = np.random.default_rng(seed).standard_normal(n)
    return x[:, None], 4 * x**2 - 2 * x + 3 + e


@pytest.mark.parametrize(
    ("options", "least"),
    [
        ({}, 36),
        ({"criterion": "bic", "noise_variance": 1.0}, 24),
        ({"criterion": "evidence", "noise_variance": 1.0, "prior_variance": 10.0}, 36),
    ],
    ids=["bound", "bic", "evidence"],
)
def test_true_degree_of_the_parabola(options, least):
    degrees = [1 + srm(KERNELS, *parabola(seed), **options).best_index_ for seed in range(40)]
    assert np.bincount(degrees).argmax() == 2
    assert degrees.count(2) >= least and min(degrees) == 2


@pytest.mark.parametrize("criterion", ["bound", "bic"])
def test_true_degree_with_more_rows(criterion):
    for seed in range(5):
        result = srm(KERNELS[:6], *parabola(seed, 200), criterion=criterion)
        assert result.best_index_ == 1


def test_underfit_and_overfit_at_a_new_point():
    """The notes: at 1.8 the line and the ninth degree are far from 12.36, the parabola is near."""
    far = {1: [], 2: [], 9: []}
    for seed in range(30):
        x, y = parabola(seed)
        for m, errors in far.items():
            fit = KernelRidge(Polynomial(m), alpha=1e-9).fit(x, y)
            errors.append(abs(fit.predict([[1.8]])[0] - 12.36))
    assert np.median(far[2]) < 1 < 3 < np.median(far[9]) and np.median(far[1]) > 4


@pytest.mark.parametrize(("degree", "coefficients"), [(1, [0.3, 1]), (2, [-0.4, 0, 1])])
def test_true_degree_of_a_class_boundary(degree, coefficients):
    """Labels from the sign of a polynomial, some flipped: kernels of degree 1, 2, 3, 4."""
    right = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1, 1, 300)
        labels = np.polynomial.polynomial.polyval(x, coefficients) > 0
        labels ^= rng.uniform(size=300) < 0.05
        result = srm(KERNELS[:4], x[:, None], labels)
        right += result.best_index_ == degree - 1
        risks = [row["risk"] for row in result.table]
        assert min(risks) <= risks[degree - 1] + 0.02  # richer models are no worse in training
    assert right == 5


def test_bounds_are_those_of_the_fits(rng):
    x, y = parabola(0)
    result = srm(KERNELS[:4], x, y)
    design = PolynomialFeatures(4).fit_transform(x)
    for m, row in enumerate(result.table, start=1):
        fit = np.linalg.lstsq(design[:, : m + 1], y, rcond=None)[0]
        risk = ((y - design[:, : m + 1] @ fit) ** 2).mean()
        assert row["risk"] == pytest.approx(risk, rel=1e-6) and row["parameters"] == m + 1
        assert result.bounds[m - 1] == pytest.approx(regression_bound(risk, 10, m + 1), rel=1e-6)
    assert result.best_index_ == np.argmin(result.bounds)
    assert np.allclose(result.predict(x), result.best_estimator_.predict(x))
    assert "<- chosen" in repr(result) and len(repr(result).splitlines()) == 5


def test_evidence_is_that_of_the_kernels():
    x, y = parabola(1)
    options = {"noise_variance": 1.0, "prior_variance": 5.0}
    result = srm(KERNELS[:3], x, y, criterion="evidence", **options)
    for kernel, score in zip(KERNELS, result.scores, strict=False):
        assert score == pytest.approx(evidence(x, y, 1.0, 5.0, kernel=kernel).log_evidence)
    with pytest.raises(AttributeError, match="not bounds"):
        _ = result.bounds


def test_models_of_any_kind(rng):
    X = rng.standard_normal((60, 3))
    y = X @ [1.0, 1.0, 0.0] > 0
    result = srm([LogisticRegression(), SVC(Linear()), SVC(Polynomial(2))], X, y)
    assert [row["parameters"] for row in result.table] == [4, 4, 11]
    first = result.table[0]
    assert first["score"] == pytest.approx(risk_bound(first["risk"], 60, vc_dimension=4))
    assert not hasattr(SVC(), "support_")  # models passed are not fitted themselves
    models = [LinearRegression(), KernelRidge(Polynomial(2), 0.1)]
    numbers = srm(models, X, X[:, 0], criterion="bic", noise_variance=0.1)
    assert numbers.best_index_ == 0


def test_sizes_given():
    x, y = parabola(2)
    labels = y > 6
    kernels = [RBF(3.0), RBF(0.3)]
    result = srm(kernels, x, labels, n_functions=[10, 1e6], confidence=0.9)
    for row, size in zip(result.table, (10, 1e6), strict=True):
        bound = risk_bound(row["risk"], 10, n_functions=size, confidence=0.9)
        assert row["score"] == pytest.approx(bound)
    assert srm(kernels, x, y, vc_dimensions=[3, 5]).table[1]["parameters"] == 5


def test_weight_is_repetition():
    x, y = parabola(3)
    weight = np.array([1, 2, 0, 3, 1, 1, 2, 0, 1, 2])
    rows = np.repeat(np.arange(10), weight)
    for options in ({}, {"criterion": "bic"}, {"criterion": "evidence", "noise_variance": 1.0}):
        once = srm(KERNELS[:3], x, y, weight, **options)
        twice = srm(KERNELS[:3], x[rows], y[rows], **options)
        assert np.allclose(once.scores, twice.scores, rtol=1e-5)


def test_bic_leaves_out_what_interpolates():
    x, y = parabola(0)
    result = srm([Polynomial(2), Polynomial(9), RBF(0.1)], x, y, criterion="bic")
    assert result.best_index_ == 0 and (result.scores[1:] == -np.inf).all()
    with pytest.raises(InvalidInput, match="no model has a finite bic"):
        srm([Polynomial(9)], x, y, criterion="bic")
    with pytest.raises(InvalidInput, match="no model has a finite bound"):
        srm([Polynomial(9)], x, y)


def test_ties_go_to_the_first():
    x, y = parabola(0)
    assert srm((Polynomial(m) for m in (1, 2)), x, y).best_index_ == 1
    assert srm([Polynomial(2), Polynomial(2)], x, y).best_index_ == 0


@pytest.mark.parametrize(
    ("models", "options", "word"),
    [
        ([], {}, "list"),
        (Polynomial(2), {}, "list"),
        (KernelRidge(), {}, "list"),
        ("rbf", {}, "list"),
        ([2], {}, "int"),
        ([Polynomial(2)], {"criterion": "loo"}, "criterion"),
        ([Polynomial(2)], {"criterion": "evidence"}, "noise_variance"),
        ([LinearRegression()], {"criterion": "evidence", "noise_variance": 1.0}, "no kernel"),
        ([RBF(1.0)], {"criterion": "evidence", "noise_variance": 1.0}, "finite feature"),
        ([RBF(1.0)], {}, "VC dimension"),
        ([RBF(1.0)], {"n_functions": [3]}, "numbers"),
        ([RBF(1.0)], {"n_functions": [3], "vc_dimensions": [3]}, "both"),
        ([RBF(1.0)], {"vc_dimensions": [3, 4]}, "2 entries for 1"),
        ([Polynomial(2)], {"confidence": 2.0}, "confidence"),
    ],
    ids=lambda v: str(v)[:20],
)
def test_refusals(models, options, word):
    with pytest.raises(InvalidInput, match=word):
        srm(models, *parabola(0), **options)


def test_more_than_two_classes(rng):
    X = rng.standard_normal((30, 2))
    labels = rng.integers(0, 3, 30)
    with pytest.raises(InvalidInput, match="two classes, and y has 3"):
        srm([Linear()], X, labels)
    assert srm([Linear()], X, labels, n_functions=[5]).best_index_ == 0
