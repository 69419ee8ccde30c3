"""Batches: exact for finite features, equal to the fit for other kernels, honest when limited."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import (
    RBF,
    FromFunction,
    KernelPCA,
    Laplacian,
    Matern,
    Polynomial,
    Spectrum,
    config,
    load,
    save,
)
from mercer.errors import InvalidInput, MemoryBudgetExceeded, NotPositiveDefinite
from mercer.models.pca.incremental import RunningScatter, SpanBasis
from mercer.settings import get_config


def points(n=90, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def in_batches(model, X, sizes, w=None):
    start = 0
    for size in sizes:
        part = slice(start, start + size)
        model.partial_fit(X[part], sample_weight=None if w is None else w[part])
        start += size
    assert start == len(X)
    return model


def agree(a, b, new, rtol, atol):
    np.testing.assert_allclose(a.eigenvalues_, b.eigenvalues_, rtol=rtol)
    np.testing.assert_allclose(a.explained_variance_, b.explained_variance_, rtol=rtol)
    np.testing.assert_allclose(a.explained_variance_ratio_, b.explained_variance_ratio_, rtol=rtol)
    np.testing.assert_allclose(np.abs(a.transform(new)), np.abs(b.transform(new)), atol=atol)
    np.testing.assert_allclose(
        a.reconstruction_error(new), b.reconstruction_error(new), atol=atol, rtol=rtol
    )


@pytest.mark.parametrize("sizes", [(90,), (1,) * 90, (50, 3, 37)])
@pytest.mark.parametrize("kernel", ["linear", Polynomial(2), Polynomial(3, 0.5)], ids=str)
def test_finite_features_are_exact(kernel, sizes):
    X, new = points(), points(8, seed=1)
    agree(in_batches(KernelPCA(4, kernel), X, sizes), KernelPCA(4, kernel).fit(X), new, 1e-9, 1e-8)


@pytest.mark.parametrize("sizes", [(90,), (10,) * 9, (1, 60, 29)])
@pytest.mark.parametrize("kernel", [RBF(1.5), Matern(1.0), Laplacian(1.0)], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_other_kernels_are_the_fit_with_enough_points(kernel, sizes, weighted):
    X, new = points(), points(8, seed=1)
    w = np.random.default_rng(2).uniform(0, 2, 90) if weighted else None
    if w is not None:
        w[3:8] = 0.0
    whole = KernelPCA(4, kernel).fit(X, sample_weight=w)
    agree(in_batches(KernelPCA(4, kernel), X, sizes, w), whole, new, 1e-7, 1e-6)


def test_smooth_kernels_keep_few_points():
    X = points(400, 1)
    model = in_batches(KernelPCA(3, RBF(2.0)), X, (100,) * 4)
    assert len(model.X_fit_) < 60 and model.approximation_error_ < 1e-9
    agree(model, KernelPCA(3, RBF(2.0)).fit(X), X[:9], 1e-7, 1e-6)


def test_a_limit_is_kept_and_its_error_told():
    X = points(200, 4)
    model = in_batches(KernelPCA(3, RBF(1.0), rank=15), X, (50,) * 4)
    whole = KernelPCA(3, RBF(1.0)).fit(X)
    assert len(model.X_fit_) == 15 and 0.2 < model.approximation_error_ < 1
    assert (model.eigenvalues_ <= whole.eigenvalues_ * (1 + 1e-9)).all()
    assert np.isfinite(model.transform(X)).all()


def test_batches_after_a_fit_go_on_from_its_rows():
    X, new = points(), points(8, seed=1)
    for kernel in (RBF(1.5), Polynomial(2)):
        model = KernelPCA(4, kernel).fit(X[:40]).partial_fit(X[40:])
        agree(model, KernelPCA(4, kernel).fit(X), new, 1e-7, 1e-6)
    few = KernelPCA(3, RBF(1.5), eigen_solver="cholesky", rank=10).fit(X)
    with pytest.raises(InvalidInput, match="pivots"):
        few.partial_fit(X)
    np.testing.assert_array_equal(few.eigen_solver_, "cholesky")


@pytest.mark.parametrize("kernel", [RBF(1.5), Polynomial(2)], ids=str)
def test_files_and_copies_go_on(kernel, tmp_path):
    X = points()
    model = KernelPCA(3, kernel).partial_fit(X[:30])
    save(model, tmp_path / "m.mercer")
    again = load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    for m in (model, again):
        m.partial_fit(X[30:])
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


def test_finite_features_keep_no_points_and_the_docstring_says_so():
    model = KernelPCA(2, "linear").partial_fit(points())
    held = [name for name in ("X_fit_", "component_coef_", "center_coef_") if name in vars(model)]
    assert len(held) == 3 and all(getattr(model, name) is None for name in held)
    assert model.axes_ is not None and model.reconstruction_error(points(5)).shape == (5,)
    said = KernelPCA.__doc__.split("X_fit_ :")[1].split("component_coef_, ")[0]
    assert "None after `partial_fit`" in said


def test_a_word_is_resolved_on_the_first_batch():
    X = points()
    model = KernelPCA(2, "rbf").partial_fit(X[:30])
    first = model.kernel_
    assert model.partial_fit(X[30:] * 100).kernel_ == first


def test_strings_and_sparse_rows():
    words = ["kernel", "kennel", "colonel", "corner", "banner", "tanner", "kettle", "nettle"]
    common = FromFunction(lambda s, t: float(len(set(s) & set(t))))
    model = KernelPCA(2, common).partial_fit(words[:3]).partial_fit(words[3:])
    whole = KernelPCA(2, common).fit(words)
    np.testing.assert_allclose(model.eigenvalues_, whole.eigenvalues_, rtol=1e-8)
    S = sp.random_array((40, 6), density=0.4, random_state=0, format="csr")
    for kernel in ("linear", RBF(1.0)):
        model = KernelPCA(2, kernel).partial_fit(S[:15]).partial_fit(S[15:])
        whole = KernelPCA(2, kernel).fit(S)
        np.testing.assert_allclose(model.eigenvalues_, whole.eigenvalues_, rtol=1e-8)


def test_the_way_back_after_batches():
    X = points(60, 2)
    model = in_batches(KernelPCA(30, RBF(1.5), fit_inverse_transform=True), X, (20,) * 3)
    assert np.abs(model.inverse_transform(model.transform(X)) - X).max() < 0.1
    line = in_batches(KernelPCA(2, "linear"), X, (20,) * 3)
    np.testing.assert_allclose(line.inverse_transform(line.transform(X)), X, atol=1e-10)
    with pytest.raises(InvalidInput, match="axes_"):
        _ = line.function_


def test_a_bad_batch_changes_nothing():
    X = points()
    model = KernelPCA(2, RBF(1.5)).partial_fit(X[:50])
    before = model.transform(X)
    for wrong in (X[:, :2], np.full((2, 3), np.nan), np.zeros((0, 3))):
        with pytest.raises(InvalidInput):
            model.partial_fit(wrong)
    np.testing.assert_array_equal(model.transform(X), before)
    model.partial_fit(X[50:], sample_weight=np.r_[np.ones(39), 0.0])
    cross = FromFunction(lambda s, t: 1.0 if s == t else 2.0)
    with pytest.raises(NotPositiveDefinite):
        KernelPCA(2, cross).partial_fit(["a"]).partial_fit(["b"])


@pytest.mark.parametrize("kernel", [RBF(1.0), "linear"])
def test_one_point_and_equal_points(kernel):
    model = KernelPCA(2, kernel).partial_fit(np.ones((1, 2)))
    np.testing.assert_allclose(model.transform(np.ones((3, 2))), 0, atol=1e-14)
    model.partial_fit(np.ones((4, 2)))
    np.testing.assert_array_equal(model.eigenvalues_, 0)
    model.partial_fit(np.zeros((5, 2)))
    whole = KernelPCA(2, kernel).fit(np.r_[np.ones((5, 2)), np.zeros((5, 2))])
    np.testing.assert_allclose(model.eigenvalues_, whole.eigenvalues_, atol=1e-12)


def test_moments_are_those_of_all_rows():
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((50, 4)) + 3, rng.uniform(0.1, 2, 50)
    moments = RunningScatter.none(4)
    for part in np.array_split(np.arange(50), 7):
        moments = moments.add(X[part], w[part])
    mean = np.average(X, axis=0, weights=w)
    S = (w[:, None] * (X - mean)).T @ (X - mean)
    np.testing.assert_allclose(moments.mean, mean)
    np.testing.assert_allclose(moments.R.T @ moments.R, S)
    assert moments.weight == pytest.approx(w.sum())


@pytest.mark.parametrize("n_batches", [1, 10])
def test_a_limited_basis_follows_data_that_drift(n_batches):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 3))
    X[600:] += 6.0
    kernel, rank = RBF(1.5), 120
    whole = KernelPCA(3, kernel).fit(X)
    pivots = KernelPCA(3, kernel, eigen_solver="cholesky", rank=rank).fit(X).approximation_error_
    for order in (np.arange(1200), rng.permutation(1200)):
        model = KernelPCA(3, kernel, rank=rank)
        for part in np.array_split(X[order], n_batches):
            model.partial_fit(part)
        assert len(model.X_fit_) == rank
        assert 40 <= (model.X_fit_[:, 0] > 3).sum() <= 80
        assert model.approximation_error_ <= 2 * pivots
        gap = np.abs(model.explained_variance_ratio_ - whole.explained_variance_ratio_)
        assert (gap <= model.approximation_error_).all()
        same = np.abs(model.transform(X)) - np.abs(whole.transform(X))
        assert np.abs(same).max() < 0.05


def test_dropping_points_keeps_the_moments_of_what_stays():
    X = points(30, 2)
    kernel = RBF(1.0)
    empty = SpanBasis(None, np.zeros((0, 0)))
    full, left = empty.grown(kernel, X, 30)
    assert len(full.L) == 30 and left.max() == 0
    F = full.coordinates(kernel, X)
    np.testing.assert_allclose(F @ F.T, kernel(X), atol=1e-7)
    few, E = full.reduced(kernel, 12, F)
    np.testing.assert_allclose(E.T @ E, np.eye(12), atol=1e-9)
    np.testing.assert_allclose(few.L @ few.L.T, kernel(few.points), atol=1e-9)
    np.testing.assert_allclose(few.coordinates(kernel, X), F @ E, atol=1e-6)
    moments = RunningScatter.none(30).add(F, None)
    cut, again = moments.projected(E), RunningScatter.none(12).add(F @ E, None)
    np.testing.assert_allclose(cut.mean, again.mean, atol=1e-12)
    np.testing.assert_allclose(cut.R.T @ cut.R, again.R.T @ again.R, atol=1e-10)
    assert cut.square == pytest.approx((F @ E).ravel() @ (F @ E).ravel())
    # no worse than what greedy or random choices leave out
    error = 30 - cut.square
    rng = np.random.default_rng(0)
    others = [rng.choice(30, 12, replace=False) for _ in range(50)]
    K = kernel(X)
    least = min(30 - np.trace(K[:, i] @ np.linalg.solve(K[np.ix_(i, i)], K[i])) for i in others)
    assert error <= least


@pytest.mark.parametrize("weight", [1.0, 0.01])
def test_small_weights_have_as_many_components(weight):
    X = points(10, 2)
    for kernel, Y in (("linear", X), (RBF(), np.ones((10, 2))), (RBF(), X)):
        a = KernelPCA(5, kernel).fit(Y, sample_weight=weight)
        b = KernelPCA(5, kernel).partial_fit(Y, sample_weight=weight)
        assert a.eigenvalues_.shape == b.eigenvalues_.shape == (5,)
        np.testing.assert_allclose(a.eigenvalues_, b.eigenvalues_, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("memory", ["20MB", "50MB"])
def test_batches_stay_inside_the_budget(memory):
    X = points(3000, 5)
    with config(memory=memory):
        tracemalloc.start()
        try:
            with pytest.raises(MemoryBudgetExceeded, match="rank"):
                KernelPCA(3, RBF(1.0)).partial_fit(X)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak <= get_config().memory
        few = KernelPCA(3, RBF(50.0)).partial_fit(X)  # its span needs few points
    assert len(few.X_fit_) < 400


@pytest.mark.parametrize("kernel", [Spectrum(1), Spectrum(1).normalized(), Spectrum(1).on("s")])
def test_letters_that_come_in_a_later_batch_are_named(kernel):
    def given(strings):
        return {"s": strings} if kernel.domain.name == "tables" else strings

    A, B = given(["ab", "ba", "aab", "bba"]), given(["ab", "abcd", "dd"])
    model = KernelPCA(2, kernel).partial_fit(A)
    with pytest.raises(InvalidInput, match=r"partial_fit: X\[1\] has the letter 'c', at place 2"):
        model.partial_fit(B)
    model.partial_fit(given(["aaa"]))  # as if nothing had been
    # A fit keeps its points, so that batches after it go by values of the kernel.
    both = given(["ab", "ba", "aab", "bba", "ab", "abcd", "dd"])
    expected = KernelPCA(2, kernel).fit(both).eigenvalues_
    after = KernelPCA(2, kernel).fit(A).partial_fit(B)
    np.testing.assert_allclose(after.eigenvalues_, expected, rtol=1e-7)


def test_batches_with_all_letters_given_are_those_of_one_fit():
    A, B = ["ab", "ba", "aab", "bba"], ["ab", "abcd", "dd"]
    kernel = Spectrum(1, alphabet="abcd")
    batches = KernelPCA(2, kernel).partial_fit(A).partial_fit(B)
    expected = KernelPCA(2, kernel).fit(A + B).eigenvalues_
    np.testing.assert_allclose(batches.eigenvalues_, expected, rtol=1e-10)
