"""Descents and their pieces: steps in a box, curvatures, bent coordinates, steps too far."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.models.gp.descent import Point, box_step, convex, curvature, descend, follow
from mercer.models.gp.parameters import log_chart, tail_chart


def spd(p, condition, seed=0):
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((p, p)))[0]
    return (Q * np.geomspace(1.0, condition, p)) @ Q.T


# ---------------------------------------------------------------------------------- L-BFGS-B
def bowl(H, centre, seen=None, wall=np.inf):
    """½(x − c)ᵀH(x − c), not defined beyond a wall in the first variable."""

    def f(x):
        if seen is not None:
            seen.append(x.copy())
        if x[0] > wall:
            return None
        return Point(x, 0.5 * (x - centre) @ H @ (x - centre), H @ (x - centre))

    return f


@pytest.mark.parametrize("bold", [False, True])
def test_followed_to_the_minimum_in_the_box(bold):
    H, centre, box = spd(5, 1e3), np.linspace(-2, 2, 5), np.tile([-1.5, 30.0], (5, 1))
    f = bowl(H, centre)
    end = follow(f, f(np.full(5, 1.0)), box, bold=bold, tol=1e-6)
    inner = np.flatnonzero((end.point.x > box[:, 0]) & (end.point.x < box[:, 1]))
    assert end.converged and end.reason == "" and end.point.x.min() >= -1.5
    assert len(inner) < 5 and np.abs(end.point.gradient[inner]).max() < 1e-3
    assert (end.point.gradient[end.point.x == -1.5] > 0).all()


def test_the_first_step_is_short_unless_bold():
    H, centre, box = 100 * np.eye(3), np.full(3, 2.0), np.tile([-40.0, 40.0], (3, 1))
    first = []
    for bold in (False, True):
        seen = []
        f = bowl(H, centre, seen)
        start = f(np.zeros(3))
        assert follow(f, start, box, bold=bold).point.value < 1e-6
        first.append(float(np.linalg.norm(seen[1])))
    assert first[0] == pytest.approx(1.0) and first[1] > 10


@pytest.mark.parametrize("bold", [False, True])
@pytest.mark.parametrize("wall", [0.95, 0.6, 0.51])
def test_walls_before_the_minimum_are_told_from_walls_behind_it(bold, wall):
    H, centre = np.diag([40.0, 1.0]), np.array([0.5, -1.0])
    box = np.tile([-11.5, 11.5], (2, 1))
    f = bowl(H, centre, wall=wall)
    end = follow(f, f(np.zeros(2)), box, bold=bold)
    assert end.converged and end.point.value < 1e-5
    blocked = bowl(H, centre + 3, wall=wall)
    end = follow(blocked, blocked(np.zeros(2)), box, bold=bold)
    assert not end.converged and end.reason == "wall"
    assert wall - 0.05 < end.point.x[0] <= wall


def test_bold_descents_start_anew_far_away():
    f = bowl(np.eye(2), np.full(2, 30.0))
    end = follow(f, f(np.zeros(2)), np.tile([-50.0, 50.0], (2, 1)), bold=True)
    assert end.converged and end.point.value < 1e-5


def test_descents_are_given_up_when_asked_to():
    seen, asked = [], []
    f = bowl(spd(4, 1e3), np.ones(4), seen)

    def give_up(now):
        asked.append(now.value)
        return len(asked) == 2

    end = follow(f, f(np.zeros(4)), np.tile([-9.0, 9.0], (4, 1)), give_up=give_up)
    assert end.reason == "given up" and not end.converged and len(asked) == 2
    assert end.point.value == min(asked) and asked[1] < asked[0]


def test_the_best_point_seen_is_returned():
    """Where values are noise the last point is not the best one."""
    rng, values = np.random.default_rng(0), []

    def f(x):
        values.append(float(x @ x) + 10 * rng.random())
        return Point(x, values[-1], 2 * x)

    end = follow(f, f(np.ones(3)), np.tile([-9.0, 9.0], (3, 1)))
    assert end.point.value == min(values)


# ------------------------------------------------------------------------------------ pieces
@pytest.mark.parametrize("seed", range(20))
def test_steps_in_a_box_satisfy_their_optimality_conditions(seed):
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 9))
    B, g = spd(p, 10.0 ** rng.uniform(0, 6), seed), 3 * rng.standard_normal(p)
    low, high = -np.abs(rng.standard_normal(p)), np.abs(rng.standard_normal(p))
    low[rng.random(p) < 0.2], high[rng.random(p) < 0.2] = 0.0, 0.0
    d = box_step(B, g, low, high)
    slope = g + B @ d
    assert (d >= low).all() and (d <= high).all()
    inner = (d > low) & (d < high)
    np.testing.assert_allclose(slope[inner], 0.0, atol=1e-6 * np.abs(B).max())
    assert (slope[(d == low) & (low < high)] >= -1e-6 * np.abs(B).max()).all()
    assert (slope[(d == high) & (low < high)] <= 1e-6 * np.abs(B).max()).all()


def test_curvature_is_measured_inside_the_box():
    H, box = spd(4, 50.0), np.tile([-1.0, 1.0], (4, 1))
    box[2] = 1.0
    seen = []

    def f(x):
        seen.append(x)
        assert (x >= box[:, 0]).all() and (x <= box[:, 1]).all()
        return Point(x, 0.5 * x @ H @ x, H @ x)

    x = np.array([0.0, 1.0, 1.0, -1.0])
    measured = curvature(f, Point(x, 0.0, H @ x), box)
    keep = [0, 1, 3]
    np.testing.assert_allclose(measured[np.ix_(keep, keep)], H[np.ix_(keep, keep)], rtol=1e-8)
    assert len(seen) == 3
    assert np.linalg.eigvalsh(convex(np.diag([-2.0, 0.0, 5.0]))) == pytest.approx([0.03, 2.0, 5.0])
    assert curvature(lambda x: None, Point(x, 0.0, H @ x), box) is None


def test_bent_coordinates_and_back():
    names = ["value", "length_scale[0]", "length_scale[1]", "noise"]
    theta, box = np.array([0.5, 1.0, 6.0, -3.0]), np.tile([-11.5, 11.5], (4, 1))
    chart = tail_chart(names, theta, np.array([1e-9, 4.0, 1e-3, 0.5]))
    assert chart.bent and np.flatnonzero(chart.q).tolist() == [2]
    assert chart.centre[2] == pytest.approx(6.0 - 0.5 * np.log(1e3))
    assert not log_chart(theta).bent

    def f(t):
        return Point(
            t, float(np.exp(-2 * t[2]) + t[0]), np.array([1, 0, -2 * np.exp(-2 * t[2]), 0])
        )

    there, edges = chart.over(f, box), chart.x(box)
    at = chart.point(f(theta))
    h, x = 1e-6, at.x + np.array([0.0, 0, 1e-6, 0])
    assert (there(x).value - at.value) / h == pytest.approx(at.gradient[2], rel=1e-4)
    back = chart.back(at, box)
    np.testing.assert_allclose(back.x, theta, rtol=1e-12)
    np.testing.assert_allclose(back.gradient, f(theta).gradient, rtol=1e-12)
    for side in (0, 1):
        assert np.array_equal(there(edges[:, side]).x, edges[:, side])
        assert np.array_equal(chart.back(there(edges[:, side]), box).x, box[:, side])


def test_a_tail_in_bent_coordinates_takes_few_steps():
    box, start = np.array([[-11.5, 11.5]]), np.array([3.0])

    def f(t):
        return Point(t, float(400 * np.exp(-2 * t[0])), -800 * np.exp(-2 * t))

    chart = tail_chart(["length_scale"], start, np.array([0.5]))
    seen = []

    def counted(t):
        seen.append(t)
        return f(t)

    edges = chart.x(box)
    H = curvature(chart.over(f, box), chart.point(f(start)), edges)
    end = descend(chart.over(counted, box), chart.point(f(start)), edges, convex(H))
    assert end.converged and len(seen) <= 4 and chart.back(end.point, box).value < 1e-3
