"""Quantile regression: shares below, no crossing, several levels at once, degenerate data."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import QuantileRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score

import mercer
from mercer import RBF, KernelQuantileRegressor, Linear, Matern
from mercer.errors import InvalidInput, ModelFileError, NotConverged
from mercer.kernels import FromFunction
from mercer.losses import Pinball
from mercer.models.risk import named as module

LEVELS = [0.5, 0.05, 0.9, 0.25]


def waves(n=80, seed=0):
    """Return points on a line and targets whose spread grows."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 6, (n, 1))
    return X, np.sin(X[:, 0]) + 0.1 * (1 + X[:, 0]) * rng.standard_normal(n)


# -- what a quantile is -----------------------------------------------------------------------
@pytest.mark.parametrize("level", [0.01, 0.2, 0.5, 0.77, 0.9])
@pytest.mark.parametrize("alpha", [1e-3, 0.3, 30.0])
def test_a_share_of_the_targets_is_below(level, alpha):
    for seed in range(3):
        X, y = waves(61, seed)
        f = KernelQuantileRegressor(RBF(1.0), level, alpha).fit(X, y).predict(X)
        assert (y < f - 1e-6).sum() <= level * 61 + 1e-9
        assert (y <= f + 1e-6).sum() >= level * 61 - 1e-9


def test_by_weight_as_well():
    X, y = waves(50)
    w = np.random.default_rng(1).uniform(0.1, 3.0, 50)
    f = KernelQuantileRegressor(RBF(1.0), 0.3, 0.1).fit(X, y, w).predict(X)
    assert w[y < f - 1e-6].sum() <= 0.3 * w.sum() <= w[y <= f + 1e-6].sum()


def test_a_huge_penalty_leaves_the_quantile_of_y():
    X, y = waves(41)
    bands = KernelQuantileRegressor(RBF(1.0), LEVELS, 1e12).fit(X, y).predict(X)
    expected = [best(y, level) for level in LEVELS]
    np.testing.assert_allclose(bands, np.tile(expected, (41, 1)), atol=1e-8)


def best(y, level):
    """The middle of the interval of quantiles of y, by the loss at every target."""
    sums = Pinball(level).value(y[:, None], y[None]).sum(axis=0)
    good = y[sums <= sums.min() + 1e-12]
    return 0.5 * (good.min() + good.max())


def test_a_straight_line_is_that_of_linear_programming():
    """With hardly any penalty the loss is that of scikit-learn's quantile regression."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 3))
    y = X @ [1.0, -2.0, 0.5] + 3 + rng.standard_t(3, 60)
    for level in (0.2, 0.5, 0.8):
        mine = KernelQuantileRegressor("linear", level, 1e-6, tol=1e-9).fit(X, y)
        peer = QuantileRegressor(quantile=level, alpha=0.0, solver="highs").fit(X, y)
        losses = [Pinball(level).value(y, m.predict(X)).sum() for m in (mine, peer)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
        np.testing.assert_allclose(mine.coef_, peer.coef_, atol=1e-3)


def test_the_certificate_is_that_of_the_definition():
    X, y = waves()
    for offset in (True, False):
        model = KernelQuantileRegressor(RBF(1.0), LEVELS, 0.2, offset).fit(X, y)
        K, s = RBF(1.0)(X), model.solution_
        primal = dual = 0.0
        for j, level in enumerate(LEVELS):
            a, loss = model.dual_coef_[:, j], Pinball(level)
            f = K @ a
            u = np.clip(-0.2 * a, -level, 1 - level)
            primal += loss.value(y, f + model.intercept_[j]).sum() + 0.1 * a @ f
            dual -= loss.conjugate(y, u).sum() + 0.1 * a @ f
        assert s.converged and s.gap <= 1e-6 * s.primal
        assert s.primal == pytest.approx(primal, rel=1e-10)
        assert s.dual == pytest.approx(dual, rel=1e-10)
        assert model.n_iter_ == s.n_iter
        assert offset or not model.intercept_.any()


# -- several levels ---------------------------------------------------------------------------
def crossing():
    """Return a model whose levels cross, and points where they do."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((30, 1))
    y = rng.standard_normal(30)
    model = KernelQuantileRegressor(RBF(0.3), [0.6, 0.4, 0.5], 1e-2).fit(X, y)
    return model, np.linspace(-4, 4, 401)[:, None]


