"""RowBlocks: every source gives the same rows, pass after pass, or says what is wrong."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import mercer
from mercer.domains import Table, Vectors
from mercer.errors import InvalidInput

RowBlocks = mercer.RowBlocks
N = 101


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, 3)), rng.normal(size=N), rng.integers(0, 4, N).astype(float)


def gathered(blocks):
    parts = list(blocks)
    starts = np.cumsum([0, *(len(b) for b in parts)])[:-1]
    assert [b.start for b in parts] == starts.tolist()
    y, w = (
        None
        if getattr(parts[0], name) is None
        else np.concatenate([getattr(b, name) for b in parts])
        for name in ("y", "weight")
    )
    return np.concatenate([np.asarray(b.X) for b in parts]), y, w


@pytest.mark.parametrize("size", [1, 7, 100, 101, 1000, None])
def test_arrays_are_cut_into_all_their_rows_twice(data, size):
    X, y, w = data
    blocks = RowBlocks.from_arrays(X, y, w, block_rows=size)
    for _ in range(2):
        for ours, theirs in zip(gathered(blocks), data, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert (blocks.n_rows, blocks.n_columns, blocks.columns) == (N, 3, None)
    assert blocks.has_target and blocks.has_weight


def test_block_sizes_follow_the_memory_budget(data):
    with mercer.config(memory=16 * 8 * 5 * 10):
        blocks = RowBlocks.from_arrays(*data)
    assert max(len(b) for b in blocks) == 10
    with mercer.config(memory=1):
        assert len(RowBlocks.from_arrays(*data).parts) == N


def test_take_and_sample_are_rows_in_the_order_asked_for(data):
    X, y, _ = data
    index = np.array([100, 0, 7, 7, 50])
    for blocks in (
        RowBlocks.from_arrays(X, y, block_rows=9),
        RowBlocks.from_generator(lambda: iter([X[:40], X[40:]])),
    ):
        np.testing.assert_array_equal(blocks.take(index), X[index])
        first, again = blocks.sample(10, 3), blocks.sample(10, 3)
        np.testing.assert_array_equal(first, again)
        assert len({tuple(r) for r in first} & {tuple(r) for r in X}) == 10
        np.testing.assert_array_equal(blocks.sample(10**6), X)
    legacy = blocks.sample(5, np.random.RandomState(0))
    np.testing.assert_array_equal(legacy, blocks.sample(5, np.random.RandomState(0)))


@pytest.mark.parametrize("index", [[-1], [N], [0.5], [], [[0]], 3, ["a"]])
def test_positions_that_are_none_are_refused(data, index):
    with pytest.raises(InvalidInput, match="take"):
        RowBlocks.from_arrays(data[0]).take(index)


@pytest.mark.parametrize("m", [0, -1, 1.5, True, "3"])
def test_samples_that_are_none_are_refused(data, m):
    with pytest.raises(InvalidInput, match="sample"):
        RowBlocks.from_arrays(data[0]).sample(m)


def test_parts_travel_without_the_rest_of_the_rows(data):
    X, y, _ = data
    blocks = RowBlocks.from_arrays(np.repeat(X, 100, 0), np.repeat(y, 100), block_rows=50)
    sent = [pickle.dumps(part) for part in blocks.with_targets(np.negative).parts]
    assert max(map(len, sent)) < 5000
    parts = [pickle.loads(s) for s in sent]
    np.testing.assert_array_equal(np.concatenate([p().y for p in parts]), -np.repeat(y, 100))
    assert [p.start for p in parts] == list(range(0, 100 * N, 50))
    assert sum(p.rows for p in parts) == 100 * N


def test_targets_from_memory_replace_and_change(data):
    X, y, w = data
    blocks = RowBlocks.from_arrays(X, block_rows=8)
    assert not blocks.has_target
    seen = blocks.with_values(y, w).with_targets(np.negative).with_targets(np.exp)
    np.testing.assert_array_equal(gathered(seen)[1], np.exp(-y))
    np.testing.assert_array_equal(gathered(seen)[2], w)
    np.testing.assert_array_equal(np.concatenate([p().y for p in seen.parts]), np.exp(-y))
    # other targets are not changed by what changed the old ones
    np.testing.assert_array_equal(gathered(seen.with_values(2 * y))[1], 2 * y)
    assert not blocks.has_target  # a view leaves the blocks as they are
    for bad in (y[:-1], y[:, None, None], np.float64(3)):
        with pytest.raises(InvalidInput, match="shape"):
            blocks.with_values(bad)
    with pytest.raises(InvalidInput, match="weight at row 0 of sample_weight is -1"):
        blocks.with_values(None, -np.ones(N))


def test_other_collections_are_cut_too(data):
    X, y, _ = data
    S = sp.csr_array(X * (X > 1))
    blocks = RowBlocks.from_arrays(S, y, block_rows=30)
    np.testing.assert_array_equal(sp.vstack([b.X for b in blocks]).toarray(), S.toarray())
    np.testing.assert_array_equal(blocks.take(np.array([99, 3])).toarray(), S.toarray()[[99, 3]])
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    blocks = RowBlocks.from_arrays(frame, frame["a"], block_rows=30)
    assert blocks.columns == ("a", "b", "c")
    assert isinstance(blocks.first().X, Table)
    np.testing.assert_array_equal(blocks.take(np.array([5, 1])).numeric(), X[[5, 1]])
    words = ["ab", "b", "abc", ""]
    blocks = RowBlocks.from_arrays(words, block_rows=3)
    assert blocks.n_columns is None
    assert blocks.take(np.array([2, 0])) == ["abc", "ab"]


def test_tensors_are_cut_too(data):
    torch = pytest.importorskip("torch")
    X = torch.as_tensor(data[0])
    blocks = RowBlocks.from_arrays(X, torch.as_tensor(data[1]), block_rows=30)
    assert torch.equal(torch.cat([b.X for b in blocks]), X)
    assert torch.equal(blocks.take(np.array([60, 2])), X[[60, 2]])


def test_what_is_no_collection_is_refused(data):
    X, y, w = data
    for bad in (3, None, np.float64(1)):
        with pytest.raises(InvalidInput, match="no collection of rows"):
            RowBlocks.from_arrays(bad)
    with pytest.raises(InvalidInput, match="y has 100"):
        RowBlocks.from_arrays(X, y[:-1])
    with pytest.raises(InvalidInput, match="sample_weight has 100"):
        RowBlocks.from_arrays(X, y, w[:-1])
    with pytest.raises(InvalidInput, match="no rows"):
        RowBlocks.from_arrays(X[:0])
    for size in (0, -3, 2.5, True):
        with pytest.raises(InvalidInput, match="block_rows"):
            RowBlocks.from_arrays(X, block_rows=size)


def test_bad_targets_and_weights_are_named_by_row(data):
    X, y, w = data
    y[70], w[33] = np.nan, -1
    with pytest.raises(InvalidInput, match="target at row 70 of X is nan"):
        gathered(RowBlocks.from_arrays(X, y, block_rows=9))
    with pytest.raises(InvalidInput, match="weight at row 33 of X is -1"):
        gathered(RowBlocks.from_arrays(X, None, w, block_rows=9))
    labels = np.array(["a", None] * 50 + ["b"], dtype=object)
    with pytest.raises(InvalidInput, match="target at row 1 of X is missing"):
        gathered(RowBlocks.from_arrays(X, labels, block_rows=9))
    with pytest.raises(InvalidInput, match="dtype"):
        gathered(RowBlocks.from_arrays(X, y + 0j))


def test_bad_points_are_named_by_row_and_column_when_their_domain_is_known(data):
    X = data[0]
    X[70, 2] = np.inf
    blocks = list(RowBlocks.from_arrays(X, block_rows=9))  # a kernel may take missing values
    with pytest.raises(InvalidInput, match="inf at row 70, column 2 of X"):
        for block in blocks:
            block.points(Vectors())
    with pytest.raises(InvalidInput, match=r"rows 0 to 2 of X: .*numbers"):
        RowBlocks.from_arrays([["a"], ["b"], ["c"]]).first().points(Vectors())


@pytest.mark.parametrize("held", ["list", "coo", "csr", "tensor", "array"])
def test_bad_points_are_named_by_their_row_whatever_holds_them(data, held):
    X = data[0].copy()
    X[70, 1] = np.inf
    X[30, 2] = np.nan
    make = {"list": np.ndarray.tolist, "coo": sp.coo_array, "csr": sp.csr_array, "array": np.array}
    if held == "tensor":
        make["tensor"] = pytest.importorskip("torch").as_tensor
    blocks = RowBlocks.from_arrays(make[held](X), block_rows=20)
    with pytest.raises(InvalidInput, match=r"^RowBlocks: nan at row 30, column 2 of X;"):
        for block in blocks:
            block.points(Vectors())


def test_arrays_that_change_between_passes_are_noticed(data):
    X, y, _ = data
    for change in (
        lambda: X.__setitem__((50, 1), 7.0),
        lambda: X.__setitem__([3, 4], X[[4, 3]]),  # rows exchanged, sums the same
        lambda: y.__setitem__(100, -1.0),
    ):
        blocks = RowBlocks.from_arrays(X, y, block_rows=50)
        gathered(blocks)
        view = blocks.with_targets(np.exp)
        change()
        with pytest.raises(InvalidInput, match="changed between two passes"):
            gathered(view)


@pytest.mark.parametrize("kind", ["strings", "tensors", "graphs", "packed", "sparse", "wide"])
def test_changes_of_any_kind_of_rows_are_noticed(data, kind):
    X = data[0]
    if kind == "strings":
        one, two = ["abc", "bcd", "cde"] * 10, ["abc", "bcd", "cdf"] * 10
    elif kind == "tensors":
        torch = pytest.importorskip("torch")
        one, two = torch.as_tensor(X), torch.as_tensor(X + 1)
    elif kind in ("graphs", "packed"):
        one, two = (
            [mercer.Graph(edges=e, n_nodes=3) for _ in range(3)] for e in ([(0, 1)], [(1, 2)])
        )
        if kind == "packed":
            one, two = (mercer.domains.Graphs().check(graphs) for graphs in (one, two))
    elif kind == "sparse":
        one, two = sp.csr_array(np.eye(4)), sp.csr_array(2 * np.eye(4))
    else:  # rows exchanged, at any distance
        one = np.random.default_rng(0).normal(size=(4, 1021))
        two = one[[1, 0, 3, 2]]
    now = [one]
    blocks = RowBlocks.from_generator(lambda: iter([now[0]]))
    assert len(list(blocks)) == len(list(blocks)) == 1
    assert blocks.fingerprint() != RowBlocks.from_arrays(two).fingerprint()
    now[0] = two
    with pytest.raises(InvalidInput, match="changed between two passes"):
        list(blocks)


def test_labels_of_two_kinds_are_refused(data):
    X = data[0][:20]
    for first, second in (([0, 1], ["0", "1"]), (["a", "b"], [0, 1])):
        y = [np.array(first * 5), np.array(second * 5)]
        blocks = RowBlocks.from_generator(lambda y=y: iter([(X[:10], y[0]), (X[10:], y[1])]))
        with pytest.raises(InvalidInput, match=r"block 0.* and .*block 1.*one type in"):
            list(blocks)


def test_fingerprints_tell_rows_from_others_but_not_cuts(data):
    X, y, _ = data
    prints = {RowBlocks.from_arrays(X, y, block_rows=b).fingerprint() for b in (1, 10, 64, 101)}
    assert len(prints) == 1
    other = X.copy()
    other[0, 0] += 1e-9
    assert RowBlocks.from_arrays(other, y).fingerprint() not in prints
    assert RowBlocks.from_arrays(X, 2 * y).fingerprint() not in prints
    assert RowBlocks.from_arrays(X[:-1], y[:-1]).fingerprint() not in prints


# ------------------------------------------------------------------------------- generators
def test_generators_are_counted_once_and_run_anew(data):
    X, y, w = data
    calls = []

    def rows():
        calls.append(1)
        yield X[:0], y[:0], w[:0]  # an empty block is none
        yield X[:60], y[:60], w[:60]
        yield X[60:], y[60:], w[60:]

    blocks = RowBlocks.from_generator(rows)
    assert "not counted" in repr(blocks) and not calls
    assert blocks.n_rows == N and blocks.n_rows == N and len(calls) == 1
    for ours, theirs in zip(gathered(blocks), data, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert "rows()" in repr(blocks) and f"{N} rows" in repr(blocks)
    with pytest.raises(InvalidInput, match="cannot be shared out"):
        blocks.parts  # noqa: B018
    np.testing.assert_array_equal(next(iter(blocks.iterate(1))).X, X[60:])


def test_generators_that_are_used_up_or_differ_are_refused(data):
    X = data[0]
    once = iter([X[:50], X[50:]])
    blocks = RowBlocks.from_generator(lambda: once)
    assert blocks.n_rows == N
    with pytest.raises(InvalidInput, match="fresh iterator"):
        gathered(blocks)
    sizes = iter([N, 50, 100])
    for end, match in ((50, "50 rows in this pass, and 101"), (100, "100 rows in this pass")):
        sizes = iter([N, end])
        shrinking = RowBlocks.from_generator(lambda s=sizes: iter([X[: next(s)]]))
        assert shrinking.n_rows == N
        with pytest.raises(InvalidInput, match=f"{match}|changed between"):
            gathered(shrinking)
    sizes = iter([10, 20])
    growing = RowBlocks.from_generator(lambda: iter([X[:50], X[50 : 50 + next(sizes)]]))
    assert growing.n_rows == 60
    with pytest.raises(InvalidInput, match="more than 60 rows"):
        gathered(growing)


@pytest.mark.parametrize(
    ("made", "match"),
    [
        (lambda X: [X[:5], X[:5, :2]], "rows of shape"),
        (lambda X: [(X, X, X, X)], "tuple of 4"),
        (lambda X: [()], "tuple of 0"),
        (lambda X: [], "no rows"),
        (lambda X: 3, "returned a int"),
        (lambda X: X, "returned a ndarray"),
        (lambda X: [(X, X[:3, 0])], "shape"),
        (lambda X: [(X[:5], X[:5, 0]), X[5:]], "no target"),
        (lambda X: [pd.DataFrame(X[:5]), pd.DataFrame(X[:5], columns=list("abc"))], "columns"),
    ],
)
def test_what_a_generator_must_not_give(data, made, match):
    blocks = RowBlocks.from_generator(lambda: made(data[0]))
    with pytest.raises(InvalidInput, match=match):
        list(blocks)


def test_what_is_no_function_is_refused(data):
    with pytest.raises(InvalidInput, match="give the function itself"):
        RowBlocks.from_generator(iter([data[0]]))
    for n in (0, -1, 2.5, True):
        with pytest.raises(InvalidInput, match="n_rows"):
            RowBlocks.from_generator(lambda: [data[0]], n_rows=n)
    with pytest.raises(InvalidInput, match="101 rows in this pass, and 200"):
        gathered(RowBlocks.from_generator(lambda: [data[0]], n_rows=200))


# ------------------------------------------------------------------------------------- dask
def test_dask_arrays_and_frames_are_blocks(data):
    da = pytest.importorskip("dask.array")
    X, y, w = data
    blocks = RowBlocks.from_dask(da.from_array(X, chunks=(30, 2)), da.from_array(y, chunks=7), w)
    for ours, theirs in zip(gathered(blocks), data, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(blocks.take(np.array([100, 4])), X[[100, 4]])
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(pd.DataFrame(X, columns=["a", "b", "c"]), npartitions=4)
    blocks = RowBlocks.from_dask(frame[["a", "b"]], frame["c"])
    assert blocks.columns == ("a", "b")
    np.testing.assert_array_equal(np.concatenate([b.X.numeric() for b in blocks]), X[:, :2])
    np.testing.assert_array_equal(np.concatenate([b.y for b in blocks]), X[:, 2])
    with pytest.raises(InvalidInput, match="from_dask got a ndarray"):
        RowBlocks.from_dask(X)


def test_blocks_with_another_number_of_targets_are_named():
    widths = (np.ones((3, 1)), np.ones((3, 2)))
    blocks = RowBlocks.from_generator(lambda: ((np.ones((3, 2)), y) for y in widths))
    with pytest.raises(InvalidInput, match=r"block 1 .*target of shape \(2,\).*of shape \(1,\)"):
        list(blocks)


@pytest.mark.parametrize("given", ["folder", np.zeros((3, 2)), None], ids=["path", "array", "none"])
def test_what_is_no_source_is_told_how_blocks_are_made(given, tmp_path):
    with pytest.raises(InvalidInput, match=r"^RowBlocks: got a .*from_parquet\(path"):
        RowBlocks(given)
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,2\n3,4\n5,6\n")
    blocks = RowBlocks.from_generator(lambda: pd.read_csv(path, chunksize=2))
    assert blocks.n_rows == 3 and blocks.columns == ("a", "b")
