"""What table models and the command line propose where nothing is said."""

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer import (
    SVC,
    FeatureMachineClassifier,
    FeatureMachineRegressor,
    KernelRidgeClassifier,
    TableClassifier,
    TableRegressor,
)
from mercer.cli import main
from mercer.datasets import load_diabetes_table, load_wine_table, make_clinic
from mercer.domains import Table
from mercer.models.tables import kernel_for
from tests.cli.houses import write


def both(tmp_path, table, y, model):
    """Return the model of the command line, and that of Python."""
    path = write(
        tmp_path / "t.csv", {n: table[n].tolist() for n in table.names} | {"y": y.tolist()}
    )
    out = tmp_path / "m"
    assert main(["fit", str(path), "--target", "y", "-o", str(out)]) == 0
    return mercer.load(out), clone(model).fit(table, y)


def test_python_and_the_command_line_fit_the_same_regression(tmp_path, capsys):
    table, y = load_diabetes_table()
    rows = np.arange(0, 442, 5)
    sex = np.where(table["sex"] == "1", "m", "f")
    table = Table({n: (sex if n == "sex" else table[n])[rows] for n in table.names})
    y = y[rows]
    saved, model = both(tmp_path, table, y, TableRegressor())
    assert type(model.model_) is type(saved.model_) is FeatureMachineRegressor
    np.testing.assert_array_equal(model.predict(table), saved.predict(table))
    np.testing.assert_array_equal(model.importances_, saved.importances_)
    for one, other in zip(
        model.predict_interval(table, 0.8), saved.predict_interval(table, 0.8), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    plain = TableRegressor("rbf").fit(table, y)  # as it says: no search
    assert plain.alpha_ == 1.0
    tuned = TableRegressor(model="ridge").fit(table, y)
    left = [np.mean((m.loo() - y) ** 2) for m in (tuned, plain)]
    assert left[0] < left[1]


def test_python_and_the_command_line_fit_the_same_classification(tmp_path, capsys):
    table, y = load_wine_table()
    table, y = table.take(np.arange(0, 178, 3)), y[::3]
    saved, model = both(tmp_path, table, y, TableClassifier())
    assert type(model.model_) is type(saved.model_) is FeatureMachineClassifier
    np.testing.assert_array_equal(model.predict_proba(table), saved.predict_proba(table))
    np.testing.assert_array_equal(model.loo(), saved.loo())


def test_what_is_given_is_not_proposed():
    table, y = load_wine_table()
    table, y = table.take(np.arange(0, 178, 4)), y[::4]
    assert type(TableClassifier("rbf").fit(table, y).model_) is KernelRidgeClassifier
    assert type(TableClassifier(alpha=0.5).fit(table, y).model_) is KernelRidgeClassifier
    assert TableClassifier(alpha=0.5).fit(table, y).alpha_ == 0.5
    model = TableClassifier(C=2.0).fit(table, y)
    assert type(model.model_) is SVC and model.model_.C == 2.0 and hasattr(model, "predict_proba")
    model = TableClassifier(model="svc", C=2.0).fit(table, y)
    assert not hasattr(model, "predict_proba")
    few = np.r_[:3, 20:44]  # three rows of the first class
    rng = np.random.default_rng(0)
    strings = {"dna": ["".join(rng.choice(list("ACGT"), 24)) for _ in few]}
    assert type(TableClassifier().fit(strings, y[few]).model_) is FeatureMachineClassifier
    four = {"dna": [strings["dna"][i] for i in (0, 1, 20, 21)]}  # of which no metric is learned
    model = TableClassifier().fit(four, y[few][[0, 1, 20, 21]])
    assert type(model.model_) is KernelRidgeClassifier
    assert hasattr(model, "loo") and not hasattr(model, "predict_proba")


def test_models_left_open_are_saved_and_tuned(tmp_path):
    table, y = load_wine_table()
    table, y = table.take(np.arange(0, 178, 4)), y[::4]
    model = TableClassifier().fit(table, y)
    mercer.save(model, tmp_path / "m")
    again = mercer.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(table), model.predict_proba(table))
    result = mercer.tune(TableClassifier(), table, y)  # tunes a kernel
    model = TableClassifier(model="svc", probability=True).fit(table, y)
    assert type(result.model.model_) is SVC and result.model.kernel_ == model.kernel_
    np.testing.assert_array_equal(result.model.predict_proba(table), model.predict_proba(table))


