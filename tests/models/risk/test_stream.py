"""Logistic regression by stochastic gradients and on streams, against Newton's method."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline

import mercer
from mercer import (
    RBF,
    Constant,
    FromFeatures,
    GappedKmer,
    KernelLogisticRegression,
    Linear,
    Polynomial,
    Prototypes,
    Spectrum,
    Subsequence,
)
from mercer.errors import InvalidInput, ModelFileError, NotConverged

rng = np.random.default_rng(8)
N = 150
X = rng.standard_normal((N, 3)) + 0.3
SCORES = X @ rng.standard_normal((3, 3)) + rng.gumbel(size=(N, 3))
LABELS = {
    "two": np.where(SCORES[:, 0] > SCORES[:, 1], "yes", "no"),
    "three": np.array(["a", "b", "c"])[SCORES.argmax(1)],
}
KERNELS = {
    "linear": Linear(),
    "polynomial": Polynomial(2),
    "affine": Linear() + Constant(2.0),
    "scaled": Linear(covariance=np.diag([1.0, 2.0, 0.5])),
}


def sgd(kernel, alpha=1.0, **params):
    return KernelLogisticRegression(kernel, alpha, solver="sgd", **params)


# ---------------------------------------------------------------------------------- stored rows
@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("name", KERNELS)
def test_sgd_finds_what_newton_finds(name, labels, weighted, offset):
    y = LABELS[labels]
    w = np.where(np.arange(N) % 7 == 0, 0.0, rng.uniform(0.5, 2, N)) if weighted else None
    model = sgd(KERNELS[name], 2.0, fit_intercept=offset, tol=1e-9).fit(X, y, sample_weight=w)
    newton = KernelLogisticRegression(KERNELS[name], 2.0, offset, tol=1e-10)
    newton.fit(X, y, sample_weight=w)
    assert model.solution_.converged
    assert model.solution_.primal == pytest.approx(newton.solution_.primal, rel=1e-8)
    np.testing.assert_allclose(model.predict_proba(X), newton.predict_proba(X), atol=2e-4)
    np.testing.assert_allclose(model.function_(X), model.decision_function(X), atol=1e-8)
    assert model.coef_.shape == newton.coef_.shape
    if weighted:
        assert (model.dual_coef_[w == 0] == 0).all()
    left_out = (m.loo_decision_function() for m in (model, newton))
    np.testing.assert_allclose(*left_out, atol=1e-2)


def test_sparse_rows_and_class_weights():
    thin = sp.random(N, 40, 0.1, random_state=1, format="csr")
    y = LABELS["three"]
    model = sgd("linear", 0.5, class_weight="balanced", tol=1e-9).fit(thin, y)
    dense = sgd("linear", 0.5, class_weight="balanced", tol=1e-9).fit(thin.toarray(), y)
    np.testing.assert_allclose(
        model.predict_proba(thin), dense.predict_proba(thin.toarray()), atol=1e-3
    )


def test_kernels_without_finite_features_are_refused_with_a_cure():
    cure = r"no finite explicit features.*Prototypes"
    with pytest.raises(InvalidInput, match=cure):
        sgd(RBF()).fit(X, LABELS["two"])
    with pytest.raises(AttributeError, match=cure):
        sgd(RBF()).partial_fit(X, LABELS["two"], ["no", "yes"])
    cured = make_pipeline(Prototypes(RBF(1.0), n_prototypes=20, random_state=0), sgd("linear", 0.1))
    assert cured.fit(X, LABELS["two"]).score(X, LABELS["two"]) > 0.6


def test_only_models_with_finite_features_have_partial_fit():
    def ends(points):
        return np.asarray(points)[:, :1]

    for kernel in ("linear", Polynomial(3), Linear().on([7]), FromFeatures(ends), 3):
        assert hasattr(sgd(kernel), "partial_fit")
    for kernel in ("rbf", RBF() + Linear(), "precomputed"):
        assert not hasattr(sgd(kernel), "partial_fit")
    with pytest.raises(InvalidInput, match="kernel"):
        sgd(3).partial_fit(X, LABELS["two"], ["no", "yes"])
    y = LABELS["two"]
    own = sgd(FromFeatures(ends)).partial_fit(X, y, ["no", "yes"])
    np.testing.assert_allclose(own.function_(X), own.decision_function(X), atol=1e-8)


def test_unfinished_business_is_said():
    with pytest.warns(NotConverged, match="KernelLogisticRegression: after 1 passes"):
        sgd("linear", 1e-6, tol=1e-12, max_iter=1).fit(X, LABELS["two"])
    with pytest.raises(InvalidInput, match="'newton', 'cholesky', 'cg', 'falkon', 'sgd'"):
        KernelLogisticRegression(solver="lbfgs").fit(X, LABELS["two"])
    with pytest.raises(InvalidInput, match="random_state"):
        sgd("linear", random_state="x").fit(X, LABELS["two"])


# -------------------------------------------------------------------------------------- streams
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("name", KERNELS)
def test_rows_in_parts_are_rows_at_once(name, labels):
    y, classes = LABELS[labels], np.unique(LABELS[labels])
    w = rng.uniform(0, 2, N)
    whole = sgd(KERNELS[name]).partial_fit(X, y, classes, w)
    parts = sgd(KERNELS[name])
    for rows in np.array_split(np.arange(N), 9):
        parts.partial_fit(X[rows], y[rows], classes if rows[0] == 0 else None, w[rows])
    np.testing.assert_allclose(parts.coef_, whole.coef_, atol=1e-10)
    np.testing.assert_allclose(parts.intercept_, whole.intercept_, atol=1e-10)
    for model in (whole, parts):
        np.testing.assert_allclose(model.function_(X), model.decision_function(X), atol=1e-8)
        assert len(model.dual_coef_) <= max(model.coef_.shape[1], 3)
        assert model.n_iter_ == N
        assert not model.solution_.converged
        assert "stream" in model.solution_.message
        assert model.solution_.gap is None


def test_weights_and_penalty_have_one_unit():
    y, w = LABELS["three"], rng.uniform(0, 2, N)
    plain = sgd(Polynomial(2), 2.0).partial_fit(X, y, ["a", "b", "c"], w)
    scaled = sgd(Polynomial(2), 2.0 / N).partial_fit(X, y, ["a", "b", "c"], w / N)
    np.testing.assert_allclose(scaled.predict_proba(X), plain.predict_proba(X), atol=1e-9)
    assert scaled.n_iter_ == plain.n_iter_


@pytest.mark.parametrize("kernel", [Polynomial(2), Linear() + Constant(2.0)], ids=repr)
def test_coefficients_of_a_stream_are_found_when_asked_for(kernel, monkeypatch):
    y, solves = LABELS["three"], []
    lstsq = np.linalg.lstsq
    monkeypatch.setattr(np.linalg, "lstsq", lambda *a, **k: solves.append(0) or lstsq(*a, **k))
    model = sgd(kernel)
    for rows in np.array_split(np.arange(N), 30):
        model.partial_fit(X[rows], y[rows], ["a", "b", "c"])
        model.predict(X[rows])
    assert not solves
    np.testing.assert_allclose(model.function_(X), model.decision_function(X), atol=1e-8)
    assert len(solves) == 1 and model.dual_coef_ is model.dual_coef_
    # Rows that span less than all features, then others: what is new is kept, no more.
    flat = np.c_[X[:, :1], np.zeros((N, 2))]
    late = sgd(kernel).fit(flat, y)
    assert len(late.X_fit_) == N
    for rows in (flat[:9], X[:2], X[2:60]):
        late.partial_fit(rows, y[: len(rows)])
        np.testing.assert_allclose(late.function_(X), late.decision_function(X), atol=1e-6)
    assert len(late.X_fit_) == np.linalg.matrix_rank(kernel.features(X))


def test_a_long_stream_comes_near_newton():
    many = rng.standard_normal((20000, 3))
    z = many @ [1.0, -2.0, 0.5] + 0.3
    y = rng.random(20000) < 1 / (1 + np.exp(-z))
    model = sgd("linear")
    for rows in np.array_split(np.arange(20000), 40):
        model.partial_fit(many[rows], y[rows], [False, True])
    best = KernelLogisticRegression("linear").fit(many, y)
    np.testing.assert_allclose(model.coef_, best.coef_, atol=0.1)
    difference = model.predict_proba(many) - best.predict_proba(many)
    assert abs(difference).mean() < 0.015
    assert model.score(many, y) > best.score(many, y) - 0.003


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(2)], ids=repr)
def test_a_stream_goes_on_from_a_fit(kernel):
    y = LABELS["three"]
    model = KernelLogisticRegression(kernel, 1.0).fit(X, y)
    before, values = model.coef_.copy(), model.decision_function(X)
    model.partial_fit(X[:1], y[:1])
    assert 0 < np.abs(model.coef_ - before).max() < 0.3 * np.abs(before).max()
    np.testing.assert_allclose(model.function_(X), model.decision_function(X), atol=1e-6)
    assert model.n_iter_ == N + 1
    model.fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), values)
    assert model.stream_ is None


def test_a_stream_goes_on_after_files(tmp_path):
    y = LABELS["two"]
    whole = sgd(Polynomial(2)).partial_fit(X, y, ["no", "yes"])
    half = sgd(Polynomial(2)).partial_fit(X[:70], y[:70], ["no", "yes"])
    mercer.save(half, tmp_path / "half.mercer")
    for back in (mercer.load(tmp_path / "half.mercer"), pickle.loads(pickle.dumps(half))):
        back.partial_fit(X[70:], y[70:])
        np.testing.assert_allclose(back.coef_, whole.coef_, atol=1e-10)
    half.stream_ = half.stream_[:-1]
    with pytest.raises(ModelFileError, match="stream"):
        half._check_state()


def test_what_a_stream_refuses():
    y = LABELS["two"]
    model = sgd("linear")
    with pytest.raises(InvalidInput, match="classes must be passed"):
        model.partial_fit(X, y)
    assert not hasattr(model, "coef_")
    model.partial_fit(X, y, ["no", "yes"])
    state = model.coef_.copy()
    with pytest.raises(InvalidInput, match="not one of the classes"):
        model.partial_fit(X, np.where(np.arange(N) == 5, "maybe", y))
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :2], y)
    with pytest.raises(InvalidInput, match="NaN"):
        model.partial_fit(np.full((3, 3), np.nan), y[:3])
    with pytest.raises(InvalidInput, match="not kept"):
        model.loo()
    with pytest.raises(InvalidInput, match="needs all rows at once"):
        sgd("linear", class_weight="balanced").partial_fit(X, y, ["no", "yes"])
    with pytest.raises(InvalidInput, match="alpha"):
        sgd("linear", 0.0).partial_fit(X, y, ["no", "yes"])
    np.testing.assert_array_equal(model.coef_, state)


def test_the_offset_of_a_stream_stays():
    y = LABELS["two"]
    for offset in (True, False):
        fitted = KernelLogisticRegression("linear", 1.0, offset).fit(X, y)
        begun = sgd("linear", fit_intercept=offset).partial_fit(X, y, ["no", "yes"])
        for model in (fitted, begun):
            before = model.decision_function(X)
            model.set_params(fit_intercept=not offset)
            with pytest.raises(InvalidInput, match=f"fit_intercept={not offset}.*{offset} for"):
                model.partial_fit(X, y)
            np.testing.assert_array_equal(model.decision_function(X), before)
            model.set_params(fit_intercept=offset).partial_fit(X, y)


@pytest.mark.parametrize("rows", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_columns_off_centre_are_warned_of_once(rows, recwarn):
    y = LABELS["two"]
    model = sgd("linear")
    for bad in (X + 100, X * 1e-3, X * [1e-2, 1, 1] + [0, 0, 1e3]):
        with pytest.warns(NotConverged, match="partial_fit: .*off centre or tiny.*StandardScaler"):
            model = sgd("linear").partial_fit(rows(bad), y, ["no", "yes"])
    recwarn.clear()
    model.partial_fit(rows(bad), y)
    sgd("linear").partial_fit(rows(X[:2] + 100), y[:2], ["no", "yes"])  # too few to judge by
    sgd("linear").partial_fit(rows(X * 10 - 20), y, ["no", "yes"])
    sgd(Polynomial(3)).partial_fit(X, y, ["no", "yes"])
    sgd("linear", fit_intercept=False).partial_fit(rows(X * 1e-3), y, ["no", "yes"])
    assert not recwarn.list


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kernel", ["linear", Polynomial(2)], ids=str)
def test_overflow_is_refused_as_newton_refuses_it(kernel):
    y = LABELS["two"]
    words = r"k\(x, x\) is inf at row 0.*StandardScaler|features hold NaN or infinity; scale"
    for scale in (1e160, 1e200):
        with pytest.raises(InvalidInput, match=words):
            sgd(kernel).fit(X * scale, y)
        with pytest.raises(InvalidInput, match=words):
            sgd(kernel).partial_fit(X * scale, y, ["no", "yes"])
    with pytest.raises(InvalidInput, match=r"is so small, for weights up to 1e\+300"):
        sgd(kernel).fit(X, y, np.full(N, 1e300))
    with pytest.raises(InvalidInput, match=r"is so small, for weights up to 1e\+300"):
        sgd(kernel).partial_fit(X, y, ["no", "yes"], np.full(N, 1e300))


def test_class_weights_of_a_stream_are_sample_weights():
    y = LABELS["two"]
    by_class = sgd("linear", class_weight={"no": 2.0, "yes": 0.5})
    by_class.partial_fit(X, y, ["no", "yes"])
    by_row = sgd("linear").partial_fit(X, y, ["no", "yes"], np.where(y == "no", 2.0, 0.5))
    np.testing.assert_array_equal(by_class.coef_, by_row.coef_)


def test_a_class_may_come_late():
    data, labels = load_iris(return_X_y=True)
    model = sgd("linear", 0.1)
    for rows in (slice(0, 50), slice(50, 100), slice(100, 150)):
        model.partial_fit(data[rows], labels[rows], [0, 1, 2])
    assert model.predict_proba(data).shape == (150, 3)
    again = clone(model)
    shuffled = np.random.default_rng(0).permutation(150)
    for _ in range(20):
        again.partial_fit(data[shuffled], labels[shuffled], [0, 1, 2])
    assert again.score(data, labels) > 0.9


# ------------------------------------------------------------------------- streams of strings
FIRST, LATER = ["ab", "ba", "aab", "bba"] * 3, ["ab", "abcd", "dd"]


@pytest.mark.parametrize("bare", [Spectrum(1), Spectrum(1, alphabet="ab"), GappedKmer(2, 1)])
@pytest.mark.parametrize(
    "made", [lambda k: k, lambda k: k.normalized(), lambda k: 2.0 * k, lambda k: k.with_missing()]
)
def test_letters_that_come_later_are_named(bare, made):
    kernel = made(bare)
    for k, given in ((kernel, lambda X: X), (kernel.on("s"), lambda X: {"s": X})):
        y = [0, 1, 0, 1] * 3
        model = KernelLogisticRegression(k).partial_fit(given(FIRST), y, classes=[0, 1])
        before = model.coef_.copy()
        with pytest.raises(InvalidInput, match=r"X\[1\] has the letter 'c', at place 2.*'abcd'"):
            model.partial_fit(given(LATER), [0, 1, 0])
        assert (model.coef_ == before).all()
        assert model.partial_fit(given(["ba"]), [0]).solution_.extra["seen"] == 13
        answers = model.predict(given(LATER))
        assert len(answers) == 3


@pytest.mark.parametrize("made", [lambda k: k.normalized(), lambda k: 3.0 * k, lambda k: k + 1.0])
def test_a_stream_takes_what_is_made_of_a_kernel_with_features(made):
    y = np.array([0, 1, 0, 1] * 3)
    given = KernelLogisticRegression(made(Spectrum(2, alphabet="ab")))
    taken = KernelLogisticRegression(made(Spectrum(2)))
    for model in (given, taken):
        assert hasattr(model, "partial_fit")
        model.partial_fit(FIRST[:6], y[:6], classes=[0, 1]).partial_fit(FIRST[6:], y[6:])
        assert hasattr(model, "partial_fit")
    np.testing.assert_allclose(given.coef_, taken.coef_, atol=1e-13)
    phi = given.kernel_.features(FIRST)
    expected = np.asarray(phi @ given.coef_[0]).ravel() + given.intercept_
    np.testing.assert_allclose(given.decision_function(FIRST), expected, atol=1e-12)
    for kernel in (made(RBF()), made(Subsequence(2))):
        assert not hasattr(KernelLogisticRegression(kernel), "partial_fit")
