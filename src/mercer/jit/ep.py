"""Loops of expectation propagation: moments of one likelihood term times a normal density."""

from __future__ import annotations

import math

from mercer.jit.compile import compiled

__all__ = ["sequential_sweep", "tilted_moments"]

_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)
_TINY = 1e-19


@compiled
def _probit(mean, variance):
    """Moments for Φ(f) N(f | m, v) (Rasmussen & Williams 3.82–3.87), z = m/√(1+v).

    With r = N(z)/Φ(z), g = z + r and h = rg, the logarithm of Φ(z) has slope r and curvature −h.
    Below z = −3 cancellation is avoided by Laplace's continued fraction, x = −z:
    g = 1/(x + c), c = 2/(x + 3/(x + …)), whence r = x + g and 1 − h = g(c − g).
    """
    scale = math.sqrt(1.0 + variance)
    z = mean / scale
    if z < -3.0:
        x, c = -z, 0.0
        for k in range(60, 1, -1):
            c = k / (x + c)
        g = 1.0 / (x + c)
        r = x + g
        h, rest = r * g, g * (c - g)
        log_z = -0.5 * z * z - _LOG_ROOT_2PI - math.log(r)
        new = mean / (1.0 + variance) + variance * g / scale
        lean = g + x * rest
    else:
        below = 0.5 * math.erfc(z / math.sqrt(2.0))  # Φ(−z)
        log_z = math.log1p(-below) if z > 0.0 else math.log(1.0 - below)
        r = math.exp(-0.5 * z * z - _LOG_ROOT_2PI - log_z)
        h = r * (z + r)
        rest = 1.0 - h
        new = mean + variance * r / scale
        lean = r + z * h
    shrunk = 1.0 + variance * rest
    return (
        log_z,
        new,
        variance * shrunk / (1.0 + variance),
        h / shrunk,
        lean * scale / shrunk,
    )


@compiled
def _logistic_centre(mean, variance):
    """The root of f = m + v·σ(−f), the mode; to a small part of the width is enough."""
    low, high = mean, mean + variance
    f = mean + variance / (2.0 + 0.5 * variance) if mean < 0.0 else mean
    f = min(max(f, low), high)
    for _ in range(200):
        p = 1.0 / (1.0 + math.exp(f)) if f < 700.0 else 0.0
        gap = f - mean - variance * p
        if gap > 0.0:
            high = f
        else:
            low = f
        slope = 1.0 + variance * p * (1.0 - p)
        if gap * gap * slope <= 1e-4 * variance * slope * slope * 1e-2:
            break
        f -= gap / slope
        if not low < f < high:
            f = 0.5 * (low + high)
    return f


@compiled
def _logistic(mean, variance):
    """Moments for σ(f) N(f | m, v) by the trapezoidal rule, outwards from the mode.

    The rule is exponentially accurate (Trefethen & Weideman 2014): its error is e^(−2πd/step), d
    the distance to the poles ±iπ of σ. A wide density, over which that step is small, is integrated
    in u, f = π sinh u, unless it lies too far from the poles to feel them.
    """
    width = math.sqrt(variance)
    centre = _logistic_centre(mean, variance)
    far = mean > 8.5 * width or mean + variance < -8.5 * width
    mapped = width > 3.0 and not far
    step = 0.5 * width if far or width < 1.0 else 0.5
    u0 = 0.0
    if mapped:
        u0 = math.asinh(centre / math.pi)
        step = 0.12 / max(1.0, 0.3 * abs(centre) / width)
    lean = 2.0 * (centre - mean)
    top = min(centre, 0.0) - math.log1p(math.exp(-abs(centre)))
    s0, s1, s2, e1, e2, v1 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    p0 = 1.0 / (1.0 + math.exp(centre)) if centre < 700.0 else 0.0
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
            tail = math.exp(-abs(f))
            if f < 0.0 and centre < 0.0:
                rise = d - math.log1p(tail) - (top - centre)
            else:
                rise = min(f, 0.0) - math.log1p(tail) - top
            w = jacobian * math.exp(rise - 0.5 * d * (d + lean) / variance)
            p = tail / (1.0 + tail) if f > 0.0 else 1.0 / (1.0 + tail)  # σ(−f) = slope of log σ
            s0 += w
            s1 += w * d
            s2 += w * d * d
            e1 += w * p
            v1 += w * (p - p0) * (p - p0)
            e2 += w * p * (1.0 - p)
            biggest = max(biggest, w)
            if w < _TINY * biggest or w == 0.0:
                break
            k = k + 1 if side == 0 else k - 1
    shift, slope = s1 / s0, e1 / s0
    new_variance = s2 / s0 - shift * shift
    log_z = top - 0.5 * (centre - mean) ** 2 / variance
    log_z += math.log(s0 * step / width) - _LOG_ROOT_2PI
    # −∂²log Z/∂m² = −E[(log σ)″] − Var[(log σ)′]
    curvature = e2 / s0 - (v1 / s0 - (slope - p0) ** 2)
    if variance * curvature < 0.05:
        precision = max(curvature, 0.0) / (1.0 - variance * curvature)
        lean = slope / (1.0 - variance * curvature) + mean * precision
        new_variance = variance * (1.0 - variance * curvature)
        new = mean + variance * slope
    else:
        new = centre + shift
        precision = 1.0 / new_variance - 1.0 / variance
        lean = new / new_variance - mean / variance
    return log_z, new, new_variance, precision, lean


