"""TuneResult: what tuning found, and on what evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["TuneResult"]


@dataclass(frozen=True, repr=False)
class TuneResult:
    """What `tune` found; what is not listed here is asked of the fitted model.

    So ``result.predict(X)`` and ``result.kernel_`` are those of ``result.model``.

    Attributes
    ----------
    model : estimator
        A fitted copy of the model with the best parameters.
    score : float
        The criterion for it, on the rows used for tuning; the smaller the better. An error, minus
        the mean of a score, or minus the log evidence: `criterion` says which.
    params : dict
        The parameters of the model found, such as ``alpha`` or ``C``, and ``kernel__...``, tuned
        or not, as ``set_params`` takes them.
    table : list of dict
        Every evaluation that gave a number: the parameters of the kernel by the names of
        ``kernel.theta_names``, those of the model, and the criterion as ``error``.
    converged : bool
        Whether the optimiser reached its tolerance within its limits.
    message : str
        Why it stopped.
    criterion : str
        What the score is.
    n_points : int or None
        How many rows the parameters were chosen on; the model is fitted on all.
    """

    model: Any
    score: float
    params: dict[str, Any]
    table: list[dict[str, Any]]
    converged: bool
    message: str
    criterion: str = "leave-one-out mean squared error"
    n_points: int | None = None

    @property
    def best_estimator_(self) -> Any:
        """The same as `model`, by the name that `search` and scikit-learn have for it."""
        return self.model

    @property
    def best_params_(self) -> dict[str, Any]:
        """The same as `params`."""
        return self.params

    def __getattr__(self, name: str) -> Any:
        own = name.startswith("__") or name in ("get_params", "set_params")  # it is no estimator
        if own or "model" not in self.__dict__:
            raise AttributeError(f"'TuneResult' has no attribute {name!r}")
        return getattr(self.model, name)

    def __str__(self) -> str:
        found = ", ".join(
            f"{k}={np.array2string(np.asarray(v), precision=4)}" for k, v in self.params.items()
        )
        return (
            f"tuned in {len(self.table)} evaluations: {found}\n"
            f"{self.criterion} {self.score:.4g} ({self.message})"
        )

    __repr__ = __str__
