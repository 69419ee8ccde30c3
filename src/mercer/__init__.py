"""Kernel methods: any positive definite kernel, any data, any method, with a certificate."""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

# Module -> its public names, loaded on first use so that `import mercer` stays light.
_PUBLIC = {
    "mercer.settings": "config get_config",
    "mercer.kernels": "RBF Matern RationalQuadratic Laplacian Periodic Linear Polynomial Exponential "
    "Cosine CosineDifference Minimum MinMaxRatio GCD GCDOverLCM Geometric ExpProduct Constant White "
    "Precomputed FromFunction FromFeatures Kernel check_kernel",
    "mercer.rkhs": "Function center distance distance_to_set mean_embedding",
    "mercer.models": "KernelRidge KernelRidgeClassifier TableClassifier TableRegressor",
    "mercer.features": "TableEncoder",
    "mercer.selection": "tune",
    "mercer.io": "save load",
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names.split()}
_FOLDERS = (
    "datasets domains engines errors features io kernels models operators rkhs selection solvers "
    "testing"
).split()

__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _FOLDERS:
        return importlib.import_module(f"mercer.{name}")
    raise AttributeError(f"module 'mercer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, *_FOLDERS])