@compiled
def tilted_moments(probit, labels, mean, variance, out):
    """Fill out (5, n): log Z, mean, variance, and the precision and shift of the matching site.

    The site is the factor exp(−½τf² + νf) that turns N(f | m, v) into a density with the moments
    of p(tf) N(f | m, v): τ = 1/variance − 1/v and ν = mean/variance − m/v, without cancellation.
    """
    for i in range(labels.shape[0]):
        t = labels[i]
        if probit:
            values = _probit(t * mean[i], variance[i])
        else:
            values = _logistic(t * mean[i], variance[i])
        out[0, i] = values[0]
        out[1, i] = t * values[1]
        out[2, i] = values[2]
        out[3, i] = values[3]
        out[4, i] = t * values[4]


@compiled
def _row_site(probit, t, weight, precision, shift, tau, nu):
    """The site of a row with `weight` equal sites, given all that is not of this row.

    One site sees the others as N(f) with precision P + (w−1)τ and shift N + (w−1)ν. For w = 1 its
    equation has no unknown on the right; else it is iterated.
    """
    others = weight - 1.0
    damp = 1.0 / (1.0 + 0.5 * others) if others > 0.0 else 1.0
    for _ in range(1 if others == 0.0 else 30):
        while precision + others * tau <= 0.0:
            tau *= 0.5
            nu *= 0.5
        v = 1.0 / (precision + others * tau)
        m = (shift + others * nu) * v
        values = _probit(t * m, v) if probit else _logistic(t * m, v)
        change, lean = values[3] - tau, t * values[4] - nu
        tau += damp * change
        nu += damp * lean
        if abs(change) * v <= 1e-8 and abs(lean) * math.sqrt(v) <= 1e-8:
            break
    return tau, nu


@compiled
def sequential_sweep(probit, labels, weights, covariance, mean, tau, nu):
    """Visit every row once, in place (Rasmussen & Williams, algorithm 3.5, lines 4–10).

    covariance (n, n) and mean (n,) are those of the posterior with sites tau, nu; each visit
    changes them by a rank-one update.
    """
    n = labels.shape[0]
    for i in range(n):
        precision = 1.0 / covariance[i, i] - weights[i] * tau[i]
        if not precision > 0.0:
            continue
        shift = mean[i] / covariance[i, i] - weights[i] * nu[i]
        new_tau, new_nu = _row_site(probit, labels[i], weights[i], precision, shift, tau[i], nu[i])
        change = weights[i] * (new_tau - tau[i])
        lean = weights[i] * (new_nu - nu[i])
        tau[i], nu[i] = new_tau, new_nu
        scale = 1.0 / (1.0 + change * covariance[i, i])
        move = (lean - change * mean[i]) * scale
        column = covariance[i].copy()
        for j in range(n):
            mean[j] += move * column[j]
            part = change * scale * column[j]
            for k in range(n):
                covariance[j, k] -= part * column[k]
