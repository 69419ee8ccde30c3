"""Dask arrays and data frames as blocks of rows, without a cluster."""

import numpy as np
import pytest

import mercer
from mercer import RowBlocks
from mercer.domains.blocks.dask import is_dask
from mercer.errors import InvalidInput

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

rng = np.random.default_rng(0)
X, Y, W = rng.standard_normal((11, 3)), rng.standard_normal((11, 2)), rng.random(11)
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "t": Y[:, 0], "u": Y[:, 1], "w": W})


def whole(rows):
    """Return points, targets and weights of all blocks."""
    blocks = list(rows)
    assert [b.start for b in blocks] == np.cumsum([0, *map(len, blocks)])[:-1].tolist()
    points = [b.X.numeric("X") if hasattr(b.X, "numeric") else b.X for b in blocks]
    return [
        None if parts[0] is None else np.concatenate(parts)
        for parts in (points, [b.y for b in blocks], [b.weight for b in blocks])
    ]


def test_what_is_dask():
    assert is_dask(da.ones(3)) and is_dask(dd.from_pandas(FRAME, npartitions=2)["a"])
    assert not any(map(is_dask, (X, FRAME, [1], None, da, RowBlocks)))


@pytest.mark.parametrize("rows", [1, 4, 11, (5, 0, 6), (0, 11)])
def test_chunks_of_rows_are_blocks(rows):
    lazy = da.from_array(X, chunks=(rows, 2))
    got = RowBlocks.from_dask(lazy, da.from_array(Y, chunks=(3, 1)), da.from_array(W, chunks=(2,)))
    for a, b in zip(whole(got), (X, Y, W), strict=True):
        np.testing.assert_array_equal(a, b)
    assert (got.n_rows, got.n_columns, got.columns, got.has_target) == (11, 3, None, True)
    index = np.array([10, 0, 3, 3, 7])
    np.testing.assert_array_equal(got.take(index), X[index])


def test_targets_in_memory_or_none():
    lazy = da.from_array(X, chunks=(4, 3))
    got = RowBlocks.from_dask(lazy, Y[:, 0], W)
    np.testing.assert_array_equal(whole(got)[1], Y[:, 0])
    np.testing.assert_array_equal(whole(got)[2], W)
    assert not RowBlocks.from_dask(lazy).has_target


def test_unknown_sizes_are_counted_and_the_array_left_alone():
    lazy = da.from_array(X, chunks=(4, 3))
    some = lazy[lazy[:, 0] > 0]
    keep = X[:, 0] > 0
    got = RowBlocks.from_dask(some, some[:, 1])
    np.testing.assert_array_equal(whole(got)[0], X[keep])
    np.testing.assert_array_equal(whole(got)[1], X[keep, 1])
    assert np.isnan(some.chunks[0][0])


@pytest.mark.parametrize("target, columns", [("t", 3), (["t", "u"], 2), (["u"], 3)])
def test_frames_give_their_columns_by_name(target, columns):
    frame = dd.from_pandas(FRAME, npartitions=3)
    got = RowBlocks.from_dask(frame, target, "w")
    points, y, w = whole(got)
    assert got.n_columns == columns and "w" not in got.columns
    np.testing.assert_array_equal(points, FRAME[list(got.columns)].to_numpy())
    np.testing.assert_array_equal(y, FRAME[target].to_numpy())
    np.testing.assert_array_equal(w, W)


def test_lists_of_labels_are_values_and_one_column_of_weights_is_a_vector():
    lazy, labels = da.from_array(X, chunks=(4, 3)), list("abcabcabcab")
    frame = dd.from_pandas(FRAME, npartitions=3)
    for rows in (lazy, frame[["a", "b"]]):
        assert whole(RowBlocks.from_dask(rows, labels))[1].tolist() == labels
    for weights in (["w"], frame[["w"]], frame[["w"]].to_dask_array(lengths=True), W[:, None]):
        got = RowBlocks.from_dask(frame, "t", weights)
        np.testing.assert_array_equal(whole(got)[2], W)
        assert ("w" in got.columns) == (weights != ["w"] if isinstance(weights, list) else True)
    numbered = dd.from_pandas(pd.DataFrame(X), npartitions=2)
    got = RowBlocks.from_dask(numbered, 2)
    np.testing.assert_array_equal(whole(got)[1], X[:, 2])
    assert got.columns == ("0", "1")


