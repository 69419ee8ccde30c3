"""What models say of data and parameters they refuse: where it is, and what may help."""

from __future__ import annotations

import inspect
from functools import partial

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone

import mercer
from mercer import (
    RBF,
    SVC,
    SVR,
    KernelPerceptron,
    KernelRidge,
    KernelRidgeClassifier,
    NuSVC,
    NuSVR,
    OneClassSVM,
)
from mercer.errors import InvalidInput

RNG = np.random.default_rng(0)
X = RNG.standard_normal((20, 3))
Y = np.arange(20) % 2
ALL = [SVC(), NuSVC(), SVR(), NuSVR(), OneClassSVM(), KernelPerceptron()]
ALL += [KernelRidge(), KernelRidgeClassifier()]
each = pytest.mark.parametrize("model", ALL, ids=lambda m: type(m).__name__)


def said(model, *data):
    with pytest.raises(InvalidInput) as caught:
        clone(model).fit(*data)
    text = str(caught.value)
    assert text.startswith(type(model).__name__) and len(text) < 300, text
    return text


def hole(value=np.nan, at=(3, 1)):
    Z = X.copy()
    Z[at] = value
    return Z


# ------------------------------------------------------------------------------------ points
@each
def test_a_hole_is_found(model):
    assert "X contains NaN at row 3, column 1. " in said(model, hole(), Y)
    assert "X contains infinity at row 3, column 1. " in said(model, hole(np.inf), Y)
    assert "X contains -infinity at row 7, column 0. " in said(model, hole(-np.inf, (7, 0)), Y)
    assert "SimpleImputer" in said(model, sp.csr_matrix(hole()), Y)
    assert "row 3, column 1" in said(model, sp.csr_array(hole()), Y)
    assert "row 3, column 1" in said(model, hole().tolist(), Y)
    fitted = clone(model).fit(X, Y)
    with pytest.raises(InvalidInput, match="row 5, column 2"):
        fitted.predict(hole(at=(5, 2)))


@each
def test_a_hole_in_a_frame_is_named(model):
    pl = pytest.importorskip("polars")
    frame = pd.DataFrame(hole(), columns=["age", "height", "mass"])
    for given in (frame, pl.from_pandas(frame), {name: frame[name] for name in frame}):
        assert "row 3, column 1 ('height')" in said(model, given, Y)
    missing = pd.DataFrame({"a": X[:, 0], "b": pd.array([1, None] * 10, dtype="Int64")})
    assert "X" in said(model, missing, Y)


def test_a_hole_in_a_matrix_is_a_point_to_leave_out():
    text = said(SVC("precomputed"), np.full((20, 20), np.nan), Y)
    assert "row 0, column 0" in text and "a row and a column each" in text
    assert "Imputer" not in text


@each
def test_words_ask_for_a_kernel_on_objects(model):
    for given in (["abc", "de"] * 10, np.array([["ab", "c"]] * 20), pd.Series(["a", "b"] * 10)):
        assert "function of two objects" in said(model, given, Y)


@each
def test_complex_points_are_refused_in_few_words(model):
    assert "hstack([X.real, X.imag])" in said(model, X + 1j, Y)
    assert "X.real" in said(clone(model).set_params(kernel="precomputed"), X @ X.T + 0j, Y)


# ------------------------------------------------------------------------------------ targets
@pytest.mark.parametrize("model", [SVR(), NuSVR(), KernelRidge()], ids=repr)
def test_targets_are_not_told_what_helps_points(model):
    y = X[:, 0].copy()
    y[4] = np.nan
    for bad in (y, y.tolist(), pd.Series(y)):
        text = said(model, X, bad)
        assert "y contains NaN at row 4. Leave out those rows" in text
        assert "Imputer" not in text
    text = said(model, X, ["red", "blue"] * 10)
    other = {"SVR": "SVC", "NuSVR": "NuSVC", "KernelRidge": "KernelRidgeClassifier"}
    assert f"class labels take {other[type(model).__name__]}." in text
    assert "TableEncoder" not in text
    assert "y.real" in said(model, X, Y * 1j)


