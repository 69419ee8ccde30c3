"""Dense linear algebra beside Python threads: without the lock, and with an ear for Ctrl-C.

NumPy lets go of the lock in a product, but has no triangular solve and cannot add to a symmetric
product. SciPy's wrappers of BLAS, and of half of LAPACK, have all that and hold the lock: threads
wait for one another, and Ctrl-C for the end of a factorisation. The functions here call what SciPy
offers to Cython, by its address, where that is what is expected, and SciPy's wrappers where not.

Those that bear a name of SciPy's have its arguments and, of as many threads, its bits: how many
BLAS has is decided by `mercer.threads.blas_for`. What takes no noticeable time goes to SciPy as it
is; the rest is waited for in `mercer.threads.listening`.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import lru_cache, wraps
from importlib import import_module
from typing import Any, TypeVar, cast

import numpy as np
from scipy import linalg
from scipy.linalg import LinAlgError, blas, lapack

from mercer.threads import blas_for, listening

F = TypeVar("F", bound=Callable[..., Any])

UNSHARED = 64  # rows up to which BLAS has one thread for a factorisation by itself

# Arguments of the routines, each by its address: c a letter, i an int of C, d doubles, s floats.
_BLAS = {
    "dgemm": "cciiiddididdi",
    "dsymm": "cciiddididdi",
    "dsyr2k": "cciiddididdi",
    "dsyrk": "cciiddiddi",
    "dtrmm": "cccciiddidi",
    "dtrsm": "cccciiddidi",
    "ssyrk": "cciississi",
}
ARGUMENTS = _BLAS | {
    "dgeqrt": "iiidididi",
    "dgesdd": "ciididdididiii",
    "dlauum": "cidii",
    "dpbtrf": "ciidii",
    "dpbtrs": "ciiididii",
    "dpotrf": "cidii",
    "dpotri": "cidii",
    "dpotrs": "ciididii",
    "dpstrf": "cidiiiddi",
    "dsyevd": "ccididdiiii",
    "dsyevr": "cccididdiididdiidiiii",
    "dtrtri": "ccidii",
}


def _expected(name: str, signature: bytes) -> bool:
    """Whether a capsule of Cython says that its function takes what we are going to give it.

    With another integer, as of a BLAS of 64 bits, the numbers of rows would be read wrongly.
    """
    text = signature.decode("ascii", "replace").strip()
    if not (text.startswith("void (") and text.endswith(")")):
        return False
    types = [argument.strip() for argument in text[len("void (") : -1].split(",")]
    kinds = {"char *": "c", "int *": "i", "double *": "d", "float *": "s"}
    numbers = {f"cython_{part}_{kind} *": kind for part in ("blas", "lapack") for kind in "ds"}
    ends = (next((numbers[end] for end in numbers if t.endswith(end)), "?") for t in types)
    found = (kinds.get(t, end) for t, end in zip(types, ends, strict=True))
    return "".join(found) == ARGUMENTS[name]


@lru_cache(maxsize=len(ARGUMENTS))
def _routine(name: str) -> Any:
    """Return a Fortran routine, every argument an address; None where it is not safe."""
    if sys.implementation.name != "cpython":
        return None
    try:
        library = import_module("scipy.linalg.cython_" + ("blas" if name in _BLAS else "lapack"))
        capsule, api = library.__pyx_capi__[name], ctypes.pythonapi
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


def _checked(A: np.ndarray, order: str, writeable: bool = True, kind: Any = np.float64) -> int:
    """Return the address of a matrix; a wrong layout would be read as another matrix."""
    fits = A.flags.c_contiguous if order == "C" else A.flags.f_contiguous
    if A.ndim != 2 or A.dtype != kind or not fits or (writeable and not A.flags.writeable):
        raise TypeError(
            f"a {A.dtype} array of shape {A.shape} is not a {order} ordered {np.dtype(kind)} one"
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
    if not A.size or not B.size or A.dtype != np.float64 or not A.flags.forc:
        return A @ B
    rows = A.flags.c_contiguous
    if B.ndim == 1 or B.shape[1] == 1:
        b = B.ravel()
        out = blas.dgemv(1.0, A.T, b, trans=1) if rows else blas.dgemv(1.0, A, b)
        return np.asarray(out).reshape(len(A), *B.shape[1:])
    return np.asarray(dgemm(1.0, B.T, A.T).T if rows else dgemm(1.0, A, B))


def add_square(T: np.ndarray, out: np.ndarray) -> None:
    """Add TᵀT to the lower triangle of `out`.

    Parameters
    ----------
    T : ndarray of shape (r, m), C order
        The rows, in float64 or float32.
    out : ndarray of shape (m, m), Fortran order
        Where the sum is, in the same precision; its strict upper triangle is left alone.
    """
    r, m = T.shape
    if out.shape != (m, m):
        raise TypeError(f"the square of {m} columns does not fit the shape {out.shape}")
    if not r or not m:
        return
    kind = np.float32 if T.dtype == out.dtype == np.float32 else np.float64
    source, target = _checked(T, "C", writeable=False, kind=kind), _checked(out, "F", kind=kind)
    name = "ssyrk" if kind is np.float32 else "dsyrk"
    call = _routine(name)
    if call is None:
        _written(out, getattr(blas, name)(1.0, T.T, 1.0, out, lower=1, overwrite_c=1))
        return
    number = ctypes.c_float if kind is np.float32 else ctypes.c_double
    one = ctypes.byref(number(1.0))
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
        _written(T.T, blas.dtrsm(1.0, L, T.T, lower=1, trans_a=int(transposed), overwrite_b=1))
        return
    one = ctypes.byref(ctypes.c_double(1.0))
    way, size, rows = b"T" if transposed else b"N", _whole(m), _whole(r)
    call(b"L", b"L", way, b"N", size, rows, one, triangle, size, target, size)


# ---- SciPy's functions, with an ear for Ctrl-C when they take long ----


LONG = 1e9  # flops: some hundredths of a second
BRIEF = 1e6  # flops that are worth a call without the lock where other threads wait for it
MANY = 100  # rows up to which nothing takes long, so that the shortest fits call SciPy themselves


def heard(function: Callable, A: Any, *args: Any, **options: Any) -> Any:
    """Return function(A, …), a decomposition that lets go of the lock, and hear Ctrl-C meanwhile.

    Parameters
    ----------
    function : callable
        A function of NumPy or SciPy, such as ``np.linalg.eigh``.
    A : ndarray
        The matrix, or a stack of them.
    *args, **options : object
        What else it takes.
    """
    rows = max(A.shape[-2:])
    with blas_for(rows) if rows > UNSHARED else nullcontext():
        if 5 * A.size * min(A.shape[-2:]) < LONG:
            return function(A, *args, **options)
        return listening(function, A, *args, **options)


def product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return AB by NumPy, and hear Ctrl-C meanwhile.

    Parameters
    ----------
    A, B : ndarray
        The factors.
    """
    if 2 * A.size * B.shape[-1] < LONG:
        return A @ B
    return listening(np.matmul, A, B)


