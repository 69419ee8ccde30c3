"""Shares of columns, against all subsets of them counted one by one."""

from itertools import combinations
from math import factorial

import numpy as np
import pytest

import mercer
from mercer import (
    RBF,
    Categorical,
    Cosine,
    Exponential,
    Function,
    Laplacian,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    PowerExponential,
    RationalQuadratic,
    Spectrum,
)
from mercer.errors import InvalidInput
from mercer.kernels import SpectralMixture, groups_of, terms_of

RNG = np.random.default_rng(0)
D, N, ROWS = 4, 25, 3
X, POINTS, B = (RNG.normal(size=(n, D)) for n in (ROWS, N, 6))
COEF = RNG.normal(size=(N, 2))
WEIGHTS = np.array([1.0, 2.0, 3.0, 1.0, 0.0, 2.0])

EXACT = [
    RBF([1.0, 2.0, 0.5, 1.0]),
    RBF(covariance=np.diag([1.0, 2.0, 3.0, 4.0])),
    Laplacian(2.0),
    PowerExponential(2.0, power=1.3, norm=1.3),
    Exponential(2.0),
    Exponential(2.0).normalized(),
    Periodic(1.0, 2.0),
    Linear(),
    Linear(np.diag([1.0, 2.0, 3.0, 4.0])),
    Linear().exp(),
    Polynomial(3, 1.0),
    Polynomial(2, 0.5, length_scale=2.0) * RBF(),
    Polynomial(2, 0.0).on([1, 2]) + RBF().on([0, 3]),
    (RBF() + 1.0) ** 2,
    Polynomial(2, 1.0) ** 2,
    RBF().series([0.1, 0.5, 0.2]),
    2.0 * RBF().on([0, 1]) + Laplacian().on([2, 3]) * RBF().on(1),
    RBF(covariance=[[1.0, 0.5], [0.5, 2.0]]).on([0, 2]) * Laplacian().on([1, 3]),
    RBF().in_metric(np.diag([1.0, 0.5, 2.0, 1.0])),
    RBF().with_missing(0.5),
]
MIXED = [Matern(2.0, nu=2.5), Matern([1.0, 2.0, 3.0, 1.0]), RationalQuadratic(2.0, 2.0)]


def counted(worth, p):
    """Return the Shapley values and the interactions of a game, subset by subset."""
    values, pairs = [], {}
    for j in range(p):
        rest = [k for k in range(p) if k != j]
        share = 0.0
        for size in range(p):
            weight = factorial(size) * factorial(p - 1 - size) / factorial(p)
            for S in combinations(rest, size):
                share = share + weight * (worth({*S, j}) - worth(set(S)))
        values.append(share)
        for k in rest:
            free = [i for i in rest if i != k]
            both = 0.0
            for size in range(p - 1):
                weight = factorial(size) * factorial(p - 2 - size) / factorial(p - 1)
                for S in combinations(free, size):
                    gain = worth({*S, j, k}) - worth({*S, j}) - worth({*S, k}) + worth(set(S))
                    both = both + weight * gain
            pairs[j, k] = both
    return np.stack(values), pairs


def mixed(x, b, S, groups):
    row = b.copy()
    for g in S:
        row[list(groups[g])] = x[list(groups[g])]
    return row


@pytest.mark.parametrize("kernel", EXACT + MIXED, ids=str)
def test_the_game_of_a_background_is_that_of_mixed_rows(kernel):
    f = Function(kernel, POINTS, COEF, [1.0, -2.0])
    told = f.explain(
        X, game="background", background=B, background_weight=WEIGHTS, interactions=True
    )
    groups = groups_of(terms_of(kernel, D), D)
    w = WEIGHTS / WEIGHTS.sum()
    for i, x in enumerate(X):

        def worth(S, x=x):
            return w @ f(np.array([mixed(x, b, S, groups) for b in B]))

        values, pairs = counted(worth, len(groups))
        atol = 1e-10 * np.abs(COEF).sum() + told.error
        np.testing.assert_allclose(told.values[i], values, atol=atol)
        np.testing.assert_allclose(told.base, worth(set()), atol=atol)
        for (j, k), both in pairs.items():
            np.testing.assert_allclose(told.interactions[i, j, k], both / 2, atol=atol)
    np.testing.assert_allclose(told.interactions.sum(2), told.values, atol=1e-12)
    np.testing.assert_allclose(told.totals, f(X), atol=1e-9 + told.error)
    assert told.error <= 1e-4 and (kernel in MIXED) == (told.error > 0)


def factors(kernel, game):
    """Return what a product of kernels of one column is worth, by a double loop."""
    means = [
        np.average(
            [[kernel[j]([[b]], [[z]])[0, 0] for z in POINTS[:, j]] for b in B[:, j]], 0, WEIGHTS
        )
        for j in range(D)
    ]

    def worth(x, S):
        total = np.zeros(2)
        for i in range(N):
            value = 1.0
            for j in range(D):
                here = kernel[j]([[x[j]]], [[POINTS[i, j]]])[0, 0]
                left = means[j][i] if game == "marginal" else 1.0
                value *= here if j in S else left
            total += value * COEF[i]
        return total

    return worth


