"""Every public loss, found by reflection: convexity, slopes, conjugates and refusals (SPEC L1)."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.base import clone

from mercer import losses
from mercer.errors import InvalidInput
from mercer.losses import (
    Absolute,
    EpsilonInsensitive,
    Exponential,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Pinball,
    Squared,
    SquaredHinge,
    ZeroOne,
)

LABELS, TARGETS = np.array([-1.0, 1.0]), np.array([-2.0, 0.0, 0.75])
#: Convex losses with targets to judge them on.
EXAMPLES = [
    *((loss, LABELS) for loss in (Hinge(), SquaredHinge(), Logistic(), Exponential())),
    *((loss, TARGETS) for loss in (Squared(), Absolute(), Huber(), Huber(0.25), Huber(2.5))),
    *((Pinball(level), TARGETS) for level in (0.5, 0.1, 0.99)),
    *((EpsilonInsensitive(width), TARGETS) for width in (0.1, 0.0, 1.5)),
]
SMOOTH = {SquaredHinge, Logistic, Exponential, Squared, Huber}
F = np.arange(-768, 769) / 128  # with most kinks of the examples on it, exactly
each = pytest.mark.parametrize(("loss", "targets"), EXAMPLES, ids=lambda v: repr(v)[:30])


def test_every_public_loss_has_an_example():
    found = {getattr(losses, name) for name in losses.__all__}
    classes = {c for c in found if inspect.isclass(c) and issubclass(c, Loss)} - {Loss}
    assert classes == {type(loss) for loss, _ in EXAMPLES} | {ZeroOne}


@each
def test_facts(loss, targets):
    assert loss.kind == ("classification" if targets is LABELS else "regression")
    assert loss.smooth == (type(loss) in SMOOTH)
    jumps = max(abs(np.diff(loss.gradient(y, np.linspace(-6, 6, 120_001)))).max() for y in targets)
    assert loss.smooth == (jumps < 0.09)  # 1e-4 times the curvature, at most e⁶, or a jump ≥ 0.1


@each
def test_values_are_convex_and_not_negative(loss, targets):
    for y in targets:
        values = loss.value(y, F)
        assert (values >= 0).all()
        assert (values[:-2] + values[2:] - 2 * values[1:-1] >= -1e-12).all()


@each
def test_a_gradient_supports_the_loss_from_below_and_is_its_difference(loss, targets):
    for y in targets:
        values, slopes = loss.value(y, F), loss.gradient(y, F)
        below = values[:, None] + slopes[:, None] * (F[None, :] - F[:, None])
        assert (below <= values[None, :] + 1e-9).all()
        h = 1e-6
        left = (values - loss.value(y, F - h)) / h
        right = (loss.value(y, F + h) - values) / h
        slack = 1e-6 * (1 + values)  # rounding of the differences
        assert (left - slack <= slopes).all() and (slopes <= right + slack).all()
        kinks = right - left > 0.05
        assert kinks.sum() <= (0 if loss.smooth else 2)
        middle = 0.5 * (left + right)
        np.testing.assert_allclose(slopes[~kinks], middle[~kinks], rtol=1e-6, atol=1e-6)


@each
def test_at_a_kink_the_subgradient_nearest_to_0_is_taken(loss, targets):
    for y in targets:
        slopes, h = loss.gradient(y, F), 1e-9
        left, right = loss.gradient(y, F - h), loss.gradient(y, F + h)
        nearest = np.clip(0.0, left, right)
        kinks = right - left > 0.05
        np.testing.assert_array_equal(slopes[kinks], nearest[kinks])


@each
def test_curvature_is_the_difference_of_gradients(loss, targets):
    h = 1e-5
    for y in targets:
        right = (loss.gradient(y, F + h) - loss.gradient(y, F)) / h
        left = (loss.gradient(y, F) - loss.gradient(y, F - h)) / h
        bent = (abs(right - left) > 0.1) | (
            abs(right) > 1e3
        )  # kinks of the value and of the gradient
        assert bent.sum() <= 4
        curvature, change = loss.curvature(y, F), 0.5 * (left + right)
        assert (curvature >= 0).all()
        np.testing.assert_allclose(curvature[~bent], change[~bent], rtol=1e-6, atol=1e-6)
        assert (curvature[bent] == 0).all()


@each
def test_fenchel_and_young(loss, targets):
    """ℓ(y, f) + ℓ*(y, u) ≥ u f, with equality where u is a subgradient at f."""
    U = np.linspace(-3.0, 3.0, 601)
    for y in targets:
        total = loss.value(y, F)[:, None] + loss.conjugate(y, U)[None, :]
        assert (total >= F[:, None] * U[None, :] - 1e-12).all()
        slopes = loss.gradient(y, F)
        equal = loss.value(y, F) + loss.conjugate(y, slopes)
        np.testing.assert_allclose(equal, slopes * F, rtol=1e-13, atol=1e-12)


@each
def test_the_conjugate_is_the_supremum(loss, targets):
    wide = np.linspace(-400.0, 400.0, 160_001)
    for y in targets:
        for u in np.linspace(-1.5, 1.5, 25):
            gains = u * wide - loss.value(y, wide)
            conjugate = float(loss.conjugate(y, u))
            if np.isinf(conjugate):  # still rising at an end of the range
                assert max(gains[0], gains[-1]) == gains.max() > gains[len(wide) // 2] + 3
                continue
            at = wide[np.argmax(gains)]
            near = minimize_scalar(
                lambda f, y=y, u=u: float(loss.value(y, f)) - u * f,
                bounds=(at - 0.006, at + 0.006),
                method="bounded",
                options={"xatol": 1e-10},
            )
            supremum = max(gains.max(), -near.fun)
            assert conjugate == pytest.approx(supremum, abs=1e-9)


@each
def test_shapes_broadcast_and_lists_will_do(loss, targets):
    y, f = targets[:, None], F[None, :5]
    for method in (loss.value, loss.gradient, loss.curvature, loss.conjugate):
        assert method(y, f).shape == (len(targets), 5)
        assert method(targets.tolist(), 0.25).shape == targets.shape
        assert method(targets, f[:, :0].T).shape == (0, len(targets))
        whole = np.asarray(method(int(targets[0]), 0))
        assert whole.dtype == np.float64
        assert whole == method(float(targets[0]), 0.0)


@each
def test_nan_gives_nan_and_nothing_warns(loss, targets):
    values = [np.nan, np.inf, -np.inf, 1e200, -1e200, 1e308, -1e308, 0.0]
    with np.errstate(all="raise"):
        for y in targets:
            for method in (loss.value, loss.gradient, loss.curvature, loss.conjugate):
                out = method(y, values)
                assert np.isnan(out[0])
                assert not np.isnan(out[3:]).any()
            assert (loss.value(y, values)[1:] >= 0).all()
            assert not np.isnan(loss.value(y, values[1:])).any()
            assert not np.isnan(loss.conjugate(y, values[1:])).any()
        if loss.kind == "regression":
            assert np.isnan(loss.value([np.nan], [1.0])) and np.isnan(loss.gradient(np.nan, 1.0))


@pytest.mark.parametrize(
    "bound", [Hinge().value, SquaredHinge().value, Exponential().value, Logistic().value]
)
def test_convex_losses_bound_the_share_of_wrong_signs(bound):
    scale = np.log(2) if bound.__self__ == Logistic() else 1.0
    for y in LABELS:
        assert (bound(y, F) / scale >= ZeroOne().value(y, F) - 1e-15).all()
        assert bound(y, 0.0) / scale == pytest.approx(1.0, abs=1e-15)  # and they touch it at 0


def test_known_values():
    np.testing.assert_array_equal(Hinge().value([1, 1, -1, -1], [1, -1, 1, -2]), [0, 2, 2, 0])
    assert Hinge().gradient(1, 1.0) == 0  # at the kink, the side of no loss
    np.testing.assert_array_equal(Hinge().conjugate(-1, [0.0, 1.0, 1.01]), [0, -1, np.inf])
    tube = EpsilonInsensitive(0.25)
    np.testing.assert_array_equal(tube.value(1.0, [0.75, 1.5, -1.0]), [0, 0.25, 1.75])
    np.testing.assert_array_equal(tube.conjugate([2.0, 2.0], [-1.0, 1.001]), [-1.75, np.inf])
    np.testing.assert_array_equal(ZeroOne().value([1, -1, 1, -1], [0, 0, 3, 3]), [1, 1, 0, 1])
    np.testing.assert_array_equal(SquaredHinge().value(1, [1, 0, -2]), [0, 1, 9])
    np.testing.assert_allclose(Pinball(0.9).value(0.0, [-1.0, 1.0]), [0.9, 0.1])
    np.testing.assert_array_equal(Huber(2.0).value(0.0, [1, 2, 3]), [0.5, 2, 4])
    assert float(Logistic().value(1, 0.0)) == np.log(2)


def test_logistic_keeps_its_digits_at_both_ends():
    loss, m = Logistic(), np.array([40.0, 700.0])
    np.testing.assert_allclose(loss.value(1, m), np.exp(-m), rtol=1e-14)
    np.testing.assert_allclose(loss.gradient(1, m), -np.exp(-m), rtol=1e-14)
    np.testing.assert_allclose(loss.curvature(1, [*m, *-m]), np.exp(-np.tile(m, 2)), rtol=1e-14)
    np.testing.assert_array_equal(loss.value(1, [-800.0, -1e300]), [800.0, 1e300])
    p = 1e-30
    np.testing.assert_allclose(loss.conjugate(1, -p), p * np.log(p) - p, rtol=1e-14)
    np.testing.assert_array_equal(
        loss.conjugate(1, [0.0, -1.0, 1e-300, -1.1]), [0, 0, *[np.inf] * 2]
    )


def test_exponential_overflows_to_infinity():
    with np.errstate(all="raise"):
        assert Exponential().value(1, -1000.0) == np.inf
        assert Exponential().gradient(-1, 1000.0) == np.inf
        assert Exponential().conjugate(1, 0.0) == 0


def test_families_meet():
    """τ = ½ and ε = 0 are the absolute error; a wide Huber is squared, a narrow one absolute."""
    y = 0.3
    np.testing.assert_allclose(2 * Pinball(0.5).value(y, F), Absolute().value(y, F), atol=1e-15)
    np.testing.assert_array_equal(EpsilonInsensitive(0).value(y, F), Absolute().value(y, F))
    np.testing.assert_array_equal(Huber(100).value(y, F), Squared().value(y, F))
    np.testing.assert_allclose(Huber(1e-9).value(y, F) / 1e-9, Absolute().value(y, F), atol=1e-9)


def test_minimisers_of_sums():
    """The mean, the median and the quantiles of a sample, found by a grid."""
    rng = np.random.default_rng(0)
    y, grid = rng.gamma(2.0, size=101), np.linspace(0, 8, 4001)
    best = lambda loss: grid[loss.value(y[:, None], grid[None]).sum(axis=0).argmin()]  # noqa: E731
    assert best(Squared()) == pytest.approx(y.mean(), abs=2e-3)
    assert best(Absolute()) == pytest.approx(np.median(y), abs=2e-3)
    for level in (0.1, 0.75):
        assert best(Pinball(level)) == pytest.approx(np.quantile(y, level), abs=2e-2)


def test_losses_are_values():
    assert Hinge() == Hinge() and hash(Hinge()) == hash(Hinge()) and Hinge() != EpsilonInsensitive()
    assert EpsilonInsensitive(0.1) == EpsilonInsensitive() != EpsilonInsensitive(0.2)
    assert repr(EpsilonInsensitive(0.2)) == "EpsilonInsensitive(epsilon=0.2)"
    assert Huber(1) == Huber() and hash(Huber(1)) == hash(Huber(1.0)) and Pinball(0.2) != Pinball()
    for loss, _ in EXAMPLES:
        assert pickle.loads(pickle.dumps(loss)) == loss
        assert eval(repr(loss), vars(losses)) == loss


def test_parameters_are_read_and_set_with_the_checks_of_the_constructor():
    loss = Huber(2)
    assert loss.get_params() == {"delta": 2.0} == loss.get_params(deep=False)
    assert loss.set_params(delta=3) is loss and loss == Huber(3.0) and hash(loss) == hash(Huber(3))
    assert loss.set_params() == Huber(3.0)
    with pytest.raises(InvalidInput, match="Huber: delta=-1"):
        loss.set_params(delta=-1)
    with pytest.raises(InvalidInput, match="Huber: no parameter 'quantile'; there are: 'delta'"):
        loss.set_params(quantile=0.5)
    with pytest.raises(InvalidInput, match="Hinge: no parameter 'delta'; there are: none"):
        Hinge().set_params(delta=1.0)
    assert loss == Huber(3.0)
    for each, _ in EXAMPLES:
        assert type(each)(**each.get_params()) == each
        copied = clone(each)
        assert copied == each and copied is not each


def test_losses_are_not_changed_in_place():
    loss = Pinball(0.3)
    table = {loss: 1}
    with pytest.raises(InvalidInput, match="Pinball: a loss is a value, and quantile stays"):
        loss.quantile = 7
    assert loss in table and loss == Pinball(0.3)


def test_conjugates_are_finite_at_their_bounds_as_floats_have_them():
    """1 − 0.8 is less than 0.2, and −alpha a/w of a coefficient w/alpha may be more than 1."""
    for level in (0.8, 0.9, 0.3, 0.95, 0.99, 0.9999, 1e-9):
        ends = [1 - level, float(f"{1 - level:.12g}"), -level, np.nextafter(-level, -1)]
        assert np.isfinite(Pinball(level).conjugate(0.0, ends)).all(), level
    rng = np.random.default_rng(0)
    w, alpha = rng.uniform(0.1, 9.0, 1000), 100.0
    steep = -alpha * (w / alpha) / w
    assert (steep < -1).any()  # so that the next lines say something
    for loss in (Absolute(), EpsilonInsensitive(0.3), Huber(1.0), Hinge(), Logistic()):
        value = loss.conjugate(1.0, steep)
        np.testing.assert_allclose(value, loss.conjugate(1.0, -1.0), atol=1e-14)
        assert loss.conjugate(1.0, -1.0 - 1e-14) == np.inf
    assert Pinball(0.8).conjugate(0.0, 0.2 + 1e-14) == np.inf == Hinge().conjugate(1.0, 1e-300)


@pytest.mark.parametrize("epsilon", [-0.1, np.nan, np.inf, "0.1", None, True, [0.1], 1j])
def test_a_tube_that_is_none_is_refused(epsilon):
    with pytest.raises(InvalidInput, match="EpsilonInsensitive: epsilon="):
        EpsilonInsensitive(epsilon)


@pytest.mark.parametrize("level", [0, 1, 0.0, 1.0, -0.1, 1.5, np.nan, "0.5", None, True, [0.5]])
def test_a_level_outside_of_0_and_1_is_refused(level):
    with pytest.raises(InvalidInput, match="Pinball: quantile="):
        Pinball(level)


@pytest.mark.parametrize("delta", [0, -1.0, np.nan, np.inf, "1", None, True])
def test_a_bend_that_is_none_is_refused(delta):
    with pytest.raises(InvalidInput, match="Huber: delta="):
        Huber(delta)


def test_the_step_has_a_value_only():
    loss, y, f = ZeroOne(), [1, -1], [0.0, 2.0]
    for name in ("gradient", "curvature", "conjugate"):
        with pytest.raises(InvalidInput, match=f"ZeroOne: it has no {name}.*Hinge"):
            getattr(loss, name)(y, f)
    assert loss.kind == "classification" and not loss.smooth
    assert np.isnan(loss.value(1, np.nan))


@pytest.mark.parametrize("loss", [ZeroOne(), Hinge(), SquaredHinge(), Logistic(), Exponential()])
def test_labels_are_minus_1_and_1(loss):
    for y in ([0, 1], [1, 2], [np.nan, 1], [True, False]):
        with pytest.raises(InvalidInput, match=f"{type(loss).__name__}: y holds .*−1 and 1"):
            loss.value(y, [0.0, 0.0])


def test_what_is_no_number_is_refused():
    with pytest.raises(InvalidInput, match="Hinge: y has dtype"):
        Hinge().gradient(["a"], [0.0])
    with pytest.raises(InvalidInput, match="u has dtype complex"):
        EpsilonInsensitive().conjugate(1.0, 1j)
    with pytest.raises(InvalidInput, match="Huber: f has dtype object"):
        Huber().value([1.0], [None])


def test_a_loss_of_ones_own():
    class Quartic(Loss):
        smooth = True

        def _value(self, y, f):
            return (f - y) ** 4

        def _gradient(self, y, f):
            return 4 * (f - y) ** 3

        def _conjugate(self, y, u):
            return y * u + 3 * (np.abs(u) / 4) ** (4 / 3)

    loss = Quartic()
    assert loss.kind == "regression" and (loss.curvature([1.0, 2.0], 0.0) == 0).all()
    slopes = loss.gradient(1.0, F)
    np.testing.assert_allclose(loss.value(1.0, F) + loss.conjugate(1.0, slopes), slopes * F)
    assert np.isnan(loss.value(1.0, np.nan)) and loss.value(0.0, 1e200) == np.inf
