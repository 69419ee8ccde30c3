"""Free log-parameters of Gaussian processes: names, bounds, what is held, priors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mercer.errors import InvalidInput, speaking_for
from mercer.kernels import RBF, Coregion, Matern, Periodic, Precomputed, White
from mercer.models.gp.parameters import Parameters, log_density

KERNEL = 2.0 * RBF([0.5, 3.0]) + Matern(1.5)
NAMES = ["k1__k1__value", "k1__k2__length_scale[0]", "k1__k2__length_scale[1]", "k2__length_scale"]


def test_all_are_free_in_the_order_of_the_kernel_then_the_noise():
    p = Parameters(KERNEL, 0.1)
    assert p.names == [*NAMES, "noise"]
    assert np.array_equal(p.theta, np.log([2.0, 0.5, 3.0, 1.5, 0.1]))
    assert np.array_equal(p.bounds[:4], KERNEL.bounds)
    np.testing.assert_allclose(np.exp(p.bounds[4]), (1e-8, 1e3))


def test_the_start_is_read_without_rounding():
    kernel, noise = Parameters(KERNEL, 0.1).read(np.log([2.0, 0.5, 3.0, 1.5, 0.1]))
    assert kernel is KERNEL and noise == 0.1
    assert Parameters(KERNEL).read(KERNEL.theta) == (KERNEL, None)


def test_what_is_read_has_what_was_put_in():
    p = Parameters(KERNEL, 0.1, fixed=("k2__length_scale", "k1__k1__value"))
    kernel, noise = p.read(np.log([7.0, 8.0, 9.0]))
    assert kernel == 2.0 * RBF([7.0, 8.0]) + Matern(1.5) or np.allclose(
        np.exp(kernel.theta), [2.0, 7.0, 8.0, 1.5], rtol=1e-14
    )
    assert noise == pytest.approx(9.0, rel=1e-15)


@pytest.mark.parametrize(
    ("fixed", "left"),
    [
        ("noise", NAMES),
        (("kernel",), ["noise"]),
        (["kernel__k1__k2__length_scale"], [NAMES[0], NAMES[3], "noise"]),
        (("k1__k2__length_scale[1]",), [NAMES[0], NAMES[1], NAMES[3], "noise"]),
        (("kernel", "noise"), []),
        (None, [*NAMES, "noise"]),
    ],
)
def test_what_is_fixed_is_held(fixed, left):
    p = Parameters(KERNEL, 0.25, fixed=fixed)
    assert p.names == left and p.theta.shape == (len(left),) and p.bounds.shape == (len(left), 2)
    kernel, noise = p.read(p.theta)
    assert kernel is KERNEL and noise == 0.25


def test_gradients_are_pulled_to_what_is_free():
    p = Parameters(KERNEL, 0.25, fixed="k1__k2__length_scale[0]")
    assert p.pull([1.0, 2.0, 3.0, 4.0], 5.0).tolist() == [1.0, 3.0, 4.0, 5.0]
    assert Parameters(KERNEL, fixed="kernel").pull([1.0, 2.0, 3.0, 4.0]).shape == (0,)
    assert Parameters(KERNEL, 0.1, fixed="noise").pull([1.0, 2.0, 3.0, 4.0], 5.0).shape == (4,)


def test_a_noise_kernel_beside_the_noise_is_told_apart():
    p = Parameters(White(0.5), 0.1)
    assert p.names == ["kernel__noise", "noise"]
    assert Parameters(White(0.5), 0.1, fixed="noise").names == ["kernel__noise"]
    assert Parameters(White(0.5), 0.1, fixed="kernel__noise").names == ["noise"]
    assert Parameters(White(0.5), fixed="noise").names == []  # a classifier has no other


def test_kernels_without_parameters_and_noise_of_zero():
    p = Parameters(Precomputed())
    assert p.names == [] and p.bounds.shape == (0, 2) and p.log_prior(p.theta)[0] == 0.0
    p = Parameters(RBF(2.0), 0.0)
    assert p.names == ["length_scale"] and p.read(p.theta)[1] == 0.0
    assert p.pull([1.5], 3.0).tolist() == [1.5]


def test_bounds_narrow_and_move_the_start():
    p = Parameters(RBF([1.0, 2.0]), 0.1, bounds={"length_scale": (3.0, 9.0), "noise": (1.0, 1.0)})
    np.testing.assert_allclose(np.exp(p.bounds), [[3, 9], [3, 9], [1, 1]])
    np.testing.assert_allclose(np.exp(p.theta), [3.0, 3.0, 1.0])
    np.testing.assert_allclose(p.draws, p.bounds)
    kernel, noise = p.read(p.theta)
    np.testing.assert_allclose(kernel.length_scale, 3.0)
    assert noise == 1.0


def test_starts_far_away_have_room_on_both_sides():
    p = Parameters(RBF(1e-9), 1e-12)
    assert (p.bounds[0] - p.theta[0] <= np.log([1e-3, 2e14]) + 1e-9).all()
    assert p.bounds[0, 0] < p.theta[0] < p.bounds[0, 1]
    assert p.bounds[1, 0] == p.theta[1]
    np.testing.assert_allclose(np.exp(p.draws[0]), [1e-11, 1e-7])


@pytest.mark.parametrize("option", ["fixed", "bounds", "priors"])
@pytest.mark.parametrize(
    "name", ["lenght_scale", "nu", "k3__length_scale", "", 3, None, "noise[0]"]
)
def test_unknown_names_are_refused_with_the_legal_ones(option, name):
    given = {"fixed": [name], "bounds": {name: (1, 2)}, "priors": {name: stats.gamma(2.0)}}[option]
    with (
        pytest.raises(InvalidInput, match=rf"^Owner: {option} names .*'k2__length_scale', 'noise'"),
        speaking_for("Owner"),
    ):
        Parameters(KERNEL, 0.1, **{option: given})


def test_a_classifier_has_no_noise_to_name():
    with pytest.raises(InvalidInput, match="names 'noise'"):
        Parameters(RBF(), fixed="noise")
    with pytest.raises(InvalidInput, match="none, as nothing"):
        Parameters(Precomputed(), fixed="length_scale")


@pytest.mark.parametrize("pair", [(2, 1), (0, 1), (-1, 1), (1, np.inf), (np.nan, 1), 3, "ab", (1,)])
def test_bad_bounds(pair):
    with (
        pytest.raises(InvalidInput, match=r"Owner: bounds\['noise'\].*0 < low ≤ high"),
        speaking_for("Owner"),
    ):
        Parameters(RBF(), 0.1, bounds={"noise": pair})


def test_contradictions_and_wrong_kinds():
    with pytest.raises(InvalidInput, match="priors names 'length_scale' twice"):
        Parameters(RBF(), priors={"length_scale": stats.gamma(2), "kernel": stats.gamma(2)})
    with pytest.raises(InvalidInput, match="give a dict of names"):
        Parameters(RBF(), bounds=[(1, 2)])
    with pytest.raises(InvalidInput, match="no logpdf"):
        Parameters(RBF(), priors={"length_scale": 2.0})
    with pytest.raises(InvalidInput, match="fixed=3"):
        Parameters(RBF(), fixed=3)
    words = r"theta has shape \(3,\), expected \(1,\)"
    with pytest.raises(InvalidInput, match=words), speaking_for("GaussianProcessRegressor"):
        Parameters(RBF()).read(np.zeros(3))


# ---------------------------------------------------------------------------------------- priors
def slopes(x):
    """Closed forms of d log p(e^θ)/dθ = x (log p)′(x)."""
    return [
        (stats.gamma(3.0, scale=0.5), 2.0 - 2.0 * x),
        (stats.invgamma(2.5, scale=1.5), -3.5 + 1.5 / x),
        (stats.lognorm(0.7, scale=2.0), -1 - np.log(x / 2.0) / 0.49),
        (stats.norm(1.0, 0.05), -x * (x - 1.0) / 0.0025),
        (stats.halfnorm(scale=3.0), -x * x / 9.0),
        (stats.expon(scale=2.0), -x / 2.0),
        (stats.uniform(0.0, 1e3), 0.0 * x),
        (stats.loguniform(1e-3, 1e3), -1.0 + 0 * x),
    ]


@pytest.mark.parametrize("x", [0.02, 0.3, 1.0, 1.7, 40.0])
def test_slopes_of_priors_in_closed_form(x):
    for law, slope in slopes(x):
        value, found = log_density(law, np.log(x))
        assert value == pytest.approx(law.logpdf(x), rel=1e-12)
        assert found == pytest.approx(slope, rel=1e-9, abs=1e-9), law.dist.name


def test_priors_add_and_leave_out_what_is_held():
    law = stats.gamma(2.0)
    p = Parameters(RBF([1.0, 2.0]), 0.5, priors={"length_scale": law, "noise": stats.expon()})
    value, slope = p.log_prior(p.theta)
    assert value == pytest.approx(law.logpdf([1.0, 2.0]).sum() - 0.5)
    np.testing.assert_allclose(slope, [0.0, -1.0, -0.5], atol=1e-9)
    held = Parameters(RBF([1.0, 2.0]), fixed="length_scale[0]", priors={"length_scale": law})
    assert held.log_prior(held.theta)[0] == pytest.approx(law.logpdf(2.0))


def test_outside_the_support_is_minus_infinity_and_no_start():
    law = stats.uniform(1.0, 2.0)
    assert log_density(law, np.log(3.5)) == (-np.inf, 0.0)
    with (
        pytest.raises(InvalidInput, match=r"Me: the start length_scale = 0\.5 has no finite dens"),
        speaking_for("Me"),
    ):
        Parameters(RBF(0.5), priors={"length_scale": law})
    p = Parameters(RBF(2.0), priors={"length_scale": law})
    assert p.log_prior(np.log([0.5]))[0] == -np.inf


@pytest.mark.parametrize("x", [1.0, 3.0, 1.0 + 1e-12, 3.0 - 1e-9])
def test_the_end_of_a_support_has_a_slope_from_inside(x):
    law = stats.triang(0.5, loc=1.0 - 1e-3, scale=2.0 + 2e-3)
    value, slope = log_density(law, np.log(x))
    h = 1e-7
    s = 1 if x < 2 else -1
    inside = (law.logpdf(np.exp(np.log(x) + s * h)) - value) / (s * h)
    assert np.isfinite(value) and slope == pytest.approx(inside, rel=1e-2)
    assert log_density(stats.uniform(1.0, 2.0), np.log(x))[1] == pytest.approx(0.0, abs=1e-9)


def test_own_laws_need_only_logpdf():
    class Law:
        def logpdf(self, x):
            return -(np.log(x) ** 2)

    p = Parameters(Periodic(2.0, 3.0), priors={"period": Law()})
    at = p.names.index("period")
    value, slope = p.log_prior(p.theta)
    assert value == pytest.approx(-(p.theta[at] ** 2))
    assert slope[at] == pytest.approx(-2 * p.theta[at], rel=1e-9)


# ------------------------------------------------------------------------ ends of priors, and names
def test_the_box_ends_where_a_prior_does():
    law = stats.uniform(1.0, 0.5)
    p = Parameters(RBF([1.2, 1.3]), 0.1, priors={"length_scale": law}, bounds={"noise": (0.1, 2)})
    np.testing.assert_allclose(np.exp(p.bounds[:2]), [[1.0, 1.5]] * 2, rtol=1e-8)
    assert p.ends.tolist() == [[True, True]] * 2 + [[False, False]]
    for edge in p.bounds.T:
        assert np.isfinite(p.log_prior(edge)[0])
    assert (p.draws[:2] == p.bounds[:2]).all()
    tight = Parameters(RBF(1.2), priors={"length_scale": law}, bounds={"length_scale": (1.1, 9.0)})
    np.testing.assert_allclose(np.exp(tight.bounds), [[1.1, 1.5]], rtol=1e-8)
    assert tight.ends.tolist() == [[False, True]]


@pytest.mark.parametrize("option", ["bounds", "priors"])
@pytest.mark.parametrize(
    ("fixed", "name"),
    [
        ("length_scale", "kernel__k2__length_scale"),
        ("k2__length_scale", "length_scale"),
        ("kernel", "k1__value"),
        (("noise",), "noise"),
        ({"noise"}, "noise"),
    ],
)
def test_what_is_held_has_no_bounds_and_no_prior(option, fixed, name):
    given = {name: (1.0, 2.0) if option == "bounds" else stats.gamma(2.0)}
    with pytest.raises(InvalidInput, match=f"{option} names {name!r}, but fixed holds"):
        Parameters(1.0 * RBF(), 0.1, fixed=fixed, **{option: given})
    with pytest.raises(InvalidInput, match="a noise of 0 has no logarithm"):
        Parameters(
            RBF(), 0.0, **{option: {"noise": (1, 2) if option == "bounds" else stats.gamma(2)}}
        )


def test_an_end_that_several_names_have_is_said_to_be_ambiguous():
    with pytest.raises(
        InvalidInput, match=r"the end of several: 'k1__k2__length_scale\[0\]'.*'k2__"
    ):
        Parameters(KERNEL, bounds={"length_scale": (1, 2)})


def test_one_pair_for_a_vector():
    with pytest.raises(InvalidInput, match=r"one by one: length_scale\[0\], length_scale\[1\]"):
        Parameters(RBF([1.0, 2.0]), bounds={"length_scale": [(1, 2), (3, 4)]})


@pytest.mark.parametrize(
    ("law", "words"),
    [
        (stats.lognorm, "not frozen"),
        (stats.norm, "not frozen"),
        (stats.multivariate_normal([0.0, 0.0]), "fails|not the density of one number"),
        (stats.poisson(3.0), "no logpdf"),
        (stats.gamma, "not frozen"),
    ],
)
def test_laws_that_are_no_density_of_one_number(law, words):
    with pytest.raises(InvalidInput, match=rf"priors\['length_scale'\].*({words})"):
        Parameters(RBF(), priors={"length_scale": law})


@pytest.mark.parametrize(
    ("theta", "words"),
    [
        ("abc", "theta='abc'"),
        ({}, "theta="),
        ([np.nan, 0.0], r"theta\[0\] = nan for 'length_scale'"),
        ([0.0, -800.0], r"theta\[1\] = -800 for 'noise'"),
        ([1000.0, 0.0], r"theta\[0\] = 1000"),
    ],
)
def test_theta_that_is_no_logarithm(theta, words):
    with pytest.raises(InvalidInput, match=words), speaking_for("GaussianProcessRegressor"):
        Parameters(RBF(), 0.1).read(theta)


@pytest.mark.parametrize("angle", [1.0, 3.0])
def test_bounds_of_a_parametrisation_are_not_widened(angle):
    kernel = RBF().on([0]) * Coregion(2, angles=[angle, 0.5]).on([1])
    p = Parameters(kernel)
    at = [i for i, name in enumerate(p.names) if "angles" in name]
    np.testing.assert_array_equal(p.bounds[at], kernel.bounds[at])
    assert np.exp(p.bounds[at]).max() < np.pi
    p.also(kernel, None)
    assert np.exp(p.bounds[at]).max() < np.pi
    beyond = Parameters(Coregion(2, angles=[4.0, 0.5]))
    np.testing.assert_allclose(np.exp(beyond.theta), [1.0, 1.0, 4.0, 0.5])  # it stays where it was
