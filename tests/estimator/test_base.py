"""Points as estimators check them: frames, dicts, masked arrays, and whom a message names."""

import numpy as np
import pytest

import mercer
from mercer import RBF, Categorical, Spectrum
from mercer.domains import Table
from mercer.errors import InvalidInput

X = np.array([[1.0, 2.0], [np.nan, 3.0], [2.0, np.nan], [0.5, 1.0]])
Y = np.array([1.0, 2.0, 3.0, 4.0])
K = RBF(1.0).with_missing()


def test_every_form_of_rows_with_missing_numbers():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    expected = mercer.KernelRidge(K).fit(X, Y).predict(X)
    columns = {name: [None if v != v else v for v in X[:, j]] for j, name in enumerate("ab")}
    objects = pandas.DataFrame(columns, dtype=object)
    for rows in (
        objects,
        objects.fillna(pandas.NA),
        objects.astype("Float64"),
        polars.DataFrame(columns),
        columns,
        Table(columns),
        np.ma.masked_invalid(X),
        X.astype(object),
    ):
        model = mercer.KernelRidge(K).fit(rows, Y)
        np.testing.assert_array_equal(model.predict(rows), expected)
        np.testing.assert_array_equal(model.kernel_(rows), model.kernel_(X))
    with pytest.raises(InvalidInput, match="masked"):
        mercer.KernelRidge(RBF()).fit(np.ma.masked_invalid(X), Y)


@pytest.mark.parametrize("kernel", [K, RBF()])
def test_names_of_frames_are_noted_and_asked_for(kernel):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0, 4.0], "b": [True, False, True]})
    model = mercer.KernelRidge(kernel).fit(frame, Y[:3])
    assert model.feature_names_in_.tolist() == ["a", "b"] and model.n_features_in_ == 2
    assert model.X_fit_.dtype == np.float64
    with pytest.raises(InvalidInput, match="feature names"):
        model.predict(frame[["b", "a"]])
    with pytest.warns(UserWarning, match="valid feature names"):
        model.predict(frame.to_numpy(dtype=float))
    model.fit(frame.to_numpy(dtype=float), Y[:3])
    assert not hasattr(model, "feature_names_in_")


def test_numbers_of_a_frame_that_are_missing_are_refused_without_a_type_error():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": np.array([1.0, pandas.NA, 2.0], dtype=object)})
    with pytest.raises(InvalidInput, match=r"KernelRidge: .*NaN"):
        mercer.KernelRidge(RBF()).fit(frame, Y[:3])


def test_messages_about_columns_name_the_estimator():
    table = Table({"site": ["a", "b", "a", "b"], "x": Y, "s": ["ab", "b", "c", "ca"]})
    model = mercer.KernelRidge(Categorical().on("site") + RBF().on("x")).fit(table, Y)
    with pytest.raises(InvalidInput, match=r"^KernelRidge: no column 'site'; the columns are 'x'"):
        model.predict(table.select(["x", "s"]))
    with pytest.raises(InvalidInput, match=r"^SVC: no column 'dna'"):
        mercer.SVC(kernel=Spectrum(2).on("dna")).fit(table, Y > 2)
    with pytest.raises(InvalidInput, match=r"^KernelRidge: column 'site' of X holds text"):
        mercer.KernelRidge(RBF()).fit(table, Y)


@pytest.mark.parametrize(
    "model",
    [mercer.KernelRidge(), mercer.SVR(), mercer.GaussianProcessRegressor(), mercer.SVC()],
    ids=lambda model: type(model).__name__,
)
def test_targets_of_three_dimensions_are_named(model):
    y = np.zeros((6, 2, 2))
    for given in (y, y.tolist()):
        with pytest.raises(InvalidInput, match=r"^\w+: y has 3 dimensions; give "):
            model.fit(np.eye(6), given)
