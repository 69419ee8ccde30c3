"""Vectors: twenty-six ways to be given something else than a clean array, and their answers."""

from collections import deque

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from mercer import RBF, Graph, Linear, Minimum
from mercer.domains import Vectors
from mercer.domains.vectors import odd_point
from mercer.errors import InvalidInput

NAN, INF = np.nan, np.inf


def nan_at(i, j):
    X = np.ones((5, 3))
    X[i, j] = NAN
    return X


def sparse_nan(form):
    return form(np.array([[0.0, NAN], [1.0, 0.0]]))


def broken(form, **arrays):
    """A sparse matrix of shape (3, 4) with arrays that SciPy did not see when it was made."""
    X = form(np.array([[1.0, 0, 2, 0], [0, 3, 0, 0], [0, 0, 4, 5]]))
    for name, values in arrays.items():
        setattr(X, name, values)
    return X


def broken_lists(rows):
    X = sp.lil_array(np.eye(2, 4))
    X.rows[0] = rows
    return X


def broken_dict():
    X = sp.dok_array(np.eye(2, 4))
    X._dict[(0, 9)] = 1.0
    return X


ENDS, PLACES = np.array([0, 2, 3, 5]), np.array([0, 2, 1, 2, 3])

#: name → (what is passed, words that the answer must contain besides the name of the argument)
REFUSED = {
    "no columns": (np.ones((3, 0)), "0 feature"),
    "one dimension": (np.ones(4), "Reshape your data"),
    "three dimensions": (np.ones((2, 2, 2)), "2 dimensions"),
    "a number": (3.0, "2 dimensions"),
    "ragged": ([[1.0], [1.0, 2.0]], "2-D array"),
    "None": (None, "None"),
    "text": (np.array([["a", "b"]]), "numbers"),
    "text in a list": ([["1.5", "x"]], "numbers"),
    "object with None": (np.array([[1.0, None]], dtype=object), "finite|numbers"),
    "object with text": (np.array([[1.0, "x"]], dtype=object), "'x'"),
    "object with a list": (np.array([[1.0, [2.0]]], dtype=object), "numbers"),
    "complex": (np.ones((2, 2)) * 1j, "complex"),
    "NaN first": (nan_at(0, 0), "row 0, column 0"),
    "NaN in the middle": (nan_at(2, 1), "row 2, column 1"),
    "NaN last": (nan_at(4, 2), "row 4, column 2"),
    "+inf": (np.array([[1.0, INF]]), "inf at row 0, column 1"),
    "-inf": (np.array([[-INF]]), "-inf at row 0, column 0"),
    "inf and -inf": (np.array([[INF, -INF]]), "not finite"),
    "overflow to float64": (
        np.array([[1]], dtype=np.longdouble) * np.longdouble("1e4000"),
        "not finite",
    ),
    "sparse CSR with NaN": (sparse_nan(sp.csr_array), "not finite"),
    "sparse CSC with NaN": (sparse_nan(sp.csc_matrix), "not finite"),
    "sparse COO with inf": (sp.coo_array(np.array([[INF]])), "not finite"),
    "sparse complex": (sp.csr_array(np.ones((2, 2)) * 1j), "complex"),
    "sparse without columns": (sp.csr_array((3, 0)), "0 feature"),
    "masked": (np.ma.masked_array([[1.0, 2.0]], mask=[[True, False]]), "masked"),
    "dates": (np.array([["2024-01-01"]], dtype="datetime64[D]"), "numbers"),
    "structured": (np.zeros(3, dtype=[("a", float)]), "numbers"),
    "bytes": (np.array([[b"x"]]), "numbers"),
    "a dict": ({"a": [1.0]}, "dict|numbers"),
    "a set": ({1.0}, "numbers|2 dimensions"),
    "a string": ("abc", "numbers"),
    "a function": (len, "numbers"),
    "a list of None": ([None, None], "2 dimensions|numbers|finite"),
}


