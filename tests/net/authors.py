"""What a user would write: a kernel of each base class, and functions for kernels made of them.

The golden pickles name these by where they stand, so they stay in this file under these names.
"""

import numpy as np

import mercer.kernels as mk


class NetRadial(mk.Radial):
    """(1 + s)⁻¹ with a further parameter to tune."""

    _tunable = ("length_scale", "rate")

    def __init__(self, length_scale=1.0, rate=0.5):
        super().__init__(length_scale=length_scale, rate=rate)

    def _profile(self, s, xp):
        return 1 / (1 + self.rate * s)


class NetDot(mk.Dot):
    """(s + c)³ of the inner product s."""

    _tunable = ("shift",)

    def __init__(self, shift=1.0):
        super().__init__(shift=shift)

    def _profile(self, s, xp):
        return (s + self.shift) * (s + self.shift) * (s + self.shift)


class NetScalar(mk.Scalar):
    """1 + exp(−|x − x′|) of numbers."""

    def _value(self, x, y, xp):
        return 1 + xp.exp(-abs(x - y))


class NetExplicit(mk.Explicit):
    """Features (1, x, x²)."""

    def __init__(self):
        super().__init__()

    def _features(self, X):
        return np.hstack([X * 0 + 1, X, X * X])


class NetPairwise(mk.Pairwise):
    """How many letters two words share."""

    def __init__(self):
        super().__init__()

    def _pair(self, x, y):
        return float(len(set(x) & set(y)))


class NetCounted(mk.Counted):
    """How many endings of up to three letters two words share, longer ones counting more."""

    def __init__(self):
        super().__init__()

    def _count(self, x):
        return {(p, x[-p:]): float(p) for p in range(1, min(3, len(x)) + 1)}


#: The classes that a process must register before it loads a file of them.
OWN = (NetRadial, NetDot, NetScalar, NetExplicit, NetPairwise, NetCounted)


def product_of_first(x, y):
    """Return x₁y₁ + 1."""
    return float(x[0] * y[0] + 1)


def squares(X):
    """Return the features (x, x²)."""
    return np.hstack([X, X * X])


def halved(X):
    """Return x/2."""
    return X / 2


def first_plus_four(X):
    """Return x₁ + 4, one number a point."""
    return X[:, 0] + 4


def overlap(a, b):
    """Return the share of letters that two words have in common, which is no kernel."""
    common, fewer = set(a) & set(b), min(len(set(a)), len(set(b)))
    return len(common) / fewer if fewer else float(not a and not b)
