"""Laws of estimators: weights, order, randomness, threads, memory, certificates, copies, files."""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from mercer import models as mm
from mercer.engines import small_tiles
from mercer.errors import MemoryBudgetExceeded, NotConverged, NotPositiveDefinite, NotSeparable
from mercer.kernels import RBF, as_kernel
from mercer.models.margin import MarginRegressor, is_margin
from mercer.settings import config
from mercer.testing.certificates import CERTIFICATES, check_margin, law_left_out
from mercer.testing.checks import agree, obey, require, told, untouched
from mercer.testing.examples import VectorStudy, as_example
from mercer.testing.laws import common

# ---- The law of the memory budget for estimators: what a fit and predictions may allocate ----


MANY = 700  # rows whose Gram matrix outweighs everything else
FEWER = 610  # rows of a process of classes: several matrices, and a search that begins on a part
VECTORS = 28  # of one number a variable that a margin machine has beside rows of the matrix


def law_memory(study: VectorStudy) -> None:
    """A fit and many predictions stay inside the budget; what cannot fit is refused, unallocated.

    One factorisation in place needs the Gram matrix and tiles; "loo" and several penalties need
    eigenvectors as well.
    """
    if not isinstance(study.estimator, mm.KernelEstimator) or study.precomputed:
        return
    classes = isinstance(study.estimator, mm.GaussianProcessClassifier)
    n = FEWER if classes else MANY
    index = np.resize(study.train, MANY)
    X, y = study.rows(index), study.y[index]
    X = X + 0.01 * study.rng.standard_normal(X.shape)
    study.fitted()  # compiled loops and imports are not the fit's
    RBF(1e-9)(X[:2])  # nor those of length scales that a search may try
    matrix = n * n * 8
    alpha = getattr(study.estimator, "alpha", 0.0)
    plain = not isinstance(alpha, str) and np.ndim(alpha) == 0
    budget = int((1.5 if plain else 6) * matrix)
    if classes:
        budget = int(_matrices(study.estimator, len(np.unique(y))) * matrix) + 2**16
    model = _brief(study)
    _within(lambda: model.fit(X[:n], y[:n]), budget, f"{study.estimator!r}: fit", n)
    new = np.resize(X, (10 * n, X.shape[1]))
    own = 8 * len(new) * int(np.prod(study.output(model, new[:1]).shape[1:]))  # the answers
    what = f"{study.estimator!r}: many predictions"
    _within(lambda: study.output(model, new), budget + own, what, n)
    # What is not refused did without the matrix: it fits the budget of a tenth of it.
    allowed = MANY * MANY * 8 // 10 + _vectors(study.estimator) * MANY * 8
    peak = _twice(lambda: _tenth(study, X, y), allowed)
    require(peak < allowed, f"{study.estimator!r}: used {peak} of {allowed} bytes")


def _brief(study: VectorStudy) -> Any:
    """Return a clone that takes a few steps only, as each of them takes what the first takes."""
    model: Any = clone(study.estimator)
    if hasattr(model, "optimizer"):
        model.set_params(max_iter=1)
    if isinstance(model, mm.KernelRidge | mm.KernelRidgeClassifier):
        model.set_params(max_iter=3)
    return model


def _tenth(study: VectorStudy, X: np.ndarray, y: np.ndarray) -> int:
    """Return the peak of a fit, or of its refusal, under a tenth of the Gram matrix."""
    model, budget = _brief(study), len(X) ** 2 * 8 // 10
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
    if not (kinks or is_margin(estimator) or isinstance(estimator, mm.KernelQuantileRegressor)):
        return 0
    more = isinstance(estimator, MarginRegressor) or getattr(estimator, "probability", False)
    return 3 * VECTORS // 2 if more else VECTORS


class _Refused(Exception):
    """A refusal for want of memory, and the bytes allocated until then."""

    def __init__(self, error: MemoryBudgetExceeded, peak: int):
        super().__init__(str(error))
        self.error, self.peak = error, peak


def _within(work: Callable[[], Any], budget: int, what: str, n: int) -> None:
    limit = 1.1 * budget + 2 * n * n  # a quarter of the matrix for all that is small
    peak = _twice(lambda: _peak(work, budget), limit)
    require(peak <= limit, f"{what} used {peak} of {budget} bytes")


def _twice(measure: Callable[[], int], limit: float) -> int:
    """Return the peak of some work, of a second time if the first may have loaded compiled code."""
    peak = measure()
    return peak if peak < limit else measure()


def _peak(work: Callable[[], Any], budget: int) -> int:
    tracemalloc.start()
    try:
        try:
            with config(memory=budget), warnings.catch_warnings():
                warnings.simplefilter("ignore", NotConverged)
                work()
        except MemoryBudgetExceeded as error:
            raise _Refused(error, tracemalloc.get_traced_memory()[1]) from error
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# ---- estimators ----