# ---------------------------------------------------------------------------- float32 matrices
def noisy(size):
    K = RBF(1.0)(X)
    return (K * (1 + size * RNG.standard_normal(K.shape))).astype(np.float32)


def test_rounding_of_a_float32_matrix_is_no_asymmetry():
    K = noisy(1e-7)
    assert abs(K - K.T).max() > 1e-8
    for model in (SVC("precomputed"), SVR("precomputed"), KernelRidge("precomputed")):
        got = model.fit(K, Y).predict(K)
        exact = clone(model).fit(RBF(1.0)(X), Y).predict(RBF(1.0)(X))
        np.testing.assert_allclose(got, exact, atol=1e-4)
        clone(model).fit(pd.DataFrame(K), Y)
    torch = pytest.importorskip("torch")
    SVC("precomputed").fit(torch.as_tensor(K), Y)


def test_an_asymmetry_is_told_by_its_size():
    for K in (noisy(1e-2), noisy(1e-7).astype(float)):
        with pytest.raises(InvalidInput, match=r"differ by [\d.e-]+, more than the") as caught:
            SVC("precomputed").fit(K, Y)
        assert "(K + K.T) / 2" in str(caught.value)
    with pytest.raises(InvalidInput, match="square"):
        SVC("precomputed").fit(noisy(1e-7)[:, :10], Y)


# --------------------------------------------------------------------------------- parameters
@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ({"typo": 9}, "entry for 'typo', which is not a class; the classes are"),
        ({0: 1.0, "typo": 9}, "'typo'"),
        ({0: 1.0, 1: 2.0, "typo": 9}, "'typo'"),
        ({0: 1.0, 7: 9}, "entry for 7"),
        ({0: "heavy", 1: 1.0}, r"\[0\]='heavy'"),
        ({0: None, 1: 1.0}, r"\[0\]=None"),
        ("balance", "'balance'; give 'balanced'"),
        ([1, 2], r"\[1, 2\]; give 'balanced'"),
        (2.0, "2.0; give 'balanced'"),
    ],
)
@pytest.mark.parametrize("cls", [SVC, NuSVC, KernelRidgeClassifier])
def test_class_weights_that_name_no_class(cls, weights, match):
    with pytest.raises(InvalidInput, match=f"{cls.__name__}: class_weight.*{match}"):
        cls(class_weight=weights).fit(X, Y)


def test_class_weights_that_make_sense():
    plain = SVC().fit(X, Y).decision_function(X)
    for weights in ({0: 1, 1: 1}, {0: 1.0}, {}, {0: 1, 1: 1, 5: 3}):  # 5 is missing in these rows
        np.testing.assert_allclose(SVC(class_weight=weights).fit(X, Y).decision_function(X), plain)
    text = np.where(Y == 1, "yes", "no")
    named = SVC(class_weight={"yes": 3.0}).fit(X, text).decision_function(X)
    np.testing.assert_allclose(named, SVC(class_weight={1: 3.0}).fit(X, Y).decision_function(X))
    flags = SVC(class_weight={True: 3.0, False: 1.0}).fit(X, Y == 1).decision_function(X)
    np.testing.assert_allclose(named, flags)


@each
def test_parameters_of_scikit_learns_machines_are_found_in_the_kernel(model):
    for name in ("gamma", "kernel__gamma"):
        with pytest.raises(InvalidInput, match=r"RBF\(length_scale=1/sqrt\(2·gamma\)\)"):
            clone(model).set_params(**{name: 0.5})
    with pytest.raises(InvalidInput, match="offset=coef0"):
        clone(model).set_params(coef0=1.0)
    with pytest.raises(InvalidInput, match=r"Polynomial\(degree\)"):
        clone(model).set_params(degree=2)
    with pytest.raises(InvalidInput, match=r"there is no parameter 'gama' here; .*t has kernel, "):
        clone(model).set_params(gama=1.0)
    degree = clone(model).set_params(kernel="poly", kernel__degree=2).kernel.degree
    assert degree == 2


