"""Structured outputs: the definition, the cases known by other names, outputs of every kind."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

import mercer
from mercer import RBF, KernelRidge, KernelRidgeClassifier, Linear, StructuredKernelRidge
from mercer.errors import InvalidInput, ModelFileError, NotAKernel, NotPositiveDefinite
from tests.models.words import alike, words

rng = np.random.default_rng(0)
X, NEW = rng.standard_normal((60, 3)), rng.standard_normal((25, 3))


def equal(a, b):
    return float(a == b)


def likeness(L, A, B):
    return np.array([[L(a, b) for b in B] for a in A])


def scores(k, L, alpha, X, Y, new, C, w=None):
    """The definition: β(x) = (K + αW⁻¹)⁻¹k(x), f(x, y) − ½l(y, y)."""
    W = np.eye(len(X)) if w is None else np.diag(1 / w)
    beta = np.linalg.solve(k(X) + alpha * W, k(X, new))
    return beta.T @ likeness(L, Y, C) - 0.5 * np.array([L(c, c) for c in C])


# --------------------------------------------------------------------------------- the definition
@pytest.mark.parametrize("alpha", [1e-3, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_the_definition(alpha, weighted):
    texts = words(60)
    w = rng.uniform(0.3, 2, 60) if weighted else None
    model = StructuredKernelRidge(RBF(), alike, alpha).fit(X, texts, w)
    assert list(model.outputs_) == sorted(set(texts)) == list(model.candidates_)
    for C in (None, words(9, seed=5)):
        among = list(model.outputs_) if C is None else C
        expected = scores(RBF(), alike, alpha, X, texts, NEW, among, w)
        np.testing.assert_allclose(
            model.decision_function(NEW, C), expected, rtol=1e-8, atol=1e-8 * abs(expected).max()
        )
        best = [among[i] for i in expected.argmax(1)]
        assert model.predict(NEW, C).tolist() == best


def test_the_score_is_half_the_squared_distance_to_the_predicted_features():
    Y = rng.standard_normal((60, 2))
    model = StructuredKernelRidge(RBF(), Linear(), 0.1).fit(X, Y)
    predicted = KernelRidge(RBF(), 0.1).fit(X, Y).predict(NEW)
    D = ((predicted[:, None] - model.candidates_[None]) ** 2).sum(-1)
    S = model.decision_function(NEW)
    gap = S + 0.5 * D  # ½‖f(x)‖², the same for all candidates
    np.testing.assert_allclose(gap, np.tile(0.5 * (predicted**2).sum(1), (60, 1)).T, rtol=1e-8)


def test_linear_outputs_are_ridge_and_the_nearest_candidate():
    Y = np.c_[np.sin(X[:, 0]), X[:, 1]]
    grid = np.array([[a, b] for a in np.linspace(-1, 1, 9) for b in np.linspace(-2, 2, 9)])
    predicted = KernelRidge(RBF(), 0.1).fit(X, Y).predict(NEW)
    nearest = grid[((predicted[:, None] - grid[None]) ** 2).sum(-1).argmin(1)]
    model = StructuredKernelRidge(RBF(), "linear", 0.1).fit(X, Y, candidates=grid)
    np.testing.assert_array_equal(model.predict(NEW), nearest)
    plain = StructuredKernelRidge(RBF(), "linear", 0.1).fit(X, Y)
    np.testing.assert_array_equal(plain.predict(NEW, candidates=grid), nearest)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_labels_that_are_equal_or_not_are_the_ridge_classifier(kernel):
    data, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    ours = StructuredKernelRidge(kernel, equal, 0.3).fit(data, names)
    one_hot = KernelRidge(kernel, 0.3).fit(data, np.eye(3)[y]).predict(data)
    np.testing.assert_allclose(ours.decision_function(data), one_hot - 0.5, atol=1e-9)
    theirs = KernelRidgeClassifier(kernel, 0.3, fit_intercept=False).fit(data, names)
    np.testing.assert_array_equal(ours.predict(data), theirs.predict(data))


def test_normalised_outputs_need_no_second_term():
    texts = words(60)
    kernel = mercer.FromFunction(alike).normalized()
    model = StructuredKernelRidge(RBF(), kernel, 0.1).fit(X, texts)
    f = model.decision_function(NEW) + 0.5
    assert (f.argmax(1) == model.decision_function(NEW).argmax(1)).all()
    L = kernel(texts, list(model.outputs_))
    expected = KernelRidge(RBF(), 0.1).fit(X, L).predict(NEW)
    np.testing.assert_allclose(f, expected, atol=1e-9)


# ------------------------------------------------------------------------------------ weights
def test_weights_are_repetitions_and_zero_is_absence():
    texts = words(60)
    weights = rng.integers(0, 3, 60).astype(float)
    weights[0] = 0
    repeated = np.repeat(np.arange(60), weights.astype(int))
    model = StructuredKernelRidge(RBF(), alike, 0.1).fit(X, texts, weights)
    again = StructuredKernelRidge(RBF(), alike, 0.1).fit(X[repeated], [texts[i] for i in repeated])
    assert model.outputs_ == again.outputs_
    assert (model.codes_[weights == 0] == -1).all()
    np.testing.assert_allclose(
        model.decision_function(NEW), again.decision_function(NEW), atol=1e-9
    )


# --------------------------------------------------------------------------------- leave one out
def test_loo_equals_refits():
    texts = words(20)
    model = StructuredKernelRidge(RBF(), alike, 0.3).fit(X[:20], texts)
    left_out = model.loo()
    for i in range(20):
        rest = np.arange(20) != i
        again = StructuredKernelRidge(RBF(), alike, 0.3).fit(
            X[:20][rest], [texts[j] for j in np.flatnonzero(rest)]
        )
        assert again.predict(X[[i]], candidates=model.candidates_)[0] == left_out[i]


def test_groups_are_left_out_together_and_a_second_fit_forgets_the_first():
    texts, groups = words(30), np.arange(30) % 5

    def told_apart(a, b):
        return alike(a, b) + float(a == b)

    model = StructuredKernelRidge(RBF(), told_apart, 0.3).fit(X[30:], words(30, seed=4))
    model.loo()
    model.fit(X[:30], texts)
    for group in range(5):
        rest, out = np.flatnonzero(groups != group), np.flatnonzero(groups == group)
        again = StructuredKernelRidge(RBF(), told_apart, 0.3).fit(X[rest], [texts[i] for i in rest])
        expected = again.predict(X[out], candidates=model.candidates_)
        np.testing.assert_array_equal(model.loo(groups=groups)[out], expected)
    alone = model.loo(groups=np.arange(30))
    np.testing.assert_array_equal(model.loo(), alone)


def test_loo_chooses_the_penalty_by_errors_in_the_space_of_outputs():
    Y = np.c_[np.sin(2 * X[:, 0]), X[:, 1] ** 2] + 0.3 * rng.standard_normal((60, 2))
    alphas = np.logspace(-3, 2, 9)
    ours = StructuredKernelRidge(RBF(), "linear", "loo", alphas=alphas).fit(X, Y)
    theirs = KernelRidge(RBF(), "loo", alphas=alphas).fit(X, Y)
    assert ours.alpha_ == theirs.alpha_
    np.testing.assert_allclose(ours.loo_errors_, 2 * theirs.loo_errors_, rtol=1e-6)
    at = StructuredKernelRidge(RBF(), "linear", float(ours.alpha_)).fit(X, Y)
    np.testing.assert_allclose(ours.decision_function(NEW), at.decision_function(NEW))


# ------------------------------------------------------------------------- outputs of every kind
def test_sets_lists_and_objects_without_a_hash():
    sets = [set(w) for w in words(60)]
    model = StructuredKernelRidge(RBF(), lambda a, b: float(len(a & b)), 0.1).fit(X, sets)
    assert len(model.outputs_) == len({frozenset(s) for s in sets})
    assert model.outputs_[0] == sets[0]  # in the order in which they first appear
    assert set(map(type, model.predict(NEW))) == {set}
    assert model.score(X, model.predict(X)) == 1.0


def test_numbers_in_one_dimension_come_back_in_one():
    y = np.round(np.sin(X[:, 0]), 1)
    model = StructuredKernelRidge(RBF(), RBF(0.3), 0.1).fit(X, y)
    assert model.outputs_.tolist() == sorted(set(y))
    predicted = model.predict(NEW)
    assert predicted.shape == (25,) and set(predicted) <= set(y)
    assert model.predict(NEW, candidates=[7.0, 8.0]).shape == (25,)
    assert model.predict(NEW, candidates=[[7.0], [8.0]]).shape == (25, 1)


def test_arrays_of_objects_series_and_lists_are_one():
    import pandas as pd

    texts = words(60)
    expected = StructuredKernelRidge(RBF(), alike, 0.1).fit(X, texts).predict(NEW)
    for given in (np.array(texts), np.array(texts, dtype=object), pd.Series(texts), tuple(texts)):
        model = StructuredKernelRidge(RBF(), alike, 0.1).fit(X, given)
        assert len(model.outputs_) == len(set(texts))
        np.testing.assert_array_equal(model.predict(NEW), expected)


def test_sparse_and_torch_outputs(torch):
    Y = np.round(rng.standard_normal((60, 2)), 1)
    dense = StructuredKernelRidge(RBF(), "linear", 0.1).fit(X, Y).predict(NEW)
    there = StructuredKernelRidge(RBF(), "linear", 0.1).fit(X, torch.as_tensor(Y)).predict(NEW)
    np.testing.assert_array_equal(there, dense)
    sparse = StructuredKernelRidge(RBF(), "linear", 0.1).fit(X, sp.csr_array(Y))
    np.testing.assert_array_equal(sparse.predict(NEW).toarray(), dense)
    assert 0 <= sparse.score(X, sp.csr_array(Y)) <= 1


def test_words_in_and_words_out():
    texts = words(40)
    turned = [w[::-1] for w in texts]
    model = StructuredKernelRidge(alike, lambda a, b: alike(a, b) + 5.0 * (a == b), 1e-3)
    model.fit(texts, turned)
    assert model.predict(texts[:5]).shape == (5,)


def test_precomputed_inputs():
    texts = words(60)
    given = StructuredKernelRidge(RBF(), alike, 0.1).fit(X, texts)
    model = StructuredKernelRidge("precomputed", alike, 0.1).fit(RBF()(X), texts)
    np.testing.assert_array_equal(model.predict(RBF()(NEW, X)), given.predict(NEW))
    C = words(7, seed=3)
    np.testing.assert_array_equal(model.predict(RBF()(NEW, X), C), given.predict(NEW, C))
    np.testing.assert_array_equal(model.loo(RBF()(X)), given.loo())


# ------------------------------------------------------------------------------ degenerate data
def test_one_output_one_row_and_ties():
    model = StructuredKernelRidge(RBF(), alike).fit(X, ["ab"] * 60)
    assert set(model.predict(NEW)) == {"ab"}
    model = StructuredKernelRidge(RBF(), alike).fit(X[:1], ["ab"])
    assert set(model.predict(NEW)) == {"ab"}
    model = StructuredKernelRidge(RBF(), equal).fit(X, ["b", "a"] * 30)
    far = np.full((1, 3), 1e6)
    assert model.decision_function(far).tolist() == [[-0.5, -0.5]]
    assert model.predict(far).tolist() == ["a"]


def test_score_is_the_share_of_exact_hits():
    texts = words(60)
    model = StructuredKernelRidge(RBF(0.3), equal, 1e-6).fit(X, texts)
    assert model.score(X, texts) == 1.0
    wrong = [*texts[:30], *(["zzz"] * 30)]
    assert model.score(X, wrong) == 0.5
    weights = np.r_[np.ones(30), np.zeros(30)]
    assert model.score(X, wrong, weights) == 1.0


@pytest.mark.parametrize(
    ("params", "words_of"),
    [
        ({"output_kernel": "precomputed"}, "positions as outputs"),
        ({"output_kernel": "nonsense"}, "output_kernel.*not a known name"),
        ({"alpha": -1.0}, "negative"),
        ({"alpha": "best"}, "'loo'"),
        ({"alpha": [1.0, 2.0]}, "number"),
    ],
)
def test_wrong_parameters(params, words_of):
    with pytest.raises(InvalidInput, match=words_of):
        StructuredKernelRidge(**params).fit(X, np.arange(60.0))


def test_wrong_data():
    fresh = StructuredKernelRidge(RBF(), alike)
    with pytest.raises(InvalidInput, match="y is None"):
        fresh.fit(X, None)
    with pytest.raises(InvalidInput, match="59 outputs"):
        fresh.fit(X, words(59))
    with pytest.raises(InvalidInput, match="candidates is empty"):
        fresh.fit(X, words(60), candidates=[])
    with pytest.raises(InvalidInput, match="y"):
        StructuredKernelRidge().fit(X, words(60))  # an RBF of texts
    model = fresh.fit(X, words(60))
    with pytest.raises(InvalidInput, match="candidates is empty"):
        model.predict(NEW, candidates=[])
    with pytest.raises(InvalidInput, match="another number"):
        model.score(X, words(3))
    with pytest.raises(InvalidInput):
        model.predict(NEW[:, :2])


def test_a_file_with_parts_that_do_not_belong_together(tmp_path):
    model = StructuredKernelRidge().fit(X, np.arange(60.0) % 7)
    path = tmp_path / "model.mercer"
    mercer.save(model, path)
    C = np.linspace(0, 7, 15)
    np.testing.assert_array_equal(mercer.load(path).predict(NEW, C), model.predict(NEW, C))
    for name, value in [
        ("codes_", model.codes_ + 7),
        ("codes_", model.codes_[:-1]),
        ("outputs_", model.outputs_[:-1]),
    ]:
        before = getattr(model, name)
        setattr(model, name, value)
        mercer.save(model, path)
        with pytest.raises(ModelFileError):
            mercer.load(path)
        setattr(model, name, before)


# ----------------------------------------------------------------------------- outputs as given
@pytest.mark.parametrize("l", [Linear(), RBF(0.5), equal, "rbf"])
@pytest.mark.parametrize(
    "y",
    [
        np.arange(60) % 3,
        (np.arange(60) % 3).astype(np.int8),
        np.arange(60) % 2 == 0,
        np.round(np.sin(X[:, 0]), 1).astype(np.float32),
    ],
    ids=["int", "int8", "bool", "float32"],
)
def test_numbers_keep_their_kind(l, y, tmp_path):
    model = StructuredKernelRidge(RBF(), l, 0.1).fit(X, y)
    for said in (model.predict(NEW), model.loo(), model.outputs_, model.candidates_):
        assert said.dtype == y.dtype and set(said.tolist()) <= set(y.tolist())
    assert model.predict(NEW, candidates=[5, 6]).tolist()[0] in (5, 6)
    if l is equal:
        return
    mercer.save(model, tmp_path / "m")
    np.testing.assert_array_equal(mercer.load(tmp_path / "m").predict(NEW), model.predict(NEW))
    table = np.c_[y, y]
    assert StructuredKernelRidge(RBF(), l, 0.1).fit(X, table).predict(NEW).dtype == y.dtype


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("rest", [[3], [3, 4]], ids=["ragged", "one length"])
def test_lists_stay_lists_and_tuples_tuples(kind, rest):
    def common(a, b):
        return float(len(set(a) & set(b)))

    Y = [kind([1, 2]), kind(rest)] * 30
    model = StructuredKernelRidge(RBF(), common, 0.1).fit(X, Y)
    said = model.predict(X)
    assert said.shape == (60,) and said.dtype == object
    for a in (*said, *model.outputs_, *model.loo()):
        assert type(a) is kind and a in Y and type(a[0]) is int
    assert len(model.outputs_) == 2 and 0 < model.score(X, Y) <= 1
    again = model.predict(X, candidates=[kind([1]), kind([3])])
    assert all(type(a) is kind for a in again)


def test_candidates_of_one_length_are_lists_where_the_outputs_are():
    def common(a, b):
        return float(sum(a.count(v) * b.count(v) for v in set(a)))

    model = StructuredKernelRidge(RBF(), common, 0.1).fit(X, [[1, 2], [3]] * 30)
    assert model.predict(X[:1], candidates=[[1, 5], [3, 5]])[0] in ([1, 5], [3, 5])


def test_lists_of_numbers_are_arrays_to_the_output_kernel():
    Y = np.round(rng.standard_normal((60, 2)), 1)
    model = StructuredKernelRidge(RBF(), lambda a, b: float(a @ b), 0.1).fit(X, Y.tolist())
    expected = StructuredKernelRidge(RBF(), Linear(), 0.1).fit(X, Y).predict(NEW)
    assert model.predict(NEW).tolist() == expected.tolist()


def test_whole_numbers_as_objects_stay_whole():
    for y in (np.array([1, 2] * 30, dtype=object), (1, 2) * 30, [1, 2] * 30):
        for l in (Linear(), equal):
            said = StructuredKernelRidge(RBF(), l, 0.1).fit(X, y).predict(NEW)
            assert {type(a) for a in said.tolist()} == {int}


def test_texts_as_an_array_come_back_as_one():
    texts = np.array(words(60))
    said = StructuredKernelRidge(RBF(), alike, 0.1).fit(X, texts).predict(NEW)
    assert said.dtype == texts.dtype


# ------------------------------------------------------------------------------------ refusals
def test_output_kernels_that_are_none():
    for function, message in (
        (lambda a, b: -1.0, "squared length"),
        (lambda a, b: float(a[0] < b[0]), "symmetric"),
    ):
        with pytest.raises(NotAKernel, match=message):
            StructuredKernelRidge(RBF(), function).fit(X, words(60))
    model = StructuredKernelRidge(RBF(), lambda a, b: float(a * b if a > 0 else -a * b))
    with pytest.raises(NotAKernel, match="candidate 1"):
        model.fit(X, [1.0, 2.0] * 30, candidates=[1.0, -1.0])
        model.predict(X)
    with pytest.raises(NotPositiveDefinite, match="output_kernel"):
        far = StructuredKernelRidge(RBF(), lambda a, b: 1.0 + abs(a - b), "loo")
        far.fit(X, list(np.arange(60.0) % 5))


def test_outputs_whose_squares_underflow_are_refused():
    y = X[:, 0] * 1e-200
    with pytest.raises(InvalidInput, match="underflows"):
        StructuredKernelRidge(RBF(), Linear()).fit(X, y)
    assert len(set(StructuredKernelRidge(RBF(), "rbf", 0.1).fit(X, y).predict(X))) > 1
    StructuredKernelRidge(RBF(), Linear()).fit(X, 0 * y)


def test_parameters_of_an_output_kernel_given_by_name():
    model = StructuredKernelRidge(output_kernel="rbf")
    assert model.set_params(output_kernel__length_scale=3.0).output_kernel == RBF(3.0)
    both = StructuredKernelRidge().set_params(
        output_kernel="matern",
        output_kernel__nu=0.5,
        kernel__length_scale=2.0,
        output_kernel__length_scale=1.0,
    )
    assert both.output_kernel == mercer.Matern(1.0, nu=0.5) and both.kernel == RBF(2.0)
    with pytest.raises(InvalidInput, match="'nope' is not a known name"):
        model.set_params(output_kernel="nope", output_kernel__length_scale=1.0)
