"""SVR and NuSVR: scikit-learn, primal and dual from scratch, weights, shares, degenerate data."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import svm
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import RBF, SVR, Linear, NuSVR, Polynomial
from mercer.errors import InvalidInput, NotConverged, NotPositiveDefinite
from tests.models.words import alike, words

PAIRS = [
    ({}, {}),
    ({"C": 20.0, "epsilon": 0.02}, {"nu": 0.2, "C": 20.0}),
    ({"C": 0.1, "epsilon": 0.0}, {"nu": 0.9, "C": 0.1}),
    ({"C": 1.0, "epsilon": 0.6}, {"nu": 0.05}),
]
MODELS = [SVR(**a) for a, _ in PAIRS] + [NuSVR(**b) for _, b in PAIRS]


def waves(n=90, d=2, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, d))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, -1] + noise * rng.standard_normal(n)


def sharp(model):
    return clone(model).set_params(tol=1e-9)


def theirs(model, **changes):
    """Return scikit-learn's model of the same parameters."""
    given = {n: v for n, v in model.get_params().items() if n in ("C", "nu", "epsilon")}
    return getattr(svm, type(model).__name__)(**{**given, "tol": 1e-10, **changes})


class Scratch:
    """The two objectives and the tube of a fitted model, from its attributes and the formula."""

    def __init__(self, model, K, y, w=None):
        w = np.ones(len(y)) if w is None else np.asarray(w, dtype=float)
        a = np.zeros(len(y))
        a[model.support_] = model.dual_coef_[0]
        self.a, self.bound, self.f = a, model.C * w, K @ a
        self.error = y - self.f - model.intercept_[0]
        tube = isinstance(model, SVR)
        self.epsilon = model.epsilon if tube else model.epsilon_
        outside = w @ np.maximum(0, abs(self.error) - self.epsilon)
        width = 0.0 if tube else model.nu * w.sum() * self.epsilon
        self.primal = 0.5 * a @ self.f + model.C * (width + outside)
        self.dual = y @ a - 0.5 * a @ self.f - (self.epsilon if tube else 0.0) * abs(a).sum()


# ------------------------------------------------------------------------------ answers
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_agrees_with_scikit_learn(model, kernel):
    X, y = waves()
    ours = {"rbf": "rbf", "linear": "linear", "poly": Polynomial(2)}[kernel]
    options = {"kernel": kernel, "degree": 2, "coef0": 1.0}
    options["gamma"] = "scale" if kernel == "rbf" else 1.0
    got = sharp(model).set_params(kernel=ours).fit(X, y)
    expected = theirs(model, **options).fit(X, y)
    new = waves(40, seed=5)[0]
    # LIBSVM keeps kernel values in float32, so its answers have about four digits
    np.testing.assert_allclose(got.predict(new), expected.predict(new), atol=2e-4)
    objective = Scratch(got, np.asarray(got.kernel_(X)), y)
    a = np.zeros(len(y))
    a[expected.support_] = expected.dual_coef_[0]
    K, epsilon = np.asarray(got.kernel_(X)), getattr(model, "epsilon", 0.0)
    dual = y @ a - 0.5 * a @ K @ a - epsilon * abs(a).sum()
    assert objective.dual >= dual - 1e-7 * abs(dual)