BROKEN = {
    "CSR with an index too large": broken(sp.csr_array, indices=PLACES + 1),
    "CSR with an index < 0": broken(sp.csr_matrix, indices=PLACES - 1),
    "CSR with falling ends": broken(sp.csr_array, indptr=ENDS[[0, 2, 1, 3]]),
    "CSR with ends too large": broken(sp.csr_array, indptr=ENDS * 9),
    "CSR with ends from 1": broken(sp.csr_array, indptr=ENDS + 1),
    "CSR with few ends": broken(sp.csr_array, indptr=ENDS[:2]),
    "CSR without ends": broken(sp.csr_array, indptr=ENDS[:0]),
    "CSR with few values": broken(sp.csr_array, data=np.ones(2)),
    "CSR with halves": broken(sp.csr_array, indices=PLACES / 2),
    "CSC with an index too large": broken(sp.csc_array, indices=PLACES + 9),
    "BSR with an index too large": (
        broken(lambda A: sp.bsr_array(A, blocksize=(1, 1)), indices=PLACES + 9)
    ),
    "COO with an index too large": (
        broken(sp.coo_array, coords=(np.array([0, 0, 1, 2, 7]), PLACES))
    ),
    "COO with few values": broken(sp.coo_array, data=np.ones(2)),
    "DIA with few offsets": broken(sp.dia_array, offsets=np.array([0])),
    "LIL with an index too large": broken_lists([9]),
    "LIL with more indices than values": broken_lists([0, 1, 2]),
    "DOK with an index too large": broken_dict(),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_sparse_rows_are_refused(case):
    with pytest.raises(InvalidInput, match="Vectors: X is a broken sparse matrix"):
        Vectors().check(BROKEN[case])


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_the_name_of_the_argument(case):
    value, words = REFUSED[case]
    for name in ("X", "Y", "points"):
        with pytest.raises(InvalidInput, match=f"(?s){name}.*({words})|({words}).*{name}"):
            Vectors().check(value, name)
    with pytest.raises(InvalidInput):
        RBF()(value)
    if value is not None:
        with pytest.raises(InvalidInput, match="Y"):
            RBF()(np.ones((2, 2)), value)


#: name → (what is passed, the dtype of the canonical form)
ACCEPTED = {
    "no rows": (np.ones((0, 3)), np.float64),
    "one row": (np.ones((1, 3)), np.float64),
    "truth values": (np.array([[True, False]]), np.float64),
    "1e308": (np.array([[1e308, -1e308]]), np.float64),
    "a sum that overflows": (np.full((4, 4), 1e308), np.float64),
    "subnormals": (np.array([[5e-324, 1e-310]]), np.float64),
    "int64 max": (np.array([[2**63 - 1]]), np.float64),
    "uint8": (np.array([[255]], dtype=np.uint8), np.float64),
    "float16": (np.array([[0.5]], dtype=np.float16), np.float32),
    "float32": (np.array([[0.5]], dtype=np.float32), np.float32),
    "long double": (np.array([[0.5]], dtype=np.longdouble), np.float64),
    "big endian": (np.array([[0.5]], dtype=">f8"), np.float64),
    "big endian float32": (np.array([[0.5]], dtype=">f4"), np.float32),
    "big endian integers": (np.array([[5]], dtype=">i4"), np.float64),
    "Fortran order": (np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.float64),
    "negative strides": (np.arange(6.0).reshape(2, 3)[::-1, ::-1], np.float64),
    "a broadcast view": (np.broadcast_to(1.0, (3, 2)), np.float64),
    "objects that are numbers": (np.array([[1, 2.5]], dtype=object), np.float64),
    "masked, nothing masked": (np.ma.masked_array([[1.0, 2.0]]), np.float64),
    "a list of lists": ([[1, 2], [3, 4]], np.float64),
    "a tuple of arrays": ((np.ones(2), np.zeros(2)), np.float64),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted_in_canonical_form(case):
    value, dtype = ACCEPTED[case]
    X = Vectors().check(value)
    assert type(X) is np.ndarray and X.dtype == dtype and X.dtype.isnative
    assert X.flags.c_contiguous and X.ndim == 2
    np.testing.assert_array_equal(X, np.asarray(value).astype(dtype))
    assert Vectors().size(X) == len(value)


def test_what_is_canonical_is_not_copied():
    X = np.ones((3, 2))
    assert Vectors().check(X) is X
    sparse = sp.csr_array(X)
    assert np.shares_memory(Vectors().check(sparse).data, sparse.data)


def test_a_read_only_memory_map(tmp_path):
    path = tmp_path / "points.npy"
    np.save(path, np.arange(6.0).reshape(3, 2))
    X = np.load(path, mmap_mode="r")
    np.testing.assert_allclose(RBF()(X), RBF()(np.array(X)), atol=1e-15)


@pytest.mark.parametrize(
    "form", [sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix, sp.bsr_array]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, bool])
def test_sparse_becomes_csr(form, dtype):
    X = Vectors().check(form(np.array([[0, 1], [1, 0]]).astype(dtype)))
    assert X.format == "csr" and X.dtype == (np.float32 if dtype == np.float32 else np.float64)


def test_nullable_frames():
    pd = pytest.importorskip("pandas")
    good = pd.DataFrame(
        {"a": pd.array([1, 2], dtype="Int64"), "b": pd.array([True, False], dtype="boolean")}
    )
    np.testing.assert_array_equal(Vectors().check(good), [[1, 1], [2, 0]])
    missing = pd.DataFrame({"a": pd.array([1, None], dtype="Int64")})
    with pytest.raises(InvalidInput, match="X"):
        Vectors().check(missing)
    with pytest.raises(InvalidInput, match="not finite"):
        Vectors().check(pd.DataFrame({"a": [1.0, None]}))
    single = pd.DataFrame({"a": [1.0], "b": [2.0]}, dtype="float32")
    assert Vectors().check(single).dtype == np.float32


def test_frames_with_missing_values_in_polars_and_arrow():
    pl = pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")
    for frame in (pl.DataFrame({"a": [1, None]}), pa.table({"a": [1, None]})):
        with pytest.raises(InvalidInput, match="X"):
            Vectors().check(frame)
    for frame in (pl.DataFrame({"a": [1, 2]}), pa.table({"a": [1, 2]})):
        np.testing.assert_array_equal(Vectors().check(frame), [[1], [2]])


@pytest.mark.parametrize("kind", ["category", "datetime64[s]", "str"])
def test_columns_that_hold_no_numbers_are_named(kind):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {"age": [1.0, 2.0], "when": pd.Series(["2024-01-01", "2024-01-02"]).astype(kind)}
    )
    with pytest.raises(InvalidInput, match="'when'"):
        Vectors().check(frame)


