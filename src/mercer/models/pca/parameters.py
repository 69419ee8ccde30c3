"""The parameters of principal components: what is legal, and how many components are asked for."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.features.parameters import random_source
from mercer.kernels import Kernel
from mercer.models.pca.components import Wanted
from mercer.models.pca.preimage import check_preimage

__all__ = ["PEERS", "SOLVERS", "check_parameters", "wanted"]

SOLVERS = ("auto", "dense", "subspace", "features", "cholesky")
PEERS = {"arpack": "subspace", "randomized": "subspace"}  # scikit-learn's words


def wanted(n_components: Any, owner: str) -> Wanted:
    """Return what `n_components` asks for.

    Parameters
    ----------
    n_components : int, float or None
        As given.
    owner : str
        Whose parameter it is.
    """
    value = n_components
    if value is None:
        return Wanted()
    if isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= 1:
        return Wanted(count=int(value))
    real = isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral)
    if real and 0 < float(value) < 1:
        return Wanted(share=float(value))
    raise InvalidInput(
        f"{owner}: n_components={value!r}; give a whole number ≥ 1, a share of the variance "
        "between 0 and 1, or None for all components."
    )


def check_parameters(model: Any, kernel: Kernel) -> Wanted:
    """Return how many components a `KernelPCA` asks for, or refuse one of its parameters.

    Parameters
    ----------
    model : KernelPCA
        The model.
    kernel : Kernel
        Its kernel, which decides on the ways back.
    """
    owner = type(model).__name__
    known = (*SOLVERS, *PEERS)
    if not isinstance(model.eigen_solver, str) or model.eigen_solver not in known:
        words = ", ".join(map(repr, known))
        raise InvalidInput(f"{owner}: eigen_solver={model.eigen_solver!r}; give one of {words}.")
    for name in ("tol", "alpha"):
        value = getattr(model, name)
        real = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not real or not 0 <= value < np.inf:
            raise InvalidInput(f"{owner}: {name}={value!r}; give a number ≥ 0.")
    for name in ("max_iter", "rank"):
        value = getattr(model, name)
        whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        if value is not None and (not whole or value < 1):
            raise InvalidInput(f"{owner}: {name}={value!r}; give a whole number ≥ 1, or None.")
    for name in ("fit_inverse_transform", "remove_zero_eig"):
        value = getattr(model, name)
        if not isinstance(value, bool | np.bool_):
            raise InvalidInput(f"{owner}: {name}={value!r}; give True or False.")
    check_preimage(model.preimage, kernel, owner)
    random_source(model.random_state, owner)
    return wanted(model.n_components, owner)
