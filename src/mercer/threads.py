"""How threads live together: BLAS on one thread beside ours, Ctrl-C, progress, reading ahead."""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import lru_cache, partial
from queue import Empty, Full, Queue
from typing import Any, TypeVar

from mercer.settings import get_config


class _LimitedBLAS:
    """Hold BLAS to some threads, one by default, while any thread of the process is inside.

    Of several limits the least holds. It is entered by a call: a generator is closed when it is
    dropped, so that Ctrl-C between the end of a block and this ``finally`` does not leave BLAS on
    one thread for good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._limits: list[int] = []
        self._usual: dict[int, tuple[Any, int]] = {}  # libraries that are held, and their threads
        self._now: int | None = None

    @property
    def limit(self) -> int | None:
        """The threads that BLAS is held to; None where it has all."""
        return min(self._limits, default=None)

    @contextmanager
    def __call__(self, threads: int = 1) -> Iterator[None]:
        inside = False
        try:
            with self._lock:
                self._limits.append(threads)
                inside = True
                self._follow()
            yield
        finally:
            if inside:
                with self._lock:
                    if threads in self._limits:  # a forked child has begun anew
                        self._limits.remove(threads)
                    self._follow()

    def _follow(self) -> None:
        """Give the libraries as many threads as the limits say; or back what they had."""
        wanted = self.limit
        if wanted is None and self._usual:
            self._let_go()
        elif wanted is not None and wanted != self._now:
            _take_control()
            self._now = None  # what Ctrl-C interrupts is done again
            for library in _libraries():
                _, usual = self._usual.get(id(library), (library, library.num_threads))
                if library.num_threads != min(usual, wanted):
                    self._usual[id(library)] = library, usual
                    library.set_num_threads(min(usual, wanted))
        self._now = wanted

    def _let_go(self) -> None:
        """Give the threads back; what Ctrl-C leaves is given back by the next that leaves."""
        self._now = None
        _take_control()  # the last to leave need not be the one that came first
        while self._usual:
            key, (library, threads) = next(reversed(self._usual.items()))
            library.set_num_threads(threads)
            self._usual.pop(key)
        _take_control()

    def begin_anew(self) -> None:
        """Forget the threads of a parent process, which a forked child does not have."""
        self._lock, self._limits = threading.Lock(), []
        if self._usual:
            self._let_go()


single_threaded_blas = _LimitedBLAS()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=single_threaded_blas.begin_anew)


#: Rows up to which one thread of BLAS is as fast as several where cores are idle, and a hundred
#: times as fast where they are not: one that has no core lets the others wait, at each step.
ALONE = 700
#: Rows up to which it is looked whether cores are idle; what takes longer may outlast who is there.
LOOKED = 4000


def blas_for(rows: Any) -> AbstractContextManager:
    """Hold BLAS to as many threads as pay: the one place where that is decided.

    One for work on matrices of few rows, or of some where cores are busy; for larger ones as many
    as ``config(threads=...)`` allows.

    Parameters
    ----------
    rows : int or collection
        How many, or what is as long; what has no length is long.
    """
    if not isinstance(rows, int):
        shape = getattr(rows, "shape", None)
        try:
            rows = int(shape[0] if shape else len(rows))
        except TypeError:  # a dask frame does not know
            rows = LOOKED + 1
    if single_threaded_blas.limit == 1:
        return nullcontext()  # held already, by who knows of this work
    if rows <= ALONE or (rows <= LOOKED and is_crowded()):
        return single_threaded_blas()
    threads = get_config().threads
    return single_threaded_blas(threads) if threads < (os.cpu_count() or 1) else nullcontext()


#: Multiplications from which BLAS shares a product with one row, and those up to which one thread
#: has done it before another, that waits for its turn on a busy core, has begun.
SHARED, ALONE_IN = 2**13, 2**22


def blas_for_values(multiplications: float) -> AbstractContextManager:
    """Hold BLAS to one thread for a product of microseconds that it would share.

    Parameters
    ----------
    multiplications : float
        How many there are.
    """
    return single_threaded_blas() if SHARED < multiplications <= ALONE_IN else nullcontext()


#: Kernel values up to which our own threads are not started beside busy cores: who waits for the
#: last of them waits until it has had its turn.
FEW_VALUES = 2**22


def threads_for(values: float) -> int:
    """Return how many threads of our own pay for work on so many values: one or all allowed."""
    threads = get_config().threads
    return 1 if threads > 1 and values <= FEW_VALUES and is_crowded() else threads


#: Seconds for which what was seen of other processes is believed: a look takes 0.1 ms.
BELIEVED = 0.02


def is_crowded() -> bool:
    """Whether other processes keep so many cores busy that less than half of ours would be idle.

    Linux tells how many threads run at this moment, our own among them; elsewhere it is not known.
    """
    global _seen
    now, threads = time.monotonic(), get_config().threads
    if not (_seen[0] <= now < _seen[0] + BELIEVED and _seen[1] == threads):
        _seen = now, threads, _look_around()
    return _seen[2]


_seen: tuple[float, int, bool] = (0.0, 0, False)  # when, for how many threads of ours, and what


def _look_around() -> bool:
    try:
        with open("/proc/loadavg") as told:
            running = int(told.read().split()[3].partition("/")[0])
        cores = os.cpu_count() or 1
        if running <= 1 or 2 * (cores - (running - 1)) > get_config().threads:
            return False
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/stat") as told:
                running -= told.read().rpartition(")")[2].split()[0] == "R"
    except (OSError, ValueError, IndexError):
        return False
    return 2 * (cores - running) <= get_config().threads


@contextmanager
def one_openmp_thread() -> Iterator[None]:
    """Keep OpenMP to the thread that asks, in libraries that use it.

    A forked child waits for ever for the threads that its parent's OpenMP had; one alone waits for
    nobody. And sums are taken in one order, whatever the number of cores.
    """
    import sklearn.cluster  # noqa: F401  (it brings the library that is to be found)

    libraries = _libraries("openmp")
    before = [library.num_threads for library in libraries]
    for library in libraries:
        library.set_num_threads(1)
    try:
        yield
    finally:
        for library, threads in zip(libraries, before, strict=True):
            library.set_num_threads(threads)


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


@lru_cache(maxsize=2)
def _libraries(kind: str = "blas") -> list[Any]:
    """Return the libraries of a kind in this process, whose numbers of threads can be set."""
    import scipy.linalg  # noqa: F401  (SciPy's BLAS must be loaded to be found)
    from threadpoolctl import ThreadpoolController

    found = ThreadpoolController().lib_controllers
    return [library for library in found if library.user_api == kind]


def blas_versions() -> list[str]:
    """Return what is known of each BLAS of the process: its name, version and kind of processor."""
    told = ("internal_api", "version", "architecture", "threading_layer")
    return sorted(" ".join(str(getattr(b, word, "")) for word in told) for b in _libraries())


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


@contextmanager
def without_collections() -> Iterator[None]:
    """Let the collector of cycles rest while a library is loaded or a loop compiled.

    What is made then stays, and to look through it and through all that is there already, again and
    again, takes half of the time.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


