"""BLAS called by address and SciPy's products, against NumPy's on every layout."""

from __future__ import annotations

import ctypes
import sys

import numpy as np
import pytest
from scipy.linalg import cython_blas

from mercer import lapack
from mercer.lapack import add_square, solve_rows, times

RNG = np.random.default_rng(4)


@pytest.fixture(autouse=True)
def own_numbers():
    """Let the numbers of a test not depend on the tests before it."""
    RNG.bit_generator.state = np.random.default_rng(4).bit_generator.state


@pytest.mark.parametrize("columns", [None, 0, 1, 3])
@pytest.mark.parametrize("shape", [(7, 5), (1, 1), (6, 6), (0, 4), (4, 0), (300, 41)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_times(shape, columns, order):
    A = np.asarray(RNG.standard_normal(shape), order=order)
    size = (shape[1],) if columns is None else (shape[1], columns)
    for B in (RNG.standard_normal(size), np.asfortranarray(RNG.standard_normal(size))):
        kept = A.copy(), B.copy()
        A.flags.writeable = B.flags.writeable = False
        out = times(A, B)
        assert out.shape == (A @ B).shape
        np.testing.assert_allclose(out, A @ B, rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(A, kept[0])
        np.testing.assert_array_equal(B, kept[1])
        A.flags.writeable = True


def test_times_of_views_and_float32():
    A = RNG.standard_normal((12, 10))
    v = RNG.standard_normal(20)
    np.testing.assert_allclose(times(A, v[::2]), A @ v[::2], rtol=1e-12)
    np.testing.assert_allclose(times(A[::2], v[::2]), A[::2] @ v[::2], rtol=1e-12)
    np.testing.assert_allclose(times(A[:, ::2], v[::4]), A[:, ::2] @ v[::4], rtol=1e-12)
    single = A.astype(np.float32)
    assert times(single, v[:10].astype(np.float32)).dtype == np.float32


@pytest.fixture(params=["address", "wrapper"])
def route(request, monkeypatch):
    """Both ways to BLAS: by the address of SciPy's function, and by SciPy's wrapper."""
    if request.param == "wrapper":
        monkeypatch.setattr(lapack, "_routine", lambda name: None)
    elif lapack._routine("dsyrk") is None or lapack._routine("dtrsm") is None:
        pytest.skip("this SciPy has no addresses of BLAS; the wrapper is tested")
    return request.param


@pytest.mark.parametrize("shape", [(9, 4), (1, 1), (300, 41), (2, 30), (0, 4), (4, 0)])
def test_add_square(shape, route):
    T, m = RNG.standard_normal(shape), shape[1]
    out = np.asfortranarray(np.triu(RNG.standard_normal((m, m)), 1))  # not to be touched
    above = out.copy()
    T.flags.writeable = False
    add_square(T, out)
    add_square(T, out)
    expected = np.tril(2 * T.T @ T) + above
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(np.triu(out, 1), above)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [(7, 5), (1, 1), (300, 41), (2, 30), (0, 4), (4, 0)])
def test_solve_rows(shape, transposed, route):
    m = shape[1]
    L = np.asfortranarray(np.tril(RNG.standard_normal((m, m))) / max(1, m) + 4 * np.eye(m))
    noise = np.asfortranarray(L + np.triu(RNG.standard_normal((m, m)), 1))  # not to be read
    noise.flags.writeable = False
    T = RNG.standard_normal(shape)
    expected = np.linalg.solve(L.T if transposed else L, T.T).T
    solve_rows(noise, T, transposed)
    np.testing.assert_allclose(T, expected, rtol=1e-11, atol=1e-12)


def read_only(A):
    A = A.copy(order="K")
    A.flags.writeable = False
    return A


def test_arrays_that_blas_would_read_as_others_are_refused(route):
    T, square = RNG.standard_normal((9, 4)), np.eye(4, order="F")
    for rows, out in [
        (T, np.zeros((4, 4))[:, ::-1]),
        (T, RNG.standard_normal((4, 4))),
        (T, square.astype(np.float32)),
        (T, read_only(square)),
        (T, np.eye(5, order="F")),
        (np.asfortranarray(T), square),
        (T[:, ::2], np.eye(2, order="F")),
        (T.astype(np.float32), square),
    ]:
        with pytest.raises(TypeError, match=r"ordered float64|does not fit"):
            add_square(rows, out)
    for L, rows in [
        (RNG.standard_normal((4, 4)), T.copy()),
        (square.astype(np.float32), T.copy()),
        (np.eye(3, order="F"), T.copy()),
        (square, np.asfortranarray(T)),
        (square, T.astype(np.float32)),
        (square, read_only(T)),
        (np.eye(2, order="F"), T[:, ::2]),
    ]:
        with pytest.raises(TypeError, match=r"ordered float64|do not fit"):
            solve_rows(L, rows)


# ------------------------------------------------------------------- functions of another kind
D = "__pyx_t_5scipy_6linalg_11cython_blas_d *"
SYRK = f"void (char *, char *, int *, int *, {D}, {D}, int *, {D}, {D}, int *)"


@pytest.fixture
def afresh():
    """No routine is known, before and after."""
    lapack._routine.cache_clear()
    yield
    lapack._routine.cache_clear()


@pytest.mark.parametrize(
    ("signature", "fits"),
    [
        (SYRK, True),
        (SYRK.replace(D, "double *"), True),
        (SYRK.replace("int *", "long *"), False),
        (SYRK.replace("int *", "int64_t *"), False),
        (SYRK.replace("int *", "__pyx_t_5scipy_6linalg_11cython_blas_blas_int *"), False),
        (SYRK.replace(D, "float *"), False),
        (SYRK.replace("void", "int"), False),
        (SYRK.replace("char *, ", "", 1), False),
        (SYRK.replace(")", ", size_t, size_t)"), False),
        ("", False),
        ("dsyrk", False),
    ],
)
def test_the_signature_decides(signature, fits):
    assert lapack._expected("dsyrk", signature.encode()) is fits


def test_todays_scipy_is_called_by_address(afresh):
    if sys.implementation.name == "cpython" and b"int *" in _signature("dsyrk"):
        assert lapack._routine("dsyrk") is not None
        assert lapack._routine("dtrsm") is not None


def _signature(name):
    get = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
        ("PyCapsule_GetName", ctypes.pythonapi)
    )
    return get(cython_blas.__pyx_capi__[name])


def _capsule(signature):
    """Return a capsule whose address leads nowhere; the name must live as long as it does."""
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi)
    )
    return new(1, signature, None)


