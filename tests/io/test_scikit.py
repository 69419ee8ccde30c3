"""The laws of the table of scikit-learn classes: each entry has its example here."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    Ridge,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KernelCenterer,
    LabelEncoder,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC, LinearSVR

from mercer.errors import InvalidInput, ModelFileError
from mercer.io import load, registry, save
from mercer.models import KernelRidge, KernelRidgeClassifier

rng = np.random.default_rng(0)
X = np.abs(rng.normal(size=(12, 3))) + 0.1
HOLES = np.where(rng.random(X.shape) < 0.2, np.nan, X)
FRAME = pd.DataFrame(
    {
        "age": [1.0, 2.0, np.nan, 4.0, 5.0, 6.0],
        "site": ["x", "y", "x", "z", "x", None],
        "n": [1, 2, 3, 4, 5, 6],
    }
)
TARGET = np.array([0.0, 1.0, 0.5, 2.0, 1.5, 3.0])


def columns(remainder="passthrough"):
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    text = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    parts = [("numbers", numbers, ["age"]), ("text", text, ["site"])]
    return ColumnTransformer(parts, remainder=remainder)


EXAMPLES = [
    (Binarizer(threshold=0.5), X),
    (FunctionTransformer(), X),
    (KernelCenterer(), X @ X.T),
    (LabelEncoder(), np.array(["b", "a", "c", "a"])),
    (LabelEncoder(), np.array([3, 1, 2])),
    (MaxAbsScaler(), X),
    (MinMaxScaler(feature_range=(-1, 1)), X),
    (Normalizer("l1"), X),
    (OneHotEncoder(), FRAME[["site"]]),
    (OneHotEncoder(sparse_output=False, drop="first", dtype=np.float32), FRAME[["n"]]),
    (OneHotEncoder(min_frequency=2, handle_unknown="infrequent_if_exist"), FRAME[["site"]]),
    (OrdinalEncoder(), FRAME[["site", "n"]]),
    (OrdinalEncoder(min_frequency=2, dtype=int, encoded_missing_value=-1), FRAME[["site"]]),
    (PolynomialFeatures(3, interaction_only=True), X),
    (PowerTransformer(), X),
    (PowerTransformer("box-cox", standardize=False), X),
    (QuantileTransformer(n_quantiles=5), X),
    (RobustScaler(), X),
    (StandardScaler(), X),
    (StandardScaler(with_mean=False), X.astype(np.float32)),
    (StandardScaler(), HOLES),
    (StandardScaler().set_output(transform="pandas"), FRAME[["n"]]),
    (MissingIndicator(), HOLES),
    (SimpleImputer(), HOLES),
    (SimpleImputer(strategy="most_frequent", add_indicator=True), HOLES),
    (SimpleImputer(strategy="constant", fill_value=-1.0), HOLES),
    (PCA(2, whiten=True), X),
    (PCA(2, svd_solver="randomized", random_state=0), X),
    (TruncatedSVD(2, random_state=0), X),
    (VarianceThreshold(0.01), X),
    (TfidfTransformer(), X.round()),
    (columns(), FRAME),
    (columns("drop").set_output(transform="pandas"), FRAME),
    (ColumnTransformer([("a", StandardScaler(), [0, 2]), ("b", "passthrough", slice(1, 2))]), X),
    (FeatureUnion([("a", StandardScaler()), ("b", PCA(2))]), X),
    (Pipeline([("a", MinMaxScaler()), ("b", "passthrough"), ("c", None)]), X),
]


@pytest.mark.parametrize(("model", "data"), EXAMPLES, ids=lambda v: type(v).__name__)
def test_transforms_alike_after_save_and_load(again, model, data):
    fitted = clone(model).fit(data)
    back = again(fitted)
    assert type(back) is type(fitted) and repr(back) == repr(fitted)
    before, after = fitted.transform(data), back.transform(data)
    assert type(before) is type(after)
    if hasattr(before, "toarray"):
        before, after = before.toarray(), after.toarray()
    if isinstance(before, pd.DataFrame):
        pd.testing.assert_frame_equal(before, after, check_exact=True)
    else:
        assert before.dtype == after.dtype and before.tobytes() == after.tobytes()
    if hasattr(fitted, "get_feature_names_out"):
        assert back.get_feature_names_out().tolist() == fitted.get_feature_names_out().tolist()
    assert set(vars(back)) >= {n for n in vars(fitted) if n.endswith("_")}
    clone(back).fit(data)


MODELS = [
    *(ElasticNet(0.1), Lasso(0.1), LinearRegression(), Ridge(fit_intercept=False)),
    *(LogisticRegression(), LogisticRegression(C=np.inf, class_weight="balanced")),
    *(LinearSVC(random_state=0), LinearSVR(random_state=0)),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("classes", [2, 3])
def test_linear_models_predict_alike_after_save_and_load(again, model, classes):
    fitted = clone(model).fit(X, np.arange(len(X)) % classes)
    back = again(fitted)
    assert type(back) is type(fitted) and repr(back) == repr(fitted)
    assert back.predict(X).tobytes() == fitted.predict(X).tobytes()
    if hasattr(fitted, "predict_proba"):
        np.testing.assert_allclose(back.predict_proba(X), fitted.predict_proba(X), rtol=1e-14)
    assert set(vars(back)) >= {n for n in vars(fitted) if n.endswith("_")}


def test_every_listed_class_has_an_example():
    shown = {type(model).__name__ for model, _ in EXAMPLES} | {"TransformedTargetRegressor"}
    shown |= {type(model).__name__ for model in MODELS}
    assert shown == set(registry.CLASSES)


def test_a_pipeline_with_a_kernel_model(again):
    model = Pipeline([("encode", columns()), ("fill", SimpleImputer()), ("model", KernelRidge())])
    model.fit(FRAME, TARGET)
    back = again(model)
    assert back.predict(FRAME).tobytes() == model.predict(FRAME).tobytes()
    assert back["model"].kernel_ == model["model"].kernel_
    new = FRAME.assign(site="never seen")
    assert back.predict(new).tobytes() == model.predict(new).tobytes()
    with pytest.raises(ValueError):
        back.predict(FRAME[["n", "site", "age"]].rename(columns={"n": "m"}))


def test_a_target_in_other_units(again):
    model = TransformedTargetRegressor(KernelRidge(), transformer=StandardScaler())
    model.fit(X, X[:, 0] * 100)
    new = X + 0.5  # the training array itself would take the symmetric path
    assert again(model).predict(new).tobytes() == model.predict(new).tobytes()


def test_nested_pipelines_of_classifiers(again):
    inner = make_pipeline(StandardScaler(), PCA(2))
    model = make_pipeline(inner, KernelRidgeClassifier(class_weight={"a": 1.0, "b": 2}))
    y = np.array(["a", "b"] * 6)
    model.fit(X, y)
    back = again(model)
    assert (back.predict(X) == model.predict(X)).all()
    assert back.classes_.dtype == model.classes_.dtype


def test_functions_inside_are_refused(tmp_path):
    model = make_pipeline(FunctionTransformer(np.log), KernelRidge()).fit(X, X[:, 0])
    with pytest.raises(InvalidInput, match=r"Pipeline\.steps\[0\]\[1\]\.func .*'log'"):
        save(model, tmp_path / "m")
    model = TransformedTargetRegressor(KernelRidge(), func=np.log, inverse_func=np.exp)
    with pytest.raises(InvalidInput, match=r"TransformedTargetRegressor\.func.*'log'"):
        save(model.fit(X, X[:, 0]), tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_other_classes_are_refused_with_the_cure(tmp_path):
    forest = RandomForestClassifier(2).fit(X, [0, 1] * 6)
    with pytest.raises(InvalidInput, match="not on the list"):
        save(forest, tmp_path / "m")
    search = GridSearchCV(KernelRidge(), {"alpha": [1.0]}, cv=2).fit(X, X[:, 0])
    with pytest.raises(InvalidInput, match="best_estimator_"):
        save(search, tmp_path / "m")
    save(search.best_estimator_, tmp_path / "m")


def test_a_subclass_is_another_class(tmp_path):
    class StandardScaler(registry.scikit_form_named("StandardScaler").cls):
        pass

    StandardScaler.__module__ = "sklearn.preprocessing"
    with pytest.raises(InvalidInput, match="not on the list"):
        save(StandardScaler().fit(X), tmp_path / "m")


def test_unknown_private_state_is_refused(tmp_path):
    model = StandardScaler().fit(X)
    model._secret = 1
    with pytest.raises(InvalidInput, match="private attribute '_secret'"):
        save(model, tmp_path / "m")


def test_a_cache_directory_is_neither_written_nor_read(tmp_path, forge):
    model = Pipeline([("a", StandardScaler())], memory=str(tmp_path)).fit(X)
    with pytest.raises(InvalidInput, match="memory=None"):
        save(model, tmp_path / "m")
    params = {"steps": [{"tuple": ["a", "passthrough"]}], "memory": "/tmp/evil"}
    with pytest.raises(ModelFileError, match="cache directory"):
        load(forge.model([{"class": "scikit-learn:Pipeline", "params": params}]))


@pytest.mark.parametrize(
    "state",
    [
        {"fit": 1},
        {"transform": 1},
        {"__class__": 1},
        {"_repr_html_": 1},
        {"_secret": 1},
        {"with_mean": 1},
        {"a.b_": 1},
        {"n_features_in_": -1},
        {"n_features_in_": 2**62},
        {"n_features_in_": "3"},
        {"n_features_in_": 2, "feature_names_in_": ["a"]},
        {},
    ],
)
def test_hostile_state(forge, state):
    record = {"class": "scikit-learn:StandardScaler", "params": {}, "state": state}
    with pytest.raises(ModelFileError):
        load(forge.model([record]))


def test_properties_are_not_state(forge):
    params = {"steps": [{"tuple": ["a", "passthrough"]}]}
    record = {"class": "scikit-learn:Pipeline", "params": params, "state": {"n_features_in_": 3}}
    with pytest.raises(ModelFileError, match="does not learn"):
        load(forge.model([record]))


@pytest.mark.parametrize("output", [{"transform": "evil"}, {"other": "pandas"}, {}])
def test_hostile_output(forge, output):
    record = {"class": "scikit-learn:Normalizer", "params": {}, "output": output}
    with pytest.raises(ModelFileError, match="output"):
        load(forge.model([record]))
