"""``mercer fit`` with nothing said: a feature machine, its report, its limits, what it refuses."""

import csv
import io
import re

import numpy as np
import pytest

import mercer as library
from mercer.cli.report import INSIDE, Score, inside_kind
from tests.cli.houses import house_columns, line, write
from tests.cli.test_fit_svc import flower_columns, table_of


@pytest.fixture
def fit(mercer, tmp_path):
    def run(table, target, *options):
        path = tmp_path / "m.mercer"
        outcome = mercer("fit", table, "--target", target, "-o", path, "--force", *options)
        assert outcome.code == 0, outcome
        return outcome, library.load(path)

    return run


def test_numbers(fit, mercer, houses, tmp_path):
    outcome, model = fit(houses, "price")
    assert outcome.err == ""
    machine = model.model_
    assert type(machine) is library.FeatureMachineRegressor
    assert line(outcome, "model") == "feature machine"
    assert re.match(r"[0-9.]+ s, without a limit for a table of this size", line(outcome, "time"))
    assert [float(s) for s in re.findall(r"(\d+) % ", line(outcome, "members"))] == pytest.approx(
        sorted(100 * machine.weights_, reverse=True), abs=0.51
    )
    for way in machine.ways_:
        assert way in line(outcome, "members")
    first = model.feature_names_in_[model.importances_.argmax()]
    share = f"{first} {100 * model.importances_.max():.0f} % (± "
    assert line(outcome, "importance").startswith(share)
    score = line(outcome, "leave-one-out")
    found = re.match(
        r"60 rows: R² (\S+), RMSE (\S+) \(mean of the target: (\S+), linear model: (\S+)\)$", score
    )
    r2, rmse, usual, linear = map(float, found.groups())
    price = np.array(house_columns()["price"])
    assert rmse == pytest.approx(machine.left_out_error_ * price.std(), rel=1e-3)
    assert usual == pytest.approx(price.std(), rel=1e-3)
    assert r2 == pytest.approx(1 - (rmse / usual) ** 2, abs=1e-3)
    Z = model.encode({n: house_columns()[n] for n in model.feature_names_in_})
    line_of = library.KernelRidge("linear", alpha="loo", fit_intercept=True).fit(Z, price)
    assert linear == pytest.approx(np.sqrt(np.mean((line_of.loo() - price) ** 2)), rel=1e-3)
    lower, upper = model.predict_interval(house_columns(), 0.9)
    reach = float(re.match(r"90 % of new rows lie within ± (\S+)", line(outcome, "interval"))[1])
    assert reach == pytest.approx((upper - lower)[0] / 2, rel=1e-3)
    assert line(outcome, "wrote").endswith("fitted on all 60 rows")
    assert "held out" not in outcome.out and "kernel" not in outcome.out
    said = mercer("info", tmp_path / "m.mercer")
    for label in ("model", "members", "importance", "leave-one-out", "interval", "numbers"):
        assert line(said, label) == line(outcome, label)


def test_classes(fit, mercer, tmp_path):
    metrics = pytest.importorskip("sklearn.metrics")
    columns = flower_columns(60)
    outcome, model = fit(write(tmp_path / "t.csv", columns), "kind")
    machine, truth = model.model_, np.array(columns["kind"])
    assert type(machine) is library.FeatureMachineClassifier
    right = f"{100 * (1 - machine.left_out_error_):.4g} % right"
    assert line(outcome, "leave-one-out").startswith(f"60 rows: {right} (always the most frequent")
    assert ", linear model: " in line(outcome, "leave-one-out")
    loss = metrics.log_loss(truth, machine.left_out_)
    assert line(outcome, "log loss").startswith(f"{loss:.4g} (shares of classes: 1.099)")
    area = metrics.roc_auc_score(truth, machine.left_out_, multi_class="ovr")
    assert float(line(outcome, "AUC").split()[0]) == pytest.approx(area, abs=2e-3)
    sure = 100 * machine.left_out_.max(axis=1).mean()
    assert line(outcome, "certainty") == f"on average {sure:.4g} % sure of its class, {right}"
    rows = table_of(outcome.out)
    told = [[int(n) for n in row[4:]] for row in rows[1:]]
    assert told == metrics.confusion_matrix(truth, model.loo()).tolist()
    said = mercer("info", tmp_path / "m.mercer")
    assert table_of(said.out) == rows
    assert line(said, "certainty") == line(outcome, "certainty")


