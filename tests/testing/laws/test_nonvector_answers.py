"""Laws of what models on strings say, and of their targets, are broken on purpose."""

import numpy as np
import pytest

from mercer import models
from mercer.testing import EstimatorExample, check_nonvector_estimator
from tests.testing.strings_to_learn import KERNEL, LAWS, SIDE, N, Regressor, strings


class Classifier(models.SVC):
    def __init__(self, kernel="rbf", C=1.0, class_weight=None):
        super().__init__(kernel, C, class_weight=class_weight)


# -------------------------------------------------------------------------------- targets
class DoublesWholeNumbers(Regressor):
    def fit(self, X, y, sample_weight=None):
        y = np.asarray(y)
        return super().fit(X, 2 * y if y.dtype.kind == "i" else y, sample_weight)


class TakesNaN(Regressor):
    def fit(self, X, y, sample_weight=None):
        y = np.asarray(y)
        return super().fit(X, np.nan_to_num(y) if y.dtype.kind == "f" else y, sample_weight)


class FirstColumn(Classifier):
    def fit(self, X, y, sample_weight=None):
        y = np.asarray(y)
        return super().fit(X, y[:, 0] if y.ndim == 2 else y, sample_weight)


class SecondColumn(Classifier):
    def fit(self, X, y, sample_weight=None):
        y = np.asarray(y)
        return super().fit(X, y[:, 1] if y.shape[1:] == (2,) else y, sample_weight)


class Decides(Regressor):
    def decision_function(self, X):
        return self.predict(X)


class SaysNumbers(Classifier):
    def predict(self, X):
        return np.searchsorted(self.classes_, super().predict(X))


class HidesItsClasses(Classifier):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.classes_ = self.classes_.astype(object)
        return self


class StumblesOverOneClass(Classifier):
    def fit(self, X, y, sample_weight=None):
        if np.size(y) and np.ndim(y) == 1 and (np.asarray(y) == np.asarray(y)[0]).all():
            raise ValueError("list index out of range")
        return super().fit(X, y, sample_weight)


class RoundsTargets(Classifier):
    def fit(self, X, y, sample_weight=None):
        y = np.asarray(y)
        return super().fit(X, y.round() if y.dtype.kind == "f" else y, sample_weight)


class HalvesClassWeights(Classifier):
    def fit(self, X, y, sample_weight=None):
        given = self.class_weight
        if isinstance(given, dict):
            self.class_weight = {name: weight**0.5 for name, weight in given.items()}
        super().fit(X, y, sample_weight)
        self.class_weight = given
        return self


class OnlyTwo(Classifier):
    def decision_function(self, X):
        values = super().decision_function(X)
        return values[:, :2] if values.ndim == 2 else values


# -------------------------------------------------------------------------------- answers
class Opposite(Classifier):
    def predict(self, X):
        first = super().predict(X) == self.classes_[0]
        return self.classes_[first.astype(int)]


class Chances(models.KernelLogisticRegression):
    def __init__(self, kernel="rbf", alpha=1.0):
        super().__init__(kernel, alpha)


class NegativeChances(Chances):
    def predict_proba(self, X):
        P = super().predict_proba(X)
        return np.column_stack([2 * P[:, 0] - 0.5, *(P[:, 1:] + 0.5 - P[:, :1]).T])


class ChancesOfMoreThanOne(Chances):
    def predict_proba(self, X):
        return 1.1 * super().predict_proba(X)


class ChancesAgainst(Chances):
    def predict_proba(self, X):
        return super().predict_proba(X)[:, ::-1]


class ChancesOfTheRank(Chances):
    def predict_proba(self, X):
        P = super().predict_proba(X)
        far = np.abs(P - 0.5)  # what is far from even comes near, and what is near goes far
        return 0.5 + np.sign(P - 0.5) * (0.5 - far)

    def predict_log_proba(self, X):
        return np.log(self.predict_proba(X))


class LogsOfAnother(Chances):
    def predict_log_proba(self, X):
        return super().predict_log_proba(X) / 2


class AlwaysHalf(Regressor):
    def score(self, X, y, sample_weight=None):
        return 0.5


