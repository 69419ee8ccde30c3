"""Values of a fitted function at new points, and its training points once more."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains import GramRows
from mercer.engines import blocks, pick
from mercer.errors import InvalidInput
from mercer.models.base import KernelEstimator

__all__ = ["ValuedEstimator"]


class ValuedEstimator(KernelEstimator):
    """Base of estimators with coefficients, an offset, and weights of features where finite."""

    dual_coef_: np.ndarray
    intercept_: Any

    def _feature_weights(self) -> np.ndarray | None:
        """Return the weights of the kernel's features, shape (D,) or (D, outputs), or None."""
        return None

    def _values(self, X: Any) -> np.ndarray:
        """Return f(x) + b for new points, shape (n,) or (n, outputs), in tiles."""
        X = self._check_new(X)
        kernel, weights = self.kernel_, self._feature_weights()
        with np.errstate(over="ignore", invalid="ignore"):
            if weights is not None:
                take, n = kernel.domain.take, kernel.domain.size(X)
                tiles = blocks.row_blocks(n, len(weights) * 16)
                parts = [np.asarray(kernel._features(take(X, r)) @ weights) for r in tiles]
                out = np.concatenate(parts)
            else:
                X, points = kernel.domain.match(X, self.X_fit_)
                engine = pick(X)
                out = engine.to_numpy(engine.matmul(kernel, X, points, self.dual_coef_))
            out = out + self.intercept_
        return self._finite(out)

    def _points_again(self, K: Any, verb: str = "loo") -> Any:
        """Return the training points, or the Gram matrix given again where it was precomputed."""
        owner = f"{type(self).__name__}.{verb}"
        if not isinstance(self.kernel_.domain, GramRows):
            if K is not None:
                raise InvalidInput(
                    f"{owner}: the model keeps its training points; call {verb}() without data. "
                    "Only a precomputed Gram matrix must be passed again."
                )
            return self.X_fit_
        if K is None:
            raise InvalidInput(
                f"{owner}: a fitted model does not keep a precomputed Gram matrix; pass the "
                f"training matrix again: {verb}(K)."
            )
        return self.kernel_.domain.check_square(self._check_X(K, self.kernel_, reset=False))