def test_only_five_columns_are_named(fit, tmp_path):
    rng = np.random.default_rng(0)
    columns = {f"c{j}": rng.normal(size=40).round(3).tolist() for j in range(8)}
    columns["y"] = [2 * v + 0.5 for v in columns["c3"]]
    outcome, model = fit(write(tmp_path / "t.csv", columns), "y")
    told = line(outcome, "importance")
    assert told.startswith("c3 ") and told.count("(±") == 5 and ", 3 more " in told
    assert model.importances_.argmax() == 3


def test_rows_are_held_out_where_that_is_asked_for(fit, houses):
    outcome, model = fit(houses, "price", "--test-fraction", "0.25")
    held = line(outcome, "held out")
    assert re.match(r"15 rows: R² .* linear model: .*by a model fitted on the other 45 rows$", held)
    assert line(outcome, "leave-one-out").startswith("60 rows: ")
    plain, other = fit(houses, "price")
    assert "held out" not in plain.out
    np.testing.assert_array_equal(
        model.predict(house_columns(seed=3)), other.predict(house_columns(seed=3))
    )


def test_the_time_can_be_limited(fit, mercer, fails, houses, tmp_path):
    outcome, model = fit(houses, "price", "--time", "0.000001")
    assert line(outcome, "importance").startswith("not learned")
    assert "with 1e-06 s for the search of metrics" in line(outcome, "time")
    assert model.model_.max_time == 1e-6 and len(model.model_.members_) == 1
    for bad in ("0", "-1", "inf", "soon"):
        refused = mercer("fit", houses, "--target", "price", "--time", bad, "-o", tmp_path / "n")
        assert refused.code == 2 and "--time" in refused.err
    words = fails(
        "fit", houses, "--target", "price", "--time", 3, "--alpha", 1, "-o", tmp_path / "n"
    )
    assert "--time limits the search of metrics" in words and "a fit of ridge" in words


def test_what_asks_for_one_kernel(fit, fails, houses, tmp_path):
    for options in (("--kernel", "rbf"), ("--alpha", "loo"), ("--no-tune",), ("--model", "ridge")):
        outcome, model = fit(houses, "price", *options)
        assert type(model.model_) is library.KernelRidge and "held out" in outcome.out
    to = ("fit", houses, "--target", "price", "--model", "features", "-o", tmp_path / "n")
    for options in (("--kernel", "rbf"), ("--alpha", "1"), ("--no-tune",), ("--C", "1")):
        words = fails(*to, *options)
        assert f"{options[0]} is for a model of one kernel" in words
        assert f"leave {options[0]} out" in words
    assert not (tmp_path / "n").exists()


def test_text_and_sequences_are_read_as_such(fit, mercer, tmp_path):
    rng = np.random.default_rng(0)
    dna = ["".join(rng.choice(list("ACGT"), 24)) for _ in range(30)]
    columns = {"dna": dna, "x": rng.normal(size=30).tolist(), "y": rng.normal(size=30).tolist()}
    table = write(tmp_path / "t.csv", columns)
    outcome, model = fit(table, "y", "--no-tune")
    assert type(model.model_) is library.KernelRidge and line(outcome, "sequences")
    outcome, model = fit(table, "y")
    assert type(model.model_) is library.FeatureMachineRegressor
    assert line(outcome, "sequences") == "1: dna" and model.encoder_.kinds_ == ("kernel", "number")
    assert "dna" in line(outcome, "importance")
    path = tmp_path / "again"
    assert mercer("fit", table, "--target", "y", "-o", path).code == 0
    empty = write(tmp_path / "empty.csv", columns | {"dna": [""] * 30})
    said = mercer("predict", path, empty)
    assert said.code == 0 and "'dna' is empty in all rows; its cells count as missing" in said.err
    plan = mercer("fit", table, "--target", "y", "--plan", "-o", tmp_path / "none")
    assert plan.code == 0 and plan.out.startswith("TableRegressor: metrics. ")


def test_what_only_an_option_says_to_be_text_is_left_to_kernels(fit, tmp_path):
    rng = np.random.default_rng(0)
    tags = rng.choice(["GAT", "TAC"], 30).tolist()
    columns = {"tag": tags, "x": rng.normal(size=30).tolist(), "y": rng.normal(size=30).tolist()}
    table = write(tmp_path / "t.csv", columns)
    outcome, model = fit(table, "y", "--sequence", "tag")
    assert type(model.model_) is library.KernelRidge and line(outcome, "sequences") == "1: tag"
    outcome, model = fit(table, "y", "--sequence", "tag", "--model", "features")
    assert type(model.model_) is library.FeatureMachineRegressor
    assert "'tag': sequence; --kernel columns reads it" in line(outcome, "left out")