def _is_short(name: str, flops: float) -> bool:
    """Whether SciPy's wrapper will do: in the main thread it keeps the lock for little time."""
    alone = threading.current_thread() is threading.main_thread()
    return flops < (LONG if alone else BRIEF) or _routine(name) is None


def _own(A: np.ndarray, overwrite: int = 0) -> np.ndarray:
    """Return what may be overwritten: the array itself where that is allowed, or a copy."""
    if overwrite and A.dtype == np.float64 and A.flags.f_contiguous:
        return A
    return np.array(A, dtype=np.float64, order="F")


def _cell(value: Any) -> Any:
    """Return a number, or an array, as what is given by its address; it lives as long as this."""
    if isinstance(value, np.ndarray):
        return value.ctypes.data_as(ctypes.c_void_p)
    if isinstance(value, float):
        return ctypes.byref(ctypes.c_double(value))
    return ctypes.byref(ctypes.c_int(value)) if isinstance(value, int) else value


def _run(name: str, *given: Any) -> int:
    """Call a routine and listen meanwhile; one of LAPACK returns its info."""
    return listening(call, name, *given)


def call(name: str, *given: Any) -> int:
    """Call a routine of Fortran by its address; one of LAPACK returns its info.

    Nothing is checked: who calls sees to it that it `has` the routine, that arrays are float64 in
    Fortran order, and that they are as large as is said.

    Parameters
    ----------
    name : str
        One of `ARGUMENTS`.
    *given : bytes, int, float or array
        Its arguments in their order, without info; an array stands for the address of its first
        entry.
    """
    info = ctypes.c_int(0)
    last = [] if name in _BLAS else [ctypes.byref(info)]
    _routine(name)(*map(_cell, given), *last)
    return info.value