# ---- Threads that Ctrl-C does not wait for ----


T = TypeVar("T")
POLL = 0.1  # seconds after which one who waits looks up


@contextmanager
def workers(threads: int, stop: threading.Event | None = None) -> Iterator[ThreadPoolExecutor]:
    """Open a pool of threads for a block; when the block raises, what has not begun never does.

    Parameters
    ----------
    threads : int
        How many.
    stop : Event, optional
        What tasks look at that take long; set when the block raises.
    """
    pool = Pool(threads)
    try:
        yield pool
    except BaseException:
        if stop is not None:
            stop.set()
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def shared_out(
    tasks: Iterable[Any],
    work: Callable[[Any], None],
    threads: int,
    stop: threading.Event,
    progress: Progress,
) -> None:
    """Apply ``work`` to every task, in this thread and in others beside it.

    What is raised anywhere ends it after the tasks in hand, and is raised here.

    Parameters
    ----------
    tasks : iterable
        What to do, the longest first.
    work : callable
        Does a task.
    threads : int
        How many, this one among them.
    stop : Event
        What tasks look at that take long; set when one has failed.
    progress : Progress
        Counts them.
    """
    waiting, claim = iter(tasks), threading.Lock()
    errors: list[BaseException] = []
    none = object()

    def take_turns() -> None:
        try:
            while not stop.is_set():
                with claim:
                    task = next(waiting, none)
                if task is none:
                    return
                work(task)
                with claim:
                    progress.step()
        except BaseException as error:  # raised by the caller
            errors.append(error)
            stop.set()

    others: list[threading.Thread] = []
    try:
        for _ in range(min(threads - 1, _affordable(threads))):
            others.append(threading.Thread(target=inheriting(take_turns)))
            try:
                others[-1].start()
            except (RuntimeError, MemoryError):  # the system starts no more threads
                break
        take_turns()
    except BaseException as error:  # Ctrl-C outside of a task
        errors.append(error)
        stop.set()
    for other in others:
        if other.ident is not None:  # it was started
            other.join()
    if errors:
        raise errors[0]


