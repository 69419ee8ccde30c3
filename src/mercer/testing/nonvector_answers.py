"""What fitted estimators say of points that are not vectors: their answers fit together."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.base import clone, is_classifier, is_clusterer, is_outlier_detector, is_regressor
from sklearn.metrics import accuracy_score
from sklearn.utils import get_tags

from mercer.testing.checks import agree, require
from mercer.testing.nonvector_study import NonvectorStudy

__all__ = ["LAWS"]

# Numbers nearer than this are a tie, which a model may break as it likes.
_TIE = 1e-8


def law_answers(study: NonvectorStudy) -> None:
    """Labels, values, probabilities, clusters and scores of one model agree with each other."""
    model = study.fit()
    everything = study.rows(np.arange(study.n))
    said = study.answers(model, everything)
    if is_classifier(model):
        _check_classifier(model, said, everything)
    elif is_outlier_detector(model):
        _check_outliers(study, model, said)
    elif is_regressor(model):
        got = said["predict"]
        numbers = got.dtype.kind == "f" and np.isfinite(got).all() and len(got) == study.n
        require(numbers, f"{model!r}: predict gives {got.dtype} of shape {got.shape}")
    if is_clusterer(model):
        _check_clusters(study, model)
    if study.supervised and hasattr(model, "score"):
        _check_score(study, model, everything, said["predict"])


def law_learns(study: NonvectorStudy) -> None:
    """Two points, six times each, are told apart."""
    pair = _far_apart(study)
    if pair is None:
        return
    index, two = np.repeat(pair, 6), study.rows(pair)
    model = clone(study.estimator)
    tags = get_tags(model)
    if is_classifier(model) and not tags.classifier_tags.poor_score:
        said = model.fit(study.rows(index), np.repeat(["first", "second"], 6)).predict(two)
        require(said.tolist() == ["first", "second"], f"{model!r}: of two points it says {said}")
    elif is_regressor(model) and not tags.regressor_tags.poor_score:
        y = np.repeat([-1.0, 1.0], 6)
        first, second = model.fit(study.rows(index), y).predict(two)
        score = model.score(study.rows(index), y)
        message = f"{model!r}: of -1 and 1 it says {first:.3g} and {second:.3g}, score {score:.3g}"
        require(np.all(first < second) and score > 0, message)
    elif is_clusterer(model) and "n_clusters" in model.get_params(deep=False):
        labels = model.set_params(n_clusters=2).fit(study.rows(index)).labels_
        apart = len(set(labels[:6])) == len(set(labels[6:])) == 1 and labels[0] != labels[6]
        require(apart, f"{model!r}: two points are the clusters {labels.tolist()}")
        said = model.predict(two) if hasattr(model, "predict") else labels[[0, 6]]
        require(np.array_equal(said, labels[[0, 6]]), f"{model!r}: of two points it says {said}")


# ---------------------------------------------------------------------------------------- parts
def _far_apart(study: NonvectorStudy) -> np.ndarray | None:
    """Return the training points of the largest distance, or None where all of them are alike."""
    kernel = study.kernel
    if kernel is None:
        return study.train[[0, -1]]
    rows = study.rows(study.train)
    K = np.asarray(kernel.fit_params(rows)(rows), dtype=float)
    squares = np.diag(K)[:, None] + np.diag(K) - 2 * K
    i, j = np.unravel_index(int(squares.argmax()), squares.shape)
    return study.train[[i, j]] if squares[i, j] > 0.1 * np.diag(K).max() else None


def _check_classifier(model: Any, said: dict[str, np.ndarray], X: Any) -> None:
    classes, labels = model.classes_, said["predict"]
    values, chances = said.get("decision_function"), said.get("predict_proba")
    if values is not None:
        two = len(classes) == 2
        shape = (len(labels),) if two else (len(labels), len(classes))
        require(values.shape == shape, f"{model!r}: decision_function has shape {values.shape}")
        values = np.column_stack([-values, values]) if two else values
        _check_largest(model, classes, labels, values, "decision_function")
    if chances is None:
        return
    require(chances.shape == (len(labels), len(classes)), f"{model!r}: predict_proba is no table")
    require((chances >= 0).all(), f"{model!r}: predict_proba has negative entries")
    agree(chances.sum(1), np.ones(len(labels)), 1e-9, f"{model!r}: sums of probabilities")
    _check_largest(model, classes, labels, chances, "predict_proba")
    if values is not None and len(classes) == 2:
        # Averaged over its uncertainty, a chance is not quite a function of the value.
        like = spearmanr(chances[:, 1].round(10), values[:, 1].round(10)).statistic
        require(not like < 0.8, f"{model!r}: predict_proba falls where decision_function rises")
    if hasattr(model, "predict_log_proba"):
        with np.errstate(divide="ignore"):
            logs = np.exp(model.predict_log_proba(X))
        agree(logs, chances, 1e-9, f"{model!r}: predict_log_proba")


def _check_largest(
    model: Any, classes: np.ndarray, labels: np.ndarray, values: np.ndarray, what: str
) -> None:
    """The label is the class of the largest value, where that is no tie."""
    low, high = np.sort(values, axis=1)[:, -2:].T
    clear = high - low > _TIE * max(1.0, float(np.abs(values).max()))
    same = labels[clear] == classes[values.argmax(1)][clear]
    require(same.all(), f"{model!r}: predict is not the largest of {what}")
    moves = len(values) < 2 or np.ptp(values, axis=0).max() > 0
    require(moves or len(set(labels)) == 1, f"{model!r}: {what} is the same for all points")


def _check_outliers(study: NonvectorStudy, model: Any, said: dict[str, np.ndarray]) -> None:
    labels, values = said["predict"], said["decision_function"]
    signs = labels.dtype.kind == "i" and set(labels.tolist()) <= {-1, 1}
    require(signs, f"{model!r}: predicts {sorted(set(labels.tolist()))}; legal are -1 and 1")
    clear = np.abs(values) > _TIE
    same = np.array_equal(labels[clear], np.where(values >= 0, 1, -1)[clear])
    require(same, f"{model!r}: predict is not the sign of decision_function")
    agree(
        values, said["score_samples"] - model.offset_, 1e-9, f"{model!r}: score_samples − offset_"
    )
    got = clone(study.estimator).fit_predict(study.rows(study.train))
    clear = clear[study.train]
    same = np.array_equal(got[clear], labels[study.train][clear])
    require(same, f"{model!r}: fit_predict is not fit and predict")


def _check_clusters(study: NonvectorStudy, model: Any) -> None:
    labels = np.asarray(model.labels_)
    require(labels.shape == study.train.shape, f"{model!r}: labels_ has shape {labels.shape}")
    require(labels.dtype.kind == "i", f"{model!r}: labels_ are {labels.dtype}, not whole numbers")
    known = np.unique(labels)
    first = int(known[0])
    rising = first in (-1, 0) and np.array_equal(known, np.arange(first, first + len(known)))
    require(rising, f"{model!r}: labels_ are {known.tolist()}; clusters are counted from 0")
    most = getattr(model, "n_clusters", None)
    if isinstance(most, int | np.integer):
        require(known[-1] < most, f"{model!r}: labels_ has more clusters than n_clusters")
    if hasattr(model, "predict"):
        # An extension to new points may see the border between two clusters a little otherwise.
        said = model.predict(study.rows(study.train))
        same = set(said.tolist()) <= {-1, *known.tolist()} and (said == labels).mean() > 0.5
        require(same, f"{model!r}: predict of the training points is not labels_")


def _check_score(study: NonvectorStudy, model: Any, X: Any, said: np.ndarray) -> None:
    """A classifier is judged by accuracy; of any regressor the truth scores 1, and less is less."""
    if is_classifier(model):
        y = study.rng.permutation(study.targets(np.arange(study.n)))  # some of them wrong
        weights = study.rng.uniform(0.5, 2.0, study.n)
        for extra in ({}, {"sample_weight": weights}):
            got, expected = model.score(X, y, **extra), accuracy_score(y, said, **extra)
            agree(got, expected, 1e-12, f"{model!r}: score is not the accuracy")
    elif said.ndim == 1 and np.ptp(said) > 0:
        right, wrong = model.score(X, said), model.score(X, said[::-1] + np.arange(len(said)))
        right_and_wrong = abs(right - 1) < 1e-9 and wrong < right
        message = f"{model!r}: the truth has the score {right:.3g}, something else {wrong:.3g}"
        require(right_and_wrong, message)


LAWS = (law_answers, law_learns)
