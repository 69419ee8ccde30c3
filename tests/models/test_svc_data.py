"""SVC on data of all kinds: weights, frames, objects, and what must be refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

from mercer import RBF, SVC, Constant, KernelERM, KernelMachine, Linear, Matern
from mercer.errors import InvalidInput, NotConverged, NotPositiveDefinite
from tests.models.margins import blobs


# ------------------------------------------------------------------------------------- weights
@pytest.mark.parametrize("C", [0.5, 20.0, np.inf])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 1.0, 1: 2.0, 2: 0.5}])
def test_a_weight_of_two_is_a_row_given_twice(C, fit_intercept, multi_class, class_weight):
    """S4, S3, S6 with sample and class weights."""
    X, y = load_iris(return_X_y=True)
    X, y = X[::5] + 1e-3 * np.random.default_rng(0).standard_normal((30, 4)), y[::5]
    w = np.random.default_rng(2).integers(0, 4, 30)
    options = {"fit_intercept": fit_intercept, "multi_class": multi_class}
    options["class_weight"] = class_weight
    weighted = SVC("rbf", C, tol=1e-10, **options).fit(X, y, w)
    repeated = SVC("rbf", C, tol=1e-10, **options).fit(np.repeat(X, w, 0), np.repeat(y, w))
    assert weighted.kernel_ == repeated.kernel_ or weighted.kernel_.length_scale == pytest.approx(
        repeated.kernel_.length_scale, rel=1e-12
    )
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=2e-6
    )
    assert weighted.solution_.dual == pytest.approx(repeated.solution_.dual, rel=1e-7)


def test_rows_of_weight_zero_are_not_there():
    X, y = blobs(50)
    w = np.ones(50)
    w[10:20] = 0
    kept = np.flatnonzero(w)
    model, expected = SVC().fit(X, y, w), SVC().fit(X[kept], y[kept])
    np.testing.assert_array_equal(model.support_, kept[expected.support_])
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X))
    K = RBF(1.0)(X)
    model = SVC("precomputed").fit(K, y, w)
    assert model.support_vectors_.max() < 50 and model.n_features_in_ == 50
    plain = SVC(RBF(1.0)).fit(X, y, w)
    np.testing.assert_allclose(model.decision_function(K), plain.decision_function(X), atol=1e-8)


def test_a_class_without_weight_is_no_class():
    X, y = load_iris(return_X_y=True)
    model = SVC().fit(X, y, (y != 1).astype(float))
    np.testing.assert_array_equal(model.classes_, [0, 2])
    model = SVC(class_weight={0: 1.0, 1: 0.0, 2: 1.0}).fit(X, y)
    np.testing.assert_array_equal(model.classes_, [0, 2])
    with pytest.raises(InvalidInput, match="all rows of class 0, 2 have weight 0"):
        SVC().fit(X, y, (y == 1).astype(float))


# -------------------------------------------------------------------------------- kinds of data
def test_precomputed_sparse_frames_and_lists_say_the_same():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, y = load_iris(return_X_y=True)
    kernel = RBF(1.5)
    model = SVC(kernel).fit(X, y)
    expected = model.decision_function(X)
    for given in (X.tolist(), sp.csr_matrix(X), sp.coo_array(X), X.astype(np.float32)):
        other = SVC(kernel).fit(given, y)
        np.testing.assert_allclose(other.decision_function(given), expected, atol=1e-5)
    names = list("abcd")
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        other = SVC(kernel).fit(frame, y)
        np.testing.assert_allclose(other.decision_function(frame), expected, atol=1e-9)
        np.testing.assert_array_equal(other.feature_names_in_, names)
    gram = SVC("precomputed").fit(kernel(X), y)
    new = kernel(X[:7] + 0.1, X)
    np.testing.assert_allclose(
        gram.decision_function(new), model.decision_function(X[:7] + 0.1), atol=1e-8
    )
    np.testing.assert_array_equal(gram.support_vectors_, gram.support_)
    with pytest.raises(ValueError, match="is expecting 150 features"):
        gram.predict(new[:, :100])


def test_any_kernel_any_objects():
    words = ["aaa", "aab", "aba", "bbb", "bba", "bab", "aaaa", "bbbb"]
    y = np.array([0, 0, 0, 1, 1, 1, 0, 1])

    def letters(s, t):
        return float(s.count("a") * t.count("a") + s.count("b") * t.count("b"))

    model = SVC(letters, C=10.0).fit(words, y)
    np.testing.assert_array_equal(model.predict(words), y)
    assert set(model.support_vectors_) <= set(words)
    X, y = blobs(40)
    for kernel in (RBF().on([0, 1]) + Linear().on(2), 2.0 * Matern(1.0), RBF().normalized()):
        model = SVC(kernel).fit(X, y)
        assert model.solution_.converged
        np.testing.assert_allclose(model.function_(X), model.decision_function(X), atol=1e-10)
        assert len(model.function_) == len(model.support_)
    with pytest.raises(InvalidInput, match="short name"):
        SVC(3).fit(X, y)


def test_a_function_that_is_no_kernel_is_refused():
    X, y = blobs(30)
    with pytest.raises((NotPositiveDefinite, InvalidInput), match="kernel"):
        SVC(lambda a, b: float(-np.exp(-((a - b) ** 2).sum()))).fit(X, y)
    with pytest.raises(NotPositiveDefinite, match="SVC: the Gram matrix") as caught:
        SVC(lambda a, b: float(np.tanh(3 * a @ b + 1)), C=100.0).fit(X, y)
    assert caught.value.smallest_eigenvalue < 0


# ------------------------------------------------------------------------------- hostile data
def test_asymmetric_and_indefinite_matrices_are_refused():
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((60, 60)), np.arange(60) % 2
    with pytest.raises(InvalidInput, match="not symmetric"):
        SVC("precomputed").fit(A, y)
    with pytest.raises(InvalidInput, match="< 0"):
        SVC("precomputed").fit(-np.eye(60), y)
    with pytest.raises(NotPositiveDefinite, match=r"SVC.*smallest eigenvalue") as caught:
        SVC("precomputed", C=1e12).fit(A + A.T + 6 * np.eye(60), y)
    values = np.linalg.eigvalsh(A + A.T + 6 * np.eye(60))
    assert caught.value.smallest_eigenvalue == pytest.approx(values[0], rel=1e-3)
    with pytest.raises(InvalidInput, match="square"):
        SVC("precomputed").fit(A[:, :50], y)
    with pytest.raises(InvalidInput, match="square"):
        SVC("precomputed").fit(A[:, :50], y, sample_weight=np.arange(60.0))
    # as indefinite as single precision makes a true one: accepted
    X = rng.standard_normal((60, 3)).astype(np.float32)
    assert SVC("precomputed").fit(X @ X.T, y).solution_.converged


def test_an_indefinite_matrix_too_large_to_judge_is_caught_on_the_way(monkeypatch):
    from mercer.models.margin import problems

    monkeypatch.setattr(problems, "JUDGED", 10)
    y = np.arange(40) % 2
    K = np.full((40, 40), 2.0)
    np.fill_diagonal(K, 1.0)  # ‖φᵢ − φⱼ‖² = −2
    with pytest.raises(NotPositiveDefinite, match=r"SVC: .*curvature"):
        SVC("precomputed").fit(K, y)


@pytest.mark.parametrize("C", [1e-12, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("scale", [1.0, [1e6, 1, 1], 1e-6])
def test_extremes_end_with_a_certificate(C, kernel, scale):
    """C1 where rounding reigns."""
    X, y = blobs(60, seed=4)
    model = SVC(kernel, C, max_time=10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        model.fit(X * np.asarray(scale), y)
    solution = model.solution_
    assert np.isfinite([solution.primal, solution.dual, solution.gap, solution.residual]).all()
    assert solution.gap >= 0
    if solution.converged:
        assert solution.residual <= model.tol
    else:
        assert "Scale the columns" in solution.message and solution.message.startswith("SVC:")
    assert np.isfinite(model.decision_function(X * np.asarray(scale))).all()


def test_contradictory_duplicates_and_constant_kernels():
    X, y = np.repeat(blobs(8)[0], 10, axis=0), np.arange(80) % 2
    model = SVC(C=1e12).fit(X, y)
    assert model.solution_.converged and model.solution_.dual == pytest.approx(80e12)
    assert np.abs(model.decision_function(X)).max() < 0.1  # 1e12 times rounding
    for kernel in (Constant(2.0), "linear"):
        zero = np.zeros((80, 2))
        model = SVC(kernel).fit(zero, y)
        assert model.solution_.converged and model.margin_ == np.inf
        assert len(set(model.predict(zero))) == 1
    majority = np.arange(80) < 50
    for target in (majority, ~majority):
        model = SVC(Constant(1.0)).fit(zero, target)
        assert model.predict([[0.0, 0.0]])[0] == target[0]
        # the offset is free between −1 and 1 at most; the certificate does not mind which
        assert model.solution_.gap == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"C": 0}, "C=0; give a number > 0"),
        ({"C": -1.0}, "C=-1.0"),
        ({"C": "1"}, "C='1'"),
        ({"C": np.nan}, "C=nan"),
        ({"C": True}, "C=True"),
        ({"C": [1.0]}, "C="),
        ({"tol": 0}, "tol=0"),
        ({"tol": np.inf}, "finite"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"max_iter": 2.5}, "max_iter=2.5"),
        ({"max_time": 0}, "max_time=0"),
        ({"multi_class": "crammer"}, "'ovo'"),
        ({"class_weight": "equal"}, "class_weight"),
        ({"class_weight": {0: -1.0, 1: 1.0}}, "negative"),
        ({"class_weight": {7: 1.0}}, "class_weight"),
        ({"class_weight": {0: np.nan, 1: 1.0}}, "NaN"),
        ({"kernel": "rbff"}, "not a known name"),
    ],
)
def test_bad_parameters_are_named(params, match):
    X, y = blobs(20)
    with pytest.raises(InvalidInput, match=match) as caught:
        SVC(**params).fit(X, y)
    assert str(caught.value).startswith("SVC")


def test_bad_data_are_named():
    X, y = blobs(20)
    hole = X.copy()
    hole[3, 1] = np.nan
    for bad, match in [
        ((hole, y), "NaN"),
        ((np.zeros((0, 3)), []), "0 sample"),
        ((X, np.zeros(20)), "one class"),
        ((X, y[:10]), "20 rows and y has 10"),
        ((X, None), "requires y"),
        ((X, np.linspace(0, 1, 20)), "Unknown label type"),
        ((X, np.c_[y, y]), "y should be a 1d array|1d"),
        ((X, y, -np.ones(20)), "negative"),
        ((X, y, np.zeros(20)), "all sample weights are zero"),
        ((X, y, np.ones(19)), r"expected \(20,\)"),
        ((X * 1e200, y), "overflow|finite"),
    ]:
        with pytest.raises(InvalidInput, match=match):
            SVC("poly").fit(*bad)
    model = SVC().fit(X, y)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :2])
    with pytest.raises(InvalidInput, match="inf at row 1"):
        SVC("poly").fit(X, y).decision_function([[0, 0, 0], [1e200, 0, 0]])


MIXED = {
    "numbers, str": np.array([1, "a"] * 10, dtype=object),
    "bytes, numbers": np.array([1, b"a"] * 10, dtype=object),
    "str, tuple": np.array([("a",), "b"] * 10, dtype=object),
}


@pytest.mark.parametrize("kinds", MIXED)
@pytest.mark.parametrize(
    "model", [SVC(), KernelMachine(), KernelERM("rbf", "hinge")], ids=lambda m: type(m).__name__
)
def test_labels_of_mixed_kinds_are_refused_by_their_kinds(model, kinds):
    X = np.random.default_rng(0).standard_normal((20, 2))
    match = rf"{type(model).__name__}: y mixes labels of several kinds \({kinds}\); convert all"
    with pytest.raises(InvalidInput, match=match):
        model.fit(X, MIXED[kinds])
    model.fit(X, [str(label) for label in MIXED[kinds]])  # the cure
