"""From a profile's formula to lines that Triton compiles."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

import mercer
from mercer.engines.device.fused import MOST, traced
from mercer.kernels.metric import Radial

TL = SimpleNamespace(
    exp2=np.exp2,
    log2=np.log2,
    log=np.log,
    sqrt=np.sqrt,
    abs=np.abs,
    maximum=np.maximum,
    minimum=np.minimum,
    where=np.where,
)


def run(profile, s):
    """Execute the lines with NumPy in the place of Triton."""
    space = {"tl": TL, "s": s, **{f"c{i}": c for i, c in enumerate(profile.constants)}}
    with np.errstate(divide="ignore"):  # a power of 0 is 2^(c·log₂0)
        for line in profile.lines:
            exec(line, space)
    return space["value"]


class Bump(Radial):
    """A profile with comparisons and powers."""

    def __init__(self, length_scale=1.0):
        super().__init__(length_scale=length_scale)

    def _profile(self, s, xp):
        return xp.where(s < 4.0, (1 - 0.25 * s) ** 5 / (2.0 + s), xp.zeros_like(s))


class Spike(Radial):
    """A profile that asks for equality, and for the rest of the order."""

    def __init__(self, length_scale=1.0):
        super().__init__(length_scale=length_scale)

    def _profile(self, s, xp):
        near = xp.where(s <= 1.0, 0.25 * xp.ones_like(s), 0.5 / (1.0 + s))
        low = xp.where(s >= 8.0, 0.5 * near, near)
        return xp.where(s == 0.0, xp.ones_like(s), xp.where(s != 9.0, low, 0.5 * low))


@pytest.mark.parametrize(
    "kernel",
    [
        mercer.RBF(),
        mercer.Matern(nu=0.5),
        mercer.Matern(nu=1.5),
        mercer.Matern(nu=2.5),
        mercer.Matern(nu=np.inf),
        mercer.RationalQuadratic(alpha=0.3),
        mercer.Laplacian(),
        mercer.PowerExponential(power=1.3),
        mercer.PowerExponential(power=0.5, norm=1.0),
        mercer.PowerExponential(power=2.0),
        mercer.Linear(),
        mercer.Polynomial(degree=7, offset=0.5),
        mercer.Exponential(length_scale=1.7),
        Bump(),
        Spike(),
    ],
    ids=repr,
)
def test_lines_say_what_the_formula_says(kernel):
    s = np.linspace(0.0, 9.0, 200)
    profile = traced(kernel._profile)
    assert profile is not None
    np.testing.assert_allclose(run(profile, s), kernel._profile(s, np), rtol=1e-12, atol=1e-14)


def test_other_numbers_are_other_arguments_of_the_same_lines():
    a, b = (traced(mercer.RationalQuadratic(alpha=v)._profile) for v in (0.3, 2.2))
    assert a.lines == b.lines and a.constants != b.constants


def test_pure_decay_is_recognised():
    assert traced(mercer.RBF()._profile).decay == pytest.approx(-0.5, rel=1e-15)
    assert traced(mercer.Laplacian()._profile).decay == pytest.approx(-1.0, rel=1e-15)
    assert traced(mercer.Matern(nu=1.5)._profile).decay is None
    assert traced(lambda s, xp: xp.exp(-s) + 0.0 * s).decay is None
    assert traced(lambda s, xp: xp.exp(-s * s)).decay is None


@pytest.mark.parametrize(
    "formula",
    [
        mercer.Matern(nu=0.7)._profile,
        lambda s, xp: xp.tanh(s),
        lambda s, xp: np.exp(-s),
        lambda s, xp: s if s > 1 else 0 * s,
        lambda s, xp: s**-0.5,
        lambda s, xp: s**0,
        lambda s, xp: s.clip(0, 1),
        lambda s, xp: 1.0,
        lambda s, xp: s * math.inf,
        lambda s, xp: sum(i * 1.1 * s for i in range(1, MOST + 3)),
    ],
)
def test_what_has_no_form_is_left_to_tiles(formula):
    assert traced(formula) is None
