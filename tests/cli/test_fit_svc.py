"""``mercer fit`` and its kin with support vector classifiers: when, with what, and what is said."""

import csv
import io
import re

import numpy as np
import pytest

import mercer as library
from mercer.cli.report import Score
from mercer.models import SVC, KernelRidgeClassifier
from tests.cli.houses import house_columns, write
from tests.cli.test_fit import line


def flower_columns(n=90, seed=0, classes=("rose", "tulip", "aster")):
    rng = np.random.default_rng(seed)
    kind = np.arange(n) % len(classes)
    length = (kind + 0.35 * rng.standard_normal(n)).round(3)
    width = (2.0 * (kind == 1) + 0.35 * rng.standard_normal(n)).round(3)
    site = rng.choice(["hill", "shore"], n)
    return {
        "length": length.tolist(),
        "width": width.tolist(),
        "site": site.tolist(),
        "kind": [classes[k] for k in kind],
    }


@pytest.fixture
def flowers(tmp_path):
    return write(tmp_path / "flowers.csv", flower_columns())


@pytest.fixture
def fit(mercer, flowers, tmp_path):
    def run(*options, table=flowers, target="kind"):
        path = tmp_path / "m.mercer"
        outcome = mercer("fit", table, "--target", target, "-o", path, "--force", *options)
        assert outcome.code == 0, outcome
        return outcome, library.load(path)

    return run


def test_classification_by_support_vectors(fit, mercer, tmp_path):
    outcome, model = fit("--model", "svc")
    assert type(model.model_) is SVC and model.model == "svc"
    assert "tuned by cross-validation" in line(outcome, "kernel")
    assert float(line(outcome, "C")) == pytest.approx(model.model_.C, rel=1e-3)
    support = line(outcome, "support")
    assert support == f"{len(model.model_.support_)} support vectors of 90 rows"
    assert line(outcome, "held out").startswith("18 rows: ")
    right = float(line(outcome, "folds").split(":")[1].split("%")[0])
    assert right > 85 and "leave-one-out" not in outcome.out
    columns = flower_columns()
    truth = np.array(columns.pop("kind"))
    assert (model.predict(columns) == truth).mean() > 0.9
    said = mercer("info", tmp_path / "m.mercer").out
    for label in ("C", "support", "held out", "folds", "kernel"):
        assert any(row.startswith(label + " ") for row in said.splitlines()), said
    assert support in said


def test_the_folds_are_those_of_refits(fit):
    outcome, model = fit("--no-tune", "--test-fraction", "0")
    columns = flower_columns()
    truth = np.array(columns.pop("kind"))
    Z = model.encode(columns)
    score = library.SVC(model.kernel_).path(Z, truth, [1.0], cv=5).mean_score[0]
    assert model.model_.C == 1.0 and "scale taken from the data" in line(outcome, "kernel")
    noted = model.notes_["cross_validation"]
    assert noted["rows"] == 90 and noted["value"] == pytest.approx(score, abs=0.06)
    assert noted["baseline"] == pytest.approx(2 / 3)


def table_of(out):
    """The table by class of a report, cell by cell."""
    lines = out.splitlines()
    first = next(i for i, row in enumerate(lines) if row.startswith("by class"))
    start = lines[first].index("class", len("by class"))
    last = next(i for i in range(first + 1, len(lines)) if lines[i][:start].strip())
    return [re.split(r"  +", row[start:]) for row in lines[first:last]]


def noisy_columns(classes, n=150):
    columns = flower_columns(n, classes=classes)
    rng = np.random.default_rng(1)
    columns["width"] = (np.array(columns["width"]) + rng.normal(size=n)).round(3).tolist()
    columns["length"] = (np.array(columns["length"]) + rng.normal(size=n)).round(3).tolist()
    columns["kind"] = [
        classes[0] if u < 0.2 else k for u, k in zip(rng.random(n), columns["kind"], strict=True)
    ]
    return columns