def test_text_and_strings_are_seen():
    table, y = make_clinic(50, random_state=0)
    model = TableRegressor(model="ridge").fit(table, y)
    assert isinstance(model.kernel_.domain, mercer.domains.Tables)
    assert set(model.notes_["compared"]) == {"sequence"}
    model = TableRegressor().fit(table, y)
    assert type(model.model_) is FeatureMachineRegressor
    kinds = dict(zip(table.names, model.encoder_.kinds_, strict=True))
    assert kinds["sequence"] == kinds["notes"] == "kernel" and kinds["site"] == "category"
    assert model.importances_.shape == (6,) and (model.importances_ > 0).all()


def test_python_and_the_command_line_read_text_alike(tmp_path, capsys):
    table, y = make_clinic(40, random_state=0)
    table = Table({n: ["" if v is None else v for v in table[n]] for n in ("notes", "sequence")})
    saved, model = both(tmp_path, table, y, TableRegressor())
    assert type(model.model_) is type(saved.model_) is FeatureMachineRegressor
    gone = Table({n: [v or None for v in table[n]] for n in table.names})  # a file's empty cells
    again = TableRegressor().fit(gone, y)
    np.testing.assert_array_equal(saved.predict(gone), again.predict(gone))


def test_what_no_encoder_reads_is_left_out_beside_text():
    table, y = make_clinic(40, random_state=0)
    columns = {"notes": table["notes"], "age": table["age"], "name": [f"p{i}" for i in range(40)]}
    columns["day"] = np.datetime64("2024-01-01") + np.arange(40)
    model = TableRegressor().fit(columns, y)
    assert model.encoder_.kinds_ == ("kernel", "number", "left out", "left out")
    assert (model.importances_[2:] == 0).all()
    columns["day"], columns["name"] = ["?"] * 40, [None] * 40
    assert np.isfinite(model.predict(columns)).all()


def strings(n, shift, seed=0):
    """Return DNA with a motif, at one place or at any, and which of two motifs it is."""
    rng = np.random.default_rng(seed)
    texts, kinds = [], rng.integers(0, 2, n)
    for kind in kinds:
        s = rng.choice(list("ACGT"), 40)
        at = rng.integers(0, 34) if shift else 17
        s[at : at + 6] = list("GATTAC" if kind else "CATTAG")
        texts.append("".join(s))
    return Table({"dna": texts}), kinds


@pytest.mark.parametrize("shift", [False, True], ids=["aligned", "anywhere"])
def test_the_kernel_of_strings_is_that_of_least_left_out_error(shift):
    table, y = strings(120, shift)
    kernel, compared = kernel_for(table, y, classes=True)
    best = min(compared["dna"], key=compared["dna"].get)
    assert best in repr(kernel)
    assert best.startswith("WeightedDegree") != shift


def test_strings_of_several_lengths_have_no_places():
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("ACGT"), rng.integers(20, 40))) for _ in range(40)]
    _, compared = kernel_for(Table({"dna": texts}), np.arange(40.0), classes=False)
    assert not any(kernel.startswith("WeightedDegree") for kernel in compared["dna"])
    protein = ["".join(rng.choice(list("ACDEFGHIKLMNPQRSTVWY"), 30)) for _ in range(40)]
    _, compared = kernel_for(Table({"p": protein}), np.arange(40.0), classes=False)
    assert {"Spectrum(length=2)", "Spectrum(length=3)"} <= set(compared["p"])


@pytest.mark.parametrize("texts", [["AC"] * 10 + ["GT"] * 15, ["ACG", "TTA", "A", ""] * 8 + [None]])
def test_odd_strings_are_no_obstacle(texts):
    table = Table({"dna": texts})
    y = np.arange(float(len(texts)))
    kernel, _ = kernel_for(table, y, classes=False, kinds={"dna": "sequence"})
    assert np.isfinite(kernel(table)).all()
    fewer = Table({"dna": texts[:12]})
    kernel, compared = kernel_for(fewer, y[:12], classes=False, kinds={"dna": "sequence"})
    assert "Spectrum(length=3" in repr(kernel) and not compared


def test_constant_targets_and_few_rows():
    X = np.random.default_rng(0).standard_normal((10, 2))
    np.testing.assert_allclose(TableRegressor().fit(X, np.ones(10)).predict(X), 1.0)
    for n in (2, 3, 4):
        assert TableRegressor().fit(X[:n], np.arange(n)).predict(X).shape == (10,)
    weights = np.r_[1.0, 1.0, 1.0, np.zeros(7)]
    some = TableRegressor().fit(X, np.arange(10.0), sample_weight=weights)
    only = TableRegressor().fit(X[:3], np.arange(3.0))
    np.testing.assert_allclose(some.predict(X), only.predict(X))
