"""``mercer predict`` and ``mercer info``: outputs, formulas, every table and model they refuse."""

import csv
import io

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mercer as library
from tests.cli.houses import house_columns, write


def cells(text):
    return list(csv.reader(io.StringIO(text, newline="")))


def test_standard_output(mercer, house_model, houses):
    outcome = mercer("predict", house_model, houses)
    assert (outcome.code, outcome.err) == (0, "")
    rows = cells(outcome.out)
    assert rows[0] == ["predicted_price"]
    columns = house_columns()
    expected = library.load(house_model).predict(columns)
    np.testing.assert_array_equal([float(r[0]) for r in rows[1:]], expected)


def test_order_of_columns_and_further_columns_do_not_matter(mercer, house_model, houses, tmp_path):
    columns = house_columns()
    other = {"note": ["=1+1"] * 60, "town": columns["town"], "rooms": columns["rooms"]}
    table = write(tmp_path / "t.csv", other | {"area": columns["area"]})
    assert mercer("predict", house_model, table).out == mercer("predict", house_model, houses).out


def test_files_hold_what_standard_output_says(mercer, house_model, houses, tmp_path):
    text = mercer("predict", house_model, houses, "--keep", "town", "rooms").out
    for name in ("o.csv", "o.parquet"):
        outcome = mercer(
            "predict", house_model, houses, "--keep", "town", "rooms", "-o", tmp_path / name
        )
        assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    assert (tmp_path / "o.csv").read_bytes() == text.encode()
    frame = pl.read_parquet(tmp_path / "o.parquet")
    assert frame.columns == ["town", "rooms", "predicted_price"]
    assert [float(r[2]) for r in cells(text)[1:]] == frame["predicted_price"].to_list()


def test_parquet_in(mercer, house_model, houses, tmp_path):
    pq.write_table(pa.table(house_columns()), tmp_path / "t.parquet")
    one = mercer("predict", house_model, tmp_path / "t.parquet")
    assert one.out == mercer("predict", house_model, houses).out


def test_unknown_and_missing_cells_are_predicted(mercer, house_model, tmp_path):
    table = write(
        tmp_path / "t.csv", {"area": ["", "80"], "rooms": [3, "NA"], "town": ["moon", ""]}
    )
    outcome = mercer("predict", house_model, table)
    assert outcome.code == 0, outcome
    assert all(np.isfinite(float(row[0])) for row in cells(outcome.out)[1:])


def test_categories_that_look_like_numbers_stay_categories(mercer, tmp_path):
    rng = np.random.default_rng(0)
    code = rng.choice(["1", "2", "x"], 60).tolist()
    y = [{"1": 10.0, "2": -10.0, "x": 0.0}[c] + rng.normal() for c in code]
    table = write(tmp_path / "t.csv", {"c": code, "y": y})
    assert mercer("fit", table, "--target", "y", "-o", tmp_path / "m").code == 0
    new = write(tmp_path / "n.csv", {"c": [1, 2]})
    one, two = (float(row[0]) for row in cells(mercer("predict", tmp_path / "m", new).out)[1:])
    assert one > 5 > -5 > two


FORMULAS = ["=cmd()", "+cmd", "-cmd", "@cmd", "\tcmd", "\rcmd"]


@pytest.fixture
def formula_model(mercer, tmp_path):
    x = np.linspace(0, 1, 60)
    table = write(tmp_path / "t.csv", {"x": x.tolist(), "=y": np.repeat(FORMULAS, 10).tolist()})
    outcome = mercer("fit", table, "--target", "=y", "-o", tmp_path / "m")
    assert outcome.code == 0, outcome
    return tmp_path / "m"


def test_formulas_are_neutralised_unless_asked(mercer, formula_model, tmp_path):
    columns = {"x": [-1.5] * 6, "t": FORMULAS, "n": ["-7"] * 6}
    table = write(tmp_path / "n.csv", columns)
    keep = ("--keep", "t", "n", "x")
    safe = cells(mercer("predict", formula_model, table, *keep).out)
    raw = cells(mercer("predict", formula_model, table, *keep, "--raw-csv").out)
    assert [r[0] for r in safe[1:]] == ["'" + f for f in FORMULAS]
    assert [r[0] for r in raw[1:]] == FORMULAS
    assert {r[1] for r in safe[1:]} == {"-7"}
    assert {r[2] for r in safe[1:]} == {"-1.5"}
    assert all(r[3].startswith("'") for r in safe[1:])
    assert all(r[3] in FORMULAS for r in raw[1:])


def test_text_where_numbers_belong_names_column_and_line(fails, house_model, tmp_path):
    table = write(
        tmp_path / "t.csv", {"area": [50, "big"], "rooms": [1, 2], "town": ["north", "north"]}
    )
    error = fails("predict", house_model, table, "-o", tmp_path / "o.csv")
    assert "t.csv: line 3, column 'area': 'big' is not a number" in error
    assert not (tmp_path / "o.csv").exists()


