"""The law of the memory budget for estimators: what a fit and predictions may allocate."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from mercer import models as mm
from mercer.errors import MemoryBudgetExceeded
from mercer.kernels import RBF
from mercer.models.margin.base import MarginMachine
from mercer.models.margin.svr import MarginRegressor
from mercer.settings import config
from mercer.testing.checks import require
from mercer.testing.study import Study

__all__ = ["law_memory"]

MANY = 700  # rows whose Gram matrix outweighs everything else
VECTORS = 28  # of one number a variable that a margin machine has beside rows of the matrix


def law_memory(study: Study) -> None:
    """A fit and many predictions stay inside the budget; what cannot fit is refused, unallocated.

    One factorisation in place needs the Gram matrix and tiles; "loo" and several penalties need
    eigenvectors as well.
    """
    if not isinstance(study.estimator, mm.KernelEstimator) or study.precomputed:
        return
    index = np.resize(study.train, MANY)
    X, y = study.rows(index), study.y[index]
    X = X + 0.01 * study.rng.standard_normal(X.shape)
    study.fit()  # compiled loops and imports are not the fit's
    RBF(1e-9)(X[:2])  # nor those of length scales that a search may try
    matrix = MANY * MANY * 8
    alpha = getattr(study.estimator, "alpha", 0.0)
    plain = not isinstance(alpha, str) and np.ndim(alpha) == 0
    budget = int((1.5 if plain else 6) * matrix)
    if isinstance(study.estimator, mm.GaussianProcessClassifier):
        budget = int(_matrices(study.estimator, len(np.unique(y))) * matrix) + 2**16
    model = clone(study.estimator)
    _within(lambda: model.fit(X, y), budget, f"{study.estimator!r}: fit")
    new = np.resize(X, (10 * MANY, X.shape[1]))
    answer = study._answer(model)
    own = 8 * len(new) * int(np.prod(np.shape(answer(new[:1]))[1:]))  # the answers themselves
    _within(lambda: answer(new), budget + own, f"{study.estimator!r}: many predictions")
    # What is not refused did without the matrix: it fits the budget of a tenth of it.
    allowed = matrix // 10 + _vectors(study.estimator) * MANY * 8
    peak = _tenth(study, X, y)
    if peak >= allowed:  # it may have loaded compiled code, which a second fit finds there
        peak = _tenth(study, X, y)
    require(peak < allowed, f"{study.estimator!r}: used {peak} of {allowed} bytes")


def _tenth(study: Study, X: np.ndarray, y: np.ndarray) -> int:
    """Return the peak of a fit, or of its refusal, under a tenth of the Gram matrix."""
    model, budget = clone(study.estimator), MANY * MANY * 8 // 10
    try:
        return _peak(lambda: model.fit(X, y), budget)
    except _Refused as refusal:
        error = refusal.error
        require(error.needed > error.allowed == budget, f"{error}: needed {error.needed}")
        try:
            check_is_fitted(model, "dual_coef_")
        except NotFittedError:
            return refusal.peak
        raise AssertionError(f"{study.estimator!r}: fitted although refused") from None


def _matrices(model: mm.GaussianProcessClassifier, n_classes: int) -> float:
    """Return the Gram matrices that a Gaussian process classifier may take: two with Laplace.

    K and a factor, or one a class; one more where classes depend on one another, and one that
    expectation propagation and variational inference work in; a quarter of it all for a search on
    half the rows, and a quarter of one for tiles.
    """
    joined = model.multi_class != "one_vs_rest" and model.link == "logit"
    several = n_classes if n_classes > 2 else 1
    if n_classes > 2 and joined and model.method == "laplace":
        several += 1
    count = 1 + several + (model.method != "laplace")
    return (1.0 if model.optimizer is None else 1.25) * count + 0.25


def _vectors(estimator: Any) -> int:
    """Return how many vectors of a number a row a fit may need that the budget does not count.

    The rows of the Gram matrix that a margin machine holds are counted. Its box, slopes and working
    sets are not; a tube has two variables a row, and folds one more set of solutions.
    """
    kinks = isinstance(estimator, mm.KernelERM) and not estimator._risk().smooth
    if not kinks and not isinstance(estimator, MarginMachine | mm.KernelQuantileRegressor):
        return 0
    more = isinstance(estimator, MarginRegressor) or getattr(estimator, "probability", False)
    return 3 * VECTORS // 2 if more else VECTORS


class _Refused(Exception):
    """A refusal for want of memory, and the bytes allocated until then."""

    def __init__(self, error: MemoryBudgetExceeded, peak: int):
        super().__init__(str(error))
        self.error, self.peak = error, peak


def _within(work: Callable[[], Any], budget: int, what: str) -> None:
    peak = _peak(work, budget)
    require(peak <= 1.1 * budget + 1e6, f"{what} used {peak} of {budget} bytes")


def _peak(work: Callable[[], Any], budget: int) -> int:
    tracemalloc.start()
    try:
        try:
            with config(memory=budget):
                work()
        except MemoryBudgetExceeded as error:
            raise _Refused(error, tracemalloc.get_traced_memory()[1]) from error
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
