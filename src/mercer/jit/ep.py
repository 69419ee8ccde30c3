"""Loops of expectation propagation: moments of one likelihood term times a normal density."""

from __future__ import annotations

import math

from mercer.jit.compile import compiled

_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)
_TINY = 1e-19


@compiled
def _hazard(z):
    """log Φ(z), r = N(z)/Φ(z), g = z + r, h = rg and 1 − h: r is the slope, −h the curvature.

    Below z = −3 cancellation is avoided by Laplace's continued fraction, x = −z:
    g = 1/(x + c), c = 2/(x + 3/(x + …)), whence r = x + g and 1 − h = g(c − g).
    """
    if z < -3.0:
        x, c = -z, 0.0
        for k in range(60, 1, -1):
            c = k / (x + c)
        g = 1.0 / (x + c)
        r = x + g
        return -0.5 * z * z - _LOG_ROOT_2PI - math.log(r), r, g, r * g, g * (c - g)
    below = 0.5 * math.erfc(z / math.sqrt(2.0))  # Φ(−z)
    log_p = math.log1p(-below) if z > 0.0 else math.log(1.0 - below)
    r = math.exp(-0.5 * z * z - _LOG_ROOT_2PI - log_p)
    h = r * (z + r)
    return log_p, r, z + r, h, 1.0 - h


@compiled
def _probit(mean, variance):
    """Moments for Φ(f) N(f | m, v) (Rasmussen & Williams 3.82–3.87), z = m/√(1+v)."""
    scale = math.sqrt(1.0 + variance)
    z = mean / scale
    log_z, r, g, h, rest = _hazard(z)
    shrunk = 1.0 + variance * rest
    if z < 0.0:
        new, lean = mean / (1.0 + variance) + variance * g / scale, g - z * rest
    else:
        new, lean = mean + variance * r / scale, r + z * h
    spread = variance * shrunk / (1.0 + variance)
    return log_z, new, spread, h / shrunk, lean * scale / shrunk


@compiled
def _term(probit, f):
    """log p(f), its slope, and minus its curvature."""
    if probit:
        log_p, r, _, h, _ = _hazard(f)
        return log_p, r, h
    tail = math.exp(-abs(f))
    p = tail / (1.0 + tail) if f > 0.0 else 1.0 / (1.0 + tail)
    return min(f, 0.0) - math.log1p(tail), p, tail / ((1.0 + tail) * (1.0 + tail))


@compiled
def _centre(probit, power, mean, variance):
    """The mode of p(f)ᵖ N(f | m, v), root of f = m + pv·(log p)′; to a part of its width."""
    low, high = mean, mean + power * variance * _term(probit, mean)[1]
    f = min(max(0.0, low), high)
    for _ in range(200):
        _, slope, bend = _term(probit, f)
        gap = f - mean - power * variance * slope
        if gap > 0.0:
            high = f
        else:
            low = f
        steep = 1.0 + power * variance * bend
        if gap * gap <= 1e-6 * variance * steep:
            break
        f -= gap / steep
        if not low < f < high:
            f = 0.5 * (low + high)
    return f


@compiled
def _integral(probit, power, mean, variance):
    """Moments for p(f)ᵖ N(f | m, v) by the trapezoidal rule, outwards from the mode.

    The rule is exponentially accurate (Trefethen & Weideman 2014): its error is e^(−2πd/step), d
    the distance to the singularities of log p, ±iπ of the logistic function and 1.9 ± 2.8i of Φ.
    A wide density, over which that step is small, is integrated in u, f = π sinh u, unless it lies
    too far away to feel them.
    """
    width = math.sqrt(variance)
    centre = _centre(probit, power, mean, variance)
    log_p0, slope0, bend0 = _term(probit, centre)
    local = width / math.sqrt(1.0 + power * variance * bend0)
    far = mean > 8.5 * width or (not probit and mean + power * variance < -8.5 * width)
    mapped = width > 3.0 and not far
    step = 0.5 * width if far or width < 1.0 else 0.5
    u0 = 0.0
    if mapped:
        u0 = math.asinh(centre / math.pi)
        step = 0.12 / max(1.0, 0.3 * abs(centre) / local)
    lean = 2.0 * (centre - mean)
    s0, s1, s2, e1, e2, v1 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for side in range(2):
        k = 0 if side == 0 else -1
        biggest = 0.0
        while True:
            if mapped:
                u = u0 + k * step
                f = math.pi * math.sinh(u)
                d = f - centre
                jacobian = math.pi * math.cosh(u)
            else:
                d = k * step
                f = centre + d
                jacobian = 1.0
            log_p, slope, bend = _term(probit, f)
            w = jacobian * math.exp(power * (log_p - log_p0) - 0.5 * d * (d + lean) / variance)
            s0 += w
            s1 += w * d
            s2 += w * d * d
            e1 += w * (slope - slope0)
            v1 += w * (slope - slope0) ** 2
            e2 += w * bend
            biggest = max(biggest, w)
            if not w > _TINY * biggest:
                break
            k = k + 1 if side == 0 else k - 1
    shift, apart = s1 / s0, e1 / s0
    log_z = power * log_p0 - 0.5 * (centre - mean) ** 2 / variance
    log_z += math.log(s0 * step / width) - _LOG_ROOT_2PI
    # α = ∂log Z/∂m = E[ℓ′] and β = −∂²log Z/∂m² = −E[ℓ″] − Var[ℓ′], ℓ = power·log p
    slope = power * (slope0 + apart)
    curvature = power * (e2 / s0 - power * (v1 / s0 - apart * apart))
    if variance * curvature < 0.05:
        kept = 1.0 - variance * curvature
        tau = max(curvature, 0.0) / kept
        return log_z, mean + variance * slope, variance * kept, tau, slope / kept + mean * tau
    new, spread = centre + shift, s2 / s0 - shift * shift
    return log_z, new, spread, 1.0 / spread - 1.0 / variance, new / spread - mean / variance