def test_frames_beside_series_of_other_partitions():
    frame = dd.from_pandas(FRAME, npartitions=3)
    other = dd.from_pandas(FRAME, npartitions=2)
    few = frame[frame["w"] > np.sort(W)[8]]  # some partitions may be empty
    got = RowBlocks.from_dask(frame[["a", "b"]], other["t"])
    np.testing.assert_array_equal(whole(got)[1], Y[:, 0])
    np.testing.assert_array_equal(got.take(np.array([9, 2])).numeric("X"), X[[9, 2], :2])
    np.testing.assert_array_equal(
        whole(RowBlocks.from_dask(few[["a"]], few["t"]))[1], Y[np.sort(W)[8] < W, 0]
    )


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda A, F: RowBlocks.from_dask(X), "ndarray"),
        (lambda A, F: RowBlocks.from_dask(A[:, 0]), "1 dimension"),
        (lambda A, F: RowBlocks.from_dask(A, np.ones(10)), "11 rows and y has 10"),
        (lambda A, F: RowBlocks.from_dask(A, None, A), "sample_weight has shape"),
        (lambda A, F: RowBlocks.from_dask(A, da.ones((11, 1, 1))), "outputs"),
        (lambda A, F: RowBlocks.from_dask(A, "t"), "data frame"),
        (lambda A, F: RowBlocks.from_dask(F, "z"), "'z' is no column"),
        (lambda A, F: RowBlocks.from_dask(F, ["t", "z"]), "'z' is no column"),
        (lambda A, F: RowBlocks.from_dask(F, "t", ["w", "u"]), "names 2 columns; give one"),
        (lambda A, F: RowBlocks.from_dask(F["a"]), "1 dimension"),
        (lambda A, F: RowBlocks.from_dask(A[:0]), "no rows"),
        (lambda A, F: whole(RowBlocks.from_dask(A, da.full(11, np.nan))), "row 0 of the dask data"),
    ],
)
def test_refusals_say_what_is_wrong(make, words):
    with pytest.raises(InvalidInput, match=words):
        make(da.from_array(X, chunks=(4, 3)), dd.from_pandas(FRAME, npartitions=2))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Give a folder of small Parquet files, with columns that are not asked for."""
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("files")
    for i, rows in enumerate(np.array_split(np.arange(11), 5)):
        wide = FRAME.assign(more=1.0, text="a").iloc[rows]
        wide.to_parquet(folder / f"{i}.parquet", index=False)
    return str(folder)


FILES = {
    "columns": lambda df: (df[["a", "b"]], df["t"], df["w"]),
    "filter": lambda df: (df[df["a"] > -9][["a", "b"]], df[df["a"] > -9]["t"], df["w"] * 1),
    "optimized": lambda df: (df[["a", "b"]].optimize(), df["t"].optimize(), df["w"]),
    "persisted": lambda df: (df.persist()[["a", "b"]], df["t"], df["w"]),
    "other cuts": lambda df: (df[["a", "b"]], df["t"].repartition(npartitions=2), df["w"]),
    "names": lambda df: (df[["a", "b", "t", "w"]], "t", "w"),
    "memory": lambda df: (df[["a", "b"]] + 0.0, Y[:, 0], df["w"].to_dask_array()),
}


@pytest.mark.parametrize("how", FILES)
def test_frames_of_parquet_files_with_some_columns(files, how):
    # dask reads files together where few columns are wanted: partitions become fewer
    got = RowBlocks.from_dask(*FILES[how](dd.read_parquet(files)))
    assert got.columns == ("a", "b") and got.n_rows == 11
    for a, b in zip(whole(got), (X[:, :2], Y[:, 0], W), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(got.take([10, 0]).numeric("X"), X[[10, 0], :2])


def test_rows_of_frames_belong_together_by_their_order():
    frame = dd.from_pandas(FRAME, npartitions=3)
    turned = dd.from_pandas(FRAME[::-1], npartitions=3, sort=False)  # pandas would turn it back
    got = RowBlocks.from_dask(frame[["a"]], turned["t"])
    np.testing.assert_array_equal(whole(got)[1], Y[::-1, 0])


def test_estimators_take_frames_of_parquet_files(files, tmp_path):
    df = dd.read_parquet(files)
    model = mercer.KernelRidge(mercer.RBF(1.0), solver="falkon", centers=X[:4, :2])
    want = model.fit(RowBlocks.from_arrays(X[:, :2], Y[:, 0], W)).predict(X[:, :2])
    for arguments in ((df[["a", "b"]], df["t"], df["w"]), (df[["a", "b", "t"]], "t", W)):
        model.fit(*arguments)
        np.testing.assert_allclose(model.predict(df[["a", "b"]]).compute(), want, atol=1e-8)
        np.testing.assert_allclose(model.predict(df[["a", "b"]] + 0).compute(), want, atol=1e-8)
    assert model.plan(df[["a", "b"]], df["t"]).method == "falkon"
    out = tmp_path / "out.npy"
    assert mercer.write_predictions(model, RowBlocks.from_dask(df[["a", "b"]]), out) == 11
    np.testing.assert_allclose(np.load(out), want, atol=1e-8)


def test_frames_that_dask_cannot_compute_say_so(files):
    broken = dd.read_parquet(files)[["a", "t"]].persist()
    try:
        broken[["a"]].compute()
    except (KeyError, TypeError, ValueError):
        pass
    else:
        pytest.skip("this release of dask can")
    with pytest.raises(InvalidInput, match="persist all columns, or none"):
        RowBlocks.from_dask(broken[["a"]], broken["t"])