@pytest.mark.parametrize("classes", [("no", "yes"), ("rose", "tulip", "aster")])
@pytest.mark.parametrize("model", ["svc", "ridge"])
def test_what_is_said_of_classes_is_what_others_compute(fit, mercer, tmp_path, classes, model):
    metrics = pytest.importorskip("sklearn.metrics")
    columns = noisy_columns(classes)
    table = write(tmp_path / "noisy.csv", columns)
    options = ("--model", model, "--no-tune")
    outcome, kept = fit(*options, table=table)
    told = kept.notes_["held_out"]["classes"]
    # the rows held out, and the model that did not see them, found anew
    truth = np.array(columns.pop("kind"))
    rng, held = np.random.default_rng(0), []
    for c in np.unique(truth):
        rows = rng.permutation(np.flatnonzero(truth == c))
        held += rows[: round(0.2 * len(rows))].tolist()
    test = np.sort(held)
    train = np.setdiff1d(np.arange(len(truth)), test)
    part = lambda rows: {n: [c[i] for i in rows] for n, c in columns.items()}  # noqa: E731
    again = library.TableClassifier(
        "rbf",
        alpha="loo" if model == "ridge" else 1.0,
        model=model,
        probability=model == "svc",
        categorical=["site"],
    ).fit(part(train), truth[train])
    predicted = again.predict(part(test))
    assert told["confusion"] == metrics.confusion_matrix(truth[test], predicted).tolist()
    values = again.decision_function(part(test))
    binary = values[:, None] if values.ndim == 1 else values
    names = np.unique(truth)[-binary.shape[1] :]
    areas = [
        metrics.roc_auc_score(truth[test] == c, v) for c, v in zip(names, binary.T, strict=True)
    ]
    assert told["auc"] == pytest.approx(np.mean(areas))
    if model == "svc":
        loss = metrics.log_loss(truth[test], again.predict_proba(part(test)))
        assert told["log_loss"] == pytest.approx(loss)
        shares = np.unique(truth[train], return_counts=True)[1] / len(train)
        usual = metrics.log_loss(truth[test], np.tile(shares, (len(test), 1)))
        assert told["usual_log_loss"] == pytest.approx(usual)
        assert line(outcome, "log loss").startswith(f"{loss:.4g} (shares of classes: {usual:.4g})")
    else:
        assert "log_loss" not in told and "log loss" not in outcome.out
    rows = table_of(outcome.out)
    recall = metrics.recall_score(truth[test], predicted, average=None)
    precision = metrics.precision_score(truth[test], predicted, average=None)
    usual = classes[0]
    assert rows[0][2:4] == [f"recall (always {usual})", f"precision (always {usual})"]
    for row, c, r, p in zip(rows[1:], np.unique(truth), recall, precision, strict=True):
        share = f"{np.mean(truth[test] == c):.4g}" if c == usual else "none"
        assert row[0] == c and row[2] == f"{r:.4g} ({int(c == usual)})"
        assert row[3] == f"{p:.4g} ({share})"
    assert [[int(n) for n in row[4:]] for row in rows[1:]] == told["confusion"]
    assert "margin" not in outcome.out and "bound" not in outcome.out
    said = mercer("info", tmp_path / "m.mercer").out
    assert table_of(said) == rows


def test_many_classes_say_what_they_are_taken_for(fit, tmp_path):
    names = [f"k{i:02d}" for i in range(15)]
    columns = flower_columns(150, classes=names)
    outcome, _ = fit("--no-tune", table=write(tmp_path / "many.csv", columns))
    rows = table_of(outcome.out)
    assert rows[0][-1] == "most often taken for" and len(rows) == 14
    assert rows[-1] == ["and 3 more"]


def test_a_rare_class_that_is_ranked_well_is_not_called_unknowable():
    counts = {"labels": ["no", "yes"], "confusion": [[90, 0], [10, 0]], "usual": 0}
    useless = Score(100, "accuracy", 0.9, 0.1, 0.1, {**counts, "auc": 0.5})
    ranked = Score(100, "accuracy", 0.9, 0.1, 0.1, {**counts, "auc": 0.95})
    assert "may say nothing" in useless.remark()
    assert "may say nothing" not in ranked.remark() and "AUC 0.95" in ranked.remark()
    assert table_of("\n".join(f"{a:12}  {b}" for a, b in [*ranked.lines(), ("end", "")]))[2][3] == (
        "none (none)"
    )


