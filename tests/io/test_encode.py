import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

from mercer.errors import InvalidInput
from mercer.io import tree as encode
from mercer.io.tree import Decoder, Encoder


def same(a, b):
    """Equal in type, structure and bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype == object:
            return all(map(same, a.ravel().tolist(), b.ravel().tolist()))
        return a.tobytes() == b.tobytes()
    if sp.issparse(a):
        parts = ("data", "indices", "indptr")
        return a.shape == b.shape and all(same(getattr(a, p), getattr(b, p)) for p in parts)
    if isinstance(a, np.generic):
        return a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return a.hex() == b.hex()  # a NaN is a NaN; its sign and payload matter in arrays only
    return a == b


VALUES = [
    None,
    True,
    False,
    0,
    -(2**63),
    2**64 - 1,
    0.1,
    -0.0,
    1.0,
    1e-320,
    math.inf,
    -math.inf,
    math.nan,
    "",
    'λ\x00\n"\\𝄞',
    "\ud800",
    b"",
    b"ACGT\x00\xff",
    [b"A", (b"C",)],
    np.float64(0.1),
    np.float64("nan"),
    np.float32(1 / 3),
    np.float16(2.5),
    np.int8(-7),
    np.uint64(2**64 - 1),
    np.bool_(True),
    np.str_("λ"),
    (),
    [],
    {},
    (1,),
    [1, [2, (3, {"a": None})]],
    {0: 1.0, 1: 2.0, "x": [], None: 3, 2.5: 4, np.int64(7): 5},
    slice(None),
    slice(1, -1, 2),
    ["a"] * 31,
    ["b", "λ"] * 40,
    tuple(map(str, range(100))),
    [""] * 32,
    np.float64,
    np.int32,
    np.bool_,
    np.uint8,
    bool,
    float,
    object,
    np.dtype("f8"),
    np.dtype("i2"),
    np.dtype("O"),
    np.dtype("U7"),
    np.array(2.0),
    np.zeros((0, 4), np.float32),
    np.array([True, False]),
    np.array(["a", "bcd"]),
    np.array(["a", "λ\ud800", ""], dtype=object),
    np.array([["a", None], [math.nan, "b"]], dtype=object),
    np.array([], dtype=object),
    np.array("x", dtype=object),
    np.array([None, None], dtype=object),
    np.array([1, 2.5, True, "x", None, np.int8(3)], dtype=object),
    np.array([1, 2], dtype=object),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: repr(v)[:30])
def test_values(through, value):
    assert same(value, through(value))


def test_the_comparison_can_fail():
    assert not same(1, 1.0) and not same(0.0, -0.0) and not same((1,), [1])
    assert not same(np.float32(1), np.float64(1)) and not same(np.zeros(2), np.zeros((2, 1)))


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=True)
    | st.text()
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers(-5, 5), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(values)
def test_any_value(value):
    encoder = Encoder()
    try:
        tree = encoder.value(value, "v")
    except InvalidInput as error:
        assert "deep" in str(error)
        return
    assert same(value, Decoder([{}], encoder.arrays).value(tree))


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "?"])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", ["csr_matrix", "csc_matrix", "csr_array", "csc_array"])
def test_sparse(through, kind, wide, dtype):
    rng = np.random.default_rng(1)
    dense = (rng.random((5, 7)) < 0.4) * rng.integers(1, 9, (5, 7))
    matrix = getattr(sp, kind)(dense.astype(dtype))
    if wide:
        matrix.indices, matrix.indptr = (
            matrix.indices.astype(np.int64),
            matrix.indptr.astype(np.int64),
        )
    back = through(matrix)
    assert same(matrix, back) and np.array_equal(back.toarray(), dense.astype(dtype))


def test_sparse_corner_cases(through):
    for matrix in (
        sp.csr_array((0, 3)),
        sp.csr_array((3, 0)),
        sp.csr_array((4, 2)),
        sp.csr_array((np.array([1.0, 2.0, 0.0]), [1, 1, 0], [0, 3, 3]), shape=(2, 2)),
    ):
        assert same(matrix, through(matrix))


def test_arrays_in_other_layouts(through):
    base = np.arange(24.0).reshape(4, 6)
    frozen = base.copy()
    frozen.flags.writeable = False
    for array in (base.T, base[::2, ::-3], frozen, np.asfortranarray(base), base.astype(">f8")):
        back = through(array)
        assert np.array_equal(array, back) and back.flags.writeable
        by_columns = array.flags.f_contiguous and not array.flags.c_contiguous
        assert back.flags.f_contiguous if by_columns else back.flags.c_contiguous


def lists(depth):
    return [lists(depth - 1)] if depth else 0


def test_nesting_is_bounded(through):
    deep = lists(encode.MAX_NESTING)
    assert through(deep) == deep
    with pytest.raises(InvalidInput, match="nests"):
        Encoder().value([deep], "here")
    endless = []
    endless.append(endless)
    with pytest.raises(InvalidInput, match="nests"):
        Encoder().value(endless, "here")


class Thing:
    def __repr__(self):
        return "thing"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (lambda x: x, ["Python function '", "register", "precomputed"]),
        (np.log, ["Python function 'log'"]),
        (len, ["Python function 'len'"]),
        ([1, {"a": math.sin}], ["here[1]['a']", "Python function 'sin'"]),
        (np.random.RandomState(0), ["RandomState", "whole number", "random_state"]),
        (np.random.default_rng(0), ["Generator", "whole number"]),
        (Thing(), ["Thing", "holds only numbers"]),
        (Thing, ["of types"]),
        ({1}, ["builtins.set"]),
        (bytearray(b"bytes"), ["builtins.bytearray"]),
        (1j, ["builtins.complex"]),
        (2**64, ["64 bits"]),
        (-(2**63) - 1, ["64 bits"]),
        (np.complex128(1), ["complex128", "float(...)"]),
        (np.longdouble(1), ["longdouble"]),
        (np.datetime64("2020-01-01"), ["datetime64"]),
        (np.zeros(2, complex), ["complex128", ".astype"]),
        (np.array(["2020-01-01"], "M8[D]"), ["datetime64"]),
        (np.zeros(2, "f4,i4"), [".astype"]),
        (np.array([b"a"]), ["|S1"]),
        (np.zeros((1,) * 9), ["9 axes"]),
        (np.empty((1,) * 9, object), ["9 axes"]),
        (np.ma.masked_array([1.0]), ["MaskedArray"]),
        (np.zeros(2).view(np.recarray), ["recarray", "holds only"]),
        (np.array([Thing()], dtype=object), ["array of objects", "thing"]),
        (np.array([[1], None], dtype=object), ["array of objects", "list"]),
        (np.dtype("c16"), ["of types"]),
        (slice("a", "b"), ["slice", "integers"]),
        (sp.coo_array((2, 2)), ["coo", ".tocsr()"]),
        ({(1, 2): 3}, ["key (1, 2)", "strings, numbers or None"]),
    ],
    ids=lambda v: type(v).__name__,
)
def test_refusals_name_place_reason_and_cure(value, words):
    with pytest.raises(InvalidInput, match=r"^save: here") as caught:
        Encoder().value(value, "here")
    for word in words:
        assert word in str(caught.value)


def test_torch_tensors_are_refused_with_the_cure():
    torch = pytest.importorskip("torch")
    with pytest.raises(InvalidInput, match=r"X\.cpu\(\)\.numpy\(\)"):
        Encoder().value(torch.zeros(2), "model.X_fit_")
