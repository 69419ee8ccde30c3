"""Links against formulas in many digits, and their derivatives against differences."""

from decimal import Decimal, localcontext

import numpy as np
import pytest

from mercer.errors import InvalidInput, speaking_for
from mercer.models.gp.classes.sites import Logit, Probit, as_link

VALUES = np.concatenate([np.linspace(-40, 40, 81), [-1e3, -300.0, -37.9, 19.9, 20.1, 300.0, 1e3]])


PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")


def normal(z):
    """Return Φ(z) and φ(z): near 0 by a series of positive terms, far away by a fraction."""
    phi = (-z * z / 2).exp() / (2 * PI).sqrt()
    x = abs(z)
    if x > 12:  # Mills' ratio 1/(x + 1/(x + 2/(x + …)))
        m = x
        for k in range(600, 0, -1):
            m = x + k / m
        tail = phi / m
    else:
        term = total = x
        for k in range(1, 900):
            term *= x * x / (2 * k + 1)
            total += term
        tail = Decimal("0.5") - phi * total
    return (tail if z < 0 else 1 - tail), phi


def exact(name, z):
    """Return log p and its first three derivatives at the margin z, in many digits."""
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 160, -(10**9), 10**9
        z = Decimal(float(z))
        if name == "logit":
            p, q = 1 / (1 + (-z).exp()), 1 / (1 + z.exp())
            return p.ln(), q, -p * q, -p * q * (q - p)
        P, phi = normal(z)
        r = phi / P
        q = z + r
        return P.ln(), r, -r * q, r * (q * (q + r) - 1)


@pytest.mark.parametrize("link", [Logit(), Probit()])
@pytest.mark.parametrize("t", [-1.0, 1.0])
def test_values_and_derivatives_in_many_digits(link, t):
    f = t * VALUES
    got = (link.log_likelihood(t, f), *link.derivatives(np.full(len(f), t), f))
    for i, z in enumerate(VALUES):
        for order, (have, want) in enumerate(zip(got, exact(link.name, z), strict=True)):
            sign = t if order in (1, 3) else 1.0  # odd derivatives in f change sign with t
            want = sign * float(want)
            # The third derivative of the probit is a difference of order 1/z² of its terms.
            slack = 1e-11 if order < 3 else 1e-8
            assert have[i] == pytest.approx(want, rel=slack, abs=1e-15), (z, order)


@pytest.mark.parametrize("link", [Logit(), Probit()])
def test_derivatives_are_differences_of_one_another(link):
    t = np.repeat([-1.0, 1.0], 41)
    f = np.tile(np.linspace(-6, 6, 41), 2)
    h = 1e-5

    def slope(function):
        return (function(t, f + h) - function(t, f - h)) / (2 * h)

    np.testing.assert_allclose(link.first(t, f), slope(link.log_likelihood), atol=1e-9)
    np.testing.assert_allclose(link.second(t, f), slope(link.first), atol=1e-9)
    np.testing.assert_allclose(link.third(t, f), slope(link.second), atol=1e-9)


@pytest.mark.parametrize("link", [Logit(), Probit()])
def test_far_away_nothing_overflows_and_curvature_has_its_sign(link):
    f = np.array([-1e150, -1e8, -1e3, 0.0, 1e3, 1e8, 1e150])
    with np.errstate(all="raise", under="ignore"):
        first, second, third = link.derivatives(np.ones(7), f)
        assert np.isfinite([first, second, third]).all()
        assert (second <= 0).all() and (first >= 0).all()
        p = link.probability(f)
    assert p[0] == 0.0 and p[3] == 0.5 and p[-1] == 1.0


def test_no_jump_where_the_series_takes_over():
    z = np.nextafter(-20.0, [-21.0, -19.0])
    for values in Probit().derivatives(1.0, z):
        assert values[0] == pytest.approx(values[1], rel=1e-9)


def test_names():
    assert isinstance(as_link("logit"), Logit)
    link = Probit()
    assert as_link(link) is link
    for wrong in ("cloglog", None, 3, Logit):
        with (
            pytest.raises(InvalidInput, match=r"Mine: link=.*'logit' or 'probit'"),
            speaking_for("Mine"),
        ):
            as_link(wrong)
