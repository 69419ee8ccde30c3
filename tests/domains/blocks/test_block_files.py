"""Blocks of .npy and Parquet files: rows, refusals by file and row, changes that are noticed."""

import os
import pickle
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import mercer
from mercer.domains import Table, Vectors
from mercer.errors import InvalidInput

RowBlocks = mercer.RowBlocks
N = 101


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, 3)), rng.normal(size=N), rng.uniform(size=N)


@pytest.fixture
def npy(data, tmp_path):
    """Two files of points, one of them in Fortran order, and targets cut elsewhere."""
    X, y, w = data
    (tmp_path / "X").mkdir()
    (tmp_path / "y").mkdir()
    np.save(tmp_path / "X" / "a.npy", X[:40])
    np.save(tmp_path / "X" / "b.npy", np.asfortranarray(X[40:]))
    (tmp_path / "X" / "_notes.npy").write_bytes(b"left out")
    np.save(tmp_path / "y" / "1.npy", y[:7])
    np.save(tmp_path / "y" / "2.npy", y[7:])
    np.save(tmp_path / "w.npy", w)
    return tmp_path


@pytest.fixture
def folder(data, tmp_path):
    """Parquet files with small and with large row groups, columns in another order."""
    X, y, w = data
    columns = {"a": X[:, 0], "y": y, "b": X[:, 1], "w": w, "c": X[:, 2]}
    table = pa.table(columns)
    parquet.write_table(table[:40], tmp_path / "0.parquet", row_group_size=3)
    parquet.write_table(table[40:].select(["w", "c", "b", "a", "y"]), tmp_path / "1.pq")
    (tmp_path / "_SUCCESS").write_text("")
    return tmp_path


def same(blocks, *data):
    for _ in range(2):
        parts = list(blocks)
        for values, theirs in zip(("X", "y", "weight"), data, strict=False):
            ours = np.concatenate([getattr(b, values) for b in parts])
            np.testing.assert_array_equal(ours, theirs)
    sent = pickle.loads(pickle.dumps(blocks.parts))
    np.testing.assert_array_equal(np.concatenate([part().X for part in sent]), data[0])
    index = np.array([100, 39, 40, 0])
    np.testing.assert_array_equal(blocks.take(index), data[0][index])


@pytest.mark.parametrize("size", [1, 7, 40, None])
def test_npy_files_give_their_rows(npy, data, size):
    blocks = RowBlocks.from_npy(npy / "X", npy / "y", npy / "w.npy", block_rows=size)
    same(blocks, *data)
    assert "2 .npy files in" in repr(blocks)
    assert (blocks.n_rows, blocks.n_columns) == (N, 3)


def test_npy_types_are_kept(tmp_path, data):
    X, y, _ = data
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    np.save(tmp_path / "y.npy", np.where(y > 0, "yes", "no"))
    blocks = RowBlocks.from_npy([tmp_path / "x.npy"], str(tmp_path / "y.npy"), block_rows=50)
    assert blocks.first().X.dtype == np.float32
    assert set(np.concatenate([b.y for b in blocks])) == {"yes", "no"}
    np.save(tmp_path / "big.npy", X.astype(">f8"))
    swapped = RowBlocks.from_npy(tmp_path / "big.npy").first()
    np.testing.assert_array_equal(swapped.points(Vectors()), X)


@pytest.mark.parametrize("size", [1, 7, 60, None])
def test_parquet_files_give_their_rows(folder, data, size):
    X, y, w = data
    blocks = RowBlocks.from_parquet(folder, target="y", weight="w", block_rows=size)
    assert blocks.columns == ("a", "b", "c")
    assert "2 Parquet files in" in repr(blocks) and "targets and weights" in repr(blocks)
    same(blocks, X, y, w)
    some = RowBlocks.from_parquet(folder, columns=["c", "a"], block_rows=size)
    same(some, X[:, [2, 0]])
    assert not some.has_target
    both = RowBlocks.from_parquet(folder, target=["y", "a"], columns=["b"], block_rows=size)
    same(both, X[:, [1]], np.column_stack([y, X[:, 0]]))


