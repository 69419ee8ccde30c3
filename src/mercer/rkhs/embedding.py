"""Mean embeddings: a sample, or a distribution, as one function of the RKHS."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.kernels import Kernel, as_kernel
from mercer.kernels.checks import require_psd
from mercer.rkhs.function import Function

__all__ = ["mean_embedding"]


def mean_embedding(k: Any, X: Any, weights: Any = None) -> Function:
    r"""Return the mean embedding μ = Σᵢ wᵢ k(xᵢ, ·) / Σᵢ wᵢ.

    ⟨μ, f⟩ is the mean of f over the sample, for every f of the RKHS; ⟨μ_P, μ_Q⟩ is the mean of
    k(x, z) over both samples. For a characteristic kernel μ determines the distribution.

    Parameters
    ----------
    k : Kernel, str or callable
        The kernel; words such as ``"median"`` are resolved on X.
    X : collection of n points
        The sample.
    weights : array of shape (n,), optional
        Weights ≥ 0; equal by default. A weight of 2 counts a point twice.

    Returns
    -------
    Function
        With X as points and the weights, divided by their sum, as coefficients.

    Examples
    --------
    >>> from mercer import Linear, mean_embedding
    >>> mu = mean_embedding(Linear(), [[1.0], [3.0]])
    >>> mu([[10.0]])
    array([20.])
    """
    kernel = k if isinstance(k, Kernel) else as_kernel(k)
    require_psd(kernel, "mean_embedding")
    points = kernel.domain.check(X)
    w = check_weights(weights, kernel.domain.size(points), "mean_embedding")
    return Function(kernel.fit_params(points, weights), points, w)


def check_weights(weights: Any, n: int, owner: str) -> np.ndarray:
    """Return weights that sum to one."""
    if n == 0:
        raise InvalidInput(f"{owner}: there are no points; a mean needs at least one.")
    if weights is None:
        return np.full(n, 1.0 / n)
    try:
        w = np.asarray(weights, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{owner}: weights are not numbers ({error}).") from error
    if w.shape != (n,):
        raise InvalidInput(f"{owner}: weights have shape {w.shape}, expected ({n},): one a point.")
    if not np.isfinite(w).all() or (w < 0).any() or not (w > 0).any():
        raise InvalidInput(f"{owner}: weights must be finite, ≥ 0, and not all zero.")
    w = w / w.max()
    return w / w.sum()