@pytest.mark.parametrize("game", ["marginal", "baseline"])
def test_games_of_single_factors(game):
    each = [RBF(1.0), RBF(2.0), Laplacian(0.5), Periodic(1.0, 3.0)]
    kernel = each[0].on(0) * each[1].on(1) * each[2].on(2) * each[3].on(3)
    given = {} if game == "baseline" else {"background": B, "background_weight": WEIGHTS}
    told = Function(kernel, POINTS, COEF).explain(X[:1], game=game, interactions=True, **given)
    worth = factors(each, game)
    values, pairs = counted(lambda S: worth(X[0], S), D)
    np.testing.assert_allclose(told.values[0], values, atol=1e-12)
    np.testing.assert_allclose(told.base, worth(X[0], set()), atol=1e-12)
    for (j, k), both in pairs.items():
        np.testing.assert_allclose(told.interactions[0, j, k], both / 2, atol=1e-12)


def test_shares_add_up_on_random_models():
    for seed in range(300):
        rng = np.random.default_rng(seed)
        d, n = rng.integers(1, 13), rng.integers(1, 40)
        kernel = [RBF, Laplacian][seed % 2](rng.uniform(0.3, 3.0, d))
        f = Function(kernel, rng.normal(size=(n, d)), rng.normal(size=n), rng.normal())
        rows = rng.normal(size=(2, d))
        for game in ("marginal", "background", "baseline"):
            told = f.explain(rows, game=game)
            np.testing.assert_allclose(told.totals, f(rows), atol=1e-9)


def test_symmetry_dummy_and_linearity():
    same = POINTS.copy()
    same[:, 1] = same[:, 0]
    rows, back = X.copy(), B.copy()
    rows[:, 1], back[:, 1] = rows[:, 0], back[:, 0]
    told = Function(RBF(1.0), same, COEF).explain(rows, background=back)
    np.testing.assert_allclose(told.values[:, 0], told.values[:, 1], atol=1e-12)
    alone = Function(RBF(1.0).on([0, 2]), POINTS, COEF).explain(X, game="background", background=B)
    assert (alone.values[:, [1, 3]] == 0).all()
    f, g = (Function(Laplacian(2.0), POINTS, c) for c in COEF.T)
    whole = (2.0 * f + g).explain(X, background=B).values
    parts = 2.0 * f.explain(X, background=B).values + g.explain(X, background=B).values
    np.testing.assert_allclose(whole, parts, atol=1e-12)


def test_explanations_of_sums_and_multiples_of_models():
    f, g = (Function(RBF(1.0), POINTS, c) for c in COEF.T)
    parts = [h.explain(X, background=B, interactions=True) for h in (f, g)]
    mean = 0.5 * (parts[0] + parts[1])
    whole = (0.5 * (f + g)).explain(X, background=B, interactions=True)
    for name in ("values", "base", "interactions"):
        np.testing.assert_allclose(getattr(mean, name), getattr(whole, name), atol=1e-12)
    with pytest.raises(InvalidInput, match="not of the same rows"):
        parts[0] + f.explain(X, game="baseline")
    with pytest.raises(TypeError):
        parts[0] + 1.0


def test_a_background_that_memory_does_not_hold_is_refused():
    f, behind = Function(RBF([1.0] * D), POINTS, COEF), RNG.normal(size=(20_000, D))
    with mercer.config(memory=20_000_000):
        with pytest.raises(MemoryError, match=r"20000 rows of the background.*fewer rows"):
            f.explain(X, game="background", background=behind)
        told = f.explain(X, background=behind)
    np.testing.assert_allclose(told.totals, f(X), atol=1e-9)


def test_a_weight_is_a_repetition():
    f, counts = Function(RBF(1.0), POINTS, COEF), np.array([1, 2, 0, 3, 1, 1])
    for game in ("marginal", "background"):
        weighted = f.explain(X, game=game, background=B, background_weight=counts)
        repeated = f.explain(X, game=game, background=np.repeat(B, counts, axis=0))
        np.testing.assert_allclose(weighted.values, repeated.values, atol=1e-12)


def test_many_points_rows_and_threads_change_no_bit():
    rng = np.random.default_rng(1)
    points, rows, back = (rng.normal(size=(n, 7)) for n in (2500, 90, 150))
    f = Function(RBF(2.0), points, rng.normal(size=2500))
    told = []
    for threads in (1, 2):
        with mercer.config(threads=threads):
            told.append(f.explain(rows, game="background", background=back, interactions=True))
    assert (told[0].values == told[1].values).all()
    assert (told[0].interactions == told[1].interactions).all()
    np.testing.assert_allclose(told[0].totals, f(rows), atol=1e-8)
    some = f.explain(rows[:3], game="background", background=back)
    np.testing.assert_allclose(some.values, told[0].values[:3], rtol=1e-9, atol=1e-11)