def inheriting(work: Callable[..., T]) -> Callable[..., T]:
    """Return a call for another thread, under the config(...) and np.errstate of this one.

    It may be called once at a time.

    Parameters
    ----------
    work : callable
        What to call there.
    """
    import numpy as np

    errors: Any = np.geterr() | {"call": np.geterrcall()}

    def run(*args: Any, **options: Any) -> T:
        with np.errstate(**errors):  # before NumPy 2 they are no part of the context
            return work(*args, **options)

    return partial(copy_context().run, run)


def listening(work: Callable[..., T], *args: Any, **options: Any) -> T:
    """Return what a call returns that hears no Ctrl-C itself: a thread makes it, this one listens.

    Ctrl-C is raised here at once. The thread goes on to its end, with the arrays it holds, and
    what it returns is dropped: so the call must write to nothing that anybody uses afterwards.
    Python gives signals to the main thread only; any other makes the call itself.

    Parameters
    ----------
    work : callable
        What to call; it must let go of Python's lock.
    *args, **options : object
        What to call it with.
    """
    if threading.current_thread() is not threading.main_thread():
        return work(*args, **options)
    answers: list[T] = []
    errors: list[BaseException] = []
    ended = threading.Event()  # join() of Python 3.11 takes an interrupted wait for the end

    def run() -> None:
        try:
            answers.append(work(*args, **options))
        except BaseException as error:  # raised again below
            errors.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=inheriting(run), daemon=True)
    try:
        thread.start()
        while not ended.wait(POLL):
            pass
    except BaseException:
        if thread.ident is not None:
            _left.append(ended)
        raise
    if errors:
        raise errors.pop()
    return answers.pop()


_left: list[threading.Event] = []  # the ends of calls that nobody waits for


def left_behind() -> list[threading.Event]:
    """Return the ends to come of calls whose callers were interrupted."""
    _left[:] = [ended for ended in _left if not ended.is_set()]
    return list(_left)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_left.clear)


@atexit.register
def _let_them_end() -> None:
    """Wait for calls that are left, before BLAS waits for threads of its own that they hold.

    Where Ctrl-C ends the process itself, that is by a signal, and nobody waits.
    """
    ends = isinstance(getattr(sys, "last_value", None), KeyboardInterrupt)
    if not ends or hasattr(sys, "ps1"):
        for ended in left_behind():
            ended.wait()


# ---- Read the next item in a thread while the present one is worked on ----


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

    thread = threading.Thread(target=inheriting(work), daemon=True)
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
