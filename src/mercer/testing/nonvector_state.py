"""What estimators hold: conventions of their classes, and state that only a fit may change."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from mercer.testing.checks import require
from mercer.testing.nonvector_study import NonvectorStudy, alike

__all__ = ["LAWS"]

#: Checks of scikit-learn that ask for no data, so that they judge kernels on any points.
_WITHOUT_DATA = (
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
)


def law_conventions(study: NonvectorStudy) -> None:
    """The checks of scikit-learn that ask for no data hold; y is the second argument everywhere."""
    from sklearn.utils import estimator_checks  # heavy, and needed here only

    model, name = study.given, type(study.given).__name__
    for check in _WITHOUT_DATA:
        run = getattr(estimator_checks, check, None)  # an older release has not all of them
        try:
            run(name, clone(model)) if run else None
        except Exception as error:
            raise AssertionError(f"{model!r}: scikit-learn's {check}: {error}") from error
    tags = get_tags(model)
    for kind, said in (("classifier", is_classifier(model)), ("regressor", is_regressor(model))):
        told = getattr(tags, f"{kind}_tags") is not None
        require(told or not said, f"{model!r}: a {kind} without {kind}_tags")
    for method in ("fit", "score", "partial_fit", "fit_predict", "fit_transform"):
        names = list(signature(getattr(model, method, law_conventions)).parameters)
        names = [n for n in names if n != "self"]  # available_if makes functions of methods
        second = names[1] if len(names) > 1 else None
        require(
            second in ("y", "Y") or not hasattr(model, method),
            f"{model!r}: {method}{tuple(names)} has no y as its second argument",
        )


def law_state(study: NonvectorStudy) -> None:
    """A fit alone changes a model, and what it adds ends in an underscore."""
    model = clone(study.estimator)
    before = set(vars(model))
    if get_tags(model).requires_fit:
        require(not _is_fitted(model), f"{model!r}: check_is_fitted holds before a fit")
    study.fit(model=model)
    require(_is_fitted(model), f"{model!r}: check_is_fitted fails after a fit")
    public = {n for n in vars(model) if not n.startswith("_") and not n.endswith("_")}
    added = sorted(public - before)
    require(not added, f"{model!r}: fit added {added}; what is learned ends in an underscore")
    _check_iterations(model)
    known = dict(vars(model))
    expected = study.answers(model)
    if hasattr(model, "score"):
        model.score(study.rows(study.new), study.targets(study.new))
    now = vars(model)
    other = sorted(n for n in known.keys() | now.keys() if known.get(n) is not now.get(n))
    require(not other, f"{model!r}: questions changed {other}")
    alike(study.answers(model), expected, 0, f"{model!r}: asked again")


def _is_fitted(model: Any) -> bool:
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def _check_iterations(model: Any) -> None:
    limited = "max_iter" in model.get_params(deep=False)
    count = getattr(model, "n_iter_", None)
    # A transformer may find its answer in a single step, whatever max_iter allows.
    counts = not limited or hasattr(model, "transform") or count is not None
    require(counts, f"{model!r}: max_iter without n_iter_")
    if count is not None:
        count = np.asarray(count)
        whole = count.dtype.kind in "iu" and (count >= (1 if limited else 0)).all()
        require(whole, f"{model!r}: n_iter_ is {count}; rounds are counted from 1")


LAWS = (law_conventions, law_state)
