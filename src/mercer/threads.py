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
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import lru_cache
from queue import Empty, Full, Queue
from typing import Any, TypeVar

import numpy as np

from mercer.settings import get_config


class _SingleThreadedBLAS:
    """Hold BLAS to one thread while any thread of the process is inside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: list[tuple[Any, int]] = []

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                _take_control()
                self._before = []
                for library in _libraries():
                    if (threads := library.num_threads) != 1:
                        self._before.append((library, threads))
                        library.set_num_threads(1)
            self._inside += 1

    def __exit__(self, *exc) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                _take_control()  # the last to leave need not be the one that came first
                for library, threads in self._before:
                    library.set_num_threads(threads)
                _take_control()


single_threaded_blas = _SingleThreadedBLAS()


ROOM = 2**28  # bytes of address space for a thread: its heap, its stack, buffers of BLAS, its tiles


def _affordable(threads: int) -> int:
    """Return how many threads a limit of the address space has room for."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return threads
        with open("/proc/self/statm") as told:
            used = int(told.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError):  # another system
        return threads
    return max(0, min(threads, (limit - used) // ROOM))


class Pool(ThreadPoolExecutor):
    """Threads to share work among; what the system has no thread for is done by the caller."""

    def __init__(self, threads: int):
        count = _affordable(threads)
        super().__init__(max(1, count))
        self.alone = count == 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Return the future of a call; a limit of memory or of threads does not refuse it."""
        future: Future = Future()
        claim = threading.Lock()

        def job() -> None:
            if not claim.acquire(blocking=False) or not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # raised where the result is asked for
                future.set_exception(error)
            else:
                future.set_result(result)

        if self.alone:
            job()
            return future
        try:
            super().submit(job)
        except (RuntimeError, MemoryError):  # the job may be queued: whoever claims it works
            job()
        return future


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
def _libraries() -> list[Any]:
    """Return the libraries of BLAS in this process, whose numbers of threads can be set."""
    import scipy.linalg  # noqa: F401  (SciPy's BLAS must be loaded to be found)
    from threadpoolctl import ThreadpoolController

    found = ThreadpoolController().lib_controllers
    return [library for library in found if library.user_api == "blas"]


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


# ---- Memory of tiles that are made and freed in turn stays with the process ----


M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # glibc's malloc.h
LARGEST = 2**25  # bytes: the largest threshold that glibc takes


@lru_cache(maxsize=1)
def keep_pages() -> None:
    """Let glibc keep up to 64 MB of freed memory, once a process; elsewhere do nothing.

    Otherwise, by what was freed before or by the variable MALLOC_TRIM_THRESHOLD_ that dask sets for
    its workers, it may give every freed tile back to the system. The pages of the next tile are
    then found and cleared anew, and a pass over rows takes three times as long.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # no glibc
        return
    mallopt(ctypes.c_int(M_MMAP_THRESHOLD), ctypes.c_int(LARGEST))
    mallopt(ctypes.c_int(M_TRIM_THRESHOLD), ctypes.c_int(2 * LARGEST))
    # Threads other than the first have heaps of 64 MB. One whose only tile is freed goes back to
    # the system, unless the heap before it has less room left than this (heap_trim in arena.c).
    mallopt(ctypes.c_int(M_TOP_PAD), ctypes.c_int(LARGEST))


# ---- Lines on stderr that say how far a long piece of work has come ----


class Progress:
    """A line on stderr for work of more than two seconds, when ``config(progress=True)``."""

    def __init__(self, total: int, what: str):
        self.total, self.what, self.done = total, what, 0
        self.on = get_config().progress
        self.start = self.last = time.monotonic()

    def step(self, parts: int = 1) -> None:
        """Count some parts of the work as done."""
        self.done += parts
        now = time.monotonic()
        if self.on and now - self.start > 2 and (now - self.last > 0.5 or self.done == self.total):
            self.last = now
            left = (now - self.start) * (self.total - self.done) / self.done
            end = "\n" if self.done == self.total else ""
            sys.stderr.write(
                f"\rmercer: {self.what} {100 * self.done // self.total} %, {left:.0f} s left {end}"
            )
            sys.stderr.flush()


class Ticker:
    """A line on stderr, rewritten while work of unknown length goes on for more than two seconds.

    Parameters
    ----------
    what : str
        What the work is, in a word.
    """

    def __init__(self, what: str):
        self.what = what
        self.on = get_config().progress
        self.start = self.last = time.monotonic()
        self.shown = False

    def tell(self, text: str) -> None:
        """Say how things stand, at most twice a second."""
        now = time.monotonic()
        if self.on and now - self.start > 2 and now - self.last > 0.5:
            self.last, self.shown = now, True
            sys.stderr.write(f"\rmercer: {self.what}, {now - self.start:.0f} s, {text}   ")
            sys.stderr.flush()

    def close(self) -> None:
        """End the line, if there is one."""
        if self.shown:
            sys.stderr.write("\n")
            sys.stderr.flush()


# ---- Read the next item in a thread while the present one is worked on ----


T = TypeVar("T")
POLL = 0.1  # seconds after which a waiting reader looks whether anybody still listens


def ahead(items: Iterable[T]) -> Iterator[T]:
    """Yield the items in their order; the next one is made in a thread meanwhile.

    An error of the thread is raised here, at its place. When the caller stops early, the thread
    ends after the item in hand. At most three items exist at a time: the present one, one that
    waits, one in the making.

    Parameters
    ----------
    items : iterable
        What is slow to read; it is only used by the thread.
    """
    ready: Queue[tuple[str, Any]] = Queue(maxsize=1)
    stop = threading.Event()

    def hand(kind: str, value: Any) -> bool:
        while not stop.is_set():
            try:
                ready.put((kind, value), timeout=POLL)
                return True
            except Full:
                continue
        return False

    def work() -> None:
        iterator = iter(items)
        try:
            for item in iterator:
                if not hand("item", item):
                    return
                del item
            hand("end", None)
        except BaseException as error:  # raised again where the item was asked for
            hand("error", error)
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                close()

    # the options of config(...) hold in the thread as well
    thread = threading.Thread(target=copy_context().run, args=(work,), daemon=True)
    try:
        thread.start()
    except (RuntimeError, MemoryError):  # the system starts no more threads
        yield from items
        return
    try:
        while True:
            kind, value = ready.get()
            if kind == "error":
                raise value
            if kind == "end":
                return
            yield value
            del value
    finally:
        stop.set()
        while thread.is_alive():
            try:
                ready.get_nowait()
            except Empty:
                thread.join(POLL)
