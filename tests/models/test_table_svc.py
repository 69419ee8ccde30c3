"""TableClassifier with model="svc": the SVC inside, files, and what it cannot do."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import mercer
from mercer import SVC, KernelRidgeClassifier, TableClassifier
from mercer.datasets import load_wine_table
from mercer.errors import InvalidInput, ModelFileError
from mercer.testing import check_estimator_laws

TABLE, GROWER = load_wine_table()


def test_it_is_svc_on_encoded_rows():
    model = TableClassifier("rbf", model="svc", C=3.0).fit(TABLE, GROWER)
    assert type(model.model_) is SVC
    inside = SVC("rbf", 3.0).fit(model.encode(TABLE), GROWER)
    np.testing.assert_array_equal(
        inside.decision_function(model.encode(TABLE)), model.decision_function(TABLE)
    )
    assert list(model.classes_) == list(inside.classes_)
    assert model.score(TABLE, GROWER) > 0.95
    assert cross_val_score(clone(model), model.encode(TABLE), GROWER).mean() > 0.9


def test_probabilities_and_leave_one_out_exist_where_they_can():
    plain = TableClassifier("rbf", model="svc").fit(TABLE, GROWER)
    assert not hasattr(plain, "predict_proba") and not hasattr(plain, "loo")
    sure = TableClassifier("rbf", model="svc", probability=True).fit(TABLE, GROWER)
    P = sure.predict_proba(TABLE)
    np.testing.assert_array_equal(sure.classes_[P.argmax(1)], sure.predict(TABLE))
    ridge = TableClassifier("rbf", probability=True).fit(TABLE, GROWER)
    assert not hasattr(ridge, "predict_proba") and len(ridge.loo()) == 178
    assert type(ridge.model_) is KernelRidgeClassifier
    with pytest.raises(AttributeError):
        _ = plain.alpha_


def test_weights_and_class_weights_reach_the_model():
    w = np.where(GROWER == "grower 1", 5.0, 1.0)
    model = TableClassifier(mercer.RBF(3.0), model="svc").fit(TABLE, GROWER, sample_weight=w)
    Z = model.encode(TABLE)
    inside = SVC(mercer.RBF(3.0)).fit(Z, GROWER, sample_weight=w)
    np.testing.assert_array_equal(model.model_.dual_coef_, inside.dual_coef_)
    even = TableClassifier(mercer.RBF(3.0), model="svc", class_weight="balanced")
    even.fit(TABLE, GROWER)
    inside = SVC(mercer.RBF(3.0), class_weight="balanced").fit(even.encode(TABLE), GROWER)
    np.testing.assert_array_equal(even.model_.dual_coef_, inside.dual_coef_)


def test_files(tmp_path):
    model = TableClassifier("rbf", model="svc", probability=True).fit(TABLE, GROWER)
    mercer.save(model, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.predict_proba(TABLE), model.predict_proba(TABLE))
    again.model = "ridge"  # says one model and holds another
    with pytest.raises(ModelFileError):
        again._check_state()


def test_laws():
    check_estimator_laws(TableClassifier(mercer.RBF(1.5), model="svc"))


@pytest.mark.parametrize("bad", ["svm", 3])
def test_refusals(bad):
    with pytest.raises(InvalidInput, match="svc"):
        TableClassifier(model=bad).fit(TABLE, GROWER)
    with pytest.raises(InvalidInput, match="C="):
        TableClassifier("rbf", model="svc", C=-1.0).fit(TABLE, GROWER)