def test_levels_never_cross_anywhere():
    model, new = crossing()
    raw, bands = model.function_(new), model.predict(new)
    assert (np.diff(raw[:, [1, 2, 0]], axis=1) < -1e-3).any()
    assert (np.diff(bands[:, [1, 2, 0]], axis=1) >= 0).all()
    np.testing.assert_allclose(np.sort(raw, axis=1), np.sort(bands, axis=1), atol=1e-12)


def test_in_order_they_are_no_farther_from_any_true_quantiles():
    model, new = crossing()
    raw, bands = model.function_(new), model.predict(new)
    rng = np.random.default_rng(6)
    for power in (1, 2):
        for _ in range(20):
            true = np.sort(rng.standard_normal((len(new), 3)), axis=1)[:, [2, 0, 1]]
            far, near = (abs(f - true) ** power for f in (raw, bands))
            assert (near.sum(axis=1) <= far.sum(axis=1) + 1e-12).all()


def test_columns_are_in_the_order_given_and_those_of_single_fits():
    X, y = waves()
    together = KernelQuantileRegressor(RBF(2.0), LEVELS, 1.0, tol=1e-9).fit(X, y)
    raw = together.function_(X)
    assert together.predict(X).shape == raw.shape == (80, 4)
    np.testing.assert_array_equal(together.quantile_, LEVELS)
    for j, level in enumerate(LEVELS):
        one = KernelQuantileRegressor(RBF(2.0), level, 1.0, tol=1e-9).fit(X, y)
        np.testing.assert_allclose(one.predict(X), raw[:, j], atol=1e-4)
        assert np.ndim(one.quantile_) == 0 and one.dual_coef_.shape == (80,)
        assert isinstance(one.intercept_, float)


def test_a_list_of_one_has_one_column():
    X, y = waves(20)
    assert KernelQuantileRegressor(quantile=[0.5]).fit(X, y).predict(X).shape == (20, 1)
    assert KernelQuantileRegressor(quantile=np.array(0.5)).fit(X, y).predict(X).shape == (20,)
    assert KernelQuantileRegressor(quantile=(0.2, 0.8)).fit(X, y).predict(X).shape == (20, 2)
    assert KernelQuantileRegressor(quantile=np.array([0.8, 0.2])).fit(X, y).predict(X).shape[1] == 2


def test_one_gram_matrix_serves_all_levels(monkeypatch):
    X, y = waves(40)
    made = []
    monkeypatch.setattr(
        module, "dual_rows", lambda *a, **k: made.append(1) or make(*a, **k), raising=True
    )
    KernelQuantileRegressor(RBF(1.0), LEVELS).fit(X, y)
    assert len(made) == 1


make = module.dual_rows


def test_a_level_starts_from_the_one_before():
    X, y = waves(400)
    near = np.linspace(0.4, 0.6, 9)
    together = KernelQuantileRegressor(RBF(2.0), near, 1.0).fit(X, y).n_iter_
    apart = sum(KernelQuantileRegressor(RBF(2.0), t, 1.0).fit(X, y).n_iter_ for t in near)
    assert together < 0.9 * apart


# -- targets, weights, kernels ----------------------------------------------------------------
def test_a_constant_added_to_y_shifts_predictions_by_it():
    X, y = waves(40)
    new = np.linspace(-2, 8, 50)[:, None]
    one = KernelQuantileRegressor(RBF(1.0), LEVELS, 0.3).fit(X, y).predict(new)
    for constant in (1.0, -3.7, 1000.0):
        two = KernelQuantileRegressor(RBF(1.0), LEVELS, 0.3).fit(X, y + constant).predict(new)
        np.testing.assert_allclose(two - one, constant, rtol=0, atol=1e-12 * (1 + abs(constant)))