def test_ridge_where_it_suits_better(fit, tmp_path):
    columns = flower_columns(40)
    columns["kind"][:4] = ["lily"] * 4  # too few for five folds
    one = ("--kernel", "rbf")
    outcome, model = fit(*one, table=write(tmp_path / "rare.csv", columns))
    assert type(model.model_) is KernelRidgeClassifier
    assert line(outcome, "alpha") and line(outcome, "leave-one-out")
    columns["kind"][4] = "lily"
    _, model = fit(*one, table=write(tmp_path / "five.csv", columns))
    assert type(model.model_) is SVC
    _, model = fit(table=write(tmp_path / "houses.csv", house_columns()), target="price")
    assert isinstance(model, library.TableRegressor)


def test_the_model_is_named_with_the_reason(fit, mercer, tmp_path):
    def both():
        said = mercer("info", tmp_path / "m.mercer")
        return line(said, "model")

    outcome, _ = fit()
    assert line(outcome, "model") == both() == "feature machine"
    outcome, _ = fit("--kernel", "matern")
    assert line(outcome, "model") == both() == "SVC"
    columns = flower_columns(40)
    columns["kind"][:3] = ["lily"] * 3
    outcome, _ = fit("--no-tune", table=write(tmp_path / "rare.csv", columns))
    assert line(outcome, "model") == both() == "ridge, because class 'lily' has 3 rows"
    outcome, _ = fit("--alpha", "1")
    assert line(outcome, "model") == both() == "ridge, because --alpha is given"
    outcome, _ = fit("--model", "ridge")
    assert line(outcome, "model") == both() == "ridge"
    houses = write(tmp_path / "houses.csv", house_columns())
    outcome, _ = fit("--no-tune", table=houses, target="price")
    assert line(outcome, "model") == both() == "ridge"


def test_svc_with_a_class_of_one_row_is_fitted_untuned(fit, tmp_path):
    columns = flower_columns(40)
    columns["kind"][0] = "lily"
    outcome, model = fit("--model", "svc", table=write(tmp_path / "one.csv", columns))
    assert type(model.model_) is SVC and "scale taken from the data" in line(outcome, "kernel")
    assert "not calibrated" in outcome.err


def test_a_model_that_guesses_is_told(fit, tmp_path):
    rng = np.random.default_rng(1)
    noise = {
        "a": rng.random(80).round(3).tolist(),
        "b": rng.random(80).round(3).tolist(),
        "kind": rng.permutation(["no"] * 60 + ["yes"] * 20).tolist(),
    }
    outcome, _ = fit("--model", "svc", table=write(tmp_path / "noise.csv", noise))
    assert "better than always the most frequent class on 16 rows" in line(outcome, "remark")
    outcome, _ = fit("--C", "1e6", table=write(tmp_path / "noise.csv", noise))
    assert "worse than always the most frequent class" in line(outcome, "remark")
    outcome, _ = fit("--model", "svc")
    assert "remark" not in outcome.out


