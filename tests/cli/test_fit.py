"""``mercer fit``: what it writes and says, how it decides, every table it refuses."""

import os
import re
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mercer as library
from mercer.kernels import as_kernel
from tests.cli.houses import house_columns, line, write


def test_report_and_file(mercer, houses, tmp_path):
    path = tmp_path / "m.mercer"
    outcome = mercer("fit", houses, "--target", "price", "--model", "ridge", "-o", path)
    assert outcome.code == 0, outcome
    assert outcome.err == ""
    assert line(outcome, "rows").startswith("60 of ")
    assert line(outcome, "target") == "'price', regression: 'price' holds numbers"
    assert line(outcome, "numbers") == "2: area, rooms"
    assert line(outcome, "categories") == "1: town (3)"
    assert "RBF(" in line(outcome, "kernel")
    score = r"12 rows: R² 0\.\d+, RMSE [0-9.e+]+ \(mean of the target: "
    assert re.match(score, line(outcome, "held out"))
    assert str(path) in line(outcome, "wrote")
    r2 = float(re.search(r"R² ([-0-9.]+)", line(outcome, "held out"))[1])
    assert r2 > 0.8
    model = library.load(path)
    assert isinstance(model, library.TableRegressor)
    assert model.notes_["target"] == "price"


def test_the_file_predicts_in_the_users_units(mercer, houses, tmp_path):
    path = tmp_path / "m.mercer"
    mercer("fit", houses, "--target", "price", "-o", path)
    columns = house_columns()
    price = np.array(columns.pop("price"))
    predicted = library.load(path).predict(columns)
    assert np.corrcoef(predicted, price)[0, 1] > 0.9
    assert abs(predicted.mean() - price.mean()) < 0.05 * price.mean()


@pytest.mark.parametrize(
    "kernel", ["matern", "rational_quadratic", "laplacian", "linear", "polynomial", "auto"]
)
def test_every_kernel(mercer, houses, tmp_path, kernel):
    path = tmp_path / "m.mercer"
    outcome = mercer("fit", houses, "--target", "price", "--kernel", kernel, "-o", path)
    assert outcome.code == 0, outcome
    used = type(library.load(path).kernel_)
    names = ("rbf", "matern", "linear") if kernel == "auto" else (kernel,)
    assert used in {type(as_kernel(name)) for name in names}
    assert used.__name__ in line(outcome, "kernel")
    assert float(re.search(r"R² ([-0-9.]+)", line(outcome, "held out"))[1]) > 0.8


def test_parameters_as_asked(mercer, houses, tmp_path):
    path = tmp_path / "m.mercer"
    outcome = mercer(
        "fit", houses, "--target", "price", "--alpha", "0.25", "--no-tune", "--test-fraction", "0",
        "--categorical", "rooms", "--drop", "town", "-o", path,
    )  # fmt: skip
    assert outcome.code == 0, outcome
    assert "scale taken from the data" in line(outcome, "kernel")
    assert line(outcome, "alpha") == "0.25"
    assert line(outcome, "left out") == "'town': as asked"
    assert line(outcome, "categories").startswith("1: rooms (")
    assert "held out" not in outcome.out
    assert library.load(path).model_.alpha_ == 0.25


def test_same_seed_same_file(mercer, houses, tmp_path):
    files = [tmp_path / f"{i}.mercer" for i in range(3)]
    for path, seed in zip(files, (1, 1, 2), strict=True):
        options = ("--seed", seed, "--test-fraction", 0.2, "-o", path)
        assert mercer("fit", houses, "--target", "price", *options).code == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    assert files[0].read_bytes() != files[2].read_bytes()


@pytest.mark.parametrize(
    ("cells", "task", "why"),
    [
        (["yes", "no"] * 20, "classification", "text"),
        (["True", "False"] * 20, "classification", "text"),
        (["0", "1"] * 20, "classification", "2 different whole numbers"),
        (["1.0", "2.0", "3.0", "4.0"] * 10, "classification", "4 different whole numbers"),
        ([str(i) for i in range(40)], "regression", "numbers"),
        (["0.5", "1.5"] * 20, "regression", "numbers"),
    ],
)
def test_task_is_decided_by_the_target_and_said(mercer, tmp_path, cells, task, why):
    rng = np.random.default_rng(0)
    table = write(tmp_path / "t.csv", {"x": rng.standard_normal(40).tolist(), "y": cells})
    outcome = mercer("fit", table, "--target", "y", "-o", tmp_path / "m")
    assert outcome.code == 0, outcome
    assert f"{task}: 'y' holds {why}" in line(outcome, "target")


