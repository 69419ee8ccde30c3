"""Certificates against exact arithmetic: what rounding hides is counted, whatever C is."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

import mercer
from mercer import RBF, SVC, SVR, KernelERM, NuSVC, NuSVR, OneClassSVM
from mercer.errors import NotConverged

UNIT = 2**1074  # of which every float64 is a whole multiple


def whole(values):
    """Return float64 numbers as whole multiples of 2⁻¹⁰⁷⁴, exactly."""
    pairs = (float(v).as_integer_ratio() for v in np.ravel(values))
    numbers = [n * (UNIT // d) for n, d in pairs]
    return np.array(numbers, dtype=object).reshape(np.shape(values))


class Exact:
    """The function of coefficients a and an offset b at the points of K, and ‖f‖², exactly."""

    def __init__(self, K, a, b):
        self.some = np.flatnonzero(a)
        self.a = whole(a)
        product = whole(K[:, self.some]) @ self.a[self.some] if len(self.some) else 0 * self.a
        self.f = [Fraction(int(v), UNIT**2) for v in product]
        self.a = [Fraction(int(v), UNIT) for v in self.a]
        self.b = Fraction(float(b))
        self.square = sum((self.a[i] * self.f[i] for i in self.some), Fraction(0))


def hinge(f, y, w, price):
    """Return primal and dual value of a classifier with prices w·price of a violation."""
    s = [Fraction(int(v)) for v in y]
    short = [max(Fraction(0), 1 - t * (v + f.b)) for t, v in zip(s, f.f, strict=True)]
    cost = sum((Fraction(float(c)) * v for c, v in zip(w, short, strict=True)), Fraction(0))
    paid = sum((t * a for t, a in zip(s, f.a, strict=True)), Fraction(0))
    return f.square / 2 + price * cost, paid - f.square / 2


def tube(f, y, C, epsilon):
    """Return primal and dual value of a regression with a tube."""
    y = [Fraction(float(v)) for v in y]
    out = [max(Fraction(0), abs(t - v - f.b) - epsilon) for t, v in zip(y, f.f, strict=True)]
    paid = sum((t * a - epsilon * abs(a) for t, a in zip(y, f.a, strict=True)), Fraction(0))
    return f.square / 2 + C * sum(out, Fraction(0)), paid - f.square / 2


def drawn(seed, n):
    """Return points, their Gram matrix and two classes that overlap more or less."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    noise = (0.0, 0.3, 1.0)[seed % 3]
    y = np.where(X[:, 0] + noise * rng.standard_normal(n) > 0, 1, -1)
    y[:2] = 1, -1
    K = RBF((0.3, 1.0, 4.0)[seed // 3 % 3])(X)
    return K, y, rng.integers(1, 4, n).astype(float)


def said(model, *data, **options):
    """Return the fit and whether it warned."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(*data, **options)
    told = [w for w in caught if issubclass(w.category, NotConverged)]
    assert len(told) == (not model.solution_.converged)
    return model


def spread(model, n):
    a = np.zeros(n)
    a[model.support_] = model.dual_coef_[0]
    return a


def judge(model, primal, dual, tol):
    """Require that the gap is no less than the true one, and that of what has converged good."""
    s, gap = model.solution_, float(primal - dual)
    size = max(abs(float(primal)), abs(float(dual)))
    assert s.gap >= gap - 1e-12 * size, (model, s.gap, gap)
    assert s.gap == pytest.approx(s.primal - s.dual, rel=1e-6, abs=1e-12 * size)
    if s.converged:
        assert gap <= tol * size * (1 + 1e-9), (model, gap / size)


PRICES = [1e-6, 1e-2, 1.0, 1e2, 1e4, 1e6, 1e8, 1e10, 1e12]


@pytest.mark.parametrize("C", PRICES)
@pytest.mark.parametrize("seed", range(5))
def test_the_gap_of_a_classifier_is_not_below_the_true_one(C, seed):
    n = (20, 50, 90, 130, 200)[seed]
    K, y, w = drawn(seed + 3 * PRICES.index(C), n)
    for tol in (1e-3, 1e-9):
        model = said(SVC("precomputed", C, tol=tol), K, y, sample_weight=w)
        f = Exact(K, spread(model, n), model.intercept_[0])
        judge(model, *hinge(f, y, w, Fraction(C)), tol)
        if C <= 1e4:
            assert model.solution_.converged


@pytest.mark.parametrize("alpha", [1e6, 1.0, 1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("kernel", ["precomputed", "linear"])
def test_the_gap_of_a_risk_with_kinks_is_not_below_the_true_one(alpha, kernel):
    for seed in range(2):
        K, y, w = drawn(seed + 1, 60)
        X = np.random.default_rng(seed).standard_normal((60, 4)) if kernel == "linear" else K
        model = said(KernelERM(kernel, "hinge", alpha), X, y, sample_weight=w)
        price = Fraction(float(alpha))
        if kernel == "linear":  # the function is that of the weights, the dual that of a
            Z, v = whole(X), whole(model.coef_[0])
            f = Exact(K, model.dual_coef_, model.intercept_[0])
            f.f = [Fraction(int(t), UNIT**2) for t in Z @ v]
            f.square = Fraction(int(v @ v), UNIT**2)
            primal, _ = hinge(f, y, w, 1 / price)
            own = Z.T @ whole(model.dual_coef_)
            f.square = Fraction(int(own @ own), UNIT**4)
            dual = hinge(f, y, w, 1 / price)[1]
        else:
            f = Exact(K, model.dual_coef_, model.intercept_[0])
            primal, dual = hinge(f, y, w, 1 / price)
        judge(model, price * primal, price * dual, 1e-6)


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e4, 1e8, 1e12])
def test_the_gaps_of_regressions_are_not_below_the_true_ones(C):
    for seed in range(3):
        K, _, _ = drawn(seed, 60)
        y = K @ np.random.default_rng(seed).standard_normal(60)
        for epsilon in (0.0, 0.1):
            model = said(SVR("precomputed", C, epsilon), K, y)
            f = Exact(K, spread(model, 60), model.intercept_[0])
            judge(model, *tube(f, y, Fraction(C), Fraction(epsilon)), 1e-3)
        model = said(NuSVR("precomputed", 0.4, C), K, y)
        f = Exact(K, spread(model, 60), model.intercept_[0])
        width = Fraction(model.epsilon_)
        primal, _ = tube(f, y, Fraction(C), width)
        primal += Fraction(C) * Fraction(0.4) * 60 * width
        judge(model, primal, tube(f, y, 0, 0)[1], 1e-3)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("C", [1e3, 4e4, 1e6, 1e8])
def test_small_targets_at_a_high_price_have_the_gap_that_was_asked_for(C, fit_intercept):
    """No tube is wanted: what CνW allows is then far more than the coefficients are."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, nu = rng.standard_normal((18, 2)), float(rng.uniform(0.1, 0.7))
        K, y = np.asarray(RBF(0.7)(X)), 1e-4 * rng.standard_normal(18)
        model = said(NuSVR("precomputed", nu, C, fit_intercept=fit_intercept), K, y)
        f = Exact(K, spread(model, 18), model.intercept_[0])
        width = Fraction(model.epsilon_)  # 0, or what another BLAS leaves of it
        primal, dual = tube(f, y, Fraction(C), width)
        primal += Fraction(C) * Fraction(nu) * 18 * width
        assert model.epsilon_ <= 1e-8 * np.abs(y).max()
        assert model.solution_.converged or C > 1e6
        judge(model, primal, dual, 1e-3)


@pytest.mark.parametrize("nu", [0.01, 0.2, 0.7])
def test_the_gaps_of_machines_with_nu_are_not_below_the_true_ones(nu):
    for seed in range(4):
        K, y, w = drawn(seed, 80)
        model = said(OneClassSVM("precomputed", nu), K, sample_weight=w)
        f = Exact(K, spread(model, 80), 0.0)
        level = Fraction(float(model.offset_[0]))
        below = sum(
            Fraction(float(c)) * max(Fraction(0), level - v) for c, v in zip(w, f.f, strict=True)
        )
        primal = f.square / 2 - Fraction(nu) * Fraction(w.sum()) * level + below
        judge(model, primal, -f.square / 2, 1e-3)
        try:
            model = said(NuSVC("precomputed", nu), K, y, sample_weight=w)
        except mercer.errors.MercerError:  # too small or too large for these classes
            continue
        f = Exact(K, spread(model, 80), model.intercept_[0])
        judge(model, *hinge(f, y, w, Fraction(model.C_)), 1e-3)


def test_a_price_that_rounding_cannot_pay_is_told_with_a_cure():
    K, y, _ = drawn(8, 200)
    with pytest.warns(NotConverged, match=r"rounding hides any further progress.*lower C"):
        model = SVC("precomputed", 1e12).fit(K, y)
    assert model.solution_.gap > 1e-3 * model.solution_.dual
    assert SVC("precomputed", 1e8).fit(K, y).solution_.converged  # the cure


@pytest.mark.parametrize("C", [1e10, 1e12])
def test_a_price_beyond_the_hard_margin_pays_for_no_violation(C):
    # classes that can be separated: the function is stretched until rounding makes none, either
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 2))
    y = np.where(X[:, 0] > 0, 1, -1)
    X[:, 0] += 0.5 * y
    K = RBF(1.0)(X)
    model = said(SVC("precomputed", C), K, y)
    f = Exact(K, spread(model, 80), model.intercept_[0])
    primal, dual = hinge(f, y, np.ones(80), Fraction(C))
    judge(model, primal, dual, 1e-3)
    assert model.solution_.converged
    hard = SVC("precomputed", np.inf).fit(K, y)
    assert model.margin_ == pytest.approx(hard.margin_, rel=1e-3)