def test_the_mirror_of_a_quantile_is_that_of_the_mirror():
    X, y = waves(40)
    one = KernelQuantileRegressor(RBF(1.0), 0.2, 0.3, tol=1e-10).fit(X, y).predict(X)
    two = KernelQuantileRegressor(RBF(1.0), 0.8, 0.3, tol=1e-10).fit(X, -y).predict(X)
    np.testing.assert_allclose(one, -two, atol=1e-6)


def test_rows_of_weight_zero_are_not_there():
    X, y = waves(40)
    w = np.arange(40) % 3.0
    some = KernelQuantileRegressor("rbf", [0.2, 0.8], 0.5, tol=1e-10).fit(X, y, w)
    kept = w > 0
    few = KernelQuantileRegressor("rbf", [0.2, 0.8], 0.5, tol=1e-10).fit(X[kept], y[kept], w[kept])
    np.testing.assert_allclose(some.predict(X), few.predict(X), atol=1e-7)
    assert not some.dual_coef_[~kept].any() and some.kernel_ == few.kernel_
    K = some.kernel_(X)
    given = clone(some).set_params(kernel="precomputed").fit(K, y, w)
    np.testing.assert_allclose(given.predict(K), few.predict(X), atol=1e-7)
    np.testing.assert_allclose(some.loo()[~kept], few.predict(X[~kept]), atol=1e-7)
    np.testing.assert_allclose(given.loo(K), some.loo(), atol=1e-5)


def test_points_of_any_kind():
    words = ["a", "ab", "abb", "b", "bb", "bba"]
    y = np.array([0.0, 1.0, 2.0, 0.0, 1.0, 2.0])

    def both(u, v):
        return float(sum(u.count(c) * v.count(c) for c in "ab"))

    model = KernelQuantileRegressor(FromFunction(both), [0.25, 0.75], 1e-3).fit(words, y)
    assert model.predict(["aa", "b"]).shape == (2, 2)
    assert model.loo().shape == (6, 2)


def test_weights_of_explicit_features():
    X, y = waves(50)
    X = np.hstack([X, X**2])
    model = KernelQuantileRegressor("linear", [0.3, 0.6], 0.1).fit(X, y)
    assert model.coef_.shape == (2, 2)
    np.testing.assert_allclose(model.coef_.T, X.T @ model.dual_coef_, atol=1e-12)
    assert (abs(X @ model.coef_.T + model.intercept_ - model.function_(X)) < 1e-10).all()
    new = np.random.default_rng(1).standard_normal((9, 2))
    np.testing.assert_allclose(model.predict(new), np.sort(new @ model.coef_.T + model.intercept_))
    one = KernelQuantileRegressor("linear", 0.3, 0.1).fit(X, y)
    assert one.coef_.shape == (2,)
    wide = np.random.default_rng(2).standard_normal((50, 60))
    for n in (50, 20):  # as many features as the memory allows, also more than rows
        many = KernelQuantileRegressor("linear", [0.3, 0.6], 0.1).fit(wide[:n], y[:n])
        assert many.coef_.shape == (2, 60)
        values = np.sort(wide @ many.coef_.T + many.intercept_, axis=1)
        np.testing.assert_allclose(many.predict(wide), values, atol=1e-10)
    with mercer.config(memory=10**6):  # too little for features: the Gram matrix
        small = KernelQuantileRegressor("linear", [0.3, 0.6], 0.1).fit(wide, y)
    assert small.coef_.shape == (2, 60)
    assert KernelQuantileRegressor(RBF(), 0.3).fit(X, y).coef_ is None