def has(*names: str) -> bool:
    """Whether routines may be called by their address.

    Parameters
    ----------
    *names : str
        Of `ARGUMENTS`.
    """
    return all(_routine(name) is not None for name in names)


def _in_place(name: str, A: np.ndarray, lower: int, overwrite: int) -> tuple[np.ndarray, int]:
    """Return what a routine makes of one triangle of a square matrix, and its info."""
    c, n = _own(A, overwrite), len(A)
    letters = [b"L" if lower else b"U", *[b"N"] * (name == "dtrtri")]
    return c, _run(name, *letters, n, c, n)


def _as_pays(routine: F) -> F:
    """Let BLAS have as many threads as pay for the rows of the first matrix."""

    @wraps(routine)
    def held(a: np.ndarray, *args: Any, **options: Any) -> Any:
        with blas_for(a) if len(a) > UNSHARED else nullcontext():
            return routine(a, *args, **options)

    return cast(F, held)


@_as_pays
def dpotrf(
    a: np.ndarray, lower: int = 0, clean: int = 1, overwrite_a: int = 0
) -> tuple[np.ndarray, int]:
    """Return a Cholesky factor and LAPACK's info."""
    if _is_short("dpotrf", len(a) ** 3 / 3):
        return lapack.dpotrf(a, lower=lower, clean=clean, overwrite_a=overwrite_a)
    c, info = _in_place("dpotrf", a, lower, overwrite_a)
    for j in range(len(c) if clean else 0):
        c[slice(0, j) if lower else slice(j + 1, None), j] = 0.0
    return c, info


@_as_pays
def dpotri(c: np.ndarray, lower: int = 0, overwrite_c: int = 0) -> tuple[np.ndarray, int]:
    """Return a triangle of the inverse of what has the Cholesky factor c, and LAPACK's info."""
    if _is_short("dpotri", 2 * len(c) ** 3 / 3):
        return lapack.dpotri(c, lower=lower, overwrite_c=overwrite_c)
    return _in_place("dpotri", c, lower, overwrite_c)


@_as_pays
def dtrtri(c: np.ndarray, lower: int = 0, overwrite_c: int = 0) -> tuple[np.ndarray, int]:
    """Return the inverse of a triangular matrix, and LAPACK's info."""
    if _is_short("dtrtri", len(c) ** 3 / 3):
        return lapack.dtrtri(c, lower=lower, overwrite_c=overwrite_c)
    return _in_place("dtrtri", c, lower, overwrite_c)


@_as_pays
def dlauum(c: np.ndarray, lower: int = 0, overwrite_c: int = 0) -> tuple[np.ndarray, int]:
    """Return a triangle of LᵀL or UUᵀ, and LAPACK's info."""
    if _is_short("dlauum", len(c) ** 3 / 3):
        return lapack.dlauum(c, lower=lower, overwrite_c=overwrite_c)
    return _in_place("dlauum", c, lower, overwrite_c)