def test_classification_is_scored_by_accuracy(mercer, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(100)
    labels = np.where(x > 0, "up", "down").tolist()
    table = write(tmp_path / "t.csv", {"x": x.tolist(), "y": labels})
    for label, options in (("leave-one-out", ()), ("held out", ("--test-fraction", "0.2"))):
        out = ("-o", tmp_path / "m", "--force", *options)
        outcome = mercer("fit", table, "--target", "y", *out)
        assert outcome.code == 0, outcome
        right = float(re.search(r"([0-9.]+) % right", line(outcome, label))[1])
        assert right > 85
        assert re.search("most frequent class: .*, linear model: [0-9.]+ %", line(outcome, label))


def test_whole_number_classes_stay_whole(mercer, tmp_path):
    x = np.linspace(-1, 1, 40)
    table = write(tmp_path / "t.csv", {"x": x.tolist(), "y": (x > 0).astype(int).tolist()})
    assert mercer("fit", table, "--target", "y", "-o", tmp_path / "m").code == 0
    assert library.load(tmp_path / "m").classes_.tolist() == [0, 1]


def test_rows_without_target_are_left_out_and_said(mercer, tmp_path):
    columns = house_columns()
    columns["price"][3] = ""
    columns["price"][7] = "NA"
    table = write(tmp_path / "t.csv", columns)
    outcome = mercer("fit", table, "--target", "price", "-o", tmp_path / "m")
    assert "58 of" in line(outcome, "rows")
    assert "2 without a value of 'price' left out" in line(outcome, "rows")


def test_missing_cells_are_no_obstacle(mercer, tmp_path):
    columns = house_columns()
    for name in ("area", "rooms", "town"):
        columns[name][5] = columns[name][11] = ""
    table = write(tmp_path / "t.csv", columns)
    outcome = mercer("fit", table, "--target", "price", "-o", tmp_path / "m")
    assert outcome.code == 0, outcome
    assert line(outcome, "categories") == "1: town (3 + missing)"
    assert line(outcome, "numbers") == "2: area (2 filled), rooms (2 filled)"
    said = mercer("info", tmp_path / "m")
    assert line(said, "numbers") == line(outcome, "numbers")
    assert line(said, "categories") == line(outcome, "categories")


def test_useless_columns_are_left_out_and_said(mercer, tmp_path):
    n = 210
    columns = house_columns(n) | {
        "id": [f"house-{i}" for i in range(n)],
        "country": ["DE"] * n,
        "one": [1] * n,
        "void": [""] * n,
    }
    table = write(tmp_path / "t.csv", columns)
    outcome = mercer("fit", table, "--target", "price", "-o", tmp_path / "m")
    said = line(outcome, "left out")
    for text in (
        "'id': 210 different texts",
        "'country': it has the same",
        "'one'",
        "'void': it is",
    ):
        assert text in said
    assert set(library.load(tmp_path / "m").encoder_.columns_) == {"area", "rooms", "town"}


def test_max_rows(mercer, houses, tmp_path):
    outcome = mercer("fit", houses, "--target", "price", "--max-rows", "30", "-o", tmp_path / "m")
    assert "30 of" in line(outcome, "rows")
    assert "at random from 60" in line(outcome, "rows")


@pytest.mark.parametrize("target", [[1.0, 5.0, 2.5], ["a", "b", "a"]])
def test_a_table_of_three_rows_deserves_a_word(mercer, tmp_path, target):
    table = write(tmp_path / "three.csv", {"x": [1.0, 2.0, 4.0], "y": target})
    outcome = mercer("fit", table, "--target", "y", "-o", tmp_path / "m.mercer")
    assert outcome.code == 0, outcome
    assert "3 rows are too few to learn from" in line(outcome, "remark")
    assert line(outcome, "leave-one-out") == "3 rows: too few for a score"
    assert "R²" not in outcome.out and "%" not in outcome.out and "by class" not in outcome.out
    assert "too few for a score" in mercer("info", tmp_path / "m.mercer").out


def test_long_names_of_columns_are_cut(mercer, tmp_path):
    columns = {"a" * 90_000: range(12), "b" * 90_000: list("uv" * 6), "c" * 70: range(1, 13)}
    table = write(tmp_path / "t.csv", columns)
    outcome = mercer("fit", table, "--target", "b" * 90_000, "-o", tmp_path / "m.mercer")
    assert outcome.code == 0 and max(map(len, outcome.out.splitlines())) < 2000, outcome
    assert line(outcome, "numbers") == f"2: {'a' * 59}…, {'c' * 59}…"
    assert max(map(len, mercer("info", tmp_path / "m.mercer").out.splitlines())) < 2000


def test_few_rows_hold_out_none(mercer, tmp_path):
    table = write(tmp_path / "t.csv", {"x": [1, 2, 4, 5], "y": [1.5, 2.5, 4.5, 5.5]})
    outcome = mercer("fit", table, "--target", "y", "-o", tmp_path / "m")
    assert outcome.code == 0, outcome
    assert "held out" not in outcome.out
    assert "leave-one-out" in outcome.out


def test_parquet_gives_the_same_model(mercer, houses, tmp_path):
    table = tmp_path / "t.parquet"
    pq.write_table(pa.table(house_columns()), table)
    for source, name in ((houses, "a"), (table, "b")):
        assert mercer("fit", source, "--target", "price", "-o", tmp_path / name).code == 0
    columns = house_columns(seed=5)
    np.testing.assert_array_equal(
        library.load(tmp_path / "a").predict(columns), library.load(tmp_path / "b").predict(columns)
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("y,x\n", "a header but no rows"),
        ("y,x\n1,2\n1\n", "line 3 has 1 cells"),
        ("y,x,x\n1,2,3\n", "two columns are called 'x'"),
        ("z,x\n1,2\n", "no target column 'y'; its columns are 'z', 'x'"),
        ("Y,x\n1,2\n", "no target column 'y'; did you mean 'Y'?"),
        ("y,x\n,2\nNA,3\n", "the target column 'y' is empty"),
        ("y,x\n1,2\n", "at least two are needed"),
        ("y\n1\n2\n", "no column is left"),
        ("y,x\n1,7\n2,7\n", "no column is left"),
        ("y,x\na,1\na,2\n", "every row has the class a"),
        ("y,x\n" + "".join(f"5,{i}\n" for i in range(30)), "every row has the value 5 in 'y'"),
        ("y,x\n" + "".join(f"0.0,{i}\n" for i in range(30)), "every row has the value 0 in 'y'"),
        ("y,x\n0.3,1\n0.30000000000000004,2\n0.3,3\n", "every row has the value 0.3"),
        ("y,x\na,1\nb,2\nc,3\nd,4\n", "4 classes in 4 rows"),
        ("y,x\n1,2\n3,inf\n", "line 3, column 'x': 'inf'"),
        ("y,x\n1,2\ninf,3\n", "line 3, column 'y': 'inf'"),
        ("y,x\n" + "1,2\n" * 10 + "3,two\n", "line 12, column 'x': 'two'"),
    ],
)
def test_tables_that_are_refused(fails, tmp_path, text, message):
    table = tmp_path / "t.csv"
    table.write_text(text)
    error = fails("fit", table, "--target", "y", "-o", tmp_path / "m")
    assert message in error
    assert "t.csv" in error
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("cell", ["7", "-2.5"])
def test_a_constant_target_is_refused_whatever_the_task(fails, tmp_path, task, cell):
    table = write(tmp_path / "t.csv", {"x": range(30), "y": [cell] * 30})
    error = fails("fit", table, "--target", "y", "--task", task, "-o", tmp_path / "m")
    assert (
        f"every row has the {'value' if task == 'regression' else 'class'} {cell} in 'y'" in error
    )


