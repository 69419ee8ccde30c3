"""Sums of a radial profile over points, a block of queries at a time.

Queries lie side by side, so that every step is one operation on many of them and nothing is summed
across lanes: compilers make vectors of that without leave to reorder sums. Squares are sums of
differences, up to four columns at a time, and nothing cancels. Exponentials are powers of two: the
caller scales the coordinates such that φ = 2^(−s) or 2^(−√s), whose argument reduces without
rounding.

Numbers of profiles φ(s): 0 gaussian, 1 epanechnikov, 2 tophat, 3 triangular, 4 biweight, 5 cosine,
6 exponential. Those of bounded support are taken of s/h² where s is below ``rim``, and are 0
elsewhere; ``shrink`` is 1/h².
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from mercer.jit.compile import compiled

FAR = 1e300  # a squared distance beyond which all are alike
FLOOR = -1000.0  # powers of two below this are as good as 0
ROUND = 1.5 * 2.0**52  # added and subtracted, it rounds to a whole number, which its last bits hold


@intrinsic
def _bits(context, x):
    """Return the bits of a float as a whole number."""

    def make(_, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), make


@intrinsic
def _float(context, k):
    """Return the float with these bits."""

    def make(_, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), make


def _exponential_series(degree: int = 10) -> tuple[float, ...]:
    """Coefficients of 2^f, |f| ≤ ½: Taylor's series, economised by Chebyshev's polynomials.

    fⁿ − 2^(1−2n) Tₙ(2f) has a degree below n and differs from fⁿ by 2^(1−2n) at most.
    """
    c = np.array([math.log(2.0) ** k / math.factorial(k) for k in range(degree + 6)])
    for n in range(degree + 5, degree, -1):
        least = np.polynomial.chebyshev.cheb2poly([0] * n + [1])
        c[: n + 1] -= c[n] * 2.0 ** (1 - 2 * n) * least * 2.0 ** np.arange(n + 1)
    return tuple(float(v) for v in c[: degree + 1])


def _cosine_series(degree: int = 9) -> tuple[float, ...]:
    """Coefficients of cos(π√s/2)/(1 − s): sums of those of the cosine, taken from the far end.

    All of them sum to cos(π/2) = 0, so the sum of the first k is minus that of the rest.
    """
    c = [(-1.0) ** k * (0.5 * math.pi) ** (2 * k) / math.factorial(2 * k) for k in range(30)]
    return tuple(-math.fsum(reversed(c[k + 1 :])) for k in range(degree + 1))


E = _exponential_series()
C = _cosine_series()


@compiled
def _power(t):
    """Return 2^t, 0 where t is below FLOOR; t ≤ 1000."""
    m = t + ROUND
    f = t - (m - ROUND)
    p = E[8] + f * (E[9] + f * E[10])
    p = E[4] + f * (E[5] + f * (E[6] + f * (E[7] + f * p)))
    p = E[0] + f * (E[1] + f * (E[2] + f * (E[3] + f * p)))
    return _float(_bits(p) + (_bits(m) << 52)) if t > FLOOR else 0.0


@compiled
def _cosine(s):
    """Return cos(π√s/2) for 0 ≤ s ≤ 1, to the last bits also near 1."""
    p = C[4] + s * (C[5] + s * (C[6] + s * (C[7] + s * (C[8] + s * C[9]))))
    return (1.0 - s) * (C[0] + s * (C[1] + s * (C[2] + s * (C[3] + s * p))))


@compiled
def _squares(Qt, x, skip, s):
    """Fill s[b] = ‖q_b − x‖²; Qt is (d, B), d ≤ 3 or a multiple of 4. s[skip] becomes FAR."""
    B, d = s.shape[0], x.shape[0]
    if d == 1:
        for b in range(B):
            g0 = Qt[0, b] - x[0]
            s[b] = g0 * g0
    elif d == 2:
        for b in range(B):
            g0, g1 = Qt[0, b] - x[0], Qt[1, b] - x[1]
            s[b] = g0 * g0 + g1 * g1
    elif d == 3:
        for b in range(B):
            g0, g1, g2 = Qt[0, b] - x[0], Qt[1, b] - x[1], Qt[2, b] - x[2]
            s[b] = g0 * g0 + g1 * g1 + g2 * g2
    else:
        _wide_squares(Qt, x, s)
    if 0 <= skip < B:
        s[skip] = FAR


@compiled
def _wide_squares(Qt, x, s):
    """Fill s[b] = ‖q_b − x‖², four columns at a time."""
    B = s.shape[0]
    for k in range(0, x.shape[0], 4):
        q0, q1, q2, q3 = Qt[k], Qt[k + 1], Qt[k + 2], Qt[k + 3]
        x0, x1, x2, x3 = x[k], x[k + 1], x[k + 2], x[k + 3]
        if k == 0:
            for b in range(B):
                g0, g1, g2, g3 = q0[b] - x0, q1[b] - x1, q2[b] - x2, q3[b] - x3
                s[b] = g0 * g0 + g1 * g1 + g2 * g2 + g3 * g3
        else:
            for b in range(B):
                g0, g1, g2, g3 = q0[b] - x0, q1[b] - x1, q2[b] - x2, q3[b] - x3
                s[b] += g0 * g0 + g1 * g1 + g2 * g2 + g3 * g3


@compiled
def lower(Qt, X, first, s, low):
    """Lower low[b] to the smallest ‖q_b − xⱼ‖² of rows j of X, but for row j = b + first."""
    B = s.shape[0]
    for j in range(X.shape[0]):
        skip = j - first
        own = low[skip] if 0 <= skip < B else 0.0
        _squares(Qt, X[j], skip, s)
        for b in range(B):
            v = s[b] if s[b] < FAR else FAR
            low[b] = v if v < low[b] else low[b]
        if 0 <= skip < B:
            low[skip] = own


@compiled
def add_profiles(Qt, X, w, code, rim, shrink, first, off, s, total):
    """Add Σⱼ wⱼ φ(‖q_b − xⱼ‖²) to total[b], without row j = b + first.

    Exponentials are multiplied by 2^off[b]. s is a work array.
    """
    B = s.shape[0]
    for j in range(X.shape[0]):
        _squares(Qt, X[j], j - first, s)
        c = w[j]
        if code == 0:
            for b in range(B):
                total[b] += c * _power(off[b] - s[b])
        elif code == 6:
            for b in range(B):
                total[b] += c * _power(off[b] - math.sqrt(s[b]))
        elif code == 2:
            for b in range(B):
                total[b] += c if s[b] < rim else 0.0
        else:
            _add_bounded(c, code, rim, shrink, s, total)


@compiled
def _inside(s, rim, shrink):
    """Return s/h², 1 outside of the rim."""
    u = s * shrink
    return u if s < rim and u < 1.0 else 1.0


@compiled
def _add_bounded(c, code, rim, shrink, s, total):
    """Add c φ(s[b]/h²) to total[b]; φ(1) = 0."""
    B = s.shape[0]
    if code == 1:
        for b in range(B):
            total[b] += c * (1.0 - _inside(s[b], rim, shrink))
    elif code == 3:
        for b in range(B):
            total[b] += c * (1.0 - math.sqrt(_inside(s[b], rim, shrink)))
    elif code == 4:
        for b in range(B):
            v = 1.0 - _inside(s[b], rim, shrink)
            total[b] += c * v * v
    elif code == 5:
        for b in range(B):
            total[b] += c * _cosine(_inside(s[b], rim, shrink))


@compiled
def add_with_slopes(Qt, X, w, code, rim, shrink, first, off, s, total, lean):
    """Add what `add_profiles` adds to total[b], and Σⱼ wⱼ · (−2s φ′(s)) to lean[b].

    That is the derivative by the logarithm of the bandwidth. Of 2^(−s) it is 2s·2^(−s) times log 2,
    a factor that the caller knows, as of 2^(−√s). Of "tophat" it is 0.
    """
    B = s.shape[0]
    for j in range(X.shape[0]):
        _squares(Qt, X[j], j - first, s)
        c = w[j]
        if code == 0:
            for b in range(B):
                t = s[b] if s[b] < FAR else FAR
                v = c * _power(off[b] - t)
                total[b] += v
                lean[b] += 2.0 * v * t
        elif code == 6:
            for b in range(B):
                t = math.sqrt(s[b] if s[b] < FAR else FAR)
                v = c * _power(off[b] - t)
                total[b] += v
                lean[b] += v * t
        elif code == 2:
            for b in range(B):
                total[b] += c if s[b] < rim else 0.0
        else:
            _add_bounded(c, code, rim, shrink, s, total)
            for b in range(B):
                if s[b] < rim:
                    u = _inside(s[b], rim, shrink)
                    if code == 1:
                        lean[b] += 2.0 * c * u
                    elif code == 3:
                        lean[b] += c * math.sqrt(u)
                    elif code == 4:
                        lean[b] += 4.0 * c * u * (1.0 - u)
                    else:
                        r = 0.5 * math.pi * math.sqrt(u)
                        lean[b] += c * r * math.sin(r)


# ---- Moments of weighted points about their own means, for planes fitted at many places ----


TINY = 1e-25  # weights below this part of the largest change no digit


@compiled
def local_moments(K, Z, Y, centre, mean, square, cross):
    """Fill means and second moments of the rows of Z and Y under the weights of each row of K.

    centre[i] = Σ kⱼzⱼ, mean[i] = Σ kⱼyⱼ, square[i] = Σ kⱼ(zⱼ − centre)(zⱼ − centre)ᵀ and
    cross[i] = Σ kⱼ(zⱼ − centre)(yⱼ − mean)ᵀ, with weights k = K[i]/ΣK[i]. Differences are taken
    before products, so nothing cancels where the points lie far from the origin.
    """
    n, m = K.shape
    d, t = Z.shape[1], Y.shape[1]
    gap = np.empty(d)
    for i in range(n):
        row, c, u = K[i], centre[i], mean[i]
        A, B = square[i], cross[i]
        c[:] = 0.0
        u[:] = 0.0
        A[:] = 0.0
        B[:] = 0.0
        total, least = 0.0, 0.0
        for j in range(m):
            least = max(least, row[j])
        least *= TINY
        for j in range(m):
            k = row[j]
            if k <= least:
                continue
            total += k
            for a in range(d):
                c[a] += k * Z[j, a]
            for q in range(t):
                u[q] += k * Y[j, q]
        for a in range(d):
            c[a] /= total
        for q in range(t):
            u[q] /= total
        for j in range(m):
            if row[j] <= least:
                continue
            k = row[j] / total
            for a in range(d):
                gap[a] = Z[j, a] - c[a]
            for a in range(d):
                g = k * gap[a]
                for e in range(a + 1):
                    A[a, e] += g * gap[e]
                for q in range(t):
                    B[a, q] += g * (Y[j, q] - u[q])
        for a in range(d):
            for e in range(a):
                A[e, a] = A[a, e]
