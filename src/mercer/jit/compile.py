"""How every loop is compiled: cached, without the GIL, never with Numba's own threads.

Numba does not hear Ctrl-C well: half imported, it cannot be imported again, and in the middle of a
compilation the signal is lost. So another thread imports it and compiles, while the caller listens.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

from mercer.threads import listening, without_collections

with without_collections():
    listening(import_module, "numba")

from numba import config
from numba.core.caching import FunctionCache
from numba.core.registry import CPUDispatcher

PATIENCE = 0.7  # seconds after which a person at a terminal is told what takes so long


class ForgivingCache(FunctionCache):
    """Numba's files of compiled code; one that is damaged or cannot be written stops no work."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what is in the file, or None, to compile anew."""
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # what is no pickle may raise anything
            index = f"{self.cache_path}/{self._impl.filename_base}.nbi"
            try:
                self.flush()
            except OSError:
                self.disable()
                warnings.warn(
                    f"mercer: the compiled code of {index!r} cannot be read "
                    f"({type(error).__name__}: {error}), and the file cannot be replaced. It is "
                    "compiled anew in every process; remove the file.",
                    stacklevel=2,
                )
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write the code, where that is possible."""
        try:
            super().save_overload(sig, data)
        except Exception as error:
            self.disable()
            why = getattr(error, "strerror", None) or type(error).__name__
            warnings.warn(
                f"mercer: compiled code cannot be kept in {self.cache_path!r} ({why}), so it is "
                "compiled anew in every process; make room there, or let NUMBA_CACHE_DIR name "
                "another folder.",
                stacklevel=2,
            )


class Loop(CPUDispatcher):
    """A function of Numba's that hears Ctrl-C while it is compiled."""

    def enable_caching(self) -> None:
        """Keep compiled code on disk; without a folder for it, compile anew in every process."""
        with suppress(RuntimeError):  # Numba: "cannot cache function: no locator available"
            self._cache = ForgivingCache(self.py_func)

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        """Compile for the types of a call that are new; tell a person who waits for it."""
        teller = threading.Timer(PATIENCE, _tell_once)
        teller.daemon = True
        try:
            if sys.stderr is not None and sys.stderr.isatty() and not _told:
                with suppress(RuntimeError):  # the system starts no more threads
                    teller.start()
            with without_collections():
                return listening(super()._compile_for_args, *args, **kws)
        finally:
            teller.cancel()


_told: list[bool] = []  # whether the line was written in this process


def _tell_once() -> None:
    if not _told:
        _told.append(True)
        sys.stderr.write("mercer: compiles its loops; it does so once on this machine.\n")
        sys.stderr.flush()


def compiled(function: Callable) -> Any:
    """Compile a function with mercer's options, when it is called."""
    if config.DISABLE_JIT:
        return function
    options = {"nopython": True, "nogil": True, "fastmath": {"contract", "nsz"}}
    options |= {"boundscheck": None, "no_cfunc_wrapper": True}
    loop = Loop(py_func=function, targetoptions=options)
    loop.enable_caching()
    return loop
