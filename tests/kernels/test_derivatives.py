"""Derivatives that an author did not write, and the accuracy of those that are."""

import numpy as np
import pytest

from mercer import RBF, Linear, Matern, Periodic, Polynomial, RationalQuadratic
from mercer.errors import InvalidInput
from mercer.kernels import Dot, Radial
from mercer.kernels.metric import slope


def test_complex_step_has_no_cancellation():
    s = np.array([1e-8, 1.0, 30.0])
    np.testing.assert_allclose(
        slope(lambda t, xp: xp.exp(-0.5 * t), s, np), -0.5 * np.exp(-0.5 * s), rtol=1e-15
    )


class Unwritten(Radial):
    """A rational quadratic without derivatives."""

    _tunable = ("length_scale", "alpha")

    def __init__(self, length_scale=1.0, alpha=1.0):
        super().__init__(length_scale=length_scale, alpha=alpha)

    def _profile(self, s, xp):
        return (1 + s / (2 * self.alpha)) ** -self.alpha


class Square(Dot):
    """(s + c)² without derivatives."""

    _tunable = ("offset",)

    def __init__(self, offset=1.0):
        super().__init__(offset=offset)

    def _profile(self, s, xp):
        return (s + self.offset) ** 2


@pytest.mark.parametrize(
    ("plain", "written"),
    [
        (Unwritten([0.7, 2.0], 1.3), RationalQuadratic([0.7, 2.0], 1.3)),
        (Square(0.6), Polynomial(2, 0.6)),
    ],
    ids=["radial", "dot"],
)
def test_unwritten_derivatives_are_the_written_ones(plain, written, rng):
    X, Y = rng.standard_normal((9, 2)), rng.standard_normal((6, 2))
    W, c = rng.standard_normal((9, 9)), rng.standard_normal(6)
    np.testing.assert_allclose(plain.theta_vjp(X, W), written.theta_vjp(X, W), rtol=1e-10)
    np.testing.assert_allclose(
        plain.gradient(X, Y, c), written.gradient(X, Y, c), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        plain.normalized().theta_vjp(X, W),
        written.normalized().theta_vjp(X, W),
        rtol=1e-8,
        atol=1e-10,
    )


def test_unwritten_derivatives_in_torch(torch, rng):
    X, W = rng.standard_normal((7, 2)), rng.standard_normal((7, 7))
    expected = Unwritten(1.5, 0.8).theta_vjp(X, W)
    got = Unwritten(1.5, 0.8).theta_vjp(torch.as_tensor(X), torch.as_tensor(W))
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-10)


def test_derivatives_far_from_the_origin(rng):
    # two clusters 2e8 apart: (G1)ᵀx² + (Gᵀ1)ᵀy² − 2xᵀGy would leave no digit
    near = rng.standard_normal((6, 2))
    near = np.round(near * 1024) / 1024
    X = np.vstack([near - 2.0**27, near + 2.0**27])
    for kernel in (RBF([0.5, 2.0]), RationalQuadratic([0.5, 2.0], 2.0), Matern([0.5, 2.0], 0.5)):
        W = rng.standard_normal((6, 6))
        both = np.kron(np.eye(2), W)
        np.testing.assert_allclose(
            kernel.theta_vjp(X, both), 2 * kernel.theta_vjp(near, W), rtol=1e-9, atol=1e-12
        )
        c = rng.standard_normal(6)
        np.testing.assert_allclose(
            kernel.gradient(X[:6], X[:6].copy(), c),
            kernel.gradient(near, near.copy(), c),
            atol=1e-12,
        )


@pytest.mark.parametrize(
    "kernel", [RBF(), Matern(), Matern(nu=0.5), Linear(), Periodic(), Polynomial(2)]
)
def test_gradients_take_one_coefficient_a_point(kernel, rng):
    X = rng.standard_normal((3, 2))
    for bad in (np.ones(2), np.ones((3, 1)), 1.0):
        with pytest.raises(InvalidInput, match="coefficient"):
            kernel.gradient(X, X, bad)
    assert kernel.gradient(X, None, np.ones(3)).shape == (3, 2)
    assert np.isfinite(kernel.gradient(X, X, np.ones(3))).all()


def test_weights_must_have_the_shape_of_the_matrix(rng):
    X = rng.standard_normal((3, 2))
    for bad in (np.ones(3), np.ones((3, 2)), np.ones((2, 3)), 1.0):
        with pytest.raises(InvalidInput, match="W has shape"):
            RBF().theta_vjp(X, bad)


class OtherProfile(RBF):
    """A subclass that changes the formula and nothing else."""

    def _profile(self, s, xp):
        return xp.exp(-s)


def test_a_subclass_with_another_profile_has_its_own_derivatives(rng):
    X, Y = rng.standard_normal((8, 2)), rng.standard_normal((5, 2))
    W, c = rng.standard_normal((8, 8)), rng.standard_normal(5)
    same = RBF(1 / np.sqrt(2.0))  # exp(−s) at ℓ = 1
    np.testing.assert_allclose(OtherProfile()(X), same(X), rtol=1e-12)
    np.testing.assert_allclose(OtherProfile().theta_vjp(X, W), same.theta_vjp(X, W), rtol=1e-9)
    np.testing.assert_allclose(
        OtherProfile().gradient(X, Y, c), same.gradient(X, Y, c), rtol=1e-9, atol=1e-12
    )


def test_a_formula_with_abs_is_not_differentiated_in_silence():
    class Folded(Radial):
        def __init__(self, length_scale=1.0):
            super().__init__(length_scale=length_scale)

        def _profile(self, s, xp):
            return xp.exp(-abs(s))

    with pytest.raises(InvalidInput, match="_slope"):
        Folded().theta_vjp(np.eye(3), np.ones((3, 3)))
