"""Missing values inside kernels: definite by construction, and the kernel itself without any."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import mercer
from mercer.domains import Table
from mercer.errors import InvalidInput
from mercer.kernels import (
    GCD,
    RBF,
    Categorical,
    FromFunction,
    Laplacian,
    Linear,
    Matern,
    Minimum,
    Ordinal,
    Polynomial,
    Precomputed,
    Spectrum,
    WeisfeilerLehman,
    White,
    WithMissing,
)
from mercer.testing.examples.tables import LEVELS, sample_clinic


def holed(rng, n, d, share):
    X = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-2, 3)
    X[rng.random((n, d)) < share] = np.nan
    return X


# ---------------------------------------------------------------------- positive definite
@pytest.mark.parametrize("seed", range(20))
def test_two_hundred_random_tables(seed):
    # ten tables a seed: numbers, categories, levels and strings, from nothing to all missing
    rng = np.random.default_rng(seed)
    for share in np.linspace(0, 1, 10):
        n = int(rng.integers(1, 40))
        table = sample_clinic(rng, n)
        columns = {name: table[name].astype(object) for name in table.names}
        for values in columns.values():
            values[rng.random(n) < share] = None
        frame = Table(columns | {"x": holed(rng, n, 1, share)[:, 0]})
        inner = rng.choice([RBF("median"), Matern(), Laplacian("median"), Polynomial(2), Linear()])
        rho = float(rng.choice([0.0, 0.3, 0.5, 1.0]))
        k = inner.with_missing(str(rng.choice(["median", "mean"])), rho).on(
            ["age", "x"]
        ) * Categorical(0.4).on("site") + Spectrum(2).with_missing(
            rng.choice([None, "AC"]), rho
        ).on("sequence") * Ordinal(LEVELS).on("severity")
        K = k(frame)
        values = np.linalg.eigvalsh(K)
        assert np.array_equal(K, K.T) and values[0] >= -1e-10 * max(values[-1], 1e-300)


def test_filling_in_alone_forgets_what_is_missing():
    # with agreement 1 a filled row is a row; with less it is another point
    X = np.array([[1.0, np.nan], [1.0, 0.0]])
    assert RBF().with_missing(0.0, 1.0)(X)[0, 1] == 1.0
    assert RBF().with_missing(0.0, 0.25)(X)[0, 1] == 0.25
    assert RBF().with_missing(0.0, 0.0)(X)[0, 1] == 0.0


@pytest.mark.parametrize("d", [1, 2, 30])
def test_by_default_all_gaps_of_a_row_together_cost_one_half(d):
    X = np.zeros((3, d))
    X[1] = np.nan
    X[2, 0] = np.nan
    K = RBF().with_missing(0.0)(X)
    assert K[0, 1] == pytest.approx(0.5) and K[0, 2] == pytest.approx(0.5 ** (1 / d))
    assert K[1, 2] == pytest.approx(0.5 ** ((d - 1) / d))
    assert Spectrum(1).with_missing("a")(["a", None])[0, 1] == 0.5


@pytest.mark.parametrize("kernel", [RBF(1.3), Polynomial(2), Laplacian(2.0), RBF([1.0, 2.0, 3.0])])
def test_complete_rows_see_the_kernel_itself(kernel):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((7, 3)), rng.standard_normal((5, 3))
    k = kernel.with_missing(0.5)
    np.testing.assert_array_equal(k(X), kernel(X))
    np.testing.assert_array_equal(k(X, Y), kernel(X, Y))
    np.testing.assert_array_equal(k.diag(X), kernel.diag(X))


def test_numbers_outside_the_domain_are_still_refused():
    k = Minimum().with_missing(fill=1.0)
    assert k([[2.0], [np.nan]])[1, 1] == 1.0
    with pytest.raises(InvalidInput, match="legal are"):
        k([[-2.0], [np.nan]])
    with pytest.raises(InvalidInput, match="legal are"):
        Minimum().with_missing(fill=-1.0)([[2.0], [np.nan]])
    with pytest.raises(InvalidInput, match=r"with_missing: .*fill contains -1; .*fill=\.\.\."):
        Minimum().with_missing(fill=-1.0)([[2.0], [np.nan]])


def test_whole_numbers_are_filled_with_a_whole_number():
    k = GCD().with_missing().fit_params([[2], [None], [5]])
    assert k.fill == 3.0
    np.testing.assert_array_equal(np.diagonal(k([[2], [None], [5]])), [2, 3, 5])
    with pytest.raises(InvalidInput, match=r"fill contains 3\.5"):
        GCD().with_missing(fill=3.5)([[2], [None]])


# ------------------------------------------------------------------------ words and weights
def test_fill_is_taken_from_the_data():
    X = np.array([[1.0, np.nan, np.nan], [3.0, 5.0, np.nan], [100.0, 7.0, np.nan]])
    median = RBF().with_missing().fit_params(X)
    np.testing.assert_array_equal(median.fill, [3.0, 6.0, 0.0])
    np.testing.assert_allclose(RBF().with_missing("mean").fit_params(X).fill, [104 / 3, 6.0, 0.0])
    assert RBF().with_missing().fit_params(X[:, :1]).fill == 3.0
    with pytest.raises(InvalidInput, match="fit_params"):
        RBF().with_missing()(X, X[:1])


def test_a_weight_of_two_is_a_row_twice():
    rng = np.random.default_rng(3)
    X, w = holed(rng, 12, 2, 0.3), rng.integers(0, 3, 12)
    for word in ("median", "mean"):
        k = RBF("median").with_missing(word)
        weighted, repeated = k.fit_params(X, w), k.fit_params(np.repeat(X, w, axis=0))
        np.testing.assert_allclose(weighted.fill, repeated.fill, rtol=1e-12)
        assert weighted.kernel.length_scale == pytest.approx(repeated.kernel.length_scale)


def test_inner_words_see_the_filled_rows():
    X = np.array([[0.0], [np.nan], [4.0], [4.0]])
    k = RBF("median").with_missing().fit_params(X)
    assert k.fill == 4.0 and k.kernel.length_scale == 4.0
    assert k._words() == [] and k.fit_params(X * 9) is k


# -------------------------------------------------------------------------- derivatives
@pytest.mark.parametrize("agreement", [0.0, 0.5, 1.0])
def test_gradient_in_parameters_and_in_what_is_there(agreement):
    rng = np.random.default_rng(1)
    X, Y = holed(rng, 6, 3, 0.3), holed(rng, 5, 3, 0.3)
    X, Y = X / np.nanstd(X), Y / np.nanstd(Y)
    k = RBF([1.0, 2.0, 0.7]).with_missing([0.1, -0.2, 0.3], agreement)
    W, h = rng.standard_normal((6, 5)), 1e-5
    assert len(k.theta) == 4 if agreement == 0.5 else 3
    step = np.eye(len(k.theta)) * h
    expected = [
        (W * (k.with_theta(k.theta + e)(X, Y) - k.with_theta(k.theta - e)(X, Y))).sum() / (2 * h)
        for e in step
    ]
    np.testing.assert_allclose(k.theta_vjp(X, W, Y), expected, atol=1e-8)
    c = rng.standard_normal(5)
    got = k.gradient(X, Y, c)
    assert (got[np.isnan(X)] == 0).all()
    for i, j in np.argwhere(~np.isnan(X)):
        up, down = X.copy(), X.copy()
        up[i, j] += h
        down[i, j] -= h
        slope = (k(up, Y)[i] - k(down, Y)[i]) @ c / (2 * h)
        assert got[i, j] == pytest.approx(slope, abs=1e-7)


# ----------------------------------------------------------------------------- other points
def test_a_missing_point_is_a_direction_of_its_own():
    networkx = pytest.importorskip("networkx")
    G = networkx.path_graph(3)
    cases = [
        (Spectrum(1), ["ab", "b"]),
        (WeisfeilerLehman(1), [G, networkx.cycle_graph(4)]),
        (FromFunction(lambda a, b: float(a == b)), ["x", (1, 2)]),
        (Spectrum(1).normalized(), ["ab", ""]),
    ]
    for kernel, (a, b) in cases:
        k, inner = kernel.with_missing(), kernel([a, b])
        K = k([None, a, np.nan, b, None])
        np.testing.assert_array_equal(K[np.ix_([1, 3], [1, 3])], inner)
        np.testing.assert_array_equal(K[np.ix_([0, 2, 4], [0, 2, 4])], 1)
        np.testing.assert_array_equal(K[np.ix_([0, 2, 4], [1, 3])], 0)
        np.testing.assert_array_equal(k.diag([None, a]), [1, inner[0, 0]])
        np.testing.assert_array_equal(k([None], [a, b, None]), [[0, 0, 1]])
        np.testing.assert_array_equal(k([None, None]), np.ones((2, 2)))


def test_a_point_that_stands_in():
    k = Spectrum(1).with_missing(fill="ab", agreement=0.5)
    np.testing.assert_array_equal(k(["ab", None, "b"]), [[2, 1, 1], [1, 2, 0.5], [1, 0.5, 1]])
    np.testing.assert_array_equal(k([None, None]), [[2, 2], [2, 2]])
    with pytest.raises(InvalidInput, match="fill"):
        Spectrum(1).with_missing(fill=3)(["a", None])


def test_features_of_strings_some_missing():
    k = Spectrum(2).with_missing().fit_params(["abc", None, "bc"])
    X = ["abc", None, "bc", None]
    phi = k.features(X)
    np.testing.assert_allclose((phi @ phi.T).toarray(), k(X), atol=1e-14)


def test_sums_with_kernels_that_take_none():
    k = Spectrum(1).with_missing() + Spectrum(2)
    np.testing.assert_array_equal(k(["ab", "b"]), (Spectrum(1) + Spectrum(2))(["ab", "b"]))
    with pytest.raises(InvalidInput, match=r"X\[1\] is missing"):
        k(["ab", None])
    rows = RBF().with_missing(0.0) + Linear()
    np.testing.assert_array_equal(rows([[1.0]]), [[2.0]])
    with pytest.raises(InvalidInput, match=r"with_missing\(\)"):
        rows([[np.nan]])


# -------------------------------------------------------------------------------- legality
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RBF().with_missing("mode"), "'median', 'mean'"),
        (lambda: RBF().with_missing(np.nan), "finite number"),
        (lambda: RBF().with_missing([[1.0]]), "finite number"),
        (lambda: RBF().with_missing([]), "finite number"),
        (lambda: RBF().with_missing(agreement=1.5), "from 0 to 1"),
        (lambda: RBF().with_missing(agreement=-1), "agreement"),
        (lambda: RBF().with_missing(agreement="high"), "agreement"),
        (lambda: RBF().with_missing(agreement=np.nan), "agreement"),
        (lambda: Categorical().with_missing(agreement=0.9), "leave agreement out"),
        (lambda: Categorical().with_missing(fill="a"), "leave fill out"),
        (lambda: Ordinal().with_missing(agreement=0.9), "leave agreement out"),
        (lambda: RBF("median").with_missing().fit_params([[1.0], [2.0]], [1.0]), "sample_weight"),
        (lambda: Ordinal().with_missing(fill="a"), "leave fill out"),
        (lambda: Spectrum(1).with_missing(fill=np.nan), "missing itself"),
        (lambda: Precomputed().with_missing(), "row and column"),
        (lambda: RBF().with_missing().with_missing(), "already"),
        (lambda: WithMissing(Categorical()), "category of its own"),
        (lambda: WithMissing(RBF().on("a")), r"with_missing\(\).on"),
        (lambda: WithMissing(3), "not a Kernel"),
        (lambda: RBF().with_missing([1.0, 2.0])([[np.nan] * 3]), "2 numbers for 3 columns"),
    ],
)
def test_what_is_refused(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()


def test_of_a_kernel_on_columns_every_part_is_changed():
    k = (2.0 * RBF().on("a") * Categorical().on("b") + Spectrum(2).normalized().on("c")).exp()
    changed = k.with_missing(agreement=0.25)
    assert repr(changed) == (
        "(2.0 * RBF(length_scale=1.0).with_missing(agreement=0.25).on('a')"
        " * Categorical(similarity=0.0).on('b')"
        " + Spectrum(length=2).normalized().with_missing(agreement=0.25).on('c')).exp()"
    )
    frame = {"a": [1.0, None], "b": ["x", None], "c": ["abc", None]}
    assert np.linalg.eigvalsh(changed(frame))[0] > 0
    with pytest.raises(InvalidInput, match=r"on\('a'\).*column 'a'.*with_missing"):
        k(frame)


def test_parts_that_take_missing_values_stay_as_they_are():
    half = RBF().with_missing(0.0).on("a") + Spectrum(2).on("b") * Categorical().on("c")
    k = half.with_missing(agreement=0.25)
    assert k.k1 == half.k1 and k.k2.k1 == Spectrum(2).with_missing(agreement=0.25).on("b")
    assert k.with_missing() == k


def test_agreement_is_tuned_where_it_is_a_number_inside():
    assert RBF().with_missing().theta_names == ["kernel__length_scale"]
    k = RBF(2.0).with_missing(0.0, 0.5)
    assert k.theta_names == ["kernel__length_scale", "agreement"]
    assert k.with_theta(np.log([4.0, 0.25])) == RBF(4.0).with_missing(0.0, 0.25)
    assert (k.bounds[:, 0] < k.theta).all() and 0.99 < np.exp(k.bounds[1, 1]) < 1
    for fixed in (RBF().with_missing(0.0, 0.0), RBF().with_missing(0.0, 1.0)):
        assert fixed.theta_names == ["kernel__length_scale"]
    assert len(Spectrum(2).with_missing(agreement=0.5).theta) == 0  # no value depends on it
    # which numbers are missing says nothing here, and the evidence finds that out
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    y = np.sin(2 * X[:, 0])
    X[rng.random(60) < 0.5, 1] = np.nan
    gp = mercer.GaussianProcessRegressor(k, optimizer="lbfgs").fit(X, y)
    assert gp.kernel_.agreement > 0.9


def test_printed_with_numbers_it_is_an_expression():
    k = RBF().with_missing().fit_params([[0.1303456, 14.5], [np.nan, 1.0], [-2.0, 3.0]])
    assert repr(k).endswith(".with_missing(fill=[-0.9348272, 3.0])")
    assert eval(repr(k), {"RBF": RBF}) == k


# ---------------------------------------------------------------------------------- models
def test_models_on_arrays_with_missing_numbers(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = X[:, 0] + (X[:, 1] > 0)
    X[rng.random(X.shape) < 0.2] = np.nan
    model = mercer.KernelRidge(RBF("median").with_missing(), alpha=0.1).fit(X, y)
    assert model.score(X, y) > 0.8 and model.n_features_in_ == 3
    for twin in (pickle.loads(pickle.dumps(model)), clone(model).fit(X, y)):
        np.testing.assert_array_equal(twin.predict(X), model.predict(X))
    mercer.save(model, tmp_path / "m.mercer")
    np.testing.assert_array_equal(mercer.load(tmp_path / "m.mercer").predict(X), model.predict(X))
    objects = X.astype(object)
    objects[np.isnan(X)] = None
    np.testing.assert_allclose(model.predict(objects), model.predict(X))
    grid = {"kernel__agreement": [0.2, 0.9], "kernel__kernel__length_scale": [1.0, 2.0]}
    search = GridSearchCV(mercer.KernelRidge(RBF().with_missing()), grid, cv=3).fit(X, y)
    assert set(search.best_params_) == set(grid)
    for kernel in (RBF(), RBF().on([0, 1])):
        with pytest.raises(InvalidInput, match=r"with_missing\(\)"):
            mercer.KernelRidge(kernel).fit(X, y)
    Z = np.column_stack([np.nan_to_num(X[:, 0]), X[:, 1]])  # the kernel does not look at the second
    assert np.isfinite(mercer.KernelRidge(RBF().on([0])).fit(Z, y).predict(Z)).all()
    with pytest.raises(InvalidInput, match="inf"):
        mercer.KernelRidge(RBF().with_missing()).fit(np.where(np.isnan(X), np.inf, X), y)


def test_tuning_reaches_through():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 1))
    y = np.sin(2 * X[:, 0])
    X[::7] = np.nan
    found = mercer.tune(mercer.KernelRidge(RBF(5.0).with_missing(), alpha=0.01), X, y)
    assert found.model.kernel_.kernel.length_scale < 4
    gp = mercer.GaussianProcessRegressor(RBF(5.0).with_missing(), optimizer="lbfgs")
    assert gp.fit(X, y).kernel_.kernel.length_scale != 5.0


def test_strings_with_missing_ones_in_a_model():
    words = ["abab", None, "bbbb", "aaaa", None, "baba"] * 4
    y = [1 if w is None or "ab" in w else 0 for w in words]
    model = mercer.SVC(kernel=Spectrum(2).with_missing(), C=100.0).fit(words, y)
    assert model.score(words, y) == 1.0 and model.predict([None])[0] == 1
    with pytest.raises(InvalidInput, match=r"X\[1\] is missing.*with_missing"):
        mercer.SVC(kernel=Spectrum(2)).fit(words, y)


def test_constants_and_noise_beside_missing_points():
    k, X, Y = Spectrum(1).with_missing(), ["ab", None, "b", None], ["b", None]
    K, C = k(X), k(X, Y)
    np.testing.assert_allclose((2.0 * k)(X), 2 * K)
    np.testing.assert_allclose((k + 1.5)(X, Y), C + 1.5)
    np.testing.assert_allclose((k + White(0.1) * 2.0)(X), K + 0.2 * np.eye(4))
    np.testing.assert_allclose((2.0 * k + 0.5).diag(X), 2 * np.diag(K) + 0.5)
    with pytest.raises(InvalidInput, match=r"X\[1\] is missing"):
        (k + Spectrum(2))(X)
