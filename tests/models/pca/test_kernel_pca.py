"""KernelPCA against scikit-learn and the dense formulas, on every solver, and on hard data."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import KernelPCA as Peer

from mercer import RBF, FromFunction, KernelPCA, Linear, Matern, Polynomial, Spectrum, White, config
from mercer.errors import InvalidInput, MemoryBudgetExceeded, NotConverged, NotPositiveDefinite
from mercer.estimator import choice

SOLVERS = ["dense", "subspace", "cholesky"]


def points(n=60, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def same_up_to_sign(A, B, atol):
    assert A.shape == B.shape
    signs = np.sign((A * B).sum(axis=0))
    np.testing.assert_allclose(A, B * np.where(signs == 0, 1, signs), atol=atol)


def dense_formula(K, w):
    """Eigenpairs of √W(I − 1pᵀ)K(I − p1ᵀ)√W, written out."""
    n = len(K)
    H = np.eye(n) - np.outer(np.ones(n), w / w.sum())
    A = np.sqrt(w)[:, None] * (H @ K @ H.T) * np.sqrt(w)
    values, vectors = np.linalg.eigh((A + A.T) / 2)
    return A, values[::-1], vectors[:, ::-1]


# ------------------------------------------------------------------------------ the numbers
@pytest.mark.parametrize("solver", [*SOLVERS, "auto", "arpack", "randomized"])
def test_equals_scikit_learn(solver):
    X, new = points(), points(11, seed=1)
    ours = KernelPCA(4, RBF(1.5), eigen_solver=solver, tol=1e-12).fit(X)
    theirs = Peer(4, kernel="rbf", gamma=1 / 4.5).fit(X)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-9)
    same_up_to_sign(ours.eigenvectors_, theirs.eigenvectors_, 1e-8)
    same_up_to_sign(ours.transform(new), theirs.transform(new), 1e-8)
    np.testing.assert_allclose(ours.fit_transform(X), ours.transform(X), atol=1e-8)


@pytest.mark.parametrize("kernel", [Polynomial(2), Linear(), Polynomial(3, 0.5)])
def test_finite_features_equal_the_gram_matrix(kernel):
    X, new = points(200), points(7, seed=1)
    by_features = KernelPCA(5, kernel).fit(X)
    by_gram = KernelPCA(5, kernel, eigen_solver="dense").fit(X)
    assert (by_features.eigen_solver_, by_gram.eigen_solver_) == ("features", "dense")
    np.testing.assert_allclose(by_features.eigenvalues_, by_gram.eigenvalues_, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(by_features.transform(new), by_gram.transform(new), atol=1e-7)
    a, b = by_features.reconstruction_error(new), by_gram.reconstruction_error(new)
    np.testing.assert_allclose(a, b, atol=1e-8 * max(1, b.max()))


def test_variances_and_shares():
    X = points()
    model = KernelPCA(kernel=RBF(1.5)).fit(X)
    _, values, _ = dense_formula(RBF(1.5)(X), np.ones(60))
    np.testing.assert_allclose(model.explained_variance_, values[: len(model.eigenvalues_)] / 60)
    np.testing.assert_allclose(model.explained_variance_ratio_.sum(), 1, rtol=1e-9)
    np.testing.assert_allclose(model.transform(X).var(axis=0), model.explained_variance_, rtol=1e-6)
    few = KernelPCA(3, RBF(1.5), eigen_solver="subspace").fit(X)
    np.testing.assert_allclose(
        few.explained_variance_ratio_, model.explained_variance_ratio_[:3], rtol=1e-8
    )


@pytest.mark.parametrize("solver", [*SOLVERS, "auto"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_share_of_the_variance_takes_the_least_number(solver, share):
    X = points(80)
    model = KernelPCA(share, RBF(1.5), eigen_solver=solver, rank=80).fit(X)
    ratio = np.cumsum(KernelPCA(kernel=RBF(1.5)).fit(X).explained_variance_ratio_)
    assert len(model.eigenvalues_) == int(np.argmax(ratio >= share)) + 1


@pytest.mark.parametrize("solver", SOLVERS)
def test_weights_by_the_formula_and_by_repetition(solver):
    rng = np.random.default_rng(3)
    X, new = points(30), points(9, seed=1)
    w = rng.integers(0, 4, 30).astype(float)
    options = {"eigen_solver": solver, "tol": 1e-12, "rank": 99}
    model = KernelPCA(4, RBF(1.5), **options).fit(X, sample_weight=w)
    _, values, _ = dense_formula(RBF(1.5)(X[w > 0]), w[w > 0])
    np.testing.assert_allclose(model.eigenvalues_, values[:4], rtol=1e-9)
    np.testing.assert_allclose(model.explained_variance_, values[:4] / w.sum(), rtol=1e-9)
    again = KernelPCA(4, RBF(1.5), **options).fit(np.repeat(X, w.astype(int), axis=0))
    np.testing.assert_allclose(model.transform(new), again.transform(new), atol=1e-8)
    np.testing.assert_allclose(
        model.reconstruction_error(new), again.reconstruction_error(new), atol=1e-8
    )
    assert model.fit_transform(X, sample_weight=w).shape == (30, 4)
    both = KernelPCA(4, "precomputed", **options).fit(RBF(1.5)(X), sample_weight=w)
    np.testing.assert_allclose(both.transform(RBF(1.5)(new, X)), model.transform(new), atol=1e-8)


@pytest.mark.parametrize("kernel", [RBF(1.0), Linear()], ids=str)
@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_the_unit_of_weights_does_not_matter(kernel, unit):
    X = points(30)
    model, plain = KernelPCA(3, kernel).fit(X, sample_weight=unit), KernelPCA(3, kernel).fit(X)
    np.testing.assert_allclose(model.transform(X), plain.transform(X), atol=1e-9)
    np.testing.assert_allclose(model.explained_variance_, plain.explained_variance_)


def test_the_matrix_that_was_given_is_left_alone():
    K = RBF(1.0)(points(30))
    before = K.copy()
    for order, solver in product("CF", ["auto", *SOLVERS]):
        given = np.array(K, order=order)
        KernelPCA(3, "precomputed", eigen_solver=solver).fit(given)
        np.testing.assert_array_equal(given, before)


def test_the_residual_is_that_of_the_definition():
    X, w = points(40), np.random.default_rng(0).uniform(0.5, 2, 40)
    for solver, tol in (("dense", 0), ("subspace", 1e-4), ("subspace", 0)):
        model = KernelPCA(3, RBF(1.0), eigen_solver=solver, tol=tol).fit(X, sample_weight=w)
        A, _, _ = dense_formula(RBF(1.0)(X), w)
        U, values = model.eigenvectors_, model.eigenvalues_
        true = np.linalg.norm(A @ U - U * values, axis=0).max() / values[0]
        np.testing.assert_allclose(model.solution_.residual, true, rtol=1e-3, atol=1e-14)
        assert model.solution_.converged and true <= max(tol, 1e-9)


def test_a_limit_is_told():
    X = points(300, 10)
    with pytest.warns(NotConverged, match="products"):
        model = KernelPCA(3, RBF(1.0), eigen_solver="subspace", max_iter=1).fit(X)
    assert not model.solution_.converged


@pytest.mark.parametrize("kernel", [RBF(1.0), Linear()])
def test_the_cure_of_a_limit_is_one_of_the_parameters(kernel):
    X = points(600, 3) if isinstance(kernel, RBF) else points(600, 700)
    model = KernelPCA(3, kernel, max_iter=1)
    with pytest.warns(NotConverged, match="raise max_iter, or use eigen_solver='dense'") as told:
        model.fit(X)
    assert "DenseEigen" not in str(told[0].message) and "oversample" not in str(told[0].message)
    model.set_params(eigen_solver="dense").fit(X)
    assert model.solution_.converged


def test_novelty_is_the_distance_in_feature_space():
    X, new = points(40), points(8, seed=2)
    for kernel in (RBF(1.5), Polynomial(2), Linear()):
        model = KernelPCA(3, kernel).fit(X)
        K, cross, own = kernel(X), kernel(new, X), kernel.diag(new)
        squared = own - 2 * cross.mean(axis=1) + K.mean() - (model.transform(new) ** 2).sum(axis=1)
        np.testing.assert_allclose(model.reconstruction_error(new), squared, atol=1e-9 * own.max())
        np.testing.assert_array_equal(model.score_samples(new), -model.reconstruction_error(new))
    full = KernelPCA(kernel=RBF(1.5)).fit(X)
    assert (full.reconstruction_error(X) >= 0).all()
    assert full.reconstruction_error(X).max() < 1e-7
    far = np.full((1, 3), 50.0)
    assert full.reconstruction_error(far) > full.reconstruction_error(X).max() + 0.5


def test_novelty_far_from_the_origin_keeps_its_digits():
    X = points(50, 4) * 1e-3
    near, far = KernelPCA(2, "linear").fit(X), KernelPCA(2, "linear").fit(X + 1e6)
    np.testing.assert_allclose(
        far.reconstruction_error(X + 1e6), near.reconstruction_error(X), rtol=1e-4
    )


# ------------------------------------------------------------------------------- other data
def test_strings_tables_sparse_and_functions():
    words = ["kernel", "kennel", "colonel", "corner", "banner", "tanner", "kettle", "nettle"]
    common = FromFunction(lambda s, t: float(len(set(s) & set(t))))
    model = KernelPCA(3, common).fit(words)
    K = np.array([[len(set(s) & set(t)) for t in words] for s in words], dtype=float)
    theirs = Peer(3, kernel="precomputed").fit(K)
    np.testing.assert_allclose(model.eigenvalues_, theirs.eigenvalues_, rtol=1e-9)
    assert model.transform(["kernel", "x"]).shape == (2, 3)
    with pytest.raises(InvalidInput, match="pre-image"):
        model.inverse_transform(np.zeros((1, 3)))
    with pytest.raises(InvalidInput, match="pre-image"):
        KernelPCA(3, common, fit_inverse_transform=True).fit(words)
    S = sp.random_array((50, 30), density=0.2, random_state=0, format="csr")
    for kernel in ("rbf", "linear", Polynomial(2)):
        a, b = KernelPCA(3, kernel).fit(S), KernelPCA(3, kernel).fit(S.toarray())
        np.testing.assert_allclose(a.transform(S), b.transform(S.toarray()), atol=1e-8)


def test_frames_in_and_out():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(points(30), columns=list("abc"))
    model = KernelPCA(2, "rbf").set_output(transform="pandas")
    out = model.fit_transform(frame)
    assert list(out.columns) == ["kernelpca0", "kernelpca1"]
    assert list(model.transform(frame).index) == list(frame.index)
    pl = pytest.importorskip("polars")
    polar = KernelPCA(2).set_output(transform="polars").fit_transform(pl.DataFrame(points(30)))
    assert polar.columns == ["kernelpca0", "kernelpca1"]


def test_float32_is_computed_in_float64():
    X = points().astype(np.float32)
    a, b = KernelPCA(3, RBF(2.0)).fit(X), KernelPCA(3, RBF(2.0)).fit(X.astype(float))
    assert a.transform(X).dtype == np.float64
    np.testing.assert_array_equal(a.eigenvalues_, b.eigenvalues_)


# -------------------------------------------------------------------------------- degenerate
@pytest.mark.parametrize("solver", [*SOLVERS, "auto"])
@pytest.mark.parametrize("kernel", [RBF(), "rbf", Linear(), Polynomial(2)], ids=str)
@pytest.mark.parametrize("X", [np.ones((1, 2)), np.full((6, 2), 3.7), np.zeros((5, 2))])
def test_no_variance_gives_zeros(X, kernel, solver):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = KernelPCA(2, kernel, eigen_solver=solver).fit(X)
        Z = model.transform(X)
    k = min(2, len(X))
    assert Z.shape == (len(X), k) and model.eigenvalues_.shape == (k,)
    np.testing.assert_allclose(Z, 0, atol=1e-12)
    np.testing.assert_array_equal(model.eigenvalues_, 0)
    np.testing.assert_array_equal(model.explained_variance_ratio_, 0)
    assert np.isfinite(model.transform(X + 1)).all()


@pytest.mark.parametrize("solver", [*SOLVERS, "features"])
def test_components_beyond_the_rank_are_zero(solver):
    X = np.outer(np.arange(8.0), [1.0, 2.0])  # a line
    model = KernelPCA(5, "linear", eigen_solver=solver).fit(X)
    assert model.eigenvalues_.shape == (5,) and (model.eigenvalues_[1:] == 0).all()
    Z = model.transform(X + 1)
    assert np.isfinite(Z).all() and (np.abs(Z[:, 1:]) < 1e-9).all()
    less = KernelPCA(5, "linear", eigen_solver=solver, remove_zero_eig=True).fit(X)
    assert less.eigenvalues_.shape == (1,)
    assert KernelPCA(kernel="linear").fit(X).eigenvalues_.shape == (1,)


def test_more_components_than_points():
    X = points(5)
    model = KernelPCA(9, RBF()).fit(X)
    assert model.transform(X).shape == (5, 5)
    assert model.eigenvalues_[-1] == 0  # centring takes one dimension


@pytest.mark.parametrize("scale", [1e-140, 1e-6, 1e6, 1e140])
def test_units_of_the_columns(scale):
    X = points(30)
    model, unit = KernelPCA(2, "linear").fit(X * scale), KernelPCA(2, "linear").fit(X)
    np.testing.assert_allclose(model.transform(X * scale) / scale, unit.transform(X), atol=1e-9)
    np.testing.assert_allclose(
        model.explained_variance_ratio_, unit.explained_variance_ratio_, rtol=1e-9
    )
    same = KernelPCA(2).fit(X * scale)
    np.testing.assert_allclose(
        same.transform(X * scale), KernelPCA(2).fit(X).transform(X), atol=1e-7
    )


@pytest.mark.parametrize("solver", [*SOLVERS, "auto"])
def test_indefinite_matrices_are_refused(solver):
    K = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(NotPositiveDefinite):
        KernelPCA(1, "precomputed", eigen_solver=solver).fit(K)


def test_what_is_refused():
    X = points(10)
    for wrong in (0, -1, 1.5, 0.0, 1.0, "3", True, np.nan):
        with pytest.raises(InvalidInput, match="n_components"):
            KernelPCA(wrong).fit(X)
    for name, value in (
        ("eigen_solver", "svd"),
        ("eigen_solver", None),
        ("tol", -1.0),
        ("alpha", "1"),
        ("max_iter", 0),
        ("rank", 2.5),
        ("fit_inverse_transform", "no"),
        ("remove_zero_eig", 1),
        ("random_state", "x"),
        ("random_state", -1),
        ("random_state", np.random.default_rng(0)),
    ):
        with pytest.raises(InvalidInput, match=name):
            KernelPCA(2, **{name: value}).fit(X)
    with pytest.raises(InvalidInput, match="finite features"):
        KernelPCA(2, "rbf", eigen_solver="features").fit(X)
    with pytest.raises(InvalidInput, match="n_components"):
        KernelPCA(kernel="rbf", eigen_solver="subspace").fit(X)
    bad = X.copy()
    bad[3, 1] = np.nan
    for wrong in (bad, np.zeros((0, 3)), X[0], "abc", None):
        with pytest.raises((InvalidInput, ValueError, TypeError)):
            KernelPCA(2).fit(wrong)
    with pytest.raises(InvalidInput, match="square"):
        KernelPCA(2, "precomputed").fit(X)
    model = KernelPCA(2, "precomputed").fit(X @ X.T)
    with pytest.raises(InvalidInput, match="k\\(x, x\\)"):
        model.reconstruction_error(X @ X.T)
    assert not hasattr(model, "partial_fit") and not hasattr(model, "score_samples")


def test_a_failed_fit_leaves_the_earlier_one():
    X = points(20)
    model = KernelPCA(2).fit(X)
    before = model.transform(X)
    with pytest.raises(InvalidInput):
        model.set_params(n_components=0).fit(X[:5])
    np.testing.assert_array_equal(model.transform(X), before)


# ------------------------------------------------------------------------------------ memory
def test_beyond_the_budget_pivots_are_used_and_their_error_told(monkeypatch):
    X = points(700, 2)
    with config(memory="2MB"):
        tiled = KernelPCA(4, RBF(1.0)).fit(X)
        monkeypatch.setattr(choice, "LIMIT", 0.0)
        model = KernelPCA(4, RBF(1.0)).fit(X)
    assert tiled.eigen_solver_ == "subspace" and tiled.approximation_error_ == 0
    assert model.eigen_solver_ == model.plan_.method == "cholesky"
    exact = KernelPCA(4, RBF(1.0), eigen_solver="dense").fit(X)
    error = model.approximation_error_
    assert 0 <= error < 1e-3 and model.solution_.summary()["approximation_error"] == error
    gap = exact.explained_variance_ratio_ - model.explained_variance_ratio_
    assert (np.abs(gap) <= error + 1e-12).all()
    same_up_to_sign(model.transform(X[:9]), exact.transform(X[:9]), 0.01 * np.sqrt(error))


def test_few_pivots_are_told_as_they_are():
    X = points(300, 6)
    model = KernelPCA(3, RBF(1.0), eigen_solver="cholesky", rank=20).fit(X)
    exact = KernelPCA(3, RBF(1.0), eigen_solver="dense").fit(X)
    assert len(model.X_fit_) == 20 and 0.1 < model.approximation_error_ < 1
    with pytest.warns(UserWarning, match=r"KernelPCA: the 20 pivots .* leave out \d+% of the var"):
        KernelPCA(3, RBF(1.0), eigen_solver="cholesky", rank=20).fit(X)
    assert (model.eigenvalues_ <= exact.eigenvalues_ * (1 + 1e-9)).all()
    lost = exact.eigenvalues_.sum() - model.eigenvalues_.sum()
    total = exact.eigenvalues_[0] / exact.explained_variance_ratio_[0]
    assert lost <= model.approximation_error_ * total * (1 + 1e-6)


def test_tiles_give_what_the_matrix_gives():
    X = points(600, 5)
    kept = KernelPCA(3, RBF(1.5), eigen_solver="subspace").fit(X)
    with config(memory="2.5MB"):
        tiled = KernelPCA(3, RBF(1.5), eigen_solver="subspace").fit(X)
        with pytest.raises(MemoryBudgetExceeded, match="cholesky"):
            KernelPCA(3, RBF(1.5), eigen_solver="dense").fit(X)
    np.testing.assert_allclose(tiled.eigenvalues_, kept.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(tiled.transform(X), kept.transform(X), atol=1e-6)


def test_noise_on_the_diagonal_is_the_training_points_own():
    X = points(30)
    model = KernelPCA(2, RBF() + White(0.5)).fit(X)
    plain = KernelPCA(2, RBF()).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, plain.eigenvalues_ + 0.5, rtol=1e-9)


def test_same_seed_same_bits_none_is_zero():
    X = points(900, 6)
    for solver in ("subspace", "cholesky"):
        a, b = (
            KernelPCA(3, Matern(2.0), eigen_solver=solver, random_state=s).fit(X).transform(X[:5])
            for s in (None, 0)
        )
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kernel", [Spectrum(1), Spectrum(2).normalized(), Spectrum(1).on("s")])
def test_letters_that_training_did_not_have_are_novel(kernel):
    def points(strings):
        return {"s": strings} if kernel.domain.name == "tables" else strings

    X, new = points(["ab", "ba", "aab", "bba", "aa"] * 3), points(["abcc", "ab", "", "cc", "bac"])
    model = KernelPCA(2, kernel).fit(X)
    K = np.asarray(kernel(X))
    by_values = KernelPCA(2, "precomputed").fit(K)
    assert model.axes_ is not None
    k_new = np.asarray(kernel(new, X))
    distance = kernel.diag(new) - 2 * k_new.mean(axis=1) + K.mean()
    Z = by_values.transform(k_new)
    expected = distance - (Z**2).sum(axis=1)
    np.testing.assert_allclose(model.reconstruction_error(new), expected, atol=1e-10)
    assert (model.score_samples(new)[[0, 3]] < -0.3).all()
    batches = KernelPCA(2, kernel).partial_fit(X)
    np.testing.assert_allclose(batches.reconstruction_error(new), expected, atol=1e-10)
