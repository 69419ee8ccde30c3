"""Stochastic gradients against Newton's method, their NumPy twins, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from mercer.errors import InvalidInput, NotConverged
from mercer.losses import Absolute, Exponential, Huber, Logistic, Squared, SquaredHinge
from mercer.solvers import SGD, FeatureERM
from mercer.solvers.risk.sgd import POWER, AveragedSGD

rng = np.random.default_rng(4)
N, D = 120, 4
PHI = rng.standard_normal((N, D)) + 0.5
Y = np.where(PHI[:, 0] - PHI[:, 1] + 0.8 * rng.standard_normal(N) > 0, 1.0, -1.0)
T = PHI @ np.arange(D) + rng.standard_normal(N)
CODES = np.argmax(PHI @ rng.standard_normal((D, 4)) + rng.gumbel(size=(N, 4)), axis=1)
W = rng.uniform(0.2, 3.0, N)
PROBLEMS = {
    "logistic": (Y, Logistic(), 2),
    "squared_hinge": (Y, SquaredHinge(), 2),
    "squared": (T, Squared(), 2),
    "huber": (T, Huber(0.7), 2),
    "softmax": (CODES, Logistic(), 4),
}


def objective(problem, V, b):
    """The definition, in the words of the docstring."""
    z = np.asarray(problem.Phi @ V) + b
    w = np.ones(len(problem.y)) if problem.weights is None else problem.weights
    if problem.classes > 2:
        losses = np.log(np.exp(z).sum(1)) - z[np.arange(len(z)), np.asarray(problem.y, dtype=int)]
    else:
        losses = problem.loss.value(problem.y, z)
    return w @ losses + 0.5 * problem.alpha * (V**2).sum()


def independent(problem):
    """Minimise the definition by BFGS."""
    c = 1 if problem.classes == 2 else problem.classes
    columns = problem.Phi.shape[1]

    def value(x):
        V, b = x[: columns * c].reshape(columns, c), x[columns * c :]
        if c == 1:
            V = V[:, 0]
        return objective(problem, V, b if problem.offset else 0.0)

    start = np.zeros((columns + 1) * c)
    return minimize(value, start, method="BFGS", options={"gtol": 1e-7}).fun


@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("weights", [None, W], ids=["equal", "weighted"])
@pytest.mark.parametrize("alpha", [0.1, 3.0])
@pytest.mark.parametrize("name", PROBLEMS)
def test_answers_are_optimal_and_certified(name, alpha, weights, offset):
    y, loss, classes = PROBLEMS[name]
    problem = FeatureERM(PHI, y, loss, alpha, weights, offset, classes)
    solution = SGD(tol=1e-9).solve(problem)
    assert solution.converged
    assert 0 <= solution.gap <= 1e-9 * solution.primal
    value = objective(problem, solution.value, solution.extra["intercept"])
    assert solution.primal == pytest.approx(value, rel=1e-10)
    assert value <= independent(problem) * (1 + 1e-7)
    assert solution.dual <= independent(problem) * (1 + 1e-9)
    a = solution.extra["dual_coef"]
    np.testing.assert_allclose(PHI.T @ a, solution.value, atol=1e-9)
    np.testing.assert_allclose(PHI @ solution.value, solution.extra["product"], atol=1e-10)
    if offset:
        np.testing.assert_allclose(a.sum(0), 0, atol=1e-9)


@pytest.mark.parametrize("name", PROBLEMS)
def test_sparse_rows_give_what_dense_ones_give(name):
    y, loss, classes = PROBLEMS[name]
    thin = sp.random(N, 30, 0.1, random_state=2, format="csr")
    for offset in (True, False):
        sparse = SGD(tol=1e-11).solve(FeatureERM(thin, y, loss, 0.3, W, offset, classes))
        dense = SGD(tol=1e-11).solve(FeatureERM(thin.toarray(), y, loss, 0.3, W, offset, classes))
        assert sparse.converged
        assert dense.converged
        np.testing.assert_allclose(sparse.value, dense.value, atol=2e-4)


def test_one_sweep_of_sparse_rows_is_that_of_dense_ones():
    from mercer.jit.sgd import saga_dense, saga_sparse

    thin = sp.random(N, 30, 0.1, random_state=2, format="csr")
    thick = thin.toarray()
    order, share = rng.integers(0, N, 300), np.full(N, 1 / N)
    results = []
    for call, rows in (
        (saga_dense, (thick,)),
        (saga_sparse, (thin.data, thin.indices, thin.indptr)),
    ):
        V, b = np.zeros((30, 1)), np.array([0.2])
        table = np.linspace(-0.5, 0.5, N)[:, None].copy()
        G, Gb = thick.T @ (W[:, None] * table), W @ table
        a, met = np.zeros((N, 1)), np.zeros(N, dtype=np.int64)
        more = () if call is saga_dense else (np.zeros(30, dtype=np.int64), np.ones(30))
        call(
            *rows, Y, W, order, share, 0, 1.0, 0.7, 1e-3, True, V, b, table, G, Gb,
            np.empty(1), np.empty(1), a, met, *more,
        )  # fmt: skip
        results.append(np.r_[V[:, 0], b, table[:, 0], G[:, 0], Gb, a[:, 0]])
        np.testing.assert_allclose(thick.T @ a, V, atol=1e-13)
    np.testing.assert_allclose(results[0], results[1], atol=1e-12)
    np.testing.assert_allclose(G, thick.T @ (W[:, None] * table), atol=1e-10)


def test_compiled_slopes_are_those_of_the_losses():
    from mercer.jit.sgd import slopes

    for code, loss in enumerate([Logistic(), SquaredHinge(), Squared(), Huber(0.4)]):
        for y in (-1.0, 1.0):
            for z in (-800.0, -1.0, 0.0, 0.3, 2.0, 800.0):
                g = np.empty(1)
                slopes(code, y, 0.4, np.array([z]), g)
                assert g[0] == pytest.approx(float(loss.gradient(y, z)), rel=1e-12, abs=1e-300)


def test_badly_scaled_columns_and_large_values_end_with_a_certificate():
    scaled = PHI * np.array([1e-3, 1.0, 30.0, 1.0]) + np.array([0.0, 50.0, 0.0, 0.0])
    solution = SGD(tol=1e-3, max_iter=3000).solve(FeatureERM(scaled, Y, Logistic(), 1.0))
    assert solution.gap >= 0
    few = SGD(tol=1e-12, max_iter=1).solve(FeatureERM(scaled, Y, Logistic(), 1e-3))
    assert not few.converged
    assert few.n_iter == 1
    with pytest.warns(NotConverged, match="1 passes of stochastic gradients"):
        few.unwrap()
    none = SGD(tol=1e-12, max_time=0.0).solve(FeatureERM(scaled, Y, Logistic(), 1e-3))
    assert none.n_iter == 0
    assert not none.converged


def test_trivial_problems():
    zero = SGD().solve(FeatureERM(np.zeros((5, 2)), np.ones(5), Logistic(), 1.0, offset=False))
    np.testing.assert_array_equal(zero.value, 0)
    assert zero.converged
    one = SGD(tol=1e-12).solve(FeatureERM([[2.0]], [3.0], Squared(), 4.0, offset=False))
    assert one.value[0] == pytest.approx(6 / 8)
    same = SGD().solve(FeatureERM(np.ones((4, 1)), [1, 2, 3, 4], Squared(), 1.0))
    assert same.extra["intercept"] + same.value[0] == pytest.approx(2.5)


def test_the_seed_decides():
    problem = FeatureERM(PHI, Y, Logistic(), 0.1)
    first, second, other = (SGD(1e-4, random_state=s).solve(problem).value for s in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert np.abs(first - other).max() > 0
    for state in (None, np.random.RandomState(0), np.random.default_rng(3)):
        assert SGD(1e-4, random_state=state).solve(problem).converged


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"Phi": np.full((N, D), np.nan)}, "NaN or infinity"),
        ({"Phi": [["a"]] * N}, "no numbers"),
        ({"Phi": np.zeros(N)}, "rows, columns"),
        ({"Phi": np.zeros((0, 2)), "y": []}, "no rows"),
        ({"y": Y[:-1]}, "finite numbers"),
        ({"y": 2 * Y}, "Logistic"),
        ({"loss": Absolute()}, "whose own slope has a bound"),
        ({"loss": Exponential()}, "whose own slope has a bound"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": np.nan}, "alpha"),
        ({"weights": np.zeros(N)}, "must be > 0"),
        ({"classes": 1}, "classes"),
        ({"classes": 3}, "class numbers"),
        ({"classes": 3, "loss": Squared(), "y": CODES % 3}, "logistic loss"),
    ],
)
def test_illegal_problems_are_refused(change, match):
    given = {"Phi": PHI, "y": Y, "loss": Logistic(), "alpha": 1.0, **change}
    with pytest.raises(InvalidInput, match=match):
        SGD().solve(FeatureERM(**given))


@pytest.mark.parametrize(
    "parameters",
    [{"tol": 0.0}, {"tol": "x"}, {"max_iter": 0}, {"max_iter": 1.5}, {"max_time": -1.0}],
)
def test_illegal_parameters_are_refused(parameters):
    with pytest.raises(InvalidInput, match=next(iter(parameters))):
        SGD(**parameters)
    with pytest.raises(InvalidInput, match="random_state"):
        SGD(random_state="x").solve(FeatureERM(PHI, Y, Logistic(), 1.0))


# -------------------------------------------------------------------------------------- streams
def twin(Phi, y, w, alpha, offset):
    """The stream of two classes, in NumPy and without lazy scales."""
    v, b, average, average_b = np.zeros(Phi.shape[1]), 0.0, np.zeros(Phi.shape[1]), 0.0
    total = squares = weights = 0.0
    for phi, target, weight in zip(Phi, y, w, strict=True):
        if weight == 0:
            continue
        square = phi @ phi + offset
        slope = -target / (1 + np.exp(target * (phi @ v + b)))
        total += weight
        squares += weight * square
        weights += weight**2
        rows, u = total**2 / weights, weight * total / weights
        eta = u * rows**-POWER / (0.25 * squares / total)
        gain = min(eta, 1 / (0.25 * square)) if square > 0 else 0.0
        v = (v - gain * slope * phi) / (1 + eta * alpha / total)
        b -= gain * slope * offset
        share = min(1.0, 4 * u / (rows + 3))
        average = (1 - share) * average + share * v
        average_b = (1 - share) * average_b + share * b
    return average, average_b


@pytest.mark.parametrize("offset", [True, False])
def test_a_stream_is_its_definition_however_it_is_cut(offset):
    thin = sp.random(N, 30, 0.1, random_state=2, format="csr")
    w = np.where(rng.random(N) < 0.2, 0.0, W)
    want = twin(thin.toarray(), Y, w, 2.0, offset)
    for Phi in (thin, thin.toarray()):
        for parts in (1, 7, N):
            stream = AveragedSGD(30, 2, offset)
            for rows in np.array_split(np.arange(N), parts):
                stream.update(Phi[rows], Y[rows], w[rows], 2.0)
            np.testing.assert_allclose(stream.coef, want[0], atol=1e-11)
            assert stream.intercept == pytest.approx(want[1], abs=1e-11)
            assert stream.seen == (w > 0).sum()


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("scale", [1 / N, 1e-12, 1e9])
def test_weights_and_penalty_have_one_unit(scale, classes):
    y = Y if classes == 2 else CODES % 4
    for w in (np.ones(N), W):
        plain, scaled = AveragedSGD(D, classes), AveragedSGD(D, classes)
        plain.update(PHI, y, w, alpha=0.3)
        scaled.update(PHI, y, scale * w, alpha=scale * 0.3)
        np.testing.assert_allclose(scaled.coef, plain.coef, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(scaled.intercept, plain.intercept, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("total", [1.0, 40.0, 4e6])
def test_weights_that_are_no_counts_reach_the_minimum(total):
    X = rng.standard_normal((8000, 2))
    y = np.where(rng.random(8000) < 1 / (1 + np.exp(-X @ [2.5, 1.2])), 1.0, -1.0)
    stream = AveragedSGD(2)
    stream.update(X, y, np.full(8000, total / 8000), alpha=1e-3 * total)
    best = LogisticRegression(C=1000 / 8000).fit(X, y)
    np.testing.assert_allclose(stream.coef, best.coef_[0], atol=0.12)


def test_the_start_is_forgotten_with_the_first_row():
    for weight in (1e-6, 1.0, 1e6):
        stream = AveragedSGD(1, offset=False)
        stream.update(np.ones((1, 1)), [1.0], [weight], alpha=1e-9 * weight)
        assert stream.coef[0] == pytest.approx(stream.V[0, 0], rel=1e-12) and stream.coef[0] > 1


def test_strong_penalties_and_many_rows_stay_finite():
    stream = AveragedSGD(D)
    for _ in range(30):
        stream.update(PHI, Y, alpha=1e12)
    assert np.abs(stream.coef).max() < 1e-6
    wide = AveragedSGD(D)
    wide.update(1e8 * PHI, Y, np.full(N, 1e6), alpha=1.0)
    assert np.isfinite(wide.coef).all()


@pytest.mark.parametrize("classes", [2, 4])
def test_a_long_stream_comes_near_the_optimum(classes):
    X = rng.standard_normal((20000, 5))
    scores = X @ rng.standard_normal((5, classes)) + rng.gumbel(size=(20000, classes))
    y = scores.argmax(1)
    target = 2.0 * y - 1 if classes == 2 else y
    stream = AveragedSGD(5, classes)
    stream.update(X, target, alpha=1.0)
    best = LogisticRegression(C=1.0).fit(X, y)
    mine = stream.coef if classes == 2 else (stream.coef - stream.coef.mean(1, keepdims=True)).T
    np.testing.assert_allclose(mine, best.coef_[0] if classes == 2 else best.coef_, atol=0.15)
    if classes == 2:
        loss = Logistic()
        got = loss.value(target, X @ stream.coef + stream.intercept).mean()
        want = loss.value(target, X @ best.coef_[0] + best.intercept_[0]).mean()
        assert got < want * 1.005


def test_streams_refuse_other_widths_and_overflow():
    stream = AveragedSGD(D)
    for scale in (1e-170, 1e170):
        with pytest.raises(InvalidInput, match="all weights by the same number"):
            stream.update(PHI, Y, np.full(N, scale))
    with pytest.raises(InvalidInput, match="earlier rows had 4"):
        stream.update(PHI[:, :2], Y)
    with pytest.raises(InvalidInput, match="NaN"):
        stream.update(PHI * np.nan, Y)
    for bad in (np.full(N, np.nan), np.ones(N - 1), "heavy"):
        with pytest.raises(InvalidInput, match="weights"):
            stream.update(PHI, Y, bad)
    with pytest.raises(InvalidInput, match="y must be"):
        stream.update(PHI, Y[1:])
    assert not stream.totals.any() and not stream.coef.any()


@pytest.mark.parametrize("thin", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_squares_that_overflow_are_refused_at_once(thin):
    wide = PHI.copy()
    wide[3] *= 1e200
    words = r"k\(x, x\) is inf at row 3.*StandardScaler"
    with pytest.raises(InvalidInput, match=words):
        AveragedSGD(D).update(thin(wide), Y)
    with pytest.raises(InvalidInput, match=words):
        SGD().solve(FeatureERM(thin(wide), Y, Logistic(), 1.0))
    there = np.where(np.arange(N) == 3, 0.0, 1.0)
    without, stream = AveragedSGD(D), AveragedSGD(D)
    stream.update(thin(wide), Y, there)  # a row of weight 0 is no row
    without.update(PHI[there > 0], Y[there > 0])
    np.testing.assert_allclose(stream.coef, without.coef, atol=1e-12)
    with pytest.raises(InvalidInput, match="alpha=1 is so small, for weights up to 1e\\+300"):
        SGD().solve(FeatureERM(thin(PHI), Y, Logistic(), 1.0, np.full(N, 1e300)))
