"""Titsias' bound: against n × n matrices, differences, the exact evidence, budgets and threads."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import mercer
from mercer import RBF, Linear, Matern, Periodic, Polynomial, Precomputed, RationalQuadratic, White
from mercer.errors import InvalidInput, MemoryBudgetExceeded, speaking_for
from mercer.models.gp.regression.evidence import Evidence
from mercer.models.gp.sparse import evidence as sparse_evidence
from mercer.models.gp.sparse.evidence import CollapsedBound
from mercer.operators import sums
from tests.models.gp.sparse_oracles import dense_vfe, differences, exact_evidence

rng = np.random.default_rng(5)
N, M, D, T = 40, 7, 3, 2
X, U = rng.standard_normal((N, D)), rng.standard_normal((M, D))
Z = np.c_[np.sin(X[:, 0]), X[:, 1] * X[:, 2]] + 0.1 * rng.standard_normal((N, T))
WEIGHTS = rng.integers(1, 4, N).astype(float)
NOISES = {"one": 0.1, "each": rng.uniform(0.05, 0.4, N)}
KERNELS = {
    "rbf": RBF(1.4),
    "ard": 1.7 * RBF([0.8, 1.5, 2.0]),
    "matern": Matern(1.2, nu=2.5),
    "rough": Matern(1.2, nu=0.5) * 2.0,
    "quadratic": RationalQuadratic(1.1, alpha=0.7),
    "sum": 0.5 * RBF(1.0) + Polynomial(2),
    "columns": RBF(1.0).on([0, 1]) * Periodic(1.5, 2.0).on([2]) + 0.1,
}


@pytest.fixture(params=[False, True], ids=["corner", "tiles"])
def whitened(request, monkeypatch):
    """Both routes to S: from K_uf P K_fu, and from whitened tiles."""
    monkeypatch.setattr(sparse_evidence, "HARMLESS", 0.0 if request.param else np.inf)
    return request.param


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weights"])
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_value_is_that_of_the_definition(kernel, noise, weights, whitened):
    got = CollapsedBound(X, Z, weights).value(kernel, noise, U)
    expected = dense_vfe(kernel, X, Z, noise, U, weights)
    assert abs(got - expected) <= 1e-9 * abs(expected)


@pytest.mark.parametrize("weights", [None, WEIGHTS + 0.3], ids=["plain", "weights"])
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_gradient_is_that_of_differences(kernel, noise, weights, whitened):
    bound = CollapsedBound(X, Z, weights)
    value, slope, noise_slope, moved = bound.value_and_gradient(kernel, noise, U, points=True)
    assert value == pytest.approx(bound.value(kernel, noise, U), rel=1e-12)
    expected = differences(lambda t: bound.value(kernel.with_theta(t), noise, U), kernel.theta)
    np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
    expected = differences(lambda s: bound.value(kernel, noise * np.exp(s[0]), U), np.zeros(1))
    assert noise_slope == pytest.approx(expected[0], rel=1e-6)
    expected = differences(lambda V: bound.value(kernel, noise, V), U)
    np.testing.assert_allclose(moved, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


def test_gradient_of_one_point_and_one_output(whitened):
    kernel, one, z = 1.3 * RBF(2.0), U[:1], Z[:, :1]
    bound = CollapsedBound(X, z)
    _, slope, noise_slope, moved = bound.value_and_gradient(kernel, 0.3, one, points=True)
    expected = differences(lambda t: bound.value(kernel.with_theta(t), 0.3, one), kernel.theta)
    np.testing.assert_allclose(slope, expected, rtol=1e-5)
    expected = differences(lambda s: bound.value(kernel, 0.3 * np.exp(s[0]), one), np.zeros(1))
    assert noise_slope == pytest.approx(expected[0], rel=1e-6)
    expected = differences(lambda V: bound.value(kernel, 0.3, V), one)
    np.testing.assert_allclose(moved, expected, rtol=1e-5)


def test_a_kernel_that_is_zero_leaves_noise():
    fit = CollapsedBound(X, Z).posterior(mercer.Constant(0.0) * RBF(), 0.3, U)
    assert fit.value == pytest.approx(exact_evidence(White(0.0), X, Z, 0.3), rel=1e-12)
    np.testing.assert_array_equal(fit.dual, 0.0)


@pytest.mark.parametrize("seed", range(12))
def test_the_evidence_lies_between_both_bounds(seed):
    draw = np.random.default_rng(seed)
    n, m, d = draw.integers(5, 60), draw.integers(1, 12), draw.integers(1, 4)
    points, V = draw.standard_normal((n, d)), draw.standard_normal((m, d))
    y = draw.standard_normal((n, 1)) + np.sin(2 * points[:, :1])
    noise = float(10.0 ** draw.uniform(-3, 0.5))
    kernel = float(10.0 ** draw.uniform(-1, 1)) * Matern(float(draw.uniform(0.2, 3)), nu=1.5)
    w = draw.integers(1, 4, n).astype(float)
    for weights in (None, w):
        fit = CollapsedBound(points, y, weights).posterior(kernel, noise, V)
        exact = exact_evidence(kernel, points, y, noise, weights)
        slack = 1e-9 * abs(exact)
        assert fit.value <= exact + slack
        assert fit.upper >= exact - slack
        assert fit.residual < 1e-9


@pytest.mark.parametrize("seed", range(24))
def test_the_evidence_lies_between_both_bounds_of_hard_problems(seed):
    """Length scales up to 1000, noise down to 1e-8, duplicates: to what rounding leaves of C⁻¹z."""
    draw = np.random.default_rng(100 + seed)
    n, d = int(draw.integers(2, 60)), int(draw.integers(1, 4))
    m = int(draw.integers(1, n + 1))
    points = draw.standard_normal((n, d))
    if seed % 3 == 0:
        points[n // 2 :] = points[: n - n // 2]
    scale, amplitude, noise = (float(10.0 ** draw.uniform(*e)) for e in ((-1, 3), (-3, 3), (-8, 0)))
    kernel = amplitude * (RBF(scale) if seed % 2 else Matern(scale, nu=1.5))
    V = points[draw.permutation(n)[:m]] if seed % 4 < 2 else draw.standard_normal((m, d))
    y = draw.standard_normal((n, 1))
    fit = CollapsedBound(points, y).posterior(kernel, noise, V)
    exact = exact_evidence(kernel, points, y, noise)
    # zᵀC⁻¹z changes by δ‖C⁻¹z‖² when C does by δ: rounding of K is about ε·n·amplitude.
    C = kernel(points) + noise * np.eye(n)
    dual = np.linalg.solve(C, y)
    rounding = 2e-16 * n * (amplitude + noise) * (float((dual**2).sum()) + n / noise)
    slack = 1e-9 * abs(exact) + rounding
    assert fit.value <= exact + slack
    assert fit.upper >= exact - slack


def test_more_points_never_lower_the_bound():
    bound, kernel = CollapsedBound(X, Z), 1.3 * RBF(1.2)
    values = [bound.value(kernel, 0.1, X[:m]) for m in (1, 3, 10, 25, 40)]
    assert (np.diff(values) > -1e-9).all()
    exact = Evidence(X, Z).value(kernel, 0.1)
    assert values[-1] == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("noise", [1.0, 1e-2, 1e-5])
@pytest.mark.parametrize("scale", [0.5, 2.0, 8.0])
def test_at_all_rows_it_is_the_evidence(scale, noise):
    kernel = 1.3 * RBF(scale)
    bound, evidence = CollapsedBound(X, Z), Evidence(X, Z)
    value, slope, noise_slope, _ = bound.value_and_gradient(kernel, noise, X)
    expected, theta, level = evidence.value_and_gradient(kernel, noise)
    assert value == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(slope, theta, rtol=1e-5, atol=1e-5 * np.abs(theta).max())
    assert noise_slope == pytest.approx(level, rel=1e-5, abs=1e-5)
    fit = bound.posterior(kernel, noise, X)
    assert 0 <= fit.upper - fit.value <= 1e-5 * abs(expected) + 1e-6


def test_weights_are_repetition_also_for_fractions_of_one_row():
    kernel = RBF(1.1)
    index = np.repeat(np.arange(N), WEIGHTS.astype(int))
    once = CollapsedBound(X, Z, WEIGHTS).value_and_gradient(kernel, 0.2, U, points=True)
    many = CollapsedBound(X[index], Z[index]).value_and_gradient(kernel, 0.2, U, points=True)
    for a, b in zip(once, many, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_white_noise_of_the_kernel_is_no_part_of_an_inducing_point():
    kernel = RBF(1.2) + White(0.3)
    got = CollapsedBound(X, Z).value(kernel, 0.2, U)
    plain = CollapsedBound(X, Z).value(RBF(1.2), 0.2, U)
    assert got == pytest.approx(plain - 0.5 * T * N * 0.3 / 0.2, rel=1e-10)


def test_precomputed_takes_positions():
    kernel, index = RBF(1.2), np.array([3, 8, 30])
    got = CollapsedBound(kernel(X), Z).value_and_gradient(Precomputed(), 0.2, index)
    expected = CollapsedBound(X, Z).value_and_gradient(kernel, 0.2, X[index])
    assert got[0] == pytest.approx(expected[0], rel=1e-10)
    assert got[1].shape == (0,)
    assert got[2] == pytest.approx(expected[2], rel=1e-9)


def test_points_given_twice_are_jittered_and_say_so():
    kernel = RBF(1.2)
    fit = CollapsedBound(X, Z).posterior(kernel, 0.2, np.r_[U, U])
    once = CollapsedBound(X, Z).posterior(kernel, 0.2, U)
    assert fit.jitter > 0 == once.jitter
    assert fit.value == pytest.approx(once.value, rel=1e-8)


def test_far_points_say_nothing_and_do_no_harm():
    fit = CollapsedBound(X, Z).posterior(RBF(1.0), 0.2, U + 100.0)
    expected = dense_vfe(RBF(1.0), X, Z, 0.2, U + 100.0)
    assert fit.value == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(fit.dual, 0.0, atol=1e-12)


def test_kernels_of_finite_rank_are_exact_with_as_many_points():
    kernel = Linear() * 0.7
    exact = exact_evidence(kernel, X, Z, 0.3)
    fit = CollapsedBound(X, Z).posterior(kernel, 0.3, X[:D])
    assert fit.value == pytest.approx(exact, rel=1e-10)
    assert fit.upper == pytest.approx(exact, rel=1e-8)


# ------------------------------------------------------------------------------ tiles
BIG = np.random.default_rng(1).standard_normal((6000, 2))
BIG_Z = np.sin(BIG[:, :1])
BIG_U = BIG[:30].copy()


@pytest.mark.parametrize("noise", [0.1, np.full(6000, 0.1)], ids=["one", "each"])
def test_small_budgets_give_the_same_numbers(noise):
    kernel = 1.2 * RBF([0.9, 1.1])
    whole = CollapsedBound(BIG, BIG_Z).value_and_gradient(kernel, noise, BIG_U, points=True)
    with mercer.config(memory=900_000):
        part = CollapsedBound(BIG, BIG_Z).value_and_gradient(kernel, noise, BIG_U, points=True)
    for a, b in zip(whole, part, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * np.abs(a).max())


def test_no_array_of_rows_times_points():
    kernel, n, m = 1.2 * RBF([0.9, 1.1]), len(BIG), len(BIG_U)
    bound = CollapsedBound(BIG, BIG_Z)
    # The kernel bound to the rows holds them scaled, with their norms: 6 numbers a row.
    with mercer.config(memory=900_000, threads=4):
        bound.value_and_gradient(kernel, 0.1, BIG_U)
        tracemalloc.start()
        bound.value_and_gradient(kernel, 0.1, BIG_U)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 900_000 + 10 * n * 8
    assert peak < n * m * 8


def test_bits_do_not_depend_on_threads(monkeypatch, whitened):
    monkeypatch.setattr(sums, "ENTRIES", 3000)
    monkeypatch.setattr(sums, "ROWS", 1)
    kernel, bits = 1.2 * RBF([0.9, 1.1]), []
    n = 2000 if whitened else 6000
    for threads in (1, 2, 3):
        with mercer.config(threads=threads):
            bound = CollapsedBound(np.tile(BIG[:n], (2, 1)), np.tile(BIG_Z[:n], (2, 1)))
            bits.append(bound.value_and_gradient(kernel, 0.1, BIG_U, points=True))
    for other in bits[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(bits[0], other, strict=True))


def test_too_small_a_budget_is_refused_before_any_work():
    small = mercer.config(memory=20_000), speaking_for("sparse")
    with small[0], small[1], pytest.raises(MemoryBudgetExceeded, match="n_inducing"):
        CollapsedBound(BIG, BIG_Z).value(RBF(), 0.1, BIG_U)


def test_kernels_without_a_gradient_in_x_say_so():
    kernel = mercer.FromFunction(lambda a, b: float(np.exp(-abs(a - b).sum())))
    points = kernel.domain.check(X[:10])
    with pytest.raises(InvalidInput, match="gradient"):
        CollapsedBound(points, Z[:10]).value_and_gradient(kernel, 0.1, points[:3], points=True)