def law_threads(study: VectorStudy) -> None:
    """Other numbers of threads give the same answer to 1e-9, one number always the same bits."""
    answers = []
    with small_tiles(144):  # nine tiles
        for threads in (1, 2, 3, 2):
            with config(threads=threads):
                answers.append(study.output(study.fit()))
    for answer in answers[1:]:
        agree(answer, answers[0], 1e-9, f"{study.estimator!r}: another number of threads")
    agree(answers[3], answers[1], 0, f"{study.estimator!r}: two threads, twice", bitwise=True)


def law_permutation(study: VectorStudy) -> None:
    """The order of the training points does not matter, unless the method is one of order."""
    common.law_order(study)


def law_precomputed(study: VectorStudy) -> None:
    """Given the Gram matrix an estimator says what it says given the points."""
    if isinstance(study.estimator, mm.KernelEstimator):  # prototypes may be means of points
        common.law_precomputed(study)


def _certificate(model: Any) -> Callable[[Any, Any, Any], float] | None:
    return next((CERTIFICATES[c] for c in type(model).__mro__ if c in CERTIFICATES), None)


def law_certificate(study: VectorStudy) -> None:
    """solution_ tells the truth, also in float32, near singularity and with rows given twice.

    What says it has converged has a small residual and a small duality gap, and the residual it
    tells is, within a factor of a hundred, the one recomputed in float64.
    """
    model = study.fitted()
    if not hasattr(model, "solution_"):
        return
    solution = model.solution_
    require(solution.converged, f"{model!r}: not converged on easy data: {solution.message}")
    _check_solution(model, study.rows(study.train), study.y[study.train], "easy data")
    if _certificate(model) is None or isinstance(model, mm.KernelDensity):  # has no feature space
        return
    for (name, kernel, X, index), params in product(_hard_rows(study), _settings(study)):
        model = clone(study.estimator).set_params(**params)
        if "kernel" in model.get_params(deep=False):  # that of `PCA` is no parameter
            model.set_params(kernel=kernel)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            try:
                model.fit(X, study.y[index])
            except (NotPositiveDefinite, NotSeparable):
                continue  # a refusal is honest: rounding can make such a matrix indefinite
        _check_solution(model, X, study.y[index], name)


def _settings(study: VectorStudy) -> list[dict[str, Any]]:
    """Parameters to judge the certificate with: with and without offset, and small penalties."""
    given = study.estimator.get_params(deep=False)
    small = (1e-9, "loo") if "alphas" in given else (1e-9,)
    choices: dict[str, tuple] = {"alpha": small, "fit_intercept": (False, True)}
    if "alpha" in given:
        choices["alpha"] = (given["alpha"], *choices["alpha"])
    names = [name for name in choices if name in given]
    return [
        dict(zip(names, chosen, strict=True)) for chosen in product(*(choices[n] for n in names))
    ]


def _hard_rows(study: VectorStudy) -> Iterator[tuple[str, Any, Any, np.ndarray]]:
    """Names, kernels, rows and their positions; far scales make the Gram matrix near singular."""
    rows, twice = study.train, np.repeat(study.train, 2)
    X, kernel = study.rows(rows), study.estimator.kernel
    if study.precomputed:
        near = as_kernel("rbf").set_params(length_scale=100.0)(study.X[rows])
        far = kernel
    else:
        near, far = 0.01 * X, study.estimator._kernel().fit_params(X)
    yield "float32", kernel, X.astype(np.float32), rows
    yield "rows given twice", kernel, study.rows(twice), twice
    yield "a long length scale", far, near, rows
    yield "a long length scale in float32", far, near.astype(np.float32), rows
    # Columns in units of their own, far from 0: kernel values are large and nearly the same.
    units = 10.0 ** np.arange(study.X.shape[1])
    unscaled = study.X[rows] * units + 5.0 * units
    if study.precomputed:
        yield "columns of many scales", kernel, unscaled @ unscaled.T, rows
    else:
        yield "columns of many scales", "linear", unscaled, rows


def _check_solution(model: Any, X: Any, y: Any, name: str) -> None:
    solution, what = model.solution_, f"{model!r}, {name}"
    if solution.gap is not None:
        require(solution.gap >= 0, f"{what}: duality gap {solution.gap} < 0")
        gap = solution.primal - solution.dual
        limit = 1e-9 * max(1.0, abs(solution.primal)) + 1e-15 * abs(solution.dual)
        require(abs(gap - solution.gap) <= limit, f"{what}: primal − dual is {gap}")
        limit = max(getattr(model, "tol", 0.0), 1e-6)
        limit *= max(abs(solution.primal), abs(solution.dual))
        if solution.converged:
            require(solution.gap <= limit, f"{what}: says converged, the gap is {solution.gap:.3g}")
    certificate = _certificate(model)
    if certificate is None:
        return
    true = certificate(model, X, y)
    said = float(solution.residual)
    limit = max(1e-5, getattr(model, "tol", 0.0))
    if solution.converged:
        require(true <= limit, f"{what}: says converged, the residual is {true:.3g}")
    require(
        # What rounding may hide is counted, as far as that does not decide.
        true <= 100 * said + 1e-12 and said <= max(100 * true + 1e-9, 0.1 * limit),
        f"{what}: says {said:.3g}, the residual is {true:.3g}",
    )