@pytest.mark.parametrize("model", [MODELS[0], MODELS[1], MODELS[5]], ids=repr)
def test_attributes_are_those_of_scikit_learn(model):
    """On data in general position, where the coefficients are unique."""
    X, y = waves(60, 8)
    got = sharp(model).fit(X, y)
    expected = theirs(model).fit(X, y)
    np.testing.assert_array_equal(got.support_, expected.support_)
    np.testing.assert_allclose(got.dual_coef_, expected.dual_coef_, atol=1e-4)
    np.testing.assert_allclose(got.intercept_, expected.intercept_, atol=1e-4)
    np.testing.assert_array_equal(got.support_vectors_, expected.support_vectors_)
    np.testing.assert_array_equal(got.n_support_, expected.n_support_)
    for name in ("dual_coef_", "intercept_", "n_support_"):
        assert getattr(got, name).shape == getattr(expected, name).shape
        assert getattr(got, name).dtype == getattr(expected, name).dtype
    assert isinstance(got.n_iter_, int) and got.n_iter_ >= 1
    assert got.score(X, y) == pytest.approx(expected.score(X, y), abs=1e-6)
    linear = sharp(model).set_params(kernel="linear").fit(X, y)
    np.testing.assert_allclose(
        linear.coef_, theirs(model, kernel="linear").fit(X, y).coef_, atol=1e-4
    )
    assert not hasattr(got, "coef_")


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_primal_and_dual_from_scratch(model, fit_intercept):
    X, y = waves(120)
    w = np.random.default_rng(1).uniform(0.2, 3, 120)
    for weight in (None, w):
        got = sharp(model).set_params(fit_intercept=fit_intercept).fit(X, y, weight)
        s = Scratch(got, np.asarray(got.kernel_(X)), y, weight)
        solution = got.solution_
        assert solution.converged and 0 <= solution.gap <= 1e-8 * s.primal
        np.testing.assert_allclose([solution.primal, solution.dual], [s.primal, s.dual], rtol=1e-8)
        assert s.primal - s.dual <= 1e-7 * s.primal
        assert (abs(s.a) <= s.bound * (1 + 1e-12)).all()
        if fit_intercept:
            assert abs(s.a.sum()) <= 1e-9 * abs(s.a).sum()
        else:
            assert got.intercept_ == 0
        # the classes of KKT: inside the tube no coefficient, outside of it the largest
        inside, outside = abs(s.error) < s.epsilon - 1e-6, abs(s.error) > s.epsilon + 1e-6
        assert (s.a[inside] == 0).all()
        np.testing.assert_allclose(s.a[outside], (np.sign(s.error) * s.bound)[outside])
        kinds = np.where(abs(s.a) >= s.bound, "bound", "margin")[got.support_]
        np.testing.assert_array_equal(got.support_kind_, kinds)
        if isinstance(got, NuSVR):
            total = got.C * got.nu * (len(y) if weight is None else w.sum())
            assert abs(s.a).sum() <= total * (1 + 1e-9)
            assert got.epsilon_ < 1e-7 or abs(s.a).sum() >= total * (1 - 1e-7)


@pytest.mark.parametrize("model", [SVR(), NuSVR()], ids=repr)
def test_at_the_default_tolerance_the_gap_is_small_for_many_rows(model):
    X, y = waves(1500)
    got = clone(model).set_params(C=10.0).fit(X, y)
    s = Scratch(got, np.asarray(got.kernel_(X)), y)
    assert got.solution_.converged
    assert s.primal - s.dual <= 1.01e-3 * s.primal
    np.testing.assert_allclose([got.solution_.primal, got.solution_.dual], [s.primal, s.dual])


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_tube_of_the_width_that_nu_finds_has_the_same_solution(fit_intercept):
    X, y = waves(100)
    nu = sharp(NuSVR(RBF(), 0.3, 5.0, fit_intercept=fit_intercept)).fit(X, y)
    assert nu.epsilon_ > 0.01
    tube = sharp(SVR(RBF(), 5.0, nu.epsilon_, fit_intercept=fit_intercept)).fit(X, y)
    np.testing.assert_allclose(nu.predict(X), tube.predict(X), atol=1e-7)
    np.testing.assert_allclose(nu.intercept_, tube.intercept_, atol=1e-7)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("nu", [0.02, 0.1, 0.3, 0.5, 0.8, 1.0])
def test_nu_is_between_the_share_outside_and_the_share_of_support_vectors(nu, fit_intercept):
    X, y = waves(200, noise=0.5)
    w = np.random.default_rng(0).integers(1, 4, 200).astype(float)
    for weight in (None, w):
        model = sharp(NuSVR(RBF(), nu, 3.0, fit_intercept=fit_intercept)).fit(X, y, weight)
        share = np.ones(200) / 200 if weight is None else w / w.sum()
        error = abs(y - model.predict(X))
        assert share[error > model.epsilon_ + 1e-6].sum() <= nu + 1e-9
        if model.epsilon_ > 1e-6:
            assert share[model.support_].sum() >= nu - 1e-9


def test_larger_nu_is_a_narrower_tube():
    X, y = waves(150, noise=0.3)
    widths = [NuSVR(RBF(), nu, tol=1e-6).fit(X, y).epsilon_ for nu in (0.05, 0.2, 0.5, 0.8)]
    assert (np.diff(widths) < 0).all()


def test_no_tube_and_one_expensive_error_is_the_interpolant():
    X, y = waves(25)
    model = sharp(SVR(RBF(), 1e6, 0.0)).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-6)
    line = sharp(SVR("linear", 1e5, 0.0)).fit(X, X @ [2.0, -1.0] + 3)
    np.testing.assert_allclose(line.coef_[0], [2, -1], atol=1e-6)
    np.testing.assert_allclose(line.intercept_, 3, atol=1e-6)