def test_a_column_that_counts_rows_is_told(fit, tmp_path):
    columns = flower_columns()
    order = np.random.default_rng(0).permutation(90)
    table = write(tmp_path / "id.csv", {"row id": (order + 7).tolist(), **columns})
    for rows in ((), ("--max-rows", "50")):
        outcome, model = fit("--no-tune", *rows, table=table)
        left = line(outcome, "left out")
        assert "'row id': an identifier: it counts from 7 to 96" in left and "--number" in left
        assert "row id" not in model.encoder_.columns_ and "remark" not in outcome.out
        outcome, model = fit("--no-tune", *rows, "--number", "row id", table=table)
        assert "row id" in model.encoder_.columns_ and "left out" not in outcome.out
    for other in (order // 2, order + 0.5, 2 * order):
        table = write(tmp_path / "id.csv", {"place": other.tolist(), **columns})
        assert "left out" not in fit("--no-tune", table=table)[0].out


def test_the_model_can_be_chosen(fit, tmp_path):
    outcome, model = fit("--model", "ridge")
    assert type(model.model_) is KernelRidgeClassifier and line(outcome, "leave-one-out")
    _, model = fit("--alpha", "0.5")  # a penalty of ridge asks for ridge
    assert type(model.model_) is KernelRidgeClassifier and model.alpha_ == 0.5
    _, model = fit("--C", "2.5")
    assert type(model.model_) is SVC and model.model_.C == 2.5
    columns = flower_columns(40)
    columns["kind"][:2] = ["lily"] * 2
    _, model = fit("--model", "svc", table=write(tmp_path / "rare.csv", columns))
    assert type(model.model_) is SVC and "lily" in model.classes_


@pytest.mark.parametrize("tuned", [(), ("--C", "1")], ids=["tuned", "fixed"])
def test_the_best_of_several_kernels(fit, tuned):
    _, model = fit("--kernel", "auto", *tuned)
    assert type(model.kernel_).__name__ in ("RBF", "Matern", "Linear")


def test_the_same_seed_gives_the_same_model(fit):
    options = ("--model", "svc", "--seed", "4294967295")
    first, a = fit(*options)
    second, b = fit(*options)
    assert first.out == second.out
    np.testing.assert_array_equal(a.model_.dual_coef_, b.model_.dual_coef_)
    np.testing.assert_array_equal(a.model_.probA_, b.model_.probA_)


def test_wrong_combinations(fails, mercer, flowers, houses, tmp_path):
    to = ("-o", tmp_path / "m.mercer")
    error = fails("fit", houses, "--target", "price", "--model", "svc", *to)
    assert "--model ridge" in error
    for options in (("--C", "1", "--alpha", "1"), ("--model", "svc", "--alpha", "1")):
        assert "--C" in fails("fit", flowers, "--target", "kind", *options, *to)
    assert "--alpha" in fails(
        "fit", flowers, "--target", "kind", "--model", "ridge", "--C", "1", *to
    )
    assert "--alpha" in fails("fit", houses, "--target", "price", "--C", "1", *to)
    for bad in ("0", "-1", "x", "nan", "inf", "loo"):
        outcome = mercer("fit", flowers, "--target", "kind", "--C", bad, *to)
        assert outcome.code == 2 and "--C" in outcome.err
    assert not (tmp_path / "m.mercer").exists()


# ------------------------------------------------------------------------------------ probabilities
@pytest.mark.parametrize("options", [(), ("--model", "svc")], ids=["features", "svc"])
def test_probabilities(fit, mercer, fails, flowers, tmp_path, options):
    _, model = fit(*options)
    outcome = mercer("predict", tmp_path / "m.mercer", flowers, "--probabilities")
    assert outcome.code == 0, outcome
    rows = list(csv.reader(io.StringIO(outcome.out)))
    names = ["aster", "rose", "tulip"]
    assert rows[0] == ["predicted_kind", *(f"probability_{n}" for n in names)]
    columns = flower_columns()
    columns.pop("kind")
    P = np.array([row[1:] for row in rows[1:]], dtype=float)
    np.testing.assert_array_equal(P, model.predict_proba(columns))
    np.testing.assert_allclose(P.sum(1), 1.0)
    assert [row[0] for row in rows[1:]] == [names[k] for k in P.argmax(1)]
    plain = mercer("predict", tmp_path / "m.mercer", flowers)
    assert [row[0] for row in csv.reader(io.StringIO(plain.out))] == [row[0] for row in rows]
    fit("--model", "ridge")
    error = fails("predict", tmp_path / "m.mercer", flowers, "--probabilities")
    assert "svc" in error


def test_probabilities_go_to_parquet_and_keep_clear_of_kept_columns(fit, mercer, fails, tmp_path):
    import pyarrow.parquet as pq

    fit()
    columns = {**flower_columns(), "probability_rose": list(range(90))}
    table = write(tmp_path / "kept.csv", columns)
    out = tmp_path / "p.parquet"
    outcome = mercer("predict", tmp_path / "m.mercer", table, "--probabilities", "-o", out)
    assert outcome.code == 0, outcome
    assert pq.read_table(out).column_names[1] == "probability_aster"
    error = fails(
        "predict", tmp_path / "m.mercer", table, "--probabilities", "--keep", "probability_rose"
    )
    assert "probability_rose" in error
