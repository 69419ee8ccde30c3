"""Laws of estimators: weights, order, randomness, threads, memory, certificates, copies, files."""

from __future__ import annotations

import pickle
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from mercer import models as mm
from mercer.errors import MemoryBudgetExceeded
from mercer.io import load, save
from mercer.kernels import as_kernel
from mercer.settings import config
from mercer.testing.case import small_tiles
from mercer.testing.checks import agree, require
from mercer.testing.study import Study

__all__ = ["CERTIFICATES", "check_estimator_laws", "estimator_laws"]


def law_weights(study: Study) -> None:
    """A weight of 2 is the row given twice, and a weight of 0 the row left out."""
    if not study.repeatable_weights:
        return
    weight = study.rng.integers(0, 4, len(study.train))
    weight[:3] = 1  # every class stays
    repeated = np.repeat(study.train, weight)
    weighted = study.fit(sample_weight=weight.astype(float))
    expected = study.output(study.fit(repeated), repeated)
    agree(study.output(weighted), expected, 1e-8, f"{study.estimator!r}: weight ≠ repetition")
    ones = study.fit(sample_weight=np.ones(len(study.train)))
    agree(study.output(ones), study.output(study.fit()), 1e-9, f"{study.estimator!r}: weights of 1")


def law_permutation(study: Study) -> None:
    """The order of the training rows does not matter."""
    order = study.rng.permutation(study.train)
    expected = study.output(study.fit())
    got = study.output(study.fit(order), order)
    agree(got, expected, 1e-9, f"{study.estimator!r}: rows in another order")


def law_repeatable(study: Study) -> None:
    """The same data and random_state give the same bits, also after another fit."""
    first = study.fit()
    expected = study.output(first)
    agree(
        study.output(study.fit()), expected, 0, f"{study.estimator!r}: fitted again", bitwise=True
    )
    used = study.fit(study.train[5:])
    y = study.y[study.train]
    used.fit(study.rows(study.train), y)
    agree(study.output(used), expected, 0, f"{study.estimator!r}: fitted anew", bitwise=True)


def law_threads(study: Study) -> None:
    """Other numbers of threads give the same answer to 1e-9, one number always the same bits."""
    answers = []
    with small_tiles(64):
        for threads in (1, 2, 3, 2):
            with config(threads=threads):
                answers.append(study.output(study.fit()))
    for answer in answers[1:]:
        agree(answer, answers[0], 1e-9, f"{study.estimator!r}: another number of threads")
    agree(answers[3], answers[1], 0, f"{study.estimator!r}: two threads, twice", bitwise=True)


def law_precomputed(study: Study) -> None:
    """Given the Gram matrix an estimator says what it says given the points."""
    if study.precomputed or not isinstance(study.estimator, mm.KernelEstimator):
        return
    rows = study.rows(study.train)
    kernel = as_kernel(study.estimator.kernel).fit_params(rows)
    model = clone(study.estimator).set_params(kernel="precomputed")
    model.fit(kernel(rows), study.y[study.train])
    got = study._answer(model)(kernel(study.rows(study.new), rows))
    expected = study.output(study.fit())
    agree(got, expected, 1e-8, f"{study.estimator!r}: precomputed ≠ kernel")


def law_memory(study: Study) -> None:
    """A fit stays inside the budget, and what cannot fit is refused before any work."""
    if not isinstance(study.estimator, mm.KernelEstimator) or study.precomputed:
        return
    study.fit()  # compiled loops and imports are not the fit's
    index = np.resize(study.train, 400)
    X, y = study.rows(index), study.y[index]
    X = X + 0.01 * study.rng.standard_normal(X.shape)
    budget = 16 * 400 * 400 * 8
    peak = _peak(lambda: clone(study.estimator).fit(X, y), budget)
    require(peak <= 1.1 * budget + 2**20, f"{study.estimator!r}: {peak} bytes of {budget} used")
    model = clone(study.estimator)
    try:
        peak = _peak(lambda: model.fit(X, y), 2000)
    except MemoryBudgetExceeded as error:
        require(error.needed > error.allowed == 2000, f"{error}: needed {error.needed}")
        try:
            check_is_fitted(model, "dual_coef_")
        except NotFittedError:
            return
        raise AssertionError(f"{study.estimator!r}: fitted although refused") from None
    require(peak < 3e5, f"{study.estimator!r}: used {peak} bytes of a budget of 2000")


def _peak(work: Callable[[], Any], budget: int) -> int:
    tracemalloc.start()
    try:
        with config(memory=budget):
            work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _ridge_residual(study: Study, model: Any) -> float:
    """Return ‖W(y − f − b) − αa‖/‖Wy‖, the stationarity of the penalised squares."""
    targets = model.y_fit_
    weights = np.ones(len(targets)) if model.sample_weight_ is None else model.sample_weight_
    K = study.rows(study.train) if study.precomputed else model.kernel_(study.rows(study.train))
    a = np.reshape(model.dual_coef_, (len(targets), -1))
    error = targets - K @ a - np.atleast_1d(model.intercept_)
    W = weights[:, None]
    gap = np.linalg.norm(W * error - model.alpha_ * a, axis=0)
    return float((gap / np.linalg.norm(W * targets, axis=0)).max())