@_as_pays
def dpstrf(
    a: np.ndarray, tol: float = -1.0, lower: int = 0
) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Return a pivoted Cholesky factor, the pivots from 1 on, the rank and LAPACK's info."""
    n = len(a)
    if _is_short("dpstrf", n**3 / 3):
        return lapack.dpstrf(a, tol=tol, lower=lower)
    c, pivots, rank = _own(a), np.zeros(n, dtype=np.int32), ctypes.c_int(0)
    letter, work = b"L" if lower else b"U", np.empty(2 * n)
    info = _run("dpstrf", letter, n, c, n, pivots, ctypes.byref(rank), float(tol), work)
    return c, pivots, rank.value, info


@_as_pays
def dpotrs(c: Any, b: Any, lower: int = 0, overwrite_b: int = 0) -> tuple[np.ndarray, int]:
    """Return the solution for several right-hand sides, from a Cholesky factor, and the info."""
    if b.ndim != 2 or _is_short("dpotrs", 2 * b.size * len(c)):
        return lapack.dpotrs(c, b, lower=lower, overwrite_b=overwrite_b)
    a, x, n = np.asarray(c, dtype=np.float64, order="F"), _own(b, overwrite_b), len(c)
    return x, _run("dpotrs", b"L" if lower else b"U", n, x.shape[1], a, n, x, n)


def _triangular(name: str, alpha: float, a: np.ndarray, b: np.ndarray, **how: Any) -> np.ndarray:
    """Multiply by a triangle, or solve with one, from the left or the right."""
    if b.ndim != 2 or _is_short(name, b.size * len(a)):
        return getattr(blas, name)(alpha, a, b, **how)
    given = {"side": 0, "lower": 0, "trans_a": 0, "diag": 0, "overwrite_b": 0, **how}
    A, x = np.asarray(a, dtype=np.float64, order="F"), _own(b, given["overwrite_b"])
    letters = [
        b"R" if given["side"] else b"L",
        b"L" if given["lower"] else b"U",
        b"T" if given["trans_a"] else b"N",
        b"U" if given["diag"] else b"N",
    ]
    _run(name, *letters, *x.shape, float(alpha), A, len(A), x, len(x))
    return x


def dtrsm(alpha: float, a: np.ndarray, b: np.ndarray, **how: Any) -> np.ndarray:
    """Return the solution of AX = αB, or of another form of it, with a triangular A."""
    return _triangular("dtrsm", alpha, a, b, **how)


def dtrmm(alpha: float, a: np.ndarray, b: np.ndarray, **how: Any) -> np.ndarray:
    """Return αAB, or another form of it, with a triangular A."""
    return _triangular("dtrmm", alpha, a, b, **how)


def dgemm(
    alpha: float,
    a: np.ndarray,
    b: np.ndarray,
    beta: float = 0.0,
    c: np.ndarray | None = None,
    trans_a: int = 0,
    trans_b: int = 0,
    overwrite_c: int = 0,
) -> np.ndarray:
    """Return αAB + βC."""
    m, k = a.shape[::-1] if trans_a else a.shape
    n = b.shape[0 if trans_b else 1]
    if _is_short("dgemm", 2.0 * m * k * n):
        more = {} if c is None else {"c": c, "overwrite_c": overwrite_c}
        return blas.dgemm(alpha, a, b, beta=beta, trans_a=trans_a, trans_b=trans_b, **more)
    A, B = (np.asarray(x, dtype=np.float64, order="F") for x in (a, b))
    out = np.zeros((m, n), order="F") if c is None else _own(c, overwrite_c)
    letters = [b"T" if transposed else b"N" for transposed in (trans_a, trans_b)]
    given = (m, n, k, float(alpha), A, len(A), B, len(B), float(beta), out, m)
    _run("dgemm", *letters, *given)
    return out


