"""PCA against scikit-learn's and the SVD: three ways, sparse rows, batches, hard data."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA as Peer
from sklearn.exceptions import NotFittedError

from mercer import PCA, KernelPCA, config, load, save
from mercer.errors import InvalidInput, NotConverged
from mercer.testing.certificates.unsupervised import certify_axes, certify_components


def rows(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) + rng.standard_normal(d)


@pytest.mark.parametrize(
    ("n", "d", "way"), [(200, 5, "covariance"), (30, 20, "svd"), (6, 90, "gram"), (20, 30, "svd")]
)
def test_equals_scikit_learn(n, d, way):
    X, new = rows(n, d), rows(7, d, 1)
    k = min(n, d) - 1
    ours, theirs = PCA(k).fit(X), Peer(k, svd_solver="full").fit(X)
    assert ours.solution_.extra["way"] == way and ours.solution_.converged
    for name in ("explained_variance_", "explained_variance_ratio_", "singular_values_", "mean_"):
        np.testing.assert_allclose(
            getattr(ours, name), getattr(theirs, name), rtol=1e-7, atol=1e-12
        )
    np.testing.assert_allclose(ours.components_, theirs.components_, atol=1e-6)
    np.testing.assert_allclose(ours.transform(new), theirs.transform(new), atol=1e-5)
    np.testing.assert_allclose(ours.components_ @ ours.components_.T, np.eye(k), atol=1e-9)


def test_is_the_linear_case_of_kernel_pca():
    X = rows(40, 4)
    a, b = PCA(3).fit(X), KernelPCA(3, "linear", eigen_solver="dense").fit(X)
    np.testing.assert_allclose(np.abs(a.transform(X)), np.abs(b.transform(X)), atol=1e-9)
    np.testing.assert_allclose(a.explained_variance_ * 39 / 40, b.explained_variance_)
    np.testing.assert_allclose(a.explained_variance_ratio_, b.explained_variance_ratio_)


def test_the_way_back_is_exact():
    X = rows(50, 4)
    for model in (PCA(), PCA(whiten=True)):
        Z = model.fit_transform(X)
        np.testing.assert_allclose(model.inverse_transform(Z), X, atol=1e-10)
    np.testing.assert_allclose(PCA(2, whiten=True).fit_transform(X).var(axis=0, ddof=1), 1)
    np.testing.assert_allclose(
        PCA(2, whiten=True).fit_transform(X), Peer(2, whiten=True).fit_transform(X), atol=1e-9
    )


@pytest.mark.parametrize("shape", [(80, 12), (12, 80)])
def test_sparse_rows_are_not_made_dense(shape, monkeypatch):
    S = sp.random_array(shape, density=0.3, random_state=0, format="csr")
    expected = PCA(4).fit(S.toarray())

    def refuse(self, *args, **kwargs):
        raise AssertionError("the rows were made dense")

    w = np.arange(1.0, shape[0] + 1)
    weighted = PCA(4).fit(S.toarray(), sample_weight=w)
    square = type(S).toarray
    monkeypatch.setattr(
        type(S), "toarray", lambda A: square(A) if A.shape[0] == A.shape[1] else refuse(A)
    )
    model = PCA(4).fit(S)
    np.testing.assert_allclose(model.transform(S), expected.transform(S), atol=1e-9)
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-9)
    again = PCA(4).fit(S, sample_weight=w)
    np.testing.assert_allclose(again.components_, weighted.components_, atol=1e-9)


def test_weights_are_repetitions():
    X = rows(30, 4)
    w = np.random.default_rng(1).integers(0, 4, 30)
    a, b = PCA().fit(X, sample_weight=w), PCA().fit(np.repeat(X, w, axis=0))
    for name in ("components_", "explained_variance_", "mean_", "explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=1e-9)
    assert a.n_samples_ == b.n_samples_ == w.sum()


@pytest.mark.parametrize("sizes", [(60,), (1,) * 60, (7, 30, 1, 22), (3, 57)])
@pytest.mark.parametrize("weighted", [False, True])
def test_batches_in_any_split_are_the_fit(sizes, weighted):
    X, new = rows(60, 5), rows(4, 5, 1)
    w = np.random.default_rng(0).uniform(0, 2, 60) if weighted else None
    whole, model, start = PCA().fit(X, sample_weight=w), PCA(), 0
    for size in sizes:
        part = slice(start, start + size)
        model.partial_fit(X[part], sample_weight=None if w is None else w[part])
        start += size
    for name in ("explained_variance_", "explained_variance_ratio_", "singular_values_", "mean_"):
        np.testing.assert_allclose(getattr(model, name), getattr(whole, name), rtol=1e-10)
    np.testing.assert_allclose(model.transform(new), whole.transform(new), atol=1e-10)


def test_batches_far_from_the_origin_and_after_a_file(tmp_path):
    X = rows(60, 3) * 1e-3 + 1e6
    whole, model = PCA().fit(X), PCA()
    model.partial_fit(X[:20])
    save(model, tmp_path / "m.mercer")
    model = load(tmp_path / "m.mercer")
    for start in (20, 40):
        model.partial_fit(X[start : start + 20])
    np.testing.assert_allclose(model.explained_variance_, whole.explained_variance_, rtol=1e-6)
    save(whole, tmp_path / "w.mercer")
    np.testing.assert_array_equal(load(tmp_path / "w.mercer").transform(X), whole.transform(X))


def test_a_fit_forgets_batches():
    X = rows(40, 3)
    model = PCA().partial_fit(X[:10]).fit(X)
    np.testing.assert_array_equal(model.mean_, PCA().fit(X).mean_)


@pytest.mark.parametrize(
    ("n", "d", "way"), [(200, 5, "covariance"), (30, 20, "svd"), (6, 90, "gram")]
)
@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("count", [2, None])
@pytest.mark.parametrize("weighted", [False, True])
def test_batches_after_a_fit_go_on_from_its_rows(n, d, way, offset, sparse, count, weighted):
    X, more = rows(n, d) + offset, rows(2 * n, d, 3) + 1.0 + offset
    X[:, 1], more[:, 1] = X[:, 0] - offset, more[:, 0] - offset  # no axis of rounding comes up
    w = np.random.default_rng(0).uniform(0.5, 2, 3 * n) if weighted else None
    a, b = (None, None) if w is None else (w[:n], w[n:])
    model = PCA(count).fit(sp.csr_array(X) if sparse else X, sample_weight=a)
    assert sparse or model.solution_.extra["way"] == way
    for part in np.array_split(np.arange(2 * n), 3):
        model.partial_fit(more[part], sample_weight=None if b is None else b[part])
    whole = PCA(count).fit(np.vstack([X, more]), sample_weight=w)
    assert model.n_components_ == whole.n_components_
    assert model.n_samples_ == pytest.approx(whole.n_samples_, rel=1e-14)
    np.testing.assert_allclose(model.mean_, whole.mean_, rtol=1e-12, atol=1e-12)
    top = whole.explained_variance_[0]
    np.testing.assert_allclose(
        model.explained_variance_, whole.explained_variance_, rtol=1e-6, atol=1e-9 * top
    )
    np.testing.assert_allclose(
        model.explained_variance_ratio_, whole.explained_variance_ratio_, atol=1e-9
    )
    np.testing.assert_allclose(model.transform(X)[:, :2], whole.transform(X)[:, :2], atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 3), (5, 3), (80, 3)])
def test_batches_after_a_fit_without_variance(shape):
    more = rows(30, 3)
    model = PCA().fit(np.full(shape, 2.2)).partial_fit(more)
    whole = PCA().fit(np.vstack([np.full(shape, 2.2), more]))
    np.testing.assert_allclose(model.explained_variance_, whole.explained_variance_)


def test_batches_after_a_fit_have_its_columns_and_its_file(tmp_path):
    X = rows(60, 4)
    model = PCA(2).fit(X[:50])
    for wrong in (X[:, :3], rows(9, 5)):
        with pytest.raises(InvalidInput, match="features"):
            model.partial_fit(wrong)
    assert model.n_samples_ == 50
    save(model, tmp_path / "m.mercer")
    again = load(tmp_path / "m.mercer").partial_fit(X[50:])
    np.testing.assert_allclose(again.explained_variance_, PCA(2).fit(X).explained_variance_)


def test_a_fit_that_kept_no_scatter_refuses_batches(tmp_path):
    X = rows(8, 4) @ np.ones((4, 1100))
    model = PCA(2).fit(X)
    with pytest.raises(InvalidInput, match="Begin with partial_fit on a new PCA"):
        model.partial_fit(X)
    assert model.n_samples_ == 8
    with config(memory=10_000):
        small = PCA(2).fit(rows(6, 40))
    with pytest.raises(InvalidInput, match="memory"):
        small.partial_fit(rows(6, 40))
    small.fit(rows(6, 40)).partial_fit(rows(6, 40))


@pytest.mark.parametrize("sparse", [False, True])
def test_novelty_is_what_the_way_back_leaves(sparse):
    X, new = rows(50, 5) + 1e3, rows(7, 5, 1) + 1e3
    for whiten in (False, True):
        model = PCA(2, whiten=whiten).fit(X)
        left = new - model.inverse_transform(model.transform(new))
        given = sp.csr_array(new) if sparse else new
        error = model.reconstruction_error(given)
        np.testing.assert_allclose(error, (left**2).sum(axis=1), rtol=1e-9)
        np.testing.assert_array_equal(model.score_samples(given), -error)
    kernel = KernelPCA(2, "linear").fit(X)
    np.testing.assert_allclose(kernel.reconstruction_error(given), error, rtol=1e-9)
    np.testing.assert_allclose(PCA().fit(X).reconstruction_error(new), 0, atol=1e-18 * 1e6)
    with pytest.raises(InvalidInput, match="row 1 of X"):
        model.reconstruction_error(np.vstack([new[:1], np.full((1, 5), 1e200)]))
    with pytest.raises(NotFittedError):
        PCA().reconstruction_error(new)


def test_a_seed_is_accepted_and_changes_nothing():
    X = rows(30, 3)
    a, b = PCA(2, random_state=0).fit(X), PCA(2).fit(X)
    np.testing.assert_array_equal(a.components_, b.components_)
    for way in (PCA(random_state="a").fit, PCA(random_state="a").partial_fit):
        with pytest.raises(InvalidInput, match="PCA: random_state='a'"):
            way(X)


@pytest.mark.parametrize("X", [np.ones((1, 3)), np.full((5, 3), 2.2), np.zeros((4, 2))])
def test_no_variance(X):
    for model in (PCA(2).fit(X), PCA().fit(X), PCA(0.5).fit(X), PCA(2).partial_fit(X)):
        assert np.isfinite(model.components_).all()
        np.testing.assert_allclose(model.transform(X), 0, atol=1e-14)
        np.testing.assert_array_equal(model.explained_variance_, 0)
        assert np.isfinite(PCA(2, whiten=True).fit(X).transform(X + 1)).all()


def test_constant_columns_and_scales_far_apart():
    X = rows(50, 3)
    X[:, 1] = 7.0
    assert PCA().fit(X).n_components_ == 2 and PCA(3).fit(X).explained_variance_[2] == 0
    far = np.random.default_rng(0).standard_normal((20, 3)) * [1e-8, 1.0, 1e8]
    model = PCA().fit(far)  # the SVD squares nothing
    near = far - far.mean(axis=0)
    slope = near[:, 2] @ near[:, 1] / (near[:, 2] @ near[:, 2])
    small = np.linalg.norm(near[:, 1] - slope * near[:, 2])  # what the large column leaves of it
    np.testing.assert_allclose(model.singular_values_[1], small, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-120, 1e120])
def test_units(scale):
    X = rows(40, 3)
    a, b = PCA().fit(X * scale), PCA().fit(X)
    np.testing.assert_allclose(a.components_, b.components_, atol=1e-9)
    np.testing.assert_allclose(a.singular_values_ / scale, b.singular_values_)
    for way in (PCA().fit, PCA().partial_fit):
        with pytest.raises(InvalidInput, match="squares"):
            way(X * scale**1.5)


def test_a_share_of_the_variance():
    X = rows(100, 6)
    for share in (0.3, 0.8, 0.99):
        ours, theirs = PCA(share).fit(X), Peer(share, svd_solver="full").fit(X)
        assert ours.n_components_ == theirs.n_components_


def test_frames_names_and_what_is_refused():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(rows(20, 3), columns=list("abc"))
    model = PCA(2).set_output(transform="pandas").fit(frame)
    assert list(model.transform(frame).columns) == ["pca0", "pca1"]
    for wrong in (0, 1.0, "mle", -2):
        with pytest.raises(InvalidInput, match="n_components"):
            PCA(wrong).fit(frame)
    with pytest.raises(InvalidInput, match="whiten"):
        PCA(whiten="yes").fit(frame)
    with pytest.raises(InvalidInput, match="columns"):
        PCA(2).fit(frame).inverse_transform(np.zeros((2, 3)))
    with pytest.raises(NotFittedError):
        PCA().transform(frame)
    with pytest.raises(InvalidInput):
        PCA().fit(np.array([[1.0, np.nan]]))
    with pytest.raises(InvalidInput):
        PCA().partial_fit(rows(5, 3)).partial_fit(rows(5, 4))


# ------------------------------------------------------------------- far from 0, and weights
@pytest.mark.parametrize("shape", [(300, 4), (40, 25), (20, 50)])
@pytest.mark.parametrize("offset", [1e4, 1e7, 1e9])
def test_sparse_rows_far_from_0_keep_their_digits(shape, offset):
    rng = np.random.default_rng(0)
    near = np.round(rng.standard_normal(shape), 3) + 3.0
    near[rng.uniform(size=shape) < 0.1] = 0.0
    S = sp.csr_array(near + np.where(np.arange(shape[1]) % 2, offset, 0.0))
    S.data[(S.data < 100.0) & (np.arange(S.nnz) % 7 == 0)] = 0.0  # stored, and yet no entry
    dense = S.toarray()
    expected = Peer(3, svd_solver="full").fit(dense)
    w = rng.integers(1, 4, shape[0]).astype(float)
    for model in (PCA(3).fit(S), PCA(3).partial_fit(S), PCA(3).fit(dense)):
        assert model.solution_.converged
        np.testing.assert_allclose(
            model.explained_variance_, expected.explained_variance_, rtol=1e-6
        )
        np.testing.assert_allclose(
            np.abs(model.transform(S)), np.abs(expected.transform(dense)), atol=1e-5
        )
    a, b = PCA(3).fit(S, sample_weight=w), PCA(3).fit(dense, sample_weight=w)
    np.testing.assert_allclose(a.explained_variance_, b.explained_variance_, rtol=1e-6)
    for solver in ("auto", "features"):
        kernel = KernelPCA(3, "linear", eigen_solver=solver).fit(S)
        np.testing.assert_allclose(kernel.eigenvalues_, expected.singular_values_**2, rtol=1e-6)
        assert kernel.solution_.converged


def test_sparse_rows_that_are_all_equal_have_no_variance():
    for model in (PCA(2), KernelPCA(2, "linear")):
        model.fit(sp.csr_array(np.full((7, 3), 2.2e7)))
        np.testing.assert_array_equal(model.explained_variance_, 0)


def test_a_constant_column_far_from_0_does_not_hide_another():
    X = np.column_stack([np.full(40, 1e9), rows(40, 2) * 1e-7])
    for model in (PCA().fit(X), PCA().partial_fit(X), PCA().fit(sp.csr_array(X))):
        assert model.n_components_ == 2
        np.testing.assert_allclose(
            model.singular_values_, PCA().fit(X[:, 1:]).singular_values_, rtol=1e-6
        )


def test_what_has_not_converged_warns(monkeypatch):
    monkeypatch.setattr("mercer.models.pca.linear_pca.EPS", 0.0)  # no residual is small enough
    for way in (PCA(2).fit, PCA(2).partial_fit):
        with pytest.warns(NotConverged, match="residual"):
            model = way(rows(30, 4))
        assert not model.solution_.converged and model.solution_.message.startswith("PCA: ")


@pytest.mark.parametrize("unit", [1 / 50, 1e-200, 0.3, 1.001 / 50])
def test_the_unit_of_equal_weights_does_not_matter(unit):
    X = rows(50, 3)
    plain = PCA(2, whiten=True).fit(X)
    halves = PCA(2, whiten=True).partial_fit(X[:20], sample_weight=unit)
    halves.partial_fit(X[20:], sample_weight=unit)
    for model in (PCA(2, whiten=True).fit(X, sample_weight=np.full(50, unit)), halves):
        np.testing.assert_allclose(model.explained_variance_, plain.explained_variance_)
        np.testing.assert_allclose(model.transform(X), plain.transform(X), atol=1e-9)


def test_weights_that_are_no_counts_give_the_unbiased_variance():
    X, w = rows(30, 3), np.random.default_rng(0).uniform(0, 0.1, 30)
    expected = np.linalg.eigvalsh(np.cov(X.T, aweights=w))[::-1]
    whole = PCA().fit(X, sample_weight=w)
    np.testing.assert_allclose(whole.explained_variance_, expected)
    np.testing.assert_allclose(PCA().fit(X, sample_weight=7.3 * w).explained_variance_, expected)
    counts = np.random.default_rng(1).integers(1, 4, 30)
    expected = np.linalg.eigvalsh(np.cov(X.T, fweights=counts))[::-1]
    np.testing.assert_allclose(PCA().fit(X, sample_weight=counts).explained_variance_, expected)
    assert PCA(1).fit(X[:1], sample_weight=0.5).explained_variance_ == 0


@pytest.mark.parametrize("sizes", [(4,), (1,) * 4, (1, 3)])
@pytest.mark.parametrize("constant", [0, 5])
def test_batches_of_fewer_rows_than_columns_have_as_many_components(sizes, constant):
    X = rows(4, 10)
    X[:, :constant] = 1.0
    for model, whole in (
        (PCA(6), PCA(6).fit(X)),
        (KernelPCA(6, "linear"), KernelPCA(6, "linear").fit(X)),
    ):
        for part in np.split(X, np.cumsum(sizes)[:-1]):
            model.partial_fit(part)
        assert model.transform(X).shape == whole.transform(X).shape == (4, 4)
        ratio = whole.explained_variance_ratio_
        np.testing.assert_allclose(model.explained_variance_ratio_, ratio, atol=1e-12)


@pytest.mark.parametrize("shape", [(50, 4), (15, 40)])
@pytest.mark.parametrize("offset", [0.0, 1e7])
def test_the_certificate_is_recomputed_and_notices_what_is_wrong(shape, offset):
    X = np.random.default_rng(0).standard_normal(shape) + offset
    w = np.random.default_rng(1).integers(1, 3, shape[0]).astype(float)
    for model, weights in ((PCA(3).fit(X), None), (PCA(3).fit(X, sample_weight=w), w)):
        assert certify_axes(model, X, weights=weights) < 1e-9
    model = PCA(3).fit(X)
    kernel = KernelPCA(3, "linear").fit(X)
    assert certify_components(kernel, X, None) < 1e-9
    kernel.eigenvalues_ = kernel.eigenvalues_ * 1.01
    assert certify_components(kernel, X, None) > 1e-3
    for name, wrong in (
        ("components_", model.components_[::-1]),
        ("components_", 1.01 * model.components_),
        ("singular_values_", 1.01 * model.singular_values_),
        ("explained_variance_ratio_", 1.01 * model.explained_variance_ratio_),
    ):
        worse = PCA(3).fit(X)
        setattr(worse, name, wrong)
        assert certify_axes(worse, X) > 1e-4, name


@pytest.mark.parametrize("shape", [(40, 3), (5000, 4), (900, 60), (300, 200), (2000, 300), (7, 1)])
@pytest.mark.parametrize("away", [0.0, 1.0, 1e6])
def test_rows_about_the_origin_and_far_from_it_have_the_components_of_the_svd(shape, away):
    d = shape[1]
    rng = np.random.default_rng(d)
    X = rng.standard_normal(shape) * np.linspace(2.0, 1.0, d) + away * rng.random(d)
    near = X - X.mean(axis=0)
    sigma, Vt = np.linalg.svd(near, full_matrices=False)[1:]
    k = min(3, d)
    pca = PCA(k)
    Z = pca.fit_transform(X)
    np.testing.assert_allclose(pca.singular_values_, sigma[:k], rtol=1e-9)
    np.testing.assert_allclose(np.abs(np.sum(pca.components_ * Vt[:k], axis=1)), 1, rtol=1e-6)
    np.testing.assert_allclose(Z, near @ pca.components_.T, atol=1e-8 * max(1.0, away * 1e-2))
    np.testing.assert_allclose(Z, pca.transform(X), atol=1e-8 * max(1.0, away * 1e-2))
    single = X.astype(np.float32)
    np.testing.assert_array_equal(
        PCA(k).fit_transform(single), PCA(k).fit_transform(single.astype(np.float64))
    )


def test_one_column_far_from_the_origin_keeps_its_digits():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 3))
    X[:, 2] = 1e7 + 1e-3 * X[:, 2]
    pca = PCA().fit(X)
    sigma = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    np.testing.assert_allclose(pca.singular_values_, sigma, rtol=1e-5)
    X[2000:, 0] += 100.0  # in the second half only, which a sample sees
    X[7, 1] = 1e3  # which it does not
    sigma = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    np.testing.assert_allclose(PCA(2).fit(X).singular_values_, sigma[:2], rtol=1e-9)


def test_weighted_rows_are_all_transformed():
    X = np.random.default_rng(1).standard_normal((30, 2))
    w = np.ones(30)
    w[:4] = 0
    Z = PCA(2).fit_transform(X, sample_weight=w)
    np.testing.assert_allclose(Z, PCA(2).fit(X[4:]).transform(X), atol=1e-12)
    np.testing.assert_allclose(
        PCA(2, whiten=True).fit_transform(X), PCA(2, whiten=True).fit(X).transform(X), atol=1e-12
    )
