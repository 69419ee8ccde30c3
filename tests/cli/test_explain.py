"""``mercer explain``: shares that add up, which rows, which background, and what it refuses."""

import csv
import io
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mercer as library
from tests.cli.houses import house_columns, line, write

COLUMNS = ("area", "rooms", "town")


def cells(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


def numbers(rows, *names):
    return np.array([[float(row[name]) for name in names] for row in rows])


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    """A Gaussian process fitted on named columns, which keeps its points."""
    frame = pd.DataFrame(house_columns())
    model = library.GaussianProcessRegressor(library.RBF([50.0, 2.0]), noise=9.0, optimizer=None)
    model.fit(frame[["area", "rooms"]], frame["price"] / 1000)
    path = tmp_path_factory.mktemp("process") / "process.mercer"
    library.save(model, path)
    return path


@pytest.fixture(scope="module")
def three_classes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    rng = np.random.default_rng(0)
    kind = np.repeat(["a", "b", "c"], 12)
    columns = {"u": rng.normal(size=36) + 3 * (kind == "a"), "v": rng.normal(size=36)}
    columns["v"] = columns["v"] - 3 * (kind == "b")
    table = write(folder / "t.csv", {n: c.tolist() for n, c in columns.items()} | {"kind": kind})
    model = library.TableClassifier(library.RBF(1.0), model="ridge", alpha=0.1)
    library.save(model.fit(columns, kind), folder / "m")
    return folder / "m", table


def test_shares_are_those_of_the_model(mercer, house_model, houses):
    outcome = mercer("explain", house_model, houses, "--rows", "0:3", "7", "-o", "-")
    assert (outcome.code, outcome.err) == (0, "")
    rows = cells(outcome.out)
    assert [row["row"] for row in rows] == ["0", "1", "2", "7"]
    names = ["row", "predicted_price", "base", "share_area", "share_rooms", "share_town"]
    assert list(rows[0]) == names
    table = library.domains.Table({n: house_columns()[n] for n in COLUMNS})
    model = library.load(house_model)
    told = model.explain(table.take([0, 1, 2, 7]), background=table)
    np.testing.assert_array_equal(numbers(rows, *names[3:]), told.values)
    predicted, base = numbers(rows, *names[1:3]).T
    np.testing.assert_array_equal(predicted, model.predict(table)[[0, 1, 2, 7]])
    np.testing.assert_allclose(base + numbers(rows, *names[3:]).sum(axis=1), predicted)


def test_the_report_names_the_largest_shares(mercer, house_model, houses, tmp_path):
    out = tmp_path / "o.csv"
    outcome = mercer("explain", house_model, houses, "--rows", "4", "--top", "1", "-o", out)
    assert (outcome.code, outcome.err) == (0, "")
    (row,) = cells(out.read_text())
    shares = {name: float(row[f"share_{name}"]) for name in COLUMNS}
    largest = max(shares, key=lambda name: abs(shares[name]))
    head, first, rest = outcome.out.splitlines()[-3:]
    assert head.startswith("row 4 ") and "line 6: price " in head and ", base " in head
    value = first.rpartition(": ")[2]
    assert first.strip().startswith(f"{largest} = ") and value[0] in "+-"
    assert float(value) == pytest.approx(shares[largest], rel=1e-3)
    assert rest.strip().startswith("2 other columns: ")
    assert line(outcome, "background").startswith("the 60 rows of ")


def test_ten_rows_are_explained_where_none_are_named(mercer, house_model, houses, tmp_path):
    few = write(tmp_path / "few.csv", house_columns(4))
    for table, count in ((houses, 10), (few, 4)):
        assert len(cells(mercer("explain", house_model, table, "-o", "-").out)) == count
    assert len(cells(mercer("explain", house_model, houses, "--rows", ":", "-o", "-").out)) == 60


def test_a_background_may_be_another_table(mercer, house_model, houses, tmp_path):
    other = write(tmp_path / "other.csv", house_columns(7, seed=5))
    outcome = mercer("explain", house_model, houses, "--background", other, "-o", "-")
    base = {row["base"] for row in cells(outcome.out)}
    model = library.load(house_model)
    assert base == {str(model.explain(house_columns(), background=house_columns(7, 5)).base)}
    report = mercer("explain", house_model, houses, "--background", other)
    assert line(report, "background") == f"7 of 7 rows of {other}"


def test_parts_of_a_table_make_no_difference(mercer, house_model, houses, monkeypatch, tmp_path):
    arguments = ("explain", house_model, houses, "--rows", "3", "25:31", "59", "-o", "-")
    whole = mercer(*arguments)
    module = sys.modules["mercer.cli.explain"]
    real = module.table_batches

    def parts(*where):
        (table,) = real(*where)
        for start in range(0, 60, 23):
            yield table.take(range(start, min(60, start + 23)))

    monkeypatch.setattr(module, "table_batches", parts)
    assert mercer(*arguments).out == whole.out
    assert "line 61: price" in mercer("explain", house_model, houses, "--rows", "59").out


def test_parquet_in_and_out(mercer, house_model, houses, tmp_path):
    pq.write_table(pa.table(house_columns()), tmp_path / "t.parquet")
    text = mercer("explain", house_model, houses, "-o", "-").out
    assert mercer("explain", house_model, tmp_path / "t.parquet", "-o", "-").out == text
    assert mercer("explain", house_model, houses, "-o", tmp_path / "o.parquet").code == 0
    found = pq.read_table(tmp_path / "o.parquet").to_pylist()
    assert [row["share_area"] for row in found] == [float(r["share_area"]) for r in cells(text)]


def test_classes_have_a_row_for_each_output(mercer, three_classes):
    model, table = three_classes
    rows = cells(mercer("explain", model, table, "--rows", "0", "20", "-o", "-").out)
    assert [row["output"] for row in rows] == ["a", "b", "c"] * 2
    assert [
        row["predicted_kind" if "predicted_kind" in row else "predicted_y"] for row in rows
    ] == [
        *("aaa"),
        *("bbb"),
    ]
    value, base = numbers(rows, "value", "base").T
    shares = numbers(rows, "share_u", "share_v")
    np.testing.assert_allclose(base + shares.sum(axis=1), value)
    columns = {n: [float(r[n]) for r in cells(table.read_text())] for n in ("u", "v")}
    expected = library.load(model).decision_function(columns)[[0, 20]]
    np.testing.assert_allclose(value, expected.ravel())
    report = mercer("explain", model, table, "--rows", "0").out
    assert "value of a " in report and "value of b " not in report  # of the class that it says


def test_of_two_classes_the_report_says_what_is_above_zero(mercer, tmp_path):
    x = np.linspace(-1, 1, 30)
    kind = np.where(x > 0, "yes", "no")
    model = library.TableClassifier(library.RBF(1.0), model="ridge", alpha=0.1)
    library.save(model.fit({"x": x, "z": x**2}, kind), tmp_path / "m")
    table = write(tmp_path / "t.csv", {"x": x.tolist(), "z": (x**2).tolist()})
    report = mercer("explain", tmp_path / "m", table)
    assert "above 0 it says 'yes', below 'no'" in line(report, "value")
    rows = cells(mercer("explain", tmp_path / "m", table, "--rows", ":", "-o", "-").out)
    assert all((float(r["value"]) > 0) == (r["predicted_y"] == "yes") for r in rows)


@pytest.mark.parametrize("game", ["marginal", "background", "baseline"])
def test_a_model_that_keeps_its_points_has_all_games(game, mercer, process, houses):
    outcome = mercer("explain", process, houses, "--game", game, "-o", "-")
    assert (outcome.code, outcome.err) == (0, "")
    X = np.column_stack([house_columns()[n] for n in ("area", "rooms")])
    told = library.load(process).explain(X[:10], game=game)
    np.testing.assert_allclose(
        numbers(cells(outcome.out), "share_area", "share_rooms"), told.values, rtol=1e-12
    )
    report = mercer("explain", process, houses, "--game", game)
    whence = "none" if game == "baseline" else "points that the model keeps"
    assert line(report, "background").startswith(whence)
    if game != "baseline":
        assert "posterior" in line(report, "errors") and "(± " in report.out


def test_marginal_is_the_game_of_a_model_that_keeps_its_points(mercer, process, houses):
    plain = mercer("explain", process, houses, "-o", "-").out
    assert plain == mercer("explain", process, houses, "--game", "marginal", "-o", "-").out
    some = mercer("explain", process, houses, "--background", houses, "-o", "-").out
    X = np.column_stack([house_columns()[n] for n in ("area", "rooms")])
    told = library.load(process).explain(X[:10], background=X)
    np.testing.assert_allclose(numbers(cells(some), "base")[:, 0], told.base)


def test_cells_that_look_like_formulas_are_neutralised(mercer, tmp_path):
    columns = house_columns()
    town = ["=cmd()" if t == "west" else t for t in columns["town"]]
    given = {"=area": columns["area"], "town": town}
    model = library.TableRegressor(library.RBF(1.0)).fit(given, columns["price"])
    library.save(model, tmp_path / "m")
    table = write(tmp_path / "t.csv", {**given, "@id": ["+x"] * 60})
    arguments = ("explain", tmp_path / "m", table, "--keep", "town", "@id", "-o", "-")
    head, *rows = csv.reader(io.StringIO(mercer(*arguments).out))
    assert head[:3] == ["row", "town", "'@id"] and "share_=area" in head
    assert {row[1] for row in rows} <= {"'=cmd()", "north", "south"}
    assert {row[2] for row in rows} == {"'+x"}
    raw = list(csv.reader(io.StringIO(mercer(*arguments, "--raw-csv").out)))
    assert raw[0][2] == "@id" and {row[2] for row in raw[1:]} == {"+x"}


def test_missing_and_unknown_cells_are_explained(mercer, house_model, houses, tmp_path):
    odd = {"area": ["", "80"], "rooms": [3, "NA"], "town": ["moon", ""]}
    table = write(tmp_path / "t.csv", odd)
    outcome = mercer("explain", house_model, table, "--background", houses)
    assert outcome.code == 0, outcome
    assert "area = missing: " in outcome.out and "town = moon: " in outcome.out


def test_what_cannot_be_explained_is_refused(fails, misused, house_model, houses, tmp_path):
    bare = tmp_path / "bare"
    library.save(library.KernelPCA(1).fit(np.ones((5, 2)) * np.arange(5)[:, None]), bare)
    assert "no predict" in fails("explain", bare, houses)
    told = fails("explain", house_model, houses, "--rows", "58:61")
    assert told.endswith("--rows 58:61; there are rows 0 to 59.")
    assert "--rows 60" in fails("explain", house_model, houses, "--rows", "60")
    assert "--rows 5:5" in fails("explain", house_model, houses, "--rows", "5:5")
    assert "--game background" in fails("explain", house_model, houses, "--game", "marginal")
    half = write(tmp_path / "half.csv", {"area": [1.0]})
    assert "missing columns" in fails("explain", house_model, half)
    assert "missing columns" in fails("explain", house_model, houses, "--background", half)
    out = tmp_path / "o.csv"
    out.write_text("mine")
    assert "--force" in fails("explain", house_model, houses, "-o", out)
    named = write(tmp_path / "named.csv", house_columns(9) | {"row": list(range(9))})
    assert "that name" in fails("explain", house_model, named, "-o", "-", "--keep", "row")
    neighbours = library.KernelNeighborsRegressor(n_neighbors=2)
    frame = pd.DataFrame(house_columns())
    library.save(neighbours.fit(frame[["area", "rooms"]], frame["price"]), tmp_path / "n")
    assert "no function of a kernel" in fails("explain", tmp_path / "n", houses)
    assert "not both" in misused("explain", house_model, "-", "--background", "-")
    baseline = ("--game", "baseline", "--background", houses)
    assert "no background" in misused("explain", house_model, houses, *baseline)


@pytest.mark.parametrize("rows", ["x", "-1", "3:2:1", "1.5", ""])
def test_rows_are_numbers_or_ranges(rows, mercer, house_model, houses):
    outcome = mercer("explain", house_model, houses, f"--rows={rows}")
    assert outcome.code == 2 and "neither a row" in outcome.err


# ---- the most important columns, at the end of mercer fit ----


def test_a_fit_of_one_kernel_names_the_columns_that_matter(mercer, tmp_path):
    columns = house_columns()
    columns["noise"] = np.random.default_rng(3).normal(size=60).round(2).tolist()
    table, path = write(tmp_path / "t.csv", columns), tmp_path / "m"
    outcome = mercer("fit", table, "--target", "price", "--model", "ridge", "-o", path)
    told = line(outcome, "importance").split(", ")
    assert told[0].startswith("area ") and told[-1].startswith("noise ")
    assert sum(int(part.split()[-2]) for part in told) == pytest.approx(100, abs=2)
    assert line(mercer("info", path), "importance") == ", ".join(told)
    model = library.load(path)
    inside, some = model.model_, np.arange(50) * 59 // 49
    groups = [[0], [1], [2, 3, 4], [5]]
    assert model.encoder_.widths == (1, 1, 3, 1)
    Z = model.encode(columns)
    sizes = inside.explain(Z[some], background=Z, groups=groups).importances
    expected = dict(zip(model.encoder_.columns_, sizes / sizes.sum(), strict=True))
    assert model.notes_["importance"] == pytest.approx(expected)


def test_a_fit_of_classes_and_of_text_names_them_too(mercer, tmp_path):
    rng = np.random.default_rng(0)
    kind = rng.choice(["p", "q"], 40)
    columns = {
        "x": (rng.normal(size=40) + 3 * (kind == "p")).round(2).tolist(),
        "z": rng.normal(size=40).round(2).tolist(),
        "note": [" ".join(rng.choice(["warm", "cold", "dry", "wet"], 6)) for _ in range(40)],
        "kind": kind.tolist(),
    }
    table = write(tmp_path / "t.csv", columns)
    for more in (["--model", "svc", "--drop", "note", "--C", "1"], ["--kernel", "columns"]):
        fit = ("fit", table, "--target", "kind", "-o", tmp_path / "m", "--force", *more)
        outcome = mercer(*fit, "--no-tune")
        assert line(outcome, "importance").startswith("x "), outcome
