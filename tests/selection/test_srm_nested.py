"""srm: the true degree of the polynomial examples, what is compared, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial import Polynomial as Poly
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import PolynomialFeatures

import mercer
from mercer import RBF, SVC, Constant, KernelRidge, Linear, Polynomial
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


COLUMNS = {
    "years": lambda u: 1985 + 35 * u,
    "ages": lambda u: 50 + 30 * u,
    "huge": lambda u: 1e100 * (u + 3),
    "tiny": lambda u: 1e-90 * (u - 2),
    "plain": lambda u: 2 * u,
}


@pytest.mark.parametrize("column", COLUMNS)
def test_least_squares_in_any_units(column):
    """Against least squares in Chebyshev's spirit: the risk is the same, and falls with degree."""
    u = np.random.default_rng(2).uniform(-1, 1, 100)
    y = 1.2 * u**2 + 0.1 * np.random.default_rng(3).standard_normal(100)
    degrees = (1, 2, 3, 4, 6, 9, 14, 20)
    kernels = [Polynomial(m) for m in degrees]
    x = COLUMNS[column](u)
    result = srm(kernels, x[:, None], y)
    risks = np.array([row["risk"] for row in result.table])
    true = [np.mean((Poly.fit(u, y, m)(u) - y) ** 2) for m in degrees]
    assert np.allclose(risks, true, rtol=1e-8) and (np.diff(risks) < 0).all()
    assert result.best_index_ == 1
    bic = srm(kernels, x[:, None], y, criterion="bic")
    assert [row["parameters"] for row in bic.table] == [m + 1 for m in degrees]
    assert bic.best_index_ == 1
    new = COLUMNS[column](np.linspace(-1, 1, 7))
    expected = Poly.fit(u, y, 2)(np.linspace(-1, 1, 7))
    assert np.allclose(result.predict(new[:, None]), expected, rtol=1e-8)


def test_least_squares_in_columns_of_different_units(rng):
    Z = rng.standard_normal((80, 3))
    X = Z * [1e5, 1.0, 1e-4] + [3e6, 2000.0, 0.0]
    y = Z[:, 0] ** 2 - Z[:, 1] * Z[:, 2] + 0.1 * rng.standard_normal(80)
    for kernel, degree, start in (
        (Linear() + 1.0, 1, 0),
        (Polynomial(2, offset=0.3), 2, 0),
        (2.0 * Polynomial(1) * Polynomial(1), 2, 0),
        ((Linear() + Constant(2.0)) ** 2, 2, 0),
    ):
        design = PolynomialFeatures(degree).fit_transform(Z)[:, start:]
        fit = np.linalg.lstsq(design, y, rcond=None)[0]
        row = srm([kernel], X, y, vc_dimensions=[4]).table[0]
        assert row["risk"] == pytest.approx(((y - design @ fit) ** 2).mean(), rel=1e-8)
    # a linear function without a constant must not get one
    fit = np.linalg.lstsq(X / [1e6, 1e3, 1e-4], y, rcond=None)[0]
    risk = ((y - X / [1e6, 1e3, 1e-4] @ fit) ** 2).mean()
    assert srm([Linear()], X, y).table[0]["risk"] == pytest.approx(risk, rel=1e-8)


def test_what_a_kernel_stands_for_is_an_estimator(rng, tmp_path):
    X, Y = rng.standard_normal((30, 2)), rng.standard_normal((30, 2))
    found = srm([Linear(), Polynomial(2)], X, Y, vc_dimensions=[3, 6]).best_estimator_
    design = PolynomialFeatures(2).fit_transform(X)
    assert found.predict(X).shape == (30, 2) and found.n_features_in_ == 2
    assert np.allclose(found.degrees_of_freedom(), found.rank_)
    mercer.save(found, tmp_path / "a.mercer")
    assert (mercer.load(tmp_path / "a.mercer").predict(X) == found.predict(X)).all()
    one = srm([Polynomial(2)], np.c_[X, np.ones(30)], Y[:, 0]).best_estimator_
    assert one.rank_ == 6  # a constant column adds nothing
    assert np.allclose(
        one.predict(np.c_[X, np.ones(30)]), design @ np.linalg.pinv(design) @ Y[:, 0]
    )
    with pytest.raises(InvalidInput, match="overflows at row 1"):
        one.predict([[0.0, 0.0, 1.0], [1e200, 0.0, 1.0]])
    with pytest.raises(ValueError, match="features"):
        one.predict([[0.0]])