@pytest.mark.parametrize(
    ("X", "y"),
    [
        ([[1.0]], [2.0]),
        ([[1.0]] * 5, [1.0, 2.0, 3.0, 4.0, 5.0]),
        ([[0.0], [1.0], [2.0]], [7.0, 7.0, 7.0]),
        ([[0.0], [1.0], [2.0]], [0.0, 0.0, 0.0]),
        ([[0.0], [1.0], [2.0]], [1e200, -1e200, 3e200]),
        ([[0.0], [1.0], [2.0]], [1e-100, -1e-100, 3e-100]),
    ],
)
def test_degenerate_data(X, y):
    for offset in (True, False):
        model = KernelQuantileRegressor(RBF(1.0), [0.1, 0.5], 1.0, offset).fit(X, y)
        bands = model.predict(X)
        assert np.isfinite(bands).all()
        # A penalty of 10¹⁰⁰ times less than the targets ask for leaves an objective of rounding.
        assert model.solution_.converged or "rounding" in model.solution_.message
        if len(y) > 1 or not offset:
            assert np.isfinite(model.loo()).all()
        if offset and len(set(y)) == 1:
            np.testing.assert_allclose(bands, y[0], atol=1e-12)
        if offset:
            assert bands.min() >= min(y) - 1e-6 * abs(max(y)) - 1e-300


# -- leaving one out, scores ------------------------------------------------------------------
def test_leave_one_out_is_near_the_refits():
    X, y = waves(50)
    model = KernelQuantileRegressor(RBF(1.5), [0.2, 0.5], 1.0, tol=1e-8).fit(X, y)
    every, true = np.arange(50), np.empty((50, 2))
    for i in every:
        o = np.delete(every, i)
        true[i] = clone(model).fit(X[o], y[o]).predict(X[[i]])[0]
    near, itself = model.loo(), model.predict(X)
    for j, level in enumerate((0.2, 0.5)):
        risks = [Pinball(level).value(y, f[:, j]).mean() for f in (itself, near, true)]
        assert abs(risks[1] - risks[2]) < abs(risks[0] - risks[2])


def test_training_points_are_asked_for_only_when_they_are_not_kept():
    X, y = waves(20)
    model = KernelQuantileRegressor(RBF(1.0)).fit(X, y)
    with pytest.raises(InvalidInput, match=r"KernelQuantileRegressor\.loo: X is not"):
        model.loo(X[::-1])
    np.testing.assert_array_equal(model.loo(X), model.loo())
    K = RBF(1.0)(X)
    given = KernelQuantileRegressor("precomputed").fit(K, y)
    with pytest.raises(InvalidInput, match=r"pass the training matrix again"):
        given.loo()
    np.testing.assert_allclose(given.loo(K), model.loo(), atol=1e-5)
    with pytest.raises(InvalidInput):
        given.loo(K[:10])


def test_the_score_is_the_share_of_the_loss_of_a_constant_that_is_saved():
    X, y = waves(60)
    model = KernelQuantileRegressor(RBF(1.0), [0.3, 0.8], 0.1).fit(X, y)
    shares, bands = [], model.predict(X)
    for j, level in enumerate((0.3, 0.8)):
        loss = Pinball(level)
        least = min(loss.value(y, q).sum() for q in y)
        shares.append(1 - loss.value(y, bands[:, j]).sum() / least)
    assert model.score(X, y) == pytest.approx(np.mean(shares), rel=1e-6)
    one = KernelQuantileRegressor(RBF(1.0), 0.3, 0.1).fit(X, y)
    assert one.score(X, y) == pytest.approx(shares[0], rel=1e-4)
    assert 0 < one.score(X, y, np.ones(60)) < 1


def test_scikit_learn_searches_it():
    X, y = waves(60)
    assert cross_val_score(KernelQuantileRegressor(quantile=[0.2, 0.8]), X, y, cv=3).shape == (3,)
    grid = {"kernel__length_scale": [0.5, 2.0], "quantile": [0.3, 0.6]}
    search = GridSearchCV(KernelQuantileRegressor(Matern()), grid, cv=3).fit(X, y)
    assert np.isfinite(search.best_score_)