#: Class → function(study, fitted model): the optimality residual, recomputed from scratch.
CERTIFICATES: dict[type, Callable[[Study, Any], float]] = {
    mm.KernelRidge: _ridge_residual,
    mm.KernelRidgeClassifier: _ridge_residual,
}


def law_certificate(study: Study) -> None:
    """solution_ tells the truth: the residual recomputed from the data is as small as it says."""
    model = study.fit()
    if not hasattr(model, "solution_"):
        return
    solution = model.solution_
    require(solution.converged, f"{model!r}: not converged on easy data: {solution.message}")
    if solution.gap is not None:
        require(solution.gap >= 0, f"{model!r}: duality gap {solution.gap} < 0")
        gap = solution.primal - solution.dual
        limit = 1e-9 * max(1.0, abs(solution.primal))
        require(abs(gap - solution.gap) <= limit, f"{model!r}: primal − dual is {gap}")
    if type(model) in CERTIFICATES:
        true = CERTIFICATES[type(model)](study, model)
        said = float(solution.residual)
        require(
            true <= 10 * said + 1e-10, f"{model!r}: says {said:.3g}, the residual is {true:.3g}"
        )


def law_copies(study: Study) -> None:
    """A pickled model answers with the same bits; a clone has the parameters, nothing learned."""
    model = study.fit()
    expected = study.output(model)
    again = pickle.loads(pickle.dumps(model))
    agree(study.output(again), expected, 0, f"{model!r}: pickled", bitwise=True)
    fresh = clone(model)
    require(repr(fresh) == repr(study.estimator), f"{model!r}: its clone is {fresh!r}")
    learned = [name for name in getattr(model, "_learned", ()) if name in vars(fresh)]
    require(not learned, f"{model!r}: the clone has {learned}")


def law_learned_state(study: Study) -> None:
    """Every learned attribute is declared in `_learned`, so that a model file holds all of it."""
    model = study.fit()
    declared = set(getattr(model, "_learned", ()))
    learned = {n for n in vars(model) if n.endswith("_") and not n.startswith("_")}
    require(declared, f"{model!r}: declares no learned state")
    require(learned <= declared, f"{model!r}: {sorted(learned - declared)} are not in _learned")


def law_file(study: Study) -> None:
    """Saved and loaded, a model answers with the same bits, and so it does when saved again."""
    model = study.fit()
    expected = study.output(model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mercer"
        save(model, path)
        again = load(path)
        require(type(again) is type(model), f"{model!r}: loaded as {type(again).__name__}")
        require(repr(again) == repr(model), f"{model!r}: loaded as {again!r}")
        agree(study.output(again), expected, 0, f"{model!r}: loaded", bitwise=True)
        other = Path(folder) / "again.mercer"
        save(again, other)
        require(other.read_bytes() == path.read_bytes(), f"{model!r}: saved again, other bytes")


def law_function(study: Study) -> None:
    """function_ is the solution: its values are the model's."""
    model = study.fit()
    if not isinstance(model, mm.KernelEstimator):
        return
    values = model.function_(study.rows(study.new, study.train))
    got = np.reshape(values, study.output(model).shape)
    agree(got, study.output(model), 1e-8, f"{model!r}: function_ ≠ its answers")


def law_inputs(study: Study) -> None:
    """Data may be read-only, and are left as they were."""
    X, y = np.array(study.rows(study.train)), np.array(study.y[study.train])
    new = np.array(study.rows(study.new, study.train))
    w = study.rng.uniform(0.5, 2, len(y))
    inputs = [X, y, new, w]
    before = [a.copy() for a in inputs]
    for a in inputs:
        a.setflags(write=False)
    model = clone(study.estimator).fit(X, y, sample_weight=w)
    study._answer(model)(new)
    for a, b in zip(inputs, before, strict=True):
        agree(a, b, 0, f"{model!r}: an input was changed", bitwise=True)


_LAWS = (
    law_weights,
    law_permutation,
    law_repeatable,
    law_threads,
    law_precomputed,
    law_memory,
    law_certificate,
    law_copies,
    law_learned_state,
    law_file,
    law_function,
    law_inputs,
)


def estimator_laws() -> list[tuple[str, Callable[..., None]]]:
    """Return (name, function) for each law; ``function(estimator, X=None, y=None, rng=0)``."""
    return [(law.__name__.removeprefix("law_"), _studied(law)) for law in _LAWS]


def _studied(law: Callable[[Study], None]) -> Callable[..., None]:
    def run(estimator: Any, X: Any = None, y: Any = None, rng: Any = 0) -> None:
        law(Study(estimator, X, y, rng))

    run.__name__, run.__doc__ = law.__name__, law.__doc__
    return run


def check_estimator_laws(estimator: Any, X: Any = None, y: Any = None, rng: Any = 0) -> None:
    """Raise AssertionError, naming the law, unless an estimator obeys every law.

    The laws: weight = repetition, order of rows, same bits twice, threads, precomputed = kernel,
    memory inside the budget, certificate recomputed, pickle and clone, declared learned state,
    model file, `function_`, inputs left alone. scikit-learn's ``check_estimator`` is the other
    half.

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
    for name, law in estimator_laws():
        try:
            law(estimator, X, y, rng)
        except AssertionError as error:
            raise AssertionError(f"law {name!r} is broken. {error}") from error
