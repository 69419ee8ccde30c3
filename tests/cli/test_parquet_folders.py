"""Tables larger than memory on the command line: folders of Parquet files, batch by batch."""

import re
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import mercer as library
from mercer.cli.tables import read_table
from mercer.domains.blocks import parquet as module
from mercer.errors import InvalidInput
from tests.cli.houses import house_columns


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of house prices in a file."""
    columns = house_columns()
    rows = {n: columns[n] for n in ("area", "rooms", "town")}
    fitted = library.TableRegressor("rbf", alpha=0.1).fit(rows, columns["price"])
    fitted.notes_ = {"target": "price"}
    path = tmp_path_factory.mktemp("model") / "houses.mercer"
    library.save(fitted, path)
    return path


@pytest.fixture
def folder(tmp_path):
    """The houses in three files, the columns of one in another order."""
    table = pa.table(house_columns())
    path = tmp_path / "houses"
    path.mkdir()
    parquet.write_table(table[:25], path / "0.parquet", row_group_size=4)
    parquet.write_table(table[25:26].select(table.column_names[::-1]), path / "1.pq")
    parquet.write_table(table[26:], path / "2.parquet")
    return path


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 7)


@pytest.mark.usefixtures("small_batches")
def test_a_folder_is_predicted_row_by_row(mercer, model, folder, tmp_path):
    columns = house_columns()
    expected = library.load(model).predict({n: columns[n] for n in ("area", "rooms", "town")})
    for name in ("o.parquet", "o.csv"):
        outcome = mercer("predict", model, folder, "--keep", "town", "-o", tmp_path / name)
        assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    table = parquet.read_table(tmp_path / "o.parquet")
    assert table.column_names == ["town", "predicted_price"]
    np.testing.assert_allclose(table["predicted_price"].to_numpy(), expected, rtol=1e-12)
    assert table["town"].to_pylist() == list(columns["town"])
    text = mercer("predict", model, folder, "--keep", "town").out
    assert (tmp_path / "o.csv").read_text() == text
    assert text.count("predicted_price") == 1 and len(text.splitlines()) == 61


@pytest.mark.usefixtures("small_batches")
def test_kept_columns_keep_their_type_when_a_batch_is_empty(mercer, model, folder, tmp_path):
    table = parquet.read_table(folder / "2.parquet")
    note = pa.array([None] * 20 + ["late"] * (len(table) - 20))
    day = pa.array([None] * 20 + [3] * (len(table) - 20), pa.int32())
    whole = table.append_column("note", note).append_column("day", day)
    parquet.write_table(whole, tmp_path / "t.parquet")
    out = tmp_path / "o.parquet"
    outcome = mercer("predict", model, tmp_path / "t.parquet", "--keep", "note", "day", "-o", out)
    assert outcome.code == 0, outcome
    found = parquet.read_table(out)
    assert found["note"].to_pylist() == note.to_pylist()
    assert found["day"].type == pa.int32()


@pytest.mark.usefixtures("small_batches")
def test_doubts_are_of_all_rows(mercer, model, folder, tmp_path):
    path = tmp_path / "moon"
    path.mkdir()
    table = parquet.read_table(folder / "2.parquet")
    town = table.schema.get_field_index("town")
    for name, value in (("0.parquet", "moon"), ("1.parquet", "mars")):
        other = table.set_column(town, "town", pa.array([value] * len(table)))
        parquet.write_table(other, path / name)
    outcome = mercer("predict", model, path)
    assert outcome.code == 0
    assert f"{2 * len(table)} of {2 * len(table)} values are unknown" in outcome.err
    assert "'moon'" in outcome.err and outcome.err.count("\n") == 1


@pytest.mark.usefixtures("small_batches")
def test_what_is_wrong_in_one_file_is_said_of_it_and_nothing_is_written(
    fails, model, folder, tmp_path
):
    out = tmp_path / "o.parquet"
    path = folder / "2.parquet"
    table = parquet.read_table(path)
    parquet.write_table(table.drop(["area"]), path)
    assert "2.parquet: missing column 'area'" in fails("predict", model, folder, "-o", out)
    path.write_bytes(b"PAR1 and no more")
    assert "2.parquet' is damaged" in fails("predict", model, folder, "-o", out)
    path.unlink()
    area = table.schema.get_field_index("area")
    text = ["80"] * (len(table) - 1) + ["wide"]
    parquet.write_table(table.set_column(area, "area", pa.array(text)), path)
    said = fails("predict", model, folder, "-o", out)
    assert f"2.parquet: row {len(table)}, column 'area': 'wide'" in said
    assert not out.exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["houses"]


def test_the_input_is_not_written_to(fails, model, folder):
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    for name in ("2.parquet", "new.parquet"):
        said = fails("predict", model, folder, "-o", folder / name, "--force")
        assert "is the input" in said and "another folder" in said
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


@pytest.mark.parametrize("empty", ["0.parquet", "1.pq", "2.parquet"])
def test_files_without_rows_are_passed_over(mercer, model, folder, tmp_path, empty):
    table = parquet.read_table(folder / empty)
    parquet.write_table(table[:0], folder / empty)
    out = tmp_path / "o.parquet"
    outcome = mercer("predict", model, folder, "-o", out)
    assert outcome.code == 0, outcome
    assert len(parquet.read_table(out)) == 60 - len(table)
    fit = ("fit", folder, "--target", "price", "-o", tmp_path / "m", "--no-tune")
    assert mercer(*fit, "--kernel", "linear").code == 0


def test_a_table_without_rows_is_refused(fails, model, folder, tmp_path):
    for path in folder.iterdir():
        parquet.write_table(parquet.read_table(path)[:0], path)
    out = tmp_path / "o"
    for table in (folder, folder / "2.parquet"):
        assert "no rows" in fails("predict", model, table, "-o", out)
        assert "no rows" in fails("fit", table, "--target", "price", "-o", out)
    assert not out.exists()


def test_models_of_blocks_predict_tables(mercer, fails, folder, tmp_path):
    columns = ["rooms", "area"]
    blocks = library.RowBlocks.from_parquet(folder, target="price", columns=columns)
    fitted = library.KernelRidge("rbf", solver="falkon", n_centers=20, random_state=0).fit(blocks)
    library.save(fitted, tmp_path / "m.mercer")
    out = tmp_path / "o.parquet"
    outcome = mercer("predict", tmp_path / "m.mercer", folder, "--keep", "town", "-o", out)
    assert (outcome.code, outcome.err) == (0, ""), outcome
    found = parquet.read_table(out)
    assert found.column_names == ["town", "predicted_y"]
    np.testing.assert_allclose(found["predicted_y"].to_numpy(), fitted.predict(blocks), rtol=1e-9)
    table = parquet.read_table(folder / "2.parquet")
    parquet.write_table(table.drop(["area"]), tmp_path / "t.parquet")
    assert "missing column 'area'" in fails(
        "predict", tmp_path / "m.mercer", tmp_path / "t.parquet"
    )
    (tmp_path / "t.csv").write_text("area,rooms\n80,3\n,2\n")
    assert "the cell is empty" in fails("predict", tmp_path / "m.mercer", tmp_path / "t.csv")


def test_a_folder_is_read_whole_where_it_fits_and_in_part_where_asked(folder):
    table = read_table(str(folder))
    assert len(table) == 60 and table.sampled_from == 0
    assert [float(v) for v in table.cells("price")] == list(house_columns()["price"])
    with pytest.raises(InvalidInput, match=r"too large.*--max-rows N"):
        read_table(str(folder), budget=20_000)
    some = read_table(str(folder), budget=20_000, most=(10, 0))
    assert (len(some), some.sampled_from) == (10, 60)
    prices = list(house_columns()["price"])
    assert [prices[i - 1] for i in some.places] == list(some.cells("price"))
    assert some.places == read_table(str(folder), budget=20_000, most=(10, 0)).places
    with pytest.raises(InvalidInput, match="Choose fewer rows"):
        read_table(str(folder), budget=20_000, most=(59, 0))
    one = read_table(str(folder / "2.parquet"), budget=8_000, most=(5, 0))
    assert (len(one), one.sampled_from) == (5, 34)


def test_fit_takes_random_rows_of_a_folder_that_does_not_fit(mercer, folder, tmp_path):
    out = tmp_path / "m.mercer"
    arguments = ("fit", folder, "--target", "price", "-o", out, "--no-tune", "--kernel", "linear")
    outcome = mercer(*arguments, "--max-rows", 30, "--memory", "24kB")
    assert outcome.code == 0 and "chosen at random from 60" in outcome.out, outcome


def test_a_plan_needs_no_more_than_some_rows(mercer, folder, monkeypatch):
    arguments = ("fit", folder, "--target", "price", "--plan", "--memory", "24kB")
    monkeypatch.setattr("mercer.cli.fit.TUNING_ROWS", 20)
    outcome = mercer(*arguments)
    assert outcome.code == 0 and "60 rows do not fit this budget" in outcome.out, outcome
    assert "read in blocks" in outcome.out and "KernelRidge: falkon." in outcome.out
    assert "in blocks" not in mercer(*arguments[:-1], "1MB").out
    most = re.search(r"--max-rows (\d+) would be fitted exactly", outcome.out)
    assert most and int(most[1]) ** 2 * 8 * 5 < 24_000  # the search has room too


def test_columns_that_are_dropped_are_not_counted(mercer, folder):
    whole = read_table(str(folder))
    for path in (str(folder), str(folder / "0.parquet")):
        size = module.cells_size(path)[1]
        with pytest.raises(InvalidInput, match="too large"):
            read_table(path, budget=size - 1)
        some = read_table(path, budget=size - 1, drop=["town"])
        assert list(some.columns) == list(whole.columns)
        assert set(some.cells("town")) == {None}
        assert some.cells("area") == whole.cells("area")[: len(some)]
    outcome = mercer("fit", folder, "--target", "price", "--drop", "town", "--plan")
    assert outcome.code == 0, outcome


def test_memory_stays_that_of_a_batch(mercer, model, tmp_path):
    n = 12_000
    rng = np.random.default_rng(0)
    columns = {"area": rng.uniform(20, 200, n), "rooms": rng.integers(1, 6, n), "town": ["a"] * n}
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=n)
    tracemalloc.start()
    outcome = mercer(
        "predict", model, tmp_path / "t.parquet", "-o", tmp_path / "o.parquet", "--memory", "2MB"
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert outcome.code == 0, outcome
    assert len(parquet.read_table(tmp_path / "o.parquet")) == n
    assert peak < 3e6  # all cells would take 5 MB
