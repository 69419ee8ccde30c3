"""What local averages are made of: planes, errors of many bandwidths in one pass, the search."""

import numpy as np
import pytest

from mercer.models.density.bandwidth import SMOOTHINGS, smoothing
from mercer.models.density.local import Near, Squares, choose_factor, local_planes

rng = np.random.default_rng(1)
Z = rng.standard_normal((30, 2))
Z[25:] = Z[:5]  # places with several points
Y = rng.standard_normal((30, 3))
W = rng.uniform(0.5, 2.0, 30)


def squared_loss(rows, answers):
    return ((answers - Y[rows]) ** 2).sum(axis=1)


@pytest.mark.parametrize("far", [0.0, 1e7])
def test_planes_are_least_squares(far):
    K = rng.uniform(0, 1, (4, 30))
    Q = Z[:4] + 0.3
    for i, q in enumerate(Q):
        root = np.sqrt(K[i])[:, None]
        design = np.column_stack([np.ones(30), Z - q])
        expected = np.linalg.lstsq(root * design, root * Y, rcond=None)[0][0]
        got = local_planes(K, Z + far, Y, Q + far)[i]
        np.testing.assert_allclose(got, expected, atol=1e-10 if far == 0 else 1e-6)


def test_planes_of_least_slope():
    line = np.column_stack([np.arange(5.0), np.arange(5.0)])
    got = local_planes(np.ones((1, 5)), line, 2 * line[:, :1], np.array([[4.0, 0.0]]))
    np.testing.assert_allclose(got, [[4.0]], atol=1e-10)  # (x₁ + x₂), the least of all slopes
    got = local_planes(np.eye(5)[:2], line, line[:, :1], line[:2] + 7.0)
    np.testing.assert_allclose(got, [[0.0], [1.0]])


@pytest.mark.parametrize("name", SMOOTHINGS)
@pytest.mark.parametrize("degree", [0, 1])
def test_errors_of_several_factors_are_those_of_each(name, degree):
    near = Near(smoothing(name), Z, Y, W, degree)
    factors = [4.0 * 2 ** (-0.5 * k) for k in range(9)] + [0.9]
    together = near.errors(factors, squared_loss)
    apart = [near.errors([f], squared_loss)[0] for f in factors]
    np.testing.assert_allclose(together, apart, rtol=1e-8)


@pytest.mark.parametrize("name", SMOOTHINGS)
@pytest.mark.parametrize("degree", [0, 1])
def test_errors_leave_rows_out_with_all_their_weight(name, degree):
    factor = 0.8
    losses = np.empty(30)
    for i in range(30):
        w = W.copy()
        w[i] = 0.0
        rest = w > 0
        near = Near(smoothing(name), Z[rest] / factor, Y[rest], w[rest], degree)
        losses[i] = squared_loss(slice(i, i + 1), near.at(Z[i : i + 1] / factor))[0]
    near = Near(smoothing(name), Z, Y, W, degree)
    got = near.errors([factor], squared_loss)
    np.testing.assert_allclose(got, [W @ losses / W.sum()], rtol=1e-8)
    same = Near(smoothing(name), Z, Y, W, degree, radius=factor)
    np.testing.assert_allclose(
        squared_loss(slice(0, 30), same.left_out()), losses, rtol=1e-8, atol=1e-12
    )


@pytest.mark.parametrize("degree", [0, 1])
def test_errors_of_a_long_grid_do_not_pile_up(degree):
    # Squares of squares of weights: nearest and farthest points are a factor of 1e8 apart.
    x = np.r_[np.linspace(0, 1e-8, 29), 1.0][:, None]
    near = Near(smoothing("gaussian"), x, Y, W, degree)
    factors = [4.0 * 2 ** (-0.5 * k) for k in range(80)]
    together = near.errors(factors, squared_loss)
    apart = [near.errors([f], squared_loss)[0] for f in factors]
    np.testing.assert_allclose(together, apart, rtol=1e-6 if degree else 1e-9)


def test_reach():
    near, far = Near(smoothing("gaussian"), Z, Y, W).reach()
    D = np.linalg.norm(Z[:, None] - Z, axis=2)
    np.testing.assert_allclose(far, D.max())
    least = np.where(D > 0, D, np.inf).min(axis=1)
    counts = np.round(4 * W).astype(int)  # the median is that of the rows repeated
    near, _ = Near(smoothing("gaussian"), Z, Y, counts.astype(float)).reach()
    assert near == pytest.approx(np.sort(np.repeat(least, counts))[(counts.sum() - 1) // 2])
    heavy = np.where(least == least.max(), 1000.0, W)
    assert Near(smoothing("gaussian"), Z, Y, heavy).reach()[0] == pytest.approx(least.max())
    assert Near(smoothing("gaussian"), np.ones((3, 2)), Y[:3], W[:3]).reach() == (0.0, 0.0)


def test_squares_are_exact_where_wanted():
    points = 1e6 + 1e-6 * rng.integers(0, 9, (20, 2))
    expected = ((points[:, None] - points) ** 2).sum(axis=2)
    whole = slice(0, 20)
    np.testing.assert_allclose(Squares(points, exact=True).tile(whole, whole), expected, rtol=1e-3)
    equal = Squares(points, exact=True).tile(whole, whole) == 0
    np.testing.assert_array_equal(equal, expected == 0)


@pytest.mark.parametrize("smooth", [True, False])
def test_the_search_finds_the_minimum(smooth):
    calls = []

    def errors(factors):
        calls.append(len(factors))
        return (np.log(factors) - np.log(0.37)) ** 2 + 1.0

    factor, error, path = choose_factor(errors, (0.01, 10.0), smooth)
    np.testing.assert_allclose(factor, 0.37, rtol=1e-9 if smooth else 1e-2)
    np.testing.assert_allclose(error, 1.0, atol=1e-15 if smooth else 1e-4)
    assert len(path) == sum(calls)
    assert (np.diff(path[:, 0]) >= 0).all()
    rounding = np.random.default_rng(0)

    def rounded(factors):
        return errors(factors) * (1 + 1e-15 * rounding.standard_normal(len(factors)))

    again = choose_factor(rounded, (0.01, 10.0), smooth)[0]
    np.testing.assert_allclose(again, factor, rtol=1e-9)
    falling = choose_factor(lambda factors: np.array(factors), (0.01, 10.0), smooth)[0]
    assert 0.5e-3 < falling < 1e-3  # the least factor: a tenth of the nearest distance
    flat = choose_factor(lambda factors: np.ones(len(factors)), (0.01, 10.0), False)
    assert flat[0] == pytest.approx(40.0)