@pytest.mark.parametrize("value", ["no", "maybe", None, 2, 0.0, [True]])
@each
def test_switches_are_on_or_off(model, value):
    for name in {"fit_intercept", "probability", "shuffle"} & set(model.get_params()):
        text = said(clone(model).set_params(**{name: value}), X, Y)
        assert f"{name}={value!r}; give True or False." in text


def test_switches_may_be_numbers_of_numpy():
    plain = SVC(fit_intercept=False).fit(X, Y).decision_function(X)
    for value in (np.False_, 0, np.int64(0)):
        np.testing.assert_array_equal(
            mercer.SVC(fit_intercept=value).fit(X, Y).decision_function(X), plain
        )


GRAPHS = {
    "of one size": [nx.path_graph(4), nx.complete_graph(4)] * 10,
    "of several": [nx.path_graph(3 + i % 3) for i in range(20)],
    "ours": [mercer.Graph(n_nodes=2), mercer.Graph(n_nodes=2)] * 10,
}


@pytest.mark.parametrize("graphs", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("kernel", ["rbf", mercer.Minimum(), RBF().on(0), "precomputed"])
@each
def test_graphs_are_not_read_as_the_numbers_of_their_nodes(model, kernel, graphs):
    text = said(clone(model).set_params(kernel=kernel), graphs, Y)
    assert "X holds a Graph where numbers belong; give a kernel for such points" in text
    assert "mercer.WeisfeilerLehman(3) for graphs" in text


@pytest.mark.parametrize("graphs", GRAPHS.values(), ids=GRAPHS)
def test_new_points_that_are_graphs_are_refused_too(graphs):
    model = SVC().fit(X, Y)
    with pytest.raises(InvalidInput, match="X holds a Graph where numbers belong"):
        model.predict(graphs)
    with pytest.raises(InvalidInput, match=r"KernelDensity: X holds a Graph .* vectors only"):
        mercer.KernelDensity().fit(graphs)
    with pytest.raises(InvalidInput, match=r"X holds a Graph .*WeisfeilerLehman"):
        mercer.NadarayaWatson().fit(graphs, Y)


@each
@pytest.mark.parametrize("kernel", ["rbf", mercer.Minimum()])
def test_rows_of_different_lengths(model, kernel):
    text = said(clone(model).set_params(kernel=kernel), [[1.0, 2.0], [3.0]] * 10, Y)
    assert "rows of X have different lengths; give every row the same columns" in text


def test_models_that_weigh_points_by_any_kernel_say_so():
    words = ["ab", "ba"] * 10
    for model in (mercer.NadarayaWatson(), mercer.NadarayaWatsonClassifier()):
        assert "a kernel on strings, such as mercer.Spectrum(3)" in said(model, words, Y)
        model.set_params(kernel=mercer.Spectrum(1).normalized()).fit(words, Y)
    assert "Spectrum" not in said(mercer.KernelDensity(), words, Y)


@pytest.mark.parametrize(
    "outputs", [["ab", "ba"] * 10, np.array(["ab", "b"] * 10), *GRAPHS.values()]
)
def test_outputs_that_are_no_numbers_ask_for_a_kernel(outputs):
    text = said(mercer.StructuredKernelRidge(), X, outputs)
    assert "y holds" in text and "output_kernel=mercer.Spectrum(2) for strings" in text


PUBLIC = {
    thing
    for module in (mercer, mercer.models, mercer.features, mercer.selection)
    for thing in map(partial(getattr, module), module.__all__)
    if isinstance(thing, type)
    and issubclass(thing, BaseEstimator)
    and inspect.signature(thing).parameters
}


def unknown(call, **options):
    try:
        call(**options, lamda=1.0)
    except (InvalidInput, TypeError) as error:
        return str(error)


@pytest.mark.parametrize("cls", sorted(PUBLIC, key=lambda c: c.__name__))
def test_set_params_says_what_a_constructor_says(cls):
    parameters = inspect.signature(cls).parameters.values()
    needed = {p.name: [] for p in parameters if p.default is p.empty}
    text = unknown(cls(**needed).set_params)
    assert text == unknown(cls, **needed)
    assert text.startswith(f"{cls.__name__}: there is no parameter 'lamda' here; ")