def test_long_integers_go_to_the_wrapper(afresh, monkeypatch):
    name = SYRK.replace("int *", "long *").encode()
    monkeypatch.setitem(cython_blas.__pyx_capi__, "dsyrk", _capsule(name))
    assert lapack._routine("dsyrk") is None
    T, out = RNG.standard_normal((9, 4)), np.zeros((4, 4), order="F")
    add_square(T, out)
    np.testing.assert_allclose(out, np.tril(T.T @ T), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("lack", ["symbol", "capsule", "table", "module", "python"])
def test_what_is_missing_goes_to_the_wrapper(lack, afresh, monkeypatch):
    if lack == "symbol":
        monkeypatch.delitem(cython_blas.__pyx_capi__, "dtrsm")
    elif lack == "capsule":
        monkeypatch.setitem(cython_blas.__pyx_capi__, "dtrsm", object())
    elif lack == "table":
        monkeypatch.delattr(cython_blas, "__pyx_capi__")
    elif lack == "module":
        monkeypatch.setitem(sys.modules, "scipy.linalg.cython_blas", None)
        monkeypatch.delattr("scipy.linalg.cython_blas")
    else:
        monkeypatch.setattr(sys.implementation, "name", "other")
    assert lapack._routine("dtrsm") is None
    L, T = np.asfortranarray([[2.0, 0.0], [1.0, 4.0]]), RNG.standard_normal((3, 2))
    expected = np.linalg.solve(L, T.T).T
    solve_rows(L, T)
    np.testing.assert_allclose(T, expected, rtol=1e-13)
