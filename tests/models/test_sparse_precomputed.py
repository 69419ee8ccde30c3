"""A sparse Gram matrix is the same matrix: in every estimator, test and search, or a refusal."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

import mercer
from mercer import RBF, SVC, KernelPCA, KernelRidge, Precomputed, statistics
from mercer.errors import InvalidInput, MemoryBudgetExceeded

ANSWERS = (
    "predict", "decision_function", "predict_proba", "transform", "score_samples", "kneighbors",
)  # fmt: skip
#: Estimators whose kernel weighs differences or columns of points, and so is never precomputed.
POINTS = {
    "KDEClassifier", "KernelDensity", "RandomFourierFeatures", "TableClassifier",
    "TableRegressor", "TensorSketch",
}  # fmt: skip


def some(n: int = 24) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A Gram matrix that is half zeros, numbers, and classes."""
    X = np.random.default_rng(0).standard_normal((n, 2))
    near = RBF(0.5)(X)
    near[near < 0.05] = 0.0
    K = near @ near
    return 0.5 * (K + K.T) + 0.1 * np.eye(n), X[:, 0], (X[:, 0] > 0).astype(int)


def estimators() -> list[str]:
    held = [(name, getattr(mercer, name)) for name in mercer.__all__]
    return [
        name
        for name, cls in held
        if inspect.isclass(cls)
        and issubclass(cls, BaseEstimator)
        and "kernel" in inspect.signature(cls).parameters
        and name not in POINTS
    ]


def made(name: str) -> BaseEstimator:
    model = getattr(mercer, name)(kernel="precomputed")
    wanted = {"n_clusters": 2, "random_state": 0, "n_neighbors": 3}
    return model.set_params(**{k: v for k, v in wanted.items() if k in model.get_params()})


def answers(model: BaseEstimator, K: object) -> dict[str, object]:
    out: dict[str, object] = {}
    for name in ANSWERS:
        if hasattr(model, name):
            how = {"return_distance": False} if name == "kneighbors" else {}
            out[name] = getattr(model, name)(K, **how)
    return out


@pytest.mark.parametrize("name", estimators())
@pytest.mark.filterwarnings("ignore")
def test_every_estimator_takes_it(name):
    K, y, labels = some()
    model = made(name)
    target = labels if is_classifier(model) or name == "KernelMachine" else y
    assert get_tags(model).input_tags.sparse and get_tags(model).input_tags.pairwise
    dense = clone(model).fit(K, target)
    for form in (sp.csr_array, sp.coo_matrix):
        got = answers(clone(model).fit(form(K), target), form(K[:7]))
        for verb, value in answers(dense, K[:7]).items():
            np.testing.assert_array_equal(got[verb], value, err_msg=f"{name}.{verb}")


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"])
def test_every_format_and_type(form):
    K, y, _ = some()
    expected = KernelRidge("precomputed").fit(K, y).predict(K)
    for kind in (sp.csr_array, sp.csr_matrix):
        S = kind(K).asformat(form)
        np.testing.assert_array_equal(KernelRidge("precomputed").fit(S, y).predict(S), expected)
    single = sp.csr_array(K.astype(np.float32)).asformat(form)
    same = KernelRidge("precomputed").fit(K.astype(np.float32), y).predict(K)
    np.testing.assert_array_equal(KernelRidge("precomputed").fit(single, y).predict(K), same)
    whole = sp.eye_array(len(K), dtype=np.int64).asformat(form)
    np.testing.assert_allclose(KernelRidge("precomputed", 1.0).fit(whole, y).predict(whole), y / 2)


def test_kernels_made_of_it():
    K, y, _ = some()
    for kernel in (2.0 * Precomputed(), Precomputed() ** 2):
        expected = KernelRidge(kernel).fit(K, y).predict(K)
        S = sp.csr_array(K)
        np.testing.assert_array_equal(KernelRidge(kernel).fit(S, y).predict(S), expected)
        np.testing.assert_array_equal(kernel(S), kernel(K))