def law_objectives(study: VectorStudy) -> None:
    """Primal and dual value, gap and residual of a margin machine are those of its definition.

    Recomputed with and without weights (some of them 0), for two classes and for more, and also
    where a limit ended the fit.
    """
    if not is_margin(study.estimator):
        return
    X, y = study.rows(study.train), study.y[study.train]
    weights = study.rng.uniform(0.3, 2, len(y))
    weights[5:8] = 0.0
    targets = [y, np.where(y == y[0], y[0], y[1])] if is_classifier(study.estimator) else [y]
    for target, w, steps in product(targets, (None, weights), (None, 3)):
        model = clone(study.estimator).set_params(max_iter=steps)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            model.fit(X, target, sample_weight=w)
        check_margin(model, X, target, w, f"{model!r}, {'no' if w is None else 'some'} weights")


def law_copies(study: VectorStudy) -> None:
    """A pickled model answers with the same bits; a clone has the parameters, nothing learned."""
    common.law_pickled(study)
    model = study.fitted()
    fresh = clone(model)
    require(repr(fresh) == repr(study.estimator), f"{model!r}: its clone is {fresh!r}")
    learned = [name for name in getattr(model, "_learned", ()) if name in vars(fresh)]
    require(not learned, f"{model!r}: the clone has {learned}")


def law_learned_state(study: VectorStudy) -> None:
    """Every learned attribute is declared in `_learned`, so that a model file holds all of it."""
    model = study.fitted()
    declared = set(getattr(model, "_learned", ()))
    learned = {n for n in vars(model) if n.endswith("_") and not n.startswith("_")}
    require(declared, f"{model!r}: declares no learned state")
    require(learned <= declared, f"{model!r}: {sorted(learned - declared)} are not in _learned")


def law_function(study: VectorStudy) -> None:
    """function_ is the solution: its values are the model's; a vote of neighbours is none."""
    model = study.fitted()
    if not isinstance(model, mm.KernelEstimator) or "dual_coef_" not in model._learned:
        return
    new = study.rows(study.new, study.train)
    expected = study.output(model)
    if getattr(model, "multi_class", None) == "ovo":  # its answers are votes of pairs
        expected = model.pairwise_decision_function(new)
    got = np.reshape(model.function_(new), expected.shape)
    if getattr(model, "mean_coef_", None) is not None:  # its mean is no function of the RKHS
        got = got + new @ model.mean_coef_
    if isinstance(model, mm.KernelQuantileRegressor):  # its answers are put in order
        got = model._rearranged(got)
    agree(got, expected, 1e-8, f"{model!r}: function_ ≠ its answers")


def law_inputs(study: VectorStudy) -> None:
    """Data may be read-only, and are left as they were."""
    X, y = np.array(study.rows(study.train)), np.array(study.y[study.train])
    new = np.array(study.rows(study.new, study.train))
    w = study.rng.uniform(0.5, 2, len(y))
    extra = {"sample_weight": w} if study.takes_weights else {}
    with untouched([X, y, new, w], f"{study.estimator!r}: an input was changed: the bits differ"):
        model = clone(study.estimator).fit(X, y, **extra)
        study.output(model, new)


_LAWS = (
    common.law_weights,
    common.law_relative_weights,
    law_permutation,
    common.law_repeatable,
    law_threads,
    law_precomputed,
    law_memory,
    law_certificate,
    law_objectives,
    law_copies,
    law_learned_state,
    common.law_file,
    law_function,
    law_left_out,
    law_inputs,
)


def estimator_laws() -> list[tuple[str, Callable[..., None]]]:
    """Return (name, function) for each law; ``function(estimator, X=None, y=None, rng=0)``."""
    return told(_LAWS, lambda law, *given, **named: law(VectorStudy(*given, **named)))


def check_estimator_laws(estimator: Any, X: Any = None, y: Any = None, rng: Any = 0) -> None:
    """Raise AssertionError, naming the law, unless an estimator obeys every law.

    The laws: weight = repetition, scale of weights, order of rows, same bits twice, threads,
    precomputed = kernel, memory inside the budget, certificate and objectives recomputed, pickle
    and clone, declared learned state, model file, `function_`, meaning of `loo`, inputs left alone.
    scikit-learn's ``check_estimator`` is the other half.

    Parameters
    ----------
    estimator : estimator
        Any estimator of mercer, not fitted.
    X, y : training data, optional
        Made up when not given.
    rng : Generator or int, default=0
        Source of randomness.

    Examples
    --------
    >>> from mercer import KernelRidge
    >>> from mercer.testing import check_estimator_laws
    >>> check_estimator_laws(KernelRidge(alpha=0.1))
    """
    obey(estimator_laws(), as_example(estimator), X, y, rng)