def test_any_kernel_is_asked_at_mixed_rows():
    f = Function(Cosine(), POINTS, COEF[:, 0])
    with pytest.raises(InvalidInput, match=r"Cosine\(\) is no sum of products.*game='background'"):
        f.explain(X)
    told = f.explain(X, game="background", background=B, interactions=True)
    values, _ = counted(
        lambda S: np.mean(f(np.array([mixed(X[0], b, S, [(j,) for j in range(D)]) for b in B]))), D
    )
    np.testing.assert_allclose(told.values[0], values, atol=1e-12)
    assert told.std is None


def test_orders_are_drawn_where_subsets_are_many():
    rng = np.random.default_rng(2)
    points, rows, back = (rng.normal(size=(n, 24)) for n in (40, 4, 30))
    turned = RBF(6.0).in_metric(np.linalg.qr(rng.normal(size=(24, 24)))[0])
    plain = Function(RBF(6.0), points, rng.normal(size=40))
    f = Function(turned, points, plain.coef)
    told = f.explain(rows, game="background", background=back)
    exact = plain.explain(rows, game="background", background=back)  # the same f: a rotation
    np.testing.assert_allclose(told.totals, exact.totals, atol=1e-9)
    error = (told.values - exact.values) / told.std
    assert np.abs(error).max() < 6 and np.sqrt((error**2).mean()) < 2
    again = f.explain(rows, game="background", background=back)
    assert (again.values == told.values).all()
    with pytest.raises(InvalidInput, match="interactions"):
        f.explain(rows, game="background", background=back, interactions=True)


def test_groups_share_as_one():
    f = Function(RBF(1.0), POINTS, COEF)
    told = f.explain(X, background=B, groups=[[0, 2]])
    assert told.columns == ("x0 & x2", "x1", "x3") and told.values.shape == (ROWS, 3, 2)
    np.testing.assert_allclose(told.totals, f(X), atol=1e-12)
    one = f.explain(X, background=B, groups=[[0, 1, 2, 3]])
    np.testing.assert_allclose(one.values[:, 0], f(X) - one.base, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"game": "fair"}, "game='fair'; legal: 'marginal', 'background', 'baseline'"),
        ({"groups": [[0, 9]]}, "groups names column 9"),
        ({"groups": [["age"]]}, "groups names a column 'age'"),
        ({"groups": [[0, 1], [1]]}, "names a column twice"),
        ({"background": B[:, :2]}, "background"),
        ({"background": B, "background_weight": [1.0]}, "weights have shape"),
    ],
)
def test_what_is_refused(options, words):
    with pytest.raises(InvalidInput, match=words):
        Function(RBF([1.0] * D), POINTS, COEF).explain(X, **options)


def test_points_without_columns_are_refused():
    with pytest.raises(InvalidInput, match="strings, which have none"):
        Function(Spectrum(2), ["ab", "ba"], [1.0, 2.0]).explain(["ab"])
    with pytest.raises(InvalidInput, match="a Gram matrix"):
        Function("precomputed", np.eye(2), [1.0, 2.0]).explain(np.eye(2))


def test_other_kernels_are_products_or_say_so():
    assert len(terms_of(Categorical(0.5), 3).terms[0].factors) == 3
    with pytest.raises(InvalidInput):
        terms_of(SpectralMixture(), 2)
    with pytest.raises(InvalidInput, match="mixes columns"):
        terms_of(RBF().in_metric([[1.0, 1.0]]), 2)


def test_one_row_one_column_one_point():
    f = Function(RBF(1.0), [[0.0]], [2.0])
    told = f.explain([[1.0]])
    np.testing.assert_allclose(told.values, [[2 * np.exp(-0.5) - 2]])
    assert told.base == 2.0 and len(told) == 1 and told.top() == [("x0", 1.0, told.values[0, 0])]


def test_the_explanation_has_what_plots_of_shap_read():
    told = Function(RBF(1.0), POINTS, COEF).explain(X, background=B)
    assert told.base_values.shape == (ROWS, 2) and told.feature_names == ["x0", "x1", "x2", "x3"]
    assert told.data.shape == (ROWS, D) and told[1:].values.shape == (2, D, 2)
    one = told.output(1)
    assert one.values.shape == (ROWS, D) and isinstance(one.base, float)
    np.testing.assert_allclose(one.importances, np.abs(told.values[:, :, 1]).mean(0))
    with pytest.raises(InvalidInput, match="choose an output"):
        told.top()
    with pytest.raises(ImportError, match="shap is not installed"):
        told.to_shap()