def test_missing_columns_are_named(fails, house_model, tmp_path):
    table = write(tmp_path / "t.csv", {"area": [50], "towns": ["x"]})
    error = fails("predict", house_model, table)
    assert "missing columns 'rooms', 'town'" in error
    assert "the table has 'area', 'towns'" in error


def test_a_column_in_another_case_is_offered(fails, house_model, tmp_path):
    table = write(tmp_path / "t.csv", {"Area": [50], "rooms": [1], "town": ["west"]})
    error = fails("predict", house_model, table)
    assert "missing column 'area', which the model was fitted on; did you mean 'Area'?" in error


def test_columns_of_no_use_are_said(mercer, house_model, tmp_path):
    def said(**other):
        columns = {"area": [50, 60, 70], "rooms": [1, 2, 3], "town": ["west"] * 3} | other
        table = write(tmp_path / "t.csv", columns)
        outcome = mercer("predict", house_model, table)
        assert outcome.code == 0, outcome
        return outcome.err

    assert said() == said(town=["west", "moon", ""]) == said(area=[1, "", ""]) == ""
    error = said(town=["sun", "moon", "west"])
    assert error.count("\n") == 1
    assert "column 'town': 2 of 3 values are unknown to the model, such as 'sun'" in error
    assert "it knows 'north', 'south', 'west'." in error
    assert "column 'area' is empty in all rows; the median" in said(area=["NA", "", "."])
    assert "column 'town' is empty in all rows" in said(town=["", "", ""])


def test_tabs_in_a_tsv_file(mercer, house_model, houses, tmp_path):
    plain = mercer("predict", house_model, houses, "--keep", "town", "-o", "-").out
    assert (
        mercer("predict", house_model, houses, "--keep", "town", "-o", tmp_path / "o.tsv").code == 0
    )
    assert (tmp_path / "o.tsv").read_text() == plain.replace(",", "\t")


def test_refused_models(fails, house_model, houses, tmp_path):
    assert "No such file" in fails("predict", tmp_path / "none", houses)
    assert "is a directory" in fails("predict", tmp_path, houses)
    assert "cannot be read" in fails("predict", houses, houses)
    damaged = tmp_path / "d.mercer"
    data = bytearray(house_model.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    assert "cannot be read" in fails("predict", damaged, houses)
    assert "cannot be read" in fails("info", damaged)
    damaged.write_bytes(data[:100])
    assert "cannot be read" in fails("predict", damaged, houses)
    plain = tmp_path / "p.mercer"
    library.save(library.KernelRidge().fit([[0.0], [1.0]], [0.0, 1.0]), plain)
    assert "holds a KernelRidge" in fails("predict", plain, houses)
    library.save(library.TableRegressor().fit([[0.0], [1.0]], [0.0, 1.0]), plain)
    assert "without column names" in fails("predict", plain, houses)


def test_outputs_are_protected(fails, mercer, house_model, houses, tmp_path):
    out = tmp_path / "o.csv"
    out.write_text("precious")
    assert "--force" in fails("predict", house_model, houses, "-o", out)
    assert out.read_text() == "precious"
    model = tmp_path / "model.csv"
    model.write_bytes(house_model.read_bytes())
    for same in (houses, model):
        before = same.read_bytes()
        assert "input" in fails("predict", model, houses, "-o", same, "--force")
        assert same.read_bytes() == before
    assert mercer("predict", house_model, houses, "-o", out, "--force").code == 0
    assert out.read_text().startswith("predicted_price")
    assert "no column 'nope'" in fails("predict", house_model, houses, "--keep", "nope")
    assert [p for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_info(mercer, house_model):
    outcome = mercer("info", house_model)
    assert outcome.code == 0, outcome
    for text in (
        "TableRegressor", "'price', regression", "60 rows of houses.csv", "2: area, rooms",
        "1: town (3)", "feature machine", "importance", "R²", library.__version__,
    ):  # fmt: skip
        assert text in outcome.out


def test_info_of_any_model(mercer, tmp_path):
    path = tmp_path / "m"
    library.save(library.KernelRidge("linear", alpha=0.5).fit([[0.0], [1.0]], [0.0, 1.0]), path)
    outcome = mercer("info", path)
    assert outcome.code == 0, outcome
    assert "KernelRidge(alpha=0.5, kernel='linear')" in outcome.out
    assert "1, without names" in outcome.out and "2 rows\n" in outcome.out


def test_info_of_centres(mercer, tmp_path):
    rows = {"width": [0.0, 1, 2, 3, 4, 5], "height": [1.0, 0, 2, 1, 3, 5]}
    frame = pytest.importorskip("pandas").DataFrame(rows)
    model = library.KernelRidgeClassifier("rbf", n_centers=3, random_state=0)
    library.save(model.fit(frame, ["low"] * 3 + ["high"] * 3), tmp_path / "m")
    outcome = mercer("info", tmp_path / "m")
    for text in ("width, height", "high, low", "6 rows, by 3 centres", "converged, relative"):
        assert text in outcome.out


def test_info_of_a_classifier(mercer, formula_model):
    outcome = mercer("info", formula_model)
    assert outcome.code == 0, outcome
    assert "=cmd()" in outcome.out
    assert "\r" not in outcome.out


def test_intervals(mercer, fitted_once, houses, tmp_path):
    outcome = mercer("predict", fitted_once, houses, "--interval", "0.8", "--keep", "price")
    assert (outcome.code, outcome.err) == (0, "")
    rows = list(csv.DictReader(io.StringIO(outcome.out)))
    assert list(rows[0]) == ["price", "predicted_price", "lower_price", "upper_price"]
    ends = np.array([[float(r["lower_price"]), float(r["upper_price"])] for r in rows])
    model = library.load(fitted_once)
    columns = house_columns()
    table = {name: columns[name] for name in model.encoder_.columns_}
    assert ends == pytest.approx(np.column_stack(model.predict_interval(table, 0.8)), rel=1e-9)
    truth = np.array([float(r["price"]) for r in rows])
    assert np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])) >= 0.6
    for bad in ("0", "1", "90", "x"):
        assert mercer("predict", fitted_once, houses, "--interval", bad).code == 2


