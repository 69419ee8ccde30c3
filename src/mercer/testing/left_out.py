"""The law of leave-one-out: its verbs say of training rows what the others say of new ones."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from mercer.estimator.sample import choose_class
from mercer.models.margin.base import MarginMachine
from mercer.testing.checks import require
from mercer.testing.study import Study

__all__ = ["law_left_out"]


def law_left_out(study: Study) -> None:
    """Check that `loo` returns what `predict` returns, and its other verbs what theirs return."""
    model = study.fit()
    if not hasattr(model, "loo"):
        return
    rows = study.rows(study.train)
    predict = model.predict if hasattr(model, "predict") else model.score_samples
    said, predicted = _said(study, model, "loo", rows), np.asarray(predict(rows))
    require(
        said.shape == predicted.shape and said.dtype.kind == predicted.dtype.kind,
        f"{model!r}: loo returns {said.dtype} of shape {said.shape}, predict {predicted.dtype} of "
        f"shape {predicted.shape}",
    )
    if not is_classifier(model):
        return
    require(np.isin(said, model.classes_).all(), f"{model!r}: loo returns what is no class")
    if hasattr(model, "decision_function"):
        values = _said(study, model, "loo_decision_function", rows)
        shape = model.decision_function(rows).shape
        require(values.shape == shape, f"{model!r}: loo_decision_function has not shape {shape}")
        same = bool((choose_class(values, model.classes_) == said).all())
        require(same, f"{model!r}: loo and loo_decision_function choose other classes")
    if hasattr(model, "loo_proba"):
        shares = _said(study, model, "loo_proba", rows)
        sums = shares.min() >= 0 and np.allclose(shares.sum(axis=1), 1.0)
        require(sums, f"{model!r}: loo_proba returns what are no probabilities")
        same = bool((model.classes_[shares.argmax(axis=1)] == said).all())
        require(same, f"{model!r}: loo and loo_proba choose other classes")


def _said(study: Study, model: Any, verb: str, rows: Any) -> np.ndarray:
    """Return the answer of a verb, which is given the training points again if it takes them."""
    call = getattr(model, verb)
    asked = signature(call).parameters.get("X")
    said = np.asarray(call() if asked is None else call(rows))
    kept = not (study.precomputed or isinstance(model, MarginMachine))  # has it the points?
    if asked is not None and asked.default is None and kept:
        same = np.array_equal(np.asarray(call()), said)
        require(same, f"{model!r}: {verb} says something else when it is given the points again")
    return said
