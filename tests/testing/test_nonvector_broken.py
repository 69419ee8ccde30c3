"""Every law of estimators on points that are not vectors can fail: models broken on purpose."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import mercer
from mercer import KernelRidge, models
from mercer.errors import InvalidInput
from mercer.kernels import Categorical, FromFunction
from mercer.testing import check_nonvector_estimator
from tests.testing.strings_to_learn import KERNEL, LAWS, SIDE, N, Regressor, strings


# ---------------------------------------------------------------------- what a fit may touch
class Doubles(Regressor):
    def fit(self, X, y, sample_weight=None):
        self.alpha = 2 * self.alpha
        return super().fit(X, y, sample_weight)


class Overwrites(Regressor):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        if isinstance(X, list):
            X[0] = X[1]
        return self


class WritesTheSame(Regressor):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        y[0] = y[0].copy()
        return self


@mercer.io.register
class Forgets(Regressor):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self._shift = 1.0
        return self

    def predict(self, X):
        return super().predict(X) + getattr(self, "_shift", 0.0)


class Ages(Regressor):
    fits = 0

    def fit(self, X, y, sample_weight=None):
        type(self).fits += 1
        super().fit(X, y, sample_weight)
        self.dual_coef_ = self.dual_coef_ * (1 + 1e-6 * self.fits)
        return self


class Centres(Regressor):
    def predict(self, X):
        values = super().predict(X)
        return values - values.mean()


class DropsTheLast(Regressor):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.dual_coef_ = np.append(self.dual_coef_[:-1], 0.0)
        return self


class IgnoresWeights(Regressor):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y)


class ArraysOnly(Regressor):
    def fit(self, X, y, sample_weight=None):
        if isinstance(sample_weight, list):
            raise TypeError("arrays only")
        return super().fit(X, y, sample_weight)


# ------------------------------------------------------------------- conventions and state
class SetsMore(Regressor):
    def __init__(self, kernel="rbf", alpha=1.0):
        super().__init__(kernel, alpha)
        self.extra = 3


class TakesNoTargets(models.KernelPCA):
    def __init__(self, n_components=2, kernel="rbf"):
        super().__init__(n_components, kernel)

    def fit(self, X):
        return super().fit(X)


class Remembers(Regressor):
    def predict(self, X):
        self.seen_ = len(X)
        return super().predict(X)


class AddsANote(Regressor):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.note = "fitted"
        return self


class AlwaysFitted(Regressor):
    def __sklearn_is_fitted__(self):
        return True


class CountsBelowZero(Regressor):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.n_iter_ = -5
        return self


# ------------------------------------------------------------------------------- refusals
class Guesses(Regressor):
    def predict(self, X):
        try:
            return super().predict(X)
        except NotFittedError:
            return np.zeros(len(X))


class TakesAnything(Regressor):
    def fit(self, X, y, sample_weight=None):
        if isinstance(X, list):
            X = [str(x) for x in X]
        return super().fit(X, y, sample_weight)


class LosesItsFit(Regressor):
    def fit(self, X, y, sample_weight=None):
        try:
            return super().fit(X, y, sample_weight)
        except InvalidInput:
            if hasattr(self, "dual_coef_"):
                self.dual_coef_ = 0 * self.dual_coef_
            raise


class Mute(Regressor):
    def fit(self, X, y, sample_weight=None):
        try:
            return super().fit(X, y, sample_weight)
        except InvalidInput:
            raise InvalidInput("wrong") from None


class NoWeightIsNaN(Regressor):
    def fit(self, X, y, sample_weight=None):
        weights = None if sample_weight is None else np.nan_to_num(sample_weight)
        return super().fit(X, y, weights)


class TakesAnyBatch(models.KernelPerceptron):
    def __init__(self, kernel="rbf"):
        super().__init__(kernel)

    def partial_fit(self, X, y, classes=None):
        if isinstance(X, list):
            X = [str(x) for x in X]
        return super().partial_fit(X, y, classes)


class NothingOfOne(Regressor):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        if len(X) == 1:
            self.dual_coef_ = self.dual_coef_ * np.nan
        return self

    def predict(self, X):
        return np.full(len(X), np.nan) if np.isnan(self.dual_coef_).any() else super().predict(X)


class StumblesOverOnePoint(Regressor):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        if len(X) == 1:
            raise ValueError("list index out of range")
        return self


class ListsOnly(Regressor):
    def fit(self, X, y, sample_weight=None):
        if not isinstance(X, list):
            raise TypeError("lists only")
        return super().fit(X, y, sample_weight)


class CountsColumns(Regressor):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.n_features_in_ = 1
        return self


class KnowsThePoints(Regressor):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        if self.kernel != "precomputed":
            self.dual_coef_ = 1.001 * self.dual_coef_
        return self


class FooledByMatrices(models.SpectralClustering):
    def __init__(self, n_clusters=2, kernel="rbf", random_state=None):
        super().__init__(n_clusters, kernel, random_state=random_state)

    def fit(self, X, y=None, sample_weight=None):
        super().fit(X, sample_weight=sample_weight)
        if self.kernel == "precomputed":
            self.labels_ = 1 - self.labels_
        return self


class NoScore(Regressor):
    def score(self, X, y, sample_weight=None):
        return float("nan")


#: Law, model, words of the complaint; the first of each law is sent through the whole battery too.
BROKEN = [
    ("parameters", Doubles, "replaced the parameter alpha"),
    ("inputs", Overwrites, "X was changed"),
    ("inputs", WritesTheSame, "read-only"),
    ("copies", Forgets, "saved and loaded"),
    ("repeatable", Ages, "fitted again"),
    ("subsets", Centres, "in two batches"),
    ("order", DropsTheLast, "in another order"),
    ("weights", IgnoresWeights, "weight ≠ repetition"),
    ("containers", ArraysOnly, "sample_weight as a list: TypeError"),
    ("conventions", SetsMore, "check_no_attributes_set_in_init"),
    ("conventions", TakesNoTargets, "has no y"),
    ("state", Remembers, r"questions changed \['seen_'\]"),
    ("state", AddsANote, r"fit added \['note'\]"),
    ("state", AlwaysFitted, "holds before a fit"),
    ("state", CountsBelowZero, "n_iter_ is -5"),
    ("not_fitted", Guesses, "answers before fit"),
    ("refusals", TakesAnything, "None inside is not refused"),
    ("refusals", LosesItsFit, "after fits that were refused"),
    ("refusals", Mute, "no owner"),
    ("refusals", NoWeightIsNaN, "NaN among the weights is not refused"),
    ("refusals", TakesAnyBatch, "partial_fit on points with None inside is not refused"),
    ("one_point", NothingOfOne, "predict is not finite"),
    ("one_point", StumblesOverOnePoint, "in words of nobody"),
    ("forms", ListsOnly, "a tuple is refused"),
    ("columns", CountsColumns, "have no columns"),
    ("precomputed", KnowsThePoints, "precomputed ≠ kernel"),
    ("precomputed", FooledByMatrices, "precomputed ≠ kernel, labels_"),
    ("selection", NoScore, "scores"),
]
FIRST = {law: cls for law, cls, _ in reversed(BROKEN)}


def judged(cls):
    """Return an instance and its targets."""
    supervised = issubclass(cls, Regressor | TakesAnyBatch)
    y = SIDE + 0.1 * np.arange(N) if issubclass(cls, Regressor) else np.array(["no", "yes"])[SIDE]
    return cls(kernel=KERNEL), y if supervised else None


def test_every_law_is_broken_by_someone():
    about_answers = {"targets", "labels", "answers", "learns"}  # test_nonvector_answers.py
    assert set(FIRST) == set(LAWS) - about_answers


@pytest.mark.parametrize(
    ("law", "cls", "message"), BROKEN, ids=[f"{law}-{c.__name__}" for law, c, _ in BROKEN]
)
def test_a_broken_estimator_is_caught(law, cls, message):
    model, y = judged(cls)
    with pytest.raises(AssertionError, match=message):
        LAWS[law](model, strings(), y)
    if FIRST[law] is cls:
        with pytest.raises(AssertionError, match="law '"):
            check_nonvector_estimator(model, strings(), y)


def test_columns_of_a_table_are_counted():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame({"sequence": strings(), "site": ["north", "south"] * 10})
    kernel = KERNEL.on("sequence") + Categorical().on("site")
    with pytest.raises(AssertionError, match="n_features_in_ is 1"):
        LAWS["columns"](CountsColumns(kernel), X)


class FillsCells(Regressor):
    def fit(self, X, y, sample_weight=None):
        return super().fit(filled(X), y, sample_weight)

    def predict(self, X):
        return super().predict(filled(X))


def filled(X):
    if isinstance(X, dict) and "sequence" in X:
        return X | {"sequence": [s or "" for s in X["sequence"]]}
    return X


def test_a_missing_cell_of_a_table_must_be_refused():
    X = {"sequence": strings(), "age": np.arange(20.0)}
    kernel = KERNEL.on("sequence") + mercer.RBF(5.0).on("age")
    LAWS["refusals"](Regressor(kernel), X)
    with pytest.raises(AssertionError, match="None in 'sequence' is not refused"):
        LAWS["refusals"](FillsCells(kernel), X)


def test_what_a_law_stumbles_over_is_said_with_its_name():
    unnamed = KernelRidge(FromFunction(lambda s, t: float(len(set(s) & set(t)))))
    with pytest.raises(AssertionError, match=r"law 'copies' is broken. KernelRidge.*pickle"):
        check_nonvector_estimator(unnamed, strings())

    class OtherType(models.SVC):
        def __init__(self, kernel="rbf"):
            super().__init__(kernel)

        def score(self, X, y, sample_weight=None):
            raise ValueError(f"numbers, not classes such as {y[0]}")

    with pytest.raises(AssertionError, match=r"OtherType.*ValueError: "):
        LAWS["selection"](OtherType(KERNEL), strings())