def test_other_refusals(fails, houses, tmp_path):
    out = tmp_path / "m"
    fit = ("fit", houses, "--target", "price", "-o", out)
    assert "no column 'garden'" in fails(*fit, "--drop", "garden")
    assert "no column 'garden'" in fails(*fit, "--categorical", "garden")
    assert "'price' is the target" in fails(*fit, "--drop", "price")
    wrong_task = ("fit", houses, "--target", "town", "--task", "regression", "-o", out)
    assert "line 2, column 'town': " in fails(*wrong_task)
    assert "is not a known encoding" in fails(*fit, "--encoding", "klingon")
    assert "No such file" in fails("fit", tmp_path / "none.csv", "--target", "y", "-o", out)
    assert "is a directory" in fails("fit", tmp_path, "--target", "y", "-o", out)
    assert "--memory" in fails(*fit, "--memory", "1KB")
    assert not out.exists()


def test_memory_budget(fails, mercer, tmp_path):
    table = write(tmp_path / "t.csv", house_columns(500))
    words = ("fit", table, "--target", "price", "--memory", "400KB", "-o", tmp_path / "m")
    error = fails(*words, "--model", "ridge")
    assert "--max-rows or --memory" in error
    assert not (tmp_path / "m").exists()
    # a feature machine learns from as many rows as there is memory for
    outcome = mercer(*words, "--time", "0.001")
    assert outcome.code == 0 and "centres" in outcome.out, outcome


