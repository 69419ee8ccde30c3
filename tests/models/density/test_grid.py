"""Densities on grids by linear binning and FFT, against direct evaluation."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest

import mercer
from mercer import KernelDensity
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.models.density.bandwidth import SMOOTHINGS

RNG = np.random.default_rng(0)
X = np.r_[RNG.standard_normal((150, 2)), RNG.normal(4, 0.5, (100, 2))]
W = RNG.uniform(0, 2, 250)
A = np.array([[0.6, 0.25], [0.25, 0.4]])
#: Largest error as a part of the peak; kernels with a jump, tip or kink are of the first order.
ERROR = {"tophat": 0.1, "gaussian": 1e-3, "biweight": 1e-3}
KINK = 4e-3


def direct(model, axes):
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))
    return np.exp(model.score_samples(points)).reshape([len(a) for a in axes])


@pytest.mark.parametrize("name", SMOOTHINGS)
@pytest.mark.parametrize("weighted", [False, True])
def test_line(name, weighted):
    model = KernelDensity("scott", name).fit(X[:, :1], sample_weight=W if weighted else None)
    axes, p = model.density_on_grid()
    expected = direct(model, axes)
    assert p.shape == expected.shape == (len(axes[0]),)
    assert np.abs(p - expected).max() < ERROR.get(name, KINK) * expected.max()
    assert p.sum() * (axes[0][1] - axes[0][0]) == pytest.approx(1, abs=1e-5)
    assert (p >= 0).all()


@pytest.mark.parametrize("H", [0.5, [0.4, 0.8], A], ids=["number", "columns", "matrix"])
@pytest.mark.parametrize("name", ["gaussian", "epanechnikov", "biweight", "cosine"])
def test_plane(name, H):
    model = KernelDensity(H, name).fit(X, sample_weight=W)
    axes, p = model.density_on_grid()
    coarse = tuple(a[::9] for a in axes)
    expected = direct(model, coarse)
    assert np.abs(p[::9, ::9] - expected).max() < ERROR.get(name, KINK) * p.max()
    area = (axes[0][1] - axes[0][0]) * (axes[1][1] - axes[1][0])
    assert p.sum() * area == pytest.approx(1, abs=1e-5)


def test_a_single_point_is_the_kernel():
    model = KernelDensity(0.7).fit([[0.123]])
    (axis,), p = model.density_on_grid()
    expected = direct(model, (axis,))
    assert np.abs(p - expected).max() < 1e-3 * expected.max()


def test_error_is_of_second_order():
    model = KernelDensity(0.4).fit(X[:, :1])
    errors = []
    for n in (100, 200, 400):
        axes, p = model.density_on_grid(n_points=n)
        expected = direct(model, axes)
        errors.append(np.abs(p - expected).max() / expected.max())
        step = (axes[0][1] - axes[0][0]) / 0.4
        assert errors[-1] <= step**2 / 8
    assert errors[2] < errors[0] / 8


@pytest.mark.parametrize("name", SMOOTHINGS)
@pytest.mark.parametrize("h", [3.0, 30.0, 1e6, 1e300])
def test_wide_bandwidths_take_no_room(name, h):
    # Nothing is beyond the points, and there is no need for cells as far as κ reaches.
    axes = [np.linspace(-1, 1, 60)] * 2
    with mercer.config(memory="40MB"):
        line = KernelDensity(h, name).fit(X[:, :1]).density_on_grid(axes[0]).density
        plane = KernelDensity(h, name).fit(X).density_on_grid(axes).density
    for model, got, where in (
        (KernelDensity(h, name).fit(X[:, :1]), line, axes[:1]),
        (KernelDensity(h, name).fit(X), plane, axes),
    ):
        expected = direct(model, where)
        rim = 0.02 if name == "tophat" else 1e-3
        np.testing.assert_allclose(got, expected, rtol=0, atol=rim * expected.max())


def test_coarse_grids_are_told():
    model = KernelDensity(0.1).fit([[0.0]])
    with pytest.warns(UserWarning, match="10 bandwidths"):
        model.density_on_grid(np.linspace(-2, 2, 5))
    with pytest.warns(UserWarning, match="KernelDensity: a step of the grid"):
        KernelDensity(0.003).fit(X).density_on_grid()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.density_on_grid(np.linspace(-2, 2, 81))
        KernelDensity(0.5).fit(X).density_on_grid()


def test_many_points_stay_in_the_budget():
    points = np.random.default_rng(0).standard_normal((400_000, 1))
    model = KernelDensity(0.1).fit(points)
    with mercer.config(memory="10MB"):
        tracemalloc.start()
        try:
            model.density_on_grid()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 10e6


def test_beyond_floats():
    with pytest.raises(InvalidInput, match="beyond the range of floats"):
        KernelDensity(1e-310).fit(X[:, :1] * 1e-310).density_on_grid(n_points=9)


def test_axes_inside_the_data():
    # Points beyond the ends count as far as the kernel reaches.
    model = KernelDensity(0.3).fit(X)
    axes = np.linspace(-0.5, 0.5, 60), np.linspace(3.0, 5.0, 90)
    got = model.density_on_grid(axes)
    assert np.array_equal(got.axes[1], axes[1])
    expected = direct(model, axes)
    assert np.abs(got.density - expected).max() < 1e-3 * expected.max()
    far = model.density_on_grid([np.linspace(50, 60, 30), np.linspace(0, 1, 30)]).density
    assert far.max() < 1e-12


@pytest.mark.filterwarnings("ignore:.*step of the grid:UserWarning")
def test_a_coarse_grid_keeps_the_mass():
    for name in SMOOTHINGS:
        model = KernelDensity(0.01, name).fit(X[:, :1])
        (axis,), p = model.density_on_grid(n_points=16)
        assert p.sum() * (axis[1] - axis[0]) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_units(scale):
    one = KernelDensity("scott").fit(X[:, :1]).density_on_grid()
    other = KernelDensity("scott").fit(X[:, :1] * scale).density_on_grid()
    np.testing.assert_allclose(other.density * scale, one.density, atol=1e-6)


def test_refused():
    flat, plane = KernelDensity(0.5).fit(X[:, :1]), KernelDensity(0.5).fit(X)
    with pytest.raises(InvalidInput, match="3 dimensions"):
        KernelDensity(0.5).fit(np.c_[X, X[:, 0]]).density_on_grid()
    line = np.linspace(0, 1, 9)
    for model, axes in (
        (flat, line[::-1]),
        (flat, line**2),
        (flat, line[:1]),
        (flat, [0.0, np.nan, 1.0]),
        (flat, "line"),
        (flat, [line, line]),
        (plane, [line]),
        (plane, line),
        (plane, 3),
    ):
        with pytest.raises(InvalidInput, match="KernelDensity: ax"):
            model.density_on_grid(axes)
    for bad in (1, 0, 2.5, "many", [9], [9, 9, 9]):
        with pytest.raises(InvalidInput, match="n_points"):
            plane.density_on_grid(n_points=bad)
    with pytest.raises(InvalidInput, match="not both"):
        flat.density_on_grid(line, n_points=9)
    with mercer.config(memory="1MB"), pytest.raises(MemoryBudgetExceeded):
        plane.density_on_grid(n_points=1000)


def test_forms_of_the_axes_of_one_column():
    model = KernelDensity(0.5).fit(X[:, :1])
    line = np.linspace(-3, 3, 50)
    a, b = model.density_on_grid(line), model.density_on_grid([line])
    np.testing.assert_array_equal(a.density, b.density)
    assert a.density.shape == (50,)