def test_labels_by_bic(rng):
    """Kernels stand for logistic regression then; two classes or more."""
    X = rng.uniform(-1, 1, (400, 1))
    odds = 4 * (0.4 - X[:, 0] ** 2)
    labels = np.where(rng.uniform(size=400) < 1 / (1 + np.exp(-3 * odds)), "in", "out")
    kernels = [Polynomial(m) for m in (1, 2, 3, 4)]
    result = srm(kernels, X, labels, criterion="bic")
    assert result.best_index_ == 1 and set(result.predict(X)) == {"in", "out"}
    # a penalty of no weight: every degree is one parameter
    assert [row["parameters"] for row in result.table] == pytest.approx([2, 3, 4, 5], abs=0.1)
    three = np.where(X[:, 0] > 0.5, "up", labels)
    assert np.isfinite(srm(kernels[:2], X, three, criterion="bic").scores).all()


@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_whole_numbers_may_be_targets():
    x, y = parabola(1, 60)
    counts = np.round(3 * y)
    with pytest.raises(InvalidInput, match=r"task='regression'.*KernelRidge"):
        srm(KERNELS[:3], x, counts)
    with pytest.raises(InvalidInput, match="task='regression'"):
        srm(KERNELS[:3], x, counts.astype(int), criterion="evidence", noise_variance=1.0)
    assert srm(KERNELS[:3], x, counts, task="regression").best_index_ == 1
    assert srm(KERNELS[:3], x, np.full(60, 2)).table[0]["risk"] == pytest.approx(0, abs=1e-20)
    assert srm([Linear()], x, y > 6, task="regression").table[0]["risk"] > 0
    with pytest.raises(InvalidInput, match="task"):
        srm(KERNELS[:3], x, y, task="numbers")
    with pytest.raises(InvalidInput, match="NaN at row 4"):
        srm(KERNELS[:3], x, np.where(np.arange(60) == 4, np.nan, counts))


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
    assert [row["parameters"] for row in result.table] == [4, 4, 10]
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


def test_labels_want_scaled_columns(rng):
    x = rng.uniform(-1, 1, 60)
    inside = abs(x) < 0.5
    with pytest.warns(UserWarning, match="StandardScaler"):
        srm([Polynomial(2)], 1985 + 35 * x[:, None], inside)
    with pytest.warns(UserWarning, match="StandardScaler"):
        srm([Polynomial(2)], np.c_[x, 1e5 * x[::-1]], inside, criterion="bic")
    assert srm([Polynomial(1), Polynomial(2)], x[:, None], inside).best_index_ in (0, 1)


def test_targets_beyond_squares_are_refused(rng):
    x, y = parabola(0)
    for unit in (1e200, 1e-200):
        with pytest.raises(InvalidInput, match="other units"):
            srm(KERNELS[:2], x, unit * y)
    near = srm(KERNELS[:3], x, 1e140 * y)
    assert near.best_index_ == srm(KERNELS[:3], x, 1e-140 * y).best_index_ == 1


def test_evidence_refuses_labels():
    """Gaussian evidence of 0 and 1 would say nothing of the classifier beside it."""
    x, y = parabola(0)
    options = {"criterion": "evidence", "noise_variance": 1.0}
    with pytest.raises(InvalidInput, match="taken for labels of 2 classes"):
        srm(KERNELS[:2], x, y > 6, **options)
    assert srm(KERNELS[:2], x, 1.0 * (y > 6), task="regression", **options).best_index_ in (0, 1)


def test_an_offset_beside_a_constant_counts_once(rng):
    """A threshold on a line has the VC dimension 2, two thresholds 3."""
    x = rng.uniform(-1, 1, 40)
    kernels = [Polynomial(1), Polynomial(2), Linear(), Linear() + 1.0, Polynomial(2, offset=0.0)]
    table = srm(kernels, x[:, None], x > 0.2).table
    assert [row["parameters"] for row in table] == [2, 3, 2, 2, 2]


def test_more_than_two_classes(rng):
    X = rng.standard_normal((30, 2))
    labels = rng.integers(0, 3, 30)
    with pytest.raises(InvalidInput, match="two classes, and y, taken for labels, has 3"):
        srm([Linear()], X, labels)
    assert srm([Linear()], X, labels, n_functions=[5]).best_index_ == 0