def test_not_utf8(fails, tmp_path):
    table = tmp_path / "t.csv"
    table.write_bytes("x,y\n1,größe\n".encode("latin-1"))
    assert "line 2 is not utf-8" in fails("fit", table, "--target", "y", "-o", tmp_path / "m")


def test_nothing_is_overwritten_unasked(fails, mercer, houses, tmp_path):
    out = tmp_path / "m"
    out.write_text("precious")
    assert "--force" in fails("fit", houses, "--target", "price", "-o", out)
    assert out.read_text() == "precious"
    assert "also the input" in fails("fit", houses, "--target", "price", "--force", "-o", houses)
    assert mercer("fit", houses, "--target", "price", "--force", "-o", out).code == 0
    assert library.load(out)


def test_a_failure_after_force_leaves_the_old_file(fails, tmp_path):
    out = tmp_path / "m"
    out.write_text("precious")
    table = write(tmp_path / "t.csv", {"x": [1, 2], "y": ["a", "a"]})
    fails("fit", table, "--target", "y", "--force", "-o", out)
    assert out.read_text() == "precious"


def test_outputs_that_cannot_be_written(fails, houses, tmp_path):
    fit = ("fit", houses, "--target", "price", "-o")
    assert "is a directory" in fails(*fit, tmp_path)
    assert "does not exist" in fails(*fit, tmp_path / "none" / "m")
    assert "is a directory" in fails(*fit, "")
    assert "device" in fails(*fit, "/dev/null", "--force")


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(
    fails, houses, tmp_path, monkeypatch
):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    monkeypatch.setattr(sys.modules["mercer.cli.fit"], "read_table", None)
    error = fails("fit", houses, "--target", "price", "-o", tmp_path / "m")
    assert "cannot be written" in error


