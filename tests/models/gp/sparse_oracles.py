"""Sparse evidences from n × n matrices of rows written out as often as their weight says."""

from __future__ import annotations

import numpy as np

__all__ = ["dense_fitc", "dense_vfe", "differences", "exact_evidence"]


def _repeated(X, Z, noise, weights):
    n = len(X)
    index = np.arange(n) if weights is None else np.repeat(np.arange(n), weights.astype(int))
    return X[index], Z[index], np.broadcast_to(noise, (n,))[index]


def _gauss(C, Z):
    n, t = Z.shape
    logdet = np.linalg.slogdet(C)[1]
    return -0.5 * (t * (n * np.log(2 * np.pi) + logdet) + (Z * np.linalg.solve(C, Z)).sum())


def _parts(kernel, X, U):
    cross = kernel(U, X)
    Q = cross.T @ np.linalg.solve(kernel(U), cross)
    return Q, kernel.diag(X) - Q.diagonal()


def dense_vfe(kernel, X, Z, noise, U, weights=None):
    X, Z, noise = _repeated(X, Z, noise, weights)
    Q, left = _parts(kernel, X, U)
    return _gauss(Q + np.diag(noise), Z) - 0.5 * Z.shape[1] * (left / noise).sum()


def dense_fitc(kernel, X, Z, noise, U, weights=None):
    X, Z, noise = _repeated(X, Z, noise, weights)
    Q, left = _parts(kernel, X, U)
    return _gauss(Q + np.diag(noise + left), Z)


def exact_evidence(kernel, X, Z, noise, weights=None):
    X, Z, noise = _repeated(X, Z, noise, weights)
    return _gauss(kernel(X) + np.diag(noise), Z)


def differences(f, x, h=1e-5):
    """Return the gradient of f at an array x by central differences."""
    out = np.empty(np.shape(x))
    for i in np.ndindex(out.shape):
        e = np.zeros(out.shape)
        e[i] = h
        out[i] = (f(x + e) - f(x - e)) / (2 * h)
    return out