def test_without_a_tube_a_cheap_fit_is_the_median():
    y = np.array([0.0, 1.0, 2.0, 10.0, 100.0])
    model = sharp(SVR(RBF(), 1e-9, 0.0)).fit(np.arange(5.0)[:, None], y)
    np.testing.assert_allclose(model.predict([[2.0]]), 2.0, atol=1e-6)
    weighted = sharp(SVR(RBF(), 1e-9, 0.0)).fit(np.arange(5.0)[:, None], y, [1, 1, 1, 9, 1])
    np.testing.assert_allclose(weighted.predict([[2.0]]), 10.0, atol=1e-6)


# ------------------------------------------------------------------------------ weights
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_weight_is_a_repetition_and_zero_is_absence(model, fit_intercept):
    X, y = waves(60, 3)
    w = np.random.default_rng(2).integers(0, 4, 60)
    model = sharp(model).set_params(kernel=RBF(1.2), fit_intercept=fit_intercept)
    weighted = clone(model).fit(X, y, w)
    at = np.repeat(np.arange(60), w)
    repeated = clone(model).fit(X[at], y[at])
    new = waves(40, 3, seed=9)[0]
    np.testing.assert_allclose(weighted.predict(new), repeated.predict(new), atol=1e-6)
    np.testing.assert_allclose(weighted.solution_.primal, repeated.solution_.primal, rtol=1e-7)
    assert not set(weighted.support_) & set(np.flatnonzero(w == 0))
    if isinstance(model, NuSVR):
        np.testing.assert_allclose(weighted.epsilon_, repeated.epsilon_, atol=1e-6)


def test_weights_are_prices():
    X, y = waves(50)
    one = sharp(SVR(RBF(), 2.0)).fit(X, y)
    np.testing.assert_allclose(
        sharp(SVR(RBF(), 1.0)).fit(X, y, 2.0).predict(X), one.predict(X), atol=1e-6
    )


# ------------------------------------------------------------------------- kinds of data
@pytest.mark.parametrize("model", [SVR(C=5.0), NuSVR(C=5.0)], ids=repr)
def test_precomputed_sparse_frames_and_float32(model):
    X, y = waves(70, 3)
    new = waves(20, 3, seed=3)[0]
    model = sharp(model).set_params(kernel=RBF(1.3))
    first = clone(model).fit(X, y)
    expected = first.predict(new)
    gram = clone(model).set_params(kernel="precomputed").fit(RBF(1.3)(X), y)
    np.testing.assert_allclose(gram.predict(RBF(1.3)(new, X)), expected, atol=1e-7)
    np.testing.assert_array_equal(gram.support_vectors_, gram.support_)
    sparse = clone(model).fit(sp.csr_matrix(X), y)
    np.testing.assert_allclose(sparse.predict(sp.csr_matrix(new)), expected, atol=1e-6)
    frame = pd.DataFrame(X, columns=list("abc"))
    named = clone(model).fit(frame, pd.Series(y))
    np.testing.assert_allclose(named.predict(pd.DataFrame(new, columns=list("abc"))), expected)
    assert list(named.feature_names_in_) == list("abc")
    single = clone(model).fit(X.astype(np.float32), y.astype(np.float32))
    np.testing.assert_allclose(single.predict(new), expected, atol=1e-4)
    np.testing.assert_allclose(first.function_(new), expected)
    assert first.function_.norm() ** 2 == pytest.approx(
        first.dual_coef_[0] @ np.asarray(RBF(1.3)(first.support_vectors_)) @ first.dual_coef_[0]
    )


@pytest.mark.parametrize("model", [SVR(C=3.0), NuSVR(C=3.0)], ids=repr)
def test_words_are_points_too(model):
    texts = words(40)
    y = np.array([float(t.count("a")) for t in texts])
    got = clone(model).set_params(kernel=alike).fit(texts, y)
    assert abs(got.predict(texts) - y).mean() < 0.3
    assert len(got.support_vectors_) == len(got.support_)


def test_indefinite_and_asymmetric_matrices_are_refused():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 30))
    np.fill_diagonal(A, 1.0)
    for model in (SVR("precomputed"), NuSVR("precomputed")):
        with pytest.raises(NotPositiveDefinite, match=type(model).__name__):
            model.fit(A + A.T, rng.standard_normal(30))
        with pytest.raises(InvalidInput, match="symmetric"):
            model.fit(A @ A.T + np.triu(A), rng.standard_normal(30))
        assert not hasattr(model, "dual_coef_")


