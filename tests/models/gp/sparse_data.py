"""The rows, the kernel and the model that tests of sparse regression share."""

from __future__ import annotations

import numpy as np

from mercer import RBF, SparseGaussianProcessRegressor

__all__ = ["KERNEL", "METHODS", "NEW", "D", "N", "X", "Y", "kept", "rng"]

rng = np.random.default_rng(2)
N, D = 60, 2
X = rng.uniform(-2, 2, (N, D))
Y = 30 + 7 * np.sin(2 * X[:, 0]) * X[:, 1] + 0.5 * rng.standard_normal(N)
NEW = rng.uniform(-3, 3, (9, D))
KERNEL = 1.2 * RBF(1.1)
METHODS = ("vfe", "fitc")


def kept(**options):
    return SparseGaussianProcessRegressor(KERNEL, 0.4, optimizer=None, **options)