def test_odd_names(mercer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    columns = house_columns()
    columns = {f"={n} é,\n": c for n, c in columns.items()}
    write(tmp_path / "-my table.csv", columns)
    outcome = mercer(
        "fit", "--target", "=price é,", "--output=-my model.mercer", "--", "-my table.csv"
    )
    assert outcome.code == 0, outcome
    outcome = mercer("predict", "--", "-my model.mercer", "-my table.csv")
    assert outcome.code == 0, outcome
    assert outcome.out.startswith('"predicted_=price é,"\n')


def test_categories_not_kept_are_counted(mercer, tmp_path):
    rng = np.random.default_rng(0)
    code = [f"c{i}" for i in rng.integers(0, 30, 120)]
    distinct = len(set(code))
    table = write(tmp_path / "t.csv", {"c": code, "y": rng.standard_normal(120).tolist()})
    fit = ("fit", table, "--target", "y", "--no-tune", "-o", tmp_path / "m", "--force")
    assert line(mercer(*fit), "categories") == f"1: c ({distinct})"
    outcome = mercer(*fit, "--max-categories", 7)
    assert line(outcome, "categories") == f"1: c (7 of {distinct} kept)"
    assert line(mercer("info", tmp_path / "m"), "categories") == f"1: c (7 of {distinct} kept)"
    assert len(library.load(tmp_path / "m").encoder_.categories_[0]) == 7


@pytest.mark.parametrize("n", [10, 40, 210])
def test_identifiers_and_dates_are_left_out_of_tables_of_any_size(mercer, tmp_path, n):
    columns = house_columns(n) | {
        "id": [f"h{i}" for i in range(n)],
        "sold": [f"{2000 + i}-01-31" for i in range(n)],
    }
    table = write(tmp_path / "t.csv", columns)
    fit = ("fit", table, "--target", "price", "--no-tune", "-o", tmp_path / "m", "--force")
    said = line(mercer(*fit), "left out")
    assert f"'id': {n} different texts, as names or identifiers have" in said
    assert f"'sold': {n} different texts, looks like dates: convert to days" in said
    assert "id (" in line(mercer(*fit, "--categorical", "id"), "categories")


def test_the_model_kept_is_tuned_on_all_rows(mercer, houses, tmp_path):
    models = []
    for name, fraction in (("a", 0), ("b", 0.2), ("c", 0.5)):
        path = tmp_path / name
        options = ("--model", "ridge", "--test-fraction", fraction, "-o", path)
        outcome = mercer("fit", houses, "--target", "price", *options)
        assert "tuned and fitted on all 60 rows" in line(outcome, "wrote")
        models.append(library.load(path))
    assert "by a model tuned and fitted on the other 30 rows" in line(outcome, "held out")
    for model in models[1:]:
        assert model.kernel_ == models[0].kernel_
        assert model.alpha_ == models[0].alpha_


@pytest.mark.parametrize("option", [(), ("--decimal", ",")])
def test_decimal_commas(mercer, tmp_path, option):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(30)
    comma = [f"{v:.3f}".replace(".", ",") for v in x]
    table = tmp_path / "t.csv"
    table.write_text("x;z;y\n" + "".join(f"{c};{i % 3};{c}\n" for i, c in enumerate(comma)))
    fit = ("fit", table, "--target", "y", "-o", tmp_path / "m")
    if option:
        outcome = mercer(*fit, *option)
        assert (outcome.code, outcome.err) == (0, "")
        assert line(outcome, "numbers") == "2: x, z"
        answer = mercer("predict", tmp_path / "m", table, *option).out.splitlines()[1:]
        assert np.corrcoef([float(a) for a in answer], x)[0, 1] > 0.95
        assert "decimal comma? use --decimal ," in mercer("predict", tmp_path / "m", table).err
    else:
        outcome = mercer(*fit)
        assert outcome.code == 1
        assert "column 'y' is read as text but looks like numbers" in outcome.err
        assert "decimal comma? use --decimal ," in outcome.err


def test_numbers_in_another_notation_are_never_dropped_silently(mercer, tmp_path):
    columns = house_columns()
    columns["share"] = [f"{i} %" for i in range(60)]
    columns["cost"] = [f"{i},{i:03d}" for i in range(100, 160)]
    table = write(tmp_path / "t.csv", columns)
    outcome = mercer("fit", table, "--target", "price", "--no-tune", "-o", tmp_path / "m")
    assert outcome.code == 0
    one, two = outcome.err.splitlines()
    assert "column 'share' is read as text" in one and "'0 %': percent signs?" in one
    assert "column 'cost' is read as text" in two and "thousands separators?" in two
    assert "see the warning" in line(outcome, "left out")
    fit = ("fit", table, "--target", "price", "--no-tune", "--force", "-o", tmp_path / "m")
    assert mercer(*fit, "--drop", "share", "--categorical", "cost").err == ""


def test_what_is_wrong_with_the_target_has_a_cure_that_works(mercer, fails, tmp_path):
    columns = house_columns(40)
    fit = ("--target", "price", "-o", tmp_path / "m", "--force")
    price = columns["price"]
    odd = write(tmp_path / "inf.csv", columns | {"price": [*price[:5], "inf", *price[6:]]})
    said = fails("fit", odd, *fit)
    assert "line 7, column 'price': 'inf' in a column of numbers; correct this cell" in said
    assert "--drop" not in said
    empty = write(tmp_path / "empty.csv", columns | {"price": [*price[:5], "", *price[6:]]})
    assert mercer("fit", empty, *fit).code == 0
    days = [f"{2000 + i}-01-31" for i in range(40)]
    dated = write(tmp_path / "dated.csv", columns | {"price": days})
    for options in ((), ("--task", "regression")):
        said = fails("fit", dated, *fit, *options)
        assert "the target 'price' holds dates" in said and "days since a fixed date" in said


def test_too_few_rows_are_refused_in_the_words_of_options(mercer, fails, houses, tmp_path):
    fit = ("--target", "price", "-o", tmp_path / "m", "--force")
    for model, needed in (("features", 5), ("ridge", 2)):
        said = fails("fit", houses, *fit, "--model", model, "--test-fraction", "0.99")
        assert f"--test-fraction 0.99 leaves 1 of 60 rows to learn from, and {needed} or" in said
    said = fails("fit", houses, "--target", "town", *fit[2:], "--test-fraction", "0.99")
    assert "--test-fraction 0.99 leaves" in said and "of two classes" in said
    few = write(tmp_path / "few.csv", house_columns(3))
    said = fails("fit", few, *fit, "--model", "features")
    assert "--model features needs 5 rows with a target, and there are 3; give --model ri" in said
    assert mercer("fit", few, *fit, "--model", "ridge").code == 0