# -------------------------------------------------------------------------- degenerate data
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_constant_targets(model, fit_intercept):
    X, _ = waves(30)
    for level in (0.0, 3.5):
        got = sharp(model).set_params(fit_intercept=fit_intercept).fit(X, np.full(30, level))
        assert got.solution_.converged
        if fit_intercept:
            width = getattr(got, "epsilon", 0.0)
            assert abs(got.predict(X) - level).max() <= width + 1e-6
        s = Scratch(got, np.asarray(got.kernel_(X)), np.full(30, level))
        np.testing.assert_allclose(s.primal, s.dual, atol=1e-6 * (1 + abs(s.primal)))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_one_point(model, fit_intercept):
    model = sharp(model).set_params(kernel=RBF(), fit_intercept=fit_intercept)
    got = model.fit([[1.0, 2.0]], [3.0])
    assert got.solution_.converged
    value = got.predict([[1.0, 2.0]])[0]
    if fit_intercept:
        assert abs(value - 3.0) <= getattr(got, "epsilon", 0.0) + 1e-9
    elif isinstance(model, SVR):
        assert value == pytest.approx(min(model.C, max(0.0, 3.0 - model.epsilon)))


def test_nothing_to_support():
    X, _ = waves(20)
    model = SVR(epsilon=1.0).fit(X, np.linspace(0, 1, 20))
    assert model.support_.shape == (0,) and model.dual_coef_.shape == (1, 0)
    assert model.support_kind_.shape == (0,) and model.n_support_ == [0]
    np.testing.assert_allclose(model.predict(X), 0.5)
    np.testing.assert_allclose(model.function_(X), 0.5)
    assert pickle.loads(pickle.dumps(model)).predict(X[:1]) == 0.5


@pytest.mark.parametrize("model", [SVR(C=1e12), NuSVR(C=1e12), SVR(C=1e12, epsilon=0.0)], ids=repr)
@pytest.mark.parametrize("kernel", ["linear", "rbf", Polynomial(3)], ids=repr)
def test_a_huge_price_ends_with_a_certificate(model, kernel):
    X, y = waves(60, noise=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        got = clone(model).set_params(kernel=kernel, max_iter=300_000).fit(X, y)
    s = Scratch(got, np.asarray(got.kernel_(X)), y)
    assert np.isfinite(got.predict(X)).all() and got.solution_.gap >= 0
    assert got.solution_.converged or got.solution_.message
    if got.solution_.converged:  # up to what rounding of f costs at this price
        K = abs(np.asarray(got.kernel_(X)))
        assert s.primal - s.dual <= 2e-3 * abs(s.primal) + 1e-14 * got.C * (K @ abs(s.a)).sum()


@pytest.mark.parametrize("model", [SVR(), NuSVR()], ids=repr)
def test_duplicates_that_contradict_and_unscaled_columns(model):
    X, y = waves(40)
    X2, y2 = np.vstack([X, X]), np.r_[y, -y]
    got = clone(model).fit(X2, y2)
    assert got.solution_.converged and abs(got.predict(X)).max() < 1.0
    wide = X * [1e6, 1e-6]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        for kernel in ("rbf", "linear"):
            far = clone(model).set_params(kernel=kernel, max_iter=200_000).fit(wide, y)
            assert np.isfinite(far.predict(wide)).all()


@pytest.mark.parametrize("kernel", [mercer.Constant(1.0), mercer.White(1.0)], ids=repr)
@pytest.mark.parametrize("model", MODELS[:6], ids=repr)
def test_constant_and_white_kernels(model, kernel):
    X, y = waves(40)
    for fit_intercept in (True, False):
        got = sharp(model).set_params(kernel=kernel, fit_intercept=fit_intercept).fit(X, y)
        K = np.asarray(kernel(X))
        s = Scratch(got, K, y)
        np.testing.assert_allclose(s.primal, s.dual, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-6, 1e6, 1e150])
def test_targets_of_any_size(scale):
    X, y = waves(60)
    got = SVR(RBF(), 10.0 * scale, 0.05 * scale, tol=1e-4 * scale).fit(X, scale * y)
    one = SVR(RBF(), 10.0, 0.05, tol=1e-4).fit(X, y)
    np.testing.assert_allclose(got.predict(X) / scale, one.predict(X), atol=1e-3)
    assert got.solution_.converged