def test_few_rows_have_one_kernel(fit, tmp_path):
    columns = {"x": [1.0, 2.0, 4.0, 5.0, 7.0], "y": [1.5, 2.5, 4.5, 5.5, 6.0]}
    _, model = fit(write(tmp_path / "t.csv", columns), "y")
    assert type(model.model_) is library.FeatureMachineRegressor
    four = {name: values[:4] for name, values in columns.items()}
    _, model = fit(write(tmp_path / "t.csv", four), "y")
    assert type(model.model_) is library.KernelRidge


def test_odd_columns(fit, mercer, tmp_path):
    columns = house_columns() | {
        "again": house_columns()["area"],
        "void": [""] * 60,
        "gaps": ["" if i % 3 else i for i in range(60)],
        "one": [5] * 60,
    }
    outcome, model = fit(write(tmp_path / "t.csv", columns), "price")
    assert "'void': it is empty" in line(outcome, "left out")
    assert set(model.feature_names_in_) == {"area", "rooms", "town", "again", "gaps"}
    new = house_columns(6, seed=5) | {"again": [""] * 6, "gaps": [1] * 6, "town": ["moon"] * 6}
    new.pop("price")
    answer = mercer("predict", tmp_path / "m.mercer", write(tmp_path / "new.csv", new))
    assert answer.code == 0 and "unknown to the model, such as 'moon'" in answer.err
    assert np.isfinite([float(v) for v in answer.out.splitlines()[1:]]).all()
    renamed = {("Area" if name == "area" else name): values for name, values in new.items()}
    refused = mercer("predict", tmp_path / "m.mercer", write(tmp_path / "new.csv", renamed))
    assert refused.code == 1 and "missing column 'area'" in refused.err
    assert "did you mean 'Area'?" in refused.err


def test_intervals_and_probabilities(fit, mercer, houses, tmp_path):
    _, model = fit(houses, "price")
    answer = mercer("predict", tmp_path / "m.mercer", houses, "--interval", "0.8")
    rows = np.array(list(csv.reader(io.StringIO(answer.out)))[1:], dtype=float)
    columns = {n: house_columns()[n] for n in model.feature_names_in_}
    np.testing.assert_array_equal(rows[:, 0], model.predict(columns))
    np.testing.assert_array_equal(rows[:, 1:].T, np.array(model.predict_interval(columns, 0.8)))
    table = write(tmp_path / "t.csv", flower_columns(60))
    _, model = fit(table, "kind")
    answer = mercer("predict", tmp_path / "m.mercer", table, "--probabilities")
    assert answer.out.startswith("predicted_kind,probability_aster,probability_rose,")


def test_rows_set_apart_have_a_line_of_their_own(fit, houses):
    _, model = fit(houses, "price")
    score = Score(12, "R2", 0.5, 1.0, 2.0)
    assert INSIDE[inside_kind(model, score)] == "set apart"
    assert INSIDE[inside_kind(model, Score(60, "R2", 0.5, 1.0, 2.0))] == "leave-one-out"


def test_the_seed_is_that_of_the_machine(fit, houses):
    models = [fit(houses, "price", "--seed", seed)[1] for seed in ("0", "5")]
    assert [model.model_.random_state for model in models] == [0, 5]
    again = library.TableRegressor(random_state=5)
    rows = {n: house_columns()[n] for n in models[1].feature_names_in_}
    again.fit(rows, np.array(house_columns()["price"], dtype=float))
    np.testing.assert_allclose(again.predict(rows), models[1].predict(rows), rtol=1e-9)
    assert not np.array_equal(models[0].predict(rows), models[1].predict(rows))


def test_too_little_memory_is_said(fit, fails, houses, tmp_path, monkeypatch):
    monkeypatch.setattr("mercer.models.metric.learning.MATRICES", 1000)
    outcome, model = fit(houses, "price", "--memory", "300kB")
    assert type(model.model_) is library.KernelRidge
    assert line(outcome, "model") == (
        "ridge, because a feature machine needs more than the memory budget"
    )
    words = ("fit", houses, "--target", "price", "-o", tmp_path / "n", "--model", "features")
    assert "to learn a metric from 20 rows needs" in fails(*words, "--memory", "300kB")