class IgnoresWeightsInScores(Classifier):
    def score(self, X, y, sample_weight=None):
        return super().score(X, y)


class ZeroAndOne(models.OneClassSVM):
    def __init__(self, kernel="rbf", nu=0.5):
        super().__init__(kernel, nu)

    def predict(self, X):
        return (super().predict(X) > 0).astype(int)


class OtherOffset(models.OneClassSVM):
    def __init__(self, kernel="rbf", nu=0.5):
        super().__init__(kernel, nu)

    def score_samples(self, X):
        return super().score_samples(X) + 1.0


class FromSeven(models.KernelKMeans):
    def __init__(self, n_clusters=2, kernel="rbf", random_state=None):
        super().__init__(n_clusters, kernel, random_state=random_state)

    def predict(self, X):
        return super().predict(X) + 7


class Blind(Classifier):
    def decision_function(self, X):
        return 0 * super().decision_function(X)

    def predict(self, X):
        return np.repeat(self.classes_[:1], len(X))


class OneCluster(models.SpectralClustering):
    def __init__(self, n_clusters=2, kernel="rbf", random_state=None):
        super().__init__(n_clusters, kernel, random_state=random_state)

    def fit(self, X, y=None, sample_weight=None):
        super().fit(X, sample_weight=sample_weight)
        self.labels_ = 0 * self.labels_
        return self


class Constant(Regressor):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.dual_coef_ = 0 * self.dual_coef_
        return self


#: Law, model, words of the complaint; the first of each law is sent through the whole battery too.
BROKEN = [
    ("targets", DoublesWholeNumbers, "whole numbers as targets"),
    ("targets", TakesNaN, "y has nan is not refused"),
    ("targets", FirstColumn, "no DataConversionWarning"),
    ("targets", SecondColumn, "two columns is not refused"),
    ("targets", Decides, "a regressor with decision_function"),
    ("labels", SaysNumbers, "no labels of y"),
    ("labels", HidesItsClasses, "classes_ is"),
    ("labels", StumblesOverOneClass, "of one class: list index"),
    ("labels", RoundsTargets, "y has numbers is not refused"),
    ("labels", HalvesClassWeights, "class_weight ≠ sample_weight"),
    ("labels", OnlyTwo, r"shape \(5, 2\)"),
    ("answers", Opposite, "not the largest of decision_function"),
    ("answers", NegativeChances, "negative"),
    ("answers", ChancesOfMoreThanOne, "sums of probabilities"),
    ("answers", ChancesAgainst, "not the largest of predict_proba"),
    ("answers", ChancesOfTheRank, "predict_proba falls"),
    ("answers", LogsOfAnother, "predict_log_proba"),
    ("answers", AlwaysHalf, "the truth has the score 0.5"),
    ("answers", IgnoresWeightsInScores, "not the accuracy"),
    ("answers", ZeroAndOne, "legal are -1 and 1"),
    ("answers", OtherOffset, "offset_"),
    ("answers", FromSeven, "is not labels_"),
    ("learns", Blind, "of two points it says"),
    ("learns", OneCluster, "two points are the clusters"),
    ("learns", Constant, "of -1 and 1 it says 0 and 0"),
]
FIRST = {law: cls for law, cls, _ in reversed(BROKEN)}


def judged(cls):
    """Return an instance and its targets."""
    supervised = issubclass(cls, Regressor | Classifier | Chances)
    y = SIDE + 0.1 * np.arange(N) if issubclass(cls, Regressor) else np.array(["no", "yes"])[SIDE]
    example = EstimatorExample(cls.__name__, cls(kernel=KERNEL), any_order=cls is not FromSeven)
    return example, y if supervised else None


@pytest.mark.parametrize(
    ("law", "cls", "message"), BROKEN, ids=[f"{law}-{c.__name__}" for law, c, _ in BROKEN]
)
def test_a_broken_estimator_is_caught(law, cls, message):
    example, y = judged(cls)
    with pytest.raises(AssertionError, match=message):
        LAWS[law](example, strings(), y)
    if FIRST[law] is cls:
        with pytest.raises(AssertionError, match="law '"):
            check_nonvector_estimator(example, strings(), y)