def test_two_columns_of_one_name_are_refused():
    pd = pytest.importorskip("pandas")
    with pytest.raises(InvalidInput, match="two columns"):
        Vectors().check(pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]))


def test_match_brings_both_to_one_form():
    X, Y = np.ones((2, 3)), sp.csr_array(np.ones((4, 3), dtype=np.float32))
    A, B = Vectors().match(Vectors().check(X), Vectors().check(Y))
    assert sp.issparse(A) and sp.issparse(B) and A.dtype == B.dtype == np.float64


def test_domains_compare_by_what_they_are():
    from mercer.domains import Numbers

    assert Vectors() == Vectors() and hash(Vectors()) == hash(Vectors())
    assert Numbers(low=0.0) == Numbers(low=0.0) != Numbers()
    assert repr(Numbers(low=0.0)).startswith("Numbers(low=0.0")


def test_samples_are_points_of_the_domain(rng):
    X = Vectors().sample(rng, 7, 2)
    assert X.shape == (7, 2) and Vectors().check(X) is X


def test_what_a_model_keeps_does_not_change_with_the_users_array():
    X = np.ones((3, 2))
    kept = Vectors().keep(X)
    X[0, 0] = 9.0
    assert kept[0, 0] == 1.0


class Row:
    """A row that only says how to become an array."""

    def __array__(self, dtype=None, copy=None):
        return np.array([1.0, 2.0], dtype=dtype)

    def __iter__(self):
        return iter([1.0, 2.0])


def objects(points, *shape):
    A = np.empty(len(points), dtype=object)
    A[:] = points
    return A.reshape(shape) if shape else A


@pytest.mark.parametrize(
    "points",
    [
        [nx.path_graph(3), nx.complete_graph(3)],
        (nx.path_graph(3), nx.path_graph(5)),
        [nx.DiGraph([(0, 1)]), nx.DiGraph([(0, 1)])],
        [Graph(n_nodes=2), Graph(n_nodes=2)],
        [{"a": 1.0}, {"a": 2.0}],
        [{1, 2}, {3, 4}],
        [[0.0, 1.0, 2.0], nx.path_graph(3)],
        objects([nx.path_graph(3), nx.complete_graph(3)]),
        objects([nx.path_graph(3), nx.complete_graph(3)], 2, 1),
    ],
)
@pytest.mark.parametrize(
    "kernel", [RBF(), RBF("median"), Linear(), Minimum(), RBF().with_missing(fill=0.0)]
)
def test_graphs_and_other_objects_are_no_rows_of_numbers(points, kernel):
    with pytest.raises(
        InvalidInput, match=r"where numbers belong; give a kernel.*WeisfeilerLehman"
    ):
        kernel(points)


@pytest.mark.parametrize(
    "points",
    [
        [[1.0, 2.0]],
        [(1, 2)],
        [range(1, 3)],
        [deque([1, 2])],
        [np.array([1, 2])],
        [Row()],
        objects([1.0, 2.0], 1, 2),
        ([1, True],),
    ],
)
def test_rows_of_any_kind_of_sequence_are_rows(points):
    assert odd_point(points) is None
    assert Vectors().check(points).shape == (1, 2)


def test_rows_of_different_lengths_are_told_of():
    with pytest.raises(InvalidInput, match=r"its rows have different lengths.*GlobalAlignment"):
        RBF()([[1.0, 2.0], [3.0]])


def test_a_column_that_a_row_names_twice_holds_the_sum_also_where_a_flag_says_otherwise():
    parts = (np.array([3.0, 1.0, 2.0, 5.0]), np.array([2, 0, 2, 1]), np.array([0, 3, 4]))
    X = sp.csr_array(parts, shape=(2, 3))
    X.has_canonical_format = True
    before = [part.copy() for part in (X.data, X.indices, X.indptr)]
    clean = np.array([[1.0, 0.0, 5.0], [0.0, 5.0, 0.0]])
    checked = Vectors().check(X)
    assert checked.has_canonical_format and checked.nnz == 3
    np.testing.assert_array_equal(checked.toarray(), clean)
    for kernel in (RBF(), Linear(), Minimum()):
        np.testing.assert_allclose(kernel(X), kernel(clean), rtol=1e-14)
    for old, new in zip(before, (X.data, X.indices, X.indptr), strict=True):
        np.testing.assert_array_equal(old, new)
