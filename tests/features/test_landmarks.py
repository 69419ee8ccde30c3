"""Landmarks: which points are chosen of any collection, by which law, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import mercer
from mercer import RBF, FromFunction, Graph, Precomputed, RowBlocks, Spectrum, WeisfeilerLehman
from mercer.errors import InvalidInput
from mercer.estimator.options import LANDMARKS
from mercer.features.landmarks import choose_landmarks
from mercer.features.points import different_rows, race

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))


def left(kernel, X, points):
    """tr(K − K_XZ K_ZZ⁺ K_ZX)/tr K from its definition."""
    C = kernel(X, points)
    W = np.linalg.pinv(kernel(points), rcond=1e-12, hermitian=True)
    return 1 - np.sum(C * (C @ W)) / kernel.diag(X).sum()


# ------------------------------------------------------------------------------- every word
@pytest.mark.parametrize("how", LANDMARKS)
def test_points_are_of_X_and_their_positions_say_so(how):
    points, index = choose_landmarks(RBF(), X, 9, how, 0)
    assert points.shape == (9, 3) and len(np.unique(points, axis=0)) == 9
    if how == "kmeans":
        assert index is None
    else:
        np.testing.assert_array_equal(points, X[index])


@pytest.mark.parametrize("how", LANDMARKS)
def test_neither_order_nor_repetition_plays_a_part(how):
    w = RNG.integers(0, 4, len(X))
    repeated = RNG.permutation(np.repeat(X, w, axis=0))
    a, _ = choose_landmarks(RBF(), X, 8, how, 3, w.astype(float))
    b, _ = choose_landmarks(RBF(), repeated, 8, how, 3)
    np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("how", LANDMARKS)
@pytest.mark.parametrize("m", [60, 61, 1000])
def test_as_many_as_points_are_all_of_them_once(how, m):
    twice = np.concatenate([X, X[:20]])
    points, index = choose_landmarks(RBF(), twice, m, how, 0)
    assert len(points) == 60 and set(map(tuple, points)) == set(map(tuple, X))
    np.testing.assert_array_equal(points, twice[index])


@pytest.mark.parametrize("how", LANDMARKS)
def test_one_point_and_equal_points(how):
    for n in (1, 7):
        points, index = choose_landmarks(RBF(), np.ones((n, 2)), 3, how, 0)
        np.testing.assert_array_equal(points, [[1.0, 1.0]])
        assert len(index) == 1


@pytest.mark.parametrize("how", LANDMARKS)
def test_a_row_of_weight_zero_is_no_landmark(how):
    far = np.concatenate([X, [[50.0, 50.0, 50.0]]])
    w = np.r_[np.ones(60), 0.0]
    points, _ = choose_landmarks(RBF(), far, 59, how, 0, w)
    assert np.abs(points).max() < 10


@pytest.mark.parametrize("how", LANDMARKS)
def test_sparse_rows_as_dense_ones(how):
    rng = np.random.default_rng(3)
    Z = np.where(rng.random((40, 6)) < 0.5, 0.0, rng.standard_normal((40, 6)))
    Z[:, 0] = rng.standard_normal(40)
    Z[7] = Z[3]
    points, _ = choose_landmarks(RBF(), sp.csr_array(Z), 39, how, 0)
    points = points.toarray() if sp.issparse(points) else points
    assert len(points) == 39
    assert set(map(tuple, points)) == set(map(tuple, Z))
    fewer, _ = choose_landmarks(RBF(), sp.csr_array(Z), 5, how, 0)
    assert fewer.shape == (5, 6)


@pytest.mark.parametrize("how", LANDMARKS)
@pytest.mark.parametrize(
    ("kernel", "points"),
    [
        (Spectrum(2), ["abab", "bcbc", "abab", "xyzx", "zzzz", "abc"]),
        (
            WeisfeilerLehman(1),
            [Graph(edges=e) for e in ([(0, 1)], [(0, 1), (1, 2)], [(0, 1), (1, 2), (2, 0)])],
        ),
        (FromFunction(lambda s, t: float(len(set(s) & set(t)))), ["ab", "bc", "cd", "ab", "q"]),
    ],
    ids=["strings", "graphs", "objects"],
)
def test_any_domain(how, kernel, points):
    kernel = kernel.fit_params(points)
    X = kernel.domain.check(points)
    chosen, index = choose_landmarks(kernel, X, 2, how, 0)
    assert kernel.domain.size(chosen) == 2 == len(set(index))
    np.testing.assert_allclose(kernel(chosen), kernel(kernel.domain.take(X, index)))
    everything, _ = choose_landmarks(kernel, X, 99, how, 0)
    assert kernel.domain.size(everything) == len({str(p) for p in points})


@pytest.mark.parametrize("how", LANDMARKS)
def test_a_precomputed_kernel_has_positions(how):
    points, index = choose_landmarks(Precomputed(), RBF()(X), 6, how, 0)
    assert points.dtype.kind == "i" and len(set(points)) == 6
    np.testing.assert_array_equal(points, index)


@pytest.mark.parametrize("how", LANDMARKS)
def test_blocks_and_tensors(how, torch):
    blocks = RowBlocks.from_arrays(X, block_rows=17)
    points, index = choose_landmarks(RBF(), blocks, 6, how, 0)
    assert np.shape(points) == (6, 3)
    assert index is None or np.array_equal(points, X[index])
    single = torch.as_tensor(X, dtype=torch.float32)
    points, index = choose_landmarks(RBF(), single, 6, how, 0)
    assert points.dtype == torch.float32 and tuple(points.shape) == (6, 3)
    assert index is None or torch.equal(points, single[torch.as_tensor(index)])
    assert len(choose_landmarks(RBF(), blocks, 999, how, 0)[0]) == 60


@pytest.mark.parametrize("how", LANDMARKS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("most", [1000, 40])
def test_the_same_points_wherever_the_rows_are(how, weighted, most, torch, monkeypatch):
    monkeypatch.setattr("mercer.features.landmarks.LOOKED_AT", dict.fromkeys(LANDMARKS, (most, 1)))
    monkeypatch.setattr("mercer.features.landmarks.ROWS_EACH", 1)
    Z = np.vstack([X, X[:20]])  # some are given twice
    w = RNG.integers(0, 3, 80).astype(float) if weighted else None
    for dtype in (np.float64, np.float32):
        want, index = choose_landmarks(RBF(), Z.astype(dtype), 6, how, 3, w)
        blocks = RowBlocks.from_arrays(Z.astype(dtype), None, w, block_rows=17)
        for rows, given in (
            (blocks, None),
            (RowBlocks.from_arrays(Z.astype(dtype), block_rows=33), w),
            (RowBlocks.from_arrays(sp.csr_array(Z.astype(dtype)), block_rows=9), w),
            (torch.as_tensor(Z.astype(dtype)), w),
        ):
            got, there = choose_landmarks(RBF(), rows, 6, how, 3, given)
            got = got.toarray() if sp.issparse(got) else np.asarray(got)
            np.testing.assert_allclose(got, want, rtol=1e-6 if how == "kmeans" else 0)
            assert (index is None) == (there is None)
            assert index is None or np.array_equal(index, there)
    # More rows than their codes have memory for: positions are drawn.
    with mercer.config(memory=2**13):
        points, index = choose_landmarks(RBF(), blocks, 2, "uniform", 0)
    np.testing.assert_array_equal(points, Z[index].astype(np.float32))


def test_points_that_are_no_numbers_are_drawn_by_their_places():
    texts = [f"{i:04b}" * 2 for i in range(16)]
    kernel = Spectrum(2)
    want, index = choose_landmarks(kernel, kernel.domain.check(texts), 5, "uniform", 1)
    blocks = RowBlocks.from_arrays(texts, block_rows=5)
    got, there = choose_landmarks(kernel, blocks, 5, "uniform", 1)
    assert list(got) == list(want) and np.array_equal(index, there)


@pytest.mark.parametrize("how", LANDMARKS)
def test_huge_and_tiny_scales_and_a_kernel_that_is_zero(how):
    for scale in (1e-200, 1e200):
        points, _ = choose_landmarks(RBF(scale), scale * X, 5, how, 0)
        assert points.shape == (5, 3) and np.isfinite(points).all()
    assert len(choose_landmarks(0.0 * RBF(), X, 5, how, 0)[0]) >= 1


def test_the_same_seed_gives_the_same_points_and_another_others():
    for how in LANDMARKS:
        a, b, c = (choose_landmarks(RBF(), X, 6, how, seed)[0] for seed in (1, 1, 2))
        np.testing.assert_array_equal(a, b)
        assert not np.array_equal(a, c)


# ----------------------------------------------------------------------------------- quality
def test_pivots_leverage_and_means_beat_uniform_draws_on_clusters_of_unequal_size():
    rng = np.random.default_rng(1)
    sizes = [400, 10, 10, 10, 10, 10]
    centres = 12 * rng.standard_normal((6, 2))
    Z = np.concatenate(
        [c + 0.3 * rng.standard_normal((s, 2)) for c, s in zip(centres, sizes, strict=True)]
    )
    kernel = RBF(1.0)
    error = {
        how: np.mean(
            [left(kernel, Z, choose_landmarks(kernel, Z, 12, how, s)[0]) for s in range(rounds)]
        )
        for how, rounds in {"uniform": 20, "rpcholesky": 8, "leverage": 20, "kmeans": 4}.items()
    }
    for how in ("rpcholesky", "leverage", "kmeans"):
        assert error[how] < 0.8 * error["uniform"], error


def test_uniform_draws_follow_the_weights():
    w = np.array([1.0, 2.0, 5.0])
    Z, rng, first = np.arange(3.0)[:, None], np.random.RandomState(0), np.zeros(3)
    for _ in range(1000):
        first[int(choose_landmarks(RBF(), Z, 1, "uniform", rng, w)[1][0])] += 1
    np.testing.assert_allclose(first / 1000, w / w.sum(), atol=0.03)


def test_leverage_scores_are_those_of_the_definition_where_the_sketch_is_everything():
    from mercer.features.landmarks import _leverage
    from mercer.operators import Dense

    K = RBF(0.8)(X)
    w = RNG.uniform(0.5, 2, 60)
    got = _leverage(Dense(K, symmetric=True), w, 60, np.random.RandomState(0))
    root = np.sqrt(w)
    A = root[:, None] * K * root
    values = np.linalg.eigvalsh(A)
    low, high = 1e-12, 1e6
    for _ in range(200):
        mu = np.sqrt(low * high)
        low, high = (mu, high) if (values / (values + mu)).sum() > 15 else (low, mu)
    expected = np.diagonal(A @ np.linalg.inv(A + mu * np.eye(60)))
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_kmeans_of_objects_are_seeds_far_from_one_another():
    words = ["aaaa", "aaab", "aaba", "abaa", "zzzz", "zzzy", "zzyz", "qqqq"]
    kernel = Spectrum(1).normalized().fit_params(words)
    for seed in range(5):
        points, _ = choose_landmarks(kernel, kernel.domain.check(words), 3, "kmeans", seed)
        assert {str(p)[0] for p in points} == {"a", "z", "q"}


def test_kmeans_takes_no_means_of_what_has_none():
    whole = np.arange(1.0, 30.0)[:, None]
    gaps = np.where(X < -1, np.nan, X)
    for kernel, Z in [
        (mercer.GCD(), whole),
        (RBF().with_missing(), gaps),
        (RBF().on([0]) * mercer.Categorical().on([1]), np.round(X)),
    ]:
        points, index = choose_landmarks(kernel, kernel.domain.check(Z), 5, "kmeans", 0)
        np.testing.assert_array_equal(points, Z[index])


@pytest.mark.parametrize("how", LANDMARKS)
@pytest.mark.parametrize("n", [300, 301, 900])
def test_weights_count_also_where_only_some_rows_are_looked_at(how, n, monkeypatch):
    monkeypatch.setattr("mercer.features.landmarks.LOOKED_AT", dict.fromkeys(LANDMARKS, (300, 1)))
    Z = np.sort(np.random.default_rng(0).uniform(0, 1, n))[:, None]
    w = np.where(Z[:, 0] < 0.2, 1e6, 1e-6)
    points, _ = choose_landmarks(RBF(0.03), Z, 5, how, 0, w)
    assert np.mean(points < 0.2) == 1.0
    # blocks: ten rows for each landmark, of which these are all
    points, _ = choose_landmarks(RBF(0.03), RowBlocks.from_arrays(Z[::6]), 5, how, 0, w[::6])
    assert np.mean(points < 0.2) == 1.0


def test_rows_that_are_looked_at_stand_for_all():
    from mercer.features.landmarks import _sample

    w, value = RNG.uniform(0, 1, 200) ** 4, RNG.uniform(0, 1, 200)
    sums = []
    for seed in range(400):
        kept, total = _sample(w, 60, np.random.RandomState(seed))
        assert len(set(kept)) == len(kept) == 60
        sums.append([total.sum(), total @ value[kept]])
    expected = np.array([w.sum(), w @ value]) / w.max()
    np.testing.assert_allclose(np.mean(sums, axis=0), expected, rtol=0.03)
    kept, total = _sample(w * 1e308, 200, np.random.RandomState(0))
    np.testing.assert_allclose(total, w[kept] / w.max())


def test_pivots_see_what_the_budget_has_room_for():
    Z = np.random.default_rng(2).standard_normal((3000, 2))
    with mercer.config(memory=400_000):
        points, index = choose_landmarks(RBF(), Z, 10, "rpcholesky", 0)
    assert len(points) == 10 and np.array_equal(points, Z[index])


# ------------------------------------------------------------------------------ given points
def test_points_of_the_user_come_once_each_in_their_order():
    given = [[3.0, 1.0, 0.0], [0.0, 0.0, 0.0], [3.0, 1.0, 0.0]]
    points, index = choose_landmarks(RBF(), X, 100, given)
    np.testing.assert_array_equal(points, given[:2])
    assert index is None
    points, index = choose_landmarks(Precomputed(), RBF()(X), 100, [5, 2, 5])
    assert points.tolist() == [5, 2] == index.tolist()


def test_what_is_refused_says_so():
    for how in ("random", "k-means", ""):
        with pytest.raises(InvalidInput, match="'uniform', 'kmeans', 'rpcholesky', 'leverage'"):
            choose_landmarks(RBF(), X, 3, how)
    for m in (0, -1, 2.5, True, None, "3"):
        with pytest.raises(InvalidInput, match="whole number"):
            choose_landmarks(RBF(), X, m, "uniform")
    with pytest.raises(InvalidInput, match="empty"):
        choose_landmarks(RBF(), X, 3, [])
    with pytest.raises(InvalidInput, match="columns"):
        choose_landmarks(RBF(), X, 3, np.ones((2, 4)))
    with pytest.raises(InvalidInput, match="NaN"):
        choose_landmarks(RBF(), X, 3, [[np.nan, 0, 0]])
    for positions in ([60], [-1], [0.5], []):
        with pytest.raises(InvalidInput, match="from 0 to 59"):
            choose_landmarks(Precomputed(), RBF()(X), 3, positions)


# --------------------------------------------------------------------------------- the parts
def test_different_rows_and_their_weights():
    Z = np.array([[0.0, 1.0], [2.0, 3.0], [-0.0, 1.0], [1.0, 0.0], [2.0, 3.0]])
    w = np.array([1.0, 2.0, 3.0, 0.0, 5.0])
    for rows in (Z, sp.csr_array(Z), Z.astype(np.float32)):
        index, total = different_rows(RBF(), rows, w)
        assert dict(zip(map(tuple, Z[index]), total, strict=True)) == {
            (0.0, 1.0): 4.0,
            (2.0, 3.0): 7.0,
        }
    grid = np.stack(np.meshgrid(np.arange(100.0), np.arange(100.0)), -1).reshape(-1, 2)
    assert len(different_rows(RBF(), grid, None)[0]) == 10000


def test_sparse_rows_of_unlike_scales_are_told_apart():
    Z = np.c_[np.full(200, 1.7e18), 10 * np.random.default_rng(0).standard_normal(200)]
    for rows in (Z, sp.csr_array(Z), sp.csr_array(Z[:, ::-1])):
        assert len(different_rows(RBF(), rows, None)[0]) == 200
    near = 1.0 + np.arange(200.0)[:, None] * 2.0**-52  # one number in float32
    assert len(different_rows(RBF(), near, None)[0]) == 200


def test_no_form_of_the_same_rows_changes_their_order():
    Z = np.where(RNG.random((300, 5)) < 0.5, 0.0, RNG.standard_normal((300, 5)))
    Z[:, 0] = RNG.standard_normal(300)
    stored = sp.csr_array(np.ones_like(Z))
    stored.data[:] = Z.ravel()  # zeros too
    doubled = sp.csr_array((np.r_[1.0, -1.0, 2.0], [1, 1, 0], [0, 3]), shape=(1, 5))
    want, _ = different_rows(RBF(), Z, None)
    forms = [np.asfortranarray(Z), sp.csr_array(Z), sp.csc_array(Z), stored]
    forms += [Z.astype(np.float32), sp.csr_array(Z.astype(np.float32))]
    for rows in forms:
        np.testing.assert_array_equal(different_rows(RBF(), rows, None)[0], want)
    both = sp.vstack([doubled, sp.csr_array([[2.0, 0, 0, 0, 0]])]).tocsr()
    assert len(different_rows(RBF(), both, None)[0]) == 1
    a, i = choose_landmarks(RBF(), Z, 20, "uniform", 0)
    b, j = choose_landmarks(RBF(), Z.astype(np.float32), 20, "uniform", 0)
    np.testing.assert_array_equal(i, j)
    np.testing.assert_allclose(a, b, rtol=1e-6)


def test_missing_numbers_are_equal_whatever_their_bits():
    other = -np.array([np.nan])[0]
    rows = np.array([[np.nan, 1.0], [other, 1.0], [1.0, np.nan]])
    index, total = different_rows(RBF().with_missing(), rows, None)
    assert sorted(total) == [1.0, 2.0] and len(index) == 2
    whole = np.arange(20).reshape(10, 2)
    assert len(different_rows(RBF(), whole, None)[0]) == 10
    assert len(different_rows(RBF(), np.array([[1e300], [2e300]]), None)[0]) == 2


def test_the_race_draws_without_replacement_in_proportion():
    rates = np.array([1.0, 3.0, 0.0, 6.0])
    rng, pairs = np.random.RandomState(0), {}
    for _ in range(4000):
        key = tuple(race(rates, 2, rng))
        pairs[key] = pairs.get(key, 0) + 1
    assert not any(2 in key for key in pairs)
    for (i, j), count in pairs.items():
        expected = rates[i] / 10 * rates[j] / (10 - rates[i])
        assert abs(count / 4000 - expected) < 4 * np.sqrt(expected / 4000)
    assert sorted(race(rates, 9, rng)) == [0, 1, 3]