# -- refusals, limits, copies -----------------------------------------------------------------
@pytest.mark.parametrize(
    ("level", "says"),
    [
        (0, "quantile=0; give"),
        (1.0, "quantile=1.0"),
        (-0.2, "quantile=-0.2"),
        (np.nan, "quantile=nan"),
        (True, "quantile=True"),
        ("0.5", "quantile='0.5'"),
        (None, "quantile=None"),
        ([], "names no level"),
        (np.array([]), "names no level"),
        ([0.1, 1.2], r"holds 1\.2"),
        ([0.1, "b"], "holds 'b'"),
        ([0.1, 0.5, 0.1], "twice"),
        ([[0.1, 0.5]], "holds"),
        ({"low": 0.1}, "quantile={'low': 0.1}"),
    ],
)
def test_levels_that_are_none(level, says):
    X, y = waves(10)
    with pytest.raises(InvalidInput, match=f"KernelQuantileRegressor: .*{says}"):
        KernelQuantileRegressor(quantile=level).fit(X, y)


@pytest.mark.parametrize(
    "params",
    [
        {"alpha": 0.0},
        {"alpha": -1.0},
        {"alpha": "loo"},
        {"alpha": np.inf},
        {"tol": 0.0},
        {"max_iter": 0},
        {"max_iter": 2.5},
        {"max_time": -1},
        {"fit_intercept": "no"},
    ],
)
def test_parameters_that_are_none(params):
    X, y = waves(10)
    (name,) = params
    with pytest.raises(InvalidInput, match=f"KernelQuantileRegressor: {name}="):
        KernelQuantileRegressor(**params).fit(X, y)


def test_two_columns_of_targets_are_refused():
    X, _ = waves(10)
    with pytest.raises(InvalidInput, match="y has 2 columns"):
        KernelQuantileRegressor().fit(X, np.zeros((10, 2)))


def test_a_failed_fit_leaves_the_last_one():
    X, y = waves(20)
    model = KernelQuantileRegressor(RBF(1.0)).fit(X, y)
    before = model.predict(X)
    with pytest.raises(InvalidInput):
        model.set_params(quantile=2.0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), before)
    model.set_params(quantile=[0.1, 0.2])  # what is predicted is what was fitted
    np.testing.assert_array_equal(model.predict(X), before)


def test_limits_are_heard_and_told():
    X, y = waves(200)
    for limit in ({"max_iter": 5}, {"max_time": 1e-9}):
        model = KernelQuantileRegressor(RBF(0.5), [0.3, 0.6], 1e-4, **limit)
        with pytest.warns(NotConverged, match="KernelQuantileRegressor"):
            model.fit(X, y)
        assert not model.solution_.converged and np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("level", [0.3, [0.8, 0.2]])
@pytest.mark.parametrize("kernel", [RBF(1.0), Linear()])
def test_copies_and_files(tmp_path, level, kernel):
    X, y = waves(30)
    w = np.arange(30) % 4.0
    model = KernelQuantileRegressor(kernel, level, 0.5).fit(X, y, w)
    mercer.save(model, tmp_path / "m")
    for back in (mercer.load(tmp_path / "m"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(back.predict(X), model.predict(X))
        np.testing.assert_array_equal(back.loo(), model.loo())
        assert back.solution_.gap == model.solution_.gap


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("intercept_", np.zeros(3)),
        ("quantile_", 0.5),
        ("y_fit_", np.zeros(3)),
        ("dual_coef_", np.full((30, 2), np.nan)),
        ("coef_", np.zeros((5, 2))),
    ],
)
def test_a_file_whose_parts_do_not_belong_together(name, value):
    X, y = waves(30)
    model = KernelQuantileRegressor("linear", [0.2, 0.8]).fit(X, y)
    setattr(model, name, value)
    with pytest.raises(ModelFileError, match="KernelQuantileRegressor"):
        model._check_state()
    del model.quantile_
    with pytest.raises(ModelFileError, match="without quantile_"):
        model._check_state()
