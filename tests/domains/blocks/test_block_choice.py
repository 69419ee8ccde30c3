"""Rows of blocks by position and at random, with targets; columns by name."""

import numpy as np
import pytest

from mercer import RowBlocks
from mercer.domains import Vectors
from mercer.domains.blocks.parts import Weighing
from mercer.errors import InvalidInput

rng = np.random.default_rng(0)
X, Y, W = rng.standard_normal((23, 3)), rng.standard_normal(23), rng.random(23)
INDEX = np.array([22, 0, 7, 7, 13])


def arrays(path):
    return RowBlocks.from_arrays(X, Y, W, block_rows=5)


def npy(path):
    for name, A in (("X", X), ("y", Y), ("w", W)):
        np.save(path / f"{name}.npy", A)
    return RowBlocks.from_npy(*(path / f"{n}.npy" for n in "Xyw"), block_rows=5)


def generator(path):
    return RowBlocks.from_generator(
        lambda: ((X[i : i + 5], Y[i : i + 5], W[i : i + 5]) for i in range(0, 23, 5))
    )


def parquet(path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": Y, "w": W}
    parquet.write_table(pa.table(table), path / "t.parquet", row_group_size=6)
    return RowBlocks.from_parquet(path, "y", weight="w", block_rows=5)


def dask(path):
    da = pytest.importorskip("dask.array")
    return RowBlocks.from_dask(da.from_array(X, chunks=(5, 3)), da.from_array(Y, chunks=4), W)


def frame(path):
    pd = pytest.importorskip("pandas")
    names = pd.DataFrame(X, columns=list("abc"))
    return RowBlocks.from_arrays(names, Y, W, block_rows=5)


def numbers(points):
    return points.numeric("X") if hasattr(points, "numeric") else points


@pytest.mark.parametrize("make", [arrays, npy, generator, parquet, dask, frame])
def test_targets_and_weights_come_with_the_points(tmp_path, make):
    blocks = make(tmp_path)
    points, y, w = blocks.take(INDEX, with_targets=True)
    np.testing.assert_array_equal(numbers(points), X[INDEX])
    np.testing.assert_array_equal(y, Y[INDEX])
    np.testing.assert_array_equal(w, W[INDEX])
    np.testing.assert_array_equal(numbers(blocks.take(INDEX)), X[INDEX])
    some, y, w = blocks.sample(9, 1, with_targets=True)
    np.testing.assert_array_equal(numbers(some), numbers(blocks.sample(9, 1)))
    at = [int(np.flatnonzero((X == row).all(1))[0]) for row in numbers(some)]
    np.testing.assert_array_equal(y, Y[at])
    threshold = -np.log1p(-W[at] / w) / W[at]  # a row comes with probability 1 − exp(−wτ)
    np.testing.assert_allclose(threshold, threshold[0], rtol=1e-10)
    expected = arrays(path=None).sample(9, 1, with_targets=True)  # whatever the cuts
    np.testing.assert_array_equal(numbers(some), expected[0])
    np.testing.assert_allclose(w, expected[2], rtol=1e-12)
    everything = blocks.sample(99, 1, with_targets=True)
    np.testing.assert_array_equal(everything[1], Y[W > 0])
    np.testing.assert_array_equal(everything[2], W[W > 0])


def test_what_is_not_there_is_none_and_views_are_seen():
    bare = RowBlocks.from_arrays(X, block_rows=5)
    points, y, w = bare.sample(99, with_targets=True)
    np.testing.assert_array_equal(points, X)
    assert y is None and w is None
    seen = bare.with_values(Y).with_targets(Weighing(np.abs)).with_targets(np.negative)
    _, y, w = seen.take(INDEX, with_targets=True)
    np.testing.assert_array_equal(y, -Y[INDEX])
    np.testing.assert_array_equal(w, np.abs(Y[INDEX]))


def test_labels_of_other_lengths_stay_whole():
    labels = np.array(["no"] * 5 + ["perhaps"] * 18)
    blocks = RowBlocks.from_arrays(X, labels, block_rows=5)
    assert blocks.take([0, 20], with_targets=True)[1].tolist() == ["no", "perhaps"]


@pytest.mark.parametrize("make", [parquet, frame])
def test_columns_by_name(tmp_path, make):
    blocks = make(tmp_path).select(["c", "a"])
    assert blocks.columns == ("c", "a") and blocks.n_columns == 2
    got = np.concatenate([numbers(block.X) for block in blocks])
    np.testing.assert_array_equal(got, X[:, [2, 0]])
    assert blocks.first().place.columns == ("c", "a")
    np.testing.assert_array_equal(numbers(blocks.take(INDEX)), X[INDEX][:, [2, 0]])
    again = blocks.select(["a"]).with_values(-Y)
    np.testing.assert_array_equal(numbers(again.take(INDEX)), X[INDEX][:, :1])
    np.testing.assert_array_equal(again.first().y, -Y[:5])
    assert [part().X.shape[1] for part in again.parts] == [1] * len(again.parts)
    with pytest.raises(InvalidInput, match="'b' is no column; its columns are 'c', 'a'"):
        blocks.select(["b"])
    with pytest.raises(InvalidInput, match="each name once"):
        blocks.select(["a", "a"])


def test_columns_without_names():
    with pytest.raises(InvalidInput, match="no names"):
        arrays(None).select(["a"])


def test_columns_are_dropped_from_files(tmp_path):
    parquet(tmp_path)
    blocks = RowBlocks.from_parquet(tmp_path, "y", drop=["w", "b"])
    assert blocks.columns == ("a", "c") and not blocks.has_weight
    for options, words in (
        ({"drop": ["z"]}, "drop 'z' is not in"),
        ({"drop": "b"}, "give a list of names"),
        ({"drop": ["b"], "columns": ["a"]}, "two ways"),
        ({"drop": ["y"], "target": "y"}, "two roles"),
        ({"target": "x"}, "its columns are 'a', 'b', 'c', 'y', 'w'"),
        ({"target": "aa"}, "did you mean 'a'"),
    ):
        with pytest.raises(InvalidInput, match=words):
            RowBlocks.from_parquet(tmp_path, **options)


def test_rows_taken_for_a_kernel_are_refused_by_file_and_row(tmp_path):
    bad = X.copy()
    bad[13, 1], bad[17, 2] = np.nan, np.inf
    for i in range(2):
        np.save(tmp_path / f"{i}.npy", bad[12 * i : 12 * i + 12])
    files, vectors = RowBlocks.from_npy(tmp_path, block_rows=5), Vectors()
    for rows in ([13], [13, 17], [20, 17]):  # the first of all that are wrong
        with pytest.raises(InvalidInput, match=r"nan at row 1, column 1 of '.*1\.npy'"):
            files.take(np.array(rows), domain=vectors)
    with pytest.raises(InvalidInput, match=r"nan at row 1, column 1 of '.*1\.npy'"):
        files.sample(23, domain=vectors, with_targets=True)
    assert files.take(np.arange(13), domain=vectors).shape == (13, 3)
    stream = RowBlocks.from_generator(lambda: iter([bad[:7], bad[7:14]]))
    with pytest.raises(InvalidInput, match=r"nan at row 6, column 1 of block 1 of"):
        stream.take(np.array([2, 13]), domain=vectors)
    late = RowBlocks.from_arrays(bad[14:], block_rows=4)
    with pytest.raises(InvalidInput, match=r"inf at row 3, column 2 of X;.*in the file\.$"):
        late.sample(9, domain=vectors)  # with_missing would not take it


def test_what_a_choice_refuses_comes_with_a_cure():
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abc"))
    named, nameless = RowBlocks.from_arrays(frame), RowBlocks.from_arrays(X)
    with pytest.raises(InvalidInput, match=r"\['ab'\]"):
        named.select("ab")
    with pytest.raises(InvalidInput, match=r"X\[:, index\]"):
        nameless.select(["a"])
    for seed in ("a", -1):
        with pytest.raises(InvalidInput, match=r"random_state=.*whole number"):
            nameless.sample(2, seed)