def test_intervals_of_classes_are_refused_with_the_cure(mercer, fails, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=30)
    table = write(tmp_path / "t.csv", {"x": x.tolist(), "y": np.where(x > 0, "a", "b").tolist()})
    path = tmp_path / "m.mercer"
    for model, cure in (
        ("svc", "; give --probabilities"),
        ("ridge", "--model svc and give --prob"),
    ):
        words = ("--no-tune", "--model", model, "--force", "-o", path)
        assert mercer("fit", table, "--target", "y", *words).code == 0
        said = fails("predict", path, tmp_path / "nowhere.csv", "--interval", "0.9")
        assert "predicts classes" in said and cure in said
    assert mercer("predict", path, table, "--keep", "x").code == 0


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A table of numbers, and how to save a model that was fitted on it."""
    home, rng = tmp_path_factory.mktemp("saved"), np.random.default_rng(0)
    frame = pl.DataFrame({"a": rng.normal(size=40), "b": rng.normal(size=40)})
    y = frame["a"].to_numpy() + 0.1 * rng.normal(size=40)
    frame.write_csv(home / "t.csv")

    def save(model):
        library.save(model.fit(frame, y), home / f"{type(model).__name__}.mercer")
        return home / f"{type(model).__name__}.mercer", home / "t.csv", model, frame

    return save


@pytest.mark.parametrize("name", ["GaussianProcessRegressor", "SparseGaussianProcessRegressor"])
def test_intervals_of_processes_are_those_of_a_new_observation(mercer, saved, name):
    path, table, model, frame = saved(getattr(library, name)(library.RBF(1.0)))
    outcome = mercer("predict", path, table, "--interval", "0.9")
    assert (outcome.code, outcome.err) == (0, "")
    _, *rows = cells(outcome.out)
    mean, std = model.predict(frame, return_std=True)
    ends = np.column_stack([mean, mean - 1.6448536 * std, mean + 1.6448536 * std])
    assert np.array(rows, float) == pytest.approx(ends, rel=1e-6)


def test_intervals_between_quantiles_that_the_model_has(mercer, fails, saved):
    levels = [0.5, 0.9, 0.1]
    quantiles = library.KernelQuantileRegressor(library.RBF(1.0), quantile=levels)
    path, table, model, frame = saved(quantiles)
    _, *rows = cells(mercer("predict", path, table, "--interval", "0.8").out)
    assert np.array(rows, float)[:, 3:] == pytest.approx(model.predict(frame)[:, [2, 1]])
    said = fails("predict", path, table, "--interval", "0.9")
    assert "the quantiles 0.5, 0.9, 0.1," in said and "0.05 and 0.95" in said
    assert "or give --interval 0.8." in said
    path, *_ = saved(library.KernelQuantileRegressor(library.RBF(1.0), quantile=0.3))
    assert fails("predict", path, table, "--interval", "0.4").endswith("fit it with these.")


def test_models_without_predict_say_what_they_have(fails, saved):
    for model, says in ((library.KernelPCA(), "transform"), (library.KernelDensity(), "score_sam")):
        path, table, *_ = saved(model)
        said = fails("predict", path, table)
        assert "which has no predict; in Python, mercer.load(" in said and f".{says}" in said


def test_probabilities_of_numbers_are_refused_with_the_cure(mercer, fails, saved):
    path, table, *_ = saved(library.KernelRidge(library.RBF(1.0)))
    said = fails("predict", path, table, "--probabilities")
    assert "predicts numbers" in said and "give --interval 0.9" in said
    assert mercer("predict", path, table, "--interval", "0.9").code == 0


def test_endless_intervals_are_told(mercer, tmp_path):
    table = write(tmp_path / "t.csv", {"x": [1.0, 2.0, 4.0], "y": [1.0, 3.5, 2.0]})
    assert mercer("fit", table, "--target", "y", "-o", tmp_path / "m.mercer").code == 0
    outcome = mercer("predict", tmp_path / "m.mercer", table, "--interval", "0.9")
    assert outcome.code == 0 and ",-inf,inf" in outcome.out
    assert "too few rows for intervals" in outcome.err and "--interval" in outcome.err
