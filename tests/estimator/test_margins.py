"""The geometric margin of every classifier with a function of its training points."""

from functools import partial

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier

import mercer
from mercer import (
    RBF,
    GaussianProcessClassifier,
    KernelERM,
    KernelLogisticRegression,
    KernelPerceptron,
    KernelRidgeClassifier,
    Linear,
    NearestBarycentre,
    TableClassifier,
)

MODELS = [
    KernelRidgeClassifier(RBF(1.0), 0.1),
    KernelRidgeClassifier(RBF(1.0), 0.1, fit_intercept=False),
    KernelERM(RBF(1.0), "hinge", 0.1),
    KernelERM(RBF(1.0), "squared_hinge", 0.1),
    KernelERM(RBF(1.0), "logistic", 0.1),
    KernelLogisticRegression(RBF(1.0), 0.1),
    GaussianProcessClassifier(RBF(1.0), optimizer=None),
    NearestBarycentre(RBF(1.0)),
]


def data(classes, seed=0):
    rng = np.random.default_rng(seed)
    centres = 4.0 * rng.standard_normal((classes, 2))
    y = np.arange(60) % classes
    return centres[y] + rng.standard_normal((60, 2)), y


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_it_is_the_least_distance_to_another_class(model, classes):
    X, y = data(classes)
    model = clone(model).fit(X, y)
    values, f = model.decision_function(X), model.function_
    if classes == 2:
        want = ((2 * y - 1) * values).min() / f.norm()
    else:
        K = model.kernel_(f.points)
        want = np.inf
        for i, c in enumerate(y):
            for d in set(range(classes)) - {c}:
                a = f.coef[:, c] - f.coef[:, d]
                want = min(want, (values[i, c] - values[i, d]) / np.sqrt(a @ K @ a))
    assert model.margin_ == pytest.approx(want, rel=1e-8)
    assert (model.margin_ > 0) == (model.score(X, y) == 1)


def test_no_margin_is_wider_than_that_of_the_hard_machine():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((50, 2))
    y = (X[:, 0] > 0).astype(int)
    X[:, 0] += 2.0 * (2 * y - 1)
    widest = mercer.SVC("linear", np.inf).fit(X, y).margin_
    plain = [clone(m).set_params(kernel=Linear()) for m in MODELS]
    found = [m.fit(X, y).margin_ for m in (*plain, KernelPerceptron("linear"))]
    assert max(found) <= widest * (1 + 1e-9) and max(found) > 0.9 * widest
    # the plane of the hard machine has its own
    near = KernelERM("linear", "hinge", 1e-6).fit(X, y)
    assert near.margin_ == pytest.approx(widest, rel=1e-4)


def test_rows_of_weight_0_do_not_count():
    X, y = data(3)
    w = np.ones(60)
    w[::7] = 0
    for model in (KernelRidgeClassifier(), KernelERM("rbf", "hinge"), NearestBarycentre()):
        model = model.fit(X, y, sample_weight=w)
        kept = clone(model).set_params(kernel=model.kernel_).fit(X[w > 0], y[w > 0])
        assert model.margin_ == pytest.approx(kept.margin_, rel=1e-6)


NEEDED = {"BayesRule": {"densities": [norm(0, 1), norm(1, 1)]}, "KernelERM": {"loss": "hinge"}}
PUBLIC = {
    thing
    for module in (mercer, mercer.models, mercer.selection)
    for thing in map(partial(getattr, module), module.__all__)
    if isinstance(thing, type)
    and issubclass(thing, BaseEstimator)
    and hasattr(thing, "decision_function")
    and is_classifier(thing(**NEEDED.get(thing.__name__, {})))
}
REASONS = {
    "BayesRule": "no functions of an RKHS",
    "FeatureMachineClassifier": "mean of functions in the RKHS",
    "KernelMachine": "keeps prototypes",
    "L1VM": "keeps prototypes",
    "L1VMClassifier": "keeps prototypes",
    "TableClassifier": "mean of several members",
}


@pytest.mark.filterwarnings("ignore::mercer.errors.NotConverged")
@pytest.mark.parametrize("cls", sorted(PUBLIC, key=lambda c: c.__name__))
def test_every_classifier_has_a_margin_or_the_reason_why_not(cls):
    X, y = data(2)
    model = cls(**NEEDED.get(cls.__name__, {}))
    if cls.__name__ != "FeatureMachineClassifier":  # it has none, fitted or not
        model.fit(X, y)
    if cls.__name__ in REASONS:
        with pytest.raises(AttributeError, match=f"^{cls.__name__}.*{REASONS[cls.__name__]}"):
            model.margin_  # noqa: B018
        return
    # those of support vectors have that of their planes, which points may be inside of
    least = ((2 * y - 1) * model.decision_function(X)).min() / model.function_.norm()
    inner = getattr(model, "model_", model)
    if isinstance(inner, mercer.SVC | mercer.NuSVC):
        assert model.margin_ == inner.margin_ > 0
    else:
        assert model.margin_ == pytest.approx(least, rel=1e-8)


@pytest.mark.parametrize("inside", ["ridge", "svc"])
def test_a_table_classifier_has_the_function_of_its_model(inside):
    X, y = data(2)
    model = TableClassifier("rbf", model=inside)
    assert not hasattr(model, "function_")
    values = model.fit(X, y).decision_function(X)
    np.testing.assert_allclose(model.function_(model.encode(X)), values, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(model.margin_, model.model_.margin_)


def test_where_there_is_none_the_reason_is_told():
    X, y = data(2)
    with pytest.raises(AttributeError, match="a loss of regression"):
        KernelERM("rbf", "squared").fit(X, y).margin_  # noqa: B018
    with pytest.raises(AttributeError, match="precomputed kernel"):
        KernelRidgeClassifier("precomputed").fit(X @ X.T, y).margin_  # noqa: B018
    model = KernelRidgeClassifier(solver="falkon", n_centers=9).fit(X, y)
    with pytest.raises(AttributeError, match="fit keeps centres"):
        model.margin_  # noqa: B018
    for machine in (mercer.L1VM(loss="squared"), mercer.KernelMachine(estimator=Ridge())):
        with pytest.raises(AttributeError, match=r"loss of regression|of a classifier"):
            machine.fit(X, y).margin_  # noqa: B018
    with pytest.raises(AttributeError, match="KNeighborsClassifier has no coef_"):
        mercer.KernelMachine(estimator=KNeighborsClassifier()).fit(X, y).margin_  # noqa: B018
    lone = (KernelRidgeClassifier(), KernelERM(), NearestBarycentre(), TableClassifier())
    for model in (*lone, mercer.L1VM(), mercer.KernelMachine()):
        assert not hasattr(model, "margin_")


NO_FUNCTION = [
    mercer.KernelNeighborsClassifier(),
    mercer.KernelNeighborsRegressor(),
    mercer.NadarayaWatson(1.0),
    mercer.NadarayaWatsonClassifier(1.0),
    mercer.KDEClassifier(),
]


@pytest.mark.parametrize("model", NO_FUNCTION, ids=lambda m: type(m).__name__)
def test_models_without_a_function_say_why(model):
    with pytest.raises(AttributeError, match=f"{type(model).__name__} has no function_: .*RKHS"):
        model.fit(*data(2)).function_  # noqa: B018


def test_a_mean_over_metrics_is_no_function():
    for machine in (
        mercer.models.FeatureMachineClassifier(),
        mercer.models.FeatureMachineRegressor(),
    ):
        with pytest.raises(AttributeError, match=r"has no function_: .*RKHS"):
            machine.function_  # noqa: B018
