"""What every kernel estimator shares: a kernel and checked points, and the solution it holds."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted

from mercer.domains.vectors import refuse_odd_arrays, to_host
from mercer.errors import InvalidInput
from mercer.features.base import NamedKernelMixin, TakesKernel, check_weights
from mercer.features.explain import explain_targets
from mercer.models.plan_value import Planned
from mercer.rkhs import Function

__all__ = ["KernelEstimator", "NamedKernelMixin", "check_targets", "check_weights"]


class KernelEstimator(Planned, TakesKernel, BaseEstimator):
    """Base of all models: scikit-learn outside; inside check, kernel, Gram, problem, solve, store.

    Parameters
    ----------
    kernel : Kernel, str or callable
        A Kernel, a short name such as "rbf", "precomputed", or a function of two points.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel used, with words such as "median" resolved on the training data.
    function_ : Function
        The solution f = Σ αᵢ k(xᵢ, ·) + b.
    solution_ : Solution
        The certificate of the fit.
    """

    _learned: tuple[str, ...] = (
        "kernel_",
        "X_fit_",
        "dual_coef_",
        "intercept_",
        "solution_",
        "n_features_in_",
        "feature_names_in_",
    )

    @property
    def function_(self) -> Function:
        """The solution as a function in the RKHS (plus its offset)."""
        check_is_fitted(self)
        return Function(self.kernel_, self.X_fit_, self.dual_coef_, self.intercept_)


def check_targets(y: Any, n: int, owner: str) -> np.ndarray:
    """Return numeric targets of shape (n,) or (n, t) as float64."""
    if y is None:
        raise InvalidInput(
            f"{owner}: requires y to be passed, but the target y is None; pass fit(X, y)."
        )
    y = to_host(y, "y")
    refuse_odd_arrays(y, "y", owner)
    if isinstance(y, numbers.Number) or (isinstance(y, np.ndarray) and y.ndim == 0):
        raise InvalidInput(f"{owner}: y={y!r} is one value; give one for each row: [{y!r}].")
    try:
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y", estimator=owner)
    except ValueError as error:
        raise InvalidInput(explain_targets(error, owner, y)) from error
    if y.ndim > 2:
        raise InvalidInput(f"{owner}: y has {y.ndim} dimensions; give (n,) or (n, outputs).")
    if len(y) != n:
        raise InvalidInput(
            f"{owner}: X has {n} rows and y has {len(y)}; inconsistent numbers of samples."
        )
    return y
