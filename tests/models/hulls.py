"""Classes that can be separated, and the check of certificates that others cannot."""

import numpy as np
import pytest


def check_common_point(certificate, kernel, X, y, positive, offset=True):
    """Recompute what a certificate claims, from the kernel's definition."""
    rows = np.concatenate([certificate.positive, certificate.negative])
    assert (y[certificate.positive] == positive).all()
    assert (y[certificate.negative] != positive).all()
    u, v = certificate.positive_weights, certificate.negative_weights
    assert (u > 0).all() and (v > 0).all()
    if offset:
        assert u.sum() == pytest.approx(1) and v.sum() == pytest.approx(1)
    else:
        assert u.sum() + v.sum() == pytest.approx(1)
    X = np.asarray(X, dtype=float)
    K = kernel(X[rows])
    weights = np.concatenate([u, -v])
    distance = np.sqrt(max(0.0, weights @ K @ weights))
    whole = kernel(X)
    if offset:
        whole = whole - whole.mean(0) - whole.mean(0)[:, None] + whole.mean()
    radius = np.sqrt(whole.diagonal().max())
    assert certificate.radius == pytest.approx(radius)
    assert distance <= 2e-6 * radius and certificate.distance <= 1.01e-6 * radius
    return distance


def separable(seed=0, n=60, d=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X = X[np.abs(X @ np.arange(1, d + 1)) > 0.5]
    return X, (X @ np.arange(1, d + 1) > 0).astype(int)