def test_cross_validation_pipelines_and_searches_slice_both_ways():
    K, y, labels = some()
    S = sp.csr_array(K)
    grid = {"C": [0.1, 10.0]}
    for model in (SVC("precomputed"), make_pipeline(SVC("precomputed"))):
        np.testing.assert_array_equal(
            cross_val_predict(model, S, labels, cv=3), cross_val_predict(model, K, labels, cv=3)
        )
    one, other = (GridSearchCV(SVC("precomputed"), grid, cv=3).fit(Z, labels) for Z in (S, K))
    np.testing.assert_array_equal(
        one.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"]
    )
    grid = {"alpha": [0.01, 1.0]}
    ours, dense = (mercer.search(KernelRidge("precomputed"), grid, Z, y, cv=3) for Z in (S, K))
    assert ours.best_params_ == dense.best_params_ and ours.best_score_ == dense.best_score_
    steps = make_pipeline(FunctionTransformer(lambda A: 2 * A), KernelPCA(2, "precomputed"))
    np.testing.assert_array_equal(steps.fit_transform(S), steps.fit_transform(K))


def test_statistics_take_it():
    K, _, _ = some()
    S, n = sp.csr_array(K), 10
    a, b = (statistics.mmd(Z[:n], Z[n:], "precomputed") for Z in (S, K))
    assert a == b
    a, b = (statistics.mmd_test(Z[:n], Z[n:], "precomputed", rng=0).pvalue for Z in (S, K))
    assert a == b
    a, b = (statistics.hsic_test(Z, Z, "precomputed", "precomputed", rng=0).pvalue for Z in (S, K))
    assert a == b
    assert mercer.check_kernel(Precomputed(), S).valid
    groups = np.arange(len(K)) % 2
    for given in (S, K):
        with pytest.raises(InvalidInput, match="mmd: Y holds one number for each point"):
            statistics.mmd(given, groups, "precomputed")


def test_what_is_no_gram_matrix_is_refused_as_a_dense_one():
    K, y, _ = some()
    model = KernelRidge("precomputed")
    skew, gone, tall = K.copy(), K.copy(), K[:, :5]
    skew[2, 3] += 1.0
    gone[1, 1] = np.nan
    for bad in (skew, gone, tall, -K, K[:0], K[:, :0]):
        texts = []
        for given in (bad, sp.csr_array(bad)):
            with pytest.raises(InvalidInput) as info:
                clone(model).fit(given, y)
            texts.append(str(info.value))
        assert texts[0] == texts[1]
    fitted = model.fit(sp.csr_array(K), y)
    with pytest.raises(InvalidInput, match="23 features"):
        fitted.predict(sp.csr_array(K[:, :-1]))
    with pytest.raises(InvalidInput):
        model.fit(sp.csr_array(K * 1j), y)
    broken = sp.csr_array(K)
    broken.indices[0] = 10**6
    with pytest.raises(InvalidInput, match="KernelRidge: X is a broken sparse matrix"):
        KernelRidge("precomputed").fit(broken, y)


def test_what_would_not_fit_in_dense_form_is_refused_before_it_is_made():
    wide = sp.eye_array(10**6, format="csr")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in (
            lambda: SVC("precomputed").fit(wide, np.arange(10**6) % 2),
            lambda: Precomputed()(wide),
            lambda: Precomputed().diag(wide),
            lambda: statistics.hsic(wide, wide, "precomputed", "precomputed"),
        ):
            with pytest.raises(
                MemoryBudgetExceeded, match=r"1000000 × 1000000 array needs 8\.0 TB"
            ):
                call()
    K, _, labels = some(40)
    model = SVC("precomputed").fit(sp.csr_array(K), labels)
    with mercer.config(memory=10_000), pytest.raises(MemoryBudgetExceeded, match="SVC: X is a"):
        model.predict(sp.csr_array(K))
