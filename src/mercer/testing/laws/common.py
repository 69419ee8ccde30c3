"""Laws of estimators on points of every kind: order, weights, repetition, copies, Gram matrices."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path

import numpy as np
from sklearn.base import clone

from mercer.errors import InvalidInput
from mercer.estimator import KernelEstimator
from mercer.features import Prototypes
from mercer.io import load, save
from mercer.models import KernelMachine, SpectralClustering
from mercer.testing.checks import require
from mercer.testing.examples import EstimatorStudy, alike


def law_weights(study: EstimatorStudy) -> None:
    """A weight of 2 is the point given twice, and a weight of 0 the point left out."""
    if not study.takes_weights or not study.example.repeatable_weights:
        return
    weight = study.rng.integers(0, 4, len(study.train))
    weight[:4] = 1  # every class stays
    index = np.repeat(study.train, weight)
    weighted = study.answers(study.fit(sample_weight=weight.astype(float)))
    repeated = study.answers(study.fit(index), study.rows(study.new, index))
    alike(weighted, repeated, max(study.near, 1e-8), f"{study.estimator!r}: weight ≠ repetition")
    ones = study.answers(study.fit(sample_weight=np.ones(len(study.train))))
    plain = study.answers(study.fitted())
    alike(ones, plain, min(study.near, 1e-8), f"{study.estimator!r}: weights of 1")


#: Parameters that are set against sums of weights, or count rows.
ABSOLUTE = frozenset({"alpha", "C", "noise", "penalty", "n_neighbors", "max_iter", "estimator"})


def law_relative_weights(study: EstimatorStudy) -> None:
    """All weights times a number change nothing, unless a parameter is set against their sum.

    A penalty is, and so is a rule for bandwidths, which counts rows. Copies of a row are neighbours
    of one another in a graph, and no row is its own.
    """
    params = study.estimator.get_params(deep=False)
    if not study.takes_weights or ABSOLUTE & set(params):
        return
    if isinstance(study.estimator, SpectralClustering):
        return
    if params.get("bandwidth") in ("scott", "silverman"):
        return
    weights = study.rng.uniform(0.5, 2.0, len(study.train))
    expected = study.answers(study.fit(sample_weight=weights))
    for factor in (1e-3, 1.01, 8.0):
        got = study.answers(study.fit(sample_weight=factor * weights))
        message = f"{study.estimator!r}: all weights times {factor}"
        alike(got, expected, max(study.near, 1e-6), message)


def law_order(study: EstimatorStudy) -> None:
    """The order of the training points does not matter, unless the method is one of order."""
    if not study.example.any_order:
        return
    order = study.rng.permutation(len(study.train))
    index = study.train[order]
    expected, got = study.fitted(), study.fit(index)
    message = f"{study.estimator!r}: training points in another order"
    said = study.answers(got, study.rows(study.new, index))
    alike(said, study.answers(expected), study.near, message)
    if hasattr(expected, "labels_"):
        same = _partition(got.labels_) == _partition(expected.labels_[order])
        require(same, f"{message}: other clusters")


def _partition(labels: np.ndarray) -> frozenset:
    return frozenset(frozenset(np.flatnonzero(labels == c).tolist()) for c in np.unique(labels))


def law_repeatable(study: EstimatorStudy) -> None:
    """The same points and random_state give the same bits, also after another fit."""
    expected = study.sayings(study.fitted())
    alike(study.sayings(study.fit()), expected, 0, f"{study.estimator!r}: fitted again")
    used = study.fit(study.train[2:])
    alike(study.sayings(study.fit(model=used)), expected, 0, f"{study.estimator!r}: fitted anew")


def law_pickled(study: EstimatorStudy) -> None:
    """A pickled model answers with the same bits."""
    model = study.fitted()
    again = pickle.loads(pickle.dumps(model))
    alike(study.sayings(again), study.sayings(model), 0, f"{model!r}: pickled")


def law_file(study: EstimatorStudy) -> None:
    """Saved and loaded, a model answers with the same bits, and so it does when saved again."""
    model = study.fitted()
    with tempfile.TemporaryDirectory() as folder:
        path, other = Path(folder) / "model.mercer", Path(folder) / "again.mercer"
        try:
            save(model, path)
        except InvalidInput as error:
            raise AssertionError(f"{model!r}: {error}") from error
        again = load(path)
        require(type(again) is type(model), f"{model!r}: loaded as {type(again).__name__}")
        require(repr(again) == repr(model), f"{model!r}: loaded as {again!r}")
        alike(study.sayings(again), study.sayings(model), 0, f"{model!r}: saved and loaded")
        save(again, other)
        require(other.read_bytes() == path.read_bytes(), f"{model!r}: saved again, other bytes")


def law_precomputed(study: EstimatorStudy) -> None:
    """Given the Gram matrix, an estimator says what it says given the points."""
    if study.precomputed or not isinstance(
        study.estimator, KernelEstimator | Prototypes | KernelMachine
    ):
        return
    if getattr(study.estimator, "mean", None) == "linear":  # a function of points
        return
    fitted, rows = study.fitted(), study.rows(study.train)
    model = clone(study.estimator)
    if getattr(model, "optimizer", None) is not None:  # judge the kernel that was found
        model.set_params(optimizer=None)
        if hasattr(fitted, "noise_"):
            model.set_params(noise=fitted.noise_)
    kernel = fitted.kernel_
    model.set_params(kernel="precomputed")
    study.fit(rows=kernel(rows), model=model)
    got = study.sayings(model, kernel(study.rows(study.new), rows))
    # What needs k(x, x) of new points is not asked of a matrix of values with training points.
    expected = {name: values for name, values in study.sayings(fitted).items() if name in got}
    alike(got, expected, max(study.near, 1e-8), f"{study.estimator!r}: precomputed ≠ kernel")
