"""The geometric margin of every classifier with a function of its training points."""

import numpy as np
import pytest
from sklearn.base import clone

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


def test_where_there_is_none_the_reason_is_told():
    X, y = data(2)
    with pytest.raises(AttributeError, match="a loss of regression"):
        KernelERM("rbf", "squared").fit(X, y).margin_  # noqa: B018
    with pytest.raises(AttributeError, match="precomputed kernel"):
        KernelRidgeClassifier("precomputed").fit(X @ X.T, y).margin_  # noqa: B018
    model = KernelRidgeClassifier(solver="falkon", n_centers=9).fit(X, y)
    with pytest.raises(AttributeError, match="fit keeps centres"):
        model.margin_  # noqa: B018
    for lone in (KernelRidgeClassifier(), KernelERM(), NearestBarycentre()):
        assert not hasattr(lone, "margin_")


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