@compiled
def _moments(probit, power, t, mean, variance):
    """log Z, mean, variance, precision and shift of p(tf)ᵖ N(f | m, v)."""
    if probit and power == 1.0:
        values = _probit(t * mean, variance)
    else:
        values = _integral(probit, power, t * mean, variance)
    return values[0], t * values[1], values[2], values[3], t * values[4]


@compiled
def tilted_moments(probit, powers, labels, mean, variance, out):
    """Fill out (5, n): log Z, mean, variance, and the precision and shift of the matching site.

    The site is the factor exp(−½τf² + νf) that turns N(f | m, v) into a density with the moments
    of p(tf)ᵖ N(f | m, v): τ = 1/variance − 1/v and ν = mean/variance − m/v, without cancellation.
    """
    for i in range(labels.shape[0]):
        values = _moments(probit, powers[i], labels[i], mean[i], variance[i])
        for j in range(5):
            out[j, i] = values[j]
        out[2, i] = min(values[2], variance[i])  # of a site that says nothing rounding says more


@compiled
def _row_gap(probit, power, t, copies, precision, shift, tau, nu):
    """By how much the site of a row changes in one update, times the number of its copies.

    One site sees the others as N(f) with precision P + (c−1)τ and shift N + (c−1)ν.
    """
    v = 1.0 / (precision + (copies - 1.0) * tau)
    values = _moments(probit, power, t, (shift + (copies - 1.0) * nu) * v, v)
    return copies * (values[3] - tau), copies * (values[4] - nu)


@compiled
def _row_site(probit, power, t, copies, precision, shift, tau, nu):
    """The site of a row with equal copies of it, given all that is not of this row.

    For one copy its equation has no unknown on the right. Else updates overshoot by as much as
    there are copies: Newton's method with differences for derivatives, and with steps that are
    halved until they help, or short plain steps where none does.
    """
    a, b = _row_gap(probit, power, t, copies, precision, shift, tau, nu)
    if copies == 1.0:
        return tau + a, nu + b
    for _ in range(50):
        v = 1.0 / (precision + copies * tau)
        root = math.sqrt(v)
        size = math.hypot(a * v, b * root)
        if size <= 1e-10:
            break
        dt, dn = 1e-6 / (v * copies), 1e-6 / (root * copies)
        a1, b1 = _row_gap(probit, power, t, copies, precision, shift, tau + dt, nu)
        a2, b2 = _row_gap(probit, power, t, copies, precision, shift, tau, nu + dn)
        jaa, jba, jab, jbb = (a1 - a) / dt, (b1 - b) / dt, (a2 - a) / dn, (b2 - b) / dn
        det = jaa * jbb - jab * jba
        part = 1.0 if det != 0.0 else 0.0
        while part > 1e-3:
            new_tau = tau - part * (jbb * a - jab * b) / det
            new_nu = nu - part * (jaa * b - jba * a) / det
            if new_tau > 0.0:
                a1, b1 = _row_gap(probit, power, t, copies, precision, shift, new_tau, new_nu)
                if math.hypot(a1 * v, b1 * root) < (1.0 - 0.1 * part) * size:
                    break
            part *= 0.5
        if part <= 1e-3:
            new_tau, new_nu = tau + 0.1 * a / copies, nu + 0.1 * b / copies
            a1, b1 = _row_gap(probit, power, t, copies, precision, shift, new_tau, new_nu)
        tau, nu, a, b = new_tau, new_nu, a1, b1
    return tau, nu


@compiled
def sequential_sweep(probit, powers, labels, copies, covariance, mean, tau, nu):
    """Visit every row once, in place (Rasmussen & Williams, algorithm 3.5, lines 4–10).

    covariance (n, n) and mean (n,) are those of the posterior with sites tau, nu; each visit
    changes them by a rank-one update.
    """
    n = labels.shape[0]
    for i in range(n):
        if not covariance[i, i] > 0.0:
            continue
        precision = 1.0 / covariance[i, i] - copies[i] * tau[i]
        if not precision > 0.0:
            continue
        shift = mean[i] / covariance[i, i] - copies[i] * nu[i]
        new_tau, new_nu = _row_site(
            probit, powers[i], labels[i], copies[i], precision, shift, tau[i], nu[i]
        )
        change = copies[i] * (new_tau - tau[i])
        lean = copies[i] * (new_nu - nu[i])
        tau[i], nu[i] = new_tau, new_nu
        scale = 1.0 / (1.0 + change * covariance[i, i])
        move = (lean - change * mean[i]) * scale
        column = covariance[i].copy()
        for j in range(n):
            mean[j] += move * column[j]
            part = change * scale * column[j]
            for k in range(n):
                covariance[j, k] -= part * column[k]
