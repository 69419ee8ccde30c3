"""How BLAS lives with Python threads: one thread of its own, no lock, SciPy's beside NumPy's.

NumPy lets go of the lock in a product, but has no triangular solve and cannot add to a symmetric
product; SciPy's wrappers of BLAS have both and hold the lock, so that threads wait for one another.
`add_square` and `solve_rows` call the functions that SciPy offers to Cython, by their addresses,
where these are what is expected, and SciPy's wrappers where not.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["add_square", "single_threaded_blas", "solve_rows", "times"]


class _SingleThreadedBLAS:
    """Hold BLAS to one thread while any thread of the process is inside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limiter: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                _take_control()
                self._limiter = _controller().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *exc) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                _take_control()  # the last to leave need not be the one that came first
                self._limiter.restore_original_limits()
                self._limiter = None
                _take_control()


single_threaded_blas = _SingleThreadedBLAS()


def _take_control() -> None:
    """Let whatever thread comes next set the number of threads of OpenBLAS.

    threadpoolctl ≥ 3.8 obeys only the first thread that ever asked, as long as it lives, and
    silently ignores the others; the lock above already keeps ours from one another.
    """
    import threadpoolctl

    controller = getattr(threadpoolctl, "OpenBLASController", None)
    release = getattr(controller, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)


@lru_cache(maxsize=1)
def _controller():
    import scipy.linalg  # noqa: F401  (SciPy's BLAS must be loaded to be found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


# Arguments of the routines, each by its address: c a letter, i an int of C, d doubles.
ARGUMENTS = {"dsyrk": "cciiddiddi", "dtrsm": "cccciiddidi"}


def _expected(name: str, signature: bytes) -> bool:
    """Whether a capsule of Cython says that its function takes what we are going to give it.

    With another integer, as of a BLAS of 64 bits, the numbers of rows would be read wrongly.
    """
    text = signature.decode("ascii", "replace").strip()
    if not (text.startswith("void (") and text.endswith(")")):
        return False
    types = [argument.strip() for argument in text[len("void (") : -1].split(",")]
    kinds = {"char *": "c", "int *": "i", "double *": "d"}
    found = ("d" if t.endswith("cython_blas_d *") else kinds.get(t, "?") for t in types)
    return "".join(found) == ARGUMENTS[name]


@lru_cache(maxsize=4)
def _routine(name: str) -> Any:
    """Return a Fortran routine of BLAS, every argument an address; None where it is not safe."""
    if sys.implementation.name != "cpython":
        return None
    try:
        from scipy.linalg import cython_blas

        capsule, api = cython_blas.__pyx_capi__[name], ctypes.pythonapi
        # Prototypes of our own: those of ctypes.pythonapi belong to all of the process.
        get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
        get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
            ("PyCapsule_GetPointer", api)
        )
        signature = get_name(capsule)
        if signature is None or not _expected(name, signature):
            return None
        address = get_pointer(capsule, signature)
        return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(ARGUMENTS[name]))(address)
    except Exception:  # whatever another SciPy or Python does otherwise: there is another way
        return None


def _checked(A: np.ndarray, order: str, writeable: bool = True) -> int:
    """Return the address of a matrix; a wrong layout would be read as another matrix."""
    fits = A.flags.c_contiguous if order == "C" else A.flags.f_contiguous
    if A.ndim != 2 or A.dtype != np.float64 or not fits or (writeable and not A.flags.writeable):
        raise TypeError(
            f"a {A.dtype} array of shape {A.shape} is not a {order} ordered float64 one"
        )
    return A.ctypes.data


def _whole(value: int) -> Any:
    return ctypes.byref(ctypes.c_int(value))


def _written(out: np.ndarray, result: np.ndarray) -> None:
    """Copy what a wrapper returned, where it did not work in place."""
    if result.ctypes.data != out.ctypes.data:
        out[...] = result


def times(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return AB by SciPy's BLAS, for large products between factorisations and solves.

    NumPy brings a BLAS of its own, with threads of its own. After a product they look for more work
    for some hundredths of a second, and on all cores SciPy's threads take twice as long meanwhile.

    Parameters
    ----------
    A : ndarray of shape (n, k), C or Fortran order
        The large factor.
    B : ndarray of shape (k,) or (k, t)
        The small one.

    Returns
    -------
    ndarray of shape (n,) or (n, t)
        In the order of A.
    """
    from scipy.linalg.blas import dgemm, dgemv

    if not A.size or not B.size or A.dtype != np.float64 or not A.flags.forc:
        return A @ B
    rows = A.flags.c_contiguous
    if B.ndim == 1:
        return np.asarray(dgemv(1.0, A.T, B, trans=1) if rows else dgemv(1.0, A, B))
    return np.asarray(dgemm(1.0, B.T, A.T).T if rows else dgemm(1.0, A, B))


def add_square(T: np.ndarray, out: np.ndarray) -> None:
    """Add TᵀT to the lower triangle of `out`.

    Parameters
    ----------
    T : ndarray of shape (r, m), C order
        The rows.
    out : ndarray of shape (m, m), Fortran order
        Where the sum is; its strict upper triangle is left alone.
    """
    r, m = T.shape
    if out.shape != (m, m):
        raise TypeError(f"the square of {m} columns does not fit the shape {out.shape}")
    if not r or not m:
        return
    source, target = _checked(T, "C", writeable=False), _checked(out, "F")
    call = _routine("dsyrk")
    if call is None:
        from scipy.linalg.blas import dsyrk

        _written(out, dsyrk(1.0, T.T, 1.0, out, lower=1, overwrite_c=1))
        return
    one = ctypes.byref(ctypes.c_double(1.0))
    size, rows = _whole(m), _whole(r)
    call(b"L", b"N", size, rows, one, source, size, one, target, size)


def solve_rows(L: np.ndarray, T: np.ndarray, transposed: bool = False) -> None:
    """Replace every row x of T by L⁻¹x, or by L⁻ᵀx.

    Parameters
    ----------
    L : ndarray of shape (m, m), Fortran order
        Lower triangular; what is above the diagonal is not read.
    T : ndarray of shape (r, m), C order
        The rows, overwritten.
    transposed : bool, default=False
        Whether to solve with Lᵀ.
    """
    r, m = T.shape
    if L.shape != (m, m):
        raise TypeError(f"rows of {m} numbers do not fit a triangle of shape {L.shape}")
    if not r or not m:
        return
    triangle, target = _checked(L, "F", writeable=False), _checked(T, "C")
    call = _routine("dtrsm")
    if call is None:
        from scipy.linalg.blas import dtrsm

        _written(T.T, dtrsm(1.0, L, T.T, lower=1, trans_a=int(transposed), overwrite_b=1))
        return
    one = ctypes.byref(ctypes.c_double(1.0))
    way, size, rows = b"T" if transposed else b"N", _whole(m), _whole(r)
    call(b"L", b"L", way, b"N", size, rows, one, triangle, size, target, size)