def dsyrk(
    alpha: float,
    a: np.ndarray,
    beta: float = 0.0,
    c: np.ndarray | None = None,
    trans: int = 0,
    lower: int = 0,
    overwrite_c: int = 0,
) -> np.ndarray:
    """Return a triangle of αAAᵀ + βC, or of αAᵀA + βC."""
    n, k = a.shape[::-1] if trans else a.shape
    if _is_short("dsyrk", 1.0 * n * n * k):
        more = {} if c is None else {"c": c, "overwrite_c": overwrite_c}
        return blas.dsyrk(alpha, a, beta=beta, trans=trans, lower=lower, **more)
    A = np.asarray(a, dtype=np.float64, order="F")
    out = np.zeros((n, n), order="F") if c is None else _own(c, overwrite_c)
    letters = [b"L" if lower else b"U", b"T" if trans else b"N"]
    _run("dsyrk", *letters, n, k, float(alpha), A, len(A), float(beta), out, n)
    return out


def cho_factor(a: np.ndarray, lower: bool = False, overwrite_a: bool = False) -> tuple:
    """Return a Cholesky factor as `cho_solve` takes it; `LinAlgError` where there is none."""
    c, info = dpotrf(np.asarray(a), lower=int(lower), clean=0, overwrite_a=int(overwrite_a))
    if info:
        raise LinAlgError(f"the leading minor of order {info} is not positive definite")
    return c, lower


def cho_solve(factor: tuple, b: np.ndarray) -> np.ndarray:
    """Return the solution for right-hand sides, from what `cho_factor` returned."""
    c, lower = factor
    return np.asarray(dpotrs(c, np.asarray(b), lower=int(lower))[0])


@_as_pays
def eigh(
    a: np.ndarray,
    driver: str = "evr",
    subset_by_index: Sequence[int] | None = None,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> Any:
    """Return eigenvalues, ascending, of a symmetric matrix, and its eigenvectors if wanted."""
    name, n = f"dsy{driver}", len(a)
    if a.dtype != np.float64 or _is_short(name, 5.0 * n**3):
        return linalg.eigh(
            a,
            driver="evr" if n == 1 else driver,  # older SciPy has no "evd" of one row
            subset_by_index=subset_by_index,
            eigvals_only=eigvals_only,
            overwrite_a=overwrite_a,
            check_finite=check_finite,
        )
    c = _own(np.asarray_chkfinite(a) if check_finite else a, overwrite_a)
    values, vectors, found = np.empty(n), c, ctypes.c_int(n)
    given: list[Any] = [b"N" if eigvals_only else b"V", b"L", n, c, n]
    if driver == "evd":
        given += [values]
    else:
        first, last = subset_by_index or (0, n - 1)
        vectors = np.empty((n, 1 if eigvals_only else last + 1 - first), order="F")
        given.insert(1, b"I" if subset_by_index else b"A")
        given += [0.0, 1.0, first + 1, last + 1, 0.0, ctypes.byref(found)]
        given += [values, vectors, n, np.empty(2 * n, dtype=np.int32)]
    room, places = np.empty(1), np.empty(1, dtype=np.int32)
    _run(name, *given, room, -1, places, -1)  # how much room it wants
    room, places = np.empty(int(room[0])), np.empty(places[0], dtype=np.int32)
    info = _run(name, *given, room, len(room), places, len(places))
    if info:
        raise LinAlgError(f"eigenvalues of a matrix of order {n} do not converge ({info})")
    values = values[: found.value]
    return values if eigvals_only else (values, vectors[:, : found.value])


@_as_pays
def svd(a: np.ndarray, overwrite_a: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the thin singular value decomposition of finite numbers."""
    m, n = a.shape
    k = min(m, n)
    if a.dtype != np.float64 or _is_short("dgesdd", 10.0 * m * n * k):
        return linalg.svd(a, full_matrices=False, overwrite_a=overwrite_a, check_finite=False)
    c, s = _own(a, overwrite_a), np.empty(k)
    u, vt = np.empty((m, k), order="F"), np.empty((k, n), order="F")
    given, places = [b"S", m, n, c, m, s, u, m, vt, k], np.empty(8 * k, dtype=np.int32)
    room = np.empty(1)
    _run("dgesdd", *given, room, -1, places)
    room = np.empty(int(room[0]))
    if _run("dgesdd", *given, room, len(room), places):
        raise LinAlgError("singular values do not converge")
    return u, s, vt