def test_small_row_groups_are_read_together_and_large_ones_cut(folder):
    sizes = [part.rows for part in RowBlocks.from_parquet(folder, block_rows=20).parts]
    assert sizes == [18, 18, 4, 20, 20, 20, 1]


def test_parquet_types(tmp_path, data):
    X, y, _ = data
    table = pa.table(
        {
            "f": pa.array(X[:, 0], pa.float32()),
            "i": pa.array(range(N), pa.int16()),
            "t": pa.array(y > 0),
            "label": pa.array(np.where(y > 0, "yes", "no")).dictionary_encode(),
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    block = RowBlocks.from_parquet(tmp_path / "t.parquet", target="label").first()
    np.testing.assert_array_equal(block.X[:, 1], np.arange(N))
    np.testing.assert_array_equal(block.X[:, 2], y > 0)
    np.testing.assert_array_equal(block.y, np.where(y > 0, "yes", "no"))
    narrow = RowBlocks.from_parquet(tmp_path / "t.parquet", target="i", columns=["f"]).first()
    assert narrow.X.dtype == np.float32 and narrow.y.dtype.kind == "i"


# -------------------------------------------------------------------------------- refusals
def test_paths_that_lead_nowhere(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "deep" / "year=1").mkdir(parents=True)
    for make in (RowBlocks.from_npy, RowBlocks.from_parquet):
        with pytest.raises(InvalidInput, match=r"no file or folder .*nowhere"):
            make(tmp_path / "nowhere")
        with pytest.raises(InvalidInput, match=r"empty' holds no"):
            make(tmp_path / "empty")
        with pytest.raises(InvalidInput, match=r"year=1.*not searched"):
            make(tmp_path / "deep")
        with pytest.raises(InvalidInput, match=r"empty list"):
            make([])
        with pytest.raises(InvalidInput, match=r"path is a int"):
            make(3)
        with pytest.raises(InvalidInput, match=r"address"):
            make("s3://bucket/x")


def test_folders_beside_files_are_not_passed_over(folder):
    (folder / "_hidden").mkdir()
    RowBlocks.from_parquet(folder)
    (folder / "year=2").mkdir()
    with pytest.raises(InvalidInput, match=r"year=2.*not searched; give a list"):
        RowBlocks.from_parquet(folder)


def test_a_repr_does_not_fail(npy):
    blocks = RowBlocks.from_npy(npy / "X" / "a.npy")
    (npy / "X" / "a.npy").unlink()
    assert "a.npy" in repr(blocks)


def test_files_that_are_damaged_or_no_arrays(tmp_path, data):
    X = data[0]
    path = tmp_path / "x.npy"
    np.save(path, X)
    whole = path.read_bytes()
    path.write_bytes(whole[:-8])
    with pytest.raises(InvalidInput, match=r"x.npy' is truncated.*\(101, 3\)"):
        RowBlocks.from_npy(path)
    for content in (b"", b"no array", whole[:5], whole[:40]):
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match=r"x.npy' is no array"):
            RowBlocks.from_npy(path)
    np.savez(tmp_path / "x.npz", X)
    with pytest.raises(InvalidInput, match=r"npz archive"):
        RowBlocks.from_npy(tmp_path / "x.npz")
    for bad in (np.array([{}, []], dtype=object), np.array([["a"]]), np.zeros((2, 2), complex)):
        np.save(path, bad, allow_pickle=True)
        with pytest.raises(InvalidInput, match=r"must be numbers"):
            RowBlocks.from_npy(path)
    for bad in (X[:, 0], X[None], np.float64(2)):
        np.save(path, bad)
        with pytest.raises(InvalidInput, match=r"shape"):
            RowBlocks.from_npy(path)
    np.save(path, X[:0])
    with pytest.raises(InvalidInput, match=r"no rows"):
        RowBlocks.from_npy(path)


def test_npy_files_that_do_not_go_together(tmp_path, npy, data):
    X, y, _ = data
    np.save(tmp_path / "short.npy", y[:-1])
    with pytest.raises(InvalidInput, match=r"short.npy'.*100 rows.*101"):
        RowBlocks.from_npy(npy / "X", tmp_path / "short.npy")
    np.save(npy / "X" / "c.npy", X[:, :2])
    with pytest.raises(InvalidInput, match=r"c.npy' has rows of shape"):
        RowBlocks.from_npy(npy / "X")


def test_parquet_files_that_are_damaged(folder):
    path = folder / "1.pq"
    whole = path.read_bytes()
    for content in (whole[:-20], whole[: len(whole) // 2], b"PAR1", b"", b"a,b\n1,2\n"):
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match=r"1.pq' is damaged, truncated, or no Parquet"):
            RowBlocks.from_parquet(folder)
    broken = bytearray(whole)
    broken[10:60] = b"\xff" * 50  # the footer is whole, a page is not
    path.write_bytes(bytes(broken))
    with pytest.raises(InvalidInput, match=r"rows 0 to 60 of .*1.pq' cannot be read"):
        list(RowBlocks.from_parquet(folder, target="y"))


def test_parquet_columns_that_are_not_there_or_not_numbers(folder, data):
    X = data[0]
    with pytest.raises(InvalidInput, match=r"target 'z' is not in .*0.parquet'; its columns are"):
        RowBlocks.from_parquet(folder, target="z")
    with pytest.raises(InvalidInput, match=r"column 'z'"):
        RowBlocks.from_parquet(folder, columns=["z"])
    with pytest.raises(InvalidInput, match=r"weight 'z'"):
        RowBlocks.from_parquet(folder, weight="z")
    with pytest.raises(InvalidInput, match=r"two roles"):
        RowBlocks.from_parquet(folder, target="a", columns=["a", "b"])
    with pytest.raises(InvalidInput, match=r"give a list"):
        RowBlocks.from_parquet(folder, columns="a")
    with pytest.raises(InvalidInput, match=r"each once"):
        RowBlocks.from_parquet(folder, columns=["a", "a"])
    parquet.write_table(pa.table({"a": X[:, 0], "y": X[:, 1]}), folder / "2.parquet")
    with pytest.raises(InvalidInput, match=r"2.parquet' has other columns.*lacks 'b'"):
        RowBlocks.from_parquet(folder)
    with pytest.raises(InvalidInput, match=r"2.parquet' has no column 'b'"):
        RowBlocks.from_parquet(folder, columns=["a", "b"])
    assert RowBlocks.from_parquet(folder, target="y", columns=["a"]).n_rows == 2 * N
    parquet.write_table(pa.table({"a": ["x"], "y": [1.0]}), folder / "2.parquet")
    mixed = RowBlocks.from_parquet(folder, target="y", columns=["a"])  # text in one file only
    assert all(isinstance(block.X, Table) for block in mixed)
    with pytest.raises(InvalidInput, match=r"rows 0 to 0 of .*2.parquet'.*'a'.*where numbers"):
        mercer.KernelRidge().fit(mixed)
    dates = pa.array([0], pa.date32())
    parquet.write_table(pa.table({"a": dates, "y": [1.0]}), folder / "2.parquet")
    with pytest.raises(InvalidInput, match=r"column 'a' of .*2.parquet' holds date32.*of columns="):
        RowBlocks.from_parquet(folder, target="y", columns=["a"])
    parquet.write_table(pa.table({"a": pa.array([], pa.float64())}), folder / "2.parquet")
    with pytest.raises(InvalidInput, match=r"no rows"):
        RowBlocks.from_parquet(folder / "2.parquet")


def test_missing_cells_are_named_by_file_row_and_column(folder, npy, data):
    X, y, _ = data
    a = X[:, 0].tolist()
    a[33] = None
    parquet.write_table(
        pa.table({"b": X[:, 1], "a": a, "y": y}), folder / "2.parquet", row_group_size=10
    )
    blocks = RowBlocks.from_parquet(folder / "2.parquet", target="y", block_rows=7)
    with pytest.raises(InvalidInput, match=r"nan at row 33, column 'a' of .*2.parquet'"):
        for block in blocks:
            block.points(Vectors())
    with pytest.raises(InvalidInput, match=r"target at row 33 of .*2.parquet' is nan"):
        list(RowBlocks.from_parquet(folder / "2.parquet", target="a", block_rows=7))
    X[60, 1] = np.inf
    np.save(npy / "X" / "b.npy", X[40:])
    with pytest.raises(InvalidInput, match=r"inf at row 20, column 1 of .*b.npy'"):
        for block in RowBlocks.from_npy(npy / "X", block_rows=7):
            block.points(Vectors())


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_files_that_change_between_passes_are_named(tmp_path, data, kind):
    X = data[0]
    path = tmp_path / f"x.{kind}"

    def write(A):
        if kind == "npy":
            np.save(path, A)
        else:
            options = {"use_dictionary": False, "compression": "none", "write_statistics": False}
            parquet.write_table(pa.table({"a": A[:, 0], "b": A[:, 1]}), path, **options)

    def read():
        make = RowBlocks.from_npy if kind == "npy" else RowBlocks.from_parquet
        return make(path, block_rows=30)

    long = np.tile(X, (200, 1))
    write(long)
    blocks = read()
    list(blocks)
    os.utime(path, (0, 0))  # touched, not changed
    list(blocks)
    write(long[:-1])
    with pytest.raises(InvalidInput, match=f"x.{kind}' changed since"):
        list(blocks)
    write(long)
    blocks = read()
    list(blocks)
    when = os.stat(path)
    other = long.copy()
    other[len(long) // 2, 0] += 1e-9  # same size, same ends
    write(other)
    for times in ((when.st_atime_ns, when.st_mtime_ns), (1, 1)):
        os.utime(path, ns=times)
        with pytest.raises(InvalidInput, match=f"rows .* of .*x.{kind}' changed between"):
            list(blocks)
    os.unlink(path)
    with pytest.raises(InvalidInput, match=r"it is gone"):
        list(blocks)


def test_files_are_not_loaded_whole(tmp_path):
    rows = 1_200_000
    X = np.random.default_rng(0).normal(size=(rows, 2))  # 19 MB in one row group
    np.save(tmp_path / "x.npy", X)
    table = pa.table({str(j): X[:, j] for j in range(2)})
    parquet.write_table(table, tmp_path / "x.parquet", row_group_size=rows)
    del X, table
    with mercer.config(memory="20MB"):
        for blocks in (
            RowBlocks.from_npy(tmp_path / "x.npy"),
            RowBlocks.from_parquet(tmp_path / "x.parquet"),
        ):
            tracemalloc.start()
            before = pa.total_allocated_bytes()
            most = 0
            for block in blocks:
                most = max(most, pa.total_allocated_bytes() - before)
                assert block.X.nbytes <= 20e6 / 16
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak + most < 10e6


def test_cures_for_columns_of_lists_and_dates_can_be_followed(tmp_path):
    path = tmp_path / "t.parquet"
    lists, dates = [["u"]], pa.array([0], pa.date32())
    parquet.write_table(pa.table({"a": [1.0], "y": [2.0], "g": lists, "h": dates}), path)
    with pytest.raises(InvalidInput, match=r"encode 'g' and 'h', .*: drop=\['g', 'h'\]\.$"):
        RowBlocks.from_parquet(path, target="y")
    assert RowBlocks.from_parquet(path, target="y", drop=["g", "h"]).columns == ("a",)
    with pytest.raises(InvalidInput, match=r"encode it, or leave it out: drop=\['h'\]"):
        RowBlocks.from_parquet(path, target="g")
    with pytest.raises(InvalidInput, match=r"weight='h' must name a column of numbers"):
        RowBlocks.from_parquet(path, target="y", columns=["a"], weight="h")
    with pytest.raises(InvalidInput, match=r"no column .* is left.*'a', 'y', 'g', 'h'"):
        RowBlocks.from_parquet(path, drop=["a", "y", "g", "h"])


def test_a_file_that_changed_can_be_read_anew(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.ones((4, 2)))
    blocks = RowBlocks.from_npy(path)
    list(blocks)
    np.save(path, np.zeros((4, 2)))
    with pytest.raises(InvalidInput, match=r"changed.*Make the RowBlocks anew"):
        list(blocks)
    assert not next(iter(RowBlocks.from_npy(path))).X.any()
