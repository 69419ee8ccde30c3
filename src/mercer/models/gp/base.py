"""What Gaussian process models share: a kernel that may be left out, and options of the search."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.errors import InvalidInput
from mercer.kernels import RBF, Kernel
from mercer.models.base import KernelEstimator
from mercer.rkhs import Function
from mercer.solvers.base import check_index, check_number

__all__ = ["GaussianProcess", "as_rng", "default_kernel"]


def default_kernel() -> Kernel:
    """Return what ``kernel=None`` means: a scaled RBF that starts at the median distance."""
    return 1.0 * RBF("median")


def as_rng(random_state: Any, owner: str) -> Any:
    """Return a source of random numbers for None, a number, a RandomState or a Generator."""
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        return random_state
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{owner}: random_state={random_state!r}; give None, a whole number ≥ 0, or a "
            "generator of numpy.random."
        ) from error


class GaussianProcess(KernelEstimator):
    """Base of the Gaussian process models.

    Parameters
    ----------
    kernel : Kernel, str, callable or None
        The prior covariance; None for ``1.0 * RBF("median")``.
    """

    optimizer: Any
    n_restarts: Any
    max_iter: Any
    tol: Any
    random_state: Any
    search_: Any

    def _kernel(self) -> Kernel:
        return default_kernel() if self.kernel is None else super()._kernel()

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``kernel__k2__length_scale`` reaches into the default kernel too.

        Parameters
        ----------
        **params : dict
            Parameters of the estimator, and of its kernel as ``kernel__name``.

        Returns
        -------
        estimator
            The estimator itself.
        """
        deep = any(name.startswith("kernel__") for name in params)
        if deep and params.get("kernel", self.kernel) is None:
            params = {**params, "kernel": default_kernel()}
        return super().set_params(**params)

    @property
    def function_(self) -> Function:
        """The posterior mean as a function in the RKHS, plus its offset."""
        self._require_fit()
        return Function(self.kernel_, self.X_fit_, self.dual_coef_, self.intercept_)

    @property
    def n_iter_(self) -> int:
        """Evaluations of the evidence on all rows, at least one."""
        self._require_fit()
        return 1 if self.search_ is None else max(1, int(self.search_.n_evaluations))

    def _require_fit(self) -> None:
        # scikit-learn takes a model that answers before fit for fitted, unless an attribute is
        # asked for by name.
        check_is_fitted(self, "dual_coef_")

    def _check_search(self) -> bool:
        """Check the options of the search, and return whether there is to be one."""
        owner = type(self).__name__
        if callable(self.optimizer):
            raise InvalidInput(
                f"{owner}: optimizer is a function; give 'lbfgs' or None. A search of your own can "
                "call log_marginal_likelihood(theta, eval_gradient=True) of a fitted model."
            )
        if self.optimizer not in ("lbfgs", None):
            raise InvalidInput(f"{owner}: optimizer={self.optimizer!r}; give 'lbfgs' or None.")
        check_index(self.n_restarts, "n_restarts", owner, 0)
        check_index(self.max_iter, "max_iter", owner, 1)
        check_number(self.tol, "tol", owner, 0.0)
        as_rng(0 if self.random_state is None else self.random_state, owner)
        return self.optimizer is not None

    def _search_rng(self) -> Any:
        """Return the source of randomness of a fit; the same for every fit unless given."""
        rng = as_rng(0 if self.random_state is None else self.random_state, type(self).__name__)
        if isinstance(rng, np.random.RandomState):
            return rng
        return np.random.RandomState(int(rng.integers(2**32 - 1)))
