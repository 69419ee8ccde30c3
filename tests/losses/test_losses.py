"""Every public loss, found by reflection: convexity, slopes, conjugates and refusals (SPEC L1)."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest

from mercer import losses
from mercer.errors import InvalidInput
from mercer.losses import EpsilonInsensitive, Hinge, Loss

#: Losses with targets to judge them on.
EXAMPLES = [
    (Hinge(), np.array([-1.0, 1.0])),
    (EpsilonInsensitive(), np.array([-2.0, 0.0, 0.7])),
    (EpsilonInsensitive(0.0), np.array([-2.0, 0.0, 0.7])),
    (EpsilonInsensitive(1.5), np.array([-2.0, 0.0, 0.7])),
]
F = np.linspace(-6.0, 6.0, 2401)  # the kinks of every example are on this grid
each = pytest.mark.parametrize(("loss", "targets"), EXAMPLES, ids=lambda v: repr(v)[:30])


def test_every_public_loss_has_an_example():
    found = {getattr(losses, name) for name in losses.__all__}
    classes = {c for c in found if inspect.isclass(c) and issubclass(c, Loss)} - {Loss}
    assert classes == {type(loss) for loss, _ in EXAMPLES}


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
        assert (below <= values[None, :] + 1e-12).all()
        h = 1e-6
        left = (values - loss.value(y, F - h)) / h
        right = (loss.value(y, F + h) - values) / h
        assert (left - 1e-6 <= slopes).all() and (slopes <= right + 1e-6).all()
        smooth = abs(right - left) < 1e-6
        assert smooth.mean() > 0.99
        np.testing.assert_allclose(slopes[smooth], left[smooth], atol=1e-6)


@each
def test_curvature_is_the_difference_of_gradients(loss, targets):
    h = 1e-5
    for y in targets:
        change = (loss.gradient(y, F + h) - loss.gradient(y, F - h)) / (2 * h)
        away = np.ones(len(F), dtype=bool)
        kinks = abs(change) > 1e3
        away[kinks] = False
        assert kinks.sum() <= 4
        np.testing.assert_allclose(loss.curvature(y, F)[away], change[away], atol=1e-6)


@each
def test_fenchel_and_young(loss, targets):
    """ℓ(y, f) + ℓ*(y, u) ≥ u f, with equality where u is a subgradient at f."""
    U = np.linspace(-3.0, 3.0, 601)
    for y in targets:
        total = loss.value(y, F)[:, None] + loss.conjugate(y, U)[None, :]
        assert (total >= F[:, None] * U[None, :] - 1e-12).all()
        slopes = loss.gradient(y, F)
        equal = loss.value(y, F) + loss.conjugate(y, slopes)
        np.testing.assert_allclose(equal, slopes * F, atol=1e-12)


@each
def test_the_conjugate_is_the_supremum(loss, targets):
    wide = np.linspace(-400.0, 400.0, 160_001)
    for y in targets:
        for u in np.linspace(-1.5, 1.5, 25):
            gains = u * wide - loss.value(y, wide)
            conjugate = float(loss.conjugate(y, u))
            if np.isinf(conjugate):  # still rising at an end of the range
                assert max(gains[0], gains[-1]) == gains.max() > gains[len(wide) // 2] + 10
            else:
                assert conjugate == pytest.approx(gains.max(), abs=1e-9)


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


def test_known_values():
    np.testing.assert_array_equal(Hinge().value([1, 1, -1, -1], [1, -1, 1, -2]), [0, 2, 2, 0])
    assert Hinge().gradient(1, 1.0) == 0  # at the kink, the side of no loss
    np.testing.assert_array_equal(Hinge().conjugate(-1, [0.0, 1.0, 1.01]), [0, -1, np.inf])
    tube = EpsilonInsensitive(0.25)
    np.testing.assert_array_equal(tube.value(1.0, [0.75, 1.5, -1.0]), [0, 0.25, 1.75])
    np.testing.assert_array_equal(tube.conjugate([2.0, 2.0], [-1.0, 1.001]), [-1.75, np.inf])


def test_losses_are_values():
    assert Hinge() == Hinge() and hash(Hinge()) == hash(Hinge()) and Hinge() != EpsilonInsensitive()
    assert EpsilonInsensitive(0.1) == EpsilonInsensitive() != EpsilonInsensitive(0.2)
    assert repr(EpsilonInsensitive(0.2)) == "EpsilonInsensitive(epsilon=0.2)"
    for loss, _ in EXAMPLES:
        assert pickle.loads(pickle.dumps(loss)) == loss


@pytest.mark.parametrize("epsilon", [-0.1, np.nan, np.inf, "0.1", None, True, [0.1]])
def test_a_tube_that_is_none_is_refused(epsilon):
    with pytest.raises(InvalidInput, match="EpsilonInsensitive: epsilon="):
        EpsilonInsensitive(epsilon)


def test_what_is_no_number_is_refused():
    for y in ([0, 1], [1, 2], [np.nan, 1]):
        with pytest.raises(InvalidInput, match="Hinge: y holds"):
            Hinge().value(y, [0.0, 0.0])
    with pytest.raises(InvalidInput, match="Hinge: y has dtype"):
        Hinge().gradient(["a"], [0.0])
    with pytest.raises(InvalidInput, match="u has dtype complex"):
        EpsilonInsensitive().conjugate(1.0, 1j)
    assert np.isnan(Hinge().value(1, np.nan)) and np.isnan(EpsilonInsensitive().value(1, np.nan))