# ---------------------------------------------------------------------- limits and refusals
def test_a_fit_that_was_stopped_says_so():
    X, y = waves(80)
    for model in (SVR(C=1e4, epsilon=0.0), NuSVR(C=1e4)):
        with pytest.warns(NotConverged, match="max_iter"):
            got = model.set_params(max_iter=5).fit(X, y)
        assert not got.solution_.converged and np.isfinite(got.predict(X)).all()
        s = Scratch(got, np.asarray(got.kernel_(X)), y)
        np.testing.assert_allclose(got.solution_.primal, s.primal, rtol=1e-6)
        np.testing.assert_allclose(got.solution_.dual, s.dual, rtol=1e-6, atol=1e-6)
        with pytest.warns(NotConverged):
            model.set_params(max_iter=-1, max_time=1e-9).fit(X, y)


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"C": 0.0}, "C"),
        ({"C": -1.0}, "C"),
        ({"C": np.inf}, "C"),
        ({"C": np.nan}, "C"),
        ({"C": "1"}, "C"),
        ({"C": None}, "C"),
        ({"tol": 0.0}, "tol"),
        ({"tol": -1e-3}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"max_iter": 2.5}, "max_iter"),
        ({"max_time": 0}, "max_time"),
        ({"kernel": "unheard of"}, "unheard of"),
    ],
)
@pytest.mark.parametrize("cls", [SVR, NuSVR])
def test_parameters_that_make_no_sense_are_refused(cls, params, name):
    model = cls(**params)
    with pytest.raises(InvalidInput, match=f"{cls.__name__}.*{name}"):
        model.fit(*waves(20))
    assert not hasattr(model, "support_")


@pytest.mark.parametrize("epsilon", [-0.1, np.nan, np.inf, "wide", None])
def test_a_tube_that_is_none_is_refused(epsilon):
    with pytest.raises(InvalidInput, match="SVR: epsilon"):
        SVR(epsilon=epsilon).fit(*waves(20))


@pytest.mark.parametrize("nu", [0.0, -0.5, 1.0001, np.nan, np.inf, "half", None, True])
def test_a_share_that_is_none_is_refused(nu):
    with pytest.raises(InvalidInput, match="NuSVR: nu"):
        NuSVR(nu=nu).fit(*waves(20))


@pytest.mark.parametrize("cls", [SVR, NuSVR])
def test_data_that_make_no_sense_are_refused(cls):
    X, y = waves(20)
    for bad in (np.full(20, np.nan), y[:-1], y.astype(str).astype(object) + "x", None):
        with pytest.raises(InvalidInput, match=cls.__name__):
            cls().fit(X, bad)
    with pytest.raises(InvalidInput, match="2 columns"):
        cls().fit(X, np.column_stack([y, y]))
    with pytest.warns(DataConversionWarning):
        cls().fit(X, y[:, None])
    with pytest.raises(InvalidInput, match="negative"):
        cls().fit(X, y, -np.ones(20))
    with pytest.raises(InvalidInput, match="zero"):
        cls().fit(X, y, np.zeros(20))
    with pytest.raises(InvalidInput):
        cls().fit(X[:0], y[:0])
    with pytest.raises(NotFittedError):
        cls().predict(X)
    model = cls().fit(X, y)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :1])


def test_a_failed_fit_leaves_the_earlier_one():
    X, y = waves(30)
    model = SVR().fit(X, y)
    before = model.predict(X)
    with pytest.raises(InvalidInput):
        model.fit(X, np.full(30, np.inf))
    np.testing.assert_array_equal(model.predict(X), before)


def test_an_interrupted_fit_leaves_the_earlier_one(monkeypatch):
    X, y = waves(30)
    model = NuSVR().fit(X, y)
    before, width = model.predict(X), model.epsilon_
    monkeypatch.setattr(mercer.solvers.SMO, "solve", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, 2 * y)
    np.testing.assert_array_equal(model.predict(X), before)
    assert model.epsilon_ == width


def _interrupt(*args, **kwargs):
    raise KeyboardInterrupt


# ------------------------------------------------------------------------ files and tools
@pytest.mark.parametrize("model", [SVR(C=4.0), NuSVR(Linear()), SVR("precomputed")], ids=repr)
def test_saved_loaded_pickled_cloned(model, tmp_path):
    X, y = waves(40)
    K = np.asarray(RBF()(X))
    X = K if model.kernel == "precomputed" else X
    model = clone(model).fit(X, y)
    mercer.save(model, tmp_path / "m.mercer")
    for again in (mercer.load(tmp_path / "m.mercer"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        np.testing.assert_array_equal(again.support_kind_, model.support_kind_)
        assert again.solution_.gap == model.solution_.gap
        assert getattr(again, "epsilon_", None) == getattr(model, "epsilon_", None)
    assert not hasattr(clone(model), "support_")


def test_grid_search_pipelines_and_scores():
    X, y = waves(80)
    search = GridSearchCV(SVR(RBF()), {"C": [0.1, 10.0], "kernel__length_scale": [0.5, 1.0]}, cv=3)
    assert search.fit(X, y).best_score_ > 0.8
    assert cross_val_score(make_pipeline(StandardScaler(), NuSVR(C=10.0)), X, y).mean() > 0.8
