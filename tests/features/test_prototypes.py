"""Prototype features: which points they are, and what they see of any data."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

import mercer
from mercer import RBF, FromFunction, Linear, Prototypes, White
from mercer.errors import InvalidInput, MemoryBudgetExceeded, ModelFileError
from mercer.features.points import distinct
from mercer.kernels import as_kernel

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 3))
WORDS = ["abc", "abd", "xyz", "abc", "zzz", "ab"]


def common(s, t):
    return float(len(set(s) & set(t)))


# ------------------------------------------------------------------------------- the features
def test_they_are_kernel_values_one_by_one():
    model = Prototypes(RBF(1.3), X[:4]).fit(X)
    expected = [[np.exp(-((x - m) ** 2).sum() / (2 * 1.3**2)) for m in X[:4]] for x in X[:7]]
    np.testing.assert_allclose(model.transform(X[:7]), expected, rtol=1e-12)
    assert model.prototype_indices_ is None
    assert model.get_feature_names_out().tolist() == [f"prototypes{j}" for j in range(4)]


def test_all_points_in_an_order_of_their_own():
    model = Prototypes(RBF()).fit(X)
    np.testing.assert_array_equal(model.prototypes_, X[model.prototype_indices_])
    np.testing.assert_array_equal(model.prototypes_, X[np.lexsort(X.T[::-1])])
    order = RNG.permutation(30)
    np.testing.assert_array_equal(Prototypes(RBF()).fit(X[order]).prototypes_, model.prototypes_)
    assert sorted(model.prototype_indices_) == list(range(30))


def test_a_row_given_twice_is_one_prototype():
    twice = np.vstack([X, X[:10], X[3:5]])
    assert len(Prototypes().fit(twice).prototypes_) == 30
    assert len(Prototypes().fit(sp.csr_array(twice)).prototype_indices_) == 30
    K = RBF()(twice)
    model = Prototypes("precomputed").fit(K)
    assert model.prototypes_.tolist() == list(range(30))
    np.testing.assert_array_equal(model.transform(K[:5]), K[:5, :30])


def test_a_row_of_weight_zero_is_none():
    w = np.ones(30)
    w[[0, 7]] = 0
    assert set(Prototypes().fit(X, sample_weight=w).prototype_indices_) == set(range(30)) - {0, 7}
    twice, w = np.vstack([X, X]), np.r_[np.zeros(30), np.ones(30)]
    for kernel, data in (
        (RBF(), twice),
        (RBF(), sp.csr_array(twice)),
        ("precomputed", RBF()(twice)),
    ):
        index = Prototypes(kernel).fit(data, sample_weight=w).prototype_indices_
        assert sorted(index) == list(range(30, 60))


def test_white_noise_is_no_part_of_a_feature():
    model = Prototypes(RBF() + White(5.0), X).fit(X)
    np.testing.assert_allclose(model.transform(X).diagonal(), 1.0)
    np.testing.assert_allclose(model.transform(model.prototypes_).diagonal(), 1.0)


def test_sparse_and_dense_are_alike():
    sparse = sp.random_array(
        (40, 9), density=0.3, random_state=np.random.default_rng(1), format="csr"
    )
    dense = Prototypes(Linear()).fit(sparse.toarray())
    model = Prototypes(Linear()).fit(sparse)
    assert model.prototype_indices_.tolist() == dense.prototype_indices_.tolist()
    np.testing.assert_allclose(model.transform(sparse), dense.transform(sparse.toarray()))
    again = sp.csr_array((sparse.data * 0, sparse.indices, sparse.indptr), shape=sparse.shape)
    assert len(Prototypes(Linear()).fit(again).prototype_indices_) == 1  # stored zeros are zeros


# -------------------------------------------------------------------------- how they are chosen
def test_random_ones_are_rows():
    model = Prototypes(prototypes="random", n_prototypes=7, random_state=3).fit(X)
    assert len(set(model.prototype_indices_)) == 7
    np.testing.assert_array_equal(model.prototypes_, X[model.prototype_indices_])
    same = Prototypes(prototypes="random", n_prototypes=7, random_state=3).fit(X)
    assert same.prototype_indices_.tolist() == model.prototype_indices_.tolist()
    other = Prototypes(prototypes="random", n_prototypes=7, random_state=4).fit(X)
    assert set(other.prototype_indices_) != set(model.prototype_indices_)


@pytest.mark.parametrize(
    ("rule", "count"), [(1, 1), (12, 12), (np.int64(5), 5), (0.5, 15), (0.01, 1), ("sqrt", 6)]
)
@pytest.mark.parametrize("how", ["random", "kmeans"])
def test_how_many(how, rule, count):
    model = Prototypes(prototypes=how, n_prototypes=rule, random_state=0).fit(X)
    assert model.transform(X).shape == (30, count)


@pytest.mark.parametrize("how", ["random", "kmeans"])
def test_more_than_there_are_points_is_all_and_said(how):
    with pytest.warns(UserWarning, match="n_prototypes=100, but there are 30 different points"):
        model = Prototypes(prototypes=how).fit(X)
    np.testing.assert_array_equal(model.prototypes_, Prototypes().fit(X).prototypes_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Prototypes(prototypes=how, n_prototypes=30).fit(X)


def test_means_of_clusters():
    centres = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    Z = np.repeat(centres, 20, axis=0) + 0.1 * RNG.standard_normal((60, 2))
    model = Prototypes(RBF(), "kmeans", n_prototypes=3, random_state=0).fit(Z)
    means = Z.reshape(3, 20, 2).mean(axis=1)
    np.testing.assert_allclose(sorted(model.prototypes_.tolist()), sorted(means.tolist()))
    order = RNG.permutation(60)
    again = Prototypes(RBF(), "kmeans", n_prototypes=3, random_state=0).fit(Z[order])
    np.testing.assert_array_equal(again.prototypes_, model.prototypes_)
    sparse = Prototypes(RBF(), "kmeans", n_prototypes=3, random_state=0).fit(sp.csr_array(Z))
    np.testing.assert_allclose(sparse.prototypes_, model.prototypes_)


def test_weights_move_the_means_as_repetition_does():
    w = RNG.integers(0, 4, 30)
    kind = Prototypes(RBF(), "kmeans", n_prototypes=4, random_state=0)
    a = kind.fit(X, sample_weight=w).prototypes_
    b = kind.fit(np.repeat(X, w, axis=0)).prototypes_
    np.testing.assert_array_equal(a, b)
    assert not np.allclose(a, kind.fit(X).prototypes_)


# ----------------------------------------------------------------------------------- other data
@pytest.mark.parametrize("how", ["all", "random", ["abc", "zzz"]])
def test_strings(how):
    model = Prototypes(common, how, n_prototypes=2, random_state=0).fit(WORDS)
    Z = model.transform(WORDS)
    expected = [[common(s, t) for t in model.prototypes_] for s in WORDS]
    np.testing.assert_array_equal(Z, expected)
    assert Z.shape[1] == (5 if isinstance(how, str) and how == "all" else 2)


def test_means_of_strings_are_refused():
    for kernel, data in ((common, WORDS), ("precomputed", RBF()(X))):
        with pytest.raises(InvalidInput, match=r"takes means of points.*prototypes='random'"):
            Prototypes(kernel, "kmeans").fit(data)


def test_frames_and_columns():
    frame = pd.DataFrame(X, columns=list("abc"))
    kernel = RBF().on("a") * RBF().on(["b", "c"])
    model = Prototypes(kernel, frame.iloc[:5]).fit(frame)
    np.testing.assert_allclose(model.transform(frame)[:5], RBF()(X[:5]), rtol=1e-12)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    table = mercer.domains.Table({"a": [1.0, 2.0, 1.0], "b": ["x", "y", "x"]})
    index, total = distinct(RBF().on("a"), table, None)
    assert index.tolist() == [0, 1] and total.tolist() == [2.0, 1.0]


def test_points_that_cannot_be_compared_count_as_different():
    kernel = FromFunction(lambda a, b: float(len(a["k"]) + len(b["k"])))
    assert len(Prototypes(kernel).fit([{"k": "a"}, {"k": "a"}]).prototypes_) == 2


def test_precomputed_prototypes_are_columns():
    K = RBF()(X)
    model = Prototypes("precomputed", [5, 2]).fit(K)
    np.testing.assert_array_equal(model.transform(K[:3]), K[:3][:, [5, 2]])
    random = Prototypes("precomputed", "random", n_prototypes=3, random_state=0).fit(K)
    assert random.transform(K).shape == (30, 3)
    for bad in ([30], [-1], [0.5], [], [[1]]):
        with pytest.raises(InvalidInput, match="positions of training points"):
            Prototypes("precomputed", bad).fit(K)


def test_torch_and_lists(torch):
    expected = Prototypes(RBF(), X[:3]).fit(X).transform(X)
    for points in (torch.as_tensor(X[:3]), X[:3].tolist()):
        model = Prototypes(RBF(), points).fit(torch.as_tensor(X))
        np.testing.assert_allclose(model.transform(torch.as_tensor(X)), expected, rtol=1e-12)


# -------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"prototypes": "none"}, "give 'all', 'random', 'kmeans'"),
        ({"prototypes": X[:2, :2]}, "Prototypes: prototypes has 2 columns, and X has 3"),
        ({"prototypes": np.zeros((0, 3))}, "Prototypes: .*empty"),
        ({"prototypes": [[np.nan, 0, 0]]}, "Prototypes: .*prototypes contains nan"),
        ({"prototypes": "random", "n_prototypes": 0}, "n_prototypes=0"),
        ({"prototypes": "random", "n_prototypes": 1.5}, "n_prototypes=1.5"),
        ({"prototypes": "random", "n_prototypes": True}, "n_prototypes=True"),
        ({"prototypes": "kmeans", "n_prototypes": "many"}, "n_prototypes='many'"),
        ({"kernel": "nothing"}, "Prototypes: "),
    ],
)
def test_refusals(params, text):
    model = Prototypes().fit(X)
    before = model.transform(X)
    with pytest.raises(InvalidInput, match=text):
        model.set_params(**params).fit(X)
    np.testing.assert_array_equal(model.transform(X), before)  # the earlier fit is still there


def test_weights_are_checked():
    for bad in (np.ones(3), -np.ones(30), np.zeros(30), np.full(30, np.nan)):
        with pytest.raises(InvalidInput, match="Prototypes"):
            Prototypes().fit(X, sample_weight=bad)


def test_the_memory_budget_is_kept():
    with mercer.config(memory=10_000), pytest.raises(MemoryBudgetExceeded):
        Prototypes(RBF()).fit(X).transform(np.zeros((1000, 3)))


# ------------------------------------------------------------------------------------- its life
def test_one_point():
    model = Prototypes().fit([[1.0, 2.0]])
    assert model.transform([[1.0, 2.0]]).tolist() == [[1.0]]


def test_in_a_pipeline_with_nested_parameters():
    y = X[:, 0] * X[:, 1] > 0
    pipe = make_pipeline(Prototypes(), LogisticRegression(C=100))
    pipe.set_params(prototypes__kernel__length_scale=0.7)
    assert pipe.fit(X, y).score(X, y) == 1.0
    assert pipe[0].kernel_ == as_kernel("rbf").set_params(length_scale=0.7)
    assert make_pipeline(Prototypes(prototypes=X[:9]), Ridge()).fit(X, X[:, 0]).predict(X).shape


def test_saved_and_loaded(tmp_path):
    for model, data in (
        (Prototypes(RBF(), X[:3]), X),
        (Prototypes(Linear()), sp.csr_array(X)),
        (Prototypes("precomputed", [1, 4]), RBF()(X)),
    ):
        fitted = model.fit(data)
        mercer.save(fitted, tmp_path / "p.mercer")
        again = mercer.load(tmp_path / "p.mercer")
        np.testing.assert_array_equal(again.transform(data), fitted.transform(data))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("prototypes_", None),
        ("prototypes_", np.zeros((2, 5))),
        ("prototype_indices_", np.arange(2)),
        ("kernel_", None),
    ],
)
def test_a_state_that_does_not_fit_is_refused(name, value):
    model = Prototypes().fit(X)
    model._check_state()
    if value is None:
        delattr(model, name)
    else:
        setattr(model, name, value)
    with pytest.raises(ModelFileError):
        model._check_state()


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e200, 1e300])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_means_at_extreme_scales_are_those_of_moderate_ones(scale, make):
    X = np.random.default_rng(0).standard_normal((40, 2))
    maps = [
        Prototypes("rbf", "kmeans", n_prototypes=3, random_state=0).fit(make(Z))
        for Z in (X, X * scale)
    ]
    plain, scaled = (np.asarray(m.prototypes_) for m in maps)
    order = [np.lexsort(p.T / abs(p).max()) for p in (plain, scaled)]
    np.testing.assert_allclose(scaled[order[1]] / scale, plain[order[0]], rtol=1e-9)


@pytest.mark.parametrize("empty", [[], (), np.empty((0, 2)), np.array([])])
def test_no_prototypes(empty):
    with pytest.raises(InvalidInput, match="prototypes is empty; give one point or more"):
        Prototypes("rbf", empty).fit(np.eye(2))
